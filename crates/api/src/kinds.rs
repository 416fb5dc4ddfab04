//! The kinds of objects that are read: a file or folder each, which has its type, what its CRD says of each field and across
//! fields, and which fields are honoured; and a line each in the list below. Of kinds of Kubernetes itself there are slim
//! models ([`core`](crate::core)).

#[macro_use]
pub mod object;

pub mod backend;
pub mod backend_config_policy;
pub mod backend_tls_policy;
pub mod delegation_policy;
pub mod direct_response;
pub mod gateway;
pub mod gateway_class;
pub mod gateway_extension;
pub mod gateway_parameters;
pub mod grpc_route;
pub mod http_route;
pub mod listener_policy;
pub mod listener_set;
pub mod reference_grant;
pub mod rewrite_policy;
pub mod stream_route;
pub mod tcp_route;
pub mod tls_route;
pub mod traffic_policy;
pub mod udp_route;

use serde::{Deserialize, Deserializer, de::DeserializeSeed};
use serde_json::Value;

use crate::{
    Violation,
    core::{ConfigMap, Deployment, EndpointSlice, Namespace, Secret, Service},
    group::{GROUP, KGATEWAY_GROUP, PORTCULLIS_GROUP},
    honoured::Honoured,
    meta::ObjectMeta,
    resource::Resource,
    schema::Schema,
};
pub use backend::Backend;
pub use backend_config_policy::BackendConfigPolicy;
pub use backend_tls_policy::BackendTlsPolicy;
pub use delegation_policy::DelegationPolicy;
pub use direct_response::DirectResponse;
pub use gateway::Gateway;
pub use gateway_class::GatewayClass;
pub use gateway_extension::GatewayExtension;
pub use gateway_parameters::GatewayParameters;
pub use grpc_route::GrpcRoute;
pub use http_route::HttpRoute;
pub use listener_policy::ListenerPolicy;
pub use listener_set::ListenerSet;
use object::{CLUSTER, NAMESPACED, StatusKind};
pub use reference_grant::ReferenceGrant;
pub use rewrite_policy::RewritePolicy;
pub use tcp_route::TcpRoute;
pub use tls_route::TlsRoute;
pub use traffic_policy::TrafficPolicy;
pub use udp_route::UdpRoute;

// Kind, resource in URLs, group, versions, scope, status.
kinds! {
    GatewayClass: "GatewayClass", "gatewayclasses", GROUP, ["v1", "v1beta1"], CLUSTER, GatewayClass;
    Gateway: "Gateway", "gateways", GROUP, ["v1", "v1beta1"], NAMESPACED, Gateway;
    ListenerSet: "ListenerSet", "listenersets", GROUP, ["v1"], NAMESPACED, ListenerSet;
    HttpRoute: "HTTPRoute", "httproutes", GROUP, ["v1", "v1beta1"], NAMESPACED, Route;
    GrpcRoute: "GRPCRoute", "grpcroutes", GROUP, ["v1"], NAMESPACED, Route;
    TlsRoute: "TLSRoute", "tlsroutes", GROUP, ["v1"], NAMESPACED, Route;
    TcpRoute: "TCPRoute", "tcproutes", GROUP, ["v1"], NAMESPACED, Route;
    UdpRoute: "UDPRoute", "udproutes", GROUP, ["v1"], NAMESPACED, Route;
    ReferenceGrant: "ReferenceGrant", "referencegrants", GROUP, ["v1", "v1beta1"], NAMESPACED, None;
    BackendTlsPolicy: "BackendTLSPolicy", "backendtlspolicies", GROUP, ["v1", "v1alpha3"], NAMESPACED, Policy;
    TrafficPolicy: "TrafficPolicy", "trafficpolicies", KGATEWAY_GROUP, ["v1alpha1"], NAMESPACED, Policy;
    DirectResponse: "DirectResponse", "directresponses", KGATEWAY_GROUP, ["v1alpha1"], NAMESPACED, None;
    Backend: "Backend", "backends", KGATEWAY_GROUP, ["v1alpha1"], NAMESPACED, Backend;
    BackendConfigPolicy: "BackendConfigPolicy", "backendconfigpolicies", KGATEWAY_GROUP, ["v1alpha1"], NAMESPACED, Policy;
    ListenerPolicy: "ListenerPolicy", "listenerpolicies", KGATEWAY_GROUP, ["v1alpha1"], NAMESPACED, Policy;
    RewritePolicy: "RewritePolicy", "rewritepolicies", PORTCULLIS_GROUP, ["v1alpha1"], NAMESPACED, Policy;
    DelegationPolicy: "DelegationPolicy", "delegationpolicies", PORTCULLIS_GROUP, ["v1alpha1"], NAMESPACED, Policy;
    GatewayExtension: "GatewayExtension", "gatewayextensions", KGATEWAY_GROUP, ["v1alpha1"], NAMESPACED, Extension;
    GatewayParameters: "GatewayParameters", "gatewayparameters", KGATEWAY_GROUP, ["v1alpha1"], NAMESPACED, None;
    Service: "Service", "services", "", ["v1"], NAMESPACED, None;
    EndpointSlice: "EndpointSlice", "endpointslices", "discovery.k8s.io", ["v1"], NAMESPACED, None;
    Secret: "Secret", "secrets", "", ["v1"], NAMESPACED, None;
    ConfigMap: "ConfigMap", "configmaps", "", ["v1"], NAMESPACED, None;
    Deployment: "Deployment", "deployments", "apps", ["v1"], NAMESPACED, None;
    Namespace: "Namespace", "namespaces", "", ["v1"], CLUSTER, None;
}
