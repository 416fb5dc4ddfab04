//! Policies on a Gateway, on a ListenerSet, or on one of their listeners (EP-11937).
//!
//! What holds at a listener of a ListenerSet is said by three levels: the listener, its ListenerSet, and the Gateway. The place is the
//! listener, with all of them merged; a ListenerSet has none of its own.
//!
//! What such a policy says in slots of the filter chain stands where Envoy looks behind the row of a route: the Gateway's on
//! each of its route configurations, an HTTPS listener's on its own one, and an HTTP listener's, which shares its route
//! configuration with others, on its virtual hosts. What Envoy would merge of both stands on virtual hosts alone. Rows know
//! nothing of it, so that it wakes none. What is part of a route's action has no wider place in Envoy, so rows of routes are
//! written with it.
//!
//! By its annotation a Gateway may prefer what it says, or have it merged deeply, against the order in which Envoy looks. Then
//! rows leave a unit out that the Gateway prefers, and write one that is merged: [`SlotWords`] tells them which. It is absent
//! by default, and of a unit that is left out it does not say what holds, so that no row is woken by that.
//!
//! A broken policy has all of its scope replaced, unless the Gateway keeps the last good version of its policies
//! ([`crate::edition::wide`]).

use std::sync::Arc;

use api::{Kind, ObjectId};
use engine::{Derived, Emitter, Engine, Lookup, Scope};
use envoy::{bytes, resource::Encoded, slots::is_merged};
use ir::{ListenerId, ListenerName, NsName, ParentId, Reason, delegation::Priority, key::Unordered, rule::Slot};
use units::{AnyUnit, Deep};

use super::{
    level::Level,
    merge::{Broken, Merged, all_merged, distinct, heard},
};
use crate::{
    internal,
    kept::{is_closed, merging, served},
    route::annotations,
    tables::{
        edition::Source,
        gateway::{Fault, GatewayRow, ListenerModel},
        input::{ClearedWide, Gateways, ObjectKey, RefusedWide, Strict},
        policy::{
            Lost, Overrides, PoliciesOf, Policy, PolicyAt, PolicyPlace, PolicyRow, Standing, Standings, Target, Word,
        },
        set::{ParentOf, SetRow},
    },
    target::{is_global, source_of},
};

