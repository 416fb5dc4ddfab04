//! Trees, and policies of Gateways, that shall be kept as they are: what of them nobody knows is asked about before they are kept, so
//! that what Envoy refuses takes the place of nothing that was good.
//!
//! They are served by nobody, so that nothing of them is held back, limited or cleared. What is refused of a tree is a fault of the
//! rule, which is replaced among the objects as they are; what is refused of policies of a Gateway is told to whoever keeps them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Instant,
};

use api::Kind as ObjectKind;
use envoy::judged::Kind;
use ir::{NsName, RootId};

use super::{
    asking::{Asking, Verdict, Wait},
    parts::Parts,
    roots::Roots,
    waiters::{Item, RowKey, Waiters},
};
use crate::{
    Translator,
    inspect::{Sent, sent::of_message},
    tables::{
        host::CandidateOffer,
        input::{CandidateWords, ObjectKey, RefusedPart},
        route::RouteHead,
        strict::{CandidateWide, CandidateWord, Owner, PartId},
    },
};

/// What is asked about.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    waiting: BTreeMap<RootId, Waiting>,
    /// Those of which a part cannot be computed: nobody knows what they are.
    faulty: BTreeSet<RootId>,
}

/// A root of which something is asked.
#[derive(Debug)]
struct Waiting {
    since: Instant,
    /// The rules of a tree of which something is; of a Gateway it is all together.
    rows: BTreeSet<RowKey>,
}

impl Candidates {
    /// Takes note of what changed. Whether anything was written.
    pub(super) fn note(
        &mut self,
        translator: &mut Translator,
        roots: &mut Roots,
        waiters: &mut Waiters,
        asking: &Asking<'_>,
    ) -> bool {
        let mut wrote = false;
        for key in translator.engine_mut().take_changes::<CandidateOffer>() {
            let (root, route) = (key.0.top().root(), key.0.route().clone());
            wrote |= roots.forget_old(translator, &route, waiters);
            if translator.engine().get::<CandidateOffer>(&key).is_some() {
                wrote |= self.wait(&root, translator, waiters, asking);
                waiters.wake(Item::CandidateRow(key.clone()));
                if let Some(waiting) = self.waiting.get_mut(&root) {
                    waiting.rows.insert(key);
                }
                continue;
            }
            if translator.engine().get::<RouteHead>(&route).is_none() {
                wrote |= roots.forget(translator, &route, waiters);
            }
            wrote |= self.row_done(&key, translator, waiters, asking);
        }
        for gateway in translator.engine_mut().take_changes::<CandidateWide>() {
            let root = RootId::Gateway(gateway.clone());
            if translator.engine().get::<CandidateWide>(&gateway).is_some() {
                wrote |= self.wait(&root, translator, waiters, asking);
                waiters.wake(Item::Candidate(root));
            } else {
                wrote |= self.done(&root, None, translator, waiters, asking);
            }
        }
        wrote | self.note_faults(translator, waiters, asking)
    }

    /// Has roots wait of which a part cannot be computed. Whether anything was written.
    fn note_faults(&mut self, translator: &mut Translator, waiters: &mut Waiters, asking: &Asking<'_>) -> bool {
        let engine = translator.engine();
        let trees = engine.poisoned::<CandidateOffer>().into_iter().map(|((chain, ..), _)| chain.top().root());
        let gateways = engine.poisoned::<CandidateWide>().into_iter().map(|(gateway, _)| RootId::Gateway(gateway));
        let now: BTreeSet<_> = trees.chain(gateways).collect();
        let before = std::mem::replace(&mut self.faulty, now.clone());
        before.difference(&now).for_each(|root| waiters.wake(Item::Candidate(root.clone())));
        now.difference(&before).fold(false, |wrote, root| self.wait(root, translator, waiters, asking) | wrote)
    }

    /// Has a root be asked about.
    fn wait(&mut self, root: &RootId, translator: &mut Translator, waiters: &mut Waiters, asking: &Asking<'_>) -> bool {
        self.waiting.entry(root.clone()).or_insert_with(|| {
            waiters.alarm(&Item::Candidate(root.clone()), asking.bounds.moments(asking.now));
            Waiting { since: asking.now, rows: BTreeSet::new() }
        });
        translator.engine_mut().set::<CandidateWords>(root.clone(), Some(CandidateWord::Awaited))
    }

    /// Nothing more is asked about a root. Whether anything was written.
    fn done(
        &mut self,
        root: &RootId,
        word: Option<CandidateWord>,
        translator: &mut Translator,
        waiters: &mut Waiters,
        asking: &Asking<'_>,
    ) -> bool {
        if self.faulty.contains(root) {
            return false;
        }
        let item = Item::Candidate(root.clone());
        waiters.forget(&item);
        if let Some(waiting) = self.waiting.remove(root) {
            waiters.silence(&item, asking.bounds.moments(waiting.since));
        }
        translator.engine_mut().set::<CandidateWords>(root.clone(), word)
    }

