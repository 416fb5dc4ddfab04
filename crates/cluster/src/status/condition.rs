//! Conditions as the API server takes them (`metav1.Condition`).

use std::collections::HashSet;

use serde_json::{Map, Value};

/// The most conditions of one list (Gateway API).
pub(super) const MAX_CONDITIONS: usize = 8;
/// The longest message. The schema counts characters, of which there are no more than bytes.
const MAX_MESSAGE: usize = 32_768;
/// The longest reason, in bytes.
const MAX_REASON: usize = 1024;
/// The longest type, in bytes.
const MAX_TYPE: usize = 316;
/// What stands where no reason is left.
const NO_REASON: &str = "Unknown";

const TIME: &str = "lastTransitionTime";

/// The type of a condition; none of what is no condition.
pub(super) fn kind(condition: &Value) -> Option<&str> {
    condition.get("type")?.as_str()
}

/// Cuts `conditions` so that the API server takes them: one of a type, with a reason and a message that fit.
pub(super) fn fit(conditions: &mut Value) {
    let Value::Array(list) = conditions else {
        *conditions = Value::Array(Vec::new());
        return;
    };
    let mut seen = HashSet::new();
    list.retain(|condition| kind(condition).is_some_and(|kind| type_fits(kind) && seen.insert(kind.to_owned())));
    list.truncate(MAX_CONDITIONS);
    for condition in list.iter_mut().filter_map(Value::as_object_mut) {
        let reason = condition.get("reason").and_then(Value::as_str).unwrap_or_default();
        if !reason_fits(reason) {
            let reason = fitting_reason(reason);
            condition.insert("reason".into(), reason.into());
        }
        match condition.get_mut("message") {
            Some(Value::String(message)) => cut(message, MAX_MESSAGE),
            _ => {
                condition.insert("message".into(), Value::String(String::new()));
            }
        }
        let known = matches!(condition.get("status").and_then(Value::as_str), Some("True" | "False" | "Unknown"));
        if !known {
            condition.insert("status".into(), "Unknown".into());
        }
        if condition.get("observedGeneration").is_some_and(|generation| generation.as_i64().is_none_or(|n| n < 0)) {
            condition.remove("observedGeneration");
        }
    }
}

/// A condition with the time since when it has its status: that of `stored` unless the status turned.
pub(super) fn stamp(mut desired: Value, stored: Option<&Value>, now: &str) -> Value {
    let kept =
        stored.filter(|stored| stored.get("status") == desired.get("status")).and_then(|stored| stored.get(TIME));
    let time = kept.cloned().unwrap_or_else(|| now.into());
    if let Value::Object(desired) = &mut desired {
        desired.insert(TIME.into(), time);
    }
    desired
}

/// [`stamp`] for all conditions of `desired`, an object with a list of them, which replace those of `stored`.
pub(super) fn stamp_all(mut desired: Value, stored: Option<&Value>, now: &str) -> Value {
    let known = stored.and_then(|stored| stored.get("conditions")).and_then(Value::as_array);
    if let Some(list) = desired.get_mut("conditions").and_then(Value::as_array_mut) {
        for condition in list {
            let before = known.into_iter().flatten().find(|other| kind(other) == kind(condition));
            *condition = stamp(condition.take(), before, now);
        }
    }
    desired
}

/// Whether both say the same, whenever they began to.
pub(super) fn same(a: &Value, b: &Value) -> bool {
    let (Value::Object(a), Value::Object(b)) = (a, b) else { return a == b };
    let rest = |map: &Map<String, Value>, other: &Map<String, Value>| {
        map.iter().all(|(key, value)| key == TIME || other.get(key) == Some(value))
    };
    rest(a, b) && rest(b, a)
}

fn type_fits(kind: &str) -> bool {
    // The whole pattern is not looked at: types are names in our source.
    !kind.is_empty() && kind.len() <= MAX_TYPE && !kind.contains(char::is_whitespace)
}

