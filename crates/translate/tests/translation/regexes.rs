//! What regular expressions may cost the requests of a virtual host.

use envoy::ResourceKind;
use ir::GATEWAY_API;
use serde_json::{Value, json};

use super::scene::{Scene, forward, gateway, http, route, service};

/// Far too many states, and unbounded: it costs tens of milliseconds.
const SLOW: &str = "/x/.*a[ab]{300}c";

fn regex(pattern: &str) -> Value {
    json!({"path": {"type": "RegularExpression", "value": pattern}})
}

/// A rule with these matches.
fn rule(matches: &[Value]) -> Value {
    json!({"matches": matches, "backendRefs": [{"name": "s", "port": 80}]})
}

/// HTTPRoute `NAMESPACE/NAME` for `shop.example.com` and the listener's other names.
fn of(namespace: &str, name: &str, spec: Value) -> Value {
    let mut route = route(name, spec);
    route["metadata"]["namespace"] = json!(namespace);
    route
}

/// One of `count` expressions that every request meets, of some 140 us each.
fn ordinary(count: usize) -> Vec<Value> {
    (0..count).map(|index| rule(&[regex(&format!("/[^/]+/orders/{index}/.*"))])).collect()
}

fn on_shop(rules: &[Value]) -> Value {
    json!({"hostnames": ["shop.example.com"], "rules": rules})
}

fn scene(routes: impl IntoIterator<Item = Value>) -> Scene {
    let edge = gateway("edge", json!([http("http", 80, "")]));
    Scene::new([edge, service("s")].into_iter().chain(routes))
}

fn routes_of(scene: &Scene, namespace: &str) -> usize {
    let hosts = scene.hosts("http/80");
    hosts["shop.example.com"].iter().filter(|name| name.starts_with(&format!("{namespace}/"))).count()
}

fn problems(scene: &Scene, name: &str) -> Vec<String> {
    let of = |line: &String| line.starts_with(&format!("{name} ")) && line.contains("left out");
    scene.problems().into_iter().filter(of).collect()
}

#[test]
fn an_expression_that_costs_more_than_a_request_may_is_left_out_and_told() {
    let bad = rule(&[regex(SLOW)]);
    let scene = scene([of("evil", "bad", on_shop(&[bad, forward("/y")])), of("good", "good", on_shop(&ordinary(3)))]);
    assert_eq!((routes_of(&scene, "evil"), routes_of(&scene, "good")), (1, 3));
    let told = problems(&scene, "bad");
    assert_eq!(told.len(), 1, "{:?}", scene.problems());
    assert!(told[0].contains("spec.rules[0].matches") && told[0].contains("50ms"), "{told:?}");
    assert!(problems(&scene, "good").is_empty());
    let said = scene.route_message("evil/bad", 0, "PartiallyInvalid");
    assert!(said.contains("are left out, and their requests fall to broader routes, if any"), "{said}");
    assert!(scene.route("evil/bad", 0, "kgateway.dev/Programmed").starts_with("False"));
}

#[test]
fn headers_and_query_parameters_count_too() {
    let header = json!({"headers": [{"name": "x", "type": "RegularExpression", "value": ".*a[ab]{300}c"}]});
    let query = json!({"queryParams": [{"name": "x", "type": "RegularExpression", "value": ".*a[ab]{300}c"}]});
    for slow in [header, query] {
        let scene = scene([of("evil", "bad", on_shop(&[rule(&[slow])])), of("good", "good", on_shop(&ordinary(1)))]);
        assert_eq!((routes_of(&scene, "evil"), problems(&scene, "bad").len()), (0, 1));
    }
}

#[test]
fn who_has_too_many_has_his_youngest_left_out_and_nobody_else_does() {
    let good = of("good", "good", on_shop(&ordinary(20)));
    let without = scene([good.clone()]);
    let config =
        |scene: &Scene| scene.resource("infra/edge", ResourceKind::RouteConfiguration, "http/80").expect("routes");
    let of_good = |scene: &Scene| {
        let hosts = config(scene)["virtualHosts"].clone();
        let routes = hosts.as_array().into_iter().flatten().filter_map(|host| host["routes"].as_array().cloned());
        routes
            .flatten()
            .filter(|route| route["name"].as_str().is_some_and(|name| name.starts_with("good/")))
            .collect::<Vec<_>>()
    };
    let mut scene = without;
    let before = of_good(&scene);
    assert_eq!(before.len(), 20);
    for attack in 0..20 {
        scene.put(of("evil", &format!("bad-{attack:02}"), on_shop(&ordinary(16))));
    }
    assert_eq!(of_good(&scene), before, "nobody else moves by a byte");
    let served = routes_of(&scene, "evil");
    assert!((40..200).contains(&served), "{served}");
    assert!(problems(&scene, "bad-00").is_empty() && !problems(&scene, "bad-19").is_empty());
    assert!(problems(&scene, "good").is_empty());
    for attack in 0..20 {
        scene.remove(of("evil", &format!("bad-{attack:02}"), on_shop(&[])));
    }
    assert_eq!((routes_of(&scene, "evil"), problems(&scene, "good").len()), (0, 0));
}

