//! What statuses complain about, for the log: with files nobody sees statuses on the objects.

use std::collections::{BTreeSet, HashMap};

use api::ObjectId;
use serde_json::Value;
use translate::Translator;

use super::LOGGED_AT_MOST;

/// What was logged, so that it is logged once.
#[derive(Debug, Default)]
pub(super) struct Complaints {
    logged: HashMap<ObjectId, Vec<String>>,
}

impl Complaints {
    /// Logs what statuses that turned complain about, unless they did before.
    pub(super) fn note(&mut self, turned: BTreeSet<ObjectId>, translator: &Translator) {
        if turned.len() > LOGGED_AT_MOST {
            tracing::info!(count = turned.len(), "statuses turned: see /debug/snapshot, or `portcullis check`");
            return;
        }
        for id in turned {
            let mut now = Vec::new();
            if let Some(status) = translator.status(&id).and_then(|status| serde_json::from_str(&status).ok()) {
                collect(&status, "", &mut now);
            }
            let before = self.logged.get(&id).map_or(&[][..], Vec::as_slice);
            for complaint in now.iter().filter(|complaint| !before.contains(complaint)) {
                tracing::warn!("{id}: {complaint}");
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

/// The conditions of a status, of its listeners, parents and ancestors that say that something is wrong.
fn collect(status: &Value, of: &str, complaints: &mut Vec<String>) {
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
            complaints.push(format!("{of}{kind}={status}, {}: {}", text("reason"), text("message")));
        }
    }
    for listener in list("listeners") {
        let name = listener.get("name").and_then(Value::as_str).unwrap_or_default();
        collect(listener, &format!("listener {name}: "), complaints);
    }
    for ancestor in list("ancestors") {
        let text = |field| ancestor.pointer(field).and_then(Value::as_str).unwrap_or_default();
        let (kind, name) = (text("/ancestorRef/kind"), text("/ancestorRef/name"));
        collect(ancestor, &format!("at {kind} {name}: "), complaints);
    }
    for parent in list("parents") {
        let name = parent.pointer("/parentRef/name").and_then(Value::as_str).unwrap_or_default();
        let section = parent.pointer("/parentRef/sectionName").and_then(Value::as_str);
        let section = section.map(|section| format!("/{section}")).unwrap_or_default();
        collect(parent, &format!("at {name}{section}: "), complaints);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_conditions_that_say_that_something_is_wrong_are_collected() {
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
        let mut complaints = Vec::new();
        collect(&status, "", &mut complaints);
        assert_eq!(
            complaints,
            [
                "Programmed=False, Why: what and where",
                "listener http: Conflicted=True, Why: what and where",
                "at Gateway edge: Accepted=False, Why: what and where",
                "at edge/http: ResolvedRefs=False, Why: what and where",
            ]
        );
    }
}
