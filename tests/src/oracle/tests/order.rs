//! Which of several matches goes first in a tree.

use super::*;

const BY_WEIGHT: &str = "
---
kind: DelegationPolicy
metadata: {namespace: infra, name: p}
spec: {targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: root}], sortMethod: TableWeight}
";

const TWO_TABLES: &str = "
{route: infra/root, rules: [{path: /www, to: 'a/*'}, {path: /}]}
---
{route: a/one, annotations: {kgateway.dev/route-weight: '100'}, rules: [{path: /www/api}, {path: /www}]}
---
{route: a/two, annotations: {kgateway.dev/route-weight: '90'}, rules: [{path: /www/api/deep}]}
";

#[test]
fn by_specificity_the_longer_path_goes_first_whatever_the_weight() {
    Scene::new(TWO_TABLES).expect(&[
        ("/www/api/deep", "a/two 0.0"),
        ("/www/api", "a/one 0.0"),
        ("/www", "a/one 1.0"),
        ("/", "infra/root 1.0"),
    ]);
}

#[test]
fn by_weight_the_heavier_child_goes_first_whatever_the_path() {
    Scene::new(&format!("{TWO_TABLES}{BY_WEIGHT}")).expect(&[
        ("/www/api/deep", "a/one 0.0"),
        ("/www", "a/one 1.0"),
        ("/", "infra/root 1.0"),
    ]);
}

#[test]
fn weights_decide_ties_of_specificity_then_age_then_name() {
    let scene = Scene::new(
        "
{route: infra/root, rules: [{path: /, to: 'a/*'}]}
---
{route: a/old, created: '1', rules: [{path: /x}, {path: /y}, {path: /z}]}
---
{route: a/light, created: '2', annotations: {kgateway.dev/route-weight: '-1'}, rules: [{path: /x}]}
---
{route: a/heavy, created: '3', annotations: {kgateway.dev/route-weight: '7'}, rules: [{path: /y}]}
---
{route: a/nonsense, created: '1', annotations: {kgateway.dev/route-weight: '99999999999'}, rules: [{path: /z}]}
---
{route: a/light-too, created: '2', annotations: {kgateway.dev/route-weight: '-1'}, rules: [{path: /x}, {path: /z}]}
",
    );
    scene.expect(&[("/x", "a/old 0.0"), ("/y", "a/heavy 0.0"), ("/z", "a/nonsense 0.0")]);
}

#[test]
fn between_roots_the_older_root_goes_first_whatever_the_leaves() {
    let scene = Scene::new(
        "
{route: infra/root-b, created: '1', rules: [{path: /x, to: a/young}]}
---
{route: infra/root-a, created: '2', rules: [{path: /x, to: a/old}]}
---
{route: a/young, created: '9', rules: [{path: /x}]}
---
{route: a/old, created: '0', annotations: {kgateway.dev/route-weight: '9'}, rules: [{path: /x}]}
",
    );
    scene.expect(&[("/x", "a/young 0.0")]);
}

#[test]
fn by_weight_equal_children_stand_in_the_order_of_their_references_and_keep_their_rules_in_order() {
    let scene = Scene::new(&format!(
        "
{{route: infra/root, rules: [{{path: /, to: [b/two, a/one, 'a/*']}}]}}
---
{{route: a/one, created: '2', rules: [{{path: /x}}, {{path: /y}}, {{path: /y/y}}]}}
---
{{route: b/two, created: '3', rules: [{{path: /x}}]}}
---
{{route: a/three, created: '1', rules: [{{path: /y}}, {{path: /z}}]}}
{BY_WEIGHT}"
    ));
    scene.expect(&[("/x", "b/two 0.0"), ("/y/y", "a/one 1.0"), ("/z", "a/three 1.0")]);
}

