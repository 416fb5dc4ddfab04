//! What statuses leave out, and how they say so.

use api::Kind;
use ir::GATEWAY_API;
use serde_json::{Value, json};

use super::scene::{Scene, child, forward, gateway, http, route, service, to};

/// A policy of `apps` for routes of these names.
fn policy(kind: &str, targets: &[&str], more: Value) -> Value {
    let group = if kind == "TrafficPolicy" { "gateway.kgateway.dev" } else { "gateway.portcullis.dev" };
    let refs = targets.iter().map(|name| json!({"group": GATEWAY_API, "kind": "HTTPRoute", "name": name}));
    let mut spec = json!({"targetRefs": refs.collect::<Vec<_>>()});
    if let (Value::Object(spec), Value::Object(more)) = (&mut spec, more) {
        spec.extend(more);
    }
    json!({"apiVersion": format!("{group}/v1alpha1"), "kind": kind,
        "metadata": {"name": "p", "namespace": "apps"}, "spec": spec})
}

/// Of each ancestor of the policy its name and what is said there first.
fn ancestors(scene: &Scene, kind: Kind) -> Vec<(String, String)> {
    let status = scene.status(kind, "apps/p");
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let ancestors = status["ancestors"].as_array().into_iter().flatten();
    ancestors.map(|one| (text(&one["ancestorRef"]["name"]), text(&one["conditions"][0]["message"]))).collect()
}

#[test]
fn ancestors_for_whom_a_policys_status_has_no_room_are_told_in_its_last_entry() {
    let name = |at: u16| format!("g{at:02}");
    // Applied from the last to the first: what stays does not depend on it.
    let gateways = |count: u16| (0..count).rev().map(move |at| gateway(&name(at), json!([http("web", 80 + at, "")])));
    let parents = |count: u16| (0..count).map(|at| json!({"name": name(at), "namespace": "infra"})).collect::<Vec<_>>();
    let scene = |count: u16, policy: &Value| {
        let routes = [service("s"), route("r", json!({"parentRefs": parents(count)})), policy.clone()];
        Scene::new(gateways(count).chain(routes))
    };
    let policies = [
        ("TrafficPolicy", Kind::TrafficPolicy, json!({})),
        ("DelegationPolicy", Kind::DelegationPolicy, json!({"sortMethod": "TableWeight"})),
    ];
    for (kind, id, spec) in policies {
        let policy = policy(kind, &["r"], spec);
        let fits = scene(16, &policy);
        let before = ancestors(&fits, id);
        assert_eq!(before.len(), 16);
        assert!(before.iter().all(|(_, message)| !message.contains("Warning")), "{before:?}");
        assert!(!fits.problems().concat().contains("TooManyAncestors"));

        let full = scene(18, &policy);
        let after = ancestors(&full, id);
        assert_eq!(after[..15], before[..15]);
        let (name, message) = &after[15];
        assert_eq!((&**name, after.len()), ("g15", 16));
        let told = "a status names 16 ancestors, and the policy has more: Gateway infra/g16, Gateway infra/g17; ";
        assert!(message.contains(&format!(". Warning: {told}")), "{message}");
        let problems = full.problems();
        let found: Vec<_> = problems.iter().filter(|line| line.contains(told)).collect();
        assert_eq!(found.len(), 1, "{problems:?}");
        assert!(found[0].starts_with("p warning TooManyAncestors"));
    }
}

