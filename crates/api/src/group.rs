//! API groups.

/// The API group of Gateway API.
pub const GROUP: &str = "gateway.networking.k8s.io";

/// The API group of TrafficPolicy, DirectResponse, Backend and GatewayParameters.
pub const KGATEWAY_GROUP: &str = "gateway.kgateway.dev";

/// The API group of the kinds that are Portcullis' own.
pub const PORTCULLIS_GROUP: &str = "gateway.portcullis.dev";
