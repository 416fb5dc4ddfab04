//! What is counted, and how it is called: every name begins with `portcullis_`.

use std::sync::atomic::AtomicU64;

use api::ObjectId;
use prometheus_client::{
    encoding::{EncodeLabelSet, text},
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};

/// A label set with one label.
macro_rules! label {
    ($(#[doc = $doc:literal])+ $name:ident { $field:ident }) => {
        $(#[doc = $doc])+
        #[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
        pub struct $name {
            /// Its value.
            pub $field: String,
        }

        impl $name {
            /// The label with this value.
            pub fn of(value: impl Into<String>) -> Self {
                Self { $field: value.into() }
            }
        }
    };
}

label! {
    /// Where an event comes from.
    SourceLabel { source }
}
label! {
    /// A Gateway, `NAMESPACE/NAME`.
    GatewayLabel { gateway }
}

/// A Gateway and a type of Envoy resource.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct RefusalLabels {
    /// `NAMESPACE/NAME`.
    pub gateway: String,
    /// The type.
    pub r#type: String,
}

label! {
    /// How bad a problem is.
    SeverityLabel { severity }
}

label! {
    /// A kind of object.
    KindLabel { kind }
}
label! {
    /// Why a stream was not let in.
    ReasonLabel { reason }
}

/// What is replaced by a direct response.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct ReplacementLabels {
    /// The Gateway's namespace.
    pub gateway_namespace: String,
    /// The Gateway's name.
    pub gateway: String,
    /// What is replaced: `route`, `virtual_host` or `route_configuration`.
    pub scope: &'static str,
    /// Why, in one word.
    pub reason: String,
}

/// A policy that is not valid.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct PolicyLabels {
    /// The policy's kind.
    pub policy_kind: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub policy: String,
    /// Why it is not valid, in one word.
    pub reason: &'static str,
}

impl PolicyLabels {
    /// Those of a policy.
    pub fn of(policy: &ObjectId, reason: &'static str) -> Self {
        Self {
            policy_kind: policy.kind.to_string(),
            namespace: policy.namespace.to_string(),
            policy: policy.name.to_string(),
            reason,
        }
    }
}

/// All metrics of the process. Clones count the same.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// Events by where they come from.
    pub events: Family<SourceLabel, Counter>,
    /// Batches of events.
    pub batches: Counter,
    /// How many events a batch had.
    pub batch_events: Histogram,
    /// How long settling a batch took, publishing included.
    pub settle_seconds: Histogram,
    /// Rows that were computed.
    pub rows: Counter,
    /// Resources that changed, by type.
    pub resources: Family<xds::TypeLabel, Counter>,
    /// Their bytes.
    pub bytes: Family<xds::TypeLabel, Counter>,
    /// Kinds that cannot be watched.
    pub stale_watches: Family<KindLabel, Gauge>,
    /// Objects that could not be decoded, although their schema let them through.
    pub undecodable: Family<KindLabel, Counter>,
    /// Streams that were not let in, by reason.
    pub refused_streams: Family<ReasonLabel, Counter>,
    /// Whether this replica leads.
    pub leader: Gauge,
    /// Statuses that are written.
    pub statuses: cluster::status::Metrics,
    /// Watches.
    pub watches: cluster::watch::Metrics,
    /// Applying of what runs proxies.
    pub applies: cluster::apply::Metrics,
    /// What is sent to proxies.
    pub xds: xds::Metrics,
    /// Open xDS streams.
    pub streams: Gauge,
    /// Updates that proxies refused.
    pub nacks: Family<RefusalLabels, Counter>,
    /// Streams of proxies that are too old for listeners and routes.
    pub outdated_streams: Family<GatewayLabel, Counter>,
    /// Names that proxies asked for and their Gateway does not have.
    pub unknown_names: Family<GatewayLabel, Counter>,
    /// Waits for a proxy that were ended by their bound.
    pub gates_expired: Counter,
    /// Gateways that are served.
    pub gateways: Gauge,
    /// Routes that name no parent and are published by one of another namespace.
    pub published_unasked: Gauge,
    /// Problems by severity.
    pub problems: Family<SeverityLabel, Gauge>,
    /// What is replaced by a direct response at the moment.
    pub active_replacements: Family<ReplacementLabels, Gauge>,
    /// How often something that was valid was replaced.
    pub replacements: Family<ReplacementLabels, Counter>,
    /// How often a policy that was valid, or not there, turned invalid; only of those that still are.
    pub policy_failures: Family<PolicyLabels, Counter>,
    /// Rows that panic at the moment.
    pub poisoned_rows: Gauge,
    /// How often a row that was sound, or not there, panicked, or did so in another way.
    pub internal_faults: Counter,
    /// Files there are.
    pub files: Gauge,
    /// Files that do not parse or cannot be read.
    pub files_broken: Gauge,
    /// How often a supervised Envoy was started.
    pub envoy_starts: Family<GatewayLabel, Counter>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            events: Family::default(),
            batches: Counter::default(),
            batch_events: Histogram::new(exponential_buckets(1.0, 4.0, 6)),
            settle_seconds: Histogram::new(exponential_buckets(0.000_01, 4.0, 10)),
            rows: Counter::default(),
            resources: Family::default(),
            bytes: Family::default(),
            stale_watches: Family::default(),
            undecodable: Family::default(),
            refused_streams: Family::default(),
            leader: Gauge::default(),
            statuses: cluster::status::Metrics::default(),
            watches: cluster::watch::Metrics::default(),
            applies: cluster::apply::Metrics::default(),
            xds: xds::Metrics::default(),
            streams: Gauge::default(),
            nacks: Family::default(),
            outdated_streams: Family::default(),
            unknown_names: Family::default(),
            gates_expired: Counter::<u64, AtomicU64>::default(),
            gateways: Gauge::default(),
            published_unasked: Gauge::default(),
            problems: Family::default(),
            active_replacements: Family::default(),
            replacements: Family::default(),
            policy_failures: Family::default(),
            poisoned_rows: Gauge::default(),
            internal_faults: Counter::default(),
            files: Gauge::default(),
            files_broken: Gauge::default(),
            envoy_starts: Family::default(),
        }
    }
}

