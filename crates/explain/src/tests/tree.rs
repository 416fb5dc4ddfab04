//! The tree as people see it.

use ir::GATEWAY_API;
use serde_json::{Value, json};
use translate::testing::scene::{Scene, child, forward, gateway, http, route, service, to};

use crate::tree::tree;

fn scene(listeners: Value, objects: impl IntoIterator<Item = Value>) -> Scene {
    Scene::new([gateway("edge", listeners), service("s")].into_iter().chain(objects))
}

fn text(scene: &Scene) -> String {
    tree(&scene.0).to_string()
}

#[test]
fn a_tree_goes_from_the_gateway_to_the_leaves() {
    let scene = scene(
        json!([http("web", 80, "*.example.com"), http("other", 81, "")]),
        [
            route("root", json!({"hostnames": ["a.example.com"], "rules": [to("/a", &["child"]), forward("/b")]})),
            child("child", json!([forward("/a/x"), to("/a/y", &["leaf"])])),
            child("leaf", json!([forward("/a/y"), forward("/elsewhere")])),
        ],
    );
    assert_eq!(
        text(&scene),
        "\
Gateway infra/edge
  listener web (HTTP 80, *.example.com)
    HTTPRoute apps/root for a.example.com
      rule 0: PathPrefix /a -> children
        backendRefs[0], HTTPRoute apps/child
          HTTPRoute apps/child
            rule 0: PathPrefix /a/x -> Service apps/s port 80
            rule 1: PathPrefix /a/y -> children
              backendRefs[0], HTTPRoute apps/leaf
                HTTPRoute apps/leaf
                  rule 0: PathPrefix /a/y -> Service apps/s port 80
                  rule 1: PathPrefix /elsewhere -> left out: the path leads out of the parent's, which is PathPrefix /a/y
      rule 1: PathPrefix /b -> Service apps/s port 80
  listener other (HTTP 81, *)
    HTTPRoute apps/root for a.example.com: as at listener web
"
    );
}

#[test]
fn what_is_missing_or_broken_is_told_where_it_stands() {
    let mut hostnames = child("hostnames", json!([forward("/c/x")]));
    hostnames["spec"]["hostnames"] = json!(["x.example.com"]);
    let mut broken = forward("/b/x");
    broken["filters"] = json!([{"type": "ExtensionRef", "extensionRef": {"group": "x.dev", "kind": "Y", "name": "z"}}]);
    let scene = scene(
        json!([http("web", 80, "")]),
        [
            route(
                "root",
                json!({"rules": [
                    to("/a", &["missing", "child"]),
                    to("/b", &["broken"]),
                    to("/c", &["hostnames"]),
                    to("/d", &["child"]),
                    to("/e", &["root"]),
                ]}),
            ),
            child("child", json!([forward("/a/x")])),
            child("broken", json!([broken])),
            hostnames,
        ],
    );
    let text = text(&scene);
    for line in [
        "      rule 0: PathPrefix /a -> children, else 500",
        "        ! BackendNotFound: spec.rules[0].backendRefs[0].name: HTTPRoute apps/missing does not exist; create it, \
         or correct the name (HTTPRoute apps/root)",
        "        backendRefs[0], HTTPRoute apps/missing: nobody",
        "            rule 0: PathPrefix /b/x -> 500 \"invalid route configuration: replaced by a direct response\"",
        "          HTTPRoute apps/hostnames: replaced",
        "            ! UnsupportedValue: spec.hostnames: a route that others delegate to is served for the hostnames of \
         their root; remove them here (HTTPRoute apps/hostnames)",
        "      rule 3: PathPrefix /d -> 404",
        "          HTTPRoute apps/child: left out",
        "      rule 4: PathPrefix /e -> 500",
        "          HTTPRoute apps/root: left out, since it stands above",
    ] {
        assert!(text.lines().any(|other| other == line), "{line}\nin\n{text}");
    }
}

