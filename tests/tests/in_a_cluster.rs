//! The controller in a cluster, as a user has it: objects are applied, statuses are written, an Envoy that shows its
//! token is served.

#[path = "in_a_cluster/ports.rs"]
mod ports;
#[path = "in_a_cluster/world.rs"]
mod world;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Service;
use kube::Api;
use kube::api::DeleteParams;
use portcullis_tests::api_server::ApiServer;
use portcullis_tests::wait::{TIMEOUT, eventually};

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
async fn what_runs_proxies_is_put_right_and_metrics_tell_what_goes_on() -> Result<()> {
    let server = ApiServer::shared().await?;
    let mut world = World::deploying(server).await?;
    world.apply_gateway("edge").await?;
    let name = format!("edge-{}", world.namespace);
    let services: Api<Service> = Api::namespaced(server.client().await?, &world.namespace);
    let made = eventually(TIMEOUT, async || services.get(&name).await).await?;
    services.delete(&name, &DeleteParams::default()).await?;
    eventually(TIMEOUT, async || {
        let again = services.get(&name).await?;
        ensure!(again.metadata.uid != made.metadata.uid, "it is not gone yet");
        anyhow::Ok(())
    })
    .await?;

    let value = |metrics: &str, metric: &str| -> Result<f64> {
        let line = metrics.lines().find_map(|line| line.strip_prefix(metric)?.strip_prefix(' '));
        Ok(line.with_context(|| format!("no {metric}"))?.parse()?)
    };
    let metrics = eventually(TIMEOUT, async || {
        let metrics = world.portcullis.admin("/metrics").await?.body;
        for at_least_once in [
            "portcullis_leader",
            "portcullis_applies_total{kind=\"Service\",result=\"applied\"}",
            "portcullis_apply_foreign_changes_total",
            "portcullis_watch_lists_total{kind=\"Gateway\"}",
            "portcullis_watch_events_total{kind=\"Gateway\"}",
            "portcullis_status_writes_total{result=\"written\"}",
            "portcullis_batch_events_sum",
        ] {
            ensure!(value(&metrics, at_least_once)? >= 1.0, "{at_least_once}: {metrics}");
        }
        anyhow::Ok(metrics)
    })
    .await?;
    // Nobody asks for budgets here, so that they are not watched.
    ensure!(value(&metrics, "portcullis_watch_lists_total{kind=\"PodDisruptionBudget\"}").is_err(), "{metrics}");
    let silence = value(&metrics, "portcullis_watch_silence_seconds{kind=\"Gateway\"}")?;
    ensure!((0.0..75.0).contains(&silence), "{silence}");
    world.portcullis.check()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_that_is_away_costs_no_request_and_is_told() -> Result<()> {
    let mut server = ApiServer::in_turn().await?;
    let world = World::new(&server).await?;
    world.apply_gateway("edge").await?;
    world.apply(&world.answering_route("hello", "edge", "/hello", 301)).await?;
    let proxy = world.proxy("edge").await?;
    proxy.answers("/hello", 301).await?;
    let World { namespace, mut portcullis, .. } = world;
    let metric = async |metric: &str| -> Result<f64> {
        let metrics = portcullis.admin("/metrics").await?.body;
        let line = metrics.lines().find_map(|line| line.strip_prefix(metric)?.strip_prefix(' '));
        Ok(line.with_context(|| format!("no {metric}: {metrics}"))?.parse()?)
    };
    for sent in
        ["portcullis_xds_sent_resources_total", "portcullis_xds_sent_bytes_total", "portcullis_xds_ack_seconds_count"]
    {
        ensure!(metric(&format!("{sent}{{type=\"Listener\"}}")).await? >= 1.0, "{sent}");
    }
    server.kill().await?;
    eventually(TIMEOUT, async || {
        let ready = portcullis.admin("/readyz").await?;
        ensure!(ready.status == 200 && ready.body.contains("stale: HTTPRoute"), "{} {}", ready.status, ready.body);
        anyhow::Ok(())
    })
    .await?;
    proxy.answers("/hello", 301).await?;
    ensure!(metric("portcullis_watch_stale{kind=\"HTTPRoute\"}").await? >= 1.0);
    ensure!(metric("portcullis_watch_errors_total{kind=\"HTTPRoute\",reason=\"connection\"}").await? >= 1.0);

    server.restart().await?;
    server.apply_in(&namespace, &world::answering_route("hello", "edge", "/hello", 303)).await?;
    proxy.answers("/hello", 303).await?;
    portcullis.wait_until_fresh().await?;
    portcullis.check()
}
