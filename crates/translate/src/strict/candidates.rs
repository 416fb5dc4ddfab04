//! Trees, and policies of Gateways, that shall be kept as they are: what of them nobody knows is asked about before they are kept, so
//! that what Envoy refuses takes the place of nothing that was good.
//!
//! They are served by nobody, so that nothing of them is held back, limited or cleared; and kept only with a word about them and all
//! that they need, however long that takes, and whoever else is served what they need without one.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use api::Kind as ObjectKind;
use ir::{NsName, RootId};

use super::{
    asking::{Asking, Verdict, Wait},
    parts::{Parts, sent},
    roots::Roots,
    waiters::{Item, RowKey, Waiters},
    wide::of_scope,
};
use crate::{
    Translator,
    inspect::Sent,
    tables::{
        backend::ClusterId,
        host::CandidateOffer,
        input::{CandidateWords, ObjectKey, RefusedPart},
        route::RouteHead,
        strict::{CandidateWide, CandidateWord, Offered, OfferedPart, Owner, PartId},
    },
};

/// What is told of a part that is another namespace's.
const OF_OTHERS: &str = "what an object of another namespace comes to cannot be sent";

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
    /// The parts of which is looked what becomes of them.
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
#[derive(Debug, Default)]
struct Root {
    asked: BTreeSet<Candidate>,
    refused: BTreeMap<Candidate, Arc<str>>,
}

impl Candidates {
    /// Takes note of what changed. Whether anything was written.
    pub(super) fn note(&mut self, translator: &mut Translator, roots: &mut Roots, waiters: &mut Waiters) -> bool {
        let mut wrote = false;
        for key in translator.engine_mut().take_changes::<CandidateOffer>() {
            let route = key.0.route().clone();
            wrote |= roots.forget_old(translator, &route, waiters);
            let is_there = translator.engine().get::<CandidateOffer>(&key).is_some();
            if !is_there && translator.engine().get::<RouteHead>(&route).is_none() {
                wrote |= roots.forget(translator, &route, waiters);
            }
            wrote |= self.turned(Candidate::Row(key), is_there, translator, waiters);
        }
        for gateway in translator.engine_mut().take_changes::<CandidateWide>() {
            let is_there = translator.engine().get::<CandidateWide>(&gateway).is_some();
            wrote |= self.turned(Candidate::Wide(gateway), is_there, translator, waiters);
        }
        wrote | self.note_faults(translator, waiters)
    }

    /// Has roots wait of which a part cannot be computed. Whether anything was written.
    fn note_faults(&mut self, translator: &mut Translator, waiters: &mut Waiters) -> bool {
        if self.faulty.is_empty() && translator.faults() == 0 {
            return false;
        }
        let engine = translator.engine();
        let trees = engine.poisoned::<CandidateOffer>().into_iter().map(|((chain, ..), _)| chain.top().root());
        let gateways = engine.poisoned::<CandidateWide>().into_iter().map(|(gateway, _)| RootId::Gateway(gateway));
        let now: BTreeSet<_> = trees.chain(gateways).collect();
        let before = std::mem::replace(&mut self.faulty, now.clone());
        before.difference(&now).for_each(|root| waiters.wake(Item::Candidates(root.clone())));
        now.difference(&before).fold(false, |wrote, root| self.tell(root, translator) | wrote)
    }

    /// Something of a root is another one, or is not there any more. Whether anything was written.
    fn turned(
        &mut self,
        candidate: Candidate,
        is_there: bool,
        translator: &mut Translator,
        waiters: &mut Waiters,
    ) -> bool {
        let root = candidate.root();
        let state = self.roots.entry(root.clone()).or_default();
        state.refused.remove(&candidate);
        if is_there {
            state.asked.insert(candidate.clone());
            waiters.wake(Item::Candidate(candidate));
        } else {
            state.asked.remove(&candidate);
            waiters.forget(&Item::Candidate(candidate));
        }
        self.tell(&root, translator)
    }

    /// Writes what stands against keeping a root. Whether that makes a difference.
    fn tell(&mut self, root: &RootId, translator: &mut Translator) -> bool {
        let state = self.roots.get(root);
        let refused = state.and_then(|state| state.refused.values().next());
        let is_asked = self.faulty.contains(root) || state.is_some_and(|state| !state.asked.is_empty());
        let refused = refused.map(|words| CandidateWord::Refused(words.clone()));
        let word = refused.or(is_asked.then_some(CandidateWord::Awaited));
        if word.is_none() {
            self.roots.remove(root);
        }
        translator.engine_mut().set::<CandidateWords>(root.clone(), word)
    }

