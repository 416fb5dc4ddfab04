//! Envoy messages as protobuf JSON: names in lowerCamelCase, enums by name, `Any` opened with its `@type`.

use std::sync::LazyLock;

use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor, SerializeOptions};
use serde_json::{Map, Value};

pub mod streamed;
#[cfg(test)]
mod tests;
mod untyped;

/// What a private key, or another credential, prints as.
pub const REDACTED: &str = "[redacted]";

/// Every message that is a resource of its own or travels in an `Any`. Only the files that these need are in
/// `descriptors.bin`, without comments; a test writes it anew and compares.
pub const MESSAGES: [&str; 83] = [
    "envoy.config.bootstrap.v3.Bootstrap",
    "envoy.config.cluster.v3.Cluster",
    "envoy.config.core.v3.TypedExtensionConfig",
    "envoy.config.endpoint.v3.ClusterLoadAssignment",
    "envoy.config.listener.v3.Listener",
    "envoy.config.rbac.v3.Action",
    "envoy.config.route.v3.RouteConfiguration",
    "envoy.config.trace.v3.OpenTelemetryConfig",
    "envoy.extensions.access_loggers.grpc.v3.HttpGrpcAccessLogConfig",
    "envoy.extensions.access_loggers.open_telemetry.v3.OpenTelemetryAccessLogConfig",
    "envoy.extensions.access_loggers.stream.v3.StderrAccessLog",
    "envoy.extensions.access_loggers.stream.v3.StdoutAccessLog",
    "envoy.extensions.clusters.dns.v3.DnsCluster",
    "envoy.extensions.compression.brotli.compressor.v3.Brotli",
    "envoy.extensions.compression.brotli.decompressor.v3.Brotli",
    "envoy.extensions.compression.gzip.compressor.v3.Gzip",
    "envoy.extensions.compression.gzip.decompressor.v3.Gzip",
    "envoy.extensions.compression.zstd.compressor.v3.Zstd",
    "envoy.extensions.compression.zstd.decompressor.v3.Zstd",
    "envoy.extensions.filters.http.api_key_auth.v3.ApiKeyAuth",
    "envoy.extensions.filters.http.basic_auth.v3.BasicAuth",
    "envoy.extensions.filters.http.buffer.v3.Buffer",
    "envoy.extensions.filters.http.cdn_loop.v3.CdnLoopConfig",
    "envoy.extensions.filters.http.composite.v3.Composite",
    "envoy.extensions.filters.http.compressor.v3.Compressor",
    "envoy.extensions.filters.http.cors.v3.Cors",
    "envoy.extensions.filters.http.cors.v3.CorsPolicy",
    "envoy.extensions.filters.http.credential_injector.v3.CredentialInjector",
    "envoy.extensions.filters.http.csrf.v3.CsrfPolicy",
    "envoy.extensions.filters.http.decompressor.v3.Decompressor",
    "envoy.extensions.filters.http.ext_authz.v3.ExtAuthz",
    "envoy.extensions.filters.http.ext_proc.v3.ExternalProcessor",
    "envoy.extensions.filters.http.fault.v3.HTTPFault",
    "envoy.extensions.filters.http.filter_chain.v3.FilterChainConfig",
    "envoy.extensions.filters.http.grpc_web.v3.GrpcWeb",
    "envoy.extensions.filters.http.header_mutation.v3.HeaderMutation",
    "envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication",
    "envoy.extensions.filters.http.jwt_authn.v3.PerRouteConfig",
    "envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit",
    "envoy.extensions.filters.http.lua.v3.Lua",
    "envoy.extensions.filters.http.lua.v3.LuaPerRoute",
    "envoy.extensions.filters.http.oauth2.v3.OAuth2",
    "envoy.extensions.filters.http.ratelimit.v3.RateLimit",
    "envoy.extensions.filters.http.rbac.v3.RBAC",
    "envoy.extensions.filters.http.router.v3.Router",
    "envoy.extensions.filters.http.set_metadata.v3.Config",
    "envoy.extensions.filters.http.stateful_session.v3.StatefulSession",
    "envoy.extensions.filters.http.stateful_session.v3.StatefulSessionPerRoute",
    "envoy.extensions.filters.http.upstream_codec.v3.UpstreamCodec",
    "envoy.extensions.filters.listener.proxy_protocol.v3.ProxyProtocol",
    "envoy.extensions.filters.listener.tls_inspector.v3.TlsInspector",
    "envoy.extensions.filters.network.connection_limit.v3.ConnectionLimit",
    "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
    "envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy",
    "envoy.extensions.filters.udp.udp_proxy.v3.Route",
    "envoy.extensions.filters.udp.udp_proxy.v3.UdpProxyConfig",
    "envoy.extensions.http.header_formatters.preserve_case.v3.PreserveCaseFormatterConfig",
    "envoy.extensions.http.injected_credentials.generic.v3.Generic",
    "envoy.extensions.http.early_header_mutation.header_mutation.v3.HeaderMutation",
    "envoy.extensions.http.original_ip_detection.xff.v3.XffConfig",
    "envoy.extensions.http.stateful_session.cookie.v3.CookieBasedSessionState",
    "envoy.extensions.http.stateful_session.header.v3.HeaderBasedSessionState",
    "envoy.extensions.load_balancing_policies.maglev.v3.Maglev",
    "envoy.extensions.load_balancing_policies.ring_hash.v3.RingHash",
    "envoy.extensions.matching.common_inputs.network.v3.SourceIPInput",
    "envoy.extensions.matching.input_matchers.ip.v3.Ip",
    "envoy.extensions.network.dns_resolver.cares.v3.CaresDnsResolverConfig",
    "envoy.extensions.rate_limit_descriptors.expr.v3.Descriptor",
    "envoy.extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig",
    "envoy.extensions.resource_monitors.fixed_heap.v3.FixedHeapConfig",
    "envoy.extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate",
    "envoy.extensions.tracers.opentelemetry.samplers.v3.AlwaysOnSamplerConfig",
    "envoy.extensions.transport_sockets.proxy_protocol.v3.ProxyProtocolUpstreamTransport",
    "envoy.extensions.transport_sockets.raw_buffer.v3.RawBuffer",
    "envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
    "envoy.extensions.transport_sockets.tls.v3.Secret",
    "envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
    "envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
    "envoy.service.discovery.v3.DeltaDiscoveryResponse",
    "envoy.service.discovery.v3.DiscoveryResponse",
    "google.protobuf.Empty",
    "xds.type.matcher.v3.CelMatcher",
    "xds.type.matcher.v3.HttpAttributesCelMatchInput",
];

