//! A root of which something is or shall be kept, and what its owner is told.

use std::{collections::BTreeMap, sync::Arc};

use api::{Kind, ObjectId};
use ir::{Reason, RootId};
use records::edition::{EditionError, head_name};
use translate::{Candidate, Edition, FreezeTold, Shared, root_object};

use super::exchange::WrittenEdition;

/// The annotation of a root that keeps its tree from becoming the next edition.
pub(super) const HOLD: &str = "portcullis.dev/hold";
/// The annotation of a root by which its tree becomes the next edition as it is, in the place of the one that it names.
pub(super) const THAW: &str = "portcullis.dev/thaw";

/// Why something is not kept yet that is good as far as is known.
const AWAITED: &str = "no Envoy has said yet whether it takes all of what it is now; it is asked";

/// What is kept of a root, in words.
fn what(root: &RootId) -> &'static str {
    match root {
        RootId::Route(_) => "the tree",
        RootId::Gateway(_) => "the set of its policies",
    }
}

/// A root of which something is or shall be kept.
#[derive(Debug)]
pub(super) struct Root {
    /// The name of its record.
    pub(super) record: String,
    /// What is stored, of which root of the name it may be.
    pub(super) stored: Option<WrittenEdition>,
    /// The name of the edition that is served.
    pub(super) served: Option<Arc<str>>,
    /// What is being stored, or removed.
    pub(super) wanted: Option<(u64, Option<WrittenEdition>)>,
    /// Why the last attempt failed.
    pub(super) failure: Option<(Reason, String)>,
    /// Whether somebody asked in the life of this process that it is kept.
    pub(super) was_asked: bool,
    pub(super) told: Option<FreezeTold>,
    /// The other objects of its tree whose change is not served yet, each with its generation.
    pub(super) withheld: BTreeMap<ObjectId, i64>,
}

impl WrittenEdition {
    /// Whether it is of the root that has this uid now. Where nobody says, it is.
    pub(super) fn is_of(&self, uid: &str) -> bool {
        let own = &self.written.head.uid;
        own.is_empty() || uid.is_empty() || own == uid
    }

    /// Whether an object of it is younger than the same of what is there `now`, so that this is not what there is now.
    pub(super) fn is_younger(&self, now: &Edition) -> bool {
        self.edition.changes_since(now).any(|(id, kept)| {
            let metadata = |object: &Shared| object.object().metadata().map(|it| (it.uid.clone(), it.generation));
            let now = now.get(id).and_then(metadata);
            now.zip(kept.and_then(metadata)).is_some_and(|((now, generation), (kept, kept_generation))| {
                !kept.is_empty() && now == kept && generation > 0 && generation < kept_generation
            })
        })
    }
}

/// What else decides how a root is served.
pub(super) struct Around<'a> {
    /// Whether what is kept outlives the process.
    pub(super) is_durable: bool,
    /// Why what is stored cannot be read.
    pub(super) unreadable: Option<&'a EditionError>,
    /// Whether the root says that its tree is not to be kept as it is.
    pub(super) holds: bool,
    /// Whether what is kept answers 500, since this program fails on it.
    pub(super) is_closed: bool,
}

impl Root {
    pub(super) fn new(id: &RootId) -> Self {
        Self {
            record: head_name(&root_object(id)),
            stored: None,
            served: None,
            wanted: None,
            failure: None,
            was_asked: false,
            told: None,
            withheld: BTreeMap::new(),
        }
    }

    /// How many bytes it takes, once what is wanted is stored.
    pub(super) fn bytes(&self) -> Option<u64> {
        match (&self.wanted, &self.stored) {
            (Some((_, wanted)), _) => wanted.as_ref().map(|kept| kept.written.bytes),
            (None, stored) => stored.as_ref().map(|kept| kept.written.bytes),
        }
    }

    /// Whether nothing is or shall be kept of it.
    pub(super) fn is_over(&self) -> bool {
        self.told.is_none() && self.wanted.is_none() && self.stored.is_none()
    }

