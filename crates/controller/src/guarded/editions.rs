//! Editions on which this program fails: what is kept of a tree answers 500 then, and no object is to blame for it.
//!
//! An object may be innocent of what an edition of it says, and the objects beside it are. So what an edition makes panic is taken
//! from the edition alone: first all that its rules do, so that each answers 500 to what it matches, then its matches too, so that
//! all of its hostnames answer 500.

use std::collections::{BTreeMap, BTreeSet};

use ir::RootId;
use translate::Edition;

use super::{Guarded, caught};

/// What is kept of trees, as far as it has to be known here.
#[derive(Debug, Default)]
pub(super) struct Editions {
    all: BTreeMap<RootId, Edition>,
    /// How far each is closed that is.
    closed: BTreeMap<RootId, Closed>,
    /// Those that were not settled yet.
    fresh: BTreeSet<RootId>,
}

/// How far an edition is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Closed {
    /// Its rules answer by themselves.
    Rules,
    /// All of its hostnames do.
    All,
}

impl Editions {
    pub(super) fn settled(&mut self) {
        self.fresh.clear();
    }
}

impl Guarded {
    /// What is kept of the tree of a root: see [`translate::Translator::set_edition`].
    pub fn set_edition(&mut self, root: &RootId, edition: Option<&Edition>) {
        self.editions.closed.remove(root);
        match edition {
            Some(edition) => {
                self.editions.all.insert(root.clone(), edition.clone());
                self.editions.fresh.insert(root.clone());
            }
            None => {
                self.editions.all.remove(root);
                self.editions.fresh.remove(root);
            }
        }
        if caught(|| self.translator.set_edition(root, edition)).is_err() {
            tracing::error!(%root, "what is kept of a tree cannot be written: it stays as it was");
        }
    }

    /// Whether what is kept of the tree of a root answers 500, since this program fails on it.
    pub fn is_closed_edition(&self, root: &RootId) -> bool {
        self.editions.closed.contains_key(root)
    }

    /// Closes editions, each one step further. Whether any can be.
    pub(super) fn close_editions<'a>(&mut self, roots: impl Iterator<Item = &'a RootId>) -> bool {
        let roots: BTreeSet<_> = roots.cloned().collect();
        roots.iter().fold(false, |any, root| self.close(root) | any)
    }

    /// A panic outside of rows, while editions were settled that were not before: these are closed, in a translator that is built
    /// anew. Whether there were any that can be.
    pub(super) fn close_fresh_editions(&mut self) -> bool {
        let fresh: Vec<_> = self.editions.fresh.iter().cloned().collect();
        if fresh.is_empty() {
            return false;
        }
        self.translator = self.translator.anew(&BTreeMap::new());
        self.close_editions(fresh.iter())
    }

    fn close(&mut self, root: &RootId) -> bool {
        let Some(edition) = self.editions.all.get(root) else { return false };
        let (next, closed) = match self.editions.closed.get(root) {
            None => (Closed::Rules, edition.closed(root)),
            Some(Closed::Rules) => (Closed::All, edition.closed_everywhere(root)),
            Some(Closed::All) => return false,
        };
        tracing::error!(%root, "what is kept of its tree answers 500, since this program fails on it; please report it");
        self.editions.closed.insert(root.clone(), next);
        self.translator.set_edition(root, Some(&closed));
        true
    }
}
