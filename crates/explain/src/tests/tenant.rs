//! A hostile tenant turns nothing of his victims', whatever he writes beside them.

use std::collections::{BTreeMap, BTreeSet};

use api::{Object, ObjectId};
use envoy::{Encoded, ResourceKey, ResourceKind};
use proptest::{collection::vec, prelude::*};
use prost::Message as _;
use serde_json::{Value, json};
use translate::{Change, Translator};
use worlds::tenant::{
    HEALTHY, NAMESPACES, NEIGHBOUR, OWN, OWNED_HOST, Place, SHARED, TREE_HOST, VICTIMS, rules, tenant, victims,
};

use crate::{Request, explain};

const PLACE: Place = Place { http: 80, https: 443, open: 81, own: 80, foreign: 80, backend: ("10.0.0.1", 8080) };

/// A route configuration as far as it is compared: what is not named here stays in it as bytes or does not matter.
#[derive(Clone, PartialEq, prost::Message)]
struct Configuration {
    #[prost(bytes = "vec", repeated, tag = "2")]
    hosts: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Host {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(bytes = "vec", repeated, tag = "3")]
    routes: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Route {
    #[prost(message, optional, tag = "7")]
    answer: Option<Answer>,
    #[prost(string, tag = "14")]
    name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Answer {
    #[prost(uint32, tag = "1")]
    status: u32,
}

/// What the victims have.
#[derive(Debug)]
struct Estate {
    resources: BTreeMap<ResourceKey, Encoded>,
    statuses: BTreeMap<ObjectId, Value>,
    problems: Vec<(ObjectId, ir::Problem)>,
    answers: Vec<Value>,
}

/// A world without the tenant, and what he writes at each step.
fn attack() -> impl Strategy<Value = (Vec<Value>, Vec<Vec<Value>>)> {
    (rules(), vec(tenant(&PLACE), 1..10))
}

/// Whether an object is somebody's of these namespaces.
fn is_of(namespaces: &[&str], id: &ObjectId) -> bool {
    namespaces.contains(&&*id.namespace)
}

/// Whether nothing may be told of an object because of the tenant. The tree that hands him a path says who is there.
fn is_victims(id: &ObjectId) -> bool {
    !is_of(&NAMESPACES, id) && &*id.name != "platform"
}

impl Estate {
    fn of(translator: &Translator) -> Self {
        let resources =
            translator.resources().into_iter().filter(|(gateway, _)| is_victims_gateway(&gateway.to_string()));
        let statuses = translator.statuses().into_iter().filter(|(id, _)| is_victims(id));
        let problems = translator.problems().into_iter().filter(|(id, _)| is_victims(id));
        Self {
            resources: resources.flat_map(|(_, resources)| resources).collect(),
            statuses: statuses.map(|(id, status)| (id, without_counts(status))).collect(),
            problems: problems.collect(),
            answers: answers(translator),
        }
    }

    /// The first thing that is not as it was. Routes of the `selected` namespaces may be told what becomes of them below a
    /// rule of the tenant, which is one more parent of theirs.
    fn difference(&self, now: &Self, selected: &BTreeSet<String>) -> Option<String> {
        for (key, before) in &self.resources {
            let Some(after) = now.resources.get(key) else { return Some(format!("{key:?} is gone")) };
            let shared = key.gateway.to_string() == SHARED && key.kind == ResourceKind::RouteConfiguration;
            let turned = if shared { hosts_differ(before, after) } else { (before != after).then(String::new) };
            if let Some(how) = turned {
                return Some(format!("{key:?} turns {how}"));
            }
        }
        for (id, before) in &self.statuses {
            let Some(after) = now.statuses.get(id) else { return Some(format!("{id} has no status any more")) };
            if !says_the_same(before, after) {
                return Some(format!("the status of {id} turns from\n{before}\nto\n{after}"));
            }
        }
        if let Some((id, problem)) = self.problems.iter().find(|problem| !now.problems.contains(problem)) {
            return Some(format!("{id} is told no longer: {problem:?}"));
        }
        let below = |id: &ObjectId| id.kind == api::Kind::HttpRoute && selected.contains(&*id.namespace);
        let mut new = now.problems.iter().filter(|problem| !self.problems.contains(problem));
        if let Some((id, problem)) = new.find(|(id, _)| !below(id)) {
            return Some(format!("{id} is told of somebody else's fault: {problem:?}"));
        }
        let turned = std::iter::zip(&self.answers, &now.answers).find(|(before, after)| before != after);
        turned.map(|(before, after)| format!("an answer turns from\n{before}\nto\n{after}"))
    }
}

fn is_victims_gateway(name: &str) -> bool {
    [SHARED, OWN].contains(&name)
}

/// How many routes a listener has is everybody's.
fn without_counts(mut status: Value) -> Value {
    for listener in status["listeners"].as_array_mut().into_iter().flatten() {
        listener["attachedRoutes"] = Value::Null;
    }
    status
}

/// Whether a status says what it said; somebody else may have become one more parent.
fn says_the_same(before: &Value, after: &Value) -> bool {
    match (before["parents"].as_array(), after["parents"].as_array()) {
        (Some(before), Some(after)) => before.iter().all(|parent| after.contains(parent)),
        _ => before == after,
    }
}

fn hosts(encoded: &Encoded) -> BTreeMap<String, (Vec<u8>, Vec<Vec<u8>>)> {
    let configuration = Configuration::decode(encoded.body.to_bytes()).expect("a route configuration");
    let hosts = configuration.hosts.into_iter().map(|bytes| {
        let host = Host::decode(&*bytes).expect("a virtual host");
        (host.name, (bytes, host.routes))
    });
    hosts.collect()
}

fn name(route: &[u8]) -> String {
    Route::decode(route).expect("a route").name
}

/// What of the victims' differs between two states of a configuration that is shared.
fn hosts_differ(before: &Encoded, after: &Encoded) -> Option<String> {
    let (before, after) = (hosts(before), hosts(after));
    for (host, (bytes, routes)) in &before {
        let Some((bytes_now, routes_now)) = after.get(host) else { return Some(format!("{host} is gone")) };
        let same = match host.as_str() {
            // Nobody else is served there.
            OWNED_HOST => bytes == bytes_now,
            // What is for more hosts than this one is tried later.
            NEIGHBOUR => routes_now.starts_with(routes),
            TREE_HOST => {
                let theirs = |routes: &[Vec<u8>]| -> Vec<Vec<u8>> {
                    let of_tenant = |name: &str| NAMESPACES.iter().any(|of| name.starts_with(&format!("{of}/")));
                    // Where nobody answers below his path the tree does.
                    let left = |name: &str| name.starts_with("infra/platform/1/");
                    routes.iter().filter(|route| !of_tenant(&name(route)) && !left(&name(route))).cloned().collect()
                };
                theirs(routes) == theirs(routes_now)
            }
            _ => true,
        };
        if !same {
            return Some(format!("at {host}"));
        }
    }
    None
}

/// What victims' clients get, and by whose route.
fn answers(translator: &Translator) -> Vec<Value> {
    let requests = [
        (SHARED, format!("http://{OWNED_HOST}{HEALTHY}")),
        (SHARED, format!("https://{OWNED_HOST}{HEALTHY}")),
        (SHARED, format!("http://{OWNED_HOST}/foo/bar?q=1")),
        (SHARED, format!("https://{OWNED_HOST}/nobody")),
        (SHARED, format!("http://{NEIGHBOUR}:81{HEALTHY}")),
        (SHARED, format!("http://{TREE_HOST}/victim{HEALTHY}")),
        (SHARED, format!("http://{TREE_HOST}/victim/nobody")),
        (OWN, format!("http://any.test{HEALTHY}")),
        (OWN, "http://any.test/foo".to_owned()),
    ];
    let ask = |(gateway, url): (&str, String)| {
        let (namespace, name) = gateway.split_once('/').expect("a Gateway");
        let request = Request::new("GET", &url, std::iter::empty::<&str>()).expect("a request");
        let told = explain(translator, &ir::NsName::new(namespace, name), &request);
        json!([url, told.leaf, told.chain, told.outcome, told.effects])
    };
    requests.into_iter().map(ask).collect()
}

/// The namespaces whose routes the tenant delegates to.
fn selected(objects: &[Value]) -> BTreeSet<String> {
    let rules = objects.iter().filter_map(|object| object["spec"]["rules"].as_array()).flatten();
    let references = rules.filter_map(|rule| rule["backendRefs"].as_array()).flatten();
    let delegating = references.filter(|reference| !reference["group"].is_null());
    let namespaces = delegating.filter_map(|reference| reference["namespace"].as_str());
    let all = |namespace| if namespace == "all" { VICTIMS.to_vec() } else { vec![namespace] };
    namespaces.flat_map(all).map(str::to_owned).collect()
}

/// Routes of the tenant that answer by themselves since they are broken, of whom he is not told.
fn untold(translator: &Translator) -> Vec<String> {
    let told = translator.problems().iter().any(|(id, _)| is_of(&NAMESPACES, id));
    let resources = translator.resources().into_values().flatten();
    let configurations = resources.filter(|(key, _)| key.kind == ResourceKind::RouteConfiguration);
    let routes = configurations.flat_map(|(_, encoded)| hosts(&encoded)).flat_map(|(_, (_, routes))| routes);
    let routes = routes.map(|route| Route::decode(&*route).expect("a route"));
    let broken = routes.filter(|route| route.answer.as_ref().is_some_and(|answer| answer.status == 500));
    let of_tenant = broken.filter(|route| NAMESPACES.iter().any(|of| route.name.starts_with(&format!("{of}/"))));
    if told { Vec::new() } else { of_tenant.map(|route| route.name).collect() }
}

fn put(translator: &mut Translator, objects: &[Value]) -> Vec<ObjectId> {
    let mut ids = Vec::new();
    for object in objects {
        // What does not decode is no object.
        if let Ok(decoded) = api::decode(object.clone()) {
            let object: Object = decoded.object;
            ids.push(object.id());
            translator.apply(Change::Put(object));
        }
    }
    ids
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, max_shrink_iters: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_hostile_tenant_turns_nothing_of_his_victims_and_is_told((rules, steps) in attack()) {
        let mut translator = Translator::new(ir::Settings { shared_host: false, ..ir::Settings::default() });
        put(&mut translator, &victims(&PLACE, &rules));
        translator.settle();
        let before = Estate::of(&translator);
        let mut written: Vec<ObjectId> = Vec::new();
        for objects in steps {
            let now = put(&mut translator, &objects);
            for gone in written.iter().filter(|id| !now.contains(id)) {
                translator.apply(Change::Remove(gone.clone()));
            }
            written = now;
            translator.settle();
            if let Some(difference) = before.difference(&Estate::of(&translator), &selected(&objects)) {
                let objects: Vec<_> = objects.iter().map(ToString::to_string).collect();
                prop_assert!(false, "{}\n{}", difference, objects.join("\n"));
            }
            let untold = untold(&translator);
            prop_assert!(untold.is_empty(), "he is not told of {:?}", untold);
        }
        for gone in written {
            translator.apply(Change::Remove(gone));
        }
        translator.settle();
        prop_assert_eq!(before.resources, Estate::of(&translator).resources, "he left something behind");
    }
}

#[test]
fn victims_without_a_tenant_are_served() {
    let mut translator = Translator::new(ir::Settings { shared_host: false, ..ir::Settings::default() });
    put(&mut translator, &victims(&PLACE, &[]));
    translator.settle();
    let problems = translator.problems().into_iter().filter(|(id, _)| is_victims(id));
    let problems: Vec<_> = problems.map(|(id, problem)| (id.name, problem.reason.as_str())).collect();
    // One names no parent, so that the tenant may select it too.
    assert_eq!(problems, [("c0".into(), "PublishedUnasked")], "victims are healthy");
    let healthy = answers(&translator).into_iter().filter(|answer| answer[1] != Value::Null).count();
    assert_eq!(healthy, 5, "{:?}", answers(&translator));
    assert!(VICTIMS.iter().all(|namespace| !NAMESPACES.contains(namespace)));
}

#[test]
fn a_route_that_names_its_parents_is_nobody_elses_child_however_many_select_it() {
    let place = PLACE;
    let mut objects = victims(&place, &[]);
    let group = "gateway.networking.k8s.io";
    let mut named = objects.iter().find(|object| object["metadata"]["name"] == "c0").expect("a child").clone();
    named["metadata"]["name"] = json!("named");
    named["spec"]["rules"][0]["matches"][0]["path"]["value"] = json!("/victim/named");
    named["spec"]["parentRefs"] =
        json!([{"group": group, "kind": "HTTPRoute", "name": "platform", "namespace": "infra"}]);
    objects.push(named);
    let mut translator = Translator::new(ir::Settings { shared_host: false, ..ir::Settings::default() });
    put(&mut translator, &objects);
    translator.settle();
    let before = Estate::of(&translator);
    let strangers: Vec<Value> = (0..40)
        .map(|number| {
            json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
            "metadata": {"name": format!("a{number}"), "namespace": NAMESPACES[0]},
            "spec": {
                "parentRefs": [{"name": "shared", "namespace": "infra", "sectionName": "rest"}],
                "hostnames": [format!("h{number}.test")],
                "rules": [{
                    "matches": [{"path": {"type": "PathPrefix", "value": "/victim"}}],
                    "backendRefs": [{"group": group, "kind": "HTTPRoute", "name": "*", "namespace": "children"}],
                }],
            }})
        })
        .collect();
    put(&mut translator, &strangers);
    translator.settle();
    let mut after = Estate::of(&translator);
    let id = |name: &str| ObjectId::new(api::Kind::HttpRoute, "children", name);
    assert_eq!(after.statuses[&id("named")], before.statuses[&id("named")], "it has other parents");
    // Of who names none a status has room for 32, whoever they are.
    let parents = after.statuses[&id("c0")]["parents"].as_array().map(Vec::len);
    assert_eq!(parents, Some(32));
    after.statuses.insert(id("c0"), before.statuses[&id("c0")].clone());
    after.problems.extend(before.problems.iter().filter(|(of, _)| *of == id("c0")).cloned());
    assert_eq!(before.difference(&after, &BTreeSet::from(["children".to_owned()])), None);
}
