//! The status of BackendTLSPolicies.

use std::{collections::BTreeSet, sync::Arc};

use api::{
    Kind, ObjectId,
    shared::ParentReference,
    status::{Condition, PolicyStatus as Status},
};
use engine::Scope;
use ir::{NsName, Problem, Reason, Severity, backend::Destination};

use super::{
    Conditions, StatusReport,
    ancestors::{entries, gateway_ref},
    and_notes, listed,
};
use crate::{
    backend::tls::{age, backends, targets},
    tables::{
        input::{BackendTlsPolicies, Backends, Services},
        tls::{Ancestors, Dialing, TlsAncestors, TlsPolicy, TlsPolicyRow, TlsTargeting},
    },
    target::{key_of, section, target_kind},
};

/// A target of a policy.
struct Target {
    /// Its place in the list.
    index: usize,
    /// A Service or Backend.
    object: ObjectId,
    section: Option<Arc<str>>,
    backends: Vec<Destination>,
    /// Who holds there in the policy's place.
    winner: Option<NsName>,
}

/// An entry for each Gateway whose proxies send to a target, or would, and for each target that is not there, or of which nobody else
/// could say that the policy is not valid.
pub(super) fn report(scope: &Scope<'_>, id: &ObjectId) -> Option<StatusReport<Status>> {
    let key = key_of(id);
    let policy = scope.get::<BackendTlsPolicies>(&key)?;
    let said = scope.get::<TlsPolicyRow>(&key)?;
    let own = age(&key, &policy);
    let target = |(index, object, section): (usize, ObjectId, Option<Arc<str>>)| {
        let first = scope.group::<TlsTargeting>(&(object.clone(), section.clone()));
        let winner = first.iter().next().map(|(first, ())| first).filter(|first| **first != own);
        let winner = winner.map(|first| first.name.clone());
        Target { index, backends: backends(scope, &object, section.as_ref()), object, section, winner }
    };
    let all: Vec<_> = targets(&key, &policy).map(target).collect();
    let lost: Vec<_> = all.iter().filter_map(conflict).collect();
    let foreign = foreign_kinds(&key, &policy);
    let mut notes: Vec<_> = foreign.iter().map(|(_, problem)| problem.clone()).collect();
    notes.extend(lost.iter().cloned());
    notes.extend(said.warning.clone());
    let generation = policy.metadata.generation;
    let Ancestors { told, untold, .. } = scope.get::<TlsAncestors>(&key).as_deref().cloned().unwrap_or_default();
    let at = |gateway: &NsName| {
        let dials = |to: &Destination| scope.group::<Dialing>(to).iter().any(|(other, ())| other == gateway);
        let mut there = all.iter().filter(|target| target.backends.iter().any(dials)).peekable();
        let lost: Option<Vec<_>> = there.peek().is_some().then(|| there.map(conflict).collect()).flatten();
        (gateway_ref(gateway), conditions(generation, &said, lost.as_deref(), &notes))
    };
    let mut ancestors: Vec<_> = told.iter().map(at).collect();
    let mut problems = faults(&said);
    problems.extend(notes.iter().cloned());
    let refused = |target: ParentReference, problem: &Problem| {
        let mut conditions = Conditions::new(generation);
        conditions.no("Accepted", problem.reason, problem.to_string());
        (target, conditions.done())
    };
    ancestors.extend(foreign.iter().map(|(target, problem)| refused(target.clone(), problem)));
    for target in &all {
        let Some(problem) = missing(scope, target) else { continue };
        ancestors.push(refused(reference(target), &problem));
        problems.push(problem);
    }
    if let Err(fault) = &said.tls
        && told.is_empty()
    {
        // Who is dialled by providers alone is closed too, and no Gateway's entry says so.
        let there = all.iter().filter(|target| missing(scope, target).is_none());
        ancestors.extend(there.map(|target| refused(reference(target), fault)));
    }
    problems.extend(without_room(&untold));
    let (status, more) = entries(scope, ancestors);
    problems.extend(more);
    Some(StatusReport { status, problems })
}

/// What is wrong with what it says. A reference that leads nowhere is left out where others lead to authorities.
fn faults(said: &TlsPolicy) -> Vec<Problem> {
    match &said.tls {
        Err(fault) => vec![fault.clone()],
        Ok(_) => said.unresolved.iter().map(|it| Problem { severity: Severity::Ignored, ..it.clone() }).collect(),
    }
}

