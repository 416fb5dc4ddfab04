//! What a delegating rule is to its children.

use std::sync::Arc;

use engine::{Lookup, Scope};
use ir::{
    Chain,
    delegation::{Children, Level},
};

use super::{PlacedRoute, not_allowed, select::children_of};
use crate::tables::{
    delegation::{Delegating, Delegation},
    input::Config,
    route::{RouteHead, RouteRule},
};

impl Lookup for Delegating {
    fn compute(scope: &Scope<'_>, (chain, index): &(Chain, u32)) -> Option<Delegation> {
        let name = chain.route();
        let route = scope.get::<RouteHead>(name)?;
        let rule = scope.get::<RouteRule>(&(name.clone(), *index))?;
        let handling = rule.handling.as_ref().ok().filter(|handling| !handling.delegates.is_empty())?;
        let placed = PlacedRoute::of(scope, chain, &route).filter(|placed| placed.fault.is_none())?;
        let matches = placed.place(*index, &rule.matches).matches;
        let everywhere = scope.get::<Config>(&())?.delegation.wildcard_namespace.clone();
        let children = handling.delegates.iter().zip(0..).filter_map(|(delegate, position)| {
            let children = children_of(&delegate.reference, name.namespace(), &everywhere)?;
            Some((
                position,
                match children {
                    Children::Named(child) => Children::Named(child.of_edition(name.edition.as_ref())),
                    all => all,
                },
            ))
        });
        let children = children.collect();
        let terms = placed.terms(scope, chain.route(), &route, rule.name.as_ref()).ok()?;
        // What it hands down goes to its children's requests, so it is bound as they are.
        if !not_allowed(&placed, &terms, name, handling).is_empty() {
            return None;
        }
        let above = placed.above.iter().flat_map(|above| above.levels.iter().cloned());
        let level =
            Level { route: name.clone(), priority: placed.annotations.priority, fields: handling.fields.clone() };
        Some(Delegation {
            rule_name: rule.name.clone(),
            children,
            by_prefix: Delegation::sorted_by_prefix(&matches),
            matches: matches.into(),
            levels: above.chain([Arc::new(level)]).collect(),
            terms,
        })
    }

    fn depth((chain, _): &(Chain, u32)) -> u32 {
        chain.depth()
    }
}
