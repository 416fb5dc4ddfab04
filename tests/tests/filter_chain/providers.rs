//! Providers that are asked: what they change of bodies, and what becomes of requests whose provider misbehaves.

use std::sync::{Arc, Mutex};

use anyhow::{Context, Result, ensure};
use portcullis_tests::client::{Protocol, Request, Response, Target, send};
use portcullis_tests::echo::Echo;
use portcullis_tests::envoy::Envoy;
use portcullis_tests::portcullis::Portcullis;
use portcullis_tests::provider::{JUDGE, PROCESS};
use portcullis_tests::wait::{TIMEOUT, eventually};
use portcullis_tests::{objects, ports};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::{HOST, route};

/// A judge, processors and a counter that are one server, and policies of routes and rules that have it asked.
const PROVIDERS: &str = "
---
apiVersion: gateway.kgateway.dev/v1alpha1
kind: GatewayExtension
metadata: {namespace: infra, name: judge}
spec: {extAuth: {grpcService: {backendRef: {name: provider, port: 80}, requestTimeout: 5s}, statusOnError: 503}}
---
apiVersion: gateway.kgateway.dev/v1alpha1
kind: GatewayExtension
metadata: {namespace: infra, name: processor}
spec: {extProc: {failOpen: false, messageTimeout: 5s, grpcService: {backendRef: {name: provider, port: 80}}}}
---
apiVersion: gateway.kgateway.dev/v1alpha1
kind: GatewayExtension
metadata: {namespace: infra, name: free}
spec:
  extProc:
    failOpen: false
    allowProcessingModeOverride: true
    allowedProcessingModeOverrides: [{responseBodyMode: STREAMED}]
    grpcService: {backendRef: {name: provider, port: 80}}
---
apiVersion: gateway.kgateway.dev/v1alpha1
kind: GatewayExtension
metadata: {namespace: infra, name: quick}
spec: {extProc: {failOpen: false, messageTimeout: 200ms, maxMessageTimeout: 400ms, grpcService: {backendRef: {name: provider, port: 80}}}}
---
apiVersion: gateway.kgateway.dev/v1alpha1
kind: GatewayExtension
metadata: {namespace: infra, name: counter}
spec: {rateLimit: {domain: shop, timeout: 5s, grpcService: {backendRef: {name: provider, port: 80}}}}
";

pub(super) fn policy(spec: &str) -> String {
    format!(
        "
---
apiVersion: gateway.kgateway.dev/v1alpha1
kind: TrafficPolicy
metadata: {{namespace: infra, name: asked}}
spec:
  targetRefs: [{{group: gateway.networking.k8s.io, kind: HTTPRoute, name: plain}}]
  {spec}
"
    )
}

/// A route of a Gateway, and a proxy of it.
pub(super) struct World {
    pub(super) portcullis: Portcullis,
    envoy: Envoy,
    pub(super) target: Target,
    pub(super) backend: Echo,
    _provider: Echo,
}

impl World {
    pub(super) async fn start(spec: &str) -> Result<Self> {
        let backend = Echo::start("backend", ([127, 0, 0, 1], 0).into()).await?;
        let provider = Echo::start("provider", ([127, 0, 0, 1], 0).into()).await?;
        let port = ports::free_port()?;
        let services = format!("{}{}", objects::service("backend", &backend), objects::service("provider", &provider));
        let files = [
            ("a-gateway.yaml", objects::gateway(&[format!("{{name: http, port: {port}, protocol: HTTP}}")])),
            ("b-services.yaml", services),
            ("c-providers.yaml", PROVIDERS.to_owned()),
            ("policy.yaml", policy(spec)),
            ("route.yaml", route("")),
        ];
        let portcullis = Portcullis::start(&files.map(|(name, content)| (name.to_owned(), content))).await?;
        let envoy = Envoy::start(&portcullis.bootstrap("infra/gateway").await?).await?;
        Ok(Self { portcullis, envoy, target: Target::local(port), backend, _provider: provider })
    }

    pub(super) async fn becomes(&self, request: &Request, what: &str, is: impl Fn(&Response) -> bool) -> Result<()> {
        let answered = eventually(TIMEOUT, async || {
            let response = send(&self.target, request).await?;
            ensure!(is(&response), "not {what}: {} {:.200} {:?}", response.status, response.body, response.echoed);
            Ok(())
        });
        answered.await.with_context(|| self.portcullis.log_tail())
    }

