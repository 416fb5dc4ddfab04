//! Policies on a Gateway or a listener: what a broken one replaces.

use api::Kind;
use envoy::ResourceKind;
use ir::Reason;
use serde_json::{Value, json};

use super::{
    policies::{at, at_section, policy, with},
    scene::{Scene, gateway, http, https, route, secret, service},
};

/// Gateway `infra/edge` with a policy of its namespace on it, or on a listener.
fn wide(listeners: Value, section: Option<&str>, spec: Value) -> (Scene, Value) {
    let target = section.map_or_else(|| at("Gateway", "edge"), |section| at_section("Gateway", "edge", section));
    let mut broken = policy("TrafficPolicy", "p", with(target, spec));
    broken["metadata"]["namespace"] = json!("infra");
    let scene = Scene::new([
        gateway("edge", listeners),
        service("s"),
        secret("cert"),
        route("one", json!({"hostnames": ["one.example.com", "a.one.example.com"]})),
        route("two", json!({"hostnames": ["two.example.com"]})),
    ]);
    (scene, broken)
}

/// The answers of the virtual hosts of a route configuration, by domain.
fn answers(scene: &Scene, config: &str) -> Vec<String> {
    let config = scene.resource("infra/edge", ResourceKind::RouteConfiguration, config).expect("routes");
    let hosts = config["virtualHosts"].as_array().into_iter().flatten();
    let answer = |host: &Value| {
        let routes: Vec<_> = host["routes"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|route| route["directResponse"]["status"].to_string())
            .collect();
        format!("{} {}", host["domains"][0].as_str().expect("text"), routes.join(" "))
    };
    hosts.map(answer).collect()
}

fn listeners() -> Value {
    json!([
        http("one", 80, "*.example.com"),
        http("two", 80, "two.example.com"),
        http("plain", 81, ""),
        https("tls", 443, "one.example.com", "cert"),
        https("other", 443, "two.example.com", "cert"),
    ])
}

#[test]
fn a_broken_policy_on_a_gateway_has_every_route_configuration_answer_500() {
    let (mut scene, broken) = wide(listeners(), None, json!({"extAuth": {}}));
    let before = scene.0.resources();
    let changes = scene.put(broken.clone());
    let told = changes.wide_replacements.iter();
    let told: Vec<_> = told.map(|(at, now)| (at.config.resource_name(), at.host.is_some(), now.is_some())).collect();
    let whole = |config: &str| (config.to_owned(), false, true);
    assert_eq!(told, ["http/80", "http/81", "https/443/other", "https/443/tls"].map(whole));
    for config in ["http/80", "http/81", "https/443/tls", "https/443/other"] {
        assert_eq!(answers(&scene, config), ["* 500"], "{config}");
    }
    let message = scene.gateway_message("infra/edge", "Accepted");
    assert!(message.starts_with("False GatewayReplaced: TrafficPolicy infra/p is not valid"), "{message}");
    let status = scene.status(Kind::TrafficPolicy, "infra/p");
    assert_eq!(status["ancestors"][0]["ancestorRef"]["kind"], "Gateway");
    assert_eq!(status["ancestors"][0]["conditions"][0]["reason"], "Invalid");
    scene.remove(broken);
    assert_eq!(scene.0.resources(), before);
}

#[test]
fn a_broken_policy_on_an_http_listener_keeps_its_hosts_and_leaves_others_alone() {
    let (mut scene, broken) = wide(listeners(), Some("one"), json!({"extAuth": {}}));
    let before = scene.resource("infra/edge", ResourceKind::RouteConfiguration, "http/80").expect("routes");
    let changes = scene.put(broken);
    let changed: Vec<_> = changes.resources.iter().map(|(key, _)| &*key.name).collect();
    assert_eq!(changed, ["http/80"]);
    let hosts = changes.wide_replacements.iter().filter_map(|(at, now)| Some((at.host.as_ref()?, now.as_ref()?)));
    let hosts: Vec<_> =
        hosts.map(|((hostname, listener), now)| (hostname.domain(), &*listener.section, now.reason)).collect();
    let named = ["*.example.com", "a.one.example.com", "one.example.com"];
    assert_eq!(hosts.len(), named.len());
    for host in named {
        assert!(hosts.contains(&(host.to_owned(), "one", Reason::ListenerReplaced)), "{host} in {hosts:?}");
    }
    let now = scene.resource("infra/edge", ResourceKind::RouteConfiguration, "http/80").expect("routes");
    let (before, now) =
        (before["virtualHosts"].as_array().expect("hosts"), now["virtualHosts"].as_array().expect("hosts"));
    assert_eq!(before.len(), now.len());
    for (before, now) in before.iter().zip(now) {
        assert_eq!((&before["name"], &before["domains"]), (&now["name"], &now["domains"]));
        if now["domains"][0] == "two.example.com" {
            assert_eq!(before, now);
        } else {
            assert_eq!(now["routes"].as_array().expect("routes").len(), 1);
            assert_eq!(now["routes"][0]["match"]["prefix"], "/");
            assert_eq!(now["routes"][0]["directResponse"]["status"], 500);
        }
    }
    assert_eq!(scene.listener("infra/edge", "one", "Accepted"), "False ListenerReplaced");
    assert_eq!(scene.listener("infra/edge", "two", "Accepted"), "True Accepted");
    assert_eq!(scene.gateway("infra/edge", "Accepted"), "True ListenersNotValid");
}

#[test]
fn a_broken_policy_on_an_https_listener_replaces_its_own_route_configuration() {
    let rewrite = json!({"urlRewrite": {"pathRegex": {"pattern": "a", "substitution": "b"}}});
    let (mut scene, broken) = wide(listeners(), Some("tls"), rewrite);
    let changed = scene.put(broken).resources;
    let changed: Vec<_> = changed.iter().map(|(key, _)| &*key.name).collect();
    assert_eq!(changed, ["https/443/tls"]);
    assert_eq!(answers(&scene, "https/443/tls"), ["* 500"]);
    assert_eq!(scene.listener("infra/edge", "tls", "Accepted"), "False ListenerReplaced");
}

#[test]
fn a_sound_policy_on_a_gateway_changes_nothing() {
    let (mut scene, sound) = wide(listeners(), None, json!({}));
    assert_eq!(scene.put(sound).resources, []);
    assert_eq!(scene.gateway("infra/edge", "Accepted"), "True Accepted");
}
