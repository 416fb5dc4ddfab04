//! Writes statuses to their objects.
//!
//! ```text
//! engine ── desired ──▶ ┌────────────┐ ── merge patch, with the version that it was made for ──▶ API server
//! watch ─── stored ───▶ │ reconciler │ ◀──────────── what the API server has now ────────────────┘
//! lease ─── lead ─────▶ └────────────┘
//! ```
//!
//! * [`merge()`] says what must be written so that an object's status says what is desired: a pure function.
//! * `reconciler` says when: a state machine without IO, around a work queue of objects.
//! * [`Writer`] is the handle, and [`Writer::run`] the IO.
//!
//! What holds:
//!
//! * A status that says what is desired is not written. Our own write that comes back through the watch causes nothing.
//! * Only entries of ours are touched. Each write names the `resourceVersion` that it was made for, so that no
//!   entry of another controller is lost.
//! * A newer status of an object replaces the one before it, and one request of an object is in flight at once.
//! * A status that somebody overwrites again and again is written ever more rarely, and `/readyz` says so.
//! * No failure is given up on. What the API server refuses is logged once, and tried ever more rarely until the object
//!   changes. While the API server is away, one request asks whether it is back.

mod compact;
mod condition;
mod merge;
mod metrics;
mod reconciler;
mod send;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use api::ObjectId;
use jiff::Timestamp;
use kube::{Client, Config};

pub use self::{
    merge::{Desired, merge},
    metrics::{Metrics, ResultLabel},
};
use self::{
    reconciler::{Job, Outcome, Reconciler, Request},
    send::{label, send},
};
use crate::{
    watch::Stored,
    workqueue::{Debounce, Dispatcher},
};

/// What serves traffic comes before what people read: while changes still come, the API server has other things to do, and
/// an object that turns once more is written once.
const DEBOUNCE: Debounce = Debounce { after: Duration::from_millis(50), max: Duration::from_millis(500) };

/// How the writer works.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Entries of this controller are ours.
    pub controller_name: Arc<str>,
    /// Who writes, as the API server notes it: two installations with one controller name are told apart by it.
    pub field_manager: Arc<str>,
    /// The most requests in flight at once.
    pub in_flight: usize,
    /// How long an answer may take.
    pub timeout: Duration,
}

impl Settings {
    /// 16 requests at once, which have ten seconds each.
    pub fn new(controller_name: impl Into<Arc<str>>) -> Self {
        Self {
            controller_name: controller_name.into(),
            field_manager: "portcullis".into(),
            in_flight: 16,
            timeout: Duration::from_secs(10),
        }
    }
}

/// A client for [`Writer::run`] and for a lease. It does not try again on its own, which would hide from the writer that
/// the API server is overloaded, and it shares no connection with watches.
pub fn client(mut config: Config) -> kube::Result<Client> {
    config.default_retry = false;
    Client::try_from(config)
}

/// Takes what is desired and what is stored, from any thread, and never waits for the API server. Clones are the same
/// writer.
#[derive(Clone, Debug)]
pub struct Writer(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    reconciler: Dispatcher<Reconciler>,
    settings: Settings,
    metrics: Metrics,
}

/// How many ancestors of a policy others than the controller of this name write, by the status that is stored.
pub fn foreign_ancestors(stored: &Stored, controller_name: &str) -> usize {
    stored.status.as_deref().map_or(0, |status| merge::foreign_ancestors(status.get(), controller_name))
}

impl Writer {
    /// A writer that knows nothing and writes nothing: it takes [`Writer::run`] and [`Writer::lead`].
    pub fn new(settings: Settings, metrics: Metrics) -> Self {
        let reconciler = Reconciler::new(Arc::clone(&settings.controller_name), settings.in_flight);
        let reconciler = Dispatcher::new(reconciler, DEBOUNCE, metrics.queue.clone());
        Self(Arc::new(Shared { reconciler, settings, metrics }))
    }

    /// What the status of an object shall say from now on, as JSON without `lastTransitionTime`; none if it is not ours to
    /// judge any more, and entries of ours are to go. Costs some microseconds: the text is kept, and compared elsewhere.
    pub fn desired(&self, id: &ObjectId, status: Option<&str>) {
        self.0.reconciler.update(|reconciler, now| reconciler.desired(id, status, now));
    }

