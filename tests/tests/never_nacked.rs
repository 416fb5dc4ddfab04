//! A running Envoy never refuses an update, and ends up with exactly what Portcullis says that it has.
//!
//! Generated worlds with hostile values are written into the watched folder one after the other, so that each replaces
//! what the one before left. What an API server would refuse is refused at the door; the rest reaches Envoy by ADS.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use portcullis_tests::envoy::Envoy;
use portcullis_tests::manifests;
use portcullis_tests::portcullis::Portcullis;
use portcullis_tests::ports;
use portcullis_tests::wait::{TIMEOUT, eventually};
use proptest::strategy::ValueTree;
use serde_json::{Value, json};
use worlds::Draws;
use worlds::values::GATEWAYS;
use worlds::world::{Place, world};

const WORLDS: usize = 100;

/// A Gateway that no Envoy serves and no world changes: what it is given tells that a world was read.
const SENTINEL: &str = "infra/sentinel";

/// What there is of each type, by name, in a form in which two spellings of JSON are equal.
type Resources = BTreeMap<(&'static str, String), Value>;

fn sentinel(port: u16, number: usize) -> Vec<Value> {
    let gateway = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
        "metadata": {"name": "sentinel", "namespace": "infra", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"gatewayClassName": "ours", "listeners": [{"name": "l", "port": port, "protocol": "HTTP"}]},
    });
    let route = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": {"name": "sentinel", "namespace": "infra"},
        "spec": {
            "parentRefs": [{"name": "sentinel"}],
            "rules": [{"matches": [{"path": {"type": "Exact", "value": format!("/world/{number}")}}]}],
        },
    });
    vec![gateway, route]
}

/// A file with the world. JSON, since YAML has no place for some characters.
fn file(mut world: Vec<Value>, port: u16, number: usize) -> Result<(String, String)> {
    world.extend(sentinel(port, number));
    Ok(("world.json".to_owned(), manifests::print(&world)?.replace("---\n", "")))
}

/// The snapshot, once it is that of the world of this number.
async fn snapshot(portcullis: &Portcullis, number: usize) -> Result<Value> {
    eventually(TIMEOUT, async || {
        let snapshot = portcullis.snapshot().await?;
        let read = entry(&snapshot, SENTINEL)
            .is_some_and(|entry| entry["routes"].to_string().contains(&format!("\"/world/{number}\"")));
        ensure!(read, "world {number} is not read");
        Ok(snapshot)
    })
    .await
}

fn entry<'a>(snapshot: &'a Value, gateway: &str) -> Option<&'a Value> {
    snapshot["gateways"].as_array()?.iter().find(|entry| entry["gateway"] == gateway)
}

/// What Portcullis says that the Envoys of a Gateway have; nothing for one that is not served.
fn expected(snapshot: &Value, gateway: &str) -> Resources {
    let mut resources = Resources::new();
    let Some(entry) = entry(snapshot, gateway) else { return resources };
    for kind in ["listeners", "routes", "clusters", "secrets"] {
        for value in entry[kind].as_array().into_iter().flatten() {
            insert(&mut resources, kind, value);
        }
    }
    // What is for connections from before a certificate was demanded is asked for by those alone.
    let verified =
        resources.keys().filter_map(|(kind, name)| Some((*kind, name.strip_suffix("/verified")?.to_owned())));
    for from_before in verified.collect::<Vec<_>>() {
        resources.remove(&from_before);
    }
    resources
}

/// What an Envoy has.
async fn actual(envoy: &Envoy) -> Result<Resources> {
    let dump = envoy.config_dump().await?;
    let mut resources = Resources::new();
    let places = [
        ("listeners", "dynamic_listeners", "/active_state/listener"),
        ("routes", "dynamic_route_configs", "/route_config"),
        ("clusters", "dynamic_active_clusters", "/cluster"),
        ("secrets", "dynamic_active_secrets", "/secret"),
    ];
    for section in dump["configs"].as_array().context("no configs")? {
        for (kind, list, path) in places {
            for item in section[list].as_array().into_iter().flatten() {
                ensure!(item.get("error_state").is_none(), "refused: {item}");
                if let Some(value) = item.pointer(path) {
                    insert(&mut resources, kind, value);
                }
            }
        }
    }
    Ok(resources)
}

