//! Trees of routes: what each situation comes to, in Envoy and in the statuses.

use serde_json::{Value, json};

use super::scene::{Scene, gateway, http, route, service};

pub(super) const GROUP: &str = "gateway.networking.k8s.io";

/// A rule that hands `/PATH` to routes of namespace `apps`.
pub(super) fn to(path: &str, names: &[&str]) -> Value {
    let references = names.iter().map(|name| json!({"group": GROUP, "kind": "HTTPRoute", "name": name}));
    json!({"matches": [prefix(path)], "backendRefs": references.collect::<Vec<_>>()})
}

/// A rule that hands `/PATH` to the routes with a label.
pub(super) fn to_label(path: &str, label: &str) -> Value {
    json!({"matches": [prefix(path)], "backendRefs": [{"group": "delegation.kgateway.dev", "kind": "label", "name": label}]})
}

pub(super) fn prefix(path: &str) -> Value {
    json!({"path": {"type": "PathPrefix", "value": path}})
}

/// A rule that sends `/PATH` to a backend.
pub(super) fn forward(path: &str) -> Value {
    json!({"matches": [prefix(path)], "backendRefs": [{"name": "s", "port": 80}]})
}

#[allow(clippy::needless_pass_by_value, reason = "callers write the list in place")]
pub(super) fn root(rules: Value) -> Value {
    route("root", json!({"rules": rules}))
}

/// A route without parents of its own.
#[allow(clippy::needless_pass_by_value, reason = "callers write the list in place")]
pub(super) fn child(name: &str, rules: Value) -> Value {
    let mut child = route(name, json!({"rules": rules}));
    child["spec"].as_object_mut().expect("a spec").remove("parentRefs");
    child
}

/// Below a root with one rule, which the routes after it stand below.
pub(super) fn scene(objects: impl IntoIterator<Item = Value>) -> Scene {
    let base = [gateway("edge", json!([http("web", 80, "")])), service("s")];
    Scene::new(base.into_iter().chain(objects))
}

/// The routes in the order in which they are tried: the name without its beginning, and the answer where it gives one.
pub(super) fn routes(scene: &Scene) -> Vec<String> {
    let config = scene.resource("infra/edge", envoy::ResourceKind::RouteConfiguration, "http/80").expect("routes");
    let mut all = Vec::new();
    for route in
        config["virtualHosts"].as_array().into_iter().flatten().filter_map(|host| host["routes"].as_array()).flatten()
    {
        let name = route["name"].as_str().expect("a name");
        let (namespace, name) = name.split_once('/').expect("a namespace");
        let name = name.replacen('/', ".", 2);
        let name = if namespace == "apps" { name } else { format!("{namespace}/{name}") };
        let status = &route["directResponse"]["status"];
        let path = ["pathSeparatedPrefix", "prefix", "path"].iter().find_map(|kind| route["match"][kind].as_str());
        let path = path.or(route["match"]["safeRegex"]["regex"].as_str()).expect("a path");
        all.push(if status.is_null() { format!("{name} {path}") } else { format!("{name} {path} {status}") });
    }
    all
}

pub(super) fn annotated(mut object: Value, name: &str, value: &str) -> Value {
    object["metadata"]["annotations"][name] = json!(value);
    object
}

pub(super) fn labelled(mut object: Value, label: &str) -> Value {
    object["metadata"]["labels"] = json!({"delegation.kgateway.dev/label": label});
    object
}

#[test]
fn the_routes_of_children_stand_in_the_place_of_the_rule_that_delegates() {
    let scene = scene([
        root(json!([to("/a", &["child"])])),
        child("child", json!([forward("/a"), to("/a/b", &["grandchild"]), forward("/elsewhere")])),
        child("grandchild", json!([forward("/a/b/c")])),
    ]);
    assert_eq!(routes(&scene), ["grandchild.0.0 /a/b/c", "child.0.0 /a"]);
    assert_eq!(scene.route("apps/root", 0, "Accepted"), "True Accepted");
    assert_eq!(scene.route("apps/root", 0, "ResolvedRefs"), "True ResolvedRefs");
    assert_eq!(scene.route("apps/root", 0, "kgateway.dev/Programmed"), "");
    assert_eq!(scene.parents("apps/child"), 1);
    assert_eq!(scene.route("apps/child", 0, "Accepted"), "True Accepted");
    assert_eq!(
        scene.route_message("apps/child", 0, "kgateway.dev/Programmed"),
        "False RouteRuleDropped: spec.rules[2].matches[0]: the path leads out of the parent's, which is PathPrefix /a"
    );
    assert_eq!(scene.route("apps/grandchild", 0, "Accepted"), "True Accepted");
}

