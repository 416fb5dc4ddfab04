//! What is counted of applying.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

/// A kind of object and how an attempt at one ended: `applied`, `deleted`, `conflict`, `refused` or `retry`.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct Labels {
    /// The kind.
    pub kind: &'static str,
    /// How it ended.
    pub result: &'static str,
}

/// Metrics of the applier. Clones count the same.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    /// Attempts at an object by how they ended.
    pub applies: Family<Labels, Counter>,
    /// Objects that somebody else changed or deleted.
    pub foreign_changes: Counter,
    /// Gateways whose objects are to be looked at, or are being worked on.
    pub queue: Gauge,
    /// Objects that could not be applied, or deleted, when that was tried last.
    pub failures: Gauge,
}

impl Metrics {
    /// Shows them in a registry.
    pub fn register(&self, registry: &mut Registry) {
        let applies = "Attempts to apply or delete an object that runs proxies, by kind and result";
        registry.register("applies", applies, self.applies.clone());
        let foreign = "Objects that run proxies and that somebody else changed or deleted";
        registry.register("apply_foreign_changes", foreign, self.foreign_changes.clone());
        let queue = "Gateways whose proxies are to be looked at or worked on";
        registry.register("apply_queue", queue, self.queue.clone());
        let failures = "Objects that run proxies and are not as they should be, since the last attempt failed";
        registry.register("apply_failures", failures, self.failures.clone());
    }
}
