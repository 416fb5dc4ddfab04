//! What of an HTTPRoute is honoured.

use crate::{
    honoured::{Affects, Honoured, Refused, RefusedField},
    http_route::{HttpRouteFilter, HttpRouteFilterType, HttpRouteSpec},
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
    "spec.rules[].backendRefs[].filters[].cors.allowCredentials",
    "spec.rules[].backendRefs[].filters[].cors.allowHeaders",
    "spec.rules[].backendRefs[].filters[].cors.allowMethods",
    "spec.rules[].backendRefs[].filters[].cors.allowOrigins",
    "spec.rules[].backendRefs[].filters[].cors.exposeHeaders",
    "spec.rules[].backendRefs[].filters[].cors.maxAge",
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
    "spec.rules[].backendRefs[].filters[].requestRedirect.hostname",
    "spec.rules[].backendRefs[].filters[].requestRedirect.path.replaceFullPath",
    "spec.rules[].backendRefs[].filters[].requestRedirect.path.replacePrefixMatch",
    "spec.rules[].backendRefs[].filters[].requestRedirect.path.type",
    "spec.rules[].backendRefs[].filters[].requestRedirect.port",
    "spec.rules[].backendRefs[].filters[].requestRedirect.scheme",
    "spec.rules[].backendRefs[].filters[].requestRedirect.statusCode",
    "spec.rules[].backendRefs[].filters[].responseHeaderModifier.add[].name",
    "spec.rules[].backendRefs[].filters[].responseHeaderModifier.add[].value",
    "spec.rules[].backendRefs[].filters[].responseHeaderModifier.remove",
    "spec.rules[].backendRefs[].filters[].responseHeaderModifier.set[].name",
    "spec.rules[].backendRefs[].filters[].responseHeaderModifier.set[].value",
    "spec.rules[].backendRefs[].filters[].type",
    "spec.rules[].backendRefs[].filters[].urlRewrite.hostname",
    "spec.rules[].backendRefs[].filters[].urlRewrite.path.replaceFullPath",
    "spec.rules[].backendRefs[].filters[].urlRewrite.path.replacePrefixMatch",
    "spec.rules[].backendRefs[].filters[].urlRewrite.path.type",
    "spec.rules[].backendRefs[].group",
    "spec.rules[].backendRefs[].kind",
    "spec.rules[].backendRefs[].name",
    "spec.rules[].backendRefs[].namespace",
    "spec.rules[].backendRefs[].port",
    "spec.rules[].backendRefs[].weight",
    "spec.rules[].filters[].cors.allowCredentials",
    "spec.rules[].filters[].cors.allowHeaders",
    "spec.rules[].filters[].cors.allowMethods",
    "spec.rules[].filters[].cors.allowOrigins",
    "spec.rules[].filters[].cors.exposeHeaders",
    "spec.rules[].filters[].cors.maxAge",
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
    "spec.rules[].filters[].requestRedirect.hostname",
    "spec.rules[].filters[].requestRedirect.path.replaceFullPath",
    "spec.rules[].filters[].requestRedirect.path.replacePrefixMatch",
    "spec.rules[].filters[].requestRedirect.path.type",
    "spec.rules[].filters[].requestRedirect.port",
    "spec.rules[].filters[].requestRedirect.scheme",
    "spec.rules[].filters[].requestRedirect.statusCode",
    "spec.rules[].filters[].responseHeaderModifier.add[].name",
    "spec.rules[].filters[].responseHeaderModifier.add[].value",
    "spec.rules[].filters[].responseHeaderModifier.remove",
    "spec.rules[].filters[].responseHeaderModifier.set[].name",
    "spec.rules[].filters[].responseHeaderModifier.set[].value",
    "spec.rules[].filters[].type",
    "spec.rules[].filters[].urlRewrite.hostname",
    "spec.rules[].filters[].urlRewrite.path.replaceFullPath",
    "spec.rules[].filters[].urlRewrite.path.replacePrefixMatch",
    "spec.rules[].filters[].urlRewrite.path.type",
    "spec.rules[].matches[].headers[].name",
    "spec.rules[].matches[].headers[].type",
    "spec.rules[].matches[].headers[].value",
    "spec.rules[].matches[].method",
    "spec.rules[].matches[].path.type",
    "spec.rules[].matches[].path.value",
    "spec.rules[].matches[].queryParams[].name",
    "spec.rules[].matches[].queryParams[].type",
    "spec.rules[].matches[].queryParams[].value",
    "spec.rules[].name",
    "spec.rules[].retry.attempts",
    "spec.rules[].retry.backoff",
    "spec.rules[].retry.codes",
    "spec.rules[].sessionPersistence.absoluteTimeout",
    "spec.rules[].sessionPersistence.cookieConfig.lifetimeType",
    "spec.rules[].sessionPersistence.sessionName",
    "spec.rules[].sessionPersistence.type",
    "spec.rules[].timeouts.backendRequest",
    "spec.rules[].timeouts.request",
];

