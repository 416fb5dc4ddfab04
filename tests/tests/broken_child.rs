//! A child that breaks takes nothing from anybody else: all other routes keep their bytes and their places, and what the
//! child was asked for reaches no backend, whoever else matches it.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use portcullis_tests::oracle::stage::{Seen, Stage};
use portcullis_tests::oracle::worlds::{Kind, World, fixtures, worlds};
use portcullis_tests::oracle::{Oracle, Outcome, Settings};
use portcullis_tests::{manifests, portcullis};
use proptest::strategy::ValueTree;
use serde_json::{Value, json};
use worlds::Draws;

/// How many worlds are looked at, besides new ones; in some there is no child that takes a request.
const WORLDS: usize = 45;

/// How a child is broken.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// It sets hostnames, which a child may not.
    Hostnames,
    /// Each rule has a filter that nobody knows.
    Filter,
    /// A policy with a field that is not supported applies to it.
    Policy,
}

/// A world with one child to break.
struct Case {
    world: World,
    fault: Fault,
    /// `NAMESPACE/NAME`.
    child: String,
    /// What becomes of each request before the child breaks.
    before: Vec<Outcome>,
}

impl Case {
    /// None where no child takes a request.
    fn of(world: World, number: usize) -> Result<Option<Self>> {
        let before = ask(&world)?;
        let mut children: Vec<_> = before.iter().filter_map(taker).filter(|name| is_leaf(&world, name)).collect();
        children.sort();
        children.dedup();
        if children.is_empty() {
            return Ok(None);
        }
        let child = children.swap_remove(number % children.len());
        let fault = [Fault::Hostnames, Fault::Filter, Fault::Policy][number % 3];
        Ok(Some(Self { world, fault, child, before }))
    }

    /// The world with the broken child.
    fn broken(&self) -> World {
        let mut world = self.world.clone();
        let (namespace, name) = self.child.split_once('/').unwrap_or_default();
        let child = world.manifests.iter_mut().find(|manifest| is_route(manifest, &self.child));
        match (self.fault, child) {
            (Fault::Hostnames, Some(child)) => child["spec"]["hostnames"] = json!(["a.example.com"]),
            (Fault::Filter, Some(child)) => {
                let unknown = json!({"group": "example.com", "kind": "Tomorrow", "name": "f"});
                for rule in child["spec"]["rules"].as_array_mut().into_iter().flatten() {
                    rule["filters"] = json!([{"type": "ExtensionRef", "extensionRef": unknown}]);
                }
            }
            (Fault::Policy, _) => world.manifests.push(json!({
                "apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "TrafficPolicy",
                "metadata": {"namespace": namespace, "name": "broken"},
                "spec": {
                    "targetRefs": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": name}],
                    "extAuth": {"extensionRef": {"name": "auth"}},
                },
            })),
            (_, None) => {}
        }
        world
    }

    /// Compares the Envoy routes of both worlds, all but those of the child.
    async fn compare_routes(&self, broken: &World) -> Result<()> {
        let (before, after) = (routes(&self.world).await?, routes(broken).await?);
        ensure!(before.keys().eq(after.keys()), "virtual hosts come or go");
        for (host, before) in &before {
            let of_child = format!("{}/", self.child);
            let others = |routes: &[Value]| -> Vec<Value> {
                let others = routes.iter().filter(|route| {
                    let name = route["name"].as_str().unwrap_or_default();
                    // What sets hostnames is no child: where there is no other its parent answers by itself.
                    let of_parent = matches!(self.fault, Fault::Hostnames) && is_answer_of_parent(route, &self.world);
                    !name.starts_with(&of_child) && !of_parent
                });
                others.cloned().collect()
            };
            let after = after.get(host).map(Vec::as_slice).unwrap_or_default();
            ensure!(others(before) == others(after), "other routes of {host} turn");
            for route in
                after.iter().filter(|route| route["name"].as_str().is_some_and(|name| name.starts_with(&of_child)))
            {
                ensure!(route["directResponse"]["status"] == 500, "the child still serves: {route}");
            }
        }
        Ok(())
    }

