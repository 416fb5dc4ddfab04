//! Statuses and problems of objects.
//!
//! Nothing in the translation reads them. Messages are stable: the same fault gives the same words.

mod ancestors;
pub(crate) mod backend;
mod backend_config_policy;
mod backend_tls_policy;
pub(crate) mod class;
mod connections;
mod delegation_policy;
pub(crate) mod extension;
pub(crate) mod gateway;
mod listener_policy;
pub(crate) mod policy;
pub(crate) mod route;
pub(crate) mod set;

use std::{borrow::Cow, fmt, sync::Arc};

use api::{
    ObjectId,
    status::{Condition, ConditionStatus},
};
use engine::Scope;
use ir::{Problem, Reason};
use serde::Serialize;
use serde_json::Value;

use crate::{
    tables::{
        edition::FreezeTold,
        input::{Config, FrozenTold},
    },
    words::listed_with,
};

/// A status, and everything that is wrong with the object.
pub(crate) trait Report: Send + Sync {
    /// Whether the object has a status of ours.
    fn has_status(&self) -> bool {
        false
    }

    /// The status as JSON.
    fn json(&self) -> Option<String> {
        None
    }

    /// Everything that is wrong with the object.
    fn problems(&self) -> Vec<Problem>;
}

/// A status with what is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StatusReport<S> {
    /// As it is written to the object; none if it has no status of ours.
    pub(crate) status: Option<S>,
    /// The faults that the conditions name, and those without a condition, in the order of the spec.
    pub(crate) problems: Vec<Problem>,
}

impl<S: Serialize + Send + Sync> Report for StatusReport<S> {
    fn has_status(&self) -> bool {
        self.status.is_some()
    }

    fn json(&self) -> Option<String> {
        self.status.as_ref().map(json)
    }

    fn problems(&self) -> Vec<Problem> {
        self.problems.clone()
    }
}

/// Of an object without a status of ours.
impl Report for Problem {
    fn problems(&self) -> Vec<Problem> {
        vec![self.clone()]
    }
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

    fn set(
        &mut self,
        kind: &'static str,
        status: ConditionStatus,
        reason: Reason,
        message: impl Into<Cow<'static, str>>,
    ) {
        self.list.push(Condition {
            r#type: kind.into(),
            status,
            observed_generation: Some(self.generation),
            last_transition_time: None,
            reason: reason.as_str().into(),
            message: bounded(message.into()),
        });
    }

    /// All of them, without spare room: they stay as long as the object.
    fn done(mut self) -> Vec<Condition> {
        self.list.shrink_to_fit();
        self.list
    }

    fn yes(&mut self, kind: &'static str, reason: Reason, message: impl Into<Cow<'static, str>>) {
        self.set(kind, ConditionStatus::True, reason, message);
    }

    fn no(&mut self, kind: &'static str, reason: Reason, message: impl Into<Cow<'static, str>>) {
        self.set(kind, ConditionStatus::False, reason, message);
    }

    /// How the tree is kept.
    fn frozen(&mut self, FreezeTold { is_frozen, reason, message }: &FreezeTold) {
        let status = if *is_frozen { ConditionStatus::True } else { ConditionStatus::False };
        self.set("portcullis.dev/Frozen", status, *reason, message.to_string());
    }
}

/// What is told of how a tree is kept of which an object is, where trees may be.
fn frozen(scope: &Scope<'_>, object: impl FnOnce() -> ObjectId) -> Option<Arc<FreezeTold>> {
    scope.get::<Config>(&())?.freeze.enabled.then(|| scope.get::<FrozenTold>(&object())).flatten()
}

/// A message, cut where it is too long.
fn bounded(mut message: Cow<'static, str>) -> Cow<'static, str> {
    if message.len() > MAX_MESSAGE {
        let message = message.to_mut();
        message.truncate(message.floor_char_boundary(MAX_MESSAGE - '…'.len_utf8()));
        message.push('…');
    }
    if let Cow::Owned(message) = &mut message {
        message.shrink_to_fit();
    }
    message
}

/// Joins the first of `items`, and counts the rest.
fn listed<T: ToString>(items: &[T]) -> String {
    listed_with("; ", items)
}

/// The message of a condition, with warnings, which have no condition of their own.
fn and_notes(message: impl Into<Cow<'static, str>>, notes: &[impl ToString]) -> Cow<'static, str> {
    let message = message.into();
    if notes.is_empty() { message } else { format!("{message}. Warning: {}", listed(notes)).into() }
}

/// The status of an object, not encoded yet: another thread can do that.
pub struct StatusRow(pub(crate) Arc<dyn Report>);

impl StatusRow {
    /// As JSON.
    pub fn value(&self) -> Value {
        self.0.json().and_then(|json| serde_json::from_str(&json).ok()).unwrap_or_default()
    }
}

impl fmt::Debug for StatusRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value().fmt(f)
    }
}

fn json(status: &impl Serialize) -> String {
    // Texts as keys always serialize.
    serde_json::to_string(status).unwrap_or_else(|_| "{}".to_owned())
}
