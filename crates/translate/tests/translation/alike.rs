//! What many rows say alike is said once, which changes nothing of what holds.

#![allow(clippy::needless_pass_by_value, reason = "callers write values in place")]

use api::Object;
use envoy::{ResourceKind, slots};
use ir::Settings;
use proptest::strategy::ValueTree;
use serde_json::{Value, json};
use worlds::{
    Draws,
    world::{Place, world},
};

use super::scene::{Scene, gateway, http, route, service};
use translate::{Change, Translator};

/// A route configuration as if each row said all by itself: what it says for its rows stands in them again, in their words.
/// Only where each of its virtual hosts switches that off.
pub(super) fn spelled_out(mut config: Value) -> Value {
    const SLOTS: &str = "typedPerFilterConfig";
    let is_switch = |config: &Value| config["@type"].as_str().is_some_and(|name| name.ends_with(".FilterConfig"));
    let is_off = |config: &Value| is_switch(config) && config["disabled"] == true;
    let named: Vec<&str> = [&slots::EXT_AUTH[..], &slots::EXT_PROC_ALL, &[slots::GLOBAL_RATE_LIMIT]].concat();
    for name in named {
        let Some(said) = config[SLOTS].get(name).cloned() else { continue };
        let hosts = config["virtualHosts"].as_array().expect("virtual hosts");
        if is_switch(&said) || !hosts.iter().all(|host| is_off(&host[SLOTS][name])) {
            continue;
        }
        let remove = |from: &mut Value| {
            let slots = from[SLOTS].as_object_mut().expect("slots");
            slots.remove(name);
            if slots.is_empty() {
                from.as_object_mut().expect("a message").remove(SLOTS);
            }
        };
        remove(&mut config);
        for host in config["virtualHosts"].as_array_mut().expect("virtual hosts") {
            remove(host);
            for route in host.get_mut("routes").and_then(Value::as_array_mut).into_iter().flatten() {
                let own = route.get_mut(SLOTS).and_then(|slots| slots.get_mut(name));
                if let Some(own) = own.filter(|own| is_switch(own) && !is_off(own)) {
                    *own = said.clone();
                }
            }
        }
    }
    // Whoever switches on what nobody says would pass.
    for host in config["virtualHosts"].as_array().into_iter().flatten() {
        for route in host["routes"].as_array().into_iter().flatten() {
            for name in [&slots::EXT_AUTH[..], &slots::EXT_PROC_ALL, &[slots::GLOBAL_RATE_LIMIT]].concat() {
                let own = &route[SLOTS][name];
                assert!(own.is_null() || !is_switch(own) || is_off(own), "{name} is on and empty: {route}");
            }
        }
    }
    config
}

/// Fails where anything that proxies get is not the same.
pub(super) fn same_but_for_the_form(once: &Translator, each: &Translator) {
    let resources = |translator: &Translator| {
        let all = translator.resources().into_values().flatten();
        let all = all.map(|(key, encoded)| {
            let bytes = encoded.body.to_bytes();
            let message = envoy::json::value(key.kind.message_name(), &bytes).expect("a message");
            let is_routes = key.kind == ResourceKind::RouteConfiguration;
            (key, if is_routes { spelled_out(message) } else { message })
        });
        all.collect::<Vec<_>>()
    };
    let [once, each] = [once, each].map(resources);
    assert_eq!(once.len(), each.len());
    for (once, each) in once.iter().zip(&each) {
        assert_eq!(once, each);
    }
}

fn settings(from: u64) -> Settings {
    let mut settings = Settings::default();
    settings.policies.say_once_from = from;
    settings
}

fn of(kind: &str, id: &str, spec: Value) -> Value {
    let (namespace, name) = id.split_once('/').expect("a namespace and a name");
    json!({"apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": kind,
        "metadata": {"name": name, "namespace": namespace, "generation": 1}, "spec": spec})
}

fn provider(name: &str, status: u16) -> Value {
    let service = json!({"backendRef": {"name": "s", "namespace": "apps", "port": 80}});
    of(
        "GatewayExtension",
        &format!("apps/{name}"),
        json!({"extAuth": {"grpcService": service, "statusOnError": status}}),
    )
}

fn judged(route: &str, by: &str) -> Value {
    let target = json!({"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": route});
    let spec = json!({"targetRefs": [target], "extAuth": {"extensionRef": {"name": by}}});
    of("TrafficPolicy", &format!("apps/{route}"), spec)
}

