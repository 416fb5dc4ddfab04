//! Several controllers: all serve the same, one writes.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use http::Method;
use kube::api::{Patch, PatchParams};
use portcullis_tests::api_server::ApiServer;
use portcullis_tests::envoy::Envoy;
use portcullis_tests::wait::{TIMEOUT, eventually};
use serde_json::json;

use super::ads::{self, Delta, Known};
use super::objects::route;
use super::switch::Switch;
use super::world::{Replica, World};

/// The metric that says whether the replica leads.
const LEADS: &str = "portcullis_leader";

/// How often a replica wrote a status of an object that is called so; of any object if it is empty.
fn writes(replica: &Replica, name: &str) -> usize {
    let exchanges = replica.way.exchanges();
    let of = |path: &str| path.contains(&format!("/{name}")) && path.contains("/status?");
    exchanges.iter().filter(|exchange| exchange.method == Method::PATCH && of(&exchange.path)).count()
}

/// Passes once one of the replicas has written the status of that object, and no other has. What was written is seen before the answer
/// is on its way back, where it is counted.
async fn one_writes(replicas: &[&Replica], name: &str) -> Result<()> {
    let all = || replicas.iter().map(|replica| writes(replica, name)).collect::<Vec<_>>();
    eventually(TIMEOUT, async || {
        ensure!(all().iter().any(|count| *count > 0), "nobody writes {name}");
        anyhow::Ok(())
    })
    .await?;
    ensure!(all().iter().sum::<usize>() == 1, "{:?} writes", all());
    Ok(())
}

async fn holder(world: &World<'_>) -> Result<Option<String>> {
    let lease = world.objects("Lease").await?.get("portcullis").await?;
    Ok(lease.data["spec"]["holderIdentity"].as_str().map(str::to_owned))
}

