//! Trees that keep their last good version: what of them becomes the next one, and what ends.
//!
//! The engine never waits: what shall be kept is told to whoever stores it ([`Wants`]), and served once it is stored.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use api::{Object, ObjectId};
use ir::{Reason, RouteId, settings::Freeze};
use tokio::sync::watch;
use translate::{Candidate, Edition, FreezeTold, Translator, Wish, level, object_id};

use crate::{
    guarded::Guarded,
    metrics::{Metrics, OutcomeLabel, ReasonLabel},
};

/// The annotation of a root that keeps its tree from becoming the next edition.
const HOLD: &str = "portcullis.dev/hold";
/// The annotation of a root by which its tree becomes the next edition as it is, in the place of the one that it names.
const THAW: &str = "portcullis.dev/thaw";

/// Why a tree is served as it was before.
const FROZEN: [Reason; 5] =
    [Reason::TreeBroken, Reason::Hold, Reason::CommitPending, Reason::TooLarge, Reason::InternalFault];

/// What shall be kept of roots, by namespace and name.
pub type Wants = Arc<BTreeMap<(String, String), Wanted>>;

/// What shall be kept of a root.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Counts what was wanted: what is done has the same.
    pub number: u64,
    /// Tells the root from a later one of its name.
    pub uid: String,
    /// The objects; none where nothing is kept any more.
    pub objects: Option<Arc<BTreeMap<ObjectId, Object>>>,
}

/// What is stored.
#[derive(Clone, Debug)]
pub struct StoredEdition {
    /// The namespace of the root.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid; empty where it has none.
    pub uid: String,
    /// The edition's name.
    pub hash: String,
    /// How many bytes it has.
    pub bytes: u64,
    /// Its objects, or why they cannot be read.
    pub objects: Result<BTreeMap<ObjectId, Object>, String>,
}

/// What is told of what is stored.
#[derive(Clone, Debug)]
pub enum EditionEvent {
    /// What was stored before, or why that cannot be read.
    Read(Result<Vec<StoredEdition>, String>),
    /// What was wanted was done, or failed and is tried again.
    Written {
        /// The namespace of the root.
        namespace: String,
        /// Its name.
        name: String,
        /// The number of what was wanted.
        number: u64,
        /// How many bytes it has, or why it failed.
        result: Result<u64, String>,
    },
}

/// A root of which something is or shall be kept.
#[derive(Debug, Default)]
struct Root {
    /// What is served, and the uid of the root then.
    edition: Option<Kept>,
    /// What is being stored.
    wanted: Option<(u64, Option<Kept>)>,
    /// Why the last attempt failed.
    failure: Option<(Reason, String)>,
    /// Why nothing of what is stored can be served.
    unreadable: Option<String>,
    told: Option<FreezeTold>,
}

#[derive(Clone, Debug, PartialEq)]
struct Kept {
    edition: Arc<Edition>,
    uid: Arc<str>,
    /// Its name.
    hash: Arc<str>,
    bytes: u64,
}

/// What keeps trees.
pub(super) struct Freezer {
    bounds: Freeze,
    roots: BTreeMap<RouteId, Root>,
    /// None where nothing outlives the process.
    wants: Option<watch::Sender<Wants>>,
    /// What was read has to be held against the objects.
    is_fresh: bool,
    number: u64,
}

impl Freezer {
    pub(super) fn new(bounds: Freeze, wants: Option<watch::Sender<Wants>>) -> Self {
        Self { bounds, roots: BTreeMap::new(), wants, is_fresh: true, number: 0 }
    }

    /// Takes what is told of what is stored.
    pub(super) fn take(&mut self, event: EditionEvent, guarded: &mut Guarded, metrics: &Metrics) {
        match event {
            EditionEvent::Read(Ok(all)) => {
                for StoredEdition { namespace, name, uid, hash, bytes, objects } in all {
                    let id = RouteId::http(namespace, name);
                    let root = self.roots.entry(id.clone()).or_default();
                    match objects {
                        Ok(objects) => {
                            let edition = Arc::new(Edition { objects });
                            guarded.set_edition(&id, Some(&edition));
                            root.edition = Some(Kept { edition, uid: uid.into(), hash: hash.into(), bytes });
                        }
                        Err(why) => {
                            tracing::error!(root = %id, why, "what is kept of a tree cannot be read: it runs with replacement");
                            root.unreadable = Some(why);
                        }
                    }
                }
                self.is_fresh = true;
            }
            EditionEvent::Read(Err(why)) => {
                tracing::error!(why, "what is kept of trees cannot be read: they run with replacement");
            }
            EditionEvent::Written { namespace, name, number, result } => {
                let outcome = OutcomeLabel::of(if result.is_ok() { "stored" } else { "failed" });
                metrics.edition_commits.get_or_create(&outcome).inc();
                let id = RouteId::http(namespace, name);
                let Some(root) = self.roots.get_mut(&id) else { return };
                if root.wanted.as_ref().is_none_or(|(wanted, _)| *wanted != number) {
                    return;
                }
                match result {
                    Ok(bytes) => {
                        root.failure = None;
                        let Some((_, Some(kept))) = root.wanted.take() else { return };
                        guarded.set_edition(&id, Some(&kept.edition));
                        root.unreadable = None;
                        root.edition = Some(Kept { bytes, ..kept });
                    }
                    Err(why) => {
                        let failure = Some((Reason::CommitPending, why));
                        if let (Some((_, why)), true) = (&failure, root.failure != failure) {
                            tracing::warn!(root = %id, why, "what shall be kept of a tree cannot be stored; it is tried again");
                        }
                        root.failure = failure;
                    }
                }
                self.tell(&id, guarded);
            }
        }
    }

