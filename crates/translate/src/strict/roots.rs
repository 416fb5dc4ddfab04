//! Trees of routes, each of which goes as a whole.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use envoy::bytes::Hash;
use ir::{Chain, ListenerId, NsName, RouteId, matching::Origin};

use super::asking::{Asking, NOT_JUDGED, Verdict};
use crate::{
    RefusedRows, Translator,
    host::{Cleared, Placed, parts},
    inspect::{Sent, sent::of_row},
    tables::{backend::ClusterId, host::Offer, input, route::RouteHead, strict::PartId},
};

type RowKey = (Chain, u32, ListenerId);

/// A row of a route that is refused: in which words, whether Envoy said so, and what it is if nobody said anything.
type Refusal = (RouteId, Hash, String, bool, Option<Sent>);

/// How many rows of a route may be refused before those are forgotten that it has no more.
const KEPT: usize = 64;

/// The trees that changed since they were cleared.
#[derive(Debug, Default)]
pub(super) struct Roots {
    waiting: BTreeMap<RouteId, Root>,
    /// What was refused of routes.
    refused: BTreeMap<RouteId, Refused>,
    /// Rules that answer by themselves after their tree waited for long enough.
    wordless: BTreeSet<RowKey>,
    /// Trees that changed in this settling.
    fresh: BTreeSet<RouteId>,
    /// What routes are told that wait.
    told: BTreeMap<RouteId, &'static str>,
}

/// How long a route waits before it is told.
const NOTICED: Duration = Duration::from_secs(5);
/// What it is told.
const WAITS: &str = "it waits for Envoy's word, and is served as it was: its tree changes as a whole";

/// What the route of a rule is told that waited for long enough.
const SHUT: &str =
    "no Envoy said in time whether it takes a rule, which answers 500 where it was served, and is asked again";

/// What becomes of a rule that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// It may be sent.
    Fine,
    /// It waits.
    Waits,
    /// It has waited for long enough, and nothing that stands in its place may be sent either.
    Wordless,
}

/// A tree that changed.
#[derive(Debug)]
struct Root {
    changed: BTreeSet<RowKey>,
    since: Instant,
}

/// What was refused of a route.
#[derive(Debug, Default)]
struct Refused {
    rows: RefusedRows,
    /// How many there may be before those are forgotten that the route has no more.
    most: usize,
    /// Of these nobody has said anything, and they are asked about.
    not_judged: BTreeMap<Hash, Sent>,
}

impl Roots {
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn oldest(&self) -> Option<Instant> {
        self.waiting.values().map(|root| root.since).min()
    }

    pub(super) fn is_waiting(&self, route: &RouteId) -> bool {
        self.waiting.contains_key(route)
    }

    /// The trees that wait and changed something at a Gateway in this settling.
    pub(super) fn waiting_at(&self, gateway: &NsName) -> impl Iterator<Item = RouteId> {
        let is_there = |root: &Root| root.changed.iter().any(|(_, _, listener)| listener.gateway == *gateway);
        let waiting = self.waiting.iter().filter(|(route, _)| self.fresh.contains(*route));
        waiting.filter(move |(_, root)| is_there(root)).map(|(route, _)| route.clone())
    }

    /// Has what changes from now on be of another settling.
    pub(super) fn settled(&mut self) {
        self.fresh.clear();
    }

    /// Takes note of what is offered.
    pub(super) fn note(&mut self, translator: &mut Translator, now: Instant) -> bool {
        let mut wrote = false;
        for key in translator.engine_mut().take_changes::<Offer>() {
            let engine = translator.engine();
            let (offered, cleared) = (engine.get::<Offer>(&key), engine.get::<Cleared>(&key));
            let top = key.0.top().clone();
            let route = key.0.route().clone();
            if offered.is_none() && engine.get::<RouteHead>(&route).is_none() && self.refused.remove(&route).is_some() {
                // Of a route that is gone nothing is remembered.
                translator.set_refused(&route, RefusedRows::default());
                wrote = true;
            }
            self.wordless.remove(&key);
            self.fresh.insert(top.clone());
            if offered == cleared {
                if let Some(root) = self.waiting.get_mut(&top) {
                    root.changed.remove(&key);
                    if root.changed.is_empty() {
                        self.waiting.remove(&top);
                    }
                }
            } else {
                let root = self.waiting.entry(top).or_insert_with(|| Root { changed: BTreeSet::new(), since: now });
                root.changed.insert(key);
            }
            // Who writes ever new rows that are refused does not fill the controller: what his route still has of them is refused
            // again, by what is known.
            if let Some(refused) = self.refused.get_mut(&route)
                && refused.rows.len() > refused.most.max(KEPT)
            {
                refused.rows = RefusedRows::default();
                refused.not_judged.clear();
                refused.most = usize::MAX;
                translator.set_refused(&route, RefusedRows::default());
                wrote = true;
            }
        }
        wrote
    }

