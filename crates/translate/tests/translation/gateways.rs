//! Gateways and their class: what is accepted, and what is told.

use serde_json::{Value, json};

use super::scene::{Scene, class, gateway, http, https, route, secret, service};

fn at(mut gateway: Value, created: &str, addresses: &[&str]) -> Value {
    gateway["metadata"]["creationTimestamp"] = json!(format!("2026-01-01T00:00:0{created}Z"));
    gateway["spec"]["addresses"] = addresses.iter().map(|address| json!({"value": address})).collect();
    gateway
}

#[test]
fn the_younger_gateway_does_not_get_a_port_that_is_taken() {
    let one = |name| gateway(name, json!([http("http", 80, ""), http("own", 81, "")]));
    let mut younger = at(one("younger"), "2", &[]);
    younger["spec"]["listeners"][1]["port"] = json!(82);
    let mut scene = Scene::new([service("s"), at(one("older"), "1", &[]), younger]);
    assert_eq!(scene.listener("infra/older", "http", "Programmed"), "True Programmed");
    assert_eq!(scene.listener("infra/younger", "http", "Accepted"), "False PortUnavailable");
    assert_eq!(scene.listener("infra/younger", "http", "Programmed"), "False Invalid");
    assert_eq!(scene.listener("infra/younger", "own", "Programmed"), "True Programmed");
    assert_eq!(scene.gateway("infra/younger", "Accepted"), "True ListenersNotValid");
    assert!(scene.resource("infra/younger", envoy::ResourceKind::Listener, "listener/80").is_none());
    scene.remove(one("older"));
    assert_eq!(scene.listener("infra/younger", "http", "Accepted"), "True Accepted");
}

#[test]
fn a_gateway_that_lost_a_port_keeps_nobody_from_it() {
    let one = |name| gateway(name, json!([http("http", 80, "")]));
    let scene = Scene::new([
        at(one("first"), "1", &["127.0.0.1"]),
        at(one("second"), "2", &["127.0.0.1", "127.0.0.2"]),
        at(one("third"), "3", &["127.0.0.2"]),
    ]);
    let said = ["first", "second", "third"].map(|name| scene.gateway(&format!("infra/{name}"), "Programmed"));
    assert_eq!(said, ["True Programmed", "False Invalid", "True Programmed"]);
}

#[test]
fn a_port_that_cannot_be_bound_is_not_accepted_until_it_can() {
    let mut scene = Scene::new([gateway("edge", json!([http("http", 80, "")]))]);
    scene.0.set_unusable_port(80, ir::backend::Transport::Tcp, Some("another process has it".into()));
    scene.0.settle();
    assert_eq!(scene.listener("infra/edge", "http", "Accepted"), "False PortUnavailable");
    assert_eq!(scene.gateway("infra/edge", "Accepted"), "False ListenersNotValid");
    assert!(scene.problems()[0].contains("another process has it"), "{:?}", scene.problems());
    scene.0.set_unusable_port(80, ir::backend::Transport::Tcp, None);
    scene.0.settle();
    assert_eq!(scene.gateway("infra/edge", "Programmed"), "True Programmed");
}

#[test]
fn what_is_ignored_is_told_where_the_gateway_is_accepted() {
    let mut edge = gateway("edge", json!([http("http", 80, ""), http("http", 81, "")]));
    edge["spec"]["defaultScope"] = json!("All");
    edge["spec"]["allowedListeners"] = json!({"namespaces": {"from": "Sometimes"}});
    let scene = Scene::new([edge]);
    let status = scene.gateway_message("infra/edge", "Accepted");
    assert!(status.starts_with("True Accepted: "), "{status}");
    for field in ["spec.defaultScope: ", "spec.allowedListeners.namespaces.from: ", "spec.listeners[1].name: "] {
        assert!(status.contains(field), "{status}");
        assert!(scene.problems().iter().any(|problem| problem.contains(field)), "{:?}", scene.problems());
    }
}

