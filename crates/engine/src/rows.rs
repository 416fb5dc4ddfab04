//! Keys to rows: each key is stored once, rows are reused.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use crate::chunks::Chunks;
use crate::misses::spread;
use crate::node::{NodeId, Row};
use crate::table::Key;

/// One row: its key, its node in the graph and what it holds.
pub(crate) struct Slot<K, P> {
    pub(crate) key: K,
    pub(crate) node: NodeId,
    pub(crate) payload: P,
}

/// The rows of a table, or the groups of a group table.
pub(crate) struct Rows<K, P> {
    /// Rows with half of the hash of their keys, by which they are found: growing looks at no key.
    index: HashTable<(u32, Row)>,
    hasher: RandomState,
    slots: Chunks<Option<Slot<K, P>>>,
    free: Vec<Row>,
}

impl<K, P> Default for Rows<K, P> {
    fn default() -> Self {
        Self { index: HashTable::new(), hasher: RandomState::default(), slots: Chunks::default(), free: Vec::new() }
    }
}

/// Where a row is found. Not a closure, so that growing is compiled once and not for each type of key.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "a table hands out its entries so")]
fn found_at((hash, _): &(u32, Row)) -> u64 {
    spread(*hash)
}

const USED: &str = "a row number is only held while its row exists";

impl<K: Key, P> Rows<K, P> {
    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    pub(crate) fn find(&self, key: &K) -> Option<Row> {
        self.find_hashed(self.hash(key), key)
    }

    fn find_hashed(&self, hash: u32, key: &K) -> Option<Row> {
        let is_key = |(of, row): &(u32, Row)| *of == hash && self.slot(*row).key == *key;
        self.index.find(spread(hash), is_key).map(|(_, row)| *row)
    }

    fn hash(&self, key: &K) -> u32 {
        (self.hasher.hash_one(key) >> 32) as u32
    }

    /// The hash by which a row is missed: see [`crate::misses`].
    pub(crate) fn missed_by(&self, row: Row) -> u32 {
        self.hash(&self.slot(row).key)
    }

    pub(crate) fn get(&self, key: &K) -> Option<&Slot<K, P>> {
        self.find(key).map(|row| self.slot(row))
    }

    /// The node of the row whose key prints so.
    pub(crate) fn find_described(&self, key: &str) -> Option<NodeId> {
        self.iter().find(|slot| format!("{:?}", slot.key) == key).map(|slot| slot.node)
    }

    /// All keys, as they print, with their nodes.
    #[cfg(debug_assertions)]
    pub(crate) fn described(&self) -> Vec<(String, NodeId)> {
        self.iter().map(|slot| (format!("{:?}", slot.key), slot.node)).collect()
    }

    pub(crate) fn slot(&self, row: Row) -> &Slot<K, P> {
        self.slots[row as usize].as_ref().expect(USED)
    }

    pub(crate) fn slot_mut(&mut self, row: Row) -> &mut Slot<K, P> {
        self.slots[row as usize].as_mut().expect(USED)
    }

    /// The row of a key, made by `make` if there is none.
    pub(crate) fn intern(&mut self, key: &K, make: impl FnOnce(Row) -> (NodeId, P)) -> Row {
        let (Ok(row) | Err(row)) = self.intern_unless(key, |_| None::<Row>, make);
        row
    }

    /// The same, unless there is none and `instead` has something in its place, by the hash by which it is missed.
    pub(crate) fn intern_unless<I>(
        &mut self,
        key: &K,
        instead: impl FnOnce(u32) -> Option<I>,
        make: impl FnOnce(Row) -> (NodeId, P),
    ) -> Result<Row, I> {
        let hash = self.hash(key);
        if let Some(row) = self.find_hashed(hash, key) {
            return Ok(row);
        }
        if let Some(instead) = instead(hash) {
            return Err(instead);
        }
        let row =
            self.free.pop().unwrap_or_else(|| Row::try_from(self.slots.push(None)).expect("fewer than 2^32 rows"));
        let (node, payload) = make(row);
        self.slots[row as usize] = Some(Slot { key: key.clone(), node, payload });
        self.index.insert_unique(spread(hash), (hash, row), found_at);
        Ok(row)
    }

    /// Forgets a row; its number will be used again.
    pub(crate) fn remove(&mut self, row: Row) -> Slot<K, P> {
        let slot = self.slots[row as usize].take().expect(USED);
        let hash = self.hash(&slot.key);
        if let Ok(entry) = self.index.find_entry(spread(hash), |(_, other)| *other == row) {
            entry.remove();
        }
        self.free.push(row);
        slot
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Slot<K, P>> {
        self.slots.iter().filter_map(Option::as_ref)
    }

    /// The same with the number of each.
    pub(crate) fn numbered(&self) -> impl Iterator<Item = (Row, &Slot<K, P>)> {
        (0..).zip(self.slots.iter()).filter_map(|(row, slot)| Some((row, slot.as_ref()?)))
    }
}
