//! What a client is asked that rejected a route configuration.

use crate::resource::{Resource, Version};

/// A version of a route configuration that one client is sent, to learn whether it takes it; see [`crate::Hub::try_out`]. Requests
/// must meet the same in it as in what the client goes on with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trial {
    /// By which its answer is known.
    pub number: u64,
    /// The version of the same name that the client rejected and shall have.
    pub rejected: Version,
    /// The version that it goes on with; none where it has nothing of that name.
    pub before: Option<Version>,
    /// What it is sent.
    pub resource: Resource,
}

/// What came of a [`Trial`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The client takes it.
    Taken,
    /// It rejects it, in these words, as of [`crate::Event::Nacked`].
    Rejected(String),
    /// It does not say, or was not asked: something newer is there for it, it has something else than was thought, or it is not
    /// interested any more.
    Ended,
}
