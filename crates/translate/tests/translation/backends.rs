//! Backends and policies of connections: what a change of one wakes, and what is said.

#![allow(clippy::needless_pass_by_value, reason = "callers write values in place")]

use api::Kind;
use envoy::ResourceKind;
use ir::Settings;
use serde_json::{Value, json};

use super::scene::{Scene, gateway, http, route, secret, service};
use translate::Changes;

fn backend(hosts: &[&str]) -> Value {
    let hosts: Vec<_> = hosts.iter().map(|host| json!({"host": host, "port": 80})).collect();
    json!({"apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "Backend",
        "metadata": {"name": "b", "namespace": "apps", "generation": 2}, "spec": {"static": {"hosts": hosts}}})
}

fn config(name: &str, spec: Value) -> Value {
    let mut policy = json!({"apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "BackendConfigPolicy",
        "metadata": {"name": name, "namespace": "apps", "generation": 2},
        "spec": {"targetRefs": [
            {"group": "", "kind": "Service", "name": "s"},
            {"group": "gateway.kgateway.dev", "kind": "Backend", "name": "b"}]}});
    if let (Value::Object(own), Value::Object(more)) = (&mut policy["spec"], spec) {
        own.extend(more);
    }
    policy
}

fn scene(objects: impl IntoIterator<Item = Value>) -> Scene {
    let to_backend = json!({"backendRefs": [{"group": "gateway.kgateway.dev", "kind": "Backend", "name": "b"}]});
    let own = [
        gateway("edge", json!([http("web", 80, "")])),
        service("s"),
        route("service", json!({"hostnames": ["s.example"]})),
        route("backend", json!({"hostnames": ["b.example"], "rules": [to_backend]})),
    ];
    Scene::new(own.into_iter().chain(objects))
}

fn computed(scene: &Scene, table: &str) -> usize {
    scene.0.stats().iter().find(|stats| stats.name == table).expect("a table").computed
}

fn changed(changes: &Changes) -> Vec<&str> {
    changes.resources.iter().map(|(key, _)| &*key.name).collect()
}

fn resource(scene: &Scene, kind: ResourceKind, name: &str) -> Value {
    scene.resource("infra/edge", kind, name).unwrap_or_default()
}

const CLUSTERS: [&str; 2] = ["backend/apps/b", "service/apps/s/80"];

/// Endpoints reach a proxy before routes do.
#[test]
fn rules_with_sessions_that_change_places_have_no_cluster_lead_elsewhere() {
    let kept = |path: &str, backends: [&str; 2]| {
        let backends = backends.map(|name| json!({"name": name, "port": 80}));
        json!({"matches": [{"path": {"value": path}}], "sessionPersistence": {}, "backendRefs": backends})
    };
    let (admin, web) = (kept("/admin", ["a", "b"]), kept("/", ["c", "d"]));
    let swapped = |rules: [&Value; 2]| route("r", json!({"rules": rules}));
    let services = ["a", "b", "c", "d"].map(service);
    let edge = gateway("edge", json!([http("web", 80, "")]));
    let mut scene = Scene::new(services.into_iter().chain([edge, swapped([&admin, &web])]));
    let clusters = |scene: &Scene| {
        let config = resource(scene, ResourceKind::RouteConfiguration, "http/80");
        let routes = config["virtualHosts"][0]["routes"].as_array().cloned().unwrap_or_default();
        routes.iter().map(|route| route["route"]["cluster"].as_str().expect("a cluster").to_owned()).collect::<Vec<_>>()
    };
    let endpoints = |scene: &Scene, name: &str| resource(scene, ResourceKind::Endpoints, name);
    let before = clusters(&scene);
    assert_eq!(before.len(), 2);
    let had: Vec<_> = before.iter().map(|name| endpoints(&scene, name)).collect();
    assert_ne!(had[0], had[1]);
    scene.put(swapped([&web, &admin]));
    let after = clusters(&scene);
    for (name, had) in before.iter().zip(&had) {
        assert!(!after.contains(name) || endpoints(&scene, name) == *had, "{name} leads elsewhere");
    }
    // Weights alone change endpoints.
    let mut weighed = admin.clone();
    weighed["backendRefs"][0]["weight"] = json!(9);
    scene.put(swapped([&web, &weighed]));
    assert_eq!(clusters(&scene), after);
}

