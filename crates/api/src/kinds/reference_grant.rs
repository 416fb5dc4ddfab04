//! ReferenceGrant.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    honoured::Honoured,
    meta::CustomResource,
    schema::{
        Schema, Spec,
        openapi::{
            Node,
            values::{GROUP, KIND, NAME, NAMESPACE, list, optional, required},
        },
    },
};

/// Lets objects of other namespaces refer to objects of its own namespace.
pub type ReferenceGrant = CustomResource<ReferenceGrantSpec>;

/// Each of `from` may refer to each of `to`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReferenceGrantSpec {
    /// Who may refer.
    pub from: Vec<ReferenceGrantFrom>,
    /// To what.
    pub to: Vec<ReferenceGrantTo>,
}

/// Objects of a kind in a namespace.
///
/// A missing group does not decode: an empty one means the core group, and a grant must not widen by what was forgotten.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReferenceGrantFrom {
    /// API group; empty for the core group.
    pub group: Arc<str>,
    /// Kind.
    #[serde(default)]
    pub kind: Arc<str>,
    /// Namespace.
    #[serde(default)]
    pub namespace: Arc<str>,
}

/// Objects of a kind in the grant's namespace, or one of them.
///
/// A missing group does not decode: see [`ReferenceGrantFrom`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReferenceGrantTo {
    /// API group; empty for the core group.
    pub group: Arc<str>,
    /// Kind.
    #[serde(default)]
    pub kind: Arc<str>,
    /// Only the object of this name; none for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Arc<str>>,
}

impl Spec for ReferenceGrantSpec {
    const SCHEMA: Schema = Schema::of(&SPEC);
    const HONOURED: Honoured = Honoured { read: READ, refused: &[] };
}

static SPEC: Node = Node::Object(&[required("from", &FROM), required("to", &TO)]);

static FROM: Node = list(1, 16, &FROM_ITEM);
static FROM_ITEM: Node =
    Node::Object(&[required("group", &GROUP), required("kind", &KIND), required("namespace", &NAMESPACE)]);
static TO: Node = list(1, 16, &TO_ITEM);
static TO_ITEM: Node = Node::Object(&[required("group", &GROUP), required("kind", &KIND), optional("name", &NAME)]);

/// What translation reads.
const READ: &[&str] = &[
    "spec.from[].group",
    "spec.from[].kind",
    "spec.from[].namespace",
    "spec.to[].group",
    "spec.to[].kind",
    "spec.to[].name",
];
