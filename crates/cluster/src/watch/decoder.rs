//! Decodes what an API server writes.

use std::{
    borrow::Cow,
    hash::BuildHasher,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use api::{Kind, Object, ObjectId, meta::StringMap};
use foldhash::fast::FixedState;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ListMeta, ObjectMeta};
use kube::core::{PartialObjectMeta, response::StatusDetails};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Stored, request::Target};

/// What is called so within a kind; the namespace is empty for an object of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Name {
    pub(super) namespace: Arc<str>,
    pub(super) name: Arc<str>,
}

/// An object, as an API server has it.
#[derive(Debug)]
pub(super) struct WatchedObject {
    pub(super) name: Name,
    /// Stands for its version: equal for equal versions, and greater for later ones.
    pub(super) version: u64,
    pub(super) payload: Payload,
}

/// What is known of an object that is there.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "most are of the large variant")]
pub(super) enum Payload {
    /// It is this.
    Object { object: Object, stored: Option<Stored> },
    /// It cannot be decoded; of a policy, what it targets.
    Undecodable { why: String, targets: Option<(Box<Object>, Option<Stored>)> },
    /// It exists, and its contents are not read. It is the one of this uid.
    Exists { uid: Arc<str> },
    /// It exists with these labels, and its contents are not read.
    Labels(StringMap),
    /// Only its metadata was asked for.
    Metadata(Box<ObjectMeta>),
}

/// A line of a watch.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "most are of the large variant")]
pub(super) enum Line {
    /// An object is there.
    Applied(WatchedObject),
    /// An object has gone.
    Deleted(Name),
    /// Nothing happened until this version; with `listed`, all objects that there were have been sent.
    Bookmark { listed: bool },
    /// Something about an object that has no name. Not from any API server that we know.
    Nameless,
    /// The watch ends for this reason.
    Error(Status),
}

/// The annotation of a bookmark that ends a streaming list (`metav1.InitialEventsAnnotationKey`).
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// The cause of a [`Status`] where a version that an API server has not reached was asked for (`metav1.CauseType`).
const RESOURCE_VERSION_TOO_LARGE: &str = "ResourceVersionTooLarge";

/// What an API server answers where it has no object to answer with.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Status {
    /// HTTP code.
    pub(super) code: u16,
    /// For people.
    pub(super) message: String,
    /// For programs.
    pub(super) details: Option<StatusDetails>,
}

/// A page of a list.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) objects: Vec<WatchedObject>,
    /// The version of the list.
    pub(super) version: String,
    /// What to ask the next page with; none after the last.
    pub(super) next: Option<String>,
}

/// An answer that no API server gives.
#[derive(Debug, thiserror::Error)]
pub(super) enum MalformedAnswer {
    /// No UTF-8.
    #[error("the answer is not UTF-8")]
    NotText,
    /// Not the JSON that is due.
    #[error("the answer is not what an API server writes: {0}")]
    NotJson(#[from] serde_json::Error),
    /// An event of an unknown type.
    #[error("the answer is not what an API server writes: an event of type {0:?}")]
    UnknownEvent(String),
}

#[derive(Deserialize)]
struct RawLine<'a> {
    #[serde(borrow)]
    r#type: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct RawPage<'a> {
    metadata: ListMeta,
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
}

/// What every object has, and what is stored beside its spec.
#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow)]
    metadata: HeadMeta<'a>,
    #[serde(borrow, default)]
    status: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct HeadMeta<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    namespace: Cow<'a, str>,
    #[serde(borrow)]
    uid: Cow<'a, str>,
    #[serde(borrow)]
    resource_version: Cow<'a, str>,
}

/// Makes an object of its text.
type Decode = fn(Kind, &str) -> Result<Object, (api::DecodeError, Option<Box<Object>>)>;

/// Decodes what is read of one target.
#[derive(Clone, Debug)]
pub(super) struct Decoder {
    target: Target,
    decode: Decode,
}

impl Decoder {
    /// For this target.
    pub(super) fn new(target: Target) -> Self {
        Self { target, decode: api::decode_json }
    }

    /// Decodes a line of a watch, with the version that the watch has come to, if the line has one.
    pub(super) fn line(&self, line: &[u8]) -> Result<(Line, Option<String>), MalformedAnswer> {
        let text = std::str::from_utf8(line).map_err(|_| MalformedAnswer::NotText)?;
        if let Some((watched, version)) = object_of(text).and_then(|raw| self.object(raw)) {
            return Ok((Line::Applied(watched), Some(version)));
        }
        let RawLine { r#type, object } = serde_json::from_str(text)?;
        let raw = object.get();
        match &*r#type {
            "ADDED" | "MODIFIED" => Ok(match self.object(raw) {
                Some((watched, version)) => (Line::Applied(watched), Some(version)),
                None => (Line::Nameless, None),
            }),
            "DELETED" => Ok(match head(raw) {
                Some(Head { metadata, .. }) => (Line::Deleted(metadata.name()), Some(metadata.resource_version.into())),
                None => (Line::Nameless, None),
            }),
            "BOOKMARK" => {
                let metadata = serde_json::from_str::<PartialObjectMeta>(raw)?.metadata;
                let end = metadata.annotations.as_ref().and_then(|annotations| annotations.get(INITIAL_EVENTS_END));
                let listed = end.is_some_and(|end| end == "true");
                Ok((Line::Bookmark { listed }, metadata.resource_version))
            }
            "ERROR" => Ok((Line::Error(serde_json::from_str(raw)?), None)),
            other => Err(MalformedAnswer::UnknownEvent(other.chars().take(40).collect())),
        }
    }

