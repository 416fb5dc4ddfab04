//! More changes than anybody could ask for.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::{Patch, PatchParams};
use portcullis_tests::api_server::ApiServer;
use portcullis_tests::echo::Echo;
use portcullis_tests::process::memory;
use portcullis_tests::wait::{TIMEOUT, eventually};
use serde_json::json;
use tokio::task::JoinSet;

use super::objects::{route, service, slice};
use super::world::{World, backend};

const SLICES: usize = 10;
const CHANGES: usize = 300;

/// More than the controller may take for them, in bytes.
const GROWTH: u64 = 64 << 20;

/// Changes a slice again and again, and has it empty, or with this endpoint alone, at the end.
async fn change(slices: Api<EndpointSlice>, number: usize, last: Option<String>, done: Arc<AtomicUsize>) -> Result<()> {
    let name = format!("storm-{number}");
    for change in 0..=CHANGES {
        let endpoints = match &last {
            _ if change < CHANGES => json!([{"addresses": [format!("192.0.2.{}", 1 + change % 250)]}]),
            Some(address) => json!([{"addresses": [address]}]),
            None => json!([]),
        };
        slices.patch(&name, &PatchParams::default(), &Patch::Merge(json!({"endpoints": endpoints}))).await?;
        done.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storm_of_endpoints_ends_in_the_last_ones_and_holds_up_no_route() -> Result<()> {
    // Whoever watches the shared one would be told of each change too.
    let api = ApiServer::in_turn().await?;
    let mut world = World::new(&api).await?;
    let edge = world.edge().await?;
    let (target, beside): (Echo, Echo) = (backend("target").await?, backend("beside").await?);
    world.apply(&service("storm", 80, "", &target)).await?;
    world.delete("EndpointSlice", "storm").await?;
    for number in 0..SLICES {
        world.apply(&slice(&format!("storm-{number}"), "storm", "", &target)).await?;
    }
    world.apply(&service("beside", 80, "", &beside)).await?;
    world.apply(&route("storm", "edge", "storm", 80)).await?;
    edge.proxy.reaches("/storm", &target).await?;
    let id = world.replica.portcullis.id().context("it has ended")?;
    let before = memory(id)?.resident;

    let done = Arc::new(AtomicUsize::new(0));
    let mut storm = JoinSet::new();
    let began = Instant::now();
    for number in 0..SLICES {
        let slices = Api::namespaced(world.api.client().await?, &world.name);
        let last = (number == 0).then(|| target.address().ip().to_string());
        storm.spawn(change(slices, number, last, Arc::clone(&done)));
    }
    let mut served = 0;
    while !storm.is_empty() {
        let name = format!("during-{served}");
        world.apply(&route(&name, "edge", "beside", 80)).await?;
        edge.proxy.reaches(&format!("/{name}"), &beside).await?;
        served += 1;
        while let Some(ended) = storm.try_join_next() {
            ended??;
        }
    }
    let took = began.elapsed();
    println!("{} changes in {took:?}, {served} routes meanwhile", done.load(Ordering::Relaxed));
    ensure!(served > 1, "no route was served before the storm was over");

    let endpoint = format!("::{}::", target.address());
    eventually(TIMEOUT, async || {
        let clusters = edge.proxy.envoy.admin("/clusters").await?.body;
        let of_storm = clusters.lines().filter(|line| line.contains("storm") && line.contains("::cx_active::"));
        let all: Vec<_> = of_storm.collect();
        ensure!(all.len() == 1 && all[0].contains(&endpoint), "{all:?}");
        anyhow::Ok(())
    })
    .await?;
    edge.proxy.reaches("/storm", &target).await?;
    let after = memory(id)?.resident;
    println!("resident: {before} bytes before, {after} after");
    ensure!(after < before + GROWTH, "{before} bytes were resident, {after} are");
    world.is_unharmed(edge).await
}
