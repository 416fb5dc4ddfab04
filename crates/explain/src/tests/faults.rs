//! Nobody who asks for words is failed by a row that panics.

use std::collections::BTreeSet;

use serde_json::json;
use translate::testing::{
    one_of_each,
    scene::{Scene, forward, gateway, http, object, route, service},
};

use super::{ask, get};
use crate::tree::tree;

#[test]
fn requests_and_routes_are_told_of_whatever_row_panics() {
    let mut scene = Scene::new(one_of_each());
    let all = |scene: &Scene| {
        let urls = ["http://tree.example.com/named/a", "http://shop.example.com/admin", "https://own.example.com/kept"];
        let call = ask(scene, "POST", "http://shop.example.com/shop.Cart/Add", &["content-type: application/grpc"])
            .to_string();
        (tree(&scene.0).to_string(), call, urls.map(|url| get(scene, url).to_string()))
    };
    let before = all(&scene);
    let mut tried = BTreeSet::new();
    for (table, key) in scene.0.computed_rows() {
        scene.0.fail_at(table, &key);
        if !scene.0.settle().faults.is_empty() {
            tried.insert(table);
            all(&scene);
        }
        scene.0.fail_no_more(table, &key);
        scene.0.settle();
        assert!(all(&scene) == before, "{table}({key}) heals");
    }
    assert!(tried.len() > 30, "{tried:?}");
}

#[test]
fn who_asks_for_a_route_that_is_set_aside_is_told_that_its_last_version_is_in_force() {
    let route = |path: &str| object(route("site", json!({"rules": [forward(path)]})));
    let mut scene = Scene::new([gateway("edge", json!([http("web", 80, "")])), service("s")]);
    let (sound, failing) = (route("/sound"), route("/failing"));
    let id = sound.id();
    scene.0.apply(translate::Change::Put(sound));
    scene.0.set_quarantined(&id, Some(failing));
    scene.0.settle();
    let told = get(&scene, "http://a.example/sound").to_string();
    let line = "! InternalFault: set aside, its last version stays in force: ";
    assert!(told.contains(line) && told.contains(&format!("({id})")), "{told}");
    scene.0.set_quarantined(&id, None);
    scene.0.settle();
    let told = get(&scene, "http://a.example/sound").to_string();
    assert!(!told.contains("set aside"), "{told}");
}
