//! What a computation sees: reads that are recorded, demands and emissions.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::ops::Deref;
use std::sync::Arc;

use crate::core::{Core, Moment};
use crate::frame::Frame;
use crate::graph::{NodeId, Place};
use crate::pages::View;
use crate::table::{Derived, Group, Lookup, Table};

/// What a row does to another, as a verb, and on which side of the row the other must stand in settling order.
type Access = (&'static str, Ordering);
const READ: Access = ("read", Ordering::Less);
const DEMAND: Access = ("demand", Ordering::Greater);
const EMIT: Access = ("emit into", Ordering::Greater);

/// Through which a row reads others. What is read is recorded, rows that do not exist included, so that the row is
/// computed again when any of it changes.
///
/// A row may read tables and groups that were registered before its own table, and rows of its own table that have a
/// strictly lower depth; among tables and groups that are [layered](crate::Builder::layered), whatever has a strictly
/// lower depth. Anything else panics with the names of both rows: it is an error in the program, found the first time
/// the line runs.
pub struct Scope<'a> {
    core: &'a Core,
    node: NodeId,
    at: Moment,
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
        let layered = self.check_place(place, READ, T::NAME, key);
        let (node, row) = store.node(self.core, key);
        if layered {
            self.check_depth(node, READ);
        }
        let stale = {
            let mut graph = self.core.graph.borrow_mut();
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
        let layered = self.check_place(place, READ, G::NAME, key);
        let (node, view) = store.read(self.core, key);
        if layered {
            self.check_depth(node, READ);
        }
        if self.core.graph.borrow_mut().first_touch(node, self.stamp) {
            self.frame.borrow_mut().reads.push(node);
        }
        view
    }

    /// Panics unless a table or group stands where it must: before this row's to be read, after it to be written, or
    /// layered with it, in which case this is true and the depths decide.
    fn check_place(&self, place: Place, (verb, side): Access, name: &str, key: &dyn std::fmt::Debug) -> bool {
        let order = self.core.layers(place).cmp(&self.at.layers);
        assert!(
            order == side || order.is_eq(),
            "{} may not {verb} {name}({key:?}): `{name}` must be registered {} `{}`",
            self.core.describe(self.node),
            if side.is_lt() { "before" } else { "after" },
            self.core.name(self.at.place),
        );
        order.is_eq()
    }

    /// Panics unless a row or group of the same layers comes before this row to be read, after it to be written.
    fn check_depth(&self, other: NodeId, (verb, side): Access) {
        let at = self.core.moment(other);
        let (depth, place) = if side.is_lt() { ("lower", "before") } else { ("greater", "after") };
        assert!(
            at.cmp(&self.at) == side,
            "{} of depth {} may not {verb} {} of depth {}: it must have a strictly {depth} depth, or the same and be \
             registered {place}",
            self.core.describe(self.node),
            self.at.depth,
            self.core.describe(other),
            at.depth,
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
/// that were registered after its own, or be rows of its own table of a strictly greater depth, or, where they are
/// [layered](crate::Builder::layered), anything of a strictly greater depth; the rest panics with the names of both.
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
        Self { scope: Scope { core, node, at: core.moment(node), stamp, frame: RefCell::default() } }
    }

    fn commit(self) {
        let Scope { core, node, frame, .. } = self.scope;
        frame.into_inner().commit(core, node);
    }
}

impl Emitter<'_> {
    /// Has a later row exist for as long as this row exists and repeats it.
    #[expect(clippy::needless_pass_by_value, reason = "keys are made for the call")]
    pub fn demand<T: Derived>(&self, key: T::Key) {
        let (place, store) = self.core.table::<T>();
        let layered = self.check_place(place, DEMAND, T::NAME, &key);
        let (node, _) = store.node(self.core, &key);
        if layered {
            self.check_depth(node, DEMAND);
        }
        self.frame.borrow_mut().demands.push(node);
    }

    /// Puts an entry into a later group for as long as this row exists and repeats it. Of two emissions of one row
    /// with one sort key into one group the last counts.
    #[expect(clippy::needless_pass_by_value, reason = "keys are made for the call")]
    pub fn emit<G: Group>(&self, group: G::Key, sort: G::Sort, entry: G::Entry) {
        let (place, store) = self.core.groups::<G>();
        let layered = self.check_place(place, EMIT, G::NAME, &group);
        let node = store.stage(self.core, &group, sort, entry);
        if layered {
            self.check_depth(node, EMIT);
        }
        let groups = &mut self.frame.borrow_mut().groups;
        if !groups.contains(&place) {
            groups.push(place);
        }
    }
}
