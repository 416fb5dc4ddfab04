//! What becomes of a rule of a tree by what is known of its Envoy routes, and of what it needs.

use std::{collections::BTreeMap, sync::Arc};

use engine::Table;
use envoy::bytes::Hash;
use ir::{RouteId, matching::Origin};

use super::{
    asking::{Asking, NOT_JUDGED, Verdict, Wait},
    parts::Parts,
    waiters::{Item, RowKey},
};
use crate::{
    RefusedRows, Translator,
    host::{Answer, Placed, parts as parts_of},
    inspect::{Sent, sent::of_row},
    tables::{backend::ClusterId, input, strict::PartId},
};

/// A row of a route that is refused.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) key: RowKey,
    pub(super) hash: Hash,
    pub(super) words: Arc<str>,
    pub(super) is_said: bool,
    /// What it is, if nobody said anything.
    pub(super) sent: Option<Sent>,
}

/// What was refused of a route.
#[derive(Debug, Default)]
pub(super) struct Refused {
    pub(super) rows: RefusedRows,
    /// How many there may be before those are forgotten that the route has no more.
    pub(super) most: usize,
    /// Of these nobody has said anything, and they are asked about.
    pub(super) not_judged: BTreeMap<Hash, Sent>,
}

/// What becomes of a rule by what is known.
#[derive(Debug, Default)]
pub(super) struct Looked {
    pub(super) is_waiting: bool,
    pub(super) is_hopeless: bool,
    /// Whether it waits for a part.
    pub(super) has_no_parts: bool,
    /// What is refused of it.
    pub(super) found: Vec<Found>,
    /// What answers by itself for want of a word.
    pub(super) rows: BTreeMap<Hash, Answer>,
    /// Its Envoy routes, and those of them that wait.
    pub(super) all: Vec<Hash>,
    pub(super) unknown: Vec<Hash>,
    /// What it waits for.
    pub(super) sent: Vec<Sent>,
    pub(super) parts: Vec<PartId>,
}

/// Asks about a rule that waits as it is offered, with what it needs.
pub(super) fn look_at<T: Table<Key = RowKey, Value = Placed>>(
    known: &BTreeMap<RouteId, Refused>,
    translator: &Translator,
    parts: &Parts,
    key: &RowKey,
    item: &Item,
    wait: Wait,
    asking: &mut Asking<'_>,
) -> Looked {
    let mut looked = Looked::default();
    let Some(offer) = translator.engine().get::<T>(key) else { return looked };
    judge_rows(known, key, &offer, item, wait, asking, &mut looked);
    // A rule that needs what is refused is offered otherwise next, but for a cluster that it is itself.
    let is_refused = |part: &PartId| translator.engine().get::<input::RefusedPart>(part).is_some();
    for part in parts_of(offer.resolved()) {
        let is_own = matches!(part, PartId::Cluster(ClusterId::Rule(..)));
        if parts.is_waiting(&part) {
            looked.parts.push(part);
        } else if is_refused(&part) && !is_own {
            looked.has_no_parts = true;
        }
    }
    looked.has_no_parts |= !looked.parts.is_empty();
    if looked.has_no_parts {
        if asking.is_too_late(wait.since) {
            for hash in &looked.all {
                looked.rows.entry(*hash).or_insert(Answer::Closed);
            }
        } else {
            looked.is_waiting = true;
        }
    }
    looked
}

/// Asks about the Envoy routes of a rule.
fn judge_rows(
    known: &BTreeMap<RouteId, Refused>,
    key: &RowKey,
    offer: &Placed,
    item: &Item,
    wait: Wait,
    asking: &mut Asking<'_>,
    looked: &mut Looked,
) {
    let (chain, rule, _) = key;
    let is_known = |hash: &Hash| known.get(chain.route()).is_some_and(|refused| refused.rows.contains(hash));
    for written in offer.offered_routes().iter() {
        let origin = Origin::of(&written.steps, written.order).filter(|origin| origin.rule == *rule);
        let sent = of_row(chain, origin, &written.row, Some(offer.resolved()));
        let hash = sent.fragment.hash;
        looked.all.push(hash);
        let found = |words, is_said, sent| Found { key: key.clone(), hash, words, is_said, sent };
        match asking.about(item, &sent, wait) {
            Verdict::Fine => {}
            Verdict::Waits(is_hopeless) => {
                looked.is_waiting = true;
                looked.is_hopeless |= is_hopeless;
                looked.unknown.push(hash);
                looked.sent.push(sent);
            }
            // Of what answers 500 already, the match is to blame. Where Envoy does not say so itself, or nobody has judged it, a
            // plain one answers for it: left out, its requests would reach another route.
            Verdict::Refused(_, false) if is_known(&hash) => drop(looked.rows.insert(hash, Answer::Plain)),
            Verdict::NotJudged if is_known(&hash) => {
                looked.rows.insert(hash, Answer::Plain);
                looked.sent.push(sent);
            }
            Verdict::Refused(words, is_said) => looked.found.push(found(words, is_said, None)),
            Verdict::NotJudged => looked.found.push(found(NOT_JUDGED.into(), false, Some(sent))),
        }
    }
}
