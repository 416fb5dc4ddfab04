//! GatewayParameters of whoever may write them in a namespace: they reach no node, no Secret and no account of others.

use anyhow::{Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Service;
use kube::Api;
use kube::api::PostParams;
use portcullis_tests::api_server::{ApiServer, loose_crd};
use portcullis_tests::wait::{TIMEOUT, eventually};
use serde_json::{Value, json};

use crate::deployed::{World, condition};

/// A controller in a server that has GatewayParameters.
async fn world() -> Result<World<'static>> {
    let server = ApiServer::shared().await?;
    server.apply(&loose_crd("gateway.kgateway.dev", "v1alpha1", "gatewayparameters", "GatewayParameters")).await?;
    World::deploying(server).await
}

/// GatewayParameters of this name.
fn parameters(name: &str, kube: &str) -> String {
    format!(
        "apiVersion: gateway.kgateway.dev/v1alpha1\n\
         kind: GatewayParameters\n\
         metadata: {{name: {name}}}\n\
         spec: {{kube: {kube}}}\n"
    )
}

/// A Gateway that names GatewayParameters of the same name.
fn gateway(world: &World<'_>, name: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\n\
         kind: Gateway\n\
         metadata: {{name: {name}}}\n\
         spec:\n\
         \x20 gatewayClassName: {}\n\
         \x20 infrastructure: {{parametersRef: {{group: gateway.kgateway.dev, kind: GatewayParameters, name: {name}}}}}\n\
         \x20 listeners: [{{name: http, port: 80, protocol: HTTP}}]\n",
        world.namespace
    )
}

/// Waits until a Gateway is refused for its parameters, with these words.
async fn is_told(world: &World<'_>, name: &str, words: &str) -> Result<()> {
    let told = |status: &Value| {
        let conditions = status["conditions"].as_array().into_iter().flatten();
        let accepted = conditions.into_iter().find(|condition| condition["type"] == "Accepted");
        accepted.is_some_and(|accepted| {
            let message = accepted["message"].as_str().unwrap_or_default();
            accepted["status"] == "False" && accepted["reason"] == "InvalidParameters" && message.contains(words)
        })
    };
    world.says("Gateway", name, told).await
}

/// By each door: the parameters, and the field that is told.
const ATTACKS: [(&str, &str); 8] = [
    ("{deploymentOverlay: {spec: {template: {spec: {hostPID: true}}}}}", "spec.template.spec.hostPID: "),
    (
        "{podTemplate: {extraVolumes: [{name: node, hostPath: {path: /}}]}}",
        "spec.kube.podTemplate.extraVolumes[name=\"node\"].hostPath: ",
    ),
    (
        "{podTemplate: {extraVolumes: [{name: keys, secret: {secretName: others}}]}}",
        "spec.kube.podTemplate.extraVolumes[name=\"keys\"].secret: ",
    ),
    (
        "{envoyContainer: {env: [{name: KEY, valueFrom: {secretKeyRef: {name: others, key: key}}}]}}",
        "spec.kube.envoyContainer.env[name=\"KEY\"].valueFrom.secretKeyRef: ",
    ),
    (
        "{deploymentOverlay: {spec: {template: {spec: {serviceAccountName: admin}}}}}",
        "spec.template.spec.serviceAccountName: ",
    ),
    (
        "{envoyContainer: {securityContext: {privileged: true}}}",
        "spec.kube.envoyContainer.securityContext.privileged: ",
    ),
    ("{podTemplate: {securityContext: {runAsUser: 0}}}", "spec.kube.podTemplate.securityContext.runAsUser: "),
    ("{serviceOverlay: {spec: {externalIPs: [192.0.2.9]}}}", "spec.kube.serviceOverlay.spec.externalIPs: "),
];

