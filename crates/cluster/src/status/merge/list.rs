//! Puts entries of ours into a list that others write to as well.

use serde::{Serialize, Serializer};
use serde_json::{Value, value::RawValue};

/// An entry that is there already.
#[derive(Debug)]
pub(super) struct StoredEntry<'a> {
    /// As it came; none of an entry inside another.
    pub(super) raw: Option<&'a RawValue>,
    /// The same, decoded.
    pub(super) value: Value,
}

/// A list as it shall be.
#[derive(Debug, Default)]
pub(super) struct MergedList<'a> {
    /// What stays is written as it came.
    pub(super) entries: Vec<Entry<'a>>,
    /// Whether the list differs from what is there.
    pub(super) changed: bool,
}

/// One entry of it.
#[derive(Debug)]
pub(super) enum Entry<'a> {
    Kept(StoredEntry<'a>),
    New(Value),
}

impl Serialize for Entry<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Kept(StoredEntry { raw: Some(raw), .. }) => raw.serialize(serializer),
            Self::Kept(StoredEntry { value, .. }) | Self::New(value) => value.serialize(serializer),
        }
    }
}

impl MergedList<'_> {
    /// The list as plain JSON.
    pub(super) fn into_value(self) -> Value {
        let value = |entry| match entry {
            Entry::Kept(StoredEntry { value, .. }) | Entry::New(value) => value,
        };
        Value::Array(self.entries.into_iter().map(value).collect())
    }
}

/// Replaces our entries in `stored` by `desired`.
///
/// `own` gives the key of an entry of ours, and none for another's: those stay as they are, in their places. Ours stay in
/// their places too while they are desired, go when they are not, and new ones come at the end. There are at most `max`
/// entries; others' count first, then ours in the order of `desired`. `render` makes an entry of what is desired and of the
/// stored entry with the same key.
pub(super) fn merge_list<K: PartialEq>(
    stored: Vec<StoredEntry<'_>>,
    own: impl Fn(&Value) -> Option<K>,
    desired: Vec<(K, Value)>,
    max: usize,
    render: impl Fn(Value, Option<&Value>) -> Value,
) -> MergedList<'_> {
    let foreign = stored.iter().filter(|entry| own(&entry.value).is_none()).count();
    let mut rest: Vec<Option<(K, Value)>> = Vec::with_capacity(desired.len());
    for (key, value) in desired {
        let known = rest.iter().flatten().any(|(other, _)| *other == key);
        if !known && rest.len() < max.saturating_sub(foreign) {
            rest.push(Some((key, value)));
        }
    }
    let mut merged = MergedList::default();
    for entry in stored {
        let Some(key) = own(&entry.value) else {
            merged.entries.push(Entry::Kept(entry));
            continue;
        };
        let wanted = rest.iter_mut().find(|slot| slot.as_ref().is_some_and(|(other, _)| *other == key));
        match wanted.and_then(Option::take) {
            Some((_, value)) => {
                let value = render(value, Some(&entry.value));
                if value == entry.value {
                    merged.entries.push(Entry::Kept(entry));
                } else {
                    merged.changed = true;
                    merged.entries.push(Entry::New(value));
                }
            }
            None => merged.changed = true,
        }
    }
    for (_, value) in rest.into_iter().flatten() {
        merged.changed = true;
        merged.entries.push(Entry::New(render(value, None)));
    }
    merged
}

/// The entries of a list; none where there is no list.
pub(super) fn entries(list: Option<&RawValue>) -> Vec<StoredEntry<'_>> {
    let list: Vec<&RawValue> = list.and_then(|list| serde_json::from_str(list.get()).ok()).unwrap_or_default();
    let stored = |raw: &'_ RawValue| serde_json::from_str(raw.get()).unwrap_or_default();
    list.into_iter().map(|raw| StoredEntry { raw: Some(raw), value: stored(raw) }).collect()
}

/// The same of a list that is decoded already.
pub(super) fn decoded_entries(list: Option<&Value>) -> Vec<StoredEntry<'static>> {
    let list = list.and_then(Value::as_array).into_iter().flatten();
    list.map(|value| StoredEntry { raw: None, value: value.clone() }).collect()
}
