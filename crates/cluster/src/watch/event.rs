//! What a reflector sends.

use super::{
    decoder::{Name, WatchedObject},
    request::ListWatch,
};

/// What becomes known of one [`ListWatch`], in this order: `ListStarted`, objects, `ListComplete`, objects, and so on.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "most are of the large variant")]
pub(super) enum Event {
    /// A list begins.
    ListStarted,
    /// An object is there.
    Applied(WatchedObject),
    /// An object has gone.
    Deleted(Name),
    /// The list is complete: what was not in it has gone.
    ListComplete,
    /// The watch does not work.
    Failing {
        /// Why, for people.
        why: String,
        /// Whether that is because we may not watch.
        forbidden: bool,
    },
    /// It works again.
    Recovered,
    /// The kind is not served.
    NotServed,
}

/// Something for the coordinator.
#[derive(Debug)]
pub(super) enum Message {
    /// Events of a reflector.
    Events(ListWatch, Vec<Event>),
    /// What was fetched for the request of this number.
    Fetched(u64, Vec<WatchedObject>),
    /// An object to which others refer could not be read for longer than anybody waits, for this reason. The request of this
    /// number goes on.
    Late(u64, String),
    /// What there is of an object to which others refer, for the request of this number.
    Content(u64, Vec<WatchedObject>),
}
