//! GRPCRoutes with peers that are no tests of ours: tonic as client and as server, with a real Envoy between.

#[path = "grpc/web.rs"]
mod web;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use portcullis_tests::calls::{Callee, Caller};
use portcullis_tests::client::{self, Target};
use portcullis_tests::echo::Echo;
use portcullis_tests::envoy::Envoy;
use portcullis_tests::portcullis::Portcullis;
use portcullis_tests::wait::{TIMEOUT, eventually};
use portcullis_tests::{objects, ports};
use tokio::sync::mpsc;
use tonic::{Code, Request};

const HOST: &str = "calls.example";

/// A GRPCRoute of `infra/gateway`; `rules` is a list in block style, indented by two.
fn grpc_route(name: &str, host: &str, rules: &str) -> String {
    let route = objects::Route { name, hosts: host, rules, ..Default::default() };
    route.to_string().replace("kind: HTTPRoute", "kind: GRPCRoute")
}

struct World {
    portcullis: Portcullis,
    envoy: Envoy,
    port: u16,
}

impl World {
    /// A Gateway, Services at these addresses, and routes.
    async fn start(services: &[(&str, SocketAddr)], routes: &str) -> Result<Self> {
        let port = ports::free_port()?;
        let listener = format!("{{name: http, port: {port}, protocol: HTTP}}");
        let services: String = services.iter().map(|(name, address)| objects::service_at(name, *address)).collect();
        let base = format!("{}{services}", objects::gateway(&[listener]));
        let files = [("base.yaml".to_owned(), base), ("routes.yaml".to_owned(), routes.to_owned())];
        let portcullis = Portcullis::start(&files).await?;
        let envoy = Envoy::start(&portcullis.bootstrap("infra/gateway").await?).await?;
        Ok(Self { portcullis, envoy, port })
    }

    fn caller(&self) -> Result<Caller> {
        Caller::new(self.port, HOST)
    }

    /// Waits until a call is answered.
    async fn answers(&self, path: &str) -> Result<()> {
        let answered = eventually(TIMEOUT, async || {
            self.caller()?.call(path, &[]).await?;
            anyhow::Ok(())
        });
        answered.await.with_context(|| self.portcullis.log_tail())
    }

