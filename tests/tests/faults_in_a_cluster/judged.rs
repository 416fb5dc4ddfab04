//! An Envoy is asked before anything is sent: who judges runs beside the controller as the chart has it, with the proxies' Envoy.

use anyhow::{Context, Result, ensure};
use portcullis_tests::api_server::ApiServer;
use portcullis_tests::portcullis::run as portcullis;
use portcullis_tests::process::envoy_binary;
use portcullis_tests::wait::{TIMEOUT, eventually};

use super::objects::{route, rule, rules};
use super::world::{Edge, World};
use crate::agent::Agent;

/// What no check in process sees, in programs with debug assertions, and Envoy refuses.
const UNSEEN: &str = "test.portcullis.dev/unchecked %NO_SUCH_COMMAND%";

const REFUSED: &str = "portcullis_validation_refused_total{kind=\"route\",how=\"words\"}";
const AVAILABLE: &str = "portcullis_validation_available";
const PENDING: &str = "portcullis_validation_pending";

/// A route with a sound rule, and one of which a policy says something.
fn mixed(said: &str) -> String {
    let said_by = rule("/said", "healthy", 80).replacen("{matches", "{name: said, matches", 1);
    let route = rules("mixed", "edge", &[rule("/sound", "healthy", 80), said_by]);
    let target = "{group: gateway.networking.k8s.io, kind: HTTPRoute, name: mixed, sectionName: said}";
    format!(
        "{route}---\n\
         apiVersion: gateway.kgateway.dev/v1alpha1\n\
         kind: TrafficPolicy\n\
         metadata: {{name: said}}\n\
         spec: {{targetRefs: [{target}], headerModifiers: {{request: {{set: [{{name: x-said, value: '{said}'}}]}}}}}}\n"
    )
}

fn at(agent: &Agent) -> String {
    format!("unix:{}", agent.socket().display())
}

