//! Nobody who asks for words is failed by a row that panics.

use std::collections::BTreeSet;

use translate::testing::{one_of_each, scene::Scene};

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
