//! The rules that an API server applies to objects of Gateway API, and to policies, before anybody sees them.

use serde::Serialize;

use crate::{
    DelegationPolicy, DirectResponse, Gateway, GatewayClass, HttpRoute, Object, ReferenceGrant, RewritePolicy,
    TrafficPolicy, Violation,
};

pub mod openapi;
pub(crate) mod rules;

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