    /// Has all be looked at.
    pub(super) fn wake_all(&self, waiters: &mut Waiters) {
        self.roots.keys().for_each(|root| waiters.wake(Item::Candidates(root.clone())));
    }

    /// Has all of a root be looked at. Whether anything was written.
    pub(super) fn look(&mut self, root: &RootId, translator: &mut Translator, waiters: &mut Waiters) -> bool {
        let state = self.roots.get(root);
        let all = state.iter().flat_map(|state| state.asked.iter().chain(state.refused.keys()));
        all.for_each(|candidate| waiters.wake(Item::Candidate(candidate.clone())));
        self.tell(root, translator)
    }

    /// Asks about something of a root. Whether anything was written.
    pub(super) fn judge(
        &mut self,
        candidate: &Candidate,
        translator: &mut Translator,
        roots: &mut Roots,
        parts: &Parts,
        waiters: &mut Waiters,
        asking: &mut Asking<'_>,
    ) -> bool {
        let (root, item) = (candidate.root(), Item::Candidate(candidate.clone()));
        // What cannot be computed is looked at when it can be.
        if self.faulty.contains(&root) {
            return false;
        }
        let engine = translator.engine();
        let is_there = match candidate {
            Candidate::Row(key) => engine.get::<CandidateOffer>(key).is_some(),
            Candidate::Wide(gateway) => engine.get::<CandidateWide>(gateway).is_some(),
        };
        if !is_there {
            waiters.forget(&item);
            return false;
        }
        let looked = match candidate {
            Candidate::Row(key) => roots.judge_candidate(translator, key, &item, parts, asking),
            Candidate::Wide(gateway) => look_at(gateway, &item, translator, asking),
        };
        let state = self.roots.entry(root.clone()).or_default();
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
        self.tell(&root, translator)
    }
}

/// Asks about the policies of a Gateway.
fn look_at(gateway: &NsName, item: &Item, translator: &Translator, asking: &mut Asking<'_>) -> Looked {
    let scopes = translator.engine().get::<CandidateWide>(gateway);
    let owner = Owner::from(gateway.clone().id(ObjectKind::Gateway));
    let mut looked = Looked::default();
    for scope in scopes.iter().flat_map(|scopes| scopes.iter()) {
        looked.ask(of_scope(scope, &owner), item, asking);
        for part in &scope.parts {
            looked.need(part, &gateway.namespace, item, translator, asking);
        }
    }
    looked
}

impl Looked {
    /// Asks about a fragment. Whether it is taken.
    fn ask(&mut self, sent: Sent, item: &Item, asking: &mut Asking<'_>) -> bool {
        match asking.about(item, &sent, Wait::for_a_word(asking.now)) {
            Verdict::Fine => return true,
            Verdict::Refused(words, _) => drop(self.refused.get_or_insert(words)),
            Verdict::Waits(_) | Verdict::NotJudged => {
                self.waits = true;
                self.sent.push(sent);
            }
        }
        false
    }

    /// Asks about a part that it needs, of which the owner of this namespace may be told.
    pub(super) fn need(
        &mut self,
        part: &PartId,
        namespace: &Arc<str>,
        item: &Item,
        translator: &Translator,
        asking: &mut Asking<'_>,
    ) {
        let engine = translator.engine();
        let is_fine = if let Some(refused) = engine.get::<RefusedPart>(part) {
            let is_own = refused.object.namespace == *namespace || refused.object.namespace.is_empty();
            let words = || if is_own { refused.told(namespace).into() } else { OF_OTHERS.into() };
            self.refused.get_or_insert_with(words);
            false
        } else {
            match engine.get::<OfferedPart>(part).as_deref() {
                // What is not there is a fault of whoever needs it.
                Some(Offered { part: None, .. }) => true,
                Some(Offered { part: Some(content), owner }) => {
                    let mut sent = sent(part, content, owner);
                    if sent.object.namespace.is_empty() {
                        sent.object.namespace = namespace.clone();
                    }
                    self.ask(sent, item, asking)
                }
                None => {
                    self.waits = true;
                    false
                }
            }
        };
        // A cluster that is made from a rule changes with it; all others are no part of the tree.
        if !is_fine || matches!(part, PartId::Cluster(ClusterId::Rule(..))) {
            self.parts.push(part.clone());
        }
    }
}
