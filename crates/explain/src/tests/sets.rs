//! What is told of listeners of ListenerSets.

use serde_json::json;
use translate::testing::scene::{Scene, at_set, hosting, http, listener_set, route, service};

use super::get;
use crate::tree::tree;

fn scene(from: &str) -> Scene {
    Scene::new([
        service("s"),
        hosting("edge", json!([http("web", 80, "edge.example.com")]), from),
        listener_set("apps/set", json!([http("web", 80, "set.example.com"), http("lost", 80, "edge.example.com")])),
        route("r", json!({"parentRefs": [at_set("apps/set")]})),
    ])
}

#[test]
fn a_tree_has_the_listeners_of_sets_behind_those_of_their_gateway_and_says_why_one_is_not_served() {
    let text = tree(&scene("All").0).to_string();
    let listeners: Vec<_> = text.lines().filter(|line| line.starts_with("  listener")).collect();
    assert_eq!(
        listeners,
        [
            "  listener web (HTTP 80, edge.example.com)",
            "  listener apps/set/web (HTTP 80, set.example.com)",
            "  listener apps/set/lost (HTTP 80, edge.example.com), not served",
        ]
    );
    assert!(text.contains("edge.example.com on port 80 is also a hostname of its Gateway"), "{text}");
    assert!(text.contains("(ListenerSet apps/set)"), "{text}");
}

#[test]
fn a_route_of_a_set_that_is_not_admitted_is_told_at_its_gateway() {
    let text = tree(&scene("None").0).to_string();
    assert!(text.contains("attached to no listener") && text.contains("NotAllowedByListeners"), "{text}");
}

#[test]
fn a_request_is_led_to_the_listener_of_a_set() {
    let scene = scene("All");
    let told = get(&scene, "http://set.example.com/").to_string();
    assert!(told.contains("listener   apps/set/web (port 80, set.example.com)"), "{told}");
    assert!(told.contains("HTTPRoute apps/r"), "{told}");
    assert!(get(&scene, "http://edge.example.com/").to_string().contains("listener   web"), "{told}");
}
