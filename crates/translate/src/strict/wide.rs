//! What a Gateway and its listeners say, which goes as a whole, with the trees that changed at the same time.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Instant,
};

use api::Kind as ObjectKind;
use envoy::{judged::Kind, slots::is_guard};
use ir::{ListenerId, NsName, Port, RouteId, listener::Listener, rule::Slot};

use super::{
    asking::{Asking, NOT_JUDGED, UNJUDGED, Verdict, Wait},
    parts::Parts,
    waiters::{Item, Waiters},
};
use crate::{
    Translator,
    inspect::{Sent, sent::of_message},
    policy::wide::{section, whole},
    tables::{
        backend::ClusterId,
        gateway::GatewayRow,
        input::{ClearedListener, ClearedWide, Config, ObjectKey, RefusedListener, RefusedPart, RefusedWide},
        policy::Target,
        strict::{OfferedListener, OfferedWide, Owner, PartId, Wide, WideScope},
    },
};

/// What a Gateway has that is judged by itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Place {
    /// What it and a listener say in slots.
    Slots(ListenerId),
    /// A listener, by its port.
    Port(NsName, Port),
}

impl Place {
    fn gateway(&self) -> &NsName {
        match self {
            Self::Slots(listener) => &listener.gateway,
            Self::Port(gateway, _) => gateway,
        }
    }
}

/// A Gateway of which something changed.
#[derive(Debug)]
struct Waiting {
    since: Instant,
    /// What changed of it, and whether that is closed for want of a word: then nobody waits for it.
    places: BTreeMap<Place, bool>,
    /// Trees that changed at the same time and wait.
    entangled: BTreeSet<RouteId>,
    /// Whether all is judged that holds others up.
    is_judged: bool,
}

impl Waiting {
    fn holds(&self) -> bool {
        self.places.values().any(|is_closed| !is_closed)
    }
}

/// The Gateways that changed since they were cleared.
#[derive(Debug, Default)]
pub(super) struct Gateways {
    waiting: BTreeMap<NsName, Waiting>,
    /// Of which something turned in this settling.
    turned: BTreeSet<NsName>,
    /// What of each Gateway is offered, and which parts that needs.
    needs: BTreeMap<NsName, BTreeMap<Place, Box<[PartId]>>>,
    /// Who needs a part.
    users: HashMap<PartId, BTreeSet<Place>>,
}

/// What becomes of what a Gateway has.
#[derive(Default)]
struct Outcome {
    waits: bool,
    is_hopeless: bool,
    is_wordless: bool,
    /// What others are let in by than before.
    loose: BTreeSet<Target>,
    /// Whether what a listener says, or the listener, is refused.
    refused: BTreeMap<Target, Arc<str>>,
    listener: Option<Arc<str>>,
    sent: Vec<Sent>,
    parts: Vec<PartId>,
}

impl Outcome {
    /// Takes in what becomes of a fragment. Why it is not sent, if so.
    fn take(&mut self, sent: Sent, verdict: Verdict) -> Option<Arc<str>> {
        match verdict {
            Verdict::Fine => return None,
            Verdict::Refused(words, _) => return Some(words),
            Verdict::Waits(is_hopeless) => {
                self.waits = true;
                self.is_hopeless |= is_hopeless;
                self.sent.push(sent);
                return None;
            }
            Verdict::NotJudged => {}
        }
        self.is_wordless = true;
        self.sent.push(sent);
        Some(NOT_JUDGED.into())
    }

    fn need(&mut self, part: &PartId, parts: &Parts) {
        if parts.is_waiting(part) {
            self.waits = true;
            self.parts.push(part.clone());
        }
    }
}

impl Gateways {
    /// Those that hold back something.
    pub(super) fn holding(&self) -> impl Iterator<Item = &NsName> {
        self.waiting.iter().filter(|(_, state)| state.holds()).map(|(gateway, _)| gateway)
    }

    /// Since when each of them waits.
    pub(super) fn since(&self) -> impl Iterator<Item = Instant> {
        self.waiting.values().filter(|state| state.holds()).map(|state| state.since)
    }