tables! {
    /// Why everything of a Gateway answers by itself; absent where its own policies are sound.
    BrokenGateway: NsName => Fault;
    /// Why everything of a listener answers by itself, apart from its Gateway.
    BrokenListener: ListenerId => Fault;
    /// How what a Gateway says is merged with what its listeners and routes say; absent for the default.
    WidePriority: NsName => Priority;
    /// The policies of a Gateway, or of a listener alone; absent where there are none.
    WideLevel: Target => Arc<Level>;
    /// What routes say nothing of comes to at a Gateway, or at a listener with its Gateway above; absent where nothing is said.
    WideUnits: Target => Box<[Arc<Merged>]>;
    /// What of a Gateway, or of a listener and its Gateway, is part of a route's action, the nearer first; absent where that is
    /// nothing.
    WideActions: Target => Box<[Arc<Level>]>;
    /// What rows have to know of a field that they have in slots, at a Gateway or at a listener; absent where they hold as they
    /// are.
    SlotWords: (Target, &'static str) => SlotWord;
    /// Where that is found for a listener's routes: with its Gateway where it has the same. Absent where rows hold.
    SlotWordAt: (ListenerId, &'static str) => Target;
    /// Where the actions of a listener's routes are found in [`WideActions`]: with its Gateway where it has no others, so
    /// that routes are written once for all of these listeners. Absent where there are none.
    ActionsAt: ListenerId => Target;
    /// The slots of a Gateway, or of a listener with those of its Gateway, sorted; absent where there are none.
    WideSlots: Target => Box<[Slot]>;
    /// Those of a listener that are not on the route configuration which it shares with others: what its Gateway has
    /// otherwise or not at all, and what stands on virtual hosts alone ([`envoy::slots::is_merged`]). Absent where there are
    /// none.
    ListenerSlots: ListenerId => Box<[Slot]>;
    /// The policies that supply a field in slots of a listener's routes which say nothing of it; absent where none does.
    SlotHolders: (ListenerId, &'static str) => Box<[ObjectId]>;
    /// The fields by which policies have every request authenticated that comes to a listener and is for a route which says
    /// nothing of them; absent where there are none. Only rows of which authentication is demanded read it.
    WideAuth: ListenerId => Box<[&'static str]>;
    /// Has the policies on a Gateway or a ListenerSet, and on its listeners, know that it is there, and where they hold.
    WidePolicies: ParentId => ();
}

/// What becomes of a field that a row has in slots, by the word of the Gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SlotWord {
    /// The Gateway prefers what is said there: the row leaves it out.
    Preferred(Word),
    /// The row writes it merged with what is said there, the nearer level first.
    Merged(Box<[Arc<Level>]>),
}

/// A Gateway as a target of policies.
pub(crate) fn whole(gateway: &NsName) -> Target {
    Target {
        object: ObjectId::new(Kind::Gateway, gateway.namespace.clone(), gateway.name.clone()),
        section: None,
        edition: None,
    }
}

/// All of an object with listeners as a target of policies.
fn whole_of(parent: &ParentId) -> Target {
    let kind = match parent {
        ParentId::Gateway(_) => Kind::Gateway,
        ParentId::ListenerSet(_) => Kind::ListenerSet,
    };
    Target { object: parent.name().clone().id(kind), section: None, edition: None }
}

/// A listener as a target of policies.
pub(crate) fn section(listener: &ListenerId) -> Target {
    Target { section: Some(listener.name.section.clone()), ..whole_of(&listener.parent()) }
}

/// The targets above a Gateway, a ListenerSet or a listener, from the nearest on.
fn above(scope: &Scope<'_>, target: &Target) -> Vec<Target> {
    let mut above = Vec::new();
    if target.section.is_some() {
        above.push(Target { section: None, ..target.clone() });
    }
    if target.object.kind == Kind::ListenerSet {
        above.extend(gateway_of(scope, target).map(|gateway| whole(&gateway)));
    }
    above
}

/// The Gateway that serves what policies target.
fn gateway_of(scope: &Scope<'_>, target: &Target) -> Option<NsName> {
    let key = super::key_of(&target.object);
    if target.object.kind != Kind::ListenerSet {
        return Some(key);
    }
    scope.get::<ParentOf>(&key).map(|gateway| NsName::clone(&gateway))
}

fn broken(scope: &Scope<'_>, target: &Target, reason: Reason) -> Option<Fault> {
    let served = served(scope, target);
    let policies = scope.get::<PoliciesOf>(&served);
    let first = policies.iter().flat_map(|policies| policies.iter()).find_map(|id| {
        let policy = scope.get::<PolicyRow>(&source_of(scope, served.edition.as_ref(), id.clone()))?;
        let fault = policy.faults().next()?.to_string();
        Some((id.clone(), fault))
    });
    let excess = || excess(scope, target).map(|broken| (broken.policy, broken.problem.to_string()));
    let (id, fault) = first.or_else(excess)?;
    let message = if id.namespace == target.object.namespace {
        format!("{id} is not valid, and nothing is served without it, so everything answers 500: {fault}")
    } else {
        format!("a {} of another namespace is not valid, so everything answers 500", id.kind)
    };
    Some(Fault::new(reason, message))
}

/// Whether policies of a Gateway, or of a listener apart from it, are not valid.
pub(crate) fn is_invalid(scope: &Scope<'_>, target: &Target) -> bool {
    broken_apart(scope, target, Reason::GatewayReplaced).is_some()
}

/// Why a Gateway, or a listener with its ListenerSet, is broken.
fn broken_apart(scope: &Scope<'_>, target: &Target, reason: Reason) -> Option<Fault> {
    let of_set = || {
        let is_of_set = target.object.kind == Kind::ListenerSet && target.section.is_some();
        is_of_set.then(|| broken(scope, &Target { section: None, ..target.clone() }, reason)).flatten()
    };
    broken(scope, target, reason).or_else(of_set)
}

/// Why what policies of a Gateway or of a listener say in slots cannot be sent, where an Envoy refuses it.
fn refused(scope: &Scope<'_>, target: &Target, reason: Reason) -> Option<Fault> {
    let words = scope.get::<RefusedWide>(target)?;
    Some(Fault::new(reason, format!("what policies say here is not served, so everything answers 500: {words}")))
}

/// A route configuration with nothing but slots.
pub(crate) fn head_of(slots: &[Slot]) -> Encoded {
    bytes::route_configuration("wide", slots, [], &[])
}

/// What sound policies of a listener and of its Gateway come to together that cannot be served.
fn excess(scope: &Scope<'_>, target: &Target) -> Option<Broken> {
    let levels: Vec<_> = levels(scope, target).collect();
    excess_of(&levels.iter().map(AsRef::as_ref).collect::<Vec<_>>())
}

fn excess_of(levels: &[&Level]) -> Option<Broken> {
    if levels.iter().any(|level| level.is_broken()) {
        return None;
    }
    all_merged(levels.iter().copied().enumerate()).find_map(|merged| merged.unit.as_ref().err().cloned())
}

/// The policies of a Gateway, or of a listener of its own, as they are, whatever is served; and in words why they do other than they
/// say, by themselves or with those of the Gateway. Those that hold everywhere are no part of them.
pub(crate) fn judge(scope: &Scope<'_>, target: &Target) -> (Vec<ObjectId>, Vec<String>) {
    let policies = scope.get::<PoliciesOf>(target);
    let policies: Vec<_> =
        policies.iter().flat_map(|list| list.iter()).filter(|id| !is_global(scope, id)).cloned().collect();
    let rows = policies.iter().filter_map(|id| Some((id, scope.get::<PolicyRow>(&Source::live(id.clone()))?)));
    let mut faults: Vec<_> =
        rows.flat_map(|(id, row)| row.faults().map(|fault| format!("{id} {fault}")).collect::<Vec<_>>()).collect();
    let levels = levels_as_they_are(scope, target);
    let excess = excess_of(&levels.iter().collect::<Vec<_>>());
    faults.extend(excess.map(|Broken { policy, problem, .. }| format!("{policy} {problem}")));
    (policies, faults)
}

/// What policies of a Gateway, or of a listener of its own, say as they are, whatever is served, the nearer first.
fn levels_as_they_are(scope: &Scope<'_>, target: &Target) -> Vec<Level> {
    let gateway = scope.get::<Gateways>(&super::key_of(&target.object));
    let priority = gateway.map(|gateway| annotations::read(&gateway.metadata).priority).unwrap_or_default();
    let targets = std::iter::once(target.clone()).chain(above(scope, target));
    targets.map(|target| Level::wide(scope, &target).merged_by(priority)).collect()
}

/// What they say in slots as they are, sorted.
pub(crate) fn slots_as_they_are(scope: &Scope<'_>, target: &Target) -> Box<[Slot]> {
    let levels = levels_as_they_are(scope, target);
    let units: Vec<_> = heard(levels.iter()).collect();
    slots_of(&units)
}

/// What units come to in slots, sorted.
fn slots_of(units: &[Arc<Merged>]) -> Box<[Slot]> {
    let slots = units.iter().filter_map(|merged| {
        let supplier = merged.outcome.policies().next().map(|policy| format!("{}/{}", policy.namespace, policy.name));
        Some(merged.unit.as_ref().ok()?.wide_slots(&supplier.unwrap_or_default()))
    });
    let mut slots: Vec<_> = slots.flatten().collect();
    slots.sort_unstable_by_key(|slot| slot.name);
    slots.into()
}

impl Lookup for BrokenGateway {
    fn compute(scope: &Scope<'_>, gateway: &NsName) -> Option<Fault> {
        if is_closed(scope, gateway) {
            return Some(internal::fault());
        }
        broken(scope, &whole(gateway), Reason::GatewayReplaced)
            .or_else(|| refused(scope, &whole(gateway), Reason::GatewayReplaced))
    }

    /// Nobody knows what its policies say, so that everything answers by itself.
    fn poisoned(_: &Scope<'_>, _: &NsName, _: &engine::Fault) -> Option<Fault> {
        Some(internal::fault())
    }
}

impl Lookup for BrokenListener {
    fn compute(scope: &Scope<'_>, listener: &ListenerId) -> Option<Fault> {
        broken_apart(scope, &section(listener), Reason::ListenerReplaced)
            .or_else(|| refused(scope, &section(listener), Reason::ListenerReplaced))
    }

    fn poisoned(_: &Scope<'_>, _: &ListenerId, _: &engine::Fault) -> Option<Fault> {
        Some(internal::fault())
    }
}

impl Lookup for WidePriority {
    fn compute(scope: &Scope<'_>, gateway: &NsName) -> Option<Priority> {
        let priority = annotations::read(&merging(scope, gateway)?.metadata).priority;
        (priority != Priority::default()).then_some(priority)
    }
}

impl Lookup for WideLevel {
    fn compute(scope: &Scope<'_>, target: &Target) -> Option<Arc<Level>> {
        let level = Level::wide(scope, &served(scope, target));
        if level.is_empty() {
            return None;
        }
        let priority = gateway_of(scope, target).and_then(|gateway| scope.get::<WidePriority>(&gateway));
        let priority = priority.map(|priority| *priority);
        Some(Arc::new(level.merged_by(priority.unwrap_or_default())))
    }
}

/// The levels that say something at a Gateway, or at a listener, the nearer first.
fn levels(scope: &Scope<'_>, target: &Target) -> impl Iterator<Item = Arc<Level>> {
    let all: Vec<_> = std::iter::once(target.clone()).chain(above(scope, target)).collect();
    all.into_iter().filter_map(|target| scope.get::<WideLevel>(&target)).map(|level| Arc::clone(&*level))
}

impl Lookup for WideUnits {
    fn compute(scope: &Scope<'_>, target: &Target) -> Option<Box<[Arc<Merged>]>> {
        let levels: Vec<_> = levels(scope, target).collect();
        let units: Box<[_]> = heard(levels.iter().map(AsRef::as_ref)).collect();
        (!units.is_empty()).then_some(units)
    }
}

impl Lookup for WideActions {
    fn compute(scope: &Scope<'_>, target: &Target) -> Option<Box<[Arc<Level>]>> {
        let actions = levels(scope, target).map(|level| level.only(|unit| !unit.is_in_slots()));
        let actions: Vec<_> = actions.filter(|level| !level.is_empty()).collect();
        // One level is merged with nobody but the rows that say the same, and they know how.
        let is_alone = actions.len() == 1;
        let alone = |level: Level| if is_alone { level.merged_by(Priority::default()) } else { level };
        let actions: Box<[_]> = actions.into_iter().map(alone).map(Arc::new).collect();
        (!actions.is_empty()).then_some(actions)
    }
}

impl Lookup for SlotWords {
    fn compute(scope: &Scope<'_>, (target, field): &(Target, &'static str)) -> Option<SlotWord> {
        let gateway = gateway_of(scope, target)?;
        let priority = *scope.get::<WidePriority>(&gateway)?;
        let said = levels(scope, target).map(|level| level.only(|unit| unit.is_in_slots() && unit.field() == *field));
        let said: Box<[_]> = said.filter(|level| !level.is_empty()).map(Arc::new).collect();
        let is_whole = !priority.deep || AnyUnit::deep_at(field) == Some(Deep::Whole);
        match (&said[..], is_whole) {
            ([], _) => None,
            (_, false) => Some(SlotWord::Merged(said)),
            (_, true) => {
                priority.prefers_parent.then(|| SlotWord::Preferred(Word { owner: whole(&gateway).object, priority }))
            }
        }
    }
}

impl Lookup for SlotWordAt {
    fn compute(scope: &Scope<'_>, (listener, field): &(ListenerId, &'static str)) -> Option<Target> {
        let own = section(listener);
        let word = scope.get::<SlotWords>(&(own.clone(), *field))?;
        let of_gateway = whole(&listener.gateway);
        let is_same = scope.get::<SlotWords>(&(of_gateway.clone(), *field)).is_some_and(|other| other == word);
        Some(if is_same { of_gateway } else { own })
    }

    /// Who looks there finds no answer, and closes.
    fn poisoned(_: &Scope<'_>, (listener, _): &(ListenerId, &'static str), _: &engine::Fault) -> Option<Target> {
        Some(section(listener))
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
        let slots = slots_of(&scope.get::<WideUnits>(target)?);
        (!slots.is_empty()).then_some(slots)
    }
}

