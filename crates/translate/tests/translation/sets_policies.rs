//! Policies on ListenerSets and on their listeners.

use envoy::ResourceKind;
use serde_json::{Value, json};

use super::scene::{Scene, at_set, hosting, http, https, listener_set, route, secret, service};

pub(super) fn policy(name: &str, kind: &str, target: &str, section: Option<&str>, spec: Value) -> Value {
    let (namespace, target) = target.split_once('/').expect("a namespace");
    let mut reference = json!({"group": "gateway.networking.k8s.io", "kind": kind, "name": target});
    if let Some(section) = section {
        reference["sectionName"] = json!(section);
    }
    let mut all = json!({"targetRefs": [reference]});
    if let (Value::Object(all), Value::Object(spec)) = (&mut all, spec) {
        all.extend(spec);
    }
    json!({"apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "TrafficPolicy",
        "metadata": {"name": name, "namespace": namespace}, "spec": all})
}

fn buffer(bytes: u32) -> Value {
    json!({"buffer": {"maxRequestSize": bytes.to_string()}})
}

fn scene(policies: impl IntoIterator<Item = Value>) -> Scene {
    let mut of_apps = secret("c");
    of_apps["metadata"]["namespace"] = json!("apps");
    let listeners = json!([
        http("a", 80, "a.example.com"),
        http("b", 80, "b.example.com"),
        https("tls", 443, "t.example.com", "c"),
    ]);
    let objects = [
        service("s"),
        of_apps,
        hosting("edge", json!([http("http", 80, "edge.example.com")]), "All"),
        listener_set("apps/set", listeners),
        route("r", json!({"parentRefs": [at_set("apps/set"), {"name": "edge", "namespace": "infra"}]})),
    ];
    Scene::new(objects.into_iter().chain(policies))
}

/// What is buffered at a hostname of port 80, by its virtual host, else by its route configuration.
fn at_host(scene: &Scene, host: &str) -> Option<Value> {
    let config =
        scene.resource("infra/edge", ResourceKind::RouteConfiguration, "http/80").expect("a route configuration");
    let hosts = config["virtualHosts"].as_array().expect("virtual hosts");
    let of_host = hosts.iter().find(|it| it["domains"][0] == host).expect("a virtual host");
    [of_host, &config].into_iter().find_map(size)
}

fn size(place: &Value) -> Option<Value> {
    let text = place["typedPerFilterConfig"].to_string();
    let (_, after) = text.split_once("maxRequestBytes\":")?;
    Some(json!(after.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u32>().ok()?))
}

fn over_tls(scene: &Scene) -> Option<Value> {
    let name = "https/443/apps/set/tls";
    size(&scene.resource("infra/edge", ResourceKind::RouteConfiguration, name).expect("a route configuration"))
}

#[test]
fn a_policy_on_a_set_holds_at_all_of_its_listeners_and_at_none_of_its_gateway() {
    let scene = scene([policy("p", "ListenerSet", "apps/set", None, buffer(16))]);
    assert_eq!(
        ["a.example.com", "b.example.com"].map(|host| at_host(&scene, host)),
        [Some(json!(16)), Some(json!(16))]
    );
    assert_eq!(at_host(&scene, "edge.example.com"), None);
    assert_eq!(over_tls(&scene), Some(json!(16)));
    assert_eq!(scene.problems(), [""; 0]);
}

#[test]
fn a_policy_on_a_section_goes_before_one_on_its_set_and_that_before_the_gateways() {
    let scene = scene([
        policy("g", "Gateway", "infra/edge", None, buffer(1)),
        policy("s", "ListenerSet", "apps/set", None, buffer(2)),
        policy("a", "ListenerSet", "apps/set", Some("a"), buffer(3)),
    ]);
    let hosts = ["edge.example.com", "b.example.com", "a.example.com"];
    assert_eq!(hosts.map(|host| at_host(&scene, host)), [1, 2, 3].map(|bytes| Some(json!(bytes))));
    assert_eq!(over_tls(&scene), Some(json!(2)));
}

#[test]
fn a_policy_on_the_gateway_holds_at_its_sets() {
    let scene = scene([policy("g", "Gateway", "infra/edge", None, buffer(1))]);
    assert_eq!(at_host(&scene, "a.example.com"), Some(json!(1)));
    assert_eq!(over_tls(&scene), Some(json!(1)));
}

#[test]
fn a_gateway_that_prefers_itself_does_so_before_its_sets_too() {
    let mut scene = scene([
        policy("g", "Gateway", "infra/edge", None, buffer(1)),
        policy("s", "ListenerSet", "apps/set", None, json!({"buffer": {"disable": {}}})),
    ]);
    assert_eq!((at_host(&scene, "edge.example.com"), over_tls(&scene)), (Some(json!(1)), None));
    let mut edge = hosting("edge", json!([http("http", 80, "edge.example.com")]), "All");
    edge["metadata"]["annotations"] = json!({"kgateway.dev/inherited-policy-priority": "ShallowMergePreferParent"});
    scene.put(edge);
    assert_eq!((at_host(&scene, "a.example.com"), over_tls(&scene)), (Some(json!(1)), Some(json!(1))));
}

#[test]
fn a_broken_policy_closes_the_listeners_of_its_set_and_no_other() {
    let scene = scene([policy("p", "ListenerSet", "apps/set", None, buffer(0))]);
    for listener in ["a", "b", "tls"] {
        let accepted = scene.listener_of_set("apps/set", listener, "Accepted");
        assert!(accepted.starts_with("False ListenerReplaced"), "{accepted}");
    }
    assert!(scene.set("apps/set", "Accepted").starts_with("False ListenersNotValid"));
    assert_eq!(scene.listener("infra/edge", "http", "Accepted"), "True Accepted");
    let config =
        scene.resource("infra/edge", ResourceKind::RouteConfiguration, "http/80").expect("a route configuration");
    for host in config["virtualHosts"].as_array().expect("virtual hosts") {
        let is_of_set = host["domains"][0] != "edge.example.com";
        assert_eq!(host["routes"][0]["directResponse"]["status"] == 500, is_of_set, "{host}");
    }
    let over_tls = scene.resource("infra/edge", ResourceKind::RouteConfiguration, "https/443/apps/set/tls");
    assert_eq!(
        over_tls.expect("a route configuration")["virtualHosts"][0]["routes"][0]["directResponse"]["status"],
        500
    );
}

#[test]
fn a_section_that_a_set_does_not_have_is_told() {
    let scene = scene([policy("p", "ListenerSet", "apps/set", Some("none"), buffer(16))]);
    let problems = scene.problems().join("\n");
    assert!(problems.contains("ListenerSet apps/set has no listener named none"), "{problems}");
}
