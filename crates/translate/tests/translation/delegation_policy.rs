//! What DelegationPolicies do to trees.

use serde_json::{Value, json};

use super::{
    delegation::{GROUP, annotated, child, forward, root, routes, scene, to},
    scene::{route, service},
};

fn policy(name: &str, target: &str, spec: Value) -> Value {
    let (target, section) = target.split_once('#').map_or((target, None), |(target, section)| (target, Some(section)));
    let mut all = json!({"targetRefs": [{"group": GROUP, "kind": "HTTPRoute", "name": target}]});
    if let Some(section) = section {
        all["targetRefs"][0]["sectionName"] = json!(section);
    }
    if let (Value::Object(all), Value::Object(spec)) = (&mut all, spec) {
        all.extend(spec);
    }
    json!({"apiVersion": "gateway.portcullis.dev/v1alpha1", "kind": "DelegationPolicy",
        "metadata": {"name": name, "namespace": "apps"}, "spec": all})
}

fn weighing(name: &str, weight: i32, rules: Value) -> Value {
    annotated(child(name, rules), "kgateway.dev/route-weight", &weight.to_string())
}

fn table(target: &str) -> Value {
    policy(&format!("table-{target}"), target, json!({"sortMethod": "TableWeight"}))
}

#[test]
fn by_weight_the_heavier_child_goes_first_whatever_it_matches() {
    let scene = scene([
        root(json!([to("/a", &["*"]), forward("/a/light/x")])),
        table("root"),
        weighing("heavy", 10, json!([forward("/a"), forward("/a/light/y")])),
        weighing("light", 5, json!([forward("/a/light")])),
    ]);
    // The group stands where the parent's match does, and each child's rules in their order.
    assert_eq!(routes(&scene), ["root.1.0 /a/light/x", "heavy.0.0 /a", "heavy.1.0 /a/light/y", "light.0.0 /a/light"]);
}

#[test]
fn equal_weights_stand_as_they_are_named_then_by_age_and_name() {
    let aged = |name: &str, second: u8| {
        let mut child = child(name, json!([forward("/a")]));
        child["metadata"]["creationTimestamp"] = json!(format!("2026-01-01T00:00:0{second}Z"));
        child
    };
    let scene = scene([
        root(json!([to("/a", &["*", "z", "y"])])),
        table("root"),
        aged("a", 5),
        aged("b", 3),
        aged("c", 3),
        aged("y", 1),
        aged("z", 9),
    ]);
    assert_eq!(routes(&scene), ["z.0.0 /a", "y.0.0 /a", "b.0.0 /a", "c.0.0 /a", "a.0.0 /a"]);
}

#[test]
fn the_routes_of_a_grandchild_stand_where_its_parents_rule_does() {
    let objects = || {
        [
            root(json!([to("/a", &["first", "second"])])),
            table("root"),
            child("first", json!([forward("/a/1"), to("/a", &["grand", "other"]), forward("/a/2")])),
            child("second", json!([forward("/a/3")])),
            weighing("grand", 1, json!([forward("/a"), forward("/a/x/y")])),
            weighing("other", 2, json!([forward("/a/x")])),
        ]
    };
    let in_the_middle = |inner: [&'static str; 3]| {
        let mut all = vec!["first.0.0 /a/1"];
        all.extend(inner);
        all.extend(["first.2.0 /a/2", "second.0.0 /a/3"]);
        all
    };
    let scene = scene(objects());
    assert_eq!(routes(&scene), in_the_middle(["grand.1.0 /a/x/y", "other.0.0 /a/x", "grand.0.0 /a"]));
    let scene = super::delegation::scene(objects().into_iter().chain([table("first")]));
    assert_eq!(routes(&scene), in_the_middle(["other.0.0 /a/x", "grand.0.0 /a", "grand.1.0 /a/x/y"]));
}

#[test]
fn what_is_left_of_a_table_answers_500_behind_it() {
    let scene = scene([
        root(json!([to("/a", &["child", "gone"]), forward("/")])),
        table("root"),
        child("child", json!([forward("/a/x")])),
    ]);
    assert_eq!(routes(&scene), ["child.0.0 /a/x", "root.0.0 /a 500", "root.1.0 /"]);
}

