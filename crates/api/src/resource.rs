//! What objects of all kinds have in common.

use std::sync::Arc;

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

    /// Whether the value at a path such as `spec.cors.maxAge` is kept as it is written, for its reader to judge.
    fn keeps(&self, _path: &str) -> bool {
        false
    }
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
        let mut found = self.spec.invalid().to_vec();
        if !found.is_empty() {
            return found;
        }
        // The tables are read against the encoded spec, so that they need to know nothing of our types.
        if let Some(table) = S::SCHEMA.table
            && let Ok(value) = serde_json::to_value(&self.spec)
        {
            openapi::check(table, &value, openapi::Path::Root("spec"), &mut found);
        }
        let mut broken = Broken(found);
        self.spec.check(&mut broken);
        broken.0
    }

    fn refused(&self) -> Vec<RefusedField> {
        self.spec.refused()
    }

    fn keeps(&self, path: &str) -> bool {
        self.spec.keeps(path)
    }
}
