//! The bootstrap of an Envoy: who it is, where its configuration comes from, what it is limited to as a process.

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use envoy_types::pb::{
    envoy::{
        config::{
            bootstrap::v3::{
                Admin, Bootstrap, LayeredRuntime, RuntimeLayer,
                bootstrap::{DynamicResources, StaticResources},
                runtime_layer::{AdminLayer, LayerSpecifier},
            },
            cluster::v3::{
                Cluster, UpstreamConnectionOptions,
                cluster::{ClusterDiscoveryType, DiscoveryType},
            },
            core::v3::{
                Address, ApiConfigSource, ApiVersion, BackoffStrategy, GrpcService, Http2ProtocolOptions,
                KeepaliveSettings, Node, Pipe, RetryPolicy, address,
                api_config_source::ApiType,
                grpc_service::{EnvoyGrpc, TargetSpecifier},
            },
            endpoint::v3::{
                ClusterLoadAssignment, Endpoint, LbEndpoint, LocalityLbEndpoints, lb_endpoint::HostIdentifier,
            },
            overload::v3::{
                OverloadAction, OverloadManager, ResourceMonitor, ThresholdTrigger, Trigger, resource_monitor,
                trigger::TriggerOneof,
            },
        },
        extensions::{
            filters::network::http_connection_manager::v3::HttpFilter,
            resource_monitors::{
                downstream_connections::v3::DownstreamConnectionsConfig, fixed_heap::v3::FixedHeapConfig,
            },
            upstreams::http::v3::{
                HttpProtocolOptions,
                http_protocol_options::{
                    ExplicitHttpConfig, UpstreamProtocolOptions, explicit_http_config::ProtocolConfig,
                },
            },
        },
    },
    google::protobuf::{Struct, Value, value::Kind},
};
use ir::{NsName, settings::Edge};
use prost::Message;

use crate::bytes::any;
use crate::{ads, duration, extension, json, socket_address, tcp_keepalive};

mod observed;
mod secured;
#[cfg(test)]
mod tests;

pub use secured::{Credentials, SecretFile};

/// The name of the static cluster that configuration comes from.
pub const XDS_CLUSTER: &str = "xds";

/// What stock Envoy refuses beyond 100 instructions, an ordinary repetition already is. Validation has a safe bound
/// below this one.
pub const MAX_REGEX_PROGRAM_SIZE: u32 = 32_768;

/// How much of an answer a proxy keeps that it asked for by itself, in bytes: keys of tokens, and what a judge says over HTTP.
/// Whose server that is decides how much it sends, and each request may have a proxy ask. Envoy takes 32 MiB unless told
/// otherwise.
pub const MAX_ANSWER: u32 = 256 << 10;

/// How long Envoy waits before it asks a controller again that went away, growing from one to the other, each time
/// less by chance. To be asked in vain costs a controller little.
const RECONNECT_BASE: Duration = Duration::from_millis(250);
const RECONNECT_MAX: Duration = Duration::from_secs(1);

/// Where the controller serves xDS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum XdsAddress {
    /// A host name or address, and a port.
    Tcp {
        /// The host.
        host: String,
        /// The port.
        port: u16,
    },
    /// The path of a Unix socket.
    Unix(PathBuf),
}

/// Where Envoy serves its admin interface, which can do anything to it: loopback, or a path that few can open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminAddress {
    /// An address, and a port; zero lets the kernel choose one.
    Tcp {
        /// The address.
        address: IpAddr,
        /// The port.
        port: u16,
    },
    /// The path of a Unix socket.
    Unix(PathBuf),
}

/// The bootstrap of one proxy of `gateway`. `node_id` is unique among them, such as its host's name.
pub fn bootstrap(gateway: &NsName, node_id: &str, xds: &XdsAddress, admin: &AdminAddress, edge: &Edge) -> Bootstrap {
    Bootstrap {
        node: Some(Node { id: node_id.into(), cluster: gateway.to_string(), ..Node::default() }),
        static_resources: Some(StaticResources {
            clusters: vec![xds_cluster(xds, vec![])],
            ..StaticResources::default()
        }),
        dynamic_resources: Some(DynamicResources {
            lds_config: Some(ads()),
            cds_config: Some(ads()),
            ads_config: Some(ads_config()),
            ..DynamicResources::default()
        }),
        layered_runtime: Some(layered_runtime()),
        admin: Some(Admin {
            address: Some(match admin {
                AdminAddress::Tcp { address, port } => socket_address(&address.to_string(), *port),
                AdminAddress::Unix(path) => pipe(path),
            }),
            // It answers probes when clients have taken all connections, too.
            ignore_global_conn_limit: true,
            ..Admin::default()
        }),
        overload_manager: Some(overload_manager(edge)),
        ..Bootstrap::default()
    }
}