#[test]
fn of_two_policies_on_one_target_the_older_counts_and_a_rules_own_comes_last() {
    let aged = |mut policy: Value, second: u8| {
        policy["metadata"]["creationTimestamp"] = json!(format!("2026-01-01T00:00:0{second}Z"));
        policy
    };
    let mut rule = to("/a", &["*"]);
    rule["name"] = json!("named");
    let objects = [
        root(json!([rule])),
        weighing("heavy", 10, json!([forward("/a")])),
        weighing("light", 5, json!([forward("/a/light")])),
        aged(policy("a", "root", json!({"sortMethod": "TableWeight"})), 5),
        aged(policy("b", "root", json!({"sortMethod": "RouteSpecificity"})), 1),
    ];
    let (by_weight, by_match) = (["heavy.0.0 /a", "light.0.0 /a/light"], ["light.0.0 /a/light", "heavy.0.0 /a"]);
    let mut scene = scene(objects);
    assert_eq!(routes(&scene), by_match);
    scene.put(policy("c", "root#named", json!({"sortMethod": "TableWeight"})));
    assert_eq!(routes(&scene), by_weight);
}

#[test]
fn a_child_of_a_namespace_that_is_not_allowed_is_left_out_alone() {
    let mut foreign = child("foreign", json!([forward("/a/foreign")]));
    foreign["metadata"]["namespace"] = json!("other");
    let mut rule = to("/a", &["child"]);
    let reference = json!({"group": GROUP, "kind": "HTTPRoute", "name": "foreign", "namespace": "other"});
    rule["backendRefs"].as_array_mut().expect("a list").push(reference);
    let objects = [
        root(json!([rule])),
        child("child", json!([forward("/a/own")])),
        foreign,
        policy("p", "root", json!({"allowedChildren": {"namespaces": {"names": ["apps"]}}})),
    ];
    let mut scene = scene(objects);
    assert_eq!(routes(&scene), ["child.0.0 /a/own"]);
    assert_eq!(scene.route("other/foreign", 0, "Accepted"), "False NotAllowedByParent");
    assert_eq!(scene.route("apps/root", 0, "ResolvedRefs"), "True ResolvedRefs");
    // If nothing is left, the parent's match is broken.
    scene.put(child("child", json!([forward("/b")])));
    assert_eq!(routes(&scene), ["root.0.0 /a 500"]);
    let selector = json!({"allowedChildren": {"namespaces": {"selector": {"matchLabels": {"team": "a"}}}}});
    scene.put(policy("p", "root", selector));
    assert_eq!(routes(&scene), ["root.0.0 /a 500"]);
    scene.put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other", "labels": {"team": "a"}}}));
    assert_eq!(scene.route("other/foreign", 0, "Accepted"), "True Accepted");
}

#[test]
fn a_childs_backend_that_is_not_allowed_answers_500_and_a_descendant_can_only_narrow() {
    let to_backend = |path: &str, name: &str| {
        let mut rule = forward(path);
        rule["backendRefs"][0]["name"] = json!(name);
        rule
    };
    let allowing = |name: &str| json!({"allowedChildren": {"backends": [{"kind": "Service", "name": name}]}});
    let mut scene = scene([
        service("s1"),
        service("t1"),
        root(json!([to("/a", &["child"]), to_backend("/own", "t1")])),
        child("child", json!([to_backend("/a/1", "s1"), to_backend("/a/2", "t1"), to("/a/g", &["grand"])])),
        child("grand", json!([to_backend("/a/g/1", "s1"), to_backend("/a/g/2", "t1")])),
        policy("p", "root", allowing("s.*")),
    ]);
    assert_eq!(
        routes(&scene),
        ["grand.0.0 /a/g/1", "grand.1.0 /a/g/2 500", "child.0.0 /a/1", "child.1.0 /a/2 500", "root.1.0 /own"]
    );
    assert_eq!(scene.route("apps/child", 0, "ResolvedRefs"), "False RefNotPermitted");
    assert_eq!(scene.route("apps/child", 0, "Accepted"), "True Accepted");
    scene.put(policy("q", "child", allowing(".*")));
    assert_eq!(routes(&scene)[1], "grand.1.0 /a/g/2 500");
    scene.put(policy("q", "child", allowing("t.*")));
    assert_eq!(routes(&scene)[..2], ["grand.0.0 /a/g/1 500", "grand.1.0 /a/g/2 500"]);
}

