//! What the CRDs of Gateway API and of policies say across fields, there in CEL.
//!
//! Each function takes a part of an object and the path where it stands. Where a field's schema default would satisfy a
//! rule it does so here too, since it is already in place.

use crate::Object;
use crate::Violation;

mod filter;
mod gateway;
mod http_route;
mod policy;
mod reference;

pub(crate) use policy::{Cel, cel};

/// Rules that an object breaks, in the order they are looked at.
#[derive(Default)]
pub(super) struct Broken(pub(super) Vec<Violation>);

impl Broken {
    fn add(&mut self, path: impl Into<String>, value: impl std::fmt::Display, message: impl Into<String>) {
        self.0.push(Violation::new(path, value, message));
    }

    /// Notes a broken rule where it is not one value that is wrong.
    fn add_without_value(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.0.push(Violation::without_value(path, message));
    }
}

/// Notes which rules the object breaks.
pub(super) fn check(object: &Object, found: &mut Vec<Violation>) {
    let mut broken = Broken(std::mem::take(found));
    match object {
        Object::Gateway(gateway) => gateway::check(&gateway.spec, &mut broken),
        Object::HttpRoute(route) => http_route::check(&route.spec, &mut broken),
        Object::TrafficPolicy(policy) => policy::traffic(&policy.spec, &mut broken),
        Object::DirectResponse(response) => policy::direct_response(&response.spec, &mut broken),
        Object::RewritePolicy(policy) => policy::rewrite(&policy.spec, &mut broken),
        Object::DelegationPolicy(policy) => policy::delegation(&policy.spec, &mut broken),
        // The only rule of a GatewayClass is about change, a ReferenceGrant has none, and slim models have no schema.
        _ => {}
    }
    *found = broken.0;
}
