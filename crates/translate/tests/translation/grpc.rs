//! GRPCRoutes beside HTTPRoutes.

#![allow(clippy::needless_pass_by_value, reason = "callers write values in place")]

use api::Kind;
use envoy::ResourceKind;
use ir::GATEWAY_API;
use serde_json::{Value, json};

use super::scene::{Scene, gateway, grpc_route, http, https, method, route, secret, service};

fn scene(objects: impl IntoIterator<Item = Value>) -> Scene {
    let own = [gateway("edge", json!([http("web", 80, "")])), service("s")];
    Scene::new(own.into_iter().chain(objects))
}

/// A rule of one match that goes to `apps/s`.
fn rule(matching: Value) -> Value {
    json!({"matches": [matching], "backendRefs": [{"name": "s", "port": 80}]})
}

fn condition(scene: &Scene, name: &str, kind: &str) -> String {
    let status = scene.status(Kind::GrpcRoute, name);
    let conditions = status["parents"][0]["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.iter().find(|condition| condition["type"] == kind);
    found.map_or(String::new(), |found| {
        format!("{} {}: {}", found["status"], found["reason"], found["message"]).replace('"', "")
    })
}

/// The routes of a virtual host.
fn routes(scene: &Scene, host: &str) -> Vec<Value> {
    let config = scene.resource("infra/edge", ResourceKind::RouteConfiguration, "http/80").unwrap_or_default();
    let hosts = config["virtualHosts"].as_array().cloned().unwrap_or_default();
    let host = hosts.into_iter().find(|found| found["domains"][0] == host).expect("a virtual host");
    host["routes"].as_array().cloned().unwrap_or_default()
}

#[test]
fn a_route_attaches_to_http_and_https_and_is_told_as_what_it_is() {
    let mut http_only = http("http-only", 81, "");
    http_only["allowedRoutes"]["kinds"] = json!([{"kind": "HTTPRoute"}]);
    let listeners = json!([http("web", 80, ""), https("tls", 443, "", "c"), http_only]);
    let scene = Scene::new([
        secret("c"),
        service("s"),
        gateway("edge", listeners),
        grpc_route("r", json!({})),
        grpc_route(
            "elsewhere",
            json!({"parentRefs": [{"name": "edge", "namespace": "infra", "sectionName": "http-only"}]}),
        ),
    ]);
    assert!(condition(&scene, "apps/r", "Accepted").starts_with("True Accepted"));
    assert!(condition(&scene, "apps/r", "ResolvedRefs").starts_with("True ResolvedRefs"));
    assert!(condition(&scene, "apps/elsewhere", "Accepted").starts_with("False NotAllowedByListeners"));
    for (listener, attached, kinds) in [
        ("web", 1, vec!["HTTPRoute", "GRPCRoute"]),
        ("tls", 1, vec!["HTTPRoute", "GRPCRoute"]),
        ("http-only", 0, vec!["HTTPRoute"]),
    ] {
        let status = scene.listener_status("infra/edge", listener);
        let supported: Vec<_> =
            status["supportedKinds"].as_array().into_iter().flatten().map(|kind| &kind["kind"]).collect();
        assert_eq!(
            (&status["attachedRoutes"], supported),
            (&json!(attached), kinds.iter().map(|kind| json!(kind)).collect::<Vec<_>>().iter().collect()),
            "{listener}"
        );
    }
}

#[test]
fn a_kind_without_its_definition_is_supported_by_no_listener_until_it_comes() {
    let mut asking = http("asking", 81, "");
    asking["allowedRoutes"]["kinds"] = json!([{"kind": "GRPCRoute"}, {"kind": "HTTPRoute"}]);
    let mut scene = Scene::new([gateway("edge", json!([http("web", 80, ""), asking]))]);
    let kinds = |scene: &Scene, listener| {
        let status = scene.listener_status("infra/edge", listener);
        status["supportedKinds"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|kind| kind["kind"].to_string())
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(kinds(&scene, "web"), r#""HTTPRoute" "GRPCRoute""#);
    let before = scene.0.resources();
    scene.0.set_absent(Kind::GrpcRoute, true);
    let changes = scene.0.settle();
    assert_eq!(changes.resources, [], "nobody has such a route");
    assert_eq!(kinds(&scene, "web"), r#""HTTPRoute""#);
    let published = |scene: &Scene| {
        scene.status(Kind::GatewayClass, "portcullis")["supportedFeatures"].to_string().contains("GRPCRoute")
    };
    assert!(!published(&scene), "nobody could use it");
    assert_eq!(scene.listener("infra/edge", "asking", "ResolvedRefs"), "False InvalidRouteKinds");
    // Others that are absent are nothing to listeners.
    scene.0.set_absent(Kind::ReferenceGrant, true);
    assert_eq!(scene.0.settle().statuses, []);
    scene.0.set_absent(Kind::GrpcRoute, false);
    scene.0.settle();
    assert_eq!(kinds(&scene, "asking"), r#""GRPCRoute" "HTTPRoute""#);
    assert!(published(&scene));
    assert_eq!(scene.0.resources(), before);
    scene.put(service("s"));
    scene.put(grpc_route("r", json!({})));
    assert_eq!(scene.attached("infra/edge", "web"), 1);
}

#[test]
fn grpc_goes_first_and_then_by_the_length_of_service_and_method_whatever_their_type() {
    let regex = |service: &str| json!({"method": {"type": "RegularExpression", "service": service}});
    let with_header = |mut matching: Value| {
        matching["headers"] = json!([{"name": "x", "value": "1"}]);
        matching
    };
    let scene = scene([
        route(
            "http",
            json!({"rules": [{"matches": [{"path": {"type": "Exact", "value": "/shop.Cart/Add"}, "method": "POST"}], "backendRefs": [{"name": "s", "port": 80}]}]}),
        ),
        grpc_route("all", json!({"rules": [{"backendRefs": [{"name": "s", "port": 80}]}]})),
        grpc_route(
            "r",
            json!({"rules": [
                rule(json!({"method": {"method": "AddEverythingThatIsThere"}})),
                rule(method("shop.Cart", "")),
                rule(method("shop.Cart", "Add")),
                rule(with_header(method("shop.Cart", "Add"))),
                rule(regex("shop[.]C.*")),
                rule(with_header(json!({}))),
            ]}),
        ),
    ]);
    let names: Vec<_> =
        routes(&scene, "*").iter().map(|route| route["name"].as_str().unwrap_or_default().to_owned()).collect();
    let of = |rule: u32| format!("GRPCRoute/apps/r/{rule}/0");
    let expected = [of(4), of(3), of(2), of(1), of(0), of(5), "GRPCRoute/apps/all/0/0".into(), "apps/http/0/0".into()];
    assert_eq!(names, expected);
}

#[test]
fn every_match_asks_for_grpc_and_its_backend_is_spoken_to_in_http_2() {
    let mut scene = scene([
        route("http", json!({})),
        grpc_route("r", json!({"rules": [rule(method("shop.Cart", "")), rule(json!({}))]})),
    ]);
    let all = routes(&scene, "*");
    for route in &all[..2] {
        let content = &route["match"]["headers"][0];
        let matcher = json!({"prefix": "application/grpc", "ignoreCase": true});
        assert_eq!(content, &json!({"name": "content-type", "stringMatch": matcher}), "{route}");
        assert_eq!(route["route"]["cluster"], "service/apps/s/80/grpc");
        assert_eq!(route["route"]["timeout"], "0s", "no stream is cut");
    }
    assert_eq!(all[0]["match"]["prefix"], "/shop.Cart/");
    assert_eq!(all[2]["route"]["cluster"], "service/apps/s/80");
    let clusters = |scene: &Scene| {
        let names = ["service/apps/s/80", "service/apps/s/80/grpc"];
        names.map(|name| {
            scene
                .resource("infra/edge", ResourceKind::Cluster, name)
                .map(|cluster| cluster.to_string().contains("http2ProtocolOptions"))
        })
    };
    assert_eq!(clusters(&scene), [Some(false), Some(true)]);
    // One that says it speaks HTTP/2 has one cluster for both.
    let mut said = service("s");
    said["spec"]["ports"][0]["appProtocol"] = json!("kubernetes.io/h2c");
    scene.put(said.clone());
    assert_eq!(clusters(&scene), [Some(true), None]);
    said["spec"]["ports"][0]["appProtocol"] = json!("kubernetes.io/wss");
    scene.put(said);
    assert_eq!(clusters(&scene), [Some(false), None], "the HTTPRoute alone sends there");
    let told = condition(&scene, "apps/r", "ResolvedRefs");
    assert!(told.starts_with("False UnsupportedProtocol") && told.contains("gRPC needs HTTP/2"), "{told}");
}

#[test]
fn what_is_broken_answers_unavailable() {
    let broken = json!({"name": "none", "port": 80});
    let scene = scene([
        grpc_route("alone", json!({"hostnames": ["alone.example"], "rules": [{"backendRefs": [broken]}]})),
        grpc_route("none", json!({"hostnames": ["none.example"], "rules": [{}]})),
        grpc_route(
            "share",
            json!({"hostnames": ["share.example"], "rules": [{"backendRefs": [broken, {"name": "s", "port": 80}]}]}),
        ),
        grpc_route(
            "filter",
            json!({"hostnames": ["filter.example"], "rules": [{"filters": [{"type": "Tomorrow"}], "backendRefs": [{"name": "s", "port": 80}]}]}),
        ),
        route(
            "http",
            json!({"hostnames": ["http.example"], "rules": [{"backendRefs": [broken, {"name": "s", "port": 80}]}]}),
        ),
    ]);
    for host in ["alone.example", "none.example", "filter.example"] {
        assert_eq!(routes(&scene, host)[0]["directResponse"]["status"], 503, "{host}");
    }
    // What Envoy says by default is 503.
    assert_eq!(routes(&scene, "share.example")[0]["route"]["clusterNotFoundResponseCode"], Value::Null);
    assert_eq!(routes(&scene, "http.example")[0]["route"]["clusterNotFoundResponseCode"], "INTERNAL_SERVER_ERROR");
    assert!(condition(&scene, "apps/alone", "ResolvedRefs").starts_with("False BackendNotFound"));
    let told = condition(&scene, "apps/filter", "Accepted");
    assert!(told.starts_with("False UnsupportedValue") && told.contains("Tomorrow"), "{told}");
}

#[test]
fn a_route_delegates_nothing_and_nothing_is_delegated_to_it() {
    let to_routes = json!({"group": GATEWAY_API, "kind": "HTTPRoute", "name": "child", "namespace": "apps"});
    let to_label = json!({"group": "delegation.kgateway.dev", "kind": "label", "name": "a"});
    let mut labelled = grpc_route("labelled", json!({"parentRefs": []}));
    labelled["metadata"]["labels"] = json!({"delegation.kgateway.dev/label": "a"});
    let all = json!({"group": GATEWAY_API, "kind": "HTTPRoute", "name": "*", "namespace": "apps"});
    let named = json!({"group": GATEWAY_API, "kind": "GRPCRoute", "name": "labelled"});
    let scene = scene([
        grpc_route(
            "r",
            json!({"hostnames": ["a.example"], "rules": [{"backendRefs": [to_routes]}, {"matches": [method("s", "")], "backendRefs": [to_label]}]}),
        ),
        labelled,
        route("all", json!({"hostnames": ["b.example"], "rules": [{"backendRefs": [all]}]})),
        route("named", json!({"hostnames": ["c.example"], "rules": [{"backendRefs": [named]}]})),
    ]);
    assert!(
        condition(&scene, "apps/r", "ResolvedRefs").starts_with("False InvalidKind"),
        "{}",
        condition(&scene, "apps/r", "ResolvedRefs")
    );
    assert!(routes(&scene, "a.example").iter().all(|route| route["directResponse"]["status"] == 503));
    let names: Vec<_> = routes(&scene, "b.example").iter().map(|route| route["name"].to_string()).collect();
    assert!(names.iter().all(|name| !name.contains("GRPCRoute")), "{names:?}");
    assert_eq!(scene.route("apps/named", 0, "ResolvedRefs"), "False InvalidKind");
}

fn policy(group: &str, kind: &str, name: &str, target: Value, spec: Value) -> Value {
    let mut policy = json!({"apiVersion": format!("gateway.{group}.dev/v1alpha1"), "kind": kind,
        "metadata": {"name": name, "namespace": "apps", "generation": 1}, "spec": spec});
    policy["spec"]["targetRefs"] = json!([target]);
    policy
}

#[test]
fn traffic_policies_hold_and_those_of_paths_and_trees_are_told_that_they_cannot() {
    let to = |kind: &str, section: Option<&str>| json!({"group": GATEWAY_API, "kind": kind, "name": "r", "sectionName": section});
    let retry = json!({"retry": {"retryOn": ["unavailable", "resource-exhausted"]}, "timeouts": {"request": "3s"}});
    let scene = scene([
        grpc_route(
            "r",
            json!({"rules": [rule(method("a", "")), {"name": "named", "matches": [method("bc", "")], "backendRefs": [{"name": "s", "port": 80}]}]}),
        ),
        route("r", json!({"hostnames": ["http.example"]})),
        policy("kgateway", "TrafficPolicy", "all", to("GRPCRoute", None), retry),
        policy(
            "kgateway",
            "TrafficPolicy",
            "one",
            to("GRPCRoute", Some("named")),
            json!({"timeouts": {"request": "5s"}}),
        ),
        policy(
            "portcullis",
            "RewritePolicy",
            "paths",
            to("GRPCRoute", None),
            json!({"replacePrefix": [{"replacement": "/x"}]}),
        ),
        policy("portcullis", "DelegationPolicy", "trees", to("GRPCRoute", None), json!({"sortMethod": "TableWeight"})),
    ]);
    let all = routes(&scene, "*");
    assert_eq!(all[0]["route"]["timeout"], "5s", "{}", all[0]);
    assert_eq!(all[1]["route"]["timeout"], "3s");
    for route in &all {
        assert_eq!(route["route"]["retryPolicy"]["retryOn"], "resource-exhausted,unavailable");
        assert_eq!(route["route"]["prefixRewrite"], Value::Null);
    }
    assert_eq!(routes(&scene, "http.example")[0]["route"]["timeout"], "0s", "an HTTPRoute of the name is another one");
    let problems = scene.problems();
    for name in ["paths", "trees"] {
        assert!(
            problems.iter().any(|problem| problem.starts_with(&format!("{name} ")) && problem.contains("HTTPRoute")),
            "{name}: {problems:?}"
        );
    }
}

#[test]
fn policies_of_a_gateway_hold_for_its_grpc_routes() {
    let to = json!({"group": GATEWAY_API, "kind": "Gateway", "name": "edge"});
    let mut wide = policy("kgateway", "TrafficPolicy", "wide", to, json!({"timeouts": {"request": "7s"}}));
    wide["metadata"]["namespace"] = json!("infra");
    let scene = scene([grpc_route("r", json!({})), wide]);
    assert_eq!(routes(&scene, "*")[0]["route"]["timeout"], "7s");
}

#[test]
fn a_filter_that_names_a_policy_of_paths_has_the_rule_refused() {
    let extension = |group: &str, kind: &str| json!({"type": "ExtensionRef", "extensionRef": {"group": format!("gateway.{group}.dev"), "kind": kind, "name": "p"}});
    let with = |filter| json!({"rules": [{"filters": [filter], "backendRefs": [{"name": "s", "port": 80}]}]});
    let target = json!({"group": GATEWAY_API, "kind": "GRPCRoute", "name": "nobody"});
    let scene = scene([
        policy("kgateway", "TrafficPolicy", "p", target, json!({"timeouts": {"request": "9s"}})),
        grpc_route("traffic", with(extension("kgateway", "TrafficPolicy"))),
        grpc_route("paths", with(extension("portcullis", "RewritePolicy"))),
    ]);
    let told = condition(&scene, "apps/paths", "Accepted");
    assert!(told.starts_with("False UnsupportedValue") && told.contains("prefixes of paths"), "{told}");
    let all = routes(&scene, "*");
    assert_eq!(all[0]["directResponse"]["status"], 503, "it is the first by name");
    assert_eq!(all[1]["route"]["timeout"], "9s");
}

#[test]
fn a_change_of_one_route_computes_nothing_of_another() {
    let mut scene = scene([
        grpc_route("other", json!({"hostnames": ["b.example"]})),
        grpc_route("r", json!({"hostnames": ["a.example"]})),
        route("r", json!({"hostnames": ["c.example"]})),
    ]);
    let other = routes(&scene, "b.example");
    let changes = scene.put(grpc_route("r", json!({"hostnames": ["a.example"], "rules": [rule(method("a", ""))]})));
    let names: Vec<_> = changes.resources.iter().map(|(key, _)| &*key.name).collect();
    assert_eq!(names, ["http/80"]);
    assert_eq!(routes(&scene, "b.example"), other);
    let resolved = scene.0.stats().iter().find(|stats| stats.name == "ResolvedRule").map(|stats| stats.computed);
    assert_eq!(resolved, Some(1));
}

#[test]
fn backends_of_another_namespace_need_a_grant_for_grpc_routes() {
    let grant = |kind: &str| {
        json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "ReferenceGrant",
            "metadata": {"name": "grant", "namespace": "far"},
            "spec": {"from": [{"group": GATEWAY_API, "kind": kind, "namespace": "apps"}], "to": [{"group": "", "kind": "Service"}]},
        })
    };
    let mut far = service("s");
    far["metadata"]["namespace"] = json!("far");
    let to = json!({"rules": [{"backendRefs": [{"name": "s", "namespace": "far", "port": 80}]}]});
    let mut scene = scene([far, grpc_route("r", to), grant("HTTPRoute")]);
    assert!(condition(&scene, "apps/r", "ResolvedRefs").starts_with("False RefNotPermitted"));
    scene.put(grant("GRPCRoute"));
    assert!(condition(&scene, "apps/r", "ResolvedRefs").starts_with("True ResolvedRefs"));
    assert_eq!(routes(&scene, "*")[0]["route"]["cluster"], "service/far/s/80/grpc");
}

#[test]
fn a_session_holds_across_backends_in_http_2() {
    let session = json!({"rules": [{"sessionPersistence": {"type": "Header", "sessionName": "x-kept"},
        "backendRefs": [{"name": "s", "port": 80}, {"name": "t", "port": 80}]}]});
    let scene = scene([service("t"), grpc_route("r", session)]);
    let routes = routes(&scene, "*");
    let name = routes[0]["route"]["cluster"].as_str().expect("a name");
    assert!(name.starts_with("grpcroute/apps/r/rule/0/"), "{name}");
    let cluster = scene.resource("infra/edge", ResourceKind::Cluster, name).expect("a cluster");
    assert!(cluster.to_string().contains("http2ProtocolOptions"), "{cluster}");
}

#[test]
fn no_backend_that_proxies_find_by_its_name_is_reached_unguarded() {
    let backend = json!({"apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "Backend",
        "metadata": {"name": "b", "namespace": "apps", "generation": 2},
        "spec": {"static": {"hosts": [{"host": "a.example.org", "port": 80}]}}});
    let to = json!({"group": "gateway.kgateway.dev", "kind": "Backend", "name": "b"});
    let mirror = json!({"type": "RequestMirror", "requestMirror": {"backendRef": to}});
    let scene = scene([backend, grpc_route("r", json!({"rules": [{"backendRefs": [to], "filters": [mirror]}]}))]);
    let cluster = scene.resource("infra/edge", ResourceKind::Cluster, "backend/apps/b/http2").expect("a cluster");
    assert!(cluster.to_string().contains("httpFilters"), "it is guarded: {cluster}");
    let told = scene.problems();
    assert!(
        told.iter().any(|problem| problem.contains("requestMirror") && problem.contains("hosts by name")),
        "{told:?}"
    );
}

#[test]
fn an_expression_that_costs_too_much_is_left_out_and_told() {
    let slow = json!({"method": {"type": "RegularExpression", "service": ".*a[ab]{300}c"}});
    let scene = scene([
        grpc_route("slow", json!({"rules": [rule(slow), rule(method("a", ""))]})),
        grpc_route("good", json!({"rules": [rule(method("bc", ""))]})),
    ]);
    let names: Vec<_> = routes(&scene, "*").iter().map(|route| route["name"].to_string()).collect();
    assert_eq!(names, [r#""GRPCRoute/apps/good/0/0""#, r#""GRPCRoute/apps/slow/1/0""#]);
    let told = condition(&scene, "apps/slow", "PartiallyInvalid");
    assert!(told.contains("spec.rules[0].matches") && told.contains("50ms"), "{told}");
    assert_eq!(condition(&scene, "apps/good", "PartiallyInvalid"), "");
}

#[test]
fn who_exceeds_his_share_of_a_proxys_memory_answers_unavailable_and_moves_nobody() {
    let shop = |at: usize| {
        let answers = json!({"filters": [{"type": "RequestRedirect", "requestRedirect": {"port": 8443}}]});
        let spec = json!({"hostnames": [format!("{at}.example.com")], "rules": [answers]});
        let mut shop = route(&format!("s{at}"), spec);
        shop["metadata"]["namespace"] = json!("shop");
        shop["metadata"]["creationTimestamp"] = json!("2024-01-01T00:00:00Z");
        shop
    };
    let mut settings = ir::Settings::default();
    settings.capacity.max_bytes = 5_000_000;
    let own = [gateway("edge", json!([http("web", 80, "")])), service("s")];
    let mut scene = Scene::with(settings, own.into_iter().chain((0..5).map(shop)));
    let of_shop = |scene: &Scene| {
        let own = routes(scene, "0.example.com").into_iter();
        own.filter(|route| route["name"].as_str().is_some_and(|name| name.starts_with("shop/"))).collect::<Vec<_>>()
    };
    let before = of_shop(&scene);
    let matches = |rule: usize| (0..8).map(|at| method(&format!("s{rule}.S{at}"), "Get")).collect::<Value>();
    let rules = (0..16).map(|at| json!({"matches": matches(at), "backendRefs": [{"name": "s", "port": 80}]}));
    let mut greedy = grpc_route("greedy", json!({"rules": rules.collect::<Value>()}));
    greedy["metadata"]["creationTimestamp"] = json!("2024-01-02T00:00:00Z");
    scene.put(greedy);
    assert_eq!(of_shop(&scene), before);
    let statuses: Vec<_> =
        routes(&scene, "0.example.com").iter().map(|route| route["directResponse"]["status"].clone()).collect();
    assert!(statuses.contains(&json!(503)) && !statuses.contains(&json!(500)), "{statuses:?}");
    let told = condition(&scene, "apps/greedy", "PartiallyInvalid");
    assert!(told.contains("namespace apps"), "{told}");
}
