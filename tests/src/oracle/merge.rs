//! What policies of several levels come to, unit by unit, by the text of EP-10943 and of `docs/policies.md`.
//!
//! Values are merged as they are written, as JSON.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::policy::{Mode, Refused, TrafficPolicy, Unit};

/// The policies of one level, the first preferred, and what its owner says of what is below.
#[derive(Debug)]
pub(super) struct Level<'a> {
    /// As `explain` names it.
    pub(super) owner: String,
    pub(super) mode: &'a Mode,
    pub(super) policies: Vec<&'a TrafficPolicy>,
}

/// What holds of a unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    /// The value; none where it is refused.
    pub value: Option<Value>,
    /// Who supplies it.
    pub from: BTreeSet<String>,
    /// Who says the same and is not heard.
    pub overridden: BTreeSet<String>,
    /// By whose word, where it is none but the default.
    pub by: BTreeSet<String>,
}

/// What deep merging does to a unit.
enum Deep {
    /// The preferred side holds.
    Whole,
    /// Each field by itself.
    Fields,
    /// All changes, those of the preferred side last.
    Changes,
    Acl,
}

fn deep(unit: &str) -> Deep {
    match unit {
        "timeouts" | "retry" | "cors" | "csrf" | "faultInjection" | "internalRedirect" | "tracing" => Deep::Fields,
        "headerModifiers" | "transformation" => Deep::Changes,
        "acl" => Deep::Acl,
        _ => Deep::Whole,
    }
}

