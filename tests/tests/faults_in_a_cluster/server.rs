//! An API server in trouble, and what others do to what the controller relies on.

use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use http::Method;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use portcullis_tests::api_server::{ApiServer, Verdict};
use portcullis_tests::calls::Caller;
use portcullis_tests::wait::{TIMEOUT, eventually};

use super::objects::{route, service};
use super::world::{World, backend};
use crate::tokens::expiring;

/// The metric that says whether the replica leads.
const LEADS: &str = "portcullis_leader";

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_that_turns_everybody_away_is_told_and_costs_no_request() -> Result<()> {
    let mut world = World::new(ApiServer::shared().await?).await?;
    let edge = world.edge().await?;
    let other = backend("other").await?;
    world.replica.counts(LEADS, |leads| leads > 0.0).await?;

    world.replica.way.refuse(429, Some(1));
    world.replica.is_ready_and_says("stale: HTTPRoute: ").await?;
    world.replica.is_ready_and_says("429").await?;
    world.apply(&service("other", 80, "", &other)).await?;
    world.apply(&route("other", "edge", "other", 80)).await?;
    // Nobody can hold a Lease without an API server.
    world.replica.counts(LEADS, |leads| leads < 1.0).await?;
    for code in [500, 401] {
        world.replica.way.refuse(code, None);
        world.replica.is_ready_and_says(&code.to_string()).await?;
    }
    edge.proxy.answers("/other", 404).await?;

    world.replica.way.pass();
    edge.proxy.reaches("/other", &other).await?;
    world.replica.is_ready_and_says("").await?;
    world.says("HTTPRoute", "other", "Accepted", "True").await?;
    world.replica.counts(LEADS, |leads| leads > 0.0).await?;
    world.is_unharmed(edge).await
}

/// How often routes were not found. Between this and seven more lie at least 7 s, for each wait is longer than the one before.
const NOT_FOUND: &str = "portcullis_watch_errors_total{kind=\"HTTPRoute\",reason=\"not_found\"}";