/// What nobody honours.
const REFUSED: &[&str] = &[
    "spec.rules[].backendRefs[].filters[].externalAuth.backendRef.group",
    "spec.rules[].backendRefs[].filters[].externalAuth.backendRef.kind",
    "spec.rules[].backendRefs[].filters[].externalAuth.backendRef.name",
    "spec.rules[].backendRefs[].filters[].externalAuth.backendRef.namespace",
    "spec.rules[].backendRefs[].filters[].externalAuth.backendRef.port",
    "spec.rules[].backendRefs[].filters[].externalAuth.forwardBody.maxSize",
    "spec.rules[].backendRefs[].filters[].externalAuth.grpc.allowedHeaders",
    "spec.rules[].backendRefs[].filters[].externalAuth.http.allowedHeaders",
    "spec.rules[].backendRefs[].filters[].externalAuth.http.allowedResponseHeaders",
    "spec.rules[].backendRefs[].filters[].externalAuth.http.path",
    "spec.rules[].backendRefs[].filters[].externalAuth.protocol",
    "spec.rules[].filters[].externalAuth.backendRef.group",
    "spec.rules[].filters[].externalAuth.backendRef.kind",
    "spec.rules[].filters[].externalAuth.backendRef.name",
    "spec.rules[].filters[].externalAuth.backendRef.namespace",
    "spec.rules[].filters[].externalAuth.backendRef.port",
    "spec.rules[].filters[].externalAuth.forwardBody.maxSize",
    "spec.rules[].filters[].externalAuth.grpc.allowedHeaders",
    "spec.rules[].filters[].externalAuth.http.allowedHeaders",
    "spec.rules[].filters[].externalAuth.http.allowedResponseHeaders",
    "spec.rules[].filters[].externalAuth.http.path",
    "spec.rules[].filters[].externalAuth.protocol",
    "spec.useDefaultGateways",
];

const EXTERNAL_AUTH: &str = "the ExternalAuth filter is not supported: remove it";

impl HttpRouteSpec {
    /// What it asks for and does not get, in the order of its fields.
    pub fn refused_fields(&self) -> Vec<RefusedField> {
        let mut refused = Refused::default();
        refused.default_gateways(self.use_default_gateways.as_ref(), "spec.useDefaultGateways");
        for (index, rule) in self.rules.iter().enumerate() {
            let affects = Affects::Rule(index);
            filters(&rule.filters, affects, || format!("spec.rules[{index}].filters"), &mut refused);
            for (place, backend) in rule.backend_refs.iter().enumerate() {
                let path = || format!("spec.rules[{index}].backendRefs[{place}].filters");
                filters(&backend.filters, affects, path, &mut refused);
            }
        }
        refused.0
    }
}

fn filters(filters: &[HttpRouteFilter], affects: Affects, path: impl Fn() -> String, refused: &mut Refused) {
    for (index, filter) in filters.iter().enumerate() {
        let set = filter.external_auth.is_some() || filter.r#type == HttpRouteFilterType::ExternalAuth;
        refused.add(set, || format!("{}[{index}].externalAuth", path()), affects, EXTERNAL_AUTH);
    }
}