#[test]
fn a_named_child_that_is_missing_leaves_500_and_is_awaited() {
    let mut scene = scene([root(json!([to("/a", &["child"]), forward("/b")]))]);
    assert_eq!(routes(&scene), ["root.0.0 /a 500", "root.1.0 /b"]);
    assert_eq!(scene.route("apps/root", 0, "Accepted"), "True Accepted");
    assert_eq!(
        scene.route_message("apps/root", 0, "ResolvedRefs"),
        "False BackendNotFound: spec.rules[0].backendRefs[0].name: HTTPRoute apps/child does not exist; create it, or \
         correct the name"
    );
    scene.put(child("child", json!([forward("/a/x")])));
    assert_eq!(routes(&scene), ["child.0.0 /a/x", "root.1.0 /b"]);
    assert_eq!(scene.route("apps/root", 0, "ResolvedRefs"), "True ResolvedRefs");
    scene.remove(child("child", json!([])));
    assert_eq!(routes(&scene), ["root.0.0 /a 500", "root.1.0 /b"]);
}

#[test]
fn a_child_decides_who_its_parents_are_and_is_not_told_of_others() {
    let naming = |name: &str| {
        let mut child = child("child", json!([forward("/a/x")]));
        child["spec"]["parentRefs"] = json!([{"group": GROUP, "kind": "HTTPRoute", "name": name}]);
        child
    };
    let mut scene = scene([root(json!([to("/a", &["child"])])), naming("another")]);
    assert_eq!(routes(&scene), ["root.0.0 /a 500"]);
    assert_eq!(scene.route("apps/root", 0, "ResolvedRefs"), "False RefNotPermitted");
    assert_eq!(scene.parents("apps/child"), 0);
    // By a word that means many it is not selected.
    scene.put(root(json!([to("/a", &["*"])])));
    assert_eq!(routes(&scene), ["root.0.0 /a 500"]);
    assert_eq!(scene.route("apps/root", 0, "ResolvedRefs"), "False BackendNotFound");
    assert_eq!(scene.parents("apps/child"), 0);
    scene.put(naming("root"));
    assert_eq!(routes(&scene), ["child.0.0 /a/x"]);
    // It names a parent that never selects it.
    scene.put(root(json!([forward("/a")])));
    assert_eq!(scene.route("apps/child", 0, "Accepted"), "False NoMatchingParent");
}

#[test]
fn a_match_below_which_no_child_has_anything_answers_404() {
    let scene = scene([
        root(
            json!([to("/a", &["child"]), {"matches": [prefix("/b"), prefix("/c")], "backendRefs": to("", &["child"])["backendRefs"]}]),
        ),
        child("child", json!([forward("/b/x")])),
    ]);
    assert_eq!(routes(&scene), ["child.0.0 /b/x", "root.0.0 /a 404", "root.1.1 /c 404"]);
    assert_eq!(scene.route("apps/root", 0, "Accepted"), "True Accepted");
    assert_eq!(scene.route("apps/root", 0, "ResolvedRefs"), "True ResolvedRefs");
    assert_eq!(scene.route("apps/root", 0, "kgateway.dev/Programmed"), "False RouteRuleReplaced");
    assert_eq!(scene.route("apps/child", 0, "Accepted"), "True Accepted");
    let scene =
        self::scene([root(json!([to("/a", &["child"])])), child("child", json!([forward("/b/x"), forward("/ab")]))]);
    assert_eq!(routes(&scene), ["root.0.0 /a 404"]);
    assert_eq!(scene.route("apps/child", 0, "Accepted"), "False NoMatchingParent");
}

