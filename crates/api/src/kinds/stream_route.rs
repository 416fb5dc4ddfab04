//! What TCPRoutes, UDPRoutes and TLSRoutes have in common.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    compact::exact,
    honoured::{Refused, RefusedField},
    schema::{
        openapi::{
            Node,
            route::WEIGHT,
            values::{GROUP, KIND, NAME, NAMESPACE, PORT, SECTION_NAME, list, optional, required},
        },
        rules::{Broken, reference::service_port, route},
    },
    shared::{BackendRef, GatewayDefaultScope, ParentReference},
};

/// Where connections or datagrams go.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StreamRouteRule {
    /// Name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<Arc<str>>,
    /// The backends, by weight.
    #[serde(deserialize_with = "exact", skip_serializing_if = "Vec::is_empty")]
    pub backend_refs: Vec<BackendRef>,
}

/// What the CRDs say of the rules, of which there is one.
pub(super) static RULES: Node = list(1, 1, &RULE);
static RULE: Node = Node::Object(&[optional("name", &SECTION_NAME), required("backendRefs", &BACKEND_REFS)]);
static BACKEND_REFS: Node = list(1, 16, &BACKEND_REF);
static BACKEND_REF: Node = Node::Object(&[
    optional("group", &GROUP),
    optional("kind", &KIND),
    required("name", &NAME),
    optional("namespace", &NAMESPACE),
    optional("port", &PORT),
    optional("weight", &WEIGHT),
]);

/// What translation reads of a route without hostnames.
pub(super) const READ: &[&str] = &[
    "spec.parentRefs[].group",
    "spec.parentRefs[].kind",
    "spec.parentRefs[].name",
    "spec.parentRefs[].namespace",
    "spec.parentRefs[].port",
    "spec.parentRefs[].sectionName",
    "spec.rules[].backendRefs[].group",
    "spec.rules[].backendRefs[].kind",
    "spec.rules[].backendRefs[].name",
    "spec.rules[].backendRefs[].namespace",
    "spec.rules[].backendRefs[].port",
    "spec.rules[].backendRefs[].weight",
    "spec.rules[].name",
];

/// What nobody honours.
pub(super) const REFUSED: &[&str] = &["spec.useDefaultGateways"];

/// What a route asks for and does not get.
pub(super) fn refused(default_gateways: Option<&GatewayDefaultScope>) -> Vec<RefusedField> {
    let mut refused = Refused::default();
    refused.default_gateways(default_gateways, REFUSED[0]);
    refused.0
}

/// Rules across fields.
pub(super) fn check(parents: &[ParentReference], rules: &[StreamRouteRule], broken: &mut Broken) {
    route::parents(parents, broken);
    for (index, rule) in rules.iter().enumerate() {
        for (at, backend) in rule.backend_refs.iter().enumerate() {
            service_port(&backend.backend_ref, &format!("spec.rules[{index}].backendRefs[{at}]"), broken);
        }
    }
}
