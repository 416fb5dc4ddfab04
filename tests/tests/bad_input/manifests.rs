//! Manifests of namespace `infra`, good ones and parts to break.

pub(crate) use portcullis_tests::objects::secret;
use portcullis_tests::{echo::Echo, objects};

/// The host of the route that nothing may touch.
pub(crate) const HEALTHY: &str = "healthy.example";

/// A Gateway with an HTTP listener, and two for HTTPS on one port: that of the healthy host, and one to be broken.
pub(crate) fn gateway(http: u16, https: u16) -> String {
    let over_tls = |name: &str, host: &str, secret: &str| {
        format!(
            "{{name: {name}, port: {https}, protocol: HTTPS, hostname: {host}, tls: {{certificateRefs: [{{name: {secret}}}]}}}}"
        )
    };
    objects::gateway(&[
        format!("{{name: http, port: {http}, protocol: HTTP}}"),
        over_tls("https", HEALTHY, "good"),
        over_tls("bad", "bad.example", "bad"),
    ])
}

/// A Service with one endpoint.
pub(crate) fn backend(echo: &Echo) -> String {
    objects::service("backend", echo)
}

/// A route on hosts, with these rules in YAML.
pub(crate) fn rules(name: &str, hosts: &str, rules: &str) -> String {
    objects::Route { name, hosts, rules, ..Default::default() }.to_string()
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
