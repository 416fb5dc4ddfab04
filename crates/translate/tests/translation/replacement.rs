//! What stands in place of what is broken.

use envoy::ResourceKind;
use ir::{GATEWAY_API, NsName, Reason, RouteId, Settings};
use serde_json::{Value, json};

use super::{
    delegation::routes,
    scene::{Scene, child, forward, gateway, http, route, service, to},
};
use translate::{Changes, RefusedRows};

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
fn told(changes: Changes) -> Vec<(NsName, u32, Option<Reason>)> {
    changes.replacements.into_iter().map(|(at, now)| (at.gateway, at.rule, now.map(|now| now.reason))).collect()
}

#[test]
fn a_transition_is_told_once_for_each_gateway_however_many_listeners_serve_the_rule() {
    let edge = || NsName::new("infra", "edge");
    let mut scene = scene(Settings::default(), false);
    assert_eq!(told(scene.put(route("r", rules(true)))), [(edge(), 1, Some(Reason::UnsupportedValue))]);
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

/// Refuses the Envoy routes of `apps/r` at `path`, as they are sent now, besides `refused`.
fn refuse(scene: &mut Scene, refused: &mut RefusedRows, path: &[u8], is_said: bool) {
    let sent = scene.0.inspect().sent().into_iter();
    let rows = sent.filter(|sent| sent.route.is_some() && sent.fragment.bytes.windows(path.len()).any(|at| at == path));
    for sent in rows {
        refused.insert(sent.fragment.hash, "Envoy refuses it: no", is_said);
    }
    scene.0.set_refused(&RouteId::http("apps", "r"), refused.clone());
    scene.0.settle();
}

#[test]
fn a_match_that_envoy_refuses_answers_500_or_nothing_until_it_is_refused_no_more() {
    let mut scene = scene(Settings::default(), false);
    let all = |scene: &Scene| {
        let config = scene.resource("infra/edge", ResourceKind::RouteConfiguration, "http/80").unwrap_or_default();
        config["virtualHosts"][0]["routes"].as_array().cloned().unwrap_or_default()
    };
    let (sound, mut refused) = (all(&scene), RefusedRows::default());
    refuse(&mut scene, &mut refused, b"/broken", true);
    let replaced = all(&scene);
    assert_eq!((replaced.len(), &replaced[1]), (2, &sound[1]), "the other rule is as it was");
    assert_eq!(replaced[0]["directResponse"]["status"], 500);
    assert_eq!(replaced[0]["match"], sound[0]["match"]);
    assert_eq!(scene.route("apps/r", 0, "PartiallyInvalid"), "True UnsupportedValue");
    assert!(scene.route_message("apps/r", 0, "PartiallyInvalid").contains("Envoy refuses it: no; write"));
    let mut crashed = refused.clone();
    refuse(&mut scene, &mut crashed, b"/broken", false);
    assert_eq!(all(&scene), replaced, "a crash is no reason to have its requests fall through");
    refuse(&mut scene, &mut refused, b"/broken", true);
    assert_eq!(all(&scene), sound[1..], "what answers 500 is refused, too");
    scene.0.set_refused(&RouteId::http("apps", "r"), RefusedRows::default());
    scene.0.settle();
    assert_eq!(all(&scene), sound);
}

#[test]
fn a_rule_that_nobody_can_read_answers_500_also_without_replacement() {
    for enabled in [true, false] {
        let mut settings = Settings::default();
        settings.replacement.enabled = enabled;
        settings.replacement.status = 503;
        let mut scene = scene(settings, false);
        scene.0.fail_at("RouteRule", &format!("{:?}", (RouteId::http("apps", "r"), 1_u32)));
        assert_eq!(scene.0.settle().faults.len(), 1);
        let config = scene.resource("infra/edge", ResourceKind::RouteConfiguration, "http/80").unwrap_or_default();
        assert_eq!(config["virtualHosts"][0]["routes"][0]["directResponse"]["status"], 500, "{config}");
    }
}

/// What is made of these objects where what is broken is replaced, and where it is dropped.
fn replaced_and_dropped(objects: &[Value]) -> [Scene; 2] {
    [true, false].map(|enabled| {
        let mut settings = Settings::default();
        settings.replacement.enabled = enabled;
        let base = [gateway("edge", json!([http("web", 80, "")])), service("s")];
        Scene::with(settings, base.into_iter().chain(objects.iter().cloned()))
    })
}

/// HTTPRoute `apps/root` with these rules, and one that takes everything that nothing else takes.
fn root(mut rules: Value) -> Value {
    rules.as_array_mut().expect("a list").push(forward("/"));
    route("root", json!({"rules": rules}))
}

/// TrafficPolicy `apps/p` with these fields.
fn policy(spec: &Value) -> Value {
    json!({"apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "TrafficPolicy",
        "metadata": {"name": "p", "namespace": "apps", "generation": 7}, "spec": spec})
}

#[test]
fn without_replacement_a_child_with_hostnames_is_left_out_and_its_siblings_serve() {
    let mut broken = child("broken", json!([forward("/a/x")]));
    broken["spec"]["hostnames"] = json!(["example.com"]);
    let objects = [root(json!([to("/a", &["broken", "good"])])), broken, child("good", json!([forward("/a")]))];
    let [replaced, dropped] = replaced_and_dropped(&objects);
    assert_eq!(routes(&replaced), ["broken.0.0 /a/x 500", "good.0.0 /a", "root.1.0 /"]);
    assert_eq!(routes(&dropped), ["good.0.0 /a", "root.1.0 /"]);
    for scene in [&replaced, &dropped] {
        assert_eq!(scene.route("apps/broken", 0, "Accepted"), "False UnsupportedValue");
        assert_eq!(scene.route("apps/good", 0, "Accepted"), "True Accepted");
        assert_eq!(scene.route("apps/root", 0, "Accepted"), "True Accepted");
    }
}

#[test]
fn without_replacement_a_rule_whose_only_child_is_broken_still_answers_itself() {
    let mut broken = child("broken", json!([forward("/a/x")]));
    broken["spec"]["hostnames"] = json!(["example.com"]);
    let [replaced, dropped] = replaced_and_dropped(&[root(json!([to("/a", &["broken"])])), broken]);
    assert_eq!(routes(&replaced), ["broken.0.0 /a/x 500", "root.0.0 /a 500", "root.1.0 /"]);
    assert_eq!(routes(&dropped), ["root.0.0 /a 500", "root.1.0 /"], "as where its child is missing");
}

#[test]
fn without_replacement_a_rule_that_delegates_and_forwards_is_left_out_with_its_children() {
    let mut mixed = to("/a", &["child"]);
    mixed["backendRefs"].as_array_mut().expect("a list").push(json!({"name": "s", "port": 80}));
    let objects = [root(json!([mixed])), child("child", json!([forward("/a/x")]))];
    let [replaced, dropped] = replaced_and_dropped(&objects);
    assert_eq!(routes(&replaced), ["root.0.0 /a 500", "root.1.0 /"]);
    assert_eq!(routes(&dropped), ["root.1.0 /"]);
    assert_eq!(replaced.route("apps/root", 0, "kgateway.dev/Programmed"), "False RouteRuleReplaced");
    assert_eq!(dropped.route("apps/root", 0, "kgateway.dev/Programmed"), "False RouteRuleDropped");
    assert_eq!(dropped.route("apps/root", 0, "PartiallyInvalid"), "True UnsupportedValue");
}

#[test]
fn without_replacement_a_broken_policy_drops_the_rules_that_it_applies_to_and_no_other() {
    let mut named = forward("/b");
    named["name"] = json!("b");
    let by_rule = json!({"targetRefs": [
        {"group": GATEWAY_API, "kind": "HTTPRoute", "name": "root", "sectionName": "b"}], "extProc": {}});
    let objects = [root(json!([forward("/a"), named])), policy(&by_rule)];
    let [replaced, dropped] = replaced_and_dropped(&objects);
    assert_eq!(routes(&replaced), ["root.0.0 /a", "root.1.0 /b 500", "root.2.0 /"]);
    assert_eq!(routes(&dropped), ["root.0.0 /a", "root.2.0 /"]);
    assert_eq!(dropped.route("apps/root", 0, "kgateway.dev/Programmed"), "False RouteRuleDropped");
    assert_eq!(dropped.route("apps/root", 0, "Accepted"), "True Accepted");

    let of_route = json!({"targetRefs": [{"group": GATEWAY_API, "kind": "HTTPRoute", "name": "leaf"}], "extProc": {}});
    let objects = [
        root(json!([to("/a", &["leaf", "other"])])),
        child("leaf", json!([forward("/a/x"), forward("/a/y")])),
        child("other", json!([forward("/a/z")])),
        policy(&of_route),
    ];
    let [replaced, dropped] = replaced_and_dropped(&objects);
    assert_eq!(routes(&replaced), ["leaf.0.0 /a/x 500", "leaf.1.0 /a/y 500", "other.0.0 /a/z", "root.1.0 /"]);
    assert_eq!(routes(&dropped), ["other.0.0 /a/z", "root.1.0 /"]);
    assert_eq!(dropped.route("apps/leaf", 0, "Accepted"), "False UnsupportedValue", "nothing is left of it");
    assert_eq!(dropped.route("apps/other", 0, "Accepted"), "True Accepted");
}

/// What takes a request for `path`: the route and rule, and what it answers itself.
fn takes(scene: &Scene, path: &str) -> String {
    let below = |prefix: &str| {
        let rest = path.strip_prefix(prefix.trim_end_matches('/'));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let found = routes(scene).into_iter().find(|route| route.split(' ').nth(1).is_some_and(below));
    found.expect("something takes every path")
}

#[test]
fn nothing_goes_past_a_broken_policy_to_a_backend_unless_dropping_is_asked_for() {
    let named = |mut rule: Value, name: &str| {
        rule["name"] = json!(name);
        rule
    };
    let asking = |mut rule: Value, asks: bool| {
        if asks {
            rule["filters"] = json!([{"type": "ExtensionRef", "extensionRef":
                {"group": "gateway.kgateway.dev", "kind": "TrafficPolicy", "name": "p"}}]);
        }
        rule
    };
    let target = |name: &str| json!([{"group": GATEWAY_API, "kind": "HTTPRoute", "name": name}]);
    let rule_of = |name: &str| json!([{"group": GATEWAY_API, "kind": "HTTPRoute", "name": name, "sectionName": "it"}]);
    let label = json!([{"group": GATEWAY_API, "kind": "HTTPRoute", "matchLabels": {"team": "a"}}]);
    // Where the policy is attached, and whether a filter of the parent's rule, or of the leaf's, names it.
    let places = [
        (json!({"targetRefs": target("leaf")}), false, false),
        (json!({"targetRefs": rule_of("leaf")}), false, false),
        (json!({"targetSelectors": label}), false, false),
        (json!({"targetRefs": target("mid")}), false, false),
        (json!({"targetRefs": rule_of("mid")}), false, false),
        (json!({}), true, false),
        (json!({}), false, true),
    ];
    let regex = json!({"pattern": "(", "substitution": "/"});
    let faults = [json!({"extProc": {}}), json!({"urlRewrite": {"pathRegex": regex}})];
    for ((place, by_mid, by_leaf), fault) in
        places.iter().flat_map(|place| faults.iter().map(move |fault| (place, fault)))
    {
        let mut spec = place.clone();
        spec.as_object_mut().expect("a spec").extend(fault.as_object().expect("a fault").clone());
        let mut leaf = child("leaf", json!([named(asking(forward("/a/b/c"), *by_leaf), "it")]));
        leaf["metadata"]["labels"] = json!({"team": "a"});
        let objects = [
            // Whoever else would take the requests: the same tree, broader, and another root.
            root(json!([to("/a", &["mid", "broad"])])),
            child("mid", json!([named(asking(to("/a/b", &["leaf"]), *by_mid), "it")])),
            leaf,
            child("broad", json!([forward("/a")])),
            policy(&spec),
        ];
        let [replaced, dropped] = replaced_and_dropped(&objects);
        let answer = takes(&replaced, "/a/b/c/d");
        assert!(answer.ends_with(" 500"), "{spec}: {answer} of {:?}", routes(&replaced));
        assert_eq!(takes(&replaced, "/a/x"), "broad.0.0 /a", "{spec}");
        assert_eq!(takes(&dropped, "/a/b/c/d"), "broad.0.0 /a", "{spec}: never the route that the policy is for");
    }
}
