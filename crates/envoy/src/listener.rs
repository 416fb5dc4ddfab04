//! `envoy.config.listener.v3.Listener`: sockets, TLS and the HTTP connection manager. Routes come over RDS, certificates
//! over SDS, so that neither ever changes a listener.

use std::{net::IpAddr, sync::Arc};

use envoy_types::pb::envoy::{
    config::{
        common::mutation_rules::v3::{HeaderMutation, header_mutation::Action},
        core::v3::{
            CidrRange, Http1ProtocolOptions, Http2ProtocolOptions, HttpProtocolOptions, TrafficDirection,
            TransportSocket, TypedExtensionConfig, http_protocol_options::HeadersWithUnderscoresAction,
            transport_socket,
        },
        listener::v3::{
            AdditionalAddress, Filter, FilterChain as EnvoyFilterChain, FilterChainMatch, Listener as EnvoyListener,
            ListenerFilter, filter, listener_filter,
        },
    },
    extensions::{
        filters::{
            http::{router::v3::Router, stateful_session::v3::StatefulSession},
            listener::{proxy_protocol::v3::ProxyProtocol, tls_inspector::v3::TlsInspector},
            network::http_connection_manager::v3::{
                HttpConnectionManager, HttpFilter, Rds,
                http_connection_manager::{
                    InternalAddressConfig, PathWithEscapedSlashesAction, RouteSpecifier, ServerHeaderTransformation,
                    StripPortMode, UpgradeConfig,
                },
                http_filter,
            },
        },
        http::{
            early_header_mutation::header_mutation::v3::HeaderMutation as EarlyHeaderMutation,
            original_ip_detection::xff::v3::{XffConfig, XffTrustedCidrs},
        },
        transport_sockets::tls::v3::{
            CommonTlsContext, DownstreamTlsContext, SdsSecretConfig, TlsParameters,
            common_tls_context::ValidationContextType, downstream_tls_context::SessionTicketKeysType,
            tls_parameters::TlsProtocol,
        },
    },
};
use envoy_types::pb::google::protobuf::Any;
use ir::{
    Hostname, NsName,
    downstream::{
        CONNECTION_WINDOW, Client, HttpConfig, ListenerConfig, ProxyProtocolFrom, STREAM_WINDOW, ServerHeader,
        StripPort,
    },
    listener::{FilterChain, LeadsTo, Listener, TlsTermination},
    settings::Edge,
};
use prost::Message;

use crate::{ads, boolean, cluster::options, duration, extension, slots, socket_address, uint32};
use crate::{bytes::any, resource::Encoded};

mod access_log;
mod circles;
mod clients;
mod stream;
mod telemetry;
#[cfg(test)]
mod tests;

pub use clients::{UNJUDGED, UNJUDGED_KEY};
pub use stream::udp;

/// The oldest Envoy, major and minor version, that takes the listeners, and routes for them.
pub const LEAST_ENVOY: (u32, u32) = (1, 40);

/// A listener. It has at least one address; the first is its main one.
pub fn listener(listener: &Listener, edge: &Edge) -> Encoded {
    let said = &listener.config;
    let mut addresses = listener.addresses.iter().map(|address| socket_address(address, listener.bind_port));
    let message = EnvoyListener {
        name: listener.name.to_string(),
        address: addresses.next(),
        additional_addresses: addresses
            .map(|address| AdditionalAddress { address: Some(address), ..AdditionalAddress::default() })
            .collect(),
        filter_chains: listener
            .chains
            .iter()
            .map(|chain| filter_chain(chain, listener, edge))
            .chain(closed(&listener.closed))
            .collect(),
        listener_filters: listener_filters(listener),
        per_connection_buffer_limit_bytes: Some(uint32(said.buffer_bytes.unwrap_or(edge.buffer_bytes))),
        tcp_keepalive: said.keepalive.as_ref().map(options::keepalive),
        traffic_direction: TrafficDirection::Inbound as i32,
        enable_reuse_port: Some(boolean(true)),
        // An address that the host does not have, or not yet, waits for it instead of failing the update.
        freebind: has_names(&listener.addresses).then(|| boolean(true)),
        ..EnvoyListener::default()
    };
    Encoded::new(message.encode_to_vec())
}

/// Whether any of these is an address of its own.
fn has_names(addresses: &[Arc<str>]) -> bool {
    addresses.iter().any(|address| !address.parse().is_ok_and(|ip: IpAddr| ip.is_unspecified()))
}

/// The connection manager of a listener of which nobody said anything, without routes: the HTTP filters of all of them.
pub(crate) fn judged(edge: &Edge) -> HttpConnectionManager {
    let listener = Listener {
        gateway: NsName::new("judge", "judge"),
        name: "judged".into(),
        addresses: Vec::new(),
        bind_port: 0,
        pseudonym: "portcullis-judge".into(),
        chains: Vec::new(),
        closed: Vec::new(),
        over_tls: false,
        config: ListenerConfig::default(),
    };
    let chain = FilterChain {
        name: "judged".into(),
        leads_to: LeadsTo::RouteConfiguration,
        hostname: Hostname::Any,
        tls: None,
    };
    HttpConnectionManager { route_specifier: None, ..connection_manager(&chain, &listener, edge) }
}

/// What stands before TLS comes first.
fn listener_filters(listener: &Listener) -> Vec<ListenerFilter> {
    let proxy_protocol = listener.config.proxy_protocol.map(proxy_protocol);
    proxy_protocol.into_iter().chain(listener.over_tls.then(tls_inspector)).collect()
}

