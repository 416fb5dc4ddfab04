//! Rules across fields of a DelegationPolicy.

use crate::{
    delegation_policy::{AllowedChildren, DelegationPolicySpec},
    schema::{
        Cel,
        rules::{
            Broken,
            policy::{HTTP_ROUTE, HTTP_ROUTE_REFS, targets},
            reference::service_port,
        },
    },
};

/// In CEL.
pub(super) const RULES: &[Cel] = &[HTTP_ROUTE_REFS, NAMESPACES, KIND_OF_GROUP, ANY_CRITERION, SERVICE_PORT];

const NAMESPACES: Cel = Cel {
    path: "spec.allowedChildren.namespaces",
    rule: "has(self.names) != has(self.selector)",
    message: "must have either names or selector",
};
const KIND_OF_GROUP: Cel = Cel {
    path: "spec.allowedChildren.backends[]",
    rule: "!has(self.group) || has(self.kind)",
    message: "must set kind beside group",
};
const ANY_CRITERION: Cel = Cel {
    path: "spec.allowedChildren.backends[]",
    rule: "has(self.group) || has(self.kind) || has(self.namespace) || has(self.name)",
    message: "must set kind, namespace or name",
};
const SERVICE_PORT: Cel = Cel {
    path: "spec.defaultBackendRefs[]",
    rule: "self.group != '' || self.kind != 'Service' || has(self.port)",
    message: "must set port for a Service",
};

pub(super) fn check(spec: &DelegationPolicySpec, broken: &mut Broken) {
    targets(&spec.target_refs, &[], HTTP_ROUTE, HTTP_ROUTE_REFS.message, broken);
    if let Some(allowed) = &spec.allowed_children {
        allowed_children(allowed, broken);
    }
    for (index, backend) in spec.default_backend_refs.iter().enumerate() {
        service_port(&backend.backend_ref, &format!("spec.defaultBackendRefs[{index}]"), broken);
    }
}

fn allowed_children(allowed: &AllowedChildren, broken: &mut Broken) {
    if let Some(namespaces) = &allowed.namespaces
        && namespaces.names.is_some() == namespaces.selector.is_some()
    {
        broken.add_without_value(NAMESPACES.path, NAMESPACES.message);
    }
    for (index, backend) in allowed.backends.iter().flatten().enumerate() {
        let path = format!("spec.allowedChildren.backends[{index}]");
        if backend.group.is_some() && backend.kind.is_none() {
            broken.add_without_value(path, KIND_OF_GROUP.message);
        } else if backend.kind.is_none() && backend.namespace.is_none() && backend.name.is_none() {
            broken.add_without_value(path, ANY_CRITERION.message);
        }
    }
}
