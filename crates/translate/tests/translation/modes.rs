//! How policies of several levels are merged: every unit in every mode, and what a broken one closes.

#![allow(clippy::needless_pass_by_value, reason = "callers write values in place")]

use std::collections::HashMap;

use api::Kind;
use envoy::ResourceKind;
use serde_json::{Value, json};
use units::{AnyUnit, Deep, Samples};

use translate::Change;

use super::{
    policies::{at, at_section, policy, with},
    scene::{Scene, child, forward, gateway, http, https, opaque, providers, route, secret, service, to},
};

const PRIORITY: &str = "kgateway.dev/inherited-policy-priority";
const MODES: [&str; 4] =
    ["ShallowMergePreferChild", "ShallowMergePreferParent", "DeepMergePreferChild", "DeepMergePreferParent"];

pub(super) fn annotated(mut object: Value, mode: &str) -> Value {
    object["metadata"]["annotations"][PRIORITY] = json!(mode);
    object
}

/// What a policy says that has this value in a field.
pub(super) fn spec_of(field: &str, json: &str) -> Value {
    let value: Value = serde_json::from_str(json).expect("JSON");
    field.rsplit('.').fold(value, |value, part| json!({part: value}))
}

fn on(name: &str, route: &str, spec: Value) -> Value {
    policy("TrafficPolicy", name, with(at("HTTPRoute", route), spec))
}

/// A rule with a mirror, without which some units show nothing.
fn mirrored(path: &str) -> Value {
    let mirror =
        json!([{"type": "RequestMirror", "requestMirror": {"backendRef": {"name": "s", "port": 80}, "percent": 1}}]);
    with(forward(path), json!({"filters": mirror}))
}

/// A root that delegates to a leaf.
fn tree() -> Scene {
    let objects = [
        gateway("edge", json!([http("web", 80, "")])),
        service("s"),
        opaque("credentials", json!({"client": "key"})),
        route("root", json!({"rules": [to("/a", &["leaf"])]})),
        child("leaf", json!([mirrored("/a")])),
    ];
    Scene::new(objects.into_iter().chain(providers()))
}

/// The Envoy routes of a child.
fn routes_of(scene: &Scene, name: &str) -> Vec<Value> {
    let config = scene.resource("infra/edge", ResourceKind::RouteConfiguration, "http/80").expect("routes");
    let hosts = config["virtualHosts"].as_array().into_iter().flatten();
    let routes = hosts.flat_map(|host| host["routes"].as_array().into_iter().flatten());
    let mut found: Vec<_> = routes.filter(|route| route["name"].as_str().is_some_and(|at| at.contains(name))).collect();
    found.sort_by_key(|route| route["name"].to_string());
    found.into_iter().cloned().collect()
}

/// A case: what the parent says, what the child says, and what comes of it in each mode; none where it is closed.
type Case = (&'static str, Option<&'static str>, Option<&'static str>, [Option<&'static str>; 4]);

/// All cases of a unit.
pub(super) fn cases(deep: Deep, samples: Samples) -> Vec<Case> {
    let Samples { one, other, merged, off, refused } = samples;
    let (child_first, parent_first) = merged.map_or((other, one), |(over_other, over_one)| (over_one, over_other));
    let whole = |parent: Option<&'static str>, child: Option<&'static str>| [child, parent, child, parent];
    // What is broken breaks what would be merged with it.
    let broken = |parent: Option<&'static str>, child: Option<&'static str>| {
        if deep == Deep::Whole { whole(parent, child) } else { [child, parent, None, None] }
    };
    let mut cases = vec![
        ("the parent alone", Some(one), None, [Some(one); 4]),
        ("the child alone", None, Some(one), [Some(one); 4]),
        ("both", Some(one), Some(other), [Some(other), Some(one), Some(child_first), Some(parent_first)]),
    ];
    if refused.is_some() {
        cases.extend([
            ("a parent that is refused", refused, None, [None; 4]),
            ("a child that is refused", None, refused, [None; 4]),
            ("a refused parent of a sound child", refused, Some(one), broken(None, Some(one))),
            ("a refused child of a sound parent", Some(one), refused, broken(Some(one), None)),
        ]);
    }
    if off.is_some() {
        cases.extend([
            ("a parent that switches off", off, Some(one), whole(off, Some(one))),
            ("a child that switches off", Some(one), off, whole(Some(one), off)),
        ]);
        if refused.is_some() {
            cases.push(("a child that switches off below one that is refused", refused, off, whole(None, off)));
        }
    }
    cases
}

