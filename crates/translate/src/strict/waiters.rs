//! Who waits for which word, and until when: so that a word, or a moment, wakes those alone for whom it makes a difference.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    mem::take,
    sync::Arc,
    time::Instant,
};

use envoy::{bytes::Hash, judged::Kind};
use ir::{Chain, ListenerId, NsName, RootId, RouteId};

use super::candidates::Candidate;
use crate::{inspect::Sent, tables::strict::PartId};

/// A fragment, whatever object it is of.
pub type FragmentId = (Kind, Hash);

/// That of a part of what is sent.
pub(super) fn id(sent: &Sent) -> FragmentId {
    (sent.fragment.kind, sent.fragment.hash)
}

/// A rule where a listener serves it.
pub(super) type RowKey = (Chain, u32, ListenerId);

/// Somebody who waits, or stands for what others wait for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Item {
    /// All that changed of a tree.
    Tree(RouteId),
    /// A rule of it.
    Row(RowKey),
    /// A cluster, or an entry.
    Part(PartId),
    /// What a Gateway and its listeners say.
    Gateway(NsName),
    /// All that is asked about of a root that shall be kept as it is.
    Candidates(RootId),
    /// Something of that.
    Candidate(Candidate),
    /// An Envoy route that is replaced because nobody said anything.
    Replaced(RouteId, Hash),
    /// What is sent though nobody judged it.
    Waived(FragmentId),
}

impl Item {
    /// In whose name what it needs is judged, if that is nobody's own.
    fn namespace(&self) -> Option<&Arc<str>> {
        match self {
            Self::Row((chain, ..)) | Self::Candidate(Candidate::Row((chain, ..))) => Some(chain.route().namespace()),
            Self::Gateway(gateway) | Self::Candidate(Candidate::Wide(gateway)) => Some(&gateway.namespace),
            _ => None,
        }
    }
}

/// A fragment, and in whose name it is judged.
pub type Asked = (FragmentId, Arc<str>);

/// What shall be judged from now on, and what no longer.
#[derive(Debug, Default)]
pub struct Wanted {
    /// What is new.
    pub more: Vec<Sent>,
    /// What nobody waits for any more.
    pub less: Vec<Asked>,
}

/// How many of those who ask for the same are tried for one in whose name it is judged soon.
const NAMES: usize = 8;

#[derive(Debug, Default)]
pub(super) struct Waiters {
    /// What each waits for.
    of: HashMap<Item, Waits>,
    by_fragment: HashMap<FragmentId, BTreeSet<Item>>,
    by_part: HashMap<PartId, BTreeSet<Item>>,
    /// What shall be judged, and how many wait for it.
    wanted: BTreeMap<Asked, (Sent, usize)>,
    /// What of that turned since it was told.
    turned: BTreeSet<Asked>,
    alarms: BTreeSet<(Instant, Item)>,
    /// Who is to be looked at.
    awake: BTreeSet<Item>,
}

#[derive(Debug, Default)]
struct Waits {
    fragments: Vec<Asked>,
    parts: Vec<PartId>,
}

impl Waiters {
    /// Somebody waits for these from now on, and for nothing else.
    pub(super) fn set(&mut self, item: &Item, sent: Vec<Sent>, parts: Vec<PartId>) {
        let before = self.of.remove(item).unwrap_or_default();
        let mut now = Waits { fragments: Vec::new(), parts };
        for sent in sent {
            let asked = (id(&sent), sent.object.namespace.clone());
            if now.fragments.contains(&asked) {
                continue;
            }
            self.by_fragment.entry(asked.0).or_default().insert(item.clone());
            let entry = self.wanted.entry(asked.clone());
            let entry = entry.or_insert_with(|| {
                self.turned.insert(asked.clone());
                (sent, 0)
            });
            entry.1 += 1;
            now.fragments.push(asked);
        }
        for part in &now.parts {
            if self.by_part.entry(part.clone()).or_default().insert(item.clone()) {
                // It may be judged in another name.
                self.awake.insert(Item::Part(part.clone()));
            }
        }
        for asked in before.fragments {
            if !now.fragments.iter().any(|(id, _)| *id == asked.0) {
                remove(&mut self.by_fragment, &asked.0, item);
            }
            if let Some(entry) = self.wanted.get_mut(&asked) {
                entry.1 -= 1;
                if entry.1 == 0 {
                    self.wanted.remove(&asked);
                    self.turned.insert(asked);
                }
            }
        }
        for part in before.parts {
            if !now.parts.contains(&part) {
                remove(&mut self.by_part, &part, item);
            }
        }
        if !now.fragments.is_empty() || !now.parts.is_empty() {
            self.of.insert(item.clone(), now);
        }
    }

