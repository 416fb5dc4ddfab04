//! Trees that keep their last good version: what of them becomes the next one, and what ends.
//!
//! The engine never waits: what shall be kept is told to whoever stores it ([`Wants`]), and served once it is stored. What is stored
//! is served by every replica, and follows from nothing else: so all serve the same. The leader alone wants anything.

mod exchange;
mod room;
mod root;

use std::{
    collections::{BTreeMap, BTreeSet},
    mem::take,
    sync::Arc,
};

use api::{Object, ObjectId};
use ir::{Reason, RootId, settings::Freeze};
use records::edition::{EditionError, Group};
use tokio::sync::watch;
use translate::{Edition, Translator, Wish, root_object, root_of};

pub use exchange::{EditionEvent, Outcome, StoredEdition, Wanted, Wants, WrittenEdition};

use self::{
    room::room,
    root::{Around, HOLD, Root, THAW, withheld},
};
use crate::{
    guarded::Guarded,
    metrics::{Metrics, OutcomeLabel, ReasonLabel},
};

/// Why a tree is served as it was before.
const FROZEN: [Reason; 7] = [
    Reason::TreeBroken,
    Reason::PoliciesBroken,
    Reason::Hold,
    Reason::ValidationPending,
    Reason::CommitPending,
    Reason::TooLarge,
    Reason::InternalFault,
];

/// What keeps trees.
pub(super) struct Freezer {
    bounds: Freeze,
    roots: BTreeMap<RootId, Root>,
    /// The roots by the names of their records.
    names: BTreeMap<String, RootId>,
    /// Why records cannot be read.
    unreadable: BTreeMap<String, EditionError>,
    /// None where nothing outlives the process.
    wants: Option<watch::Sender<Wants>>,
    /// Whether what is wanted is stored.
    leads: bool,
    /// Whose record, or whose kept version, is to be held against what there is now.
    again: BTreeSet<RootId>,
    /// Records that cannot be read may be of roots that are not there.
    is_fresh: bool,
    number: u64,
}

/// What is known of the objects that there are.
pub(super) struct Known<'a> {
    /// Whether all are, of all roots.
    pub(super) all: bool,
    /// Whether the objects are that decide whether the tree of a root is kept.
    pub(super) of: &'a dyn Fn(&RootId) -> bool,
}

impl Freezer {
    pub(super) fn new(bounds: Freeze, wants: Option<watch::Sender<Wants>>) -> Self {
        Self {
            bounds,
            roots: BTreeMap::new(),
            names: BTreeMap::new(),
            unreadable: BTreeMap::new(),
            leads: wants.is_none(),
            wants,
            again: BTreeSet::new(),
            is_fresh: false,
            number: 0,
        }
    }

    fn root(&mut self, id: &RootId) -> &mut Root {
        let names = &mut self.names;
        self.roots.entry(id.clone()).or_insert_with(|| {
            let root = Root::new(id);
            names.insert(root.record.clone(), id.clone());
            root
        })
    }

    /// Takes what is told of what is stored.
    pub(super) fn take(&mut self, event: EditionEvent, guarded: &mut Guarded, metrics: &Metrics) {
        match event {
            EditionEvent::Stored(Ok(all)) => all.into_iter().for_each(|stored| self.take_stored(stored, guarded)),
            EditionEvent::Stored(Err(why)) => {
                tracing::error!(why, "what is kept of trees cannot be read: it is served as far as it was read before");
            }
            EditionEvent::Leads(leads) => {
                self.leads = leads;
                // What one wanted when one led last may be wrong by now.
                self.roots.values_mut().for_each(|root| root.wanted = None);
                if let Some(wants) = &self.wants {
                    wants.send_replace(Wants::default());
                }
                self.again.extend(self.roots.keys().cloned());
                self.is_fresh = leads;
            }
            EditionEvent::Written { record, number, outcome } => {
                let label = match &outcome {
                    Outcome::Stored => "stored",
                    Outcome::Stale => "stale",
                    Outcome::Failed(_) => "failed",
                };
                metrics.edition_commits.get_or_create(&OutcomeLabel::of(label)).inc();
                let Some(id) = self.names.get(&record).cloned() else { return };
                let root = self.root(&id);
                if root.wanted.as_ref().is_none_or(|(wanted, _)| *wanted != number) {
                    return;
                }
                if let Outcome::Failed(why) = outcome {
                    let failure = Some((Reason::CommitPending, why));
                    if let (Some((_, why)), true) = (&failure, root.failure != failure) {
                        tracing::warn!(root = %id, why, "what shall be kept of a tree cannot be stored; it is tried again");
                    }
                    root.failure = failure;
                } else {
                    (root.wanted, root.failure) = (None, None);
                    self.want_no_more(&record);
                }
                self.again.insert(id);
            }
        }
    }

