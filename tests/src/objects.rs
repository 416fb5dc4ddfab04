//! Manifests as text, each beginning with `---`; of namespace `infra` where none is given.

use std::{
    fmt::{self, Display},
    net::SocketAddr,
};

use crate::echo::Echo;

/// A class, and Gateway `gateway` of it with these listeners, a flow mapping each.
pub fn gateway(listeners: &[String]) -> String {
    format!(
        "
---
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {{name: portcullis}}
spec: {{controllerName: portcullis.dev/gateway-controller}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{namespace: infra, name: gateway}}
spec:
  gatewayClassName: portcullis
  listeners: [{}]
",
        listeners.join(", ")
    )
}

/// A ConfigMap with certificates of authorities, in PEM.
pub fn authorities(name: &str, of: &[&str]) -> String {
    let pem: String = of.iter().map(|pem| pem.trim().to_owned() + "\n").collect();
    let pem = pem.trim().replace('\n', "\n    ");
    format!(
        "\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{namespace: infra, name: {name}}}\ndata:\n  ca.crt: |\n    {pem}\n"
    )
}

/// A Service with one endpoint.
pub fn service(name: &str, backend: &Echo) -> String {
    service_at(name, backend.address())
}

/// The same of whoever listens at an address.
pub fn service_at(name: &str, address: SocketAddr) -> String {
    let (ip, port) = (address.ip(), address.port());
    format!(
        "
---
apiVersion: v1
kind: Service
metadata: {{namespace: infra, name: {name}}}
spec: {{ports: [{{port: 80}}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{namespace: infra, name: {name}-a, labels: {{kubernetes.io/service-name: {name}}}}}
addressType: IPv4
ports: [{{name: '', port: {port}}}]
endpoints: [{{addresses: [{ip}]}}]
"
    )
}

/// An HTTPRoute, printed as its manifest.
#[derive(Clone, Copy, Debug)]
pub struct Route<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// A flow mapping without its braces; empty for none.
    pub annotations: &'a str,
    /// A flow mapping each: what [`gateway`] makes, unless others are given.
    pub parents: &'a str,
    /// Separated by commas; none for all.
    pub hosts: &'a str,
    /// A list in block style, indented by two.
    pub rules: &'a str,
}

impl Default for Route<'_> {
    fn default() -> Self {
        Self { namespace: "infra", name: "route", annotations: "", parents: "{name: gateway}", hosts: "", rules: "" }
    }
}

impl Display for Route<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { namespace, name, annotations, parents, hosts, rules } = self;
        let annotations =
            if annotations.is_empty() { String::new() } else { format!(", annotations: {{{annotations}}}") };
        write!(
            f,
            "
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{namespace: {namespace}, name: {name}{annotations}}}
spec:
  parentRefs: [{parents}]
  hostnames: [{hosts}]
  rules:
{}
",
            rules.trim_end()
        )
    }
}

/// The right of HTTPRoutes of these namespaces to use every Service.
pub fn grant(namespaces: &[&str]) -> String {
    let from =
        |namespace: &&str| format!("{{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: {namespace}}}");
    let from: Vec<_> = namespaces.iter().map(from).collect();
    format!(
        "
---
apiVersion: gateway.networking.k8s.io/v1
kind: ReferenceGrant
metadata: {{namespace: infra, name: services}}
spec:
  from: [{}]
  to: [{{group: '', kind: Service}}]
",
        from.join(", ")
    )
}

/// A Secret with a certificate and a key, in whatever state they are.
pub fn secret(name: &str, certificate: &str, key: &str) -> String {
    let indent = |pem: &str| pem.trim().replace('\n', "\n    ");
    format!(
        "
---
apiVersion: v1
kind: Secret
metadata: {{namespace: infra, name: {name}}}
type: kubernetes.io/tls
stringData:
  tls.crt: |
    {}
  tls.key: |
    {}
",
        indent(certificate),
        indent(key)
    )
}