#[test]
fn a_mirror_that_a_child_hands_down_is_bound_like_its_backends() {
    let mut handing = to("/a/g", &["grand"]);
    handing["filters"] =
        json!([{"type": "RequestMirror", "requestMirror": {"backendRef": {"name": "other", "port": 80}}}]);
    let allowing = |name: &str| policy("p", "root", json!({"allowedChildren": {"backends": [{"name": name}]}}));
    let mut scene = scene([
        service("other"),
        root(json!([to("/a", &["child"])])),
        child("child", json!([handing, forward("/a/x")])),
        child("grand", json!([forward("/a/g/1")])),
        allowing("s"),
    ]);
    assert_eq!(routes(&scene), ["child.0.0 /a/g 500", "child.1.0 /a/x"]);
    assert_eq!(scene.route("apps/child", 0, "ResolvedRefs"), "False RefNotPermitted");
    scene.put(allowing("s|other"));
    assert_eq!(routes(&scene), ["grand.0.0 /a/g/1", "child.1.0 /a/x"]);
}

#[test]
fn a_refused_policy_never_means_that_everything_is_allowed() {
    let pattern = json!({"allowedChildren": {"backends": [{"name": "("}]}});
    let mut named = to("/b", &["child"]);
    named["name"] = json!("named");
    let objects = |target: &str| {
        [
            root(json!([to("/a", &["child"]), named])),
            child("child", json!([forward("/a/x"), forward("/b/x")])),
            policy("p", target, pattern.clone()),
        ]
    };
    let scene = scene(objects("root"));
    assert_eq!(routes(&scene), ["root.0.0 /a 500", "root.1.0 /b 500"]);
    let scene = super::delegation::scene(objects("root#named"));
    assert_eq!(routes(&scene), ["child.0.0 /a/x", "root.1.0 /b 500"]);
    // Only a failure mode that is not supported leaves the rest in force.
    let freezing = json!({"failureMode": "FreezeConfig", "allowedChildren": {"namespaces": {"names": ["none"]}}});
    let scene = super::delegation::scene(objects("root").into_iter().take(2).chain([policy("p", "root", freezing)]));
    assert_eq!(routes(&scene), ["root.0.0 /a 500", "root.1.0 /b 500"]);
}

fn without(path: &str) -> Value {
    let mut rule = forward(path);
    rule.as_object_mut().expect("a rule").remove("backendRefs");
    rule
}

#[test]
fn a_rule_without_backends_gets_those_of_the_nearest_policy() {
    let mut broken = forward("/a/broken");
    broken["backendRefs"][0]["name"] = json!("gone");
    let scene = scene([
        root(json!([to("/a", &["child"]), without("/b")])),
        child("child", json!([without("/a/x"), broken])),
        policy("p", "root", json!({"defaultBackendRefs": [{"name": "s", "port": 80}]})),
    ]);
    assert_eq!(routes(&scene), ["child.1.0 /a/broken 500", "child.0.0 /a/x", "root.1.0 /b"]);
    let scene = super::delegation::scene([
        root(json!([without("/b")])),
        policy("p", "root", json!({"defaultBackendRefs": [{"name": "s", "namespace": "infra", "port": 80}]})),
    ]);
    assert_eq!(scene.route("apps/root", 0, "ResolvedRefs"), "False RefNotPermitted");
}

#[test]
fn a_child_elsewhere_learns_nothing_of_the_backends_it_is_given() {
    let mut elsewhere = child("child", json!([without("/a/x")]));
    elsewhere["metadata"]["namespace"] = json!("team");
    let mut delegating = to("/a", &["child"]);
    delegating["backendRefs"][0]["namespace"] = json!("team");
    let scene = scene([
        root(json!([delegating])),
        elsewhere,
        policy("secret-plan", "root", json!({"defaultBackendRefs": [{"name": "secret-service", "port": 80}]})),
    ]);
    assert_eq!(scene.route("team/child", 0, "ResolvedRefs"), "False BackendNotFound");
    let message = scene.route_message("team/child", 0, "ResolvedRefs");
    assert!(message.contains("ask the owner of the parent"), "{message}");
    assert!(!message.contains("secret"), "{message}");
}

