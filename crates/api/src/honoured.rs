//! Fields that decode well and are not honoured: each makes its object, or the part that it concerns, fail closed.

mod lists;

pub use lists::{READ, REFUSED};

use crate::{
    Gateway, HttpRoute, Object,
    gateway::{FromNamespaces, GatewaySpec},
    http_route::{HttpRouteFilter, HttpRouteFilterType},
    shared::GatewayDefaultScope,
};

/// A field that is set and not honoured.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RefusedField {
    /// The field, such as `spec.rules[2].filters[0].externalAuth`; everything below it is refused with it.
    pub path: String,
    /// What is not served as written, since the field is set.
    pub affects: Affects,
    /// Why, and what to do.
    pub reason: &'static str,
}

/// The part of an object that a refused field has something to do with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Affects {
    /// No part: the field asks for more than what else is written.
    Nothing,
    /// The rule of this index.
    Rule(usize),
    /// The listeners of a port, or those of all ports that no other field names.
    Listeners,
    /// The object as a whole.
    Object,
}

const LISTENER_SETS: &str = "ListenerSets are not supported: remove allowedListeners, or set namespaces.from to None";
const DEFAULT_GATEWAYS: &str = "default Gateways are not supported: remove it, and name parents in parentRefs";
const CLIENT_CERTIFICATES: &str = "client certificates cannot be validated: remove the validation";
const BACKEND_CERTIFICATE: &str = "no certificate is shown to backends: remove clientCertificateRef";
const EXTERNAL_AUTH: &str = "the ExternalAuth filter is not supported: remove it";

/// What the object asks for and does not get, in the order of its fields. A field whose value means the same as none is
/// not reported.
pub fn refused_fields(object: &Object) -> Vec<RefusedField> {
    match object {
        Object::Gateway(gateway) => refused_in_gateway(gateway),
        Object::HttpRoute(route) => refused_in_route(route),
        _ => Vec::new(),
    }
}

/// [`refused_fields`] of a Gateway.
pub fn refused_in_gateway(gateway: &Gateway) -> Vec<RefusedField> {
    let mut refused = Refused(Vec::new());
    refused.gateway(&gateway.spec);
    refused.0
}

/// [`refused_fields`] of an HTTPRoute.
pub fn refused_in_route(route: &HttpRoute) -> Vec<RefusedField> {
    let mut refused = Refused(Vec::new());
    refused.route(route);
    refused.0
}

struct Refused(Vec<RefusedField>);

impl Refused {
    fn add(&mut self, set: bool, path: impl FnOnce() -> String, affects: Affects, reason: &'static str) {
        if set {
            self.0.push(RefusedField { path: path(), affects, reason });
        }
    }

    fn gateway(&mut self, spec: &GatewaySpec) {
        let allowed = spec.allowed_listeners.as_ref();
        self.add(
            allowed.is_some_and(|allowed| allowed.namespaces.from != FromNamespaces::None),
            || "spec.allowedListeners".to_owned(),
            Affects::Nothing,
            LISTENER_SETS,
        );
        if let Some(tls) = &spec.tls {
            self.add(
                tls.backend.as_ref().is_some_and(|backend| backend.client_certificate_ref.is_some()),
                || "spec.tls.backend.clientCertificateRef".to_owned(),
                Affects::Object,
                BACKEND_CERTIFICATE,
            );
            if let Some(frontend) = &tls.frontend {
                let path = "spec.tls.frontend";
                self.add(
                    frontend.default.validation.is_some(),
                    || format!("{path}.default.validation"),
                    Affects::Listeners,
                    CLIENT_CERTIFICATES,
                );
                for (index, port) in frontend.per_port.iter().enumerate() {
                    let set = port.tls.validation.is_some();
                    self.add(set, || format!("{path}.perPort[{index}]"), Affects::Listeners, CLIENT_CERTIFICATES);
                }
            }
        }
        let default = asks_for_default(spec.default_scope.as_ref());
        self.add(default, || "spec.defaultScope".to_owned(), Affects::Nothing, DEFAULT_GATEWAYS);
    }

