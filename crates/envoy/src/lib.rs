//! Envoy's messages from the model: pure functions, each giving the bytes of one message.
//!
//! Nothing here judges its input: what Envoy would refuse was refused before (`validate`), so every builder is total.

use std::{net::IpAddr, time::Duration};

use envoy_types::pb::{
    envoy::config::core::v3::{
        AggregatedConfigSource, ApiVersion, ConfigSource, SocketAddress, TcpKeepalive, address,
        config_source::ConfigSourceSpecifier, socket_address::PortSpecifier,
    },
    google::protobuf::{BoolValue, Duration as ProtoDuration, UInt32Value},
};

pub mod alike;
pub mod body;
pub mod bootstrap;
pub mod bytes;
pub mod cel;
pub mod cluster;
pub mod extensions;
pub mod json;
pub mod judged;
pub mod listener;
pub mod misdirected;
pub mod replaced;
pub mod resource;
pub mod route;
pub mod secret;
pub mod slots;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod unserved;

pub use body::Body;
pub use resource::{Encoded, ResourceKey, ResourceKind};

/// Names of Envoy's extensions, which are part of its interface.
pub mod extension {
    pub(crate) const SET_METADATA: &str = "envoy.filters.http.set_metadata";
    pub(crate) const CDN_LOOP: &str = "envoy.filters.http.cdn_loop";
    /// Keeps a client with an endpoint.
    pub const STATEFUL_SESSION: &str = "envoy.filters.http.stateful_session";
    pub(crate) const CREDENTIAL_INJECTOR: &str = "envoy.filters.http.credential_injector";
    pub(crate) const GENERIC_CREDENTIAL: &str = "envoy.http.injected_credentials.generic";
    pub(crate) const RBAC: &str = "envoy.filters.http.rbac";
    pub(crate) const CARES: &str = "envoy.network.dns_resolver.cares";
    pub(crate) const DNS_CLUSTER: &str = "envoy.clusters.dns";
    pub(crate) const RING_HASH: &str = "envoy.load_balancing_policies.ring_hash";
    pub(crate) const MAGLEV: &str = "envoy.load_balancing_policies.maglev";
    pub(crate) const RAW_BUFFER: &str = "envoy.transport_sockets.raw_buffer";
    pub(crate) const CONNECTION_LIMIT: &str = "envoy.filters.network.connection_limit";
    pub(crate) const PROXY_PROTOCOL: &str = "envoy.filters.listener.proxy_protocol";
    pub(crate) const TRUSTED_BY_ADDRESS: &str = "envoy.http.original_ip_detection.xff";
    pub(crate) const EARLY_HEADER_MUTATION: &str = "envoy.http.early_header_mutation.header_mutation";
    pub(crate) const UPSTREAM_PROXY_PROTOCOL: &str = "envoy.transport_sockets.upstream_proxy_protocol";
    pub(crate) const PRESERVE_CASE: &str = "envoy.http.stateful_header_formatters.preserve_case";
    pub(crate) const UPSTREAM_CODEC: &str = "envoy.filters.http.upstream_codec";
    pub(crate) const ROUTER: &str = "envoy.filters.http.router";
    pub(crate) const HTTP_CONNECTION_MANAGER: &str = "envoy.filters.network.http_connection_manager";
    pub(crate) const TCP_PROXY: &str = "envoy.filters.network.tcp_proxy";
    pub(crate) const UDP_PROXY: &str = "envoy.filters.udp_listener.udp_proxy";
    pub(crate) const TLS_INSPECTOR: &str = "envoy.filters.listener.tls_inspector";
    pub(crate) const TLS: &str = "envoy.transport_sockets.tls";
    pub(crate) const GRPC_ACCESS_LOG: &str = "envoy.access_loggers.http_grpc";
    pub(crate) const OPEN_TELEMETRY_ACCESS_LOG: &str = "envoy.access_loggers.open_telemetry";
    pub(crate) const OPEN_TELEMETRY_TRACER: &str = "envoy.tracers.opentelemetry";
    pub(crate) const ALWAYS_ON_SAMPLER: &str = "envoy.tracers.opentelemetry.samplers.always_on";
    pub(crate) const STDERR_ACCESS_LOG: &str = "envoy.access_loggers.stderr";
    pub(crate) const STDOUT_ACCESS_LOG: &str = "envoy.access_loggers.stdout";
    pub(crate) const HTTP_PROTOCOL_OPTIONS: &str = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";
}

fn duration(duration: Duration) -> ProtoDuration {
    ProtoDuration {
        seconds: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(duration.subsec_nanos()).unwrap_or_default(),
    }
}

fn uint32(value: u32) -> UInt32Value {
    UInt32Value { value }
}

fn boolean(value: bool) -> BoolValue {
    BoolValue { value }
}

/// Where every resource that another one names comes from.
///
/// How long Envoy waits for the first answer before it goes on without is left at its 15 s: every wait has a bound.
fn ads() -> ConfigSource {
    ConfigSource {
        resource_api_version: ApiVersion::V3 as i32,
        config_source_specifier: Some(ConfigSourceSpecifier::Ads(AggregatedConfigSource {})),
        ..ConfigSource::default()
    }
}

fn socket_address(host: &str, port: u16) -> envoy_types::pb::envoy::config::core::v3::Address {
    let socket = SocketAddress {
        address: host.into(),
        port_specifier: Some(PortSpecifier::PortValue(port.into())),
        ..SocketAddress::default()
    };
    envoy_types::pb::envoy::config::core::v3::Address { address: Some(address::Address::SocketAddress(socket)) }
}

fn ip_address(address: IpAddr, port: u16) -> envoy_types::pb::envoy::config::core::v3::Address {
    // There are many endpoints, and formatting four numbers together takes several times as long.
    let text = match address {
        IpAddr::V4(address) => address.octets().map(|octet| octet.to_string()).join("."),
        IpAddr::V6(address) => address.to_string(),
    };
    socket_address(&text, port)
}

/// Finds out within a minute and a half that a peer is gone, where the kernel would take two hours.
fn tcp_keepalive() -> TcpKeepalive {
    TcpKeepalive {
        keepalive_probes: Some(uint32(3)),
        keepalive_time: Some(uint32(60)),
        keepalive_interval: Some(uint32(10)),
    }
}