    /// The objects of its tree as it is now, without the root, that are served otherwise and have a status.
    pub(super) fn withheld(&self, id: &RootId, candidate: &Candidate) -> BTreeMap<ObjectId, i64> {
        let Some(kept) = self.stored.as_ref().filter(|_| self.told.as_ref().is_some_and(|told| told.is_frozen)) else {
            return BTreeMap::new();
        };
        let root = root_object(id);
        let is_told = |object: &ObjectId| object.kind != Kind::DirectResponse && *object != root;
        let changed = candidate.edition.changes_since(&kept.edition);
        let there = changed.filter(|(object, _)| is_told(object)).filter_map(|(object, now)| Some((object, now?)));
        there.map(|(id, now)| (id.clone(), now.object().metadata().map_or(0, |metadata| metadata.generation))).collect()
    }

    /// What its owner is told.
    pub(super) fn told_of(&self, id: &RootId, candidate: &Candidate, around: &Around<'_>) -> FreezeTold {
        let what = what(id);
        let (broken, instead) = match id {
            RootId::Route(_) => (Reason::TreeBroken, "it runs with replacement"),
            RootId::Gateway(_) => (Reason::PoliciesBroken, "they are served as they are"),
        };
        let faults = || {
            let others = candidate.faults.saturating_sub(candidate.first.len());
            let listed = candidate.first.iter().map(ToString::to_string);
            let others = (others > 0).then(|| format!("{others} more, or of other namespaces"));
            listed.chain(others).collect::<Vec<_>>().join("; ")
        };
        let kept = self.stored.as_ref().filter(|kept| self.served.as_deref() == Some(kept.hash()));
        let Some(kept) = kept else {
            let (reason, message) = if let Some(why) = around.unreadable {
                (
                    Reason::EditionUnreadable,
                    format!("what is kept of {what} cannot be read: {why}; {instead} until it is good"),
                )
            } else if let Some((reason, why)) = &self.failure {
                (*reason, format!("nothing is kept of {what}: {why}"))
            } else if candidate.is_good() {
                (Reason::CommitPending, format!("{what} is good, and is being stored"))
            } else if candidate.is_sound() {
                (Reason::ValidationPending, format!("nothing is kept of {what} yet: {AWAITED}"))
            } else {
                (Reason::NoEdition, format!("nothing is kept of {what}, which was not good yet: {}", faults()))
            };
            return FreezeTold { is_frozen: false, reason, message: message.into() };
        };
        let served = format!("edition {} is served", kept.hash());
        let is_same = candidate.edition == kept.edition;
        let (is_frozen, reason, message) = if around.is_closed {
            (true, Reason::InternalFault, format!("{served}, and answers 500: this program fails on it; see the log"))
        } else if is_same && candidate.is_sound() {
            let words = format!("{served}, which is {what} as it is");
            if around.is_durable {
                (false, Reason::Committed, words)
            } else {
                (
                    false,
                    Reason::NotDurable,
                    format!("{words}; it does not outlive the controller, which was started without --state"),
                )
            }
        } else if around.holds {
            (true, Reason::Hold, format!("{served}, and changes wait by the word of the annotation {HOLD}"))
        } else if is_same {
            (true, broken, format!("{served}, which is {what} as it is, and broken where it answers 500: {}", faults()))
        } else if !candidate.is_sound() {
            (true, broken, format!("{served}, since {what} as it is now is broken: {}", faults()))
        } else if candidate.waits {
            (true, Reason::ValidationPending, format!("{served}: {AWAITED}"))
        } else if let Some((reason, why)) = &self.failure {
            (true, *reason, format!("{served}, since {what} as it is now cannot be stored: {why}"))
        } else {
            (true, Reason::CommitPending, format!("{served}, while {what} as it is now is being stored"))
        };
        FreezeTold { is_frozen, reason, message: message.into() }
    }
}

/// What the owner of another object of the tree of a root is told whose change is not served yet.
pub(super) fn withheld(root: &RootId, object: &ObjectId, generation: i64) -> FreezeTold {
    let is_near = root.namespace() == &object.namespace;
    let keeper = match root {
        RootId::Route(_) if is_near => format!("the tree of {root} keeps its last good version"),
        RootId::Route(_) => "the tree in which it stands keeps its last good version".to_owned(),
        RootId::Gateway(_) => format!("{root} keeps the last good version of its policies"),
    };
    let what = if generation > 0 { format!("generation {generation}") } else { "what it says now".to_owned() };
    let message = format!("{what} is not served yet: {keeper}");
    FreezeTold { is_frozen: true, reason: Reason::ChangeWithheld, message: message.into() }
}
