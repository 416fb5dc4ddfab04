//! GatewayParameters.

use serde_json::Value;

use crate::{honoured::Honoured, meta::CustomResource, schema::Spec};

/// How the proxies of Gateways are run: named by a GatewayClass, or by a Gateway's `infrastructure.parametersRef`.
///
/// The spec is kept as it was written: two of them are merged before anybody reads a field, and whoever reads refuses
/// what is not known.
pub type GatewayParameters = CustomResource<Value>;

impl Spec for Value {
    const HONOURED: Honoured = Honoured { read: READ, refused: &[] };
}

/// What translation reads. The spec has no table, since two of them are merged before they are read; as deep as definitions differ.
const READ: &[&str] = &[
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
