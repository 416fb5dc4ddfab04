//! What was judged goes, what was not waits, and nobody waits for ever.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use ir::{NsName, settings::WhenUnavailable};

use super::{
    asking::{Asking, Bounds, Verdict, Wait, Waived, Word},
    candidates::Candidates,
    parts::Parts,
    roots::Roots,
    waiters::{FragmentId, Item, Waiters, Wanted},
    wide::Gateways,
};
use crate::{
    Translator,
    inspect::Sent,
    tables::input::{JudgeUnavailable, Strict},
};

/// What is held back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Gateways of which what they say themselves is sent as it was.
    pub gateways: BTreeSet<NsName>,
    /// Trees of routes that are served as they were.
    pub routes: usize,
    /// Clusters, entries of extensions and chains that are sent as they were.
    pub parts: usize,
    /// For how long the one waits that waits for longest.
    pub since: Option<Duration>,
}

/// How many fragments are remembered that were sent though nobody had judged them, to be judged later.
const MOST_WAIVED: usize = 50_000;

/// What waits for Envoy's word.
#[derive(Debug)]
pub struct Gate {
    bounds: Bounds,
    roots: Roots,
    parts: Parts,
    gateways: Gateways,
    candidates: Candidates,
    waiters: Waiters,
    waived: Waived,
    /// Since when nobody can be asked, as far as is known.
    away: Option<Instant>,
    /// Whether what was refused is to be asked about anew.
    is_other: bool,
}

impl Gate {
    /// One that nothing waits at yet.
    pub fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            roots: Roots::default(),
            parts: Parts::default(),
            gateways: Gateways::default(),
            candidates: Candidates::default(),
            waiters: Waiters::default(),
            waived: Waived::new(),
            away: None,
            is_other: false,
        }
    }

    /// The word about a fragment is another one than when it was asked for last.
    pub fn turned(&mut self, fragment: &FragmentId) {
        self.waiters.wake_for(fragment);
    }

    /// Another Envoy is asked: it may take what was refused. What was taken is served, and asked about when it changes.
    pub fn all_turned(&mut self) {
        self.is_other = true;
    }

    /// Takes note of what settled, and writes what is known by `word`: about what changed since the last time, what was said to
    /// have turned, and what has waited for so long that it makes a difference. Whether anything was written, so that it has to
    /// settle and be noted again.
    pub fn pass(&mut self, translator: &mut Translator, now: Instant, word: &mut dyn FnMut(&Sent) -> Word) -> bool {
        if translator.engine().get::<Strict>(&()).is_none() {
            return false;
        }
        let Self { bounds, roots, parts, gateways, candidates, waiters, waived, away, is_other } = self;
        let is_away = translator.engine().get::<JudgeUnavailable>(&()).is_some();
        let fresh = Vec::new();
        let mut asking = Asking { now, bounds: *bounds, word, waived, fresh, is_away };
        let (turned, is_other) = (away.is_some() != is_away, std::mem::take(is_other));
        if turned {
            // What is sent unjudged waits for nobody's return.
            if let Some(away) = away.filter(|_| bounds.then == WhenUnavailable::Hold) {
                roots.resume(away, waiters, &asking);
                parts.resume(away, waiters, &asking);
                gateways.resume(away, waiters, &asking);
            }
            *away = is_away.then_some(now);
        }
        let mut wrote = is_other && roots.forget_refused(translator, waiters);
        if is_other {
            parts.ask_again(translator, waiters, &asking);
            gateways.ask_again(translator, waiters, &asking);
        }
        if turned || is_other {
            roots.wake_all(waiters);
            candidates.wake_all(waiters);
            waiters.wake_all();
        }
        waiters.ring(now);
        wrote |= parts.note(translator, waiters, &asking);
        wrote |= gateways.note(translator, waiters, &asking);
        wrote |= roots.note(translator, waiters, &asking);
        gateways.entangle(roots.fresh());
        wrote |= candidates.note(translator, roots, waiters);
        loop {
            let awake = waiters.take_awake();
            if awake.is_empty() {
                break;
            }
            for item in awake {
                wrote |= match &item {
                    Item::Tree(top) => roots.ring(translator, top, waiters, &asking),
                    Item::Row(key) => roots.judge(translator, key, parts, waiters, &mut asking),
                    Item::Replaced(route, hash) => roots.judge_replaced(translator, route, *hash, waiters, &mut asking),
                    Item::Part(part) => {
                        let (written, turned) = parts.judge(part, translator, waiters, &mut asking);
                        if turned {
                            gateways.look_at_users(part, waiters, &asking);
                        }
                        written
                    }
                    Item::Gateway(gateway) => {
                        let (written, late) = gateways.judge(gateway, translator, parts, waiters, &mut asking);
                        // What these leave to it may not be said there any more.
                        let late = late.iter().filter(|tree| roots.is_open(tree)).collect::<Vec<_>>();
                        late.into_iter().fold(written, |wrote, tree| roots.withdraw(translator, tree) | wrote)
                    }
                    Item::Candidates(root) => candidates.look(root, translator, waiters),
                    Item::Candidate(candidate) => {
                        candidates.judge(candidate, translator, roots, parts, waiters, &mut asking)
                    }
                    Item::Waived(fragment) => {
                        let Some((sent, of)) = asking.waived.get(fragment).cloned() else {
                            waiters.forget(&item);
                            continue;
                        };
                        let Verdict::Refused(words, is_said) = asking.about(&item, &sent, Wait::forever(now)) else {
                            if !asking.waived.contains_key(fragment) {
                                waiters.forget(&item);
                            }
                            continue;
                        };
                        waiters.forget(&item);
                        for of in &of {
                            match of {
                                Item::Row(key) => roots.refuse(key, fragment.1, words.clone(), is_said),
                                Item::Part(part) => parts.wait(part, translator, waiters, &asking),
                                Item::Gateway(gateway) => gateways.look_at(gateway, waiters, &asking),
                                // Never sent without a word.
                                Item::Candidates(_)
                                | Item::Candidate(_)
                                | Item::Tree(_)
                                | Item::Replaced(..)
                                | Item::Waived(_) => {}
                            }
                        }
                        false
                    }
                };
            }
        }
        wrote |= roots.write_found(translator, waiters);
        wrote |= commit(roots, gateways, parts, translator, waiters, &mut asking);
        wrote |= roots.limit(translator, waiters, &asking);
        let Asking { fresh, waived, .. } = asking;
        ask_later(fresh, waived, waiters);
        wrote
    }

    /// All has settled: what changes from now on does not go together with what changed before.
    pub fn settled(&mut self) {
        self.gateways.settled();
        self.roots.settled();
    }

    /// Whether anything is to be looked at, though nothing changed.
    pub fn is_due(&self, now: Instant) -> bool {
        self.waiters.is_due(now)
    }

    /// Of what nobody knows.
    pub fn unknown(&self) -> impl ExactSizeIterator<Item = &Sent> {
        self.waiters.wanted()
    }

    /// What of that differs from what it was when this was asked last.
    pub fn take_wanted(&mut self) -> Wanted {
        self.waiters.take_wanted()
    }

    /// What is held back at the moment.
    pub fn held(&self, now: Instant) -> Held {
        let since = self.roots.since().chain(self.gateways.since()).chain(self.parts.holding());
        Held {
            gateways: self.gateways.holding().cloned().collect(),
            routes: self.roots.len(),
            parts: self.parts.holding().count(),
            since: since.min().map(|since| now.saturating_duration_since(since)),
        }
    }

    /// Whether anything is held back.
    pub fn is_holding(&self) -> bool {
        self.roots.len() > 0 || self.gateways.holding().next().is_some() || self.parts.holding().next().is_some()
    }

    /// How many fragments are sent though nobody judged them.
    pub fn waived(&self) -> usize {
        self.waived.len()
    }
}

