//! How proxies connect to backends, as a BackendConfigPolicy says, and where no name of a Backend leads.

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
use serde_json::json;

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
        let port = ports::free_port()?;
        let listener = format!("{{name: http, port: {port}, protocol: HTTP}}");
        let rules = "  - backendRefs: [{name: backend, port: 80}]";
        let route = objects::Route { name: "route", rules, ..Default::default() };
        let base = format!("{}{service}{route}", objects::gateway(&[listener]));
        let portcullis = Portcullis::start(&[file("base.yaml", &base), file("more.yaml", more)]).await?;
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

/// Whoever owns a name decides what it means. Here it is one that every resolver knows.
#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_turns_out_to_be_local_gets_no_request() -> Result<()> {
    let echo = Echo::start("local", (LOOPBACK, 0).into()).await?;
    let settings = ir::Settings::default();
    let cluster = |name: &str, guarded| {
        let cluster = Cluster {
            name: name.into(),
            hosts: [Host { name: "localhost".into(), port: echo.address().port() }].into(),
            guarded,
            config: Arc::default(),
            protocol: Protocol::Http1,
            weighted_localities: false,
            connect_timeout: settings.connect_timeout,
            limits: settings.cluster,
        };
        let bytes = envoy::cluster::cluster(&cluster).body.to_bytes();
        envoy::json::value("envoy.config.cluster.v3.Cluster", &bytes)
    };
    let port = ports::free_port()?;
    let type_url = |name: &str| format!("type.googleapis.com/{name}");
    let routes =
        ["guarded", "open"].map(|name| json!({"match": {"prefix": format!("/{name}")}, "route": {"cluster": name}}));
    let manager = json!({
        "@type": type_url("envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"),
        "statPrefix": "local",
        "routeConfig": {"virtualHosts": [{"name": "all", "domains": ["*"], "routes": routes}]},
        "httpFilters": [{"name": "router", "typedConfig": {"@type": type_url("envoy.extensions.filters.http.router.v3.Router")}}],
    });
    let listener = json!({
        "name": "listener",
        "address": {"socketAddress": {"address": "127.0.0.1", "portValue": port}},
        "filterChains": [{"filters": [{"name": "manager", "typedConfig": manager}]}],
    });
    let envoy = Envoy::start(&json!({"staticResources": {
        "listeners": [listener], "clusters": [cluster("guarded", true)?, cluster("open", false)?],
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
