//! The examples of EP-10943, retyped.

use super::*;

fn ask(scene: &Scene, host: &str, path: &str) -> String {
    scene.told(&Request::get(host, path))
}

#[test]
fn a_parent_delegates_a_path_to_a_child_by_name() {
    let scene = Scene::new(
        "
{route: infra/root, hostnames: [example.com], rules: [{path: /team1, to: a/child}]}
---
{route: a/child, rules: [{path: /team1/anything}]}
",
    );
    scene.expect(&[
        ("/team1/anything", "a/child 0.0"),
        ("/team1/anything/else", "a/child 0.0"),
        ("/team1/anythings", "nothing"),
        ("/team1", "nothing"),
        ("/team10/anything", "nothing"),
    ]);
    let outcome = scene.ask(&Request::get("example.com", "/team1/anything"));
    let Outcome::Route(taken) = &outcome else { panic!("{outcome}") };
    let chain: Vec<_> = taken.chain.iter().map(ToString::to_string).collect();
    assert_eq!(chain, ["infra/root/0/0", "a/child/0/0"]);
    assert_eq!(ask(&scene, "other.com", "/team1/anything"), "nothing");
}

#[test]
fn an_asterisk_or_no_name_takes_every_route_of_a_namespace() {
    for name in ["'a/*'", "a/"] {
        let scene = Scene::new(&format!(
            "
{{route: infra/root, rules: [{{path: /team1, to: {name}}}]}}
---
{{route: a/child1, rules: [{{path: /team1/foo}}]}}
---
{{route: a/child2, rules: [{{path: /team1/bar}}]}}
---
{{route: b/child3, rules: [{{path: /team1/baz}}]}}
"
        ));
        scene.expect(&[("/team1/foo", "a/child1 0.0"), ("/team1/bar", "a/child2 0.0"), ("/team1/baz", "nothing")]);
    }
}

#[test]
fn a_label_takes_the_routes_that_have_it_in_one_namespace_or_in_all() {
    let scene = Scene::new(
        "
{route: infra/root, rules: [{path: /infra, labelled: /infra-routes}, {path: /a, labelled: a/a-routes}, {path: /all, labelled: all/all-routes}]}
---
{route: infra/child, labels: {delegation.kgateway.dev/label: infra-routes}, rules: [{path: /infra/1}]}
---
{route: a/child, labels: {delegation.kgateway.dev/label: a-routes}, rules: [{path: /a/1}, {path: /all/a}]}
---
{route: b/other, labels: {delegation.kgateway.dev/label: a-routes}, rules: [{path: /a/2}]}
---
{route: b/child, labels: {delegation.kgateway.dev/label: all-routes}, rules: [{path: /all/b}]}
",
    );
    scene.expect(&[
        ("/infra/1", "infra/child 0.0"),
        ("/a/1", "a/child 0.0"),
        ("/a/2", "nothing"),
        ("/all/a", "nothing"),
        ("/all/b", "b/child 0.0"),
    ]);
}

#[test]
fn children_may_have_several_parents_and_parents_several_children() {
    let scene = Scene::new(
        "
{route: infra/root-foo, hostnames: [foo.com], rules: [{path: /team1, to: 'a/*'}, {path: /team2, to: 'b/*'}]}
---
{route: infra/root-bar, hostnames: [bar.com], rules: [{path: /team1, to: 'a/*'}, {path: /team2, to: 'b/*'}]}
---
{route: a/child1, rules: [{path: /team1/foo}]}
---
{route: b/child2, rules: [{path: /team2/bar}]}
",
    );
    for (host, root) in [("foo.com", "root-foo"), ("bar.com", "root-bar")] {
        let outcome = scene.ask(&Request::get(host, "/team2/bar"));
        let Outcome::Route(taken) = &outcome else { panic!("{outcome}") };
        assert_eq!(taken.chain[0].route.name, root);
        assert_eq!(taken.chain[0].rule, 1);
        assert_eq!(ask(&scene, host, "/team2/bar"), "b/child2 0.0");
        assert_eq!(ask(&scene, host, "/team1/foo"), "a/child1 0.0");
    }
}

