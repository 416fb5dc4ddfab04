//! What is counted of watching.

use std::sync::{
    Arc, Mutex, PoisonError, Weak,
    atomic::{AtomicU64, Ordering},
};

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};
use tokio::time::Instant;

/// A kind of object.
#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
pub struct KindLabel {
    /// The kind.
    pub kind: &'static str,
}

/// A kind of object, and why a watch of it did not go on: `connection` (or what came over it is not what an API server
/// writes), `ended` (at once after it began), `expired`, `forbidden`, `not_found`, `overloaded`, `refused`,
/// `server_error`, `silent`, `timeout` or `unsupported`.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct ErrorLabels {
    /// The kind.
    pub kind: &'static str,
    /// Why.
    pub reason: &'static str,
}

/// Metrics of watches. Clones count the same.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    /// Changes that came, those of lists included.
    pub events: Family<KindLabel, Counter>,
    /// Requests that came to nothing, or ended before their time.
    pub errors: Family<ErrorLabels, Counter>,
    /// Lists that were read to their end. Each watch begins with one; any more is a relist.
    pub lists: Family<KindLabel, Counter>,
    /// Seconds since an API server last sent anything of a kind; where several namespaces are watched, in the one where that
    /// is longest ago. A quiet watch has a bookmark about each minute. Up to date after [`Metrics::refresh`].
    pub silence: Family<KindLabel, Gauge<f64, AtomicU64>>,
    reflectors: Arc<Mutex<Vec<Weak<LastContact>>>>,
}

impl Metrics {
    /// Shows them in a registry.
    pub fn register(&self, registry: &mut Registry) {
        let events = "Changes that API servers told of, those of lists included, by kind";
        registry.register("watch_events", events, self.events.clone());
        let errors = "Requests of watches that failed or ended before their time, by kind and reason";
        registry.register("watch_errors", errors, self.errors.clone());
        registry.register("watch_lists", "Lists that were read to their end, by kind", self.lists.clone());
        let silence = "Time since the API server was last heard of a kind";
        registry.register("watch_silence_seconds", silence, self.silence.clone());
    }

    /// Looks how long nothing came: for whoever is about to read the metrics.
    pub fn refresh(&self) {
        let now = Instant::now();
        let mut longest = std::collections::BTreeMap::<_, f64>::new();
        self.reflectors.lock().unwrap_or_else(PoisonError::into_inner).retain(|last_contact| {
            let Some(last_contact) = last_contact.upgrade() else { return false };
            let silence = longest.entry(KindLabel { kind: last_contact.kind }).or_default();
            *silence = silence.max(last_contact.silence(now));
            true
        });
        self.silence.clear();
        for (kind, seconds) in longest {
            self.silence.get_or_create(&kind).set(seconds);
        }
    }

    /// What a watch of this kind counts. Until it is dropped the watch is there.
    pub(super) fn reflector(&self, kind: &'static str) -> ReflectorMetrics {
        let label = KindLabel { kind };
        let last_contact = Arc::new(LastContact { kind, since: Instant::now(), millis: AtomicU64::default() });
        let mut reflectors = self.reflectors.lock().unwrap_or_else(PoisonError::into_inner);
        reflectors.push(Arc::downgrade(&last_contact));
        ReflectorMetrics {
            last_contact,
            events: self.events.get_or_create(&label).clone(),
            lists: self.lists.get_or_create(&label).clone(),
            errors: self.errors.clone(),
        }
    }
}

/// When the API server last sent something.
#[derive(Debug)]
struct LastContact {
    kind: &'static str,
    since: Instant,
    /// From then on.
    millis: AtomicU64,
}

impl LastContact {
    fn silence(&self, now: Instant) -> f64 {
        let last_contact = std::time::Duration::from_millis(self.millis.load(Ordering::Relaxed));
        now.saturating_duration_since(self.since).saturating_sub(last_contact).as_secs_f64()
    }
}

/// What one watch counts.
#[derive(Debug)]
pub(super) struct ReflectorMetrics {
    last_contact: Arc<LastContact>,
    events: Counter,
    lists: Counter,
    errors: Family<ErrorLabels, Counter>,
}

impl ReflectorMetrics {
    /// The API server sent something.
    pub(super) fn contact(&self) {
        let millis = u64::try_from(self.last_contact.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_contact.millis.store(millis, Ordering::Relaxed);
    }

    /// Changes came.
    pub(super) fn events(&self, count: usize) {
        self.events.inc_by(count as u64);
    }

    /// A list is complete.
    pub(super) fn listed(&self) {
        self.lists.inc();
    }

    /// A request failed.
    pub(super) fn failed(&self, reason: &'static str) {
        self.errors.get_or_create(&ErrorLabels { kind: self.last_contact.kind, reason }).inc();
    }
}
