//! `TrafficPolicies`, read as far as the oracle goes: where they stand, and what they say of each unit.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::model::{GATEWAY_API, Name, Rule, list, name_of, text};

const WEIGHT: &str = "kgateway.dev/policy-weight";
const PRIORITY: &str = "kgateway.dev/inherited-policy-priority";

/// The fields that the oracle knows. Those with a dot stand in a group, and are merged apart.
const UNITS: [&str; 18] = [
    "acl",
    "apiKeyAuth",
    "basicAuth",
    "buffer",
    "compression.responseCompression",
    "cors",
    "csrf",
    "faultInjection",
    "headerModifiers",
    "internalRedirect",
    "rateLimit.local",
    "rbac",
    "retry",
    "statPrefix",
    "timeouts",
    "tracing",
    "transformation",
    "urlRewrite",
];

/// A field that no release knows. It closes all that its policy applies to.
pub(super) const FUTURE: &str = "ofTomorrow";

/// A `TrafficPolicy`.
#[derive(Debug)]
pub(super) struct TrafficPolicy {
    pub(super) name: Name,
    /// The greater weight goes first, then the older, then the name.
    rank: (i64, String, String),
    targets: Vec<Target>,
    selectors: Vec<Selector>,
    /// What it says; none where it says anything that nobody knows.
    pub(super) units: Option<BTreeMap<&'static str, Unit>>,
}

/// Labels of routes, and perhaps the name of a rule.
type Selector = (Vec<(String, String)>, Option<String>);

#[derive(Debug, PartialEq)]
pub(super) struct Target {
    pub(super) kind: &'static str,
    pub(super) name: Name,
    pub(super) section: Option<String>,
}

/// What is said of a unit: a value, or one that is refused.
pub(super) type Unit = Result<Value, Refused>;

/// A value that is refused closes where it holds.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Refused;

/// Values that are refused, by the table of units in `docs/policies.md`. The oracle takes all others for sound.
pub(super) fn refused() -> Vec<(&'static str, Value)> {
    let expressions = json!({"policy": {"matchExpressions": ["request.body == 'a'"]}});
    vec![
        ("acl", json!({"defaultAction": "deny", "rules": [{"cidrs": ["127.0.0.1/8"], "action": "allow"}]})),
        ("apiKeyAuth", json!({"secretRef": {"name": "nobody"}})),
        ("basicAuth", json!({"users": ["alice:plain"]})),
        ("buffer", json!({"maxRequestSize": "64Mi"})),
        ("compression.responseCompression", json!({"libraries": ["Lzma"]})),
        ("csrf", json!({"percentageEnabled": 100, "additionalOrigins": [{"exact": ""}]})),
        ("faultInjection", json!({"abort": {"httpStatus": 600}})),
        ("headerModifiers", json!({"request": {"remove": ["host"]}})),
        ("internalRedirect", json!({"responseHeadersToCopy": ["host"]})),
        ("rbac", expressions),
        ("retry", json!({"attempts": 2})),
        ("timeouts", json!({"request": "soon"})),
        ("transformation", json!({"request": {"set": [{"name": "x-a", "value": "{{ x_b }}"}]}})),
    ]
}

/// What the owner of a level says of how it is merged with what is below.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Mode {
    pub(super) deep: bool,
    pub(super) prefers_itself: bool,
    /// As it is written, if it is none but the default.
    pub(super) word: Option<String>,
}

impl Mode {
    /// The mode of an object. What is none of the four counts as the first.
    pub(super) fn of(manifest: &Value) -> Self {
        let written = manifest.pointer("/metadata/annotations").and_then(|notes| notes.get(PRIORITY)?.as_str());
        let (deep, prefers_itself) = match written.unwrap_or_default() {
            "ShallowMergePreferParent" => (false, true),
            "DeepMergePreferChild" => (true, false),
            "DeepMergePreferParent" => (true, true),
            _ => return Self::default(),
        };
        Self { deep, prefers_itself, word: written.map(ToOwned::to_owned) }
    }
}

