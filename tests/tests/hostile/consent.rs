//! A tenant reaches for the routes of another.

use anyhow::{Result, ensure};
use portcullis_tests::objects::{Route, grant};
use portcullis_tests::wait::{TIMEOUT, eventually};

use crate::stage::Stage;

const HOST: &str = "reach.example";

/// A route of the attacker's that takes in a route of namespace `victim`, or all of them.
fn reaching_for(name: &str) -> String {
    let child = format!("{{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: victim, name: '{name}'}}");
    let rules = format!("  - backendRefs: [{child}]");
    let route = Route { name: "reach", hosts: HOST, rules: &rules, ..Route::default() };
    route.to_string() + &grant(&["victim"])
}

/// The victim's route, with these parents in YAML.
fn victim(parents: &str) -> String {
    let rules = "  - backendRefs: [{namespace: infra, name: backend, port: 80}]";
    Route { namespace: "victim", name: "secretive", parents, rules, ..Route::default() }.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_published_without_having_asked_for_it_sees_it() -> Result<()> {
    let mut stage = Stage::start().await?;
    let gauge = async |stage: &Stage, count: u32| {
        let line = format!("portcullis_routes_published_unasked {count}");
        let told = eventually(TIMEOUT, async || {
            let metrics = stage.portcullis.admin("/metrics").await?.body;
            ensure!(metrics.lines().any(|other| other == line), "no {line:?} in\n{metrics}");
            Ok(())
        });
        told.await
    };
    gauge(&stage, 0).await?;
    stage.write(&(reaching_for("*") + &victim(""))).await?;
    stage.answers(HOST, "/", 200).await?;
    let told = "{object: HTTPRoute victim/secretive, parent: HTTPRoute infra/reach, conditions: {Accepted: 'True'}, \
                messages: {Accepted: 'HTTPRoute infra/reach of another namespace publishes this route'}}";
    stage.status(told).await?;
    gauge(&stage, 1).await?;
    let (_, text) = stage.check("text").await?;
    ensure!(text.contains("infra/reach of another namespace publishes this route"), "{text}");
    let tree = stage.portcullis.admin("/debug/routes").await?.body;
    ensure!(tree.contains("PublishedUnasked"), "{tree}");
    // Whoever names his parents is nobody else's child.
    stage.write(&(reaching_for("*") + &victim("{name: gateway, namespace: infra}"))).await?;
    stage.answers(HOST, "/", 500).await?;
    gauge(&stage, 0).await?;
    stage.is_unharmed().await
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_learns_whether_a_route_of_another_namespace_exists() -> Result<()> {
    let mut stage = Stage::start().await?;
    let told = "{object: HTTPRoute infra/reach, parent: infra/gateway, conditions: {Accepted: 'True', ResolvedRefs: \
                False BackendNotFound}, messages: {ResolvedRefs: 'HTTPRoute victim/secretive does not exist or does not admit this route'}}";
    let mut seen = Vec::new();
    for victim in [String::new(), victim("{name: gateway, namespace: infra}")] {
        stage.write(&(reaching_for("secretive") + &victim)).await?;
        stage.answers(HOST, "/", 500).await?;
        stage.status(told).await?;
        let tree = stage.portcullis.admin("/debug/routes").await?.body;
        ensure!(!tree.contains("RefNotPermitted"), "{tree}");
        let (_, check) = stage.check("text").await?;
        seen.push(check.lines().filter(|line| line.contains("infra/reach")).map(str::to_owned).collect::<Vec<_>>());
    }
    ensure!(seen[0] == seen[1], "{seen:?}");
    stage.is_unharmed().await
}
