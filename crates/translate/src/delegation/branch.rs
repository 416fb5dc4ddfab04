//! How a tree grows from depth to depth.

use api::{Kind, ObjectId};
use engine::{Derived, Emitter, Scope};
use ir::{Chain, NsName, settings::Consent};

use super::{
    bound::{Planned, TooManyMatches, TooManyRoutes},
    index::{Buckets, ChildHead, Filled, Members, buckets},
    policy::said_of,
    select::{Children, consents},
};
use crate::{
    route::rule,
    tables::{
        attachment::Attachment,
        delegation::{Branch, Candidate, Delegating, Delegation, Selection, Selections},
        host::Placement,
        input::{Config, Routes},
        policy::PolicyAt,
    },
};

tables! {
    /// The children of a delegating rule.
    Expansion: (Chain, u32) => ();
    /// Those of one bucket that a reference of a delegating rule selects.
    Fan: (Chain, u32, u32, u8) => ();
}

impl Derived for Branch {
    fn compute(scope: &Emitter<'_>, chain: &Chain) -> Option<()> {
        if let Some((parent, rule)) = chain.above() {
            let too_many = scope.get::<TooManyMatches>(&(chain.top().clone(), chain.depth()));
            if too_many.is_some_and(|rules| rules.contains(&(parent.clone(), rule))) {
                return None;
            }
        }
        let attached = scope.get::<Attachment>(chain.top())?;
        let route = scope.get::<Routes>(chain.route())?;
        let names = route.spec.rules.iter().filter_map(|rule| rule.name.clone()).map(Some);
        for section in names.chain([None]) {
            if let Some(said) = said_of(scope, chain.route(), section) {
                let policy = ObjectId::new(Kind::DelegationPolicy, said.0.namespace.clone(), said.0.name.clone());
                for listener in &attached.served {
                    scope.demand::<PolicyAt>((policy.clone(), listener.gateway.clone()));
                }
            }
        }
        for (written, rule) in route.spec.rules.iter().zip(0..) {
            for listener in &attached.served {
                scope.demand::<Placement>((chain.clone(), rule, listener.clone()));
            }
            if !written.backend_refs.iter().any(rule::delegates) {
                continue;
            }
            if let Some(delegation) = scope.get::<Delegating>(&(chain.clone(), rule)) {
                let selected = delegation.children.iter().map(|(_, children)| match children {
                    Children::Named(_) => 1,
                    all => *scope.group::<Buckets>(all).summary(),
                });
                let top = chain.top().clone();
                scope.emit::<Planned>((top, chain.depth()), (chain.clone(), rule), selected.sum());
                scope.demand::<Expansion>((chain.clone(), rule));
            }
        }
        Some(())
    }

    fn depth(chain: &Chain) -> u32 {
        chain.depth()
    }
}

impl Derived for Expansion {
    fn compute(scope: &Emitter<'_>, key: &(Chain, u32)) -> Option<()> {
        let (chain, rule) = key;
        let too_many = scope.get::<TooManyRoutes>(&(chain.top().clone(), chain.depth()));
        if too_many.is_some_and(|rules| rules.contains(key)) {
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
                    let filled = scope.get::<Filled>(all).map_or(0, |filled| *filled);
                    for bucket in buckets(filled) {
                        scope.demand::<Fan>((chain.clone(), *rule, *position, bucket));
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

impl Derived for Fan {
    fn compute(scope: &Emitter<'_>, (chain, rule, position, bucket): &Self::Key) -> Option<()> {
        let key = (chain.clone(), *rule);
        let delegation = scope.get::<Delegating>(&key)?;
        let (_, children) = delegation.children.iter().find(|(at, _)| at == position)?;
        for (child, ()) in scope.group::<Members>(&(children.clone(), *bucket)).iter() {
            // A parent is not meant by a word that means many.
            if child == chain.route() {
                continue;
            }
            let selection = select(scope, &key, &delegation, child);
            // Nor is a route told, or told of, that does not consent.
            if !matches!(selection, Selection::Missing | Selection::NotPermitted) {
                scope.emit::<Selections>((chain.clone(), *rule, *position), child.clone(), selection);
            }
        }
        Some(())
    }

    fn depth((chain, ..): &Self::Key) -> u32 {
        chain.depth()
    }
}

/// What becomes of a route that a reference means; one that may stands below from here on.
fn select(scope: &Emitter<'_>, (chain, rule): &(Chain, u32), delegation: &Delegation, child: &NsName) -> Selection {
    let Some(head) = scope.get::<ChildHead>(child) else { return Selection::Missing };
    let parent = chain.route();
    let closes_circle = chain.upwards().any(|above| above.route() == child);
    // Who is named is told of the circle; who is one of many must want to stand below first.
    if closes_circle && delegation.position(child).is_some() {
        return Selection::Cycle;
    }
    let foreign = child.namespace != parent.namespace;
    let unasked = foreign && head.parents.is_empty();
    if (unasked && !anybody(scope))
        || !consents(&head.parents, &child.namespace, parent, delegation.rule_name.as_deref())
    {
        return Selection::NotPermitted;
    }
    if closes_circle {
        return Selection::Cycle;
    }
    scope.demand::<Candidate>(chain.below(*rule, child.clone()));
    if unasked { Selection::Unasked } else { Selection::Selected }
}

fn anybody(scope: &Scope<'_>) -> bool {
    scope.get::<Config>(&()).is_some_and(|config| config.delegation.consent == Consent::Any)
}
