//! GatewayExtensions: who may ask them, what they make of policies, and what a change of one wakes.

#![allow(clippy::needless_pass_by_value, reason = "callers write values in place")]

use api::Kind;
use envoy::ResourceKind;
use ir::{Settings, settings::ExtensionGrants};
use serde_json::{Value, json};

use super::scene::{Scene, gateway, http, route, service};

fn of(kind: &str, id: &str, spec: Value) -> Value {
    let (namespace, name) = id.split_once('/').expect("a namespace and a name");
    json!({"apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": kind,
        "metadata": {"name": name, "namespace": namespace, "generation": 1}, "spec": spec})
}

/// A judge with a status of its own.
fn judge(id: &str, status: u16) -> Value {
    let service = json!({"backendRef": {"name": "s", "namespace": "apps", "port": 80}});
    of("GatewayExtension", id, json!({"extAuth": {"grpcService": service, "statusOnError": status}}))
}

/// TrafficPolicy `apps/NAME` on the route of that name.
fn judged(name: &str, judge: Value) -> Value {
    let target = json!({"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": name});
    of("TrafficPolicy", &format!("apps/{name}"), json!({"targetRefs": [target], "extAuth": {"extensionRef": judge}}))
}

fn grant(namespace: &str, from: (&str, &str), to: (&str, &str)) -> Value {
    json!({"apiVersion": "gateway.networking.k8s.io/v1beta1", "kind": "ReferenceGrant",
        "metadata": {"name": "grant", "namespace": namespace},
        "spec": {"from": [{"group": "gateway.kgateway.dev", "kind": from.0, "namespace": from.1}],
            "to": [{"group": to.0, "kind": to.1}]}})
}

fn accepted(scene: &Scene, policy: &str) -> (Value, String) {
    let condition = scene.status(Kind::TrafficPolicy, policy)["ancestors"][0]["conditions"][0].clone();
    (condition["status"].clone(), condition["message"].as_str().unwrap_or_default().to_owned())
}

#[test]
fn an_extension_of_others_is_asked_with_a_grant_and_without_one_at_most_with_a_warning() {
    let objects = || {
        [
            gateway("edge", json!([http("web", 80, "")])),
            service("s"),
            route("shop", json!({"hostnames": ["shop.example"]})),
            judge("judges/judge", 403),
            // Its own Service is another matter.
            grant("apps", ("GatewayExtension", "judges"), ("", "Service")),
            judged("shop", json!({"name": "judge", "namespace": "judges"})),
        ]
    };
    let told = "spec.extAuth.extensionRef";
    let allowed = grant("judges", ("TrafficPolicy", "apps"), ("gateway.kgateway.dev", "GatewayExtension"));

    let mut permissive = Scene::new(objects());
    let (status, message) = accepted(&permissive, "apps/shop");
    assert_eq!(status, "True", "{message}");
    assert!(message.contains(told) && message.contains("no ReferenceGrant there allows"), "{message}");
    permissive.put(allowed.clone());
    assert_eq!(accepted(&permissive, "apps/shop"), (json!("True"), "the policy is valid".to_owned()));

    let mut settings = Settings::default();
    settings.policies.extension_grants = ExtensionGrants::Strict;
    let mut strict = Scene::with(settings, objects());
    let closes = |scene: &Scene| {
        let routes = scene.resource("infra/edge", ResourceKind::RouteConfiguration, "http/80").expect("routes");
        routes["virtualHosts"][0]["routes"][0]["directResponse"]["status"] == 500
    };
    let (status, message) = accepted(&strict, "apps/shop");
    assert!(status == "False" && message.contains(told) && message.contains("ReferenceGrant"), "{message}");
    assert!(closes(&strict));
    // One from elsewhere, of another kind, or to something else allows nothing.
    for other in [
        grant("judges", ("TrafficPolicy", "web"), ("gateway.kgateway.dev", "GatewayExtension")),
        grant("judges", ("GatewayExtension", "apps"), ("gateway.kgateway.dev", "GatewayExtension")),
        grant("judges", ("TrafficPolicy", "apps"), ("", "Service")),
    ] {
        strict.put(other);
        assert!(closes(&strict));
    }
    strict.put(allowed.clone());
    assert_eq!(accepted(&strict, "apps/shop").0, "True");
    assert!(!closes(&strict));
    strict.remove(allowed);
    assert!(closes(&strict));
}

#[test]
fn nobody_learns_of_an_extension_that_he_may_not_ask_whether_it_is_there() {
    let mut settings = Settings::default();
    settings.policies.extension_grants = ExtensionGrants::Strict;
    let objects = [
        gateway("edge", json!([http("web", 80, "")])),
        service("s"),
        route("shop", json!({"hostnames": ["shop.example"]})),
        judged("shop", json!({"name": "judge", "namespace": "judges"})),
    ];
    let mut scene = Scene::with(settings, objects);
    let without = accepted(&scene, "apps/shop");
    scene.put(judge("judges/judge", 403));
    assert_eq!(accepted(&scene, "apps/shop"), without);
}

