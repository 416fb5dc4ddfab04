//! An object on which the translation fails where nothing can be closed by itself.

use anyhow::{Context, Result, ensure};
use portcullis_tests::api_server::ApiServer;
use portcullis_tests::client::Target;
use portcullis_tests::portcullis::run as portcullis;
use portcullis_tests::ports::free_port;
use portcullis_tests::wait::{TIMEOUT, eventually};

use super::objects::{gateway, http, route};
use super::world::{Edge, World};

const SET_ASIDE: &str = "portcullis_quarantined_objects";

/// The Gateway on which the row fails that reads it, in programs with debug assertions.
fn failing(world: &World<'_>, ports: &[u16]) -> String {
    let listeners: Vec<_> =
        ports.iter().map(|port| http(*port).replace("name: http", &format!("name: l{port}"))).collect();
    let row = format!("GatewayRow:NsName {{ namespace: \"{}\", name: \"edge\" }}", world.name);
    let annotation = format!("annotations: {{test.portcullis.dev/fail-at: '{row}'}}");
    gateway("edge", &world.name, &listeners).replace("{name: edge}", &format!("{{name: edge, {annotation}}}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_on_which_the_translation_fails_is_set_aside_told_and_recorded_and_others_are_served() -> Result<()> {
    let mut world = World::new(ApiServer::shared().await?).await?;
    let edge = world.edge().await?;
    let more = free_port()?;
    world.apply(&failing(&world, &[edge.port, more])).await?;
    world.says("Gateway", "edge", "portcullis.dev/Quarantined", "True InternalFault").await?;
    world.replica.counts(SET_ASIDE, |count| count >= 1.0).await?;
    // Its last version stays in force, and who changes meanwhile at that Gateway is served.
    world.apply(&route("later", "edge", "healthy", 80)).await?;
    edge.proxy.answers("/later", 200).await?;

    // It is recorded; another replica and a new process come to the same.
    let kubeconfig = world.api.kubeconfig_by(&world.replica.way, &world.name, "controller").await?;
    let kubeconfig = kubeconfig.to_string_lossy().into_owned();
    let records = async |action: &[&str]| {
        let place = ["--kubeconfig", &kubeconfig, "--controller-namespace", &world.name];
        portcullis(&[&["records", "quarantine"], action, &place].concat()).await
    };
    let object = format!("Gateway {}/edge", world.name);
    let listed = eventually(TIMEOUT, async || {
        let listed = records(&[]).await?;
        ensure!(listed.contains(&object), "{listed}");
        anyhow::Ok(listed)
    })
    .await?;
    let second = world.another("second").await?;
    second.counts(SET_ASIDE, |count| count >= 1.0).await?;
    let snapshot = async |portcullis: &portcullis_tests::portcullis::Portcullis| {
        let snapshot = portcullis.snapshot().await?;
        anyhow::Ok(snapshot["gateways"].to_string())
    };
    let served = snapshot(&world.replica.portcullis).await?;
    ensure!(served.contains("/later") && !served.contains(&more.to_string()), "{served}");
    ensure!(snapshot(&second.portcullis).await? == served, "the second replica serves something else");
    world.replica.portcullis.restart().await?;
    world.replica.counts(SET_ASIDE, |count| count >= 1.0).await?;
    ensure!(snapshot(&world.replica.portcullis).await? == served, "a new process serves something else");
    edge.proxy.answers("/later", 200).await?;

    // It is tried again when it is forgotten, and still fails.
    let id = listed.split_whitespace().next().context("an id")?;
    let before = shown_since(&records(&["show", id]).await?)?;
    records(&["forget", id]).await?;
    eventually(TIMEOUT, async || {
        let now = shown_since(&records(&["show", id]).await?)?;
        ensure!(now != before, "it is as it was: {now}");
        anyhow::Ok(())
    })
    .await
    .with_context(|| world.replica.portcullis.log_tail())?;

    // It is mended, and served.
    let listeners = [http(edge.port), http(more).replace("name: http", "name: more")];
    world
        .apply(&gateway("edge", &world.name, &listeners).replace("{name: edge}", "{name: edge, annotations: {}}"))
        .await?;
    let objects = world.objects("Gateway").await?;
    eventually(TIMEOUT, async || {
        let status = objects.get("edge").await?.data["status"].to_string();
        ensure!(!status.contains("Quarantined"), "{status}");
        anyhow::Ok(())
    })
    .await?;
    world.replica.counts(SET_ASIDE, |count| count == 0.0).await?;
    second.counts(SET_ASIDE, |count| count == 0.0).await?;
    let Edge { mut proxy, traffic, .. } = edge;
    proxy.target = Target::local(more);
    proxy.answers("/later", 200).await?;
    traffic.finish().await.with_context(|| world.replica.portcullis.log_tail())?;
    proxy.envoy.check().await
}

fn shown_since(shown: &str) -> Result<String> {
    let line = shown.lines().find(|line| line.starts_with("since")).with_context(|| shown.to_owned())?;
    Ok(line.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_of_a_later_release_is_told_and_left_alone() -> Result<()> {
    let mut world = World::new(ApiServer::shared().await?).await?;
    let edge = world.edge().await?;
    let newer = "apiVersion: v1\n\
                 kind: Secret\n\
                 metadata: {name: portcullis-quarantine, labels: {portcullis.dev/record: quarantine}}\n\
                 stringData: {record: '{\"format\": 2, \"kind\": \"quarantine\"}'}\n";
    world.apply(newer).await?;
    world.replica.is_ready_and_says("records: quarantine: portcullis-quarantine: its format is 2").await?;
    world.replica.counts("portcullis_records_unreadable", |unreadable| unreadable >= 1.0).await?;
    edge.proxy.answers("/healthy", 200).await?;
    world.replica.portcullis.restart().await?;
    world.replica.is_ready_and_says("records: quarantine: portcullis-quarantine: its format is 2").await?;
    world.delete("Secret", "portcullis-quarantine").await?;
    world.replica.is_ready_and_says("").await?;
    world.is_unharmed(edge).await
}