    /// What Envoy has in memory, in bytes.
    async fn memory(&self) -> Result<u64> {
        self.envoy.stats().await?.get("server.memory_allocated").copied().context("no memory is told")
    }

    /// What was said is not kept.
    async fn keeps_little(&self, before: u64) -> Result<()> {
        eventually(TIMEOUT, async || {
            let now = self.memory().await?;
            ensure!(now < before + (32 << 20), "{now} bytes, {before} before");
            Ok(())
        })
        .await
    }

    pub(super) async fn end(mut self) -> Result<()> {
        self.portcullis.check().context("a fault")?;
        self.envoy.check().await
    }
}

fn post() -> Request {
    Request { method: "POST".to_owned(), body: "five.".to_owned(), ..Request::get(HOST, "/") }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_processor_changes_the_bodies_that_it_is_sent() -> Result<()> {
    let mode = |said: &str| {
        let rest = "requestHeaderMode: SKIP, responseHeaderMode: SKIP";
        format!("extProc: {{extensionRef: {{name: processor}}, processingMode: {{{said}, {rest}}}}}")
    };
    let world = World::start(&mode("requestBodyMode: BUFFERED")).await?;
    let echoed = |response: &Response| response.echoed.as_ref().map(|echoed| echoed.body.clone());
    let seen = "five. (seen by provider)";
    world.becomes(&post(), "changed", |response| echoed(response).as_deref() == Some(seen)).await?;
    world.portcullis.write("policy.yaml", &policy(&mode("responseBodyMode: BUFFERED")))?;
    let answered = |response: &Response| response.body.ends_with(" (seen by provider)");
    world.becomes(&post(), "answered in other words", answered).await?;
    ensure!(world.backend.latest(|_| true).is_some_and(|echoed| echoed.body == "five."), "both were changed");
    // With headers Envoy goes by the length that these say, which no processor may change.
    let both = "extProc: {extensionRef: {name: processor}, processingMode: {requestBodyMode: BUFFERED}}";
    world.portcullis.write("policy.yaml", &policy(both))?;
    world.becomes(&post(), "refused", |response| response.status == 500).await?;
    world.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_floods_or_talks_garbage_costs_the_request_alone_and_opens_nothing() -> Result<()> {
    let world = World::start("extAuth: {extensionRef: {name: judge}}").await?;
    world.becomes(&post(), "judged", |response| response.status == 200).await?;
    let asked =
        [("extAuth: {extensionRef: {name: judge}}", JUDGE), ("extProc: {extensionRef: {name: processor}}", PROCESS)];
    for (spec, header) in asked {
        world.portcullis.write("policy.yaml", &policy(spec))?;
        let marked = if header == JUDGE { "x-judged-by" } else { "x-processed-by" };
        let is_asked =
            |response: &Response| response.echoed.as_ref().is_some_and(|echoed| echoed.header(marked).is_some());
        world.becomes(&post(), "asked", is_asked).await?;
        let before = world.memory().await?;
        for manner in ["flood", "huge", "garbage"] {
            for protocol in [Protocol::Http1, Protocol::H2] {
                let target = Target { protocol, ..world.target.clone() };
                let sent = post().header(header, manner);
                for _ in 0..4 {
                    let came = world.backend.count(|echoed| echoed.header("x-smuggled").is_some());
                    let response = send(&target, &sent).await?;
                    ensure!(response.status >= 400, "{header} {manner}: {}", response.status);
                    ensure!(response.body.len() < 4096, "{header} {manner}: {} bytes", response.body.len());
                    let since = world.backend.count(|echoed| echoed.header("x-smuggled").is_some());
                    ensure!(came == since, "{header} {manner}: a header was smuggled");
                }
            }
        }
        world.keeps_little(before).await.context(header)?;
        world.becomes(&post(), "asked after all", is_asked).await?;
    }
    world.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_processor_that_never_ends_holds_a_request_for_no_longer_than_is_said() -> Result<()> {
    let world = World::start("extProc: {extensionRef: {name: quick}}").await?;
    world.becomes(&post(), "processed", |response| response.status == 200).await?;
    let hangs = post().header(PROCESS, "hang");
    world.becomes(&hangs, "ended", |response| response.status == 504).await?;
    world.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_processor_that_says_more_than_it_is_asked_ends_its_request_and_no_other() -> Result<()> {
    let world = World::start("extProc: {extensionRef: {name: processor}}").await?;
    let is_asked =
        |response: &Response| response.echoed.as_ref().is_some_and(|echoed| echoed.header("x-processed-by").is_some());
    world.becomes(&post(), "asked", is_asked).await?;
    let before = world.memory().await?;
    let streamed = "extProc: {extensionRef: {name: processor}, processingMode: {requestBodyMode: STREAMED, \
                    requestHeaderMode: SEND, responseHeaderMode: SKIP}}";
    let free = "extProc: {extensionRef: {name: free}}";
    for (spec, manner, path, status) in [
        // The first answer is one, whatever comes behind it.
        ("", "answers", "/", 202),
        ("", "huge", "/", 500),
        ("", "endless", "/", 500),
        (streamed, "endless", "/", 500),
        // What it asks for is not on the list, and nobody waits for its body.
        (free, "duplex", "/?header=x-test-process:endless", 200),
    ] {
        if !spec.is_empty() {
            world.portcullis.write("policy.yaml", &policy(spec))?;
            world.portcullis.wait_until_fresh().await?;
        }
        let request = Request { path: path.to_owned(), ..post().header(PROCESS, manner) };
        world.becomes(&request, manner, |response| response.status == status && response.body.len() < 4096).await?;
        world.becomes(&Request::get(HOST, "/"), "a neighbour", is_asked).await?;
        world.keeps_little(before).await.context(manner)?;
    }
    world.end().await
}

/// A judge in HTTP that says what it likes, over and over.
struct Babbler {
    port: u16,
    says: Arc<Mutex<Babble>>,
    task: JoinHandle<()>,
}

/// What is said first, and then without end.
type Babble = (&'static str, String);

impl Babbler {
    async fn start() -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        let says = Arc::new(Mutex::new(("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", String::new())));
        let said = Arc::clone(&says);
        let task = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let said = Arc::clone(&said);
                tokio::spawn(async move {
                    let mut read = [0; 8192];
                    while matches!(stream.read(&mut read).await, Ok(1..)) {
                        let (first, then) = said.lock().map(|said| said.clone()).unwrap_or_default();
                        let mut sent = stream.write_all(first.as_bytes()).await;
                        // A proxy that has read enough hangs up.
                        while sent.is_ok() && !then.is_empty() {
                            sent = stream.write_all(then.as_bytes()).await;
                        }
                    }
                });
            }
        });
        Ok(Self { port, says, task })
    }

    fn say(&self, babble: Babble) -> Result<()> {
        *self.says.lock().ok().context("nobody panicked")? = babble;
        Ok(())
    }
}

impl Drop for Babbler {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_judge_that_floods_over_http_is_one_that_does_not_answer() -> Result<()> {
    let judge = Babbler::start().await?;
    let world = World::start("extAuth: {extensionRef: {name: babbler}}").await?;
    let extension = format!(
        "{}
---
apiVersion: gateway.kgateway.dev/v1alpha1
kind: GatewayExtension
metadata: {{namespace: infra, name: babbler}}
spec:
  extAuth:
    statusOnError: 503
    httpService: {{requestTimeout: 500ms, backendRef: {{name: babbler, port: 80}}}}
",
        objects::service_at("babbler", ([127, 0, 0, 1], judge.port).into())
    );
    world.portcullis.write("babbler.yaml", &extension)?;
    world.becomes(&post(), "judged", |response| response.status == 200).await?;
    let before = world.memory().await?;
    let piece = "x".repeat(64 << 10);
    for (first, then) in [
        ("HTTP/1.1 200 OK\r\n", "x-flood: 1\r\n".repeat(1_000)),
        ("HTTP/1.1 200 OK\r\nx-flood: ", piece.clone()),
        ("HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n", piece.clone()),
        ("HTTP/1.1 403 Forbidden\r\nconnection: close\r\n\r\n", piece.clone()),
        ("HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 100 Continue\r\n\r\n".repeat(1_000)),
        ("no HTTP at all", String::new()),
        ("", piece.clone()),
        // It never answers.
        ("HTTP/1.1 200 OK\r\n", String::new()),
    ] {
        judge.say((first, then))?;
        let response = send(&world.target, &post()).await?;
        ensure!(response.status == 503, "{first}: {} {:.100}", response.status, response.body);
        world.keeps_little(before).await.context(first)?;
    }
    judge.say(("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", String::new()))?;
    world.becomes(&post(), "judged again", |response| response.status == 200).await?;
    world.end().await
}
