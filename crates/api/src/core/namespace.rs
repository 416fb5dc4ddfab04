//! Namespace.

use std::sync::Arc;

use serde::Deserialize;

use crate::{meta::StringMap, resource::Resource};

/// A Namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(from = "Raw")]
pub struct Namespace {
    /// Name.
    pub name: Arc<str>,
    /// Labels.
    pub labels: StringMap,
}

impl Resource for Namespace {
    fn name(&self) -> (Arc<str>, Arc<str>) {
        (Arc::default(), Arc::clone(&self.name))
    }
}

/// The label that every API server gives a Namespace: its name.
const NAME: &str = "kubernetes.io/metadata.name";

impl Namespace {
    /// A Namespace with nothing but that label.
    pub fn named(name: impl Into<Arc<str>>) -> Self {
        let name = name.into();
        let labels = [(NAME, &*name)].into();
        Self { name, labels }
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Raw {
    metadata: RawMeta,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawMeta {
    name: Arc<str>,
    labels: StringMap,
}

impl From<Raw> for Namespace {
    /// An API server always sets the name label; a manifest may leave it out, or lie.
    fn from(Raw { metadata: RawMeta { name, mut labels } }: Raw) -> Self {
        labels.insert(NAME, &*name);
        Self { name, labels }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_label_is_always_there_and_true() {
        let namespace: Namespace = serde_json::from_value(serde_json::json!({
            "metadata": { "name": "n", "labels": { "a": "b", "kubernetes.io/metadata.name": "other" } }
        }))
        .expect("a Namespace");
        let labels: Vec<_> = namespace.labels.iter().map(|(key, value)| (&**key, &**value)).collect();
        assert_eq!(labels, [("a", "b"), ("kubernetes.io/metadata.name", "n")]);
    }
}
