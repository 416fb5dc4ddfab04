//! The HTTP connection manager, which all chains for requests have.

use envoy_types::pb::{
    envoy::{
        config::{
            common::mutation_rules::v3::{HeaderMutation, header_mutation::Action},
            core::v3::{
                CidrRange, Http1ProtocolOptions, Http2ProtocolOptions, HttpProtocolOptions, TypedExtensionConfig,
                http_protocol_options::HeadersWithUnderscoresAction,
            },
        },
        extensions::{
            filters::{
                http::{router::v3::Router, stateful_session::v3::StatefulSession},
                network::http_connection_manager::v3::{
                    HttpConnectionManager, HttpFilter,
                    http_connection_manager::{
                        InternalAddressConfig, PathWithEscapedSlashesAction, ServerHeaderTransformation, StripPortMode,
                        UpgradeConfig,
                    },
                    http_filter,
                },
            },
            http::{
                early_header_mutation::header_mutation::v3::HeaderMutation as EarlyHeaderMutation,
                original_ip_detection::xff::v3::{XffConfig, XffTrustedCidrs},
            },
        },
    },
    google::protobuf::Any,
};
use ir::{
    NsName,
    downstream::{CONNECTION_WINDOW, Client, HttpConfig, STREAM_WINDOW, ServerHeader, StripPort},
    settings::Edge,
};

use super::{access_log, circles, clients, telemetry};
use crate::{
    boolean,
    bytes::{any, short_name, version},
    cluster::options,
    duration, extension, slots, uint32,
};

/// The connection manager of a listener of which nobody said anything, without routes: the HTTP filters of all of them.
pub(crate) fn judged(edge: &Edge) -> HttpConnectionManager {
    let manager = manager(&NsName::new("judge", "judge"), "portcullis-judge", &HttpConfig::default(), false, edge);
    HttpConnectionManager { stat_prefix: "judged".into(), ..manager }
}

/// The name of a Gateway for requests (RFC 8586, `cdn-id`): a token, whatever the names are that it is made from, on all of its ports
/// the same and no other Gateway's.
pub(super) fn pseudonym(gateway: &NsName) -> String {
    let hash = version([gateway.to_string().as_bytes()]);
    format!("portcullis-{}", short_name(&hash))
}

/// The connection manager of the listeners of a Gateway, without a name and without routes; of those that ask clients for certificates
/// that nobody judges, or of others.
pub(super) fn manager(
    gateway: &NsName,
    pseudonym: &str,
    said: &HttpConfig,
    asks_unjudged: bool,
    edge: &Edge,
) -> HttpConnectionManager {
    let http2 = said.http2.unwrap_or_default();
    let client = said.client.clone().unwrap_or_default();
    let upgrades = said.upgrades.as_ref().map_or_else(|| vec!["websocket".into()], |upgrades| upgrades.to_vec());
    let logs = said.access_logs.iter().flat_map(|logs| logs.iter()).map(|log| access_log::of_policy(log, gateway));
    let is_edge = client.by_connection.unwrap_or(true);
    let (told, details) = clients::told(said.told_of_clients.as_ref(), asks_unjudged, edge);
    HttpConnectionManager {
        http_filters: http_filters(pseudonym, asks_unjudged),
        local_reply_config: Some(circles::local_replies(pseudonym)),
        common_http_protocol_options: Some(HttpProtocolOptions {
            idle_timeout: Some(duration(said.idle_timeout.unwrap_or(edge.idle_timeout))),
            max_headers_count: Some(uint32(said.max_headers.unwrap_or(edge.max_request_headers))),
            max_requests_per_connection: said.max_requests.map(uint32),
            headers_with_underscores_action: HeadersWithUnderscoresAction::RejectRequest as i32,
            ..HttpProtocolOptions::default()
        }),
        http_protocol_options: said.preserve_case.filter(|preserve| *preserve).map(|_| http1_preserving_case()),
        http2_protocol_options: Some(Http2ProtocolOptions {
            max_concurrent_streams: Some(uint32(http2.max_streams.unwrap_or(edge.max_concurrent_streams))),
            initial_stream_window_size: Some(uint32(http2.stream_window.unwrap_or(STREAM_WINDOW))),
            initial_connection_window_size: Some(uint32(http2.connection_window.unwrap_or(CONNECTION_WINDOW))),
            ..Http2ProtocolOptions::default()
        }),
        server_header_transformation: server_header(said) as i32,
        server_name: said.server_name.as_deref().unwrap_or_default().into(),
        max_request_headers_kb: Some(uint32(said.max_headers_kib.unwrap_or(edge.max_request_headers_kib))),
        stream_idle_timeout: Some(duration(said.stream_idle_timeout.unwrap_or(edge.stream_idle_timeout))),
        request_headers_timeout: Some(duration(edge.request_headers_timeout)),
        drain_timeout: Some(duration(edge.drain_timeout)),
        access_log: edge.access_log.then(access_log::of_edge).into_iter().chain(logs).collect(),
        tracing: said.traces().map(|tracing| telemetry::tracing(tracing, gateway)),
        use_remote_address: Some(boolean(is_edge)),
        // Beside ranges of addresses Envoy takes neither this nor that of the extension.
        xff_num_trusted_hops: match &client.trusted_ranges[..] {
            // Where the connection does not count, nor does the proxy that it comes from.
            [] => client.trusted_hops.unwrap_or(edge.trusted_hops.saturating_sub(u32::from(!is_edge))),
            _ => 0,
        },
        skip_xff_append: client.skip_append.unwrap_or_default(),
        original_ip_detection_extensions: trusted(&client).into_iter().collect(),
        internal_address_config: is_edge.then(nobody_is_internal),
        early_header_mutation_extensions: (!is_edge).then(without_steering).into_iter().collect(),
        forward_client_cert_details: told as i32,
        set_current_client_cert_details: details,
        proxy_100_continue: said.proxy_100.unwrap_or_default(),
        normalize_path: Some(boolean(true)),
        merge_slashes: true,
        path_with_escaped_slashes_action: PathWithEscapedSlashesAction::UnescapeAndRedirect as i32,
        strip_matching_host_port: said.strip_port == Some(StripPort::Matching),
        strip_port_mode: (said.strip_port == Some(StripPort::Any)).then_some(StripPortMode::StripAnyHostPort(true)),
        strip_trailing_host_dot: true,
        upgrade_configs: upgrades
            .into_iter()
            .map(|upgrade| UpgradeConfig { upgrade_type: upgrade.to_string(), ..UpgradeConfig::default() })
            .collect(),
        ..HttpConnectionManager::default()
    }
}

