//! The status of ListenerPolicies.

use api::{
    Kind, ObjectId,
    meta::ObjectMeta,
    status::{Condition, PolicyStatus as Status},
};
use engine::Scope;
use ir::{NsName, Problem, Reason, Severity};

use super::{
    StatusReport,
    ancestors::{entries, gateway_ref},
    connections, listed,
};
use crate::{
    gateway::policy::{HeldAtGateway, HeldByGateway, ListenerPolicyRow},
    tables::input::{Gateways, ListenerPolicies},
    target::{key_of, target_kind, weight_problem},
};

/// An entry for each Gateway that it applies to.
pub(super) fn report(scope: &Scope<'_>, id: &ObjectId) -> Option<StatusReport<Status>> {
    let policy = scope.get::<ListenerPolicies>(&key_of(id))?;
    let api::ListenerPolicy { metadata, spec } = &*policy;
    let said = scope.get::<ListenerPolicyRow>(id)?;
    let (faults, mut notes): (Vec<Problem>, Vec<Problem>) = match &*said {
        Ok(said) => (said.faults().cloned().collect(), said.warnings().cloned().collect()),
        Err(fault) => (vec![fault.clone()], Vec::new()),
    };
    notes.extend(weight_problem(metadata));
    let held = scope.group::<HeldAtGateway>(id);
    let at = |(gateway, held): (&NsName, &HeldByGateway)| {
        (gateway_ref(gateway), conditions(metadata, id, &faults, &notes, held))
    };
    let mut ancestors: Vec<_> = held.iter().map(at).collect();
    let mut missing = Vec::new();
    for (index, target) in spec.target_refs.iter().enumerate() {
        let Some(kind) = target_kind(id.kind, &target.group, &target.kind) else { continue };
        let gateway = NsName::new(id.namespace.clone(), target.name.clone());
        if scope.get::<Gateways>(&gateway).is_none() {
            let object = ObjectId::new(kind, id.namespace.clone(), target.name.clone());
            let (problem, conditions) = connections::missing(metadata, &object, index);
            ancestors.push((gateway_ref(&gateway), conditions));
            missing.push(problem);
        }
    }
    let mut problems = faults;
    problems.extend(notes);
    problems.extend(held.iter().filter_map(|(gateway, held)| unused(id, gateway, held)));
    problems.extend(missing);
    let (status, untold) = entries(scope, ancestors);
    problems.extend(untold);
    Some(StatusReport { status, problems })
}

/// Ports of which it says something, and that the Gateway does not have.
fn unused(id: &ObjectId, gateway: &NsName, held: &HeldByGateway) -> Option<Problem> {
    let ports = listed(&held.unused);
    let gateway = if gateway.namespace == id.namespace {
        ObjectId::new(Kind::Gateway, gateway.namespace.clone(), gateway.name.clone()).to_string()
    } else {
        "a Gateway of another namespace".to_owned()
    };
    let message = format!("{gateway} has no listener at {ports}; correct the port, or remove the entry");
    (!held.unused.is_empty()).then(|| Problem::new(Severity::Warning, Reason::TargetNotFound, "spec.perPort", message))
}

fn conditions(
    metadata: &ObjectMeta,
    id: &ObjectId,
    faults: &[Problem],
    notes: &[Problem],
    held: &HeldByGateway,
) -> Vec<Condition> {
    let name = |by: &ObjectId| match () {
        () if by.namespace == id.namespace => by.to_string(),
        () => format!("a {} of another namespace", by.kind),
    };
    let mut winners: Vec<_> = held.winners.iter().map(name).collect();
    winners.dedup();
    connections::standing(metadata, faults, notes, held.holds, &winners)
}
