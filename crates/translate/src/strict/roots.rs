//! Trees of routes, each of which goes as a whole.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem::take,
    sync::Arc,
    time::Instant,
};

use envoy::bytes::Hash;
use ir::{Chain, ListenerId, NsName, RouteId};

use super::{
    asking::{Asking, Verdict, Wait},
    candidates::{self, Candidate},
    limits::Now,
    parts::Parts,
    rows::{Found, Refused, look_at},
    told::{Cause, Told},
    waiters::{Item, RowKey, Waiters},
};
use crate::{
    RefusedRows, Translator,
    host::{Answer, Cleared, Placed, parts as parts_of},
    inspect::Sent,
    tables::{
        host::{CandidateOffer, Offer},
        route::RouteHead,
    },
};

/// How many rows of a route may be refused before those are forgotten that it has no more.
const KEPT: usize = 64;

/// The trees that changed since they were cleared.
#[derive(Debug, Default)]
pub(super) struct Roots {
    waiting: BTreeMap<RouteId, Root>,
    /// Those of which all is judged.
    judged: BTreeSet<RouteId>,
    /// What was refused of routes, and how many of these there may be before those are forgotten that are gone.
    refused: BTreeMap<RouteId, Refused>,
    most_refused: usize,
    /// Rules of which rows answer by themselves, after their tree waited for long enough.
    wordless: BTreeSet<RowKey>,
    /// Trees that changed in this settling.
    fresh: BTreeSet<RouteId>,
    told: Told,
    /// What was found out to be refused, which is not written yet.
    found: Vec<Found>,
    /// Rules that were looked at, and wait: they are served no further than they may be.
    limited: BTreeSet<RowKey>,
}

/// Where a route of a tree is served, whichever rules lead there.
type Place = (RouteId, ListenerId);

/// A tree that changed.
#[derive(Debug)]
struct Root {
    since: Instant,
    /// The rules that did, and what becomes of each.
    changed: BTreeMap<RowKey, Turn>,
    /// All that did since the tree began to wait, by where a route is served: one stands for another one.
    alike: BTreeMap<Place, BTreeSet<(Chain, u32)>>,
    /// Those of them that wait, and those of these that nobody is about to judge.
    open: BTreeSet<RowKey>,
    hopeless: BTreeSet<RowKey>,
    /// Where it is or was served.
    gateways: BTreeSet<NsName>,
    /// Whether others are let in by what of it is served than by what waits.
    is_loose: bool,
    /// Routes of it that are told that they wait.
    told: BTreeSet<RouteId>,
}

/// What becomes of a rule that changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Turn {
    /// Nobody has looked at it yet, or it waits.
    #[default]
    Waits,
    /// It may be sent, but for these rows: these have waited for long enough, and nothing that stands in their place may be sent
    /// either.
    Goes(BTreeMap<Hash, Answer>),
}

impl Roots {
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Since when each waits.
    pub(super) fn since(&self) -> impl Iterator<Item = Instant> {
        self.waiting.values().map(|root| root.since)
    }

    pub(super) fn is_waiting(&self, route: &RouteId) -> bool {
        self.waiting.contains_key(route)
    }

    /// Whether a tree waits and is not judged.
    pub(super) fn is_open(&self, route: &RouteId) -> bool {
        self.waiting.contains_key(route) && !self.judged.contains(route)
    }

    /// The trees of which all is judged.
    pub(super) fn judged(&self) -> BTreeSet<RouteId> {
        self.judged.clone()
    }

    /// Where a tree is or was served.
    pub(super) fn gateways(&self, route: &RouteId) -> impl Iterator<Item = &NsName> {
        self.waiting.get(route).into_iter().flat_map(|root| &root.gateways)
    }

    /// The trees that wait and changed in this settling, and where they are or were served.
    pub(super) fn fresh(&self) -> impl Iterator<Item = (&RouteId, &BTreeSet<NsName>)> {
        self.fresh.iter().filter_map(|route| Some((route, &self.waiting.get(route)?.gateways)))
    }

    /// Has what changes from now on be of another settling.
    pub(super) fn settled(&mut self) {
        self.fresh.clear();
    }

