//! What stays open for long, a `WebSocket` or a stream of gRPC, while all around them and what they came by changes.

use anyhow::{Context, Result, ensure};
use futures::StreamExt;
use portcullis_tests::calls::{Callee, Caller};
use portcullis_tests::certificates::{Certificate, KeyKind};
use portcullis_tests::client::{self, Connection, Request, Target, Tls, WebSocket};
use portcullis_tests::echo::Echo;
use portcullis_tests::envoy::Envoy;
use portcullis_tests::portcullis::Portcullis;
use portcullis_tests::wait::{TIMEOUT, eventually};
use portcullis_tests::{objects, objects::service, ports};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::Streaming;

use crate::load::{file, secret};

const HOST: &str = "a.example";

/// A WebSocket in plain text, one over TLS, a stream of gRPC in both directions and one that a server alone speaks on.
struct Open {
    plain: WebSocket,
    secured: WebSocket,
    chat: (mpsc::UnboundedSender<String>, Streaming<String>),
    ticks: Streaming<String>,
}

impl Open {
    async fn open(http: u16, https: &Target) -> Result<Self> {
        let mut caller = Caller::new(http, HOST)?;
        let (says, said) = mpsc::unbounded_channel();
        let request = Request::get(HOST, "/socket");
        Ok(Self {
            plain: WebSocket::open(&Target::local(http), &request).await?,
            secured: WebSocket::open(https, &request).await?,
            chat: (says, caller.chat("/a.B/Chat", UnboundedReceiverStream::new(said)).await?),
            ticks: caller.watch("/a.B/Tick", "").await?,
        })
    }

    /// All of them but the one over TLS carry what is said.
    async fn in_plain_text(&mut self, word: &str) -> Result<()> {
        self.plain.says(word).await.context("WebSocket")?;
        self.chat.0.send(word.to_owned())?;
        let back = timeout(TIMEOUT, self.chat.1.next()).await?.context("the stream has ended")??;
        ensure!(back == format!("first: {word}"), "{back} came back for {word}");
        // What waited was said before.
        while let Some(tick) = futures::FutureExt::now_or_never(self.ticks.next()) {
            tick.context("the server's stream has ended")??;
        }
        let tick = timeout(TIMEOUT, self.ticks.next()).await?.context("the server's stream has ended")??;
        ensure!(tick.starts_with("first: "), "{tick}");
        Ok(())
    }

    async fn carry(&mut self, word: &str) -> Result<()> {
        self.in_plain_text(word).await?;
        self.secured.says(word).await.context("WebSocket over TLS")
    }
}

fn grpc_route(backends: &str) -> String {
    let rules = format!("  - backendRefs: [{backends}]");
    let route = objects::Route { name: "calls", hosts: HOST, rules: &rules, ..Default::default() };
    route.to_string().replace("kind: HTTPRoute", "kind: GRPCRoute")
}

fn http_route(backends: &str) -> String {
    let rules = format!("  - backendRefs: [{backends}]");
    objects::Route { name: "web", hosts: HOST, rules: &rules, ..Default::default() }.to_string()
}

fn config(timeout: &str) -> String {
    let policy = |service: &str| {
        format!(
            "
---
apiVersion: gateway.kgateway.dev/v1alpha1
kind: BackendConfigPolicy
metadata: {{namespace: infra, name: {service}}}
spec:
  targetRefs: [{{group: '', kind: Service, name: {service}}}]
  connectTimeout: {timeout}
"
        )
    };
    policy("web") + &policy("callee")
}

const GUARD: &str = "
---
apiVersion: gateway.kgateway.dev/v1alpha1
kind: TrafficPolicy
metadata: {namespace: infra, name: guard}
spec:
  targetRefs:
  - {group: gateway.networking.k8s.io, kind: HTTPRoute, name: web}
  - {group: gateway.networking.k8s.io, kind: GRPCRoute, name: calls}
  headerModifiers: {response: {set: [{name: x-guarded, value: '1'}]}}
";

