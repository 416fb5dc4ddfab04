//! What a parent's match and its children's become, row by row of the table of outcomes.

use super::*;

#[test]
fn a_child_that_fits_is_served_and_the_parents_rule_itself_serves_nothing() {
    let scene = Scene::new(
        "
{route: infra/root, rules: [{path: /a, to: a/child}, {path: /}]}
---
{route: a/child, rules: [{path: /a/b}, {path: /a/bad, backendRefs: [{name: missing, port: 1}]}]}
",
    );
    scene.expect(&[
        ("/a/b", "a/child 0.0"),
        ("/a/bad", "a/child 1.0: 500"),
        ("/a", "infra/root 1.0"),
        ("/a/x", "infra/root 1.0"),
    ]);
}

#[test]
fn a_reference_that_selects_nobody_makes_the_parents_match_answer_500() {
    for (reference, child) in [
        ("to: a/missing", "a/child"),
        ("to: 'b/*'", "a/child"),
        ("labelled: all/nobody", "a/child"),
        // It is there, but belongs to another parent.
        ("to: a/child", "a/child, under: infra/other"),
        ("to: 'a/*'", "a/child, under: infra/other"),
        ("labelled: a/v", "a/child, under: infra/other"),
        // The parent itself does not count.
        ("to: 'infra/*'", "a/child"),
        ("labelled: infra/v", "a/child"),
    ] {
        let scene = Scene::new(&format!(
            "
{{route: infra/root, labels: {{delegation.kgateway.dev/label: v}}, rules: [{{path: /a, {reference}}}, {{path: /}}]}}
---
{{route: {child}, labels: {{delegation.kgateway.dev/label: v}}, rules: [{{path: /a/b}}]}}
"
        ));
        scene.expect(&[("/a/b", "infra/root 0.0: 500"), ("/a", "infra/root 0.0: 500"), ("/ab", "infra/root 1.0")]);
    }
}

#[test]
fn consent_may_name_the_rule() {
    let scene = Scene::new(
        "
{route: infra/root, rules: [{name: one, path: /a, to: a/child}, {name: two, path: /b, to: a/child}, {path: /c, to: a/child}]}
---
route: a/child
parentRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: infra, name: root, sectionName: two}]
rules: [{path: /a}, {path: /b}, {path: /c}]
",
    );
    scene.expect(&[("/a", "infra/root 0.0: 500"), ("/b", "a/child 1.0"), ("/c", "infra/root 2.0: 500")]);
}

#[test]
fn consent_across_namespaces_can_be_made_explicit() {
    let settings = Settings { explicit_across_namespaces: true, ..Settings::default() };
    let scene = Scene::with(
        "
{route: infra/root, rules: [{path: /a, to: a/silent}, {path: /b, to: a/naming}, {path: /c, to: infra/own}]}
---
{route: a/silent, rules: [{path: /a}]}
---
{route: a/naming, under: infra/root, rules: [{path: /b}]}
---
{route: infra/own, rules: [{path: /c}]}
",
        &settings,
    );
    scene.expect(&[("/a", "infra/root 0.0: 500"), ("/b", "a/naming 0.0"), ("/c", "infra/own 0.0")]);
}

#[test]
fn children_of_which_no_match_lies_inside_leave_a_404() {
    let scene = Scene::new(
        "
route: infra/root
rules:
- {matches: [{path: {value: /a}}, {path: {value: /b}}, {path: {value: /c}, method: PUT}], to: a/child}
- path: /
---
{route: a/child, rules: [{path: /ab}, {path: /b/x}, {path: /c}]}
",
    );
    scene.expect(&[
        ("/a/x", "infra/root 0.0: 404"),
        ("/ab", "infra/root 1.0"),
        ("/b/x", "a/child 1.0"),
        ("/b", "infra/root 1.0"),
        ("/c", "infra/root 1.0"),
    ]);
    let put = Request { method: "PUT".to_owned(), ..Request::get("example.com", "/c") };
    assert_eq!(scene.told(&put), "infra/root 0.2: 404");
}

