//! What is wrong, and who can mend it.

use std::fmt;

use ir::{Problem, RootId};
use serde::Serialize;
use translate::{FreezeTold, inspect::Fault};

/// One thing that is wrong, and the object whose owner can mend it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Whose owner must act: `HTTPRoute NAMESPACE/NAME`.
    pub object: String,
    /// The reason, as in a condition.
    pub reason: &'static str,
    /// The field; empty where it is not one field that is wrong.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
    /// What is wrong, and the remedy.
    pub message: String,
}

impl Finding {
    /// Of an object: `HTTPRoute NAMESPACE/NAME`.
    pub(crate) fn problem(object: &str, problem: &Problem) -> Self {
        let Problem { reason, field, message, .. } = problem;
        Self { object: object.into(), reason: reason.as_str(), field: field.clone(), message: message.clone() }
    }

    /// Why another version is served of what belongs to a root than that of now.
    pub(crate) fn frozen(root: &RootId, told: &FreezeTold) -> Self {
        let FreezeTold { reason, message, .. } = told;
        Self { object: root.to_string(), reason: reason.as_str(), field: String::new(), message: message.to_string() }
    }

    /// Of an object: `HTTPRoute NAMESPACE/NAME`.
    pub(crate) fn fault(object: &str, fault: &Fault) -> Self {
        let Fault { reason, field, message } = fault;
        Self { object: object.into(), reason: reason.as_str(), field: field.clone(), message: message.clone() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { object, reason, field, message } = self;
        if field.is_empty() {
            write!(f, "{reason}: {message} ({object})")
        } else {
            write!(f, "{reason}: {field}: {message} ({object})")
        }
    }
}
