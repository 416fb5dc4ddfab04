//! The status of DelegationPolicies.

use api::{ObjectId, status::PolicyStatus as Status};
use engine::Scope;
use ir::{Chain, Problem, Reason, Severity, matching::Age};

use super::{
    Conditions, StatusReport,
    ancestors::{entries, gateway_ref, target_ref},
};
use crate::{
    delegation::{DelegationPoliciesOf, PolicyDirectives, targeted},
    tables::{
        delegation::{Places, ServedChain},
        edition::Source,
        gateway::Fault,
        input::DelegationPolicies,
        policy::PolicyGateways,
        route::RouteHead,
    },
    target::{key_of, section},
};

/// What is to be said of a policy.
pub(super) fn report(scope: &Scope<'_>, id: &ObjectId) -> Option<StatusReport<Status>> {
    let key = key_of(id);
    let policy = scope.get::<DelegationPolicies>(&key)?;
    let said = scope.get::<PolicyDirectives>(&Source::live(key.clone()))?;
    let created = policy.metadata.creation_timestamp.map_or(0, jiff::Timestamp::as_second);
    let own = Age { created, name: key.clone() };
    let (mut lacking, mut older, mut not_root) = (Vec::new(), None, None);
    for (index, target) in policy.spec.target_refs.iter().enumerate() {
        let Some(route) = targeted(&key, target) else { continue }; // a policy with such a target is refused
        let section = section(target.section_name.as_ref());
        let Some(object) = scope.get::<RouteHead>(&route) else {
            let message = format!("{route} does not exist; create it, or correct the name");
            lacking
                .push((target, Fault::at(Reason::TargetNotFound, format!("spec.targetRefs[{index}].name"), message)));
            continue;
        };
        if let Some(section) = &section
            && object.rule_names().all(|name| name != section)
        {
            let message = format!("{route} has no rule named {section}; name one so, or correct the name");
            let field = format!("spec.targetRefs[{index}].sectionName");
            lacking.push((target, Fault::at(Reason::TargetNotFound, field, message)));
            continue;
        }
        let first = scope.group::<DelegationPoliciesOf>(&(route.clone(), section));
        if let Some((first, ())) = first.first().filter(|(first, ())| **first != own) {
            older.get_or_insert_with(|| {
                let message = format!("DelegationPolicy {} is older and has the same target; remove one", first.name);
                Fault::at(Reason::Conflicted, format!("spec.targetRefs[{index}]"), message)
            });
        }
        let below = scope.get::<ServedChain>(&Chain::root(route.clone())).is_none()
            && !scope.group::<Places>(&route).is_empty();
        if policy.spec.failure_mode.is_some() && below {
            not_root.get_or_insert_with(|| {
                let message = format!("{route} is no root, and only whole trees have a failure mode; remove it");
                Fault::at(Reason::Invalid, "spec.failureMode", message)
            });
        }
    }
    let fault = said.refused.clone().or(older).or(not_root).or_else(|| said.failure_mode.clone());
    let mut conditions = Conditions::new(policy.metadata.generation);
    match &fault {
        Some(fault) => conditions.no("Accepted", fault.reason, fault.to_string()),
        None => conditions.yes("Accepted", Reason::Accepted, "the policy is valid"),
    }
    let gateways = scope.group::<PolicyGateways>(id);
    let mut ancestors: Vec<_> =
        gateways.iter().map(|(gateway, ())| (gateway_ref(gateway), conditions.list.clone())).collect();
    for (target, fault) in &lacking {
        let mut conditions = Conditions::new(policy.metadata.generation);
        conditions.no("Accepted", fault.reason, fault.to_string());
        ancestors.push((target_ref(&key.namespace, target), conditions.done()));
    }
    let severity = if said.refused.is_some() { Severity::Refused } else { Severity::Ignored };
    let problem = |(severity, fault): (Severity, &Fault)| {
        Problem::new(severity, fault.reason, fault.field.clone(), fault.message.clone())
    };
    let all = fault.iter().map(|fault| (severity, fault));
    let all = all.chain(lacking.iter().map(|(_, fault)| (Severity::Ignored, fault)));
    let (status, untold) = entries(scope, ancestors);
    Some(StatusReport { problems: all.map(problem).chain(untold).collect(), status })
}
