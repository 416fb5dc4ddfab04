//! EndpointSlice.

use std::{net::IpAddr, sync::Arc};

use serde::Deserialize;

use super::{Protocol, port};
use crate::{Violation, compact::namespace};

/// A part of the endpoints of a Service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(from = "Raw")]
pub struct EndpointSlice {
    /// Namespace.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// The Service (label `kubernetes.io/service-name`); a slice without one belongs to nobody.
    pub service_name: Option<Arc<str>>,
    /// What the addresses are.
    pub address_type: AddressType,
    /// Endpoints, in the order written.
    pub endpoints: Box<[Endpoint]>,
    /// Ports that every endpoint has.
    pub ports: Box<[EndpointPort]>,
    /// What was left out, and why.
    pub invalid: Box<[Violation]>,
}

slim!(EndpointSlice, invalid);

open_enum! {
    /// What the addresses of a slice are.
    pub enum AddressType {
        /// IPv4 addresses.
        Ipv4 = "IPv4",
        /// IPv6 addresses.
        Ipv6 = "IPv6",
        /// DNS names; none of them is kept.
        Fqdn = "FQDN",
    }
}

/// One endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// Addresses, all of the same endpoint; the first counts.
    pub addresses: Box<[IpAddr]>,
    /// Whether it takes new connections. What is not said is true.
    pub ready: bool,
    /// Whether it answers, be it terminating or not. What is not said is `ready`.
    pub serving: bool,
    /// Whether it is going away. What is not said is false.
    pub terminating: bool,
    /// The zone that it is in.
    pub zone: Option<Arc<str>>,
}

