//! Who has read what is not there.
//!
//! Most rows that are read and are not there are read by one row or two, such as the policies of a route that has none. That
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

/// How many rows may miss the same before it has a node of its own.
pub(crate) const MOST: usize = 2;

/// By place: hashes of keys, each with a row that has read what is not there.
pub(crate) struct Misses(Vec<HashTable<(u32, NodeId)>>);

/// Spreads a hash over all bits that a table looks at.
pub(crate) fn spread(hash: u32) -> u64 {
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
    pub(crate) fn readers(&self, Miss { place, hash }: Miss) -> impl Iterator<Item = NodeId> {
        let table = &self.0[place as usize];
        table.iter_hash(spread(hash)).filter(move |(of, _)| *of == hash).map(|(_, reader)| *reader)
    }

    /// Takes note of who misses it, unless as many others do as may. Tells whether that is noted.
    pub(crate) fn claim(&mut self, miss: Miss, reader: NodeId) -> bool {
        let mut others = 0;
        for known in self.readers(miss) {
            if known == reader {
                return true;
            }
            others += 1;
        }
        if others == MOST {
            return false;
        }
        self.0[miss.place as usize].insert_unique(spread(miss.hash), (miss.hash, reader), |(of, _)| spread(*of));
        true
    }

    /// This row does not miss it any more.
    pub(crate) fn release(&mut self, Miss { place, hash }: Miss, reader: NodeId) {
        if let Ok(entry) = self.0[place as usize].find_entry(spread(hash), |known| *known == (hash, reader)) {
            entry.remove();
        }
    }
}
