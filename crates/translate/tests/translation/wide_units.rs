//! What policies of Gateways and listeners say: where it stands, and whom a change of it wakes.

#![allow(clippy::needless_pass_by_value, reason = "callers write values in place")]

use std::collections::BTreeMap;

use api::Kind;
use envoy::ResourceKind;
use serde_json::{Value, json};

use super::{
    delegation::annotated,
    policies::{at, at_section, policy, with},
    scene::{Scene, child, forward, gateway, http, https, route, secret, service, to},
};

/// Two plain listeners of one port, one of another, and two over TLS.
fn scene(policies: impl IntoIterator<Item = Value>) -> Scene {
    let listeners = json!([
        http("one", 80, "one.example.com"),
        http("two", 80, "two.example.com"),
        http("plain", 81, "two.example.com"),
        https("tls", 443, "one.example.com", "cert"),
        https("other", 443, "two.example.com", "cert"),
    ]);
    let objects = [
        gateway("edge", listeners),
        service("s"),
        secret("cert"),
        route("one", json!({"hostnames": ["one.example.com"]})),
        route("two", json!({"hostnames": ["two.example.com"]})),
    ];
    Scene::new(objects.into_iter().chain(policies))
}

/// A policy of the Gateway's namespace.
fn wide(name: &str, target: Value, spec: Value) -> Value {
    let mut policy = policy("TrafficPolicy", name, with(target, spec));
    policy["metadata"]["namespace"] = json!("infra");
    policy
}

fn on_gateway(name: &str, spec: Value) -> Value {
    wide(name, at("Gateway", "edge"), spec)
}

fn on_listener(name: &str, listener: &str, spec: Value) -> Value {
    wide(name, at_section("Gateway", "edge", listener), spec)
}

fn buffer(bytes: u32) -> Value {
    json!({"buffer": {"maxRequestSize": bytes}})
}

fn timeouts(request: &str) -> Value {
    json!({"timeouts": {"request": request}})
}

const CONFIGS: [&str; 4] = ["http/80", "http/81", "https/443/tls", "https/443/other"];

fn config(scene: &Scene, name: &str) -> Value {
    scene.resource("infra/edge", ResourceKind::RouteConfiguration, name).expect("a route configuration")
}

/// The bytes of `buffer` in a message; 0 where it is switched off, none where it says nothing.
fn size(message: &Value) -> Option<u64> {
    let config = message.get("typedPerFilterConfig")?.get("buffer")?;
    match config["disabled"].as_bool() {
        Some(true) => Some(0),
        _ => config["buffer"]["maxRequestBytes"].as_u64(),
    }
}

/// Where a limit stands, as `CONFIG`, `CONFIG DOMAIN` or `CONFIG ROUTE`.
fn sizes(scene: &Scene) -> BTreeMap<String, u64> {
    let mut sizes = BTreeMap::new();
    let mut note = |at: String, message: &Value| sizes.extend(size(message).map(|size| (at, size)));
    for name in CONFIGS {
        let config = config(scene, name);
        note(name.into(), &config);
        for host in config["virtualHosts"].as_array().into_iter().flatten() {
            note(format!("{name} {}", host["name"].as_str().expect("text")), host);
            for route in host["routes"].as_array().into_iter().flatten() {
                note(format!("{name} {}", route["name"].as_str().unwrap_or_default()), route);
            }
        }
    }
    sizes
}

/// The timeouts of a virtual host's routes.
fn request_timeouts(scene: &Scene, name: &str, domain: &str) -> Vec<String> {
    let config = config(scene, name);
    let hosts = config["virtualHosts"].as_array().into_iter().flatten();
    let host = hosts.into_iter().find(|host| host["name"] == domain).expect("a virtual host");
    let routes = host["routes"].as_array().into_iter().flatten();
    routes.map(|route| route["route"]["timeout"].as_str().expect("a timeout").to_owned()).collect()
}

fn expected<const N: usize>(sizes: [(&str, u64); N]) -> BTreeMap<String, u64> {
    sizes.into_iter().map(|(at, size)| (at.to_owned(), size)).collect()
}

/// How many rows of a table were computed by the last change.
fn computed(scene: &Scene, table: &str) -> usize {
    let stats = scene.0.stats();
    stats.iter().find(|stats| stats.name == table).expect("a table").computed
}

