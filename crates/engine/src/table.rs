//! What the author of a table or group writes: a marker type and its traits.

use std::fmt::Debug;
use std::hash::Hash;

use crate::{Emitter, Fault, Scope};

/// Anything that can name a row: it is compared, hashed, ordered and printed.
///
/// Keys are cloned when a row is made or computed, so they should be cheap to clone (numbers, `Arc<str>`, small
/// structs of these).
pub trait Key: Clone + Eq + Hash + Ord + Debug + Send + Sync + 'static {}

impl<T: Clone + Eq + Hash + Ord + Debug + Send + Sync + 'static> Key for T {}

/// A table: rows of one value type under keys of one type. The implementing type is only a marker.
pub trait Table: 'static {
    /// Name in reports, statistics and panics.
    const NAME: &'static str;
    /// What a row is found by.
    type Key: Key;
    /// What a row holds. Equality is the cut-off: writing an equal value wakes nobody.
    type Value: PartialEq + Send + Sync + 'static;
}

/// Rows written from outside, with [`Engine::set`](crate::Engine::set).
pub trait Input: Table {}

/// Rows computed when somebody reads them, and dropped when nobody reads them any more. They can only read.
pub trait Lookup: Table {
    /// The row's value, as a pure function of its key and of what it reads through `scope`.
    ///
    /// It may be computed in a batch in which its last reader goes away, because a lookup settles before its readers:
    /// it must not assume that whoever asked still exists.
    fn compute(scope: &Scope<'_>, key: &Self::Key) -> Option<Self::Value>;

    /// The row's value where [`compute`](Self::compute) panicked, or read a row that is poisoned: what a fault closes. What
    /// it had demanded and emitted is withdrawn, and what it had read stays recorded, so that the row is computed again
    /// when any of it changes.
    ///
    /// Unless a table says otherwise the poison goes on: the row has no value, and whoever reads it is poisoned in turn.
    /// None ends the poison as any value does, so it must not be a value that allows anything. If this panics too, the
    /// poison goes on.
    fn poisoned(_scope: &Scope<'_>, _key: &Self::Key, fault: &Fault) -> Option<Self::Value> {
        fault.spread()
    }

    /// Rows may read rows of their own table of strictly lower depth. Must be a pure function of the key.
    ///
    /// A row that has never been computed is computed inside the row that reads it, so a chain of reads through
    /// one table is a recursion of that depth.
    fn depth(_key: &Self::Key) -> u32 {
        0
    }
}

/// Rows that exist while something demands them: another row, an input row
/// ([`Builder::derived_for_each`](crate::Builder::derived_for_each)) or the outside
/// ([`Engine::demand`](crate::Engine::demand)). They may also demand later rows and emit into later groups.
pub trait Derived: Table {
    /// The row's value, as a pure function of its key and of what it reads through `scope`; what it demands and emits
    /// is part of the result, and what it does not repeat in the next computation is withdrawn.
    fn compute(scope: &Emitter<'_>, key: &Self::Key) -> Option<Self::Value>;

    /// The row's value where [`compute`](Self::compute) panicked, or read a row that is poisoned: what a fault closes. What
    /// it had demanded and emitted is withdrawn, and what it had read stays recorded, so that the row is computed again
    /// when any of it changes.
    ///
    /// Unless a table says otherwise the poison goes on: the row has no value, and whoever reads it is poisoned in turn.
    /// Its entries are missing from groups, whose readers are not: a table whose entries restrict something must emit them
    /// here as well.
    /// None ends the poison as any value does, so it must not be a value that allows anything. If this panics too, the
    /// poison goes on.
    fn poisoned(_scope: &Emitter<'_>, _key: &Self::Key, fault: &Fault) -> Option<Self::Value> {
        fault.spread()
    }

    /// Rows may read rows of their own table of strictly lower depth. Must be a pure function of the key.
    fn depth(_key: &Self::Key) -> u32 {
        0
    }
}

/// An ordered collection that rows emit into. The implementing type is only a marker.
///
/// Within one group a sort key belongs to one emitter. Two may hold it inside a batch, while one hands over to the
/// other. If two still hold it when the group settles, the emitter that comes first (by table, then by key) is seen
/// and the others wait behind it, so the outcome stays a function of the inputs;
/// [`TableStats::contested`](crate::TableStats::contested) counts them.
pub trait Group: 'static {
    /// Name in reports, statistics and panics.
    const NAME: &'static str;
    /// What a group is found by.
    type Key: Key;
    /// Where in the group an entry stands.
    type Sort: Key;
    /// What is collected. Equality is the cut-off. Cloned as pages are, so it should be cheap to clone.
    type Entry: Clone + PartialEq + Send + Sync + 'static;

    /// Where the group stands among tables and groups that are [layered](crate::Builder::layered): it takes entries of
    /// rows of lower depth, and those of its own depth whose table is registered before. Must be a pure function of the
    /// key.
    fn depth(_key: &Self::Key) -> u32 {
        0
    }

    /// What the entries come to together; `()` where nobody asks.
    type Summary: Summary;

    /// What an entry adds to the summary of its group. It is asked for again when the entry goes, so it must be a pure
    /// function of the entry, and cheap. The default adds nothing.
    fn summary(_entry: &Self::Entry) -> Self::Summary {
        Self::Summary::default()
    }

    /// Content hash of an entry, hashed over a group; none where nobody asks, so that none is kept: of such a group hashes tell
    /// nothing.
    const HASH: Option<EntryHash<Self::Entry>> = None;
}

/// Tells the content hash of an entry.
pub type EntryHash<E> = fn(&E) -> [u8; 16];

/// What entries come to together, such as a sum or counts of several kinds. It is kept while entries come and go, so that
/// a reader need not look at each.
///
/// Neither the order nor the grouping in which values are added may matter, the default adds nothing, and `remove` takes
/// back what `add` added.
pub trait Summary: Default + Clone + PartialEq + Send + Sync + 'static {
    /// Adds what other entries come to.
    fn add(&mut self, other: &Self);
    /// Takes back what was added.
    fn remove(&mut self, other: &Self);
}

/// Nobody asks.
impl Summary for () {
    fn add(&mut self, (): &()) {}
    fn remove(&mut self, (): &()) {}
}

/// A sum, which must stay below 2^64.
impl Summary for u64 {
    fn add(&mut self, other: &Self) {
        *self += other;
    }

    fn remove(&mut self, other: &Self) {
        *self -= other;
    }
}