/// The slots of a Gateway or a listener as they are sent: as they were cleared, where Envoy is asked first.
pub(crate) fn served_slots(scope: &Scope<'_>, target: &Target) -> Option<Arc<Box<[Slot]>>> {
    match scope.get::<Strict>(&()) {
        Some(_) => scope.get::<ClearedWide>(target),
        None => scope.get::<WideSlots>(target),
    }
}

/// The same as they stand in the tables.
pub(crate) fn seen_slots(engine: &Engine, target: &Target) -> Option<Arc<Box<[Slot]>>> {
    match engine.get::<Strict>(&()) {
        Some(_) => engine.get::<ClearedWide>(target),
        None => engine.get::<WideSlots>(target),
    }
}

impl Lookup for ListenerSlots {
    fn compute(scope: &Scope<'_>, listener: &ListenerId) -> Option<Box<[Slot]>> {
        let own = served_slots(scope, &section(listener))?;
        let of_gateway = served_slots(scope, &whole(&listener.gateway));
        let others = of_listener(&own, of_gateway.as_deref().map_or(&[], |slots| slots));
        (!others.is_empty()).then_some(others)
    }
}

/// What of the slots of a listener is not on the route configuration that it shares, which has those of the Gateway.
pub(crate) fn of_listener(own: &[Slot], of_gateway: &[Slot]) -> Box<[Slot]> {
    own.iter().filter(|slot| is_merged(slot.name) || !of_gateway.contains(slot)).cloned().collect()
}