/// Costs some milliseconds and megabytes, so it waits until somebody asks.
static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    let set = include_bytes!("descriptors.bin").as_slice();
    with_own(DescriptorPool::decode(set).expect("the descriptor set is a part of the program"))
});

/// The same with the messages of our own making.
fn with_own(mut pool: DescriptorPool) -> DescriptorPool {
    pool.add_file_descriptor_proto(crate::cel::descriptors()).expect("it needs nothing that is not there");
    pool
}

/// Why a message has no JSON.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The name is not one of [`MESSAGES`] nor of what they are made of.
    #[error("no descriptor of message {0}")]
    UnknownMessage(String),
    /// The bytes are not such a message.
    #[error("these bytes are no {name}: {source}")]
    Decode {
        /// The message.
        name: String,
        /// What is wrong with the bytes.
        source: prost::DecodeError,
    },
    /// It holds an `Any` of an unknown type, or a value that JSON cannot hold.
    #[error("{name} cannot be written as JSON: {source}")]
    Json {
        /// The message.
        name: String,
        /// What is wrong with it.
        source: serde_json::Error,
    },
}

/// The descriptor of a message.
pub fn descriptor(name: &str) -> Result<MessageDescriptor, Error> {
    POOL.get_message_by_name(name).ok_or_else(|| Error::UnknownMessage(name.into()))
}

