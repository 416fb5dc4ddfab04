//! Deployment.

use std::sync::Arc;

use serde::Deserialize;

use crate::group::GROUP;

/// A Deployment, as far as it says whether something runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(from = "Raw")]
pub struct Deployment {
    /// Namespace.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// The Gateway of its namespace that controls it, by name; none if none does.
    pub gateway: Option<Arc<str>>,
    /// How many of its pods are ready, and have been long enough.
    pub available: u32,
}

slim!(Deployment);

#[derive(Deserialize, Default)]
#[serde(default)]
struct Raw {
    metadata: RawMetadata,
    status: RawStatus,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct RawMetadata {
    name: Arc<str>,
    namespace: Arc<str>,
    owner_references: Vec<RawOwner>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct RawOwner {
    api_version: Box<str>,
    kind: Box<str>,
    name: Arc<str>,
    controller: bool,
}

impl RawOwner {
    fn is_gateway(&self) -> bool {
        let group = self.api_version.split_once('/').map_or("", |(group, _)| group);
        self.controller && (group, &*self.kind) == (GROUP, "Gateway")
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct RawStatus {
    available_replicas: i64,
}

impl From<Raw> for Deployment {
    fn from(Raw { metadata, status }: Raw) -> Self {
        let available = u32::try_from(status.available_replicas).unwrap_or_default();
        let RawMetadata { name, namespace, owner_references } = metadata;
        let gateway = owner_references.into_iter().find(RawOwner::is_gateway).map(|owner| owner.name);
        Self { namespace, name, gateway, available }
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

    #[test]
    fn the_gateway_that_controls_one_is_known() {
        let read = |owner: serde_json::Value| {
            let metadata = json!({ "name": "d", "namespace": "n", "ownerReferences": [owner] });
            serde_json::from_value::<Deployment>(json!({ "metadata": metadata })).expect("a Deployment").gateway
        };
        let owner = json!({ "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "name": "web", "controller": true });
        assert_eq!(read(owner.clone()).as_deref(), Some("web"));
        for (field, value) in [("controller", json!(false)), ("kind", json!("Service")), ("apiVersion", json!("v1"))] {
            let mut other = owner.clone();
            other[field] = value;
            assert_eq!(read(other), None, "{field}");
        }
    }
}