#[test]
fn beside_a_missing_child_the_others_serve_and_the_rest_of_the_match_answers_500() {
    let scene = scene([
        root(json!([to("/a", &["child", "gone"]), forward("/")])),
        child(
            "child",
            json!([forward("/a"), {"matches": [{"path": {"type": "PathPrefix", "value": "/a"}, "method": "GET"}],
            "backendRefs": [{"name": "s", "port": 80}]}]),
        ),
    ]);
    assert_eq!(routes(&scene), ["child.1.0 /a", "child.0.0 /a", "root.0.0 /a 500", "root.1.0 /"]);
    assert_eq!(scene.route("apps/root", 0, "ResolvedRefs"), "False BackendNotFound");
}

#[test]
fn a_child_with_hostnames_answers_500_where_it_would_serve_and_its_siblings_serve() {
    let mut broken = child("broken", json!([forward("/a/b"), forward("/b")]));
    broken["spec"]["hostnames"] = json!(["example.com"]);
    let mut scene = scene([root(json!([to("/a", &["*"])])), broken.clone(), child("child", json!([forward("/a")]))]);
    assert_eq!(routes(&scene), ["broken.0.0 /a/b 500", "child.0.0 /a"]);
    assert_eq!(scene.route("apps/broken", 0, "Accepted"), "False UnsupportedValue");
    assert_eq!(scene.route("apps/root", 0, "ResolvedRefs"), "True ResolvedRefs");
    // If no child serves, the parent's match does not either.
    scene.remove(child("child", json!([])));
    assert_eq!(routes(&scene), ["broken.0.0 /a/b 500", "root.0.0 /a 500"]);
}

#[test]
fn the_child_that_closes_a_circle_is_left_out_and_its_siblings_stay() {
    let scene = scene([
        root(json!([to("/a", &["child"])])),
        child("child", json!([to("/a", &["root", "sibling", "child"])])),
        child("sibling", json!([forward("/a/x")])),
    ]);
    assert_eq!(routes(&scene), ["sibling.0.0 /a/x"]);
    let message = scene.route_message("apps/child", 0, "ResolvedRefs");
    assert!(message.starts_with("False RefNotPermitted: "), "{message}");
    assert!(message.contains("apps/root rule 0 > apps/child rule 0 > apps/root"), "{message}");
    assert!(message.contains("apps/root rule 0 > apps/child rule 0 > apps/child"), "{message}");
    let scene = self::scene([root(json!([to("/a", &["root"])]))]);
    assert_eq!(routes(&scene), ["root.0.0 /a 500"]);
    // Under a word that means many a parent is not meant itself.
    let scene = self::scene([root(json!([to("/a", &["*"])])), child("child", json!([forward("/a/x")]))]);
    assert_eq!(scene.route("apps/root", 0, "ResolvedRefs"), "True ResolvedRefs");
}

#[test]
fn a_rule_with_delegates_and_backends_is_refused_as_a_rule() {
    let mut mixed = to("/a", &["child"]);
    mixed["backendRefs"].as_array_mut().expect("a list").push(json!({"name": "s", "port": 80}));
    let scene = scene([root(json!([mixed, forward("/b")])), child("child", json!([forward("/a/x")]))]);
    assert_eq!(routes(&scene), ["root.0.0 /a 500", "root.1.0 /b"]);
    assert_eq!(scene.route("apps/root", 0, "PartiallyInvalid"), "True UnsupportedValue");
}

#[test]
fn only_children_that_inherit_stand_below_a_match_that_is_no_prefix() {
    let rule = json!({"matches": [{"path": {"type": "RegularExpression", "value": "/v[0-9]"}}],
        "backendRefs": to("", &["child"])["backendRefs"]});
    let plain = child("child", json!([forward("/a")]));
    let mut scene = scene([root(json!([rule])), plain.clone()]);
    assert_eq!(routes(&scene), ["root.0.0 /v[0-9] 500"]);
    assert_eq!(scene.route("apps/root", 0, "kgateway.dev/Programmed"), "False RouteRuleReplaced");
    assert_eq!(scene.route("apps/child", 0, "Accepted"), "False NoMatchingParent");
    scene.put(annotated(plain, "delegation.kgateway.dev/inherit-parent-matcher", "true"));
    assert_eq!(routes(&scene), ["child.0.0 (?:/v[0-9])/a(/.*)?"]);
}

