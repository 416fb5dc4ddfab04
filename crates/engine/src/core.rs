//! What all tables and groups have in common, and the settling of a batch.

use std::any::{Any, TypeId};
use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::ops::Range;

use foldhash::fast::RandomState;
use hashbrown::HashSet;

use crate::fault::{Fault, Faults};
use crate::graph::Graph;
use crate::node::{NodeId, Place, Row};
use crate::places::Places;
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
    /// The place's turn in a batch begins: takes over what was written, and queues what it changes. Not called where
    /// nothing waits, neither here nor at a place that is layered with this one.
    fn begin(&self, _core: &Core) {}
    /// The least depth at which something was emitted that has not been taken over.
    fn pending(&self) -> Option<u32> {
        None
    }
    /// Takes over what was emitted at a depth, and queues what it changes.
    fn open(&self, _core: &Core, _depth: u32) {}
    /// A queued row's turn.
    fn turn(&self, core: &Core, row: Row) -> Turn;
    /// Takes over what a row emitted into groups of this type, in place of what it emitted before. Tells whether it
    /// holds any entries.
    fn commit(&self, core: &Core, emitter: NodeId) -> bool;
    /// Drops what the row that is being computed has emitted into groups of this type.
    fn unstage(&self, _core: &Core) {}
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
    /// What a row reads that is not there, by name: it is computed for that.
    fn missed(&self, core: &Core, row: Row) -> Vec<String>;
    fn find_described(&self, key: &str) -> Option<NodeId>;
    /// The keys of all rows, with their nodes.
    #[cfg(debug_assertions)]
    fn keys(&self) -> Vec<(String, NodeId)>;
    fn emitted_by(&self, emitter: NodeId) -> Vec<String>;
    fn emitters(&self, row: Row) -> Vec<(String, NodeId)>;
    /// Its figures; `batch` is the number of the last batch.
    fn stats(&self, batch: u32) -> TableStats;
}

/// When in a batch a row is settled: the first place of its layers, its depth, its place. What a row reads must come
/// before it, and what it demands and emits into must come after.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment {
    /// Places that are layered share this; every other place has its own.
    pub(crate) layers: Place,
    pub(crate) depth: u32,
    pub(crate) place: Place,
}

/// What computations see of the engine.
pub(crate) struct Core {
    pub(crate) stores: Vec<Box<dyn Store>>,
    /// By place: those that it is layered with, itself included.
    layers: Box<[Range<Place>]>,
    places: Places,
    pub(crate) graph: RefCell<Graph>,
    faults: RefCell<Faults>,
    /// Rows that are to panic, as their store describes them.
    #[cfg(debug_assertions)]
    pub(crate) failing: RefCell<std::collections::BTreeSet<String>>,
    batch: Cell<Batch>,
}

impl Core {
    pub(crate) fn new(stores: Vec<Box<dyn Store>>, layers: &[Place], places: Places) -> Self {
        let graph = RefCell::new(Graph::new(stores.len()));
        let mut end = 0;
        let layered = layers.chunk_by(|a, b| a == b).flat_map(|layered| {
            let first = end;
            end += Place::try_from(layered.len()).expect("checked when built");
            layered.iter().map(move |_| first..end)
        });
        Self {
            stores,
            layers: layered.collect(),
            places,
            graph,
            faults: RefCell::default(),
            #[cfg(debug_assertions)]
            failing: RefCell::default(),
            batch: Cell::default(),
        }
    }

    pub(crate) fn store(&self, place: Place) -> &dyn Store {
        &*self.stores[place as usize]
    }

    /// The first place that a place is layered with; its own if it is not.
    pub(crate) fn layers(&self, place: Place) -> Place {
        self.layers[place as usize].start
    }

    /// When a node is settled.
    pub(crate) fn moment(&self, node: NodeId) -> Moment {
        let cell = self.graph.borrow().cell(node);
        Moment { layers: self.layers(cell.place), depth: cell.depth, place: cell.place }
    }

