//! What kubelet and Prometheus may ask a proxy for.
//!
//! Envoy's admin interface can do anything to it, so it stays on loopback; this listener hands on two of its pages.

use std::{net::SocketAddr, time::Duration};

use envoy_types::pb::envoy::{
    config::{
        cluster::v3::{Cluster, cluster::DiscoveryType},
        listener::v3::{Filter, FilterChain, Listener, filter, listener::DrainType},
        route::v3::{
            HeaderMatcher, Route, RouteAction, RouteConfiguration, RouteMatch, VirtualHost,
            header_matcher::HeaderMatchSpecifier, route, route_action::ClusterSpecifier, route_match::PathSpecifier,
        },
    },
    extensions::filters::{
        http::router::v3::Router,
        network::http_connection_manager::v3::{
            HttpConnectionManager, HttpFilter, http_connection_manager::RouteSpecifier, http_filter,
        },
    },
    r#type::matcher::v3::{StringMatcher, string_matcher::MatchPattern},
};

use super::{AdminAddress, cluster, pipe};
use crate::bytes::any;
use crate::{boolean, duration, extension, ip_address, socket_address, uint32};

/// The name of the static cluster that is Envoy's own admin interface, and of the listener before it.
const ADMIN_CLUSTER: &str = "admin";
const LISTENER: &str = "observed";

/// What may be asked for.
const PATHS: [&str; 2] = ["/ready", "/stats/prometheus"];

/// Writing all statistics of a proxy with many clusters takes Envoy a while.
const TIMEOUT: Duration = Duration::from_secs(30);
const IDLE: Duration = Duration::from_mins(5);

pub(super) fn listener(address: SocketAddr) -> Listener {
    let manager = HttpConnectionManager {
        stat_prefix: LISTENER.into(),
        route_specifier: Some(RouteSpecifier::RouteConfig(RouteConfiguration {
            name: LISTENER.into(),
            virtual_hosts: vec![VirtualHost {
                name: LISTENER.into(),
                domains: vec!["*".into()],
                routes: PATHS.into_iter().map(page).collect(),
                ..VirtualHost::default()
            }],
            ..RouteConfiguration::default()
        })),
        http_filters: vec![HttpFilter {
            name: extension::ROUTER.into(),
            config_type: Some(http_filter::ConfigType::TypedConfig(any(&Router::default()))),
            ..HttpFilter::default()
        }],
        use_remote_address: Some(boolean(true)),
        stream_idle_timeout: Some(duration(IDLE)),
        request_headers_timeout: Some(duration(TIMEOUT)),
        ..HttpConnectionManager::default()
    };
    Listener {
        name: LISTENER.into(),
        address: Some(ip_address(address.ip(), address.port())),
        filter_chains: vec![FilterChain {
            filters: vec![Filter {
                name: extension::HTTP_CONNECTION_MANAGER.into(),
                config_type: Some(filter::ConfigType::TypedConfig(any(&manager))),
            }],
            ..FilterChain::default()
        }],
        per_connection_buffer_limit_bytes: Some(uint32(32 << 10)),
        // A proxy that drains says so here until it ends, and one that has all the connections it may have, too.
        drain_type: DrainType::ModifyOnly as i32,
        ignore_global_conn_limit: true,
        bypass_overload_manager: true,
        ..Listener::default()
    }
}

/// GET and nothing else, of exactly this path.
fn page(path: &str) -> Route {
    let method = HeaderMatcher {
        name: ":method".into(),
        header_match_specifier: Some(HeaderMatchSpecifier::StringMatch(StringMatcher {
            match_pattern: Some(MatchPattern::Exact("GET".into())),
            ..StringMatcher::default()
        })),
        ..HeaderMatcher::default()
    };
    Route {
        r#match: Some(RouteMatch {
            path_specifier: Some(PathSpecifier::Path(path.into())),
            headers: vec![method],
            ..RouteMatch::default()
        }),
        action: Some(route::Action::Route(RouteAction {
            cluster_specifier: Some(ClusterSpecifier::Cluster(ADMIN_CLUSTER.into())),
            timeout: Some(duration(TIMEOUT)),
            ..RouteAction::default()
        })),
        ..Route::default()
    }
}

pub(super) fn admin_cluster(admin: &AdminAddress) -> Cluster {
    let address = match admin {
        AdminAddress::Tcp { address, port } => socket_address(&address.to_string(), *port),
        AdminAddress::Unix(path) => pipe(path),
    };
    cluster(ADMIN_CLUSTER, DiscoveryType::Static, address)
}