#[test]
fn by_weight_the_group_takes_the_place_of_the_parents_match() {
    let scene = Scene::new(&format!(
        "
{{route: infra/root, created: '2', rules: [{{path: /a, to: a/one}}, {{path: /a/x}}, {{matches: [{{path: {{type: Exact, value: /a/y}}}}]}}]}}
---
{{route: infra/root-old, created: '1', rules: [{{path: /a}}]}}
---
{{route: a/one, rules: [{{path: /a/x/long}}, {{path: /a/z}}]}}
{BY_WEIGHT}"
    ));
    scene.expect(&[
        ("/a/x/long", "infra/root 1.0"),
        ("/a/y", "infra/root 2.0"),
        // The older root's `/a` goes before the group, which stands where `/a` of this one does.
        ("/a/z", "infra/root-old 0.0"),
    ]);
}

#[test]
fn below_a_parent_by_weight_a_grandchild_stands_where_its_rule_does() {
    let nested = |more: &str| {
        Scene::new(&format!(
            "
{{route: infra/root, rules: [{{path: /a, to: 'a/*'}}]}}
---
{{route: a/one, annotations: {{kgateway.dev/route-weight: '5'}}, rules: [{{path: /a/1}}, {{path: /a/2, to: 'b/*'}}, {{path: /a/2/x}}]}}
---
{{route: a/two, rules: [{{path: /a}}]}}
---
{{route: b/p, annotations: {{kgateway.dev/route-weight: '5'}}, rules: [{{path: /a/2/x}}]}}
---
{{route: b/q, rules: [{{path: /a/2/x/y}}, {{path: /a/2/z}}]}}
{BY_WEIGHT}{more}"
        ))
    };
    nested("").expect(&[
        ("/a/1", "a/one 0.0"),
        // The nested parent sorts by specificity.
        ("/a/2/x/y", "b/q 0.0"),
        ("/a/2/x", "b/p 0.0"),
        ("/a/2/z", "b/q 1.0"),
        ("/a/2", "a/two 0.0"),
    ]);
    let by_weight_too = BY_WEIGHT.replace("name: root}", "name: one}").replace("namespace: infra", "namespace: a");
    nested(&by_weight_too).expect(&[("/a/2/x/y", "b/p 0.0"), ("/a/2/z", "b/q 1.0")]);
}

#[test]
fn by_weight_the_500_for_what_is_missing_stands_behind_the_whole_group() {
    let scene = Scene::new(&format!(
        "
{{route: infra/root, annotations: {{kgateway.dev/route-weight: '9'}}, rules: [{{path: /a, to: [a/missing, a/one]}}, {{path: /}}]}}
---
{{route: a/one, rules: [{{path: /a}}]}}
{BY_WEIGHT}"
    ));
    scene.expect(&[("/a", "a/one 0.0"), ("/", "infra/root 1.0")]);
}

#[test]
fn the_older_of_two_policies_counts_and_one_for_the_rule_before_one_for_the_route() {
    let world = |first: &str, second: &str| {
        Scene::new(&format!(
            "
{{route: infra/root, rules: [{{name: r, path: /www, to: 'a/*'}}]}}
---
{{route: a/one, annotations: {{kgateway.dev/route-weight: '100'}}, rules: [{{path: /www}}]}}
---
{{route: a/two, rules: [{{path: /www/api}}]}}
---
kind: DelegationPolicy
metadata: {{namespace: infra, name: older, creationTimestamp: '1'}}
spec: {{targetRefs: [{{name: root{first}}}], sortMethod: TableWeight}}
---
kind: DelegationPolicy
metadata: {{namespace: infra, name: younger, creationTimestamp: '2'}}
spec: {{targetRefs: [{{name: root{second}}}]}}
"
        ))
    };
    world("", "").expect(&[("/www/api", "a/one 0.0")]);
    world("", ", sectionName: r").expect(&[("/www/api", "a/two 0.0")]);
    world(", sectionName: r", "").expect(&[("/www/api", "a/one 0.0")]);
}