fn insert(resources: &mut Resources, kind: &'static str, value: &Value) {
    let name = value["name"].as_str().unwrap_or_default().to_owned();
    // Neither prints what is secret.
    let value = if kind == "secrets" { Value::Null } else { plain(value) };
    resources.insert((kind, name), value);
}

/// Fields that Envoy prints in parts or not at all, users of basic authentication and the names of those who have keys, and one
/// that is printed by it alone: what servers are shown, by either's name.
const UNPRINTED: [&str; 4] = ["users", "credentials", "initialMetadata", "initial_metadata"];

/// Without what differs between `fieldName` and `field_name`, and without what Envoy does not print.
fn plain(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().filter(|(name, _)| !UNPRINTED.contains(&name.as_str()));
            Value::Object(fields.map(|(name, value)| (name.replace('_', "").to_lowercase(), plain(value))).collect())
        }
        Value::Array(items) => items.iter().map(plain).collect(),
        Value::Number(number) => json!(number.as_f64()),
        other => other.clone(),
    }
}

/// The first thing in which two of them differ.
fn difference(expected: &Resources, actual: &Resources) -> Option<String> {
    let missing: Vec<_> = expected.keys().filter(|name| !actual.contains_key(name)).collect();
    // A listener that is gone drains for minutes, and keeps what it uses until then.
    let gone =
        |(kind, name): &&(&'static str, String)| *kind == "listeners" && !expected.contains_key(&(*kind, name.clone()));
    let surplus: Vec<_> = actual.keys().filter(gone).collect();
    if !missing.is_empty() || !surplus.is_empty() {
        return Some(format!("missing {missing:?}, surplus {surplus:?}"));
    }
    for (name, expected) in expected {
        let mut actual = actual.get(name)?.clone();
        if expected.get("@type").is_none()
            && let Some(fields) = actual.as_object_mut()
        {
            fields.remove("@type");
        }
        if *expected != actual {
            return Some(format!("{name:?} is\n{actual}\nand not\n{expected}"));
        }
    }
    None
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_is_written_into_the_folder() -> Result<()> {
    let (sentinel, mut own) = (ports::free_port()?, Vec::new());
    for _ in 0..4 {
        own.push(ports::free_port()?);
    }
    let place = Place {
        ports: own,
        addresses: vec![
            "127.0.0.1",
            "0.0.0.0",
            "::1",
            "::",
            "127.0.0.2",
            "255.255.255.255",
            "224.0.0.1",
            "203.0.113.7",
            "2001:db8::1",
            "fe80::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "",
            "x",
        ],
        edits: 2,
    };
    let strategy = world(&place);
    let mut worlds = Draws::new().take(&strategy, WORLDS).into_iter().map(|tree| tree.current());
    let count = worlds.len();
    let mut next = || worlds.next().context("as many as were drawn");

    let first = next()?;
    let mut portcullis = Portcullis::start(&[file(first, sentinel, 0)?]).await?;
    let mut envoys = Vec::new();
    for gateway in GATEWAYS {
        let gateway = format!("infra/{gateway}");
        let envoy = Envoy::launch(&portcullis.bootstrap(&gateway).await?)?;
        envoys.push((gateway, envoy));
    }
    let mut served = 0;
    for number in 0..count {
        if number > 0 {
            let (name, content) = file(next()?, sentinel, number)?;
            portcullis.write(&name, &content)?;
        }
        let snapshot = snapshot(&portcullis, number).await.with_context(|| portcullis.log_tail())?;
        for (gateway, envoy) in &mut envoys {
            let expected = expected(&snapshot, gateway);
            served += expected.len();
            let taken = eventually(TIMEOUT, async || {
                let difference = difference(&expected, &actual(envoy).await?);
                ensure!(difference.is_none(), "world {number}, {gateway}: {}", difference.unwrap_or_default());
                Ok(())
            });
            if let Err(error) = taken.await {
                let context = format!("{}\n{}", envoy.log_tail(), portcullis.log_tail());
                return Err(error.context(context));
            }
            // Counters of a resource go with it.
            envoy.check().await.with_context(|| format!("world {number}"))?;
        }
        portcullis.check()?;
    }
    println!("{count} worlds, {served} resources");
    ensure!(served > count * 3, "only {served} resources were served");
    portcullis.was_never_refused().await
}
