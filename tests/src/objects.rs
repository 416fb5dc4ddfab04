//! Manifests of namespace `infra` as text, each beginning with `---`.

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

/// A Service with one endpoint.
pub fn service(name: &str, backend: &Echo) -> String {
    let address = backend.address();
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