fn reason_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | ',' | ':')
}

fn reason_fits(reason: &str) -> bool {
    reason.len() <= MAX_REASON
        && reason.starts_with(|c: char| c.is_ascii_alphabetic())
        && reason.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && reason.chars().all(reason_char)
}

fn fitting_reason(reason: &str) -> String {
    let kept: String = reason.chars().filter(|c| reason_char(*c)).skip_while(|c| !c.is_ascii_alphabetic()).collect();
    let mut kept = kept;
    cut(&mut kept, MAX_REASON);
    let kept = kept.trim_end_matches([',', ':']);
    if kept.is_empty() { NO_REASON.to_owned() } else { kept.to_owned() }
}

/// Cuts a text to so many bytes, at a character.
fn cut(text: &mut String, max: usize) {
    if text.len() > max {
        let end = (0..=max).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
        text.truncate(end);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fitted(mut conditions: Value) -> Value {
        fit(&mut conditions);
        conditions
    }

    #[test]
    fn what_fits_is_left_alone() {
        let conditions = json!([{
            "type": "example.com/Accepted", "status": "True", "reason": "A_1,b:c", "message": "", "observedGeneration": 0
        }]);
        assert_eq!(fitted(conditions.clone()), conditions);
    }

    #[test]
    fn a_reason_that_does_not_match_the_pattern_is_made_to() {
        let cases =
            [("", "Unknown"), ("1st", "st"), ("a b", "ab"), ("end,:", "end"), ("-", "Unknown"), ("Ünsinn", "nsinn")];
        for (reason, expected) in cases {
            let fitted = fitted(json!([{"type": "A", "status": "True", "reason": reason, "message": ""}]));
            assert_eq!(fitted[0]["reason"], expected, "{reason:?}");
            assert!(reason_fits(expected));
        }
        let long = fitted(json!([{"type": "A", "status": "True", "reason": "x".repeat(2000), "message": ""}]));
        assert_eq!(long[0]["reason"].as_str().map(str::len), Some(MAX_REASON));
    }

    #[test]
    fn a_message_is_cut_between_characters() {
        let fitted = fitted(json!([{"type": "A", "status": "True", "reason": "A", "message": "ü€".repeat(10_000)}]));
        let message = fitted[0]["message"].as_str().expect("a text");
        assert!(message.len() <= MAX_MESSAGE && message.len() > MAX_MESSAGE - 4);
    }

    #[test]
    fn there_is_one_condition_of_a_type_and_eight_in_all() {
        let list: Vec<_> = (0..20)
            .map(|n| json!({"type": format!("T{}", n / 2), "status": "True", "reason": "A", "message": n.to_string()}))
            .collect();
        let fitted = fitted(Value::Array(list));
        let messages: Vec<_> = fitted.as_array().into_iter().flatten().map(|c| c["message"].clone()).collect();
        assert_eq!(messages, ["0", "2", "4", "6", "8", "10", "12", "14"]);
    }

    #[test]
    fn what_is_missing_or_wrong_is_made_good() {
        let fitted = fitted(json!([{"type": "A", "status": "Yes", "observedGeneration": -1}, {"status": "True"}, 7]));
        assert_eq!(fitted, json!([{"type": "A", "status": "Unknown", "reason": "Unknown", "message": ""}]));
        let mut none = Value::Null;
        fit(&mut none);
        assert_eq!(none, json!([]));
    }

    #[test]
    fn the_time_is_kept_until_the_status_turns() {
        let stored = json!({"type": "A", "status": "True", "reason": "Old", "lastTransitionTime": "then"});
        let same = stamp(json!({"type": "A", "status": "True", "reason": "New"}), Some(&stored), "now");
        assert_eq!(same["lastTransitionTime"], "then");
        let turned = stamp(json!({"type": "A", "status": "False", "reason": "New"}), Some(&stored), "now");
        assert_eq!(turned["lastTransitionTime"], "now");
    }
}
