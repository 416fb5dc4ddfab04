//! A unit as rules have it.

use std::{
    fmt,
    ops::Deref,
    sync::{Arc, OnceLock, Weak},
};

use ir::{route::Handling, rule::Slot};

use crate::AnyUnit;

/// A unit of a policy, which many rules may have: it is cheap to clone, and what it says in slots is encoded once for all of
/// them, when the first one asks.
#[derive(Clone)]
pub struct SharedUnit(Arc<Shared>);

pub(crate) struct Shared {
    unit: AnyUnit,
    slots: OnceLock<Box<[Slot]>>,
    /// What is written in its field, of one that says no more than that.
    written: Option<Arc<str>>,
}

impl SharedUnit {
    /// One that says what is written, and no more.
    pub(crate) fn written(unit: AnyUnit, text: Arc<str>) -> Self {
        Self(Arc::new(Shared { unit, slots: OnceLock::new(), written: Some(text) }))
    }

    /// Whether it is made of what is written in this field.
    pub(crate) fn is_written(&self, field: &str, text: &str) -> bool {
        self.field() == field && self.0.written.as_deref() == Some(text)
    }

    pub(crate) fn downgrade(&self) -> Weak<Shared> {
        Arc::downgrade(&self.0)
    }

    pub(crate) fn upgrade(shared: &Weak<Shared>) -> Option<Self> {
        shared.upgrade().map(Self)
    }

    /// As [`AnyUnit::slots`].
    pub fn slots(&self) -> &[Slot] {
        self.0.slots.get_or_init(|| self.0.unit.slots().into())
    }

    /// Has a rule do it. False where the rule's own fields say all of it, so that nothing of the unit holds.
    pub fn apply(&self, rule: &mut Handling) -> bool {
        let holds = self.0.unit.apply(rule);
        if holds && self.is_in_slots() {
            rule.slots.extend_from_slice(self.slots());
        }
        holds
    }
}

impl From<AnyUnit> for SharedUnit {
    fn from(unit: AnyUnit) -> Self {
        Self(Arc::new(Shared { unit, slots: OnceLock::new(), written: None }))
    }
}

impl Deref for SharedUnit {
    type Target = AnyUnit;

    fn deref(&self) -> &AnyUnit {
        &self.0.unit
    }
}

impl PartialEq for SharedUnit {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.unit == other.0.unit
    }
}

impl Eq for SharedUnit {}

impl fmt::Debug for SharedUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.unit.fmt(f)
    }
}