#[test]
fn who_does_not_consent_is_not_named() {
    let mut other = child("secretive", json!([forward("/a/x")]));
    other["spec"]["parentRefs"] = json!([{"group": GATEWAY_API, "kind": "HTTPRoute", "name": "another"}]);
    let scene = scene(
        json!([http("web", 80, "")]),
        [route("root", json!({"rules": [to("/a", &["*"])]})), other, child("child", json!([forward("/a/y")]))],
    );
    let tree = tree(&scene.0);
    let (text, json) = (tree.to_string(), serde_json::to_string(&tree).expect("JSON"));
    assert!(text.contains("HTTPRoute apps/child\n"), "{text}");
    assert!(!text.contains("secretive") && !json.contains("secretive"), "{text}");
}

/// `/a` is for `other/child`, or for all routes of that namespace.
fn of_another_namespace(named: &str) -> Scene {
    let mut rule = to("/a", &[named]);
    rule["backendRefs"][0]["namespace"] = json!("other");
    scene(json!([http("web", 80, "")]), [route("root", json!({"rules": [rule]}))])
}

/// HTTPRoute `other/child`, with these parents.
fn foreign(parents: &[&str]) -> Value {
    let mut foreign = child("child", json!([forward("/a/x")]));
    foreign["metadata"]["namespace"] = json!("other");
    let names = parents
        .iter()
        .map(|name| json!({"group": GATEWAY_API, "kind": "HTTPRoute", "namespace": "apps", "name": name}));
    foreign["spec"]["parentRefs"] = names.collect();
    foreign
}

#[test]
fn whether_a_route_of_another_namespace_exists_is_told_only_if_it_consents() {
    let mut scene = of_another_namespace("child");
    let absent = text(&scene);
    scene.put(foreign(&["another"]));
    assert_eq!(text(&scene), absent);
    scene.put(foreign(&["root"]));
    assert!(text(&scene).contains("HTTPRoute other/child\n"), "{}", text(&scene));
}

#[test]
fn who_is_published_without_having_asked_for_it_is_told() {
    let mut scene = of_another_namespace("*");
    scene.put(foreign(&[]));
    let told = "! PublishedUnasked: spec.parentRefs: HTTPRoute apps/root";
    assert!(text(&scene).contains(told), "{}", text(&scene));
    scene.put(foreign(&["root"]));
    assert!(!text(&scene).contains("PublishedUnasked"), "{}", text(&scene));
}

#[test]
fn a_child_that_a_rule_selects_twice_is_told_of_once() {
    let scene = scene(
        json!([http("web", 80, "")]),
        [route("root", json!({"rules": [to("/a", &["child", "child"])]})), child("child", json!([forward("/a/y")]))],
    );
    let text = text(&scene);
    assert!(
        text.contains("        backendRefs[1], HTTPRoute apps/child\n          HTTPRoute apps/child: as above\n"),
        "{text}"
    );
}

#[test]
fn listeners_and_routes_that_are_not_served_say_why() {
    let mut detached = route("detached", json!({"hostnames": ["other.org"]}));
    detached["spec"]["parentRefs"][0]["sectionName"] = json!("web");
    let mut unserved = http("tcp", 81, "");
    unserved["protocol"] = json!("SCTP");
    let scene = scene(json!([http("web", 80, "a.example.com"), unserved]), [detached]);
    let text = text(&scene);
    assert!(text.contains("  listener tcp ( 81, *), not served\n    ! "), "{text}");
    assert!(
        text.contains("  attached to no listener\n    ! NoMatchingListenerHostname: spec.parentRefs[0]: "),
        "{text}"
    );
    assert!(text.contains("(HTTPRoute apps/detached)"), "{text}");
}

