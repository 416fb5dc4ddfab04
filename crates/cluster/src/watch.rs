//! Watches of every kind that is read.

use std::sync::Arc;

use serde_json::value::RawValue;

/// What the API server has of an object, as far as writing its status needs it.
#[derive(Clone, Debug)]
pub struct Stored {
    /// Tells objects of one name apart (`metadata.uid`).
    pub uid: Arc<str>,
    /// The version of the object (`metadata.resourceVersion`).
    pub resource_version: Arc<str>,
    /// The status as it came; none if there is none.
    pub status: Option<Box<RawValue>>,
}
