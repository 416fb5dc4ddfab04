//! What of a GRPCRoute is honoured.

use crate::{
    grpc_route::GrpcRouteSpec,
    honoured::{Honoured, Refused, RefusedField},
};

pub(super) const HONOURED: Honoured = Honoured { read: READ, refused: REFUSED };

/// What translation reads.
const READ: &[&str] = &[
    "spec.hostnames",
    "spec.parentRefs[].group",
    "spec.parentRefs[].kind",
    "spec.parentRefs[].name",
    "spec.parentRefs[].namespace",
    "spec.parentRefs[].port",
    "spec.parentRefs[].sectionName",
    "spec.rules[].backendRefs[].filters[].extensionRef.group",
    "spec.rules[].backendRefs[].filters[].extensionRef.kind",
    "spec.rules[].backendRefs[].filters[].extensionRef.name",
    "spec.rules[].backendRefs[].filters[].requestHeaderModifier.add[].name",
    "spec.rules[].backendRefs[].filters[].requestHeaderModifier.add[].value",
    "spec.rules[].backendRefs[].filters[].requestHeaderModifier.remove",
    "spec.rules[].backendRefs[].filters[].requestHeaderModifier.set[].name",
    "spec.rules[].backendRefs[].filters[].requestHeaderModifier.set[].value",
    "spec.rules[].backendRefs[].filters[].requestMirror.backendRef.group",
    "spec.rules[].backendRefs[].filters[].requestMirror.backendRef.kind",
    "spec.rules[].backendRefs[].filters[].requestMirror.backendRef.name",
    "spec.rules[].backendRefs[].filters[].requestMirror.backendRef.namespace",
    "spec.rules[].backendRefs[].filters[].requestMirror.backendRef.port",
    "spec.rules[].backendRefs[].filters[].requestMirror.fraction.denominator",
    "spec.rules[].backendRefs[].filters[].requestMirror.fraction.numerator",
    "spec.rules[].backendRefs[].filters[].requestMirror.percent",
    "spec.rules[].backendRefs[].filters[].responseHeaderModifier.add[].name",
    "spec.rules[].backendRefs[].filters[].responseHeaderModifier.add[].value",
    "spec.rules[].backendRefs[].filters[].responseHeaderModifier.remove",
    "spec.rules[].backendRefs[].filters[].responseHeaderModifier.set[].name",
    "spec.rules[].backendRefs[].filters[].responseHeaderModifier.set[].value",
    "spec.rules[].backendRefs[].filters[].type",
    "spec.rules[].backendRefs[].group",
    "spec.rules[].backendRefs[].kind",
    "spec.rules[].backendRefs[].name",
    "spec.rules[].backendRefs[].namespace",
    "spec.rules[].backendRefs[].port",
    "spec.rules[].backendRefs[].weight",
    "spec.rules[].filters[].extensionRef.group",
    "spec.rules[].filters[].extensionRef.kind",
    "spec.rules[].filters[].extensionRef.name",
    "spec.rules[].filters[].requestHeaderModifier.add[].name",
    "spec.rules[].filters[].requestHeaderModifier.add[].value",
    "spec.rules[].filters[].requestHeaderModifier.remove",
    "spec.rules[].filters[].requestHeaderModifier.set[].name",
    "spec.rules[].filters[].requestHeaderModifier.set[].value",
    "spec.rules[].filters[].requestMirror.backendRef.group",
    "spec.rules[].filters[].requestMirror.backendRef.kind",
    "spec.rules[].filters[].requestMirror.backendRef.name",
    "spec.rules[].filters[].requestMirror.backendRef.namespace",
    "spec.rules[].filters[].requestMirror.backendRef.port",
    "spec.rules[].filters[].requestMirror.fraction.denominator",
    "spec.rules[].filters[].requestMirror.fraction.numerator",
    "spec.rules[].filters[].requestMirror.percent",
    "spec.rules[].filters[].responseHeaderModifier.add[].name",
    "spec.rules[].filters[].responseHeaderModifier.add[].value",
    "spec.rules[].filters[].responseHeaderModifier.remove",
    "spec.rules[].filters[].responseHeaderModifier.set[].name",
    "spec.rules[].filters[].responseHeaderModifier.set[].value",
    "spec.rules[].filters[].type",
    "spec.rules[].matches[].headers[].name",
    "spec.rules[].matches[].headers[].type",
    "spec.rules[].matches[].headers[].value",
    "spec.rules[].matches[].method.method",
    "spec.rules[].matches[].method.service",
    "spec.rules[].matches[].method.type",
    "spec.rules[].name",
    "spec.rules[].sessionPersistence.absoluteTimeout",
    "spec.rules[].sessionPersistence.cookieConfig.lifetimeType",
    "spec.rules[].sessionPersistence.sessionName",
    "spec.rules[].sessionPersistence.type",
];

/// What nobody honours.
const REFUSED: &[&str] = &["spec.useDefaultGateways"];

impl GrpcRouteSpec {
    /// What it asks for and does not get.
    pub fn refused_fields(&self) -> Vec<RefusedField> {
        let mut refused = Refused::default();
        refused.default_gateways(self.use_default_gateways.as_ref(), "spec.useDefaultGateways");
        refused.0
    }
}
