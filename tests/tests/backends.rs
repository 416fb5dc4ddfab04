//! How proxies connect to backends, as a BackendConfigPolicy says, and where no name of a Backend leads.

#[path = "backends/client_certificate.rs"]
mod client_certificate;
#[path = "backends/tls_policy.rs"]
mod tls_policy;

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use futures::future::join_all;
use ir::backend::{Cluster, Host, Protocol};
use portcullis_tests::certificates::{Certificate, KeyKind};
use portcullis_tests::client::{self, Request, Response, Target};
use portcullis_tests::echo::{Echo, Echoed};
use portcullis_tests::envoy::Envoy;
use portcullis_tests::portcullis::Portcullis;
use portcullis_tests::wait::{TIMEOUT, eventually};
use portcullis_tests::{objects, objects::service, ports};
use serde_json::{Value, json};

const LOOPBACK: [u8; 4] = [127, 0, 0, 1];

/// A Gateway whose only route leads to Service `backend`.
struct World {
    portcullis: Portcullis,
    envoy: Envoy,
    target: Target,
}

impl World {
    async fn start(echo: &Echo, more: &str) -> Result<Self> {
        Self::start_with(&service("backend", echo), more).await
    }

    async fn start_with(service: &str, more: &str) -> Result<Self> {
        Self::start_as(service, more, &[]).await
    }

    async fn start_as(service: &str, more: &str, arguments: &[&str]) -> Result<Self> {
        let port = ports::free_port()?;
        let listener = format!("{{name: http, port: {port}, protocol: HTTP}}");
        let rules = "  - backendRefs: [{name: backend, port: 80}]";
        let route = objects::Route { name: "route", rules, ..Default::default() };
        let base = format!("{}{service}{route}", objects::gateway(&[listener]));
        let files = [file("base.yaml", &base), file("more.yaml", more)];
        let arguments: Vec<_> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        let portcullis = Portcullis::start_with(&files, &arguments).await?;
        let envoy = Envoy::start(&portcullis.bootstrap("infra/gateway").await?).await?;
        Ok(Self { portcullis, envoy, target: Target::local(port) })
    }

    async fn get(&self) -> Result<Response> {
        client::send(&self.target, &Request::get("example.com", "/asked")).await
    }

    async fn answers(&self, status: u16) -> Result<()> {
        let answered = eventually(TIMEOUT, async || {
            let response = self.get().await?;
            ensure!(response.status == status, "{} {}", response.status, response.body);
            Ok(())
        });
        answered.await.with_context(|| self.portcullis.log_tail())
    }

    async fn end(mut self) -> Result<()> {
        self.portcullis.check()?;
        self.envoy.check().await
    }
}

fn file(name: &str, content: &str) -> (String, String) {
    (name.to_owned(), content.to_owned())
}

fn policy(spec: &str) -> String {
    format!(
        "
---
apiVersion: gateway.kgateway.dev/v1alpha1
kind: BackendConfigPolicy
metadata: {{namespace: infra, name: connections}}
spec:
  targetRefs: [{{group: '', kind: Service, name: backend}}]
  {spec}
"
    )
}

fn trust(authority: &Certificate, more: &str) -> String {
    let pem = authority.certificate.trim().replace('\n', "\n    ");
    format!(
        "
---
apiVersion: v1
kind: Secret
metadata: {{namespace: infra, name: trust}}
stringData:
  ca.crt: |
    {pem}
{more}"
    )
}

fn any(_: &Echoed) -> bool {
    true
}

