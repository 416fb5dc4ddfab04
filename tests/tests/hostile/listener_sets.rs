//! Many ListenerSets that ask for what another one has.

use anyhow::{Context, Result, ensure};
use portcullis_tests::client::{self, Request, Target};
use portcullis_tests::echo::Echo;
use portcullis_tests::envoy::Envoy;
use portcullis_tests::portcullis::Portcullis;
use portcullis_tests::ports::free_port;
use portcullis_tests::wait::{TIMEOUT, eventually};
use serde_json::{Value, json};

use crate::estate::{file, hosts};

/// How many of them there are.
const CROWD: usize = 400;

const VICTIM: &str = "victim.example.com";

fn service(namespace: &str, echo: &Echo) -> [Value; 2] {
    let address = echo.address();
    [
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": namespace},
            "spec": {"ports": [{"name": "http", "port": 80}]}}),
        json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": "s", "namespace": namespace, "labels": {"kubernetes.io/service-name": "s"}},
            "endpoints": [{"addresses": [address.ip()]}], "ports": [{"name": "http", "port": address.port()}]}),
    ]
}

fn set(namespace: &str, name: &str, created: &str, listeners: &Value) -> Value {
    json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "ListenerSet",
        "metadata": {"name": name, "namespace": namespace, "creationTimestamp": created},
        "spec": {"parentRef": {"name": "hub", "namespace": "infra"}, "listeners": listeners}})
}

fn route(namespace: &str, set: &str) -> Value {
    json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": {"name": set, "namespace": namespace},
        "spec": {"parentRefs": [{"group": "gateway.networking.k8s.io", "kind": "ListenerSet", "name": set}],
            "rules": [{"backendRefs": [{"name": "s", "port": 80}]}]}})
}

/// All that a namespace may do to a port which is there: its hostname, another protocol, and ports of its own without end.
fn crowd(port: u16) -> Vec<Value> {
    let set = |number: usize| {
        let listeners = json!([
            {"name": "same", "port": port, "protocol": "HTTP", "hostname": VICTIM},
            {"name": "tcp", "port": port, "protocol": "TCP"},
            {"name": "own", "port": port, "protocol": "HTTP", "hostname": format!("own-{number}.example.com")},
        ]);
        let name = format!("z{number}");
        [set("evil", &name, "2026-06-01T00:00:00Z", &listeners), route("evil", &name)]
    };
    (0..CROWD).flat_map(set).collect()
}

/// A Gateway with a port, with a listener of its own there for this hostname, and what the victim has there.
fn stage(port: u16, hostname: &str, victim: &Echo) -> Vec<Value> {
    let listeners = json!([{"name": "web", "port": port, "protocol": "HTTP", "hostname": VICTIM}]);
    let mut objects = vec![
        json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": {"name": "ours"},
            "spec": {"controllerName": "portcullis.dev/gateway-controller"}}),
        json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
            "metadata": {"name": "hub", "namespace": "infra"},
            "spec": {"gatewayClassName": "ours", "allowedListeners": {"namespaces": {"from": "All"}},
                "listeners": [{"name": "own", "port": port, "protocol": "HTTP", "hostname": hostname}]}}),
        set("apps", "victim", "2026-01-01T00:00:00Z", &listeners),
        route("apps", "victim"),
    ];
    objects.extend(service("apps", victim));
    objects
}

