//! Tokens: what a change of keys wakes, and what becomes of extensions that are broken.

#![allow(clippy::needless_pass_by_value, reason = "callers write values in place")]

use api::Kind;
use envoy::ResourceKind;
use serde_json::{Value, json};
use worlds::extension::key;

use super::{
    policies::{at, policy, with},
    scene::{Scene, gateway, http, route, service, tokens},
};

const RESOURCE: &str = "jwtAuth";

fn scene(objects: impl IntoIterator<Item = Value>) -> Scene {
    let own = [
        gateway("edge", json!([http("web", 80, "")])),
        service("s"),
        service("issuer"),
        route("guarded", json!({"hostnames": ["guarded.example"]})),
        route("other", json!({"hostnames": ["other.example"]})),
    ];
    Scene::new(own.into_iter().chain(objects))
}

fn on(route: &str, extension: &str) -> Value {
    let spec = json!({"jwtAuth": {"extensionRef": {"name": extension}}});
    policy("TrafficPolicy", route, with(at("HTTPRoute", route), spec))
}

fn filter(scene: &Scene) -> Value {
    scene.resource("infra/edge", ResourceKind::ExtensionConfig, RESOURCE).expect("it is always there")["typedConfig"]
        .clone()
}

/// The extensions whose tokens are taken.
fn requirements(scene: &Scene) -> Vec<String> {
    let extension = |name: &String| name.split_once('@').expect("a word").0.to_owned();
    filter(scene)["requirementMap"].as_object().into_iter().flat_map(|all| all.keys().map(extension)).collect()
}

/// Provider `p` of an extension.
fn provider(scene: &Scene, extension: &str) -> Value {
    let filter = filter(scene);
    let is_meant = |name: &str| name.split_once('@').is_some_and(|(of, rest)| of == extension && rest.ends_with("/p"));
    let mut all = filter["providers"].as_object().expect("providers").iter();
    all.find(|(name, _)| is_meant(name)).expect("the provider").1.clone()
}

/// The name by which the route of a hostname requires tokens.
fn required(scene: &Scene, host: &str) -> String {
    let said = &row(scene, host)["typedPerFilterConfig"][RESOURCE]["requirementName"];
    said.as_str().expect("a name").to_owned()
}

/// The route of a hostname in its JSON.
fn row(scene: &Scene, host: &str) -> Value {
    let config = scene.resource("infra/edge", ResourceKind::RouteConfiguration, "http/80").expect("routes");
    let hosts = config["virtualHosts"].as_array().expect("hosts").clone();
    let host = hosts.into_iter().find(|at| at["domains"] == json!([host])).expect("the host");
    host["routes"][0].clone()
}

fn remote(name: &str) -> Value {
    let server = json!({"url": "https://issuer.example/keys", "backendRef": {"name": "issuer", "port": 80}});
    json!({"apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "GatewayExtension",
        "metadata": {"name": name, "namespace": "apps"},
        "spec": {"jwt": {"providers": [{"name": "p", "jwks": {"remote": server}}]}}})
}

#[test]
fn a_filter_that_nobody_refers_to_is_there_and_takes_no_token() {
    let scene = scene([tokens("a", &[key('A')])]);
    assert_eq!(
        filter(&scene),
        json!({"@type": "type.googleapis.com/envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication"})
    );
}

#[test]
fn new_keys_change_one_resource_and_wake_no_route() {
    let mut scene = scene([tokens("a", &[key('A')]), on("guarded", "a")]);
    assert_eq!(requirements(&scene), ["apps/a"]);
    assert!(filter(&scene)["requirementMap"].get(required(&scene, "guarded.example")).is_some());
    let changes = scene.put(tokens("a", &[key('B'), key('A')]));
    let changed: Vec<_> = changes.resources.iter().map(|(key, _)| (key.kind, &*key.name)).collect();
    assert_eq!(changed, [(ResourceKind::ExtensionConfig, RESOURCE)]);
    let stats = scene.0.stats();
    let computed = |table: &str| stats.iter().find(|stats| stats.name == table).expect("a table").computed;
    assert_eq!((computed("PolicyRow"), computed("ResolvedRule")), (1, 0));
}