#[test]
fn a_slot_of_a_gateway_stands_on_each_of_its_route_configurations_and_wakes_no_row() {
    let mut scene = scene([]);
    let before = scene.0.resources();
    let changes = scene.put(on_gateway("p", buffer(16)));
    let changed: Vec<_> = changes.resources.iter().map(|(key, _)| &*key.name).collect();
    assert_eq!(changed, ["buffer.body", "http/80", "http/81", "https/443/other", "https/443/tls"]);
    let all = [("http/80", 16), ("http/81", 16), ("https/443/tls", 16), ("https/443/other", 16)];
    assert_eq!(sizes(&scene), expected(all));
    scene.put(on_gateway("p", buffer(17)));
    for table in ["ResolvedRule", "ResolvedAt", "Placement", "Rows", "VirtualHost"] {
        assert_eq!(computed(&scene, table), 0, "{table}");
    }
    scene.remove(on_gateway("p", buffer(17)));
    assert_eq!(scene.0.resources(), before);
}

#[test]
fn a_slot_of_a_listener_stands_where_its_routes_alone_are() {
    let mut scene = scene([on_gateway("p", buffer(16))]);
    let of_gateway = [("http/80", 16), ("http/81", 16), ("https/443/tls", 16), ("https/443/other", 16)];
    let of_gateway = expected(of_gateway);
    let with = |at: &str, size| of_gateway.iter().map(|(at, size)| (at.clone(), *size)).chain([(at.into(), size)]);
    for (listener, at) in [("one", "http/80 one.example.com"), ("tls", "https/443/tls")] {
        let own = on_listener("own", listener, buffer(32));
        let changes = scene.put(own.clone());
        assert_eq!(changes.resources.len(), 1, "{listener}");
        assert_eq!(sizes(&scene), with(at, 32).collect(), "{listener}");
        // The same as the Gateway's needs to be said once.
        scene.put(on_listener("own", listener, buffer(16)));
        assert_eq!(sizes(&scene), of_gateway, "{listener}");
        scene.put(on_listener("own", listener, json!({"buffer": {"disable": {}}})));
        assert_eq!(sizes(&scene), with(at, 0).collect(), "{listener}");
        scene.remove(own);
        assert_eq!(sizes(&scene), of_gateway, "{listener}");
    }
}

/// The origin that pages may have, by what says so: `CONFIG` or `CONFIG DOMAIN`; empty where nothing is said.
fn origins(scene: &Scene, name: &str) -> BTreeMap<String, String> {
    let config = config(scene, name);
    let hosts = config["virtualHosts"].as_array().into_iter().flatten();
    let hosts = hosts.map(|host| (format!("{name} {}", host["name"].as_str().expect("text")), host));
    let all = std::iter::once((name.to_owned(), &config)).chain(hosts);
    all.filter_map(|(at, message)| {
        let said = message.get("typedPerFilterConfig")?.get("cors.wide")?;
        Some((at, said["allowOriginStringMatch"][0]["exact"].as_str().unwrap_or_default().to_owned()))
    })
    .collect()
}

#[test]
fn what_envoy_would_merge_stands_on_virtual_hosts_where_listeners_share_a_route_configuration() {
    let cors = |origin: &str| json!({"cors": {"allowOrigins": [origin]}});
    let of_gateway = on_gateway("p", cors("https://a"));
    let mut scene = scene([of_gateway.clone(), on_listener("q", "two", cors("https://b"))]);
    let expected = |origins: &[(&str, &str)]| {
        origins.iter().map(|(at, origin)| ((*at).to_owned(), (*origin).to_owned())).collect::<BTreeMap<_, _>>()
    };
    let of_80 = |two| expected(&[("http/80 one.example.com", "https://a"), ("http/80 two.example.com", two)]);
    assert_eq!(origins(&scene, "http/80"), of_80("https://b"));
    assert_eq!(origins(&scene, "https/443/tls"), expected(&[("https/443/tls", "https://a")]));
    scene.put(on_listener("q", "two", json!({"cors": {"disable": {}}})));
    assert_eq!(origins(&scene, "http/80"), of_80(""));
    for table in ["ResolvedRule", "ResolvedAt", "Placement", "Rows"] {
        assert_eq!(computed(&scene, table), 0, "{table}");
    }
    scene.remove(on_listener("q", "two", json!({})));
    assert_eq!(origins(&scene, "http/80"), of_80("https://a"));
    scene.remove(of_gateway);
    assert_eq!(origins(&scene, "http/80"), BTreeMap::new());
}

