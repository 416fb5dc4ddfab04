//! HTTP/2 floods against a proxy and against the controller: they end, or cost next to nothing, and others are served.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, ensure};
use portcullis_tests::client::{Connection, Protocol, Request, Target};
use portcullis_tests::process::memory;
use serde_json::{Value, json};
use tokio::task::{JoinHandle, JoinSet};
use worlds::tenant::{HEALTHY, OWNED_HOST};

use crate::estate::Estate;
use crate::frames::{End, Flood, flood};

/// How many connections each kind of flood has.
const CONNECTIONS: usize = 2;

/// More than a flooded program may take for all of them, in bytes.
const GROWTH: u64 = 64 << 20;

/// A client of a victim that asks all the time, on one connection.
fn victim(port: u16, stop: &Arc<AtomicBool>) -> JoinHandle<Result<usize>> {
    let (stop, target) = (Arc::clone(stop), Target { protocol: Protocol::H2, ..Target::local(port) });
    tokio::spawn(async move {
        let mut connection = Connection::open(&target).await?;
        let mut served = 0;
        while !stop.load(Ordering::Relaxed) {
            let answer = connection.send(&Request::get(OWNED_HOST, HEALTHY)).await?;
            ensure!(answer.status == 200, "request {served}: {} {}", answer.status, answer.body);
            served += 1;
        }
        Ok(served)
    })
}

/// Each kind of flood, and how its connections ended.
async fn floods(port: u16) -> Result<Vec<(Flood, End)>> {
    let mut running = JoinSet::new();
    for kind in Flood::ALL {
        for _ in 0..CONNECTIONS {
            running.spawn(async move { (kind, flood(kind, port, "flood.test").await) });
        }
    }
    let mut ends = Vec::new();
    while let Some(done) = running.join_next().await {
        let (kind, end) = done?;
        ends.push((kind, end?));
    }
    Ok(ends)
}

/// What an Envoy has allocated right now, in KiB.
async fn allocated(estate: &Estate) -> Result<u64> {
    let memory: Value = serde_json::from_str(&estate.envoy.admin("/memory").await?.body)?;
    let bytes: u64 = memory["allocated"].as_str().context("no memory")?.parse()?;
    Ok(bytes >> 10)
}

#[tokio::test(flavor = "multi_thread")]
async fn floods_of_frames_at_a_proxy_are_cut_and_a_victim_on_another_connection_is_served() -> Result<()> {
    let mut estate = Estate::start().await?;
    let before = allocated(&estate).await?;
    let stop = Arc::new(AtomicBool::new(false));
    let port = estate.place.http;
    let client = victim(port, &stop);
    let mut running = tokio::spawn(async move { floods(port).await });
    let mut most = before;
    let ends = loop {
        most = most.max(allocated(&estate).await?);
        if running.is_finished() {
            break (&mut running).await??;
        }
    };
    stop.store(true, Ordering::Relaxed);
    let served = client.await?.context("a victim beside the floods")?;
    println!("{ends:?}, {served} requests of the victim, {before} KiB before, {most} KiB at most");
    ensure!(served > 0, "nobody was served");
    let endured: Vec<_> = ends.iter().filter(|(_, end)| *end == End::Endured).collect();
    ensure!(endured.is_empty(), "not cut: {endured:?}");
    ensure!(most < before + GROWTH, "{before} KiB were allocated, and {most} KiB meanwhile");
    estate.is_unharmed().await
}

#[tokio::test(flavor = "multi_thread")]
async fn floods_of_frames_at_the_controller_hold_up_no_proxy() -> Result<()> {
    let mut estate = Estate::start().await?;
    let id = estate.portcullis.id().context("it has ended")?;
    let before = memory(id)?.resident;
    let port = estate.portcullis.xds_address().port();
    let mut running = tokio::spawn(async move { floods(port).await });
    let mut changes = 0;
    let ends = loop {
        changes += 1;
        let route = json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
            "metadata": {"name": "r0", "namespace": "evil"},
            "spec": {"parentRefs": [{"name": "shared", "namespace": "infra", "sectionName": "rest"}],
                "hostnames": [format!("h{changes}.test")]},
        });
        estate.written("tenant.json", &[route]).await.context("a change beside the floods")?;
        ensure!(estate.portcullis.admin("/healthz").await?.status == 200, "it is not alive");
        if running.is_finished() {
            break (&mut running).await??;
        }
    };
    let after = memory(id)?.resident;
    println!("{ends:?}, {changes} changes meanwhile, {before} KiB before, {after} KiB after");
    ensure!(after < before + GROWTH, "{before} bytes were resident, {after} are");
    let stats = estate.envoy.stats().await?;
    let connections = stats.get("cluster.xds.upstream_cx_total");
    ensure!(connections == Some(&1), "the proxy lost its stream: {connections:?} connections");
    estate.is_unharmed().await
}
