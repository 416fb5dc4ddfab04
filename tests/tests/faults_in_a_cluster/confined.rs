//! The rights that the chart gives: they are enough, whatever the controller does, and it asks for nothing else.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use http::Method;
use kube::api::DeleteParams;
use portcullis_tests::api_server::{ApiServer, Verdict};
use portcullis_tests::ports::free_port;
use portcullis_tests::wait::TIMEOUT;
use serde_json::json;

use super::objects::{gateway, http, route};
use super::release::Release;
use super::world::{Replica, World};

/// What runs the proxies of a Gateway.
const PROXIES: [&str; 4] = ["Deployment", "Service", "ServiceAccount", "ConfigMap"];

/// Everything that was asked for was granted.
fn granted(replica: &Replica) -> Result<()> {
    let exchanges = replica.way.exchanges();
    let refused: BTreeSet<_> = exchanges
        .iter()
        .filter(|exchange| matches!(exchange.status, 401 | 403))
        .map(|exchange| format!("{} {} {}", exchange.status, exchange.method, exchange.path))
        .collect();
    ensure!(refused.is_empty(), "{refused:#?}");
    let log = replica.portcullis.log();
    // Definitions that are not installed are no failure either.
    let trouble = ["forbidden", "cannot be watched"];
    let troubled = |line: &&str| trouble.iter().any(|words| line.to_lowercase().contains(words));
    let lines: Vec<_> = log.lines().filter(troubled).collect();
    ensure!(lines.is_empty(), "{lines:#?}");
    Ok(())
}

/// The namespaces in which something was asked for; empty for the whole cluster, with what was asked for there.
fn asked(replica: &Replica) -> BTreeSet<(String, String)> {
    let exchanges = replica.way.exchanges();
    let places = exchanges.iter().map(|exchange| {
        let path = exchange.path.split('?').next().unwrap_or_default();
        match path.split_once("/namespaces/") {
            Some((_, rest)) => (rest.split('/').next().unwrap_or_default().to_owned(), String::new()),
            None => (String::new(), path.rsplit('/').next().unwrap_or_default().to_owned()),
        }
    });
    places.collect()
}

/// Waits until there is an object, or none.
async fn is_there(world: &World<'_>, namespace: &str, kind: &str, name: &str, there: bool) -> Result<()> {
    let objects = world.objects_in(namespace, kind).await?;
    let awaited = world.api.wait_for(&objects, name, TIMEOUT, |found| found.is_some() == there).await;
    awaited.with_context(|| format!("{kind} {name}, log: {}", world.replica.portcullis.log_tail()))?;
    Ok(())
}

/// Does everything that a controller does, of which a part is seldom done.
async fn all_its_work(world: &mut World<'_>) -> Result<()> {
    let home = world.class.clone();
    let edge = world.edge().await?;
    world.says("GatewayClass", &home, "Accepted", "True").await?;
    world.says("Gateway", "edge", "Accepted", "True").await?;
    world.says("HTTPRoute", "healthy", "Accepted", "True").await?;
    let proxies = world.account("edge");
    for kind in PROXIES {
        is_there(world, &world.name, kind, &proxies, true).await?;
    }
    world.is_unharmed(edge).await?;

    // Its Lease comes back, and it takes over what a process before it made.
    world.objects_in(&home, "Lease").await?.delete("portcullis", &DeleteParams::default()).await?;
    is_there(world, &home, "Lease", "portcullis", true).await?;
    world.replica.portcullis.restart().await?;
    world.replica.counts("portcullis_leader", |leads| leads > 0.0).await?;
    world.delete("Gateway", "edge").await?;
    for kind in PROXIES {
        is_there(world, &world.name, kind, &proxies, false).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_of_named_namespaces_does_all_its_work_there_and_asks_for_nothing_else() -> Result<()> {
    let api = ApiServer::shared().await?;
    let (named, other) = (api.namespace().await?, api.namespace().await?);
    let release = Release::install(api, &[&named]).await?;
    let outside = [gateway("edge", &release.home, &[http(free_port()?)]), route("outside", "edge", "healthy", 80)];
    api.apply_in(&other, &outside.join("---\n")).await?;
    let mut world = release.start(&named).await?;
    all_its_work(&mut world).await?;

    granted(&world.replica)?;
    let asked = asked(&world.replica);
    let namespaces: BTreeSet<_> = asked.iter().map(|(namespace, _)| &**namespace).collect();
    ensure!(namespaces == BTreeSet::from(["", &*named, &*release.home]), "{namespaces:?}");
    let of_cluster: BTreeSet<_> =
        asked.iter().filter(|(namespace, _)| namespace.is_empty()).map(|(_, what)| &**what).collect();
    // The last is asked about what an API server has: anybody may know.
    let expected = ["customresourcedefinitions", "gatewayclasses", "namespaces", "status", "tokenreviews", "v1"];
    ensure!(of_cluster == expected.into_iter().collect(), "{of_cluster:?}");
    for (kind, name) in [("Gateway", "edge"), ("HTTPRoute", "outside")] {
        let object = world.objects_in(&other, kind).await?.get(name).await?;
        ensure!(object.metadata.managed_fields.is_some_and(|fields| fields.len() == 1), "somebody wrote {kind} {name}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_of_all_namespaces_does_all_its_work_with_its_own_rights() -> Result<()> {
    let api = ApiServer::shared().await?;
    let (one, other) = (api.namespace().await?, api.namespace().await?);
    let release = Release::install(api, &[]).await?;
    let there = [gateway("there", &release.home, &[http(free_port()?)]), route("there", "there", "healthy", 80)];
    api.apply_in(&other, &there.join("---\n")).await?;
    let mut world = release.start(&one).await?;
    all_its_work(&mut world).await?;
    is_there(&world, &other, "Deployment", &world.account("there"), true).await?;
    granted(&world.replica)
}

/// An object that a controller has made for a Gateway that is gone. It looks for such when it begins to lead.
fn left_over(class: &str) -> String {
    let gateway = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "name": "gone",
        "uid": "0f7ae0b6-0000-0000-0000-000000000000", "controller": true,
    });
    let left = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {
            "name": "left", "ownerReferences": [gateway],
            "labels": { "app.kubernetes.io/managed-by": "portcullis" },
            "annotations": { "gateway.portcullis.dev/controller": format!("portcullis.dev/{class}") },
        },
    });
    left.to_string()
}

