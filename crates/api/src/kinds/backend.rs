//! Backend.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    honoured::{Affects, Refused, RefusedField},
    meta::CustomResource,
    schema::{
        Schema, Spec,
        openapi::{
            Node,
            values::{list, number, one_of, optional, required, text},
        },
        rules::Broken,
    },
};

/// Something that requests are sent to and that no Service of the cluster stands for.
pub type Backend = CustomResource<BackendSpec>;

/// What requests are sent to. Exactly one of its forms is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BackendSpec {
    /// The form, once more; what is set says it too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub r#type: Option<Box<str>>,
    /// Hosts that are written down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub r#static: Option<StaticBackend>,
    /// A function or machines at AWS. Not served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aws: Option<Value>,
    /// A service at Google Cloud. Not served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gcp: Option<Value>,
    /// Whatever host a request names. Not served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dynamic_forward_proxy: Option<Value>,
    /// Other Backends, the next for when one fails. Not served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority_groups: Option<Vec<Value>>,
}

/// Hosts that are written down.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StaticBackend {
    /// The hosts, one at least. Requests are spread over them.
    pub hosts: Vec<BackendHost>,
    /// What is spoken there, as a port of a Service says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_protocol: Option<Box<str>>,
}

/// A host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BackendHost {
    /// Its address, or its name in DNS.
    pub host: Box<str>,
    /// Its port.
    pub port: i32,
}

impl BackendSpec {
    /// Each form with whether it is set, and what it is as a `type`.
    fn forms(&self) -> [(&'static str, bool, &'static str); 5] {
        [
            ("aws", self.aws.is_some(), "AWS"),
            ("static", self.r#static.is_some(), "Static"),
            ("dynamicForwardProxy", self.dynamic_forward_proxy.is_some(), "DynamicForwardProxy"),
            ("gcp", self.gcp.is_some(), "GCP"),
            ("priorityGroups", self.priority_groups.is_some(), "PriorityGroups"),
        ]
    }
}

impl Spec for BackendSpec {
    const SCHEMA: Schema = Schema::of(&SPEC);

    fn check(&self, broken: &mut Broken) {
        let forms = self.forms();
        if forms.iter().filter(|(_, set, _)| *set).count() != 1 {
            broken.add_without_value(
                "spec",
                "must have exactly one of aws, static, dynamicForwardProxy, gcp, priorityGroups",
            );
        }
        let Some(kind) = self.r#type.as_deref() else { return };
        if let Some((form, false, _)) = forms.iter().find(|(.., named)| *named == kind) {
            broken.add(
                "spec.type".to_owned(),
                kind,
                format!("must be that of what is set: set {form}, or remove the type"),
            );
        }
    }

    fn refused(&self) -> Vec<RefusedField> {
        let mut refused = Refused::default();
        for (form, set, _) in self.forms().into_iter().filter(|(form, ..)| *form != "static") {
            refused.add(set, || format!("spec.{form}"), Affects::Object, NOT_SERVED);
        }
        refused.0
    }
}

const NOT_SERVED: &str = "such a Backend is not served: name hosts in static, or use a Service";

static SPEC: Node = Node::Object(&[
    optional("type", &TYPE),
    optional("static", &STATIC),
    optional("aws", &Node::Opaque),
    optional("gcp", &Node::Opaque),
    optional("dynamicForwardProxy", &Node::Opaque),
    optional("priorityGroups", &PRIORITY_GROUPS),
]);
static TYPE: Node = one_of(&["AWS", "Static", "DynamicForwardProxy", "GCP", "PriorityGroups"]);
static PRIORITY_GROUPS: Node = list(1, 16, &Node::Opaque);
static STATIC: Node = Node::Object(&[required("hosts", &HOSTS), optional("appProtocol", &APP_PROTOCOL)]);
static HOSTS: Node = list(1, usize::MAX, &HOST);
static HOST: Node = Node::Object(&[required("host", &NAME), required("port", &PORT)]);
static NAME: Node = text(1, usize::MAX);
/// What is no port is judged where it is read.
static PORT: Node = number(i32::MIN as i64, i32::MAX as i64);
static APP_PROTOCOL: Node = one_of(&["http2", "grpc", "grpc-web", "kubernetes.io/h2c", "kubernetes.io/ws"]);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{Object, decode, violations};

    fn object(spec: &Value) -> Object {
        let manifest = json!({
            "apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "Backend", "metadata": { "name": "b" }, "spec": spec,
        });
        let decoded = decode(manifest).expect("a Backend");
        assert_eq!(decoded.unknown_fields, [""; 0]);
        decoded.object
    }

    fn broken(spec: &Value) -> String {
        violations(&object(spec)).iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn what_the_schema_refuses_is_told() {
        let hosts = json!({ "hosts": [{ "host": "a.example", "port": 80 }] });
        let one = "spec: must have exactly one of aws, static, dynamicForwardProxy, gcp, priorityGroups";
        for (spec, message) in [
            (json!({ "static": hosts }), ""),
            (json!({ "static": hosts, "type": "Static" }), ""),
            (json!({}), one),
            (json!({ "static": hosts, "gcp": { "host": "h" } }), one),
            (
                json!({ "static": hosts, "type": "GCP" }),
                "spec.type is \"GCP\": must be that of what is set: set gcp, or remove the type",
            ),
            (json!({ "static": { "hosts": [] } }), "spec.static.hosts is \"0 items\": at least 1 item must be given"),
            (
                json!({ "static": { "hosts": [{ "host": "", "port": 80 }] } }),
                "spec.static.hosts[0].host is \"\": must not be empty",
            ),
        ] {
            let told = broken(&spec);
            assert_eq!(told.split(": must").next(), message.split(": must").next(), "{spec}");
        }
    }

    #[test]
    fn what_is_not_served_is_refused_by_its_name() {
        for (spec, field) in [
            (json!({ "aws": { "lambda": { "functionName": "f" } } }), "spec.aws"),
            (json!({ "gcp": { "host": "h" } }), "spec.gcp"),
            (json!({ "dynamicForwardProxy": {} }), "spec.dynamicForwardProxy"),
            (json!({ "priorityGroups": [{ "backendRefs": [{ "name": "a" }] }] }), "spec.priorityGroups"),
        ] {
            let refused = object(&spec).refused_fields();
            assert_eq!(refused.iter().map(|field| &*field.path).collect::<Vec<_>>(), [field]);
        }
    }
}
