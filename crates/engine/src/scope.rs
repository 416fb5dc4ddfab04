//! What a computation sees: reads that are recorded, demands and emissions.

use std::cell::RefCell;
use std::ops::Deref;
use std::sync::Arc;

use crate::core::Core;
use crate::frame::Frame;
use crate::graph::{NodeId, Place};
use crate::pages::View;
use crate::table::{Derived, Group, Lookup, Table};

/// Through which a row reads others. What is read is recorded, rows that do not exist included, so that the row is
/// computed again when any of it changes.
///
/// A row may read tables and groups that were registered before its own table, and rows of its own table that have a
/// strictly lower depth. Anything else panics with the names of both rows: it is an error in the program, found the
/// first time the line runs.
pub struct Scope<'a> {
    core: &'a Core,
    node: NodeId,
    place: Place,
    stamp: u64,
    frame: RefCell<Frame>,
}

impl Scope<'_> {
    /// The value of a row, none if there is no such row.
    ///
    /// A [`Lookup`] row is computed there and then if it has to be. A [`Derived`] row has a value only
    /// while something demands it; reading does not demand it, but the reader is woken once it appears.
    pub fn get<T: Table>(&self, key: &T::Key) -> Option<Arc<T::Value>> {
        let (place, store) = self.core.table::<T>();
        if place > self.place {
            self.refuse_order("read", T::NAME, key);
        }
        let (node, row) = store.node(self.core, key);
        let stale = {
            let mut graph = self.core.graph.borrow_mut();
            if place == self.place && graph.cell(node).depth >= graph.cell(self.node).depth {
                let (own, other) = (graph.cell(self.node).depth, graph.cell(node).depth);
                drop(graph);
                panic!(
                    "{} of depth {own} may not read {} of depth {other}: within a table, rows may read only rows of \
                     strictly lower depth",
                    self.core.describe(self.node),
                    self.core.describe(node),
                );
            }
            if graph.first_touch(node, self.stamp) {
                self.frame.borrow_mut().reads.push(node);
            }
            graph.is_stale(node)
        };
        if stale && store.is_lookup() {
            self.core.count(store.compute(self.core, row));
        }
        store.value(row)
    }

    /// The group as it stands; empty if nothing was emitted into it.
    pub fn group<G: Group>(&self, key: &G::Key) -> View<G> {
        let (place, store) = self.core.groups::<G>();
        if place >= self.place {
            self.refuse_order("read", G::NAME, key);
        }
        let (node, view) = store.read(self.core, key);
        if self.core.graph.borrow_mut().first_touch(node, self.stamp) {
            self.frame.borrow_mut().reads.push(node);
        }
        view
    }

    #[cold]
    fn refuse_order(&self, verb: &str, name: &str, key: &dyn std::fmt::Debug) -> ! {
        let when = if verb == "read" { "before" } else { "after" };
        panic!(
            "{} may not {verb} {name}({key:?}): `{name}` must be registered {when} `{}`",
            self.core.describe(self.node),
            self.core.name(self.place),
        );
    }
}

/// Computes a row of a lookup table.
pub(crate) fn lookup<T: Lookup>(core: &Core, node: NodeId, stamp: u64, key: &T::Key) -> Option<T::Value> {
    let emitter = Emitter::new(core, node, stamp);
    let value = T::compute(&emitter, key);
    emitter.commit();
    value
}

/// Computes a row of a derived table.
pub(crate) fn derived<T: Derived>(core: &Core, node: NodeId, stamp: u64, key: &T::Key) -> Option<T::Value> {
    let emitter = Emitter::new(core, node, stamp);
    let value = T::compute(&emitter, key);
    emitter.commit();
    value
}

/// Through which a [`Derived`] row reads, demands and emits. What it demands and emits must belong to tables and groups
/// that were registered after its own; anything else panics with the names of both.
pub struct Emitter<'a> {
    scope: Scope<'a>,
}

impl<'a> Deref for Emitter<'a> {
    type Target = Scope<'a>;

    fn deref(&self) -> &Scope<'a> {
        &self.scope
    }
}

impl<'a> Emitter<'a> {
    fn new(core: &'a Core, node: NodeId, stamp: u64) -> Self {
        let place = core.graph.borrow().cell(node).place;
        Self { scope: Scope { core, node, place, stamp, frame: RefCell::default() } }
    }

    fn commit(self) {
        let Scope { core, node, frame, .. } = self.scope;
        frame.into_inner().commit(core, node);
    }
}

impl Emitter<'_> {
    /// Has a row of a later table exist for as long as this row exists and repeats it.
    #[expect(clippy::needless_pass_by_value, reason = "keys are made for the call")]
    pub fn demand<T: Derived>(&self, key: T::Key) {
        let (place, store) = self.core.table::<T>();
        if place <= self.place {
            self.refuse_order("demand", T::NAME, &key);
        }
        let (node, _) = store.node(self.core, &key);
        self.frame.borrow_mut().demands.push(node);
    }

    /// Puts an entry into a later group for as long as this row exists and repeats it. Of two emissions of one row
    /// with one sort key into one group the last counts.
    #[expect(clippy::needless_pass_by_value, reason = "keys are made for the call")]
    pub fn emit<G: Group>(&self, group: G::Key, sort: G::Sort, entry: G::Entry) {
        let (place, store) = self.core.groups::<G>();
        if place <= self.place {
            self.refuse_order("emit into", G::NAME, &group);
        }
        store.stage(self.core, &group, sort, entry);
        let groups = &mut self.frame.borrow_mut().groups;
        if !groups.contains(&place) {
            groups.push(place);
        }
    }
}