/// A policy of the listeners of a port.
fn of_port(port: u16) -> String {
    format!(
        "
---
apiVersion: gateway.kgateway.dev/v1alpha1
kind: ListenerPolicy
metadata: {{namespace: infra, name: gateway}}
spec:
  targetRefs: [{{group: gateway.networking.k8s.io, kind: Gateway, name: gateway}}]
  default: {{}}
  perPort: [{{port: {port}, listener: {{perConnectionBufferLimitBytes: 16384}}}}]
"
    )
}

/// A Gateway with a port in plain text and one over TLS, and what is open there.
struct Scene {
    portcullis: Portcullis,
    envoy: Envoy,
    http: u16,
    https: Target,
    all: Open,
}

impl Scene {
    async fn start(http: u16, https: u16, files: &[(String, String)]) -> Result<Self> {
        let portcullis = Portcullis::start(files).await?;
        // What drains ends after two seconds, as it does after some minutes where proxies are deployed.
        let drains = ["--drain-time-s", "2", "--drain-strategy", "immediate"];
        let envoy = Envoy::start_with(&portcullis.bootstrap("infra/gateway").await?, &drains).await?;
        let https = Target { tls: Some(Tls::to(HOST)), ..Target::local(https) };
        let all = eventually(TIMEOUT, async || Open::open(http, &https).await).await;
        let all = all.with_context(|| portcullis.log_tail())?;
        Ok(Self { portcullis, envoy, http, https, all })
    }

    /// Waits until a change is there, as new requests see it.
    async fn meets(&self, seen: impl AsyncFn() -> Result<()>) -> Result<()> {
        eventually(TIMEOUT, async || seen().await).await.with_context(|| self.portcullis.log_tail())
    }

    /// Waits until this backend answers a host on a port.
    async fn answers(&self, port: u16, host: &str, backend: &str) -> Result<()> {
        self.meets(async || {
            let response = client::send(&Target::local(port), &Request::get(host, "/")).await?;
            let by = response.echoed.map(|echoed| echoed.backend).unwrap_or_default();
            ensure!(by == backend, "{} {by}", response.status);
            Ok(())
        })
        .await
    }

    async fn clusters_changed(&self) -> Result<u64> {
        let stats = self.envoy.stats().await?;
        stats.get("cluster_manager.cluster_modified").copied().context("no such statistic")
    }

    async fn end(mut self) -> Result<()> {
        self.portcullis.was_never_refused().await?;
        self.portcullis.check()?;
        self.envoy.check().await
    }
}

fn certificate() -> Result<Certificate> {
    Certificate::new(&[HOST.to_owned()], KeyKind::Ecdsa)
}

#[tokio::test(flavor = "multi_thread")]
async fn websockets_and_streams_of_grpc_outlive_all_but_what_drains_their_listener() -> Result<()> {
    let local = || ([127, 0, 0, 1], 0).into();
    let (web, next) = (Echo::start("web", local()).await?, Echo::start("next", local()).await?);
    let (callee, another) = (Callee::start("first").await?, Callee::start("second").await?);
    let (http, https, other) = (ports::free_port()?, ports::free_port()?, ports::free_port()?);
    let tls = "tls: {certificateRefs: [{name: certificate}]}";
    let own = [
        format!("{{name: http, port: {http}, protocol: HTTP}}"),
        format!("{{name: https, port: {https}, protocol: HTTPS, hostname: {HOST}, {tls}}}"),
    ];
    let more = [
        format!("{{name: beside, port: {https}, protocol: HTTPS, hostname: b.example, {tls}}}"),
        format!("{{name: other, port: {other}, protocol: HTTP}}"),
    ];
    let services = [service("web", &web), service("next", &next)].concat()
        + &objects::service_at("callee", callee.address())
        + &objects::service_at("another", another.address());
    let files = [
        file("a-gateway.yaml", objects::gateway(&own)),
        file("services.yaml", services),
        file("secret.yaml", secret(&certificate()?)),
        file("calls.yaml", grpc_route("{name: callee, port: 80}")),
        file("web.yaml", http_route("{name: web, port: 80}")),
    ];
    let mut scene = Scene::start(http, https, &files).await?;
    scene.all.carry("before").await?;

    let rules = "  - backendRefs: [{name: next, port: 80}]";
    let beside = objects::Route { name: "beside", hosts: "b.example", rules, ..Default::default() };
    scene.portcullis.write("beside.yaml", &beside.to_string())?;
    scene.answers(http, "b.example", "next").await?;
    scene.all.carry("another route").await?;
    scene.portcullis.write("a-gateway.yaml", &objects::gateway(&[own.clone(), more].concat()))?;
    scene.answers(other, HOST, "web").await?;
    scene.all.carry("other listeners").await?;
    scene.portcullis.write("a-gateway.yaml", &objects::gateway(&own))?;
    scene
        .meets(async || {
            ensure!(Connection::open(&Target::local(other)).await.is_err(), "the port is open");
            Ok(())
        })
        .await?;
    scene.all.carry("listeners that are gone").await?;
    own_changes(&mut scene).await?;

    // What is said of a port as a whole drains all of it, and nothing of another one.
    scene.portcullis.write("policy.yaml", &of_port(https))?;
    timeout(TIMEOUT, scene.all.secured.ended()).await.context("the WebSocket over TLS is open")?;
    scene.all.in_plain_text("another port").await?;
    scene.end().await
}

