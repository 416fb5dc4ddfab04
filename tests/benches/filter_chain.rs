//! What the filters that every listener has, and that nothing switches on, cost a request and a proxy.
//!
//! `cargo bench -p portcullis-tests --bench filter_chain` runs two Envoys with one worker each, one with the listener as it
//! is and one without its disabled filters, and sends plain requests to one after the other. It counts the time on the
//! processor that each Envoy takes, which other programs on the machine turn less than the time that passes.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark prints, and ends when anything is wrong")]

use std::path::Path;

use anyhow::{Context, Result, ensure};
use envoy::{ResourceKind, extensions, json as envoy_json, listener, testing::samples};
use ir::settings::Edge;
use portcullis_tests::{
    client::{Connection, Request, Target},
    envoy::Envoy,
    ports,
};
use serde_json::{Value, json};

const ROUNDS: usize = 150;
const REQUESTS: u32 = 1_600;
const CONNECTIONS: u32 = 8;
/// How many listeners memory is measured with.
const LISTENERS: u16 = 100;

/// Has the filters that proxies are sent by themselves read what they are while nobody needs them from files below `folder`.
fn send_by_files(filters: &mut [Value], folder: &Path) -> Result<()> {
    for filter in filters {
        let name = filter["name"].as_str().context("no name")?.to_owned();
        let Some(discovery) = filter.get_mut("configDiscovery") else { continue };
        let said = extensions::extension(&name, [], |_| None, 128 * 1024).body.to_bytes();
        let message = ResourceKind::ExtensionConfig.message_name();
        let mut resource = envoy_json::value(message, &said)?;
        resource["@type"] = json!(format!("type.googleapis.com/{message}"));
        let path = folder.join(format!("{name}.json"));
        std::fs::write(&path, json!({"versionInfo": "1", "resources": [resource]}).to_string())?;
        discovery["configSource"] = json!({"pathConfigSource": {"path": path}, "resourceApiVersion": "V3"});
    }
    Ok(())
}

/// The configuration of an Envoy with so many listeners, from this port on.
fn bootstrap(port: u16, listeners: u16, filters: bool, folder: &Path) -> Result<Value> {
    let sample = &samples::listeners(&[])[0];
    let built = listener::listener(sample, &Edge { access_log: false, ..Edge::default() });
    let mut built = envoy_json::value("envoy.config.listener.v3.Listener", &built.body.to_bytes())?;
    let manager = built.pointer_mut("/filterChains/0/filters/0/typedConfig").context("no connection manager")?;
    manager.as_object_mut().context("no message")?.remove("rds");
    let answer = json!({"match": {"prefix": "/"}, "directResponse": {"status": 200, "body": {"inlineString": "ok"}}});
    manager["routeConfig"] = json!({"virtualHosts": [{"name": "all", "domains": ["*"], "routes": [answer]}]});
    let chain = manager["httpFilters"].as_array_mut().context("no filters")?;
    if !filters {
        chain.retain(|filter| filter["disabled"] != json!(true));
    }
    send_by_files(chain, folder)?;
    let all = (0..listeners).map(|number| {
        let mut listener = built.clone();
        listener["name"] = json!(format!("listener/{number}"));
        // All but the first are left without requests, on ports that the kernel chooses.
        listener["address"]["socketAddress"]["portValue"] = json!(if number == 0 { port } else { 0 });
        listener
    });
    let node = json!({"id": "bench", "cluster": "bench"});
    Ok(json!({"node": node, "staticResources": {"listeners": all.collect::<Vec<_>>()}}))
}

/// Microseconds on the processor so far.
fn processor(envoy: &Envoy) -> Result<f64> {
    let id = envoy.id().context("Envoy has ended")?;
    let mut nanos = 0;
    for thread in std::fs::read_dir(format!("/proc/{id}/task"))? {
        let times = std::fs::read_to_string(thread?.path().join("schedstat"))?;
        nanos += times.split(' ').next().context("no times")?.parse::<u64>()?;
    }
    Ok(std::time::Duration::from_nanos(nanos).as_secs_f64() * 1e6)
}

async fn load(target: &Target) -> Result<()> {
    let tasks: Vec<_> = (0..CONNECTIONS)
        .map(|_| {
            let target = target.clone();
            tokio::spawn(async move {
                let mut connection = Connection::open(&target).await?;
                for _ in 0..REQUESTS / CONNECTIONS {
                    let response = connection.send(&Request::get("example.com", "/")).await?;
                    ensure!(response.status == 200, "{}", response.status);
                }
                Ok(())
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    Ok(())
}

async fn allocated(envoy: &Envoy) -> Result<f64> {
    let memory: Value = serde_json::from_str(&envoy.admin("/memory").await?.body)?;
    Ok(memory["allocated"].as_str().context("no memory")?.parse()?)
}

fn row(name: &str, mut values: Vec<f64>) {
    values.sort_by(f64::total_cmp);
    let quarter = values.len() / 4;
    let [low, median, high] = [quarter, values.len() / 2, values.len() - 1 - quarter].map(|at| values[at]);
    println!("{name:<28} {median:>8.2} us   half of all rounds from {low:.2} to {high:.2}");
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let ports = [ports::free_port()?, ports::free_port()?];
    let folder = tempfile::tempdir()?;
    let with = Envoy::start(&bootstrap(ports[0], 1, true, folder.path())?).await?;
    let without = Envoy::start(&bootstrap(ports[1], 1, false, folder.path())?).await?;
    let sides = [(&with, Target::local(ports[0])), (&without, Target::local(ports[1]))];
    let (mut times, mut differences) = ([Vec::new(), Vec::new()], Vec::new());
    for round in 0..=ROUNDS {
        let mut took = [0.0; 2];
        for (side, (envoy, target)) in sides.iter().enumerate() {
            let before = processor(envoy)?;
            load(target).await?;
            took[side] = (processor(envoy)? - before) / f64::from(REQUESTS);
        }
        // The first warms up.
        if round > 0 {
            differences.push(took[0] - took[1]);
            times.iter_mut().zip(took).for_each(|(times, took)| times.push(took));
        }
    }
    let [of_with, of_without] = times;
    row("a request, with the filters", of_with);
    row("without them", of_without);
    row("difference of a round", differences);
    drop((with, without));
    let mut memory = Vec::new();
    for filters in [true, false] {
        for listeners in [1, 1 + LISTENERS] {
            let envoy = Envoy::start(&bootstrap(ports::free_port()?, listeners, filters, folder.path())?).await?;
            memory.push(allocated(&envoy).await?);
        }
    }
    let of_one = |at: usize| (memory[at + 1] - memory[at]) / f64::from(LISTENERS) / 1e3;
    println!("a listener in memory: {:.0} kB with the filters, {:.0} without", of_one(0), of_one(2));
    Ok(())
}
