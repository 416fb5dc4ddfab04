//! Policies that name a Gateway of others as their target.

use anyhow::Result;

use crate::stage::Stage;

/// A TrafficPolicy of the tenant's namespace.
fn policy(name: &str, targets: &str, spec: &str) -> String {
    format!(
        "apiVersion: gateway.kgateway.dev/v1alpha1\n\
         kind: TrafficPolicy\n\
         metadata: {{namespace: evil, name: {name}}}\n\
         spec:\n  {targets}\n  {spec}\n---\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_of_another_namespace_reaches_no_gateway_and_no_listener() -> Result<()> {
    let group = "group: gateway.networking.k8s.io, kind: Gateway";
    let targets = [
        format!("targetRefs: [{{{group}, name: gateway}}]"),
        format!("targetRefs: [{{{group}, name: gateway, sectionName: https}}]"),
        format!("targetSelectors: [{{{group}, matchLabels: {{}}}}]"),
    ];
    let specs =
        ["buffer: {maxRequestSize: 1}", "timeouts: {request: 1ms}", "buffer: {maxRequestSize: 0}", "extAuth: {}"];
    let mut stage = Stage::start().await?;
    let mut policies = String::new();
    for (number, spec) in specs.iter().enumerate() {
        for (place, targets) in targets.iter().enumerate() {
            policies += &policy(&format!("p{number}-{place}"), targets, spec);
        }
    }
    stage.write(&policies).await?;
    stage.status("{object: Gateway infra/gateway, conditions: {Accepted: \"True\"}}").await?;
    stage.is_unharmed().await
}