    /// Takes note of what is offered. Whether anything was written.
    pub(super) fn note(&mut self, translator: &mut Translator, waiters: &mut Waiters, asking: &Asking<'_>) -> bool {
        let mut wrote = false;
        for key in translator.engine_mut().take_changes::<Offer>() {
            let engine = translator.engine();
            let (offered, cleared) = (engine.get::<Offer>(&key), engine.get::<Cleared>(&key));
            let top = top(&key);
            let route = key.0.route().clone();
            if offered.is_none() && engine.get::<RouteHead>(&route).is_none() {
                wrote |= self.forget(translator, &route, waiters);
            }
            if self.wordless.remove(&key) {
                wrote |= self.told.say(translator, &route, Cause::Rule(key.clone()), false);
            }
            self.fresh.insert(top.clone());
            if offered == cleared {
                wrote |= self.settle(translator, &key, waiters, asking);
                continue;
            }
            let root = self.waiting.entry(top.clone()).or_insert_with(|| {
                waiters.alarm(&Item::Tree(top.clone()), asking.bounds.moments(asking.now));
                Root::new(asking.now)
            });
            root.open.insert(key.clone());
            root.gateways.insert(key.2.gateway.clone());
            root.changed.insert(key.clone(), Turn::Waits);
            root.alike.entry(place(&key)).or_default().insert((key.0.clone(), key.1));
            if !root.told.is_empty() && root.told.insert(route.clone()) {
                wrote |= self.told.say(translator, &route, Cause::Tree(top.clone()), true);
            }
            self.judged.remove(&top);
            waiters.wake(Item::Row(key));
            wrote |= self.forget_old(translator, &route, waiters);
        }
        wrote
    }

    /// Who writes ever new rows that are refused does not fill the controller: what his route still has of them is refused again, by
    /// what is known. Whether anything was written.
    pub(super) fn forget_old(&mut self, translator: &mut Translator, route: &RouteId, waiters: &mut Waiters) -> bool {
        let refused = self.refused.get_mut(route).filter(|refused| refused.rows.len() > refused.most.max(KEPT));
        let Some(refused) = refused else { return false };
        let not_judged = take(&mut refused.not_judged);
        (refused.rows, refused.most) = (RefusedRows::default(), usize::MAX);
        clear_refused(translator, route, not_judged, waiters)
    }

    /// What is refused of all routes is offered anew, and answers as it does until that is judged. Whether anything was written.
    pub(super) fn forget_refused(&mut self, translator: &mut Translator, waiters: &mut Waiters) -> bool {
        let routes: Vec<_> = self.refused.keys().cloned().collect();
        routes.iter().fold(false, |wrote, route| self.forget(translator, route, waiters) | wrote)
    }

    /// Of a route that is gone nothing is remembered.
    pub(super) fn forget(&mut self, translator: &mut Translator, route: &RouteId, waiters: &mut Waiters) -> bool {
        let Some(refused) = self.refused.remove(route) else { return false };
        clear_refused(translator, route, refused.not_judged, waiters)
    }

    /// A rule is as it was cleared.
    fn settle(
        &mut self,
        translator: &mut Translator,
        key: &RowKey,
        waiters: &mut Waiters,
        asking: &Asking<'_>,
    ) -> bool {
        waiters.forget(&Item::Row(key.clone()));
        let top = top(key);
        let Some(root) = self.waiting.get_mut(&top) else { return false };
        root.changed.remove(key);
        root.open.remove(key);
        root.hopeless.remove(key);
        // Another rule may have stood for what this one was.
        self.limited.insert(key.clone());
        if root.changed.is_empty() {
            return self.end(translator, &top, waiters, asking);
        }
        self.look(&top, asking);
        false
    }

    /// A tree waits no more. Whether anything was written.
    fn end(&mut self, translator: &mut Translator, top: &RouteId, waiters: &mut Waiters, asking: &Asking<'_>) -> bool {
        self.judged.remove(top);
        let Some(root) = self.waiting.remove(top) else { return false };
        waiters.silence(&Item::Tree(top.clone()), asking.bounds.moments(root.since));
        let told = root.told.iter();
        told.fold(false, |wrote, route| self.told.say(translator, route, Cause::Tree(top.clone()), false) | wrote)
    }

    /// Finds out whether all of a tree is judged.
    fn look(&mut self, top: &RouteId, asking: &Asking<'_>) {
        let Some(root) = self.waiting.get(top) else { return };
        let is_wordless = |turn: &Turn| matches!(turn, Turn::Goes(rows) if !rows.is_empty());
        let is_judged = root.open.is_empty() && (asking.is_late(root.since) || !root.changed.values().any(is_wordless));
        if is_judged {
            self.judged.insert(top.clone());
        } else {
            self.judged.remove(top);
        }
    }

    /// Has all be looked at that waits, or answers by itself for want of a word.
    pub(super) fn wake_all(&self, waiters: &mut Waiters) {
        self.waiting.keys().for_each(|top| waiters.wake(Item::Tree(top.clone())));
        self.wordless.iter().for_each(|key| waiters.wake(Item::Row(key.clone())));
    }

