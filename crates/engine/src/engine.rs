//! All tables and groups together, and the settling of a batch.

use std::any::{Any, TypeId};
use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::builder::Builder;
use crate::graph::{Graph, NodeId, Place, Row};
use crate::groups::GroupStore;
use crate::pages::View;
use crate::store::TableStore;
use crate::table::{Derived, Group, Input, Lookup, Table};
use crate::why::{Kind, TableStats, Why};

/// What happened in one turn of one row.
#[derive(Default, Clone, Copy)]
pub(crate) struct Turn {
    pub(crate) computed: bool,
    pub(crate) changed: bool,
}

/// A table or the groups of one type, whatever their types.
pub(crate) trait Store: Any + Send {
    fn name(&self) -> &'static str;
    fn kind(&self) -> Kind;
    /// The place's turn in a batch begins: takes over what was written or emitted, and queues what it changes.
    fn open(&self, core: &Core);
    /// A queued row's turn.
    fn turn(&self, core: &Core, row: Row) -> Turn;
    /// Takes over what a row emitted into groups of this type, in place of what it emitted before. Tells whether it
    /// holds any entries.
    fn commit(&self, core: &Core, emitter: NodeId) -> bool;
    /// Whether the row stays even if nobody reads or demands it.
    fn holds(&self, row: Row) -> bool;
    /// Forgets a row.
    fn free(&self, row: Row);
    fn compare_keys(&self, a: Row, b: Row) -> Ordering;
    /// Name and key.
    fn describe(&self, row: Row) -> String;
    /// Whether the row has a value, the group an entry.
    fn present(&self, row: Row) -> bool {
        self.holds(row)
    }
    fn find_described(&self, key: &str) -> Option<NodeId>;
    fn emitted_by(&self, emitter: NodeId) -> Vec<String>;
    fn emitters(&self, row: Row) -> Vec<(String, NodeId)>;
    fn stats(&self) -> TableStats;
}

/// What computations see of the engine.
pub(crate) struct Core {
    stores: Vec<Box<dyn Store>>,
    places: HashMap<TypeId, Place, RandomState>,
    pub(crate) graph: RefCell<Graph>,
    batch: Cell<Batch>,
}

impl Core {
    pub(crate) fn new(stores: Vec<Box<dyn Store>>, places: HashMap<TypeId, Place, RandomState>) -> Self {
        let graph = RefCell::new(Graph::new(stores.len()));
        Self { stores, places, graph, batch: Cell::default() }
    }

    pub(crate) fn store(&self, place: Place) -> &dyn Store {
        &*self.stores[place as usize]
    }

    pub(crate) fn name(&self, place: Place) -> &'static str {
        self.store(place).name()
    }

    fn typed<S: Store>(&self, marker: TypeId, name: &str) -> (Place, &S) {
        let Some(place) = self.places.get(&marker) else { panic!("`{name}` is not registered") };
        let store: &dyn Any = self.store(*place);
        (*place, store.downcast_ref().expect("a marker is registered with its own store"))
    }

    pub(crate) fn table<T: Table>(&self) -> (Place, &TableStore<T>) {
        self.typed(TypeId::of::<T>(), T::NAME)
    }

    pub(crate) fn groups<G: Group>(&self) -> (Place, &GroupStore<G>) {
        self.typed(TypeId::of::<G>(), G::NAME)
    }

    pub(crate) fn describe(&self, node: NodeId) -> String {
        let cell = self.graph.borrow().cell(node);
        self.store(cell.place).describe(cell.row)
    }

    pub(crate) fn present(&self, node: NodeId) -> bool {
        let cell = self.graph.borrow().cell(node);
        self.store(cell.place).present(cell.row)
    }

    /// An order of rows that depends only on their tables and keys.
    pub(crate) fn compare(&self, a: NodeId, b: NodeId) -> Ordering {
        let (a, b) = (self.graph.borrow().cell(a), self.graph.borrow().cell(b));
        a.place.cmp(&b.place).then_with(|| self.store(a.place).compare_keys(a.row, b.row))
    }

    pub(crate) fn count(&self, turn: Turn) {
        let mut batch = self.batch.get();
        batch.computed += usize::from(turn.computed);
        batch.changed += usize::from(turn.changed);
        self.batch.set(batch);
    }

    fn settle(&self) -> Batch {
        self.batch.take();
        self.graph.borrow_mut().next_batch();
        for (place, store) in self.stores.iter().enumerate() {
            store.open(self);
            let place = Place::try_from(place).expect("checked when built");
            loop {
                // Its own statement: the graph must not stay borrowed during the turn.
                let next = self.graph.borrow_mut().next(place);
                let Some(row) = next else { break };
                self.count(store.turn(self, row));
            }
        }
        self.recycle();
        self.batch.get()
    }

    /// Forgets rows that hold nothing, that nobody reads and nobody demands.
    fn recycle(&self) {
        let mut graph = self.graph.borrow_mut();
        while let Some(node) = graph.next_suspect() {
            let cell = graph.cell(node);
            let store = self.store(cell.place);
            if !graph.has_readers(node) && graph.demand_count(node) == 0 && !store.holds(cell.row) {
                store.free(cell.row);
                graph.remove(node);
            }
        }
    }
}

/// What a settling did.
#[derive(Default, Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Batch {
    /// Rows computed.
    pub computed: usize,
    /// Rows and groups that changed: inputs written, rows computed to another value, groups with other entries.
    pub changed: usize,
}

/// Tables and groups that keep themselves up to date. See the [crate's page](crate).
///
/// A computation that panics leaves the engine in no defined state: let it end the process.
pub struct Engine {
    core: Core,
}

impl Engine {
    /// Starts an engine: register tables and groups in settling order.
    pub fn builder() -> Builder {
        Builder::default()
    }

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
    /// If the table was not registered with [`Builder::track`].
    pub fn take_changes<T: Table>(&mut self) -> Vec<T::Key> {
        self.core.table::<T>().1.take_changes()
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
        self.core.stores.iter().map(|store| store.stats()).collect()
    }
}

#[cfg(test)]
mod tests;