/// Reads a message of this name.
pub fn dynamic(name: &str, body: &[u8]) -> Result<DynamicMessage, Error> {
    DynamicMessage::decode(descriptor(name)?, body).map_err(|source| Error::Decode { name: name.into(), source })
}

/// A message as JSON, private keys included. Its objects are sorted by key.
pub fn value(name: &str, body: &[u8]) -> Result<Value, Error> {
    let mut message = dynamic(name, body)?;
    untyped::type_all(&mut message);
    let mut value = message
        .serialize_with_options(serde_json::value::Serializer, &SerializeOptions::new())
        .map_err(|source| Error::Json { name: name.into(), source })?;
    untyped::untype_all(&mut value);
    value.sort_all_objects();
    Ok(value)
}

/// Messages that hold credentials, and where.
const CREDENTIALS: [(&str, &[&str]); 5] = [
    ("type.googleapis.com/envoy.extensions.filters.http.basic_auth.v3.BasicAuthPerRoute", &["users"]),
    ("type.googleapis.com/envoy.extensions.filters.http.api_key_auth.v3.ApiKeyAuthPerRoute", &["credentials", "key"]),
    (
        "type.googleapis.com/envoy.extensions.access_loggers.grpc.v3.HttpGrpcAccessLogConfig",
        &["commonConfig", "grpcService", "initialMetadata", "value"],
    ),
    (
        "type.googleapis.com/envoy.extensions.access_loggers.open_telemetry.v3.OpenTelemetryAccessLogConfig",
        &["grpcService", "initialMetadata", "value"],
    ),
    ("type.googleapis.com/envoy.config.trace.v3.OpenTelemetryConfig", &["grpcService", "initialMetadata", "value"]),
];

/// Every private key and its password in `value`, and what else proves who somebody is, replaced by [`REDACTED`]: users
/// and keys by which requests are judged, what is shown to servers that are told of requests, and values of headers that are
/// marked as secret
/// ([`mark_secret`](crate::slots::mark_secret)).
pub fn redacted(mut value: Value) -> Value {
    redact(&mut value, false);
    value
}

/// Whether [`redacted`] replaces anything in a message; also where nobody can tell.
pub fn holds_credentials(name: &str, body: &[u8]) -> bool {
    value(name, body).map_or(true, |value| redacted(value.clone()) != value)
}

fn redact(value: &mut Value, secret: bool) {
    match value {
        Value::Object(fields) => {
            let url = fields.get("@type").and_then(Value::as_str);
            let credentials = url.and_then(|url| CREDENTIALS.iter().find(|(known, _)| *known == url));
            if let Some((_, path)) = credentials {
                redact_below(fields, path);
            }
            if fields.get("keepEmptyValue") == Some(&Value::Bool(true))
                && let Some(Value::Object(header)) = fields.get_mut("header")
            {
                redact_below(header, &["value"]);
            }
            for (name, field) in fields {
                redact(field, secret || ["privateKey", "password", "genericSecret"].contains(&name.as_str()));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| redact(item, secret)),
        Value::String(text) if secret => REDACTED.clone_into(text),
        _ => {}
    }
}

/// All texts below a path of keys; lists on the way count with each of their elements.
fn redact_below(fields: &mut Map<String, Value>, path: &[&str]) {
    let Some((key, path)) = path.split_first() else { return };
    match fields.get_mut(*key) {
        Some(Value::Array(items)) if !path.is_empty() => {
            items.iter_mut().filter_map(Value::as_object_mut).for_each(|item| redact_below(item, path));
        }
        Some(Value::Object(item)) if !path.is_empty() => redact_below(item, path),
        Some(value) if path.is_empty() => redact(value, true),
        _ => {}
    }
}