fn conditions(generation: i64, said: &TlsPolicy, lost: Option<&[Problem]>, notes: &[Problem]) -> Vec<Condition> {
    let mut conditions = Conditions::new(generation);
    match (lost, &said.tls) {
        (Some(lost @ [first, ..]), _) => conditions.no("Accepted", first.reason, listed(lost)),
        (_, Err(fault)) => conditions.no("Accepted", fault.reason, fault.to_string()),
        (_, Ok(_)) => {
            let message = "proxies connect by TLS, as the policy says";
            conditions.yes("Accepted", Reason::Accepted, and_notes(message, notes));
        }
    }
    match said.unresolved.first() {
        Some(first) => conditions.no("ResolvedRefs", first.reason, listed(&said.unresolved)),
        None => conditions.yes("ResolvedRefs", Reason::ResolvedRefs, "all references resolve"),
    }
    conditions.done()
}

/// An older policy on the same target. All are of one namespace.
fn conflict(target: &Target) -> Option<Problem> {
    let winner = target.winner.as_ref()?;
    let part = target.section.as_ref().map(|section| format!(", port {section}")).unwrap_or_default();
    let message = format!(
        "BackendTLSPolicy {winner} has the same target, {}{part}, and goes first: the older one, then the one whose name comes \
         first; remove one of both",
        target.object
    );
    let field = format!("spec.targetRefs[{}]", target.index);
    Some(Problem::new(Severity::Ignored, Reason::Conflicted, field, message))
}

/// Targets of kinds that such a policy cannot apply to here: each has an entry, since no Gateway might have one that says so.
fn foreign_kinds(key: &NsName, policy: &api::BackendTlsPolicy) -> Vec<(ParentReference, Problem)> {
    let all = policy.spec.target_refs.iter().enumerate();
    let foreign = all.filter(|(_, it)| target_kind(Kind::BackendTlsPolicy, &it.group, &it.kind).is_none());
    let problems = foreign.map(|(index, target)| {
        let message = format!(
            "{} of group {:?} is not served here, so nothing secures it; name a Service or a Backend",
            target.kind, target.group
        );
        let field = format!("spec.targetRefs[{index}].kind");
        let reference = ParentReference {
            group: target.group.clone(),
            kind: target.kind.clone(),
            namespace: Some(key.namespace.clone()),
            name: target.name.clone(),
            section_name: section(target.section_name.as_ref()),
            ..ParentReference::default()
        };
        (reference, Problem::new(Severity::Ignored, Reason::Invalid, field, message))
    });
    problems.collect()
}

fn missing(scope: &Scope<'_>, target: &Target) -> Option<Problem> {
    let Target { index, object, section, backends, .. } = target;
    let (name, is_service) = (key_of(object), object.kind == Kind::Service);
    let is_there =
        if is_service { scope.get::<Services>(&name).is_some() } else { scope.get::<Backends>(&name).is_some() };
    let (field, message) = match section {
        _ if !is_there => ("name", format!("{object} does not exist; create it, or correct the name")),
        Some(section) if backends.is_empty() && is_service => {
            ("sectionName", format!("{object} has no port of TCP named {section}; name one so, or correct the name"))
        }
        Some(_) if !is_service => {
            ("sectionName", format!("{object} has no sections, so nothing secures it; remove the sectionName"))
        }
        _ => return None,
    };
    let field = format!("spec.targetRefs[{index}].{field}");
    Some(Problem::new(Severity::Ignored, Reason::TargetNotFound, field, message))
}

fn reference(target: &Target) -> ParentReference {
    ParentReference {
        group: target.object.kind.group().into(),
        kind: target.object.kind.as_str().into(),
        namespace: Some(target.object.namespace.clone()),
        name: target.object.name.clone(),
        section_name: target.section.clone(),
        ..ParentReference::default()
    }
}

/// Gateways whose proxies may not send to what it targets, since the status has no room for them.
fn without_room(untold: &[NsName]) -> Option<Problem> {
    let names: BTreeSet<_> = untold.iter().map(ToString::to_string).collect();
    let names: Vec<_> = names.iter().collect();
    let message = format!(
        "a status has room for 16 Gateways, those of other controllers counted, and proxies of others may not send to what the \
         policy targets: {}; have fewer Gateways lead there",
        crate::words::listed_with(", ", &names)
    );
    (!names.is_empty()).then(|| Problem::new(Severity::Refused, Reason::TooManyAncestors, "", message))
}