async fn served(port: u16, host: &str, wanted: &str) -> Result<()> {
    eventually(2 * TIMEOUT, async || {
        let answer = client::send(&Target::local(port), &Request::get(host, "/")).await?;
        let backend = answer.echoed.map(|echoed| echoed.backend).unwrap_or_default();
        ensure!(backend == wanted, "{host}: {} {backend}", answer.status);
        anyhow::Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_of_listener_sets_that_ask_for_one_port_gets_nothing_that_another_one_has() -> Result<()> {
    let victim = Echo::start("victim", ([127, 0, 0, 1], 0).into()).await?;
    let thief = Echo::start("thief", ([127, 0, 0, 1], 0).into()).await?;
    let port = free_port()?;
    let mut objects = stage(port, "hub.example.com", &victim);
    objects.extend(service("evil", &thief));
    let mut portcullis = Portcullis::start(&[("a.json".to_owned(), file(&objects)?)]).await?;
    let mut envoy = Envoy::start(&portcullis.bootstrap("infra/hub").await?).await?;
    served(port, VICTIM, "victim").await.context("before")?;

    portcullis.write("z.json", &file(&crowd(port))?)?;
    // What is theirs is served, so that all of it was read.
    served(port, &format!("own-{}.example.com", CROWD - 1), "thief").await?;
    for _ in 0..20 {
        served(port, VICTIM, "victim").await.context("with a crowd")?;
    }
    portcullis.write("z.json", &file(&crowd(port)[..2])?)?;
    served(port, "own-1.example.com", "").await.context("it goes with its set")?;
    served(port, VICTIM, "victim").await?;
    portcullis.check()?;
    portcullis.was_never_refused().await?;
    envoy.check().await
}

/// As many virtual hosts of ListenerSets as there shall be room for, each with 4 kB of a quarter.
const ROOMS: u64 = 250;

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_with_hostnames_without_end_has_no_more_of_them_served_than_there_is_room_for() -> Result<()> {
    const SETS: usize = 20;
    let victim = Echo::start("victim", ([127, 0, 0, 1], 0).into()).await?;
    let port = free_port()?;
    let bound = ["--capacity-max-bytes".to_owned(), (4 * 4_000 * ROOMS).to_string()];
    // Whoever has no hostname here falls to a route of the Gateway's owner.
    let mut objects = stage(port, "*.example.com", &victim);
    let own = Echo::start("own", ([127, 0, 0, 1], 0).into()).await?;
    objects.extend(service("infra", &own));
    objects.push(json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": {"name": "own", "namespace": "infra"},
        "spec": {"parentRefs": [{"name": "hub"}], "rules": [{"backendRefs": [{"name": "s", "port": 80}]}]}}));
    let files = [("a.json".to_owned(), file(&objects)?)];
    let mut portcullis = Portcullis::start_with(&files, &bound).await?;
    let mut envoy = Envoy::start(&portcullis.bootstrap("infra/hub").await?).await?;
    served(port, VICTIM, "victim").await.context("before")?;
    served(port, "63.z19.example.com", "own").await.context("nobody's")?;

    // Older than that of the victim, with as many listeners each as there may be.
    let crowd = (0..SETS).map(|number| {
        let host = |at: usize| format!("{at}.z{number:02}.example.com");
        let listener =
            |at: usize| json!({"name": format!("l{at}"), "port": port, "protocol": "HTTP", "hostname": host(at)});
        let listeners: Vec<_> = (0..64).map(listener).collect();
        set("evil", &format!("z{number:02}"), "2025-01-01T00:00:00Z", &json!(listeners))
    });
    portcullis.write("z.json", &file(&crowd.collect::<Vec<_>>())?)?;
    let all = eventually(2 * TIMEOUT, async || {
        let all = hosts(&envoy, &format!("http/{port}")).await?;
        ensure!(all.iter().any(|host| host["name"] == "0.z00.example.com"), "nothing of it is there yet");
        anyhow::Ok(all)
    })
    .await?;
    // Those of the victim, of the Gateway, and of all that are not served.
    ensure!(all.len() as u64 == ROOMS - 1 + 3, "{} virtual hosts", all.len());
    let unserved = all.iter().find(|host| host["name"] == "unserved/*").context("they fall to nobody else")?;
    let domains = unserved["domains"].as_array().context("domains")?;
    ensure!(domains.len() as u64 == 64 * SETS as u64 - (ROOMS - 1), "{} are not served", domains.len());
    served(port, VICTIM, "victim").await.context("with a crowd")?;
    let answer = client::send(&Target::local(port), &Request::get("63.z19.example.com", "/")).await?;
    ensure!(answer.status == 404, "{}: it is a listener's that is not served, and nobody else's", answer.status);
    portcullis.check()?;
    portcullis.was_never_refused().await?;
    envoy.check().await
}
