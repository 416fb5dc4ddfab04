//! What rows of a route configuration say alike in slots that ask somebody, said once ([`envoy::alike`]).
//!
//! Of a slot it is what most rows say, if they are as many as [`ir::settings::Policies::say_once_from`] asks for, counted to a
//! power of two, so that one row more or less turns the choice as rarely as it can where only the objects decide. Rows are
//! computed and kept as they are by themselves; what is said once is taken out of them where they become a virtual host. So
//! a change of the choice computes no row anew, only joins those of its route configuration once more.
//!
//! Each virtual host has to switch it off, whoever owns that. So a route configuration with many hosts for each such row has
//! all said by the rows: what they are counted for in a proxy's memory covers what the hosts take.
//!
//! What a Gateway or a listener says in such a slot stands where this would, and holds: then rows say all by themselves.

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

use engine::{Derived, Emitter, Lookup, Scope};
use envoy::{
    alike,
    bytes::{Alike, Row, alike::Said},
};
use ir::{Chain, ListenerId, RouteConfigId, rule::Slot};

use crate::{
    policy::wide::{ListenerSlots, section, served_slots, whole},
    tables::{
        capacity::HostsAsked,
        input::Config,
        listener::{PortListeners, route_config},
    },
};

/// For how many virtual hosts one row pays. It saves some 5 kB, of which one host takes 0.3, or 0.1 a slot.
const HOSTS_OF_A_ROW: u64 = 16;

/// What some rows of a route configuration say in a slot.
type SaidAt = (RouteConfigId, &'static str, Said);

groups! {
    /// The rules that say it, and in how many rows.
    SaidAlike: SaidAt, (Chain, u32, ListenerId) => u64, sum of |rows| *rows;
    /// What enough rows say in slots; of each slot that first which most say.
    SaidOften: RouteConfigId, (&'static str, Reverse<u32>, Said) => ();
}

tables! {
    /// Tells whether enough rows say it.
    SaidEnough: SaidAt => ();
    /// What a route configuration says for its rows; absent where that is nothing.
    SaidOnce: RouteConfigId => Alike;
}

/// Counts what the rows of a rule say that a listener serves.
pub(crate) fn count(scope: &Emitter<'_>, (chain, rule, listener): (&Chain, u32, &ListenerId), rows: &[Row]) {
    if scope.get::<Config>(&()).is_none_or(|config| config.policies.say_once_from == 0) {
        return;
    }
    let mut counted: BTreeMap<_, u64> = BTreeMap::new();
    for said in rows.iter().flat_map(alike::said) {
        *counted.entry(said).or_default() += 1;
    }
    if counted.is_empty() {
        return;
    }
    // Rows that nobody can count are said as they are by others.
    let Ok(Some(config)) = scope.attempt(|| route_config(scope, listener)) else { return };
    for ((slot, said), rows) in counted {
        let key = (config.clone(), slot, said);
        scope.demand::<SaidEnough>(key.clone());
        scope.emit::<SaidAlike>(key, (chain.clone(), rule, listener.clone()), rows);
    }
}

impl Derived for SaidEnough {
    fn compute(scope: &Emitter<'_>, key: &SaidAt) -> Option<()> {
        let from = scope.get::<Config>(&())?.policies.say_once_from;
        let rows = *scope.group::<SaidAlike>(key).summary();
        if from > 0 && rows >= from.next_power_of_two() {
            let (config, slot, said) = key;
            scope.emit::<SaidOften>(config.clone(), (*slot, Reverse(rows.ilog2()), said.clone()), ());
        }
        Some(())
    }

    /// Rows say it themselves.
    fn poisoned(_: &Emitter<'_>, _: &SaidAt, _: &engine::Fault) -> Option<()> {
        Some(())
    }
}

impl Lookup for SaidOnce {
    fn compute(scope: &Scope<'_>, config: &RouteConfigId) -> Option<Alike> {
        let often = scope.group::<SaidOften>(config);
        if often.is_empty() {
            return None;
        }
        let hosts = *scope.group::<HostsAsked>(config).summary();
        let mut said: Vec<(_, Said)> = Vec::new();
        for ((slot, Reverse(rows), what), ()) in often.iter() {
            let are_enough = (HOSTS_OF_A_ROW << rows) >= hosts.next_power_of_two();
            if are_enough && said.last().is_none_or(|(last, _)| last != slot) {
                said.push((*slot, what.clone()));
            }
        }
        said.retain(|(slot, _)| !is_wide(scope, config, slot));
        (!said.is_empty()).then(|| alike::once(said))
    }

    /// Rows say all by themselves.
    fn poisoned(_: &Scope<'_>, _: &RouteConfigId, _: &engine::Fault) -> Option<Alike> {
        None
    }
}

/// Whether a Gateway or a listener says something in a slot.
fn is_wide(scope: &Scope<'_>, config: &RouteConfigId, name: &str) -> bool {
    let is_named = |slots: &[Slot]| slots.iter().any(|slot| slot.name == name);
    let at = config.listener_id().map_or_else(|| whole(&config.gateway), |listener| section(&listener));
    if served_slots(scope, &at).is_some_and(|slots| is_named(&slots)) {
        return true;
    }
    if config.listener.is_some() {
        return false;
    }
    let listeners = scope.group::<PortListeners>(&(config.gateway.clone(), config.port));
    listeners.iter().any(|((_, name), _)| {
        let listener = ListenerId::new(config.gateway.clone(), name.clone());
        scope.get::<ListenerSlots>(&listener).is_some_and(|slots| is_named(&slots))
    })
}

/// What a route configuration says for its rows.
pub(crate) fn said_for(scope: &Scope<'_>, config: &RouteConfigId) -> Arc<Alike> {
    scope.get::<SaidOnce>(config).unwrap_or_default()
}
