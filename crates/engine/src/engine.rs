//! The door: what goes in, what comes out, and why.

use std::sync::Arc;

use crate::core::{Batch, Core};
use crate::fault::{Fault, Turned};
use crate::node::{Place, Row};
use crate::pages::View;
#[cfg(debug_assertions)]
use crate::stats::Kind;
use crate::stats::TableStats;
use crate::table::{Derived, Group, Input, Lookup, Table};
use crate::why::Why;

/// Input rows: see [`Engine::origins`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Origins(Vec<(Place, Row)>);

/// Tables and groups that keep themselves up to date. See the [crate's page](crate).
///
/// A computation that panics costs its own row its value, and no more: see [the crate's page](crate#when-a-row-panics).
pub struct Engine {
    core: Core,
}

impl Engine {
    pub(crate) fn new(core: Core) -> Self {
        Self { core }
    }

    /// Writes an input row, or takes it away with none. Tells whether that changed it; an equal value does not.
    ///
    /// [`Engine::get`] sees the new value at once, what is computed from it follows with [`Engine::settle`].
    #[expect(clippy::needless_pass_by_value, reason = "keys are made for the call")]
    pub fn set<T: Input>(&mut self, key: T::Key, value: Option<T::Value>) -> bool {
        self.core.table::<T>().1.write(&self.core, &key, value)
    }

    /// The same with a value that others have too, which is not copied.
    #[expect(clippy::needless_pass_by_value, reason = "keys are made for the call")]
    pub fn share<T: Input>(&mut self, key: T::Key, value: Option<Arc<T::Value>>) -> bool {
        self.core.table::<T>().1.write(&self.core, &key, value)
    }

    /// Has a row exist from the next settling on, until [`Engine::release`]. Repeating it changes nothing.
    #[expect(clippy::needless_pass_by_value, reason = "keys are made for the call")]
    pub fn demand<T: Derived>(&mut self, key: T::Key) {
        let (node, _) = self.core.table::<T>().1.node(&self.core, &key);
        self.core.graph.borrow_mut().set_root(node, true);
    }

    /// Takes back an [`Engine::demand`].
    pub fn release<T: Derived>(&mut self, key: &T::Key) {
        if let Some(node) = self.core.table::<T>().1.find(key) {
            self.core.graph.borrow_mut().set_root(node, false);
        }
    }

    /// Brings everything up to date with what was written, demanded and released since the last time: table by table,
    /// within a table by depth, each row at most once.
    pub fn settle(&mut self) -> Batch {
        self.core.settle()
    }

    /// The value of a row as it stands. A lookup row that no row reads has none; see [`Engine::lookup`].
    pub fn get<T: Table>(&self, key: &T::Key) -> Option<Arc<T::Value>> {
        self.core.table::<T>().1.peek(key)
    }

    /// Reads a lookup row as a row would: it is computed if nobody else reads it, and forgotten with the next settling.
    /// For tests and for people. Settle first: what was written since the last settling may or may not be seen.
    pub fn lookup<T: Lookup>(&mut self, key: &T::Key) -> Option<Arc<T::Value>> {
        let store = self.core.table::<T>().1;
        let (node, row) = store.node(&self.core, key);
        let stale = self.core.graph.borrow().is_stale(node);
        if stale {
            store.compute(&self.core, row);
        }
        self.core.graph.borrow_mut().suspect(node);
        store.value(row)
    }

    /// A group as it stands.
    pub fn group<G: Group>(&self, key: &G::Key) -> View<G> {
        self.core.groups::<G>().1.peek(key)
    }

    /// All rows of a table that have a value, in key order.
    pub fn rows<T: Table>(&self) -> Vec<(T::Key, Arc<T::Value>)> {
        self.core.table::<T>().1.sorted()
    }

    /// Keys, in order, of the rows whose value differs now from what it was when this was last called. A row that
    /// changed and changed back is not among them.
    ///
    /// # Panics
    /// If the table was not registered with [`Builder::track`](crate::Builder::track).
    pub fn take_changes<T: Table>(&mut self) -> Vec<T::Key> {
        self.core.table::<T>().1.take_changes(&self.core)
    }

    /// Has the next [`Engine::take_changes`] compare with what the last one of `before` told, an engine in whose place this
    /// one is: what was told there and is not here is among its keys. For a new engine; `before` may have panicked.
    ///
    /// # Panics
    /// If the table is not registered in both.
    pub fn resume<T: Table>(&mut self, before: &Self) {
        self.core.table::<T>().1.resume(before.core.table::<T>().1);
    }

    /// What the readers of a row are poisoned with; none for a row that is sound, whose table says what stands in its
    /// place, or that does not exist.
    pub fn fault<T: Table>(&self, key: &T::Key) -> Option<Fault> {
        let node = self.core.table::<T>().1.find(key)?;
        self.core.faults().poison(node).cloned()
    }

