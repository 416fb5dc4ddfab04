//! What units of policies cost: a route with one in a proxy's memory and on its main thread, and a request.
//!
//! `cargo bench -p portcullis-tests --bench units` runs an Envoy with many routes that say the same, and sends requests to the
//! first, each with what has it pass. It counts the time on the processor, which other programs on the machine turn less than
//! the time that passes, and prints that too, as a median and a 99th percentile above what a route takes that says nothing.
//! Who judges and processes runs in the same process as who asks, so that of these units it is the way there and back. Nobody
//! counts: to Envoy, a route that answers by itself has no global limits.
//!
//! Then requests of somebody who has logged in go to a backend, and requests with bodies, with a template of the body and
//! without. `-- 30` sends so many requests of each, which shows in some seconds that all of it works.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark prints, and ends when anything is wrong")]

#[path = "units/logins.rs"]
mod logins;

use std::{
    net::Ipv4Addr,
    sync::{Arc, LazyLock},
    time::Instant,
};

use anyhow::{Context, Result, ensure};
use api::{
    core::Secret,
    gateway_extension::{ExtensionReference, GatewayExtensionSpec},
    meta::StringMap,
    shared::BackendRef,
    traffic_policy::TrafficPolicySpec,
};
use envoy::{
    ResourceKind,
    bootstrap::{self, AdminAddress, XdsAddress},
    bytes::Fields,
    extensions, json as envoy_json, listener,
    testing::{inline_extensions, samples},
};
use envoy_types::pb::envoy::config::route::v3::Route;
use ir::{
    NsName, Problem, Reason, Severity,
    backend::{Asked, ServicePort},
    settings::Edge,
};
use portcullis_tests::{
    client::{Connection, Request, Target},
    echo::Echo,
    envoy::Envoy,
    ports,
};
use serde_json::{Value, json};

const ROUTES: u32 = 20;
const REQUESTS: u32 = 3_000;
/// Bytes of bodies.
const BODIES: [usize; 2] = [64 << 10, 1 << 20];
/// Bytes of a body that an Envoy here reads or keeps: more than an answer to the largest has.
const MOST_BODY: u32 = 16 << 20;

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
    let users: Vec<_> = (0..256).map(|index| format!("user{index}:{{SHA}}5en6G6MezRroT3XKqkdPOmY/BfQ=")).collect();
    let asked = |name: &str| json!({"extensionRef": {"name": name}});
    let mut global = asked("counter");
    global["descriptors"] = json!([{"entries": [{"type": "Generic", "generic": {"key": "a", "value": "b"}}]}]);
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
        ("cors", json!({"cors": {"allowOrigins": ["https://example.com"]}})),
        ("faultInjection", json!({"faultInjection": {"abort": {"httpStatus": 503, "percentage": 0}}})),
        ("compression", json!({"compression": {"responseCompression": {}}})),
        ("jwtAuth", json!({"jwtAuth": asked("tokens")})),
        ("extAuth", json!({"extAuth": asked("judge")})),
        ("extProc", json!({"extProc": asked("processor")})),
        ("rateLimit.global", json!({"rateLimit": {"global": global}})),
    ]
}

/// What becomes of bodies, and how it is told. The first is what the others are held against.
fn of_bodies() -> Vec<(&'static str, Value)> {
    let template = |direction: &str, said: Value| json!({"transformation": {direction: said}});
    let text = json!({"body": {"value": "{{ body() }}"}});
    let member = json!({"body": {"parseAs": "AsJson"}, "set": [{"name": "x-user", "value": "{{ user.name }}"}]});
    let count = json!({"body": {"parseAs": "AsJson", "value": "{{ items | length }}"}});
    vec![
        ("nothing", json!({})),
        ("request: read, and written again", template("request", text.clone())),
        ("request: JSON, for a header", template("request", member)),
        ("request: JSON, for a body", template("request", count)),
        ("response: read, and written again", template("response", text)),
    ]
}

/// JSON of about so many bytes, of which a few hundred stand in each item.
fn body(bytes: usize) -> String {
    let item = |id| json!({"id": id, "name": format!("item {id}"), "said": "a few words of it ".repeat(16)});
    let each = item(0).to_string().len();
    json!({"user": {"name": "alice"}, "items": (0..bytes / each).map(item).collect::<Vec<_>>()}).to_string()
}

