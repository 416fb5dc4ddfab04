//! Fields that are kept as they are written, for others to judge.

use std::{fmt, sync::Arc};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error, MapAccess},
};
use serde_json::Value;

/// How deep mappings and lists may stand in each other, which is more than any schema needs and less than what the parser
/// reads.
const DEEPEST: usize = 64;

/// The fields of a policy as they are written, by name. In memory they are texts: a mapping of JSON takes ten times as much.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct OpenFields(Box<[(Arc<str>, Arc<str>)]>);

impl OpenFields {
    /// Whether a field is written.
    pub fn contains(&self, name: &str) -> bool {
        self.text(name).is_some()
    }

    /// What is written in a field.
    pub fn get(&self, name: &str) -> Option<Value> {
        self.text(name).map(parse)
    }

    /// The names, in their order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| &**name)
    }

    /// All of them with what is written there, in the order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Value)> {
        self.0.iter().map(|(name, text)| (&**name, parse(text)))
    }

    /// All of them with the text of what is written there, which [`parse`] reads, likewise.
    pub fn texts(&self) -> impl ExactSizeIterator<Item = (&str, &Arc<str>)> {
        self.0.iter().map(|(name, text)| (&**name, text))
    }

    fn text(&self, name: &str) -> Option<&str> {
        let at = self.0.binary_search_by(|(known, _)| (**known).cmp(name)).ok()?;
        self.0.get(at).map(|(_, text)| &**text)
    }
}

/// Reads the text of a field.
///
/// # Panics
/// Where the text is of no field.
pub fn parse(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON of a bounded depth, as it was written")
}

impl fmt::Debug for OpenFields {
    /// Without the values, which may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

impl Serialize for OpenFields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

/// Fields that are being read.
#[derive(Default)]
pub(crate) struct Collected(Vec<(Arc<str>, Arc<str>)>);

impl Collected {
    /// Takes the value of this field.
    pub(crate) fn add<'de, A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        let Bounded(value) = map.next_value()?;
        self.0.push((name.into(), value.to_string().into()));
        Ok(())
    }

    /// All of them; of a name that was there twice, the last.
    pub(crate) fn finish(self) -> OpenFields {
        let Self(mut fields) = self;
        fields.reverse();
        fields.sort_by(|(a, _), (b, _)| a.cmp(b));
        fields.dedup_by(|(later, _), (first, _)| later == first);
        OpenFields(fields.into())
    }
}

/// A value that can be read again.
struct Bounded(Value);

impl<'de> Deserialize<'de> for Bounded {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        if depth(&value) > DEEPEST {
            return Err(D::Error::custom(format_args!(
                "is nested deeper than {DEEPEST} levels; write less in each other"
            )));
        }
        Ok(Self(value))
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or_default(),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or_default(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{DecodeError, Decoded, Object, TrafficPolicy, decode};

    fn policy(spec: &Value) -> Result<TrafficPolicy, DecodeError> {
        let manifest = json!({
            "apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "TrafficPolicy", "metadata": {"name": "p"}, "spec": spec,
        });
        decode(manifest).map(|Decoded { object, .. }| match object {
            Object::TrafficPolicy(policy) => policy,
            other => panic!("another kind: {other:?}"),
        })
    }

    #[test]
    fn fields_are_as_they_were_written() {
        let spec =
            json!({"zeta": [1, -2.5, true, "é\n\"", {"a": {}}], "alpha": u64::MAX, "buffer": {"maxRequestSize": 1}});
        let policy = policy(&spec).expect("a policy");
        let fields = &policy.spec.fields;
        assert_eq!(fields.names().collect::<Vec<_>>(), ["alpha", "buffer", "zeta"]);
        assert!(fields.contains("zeta") && !fields.contains("targetRefs") && fields.get("none").is_none());
        assert_eq!(fields.get("buffer"), Some(json!({"maxRequestSize": 1})));
        assert_eq!(serde_json::to_value(fields).ok(), Some(spec.clone()));
        assert_eq!(serde_json::to_value(&policy.spec).ok(), Some(spec));
    }

    #[test]
    fn what_is_nested_too_deeply_is_refused() {
        let nested = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!({"a": [inner]}));
        assert!(policy(&json!({"buffer": nested(DEEPEST / 2)})).is_ok());
        let error = policy(&json!({"buffer": nested(DEEPEST / 2 + 1)})).expect_err("too deep").to_string();
        assert!(error.contains("spec.buffer") && error.contains("nested deeper than 64"), "{error}");
    }
}
