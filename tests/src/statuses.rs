//! What the status of an object must say.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::Value;

use crate::manifests::ObjectId;

/// An expectation of one object's status, or of one part of it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct StatusExpectation {
    /// `KIND NAMESPACE/NAME`.
    pub object: String,
    /// Of a route: the entry of this Gateway (`NAMESPACE/NAME`), or of a parent of another kind (`KIND NAMESPACE/NAME`).
    pub parent: Option<String>,
    /// Of a policy: the entry of this ancestor, written like a parent.
    pub ancestor: Option<String>,
    /// Of a route: the entry of this parentRef's `sectionName`.
    pub section: Option<String>,
    /// Of a Gateway: the entry of this listener.
    pub listener: Option<String>,
    /// Conditions by type: `Status`, or `Status Reason`, as in `False RefNotPermitted`.
    #[serde(default)]
    pub conditions: BTreeMap<String, String>,
    /// Parts of the messages of conditions, by type.
    #[serde(default)]
    pub messages: BTreeMap<String, String>,
    /// What no message of a condition says.
    #[serde(default)]
    pub unsaid: Vec<String>,
    /// How many parents the status has entries for.
    pub entries: Option<usize>,
    /// The routes attached to the listener.
    pub attached_routes: Option<u64>,
    /// The kinds that the listener supports.
    pub supported_kinds: Option<Vec<String>>,
    /// The status has no such entry.
    #[serde(default)]
    pub absent: bool,
}

impl StatusExpectation {
    /// Compares with the statuses of a snapshot.
    pub fn check(&self, snapshot: &Value) -> Result<()> {
        self.compare(snapshot).with_context(|| format!("status of {self}"))
    }

    fn compare(&self, snapshot: &Value) -> Result<()> {
        let entry = self.entry(snapshot)?;
        if self.absent {
            ensure!(entry.is_none(), "is {}", entry.unwrap_or(&Value::Null));
            return Ok(());
        }
        let entry = entry.context("has no such entry")?;
        for (kind, expected) in &self.conditions {
            let actual = condition(entry, kind).unwrap_or_else(|| "absent".to_owned());
            let (status, message) = actual.split_once(": ").unwrap_or((&actual, ""));
            let matches = match expected.split_once(' ') {
                Some(_) => status == expected,
                None => status.split(' ').next() == Some(expected),
            };
            ensure!(matches, "{kind} is {status} ({message}), expected {expected}");
        }
        for (kind, part) in &self.messages {
            let actual = condition(entry, kind).unwrap_or_else(|| "absent".to_owned());
            ensure!(actual.contains(part), "{kind} is {actual}, which lacks {part:?}");
        }
        for found in list(entry, "conditions") {
            let message = found.get("message").and_then(Value::as_str).unwrap_or_default();
            let said = self.unsaid.iter().find(|part| message.contains(part.as_str()));
            ensure!(said.is_none(), "a message says {said:?}: {message}");
        }
        if let Some(expected) = self.entries {
            let actual = list(entry, "parents").count();
            ensure!(actual == expected, "has {actual} entries, expected {expected}");
        }
        if let Some(expected) = self.attached_routes {
            let actual = entry.get("attachedRoutes").and_then(Value::as_u64);
            ensure!(actual == Some(expected), "attachedRoutes is {actual:?}, expected {expected}");
        }
        if let Some(expected) = &self.supported_kinds {
            let kinds = entry.get("supportedKinds").and_then(Value::as_array);
            let actual: Vec<_> = kinds.into_iter().flatten().filter_map(|kind| kind.get("kind")?.as_str()).collect();
            ensure!(actual == *expected, "supportedKinds is {actual:?}, expected {expected:?}");
        }
        Ok(())
    }

    fn entry<'a>(&self, snapshot: &'a Value) -> Result<Option<&'a Value>> {
        let id = ObjectId::parse(&self.object)?;
        let Some(status) = status_of(snapshot, &id) else {
            return Ok(None);
        };
        if let Some(listener) = &self.listener {
            return Ok(
                list(status, "listeners").find(|entry| entry.get("name").and_then(Value::as_str) == Some(listener))
            );
        }
        let (entries, reference, wanted) = match (&self.parent, &self.ancestor) {
            (Some(parent), _) => ("parents", "parentRef", parent),
            (None, Some(ancestor)) => ("ancestors", "ancestorRef", ancestor),
            (None, None) => return Ok(Some(status)),
        };
        let (kind, wanted) = wanted.split_once(' ').unwrap_or(("Gateway", wanted));
        let own_namespace = id.name.split('/').next().unwrap_or_default();
        Ok(list(status, entries).find(|entry| {
            let field = |name: &str| entry.get(reference)?.get(name)?.as_str();
            let namespace = field("namespace").unwrap_or(own_namespace);
            let name = field("name").unwrap_or_default();
            field("kind").unwrap_or("Gateway") == kind
                && wanted == format!("{namespace}/{name}")
                && (self.section.is_none() || self.section.as_deref() == field("sectionName"))
        }))
    }
}