    /// Somebody waits for nothing any more.
    pub(super) fn forget(&mut self, item: &Item) {
        self.set(item, Vec::new(), Vec::new());
    }

    /// Has somebody be looked at.
    pub(super) fn wake(&mut self, item: Item) {
        self.awake.insert(item);
    }

    /// The word about a fragment turned.
    pub(super) fn wake_for(&mut self, fragment: &FragmentId) {
        self.awake.extend(self.by_fragment.get(fragment).into_iter().flatten().cloned());
    }

    /// It turned what becomes of a part.
    pub(super) fn wake_for_part(&mut self, part: &PartId) {
        self.awake.extend(self.by_part.get(part).into_iter().flatten().cloned());
    }

    /// Any word may have turned.
    pub(super) fn wake_all(&mut self) {
        self.awake.extend(self.of.keys().cloned());
    }

    /// Has somebody be looked at then.
    pub(super) fn alarm(&mut self, item: &Item, moments: impl IntoIterator<Item = Instant>) {
        self.alarms.extend(moments.into_iter().map(|at| (at, item.clone())));
    }

    /// Takes that back.
    pub(super) fn silence(&mut self, item: &Item, moments: impl IntoIterator<Item = Instant>) {
        for at in moments {
            self.alarms.remove(&(at, item.clone()));
        }
    }

    /// Wakes those whose moment has come.
    pub(super) fn ring(&mut self, now: Instant) {
        while self.alarms.first().is_some_and(|(at, _)| *at <= now) {
            self.awake.extend(self.alarms.pop_first().map(|(_, item)| item));
        }
    }

    /// Whether anybody is to be looked at now.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        !self.awake.is_empty() || self.alarms.first().is_some_and(|(at, _)| *at <= now)
    }

    pub(super) fn take_awake(&mut self) -> BTreeSet<Item> {
        take(&mut self.awake)
    }

    /// In whose names a part may be judged that is nobody's own: of those who wait for it.
    pub(super) fn namespaces(&self, part: &PartId) -> Vec<Arc<str>> {
        let items = self.by_part.get(part).into_iter().flatten();
        let mut namespaces: Vec<_> = Vec::new();
        for namespace in items.filter_map(Item::namespace) {
            if !namespaces.contains(namespace) {
                namespaces.push(namespace.clone());
            }
            if namespaces.len() == NAMES {
                break;
            }
        }
        namespaces
    }

    /// What shall be judged.
    pub(super) fn wanted(&self) -> impl ExactSizeIterator<Item = &Sent> {
        self.wanted.values().map(|(sent, _)| sent)
    }

    /// How that differs from what was told before.
    pub(super) fn take_wanted(&mut self) -> Wanted {
        let mut wanted = Wanted::default();
        for asked in take(&mut self.turned) {
            match self.wanted.get(&asked) {
                Some((sent, _)) => wanted.more.push(sent.clone()),
                None => wanted.less.push(asked),
            }
        }
        wanted
    }
}

fn remove<K: std::hash::Hash + Eq>(by: &mut HashMap<K, BTreeSet<Item>>, key: &K, item: &Item) {
    if let Some(items) = by.get_mut(key) {
        items.remove(item);
        if items.is_empty() {
            by.remove(key);
        }
    }
}
