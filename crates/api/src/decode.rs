//! From a parsed manifest to an object.

use serde::{Deserialize, de::DeserializeSeed};
use serde_json::Value;

use crate::{
    Kind, Object, ObjectId, ObjectMeta, Violation,
    group::KGATEWAY_GROUP,
    schema::{
        Schema,
        openapi::{self, Node, Path, WrongType},
    },
};

#[cfg(test)]
mod tests;
mod text;
mod value;

pub use text::decode_json;
pub use value::{Mismatch, decode_value};
use value::{TEXT, decode_seed, found, type_name};

/// An object as decoded.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// The object.
    pub object: Object,
    /// Fields of a Gateway API object or a policy that this release does not know, such as `spec.rules[0].pathh`,
    /// metadata and status left out. An API server would drop them silently. Core kinds report none: a slim model does
    /// not know what it leaves out.
    pub unknown_fields: Vec<String>,
}

/// Why a manifest is no object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The document is not a mapping.
    #[error("a manifest must be a mapping with apiVersion, kind and metadata, found {found}")]
    NotAnObject {
        /// What it is instead.
        found: &'static str,
    },
    /// `apiVersion` or `kind` is missing.
    #[error("{field} is missing: set it to a string")]
    MissingType {
        /// The field.
        field: &'static str,
    },
    /// The kind is none that is read.
    #[error("{api_version} {kind} is not a kind that is read here{hint}")]
    UnknownKind {
        /// `apiVersion` as written.
        api_version: String,
        /// `kind` as written.
        kind: String,
        /// What was perhaps meant: empty, or `: did you mean …`.
        hint: String,
    },
    /// The object has no name.
    #[error("{kind}: metadata.name is missing")]
    MissingName {
        /// Its kind.
        kind: Kind,
    },
    /// A name that no API server would take.
    #[error("{kind}: {path} {value:?} must be {expected}, at most {max} characters long")]
    InvalidName {
        /// Kind of the object.
        kind: Kind,
        /// The field.
        path: &'static str,
        /// The name.
        value: String,
        /// What it must be.
        expected: &'static str,
        /// The most characters.
        max: usize,
    },
    /// A field that cannot be left out is missing.
    #[error("{object}: {path} is missing")]
    MissingField {
        /// The object.
        object: ObjectId,
        /// The field.
        path: String,
    },
    /// A field has a value of the wrong type.
    #[error("{object}: {path} must be {expected}, found {found}")]
    WrongType {
        /// The object.
        object: ObjectId,
        /// The field.
        path: String,
        /// What it must be.
        expected: String,
        /// What it is.
        found: String,
    },
}

impl DecodeError {
    /// The object, where the manifest says which it is.
    pub fn object(&self) -> Option<&ObjectId> {
        match self {
            Self::MissingField { object, .. } | Self::WrongType { object, .. } => Some(object),
            _ => None,
        }
    }

    /// What is wrong with which field of the object, where the manifest says which object it is.
    pub fn violation(&self) -> Option<Violation> {
        match self {
            Self::MissingField { path, .. } => Some(Violation::without_value(path, "is missing: set it")),
            Self::WrongType { object, path, expected, found } => {
                // What stands there may be the value of a key.
                let found = if object.kind == Kind::Secret { String::new() } else { format!(", found {found}") };
                Some(Violation::without_value(path, format!("must be {expected}{found}")))
            }
            _ => None,
        }
    }
}

/// Decodes a manifest; an object without a namespace, of a kind that has one, is in `default`.
///
/// # Errors
/// See [`DecodeError`].
pub fn decode(manifest: Value) -> Result<Decoded, DecodeError> {
    decode_in(manifest, "default")
}

/// Decodes a manifest; an object without a namespace, of a kind that has one, is in `default_namespace`.
///
/// Fields that are `null` count as absent, as they do for an API server, but for the JSON that a DirectResponse sends.
///
/// # Errors
/// See [`DecodeError`].
pub fn decode_in(mut manifest: Value, default_namespace: &str) -> Result<Decoded, DecodeError> {
    decode_mut(&mut manifest, default_namespace)
}

/// Decodes a manifest as [`decode`] does. Of a policy that does not decode, there is what it targets beside the error:
/// a policy that [`violations`](crate::violations) refuses with that error, so that what it was to limit can be closed.
///
/// # Errors
/// See [`DecodeError`].
pub fn decode_or_targets(mut manifest: Value) -> Result<Decoded, (DecodeError, Option<Box<Object>>)> {
    decode_mut(&mut manifest, "default").map_err(|error| {
        let targets = targets(&manifest, &error).map(Box::new);
        (error, targets)
    })
}