    fn take_stored(&mut self, StoredEdition { record, edition }: StoredEdition, guarded: &mut Guarded) {
        self.unreadable.remove(&record);
        let stored = match edition {
            Some(Ok(stored)) => {
                if let Some(id) = root_of(&stored.written.head.root()) {
                    self.root(&id);
                }
                Some(stored)
            }
            Some(Err(why)) => {
                tracing::error!(record, %why, "what is kept of a tree cannot be read: it runs with replacement");
                self.unreadable.insert(record.clone(), why);
                self.is_fresh = true;
                None
            }
            None => None,
        };
        let Some(id) = self.names.get(&record).cloned() else { return };
        self.root(&id).stored = stored;
        self.serve(&id, guarded);
        self.again.insert(id);
    }

    /// Has what is stored be served, if it is of the root that there is now. Whether that turned.
    fn serve(&mut self, id: &RootId, guarded: &mut Guarded) -> bool {
        let uid = uid_of(guarded, id);
        let Some(root) = self.roots.get_mut(id) else { return false };
        let kept = root.stored.as_ref().filter(|kept| kept.is_of(&uid));
        let hash = kept.map(WrittenEdition::hash);
        let turned = root.served.as_deref() != hash;
        if turned {
            guarded.set_edition(id, kept.map(|kept| &kept.edition));
            root.served = hash.map(Into::into);
        }
        turned
    }

    /// Looks at what changed of trees. Whether anything was written, so that it has to settle again.
    pub(super) fn look(&mut self, guarded: &mut Guarded, known: &Known<'_>) -> bool {
        let mut changed: BTreeSet<_> = guarded.translator_mut().take_roots().into_iter().collect();
        changed.append(&mut self.again);
        let mut wrote = false;
        for id in changed {
            wrote |= self.serve(&id, guarded);
            self.look_at(&id, guarded, known);
            wrote |= self.serve(&id, guarded) | self.tell(&id, guarded);
        }
        if self.leads && known.all && take(&mut self.is_fresh) {
            self.forget_strays();
        }
        wrote
    }

    /// Has records go that cannot be read, and that are of no root that asks for one. What a later release wrote may be of a root
    /// that this one does not know: it stays.
    fn forget_strays(&mut self) {
        let is_asked = |record: &String| {
            self.names.get(record).and_then(|id| self.roots.get(id)).is_some_and(|root| root.was_asked)
        };
        let strays = self.unreadable.iter().filter(|(record, why)| !is_asked(record) && !why.is_newer());
        let strays: Vec<_> = strays.map(|(record, _)| record.clone()).collect();
        for record in strays {
            self.number += 1;
            self.want_of(record, Wanted { number: self.number, parent: None, edition: None });
        }
    }

