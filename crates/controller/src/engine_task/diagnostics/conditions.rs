//! Logs conditions that report a fault: with files there are no objects on which a status could be read.

use std::collections::{BTreeSet, HashMap};

use api::ObjectId;
use serde_json::Value;
use translate::Translator;

use super::MAX_LOGGED;

/// What was logged of each object, so that it is logged once.
#[derive(Debug, Default)]
pub(super) struct Conditions {
    logged: HashMap<ObjectId, Vec<String>>,
}

impl Conditions {
    /// Logs what is wrong by statuses that changed, unless it was before.
    pub(super) fn note(&mut self, statuses: BTreeSet<ObjectId>, translator: &Translator) {
        if statuses.len() > MAX_LOGGED {
            tracing::info!(count = statuses.len(), "statuses changed: see /debug/snapshot, or `portcullis check`");
            return;
        }
        for id in statuses {
            let mut now = Vec::new();
            if let Some(status) = translator.status(&id).and_then(|status| serde_json::from_str(&status).ok()) {
                collect(&status, "", &mut now);
            }
            let before = self.logged.get(&id).map_or(&[][..], Vec::as_slice);
            for condition in now.iter().filter(|condition| !before.contains(condition)) {
                tracing::warn!("{id}: {condition}");
            }
            if now.is_empty() && !before.is_empty() {
                tracing::info!("{id}: all is well again");
            }
            if now.is_empty() {
                self.logged.remove(&id)
            } else {
                self.logged.insert(id, now)
            };
        }
    }
}

/// The conditions of a status, of its listeners, parents and ancestors that report a fault.
fn collect(status: &Value, of: &str, found: &mut Vec<String>) {
    let list = |field| status.get(field).and_then(Value::as_array).into_iter().flatten();
    for condition in list("conditions") {
        let text = |field| condition.get(field).and_then(Value::as_str).unwrap_or_default();
        let wrong = match text("type") {
            "Accepted" | "Programmed" | "ResolvedRefs" => text("status") == "False",
            "Conflicted" | "PartiallyInvalid" | "OverlappingTLSConfig" | "portcullis.dev/UnusedReplacement" => {
                text("status") == "True"
            }
            _ => false,
        };
        if wrong {
            let (kind, status) = (text("type"), text("status"));
            found.push(format!("{of}{kind}={status}, {}: {}", text("reason"), text("message")));
        }
    }
    for listener in list("listeners") {
        let name = listener.get("name").and_then(Value::as_str).unwrap_or_default();
        collect(listener, &format!("listener {name}: "), found);
    }
    for ancestor in list("ancestors") {
        let text = |field| ancestor.pointer(field).and_then(Value::as_str).unwrap_or_default();
        let (kind, name) = (text("/ancestorRef/kind"), text("/ancestorRef/name"));
        collect(ancestor, &format!("at {kind} {name}: "), found);
    }
    for parent in list("parents") {
        let name = parent.pointer("/parentRef/name").and_then(Value::as_str).unwrap_or_default();
        let section = parent.pointer("/parentRef/sectionName").and_then(Value::as_str);
        let section = section.map(|section| format!("/{section}")).unwrap_or_default();
        collect(parent, &format!("at {name}{section}: "), found);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_conditions_that_report_a_fault_are_collected() {
        let condition = |kind: &str, status: &str| json!({"type": kind, "status": status, "reason": "Why", "message": "what and where"});
        let status = json!({
            "conditions": [condition("Accepted", "True"), condition("Programmed", "False")],
            "listeners": [{"name": "http", "conditions": [condition("Conflicted", "False"), condition("Conflicted", "True")]}],
            "parents": [{
                "parentRef": {"name": "edge", "sectionName": "http"},
                "conditions": [condition("ResolvedRefs", "False")],
            }],
            "ancestors": [{
                "ancestorRef": {"kind": "Gateway", "name": "edge"},
                "conditions": [condition("Accepted", "False"), condition("Attached", "False")],
            }],
        });
        let mut found = Vec::new();
        collect(&status, "", &mut found);
        assert_eq!(
            found,
            [
                "Programmed=False, Why: what and where",
                "listener http: Conflicted=True, Why: what and where",
                "at Gateway edge: Accepted=False, Why: what and where",
                "at edge/http: ResolvedRefs=False, Why: what and where",
            ]
        );
    }
}
