//! What all tables and groups have in common, and the settling of a batch.

use std::any::{Any, TypeId};
use std::cell::{Cell, RefCell};
use std::cmp::Ordering;

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::graph::{Graph, NodeId, Place, Row};
use crate::stats::{Kind, TableStats};

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
    pub(crate) stores: Vec<Box<dyn Store>>,
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

    /// The store of a table or of groups, by their marker.
    pub(crate) fn typed<S: Store>(&self, marker: TypeId, name: &str) -> (Place, &S) {
        let Some(place) = self.places.get(&marker) else { panic!("`{name}` is not registered") };
        let store: &dyn Any = self.store(*place);
        (*place, store.downcast_ref().expect("a marker is registered with its own store"))
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

    pub(crate) fn settle(&self) -> Batch {
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
