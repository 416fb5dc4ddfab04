//! gRPC-Web: what browsers can send of gRPC, over HTTP/1.1.

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use portcullis_tests::calls::Callee;
use portcullis_tests::client::{self, Request, Response, Target};
use portcullis_tests::objects;
use portcullis_tests::wait::{TIMEOUT, eventually};

use super::{HOST, World, grpc_route};

/// A message that is a text of less than 100 bytes, as it travels: its length before it.
fn framed(text: &str) -> String {
    let length = |more: usize| char::from(u8::try_from(text.len() + more).unwrap_or_default());
    format!("\0\0\0\0{}\n{}{text}", length(2), length(0))
}

fn call(path: &str, content: &str, body: String) -> Request {
    let request = Request { method: "POST".to_owned(), body, ..Request::get(HOST, path) };
    request.header("content-type", content).header("x-grpc-web", "1")
}

/// The code at the end of a call, which is in the headers where there was no message.
fn code(response: &Response) -> Result<u32> {
    let said =
        response.body.rsplit_once("grpc-status:").map(|(_, rest)| rest.lines().next().unwrap_or_default().to_owned());
    let said = said.or_else(|| response.header("grpc-status"));
    said.with_context(|| format!("no status: {response:?}"))?.trim().parse().context("no code")
}

/// A page of another origin asks first whether it may, by a request that is no call and needs a route of its own.
#[tokio::test(flavor = "multi_thread")]
async fn pages_of_other_origins_call_where_policies_let_them() -> Result<()> {
    let callee = Callee::start("callee").await?;
    let preflight = objects::Route {
        name: "preflight",
        hosts: HOST,
        rules: "  - {matches: [{method: OPTIONS}], backendRefs: [{name: callee, port: 80}]}",
        ..Default::default()
    };
    let policy = "
---
apiVersion: gateway.kgateway.dev/v1alpha1
kind: TrafficPolicy
metadata: {namespace: infra, name: pages}
spec:
  targetRefs:
  - {group: gateway.networking.k8s.io, kind: GRPCRoute, name: r}
  - {group: gateway.networking.k8s.io, kind: HTTPRoute, name: preflight}
  cors:
    allowOrigins: ['https://page.example']
    allowMethods: [POST]
    allowHeaders: [content-type, x-grpc-web]
    exposeHeaders: [grpc-status, grpc-message]
";
    let rules = "  - backendRefs: [{name: callee, port: 80}]";
    let routes = format!("{}{preflight}{policy}", grpc_route("r", HOST, rules));
    let world = World::start(&[("callee", callee.address())], &routes).await?;
    world.answers("/a.B/Get").await?;
    let target = Target::local(world.port);
    for (origin, allowed) in [("https://page.example", true), ("https://other.example", false)] {
        let asks = Request { method: "OPTIONS".to_owned(), ..Request::get(HOST, "/a.B/Get") }
            .header("origin", origin)
            .header("access-control-request-method", "POST");
        let calls = call("/a.B/Get", "application/grpc-web", framed("hello")).header("origin", origin);
        for request in [asks, calls] {
            let answered = eventually(TIMEOUT, async || {
                let response = client::send(&target, &request).await?;
                let told = response.header("access-control-allow-origin");
                ensure!(told.as_deref() == allowed.then_some(origin), "{origin}: {response:?}");
                anyhow::Ok(response)
            });
            let response = answered.await?;
            ensure!(!allowed || response.status == 200, "{response:?}");
        }
    }
    world.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn browsers_call_and_are_told_how_a_call_ends() -> Result<()> {
    let callee = Callee::start("callee").await?;
    let rules = "
  - matches: [{method: {service: a.B}}]
    backendRefs: [{name: callee, port: 80}]
  - matches: [{method: {service: no.Service}}]
    backendRefs: [{name: missing, port: 80}]";
    let world = World::start(&[("callee", callee.address())], &grpc_route("r", HOST, rules)).await?;
    world.answers("/a.B/Get").await?;
    let target = Target::local(world.port);
    for content in ["application/grpc-web", "application/grpc-web+proto"] {
        let response = client::send(&target, &call("/a.B/Get", content, framed("hello"))).await?;
        ensure!((response.status, code(&response)?) == (200, 0), "{response:?}");
        ensure!(
            response.body.contains("\"message\":\"hello\"") && response.body.contains("\"te\":\"trailers\""),
            "{response:?}"
        );
        let answered = response.header("content-type").unwrap_or_default();
        ensure!(answered == "application/grpc-web+proto", "{content}: {answered}");
    }
    let text = BASE64_STANDARD.encode(framed("hello"));
    let asks = call("/a.B/Get", "application/grpc-web-text", text).header("accept", "application/grpc-web-text");
    let response = client::send(&target, &asks).await?;
    ensure!(
        response.header("content-type").is_some_and(|it| it.starts_with("application/grpc-web-text")),
        "{response:?}"
    );
    // Each piece is encoded by itself, and may end with what fills it up.
    let blocks = response.body.as_bytes().chunks(4).map(|block| BASE64_STANDARD.decode(block));
    let decoded = blocks.collect::<Result<Vec<_>, _>>()?.concat();
    let decoded = String::from_utf8_lossy(&decoded);
    ensure!(decoded.contains("\"message\":\"hello\"") && decoded.contains("grpc-status:0"), "{decoded}");

    let response = client::send(&target, &call("/a.B/Watch", "application/grpc-web", framed("3"))).await?;
    ensure!((0..3).all(|at| response.body.contains(&format!("callee: {at}"))) && code(&response)? == 0, "{response:?}");
    let response = client::send(&target, &call("/a.B/Watch", "application/grpc-web", framed("2 fail"))).await?;
    ensure!(response.body.contains("callee: 1") && response.body.contains("x-trailer:told"), "{response:?}");
    ensure!(code(&response)? == 10, "{response:?}");
    let response = client::send(&target, &call("/a.B/Get", "application/grpc-web", framed("fail"))).await?;
    ensure!((response.status, code(&response)?) == (200, 6), "{response:?}");
    let response = client::send(&target, &call("/no.Service/Get", "application/grpc-web", framed("hello"))).await?;
    ensure!(response.status == 503, "clients take it for UNAVAILABLE: {response:?}");
    let response = client::send(&target, &call("/no.Match/Get", "application/grpc-web", framed("hello"))).await?;
    ensure!(response.status == 404, "clients take it for UNIMPLEMENTED: {response:?}");
    world.end().await
}
