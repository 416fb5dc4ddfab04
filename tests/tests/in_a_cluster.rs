//! The controller in a cluster, as a user has it: objects are applied, statuses are written, an Envoy that shows its
//! token is served.

#[path = "xds_security/mount.rs"]
mod mount;
#[path = "in_a_cluster/world.rs"]
mod world;

use anyhow::{Result, ensure};
use portcullis_tests::api_server::ApiServer;
use portcullis_tests::wait::{PATIENCE, eventually};

use world::{World, condition};

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_and_its_route_are_served_and_told() -> Result<()> {
    let mut world = World::new(ApiServer::shared().await?).await?;
    world.apply_gateway("edge").await?;
    world.apply(&world.answering_route("hello", "edge", "/hello", 301)).await?;
    world.says("Gateway", "edge", |status| condition(&status["conditions"], "Programmed") == Some("True")).await?;
    world
        .says("HTTPRoute", "hello", |status| condition(&status["parents"][0]["conditions"], "Accepted") == Some("True"))
        .await?;
    let proxy = world.proxy("edge").await?;
    proxy.answers("/hello", 301).await?;

    // A change while the proxy runs.
    world.apply(&world.answering_route("hello", "edge", "/hello", 302)).await?;
    proxy.answers("/hello", 302).await?;
    world.delete("HTTPRoute", "hello").await?;
    proxy.answers("/hello", 404).await?;
    world.portcullis.check()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_that_is_away_costs_no_request_and_is_told() -> Result<()> {
    let mut server = ApiServer::start().await?;
    server.apply_crds(portcullis_tests::api_server::Channel::Experimental).await?;
    let world = World::new(&server).await?;
    world.apply_gateway("edge").await?;
    world.apply(&world.answering_route("hello", "edge", "/hello", 301)).await?;
    let proxy = world.proxy("edge").await?;
    proxy.answers("/hello", 301).await?;
    let World { namespace, mut portcullis, .. } = world;
    server.kill().await?;
    eventually(PATIENCE, async || {
        let ready = portcullis.admin("/readyz").await?;
        ensure!(ready.status == 200 && ready.body.contains("stale: HTTPRoute"), "{} {}", ready.status, ready.body);
        anyhow::Ok(())
    })
    .await?;
    proxy.answers("/hello", 301).await?;

    server.restart().await?;
    server.apply_in(&namespace, &world::answering_route("hello", "edge", "/hello", 303)).await?;
    proxy.answers("/hello", 303).await?;
    eventually(PATIENCE, async || {
        let ready = portcullis.admin("/readyz").await?;
        ensure!(ready.body == "ready\n", "{}", ready.body);
        anyhow::Ok(())
    })
    .await?;
    portcullis.check()
}
