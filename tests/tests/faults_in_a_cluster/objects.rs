//! Manifests that name no namespace.

use portcullis_tests::echo::Echo;

/// A class of a controller.
pub(crate) fn class(name: &str, controller: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\n\
         kind: GatewayClass\n\
         metadata: {{name: {name}}}\n\
         spec: {{controllerName: {controller}}}\n"
    )
}

/// A Gateway with these listeners, a flow mapping each.
pub(crate) fn gateway(name: &str, class: &str, listeners: &[String]) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\n\
         kind: Gateway\n\
         metadata: {{name: {name}}}\n\
         spec: {{gatewayClassName: {class}, listeners: [{}]}}\n",
        listeners.join(", ")
    )
}

/// A listener without TLS.
pub(crate) fn http(port: u16) -> String {
    format!("{{name: http, port: {port}, protocol: HTTP}}")
}

/// A listener with the certificate of Secret `certificate`.
pub(crate) fn https(port: u16) -> String {
    format!(
        "{{name: https, port: {port}, protocol: HTTPS, tls: {{certificateRefs: [{{kind: Secret, name: certificate}}]}}}}"
    )
}

/// A route with these rules, a flow mapping each.
pub(crate) fn rules(name: &str, gateway: &str, rules: &[String]) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\n\
         kind: HTTPRoute\n\
         metadata: {{name: {name}}}\n\
         spec: {{parentRefs: [{{name: {gateway}}}], rules: [{}]}}\n",
        rules.join(", ")
    )
}

/// A rule for the paths under `path`.
pub(crate) fn rule(path: &str, service: &str, port: u16) -> String {
    format!(
        "{{matches: [{{path: {{type: PathPrefix, value: {path}}}}}], backendRefs: [{{name: {service}, port: {port}}}]}}"
    )
}

/// A route of one rule, for the paths under `/NAME`.
pub(crate) fn route(name: &str, gateway: &str, service: &str, port: u16) -> String {
    rules(name, gateway, &[rule(&format!("/{name}"), service, port)])
}

/// A Service of one port with one endpoint.
pub(crate) fn service(name: &str, port: u16, port_name: &str, backend: &Echo) -> String {
    format!(
        "apiVersion: v1\n\
         kind: Service\n\
         metadata: {{name: {name}}}\n\
         spec: {{ports: [{{name: '{port_name}', port: {port}}}]}}\n\
         ---\n{}",
        slice(name, name, port_name, backend)
    )
}

/// One endpoint of a Service.
pub(crate) fn slice(name: &str, service: &str, port_name: &str, backend: &Echo) -> String {
    let address = backend.address();
    format!(
        "apiVersion: discovery.k8s.io/v1\n\
         kind: EndpointSlice\n\
         metadata: {{name: {name}, labels: {{kubernetes.io/service-name: {service}}}}}\n\
         addressType: IPv4\n\
         ports: [{{name: '{port_name}', port: {}}}]\n\
         endpoints: [{{addresses: [{}]}}]\n",
        address.port(),
        address.ip()
    )
}
