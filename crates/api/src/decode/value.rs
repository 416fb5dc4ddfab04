//! Decodes a parsed value. The error is a type: what is missing, or what was expected and what was found.

use std::{fmt::Display, marker::PhantomData};

use serde::{
    Deserializer,
    de::{
        DeserializeOwned, DeserializeSeed, Error, Expected, IntoDeserializer, Unexpected, Visitor,
        value::{MapDeserializer, SeqDeserializer},
    },
    forward_to_deserialize_any,
};
use serde_json::Value;
use serde_path_to_error::Track;

/// Why a value does not decode.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// A field that cannot be left out is missing.
    #[error("{0} is missing")]
    MissingField(&'static str),
    /// A field that the type does not have, where nothing may be ignored.
    #[error("is not known to this version; remove it")]
    UnknownField,
    /// A value of another type, or out of range.
    #[error("must be {expected}, found {found}")]
    WrongType {
        /// What it must be.
        expected: String,
        /// What it is.
        found: String,
    },
    /// What the type itself says.
    #[error("{0}")]
    Other(String),
}

/// What a string must be; numbers and booleans in its place are a common slip.
pub(super) const TEXT: &str = "a string (put it in quotes)";
const FLAG: &str = "true or false";
const LIST: &str = "a list";
const MAPPING: &str = "a mapping";

/// Decodes a value. The error comes with the path to what is wrong, which is empty for the value itself.
///
/// # Errors
/// See [`Mismatch`].
pub fn decode_value<T: DeserializeOwned>(value: &Value) -> Result<T, (String, Mismatch)> {
    decode_seed(PhantomData, value)
}

/// The same, of what a seed makes of a value.
pub(super) fn decode_seed<'v, S: DeserializeSeed<'v>>(
    seed: S,
    value: &'v Value,
) -> Result<S::Value, (String, Mismatch)> {
    let mut track = Track::new();
    let node = serde_path_to_error::Deserializer::new(Node(value), &mut track);
    seed.deserialize(node).map_err(|mismatch| {
        let path = track.path();
        let text = if path.iter().next().is_none() { String::new() } else { path.to_string() };
        (text, mismatch)
    })
}

/// What stands in a manifest, in the words of who writes it. Long texts are left out.
pub(super) fn found(value: &Value) -> String {
    match value {
        Value::Bool(_) | Value::Number(_) => format!("{} {value}", type_name(value)),
        Value::String(text) if text.len() <= 100 => format!("a string {text:?}"),
        _ => type_name(value).to_owned(),
    }
}

pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => LIST,
        Value::Object(_) => MAPPING,
    }
}

impl Error for Mismatch {
    fn custom<T: Display>(message: T) -> Self {
        Self::Other(message.to_string())
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::WrongType { expected: expected.to_string(), found: found.to_string() }
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(found, expected)
    }

    fn unknown_field(_: &str, _: &'static [&'static str]) -> Self {
        Self::UnknownField
    }

    fn missing_field(field: &'static str) -> Self {
        Self::MissingField(field)
    }
}

/// A value to decode from. `serde_json` has the like, whose error is a sentence.
#[derive(Clone, Copy)]
struct Node<'de>(&'de Value);

impl Node<'_> {
    fn mismatch<T>(self, expected: impl Into<String>) -> Result<T, Mismatch> {
        Err(Mismatch::WrongType { expected: expected.into(), found: found(self.0) })
    }

    /// The whole number in it, within the bounds of a type.
    fn whole<T: TryFrom<i128> + Display + Copy>(self, min: T, max: T) -> Result<T, Mismatch> {
        let number = self.0.as_i64().map(i128::from).or_else(|| self.0.as_u64().map(i128::from));
        match number.and_then(|number| T::try_from(number).ok()) {
            Some(number) => Ok(number),
            None if size_of::<T>() == size_of::<i64>() => self.mismatch("a whole number"),
            None => self.mismatch(format!("a number between {min} and {max}")),
        }
    }
}

impl<'de> IntoDeserializer<'de, Mismatch> for Node<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