    /// Looks at what changed of trees. Whether anything was written, so that it has to settle again.
    pub(super) fn look(&mut self, guarded: &mut Guarded) -> bool {
        let mut changed: BTreeSet<_> = guarded.translator_mut().take_trees().into_iter().collect();
        if std::mem::take(&mut self.is_fresh) {
            changed.extend(self.roots.keys().cloned());
        }
        let mut wrote = false;
        for id in changed {
            wrote |= self.look_at(&id, guarded);
            wrote |= self.tell(&id, guarded);
        }
        wrote
    }

    fn look_at(&mut self, id: &RouteId, guarded: &mut Guarded) -> bool {
        let candidate = match guarded.tree(id) {
            Wish::Over => return self.end(id, guarded),
            Wish::Unknown => return false,
            Wish::Kept(candidate) => candidate,
        };
        let uid = uid_of(guarded, id);
        let root = self.roots.entry(id.clone()).or_default();
        let mut wrote = false;
        // What is kept of another root of the name is nothing of this one.
        let is_other = |kept: &Kept| !kept.uid.is_empty() && !uid.is_empty() && kept.uid != uid;
        if root.edition.as_ref().is_some_and(is_other) {
            wrote = self.end(id, guarded);
        }
        if annotation(guarded, id, HOLD).is_some_and(|value| value == "true") {
            return wrote;
        }
        let root = self.roots.entry(id.clone()).or_default();
        let thaws = annotation(guarded, id, THAW)
            .is_some_and(|named| root.edition.as_ref().is_some_and(|kept| *kept.hash == *named));
        let is_to_be_kept = candidate.is_good() || thaws && !candidate.objects.is_empty();
        if !is_to_be_kept {
            return wrote;
        }
        self.keep(id, candidate, uid, guarded) | wrote
    }

    /// Has a tree be kept as it is.
    fn keep(&mut self, id: &RouteId, candidate: Candidate, uid: Arc<str>, guarded: &mut Guarded) -> bool {
        let edition = Edition { objects: candidate.objects };
        let root = self.roots.entry(id.clone()).or_default();
        let wanted = root.wanted.as_ref().and_then(|(_, wanted)| wanted.as_ref());
        if wanted.or(root.edition.as_ref()).is_some_and(|kept| *kept.edition == edition) {
            root.failure = root.failure.take().filter(|_| root.wanted.is_some());
            return false;
        }
        let now = jiff::Timestamp::now();
        let written = match records::edition::write((id.namespace(), &id.name.name), &uid, &edition.objects, now) {
            Ok(written) => written,
            Err(error) => {
                root.failure = Some((Reason::CommitPending, error.to_string()));
                return false;
            }
        };
        let Some(evicted) = self.room(id, written.bytes) else {
            let words = format!(
                "what would be kept of it has {} bytes, and is more than its namespace's share of freeze.maxBytes, \
                 freeze.maxTreeBytes or freeze.maxTrees",
                written.bytes
            );
            self.roots.entry(id.clone()).or_default().failure = Some((Reason::TooLarge, words));
            return false;
        };
        let mut wrote = false;
        for other in evicted {
            tracing::warn!(root = %other, "what is kept of a tree ends, since its namespace has more than its share");
            wrote |= self.end(&other, guarded);
            self.roots.entry(other.clone()).or_default().failure =
                Some((Reason::TooLarge, "its namespace has more than its share of what may be kept".to_owned()));
            wrote |= self.tell(&other, guarded);
        }
        let kept =
            Kept { edition: Arc::new(edition), uid, hash: written.head.hash.as_str().into(), bytes: written.bytes };
        if self.wants.is_some() {
            self.want(id, Some(kept));
        } else {
            guarded.set_edition(id, Some(&kept.edition));
            let root = self.roots.entry(id.clone()).or_default();
            (root.edition, root.failure) = (Some(kept), None);
            wrote = true;
        }
        wrote
    }

