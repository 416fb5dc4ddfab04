//! GatewayClass.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    honoured::Honoured,
    meta::CustomResource,
    schema::{
        Schema, Spec,
        openapi::{
            Node,
            values::{CONTROLLER_NAME, OBJECT_REFERENCE, optional, required, text},
        },
    },
    shared::ObjectReference,
};

/// A class of Gateways, run by one controller.
pub type GatewayClass = CustomResource<GatewayClassSpec>;

/// What the owner of a GatewayClass wants.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GatewayClassSpec {
    /// The controller that serves Gateways of the class: a domain and a path.
    pub controller_name: Arc<str>,
    /// An object with settings that the controller understands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameters_ref: Option<ObjectReference>,
    /// For humans.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<Box<str>>,
}

impl Spec for GatewayClassSpec {
    const SCHEMA: Schema = Schema::of(&SPEC);
    const HONOURED: Honoured = Honoured { read: READ, refused: &[] };
}

static SPEC: Node = Node::Object(&[
    required("controllerName", &CONTROLLER_NAME),
    optional("parametersRef", &OBJECT_REFERENCE),
    optional("description", &DESCRIPTION),
]);

static DESCRIPTION: Node = text(0, 64);

/// What translation reads.
const READ: &[&str] = &[
    "spec.controllerName",
    "spec.description",
    "spec.parametersRef.group",
    "spec.parametersRef.kind",
    "spec.parametersRef.name",
    "spec.parametersRef.namespace",
];
