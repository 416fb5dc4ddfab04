//! Secrets of policies: what a change of one wakes, and what nobody learns of one of others.

#![allow(clippy::needless_pass_by_value, reason = "callers write values in place")]

use api::Kind;
use serde_json::{Value, json};

use super::{
    policies::{at, policy, with},
    scene::{Scene, gateway, http, opaque, route, service},
};

const USERS: &str = "alice:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=";
const OTHERS: &str = "alice:{SHA}0JQeaNqPOBUf+Gph/Fn3xc+fyqI=";

fn scene(objects: impl IntoIterator<Item = Value>) -> Scene {
    let own = [
        gateway("edge", json!([http("web", 80, "")])),
        service("s"),
        route("guarded", json!({"hostnames": ["guarded.example"]})),
        route("other", json!({"hostnames": ["other.example"]})),
    ];
    Scene::new(own.into_iter().chain(objects))
}

fn on(route: &str, spec: Value) -> Value {
    policy("TrafficPolicy", route, with(at("HTTPRoute", route), spec))
}

fn computed(scene: &Scene, table: &str) -> usize {
    scene.0.stats().iter().find(|stats| stats.name == table).expect("a table").computed
}

#[test]
fn a_rotation_changes_the_routes_that_it_guards_and_no_listener() {
    let secret = |users: &str| opaque("users", json!({".htpasswd": users}));
    let mut scene = scene([secret(USERS), on("guarded", json!({"basicAuth": {"secretRef": {"name": "users"}}}))]);
    let changes = scene.put(secret(OTHERS));
    let changed: Vec<_> = changes.resources.iter().map(|(key, _)| &*key.name).collect();
    assert_eq!(changed, ["http/80"]);
    assert_eq!((computed(&scene, "ResolvedRule"), computed(&scene, "PolicyRow")), (1, 1));
    // What does not stand in the key that is read wakes no route.
    let mut more = secret(OTHERS);
    more["stringData"]["more"] = json!("x");
    assert!(scene.put(more).resources.is_empty());
    assert_eq!(computed(&scene, "ResolvedRule"), 0);
}

#[test]
fn a_label_wakes_the_policies_alone_that_select_by_it() {
    let labelled = |name: &str, key: &str, labels: Value| {
        let mut secret = opaque(name, json!({ name: key }));
        secret["metadata"]["labels"] = labels;
        secret
    };
    let select = |team: &str| json!({"apiKeyAuth": {"secretSelector": {"matchLabels": {"team": team}}}});
    let mut scene = scene([
        labelled("a", "one", json!({"team": "shop"})),
        on("guarded", select("shop")),
        on("other", select("office")),
    ]);
    assert!(scene.status(Kind::TrafficPolicy, "apps/other").to_string().contains("no Secret of this namespace"));
    let changes = scene.put(labelled("b", "two", json!({"team": "shop"})));
    assert_eq!(changes.resources.len(), 1);
    assert_eq!((computed(&scene, "PolicyRow"), computed(&scene, "ResolvedRule")), (1, 1));
    assert!(scene.put(labelled("c", "three", json!({"team": "none"}))).resources.is_empty());
    assert_eq!(computed(&scene, "PolicyRow"), 0);
    scene.put(labelled("c", "three", json!({"team": "office"})));
    assert_eq!(computed(&scene, "PolicyRow"), 1);
    scene.put(labelled("b", "two", json!({})));
    assert_eq!(computed(&scene, "ResolvedRule"), 1);
}