impl std::fmt::Display for StatusExpectation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.object)?;
        let parts = [
            ("parent", &self.parent),
            ("ancestor", &self.ancestor),
            ("section", &self.section),
            ("listener", &self.listener),
        ];
        for (name, part) in parts {
            if let Some(part) = part {
                write!(f, ", {name} {part}")?;
            }
        }
        Ok(())
    }
}

fn status_of<'a>(snapshot: &'a Value, id: &ObjectId) -> Option<&'a Value> {
    let mut statuses = list(snapshot, "statuses");
    let found = statuses.find(|entry| ObjectId::of(entry).is_ok_and(|found| found == *id))?;
    found.get("status")
}

/// `Status Reason: message`.
fn condition(entry: &Value, kind: &str) -> Option<String> {
    let found =
        list(entry, "conditions").find(|condition| condition.get("type").and_then(Value::as_str) == Some(kind))?;
    let field = |name: &str| found.get(name).and_then(Value::as_str).unwrap_or_default();
    let (status, reason, message) = (field("status"), field("reason"), field("message"));
    Some(format!("{status} {reason}: {message}"))
}

fn list<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    let items = value.get(name).and_then(Value::as_array);
    items.into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn snapshot() -> Value {
        json!({"statuses": [{
            "kind": "HTTPRoute",
            "metadata": {"namespace": "infra", "name": "r"},
            "status": {"parents": [{
                "parentRef": {"name": "gw", "sectionName": "http"},
                "conditions": [
                    {"type": "Accepted", "status": "True", "reason": "Accepted", "message": "fine"},
                    {"type": "ResolvedRefs", "status": "False", "reason": "BackendNotFound", "message": "no x"},
                ],
            }, {
                "parentRef": {"kind": "HTTPRoute", "name": "gw"},
                "conditions": [{"type": "Accepted", "status": "False", "reason": "NoMatchingParent", "message": "outside"}],
            }]},
        }, {
            "kind": "RewritePolicy",
            "metadata": {"namespace": "infra", "name": "p"},
            "status": {"ancestors": [{
                "ancestorRef": {"kind": "Gateway", "name": "gw"},
                "conditions": [{"type": "Accepted", "status": "True", "reason": "Accepted", "message": "fine"}],
            }]},
        }]})
    }

    fn check(yaml: &str) -> Result<()> {
        let expectation: StatusExpectation = serde_saphyr::from_str(yaml)?;
        expectation.check(&snapshot())
    }

    #[test]
    fn a_condition_is_compared_with_or_without_its_reason() {
        let object = "object: HTTPRoute infra/r\nparent: infra/gw\n";
        let holds = |conditions: &str| check(&format!("{object}conditions: {conditions}"));
        holds("{Accepted: 'True', ResolvedRefs: False BackendNotFound}").expect("holds");
        for wrong in ["{Accepted: 'False'}", "{ResolvedRefs: False RefNotPermitted}", "{Programmed: 'True'}"] {
            let error = holds(wrong).expect_err("does not hold");
            assert!(format!("{error:#}").contains("infra/r"), "{error:#}");
        }
    }

    #[test]
    fn an_entry_of_another_parent_section_or_object_is_not_taken() {
        check("object: HTTPRoute infra/r\nparent: infra/gw\nsection: https").expect_err("section");
        check("object: HTTPRoute infra/r\nparent: other/gw").expect_err("parent");
        check("object: HTTPRoute infra/s").expect_err("object");
        check("object: HTTPRoute infra/r\nparent: other/gw\nabsent: true").expect("absent");
    }

    #[test]
    fn parents_of_two_kinds_with_one_name_are_two_and_policies_have_ancestors() {
        check("object: HTTPRoute infra/r\nparent: HTTPRoute infra/gw\nconditions: {Accepted: False NoMatchingParent}")
            .expect("the route's");
        check("object: HTTPRoute infra/r\nparent: infra/gw\nconditions: {Accepted: 'True'}").expect("the Gateway's");
        check("object: RewritePolicy infra/p\nancestor: infra/gw\nconditions: {Accepted: 'True'}").expect("holds");
        check("object: RewritePolicy infra/p\nancestor: HTTPRoute infra/gw").expect_err("another kind");
        check("object: HTTPRoute infra/r\nentries: 2").expect("holds");
        check("object: HTTPRoute infra/r\nentries: 1").expect_err("there are two");
    }

    #[test]
    fn what_messages_say_and_leave_unsaid_is_compared() {
        let object = "object: HTTPRoute infra/r\nparent: infra/gw\n";
        check(&format!("{object}messages: {{ResolvedRefs: no x}}\nunsaid: [no y]")).expect("holds");
        check(&format!("{object}messages: {{ResolvedRefs: no y}}")).expect_err("is not said");
        check(&format!("{object}messages: {{Programmed: no x}}")).expect_err("is not there");
        check(&format!("{object}unsaid: [no x]")).expect_err("is said");
    }
}