    /// Those of them of which all is judged.
    pub(super) fn judged(&self) -> BTreeSet<NsName> {
        let judged = self.waiting.iter().filter(|(_, state)| state.is_judged && state.holds());
        judged.map(|(gateway, _)| gateway.clone()).collect()
    }

    /// The trees for which one waits.
    pub(super) fn entangled(&self, gateway: &NsName) -> impl Iterator<Item = &RouteId> {
        self.waiting.get(gateway).into_iter().flat_map(|state| &state.entangled)
    }

    /// All has settled: what changes from now on does not go together with what changed before.
    pub(super) fn settled(&mut self) {
        self.turned.clear();
    }

    /// Takes note of what is offered. Whether anything was written.
    pub(super) fn note(&mut self, translator: &mut Translator, waiters: &mut Waiters, asking: &Asking<'_>) -> bool {
        let engine = translator.engine_mut();
        let listeners = engine.take_changes::<OfferedWide>().into_iter().map(Place::Slots);
        let ports =
            engine.take_changes::<OfferedListener>().into_iter().map(|(gateway, port)| Place::Port(gateway, port));
        let mut wrote = false;
        for place in listeners.chain(ports).collect::<Vec<_>>() {
            match needs(translator, &place) {
                Some(parts) => {
                    self.need(&place, Some(&parts));
                    self.wait(place, waiters, asking);
                }
                None => {
                    self.need(&place, None);
                    wrote |= forget(translator, &place);
                    let gateway = place.gateway().clone();
                    if let Some(state) = self.waiting.get_mut(&gateway) {
                        state.places.remove(&place);
                        waiters.wake(Item::Gateway(gateway));
                    }
                }
            }
        }
        wrote
    }

