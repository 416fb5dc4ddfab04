//! What is counted of the writing of statuses.

use std::sync::atomic::AtomicI64;

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};

/// How a write ended: `written`, `conflict`, `gone`, `refused` or `retry`.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct ResultLabel {
    /// Its value.
    pub result: &'static str,
}

/// Metrics of the status writer. Clones count the same.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// Writes by how they ended.
    pub writes: Family<ResultLabel, Counter>,
    /// Objects that were read because a conflict was not explained by the watch.
    pub reads: Counter,
    /// How often a status of ours was found to be overwritten by somebody else.
    pub overwritten: Counter,
    /// Objects whose status is to be compared or written, or is being written.
    pub queue: Gauge<i64, AtomicI64>,
    /// From the moment when another status was desired until it was written.
    pub seconds: Histogram,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            writes: Family::default(),
            reads: Counter::default(),
            overwritten: Counter::default(),
            queue: Gauge::default(),
            // From a millisecond to half a minute.
            seconds: Histogram::new(exponential_buckets(0.001, 2.0, 16)),
        }
    }
}

impl Metrics {
    /// Shows them in a registry.
    pub fn register(&self, registry: &mut Registry) {
        registry.register("status_writes", "Writes of statuses, by result", self.writes.clone());
        let reads = "Objects that were read because the watch did not explain a conflict";
        registry.register("status_reads", reads, self.reads.clone());
        let overwritten = "Statuses that somebody else was found to have overwritten with other words";
        registry.register("status_overwritten", overwritten, self.overwritten.clone());
        let queue = "Objects whose status is to be compared or written";
        registry.register("status_queue", queue, self.queue.clone());
        let seconds = "Time from a status being desired to its being written";
        registry.register("status_write_seconds", seconds, self.seconds.clone());
    }
}