    /// Nothing more is asked about a rule. Whether anything was written.
    fn row_done(
        &mut self,
        key: &RowKey,
        translator: &mut Translator,
        waiters: &mut Waiters,
        asking: &Asking<'_>,
    ) -> bool {
        waiters.forget(&Item::CandidateRow(key.clone()));
        let root = key.0.top().root();
        let Some(waiting) = self.waiting.get_mut(&root) else { return false };
        waiting.rows.remove(key);
        waiting.rows.is_empty() && self.done(&root, None, translator, waiters, asking)
    }

    /// The time since `away`, when nobody could be asked, counts for nobody.
    pub(super) fn resume(&mut self, away: Instant, waiters: &mut Waiters, asking: &Asking<'_>) {
        for (root, waiting) in &mut self.waiting {
            let item = Item::Candidate(root.clone());
            waiters.silence(&item, asking.bounds.moments(waiting.since));
            waiting.since = asking.resumed(waiting.since, away);
            waiters.alarm(&item, asking.bounds.moments(waiting.since));
        }
    }

    /// Has all be looked at.
    pub(super) fn wake_all(&self, waiters: &mut Waiters) {
        self.waiting.keys().for_each(|root| waiters.wake(Item::Candidate(root.clone())));
    }

    /// Asks about a rule. Whether anything was written.
    pub(super) fn judge_row(
        &mut self,
        key: &RowKey,
        translator: &mut Translator,
        (roots, parts): (&mut Roots, &Parts),
        waiters: &mut Waiters,
        asking: &mut Asking<'_>,
    ) -> bool {
        let waiting = self.waiting.get(&key.0.top().root()).filter(|waiting| waiting.rows.contains(key));
        let waits = waiting.map(|waiting| waiting.since);
        let waits = waits.is_some_and(|since| roots.judge_candidate(translator, key, since, parts, waiters, asking));
        !waits && self.row_done(key, translator, waiters, asking)
    }

    /// Asks about all of a root: its moment has come, or the policies of a Gateway changed. Whether anything was written.
    pub(super) fn judge(
        &mut self,
        root: &RootId,
        translator: &mut Translator,
        parts: &Parts,
        waiters: &mut Waiters,
        asking: &mut Asking<'_>,
    ) -> bool {
        let item = Item::Candidate(root.clone());
        let Some(waiting) = self.waiting.get(root) else {
            waiters.forget(&item);
            return false;
        };
        let RootId::Gateway(gateway) = root else {
            waiting.rows.iter().for_each(|key| waiters.wake(Item::CandidateRow(key.clone())));
            return waiting.rows.is_empty() && self.done(root, None, translator, waiters, asking);
        };
        let wait = Wait { since: waiting.since, is_urgent: false };
        let Looked { refused, sent, needed } = look_at(gateway, wait, &item, translator, parts, asking);
        let waits = !sent.is_empty() || !needed.is_empty();
        let word = refused.map(CandidateWord::Refused);
        if waits {
            waiters.set(&item, sent, needed);
            let word = word.unwrap_or(CandidateWord::Awaited);
            return translator.engine_mut().set::<CandidateWords>(root.clone(), Some(word));
        }
        self.done(root, word, translator, waiters, asking)
    }
}

/// What is known of the policies of a Gateway.
#[derive(Default)]
struct Looked {
    /// Why they are refused.
    refused: Option<Arc<str>>,
    /// What waits for a word.
    sent: Vec<Sent>,
    /// The parts of which they wait for what becomes of them.
    needed: Vec<PartId>,
}

/// Asks about the policies of a Gateway.
fn look_at(
    gateway: &NsName,
    wait: Wait,
    item: &Item,
    translator: &Translator,
    parts: &Parts,
    asking: &mut Asking<'_>,
) -> Looked {
    let engine = translator.engine();
    let scopes = engine.get::<CandidateWide>(gateway);
    let owner = Owner::from(gateway.clone().id(ObjectKind::Gateway));
    let mut looked = Looked::default();
    for scope in scopes.iter().flat_map(|scopes| scopes.iter()) {
        let names = scope.parts.iter().filter_map(|part| match part {
            PartId::Cluster(cluster) => Some(Arc::from(cluster.name())),
            PartId::Entry(_) | PartId::Chain(..) => None,
        });
        let head = of_message(Kind::RouteConfiguration, &scope.head, &owner, names.collect());
        match asking.about(item, &head, wait) {
            Verdict::Fine => {}
            Verdict::Refused(words, _) => drop(looked.refused.get_or_insert(words)),
            Verdict::Waits(_) | Verdict::NotJudged => looked.sent.push(head),
        }
        for part in &scope.parts {
            let refused = engine.get::<RefusedPart>(part);
            if let Some(refused) = &refused {
                looked.refused.get_or_insert_with(|| refused.told(&gateway.namespace).into());
            }
            if refused.is_some() || parts.is_waiting(part) {
                looked.needed.push(part.clone());
            }
        }
    }
    looked
}
