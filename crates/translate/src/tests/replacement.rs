//! What stands in place of what is broken.

use ir::{NsName, Settings};
use serde_json::{Value, json};

use super::scene::{Scene, gateway, http, route, service};
use crate::{Changes, ResourceKind};

/// A rule below `/broken` that is to be served, or not.
fn rules(broken: bool) -> Value {
    let mut rule = json!({
        "matches": [{"path": {"type": "PathPrefix", "value": "/broken"}}],
        "backendRefs": [{"name": "s", "port": 80}],
    });
    if broken {
        rule["filters"] = json!([{"type": "ExtensionRef", "extensionRef": {"group": "a.b", "kind": "C", "name": "d"}}]);
    }
    json!({"rules": [{"backendRefs": [{"name": "s", "port": 80}]}, rule]})
}

fn scene(settings: Settings, broken: bool) -> Scene {
    let listeners = json!([http("http", 80, ""), http("other", 81, "")]);
    Scene::with(settings, [service("s"), gateway("edge", listeners), route("r", rules(broken))])
}

/// Rules and why they are replaced.
fn told(changes: Changes) -> Vec<(NsName, u32, Option<&'static str>)> {
    changes.replacements.into_iter().map(|(at, now)| (at.gateway, at.rule, now.map(|now| now.reason))).collect()
}

#[test]
fn a_transition_is_told_once_for_each_gateway_however_many_listeners_serve_the_rule() {
    let edge = || NsName::new("infra", "edge");
    let mut scene = scene(Settings::default(), false);
    assert_eq!(told(scene.put(route("r", rules(true)))), [(edge(), 1, Some("UnsupportedValue"))]);
    assert_eq!(told(scene.put(service("another"))), []);
    assert_eq!(told(scene.put(route("r", rules(false)))), [(edge(), 1, None)]);
    scene.put(route("r", rules(true)));
    assert_eq!(told(scene.remove(route("r", rules(true)))), [(edge(), 1, None)]);
}

#[test]
fn without_replacement_the_matches_of_a_broken_rule_are_dropped_and_nothing_else() {
    let mut settings = Settings::default();
    let replaced = scene(settings.clone(), true);
    settings.replacement.enabled = false;
    let mut dropped = scene(settings, true);
    let routes = |scene: &Scene| {
        let config = scene.resource("infra/edge", ResourceKind::RouteConfiguration, "http/80").unwrap_or_default();
        config["virtualHosts"][0]["routes"].as_array().cloned().unwrap_or_default()
    };
    assert_eq!(routes(&replaced)[1..], routes(&dropped)[..]);
    assert_eq!(routes(&dropped).len(), 1);
    assert_eq!(dropped.route("apps/r", 0, "kgateway.dev/Programmed"), "False RouteRuleDropped");
    assert_eq!(replaced.route("apps/r", 0, "kgateway.dev/Programmed"), "False RouteRuleReplaced");
    assert_eq!(dropped.route("apps/r", 0, "PartiallyInvalid"), "True UnsupportedValue");
    assert_eq!(told(dropped.put(route("r", rules(false)))), []);
}
