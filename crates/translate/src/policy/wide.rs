//! Policies on a Gateway or on one of its listeners (EP-11937).
//!
//! What such a policy says in slots of the filter chain stands where Envoy looks behind the row of a route: the Gateway's on
//! each of its route configurations, an HTTPS listener's on its own one, and an HTTP listener's, which shares its route
//! configuration with others, on its virtual hosts. What Envoy would merge of both stands on virtual hosts alone. Rows know nothing of it, so that it wakes none. What is part of a route's
//! action has no wider place in Envoy, so rows of routes are written with it.
//!
//! A broken policy has all of its scope replaced.

use api::{Kind, ObjectId};
use engine::{Derived, Emitter, Lookup, Scope};
use envoy::slots::is_merged;
use ir::{ListenerId, NsName, Reason, rule::Slot};

use super::rule::Level;
use crate::{
    internal,
    tables::{
        gateway::{Fault, GatewayRow},
        policy::{InForce, Overridden, PoliciesOf, PolicyAt, PolicyRow, Target, Winner},
    },
};

tables! {
    /// Why everything of a Gateway answers by itself; absent where its own policies are sound.
    BrokenGateway: NsName => Fault;
    /// Why everything of a listener answers by itself, apart from its Gateway.
    BrokenListener: ListenerId => Fault;
    /// The policies of a Gateway, or of a listener with those of its Gateway behind; absent where there are none.
    WideLevel: Target => Level;
    /// What of it is part of a route's action; absent where that is nothing.
    WideActions: Target => Level;
    /// Where the actions of a listener's routes are found in [`WideActions`]: with its Gateway where it has no others, so
    /// that routes are written once for all of these listeners. Absent where there are none.
    ActionsAt: ListenerId => Target;
    /// The slots of a Gateway, or of a listener with those of its Gateway, sorted; absent where there are none.
    WideSlots: Target => Box<[Slot]>;
    /// Those of a listener that are not on the route configuration which it shares with others: what its Gateway has
    /// otherwise or not at all, and what stands on virtual hosts alone ([`envoy::slots::is_merged`]). Absent where there are
    /// none.
    ListenerSlots: ListenerId => Box<[Slot]>;
    /// The policy that supplies a field in slots of a listener's routes which say nothing of it; absent where none does.
    SlotHolder: (ListenerId, &'static str) => ObjectId;
    /// Has the policies on a Gateway and on its listeners know that it is there, and where they hold.
    WidePolicies: NsName => ();
}

/// A Gateway as a target of policies.
pub(crate) fn whole(gateway: &NsName) -> Target {
    Target { object: ObjectId::new(Kind::Gateway, gateway.namespace.clone(), gateway.name.clone()), section: None }
}

/// A listener as a target of policies. One of a ListenerSet has a name that no section of a Gateway can have: none
/// targets it yet.
pub(crate) fn section(listener: &ListenerId) -> Target {
    Target { section: Some(listener.name.to_string().into()), ..whole(&listener.gateway) }
}

fn broken(scope: &Scope<'_>, target: &Target, reason: Reason) -> Option<Fault> {
    let policies = scope.get::<PoliciesOf>(target)?;
    policies.iter().find_map(|id| {
        let policy = scope.get::<PolicyRow>(id)?;
        let fault = policy.faults().next()?;
        let message =
            format!("{id} is not valid, and nothing is served without it, so everything answers 500: {fault}");
        Some(Fault::new(reason, message))
    })
}

impl Lookup for BrokenGateway {
    fn compute(scope: &Scope<'_>, gateway: &NsName) -> Option<Fault> {
        broken(scope, &whole(gateway), Reason::GatewayReplaced)
    }

    /// Nobody knows what its policies say, so that everything answers by itself.
    fn poisoned(_: &Scope<'_>, _: &NsName, _: &engine::Fault) -> Option<Fault> {
        Some(internal::fault())
    }
}

impl Lookup for BrokenListener {
    fn compute(scope: &Scope<'_>, listener: &ListenerId) -> Option<Fault> {
        broken(scope, &section(listener), Reason::ListenerReplaced)
    }

    fn poisoned(_: &Scope<'_>, _: &ListenerId, _: &engine::Fault) -> Option<Fault> {
        Some(internal::fault())
    }
}

impl Lookup for WideLevel {
    fn compute(scope: &Scope<'_>, target: &Target) -> Option<Level> {
        let level = Level::wide(scope, target);
        (!level.is_empty()).then_some(level)
    }
}

impl Lookup for WideActions {
    fn compute(scope: &Scope<'_>, target: &Target) -> Option<Level> {
        let actions = scope.get::<WideLevel>(target)?.only(|unit| !unit.is_in_slots());
        (!actions.is_empty()).then_some(actions)
    }
}

impl Lookup for ActionsAt {
    fn compute(scope: &Scope<'_>, listener: &ListenerId) -> Option<Target> {
        let own = section(listener);
        let actions = scope.get::<WideActions>(&own)?;
        let of_gateway = whole(&listener.gateway);
        let is_same = scope.get::<WideActions>(&of_gateway).is_some_and(|others| others == actions);
        Some(if is_same { of_gateway } else { own })
    }

    /// Who looks there finds no answer, and closes.
    fn poisoned(_: &Scope<'_>, listener: &ListenerId, _: &engine::Fault) -> Option<Target> {
        Some(section(listener))
    }
}

impl Lookup for WideSlots {
    fn compute(scope: &Scope<'_>, target: &Target) -> Option<Box<[Slot]>> {
        let level = scope.get::<WideLevel>(target)?;
        let mut slots: Vec<_> = level.heard().flat_map(|(_, unit, _)| unit.wide_slots()).collect();
        slots.sort_unstable_by_key(|slot| slot.name);
        (!slots.is_empty()).then(|| slots.into())
    }
}

impl Lookup for ListenerSlots {
    fn compute(scope: &Scope<'_>, listener: &ListenerId) -> Option<Box<[Slot]>> {
        let own = scope.get::<WideSlots>(&section(listener))?;
        let of_gateway = scope.get::<WideSlots>(&whole(&listener.gateway));
        let is_shared =
            |slot: &&Slot| !is_merged(slot.name) && of_gateway.as_ref().is_some_and(|shared| shared.contains(slot));
        let others: Box<[_]> = own.iter().filter(|slot| !is_shared(slot)).cloned().collect();
        (!others.is_empty()).then_some(others)
    }
}

impl Lookup for SlotHolder {
    fn compute(scope: &Scope<'_>, (listener, field): &Self::Key) -> Option<ObjectId> {
        let level = scope.get::<WideLevel>(&section(listener))?;
        let mut in_slots = level.heard().filter(|(_, unit, _)| unit.is_in_slots());
        in_slots.find(|(_, unit, _)| unit.field() == *field).map(|(policy, ..)| policy.clone())
    }
}

impl Derived for WidePolicies {
    fn compute(scope: &Emitter<'_>, gateway: &NsName) -> Option<()> {
        let model = scope.get::<GatewayRow>(gateway)?;
        let of_gateway = scope.get::<PoliciesOf>(&whole(gateway));
        // What is broken holds too: it closes all of its scope.
        let applies = |policy: &ObjectId| {
            scope.demand::<PolicyAt>((policy.clone(), gateway.clone()));
            if scope.get::<PolicyRow>(policy).is_some_and(|policy| policy.faults().next().is_some()) {
                scope.demand::<InForce>(policy.clone());
            }
        };
        of_gateway.iter().flat_map(|list| list.iter()).for_each(applies);
        for listener in &model.listeners {
            let at = section(&ListenerId::of_gateway(gateway.clone(), listener.name.clone()));
            let Some(level) = scope.get::<WideLevel>(&at) else { continue };
            let own = scope.get::<PoliciesOf>(&at);
            own.iter().flat_map(|list| list.iter()).for_each(applies);
            // It answers 500 to everything.
            if level.is_broken() {
                continue;
            }
            for (policy, unit, others) in level.heard() {
                for policy in std::iter::once(policy).chain(level.adding(policy, unit.field())) {
                    scope.demand::<InForce>(policy.clone());
                }
                for other in others.filter(|other| *other != policy) {
                    for other in std::iter::once(other).chain(level.adding(other, unit.field())) {
                        scope.demand::<Overridden>((other.clone(), Winner::Policy(policy.clone())));
                    }
                }
            }
        }
        Some(())
    }
}