fn http1_preserving_case() -> Http1ProtocolOptions {
    Http1ProtocolOptions { header_key_format: Some(options::preserved_case()), ..Http1ProtocolOptions::default() }
}

/// The header `server` is a backend's, unless a policy says otherwise; a name is for what Envoy writes.
fn server_header(said: &HttpConfig) -> ServerHeaderTransformation {
    match said.server.or(said.server_name.as_ref().map(|_| ServerHeader::Overwrite)) {
        Some(ServerHeader::Overwrite) => ServerHeaderTransformation::Overwrite,
        Some(ServerHeader::AppendIfAbsent) => ServerHeaderTransformation::AppendIfAbsent,
        Some(ServerHeader::PassThrough) | None => ServerHeaderTransformation::PassThrough,
    }
}

/// Who may say by `x-forwarded-for` whom a request comes from, where that is told by addresses.
fn trusted(client: &Client) -> Option<TypedExtensionConfig> {
    let ranges = XffTrustedCidrs { cidrs: client.trusted_ranges.iter().map(clients::range).collect() };
    let message = XffConfig {
        xff_trusted_cidrs: Some(ranges),
        skip_xff_append: Some(boolean(client.skip_append.unwrap_or_default())),
        ..XffConfig::default()
    };
    (!client.trusted_ranges.is_empty())
        .then(|| TypedExtensionConfig { name: extension::TRUSTED_BY_ADDRESS.into(), typed_config: Some(any(&message)) })
}

/// Removes headers by which clients tell of what a proxy did, and backends and access logs believe them. Envoy does so by
/// itself where the address of the connection counts.
fn without_steering() -> TypedExtensionConfig {
    const NAMES: [&str; 6] = [
        "x-envoy-decorator-operation",
        "x-envoy-downstream-service-cluster",
        "x-envoy-downstream-service-node",
        "x-envoy-external-address",
        "x-envoy-original-host",
        "x-envoy-original-path",
    ];
    let remove = |name: &str| HeaderMutation { action: Some(Action::Remove(name.into())) };
    let message = EarlyHeaderMutation { mutations: NAMES.into_iter().map(remove).collect() };
    TypedExtensionConfig { name: extension::EARLY_HEADER_MUTATION.into(), typed_config: Some(any(&message)) }
}

/// Headers that steer Envoy (`x-envoy-…`) are removed, whoever sends them. An empty list would mean all private
/// addresses, so the one range that is named never is a peer's. Where addresses come from headers any could be said, so that
/// there must be no list, by which Envoy 1.40 holds nobody for internal either.
fn nobody_is_internal() -> InternalAddressConfig {
    let nobody = CidrRange { address_prefix: "255.255.255.255".into(), prefix_len: Some(uint32(32)) };
    InternalAddressConfig { cidr_ranges: vec![nobody], ..InternalAddressConfig::default() }
}

/// What goes in circles ends before anything else looks at it. The other filters do nothing until a route configures
/// them; the router comes last.
///
/// No object has a word in this list: what is in it stands in every listener, so that routes alone decide what acts. Where clients
/// are asked for certificates that nobody judges a mark stands before all that could take one for an identity.
fn http_filters(pseudonym: &str, asks_unjudged: bool) -> Vec<HttpFilter> {
    let filter = |name: &str, config: Any| HttpFilter {
        name: name.into(),
        config_type: Some(http_filter::ConfigType::TypedConfig(config)),
        ..HttpFilter::default()
    };
    let mut filters = vec![filter(extension::CDN_LOOP, any(&circles::filter(pseudonym)))];
    filters.extend(asks_unjudged.then(|| filter(extension::SET_METADATA, any(&clients::mark()))));
    filters.extend(slots::filters());
    filters.push(filter(extension::STATEFUL_SESSION, any(&StatefulSession::default())));
    filters.push(filter(extension::ROUTER, any(&Router::default())));
    filters
}
