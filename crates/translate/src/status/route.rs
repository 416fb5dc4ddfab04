//! The status of HTTPRoutes.

use api::status::{RouteParentStatus, RouteStatus as Status};
use engine::{Derived, Emitter, Table};
use ir::{NsName, Problem, Severity};

use super::{Conditions, Report, listed};
use crate::{
    attach::{Attachment, ParentState, Presence},
    gateway::model::Fault,
    input::{Config, Routes},
    resolve::ResolvedRule,
    route::head::{Head, RouteAccepted, RouteHead},
};

/// Statuses of HTTPRoutes with a parent of ours.
pub(crate) struct RouteStatus;

impl Table for RouteStatus {
    const NAME: &'static str = "RouteStatus";
    type Key = NsName;
    type Value = Report<Status>;
}

/// What the rules of a route say, all together.
#[derive(Default)]
struct Rules {
    faults: Vec<Problem>,
    replaced: bool,
    unresolved: Vec<Problem>,
}

impl Derived for RouteStatus {
    fn compute(scope: &Emitter<'_>, key: &NsName) -> Option<Self::Value> {
        let route = scope.get::<Routes>(key)?;
        let head = scope.get::<RouteHead>(key)?;
        let attachment = scope.get::<Attachment>(key)?;
        let accepted = scope.get::<RouteAccepted>(key)?;
        let controller_name = scope.get::<Config>(&())?.controller_name.clone();
        let mut problems = head.problems.clone();
        for parent in &head.parents {
            if scope.get::<Presence>(&parent.gateway).is_none() {
                let field = format!("spec.parentRefs[{}].name", parent.index);
                let message = format!("Gateway {} does not exist; create it, or correct the name", parent.gateway);
                problems.push(Problem::new(Severity::Ignored, "NoMatchingParent", field, message));
            }
        }
        let mut rules = Rules::default();
        for rule in 0..head.rules {
            let Some(resolved) = scope.get::<ResolvedRule>(&(key.clone(), rule)) else { continue };
            rules.replaced |= resolved.faults.iter().any(|problem| problem.severity == Severity::Replaced);
            rules.faults.extend(resolved.faults.iter().cloned());
            rules.unresolved.extend(resolved.unresolved.iter().cloned());
            problems.extend(resolved.faults.iter().chain(&resolved.unresolved).chain(&resolved.warnings).cloned());
        }
        for parent in &attachment.parents {
            if let Some(fault) = &parent.refused {
                problems.push(Problem::new(Severity::Refused, fault.reason, "", &fault.message));
            }
        }
        if attachment.parents.is_empty() {
            return (!problems.is_empty()).then_some(Report { status: None, problems });
        }
        let parents = attachment.parents.iter().map(|state| RouteParentStatus {
            parent_ref: route.spec.parent_refs.get(state.index).cloned().unwrap_or_default(),
            controller_name: controller_name.clone(),
            conditions: conditions(route.metadata.generation, state, &accepted, &head, &rules),
        });
        Some(Report { status: Some(Status { parents: parents.collect() }), problems })
    }
}

fn conditions(
    generation: i64,
    parent: &ParentState,
    accepted: &Result<(), Fault>,
    head: &Head,
    rules: &Rules,
) -> Vec<api::status::Condition> {
    let mut conditions = Conditions::new(generation);
    let refused = parent.refused.as_ref().or(accepted.as_ref().err());
    match refused {
        Some(fault) => conditions.no("Accepted", fault.reason, &fault.message),
        None => conditions.yes("Accepted", "Accepted", "the route is attached"),
    }
    if rules.unresolved.is_empty() {
        conditions.yes("ResolvedRefs", "ResolvedRefs", "all references resolve");
    } else {
        conditions.no("ResolvedRefs", rules.unresolved[0].reason, listed(&rules.unresolved));
    }
    let lost: Vec<_> =
        head.problems.iter().filter(|problem| problem.severity == Severity::Refused).chain(&rules.faults).collect();
    if refused.is_none() && !lost.is_empty() {
        conditions.yes("PartiallyInvalid", "UnsupportedValue", format!("Dropped Rule: {}", listed(&lost)));
    }
    if !rules.faults.is_empty() && parent.refused.is_none() {
        let reason = if rules.replaced { "RouteRuleReplaced" } else { "RouteRuleDropped" };
        conditions.no("kgateway.dev/Programmed", reason, listed(&rules.faults));
    }
    conditions.list
}