#[test]
fn where_a_namespace_asks_for_too_much_a_change_costs_no_more_with_more_of_its_rules() {
    let [few, many] = [20, 60].map(|count| {
        let routes = (0..count).map(|at| of("evil", &format!("bad-{at:02}"), on_shop(&ordinary(16))));
        let mut scene = scene(routes);
        let last = format!("bad-{:02}", count - 1);
        assert!(!problems(&scene, &last).is_empty());
        // One fewer of those that are left out, and again as many.
        [15, 16].map(|rules| scene.put(of("evil", &last, on_shop(&ordinary(rules)))).computed)
    });
    assert_eq!(few, many, "rows for a change among 20 routes, and among 60");
}

#[test]
fn what_no_share_could_hold_is_left_out_and_takes_nothing_from_others() {
    // More than half of what there is for an exact hostname.
    let mut scene = scene([of("good", "good", on_shop(&ordinary(100)))]);
    assert_eq!(routes_of(&scene, "good"), 100);
    for attack in 0..5 {
        scene.put(of("evil", &format!("bad-{attack}"), on_shop(&[rule(&[regex(SLOW)])])));
    }
    assert_eq!((routes_of(&scene, "good"), routes_of(&scene, "evil")), (100, 0));
    assert!(problems(&scene, "good").is_empty() && !problems(&scene, "bad-0").is_empty());
}

#[test]
fn expressions_behind_different_prefixes_are_met_by_different_requests() {
    let many: Vec<_> = (0..600).map(|index| format!("/api/v1/thing-{index:03}/[^/]+/orders/.*")).collect();
    let routes = many.chunks(16).zip(0..).map(|(patterns, name)| {
        let rules: Vec<_> = patterns.iter().map(|pattern| rule(&[regex(pattern)])).collect();
        of("apps", &format!("r-{name:02}"), on_shop(&rules))
    });
    let scene = scene(routes);
    assert_eq!(routes_of(&scene, "apps"), 600, "{:?}", scene.problems().first());
}

