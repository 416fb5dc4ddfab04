//! ConfigMap.

use std::{collections::BTreeMap, sync::Arc};

use serde::Deserialize;

use super::Name;

/// A ConfigMap. Binary values are not kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(from = "Raw")]
pub struct ConfigMap {
    /// Namespace.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// Values.
    pub data: BTreeMap<Box<str>, Arc<str>>,
}

slim!(ConfigMap);

#[derive(Deserialize, Default)]
#[serde(default)]
struct Raw {
    metadata: Name,
    data: BTreeMap<Box<str>, Arc<str>>,
}

impl From<Raw> for ConfigMap {
    fn from(Raw { metadata, data }: Raw) -> Self {
        Self { namespace: metadata.namespace, name: metadata.name, data }
    }
}
