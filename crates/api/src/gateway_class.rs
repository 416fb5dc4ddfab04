//! GatewayClass.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{meta::CustomResource, shared::ObjectReference};

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