/// A port of a slice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct EndpointPort {
    /// Name of the Service's port; empty for a port without name.
    pub name: Arc<str>,
    /// Number; none means every port, whatever that is to a reader.
    pub port: Option<u16>,
    /// Protocol.
    pub protocol: Protocol,
    /// What is spoken on it.
    pub app_protocol: Option<Box<str>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Raw {
    metadata: RawMeta,
    address_type: AddressType,
    endpoints: Vec<RawEndpoint>,
    ports: Vec<RawPort>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawMeta {
    name: Arc<str>,
    #[serde(deserialize_with = "namespace")]
    namespace: Arc<str>,
    labels: RawLabels,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawLabels {
    #[serde(rename = "kubernetes.io/service-name")]
    service_name: Option<Arc<str>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawEndpoint {
    addresses: Vec<Box<str>>,
    conditions: RawConditions,
    zone: Option<Arc<str>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawConditions {
    ready: Option<bool>,
    serving: Option<bool>,
    terminating: Option<bool>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct RawPort {
    name: Arc<str>,
    port: Option<i64>,
    protocol: Protocol,
    app_protocol: Option<Box<str>>,
}

impl From<Raw> for EndpointSlice {
    fn from(raw: Raw) -> Self {
        let mut invalid = Vec::new();
        if !matches!(raw.address_type, AddressType::Ipv4 | AddressType::Ipv6) {
            let message = "must be IPv4 or IPv6 here: names are not resolved, so none of the endpoints is used";
            invalid.push(Violation::new("addressType", &raw.address_type, message));
        }
        let endpoints = raw.endpoints.into_iter().enumerate();
        let endpoints = endpoints
            .filter_map(|(index, endpoint)| endpoint.checked(index, &raw.address_type, &mut invalid))
            .collect();
        let ports = raw.ports.into_iter().enumerate();
        let ports = ports
            .filter_map(|(index, raw)| {
                let port = match raw.port {
                    None => None,
                    Some(number) => Some(port(number, || format!("ports[{index}].port"), &mut invalid)?),
                };
                Some(EndpointPort { name: raw.name, port, protocol: raw.protocol, app_protocol: raw.app_protocol })
            })
            .collect();
        Self {
            namespace: raw.metadata.namespace,
            name: raw.metadata.name,
            service_name: raw.metadata.labels.service_name.filter(|name| !name.is_empty()),
            address_type: raw.address_type,
            endpoints,
            ports,
            invalid: invalid.into(),
        }
    }
}

impl RawEndpoint {
    /// The endpoint with the addresses that are of the slice's type; none if nothing is left.
    fn checked(self, index: usize, address_type: &AddressType, invalid: &mut Vec<Violation>) -> Option<Endpoint> {
        if !matches!(address_type, AddressType::Ipv4 | AddressType::Ipv6) {
            return None;
        }
        let mut addresses = Vec::with_capacity(self.addresses.len());
        for (place, text) in self.addresses.iter().enumerate() {
            match text.parse::<IpAddr>() {
                Ok(address) if address.is_ipv4() == (*address_type == AddressType::Ipv4) => addresses.push(address),
                _ => invalid.push(Violation::new(
                    format!("endpoints[{index}].addresses[{place}]"),
                    text,
                    format!("must be an {address_type} address"),
                )),
            }
        }
        let RawConditions { ready, serving, terminating } = self.conditions;
        let ready = ready.unwrap_or(true);
        (!addresses.is_empty()).then(|| Endpoint {
            addresses: addresses.into(),
            ready,
            serving: serving.unwrap_or(ready),
            terminating: terminating.unwrap_or(false),
            zone: self.zone,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn slice(address_type: &str, endpoints: &serde_json::Value) -> EndpointSlice {
        serde_json::from_value(json!({
            "metadata": { "name": "s-1", "namespace": "n", "labels": { "kubernetes.io/service-name": "s", "x": "y" } },
            "addressType": address_type,
            "endpoints": endpoints,
            "ports": [{ "name": "web", "port": 8080 }, { "port": null }, { "name": "bad", "port": 0 }],
        }))
        .expect("an EndpointSlice")
    }

    #[test]
    fn the_slice_knows_its_service_and_its_ports() {
        let slice = slice("IPv4", &json!([]));
        assert_eq!(slice.service_name.as_deref(), Some("s"));
        let ports: Vec<_> = slice.ports.iter().map(|port| (&*port.name, port.port)).collect();
        assert_eq!(ports, [("web", Some(8080)), ("", None)]);
        assert_eq!(slice.invalid[0].path, "ports[2].port");
    }

    #[test]
    fn conditions_that_are_not_said_have_the_meaning_that_kubernetes_gives_them() {
        let conditions = [
            (json!({}), [true, true, false]),
            (json!({ "ready": false }), [false, false, false]),
            (json!({ "ready": false, "serving": true, "terminating": true }), [false, true, true]),
            (json!({ "ready": true, "serving": false }), [true, false, false]),
        ];
        for (conditions, expected) in conditions {
            let slice = slice("IPv4", &json!([{ "addresses": ["10.0.0.1"], "conditions": conditions }]));
            let endpoint = &slice.endpoints[0];
            assert_eq!([endpoint.ready, endpoint.serving, endpoint.terminating], expected, "{conditions}");
        }
    }

    #[test]
    fn an_address_that_is_none_or_of_the_other_family_is_left_out_and_noted() {
        let slice = slice("IPv6", &json!([{ "addresses": ["fd00::1", "10.0.0.1"] }, { "addresses": ["nonsense"] }]));
        assert_eq!(slice.endpoints.len(), 1);
        assert_eq!(slice.endpoints[0].addresses[..], ["fd00::1".parse::<IpAddr>().expect("an address")]);
        let noted: Vec<_> = slice.invalid.iter().map(|violation| &*violation.path).collect();
        assert_eq!(noted, ["endpoints[0].addresses[1]", "endpoints[1].addresses[0]", "ports[2].port"]);
    }

    #[test]
    fn a_slice_of_names_has_no_endpoints_and_that_is_noted() {
        let slice = slice("FQDN", &json!([{ "addresses": ["example.com"] }]));
        assert!(slice.endpoints.is_empty());
        let noted: Vec<_> = slice.invalid.iter().map(|violation| &*violation.path).collect();
        assert_eq!(noted, ["addressType", "ports[2].port"]);
    }
}
