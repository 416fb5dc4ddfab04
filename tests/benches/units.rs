//! What units of policies cost: a route with one in a proxy's memory and on its main thread, and a request.
//!
//! `cargo bench -p portcullis-tests --bench units` runs an Envoy with many routes that say the same, and sends requests to the
//! first. It counts the time on the processor, which other programs on the machine turn less than the time that passes.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark prints, and ends when anything is wrong")]

use std::sync::{Arc, LazyLock};

use anyhow::{Context, Result, ensure};
use api::{core::Secret, meta::StringMap, traffic_policy::TrafficPolicySpec};
use envoy::{bytes::Fields, extensions, json as envoy_json, listener, testing::samples};
use envoy_types::pb::envoy::config::route::v3::Route;
use ir::{NsName, settings::Edge};
use portcullis_tests::{
    client::{Connection, Request, Target},
    envoy::Envoy,
    ports,
};
use serde_json::{Value, json};

const ROUTES: u32 = 20;
const REQUESTS: u32 = 3_000;

/// Policies, and how they are told.
fn policies() -> Vec<(&'static str, Value)> {
    let range = |index: usize| format!("10.{}.{}.0/24", index / 256, index % 256);
    let acl = |rules: Vec<Vec<String>>| {
        let rules = rules.into_iter().enumerate();
        let rule = |(index, cidrs)| json!({"name": format!("rule{index}"), "cidrs": cidrs, "action": "deny"});
        json!({"acl": {"defaultAction": "allow", "rules": rules.map(rule).collect::<Vec<_>>()}})
    };
    let rbac = |parts: usize, part: &dyn Fn(usize) -> String| {
        let expression: Vec<_> = (0..parts).map(part).collect();
        json!({"rbac": {"action": "Deny", "policy": {"matchExpressions": [expression.join(" || ")]}}})
    };
    let headers: Vec<_> = (0..16).map(|index| json!({"name": format!("x-{index}"), "value": "v".repeat(64)})).collect();
    let users: Vec<_> =
        (0..256).map(|index| format!("user{index}:{{SHA}}{index:04}G6MezRroT3XKqkdPOmY/BfQ=")).collect();
    vec![
        ("nothing", json!({})),
        ("acl, 1 range", acl(vec![vec![range(0)]])),
        ("acl, 1,000 ranges", acl(vec![(0..1_000).map(range).collect()])),
        ("acl, 256 rules", acl((0..256).map(|index| vec![range(index)]).collect())),
        ("rbac, 1 comparison", rbac(1, &|index| format!("request.path == '/none/{index}'"))),
        ("rbac, 100 comparisons", rbac(100, &|index| format!("request.path == '/none/{index}'"))),
        ("rbac, 60 headers", rbac(60, &|index| format!("request.headers['x-{index}'] == 'a'"))),
        ("rbac, 16 searches", rbac(16, &|_| format!("request.headers['x-long'].contains('{}b')", "a".repeat(80)))),
        ("transformation, 16 headers", json!({"transformation": {"request": {"set": headers}}})),
        ("transformation, 1 template", templates(&["{{ header('x-long') }}"])),
        ("transformation, 16 templates", templates(&["{{ header('x-none') }}b"; 16])),
        ("transformation, 500 parts", templates(&["{{ header('x-none') }}".repeat(250).as_str()])),
        ("headerModifiers, 16 headers", json!({"headerModifiers": {"request": {"set": headers}}})),
        (
            "rateLimit.local",
            json!({"rateLimit": {"local": {"tokenBucket": {"maxTokens": 1_000_000_000, "fillInterval": "1s"}}}}),
        ),
        ("basicAuth, 256 users", json!({"basicAuth": {"users": users}})),
        ("apiKeyAuth, 10 keys", json!({"apiKeyAuth": {"secretRef": {"name": "few"}}})),
        ("apiKeyAuth, 10,000 keys", json!({"apiKeyAuth": {"secretRef": {"name": "many"}}})),
        ("csrf", json!({"csrf": {"percentageEnabled": 100}})),
        ("buffer", json!({"buffer": {"maxRequestSize": "1Mi"}})),
    ]
}

/// Headers that are set to these.
fn templates(all: &[&str]) -> Value {
    let set: Vec<_> =
        all.iter().enumerate().map(|(at, value)| json!({"name": format!("x-{at}"), "value": value})).collect();
    json!({"transformation": {"request": {"set": set}}})
}

/// Secrets with keys of so many clients.
struct Keys;

impl units::SecretStore for Keys {
    fn get(&self, id: &NsName) -> Option<Arc<Secret>> {
        let keys = if &*id.name == "many" { 10_000 } else { 10 };
        let data = (0..keys).map(|key| (format!("client-{key}"), json!(format!("key-{key:05}-0123456789-0123456789"))));
        let data = data.collect::<serde_json::Map<_, _>>();
        let metadata = json!({"name": id.name, "namespace": id.namespace});
        let secret: Secret = serde_json::from_value(json!({"metadata": metadata, "stringData": data})).ok()?;
        Some(Arc::new(secret))
    }

    fn labelled(&self, _: &Arc<str>, _: &StringMap) -> Vec<Arc<Secret>> {
        Vec::new()
    }
}

impl units::SecretReader for Keys {
    fn namespace(&self) -> &Arc<str> {
        static NONE: LazyLock<Arc<str>> = LazyLock::new(Arc::default);
        &NONE
    }

    fn permitted(&self, _: Option<&Arc<str>>, name: &Arc<str>) -> std::result::Result<NsName, String> {
        Ok(NsName::new("", name.clone()))
    }

