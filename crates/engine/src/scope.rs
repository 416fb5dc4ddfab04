//! What a computation sees: reads that are recorded, demands and emissions.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::ops::Deref;
use std::sync::Arc;

use crate::core::{Core, Moment};
use crate::edge::Read;
use crate::fault::{self, Ended, Fault};
use crate::frame::Frame;
use crate::node::{NodeId, Place};
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
    stamp: u32,
    frame: RefCell<Frame>,
    /// Its first panic.
    panicked: RefCell<Option<Fault>>,
    /// What it reads and is not there, by name, where somebody asks for that.
    missed: Option<RefCell<Vec<String>>>,
}

impl Scope<'_> {
    /// The value of a row, none if there is no such row.
    ///
    /// A [`Lookup`] row is computed there and then if it has to be. A [`Derived`] row has a value only
    /// while something demands it; reading does not demand it, but the reader is woken once it appears.
    pub fn get<T: Table>(&self, key: &T::Key) -> Option<Arc<T::Value>> {
        let (place, store) = self.core.table::<T>();
        if self.check_place(place, READ, T::NAME, key) {
            self.check_depth(place, store.depth(key), READ, T::NAME, key);
        }
        let (node, row, mut value) = match store.read(self.core, key, self.node) {
            Ok(read) => read,
            Err(miss) => {
                self.frame.borrow_mut().reads.push(Read::Miss(miss));
                self.name(T::NAME, key);
                return None;
            }
        };
        let (stale, mut troubled) = {
            let mut graph = self.core.graph.borrow_mut();
            if graph.first_touch(node, self.stamp) {
                self.frame.borrow_mut().reads.push(Read::Node(node));
            }
            (graph.is_stale(node), graph.is_troubled(node))
        };
        if stale && store.is_lookup() {
            self.core.count(store.compute(self.core, row));
            troubled = self.core.graph.borrow().is_troubled(node);
            value = store.value(row);
        }
        if troubled && let Some(fault) = self.core.poison(node) {
            fault.spread();
        }
        if value.is_none() {
            self.name(T::NAME, key);
        }
        value
    }

    /// What `part` returns, or why it did not: it panicked, or read a poisoned row.
    ///
    /// It ends the poison of a part where the rest can do without it. What `part` demanded and emitted before it ended
    /// stays, so let it only read.
    ///
    /// # Errors
    /// The fault that ended it.
    pub fn attempt<T>(&self, part: impl FnOnce() -> T) -> Result<T, Fault> {
        fault::caught(part).map_err(|ended| self.fault(ended))
    }

    /// Why a part of the computation ended; a panic is told as the row's own.
    #[cold]
    fn fault(&self, ended: Ended) -> Fault {
        let (fault, own) = ended.fault(|| self.core.describe(self.node));
        if own {
            self.panicked.borrow_mut().get_or_insert_with(|| fault.clone());
        }
        fault
    }

    /// The group as it stands; empty if nothing was emitted into it.
    pub fn group<G: Group>(&self, key: &G::Key) -> View<G> {
        let (place, store) = self.core.groups::<G>();
        if self.check_place(place, READ, G::NAME, key) {
            self.check_depth(place, G::depth(key), READ, G::NAME, key);
        }
        let (read, view) = store.read(self.core, key, self.node);
        let is_known = |node| !self.core.graph.borrow_mut().first_touch(node, self.stamp);
        if !matches!(read, Read::Node(node) if is_known(node)) {
            self.frame.borrow_mut().reads.push(read);
        }
        if view.is_empty() {
            self.name(G::NAME, key);
        }
        view
    }

    /// Names what was read and is not there, if somebody asks for that.
    fn name(&self, name: &str, key: &dyn std::fmt::Debug) {
        if let Some(missed) = &self.missed {
            missed.borrow_mut().push(format!("{name}({key:?})"));
        }
    }

    /// Panics unless a table or group stands where it must: before this row's to be read, after it to be written, or
    /// layered with it, in which case this is true and the depths decide.
    #[inline]
    fn check_place(&self, place: Place, access: Access, name: &str, key: &dyn std::fmt::Debug) -> bool {
        let order = self.core.layers(place).cmp(&self.at.layers);
        if order != access.1 && order.is_ne() {
            self.refuse_place(access, name, key);
        }
        order.is_eq()
    }

    /// Apart, so that the check is a comparison and nothing else.
    #[cold]
    fn refuse_place(&self, (verb, side): Access, name: &str, key: &dyn std::fmt::Debug) -> ! {
        panic!(
            "{} may not {verb} {name}({key:?}): `{name}` must be registered {} `{}`",
            self.core.describe(self.node),
            if side.is_lt() { "before" } else { "after" },
            self.core.name(self.at.place),
        )
    }

    /// Panics unless a row or group of the same layers comes before this row to be read, after it to be written.
    fn check_depth(&self, place: Place, depth: u32, (verb, side): Access, name: &str, key: &dyn std::fmt::Debug) {
        let at = Moment { layers: self.core.layers(place), depth, place };
        let (than, stands) = if side.is_lt() { ("lower", "before") } else { ("greater", "after") };
        assert!(
            at.cmp(&self.at) == side,
            "{} of depth {} may not {verb} {name}({key:?}) of depth {depth}: it must have a strictly {than} depth, or the \
             same and be registered {stands}",
            self.core.describe(self.node),
            self.at.depth,
        );
    }
}

