//! The status of BackendConfigPolicies.

use std::collections::BTreeSet;

use api::{Kind, ObjectId, shared::ParentReference, status::PolicyStatus as Status};
use engine::Scope;
use ir::Problem;

use super::{StatusReport, ancestors::entries, connections};
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
    let (mut faults, mut notes): (Vec<Problem>, Vec<Problem>) = match &*said {
        Ok(said) => (said.faults.iter().map(|(_, fault)| fault.clone()).collect(), said.warnings.clone()),
        Err(fault) => (vec![fault.clone()], Vec::new()),
    };
    notes.extend(weight_problem(metadata));
    let held = scope.group::<HeldAt>(id);
    let at = |(object, held): (&ObjectId, &Held)| {
        let faults = faults.iter().chain(&held.fault);
        (reference(object), connections::standing(metadata, faults, &notes, held.holds, &held.winners))
    };
    let mut ancestors: Vec<_> = held.iter().map(at).collect();
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
            let (problem, conditions) = connections::missing(metadata, &object, index);
            ancestors.push((reference(&object), conditions));
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