impl Lookup for SlotHolders {
    fn compute(scope: &Scope<'_>, (listener, field): &Self::Key) -> Option<Box<[ObjectId]>> {
        let units = scope.get::<WideUnits>(&section(listener))?;
        units.iter().find(|merged| merged.is_slot(field)).map(|merged| merged.outcome.policies().cloned().collect())
    }
}

impl Lookup for WideAuth {
    fn compute(scope: &Scope<'_>, listener: &ListenerId) -> Option<Box<[&'static str]>> {
        let units = scope.get::<WideUnits>(&section(listener))?;
        let sound = units.iter().filter_map(|merged| merged.unit.as_ref().ok());
        let fields: Box<[_]> = sound.filter(|unit| unit.authenticates()).map(|unit| unit.field()).collect();
        (!fields.is_empty()).then_some(fields)
    }

    /// Nobody knows whether anything is.
    fn poisoned(_: &Scope<'_>, _: &ListenerId, _: &engine::Fault) -> Option<Box<[&'static str]>> {
        None
    }
}

/// The policies that are served at a Gateway, a ListenerSet or a listener alone, in the order in which they count, each with where it is
/// read.
#[derive(Default)]
struct SourcesAt(Vec<Source<ObjectId>>);

impl SourcesAt {
    fn read(scope: &Scope<'_>, target: &Target) -> Self {
        let served = served(scope, target);
        let policies = scope.get::<PoliciesOf>(&served);
        let policies = policies.iter().flat_map(|list| list.iter());
        Self(policies.map(|id| source_of(scope, served.edition.as_ref(), id.clone())).collect())
    }
}

