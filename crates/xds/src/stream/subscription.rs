//! The resources of one type that a client subscribes to.

use std::collections::BTreeSet;
use std::sync::Arc;

/// The name that stands for every resource of a type.
pub(super) const WILDCARD: &str = "*";

/// A set of names, or all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Subscription {
    /// Whether all names are meant, beside those that are listed.
    pub(super) wildcard: bool,
    /// The names that were asked for one by one.
    pub(super) names: BTreeSet<Arc<str>>,
    /// The total length of `names`.
    bytes: usize,
}

impl Subscription {
    /// Whether the client subscribes to `name`.
    pub(super) fn covers(&self, name: &str) -> bool {
        self.wildcard || self.names.contains(name)
    }

    /// Returns whether the name was not listed yet.
    pub(super) fn insert(&mut self, name: &Arc<str>) -> bool {
        let new = self.names.insert(name.clone());
        if new {
            self.bytes += name.len();
        }
        new
    }

    /// Returns whether the name was listed.
    pub(super) fn remove(&mut self, name: &str) -> bool {
        let listed = self.names.remove(name);
        if listed {
            self.bytes -= name.len();
        }
        listed
    }

    /// The total length of the listed names in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}
