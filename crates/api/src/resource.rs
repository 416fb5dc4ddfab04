//! What objects of all kinds have in common.

use std::{borrow::Borrow, sync::Arc};

use serde_json::Value;

use crate::{
    Violation,
    honoured::{Honoured, RefusedField},
    meta::{CustomResource, ObjectMeta},
    schema::{Schema, Spec, openapi, rules::Broken},
};

/// An object of some kind.
pub(crate) trait Resource {
    /// What the CRD of the kind says.
    fn schema() -> Schema
    where
        Self: Sized,
    {
        Schema::NONE
    }

    /// Which properties of the kind are honoured.
    fn honoured() -> Honoured
    where
        Self: Sized,
    {
        Honoured::ALL
    }

    /// A policy with the targets that `spec` has, and no more, for what is `invalid`; none for a kind that is no policy.
    fn targets_only(_metadata: ObjectMeta, _spec: &Value, _invalid: Violation) -> Option<Self>
    where
        Self: Sized,
    {
        None
    }

    /// Namespace, empty for an object of the cluster, and name.
    fn name(&self) -> (Arc<str>, Arc<str>);

    /// The metadata; slim models keep none.
    fn metadata(&self) -> Option<&ObjectMeta> {
        None
    }

    /// The same, to be filled in where no API server did.
    fn metadata_mut(&mut self) -> Option<&mut ObjectMeta> {
        None
    }

    /// The object as JSON; none of a slim model.
    fn encoded(&self) -> Option<Value> {
        None
    }

    /// Why a part of the object could not be read.
    fn invalid(&self) -> &[Violation] {
        &[]
    }

    /// What an API server would refuse about it.
    fn violations(&self) -> Vec<Violation> {
        self.invalid().to_vec()
    }

    /// What is set and not honoured, in the order of the fields.
    fn refused(&self) -> Vec<RefusedField> {
        Vec::new()
    }

    /// Takes the paths of the fields that are set and that the table does not know, where the schema refuses these.
    fn set_unknown(&mut self, _paths: Vec<Box<str>>) {}

    /// Whether the value at a path such as `spec.cors.maxAge` is kept as it is written, for its reader to judge.
    fn keeps(&self, _path: &str) -> bool {
        false
    }
}

/// What an API server would refuse about a spec. The tables are read against what is `written`, so that they need to know
/// nothing of our types.
pub(crate) fn violations<S: Spec, W: Borrow<Value>>(spec: &S, written: impl FnOnce() -> Option<W>) -> Vec<Violation> {
    let mut found = spec.invalid().to_vec();
    if !found.is_empty() {
        return found;
    }
    if let Some(table) = S::SCHEMA.table
        && let Some(written) = written()
    {
        openapi::check(table, written.borrow(), openapi::Path::Root("spec"), &mut found);
    }
    let mut broken = Broken(found);
    spec.check(&mut broken);
    broken.0
}

impl<S: Spec> Resource for CustomResource<S> {
    fn schema() -> Schema {
        S::SCHEMA
    }

    fn honoured() -> Honoured {
        S::HONOURED
    }

    fn targets_only(metadata: ObjectMeta, spec: &Value, invalid: Violation) -> Option<Self> {
        Some(Self { metadata, spec: S::targets_only(spec, invalid)? })
    }

    fn name(&self) -> (Arc<str>, Arc<str>) {
        (Arc::clone(&self.metadata.namespace), Arc::clone(&self.metadata.name))
    }

    fn metadata(&self) -> Option<&ObjectMeta> {
        Some(&self.metadata)
    }

    fn metadata_mut(&mut self) -> Option<&mut ObjectMeta> {
        Some(&mut self.metadata)
    }

    fn encoded(&self) -> Option<Value> {
        serde_json::to_value(self).ok()
    }

    fn invalid(&self) -> &[Violation] {
        self.spec.invalid()
    }

    fn violations(&self) -> Vec<Violation> {
        violations(&self.spec, || serde_json::to_value(&self.spec).ok())
    }

    fn refused(&self) -> Vec<RefusedField> {
        self.spec.refused()
    }

    fn set_unknown(&mut self, paths: Vec<Box<str>>) {
        self.spec.set_unknown(paths);
    }

    fn keeps(&self, path: &str) -> bool {
        self.spec.keeps(path)
    }
}
