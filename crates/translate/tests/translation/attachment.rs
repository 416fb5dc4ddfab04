//! Which routes attach where, and what is said of it.

use ir::GATEWAY_API;
use serde_json::json;

use super::scene::{Scene, gateway, http, route, service};

fn refused_filter() -> serde_json::Value {
    json!([{"type": "ExtensionRef", "extensionRef": {"group": "x.dev", "kind": "Y", "name": "z"}}])
}

#[test]
fn a_route_whose_only_rule_is_replaced_for_its_backends_is_not_accepted() {
    let mut h2c = service("h2c");
    h2c["spec"]["ports"][0]["appProtocol"] = json!("kubernetes.io/h2c");
    let session = json!({"backendRefs": [{"name": "s", "port": 80}, {"name": "h2c", "port": 80}],
        "sessionPersistence": {"sessionName": "s"}});
    let scene = Scene::new([
        service("s"),
        h2c,
        gateway("edge", json!([http("http", 80, "")])),
        route("alone", json!({"rules": [session]})),
        route("partly", json!({"rules": [session, {"backendRefs": [{"name": "s", "port": 80}]}]})),
    ]);
    assert_eq!(scene.route("apps/alone", 0, "Accepted"), "False UnsupportedValue");
    assert_eq!(scene.route("apps/alone", 0, "PartiallyInvalid"), "", "it is wholly invalid");
    assert_eq!(scene.route("apps/partly", 0, "Accepted"), "True Accepted");
    assert_eq!(scene.route("apps/partly", 0, "PartiallyInvalid"), "True UnsupportedValue");
    assert_eq!(scene.attached("infra/edge", "http"), 1, "a route that is not accepted does not count");
}

#[test]
fn a_filter_that_breaks_a_share_is_no_fault_of_the_reference() {
    let broken = json!({"name": "s", "port": 80, "filters": refused_filter()});
    let missing = json!({"name": "missing", "port": 80, "filters": refused_filter()});
    let sound = json!({"name": "s", "port": 80});
    let scene = Scene::new([
        service("s"),
        gateway("edge", json!([http("http", 80, "")])),
        route("split", json!({"rules": [{"backendRefs": [sound, broken]}]})),
        route("both", json!({"rules": [{"backendRefs": [sound, missing]}]})),
        route("alone", json!({"rules": [{"backendRefs": [broken]}]})),
    ]);
    assert_eq!(scene.route("apps/split", 0, "Accepted"), "True Accepted");
    assert_eq!(scene.route("apps/split", 0, "ResolvedRefs"), "True ResolvedRefs");
    assert_eq!(scene.route("apps/split", 0, "PartiallyInvalid"), "True UnsupportedValue");
    assert_eq!(scene.route("apps/split", 0, "kgateway.dev/Programmed"), "False RouteRuleReplaced");
    assert_eq!(scene.route("apps/both", 0, "ResolvedRefs"), "False BackendNotFound");
    assert_eq!(scene.route("apps/both", 0, "PartiallyInvalid"), "True UnsupportedValue");
    assert_eq!(scene.route("apps/alone", 0, "Accepted"), "False UnsupportedValue", "no rule of it works");
    assert_eq!(scene.route("apps/alone", 0, "ResolvedRefs"), "True ResolvedRefs");
}

#[test]
fn a_parent_that_is_named_twice_gets_one_entry() {
    let twice = json!({"parentRefs": [
        {"name": "edge", "namespace": "infra", "sectionName": "http"},
        {"name": "edge", "namespace": "infra", "sectionName": "http"},
        {"name": "edge", "namespace": "infra", "sectionName": "other"},
    ]});
    let scene = Scene::new([
        service("s"),
        gateway("edge", json!([http("http", 80, ""), http("other", 81, "")])),
        route("r", twice),
    ]);
    assert_eq!(scene.parents("apps/r"), 2);
    let message = scene.route_message("apps/r", 0, "Accepted");
    assert!(message.contains("spec.parentRefs[1]: repeats spec.parentRefs[0]"), "{message}");
    assert_eq!(scene.hosts("http/80")["*"].len(), 1);
}

#[test]
fn a_parent_of_another_controller_and_one_that_is_no_gateway_get_no_entry() {
    let mut foreign = gateway("foreign", json!([http("http", 80, "")]));
    foreign["spec"]["gatewayClassName"] = json!("theirs");
    let theirs = json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass",
        "metadata": {"name": "theirs"}, "spec": {"controllerName": "x.dev/y"}});
    let parents = json!({"parentRefs": [
        {"name": "foreign", "namespace": "infra"},
        {"name": "mesh", "group": "", "kind": "Service"},
        {"name": "edge", "namespace": "infra"},
    ]});
    let scene = Scene::new([
        theirs,
        foreign,
        gateway("edge", json!([http("http", 80, "")])),
        route("r", parents),
        route("elsewhere", json!({"parentRefs": [{"name": "foreign", "namespace": "infra"}]})),
    ]);
    assert_eq!(scene.parents("apps/r"), 1);
    assert_eq!(scene.gateway("infra/foreign", "Accepted"), "");
    assert_eq!(scene.parents("apps/elsewhere"), 0);
}

#[test]
fn a_reference_to_a_listener_set_does_not_reach_the_gateway_of_its_name() {
    let set = json!({"group": GATEWAY_API, "kind": "ListenerSet", "name": "edge", "namespace": "infra",
        "sectionName": "http"});
    let scene = Scene::new([
        service("s"),
        gateway("edge", json!([http("http", 80, "")])),
        route("r", json!({"parentRefs": [set]})),
    ]);
    assert_eq!(scene.parents("apps/r"), 0);
    assert_eq!(scene.attached("infra/edge", "http"), 0);
    assert_eq!(scene.hosts("http/80").get("*"), Some(&Vec::new()));
}

