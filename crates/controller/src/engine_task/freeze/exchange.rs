//! What is said between the engine and whoever stores what is kept of trees.

use std::{collections::BTreeMap, sync::Arc};

use records::edition::{EditionError, Written};
use translate::Edition;

/// What shall be stored, by the name of the record.
pub type Wants = Arc<BTreeMap<String, Wanted>>;

/// What shall be stored of a root.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Counts what was wanted: what is done has the same.
    pub number: u64,
    /// The name of the edition in whose place it comes: of none other.
    pub parent: Option<String>,
    /// What shall be stored; nothing of a root of which nothing is kept any more.
    pub edition: Option<WrittenEdition>,
}

/// An edition that is stored, or shall be.
#[derive(Clone, Debug)]
pub struct WrittenEdition {
    /// Its objects.
    pub edition: Edition,
    /// The same as it is stored, but for what it comes after: what of the next one is the same is taken from there.
    pub written: Arc<Written>,
}

impl WrittenEdition {
    /// Its name.
    pub fn hash(&self) -> &str {
        &self.written.head.hash
    }
}

/// A record of an edition.
#[derive(Clone, Debug)]
pub struct StoredEdition {
    /// Its name.
    pub record: String,
    /// What is in it, or why that cannot be read; none of one that is gone.
    pub edition: Option<Result<WrittenEdition, EditionError>>,
}

/// What is told of what is stored.
#[derive(Clone, Debug)]
pub enum EditionEvent {
    /// The records that changed, at first all of them; or why they cannot be read, so that nobody knows what is kept.
    Stored(Result<Vec<StoredEdition>, String>),
    /// Whether what this process wants is stored: the leader alone writes.
    Leads(bool),
    /// What was wanted was done or not. What is stored then was told before.
    Written {
        /// The name of the record.
        record: String,
        /// The number of what was wanted.
        number: u64,
        /// What came of it.
        outcome: Outcome,
    },
}

/// What came of something that was to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is stored.
    Stored,
    /// Something else is stored than whoever wanted it knew: nothing was written.
    Stale,
    /// It failed for this reason, and is tried again.
    Failed(String),
}
