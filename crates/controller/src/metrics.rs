//! What is counted, and under which name: every one begins with `portcullis_`.

use api::ObjectId;
use ir::Reason;
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

label! {
    /// What came of a batch that was judged.
    OutcomeLabel { outcome }
}

/// A part of what is sent that an Envoy refuses.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct RefusedFragmentLabels {
    /// What it is.
    pub kind: &'static str,
    /// How it was refused.
    pub how: &'static str,
}

/// What is replaced by a direct response.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct ReplacementLabels {
    /// The Gateway's namespace.
    pub gateway_namespace: String,
    /// The Gateway's name.
    pub gateway: String,
    /// What is replaced: `route`, `virtual_host` or `route_configuration`; or `stream`, whose connections are closed.
    pub scope: &'static str,
    /// Why, in one word.
    pub reason: &'static str,
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
    pub fn of(policy: &ObjectId, reason: Reason) -> Self {
        Self {
            policy_kind: policy.kind.to_string(),
            namespace: policy.namespace.to_string(),
            policy: policy.name.to_string(),
            reason: reason.as_str(),
        }
    }
}

/// Declares metrics: the field, its type, how it begins unless empty, the name, and what it counts.
macro_rules! metrics {
    (
        { $($part:ident: $parts:ty,)+ }
        $($field:ident: $type:ty $(= $begin:expr)? => $name:literal, $help:literal;)+
    ) => {
        /// All metrics of the process. Clones count the same.
        #[derive(Clone, Debug)]
        pub struct Metrics {
            $(#[doc = concat!("Those of [`", stringify!($parts), "`].")] pub $part: $parts,)+
            $(#[doc = concat!($help, ".")] pub $field: $type,)+
        }

        impl Default for Metrics {
            fn default() -> Self {
                Self {
                    $($part: Default::default(),)+
                    $($field: metrics!(@begin $($begin)?),)+
                }
            }
        }

        impl Metrics {
            /// The names and descriptions under which the metrics are shown.
            pub fn registry(&self) -> Registry {
                let mut all = Registry::with_prefix("portcullis");
                $(all.register($name, $help, self.$field.clone());)+
                $(self.$part.register(&mut all);)+
                all
            }
        }
    };
    (@begin) => { Default::default() };
    (@begin $begin:expr) => { $begin };
}

metrics! {
    {
        watches: cluster::watch::Metrics,
        statuses: cluster::status::Metrics,
        applies: cluster::apply::Metrics,
        xds: xds::Metrics,
    }
    events: Family<SourceLabel, Counter> => "events", "Events, by where they come from";
    batches: Counter => "batches", "Batches of events";
    batch_events: Histogram = Histogram::new(exponential_buckets(1.0, 4.0, 6)) => "batch_events", "Events in a batch";
    settle_seconds: Histogram = Histogram::new(exponential_buckets(0.000_01, 4.0, 10))
        => "settle_seconds", "Time to settle and publish a batch";
    rows: Counter => "rows_computed", "Rows of the engine that were computed";
    resources: Family<xds::TypeLabel, Counter> => "resources_changed", "Envoy resources that changed or went, by type";
    bytes: Family<xds::TypeLabel, Counter> => "resources_changed_bytes", "Bytes of Envoy resources that changed, by type";
    stale_watches: Family<KindLabel, Gauge> => "watch_stale", "Kinds that cannot be watched: 1, or 0 once they can again";
    undecodable: Family<KindLabel, Counter>
        => "undecodable_objects", "Objects that could not be decoded although their schema let them through, by kind";
    leader: Gauge => "leader", "Whether this replica writes statuses and runs proxies";
    refused_streams: Family<ReasonLabel, Counter>
        => "xds_refused", "xDS streams and connections that were not let in, by reason";
    streams: Gauge => "xds_streams", "Open xDS streams";
    nacks: Family<RefusalLabels, Counter> => "xds_nacks", "Updates that proxies refused, by Gateway and type";
    outdated_streams: Family<GatewayLabel, Counter>
        => "xds_outdated_streams", "Streams of proxies that are too old to be sent listeners and routes, by Gateway";
    unknown_names: Family<GatewayLabel, Counter>
        => "xds_unknown_names", "Names that proxies asked for and their Gateway does not have";
    gates_expired: Counter => "xds_gates_expired", "Waits for a proxy that ended by their bound";
    gateways: Gauge => "gateways", "Gateways that are served";
    published_unasked: Gauge
        => "routes_published_unasked", "Routes that name no parent and that an HTTPRoute of another namespace publishes";
    problems: Family<SeverityLabel, Gauge> => "problems", "Problems of objects, manifests and files, by severity";
    active_replacements: Family<ReplacementLabels, Gauge>
        => "active_replacements", "What is replaced by a direct response because it is broken";
    replacements: Family<ReplacementLabels, Counter>
        => "invalid_route_replacements", "Times that something valid broke and was replaced by a direct response";
    policy_failures: Family<PolicyLabels, Counter>
        => "policy_validation_failures", "Times that a policy turned invalid, of those that are";
    poisoned_rows: Gauge
        => "poisoned_rows", "Rows of the engine that panic when they are computed: errors of Portcullis itself";
    internal_faults: Counter => "internal_faults", "Times that a row of the engine panicked";
    quarantined_objects: Gauge
        => "quarantined_objects", "Objects that are set aside because Portcullis fails on them: errors of Portcullis itself";
    unreadable_records: Gauge => "records_unreadable", "Whether it cannot be read which objects are set aside, or what proxies refused";
    quarantined_fragments: Gauge => "quarantined_fragments", "Parts that answer by themselves since a proxy refused them";
    nack_isolations: Family<OutcomeLabel, Counter>
        => "nack_isolations", "Times that it was looked who is to blame for what a proxy refused, by what came of it";
    nack_isolation_seconds: Histogram = Histogram::new(exponential_buckets(0.01, 3.0, 9))
        => "nack_isolation_seconds", "Time until it was known who is to blame for what a proxy refused";
    nack_trials: Family<OutcomeLabel, Counter>
        => "nack_trials", "Times that a proxy was asked about routes that it refused, by what it said";
    frozen_trees: Family<ReasonLabel, Gauge>
        => "frozen_trees", "Trees of routes, and policies of Gateways, that are served as they were before, by reason";
    withheld_changes: Gauge
        => "withheld_changes", "Routes and policies whose change is not served yet, since their tree is served as it was before";
    edition_commits: Family<OutcomeLabel, Counter>
        => "edition_commits", "Versions of trees that were to be stored, by what came of it";
    edition_bytes: Gauge => "edition_bytes", "Bytes of what is kept of trees of routes";
    unreadable_editions: Gauge => "editions_unreadable", "Records of what is kept of trees that cannot be read";
    validation_seconds: Histogram = Histogram::new(exponential_buckets(0.005, 3.0, 9))
        => "validation_seconds", "Time in which Envoy judged a batch, and who is to blame was found";
    validation_batches: Family<OutcomeLabel, Counter> => "validation_batches", "Batches that Envoy judged, by what came of it";
    validation_pending: Gauge => "validation_pending", "Parts of what shall be sent that wait for Envoy's word";
    validation_waived: Gauge => "validation_waived", "Parts of what is sent that no Envoy has judged, for want of one";
    validation_refused: Family<RefusedFragmentLabels, Counter>
        => "validation_refused", "Parts of what would be sent that Envoy refused, by kind, and how";
    validation_unjudged_versions: Gauge
        => "validation_unjudged_versions", "Versions of proxies that are another one than that of the Envoy that judges";
    validation_available: Gauge => "validation_available", "Whether an Envoy can be asked before anything is sent";
    files: Gauge => "files", "Manifest files";
    files_broken: Gauge => "files_broken", "Manifest files that do not parse or cannot be read";
    envoy_starts: Family<GatewayLabel, Counter> => "envoy_starts", "Starts of supervised Envoys";
}

/// The `OpenMetrics` text format, which Prometheus reads.
pub fn render(registry: &Registry) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _: Result<(), std::fmt::Error> = text::encode(&mut text, registry);
    text
}