#[test]
fn every_unit_of_two_routes_is_merged_as_the_parents_mode_says() {
    let mut scene = tree();
    let mut alone = HashMap::new();
    let all = AnyUnit::FIELDS.iter().zip(AnyUnit::DEEP).zip(AnyUnit::SAMPLES);
    for ((field, deep), samples) in all {
        for (what, parent, child, expected) in cases(*deep, *samples) {
            for (mode, expected) in MODES.into_iter().zip(expected) {
                let case = format!("{field}: {what}, {mode}");
                scene.put(annotated(route("root", json!({"rules": [to("/a", &["leaf"])]})), mode));
                let put = |scene: &mut Scene, name: &str, route: &str, said: Option<&str>| match said {
                    Some(json) => scene.put(on(name, route, spec_of(field, json))),
                    None => scene.remove(on(name, route, json!({}))),
                };
                put(&mut scene, "parent", "root", parent);
                put(&mut scene, "child", "leaf", child);
                let merged = routes_of(&scene, "leaf");
                let Some(expected) = expected else {
                    assert!(!merged.is_empty(), "{case}");
                    assert!(merged.iter().all(|route| route["directResponse"]["status"] == 500), "{case}: {merged:?}");
                    continue;
                };
                // As if the child alone had said what comes of it, which is the same in each mode: that is among the cases.
                let alone = alone.entry((field, expected)).or_insert_with(|| {
                    put(&mut scene, "parent", "root", None);
                    put(&mut scene, "child", "leaf", Some(expected));
                    routes_of(&scene, "leaf")
                });
                assert_eq!(merged, *alone, "{case}");
                assert!(merged.iter().all(|route| route.get("route").is_some()), "{case}: {merged:?}");
            }
        }
    }
}

/// A policy of the Gateway's namespace on it, or on a listener of it.
fn on_gateway(name: &str, listener: Option<&str>, spec: Value) -> Value {
    let target = listener.map_or_else(|| at("Gateway", "edge"), |listener| at_section("Gateway", "edge", listener));
    let mut policy = policy("TrafficPolicy", name, with(target, spec));
    policy["metadata"]["namespace"] = json!("infra");
    policy
}

fn edge(mode: &str) -> Value {
    let listeners = json!([http("web", 80, ""), http("other", 81, ""), https("tls", 443, "", "cert")]);
    annotated(gateway("edge", listeners), mode)
}

/// What requests of a route meet at a listener: its Envoy route, with the slots that hold for it.
fn met(scene: &Scene, config: &str) -> Value {
    let config = scene.resource("infra/edge", ResourceKind::RouteConfiguration, config).expect("routes");
    let host = &config["virtualHosts"][0];
    let mut route = host["routes"][0].clone();
    for wider in [host, &config] {
        for (slot, said) in wider["typedPerFilterConfig"].as_object().into_iter().flatten() {
            if route["typedPerFilterConfig"].get(slot).is_none() {
                route["typedPerFilterConfig"][slot] = said.clone();
            }
        }
    }
    // Judges have slots of their own for all routes, which a row with others switches off.
    if route["typedPerFilterConfig"].get("extAuth.0").is_none() {
        route = serde_json::from_str(&route.to_string().replace("extAuth.wide.", "extAuth.")).expect("JSON");
    } else if let Some(slots) = route["typedPerFilterConfig"].as_object_mut() {
        slots.retain(|slot, _| !slot.starts_with("extAuth.wide."));
    }
    // CORS has a slot of its own for all routes, which a row with the other one switches off.
    let slots = &mut route["typedPerFilterConfig"];
    if let Some(wide) = slots.as_object_mut().and_then(|slots| slots.remove("cors.wide"))
        && slots.get("cors").is_none()
    {
        slots["cors"] = wide;
    }
    // A rate is said with whose bucket it is, which goes with the place.
    if let Some(metadata) = slots.pointer("/rateLimit.local.rate/filterChain/filters/0/typedConfig/metadata/0/value") {
        let rates: Vec<_> = metadata.as_object().into_iter().flat_map(|said| said.values()).cloned().collect();
        slots["rateLimit.local.rate"] = rates.into();
    }
    route
}