#[test]
fn address_ranges_of_policies_in_one_place_add_up_and_each_of_them_holds() {
    let acl = |range: &str, more: Value| {
        let rules = json!([{"cidrs": [range], "action": "allow"}]);
        let mut acl = json!({"defaultAction": "deny", "rules": rules});
        acl.as_object_mut().expect("a mapping").extend(more.as_object().cloned().into_iter().flatten());
        json!({"acl": acl})
    };
    let said = |message: &Value| {
        let text = message["typedPerFilterConfig"]["acl"].to_string();
        ["10.0.0.0", "11.0.0.0", "12.0.0.0"].map(|range| text.contains(&format!("\"{range}\"")))
    };
    let mut scene =
        scene([on_gateway("p", acl("10.0.0.0/8", json!({}))), on_gateway("q", acl("11.0.0.0/8", json!({})))]);
    assert_eq!(said(&config(&scene, "http/80")), [true, true, false]);
    for name in ["infra/p", "infra/q"] {
        assert!(conditions(&scene, name).1.starts_with("True Merged"), "{name}");
    }
    // A listener is another place, and so is a route.
    scene.put(on_listener("r", "two", acl("12.0.0.0/8", json!({}))));
    let hosts = config(&scene, "http/80")["virtualHosts"].clone();
    let two = hosts.as_array().into_iter().flatten().find(|host| host["name"] == "two.example.com").expect("a host");
    assert_eq!(said(two), [false, false, true]);
    for name in ["infra/p", "infra/q"] {
        assert!(conditions(&scene, name).1.starts_with("False Overridden"), "{name}");
    }
    let of_route = |name: &str, range: &str, more: Value| {
        policy("TrafficPolicy", name, with(at("HTTPRoute", "one"), acl(range, more)))
    };
    scene.put(of_route("a", "10.0.0.0/8", json!({})));
    scene.put(of_route("b", "12.0.0.0/8", json!({})));
    let of_one = |scene: &Scene| {
        let hosts = config(scene, "http/80")["virtualHosts"].clone();
        let one = hosts.as_array().into_iter().flatten().find(|host| host["name"] == "one.example.com").cloned();
        one.expect("a host")["routes"][0].clone()
    };
    assert_eq!(said(&of_one(&scene)), [true, false, true]);
    assert!(conditions(&scene, "apps/b").1.starts_with("True Merged"));
    // Where they contradict, the first holds; one that is broken closes both.
    scene.put(of_route("b", "12.0.0.0/8", json!({"defaultAction": "allow"})));
    assert_eq!(said(&of_one(&scene)), [true, false, false]);
    scene.put(of_route("b", "12.0.0.1/8", json!({})));
    assert_eq!(of_one(&scene)["directResponse"]["status"], 500);
}

#[test]
fn a_rule_writes_what_it_says_and_what_it_switches_off_over_wider_scopes() {
    let of = |name: &str, route: &str, spec: Value| policy("TrafficPolicy", name, with(at("HTTPRoute", route), spec));
    let scene = scene([
        on_listener("p", "plain", buffer(16)),
        of("less", "one", json!({"buffer": {"disable": {}}})),
        of("more", "two", buffer(64)),
    ]);
    let sizes = sizes(&scene);
    assert_eq!(sizes.get("http/81 two.example.com"), Some(&16));
    assert_eq!((sizes.get("http/80 apps/one/0/0"), sizes.get("http/81 apps/two/0/0")), (Some(&0), Some(&64)));
}

#[test]
fn actions_of_a_gateway_and_a_listener_are_written_into_rows_where_nothing_nearer_says_them() {
    let mut scene = scene([on_gateway("p", timeouts("9s")), on_listener("q", "two", timeouts("8s"))]);
    let mut own = route("one", json!({"hostnames": ["one.example.com"]}));
    own["spec"]["rules"] = json!([
        {"name": "plain", "matches": [{"path": {"value": "/a/b/c"}}], "backendRefs": [{"name": "s", "port": 80}]},
        {"name": "policy", "matches": [{"path": {"value": "/a/b"}}], "backendRefs": [{"name": "s", "port": 80}]},
        {"matches": [{"path": {"value": "/a"}}], "backendRefs": [{"name": "s", "port": 80}], "timeouts": {"request": "1s"}},
    ]);
    scene.put(own);
    let near = policy("TrafficPolicy", "near", with(at_section("HTTPRoute", "one", "policy"), timeouts("2s")));
    scene.put(near.clone());
    for name in ["http/80", "https/443/tls"] {
        assert_eq!(request_timeouts(&scene, name, "one.example.com"), ["9s", "2s", "1s"], "{name}");
    }
    assert_eq!(request_timeouts(&scene, "http/80", "two.example.com"), ["8s"]);
    assert_eq!(request_timeouts(&scene, "http/81", "two.example.com"), ["9s"]);
    // Each unit is merged by itself, as a whole.
    scene.put(policy(
        "TrafficPolicy",
        "near",
        with(at_section("HTTPRoute", "one", "policy"), json!({"timeouts": {"streamIdle": "5s"}})),
    ));
    assert_eq!(request_timeouts(&scene, "http/80", "one.example.com"), ["9s", "0s", "1s"]);
    scene.remove(near);
    scene.remove(on_gateway("p", timeouts("9s")));
    assert_eq!(request_timeouts(&scene, "http/80", "one.example.com"), ["0s", "0s", "1s"]);
    assert_eq!(request_timeouts(&scene, "http/80", "two.example.com"), ["8s"]);
}