    async fn end(mut self) -> Result<()> {
        self.portcullis.check()?;
        self.portcullis.was_never_refused().await?;
        self.envoy.check().await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_go_by_service_method_and_headers() -> Result<()> {
    let callees = [Callee::start("exact").await?, Callee::start("service").await?, Callee::start("other").await?];
    let names = ["exact", "service", "other"];
    let services: Vec<_> = names.into_iter().zip(callees.iter().map(Callee::address)).collect();
    let rules = "
  - matches: [{method: {service: shop.Cart, method: Add}}]
    backendRefs: [{name: exact, port: 80}]
  - matches: [{method: {service: shop.Cart}}]
    backendRefs: [{name: service, port: 80}]
  - matches: [{method: {type: RegularExpression, service: 'shop.+', method: '(Get|List).*'}}]
    backendRefs: [{name: other, port: 80}]
    filters:
    - {type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: x-set, value: one}], remove: [x-gone]}}
    - {type: ResponseHeaderModifier, responseHeaderModifier: {set: [{name: x-answered, value: two}]}}
  - matches: [{method: {method: Ping}}]
    backendRefs: [{name: exact, port: 80}]
  - matches: [{headers: [{name: version, value: next}]}]
    backendRefs: [{name: other, port: 80}]
  - matches: [{headers: [{name: version, type: RegularExpression, value: 'v[0-9]+'}]}]
    backendRefs: [{name: service, port: 80}]";
    let world = World::start(&services, &grpc_route("r", HOST, rules)).await?;
    let mut caller = world.caller()?;
    world.answers("/shop.Cart/Add").await?;
    for (path, headers, backend) in [
        ("/shop.Cart/Add", &[][..], "exact"),
        ("/shop.Cart/Remove", &[], "service"),
        ("/shop.Cart/ListAll", &[], "service"),
        ("/shop.Orders/ListAll", &[], "other"),
        ("/any.Thing/Ping", &[], "exact"),
        ("/any.Thing/Pong", &[("version", "next")], "other"),
        ("/any.Thing/Pong", &[("version", "v12")], "service"),
    ] {
        let answer = caller.call(path, headers).await.with_context(|| format!("{path} {headers:?}"))?;
        ensure!((&*answer.backend, &*answer.path) == (backend, path), "{path} {headers:?}: {answer:?}");
        ensure!(answer.message == "hello", "{answer:?}");
    }
    for (path, headers) in [("/shop.Carts/Add", &[][..]), ("/any.Thing/Pong", &[("version", "new")])] {
        let missed = caller.call(path, headers).await.expect_err("nobody serves it");
        ensure!(missed.code() == Code::Unimplemented, "{path}: {missed:?}");
    }
    let changed = caller.call("/shop.Orders/Get", &[("x-gone", "1"), ("x-kept", "2")]).await?;
    let seen = ["x-set", "x-gone", "x-kept"].map(|name| changed.metadata.get(name).map(String::as_str));
    ensure!(seen == [Some("one"), None, Some("2")], "{changed:?}");
    let answered = caller.unary("/shop.Orders/Get", Request::new("hello".to_owned())).await?;
    ensure!(answered.metadata().get("x-answered").is_some_and(|value| value == "two"), "{answered:?}");
    world.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn statuses_trailers_deadlines_and_streams_pass() -> Result<()> {
    let callee = Callee::start("callee").await?;
    let rules = "  - backendRefs: [{name: callee, port: 80}]";
    let world = World::start(&[("callee", callee.address())], &grpc_route("r", HOST, rules)).await?;
    let mut caller = world.caller()?;
    world.answers("/a.B/Get").await?;

    let failed = caller.unary("/a.B/Get", Request::new("fail".to_owned())).await.expect_err("as asked");
    ensure!((failed.code(), failed.message()) == (Code::AlreadyExists, "as asked"), "{failed:?}");

    let mut waiting = Request::new("wait".to_owned());
    waiting.set_timeout(Duration::from_millis(200));
    let late = caller.unary("/a.B/Get", waiting).await.expect_err("it never answers");
    ensure!(matches!(late.code(), Code::DeadlineExceeded | Code::Cancelled), "{late:?}");
    let mut told = Request::new("hello".to_owned());
    told.set_timeout(Duration::from_secs(30));
    let told = caller.unary("/a.B/Get", told).await?.into_inner();
    ensure!(told.contains("\"grpc-timeout\""), "the backend is told the deadline: {told}");

    let watched: Vec<_> = caller.watch("/a.B/Watch", "1000").await?.try_collect().await?;
    ensure!(watched.len() == 1000 && watched[999] == "callee: 999", "{watched:?}");
    let mut failing = caller.watch("/a.B/Watch", "2 fail").await?;
    ensure!(failing.next().await.transpose()?.as_deref() == Some("callee: 0"));
    ensure!(failing.next().await.transpose()?.as_deref() == Some("callee: 1"));
    let end = failing.next().await.context("an end")?.expect_err("as asked");
    ensure!(end.code() == Code::Aborted && end.metadata().get("x-trailer").is_some_and(|it| it == "told"), "{end:?}");

    let said: Vec<_> = (0..100).map(|number| number.to_string()).collect();
    let heard: Vec<_> = caller.chat("/a.B/Chat", stream::iter(said)).await?.try_collect().await?;
    ensure!(heard.len() == 100 && heard[99] == "callee: 99", "{heard:?}");
    world.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_broken_is_unavailable_and_what_nobody_serves_unimplemented() -> Result<()> {
    let callee = Callee::start("callee").await?;
    let gone = (Ipv4Addr::LOCALHOST, ports::free_port()?).into();
    let policy = "
---
apiVersion: gateway.kgateway.dev/v1alpha1
kind: TrafficPolicy
metadata: {namespace: infra, name: late}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: GRPCRoute, name: r, sectionName: late}]
  timeouts: {request: 100ms}