/// The objects that run the proxies of Gateway `edge`, by what tells them from others of their name.
async fn proxies(world: &World<'_>) -> Result<Vec<Option<String>>> {
    let name = world.account("edge");
    let mut uids = Vec::new();
    for kind in PROXIES {
        is_there(world, &world.name, kind, &name, true).await?;
        uids.push(world.objects(kind).await?.get(&name).await?.metadata.uid);
    }
    Ok(uids)
}

#[tokio::test(flavor = "multi_thread")]
async fn two_controllers_in_one_cluster_leave_each_other_s_proxies_alone() -> Result<()> {
    let api = ApiServer::shared().await?;
    let namespace = api.namespace().await?;
    let (first, second) = (Release::install(api, &[]).await?, Release::install(api, &[]).await?);
    api.apply_in(&namespace, &gateway("edge", &first.home, &[http(free_port()?)])).await?;
    let world = first.start(&namespace).await?;
    let before = proxies(&world).await?;
    let left = left_over(&second.home);
    world.apply(&left).await?;
    let other = second.start(&namespace).await?;
    is_there(&other, &namespace, "ConfigMap", "left", false).await?;
    ensure!(proxies(&world).await? == before, "they were made again");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn proxies_of_a_class_that_is_deleted_outlive_the_controller_that_made_them() -> Result<()> {
    let api = ApiServer::shared().await?;
    let namespace = api.namespace().await?;
    let release = Release::install(api, &[]).await?;
    api.apply_in(&namespace, &gateway("edge", &release.home, &[http(free_port()?)])).await?;
    let mut world = release.start(&namespace).await?;
    let before = proxies(&world).await?;
    world.delete("GatewayClass", &release.home).await?;
    world.replica.is_ready_and_says("deleted: GatewayClass ").await?;
    world.apply(&left_over(&release.home)).await?;
    world.replica.portcullis.restart().await?;
    is_there(&world, &namespace, "ConfigMap", "left", false).await?;
    ensure!(proxies(&world).await? == before, "they were made again");
    // Whoever gives the Gateway up has them taken away.
    world.delete("Gateway", "edge").await?;
    for kind in PROXIES {
        is_there(&world, &namespace, kind, &world.account("edge"), false).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn proxies_that_cannot_be_made_are_told_on_their_gateway_and_made_once_they_can() -> Result<()> {
    let api = ApiServer::shared().await?;
    let namespace = api.namespace().await?;
    let release = Release::install(api, &[]).await?;
    let world = release.start(&namespace).await?;
    world.replica.way.judge(|method, path| {
        let refused = *method == Method::PATCH && path.contains("/deployments/");
        if refused { Verdict::Refuse { code: 403, retry_after: None } } else { Verdict::Pass }
    });
    world.apply(&gateway("edge", &release.home, &[http(free_port()?)])).await?;
    world.says("Gateway", "edge", "Programmed", "False NoResources").await?;
    // What could be made is there.
    is_there(&world, &namespace, "Service", &world.account("edge"), true).await?;
    world.replica.way.pass();
    is_there(&world, &namespace, "Deployment", &world.account("edge"), true).await?;
    // Nobody gives its Service an address here.
    world.says("Gateway", "edge", "Programmed", "False AddressNotAssigned").await
}
