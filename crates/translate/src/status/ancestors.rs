//! The entries of a policy's status (Gateway API `PolicyStatus`).

use api::{
    shared::ParentReference,
    status::{Condition, PolicyAncestorStatus, PolicyStatus as Status},
};
use engine::Scope;
use ir::NsName;

use crate::{grant::GATEWAY_API, tables::input::Config};

/// How many ancestors a status may name (Gateway API `PolicyStatus.ancestors`).
const MAX_ANCESTORS: usize = 16;

/// A status with an entry for each ancestor; none without any.
pub(super) fn entries(scope: &Scope<'_>, list: Vec<(ParentReference, Vec<Condition>)>) -> Option<Status> {
    let controller_name = scope.get::<Config>(&())?.controller_name.clone();
    let ancestors = list.into_iter().take(MAX_ANCESTORS).map(|(ancestor_ref, conditions)| PolicyAncestorStatus {
        ancestor_ref,
        controller_name: controller_name.clone(),
        conditions,
    });
    let ancestors: Vec<_> = ancestors.collect();
    (!ancestors.is_empty()).then_some(Status { ancestors })
}

/// A Gateway as an ancestor.
pub(super) fn gateway_ref(gateway: &NsName) -> ParentReference {
    ParentReference {
        group: GATEWAY_API.into(),
        kind: "Gateway".into(),
        namespace: Some(gateway.namespace.clone()),
        name: gateway.name.clone(),
        ..ParentReference::default()
    }
}
