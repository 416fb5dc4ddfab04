//! How long a tenant waits for a change of its own where another fills the proxies with all that it may: from the file
//! written to the first answer of a real Envoy that follows it. Beside it the most memory that Envoy had.
//!
//! `PORTCULLIS_BIN=target/release/portcullis cargo bench -p portcullis-tests --bench placement` does so with nobody else,
//! with ten routes of 128 matches that take no hostname and so join each of 300 hosts, and with two roots of 16 hostnames
//! whose children do the same.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark prints, and ends when anything is wrong")]

use std::{
    fmt::Write as _,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use portcullis_tests::{
    client::{self, Request, Target},
    envoy::Envoy,
    objects,
    portcullis::Portcullis,
    ports,
    process::memory,
    wait::eventually,
};

/// Hosts of others.
const HOSTS: usize = 300;

/// Changes that are timed.
const CHANGES: usize = 20;

/// How long one may take.
const TIMEOUT: Duration = Duration::from_mins(2);

const VICTIM: &str = "victim.test";

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<()> {
    println!("{:<28} {:>10} {:>10} {:>10} {:>12}", "beside it", "least", "median", "most", "Envoy's most");
    for (name, attack) in
        [("nobody", String::new()), ("routes of all hosts", joined()), ("roots with children", trees())]
    {
        let port = ports::free_port()?;
        let all = "allowedRoutes: {namespaces: {from: All}}";
        let mut base = objects::gateway(&[format!("{{name: http, port: {port}, protocol: HTTP, {all}}}")]);
        for host in 0..HOSTS {
            let (name, hosts) = (format!("host-{host}"), format!("{host}.tenants.test"));
            let rules = rules(&format!("/{host}"), 1);
            base += &objects::Route { name: &name, hosts: &hosts, rules: &rules, ..Default::default() }.to_string();
        }
        let files = [("base", base), ("victim", victim(0)), ("attack", attack)];
        let files: Vec<_> = files.into_iter().map(|(name, manifests)| (format!("{name}.yaml"), manifests)).collect();
        let portcullis = Portcullis::start(&files).await?;
        let envoy = Envoy::start(&portcullis.bootstrap("infra/gateway").await?).await?;
        let target = Target::local(port);
        is_served(&target, 0).await?;
        let mut times = Vec::new();
        for change in 1..=CHANGES {
            let began = Instant::now();
            portcullis.write("victim.yaml", &victim(change))?;
            is_served(&target, change).await?;
            times.push(began.elapsed());
        }
        times.sort();
        let ms = |time: Duration| format!("{:.0} ms", time.as_secs_f64() * 1e3);
        let [least, median, most] = [times[0], times[CHANGES / 2], times[CHANGES - 1]].map(ms);
        let memory = format!("{} MiB", memory(envoy.id().unwrap())?.most >> 20);
        println!("{name:<28} {least:>10} {median:>10} {most:>10} {memory:>12}");
    }
    Ok(())
}

/// Waits until the victim's change is served.
async fn is_served(target: &Target, change: usize) -> Result<()> {
    let request = Request::get(VICTIM, &format!("/{change}"));
    eventually(TIMEOUT, async || {
        let status = client::send(target, &request).await?.status;
        ensure!(status == 302, "{status}");
        Ok::<_, anyhow::Error>(())
    })
    .await
}

fn victim(change: usize) -> String {
    let rules = format!("  - {{matches: [{{path: {{value: /{change}}}}}], filters: [{MOVED}]}}");
    let route = objects::Route {
        namespace: "victims",
        name: "victim",
        parents: PARENT,
        hosts: VICTIM,
        rules: &rules,
        ..Default::default()
    };
    route.to_string()
}

const PARENT: &str = "{name: gateway, namespace: infra}";
const MOVED: &str = "{type: RequestRedirect, requestRedirect: {port: 8443}}";

/// So many rules of eight matches each; 16 are as many as a route may have.
fn rules(prefix: &str, count: usize) -> String {
    let mut rules = String::new();
    for rule in 0..count {
        let matches: Vec<_> = (0..8).map(|at| format!("{{path: {{value: {prefix}/{rule}/{at}}}}}")).collect();
        writeln!(rules, "  - {{matches: [{}], filters: [{MOVED}]}}", matches.join(", ")).unwrap();
    }
    rules
}

/// Ten routes without hostnames.
fn joined() -> String {
    let route = |at: usize| {
        let (name, rules) = (format!("all-{at}"), rules(&format!("/all/{at}"), 16));
        objects::Route { namespace: "evil", name: &name, parents: PARENT, rules: &rules, ..Default::default() }
            .to_string()
    };
    (0..10).map(route).collect()
}

/// Two roots of 16 hostnames, and ten children of both.
fn trees() -> String {
    let mut manifests = String::new();
    for root in 0..2 {
        let hosts: Vec<_> = (0..16).map(|host| format!("{host}.{root}.evil.test")).collect();
        let (name, hosts) = (format!("root-{root}"), hosts.join(", "));
        let child = "{group: gateway.networking.k8s.io, kind: HTTPRoute, name: '*'}";
        let rules = format!("  - {{matches: [{{path: {{value: /all}}}}], backendRefs: [{child}]}}");
        let root = objects::Route {
            namespace: "evil",
            name: &name,
            parents: PARENT,
            hosts: &hosts,
            rules: &rules,
            ..Default::default()
        };
        manifests += &root.to_string();
    }
    for child in 0..10 {
        let (name, rules) = (format!("child-{child}"), rules(&format!("/all/{child}"), 16));
        let parents = "{group: gateway.networking.k8s.io, kind: HTTPRoute, name: root-0}, {group: gateway.networking.k8s.io, kind: HTTPRoute, name: root-1}";
        let child = objects::Route { namespace: "evil", name: &name, parents, rules: &rules, ..Default::default() };
        manifests += &child.to_string();
    }
    manifests
}
