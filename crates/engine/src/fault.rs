//! Rows whose computation panicked.
//!
//! A panic ends the computation of one row and nothing else. Unwinding serves two ends here: a panic of the row's own
//! code, and poison, which a row meets that reads a row that has no value because of a panic.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind, resume_unwind, set_hook, take_hook};
use std::sync::{Arc, Once};

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use crate::node::NodeId;

/// Why a row has no value, or only the one that its table has for such a case: a computation panicked.
///
/// Clones are cheap and equal. It is for whoever mends the program: the message may quote anything, so it belongs in a
/// log and not before the owner of an object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault(Arc<Words>);

#[derive(PartialEq, Eq, Debug)]
struct Words {
    row: String,
    place: String,
    message: String,
}

impl Fault {
    /// The row that panicked, `Table(key)`.
    pub fn row(&self) -> &str {
        &self.0.row
    }

    /// Where in the source it panicked, `file:line:column`.
    pub fn place(&self) -> &str {
        &self.0.place
    }

    /// The panic's message.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Has the poison go on to whoever reads the row: what [`Lookup::poisoned`](crate::Lookup::poisoned) and
    /// [`Derived::poisoned`](crate::Derived::poisoned) do unless a table says otherwise.
    pub fn spread(&self) -> ! {
        // Not a panic: there is nothing to be told that the panic has not told already.
        resume_unwind(Box::new(Poison(self.clone())))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} panicked at {}: {}", self.row(), self.place(), self.message())
    }
}

/// The message of a row that panics because it was told to (`Engine::fail_at`).
pub const TOLD_TO: &str = "the row was told to panic";

/// A row that panicked, or that was computed without a panic after one that was.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Turned {
    /// The row, `Table(key)`.
    pub row: String,
    /// Its panic; none for a row that is sound again, or gone.
    pub fault: Option<Fault>,
}

/// What a row that reads a poisoned row unwinds with.
struct Poison(Fault);

/// How a computation ended that did not return.
pub(crate) enum Ended {
    /// It read a poisoned row.
    Poisoned(Fault),
    /// It panicked: place and message.
    Panicked(String, String),
}

impl Ended {
    /// The fault; `row` names the row that was computed. Tells whether the fault is its own.
    pub(crate) fn fault(self, row: impl FnOnce() -> String) -> (Fault, bool) {
        match self {
            Self::Poisoned(fault) => (fault, false),
            Self::Panicked(place, message) => (Fault(Arc::new(Words { row: row(), place, message })), true),
        }
    }
}

thread_local! {
    /// How many computations this thread is in.
    static COMPUTING: Cell<u32> = const { Cell::new(0) };
    /// Place and message of the last panic in one of them.
    static PANIC: RefCell<Option<(String, String)>> = const { RefCell::new(None) };
}

/// Computes something that may panic.
///
/// What is caught leaves the engine sound: a computation changes only its frame and what it staged, which the caller
/// drops, and lookups that it had computed, which are complete or poisoned in turn.
pub(crate) fn caught<T>(compute: impl FnOnce() -> T) -> Result<T, Ended> {
    COMPUTING.set(COMPUTING.get() + 1);
    let outcome = catch_unwind(AssertUnwindSafe(compute));
    COMPUTING.set(COMPUTING.get() - 1);
    outcome.map_err(ended)
}

#[cold]
fn ended(payload: Box<dyn Any + Send>) -> Ended {
    match payload.downcast::<Poison>() {
        Ok(poison) => Ended::Poisoned(poison.0),
        Err(_) => {
            let told = PANIC.take();
            let (place, message) = told.unwrap_or_else(|| ("a place unknown".into(), "no message".into()));
            Ended::Panicked(place, message)
        }
    }
}

/// Has panics in computations kept for their [`Fault`] and not printed, from now on and for the whole process. All other
/// panics go where they went before.
pub(crate) fn install_hook() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |info| if COMPUTING.get() > 0 { keep(info) } else { before(info) }));
    });
}

fn keep(info: &PanicHookInfo<'_>) {
    let place = info.location().map_or_else(|| "a place unknown".into(), ToString::to_string);
    PANIC.set(Some((place, info.payload_as_str().unwrap_or("no message").to_owned())));
}

/// The rows that are not sound.
#[derive(Default)]
pub(crate) struct Faults {
    /// Those that panicked themselves.
    own: HashMap<NodeId, Fault, RandomState>,
    /// Those that poison their readers.
    poison: HashMap<NodeId, Fault, RandomState>,
    turned: Vec<Turned>,
}

impl Faults {
    /// Takes note of a row's own fault, or that it has none.
    pub(crate) fn set_own(&mut self, node: NodeId, row: impl FnOnce() -> String, fault: Option<Fault>) {
        if self.own.get(&node) == fault.as_ref() {
            return;
        }
        match &fault {
            Some(fault) => self.own.insert(node, fault.clone()),
            None => self.own.remove(&node),
        };
        self.turned.push(Turned { row: row(), fault });
    }

    /// Takes note of what a row poisons its readers with, or that it does not. Tells whether that differs.
    pub(crate) fn set_poison(&mut self, node: NodeId, fault: Option<&Fault>) -> bool {
        if self.poison.get(&node) == fault {
            return false;
        }
        match fault {
            Some(fault) => self.poison.insert(node, fault.clone()),
            None => self.poison.remove(&node),
        };
        true
    }

    /// Whether no row poisons another one.
    pub(crate) fn is_empty(&self) -> bool {
        self.poison.is_empty()
    }

    pub(crate) fn own(&self, node: NodeId) -> Option<&Fault> {
        self.own.get(&node)
    }

    pub(crate) fn poison(&self, node: NodeId) -> Option<&Fault> {
        self.poison.get(&node)
    }

    /// Rows that poison their readers, in no order.
    pub(crate) fn poisoning(&self) -> impl Iterator<Item = (NodeId, &Fault)> {
        self.poison.iter().map(|(node, fault)| (*node, fault))
    }

    /// The row whose own panic this is.
    pub(crate) fn panicked_with(&self, fault: &Fault) -> Option<NodeId> {
        self.own.iter().find(|(_, own)| *own == fault).map(|(node, _)| *node)
    }

    pub(crate) fn is_troubled(&self, node: NodeId) -> bool {
        self.own.contains_key(&node) || self.poison.contains_key(&node)
    }

    /// Those that panicked, by the names of their rows.
    pub(crate) fn panicked(&self) -> Vec<Fault> {
        let mut faults: Vec<_> = self.own.values().cloned().collect();
        faults.sort_unstable_by(|a, b| a.row().cmp(b.row()));
        faults
    }

    pub(crate) fn take_turned(&mut self) -> Vec<Turned> {
        std::mem::take(&mut self.turned)
    }
}
