//! Statuses as controllers write them.

use std::{borrow::Cow, sync::Arc};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    gateway::AddressType,
    shared::{ParentReference, RouteGroupKind},
};

/// One observation about an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// What is observed.
    pub r#type: Cow<'static, str>,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// The generation of the object that was observed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// When the status last changed. Translation leaves it out; the writer to a cluster, where it is required, sets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", description = "When the status last changed.", extend("format" = "date-time"))]
    pub last_transition_time: Option<Timestamp>,
    /// Why, in one word.
    pub reason: Cow<'static, str>,
    /// Why, for humans.
    pub message: Cow<'static, str>,
}

/// Whether a condition holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize, Serialize, JsonSchema)]
pub enum ConditionStatus {
    /// It does.
    True,
    /// It does not.
    False,
    /// Nobody knows.
    #[default]
    Unknown,
}

/// Status of a GatewayClass.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GatewayClassStatus {
    /// Conditions, one of a type.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// What the controller can do, sorted by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub supported_features: Vec<SupportedFeature>,
}

/// Status of a Backend.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BackendStatus {
    /// Conditions, one of a type.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// One feature of Gateway API.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SupportedFeature {
    /// Its name.
    pub name: Cow<'static, str>,
}

/// Status of a GatewayExtension.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExtensionStatus {
    /// Conditions, one of a type.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// Status of a Gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GatewayStatus {
    /// Addresses in use.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<GatewayStatusAddress>,
    /// Conditions, one of a type.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// One entry a listener.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub listeners: Vec<ListenerStatus>,
    /// Number of ListenerSets that are attached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attached_listener_sets: Option<i32>,
}

/// Status of a ListenerSet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ListenerSetStatus {
    /// Conditions, one of a type.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// One entry a listener.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub listeners: Vec<ListenerStatus>,
}

/// An address in use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GatewayStatusAddress {
    /// How to read the value.
    pub r#type: AddressType,
    /// The address.
    pub value: Box<str>,
}

/// Status of a listener.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ListenerStatus {
    /// The listener.
    pub name: Arc<str>,
    /// Kinds of routes that may attach and are supported. An empty list says something, so it is written.
    pub supported_kinds: Vec<RouteGroupKind>,
    /// Number of routes attached.
    pub attached_routes: i32,
    /// Conditions, one of a type.
    pub conditions: Vec<Condition>,
}

/// Status of a route of any kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RouteStatus {
    /// One entry a parent and controller; at most 32.
    pub parents: Vec<RouteParentStatus>,
}

/// What one controller says about a route at one parent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RouteParentStatus {
    /// The parent as the route names it.
    pub parent_ref: ParentReference,
    /// The controller.
    pub controller_name: Arc<str>,
    /// Conditions, one of a type.
    pub conditions: Vec<Condition>,
}

/// What controllers say about a policy of any kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyStatus {
    /// One entry for each object that the policy has an effect on, and controller; at most 16.
    pub ancestors: Vec<PolicyAncestorStatus>,
}

/// What one controller says about a policy at one object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyAncestorStatus {
    /// The object, such as a Gateway or a route.
    pub ancestor_ref: ParentReference,
    /// The controller.
    pub controller_name: Arc<str>,
    /// Conditions, one of a type.
    pub conditions: Vec<Condition>,
}
