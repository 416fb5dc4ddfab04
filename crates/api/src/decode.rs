//! From a parsed manifest to an object.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{Kind, Object, ObjectId};

/// An object as decoded.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// The object.
    pub object: Object,
    /// Fields of a Gateway API object's spec that this release does not know, such as `spec.rules[0].pathh`. An API
    /// server would drop them silently. Core kinds report none: a slim model does not know what it leaves out.
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

/// Decodes a manifest; an object without a namespace, of a kind that has one, is in `default`.
///
/// # Errors
/// See [`DecodeError`].
pub fn decode(manifest: Value) -> Result<Decoded, DecodeError> {
    decode_in(manifest, "default")
}

/// Decodes a manifest; an object without a namespace, of a kind that has one, is in `default_namespace`.
///
/// Fields that are `null` count as absent, as they do for an API server.
///
/// # Errors
/// See [`DecodeError`].
pub fn decode_in(mut manifest: Value, default_namespace: &str) -> Result<Decoded, DecodeError> {
    let kind = kind_of(&manifest)?;
    drop_nulls(&mut manifest);
    let id = name(&mut manifest, kind, default_namespace)?;
    if kind.group() == crate::shared::GROUP && manifest.get("spec").is_none() {
        return Err(DecodeError::MissingField { object: id, path: "spec".to_owned() });
    }
    let decoder = Decoder { id, manifest };
    match kind {
        Kind::GatewayClass => decoder.gateway_api::<crate::GatewayClass>(),
        Kind::Gateway => decoder.gateway_api::<crate::Gateway>(),
        Kind::HttpRoute => decoder.gateway_api::<crate::HttpRoute>(),
        Kind::ReferenceGrant => decoder.gateway_api::<crate::ReferenceGrant>(),
        Kind::Service => decoder.core::<crate::core::Service>(),
        Kind::EndpointSlice => decoder.core::<crate::core::EndpointSlice>(),
        Kind::Secret => decoder.core::<crate::core::Secret>(),
        Kind::ConfigMap => decoder.core::<crate::core::ConfigMap>(),
        Kind::Namespace => decoder.core::<crate::core::Namespace>(),
    }
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
            hint: hint(kind),
        }),
    }
}

/// Names the kind that differs only in case, group or version.
fn hint(kind: &str) -> String {
    let meant = Kind::ALL.iter().find(|known| known.as_str().eq_ignore_ascii_case(kind));
    meant.map_or_else(String::new, |known| format!(": did you mean {} {known}?", known.api_version()))
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
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let name = text(metadata.get("name"));
    if name.is_empty() {
        return Err(DecodeError::MissingName { kind });
    }
    let namespace = match text(metadata.get("namespace")) {
        _ if !kind.namespaced() => String::new(),
        namespace if namespace.is_empty() => default_namespace.to_owned(),
        namespace => namespace,
    };
    metadata.insert("namespace".to_owned(), Value::String(namespace.clone()));
    Ok(ObjectId::new(kind, namespace, name))
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping",
    }
}

struct Decoder {
    id: ObjectId,
    manifest: Value,
}

impl Decoder {
    /// Reports the unknown fields of the spec; whatever else stands at the top is no business of ours.
    fn gateway_api<T: DeserializeOwned + Into<Object>>(self) -> Result<Decoded, DecodeError> {
        let mut unknown_fields = Vec::new();
        let mut note = |path: serde_ignored::Path<'_>| {
            let path = path_text(&path);
            if path.starts_with("spec.") {
                unknown_fields.push(path);
            }
        };
        let object: T = {
            let deserializer = serde_ignored::Deserializer::new(self.manifest, &mut note);
            serde_path_to_error::deserialize(deserializer).map_err(|error| explain(self.id, &error))?
        };
        Ok(Decoded { object: object.into(), unknown_fields })
    }

    fn core<T: DeserializeOwned + Into<Object>>(self) -> Result<Decoded, DecodeError> {
        let object: T = serde_path_to_error::deserialize(self.manifest).map_err(|error| explain(self.id, &error))?;
        Ok(Decoded { object: object.into(), unknown_fields: Vec::new() })
    }
}

/// The path of an ignored field as the rest of the crate writes paths.
fn path_text(path: &serde_ignored::Path<'_>) -> String {
    use serde_ignored::Path;
    match path {
        Path::Root => String::new(),
        Path::Seq { parent, index } => format!("{}[{index}]", path_text(parent)),
        Path::Map { parent, key } => match path_text(parent) {
            parent if parent.is_empty() => key.clone(),
            parent => format!("{parent}.{key}"),
        },
        Path::Some { parent } | Path::NewtypeStruct { parent } | Path::NewtypeVariant { parent } => path_text(parent),
    }
}

/// Takes serde's sentence apart, so that the value and what is expected stand in fields of their own.
fn explain(object: ObjectId, error: &serde_path_to_error::Error<serde_json::Error>) -> DecodeError {
    let path = error.path().to_string();
    let message = error.inner().to_string();
    if let Some(field) = message.strip_prefix("missing field `").and_then(|rest| rest.split('`').next()) {
        return DecodeError::MissingField { object, path: format!("{path}.{field}") };
    }
    let stripped = ["invalid type: ", "invalid value: "].iter().find_map(|prefix| message.strip_prefix(prefix));
    match stripped.and_then(|rest| rest.rsplit_once(", expected ")) {
        Some((found, expected)) => {
            DecodeError::WrongType { object, path, expected: plain(expected), found: found.to_owned() }
        }
        None => DecodeError::WrongType { object, path, expected: "valid".to_owned(), found: message },
    }
}

/// Serde's words for types in words that a reader of manifests knows.
fn plain(expected: &str) -> String {
    match expected {
        "i32" => "a number between -2147483648 and 2147483647".to_owned(),
        "i64" | "u16" => "a whole number".to_owned(),
        "a sequence" => "a list".to_owned(),
        "a map" => "a mapping".to_owned(),
        "str" | "path string" => "a string".to_owned(),
        text if text.starts_with("struct ") => "a mapping".to_owned(),
        other => other.to_owned(),
    }
}
