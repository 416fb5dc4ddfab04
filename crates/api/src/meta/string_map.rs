//! Labels and annotations.

use std::{fmt, ops::Deref, slice, sync::Arc};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{MapAccess, Visitor},
};

/// Texts by text, in the order of their keys, each of which occurs once.
///
/// Most objects have a few, and there are many objects: they take the memory that they need, a tenth of what a
/// [`BTreeMap`](std::collections::BTreeMap) takes, and copies are one.
#[derive(Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StringMap(Arc<[Entry]>);

/// A key and its value.
pub type Entry = (Box<str>, Box<str>);

impl StringMap {
    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        value_of(&self.0, key)
    }

    /// Whether there is a value of a key.
    pub fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// The keys.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(key, _)| &**key)
    }

    /// The entries, whose memory all copies have in common.
    pub fn entries(&self) -> &Arc<[Entry]> {
        &self.0
    }

    /// Sets the value of a key. It takes as long as making all of it anew.
    pub fn insert(&mut self, key: impl Into<Box<str>>, value: impl Into<Box<str>>) {
        *self = self.0.iter().cloned().chain([(key.into(), value.into())]).collect();
    }
}

/// The value of a key among entries in the order of their keys.
pub fn value_of<'a>(entries: &'a [Entry], key: &str) -> Option<&'a str> {
    let at = entries.binary_search_by(|(known, _)| (**known).cmp(key)).ok()?;
    Some(&entries[at].1)
}

impl Deref for StringMap {
    type Target = [Entry];

    fn deref(&self) -> &[Entry] {
        &self.0
    }
}

impl<K: Into<Box<str>>, V: Into<Box<str>>> FromIterator<(K, V)> for StringMap {
    /// Of a key that comes twice, the last value counts.
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut entries: Vec<Entry> = entries.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        entries.reverse();
        entries.sort_by(|(a, _), (b, _)| a.cmp(b));
        entries.dedup_by(|(later, _), (first, _)| later == first);
        Self(entries.into())
    }
}

impl<K: Into<Box<str>>, V: Into<Box<str>>, const N: usize> From<[(K, V); N]> for StringMap {
    fn from(entries: [(K, V); N]) -> Self {
        entries.into_iter().collect()
    }
}

impl<'a> IntoIterator for &'a StringMap {
    type Item = &'a Entry;
    type IntoIter = slice::Iter<'a, Entry>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl fmt::Debug for StringMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.iter().map(|(key, value)| (key, value))).finish()
    }
}

impl Serialize for StringMap {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

impl<'de> Deserialize<'de> for StringMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;

        impl<'de> Visitor<'de> for Entries {
            type Value = StringMap;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<StringMap, A::Error> {
                let mut entries: Vec<Entry> = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(entries.into_iter().collect())
            }
        }

        deserializer.deserialize_map(Entries)
    }
}

impl JsonSchema for StringMap {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "StringMap".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        <std::collections::BTreeMap<String, String>>::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn entries_stand_in_the_order_of_their_keys_and_the_last_of_one_counts() {
        let map = StringMap::from([("b", "1"), ("a", "2"), ("b", "3")]);
        assert_eq!(serde_json::to_value(&map).ok(), Some(json!({"a": "2", "b": "3"})));
        assert_eq!((map.get("b"), map.get("c"), map.keys().collect::<Vec<_>>()), (Some("3"), None, vec!["a", "b"]));
        let mut more = map.clone();
        more.insert("c", "4");
        assert_eq!((more.get("c"), map.len(), more.len()), (Some("4"), 2, 3));
    }

    #[test]
    fn what_is_read_is_what_was_written() {
        for written in [json!({}), json!({"x": "1"}), json!({"a/b": "", "z": "é"})] {
            let map: StringMap = serde_json::from_value(written.clone()).expect("a map");
            assert_eq!(serde_json::to_value(&map).ok(), Some(written));
        }
        assert!(serde_json::from_value::<StringMap>(json!({"a": 1})).is_err());
        assert!(serde_json::from_str::<StringMap>("[]").is_err());
    }
}