    /// Refuses an Envoy route of a route. Whether that was written.
    pub(super) fn refuse(
        &mut self,
        translator: &mut Translator,
        route: &RouteId,
        hash: Hash,
        words: &str,
        is_said: bool,
    ) -> bool {
        let refused = self.refused.entry(route.clone()).or_default();
        refused.rows.insert(hash, words, is_said);
        translator.set_refused(route, refused.rows.clone());
        true
    }

    /// Refuses what is refused, and clears the trees of which all may be sent. Whether anything was written.
    pub(super) fn pass(
        &mut self,
        translator: &mut Translator,
        waiting_parts: &BTreeMap<PartId, Instant>,
        asking: &mut Asking<'_>,
    ) -> bool {
        let mut wrote = self.reconsider(translator, asking);
        let mut refusals: Vec<Refusal> = Vec::new();
        let (mut done, mut late, mut limited) = (Vec::new(), Vec::new(), Vec::new());
        for (top, root) in &self.waiting {
            let before = refusals.len();
            let mut judge = |key: &RowKey| {
                let turn = judge(&self.refused, translator, waiting_parts, key, root.since, asking, &mut refusals);
                (turn, key.clone())
            };
            let turns: Vec<_> = root.changed.iter().map(&mut judge).collect();
            let has = |turn: Turn| turns.iter().any(|(it, _)| *it == turn);
            let is_judged = refusals.len() == before && !has(Turn::Waits);
            if is_judged && (!has(Turn::Wordless) || asking.is_late(root.since)) {
                done.push(top.clone());
                late.extend(turns);
                continue;
            }
            limited.extend(root.changed.iter().cloned());
        }
        for key in &self.wordless {
            let turn = judge(&self.refused, translator, waiting_parts, key, asking.now, asking, &mut refusals);
            if turn == Turn::Fine {
                late.push((turn, key.clone()));
            }
        }
        for (route, hash, words, is_said, sent) in refusals {
            if let Some(sent) = sent {
                self.refused.entry(route.clone()).or_default().not_judged.insert(hash, sent);
            }
            wrote |= self.refuse(translator, &route, hash, &words, is_said);
        }
        for refused in self.refused.values_mut() {
            // What a route has after all was forgotten is what it has now.
            if refused.most == usize::MAX || refused.most == 0 {
                refused.most = 2 * refused.rows.len();
            }
        }
        for top in done {
            self.waiting.remove(&top);
        }
        for (turn, key) in late {
            if turn == Turn::Fine {
                self.wordless.remove(&key);
                let offered = translator.engine().get::<Offer>(&key).map(|placed| Placed::clone(&placed));
                wrote |= translator.engine_mut().set::<Cleared>(key, offered);
            } else {
                // What was cleared keeps its matches: without them its requests would reach another route.
                wrote |= shut(translator, &key);
                self.wordless.insert(key);
            }
        }
        // What goes, goes at once: nobody has to be asked about a constant answer to what was cleared.
        for key in limited {
            wrote |= limit(translator, &key);
        }
        wrote | self.tell(translator, asking.now)
    }

    /// Tells routes that they wait, and those that do no longer.
    fn tell(&mut self, translator: &mut Translator, now: Instant) -> bool {
        let late = self.waiting.values().filter(|root| now.saturating_duration_since(root.since) >= NOTICED);
        let late = late.flat_map(|root| &root.changed).map(|key| (key, WAITS));
        let all = late.chain(self.wordless.iter().map(|key| (key, SHUT)));
        let all: BTreeMap<_, _> = all.map(|((chain, ..), words)| (chain.route().clone(), words)).collect();
        let mut wrote = false;
        for route in self.told.keys().filter(|route| !all.contains_key(*route)) {
            wrote |= translator.engine_mut().set::<input::Waiting>(route.clone(), None);
        }
        for (route, words) in all.iter().filter(|(route, words)| self.told.get(*route) != Some(*words)) {
            wrote |= translator.engine_mut().set::<input::Waiting>(route.clone(), Some((*words).into()));
        }
        self.told = all;
        wrote
    }

    /// Has the rules of a tree that wait answer 500.
    pub(super) fn withdraw(&mut self, translator: &mut Translator, route: &RouteId) -> bool {
        let Some(root) = self.waiting.get(route) else { return false };
        root.changed.iter().fold(false, |wrote, key| shut(translator, key) | wrote)
    }