/// What has a request pass all of these.
fn passes(request: Request) -> Request {
    request
        .header("authorization", "Basic dXNlcjA6c2VjcmV0")
        .header("api-key", "key-00000-0123456789-0123456789")
        .header("x-token", &format!("Bearer {TOKEN}"))
}

/// A token whose key is in [`Providers`], which does not end before the year 2100. What made it is gone.
const TOKEN: &str = "eyJhbGciOiJFUzI1NiIsImtpZCI6Im9uZSIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJodHRwczovL29uZS5leGFtcGxlIiwic3ViIjoiYWxpY2UiLCJ\
                     leHAiOjQxMDI0NDQ4MDAsImF1ZCI6InNob3AiLCJyb2xlIjoiYWRtaW4ifQ.mnADPohMpTnned3JCEo9WsVOG0XTUwETPEcfFU0qM4SN2ZgpLYRD\
                     GS7iS_wYpT-Tay7W3tHqLkog4PsuYgafhw";

/// Who is named; all run at one address.
struct Providers;

impl units::ExtensionReader for Providers {
    fn extension(&self, reference: &ExtensionReference) -> std::result::Result<Arc<units::Extension>, String> {
        let service = json!({"backendRef": {"name": "provider", "port": 80}});
        let key = json!({"kty": "EC", "crv": "P-256", "kid": "one", "alg": "ES256", "use": "sig",
            "x": "JfNWD_567PimJzzyQikB52C_TrdQpbni9fNty-cxucQ", "y": "ty3ykFzSv449nRKqLv8zqLgFkTyto0Sbrl2Tbiy9O1c"});
        let spec = match &*reference.name {
            "judge" => json!({"extAuth": {"grpcService": service}}),
            "processor" => json!({"extProc": {"grpcService": service}}),
            "counter" => json!({"rateLimit": {"grpcService": service, "domain": "d"}}),
            _ => json!({"jwt": {"providers": [{
                "name": "one", "issuer": "https://one.example", "audiences": ["shop"],
                "tokenSource": {"header": {"header": "x-token", "prefix": "Bearer "}},
                "jwks": {"local": {"inline": key.to_string()}}}]}}),
        };
        let spec: GatewayExtensionSpec = serde_json::from_value(spec).map_err(|error| error.to_string())?;
        let id = NsName::new("n", reference.name.clone());
        units::Extension::read(&id, &spec, &mut At).map(Arc::new).map_err(|problem| problem.to_string())
    }
}

/// Where all are.
struct At;

impl units::extension::Follow for At {
    fn follow(&mut self, _: &BackendRef, _: &str, _: bool) -> std::result::Result<Asked, Problem> {
        Ok(provider())
    }

    fn config_map(&self, name: &Arc<str>, _: &str) -> std::result::Result<Arc<str>, String> {
        Err(format!("no ConfigMap {name} is named here"))
    }

    fn client_secret(&mut self, name: &str, field: &str) -> std::result::Result<NsName, Problem> {
        Err(Problem::new(Severity::Refused, Reason::Invalid, field, format!("no Secret {name} is named here")))
    }
}

fn provider() -> Asked {
    Asked::Own(ir::backend::Destination::Service(ServicePort::tcp(NsName::new("n", "provider"), 80)))
}