#[test]
fn a_child_that_inherits_has_a_route_for_each_match_of_its_parent() {
    let rule = json!({"matches": [prefix("/v1"), prefix("/v2")], "backendRefs": to("", &["child"])["backendRefs"]});
    let child =
        annotated(child("child", json!([forward("/a")])), "delegation.kgateway.dev/inherit-parent-matcher", "Yes");
    let scene = scene([root(json!([rule])), child]);
    assert_eq!(routes(&scene), ["child.0.0 /v1/a", "child.0.0/4 /v2/a"]);
}

#[test]
fn one_child_of_several_parents_has_an_entry_for_each() {
    let other = route("other", json!({"hostnames": ["other.example.com"], "rules": [to("/b", &["child"])]}));
    let scene =
        scene([root(json!([to("/a", &["child"])])), other, child("child", json!([forward("/a/x"), forward("/b/x")]))]);
    assert_eq!(scene.parents("apps/child"), 2);
    for parent in 0..2 {
        assert_eq!(scene.route("apps/child", parent, "Accepted"), "True Accepted");
        assert_eq!(scene.route("apps/child", parent, "PartiallyInvalid"), "True UnsupportedValue");
    }
}

#[test]
fn routes_are_sorted_by_their_own_matches_then_by_weight_then_by_age() {
    let aged = |name: &str, second: u8, weight: &str| {
        let mut child = annotated(child(name, json!([forward("/a")])), "kgateway.dev/route-weight", weight);
        child["metadata"]["creationTimestamp"] = json!(format!("2026-01-01T00:00:0{second}Z"));
        child
    };
    let children = [aged("young", 5, "0"), aged("old", 1, "0"), aged("heavy", 9, "10"), aged("nonsense", 2, "10.5")];
    let scene = scene(children.into_iter().chain([root(json!([to("/a", &["*"]), forward("/a/b")]))]));
    assert_eq!(routes(&scene), ["root.1.0 /a/b", "heavy.0.0 /a", "old.0.0 /a", "nonsense.0.0 /a", "young.0.0 /a"]);
    assert!(scene.route_message("apps/nonsense", 0, "Accepted").contains("10.5"), "a weight that is none is told");
}

#[test]
fn a_label_selects_in_the_parents_namespace_and_wakes_with_it() {
    let mut scene = scene([root(json!([to_label("/a", "shop")])), child("child", json!([forward("/a/x")]))]);
    assert_eq!(routes(&scene), ["root.0.0 /a 500"]);
    scene.put(labelled(child("child", json!([forward("/a/x")])), "shop"));
    assert_eq!(routes(&scene), ["child.0.0 /a/x"]);
    scene.put(labelled(child("child", json!([forward("/a/x")])), "other"));
    assert_eq!(routes(&scene), ["root.0.0 /a 500"]);
}

#[test]
fn a_tree_has_a_bound_and_others_do_not_feel_it() {
    let mut settings = ir::Settings::default();
    settings.delegation.max_matches = 10;
    let other = route("other", json!({"hostnames": ["other.example.com"], "rules": [to("/", &["leaf"])]}));
    let base =
        [gateway("edge", json!([http("web", 80, "")])), service("s"), other, child("leaf", json!([forward("/x")]))];
    // Four routes that each delegate to all of them: 4, then 12, then 24 chains.
    let all = (0..4).map(|index| child(&format!("all{index}"), json!([to("/", &["*"])])));
    let wild = route(
        "wild",
        json!({"hostnames": ["wild.example.com"], "rules": [to("/", &["all0", "all1", "all2", "all3"])]}),
    );
    let scene = Scene::with(settings, base.into_iter().chain(all).chain([wild]));
    let told = (0..4).map(|parent| scene.route_message("apps/leaf", parent + 1, "Accepted"));
    let told: Vec<_> = told.collect();
    assert!(told.iter().any(|told| told.contains("share of the 10 that a tree of routes may have")), "{told:?}");
    assert_eq!(scene.route("apps/other", 0, "ResolvedRefs"), "True ResolvedRefs");
    assert_eq!(scene.hosts("http/80")["other.example.com"].len(), 1);
}

