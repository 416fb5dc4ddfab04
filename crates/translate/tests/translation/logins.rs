//! Logins: which secrets a proxy has of them, what a change of one wakes, and what becomes of extensions that are broken.

#![allow(clippy::needless_pass_by_value, reason = "callers write values in place")]

use envoy::ResourceKind;
use serde_json::{Value, json};

use super::{
    policies::{at, policy, with},
    scene::{Scene, gateway, http, judged_login, login, login_grant, opaque, route, service},
};

/// What the names of secrets begin with; that of a client has a hash behind it.
const CLIENT: &str = "oauth2/client/apps/login";
const COOKIES: &str = "oauth2/cookies/apps/login";

fn client(value: &str) -> Value {
    client_in("client", value)
}

fn client_in(name: &str, value: &str) -> Value {
    opaque(name, json!({"client-secret": value}))
}

fn on(kind: &str, target: &str) -> Value {
    let spec = json!({"oauth2": {"extensionRef": {"name": "login", "namespace": "apps"}}});
    let mut policy = policy("TrafficPolicy", target, with(at(kind, target), spec));
    if kind == "Gateway" {
        policy["metadata"]["namespace"] = json!("infra");
    }
    policy
}

fn scene(objects: impl IntoIterator<Item = Value>) -> Scene {
    let own = [
        gateway("edge", json!([http("web", 80, "")])),
        gateway("other", json!([http("web", 81, "")])),
        service("s"),
        login("login"),
        route("guarded", json!({"hostnames": ["guarded.example"]})),
        route(
            "open",
            json!({"hostnames": ["open.example"],
            "parentRefs": [{"name": "edge", "namespace": "infra"}, {"name": "other", "namespace": "infra"}]}),
        ),
    ];
    Scene::new(own.into_iter().chain(objects))
}

/// The secrets of logins that a Gateway has.
fn names(scene: &Scene, gateway: &str) -> Vec<String> {
    let resources = scene.0.resources();
    let of_gateway = resources.iter().filter(|(id, _)| id.to_string() == gateway).flat_map(|(_, all)| all);
    let secrets = of_gateway.filter(|(key, _)| key.kind == ResourceKind::Secret).map(|(key, _)| key.name.to_string());
    secrets.filter(|name| name.starts_with("oauth2/")).collect()
}

fn without_hash(name: &str) -> &str {
    name.split_once('@').map_or(name, |(name, _)| name)
}

fn secret(scene: &Scene, gateway: &str, name: &str) -> Option<Value> {
    let name = names(scene, gateway).into_iter().find(|own| without_hash(own) == name)?;
    let secret = scene.resource(gateway, ResourceKind::Secret, &name)?;
    Some(secret["genericSecret"]["secret"]["inlineBytes"].clone())
}

/// The row of a hostname, as JSON.
fn row(scene: &Scene, host: &str) -> Value {
    let config = scene.resource("infra/edge", ResourceKind::RouteConfiguration, "http/80").expect("routes");
    let hosts = config["virtualHosts"].as_array().expect("hosts").clone();
    let host = hosts.into_iter().find(|at| at["domains"] == json!([host])).expect("the host");
    host["routes"][0].clone()
}

/// The secrets that the route of a hostname names: what is shown to the provider, and what proves cookies.
fn said(scene: &Scene, host: &str) -> [String; 2] {
    let said = &row(scene, host)["typedPerFilterConfig"]["oauth2"]["filterChain"]["filters"][0];
    let credentials = &said["typedConfig"]["config"]["credentials"];
    ["tokenSecret", "hmacSecret"].map(|secret| credentials[secret]["name"].as_str().expect("a name").to_owned())
}

#[test]
fn a_proxy_has_the_secrets_of_logins_that_its_routes_ask_for_and_no_others() {
    let scene = scene([client("hunter2"), on("HTTPRoute", "guarded")]);
    assert_eq!(secret(&scene, "infra/edge", CLIENT), Some(json!("aHVudGVyMg==")));
    assert!(secret(&scene, "infra/edge", COOKIES).is_some());
    assert_eq!((secret(&scene, "infra/other", CLIENT), secret(&scene, "infra/other", COOKIES)), (None, None));
    assert_eq!(names(&scene, "infra/edge"), said(&scene, "guarded.example"));
    assert!(row(&scene, "open.example").get("typedPerFilterConfig").is_none());
}

#[test]
fn two_gateways_prove_logins_by_keys_of_their_own() {
    let scene = scene([client("hunter2"), on("HTTPRoute", "open")]);
    let [edge, other] = ["infra/edge", "infra/other"].map(|gateway| secret(&scene, gateway, COOKIES).expect("a key"));
    assert_ne!(edge, other);
}

#[test]
fn a_gateway_that_has_people_log_in_has_the_secrets_for_that() {
    let scene = scene([client("hunter2"), on("Gateway", "other"), login_grant("infra")]);
    assert!(secret(&scene, "infra/other", CLIENT).is_some() && secret(&scene, "infra/other", COOKIES).is_some());
    assert_eq!(secret(&scene, "infra/edge", CLIENT), None);
}

#[test]
fn another_client_secret_changes_one_resource_and_wakes_no_route() {
    let mut scene = scene([client("hunter2"), on("HTTPRoute", "guarded")]);
    let changes = scene.put(client("hunter3"));
    let changed: Vec<_> = changes.resources.iter().map(|(key, _)| (key.kind, without_hash(&key.name))).collect();
    assert_eq!(changed, [(ResourceKind::Secret, CLIENT)]);
    let stats = scene.0.stats();
    let computed = |table: &str| stats.iter().find(|stats| stats.name == table).expect("a table").computed;
    assert_eq!((computed("PolicyRow"), computed("ResolvedRule")), (0, 0));
}