    /// The time since `away`, when nobody could be asked, counts for nobody.
    pub(super) fn resume(&mut self, away: Instant, waiters: &mut Waiters, asking: &Asking<'_>) {
        for (top, root) in &mut self.waiting {
            let item = Item::Tree(top.clone());
            waiters.silence(&item, asking.bounds.moments(root.since));
            root.since = asking.resumed(root.since, away);
            waiters.alarm(&item, asking.bounds.moments(root.since));
        }
    }

    /// A moment of a tree has come: all of it is looked at. Whether anything was written.
    pub(super) fn ring(
        &mut self,
        translator: &mut Translator,
        top: &RouteId,
        waiters: &mut Waiters,
        asking: &Asking<'_>,
    ) -> bool {
        let Some(root) = self.waiting.get_mut(top) else { return false };
        for key in root.changed.keys() {
            waiters.wake(Item::Row(key.clone()));
        }
        if !asking.is_noticed(root.since) {
            return false;
        }
        let routes: BTreeSet<_> = root.changed.keys().map(|(chain, ..)| chain.route().clone()).collect();
        root.told.extend(routes.iter().cloned());
        let told = routes.iter();
        told.fold(false, |wrote, route| self.told.say(translator, route, Cause::Tree(top.clone()), true) | wrote)
    }

    /// Asks about a rule that changed, or that answers by itself for want of a word. Whether anything was written.
    pub(super) fn judge(
        &mut self,
        translator: &mut Translator,
        key: &RowKey,
        parts: &Parts,
        waiters: &mut Waiters,
        asking: &mut Asking<'_>,
    ) -> bool {
        let top = top(key);
        let item = Item::Row(key.clone());
        let Some(root) = self.waiting.get_mut(&top).filter(|root| root.changed.contains_key(key)) else {
            if self.wordless.contains(key) {
                return self.judge_again(translator, key, &item, parts, waiters, asking);
            }
            waiters.forget(&item);
            return false;
        };
        let wait = Wait::since(root.since, root.is_loose);
        let mut looked = look_at::<Offer>(&self.refused, translator, parts, key, &item, wait, asking);
        let is_open = looked.is_waiting || !looked.found.is_empty();
        if is_open {
            root.open.insert(key.clone());
        } else {
            root.open.remove(key);
        }
        let was_hopeless = !root.hopeless.is_empty();
        if looked.is_hopeless {
            root.hopeless.insert(key.clone());
        } else {
            root.hopeless.remove(key);
        }
        if !was_hopeless && looked.is_hopeless {
            self.limited.extend(root.changed.keys().cloned());
        }
        self.limited.insert(key.clone());
        let turn = if is_open { Turn::Waits } else { Turn::Goes(take(&mut looked.rows)) };
        root.changed.insert(key.clone(), turn);
        waiters.set(&item, looked.sent, looked.parts);
        self.found.extend(looked.found);
        self.look(&top, asking);
        false
    }

    /// Asks again about a rule of which rows answer by themselves.
    fn judge_again(
        &mut self,
        translator: &mut Translator,
        key: &RowKey,
        item: &Item,
        parts: &Parts,
        waiters: &mut Waiters,
        asking: &mut Asking<'_>,
    ) -> bool {
        let wait = Wait::forever(asking.now);
        let mut looked = look_at::<Offer>(&self.refused, translator, parts, key, item, wait, asking);
        // What waits still answers by itself.
        let refused = looked.found.iter().map(|found| &found.hash);
        let closed: Vec<_> = looked.unknown.iter().chain(refused).map(|hash| (*hash, Answer::Plain)).collect();
        looked.rows.extend(closed);
        if looked.has_no_parts {
            for hash in &looked.all {
                looked.rows.entry(*hash).or_insert(Answer::Closed);
            }
        }
        self.found.append(&mut looked.found);
        waiters.set(item, looked.sent, looked.parts);
        self.write(translator, key, looked.rows, waiters)
    }

    /// Has a rule be served as it is offered, but for these rows. Whether that makes a difference.
    fn write(
        &mut self,
        translator: &mut Translator,
        key: &RowKey,
        rows: BTreeMap<Hash, Answer>,
        waiters: &mut Waiters,
    ) -> bool {
        let is_wordless = !rows.is_empty();
        let offered = translator.engine().get::<Offer>(key);
        let placed = offered.map(|placed| placed.shut_at([], rows));
        let mut wrote = translator.engine_mut().set::<Cleared>(key.clone(), placed);
        let turned = if is_wordless { self.wordless.insert(key.clone()) } else { self.wordless.remove(key) };
        if turned {
            wrote |= self.told.say(translator, key.0.route(), Cause::Rule(key.clone()), is_wordless);
        }
        if !is_wordless {
            waiters.forget(&Item::Row(key.clone()));
        }
        wrote
    }

