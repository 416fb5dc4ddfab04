//! What many routes that ask a provider cost a proxy: each in words of its own, or said once for all of them.
//!
//! `cargo bench -p portcullis-tests --bench rows` runs Envoys that read the route configuration of a Gateway with 10,000 routes,
//! each on a hostname of its own, of which some ask a provider, and changes one route, or the provider. It prints what the
//! proxy has allocated, the time of its main thread on the processor for a change, which other programs on the machine turn
//! less than the time that passes, and the size of what it is sent. `-- 256` has so many ask a judge, and nothing else.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark prints, and ends when anything is wrong")]

use std::path::Path;

use anyhow::{Context, Result, ensure};
use envoy::{ResourceKind, extensions, json as envoy_json, testing::inline_extensions};
use envoy_types::pb::{
    envoy::{config::route::v3::RouteConfiguration, service::discovery::v3::DiscoveryResponse},
    google::protobuf::Any,
};
use portcullis_tests::{
    envoy::Envoy,
    ports,
    wait::{TIMEOUT, eventually},
};
use prost::{Message, Name};
use serde_json::{Value, json};
use translate::{Change, testing::scene::object, translator::Translator};

const ROUTES: usize = 10_000;
const UPDATES: usize = 5;

/// A field, what its GatewayExtension says of a turn, and what a policy says besides.
type Asked = (&'static str, fn(usize) -> Value, fn() -> Value);

const ASKED: [Asked; 3] = [
    ("extAuth", |turn| json!({"extAuth": {"grpcService": service(turn)}}), || json!({"extAuth": reference()})),
    ("extProc", |turn| json!({"extProc": {"grpcService": service(turn)}}), || json!({"extProc": reference()})),
    (
        "rateLimit.global",
        |turn| json!({"rateLimit": {"grpcService": service(turn), "domain": "d"}}),
        || {
            let entry = json!({"type": "Generic", "generic": {"key": "a", "value": "b"}});
            let mut global = reference();
            global["descriptors"] = json!([{"entries": [entry]}]);
            json!({"rateLimit": {"global": global}})
        },
    ),
];

fn service(turn: usize) -> Value {
    json!({"backendRef": {"name": "s", "port": 80}, "requestTimeout": format!("{}ms", turn + 1)})
}

fn reference() -> Value {
    json!({"extensionRef": {"name": "provider"}})
}

fn of(group: &str, kind: &str, namespace: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": group, "kind": kind, "spec": spec,
        "metadata": {"name": name, "namespace": namespace, "creationTimestamp": "2026-01-01T00:00:00Z"}})
}

fn provider(turn: usize, asked: &Asked) -> Value {
    of("gateway.kgateway.dev/v1alpha1", "GatewayExtension", "apps", "provider", &asked.1(turn))
}

fn route(number: usize, turn: usize) -> Value {
    let header = json!({"type": "RequestHeaderModifier", "requestHeaderModifier":
        {"set": [{"name": "x-turn", "value": turn.to_string()}]}});
    let filters = if turn == 0 { json!([]) } else { json!([header]) };
    let spec = json!({"parentRefs": [{"name": "edge", "namespace": "infra"}], "hostnames": [format!("{number}.example")],
        "rules": [{"backendRefs": [{"name": "s", "port": 80}], "filters": filters}]});
    of("gateway.networking.k8s.io/v1", "HTTPRoute", "apps", &format!("r{number}"), &spec)
}