    /// Decodes a page of a list.
    pub(super) fn page(&self, body: &[u8]) -> Result<Page, MalformedAnswer> {
        let text = std::str::from_utf8(body).map_err(|_| MalformedAnswer::NotText)?;
        let RawPage { metadata, items } = serde_json::from_str(text)?;
        let items = items.unwrap_or_default().into_iter();
        let objects = items.filter_map(|raw| self.object(raw.get()).map(|(watched, _)| watched)).collect();
        let next = metadata.continue_.filter(|token| !token.is_empty());
        Ok(Page { objects, version: metadata.resource_version.unwrap_or_default(), next })
    }

    /// An object; none without a name.
    fn object(&self, raw: &str) -> Option<(WatchedObject, String)> {
        let Head { metadata, status } = head(raw)?;
        // A number, wherever the store is etcd; equal for equal ones in any case.
        let number = metadata.resource_version.parse::<u64>().ok();
        let version = number.unwrap_or_else(|| FixedState::with_seed(0).hash_one(&*metadata.resource_version));
        let payload = match self.target {
            Target::Crds => Payload::Exists { uid: (&*metadata.uid).into() },
            Target::Labelled(_) => {
                Payload::Metadata(serde_json::from_str::<PartialObjectMeta>(raw).ok()?.metadata.into())
            }
            Target::Kind(kind) if kind.is_read_by_reference() => Payload::Labels(labels(raw)),
            Target::Selected(_) => Payload::Labels(labels(raw)),
            Target::Kind(kind) | Target::Content(kind) => {
                let stored = || {
                    kind.has_status_of_ours().then(|| Stored {
                        uid: (&*metadata.uid).into(),
                        resource_version: (&*metadata.resource_version).into(),
                        status: status.map(ToOwned::to_owned),
                    })
                };
                match self.decoded(kind, raw) {
                    Ok(object) => Payload::Object { object, stored: stored() },
                    Err((why, targets)) => {
                        Payload::Undecodable { why, targets: targets.map(|object| (object, stored())) }
                    }
                }
            }
        };
        let name = match &payload {
            // An object shares its name with what is kept of it.
            Payload::Object { object, .. } => {
                let ObjectId { namespace, name, .. } = object.id();
                Name { namespace, name }
            }
            _ => metadata.name(),
        };
        Some((WatchedObject { name, version, payload }, metadata.resource_version.into()))
    }

    /// The object, or why there is none and what it targets; whatever happens while it is decoded: the next one may be
    /// that of somebody else.
    fn decoded(&self, kind: Kind, raw: &str) -> Result<Object, (String, Option<Box<Object>>)> {
        let decoded = catch_unwind(AssertUnwindSafe(|| (self.decode)(kind, raw)));
        let fault = |_| Err(("decoding it failed: this is a fault of the controller".to_owned(), None));
        decoded.map_or_else(fault, |decoded| {
            decoded.map_err(|(error, targets)| {
                // Whoever reports it names the object.
                let why = error.violation().map_or_else(|| error.to_string(), |violation| violation.to_string());
                (why, targets)
            })
        })
    }
}

/// The object of a line that says that one is there, if the line is written as API servers do: to find its end takes as
/// long as a third of the rest. What is not JSON by itself is not it.
fn object_of(line: &str) -> Option<&str> {
    let rest = line.strip_prefix(r#"{"type":""#)?;
    let rest = rest.strip_prefix("ADDED").or_else(|| rest.strip_prefix("MODIFIED"))?;
    rest.strip_prefix(r#"","object":"#)?.trim_ascii_end().strip_suffix('}')
}

/// The labels of an object; none where they cannot be read, as if it had none.
fn labels(raw: &str) -> StringMap {
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct Labelled {
        metadata: Labels,
    }
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct Labels {
        labels: Option<StringMap>,
    }
    serde_json::from_str::<Labelled>(raw).ok().and_then(|object| object.metadata.labels).unwrap_or_default()
}

fn head(raw: &str) -> Option<Head<'_>> {
    serde_json::from_str::<Head<'_>>(raw).ok().filter(|head| !head.metadata.name.is_empty())
}

impl HeadMeta<'_> {
    fn name(&self) -> Name {
        Name { namespace: (&*self.namespace).into(), name: (&*self.name).into() }
    }
}

impl Status {
    /// What the body of an answer with this code says.
    pub(super) fn of(code: u16, body: &[u8]) -> Self {
        let mut status = serde_json::from_slice::<Self>(body).unwrap_or_default();
        status.code = code;
        if status.message.is_empty() {
            status.message = String::from_utf8_lossy(body).trim().chars().take(200).collect();
        }
        status
    }

    /// Whether the version that was asked for is later than any that the API server has.
    pub(super) fn is_too_large_resource_version(&self) -> bool {
        let mut causes = self.details.iter().flat_map(|details| &details.causes);
        causes.any(|cause| cause.reason == RESOURCE_VERSION_TOO_LARGE)
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the API server answered {}", self.code)?;
        match &*self.message {
            "" => Ok(()),
            message => write!(f, ": {message}"),
        }
    }
}

#[cfg(test)]
mod malformed;
#[cfg(test)]
mod tests;
