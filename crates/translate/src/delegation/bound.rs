//! How large a tree may grow.
//!
//! A few routes that each delegate to all of their namespace make millions of chains, so a tree is counted while it grows:
//! at each depth before its routes expand, by how many others they select, and after, by how many matches these have.
//! Where that exceeds a bound, the bound is [shared out](super::share), and who exceeds a share expands no further. When
//! all has grown, it is shared out once more, among all that is there, and that decides who is served. Other trees have
//! counts of their own.
//!
//! One row shares out, and tells each route that goes without in a group of its own, so that a change wakes those of whom
//! something else is true from then on, and not all who share the bound. A group carries no poison, so whoever looks into
//! his reads that row as well, whose value never changes.

use std::{
    collections::{BTreeSet, HashSet},
    sync::Arc,
};

use engine::{Derived, Emitter, Group, Lookup, Scope, View};
use ir::{Chain, Reason, RouteId};

use super::share::{Claim, Without, without};
use crate::tables::{
    delegation::{ChildrenOverShare, Excess, OverShare},
    gateway::Fault,
    input::Config,
};

/// How many routes a tree may look at for each match it may have.
const CANDIDATES: u64 = 10;

/// Routes of a tree that go without, at any depth.
type Chains = Arc<BTreeSet<Chain>>;

/// What a tree claims of a bound down to a depth, and who of those that stand there or above goes without.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Used {
    total: u64,
    over: Option<Chains>,
}

tables! {
    /// Matches down to a depth.
    UsedMatches: (RouteId, u32) => Used;
    /// Routes that those down to a depth select.
    UsedRoutes: (RouteId, u32) => Used;
    /// Tells the routes at this depth that have too many matches.
    TooManyMatches: (RouteId, u32) => ();
    /// Tells the routes at this depth that select too many.
    TooManyRoutes: (RouteId, u32) => ();
}

groups! {
    /// The matches of the routes at a depth of a root's tree.
    MatchClaims: (RouteId, u32), Chain => Claim, sum of |claim| claim.count, at depth |(_, depth)| *depth;
    /// How many routes each route at a depth of a root's tree selects. Not counted is what the root selects: these are no more
    /// than there are objects.
    RouteClaims: (RouteId, u32), Chain => Claim, sum of |claim| claim.count, at depth |(_, depth)| *depth;
    /// Holds something for a route that has too many matches for it to grow.
    HasTooManyMatches: Chain, () => (), at depth Chain::depth;
    /// Holds something for a route that selects too many for any of them to be looked at.
    SelectsTooMany: Chain, () => (), at depth Chain::depth;
    /// What becomes of a route that goes without.
    OverShareAt: Chain, () => Excess;
}

impl Lookup for UsedMatches {
    fn compute(scope: &Scope<'_>, key: &(RouteId, u32)) -> Option<Used> {
        let before = above(key).and_then(|above| scope.get::<Self>(&above));
        Some(used::<MatchClaims>(scope, key, bound(scope)?, before.as_deref()))
    }

    fn depth((_, depth): &(RouteId, u32)) -> u32 {
        *depth
    }
}

impl Lookup for UsedRoutes {
    fn compute(scope: &Scope<'_>, key: &(RouteId, u32)) -> Option<Used> {
        let before = above(key).and_then(|above| scope.get::<Self>(&above));
        Some(used::<RouteClaims>(scope, key, CANDIDATES * bound(scope)?, before.as_deref()))
    }

    fn depth((_, depth): &(RouteId, u32)) -> u32 {
        *depth
    }
}

impl Derived for TooManyMatches {
    fn compute(scope: &Emitter<'_>, key: &(RouteId, u32)) -> Option<()> {
        tell::<HasTooManyMatches>(scope, key.1, scope.get::<UsedMatches>(key)?.over.as_ref());
        Some(())
    }

    fn depth((_, depth): &(RouteId, u32)) -> u32 {
        *depth
    }
}

impl Derived for TooManyRoutes {
    fn compute(scope: &Emitter<'_>, key: &(RouteId, u32)) -> Option<()> {
        tell::<SelectsTooMany>(scope, key.1, scope.get::<UsedRoutes>(key)?.over.as_ref());
        Some(())
    }

    fn depth((_, depth): &(RouteId, u32)) -> u32 {
        *depth
    }
}