#[test]
fn what_is_said_of_connections_changes_clusters_and_no_route() {
    let mut scene = scene([backend(&["10.0.0.1"]), config("c", json!({"connectTimeout": "1s"}))]);
    let changes = scene.put(config("c", json!({"connectTimeout": "2s"})));
    assert_eq!(changed(&changes), CLUSTERS);
    assert_eq!(computed(&scene, "ResolvedRule"), 0);
    let cluster = resource(&scene, ResourceKind::Cluster, CLUSTERS[1]);
    assert_eq!(cluster["connectTimeout"], "2s");

    let hashed = json!({"loadBalancer": {"maglev": {"hashPolicies": [{"sourceIP": {}}]}}});
    let changes = scene.put(config("c", hashed));
    assert_eq!(changed(&changes).len(), 3, "{:?}", changed(&changes));
    assert_eq!(computed(&scene, "ResolvedRule"), 2);
}

#[test]
fn hosts_that_change_are_endpoints_that_change_and_wake_no_route() {
    let mut scene = scene([backend(&["10.0.0.1"])]);
    let changes = scene.put(backend(&["10.0.0.1", "10.0.0.2"]));
    assert_eq!(changed(&changes), [CLUSTERS[0]]);
    assert!(changes.resources.iter().all(|(key, _)| key.kind == ResourceKind::Endpoints));
    assert_eq!(computed(&scene, "ResolvedRule"), 0);
    // From then on proxies look for them.
    let changes = scene.put(backend(&["a.example"]));
    let kinds: Vec<_> = changes.resources.iter().map(|(key, now)| (key.kind, now.is_some())).collect();
    assert_eq!(kinds, [(ResourceKind::Cluster, true), (ResourceKind::Endpoints, false)]);
    let cluster = resource(&scene, ResourceKind::Cluster, CLUSTERS[0]);
    assert_eq!(cluster["clusterType"]["name"], "envoy.clusters.dns");
}

#[test]
fn a_fault_leaves_the_cluster_out_and_is_told_on_the_policy_and_its_routes() {
    let mut scene = scene([backend(&["10.0.0.1"]), config("c", json!({"connectTimeout": "0s", "tls": {}}))]);
    for name in CLUSTERS {
        assert_eq!(resource(&scene, ResourceKind::Cluster, name), Value::Null);
    }
    for route in ["apps/service", "apps/backend"] {
        assert_eq!(scene.route(route, 0, "ResolvedRefs"), "False UnsupportedValue");
        let message = scene.route_message(route, 0, "ResolvedRefs");
        assert!(message.contains("BackendConfigPolicy apps/c") && !message.contains("0s"), "{message}");
    }
    let entries = &scene.status(Kind::BackendConfigPolicy, "apps/c")["ancestors"];
    assert_eq!(entries.as_array().map(Vec::len), Some(2));
    assert_eq!(entries[0]["conditions"][0]["reason"], "Invalid");
    let message = entries[0]["conditions"][0]["message"].as_str().expect("a message");
    assert!(message.contains("spec.connectTimeout") && message.contains("spec.tls"), "{message}");
    // Who overrides what is broken, opens it.
    let mut heavy = config("d", json!({"connectTimeout": "1s", "tls": {"insecureSkipVerify": true}}));
    heavy["metadata"]["annotations"] = json!({"kgateway.dev/policy-weight": "1"});
    scene.put(heavy);
    assert_eq!(scene.route("apps/service", 0, "ResolvedRefs"), "True ResolvedRefs");
    assert_eq!(resource(&scene, ResourceKind::Cluster, &format!("{}/tls", CLUSTERS[0]))["connectTimeout"], "1s");
    let before = scene.remove(config("c", json!({})));
    assert_eq!(changed(&before), [""; 0], "it held nowhere");
}

/// Secret `apps/client` with a certificate to show and the authority to trust.
fn client_certificate() -> Value {
    let mut secret = secret("client");
    secret["metadata"]["namespace"] = json!("apps");
    let authority = secret["stringData"]["tls.crt"].clone();
    secret["stringData"]["ca.crt"] = authority;
    secret
}