#[test]
fn what_is_missing_beside_children_that_fit_answers_500_behind_them() {
    for reference in ["[a/child, a/missing]", "[b/missing, a/child]", "[a/child, 'b/*']", "[a/child, a/foreign]"] {
        let scene = Scene::new(&format!(
            "
{{route: infra/root, created: '1', rules: [{{path: /a, to: {reference}}}, {{path: /}}]}}
---
{{route: a/child, created: '2', rules: [{{path: /a/b}}]}}
---
{{route: a/foreign, under: infra/other, rules: [{{path: /a/f}}]}}
"
        ));
        scene.expect(&[("/a/b", "a/child 0.0"), ("/a/f", "infra/root 0.0: 500"), ("/a", "infra/root 0.0: 500")]);
        // The parent is older, and yet its 500 gives way to the same match of a child.
        let scene = Scene::new(&format!(
            "
{{route: infra/root, created: '1', rules: [{{path: /a/, to: {reference}}}]}}
---
{{route: a/child, created: '2', rules: [{{path: /a}}, {{path: /a/}}]}}
---
{{route: a/foreign, under: infra/other, rules: [{{path: /a/f}}]}}
"
        ));
        scene.expect(&[("/a", "a/child 0.0"), ("/a/f", "a/child 1.0")]);
    }
}

#[test]
fn a_child_with_a_fault_of_its_own_answers_500_where_it_fits() {
    let scene = Scene::new(
        "
{route: infra/root, rules: [{path: /a, to: [a/faulty, a/sound]}, {path: /b, to: a/faulty}, {path: /}]}
---
{route: a/faulty, hostnames: [example.com], rules: [{path: /a/f}, {path: /b/f, to: a/sound}, {path: /c/f}]}
---
{route: a/sound, rules: [{path: /a}, {path: /b/f/g}]}
",
    );
    scene.expect(&[
        ("/a/f/x", "a/faulty 0.0: 500"),
        ("/a/x", "a/sound 0.0"),
        ("/b/f", "a/faulty 1.0: 500"),
        ("/b/f/g", "a/faulty 1.0: 500"),
        ("/b/x", "infra/root 1.0: 500"),
        ("/c/f", "infra/root 2.0"),
    ]);
}

#[test]
fn a_child_below_the_depth_bound_answers_500() {
    let scene = |depth| {
        Scene::with(
            "
{route: infra/root, rules: [{path: /a, to: a/one}]}
---
{route: a/one, rules: [{path: /a/1, to: a/two}]}
---
{route: a/two, rules: [{path: /a/1/2}]}
",
            &Settings { depth, ..Settings::default() },
        )
    };
    scene(2).expect(&[("/a/1/2", "a/two 0.0"), ("/a/1", "nothing")]);
    scene(1).expect(&[("/a/1/2", "a/two 0.0: 500"), ("/a/1", "a/one 0.0: 500"), ("/a", "nothing")]);
}

#[test]
fn a_child_in_a_namespace_that_is_not_allowed_is_left_out() {
    let scene = Scene::new(
        "
{route: infra/root, rules: [{path: /a, to: [a/child, b/child]}, {path: /b, to: b/child}, {path: /}]}
---
{route: a/child, rules: [{path: /a/1, to: b/child}]}
---
{route: b/child, rules: [{path: /a/1}, {path: /a/2}, {path: /b}]}
---
kind: DelegationPolicy
metadata: {namespace: infra, name: p}
spec: {targetRefs: [{name: root}], allowedChildren: {namespaces: {names: [a, infra]}}}
",
    );
    scene.expect(&[
        ("/a/1", "a/child 0.0: 500"),
        ("/a/2", "infra/root 2.0"),
        ("/b", "infra/root 1.0: 500"),
        ("/x", "infra/root 2.0"),
    ]);
}

#[test]
fn a_backend_of_a_child_that_is_not_allowed_is_none() {
    let scene = Scene::new(
        "
{route: infra/root, rules: [{path: /a, to: 'a/*'}]}
---
{route: a/child, rules: [{path: /a/1}, {path: /a/2, backendRefs: [{name: other, port: 1}]}]}
---
{kind: Service, metadata: {name: other, namespace: a}}
---
kind: DelegationPolicy
metadata: {namespace: infra, name: p}
spec: {targetRefs: [{name: root}], allowedChildren: {backends: [{kind: Service, name: svc}]}}
",
    );
    scene.expect(&[("/a/1", "a/child 0.0"), ("/a/2", "a/child 1.0: 500")]);
}

#[test]
fn a_child_that_names_a_parent_which_never_selects_it_is_not_served() {
    let scene = Scene::new(
        "
{route: infra/root, rules: [{path: /}]}
---
{route: a/child, under: infra/root, rules: [{path: /a}]}
",
    );
    scene.expect(&[("/a", "infra/root 0.0")]);
}

