//! Trees, and policies of Gateways, that shall be kept as they are: what of them nobody knows is asked about before they are kept, so
//! that what Envoy refuses takes the place of nothing that was good.
//!
//! They are served by nobody, so that nothing of them is held back, limited or cleared; and kept only with a word, whoever can be asked.
//! The parts that they need are what all others need too, and wait and go as these do.

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

/// What is asked about at once.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Candidate {
    /// A rule of a tree, where it would be served.
    Row(RowKey),
    /// The policies of a Gateway.
    Wide(NsName),
}

impl Candidate {
    fn root(&self) -> RootId {
        match self {
            Self::Row((chain, ..)) => chain.top().root(),
            Self::Wide(gateway) => RootId::Gateway(gateway.clone()),
        }
    }
}

/// What is known of one.
#[derive(Default)]
pub(super) struct Looked {
    /// Why it is refused, as the owner of the root may read it.
    pub(super) refused: Option<Arc<str>>,
    /// What waits for a word.
    pub(super) sent: Vec<Sent>,
    /// The parts of which it waits for what becomes of them.
    pub(super) parts: Vec<PartId>,
    /// Whether it waits for either, or is another one next.
    pub(super) waits: bool,
}

/// What shall be kept and is not known to be taken.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    roots: BTreeMap<RootId, Root>,
    /// Those of which a part cannot be computed: nobody knows what they are.
    faulty: BTreeSet<RootId>,
}

