//! What a proxy refuses though all checks in process let it through: a real Envoy refuses it, another one finds who is to blame, and
//! nobody else goes without what changed.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use portcullis_tests::envoy::Envoy;
use portcullis_tests::portcullis::{Portcullis, run};
use portcullis_tests::process::envoy_binary;
use portcullis_tests::wait::{TIMEOUT, eventually};
use serde_json::Value;

use crate::fake::Fake;
use crate::running::{Load, World, route};

/// A route of two rules, the second of which a policy has say something more.
fn mixed(said: &str, more: &str) -> (String, String) {
    let (name, content) = route("r", &[("/sound", said), ("/bad", said)]);
    let content = content.replace("{matches: [{path: {value: /bad}}]", "{name: bad, matches: [{path: {value: /bad}}]");
    let target = "{group: gateway.networking.k8s.io, kind: HTTPRoute, name: r, sectionName: bad}";
    let policy = format!(
        "---\napiVersion: gateway.kgateway.dev/v1alpha1\nkind: TrafficPolicy\nmetadata: {{name: more, namespace: infra}}\n\
         spec: {{targetRefs: [{target}], headerModifiers: {{request: {{set: [{{name: x-more, value: '{more}'}}]}}}}}}\n"
    );
    (name, format!("{content}{policy}"))
}

/// What no check in process sees, in programs with debug assertions, and Envoy refuses.
const UNSEEN: &str = "test.portcullis.dev/unchecked %NO_SUCH_COMMAND%";
const ANOTHER: &str = "test.portcullis.dev/unchecked %NOR_THIS%";

const NACKS: &str = "portcullis_xds_nacks_total{gateway=\"infra/gateway\",type=\"RouteConfiguration\"}";
const FOUND: &str = "portcullis_nack_isolations_total{outcome=\"found\"}";
const HELD: &str = "portcullis_quarantined_fragments";

/// Standard, with an Envoy that finds out who is to blame, and a folder for records.
fn flags(state: &Path) -> Result<Vec<String>> {
    Ok(flags_with(&envoy_binary()?, state))
}

fn flags_with(envoy: &Path, state: &Path) -> Vec<String> {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    vec!["--judge-with".to_owned(), text(envoy), "--state".to_owned(), text(state)]
}

async fn counts(portcullis: &Portcullis, series: &str, wanted: f64) -> Result<()> {
    eventually(TIMEOUT, async || {
        let value = portcullis.metric(series).await?.unwrap_or_default();
        ensure!((value - wanted).abs() < 0.5, "{series} is {value}, not {wanted}");
        anyhow::Ok(())
    })
    .await
    .with_context(|| portcullis.log_tail())
}

/// The Envoy route of a path, as it is sent.
async fn row(portcullis: &Portcullis, path: &str) -> Result<Value> {
    fn find(value: &Value, path: &str) -> Option<Value> {
        match value {
            Value::Object(fields) if fields.get("match").is_some_and(|it| it["pathSeparatedPrefix"] == path) => {
                Some(value.clone())
            }
            Value::Object(fields) => fields.values().find_map(|value| find(value, path)),
            Value::Array(all) => all.iter().find_map(|value| find(value, path)),
            _ => None,
        }
    }
    find(&portcullis.snapshot().await?["gateways"], path).with_context(|| format!("no route of {path}"))
}

async fn records(state: &Path, action: &[&str]) -> Result<String> {
    run(&[&["records", "verdicts"], action, &["--state", &state.to_string_lossy()]].concat()).await
}

/// What is found is told before it is stored.
async fn is_recorded(state: &Path, object: &str) -> Result<()> {
    eventually(TIMEOUT, async || {
        let listed = records(state, &[]).await?;
        ensure!(listed.contains(object), "{listed}");
        anyhow::Ok(())
    })
    .await
}

