//! What listeners of ListenerSets take of the memory of proxies by themselves, shared out between namespaces.

use serde_json::{Value, json};
use translate::testing::{HOST_WEIGHT, HTTPS_LISTENER_WEIGHT};

use super::{
    scene::{Scene, hosting, http, https, listener_set, secret},
    sets_policies::policy,
};

/// Created in this second.
fn born(mut object: Value, second: u8) -> Value {
    object["metadata"]["creationTimestamp"] = json!(format!("2026-01-01T00:00:{second:02}Z"));
    object
}

fn secret_of(namespace: &str) -> Value {
    let mut secret = secret("c");
    secret["metadata"]["namespace"] = json!(namespace);
    secret
}

/// A world with room for so many listeners of HTTPS of which no policy says anything.
fn scene(rooms: u64, objects: impl IntoIterator<Item = Value>) -> Scene {
    let mut settings = ir::Settings::default();
    settings.capacity.max_bytes = rooms * 4 * HTTPS_LISTENER_WEIGHT;
    let edge = hosting("edge", json!([http("http", 80, "edge.example.com")]), "All");
    Scene::with(settings, [edge, secret_of("greedy"), secret_of("modest")].into_iter().chain(objects))
}

fn accepted(scene: &Scene, set: &str, listener: &str) -> String {
    scene.listener_of_set(set, listener, "Accepted")
}

/// Each is a filter chain with all HTTP filters in the memory of the proxies.
#[test]
fn https_listeners_are_shared_out_between_namespaces_and_the_youngest_of_who_has_too_many_are_not_served() {
    let set = |name: &str, count: usize, second: u8| {
        let host = name.replace('/', ".");
        let listener = |index: usize| https(&format!("l{index}"), 443, &format!("h{index}.{host}.example"), "c");
        born(listener_set(name, json!((0..count).map(listener).collect::<Vec<_>>())), second)
    };
    let sets = [set("greedy/set", 8, 1), set("greedy/late", 1, 3), set("modest/set", 2, 2)];
    let mut scene = scene(6, sets);
    let served = |scene: &Scene| scene.chains("listener/443").iter().filter(|(_, served)| *served).count();
    assert_eq!(served(&scene), 6);
    for (set, listener) in [("modest/set", "l0"), ("modest/set", "l1"), ("greedy/set", "l0"), ("greedy/set", "l3")] {
        assert!(accepted(&scene, set, listener).starts_with("True"), "{set} {listener}");
    }
    for (set, listener) in [("greedy/set", "l4"), ("greedy/set", "l7"), ("greedy/late", "l0")] {
        assert!(accepted(&scene, set, listener).starts_with("False TooManyListeners"), "{set} {listener}");
    }
    let told = accepted(&scene, "greedy/late", "l0");
    assert!(told.contains("would take 5 MiB") && told.contains("its share is 2 MiB"), "{told}");
    assert!(scene.set("greedy/set", "Accepted").starts_with("True ListenersNotValid"));
    assert_eq!(scene.gateway("infra/edge", "Programmed"), "True Programmed");
    // Whoever gives some up has room for others.
    scene.put(set("greedy/set", 2, 1));
    assert!(accepted(&scene, "greedy/late", "l0").starts_with("True"));
    assert_eq!(served(&scene), 5);
}

/// Each is a virtual host there; those that are not served are one, all together.
#[test]
fn http_listeners_are_shared_out_in_the_same_way_and_those_without_room_keep_their_hostnames_in_one_virtual_host() {
    let set = |name: &str, count: usize, second: u8| {
        let host = name.replace('/', ".");
        let listener = |index: usize| http(&format!("l{index}"), 80, &format!("h{index}.{host}.example"));
        born(listener_set(name, json!((0..count).map(listener).collect::<Vec<_>>())), second)
    };
    let mut settings = ir::Settings::default();
    settings.capacity.max_bytes = 8 * 4 * HOST_WEIGHT;
    let edge = hosting("edge", json!([http("wild", 80, "*.example")]), "All");
    let mut scene = Scene::with(settings, [edge, set("greedy/set", 60, 1), set("modest/set", 3, 2)]);
    let domains = |scene: &Scene| {
        let config = scene.resource("infra/edge", envoy::ResourceKind::RouteConfiguration, "http/80");
        let hosts = config.expect("a route configuration")["virtualHosts"].clone();
        let count = |host: &Value| host["domains"].as_array().map_or(0, Vec::len);
        let hosts = hosts.as_array().cloned().unwrap_or_default();
        let unserved = hosts.iter().find(|host| host["name"] == "unserved/*").map(count);
        (hosts.len() - usize::from(unserved.is_some()), unserved)
    };
    assert_eq!(domains(&scene), (1 + 5 + 3, Some(55)), "a broader listener gets none of their requests");
    assert!(accepted(&scene, "greedy/set", "l4").starts_with("True"));
    let told = accepted(&scene, "greedy/set", "l5");
    assert!(told.starts_with("False TooManyListeners") && told.contains("would take 235 KiB"), "{told}");
    assert!(accepted(&scene, "modest/set", "l2").starts_with("True"));
    scene.put(set("greedy/set", 5, 1));
    assert_eq!(domains(&scene), (1 + 5 + 3, None));
}