/// Waits until the status of an object has a text, or has it no more.
async fn tells(world: &World<'_>, kind: &str, name: &str, text: &str, is_so: bool) -> Result<()> {
    let objects = world.objects(kind).await?;
    eventually(TIMEOUT, async || {
        let status = objects.get(name).await?.data["status"].to_string();
        ensure!(status.contains(text) == is_so, "{kind} {name}: {text:?}: {status}");
        anyhow::Ok(())
    })
    .await
    .with_context(|| world.replica.portcullis.log_tail())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_envoy_alone_refuses_is_replaced_its_owner_is_told_and_siblings_lose_no_request() -> Result<()> {
    let agent = Agent::start(&envoy_binary()?)?;
    let mut world = World::with(ApiServer::loose().await?, &[], &["--strict-socket", &at(&agent)]).await?;
    let edge = world.edge().await?;
    world.apply(&mixed(UNSEEN)).await?;
    edge.proxy.answers("/said", 500).await?;
    edge.proxy.answers("/sound", 200).await?;
    world.says("HTTPRoute", "mixed", "kgateway.dev/Programmed", "False RouteRuleReplaced").await?;
    tells(&world, "HTTPRoute", "mixed", "spec.rules[1].matches[0]: Envoy cannot read", true).await?;
    tells(&world, "HTTPRoute", "mixed", "Envoy 1.40.0 refuses it: ", true).await?;
    tells(&world, "HTTPRoute", "healthy", "Envoy 1.40.0", false).await?;
    world.replica.counts(REFUSED, |count| count >= 1.0).await?;

    world.apply(&mixed("hello")).await?;
    edge.proxy.answers("/said", 200).await?;
    tells(&world, "HTTPRoute", "mixed", "Envoy 1.40.0", false).await?;
    // Proxies are of the version that judges.
    tells(&world, "Gateway", "edge", "portcullis.dev/Validation", false).await?;
    world.replica.counts("portcullis_validation_unjudged_versions", |count| count == 0.0).await?;
    world.replica.portcullis.was_never_refused().await?;
    world.is_unharmed(edge).await
}

#[tokio::test(flavor = "multi_thread")]
async fn where_it_holds_nothing_unjudged_is_sent_while_the_judge_is_away_and_all_is_told() -> Result<()> {
    let mut agent = Agent::start(&envoy_binary()?)?;
    let flags = ["--strict-socket", &at(&agent), "--validation-timeout", "1s", "--validation-when-unavailable", "Hold"];
    let mut world = World::with(ApiServer::loose().await?, &[], &flags).await?;
    let edge = world.edge().await?;
    world.apply(&mixed("hello")).await?;
    edge.proxy.answers("/said", 200).await?;

    agent.kill().await?;
    world.apply(&route("later", "edge", "healthy", 80)).await?;
    world.apply(&mixed(UNSEEN)).await?;
    world.says("Gateway", "edge", "portcullis.dev/Validation", "False JudgeUnavailable").await?;
    world.says("HTTPRoute", "later", "kgateway.dev/Programmed", "False ValidationPending").await?;
    world.says("HTTPRoute", "mixed", "kgateway.dev/Programmed", "False ValidationPending").await?;
    for words in ["JudgeUnavailable: ", "ValidationPending: 2 routes"] {
        world.replica.is_ready_and_says(words).await?;
    }
    world.replica.counts(AVAILABLE, |available| available == 0.0).await?;
    world.replica.counts(PENDING, |pending| pending > 0.0).await?;
    // All this time it is served as it was.
    edge.proxy.answers("/later", 404).await?;
    edge.proxy.answers("/said", 200).await?;

    agent.restart()?;
    edge.proxy.answers("/later", 200).await?;
    edge.proxy.answers("/said", 500).await?;
    world.says("HTTPRoute", "mixed", "kgateway.dev/Programmed", "False RouteRuleReplaced").await?;
    tells(&world, "HTTPRoute", "later", "ValidationPending", false).await?;
    tells(&world, "Gateway", "edge", "portcullis.dev/Validation", false).await?;
    world.replica.is_ready_and_says("").await?;
    world.replica.portcullis.was_never_refused().await?;
    world.is_unharmed(edge).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_without_a_judge_serves_nothing_unjudged_and_the_same_as_others_once_it_has_one() -> Result<()> {
    let agent = Agent::start(&envoy_binary()?)?;
    let hold = ["--validation-timeout", "1s", "--validation-when-unavailable", "Hold"];
    let socket = at(&agent);
    let first = [&["--strict-socket", &socket], &hold[..]].concat();
    let mut world = World::with(ApiServer::loose().await?, &[], &first).await?;
    let edge = world.edge().await?;
    world.apply(&mixed(UNSEEN)).await?;
    edge.proxy.answers("/said", 500).await?;

    let folder = tempfile::tempdir()?;
    let socket = format!("unix:{}", folder.path().join("socket").display());
    let mut second = world.another_with("second", &[&["--strict-socket", &socket], &hold[..]].concat()).await?;
    eventually(TIMEOUT, async || {
        let ready = second.portcullis.admin("/readyz").await?;
        ensure!(ready.status == 503, "{} {}", ready.status, ready.body);
        ensure!(second.portcullis.log_tail().contains("no Envoy can be asked"));
        anyhow::Ok(())
    })
    .await
    .with_context(|| second.portcullis.log_tail())?;
    // Others do not wait for it.
    world.apply(&route("later", "edge", "healthy", 80)).await?;
    edge.proxy.answers("/later", 200).await?;

    let mut late = Agent::start_in(&envoy_binary()?, folder)?;
    second.portcullis.wait_until_ready().await?;
    let serve_the_same = async |second: &super::world::Replica| {
        eventually(TIMEOUT, async || {
            let (here, there) = (world.replica.portcullis.snapshot().await?, second.portcullis.snapshot().await?);
            let [here, there] = [here, there].map(|snapshot| snapshot["gateways"].to_string());
            ensure!(here == there, "{here}\nis not\n{there}");
            anyhow::Ok(here)
        })
        .await
    };
    let before = serve_the_same(&second).await?;
    ensure!(before.contains("/later") && !before.contains("NO_SUCH_COMMAND"), "{before}");

    // One loses its judge: it goes on with what was judged, and the other one with what is.
    late.kill().await?;
    world.apply(&mixed("test.portcullis.dev/unchecked %NOR_THIS%")).await?;
    second.counts(PENDING, |pending| pending > 0.0).await?;
    second.counts(AVAILABLE, |available| available == 0.0).await?;
    let held = second.portcullis.snapshot().await?["gateways"].to_string();
    ensure!(!held.contains("NOR_THIS") && held.contains("/later"), "{held}");
    late.restart()?;
    let after = serve_the_same(&second).await?;
    ensure!(!after.contains("NOR_THIS"), "{after}");
    for replica in [&world.replica, &second] {
        replica.portcullis.was_never_refused().await?;
    }
    second.portcullis.check()?;
    world.is_unharmed(edge).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_proxy_refuses_is_recorded_and_no_replica_sends_it_again() -> Result<()> {
    let agent = Agent::start(&envoy_binary()?)?;
    let mut world = World::with(ApiServer::loose().await?, &[], &["--judge-socket", &at(&agent)]).await?;
    let edge = world.edge().await?;
    world.apply(&mixed("hello")).await?;
    edge.proxy.answers("/said", 200).await?;
    // In `Standard` it is sent, and refused.
    world.apply(&mixed(UNSEEN)).await?;
    edge.proxy.answers("/said", 500).await?;
    edge.proxy.answers("/sound", 200).await?;
    world.says("HTTPRoute", "mixed", "kgateway.dev/Programmed", "False RouteRuleReplaced").await?;
    tells(&world, "HTTPRoute", "mixed", "a proxy refused it (verdict ", true).await?;
    tells(&world, "HTTPRoute", "healthy", "a proxy refused it", false).await?;
    tells(&world, "Gateway", "edge", "Envoy refuses its configuration", false).await?;

    // Another replica, which has nobody to ask, and a new process read it before they serve.
    let mut second = world.another("second").await?;
    let served = async |portcullis: &portcullis_tests::portcullis::Portcullis| {
        let served = portcullis.snapshot().await?["gateways"].to_string();
        ensure!(!served.contains("NO_SUCH_COMMAND"), "{served}");
        anyhow::Ok(served)
    };
    let here = served(&world.replica.portcullis).await?;
    ensure!(served(&second.portcullis).await? == here, "the second replica serves something else");
    world.replica.portcullis.restart().await?;
    ensure!(served(&world.replica.portcullis).await? == here, "a new process serves something else");
    edge.proxy.answers("/said", 500).await?;
    world.replica.portcullis.was_never_refused().await?;

    // People see it, and it is tried again when they forget it.
    let kubeconfig = world.api.kubeconfig_by(&world.replica.way, &world.name, "controller").await?;
    let kubeconfig = kubeconfig.to_string_lossy().into_owned();
    let place = ["--kubeconfig", &kubeconfig, "--controller-namespace", &world.name];
    let listed = portcullis(&[&["records", "verdicts"], &place[..]].concat()).await?;
    ensure!(listed.contains(&format!("HTTPRoute {}/mixed", world.name)), "{listed}");
    let id = listed.split_whitespace().next().context("an id")?;
    let shown = portcullis(&[&["records", "verdicts", "show", id], &place[..]].concat()).await?;
    ensure!(shown.contains("how           words") && shown.contains("Envoy 1.40.0 refuses it: "), "{shown}");
    world.apply(&mixed("hello")).await?;
    edge.proxy.answers("/said", 200).await?;
    portcullis(&[&["records", "verdicts", "forget", id], &place[..]].concat()).await?;
    for replica in [&world.replica, &second] {
        replica.counts("portcullis_quarantined_fragments", |count| count == 0.0).await?;
    }
    second.portcullis.check()?;
    let Edge { mut proxy, traffic, .. } = edge;
    traffic.finish().await.with_context(|| world.replica.portcullis.log_tail())?;
    world.replica.portcullis.check()?;
    proxy.envoy.check_alive()
}