/// The bootstrap of a proxy in a cluster: as [`bootstrap`], with a controller that is reached over TLS and shown a token,
/// and with a listener at `observed` that tells kubelet and Prometheus what they ask for, and nothing else to anybody.
///
/// The files of [`Credentials::files`] have to stand where `credentials` says.
pub fn secured_bootstrap(
    gateway: &NsName,
    node_id: &str,
    xds: &XdsAddress,
    credentials: &Credentials,
    admin: &AdminAddress,
    observed: SocketAddr,
    edge: &Edge,
) -> Bootstrap {
    let mut bootstrap = bootstrap(gateway, node_id, xds, admin, edge);
    if let Some(resources) = &mut bootstrap.dynamic_resources {
        // Who tells whether it is ready must not be ready before it was told anything.
        for source in [&mut resources.lds_config, &mut resources.cds_config].into_iter().flatten() {
            source.initial_fetch_timeout = Some(duration(Duration::ZERO));
        }
    }
    let mut cluster = xds_cluster(xds, vec![credentials.token_filter(), secured::codec_filter()]);
    cluster.transport_socket = Some(credentials.transport_socket());
    bootstrap.static_resources = Some(StaticResources {
        listeners: vec![observed::listener(observed)],
        clusters: vec![cluster, observed::admin_cluster(admin)],
        ..StaticResources::default()
    });
    bootstrap
}

/// A bootstrap as JSON, which Envoy reads from a file or from its command line.
pub fn bootstrap_json(bootstrap: &Bootstrap) -> Result<serde_json::Value, json::Error> {
    json::value("envoy.config.bootstrap.v3.Bootstrap", &bootstrap.encode_to_vec())
}

fn ads_config() -> ApiConfigSource {
    ApiConfigSource {
        api_type: ApiType::DeltaGrpc as i32,
        transport_api_version: ApiVersion::V3 as i32,
        grpc_services: vec![GrpcService {
            target_specifier: Some(TargetSpecifier::EnvoyGrpc(EnvoyGrpc {
                cluster_name: XDS_CLUSTER.into(),
                retry_policy: Some(RetryPolicy {
                    retry_back_off: Some(BackoffStrategy {
                        base_interval: Some(duration(RECONNECT_BASE)),
                        max_interval: Some(duration(RECONNECT_MAX)),
                    }),
                    ..RetryPolicy::default()
                }),
                ..EnvoyGrpc::default()
            })),
            ..GrpcService::default()
        }],
        set_node_on_first_message_only: true,
        ..ApiConfigSource::default()
    }
}

/// Where xDS comes from. A token is added by `filters`, so that each stream has the one of its time.
fn xds_cluster(xds: &XdsAddress, filters: Vec<HttpFilter>) -> Cluster {
    let (address, discovery) = match xds {
        XdsAddress::Unix(path) => (pipe(path), DiscoveryType::Static),
        XdsAddress::Tcp { host, port } => {
            let host = host.trim_start_matches('[').trim_end_matches(']');
            let discovery =
                if host.parse::<IpAddr>().is_ok() { DiscoveryType::Static } else { DiscoveryType::StrictDns };
            (socket_address(host, *port), discovery)
        }
    };
    // A controller that is gone is noticed, and another replica tried, within a minute.
    let keepalive = KeepaliveSettings {
        interval: Some(duration(Duration::from_secs(30))),
        timeout: Some(duration(Duration::from_secs(10))),
        ..KeepaliveSettings::default()
    };
    let options = HttpProtocolOptions {
        upstream_protocol_options: Some(UpstreamProtocolOptions::ExplicitHttpConfig(ExplicitHttpConfig {
            protocol_config: Some(ProtocolConfig::Http2ProtocolOptions(Http2ProtocolOptions {
                connection_keepalive: Some(keepalive),
                ..Http2ProtocolOptions::default()
            })),
        })),
        http_filters: filters,
        ..HttpProtocolOptions::default()
    };
    Cluster {
        typed_extension_protocol_options: [(extension::HTTP_PROTOCOL_OPTIONS.into(), any(&options))].into(),
        upstream_connection_options: Some(UpstreamConnectionOptions {
            tcp_keepalive: Some(tcp_keepalive()),
            ..UpstreamConnectionOptions::default()
        }),
        ..cluster(XDS_CLUSTER, discovery, address)
    }
}