macro_rules! whole_numbers {
    ($($deserialize:ident $visit:ident $type:ty,)*) => {$(
        fn $deserialize<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
            visitor.$visit(self.whole(<$type>::MIN, <$type>::MAX)?)
        }
    )*};
}

macro_rules! shapes {
    ($($deserialize:ident($($argument:ty),*) $has:ident $expected:ident,)*) => {$(
        fn $deserialize<V: Visitor<'de>>(self, $(_: $argument,)* visitor: V) -> Result<V::Value, Mismatch> {
            if self.0.$has() { self.deserialize_any(visitor) } else { self.mismatch($expected) }
        }
    )*};
}

impl<'de> Deserializer<'de> for Node<'de> {
    type Error = Mismatch;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        match self.0 {
            Value::Null => visitor.visit_unit(),
            Value::Bool(flag) => visitor.visit_bool(*flag),
            Value::Number(number) => match (number.as_u64(), number.as_i64()) {
                (Some(number), _) => visitor.visit_u64(number),
                (None, Some(number)) => visitor.visit_i64(number),
                (None, None) => visitor.visit_f64(number.as_f64().unwrap_or(f64::NAN)),
            },
            Value::String(text) => visitor.visit_borrowed_str(text),
            Value::Array(items) => visitor.visit_seq(SeqDeserializer::new(items.iter().map(Node))),
            Value::Object(fields) => {
                visitor.visit_map(MapDeserializer::new(fields.iter().map(|(key, value)| (key.as_str(), Node(value)))))
            }
        }
    }

    whole_numbers! {
        deserialize_i32 visit_i32 i32, deserialize_i64 visit_i64 i64,
        deserialize_u16 visit_u16 u16, deserialize_u32 visit_u32 u32,
    }

    shapes! {
        deserialize_bool() is_boolean FLAG,
        deserialize_str() is_string TEXT,
        deserialize_string() is_string TEXT,
        deserialize_seq() is_array LIST,
        deserialize_map() is_object MAPPING,
        deserialize_struct(&'static str, &'static [&'static str]) is_object MAPPING,
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        if self.0.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Mismatch> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        i8 i16 i128 u8 u64 u128 f32 f64 char bytes byte_buf unit unit_struct tuple tuple_struct enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct Fields {
        flag: bool,
        text: String,
        small: u16,
        large: i64,
        list: Vec<Option<i32>>,
        map: BTreeMap<String, Inner>,
        any: Value,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Inner {
        needed: f64,
    }

    #[test]
    fn every_shape_decodes_as_json_does() {
        let value = json!({
            "flag": true, "text": "a", "small": 65535, "large": -9, "list": [1, null, -3],
            "map": {"a": {"needed": 1}, "b": {"needed": 0.5, "more": []}}, "any": [1, {"x": null}, "y", 1.5],
        });
        assert_eq!(decode_value::<Fields>(&value).ok(), serde_json::from_value(value).ok());
    }

    #[test]
    fn what_does_not_fit_is_told_with_path_expectation_and_value() {
        for (value, path, message) in [
            (json!({"flag": "yes"}), "flag", "must be true or false, found a string \"yes\""),
            (json!({"text": 1}), "text", "must be a string (put it in quotes), found a number 1"),
            (json!({"small": 65536}), "small", "must be a number between 0 and 65535, found a number 65536"),
            (json!({"large": u64::MAX}), "large", "must be a whole number, found a number 18446744073709551615"),
            (json!({"large": 1.5}), "large", "must be a whole number, found a number 1.5"),
            (json!({"list": {}}), "list", "must be a list, found a mapping"),
            (json!({"map": {"a": []}}), "map.a", "must be a mapping, found a list"),
            (json!({"map": {"a": {}}}), "map.a", "needed is missing"),
            (
                json!({"list": [1, "b"]}),
                "list[1]",
                "must be a number between -2147483648 and 2147483647, found a string \"b\"",
            ),
            (json!({"newer": 1}), "newer", "is not known to this version; remove it"),
            (json!(null), "", "must be a mapping, found nothing"),
        ] {
            let (at, mismatch) = decode_value::<Fields>(&value).expect_err("it does not fit");
            assert_eq!((&*at, &*mismatch.to_string()), (path, message), "{value}");
        }
    }
}