    /// Nothing is kept of a root any more.
    fn end(&mut self, id: &RouteId, guarded: &mut Guarded) -> bool {
        let Some(root) = self.roots.get_mut(id) else { return false };
        let is_kept = root.edition.take().is_some();
        let is_wanted = matches!(&root.wanted, Some((_, Some(_))));
        let is_stored = is_kept || is_wanted || root.unreadable.take().is_some();
        root.failure = None;
        if is_kept {
            guarded.set_edition(id, None);
        }
        if is_stored && self.wants.is_some() {
            self.want(id, None);
        }
        is_kept
    }

    fn want(&mut self, id: &RouteId, kept: Option<Kept>) {
        self.number += 1;
        let number = self.number;
        let wanted = Wanted {
            number,
            uid: kept.as_ref().map(|kept| kept.uid.to_string()).unwrap_or_default(),
            objects: kept.as_ref().map(|kept| Arc::new(kept.edition.objects.clone())),
        };
        if let Some(wants) = &self.wants {
            wants.send_modify(|all| {
                Arc::make_mut(all).insert((id.namespace().to_string(), id.name.name.to_string()), wanted);
            });
        }
        self.roots.entry(id.clone()).or_default().wanted = Some((number, kept));
    }

    /// Whose editions end so that there is room for so many bytes of a root; none where it has no room. Who asks for no more than
    /// an equal share has it, whatever others have.
    fn room(&self, id: &RouteId, bytes: u64) -> Option<Vec<RouteId>> {
        if bytes > self.bounds.max_tree_bytes {
            return None;
        }
        let bytes_of = |root: &Root| match (&root.wanted, &root.edition) {
            (Some((_, Some(kept))), _) | (_, Some(kept)) => Some(kept.bytes),
            _ => None,
        };
        let mut kept: BTreeMap<RouteId, u64> =
            self.roots.iter().filter_map(|(id, root)| Some((id.clone(), bytes_of(root)?))).collect();
        kept.insert(id.clone(), bytes);
        let mut evicted = Vec::new();
        for (bound, counts) in [(self.bounds.max_bytes, false), (self.bounds.max_trees, true)] {
            let weight = |bytes: u64| if counts { 1 } else { bytes };
            let mut asked: BTreeMap<Arc<str>, u64> = BTreeMap::new();
            for (root, bytes) in &kept {
                *asked.entry(root.namespace().clone()).or_default() += weight(*bytes);
            }
            let share = level(bound, asked.values().copied());
            if asked.get(id.namespace()).is_some_and(|own| *own > share) {
                return None;
            }
            for (namespace, mut own) in asked.into_iter().filter(|(_, own)| *own > share) {
                let mut of: Vec<_> = kept
                    .iter()
                    .filter(|(root, _)| *root.namespace() == namespace)
                    .map(|(root, bytes)| (*bytes, root.clone()))
                    .collect();
                of.sort();
                while own > share
                    && let Some((bytes, root)) = of.pop()
                {
                    own -= weight(bytes);
                    kept.remove(&root);
                    evicted.push(root);
                }
            }
        }
        Some(evicted)
    }

    /// Has the root told how it is served. Whether that turned.
    fn tell(&mut self, id: &RouteId, guarded: &mut Guarded) -> bool {
        let is_durable = self.wants.is_some();
        let wish = guarded.tree(id);
        let holds = annotation(guarded, id, HOLD).is_some_and(|value| value == "true");
        let is_closed = guarded.is_closed_edition(id);
        let Some(root) = self.roots.get_mut(id) else { return false };
        let told = match wish {
            Wish::Over => None,
            Wish::Unknown => return false,
            Wish::Kept(candidate) => Some(told(root, &candidate, is_durable, holds, is_closed)),
        };
        let is_over = told.is_none() && root.wanted.is_none() && root.edition.is_none();
        let turned = root.told != told;
        if turned {
            root.told.clone_from(&told);
            guarded.translator_mut().set_frozen(id, told);
        }
        if is_over {
            self.roots.remove(id);
        }
        turned
    }