    fn route(&mut self, HttpRoute { spec, .. }: &HttpRoute) {
        let default = asks_for_default(spec.use_default_gateways.as_ref());
        self.add(default, || "spec.useDefaultGateways".to_owned(), Affects::Nothing, DEFAULT_GATEWAYS);
        for (index, rule) in spec.rules.iter().enumerate() {
            let affects = Affects::Rule(index);
            self.filters(&rule.filters, affects, || format!("spec.rules[{index}].filters"));
            for (place, backend) in rule.backend_refs.iter().enumerate() {
                self.filters(&backend.filters, affects, || format!("spec.rules[{index}].backendRefs[{place}].filters"));
            }
        }
    }

    fn filters(&mut self, filters: &[HttpRouteFilter], affects: Affects, path: impl Fn() -> String) {
        for (index, filter) in filters.iter().enumerate() {
            let set = filter.external_auth.is_some() || filter.r#type == HttpRouteFilterType::ExternalAuth;
            self.add(set, || format!("{}[{index}].externalAuth", path()), affects, EXTERNAL_AUTH);
        }
    }
}

fn asks_for_default(scope: Option<&GatewayDefaultScope>) -> bool {
    scope.is_some_and(|scope| *scope != GatewayDefaultScope::None)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn fields(kind: &str, spec: &Value) -> Vec<RefusedField> {
        let manifest = json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": kind, "metadata": { "name": "name" }, "spec": spec
        });
        refused_fields(&crate::decode(manifest).expect("a manifest").object)
    }

    fn refused(kind: &str, spec: &Value) -> Vec<String> {
        fields(kind, spec).into_iter().map(|field| field.path).collect()
    }

    fn affected(kind: &str, spec: &Value) -> Vec<Affects> {
        fields(kind, spec).into_iter().map(|field| field.affects).collect()
    }

    #[test]
    fn a_value_that_means_the_same_as_none_is_not_refused() {
        let spec = json!({
            "allowedListeners": { "namespaces": { "from": "None" } },
            "defaultScope": "None",
            "tls": { "backend": {}, "frontend": { "default": {}, "perPort": [{ "port": 443, "tls": {} }] } },
            "infrastructure": { "labels": { "a": "b" } },
        });
        assert_eq!(refused("Gateway", &spec), [""; 0]);
        assert_eq!(refused("HTTPRoute", &json!({ "useDefaultGateways": "None" })), [""; 0]);
    }

    #[test]
    fn a_value_that_nobody_knows_is_refused() {
        let spec = json!({ "allowedListeners": { "namespaces": { "from": "Some" } }, "defaultScope": "Some" });
        assert_eq!(refused("Gateway", &spec), ["spec.allowedListeners", "spec.defaultScope"]);
    }

    #[test]
    fn a_field_in_a_rule_affects_the_rule_and_one_that_asks_for_more_nothing() {
        let filters = json!([{ "type": "ExternalAuth" }]);
        let rules = json!([{}, { "backendRefs": [{ "name": "s", "filters": filters }] }]);
        let spec = json!({ "useDefaultGateways": "All", "rules": rules });
        assert_eq!(affected("HTTPRoute", &spec), [Affects::Nothing, Affects::Rule(1)]);
        let tls = json!({ "backend": { "clientCertificateRef": { "name": "c" } },
                          "frontend": { "default": { "validation": { "caCertificateRefs": [] } } } });
        let all = json!({ "namespaces": { "from": "All" } });
        let spec = json!({ "allowedListeners": all, "defaultScope": "All", "tls": tls });
        let expected = [Affects::Nothing, Affects::Object, Affects::Listeners, Affects::Nothing];
        assert_eq!(affected("Gateway", &spec), expected);
    }

    #[test]
    fn the_path_tells_which_rule_and_which_port_are_concerned() {
        let validation = json!({ "validation": { "caCertificateRefs": [{ "name": "ca" }] } });
        let per_port = json!([{ "port": 80, "tls": {} }, { "port": 443, "tls": validation }]);
        let spec = json!({ "tls": { "frontend": { "default": {}, "perPort": per_port } } });
        assert_eq!(refused("Gateway", &spec), ["spec.tls.frontend.perPort[1]"]);

        let filters = json!([{ "type": "CORS", "cors": {} }, { "type": "ExternalAuth" }]);
        let spec =
            json!({ "rules": [{}, { "filters": filters, "backendRefs": [{ "name": "s", "filters": filters }] }] });
        assert_eq!(
            refused("HTTPRoute", &spec),
            ["spec.rules[1].filters[1].externalAuth", "spec.rules[1].backendRefs[0].filters[1].externalAuth"]
        );
    }
}