    /// Looks again at what was refused because nobody had said anything.
    fn reconsider(&mut self, translator: &mut Translator, asking: &mut Asking<'_>) -> bool {
        let mut wrote = false;
        for (route, refused) in &mut self.refused {
            let (rows, mut turned) = (&mut refused.rows, false);
            refused.not_judged.retain(|hash, sent| match asking.about(sent.clone(), asking.now) {
                Verdict::Waits | Verdict::NotJudged => true,
                Verdict::Fine => {
                    rows.remove(hash);
                    turned = true;
                    false
                }
                Verdict::Refused(words, is_said) => {
                    rows.insert(*hash, words, is_said);
                    turned = true;
                    false
                }
            });
            if turned {
                translator.set_refused(route, rows.clone());
                wrote = true;
            }
        }
        wrote
    }
}

/// Has all that was cleared of a rule answer by itself. Whether that was written.
fn shut(translator: &mut Translator, key: &RowKey) -> bool {
    let cleared = translator.engine().get::<Cleared>(key);
    cleared.is_some_and(|cleared| translator.engine_mut().set::<Cleared>(key.clone(), Some(cleared.shut())))
}

/// Has what was cleared of a rule that waits be served no further than it may be now. Whether anything was written.
fn limit(translator: &mut Translator, key: &RowKey) -> bool {
    let (chain, _, listener) = key;
    let engine = translator.engine();
    let Some(cleared) = engine.get::<Cleared>(key) else { return false };
    let limited = match engine.get::<Offer>(key) {
        Some(offered) => cleared.limited(&offered, listener),
        // A rule that its route has no more is a change like any other; a route that is not served here any more is gone.
        None => engine.get::<Offer>(&(chain.clone(), 0, listener.clone())).is_none().then(|| cleared.shut()),
    };
    limited.is_some_and(|limited| translator.engine_mut().set::<Cleared>(key.clone(), Some(limited)))
}

/// Asks about a rule that waits since then, with what it needs. What of it may not be sent is among `refusals`.
fn judge(
    known: &BTreeMap<RouteId, Refused>,
    translator: &Translator,
    waiting_parts: &BTreeMap<PartId, Instant>,
    key: &RowKey,
    since: Instant,
    asking: &mut Asking<'_>,
    refusals: &mut Vec<Refusal>,
) -> Turn {
    let Some(offer) = translator.engine().get::<Offer>(key) else { return Turn::Fine };
    let is_refused = |part: &PartId| translator.engine().get::<input::RefusedPart>(part).is_some();
    // A rule that needs what is refused is offered otherwise next, but for a cluster that it is itself.
    let has_parts = parts(offer.resolved()).all(|part| {
        if is_refused(&part) {
            matches!(part, PartId::Cluster(ClusterId::Rule(..)))
        } else {
            !waiting_parts.contains_key(&part)
        }
    });
    let rows = judge_rows(known, key, &offer, since, asking, refusals);
    match rows {
        Turn::Fine if !has_parts => {
            if asking.is_too_late(since) {
                Turn::Wordless
            } else {
                Turn::Waits
            }
        }
        rows => rows,
    }
}

/// Asks about the Envoy routes of a rule. What may not be sent is among `refusals`.
fn judge_rows(
    known: &BTreeMap<RouteId, Refused>,
    (chain, rule, _): &RowKey,
    offer: &Placed,
    since: Instant,
    asking: &mut Asking<'_>,
    refusals: &mut Vec<Refusal>,
) -> Turn {
    let route = chain.route();
    let mut turn = Turn::Fine;
    let is_known = |hash: &Hash| known.get(route).is_some_and(|refused| refused.rows.contains(hash));
    for written in offer.offered_routes().iter() {
        let origin = Origin::of(&written.steps, written.order).filter(|origin| origin.rule == *rule);
        let sent = of_row(chain, origin, &written.row, Some(offer.resolved()));
        let hash = sent.fragment.hash;
        match asking.about(sent.clone(), since) {
            Verdict::Fine => {}
            Verdict::Waits => turn = Turn::Waits,
            // Of what answers 500 already, the match is to blame. Where Envoy does not say so itself, or nobody has judged it, what
            // was cleared of the rule keeps its matches: left out, their requests would reach another route.
            Verdict::Refused(_, false) | Verdict::NotJudged if is_known(&hash) => {
                turn = if turn == Turn::Waits { turn } else { Turn::Wordless };
            }
            Verdict::Refused(words, is_said) => refusals.push((route.clone(), hash, words.to_string(), is_said, None)),
            Verdict::NotJudged => refusals.push((route.clone(), hash, NOT_JUDGED.to_owned(), false, Some(sent))),
        }
    }
    turn
}
