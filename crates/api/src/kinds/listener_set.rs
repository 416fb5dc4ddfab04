//! ListenerSet.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    compact::{shared, text},
    gateway::{Listener, rules, schema::LISTENERS},
    group::GROUP,
    honoured::{Honoured, RefusedField},
    meta::CustomResource,
    schema::{
        Schema, Spec,
        openapi::{
            Node,
            values::{GROUP as GROUP_NODE, KIND, NAME, NAMESPACE, optional, required},
        },
        rules::Broken,
    },
};

/// More listeners for a Gateway, by somebody else than its owner.
pub type ListenerSet = CustomResource<ListenerSetSpec>;

/// What the owner of a ListenerSet wants.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ListenerSetSpec {
    /// The Gateway whose proxies are to serve the listeners.
    pub parent_ref: ParentGatewayReference,
    /// Where and what is listened for; 1 to 64, names unique.
    pub listeners: Vec<Listener>,
}

/// Names a Gateway.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ParentGatewayReference {
    /// API group; empty for the core group.
    #[serde(deserialize_with = "text")]
    pub group: Arc<str>,
    /// Kind.
    #[serde(deserialize_with = "text")]
    pub kind: Arc<str>,
    /// Namespace; none for that of the referring object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Arc<str>>,
    /// Name.
    #[serde(deserialize_with = "text")]
    pub name: Arc<str>,
}

impl Default for ParentGatewayReference {
    fn default() -> Self {
        Self { group: shared(GROUP), kind: shared("Gateway"), namespace: None, name: Arc::default() }
    }
}

impl Spec for ListenerSetSpec {
    const SCHEMA: Schema = Schema::of(&SPEC);
    const HONOURED: Honoured = Honoured { read: READ, refused: &[] };

    fn check(&self, broken: &mut Broken) {
        rules::listeners(&self.listeners, broken);
    }

    fn refused(&self) -> Vec<RefusedField> {
        Vec::new()
    }
}

static SPEC: Node = Node::Object(&[required("parentRef", &PARENT_REF), required("listeners", &LISTENERS)]);
static PARENT_REF: Node = Node::Object(&[
    optional("group", &GROUP_NODE),
    optional("kind", &KIND),
    required("name", &NAME),
    optional("namespace", &NAMESPACE),
]);

/// What translation reads.
const READ: &[&str] = &[
    "spec.listeners[].allowedRoutes.kinds[].group",
    "spec.listeners[].allowedRoutes.kinds[].kind",
    "spec.listeners[].allowedRoutes.namespaces.from",
    "spec.listeners[].allowedRoutes.namespaces.selector.matchExpressions[].key",
    "spec.listeners[].allowedRoutes.namespaces.selector.matchExpressions[].operator",
    "spec.listeners[].allowedRoutes.namespaces.selector.matchExpressions[].values",
    "spec.listeners[].allowedRoutes.namespaces.selector.matchLabels",
    "spec.listeners[].hostname",
    "spec.listeners[].name",
    "spec.listeners[].port",
    "spec.listeners[].protocol",
    "spec.listeners[].tls.certificateRefs[].group",
    "spec.listeners[].tls.certificateRefs[].kind",
    "spec.listeners[].tls.certificateRefs[].name",
    "spec.listeners[].tls.certificateRefs[].namespace",
    "spec.listeners[].tls.mode",
    "spec.listeners[].tls.options",
    "spec.parentRef.group",
    "spec.parentRef.kind",
    "spec.parentRef.name",
    "spec.parentRef.namespace",
];
