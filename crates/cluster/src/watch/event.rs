//! What the watch of one place tells.

use super::{
    request::Place,
    wire::{Name, Said},
};

/// What a reader tells, in this order: `Begin`, objects, `End`, objects, and so on.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "most are of the large variant")]
pub(super) enum Event {
    /// A list begins.
    Begin,
    /// An object is there.
    Put(Said),
    /// An object has gone.
    Gone(Name),
    /// The list is complete: what was not in it has gone.
    End,
    /// The watch does not work.
    Failing {
        /// Why, for people.
        why: String,
        /// Whether that is because we may not watch.
        forbidden: bool,
    },
    /// It works.
    Working,
    /// The kind is not served.
    NotServed,
}

/// Something for the coordinator.
#[derive(Debug)]
pub(super) enum Message {
    /// Events of the watch of a place.
    Read(Place, Vec<Event>),
    /// What was fetched for the request of this number.
    Fetched(u64, Vec<Said>),
    /// An object to which others refer could not be read for longer than anybody waits, for this reason. The request of this
    /// number goes on.
    Late(u64, String),
    /// What there is of an object to which others refer, for the request of this number.
    Content(u64, Vec<Said>),
}