    fn look_at(&mut self, id: &RootId, guarded: &mut Guarded, known: &Known<'_>) {
        let candidate = match guarded.wish(id) {
            Wish::Over => {
                let Some(root) = self.roots.get_mut(id) else { return };
                if root.was_asked || (known.of)(id) {
                    root.was_asked = false;
                    self.end(id);
                } else {
                    // What cannot be read yet may ask for it.
                    self.again.insert(id.clone());
                }
                return;
            }
            Wish::Unknown => return,
            Wish::Kept(candidate) => candidate,
        };
        let uid = uid_of(guarded, id);
        let root = self.root(id);
        root.was_asked = true;
        let is_others = root.stored.as_ref().is_some_and(|kept| !kept.is_of(&uid));
        let served = root.served.clone();
        let is_held = annotation(guarded, id, HOLD).is_some_and(|value| value == "true");
        let thaws = annotation(guarded, id, THAW).is_some_and(|named| served.as_deref() == Some(&*named));
        let is_to_be_kept = candidate.is_good() || thaws && !candidate.edition.is_empty();
        if is_to_be_kept && !is_held {
            self.keep(id, candidate.edition, &uid);
        } else if is_others {
            self.end(id);
        }
    }

    /// Has a tree be kept as it is, which is good or wanted so.
    fn keep(&mut self, id: &RootId, edition: Edition, uid: &str) {
        if !self.leads {
            return;
        }
        let root = self.root(id);
        let last = root.wanted.as_ref().map_or(root.stored.as_ref(), |(_, wanted)| wanted.as_ref());
        let is_same = |kept: &WrittenEdition| kept.written.head.uid == uid && kept.edition == edition;
        if last.is_some_and(is_same) {
            root.failure = root.failure.take().filter(|_| root.wanted.is_some());
            return;
        }
        if root.stored.as_ref().is_some_and(|kept| kept.is_younger(&edition)) {
            let words = "what is kept is younger than what this controller has seen of it";
            root.failure = Some((Reason::CommitPending, words.to_owned()));
            return;
        }
        let now = jiff::Timestamp::now();
        let before = last.map(|kept| &*kept.written);
        let groups: Vec<_> =
            edition.parts().map(|part| Group { of: part.hash(), objects: || part.objects() }).collect();
        let written = match records::edition::write(&root_object(id), uid, &groups, now, before) {
            Ok(written) => written,
            Err(error) => {
                root.failure = Some((Reason::CommitPending, error.to_string()));
                return;
            }
        };
        let kept = self.roots.iter().filter_map(|(id, root)| Some((id.clone(), root.bytes()?))).collect();
        let Some(evicted) = room(&self.bounds, kept, id, written.bytes) else {
            let words = format!(
                "what would be kept of it has {} bytes, and is more than its namespace's share of freeze.maxBytes, \
                 freeze.maxTreeBytes or freeze.maxTrees",
                written.bytes
            );
            self.root(id).failure = Some((Reason::TooLarge, words));
            return;
        };
        for other in evicted {
            tracing::warn!(root = %other, "what is kept of a tree ends, since its namespace has more than its share");
            self.end(&other);
            self.root(&other).failure =
                Some((Reason::TooLarge, "its namespace has more than its share of what may be kept".to_owned()));
            self.again.insert(other);
        }
        drop(groups);
        self.want(id, Some(WrittenEdition { edition, written: written.into() }));
    }

    /// Nothing is kept of a root any more.
    fn end(&mut self, id: &RootId) {
        let Some(root) = self.roots.get_mut(id) else { return };
        root.failure = None;
        let is_stored = root.stored.is_some() || self.unreadable.contains_key(&root.record);
        let is_to_go = match &root.wanted {
            None => is_stored,
            Some((_, wanted)) => wanted.is_some(),
        };
        if is_to_go && self.leads {
            self.want(id, None);
        }
    }

    fn want(&mut self, id: &RootId, kept: Option<WrittenEdition>) {
        if self.wants.is_none() {
            let root = self.root(id);
            (root.stored, root.failure) = (kept, None);
            return;
        }
        self.number += 1;
        let number = self.number;
        let root = self.root(id);
        let parent = root.stored.as_ref().map(|kept| kept.hash().to_owned());
        root.wanted = Some((number, kept.clone()));
        let record = root.record.clone();
        self.want_of(record, Wanted { number, parent, edition: kept });
    }

    fn want_of(&self, record: String, wanted: Wanted) {
        if let Some(wants) = &self.wants {
            wants.send_modify(|all| drop(Arc::make_mut(all).insert(record, wanted)));
        }
    }