---
apiVersion: v1
kind: Service
metadata: {namespace: infra, name: empty}
spec: {ports: [{port: 80}]}
";
    let rules = "
  - matches: [{method: {service: no.Backend}}]
  - matches: [{method: {service: no.Service}}]
    backendRefs: [{name: missing, port: 80}]
  - matches: [{method: {service: no.Endpoint}}]
    backendRefs: [{name: empty, port: 80}]
  - matches: [{method: {service: no.Listener}}]
    backendRefs: [{name: gone, port: 80}]
  - matches: [{method: {service: bad.Filter}}]
    filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: Host, value: a}]}}]
    backendRefs: [{name: callee, port: 80}]
  - name: late
    matches: [{method: {service: too.Late}}]
    backendRefs: [{name: callee, port: 80}]
  - matches: [{method: {service: half.Broken}}]
    backendRefs: [{name: missing, port: 80}, {name: callee, port: 80}]
  - matches: [{method: {service: a.Sound}}]
    backendRefs: [{name: callee, port: 80}]";
    let routes = format!("{}{policy}", grpc_route("r", HOST, rules));
    let world = World::start(&[("callee", callee.address()), ("gone", gone)], &routes).await?;
    let mut caller = world.caller()?;
    world.answers("/a.Sound/Get").await?;
    for (service, code) in [
        ("no.Backend", Code::Unavailable),
        ("no.Service", Code::Unavailable),
        ("no.Endpoint", Code::Unavailable),
        ("no.Listener", Code::Unavailable),
        ("bad.Filter", Code::Unavailable),
        ("no.Match", Code::Unimplemented),
    ] {
        let refused = caller.call(&format!("/{service}/Get"), &[]).await.expect_err("it is broken");
        ensure!(refused.code() == code, "{service}: {refused:?}");
    }
    let late = caller.unary("/too.Late/Get", Request::new("wait".to_owned())).await.expect_err("it never answers");
    ensure!(matches!(late.code(), Code::Unavailable | Code::DeadlineExceeded), "{late:?}");
    let mut counted: BTreeMap<i32, usize> = BTreeMap::new();
    for _ in 0..200 {
        let code = caller.call("/half.Broken/Get", &[]).await.map_or_else(|status| status.code(), |_| Code::Ok);
        *counted.entry(code as i32).or_default() += 1;
    }
    let shares = [Code::Ok, Code::Unavailable].map(|code| counted.remove(&(code as i32)).unwrap_or_default());
    ensure!(counted.is_empty() && shares.iter().all(|share| *share > 50), "{shares:?} {counted:?}");
    world.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn weights_mirrors_and_retries_hold() -> Result<()> {
    let (one, two, copies) = (
        Callee::start("one").await?,
        Callee::start("two").await?,
        Echo::start("copies", ([127, 0, 0, 1], 0).into()).await?,
    );
    let rules = "
  - matches: [{method: {service: shop.Cart}}]
    backendRefs: [{name: one, port: 80, weight: 3}, {name: two, port: 80, weight: 1}]
    filters: [{type: RequestMirror, requestMirror: {backendRef: {name: copies, port: 80}}}]
  - name: tried
    matches: [{method: {service: shop.Tried}}]
    backendRefs: [{name: one, port: 80}]
  - matches: [{method: {service: shop.Untried}}]
    backendRefs: [{name: one, port: 80}]";
    let policy = "
---
apiVersion: gateway.kgateway.dev/v1alpha1
kind: TrafficPolicy
metadata: {namespace: infra, name: tried}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: GRPCRoute, name: r, sectionName: tried}]
  retry: {retryOn: [unavailable], attempts: 1}