    /// Compares what becomes of requests.
    fn compare_requests(&self, broken: &World, seen: &[Seen]) -> Result<usize> {
        // The oracle knows what hostnames do, and no policies and filters.
        let after = if matches!(self.fault, Fault::Hostnames) { ask(broken)? } else { self.before.clone() };
        let mut refused = 0;
        for (index, (asked, seen)) in self.world.requests.iter().zip(seen).enumerate() {
            if taker(&self.before[index]).as_ref() == Some(&self.child) {
                ensure!(seen.status == 500 && seen.echoed.is_none(), "{asked}: {seen}");
                refused += 1;
            } else {
                seen.compare(&after[index]).with_context(|| asked.to_string())?;
            }
        }
        Ok(refused)
    }
}

fn ask(world: &World) -> Result<Vec<Outcome>> {
    let all: Vec<_> = fixtures().into_iter().chain(world.manifests.iter().cloned()).collect();
    let oracle = Oracle::read(&all, &Settings::default())?;
    Ok(world.requests.iter().map(|asked| oracle.ask(asked.gateway, asked.port, &asked.request)).collect())
}

/// The child that takes a request, `NAMESPACE/NAME`.
fn taker(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Route(taken) if taken.chain.len() > 1 => outcome.route_identity().map(|step| step.route.to_string()),
        _ => None,
    }
}

fn is_route(manifest: &Value, name: &str) -> bool {
    let metadata = &manifest["metadata"];
    let text = |field: &str| metadata[field].as_str().unwrap_or_default();
    manifest["kind"] == "HTTPRoute" && format!("{}/{}", text("namespace"), text("name")) == name
}

fn delegates(rule: &Value) -> bool {
    let mut references = rule["backendRefs"].as_array().into_iter().flatten();
    references.any(|reference| !reference["group"].is_null())
}

/// Whether a route only stands below others, and nothing below it.
fn is_leaf(world: &World, name: &str) -> bool {
    let Some(route) = world.manifests.iter().find(|manifest| is_route(manifest, name)) else { return false };
    let mut rules = route["spec"]["rules"].as_array().into_iter().flatten();
    let mut parents = route["spec"]["parentRefs"].as_array().into_iter().flatten();
    !rules.any(delegates) && parents.all(|parent| parent["kind"] == "HTTPRoute")
}

/// Whether an Envoy route is what a delegating rule answers where nothing else does.
fn is_answer_of_parent(route: &Value, world: &World) -> bool {
    let mut parts = route["name"].as_str().unwrap_or_default().split('/');
    let (Some(namespace), Some(name), Some(rule)) = (parts.next(), parts.next(), parts.next()) else { return false };
    let name = format!("{namespace}/{name}");
    let parent = world.manifests.iter().find(|manifest| is_route(manifest, &name));
    let rule = rule.parse::<usize>().ok().and_then(|rule| parent?["spec"]["rules"].get(rule));
    rule.is_some_and(delegates) && !route["directResponse"].is_null()
}

/// Envoy routes by Gateway, route configuration and virtual host.
async fn routes(world: &World) -> Result<BTreeMap<String, Vec<Value>>> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("world.yaml");
    let all: Vec<_> = fixtures().into_iter().chain(world.manifests.iter().cloned()).collect();
    std::fs::write(&file, manifests::print(&all)?)?;
    let printed = portcullis::translate(&[&file]).await?;
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut routes = BTreeMap::new();
    for gateway in list(&printed["gateways"]) {
        for config in list(&gateway["routes"]) {
            for host in list(&config["virtualHosts"]) {
                let key = format!("{} {} {}", gateway["gateway"], config["name"], host["name"]);
                routes.insert(key, list(&host["routes"]));
            }
        }
    }
    Ok(routes)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_child_reaches_no_backend_and_changes_no_byte_of_other_routes() -> Result<()> {
    let mut stage = Stage::start().await?;
    let (mut cases, mut refused) = (0, 0);
    let trees = Draws::new().take(&worlds(Kind::Trees), WORLDS);
    for (number, world) in trees.iter().map(ValueTree::current).enumerate() {
        let Some(case) = Case::of(world, number)? else { continue };
        let broken = case.broken();
        let told = || {
            let manifests: Vec<_> = broken.manifests.iter().map(ToString::to_string).collect();
            format!("world {number}, {} broken by {:?}:\n{}", case.child, case.fault, manifests.join("\n"))
        };
        case.compare_routes(&broken).await.with_context(told)?;
        let seen = stage.play(&broken).await.with_context(told)?;
        refused += case.compare_requests(&broken, &seen).with_context(told)?;
        cases += 1;
    }
    println!("{cases} broken children, {refused} requests for them");
    ensure!(cases > WORLDS / 3 && refused > cases, "{cases} children, {refused} requests");
    Ok(())
}
