//! Clusters of places of streams: whatever routes say of one is in its endpoints.

use envoy_types::pb::{
    envoy::config::{
        cluster::v3::{
            Cluster as EnvoyCluster, UpstreamConnectionOptions,
            cluster::{ClusterDiscoveryType, DiscoveryType, EdsClusterConfig, TransportSocketMatch},
        },
        core::v3::{Metadata, TransportSocket},
    },
    google::protobuf::{Struct, Value, value::Kind},
};
use ir::backend::{PLAIN, StreamCluster, Transport};
use prost::Message;

use super::{balance, common_lb_config, transport};
use crate::{ads, duration, resource::Encoded, tcp_keepalive, uint32};

/// Where Envoy looks for what an endpoint asks for.
const MATCHES: &str = "envoy.transport_socket_match";

/// The key there.
const WAY: &str = "way";

/// The cluster. Its endpoints come over ADS under its own name.
///
/// An endpoint says in which way it is connected to. One whose way this cluster does not know, as when the endpoints of an
/// update come before the cluster, is connected to by nobody: never in plain text for want of something better.
pub fn stream(cluster: &StreamCluster) -> Encoded {
    let tcp = cluster.transport == Transport::Tcp;
    let ways = cluster.ways.iter().map(|way| matching(&way.name, transport::of_way(way, &cluster.trust_store)));
    let message = EnvoyCluster {
        name: cluster.name.to_string(),
        cluster_discovery_type: Some(ClusterDiscoveryType::Type(DiscoveryType::Eds as i32)),
        eds_cluster_config: Some(EdsClusterConfig { eds_config: Some(ads()), ..EdsClusterConfig::default() }),
        connect_timeout: Some(duration(cluster.connect_timeout)),
        per_connection_buffer_limit_bytes: Some(uint32(cluster.limits.buffer_bytes)),
        circuit_breakers: Some(balance::circuit_breakers(cluster.limits, None)),
        common_lb_config: Some(common_lb_config(true)),
        transport_socket: tcp.then(transport::nobody),
        transport_socket_matches: if tcp {
            std::iter::once(matching(PLAIN, transport::plain())).chain(ways).collect()
        } else {
            Vec::new()
        },
        upstream_connection_options: tcp.then(|| UpstreamConnectionOptions {
            tcp_keepalive: Some(tcp_keepalive()),
            ..UpstreamConnectionOptions::default()
        }),
        ignore_health_on_host_removal: true,
        ..EnvoyCluster::default()
    };
    Encoded::new(message.encode_to_vec())
}

fn matching(way: &str, socket: TransportSocket) -> TransportSocketMatch {
    TransportSocketMatch { name: way.into(), r#match: Some(asks_for(way)), transport_socket: Some(socket) }
}

/// What an endpoint says that is connected to in this way.
pub(super) fn goes(way: &str) -> Metadata {
    Metadata { filter_metadata: [(MATCHES.to_owned(), asks_for(way))].into(), ..Metadata::default() }
}

fn asks_for(way: &str) -> Struct {
    Struct { fields: [(WAY.to_owned(), Value { kind: Some(Kind::StringValue(way.into())) })].into() }
}