fn proxy_protocol(from: ProxyProtocolFrom) -> ListenerFilter {
    let message = ProxyProtocol {
        allow_requests_without_proxy_protocol: from == ProxyProtocolFrom::Some,
        ..ProxyProtocol::default()
    };
    ListenerFilter {
        name: extension::PROXY_PROTOCOL.into(),
        config_type: Some(listener_filter::ConfigType::TypedConfig(any(&message))),
        ..ListenerFilter::default()
    }
}

fn tls_inspector() -> ListenerFilter {
    ListenerFilter {
        name: extension::TLS_INSPECTOR.into(),
        config_type: Some(listener_filter::ConfigType::TypedConfig(any(&TlsInspector::default()))),
        ..ListenerFilter::default()
    }
}

fn filter_chain(chain: &FilterChain, listener: &Listener, edge: &Edge) -> EnvoyFilterChain {
    let (name, config) = match chain.leads_to {
        LeadsTo::RouteConfiguration => {
            (extension::HTTP_CONNECTION_MANAGER, any(&connection_manager(chain, listener, edge)))
        }
        LeadsTo::Cluster => (extension::TCP_PROXY, any(&stream::tcp_proxy(&chain.name, edge))),
    };
    let leads = Filter { name: name.into(), config_type: Some(filter::ConfigType::TypedConfig(config)) };
    let chosen_by = FilterChainMatch {
        server_names: (chain.hostname != Hostname::Any).then(|| chain.hostname.domain()).into_iter().collect(),
        direct_source_prefix_ranges: clients::sources(&listener.config, edge),
        ..FilterChainMatch::default()
    };
    EnvoyFilterChain {
        name: chain.name.to_string(),
        filter_chain_match: (chosen_by != FilterChainMatch::default()).then_some(chosen_by),
        filters: clients::limit(&chain.name, edge).into_iter().chain([leads]).collect(),
        transport_socket: chain.tls.as_ref().map(|tls| transport_socket(tls, chain.leads_to)),
        transport_socket_connect_timeout: listener.config.handshake_timeout.map(duration),
        ..EnvoyFilterChain::default()
    }
}

/// Chains without filters: Envoy closes what they are chosen for.
fn closed(hostnames: &[Hostname]) -> impl Iterator<Item = EnvoyFilterChain> {
    let names = hostnames.iter().filter(|hostname| **hostname != Hostname::Any);
    let server_names: Vec<_> = names.map(Hostname::domain).collect();
    let named = (!server_names.is_empty()).then(|| EnvoyFilterChain {
        name: "closed".into(),
        filter_chain_match: Some(FilterChainMatch { server_names, ..FilterChainMatch::default() }),
        ..EnvoyFilterChain::default()
    });
    let others = EnvoyFilterChain { name: "closed/*".into(), ..EnvoyFilterChain::default() };
    named.into_iter().chain(hostnames.contains(&Hostname::Any).then_some(others))
}

fn transport_socket(tls: &TlsTermination, leads_to: LeadsTo) -> TransportSocket {
    // What is spoken by clients of streams nobody knows.
    let alpn_protocols = match leads_to {
        LeadsTo::RouteConfiguration => vec!["h2".into(), "http/1.1".into()],
        LeadsTo::Cluster => Vec::new(),
    };
    let clients = tls.clients.as_ref();
    let unjudged = tls.asks_unjudged.then(|| ValidationContextType::ValidationContext(clients::unjudged()));
    let secret = |name: &Arc<str>| SdsSecretConfig { name: name.to_string(), sds_config: Some(ads()) };
    let context = DownstreamTlsContext {
        common_tls_context: Some(CommonTlsContext {
            tls_params: Some(TlsParameters {
                tls_minimum_protocol_version: TlsProtocol::TlSv12 as i32,
                ..TlsParameters::default()
            }),
            tls_certificate_sds_secret_configs: tls.secrets.iter().map(secret).collect(),
            alpn_protocols,
            // Authorities come apart, so that one that rotates drains nothing.
            validation_context_type: clients
                .map(secret)
                .map(ValidationContextType::ValidationContextSdsSecretConfig)
                .or(unjudged),
            ..CommonTlsContext::default()
        }),
        require_client_certificate: clients.map(|_| boolean(true)),
        // Who resumes a session shows no certificate again, though that may have expired.
        session_ticket_keys_type: clients.map(|_| SessionTicketKeysType::DisableStatelessSessionResumption(true)),
        disable_stateful_session_resumption: clients.is_some(),
        ..DownstreamTlsContext::default()
    };
    TransportSocket {
        name: extension::TLS.into(),
        config_type: Some(transport_socket::ConfigType::TypedConfig(any(&context))),
    }
}

fn connection_manager(chain: &FilterChain, listener: &Listener, edge: &Edge) -> HttpConnectionManager {
    let said = &listener.config.http;
    let http2 = said.http2.unwrap_or_default();
    let client = said.client.clone().unwrap_or_default();
    let upgrades = said.upgrades.as_ref().map_or_else(|| vec!["websocket".into()], |upgrades| upgrades.to_vec());
    let logs =
        said.access_logs.iter().flat_map(|logs| logs.iter()).map(|log| access_log::of_policy(log, &listener.gateway));
    let is_edge = client.by_connection.unwrap_or(true);
    let asks_unjudged = chain.tls.as_ref().is_some_and(|tls| tls.asks_unjudged);
    let (told, details) = clients::told(said.told_of_clients.as_ref(), asks_unjudged, edge);
    HttpConnectionManager {
        stat_prefix: chain.name.to_string(),
        route_specifier: Some(RouteSpecifier::Rds(Rds {
            config_source: Some(ads()),
            route_config_name: chain.name.to_string(),
        })),
        http_filters: http_filters(&listener.pseudonym, asks_unjudged),
        local_reply_config: Some(circles::local_replies(&listener.pseudonym)),
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
        tracing: said.traces().map(|tracing| telemetry::tracing(tracing, &listener.gateway)),
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