#[test]
fn a_certificate_for_backends_goes_to_proxies_that_send_there_and_nowhere_else() {
    let certificate = client_certificate();
    let tls = config("c", json!({"tls": {"secretRef": {"name": "client"}, "sni": "a.example"}}));
    let mut scene = scene([backend(&["10.0.0.1"]), tls, certificate, gateway("other", json!([http("web", 81, "")]))]);
    assert_ne!(resource(&scene, ResourceKind::Secret, "secret/apps/client"), Value::Null);
    assert_eq!(scene.resource("infra/other", ResourceKind::Secret, "secret/apps/client"), None);
    scene.put(config("c", json!({})));
    assert_eq!(resource(&scene, ResourceKind::Secret, "secret/apps/client"), Value::Null);
}

#[test]
fn a_provider_to_which_a_broken_policy_applies_closes_whoever_asks_it() {
    let policy = json!({"apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "TrafficPolicy",
        "metadata": {"name": "p", "namespace": "apps", "generation": 1},
        "spec": {"targetRefs": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": "service"}],
            "extProc": {"extensionRef": {"name": "processor"}}}});
    let extension = json!({"apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "GatewayExtension",
        "metadata": {"name": "processor", "namespace": "apps", "generation": 1},
        "spec": {"extProc": {"grpcService": {"backendRef": {"name": "provider", "port": 80}}}}});
    let of_provider = |more: Value| {
        let mut policy = config("c", more);
        policy["spec"]["targetRefs"] = json!([{"group": "", "kind": "Service", "name": "provider"}]);
        policy
    };
    let certificate = client_certificate();
    let broken = of_provider(json!({"connectTimeout": "0s"}));
    for protocol in [json!(null), json!("kubernetes.io/h2c")] {
        let mut provider = service("provider");
        provider["spec"]["ports"][0]["appProtocol"] = protocol;
        let objects = [policy.clone(), extension.clone(), provider, broken.clone(), certificate.clone()];
        let mut scene = scene(objects);
        let accepted =
            |scene: &Scene| scene.status(Kind::TrafficPolicy, "apps/p")["ancestors"][0]["conditions"][0].clone();
        assert_eq!(accepted(&scene)["status"], "False", "{}", accepted(&scene));
        let message = accepted(&scene)["message"].to_string();
        assert!(message.contains("BackendConfigPolicy apps/c, which applies to it, is not valid there"), "{message}");
        // A certificate of the proxy is there for who is asked, as for who is sent to.
        let tls = json!({"tls": {"secretRef": {"name": "client"}, "sni": "a.example"}});
        scene.put(of_provider(tls));
        assert_eq!(accepted(&scene)["status"], "True", "{}", accepted(&scene));
        assert_ne!(resource(&scene, ResourceKind::Secret, "secret/apps/client"), Value::Null);
    }
}

#[test]
fn a_policy_that_names_a_section_closes_all_of_its_target() {
    let mut policy = config("c", json!({"connectTimeout": "1s"}));
    policy["spec"]["targetRefs"][0]["sectionName"] = json!("web");
    let scene = scene([backend(&["10.0.0.1"]), policy]);
    assert_eq!(resource(&scene, ResourceKind::Cluster, CLUSTERS[1]), Value::Null);
    assert_eq!(scene.route("apps/service", 0, "ResolvedRefs"), "False UnsupportedValue");
    let message =
        scene.status(Kind::BackendConfigPolicy, "apps/c")["ancestors"][0]["conditions"][0]["message"].to_string();
    assert!(message.contains("spec.targetRefs[0].sectionName"), "{message}");
}

#[test]
fn nobody_takes_more_of_a_proxy_than_the_settings_give() {
    let own = json!({"circuitBreakers": {"maxConnections": 20000, "maxRequests": 7}});
    let scene = scene([backend(&["10.0.0.1"]), config("c", own)]);
    let thresholds = resource(&scene, ResourceKind::Cluster, CLUSTERS[1])["circuitBreakers"]["thresholds"][0].clone();
    assert_eq!((&thresholds["maxConnections"], &thresholds["maxRequests"]), (&json!(10000), &json!(7)));
    let accepted = scene.status(Kind::BackendConfigPolicy, "apps/c")["ancestors"][0]["conditions"][0].to_string();
    assert!(
        accepted.contains("spec.circuitBreakers.maxConnections: setting backend.maxConnections gives 10000"),
        "{accepted}"
    );
}

#[test]
fn what_is_local_is_for_the_setting_to_allow() {
    let objects = || [gateway("edge", json!([http("web", 80, "")])), backend(&["127.0.0.1"])];
    let condition = |scene: &Scene| scene.status(Kind::Backend, "apps/b")["conditions"][0]["status"].clone();
    assert_eq!(condition(&Scene::new(objects())), "False");
    let settings = Settings { local_backends: true, ..Settings::default() };
    assert_eq!(condition(&Scene::with(settings, objects())), "True");
}

