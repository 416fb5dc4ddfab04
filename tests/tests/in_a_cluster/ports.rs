//! Ports that ListenerSets ask for and nobody reaches by the Gateway's Service.

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use portcullis_tests::{
    api_server::ApiServer,
    wait::{TIMEOUT, eventually},
};
use serde_json::{Value, json};

use super::world::{World, condition};
use crate::apply::ports::refuse_ports;

const GATEWAY: &str = "apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: edge}
spec:
  gatewayClassName: CLASS
  allowedListeners: {namespaces: {from: Same}}
  listeners: [{name: own, port: 80, protocol: HTTP}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: ListenerSet
metadata: {name: guest}
spec:
  parentRef: {name: edge}
  listeners:
  - {name: refused, port: 8443, protocol: TCP}
  - {name: unserved, port: 8444, protocol: TCP}
  - {name: good, port: 8445, protocol: TCP}
";

/// The condition of a listener in a status, as its status, reason and message.
fn of_listener(status: &Value, listener: &str, r#type: &str) -> String {
    let listeners = status["listeners"].as_array().into_iter().flatten();
    let conditions =
        listeners.filter(|entry| entry["name"] == listener).filter_map(|entry| entry["conditions"].as_array());
    let condition = conditions.flatten().find(|condition| condition["type"] == r#type);
    let said = |field: &str| condition.and_then(|condition| condition[field].as_str()).unwrap_or_default();
    format!("{} {}: {}", said("status"), said("reason"), said("message"))
}

/// Plays the part of Kubernetes' own controllers: a pod is ready, and the load balancer has an address, which serves all ports but these.
async fn run(world: &World<'_>, unserved: &[u16]) -> Result<()> {
    let (client, name) = (world.api.client().await?, format!("edge-{}", world.namespace));
    let services: Api<Service> = Api::namespaced(client.clone(), &world.namespace);
    let deployments: Api<Deployment> = Api::namespaced(client, &world.namespace);
    let manager = PatchParams { field_manager: Some("kube-controller-manager".to_owned()), ..PatchParams::default() };
    let ready = json!({"status": {"replicas": 1, "readyReplicas": 1, "availableReplicas": 1}});
    eventually(TIMEOUT, async || deployments.patch_status(&name, &manager, &Patch::Merge(&ready)).await).await?;
    let port = |port: &u16| json!({"port": port, "protocol": "TCP", "error": "PortNotSupported"});
    let ports: Vec<_> = unserved.iter().map(port).collect();
    let balanced = json!({"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1", "ports": ports}]}}});
    eventually(TIMEOUT, async || services.patch_status(&name, &manager, &Patch::Merge(&balanced)).await).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_kubernetes_or_the_load_balancer_refuses_is_told_to_the_guest_who_asks_and_costs_nobody_else_his()
-> Result<()> {
    let server = ApiServer::shared().await?;
    let mut world = World::deploying(server).await?;
    refuse_ports(&server.client().await?, &world.namespace, &[8443]).await?;
    world.apply(&GATEWAY.replace("CLASS", &world.namespace)).await?;
    run(&world, &[8444]).await?;
    world
        .says("ListenerSet", "guest", |status| {
            let programmed = |listener| of_listener(status, listener, "Programmed");
            let [refused, unserved] = ["refused", "unserved"].map(programmed);
            refused.starts_with("False PortUnavailable: ")
                && refused.contains("port 8443")
                && !refused.contains("such ports")
                && unserved.starts_with("False PortUnavailable: ")
                && unserved.contains("port 8444")
                && programmed("good").starts_with("True Programmed")
                && condition(&status["conditions"], "Programmed") == Some("True")
        })
        .await?;
    world
        .says("Gateway", "edge", |status| {
            let accepted = status["conditions"].as_array().into_iter().flatten().find(|it| it["type"] == "Accepted");
            let words = accepted.and_then(|accepted| accepted["message"].as_str()).unwrap_or_default();
            condition(&status["conditions"], "Accepted") == Some("True")
                && words.contains("such ports are not for Services")
                && condition(&status["conditions"], "Programmed") == Some("True")
                && of_listener(status, "own", "Programmed").starts_with("True")
        })
        .await?;
    let services: Api<Service> = Api::namespaced(server.client().await?, &world.namespace);
    let name = format!("edge-{}", world.namespace);
    let service = services.get(&name).await?.spec.context("a spec")?;
    let mut ports: Vec<_> = service.ports.into_iter().flatten().map(|port| port.port).collect();
    ports.sort_unstable();
    ensure!(ports == [80, 8444, 8445], "{ports:?}");

    // Once the load balancer serves it, its listener says so.
    run(&world, &[]).await?;
    let served = |status: &Value| of_listener(status, "unserved", "Programmed").starts_with("True Programmed");
    world.says("ListenerSet", "guest", served).await?;
    world.portcullis.check()
}