/// Has what is sent though nobody judged it be judged all the same, of as much as is remembered.
fn ask_later(fresh: Vec<FragmentId>, waived: &mut Waived, waiters: &mut Waiters) {
    for fragment in fresh {
        if let Some((sent, _)) = waived.get(&fragment) {
            waiters.set(&Item::Waived(fragment), vec![sent.clone()], Vec::new());
        }
    }
    while waived.len() > MOST_WAIVED {
        if let Some((fragment, _)) = waived.pop_first() {
            waiters.forget(&Item::Waived(fragment));
        }
    }
}

/// Has what is judged be sent. A Gateway goes with the trees that changed at the same time, and no tree that is served at a
/// Gateway goes before what that says. Whether anything was written.
fn commit(
    roots: &mut Roots,
    gateways: &mut Gateways,
    parts: &Parts,
    translator: &mut Translator,
    waiters: &mut Waiters,
    asking: &mut Asking<'_>,
) -> bool {
    let (mut trees, mut judged) = (roots.judged(), gateways.judged());
    let holding: BTreeSet<_> = gateways.holding().cloned().collect();
    if !holding.is_empty() {
        loop {
            let before = (trees.len(), judged.len());
            judged.retain(|gateway| {
                gateways.entangled(gateway).all(|tree| trees.contains(tree) || !roots.is_waiting(tree))
            });
            trees.retain(|tree| {
                roots.gateways(tree).all(|gateway| !holding.contains(gateway) || judged.contains(gateway))
            });
            if before == (trees.len(), judged.len()) {
                break;
            }
        }
    }
    let mut wrote = false;
    for gateway in &judged {
        wrote |= gateways.commit(gateway, translator, parts, waiters, asking);
    }
    for tree in &trees {
        wrote |= roots.commit(translator, tree, waiters, asking);
    }
    wrote
}
