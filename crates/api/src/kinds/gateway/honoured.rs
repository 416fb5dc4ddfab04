//! What of a Gateway is honoured.

use crate::{
    gateway::GatewaySpec,
    honoured::{Honoured, Refused, RefusedField},
};

pub(super) const HONOURED: Honoured = Honoured { read: READ, refused: REFUSED };

/// What translation reads.
const READ: &[&str] = &[
    "spec.addresses[].type",
    "spec.addresses[].value",
    "spec.allowedListeners.namespaces.from",
    "spec.allowedListeners.namespaces.selector.matchExpressions[].key",
    "spec.allowedListeners.namespaces.selector.matchExpressions[].operator",
    "spec.allowedListeners.namespaces.selector.matchExpressions[].values",
    "spec.allowedListeners.namespaces.selector.matchLabels",
    "spec.gatewayClassName",
    "spec.infrastructure.annotations",
    "spec.infrastructure.labels",
    "spec.infrastructure.parametersRef.group",
    "spec.infrastructure.parametersRef.kind",
    "spec.infrastructure.parametersRef.name",
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
    "spec.tls.backend.clientCertificateRef.group",
    "spec.tls.backend.clientCertificateRef.kind",
    "spec.tls.backend.clientCertificateRef.name",
    "spec.tls.backend.clientCertificateRef.namespace",
    "spec.tls.frontend.default.validation.caCertificateRefs[].group",
    "spec.tls.frontend.default.validation.caCertificateRefs[].kind",
    "spec.tls.frontend.default.validation.caCertificateRefs[].name",
    "spec.tls.frontend.default.validation.caCertificateRefs[].namespace",
    "spec.tls.frontend.default.validation.mode",
    "spec.tls.frontend.perPort[].port",
    "spec.tls.frontend.perPort[].tls.validation.caCertificateRefs[].group",
    "spec.tls.frontend.perPort[].tls.validation.caCertificateRefs[].kind",
    "spec.tls.frontend.perPort[].tls.validation.caCertificateRefs[].name",
    "spec.tls.frontend.perPort[].tls.validation.caCertificateRefs[].namespace",
    "spec.tls.frontend.perPort[].tls.validation.mode",
];

/// What nobody honours.
const REFUSED: &[&str] = &["spec.defaultScope"];

impl GatewaySpec {
    /// What it asks for and does not get, in the order of its fields.
    pub fn refused_fields(&self) -> Vec<RefusedField> {
        let mut refused = Refused::default();
        refused.default_gateways(self.default_scope.as_ref(), "spec.defaultScope");
        refused.0
    }
}