#[test]
fn a_field_that_nobody_knows_closes_what_asks_the_extension_and_nothing_else() {
    let mut scene = Scene::new([
        gateway("edge", json!([http("web", 80, "")])),
        service("s"),
        route("shop", json!({"hostnames": ["shop.example"]})),
        route("other", json!({"hostnames": ["other.example"]})),
        judge("apps/newer", 403),
        judge("apps/judge", 403),
        judged("shop", json!({"name": "newer"})),
        judged("other", json!({"name": "judge"})),
    ]);
    let row = |scene: &Scene, host: &str| {
        let routes = scene.resource("infra/edge", ResourceKind::RouteConfiguration, "http/80").expect("routes");
        let hosts = routes["virtualHosts"].as_array().expect("hosts").clone();
        let host = hosts.into_iter().find(|at| at["domains"] == json!([host])).expect("the host");
        host["routes"][0].clone()
    };
    let rows = |scene: &Scene| [row(scene, "shop.example"), row(scene, "other.example")];
    let before = rows(&scene);
    assert!(before.iter().all(|row| row["route"].is_object()));

    let mut newer = judge("apps/newer", 403);
    newer["spec"]["extAuth"]["grpcService"]["onlyFor"] = json!(["shop"]);
    scene.put(newer);
    let [shop, other] = rows(&scene);
    assert_eq!(shop["directResponse"]["status"], 500);
    assert_eq!(other, before[1]);
    let field = "spec.extAuth.grpcService.onlyFor: no such field is known here";
    let told = scene.status(Kind::GatewayExtension, "apps/newer")["conditions"][0].clone();
    let message = told["message"].as_str().expect("a message");
    assert_eq!(told["status"], "False");
    assert!(message.starts_with(field) && message.ends_with("correct its name, or remove it"), "{message}");
    let (status, message) = accepted(&scene, "apps/shop");
    let why = format!("spec.extAuth.extensionRef: GatewayExtension apps/newer is not valid: {field}");
    assert!(status == "False" && message.starts_with(&why), "{message}");
    assert_eq!(scene.status(Kind::GatewayExtension, "apps/judge")["conditions"][0]["status"], "True");
    assert_eq!(accepted(&scene, "apps/other").0, "True");

    scene.put(judge("apps/newer", 403));
    assert_eq!(rows(&scene), before);
}

/// Ten judges, each asked by one tenth of the routes.
fn asked(routes: usize) -> Scene {
    let extensions = (0..10).map(|index| judge(&format!("apps/judge{index}"), 403));
    let own = [gateway("edge", json!([http("web", 80, "")])), service("s")];
    let routes = (0..routes).flat_map(|index| {
        let name = format!("r{index}");
        let host = json!({"hostnames": [format!("h{index}.example")]});
        [route(&name, host), judged(&name, json!({"name": format!("judge{}", index % 10)}))]
    });
    Scene::new(own.into_iter().chain(extensions).chain(routes))
}

#[test]
fn what_an_extension_says_wakes_the_rules_that_ask_it_and_no_other() {
    let computed = |scene: &Scene, table: &str| {
        scene.0.stats().iter().find(|stats| stats.name == table).expect("a table").computed
    };
    let mut scene = asked(1_000);
    let changes = scene.put(judge("apps/judge3", 401));
    let kinds: Vec<_> = changes.resources.iter().map(|(key, _)| key.kind).collect();
    assert_eq!(kinds, [ResourceKind::RouteConfiguration]);
    for (table, rows) in [("ExtensionRow", 1), ("PolicyRow", 100), ("ResolvedRule", 100), ("Attachment", 0)] {
        assert_eq!(computed(&scene, table), rows, "{table}");
    }
    // As many rules ask it in a world of a tenth: it costs the same there.
    let mut small = asked(10);
    let of_one = small.put(judge("apps/judge3", 401)).computed;
    assert!(changes.computed <= 100 * of_one, "{} rows for 100 rules, {of_one} for one", changes.computed);
    // One that nobody asks wakes itself.
    let nobodys = scene.put(judge("apps/nobodys", 401));
    assert!(nobodys.computed <= 5 && nobodys.resources.is_empty(), "{}", nobodys.computed);
    // Said again it wakes nothing.
    assert_eq!(scene.put(judge("apps/judge3", 401)).computed, 0);
}

/// What such a service sets stays with a request that is sent on.
#[test]
fn beside_a_limit_whose_service_may_set_any_header_redirects_go_to_the_client() {
    let follows = |more: Value| {
        let asked = json!({"backendRef": {"name": "s", "port": 80}});
        let counter =
            of("GatewayExtension", "apps/counter", json!({"rateLimit": {"domain": "d", "grpcService": asked}}));
        let target = json!([{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": "shop"}]);
        let mut spec = json!({"targetRefs": target, "internalRedirect": {}});
        if let (Value::Object(spec), Value::Object(more)) = (&mut spec, more) {
            spec.extend(more);
        }
        let scene = Scene::new([
            gateway("edge", json!([http("web", 80, "")])),
            service("s"),
            route("shop", json!({"hostnames": ["shop.example"]})),
            counter,
            of("TrafficPolicy", "apps/p", spec),
        ]);
        let config = scene.resource("infra/edge", ResourceKind::RouteConfiguration, "http/80").expect("routes");
        let route = &config["virtualHosts"][0]["routes"][0];
        assert!(route["route"]["cluster"].is_string(), "{route}");
        route["route"]["internalRedirectPolicy"] != Value::Null
    };
    assert!(follows(json!({})));
    let limit = json!({"extensionRef": {"name": "counter"}, "descriptors": [{"entries": [{"type": "Path"}]}]});
    assert!(!follows(json!({"rateLimit": {"global": limit}})));
}
