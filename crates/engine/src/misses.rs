//! Who has read what is not there.
//!
//! Most rows that are read and are not there are read by one row alone, such as the policies of a route that has none. That
//! takes no node and no copy of the key: by the hash of the key it is known whom to wake once such a row comes into
//! existence. Where two keys have one hash, somebody is woken for nothing.

use hashbrown::HashTable;

use crate::node::{NodeId, Place};

/// A row or group that is not there: where it would stand, and the hash of its key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Miss {
    pub(crate) place: Place,
    pub(crate) hash: u32,
}

/// By place: hashes of keys, each once, with the one row that has read what is not there.
pub(crate) struct Misses(Vec<HashTable<(u32, NodeId)>>);

/// Spreads a hash over all bits that a table looks at.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Misses {
    pub(crate) fn new(places: usize) -> Self {
        Self((0..places).map(|_| HashTable::new()).collect())
    }

    /// Whether nobody has missed anything at a place.
    pub(crate) fn is_empty_at(&self, place: Place) -> bool {
        self.0[place as usize].is_empty()
    }

    /// Who misses it.
    pub(crate) fn reader(&self, Miss { place, hash }: Miss) -> Option<NodeId> {
        self.0[place as usize].find(spread(hash), |(of, _)| *of == hash).map(|(_, reader)| *reader)
    }

    /// Takes note of who misses it, where nobody else does. Tells whether that is so.
    pub(crate) fn claim(&mut self, Miss { place, hash }: Miss, reader: NodeId) -> bool {
        let table = &mut self.0[place as usize];
        let entry = table.entry(spread(hash), |(of, _)| *of == hash, |(of, _)| spread(*of));
        entry.or_insert((hash, reader)).get().1 == reader
    }

    /// Nobody misses it any more.
    pub(crate) fn release(&mut self, Miss { place, hash }: Miss) {
        if let Ok(entry) = self.0[place as usize].find_entry(spread(hash), |(of, _)| *of == hash) {
            entry.remove();
        }
    }
}