/// A cluster of one endpoint.
fn cluster(name: &str, discovery: DiscoveryType, address: Address) -> Cluster {
    let endpoint = Endpoint { address: Some(address), ..Endpoint::default() };
    Cluster {
        name: name.into(),
        cluster_discovery_type: Some(ClusterDiscoveryType::Type(discovery as i32)),
        connect_timeout: Some(duration(Duration::from_secs(5))),
        load_assignment: Some(ClusterLoadAssignment {
            cluster_name: name.into(),
            endpoints: vec![LocalityLbEndpoints {
                lb_endpoints: vec![LbEndpoint {
                    host_identifier: Some(HostIdentifier::Endpoint(endpoint)),
                    ..LbEndpoint::default()
                }],
                ..LocalityLbEndpoints::default()
            }],
            ..ClusterLoadAssignment::default()
        }),
        ..Cluster::default()
    }
}

fn pipe(path: &std::path::Path) -> Address {
    let pipe = Pipe { path: path.to_string_lossy().into_owned(), ..Pipe::default() };
    Address { address: Some(address::Address::Pipe(pipe)) }
}

fn layered_runtime() -> LayeredRuntime {
    let number = |number: u32| Value { kind: Some(Kind::NumberValue(number.into())) };
    let flag = |flag: bool| Value { kind: Some(Kind::BoolValue(flag)) };
    let fields = [
        ("re2.max_program_size.error_level", number(MAX_REGEX_PROGRAM_SIZE)),
        ("http.async_response_buffer_limit", number(MAX_ANSWER)),
        // The cookies of logins are AES-CBC otherwise, which anybody can decrypt who sees whether Envoy could.
        ("envoy.reloadable_features.oauth2_use_gcm_encryption", flag(true)),
        ("envoy.reloadable_features.oauth2_legacy_cbc_decrypt_compat", flag(false)),
    ];
    let fields = fields.map(|(key, value)| (key.to_owned(), value)).into();
    LayeredRuntime {
        layers: vec![
            RuntimeLayer {
                name: "portcullis".into(),
                layer_specifier: Some(LayerSpecifier::StaticLayer(Struct { fields })),
            },
            // Last, so that an operator can override the rest while Envoy runs.
            RuntimeLayer {
                name: "admin".into(),
                layer_specifier: Some(LayerSpecifier::AdminLayer(AdminLayer::default())),
            },
        ],
    }
}

fn overload_manager(edge: &Edge) -> OverloadManager {
    const CONNECTIONS: &str = "envoy.resource_monitors.global_downstream_max_connections";
    const HEAP: &str = "envoy.resource_monitors.fixed_heap";
    let monitor = |name: &str, config| ResourceMonitor {
        name: name.into(),
        config_type: Some(resource_monitor::ConfigType::TypedConfig(config)),
    };
    let connections = DownstreamConnectionsConfig { max_active_downstream_connections: edge.max_connections.into() };
    let mut manager = OverloadManager {
        refresh_interval: Some(duration(Duration::from_millis(250))),
        resource_monitors: vec![monitor(CONNECTIONS, any(&connections))],
        ..OverloadManager::default()
    };
    if edge.max_heap_bytes > 0 {
        let heap = FixedHeapConfig { max_heap_size_bytes: edge.max_heap_bytes, ..FixedHeapConfig::default() };
        manager.resource_monitors.push(monitor(HEAP, any(&heap)));
        let action = |name: &str, value: f64| OverloadAction {
            name: name.into(),
            triggers: vec![Trigger {
                name: HEAP.into(),
                trigger_oneof: Some(TriggerOneof::Threshold(ThresholdTrigger { value })),
            }],
            ..OverloadAction::default()
        };
        manager.actions = vec![
            action("envoy.overload_actions.shrink_heap", 0.9),
            action("envoy.overload_actions.disable_http_keepalive", 0.92),
            action("envoy.overload_actions.stop_accepting_requests", 0.95),
            action("envoy.overload_actions.stop_accepting_connections", 0.98),
        ];
    }
    manager
}
