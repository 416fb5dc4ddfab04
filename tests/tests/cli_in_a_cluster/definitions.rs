//! What the definitions of a cluster lack, and what they let through.

use anyhow::{Result, ensure};
use portcullis_tests::api_server::ApiServer;
use portcullis_tests::portcullis::Portcullis;
use portcullis_tests::process::root;
use portcullis_tests::wait::{TIMEOUT, eventually};
use serde_json::Value;

use super::world::{World, text};

/// What the report says of the definition of a kind.
async fn lacking(api: &ApiServer, kind: &str) -> Result<Option<Value>> {
    let kubeconfig = api.kubeconfig();
    let arguments = ["status", "--from", "api-server", "-o", "json", "--kubeconfig", &kubeconfig.to_string_lossy()];
    let told = text(&arguments).await?;
    ensure!(told.code < 2, "{told:?}");
    let report: Value = serde_json::from_str(&told.out)?;
    let all = report["definitions"].as_array().cloned().unwrap_or_default();
    Ok(all.into_iter().find(|lacking| lacking["kind"] == kind))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_experimental_channel_lacks_nothing_and_what_is_not_installed_is_told() -> Result<()> {
    let world = World::new().await?;
    for kind in ["GatewayClass", "Gateway", "HTTPRoute", "ReferenceGrant", "RewritePolicy", "DelegationPolicy"] {
        let lacking = lacking(world.api, kind).await?;
        ensure!(lacking.is_none(), "{kind}: {lacking:?}");
    }
    let absent = lacking(world.api, "TrafficPolicy").await?.unwrap_or_default();
    ensure!(absent["unserved"] == "it is not installed", "{absent}");
    ensure!(absent["remedy"].as_str().is_some_and(|remedy| remedy.contains("portcullis-crds")), "{absent}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_that_the_standard_channel_drops_are_told_with_what_to_do() -> Result<()> {
    let api = ApiServer::with_standard_crds().await?;
    api.apply(
        "
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: portcullis}
spec: {controllerName: portcullis.dev/gateway-controller}
",
    )
    .await?;
    let kubeconfig = api.kubeconfig();
    let arguments = ["status", "--from", "api-server", "--kubeconfig", &kubeconfig.to_string_lossy()];
    let told = text(&arguments).await?;
    ensure!(told.code == 0, "nothing is broken by it: {told:?}");
    let lines: Vec<_> = told.out.lines().collect();
    let begin = "CustomResourceDefinition httproutes.gateway.networking.k8s.io (v1.6.1, standard channel): an administrator of \
                 the cluster may act";
    let at = lines.iter().position(|line| *line == begin);
    ensure!(at.is_some(), "{}", told.out);
    let dropped = lines[at.unwrap_or_default() + 1];
    for part in [
        "dropped from every HTTPRoute",
        "spec.rules[].retry, ",
        "spec.rules[].sessionPersistence",
        "experimental-install.yaml",
    ] {
        ensure!(dropped.contains(part), "{part} in {dropped}");
    }
    ensure!(!dropped.contains("spec.rules[].matches") && !dropped.contains("retry."), "{dropped}");
    ensure!(lacking(&api, "GatewayClass").await?.is_none());

    // What is there is what counts: a definition of kgateway that is older than a field.
    let file = root().join("charts/portcullis-crds/files/gateway.kgateway.dev_directresponses.yaml");
    let mut old: Value = serde_saphyr::from_str(&std::fs::read_to_string(file)?)?;
    let spec = &mut old["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    spec["properties"].as_object_mut().map(|properties| properties.remove("bodyFormat"));
    spec.as_object_mut().map(|spec| spec.remove("x-kubernetes-validations"));
    api.apply(&serde_json::to_string(&old)?).await?;
    let lacks = lacking(&api, "DirectResponse").await?.unwrap_or_default();
    ensure!(lacks["fields"] == serde_json::json!(["spec.bodyFormat"]), "{lacks}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_only_a_loose_definition_lets_through_is_told_by_whoever_is_asked_until_it_is_mended() -> Result<()> {
    let api = ApiServer::loose().await?;
    let namespace = api.namespace().await?;
    let objects = |status: &str, sort_method: &str| {
        format!(
            "
apiVersion: gateway.kgateway.dev/v1alpha1
kind: DirectResponse
metadata: {{name: teapot}}
spec: {{status: {status}}}
---
apiVersion: gateway.portcullis.dev/v1alpha1
kind: DelegationPolicy
metadata: {{name: sorted}}
spec:
  targetRefs: [{{group: gateway.networking.k8s.io, kind: HTTPRoute, name: app}}]
  sortMethod: {sort_method}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: app}}
spec: {{}}
"
        )
    };
    api.apply_in(&namespace, &objects("[418]", "[1]")).await?;
    let kubeconfig = api.kubeconfig();
    let arguments = ["--deploy-proxies", "false", "--watch-namespaces", &namespace];
    let mut controller = Portcullis::start_in_cluster(&kubeconfig, &namespace, &arguments)?;
    controller.wait_until_ready().await?;
    controller.wait_until_fresh().await?;
    let address = controller.admin_address().to_string();
    let refused = "portcullis_problems{severity=\"refused\"}";
    for from in [["--from", "api-server"], ["--address", &address]] {
        let kubeconfig = kubeconfig.to_string_lossy();
        let told = text(&[&["status", "-n", &namespace, "--kubeconfig", &kubeconfig], &from[..]].concat()).await?;
        ensure!(told.code == 1, "{from:?} {told:?}");
        for part in [
            &format!("DirectResponse {namespace}/teapot: "),
            "it cannot be decoded: spec.status: must be a whole number, found a list (Invalid)",
            &format!("DelegationPolicy {namespace}/sorted: "),
            "spec.sortMethod: must be a string",
            "2 refused, ",
        ] {
            ensure!(told.out.contains(part), "{from:?}: {part} in {told:?}");
        }
    }
    ensure!(controller.metric(refused).await? == Some(2.0));

    api.apply_in(&namespace, &objects("418", "TableWeight")).await?;
    eventually(TIMEOUT, async || {
        ensure!(controller.metric(refused).await? == Some(0.0));
        anyhow::Ok(())
    })
    .await?;
    controller.check()
}
