//! What the CRDs of Gateway API and of policies say across fields, there in CEL: what the rules of several kinds share.
//!
//! Each function takes a part of an object and the path where it stands. Where a field's schema default would satisfy a
//! rule it does so here too, since it is already in place.

use crate::Violation;

pub(crate) mod policy;
pub(crate) mod reference;
pub(crate) mod route;

/// Rules that an object breaks, in the order they are looked at.
pub(crate) struct Broken(pub(crate) Vec<Violation>);

impl Broken {
    pub(crate) fn add(&mut self, path: impl Into<String>, value: impl std::fmt::Display, message: impl Into<String>) {
        self.0.push(Violation::new(path, value, message));
    }

    /// Notes a broken rule where it is not one value that is wrong.
    pub(crate) fn add_without_value(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.0.push(Violation::without_value(path, message));
    }
}