    /// Has those trees go with a Gateway that changed in the same settling.
    pub(super) fn entangle<'a>(&mut self, trees: impl Iterator<Item = (&'a RouteId, &'a BTreeSet<NsName>)>) {
        if self.turned.is_empty() {
            return;
        }
        for (route, gateways) in trees {
            for gateway in gateways.intersection(&self.turned) {
                if let Some(state) = self.waiting.get_mut(gateway) {
                    state.entangled.insert(route.clone());
                }
            }
        }
    }

    /// Takes note of what a place needs; none of one that is gone.
    fn need(&mut self, place: &Place, parts: Option<&[PartId]>) {
        let of_gateway = self.needs.entry(place.gateway().clone()).or_default();
        let before = match parts {
            Some(parts) => of_gateway.insert(place.clone(), parts.into()),
            None => of_gateway.remove(place),
        };
        if of_gateway.is_empty() {
            self.needs.remove(place.gateway());
        }
        for part in before.iter().flatten() {
            if let Some(users) = self.users.get_mut(part) {
                users.remove(place);
                if users.is_empty() {
                    self.users.remove(part);
                }
            }
        }
        for part in parts.into_iter().flatten() {
            self.users.entry(part.clone()).or_default().insert(place.clone());
        }
    }

    fn wait(&mut self, place: Place, waiters: &mut Waiters, asking: &Asking<'_>) {
        let gateway = place.gateway().clone();
        let item = Item::Gateway(gateway.clone());
        self.turned.insert(gateway.clone());
        let new =
            || Waiting { since: asking.now, places: BTreeMap::new(), entangled: BTreeSet::new(), is_judged: false };
        let state = self.waiting.entry(gateway).or_insert_with(new);
        if !state.holds() {
            waiters.silence(&item, asking.bounds.moments(state.since));
            state.since = asking.now;
            waiters.alarm(&item, asking.bounds.moments(state.since));
        }
        state.places.insert(place, false);
        waiters.wake(item);
    }

    /// The time since `away`, when nobody could be asked, counts for nobody.
    pub(super) fn resume(&mut self, away: Instant, waiters: &mut Waiters, asking: &Asking<'_>) {
        for (gateway, state) in self.waiting.iter_mut().filter(|(_, state)| state.holds()) {
            let item = Item::Gateway(gateway.clone());
            waiters.silence(&item, asking.bounds.moments(state.since));
            state.since = asking.resumed(state.since, away);
            waiters.alarm(&item, asking.bounds.moments(state.since));
        }
    }

    /// Whoever stands for a part stands and falls with it.
    pub(super) fn look_at_users(&mut self, part: &PartId, waiters: &mut Waiters, asking: &Asking<'_>) {
        for place in self.users.get(part).cloned().unwrap_or_default() {
            self.wait(place, waiters, asking);
        }
    }

    /// Looks at all that a Gateway has once more.
    pub(super) fn look_at(&mut self, gateway: &NsName, waiters: &mut Waiters, asking: &Asking<'_>) {
        let places: Vec<_> = self.needs.get(gateway).into_iter().flat_map(|places| places.keys().cloned()).collect();
        for place in places {
            self.wait(place, waiters, asking);
        }
    }

    /// Looks once more at what is refused.
    pub(super) fn ask_again(&mut self, translator: &Translator, waiters: &mut Waiters, asking: &Asking<'_>) {
        let engine = translator.engine();
        let is_refused = |place: &&Place| match place {
            Place::Slots(listener) => {
                [whole(&listener.gateway), section(listener)].iter().any(|of| engine.get::<RefusedWide>(of).is_some())
            }
            Place::Port(gateway, port) => engine.get::<RefusedListener>(&(gateway.clone(), *port)).is_some(),
        };
        let places: Vec<_> = self.needs.values().flat_map(BTreeMap::keys).filter(is_refused).cloned().collect();
        for place in places {
            self.wait(place, waiters, asking);
        }
    }

    /// Asks about what changed of a Gateway, and closes what may not be served meanwhile. Whether anything was written, and the
    /// trees that may hold it up no longer.
    pub(super) fn judge(
        &mut self,
        gateway: &NsName,
        translator: &mut Translator,
        parts: &Parts,
        waiters: &mut Waiters,
        asking: &mut Asking<'_>,
    ) -> (bool, BTreeSet<RouteId>) {
        let item = Item::Gateway(gateway.clone());
        let Some(state) = self.waiting.get_mut(gateway) else { return (false, BTreeSet::new()) };
        let (mut wrote, mut is_judged) = (false, true);
        let (mut sent, mut needed) = (Vec::new(), Vec::new());
        let mut opened = Vec::new();
        for (place, is_closed) in &state.places {
            let outcome = judge(place, *is_closed, state.since, translator, parts, &item, asking);
            if *is_closed {
                if !outcome.waits && !outcome.is_wordless {
                    opened.push(place.clone());
                }
            } else if outcome.waits {
                is_judged = false;
                if asking.closes(state.since, outcome.is_hopeless) {
                    for target in outcome.loose {
                        wrote |= translator.engine_mut().set::<RefusedWide>(target, Some(UNJUDGED.into()));
                    }
                }
            }
            sent.extend(outcome.sent);
            needed.extend(outcome.parts);
        }
        state.is_judged = is_judged;
        let mut late = BTreeSet::new();
        if is_judged && asking.is_late(state.since) {
            late = std::mem::take(&mut state.entangled);
        }
        waiters.set(&item, sent, needed);
        for place in opened {
            wrote |= self.clear(&place, translator, parts, asking);
        }
        self.finish(gateway, waiters, asking);
        (wrote, late)
    }

    /// Writes what became of all that a Gateway has. Whether anything was written.
    pub(super) fn commit(
        &mut self,
        gateway: &NsName,
        translator: &mut Translator,
        parts: &Parts,
        waiters: &mut Waiters,
        asking: &mut Asking<'_>,
    ) -> bool {
        let Some(state) = self.waiting.get_mut(gateway) else { return false };
        state.entangled.clear();
        let open = state.places.iter().filter(|(_, is_closed)| !**is_closed);
        let open: Vec<_> = open.map(|(place, _)| place.clone()).collect();
        let wrote = open.iter().fold(false, |wrote, place| self.clear(place, translator, parts, asking) | wrote);
        self.finish(gateway, waiters, asking);
        wrote
    }

    fn clear(&mut self, place: &Place, translator: &mut Translator, parts: &Parts, asking: &mut Asking<'_>) -> bool {
        let gateway = place.gateway();
        let Some(state) = self.waiting.get_mut(gateway) else { return false };
        let is_closed = state.places.get(place).copied().unwrap_or_default();
        let item = Item::Gateway(gateway.clone());
        let outcome = judge(place, is_closed, state.since, translator, parts, &item, asking);
        if outcome.is_wordless {
            state.places.insert(place.clone(), true);
        } else {
            state.places.remove(place);
        }
        write(place, outcome, translator)
    }

    fn finish(&mut self, gateway: &NsName, waiters: &mut Waiters, asking: &Asking<'_>) {
        let Some(state) = self.waiting.get(gateway) else { return };
        if !state.holds() {
            let item = Item::Gateway(gateway.clone());
            waiters.silence(&item, asking.bounds.moments(state.since));
            if state.places.is_empty() {
                waiters.forget(&item);
                self.waiting.remove(gateway);
            }
        }
    }
}