/// So many routes that the first of two providers judges, fewer that the second does, and one that nobody does.
fn objects(first: usize, second: usize) -> Vec<Value> {
    let named = |who: &str, count: usize| (0..count).map(|number| format!("{who}-{number}")).collect::<Vec<_>>();
    let at = |name: &String| route(name, json!({"hostnames": [format!("{name}.example")]}));
    let [firsts, seconds] = [named("first", first), named("second", second)];
    let mut all = vec![gateway("edge", json!([http("web", 80, "")])), service("s"), at(&"free".to_owned())];
    all.extend([provider("first", 401), provider("second", 403)]);
    all.extend(firsts.iter().chain(&seconds).map(at));
    all.extend(firsts.iter().map(|name| judged(name, "first")));
    all.extend(seconds.iter().map(|name| judged(name, "second")));
    all
}

fn routes(scene: &Scene) -> Value {
    scene.resource("infra/edge", ResourceKind::RouteConfiguration, "http/80").expect("routes")
}

/// Whom a route configuration asks for its rows.
fn asked(scene: &Scene) -> Option<u64> {
    let said = routes(scene)["typedPerFilterConfig"][slots::EXT_AUTH[0]].clone();
    said.pointer("/filterChain/filters/0/typedConfig/statusOnError/code").map(|code| match code {
        Value::String(name) if name == "Unauthorized" => 401,
        Value::String(name) if name == "Forbidden" => 403,
        other => other.as_u64().unwrap_or_default(),
    })
}

#[test]
fn what_enough_rows_say_is_said_once_and_others_say_what_they_said() {
    let [once, each] = [3, 0].map(|from| Scene::with(settings(from), objects(4, 2)));
    let [said, plain] = [routes(&once), routes(&each)];
    assert_eq!((asked(&once), asked(&each)), (Some(401), None));
    let slot = |host: &Value| host["routes"][0]["typedPerFilterConfig"][slots::EXT_AUTH[0]].clone();
    let hosts = |config: &Value| config["virtualHosts"].as_array().expect("virtual hosts").clone();
    for (host, plain) in hosts(&said).iter().zip(hosts(&plain)) {
        let name = host["name"].as_str().unwrap_or_default();
        assert_eq!(host["typedPerFilterConfig"][slots::EXT_AUTH[0]]["disabled"], true, "{name}");
        if name.starts_with("first") {
            assert!(slot(host).get("filterChain").is_none() && slot(host)["disabled"] != true, "{name}");
        } else {
            assert_eq!(host["routes"], plain["routes"], "{name}");
        }
    }
    assert_eq!(spelled_out(said), plain);
    assert_eq!(asked(&Scene::with(settings(3), objects(3, 2))), None, "three count as four");
}

#[test]
fn the_choice_turns_with_the_objects_alone_and_computes_no_rule_anew() {
    let mut scene = Scene::with(settings(2), objects(2, 1));
    assert_eq!(asked(&scene), Some(401));
    let add = |scene: &mut Scene, name: &str, by: &str| {
        scene.put(judged(name, by));
        scene.put(route(name, json!({"hostnames": [format!("{name}.example")]}))).computed
    };
    // As many as the first, then twice as many.
    let before = add(&mut scene, "second-1", "second");
    let both = asked(&scene);
    let turned = ["second-2", "second-3"].map(|name| add(&mut scene, name, "second"));
    assert_eq!(asked(&scene), Some(403));
    // Each virtual host is joined anew, each rule is as it was.
    assert!(turned[1] <= before + 8, "{before} rows, then {turned:?}");
    scene.remove(route("second-3", json!({})));
    assert_eq!(asked(&scene), both);
    scene.remove(route("second-2", json!({})));
    scene.remove(route("second-1", json!({})));
    scene.remove(route("first-1", json!({})));
    assert_eq!(asked(&scene), None);
    let mut left = objects(1, 1);
    left.extend(
        ["first-1", "second-1", "second-2", "second-3"]
            .map(|name| judged(name, name.split('-').next().unwrap_or(name))),
    );
    assert_eq!(routes(&scene), routes(&Scene::with(settings(2), left)));
}

#[test]
fn a_provider_that_breaks_closes_those_who_ask_it_and_no_other() {
    let mut scene = Scene::with(settings(2), objects(2, 3));
    assert!(asked(&scene).is_some());
    let sound = spelled_out(routes(&scene));
    for name in ["first", "second"] {
        // A status that Envoy has no name for.
        scene.put(provider(name, 418));
        let now = spelled_out(routes(&scene));
        let hosts = |config: &Value| config["virtualHosts"].as_array().expect("virtual hosts").clone();
        for (host, before) in hosts(&now).iter().zip(hosts(&sound)) {
            let asks = host["name"].as_str().is_some_and(|host| host.starts_with(name));
            assert_eq!(*host == before, !asks, "{host}");
            assert_eq!(host["routes"][0]["directResponse"]["status"] == 500, asks, "{host}");
        }
        scene.put(provider(name, if name == "first" { 401 } else { 403 }));
        assert_eq!(spelled_out(routes(&scene)), sound);
    }
}

