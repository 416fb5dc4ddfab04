//! Whether a selected route has anything to serve.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use engine::{Derived, Emitter, Scope};
use ir::{Chain, Reason, delegation::Children, matching::Step};

use super::{MatchClaims, PlacedRoute, branch::grow, policy::freezing, share::Claim};
use crate::{
    internal,
    tables::{
        delegation::{
            Candidate, Contribution, Contributions, CoveringChildren, DelegatedMatches, Delegating, Place, Places,
            Selection, Selections, ServedChain, TruncatedStatus,
        },
        edition::JudgedRoute,
        input::Config,
        route::{RouteHead, RouteRule},
    },
};

impl Derived for Candidate {
    fn compute(scope: &Emitter<'_>, chain: &Chain) -> Option<()> {
        tell(scope, chain, judge(scope, chain)?)
    }

    /// What its matches claim must not fall to others. One of which nobody knows its matches has its parent answer by
    /// itself behind all other children.
    fn poisoned(scope: &Emitter<'_>, chain: &Chain, _: &engine::Fault) -> Option<()> {
        if let Ok(judged) = scope.attempt(|| judge(scope, chain)) {
            return tell(scope, chain, judged?);
        }
        let (parent, rule) = chain.above()?;
        let name = chain.route();
        let delegation = scope.get::<Delegating>(&(parent.clone(), rule))?;
        for (position, children) in &delegation.children {
            let may_mean = match children {
                Children::Named(child) => child == name,
                Children::InNamespace(namespace) => namespace == name.namespace(),
                Children::Labelled(..) => true,
            };
            if may_mean {
                // It stands before the entry of the rule, which takes it for selected.
                scope.emit::<Selections>((parent.clone(), rule, *position), name.clone(), Selection::Unknown);
            }
        }
        let place = Place { fault: Some(internal::fault()), served: Box::default(), left_out: Box::default() };
        scope.emit::<Places>(name.clone(), chain.clone(), Arc::new(place));
        Some(())
    }

    fn depth(chain: &Chain) -> u32 {
        chain.depth()
    }
}

/// What a child has below its parent's matches.
struct Judged {
    place: Place,
    /// By the parent's match.
    contributions: Vec<(u32, Contribution)>,
    /// By the parent's match, the place of the last of its own that asks for no more, of a rule that delegates no further.
    covering: BTreeMap<u32, Arc<[Step]>>,
    /// The matches of its delegating rules that ask for no more than the parent's: the number of that, the rule, the number
    /// in the rule, and the place.
    handed: Vec<(u32, u32, u32, Arc<[Step]>)>,
    /// The matches that it has.
    claim: Claim,
    /// Whether its parent's owner wants it.
    allowed: bool,
}

fn judge(scope: &Scope<'_>, chain: &Chain) -> Option<Judged> {
    let name = chain.route();
    let head = scope.get::<RouteHead>(name)?;
    let placed = PlacedRoute::of(scope, chain, &head)?;
    let (mut served, mut left_out) = (Vec::new(), Vec::new());
    let (mut below, mut covering, mut handed) = (BTreeSet::new(), BTreeMap::<u32, Arc<[Step]>>::new(), Vec::new());
    let mut count = 0;
    // One that alone exceeds the bound is followed no further: it goes without.
    let most = usize::try_from(scope.get::<Config>(&())?.delegation.max_matches).unwrap_or(usize::MAX);
    for (rule_head, index) in head.rules.iter().zip(0..) {
        if count > most {
            break;
        }
        let rule = scope.get::<RouteRule>(&(name.clone(), index))?;
        let outcome = placed.place_at_most(index, &rule.matches, most - count);
        count += outcome.matches.len();
        served.extend(outcome.matches.iter().map(|placed| (index, placed.index)));
        left_out.extend(outcome.left_out.into_iter().map(|(matching, why)| (index, matching, why)));
        for (matching, equal) in outcome.below {
            below.insert(matching);
            let places = equal.iter().filter_map(|at| Some((*at, &outcome.matches.get(*at as usize)?.steps)));
            if rule_head.delegates && placed.fault.is_none() {
                handed.extend(places.map(|(at, steps)| (matching, index, at, steps.clone())));
            } else if let Some(last) = places.map(|(_, steps)| steps).max() {
                let known = covering.entry(matching).or_insert_with(|| last.clone());
                if *last > *known {
                    known.clone_from(last);
                }
            }
        }
    }
    served.dedup();
    let allowed = placed.fault.as_ref().is_none_or(|fault| fault.reason != Reason::NotAllowedByParent);
    if placed.fault.is_some() || count > most {
        // Nobody knows what it would have, were it sound or less.
        below.extend(placed.above.iter().flat_map(|above| (0..).zip(&above.matches)).map(|(at, _)| at));
    }
    let is_sound = placed.fault.is_none();
    let contribution = if is_sound { Contribution::Serves } else { Contribution::Broken };
    let mut contributions: Vec<_> = below.into_iter().map(|matching| (matching, contribution)).collect();
    contributions
        .extend(placed.barred().into_iter().filter(|_| is_sound).map(|matching| (matching, Contribution::Barred)));
    let place = Place { fault: placed.fault, served: served.into(), left_out: left_out.into() };
    let claim = Claim { count: count as u64, created: head.created };
    Some(Judged { place, contributions, covering, handed, claim, allowed })
}

/// Tells it to its parent, its own status and the bounds of the tree.
fn tell(scope: &Emitter<'_>, chain: &Chain, judged: Judged) -> Option<()> {
    let Judged { place, contributions, covering, handed, claim, allowed } = judged;
    let (parent, parent_rule) = chain.above()?;
    let name = chain.route();
    for (matching, contribution) in contributions {
        scope.emit::<Contributions>((parent.clone(), parent_rule, matching), name.clone(), contribution);
    }
    for (matching, last) in covering {
        scope.emit::<CoveringChildren>((parent.clone(), parent_rule, matching), (last, name.clone()), ());
    }
    for (matching, rule, at, steps) in handed {
        scope.emit::<DelegatedMatches>((parent.clone(), parent_rule, matching), (name.clone(), rule, at), steps);
    }
    if allowed && claim.count > 0 {
        scope.emit::<MatchClaims>((chain.top().clone(), chain.depth()), chain.clone(), claim);
    }
    if allowed && !place.served.is_empty() {
        grow(scope, chain, &*scope.get::<RouteHead>(name)?);
        scope.demand::<ServedChain>(chain.clone());
    }
    // One that is not allowed is no part of the tree.
    if allowed && freezing(scope, chain.top()).is_some() {
        scope.demand::<JudgedRoute>(chain.clone());
    }
    scope.emit::<Places>(name.clone(), chain.clone(), Arc::new(place));
    scope.demand::<TruncatedStatus>(name.clone());
    Some(())
}
