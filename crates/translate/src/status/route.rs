//! The status of HTTPRoutes.

use std::sync::Arc;

use api::{
    shared::ParentReference,
    status::{Condition, RouteParentStatus, RouteStatus as Status},
};
use engine::{Derived, Emitter};
use ir::{NsName, Problem, Severity};

use super::{Conditions, and_notes, listed};
use crate::{
    resolve::ResolvedRule,
    tables::{
        attachment::Attachment,
        gateway::Fault,
        input::{Config, Routes},
    },
};

tables! {
    /// What is to be said of HTTPRoutes with a parent of ours.
    RouteStatus: NsName => Verdict;
}

/// What a status says. The words are put together when somebody asks for them: there are many routes, and most are fine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    generation: i64,
    controller_name: Arc<str>,
    parents: Box<[Parent]>,
    /// Why no rule is served, whatever the parent.
    refused: Option<Box<Fault>>,
    wrong: Option<Box<Wrong>>,
}

/// A parent as the route names it, and why the route is not attached to it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Parent {
    reference: ParentReference,
    refused: Option<Box<Fault>>,
}

/// What is wrong with a route, all rules together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Wrong {
    /// Outside the rules.
    head: Box<[Problem]>,
    /// Dropped matches, replaced rules and replaced shares of rules.
    faults: Vec<Problem>,
    /// Whether a rule, or a share of one, is replaced.
    replaced: bool,
    unresolved: Vec<Problem>,
    warnings: Vec<Problem>,
}

impl Derived for RouteStatus {
    fn compute(scope: &Emitter<'_>, key: &NsName) -> Option<Verdict> {
        let route = scope.get::<Routes>(key)?;
        let attached = scope.get::<Attachment>(key)?;
        let mut wrong = Wrong { head: attached.problems.clone(), ..Wrong::default() };
        for rule in 0..attached.rules {
            let Some(rule) = scope.get::<ResolvedRule>(&(key.clone(), rule)) else { continue };
            let Some(findings) = &rule.findings else { continue };
            wrong.replaced |= findings.replaced.is_some() || !findings.shares.is_empty();
            wrong.faults.extend(findings.dropped.iter().chain(&findings.replaced).chain(&findings.shares).cloned());
            wrong.unresolved.extend_from_slice(&findings.unresolved);
            wrong.warnings.extend_from_slice(&findings.warnings);
        }
        let wrong = (wrong != Wrong::default()).then(|| Box::new(wrong));
        if attached.parents.is_empty() && wrong.is_none() {
            return None;
        }
        let parents = attached.parents.iter().map(|parent| Parent {
            reference: route.spec.parent_refs.get(parent.index).cloned().unwrap_or_default(),
            refused: parent.refused.clone(),
        });
        Some(Verdict {
            generation: route.metadata.generation,
            controller_name: scope.get::<Config>(&())?.controller_name.clone(),
            parents: parents.collect(),
            refused: attached.refused.clone(),
            wrong,
        })
    }
}

impl Verdict {
    /// As it is written to the object; none for one without a parent of ours.
    pub(crate) fn status(&self) -> Option<Status> {
        if self.parents.is_empty() {
            return None;
        }
        let nothing = Wrong::default();
        let wrong = self.wrong.as_deref().unwrap_or(&nothing);
        let parents = self.parents.iter().map(|parent| RouteParentStatus {
            parent_ref: parent.reference.clone(),
            controller_name: self.controller_name.clone(),
            conditions: self.conditions(parent, wrong),
        });
        Some(Status { parents: parents.collect() })
    }

    fn conditions(&self, parent: &Parent, wrong: &Wrong) -> Vec<Condition> {
        let mut conditions = Conditions::new(self.generation);
        let refused = parent.refused.as_ref().or(self.refused.as_ref());
        match refused {
            Some(fault) => conditions.no("Accepted", fault.reason, fault.to_string()),
            None => {
                let small = |problem: &&Problem| problem.severity >= Severity::Ignored;
                let notes: Vec<_> = wrong.head.iter().filter(small).chain(&wrong.warnings).collect();
                conditions.yes("Accepted", "Accepted", and_notes("the route is attached", &notes));
            }
        }
        match wrong.unresolved.first() {
            Some(first) => conditions.no("ResolvedRefs", first.reason, listed(&wrong.unresolved)),
            None => conditions.yes("ResolvedRefs", "ResolvedRefs", "all references resolve"),
        }
        let lost = wrong.head.iter().filter(|problem| problem.severity == Severity::Refused);
        let lost: Vec<_> = lost.chain(&wrong.faults).collect();
        if refused.is_none() && !lost.is_empty() {
            conditions.yes("PartiallyInvalid", "UnsupportedValue", format!("Dropped Rule: {}", listed(&lost)));
        }
        if !wrong.faults.is_empty() && parent.refused.is_none() {
            let reason = if wrong.replaced { "RouteRuleReplaced" } else { "RouteRuleDropped" };
            conditions.no("kgateway.dev/Programmed", reason, listed(&wrong.faults));
        }
        conditions.list
    }

    /// Everything that is wrong.
    pub(crate) fn problems(&self) -> Vec<Problem> {
        let of_parents = self.parents.iter().filter_map(|parent| parent.refused.as_ref());
        let of_parents =
            of_parents.map(|fault| Problem::new(Severity::Refused, fault.reason, &fault.field, &fault.message));
        let Some(wrong) = &self.wrong else { return of_parents.collect() };
        let Wrong { head, faults, unresolved, warnings, .. } = &**wrong;
        head.iter().chain(faults).chain(unresolved).chain(warnings).cloned().chain(of_parents).collect()
    }
}
