//! How a tree grows from depth to depth.

use api::{Kind, ObjectId};
use engine::{Derived, Emitter, Scope};
use ir::{Chain, RouteId, delegation::Children, route::Head, settings::Consent};

use super::{
    bound::{RouteClaims, TooManyMatches, TooManyRoutes, excess_of, has_too_many_matches, selects_too_many},
    index::{Buckets, ChildHead, Filled, Members, buckets},
    policy::{directives_for, freezing},
    select::consents,
    share::Claim,
};
use crate::offer::is_strict;
use crate::tables::{
    attachment::{Attached, Attachment},
    delegation::{
        Candidate, Delegating, Delegation, Excess, Growth, OverShare, Selection, Selections, ServedChain, Serving,
    },
    edition::{Judged, JudgedRoute, ServedFrom, Source},
    host::{CandidateOffer, Offer, Placement},
    input::Config,
    policy::PolicyAt,
    route::RouteHead,
};

tables! {
    /// The children of a delegating rule.
    ChildSelection: (Chain, u32) => ();
    /// Those of one bucket that a reference of a delegating rule selects.
    BucketSelection: (Chain, u32, u32, u8) => ();
}

impl Derived for Growth {
    fn compute(scope: &Emitter<'_>, chain: &Chain) -> Option<()> {
        expand(scope, chain, |rule| selected(scope, chain, rule))
    }

    /// A rule of which nobody knows whom it selects selects nobody. Where nobody knows whether there is room, none does.
    fn poisoned(scope: &Emitter<'_>, chain: &Chain, _: &engine::Fault) -> Option<()> {
        expand(scope, chain, |rule| scope.attempt(|| selected(scope, chain, rule)).ok().flatten())
    }

    fn depth(chain: &Chain) -> u32 {
        chain.depth()
    }
}

/// Lets those delegating rules of a route select their children for which `selected` tells how many there are.
fn expand(scope: &Emitter<'_>, chain: &Chain, selected: impl Fn(u32) -> Option<u64>) -> Option<()> {
    let depth = chain.depth();
    if depth == 0 {
        scope.demand::<OverShare>(chain.top().clone());
    } else if has_too_many_matches(scope, chain) {
        return None;
    }
    let route = scope.get::<RouteHead>(chain.route())?;
    let mut count = 0;
    for (head, rule) in route.rules.iter().zip(0..) {
        if head.delegates
            && let Some(selected) = selected(rule)
        {
            count += selected;
            scope.demand::<ChildSelection>((chain.clone(), rule));
        }
    }
    if depth > 0 && count > 0 {
        let claim = Claim { count, created: route.created };
        scope.emit::<RouteClaims>((chain.top().clone(), depth), chain.clone(), claim);
        scope.demand::<TooManyRoutes>((chain.top().clone(), depth));
    }
    Some(())
}

/// How many routes a delegating rule selects; none for one that delegates nothing.
fn selected(scope: &Scope<'_>, chain: &Chain, rule: u32) -> Option<u64> {
    let delegation = scope.get::<Delegating>(&(chain.clone(), rule))?;
    Some(delegation.children.iter().map(|(_, children)| selects(scope, chain.route(), children)).sum())
}

/// How many routes a reference selects.
fn selects(scope: &Scope<'_>, route: &RouteId, children: &Children) -> u64 {
    match children {
        Children::Named(_) => 1,
        all => *scope.group::<Buckets>(&Source::beside(route, all.clone())).summary(),
    }
}

/// Asks for what stands below a route, if it delegates.
pub(crate) fn grow(scope: &Emitter<'_>, chain: &Chain, route: &Head) {
    if route.delegates() {
        scope.demand::<Growth>(chain.clone());
        if chain.depth() > 0 {
            scope.demand::<TooManyMatches>((chain.top().clone(), chain.depth()));
        }
    }
}

impl Derived for ServedChain {
    fn compute(scope: &Emitter<'_>, chain: &Chain) -> Option<Serving> {
        let serving = serving(scope, chain)?;
        let attached = scope.get::<Attachment>(chain.top())?;
        let route = scope.get::<RouteHead>(chain.route())?;
        let names = route.rule_names().cloned().map(Some);
        for section in names.chain([None]) {
            if let Some(said) = directives_for(scope, chain.route(), section) {
                let policy = ObjectId::new(Kind::DelegationPolicy, said.0.namespace.clone(), said.0.name.clone());
                for listener in &attached.served {
                    scope.demand::<PolicyAt>((policy.clone(), listener.gateway.clone()));
                }
            }
        }
        place(scope, chain, &route, &attached);
        Some(serving)
    }

    /// What its rules claim must not fall to others.
    fn poisoned(scope: &Emitter<'_>, chain: &Chain, _: &engine::Fault) -> Option<Serving> {
        let serving = serving(scope, chain)?;
        place(scope, chain, &*scope.get::<RouteHead>(chain.route())?, &*scope.get::<Attachment>(chain.top())?);
        Some(serving)
    }
}

/// How a route is served at its place; none where it is not.
fn serving(scope: &Scope<'_>, chain: &Chain) -> Option<Serving> {
    match excess_of(scope, chain) {
        None => Some(Serving::AsWritten),
        Some(Excess::Closed) => Some(Serving::Closed),
        Some(Excess::LeftOut | Excess::Below) => None,
    }
}

