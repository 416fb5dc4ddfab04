//! Manifests of namespace `infra`, good ones and parts to break.

use portcullis_tests::echo::Echo;

/// The host of the route that nothing may touch.
pub(crate) const HEALTHY: &str = "healthy.example";

/// A Gateway with an HTTP listener, and two for HTTPS on one port: that of the healthy host, and one to be broken.
pub(crate) fn gateway(http: u16, https: u16) -> String {
    format!(
        "
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
  listeners:
  - {{name: http, port: {http}, protocol: HTTP}}
  - {{name: https, port: {https}, protocol: HTTPS, hostname: {HEALTHY}, tls: {{certificateRefs: [{{name: good}}]}}}}
  - {{name: bad, port: {https}, protocol: HTTPS, hostname: bad.example, tls: {{certificateRefs: [{{name: bad}}]}}}}
"
    )
}

/// A Service with one endpoint.
pub(crate) fn backend(echo: &Echo) -> String {
    let address = echo.address();
    format!(
        "
apiVersion: v1
kind: Service
metadata: {{namespace: infra, name: backend}}
spec: {{ports: [{{port: 80}}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{namespace: infra, name: backend-a, labels: {{kubernetes.io/service-name: backend}}}}
addressType: IPv4
ports: [{{name: '', port: {}}}]
endpoints: [{{addresses: [{}]}}]
",
        address.port(),
        address.ip()
    )
}

/// A route on hosts, with these rules in YAML.
pub(crate) fn rules(name: &str, hosts: &str, rules: &str) -> String {
    format!(
        "
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{namespace: infra, name: {name}}}
spec:
  parentRefs: [{{name: gateway}}]
  hostnames: [{hosts}]
  rules:
{rules}"
    )
}

/// A rule with one match in YAML, and a backend that is there.
pub(crate) fn rule(matching: &str) -> String {
    format!("  - {{matches: [{matching}], backendRefs: [{{name: backend, port: 80}}]}}\n")
}

/// A route with one prefix.
pub(crate) fn route(name: &str, host: &str, prefix: &str) -> String {
    rules(name, host, &rule(&format!("{{path: {{value: {prefix}}}}}")))
}

/// A rule whose match is a regular expression of the path.
pub(crate) fn regex(pattern: &str) -> String {
    rule(&format!("{{path: {{type: RegularExpression, value: '{pattern}'}}}}"))
}

/// A Secret with a certificate and a key, in whatever state they are.
pub(crate) fn secret(name: &str, certificate: &str, key: &str) -> String {
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
