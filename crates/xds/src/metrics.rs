//! What is counted of responses.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::resource::ResourceType;
use crate::stream::Response;

/// A type of resource, by the name of its message.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct TypeLabel {
    /// Its value.
    pub r#type: &'static str,
}

impl From<ResourceType> for TypeLabel {
    fn from(kind: ResourceType) -> Self {
        Self { r#type: kind.name() }
    }
}

/// Metrics of a server, see [`crate::Config::metrics`]. Clones count the same.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// Responses that were sent.
    pub responses: Family<TypeLabel, Counter>,
    /// Resources in them; a removal is none.
    pub resources: Family<TypeLabel, Counter>,
    /// Their bytes, before TLS.
    pub bytes: Family<TypeLabel, Counter>,
    /// From a response's being handed to the connection to its acknowledgement.
    pub ack_seconds: Family<TypeLabel, Histogram, fn() -> Histogram>,
}

/// From a millisecond to half a minute.
fn ack_seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 16))
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            responses: Family::default(),
            resources: Family::default(),
            bytes: Family::default(),
            ack_seconds: Family::new_with_constructor(ack_seconds),
        }
    }
}

impl Metrics {
    /// Shows them in a registry.
    pub fn register(&self, registry: &mut Registry) {
        registry.register("xds_responses", "Responses sent to proxies, by type", self.responses.clone());
        let resources = "Resources sent to proxies, by type";
        registry.register("xds_sent_resources", resources, self.resources.clone());
        registry.register("xds_sent_bytes", "Bytes of responses sent to proxies, by type", self.bytes.clone());
        let ack = "Time from a response being sent to its acknowledgement by the proxy, by type";
        registry.register("xds_ack_seconds", ack, self.ack_seconds.clone());
    }

    /// A response is sent.
    pub(crate) fn sent(&self, response: &Response) {
        let label = TypeLabel::from(response.kind);
        self.responses.get_or_create(&label).inc();
        self.resources.get_or_create(&label).inc_by(response.names.len() as u64);
        self.bytes.get_or_create(&label).inc_by(response.bytes() as u64);
    }
}
