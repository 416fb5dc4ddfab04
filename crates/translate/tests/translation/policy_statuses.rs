//! What the owner of a policy is told: where it holds, where it does not, and why.

#![allow(clippy::needless_pass_by_value, reason = "callers write values in place")]

use api::Kind;
use envoy::ResourceKind;
use serde_json::{Value, json};

use super::{
    modes::annotated,
    policies::{at, at_section, policy, with},
    scene::{Scene, child, forward, gateway, http, route, service, to},
};

fn scene(objects: impl IntoIterator<Item = Value>) -> Scene {
    let base = [gateway("edge", json!([http("web", 80, ""), http("other", 81, "")])), service("s")];
    Scene::new(base.into_iter().chain(objects))
}

fn buffer(bytes: u32) -> Value {
    json!({"buffer": {"maxRequestSize": bytes}})
}

fn on(name: &str, target: Value, spec: Value) -> Value {
    policy("TrafficPolicy", name, with(target, spec))
}

/// A policy of the Gateway's namespace on all of it.
fn wide(name: &str, spec: Value) -> Value {
    let mut wide = on(name, at("Gateway", "edge"), spec);
    wide["metadata"]["namespace"] = json!("infra");
    wide
}

fn weighing(mut policy: Value, weight: i32) -> Value {
    policy["metadata"]["annotations"] = json!({"kgateway.dev/policy-weight": weight.to_string()});
    policy
}

fn aged(mut policy: Value, second: u8) -> Value {
    policy["metadata"]["creationTimestamp"] = json!(format!("2026-01-01T00:00:0{second}Z"));
    policy
}

/// `Attached` of a policy: status, reason and message.
fn attached(scene: &Scene, name: &str) -> String {
    let status = scene.status(Kind::TrafficPolicy, name);
    let conditions = status["ancestors"][0]["conditions"].as_array().into_iter().flatten();
    let attached = conditions.into_iter().find(|condition| condition["type"] == "Attached");
    let text = |field: &str| attached.expect("the condition")[field].as_str().expect("text");
    format!("{} {}: {}", text("status"), text("reason"), text("message"))
}

fn computed(scene: &Scene, table: &str) -> usize {
    scene.0.stats().iter().find(|stats| stats.name == table).expect("a table").computed
}

fn named(path: &str, name: &str) -> Value {
    with(forward(path), json!({"name": name}))
}

#[test]
fn a_policy_counts_its_places_and_those_where_it_is_in_force() {
    let rules = json!({"rules": [named("/a", "first"), forward("/b"), forward("/c")]});
    let mut scene = scene([route("r", rules), on("p", at("HTTPRoute", "r"), buffer(16))]);
    assert_eq!(attached(&scene, "apps/p"), "True Attached: it is in force at 6 of 6 places");
    scene.put(on("q", at_section("HTTPRoute", "r", "first"), buffer(8)));
    assert_eq!(
        attached(&scene, "apps/p"),
        "False Overridden: it is in force at 4 of 6 places; overridden by TrafficPolicy apps/q (attached to less)"
    );
    assert_eq!(attached(&scene, "apps/q"), "True Attached: it is in force at 2 of 2 places");
    scene.put(on("q", at_section("HTTPRoute", "r", "first"), json!({"timeouts": {"request": "1s"}})));
    assert_eq!(attached(&scene, "apps/p"), "True Merged: it is in force at 6 of 6 places; in part or beside others: 2");
}

#[test]
fn the_loser_is_told_who_wins_and_by_which_word() {
    let mut scene = scene([
        route("r", json!({"rules": [forward("/a")]})),
        aged(on("b", at("HTTPRoute", "r"), buffer(16)), 2),
        aged(on("c", at("HTTPRoute", "r"), buffer(8)), 2),
    ]);
    let overridden = |scene: &Scene, name: &str, by: &str| {
        let expected = format!("False Overridden: it is in force at 0 of 2 places; overridden by {by}");
        assert_eq!(attached(scene, name), expected);
    };
    overridden(&scene, "apps/c", "TrafficPolicy apps/b (as old, and first by name)");
    scene.put(aged(on("c", at("HTTPRoute", "r"), buffer(8)), 1));
    overridden(&scene, "apps/b", "TrafficPolicy apps/c (older)");
    scene.put(weighing(aged(on("b", at("HTTPRoute", "r"), buffer(16)), 2), 1));
    overridden(&scene, "apps/c", "TrafficPolicy apps/b (of greater weight)");
}