";
    let services = [("one", one.address()), ("two", two.address()), ("copies", copies.address())];
    let world = World::start(&services, &format!("{}{policy}", grpc_route("r", HOST, rules))).await?;
    let mut caller = world.caller()?;
    world.answers("/shop.Cart/Add").await?;
    let mut shares: BTreeMap<String, usize> = BTreeMap::new();
    for _ in 0..400 {
        *shares.entry(caller.call("/shop.Cart/Add", &[]).await?.backend).or_default() += 1;
    }
    ensure!((240..360).contains(&shares["one"]) && shares["one"] + shares["two"] == 400, "{shares:?}");
    let copied = eventually(TIMEOUT, async || {
        let count = copies.count(|seen| seen.path == "/shop.Cart/Add" && seen.protocol == "HTTP/2.0");
        ensure!(count >= 400, "{count} copies");
        Ok(())
    });
    copied.await?;
    let flaky = || Request::new("flaky".to_owned());
    caller.unary("/shop.Tried/Get", flaky()).await?;
    let untried = caller.unary("/shop.Untried/Get", flaky()).await.expect_err("every other time it is not there");
    ensure!(untried.code() == Code::Unavailable, "{untried:?}");
    caller.unary("/shop.Untried/Get", flaky()).await?;
    world.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn http_routes_of_the_hostname_go_on_beside_it() -> Result<()> {
    let callee = Callee::start("callee").await?;
    let echo = Echo::start("echo", ([127, 0, 0, 1], 0).into()).await?;
    let http = objects::Route {
        name: "h",
        hosts: HOST,
        rules: "  - backendRefs: [{name: echo, port: 80}]",
        ..Default::default()
    };
    let grpc = grpc_route(
        "r",
        HOST,
        "
  - {matches: [{method: {service: a.B}}], backendRefs: [{name: callee, port: 80}]}
  - {matches: [{method: {service: both}}], backendRefs: [{name: echo, port: 80}]}",
    );
    let services = [("callee", callee.address()), ("echo", echo.address())];
    let world = World::start(&services, &format!("{http}{grpc}")).await?;
    let mut caller = world.caller()?;
    world.answers("/a.B/Get").await?;
    let plain = client::send(&Target::local(world.port), &client::Request::get(HOST, "/a.B/Get")).await?;
    ensure!(plain.status == 200 && plain.body.contains("HTTP/1.1"), "{plain:?}");
    // The same port of the same Service, in two protocols.
    drop(caller.call("/both/Get", &[]).await);
    let spoken = |path: &str| echo.latest(|seen| seen.path == path).map(|seen| seen.protocol);
    ensure!(spoken("/both/Get").as_deref() == Some("HTTP/2.0"), "{:?}", spoken("/both/Get"));
    ensure!(spoken("/a.B/Get").as_deref() == Some("HTTP/1.1"), "{:?}", spoken("/a.B/Get"));
    // A call that no GRPCRoute takes is a request like any other.
    drop(caller.call("/c.D/Get", &[]).await);
    ensure!(spoken("/c.D/Get").as_deref() == Some("HTTP/1.1"), "{:?}", spoken("/c.D/Get"));
    world.end().await
}

/// How often routes change while streams are open.
const MOVES: usize = 40;

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_outlives_changes_of_its_route_and_no_call_is_lost() -> Result<()> {
    let (one, two) = (Callee::start("one").await?, Callee::start("two").await?);
    let of = |backend: &str, number: usize| {
        let rules = format!(
            "
  - matches: [{{method: {{service: a.B}}}}]
    backendRefs: [{{name: {backend}, port: 80}}]
    filters:
    - {{type: RequestHeaderModifier, requestHeaderModifier: {{set: [{{name: x-move, value: '{number}'}}]}}}}
  - matches: [{{method: {{service: c.D, method: M{number}}}}}]
    backendRefs: [{{name: two, port: 80}}]"
        );
        let other = objects::Route {
            name: "other",
            hosts: HOST,
            rules: &format!(
                "  - {{matches: [{{path: {{value: /{number}}}}}], backendRefs: [{{name: two, port: 80}}]}}"
            ),
            ..Default::default()
        }
        .to_string();
        format!("{}{other}", grpc_route("r", HOST, &rules))
    };
    let world = World::start(&[("one", one.address()), ("two", two.address())], &of("one", 0)).await?;
    let mut caller = world.caller()?;
    world.answers("/a.B/Get").await?;

    let (say, mut said) = mpsc::channel::<String>(1);
    let mut heard = caller.chat("/a.B/Chat", stream::poll_fn(move |context| said.poll_recv(context))).await?;
    for number in 1..=MOVES {
        let backend = if number % 2 == 0 { "one" } else { "two" };
        world.portcullis.write("routes.yaml", &of(backend, number))?;
        // Calls go on without a gap until the change has come, and none fails.
        let moved = eventually(TIMEOUT, async || {
            let answer =
                caller.clone().call("/a.B/Get", &[]).await.map_err(|status| anyhow::anyhow!("FAILED {status:?}"));
            let answer = match answer {
                Ok(answer) => answer,
                Err(error) => panic!("a call was lost at move {number}: {error}"),
            };
            ensure!(answer.metadata.get("x-move") == Some(&number.to_string()), "{answer:?}");
            ensure!(answer.backend == backend, "{answer:?}");
            Ok(())
        });
        moved.await.with_context(|| world.portcullis.log_tail())?;
        say.send(number.to_string()).await?;
        let echoed = heard.next().await.context("the stream ended")??;
        ensure!(echoed == format!("one: {number}"), "the stream stays where it began: {echoed}");
    }
    drop(say);
    ensure!(heard.next().await.is_none(), "it ends as the client ends it");
    world.end().await
}
