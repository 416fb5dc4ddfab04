//! What is said of an object where translation itself fails: a row panicked, which is an error in this program.
//!
//! Where and why it failed is for the log. The text of a panic may quote anything, so it is never told to the owners of
//! objects.

use ir::{Problem, Reason, Severity};

use crate::tables::gateway::Fault;

/// What is wrong and what to do, in one clause.
pub(crate) const WORDS: &str = "an internal error of Portcullis stands in the way, of which the controller's log has more; report it, or \
                                write the object otherwise";

/// A fault of an object as a whole.
pub(crate) fn fault() -> Fault {
    Fault::new(Reason::InternalFault, WORDS)
}

/// A problem at a field.
pub(crate) fn problem(severity: Severity, field: &str) -> Problem {
    Problem::new(severity, Reason::InternalFault, field, WORDS)
}