    pub(crate) fn name(&self, place: Place) -> &'static str {
        self.store(place).name()
    }

    /// The store of a table or of groups, by their marker.
    pub(crate) fn typed<S: Store>(&self, marker: TypeId, name: &str) -> (Place, &S) {
        let Some(place) = self.places.get(marker) else { panic!("`{name}` is not registered") };
        let store: &dyn Any = self.store(place);
        (place, store.downcast_ref().expect("a marker is registered with its own store"))
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

    /// The faults, for those who report them.
    pub(crate) fn faults(&self) -> std::cell::Ref<'_, Faults> {
        self.faults.borrow()
    }

    pub(crate) fn faults_mut(&mut self) -> &mut Faults {
        self.faults.get_mut()
    }

    /// What reading the node unwinds with.
    #[cold]
    pub(crate) fn poison(&self, node: NodeId) -> Option<Fault> {
        self.faults.borrow().poison(node).cloned()
    }

    /// Takes note of how a computation of the node ended: by a panic of its own, and with what it poisons its readers.
    /// Tells whether its readers meet something else than before.
    #[cold]
    pub(crate) fn set_trouble(&self, node: NodeId, own: Option<Fault>, poison: Option<&Fault>) -> bool {
        let mut faults = self.faults.borrow_mut();
        faults.set_own(node, || self.describe(node), own);
        let changed = faults.set_poison(node, poison);
        self.graph.borrow_mut().set_troubled(node, faults.is_troubled(node));
        changed
    }

    /// Derived rows that poison: their tables and faults, in settling order.
    pub(crate) fn unended(&self) -> Vec<(&'static str, Fault)> {
        let faults = self.faults.borrow();
        let store = |node: NodeId| self.store(self.graph.borrow().cell(node).place);
        let mut rows: Vec<_> = faults.poisoning().filter(|(node, _)| store(*node).kind() == Kind::Derived).collect();
        rows.sort_unstable_by(|a, b| self.compare(a.0, b.0));
        rows.into_iter().map(|(node, fault)| (store(node).name(), fault.clone())).collect()
    }

    /// The input rows that a row has read, itself or through others, by place and row.
    pub(crate) fn origins(&self, node: NodeId) -> Vec<(Place, Row)> {
        let (mut seen, mut next) = (HashSet::<_, RandomState>::from_iter([node]), vec![node]);
        let mut origins = Vec::new();
        while let Some(node) = next.pop() {
            let (cell, reads) = {
                let graph = self.graph.borrow();
                (graph.cell(node), graph.reads(node).collect::<Vec<_>>())
            };
            let store = self.store(cell.place);
            let read = match store.kind() {
                Kind::Input => {
                    origins.push((cell.place, cell.row));
                    continue;
                }
                Kind::Group => store.emitters(cell.row).into_iter().map(|(_, emitter)| emitter).collect(),
                Kind::Lookup | Kind::Derived => reads,
            };
            next.extend(read.into_iter().filter(|node| seen.insert(*node)));
        }
        origins.sort_unstable();
        origins
    }

    /// Rows that ought to have been recycled.
    #[cfg(debug_assertions)]
    pub(crate) fn left_behind(&self) -> Vec<String> {
        let graph = self.graph.borrow();
        let is_needed = |node: NodeId| {
            let cell = graph.cell(node);
            graph.has_readers(node) || graph.demand_count(node) > 0 || self.store(cell.place).holds(cell.row)
        };
        let all =
            self.stores.iter().flat_map(|store| store.keys().into_iter().map(move |(key, node)| (store, key, node)));
        let left = all.filter(|(.., node)| !is_needed(*node));
        left.map(|(store, key, _)| format!("{}({key})", store.name())).collect()
    }

    /// Panics if the row is to.
    #[cfg(debug_assertions)]
    pub(crate) fn fail(&self, node: NodeId) {
        if !self.failing.borrow().is_empty() {
            let fails = self.failing.borrow().contains(&self.describe(node));
            assert!(!fails, "{}", crate::fault::TOLD_TO);
        }
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
        let mut from = 0;
        loop {
            // Its own statement: the graph must not stay borrowed while places settle.
            let busy = self.graph.borrow().next_busy(from);
            let Some(places) = busy.map(|place| self.layers[place as usize].clone()) else { break };
            self.settle_layers(&places);
            self.graph.borrow_mut().set_idle(&places);
            from = places.end;
        }
        debug_assert!((0..).zip(&self.stores).all(|(place, _)| self.waiting(place).is_none()), "work is left");
        self.recycle();
        self.batch.get()
    }

    /// Settles places that refer to each other: depth by depth, and at each depth place by place.
    fn settle_layers(&self, places: &Range<Place>) {
        for place in places.clone() {
            self.store(place).begin(self);
        }
        while let Some(depth) = places.clone().filter_map(|place| self.waiting(place)).min() {
            for place in places.clone() {
                let store = self.store(place);
                store.open(self, depth);
                loop {
                    // Its own statement: the graph must not stay borrowed during the turn.
                    let next = self.graph.borrow_mut().next(place, depth);
                    let Some(row) = next else { break };
                    self.count(store.turn(self, row));
                }
            }
        }
    }

    /// The least depth at which a place has anything to do.
    fn waiting(&self, place: Place) -> Option<u32> {
        let (rows, entries) = (self.graph.borrow().waiting(place), self.store(place).pending());
        rows.into_iter().chain(entries).min()
    }

    /// Forgets rows that hold nothing, that nobody reads and nobody demands.
    fn recycle(&self) {
        let mut graph = self.graph.borrow_mut();
        while let Some(node) = graph.next_suspect() {
            let cell = graph.cell(node);
            let store = self.store(cell.place);
            if !graph.has_readers(node) && graph.demand_count(node) == 0 && !store.holds(cell.row) {
                if graph.is_troubled(node) {
                    let mut faults = self.faults.borrow_mut();
                    faults.set_own(node, || store.describe(cell.row), None);
                    faults.set_poison(node, None);
                }
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