#[test]
fn a_request_that_an_expression_cannot_take_is_not_held_against_it() {
    let header = json!({"headers": [{"name": "x", "type": "RegularExpression", "value": "a.*"}]});
    let mut below = header.clone();
    below["path"] = json!({"type": "PathPrefix", "value": "/shop"});
    let matches = [regex("/orders/[a-z]{1,50}"), regex("[^/]*/x"), below, header];
    let scene = scene([of("apps", "r", on_shop(&[rule(&matches)]))]);
    let config = scene.resource("infra/edge", ResourceKind::RouteConfiguration, "http/80").expect("routes");
    let guards: Vec<_> = config["virtualHosts"][0]["routes"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|route| route["match"]["headers"][0]["stringMatch"]["prefix"].as_str().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(guards, ["/orders/", "", "/shop", ""]);
}

#[test]
fn who_publishes_the_routes_of_others_pays_for_it() {
    let delegating = |namespace: &str| {
        let reference = json!({"group": GATEWAY_API, "kind": "HTTPRoute", "name": "child", "namespace": "victim"});
        of(
            namespace,
            "root",
            on_shop(&[
                json!({"matches": [{"path": {"type": "PathPrefix", "value": format!("/{namespace}")}}], "backendRefs": [reference]}),
            ]),
        )
    };
    let mut child = of("victim", "child", json!({"rules": [rule(&[regex("/[^/]+/[ab]*x.*")])]}));
    child["spec"].as_object_mut().expect("a spec").remove("parentRefs");
    child["metadata"]["annotations"] = json!({"delegation.kgateway.dev/inherit-parent-matcher": "true"});
    let own = of("victim", "own", on_shop(&ordinary(10)));
    let mut scene = scene([own, child, delegating("evil")]);
    let served = routes_of(&scene, "victim");
    for attack in 0..20 {
        scene.put(of("evil", &format!("bad-{attack:02}"), on_shop(&ordinary(16))));
    }
    assert_eq!(routes_of(&scene, "victim"), served);
    assert!(problems(&scene, "own").is_empty());
}

#[test]
fn a_rewrite_that_reads_a_path_again_and_again_is_replaced() {
    let policy = |pattern: &str| {
        json!({"apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "TrafficPolicy",
            "metadata": {"name": "p", "namespace": "apps"},
            "spec": {"targetRefs": [{"group": GATEWAY_API, "kind": "HTTPRoute", "name": "r"}],
                "urlRewrite": {"pathRegex": {"pattern": pattern, "substitution": "q"}}}})
    };
    let mut scene = scene([of("apps", "r", on_shop(&[forward("/")])), policy("^/service/([^/]+)(/.*)$")]);
    let replaced = |scene: &Scene| scene.problems().iter().any(|line| line.contains("begin it with ^"));
    assert!(!replaced(&scene));
    scene.put(policy("a.*z|a"));
    assert!(replaced(&scene), "{:?}", scene.problems());
    // Both owners are told: the policy's, and who is not served for it.
    let status = scene.status(api::Kind::TrafficPolicy, "apps/p");
    let accepted = &status["ancestors"][0]["conditions"][0];
    assert_eq!((&accepted["type"], &accepted["status"]), (&json!("Accepted"), &json!("False")), "{status}");
    let message = accepted["message"].as_str().expect("text");
    assert!(
        message.starts_with("spec.urlRewrite.pathRegex.pattern: ") && message.contains("begin it with ^"),
        "{message}"
    );
    let told = scene.route_message("apps/r", 0, "Accepted");
    assert!(told.contains("TrafficPolicy apps/p is not valid") && told.contains("begin it with ^"), "{told}");
    scene.put(policy("/anything/([0-9]+)/x"));
    assert!(!replaced(&scene), "{:?}", scene.problems());
}

/// Many states, each of which takes many steps to find; no two patterns are alike.
fn hostile(index: usize) -> String {
    format!("/[ab]{{0,80}}a[ab]{{80}}{index}")
}

/// How many expressions were looked at, and the steps which that took.
fn looked_at(scene: &Scene) -> (u64, u64) {
    let table = scene.0.stats().into_iter().find(|table| table.name == "MatchingTime").expect("a table");
    (table.computed_total, scene.0.matching_steps())
}

#[test]
fn what_it_takes_to_judge_a_rule_has_a_bound() {
    // 4,000 expressions: 64 matches with more than 60 each.
    let conditions = |matching: usize, list: usize| -> Vec<Value> {
        let pattern = |index: usize| hostile((matching * 2 + list) * 31 + index);
        let condition =
            |index| json!({"name": format!("x{index}"), "type": "RegularExpression", "value": pattern(index)});
        (0..31).map(condition).collect()
    };
    let matching = |at| json!({"headers": conditions(at, 0), "queryParams": conditions(at, 1)});
    let matches: Vec<_> = (0..64).map(matching).collect();
    let mut scene = scene([of("good", "good", on_shop(&ordinary(3)))]);
    let before = looked_at(&scene);
    scene.put(of("evil", "bad", on_shop(&[rule(&matches), forward("/y")])));
    let after = looked_at(&scene);
    let steps = after.1 - before.1;
    assert!((100_000..600_000).contains(&steps), "{steps} steps for {} expressions", after.0 - before.0);
    assert_eq!((routes_of(&scene, "evil"), routes_of(&scene, "good")), (1, 3));
    let told = scene.problems();
    assert!(told.iter().any(|line| line.contains("too complex, to find out what they cost")), "{told:?}");
    // What is known of an expression is not found out again.
    scene.put(of("evil", "bad", on_shop(&[forward("/y"), rule(&matches)])));
    assert_eq!(looked_at(&scene), after);
    scene.remove(of("evil", "bad", json!({})));
    assert_eq!(looked_at(&scene).1, before.1, "and kept no longer than somebody has it");
}

#[test]
fn an_expression_is_judged_once_wherever_it_is_served() {
    let redirects = |matches: &[Value]| {
        json!({"matches": matches,
            "filters": [{"type": "RequestRedirect", "requestRedirect": {"hostname": "elsewhere.example.com"}}]})
    };
    let listeners: Vec<_> = (0..5).map(|at| http(&format!("l{at}"), 8000 + at, "")).collect();
    let matches: Vec<_> = (0..8).map(|index| regex(&format!("/orders/{index}/[a-z]{{1,50}}"))).collect();
    let mut scene = Scene::new([gateway("edge", json!(listeners)), service("s")]);
    for name in ["r", "again"] {
        scene.put(of("apps", name, on_shop(&[redirects(&matches)])));
        assert_eq!(looked_at(&scene).0, 8);
    }
}