    /// What the API server has, as the watch says; none if the object is gone.
    pub fn stored(&self, id: &ObjectId, stored: Option<&Stored>) {
        self.0.reconciler.update(|reconciler, now| reconciler.stored(id, stored, now));
    }

    /// How many ancestors of a policy other controllers write, by the status that is stored.
    pub fn foreign_ancestors(&self, stored: &Stored) -> usize {
        foreign_ancestors(stored, &self.0.settings.controller_name)
    }

    /// Whether this process writes. On taking over, everything is compared once.
    pub fn lead(&self, leads: bool) {
        self.0.reconciler.update(|reconciler, now| reconciler.lead(leads, now));
    }

    /// [`Writer::desired`] was called for every object that has a status, so that entries of ours on any other are stale
    /// and go. To be called once, after the first complete translation.
    pub fn complete(&self) {
        self.0.reconciler.update(Reconciler::complete);
    }

    /// Waits until no request is in flight: after [`Writer::lead`] with `false`, nothing of this process reaches the API
    /// server any more.
    pub async fn drained(&self) {
        self.0.reconciler.drained().await;
    }

    /// The objects whose status somebody overwrites again and again, a line for each who does, for people.
    pub fn contested(&self) -> Vec<String> {
        let mut contested = BTreeMap::<_, (String, usize)>::new();
        self.0.reconciler.with(|reconciler, now| {
            for (id, by) in reconciler.contested(now) {
                contested.entry(by.map(str::to_owned)).or_insert_with(|| (id.to_string(), 0)).1 += 1;
            }
        });
        let controller = &self.0.settings.controller_name;
        let line = |(by, (first, count)): (Option<String>, (String, usize))| {
            let others = if count > 1 { format!(" and {} others", count - 1) } else { String::new() };
            let by = by.map_or_else(|| "somebody".to_owned(), |by| format!("{by:?}"));
            format!(
                "{first}{others}: the status is overwritten by {by}; only one installation of a cluster may have the \
                 controller name {controller}"
            )
        };
        contested.into_iter().map(line).collect()
    }

    /// What is counted.
    pub fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    /// Writes, for ever; to be called once. Dropping the future ends it; what was in flight may have been written or not.
    ///
    /// `client` should come from [`client`].
    pub async fn run(&self, client: Client) {
        let bound = self.0.settings.timeout;
        let next = |reconciler: &mut Reconciler, now| {
            let next = reconciler.next(now, Timestamp::now());
            self.0.metrics.overwritten.inc_by(reconciler.take_overwritten());
            next.map(|job| {
                let (client, field_manager) = (client.clone(), Arc::clone(&self.0.settings.field_manager));
                async move {
                    let outcome = send(client, &job, &field_manager, bound).await;
                    (job, outcome)
                }
            })
        };
        self.0.reconciler.run(next, |(job, outcome)| self.finished(&job, &outcome)).await;
    }

    fn finished(&self, job: &Job, outcome: &Outcome) {
        let report = self.0.reconciler.with(|reconciler, now| reconciler.finished(&job.id, outcome, now));
        let metrics = &self.0.metrics;
        match job.request {
            Request::Read | Request::Who => drop(metrics.reads.inc()),
            Request::Write(_) => drop(metrics.writes.get_or_create(&ResultLabel { result: label(outcome) }).inc()),
        }
        if let Outcome::Done { other_writer: Some(by), .. } = outcome
            && self.0.reconciler.with(|reconciler, _| reconciler.named(&job.id, by))
        {
            let (object, controller) = (&job.id, &self.0.settings.controller_name);
            tracing::warn!(%object, by, %controller, "somebody else overwrites statuses; they are written ever more rarely");
        }
        if let Some(took) = report.took {
            metrics.seconds.observe(took.as_secs_f64());
        }
        if report.log
            && let Outcome::Refused { message: why, .. } | Outcome::Later { message: why, .. } = outcome
        {
            tracing::warn!(object = %job.id, why, "cannot write a status; it is tried again");
        }
    }
}
