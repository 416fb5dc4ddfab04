//! What must be written so that a status is as desired, and entries of others stay.

mod gateway;
mod list;
#[cfg(test)]
mod tests;

use std::{borrow::Cow, collections::BTreeMap};

use api::{Kind, StatusKind};
use jiff::Timestamp;
use serde_json::{Value, value::RawValue};

use self::list::{MergedList, entries, merge_list};
use super::condition;

/// The most parents in the status of a route (Gateway API `RouteStatus.parents`).
const MAX_PARENTS: usize = 32;
/// The most ancestors in the status of a policy (Gateway API `PolicyStatus.ancestors`).
const MAX_ANCESTORS: usize = 16;

/// What is desired of our entries in a status.
#[derive(Clone, Copy, Debug)]
pub enum Desired<'a> {
    /// This, without `lastTransitionTime`.
    Is(&'a Value),
    /// Nothing. The last desired status, if this process had one: entries of a Gateway do not name their controller, so
    /// only those that are still the same are taken away.
    Nothing(Option<&'a Value>),
}

/// The change of `status` (a merge patch, as JSON) that makes it as desired; none if it is already.
///
/// * Routes and policies: entries with our controller name are ours. Others' stay byte for byte, in their places.
/// * Gateway, ListenerSet, `GatewayClass` and GatewayExtension: condition types that Gateway API gives to the controller are ours, others stay.
/// * `lastTransitionTime` is kept while a condition's status stays, and is `now` when it turns.
/// * What exceeds the bounds of the schema is cut: the API server takes what is left.
pub fn merge(
    kind: Kind,
    stored: Option<&str>,
    desired: Desired<'_>,
    controller_name: &str,
    now: Timestamp,
) -> Option<String> {
    // A status that is no object cannot be stored: the schema has one.
    let stored: BTreeMap<Cow<'_, str>, &RawValue> =
        stored.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let now = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    match kind.status() {
        StatusKind::None => None,
        StatusKind::Gateway => gateway::merge(gateway::Lists::GATEWAY, &stored, desired, &now),
        StatusKind::ListenerSet => gateway::merge(gateway::Lists::SET, &stored, desired, &now),
        StatusKind::GatewayClass => gateway::merge(gateway::Lists::CLASS, &stored, desired, &now),
        StatusKind::Backend | StatusKind::Extension => {
            gateway::merge(gateway::Lists::CONDITIONS, &stored, desired, &now)
        }
        StatusKind::Route => entry_list("parents", "parentRef", MAX_PARENTS, &stored, desired, controller_name, &now),
        StatusKind::Policy => {
            entry_list("ancestors", "ancestorRef", MAX_ANCESTORS, &stored, desired, controller_name, &now)
        }
    }
}

/// [`merge`] for a list whose entries name their controller.
fn entry_list(
    list: &str,
    reference: &str,
    max: usize,
    stored: &BTreeMap<Cow<'_, str>, &RawValue>,
    desired: Desired<'_>,
    controller_name: &str,
    now: &str,
) -> Option<String> {
    let desired = match desired {
        Desired::Is(status) => status.get(list).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default(),
        Desired::Nothing(_) => &[],
    };
    let desired = desired.iter().filter_map(|entry| {
        let mut entry = entry.clone();
        let of = entry.get_mut(reference)?;
        default_to(of, "group", api::group::GROUP);
        default_to(of, "kind", "Gateway");
        let key = of.clone();
        let conditions = entry.get_mut("conditions")?;
        condition::fit(conditions);
        // An entry without conditions says nothing, and the schema refuses it.
        conditions.as_array().is_some_and(|list| !list.is_empty()).then_some((key, entry))
    });
    let own = |entry: &Value| {
        let ours = entry.get("controllerName").and_then(Value::as_str) == Some(controller_name);
        ours.then(|| entry.get(reference).cloned().unwrap_or_default())
    };
    let render = |desired, before: Option<&Value>| condition::stamp_all(desired, before, now);
    let stored = entries(stored.get(list).copied());
    let merged = merge_list(stored, own, desired.collect(), max, render);
    merged.changed.then(|| patch([(list, Some(merged))]))
}

/// How many entries a policy's status has that are not of this controller.
pub(super) fn foreign_ancestors(status: &str, controller_name: &str) -> usize {
    let status: Value = serde_json::from_str(status).unwrap_or_default();
    let entries = status["ancestors"].as_array().into_iter().flatten();
    entries.filter(|entry| entry["controllerName"].as_str() != Some(controller_name)).count()
}

/// What the API server would put where nothing stands.
fn default_to(object: &mut Value, key: &str, default: &str) {
    if let Value::Object(object) = object {
        object.entry(key).or_insert_with(|| default.into());
    }
}

/// A merge patch of lists; none removes one.
fn patch<'a>(lists: impl IntoIterator<Item = (&'a str, Option<MergedList<'a>>)>) -> String {
    let lists: BTreeMap<_, _> = lists.into_iter().map(|(name, list)| (name, list.map(|list| list.entries))).collect();
    // Texts as keys and JSON as values always serialize.
    serde_json::to_string(&lists).unwrap_or_default()
}
