//! Statuses of Gateways, ListenerSets, classes and extensions: lists by name, of which no entry names its controller.

use std::{borrow::Cow, collections::BTreeMap};

use serde_json::{Value, json, value::RawValue};

use super::{
    Desired, default_to,
    list::{MergedList, StoredEntry, decoded_entries, entries, merge_list},
};
use crate::status::condition::{self, MAX_CONDITIONS};

/// Condition types that Gateway API gives to the controller of a Gateway, a listener or a class, and those of ours. Any other is foreign
/// unless it is desired.
const OURS: [&str; 14] = [
    "Accepted",
    "Conflicted",
    "Detached",
    "InsecureFrontendValidationMode",
    "OverlappingTLSConfig",
    "Programmed",
    "Ready",
    "ResolvedRefs",
    "Scheduled",
    "SupportedVersion",
    "AttachedListenerSets",
    "portcullis.dev/Frozen",
    "portcullis.dev/Quarantined",
    "portcullis.dev/Validation",
];

const MAX_LISTENERS: usize = 64;
const MAX_KINDS: usize = 8;

/// What a status has besides conditions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lists {
    /// Whether there are listeners.
    listeners: bool,
    /// What belongs to the controller as a whole, and the most entries if it is a list.
    whole: &'static [(&'static str, usize)],
}

impl Lists {
    pub(super) const GATEWAY: Self = Self { listeners: true, whole: &[("addresses", 16), ("attachedListenerSets", 0)] };
    pub(super) const SET: Self = Self { listeners: true, whole: &[] };
    pub(super) const CONDITIONS: Self = Self { listeners: false, whole: &[] };
    pub(super) const CLASS: Self = Self { listeners: false, whole: &[("supportedFeatures", 64)] };
}

/// [`super::merge`] for these.
pub(super) fn merge(
    lists: Lists,
    stored: &BTreeMap<Cow<'_, str>, &RawValue>,
    desired: Desired<'_>,
    now: &str,
) -> Option<String> {
    let mut patch = BTreeMap::new();
    let conditions = entries(stored.get("conditions").copied());
    let merged = match desired {
        Desired::Is(desired) => merge_conditions(conditions, desired.get("conditions"), now),
        Desired::Nothing(before) => without(conditions, before, "conditions", condition::kind, |stored, before| {
            condition::same(stored, &before)
        }),
    };
    put(&mut patch, "conditions", merged);
    if lists.listeners {
        let listeners = entries(stored.get("listeners").copied());
        let merged = match desired {
            Desired::Is(desired) => merge_listeners(listeners, desired.get("listeners"), now),
            Desired::Nothing(before) => without(listeners, before, "listeners", name, |stored, before| {
                render_listener(fit_listener(before), Some(stored), now) == *stored
            }),
        };
        put(&mut patch, "listeners", merged);
    }
    for (key, max) in lists.whole {
        let known: Option<Value> = stored.get(*key).and_then(|raw| serde_json::from_str(raw.get()).ok());
        let value = match desired {
            Desired::Is(desired) => desired.get(*key).map(|value| whole(value, *max)),
            Desired::Nothing(before) => {
                let before = before.and_then(|before| before.get(*key)).map(|value| whole(value, *max));
                known.clone().filter(|known| before.as_ref() != Some(known))
            }
        };
        if value != known {
            patch.insert(*key, value.unwrap_or_default());
        }
    }
    // Texts as keys and JSON as values always serialize.
    (!patch.is_empty()).then(|| serde_json::to_string(&patch).unwrap_or_default())
}

/// A list that nothing is left of goes, so that the schema's default may come back.
fn put(patch: &mut BTreeMap<&str, Value>, key: &'static str, merged: MergedList<'_>) {
    if merged.changed {
        let empty = merged.entries.is_empty();
        patch.insert(key, if empty { Value::Null } else { merged.into_value() });
    }
}

fn merge_conditions<'a>(stored: Vec<StoredEntry<'a>>, desired: Option<&Value>, now: &str) -> MergedList<'a> {
    let mut desired = desired.cloned().unwrap_or_default();
    condition::fit(&mut desired);
    let desired: Vec<_> = list(desired).filter_map(|c| Some((condition::kind(&c)?.to_owned(), c))).collect();
    let wanted: Vec<_> = desired.iter().map(|(kind, _)| kind.clone()).collect();
    let own = |stored: &Value| {
        let kind = condition::kind(stored)?;
        (OURS.contains(&kind) || wanted.iter().any(|wanted| wanted == kind)).then(|| kind.to_owned())
    };
    let render = |desired, before: Option<&Value>| condition::stamp(desired, before, now);
    merge_list(stored, own, desired, MAX_CONDITIONS, render)
}

fn merge_listeners<'a>(stored: Vec<StoredEntry<'a>>, desired: Option<&Value>, now: &str) -> MergedList<'a> {
    let desired = list(desired.cloned().unwrap_or_default());
    let desired = desired.map(fit_listener).filter_map(|listener| Some((name(&listener)?.to_owned(), listener)));
    let own = |stored: &Value| Some(name(stored).unwrap_or_default().to_owned());
    let render = |desired, before: Option<&Value>| render_listener(desired, before, now);
    merge_list(stored, own, desired.collect(), MAX_LISTENERS, render)
}

/// A listener as the API server takes it.
fn fit_listener(mut listener: Value) -> Value {
    if let Some(Value::Array(kinds)) = listener.get_mut("supportedKinds") {
        kinds.truncate(MAX_KINDS);
        for kind in kinds {
            default_to(kind, "group", api::group::GROUP);
        }
    }
    if let Value::Object(listener) = &mut listener {
        listener.entry("attachedRoutes").or_insert_with(|| json!(0));
    }
    listener
}

/// A listener with conditions of others that are stored.
fn render_listener(mut desired: Value, before: Option<&Value>, now: &str) -> Value {
    let stored = decoded_entries(before.and_then(|before| before.get("conditions")));
    let conditions = merge_conditions(stored, desired.get("conditions"), now).into_value();
    if let Value::Object(desired) = &mut desired {
        desired.insert("conditions".into(), conditions);
    }
    desired
}

/// The list without the entries that are still as in `before`.
fn without<'a>(
    stored: Vec<StoredEntry<'a>>,
    before: Option<&Value>,
    key: &str,
    name: impl Fn(&Value) -> Option<&str>,
    same: impl Fn(&Value, Value) -> bool,
) -> MergedList<'a> {
    let mut before = before.and_then(|before| before.get(key)).cloned().unwrap_or_default();
    if key == "conditions" {
        condition::fit(&mut before);
    }
    let before: Vec<_> = list(before).collect();
    let own = |stored: &Value| {
        let ours = before.iter().find(|ours| name(ours) == name(stored));
        ours.is_some_and(|ours| same(stored, ours.clone())).then_some(())
    };
    merge_list(stored, own, Vec::new(), usize::MAX, |value, _| value)
}

fn list(value: Value) -> impl Iterator<Item = Value> {
    match value {
        Value::Array(list) => list.into_iter(),
        _ => Vec::new().into_iter(),
    }
}

fn name(entry: &Value) -> Option<&str> {
    entry.get("name")?.as_str()
}

/// A value that is ours as a whole, cut to `max` entries; a list by name has each name once.
fn whole(value: &Value, max: usize) -> Value {
    let Value::Array(list) = value else { return value.clone() };
    let mut kept: Vec<Value> = Vec::new();
    for entry in list {
        let known = name(entry).is_some() && kept.iter().any(|other| name(other) == name(entry));
        if !known && kept.len() < max {
            kept.push(entry.clone());
        }
    }
    Value::Array(kept)
}
