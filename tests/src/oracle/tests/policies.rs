//! What policies come to, by the examples of EP-10943 and of the documentation, and what generated worlds ask of that.

use std::collections::{BTreeMap, BTreeSet};

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use serde_json::json;

use super::*;
use crate::oracle::worlds::{Asked, Kind, fixtures, worlds};
use crate::oracle::{Held, Journey, Treatment};

/// The units that hold for a GET.
fn units(scene: &Scene, host: &str, path: &str) -> BTreeMap<&'static str, Held> {
    let asked =
        Asked { gateway: "infra/example-gateway", port: 80, request: Request::get(host, path), is_repeated: false };
    let Outcome::Route(taken) = scene.ask(&asked.request) else { panic!("no match takes {path}") };
    match scene.0.treat(&asked, &taken) {
        Treatment::Units(units) => units,
        closed => panic!("{closed:?}"),
    }
}

fn from(units: &BTreeMap<&'static str, Held>, unit: &str) -> String {
    let names = units[unit].from.iter().map(|name| name.trim_start_matches("TrafficPolicy ").to_owned());
    names.collect::<Vec<_>>().join(" and ")
}

/// A policy `NAMESPACE/NAME` on a route that has its name.
fn policy(name: &str, spec: &str) -> String {
    let (namespace, name) = name.split_once('/').expect("NAMESPACE/NAME");
    let target = format!("{{group: gateway.networking.k8s.io, kind: HTTPRoute, name: {name}}}");
    format!(
        "---\nkind: TrafficPolicy\nmetadata: {{namespace: {namespace}, name: {name}}}\nspec: {{targetRefs: [{target}], {spec}}}\n"
    )
}

#[test]
fn below_a_parent_that_prefers_itself_the_parent_holds_and_else_the_child() {
    let mut manifests = "
{route: infra/root-foo, hostnames: [foo.com], annotations: {kgateway.dev/inherited-policy-priority: ShallowMergePreferParent}, rules: [{path: /a, to: 'a/*'}]}
---
{route: infra/root-bar, hostnames: [bar.com], annotations: {kgateway.dev/inherited-policy-priority: ShallowMergePreferChild}, rules: [{path: /a, to: 'a/*'}]}
---
{route: a/child, rules: [{path: /a/foo}]}
"
    .to_owned();
    let both = "transformation: {request: {set: [{name: x-foo-req, value: abc}]}}, rateLimit: {local: {tokenBucket: {maxTokens: 1, tokensPerFill: 2, fillInterval: 3s}}}";
    manifests += &policy("infra/root-foo", both);
    manifests += &policy("infra/root-bar", both);
    manifests += &policy("a/child", "transformation: {response: {set: [{name: a-bar-resp, value: def}]}}");
    let scene = Scene::new(&manifests);
    let foo = units(&scene, "foo.com", "/a/foo");
    assert_eq!(
        (from(&foo, "transformation"), from(&foo, "rateLimit.local")),
        ("infra/root-foo".into(), "infra/root-foo".into())
    );
    assert_eq!(foo["transformation"].overridden, ["TrafficPolicy a/child".to_owned()].into());
    let bar = units(&scene, "bar.com", "/a/foo");
    assert_eq!(
        (from(&bar, "transformation"), from(&bar, "rateLimit.local")),
        ("a/child".into(), "infra/root-bar".into())
    );
}

#[test]
fn each_owner_of_an_upper_level_decides_for_all_that_is_below_it() {
    let mut manifests = "
{route: infra/root, annotations: {kgateway.dev/inherited-policy-priority: DeepMergePreferParent}, rules: [{path: /a, to: a/mid}]}
---
{route: a/mid, annotations: {kgateway.dev/inherited-policy-priority: DeepMerge}, rules: [{path: /a/b, to: b/leaf}]}
---
{route: b/leaf, rules: [{path: /a/b/c}]}
"
    .to_owned();
    let set = |name: &str, value: &str| format!("{{name: x-{name}, value: {value}}}");
    manifests += &policy(
        "infra/root",
        &format!("headerModifiers: {{request: {{set: [{}]}}}}, timeouts: {{request: 10s}}", set("a", "R")),
    );
    manifests += &policy("a/mid", "timeouts: {streamIdle: 5s}, cors: {allowOrigins: ['https://mid.example']}");
    manifests += &policy(
        "b/leaf",
        &format!(
            "headerModifiers: {{request: {{set: [{}, {}]}}}}, timeouts: {{request: 3s}}",
            set("a", "L"),
            set("b", "L")
        ),
    );
    let units = units(&Scene::new(&manifests), "example.com", "/a/b/c");
    let changes =
        json!([["request", "set", "x-a", "L"], ["request", "set", "x-b", "L"], ["request", "set", "x-a", "R"]]);
    assert_eq!(units["headerModifiers"].value, Some(changes));
    // What mid says of it is not heard below.
    assert_eq!(units["timeouts"].value, Some(json!({"request": "10s"})));
    assert_eq!(units["timeouts"].overridden, ["TrafficPolicy a/mid".to_owned()].into());
    assert_eq!(units["timeouts"].by, ["DeepMergePreferParent of HTTPRoute infra/root".to_owned()].into());
    assert_eq!(from(&units, "cors"), "a/mid");
}