/// Has the rules of a route served wherever its root is: of a tree that shall be kept they are judged, and served as they are only
/// while nothing is kept of it.
fn place(scope: &Emitter<'_>, chain: &Chain, route: &Head, attached: &Attached) {
    let is_strict = is_strict(scope);
    let rules = || route.rules.iter().zip(0..).map(|(_, rule)| rule);
    let at_listeners = |rule: u32| attached.served.iter().map(move |listener| (chain.clone(), rule, listener.clone()));
    if let Some(from) = freezing(scope, chain.top()) {
        if chain.depth() == 0 {
            scope.demand::<JudgedRoute>(chain.clone());
        }
        for rule in rules() {
            scope.demand::<Judged>((chain.clone(), rule));
        }
        if is_strict {
            rules().flat_map(at_listeners).for_each(|key| scope.demand::<CandidateOffer>(key));
        }
        if from == ServedFrom::Edition {
            return;
        }
    }
    for key in rules().flat_map(at_listeners) {
        if is_strict {
            scope.demand::<Offer>(key);
        } else {
            scope.demand::<Placement>(key);
        }
    }
}

impl Derived for ChildSelection {
    fn compute(scope: &Emitter<'_>, key: &(Chain, u32)) -> Option<()> {
        let (chain, rule) = key;
        if chain.depth() > 0 && selects_too_many(scope, chain) {
            return None;
        }
        let delegation = scope.get::<Delegating>(key)?;
        for (position, children) in &delegation.children {
            match children {
                Children::Named(child) => {
                    let selection = select(scope, key, &delegation, child);
                    scope.emit::<Selections>((chain.clone(), *rule, *position), child.clone(), selection);
                }
                all => {
                    let all = Source::beside(chain.route(), all.clone());
                    let filled = scope.get::<Filled>(&all).map_or(0, |filled| *filled);
                    for bucket in buckets(filled) {
                        scope.demand::<BucketSelection>((chain.clone(), *rule, *position, bucket));
                    }
                }
            }
        }
        Some(())
    }

    fn depth((chain, _): &(Chain, u32)) -> u32 {
        chain.depth()
    }
}

impl Derived for BucketSelection {
    fn compute(scope: &Emitter<'_>, key: &Self::Key) -> Option<()> {
        fan(scope, key)
    }

    /// A child must not be missed.
    fn poisoned(scope: &Emitter<'_>, key: &Self::Key, _: &engine::Fault) -> Option<()> {
        fan(scope, key)
    }

    fn depth((chain, ..): &Self::Key) -> u32 {
        chain.depth()
    }
}

fn fan(scope: &Emitter<'_>, (chain, rule, position, bucket): &(Chain, u32, u32, u8)) -> Option<()> {
    let key = (chain.clone(), *rule);
    let delegation = scope.get::<Delegating>(&key)?;
    let (_, children) = delegation.children.iter().find(|(at, _)| at == position)?;
    let children = Source::beside(chain.route(), children.clone());
    for (child, ()) in scope.group::<Members>(&(children, *bucket)).iter() {
        // A parent is not meant by a word that means many.
        if child == chain.route() {
            continue;
        }
        let selection = select(scope, &key, &delegation, child);
        // Nor is a route told, or told of, that does not consent.
        if !matches!(selection, Selection::Missing | Selection::NotPermitted | Selection::Withheld) {
            scope.emit::<Selections>((chain.clone(), *rule, *position), child.clone(), selection);
        }
    }
    Some(())
}

/// What becomes of a route that a reference means; one that may stands below from here on.
fn select(scope: &Emitter<'_>, key: &(Chain, u32), delegation: &Delegation, child: &RouteId) -> Selection {
    let (chain, rule) = key;
    let judged = scope.attempt(|| judge(scope, chain, delegation, child));
    let selection = judged.unwrap_or_else(|_| {
        let named = delegation.position(child).is_some();
        // That a route of another namespace exists is nothing that a fault may tell.
        if named && child.namespace() != chain.route().namespace() { Selection::Withheld } else { Selection::Unknown }
    });
    if matches!(selection, Selection::Selected | Selection::Unasked) {
        scope.demand::<Candidate>(chain.below(*rule, child.clone()));
    }
    selection
}

/// What becomes of a route that a reference means.
fn judge(scope: &Scope<'_>, chain: &Chain, delegation: &Delegation, child: &RouteId) -> Selection {
    let parent = chain.route();
    let foreign = child.namespace() != parent.namespace();
    let refused = |why| if foreign { Selection::Withheld } else { why };
    let Some(head) = scope.get::<ChildHead>(child) else { return refused(Selection::Missing) };
    let closes_circle = chain.upwards().any(|above| above.route() == child);
    // Who is named is told of the circle; who is one of many must want to stand below first.
    if closes_circle && delegation.position(child).is_some() {
        return Selection::Cycle;
    }
    let unasked = foreign && head.parents.is_empty();
    if (unasked && !anybody(scope))
        || !consents(&head.parents, child.namespace(), &parent.live(), delegation.rule_name.as_deref())
    {
        return refused(Selection::NotPermitted);
    }
    if closes_circle {
        return Selection::Cycle;
    }
    if unasked { Selection::Unasked } else { Selection::Selected }
}

fn anybody(scope: &Scope<'_>) -> bool {
    scope.get::<Config>(&()).is_some_and(|config| config.delegation.consent == Consent::Any)
}
