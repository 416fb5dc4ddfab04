//! Manifests as a user writes them, made to run on this machine beside other tests.
//!
//! The files below `tests/traffic` are plain YAML that a cluster would take: listeners on ports 80 and 443, pods at
//! `10.0.0.N`, Secrets without data. [`Renderer`] replaces what a cluster would supply: listener ports by free ones, pod
//! addresses, and those of Backends, by loopback addresses (the port stays), the data of a Secret annotated with [`CERTIFICATE`] by a certificate.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::certificates::{Certificates, KeyKind};
use crate::ports::{LoopbackBlock, free_port};

/// The annotation of a Secret whose data is a certificate for these names, separated by commas.
pub const CERTIFICATE: &str = "test.portcullis.dev/certificate";

/// The annotation of such a Secret whose key is `rsa` instead of `ecdsa`.
pub const KEY: &str = "test.portcullis.dev/key";

/// The annotation of an EndpointSlice at whose endpoints nobody shall listen, with the value `none`.
pub const BACKEND: &str = "test.portcullis.dev/backend";

/// Which port a listener really gets.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PortMapping {
    /// A free one for every port of every Gateway.
    #[default]
    Gateway,
    /// A free one for every port, so that Gateways still collide where they do on paper.
    Shared,
    /// The one that is written.
    Own,
}

/// Identifies an object: kind, and `NAMESPACE/NAME`, or `NAME` where there is no namespace.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct ObjectId {
    /// The kind.
    pub kind: String,
    /// The qualified name.
    pub name: String,
}

impl ObjectId {
    /// The identity of a manifest.
    pub fn of(manifest: &Value) -> Result<Self> {
        let text = |pointer| manifest.pointer(pointer).and_then(Value::as_str);
        let kind = text("/kind").context("a manifest without kind")?.to_owned();
        let name = text("/metadata/name").with_context(|| format!("a {kind} without name"))?;
        let name = match text("/metadata/namespace") {
            Some(namespace) => format!("{namespace}/{name}"),
            None => name.to_owned(),
        };
        Ok(Self { kind, name })
    }

    /// Reads `KIND NAMESPACE/NAME`.
    pub fn parse(text: &str) -> Result<Self> {
        let (kind, name) = text.split_once(' ').context("an object is `KIND NAME`")?;
        Ok(Self { kind: kind.to_owned(), name: name.to_owned() })
    }
}

/// The documents of a YAML file; empty ones are left out.
pub fn parse(yaml: &str) -> Result<Vec<Value>> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(yaml)?;
    Ok(documents.into_iter().filter(|document| !document.is_null()).collect())
}

/// Writes documents as one YAML file (each of them as JSON, which YAML contains).
pub fn print(documents: &[Value]) -> Result<String> {
    let mut text = String::new();
    for document in documents {
        text.push_str("---\n");
        text.push_str(&serde_json::to_string_pretty(document)?);
        text.push('\n');
    }
    Ok(text)
}

/// Adapts manifests to this machine, and knows what it replaced by what.
#[derive(Debug)]
pub struct Renderer {
    mapping: PortMapping,
    block: LoopbackBlock,
    /// What is written, as (Gateway, port), and what it became.
    ports: BTreeMap<(String, u16), u16>,
    /// The port of an IPv6 endpoint or of localhost, by object and what is written: there is only one such address.
    own_ports: BTreeMap<(String, u16), u16>,
    backends: BTreeMap<SocketAddr, String>,
    certificates: Certificates,
}

impl Renderer {
    /// A renderer with addresses of its own.
    pub fn new(mapping: PortMapping) -> Result<Self> {
        Ok(Self {
            mapping,
            block: LoopbackBlock::reserve()?,
            ports: BTreeMap::new(),
            own_ports: BTreeMap::new(),
            backends: BTreeMap::new(),
            certificates: Certificates::default(),
        })
    }

    /// The addresses that pods get.
    pub fn block(&self) -> LoopbackBlock {
        self.block
    }

    /// The certificates made so far.
    pub fn certificates(&self) -> &Certificates {
        &self.certificates
    }

    /// Where backends must listen, and their names (`NAMESPACE/SERVICE`, that of the first Service with the address).
    pub fn backends(&self) -> &BTreeMap<SocketAddr, String> {
        &self.backends
    }

    /// What became of `port` of `gateway`.
    pub fn port(&mut self, gateway: &str, port: u16) -> Result<u16> {
        let gateway = match self.mapping {
            PortMapping::Own => return Ok(port),
            PortMapping::Shared => "",
            PortMapping::Gateway => gateway,
        };
        let key = (gateway.to_owned(), port);
        if let Some(port) = self.ports.get(&key) {
            return Ok(*port);
        }
        let free = free_port()?;
        self.ports.insert(key, free);
        Ok(free)
    }