#[test]
fn where_authentication_is_demanded_nothing_is_served_without() {
    let tree = [root(json!([to("/a", &["child"]), forward("/b")])), child("child", json!([forward("/a/x")]))];
    let demanding = policy("p", "root", json!({"requireAuth": true}));
    let mut scene = scene(tree.into_iter().chain([demanding.clone()]));
    assert_eq!(routes(&scene), ["child.0.0 /a/x 500", "root.1.0 /b 500"]);
    scene.remove(demanding);
    assert_eq!(routes(&scene), ["child.0.0 /a/x", "root.1.0 /b"]);
    let mut labelled = child("child", json!([forward("/a/x")]));
    labelled["metadata"]["labels"] = json!({"portcullis.dev/require-auth": "true"});
    scene.put(labelled);
    assert_eq!(routes(&scene), ["child.0.0 /a/x 500", "root.1.0 /b"]);
    assert_eq!(scene.route("apps/child", 0, "Accepted"), "False UnsupportedValue");
    let alone = super::delegation::scene([{
        let mut alone = route("alone", json!({}));
        alone["metadata"]["labels"] = json!({"portcullis.dev/require-auth": "true"});
        alone
    }]);
    assert_eq!(routes(&alone), ["alone.0.0 / 500"]);
}

const USERS: &str = "alice:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=";

/// A policy on an object that has a say in who authenticates.
fn traffic(name: &str, target: Value, spec: Value) -> Value {
    super::policies::policy("TrafficPolicy", name, super::policies::with(target, spec))
}

#[test]
fn a_sound_policy_of_any_level_that_authenticates_meets_the_demand_and_a_broken_or_disabled_one_does_not() {
    let tree = || {
        let keys = super::scene::opaque("keys", json!({"client": "key"}));
        [
            root(json!([to("/a", &["child"]), forward("/b")])),
            child("child", json!([forward("/a/x")])),
            policy("p", "root", json!({"requireAuth": true})),
            keys,
        ]
    };
    let on = |kind, name| super::policies::at(kind, name);
    let closed = ["child.0.0 /a/x 500", "root.1.0 /b 500"];
    let open = ["child.0.0 /a/x", "root.1.0 /b"];
    let users = || json!({"basicAuth": {"users": [USERS]}});
    let keys = || json!({"apiKeyAuth": {"secretRef": {"name": "keys"}}});
    for auth in [users(), keys()] {
        let mut scene = scene(tree());
        assert_eq!(routes(&scene), closed, "{auth}");
        scene.put(traffic("auth", on("HTTPRoute", "root"), auth.clone()));
        assert_eq!(routes(&scene), open, "{auth}");
        let field = auth.as_object().and_then(|auth| auth.keys().next()).expect("a field").clone();
        let off = traffic("off", on("HTTPRoute", "child"), json!({field.clone(): {"disable": {}}}));
        scene.put(off.clone());
        assert_eq!(routes(&scene), ["child.0.0 /a/x 500", "root.1.0 /b"], "{auth}");
        scene.remove(off);
        scene.put(traffic("auth", on("HTTPRoute", "root"), json!({field: {"secretRef": {"name": "missing"}}})));
        assert_eq!(routes(&scene), closed, "{auth}");
        scene.put(traffic("auth", on("HTTPRoute", "child"), auth));
        assert_eq!(routes(&scene), ["child.0.0 /a/x", "root.1.0 /b 500"]);
    }
    // What authenticates for all of a Gateway does so for routes that say nothing of the same.
    let mut scene = scene(tree());
    let mut wide = traffic("wide", on("Gateway", "edge"), users());
    wide["metadata"]["namespace"] = json!("infra");
    scene.put(wide.clone());
    assert_eq!(routes(&scene), open);
    scene.put(traffic("off", on("HTTPRoute", "child"), json!({"basicAuth": {"disable": {}}})));
    assert_eq!(routes(&scene), ["child.0.0 /a/x 500", "root.1.0 /b"]);
    scene.put(traffic("keys", on("HTTPRoute", "child"), keys()));
    assert_eq!(routes(&scene), ["child.0.0 /a/x", "root.1.0 /b"], "by a key instead of a password");
    scene.remove(wide);
    assert_eq!(routes(&scene), ["child.0.0 /a/x", "root.1.0 /b 500"]);
}

