//! The rows of one table: their values, and what happens when one is computed or written.

use std::any::TypeId;
use std::borrow::Borrow;
use std::cell::RefCell;
use std::cmp::Ordering;
use std::sync::Arc;

use crate::changes::{Changes, Held};
use crate::core::{Core, Store, Turn};
use crate::fault::Fault;
use crate::frame::Frame;
use crate::misses::Miss;
use crate::node::{NodeId, Place, Row};
use crate::rows::Rows;
use crate::scope::{Computed, Emitter, Trouble};
use crate::sort::sort_by;
use crate::stats::{Counts, Kind, TableStats};
use crate::table::Table;

/// Computes a row: its value, or (an error) what its readers are poisoned with.
pub(crate) type Compute<T> =
    fn(emitter: &Emitter<'_>, key: &<T as Table>::Key) -> Result<Option<<T as Table>::Value>, Fault>;

/// How the rows of a table come to their values.
pub(crate) enum Source<T: Table> {
    Input,
    Lookup(Compute<T>),
    Derived(Compute<T>),
}

/// Called for an input row that has come into existence (true) or ceased to exist (false).
pub(crate) type Hook<K> = Box<dyn Fn(&Core, &K, bool) + Send>;

struct Data<T: Table> {
    rows: Rows<T::Key, Held<T>>,
    /// Input rows written since the last settling, with what they held then.
    written: Vec<(Row, Held<T>)>,
    /// The value of all rows that have one, if it tells nothing but that.
    nothing: Option<Arc<T::Value>>,
    /// None: not tracked.
    changes: Option<Changes<T>>,
    computed_total: u64,
    counts: Counts,
}

/// A value that rows share if it has no content.
fn shared<V>(nothing: &mut Option<Arc<V>>, value: V) -> Arc<V> {
    if size_of::<V>() > 0 { Arc::new(value) } else { nothing.get_or_insert_with(|| Arc::new(value)).clone() }
}

impl<T: Table> Data<T> {
    fn found(&self, row: Row) -> (NodeId, Row, Held<T>) {
        let slot = self.rows.slot(row);
        (slot.node, row, slot.payload.clone())
    }

    fn note_change(&mut self, row: Row, old: Option<&Arc<T::Value>>) {
        if let Some(changes) = &mut self.changes {
            changes.note(row, &self.rows.slot(row).key, old);
        }
    }
}

impl Core {
    pub(crate) fn table<T: Table>(&self) -> (Place, &TableStore<T>) {
        self.typed(TypeId::of::<T>(), T::NAME)
    }
}

/// All rows of one table.
pub(crate) struct TableStore<T: Table> {
    place: Place,
    source: Source<T>,
    depth: fn(&T::Key) -> u32,
    hooks: Vec<Hook<T::Key>>,
    data: RefCell<Data<T>>,
}

impl<T: Table> TableStore<T> {
    pub(crate) fn new(place: Place, source: Source<T>, depth: fn(&T::Key) -> u32) -> Self {
        Self {
            place,
            source,
            depth,
            hooks: Vec::new(),
            data: RefCell::new(Data {
                rows: Rows::default(),
                written: Vec::new(),
                nothing: None,
                changes: None,
                computed_total: 0,
                counts: Counts::default(),
            }),
        }
    }

    pub(crate) fn add_hook(&mut self, hook: Hook<T::Key>) {
        self.hooks.push(hook);
    }

    pub(crate) fn track(&mut self) {
        self.data.get_mut().changes.get_or_insert_default();
    }

    fn intern(&self, core: &Core, data: &mut Data<T>, key: &T::Key) -> Row {
        data.rows.intern(key, |row| self.make(core, row, key))
    }

    fn make(&self, core: &Core, row: Row, key: &T::Key) -> (NodeId, Option<Arc<T::Value>>) {
        let node = core.graph.borrow_mut().add(self.place, row, (self.depth)(key));
        (node, None)
    }

    /// The node of a key, made if there is none.
    pub(crate) fn node(&self, core: &Core, key: &T::Key) -> (NodeId, Row) {
        let data = &mut *self.data.borrow_mut();
        let row = self.intern(core, data, key);
        (data.rows.slot(row).node, row)
    }

    /// The node and row of a key for `reader`, with its value as it is; what else it takes note of is that there is no row.
    pub(crate) fn read(&self, core: &Core, key: &T::Key, reader: NodeId) -> Result<(NodeId, Row, Held<T>), Miss> {
        let data = &mut *self.data.borrow_mut();
        if self.is_lookup() {
            let row = self.intern(core, data, key);
            return Ok(data.found(row));
        }
        let place = self.place;
        let missed = |hash| {
            let miss = Miss { place, hash };
            core.graph.borrow_mut().claim_miss(miss, reader).then_some(miss)
        };
        let row = data.rows.intern_unless(key, missed, |row| self.make(core, row, key))?;
        Ok(data.found(row))
    }

    /// The depth of a key.
    pub(crate) fn depth(&self, key: &T::Key) -> u32 {
        (self.depth)(key)
    }

    pub(crate) fn find(&self, key: &T::Key) -> Option<NodeId> {
        self.data.borrow().rows.get(key).map(|slot| slot.node)
    }

    /// The key of a row.
    pub(crate) fn key(&self, row: Row) -> T::Key {
        self.data.borrow().rows.slot(row).key.clone()
    }

    /// The value as it is.
    pub(crate) fn value(&self, row: Row) -> Option<Arc<T::Value>> {
        self.data.borrow().rows.slot(row).payload.clone()
    }

    /// The value as it is, without a trace.
    pub(crate) fn peek(&self, key: &T::Key) -> Option<Arc<T::Value>> {
        self.data.borrow().rows.get(key)?.payload.clone()
    }

    pub(crate) fn is_lookup(&self) -> bool {
        matches!(self.source, Source::Lookup(_))
    }

    /// All rows that have a value, in key order.
    pub(crate) fn sorted(&self) -> Vec<(T::Key, Arc<T::Value>)> {
        let data = self.data.borrow();
        let present = data.rows.iter().filter_map(|slot| Some((slot.key.clone(), slot.payload.clone()?)));
        let mut rows: Vec<_> = present.collect();
        sort_by(&mut rows, |a, b| a.0.cmp(&b.0));
        rows
    }

    /// All rows that poison their readers, in key order.
    pub(crate) fn poisoned(&self, core: &Core) -> Vec<(T::Key, Fault)> {
        let faults = core.faults();
        if faults.is_empty() {
            return Vec::new();
        }
        let data = self.data.borrow();
        let poisoned = data.rows.iter().filter_map(|slot| Some((slot.key.clone(), faults.poison(slot.node)?.clone())));
        let mut rows: Vec<_> = poisoned.collect();
        sort_by(&mut rows, |a, b| a.0.cmp(&b.0));
        rows
    }

    /// Writes an input row. Readers are woken when the batch is settled, if the value differs by then.
    pub(crate) fn write<V>(&self, core: &Core, key: &T::Key, value: Option<V>) -> bool
    where
        V: Borrow<T::Value> + Into<Arc<T::Value>>,
    {
        let data = &mut *self.data.borrow_mut();
        let row = match data.rows.find(key) {
            Some(row) => row,
            None if value.is_none() => return false,
            None => self.intern(core, data, key),
        };
        let slot = data.rows.slot_mut(row);
        if slot.payload.as_deref() == value.as_ref().map(Borrow::borrow) {
            return false;
        }
        let old = std::mem::replace(&mut slot.payload, value.map(Into::into));
        let node = slot.node;
        data.note_change(row, old.as_ref());
        let mut graph = core.graph.borrow_mut();
        if !graph.set_written(node, true) {
            data.written.push((row, old));
            graph.set_busy(self.place);
        }
        true
    }

    /// See [`Changes::take`].
    pub(crate) fn take_changes(&self, core: &Core) -> Vec<T::Key> {
        let data = &mut *self.data.borrow_mut();
        let changes = data.changes.as_mut().unwrap_or_else(|| {
            panic!("the changes of table `{}` are not tracked: say `.track::<..>()` where it is registered", T::NAME)
        });
        changes.take(&data.rows, &core.faults())
    }

    /// Has the next `take_changes` compare with what another store of this table was told of last.
    pub(crate) fn resume(&self, before: &Self) {
        let before = &*before.data.borrow();
        let data = &mut *self.data.borrow_mut();
        if let Some((changes, noted)) = data.changes.as_mut().zip(before.changes.as_ref()) {
            changes.resume(&data.rows, noted, &before.rows);
        }
    }

    /// Computes a row and takes over the outcome.
    pub(crate) fn compute(&self, core: &Core, row: Row) -> Turn {
        let (key, node) = {
            let data = self.data.borrow();
            let slot = data.rows.slot(row);
            (slot.key.clone(), slot.node)
        };
        let (batch, times, stamp) = {
            let mut graph = core.graph.borrow_mut();
            let (times, stamp) = graph.begin(node);
            (graph.batch(), times, stamp)
        };
        let computed = match &self.source {
            Source::Input => unreachable!("input rows are not computed"),
            Source::Lookup(compute) | Source::Derived(compute) => {
                let mut emitter = Emitter::new(core, node, stamp);
                let value = compute(&emitter, &key);
                emitter.commit(value)
            }
        };
        {
            let data = &mut *self.data.borrow_mut();
            data.computed_total += 1;
            let counts = data.counts.counting(batch);
            counts.computed += 1;
            counts.max_per_cell = counts.max_per_cell.max(times);
        }
        Turn { computed: true, changed: self.store(core, row, node, computed) }
    }

    /// Takes over what was computed. Tells whether readers see a difference.
    fn store(&self, core: &Core, row: Row, node: NodeId, Computed { value, trouble }: Computed<T::Value>) -> bool {
        let mut changed = false;
        if trouble.is_some() || core.graph.borrow().is_troubled(node) {
            let Trouble { own, poison } = trouble.map_or(Trouble { own: None, poison: None }, |trouble| *trouble);
            changed = core.set_trouble(node, own, poison.as_ref());
        }
        let data = &mut *self.data.borrow_mut();
        let now = &mut data.rows.slot_mut(row).payload;
        if now.as_deref() != value.as_ref() {
            let old = std::mem::replace(now, value.map(|value| shared(&mut data.nothing, value)));
            data.note_change(row, old.as_ref());
            changed = true;
        }
        if !changed {
            return false;
        }
        let mut graph = core.graph.borrow_mut();
        data.counts.counting(graph.batch()).changed += 1;
        graph.wake_readers(node);
        graph.wake_missing(self.place, || data.rows.missed_by(row));
        true
    }
}

impl<T: Table> Store for TableStore<T> {
    fn name(&self) -> &'static str {
        T::NAME
    }

    fn begin(&self, core: &Core) {
        let written = std::mem::take(&mut self.data.borrow_mut().written);
        for (row, old) in written {
            let (key, now) = {
                let data = &mut *self.data.borrow_mut();
                let slot = data.rows.slot(row);
                let now = slot.payload.is_some();
                let mut graph = core.graph.borrow_mut();
                graph.set_written(slot.node, false);
                if now {
                    // Whoever looked meanwhile may have missed it, though it is as it was.
                    graph.wake_missing(self.place, || data.rows.missed_by(row));
                } else {
                    graph.suspect(data.rows.slot(row).node);
                }
                drop(graph);
                let slot = data.rows.slot(row);
                if slot.payload == old {
                    continue;
                }
                core.graph.borrow_mut().enqueue(slot.node);
                if now == old.is_some() || self.hooks.is_empty() {
                    continue;
                }
                (slot.key.clone(), now)
            };
            for hook in &self.hooks {
                hook(core, &key, now);
            }
        }
    }

    fn turn(&self, core: &Core, row: Row) -> Turn {
        let node = self.data.borrow().rows.slot(row).node;
        let (wanted, stale) = {
            let mut graph = core.graph.borrow_mut();
            graph.dequeued(node);
            let wanted = match self.source {
                Source::Input => {
                    graph.wake_readers(node);
                    self.data.borrow_mut().counts.counting(graph.batch()).changed += 1;
                    return Turn { computed: false, changed: true };
                }
                Source::Lookup(_) => graph.has_readers(node),
                Source::Derived(_) => graph.demand_count(node) > 0,
            };
            if !wanted {
                graph.suspect(node);
            }
            (wanted, graph.is_stale(node))
        };
        match (wanted, &self.source) {
            (true, _) if stale => self.compute(core, row),
            (false, Source::Derived(_)) => {
                Frame::default().commit(core, node);
                core.graph.borrow_mut().set_stale(node, true);
                let nothing = Computed { value: None, trouble: None };
                Turn { computed: false, changed: self.store(core, row, node, nothing) }
            }
            _ => Turn::default(),
        }
    }

    fn commit(&self, _core: &Core, _emitter: NodeId) -> bool {
        unreachable!("only groups hold emissions")
    }

    fn holds(&self, row: Row) -> bool {
        matches!(self.source, Source::Input) && self.data.borrow().rows.slot(row).payload.is_some()
    }

    fn free(&self, row: Row) {
        let data = &mut *self.data.borrow_mut();
        if let Some(old) = data.rows.slot_mut(row).payload.take() {
            data.note_change(row, Some(&old));
        }
        let slot = data.rows.remove(row);
        if let Some(changes) = &mut data.changes {
            changes.lose(row, slot.key);
        }
    }

    fn compare_keys(&self, a: Row, b: Row) -> Ordering {
        let data = self.data.borrow();
        data.rows.slot(a).key.cmp(&data.rows.slot(b).key)
    }

    fn describe(&self, row: Row) -> String {
        format!("{}({:?})", T::NAME, self.data.borrow().rows.slot(row).key)
    }

    fn present(&self, row: Row) -> bool {
        self.data.borrow().rows.slot(row).payload.is_some()
    }

    fn missed(&self, core: &Core, row: Row) -> Vec<String> {
        let (Source::Lookup(compute) | Source::Derived(compute)) = &self.source else { return Vec::new() };
        let (key, node) = {
            let data = self.data.borrow();
            let slot = data.rows.slot(row);
            (slot.key.clone(), slot.node)
        };
        let emitter = Emitter::naming(core, node);
        // What it comes to is known.
        drop(compute(&emitter, &key));
        emitter.missed()
    }

    fn find_described(&self, key: &str) -> Option<NodeId> {
        self.data.borrow().rows.find_described(key)
    }

    #[cfg(debug_assertions)]
    fn keys(&self) -> Vec<(String, NodeId)> {
        self.data.borrow().rows.described()
    }

    fn emitted_by(&self, _emitter: NodeId) -> Vec<String> {
        Vec::new()
    }

    fn emitters(&self, _row: Row) -> Vec<(String, NodeId)> {
        Vec::new()
    }

    fn kind(&self) -> Kind {
        match self.source {
            Source::Input => Kind::Input,
            Source::Lookup(_) => Kind::Lookup,
            Source::Derived(_) => Kind::Derived,
        }
    }

    fn stats(&self, batch: u32) -> TableStats {
        let data = self.data.borrow();
        let Counts { computed, max_per_cell, changed, .. } = data.counts.in_batch(batch);
        TableStats {
            name: T::NAME,
            kind: self.kind(),
            rows: data.rows.len(),
            computed,
            computed_total: data.computed_total,
            max_per_cell: max_per_cell.into(),
            changed,
            contested: 0,
        }
    }
}