#[test]
fn where_a_gateway_says_something_rows_say_all_by_themselves() {
    let processor = |name: &str| {
        let timeout = if name == "own" { "1s" } else { "2s" };
        let to = json!({"name": "s", "namespace": "apps", "port": 80});
        let service = json!({"backendRef": to, "requestTimeout": timeout});
        of("GatewayExtension", &format!("apps/{name}"), json!({"extProc": {"grpcService": service}}))
    };
    let asks = |id: &str, kind: &str, target: &str, by: &str| {
        let target = json!({"group": "gateway.networking.k8s.io", "kind": kind, "name": target});
        let by = json!({"name": by, "namespace": "apps"});
        of("TrafficPolicy", id, json!({"targetRefs": [target], "extProc": {"extensionRef": by}}))
    };
    let mut objects = objects(2, 0);
    objects.extend([processor("own"), processor("wide")]);
    objects.extend(["first-0", "first-1"].map(|name| asks(&format!("apps/proc-{name}"), "HTTPRoute", name, "own")));
    let mut scene = Scene::with(settings(2), objects);
    let said = |scene: &Scene| routes(scene)["typedPerFilterConfig"].clone();
    let own = said(&scene)[slots::EXT_PROC_RBAC[0]].clone();
    assert!(own.to_string().contains("filterChain"), "{own}");
    scene.put(asks("infra/wide", "Gateway", "edge", "wide"));
    let config = routes(&scene);
    assert_ne!(config["typedPerFilterConfig"][slots::EXT_PROC_RBAC[0]], own);
    for host in config["virtualHosts"].as_array().into_iter().flatten() {
        let judged = host["name"].as_str().is_some_and(|name| name.starts_with("first"));
        let slot = &host["routes"][0]["typedPerFilterConfig"][slots::EXT_PROC_RBAC[0]];
        assert_eq!(*slot == own, judged, "{host}");
    }
    assert_eq!(asked(&scene), Some(401), "another slot is as it was");
}

#[test]
fn a_few_routes_have_the_hosts_of_all_others_say_nothing() {
    let with = |hosts: usize| {
        let mut objects = objects(2, 0);
        // Three hosts are there already.
        let named = (3..hosts).map(|number| format!("other-{number}"));
        objects.extend(named.map(|name| route(&name, json!({"hostnames": [format!("{name}.example")]}))));
        Scene::with(settings(2), objects)
    };
    assert_eq!(asked(&with(32)), Some(401));
    let mut scene = with(33);
    assert_eq!(asked(&scene), None);
    for host in routes(&scene)["virtualHosts"].as_array().into_iter().flatten() {
        let judged = host["name"].as_str().is_some_and(|name| name.starts_with("first"));
        assert!(host["typedPerFilterConfig"].is_null(), "{host}");
        assert_eq!(host["routes"][0].to_string().contains("statusOnError"), judged, "{host}");
    }
    scene.remove(route("other-32", json!({})));
    assert_eq!(asked(&scene), Some(401));
}

/// A policy by which a sound provider is asked on some routes of a world, with a context of its own.
fn on_all(name: &str, routes: std::ops::Range<u8>) -> Value {
    let targets = routes
        .map(|route| json!({"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": format!("r{route}")}));
    let said = json!({"extensionRef": {"name": "sure"}, "contextExtensions": {"by": name}});
    of("TrafficPolicy", &format!("apps/{name}"), json!({"targetRefs": targets.collect::<Vec<_>>(), "extAuth": said}))
}

#[test]
fn worlds_with_all_there_is_hold_as_if_each_row_said_all_by_itself() {
    let place = Place { ports: vec![80, 443], addresses: vec!["127.0.0.1"], edits: 2 };
    let mut said = 0;
    for drawn in Draws::new().take(&world(&place), 80) {
        let mut world = drawn.current();
        world.extend([service("s"), provider("sure", 401), on_all("sure", 0..3), on_all("also", 3..6)]);
        let objects: Vec<Object> =
            world.into_iter().filter_map(|value| Some(api::decode(value).ok()?.object)).collect();
        let [once, each] = [1, 0].map(|from| {
            let mut translator = Translator::new(settings(from));
            for object in &objects {
                translator.apply(Change::Put(object.clone()));
            }
            translator.settle();
            translator
        });
        same_but_for_the_form(&once, &each);
        said += usize::from(once.resources() != each.resources());
    }
    assert!(said > 4, "in {said} worlds anything was said once");
}