/// Tells those at a depth that they go without; those above it grew when they were counted.
fn tell<G>(scope: &Emitter<'_>, depth: u32, over: Option<&Chains>)
where
    G: Group<Key = Chain, Sort = (), Entry = ()>,
{
    for chain in over.into_iter().flat_map(|over| &**over).filter(|chain| chain.depth() == depth) {
        scope.emit::<G>(chain.clone(), (), ());
    }
}

/// Whether a route has more matches than its tree has room for, so that it must not grow.
pub(super) fn has_too_many_matches(scope: &Scope<'_>, chain: &Chain) -> bool {
    scope.get::<TooManyMatches>(&(chain.top().clone(), chain.depth()));
    !scope.group::<HasTooManyMatches>(chain).is_empty()
}

/// Whether a route selects more others than its tree may look at.
pub(super) fn selects_too_many(scope: &Scope<'_>, chain: &Chain) -> bool {
    scope.get::<TooManyRoutes>(&(chain.top().clone(), chain.depth()));
    !scope.group::<SelectsTooMany>(chain).is_empty()
}

fn above((root, depth): &(RouteId, u32)) -> Option<(RouteId, u32)> {
    depth.checked_sub(1).filter(|depth| *depth > 0).map(|depth| (root.clone(), depth))
}

/// How many matches a tree may have.
fn bound(scope: &Scope<'_>) -> Option<u64> {
    Some(scope.get::<Config>(&())?.delegation.max_matches.into())
}

/// The entries of a tree down to a depth, one view for each.
fn down_to<G>(scope: &Scope<'_>, root: &RouteId, depth: u32) -> Vec<View<G>>
where
    G: Group<Key = (RouteId, u32), Sort = Chain, Entry = Claim>,
{
    (1..=depth).map(|depth| scope.group::<G>(&(root.clone(), depth))).collect()
}

/// What is claimed down to a depth, `before` being the depth above it. All claims are looked at only where they exceed the
/// bound, and then there are no more of them than a small multiple of it.
fn used<G>(scope: &Scope<'_>, key: &(RouteId, u32), bound: u64, before: Option<&Used>) -> Used
where
    G: Group<Key = (RouteId, u32), Sort = Chain, Entry = Claim, Summary = u64>,
{
    let total = before.map_or(0, |before| before.total) + *scope.group::<G>(key).summary();
    if total <= bound {
        return Used { total, over: None };
    }
    let views = down_to::<G>(scope, &key.0, key.1);
    let claims: Vec<_> = views.iter().flat_map(View::iter).map(|(chain, claim)| (chain, *claim)).collect();
    let refused = before.and_then(|before| before.over.as_ref());
    let outcome = without(bound, &claims, |chain| refused.is_some_and(|refused| refused.contains(chain)));
    let over = claims.iter().zip(outcome).filter(|(_, without)| *without != Without::Nothing);
    Used { total, over: Some(Arc::new(over.map(|((chain, _), _)| (*chain).clone()).collect())) }
}

impl Derived for OverShare {
    /// As many matches again as a tree may have may answer 500, shared out in the same way.
    fn compute(scope: &Emitter<'_>, root: &RouteId) -> Option<()> {
        let deepest =
            (1..=u32::MAX).take_while(|depth| !scope.group::<MatchClaims>(&(root.clone(), *depth)).is_empty()).last();
        let used = deepest.and_then(|deepest| Some((deepest, scope.get::<UsedMatches>(&(root.clone(), deepest))?)));
        let Some((deepest, Some(over))) = used.as_ref().map(|(deepest, used)| (*deepest, used.over.as_ref())) else {
            return Some(());
        };
        let is_below = |chain: &Chain| chain.above().is_some_and(|(parent, _)| over.contains(parent));
        let views = down_to::<MatchClaims>(scope, root, deepest);
        let claims = views.iter().flat_map(View::iter).map(|(chain, claim)| {
            let answers = over.contains(chain) && !is_below(chain);
            (chain, Claim { count: if answers { claim.count } else { 0 }, ..*claim })
        });
        let claims: Vec<_> = claims.collect();
        let outcome = without(bound(scope)?, &claims, |_| false);
        let outcome = claims.iter().zip(outcome).map(|((chain, _), without)| (*chain, without));
        let closed: HashSet<_> =
            outcome.filter(|(_, without)| *without == Without::Nothing).map(|(chain, _)| chain).collect();
        for chain in &**over {
            let excess = match (is_below(chain), closed.contains(chain)) {
                (true, _) => Excess::Below,
                (false, true) => Excess::Closed,
                (false, false) => Excess::LeftOut,
            };
            let (parent, rule) = chain.above()?;
            scope.emit::<ChildrenOverShare>((parent.clone(), rule), chain.route().clone(), excess);
            scope.emit::<OverShareAt>(chain.clone(), (), excess);
        }
        Some(())
    }
}

/// What becomes of a route where it stands, if it goes without.
pub(crate) fn excess_of(scope: &Scope<'_>, chain: &Chain) -> Option<Excess> {
    chain.above()?;
    scope.get::<OverShare>(chain.top());
    scope.group::<OverShareAt>(chain).get(&()).copied()
}

/// Why it does, where a tree may have `bound` matches.
pub(crate) fn excess_fault(bound: u32, excess: Excess) -> Fault {
    match excess {
        Excess::Below => {
            let message = format!(
                "a route above this one asks for more than its share of the {bound} matches that a tree of routes may \
                 have, so nothing below it is served; its owner must ask for less"
            );
            Fault::new(Reason::NotAllowedByParent, message)
        }
        Excess::Closed | Excess::LeftOut => {
            let instead = match excess {
                Excess::LeftOut => {
                    "and they are too many to answer by themselves, so what is left of the parent's match answers 500"
                }
                _ => "so they answer 500",
            };
            let message = format!(
                "its matches, each counted once below each match that it is joined with, are more than is left of their \
                 share of the {bound} that a tree of routes may have, {instead}; ask for fewer, or have the parent hand \
                 down fewer"
            );
            Fault::new(Reason::UnsupportedValue, message)
        }
    }
}

/// Why the delegating rules of a route may not expand, if so.
pub(crate) fn why_too_many(scope: &Scope<'_>, chain: &Chain) -> Option<String> {
    if chain.depth() == 0 || !selects_too_many(scope, chain) {
        return None;
    }
    let bound = bound(scope)?;
    Some({
        format!(
            "the routes that this one selects are more than is left of its share of the {} that a tree of routes may look \
             at, {CANDIDATES} for each of the {bound} matches that it may have; select fewer routes",
            CANDIDATES * bound
        )
    })
}
