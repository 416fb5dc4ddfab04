//! A few objects ask for more than a proxy can hold.

use anyhow::{Context, Result, ensure};
use portcullis_tests::client::{self, Request, Target};
use portcullis_tests::process::memory;
use serde_json::{Value, json};
use worlds::tenant::NAMESPACES;

use crate::estate::Estate;

/// What the proxies of a Gateway may have in a cluster unless somebody says otherwise (`crates/deploy`).
const LIMIT: u64 = 1 << 30;

/// Hosts of others.
const HOSTS: usize = 300;
const THEIRS: &str = ".tenants.test";

fn route((namespace, name): (&str, &str), second: usize, hostnames: &[String], rules: &[Value]) -> Value {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": {"name": name, "namespace": namespace,
            "creationTimestamp": format!("2025-01-01T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60)},
        "spec": {"parentRefs": [{"name": "shared", "namespace": "infra", "sectionName": "rest"}], "hostnames": hostnames, "rules": rules},
    })
}

/// As many matches as a route may have, 128.
fn as_many_as_there_may_be(of: usize) -> Vec<Value> {
    let matches = |rule: usize| {
        let paths = (0..8).map(|at| json!({"path": {"type": "PathPrefix", "value": format!("/{of}/{rule}/{at}")}}));
        paths.collect::<Vec<_>>()
    };
    let moved = json!({"type": "RequestRedirect", "requestRedirect": {"port": 8443}});
    (0..16).map(|rule| json!({"matches": matches(rule), "filters": [moved]})).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn routes_of_all_hosts_fill_no_proxy_and_keep_nobody_waiting() -> Result<()> {
    let mut estate = Estate::start().await?;
    let configuration = format!("http/{}", estate.place.http);
    let hosts = (0..HOSTS).map(|at| {
        let name = format!("host-{at}");
        route((NAMESPACES[1], &name), at, &[format!("{at}{THEIRS}")], &as_many_as_there_may_be(at)[..1])
    });
    estate.written("hosts.json", &hosts.collect::<Vec<_>>()).await?;
    let theirs = estate.hosts(&configuration).await?;
    let attack =
        |at: usize| route((NAMESPACES[0], &format!("all-{at}")), 1000 + at, &[], &as_many_as_there_may_be(1000 + at));
    let attack: Vec<_> = (0..10).map(attack).collect();
    estate.written("tenant.json", &attack).await?;
    // A second time, so that Envoy holds two tables at once.
    estate.written("tenant.json", &attack[1..]).await?;
    let most = memory(estate.envoy.id().context("Envoy ended")?)?.most;
    println!("an Envoy of {} MiB", most >> 20);
    ensure!(most < LIMIT, "Envoy took {} MiB", most >> 20);
    ensure!(most > LIMIT / 4, "what there is room for is served: {} MiB", most >> 20);
    // What others have at their hosts is as it was, and stands before what the tenant adds.
    let now = estate.hosts(&configuration).await?;
    let theirs: Vec<_> =
        theirs.iter().filter(|host| host["name"].as_str().is_some_and(|name| name.ends_with(THEIRS))).collect();
    ensure!(theirs.len() == HOSTS, "{} hosts", theirs.len());
    for before in theirs {
        let now = now.iter().find(|now| now["name"] == before["name"]).context("a host is gone")?;
        let (before, now) =
            (before["routes"].as_array().context("no routes")?, now["routes"].as_array().context("no routes")?);
        ensure!(now.starts_with(before), "{now:?}");
    }
    let host = now.iter().find(|host| host["name"] == format!("0{THEIRS}")).context("no host")?;
    let routes = host["routes"].as_array().context("no routes")?;
    let tenants = |route: &&Value| route["name"].as_str().is_some_and(|name| name.starts_with(NAMESPACES[0]));
    let closed = routes.iter().filter(tenants).find(|route| route["direct_response"]["status"] == 500);
    let served = routes.iter().filter(tenants).find(|route| route["redirect"].is_object());
    for (route, status) in [(closed, 500), (served, 302)] {
        let path = route.and_then(|route| route["match"]["path_separated_prefix"].as_str()).context("no such route")?;
        let request = Request::get(&format!("0{THEIRS}"), path);
        let answer = client::send(&Target::local(estate.place.http), &request).await?;
        ensure!(answer.status == status, "{path}: {}", answer.status);
    }
    let said = estate.portcullis.admin("/debug/status").await?.body;
    ensure!(said.contains("have no room for it"), "{said}");
    estate.is_unharmed().await
}