const CONFIGS: [&str; 3] = ["http/80", "http/81", "https/443/tls"];

#[test]
fn every_unit_of_a_gateway_and_its_listeners_is_merged_as_the_gateways_mode_says() {
    type On = fn(&str, Value) -> Value;
    let of_gateway: On = |name, spec| on_gateway(name, None, spec);
    let of_web: On = |name, spec| on_gateway(name, Some("web"), spec);
    let of_tls: On = |name, spec| on_gateway(name, Some("tls"), spec);
    let of_route: On = |name, spec| on(name, "r", spec);
    let pairs: [(&str, On, On, &[&str]); 5] = [
        ("Gateway and route", of_gateway, of_route, &CONFIGS),
        ("Gateway and listener", of_gateway, of_web, &["http/80"]),
        ("Gateway and listener with TLS", of_gateway, of_tls, &["https/443/tls"]),
        ("listener and route", of_web, of_route, &["http/80"]),
        ("listener with TLS and route", of_tls, of_route, &["https/443/tls"]),
    ];
    let rules = json!({"rules": [mirrored("/a")]});
    // Each policy reads its own namespace's.
    let own = opaque("credentials", json!({"client": "key"}));
    let mut of_gateways = own.clone();
    of_gateways["metadata"]["namespace"] = json!("infra");
    let objects = [edge(MODES[0]), secret("cert"), own, of_gateways, service("s"), route("r", rules)];
    let mut scene = Scene::new(objects.into_iter().chain(providers()));
    let plain = scene.0.resources();
    let mut alone = HashMap::new();
    let all = AnyUnit::FIELDS.iter().zip(AnyUnit::DEEP).zip(AnyUnit::SAMPLES);
    let all = all.filter(|((field, _), _)| AnyUnit::targets_at(field).contains(&"Gateway"));
    for ((field, deep), samples) in all {
        for (mode_at, mode) in MODES.into_iter().enumerate() {
            scene.put(edge(mode));
            for (what, upper, lower, configs) in pairs {
                for (case, parent, child, expected) in cases(*deep, *samples) {
                    let case = format!("{field}: {what}: {case}, {mode}");
                    let put = |scene: &mut Scene, policy: On, name: &str, said: Option<&str>| match said {
                        Some(json) => scene.put(policy(name, spec_of(field, json))),
                        None => scene.remove(policy(name, json!({}))),
                    };
                    put(&mut scene, upper, "parent", parent);
                    put(&mut scene, lower, "child", child);
                    let merged: Vec<_> = configs.iter().map(|config| met(&scene, config)).collect();
                    // A wide scope that is broken closes as a whole, whatever is preferred.
                    let is_wide = |said: Option<&str>| said.is_some() && said == samples.refused;
                    let closed = is_wide(parent) || (is_wide(child) && !what.ends_with("route"));
                    let expected = if closed { None } else { expected[mode_at] };
                    let Some(expected) = expected else {
                        for route in merged {
                            assert_eq!(route["directResponse"]["status"], 500, "{case}: {route}");
                        }
                        continue;
                    };
                    // As if the child alone had said what comes of it, which is the same in each mode: that is among the cases.
                    let alone = alone.entry((field, what, expected)).or_insert_with(|| {
                        put(&mut scene, upper, "parent", None);
                        put(&mut scene, lower, "child", Some(expected));
                        configs.iter().map(|config| met(&scene, config)).collect::<Vec<_>>()
                    });
                    assert_eq!(merged, *alone, "{case}");
                    assert!(merged.iter().all(|route| route.get("route").is_some()), "{case}: {merged:?}");
                }
                scene.remove(upper("parent", json!({})));
                scene.remove(lower("child", json!({})));
            }
        }
    }
    scene.put(edge(MODES[0]));
    assert_eq!(scene.0.resources(), plain);
}

