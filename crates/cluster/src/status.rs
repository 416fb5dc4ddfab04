//! Writes statuses to their objects.

mod backoff;
mod compact;
mod condition;
mod merge;
mod metrics;
mod queue;
mod weave;

pub use self::{
    merge::{Desired, has_status, merge},
    metrics::{Metrics, ResultLabel},
    queue::{Job, Outcome, Queue, Report, Request, Step, Version},
};