    /// Writes what was found out to be refused. Whether anything was.
    pub(super) fn write_found(&mut self, translator: &mut Translator, waiters: &mut Waiters) -> bool {
        let mut routes = BTreeSet::new();
        for Found { key, hash, words, is_said, sent } in take(&mut self.found) {
            let route = key.0.route().clone();
            let refused = self.refused.entry(route.clone()).or_default();
            if let Some(sent) = sent {
                waiters.set(&Item::Replaced(route.clone(), hash), vec![sent.clone()], Vec::new());
                refused.not_judged.insert(hash, sent);
                refused.rows.insert_unjudged(hash, words);
            } else {
                refused.rows.insert(hash, words, is_said);
            }
            routes.insert(route);
            // What stands in its place is looked at next, which may be what it is.
            waiters.wake(Item::Row(key.clone()));
            waiters.wake(Item::Candidate(Candidate::Row(key)));
        }
        for route in &routes {
            let Some(refused) = self.refused.get_mut(route) else { continue };
            // What a route has after all was forgotten is what it has now.
            if refused.most == usize::MAX || refused.most == 0 {
                refused.most = 2 * refused.rows.len();
            }
            translator.set_refused(route, refused.rows.clone());
        }
        if self.refused.len() > self.most_refused.max(KEPT) {
            let is_gone = |route: &&RouteId| translator.engine().get::<RouteHead>(route).is_none();
            let gone: Vec<_> = self.refused.keys().filter(is_gone).cloned().collect();
            for route in gone {
                self.forget(translator, &route, waiters);
            }
            self.most_refused = 2 * self.refused.len();
        }
        !routes.is_empty()
    }

    /// Asks about a rule of a tree that shall be kept as it is.
    pub(super) fn judge_candidate(
        &mut self,
        translator: &Translator,
        key: &RowKey,
        item: &Item,
        parts: &Parts,
        asking: &mut Asking<'_>,
    ) -> candidates::Looked {
        let wait = Wait::for_a_word(asking.now);
        let found = look_at::<CandidateOffer>(&self.refused, translator, parts, key, item, wait, asking);
        let mut looked = candidates::Looked { sent: found.sent, ..Default::default() };
        looked.waits = found.is_waiting || !found.found.is_empty();
        self.found.extend(found.found);
        let Some(offer) = translator.engine().get::<CandidateOffer>(key) else { return looked };
        let (top, route) = (key.0.top(), key.0.route());
        // What stands in the place of what is refused is taken, and no fault of the rule where only a listener makes it such.
        looked.refused = offer.problem().map(|problem| {
            let is_own = route.namespace() == top.namespace();
            if is_own { format!("{route} {problem}").into() } else { "a rule of another namespace is refused".into() }
        });
        for part in parts_of(offer.resolved()) {
            looked.need(&part, top.namespace(), item, translator, asking);
        }
        looked
    }

    /// Refuses an Envoy route of a route that was sent though nobody had judged it.
    pub(super) fn refuse(&mut self, key: &RowKey, hash: Hash, words: Arc<str>, is_said: bool) {
        self.found.push(Found { key: key.clone(), hash, words, is_said, sent: None });
    }

    /// Looks again at what was replaced because nobody had said anything. Whether anything was written.
    pub(super) fn judge_replaced(
        &mut self,
        translator: &mut Translator,
        route: &RouteId,
        hash: Hash,
        waiters: &mut Waiters,
        asking: &mut Asking<'_>,
    ) -> bool {
        let item = Item::Replaced(route.clone(), hash);
        let refused = self.refused.get_mut(route);
        let Some((refused, sent)) = refused.and_then(|refused| {
            let sent = refused.not_judged.get(&hash)?.clone();
            Some((refused, sent))
        }) else {
            waiters.forget(&item);
            return false;
        };
        match asking.about(&item, &sent, Wait::forever(asking.now)) {
            Verdict::Waits(_) | Verdict::NotJudged => return false,
            Verdict::Fine => refused.rows.remove(&hash),
            Verdict::Refused(words, is_said) => drop(refused.rows.insert(hash, words, is_said)),
        }
        refused.not_judged.remove(&hash);
        waiters.forget(&item);
        translator.set_refused(route, refused.rows.clone());
        true
    }

