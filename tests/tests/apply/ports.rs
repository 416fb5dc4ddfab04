//! Ports of a Service that a real API server refuses.

use anyhow::{Result, ensure};
use cluster::apply::Labels;
use ir::backend::Transport;
use k8s_openapi::api::{
    admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding},
    core::v1::Service,
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use portcullis_tests::wait::{TIMEOUT, eventually};
use serde_json::json;

use super::{Scene, port};

/// Has the API server refuse Services of a namespace that have one of these ports.
pub(crate) async fn refuse_ports(client: &Client, namespace: &str, ports: &[u16]) -> Result<()> {
    let expression = format!("!object.spec.ports.exists(port, port.port in {ports:?})");
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": namespace},
        "spec": {
            "matchConstraints": {"resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["services"]},
            ]},
            "validations": [{"expression": expression, "message": "such ports are not for Services"}],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": namespace},
        "spec": {
            "policyName": namespace, "validationActions": ["Deny"],
            "matchResources": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}},
        },
    });
    let parameters = PatchParams::apply("test").force();
    let policies = Api::<ValidatingAdmissionPolicy>::all(client.clone());
    policies.patch(namespace, &parameters, &Patch::Apply(&policy)).await?;
    let bindings = Api::<ValidatingAdmissionPolicyBinding>::all(client.clone());
    bindings.patch(namespace, &parameters, &Patch::Apply(&binding)).await?;
    // It holds a moment later.
    let probe = json!({"metadata": {"name": "probe"}, "spec": {"ports": [{"port": ports.first()}]}});
    let services = Api::<Service>::namespaced(client.clone(), namespace);
    eventually(TIMEOUT, async || {
        let parameters = PostParams { dry_run: true, ..PostParams::default() };
        let answer = services.create(&parameters, &serde_json::from_value(probe.clone())?).await;
        ensure!(answer.is_err(), "a Service with such a port is taken");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_service_goes_without_those_optional_ports_that_the_api_server_refuses_and_keeps_all_others() -> Result<()> {
    let scene = Scene::new().await?;
    let port = |number: u16, optional: bool| deploy::Port { optional, ..port("", number) };
    let with = |more: &[u16]| {
        let ports = [80].map(|own| port(own, false)).into_iter().chain(more.iter().map(|more| port(*more, true)));
        deploy::Plan { ports: ports.collect(), ..scene.plan() }
    };
    let has = async |wanted: &[i32]| {
        let ports = scene.get::<Service>().await?.spec.unwrap_or_default().ports.unwrap_or_default();
        let ports: Vec<_> = ports.iter().map(|port| port.port).collect();
        ensure!(ports == wanted, "{ports:?} for {wanted:?}");
        anyhow::Ok(())
    };
    scene.desire(&with(&[8000]))?;
    scene.settled().await?;
    has(&[80, 8000]).await?;
    refuse_ports(&scene.client, &scene.namespace, &[8443, 9999]).await?;
    scene.desire(&with(&[8000, 8001, 8443, 8444, 9999]))?;
    let failures = scene.failures(2).await?;
    for (failure, port) in failures.iter().zip([8443, 9999]) {
        ensure!(failure.message.contains("such ports are not for Services"), "{failure:?}");
        ensure!(failure.port == Some((port, Transport::Tcp)), "{failure:?}");
    }
    has(&[80, 8000, 8001, 8444]).await?;
    // What is refused is tried again and again, and nothing is applied for it.
    let version = async || anyhow::Ok(scene.get::<Service>().await?.metadata.resource_version);
    let before = version().await?;
    let tries = || scene.metrics.applies.get_or_create(&Labels { kind: "Service", result: "refused" }).get();
    let seen = tries();
    eventually(TIMEOUT, async || {
        ensure!(tries() > seen, "it is not tried again");
        Ok(())
    })
    .await?;
    ensure!(version().await? == before, "the Service was written");
    // A port of the Gateway's own is told of all of it.
    scene.desire(&deploy::Plan { ports: vec![port(9999, false), port(8443, true)], ..scene.plan() })?;
    let messages = scene.reported(1).await?;
    ensure!(messages[0].contains("such ports are not for Services"), "{messages:?}");
    has(&[80, 8000, 8001, 8444]).await?;
    scene.desire(&with(&[8000]))?;
    scene.reported(0).await?;
    has(&[80, 8000]).await
}