/// How often Envoy took something over, by whatever it takes over.
async fn updates(envoy: &Envoy) -> Result<BTreeMap<String, u64>> {
    let stats = envoy.stats().await?.into_iter();
    Ok(stats.filter(|(name, _)| name.ends_with(".update_success") && !name.contains("sds")).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_moves_to_another_replica_is_sent_nothing_that_it_has() -> Result<()> {
    let mut world = World::new(ApiServer::shared().await?).await?;
    let edge = world.edge().await?;
    let second = world.another("second").await?;
    let gateway = format!("{}/edge", world.name);
    let token = world.token("edge").await?;
    let [here, there] = [&world.replica, &second].map(|replica| replica.portcullis.xds_address());
    // A replica does not have to have read what another one has: it is asked until it serves the same.
    eventually(TIMEOUT, async || {
        let (first, second) = (world.replica.portcullis.snapshot().await?, second.portcullis.snapshot().await?);
        ensure!(first == second, "{first:#} is not {second:#}");
        anyhow::Ok(())
    })
    .await?;
    let wanted = ads::wanted(&world.replica.portcullis.snapshot().await?, &gateway)?;

    let mut first = Delta::open(here, &gateway, &token, &wanted, Known::new()).await?;
    first.take_all(&wanted).await?;
    let mut other = Delta::open(there, &gateway, &token, &wanted, Known::new()).await?;
    other.take_all(&wanted).await?;
    ensure!(first.known == other.known, "{:?} is not {:?}", first.known, other.known);
    let (whole, other) =
        (ads::whole(here, &gateway, &token, &wanted).await?, ads::whole(there, &gateway, &token, &wanted).await?);
    ensure!(whole == other, "{whole:?} is not {other:?}");

    let mut moved = Delta::open(there, &gateway, &token, &wanted, first.known).await?;
    let before = moved.known.clone();
    world.apply(&route("more", "edge", "healthy", 80)).await?;
    let mut sent = Vec::new();
    while moved.known == before {
        sent.extend(moved.take().await?);
    }
    let (_, routes) = wanted.last().context("routes are last")?;
    ensure!(sent.iter().all(|name| routes.contains(name)), "it was sent {sent:?}");
    world.is_unharmed(edge).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_is_ended_hands_over_its_proxies_and_its_lease() -> Result<()> {
    let mut world = World::new(ApiServer::shared().await?).await?;
    world.replica.counts(LEADS, |leads| leads > 0.0).await?;
    let switch = Switch::start(world.replica.portcullis.xds_address()).await?;
    let edge = world.edge_asking(switch.address).await?;
    world.says("HTTPRoute", "healthy", "Accepted", "True").await?;
    world.says("Gateway", "edge", "Programmed", "True").await?;
    let second = world.another("second").await?;
    ensure!(holder(&world).await?.as_deref() == Some("first"));
    let before = updates(&edge.proxy.envoy).await?;
    ensure!(!before.is_empty(), "Envoy took nothing over");

    // As with a Service: who ends is taken out of it, and what is there goes on until then.
    switch.turn(second.portcullis.xds_address());
    let ended = world.replica.portcullis.terminate().await?;
    ensure!(ended.success(), "{ended}\n{}", world.replica.portcullis.log_tail());
    ensure!(holder(&world).await?.as_deref() != Some("first"), "the Lease was not given back");
    let first = std::mem::replace(&mut world.replica, second);
    world.replica.counts("portcullis_xds_streams", |streams| streams > 0.0).await?;
    world.replica.counts(LEADS, |leads| leads > 0.0).await?;
    ensure!(writes(&first, "") > 0, "nobody wrote");
    ensure!(writes(&world.replica, "") == 0, "what was written is written again");

    world.apply(&route("more", "edge", "healthy", 80)).await?;
    edge.proxy.answers("/more", 200).await?;
    world.says("HTTPRoute", "more", "Accepted", "True").await?;
    one_writes(&[&world.replica], "more").await?;
    // One update, of the routes: whatever was sent on the way here was in it.
    let after = updates(&edge.proxy.envoy).await?;
    let turned: Vec<_> = after.iter().filter(|(name, count)| before.get(*name) != Some(count)).collect();
    ensure!(turned.len() == 1 && turned[0].0.contains(".rds."), "{turned:?}, before {before:?}");
    world.is_unharmed(edge).await
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_loses_the_lease_drops_no_stream_and_one_writes_what_is_to_be_written() -> Result<()> {
    let mut world = World::new(ApiServer::shared().await?).await?;
    world.replica.counts(LEADS, |leads| leads > 0.0).await?;
    let edge = world.edge().await?;
    let second = world.another("second").await?;
    let leases = world.objects("Lease").await?;
    let held = |by: Option<&str>| Patch::Merge(json!({"spec": {"holderIdentity": by, "leaseDurationSeconds": 3600}}));
    leases.patch("portcullis", &PatchParams::default(), &held(Some("thief"))).await?;
    world.replica.counts(LEADS, |leads| leads < 1.0).await?;

    world.apply(&route("more", "edge", "healthy", 80)).await?;
    edge.proxy.answers("/more", 200).await?;
    for replica in [&world.replica, &second] {
        ensure!(writes(replica, "more") == 0, "it writes without leading");
    }
    leases.patch("portcullis", &PatchParams::default(), &held(None)).await?;
    world.says("HTTPRoute", "more", "Accepted", "True").await?;
    one_writes(&[&world.replica, &second], "more").await?;

    let stats = edge.proxy.envoy.stats().await?;
    let connections = stats.get("cluster.xds.upstream_cx_total");
    ensure!(connections == Some(&1), "{connections:?} connections were needed");
    world.is_unharmed(edge).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_crashes_while_nobody_answers_takes_nothing_from_its_proxies() -> Result<()> {
    let mut world = World::new(ApiServer::shared().await?).await?;
    world.replica.counts(LEADS, |leads| leads > 0.0).await?;
    let edge = world.edge().await?;
    world.says("HTTPRoute", "healthy", "Accepted", "True").await?;
    world.says("Gateway", "edge", "Programmed", "True").await?;
    let before = updates(&edge.proxy.envoy).await?;

    world.replica.way.refuse(500, None);
    world.replica.portcullis.crash().await?;
    // It lives, its proxies ask it, and it knows nothing to say.
    eventually(TIMEOUT, async || {
        let alive = world.replica.portcullis.admin("/healthz").await?;
        let ready = world.replica.portcullis.admin("/readyz").await?;
        ensure!(alive.status == 200 && ready.status == 503, "{} {}", alive.status, ready.status);
        let asked = world.replica.way.exchanges().iter().filter(|exchange| exchange.status == 500).count();
        ensure!(asked > 20, "{asked} answers with 500");
        anyhow::Ok(())
    })
    .await?;
    ensure!(updates(&edge.proxy.envoy).await? == before, "it was sent something");
    edge.proxy.answers("/healthy", 200).await?;
    let written = writes(&world.replica, "");

    world.replica.way.pass();
    world.replica.portcullis.wait_until_ready().await?;
    world.replica.counts("portcullis_xds_streams", |streams| streams > 0.0).await?;
    world.replica.counts(LEADS, |leads| leads > 0.0).await?;
    world.apply(&route("more", "edge", "healthy", 80)).await?;
    edge.proxy.answers("/more", 200).await?;
    world.says("HTTPRoute", "more", "Accepted", "True").await?;
    let after = updates(&edge.proxy.envoy).await?;
    let turned: Vec<_> = after.iter().filter(|(name, count)| before.get(*name) != Some(count)).collect();
    ensure!(turned.len() == 1 && turned[0].0.contains(".rds."), "{turned:?}, before {before:?}");
    // The new route, and the count of routes of its listener.
    let more = writes(&world.replica, "") - written;
    ensure!(more <= 2, "{more} statuses were written");
    world.is_unharmed(edge).await
}