#[test]
fn where_authentication_is_demanded_a_rule_is_closed_at_the_listeners_alone_that_have_none() {
    use super::scene::{Scene, gateway, http, https, secret};

    let edge = |mode: &str| {
        let listeners = json!([http("web", 80, ""), http("other", 81, ""), https("tls", 443, "", "cert")]);
        annotated(gateway("edge", listeners), "kgateway.dev/inherited-policy-priority", mode)
    };
    let mut demanding = route("r", json!({"rules": [forward("/a")]}));
    demanding["metadata"]["labels"] = json!({"portcullis.dev/require-auth": "true"});
    let at_listener = |name: &str, listener: &str, spec: Value| {
        let mut policy = traffic(name, super::policies::at_section("Gateway", "edge", listener), spec);
        policy["metadata"]["namespace"] = json!("infra");
        policy
    };
    let users = || json!({"basicAuth": {"users": [USERS]}});
    let statuses = |scene: &Scene| {
        ["http/80", "http/81", "https/443/tls"].map(|config| {
            let config = scene.resource("infra/edge", envoy::ResourceKind::RouteConfiguration, config).expect("routes");
            config["virtualHosts"][0]["routes"][0]["directResponse"]["status"].as_u64()
        })
    };
    for mode in ["ShallowMergePreferChild", "ShallowMergePreferParent"] {
        let mut scene = Scene::new([edge(mode), secret("cert"), service("s"), demanding.clone()]);
        assert_eq!(statuses(&scene), [Some(500); 3], "{mode}");
        scene.put(at_listener("web", "web", users()));
        assert_eq!(statuses(&scene), [None, Some(500), Some(500)], "{mode}: guarded by its listener");
        assert_eq!(scene.route("apps/r", 0, "PartiallyInvalid"), "True UnsupportedValue", "{mode}");
        scene.put(at_listener("tls", "tls", users()));
        assert_eq!(statuses(&scene), [None, Some(500), None], "{mode}");
        // What is part of a route's action differs as well.
        scene.put(at_listener("slow", "tls", json!({"timeouts": {"request": "9s"}})));
        assert_eq!(statuses(&scene), [None, Some(500), None], "{mode}");
        scene.put(at_listener("other", "other", users()));
        assert_eq!(statuses(&scene), [None; 3], "{mode}");
        assert_eq!(scene.route("apps/r", 0, "PartiallyInvalid"), "", "{mode}");
    }
    // The Gateway switches off what the rule has, by its word, and one listener has another.
    let mut off = traffic("off", super::policies::at("Gateway", "edge"), json!({"basicAuth": {"disable": {}}}));
    off["metadata"]["namespace"] = json!("infra");
    let mut keys = super::scene::opaque("keys", json!({"client": "key"}));
    keys["metadata"]["namespace"] = json!("infra");
    let keys = [keys, at_listener("web", "web", json!({"apiKeyAuth": {"secretRef": {"name": "keys"}}}))];
    let own = traffic("own", super::policies::at("HTTPRoute", "r"), users());
    let base = [edge("ShallowMergePreferParent"), secret("cert"), service("s"), demanding.clone(), own, off];
    let scene = Scene::new(base.into_iter().chain(keys));
    assert_eq!(statuses(&scene), [None, Some(500), Some(500)]);
    // The rule has its own, which one listener switches off by the word of the Gateway.
    let own = traffic("own", super::policies::at("HTTPRoute", "r"), users());
    let off = at_listener("off", "other", json!({"basicAuth": {"disable": {}}}));
    let mut scene =
        Scene::new([edge("ShallowMergePreferParent"), secret("cert"), service("s"), demanding.clone(), own, off]);
    assert_eq!(statuses(&scene), [None, Some(500), None]);
    scene.put(edge("ShallowMergePreferChild"));
    assert_eq!(statuses(&scene), [None; 3]);
}