fn decode_mut(manifest: &mut Value, default_namespace: &str) -> Result<Decoded, DecodeError> {
    let kind = kind_of(manifest)?;
    let json = own_json(manifest, kind).map(|json| std::mem::replace(json, Value::Bool(true)));
    drop_nulls(manifest);
    if let (Some(json), Some(place)) = (json, own_json(manifest, kind)) {
        *place = json;
    }
    let id = name(manifest, kind, default_namespace)?;
    let Schema { table, refuses_unknown, .. } = kind.schema();
    let unknown_fields = match table {
        Some(table) => survey(&id, manifest, table)?,
        None => Vec::new(),
    };
    if let Some(table) = table.filter(|_| refuses_unknown)
        && let Some(spec) = manifest.get_mut("spec")
    {
        // Where a type refuses them too, nothing of the object would be there to be refused.
        openapi::prune(table, spec);
    }
    let mut object = typed(id, manifest)?;
    if refuses_unknown {
        // What stands beside the spec is no part of what is asked for.
        let paths = unknown_fields.iter().filter(|path| path.starts_with("spec."));
        object.set_unknown(paths.map(|path| path.clone().into_boxed_str()).collect());
    }
    Ok(Decoded { object, unknown_fields })
}

/// A policy with no more than its targets, which is refused for what `error` says.
fn targets(manifest: &Value, error: &DecodeError) -> Option<Object> {
    let id = error.object().filter(|id| !id.name.is_empty() && !id.namespace.is_empty())?;
    let invalid = error.violation()?;
    let metadata = manifest.get("metadata").and_then(|metadata| ObjectMeta::deserialize(metadata).ok());
    let metadata = metadata.unwrap_or_else(|| ObjectMeta {
        name: id.name.clone(),
        namespace: id.namespace.clone(),
        ..ObjectMeta::default()
    });
    let spec = manifest.get("spec").unwrap_or(&Value::Null);
    id.kind.targets_only(metadata, spec, invalid)
}

/// Names the unknown fields of an object of Gateway API, or of a policy.
fn survey(id: &ObjectId, manifest: &Value, table: &Node) -> Result<Vec<String>, DecodeError> {
    let known = ["apiVersion", "kind", "metadata", "spec", "status"];
    let fields = manifest.as_object().into_iter().flat_map(|fields| fields.keys());
    let mut unknown: Vec<_> = fields.filter(|field| !known.contains(&field.as_str())).cloned().collect();
    let spec = manifest.get("spec");
    let spec = spec.ok_or_else(|| DecodeError::MissingField { object: id.clone(), path: "spec".to_owned() })?;
    openapi::survey(table, spec, Path::Root("spec"), &mut unknown).map_err(|WrongType { path, expected, value }| {
        DecodeError::WrongType { object: id.clone(), path, expected: expected.to_owned(), found: found(value) }
    })?;
    Ok(unknown)
}

fn typed(id: ObjectId, manifest: &Value) -> Result<Object, DecodeError> {
    // Following the path costs as much as decoding, and is of use only where it fails.
    if let Ok(object) = id.kind.deserialize(manifest) {
        return Ok(object);
    }
    decode_seed(id.kind, manifest).map_err(|(path, mismatch)| match mismatch {
        Mismatch::MissingField(field) if path.is_empty() => {
            DecodeError::MissingField { object: id, path: field.into() }
        }
        Mismatch::MissingField(field) => DecodeError::MissingField { object: id, path: format!("{path}.{field}") },
        // Whatever stands in the place of a secret may be one.
        Mismatch::WrongType { expected, .. } if id.kind == Kind::Secret => {
            DecodeError::WrongType { object: id, path, expected, found: "[redacted]".to_owned() }
        }
        Mismatch::WrongType { expected, found } => DecodeError::WrongType { object: id, path, expected, found },
        other => DecodeError::WrongType { object: id, path, expected: "valid".to_owned(), found: other.to_string() },
    })
}

fn kind_of(manifest: &Value) -> Result<Kind, DecodeError> {
    let Value::Object(fields) = manifest else {
        return Err(DecodeError::NotAnObject { found: type_name(manifest) });
    };
    let text = |field| fields.get(field).and_then(Value::as_str).filter(|text| !text.is_empty());
    let api_version = text("apiVersion").ok_or(DecodeError::MissingType { field: "apiVersion" })?;
    let kind = text("kind").ok_or(DecodeError::MissingType { field: "kind" })?;
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    match Kind::find(group, kind) {
        Some(known) if known.versions().contains(&version) => Ok(known),
        _ => Err(DecodeError::UnknownKind {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            hint: hint(group, kind),
        }),
    }
}