#[test]
fn a_child_that_is_too_large_takes_nothing_from_its_siblings() {
    let mut settings = ir::Settings::default();
    settings.delegation.max_matches = 10;
    let large = |count: usize| child("large", (0..count).map(|at| forward(&format!("/a/{at}"))).collect());
    let base = [
        gateway("edge", json!([http("web", 80, "")])),
        service("s"),
        root(json!([to("/a", &["large"]), to("/b", &["small"])])),
        child("small", json!([forward("/b/1"), forward("/b/2")])),
    ];
    let mut scene = Scene::with(settings, base.into_iter().chain([large(7)]));
    assert_eq!(routes(&scene).len(), 9);
    scene.put(large(9));
    // As many again as are served may answer 500.
    let served = routes(&scene);
    assert_eq!(served.iter().filter(|route| route.starts_with("large") && route.ends_with(" 500")).count(), 9);
    let others: Vec<_> = served.iter().filter(|route| !route.starts_with("large")).collect();
    assert_eq!(others, ["small.0.0 /b/1", "small.1.0 /b/2", "root.0.0 /a 500"]);
    let told = scene.route_message("apps/large", 0, "Accepted");
    assert!(told.starts_with("False UnsupportedValue: its matches,") && told.contains("so they answer 500"), "{told}");
    assert_eq!(scene.route("apps/root", 0, "ResolvedRefs"), "True ResolvedRefs");
    assert_eq!(scene.route("apps/small", 0, "Accepted"), "True Accepted");
    // Beyond that nothing of it is placed, and what is left of the parent's match answers.
    scene.put(large(11));
    assert_eq!(routes(&scene), ["small.0.0 /b/1", "small.1.0 /b/2", "root.0.0 /a 500"]);
    let told = scene.route_message("apps/large", 0, "Accepted");
    assert!(
        told.starts_with("False UnsupportedValue: ") && told.contains("what is left of the parent's match"),
        "{told}"
    );
}

#[test]
fn a_tree_is_as_deep_as_is_allowed() {
    let mut settings = ir::Settings::default();
    settings.delegation.max_depth = 2;
    let chain = [
        root(json!([to("/", &["c1"])])),
        child("c1", json!([to("/", &["c2"])])),
        child("c2", json!([forward("/two"), to("/", &["c3"])])),
        child("c3", json!([forward("/three")])),
    ];
    let base = [gateway("edge", json!([http("web", 80, "")])), service("s")];
    let scene = Scene::with(settings, base.into_iter().chain(chain));
    assert_eq!(routes(&scene), ["c3.0.0 /three 500", "c2.0.0 /two", "c2.1.0 / 500"]);
    assert_eq!(scene.route("apps/c3", 0, "Accepted"), "False UnsupportedValue");
}

#[test]
fn what_a_child_does_not_say_is_its_parents() {
    let mut rule = to("/a", &["child"]);
    rule["timeouts"] = json!({"request": "5s"});
    rule["filters"] =
        json!([{"type": "RequestHeaderModifier", "requestHeaderModifier": {"set": [{"name": "x", "value": "1"}]}}]);
    let scene = scene([root(json!([rule])), child("child", json!([forward("/a/x")]))]);
    let config = scene.resource("infra/edge", envoy::ResourceKind::RouteConfiguration, "http/80").expect("routes");
    let route = &config["virtualHosts"][0]["routes"][0];
    assert_eq!(route["route"]["timeout"], json!("5s"));
    assert_eq!(route["requestHeadersToAdd"][0]["header"], json!({"key": "x", "value": "1"}));
}