    /// Adapts one manifest.
    pub fn render(&mut self, manifest: &mut Value) -> Result<()> {
        let id = ObjectId::of(manifest)?;
        let rendered = match id.kind.as_str() {
            "Gateway" => self.gateway(&id, manifest),
            "ListenerSet" => self.listener_set(manifest),
            "HTTPRoute" => self.route(manifest),
            "Backend" => self.backend(&id, manifest),
            "EndpointSlice" => self.slice(&id, manifest),
            "Secret" => self.secret(&id, manifest),
            _ => Ok(()),
        };
        rendered.with_context(|| format!("{} {}", id.kind, id.name))
    }

    fn gateway(&mut self, id: &ObjectId, manifest: &mut Value) -> Result<()> {
        for listener in items(manifest.pointer_mut("/spec/listeners")) {
            self.replace_port(&id.name, listener)?;
        }
        Ok(())
    }

    /// Its ports are those of its Gateway.
    fn listener_set(&mut self, manifest: &mut Value) -> Result<()> {
        let own = text(manifest, "/metadata/namespace").unwrap_or_default();
        let namespace = text(manifest, "/spec/parentRef/namespace").unwrap_or(own);
        let gateway = format!("{namespace}/{}", text(manifest, "/spec/parentRef/name").unwrap_or_default());
        for listener in items(manifest.pointer_mut("/spec/listeners")) {
            self.replace_port(&gateway, listener)?;
        }
        Ok(())
    }

    fn route(&mut self, manifest: &mut Value) -> Result<()> {
        let namespace = text(manifest, "/metadata/namespace").unwrap_or_default();
        for parent in items(manifest.pointer_mut("/spec/parentRefs")) {
            let namespace = text(parent, "/namespace").unwrap_or_else(|| namespace.clone());
            let name = text(parent, "/name").unwrap_or_default();
            self.replace_port(&format!("{namespace}/{name}"), parent)?;
        }
        Ok(())
    }

    fn replace_port(&mut self, gateway: &str, holder: &mut Value) -> Result<()> {
        if let Some(port) = holder.get("port").and_then(Value::as_u64) {
            // A port out of range is one that a test wants to have refused.
            if let Some(port) = u16::try_from(port).ok().filter(|port| *port > 0) {
                holder["port"] = self.port(gateway, port)?.into();
            }
        }
        Ok(())
    }

    fn slice(&mut self, id: &ObjectId, manifest: &mut Value) -> Result<()> {
        let namespace = text(manifest, "/metadata/namespace").unwrap_or_default();
        let service = text(manifest, "/metadata/labels/kubernetes.io~1service-name")
            .context("no label kubernetes.io/service-name")?;
        let backend = format!("{namespace}/{service}");
        let absent = annotation(manifest, BACKEND).as_deref() == Some("none");
        let ipv6 = text(manifest, "/addressType").as_deref() == Some("IPv6");
        let mut ports = Vec::new();
        for port in items(manifest.pointer_mut("/ports")) {
            let written = port.get("port").and_then(Value::as_u64);
            let written = u16::try_from(written.context("a port without number")?)?;
            if ipv6 {
                port["port"] = self.own_port(&id.name, written)?.into();
            }
            ports.push(u16::try_from(port["port"].as_u64().unwrap_or_default())?);
        }
        for endpoint in items(manifest.pointer_mut("/endpoints")) {
            for address in items(endpoint.get_mut("addresses")) {
                let real = self.address(address.as_str().unwrap_or_default())?;
                *address = real.to_string().into();
                for port in ports.iter().filter(|_| !absent) {
                    let address = SocketAddr::new(real, *port);
                    let known = self.backends.entry(address);
                    known.or_insert_with(|| backend.clone());
                }
            }
        }
        Ok(())
    }

    /// Hosts at `10.0.0.N` become loopback addresses, and `localhost`, the one name that every resolver knows, gets a free port.
    fn backend(&mut self, id: &ObjectId, manifest: &mut Value) -> Result<()> {
        let absent = annotation(manifest, BACKEND).as_deref() == Some("none");
        for host in items(manifest.pointer_mut("/spec/static/hosts")) {
            let (written, port) = (text(host, "/host").unwrap_or_default(), host["port"].as_u64().unwrap_or_default());
            let real = match written.parse::<IpAddr>() {
                Ok(IpAddr::V4(address)) if address.octets()[..3] == [10, 0, 0] => {
                    let real = self.address(&written)?;
                    host["host"] = real.to_string().into();
                    SocketAddr::new(real, u16::try_from(port)?)
                }
                _ if written == "localhost" => {
                    let port = self.own_port(&id.name, u16::try_from(port)?)?;
                    host["port"] = port.into();
                    SocketAddr::new(LOCALHOST, port)
                }
                _ => continue,
            };
            if !absent {
                self.backends.entry(real).or_insert_with(|| id.name.clone());
            }
        }
        Ok(())
    }