#[tokio::test(flavor = "multi_thread")]
async fn parameters_that_reach_for_what_is_others_change_nothing_that_runs_and_the_gateway_is_told() -> Result<()> {
    let world = world().await?;
    let client = world.api.client().await?;
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), &world.namespace);
    let services: Api<Service> = Api::namespaced(client, &world.namespace);
    let name = format!("edge-{}", world.namespace);
    let has = async |replicas: i32| {
        eventually(TIMEOUT, async || {
            let deployment = deployments.get(&name).await?;
            let spec = serde_json::to_value(deployment.spec)?;
            ensure!(spec["replicas"] == replicas, "{spec:#}\n{}", world.portcullis.log_tail());
            Ok((spec["template"].clone(), services.get(&name).await?.spec))
        })
        .await
    };
    world
        .apply(&parameters("edge", "{deployment: {replicas: 2}, podTemplate: {imagePullSecrets: [{name: pull}]}}"))
        .await?;
    world.apply(&gateway(&world, "edge")).await?;
    let before = has(2).await?;
    ensure!(before.0["spec"]["imagePullSecrets"] == json!([{"name": "pull"}]), "{:#}", before.0);
    for (attack, told) in ATTACKS {
        world.apply(&parameters("edge", attack)).await?;
        is_told(&world, "edge", told).await?;
    }
    // What runs went on, and who is told can mend it.
    world
        .apply(&parameters("edge", "{deployment: {replicas: 3}, podTemplate: {imagePullSecrets: [{name: pull}]}}"))
        .await?;
    ensure!(has(3).await? == before, "something of an attack is there");
    let accepted = |status: &Value| condition(&status["conditions"], "Accepted") == Some("True");
    world.says("Gateway", "edge", accepted).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_begins_with_such_parameters_gets_nothing_and_others_get_theirs() -> Result<()> {
    let world = world().await?;
    let deployments: Api<Deployment> = Api::namespaced(world.api.client().await?, &world.namespace);
    for (index, (attack, told)) in ATTACKS.into_iter().enumerate() {
        let name = format!("attack-{index}");
        world.apply(&parameters(&name, attack)).await?;
        world.apply(&gateway(&world, &name)).await?;
        is_told(&world, &name, told).await?;
    }
    world.apply_gateway("victim").await?;
    let victim = format!("victim-{}", world.namespace);
    eventually(TIMEOUT, async || deployments.get(&victim).await).await?;
    let made = deployments.list(&kube::api::ListParams::default()).await?;
    let made: Vec<_> = made.items.into_iter().filter_map(|deployment| deployment.metadata.name).collect();
    ensure!(made == [victim], "{made:?}");
    Ok(())
}

/// What the judgement leaves passes the standard by which Kubernetes itself judges pods.
#[tokio::test(flavor = "multi_thread")]
async fn pods_of_restricted_parameters_pass_the_restricted_standard_of_kubernetes() -> Result<()> {
    use k8s_openapi::api::core::v1::Pod;
    let world = world().await?;
    let side =
        "{name: side, image: a, securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}";
    let kube = format!(
        "{{omitDefaultSecurityContext: true, podTemplate: {{securityContext: {{runAsNonRoot: true, seccompProfile: {{type: \
         RuntimeDefault}}}}, extraVolumes: [{{name: a, emptyDir: {{}}}}, {{name: b, configMap: {{name: c}}}}]}}, \
         envoyContainer: {{securityContext: {{allowPrivilegeEscalation: false, capabilities: {{drop: [ALL]}}}}}}, \
         deploymentOverlay: {{spec: {{template: {{spec: {{containers: [{side}], initContainers: [{side2}]}}}}}}}}}}",
        side2 = side.replace("side", "before")
    );
    world.apply(&parameters("edge", &kube)).await?;
    world.apply(&gateway(&world, "edge")).await?;
    let client = world.api.client().await?;
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), &world.namespace);
    let name = format!("edge-{}", world.namespace);
    let made = eventually(TIMEOUT, async || deployments.get(&name).await).await?;
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(client.clone());
    let label = json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}});
    namespaces.patch(&world.namespace, &kube::api::PatchParams::default(), &kube::api::Patch::Merge(label)).await?;
    let template = made.spec.map(|spec| spec.template).unwrap_or_default();
    let pod = Pod { spec: template.spec, ..Pod::default() };
    let pod = Pod { metadata: kube::api::ObjectMeta { name: Some("one".into()), ..Default::default() }, ..pod };
    let pods: Api<Pod> = Api::namespaced(client, &world.namespace);
    // The label is known to the API server a moment later than to us.
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let root = Pod {
        spec: pod.spec.clone().map(|spec| k8s_openapi::api::core::v1::PodSpec { host_pid: Some(true), ..spec }),
        ..pod.clone()
    };
    eventually(TIMEOUT, async || {
        let refused = pods.create(&dry, &root).await;
        ensure!(
            refused.is_err_and(|error| error.to_string().contains("violates PodSecurity")),
            "the label is not in force"
        );
        Ok(())
    })
    .await?;
    pods.create(&dry, &pod).await?;
    Ok(())
}