    fn want_no_more(&self, record: &str) {
        if let Some(wants) = &self.wants {
            // There is nothing to do for whoever listens.
            wants.send_if_modified(|all| {
                Arc::make_mut(all).remove(record);
                false
            });
        }
    }

    /// Has the root told how it is served. Whether that turned.
    fn tell(&mut self, id: &RootId, guarded: &mut Guarded) -> bool {
        let wish = guarded.wish(id);
        let holds = annotation(guarded, id, HOLD).is_some_and(|value| value == "true");
        let is_closed = guarded.is_closed_edition(id);
        let Some(root) = self.roots.get_mut(id) else { return false };
        let unreadable = self.unreadable.get(&root.record);
        let around = Around { is_durable: self.wants.is_some(), unreadable, holds, is_closed };
        let candidate = match wish {
            Wish::Over => None,
            Wish::Unknown => return false,
            Wish::Kept(candidate) => Some(candidate),
        };
        let told = candidate.as_ref().map(|candidate| root.told_of(id, candidate, &around));
        let mut turned = root.told != told;
        if turned {
            root.told.clone_from(&told);
            guarded.translator_mut().set_frozen(&root_object(id), told);
        }
        let now = candidate.map(|candidate| root.withheld(id, &candidate)).unwrap_or_default();
        let before = std::mem::replace(&mut root.withheld, now);
        turned |= self.tell_others(id, &before, guarded);
        let Some(root) = self.roots.get(id) else { return turned };
        if root.is_over() && unreadable.is_none() {
            self.names.remove(&root.record);
            self.roots.remove(id);
        }
        turned
    }

    /// Has other objects of a tree told of whose change it is known by now that it waits, or that it does no more.
    fn tell_others(&self, id: &RootId, before: &BTreeMap<ObjectId, i64>, guarded: &mut Guarded) -> bool {
        let none = BTreeMap::new();
        let now = self.roots.get(id).map_or(&none, |root| &root.withheld);
        let turned = before.keys().chain(now.keys()).filter(|object| before.get(*object) != now.get(*object));
        let turned: BTreeSet<_> = turned.collect();
        for object in &turned {
            // A root is told of its own tree.
            if root_of(object).and_then(|root| self.roots.get(&root)).is_some_and(|root| root.told.is_some()) {
                continue;
            }
            let mut by = self.roots.iter().filter_map(|(id, root)| Some((id, *root.withheld.get(*object)?)));
            let told = by.next().map(|(root, generation)| withheld(root, object, generation));
            guarded.translator_mut().set_frozen(object, told);
        }
        !turned.is_empty()
    }

    /// Counts trees that are served from what is kept of them, by why that is not the tree as it is.
    pub(super) fn count(&self, metrics: &Metrics) {
        let told = || self.roots.values().filter_map(|root| root.told.as_ref()).filter(|told| told.is_frozen);
        for reason in FROZEN {
            let count = told().filter(|told| told.reason == reason).count();
            let labels = ReasonLabel::of(reason.as_str());
            metrics.frozen_trees.get_or_create(&labels).set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        let bytes: u64 =
            self.roots.values().filter_map(|root| root.stored.as_ref()).map(|kept| kept.written.bytes).sum();
        metrics.edition_bytes.set(i64::try_from(bytes).unwrap_or(i64::MAX));
        let withheld: usize = self.roots.values().map(|root| root.withheld.len()).sum();
        metrics.withheld_changes.set(i64::try_from(withheld).unwrap_or(i64::MAX));
        metrics.unreadable_editions.set(i64::try_from(self.unreadable.len()).unwrap_or(i64::MAX));
    }
}

fn uid_of(translator: &Translator, root: &RootId) -> Arc<str> {
    let object = translator.object(&root_object(root)).map(|shared| shared.object());
    object.as_ref().and_then(Object::metadata).map(|metadata| metadata.uid.clone()).unwrap_or_default()
}

fn annotation(translator: &Translator, root: &RootId, name: &str) -> Option<String> {
    let object = translator.object(&root_object(root)).map(|shared| shared.object())?;
    object.metadata()?.annotations.get(name).map(ToString::to_string)
}