impl TrafficPolicy {
    pub(super) fn read(manifest: &Value) -> Result<Self> {
        let name = name_of(manifest)?;
        let weight = manifest.pointer("/metadata/annotations").and_then(|notes| notes.get(WEIGHT)?.as_str());
        let weight: i64 = weight.and_then(|weight| weight.trim().parse().ok()).unwrap_or_default();
        let created = text(manifest, "/metadata/creationTimestamp").unwrap_or_default();
        let target = |target: &Value| {
            let kind = kind_of(target)?;
            let name = Name { namespace: name.namespace.clone(), name: text(target, "/name").unwrap_or_default() };
            Ok(Target { kind, name, section: text(target, "/sectionName") })
        };
        let selector = |selector: &Value| {
            ensure!(kind_of(selector)? == "HTTPRoute", "the oracle selects routes only");
            let labels = selector["matchLabels"].as_object().into_iter().flatten();
            let labels = labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
            Ok((labels.collect(), text(selector, "/sectionName")))
        };
        Ok(Self {
            targets: list(manifest, "/spec/targetRefs").map(target).collect::<Result<_>>()?,
            selectors: list(manifest, "/spec/targetSelectors").map(selector).collect::<Result<_>>()?,
            units: units(&manifest["spec"])?,
            rank: (-weight, created, name.to_string()),
            name,
        })
    }

    /// What is compared of policies in one place: the smallest goes first.
    pub(super) fn rank(&self) -> &(i64, String, String) {
        &self.rank
    }

    /// Whether it stands at an object that has these labels.
    pub(super) fn is_at(&self, target: &Target, labels: &BTreeMap<String, String>) -> bool {
        let selects = |(asked, section): &Selector| {
            target.kind == "HTTPRoute"
                && self.name.namespace == target.name.namespace
                && *section == target.section
                && asked.iter().all(|(key, value)| labels.get(key) == Some(value))
        };
        self.targets.contains(target) || self.selectors.iter().any(selects)
    }

    /// As `explain` names it.
    pub(super) fn told(&self) -> String {
        format!("TrafficPolicy {}", self.name)
    }
}

/// The policies of a rule: those that its filters name go before those that target it, and these before those of its route. None
/// where one that is named is not there.
pub(super) fn rule_policies<'a>(
    all: &'a [TrafficPolicy],
    route: &Name,
    labels: &BTreeMap<String, String>,
    rule: &Rule,
) -> Option<Vec<&'a TrafficPolicy>> {
    let named = |policy: &&TrafficPolicy| {
        policy.name.namespace == route.namespace && rule.extensions.contains(&policy.name.name)
    };
    let mut policies: Vec<_> = all.iter().filter(named).collect();
    if rule.extensions.iter().any(|name| policies.iter().all(|policy| policy.name.name != *name)) {
        return None;
    }
    let sections = rule.name.iter().map(|name| Some(name.clone())).chain([None]);
    for section in sections {
        let target = Target { kind: "HTTPRoute", name: route.clone(), section };
        for policy in all.iter().filter(|policy| policy.is_at(&target, labels)) {
            if policies.iter().all(|known| known.name != policy.name) {
                policies.push(policy);
            }
        }
    }
    Some(policies)
}

fn kind_of(target: &Value) -> Result<&'static str> {
    ensure!(text(target, "/group").as_deref() == Some(GATEWAY_API), "the oracle knows no target {target}");
    let kinds = ["Gateway", "HTTPRoute"];
    let kind = kinds.into_iter().find(|kind| text(target, "/kind").as_deref() == Some(kind));
    kind.with_context(|| format!("the oracle knows no target {target}"))
}

fn units(spec: &Value) -> Result<Option<BTreeMap<&'static str, Unit>>> {
    let mut units = BTreeMap::new();
    for (field, value) in spec.as_object().into_iter().flatten() {
        if ["targetRefs", "targetSelectors"].contains(&field.as_str()) {
            continue;
        }
        if field == FUTURE {
            return Ok(None);
        }
        let group = ["rateLimit", "compression"].contains(&field.as_str());
        let members: Vec<(String, &Value)> = match value.as_object().filter(|_| group) {
            Some(members) => members.iter().map(|(member, value)| (format!("{field}.{member}"), value)).collect(),
            None => vec![(field.clone(), value)],
        };
        for (name, value) in members {
            let known = UNITS.into_iter().find(|known| *known == name);
            let known = known.with_context(|| format!("the oracle knows no {name} of a TrafficPolicy"))?;
            let is_refused = refused().iter().any(|(unit, other)| *unit == known && other == value);
            units.insert(known, if is_refused { Err(Refused) } else { Ok(value.clone()) });
        }
    }
    Ok(Some(units))
}
