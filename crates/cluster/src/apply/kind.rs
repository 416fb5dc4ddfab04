//! The kinds of objects that run proxies.

use kube::core::ApiResource;
use serde_json::Value;

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

    /// Group, version, kind and plural.
    fn names(self) -> (&'static str, &'static str, &'static str, &'static str) {
        match self {
            Self::ServiceAccount => ("", "v1", "ServiceAccount", "serviceaccounts"),
            Self::ConfigMap => ("", "v1", "ConfigMap", "configmaps"),
            Self::Deployment => ("apps", "v1", "Deployment", "deployments"),
            Self::Service => ("", "v1", "Service", "services"),
            Self::HorizontalPodAutoscaler => {
                ("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers")
            }
            Self::PodDisruptionBudget => ("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets"),
            Self::VerticalPodAutoscaler => {
                ("autoscaling.k8s.io", "v1", "VerticalPodAutoscaler", "verticalpodautoscalers")
            }
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.names().2
    }

    /// Where its objects are.
    pub fn resource(self) -> ApiResource {
        let (group, version, kind, plural) = self.names();
        let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        let text = str::to_owned;
        ApiResource { group: text(group), version: text(version), api_version, kind: text(kind), plural: text(plural) }
    }

    /// The kind that an object says it is of.
    pub fn of(object: &Value) -> Option<Self> {
        let (api_version, kind) = (object["apiVersion"].as_str()?, object["kind"].as_str()?);
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        Self::ALL.into_iter().find(|candidate| {
            let (own_group, own_version, own_kind, _) = candidate.names();
            (own_group, own_version, own_kind) == (group, version, kind)
        })
    }
}
