//! How large a tree may grow.
//!
//! A few routes that each delegate to all of their namespace make millions of chains, so a tree is counted while it grows:
//! at each depth before its rules expand, by how many routes they select, and after, by how many matches these have. Of
//! the rules at one depth the small ones are taken first, so that who asks for too much is who goes without, and those
//! that exceed the bound expand no further. Other trees have counts of their own.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use engine::{Group, Lookup, Scope, View};
use ir::{Chain, NsName};

use crate::tables::input::Config;

/// How many routes a tree may look at for each match it may have.
const CANDIDATES: u64 = 10;

/// The matches of the routes at a depth of a root's tree.
pub(crate) struct Rendering;

impl Group for Rendering {
    const NAME: &'static str = "Rendering";
    type Key = (NsName, u32);
    type Sort = Chain;
    type Entry = u32;
    type Summary = u64;

    fn depth((_, depth): &(NsName, u32)) -> u32 {
        *depth
    }

    fn summary(matches: &u32) -> u64 {
        u64::from(*matches)
    }
}

/// How many routes each rule at a depth of a root's tree selects.
pub(crate) struct Planned;

impl Group for Planned {
    const NAME: &'static str = "Planned";
    type Key = (NsName, u32);
    type Sort = (Chain, u32);
    type Entry = u64;
    type Summary = u64;

    fn depth((_, depth): &(NsName, u32)) -> u32 {
        *depth
    }

    fn summary(routes: &u64) -> u64 {
        *routes
    }
}

/// Delegating rules.
type Rules = Arc<BTreeSet<(Chain, u32)>>;

/// What a tree has used of a bound down to a depth, and the rules that would exceed it there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Used {
    total: u64,
    over: Option<Rules>,
}

tables! {
    /// Matches down to a depth; the rules are those that the routes at this depth stand below.
    UsedMatches: (NsName, u32) => Used;
    /// Routes that rules down to a depth select.
    UsedRoutes: (NsName, u32) => Used;
    /// Rules whose children, which stand at this depth, have too many matches; absent where all may stay.
    TooManyMatches: (NsName, u32) => Rules;
    /// Rules at this depth that select too many routes; absent where all may.
    TooManyRoutes: (NsName, u32) => Rules;
}

impl Lookup for UsedMatches {
    fn compute(scope: &Scope<'_>, key: &(NsName, u32)) -> Option<Used> {
        let before = above(key).and_then(|above| scope.get::<Self>(&above)).map_or(0, |used| used.total);
        let bound = scope.get::<Config>(&())?.delegation.max_matches.into();
        let entries = scope.group::<Rendering>(key);
        Some(take(before, bound, &entries, |chain, matches| {
            let (parent, rule) = chain.above()?;
            Some(((parent.clone(), rule), u64::from(*matches)))
        }))
    }

    fn depth((_, depth): &(NsName, u32)) -> u32 {
        *depth
    }
}

impl Lookup for UsedRoutes {
    fn compute(scope: &Scope<'_>, key: &(NsName, u32)) -> Option<Used> {
        let before = above(key).and_then(|above| scope.get::<Self>(&above)).map_or(0, |used| used.total);
        let bound = CANDIDATES.saturating_mul(scope.get::<Config>(&())?.delegation.max_matches.into());
        Some(take(before, bound, &scope.group::<Planned>(key), |rule, routes| Some((rule.clone(), *routes))))
    }

    fn depth((_, depth): &(NsName, u32)) -> u32 {
        *depth
    }
}

impl Lookup for TooManyMatches {
    fn compute(scope: &Scope<'_>, key: &(NsName, u32)) -> Option<Rules> {
        scope.get::<UsedMatches>(key)?.over.clone()
    }

    fn depth((_, depth): &(NsName, u32)) -> u32 {
        *depth
    }
}

impl Lookup for TooManyRoutes {
    fn compute(scope: &Scope<'_>, key: &(NsName, u32)) -> Option<Rules> {
        scope.get::<UsedRoutes>(key)?.over.clone()
    }

    fn depth((_, depth): &(NsName, u32)) -> u32 {
        *depth
    }
}

fn above((root, depth): &(NsName, u32)) -> Option<(NsName, u32)> {
    depth.checked_sub(1).map(|depth| (root.clone(), depth))
}

/// Takes as many rules as fit in what is left of `bound`, the small ones first, then in their order. `of` tells the rule that an entry counts for.
fn take<G: Group<Summary = u64>>(
    before: u64,
    bound: u64,
    entries: &View<G>,
    of: impl Fn(&G::Sort, &G::Entry) -> Option<((Chain, u32), u64)>,
) -> Used {
    let total = before.saturating_add(*entries.summary());
    if total <= bound {
        return Used { total, over: None };
    }
    let mut by_rule: BTreeMap<(Chain, u32), u64> = BTreeMap::new();
    for (rule, count) in entries.iter().filter_map(|(sort, entry)| of(sort, entry)) {
        let sum = by_rule.entry(rule).or_default();
        *sum = sum.saturating_add(count);
    }
    let mut total = before;
    let mut over = BTreeSet::new();
    let mut by_rule: Vec<_> = by_rule.into_iter().collect();
    by_rule.sort_by_key(|(_, count)| *count);
    for (rule, count) in by_rule {
        match total.checked_add(count).filter(|total| *total <= bound) {
            Some(fits) => total = fits,
            None => {
                over.insert(rule);
            }
        }
    }
    Used { total, over: Some(over.into()) }
}

/// Why a rule may not expand, if so; `depth` is that of its route.
pub(crate) fn why_too_many(scope: &Scope<'_>, chain: &Chain, rule: u32) -> Option<String> {
    let (root, at) = (chain.top().clone(), (chain.clone(), rule));
    let bound = scope.get::<Config>(&())?.delegation.max_matches;
    let routes = scope.get::<TooManyRoutes>(&(root.clone(), chain.depth()));
    if routes.is_some_and(|over| over.contains(&at)) {
        return Some(format!(
            "with it the tree of HTTPRoute {root} would look at more than {} routes, {CANDIDATES} for each of the {bound} \
             matches that a tree may have; select fewer routes",
            CANDIDATES.saturating_mul(bound.into())
        ));
    }
    let matches = scope.get::<TooManyMatches>(&(root.clone(), chain.depth() + 1));
    matches.is_some_and(|over| over.contains(&at)).then(|| {
        format!("with it the tree of HTTPRoute {root} would have more than {bound} matches; select fewer routes")
    })
}
