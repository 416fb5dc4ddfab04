//! The rules that an API server applies to objects of Gateway API, and to policies, before anybody sees them.

use schemars::SchemaGenerator;
use serde::Serialize;

use crate::Violation;
use openapi::Node;
use rules::{Broken, Cel};

pub mod openapi;
pub(crate) mod rules;

/// What the CRD of a kind says; nothing for a kind of Kubernetes itself.
#[derive(Clone, Copy)]
pub(crate) struct Schema {
    /// The rules of each field by itself.
    pub(crate) table: Option<&'static Node>,
    /// The rest of a CRD of our own.
    pub(crate) own: Option<Own>,
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
    pub(crate) const NONE: Self = Self { table: None, own: None };

    const fn of(table: &'static Node) -> Self {
        Self { table: Some(table), own: None }
    }

    const fn own(self, own: Own) -> Self {
        Self { own: Some(own), ..self }
    }
}

/// The spec of a kind that a CRD defines. It stands beside the rules of the kind.
pub(crate) trait Spec: Serialize {
    /// What the CRD says.
    const SCHEMA: Schema = Schema::NONE;

    /// Checks the rules across fields, which the CRD has in CEL.
    fn check(&self, _broken: &mut Broken) {}

    /// Why no more than the targets of a policy could be read.
    fn invalid(&self) -> &[Violation] {
        &[]
    }

    /// Whether the value at a path such as `spec.cors.maxAge` is kept as it is written, for its reader to judge.
    fn keeps(&self, _path: &str) -> bool {
        false
    }
}