/// Changes of what the connections came by: certificate, policies, clusters, weights, backends, and in the end the routes go.
async fn own_changes(scene: &mut Scene) -> Result<()> {
    let http = scene.http;
    let shown = certificate()?;
    scene.portcullis.write("secret.yaml", &secret(&shown))?;
    scene
        .meets(async || {
            let certificate = Connection::open(&scene.https).await?.certificate.context("no certificate")?;
            ensure!(certificate == shown.der, "the old certificate is shown");
            Ok(())
        })
        .await?;
    scene.all.carry("another certificate").await?;
    scene.portcullis.write("guard.yaml", GUARD)?;
    scene
        .meets(async || {
            let response = client::send(&Target::local(http), &Request::get(HOST, "/")).await?;
            ensure!(response.header("x-guarded").is_some(), "{:?}", response.headers);
            Ok(())
        })
        .await?;
    scene.all.carry("a policy of the routes").await?;
    let before = scene.clusters_changed().await?;
    scene.portcullis.write("config.yaml", &config("7s"))?;
    scene
        .meets(async || {
            ensure!(scene.clusters_changed().await? >= before + 2, "the clusters are as they were");
            Ok(())
        })
        .await?;
    scene.all.carry("clusters made anew").await?;
    let weighted =
        |old: &str, new: &str| format!("{{name: {old}, port: 80, weight: 0}}, {{name: {new}, port: 80, weight: 1}}");
    scene.portcullis.write("web.yaml", &http_route(&weighted("web", "next")))?;
    scene.portcullis.write("calls.yaml", &grpc_route(&weighted("callee", "another")))?;
    scene.answers(http, HOST, "next").await?;
    scene.all.carry("weights").await?;
    scene.portcullis.write("web.yaml", &http_route("{name: next, port: 80}"))?;
    scene.portcullis.write("calls.yaml", &grpc_route("{name: another, port: 80}"))?;
    scene
        .meets(async || {
            let answer = Caller::new(http, HOST)?.call("/a.B/Get", &[]).await?;
            ensure!(answer.backend == "second", "{answer:?}");
            // Its statistics are there for as long as its streams are.
            let all = scene.envoy.config_dump().await?.to_string();
            ensure!(!all.contains("service/infra/callee"), "the cluster is there");
            Ok(())
        })
        .await?;
    scene.all.carry("other backends").await?;
    scene.portcullis.remove("web.yaml")?;
    scene.portcullis.remove("calls.yaml")?;
    scene
        .meets(async || {
            let response = client::send(&Target::local(http), &Request::get(HOST, "/")).await?;
            ensure!(response.status == 404, "{}", response.status);
            Ok(())
        })
        .await?;
    scene.all.carry("no route").await
}
