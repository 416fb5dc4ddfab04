//! Which fields of a kind are read.

use api::{
    Kind,
    honoured::READ,
    schema::openapi::{self, Node},
};
use units::AnyUnit;

/// Of GatewayParameters these, as deep as definitions of different releases differ.
const GATEWAY_PARAMETERS: &[&str] = &[
    "spec.kube.deployment.replicas",
    "spec.kube.deployment.strategy",
    "spec.kube.deploymentOverlay.metadata",
    "spec.kube.deploymentOverlay.spec",
    "spec.kube.envoyContainer.bootstrap",
    "spec.kube.envoyContainer.env",
    "spec.kube.envoyContainer.extraArgs",
    "spec.kube.envoyContainer.extraVolumeMounts",
    "spec.kube.envoyContainer.image",
    "spec.kube.envoyContainer.resources",
    "spec.kube.envoyContainer.securityContext",
    "spec.kube.horizontalPodAutoscaler.metadata",
    "spec.kube.horizontalPodAutoscaler.spec",
    "spec.kube.omitDefaultSecurityContext",
    "spec.kube.podDisruptionBudget.metadata",
    "spec.kube.podDisruptionBudget.spec",
    "spec.kube.podTemplate.affinity",
    "spec.kube.podTemplate.extraAnnotations",
    "spec.kube.podTemplate.extraLabels",
    "spec.kube.podTemplate.extraVolumes",
    "spec.kube.podTemplate.gracefulShutdown",
    "spec.kube.podTemplate.imagePullSecrets",
    "spec.kube.podTemplate.livenessProbe",
    "spec.kube.podTemplate.nodeSelector",
    "spec.kube.podTemplate.priorityClassName",
    "spec.kube.podTemplate.readinessProbe",
    "spec.kube.podTemplate.securityContext",
    "spec.kube.podTemplate.startupProbe",
    "spec.kube.podTemplate.terminationGracePeriodSeconds",
    "spec.kube.podTemplate.tolerations",
    "spec.kube.podTemplate.topologySpreadConstraints",
    "spec.kube.service.clusterIP",
    "spec.kube.service.externalTrafficPolicy",
    "spec.kube.service.extraAnnotations",
    "spec.kube.service.extraLabels",
    "spec.kube.service.loadBalancerClass",
    "spec.kube.service.loadBalancerSourceRanges",
    "spec.kube.service.ports",
    "spec.kube.service.type",
    "spec.kube.serviceAccount.extraAnnotations",
    "spec.kube.serviceAccount.extraLabels",
    "spec.kube.serviceAccountOverlay.metadata",
    "spec.kube.serviceAccountOverlay.spec",
    "spec.kube.serviceOverlay.metadata",
    "spec.kube.serviceOverlay.spec",
    "spec.kube.stats.enableStatsRoute",
    "spec.kube.stats.enabled",
    "spec.kube.stats.matcher",
    "spec.kube.stats.routePrefixRewrite",
    "spec.kube.stats.statsRoutePrefixRewrite",
    "spec.kube.verticalPodAutoscaler.metadata",
    "spec.kube.verticalPodAutoscaler.spec",
    "spec.selfManaged",
];

/// The paths of the fields that are read, with `[]` for the items of a list. None of a kind of Kubernetes itself.
pub(super) fn read(kind: Kind) -> Vec<String> {
    match kind {
        Kind::GatewayParameters => GATEWAY_PARAMETERS.iter().map(ToString::to_string).collect(),
        Kind::TrafficPolicy => {
            let mut all = leaves_of_spec(kind);
            let field = |path: &str| path.split(['.', '[']).nth(1).unwrap_or_default().to_owned();
            let targets = ["targetRefs", "targetSelectors"];
            // It is refused if it sets another.
            all.retain(|path| targets.iter().chain(AnyUnit::FIELDS).any(|read| *read == field(path)));
            all
        }
        Kind::DirectResponse | Kind::RewritePolicy | Kind::DelegationPolicy => leaves_of_spec(kind),
        _ => {
            let of_kind = READ.iter().filter(|(of, _)| *of == kind);
            of_kind.flat_map(|(_, paths)| paths.iter().map(ToString::to_string)).collect()
        }
    }
}

fn leaves_of_spec(kind: Kind) -> Vec<String> {
    let mut found = Vec::new();
    if let Some(node) = openapi::spec(kind) {
        leaves(node, "spec".to_owned(), &mut found);
    }
    found
}

fn leaves(node: &Node, path: String, found: &mut Vec<String>) {
    match node {
        Node::Object(fields) => {
            fields.iter().for_each(|field| leaves(field.node, format!("{path}.{}", field.name), found));
        }
        Node::List { items: items @ Node::Object(_), .. } => leaves(items, path + "[]", found),
        _ => found.push(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_plain_values_and_mappings_are_one_field() {
        let read = read(Kind::DelegationPolicy);
        for path in ["spec.allowedChildren.namespaces.names", "spec.targetRefs[].name", "spec.requireAuth"] {
            assert!(read.contains(&path.to_owned()), "{path} in {read:?}");
        }
        assert!(super::read(Kind::Service).is_empty());
    }
}