#[test]
fn a_change_of_actions_wakes_the_rows_of_its_scope_alone() {
    let mut scene = scene([on_listener("q", "two", timeouts("8s"))]);
    let changes = scene.put(on_listener("q", "two", timeouts("7s")));
    assert_eq!(changes.resources.iter().map(|(key, _)| &*key.name).collect::<Vec<_>>(), ["http/80"]);
    for (table, rows) in [("ResolvedRule", 0), ("ResolvedAt", 1), ("Placement", 1), ("Rows", 1), ("VirtualHost", 1)] {
        assert_eq!(computed(&scene, table), rows, "{table}");
    }
    // What is wrong with a rule is looked at, and is nothing as before.
    for (table, rows) in [("RuleFindings", 1), ("Unacceptable", 0), ("RouteStatus", 0)] {
        assert_eq!(computed(&scene, table), rows, "{table}");
    }
    scene.put(on_listener("buffer", "two", buffer(16)));
    for table in ["ResolvedRule", "ResolvedAt", "Placement", "Rows"] {
        assert_eq!(computed(&scene, table), 0, "{table}");
    }
}

#[test]
fn a_rule_is_written_once_for_all_listeners_of_a_gateway_that_say_the_same() {
    let mut scene = scene([]);
    scene.put(on_gateway("p", timeouts("9s")));
    assert_eq!((computed(&scene, "ResolvedRule"), computed(&scene, "ResolvedAt")), (0, 2), "one a route");
    // One that switches nothing of it is no other.
    scene.put(on_listener("q", "two", buffer(16)));
    assert_eq!(computed(&scene, "ResolvedAt"), 0);
    scene.put(on_listener("r", "two", timeouts("8s")));
    assert_eq!(computed(&scene, "ResolvedAt"), 1);
}

/// `Accepted` and `Attached` of a policy at its only ancestor, with messages.
fn conditions(scene: &Scene, name: &str) -> (String, String) {
    let status = scene.status(Kind::TrafficPolicy, name);
    let ancestors = status["ancestors"].as_array().expect("ancestors");
    assert_eq!(ancestors.len(), 1, "{status}");
    assert_eq!(ancestors[0]["ancestorRef"]["name"], "edge");
    let of = |kind: &str| {
        let conditions = ancestors[0]["conditions"].as_array().into_iter().flatten();
        let found = conditions.into_iter().find(|condition| condition["type"] == kind).expect("a condition");
        let text = |field: &str| found[field].as_str().expect("text").to_owned();
        format!("{} {}: {}", text("status"), text("reason"), text("message"))
    };
    (of("Accepted"), of("Attached"))
}

#[test]
fn the_owner_of_a_wide_policy_is_told_where_it_holds_and_who_overrides_it() {
    let mut scene = scene([on_gateway("p", buffer(16)), on_listener("q", "two", buffer(32))]);
    let (accepted, attached) = conditions(&scene, "infra/p");
    assert!(accepted.starts_with("True Valid"), "{accepted}");
    assert!(attached.starts_with("False Overridden") && attached.contains("TrafficPolicy infra/q"), "{attached}");
    assert!(attached.contains("in force at 4 of 5 places"), "{attached}");
    assert!(conditions(&scene, "infra/q").1.starts_with("True Attached"));
    for listener in ["one", "plain", "tls", "other"] {
        scene.put(on_listener(listener, listener, buffer(32)));
    }
    assert!(conditions(&scene, "infra/p").1.starts_with("False Overridden"));
    // A rule that says the same has its way too. Whose policy of another namespace that is nobody learns.
    for spec in [timeouts("9s"), buffer(16)] {
        let mut scene = self::scene([on_gateway("p", spec.clone())]);
        assert!(conditions(&scene, "infra/p").1.starts_with("True Attached"));
        scene.put(policy("TrafficPolicy", "near", with(at("HTTPRoute", "one"), spec.clone())));
        let (_, attached) = conditions(&scene, "infra/p");
        let words = ["True Merged", "a TrafficPolicy of another namespace"];
        assert!(words.iter().all(|words| attached.contains(words)) && !attached.contains("apps"), "{attached}");
        scene.put(on_gateway("p", json!({})));
        assert!(conditions(&scene, "infra/p").1.starts_with("True Attached"));
    }
}

