//! Trees of routes that keep their last good version: on every replica, whatever dies while one is stored, and whatever becomes of
//! what is stored.

use anyhow::{Context, Result, ensure};
use http::Method;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use portcullis_tests::api_server::{ApiServer, Verdict};
use portcullis_tests::client::{self, Request};
use portcullis_tests::portcullis::run;
use portcullis_tests::wait::{TIMEOUT, eventually};
use serde_json::{Value, json};

use super::world::{Edge, Replica, World};

const GROUP: &str = "gateway.networking.k8s.io";
const FROZEN: &str = "portcullis.dev/Frozen";

/// A route below `/root`, which it has a path below and a backend.
fn child(name: &str, path: &str, backend: &str) -> String {
    format!(
        "---\napiVersion: {GROUP}/v1\nkind: HTTPRoute\nmetadata: {{name: {name}}}\n\
         spec: {{rules: [{{matches: [{{path: {{value: {path}}}}}], backendRefs: [{{name: {backend}, port: 80}}]}}]}}\n"
    )
}

/// A tree whose root asks that it is kept.
fn tree() -> String {
    let to = |name: &str| {
        format!(
            "{{matches: [{{path: {{value: /root/{name}}}}}], backendRefs: [{{group: {GROUP}, kind: HTTPRoute, name: {name}}}]}}"
        )
    };
    format!(
        "apiVersion: {GROUP}/v1\nkind: HTTPRoute\nmetadata: {{name: root}}\n\
         spec: {{parentRefs: [{{name: edge}}], rules: [{}, {}]}}\n\
         ---\napiVersion: gateway.portcullis.dev/v1alpha1\nkind: DelegationPolicy\nmetadata: {{name: keeps}}\n\
         spec: {{targetRefs: [{{group: {GROUP}, kind: HTTPRoute, name: root}}], failureMode: FreezeConfig}}\n",
        to("one"),
        to("two")
    ) + &child("one", "/root/one", "healthy")
        + &child("two", "/root/two", "healthy")
}

/// A world with such a tree, which is kept.
async fn kept(api: &ApiServer) -> Result<(World<'_>, Edge)> {
    let world = World::keeping(api).await?;
    let edge = world.edge().await?;
    world.apply(&tree()).await?;
    world.says("HTTPRoute", "root", FROZEN, "False Committed").await?;
    edge.proxy.answers("/root/one", 200).await?;
    Ok((world, edge))
}

/// The heads of editions.
async fn heads(world: &World<'_>) -> Result<Vec<(String, Value)>> {
    let secrets = world.objects("Secret").await?;
    let all = secrets.list(&ListParams::default().labels("portcullis.dev/record=edition")).await?;
    let name = |name: Option<String>| name.filter(|name| name != "portcullis-editions");
    let heads = all.items.into_iter().filter_map(|secret| Some((name(secret.metadata.name)?, secret.data)));
    Ok(heads.collect())
}

async fn served(replica: &Replica) -> Result<String> {
    Ok(replica.portcullis.snapshot().await?["gateways"].to_string())
}

async fn serves_the_same(one: &Replica, other: &Replica) -> Result<()> {
    eventually(TIMEOUT, async || {
        let (one, other) = (served(one).await?, served(other).await?);
        ensure!(one == other, "{one} is not {other}");
        anyhow::Ok(())
    })
    .await
}

/// `portcullis tree` shows the tree as it is, and with `--edition` as it is kept.
async fn shows_what_is_kept(world: &World<'_>) -> Result<()> {
    let kubeconfig = world.api.kubeconfig().to_string_lossy().into_owned();
    let (controller, root) = (format!("portcullis.dev/{}", world.class), format!("{}/root", world.name));
    let own = ["--controller-name", &controller, "-n", &world.name, "--kubeconfig", &kubeconfig];
    let now = run(&[&["tree", "--from", "api-server"][..], &own].concat()).await?;
    ensure!(now.contains("/root/two/more") && now.contains("nobody"), "{now}");
    let records = ["tree", "--edition", &root, "--controller-namespace", &world.class];
    let kept = run(&[&records[..], &own].concat()).await?;
    ensure!(kept.contains("/two") && !kept.contains("/root/two/more") && !kept.contains("nobody"), "{kept}");
    Ok(())
}