#[test]
fn why_a_route_is_not_attached_is_told_by_what_it_lacks_first() {
    let mut closed = http("closed", 80, "closed.com");
    closed["allowedRoutes"] = json!({"namespaces": {"from": "Same"}});
    let mut other_kind = http("grpc", 82, "");
    other_kind["allowedRoutes"]["kinds"] = json!([{"kind": "GRPCRoute"}]);
    let to = |more: serde_json::Value| {
        let mut parent = json!({"name": "edge", "namespace": "infra"});
        parent.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        json!({"parentRefs": [parent]})
    };
    let mut foreign_name = to(json!({"port": 81}));
    foreign_name["hostnames"] = json!(["b.com"]);
    let mut no_name = to(json!({}));
    no_name["hostnames"] = json!(["bad_host"]);
    let scene = Scene::new([
        service("s"),
        gateway("edge", json!([closed, http("open", 81, "a.com"), other_kind])),
        route("no-section", to(json!({"sectionName": "none"}))),
        route("no-port", to(json!({"sectionName": "open", "port": 80}))),
        route("not-allowed", to(json!({"port": 80}))),
        route("not-this-kind", to(json!({"sectionName": "grpc"}))),
        route("no-hostname", foreign_name),
        route("bad-hostname", no_name),
        route("fine", to(json!({}))),
    ]);
    for (name, expected) in [
        ("no-section", "False NoMatchingParent"),
        ("no-port", "False NoMatchingParent"),
        ("not-allowed", "False NotAllowedByListeners"),
        ("not-this-kind", "False NotAllowedByListeners"),
        ("no-hostname", "False NoMatchingListenerHostname"),
        ("bad-hostname", "False UnsupportedValue"),
        ("fine", "True Accepted"),
    ] {
        assert_eq!(scene.route(&format!("apps/{name}"), 0, "Accepted"), expected, "{name}");
        assert_eq!(scene.route(&format!("apps/{name}"), 0, "ResolvedRefs"), "True ResolvedRefs", "{name}");
    }
    for (name, part) in [
        ("not-allowed", "no listener on port 80 of Gateway infra/edge admits HTTPRoutes of namespace apps"),
        ("not-this-kind", "no listener named grpc of Gateway infra/edge takes HTTPRoutes"),
        ("no-hostname", "serves b.com; those that admit this route serve a.com"),
    ] {
        let message = scene.route_message(&format!("apps/{name}"), 0, "Accepted");
        assert!(message.contains(part), "{name}: {message}");
    }
}

#[test]
fn routes_of_a_listener_that_is_not_served_count_and_are_told_nothing_bad() {
    let scene = Scene::new([
        service("s"),
        gateway("edge", json!([super::scene::https("tls", 443, "", "missing")])),
        route("r", json!({})),
        route("broken", json!({"rules": [{"filters": refused_filter(), "backendRefs": [{"name": "s", "port": 80}]}]})),
    ]);
    assert_eq!(scene.listener("infra/edge", "tls", "ResolvedRefs"), "False InvalidCertificateRef");
    assert_eq!(scene.attached("infra/edge", "tls"), 1);
    assert_eq!(scene.route("apps/r", 0, "Accepted"), "True Accepted");
    assert_eq!(scene.route("apps/broken", 0, "Accepted"), "False UnsupportedValue");
}

#[test]
fn what_is_ignored_is_told_where_the_route_is_accepted() {
    let scene = Scene::new([
        service("s"),
        gateway("edge", json!([http("http", 80, "")])),
        route("r", json!({"useDefaultGateways": "All", "hostnames": ["a.com", "a.com"]})),
    ]);
    let message = scene.route_message("apps/r", 0, "Accepted");
    assert!(message.starts_with("True Accepted: the route is attached. Warning: "), "{message}");
    for part in ["spec.useDefaultGateways", "spec.hostnames[1]: a.com stands here twice"] {
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn a_hostname_that_no_listener_serves_is_told_unless_a_parent_of_somebody_else_may_serve_it() {
    let gateway = gateway("edge", json!([http("one", 80, "*.a.com"), http("two", 81, "b.com")]));
    let hostnames = json!(["x.a.com", "b.com", "c.com"]);
    let both = json!([{"name": "edge", "namespace": "infra"}, {"name": "unknown", "namespace": "infra"}]);
    let scene = Scene::new([
        service("s"),
        gateway,
        route("r", json!({"hostnames": hostnames})),
        route("elsewhere-too", json!({"hostnames": hostnames, "parentRefs": both})),
    ]);
    let message = scene.route_message("apps/r", 0, "Accepted");
    assert!(message.contains("spec.hostnames[2]: c.com is a hostname of no listener"), "{message}");
    assert!(!message.contains("spec.hostnames[0]") && !message.contains("spec.hostnames[1]"), "{message}");
    assert!(!scene.route_message("apps/elsewhere-too", 0, "Accepted").contains("c.com"));
}

#[test]
fn a_redirect_that_is_to_be_copied_is_replaced_since_nothing_would_be_copied() {
    let filters = json!([
        {"type": "RequestRedirect", "requestRedirect": {"scheme": "https"}},
        {"type": "RequestMirror", "requestMirror": {"backendRef": {"name": "s", "port": 80}}},
    ]);
    let scene = Scene::new([
        service("s"),
        gateway("edge", json!([http("http", 80, "")])),
        route("r", json!({"rules": [{"filters": filters}]})),
    ]);
    assert_eq!(scene.route("apps/r", 0, "Accepted"), "False IncompatibleFilters");
}