#[test]
fn a_policy_on_something_that_is_not_served_is_told_and_holds_at_its_other_targets() {
    let mut target = at("Gateway", "edge");
    let set = json!({"group": "gateway.networking.x-k8s.io", "kind": "ListenerSet", "name": "set"});
    target["targetRefs"].as_array_mut().expect("a list").push(set);
    let scene = scene([wide("p", target, buffer(16))]);
    assert_eq!(sizes(&scene).get("http/80"), Some(&16));
    let (accepted, _) = conditions(&scene, "infra/p");
    assert!(accepted.starts_with("True Valid") && accepted.contains("ListenerSet"), "{accepted}");
}

#[test]
fn a_policy_that_breaks_closes_its_gateway_and_what_a_sound_one_said_comes_back() {
    let mut scene = scene([on_gateway("p", buffer(16)), on_listener("q", "one", timeouts("8s"))]);
    let before = scene.0.resources();
    scene.put(on_gateway("p", buffer(0)));
    for name in CONFIGS {
        let config = config(&scene, name);
        assert_eq!(config["virtualHosts"][0]["domains"], json!(["*"]), "{name}");
        assert_eq!(config["virtualHosts"][0]["routes"][0]["directResponse"]["status"], 500, "{name}");
    }
    scene.put(on_gateway("p", buffer(16)));
    assert_eq!(scene.0.resources(), before);
}

/// A parent that hands a limit down to a child, which switches it off; the child hands it on to a grandchild.
fn tree(parents_policy: Option<Value>) -> Scene {
    let off = |name: &str, route: &str| {
        policy("TrafficPolicy", name, with(at("HTTPRoute", route), json!({"buffer": {"disable": {}}})))
    };
    let limit = policy("TrafficPolicy", "limit", with(at("HTTPRoute", "root"), buffer(16)));
    let objects = [
        gateway("edge", json!([http("plain", 80, "")])),
        service("s"),
        route("root", json!({"rules": [to("/a", &["child"])]})),
        child("child", json!([forward("/a/own"), to("/a/grand", &["grand"])])),
        child("grand", json!([forward("/a/grand/leaf")])),
        limit,
        off("of-child", "child"),
        off("of-grand", "grand"),
    ];
    Scene::new(objects.into_iter().chain(parents_policy))
}

/// The limits of the child's and the grandchild's route.
fn tree_sizes(scene: &Scene) -> Vec<Option<u64>> {
    let config = config(scene, "http/80");
    let hosts = config["virtualHosts"].as_array().into_iter().flatten();
    let routes: Vec<_> = hosts.flat_map(|host| host["routes"].as_array().into_iter().flatten()).collect();
    let of = |name: &str| routes.iter().find(|route| route["name"] == name).and_then(|route| size(route));
    vec![of("apps/child/0/0"), of("apps/grand/0/0")]
}

fn keeping(route: &str) -> Value {
    let children = json!({"allowedChildren": {"allowDisablingInheritedPolicies": false}});
    policy("DelegationPolicy", "keep", with(at("HTTPRoute", route), children))
}

#[test]
fn what_a_child_may_not_switch_off_holds_and_its_owner_is_told() {
    let mut scene = tree(None);
    assert_eq!(tree_sizes(&scene), [Some(0), Some(0)]);
    scene.put(keeping("root"));
    assert_eq!(tree_sizes(&scene), [Some(16), Some(16)]);
    for name in ["apps/of-child", "apps/of-grand"] {
        let (accepted, attached) = conditions(&scene, name);
        assert!(accepted.starts_with("True Valid"), "{accepted}");
        assert!(attached.starts_with("False Overridden"), "{attached}");
        assert!(attached.contains("DelegationPolicy apps/keep, which lets no child switch off"), "{attached}");
    }
    assert!(conditions(&scene, "apps/limit").1.starts_with("True Attached"));
    // It is asked of those below: the route that says so may switch it off, for itself and for them.
    scene.put(keeping("child"));
    assert_eq!(tree_sizes(&scene), [Some(0), Some(0)]);
    assert!(conditions(&scene, "apps/of-child").1.starts_with("True Attached"));
    assert!(conditions(&scene, "apps/of-grand").1.contains("DelegationPolicy apps/keep"));
    scene.remove(keeping("child"));
    assert_eq!(tree_sizes(&scene), [Some(0), Some(0)]);
}

