//! The kinds of objects that run proxies.

use kube::core::ApiResource;
use serde_json::Value;

use crate::watch::Labelled;

/// The label and its value that all objects of ours have.
pub const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "portcullis");

/// A kind of object that is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// The account that proxies run as.
    ServiceAccount,
    /// What they start with.
    ConfigMap,
    /// The proxies.
    Deployment,
    /// What stands before them.
    Service,
    /// How many there are.
    HorizontalPodAutoscaler,
    /// How many must stay.
    PodDisruptionBudget,
    /// How large they are. Not of Kubernetes' own, and often not there.
    VerticalPodAutoscaler,
}

/// In the order of [`Kind`].
static KINDS: [Labelled; 7] = [
    labelled("", "v1", "ServiceAccount", "serviceaccounts"),
    labelled("", "v1", "ConfigMap", "configmaps"),
    labelled("apps", "v1", "Deployment", "deployments"),
    labelled("", "v1", "Service", "services"),
    labelled("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers"),
    labelled("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets"),
    Labelled {
        custom: true,
        ..labelled("autoscaling.k8s.io", "v1", "VerticalPodAutoscaler", "verticalpodautoscalers")
    },
];

const fn labelled(group: &'static str, version: &'static str, kind: &'static str, plural: &'static str) -> Labelled {
    Labelled { group, version: [version], kind, plural, custom: false, label: MANAGED_BY }
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::ServiceAccount,
        Self::ConfigMap,
        Self::Deployment,
        Self::Service,
        Self::HorizontalPodAutoscaler,
        Self::PodDisruptionBudget,
        Self::VerticalPodAutoscaler,
    ];

    /// What is watched of it.
    pub(super) fn labelled(self) -> &'static Labelled {
        &KINDS[self as usize]
    }

    /// Whether every API server has it.
    pub fn is_built_in(self) -> bool {
        self != Self::VerticalPodAutoscaler
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.labelled().kind
    }

    /// Where its objects are.
    pub fn resource(self) -> ApiResource {
        let Labelled { group, version: [version], kind, plural, .. } = *self.labelled();
        let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        let text = str::to_owned;
        ApiResource { group: text(group), version: text(version), api_version, kind: text(kind), plural: text(plural) }
    }

    /// The kind that an object says it is of.
    pub fn of(object: &Value) -> Option<Self> {
        let (api_version, kind) = (object["apiVersion"].as_str()?, object["kind"].as_str()?);
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        Self::ALL.into_iter().find(|candidate| {
            let candidate = candidate.labelled();
            (candidate.group, candidate.version[0], candidate.kind) == (group, version, kind)
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_kind_is_found_by_what_its_objects_say() {
        for kind in Kind::ALL {
            let resource = kind.resource();
            let object = json!({"apiVersion": resource.api_version, "kind": format!("{kind:?}")});
            assert_eq!(Kind::of(&object), Some(kind));
        }
        assert_eq!(Kind::of(&json!({"apiVersion": "apps/v1beta1", "kind": "Deployment"})), None);
    }
}
