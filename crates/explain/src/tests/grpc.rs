//! What is told of calls in gRPC.

use serde_json::{Value, json};
use translate::testing::scene::{Scene, gateway, grpc_route, http, method, route, service};

use super::{ask, get};
use crate::{Explanation, Outcome, tree::tree};

fn scene() -> Scene {
    let to =
        |matching: Value, backend: &str| json!({"matches": [matching], "backendRefs": [{"name": backend, "port": 80}]});
    let pattern = json!({"method": {"type": "RegularExpression", "service": "shop.+"}});
    let broken = json!({"matches": [method("shop.Half", "")],
        "backendRefs": [{"name": "none", "port": 80}, {"name": "s", "port": 80}]});
    Scene::new([
        gateway("edge", json!([http("web", 80, "")])),
        service("s"),
        service("t"),
        grpc_route(
            "calls",
            json!({"rules": [to(method("shop.Cart", "Add"), "s"), to(method("shop.Cart", ""), "t"), to(pattern, "t"), broken]}),
        ),
        route("site", json!({})),
    ])
}

fn call(scene: &Scene, path: &str) -> Explanation {
    ask(scene, "POST", &format!("http://a.example{path}"), &["content-type: application/grpc+proto"])
}

fn leaf(told: &Explanation) -> String {
    told.leaf.as_ref().map(|leaf| format!("{} {}: {}", leaf.kind, leaf.rule, leaf.written)).unwrap_or_default()
}

#[test]
fn a_call_goes_to_the_longest_service_and_method_and_others_are_told_why_they_lost() {
    let scene = scene();
    let told = call(&scene, "/shop.Cart/Add");
    assert_eq!(leaf(&told), "GRPCRoute 0: gRPC method /shop.Cart/Add");
    let lost: Vec<_> = told.tried.behind.iter().map(|lost| (&*lost.leaf.written, &*lost.why)).collect();
    let why = |tie: &str| format!("the one taken goes first: {tie}");
    assert_eq!(
        lost,
        [
            ("gRPC methods of /shop.Cart/", &*why("its method has more characters")),
            ("gRPC methods ~ /(?:shop.+)/[^/]+", &*why("its service has more characters")),
            ("PathPrefix /", &*why("a GRPCRoute goes before an HTTPRoute")),
        ]
    );
    assert_eq!(leaf(&call(&scene, "/shop.Cart/Remove")), "GRPCRoute 1: gRPC methods of /shop.Cart/");
    assert_eq!(leaf(&call(&scene, "/shop.Orders/Remove")), "GRPCRoute 2: gRPC methods ~ /(?:shop.+)/[^/]+");
    assert_eq!(leaf(&call(&scene, "/other/Remove")), "HTTPRoute 0: PathPrefix /");
}

#[test]
fn a_request_that_is_no_call_is_told_what_it_lacks() {
    let told = get(&scene(), "http://a.example/shop.Cart/Add");
    assert_eq!(leaf(&told), "HTTPRoute 0: PathPrefix /");
    let missed = &told.tried.missed[0];
    assert_eq!(missed.leaf.written, "gRPC method /shop.Cart/Add");
    assert_eq!(missed.why, "it needs gRPC, a content-type of application/grpc");
}

#[test]
fn a_share_that_is_broken_answers_as_a_call_is_answered() {
    let told = call(&scene(), "/shop.Half/Get");
    let Outcome::Backends { backends, because, .. } = &told.outcome else { panic!("{told}") };
    assert_eq!(backends.iter().map(|share| share.status).collect::<Vec<_>>(), [Some(503), None]);
    assert!(because[0].message.contains("apps/none"), "{told}");
    assert!(told.to_string().contains("503 (weight 1), Service apps/s port 80 (weight 1)"), "{told}");
}

#[test]
fn the_tree_has_routes_of_all_kinds() {
    let told = tree(&scene().0).to_string();
    assert!(told.contains("GRPCRoute apps/calls") && told.contains("gRPC method /shop.Cart/Add"), "{told}");
}