#[tokio::test(flavor = "multi_thread")]
async fn whose_certificate_is_not_expected_gets_no_request_and_nobody_gets_one_in_plain_text() -> Result<()> {
    let own = Certificate::new(&["backend.example".to_owned()], KeyKind::Ecdsa)?;
    let other = Certificate::new(&["backend.example".to_owned()], KeyKind::Ecdsa)?;
    let echo = Echo::start_tls("backend", (LOOPBACK, 0).into(), own.server(None)?).await?;
    let expected = policy("tls: {secretRef: {name: trust}, sni: backend.example}");
    let world = World::start(&echo, &format!("{expected}{}", trust(&own, ""))).await?;
    world.answers(200).await?;
    ensure!(echo.count(any) > 0, "somebody else answered");

    for (more, status) in [
        (format!("{expected}{}", trust(&other, "")), 503),
        (format!("{}{}", policy("tls: {secretRef: {name: trust}, sni: other.example}"), trust(&own, "")), 503),
        // Nobody knows what to trust.
        (expected.clone(), 500),
        (format!("{}{}", policy("tls: {secretRef: {name: trust}, unheardOf: 1}"), trust(&own, "")), 500),
    ] {
        world.portcullis.write("more.yaml", &more)?;
        world.answers(status).await?;
        // Old connections are as good as they were until then.
        let before = echo.count(any);
        world.answers(status).await?;
        ensure!(echo.count(any) == before, "a request came after the answer {status}");
    }
    let known = eventually(TIMEOUT, async || {
        let snapshot = world.portcullis.snapshot().await?.to_string();
        ensure!(
            snapshot.contains("UnsupportedValue") && snapshot.contains("is not valid there"),
            "the route is not told"
        );
        Ok(())
    });
    known.await?;
    world.portcullis.write("more.yaml", &format!("{expected}{}", trust(&own, "")))?;
    world.answers(200).await?;
    world.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn while_a_policy_for_tls_is_broken_a_backend_of_plain_text_gets_nothing() -> Result<()> {
    let echo = Echo::start("backend", (LOOPBACK, 0).into()).await?;
    let world = World::start(&echo, &policy("tls: {secretRef: {name: missing}}")).await?;
    world.answers(500).await?;
    ensure!(echo.count(any) == 0, "a request came in plain text");
    world.portcullis.write("more.yaml", &policy("tls: {insecureSkipVerify: true}"))?;
    world.answers(503).await?;
    ensure!(echo.count(any) == 0, "a request came in plain text");
    world.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_shows_its_certificate_to_who_demands_it_and_nobody_else_sees_the_key() -> Result<()> {
    let server = Certificate::new(&["backend.example".to_owned()], KeyKind::Ecdsa)?;
    let client = Certificate::new(&["proxy.example".to_owned()], KeyKind::Ecdsa)?;
    let echo = Echo::start_tls("backend", (LOOPBACK, 0).into(), server.server(Some(&client))?).await?;
    let tls = policy("tls: {secretRef: {name: trust}, sni: backend.example}");
    let world = World::start(&echo, &format!("{tls}{}", trust(&server, ""))).await?;
    world.answers(503).await?;
    ensure!(echo.count(any) == 0, "whoever shows nothing is taken");

    let indent = |pem: &str| pem.trim().replace('\n', "\n    ");
    let shown =
        format!("  tls.crt: |\n    {}\n  tls.key: |\n    {}\n", indent(&client.certificate), indent(&client.key));
    world.portcullis.write("more.yaml", &format!("{tls}{}", trust(&server, &shown)))?;
    world.answers(200).await?;
    let key = client.key.lines().nth(1).context("a key of several lines")?;
    let snapshot = world.portcullis.snapshot().await?.to_string();
    ensure!(snapshot.contains("secret/infra/trust"), "the certificate does not come by SDS");
    ensure!(!snapshot.contains(key), "the key is printed");
    world.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_beyond_a_bound_is_refused_at_once() -> Result<()> {
    let echo = Echo::start("backend", (LOOPBACK, 0).into()).await?;
    let bounds = "circuitBreakers: {maxConnections: 1, maxPendingRequests: 1}";
    let world = World::start(&echo, &policy(bounds)).await?;
    world.answers(200).await?;
    let slow = Request::get("example.com", "/slow?delay=500ms");
    let all = join_all((0..8).map(|_| client::send(&world.target, &slow))).await;
    let statuses: Vec<u16> = all.into_iter().map(|response| Ok(response?.status)).collect::<Result<_>>()?;
    ensure!(statuses.contains(&200) && statuses.contains(&503), "{statuses:?}");
    world.end().await
}

/// Service `backend` with an endpoint at which nobody listens beside one that answers.
fn half_dead(echo: &Echo) -> Result<String> {
    let dead = ports::free_port()?;
    let slice = format!(
        "
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{namespace: infra, name: backend-b, labels: {{kubernetes.io/service-name: backend}}}}
addressType: IPv4
ports: [{{name: '', port: {dead}}}]
endpoints: [{{addresses: [127.0.0.1]}}]
"
    );
    Ok(format!("{}{slice}", service("backend", echo)))
}

async fn is_left_out(policy: &str) -> Result<()> {
    let echo = Echo::start("backend", (LOOPBACK, 0).into()).await?;
    let world = World::start_with(&half_dead(&echo)?, "").await?;
    eventually(TIMEOUT, async || {
        ensure!(world.get().await?.status == 503, "the dead endpoint got nothing");
        Ok(())
    })
    .await?;
    world.portcullis.write("more.yaml", policy)?;
    eventually(TIMEOUT, async || {
        for _ in 0..40 {
            let status = world.get().await?.status;
            ensure!(status == 200, "{status}");
        }
        Ok(())
    })
    .await
    .with_context(|| world.portcullis.log_tail())?;
    world.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_keeps_failing_gets_nothing_for_a_while() -> Result<()> {
    let outliers =
        "outlierDetection: {consecutive5xx: 1, interval: 100ms, baseEjectionTime: 1h, maxEjectionPercent: 100}";
    is_left_out(&policy(outliers)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_says_nothing_when_asked_gets_no_request() -> Result<()> {
    let check =
        "healthCheck: {timeout: 1s, interval: 100ms, unhealthyThreshold: 1, healthyThreshold: 1, http: {path: /}}";
    is_left_out(&policy(check)).await
}

/// A cluster with the name that every resolver knows to be local.
fn local_cluster(name: &str, echo: &Echo, guarded: bool, protocol: Protocol) -> Result<Value> {
    let settings = ir::Settings::default();
    let cluster = Cluster {
        name: name.into(),
        hosts: [Host { name: "localhost".into(), port: echo.address().port() }].into(),
        guarded,
        config: Arc::default(),
        protocol,
        weighted_localities: false,
        trust_store: "".into(),
        connect_timeout: settings.connect_timeout,
        limits: settings.cluster,
    };
    let bytes = envoy::cluster::cluster(&cluster).body.to_bytes();
    Ok(envoy::json::value("envoy.config.cluster.v3.Cluster", &bytes)?)
}

fn typed(name: &str, mut message: Value) -> Value {
    message["@type"] = json!(format!("type.googleapis.com/envoy.extensions.filters.{name}"));
    message
}

/// A listener with these routes, and these filters in front of the router.
fn listener(port: u16, routes: &Value, filters: Vec<Value>) -> Value {
    let router = json!({"name": "router", "typedConfig": typed("http.router.v3.Router", json!({}))});
    let filters: Vec<_> = filters.into_iter().chain([router]).collect();
    let manager = json!({
        "statPrefix": "local",
        "routeConfig": {"virtualHosts": [{"name": "all", "domains": ["*"], "routes": routes}]},
        "httpFilters": filters,
    });
    let manager = typed("network.http_connection_manager.v3.HttpConnectionManager", manager);
    json!({
        "name": format!("listener/{port}"),
        "address": {"socketAddress": {"address": "127.0.0.1", "portValue": port}},
        "filterChains": [{"filters": [{"name": "manager", "typedConfig": manager}]}],
    })
}

/// Whoever owns a name decides what it means. Here it is one that every resolver knows.
#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_turns_out_to_be_local_gets_no_request() -> Result<()> {
    let echo = Echo::start("local", (LOOPBACK, 0).into()).await?;
    let cluster = |name: &str, guarded| local_cluster(name, &echo, guarded, Protocol::Http1);
    let port = ports::free_port()?;
    let routes =
        ["guarded", "open"].map(|name| json!({"match": {"prefix": format!("/{name}")}, "route": {"cluster": name}}));
    let envoy = Envoy::start(&json!({"staticResources": {
        "listeners": [listener(port, &json!(routes), Vec::new())],
        "clusters": [cluster("guarded", true)?, cluster("open", false)?],
    }}))
    .await?;
    for (path, status) in [("/open", 200), ("/guarded", 403)] {
        eventually(TIMEOUT, async || {
            let response = client::send(&Target::local(port), &Request::get("example.com", path)).await?;
            ensure!(response.status == status, "{path}: {} {}", response.status, response.body);
            Ok(())
        })
        .await
        .with_context(|| envoy.log_tail())?;
    }
    ensure!(echo.count(|seen| seen.path == "/guarded") == 0, "a request came through");
    Ok(())
}

/// Why copies of requests and questions of filters never go to hosts by name: nothing keeps them from one that is local.
#[tokio::test(flavor = "multi_thread")]
async fn where_what_no_client_sends_goes_envoy_does_not_look() -> Result<()> {
    let local = Echo::start("local", (LOOPBACK, 0).into()).await?;
    let backend = Echo::start("backend", (LOOPBACK, 0).into()).await?;
    let mirrors = json!([{"cluster": "http"}]);
    let routes = json!([{"match": {"prefix": "/"}, "route": {"cluster": "backend", "requestMirrorPolicies": mirrors}}]);
    let grpc =
        json!({"grpcService": {"envoyGrpc": {"clusterName": "grpc"}, "timeout": "5s"}, "transportApiVersion": "V3"});
    let judge = json!({"name": "judge", "typedConfig": typed("http.ext_authz.v3.ExtAuthz", grpc)});
    let (copied, judged) = (ports::free_port()?, ports::free_port()?);
    let envoy = Envoy::start(&json!({"staticResources": {
        "listeners": [listener(copied, &routes, Vec::new()), listener(judged, &routes, vec![judge])],
        "clusters": [
            local_cluster("http", &local, true, Protocol::Http1)?,
            local_cluster("grpc", &local, true, Protocol::H2c)?,
            local_cluster("backend", &backend, false, Protocol::Http1)?,
        ],
    }}))
    .await?;
    let copy = Request::get("example.com", "/copied");
    let denied = Request::get("example.com", "/judged").header("x-test-judge", "deny");
    eventually(TIMEOUT, async || {
        client::send(&Target::local(copied), &copy).await?;
        ensure!(local.count(|seen| seen.path == "/copied") > 0, "no copy came");
        let response = client::send(&Target::local(judged), &denied).await?;
        ensure!(response.status == 401, "the judge was not asked: {} {}", response.status, response.body);
        Ok(())
    })
    .await
    .with_context(|| envoy.log_tail())
}

/// A judge at an address of a Backend, over TLS with a certificate that is expected, as gRPC and as HTTP.
#[tokio::test(flavor = "multi_thread")]
async fn a_judge_behind_a_backend_is_asked_over_tls_and_in_nothing_else() -> Result<()> {
    let own = Certificate::new(&["judge.example".to_owned()], KeyKind::Ecdsa)?;
    let other = Certificate::new(&["judge.example".to_owned()], KeyKind::Ecdsa)?;
    let judge = Echo::start_tls("judge", (LOOPBACK, 0).into(), own.server(None)?).await?;
    let echo = Echo::start("backend", (LOOPBACK, 0).into()).await?;
    let port = judge.address().port();
    let objects = |how: &str, trusted: &Certificate| {
        format!(
            "
---
apiVersion: gateway.kgateway.dev/v1alpha1
kind: Backend
metadata: {{namespace: infra, name: judge}}
spec: {{static: {{hosts: [{{host: 127.0.0.1, port: {port}}}]}}}}
---
apiVersion: gateway.kgateway.dev/v1alpha1
kind: BackendConfigPolicy
metadata: {{namespace: infra, name: judge}}
spec:
  targetRefs: [{{group: gateway.kgateway.dev, kind: Backend, name: judge}}]
  tls: {{secretRef: {{name: trust}}, sni: judge.example}}
---
apiVersion: gateway.kgateway.dev/v1alpha1
kind: GatewayExtension
metadata: {{namespace: infra, name: judge}}
spec:
  extAuth:
    statusOnError: 503
    {how}Service:
      backendRef: {{group: gateway.kgateway.dev, kind: Backend, name: judge, port: {port}}}
      requestTimeout: 5s
---
apiVersion: gateway.kgateway.dev/v1alpha1
kind: TrafficPolicy
metadata: {{namespace: infra, name: judged}}
spec:
  targetRefs: [{{group: gateway.networking.k8s.io, kind: HTTPRoute, name: route}}]
  extAuth: {{extensionRef: {{name: judge}}}}
{}",
            trust(trusted, "")
        )
    };
    let world = World::start_as(&service("backend", &echo), "", &["--backend-allow-local", "true"]).await?;
    world.answers(200).await?;
    world.portcullis.write("more.yaml", &objects("grpc", &own))?;
    let judged = eventually(TIMEOUT, async || {
        let response = world.get().await?;
        let by = response.echoed.as_ref().and_then(|echoed| echoed.header("x-judged-by"));
        ensure!(by.as_deref() == Some("judge"), "{} {by:?}", response.status);
        Ok(())
    });
    judged.await.with_context(|| world.portcullis.log_tail())?;
    // Whose certificate is not expected is not asked.
    world.portcullis.write("more.yaml", &objects("grpc", &other))?;
    world.answers(503).await?;
    let seen = judge.count(any);
    world.portcullis.write("more.yaml", &objects("http", &own))?;
    world.answers(200).await?;
    ensure!(judge.count(any) > seen, "nobody was asked over HTTP");
    world.end().await
}
