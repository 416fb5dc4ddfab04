//! A few policies have each of many routes know thousands of credentials.

use anyhow::{Context, Result, ensure};
use portcullis_tests::client::{self, Request, Target};
use portcullis_tests::process::memory;
use serde_json::{Value, json};
use worlds::tenant::NAMESPACES;

use crate::estate::Estate;

/// What the proxies of a Gateway may have in a cluster unless somebody says otherwise (`crates/deploy`), and the controller.
const PROXY: u64 = 1 << 30;
const CONTROLLER: u64 = 1 << 30;

/// As many as a policy may have.
const KEYS: usize = 10_000;

/// Routes of the tenant, each with as many matches as a route may have, 128.
const ROUTES: usize = 6;

fn secret() -> Value {
    let keys: serde_json::Map<_, _> =
        (0..KEYS).map(|at| (format!("client-{at}"), json!(format!("key-{at:05}-of-the-tenant-0123456789")))).collect();
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys", "namespace": NAMESPACES[0]}, "stringData": keys})
}

fn route(at: usize) -> [Value; 2] {
    let name = format!("guarded-{at}");
    let matches = |rule: usize| {
        let paths = (0..8).map(|at| json!({"path": {"type": "PathPrefix", "value": format!("/{rule}/{at}")}}));
        paths.collect::<Vec<_>>()
    };
    let reference = json!({"group": "gateway.kgateway.dev", "kind": "DirectResponse", "name": "teapot"});
    let answer = json!({"type": "ExtensionRef", "extensionRef": reference});
    let rules: Vec<_> = (0..16).map(|rule| json!({"matches": matches(rule), "filters": [answer]})).collect();
    let route = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": {"name": name, "namespace": NAMESPACES[0], "creationTimestamp": format!("2025-01-01T00:00:{at:02}Z")},
        "spec": {"parentRefs": [{"name": "shared", "namespace": "infra", "sectionName": "rest"}],
            "hostnames": [format!("{name}.test")], "rules": rules},
    });
    let target = json!({"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": name});
    let policy = json!({
        "apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "TrafficPolicy",
        "metadata": {"name": name, "namespace": NAMESPACES[0]},
        "spec": {"targetRefs": [target], "apiKeyAuth": {"secretRef": {"name": "keys"}}},
    });
    [route, policy]
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_at_many_routes_fill_neither_a_proxy_nor_the_controller_and_close_the_tenants_own_routes()
-> Result<()> {
    let mut estate = Estate::start().await?;
    let configuration = format!("http/{}", estate.place.http);
    let theirs = estate.hosts(&configuration).await?;
    let teapot = json!({
        "apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "DirectResponse",
        "metadata": {"name": "teapot", "namespace": NAMESPACES[0]}, "spec": {"status": 418},
    });
    let attack: Vec<_> = (0..ROUTES).flat_map(route).chain([secret(), teapot]).collect();
    estate.written("tenant.json", &attack).await?;
    // A second time, so that Envoy holds two tables at once.
    let mut more = attack.clone();
    more.extend(route(ROUTES));
    estate.written("tenant.json", &more).await?;
    let envoy = memory(estate.envoy.id().context("Envoy ended")?)?.most;
    let controller = memory(estate.portcullis.id().context("the controller ended")?)?.most;
    println!("an Envoy of {} MiB, a controller of {} MiB", envoy >> 20, controller >> 20);
    ensure!(envoy < PROXY, "Envoy took {} MiB", envoy >> 20);
    ensure!(controller < CONTROLLER, "the controller took {} MiB", controller >> 20);
    // What others have is as it was.
    let now = estate.hosts(&configuration).await?;
    for before in theirs.iter().filter(|host| host["name"] != "later.test") {
        ensure!(now.contains(before), "{} is another", before["name"]);
    }
    // The oldest route of the tenant is guarded by his keys, and the youngest answers 500.
    let target = Target::local(estate.place.http);
    let key = "key-00007-of-the-tenant-0123456789";
    for (at, with_key, without) in [(0, 418, 401), (ROUTES, 500, 500)] {
        let request = Request::get(&format!("guarded-{at}.test"), "/0/0");
        for (request, status) in [(request.clone(), without), (request.header("api-key", key), with_key)] {
            let answer = client::send(&target, &request).await?;
            ensure!(answer.status == status, "{at}: {} for {status}", answer.status);
        }
    }
    let said = estate.portcullis.admin("/debug/status").await?.body;
    ensure!(said.contains("have no room for it"), "{said}");
    estate.is_unharmed().await
}
