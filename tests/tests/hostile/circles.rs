//! A Gateway whose backend is itself: a request that goes in circles ends.

use anyhow::{Result, ensure};
use portcullis_tests::client::{self, Request};
use portcullis_tests::echo::Echo;
use portcullis_tests::objects::{service, service_at};
use portcullis_tests::wait::{TIMEOUT, eventually};

use crate::manifests::rules;
use crate::stage::{Finding, Stage};

/// Service `itself`, which is the Gateway.
fn itself(stage: &Stage) -> String {
    service_at("itself", ([127, 0, 0, 1], stage.http().address.port()).into())
}

/// A route of `looping.example` to the Gateway itself, which copies each request that it takes to `counter`.
fn looping(stage: &Stage, counter: &Echo) -> String {
    let mirror = "{type: RequestMirror, requestMirror: {backendRef: {name: counter, port: 80}}}";
    format!(
        "{}{}{}",
        itself(stage),
        rules(
            "looping",
            "looping.example",
            &format!("  - {{filters: [{mirror}], backendRefs: [{{name: itself, port: 80}}]}}\n")
        ),
        service("counter", counter),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_goes_in_circles_is_answered_508_after_three_rounds() -> Result<()> {
    let counter = Echo::start("counter", ([127, 0, 0, 1], 0).into()).await?;
    let mut stage = Stage::start().await?;
    let manifests = looping(&stage, &counter);
    stage.write(&manifests).await?;
    stage.answers("looping.example", "/", 508).await?;
    let request = Request::get("looping.example", "/counted");
    let response = client::send(stage.http(), &request).await?;
    ensure!((response.status, &*response.body) == (508, "loop detected"), "{response:?}");
    let rounds = || counter.count(|request| request.path == "/counted");
    eventually(TIMEOUT, async || {
        ensure!(rounds() == 3, "{} rounds", rounds());
        Ok(())
    })
    .await?;
    // What a client says of other Gateways is passed on, and it cannot wind back what is counted.
    let told = request.clone().header("cdn-loop", "cdn.example;a=\"b\"").header("cdn-loop", "other");
    let response = client::send(stage.http(), &told).await?;
    ensure!(response.status == 508, "{response:?}");
    eventually(TIMEOUT, async || {
        ensure!(rounds() == 6, "{} rounds", rounds());
        Ok(())
    })
    .await?;
    stage.is_unharmed().await?;
    stage.reports(&[]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_route_cannot_wind_back_how_often_a_request_came() -> Result<()> {
    let mut stage = Stage::start().await?;
    let modifier = |change: &str| {
        let filter = format!("{{type: RequestHeaderModifier, requestHeaderModifier: {change}}}");
        rules(
            "evil",
            "evil.example",
            &format!("  - {{filters: [{filter}], backendRefs: [{{name: backend, port: 80}}]}}\n"),
        )
    };
    let field = "spec.rules[0].filters[0].requestHeaderModifier";
    for (change, at) in [
        ("{remove: [CDN-Loop]}", "remove[0]"),
        ("{set: [{name: CDN-Loop, value: x}]}", "set[0].name"),
        ("{add: [{name: cdn-loop, value: x}]}", "add[0].name"),
    ] {
        stage.write(&modifier(change)).await?;
        stage.answers("evil.example", "/", 500).await?;
        let field = format!("{field}.{at}");
        let words = ["goes in circles", "leave it to Envoy"];
        let finding =
            Finding { severity: "replaced", object: "HTTPRoute infra/evil", field: &field, at: "", words: &words };
        stage.reports(&[finding]).await?;
    }
    stage.is_unharmed().await
}

/// A route whose judge is the Gateway itself, asked for that very route.
fn judged_by_itself(stage: &Stage) -> String {
    format!(
        "{}{}
---
apiVersion: gateway.kgateway.dev/v1alpha1
kind: GatewayExtension
metadata: {{namespace: infra, name: itself}}
spec:
  extAuth:
    statusOnError: 401
    grpcService: {{authority: judged.example, requestTimeout: 5m, backendRef: {{name: itself, port: 80}}}}
---
apiVersion: gateway.kgateway.dev/v1alpha1
kind: TrafficPolicy
metadata: {{namespace: infra, name: judged}}
spec:
  targetRefs: [{{group: gateway.networking.k8s.io, kind: HTTPRoute, name: judged}}]
  extAuth: {{extensionRef: {{name: itself}}}}
",
        itself(stage),
        rules("judged", "judged.example", "  - {backendRefs: [{name: backend, port: 80}]}\n")
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_judge_in_grpc_that_asks_the_gateway_again_ends_after_three_rounds() -> Result<()> {
    let mut stage = Stage::start().await?;
    let manifests = judged_by_itself(&stage);
    stage.write(&manifests).await?;
    stage.answers("judged.example", "/", 401).await?;
    let asked = async || {
        let stats = stage.envoy().stats().await?;
        anyhow::Ok(stats.get("cluster.service/infra/itself/80/grpc.upstream_rq_total").copied().unwrap_or_default())
    };
    let before = asked().await?;
    let response = client::send(stage.http(), &Request::get("judged.example", "/")).await?;
    ensure!(response.status == 401, "{response:?}");
    let rounds = asked().await? - before;
    ensure!(rounds == 3, "{rounds} rounds");
    stage.is_unharmed().await?;
    stage.reports(&[]).await
}