/// A route that the proxy refuses is replaced, and told: what comes beside it is served, and so is what was there.
async fn is_replaced_alone(world: &World, portcullis: &Portcullis) -> Result<()> {
    let before = row(portcullis, "/other").await?;
    let (name, broken) = mixed("2", UNSEEN);
    portcullis.write(&name, &broken)?;
    world.answers("/bad", 500, "", portcullis).await?;
    world.answers("/sound", 200, "2", portcullis).await?;
    world.answers("/other", 200, "1", portcullis).await?;
    ensure!(row(portcullis, "/other").await? == before, "a route of somebody else is another one");
    for (series, value) in [(NACKS, 1.0), (FOUND, 1.0), (HELD, 1.0)] {
        counts(portcullis, series, value).await?;
    }
    let status = portcullis.admin("/debug/status?kind=HTTPRoute").await?.body;
    for words in ["spec.rules[1].matches[0]", "a proxy refused it (verdict ", "Envoy 1.40.0 refuses it: "] {
        ensure!(status.contains(words), "no {words:?} in {status}");
    }
    // The proxy takes what came then.
    eventually(TIMEOUT, async || {
        let gateway = portcullis.admin("/debug/status?kind=Gateway").await?.body;
        ensure!(!gateway.contains("Envoy refuses its configuration"), "{gateway}");
        anyhow::Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_proxy_refuses_is_found_and_replaced_alone_told_and_never_sent_again() -> Result<()> {
    let state = tempfile::tempdir()?;
    let world = World::new(&[mixed("1", "1"), route("other", &[("/other", "1")])]).await?;
    let mut portcullis = Portcullis::start_with(&world.files, &flags(state.path())?).await?;
    let bootstrap = portcullis.bootstrap("infra/gateway").await?;
    let mut proxy = Envoy::start(&bootstrap).await?;
    for path in ["/sound", "/bad", "/other"] {
        world.answers(path, 200, "1", &portcullis).await?;
    }
    let load = [Load::start(&world.target(), "/other"), Load::start(&world.target(), "/sound")];
    is_replaced_alone(&world, &portcullis).await?;

    // Neither a new process nor a new proxy meets it.
    is_recorded(state.path(), "HTTPRoute infra/r ").await?;
    portcullis.restart().await?;
    counts(&portcullis, HELD, 1.0).await?;
    let mut another = Envoy::start(&portcullis.bootstrap("infra/gateway").await?).await?;
    world.answers("/bad", 500, "", &portcullis).await?;
    world.answers("/sound", 200, "2", &portcullis).await?;
    portcullis.was_never_refused().await?;
    another.check().await?;
    drop(another);

    // It changes, and is tried anew: to something else that is refused, and to what is sound.
    let (name, broken) = mixed("3", ANOTHER);
    portcullis.write(&name, &broken)?;
    world.answers("/sound", 200, "3", &portcullis).await?;
    world.answers("/bad", 500, "", &portcullis).await?;
    counts(&portcullis, HELD, 2.0).await?;
    let (name, mended) = mixed("4", "4");
    portcullis.write(&name, &mended)?;
    for path in ["/sound", "/bad"] {
        world.answers(path, 200, "4", &portcullis).await?;
    }
    let status = portcullis.admin("/debug/status?kind=HTTPRoute").await?.body;
    ensure!(!status.contains("a proxy refused it"), "{status}");

    // One that is forgotten is tried again too, and found again.
    let (name, broken) = mixed("5", ANOTHER);
    portcullis.write(&name, &broken)?;
    world.answers("/sound", 200, "5", &portcullis).await?;
    world.answers("/bad", 500, "", &portcullis).await?;
    let nacks = portcullis.metric(NACKS).await?.unwrap_or_default();
    records(state.path(), &["forget", "all"]).await?;
    eventually(TIMEOUT, async || {
        let now = portcullis.metric(NACKS).await?.unwrap_or_default();
        ensure!(now > nacks, "{now} refused, as before");
        anyhow::Ok(())
    })
    .await
    .with_context(|| portcullis.log_tail())?;
    counts(&portcullis, HELD, 1.0).await?;
    world.answers("/bad", 500, "", &portcullis).await?;
    world.answers("/sound", 200, "5", &portcullis).await?;
    for load in load {
        load.finish().await.with_context(|| portcullis.log_tail())?;
    }
    portcullis.check()?;
    proxy.check_alive()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_version_refused_is_not_sent_again_before_its_proxies_had_the_time_to_come_back() -> Result<()> {
    let state = tempfile::tempdir()?;
    let world = World::new(&[mixed("1", "1")]).await?;
    // One that judges refuses what is sound, too.
    let odd = Fake::new("if b'second' in data: refuse('no')\n")?;
    let mut portcullis = Portcullis::start_with(&world.files, &flags_with(&odd.path, state.path())).await?;
    let proxy = Envoy::start(&portcullis.bootstrap("infra/gateway").await?).await?;
    world.answers("/sound", 200, "1", &portcullis).await?;
    let (name, broken) = mixed("second", UNSEEN);
    portcullis.write(&name, &broken)?;
    for path in ["/sound", "/bad"] {
        world.answers(path, 500, "", &portcullis).await?;
    }
    counts(&portcullis, HELD, 2.0).await?;
    let record = state.path().join("verdicts/portcullis-verdicts.json");
    eventually(TIMEOUT, async || {
        let listed = records(state.path(), &[]).await?;
        ensure!(listed.lines().count() == 2, "{listed}");
        anyhow::Ok(())
    })
    .await?;
    portcullis.terminate().await?;
    drop(proxy);

    // It was another version that refused all of that, whose last proxy is gone for years.
    let mut written: Value = serde_json::from_slice(&std::fs::read(&record)?)?;
    for verdict in written["entries"].as_object_mut().context("no verdicts")?.values_mut() {
        verdict["version"] = "1.39.0".into();
    }
    written["seen"] = serde_json::json!({"1.39.0": "2020-01-01T00:00:00Z"});
    std::fs::write(&record, serde_json::to_vec(&written)?)?;
    let files = [world.files[0].clone(), (name, broken)];
    let mut portcullis = Portcullis::start_with(&files, &flags(state.path())?).await?;
    let mut proxy = Envoy::start(&portcullis.bootstrap("infra/gateway").await?).await?;
    // It is seen that a proxy of this version is there, and nothing else comes of it.
    eventually(TIMEOUT, async || {
        let written: Value = serde_json::from_slice(&std::fs::read(&record)?)?;
        ensure!(written["seen"]["1.40.0"].is_string(), "{written:#}");
        anyhow::Ok(())
    })
    .await
    .with_context(|| portcullis.log_tail())?;
    for path in ["/sound", "/bad"] {
        world.answers(path, 500, "", &portcullis).await?;
    }
    counts(&portcullis, HELD, 2.0).await?;
    portcullis.was_never_refused().await?;
    portcullis.check()?;
    proxy.check_alive()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_that_has_nothing_yet_is_served_all_else() -> Result<()> {
    let state = tempfile::tempdir()?;
    let mut routes: Vec<_> =
        (0..20).map(|number| route(&format!("r{number}"), &[(&format!("/{number}"), "1")])).collect();
    routes.push(mixed("1", UNSEEN));
    let world = World::new(&routes).await?;
    let mut portcullis = Portcullis::start_with(&world.files, &flags(state.path())?).await?;
    let mut proxy = Envoy::start(&portcullis.bootstrap("infra/gateway").await?).await?;
    for number in 0..20 {
        world.answers(&format!("/{number}"), 200, "1", &portcullis).await?;
    }
    world.answers("/sound", 200, "1", &portcullis).await?;
    world.answers("/bad", 500, "", &portcullis).await?;
    for (series, value) in [(NACKS, 1.0), (FOUND, 1.0), (HELD, 1.0)] {
        counts(&portcullis, series, value).await?;
    }
    portcullis.check()?;
    proxy.check_alive()
}

/// Connections to Service `bad` over TLS, with ciphers of this name.
fn secured(cipher: &str) -> String {
    format!(
        "---\napiVersion: gateway.kgateway.dev/v1alpha1\nkind: BackendConfigPolicy\nmetadata: {{name: tls, namespace: infra}}\n\
         spec: {{targetRefs: [{{group: '', kind: Service, name: bad}}], \
         tls: {{insecureSkipVerify: true, parameters: {{cipherSuites: ['{cipher}']}}}}}}\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_a_proxy_refuses_is_left_out_alone_and_what_came_with_it_is_served() -> Result<()> {
    let state = tempfile::tempdir()?;
    let to = |name: &str, to: &str, said: &str| {
        let (file, content) = route(name, &[(&format!("/{name}"), said)]);
        (file, content.replace("name: s,", &format!("name: {to},")))
    };
    let world = World::new(&[to("bad", "bad", "1"), to("other", "s", "1")]).await?;
    let mut portcullis = Portcullis::start_with(&world.files, &flags(state.path())?).await?;
    let mut proxy = Envoy::start(&portcullis.bootstrap("infra/gateway").await?).await?;
    world.answers("/bad", 500, "", &portcullis).await?;
    world.answers("/other", 200, "1", &portcullis).await?;
    let load = Load::start(&world.target(), "/other");

    // One change brings the cluster that is refused and another one, which is not.
    let (name, new) = to("new", "new", "1");
    let services = ["bad", "new"].map(|name| world.service(name)).concat();
    portcullis.write(&name, &format!("{new}{services}{}", secured("test.portcullis.dev/unchecked")))?;
    let nacks = "portcullis_xds_nacks_total{gateway=\"infra/gateway\",type=\"Cluster\"}";
    for (series, value) in [(nacks, 1.0), (FOUND, 1.0), (HELD, 1.0)] {
        counts(&portcullis, series, value).await?;
    }
    world.answers("/bad", 500, "", &portcullis).await?;
    world.answers("/new", 200, "1", &portcullis).await?;
    let status = portcullis.admin("/debug/status?kind=HTTPRoute").await?.body;
    ensure!(status.contains("Service infra/bad port 80 cannot be used: a proxy refused it (verdict "), "{status}");
    eventually(TIMEOUT, async || {
        let gateway = portcullis.admin("/debug/status?kind=Gateway").await?.body;
        ensure!(!gateway.contains("Envoy refuses its configuration"), "{gateway}");
        anyhow::Ok(())
    })
    .await?;
    is_recorded(state.path(), "Service infra/bad ").await?;

    // Neither a new process nor a new proxy meets it; what changes is tried anew.
    portcullis.restart().await?;
    let mut another = Envoy::start(&portcullis.bootstrap("infra/gateway").await?).await?;
    world.answers("/new", 200, "1", &portcullis).await?;
    world.answers("/bad", 500, "", &portcullis).await?;
    portcullis.was_never_refused().await?;
    another.check().await?;
    drop(another);
    portcullis.write(&name, &format!("{new}{services}"))?;
    world.answers("/bad", 200, "1", &portcullis).await?;
    load.finish().await.with_context(|| portcullis.log_tail())?;
    portcullis.check()?;
    proxy.check_alive()
}

/// Has a service told of requests, in calls with a header that is longer than Envoy lets a listener say.
const TELLING: &str = "---
apiVersion: gateway.kgateway.dev/v1alpha1
kind: ListenerPolicy
metadata: {name: telling, namespace: infra}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: gateway}]
  default:
    httpSettings:
      accessLog:
      - grpcService:
          backendRef: {name: s, port: 80}
          logName: entries
          initialMetadata: [{key: x-odd, value: test.portcullis.dev/uncheckedLONG}]
";

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_that_a_proxy_refuses_goes_on_as_it_was_and_its_gateway_is_told() -> Result<()> {
    let state = tempfile::tempdir()?;
    let world = World::new(&[route("r", &[("/a", "1")])]).await?;
    let mut portcullis = Portcullis::start_with(&world.files, &flags(state.path())?).await?;
    let mut proxy = Envoy::start(&portcullis.bootstrap("infra/gateway").await?).await?;
    world.answers("/a", 200, "1", &portcullis).await?;
    let load = Load::start(&world.target(), "/a");
    portcullis.write("telling.yaml", &TELLING.replace("LONG", &"x".repeat(17_000)))?;
    counts(&portcullis, &NACKS.replace("RouteConfiguration", "Listener"), 1.0).await?;
    let tells = async |is_so: bool| {
        eventually(TIMEOUT, async || {
            let gateway = portcullis.admin("/debug/status?kind=Gateway").await?.body;
            ensure!(gateway.contains("Envoy refuses its configuration") == is_so, "{gateway}");
            anyhow::Ok(())
        })
        .await
        .with_context(|| portcullis.log_tail())
    };
    tells(true).await?;
    // Its routes change all the same.
    let (name, content) = route("r", &[("/a", "2")]);
    portcullis.write(&name, &content)?;
    world.answers("/a", 200, "2", &portcullis).await?;
    counts(&portcullis, HELD, 0.0).await?;
    portcullis.remove("telling.yaml")?;
    tells(false).await?;
    world.answers("/a", 200, "2", &portcullis).await?;
    load.finish().await.with_context(|| portcullis.log_tail())?;
    portcullis.check()?;
    proxy.check_alive()
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_judge_the_proxy_itself_says_what_it_refuses_and_that_alone_is_replaced() -> Result<()> {
    let state = tempfile::tempdir()?;
    let world = World::new(&[mixed("1", "1"), route("other", &[("/other", "1")])]).await?;
    let flags = ["--state".to_owned(), state.path().to_string_lossy().into_owned()];
    let mut portcullis = Portcullis::start_with(&world.files, &flags).await?;
    let mut proxy = Envoy::start(&portcullis.bootstrap("infra/gateway").await?).await?;
    for path in ["/sound", "/bad", "/other"] {
        world.answers(path, 200, "1", &portcullis).await?;
    }
    let load = [Load::start(&world.target(), "/other"), Load::start(&world.target(), "/sound")];
    is_replaced_alone(&world, &portcullis).await?;

    // Neither a second proxy nor a new process meets it; what changes is tried anew.
    let mut second = Envoy::start(&portcullis.bootstrap("infra/gateway").await?).await?;
    second.check().await?;
    drop(second);
    counts(&portcullis, NACKS, 1.0).await?;
    is_recorded(state.path(), "HTTPRoute infra/r ").await?;
    portcullis.restart().await?;
    counts(&portcullis, HELD, 1.0).await?;
    world.answers("/bad", 500, "", &portcullis).await?;
    world.answers("/sound", 200, "2", &portcullis).await?;
    // The proxy is back, and what it has is known.
    let (name, other) = route("other", &[("/other", "2")]);
    portcullis.write(&name, &other)?;
    world.answers("/other", 200, "2", &portcullis).await?;
    portcullis.was_never_refused().await?;
    let (name, broken) = mixed("3", ANOTHER);
    portcullis.write(&name, &broken)?;
    world.answers("/sound", 200, "3", &portcullis).await?;
    world.answers("/bad", 500, "", &portcullis).await?;
    counts(&portcullis, HELD, 2.0).await?;
    let (name, mended) = mixed("4", "4");
    portcullis.write(&name, &mended)?;
    for path in ["/sound", "/bad"] {
        world.answers(path, 200, "4", &portcullis).await?;
    }
    for load in load {
        load.finish().await.with_context(|| portcullis.log_tail())?;
    }
    portcullis.check()?;
    proxy.check_alive()
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_judge_a_proxy_that_has_nothing_yet_is_served_all_else() -> Result<()> {
    let mut routes: Vec<_> =
        (0..20).map(|number| route(&format!("r{number}"), &[(&format!("/{number}"), "1")])).collect();
    routes.push(mixed("1", UNSEEN));
    let world = World::new(&routes).await?;
    let mut portcullis = Portcullis::start(&world.files).await?;
    let mut proxy = Envoy::start(&portcullis.bootstrap("infra/gateway").await?).await?;
    for number in 0..20 {
        world.answers(&format!("/{number}"), 200, "1", &portcullis).await?;
    }
    world.answers("/sound", 200, "1", &portcullis).await?;
    world.answers("/bad", 500, "", &portcullis).await?;
    for (series, value) in [(NACKS, 1.0), (FOUND, 1.0), (HELD, 1.0)] {
        counts(&portcullis, series, value).await?;
    }
    portcullis.check()?;
    proxy.check_alive()
}

/// A policy of one listener that Envoy alone refuses, whatever its routes are.
const OF_LISTENER: &str = "---
apiVersion: gateway.kgateway.dev/v1alpha1
kind: TrafficPolicy
metadata: {name: listener, namespace: infra}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: gateway, sectionName: http}]
  headerModifiers: {request: {set: [{name: x-more, value: 'test.portcullis.dev/unchecked %NO_SUCH_COMMAND%'}]}}
";

#[tokio::test(flavor = "multi_thread")]
async fn routes_at_another_listener_go_on_changing_whatever_is_refused_beside_them() -> Result<()> {
    let (world, another) = World::new(&[route("r", &[("/a", "1")])]).await?.with_another_listener()?;
    let portcullis = Portcullis::start(&world.files).await?;
    let mut proxy = Envoy::start(&portcullis.bootstrap("infra/gateway").await?).await?;
    world.answers("/a", 200, "1", &portcullis).await?;
    world.answers_at(&another, "/a", (200, "1"), &portcullis).await?;
    let load = Load::start(&another, "/a");
    for said in ["2", "3"] {
        let (name, content) = route("r", &[("/a", said)]);
        // Both listeners have other routes now, in one response, and one of them is refused.
        portcullis.write(&name, &format!("{content}{OF_LISTENER}"))?;
        world.answers_at(&another, "/a", (200, said), &portcullis).await?;
    }
    let refused = portcullis.metric(NACKS).await?.unwrap_or_default();
    ensure!(refused > 0.0, "nothing was refused");
    let (name, content) = route("r", &[("/a", "4")]);
    portcullis.write(&name, &content)?;
    world.answers("/a", 200, "4", &portcullis).await?;
    world.answers_at(&another, "/a", (200, "4"), &portcullis).await?;
    load.finish().await.with_context(|| portcullis.log_tail())?;
    proxy.check_alive()
}
