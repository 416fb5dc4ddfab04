//! The entry of an HTTPRoute for another one that selects it.

use std::collections::{BTreeSet, HashSet};

use engine::Scope;
use ir::{Chain, Problem, Reason, Severity, route::ParentRef};

use super::{Parent, problems::RouteProblems, reference_of};
use crate::{
    delegation::{excess_fault, excess_of, published_unasked},
    resolve::RuleFindings,
    status::listed,
    tables::{
        attachment::Attached,
        delegation::{Place, ServedChain, Serving},
        gateway::Fault,
        input::Config,
        route::RouteHead,
    },
};

/// The entry for a parent that selects the route, wherever that stands.
pub(super) fn child(
    scope: &Scope<'_>,
    attached: &Attached,
    reference: &ParentRef,
    places: &[(&Chain, &Place)],
) -> Parent {
    let reference = reference_of(reference);
    let works = |chain: &Chain| scope.get::<ServedChain>(chain).is_some_and(|serving| *serving == Serving::AsWritten);
    let sound = places.iter().copied().filter(|(chain, place)| place.fault.is_none() && works(chain));
    let sound: Vec<_> = sound.collect();
    let served: HashSet<_> = sound.iter().flat_map(|(_, place)| place.served.iter().copied()).collect();
    // At one of its places there may be room for it, and at another not.
    let no_room = || {
        let bound = scope.get::<Config>(&())?.delegation.max_matches;
        // What is served as it is written goes without nothing.
        let mut others = places.iter().filter(|(chain, _)| !works(chain));
        others.find_map(|(chain, _)| Some(excess_fault(bound, excess_of(scope, chain)?)))
    };
    if served.is_empty() {
        let fault = places.iter().find_map(|(_, place)| place.fault.clone());
        let fault = fault.or_else(no_room);
        let fault = fault.unwrap_or_else(|| nothing_fits(scope, attached, places));
        return Parent { reference, detached: Some(Box::new(fault)), refused: None, superseded: None, problems: None };
    }
    let mut problems = RouteProblems::of(scope, attached, sound.iter().map(|(chain, _)| *chain));
    let unasked = || {
        let route = scope.get::<RouteHead>(sound.first()?.0.route())?;
        sound.iter().find_map(|(chain, _)| published_unasked(chain, &route))
    };
    let unasked = unasked();
    problems.published_unasked = unasked.is_some();
    problems.warnings.extend(unasked);
    let elsewhere = no_room();
    problems.replaced |= elsewhere.is_some();
    problems.faults.extend(elsewhere.map(|Fault { reason, message, .. }| {
        let message = format!("in another place below the same parent {message}");
        Problem::new(Severity::Replaced, reason, "", message)
    }));
    let mut told = HashSet::new();
    for (rule, matching, why) in sound.iter().flat_map(|(_, place)| &*place.left_out) {
        // What one rule of the parent leaves out another may serve.
        if !served.contains(&(*rule, *matching)) && told.insert((*rule, *matching)) {
            let field = format!("spec.rules[{rule}].matches[{matching}]");
            problems.faults.push(Problem::new(Severity::Refused, Reason::NoMatchingParent, field, why.clone()));
        }
    }
    let refused = nothing_works(scope, &sound);
    Parent { reference, detached: None, refused: refused.map(Box::new), superseded: None, problems: problems.shared() }
}

/// Why nothing of a route is served at a parent.
fn nothing_fits(scope: &Scope<'_>, attached: &Attached, places: &[(&Chain, &Place)]) -> Fault {
    let mut left_out: Vec<_> = Vec::new();
    for (rule, matching, why) in places.iter().flat_map(|(_, place)| &*place.left_out) {
        let text = format!("spec.rules[{rule}].matches[{matching}]: {why}");
        if !left_out.contains(&text) {
            left_out.push(text);
        }
    }
    for problem in RouteProblems::of(scope, attached, places.iter().map(|(chain, _)| *chain)).faults {
        left_out.push(problem.to_string());
    }
    Fault::new(Reason::NoMatchingParent, format!("no match lies below one of the parent's: {}", listed(&left_out)))
}

/// Why every rule that is served is replaced; none if one is not.
fn nothing_works(scope: &Scope<'_>, places: &[(&Chain, &Place)]) -> Option<Fault> {
    let mut first = None;
    for (chain, place) in places {
        let rules: BTreeSet<_> = place.served.iter().map(|(rule, _)| *rule).collect();
        for rule in rules {
            let found = scope.get::<RuleFindings>(&((*chain).clone(), rule))?;
            if found.is_nowhere {
                continue;
            }
            let problem = found.fault.as_ref()?;
            first.get_or_insert_with(|| Fault::new(problem.reason, problem.to_string()));
        }
    }
    first
}