#[test]
fn a_listener_of_which_nobody_can_tell_whether_there_is_room_is_served_and_others_are_as_they_were() {
    let listener = |index: usize| http(&format!("l{index}"), 80, &format!("h{index}.example"));
    let mut settings = ir::Settings::default();
    settings.capacity.max_bytes = 2 * 4 * HOST_WEIGHT;
    let edge = hosting("edge", json!([]), "All");
    let set = listener_set("greedy/set", json!((0..4).map(listener).collect::<Vec<_>>()));
    let mut scene = Scene::with(settings, [edge, set]);
    let served = |scene: &Scene| {
        [0, 1, 2, 3].map(|index| accepted(scene, "greedy/set", &format!("l{index}")).starts_with("True"))
    };
    let sound = served(&scene);
    assert_eq!(sound, [true, true, false, false]);
    let rows = scene.0.computed_rows().into_iter();
    let (table, key) =
        rows.into_iter().find(|(table, key)| *table == "WithoutRoom" && key.contains("l3")).expect("a row");
    scene.0.fail_at(table, &key);
    assert_eq!(scene.0.settle().faults.len(), 1, "{key}");
    assert_eq!(served(&scene), [true, true, false, true]);
    scene.0.fail_no_more(table, &key);
    scene.0.settle();
    assert_eq!(served(&scene), sound);
}

#[test]
fn what_policies_say_of_listeners_of_a_namespace_is_charged_to_its_room_and_to_nobody_elses() {
    let set = |name: &str, second: u8| {
        let host = name.replace('/', ".");
        let listeners = json!([
            https("first", 443, &format!("first.{host}"), "c"),
            https("second", 443, &format!("second.{host}"), "c"),
            http("plain", 80, &format!("plain.{host}")),
        ]);
        born(listener_set(name, listeners), second)
    };
    let ranges = |count: u16| (0..count).map(|at| format!("10.{}.{}.0/24", at / 256, at % 256)).collect::<Vec<_>>();
    let acl = |set: &str, count: u16| {
        let rule = json!({"name": "in", "cidrs": ranges(count), "action": "allow"});
        policy("acl", "ListenerSet", set, None, json!({"acl": {"defaultAction": "deny", "rules": [rule]}}))
    };
    let mut scene = scene(7, [set("greedy/set", 1), set("modest/set", 2), acl("modest/set", 10)]);
    let served = |scene: &Scene, set: &str| {
        ["first", "second", "plain"].map(|listener| accepted(scene, set, listener).starts_with("True Accepted"))
    };
    assert_eq!([served(&scene, "greedy/set"), served(&scene, "modest/set")], [[true; 3]; 2]);
    let hosts = scene.hosts("http/80");
    // As much as two listeners of HTTPS at each listener, or three.
    scene.put(acl("greedy/set", 400));
    assert_eq!(served(&scene, "greedy/set"), [true, false, false]);
    assert_eq!(served(&scene, "modest/set"), [true; 3]);
    assert!(accepted(&scene, "greedy/set", "plain").starts_with("False TooManyListeners"));
    assert_eq!(scene.gateway("infra/edge", "Accepted"), "True Accepted");
    // Behind one for which there is no room nobody has any.
    scene.put(born(listener_set("greedy/late", json!([http("plain", 80, "late.example")])), 3));
    assert!(accepted(&scene, "greedy/late", "plain").starts_with("False TooManyListeners"));
    scene.put(acl("greedy/set", 10));
    assert_eq!(served(&scene, "greedy/set"), [true; 3]);
    assert!(accepted(&scene, "greedy/late", "plain").starts_with("True Accepted"));
    scene.remove(born(listener_set("greedy/late", json!([http("plain", 80, "late.example")])), 3));
    assert_eq!(scene.hosts("http/80"), hosts);
}
