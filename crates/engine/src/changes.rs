//! Which rows of a table have another value than when that was last asked.

use std::mem;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::fault::Faults;
use crate::node::Row;
use crate::rows::{Rows, Slot};
use crate::sort::sort_by;
use crate::table::Table;

/// What a row holds, if anything.
pub(crate) type Held<T> = Option<Arc<<T as Table>::Value>>;

/// What rows held at the last [`Changes::take`], for those that have changed since.
pub(crate) struct Changes<T: Table> {
    rows: HashMap<Row, Held<T>, RandomState>,
    /// The same of keys that have lost their row since. None of them is in `rows` by another row.
    gone: HashMap<T::Key, Held<T>, RandomState>,
}

impl<T: Table> Default for Changes<T> {
    fn default() -> Self {
        Self { rows: HashMap::default(), gone: HashMap::default() }
    }
}

impl<T: Table> Changes<T> {
    /// A row holds something else than `old`, which it held before.
    pub(crate) fn note(&mut self, row: Row, key: &T::Key, old: Option<&Arc<T::Value>>) {
        self.rows.entry(row).or_insert_with(|| {
            let then = if self.gone.is_empty() { None } else { self.gone.remove(key) };
            then.unwrap_or_else(|| old.cloned())
        });
    }

    /// A row ceases to exist; its number will be used again.
    pub(crate) fn lose(&mut self, row: Row, key: T::Key) {
        if let Some(old) = self.rows.remove(&row) {
            self.gone.insert(key, old);
        }
    }

    /// Keys whose value differs from what it was at the last take, in order. One of a row that is poisoned waits until it
    /// is not.
    pub(crate) fn take(&mut self, rows: &Rows<T::Key, Held<T>>, faults: &Faults) -> Vec<T::Key> {
        // Most tables change in few batches.
        if self.rows.is_empty() && self.gone.is_empty() {
            return Vec::new();
        }
        // New maps, so that one burst does not hold its memory for ever.
        let (changed, gone) = (mem::take(&mut self.rows), mem::take(&mut self.gone));
        let mut changed: Vec<_> = changed.into_iter().collect();
        // Rows that come together mostly come in the order of their keys.
        changed.sort_unstable_by_key(|(row, _)| *row);
        let is_poisoned = |slot: &Slot<_, _>| faults.poison(slot.node).is_some();
        let mut keys = Vec::new();
        for (row, old) in changed {
            let slot = rows.slot(row);
            if is_poisoned(slot) {
                self.rows.insert(row, old);
            } else if slot.payload != old {
                keys.push(slot.key.clone());
            }
        }
        for (key, old) in gone {
            match rows.get(&key) {
                Some(slot) if is_poisoned(slot) => _ = self.gone.insert(key, old),
                slot if slot.and_then(|slot| slot.payload.as_ref()) != old.as_ref() => keys.push(key),
                _ => {}
            }
        }
        sort_by(&mut keys, Ord::cmp);
        keys
    }

    /// Has the next take compare with what the last one of `before` told, where these are the rows of that and of this.
    pub(crate) fn resume(&mut self, rows: &Rows<T::Key, Held<T>>, before: &Self, rows_before: &Rows<T::Key, Held<T>>) {
        let mut tell = |key: &T::Key, old: Held<T>| match rows.find(key) {
            Some(row) => _ = self.rows.insert(row, old),
            None => _ = self.gone.insert(key.clone(), old),
        };
        for (row, slot) in rows_before.numbered() {
            match before.rows.get(&row) {
                Some(old) => tell(&slot.key, old.clone()),
                None if before.gone.contains_key(&slot.key) || slot.payload.is_none() => {}
                None => tell(&slot.key, slot.payload.clone()),
            }
        }
        for (key, old) in &before.gone {
            tell(key, old.clone());
        }
    }
}
