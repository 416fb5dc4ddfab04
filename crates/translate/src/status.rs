//! What is told to the owners of objects.
//!
//! Statuses are read by nothing in the translation. Messages are stable: the same fault gives the same words.

mod ancestors;
pub(crate) mod class;
mod delegation_policy;
pub(crate) mod gateway;
pub(crate) mod policy;
pub(crate) mod route;

use api::status::{Condition, ConditionStatus};
use ir::Problem;
use serde::Serialize;

use crate::words::listed_with;

/// A status with what is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Report<S> {
    /// As it is written to the object; none for an object that is not ours to judge.
    pub(crate) status: Option<S>,
    /// The same faults, and those that no condition tells, in the order of the spec.
    pub(crate) problems: Vec<Problem>,
}

/// The longest message of a condition (Kubernetes takes 32 KiB; nobody reads that).
const MAX_MESSAGE: usize = 4096;

/// Makes conditions of one object.
struct Conditions {
    generation: i64,
    list: Vec<Condition>,
}

impl Conditions {
    fn new(generation: i64) -> Self {
        Self { generation, list: Vec::new() }
    }

    fn set(&mut self, kind: &'static str, status: ConditionStatus, reason: &'static str, message: impl Into<String>) {
        self.list.push(Condition {
            r#type: kind.into(),
            status,
            observed_generation: Some(self.generation),
            last_transition_time: None,
            reason: reason.into(),
            message: bounded(message.into()),
        });
    }

    fn yes(&mut self, kind: &'static str, reason: &'static str, message: impl Into<String>) {
        self.set(kind, ConditionStatus::True, reason, message);
    }

    fn no(&mut self, kind: &'static str, reason: &'static str, message: impl Into<String>) {
        self.set(kind, ConditionStatus::False, reason, message);
    }
}

/// A message, cut where it is too long.
fn bounded(mut message: String) -> String {
    if message.len() > MAX_MESSAGE {
        message.truncate(message.floor_char_boundary(MAX_MESSAGE - '…'.len_utf8()));
        message.push('…');
    }
    message
}

/// Joins what `items` say, the first eight, and counts the rest.
fn listed<T: ToString>(items: &[T]) -> String {
    listed_with("; ", items)
}

/// What a condition says, with what has no effect or should be looked at: it must be told somewhere.
fn and_notes(message: &str, notes: &[impl ToString]) -> String {
    if notes.is_empty() { message.into() } else { format!("{message}. Warning: {}", listed(notes)) }
}

/// The status of an object, not written out yet: that can be elsewhere and later.
pub struct StatusRow(Box<dyn Fn() -> serde_json::Value + Send + Sync>);

impl StatusRow {
    pub(crate) fn new(value: impl Fn() -> serde_json::Value + Send + Sync + 'static) -> Self {
        Self(Box::new(value))
    }

    /// As JSON.
    pub fn value(&self) -> serde_json::Value {
        (self.0)()
    }
}

impl std::fmt::Debug for StatusRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.value().fmt(f)
    }
}

/// A status as a JSON value.
pub(crate) fn value(status: impl Serialize) -> serde_json::Value {
    // Texts as keys always serialize.
    serde_json::to_value(status).unwrap_or_default()
}

/// A status as JSON.
pub(crate) fn json(status: &impl Serialize) -> String {
    // Texts as keys always serialize.
    serde_json::to_string(status).unwrap_or_else(|_| "{}".to_owned())
}
