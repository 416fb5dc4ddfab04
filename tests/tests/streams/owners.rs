//! Hostnames that belong to one, then to another, again and again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, ensure};
use portcullis_tests::certificates::{Certificate, KeyKind};
use portcullis_tests::client::{self, Connection, Request, Target, Tls};
use portcullis_tests::echo::Echo;
use portcullis_tests::envoy::Envoy;
use portcullis_tests::portcullis::Portcullis;
use portcullis_tests::wait::{TIMEOUT, eventually};
use portcullis_tests::{objects, ports};

use super::world::{Server, World, route, service, tls_to};

const TURNS: usize = 100;

/// A ListenerSet with a listener of HTTPS, and a route there to the Service of its name.
fn set(name: &str, year: u16, port: u16, hostname: &str) -> String {
    let parents = format!("{{group: gateway.networking.k8s.io, kind: ListenerSet, name: {name}}}");
    let rules = format!("  - backendRefs: [{{name: {name}, port: 80}}]");
    let route = objects::Route { name, parents: &parents, rules: &rules, ..Default::default() };
    format!(
        "
---
apiVersion: gateway.networking.k8s.io/v1
kind: ListenerSet
metadata: {{namespace: infra, name: {name}, creationTimestamp: '{year}-01-01T00:00:00Z'}}
spec:
  parentRef: {{name: gateway}}
  listeners:
  - {{name: web, port: {port}, protocol: HTTPS, hostname: {hostname}, tls: {{certificateRefs: [{{name: own}}]}}}}
{route}"
    )
}

fn over_tls(port: u16, name: &str) -> (Target, Request) {
    (Target { tls: Some(Tls::to(name)), ..Target::local(port) }, Request::get(name, "/"))
}

/// Who answers a request over a new connection.
async fn answering(port: u16, name: &str) -> Result<String> {
    let (target, request) = over_tls(port, name);
    let response = client::send(&target, &request).await?;
    Ok(response.echoed.with_context(|| format!("{} from {name}", response.status))?.backend)
}

/// Two ListenerSets want one hostname of HTTPS and two TLSRoutes another one, on a port where others are; who comes first takes it
/// and lets it go.
#[tokio::test(flavor = "multi_thread")]
async fn hostnames_whose_owner_changes_a_hundred_times_cost_no_neighbour_a_connection() -> Result<()> {
    let names = ["web.example", "n.example", "x.example", "t.example"].map(str::to_owned);
    let own = Certificate::new(&names, KeyKind::Ecdsa)?;
    let echo = |name| Echo::start(name, ([127, 0, 0, 1], 0).into());
    let (web, first, second) = (echo("web").await?, echo("first").await?, echo("second").await?);
    let server = |name| Server::tcp(name, own.server(None).ok());
    let (neighbour, one, two) = (server("neighbour").await?, server("one").await?, server("two").await?);
    let port = ports::free_port()?;
    let listeners = [
        format!(
            "{{name: web, port: {port}, protocol: HTTPS, hostname: web.example, tls: {{certificateRefs: [{{name: own}}]}}}}"
        ),
        format!("{{name: through, port: {port}, protocol: TLS, tls: {{mode: Passthrough}}}}"),
    ];
    let gateway = format!("{}  allowedListeners: {{namespaces: {{from: Same}}}}\n", objects::gateway(&listeners));
    let rules = "  - backendRefs: [{name: web, port: 80}]";
    let web_route = objects::Route { name: "web", hosts: "web.example", rules, ..Default::default() };
    let services =
        [("web", &web), ("first", &first), ("second", &second)].map(|(name, echo)| objects::service(name, echo));
    let streams = [("neighbour", &neighbour), ("one", &one), ("two", &two)].map(|(name, to)| service(name, "TCP", to));
    let named = |name: &str, year: u16, hostname: &str, to: &str| {
        let name = format!("{name}, creationTimestamp: '{year}-01-01T00:00:00Z'");
        route("TLSRoute", &name, "through", &format!("hostnames: [{hostname}]"), &[(to, 1)])
    };
    let base = [
        gateway,
        objects::secret("own", &own.certificate, &own.key),
        services.concat(),
        streams.concat(),
        web_route.to_string(),
        named("neighbour", 2026, "n.example", "neighbour"),
        set("second", 2026, port, "x.example"),
        named("b", 2026, "t.example", "two"),
    ];
    let turn = |at: usize| {
        let (x, t) = if at.is_multiple_of(2) { ("x.example", "t.example") } else { ("a.example", "u.example") };
        format!("{}{}", set("first", 2025, port, x), named("a", 2025, t, "one"))
    };
    let files = [("base.yaml".to_owned(), base.concat()), ("turn.yaml".to_owned(), turn(0))];
    let portcullis = Portcullis::start(&files).await?;
    let envoy = Envoy::start(&portcullis.bootstrap("infra/gateway").await?).await?;
    let world = World { portcullis, envoy };
    let session = eventually(TIMEOUT, async || tls_to(port, "n.example", &own).await).await;
    let (mut session, by) = session.with_context(|| world.portcullis.log_tail())?;
    ensure!(by == "neighbour", "{by}");
    let (target, request) = over_tls(port, "web.example");
    let mut requests = Connection::open(&target).await?;

    let stop = Arc::new(AtomicBool::new(false));
    let (stopped, trusted) = (Arc::clone(&stop), own.clone());
    let load = tokio::spawn(async move {
        let mut connections = 0;
        while !stopped.load(Ordering::Relaxed) {
            let by = answering(port, "web.example").await?;
            ensure!(by == "web", "{by} has the requests of another");
            let (mut talk, by) = tls_to(port, "n.example", &trusted).await?;
            ensure!(by == "neighbour", "{by} has the connections of another");
            talk.says("hello").await?;
            connections += 2;
        }
        Ok(connections)
    });
    for at in 1..=TURNS {
        world.portcullis.write("turn.yaml", &turn(at))?;
        let (x, t) = if at.is_multiple_of(2) { ("first", "one") } else { ("second", "two") };
        let changed = eventually(TIMEOUT, async || {
            let by = answering(port, "x.example").await?;
            ensure!(by == x, "turn {at}: {by} has it in place of {x}");
            Ok(())
        });
        changed.await.with_context(|| world.portcullis.log_tail())?;
        let changed = eventually(TIMEOUT, async || {
            let (_, by) = tls_to(port, "t.example", &own).await?;
            ensure!(by == t, "turn {at}: {by} has it in place of {t}");
            Ok(())
        });
        changed.await.with_context(|| world.portcullis.log_tail())?;
        session.says("still here").await.with_context(|| format!("turn {at}"))?;
        let answer = requests.send(&request).await.with_context(|| format!("turn {at}"))?;
        ensure!(answer.status == 200 && answer.header("connection").is_none(), "turn {at}: {}", answer.status);
    }
    stop.store(true, Ordering::Relaxed);
    let connections: usize = load.await??;
    println!("{connections} connections of neighbours, {TURNS} turns");

    let anew = Portcullis::start_on(&[world.portcullis.files().to_owned()], &[]).await?;
    let [now, from_scratch] = [world.portcullis.snapshot().await?, anew.snapshot().await?];
    ensure!(now["gateways"] == from_scratch["gateways"], "not as from scratch:\n{now}\n{from_scratch}");
    world.end().await
}