#[test]
fn a_route_that_closes_a_cycle_is_left_out_and_its_siblings_stay() {
    let scene = Scene::new(
        "
{route: infra/root, rules: [{path: /a, to: a/one}, {path: /self, to: infra/root}, {path: /}]}
---
{route: a/one, rules: [{path: /a/1, to: a/two}, {path: /a/2, to: [a/two, b/sound]}, {path: /a/3, to: a/one}]}
---
{route: a/two, rules: [{path: /a/1, to: a/one}, {path: /a/2, to: [a/one, b/sound]}]}
---
{route: b/sound, rules: [{path: /a/2/x}]}
",
    );
    scene.expect(&[
        ("/a/1/x", "a/two 0.0: 500"),
        ("/a/2/x", "b/sound 0.0"),
        ("/a/2", "infra/root 2.0"),
        ("/a/3", "a/one 2.0: 500"),
        ("/self", "infra/root 1.0: 500"),
    ]);
}

#[test]
fn below_an_asterisk_ancestors_close_cycles_and_the_parent_itself_does_not_count() {
    let scene = Scene::new(
        "
{route: infra/root, rules: [{path: /a, to: a/one}]}
---
{route: a/one, rules: [{path: /a, to: a/two}]}
---
{route: a/two, rules: [{path: /a, to: 'a/*'}]}
---
{route: a/three, rules: [{path: /a/3}]}
",
    );
    scene.expect(&[("/a/3", "a/three 0.0"), ("/a", "nothing")]);
}

#[test]
fn matchers_that_contradict_leave_that_match_of_the_child_out() {
    let scene = Scene::new(
        "
route: infra/root
rules:
- matches: [{path: {value: /a}, method: GET, headers: [{name: x-h, value: '1'}]}]
  to: a/child
- path: /
---
route: a/child
rules:
- matches:
  - {path: {value: /a/1}, method: POST, headers: [{name: x-h, value: '1'}]}
  - {path: {value: /a/2}, method: GET, headers: [{name: x-h, value: '2'}]}
  - {path: {value: /a/3}, method: GET, headers: [{name: x-h, value: '1', type: RegularExpression}]}
  - {path: {value: /a/4}, headers: [{name: x-h, value: '1'}]}
  - {path: {value: /a/5}, method: GET, headers: [{name: X-H, value: '1'}]}
",
    );
    for (path, method, header, expected) in [
        ("/a/1", "POST", "1", "infra/root 1.0"),
        ("/a/1", "GET", "1", "infra/root 1.0"),
        ("/a/2", "GET", "2", "infra/root 1.0"),
        ("/a/3", "GET", "1", "infra/root 1.0"),
        ("/a/4", "GET", "1", "infra/root 1.0"),
        ("/a/5", "GET", "1", "a/child 0.4"),
    ] {
        let request = Request { method: method.to_owned(), ..Request::get("example.com", path) };
        assert_eq!(scene.told(&request.header("x-h", header)), expected, "{path} {method}");
    }
}

#[test]
fn a_rule_that_crosses_the_bound_of_matches_answers_500_and_other_roots_stay() {
    let manifests = "
{route: infra/root-a, rules: [{path: /a, to: 'a/*'}, {path: /}]}
---
{route: infra/root-b, rules: [{path: /b, to: 'b/*'}]}
---
{route: a/one, rules: [{path: /a/1}, {path: /a/2}]}
---
{route: a/two, rules: [{path: /a/3}]}
---
{route: b/one, rules: [{path: /b/1}, {path: /b/2}]}
";
    let scene = |matches| Scene::with(manifests, &Settings { matches, ..Settings::default() });
    scene(4).expect(&[("/a/1", "a/one 0.0"), ("/a/3", "a/two 0.0"), ("/b/1", "b/one 0.0")]);
    scene(2).expect(&[("/a/1", "infra/root-a 0.0: 500"), ("/x", "infra/root-a 1.0"), ("/b/2", "b/one 1.0")]);
}

#[test]
fn a_rule_with_children_and_backends_answers_500() {
    let scene = Scene::new(
        "
route: infra/root
rules:
- path: /a
  backendRefs:
  - {group: gateway.networking.k8s.io, kind: HTTPRoute, name: child, namespace: a}
  - {name: svc, port: 8080}
- path: /b
  backendRefs:
  - {group: gateway.networking.k8s.io, kind: HTTPRoute, name: child, namespace: a, filters: [{type: URLRewrite}]}
---
{route: a/child, rules: [{path: /a/b}, {path: /b}]}
",
    );
    scene.expect(&[("/a/b", "infra/root 0.0: 500"), ("/b", "infra/root 1.0: 500")]);
}

