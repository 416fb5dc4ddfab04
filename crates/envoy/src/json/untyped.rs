//! An `Any` without a type, by which a route switches on a filter that the listener says all of. Protobuf's JSON has `{}`
//! for it, and the library that writes ours none: here it gets the type of an empty message, and loses it behind.

use prost::Message;
use prost_reflect::{DynamicMessage, ReflectMessage, Value as Field};
use serde_json::Value;

/// The messages that hold such.
const HOLDER: &str = "envoy.config.route.v3.FilterConfig";
const ANY: &str = "google.protobuf.Any";
const EMPTY: &str = "type.googleapis.com/google.protobuf.Empty";

/// Gives it a type, wherever it stands in a message.
pub(super) fn type_all(message: &mut DynamicMessage) {
    if message.descriptor().full_name() == ANY {
        type_one(message);
    } else {
        message.fields_mut().for_each(|(_, field)| type_field(field));
    }
}

fn type_field(field: &mut Field) {
    match field {
        Field::Message(message) => type_all(message),
        Field::List(items) => items.iter_mut().for_each(type_field),
        Field::Map(entries) => entries.values_mut().for_each(type_field),
        _ => {}
    }
}

fn type_one(any: &mut DynamicMessage) {
    let url = any.get_field_by_name("type_url").and_then(|url| url.as_str().map(str::to_owned)).unwrap_or_default();
    if url.is_empty() {
        any.set_field_by_name("type_url", Field::String(EMPTY.into()));
    } else if url.ends_with(HOLDER) {
        let body = any.get_field_by_name("value").and_then(|body| body.as_bytes().cloned()).unwrap_or_default();
        if let Ok(mut holder) = super::dynamic(HOLDER, &body) {
            type_all(&mut holder);
            any.set_field_by_name("value", Field::Bytes(holder.encode_to_vec().into()));
        }
    }
}

/// Takes the types away that [`type_all`] gave.
pub(super) fn untype_all(value: &mut Value) {
    match value {
        Value::Object(fields) if fields.get("@type").is_some_and(|url| url == EMPTY) => fields.clear(),
        Value::Object(fields) => fields.values_mut().for_each(untype_all),
        Value::Array(items) => items.iter_mut().for_each(untype_all),
        _ => {}
    }
}