#[test]
fn nobody_learns_of_a_secret_that_he_may_not_read_whether_it_is_there() {
    let foreign = |spec: &str| serde_json::from_str(&spec.replace("REF", r#"{"name": "s", "namespace": "infra"}"#));
    for spec in [
        r#"{"basicAuth": {"secretRef": REF}}"#,
        r#"{"apiKeyAuth": {"secretRef": REF}}"#,
        r#"{"headerModifiers": {"request": {"set": [{"name": "x-a", "secretRef": REF}]}}}"#,
    ] {
        let policy = on("guarded", foreign(spec).expect("JSON"));
        let mut scene = scene([policy]);
        let (problems, resources) = (scene.problems(), scene.0.resources());
        for data in [json!({".htpasswd": USERS, "x-a": "value"}), json!({"x-a": "line\nbreak"}), json!({})] {
            let mut secret = opaque("s", data);
            secret["metadata"]["namespace"] = json!("infra");
            let changes = scene.put(secret);
            assert!(changes.resources.is_empty(), "{spec}");
            assert_eq!((scene.problems(), scene.0.resources()), (problems.clone(), resources.clone()), "{spec}");
        }
        assert!(
            problems.iter().any(|problem| problem.contains("no ReferenceGrant there allows TrafficPolicies of apps"))
        );
    }
}

#[test]
fn credentials_are_read_once_and_kept_once_for_all_policies_that_ask_for_the_same() {
    const POLICIES: usize = 40;
    let secret = |users: &str| opaque("users", json!({".htpasswd": users}));
    let of = |at: usize| {
        let name = format!("r{at}");
        let users = json!({"basicAuth": {"secretRef": {"name": "users"}}});
        [route(&name, json!({"hostnames": [format!("{name}.example")]})), on(&name, users)]
    };
    let mut scene = scene((0..POLICIES).flat_map(of).chain([secret(USERS)]));
    scene.put(secret(OTHERS));
    assert_eq!((computed(&scene, "CredentialSlots"), computed(&scene, "PolicyRow")), (1, POLICIES));
    let slots = scene.0.first_slots();
    assert_eq!(slots.len(), POLICIES);
    assert!(slots.iter().all(|slot| std::sync::Arc::ptr_eq(slot, &slots[0])), "each has a copy of its own");
    // Whoever may not read it has nothing of it, though others of his wording have.
    let mut foreign = on("guarded", json!({"basicAuth": {"secretRef": {"name": "users", "namespace": "apps"}}}));
    foreign["metadata"]["namespace"] = json!("elsewhere");
    scene.put(foreign);
    let faults = scene.0.policy_faults("elsewhere");
    assert!(matches!(&faults[..], [fault] if fault.contains("no ReferenceGrant")), "{faults:?}");
    // None of them reads it any more.
    for at in 0..POLICIES {
        scene.remove(on(&format!("r{at}"), json!({})));
    }
    assert_eq!(scene.0.credential_slots(), 0);
}

#[test]
fn what_each_route_has_a_copy_of_is_kept_once_in_the_controller() {
    let keys = |count: usize| (0..count).map(|at| (format!("client-{at}"), json!(format!("key-{at:05}-0123456789"))));
    let secret = |count| opaque("keys", json!(keys(count).collect::<serde_json::Map<_, _>>()));
    let matches: Vec<_> = (0..8).map(|at| json!({"path": {"value": format!("/{at}")}})).collect();
    let rule = json!({"matches": matches, "backendRefs": [{"name": "s", "port": 80}]});
    let guarded = on("guarded", json!({"apiKeyAuth": {"secretRef": {"name": "keys"}}}));
    let mut scene = scene([
        route("guarded", json!({"hostnames": ["guarded.example"], "rules": [rule]})),
        guarded.clone(),
        secret(3_000),
    ]);
    let written = |scene: &Scene| scene.0.is_written(ir::Chain::root(ir::RouteId::http("apps", "guarded")), 0);
    assert!(!written(&scene), "the rule keeps a copy for each of its matches");
    let config = |scene: &Scene| scene.resource("infra/edge", envoy::ResourceKind::RouteConfiguration, "http/80");
    let many = config(&scene).expect("routes").to_string();
    assert_eq!(many.matches("client-2999").count(), 8, "one for each match");
    scene.put(secret(3));
    assert!(written(&scene));
    assert_eq!(config(&scene).expect("routes").to_string().matches("client-2\"").count(), 8);
}