/// A root of which something is asked, or refused.
#[derive(Debug)]
struct Root {
    since: Instant,
    asked: BTreeSet<Candidate>,
    refused: BTreeMap<Candidate, Arc<str>>,
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
            let route = key.0.route().clone();
            wrote |= roots.forget_old(translator, &route, waiters);
            let is_there = translator.engine().get::<CandidateOffer>(&key).is_some();
            if !is_there && translator.engine().get::<RouteHead>(&route).is_none() {
                wrote |= roots.forget(translator, &route, waiters);
            }
            wrote |= self.turned(Candidate::Row(key), is_there, translator, waiters, asking);
        }
        for gateway in translator.engine_mut().take_changes::<CandidateWide>() {
            let is_there = translator.engine().get::<CandidateWide>(&gateway).is_some();
            wrote |= self.turned(Candidate::Wide(gateway), is_there, translator, waiters, asking);
        }
        wrote | self.note_faults(translator, waiters, asking)
    }

    /// Has roots wait of which a part cannot be computed. Whether anything was written.
    fn note_faults(&mut self, translator: &mut Translator, waiters: &mut Waiters, asking: &Asking<'_>) -> bool {
        if self.faulty.is_empty() && translator.faults() == 0 {
            return false;
        }
        let engine = translator.engine();
        let trees = engine.poisoned::<CandidateOffer>().into_iter().map(|((chain, ..), _)| chain.top().root());
        let gateways = engine.poisoned::<CandidateWide>().into_iter().map(|(gateway, _)| RootId::Gateway(gateway));
        let now: BTreeSet<_> = trees.chain(gateways).collect();
        let before = std::mem::replace(&mut self.faulty, now.clone());
        before.difference(&now).for_each(|root| waiters.wake(Item::Candidates(root.clone())));
        now.difference(&before).fold(false, |wrote, root| {
            self.root(root, waiters, asking);
            self.tell(root, translator, waiters, asking) | wrote
        })
    }

    fn root(&mut self, root: &RootId, waiters: &mut Waiters, asking: &Asking<'_>) -> &mut Root {
        self.roots.entry(root.clone()).or_insert_with(|| {
            waiters.alarm(&Item::Candidates(root.clone()), asking.bounds.moments(asking.now));
            Root { since: asking.now, asked: BTreeSet::new(), refused: BTreeMap::new() }
        })
    }

    /// Something of a root is another one, or is not there any more. Whether anything was written.
    fn turned(
        &mut self,
        candidate: Candidate,
        is_there: bool,
        translator: &mut Translator,
        waiters: &mut Waiters,
        asking: &Asking<'_>,
    ) -> bool {
        let root = candidate.root();
        let state = self.root(&root, waiters, asking);
        state.refused.remove(&candidate);
        if is_there {
            state.asked.insert(candidate.clone());
            waiters.wake(Item::Candidate(candidate));
        } else {
            state.asked.remove(&candidate);
            waiters.forget(&Item::Candidate(candidate));
        }
        self.tell(&root, translator, waiters, asking)
    }

    /// Writes what stands against keeping a root. Whether that makes a difference.
    fn tell(&mut self, root: &RootId, translator: &mut Translator, waiters: &mut Waiters, asking: &Asking<'_>) -> bool {
        let Some(state) = self.roots.get(root) else { return false };
        let word = if !state.asked.is_empty() || self.faulty.contains(root) {
            Some(CandidateWord::Awaited)
        } else {
            state.refused.values().next().map(|words| CandidateWord::Refused(words.clone()))
        };
        if word.is_none() {
            waiters.silence(&Item::Candidates(root.clone()), asking.bounds.moments(state.since));
            self.roots.remove(root);
        }
        translator.engine_mut().set::<CandidateWords>(root.clone(), word)
    }

    /// The time since `away`, when nobody could be asked, counts for nobody.
    pub(super) fn resume(&mut self, away: Instant, waiters: &mut Waiters, asking: &Asking<'_>) {
        for (root, state) in &mut self.roots {
            let item = Item::Candidates(root.clone());
            waiters.silence(&item, asking.bounds.moments(state.since));
            state.since = asking.resumed(state.since, away);
            waiters.alarm(&item, asking.bounds.moments(state.since));
        }
    }

    /// Has all be looked at.
    pub(super) fn wake_all(&self, waiters: &mut Waiters) {
        self.roots.keys().for_each(|root| waiters.wake(Item::Candidates(root.clone())));
    }

    /// A moment of a root has come: all of it is looked at. Whether anything was written.
    pub(super) fn ring(
        &mut self,
        root: &RootId,
        translator: &mut Translator,
        waiters: &mut Waiters,
        asking: &Asking<'_>,
    ) -> bool {
        let state = self.roots.get(root);
        let all = state.iter().flat_map(|state| state.asked.iter().chain(state.refused.keys()));
        all.for_each(|candidate| waiters.wake(Item::Candidate(candidate.clone())));
        self.tell(root, translator, waiters, asking)
    }

    /// Asks about something of a root. Whether anything was written.
    pub(super) fn judge(
        &mut self,
        candidate: &Candidate,
        translator: &mut Translator,
        (roots, parts): (&mut Roots, &Parts),
        waiters: &mut Waiters,
        asking: &mut Asking<'_>,
    ) -> bool {
        let (root, item) = (candidate.root(), Item::Candidate(candidate.clone()));
        let is_of = |state: &&mut Root| state.asked.contains(candidate) || state.refused.contains_key(candidate);
        let Some(state) = self.roots.get_mut(&root).filter(is_of) else {
            waiters.forget(&item);
            return false;
        };
        // What cannot be computed is looked at when it can be.
        if self.faulty.contains(&root) {
            return false;
        }
        let wait = Wait::for_a_word(state.since);
        let looked = match candidate {
            Candidate::Row(key) => roots.judge_candidate(translator, key, &item, wait, parts, asking),
            Candidate::Wide(gateway) => look_at(gateway, wait, &item, translator, parts, asking),
        };
        if looked.waits {
            state.asked.insert(candidate.clone());
        } else {
            state.asked.remove(candidate);
        }
        match looked.refused {
            Some(words) => drop(state.refused.insert(candidate.clone(), words)),
            None => drop(state.refused.remove(candidate)),
        }
        waiters.set(&item, looked.sent, looked.parts);
        self.tell(&root, translator, waiters, asking)
    }
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
    let scopes = translator.engine().get::<CandidateWide>(gateway);
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
        scope.parts.iter().for_each(|part| looked.need(part, &gateway.namespace, translator, parts));
    }
    looked.waits |= !looked.sent.is_empty();
    looked
}

impl Looked {
    /// It needs a part, of which the owner of this namespace is told.
    pub(super) fn need(&mut self, part: &PartId, namespace: &str, translator: &Translator, parts: &Parts) {
        let refused = translator.engine().get::<RefusedPart>(part);
        self.waits |= refused.is_none() && parts.is_waiting(part);
        if let Some(refused) = &refused {
            self.refused.get_or_insert_with(|| refused.told(namespace).into());
        }
        if refused.is_some() || parts.is_waiting(part) {
            self.parts.push(part.clone());
        }
    }
}