#[test]
fn what_a_child_may_not_switch_off_may_be_its_gateways() {
    let mut scene = tree(Some(keeping("root")));
    scene.remove(policy("TrafficPolicy", "limit", with(at("HTTPRoute", "root"), buffer(16))));
    scene.put(on_gateway("p", buffer(64)));
    assert_eq!(tree_sizes(&scene), [None, None]);
    assert_eq!(size(&config(&scene, "http/80")), Some(64));
    assert!(conditions(&scene, "infra/p").1.starts_with("True Attached"), "nothing overrides it");
    assert!(conditions(&scene, "apps/of-child").1.starts_with("False Overridden"));
    scene.remove(keeping("root"));
    assert_eq!(tree_sizes(&scene), [Some(0), Some(0)]);
    assert!(conditions(&scene, "infra/p").1.starts_with("True Merged"));
}

#[test]
fn a_gateway_of_which_nobody_knows_what_it_prefers_is_told() {
    let mut scene = scene([on_gateway("p", timeouts("9s"))]);
    scene.put(policy("TrafficPolicy", "near", with(at("HTTPRoute", "two"), timeouts("2s"))));
    let edge = |mode: &str| {
        let mut edge = gateway("edge", json!([http("plain", 81, "two.example.com")]));
        edge["metadata"]["annotations"] = json!({"kgateway.dev/inherited-policy-priority": mode});
        edge
    };
    scene.put(edge("PreferParent"));
    assert_eq!(request_timeouts(&scene, "http/81", "two.example.com"), ["2s"]);
    let message = scene.gateway_message("infra/edge", "Accepted");
    assert!(message.starts_with("True Accepted") && message.contains("counts as ShallowMergePreferChild"), "{message}");
    scene.put(edge("ShallowMergePreferParent"));
    assert_eq!(request_timeouts(&scene, "http/81", "two.example.com"), ["9s"]);
    assert!(!scene.gateway_message("infra/edge", "Accepted").contains("counts as"));
}

#[test]
fn a_listener_whose_policies_come_to_more_than_can_be_served_answers_by_itself() {
    let asks = |name: &str| json!({"extProc": {"extensionRef": {"name": name}}});
    let processor = |name: &str| {
        let service = json!({"backendRef": {"name": "provider", "port": 80}});
        let stage = json!({"stage": "AuthN", "predicate": "During"});
        json!({"apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "GatewayExtension",
            "metadata": {"name": name, "namespace": "infra"},
            "spec": {"extProc": {"grpcService": service, "filterStage": stage}}})
    };
    let mut provider = service("provider");
    provider["metadata"]["namespace"] = json!("infra");
    let listeners = json!([
        http("one", 80, "one.example.com"),
        http("plain", 81, "two.example.com"),
        https("tls", 443, "one.example.com", "cert"),
    ]);
    let priority = "kgateway.dev/inherited-policy-priority";
    let edge = annotated(gateway("edge", listeners), priority, "DeepMergePreferChild");
    for listener in ["one", "tls"] {
        let mut scene = scene([provider.clone(), processor("a"), processor("b"), edge.clone()]);
        scene.put(on_gateway("p", asks("a")));
        scene.put(on_listener("q", listener, asks("b")));
        assert_eq!(scene.listener("infra/edge", listener, "Accepted"), "False ListenerReplaced");
        assert_eq!(scene.listener("infra/edge", "plain", "Accepted"), "True Accepted");
        let name = if listener == "tls" { "https/443/tls" } else { "http/80" };
        let host = &config(&scene, name)["virtualHosts"][0];
        assert_eq!(host["routes"][0]["directResponse"]["status"], 500, "{host}");
        assert!(conditions(&scene, "infra/q").1.starts_with("False Pending"), "{:?}", conditions(&scene, "infra/q"));
        // The same processor once more is one.
        scene.put(on_listener("q", listener, asks("a")));
        assert_eq!(scene.listener("infra/edge", listener, "Accepted"), "True Accepted");
    }
}
