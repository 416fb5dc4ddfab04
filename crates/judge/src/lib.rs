//! Envoy's own word on what would be sent to it, before it is sent.
//!
//! A process of the proxies' Envoy reads a bootstrap with a batch of [fragments](envoy::judged::Fragment), says whether it takes
//! them, and ends (`envoy --mode validate`). It serves nothing, asks nobody, and has no state that outlives a batch. The next one
//! is started ahead and waits for its bootstrap, which saves most of the time that one row takes.
//!
//! A [`Judge`] remembers what was accepted, sends what is new, and where a batch is refused finds by halves whom to blame. It asks
//! a [`Runner`] in this process, or by a [`Client`] an [agent](agent::serve) in another container, which has the proxies' image.
//! Either way each Envoy is [confined](confine): what a tenant has it read, it cannot send anywhere.
//!
//! Who is to blame is found by a [`Search`], which others use too: it asks, and somebody else tries.
//!
//! What an agent says is not trusted with more than the verdict: it can lie, but neither stall its client nor fill it.

pub mod agent;
mod cache;
mod client;
pub mod confine;
mod frame;
mod judging;
mod outcome;
mod process;
mod runner;
mod search;
mod verdict;
mod words;

pub use client::Client;
pub use judging::{Ends, Judge, Way, batches};
pub use outcome::{Build, Job, Outcome};
pub use process::Launch;
pub use runner::{Runner, StartError};
pub use search::{Budget, Found, Search};
pub use verdict::{How, Refusal, Verdict};
pub use words::one_line;
