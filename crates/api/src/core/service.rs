//! Service.

use std::sync::Arc;

use serde::Deserialize;

use super::{Protocol, port};
use crate::{Violation, compact::namespace, meta::StringMap};

/// A Service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(from = "Raw")]
pub struct Service {
    /// Namespace.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// Labels, by which policies select it.
    pub labels: StringMap,
    /// Type.
    pub r#type: ServiceType,
    /// Whether it has no cluster IP (`clusterIP: None`).
    pub headless: bool,
    /// Whether its endpoints are found by a selector; without one somebody else writes them.
    pub has_selector: bool,
    /// The DNS name of a Service of type `ExternalName`.
    pub external_name: Option<Box<str>>,
    /// Ports, in the order written.
    pub ports: Box<[ServicePort]>,
    /// Where it is reached from outside, one entry an address; kept only for what a Gateway's proxies are reached by
    /// ([`GATEWAY_NAME`]).
    pub ingress: Box<[Box<str>]>,
    /// The ports that a load balancer says it does not serve (`status.loadBalancer.ingress[].ports[].error`); kept likewise.
    pub unserved_ports: Box<[(u16, Protocol)]>,
    /// Its address in the cluster; kept likewise.
    pub cluster_ip: Option<Box<str>>,
    /// What was left out, and why.
    pub invalid: Box<[Violation]>,
}

slim!(Service, invalid);

/// The label that names the Gateway for which an object was made (GEP-1762).
pub const GATEWAY_NAME: &str = "gateway.networking.k8s.io/gateway-name";

impl Service {
    /// The port of this number and protocol: protocols may share a number.
    pub fn port(&self, number: u16, protocol: &Protocol) -> Option<&ServicePort> {
        self.ports.iter().find(|port| port.port == number && port.protocol == *protocol)
    }
}

open_enum! {
    /// How a Service is reached.
    pub enum ServiceType {
        /// Inside the cluster.
        ClusterIp = "ClusterIP",
        /// On every node too.
        NodePort = "NodePort",
        /// By a load balancer too.
        LoadBalancer = "LoadBalancer",
        /// By a DNS name outside.
        ExternalName = "ExternalName",
    }
    default ClusterIp;
}

/// A port of a Service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ServicePort {
    /// Name, by which EndpointSlices know it; empty if it is the only one.
    pub name: Arc<str>,
    /// Number.
    pub port: u16,
    /// Port of the endpoints; none if it is the same.
    pub target_port: Option<TargetPort>,
    /// Protocol.
    pub protocol: Protocol,
    /// What is spoken on it, such as `kubernetes.io/h2c`.
    pub app_protocol: Option<Box<str>>,
}