/// A route that sends copies to Backend `apps/b`, and a judge and a processor that are asked there by a policy of it.
fn of_its_own() -> Vec<Value> {
    let reference = json!({"group": "gateway.kgateway.dev", "kind": "Backend", "name": "b"});
    let of = |kind: &str, name: &str, spec: Value| {
        json!({"apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": kind,
            "metadata": {"name": name, "namespace": "apps", "generation": 1}, "spec": spec})
    };
    let mirror = json!({"type": "RequestMirror", "requestMirror": {"backendRef": reference}});
    let rule = json!({"filters": [mirror], "backendRefs": [{"name": "s", "port": 80}]});
    let target = |name: &str| json!([{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": name}]);
    vec![
        route("copied", json!({"hostnames": ["copied.example"], "rules": [rule]})),
        of("GatewayExtension", "judge", json!({"extAuth": {"httpService": {"backendRef": reference}}})),
        of("GatewayExtension", "processor", json!({"extProc": {"grpcService": {"backendRef": reference}}})),
        of(
            "TrafficPolicy",
            "judged",
            json!({"targetRefs": target("copied"), "extAuth": {"extensionRef": {"name": "judge"}}}),
        ),
        of(
            "TrafficPolicy",
            "processed",
            json!({"targetRefs": target("service"), "extProc": {"extensionRef": {"name": "processor"}}}),
        ),
    ]
}

#[test]
fn what_proxies_send_of_their_own_goes_to_addresses_of_a_backend_and_to_no_name() {
    let own = ["backend/apps/b/grpc", "backend/apps/b/own"];
    let served = |scene: &Scene| own.map(|name| resource(scene, ResourceKind::Cluster, name) != Value::Null);
    let mut scene = scene(of_its_own().into_iter().chain([backend(&["10.0.0.1"])]));
    assert_eq!(served(&scene), [true, true]);
    let asked_in_grpc = resource(&scene, ResourceKind::Cluster, own[0]);
    let options = asked_in_grpc["typedExtensionProtocolOptions"].to_string();
    assert!(options.contains("http2ProtocolOptions"), "{options}");
    assert_eq!(scene.route("apps/copied", 0, "ResolvedRefs"), "True ResolvedRefs");

    scene.put(backend(&["10.0.0.1", "a.example"]));
    assert_eq!(served(&scene), [false, false]);
    for (name, field) in [("judge", "httpService"), ("processor", "grpcService")] {
        let told = scene.status(Kind::GatewayExtension, &format!("apps/{name}"))["conditions"][0].clone();
        let message = told["message"].as_str().expect("a message");
        assert_eq!((&told["status"], &told["reason"]), (&json!("False"), &json!("UnsupportedValue")), "{message}");
        assert!(message.contains(field) && message.contains("backend.allowLocal"), "{message}");
    }
    // Closed, rather than let through without a judge.
    let message = scene.route_message("apps/copied", 0, "Accepted");
    assert!(message.contains("judge"), "{message}");
    assert_eq!(scene.route("apps/backend", 0, "ResolvedRefs"), "True ResolvedRefs", "requests go there");

    let settings = Settings { local_backends: true, ..Settings::default() };
    let gateway = gateway("edge", json!([http("web", 80, "")]));
    let objects = of_its_own().into_iter().chain([backend(&["a.example"]), service("s"), gateway]);
    let scene = Scene::with(settings, objects.chain([route("service", json!({"hostnames": ["s.example"]}))]));
    assert_eq!(served(&scene), [true, true]);
}

#[test]
fn no_copy_goes_to_a_host_by_name_and_the_route_is_told() {
    let mut objects = of_its_own();
    objects.truncate(1);
    let scene = scene(objects.into_iter().chain([backend(&["a.example"])]));
    assert_eq!(scene.route("apps/copied", 0, "ResolvedRefs"), "False UnsupportedValue");
    let message = scene.route_message("apps/copied", 0, "ResolvedRefs");
    assert!(message.contains("requestMirror") && message.contains("backend.allowLocal"), "{message}");
    let routes = resource(&scene, ResourceKind::RouteConfiguration, "http/80").to_string();
    assert!(!routes.contains("requestMirrorPolicies") && routes.contains("copied.example"), "{routes}");
}
