//! What the author of a table or group writes: a marker type and its traits.

use std::fmt::Debug;
use std::hash::Hash;

use crate::{Emitter, Scope};

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
    /// What is collected. Equality is the cut-off.
    type Entry: PartialEq + Send + Sync + 'static;

    /// Where the group stands among tables and groups that are [layered](crate::Builder::layered): it takes entries of
    /// rows of lower depth, and those of its own depth whose table is registered before. Must be a pure function of the
    /// key.
    fn depth(_key: &Self::Key) -> u32 {
        0
    }

    /// Byte length and content hash of an entry, summed and hashed over a group. The default is zero: such a group's
    /// hash tells only how many entries it has.
    fn digest(_entry: &Self::Entry) -> Digest {
        Digest::default()
    }
}

/// Length and content hash of one entry of a group.
#[derive(Default, Clone, Copy, PartialEq, Eq, Debug)]
pub struct Digest {
    /// Length in bytes.
    pub len: u64,
    /// Hash of the content.
    pub hash: [u8; 16],
}