#[test]
fn within_a_level_what_a_filter_names_goes_before_what_targets_the_rule_and_that_before_the_route() {
    let scene = Scene::new(
        "
route: infra/root
rules:
- {name: own, path: /a, filters: [{type: ExtensionRef, extensionRef: {group: gateway.kgateway.dev, kind: TrafficPolicy, name: named}}]}
---
kind: TrafficPolicy
metadata: {namespace: infra, name: named}
spec: {cors: {disable: {}}}
---
kind: TrafficPolicy
metadata: {namespace: infra, name: of-rule}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: root, sectionName: own}]
  cors: {disable: {}}
  statPrefix: rule
---
kind: TrafficPolicy
metadata: {namespace: infra, name: of-route, annotations: {kgateway.dev/policy-weight: '9'}}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: root}]
  statPrefix: route
  rateLimit: {local: {}}
",
    );
    let units = units(&scene, "example.com", "/a");
    let from = ["cors", "statPrefix", "rateLimit.local"].map(|unit| from(&units, unit));
    assert_eq!(from, ["infra/named", "infra/of-rule", "infra/of-route"]);
}

#[test]
fn generated_worlds_supply_override_and_merge_each_unit_and_clients_see_it() {
    let (strategy, mut runner) = (worlds(Kind::Policies), TestRunner::deterministic());
    let mut seen: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let (mut statuses, mut decided, mut closed) = (BTreeSet::new(), BTreeMap::<&str, usize>::new(), 0);
    for _ in 0..200 {
        let world = strategy.new_tree(&mut runner).expect("a world").current();
        let all: Vec<Value> = fixtures().into_iter().chain(world.manifests).collect();
        let oracle = Oracle::read(&all, &Settings::default()).expect("a world that the oracle knows");
        for asked in &world.requests {
            let outcome = oracle.ask(asked.gateway, asked.port, &asked.request);
            let Outcome::Route(taken) = &outcome else { continue };
            let Journey { treatment, sight, .. } = oracle.follow(asked, taken);
            statuses.extend(sight.status);
            for why in sight.why.into_iter().filter(|_| sight.status.is_some()) {
                *decided.entry(why).or_default() += 1;
            }
            let Treatment::Units(units) = treatment else {
                closed += 1;
                continue;
            };
            for (unit, held) in units {
                let seen = seen.entry(unit).or_default();
                seen.insert("supplied");
                seen.extend((!held.overridden.is_empty()).then_some("overridden"));
                seen.extend((held.from.len() > 1).then_some("merged"));
                seen.extend((!held.by.is_empty()).then_some("decided"));
            }
        }
    }
    let merged = [
        "acl",
        "cors",
        "csrf",
        "faultInjection",
        "headerModifiers",
        "internalRedirect",
        "retry",
        "timeouts",
        "tracing",
        "transformation",
    ];
    for (unit, seen) in &seen {
        let all = ["supplied", "overridden", "decided"].into_iter().chain(merged.contains(unit).then_some("merged"));
        assert_eq!(*seen, all.collect(), "{unit}");
    }
    assert_eq!(seen.len(), 18, "{:?}", seen.keys());
    for status in [200, 301, 302, 303, 307, 308, 401, 403, 404, 413, 429, 451, 500, 503, 504, 521] {
        assert!(statuses.contains(&status), "{status} is not in {statuses:?}");
    }
    for why in [
        "compressed",
        "nothing is accepted",
        "nothing compresses",
        "nothing that is accepted is offered",
        "the type is not compressed",
        "too short to be compressed",
        "late, and waited for",
        "later than the timeout of requests",
        "later than the timeout of streams",
        "no policy has redirects followed",
        "redirects of another status are followed",
        "the redirect changes the scheme",
        "the redirect is one too many",
        "the redirect leads to nothing",
        "the redirect names no host",
        "redirected",
        "redirected again",
    ] {
        assert!(decided.get(why).is_some_and(|count| *count >= 5), "{why:?} is rare in {decided:?}");
    }
    assert!(closed > 10, "{closed} requests meet what is closed");
}