/// So many routes of all ask.
fn objects(asking: usize, asked: &Asked) -> Vec<Value> {
    let v1 = "gateway.networking.k8s.io/v1";
    let listener =
        json!({"name": "web", "port": 80, "protocol": "HTTP", "allowedRoutes": {"namespaces": {"from": "All"}}});
    let class = json!({"controllerName": "portcullis.dev/gateway-controller"});
    let mut all = vec![
        of(v1, "GatewayClass", "", "portcullis", &class),
        of(v1, "Gateway", "infra", "edge", &json!({"gatewayClassName": "portcullis", "listeners": [listener]})),
        of("v1", "Service", "apps", "s", &json!({"ports": [{"port": 80}]})),
        provider(0, asked),
    ];
    all.extend((0..ROUTES).map(|number| route(number, 0)));
    all.extend((0..asking).map(|number| {
        let mut spec = asked.2();
        let name = format!("r{number}");
        spec["targetRefs"] = json!([{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": name}]);
        of("gateway.kgateway.dev/v1alpha1", "TrafficPolicy", "apps", &name, &spec)
    }));
    all
}

fn resource(translator: &Translator, kind: ResourceKind) -> Result<Vec<u8>> {
    let all = translator.resources().into_values().flatten();
    let found = all.into_iter().find(|(key, _)| key.kind == kind);
    Ok(found.context("it is not served")?.1.body.to_bytes().to_vec())
}

/// The listener, which reads its routes from a file.
fn bootstrap(translator: &Translator, file: &Path, port: u16) -> Result<Value> {
    let bytes = resource(translator, ResourceKind::Listener)?;
    let mut listener = envoy_json::value(ResourceKind::Listener.message_name(), &bytes)?;
    listener["address"]["socketAddress"]["portValue"] = json!(port);
    let manager = listener.pointer_mut("/filterChains/0/filters/0/typedConfig").context("no connection manager")?;
    manager["rds"]["configSource"] = json!({"pathConfigSource": {"path": file}});
    inline_extensions(manager, |name| {
        let extension = extensions::extension(name, [], |_| None, 128 * 1024).body.to_bytes();
        envoy_json::value(ResourceKind::ExtensionConfig.message_name(), &extension).unwrap()
    });
    let node = json!({"id": "bench", "cluster": "bench"});
    Ok(json!({"node": node, "staticResources": {"listeners": [listener]}}))
}

/// Puts the routes where Envoy reads them, all at once; gives their size.
fn write(translator: &Translator, file: &Path, version: usize) -> Result<usize> {
    let value = resource(translator, ResourceKind::RouteConfiguration)?;
    let length = value.len();
    let response = DiscoveryResponse {
        version_info: version.to_string(),
        type_url: RouteConfiguration::type_url(),
        resources: vec![Any { type_url: RouteConfiguration::type_url(), value }],
        ..DiscoveryResponse::default()
    };
    let fresh = file.with_extension("fresh");
    std::fs::write(&fresh, response.encode_to_vec())?;
    std::fs::rename(fresh, file)?;
    Ok(length)
}

/// Microseconds of the main thread on the processor so far.
fn main_thread(envoy: &Envoy) -> Result<f64> {
    let id = envoy.id().context("Envoy has ended")?;
    let times = std::fs::read_to_string(format!("/proc/{id}/task/{id}/schedstat"))?;
    let nanos = times.split(' ').next().context("no times")?.parse()?;
    Ok(std::time::Duration::from_nanos(nanos).as_secs_f64() * 1e6)
}

/// Waits until Envoy took so many versions; it has nothing else to do then.
async fn taken(envoy: &Envoy, count: usize) -> Result<()> {
    eventually(TIMEOUT, async || {
        let stats = envoy.stats().await?;
        let is = |what: &str| stats.iter().find_map(|(name, count)| name.ends_with(what).then_some(*count));
        ensure!(is("rds.http/80.update_rejected").unwrap_or_default() == 0, "it is refused");
        ensure!(is("rds.http/80.update_success") == Some(count as u64), "version {count} has not come");
        Ok(())
    })
    .await
}

/// What a change is measured of.
#[derive(Clone, Copy, PartialEq)]
enum Turn {
    Route,
    Provider,
}

/// Megabytes that are allocated, milliseconds of the main thread for a change of a route and of the provider, megabytes sent.
async fn measure(asking: usize, from: u64, asked: &Asked) -> Result<[f64; 4]> {
    let mut settings = ir::Settings { shared_host: false, ..ir::Settings::default() };
    settings.capacity.max_bytes = 1 << 40;
    settings.policies.say_once_from = from;
    let mut translator = Translator::new(settings);
    for value in objects(asking, asked) {
        translator.apply(Change::Put(object(value)));
    }
    translator.settle();
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("routes.pb");
    let mut sent = write(&translator, &file, 1)?;
    let envoy = Envoy::start(&bootstrap(&translator, &file, ports::free_port()?)?).await?;
    taken(&envoy, 1).await?;
    let memory: Value = serde_json::from_str(&envoy.admin("/memory").await?.body)?;
    let memory: f64 = memory["allocated"].as_str().context("no memory")?.parse()?;
    let mut version = 1;
    let mut medians = Vec::new();
    for turn in [Turn::Route, Turn::Provider] {
        let mut times = Vec::new();
        for _ in 0..UPDATES {
            version += 1;
            let change = if turn == Turn::Route { route(0, version) } else { provider(version, asked) };
            translator.apply(Change::Put(object(change)));
            translator.settle();
            let before = main_thread(&envoy)?;
            sent = write(&translator, &file, version)?;
            taken(&envoy, version).await?;
            times.push((main_thread(&envoy)? - before) / 1e3);
            if turn == Turn::Provider && asking == 0 {
                break;
            }
        }
        times.sort_by(f64::total_cmp);
        medians.push(times[times.len() / 2]);
    }
    #[allow(clippy::cast_precision_loss, reason = "far fewer than that")]
    let sent = sent as f64 / 1e6;
    Ok([memory / 1e6, medians[0], medians[1], sent])
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    println!("{ROUTES} routes, each on a hostname of its own");
    println!(
        "{:<18} {:>8} {:>10} {:>10} {:>14} {:>17} {:>9}",
        "asked", "by", "said", "memory", "route changed", "provider changed", "sent"
    );
    let only =
        std::env::args().skip(1).find(|argument| argument != "--bench").map(|count| count.parse()).transpose()?;
    for asked in ASKED.iter().take(if only.is_some() { 1 } else { ASKED.len() }) {
        let counts = if asked.0 == "extAuth" { vec![64, 256, 1_024, ROUTES] } else { vec![ROUTES] };
        for asking in only.map_or(counts, |only| vec![only]) {
            let mut each = None;
            for (said, from) in [("by each", 0), ("once", 1)] {
                let measured = measure(asking, from, asked).await?;
                let [memory, route, provider, sent] = measured;
                println!(
                    "{:<18} {asking:>8} {said:>10} {memory:>7.1} MB {route:>11.0} ms {provider:>14.0} ms {sent:>6.2} MB",
                    asked.0
                );
                match each {
                    None => each = Some(measured),
                    Some(each) => {
                        let [memory, route, provider, sent] = std::array::from_fn(|at| measured[at] / each[at]);
                        println!(
                            "{:<18} {asking:>8} {:>10} {memory:>10.2} {route:>14.2} {provider:>17.2} {sent:>9.2}",
                            "", "ratio"
                        );
                    }
                }
            }
        }
    }
    Ok(())
}
