//! `envoy.config.listener.v3.Listener`: sockets, TLS and the HTTP connection manager. Routes come over RDS, certificates
//! over SDS, so that neither ever changes a listener.

use std::{net::IpAddr, sync::Arc};

use envoy_types::pb::envoy::{
    config::{
        core::v3::TrafficDirection,
        listener::v3::{AdditionalAddress, Listener as EnvoyListener, ListenerFilter, listener_filter},
    },
    extensions::filters::listener::{proxy_protocol::v3::ProxyProtocol, tls_inspector::v3::TlsInspector},
};
use ir::{
    downstream::ProxyProtocolFrom,
    listener::{Listener, ListenerHead},
    settings::Edge,
};
use prost::Message;

use crate::{
    body::Body,
    boolean,
    bytes::{self, Hash, any},
    cluster::options,
    extension,
    resource::Encoded,
    socket_address, uint32,
};

mod access_log;
mod chain;
mod circles;
mod clients;
mod manager;
mod stream;
mod telemetry;
#[cfg(test)]
mod tests;

pub use chain::{Chain, Common, chains, closed};
pub use clients::{UNJUDGED, UNJUDGED_KEY};
pub(crate) use manager::judged;
pub use stream::udp;

/// The oldest Envoy, major and minor version, that takes the listeners, and routes for them.
pub const LEAST_ENVOY: (u32, u32) = (1, 40);

/// A listener in one piece, with all of its chains encoded anew. It has at least one address; the first is its main one.
pub fn listener(listener: &Listener, edge: &Edge) -> Encoded {
    let common = Common::new(&listener.head.gateway, &listener.head.config, edge);
    let all = listener.chains.iter().map(|chain| common.chain(chain));
    let all: Vec<_> = all.chain(closed(&listener.closed)).collect();
    let hashes: Vec<_> = all.iter().map(|chain| *chain.hash()).collect();
    composed(&listener.head, edge, [chains(all.iter())], &hashes)
}

/// The listener of pieces made by [`chains`]. How chains are split into pieces changes no byte; `content` tells these chains from
/// others: their hashes, or one of all of them.
pub fn composed(head: &ListenerHead, edge: &Edge, chains: impl IntoIterator<Item = Body>, content: &[Hash]) -> Encoded {
    let said = &head.config;
    let mut addresses = head.addresses.iter().map(|address| socket_address(address, head.bind_port));
    // Fields stand in the order of their numbers: those of the chains lie between these two.
    let before = EnvoyListener { name: head.name.to_string(), address: addresses.next(), ..EnvoyListener::default() };
    let after = EnvoyListener {
        additional_addresses: addresses
            .map(|address| AdditionalAddress { address: Some(address), ..AdditionalAddress::default() })
            .collect(),
        listener_filters: listener_filters(head),
        per_connection_buffer_limit_bytes: Some(uint32(said.buffer_bytes.unwrap_or(edge.buffer_bytes))),
        tcp_keepalive: said.keepalive.as_ref().map(options::keepalive),
        traffic_direction: TrafficDirection::Inbound as i32,
        enable_reuse_port: Some(boolean(true)),
        // An address that the host does not have, or not yet, waits for it instead of failing the update.
        freebind: has_names(&head.addresses).then(|| boolean(true)),
        ..EnvoyListener::default()
    };
    bytes::composed(before.encode_to_vec(), chains, after.encode_to_vec(), content)
}

/// Whether any of these is an address of its own.
fn has_names(addresses: &[Arc<str>]) -> bool {
    addresses.iter().any(|address| !address.parse().is_ok_and(|ip: IpAddr| ip.is_unspecified()))
}

/// What stands before TLS comes first.
fn listener_filters(listener: &ListenerHead) -> Vec<ListenerFilter> {
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
