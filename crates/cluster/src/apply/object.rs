//! What is known of an object that was applied.

use std::{
    fmt,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};
use serde_json::Value;

use super::kind::{Kind, MANAGED_BY};

/// The annotation that names the controller which applied an object: there can be several in a cluster.
pub const CONTROLLER: &str = "gateway.portcullis.dev/controller";

/// Who applies, as the API server notes it.
pub(super) const FIELD_MANAGER: &str = "portcullis";

/// The key of an object among those of a Gateway.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ObjectKey {
    /// The kind.
    pub(super) kind: Kind,
    /// The name.
    pub(super) name: Arc<str>,
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.name(), self.name)
    }
}

/// An object of ours that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LiveObject {
    /// `metadata.uid`.
    pub(super) uid: Arc<str>,
    /// What was applied; none if that was by a process before this one.
    pub(super) applied: Option<Arc<Value>>,
    /// Whether somebody changed it since.
    pub(super) changed: bool,
    /// That of its metadata then.
    pub(super) fingerprint: Fingerprint,
}

/// What of an object's metadata changes when somebody changes what we apply, and hardly ever otherwise.
///
/// An API server notes which fields are ours: who changes or removes one takes it out of that note. What others add, an
/// autoscaler's replicas, and each status are in no note of ours. Only a Service's ports are looked at whoever set them,
/// since one that somebody adds would serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fingerprint(u64);

impl Fingerprint {
    /// That of an object with this metadata.
    pub(super) fn of(metadata: &ObjectMeta) -> Self {
        let mut hasher = DefaultHasher::new();
        for entry in metadata.managed_fields.iter().flatten() {
            let Some(fields) = entry.fields_v1.as_ref().map(|fields| &fields.0) else { continue };
            if is_ours(entry) {
                fields.hash(&mut hasher);
            } else if let Some(ports) = fields.get("f:spec").and_then(|spec| spec.get("f:ports")) {
                (&entry.manager, ports).hash(&mut hasher);
            }
        }
        Self(hasher.finish())
    }
}

fn is_ours(entry: &ManagedFieldsEntry) -> bool {
    entry.manager.as_deref() == Some(FIELD_MANAGER)
        && entry.operation.as_deref() == Some("Apply")
        && entry.subresource.as_deref().unwrap_or_default().is_empty()
}

/// Whether an object is one that this controller has made for a Gateway of that name: it is controlled by it, and says
/// who made it, or, should somebody have removed the label, still has fields of ours.
pub(super) fn is_of(metadata: &ObjectMeta, gateway: &str) -> bool {
    let (label, value) = MANAGED_BY;
    let labelled = metadata.labels.as_ref().and_then(|labels| labels.get(label)).is_some_and(|is| is == value);
    owner(metadata) == Some(gateway) && (labelled || metadata.managed_fields.iter().flatten().any(is_ours))
}

/// The name of the Gateway that controls an object.
pub(super) fn owner(metadata: &ObjectMeta) -> Option<&str> {
    let owners = metadata.owner_references.iter().flatten();
    let gateway = |api_version: &str| api_version.starts_with("gateway.networking.k8s.io/");
    let mut owners = owners.filter(|owner| owner.kind == "Gateway" && gateway(&owner.api_version));
    owners.find(|owner| owner.controller == Some(true)).map(|owner| owner.name.as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn metadata(metadata: Value) -> ObjectMeta {
        serde_json::from_value(metadata).expect("metadata")
    }

    fn controlled() -> Value {
        json!([{
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "name": "web", "uid": "u", "controller": true
        }])
    }

    #[test]
    fn an_owner_is_the_gateway_that_controls() {
        let owned = |references: Value| metadata(json!({"ownerReferences": references}));
        assert_eq!(owner(&owned(controlled())), Some("web"));
        for (field, value) in [("controller", json!(false)), ("kind", json!("Service")), ("apiVersion", json!("v1"))] {
            let mut other = controlled();
            other[0][field] = value;
            assert_eq!(owner(&owned(other)), None, "{field}");
        }
    }

    #[test]
    fn what_lost_its_label_is_still_of_its_gateway_if_it_has_fields_of_ours() {
        let ours = json!([{"manager": "portcullis", "operation": "Apply", "fieldsV1": {}}]);
        let label = json!({"app.kubernetes.io/managed-by": "portcullis"});
        let of = |labels: &Value, fields: &Value, gateway: &str| {
            let metadata =
                metadata(json!({"labels": labels, "managedFields": fields, "ownerReferences": controlled()}));
            is_of(&metadata, gateway)
        };
        assert!(of(&json!({}), &ours, "web"));
        assert!(of(&label, &json!([]), "web"));
        assert!(!of(&json!({}), &json!([]), "web"));
        assert!(!of(&label, &ours, "other"));
    }

    #[test]
    fn a_fingerprint_changes_with_fields_of_ours_and_ports_of_others_and_with_nothing_else() {
        let ours = |fields: Value| json!({"manager": "portcullis", "operation": "Apply", "fieldsV1": fields});
        let other = |fields: Value| json!({"manager": "kubectl", "operation": "Update", "fieldsV1": fields});
        let fingerprint =
            |entries: Value| Fingerprint::of(&metadata(json!({"managedFields": entries, "resourceVersion": "1"})));
        let before = fingerprint(json!([ours(json!({"f:spec": {"f:type": {}}}))]));
        let same = [
            json!([ours(json!({"f:spec": {"f:type": {}}})), other(json!({"f:metadata": {"f:labels": {"f:a": {}}}}))]),
            json!([ours(json!({"f:spec": {"f:type": {}}})), {
                "manager": "portcullis", "operation": "Apply", "subresource": "status", "fieldsV1": {"f:status": {}}
            }]),
        ];
        for same in same {
            assert_eq!(fingerprint(same.clone()), before, "{same}");
        }
        let others = [
            json!([ours(json!({"f:spec": {}}))]),
            json!([]),
            json!([
                ours(json!({"f:spec": {"f:type": {}}})),
                other(json!({"f:spec": {"f:ports": {"k:{\"port\":81}": {}}}}))
            ]),
        ];
        for other in others {
            assert_ne!(fingerprint(other.clone()), before, "{other}");
        }
    }
}
