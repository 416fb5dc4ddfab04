//! The rules that an API server applies to objects of Gateway API, and to policies, before anybody sees them.

use std::fmt;

use serde::Serialize;

use crate::{
    DelegationPolicy, DirectResponse, Gateway, GatewayClass, HttpRoute, Object, ReferenceGrant, RewritePolicy,
    TrafficPolicy,
};

pub mod openapi;
pub(crate) mod rules;

/// A rule of the schema that an object breaks.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Violation {
    /// The field, such as `spec.rules[2].filters[0].requestRedirect.port`.
    pub path: String,
    /// Its value, cut if long; none where it is not one value that is wrong.
    pub value: Option<String>,
    /// What it must be.
    pub message: String,
}

impl Violation {
    pub(crate) fn new(path: impl Into<String>, value: impl fmt::Display, message: impl Into<String>) -> Self {
        let mut value = value.to_string();
        if let Some((end, _)) = value.char_indices().nth(100) {
            value.truncate(end);
            value.push_str("...");
        }
        Self { value: Some(value), ..Self::without_value(path, message) }
    }

    pub(crate) fn without_value(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), value: None, message: message.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            None => write!(f, "{}: {}", self.path, self.message),
            Some(value) => write!(f, "{} is {value:?}: {}", self.path, self.message),
        }
    }
}

/// What an API server would refuse about the object: first what is wrong with a field by itself, in the order of the
/// fields, then what does not go together. For a slim model, and for a policy that could not be read, what was left out
/// of it.
pub fn violations(object: &Object) -> Vec<Violation> {
    match object {
        Object::GatewayClass(GatewayClass { spec, .. }) => custom_resource(object, spec),
        Object::Gateway(Gateway { spec, .. }) => custom_resource(object, spec),
        Object::HttpRoute(HttpRoute { spec, .. }) => custom_resource(object, spec),
        Object::ReferenceGrant(ReferenceGrant { spec, .. }) => custom_resource(object, spec),
        Object::TrafficPolicy(TrafficPolicy { spec, .. }) if !spec.invalid.is_empty() => spec.invalid.to_vec(),
        Object::RewritePolicy(RewritePolicy { spec, .. }) if !spec.invalid.is_empty() => spec.invalid.to_vec(),
        Object::DelegationPolicy(DelegationPolicy { spec, .. }) if !spec.invalid.is_empty() => spec.invalid.to_vec(),
        Object::TrafficPolicy(TrafficPolicy { spec, .. }) => custom_resource(object, spec),
        Object::DirectResponse(DirectResponse { spec, .. }) => custom_resource(object, spec),
        Object::RewritePolicy(RewritePolicy { spec, .. }) => custom_resource(object, spec),
        Object::DelegationPolicy(DelegationPolicy { spec, .. }) => custom_resource(object, spec),
        Object::Service(service) => service.invalid.to_vec(),
        Object::EndpointSlice(slice) => slice.invalid.to_vec(),
        Object::Secret(secret) => secret.invalid.to_vec(),
        Object::GatewayParameters(_) | Object::ConfigMap(_) | Object::Deployment(_) | Object::Namespace(_) => {
            Vec::new()
        }
    }
}

/// The tables are read against the encoded spec, so that they need to know nothing of our types.
fn custom_resource(object: &Object, spec: &impl Serialize) -> Vec<Violation> {
    let mut found = Vec::new();
    if let (Some(node), Ok(value)) = (openapi::spec(object.kind()), serde_json::to_value(spec)) {
        openapi::check(node, &value, openapi::Path::Root("spec"), &mut found);
    }
    rules::check(object, &mut found);
    found
}