    /// Has a tree be served as it is offered. Whether that makes a difference.
    pub(super) fn commit(
        &mut self,
        translator: &mut Translator,
        top: &RouteId,
        waiters: &mut Waiters,
        asking: &Asking<'_>,
    ) -> bool {
        let Some(root) = self.waiting.get_mut(top) else { return false };
        let mut wrote = false;
        for (key, turn) in take(&mut root.changed) {
            let rows = match turn {
                Turn::Goes(rows) => rows,
                Turn::Waits => BTreeMap::new(),
            };
            self.limited.remove(&key);
            wrote |= self.write(translator, &key, rows, waiters);
        }
        self.end(translator, top, waiters, asking) | wrote
    }

    /// Has the rules of a tree that wait answer 500. Whether that makes a difference.
    pub(super) fn withdraw(&self, translator: &mut Translator, route: &RouteId) -> bool {
        let Some(root) = self.waiting.get(route) else { return false };
        root.changed.keys().fold(false, |wrote, key| shut(translator, key) | wrote)
    }

    /// Has what was cleared of rules that wait be served no further than it may be now. Whether anything was written.
    pub(super) fn limit(&mut self, translator: &mut Translator, waiters: &mut Waiters, asking: &Asking<'_>) -> bool {
        let mut wrote = false;
        let mut places: BTreeSet<(RouteId, Place)> = BTreeSet::new();
        for key in take(&mut self.limited) {
            places.insert((top(&key), place(&key)));
        }
        for (top, place) in places {
            let Some(root) = self.waiting.get_mut(&top) else { continue };
            let Some(alike) = root.alike.get(&place) else { continue };
            let listener = &place.1;
            let chains: BTreeSet<_> = alike.iter().map(|(chain, _)| chain).collect();
            let now = Now::of(translator.engine(), chains, listener);
            for (chain, rule) in alike.clone() {
                let key = (chain, rule, listener.clone());
                let cleared = translator.engine().get::<Cleared>(&key).filter(|_| root.changed.contains_key(&key));
                if let Some(cleared) = cleared {
                    wrote |= root.limit(translator, &key, &cleared, &now, waiters, asking);
                }
            }
        }
        wrote
    }
}

/// The tree of a rule: that of its edition and that of the objects are one, of which the one stands for the other.
fn top((chain, ..): &RowKey) -> RouteId {
    chain.top().live()
}

/// Where the route of a rule is served, whether as it is or as it is kept.
fn place((chain, _, listener): &RowKey) -> Place {
    (chain.route().live(), listener.clone())
}

impl Root {
    /// Has a rule of it be served no further than it may be. Whether anything was written.
    fn limit(
        &mut self,
        translator: &mut Translator,
        key: &RowKey,
        cleared: &Placed,
        now: &Now,
        waiters: &mut Waiters,
        asking: &Asking<'_>,
    ) -> bool {
        let closes = asking.closes(self.since, !self.hopeless.is_empty());
        // What is sent unjudged for want of anybody who judges is sent at once.
        let waives = asking.waives() && !self.is_loose;
        let limits = now.limits(cleared, &key.2, closes && !waives);
        let mut wrote = false;
        if limits.is_loose && !self.is_loose {
            self.is_loose = true;
            if waives {
                self.changed.keys().for_each(|key| waiters.wake(Item::Row(key.clone())));
                wrote = true;
            }
        }
        if let Some(limited) = limits.limited {
            wrote |= translator.engine_mut().set::<Cleared>(key.clone(), Some(limited));
        }
        wrote
    }

    fn new(since: Instant) -> Self {
        Self {
            since,
            changed: BTreeMap::new(),
            alike: BTreeMap::new(),
            open: BTreeSet::new(),
            hopeless: BTreeSet::new(),
            gateways: BTreeSet::new(),
            is_loose: false,
            told: BTreeSet::new(),
        }
    }
}

/// Nothing that was refused of a route stands for a row any more, nor is it judged what could stand for one.
fn clear_refused(
    translator: &mut Translator,
    route: &RouteId,
    not_judged: BTreeMap<Hash, Sent>,
    waiters: &mut Waiters,
) -> bool {
    for hash in not_judged.into_keys() {
        waiters.forget(&Item::Replaced(route.clone(), hash));
    }
    translator.set_refused(route, RefusedRows::default());
    true
}

/// Has all that was cleared of a rule answer by itself. Whether that was written.
fn shut(translator: &mut Translator, key: &RowKey) -> bool {
    let cleared = translator.engine().get::<Cleared>(key);
    cleared.is_some_and(|cleared| translator.engine_mut().set::<Cleared>(key.clone(), Some(cleared.shut())))
}