#[test]
fn a_route_that_names_no_parent_is_anybodys_child_unless_settings_say_otherwise() {
    let foreign = |parents: Value| {
        let mut child = child("foreign", json!([forward("/a/x")]));
        child["metadata"]["namespace"] = json!("other");
        child["spec"]["parentRefs"] = parents;
        child
    };
    let rule = json!({"matches": [prefix("/a")], "backendRefs": [{"group": GROUP, "kind": "HTTPRoute", "name": "*", "namespace": "other"}]});
    let objects =
        |parents: Value| [gateway("edge", json!([http("web", 80, "")])), root(json!([rule])), foreign(parents)];
    let scene = Scene::new(objects(json!([])));
    assert_eq!(scene.route("apps/root", 0, "ResolvedRefs"), "True ResolvedRefs");
    assert!(scene.route_message("apps/root", 0, "Accepted").contains("name no parent"), "the parent is warned");
    let naming = json!([{"group": GROUP, "kind": "HTTPRoute", "name": "root", "namespace": "apps"}]);
    let scene = Scene::new(objects(naming.clone()));
    assert!(!scene.route_message("apps/root", 0, "Accepted").contains("name no parent"), "it asked for it");

    let mut settings = ir::Settings::default();
    settings.delegation.consent = ir::settings::Consent::CrossNamespaceExplicit;
    let scene = Scene::with(settings.clone(), objects(json!([])));
    assert_eq!(routes(&scene), ["root.0.0 /a 500"]);
    assert_eq!(scene.parents("other/foreign"), 0);
    let scene = Scene::with(settings, objects(naming));
    assert_eq!(scene.route("other/foreign", 0, "Accepted"), "True Accepted");
}

#[test]
fn the_word_that_means_all_namespaces_is_a_setting() {
    let mut foreign = labelled(child("foreign", json!([forward("/a/x")])), "shop");
    foreign["metadata"]["namespace"] = json!("other");
    let everywhere = |word: &str| {
        let mut rule = to_label("/a", "shop");
        rule["backendRefs"][0]["namespace"] = json!(word);
        root(json!([rule]))
    };
    let mut settings = ir::Settings::default();
    settings.delegation.wildcard_namespace = "everywhere".into();
    for (word, selected) in [("everywhere", "True ResolvedRefs"), ("all", "False BackendNotFound")] {
        let objects = [gateway("edge", json!([http("web", 80, "")])), everywhere(word), foreign.clone()];
        let scene = Scene::with(settings.clone(), objects);
        assert_eq!(scene.route("apps/root", 0, "ResolvedRefs"), selected, "{word}");
    }
}

#[test]
fn parents_for_whom_a_childs_status_has_no_room_are_told_themselves() {
    let parent = |at: usize| route(&format!("p{at:02}"), json!({"rules": [to(&format!("/{at}"), &["child"])]}));
    let inherits = |spec: Value| {
        let mut child =
            annotated(child("child", json!([forward("/")])), "delegation.kgateway.dev/inherit-parent-matcher", "true");
        if !spec.is_null() {
            child["spec"]["parentRefs"] = spec;
        }
        child
    };
    let mut scene = scene((0..34).map(parent).chain([inherits(json!(null))]));
    assert_eq!(scene.parents("apps/child"), 32);
    let told = |scene: &Scene, at: usize| {
        let message = scene.route_message(&format!("apps/p{at:02}"), 0, "Accepted");
        assert!(message.starts_with("True Accepted"), "{message}");
        message.contains("HTTPRoute apps/child;")
    };
    assert_eq!((0..34).filter(|at| told(&scene, *at)).collect::<Vec<_>>(), [32, 33]);
    // Those that it names come first.
    let named = (0..34).rev().map(|at| json!({"group": GROUP, "kind": "HTTPRoute", "name": format!("p{at:02}")}));
    scene.put(inherits(named.collect()));
    assert_eq!((0..34).filter(|at| told(&scene, *at)).collect::<Vec<_>>(), [0, 1]);
    for at in 2..4 {
        scene.remove(parent(at));
    }
    assert_eq!((0..34).filter(|at| *at < 2 || *at > 3).filter(|at| told(&scene, *at)).count(), 0);
    assert_eq!(scene.parents("apps/child"), 32);
}

#[test]
fn of_several_rules_of_a_parent_that_a_child_names_its_entry_has_one_that_selects_it() {
    let named = |name: &str, mut rule: Value| {
        rule["name"] = json!(name);
        rule
    };
    let mut both = child("child", json!([forward("/b")]));
    let parent = |rule: &str| json!({"group": GROUP, "kind": "HTTPRoute", "name": "root", "sectionName": rule});
    both["spec"]["parentRefs"] = json!([parent("one"), parent("two")]);
    let scene = scene([root(json!([named("one", forward("/a")), named("two", to("/b", &["child"]))])), both]);
    assert_eq!(routes(&scene), ["child.0.0 /b", "root.0.0 /a"]);
    assert_eq!(scene.parents("apps/child"), 1);
    assert_eq!(scene.parent_ref("apps/child", 0)["sectionName"], "two");
}

