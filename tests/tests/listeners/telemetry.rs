//! What servers are told of requests, as a ListenerPolicy says: logs, and traces.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context, Result, ensure};
use portcullis_tests::client::{self, Connection, Request, Response, Target};
use portcullis_tests::collector::{Collector, Record};
use portcullis_tests::echo::Echo;
use portcullis_tests::envoy::Envoy;
use portcullis_tests::portcullis::Portcullis;
use portcullis_tests::wait::{TIMEOUT, eventually};
use portcullis_tests::{objects, ports};
use tokio::{net::TcpListener, sync::Mutex};

/// A Gateway with a port, whose only route leads to Service `backend`, and no Service `collector` yet.
struct World {
    portcullis: Portcullis,
    envoy: Envoy,
    _echo: Echo,
    port: u16,
}

impl World {
    /// `http` is a flow mapping, or the whole manifest of it.
    async fn start(http: &str, collector: Option<SocketAddr>) -> Result<Self> {
        let echo = Echo::start("backend", (Ipv4Addr::LOCALHOST, 0).into()).await?;
        let port = ports::free_port()?;
        let rules = "  - backendRefs: [{name: backend, port: 80}]";
        let route = objects::Route { name: "route", rules, ..Default::default() };
        let gateway = objects::gateway(&[format!("{{name: web, port: {port}, protocol: HTTP}}")]);
        let base = format!("{gateway}{}{route}", objects::service("backend", &echo));
        let collector = collector.map(|address| objects::service_at("collector", address)).unwrap_or_default();
        let files = [("base.yaml", base), ("policy.yaml", policy(http)), ("collector.yaml", collector)];
        let files = files.map(|(name, text)| (name.to_owned(), text));
        let portcullis = Portcullis::start(&files).await?;
        let envoy = Envoy::start(&portcullis.bootstrap("infra/gateway").await?).await?;
        Ok(Self { portcullis, envoy, _echo: echo, port })
    }

    fn target(&self) -> Target {
        Target::local(self.port)
    }

    async fn answers(&self, request: &Request) -> Result<()> {
        let answered = eventually(TIMEOUT, async || served(&client::send(&self.target(), request).await?));
        answered.await.with_context(|| self.portcullis.log_tail())
    }

    /// Sends requests until something is told.
    async fn told<T>(&self, request: &Request, told: impl Fn() -> Option<T>) -> Result<T> {
        let told = eventually(TIMEOUT, async || {
            served(&client::send(&self.target(), request).await?)?;
            told().context("nobody is told")
        });
        told.await.with_context(|| self.envoy.log_tail())
    }

    /// How many requests were chosen to be traced.
    async fn traced(&self) -> Result<u64> {
        let stats = self.envoy.stats().await?;
        let of_listener = stats.iter().filter(|(name, _)| name.starts_with("http.http/"));
        Ok(of_listener.filter(|(name, _)| name.contains(".tracing.random_sampling")).map(|(_, count)| count).sum())
    }

    /// Bytes that the proxy holds.
    async fn memory(&self) -> Result<u64> {
        let memory = self.envoy.admin("/memory").await?;
        let memory: serde_json::Value = serde_json::from_str(&memory.body)?;
        memory["allocated"].as_str().and_then(|bytes| bytes.parse().ok()).context("no number of bytes")
    }

    async fn end(mut self) -> Result<()> {
        self.portcullis.was_never_refused().await?;
        self.portcullis.check()?;
        self.envoy.check().await
    }
}

fn served(response: &Response) -> Result<()> {
    ensure!(response.status == 200, "{} {}", response.status, response.body);
    Ok(())
}

fn policy(http: &str) -> String {
    format!(
        "
apiVersion: gateway.kgateway.dev/v1alpha1
kind: ListenerPolicy
metadata: {{namespace: infra, name: telemetry}}
spec:
  targetRefs: [{{group: gateway.networking.k8s.io, kind: Gateway, name: gateway}}]
  default: {{httpSettings: {http}}}
"
    )
}

fn traffic_policy(tracing: &str) -> String {
    format!(
        "
apiVersion: gateway.kgateway.dev/v1alpha1
kind: TrafficPolicy
metadata: {{namespace: infra, name: traced}}
spec:
  targetRefs: [{{group: gateway.networking.k8s.io, kind: HTTPRoute, name: route}}]
  tracing: {tracing}
"
    )
}