/// Secrets reach a proxy before the routes do.
#[test]
fn what_is_for_another_provider_is_shown_to_none_of_before() {
    let both = [client("hunter2"), client_in("other", "swordfish"), on("HTTPRoute", "guarded")];
    let mut scene = scene(both);
    let [first, cookies] = said(&scene, "guarded.example");
    let mut moved = login("login");
    let oauth2 = &mut moved["spec"]["oauth2"];
    oauth2["tokenEndpoint"] = json!("https://other.example/token");
    oauth2["credentials"]["clientSecretRef"]["name"] = json!("other");
    let changes = scene.put(moved);
    let [now, same] = said(&scene, "guarded.example");
    assert_eq!((names(&scene, "infra/edge"), &same), (vec![now.clone(), cookies.clone()], &cookies));
    assert_ne!(now, first);
    assert_eq!(secret(&scene, "infra/edge", CLIENT), Some(json!("c3dvcmRmaXNo")));
    let changed = changes.resources.iter().filter(|(key, _)| key.kind == ResourceKind::Secret);
    let mut changed = changed.map(|(key, to)| (key.name.to_string(), to.is_some())).collect::<Vec<_>>();
    changed.sort_unstable();
    let mut expected = [(first.clone(), false), (now, true)];
    expected.sort_unstable();
    assert_eq!(changed, expected);
    scene.put(login("login"));
    assert_eq!(said(&scene, "guarded.example"), [first, cookies]);
}

#[test]
fn a_login_without_its_secret_closes_what_asks_for_it_and_nothing_else() {
    let mut scene = scene([on("HTTPRoute", "guarded")]);
    let status = |scene: &Scene, host: &str| row(scene, host)["directResponse"]["status"].clone();
    assert_eq!((status(&scene, "guarded.example"), status(&scene, "open.example")), (json!(500), Value::Null));
    assert_eq!(secret(&scene, "infra/edge", COOKIES), None);
    scene.put(client("hunter2"));
    assert_eq!(status(&scene, "guarded.example"), Value::Null);
    scene.put(client(""));
    assert_eq!(status(&scene, "guarded.example"), json!(500));
}

#[test]
fn judges_of_what_logins_bring_are_known_to_proxies_that_ask_for_them_by_a_name_of_their_own() {
    let mut scene = scene([client("hunter2"), judged_login("login"), on("HTTPRoute", "guarded")]);
    let known = |scene: &Scene, gateway: &str| {
        let filter = scene.resource(gateway, ResourceKind::ExtensionConfig, "oauth2.jwt").expect("the filter");
        filter["typedConfig"]["requirementMap"].as_object().map(|known| known.keys().cloned().collect::<Vec<_>>())
    };
    let named = |scene: &Scene| {
        let said = row(scene, "guarded.example")["typedPerFilterConfig"]["oauth2.jwt"].clone();
        said["requirementName"].as_str().map(str::to_owned).into_iter().collect::<Vec<_>>()
    };
    let first = named(&scene);
    assert!(first[0].starts_with("apps/login@"), "{first:?}");
    assert_eq!(known(&scene, "infra/edge").as_ref(), Some(&first));
    assert_eq!(known(&scene, "infra/other"), None);

    // Routes that were not told of the new judge have none: it would take what their login does not prove.
    let mut of_shop = judged_login("login");
    of_shop["spec"]["oauth2"]["jwt"]["idToken"]["audiences"] = json!(["shop"]);
    scene.put(of_shop);
    assert_ne!(named(&scene), first);
    assert_eq!(known(&scene, "infra/edge"), Some(named(&scene)));

    let mut nobodys = judged_login("login");
    nobodys["spec"]["oauth2"]["jwt"]["jwksBackendRef"] = json!({"name": "nobody", "port": 80});
    scene.put(nobodys);
    assert_eq!(row(&scene, "guarded.example")["directResponse"]["status"], 500);
    scene.put(judged_login("login"));
    assert_eq!(known(&scene, "infra/edge").as_ref(), Some(&first));

    for object in [on("Gateway", "other"), login_grant("infra")] {
        scene.put(object);
    }
    assert_eq!(known(&scene, "infra/other"), Some(first));
}

#[test]
fn without_a_seed_nobody_has_a_key_and_another_seed_changes_keys_alone() {
    let mut scene = scene([client("hunter2"), on("HTTPRoute", "guarded")]);
    for seed in [None, translate::LoginSeed::new(&[1; 32])] {
        scene.0.set_login_seed(seed.clone());
        let changes = scene.0.settle();
        let changed: Vec<_> = changes.resources.iter().map(|(key, to)| (&*key.name, to.is_some())).collect();
        assert_eq!(changed, [(COOKIES, seed.is_some())]);
    }
}

#[test]
fn nobody_has_people_log_in_by_an_extension_of_others_without_a_grant() {
    let mut scene = scene([client("hunter2"), on("Gateway", "other")]);
    let status = |scene: &Scene| {
        let config = scene.resource("infra/other", ResourceKind::RouteConfiguration, "http/81").expect("routes");
        config["virtualHosts"][0]["routes"][0]["directResponse"]["status"].clone()
    };
    assert_eq!((status(&scene), secret(&scene, "infra/other", CLIENT)), (json!(500), None));
    scene.put(login_grant("infra"));
    assert!(secret(&scene, "infra/other", CLIENT).is_some() && status(&scene) == Value::Null);
}
