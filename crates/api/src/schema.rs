//! The rules that an API server applies to objects of Gateway API, and to policies, before anybody sees them.

use schemars::SchemaGenerator;
use serde::Serialize;
use serde_json::Value;

use crate::{
    Violation,
    honoured::{Honoured, RefusedField},
};
use openapi::Node;
use rules::Broken;

pub mod openapi;
pub(crate) mod rules;

/// What the CRD of a kind says; nothing for a kind of Kubernetes itself.
#[derive(Clone, Copy)]
pub(crate) struct Schema {
    /// The rules of each field by itself.
    pub(crate) table: Option<&'static Node>,
    /// The rest of a CRD of our own.
    pub(crate) own: Option<Own>,
    /// Where JSON stands whose nulls are content, as a JSON pointer.
    pub(crate) nulls: Option<&'static str>,
    /// Whether an object is refused for a field that the table does not know.
    pub(crate) refuses_unknown: bool,
}

/// A rule that a CRD of our own writes in CEL.
#[derive(Debug)]
pub(crate) struct Cel {
    /// The field whose value is `self`, such as `spec.list[].field`.
    pub(crate) path: &'static str,
    /// The expression.
    pub(crate) rule: &'static str,
    /// What must hold.
    pub(crate) message: &'static str,
}

/// The parts of a CRD of our own that stand in no table.
#[derive(Clone, Copy)]
pub(crate) struct Own {
    /// What the kind is for.
    pub(crate) about: &'static str,
    /// Describes the type of the spec.
    pub(crate) describe: fn(SchemaGenerator) -> schemars::Schema,
    /// The rules of [`Spec::check`], in CEL.
    pub(crate) rules: &'static [Cel],
}

impl Schema {
    /// The schema of a kind without a CRD.
    pub(crate) const NONE: Self = Self { table: None, own: None, nulls: None, refuses_unknown: false };

    pub(crate) const fn of(table: &'static Node) -> Self {
        Self { table: Some(table), ..Self::NONE }
    }

    pub(crate) const fn keeps_nulls(self, pointer: &'static str) -> Self {
        Self { nulls: Some(pointer), ..self }
    }

    /// Has [`Spec::set_unknown`] told of each field that the table does not know: it may be one that protects something.
    pub(crate) const fn refuses_unknown(self) -> Self {
        Self { refuses_unknown: true, ..self }
    }

    pub(crate) const fn own(self, own: Own) -> Self {
        Self { own: Some(own), ..self }
    }
}

/// The spec of a kind that a CRD defines: what is known of the kind beside its type.
pub(crate) trait Spec: Serialize {
    /// What the CRD says.
    const SCHEMA: Schema = Schema::NONE;

    /// Which of its properties are honoured.
    const HONOURED: Honoured = Honoured::ALL;

    /// Checks the rules across fields, which the CRD has in CEL.
    fn check(&self, _broken: &mut Broken) {}

    /// What is set and not honoured, in the order of the fields.
    fn refused(&self) -> Vec<RefusedField> {
        Vec::new()
    }

    /// Takes the paths of the fields that are set and that the table does not know, where the schema refuses these.
    fn set_unknown(&mut self, _paths: Vec<Box<str>>) {}

    /// A policy that cannot be read, for what is `invalid`, with the targets that can; none for a kind that is no policy.
    fn targets_only(_spec: &Value, _invalid: Violation) -> Option<Self>
    where
        Self: Sized,
    {
        None
    }

    /// Why no more than the targets of a policy could be read.
    fn invalid(&self) -> &[Violation] {
        &[]
    }

    /// Whether the value at a path such as `spec.cors.maxAge` is kept as it is written, for its reader to judge.
    fn keeps(&self, _path: &str) -> bool {
        false
    }
}
