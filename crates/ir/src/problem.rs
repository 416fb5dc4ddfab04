//! What is wrong with an object, as a value.

use std::fmt;

/// What a problem does to the traffic of the object that has it, worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// The object, or the part named by the field, is not served at all.
    Refused,
    /// The part named by the field answers a direct response in place of what it asked for.
    Replaced,
    /// The part named by the field has no effect; everything else is served as written.
    Ignored,
    /// Everything is served as written, yet the author probably meant something else.
    Warning,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Refused => "refused",
            Self::Replaced => "replaced",
            Self::Ignored => "ignored",
            Self::Warning => "warning",
        })
    }
}

/// One thing that is wrong. The object it belongs to is told by whoever holds the problem.
///
/// The text is stable: the same fault gives the same words, without times and without an order that varies.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Problem {
    /// What becomes of the traffic.
    pub severity: Severity,
    /// The condition reason of Gateway API that fits, such as `BackendNotFound`.
    pub reason: &'static str,
    /// The path of the field, such as `spec.rules[0].backendRefs[1].name`.
    pub field: String,
    /// What is wrong, with the value, and what to do about it.
    pub message: String,
}

impl Problem {
    /// A problem at `field`; `message` says what is wrong and the remedy.
    pub fn new(severity: Severity, reason: &'static str, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { severity, reason, field: field.into(), message: message.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.field.is_empty() { f.write_str(&self.message) } else { write!(f, "{}: {}", self.field, self.message) }
    }
}
