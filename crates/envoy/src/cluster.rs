//! `envoy.config.cluster.v3.Cluster` and `envoy.config.endpoint.v3.ClusterLoadAssignment`.

use envoy_types::pb::envoy::{
    config::{
        cluster::v3::{
            Cluster as EnvoyCluster, UpstreamConnectionOptions,
            cluster::{
                ClusterDiscoveryType, CommonLbConfig, DiscoveryType, EdsClusterConfig,
                common_lb_config::{LocalityConfigSpecifier, LocalityWeightedLbConfig},
            },
        },
        core::v3::{HealthStatus, HealthStatusSet, Locality as EnvoyLocality, UpstreamHttpProtocolOptions},
        endpoint::v3::{
            ClusterLoadAssignment, Endpoint as EnvoyEndpoint, LbEndpoint, LocalityLbEndpoints,
            cluster_load_assignment::Policy, lb_endpoint::HostIdentifier,
        },
    },
    extensions::upstreams::http::v3::{
        HttpProtocolOptions,
        http_protocol_options::{ExplicitHttpConfig, UpstreamProtocolOptions, explicit_http_config::ProtocolConfig},
    },
    r#type::v3::Percent,
};
use ir::backend::{Assignment, Cluster, Endpoint, Locality, Protocol};
#[cfg(doc)]
use ir::listener::TlsSecret;
use prost::Message;

use crate::{ads, duration, extension, ip_address, tcp_keepalive, uint32};
use crate::{
    bytes::{Fields, any, tag},
    resource::Encoded,
};

mod balance;
mod dns;
pub(crate) mod options;
mod stream;
#[cfg(test)]
mod tests;
mod transport;

pub use stream::stream;

/// With so much spare capacity assumed of each healthy endpoint, one that ends gets a new request only where none that
/// is ready is left, and a locality keeps its weight while it has any that is.
const OVERPROVISIONING_FACTOR: u32 = 1_000_000;

/// The cluster. Its endpoints come over ADS under its own name, unless it has hosts that proxies look for.
///
/// It balances by least request, which evens out slow endpoints and does not make every proxy begin with the same one.
pub fn cluster(cluster: &Cluster) -> Encoded {
    let config = &*cluster.config;
    let (lb_policy, lb_config) = balance::policy(config.balance.as_ref());
    let by_name = !cluster.hosts.is_empty();
    let eds = || EdsClusterConfig { eds_config: Some(ads()), ..EdsClusterConfig::default() };
    let message = EnvoyCluster {
        name: cluster.name.to_string(),
        cluster_discovery_type: Some(if by_name {
            ClusterDiscoveryType::ClusterType(dns::discovery(config.dns.as_ref()))
        } else {
            ClusterDiscoveryType::Type(DiscoveryType::Eds as i32)
        }),
        eds_cluster_config: (!by_name).then(eds),
        load_assignment: by_name.then(|| dns::hosts(&cluster.name, &cluster.hosts)),
        connect_timeout: Some(duration(config.connect_timeout.unwrap_or(cluster.connect_timeout))),
        per_connection_buffer_limit_bytes: Some(uint32(config.buffer_bytes.unwrap_or(cluster.limits.buffer_bytes))),
        lb_policy: lb_policy as i32,
        lb_config,
        load_balancing_policy: balance::by_hostname(config.balance.as_ref()),
        circuit_breakers: Some(balance::circuit_breakers(cluster.limits, config.breakers.as_ref())),
        common_lb_config: Some(match &config.balance {
            Some(said) => balance::common(said, common_lb_config(cluster.weighted_localities)),
            None => common_lb_config(cluster.weighted_localities),
        }),
        health_checks: config.health_check.iter().map(|check| balance::health_check(check, cluster.protocol)).collect(),
        outlier_detection: config.outliers.as_ref().map(balance::outliers),
        transport_socket: transport::socket(cluster),
        upstream_connection_options: Some(UpstreamConnectionOptions {
            tcp_keepalive: Some(config.keepalive.as_ref().map_or_else(tcp_keepalive, options::keepalive)),
            ..UpstreamConnectionOptions::default()
        }),
        ignore_health_on_host_removal: true,
        ..EnvoyCluster::default()
    };
    let options = any(&http_protocol_options(cluster)).encode_to_vec();
    Encoded::new(
        Fields::of(&message)
            .map(tag::CLUSTER_TYPED_EXTENSION_PROTOCOL_OPTIONS, [(extension::HTTP_PROTOCOL_OPTIONS, options)])
            .into_bytes(),
    )
}

