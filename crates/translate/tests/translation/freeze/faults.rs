//! A row of a tree that is kept panics: nothing opens, nobody else is harmed, and no object is to blame for what an edition says.

use std::collections::BTreeSet;

use super::*;

/// A tree that is kept and broken since, its policies, and a route that has nothing to do with it.
fn world() -> Keeper {
    let [root, one, two, policy] = tree();
    let mut labelled = one;
    labelled["metadata"]["labels"] = json!({"delegation.kgateway.dev/label": "v"});
    let by_label = super::super::delegation::to_label("/b", "v");
    let mut root = root;
    root["spec"]["rules"].as_array_mut().expect("rules").push(by_label);
    labelled["spec"]["rules"].as_array_mut().expect("rules").push(forward("/b/one"));
    let auth = on("TrafficPolicy", "auth", "one", json!({"basicAuth": {"users": [USERS]}}));
    let bystander = route("bystander", json!({"hostnames": ["by.example.com"], "rules": [forward("/by")]}));
    let mut keeper = Keeper::new([root, labelled, two, policy, auth, bystander]);
    assert_eq!(keeper.kept.len(), 1, "{:?}", keeper.faults());
    keeper.put(child_of("two", json!([to_backend("/a/two", "nobody")])));
    keeper
}

/// The Envoy routes that send requests on, by what they match and with all that they do.
fn open(keeper: &Keeper) -> BTreeSet<String> {
    let config = keeper.scene.resource("infra/edge", envoy::ResourceKind::RouteConfiguration, "http/80");
    let config = config.unwrap_or_default();
    let hosts = config["virtualHosts"].as_array().into_iter().flatten();
    let routes = hosts.flat_map(|host| host["routes"].as_array().into_iter().flatten());
    routes.filter(|route| route["directResponse"].is_null()).map(ToString::to_string).collect()
}

fn bystanders(all: &BTreeSet<String>) -> BTreeSet<String> {
    all.iter().filter(|route| route.contains("/bystander/")).cloned().collect()
}

#[test]
fn a_row_of_a_kept_tree_that_panics_opens_nothing_and_blames_no_object() {
    let mut keeper = world();
    let before = open(&keeper);
    assert!(before.len() >= 4, "{before:?}");
    let root = RootId::Route(NsName::new("apps", "root"));
    let mut tried = BTreeSet::new();
    let mut wrong = Vec::new();
    for (table, key) in keeper.scene.0.computed_rows() {
        if !keeper.fails_at(table, &key) {
            continue;
        }
        tried.insert(table);
        // What no table ends costs the edition first: see `controller::guarded`.
        for closed in [keeper.kept[&root].closed(&root), keeper.kept[&root].closed_everywhere(&root)] {
            let unended = keeper.scene.0.unended();
            if unended.iter().any(|unended| unended.editions.contains(&root)) {
                keeper.scene.0.set_edition(&root, Some(&closed));
                keeper.scene.0.settle();
            }
        }
        let now = open(&keeper);
        let opened: Vec<_> = now.difference(&before).collect();
        if !opened.is_empty() {
            wrong.push(format!("{table}({key}) opens {opened:?}"));
        }
        let is_theirs =
            ["bystander", "infra", "by.example.com", "\"s\"", "\"t\""].iter().any(|name| key.contains(name));
        // What nobody can compute is published by nobody, so that proxies keep what they have.
        let is_published = keeper.scene.0.unended().is_empty();
        if !is_theirs && is_published && bystanders(&now) != bystanders(&before) {
            wrong.push(format!("{table}({key}) harms a bystander"));
        }
        keeper.scene.0.fail_no_more(table, &key);
        let kept = keeper.kept[&root].clone();
        keeper.scene.0.set_edition(&root, Some(&kept));
        keeper.scene.0.settle();
        if open(&keeper) != before {
            wrong.push(format!("{table}({key}) does not heal"));
        }
    }
    assert!(wrong.is_empty(), "{} of them:\n{}", wrong.len(), wrong.join("\n"));
    for table in
        ["AskedFor", "FreezingOf", "EditionMember", "Judged", "JudgedRoute", "TreeObject", "TreePart", "TreeOf"]
    {
        assert!(tried.contains(table), "{table} is tried");
    }
}