/// The filter reaches a proxy before the routes do.
#[test]
fn routes_are_told_of_a_judge_who_lets_in_others_by_a_name_of_his_own() {
    let mut scene = scene([tokens("a", &[key('A')]), on("guarded", "a")]);
    let first = required(&scene, "guarded.example");
    for (member, value) in [("validationMode", json!("AllowMissing")), ("audiences", json!(["shop"]))] {
        let mut other = tokens("a", &[key('A')]);
        let jwt = &mut other["spec"]["jwt"];
        let holder = if member == "audiences" { &mut jwt["providers"][0] } else { jwt };
        holder[member] = value;
        scene.put(other);
        let now = required(&scene, "guarded.example");
        assert_ne!(now, first, "{member}");
        let filter = filter(&scene);
        let known = |name: &str| filter["requirementMap"].get(name).is_some();
        assert_eq!((known(&first), known(&now)), (false, true), "a proxy has both while its routes change");
        let providers = filter["providers"].as_object().expect("providers");
        assert!(providers.keys().all(|name| name.starts_with(&format!("{now}/"))), "{filter}");
    }
    scene.put(tokens("a", &[key('A')]));
    assert_eq!(required(&scene, "guarded.example"), first);
}

/// A ConfigMap of the namespace of extensions.
fn config_map(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "apps"}, "data": data})
}

/// An extension whose keys stand in the ConfigMap `keys`.
fn named(name: &str) -> Value {
    let jwks = json!({"local": {"configMapRef": {"name": "keys"}}});
    let provider = json!({"name": "p", "issuer": "https://issuer.example", "jwks": jwks});
    json!({"apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "GatewayExtension",
        "metadata": {"name": name, "namespace": "apps"}, "spec": {"jwt": {"providers": [provider]}}})
}

#[test]
fn keys_in_a_config_map_change_one_resource_and_wake_no_route() {
    let set = |keys: &[Value]| json!({"jwks": json!({ "keys": keys }).to_string()});
    let inline = scene([tokens("a", &[key('A')]), on("guarded", "a")]);
    let mut scene = scene([named("a"), config_map("keys", set(&[key('A')])), on("guarded", "a")]);
    assert_eq!(
        filter(&scene)["providers"],
        filter(&inline)["providers"],
        "they are what they would be if they were written"
    );
    let changes = scene.put(config_map("keys", set(&[key('B'), key('A')])));
    let changed: Vec<_> = changes.resources.iter().map(|(key, _)| (key.kind, &*key.name)).collect();
    assert_eq!(changed, [(ResourceKind::ExtensionConfig, RESOURCE)]);
    let stats = scene.0.stats();
    let computed = |table: &str| stats.iter().find(|stats| stats.name == table).expect("a table").computed;
    assert_eq!((computed("PolicyRow"), computed("ResolvedRule")), (1, 0));

    let changes = scene.put(config_map("other", set(&[key('A')])));
    assert!(changes.resources.is_empty(), "nobody refers to it");
}