    fn store(&self) -> &dyn units::SecretStore {
        self
    }
}

/// The configuration of an Envoy with so many routes that say this.
fn bootstrap(port: u16, policy: &Value) -> Result<Value> {
    let spec: TrafficPolicySpec = serde_json::from_value(policy.clone())?;
    let others = units::Others { secrets: &Keys, extensions: &units::Everybody };
    let units = units::read(&spec, &others).map_err(|problem| anyhow::anyhow!("{problem}"))?;
    let slots: Vec<_> =
        units.iter().flat_map(|said| said.unit.as_ref().map(units::AnyUnit::slots).unwrap_or_default()).collect();
    let configs = slots.iter().map(|slot| (slot.name, slot.config.to_vec()));
    let message = Fields::of(&Route::default()).map(13, configs).into_bytes();
    let said = envoy_json::value("envoy.config.route.v3.Route", &message)?;
    let routes = (0..ROUTES).map(|number| {
        let answer = json!({"status": 200, "body": {"inlineString": "ok"}});
        let mut route = json!({"match": {"path": format!("/{number}")}, "directResponse": answer});
        route["typedPerFilterConfig"] = said.get("typedPerFilterConfig").cloned().unwrap_or_else(|| json!({}));
        route
    });
    let sample = &samples::listeners(&[])[0];
    let built = listener::listener(sample, &Edge { access_log: false, ..Edge::default() });
    let mut built = envoy_json::value("envoy.config.listener.v3.Listener", &built.body.to_bytes())?;
    let manager = built.pointer_mut("/filterChains/0/filters/0/typedConfig").context("no connection manager")?;
    manager.as_object_mut().context("no message")?.remove("rds");
    // What comes apart from listeners stands in this one.
    for filter in manager["httpFilters"].as_array_mut().context("no filters")? {
        let filter = filter.as_object_mut().context("no filter")?;
        if filter.remove("configDiscovery").is_some() {
            let name = filter["name"].as_str().context("no name")?;
            let entries =
                slots.iter().filter_map(|slot| slot.entry.as_ref()).filter(|entry| extensions::holder(entry) == name);
            let said = extensions::extension(name, entries, |_| None).body.to_bytes();
            let mut said = envoy_json::value("envoy.config.core.v3.TypedExtensionConfig", &said)?;
            filter.insert("typedConfig".into(), said["typedConfig"].take());
        }
    }
    let host = json!({"name": "all", "domains": ["*"], "routes": routes.collect::<Vec<_>>()});
    manager["routeConfig"] = json!({"virtualHosts": [host]});
    built["address"]["socketAddress"]["portValue"] = json!(port);
    Ok(json!({"staticResources": {"listeners": [built]}}))
}

/// Microseconds on the processor so far: of the main thread, and of all.
fn processor(envoy: &Envoy) -> Result<(f64, f64)> {
    let id = envoy.id().context("Envoy has ended")?;
    let (mut main, mut all) = (0.0, 0.0);
    for thread in std::fs::read_dir(format!("/proc/{id}/task"))? {
        let thread = thread?;
        let times = std::fs::read_to_string(thread.path().join("schedstat"))?;
        let nanos = times.split(' ').next().context("no times")?.parse()?;
        let micros = std::time::Duration::from_nanos(nanos).as_secs_f64() * 1e6;
        all += micros;
        if thread.file_name().to_string_lossy() == id.to_string() {
            main = micros;
        }
    }
    Ok((main, all))
}

async fn requests(target: &Target, header: &str) -> Result<()> {
    let mut connection = Connection::open(target).await?;
    for _ in 0..REQUESTS / 10 {
        let response = connection.send(&Request::get("example.com", "/0").header("x-long", header)).await?;
        ensure!(response.status == 200, "{}", response.status);
    }
    Ok(())
}

/// Memory and time of the main thread, of all routes; time of a request, with a short header and with a long one.
async fn measure(policy: &Value) -> Result<[f64; 4]> {
    let port = ports::free_port()?;
    let envoy = Envoy::start(&bootstrap(port, policy)?).await?;
    let memory: Value = serde_json::from_str(&envoy.admin("/memory").await?.body)?;
    let memory = memory["allocated"].as_str().context("no memory")?.parse()?;
    let (main, _) = processor(&envoy)?;
    let target = Target::local(port);
    requests(&target, "a").await?;
    let mut times = [0.0; 2];
    for (time, header) in times.iter_mut().zip(["a".to_owned(), "a".repeat(50_000)]) {
        let (_, before) = processor(&envoy)?;
        requests(&target, &header).await?;
        *time = (processor(&envoy)?.1 - before) / f64::from(REQUESTS / 10);
    }
    Ok([memory, main, times[0], times[1]])
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    println!(
        "{:<28} {:>10} {:>12} {:>11} {:>16}",
        "a route with", "memory", "main thread", "a request", "header of 50 kB"
    );
    let mut nothing = None;
    for (name, policy) in policies() {
        let [memory, main, short, long] = measure(&policy).await?;
        let [memory_of_none, main_of_none, ..] = *nothing.get_or_insert([memory, main, short, long]);
        let memory = (memory - memory_of_none) / f64::from(ROUTES) / 1e3;
        let main = (main - main_of_none) / f64::from(ROUTES);
        println!("{name:<28} {memory:>7.1} kB {main:>9.0} us {short:>8.1} us {long:>13.1} us");
    }
    Ok(())
}
