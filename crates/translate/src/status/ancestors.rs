//! The entries of a policy's status (Gateway API `PolicyStatus`).

use std::{slice, sync::Arc};

use api::{
    compact::shared,
    policy::LocalPolicyTargetReference,
    shared::ParentReference,
    status::{Condition, PolicyAncestorStatus, PolicyStatus as Status},
};
use engine::Scope;
use ir::{GATEWAY_API, NsName, Problem, Reason, Severity};

use super::{and_notes, bounded};
use crate::{
    tables::{input::Config, policy::MAX_ANCESTORS},
    target::section,
    words::listed_with,
};

/// A status with an entry for each ancestor, none without any, and what is to be told if there is no room for all: the
/// first stay, and the last of them says so too.
pub(super) fn entries(
    scope: &Scope<'_>,
    mut list: Vec<(ParentReference, Vec<Condition>)>,
) -> (Option<Status>, Option<Problem>) {
    let Some(controller_name) = scope.get::<Config>(&()).map(|config| config.controller_name.clone()) else {
        return (None, None);
    };
    let left_out = list.split_off(list.len().min(MAX_ANCESTORS));
    let truncated = truncated(&left_out);
    if let (Some(truncated), Some(condition)) =
        (&truncated, list.last_mut().and_then(|(_, conditions)| conditions.first_mut()))
    {
        condition.message = bounded(and_notes(condition.message.clone(), slice::from_ref(truncated)));
    }
    let ancestors = list.into_iter().map(|(ancestor_ref, conditions)| PolicyAncestorStatus {
        ancestor_ref,
        controller_name: controller_name.clone(),
        conditions,
    });
    let ancestors: Vec<_> = ancestors.collect();
    ((!ancestors.is_empty()).then_some(Status { ancestors }), truncated)
}

/// What is to be said of ancestors for which a status has no room.
fn truncated(left_out: &[(ParentReference, Vec<Condition>)]) -> Option<Problem> {
    if left_out.is_empty() {
        return None;
    }
    let name = |(ancestor, _): &(ParentReference, _)| {
        let ParentReference { kind, name, namespace, .. } = ancestor;
        format!("{kind} {}/{name}", namespace.as_deref().unwrap_or_default())
    };
    let names: Vec<_> = left_out.iter().map(name).collect();
    let message = format!(
        "a status names {MAX_ANCESTORS} ancestors, and the policy has more: {}; have several policies share the targets",
        listed_with(", ", &names)
    );
    Some(Problem::new(Severity::Warning, Reason::TooManyAncestors, "", message))
}

/// What a policy of a namespace targets, as an ancestor.
pub(super) fn target_ref(namespace: &Arc<str>, target: &LocalPolicyTargetReference) -> ParentReference {
    ParentReference {
        group: target.group.clone(),
        kind: target.kind.clone(),
        namespace: Some(Arc::clone(namespace)),
        name: target.name.clone(),
        section_name: section(target.section_name.as_ref()),
        ..ParentReference::default()
    }
}

/// A Gateway as an ancestor.
pub(super) fn gateway_ref(gateway: &NsName) -> ParentReference {
    ParentReference {
        group: shared(GATEWAY_API),
        kind: shared("Gateway"),
        namespace: Some(gateway.namespace.clone()),
        name: gateway.name.clone(),
        ..ParentReference::default()
    }
}