impl Metrics {
    /// The names and descriptions under which the metrics are shown.
    pub fn registry(&self) -> Registry {
        let mut all = Registry::with_prefix("portcullis");
        all.register("events", "Events, by where they come from", self.events.clone());
        all.register("batches", "Batches of events", self.batches.clone());
        all.register("batch_events", "Events in a batch", self.batch_events.clone());
        all.register("settle_seconds", "Time to settle and publish a batch", self.settle_seconds.clone());
        all.register("rows_computed", "Rows of the engine that were computed", self.rows.clone());
        all.register("resources_changed", "Envoy resources that changed or went, by type", self.resources.clone());
        all.register("resources_changed_bytes", "Bytes of Envoy resources that changed, by type", self.bytes.clone());
        let stale = "Kinds that cannot be watched: 1, or 0 once they can again";
        all.register("watch_stale", stale, self.stale_watches.clone());
        let undecodable = "Objects that could not be decoded although their schema let them through, by kind";
        all.register("undecodable_objects", undecodable, self.undecodable.clone());
        all.register("leader", "Whether this replica writes statuses and runs proxies", self.leader.clone());
        self.watches.register(&mut all);
        self.statuses.register(&mut all);
        self.applies.register(&mut all);
        self.xds.register(&mut all);
        let refused = "xDS streams and connections that were not let in, by reason";
        all.register("xds_refused", refused, self.refused_streams.clone());
        all.register("xds_streams", "Open xDS streams", self.streams.clone());
        all.register("xds_nacks", "Updates that proxies refused, by Gateway and type", self.nacks.clone());
        let outdated = "Streams of proxies that are too old to be sent listeners and routes, by Gateway";
        all.register("xds_outdated_streams", outdated, self.outdated_streams.clone());
        let unknown = "Names that proxies asked for and their Gateway does not have";
        all.register("xds_unknown_names", unknown, self.unknown_names.clone());
        all.register("xds_gates_expired", "Waits for a proxy that ended by their bound", self.gates_expired.clone());
        all.register("gateways", "Gateways that are served", self.gateways.clone());
        let unasked = "Routes that name no parent and that an HTTPRoute of another namespace publishes";
        all.register("routes_published_unasked", unasked, self.published_unasked.clone());
        all.register("problems", "Problems of objects, manifests and files, by severity", self.problems.clone());
        let active = "What is replaced by a direct response because it is broken";
        all.register("active_replacements", active, self.active_replacements.clone());
        let replaced = "Times that something valid broke and was replaced by a direct response";
        all.register("invalid_route_replacements", replaced, self.replacements.clone());
        let invalid = "Times that a policy turned invalid, of those that are";
        all.register("policy_validation_failures", invalid, self.policy_failures.clone());
        let poisoned = "Rows of the engine that panic when they are computed: errors of Portcullis itself";
        all.register("poisoned_rows", poisoned, self.poisoned_rows.clone());
        all.register("internal_faults", "Times that a row of the engine panicked", self.internal_faults.clone());
        all.register("files", "Manifest files", self.files.clone());
        all.register("files_broken", "Manifest files that do not parse or cannot be read", self.files_broken.clone());
        all.register("envoy_starts", "Starts of supervised Envoys", self.envoy_starts.clone());
        all
    }
}

/// The `OpenMetrics` text format, which Prometheus reads.
pub fn render(registry: &Registry) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _: Result<(), std::fmt::Error> = text::encode(&mut text, registry);
    text
}
