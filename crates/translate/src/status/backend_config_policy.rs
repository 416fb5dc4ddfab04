//! The status of BackendConfigPolicies.

use std::collections::BTreeSet;

use api::{Kind, ObjectId, meta::ObjectMeta, shared::ParentReference, status::PolicyStatus as Status};
use engine::Scope;
use ir::{Problem, Reason, Severity};

use super::{Conditions, StatusReport, ancestors::entries, and_notes, listed};
use crate::{
    backend::config::{Held, HeldAt},
    tables::{
        backend::ConfigPolicyRow,
        input::{BackendConfigPolicies, Backends, Services},
    },
    target::{key_of, target_kind, weight_problem},
};

/// An entry for each target, which is where such a policy holds, whichever Gateways lead there.
pub(super) fn report(scope: &Scope<'_>, id: &ObjectId) -> Option<StatusReport<Status>> {
    let policy = scope.get::<BackendConfigPolicies>(&key_of(id))?;
    let api::BackendConfigPolicy { metadata, spec } = &*policy;
    let said = scope.get::<ConfigPolicyRow>(id)?;
    let (mut faults, mut notes) = match &*said {
        Ok(said) => (said.faults.iter().map(|(_, fault)| fault.clone()).collect(), said.warnings.clone()),
        Err(fault) => (vec![fault.clone()], Vec::new()),
    };
    notes.extend(weight_problem(metadata));
    let held = scope.group::<HeldAt>(id);
    let mut ancestors: Vec<_> =
        held.iter().map(|(object, held)| (reference(object), conditions(metadata, &faults, &notes, held))).collect();
    let unfit: BTreeSet<_> = held.iter().filter_map(|(_, held)| held.fault.clone()).collect();
    faults.extend(unfit);
    let mut missing = Vec::new();
    for (index, target) in spec.target_refs.iter().enumerate() {
        let Some(kind) = target_kind(id.kind, &target.group, &target.kind) else { continue };
        let object = ObjectId::new(kind, id.namespace.clone(), target.name.clone());
        let is_there = match kind {
            Kind::Service => scope.get::<Services>(&key_of(&object)).is_some(),
            _ => scope.get::<Backends>(&key_of(&object)).is_some(),
        };
        if !is_there {
            let message = format!("{object} does not exist; create it, or correct the name");
            let field = format!("spec.targetRefs[{index}].name");
            let problem = Problem::new(Severity::Ignored, Reason::TargetNotFound, field, message);
            let mut conditions = Conditions::new(metadata.generation);
            conditions.no("Accepted", problem.reason, problem.to_string());
            ancestors.push((reference(&object), conditions.list));
            missing.push(problem);
        }
    }
    let mut problems = faults;
    problems.extend(notes);
    problems.extend(missing);
    let (status, untold) = entries(scope, ancestors);
    problems.extend(untold);
    Some(StatusReport { status, problems })
}

fn reference(object: &ObjectId) -> ParentReference {
    ParentReference {
        group: object.kind.group().into(),
        kind: object.kind.as_str().into(),
        namespace: Some(object.namespace.clone()),
        name: object.name.clone(),
        ..ParentReference::default()
    }
}

fn conditions(
    metadata: &ObjectMeta,
    faults: &[Problem],
    notes: &[Problem],
    held: &Held,
) -> Vec<api::status::Condition> {
    let mut conditions = Conditions::new(metadata.generation);
    let all: Vec<_> = faults.iter().chain(&held.fault).collect();
    if let Some(first) = all.first() {
        let told: Vec<_> = all.iter().map(ToString::to_string).collect();
        conditions.no("Accepted", first.reason, told.join("; "));
        return conditions.list;
    }
    conditions.yes("Accepted", Reason::Valid, and_notes("the policy is valid", notes));
    match (held.holds, &held.winners[..]) {
        (_, []) => conditions.yes("Attached", Reason::Attached, "nothing overrides it"),
        (true, winners) => {
            conditions.yes("Attached", Reason::Merged, format!("it holds in part, beside {}", listed(winners)));
        }
        (false, winners) => {
            conditions.no("Attached", Reason::Overridden, format!("it is overridden by {}", listed(winners)));
        }
    }
    conditions.list
}