#[test]
fn a_config_map_without_keys_closes_what_awaits_it_until_they_are_there() {
    let mut scene = scene([named("a"), tokens("b", &[key('B')]), on("guarded", "a"), on("other", "b")]);
    let told = |scene: &Scene| scene.status(Kind::GatewayExtension, "apps/a").to_string();
    for (data, why) in [
        (None, "ConfigMap apps/keys does not exist; create it"),
        (Some(json!({"other": "a"})), "ConfigMap apps/keys has no data \\\"jwks\\\": store it there"),
        (Some(json!({"jwks": "secret"})), "no JSON Web Key Set"),
        (Some(json!({"jwks": r#"{"kty": "oct", "k": "c2VjcmV0"}"#})), "whoever reads it can make tokens"),
    ] {
        if let Some(data) = data {
            scene.put(config_map("keys", data));
        }
        assert_eq!(requirements(&scene), ["apps/b"]);
        assert_eq!(row(&scene, "guarded.example")["directResponse"]["status"], 500);
        let told = told(&scene);
        assert!(told.contains(why) && told.contains("jwks.local.configMapRef.name"), "{told}");
        assert!(!told.contains("secret") && !told.contains("c2VjcmV0"), "{told}");
    }
    scene.put(config_map("keys", json!({"jwks": key('A').to_string()})));
    assert_eq!(requirements(&scene), ["apps/a", "apps/b"]);
    assert!(row(&scene, "guarded.example")["route"].is_object());
    // One of the same name elsewhere is not meant.
    scene.remove(config_map("keys", json!({})));
    let mut foreign = config_map("keys", json!({"jwks": key('A').to_string()}));
    foreign["metadata"]["namespace"] = "infra".into();
    scene.put(foreign);
    assert_eq!(row(&scene, "guarded.example")["directResponse"]["status"], 500);
}

#[test]
fn who_is_no_longer_referred_to_goes() {
    let mut scene = scene([tokens("a", &[key('A')]), tokens("b", &[key('B')]), on("guarded", "a"), on("other", "b")]);
    assert_eq!(requirements(&scene), ["apps/a", "apps/b"]);
    scene.remove(on("guarded", "a"));
    assert_eq!(requirements(&scene), ["apps/b"]);
}

#[test]
fn an_extension_that_is_broken_closes_what_refers_to_it_and_leaves_the_others_theirs() {
    let mut scene = scene([tokens("a", &[key('A')]), tokens("b", &[key('B')]), on("guarded", "a"), on("other", "b")]);
    let sound = provider(&scene, "apps/b");
    scene.put(tokens("a", &[json!({"kty": "oct", "k": "c2VjcmV0"})]));
    assert_eq!(requirements(&scene), ["apps/b"]);
    assert_eq!(provider(&scene, "apps/b"), sound);
    assert_eq!(row(&scene, "guarded.example")["directResponse"]["status"], 500);
    assert!(row(&scene, "other.example")["route"].is_object());
    let status = scene.status(Kind::GatewayExtension, "apps/a").to_string();
    assert!(status.contains("whoever reads it can make tokens") && !status.contains("c2VjcmV0"), "{status}");
    assert!(scene.problems().iter().all(|problem| !problem.contains("c2VjcmV0")));
    scene.remove(tokens("b", &[]));
    assert_eq!(row(&scene, "other.example")["directResponse"]["status"], 500);
    assert_eq!(requirements(&scene), [""; 0]);
}

#[test]
fn a_server_of_keys_is_served_where_somebody_refers_to_them() {
    let mut scene = scene([remote("a")]);
    let clusters = |scene: &Scene| {
        let resources = scene.0.resources();
        let all = resources.values().flatten().filter(|(key, _)| key.kind == ResourceKind::Cluster);
        all.map(|(key, _)| key.name.to_string()).filter(|name| name.contains("issuer")).collect::<Vec<_>>()
    };
    assert_eq!(clusters(&scene), [""; 0]);
    scene.put(on("guarded", "a"));
    let served = clusters(&scene);
    let asked = &provider(&scene, "apps/a")["remoteJwks"]["httpUri"]["cluster"];
    assert_eq!(served, [asked.as_str().expect("a name")]);
    scene.remove(on("guarded", "a"));
    assert_eq!(clusters(&scene), [""; 0]);
}

#[test]
fn of_a_gateway_they_are_in_force_for_all_of_it() {
    let wide = json!({"apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "TrafficPolicy",
        "metadata": {"name": "wide", "namespace": "infra"},
        "spec": {"targetRefs": [{"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "edge"}],
            "jwtAuth": {"extensionRef": {"name": "a", "namespace": "apps"}}}});
    let mut scene = scene([tokens("a", &[key('A')]), wide]);
    assert_eq!(requirements(&scene), ["apps/a"]);
    scene.put(tokens("a", &[]));
    assert_eq!(requirements(&scene), [""; 0]);
    assert!(scene.gateway("infra/edge", "Accepted").contains("GatewayReplaced"));
}
