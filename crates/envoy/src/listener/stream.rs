//! What takes connections and datagrams as a whole: each place has one cluster, so that what routes say changes no listener.

use envoy_types::pb::{
    envoy::{
        config::{
            core::v3::{
                Address, SocketAddress, TrafficDirection, UdpSocketConfig,
                address::Address as At,
                socket_address::{PortSpecifier, Protocol},
            },
            listener::v3::{
                AdditionalAddress, Listener as EnvoyListener, ListenerFilter, UdpListenerConfig, listener_filter,
            },
        },
        extensions::filters::{
            network::tcp_proxy::v3::TcpProxy,
            udp::udp_proxy::v3::{Route, UdpProxyConfig, udp_proxy_config::RouteSpecifier},
        },
    },
    google::protobuf::UInt64Value,
    xds::{
        core::v3::TypedExtensionConfig,
        r#type::matcher::v3::{
            Matcher,
            matcher::{OnMatch, on_match},
        },
    },
};
use ir::{listener::UdpListener, settings::Edge};
use prost::Message;

use super::{access_log, has_names};
use crate::{boolean, bytes::any, duration, extension, resource::Encoded, uint32};

/// The largest datagram, both ways, in bytes: Envoy drops larger ones without a word, from 1,500 on where nothing is said.
const DATAGRAM: u64 = 9_000;

/// Connections to the endpoints of a cluster, without that and without a name.
pub(super) fn tcp_proxy(edge: &Edge) -> TcpProxy {
    TcpProxy {
        idle_timeout: Some(duration(edge.tcp_idle_timeout)),
        max_downstream_connection_duration: (!edge.tcp_max_duration.is_zero()).then(|| duration(edge.tcp_max_duration)),
        // Another attempt could find an endpoint of another share.
        max_connect_attempts: Some(uint32(1)),
        access_log: edge.access_log.then(access_log::of_connections).into_iter().collect(),
        ..TcpProxy::default()
    }
}

/// A listener of datagrams. Its sessions are made anew whenever it changes, so it says nothing of routes.
pub fn udp(listener: &UdpListener, edge: &Edge) -> Encoded {
    let mut addresses = listener.addresses.iter().map(|address| socket(address, listener.bind_port));
    let filter = ListenerFilter {
        name: extension::UDP_PROXY.into(),
        config_type: Some(listener_filter::ConfigType::TypedConfig(any(&udp_proxy(&listener.cluster, edge)))),
        ..ListenerFilter::default()
    };
    let message = EnvoyListener {
        name: listener.name.to_string(),
        address: addresses.next(),
        additional_addresses: addresses
            .map(|address| AdditionalAddress { address: Some(address), ..AdditionalAddress::default() })
            .collect(),
        listener_filters: vec![filter],
        udp_listener_config: Some(UdpListenerConfig {
            downstream_socket_config: Some(datagrams()),
            ..UdpListenerConfig::default()
        }),
        traffic_direction: TrafficDirection::Inbound as i32,
        enable_reuse_port: Some(boolean(true)),
        freebind: has_names(&listener.addresses).then(|| boolean(true)),
        ..EnvoyListener::default()
    };
    Encoded::new(message.encode_to_vec())
}

fn udp_proxy(cluster: &str, edge: &Edge) -> UdpProxyConfig {
    let route =
        TypedExtensionConfig { name: "route".into(), typed_config: Some(any(&Route { cluster: cluster.into() })) };
    let matcher = Matcher {
        on_no_match: Some(Box::new(OnMatch { on_match: Some(on_match::OnMatch::Action(route)), ..OnMatch::default() })),
        ..Matcher::default()
    };
    UdpProxyConfig {
        stat_prefix: cluster.into(),
        route_specifier: Some(RouteSpecifier::Matcher(matcher)),
        idle_timeout: Some(duration(edge.udp_session_timeout)),
        upstream_socket_config: Some(datagrams()),
        access_log: edge.access_log.then(access_log::of_connections).into_iter().collect(),
        ..UdpProxyConfig::default()
    }
}

fn datagrams() -> UdpSocketConfig {
    UdpSocketConfig { max_rx_datagram_size: Some(UInt64Value { value: DATAGRAM }), ..UdpSocketConfig::default() }
}

fn socket(host: &str, port: u16) -> Address {
    let socket = SocketAddress {
        protocol: Protocol::Udp as i32,
        address: host.into(),
        port_specifier: Some(PortSpecifier::PortValue(port.into())),
        ..SocketAddress::default()
    };
    Address { address: Some(At::SocketAddress(socket)) }
}
