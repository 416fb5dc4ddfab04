//! Problems of an HTTPRoute.

use std::{collections::HashSet, sync::Arc};

use engine::Scope;
use ir::{Chain, Problem, Reason, RouteId, Severity};

use super::MAX_PARENTS;
use crate::{
    budget::left_out,
    capacity::Overruns,
    resolve::{Findings, RuleFindings},
    stream::{self, Unserved},
    tables::{attachment::Attached, delegation::TruncatedChildren, route::RouteHead, stream::StreamRule},
    words::MAX_LISTED,
};

/// Problems of a route, all rules together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RouteProblems {
    /// Outside the rules.
    pub(super) head: Box<[Problem]>,
    /// Dropped matches, replaced rules and replaced shares of rules.
    pub(super) faults: Vec<Problem>,
    /// Matches below which no child has anything.
    pub(super) empty: Vec<Problem>,
    /// Whether a rule, or a part of one, is replaced.
    pub(super) replaced: bool,
    pub(super) unresolved: Vec<Problem>,
    pub(super) warnings: Vec<Problem>,
    /// Whether a route of another namespace publishes this one, which names no parent. A warning says so too.
    pub(super) published_unasked: bool,
}

impl RouteProblems {
    /// The problems of a route at `chains`, each once.
    pub(super) fn of<'a>(scope: &Scope<'_>, attached: &Attached, chains: impl IntoIterator<Item = &'a Chain>) -> Self {
        let mut all = Self { head: attached.problems.clone(), ..Self::default() };
        // In many places there may be thousands of them.
        let mut seen = HashSet::new();
        let mut add = |list: &mut Vec<Problem>, problem: &Problem| {
            if seen.insert(problem.clone()) {
                list.push(problem.clone());
            }
        };
        let mut truncated_at = None;
        for chain in chains {
            // One route, in all of its places.
            truncated_at.get_or_insert(chain);
            let overruns = Overruns::read(scope, chain);
            for rule in 0..attached.rules {
                for problem in overruns.problems(rule) {
                    all.replaced |= problem.severity == Severity::Replaced;
                    add(&mut all.faults, &problem);
                }
                let Some(found) = scope.get::<RuleFindings>(&(chain.clone(), rule)) else { continue };
                let left_out = if found.costs_time { left_out(scope, chain, rule) } else { None };
                if let Some(problem) = left_out {
                    add(&mut all.faults, &problem);
                }
                for findings in &found.all {
                    let Findings { replaced, shares, closed, empty, .. } = &**findings;
                    all.replaced |= replaced.is_some() || !(shares.is_empty() && closed.is_empty() && empty.is_empty());
                    let of_rule = findings.dropped.iter().chain(replaced).chain(shares);
                    for problem in of_rule.chain(closed.iter().map(|(_, problem)| problem)) {
                        add(&mut all.faults, problem);
                    }
                    for (_, problem) in empty {
                        add(&mut all.empty, problem);
                    }
                    findings.unresolved.iter().for_each(|problem| add(&mut all.unresolved, problem));
                    findings.warnings.iter().for_each(|problem| add(&mut all.warnings, problem));
                }
            }
        }
        all.warnings.extend(truncated_at.and_then(|chain| truncated_children(scope, chain.route())));
        all
    }

    /// The problems of a route of streams.
    pub(super) fn of_streams(scope: &Scope<'_>, route: &RouteId, attached: &Attached, unserved: &Unserved) -> Self {
        let mut all = Self { head: attached.problems.clone(), ..Self::default() };
        if let Some(rule) = scope.get::<StreamRule>(route) {
            all.faults.extend(rule.fault.iter().cloned());
            all.unresolved.extend(rule.unresolved.iter().cloned());
            if !stream::passes_all_through(route, attached) {
                all.unresolved.extend(rule.blocked.iter().cloned());
            }
        }
        all.faults.extend(Overruns::read(scope, &Chain::root(route.clone())).problems(0));
        all.warnings.extend(unserved.elsewhere());
        all.faults.extend(stream::refused(scope, route, attached));
        all
    }

    /// All of them in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Problem> {
        let Self { head, faults, empty, unresolved, warnings, .. } = self;
        head.iter().chain(faults).chain(empty).chain(unresolved).chain(warnings)
    }

    pub(super) fn shared(self) -> Option<Arc<Self>> {
        (self != Self::default()).then(|| Arc::new(self))
    }
}

/// A warning about children whose statuses have no room for an entry about `parent`.
fn truncated_children(scope: &Scope<'_>, parent: &RouteId) -> Option<Problem> {
    if !scope.get::<RouteHead>(parent)?.delegates() {
        return None;
    }
    let children = scope.group::<TruncatedChildren>(parent);
    if children.is_empty() {
        return None;
    }
    // Of another namespace there are only such that do not name the parent: those come first in their statuses.
    let first = RouteId::first_of(parent.namespace().clone());
    let own = children.behind(|child| *child < first).map(|(child, ())| child);
    let own = own.take_while(|child| child.namespace() == parent.namespace());
    let mut names: Vec<_> = own.take(MAX_LISTED).map(ToString::to_string).collect();
    let others = children.len() - names.len();
    if others > 0 {
        names.push(format!("{others} more"));
    }
    let message = format!(
        "children with more than {MAX_PARENTS} parents do not tell of this one in their statuses: {}; have them name it \
         in parentRefs",
        names.join(", ")
    );
    Some(Problem::new(Severity::Warning, Reason::TooManyParents, "", message))
}