#[test]
fn what_a_gateway_prefers_wakes_no_row_by_what_it_says() {
    let objects = [edge(MODES[1]), secret("cert"), service("s")];
    let routes = (0..20).map(|at| route(&format!("r{at}"), json!({"rules": [forward(&format!("/r{at}"))]})));
    let own = (0..5).map(|at| on(&format!("p{at}"), &format!("r{at}"), json!({"buffer": {"maxRequestSize": 1}})));
    let mut scene = Scene::new(objects.into_iter().chain(routes).chain(own));
    let buffer = |bytes: u32| json!({"buffer": {"maxRequestSize": bytes}});
    scene.put(on_gateway("wide", None, buffer(16)));
    assert_eq!(computed(&scene, "ResolvedAt"), 5, "those with the unit leave it out");
    scene.put(on_gateway("wide", None, buffer(17)));
    for table in ["ResolvedRule", "ResolvedAt", "Placement", "Rows", "VirtualHost"] {
        assert_eq!(computed(&scene, table), 0, "{table}");
    }
    scene.put(edge(MODES[0]));
    assert_eq!(
        (computed(&scene, "ResolvedRule"), computed(&scene, "ResolvedAt")),
        (0, 5),
        "those with units of their own"
    );
    assert_eq!(computed(&scene, "Placement"), 15, "at three listeners");
    scene.put(edge(MODES[3]));
    assert_eq!((computed(&scene, "ResolvedRule"), computed(&scene, "ResolvedAt")), (0, 5));
    scene.put(on_gateway("another", None, json!({"faultInjection": {"abort": {"httpStatus": 503}}})));
    for table in ["ResolvedRule", "ResolvedAt"] {
        assert_eq!(computed(&scene, table), 0, "{table}: nobody has the new one");
    }
}

#[test]
fn a_rule_that_a_gateway_keeps_open_is_told_as_open() {
    let broken = json!({"timeouts": {"request": "soon"}, "buffer": {"maxRequestSize": "64Mi"}});
    let said = json!({"timeouts": {"request": "9s"}, "buffer": {"maxRequestSize": 16}});
    let objects = [
        edge(MODES[0]),
        secret("cert"),
        service("s"),
        route("r", json!({"rules": [forward("/a")]})),
        on("own", "r", broken),
        on_gateway("wide", None, said),
    ];
    let mut scene = Scene::new(objects);
    assert_eq!(met(&scene, "http/80")["directResponse"]["status"], 500);
    assert_eq!(scene.route("apps/r", 0, "Accepted"), "False UnsupportedValue");
    scene.put(edge(MODES[1]));
    for config in CONFIGS {
        assert_eq!(met(&scene, config)["route"]["timeout"], "9s", "{config}");
        assert!(met(&scene, config)["typedPerFilterConfig"].get("buffer").is_some(), "{config}");
    }
    assert_eq!(scene.route("apps/r", 0, "Accepted"), "True Accepted");
    let told = conditions(&scene, "apps/own");
    assert!(told[0].starts_with("Accepted=False Invalid") && told[0].contains("in force nowhere"), "{told:?}");
    assert!(conditions(&scene, "infra/wide")[1].starts_with("Attached=True"), "{:?}", conditions(&scene, "infra/wide"));
}

/// How many rows of a table were computed by the last change.
fn computed(scene: &Scene, table: &str) -> usize {
    let stats = scene.0.stats();
    stats.iter().find(|stats| stats.name == table).expect("a table").computed
}

fn conditions(scene: &Scene, name: &str) -> Vec<String> {
    let status = scene.status(Kind::TrafficPolicy, name);
    let ancestors = status["ancestors"].as_array().into_iter().flatten();
    let all = ancestors.flat_map(|ancestor| ancestor["conditions"].as_array().into_iter().flatten());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    all.map(|it| {
        format!("{}={} {}: {}", text(&it["type"]), text(&it["status"]), text(&it["reason"]), text(&it["message"]))
    })
    .collect()
}