/// The parts that a place needs as it is offered; none of one that is not.
fn needs(translator: &Translator, place: &Place) -> Option<Box<[PartId]>> {
    let engine = translator.engine();
    match place {
        Place::Slots(listener) => {
            let wide = engine.get::<OfferedWide>(listener)?;
            Some(wide.scopes.iter().flat_map(|scope| scope.parts.iter().cloned()).collect())
        }
        Place::Port(gateway, port) => {
            let listener = engine.get::<OfferedListener>(&(gateway.clone(), *port))?;
            Some(sinks(&listener).collect())
        }
    }
}

/// The clusters of those who are told of requests by a listener.
fn sinks(listener: &Listener) -> impl Iterator<Item = PartId> {
    let sinks = listener.head.config.http.sinks().filter(|sink| sink.is_there);
    sinks.map(|sink| PartId::Cluster(ClusterId::from(sink)))
}

/// What is said in slots for a scope, as it is judged.
pub(super) fn of_scope(scope: &WideScope, owner: &Owner) -> Sent {
    let names = scope.parts.iter().filter_map(|part| match part {
        PartId::Cluster(cluster) => Some(Arc::from(cluster.name())),
        PartId::Entry(_) | PartId::Chain(..) => None,
    });
    of_message(Kind::RouteConfiguration, &scope.head, owner, names.collect())
}

/// What becomes of a place.
fn judge(
    place: &Place,
    is_closed: bool,
    since: Instant,
    translator: &Translator,
    parts: &Parts,
    item: &Item,
    asking: &mut Asking<'_>,
) -> Outcome {
    let engine = translator.engine();
    let mut outcome = Outcome::default();
    // A listener of a ListenerSet is that of its owner, who says nothing for the Gateway.
    let set = match place {
        Place::Slots(listener) => listener.name.set.clone(),
        Place::Port(..) => None,
    };
    let gateway = || place.gateway().clone().id(ObjectKind::Gateway);
    let object = set.map_or_else(gateway, |set| NsName::clone(&set).id(ObjectKind::ListenerSet));
    let owner = Owner { is_shared: object.namespace != place.gateway().namespace, object };
    let now = asking.now;
    let wait = |is_urgent| if is_closed { Wait::forever(now) } else { Wait::since(since, is_urgent) };
    match place {
        Place::Slots(listener) => {
            let Some(wide) = engine.get::<OfferedWide>(listener) else { return outcome };
            outcome.loose = loose(translator, listener, &wide);
            for scope in &wide.scopes {
                let wait = wait(outcome.loose.contains(&scope.target));
                let head = of_scope(scope, &owner);
                let verdict = asking.about(item, &head, wait);
                let words = outcome.take(head, verdict);
                // Without what it asks and refers to, what it says would not hold: requests would pass.
                let missing = scope.parts.iter().find_map(|part| engine.get::<RefusedPart>(part));
                let missing = missing.map(|words| Arc::from(words.told(listener.namespace())));
                scope.parts.iter().for_each(|part| outcome.need(part, parts));
                if let Some(words) = words.or(missing) {
                    outcome.refused.insert(scope.target.clone(), words);
                }
            }
        }
        Place::Port(gateway, port) => {
            let offered = engine.get::<OfferedListener>(&(gateway.clone(), *port));
            let (Some(listener), Some(config)) = (offered, engine.get::<Config>(&())) else { return outcome };
            let message = envoy::listener::listener(&listener, &config.edge);
            let sent = of_message(Kind::Listener, &message, &owner, Arc::default());
            let missing = sinks(&listener).find_map(|part| engine.get::<RefusedPart>(&part));
            let missing = missing.map(|refused| format!("it needs {}, which is refused", refused.object).into());
            let verdict = if missing.is_none() { asking.about(item, &sent, wait(false)) } else { Verdict::Fine };
            let words = outcome.take(sent, verdict);
            sinks(&listener).for_each(|part| outcome.need(&part, parts));
            outcome.listener = missing.or(words);
        }
    }
    outcome
}

