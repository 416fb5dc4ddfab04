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
    tables::{backend::ClusterId, host::Offer, input, strict::PartId},
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
    /// Routes that are told that they wait.
    told: BTreeSet<RouteId>,
}

/// How long a route waits before it is told.
const NOTICED: Duration = Duration::from_secs(5);
/// What it is told.
const WAITS: &str = "it waits for Envoy's word, and is served as it was: its tree changes as a whole";

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

    /// The trees that wait and change something at a Gateway.
    pub(super) fn waiting_at(&self, gateway: &NsName) -> impl Iterator<Item = RouteId> {
        let is_there = |root: &Root| root.changed.iter().any(|(_, _, listener)| listener.gateway == *gateway);
        self.waiting.iter().filter(move |(_, root)| is_there(root)).map(|(route, _)| route.clone())
    }

    /// Takes note of what is offered.
    pub(super) fn note(&mut self, translator: &mut Translator, now: Instant) -> bool {
        let mut wrote = false;
        for key in translator.engine_mut().take_changes::<Offer>() {
            let engine = translator.engine();
            let (offered, cleared) = (engine.get::<Offer>(&key), engine.get::<Cleared>(&key));
            let top = key.0.top().clone();
            let route = key.0.route().clone();
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
        waiting_parts: &BTreeSet<PartId>,
        asking: &mut Asking<'_>,
    ) -> bool {
        let mut wrote = self.reconsider(translator, asking);
        let mut refusals: Vec<Refusal> = Vec::new();
        let mut ready = Vec::new();
        for (top, root) in &self.waiting {
            let mut is_ready = true;
            for key in &root.changed {
                let Some(offer) = translator.engine().get::<Offer>(key) else { continue };
                let is_refused = |part: &PartId| translator.engine().get::<input::RefusedPart>(part).is_some();
                // A rule that needs what is refused is offered otherwise next, but for a cluster that it is itself.
                is_ready &= parts(offer.resolved()).all(|part| {
                    if is_refused(&part) {
                        matches!(part, PartId::Cluster(ClusterId::Rule(..)))
                    } else {
                        !waiting_parts.contains(&part)
                    }
                });
                let before = refusals.len();
                is_ready &= judge_rows(&self.refused, key, &offer, asking, &mut refusals);
                is_ready &= refusals.len() == before;
            }
            if is_ready {
                ready.push(top.clone());
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
        for top in ready {
            let Some(root) = self.waiting.remove(&top) else { continue };
            for key in root.changed {
                let offered = translator.engine().get::<Offer>(&key).map(|placed| Placed::clone(&placed));
                wrote |= translator.engine_mut().set::<Cleared>(key, offered);
            }
        }
        wrote | self.tell(translator, asking.now)
    }

    /// Tells routes that they wait, and those that do no longer.
    fn tell(&mut self, translator: &mut Translator, now: Instant) -> bool {
        let late = self.waiting.values().filter(|root| now.saturating_duration_since(root.since) >= NOTICED);
        let late =
            late.flat_map(|root| &root.changed).map(|(chain, ..)| chain.route().clone()).collect::<BTreeSet<_>>();
        let mut wrote = false;
        for route in late.symmetric_difference(&self.told) {
            let words = late.contains(route).then(|| WAITS.into());
            wrote |= translator.engine_mut().set::<input::Waiting>(route.clone(), words);
        }
        self.told = late;
        wrote
    }

    /// Has the rules of a tree that wait not be served at all.
    pub(super) fn withdraw(&mut self, translator: &mut Translator, route: &RouteId) -> bool {
        let Some(root) = self.waiting.get(route) else { return false };
        root.changed.iter().fold(false, |wrote, key| translator.engine_mut().set::<Cleared>(key.clone(), None) | wrote)
    }

    /// Looks again at what was refused because nobody had said anything.
    fn reconsider(&mut self, translator: &mut Translator, asking: &mut Asking<'_>) -> bool {
        let mut wrote = false;
        for (route, refused) in &mut self.refused {
            let (rows, mut turned) = (&mut refused.rows, false);
            refused.not_judged.retain(|hash, sent| match asking.about(sent.clone()) {
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

/// Asks about the Envoy routes of a rule. Whether all may be sent; what may not is among `refusals`.
fn judge_rows(
    known: &BTreeMap<RouteId, Refused>,
    (chain, rule, _): &RowKey,
    offer: &Placed,
    asking: &mut Asking<'_>,
    refusals: &mut Vec<Refusal>,
) -> bool {
    let route = chain.route();
    let mut is_fine = true;
    let is_known = |hash: &Hash| known.get(route).is_some_and(|refused| refused.rows.contains(hash));
    for written in offer.offered_routes().iter() {
        let origin = Origin::of(&written.steps, written.order).filter(|origin| origin.rule == *rule);
        let sent = of_row(chain, origin, &written.row, Some(offer.resolved()));
        let hash = sent.fragment.hash;
        match asking.about(sent.clone()) {
            Verdict::Fine => {}
            Verdict::Waits => is_fine = false,
            // Of what answers 500 already, the match is to blame. Where Envoy does not say so itself, or nobody has judged it, the tree
            // waits as it was: left out, its requests would reach another route.
            Verdict::Refused(_, false) | Verdict::NotJudged if is_known(&hash) => is_fine = false,
            Verdict::Refused(words, is_said) => refusals.push((route.clone(), hash, words.to_string(), is_said, None)),
            Verdict::NotJudged => {
                is_fine = false;
                refusals.push((route.clone(), hash, NOT_JUDGED.to_owned(), false, Some(sent)));
            }
        }
    }
    is_fine
}