/// What levels come to, the nearest first.
pub(super) fn merged(levels: &[Level<'_>]) -> BTreeMap<&'static str, Held> {
    let mut units: BTreeMap<&'static str, Held> = BTreeMap::new();
    for level in levels {
        for (unit, above) in said(level) {
            let held = match units.remove(unit) {
                None => above,
                Some(below) => join(unit, below, above, level),
            };
            units.insert(unit, held);
        }
    }
    for held in units.values_mut() {
        // One policy may stand at several levels.
        held.overridden = held.overridden.difference(&held.from).cloned().collect();
    }
    units
}

/// Within a level the first holds; of `acl` all do.
fn said(level: &Level<'_>) -> BTreeMap<&'static str, Held> {
    let mut units: BTreeMap<&'static str, Held> = BTreeMap::new();
    for policy in &level.policies {
        for (unit, value) in policy.units.iter().flatten() {
            let one = BTreeSet::from([policy.told()]);
            let Some(held) = units.get_mut(unit) else {
                let value = value.as_ref().ok().map(|value| complete(unit, value));
                let (overridden, by) = (BTreeSet::new(), BTreeSet::new());
                units.insert(unit, Held { value, from: one, overridden, by });
                continue;
            };
            let adds = matches!(deep(unit), Deep::Acl);
            match over(unit, &as_unit(held), value).filter(|_| adds && held.value.is_some()) {
                Some(Ok(joined)) => {
                    held.value = Some(joined);
                    held.from.extend(one);
                }
                Some(Err(Refused)) => {
                    held.value = None;
                    held.overridden.append(&mut held.from);
                    held.from = one;
                }
                None => held.overridden.extend(one),
            }
        }
    }
    units
}

fn as_unit(held: &Held) -> Unit {
    held.value.clone().ok_or(Refused)
}

fn join(unit: &str, below: Held, above: Held, level: &Level<'_>) -> Held {
    let mut by: BTreeSet<_> = below.by.clone();
    let (preferred, other) = if level.mode.prefers_itself { (above, below) } else { (below, above) };
    let joined = if level.mode.deep { over(unit, &as_unit(&preferred), &as_unit(&other)) } else { None };
    // Where the lower side holds as a whole, that is so by default.
    if level.mode.prefers_itself || joined.is_some() {
        by.extend(level.mode.word.as_ref().map(|word| format!("{word} of {}", level.owner)));
    }
    let mut overridden: BTreeSet<_> = preferred.overridden.union(&other.overridden).cloned().collect();
    match joined {
        Some(value) => {
            Held { value: value.ok(), from: preferred.from.union(&other.from).cloned().collect(), overridden, by }
        }
        None => {
            overridden.extend(other.from);
            Held { value: preferred.value, from: preferred.from, overridden, by }
        }
    }
}

/// What becomes of both; none where the preferred one holds as a whole.
fn over(unit: &str, preferred: &Unit, other: &Unit) -> Option<Unit> {
    // What is refused and preferred holds, and closes.
    let preferred = preferred.as_ref().ok()?;
    let kind = deep(unit);
    if matches!(kind, Deep::Whole) || is_off(unit, preferred) {
        return None;
    }
    let Ok(other) = other else { return Some(Err(Refused)) };
    let other = &complete(unit, other);
    if is_off(unit, other) {
        return None;
    }
    match kind {
        Deep::Whole => None,
        Deep::Fields => Some(Ok(fields(unit, preferred, other))),
        Deep::Changes => {
            let all = [other, preferred].into_iter().flat_map(|list| list.as_array().cloned().unwrap_or_default());
            Some(Ok(all.collect()))
        }
        Deep::Acl => acl(preferred, other).map(Ok),
    }
}

/// Whether it switches off what others say.
pub(super) fn is_off(unit: &str, value: &Value) -> bool {
    match unit {
        "rateLimit.local" => value == &json!({}),
        "csrf" => value.get("percentageEnabled").or(value.get("percentageShadowed")) == Some(&json!(0)),
        _ => value.get("disable").is_some(),
    }
}

/// The same with what the CRD completes, and changes of headers as a list in their order.
fn complete(unit: &str, value: &Value) -> Value {
    let mut value = value.clone();
    let mut default = |field: &str, usual: Value| {
        if let Some(fields) = value.as_object_mut().filter(|fields| !fields.contains_key("disable")) {
            fields.entry(field).or_insert(usual);
        }
    };
    match unit {
        "retry" => {
            default("attempts", json!(1));
            default("backoffBaseInterval", json!("25ms"));
            value
        }
        "cors" => {
            default("maxAge", json!(5));
            value
        }
        "headerModifiers" if value.is_object() => changes(&value, ["add", "set", "remove"]),
        "transformation" if value.is_object() => changes(&value, ["set", "add", "remove"]),
        _ => value,
    }
}

/// Changes as `[direction, what, name, value]`.
fn changes(value: &Value, order: [&str; 3]) -> Value {
    let mut changes = Vec::new();
    for direction in ["request", "response"] {
        for what in order {
            for change in value[direction][what].as_array().into_iter().flatten() {
                changes.push(match change.as_str() {
                    Some(name) => json!([direction, what, name, ""]),
                    // An empty `set` removes.
                    None if what == "set" && change["value"] == "" => json!([direction, "remove", change["name"], ""]),
                    None => json!([direction, what, change["name"], change["value"]]),
                });
            }
        }
    }
    changes.into()
}

fn fields(unit: &str, preferred: &Value, other: &Value) -> Value {
    let mut joined: Map<String, Value> = preferred.as_object().cloned().unwrap_or_default();
    let percentages = ["percentageEnabled", "percentageShadowed"];
    let says_share = percentages.iter().any(|field| joined.contains_key(*field));
    for (field, value) in other.as_object().into_iter().flatten() {
        // Both percentages are one field.
        if says_share && percentages.contains(&field.as_str()) {
            continue;
        }
        let Some(own) = joined.get_mut(field) else {
            joined.insert(field.clone(), value.clone());
            continue;
        };
        if (unit, field.as_str()) == ("tracing", "attributes") {
            let own = own.as_array_mut().expect("a list");
            let more = value.as_array().into_iter().flatten();
            let more: Vec<_> = more.filter(|more| own.iter().all(|own| own["name"] != more["name"])).cloned().collect();
            own.extend(more);
        }
    }
    joined.into()
}

/// The rules of both; none where they contradict each other.
fn acl(preferred: &Value, other: &Value) -> Option<Value> {
    let agree = |pointer: &str| {
        let sides = [preferred.pointer(pointer), other.pointer(pointer)];
        sides.contains(&None) || sides[0] == sides[1]
    };
    let decides = ["/defaultAction", "/denyResponse/statusCode", "/denyResponse/blockedByHeaderName"];
    if !decides.into_iter().all(agree) {
        return None;
    }
    let own = ranges(preferred);
    let mut all = own.clone();
    for (range, rule) in ranges(other) {
        // Within what the preferred side refuses the other takes nothing.
        let around = own.iter().filter(|(own, _)| covers(**own, range)).max_by_key(|((_, length), _)| *length);
        let refuses = |rule: &Value| rule["action"] == "deny";
        if refuses(&rule) || around.is_none_or(|(_, own)| !refuses(own)) {
            all.entry(range).or_insert(rule);
        }
    }
    let mut response = other.get("denyResponse").cloned().unwrap_or_else(|| json!({}));
    for (field, value) in preferred.get("denyResponse").and_then(Value::as_object).into_iter().flatten() {
        response[field] = value.clone();
    }
    let rules: Vec<_> = all.into_values().collect();
    Some(json!({"defaultAction": preferred["defaultAction"], "rules": rules, "denyResponse": response}))
}

/// First address and length; IPv4 only.
type Range = (u32, u32);

fn covers(wide: Range, narrow: Range) -> bool {
    let mask = |length: u32| u32::MAX.checked_shl(32 - length).unwrap_or(0);
    wide.1 <= narrow.1 && narrow.0 & mask(wide.1) == wide.0
}

/// Each range with a rule that has no other; of two the last counts.
fn ranges(acl: &Value) -> BTreeMap<Range, Value> {
    let mut ranges = BTreeMap::new();
    for rule in acl["rules"].as_array().into_iter().flatten() {
        for text in rule["cidrs"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            let mut alone = rule.clone();
            alone["cidrs"] = json!([text]);
            ranges.insert(range(text), alone);
        }
    }
    ranges
}

fn range(text: &str) -> Range {
    let (address, length) = text.split_once('/').unwrap_or((text, "32"));
    let address: std::net::Ipv4Addr = address.parse().expect("an IPv4 address");
    (address.to_bits(), length.parse().expect("a length"))
}

/// The rule for an address; none where `defaultAction` is for it.
pub(super) fn rule_of(acl: &Value, address: &str) -> Option<Value> {
    let all = ranges(acl).into_iter().filter(|(around, _)| covers(*around, range(address)));
    all.max_by_key(|((_, length), _)| *length).map(|(_, rule)| rule)
}