#[test]
fn a_message_names_the_first_eight_and_counts_the_rest() {
    let names: Vec<_> = (0..11).map(|at| format!("missing-{at:02}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let told = |names: &[&str]| {
        let scene = Scene::new([
            gateway("edge", json!([http("web", 80, "")])),
            route("r", json!({"rules": [to("/a", names)]})),
        ]);
        scene.route_message("apps/r", 0, "ResolvedRefs")
    };
    let eight = told(&names[..8]);
    assert_eq!(eight.matches("does not exist").count(), 8, "{eight}");
    assert!(!eight.contains("more"), "{eight}");
    let eleven = told(&names);
    assert!(eleven.contains("missing-07") && !eleven.contains("missing-08"), "{eleven}");
    assert!(eleven.ends_with("; and 3 more"), "{eleven}");
}

#[test]
fn a_message_is_never_longer_than_four_kibibytes() {
    // Eight prefixes of a kilobyte each, in letters of three bytes.
    let entry = |at: usize| json!({"prefix": format!("/{at}{}", "\u{20ac}".repeat(340)), "replacement": "/x"});
    let entries: Vec<_> = (0..8).map(entry).collect();
    let scene = Scene::new([
        gateway("edge", json!([http("web", 80, "")])),
        service("s"),
        route("r", json!({"rules": [forward("/a")]})),
        policy("RewritePolicy", &["r"], json!({"replacePrefix": entries})),
    ]);
    let status = scene.status(Kind::RewritePolicy, "apps/p");
    let conditions = status["ancestors"][0]["conditions"].as_array().expect("a list");
    let unused = conditions.iter().find(|condition| condition["type"] == "portcullis.dev/UnusedReplacement");
    let message = unused.expect("it is unused")["message"].as_str().expect("text");
    assert!(message.ends_with('…') && (4090..=4096).contains(&message.len()), "{} bytes: {message}", message.len());
}

#[test]
fn a_parent_is_told_the_names_of_its_own_children_and_the_number_of_others() {
    let all = json!({"matches": [{"path": {"type": "PathPrefix", "value": "/"}}],
        "backendRefs": [{"group": "delegation.kgateway.dev", "kind": "label", "name": "x", "namespace": "all"}]});
    let parent = |at: usize| route(&format!("p{at:02}"), json!({"rules": [all.clone()]}));
    let below = |namespace: &str, at: usize| {
        let mut child = child(&format!("{namespace}-{at}"), json!([forward(&format!("/{namespace}/{at}"))]));
        child["metadata"]["namespace"] = json!(namespace);
        child["metadata"]["labels"] = json!({"delegation.kgateway.dev/label": "x"});
        child
    };
    let children = (0..10).map(|at| below("apps", at)).chain((0..3).map(|at| below("others", at)));
    let base = [gateway("edge", json!([http("web", 80, "")])), service("s")];
    let scene = Scene::new(base.into_iter().chain((0..33).map(parent)).chain(children));
    let told = scene.route_message("apps/p32", 0, "Accepted");
    let (_, list) = told.split_once("do not tell of this one in their statuses: ").expect("it is told");
    let (list, _) = list.split_once(';').expect("and what to do");
    let eight: Vec<_> = (0..8).map(|at| format!("HTTPRoute apps/apps-{at}")).collect();
    assert_eq!(list, format!("{}, 5 more", eight.join(", ")));
}

#[test]
fn only_a_root_can_have_a_failure_mode() {
    let with = |target: &str, spec: Value| policy("DelegationPolicy", &[target], spec);
    let mut scene = Scene::new([
        gateway("edge", json!([http("web", 80, "")])),
        service("s"),
        route("root", json!({"rules": [to("/a", &["child"])]})),
        child("child", json!([forward("/a/x")])),
        with("child", json!({"failureMode": "FreezeConfig"})),
    ]);
    let accepted = |scene: &Scene| {
        let status = scene.status(Kind::DelegationPolicy, "apps/p");
        let condition = &status["ancestors"][0]["conditions"][0];
        let text = |field: &str| condition[field].as_str().expect("text").to_owned();
        format!("{}={} {}: {}", text("type"), text("status"), text("reason"), text("message"))
    };
    for mode in ["FreezeConfig", "RouteReplacement"] {
        scene.put(with("child", json!({"failureMode": mode})));
        let told = accepted(&scene);
        assert!(
            told.starts_with("Accepted=False Invalid: spec.failureMode: HTTPRoute apps/child is no root, "),
            "{told}"
        );
        // It is ignored, and the child is served.
        assert_eq!(scene.route("apps/child", 0, "Accepted"), "True Accepted");
    }
    scene.put(with("child", json!({})));
    assert_eq!(accepted(&scene), "Accepted=True Accepted: the policy is valid");
    scene.put(with("root", json!({"failureMode": "RouteReplacement"})));
    assert_eq!(accepted(&scene), "Accepted=True Accepted: the policy is valid");
}