    /// All rows of a table that are poisoned, in key order. Looks at every row of the table if there is any fault.
    pub fn poisoned<T: Table>(&self) -> Vec<(T::Key, Fault)> {
        self.core.table::<T>().1.poisoned(&self.core)
    }

    /// The rows that panicked when they were computed last, by name, those included whose table says what stands in
    /// their place. Not those that they poisoned.
    pub fn faults(&self) -> Vec<Fault> {
        self.core.faults().panicked()
    }

    /// The rows that panicked, or that are sound again or gone after a panic, since this was last called, in the order in
    /// which that happened.
    pub fn take_faults(&mut self) -> Vec<Turned> {
        self.core.faults_mut().take_turned()
    }

    /// The faults that nothing ends: those of [`Derived`] rows that poison, with the names of their tables, in settling order.
    /// What such a row stands for is as it was before. Looks at every row of these tables if there is any fault.
    pub fn unended(&self) -> Vec<(&'static str, Fault)> {
        self.core.unended()
    }

    /// The input rows that a row which panicked has read, itself or through other rows and groups. None if it is sound by now.
    pub fn origins(&self, fault: &Fault) -> Origins {
        let panicked = self.core.faults().panicked_with(fault);
        Origins(panicked.map(|node| self.core.origins(node)).unwrap_or_default())
    }

    /// Those of them that are rows of a table, in key order.
    pub fn among<T: Input>(&self, origins: &Origins) -> Vec<T::Key> {
        let (place, store) = self.core.table::<T>();
        let rows = origins.0.iter().filter(|(of, _)| *of == place);
        let mut keys: Vec<_> = rows.map(|(_, row)| store.key(*row)).collect();
        keys.sort_unstable();
        keys
    }

    /// Has a row panic whenever it is computed, from the next settling on, until [`Engine::fail_no_more`]: for tests of
    /// what becomes of it. The row is named by its table and by its key as `Debug` prints it.
    #[cfg(debug_assertions)]
    pub fn fail_at(&mut self, table: &str, key: &str) {
        self.core.failing.get_mut().insert(format!("{table}({key})"));
        self.compute_again(table, key);
    }

    /// Takes back an [`Engine::fail_at`].
    #[cfg(debug_assertions)]
    pub fn fail_no_more(&mut self, table: &str, key: &str) {
        self.core.failing.get_mut().remove(&format!("{table}({key})"));
        self.compute_again(table, key);
    }

    /// The rows that were told to panic, `TABLE(KEY)`.
    #[cfg(debug_assertions)]
    pub fn failing(&self) -> Vec<String> {
        self.core.failing.borrow().iter().cloned().collect()
    }

    /// The rows that are computed, by table and by key as `Debug` prints it, in settling order: what [`Engine::fail_at`]
    /// can be tried on.
    #[cfg(debug_assertions)]
    pub fn computed_rows(&self) -> Vec<(&'static str, String)> {
        let computed = self.core.stores.iter().filter(|store| matches!(store.kind(), Kind::Lookup | Kind::Derived));
        computed.flat_map(|store| store.keys().into_iter().map(|(key, _)| (store.name(), key))).collect()
    }

    /// The rows that hold nothing, and that nobody reads or demands: after a settling there are none. For tests.
    #[cfg(debug_assertions)]
    pub fn left_behind(&self) -> Vec<String> {
        self.core.left_behind()
    }

    #[cfg(debug_assertions)]
    fn compute_again(&mut self, table: &str, key: &str) {
        let store = self.core.stores.iter().find(|store| store.name() == table);
        if let Some(node) = store.and_then(|store| store.find_described(key)) {
            let mut graph = self.core.graph.borrow_mut();
            graph.set_stale(node, true);
            graph.enqueue(node);
        }
    }

    /// Why a row has the value it has. None if the engine holds no such row. For people: looks through all rows.
    pub fn why<T: Table>(&self, key: &T::Key) -> Option<Why> {
        Some(Why::of(&self.core, self.core.table::<T>().1.find(key)?))
    }

    /// Why a group has the entries it has. None if the engine holds no such group.
    pub fn why_group<G: Group>(&self, key: &G::Key) -> Option<Why> {
        Some(Why::of(&self.core, self.core.groups::<G>().1.node(key)?))
    }

    /// As [`Engine::why`], for a table or group by its name and a key as `Debug` prints it.
    pub fn why_named(&self, name: &str, key: &str) -> Option<Why> {
        let store = self.core.stores.iter().find(|store| store.name() == name)?;
        Some(Why::of(&self.core, store.find_described(key)?))
    }

    /// Figures of every table and group, in settling order.
    pub fn stats(&self) -> Vec<TableStats> {
        let batch = self.core.graph.borrow().batch();
        self.core.stores.iter().map(|store| store.stats(batch)).collect()
    }
}

#[cfg(test)]
mod tests;