/// What a computation came to.
pub(crate) struct Computed<V> {
    pub(crate) value: Option<V>,
    /// None for nearly all rows.
    pub(crate) trouble: Option<Box<Trouble>>,
}

/// What a row is told of that was computed in spite of a panic, or not at all.
pub(crate) struct Trouble {
    /// Its own panic.
    pub(crate) own: Option<Fault>,
    /// What it poisons its readers with.
    pub(crate) poison: Option<Fault>,
}

/// Computes a row of a lookup table.
pub(crate) fn lookup<T: Lookup>(emitter: &Emitter<'_>, key: &T::Key) -> Result<Option<T::Value>, Fault> {
    emitter.compute(|scope| T::compute(scope, key), |scope, fault| T::poisoned(scope, key, fault))
}

/// Computes a row of a derived table.
pub(crate) fn derived<T: Derived>(emitter: &Emitter<'_>, key: &T::Key) -> Result<Option<T::Value>, Fault> {
    emitter.compute(|scope| T::compute(scope, key), |scope, fault| T::poisoned(scope, key, fault))
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
    pub(crate) fn new(core: &'a Core, node: NodeId, stamp: u32) -> Self {
        let (frame, panicked) = (RefCell::default(), RefCell::default());
        Self { scope: Scope { core, node, at: core.moment(node), stamp, frame, panicked, missed: None } }
    }

    /// For a computation of which nothing becomes but the names of what it reads and is not there.
    pub(crate) fn naming(core: &'a Core, node: NodeId) -> Self {
        let stamp = core.graph.borrow_mut().next_stamp();
        let mut emitter = Self::new(core, node, stamp);
        emitter.scope.missed = Some(RefCell::default());
        emitter
    }

    /// What it has read that is not there.
    pub(crate) fn missed(self) -> Vec<String> {
        let Scope { core, node, frame, missed, .. } = self.scope;
        let mut frame = frame.into_inner();
        frame.withdraw(core);
        core.graph.borrow_mut().drop_misses(node, &frame.reads);
        missed.map(RefCell::into_inner).unwrap_or_default()
    }

    /// The value of the row, or (an error) what its readers are poisoned with.
    fn compute<V>(
        &self,
        compute: impl FnOnce(&Self) -> Option<V>,
        poisoned: impl FnOnce(&Self, &Fault) -> Option<V>,
    ) -> Result<Option<V>, Fault> {
        let computed = fault::caught(|| {
            let value = compute(self);
            // Last: a fault of a row's own code has read what it is a fault about.
            #[cfg(debug_assertions)]
            self.core.fail(self.node);
            value
        });
        computed.or_else(|ended| self.close(ended, poisoned))
    }

    /// What a table says of a row that cannot be computed.
    #[cold]
    fn close<V>(&self, ended: Ended, poisoned: impl FnOnce(&Self, &Fault) -> Option<V>) -> Result<Option<V>, Fault> {
        let fault = self.fault(ended);
        self.frame.borrow_mut().withdraw(self.core);
        fault::caught(|| poisoned(self, &fault)).map_err(|ended| {
            self.frame.borrow_mut().withdraw(self.core);
            // What it poisons its readers with is the panic that came first, not what that led to.
            self.fault(ended);
            fault.clone()
        })
    }

    pub(crate) fn commit<V>(&mut self, value: Result<Option<V>, Fault>) -> Computed<V> {
        let Scope { core, node, frame, panicked, .. } = &mut self.scope;
        frame.get_mut().commit(core, *node);
        let own = panicked.get_mut().take();
        match value {
            Ok(value) => Computed { value, trouble: own.map(|own| Box::new(Trouble { own: Some(own), poison: None })) },
            Err(poison) => Computed { value: None, trouble: Some(Box::new(Trouble { own, poison: Some(poison) })) },
        }
    }
}

impl Emitter<'_> {
    /// Has a later row exist for as long as this row exists and repeats it.
    #[expect(clippy::needless_pass_by_value, reason = "keys are made for the call")]
    pub fn demand<T: Derived>(&self, key: T::Key) {
        let (place, store) = self.core.table::<T>();
        if self.check_place(place, DEMAND, T::NAME, &key) {
            self.check_depth(place, store.depth(&key), DEMAND, T::NAME, &key);
        }
        let (node, _) = store.node(self.core, &key);
        self.frame.borrow_mut().demands.push(node);
    }

    /// Puts an entry into a later group for as long as this row exists and repeats it. Of two emissions of one row
    /// with one sort key into one group the last counts.
    #[expect(clippy::needless_pass_by_value, reason = "keys are made for the call")]
    pub fn emit<G: Group>(&self, group: G::Key, sort: G::Sort, entry: G::Entry) {
        let (place, store) = self.core.groups::<G>();
        if self.check_place(place, EMIT, G::NAME, &group) {
            self.check_depth(place, G::depth(&group), EMIT, G::NAME, &group);
        }
        // First, so that a row that panics takes back what is staged.
        let groups = &mut self.frame.borrow_mut().groups;
        if !groups.contains(&place) {
            groups.push(place);
        }
        store.stage(self.core, &group, sort, entry);
    }
}