#[test]
fn of_many_matches_of_a_parent_a_childs_belongs_to_the_narrowest_that_holds_it() {
    let paths = ["/x/1", "/a/b", "/a", "/ab", "/a/b/", "/x", "/x/1/2"];
    let mut rule = to("/", &["child"]);
    rule["matches"] = paths.iter().map(|path| prefix(path)).collect();
    rule["matches"][2]["method"] = json!("GET");
    rule["matches"].as_array_mut().expect("a list").push(json!({"path": {"type": "Exact", "value": "/e"}}));
    let mut get = forward("/a/c");
    get["matches"][0]["method"] = json!("GET");
    let mut scene = scene([
        root(json!([rule])),
        child("child", json!([forward("/a/b/c"), forward("/a/c"), get, forward("/abc"), forward("/x/1/")])),
    ]);
    let served: Vec<_> = routes(&scene).into_iter().filter(|route| route.starts_with("child")).collect();
    // A slash at the end means two routes, the path itself and what lies below.
    assert_eq!(served, ["child.0.0 /a/b/c", "child.4.0 /x/1/", "child.2.0 /a/c", "child.4.0/1 /x/1"]);
    // What lies nowhere is told of the first.
    scene.put(child("child", json!([forward("/c")])));
    let told = scene.route_message("apps/child", 0, "Accepted");
    assert!(told.contains("leads out of the parent's, which is PathPrefix /x/1"), "{told}");
}

#[test]
fn where_consent_must_be_explicit_a_child_of_another_namespace_has_to_name_its_parent() {
    let mut settings = ir::Settings::default();
    settings.delegation.consent = ir::settings::Consent::CrossNamespaceExplicit;
    let foreign = |name: &str, parents: Value| {
        let mut foreign = child(name, json!([forward(&format!("/a/{name}"))]));
        foreign["metadata"]["namespace"] = json!("other");
        if !parents.is_null() {
            foreign["spec"]["parentRefs"] = parents;
        }
        foreign
    };
    let mut rule = to("/a", &["own"]);
    let all = json!({"group": GROUP, "kind": "HTTPRoute", "name": "*", "namespace": "other"});
    rule["backendRefs"].as_array_mut().expect("a list").push(all);
    let names = json!([{"group": GROUP, "kind": "HTTPRoute", "name": "root", "namespace": "apps"}]);
    let objects = [root(json!([rule])), child("own", json!([forward("/a/own")]))];
    let objects = objects.into_iter().chain([foreign("silent", json!(null)), foreign("asks", names)]);
    let base = [gateway("edge", json!([http("web", 80, "")])), service("s")];
    let scene = Scene::with(settings, base.into_iter().chain(objects.clone()));
    let reached = |scene: &Scene| {
        routes(scene).iter().filter_map(|route| route.split(' ').nth(1).map(str::to_owned)).collect::<Vec<_>>()
    };
    assert_eq!(reached(&scene), ["/a/asks", "/a/own"]);
    assert_eq!(scene.parents("other/silent"), 0);
    let scene = super::delegation::scene(objects);
    assert!(reached(&scene).contains(&"/a/silent".to_owned()));
    assert!(scene.route_message("apps/root", 0, "Accepted").contains("Warning"));
}

#[test]
fn a_reference_to_routes_has_no_filters_and_its_weight_counts_for_nothing() {
    let with = |field: &str, value: Value| {
        let mut rule = to("/a", &["child"]);
        rule["backendRefs"][0][field] = value;
        scene([root(json!([rule, forward("/")])), child("child", json!([forward("/a/x")]))])
    };
    let filters =
        json!([{"type": "RequestHeaderModifier", "requestHeaderModifier": {"set": [{"name": "x", "value": "1"}]}}]);
    assert_eq!(routes(&with("filters", filters)), ["root.0.0 /a 500", "root.1.0 /"]);
    let weighted = with("weight", json!(0));
    assert_eq!(routes(&weighted), ["child.0.0 /a/x", "root.1.0 /"]);
    assert!(weighted.problems().iter().any(|told| told.contains("backendRefs[0].weight")), "{:?}", weighted.problems());
}