/// Names the kind that differs only in case, group or version, or of the same group one that is spelt much alike.
fn hint(group: &str, kind: &str) -> String {
    if kind == "List" {
        return ": give each item a document of its own".to_owned();
    }
    if (group, kind) == (KGATEWAY_GROUP, "HTTPListenerPolicy") {
        return ": write a ListenerPolicy, with its fields in spec.default.httpSettings".to_owned();
    }
    // One slip of the pen; two in a long name. `TCPRoute` is two away from `HTTPRoute`, and none.
    let slips = |known: &Kind| strsim::osa_distance(&known.as_str().to_ascii_lowercase(), &kind.to_ascii_lowercase());
    let alike = |known: &&Kind| known.group() == group && slips(known) <= if known.as_str().len() < 10 { 1 } else { 2 };
    let same = Kind::ALL.iter().find(|known| known.as_str().eq_ignore_ascii_case(kind));
    let meant = same.or_else(|| Kind::ALL.iter().filter(alike).min_by_key(|known| slips(known)));
    meant.map_or_else(String::new, |known| format!(": did you mean {} {known}?", known.api_version()))
}

/// The JSON of which nulls are content.
fn own_json(manifest: &mut Value, kind: Kind) -> Option<&mut Value> {
    manifest.pointer_mut(kind.schema().nulls?).filter(|json| !json.is_null())
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => fields.retain(|_, value| {
            drop_nulls(value);
            !value.is_null()
        }),
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// Reads the object's name, and settles its namespace in the manifest.
fn name(manifest: &mut Value, kind: Kind, default_namespace: &str) -> Result<ObjectId, DecodeError> {
    let metadata = manifest.get_mut("metadata").and_then(Value::as_object_mut);
    let metadata = metadata.ok_or(DecodeError::MissingName { kind })?;
    let mut id = ObjectId::new(kind, "", "");
    id.name = text_of(metadata.get("name"), "metadata.name", &id)?.into();
    id.namespace = text_of(metadata.get("namespace"), "metadata.namespace", &id)?.into();
    if id.name.is_empty() {
        return Err(DecodeError::MissingName { kind });
    }
    if !kind.namespaced() {
        id.namespace = "".into();
    } else if id.namespace.is_empty() {
        id.namespace = default_namespace.into();
    }
    match kind {
        Kind::Service | Kind::Namespace => valid_name(kind, "metadata.name", &id.name, &LABEL)?,
        _ => valid_name(kind, "metadata.name", &id.name, &SUBDOMAIN)?,
    }
    if kind.namespaced() {
        valid_name(kind, "metadata.namespace", &id.namespace, &LABEL)?;
    }
    metadata.insert("namespace".to_owned(), Value::String(id.namespace.to_string()));
    Ok(id)
}

fn text_of(value: Option<&Value>, path: &str, object: &ObjectId) -> Result<String, DecodeError> {
    match value {
        None => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(other) => Err(DecodeError::WrongType {
            object: object.clone(),
            path: path.to_owned(),
            expected: TEXT.to_owned(),
            found: found(other),
        }),
    }
}

/// Names become parts of keys and of Envoy's resources, so that a slash in one must not get in.
fn valid_name(kind: Kind, path: &'static str, value: &str, names: &Names) -> Result<(), DecodeError> {
    if names.admit(value) {
        return Ok(());
    }
    Err(DecodeError::InvalidName { kind, path, value: value.to_owned(), expected: names.means, max: names.max })
}

/// What the names of a kind look like. By hand rather than by pattern: every object of a cluster comes through here.
struct Names {
    allow: fn(&str) -> bool,
    means: &'static str,
    max: usize,
}

impl Names {
    fn admit(&self, name: &str) -> bool {
        (self.allow)(name) && name.len() <= self.max
    }
}

const LABEL: Names =
    Names { allow: is_label, means: "a DNS label: small letters, digits and dashes, no dash at the ends", max: 63 };
const SUBDOMAIN: Names = Names {
    allow: |name| name.split('.').all(is_label),
    means: "a DNS name: labels in small letters, joined by dots",
    max: 253,
};

/// Whether a text is a DNS label (RFC 1123), lower case.
pub fn dns_label(text: &str) -> bool {
    LABEL.admit(text)
}

/// Whether a text is a DNS subdomain (RFC 1123), lower case.
pub fn dns_subdomain(text: &str) -> bool {
    SUBDOMAIN.admit(text)
}

fn is_label(text: &str) -> bool {
    let inside = text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'));
    inside && !text.is_empty() && !text.starts_with('-') && !text.ends_with('-')
}