/// The scopes by which others are let in than by what was cleared.
fn loose(translator: &Translator, listener: &ListenerId, wide: &Wide) -> BTreeSet<Target> {
    fn guards(slots: &[Slot]) -> impl Iterator<Item = &Slot> {
        slots.iter().filter(|slot| is_guard(slot.name))
    }
    let scopes = [(whole(&listener.gateway), &*wide.of_gateway), (section(listener), &*wide.of_listener)];
    let is_other = |(target, slots): &(Target, &[Slot])| {
        let cleared = translator.engine().get::<ClearedWide>(target);
        !guards(slots).eq(guards(cleared.as_deref().map_or(&[], |slots| slots)))
    };
    scopes.into_iter().filter(is_other).map(|(target, _)| target).collect()
}

/// Writes what became of a place. Whether that makes a difference.
fn write(place: &Place, outcome: Outcome, translator: &mut Translator) -> bool {
    let engine = translator.engine_mut();
    let mut wrote = false;
    match place {
        Place::Slots(listener) => {
            let Some(wide) = engine.get::<OfferedWide>(listener) else { return false };
            let scopes = [(whole(&listener.gateway), &wide.of_gateway), (section(listener), &wide.of_listener)];
            let broken = [wide.is_gateway_broken, wide.is_gateway_broken || wide.is_listener_broken];
            for ((target, slots), is_broken) in scopes.into_iter().zip(broken) {
                if is_broken {
                    // Once its policies are valid, nothing is served by what they said before or did not say.
                    wrote |= engine.set::<RefusedWide>(target, Some(UNJUDGED.into()));
                    continue;
                }
                let words = outcome.refused.get(&target).cloned();
                let slots = (words.is_none() && !slots.is_empty()).then(|| slots.clone());
                wrote |= engine.set::<ClearedWide>(target.clone(), slots);
                wrote |= engine.set::<RefusedWide>(target, words);
            }
        }
        Place::Port(gateway, port) => {
            let key = (gateway.clone(), *port);
            // What no Envoy has said anything of replaces nothing that was taken.
            if !outcome.is_wordless {
                let offered = engine.get::<OfferedListener>(&key).filter(|_| outcome.listener.is_none());
                let offered = offered.map(|listener| Listener::clone(&listener));
                wrote |= engine.set::<ClearedListener>(key.clone(), offered);
            }
            wrote |= engine.set::<RefusedListener>(key, outcome.listener);
        }
    }
    wrote
}

/// Of a place that is gone nothing is kept. Whether that makes a difference.
fn forget(translator: &mut Translator, place: &Place) -> bool {
    let engine = translator.engine_mut();
    match place {
        Place::Slots(listener) => {
            let is_gone = engine.get::<GatewayRow>(&listener.gateway).is_none();
            let targets = std::iter::once(section(listener)).chain(is_gone.then(|| whole(&listener.gateway)));
            targets.fold(false, |wrote, target| {
                let cleared = engine.set::<ClearedWide>(target.clone(), None);
                engine.set::<RefusedWide>(target, None) | cleared | wrote
            })
        }
        Place::Port(gateway, port) => {
            let key = (gateway.clone(), *port);
            engine.set::<ClearedListener>(key.clone(), None) | engine.set::<RefusedListener>(key, None)
        }
    }
}
