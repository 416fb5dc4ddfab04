//! An Envoy is asked before anything is sent: who judges runs beside the controller as the chart has it, with the proxies' Envoy.

use anyhow::{Context, Result, ensure};
use portcullis_tests::api_server::ApiServer;
use portcullis_tests::process::envoy_binary;
use portcullis_tests::wait::{TIMEOUT, eventually};

use super::objects::{route, rule, rules};
use super::world::World;
use crate::agent::Agent;

/// What no check in process sees, in programs with debug assertions, and Envoy refuses.
const UNSEEN: &str = "test.portcullis.dev/unchecked %NO_SUCH_COMMAND%";

const REFUSED: &str = "portcullis_validation_refused_total{kind=\"route\",how=\"words\"}";
const AVAILABLE: &str = "portcullis_validation_available";
const PENDING: &str = "portcullis_validation_pending";

/// A rule whose requests tell backends this.
fn saying(path: &str, said: &str) -> String {
    let header = format!("requestHeaderModifier: {{set: [{{name: x-said, value: '{said}'}}]}}");
    let filters = format!("filters: [{{type: RequestHeaderModifier, {header}}}]");
    rule(path, "healthy", 80).replacen("{matches", &format!("{{{filters}, matches"), 1)
}

/// A route with a sound rule, and one that says something.
fn mixed(said: &str) -> String {
    rules("mixed", "edge", &[rule("/sound", "healthy", 80), saying("/said", said)])
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
    let mut world = World::with(ApiServer::shared().await?, &[], &["--strict-socket", &at(&agent)]).await?;
    let edge = world.edge().await?;
    world.apply(&mixed(UNSEEN)).await?;
    edge.proxy.answers("/said", 500).await?;
    edge.proxy.answers("/sound", 200).await?;
    world.says("HTTPRoute", "mixed", "Programmed", "False RouteRuleReplaced").await?;
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
    let mut world = World::with(ApiServer::shared().await?, &[], &flags).await?;
    let edge = world.edge().await?;
    world.apply(&mixed("hello")).await?;
    edge.proxy.answers("/said", 200).await?;

    agent.kill().await?;
    world.apply(&route("later", "edge", "healthy", 80)).await?;
    world.apply(&mixed(UNSEEN)).await?;
    world.says("Gateway", "edge", "portcullis.dev/Validation", "False JudgeUnavailable").await?;
    world.says("HTTPRoute", "later", "Programmed", "False ValidationPending").await?;
    world.says("HTTPRoute", "mixed", "Programmed", "False ValidationPending").await?;
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
    world.says("HTTPRoute", "mixed", "Programmed", "False RouteRuleReplaced").await?;
    world.says("HTTPRoute", "later", "Programmed", "True").await?;
    tells(&world, "Gateway", "edge", "portcullis.dev/Validation", false).await?;
    world.replica.is_ready_and_says("").await?;
    world.replica.portcullis.was_never_refused().await?;
    world.is_unharmed(edge).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_without_a_judge_serves_nothing_unjudged_and_the_same_as_others_once_it_has_one() -> Result<()> {
    let agent = Agent::start(&envoy_binary()?)?;
    let hold = ["--validation-timeout", "1s", "--validation-when-unavailable", "Hold"];
    let first = [&["--strict-socket", &at(&agent)], &hold[..]].concat();
    let mut world = World::with(ApiServer::shared().await?, &[], &first).await?;
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