#[tokio::test(flavor = "multi_thread")]
async fn kinds_that_are_not_found_lose_no_object_until_their_definition_is_deleted() -> Result<()> {
    let api = ApiServer::with_crds(&[]).await?;
    let mut world = World::new(&api).await?;
    let edge = world.edge().await?;
    // As a load balancer answers whose API server is away: to everything, definitions included.
    world.replica.way.refuse(404, None);
    world.replica.is_ready_and_says("it must serve v1 or v1beta1").await?;
    // One after the other, since the waits between them become long.
    for times in 1..=7_u8 {
        world.replica.counts(NOT_FOUND, |counted| counted >= times.into()).await?;
    }
    // As an API server answers that does not serve one kind.
    world.replica.way.judge(|_, path| {
        let routes = path.contains("/httproutes");
        if routes { Verdict::Refuse { code: 404, retry_after: None } } else { Verdict::Pass }
    });
    world.replica.counts("portcullis_watch_stale{kind=\"Gateway\"}", |stale| stale < 1.0).await?;
    let before = world.replica.portcullis.metric(NOT_FOUND).await?.context("nothing is counted")?;
    for more in [1.0, 2.0] {
        world.replica.counts(NOT_FOUND, |times| times >= before + more).await?;
    }
    world.replica.way.pass();
    world.replica.is_ready_and_says("").await?;
    world.replica.portcullis.check()?;
    edge.traffic.finish().await?;

    let definitions: Api<CustomResourceDefinition> = Api::all(api.client().await?);
    definitions.delete("httproutes.gateway.networking.k8s.io", &DeleteParams::default()).await?;
    edge.proxy.answers("/healthy", 404).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_of_routes_whose_definition_is_missing_stops_nothing_and_is_served_once_it_comes() -> Result<()> {
    let api = ApiServer::with_standard_crds().await?;
    let definitions: Api<CustomResourceDefinition> = Api::all(api.client().await?);
    let name = "grpcroutes.gateway.networking.k8s.io";
    let mut definition = definitions.get(name).await?;
    definitions.delete(name, &DeleteParams::default()).await?;
    api.wait_for(&definitions, name, TIMEOUT, |definition| definition.is_none()).await?;

    let mut world = World::new(&api).await?;
    let edge = world.edge().await?;
    let supports = async |kinds: &[&str]| {
        let gateways = world.objects("Gateway").await?;
        eventually(TIMEOUT, async || {
            let gateway = gateways.get("edge").await?;
            let supported = gateway.data["status"]["listeners"][0]["supportedKinds"].as_array().cloned();
            let supported: Vec<_> = supported.iter().flatten().filter_map(|kind| kind["kind"].as_str()).collect();
            ensure!(supported == kinds, "{supported:?}");
            anyhow::Ok(())
        })
        .await
    };
    supports(&["HTTPRoute"]).await?;

    definition.metadata = kube::api::ObjectMeta {
        name: Some(name.to_owned()),
        annotations: definition.metadata.annotations,
        ..Default::default()
    };
    definition.status = None;
    definitions.create(&PostParams::default(), &definition).await?;
    supports(&["HTTPRoute", "GRPCRoute"]).await?;

    let called = backend("called").await?;
    world.apply(&service("called", 80, "", &called)).await?;
    let route = route("calls", "edge", "called", 80).replace("HTTPRoute", "GRPCRoute");
    let route = route.replace("path: {type: PathPrefix, value: /calls}", "method: {service: a.B}");
    world.apply(&route).await?;
    world.says("GRPCRoute", "calls", "Accepted", "True").await?;
    let caller = Caller::new(edge.port, "localhost")?;
    eventually(TIMEOUT, async || {
        // The backend echoes, which is no answer in gRPC.
        drop(caller.clone().call("/a.B/Get", &[]).await);
        let count = called.count(|seen| seen.path == "/a.B/Get" && seen.protocol == "HTTP/2.0");
        ensure!(count > 0, "no call came");
        anyhow::Ok(())
    })
    .await?;

    definitions.delete(name, &DeleteParams::default()).await?;
    supports(&["HTTPRoute"]).await?;
    // For who has the server next.
    definitions.create(&PostParams::default(), &definition).await?;
    supports(&["HTTPRoute", "GRPCRoute"]).await?;
    world.is_unharmed(edge).await
}

#[tokio::test(flavor = "multi_thread")]
async fn statuses_that_cannot_be_written_hold_up_nothing_and_are_written_later() -> Result<()> {
    let mut world = World::new(ApiServer::shared().await?).await?;
    let edge = world.edge().await?;
    let other = backend("other").await?;
    world.apply(&service("other", 80, "", &other)).await?;
    for (code, retry_after) in [(429, Some(1)), (500, None), (503, Some(1))] {
        world.replica.way.judge(move |method, path| {
            let status = *method == Method::PATCH && path.contains("/status");
            if status { Verdict::Refuse { code, retry_after } } else { Verdict::Pass }
        });
        let name = format!("other-{code}");
        world.apply(&route(&name, "edge", "other", 80)).await?;
        edge.proxy.reaches(&format!("/{name}"), &other).await?;
        eventually(TIMEOUT, async || {
            let exchanges = world.replica.way.exchanges();
            ensure!(exchanges.iter().any(|exchange| exchange.status == code), "nothing was refused with {code}");
            anyhow::Ok(())
        })
        .await?;
        let object = world.objects("HTTPRoute").await?.get(&name).await?;
        ensure!(object.data["status"]["parents"].is_null(), "{object:?}");
        world.replica.way.pass();
        world.says("HTTPRoute", &name, "Accepted", "True").await?;
    }
    world.is_unharmed(edge).await
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_fall_silent_are_given_up() -> Result<()> {
    let mut world = World::new(ApiServer::shared().await?).await?;
    let edge = world.edge().await?;
    let other = backend("other").await?;
    world.apply(&service("other", 80, "", &other)).await?;
    world.replica.counts(LEADS, |leads| leads > 0.0).await?;
    world.replica.way.silence();
    world.apply(&route("other", "edge", "other", 80)).await?;
    // A bookmark comes about every minute, so that nobody can know before.
    let mut heard = Ok(());
    for _ in 0..6 {
        heard = edge.proxy.reaches("/other", &other).await;
        if heard.is_ok() {
            break;
        }
    }
    heard?;
    world.says("HTTPRoute", "other", "Accepted", "True").await?;
    world.replica.is_ready_and_says("").await?;
    world.replica.counts(LEADS, |leads| leads > 0.0).await?;
    world.is_unharmed(edge).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_whose_token_expires_goes_on_and_is_served_again_with_the_next() -> Result<()> {
    let api = ApiServer::shared().await?;
    let mut world = World::new(api).await?;
    let mut edge = world.edge().await?;
    let other = backend("other").await?;
    world.apply(&service("other", 80, "", &other)).await?;

    world.apply(&route("before", "edge", "other", 80)).await?;
    edge.proxy.reaches("/before", &other).await?;

    // The token of its next stream, for which the controller is restarted. The API server takes one for a minute longer
    // than it says, so that this one has some seconds left. A machine that is busy needs more of them until there is a stream.
    let account = world.account("edge");
    let name = world.name.clone();
    let short = async || {
        let soon = SystemTime::now() - Duration::from_mins(1) + Duration::from_secs(8);
        expiring(api, &name, &account, soon).await
    };
    edge.proxy.token.replace(&[("token", &short().await?)])?;
    world.replica.portcullis.restart().await?;
    let mut begun = Ok(());
    for _ in 0..40 {
        edge.proxy.token.replace(&[("token", &short().await?)])?;
        begun = eventually(Duration::from_secs(1), async || {
            let streams = world.replica.portcullis.metric("portcullis_xds_streams").await?;
            ensure!(streams.is_some_and(|streams| streams > 0.0), "{streams:?}");
            anyhow::Ok(())
        })
        .await;
        if begun.is_ok() {
            break;
        }
    }
    begun?;
    let refused = "portcullis_xds_refused_total{reason=\"denied\"}";
    let expired = async || {
        let streams = world.replica.portcullis.metric("portcullis_xds_streams").await?;
        let refused = world.replica.portcullis.metric(refused).await?;
        ensure!(streams == Some(0.0) && refused.is_some_and(|refused| refused > 0.0), "{streams:?}, {refused:?}");
        anyhow::Ok(())
    };
    // The API server itself remembers for ten seconds what it said of a token.
    eventually(TIMEOUT, expired).await?;
    world.apply(&route("after", "edge", "other", 80)).await?;
    world.says("HTTPRoute", "after", "Accepted", "True").await?;
    edge.proxy.answers("/after", 404).await?;
    edge.proxy.reaches("/before", &other).await?;

    let token = world.token("edge").await?;
    edge.proxy.token.replace(&[("token", &token)])?;
    edge.proxy.reaches("/after", &other).await?;
    world.is_unharmed(edge).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_of_a_dead_holder_whose_clock_was_ahead_runs_out_like_any_other() -> Result<()> {
    let mut world = World::new(ApiServer::shared().await?).await?;
    let edge = world.edge().await?;
    world.replica.counts(LEADS, |leads| leads > 0.0).await?;
    let leases = world.objects("Lease").await?;
    for renewed in ["2106-01-01T00:00:00.000000Z", "1970-01-02T00:00:00.000000Z"] {
        let spec = serde_json::json!({
            "holderIdentity": "dead", "leaseDurationSeconds": 3, "acquireTime": renewed, "renewTime": renewed,
        });
        let stolen = kube::api::Patch::Merge(serde_json::json!({ "spec": spec }));
        leases.patch("portcullis", &kube::api::PatchParams::default(), &stolen).await?;
        world.replica.counts(LEADS, |leads| leads < 1.0).await.context("it does not believe that it lost the Lease")?;
        world.replica.counts(LEADS, |leads| leads > 0.0).await.context("it waits for a clock")?;
    }
    world.is_unharmed(edge).await
}