#[test]
fn where_policies_are_merged_deeply_what_a_gateway_and_a_rule_come_to_together_authenticates_or_does_not() {
    use super::scene::{Scene, gateway, http};

    let of = |kind: &str, name: &str, spec: Value| {
        json!({"apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": kind,
            "metadata": {"name": name, "namespace": "infra", "generation": 1}, "spec": spec})
    };
    let judge = |name: &str, open: bool| {
        let service = json!({"backendRef": {"name": "s", "port": 80}});
        of("GatewayExtension", name, json!({"extAuth": {"grpcService": service, "failOpen": open}}))
    };
    let by = |name: &str| json!({"extAuth": {"extensionRef": {"name": name, "namespace": "infra"}}});
    let wide = |spec: Value| {
        let mut policy = traffic("wide", super::policies::at("Gateway", "edge"), spec);
        policy["metadata"]["namespace"] = json!("infra");
        policy
    };
    let own = |spec: Value| traffic("own", super::policies::at("HTTPRoute", "r"), spec);
    let off = json!({"extAuth": {"disable": {}}});
    let mut demanding = route("r", json!({"rules": [forward("/a")]}));
    demanding["metadata"]["labels"] = json!({"portcullis.dev/require-auth": "true"});
    let mut asked = service("s");
    asked["metadata"]["namespace"] = json!("infra");
    for (mode, gateway_says, route_says, status) in [
        ("DeepMergePreferChild", by("strict"), Some(off.clone()), Some(500)),
        ("DeepMergePreferChild", by("open"), Some(by("strict")), None),
        ("DeepMergePreferChild", by("open"), Some(by("open")), Some(500)),
        ("DeepMergePreferChild", by("strict"), None, None),
        ("DeepMergePreferParent", by("strict"), Some(off.clone()), None),
        ("DeepMergePreferParent", off.clone(), Some(by("strict")), Some(500)),
        ("ShallowMergePreferChild", by("strict"), Some(off.clone()), Some(500)),
        ("ShallowMergePreferParent", by("strict"), Some(off), None),
    ] {
        let edge = gateway("edge", json!([http("web", 80, "")]));
        let edge = annotated(edge, "kgateway.dev/inherited-policy-priority", mode);
        let policies = [Some(wide(gateway_says.clone())), route_says.clone().map(own)];
        let objects =
            [edge, service("s"), asked.clone(), judge("strict", false), judge("open", true), demanding.clone()];
        let scene = Scene::new(objects.into_iter().chain(policies.into_iter().flatten()));
        let config = scene.resource("infra/edge", envoy::ResourceKind::RouteConfiguration, "http/80").expect("routes");
        let answer = config["virtualHosts"][0]["routes"][0]["directResponse"]["status"].as_u64();
        assert_eq!(answer, status, "{mode}: {gateway_says} and {route_says:?}");
    }
}

#[test]
fn a_child_that_may_not_switch_off_what_it_inherits_stays_guarded() {
    let kept = json!({"requireAuth": true, "allowedChildren": {"allowDisablingInheritedPolicies": false}});
    let on = |name| super::policies::at("HTTPRoute", name);
    let scene = scene([
        root(json!([to("/a", &["child"])])),
        child("child", json!([forward("/a/x")])),
        policy("p", "root", kept),
        traffic("auth", on("root"), json!({"basicAuth": {"users": [USERS]}})),
        traffic("off", on("child"), json!({"basicAuth": {"disable": {}}})),
    ]);
    assert_eq!(routes(&scene), ["child.0.0 /a/x"]);
    let config = scene.resource("infra/edge", envoy::ResourceKind::RouteConfiguration, "http/80").expect("routes");
    assert!(config.to_string().contains("alice:"), "{config}");
}

#[test]
fn a_child_of_another_namespace_is_told_what_is_demanded_and_not_by_which_policy() {
    let told = |spec: Value| {
        let mut foreign = child("foreign", json!([forward("/a/x")]));
        foreign["metadata"]["namespace"] = json!("other");
        let mut rule = to("/a", &["own"]);
        let reference = json!({"group": GROUP, "kind": "HTTPRoute", "name": "foreign", "namespace": "other"});
        rule["backendRefs"].as_array_mut().expect("a list").push(reference);
        let own = child("own", json!([forward("/a/own")]));
        let scene = scene([root(json!([rule])), own, foreign, policy("secret", "root", spec)]);
        ["Accepted", "ResolvedRefs"].map(|condition| {
            let say = |name| scene.route_message(name, 0, condition);
            (say("apps/own"), say("other/foreign"))
        })
    };
    let [(own, foreign), _] = told(json!({"requireAuth": true}));
    assert!(own.contains("DelegationPolicy apps/secret demands"), "{own}");
    assert!(foreign.contains("the owner of a route above this one demands"), "{foreign}");
    assert!(!foreign.contains("secret"), "{foreign}");
    let [_, (own, foreign)] = told(json!({"allowedChildren": {"backends": [{"kind": "Service", "name": "none"}]}}));
    assert!(own.contains("that DelegationPolicy apps/secret allows"), "{own}");
    assert!(foreign.contains("that the owner of a route above this one allows"), "{foreign}");
    assert!(!foreign.contains("secret"), "{foreign}");
}