/// The same cluster for proxies that show the certificate of their Gateway there ([`TlsSecret::OF_GATEWAY`]). One that is not behind
/// TLS, or where another certificate is shown, stays as it is.
pub fn showing(cluster: &Encoded) -> Encoded {
    let read = EnvoyCluster::decode(cluster.body.to_bytes());
    let shown = read.ok().and_then(|message| {
        let socket = transport::showing(message.transport_socket.as_ref()?)?;
        Some(EnvoyCluster { transport_socket: Some(socket), ..message })
    });
    // Of its maps one has an entry, and that is the only one.
    shown.map_or_else(|| cluster.clone(), |message| Encoded::new(message.encode_to_vec()))
}

fn common_lb_config(weighted_localities: bool) -> CommonLbConfig {
    let any_status = [HealthStatus::Unknown, HealthStatus::Healthy, HealthStatus::Draining, HealthStatus::Degraded];
    CommonLbConfig {
        // Endpoints that are not ready are ranked, see above; there is nothing to panic about.
        healthy_panic_threshold: Some(Percent { value: 0.0 }),
        locality_config_specifier: weighted_localities
            .then_some(LocalityConfigSpecifier::LocalityWeightedLbConfig(LocalityWeightedLbConfig {})),
        // A session stays with an endpoint that ends, and with one whose backend has no weight any more.
        override_host_status: Some(HealthStatusSet { statuses: any_status.map(|status| status as i32).into() }),
        ..CommonLbConfig::default()
    }
}

fn http_protocol_options(cluster: &Cluster) -> HttpProtocolOptions {
    let protocol = cluster.protocol;
    let config = match protocol {
        Protocol::Http1 | Protocol::Http1Tls => {
            ProtocolConfig::HttpProtocolOptions(options::http1(cluster.config.http1.as_ref()))
        }
        Protocol::H2c => ProtocolConfig::Http2ProtocolOptions(options::http2(cluster.config.http2.as_ref())),
    };
    HttpProtocolOptions {
        common_http_protocol_options: cluster.config.http.as_ref().map(options::common),
        upstream_http_protocol_options: (protocol == Protocol::Http1Tls && cluster.config.tls.is_none())
            .then(|| UpstreamHttpProtocolOptions { auto_sni: true, ..UpstreamHttpProtocolOptions::default() }),
        upstream_protocol_options: Some(UpstreamProtocolOptions::ExplicitHttpConfig(ExplicitHttpConfig {
            protocol_config: Some(config),
        })),
        http_filters: if cluster.guarded && !cluster.hosts.is_empty() { dns::guard() } else { Vec::new() },
        ..HttpProtocolOptions::default()
    }
}

/// The endpoints of a cluster. No endpoint at all is an answer too: requests get Envoy's 503.
pub fn endpoints(assignment: &Assignment) -> Encoded {
    let message = ClusterLoadAssignment {
        cluster_name: assignment.cluster.to_string(),
        endpoints: assignment.localities.iter().map(locality).collect(),
        policy: Some(Policy { overprovisioning_factor: Some(uint32(OVERPROVISIONING_FACTOR)), ..Policy::default() }),
        ..ClusterLoadAssignment::default()
    };
    Encoded::new(message.encode_to_vec())
}

fn locality(locality: &Locality) -> LocalityLbEndpoints {
    let named = !locality.zone.is_empty() || !locality.sub_zone.is_empty();
    LocalityLbEndpoints {
        locality: named.then(|| EnvoyLocality {
            zone: locality.zone.to_string(),
            sub_zone: locality.sub_zone.to_string(),
            ..EnvoyLocality::default()
        }),
        lb_endpoints: locality.endpoints.iter().map(|at| endpoint(at, &locality.way)).collect(),
        // Where localities are weighted, one without a weight gets nothing; zero cannot be written.
        load_balancing_weight: locality.weight.filter(|weight| *weight > 0).map(uint32),
        ..LocalityLbEndpoints::default()
    }
}

fn endpoint(endpoint: &Endpoint, way: &str) -> LbEndpoint {
    let status = if endpoint.ready { HealthStatus::Unknown } else { HealthStatus::Degraded };
    LbEndpoint {
        host_identifier: Some(HostIdentifier::Endpoint(EnvoyEndpoint {
            address: Some(ip_address(endpoint.address, endpoint.port)),
            hostname: if endpoint.is_host { endpoint.address.to_string() } else { String::new() },
            ..EnvoyEndpoint::default()
        })),
        health_status: status as i32,
        metadata: (!way.is_empty()).then(|| stream::goes(way)),
        ..LbEndpoint::default()
    }
}