#[test]
fn a_broken_unit_that_is_overridden_closes_nothing_and_its_policy_is_told() {
    let mut scene = tree();
    let broken = json!({"buffer": {"maxRequestSize": "64Mi"}});
    scene.put(on("parent", "root", broken));
    assert_eq!(routes_of(&scene, "leaf")[0]["directResponse"]["status"], 500);
    assert!(scene.route_message("apps/leaf", 0, "Accepted").contains("HTTPRoute apps/root hands down what is broken"));
    let told = conditions(&scene, "apps/parent");
    assert!(told[0].starts_with("Accepted=False Invalid: spec.buffer.maxRequestSize"), "{told:?}");
    assert!(!told[0].contains("in force nowhere"), "{told:?}");
    scene.put(on("child", "leaf", json!({"buffer": {"maxRequestSize": "1Ki"}})));
    assert!(routes_of(&scene, "leaf")[0].get("route").is_some());
    assert_eq!(scene.route("apps/leaf", 0, "Accepted"), "True Accepted");
    let told = conditions(&scene, "apps/parent");
    assert!(told[0].starts_with("Accepted=False Invalid: spec.buffer.maxRequestSize"), "{told:?}");
    assert!(told[0].contains("in force nowhere"), "{told:?}");
    // Of what does not decode nobody knows what it says, so that nothing overrides it.
    let (_, targets) = api::decode_or_targets(on("parent", "root", json!({"buffer": 5}))).expect_err("refused");
    scene.0.apply(Change::Put(*targets.expect("what it targets")));
    scene.0.settle();
    assert_eq!(routes_of(&scene, "leaf")[0]["directResponse"]["status"], 500);
    // What no release knows is a unit of nobody, and nothing overrides it.
    scene.put(on("parent", "root", json!({"tomorrow": {}})));
    assert_eq!(routes_of(&scene, "leaf")[0]["directResponse"]["status"], 500);
}

#[test]
fn a_rule_that_delegates_goes_on_where_a_policy_of_its_own_is_broken_for_its_children() {
    let mut scene = tree();
    scene.put(route("root", json!({"rules": [to("/a", &["leaf", "other"])]})));
    scene.put(child("other", json!([forward("/a/other")])));
    scene.put(on("parent", "root", json!({"timeouts": {"request": "soon"}})));
    scene.put(on("child", "leaf", json!({"timeouts": {"request": "1s"}})));
    assert!(routes_of(&scene, "leaf")[0].get("route").is_some());
    assert_eq!(routes_of(&scene, "other")[0]["directResponse"]["status"], 500);
}

