//! Headers as a YAML map.

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// Names with their values, in the order of the file. A value may be written as a list, which is joined by commas.
#[derive(Clone, Debug, Default)]
pub struct Headers(pub Vec<(String, String)>);

impl<'de> Deserialize<'de> for Headers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Pairs)
    }
}

struct Pairs;

impl<'de> Visitor<'de> for Pairs {
    type Value = Headers;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("header names with their values")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Headers, A::Error> {
        let mut pairs = Vec::new();
        while let Some((name, Value(value))) = map.next_entry()? {
            pairs.push((name, value));
        }
        Ok(Headers(pairs))
    }
}

struct Value(String);

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OneOrMany)
    }
}

struct OneOrMany;

impl<'de> Visitor<'de> for OneOrMany {
    type Value = Value;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("text or a list of texts; quote what looks like a number")
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut parts: Vec<String> = Vec::new();
        while let Some(part) = list.next_element()? {
            parts.push(part);
        }
        Ok(Value(parts.join(", ")))
    }
}
