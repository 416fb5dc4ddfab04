//! What objects of all kinds have in common.

use std::sync::Arc;

use crate::{
    Violation,
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

    /// Why a part of the object could not be read.
    fn invalid(&self) -> &[Violation] {
        &[]
    }

    /// What an API server would refuse about it.
    fn violations(&self) -> Vec<Violation> {
        self.invalid().to_vec()
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

    fn name(&self) -> (Arc<str>, Arc<str>) {
        (Arc::clone(&self.metadata.namespace), Arc::clone(&self.metadata.name))
    }

    fn metadata(&self) -> Option<&ObjectMeta> {
        Some(&self.metadata)
    }

    fn metadata_mut(&mut self) -> Option<&mut ObjectMeta> {
        Some(&mut self.metadata)
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

    fn keeps(&self, path: &str) -> bool {
        self.spec.keeps(path)
    }
}