#[test]
fn the_policies_in_force_are_told_of_each_listener_with_their_fields() {
    let policy = |name: &str, spec: Value| {
        let mut policy = json!({"apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "ListenerPolicy",
            "metadata": {"name": name, "namespace": "infra"}, "spec": spec});
        policy["spec"]["targetRefs"] = json!([{"group": GATEWAY_API, "kind": "Gateway", "name": "edge"}]);
        policy
    };
    let of_all =
        json!({"default": {"proxyProtocol": {}, "httpSettings": {"serverName": "shop", "maxHeadersCount": 9}}});
    let of_one = json!({"perPort": [{"port": 81, "listener": {"httpSettings": {"serverName": "own"}}}]});
    let listeners = json!([http("web", 80, ""), http("other", 81, "")]);
    let mut first = policy("of-one", of_one);
    first["metadata"]["annotations"] = json!({"kgateway.dev/policy-weight": "1"});
    let scene = scene(listeners, [policy("of-all", of_all), first, route("r", json!({"rules": [forward("/")]}))]);
    let all = "    ListenerPolicy infra/of-all: ";
    let text = text(&scene);
    let web = format!(
        "  listener web (HTTP 80, *)\n{all}proxyProtocol, httpSettings.maxHeadersCount, httpSettings.serverName\n"
    );
    assert!(text.contains(&web), "{text}");
    let other = format!(
        "  listener other (HTTP 81, *)\n{all}proxyProtocol, httpSettings.maxHeadersCount\n    \
         ListenerPolicy infra/of-one: httpSettings.serverName\n"
    );
    assert!(text.contains(&other), "{text}");
    let told = super::get(&scene, "http://x.org/").to_string();
    assert!(told.contains(&format!("\n       {all}proxyProtocol, ")), "{told}");
}

#[test]
fn as_json_the_tree_has_the_same() {
    let scene = scene(
        json!([http("web", 80, "")]),
        [route("root", json!({"rules": [to("/a", &["child"])]})), child("child", json!([forward("/a/x")]))],
    );
    let json = serde_json::to_value(tree(&scene.0)).expect("JSON");
    let root = &json["gateways"][0]["listeners"][0]["routes"][0];
    assert_eq!(root["route"], "apps/root");
    assert_eq!(root["hostnames"], json!(["*"]));
    let child = &root["rules"][0]["references"][0]["children"][0];
    assert_eq!(child["route"], "apps/child");
    assert_eq!(child["state"], "served");
    assert_eq!(
        child["rules"][0]["matches"],
        json!([{"match": 0, "written": "PathPrefix /a/x", "answer":
            {"kind": "backends", "backends": [{"service": "apps/s", "port": 80, "weight": 1}]}}])
    );
}

#[test]
fn whose_fields_of_policies_hold_is_told_of_each_rule_in_each_place() {
    let policy = |name: &str, target: &str, seconds: u32| {
        json!({
            "apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "TrafficPolicy",
            "metadata": {"namespace": "apps", "name": name},
            "spec": {
                "targetRefs": [{"group": GATEWAY_API, "kind": "HTTPRoute", "name": target}],
                "timeouts": {"request": format!("{seconds}s")}, "buffer": {"maxRequestSize": seconds},
            },
        })
    };
    let root = |name: &str, path: &str| route(name, json!({"rules": [to(path, &["leaf"])]}));
    let mut strict = root("strict", "/a/strict");
    strict["metadata"]["annotations"] = json!({"kgateway.dev/inherited-policy-priority": "DeepMergePreferParent"});
    let leaf = child("leaf", json!([forward("/a/strict/x"), forward("/a/plain/x")]));
    let objects = [root("plain", "/a/plain"), strict, leaf, policy("own", "leaf", 1), policy("above", "strict", 2)];
    let text = text(&scene(json!([http("web", 80, "")]), objects));
    for line in [
        "timeouts, from TrafficPolicy apps/own and TrafficPolicy apps/above, by DeepMergePreferParent of HTTPRoute apps/strict\n",
        "buffer, from TrafficPolicy apps/above, not TrafficPolicy apps/own, by DeepMergePreferParent of HTTPRoute apps/strict\n",
        "buffer, from TrafficPolicy apps/own\n",
    ] {
        assert!(text.contains(line), "{line}{text}");
    }
}
