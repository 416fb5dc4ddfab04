//! Deployment.

use std::sync::Arc;

use serde::Deserialize;

use super::Name;

/// A Deployment, as far as it says whether something runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(from = "Raw")]
pub struct Deployment {
    /// Namespace.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// How many of its pods are ready, and have been long enough.
    pub available: u32,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Raw {
    metadata: Name,
    status: RawStatus,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct RawStatus {
    available_replicas: i64,
}

impl From<Raw> for Deployment {
    fn from(Raw { metadata, status }: Raw) -> Self {
        let available = u32::try_from(status.available_replicas).unwrap_or_default();
        Self { namespace: metadata.namespace, name: metadata.name, available }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn one_that_says_nothing_yet_has_nothing_available() {
        let read = |status: serde_json::Value| -> Deployment {
            let manifest = json!({ "metadata": { "name": "d", "namespace": "n" }, "spec": {}, "status": status });
            serde_json::from_value(manifest).expect("a Deployment")
        };
        assert_eq!(read(json!({})).available, 0);
        assert_eq!(read(json!({ "availableReplicas": 2, "replicas": 3 })).available, 2);
    }
}
