//! What is written of an object.

use std::hash::BuildHasher;

use api::ObjectId;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, value::RawValue};

use super::entry::{DesiredStatus, Entry};
use crate::status::{
    compact::Compact,
    merge::{Desired, merge},
};

/// What an object's status must be changed to; none if nothing is to be written.
pub(super) fn merged(
    id: &ObjectId,
    entry: &Entry,
    controller_name: &str,
    complete: bool,
    wall: Timestamp,
) -> Option<String> {
    let known = entry.known.as_ref()?;
    let text = match &entry.desired {
        DesiredStatus::Unknown if !complete => return None,
        DesiredStatus::Unknown | DesiredStatus::None => None,
        DesiredStatus::Status(text) | DesiredStatus::Withdrawn(text) => Some(serde_json::from_str::<Value>(text).ok()?),
    };
    let desired = match (&entry.desired, &text) {
        (DesiredStatus::Status(_), Some(status)) => Desired::Is(status),
        (_, before) => Desired::Nothing(before.as_ref()),
    };
    let stored = known.status.as_ref().map(Compact::text);
    merge(id.kind, stored.as_deref(), desired, controller_name, wall)
}

/// The patch that changes the status of an object.
pub(super) fn patch(entry: &Entry, status: String, hasher: &impl BuildHasher) -> Option<String> {
    #[derive(Serialize)]
    struct Patch<'a> {
        metadata: Metadata<'a>,
        status: Box<RawValue>,
    }
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata<'a> {
        resource_version: &'a str,
    }
    let known = entry.known.as_ref()?;
    // The API server took this very status and keeps another: it knows fewer fields than we do.
    if entry.wrote == Some((entry.desired_digest, known.digest(hasher))) {
        return None;
    }
    let metadata = Metadata { resource_version: &known.resource_version };
    serde_json::to_string(&Patch { metadata, status: RawValue::from_string(status).ok()? }).ok()
}