#[test]
fn the_word_for_all_namespaces_is_a_setting_and_counts_for_labels_alone() {
    let mut settings = ir::Settings::default();
    settings.delegation.wildcard_namespace = "everywhere".into();
    let labelled = |namespace: &str| {
        let mut labelled = child("child", json!([forward("/a/x")]));
        labelled["metadata"]["namespace"] = json!(namespace);
        labelled["metadata"]["labels"] = json!({"delegation.kgateway.dev/label": "l"});
        labelled
    };
    let selecting = |namespace: &str| {
        let mut rule = to_label("/a", "l");
        rule["backendRefs"][0]["namespace"] = json!(namespace);
        let base = [gateway("edge", json!([http("web", 80, "")])), service("s"), root(json!([rule]))];
        Scene::with(settings.clone(), base.into_iter().chain([labelled("one"), labelled("two")]))
    };
    let count = |scene: &Scene| routes(scene).iter().filter(|route| route.contains("/a/x")).count();
    assert_eq!(count(&selecting("everywhere")), 2);
    assert_eq!(routes(&selecting("all")), ["root.0.0 /a 500"]);
}

#[test]
fn a_faulty_child_answers_before_what_is_left_of_its_parent() {
    let mut faulty = child("zz", json!([forward("/a")]));
    faulty["spec"]["hostnames"] = json!(["a.example.com"]);
    let scene = scene([root(json!([to("/a", &["zz"]), forward("/b")])), faulty]);
    assert_eq!(routes(&scene), ["root.1.0 /b", "zz.0.0 /a 500", "root.0.0 /a 500"]);
}

#[test]
fn what_is_left_of_a_parent_gives_way_to_what_is_served_below_it_and_to_nobody_else() {
    let below = |rules: Value| {
        let objects = [root(json!([to("/a", &["mid", "missing"]), forward("/a")])), child("mid", rules)];
        let leaves = [child("zz", json!([forward("/a")])), child("deep", json!([forward("/a/x")]))];
        routes(&scene(objects.into_iter().chain(leaves)))
    };
    // The rule of `mid` asks for no more, but nothing that stands below it does.
    let left = ["root.0.0 /a 500", "root.1.0 /a"];
    assert_eq!(below(json!([to("/a", &["deep"])])), ["deep.0.0 /a/x", left[0], left[1]]);
    let through = |names: &[&str]| json!([to("/a", names)]);
    assert!(is_before(&below(through(&["zz"])), "zz.0.0 /a", left[0]));
    assert!(is_before(&below(through(&["zz", "deep"])), "zz.0.0 /a", left[0]));
    // What `mid` answers itself counts as well.
    assert!(is_before(&below(through(&["gone"])), "mid.0.0 /a 500", left[0]));
    assert!(is_before(&below(through(&["deep", "gone"])), "mid.0.0 /a 500", left[0]));
}

#[test]
fn what_is_left_of_an_expression_stands_right_behind_what_is_narrower_below_it() {
    let expression = |pattern: &str| json!([{"path": {"type": "RegularExpression", "value": pattern}}]);
    let mut parent = to("/v", &["zz", "missing"]);
    parent["matches"] = expression("/v[0-9]");
    let mut other = forward("/v");
    other["matches"] = expression("/v.*");
    let below = |name: &str| {
        annotated(child(name, json!([forward("/x")])), "delegation.kgateway.dev/inherit-parent-matcher", "yes")
    };
    let broader = |weight: &str| annotated(root(json!([parent, other])), "kgateway.dev/route-weight", weight);
    let narrow = "zz.0.0 (?:/v[0-9])/x(/.*)?";
    let left = "root.0.0 /v[0-9] 500";
    let both = |weight| routes(&scene([broader(weight), below("zz")]));
    assert!(is_before(&both("0"), narrow, left), "{:?}", both("0"));
    assert!(is_before(&both("-1"), left, "root.1.0 /v.*"), "{:?}", both("-1"));
}

fn is_before(routes: &[String], first: &str, second: &str) -> bool {
    let place = |name: &str| routes.iter().position(|route| route == name);
    place(first).is_some_and(|first| place(second).is_some_and(|second| first < second))
}