#[test]
fn the_loser_between_levels_is_told_the_level_or_whose_annotation_decided() {
    let root = || route("root", json!({"rules": [to("/a", &["leaf"])]}));
    let mut scene = scene([
        root(),
        child("leaf", json!([forward("/a")])),
        on("upper", at("HTTPRoute", "root"), buffer(16)),
        on("lower", at("HTTPRoute", "leaf"), buffer(8)),
    ]);
    let upper = attached(&scene, "apps/upper");
    assert!(upper.ends_with("overridden by TrafficPolicy apps/lower (of a level nearer to the rule)"), "{upper}");
    scene.put(annotated(root(), "ShallowMergePreferParent"));
    let lower = attached(&scene, "apps/lower");
    let by = "TrafficPolicy apps/upper (by ShallowMergePreferParent of HTTPRoute apps/root)";
    assert!(lower.ends_with(&format!("overridden by {by}")), "{lower}");
    assert_eq!(attached(&scene, "apps/upper"), "True Attached: it is in force at 2 of 2 places");
    // Who lost to one that loses in turn is told of the one that holds.
    scene.put(weighing(on("lowest", at("HTTPRoute", "leaf"), buffer(4)), -1));
    let lowest = attached(&scene, "apps/lowest");
    assert!(lowest.ends_with(&format!("overridden by {by}")), "{lowest}");
    // By the word of the Gateway.
    let listeners = json!([http("web", 80, ""), http("other", 81, "")]);
    scene.put(annotated(gateway("edge", listeners), "ShallowMergePreferParent"));
    scene.put(wide("wide", buffer(2)));
    let upper = attached(&scene, "apps/upper");
    let by = "a TrafficPolicy of another namespace (by ShallowMergePreferParent of Gateway infra/edge)";
    assert!(upper.ends_with(&format!("overridden by {by}")), "{upper}");
    assert_eq!(attached(&scene, "infra/wide"), "True Attached: it is in force at 2 of 2 places");
}

#[test]
fn acls_that_have_too_many_ranges_together_close_what_they_are_on_whoever_else_says_one() {
    let acl = |ranges: std::ops::Range<u32>| {
        let cidrs: Vec<_> = ranges.map(|n| format!("10.{}.{}.0/24", n / 256, n % 256)).collect();
        json!({"acl": {"defaultAction": "allow", "rules": [{"cidrs": cidrs, "action": "deny"}]}})
    };
    let of_gateway = |name: &str, target: Value, ranges| {
        let mut policy = on(name, target, acl(ranges));
        policy["metadata"]["namespace"] = json!("infra");
        policy
    };
    let status = |scene: &Scene| {
        let config = scene.resource("infra/edge", ResourceKind::RouteConfiguration, "http/80").expect("routes");
        config["virtualHosts"][0]["routes"][0]["directResponse"]["status"].as_u64()
    };
    for (target, told) in [(at("Gateway", "edge"), "Gateway"), (at_section("Gateway", "edge", "web"), "listener")] {
        let own = [of_gateway("a", target.clone(), 0..600), of_gateway("b", target.clone(), 600..1_025)];
        let mut scene = scene([route("r", json!({}))].into_iter().chain(own));
        assert_eq!(status(&scene), Some(500), "{told}");
        let message = match told {
            "Gateway" => scene.gateway_message("infra/edge", "Accepted"),
            _ => scene.listener_status("infra/edge", "web").to_string(),
        };
        assert!(message.contains("1025 ranges come together here, and 1024 are the most"), "{message}");
        scene.put(of_gateway("b", target, 600..1_024));
        assert_eq!(status(&scene), None, "{told}");
    }
    let wide = of_gateway("wide", at("Gateway", "edge"), 0..1);
    for mode in ["ShallowMergePreferChild", "DeepMergePreferChild", "DeepMergePreferParent"] {
        let edge = annotated(gateway("edge", json!([http("web", 80, "")])), mode);
        let own = [on("a", at("HTTPRoute", "r"), acl(0..600)), on("b", at("HTTPRoute", "r"), acl(600..1_025))];
        let objects = [edge, service("s"), route("r", json!({})), wide.clone()];
        let mut scene = Scene::new(objects.into_iter().chain(own));
        assert_eq!(status(&scene), Some(500), "{mode}");
        let message = scene.route_message("apps/r", 0, "Accepted");
        assert!(message.contains("1025 ranges come together here, and 1024 are the most"), "{mode}: {message}");
        scene.put(on("b", at("HTTPRoute", "r"), acl(600..1_024)));
        assert_eq!(status(&scene), None, "{mode}");
    }
}

#[test]
fn a_policy_that_adds_up_with_a_broken_one_is_told_who_overrides_both() {
    let acl = |range: &str| json!({"acl": {"defaultAction": "allow", "rules": [{"cidrs": [range], "action": "deny"}]}});
    let scene = scene([
        route("root", json!({"rules": [to("/a", &["leaf"])]})),
        child("leaf", json!([forward("/a")])),
        weighing(on("sound", at("HTTPRoute", "root"), acl("10.0.0.0/8")), 1),
        on("broken", at("HTTPRoute", "root"), acl("10.0.0.1/8")),
        on("near", at("HTTPRoute", "leaf"), acl("192.0.2.0/24")),
    ]);
    let told = attached(&scene, "apps/sound");
    assert!(told.ends_with("overridden by TrafficPolicy apps/near (of a level nearer to the rule)"), "{told}");
}