/// Whether a request writes an edition's head.
fn writes_a_head(method: &Method, path: &str) -> bool {
    method == Method::PUT && path.contains("/secrets/edition-")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_that_breaks_is_served_as_it_was_by_every_replica_and_by_new_processes() -> Result<()> {
    let (mut world, edge) = kept(ApiServer::shared().await?).await?;
    let follower = world.another("second").await?;
    world.apply(&child("one", "/root/one", "nobody")).await?;
    world.says("HTTPRoute", "root", FROZEN, "True TreeBroken").await?;
    // What is good waits too, as long as the tree is broken.
    world.apply(&child("two", "/root/two/more", "healthy")).await?;
    world.says("HTTPRoute", "two", FROZEN, "True ChangeWithheld").await?;
    shows_what_is_kept(&world).await?;
    let late = world.another("third").await?;
    for replica in [&follower, &late] {
        serves_the_same(&world.replica, replica).await?;
    }
    for _ in 0..2 {
        for path in ["/root/one", "/root/two"] {
            edge.proxy.answers(path, 200).await?;
        }
        world.replica.portcullis.crash().await?;
        world.replica.portcullis.wait_until_ready().await?;
        serves_the_same(&world.replica, &follower).await?;
    }
    world.apply(&child("one", "/root/one", "healthy")).await?;
    edge.proxy.answers("/root/two", 404).await?;
    edge.proxy.answers("/root/two/more", 200).await?;
    world.says("HTTPRoute", "root", FROZEN, "False Committed").await?;
    for replica in [&follower, &late] {
        serves_the_same(&world.replica, replica).await?;
    }
    world.is_unharmed(edge).await
}

/// A policy on the Gateway with a header that a Secret has.
fn token(secret: &str) -> String {
    format!(
        "apiVersion: gateway.kgateway.dev/v1alpha1\nkind: TrafficPolicy\nmetadata: {{name: token}}\n\
         spec:\n  targetRefs: [{{group: {GROUP}, kind: Gateway, name: edge}}]\n\
         \x20 headerModifiers: {{request: {{set: [{{name: x-token, secretRef: {{name: {secret}}}}}]}}}}\n"
    )
}

fn secret(name: &str, token: &str) -> String {
    format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: {name}}}\nstringData: {{x-token: {token}}}\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_whose_policies_break_fails_no_request_though_nobody_names_their_secrets_any_more() -> Result<()> {
    let mut world = World::keeping(ApiServer::loose().await?).await?;
    let edge = world.edge().await?;
    let asks = json!({"metadata": {"annotations": {"portcullis.dev/failure-mode": "FreezeConfig"}}});
    let gateways = world.objects("Gateway").await?;
    gateways.patch("edge", &PatchParams::default(), &Patch::Merge(asks)).await?;
    world.apply(&secret("good", "one")).await?;
    // A policy that is new answers 500 until what it names is read; one that changes waits for that.
    world.apply(&token("good").replace("secretRef: {name: good}", "value: none")).await?;
    world.says("Gateway", "edge", FROZEN, "False Committed").await?;
    world.apply(&token("good")).await?;
    let sees = async |wanted: &str| {
        eventually(TIMEOUT, async || {
            let answer = client::send(&edge.proxy.target, &Request::get("localhost", "/healthy")).await?;
            let headers = answer.echoed.map(|echoed| echoed.headers).unwrap_or_default();
            let token = headers.into_iter().find(|(name, _)| name == "x-token").map(|(_, value)| value);
            ensure!(token.as_deref() == Some(wanted), "the backend sees {token:?}");
            anyhow::Ok(())
        })
        .await
        .with_context(|| edge.proxy.envoy.log_tail())
    };
    sees("one").await?;
    world.says("Gateway", "edge", FROZEN, "False Committed").await?;
    world.apply(&token("nobody")).await?;
    world.says("Gateway", "edge", FROZEN, "True PoliciesBroken").await?;
    let follower = world.another("second").await?;
    serves_the_same(&world.replica, &follower).await?;
    world.replica.portcullis.crash().await?;
    world.replica.portcullis.wait_until_ready().await?;
    serves_the_same(&world.replica, &follower).await?;
    // What the Secret says is as it is now.
    world.apply(&secret("good", "two")).await?;
    sees("two").await?;
    world.apply(&secret("nobody", "three")).await?;
    world.says("Gateway", "edge", FROZEN, "False Committed").await?;
    sees("three").await?;
    serves_the_same(&world.replica, &follower).await?;
    world.is_unharmed(edge).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_dies_while_it_stores_leaves_the_version_before_or_the_next_one() -> Result<()> {
    let (mut world, edge) = kept(ApiServer::shared().await?).await?;
    // Before the head is replaced, by an API server that is away for a while, too busy, or out of quota.
    for (code, path) in [(500, "/root/two/a"), (429, "/root/two/b"), (403, "/root/two/c")] {
        world.replica.way.judge(move |method, path| {
            if writes_a_head(method, path) { Verdict::Refuse { code, retry_after: None } } else { Verdict::Pass }
        });
        world.apply(&child("two", path, "healthy")).await?;
        world.says("HTTPRoute", "root", FROZEN, "True CommitPending").await?;
        edge.proxy.answers(path, if path.ends_with('a') { 200 } else { 404 }).await?;
        if code == 429 {
            world.replica.portcullis.crash().await?;
            world.replica.portcullis.wait_until_ready().await?;
            world.says("HTTPRoute", "root", FROZEN, "True CommitPending").await?;
            edge.proxy.answers(path, 404).await?;
        }
        world.replica.way.pass();
        edge.proxy.answers(path, 200).await?;
        world.says("HTTPRoute", "root", FROZEN, "False Committed").await?;
    }
    // Right after it.
    let written = || world.replica.way.exchanges().iter().filter(|it| writes_a_head(&it.method, &it.path)).count();
    let before = written();
    world.apply(&child("two", "/root/two/last", "healthy")).await?;
    eventually(TIMEOUT, async || {
        ensure!(written() > before, "nothing is stored");
        anyhow::Ok(())
    })
    .await?;
    world.replica.portcullis.crash().await?;
    world.apply(&child("one", "/root/one", "nobody")).await?;
    world.replica.portcullis.wait_until_ready().await?;
    edge.proxy.answers("/root/two/last", 200).await?;
    world.says("HTTPRoute", "root", FROZEN, "True TreeBroken").await?;
    edge.proxy.answers("/root/one", 200).await?;
    world.is_unharmed(edge).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_stored_and_is_not_whole_is_told_and_the_tree_runs_with_replacement_until_it_is_good() -> Result<()> {
    let (mut world, edge) = kept(ApiServer::shared().await?).await?;
    let secrets = world.objects("Secret").await?;
    let set = async |name: &str, record: &str| {
        let patch = json!({"stringData": {"record": record}});
        secrets.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        anyhow::Ok(())
    };
    let (good, broken) = (child("one", "/root/one", "healthy"), child("one", "/root/one", "nobody"));
    for record in ["", "{", "{\"format\": 3, \"kind\": \"edition\"}", "{\"format\": 1, \"kind\": \"edition\"}"] {
        world.apply(&broken).await?;
        world.says("HTTPRoute", "root", FROZEN, "True TreeBroken").await?;
        edge.proxy.answers("/root/one", 200).await?;
        let (name, _) = heads(&world).await?.pop().context("a head")?;
        set(&name, record).await?;
        world.says("HTTPRoute", "root", FROZEN, "False EditionUnreadable").await?;
        edge.proxy.answers("/root/one", 500).await?;
        edge.proxy.answers("/root/two", 200).await?;
        world.replica.counts("portcullis_editions_unreadable", |count| count >= 1.0).await?;
        world.apply(&good).await?;
        edge.proxy.answers("/root/one", 200).await?;
        world.says("HTTPRoute", "root", FROZEN, "False Committed").await?;
        world.replica.counts("portcullis_editions_unreadable", |count| count == 0.0).await?;
    }
    // Somebody empties the store.
    world.apply(&broken).await?;
    world.says("HTTPRoute", "root", FROZEN, "True TreeBroken").await?;
    let all = ListParams::default().labels("portcullis.dev/record");
    secrets.delete_collection(&DeleteParams::default(), &all).await?;
    world.says("HTTPRoute", "root", FROZEN, "False NoEdition").await?;
    edge.proxy.answers("/root/one", 500).await?;
    world.apply(&good).await?;
    world.says("HTTPRoute", "root", FROZEN, "False Committed").await?;
    edge.proxy.answers("/root/one", 200).await?;
    // It ends by the policy's word, and what is stored goes.
    world.apply(&tree().replace("FreezeConfig", "RouteReplacement")).await?;
    eventually(TIMEOUT, async || {
        let heads = heads(&world).await?;
        ensure!(heads.is_empty(), "{heads:?}");
        anyhow::Ok(())
    })
    .await?;
    world.apply(&broken).await?;
    edge.proxy.answers("/root/one", 500).await?;
    world.is_unharmed(edge).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_keeps_nothing_ends_what_was_kept_before_it() -> Result<()> {
    let (mut world, edge) = kept(ApiServer::shared().await?).await?;
    world.apply(&child("one", "/root/one", "nobody")).await?;
    world.says("HTTPRoute", "root", FROZEN, "True TreeBroken").await?;
    edge.proxy.answers("/root/one", 200).await?;
    world.keeps = false;
    let off = world.another("off").await?;
    let mut first = std::mem::replace(&mut world.replica, off);
    ensure!(first.portcullis.terminate().await?.success(), "{}", first.portcullis.log_tail());
    eventually(TIMEOUT, async || {
        let log = world.replica.portcullis.log();
        ensure!(log.contains("what was kept of trees of routes has ended"), "{}", world.replica.portcullis.log_tail());
        anyhow::Ok(())
    })
    .await?;
    ensure!(!heads(&world).await?.is_empty(), "it may not delete them");
    world.keeps = true;
    let again = world.another("again").await?;
    let mut off = std::mem::replace(&mut world.replica, again);
    ensure!(off.portcullis.terminate().await?.success(), "{}", off.portcullis.log_tail());
    world.says("HTTPRoute", "root", FROZEN, "False NoEdition").await?;
    // Nothing is left of it.
    eventually(TIMEOUT, async || {
        let heads = heads(&world).await?;
        ensure!(heads.is_empty(), "{heads:?}");
        anyhow::Ok(())
    })
    .await?;
    world.is_unharmed(edge).await
}