    /// Counts trees that are served from what is kept of them, by why that is not the tree as it is.
    pub(super) fn count(&self, metrics: &Metrics) {
        let told = || self.roots.values().filter_map(|root| root.told.as_ref()).filter(|told| told.is_frozen);
        for reason in FROZEN {
            let count = told().filter(|told| told.reason == reason).count();
            let labels = ReasonLabel::of(reason.as_str());
            metrics.frozen_trees.get_or_create(&labels).set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        let bytes: u64 = self.roots.values().filter_map(|root| root.edition.as_ref()).map(|kept| kept.bytes).sum();
        metrics.edition_bytes.set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }
}

/// What the owner of a root is told.
fn told(root: &Root, candidate: &Candidate, is_durable: bool, holds: bool, is_closed: bool) -> FreezeTold {
    let faults = || {
        let others = candidate.faults.saturating_sub(candidate.first.len());
        let listed = candidate.first.iter().map(ToString::to_string);
        let others = (others > 0).then(|| format!("{others} more, or of other namespaces"));
        listed.chain(others).collect::<Vec<_>>().join("; ")
    };
    let Some(kept) = &root.edition else {
        let (reason, message) = if let Some(why) = &root.unreadable {
            (
                Reason::EditionUnreadable,
                format!("what is kept of the tree cannot be read: {why}; it runs with replacement until it is good"),
            )
        } else if let Some((reason, why)) = &root.failure {
            (*reason, format!("nothing is kept of the tree: {why}"))
        } else if candidate.is_good() {
            (Reason::CommitPending, "the tree is good, and is being stored".to_owned())
        } else {
            (Reason::NoEdition, format!("nothing is kept of the tree, which was not good yet: {}", faults()))
        };
        return FreezeTold { is_frozen: false, reason, message: message.into() };
    };
    let served = format!("edition {} is served", kept.hash);
    let is_same = candidate.objects == kept.edition.objects;
    let (is_frozen, reason, message) = if is_closed {
        (true, Reason::InternalFault, format!("{served}, and answers 500: this program fails on it; see the log"))
    } else if is_same && candidate.is_good() {
        let words = format!("{served}, which is the tree as it is");
        if is_durable {
            (false, Reason::Committed, words)
        } else {
            (
                false,
                Reason::NotDurable,
                format!("{words}; it does not outlive the controller, which was started without --state"),
            )
        }
    } else if holds {
        (true, Reason::Hold, format!("{served}, and changes wait by the word of the annotation {HOLD}"))
    } else if !candidate.is_good() {
        (true, Reason::TreeBroken, format!("{served}, since the tree as it is now is broken: {}", faults()))
    } else if let Some((reason, why)) = &root.failure {
        (true, *reason, format!("{served}, since the tree as it is now cannot be stored: {why}"))
    } else {
        (true, Reason::CommitPending, format!("{served}, while the tree as it is now is being stored"))
    };
    FreezeTold { is_frozen, reason, message: message.into() }
}

fn uid_of(translator: &Translator, root: &RouteId) -> Arc<str> {
    let object = translator.object(&object_id(root)).map(|shared| shared.object());
    object.as_ref().and_then(Object::metadata).map(|metadata| metadata.uid.to_string().into()).unwrap_or_default()
}

fn annotation(translator: &Translator, root: &RouteId, name: &str) -> Option<String> {
    let object = translator.object(&object_id(root)).map(|shared| shared.object())?;
    object.metadata()?.annotations.get(name).map(ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn freezer(kept: &[(&str, &str, u64)], max_bytes: u64, max_trees: u64) -> Freezer {
        let bounds = Freeze { enabled: true, max_tree_bytes: 60, max_bytes, max_trees };
        let mut freezer = Freezer::new(bounds, None);
        for (namespace, name, bytes) in kept {
            let edition = Arc::new(Edition { objects: BTreeMap::new() });
            let kept = Kept { edition, uid: "".into(), hash: "".into(), bytes: *bytes };
            let root = Root { edition: Some(kept), ..Root::default() };
            freezer.roots.insert(RouteId::http(*namespace, *name), root);
        }
        freezer
    }

    fn room(freezer: &Freezer, root: (&str, &str), bytes: u64) -> Option<Vec<String>> {
        let evicted = freezer.room(&RouteId::http(root.0, root.1), bytes)?;
        Some(evicted.iter().map(|root| root.path().to_string()).collect())
    }

    #[test]
    fn who_asks_for_no_more_than_a_share_has_it_whatever_others_have() {
        // One tenant has all that there is.
        let full = freezer(&[("a", "x", 50), ("a", "y", 40), ("a", "z", 10)], 100, 1_000);
        assert_eq!(room(&full, ("a", "more"), 1), None, "it has its share");
        assert_eq!(room(&full, ("b", "root"), 20), Some(vec!["a/x".to_owned()]));
        assert_eq!(room(&full, ("b", "root"), 51), None, "more than half");
        assert_eq!(room(&full, ("a", "z"), 10), Some(Vec::new()), "what is there is replaced");
    }

    #[test]
    fn a_tree_and_the_number_of_trees_are_bounded() {
        let many = freezer(&[("a", "x", 1), ("a", "y", 1)], 100, 2);
        assert_eq!(room(&many, ("a", "z"), 1), None);
        assert_eq!(room(&many, ("b", "root"), 1), Some(vec!["a/y".to_owned()]));
        assert_eq!(room(&many, ("a", "x"), 61), None, "too large for a tree");
    }
}