/// The cluster of [`provider`].
fn cluster(echo: &Echo) -> Value {
    let name = provider().cluster_name();
    let address = json!({"socketAddress": {"address": "127.0.0.1", "portValue": echo.address().port()}});
    let endpoints = json!([{"lbEndpoints": [{"endpoint": {"address": address}}]}]);
    let http2 = json!({"@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
        "explicitHttpConfig": {"http2ProtocolOptions": {}}});
    json!({"name": name, "type": "STATIC", "connectTimeout": "1s",
        "loadAssignment": {"clusterName": name, "endpoints": endpoints},
        "typedExtensionProtocolOptions": {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": http2}})
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

/// The configuration of an Envoy with so many routes that say this, and do `action`.
fn bootstrap(port: u16, policy: &Value, action: &Value, echo: &Echo) -> Result<Value> {
    let spec: TrafficPolicySpec = serde_json::from_value(policy.clone())?;
    let others = units::Others { secrets: &Keys, extensions: &Providers };
    let units = units::read(&spec, &others).map_err(|problem| anyhow::anyhow!("{problem}"))?;
    let slots: Vec<_> =
        units.iter().flat_map(|said| said.unit.as_ref().map_or(&[][..], units::SharedUnit::slots)).collect();
    let configs = slots.iter().map(|slot| (slot.name, slot.config.to_vec()));
    let message = Fields::of(&Route::default()).map(13, configs).into_bytes();
    let said = envoy_json::value("envoy.config.route.v3.Route", &message)?;
    let routes = (0..ROUTES).map(|number| {
        let mut route = action.clone();
        route["match"] = json!({"path": format!("/{number}")});
        route["typedPerFilterConfig"] = said.get("typedPerFilterConfig").cloned().unwrap_or_else(|| json!({}));
        route
    });
    let sample = &samples::listeners(&[])[0];
    let built = listener::listener(sample, &Edge { access_log: false, buffer_bytes: MOST_BODY, ..Edge::default() });
    let mut built = envoy_json::value("envoy.config.listener.v3.Listener", &built.body.to_bytes())?;
    let manager = built.pointer_mut("/filterChains/0/filters/0/typedConfig").context("no connection manager")?;
    manager.as_object_mut().context("no message")?.remove("rds");
    let judges = |id: &NsName| {
        let reference = ExtensionReference { name: id.name.clone(), namespace: None };
        let extension = units::ExtensionReader::extension(&Providers, &reference).ok()?;
        extension.provider.token_judges().cloned()
    };
    inline_extensions(manager, |name| {
        let entries = slots.iter().filter_map(|slot| slot.entry.as_deref());
        let entries = entries.filter(|entry| extensions::holder(entry) == Some(name));
        let extension = extensions::extension(name, entries, judges, MOST_BODY).body.to_bytes();
        envoy_json::value(ResourceKind::ExtensionConfig.message_name(), &extension).unwrap()
    });
    let host = json!({"name": "all", "domains": ["*"], "routes": routes.collect::<Vec<_>>()});
    manager["routeConfig"] = json!({"virtualHosts": [host]});
    built["address"]["socketAddress"]["portValue"] = json!(port);
    let resources = json!({"listeners": [built], "clusters": [cluster(echo)]});
    Ok(json!({"staticResources": resources, "layeredRuntime": runtime()?}))
}

/// What every Envoy of ours runs with.
fn runtime() -> Result<Value> {
    let xds = XdsAddress::Tcp { host: "127.0.0.1".into(), port: 18_000 };
    let admin = AdminAddress::Tcp { address: Ipv4Addr::LOCALHOST.into(), port: 0 };
    let ours = bootstrap::bootstrap(&NsName::new("infra", "edge"), "bench", &xds, &admin, &Edge::default());
    Ok(bootstrap::bootstrap_json(&ours)?["layeredRuntime"].take())
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

/// Sends so many, and gives how long each took, in microseconds, the shortest first.
async fn requests(target: &Target, request: &Request, count: u32) -> Result<Vec<f64>> {
    let mut connection = Connection::open(target).await?;
    let mut times = Vec::new();
    for _ in 0..count {
        let start = Instant::now();
        let response = connection.send(request).await?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
        ensure!(response.status == 200, "{}: {}", response.status, response.body);
    }
    times.sort_by(f64::total_cmp);
    Ok(times)
}

/// Of so many requests: the time of each on the processor, and the median and the 99th percentile of the time that passes.
async fn of_requests(envoy: &Envoy, target: &Target, request: &Request, count: u32) -> Result<[f64; 3]> {
    let (_, before) = processor(envoy)?;
    let passed = requests(target, request, count).await?;
    let time = (processor(envoy)?.1 - before) / f64::from(count);
    let [p50, p99] = [50, 99].map(|percent| passed[passed.len() * percent / 100]);
    Ok([time, p50, p99])
}

/// Memory and time of the main thread, of all routes; time of a request on the processor, with a short header and with a long
/// one; the median and the 99th percentile of the time that passes for a short one.
async fn measure(policy: &Value, echo: &Echo, count: u32) -> Result<[f64; 6]> {
    let port = ports::free_port()?;
    let answer = json!({"directResponse": {"status": 200, "body": {"inlineString": "ok"}}});
    let envoy = Envoy::start(&bootstrap(port, policy, &answer, echo)?).await?;
    let memory: Value = serde_json::from_str(&envoy.admin("/memory").await?.body)?;
    let memory = memory["allocated"].as_str().context("no memory")?.parse()?;
    let (main, _) = processor(&envoy)?;
    let target = Target::local(port);
    let with = |header: &str| passes(Request::get("example.com", "/0").header("x-long", header));
    let some = count.div_ceil(10);
    requests(&target, &with("a"), some).await?;
    let [long, ..] = of_requests(&envoy, &target, &with(&"a".repeat(50_000)), some).await?;
    let [short, p50, p99] = of_requests(&envoy, &target, &with("a"), count).await?;
    Ok([memory, main, short, long, p50, p99])
}

/// Of requests with a body of so many bytes, which go to a backend: as [`of_requests`] has it.
async fn measure_bodies(policy: &Value, echo: &Echo, bytes: usize, count: u32) -> Result<[f64; 3]> {
    let port = ports::free_port()?;
    let forward = json!({"route": {"cluster": provider().cluster_name(), "timeout": "0s"}});
    let envoy = Envoy::start(&bootstrap(port, policy, &forward, echo)?).await?;
    let target = Target::local(port);
    let request = Request { method: "POST".into(), body: body(bytes), ..Request::get("example.com", "/0") };
    requests(&target, &request, count.div_ceil(10)).await?;
    of_requests(&envoy, &target, &request, count).await
}

/// What is printed of units.
async fn print_units(echo: &Echo, count: u32) -> Result<()> {
    println!(
        "{:<28} {:>10} {:>12} {:>11} {:>16} {:>11} {:>11}",
        "a route with", "memory", "main thread", "a request", "header of 50 kB", "p50 more", "p99 more"
    );
    let mut nothing = None;
    for (name, policy) in policies() {
        let measured = measure(&policy, echo, count).await.with_context(|| name)?;
        let of_none = *nothing.get_or_insert(measured);
        let [memory, main, _, _, p50, p99] = std::array::from_fn(|at| measured[at] - of_none[at]);
        let [_, _, short, long, ..] = measured;
        let (memory, main) = (memory / f64::from(ROUTES) / 1e3, main / f64::from(ROUTES));
        println!(
            "{name:<28} {memory:>7.1} kB {main:>9.0} us {short:>8.1} us {long:>13.1} us {p50:>8.1} us {p99:>8.1} us"
        );
    }
    Ok(())
}

/// What is printed of bodies.
async fn print_bodies(echo: &Echo, count: u32) -> Result<()> {
    println!(
        "\n{:<36} {:>9} {:>14} {:>12} {:>12} {:>12} {:>12}",
        "a body, and what becomes of it", "", "a request", "p50", "p99", "p50 more", "p99 more"
    );
    for bytes in BODIES {
        let mut nothing = None;
        for (name, policy) in of_bodies() {
            let measured = measure_bodies(&policy, echo, bytes, count).await.with_context(|| name)?;
            let [_, p50_of_none, p99_of_none] = *nothing.get_or_insert(measured);
            let [time, p50, p99] = measured;
            println!(
                "{name:<36} {:>5} KiB {time:>11.0} us {p50:>9.0} us {p99:>9.0} us {:>9.0} us {:>9.0} us",
                bytes >> 10,
                p50 - p50_of_none,
                p99 - p99_of_none
            );
        }
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let said = std::env::args().skip(1).find(|argument| argument != "--bench");
    let count = said.map_or(Ok(REQUESTS), |count| count.parse())?;
    let echo = Echo::start("provider", (Ipv4Addr::LOCALHOST, 0).into()).await?;
    print_units(&echo, count).await?;
    logins::print_logins(&echo, count).await?;
    print_bodies(&echo, count.div_ceil(10)).await
}