/// The listeners of a Gateway or a ListenerSet, and the Gateway that serves them.
fn sections(scope: &Scope<'_>, parent: &ParentId) -> Option<(NsName, Vec<ListenerId>)> {
    let (gateway, set, listeners) = match parent {
        ParentId::Gateway(gateway) => (gateway.clone(), None, scope.get::<GatewayRow>(gateway)?.listeners.clone()),
        ParentId::ListenerSet(set) => {
            let model = scope.get::<SetRow>(set)?;
            (model.gateway.clone(), Some(Arc::new(set.clone())), model.listeners.clone())
        }
    };
    let name = |listener: &Arc<ListenerModel>| ListenerName { set: set.clone(), section: listener.name.clone() };
    let id = |listener| ListenerId::new(gateway.clone(), name(listener));
    let sections = listeners.iter().map(id).collect();
    Some((gateway.clone(), sections))
}

impl Derived for WidePolicies {
    fn compute(scope: &Emitter<'_>, parent: &ParentId) -> Option<()> {
        let (gateway, sections) = sections(scope, parent)?;
        let applies = |policy: &ObjectId| scope.demand::<PolicyAt>((policy.clone(), gateway.clone()));
        let as_they_are = |target: &Target| {
            let list = scope.get::<PoliciesOf>(target);
            list.iter().flat_map(|list| list.iter()).for_each(applies);
        };
        as_they_are(&whole_of(parent));
        let of_parent = SourcesAt::read(scope, &whole_of(parent));
        let of_gateway = match parent {
            ParentId::Gateway(_) => SourcesAt::default(),
            ParentId::ListenerSet(_) => SourcesAt::read(scope, &whole(&gateway)),
        };
        for listener in sections {
            let at = section(&listener);
            as_they_are(&at);
            let own = SourcesAt::read(scope, &at);
            let all = || own.0.iter().chain(&of_parent.0).chain(&of_gateway.0);
            let mut policies: Vec<_> = all().map(|source| source.key.clone()).collect();
            distinct(&mut policies);
            let place = Unordered::hashed(PolicyPlace::Listener(listener));
            let stands = |policy: &ObjectId, standing| {
                scope.emit::<Standings>(policy.clone(), place.clone(), standing);
            };
            // It answers 500 to everything, by those that are broken.
            if levels(scope, &at).any(|level| level.is_broken()) || excess(scope, &at).is_some() {
                let is_broken = |row: Arc<Policy>| row.faults().next().is_some();
                for policy in &policies {
                    let mut sources = all().filter(|source| source.key == *policy);
                    let closes = sources.any(|source| scope.get::<PolicyRow>(source).is_some_and(is_broken));
                    stands(policy, if closes { Standing::Alone } else { Standing::Closed });
                }
                continue;
            }
            let units = scope.get::<WideUnits>(&at);
            let units = || units.iter().flat_map(|units| units.iter());
            for policy in &policies {
                let fields = units().map(|merged| (merged.outcome.policies(), &*merged.outcome.overridden));
                if let Some(standing) = Standing::of(policy, fields) {
                    stands(policy, standing);
                }
            }
            for Lost { policy, to } in units().flat_map(|merged| &*merged.outcome.overridden) {
                if let Some(to) = to {
                    scope.emit::<Overrides>(policy.clone(), (to.clone(), place.clone()), ());
                }
            }
        }
        Some(())
    }
}