#[test]
fn a_match_that_is_no_prefix_has_children_only_if_they_inherit_it() {
    let scene = Scene::new(
        "
route: infra/root
rules:
- {matches: [{path: {type: Exact, value: /a}}], to: [a/plain]}
- {matches: [{path: {type: Exact, value: /b}}], to: [b/inherits]}
- {matches: [{path: {type: RegularExpression, value: '/v[0-9]'}}], to: [b/inherits]}
- {matches: [{path: {type: Exact, value: /c}}], to: [b/deeper]}
---
{route: a/plain, rules: [{path: /a}]}
---
route: b/inherits
annotations: {delegation.kgateway.dev/inherit-parent-matcher: Enabled}
rules: [{path: /x}, {matches: [{path: {type: Exact, value: /y}}]}, {matches: [{path: {type: Exact, value: /}}]}]
---
{route: b/deeper, annotations: {delegation.kgateway.dev/inherit-parent-matcher: 'YES'}, rules: [{path: /x}]}
",
    );
    scene.expect(&[
        ("/a", "infra/root 0.0: 500"),
        ("/b", "b/inherits 2.0"),
        ("/b/x", "nothing"),
        ("/v1/x", "b/inherits 0.0"),
        ("/v1/x/z", "b/inherits 0.0"),
        ("/v1/xz", "nothing"),
        ("/v1/y", "b/inherits 1.0"),
        ("/v1/y/z", "nothing"),
        ("/v1", "b/inherits 2.0"),
        ("/c", "infra/root 3.0: 404"),
    ]);
}

#[test]
fn a_child_that_inherits_is_joined_with_one_slash_at_each_level() {
    let scene = Scene::new(
        "
{route: infra/root, rules: [{path: /a/, to: a/one}]}
---
{route: a/one, annotations: {delegation.kgateway.dev/inherit-parent-matcher: 'true'}, rules: [{path: /b/, to: 'b/*'}]}
---
route: b/two
annotations: {delegation.kgateway.dev/inherit-parent-matcher: 'true'}
rules:
- {}
- {path: /c}
- {matches: [{path: {type: RegularExpression, value: '/[0-9]+|/x(/.*)?'}}]}
- {matches: [{path: {type: RegularExpression, value: 'z.*'}}]}
---
{route: b/three, rules: [{path: /a/b/d}, {path: /c/d}, {path: /a/x}]}
---
{route: b/four, annotations: {delegation.kgateway.dev/inherit-parent-matcher: nonsense}, rules: [{path: /e}, {path: /a/b/e}]}
",
    );
    scene.expect(&[
        ("/a/b/k", "b/two 0.0"),
        ("/a/b", "b/two 0.0"),
        ("/a/b/c/k", "b/two 1.0"),
        ("/a/b/12", "b/two 2.0"),
        ("/a/b/x/k", "b/two 2.0"),
        ("/a/bz", "nothing"),
        ("/a/b/d", "b/three 0.0"),
        ("/a/x", "nothing"),
        ("/c/d", "nothing"),
        ("/a/b/e", "b/four 1.0"),
    ]);
}

#[test]
fn a_regular_expression_is_served_where_it_never_leaves_its_parents_path() {
    let scene = Scene::new(
        "
{route: infra/root, rules: [{path: /a, to: a/child}, {path: /}]}
---
route: a/child
rules:
- matches:
  - path: {type: RegularExpression, value: '/a/[0-9]+'}
  - path: {type: RegularExpression, value: '/a.*'}
  - path: {type: RegularExpression, value: '/a/x|/admin'}
  - path: {type: RegularExpression, value: '(?i)/a/y'}
",
    );
    scene.expect(&[
        ("/a/12", "a/child 0.0"),
        ("/admin", "infra/root 1.0"),
        ("/a/x", "infra/root 1.0"),
        ("/a/y", "infra/root 1.0"),
    ]);
    let scene = Scene::new(
        "
{route: infra/root, rules: [{path: /, to: a/child}]}
---
{route: a/child, rules: [{matches: [{path: {type: RegularExpression, value: '(?i)/y'}}, {path: {value: /z}}]}]}
",
    );
    scene.expect(&[("/y", "nothing"), ("/z", "a/child 0.1")]);
}