#[test]
fn a_sound_policy_beside_one_that_is_broken_is_in_force_nowhere() {
    let mut scene = scene([
        route("r", json!({"rules": [forward("/a")]})),
        on("sound", at("HTTPRoute", "r"), json!({"timeouts": {"request": "1s"}})),
        on("broken", at("HTTPRoute", "r"), json!({"buffer": {"maxRequestSize": "64Mi"}})),
    ]);
    let closed = "False Pending: it is in force at 0 of 2 places; closed for another fault, which the status of the \
                  route or Gateway names: 2";
    assert_eq!(attached(&scene, "apps/sound"), closed);
    scene.put(on("broken", at("HTTPRoute", "r"), buffer(16)));
    assert!(attached(&scene, "apps/sound").starts_with("True Merged"), "{}", attached(&scene, "apps/sound"));
    // What is wrong with something else closes the rule as well.
    scene.put(route(
        "r",
        json!({"rules": [{"backendRefs": [{"name": "s", "port": 80}], "filters": [{"type": "None"}]}]}),
    ));
    assert_eq!(attached(&scene, "apps/sound"), closed);
    // So it is at a Gateway.
    scene.put(wide("one", json!({"timeouts": {"request": "1s"}})));
    scene.put(wide("two", json!({"buffer": {"maxRequestSize": "64Mi"}})));
    assert_eq!(attached(&scene, "infra/one"), closed);
    let accepted = scene.status(Kind::TrafficPolicy, "infra/two")["ancestors"][0]["conditions"][0].to_string();
    assert!(accepted.contains("Invalid") && !accepted.contains("in force nowhere"), "{accepted}");
}

#[test]
fn a_gateways_policy_is_told_of_the_rules_that_say_the_same_themselves() {
    let cors = json!([{"type": "CORS", "cors": {"allowOrigins": ["https://a.example"]}}]);
    let rules = json!({"rules": [with(forward("/a"), json!({"filters": cors})), forward("/b")]});
    let mut scene = scene([
        route("r", rules),
        wide("p", json!({"cors": {"allowOrigins": ["https://b.example"]}})),
        wide("q", buffer(16)),
    ]);
    let in_force = "it is in force at 2 of 2 places";
    let beside = "in part or beside others: 2";
    assert_eq!(
        attached(&scene, "infra/p"),
        format!(
            "True Merged: {in_force}; {beside}; rules there that say otherwise: 2; overridden by the CORS filter of a rule"
        )
    );
    assert_eq!(attached(&scene, "infra/q"), format!("True Merged: {in_force}; {beside}"));
    scene.put(route("r", json!({"rules": [forward("/a"), forward("/b")]})));
    assert_eq!(attached(&scene, "infra/p"), format!("True Merged: {in_force}; {beside}"));
}

#[test]
fn a_rule_that_is_closed_overrides_nothing_of_its_gateway() {
    let mut scene = scene([
        route("r", json!({"rules": [forward("/a")]})),
        wide("p", buffer(16)),
        on("near", at("HTTPRoute", "r"), buffer(8)),
    ]);
    let message = attached(&scene, "infra/p");
    assert!(message.starts_with("True Merged") && message.contains("rules there that say otherwise: 2"), "{message}");
    scene.put(on("near", at("HTTPRoute", "r"), json!({"buffer": {"maxRequestSize": "64Mi"}})));
    let message = attached(&scene, "infra/p");
    assert_eq!(message, "True Attached: it is in force at 2 of 2 places");
}

#[test]
fn the_status_of_a_gateways_policy_is_short_and_read_in_a_few_steps_whatever_the_routes_say() {
    const ROUTES: usize = 60;
    let routes = (0..ROUTES).map(|at| route(&format!("r{at}"), json!({"rules": [forward(&format!("/r{at}"))]})));
    let own = (0..ROUTES).map(|it| on(&format!("p{it}"), at("HTTPRoute", &format!("r{it}")), buffer(8)));
    let filtered = (0..ROUTES).map(|it| {
        let mut own = on(&format!("q{it}"), at("HTTPRoute", &format!("r{it}")), json!({"timeouts": {"request": "1s"}}));
        own["metadata"]["namespace"] = json!("apps");
        own
    });
    let mut of_infra = route("own", json!({"rules": [forward("/own")]}));
    of_infra["metadata"]["namespace"] = json!("infra");
    let mut scene = scene(routes.chain(own).chain(filtered).chain([of_infra, wide("wide", buffer(16))]));
    let told = attached(&scene, "infra/wide");
    assert!(told.contains("rules there that say otherwise: 120") && told.ends_with("; and others"), "{told}");
    assert!(told.len() < 800, "{} bytes: {told}", told.len());
    // A rule more or less reads one row of the status, whose groups keep the counts.
    scene.remove(on("p7", at("HTTPRoute", "r7"), buffer(8)));
    assert!(attached(&scene, "infra/wide").contains("otherwise: 118"), "{}", attached(&scene, "infra/wide"));
    assert_eq!((computed(&scene, "PolicyStatus"), computed(&scene, "Placement")), (2, 2));
}