#[test]
fn children_delegate_further() {
    let scene = Scene::new(
        "
{route: infra/root, rules: [{path: /a, to: 'a/*'}]}
---
{route: a/route-a, rules: [{path: /a/b, to: b/route-a-b}]}
---
{route: b/route-a-b, rules: [{path: /a/b/1}, {path: /a/c}]}
",
    );
    scene.expect(&[("/a/b/1", "b/route-a-b 0.0"), ("/a/b", "nothing"), ("/a/c", "nothing")]);
}

#[test]
fn a_child_that_names_its_parents_is_no_other_parents() {
    let scene = Scene::new(
        "
{route: infra/root-foo, hostnames: [foo.com], rules: [{path: /team1, to: 'a/*'}]}
---
{route: infra/root-bar, hostnames: [bar.com], rules: [{path: /team1, to: 'a/*'}]}
---
{route: a/child, under: infra/root-foo, rules: [{path: /team1/anything}]}
",
    );
    assert_eq!(ask(&scene, "foo.com", "/team1/anything"), "a/child 0.0");
    assert_eq!(ask(&scene, "bar.com", "/team1/anything"), "infra/root-bar 0.0: 500");
}

#[test]
fn a_child_asks_for_all_that_its_parent_asks_for() {
    let scene = Scene::new(
        "
route: infra/root
rules:
- {}
- matches:
  - path: {type: PathPrefix, value: /a}
    headers: [{type: Exact, name: header1, value: val1}]
    queryParams: [{type: Exact, name: query1, value: val1}]
  to: a/*
---
route: a/route1
rules:
- matches:
  - path: {type: Exact, value: /a/1}
    headers: [{name: Header1, value: val1}, {name: headerX, value: valX}]
    queryParams: [{name: query1, value: val1}, {name: queryX, value: valX}]
---
route: a/route2
rules:
- matches:
  - path: {type: Exact, value: /a/2}
    headers: [{name: headerX, value: valX}]
    queryParams: [{name: queryX, value: valX}]
",
    );
    let request = |path: &str| {
        Request::get("example.com", &format!("{path}?query1=val1&queryX=valX"))
            .header("header1", "val1")
            .header("headerx", "valX")
    };
    assert_eq!(scene.told(&request("/a/1")), "a/route1 0.0");
    assert_eq!(scene.told(&request("/a/2")), "infra/root 0.0");
    scene.expect(&[("/a/1", "infra/root 0.0"), ("/x", "infra/root 0.0")]);
}

#[test]
fn a_child_that_inherits_its_parents_match_is_joined_with_it() {
    let scene = Scene::new(
        "
route: infra/root
rules:
- matches:
  - path: {type: PathPrefix, value: /a}
    method: GET
    headers: [{name: header1, value: val1}]
    queryParams: [{name: query1, value: val1}]
  to: a/*
---
route: a/child
annotations: {delegation.kgateway.dev/inherit-parent-matcher: 'true'}
rules:
- matches:
  - path: {type: Exact, value: /foo}
    method: PUT
    headers: [{name: headerA, value: valA}]
    queryParams: [{name: queryA, value: valA}]
",
    );
    let full = Request::get("example.com", "/a/foo?query1=val1&queryA=valA")
        .header("header1", "val1")
        .header("headerA", "valA");
    assert_eq!(scene.told(&full), "a/child 0.0");
    let without = Request { headers: full.headers[1..].to_vec(), ..full.clone() };
    assert_eq!(scene.told(&without), "nothing");
    let put = Request { method: "PUT".to_owned(), ..full.clone() };
    assert_eq!(scene.told(&put), "nothing");
    for path in ["/foo?query1=val1&queryA=valA", "/a/foo/x?query1=val1&queryA=valA", "/a/foo?queryA=valA"] {
        assert_eq!(scene.told(&Request { path: path.to_owned(), ..full.clone() }), "nothing", "{path}");
    }
}
