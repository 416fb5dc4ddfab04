//! Autoscalers and budgets: what they are about is ours to say, the rest is what the parameters' `spec` has.

use serde_json::{Value, json};

use super::Rendering;
use crate::{Fault, parameters::Overlaid};

fn target(plan: &Rendering<'_>) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": *plan.names.object})
}

pub(super) fn horizontal(plan: &Rendering<'_>) -> Value {
    json!({"metadata": plan.metadata([], []), "spec": {"scaleTargetRef": target(plan)}})
}

/// The replicas of the Deployment are what to start from.
pub(super) fn complete_horizontal(plan: &Rendering<'_>, object: &mut Value) -> Result<(), Fault> {
    let fault = |path: &str, message: &str| Err(plan.overlaid(Overlaid::HorizontalPodAutoscaler, path, message));
    let spec = &mut object["spec"];
    if spec["scaleTargetRef"] != target(plan) {
        return fault("spec.scaleTargetRef", "must be the Deployment of the proxies; remove it");
    }
    let most = spec["maxReplicas"].as_i64().unwrap_or_default();
    if most < 1 {
        return fault("spec.maxReplicas", "must be at least 1");
    }
    if let Some(replicas) = plan.plan.parameters.kube.deployment.replicas
        && spec.get("minReplicas").is_none()
        && replicas > 0
    {
        spec["minReplicas"] = i64::from(replicas).min(most).into();
    }
    if spec.get("minReplicas").and_then(Value::as_i64).is_some_and(|least| least < 0 || least > most) {
        return fault("spec.minReplicas", "must not be negative or more than maxReplicas");
    }
    Ok(())
}

pub(super) fn budget(plan: &Rendering<'_>) -> Value {
    json!({"metadata": plan.metadata([], []), "spec": {"selector": {"matchLabels": plan.selector()}}})
}

/// One at a time, if nothing else is said.
pub(super) fn complete_budget(plan: &Rendering<'_>, object: &mut Value) -> Result<(), Fault> {
    let fault = |path: &str, message: &str| Err(plan.overlaid(Overlaid::PodDisruptionBudget, path, message));
    let spec = &mut object["spec"];
    if spec["selector"] != json!({"matchLabels": plan.selector()}) {
        return fault("spec.selector", "must be that of the proxies; remove it");
    }
    match (spec.get("minAvailable").is_some(), spec.get("maxUnavailable").is_some()) {
        (true, true) => fault("spec.maxUnavailable", "cannot stand beside minAvailable; remove one of them"),
        (false, false) => {
            spec["maxUnavailable"] = 1.into();
            Ok(())
        }
        _ => Ok(()),
    }
}

pub(super) fn vertical(plan: &Rendering<'_>) -> Value {
    json!({"metadata": plan.metadata([], []), "spec": {"targetRef": target(plan)}})
}

/// Pods of others are not to be scaled by it.
pub(super) fn check_vertical(plan: &Rendering<'_>, object: &Value) -> Result<(), Fault> {
    if object["spec"]["targetRef"] != target(plan) {
        let message = "must be the Deployment of the proxies; remove it";
        return Err(plan.overlaid(Overlaid::VerticalPodAutoscaler, "spec.targetRef", message));
    }
    Ok(())
}