#[test]
fn a_listener_supports_the_kinds_that_are_asked_for_and_known_each_once() {
    let mut listener = http("http", 80, "");
    listener["allowedRoutes"]["kinds"] = json!([{"kind": "HTTPRoute"}, {"kind": "Unknown"}, {"kind": "HTTPRoute"}]);
    let scene = Scene::new([service("s"), gateway("edge", json!([listener])), route("r", json!({}))]);
    let kinds = scene.listener_status("infra/edge", "http")["supportedKinds"].clone();
    assert_eq!(kinds, json!([{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute"}]));
    assert_eq!(scene.listener("infra/edge", "http", "ResolvedRefs"), "False InvalidRouteKinds");
    assert_eq!(scene.attached("infra/edge", "http"), 1);
}

#[test]
fn listeners_over_tls_that_a_connection_may_serve_both_are_told() {
    let scene = Scene::new([
        secret("c"),
        gateway(
            "edge",
            json!([
                https("exact", 443, "foo.example.com", "c"),
                https("other", 443, "foo.example.org", "c"),
                https("wild", 443, "*.example.com", "c"),
                https("alone", 444, "foo.example.com", "c"),
                https("any", 445, "", "c"),
                https("below", 445, "foo.example.com", "c"),
                http("plain", 80, "foo.example.com"),
                http("plain-any", 80, ""),
            ]),
        ),
    ]);
    let overlapping = |name| scene.listener("infra/edge", name, "OverlappingTLSConfig");
    for name in ["exact", "wild", "any", "below"] {
        assert_eq!(overlapping(name), "True OverlappingHostnames", "{name}");
    }
    for name in ["other", "alone", "plain", "plain-any"] {
        assert_eq!(overlapping(name), "", "{name}: never set while it is false");
    }
}

#[test]
fn a_class_is_accepted_with_the_version_of_the_api_unless_its_parameters_cannot_be_used() {
    let mut scene = Scene::new([gateway("edge", json!([http("http", 80, "")]))]);
    assert_eq!(scene.class("portcullis", "Accepted"), "True Accepted");
    assert_eq!(scene.class("portcullis", "SupportedVersion"), "True SupportedVersion");
    let mut parameters = class();
    parameters["spec"]["parametersRef"] = json!({"group": "", "kind": "ConfigMap", "name": "p", "namespace": "infra"});
    scene.put(parameters);
    assert_eq!(scene.class("portcullis", "Accepted"), "False InvalidParameters");
    assert_eq!(scene.gateway("infra/edge", "Accepted"), "False InvalidParameters");
    // What runs goes on.
    assert_eq!(scene.gateway("infra/edge", "Programmed"), "True Programmed");
    assert_eq!(scene.0.gateways().len(), 1);
    scene.put(class());
    assert_eq!(scene.gateway("infra/edge", "Accepted"), "True Accepted");
    assert_eq!(scene.0.gateways().len(), 1);
}

#[test]
fn an_address_of_another_type_is_refused_and_an_empty_one_means_any() {
    let with = |addresses: Value| {
        let mut edge = gateway("edge", json!([http("http", 80, "")]));
        edge["spec"]["addresses"] = addresses;
        Scene::new([edge])
    };
    let scene = with(json!([{"type": "Hostname", "value": "example.com"}, {"value": "127.0.0.1"}]));
    assert_eq!(scene.gateway("infra/edge", "Accepted"), "False UnsupportedAddress");
    assert!(scene.0.gateways().is_empty());
    let scene = with(json!([{"type": "IPAddress"}]));
    assert_eq!(scene.gateway("infra/edge", "Programmed"), "True Programmed");
    let scene = with(json!([{"value": "127.0.0.2"}, {"value": "::1"}]));
    let listener = scene.resource("infra/edge", envoy::ResourceKind::Listener, "listener/80").expect("a listener");
    assert_eq!(listener["address"]["socketAddress"]["address"], "127.0.0.2");
    assert_eq!(listener["additionalAddresses"][0]["address"]["socketAddress"]["address"], "::1");
}

#[test]
fn the_words_of_an_envoy_that_refuses_are_told_in_four_kibibytes_at_most() {
    let mut scene = Scene::new([gateway("edge", json!([http("http", 80, "")]))]);
    let edge = ir::NsName::new("infra", "edge");
    scene.0.set_nack(&edge, Some(format!("Envoy refuses: {}", "no — ".repeat(4_000))));
    scene.0.settle();
    let said = scene.gateway_message("infra/edge", "Programmed");
    assert!(said.starts_with("False Invalid: Envoy refuses"), "{said}");
    assert!(said.len() < 4096 + 20, "{}", said.len());
    scene.0.set_nack(&edge, None);
    scene.0.settle();
    assert_eq!(scene.gateway("infra/edge", "Programmed"), "True Programmed");
}

#[test]
fn what_is_observed_is_the_generation_of_the_spec() {
    let scene = Scene::new([service("s"), gateway("edge", json!([http("http", 80, "")])), route("r", json!({}))]);
    let statuses = scene.0.statuses();
    let generations: Vec<_> = statuses
        .iter()
        .flat_map(|(id, status)| {
            let mut found = Vec::new();
            collect(status, &mut found);
            assert!(!found.is_empty(), "{id}");
            found.into_iter().map(|generation| (id.kind, generation)).collect::<std::collections::BTreeSet<_>>()
        })
        .collect();
    let expected = [(api::Kind::GatewayClass, 0), (api::Kind::Gateway, 3), (api::Kind::HttpRoute, 5)];
    assert_eq!(generations, expected);
}

fn collect(value: &Value, into: &mut Vec<i64>) {
    match value {
        Value::Object(fields) => {
            into.extend(fields.get("observedGeneration").and_then(Value::as_i64));
            fields.values().for_each(|value| collect(value, into));
        }
        Value::Array(items) => items.iter().for_each(|value| collect(value, into)),
        _ => {}
    }
}