const TO: &str = "backendRef: {name: collector, port: 80}";

fn get(path: &str) -> Request {
    Request::get("example.com", path)
}

fn logs() -> String {
    format!(
        r#"{{accessLog: [
      {{grpcService: {{{TO}, logName: entries, additionalRequestHeadersToLog: [x-asked],
        additionalResponseHeadersToLog: [content-type]}}}},
      {{openTelemetry: {{grpcService: {{{TO}, logName: records, initialMetadata: [{{key: x-token, value: hush}}]}},
        body: "%REQ(:METHOD)% %REQ(:PATH)%",
        attributes: {{values: [{{key: status, value: {{stringValue: "%RESPONSE_CODE%"}}}},
          {{key: both, value: {{arrayValue: [{{stringValue: "%PROTOCOL%"}}, {{stringValue: literal}}]}}}},
          {{key: nested, value: {{kvListValue: {{values: [{{key: host, value: {{stringValue: "%REQ(:AUTHORITY)%"}}}}]}}}}}}]}},
        resourceAttributes: {{values: [{{key: tier, value: {{stringValue: "%PROTOCOL% to the letter"}}}}]}}}},
        filter: {{headerFilter: {{header: {{name: x-asked, value: "yes"}}}}}}}}]}}"#
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_arrive_with_what_is_asked_for_and_only_of_the_requests_that_are_chosen() -> Result<()> {
    let collector = Collector::start(0).await?;
    let world = World::start(&logs(), Some(collector.address())).await?;
    world.answers(&get("/passed")).await?;
    let request = get("/chosen").header("x-asked", "yes");
    let record = world.told(&request, || collector.records().into_iter().next()).await?;
    ensure!(record.text == "GET /chosen" && record.token == "hush", "{record:?}");
    let said = |map: &std::collections::BTreeMap<String, String>, key: &str| map.get(key).cloned().unwrap_or_default();
    ensure!(said(&record.attributes, "status") == "200", "{record:?}");
    ensure!(said(&record.attributes, "both") == "HTTP/1.1,literal", "{record:?}");
    ensure!(said(&record.attributes, "nested") == "host=example.com", "{record:?}");
    ensure!(said(&record.resource, "tier") == "%PROTOCOL% to the letter", "{record:?}");
    ensure!(said(&record.resource, "service.name") == "gateway.infra", "{record:?}");
    ensure!(said(&record.resource, "log_name") == "records", "{record:?}");
    let entry = world.told(&request, || {
        let asked = |entry: &envoy_types::pb::envoy::data::accesslog::v3::HttpAccessLogEntry| {
            entry.request.as_ref().is_some_and(|request| request.path == "/chosen")
        };
        collector.entries().into_iter().find(|(_, entry)| asked(entry))
    });
    let (name, entry) = entry.await?;
    ensure!(name == "entries", "{name}");
    let asked = entry.request.unwrap_or_default().request_headers;
    ensure!(asked.get("x-asked").is_some_and(|value| value == "yes"), "{asked:?}");
    let answered = entry.response.unwrap_or_default().response_headers;
    ensure!(answered.contains_key("content-type"), "{answered:?}");
    ensure!(collector.records().iter().all(|record| record.text == "GET /chosen"), "{:?}", collector.records());
    world.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_served_while_nobody_can_be_told_and_whoever_comes_later_is_told_over_connections_of_before()
-> Result<()> {
    let http =
        logs().replacen('{', &format!("{{tracing: {{provider: {{openTelemetry: {{grpcService: {{{TO}}}}}}}}}, "), 1);
    let world = World::start(&http, None).await?;
    world.answers(&get("/early")).await?;
    let before = Mutex::new(Connection::open(&world.target()).await?);
    let request = get("/late").header("x-asked", "yes");
    served(&before.lock().await.send(&request).await?)?;

    // One that takes connections and says nothing.
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    world.portcullis.write("collector.yaml", &objects::service_at("collector", silent.local_addr()?))?;
    silent.accept().await?;
    for _ in 0..20 {
        served(&before.lock().await.send(&request).await?)?;
    }
    ensure!(before.lock().await.is_open(), "a server that comes drained the listener");

    let collector = Collector::start(0).await?;
    world.portcullis.write("collector.yaml", &objects::service_at("collector", collector.address()))?;
    let told = eventually(TIMEOUT, async || {
        served(&before.lock().await.send(&request).await?)?;
        let (entries, records, spans) = (collector.entries(), collector.records(), collector.spans());
        ensure!(!entries.is_empty() && !records.is_empty() && !spans.is_empty(), "{records:?} {spans:?}");
        Ok(())
    });
    told.await.with_context(|| world.envoy.log_tail())?;

    // It goes again.
    drop(collector);
    world.portcullis.write("collector.yaml", "")?;
    for _ in 0..20 {
        served(&before.lock().await.send(&request).await?)?;
    }
    ensure!(before.lock().await.is_open(), "a server that goes drained the listener");
    world.end().await
}

/// What it does not take is held by the proxy, of which all tenants have a part: 64 KiB for each of these requests, twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_hangs_costs_a_proxy_little_however_much_it_is_told() -> Result<()> {
    let header = "%REQ(x-long)%".repeat(16);
    let attributes: Vec<_> =
        (0..15).map(|index| format!("{{name: a{index}, requestHeader: {{name: x-long}}}}")).collect();
    let http = format!(
        r#"{{tracing: {{provider: {{openTelemetry: {{grpcService: {{{TO}}}}}}}, attributes: [{}]}},
      accessLog: [{{openTelemetry: {{grpcService: {{{TO}, logName: records}}, body: "{header}"}}}}]}}"#,
        attributes.join(", ")
    );
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let world = World::start(&http, Some(silent.local_addr()?)).await?;
    let request = get("/long").header("x-long", &"v".repeat(8192));
    world.answers(&request).await?;
    let _held = silent.accept().await?;
    let before = world.memory().await?;
    let connection = Mutex::new(Connection::open(&world.target()).await?);
    for _ in 0..3000 {
        served(&connection.lock().await.send(&request).await?)?;
    }
    let dropped = eventually(TIMEOUT, async || {
        let stats = world.envoy.stats().await?;
        let dropped = stats.get("cluster.service/infra/collector/80/told.upstream_rq_active_overflow").copied();
        ensure!(dropped.is_some_and(|dropped| dropped > 0), "{dropped:?}");
        Ok(())
    });
    dropped.await.context("nothing was dropped")?;
    let more = world.memory().await?.saturating_sub(before);
    ensure!(more < 96 << 20, "{more} bytes for what nobody takes");
    world.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn spans_say_what_listener_and_route_ask_for() -> Result<()> {
    let collector = Collector::start(0).await?;
    let tracing = format!(
        "{{tracing: {{provider: {{openTelemetry: {{grpcService: {{{TO}}}, serviceName: shop}}}}, spawnUpstreamSpan: true, \
         attributes: [{{name: tier, literal: {{value: edge}}}}, {{name: asked, requestHeader: {{name: x-asked}}}}]}}}}"
    );
    let world = World::start(&tracing, Some(collector.address())).await?;
    let request = get("/spans").header("x-asked", "yes");
    let said = |record: &Record, key: &str| record.attributes.get(key).cloned().unwrap_or_default();
    let find = |key: &'static str, value: &'static str| {
        let spans = collector.spans();
        move || spans.iter().find(|span| said(span, key) == value).cloned()
    };
    let span = world.told(&request, || find("tier", "edge")()).await?;
    ensure!(said(&span, "asked") == "yes", "{span:?}");
    ensure!(span.resource.get("service.name").is_some_and(|name| name == "shop"), "{span:?}");

    // A connection that was there before follows the route.
    let before = Mutex::new(Connection::open(&world.target()).await?);
    served(&before.lock().await.send(&request).await?)?;
    world.portcullis.write("traffic.yaml", &traffic_policy("{attributes: [{name: tier, literal: {value: route}}]}"))?;
    let told = eventually(TIMEOUT, async || {
        served(&before.lock().await.send(&request).await?)?;
        find("tier", "route")().context("no span says so")
    });
    told.await?;

    world.portcullis.write("traffic.yaml", &traffic_policy("{disable: {}}"))?;
    let off = eventually(TIMEOUT, async || {
        let traced = world.traced().await?;
        served(&before.lock().await.send(&request).await?)?;
        ensure!(world.traced().await? == traced, "it is traced");
        Ok(())
    });
    off.await?;
    world.end().await
}