/// Port of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TargetPort {
    /// By number.
    Number(u16),
    /// By the name of a container port.
    Name(Box<str>),
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Raw {
    metadata: RawMetadata,
    spec: RawSpec,
    status: RawStatus,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawMetadata {
    name: Arc<str>,
    #[serde(deserialize_with = "namespace")]
    namespace: Arc<str>,
    labels: StringMap,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct RawStatus {
    load_balancer: RawLoadBalancer,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawLoadBalancer {
    ingress: Vec<RawIngress>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawIngress {
    ip: Option<Box<str>>,
    hostname: Option<Box<str>>,
    ports: Vec<RawPortStatus>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawPortStatus {
    port: u16,
    protocol: Protocol,
    error: Option<Box<str>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct RawSpec {
    r#type: ServiceType,
    #[serde(rename = "clusterIP")]
    cluster_ip: Box<str>,
    selector: StringMap,
    external_name: Option<Box<str>>,
    ports: Vec<RawPort>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct RawPort {
    name: Arc<str>,
    port: i64,
    target_port: Option<RawTargetPort>,
    protocol: Protocol,
    app_protocol: Option<Box<str>>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "a port number or the name of a port")]
enum RawTargetPort {
    Number(i64),
    Name(Box<str>),
}

impl From<Raw> for Service {
    fn from(Raw { metadata, spec, status }: Raw) -> Self {
        let of_proxies = metadata.labels.contains_key(GATEWAY_NAME);
        let ingress = if of_proxies { status.load_balancer.ingress } else { Vec::new() };
        let with_error = ingress.iter().flat_map(|ingress| &ingress.ports).filter(|port| port.error.is_some());
        let unserved_ports = with_error.map(|port| (port.port, port.protocol.clone())).collect();
        let mut invalid = Vec::new();
        let ports = spec.ports.into_iter().enumerate();
        let ports = ports.filter_map(|(index, raw)| {
            let port = port(raw.port, || format!("spec.ports[{index}].port"), &mut invalid)?;
            let target_port = match raw.target_port {
                // Kubernetes reads 0 and the empty name as not set.
                None | Some(RawTargetPort::Number(0)) => None,
                Some(RawTargetPort::Name(name)) => Some(name).filter(|name| !name.is_empty()).map(TargetPort::Name),
                Some(RawTargetPort::Number(number)) => {
                    let path = || format!("spec.ports[{index}].targetPort");
                    Some(TargetPort::Number(super::port(number, path, &mut invalid)?))
                }
            };
            Some(ServicePort {
                name: raw.name,
                port,
                target_port,
                protocol: raw.protocol,
                app_protocol: raw.app_protocol,
            })
        });
        Self {
            namespace: metadata.namespace,
            name: metadata.name,
            labels: metadata.labels,
            headless: &*spec.cluster_ip == "None",
            unserved_ports,
            ingress: ingress.into_iter().filter_map(|ingress| ingress.ip.or(ingress.hostname)).collect(),
            cluster_ip: Some(spec.cluster_ip).filter(|ip| of_proxies && !ip.is_empty() && &**ip != "None"),
            has_selector: !spec.selector.is_empty(),
            external_name: spec.external_name,
            ports: ports.collect(),
            r#type: spec.r#type,
            invalid: invalid.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn service(spec: &serde_json::Value) -> Service {
        serde_json::from_value(json!({ "metadata": { "name": "s", "namespace": "n" }, "spec": spec }))
            .expect("a Service")
    }

    #[test]
    fn what_translation_reads_is_kept() {
        let service = service(&json!({
            "clusterIP": "None",
            "selector": { "app": "s" },
            "ports": [
                { "port": 80, "targetPort": "http", "name": "web", "appProtocol": "kubernetes.io/h2c" },
                { "port": 53, "targetPort": 5353, "protocol": "UDP" },
            ],
        }));
        assert_eq!((&*service.namespace, &*service.name), ("n", "s"));
        assert!(service.headless);
        assert!(service.has_selector);
        assert_eq!(service.r#type, ServiceType::ClusterIp);
        let web = service.port(80, &Protocol::Tcp).expect("a port");
        assert_eq!(&*web.name, "web");
        assert_eq!(web.target_port, Some(TargetPort::Name("http".into())));
        assert_eq!(web.app_protocol.as_deref(), Some("kubernetes.io/h2c"));
        assert_eq!(web.protocol, Protocol::Tcp);
        assert_eq!(service.port(53, &Protocol::Udp).expect("a port").target_port, Some(TargetPort::Number(5353)));
        assert_eq!(service.port(53, &Protocol::Tcp), None);
        assert_eq!(service.port(81, &Protocol::Tcp), None);
    }

    #[test]
    fn addresses_are_kept_of_what_proxies_are_reached_by_alone() {
        let read = |labels: serde_json::Value| -> Service {
            serde_json::from_value(json!({
                "metadata": { "name": "s", "namespace": "n", "labels": labels },
                "spec": { "clusterIP": "10.0.0.1" },
                "status": { "loadBalancer": { "ingress": [{ "ip": "192.0.2.1" }, { "hostname": "lb.example.com" }] } },
            }))
            .expect("a Service")
        };
        let proxies = read(json!({ GATEWAY_NAME: "edge" }));
        assert_eq!(*proxies.ingress, ["192.0.2.1".into(), "lb.example.com".into()]);
        assert_eq!(proxies.cluster_ip.as_deref(), Some("10.0.0.1"));
        let other = read(json!({ "app": "s" }));
        assert!(other.ingress.is_empty() && other.cluster_ip.is_none());
    }

    #[test]
    fn a_number_shared_by_two_protocols_is_two_ports() {
        let service = service(&json!({
            "ports": [{ "port": 53, "protocol": "UDP", "name": "u" }, { "port": 53, "name": "t" }]
        }));
        for (protocol, name) in [(Protocol::Tcp, Some("t")), (Protocol::Udp, Some("u")), (Protocol::Sctp, None)] {
            assert_eq!(service.port(53, &protocol).map(|port| &*port.name), name, "{protocol}");
        }
    }

    #[test]
    fn a_port_out_of_bounds_is_left_out_and_noted() {
        let service = service(&json!({
            "ports": [{ "port": 0 }, { "port": 70000 }, { "port": 80, "targetPort": 0 }, { "port": 81, "targetPort": -1 }]
        }));
        assert_eq!(service.ports.len(), 1);
        assert_eq!(service.ports[0].target_port, None);
        let noted: Vec<_> =
            service.invalid.iter().map(|violation| (&*violation.path, violation.value.as_deref())).collect();
        assert_eq!(
            noted,
            [
                ("spec.ports[0].port", Some("0")),
                ("spec.ports[1].port", Some("70000")),
                ("spec.ports[3].targetPort", Some("-1"))
            ]
        );
    }

    #[test]
    fn a_service_without_a_selector_or_with_an_external_name_shows() {
        assert!(!service(&json!({})).has_selector);
        assert!(!service(&json!({ "clusterIP": "10.0.0.1" })).headless);
        let external = service(&json!({ "type": "ExternalName", "externalName": "example.com" }));
        assert_eq!(external.r#type, ServiceType::ExternalName);
        assert_eq!(external.external_name.as_deref(), Some("example.com"));
    }
}