    fn own_port(&mut self, object: &str, written: u16) -> Result<u16> {
        let key = (object.to_owned(), written);
        if let Some(port) = self.own_ports.get(&key) {
            return Ok(*port);
        }
        let port = free_port()?;
        self.own_ports.insert(key, port);
        Ok(port)
    }

    fn address(&self, written: &str) -> Result<IpAddr> {
        match written.parse()? {
            IpAddr::V4(address) => match address.octets() {
                [10, 0, 0, host] => Ok(self.block.address(host).into()),
                _ => bail!("pods have addresses 10.0.0.N, not {address}"),
            },
            IpAddr::V6(_) => Ok(Ipv6Addr::LOCALHOST.into()),
        }
    }

    fn secret(&mut self, id: &ObjectId, manifest: &mut Value) -> Result<()> {
        let Some(names) = annotation(manifest, CERTIFICATE) else {
            return Ok(());
        };
        let names: Vec<String> = names.split(',').map(|name| name.trim().to_owned()).collect();
        let kind = match annotation(manifest, KEY).as_deref() {
            Some("rsa") => KeyKind::Rsa,
            Some("ecdsa") | None => KeyKind::Ecdsa,
            Some(other) => bail!("no key of kind {other}"),
        };
        let made = self.certificates.get_or_make(&id.name, &names, kind)?;
        manifest["data"] = json!({
            "tls.crt": STANDARD.encode(made.certificate),
            "tls.key": STANDARD.encode(made.key),
        });
        Ok(())
    }
}

/// The address under which clients reach listeners.
pub const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn items(list: Option<&mut Value>) -> impl Iterator<Item = &mut Value> {
    list.and_then(Value::as_array_mut).into_iter().flatten()
}

fn text(value: &Value, pointer: &str) -> Option<String> {
    Some(value.pointer(pointer)?.as_str()?.to_owned())
}

fn annotation(manifest: &Value, name: &str) -> Option<String> {
    let annotations = manifest.pointer("/metadata/annotations")?;
    Some(annotations.get(name)?.as_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLICE: &str = "
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: v1-a, namespace: infra, labels: {kubernetes.io/service-name: v1}}
addressType: IPv4
ports: [{port: 3000}]
endpoints: [{addresses: [10.0.0.7]}]
";

    fn render(renderer: &mut Renderer, yaml: &str) -> Vec<Value> {
        let mut documents = parse(yaml).expect("valid YAML");
        for document in &mut documents {
            renderer.render(document).expect("renders");
        }
        documents
    }

    #[test]
    fn pods_move_to_loopback_addresses_and_keep_their_ports() {
        let mut renderer = Renderer::new(PortMapping::Gateway).expect("a block");
        let slice = render(&mut renderer, SLICE);
        let (address, name) = renderer.backends().first_key_value().expect("a backend");
        assert!(address.ip().is_loopback());
        assert_eq!(address.port(), 3000);
        assert_eq!(name, "infra/v1");
        assert_eq!(slice[0]["endpoints"][0]["addresses"][0], json!(address.ip().to_string()));
    }

    #[test]
    fn a_port_is_the_same_in_gateway_and_parent_ref_and_differs_between_gateways() {
        let yaml = "
kind: Gateway
metadata: {name: a, namespace: infra}
spec: {listeners: [{name: http, port: 80}]}
---
kind: Gateway
metadata: {name: b, namespace: infra}
spec: {listeners: [{name: http, port: 80}]}
---
kind: HTTPRoute
metadata: {name: r, namespace: infra}
spec: {parentRefs: [{name: a, port: 80}, {name: b, port: 81}, {name: b}]}
";
        let mut renderer = Renderer::new(PortMapping::Gateway).expect("a block");
        let documents = render(&mut renderer, yaml);
        let port = |document: usize, list: &str, item: usize| documents[document]["spec"][list][item]["port"].as_u64();
        let (a, b) = (port(0, "listeners", 0), port(1, "listeners", 0));
        assert_ne!(a, b);
        assert_eq!(port(2, "parentRefs", 0), a);
        assert_ne!(port(2, "parentRefs", 1), b);
        assert_eq!(port(2, "parentRefs", 2), None);
    }

    #[test]
    fn what_is_printed_reads_back_the_same() {
        let documents = parse(SLICE).expect("valid YAML");
        let printed = print(&documents).expect("prints");
        assert_eq!(parse(&printed).expect("valid YAML"), documents);
    }
}