#[test]
fn the_nearest_is_merged_first_and_each_upper_owners_word_counts() {
    let headers = |set: Value| json!({"request": {"set": set}});
    let set = |name: &str, value: &str| json!({"name": name, "value": value});
    let root = || route("root", json!({"rules": [to("/a", &["mid"])]}));
    let scene = Scene::new([
        gateway("edge", json!([http("web", 80, "")])),
        service("s"),
        annotated(root(), "DeepMergePreferParent"),
        child("mid", json!([to("/a", &["leaf"])])),
        child("leaf", json!([forward("/a")])),
        on("r", "root", json!({"headerModifiers": headers(json!([set("a", "R")])), "timeouts": {"request": "10s"}})),
        on("m", "mid", json!({"timeouts": {"streamIdle": "5s"}, "cors": {"allowOrigins": ["https://a.example"]}})),
        on(
            "l",
            "leaf",
            json!({"headerModifiers": headers(json!([set("a", "L"), set("b", "L")])), "timeouts": {"request": "3s"}}),
        ),
    ]);
    let leaf = &routes_of(&scene, "leaf")[0];
    assert_eq!(leaf["route"]["timeout"], "10s");
    assert_eq!(leaf["route"]["idleTimeout"], Value::Null, "the middle's word for silence is lost");
    assert!(leaf["typedPerFilterConfig"].get("cors").is_some(), "{leaf}");
    let changes = leaf["typedPerFilterConfig"]["headerModifiers"].to_string();
    let at = |value: &str| changes.find(value).unwrap_or_else(|| panic!("{value} in {changes}"));
    assert!(at(r#""key":"a","value":"L""#) < at(r#""key":"a","value":"R""#), "{changes}");
    at(r#""key":"b","value":"L""#);
}

#[test]
fn a_value_that_means_nothing_is_told_and_counts_as_the_default() {
    let mut scene = tree();
    scene.put(on("parent", "root", json!({"timeouts": {"request": "1s"}})));
    scene.put(on("child", "leaf", json!({"timeouts": {"request": "2s"}})));
    scene.put(annotated(route("root", json!({"rules": [to("/a", &["leaf"])]})), "PreferParent"));
    assert_eq!(routes_of(&scene, "leaf")[0]["route"]["timeout"], "2s");
    let message = scene.route_message("apps/root", 0, "Accepted");
    assert!(message.contains(PRIORITY) && message.contains("counts as ShallowMergePreferChild"), "{message}");
}

/// A chain of `depth` routes; each says its own depth.
fn chain(depth: usize) -> Vec<Value> {
    let mut objects = vec![gateway("edge", json!([http("web", 80, "")])), service("s")];
    for level in 0..depth {
        let rules = if level + 1 == depth {
            json!([forward("/a")])
        } else {
            json!([to("/a", &[&format!("level-{:02}", level + 1)])])
        };
        let name = format!("level-{level:02}");
        let own = if level == 0 { route(&name, json!({"rules": rules})) } else { child(&name, rules) };
        objects.push(annotated(own, MODES[level % 4]));
        let seconds = format!("{}s", level + 1);
        let mut said = json!({
            "timeouts": if level % 3 == 0 { json!({"request": seconds}) } else { json!({"streamIdle": seconds}) },
            "headerModifiers": {"request": {"add": [{"name": "level", "value": level.to_string()}]}},
        });
        if level % 5 == 0 {
            said["buffer"] = json!({"maxRequestSize": level + 1});
        }
        objects.push(on(&format!("policy-{level:02}"), &name, said));
    }
    objects
}

#[test]
fn thirty_two_levels_of_all_modes_come_to_what_they_come_to_by_hand() {
    const DEPTH: usize = 32;
    let scene = Scene::new(chain(DEPTH));
    let found = routes_of(&scene, "level-31");
    let leaf =
        found.first().unwrap_or_else(|| panic!("no leaf: {}", scene.route_message("apps/level-31", 0, "Accepted")));
    // From the leaf upwards; the leaf's own annotation says nothing of itself.
    let (mut request, mut idle, mut order, mut buffer) = (None, None, vec![DEPTH - 1], None);
    for level in (0..DEPTH).rev() {
        let seconds = Some(level + 1);
        let own = if level % 3 == 0 { (seconds, None) } else { (None, seconds) };
        let own_buffer = (level % 5 == 0).then_some(level + 1);
        if level == DEPTH - 1 {
            ((request, idle), buffer) = (own, own_buffer);
            continue;
        }
        match MODES[level % 4] {
            "ShallowMergePreferChild" => buffer = buffer.or(own_buffer),
            "ShallowMergePreferParent" => {
                (request, idle) = own;
                order = vec![level];
                buffer = own_buffer.or(buffer);
            }
            "DeepMergePreferChild" => {
                (request, idle) = (request.or(own.0), idle.or(own.1));
                order.insert(0, level);
                buffer = buffer.or(own_buffer);
            }
            _ => {
                (request, idle) = (own.0.or(request), own.1.or(idle));
                order.push(level);
                buffer = own_buffer.or(buffer);
            }
        }
    }
    let duration = |seconds: Option<usize>| seconds.map_or(Value::Null, |seconds| json!(format!("{seconds}s")));
    if let Some(request) = request {
        assert_eq!(leaf["route"]["timeout"], duration(Some(request)));
    }
    if idle.is_some() {
        assert_eq!(leaf["route"]["idleTimeout"], duration(idle));
    }
    let slots = &leaf["typedPerFilterConfig"];
    assert_eq!(slots["buffer"]["buffer"]["maxRequestBytes"].as_u64(), buffer.map(|bytes| bytes as u64));
    let text = slots["headerModifiers"].to_string();
    let values: Vec<_> = text.match_indices(r#""value":""#).map(|(at, found)| &text[at + found.len()..]).collect();
    let values: Vec<usize> = values.into_iter().filter_map(|rest| rest.split('"').next()?.parse().ok()).collect();
    assert_eq!(values, order);
}
