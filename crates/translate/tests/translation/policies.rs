//! Policies: where they are attached, which of several counts, and what a broken one does.

#![allow(clippy::needless_pass_by_value, reason = "callers write values in place")]

use api::Kind;
use envoy::ResourceKind;
use ir::Reason;
use serde_json::{Value, json};

use super::scene::{Scene, gateway, http, https, route, secret, service};
use translate::Changes;

const GROUP: &str = "gateway.networking.k8s.io";

/// A policy of `apps`.
pub(super) fn policy(kind: &str, name: &str, spec: Value) -> Value {
    let is_own = ["RewritePolicy", "DelegationPolicy"].contains(&kind);
    let group = if is_own { "gateway.portcullis.dev" } else { "gateway.kgateway.dev" };
    json!({"apiVersion": format!("{group}/v1alpha1"), "kind": kind,
        "metadata": {"name": name, "namespace": "apps", "generation": 7}, "spec": spec})
}

/// A TrafficPolicy that has every path begin with `/NAME`.
fn traffic(name: &str, targets: Value) -> Value {
    let regex = json!({"pattern": "^", "substitution": format!("/{name}")});
    policy("TrafficPolicy", name, with(targets, json!({"urlRewrite": {"pathRegex": regex}})))
}

/// A RewritePolicy with these entries.
fn rewrite(name: &str, targets: Value, entries: Value) -> Value {
    policy("RewritePolicy", name, with(targets, json!({"replacePrefix": entries})))
}

pub(super) fn with(mut object: Value, more: Value) -> Value {
    if let (Value::Object(object), Value::Object(more)) = (&mut object, more) {
        object.extend(more);
    }
    object
}

pub(super) fn at(kind: &str, name: &str) -> Value {
    json!({"targetRefs": [{"group": GROUP, "kind": kind, "name": name}]})
}

pub(super) fn at_section(kind: &str, name: &str, section: &str) -> Value {
    json!({"targetRefs": [{"group": GROUP, "kind": kind, "name": name, "sectionName": section}]})
}

fn by_label(labels: Value) -> Value {
    json!({"targetSelectors": [{"group": GROUP, "kind": "HTTPRoute", "matchLabels": labels}]})
}

fn aged(mut object: Value, second: u8) -> Value {
    object["metadata"]["creationTimestamp"] = json!(format!("2026-01-01T00:00:0{second}Z"));
    object
}

fn annotated(mut object: Value, name: &str, value: &str) -> Value {
    object["metadata"]["annotations"][name] = json!(value);
    object
}

fn labelled(mut object: Value, labels: Value) -> Value {
    object["metadata"]["labels"] = labels;
    object
}

/// A rule below a prefix.
fn rule(path: &str, more: Value) -> Value {
    with(json!({"matches": [prefix(path)], "backendRefs": [{"name": "s", "port": 80}]}), more)
}

fn prefix(path: &str) -> Value {
    json!({"path": {"type": "PathPrefix", "value": path}})
}

/// A rule that delegates to a route of `apps`.
fn to(path: &str, child: &str, more: Value) -> Value {
    rule(path, with(json!({"backendRefs": [{"group": GROUP, "kind": "HTTPRoute", "name": child}]}), more))
}

fn child(name: &str, rules: Value) -> Value {
    let mut child = route(name, json!({"rules": rules}));
    child["spec"].as_object_mut().expect("a spec").remove("parentRefs");
    child
}

fn extension(kind: &str, name: &str) -> Value {
    let group = if kind == "RewritePolicy" { "gateway.portcullis.dev" } else { "gateway.kgateway.dev" };
    json!({"filters": [{"type": "ExtensionRef", "extensionRef": {"group": group, "kind": kind, "name": name}}]})
}

fn scene(objects: impl IntoIterator<Item = Value>) -> Scene {
    let base = [gateway("edge", json!([http("web", 80, "")])), service("s")];
    Scene::new(base.into_iter().chain(objects))
}

/// The paths of all routes in the order in which they are tried, each with what becomes of it.
fn paths(scene: &Scene) -> Vec<String> {
    let config = scene.resource("infra/edge", ResourceKind::RouteConfiguration, "http/80").expect("routes");
    let hosts = config["virtualHosts"].as_array().into_iter().flatten();
    let mut all = Vec::new();
    for route in hosts.filter_map(|host| host["routes"].as_array()).flatten() {
        let found = ["pathSeparatedPrefix", "prefix", "path"].iter().find_map(|kind| route["match"][kind].as_str());
        let path = found.or(route["match"]["safeRegex"]["regex"].as_str()).expect("a path");
        let to = &route["route"];
        let becomes = match (&route["directResponse"]["status"], &to["prefixRewrite"], &to["regexRewrite"]) {
            (Value::Null, Value::Null, Value::Null) => "as it is".into(),
            (Value::Null, Value::Null, regex) => regex["substitution"].as_str().expect("text").to_owned(),
            (Value::Null, prefix, _) => prefix.as_str().expect("text").to_owned(),
            (status, ..) => status.to_string(),
        };
        all.push(format!("{path} {becomes}"));
    }
    all
}

/// The conditions of the ancestors of a policy: object, type, status, reason and, if asked for, message.
fn conditions(scene: &Scene, kind: Kind, name: &str, with_message: bool) -> Vec<String> {
    let status = scene.status(kind, &format!("apps/{name}"));
    let mut all = Vec::new();
    for ancestor in status["ancestors"].as_array().into_iter().flatten() {
        assert_eq!(ancestor["controllerName"], "portcullis.dev/gateway-controller");
        for condition in ancestor["conditions"].as_array().into_iter().flatten() {
            let text = |value: &Value| value.as_str().expect("text").to_owned();
            let message = if with_message { format!(": {}", text(&condition["message"])) } else { String::new() };
            all.push(format!(
                "{} {}={} {}{message}",
                text(&ancestor["ancestorRef"]["name"]),
                text(&condition["type"]),
                text(&condition["status"]),
                text(&condition["reason"])
            ));
        }
    }
    all
}

fn said(scene: &Scene, name: &str) -> Vec<String> {
    let traffic = conditions(scene, Kind::TrafficPolicy, name, false);
    if traffic.is_empty() { conditions(scene, Kind::RewritePolicy, name, false) } else { traffic }
}

#[test]
fn no_policy_and_no_filter_of_a_route_changes_a_byte_of_a_listener() {
    let listeners = json!([http("http", 80, ""), https("https", 443, "", "cert")]);
    let rule = |filters: Value| json!({"rules": [{"filters": filters, "backendRefs": [{"name": "s", "port": 80}]}]});
    let plain = route("r", rule(json!([])));
    let mut scene = Scene::new([gateway("edge", listeners), secret("cert"), service("s"), plain.clone()]);
    let cors = json!([{"type": "CORS", "cors": {"allowOrigins": ["*"]}}]);
    let buffer =
        policy("TrafficPolicy", "refused", with(at("Gateway", "edge"), json!({"buffer": {"maxRequestSize": "1Ki"}})));
    let changes = [
        route("r", rule(cors)),
        traffic("on-route", at("HTTPRoute", "r")),
        rewrite("prefixes", at("HTTPRoute", "r"), json!([{"prefix": "/", "replacement": "/new"}])),
        json!({"apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "TrafficPolicy",
            "metadata": {"name": "wide", "namespace": "infra"},
            "spec": {"targetRefs": [{"group": GROUP, "kind": "Gateway", "name": "edge"}],
                "urlRewrite": {"pathRegex": {"pattern": "^", "substitution": "/wide"}}}}),
        buffer,
    ];
    let mut changed = 0;
    for object in changes {
        let changes = scene.put(object.clone());
        let kinds: Vec<_> = changes.resources.iter().map(|(key, _)| key.kind).collect();
        assert!(!kinds.contains(&ResourceKind::Listener), "{object}");
        changed += usize::from(kinds.contains(&ResourceKind::RouteConfiguration));
    }
    assert!(changed >= 3, "the policies did nothing");
}

#[test]
fn a_policy_is_attached_to_a_route_or_to_one_rule_of_it() {
    let rules = json!([rule("/a", json!({"name": "first"})), rule("/b", json!({}))]);
    let mut scene = scene([route("r", json!({"rules": rules})), traffic("p", at("HTTPRoute", "r"))]);
    assert_eq!(paths(&scene), ["/a /p", "/b /p"]);
    assert_eq!(said(&scene, "p"), ["edge Accepted=True Valid", "edge Attached=True Attached"]);
    scene.put(traffic("p", at_section("HTTPRoute", "r", "first")));
    assert_eq!(paths(&scene), ["/a /p", "/b as it is"]);
    scene.put(traffic("p", at("HTTPRoute", "other")));
    assert_eq!(paths(&scene), ["/a as it is", "/b as it is"]);
    assert_eq!(
        conditions(&scene, Kind::TrafficPolicy, "p", true),
        [
            "other Accepted=False TargetNotFound: spec.targetRefs[0].name: HTTPRoute apps/other does not exist; create it, \
          or correct the name"
        ]
    );
    scene.put(traffic("p", at_section("HTTPRoute", "r", "gone")));
    assert_eq!(said(&scene, "p"), ["r Accepted=False TargetNotFound"]);
    let told = scene.put(route("r", json!({"rules": [rule("/a", json!({"name": "gone"}))]})));
    assert_eq!(paths(&scene), ["/a /p"]);
    assert!(told.statuses.iter().any(|id| id.kind == Kind::TrafficPolicy), "{told:?}");
}

#[test]
fn a_policy_selects_routes_of_its_namespace_by_their_labels() {
    let mut scene = scene([
        route("r", json!({"rules": [rule("/a", json!({}))]})),
        traffic("p", by_label(json!({"team": "a", "tier": "web"}))),
    ]);
    let with_labels = |labels| labelled(route("r", json!({"rules": [rule("/a", json!({}))]})), labels);
    assert_eq!(paths(&scene), ["/a as it is"]);
    scene.put(with_labels(json!({"team": "a"})));
    assert_eq!(paths(&scene), ["/a as it is"]);
    scene.put(with_labels(json!({"team": "a", "tier": "web", "other": "x"})));
    assert_eq!(paths(&scene), ["/a /p"]);
    scene.put(traffic("p", by_label(json!({}))));
    scene.put(with_labels(json!({})));
    assert_eq!(paths(&scene), ["/a /p"]);
    let mut elsewhere = traffic("p", by_label(json!({})));
    elsewhere["metadata"]["namespace"] = json!("other");
    scene.put(elsewhere);
    scene.remove(traffic("p", json!({})));
    assert_eq!(paths(&scene), ["/a as it is"], "of its own namespace alone");
}

#[test]
fn a_policy_wakes_its_targets_alone() {
    let rules = json!({"rules": [rule("/a", json!({}))]});
    let routes =
        (0..50).map(|index| labelled(route(&format!("r{index}"), rules.clone()), json!({"n": format!("{index}")})));
    let mut scene = scene(routes);
    let one = scene.put(traffic("p", at("HTTPRoute", "r7"))).computed;
    let by_label = scene.put(traffic("q", by_label(json!({"n": "8"})))).computed;
    assert!(one < 30 && by_label < 30, "{one} and {by_label} rows");
}

#[test]
fn on_one_target_the_heavier_counts_then_the_older_then_the_first_by_name() {
    let mut scene = scene([
        route("r", json!({"rules": [rule("/a", json!({}))]})),
        aged(traffic("b", at("HTTPRoute", "r")), 2),
        aged(traffic("a", at("HTTPRoute", "r")), 2),
    ]);
    assert_eq!(paths(&scene), ["/a /a"]);
    assert_eq!(said(&scene, "b"), ["edge Accepted=True Valid", "edge Attached=False Overridden"]);
    scene.put(aged(traffic("b", at("HTTPRoute", "r")), 1));
    assert_eq!(paths(&scene), ["/a /b"]);
    scene.put(annotated(aged(traffic("a", at("HTTPRoute", "r")), 2), "kgateway.dev/policy-weight", "1"));
    assert_eq!(paths(&scene), ["/a /a"]);
    scene.put(annotated(aged(traffic("a", at("HTTPRoute", "r")), 2), "kgateway.dev/policy-weight", "much"));
    assert_eq!(paths(&scene), ["/a /b"]);
    assert!(scene.problems().iter().any(|told| told.contains("kgateway.dev/policy-weight")), "{:?}", scene.problems());
}

#[test]
fn the_nearer_level_counts_and_the_loser_is_told_who_won() {
    let rules = json!([
        rule("/a", with(extension("TrafficPolicy", "named"), json!({"name": "first"}))),
        rule("/b", json!({"name": "second"})),
        rule("/c", json!({}))
    ]);
    let scene = scene([
        route("r", json!({"rules": rules})),
        traffic("named", json!({})),
        json!(traffic(
            "of-rule",
            json!({"targetRefs": [
                {"group": GROUP, "kind": "HTTPRoute", "name": "r", "sectionName": "first"},
                {"group": GROUP, "kind": "HTTPRoute", "name": "r", "sectionName": "second"},
            ]})
        )),
        traffic("of-route", at("HTTPRoute", "r")),
    ]);
    assert_eq!(paths(&scene), ["/a /named", "/b /of-rule", "/c /of-route"]);
    assert_eq!(
        conditions(&scene, Kind::TrafficPolicy, "of-rule", true)[1],
        "edge Attached=False Overridden: it is in force at 1 of 2 places; overridden by TrafficPolicy apps/named \
         (attached to less)"
    );
}

#[test]
fn a_policy_that_a_filter_names_and_nobody_made_has_the_rule_replaced() {
    let rules = json!([rule("/a", extension("TrafficPolicy", "p")), rule("/b", json!({}))]);
    let mut scene = scene([route("r", json!({"rules": rules}))]);
    assert_eq!(paths(&scene), ["/a 500", "/b as it is"]);
    assert_eq!(
        scene.route_message("apps/r", 0, "PartiallyInvalid"),
        "True UnsupportedValue: Dropped Rule: spec.rules[0].filters[0].extensionRef.name: TrafficPolicy apps/p does not \
         exist; create it, or correct the name"
    );
    scene.put(traffic("p", json!({})));
    assert_eq!(paths(&scene), ["/a /p", "/b as it is"]);
    assert_eq!(scene.route("apps/r", 0, "PartiallyInvalid"), "");
}

#[test]
fn what_an_ancestor_says_counts_where_nothing_below_says_it_unless_it_prefers_itself() {
    let parent = |priority: &str| {
        let root = route("root", json!({"rules": [to("/a", "mid", json!({}))]}));
        annotated(root, "kgateway.dev/inherited-policy-priority", priority)
    };
    let mut scene = scene([
        parent("ShallowMergePreferChild"),
        child("mid", json!([to("/a", "leaf", extension("TrafficPolicy", "mid"))])),
        child("leaf", json!([rule("/a/x", json!({"name": "x"})), rule("/a", json!({}))])),
        traffic("root", at("HTTPRoute", "root")),
        traffic("mid", json!({})),
        traffic("leaf", at_section("HTTPRoute", "leaf", "x")),
    ]);
    assert_eq!(paths(&scene), ["/a/x /leaf", "/a /mid"]);
    assert_eq!(said(&scene, "root"), ["edge Accepted=True Valid", "edge Attached=False Overridden"]);
    scene.put(parent("DeepMergePreferParent"));
    assert_eq!(paths(&scene), ["/a/x /root", "/a /root"]);
    scene.remove(traffic("root", json!({})));
    assert_eq!(paths(&scene), ["/a/x /leaf", "/a /mid"]);
    scene.remove(traffic("mid", json!({})));
    assert_eq!(
        paths(&scene),
        ["/a/x 500", "/a 500", "/a 500"],
        "what a parent's filter names is inherited, missing or not"
    );
    assert!(scene.route_message("apps/leaf", 0, "Accepted").contains("HTTPRoute apps/mid hands down"), "told");
}

#[test]
fn a_filter_is_stronger_than_a_rewrite_policy_and_that_than_a_traffic_policy() {
    let filter = json!({"filters": [{"type": "URLRewrite", "urlRewrite":
        {"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/filter"}}}]});
    let host_only = json!({"filters": [{"type": "URLRewrite", "urlRewrite": {"hostname": "h.example"}}]});
    let rules = json!([rule("/a", filter), rule("/b", host_only), rule("/c", json!({}))]);
    let mut scene = scene([
        route("r", json!({"rules": rules})),
        traffic("t", at("HTTPRoute", "r")),
        rewrite("w", at("HTTPRoute", "r"), json!([{"replacement": "/w"}])),
    ]);
    assert_eq!(paths(&scene), ["/a /filter", "/b /w", "/c /w"]);
    assert_eq!(said(&scene, "t"), ["edge Accepted=True Valid", "edge Attached=False Overridden"]);
    assert_eq!(said(&scene, "w"), ["edge Accepted=True Accepted", "edge Attached=True Merged"]);
    scene.remove(rewrite("w", json!({}), json!([])));
    assert_eq!(paths(&scene), ["/a /filter", "/b /t", "/c /t"]);
}

#[test]
fn entries_are_chosen_by_the_prefix_as_all_parents_render_it() {
    let v1_v2 = json!([to("/v1", "leaf", json!({})), to("/v2", "leaf", json!({})), to("/v3", "leaf", json!({}))]);
    let leaf = annotated(
        child("leaf", json!([rule("/api/", json!({}))])),
        "delegation.kgateway.dev/inherit-parent-matcher",
        "true",
    );
    let entries = json!([
        {"prefix": "/v1/api", "replacement": "/api/v1"}, {"prefix": "/v2/api/", "replacement": "/api/v2/"},
        {"prefix": "/v9", "replacement": "/x"},
    ]);
    let mut scene =
        scene([route("root", json!({"rules": v1_v2})), leaf, rewrite("p", at("HTTPRoute", "leaf"), entries.clone())]);
    let mut found = paths(&scene);
    found.sort();
    assert_eq!(
        found,
        [
            "/v1/api /api/v1",
            "/v1/api/ /api/v1/",
            "/v2/api /api/v2",
            "/v2/api/ /api/v2/",
            "/v3/api as it is",
            "/v3/api/ as it is"
        ]
    );
    assert_eq!(
        conditions(&scene, Kind::RewritePolicy, "p", true)[2],
        "edge portcullis.dev/UnusedReplacement=True UnusedReplacement: no routing prefix is that of \
         spec.replacePrefix[2] (/v9); correct it, or remove it"
    );
    let mut entries = entries;
    entries[2] = json!({"replacement": "/"});
    scene.put(rewrite("p", at("HTTPRoute", "leaf"), entries));
    assert!(paths(&scene).contains(&"/v3/api /".to_owned()), "{:?}", paths(&scene));
    assert_eq!(said(&scene, "p").len(), 2, "{:?}", said(&scene, "p"));
}

#[test]
fn who_loses_to_a_rewrite_policy_is_told_also_where_that_cannot_hold() {
    let exact =
        json!([{"matches": [{"path": {"type": "Exact", "value": "/a"}}], "backendRefs": [{"name": "s", "port": 80}]}]);
    let scene = scene([
        route("r", json!({"rules": exact})),
        rewrite("p", at("HTTPRoute", "r"), json!([{"replacement": "/new"}])),
        traffic("t", at("HTTPRoute", "r")),
    ]);
    assert_eq!(said(&scene, "p")[0], "edge Accepted=False MustHavePrefix");
    let conditions = conditions(&scene, Kind::TrafficPolicy, "t", false);
    assert!(conditions.contains(&"edge Attached=False Overridden".to_owned()), "{conditions:?}");
}

#[test]
fn a_match_that_is_no_prefix_is_replaced_alone_under_a_rewrite_policy() {
    let mixed = json!({"matches": [prefix("/a"), {"path": {"type": "Exact", "value": "/b"}}], "backendRefs": [{"name": "s", "port": 80}]});
    let exact =
        json!({"matches": [{"path": {"type": "Exact", "value": "/c"}}], "backendRefs": [{"name": "s", "port": 80}]});
    let route = |rules: Value| route("r", json!({"rules": rules}));
    let mut scene = scene([
        route(json!([mixed, exact])),
        rewrite("p", at("HTTPRoute", "r"), json!([{"prefix": "/elsewhere", "replacement": "/x"}])),
    ]);
    assert_eq!(paths(&scene), ["/b 500", "/c 500", "/a as it is"]);
    assert_eq!(said(&scene, "p")[0], "edge Accepted=False MustHavePrefix");
    assert!(
        scene.route_message("apps/r", 0, "PartiallyInvalid").contains("spec.rules[0].matches[1]: RewritePolicy apps/p")
    );
    let healed = scene.put(route(json!([rule("/a", json!({}))])));
    assert_eq!(said(&scene, "p")[0], "edge Accepted=True Accepted");
    assert_eq!(told(&healed), [("p".to_owned(), None)]);
}

/// Policies and why they are not valid.
fn told(changes: &Changes) -> Vec<(String, Option<Reason>)> {
    changes.invalid_policies.iter().map(|(id, now)| (id.name.to_string(), now.as_ref().map(|now| now.reason))).collect()
}

#[test]
fn a_rewrite_policy_that_cannot_be_has_every_route_replaced_that_it_applies_to() {
    let rules = json!({"rules": [rule("/a", json!({}))]});
    let mut scene = scene([route("r", rules.clone()), route("s", json!({"rules": [rule("/b", json!({}))]}))]);
    for (entries, reason) in [
        (json!([]), "InvalidReplacement"),
        (json!([{"replacement": ""}]), "InvalidReplacement"),
        (json!([{"replacement": "x"}]), "InvalidReplacement"),
        (json!([{"prefix": "", "replacement": "/x"}]), "InvalidReplacement"),
        (
            json!([{"prefix": "/a", "replacement": "/x"}, {"prefix": "/a/", "replacement": "/y"}]),
            "DuplicateReplacement",
        ),
        (json!([{"replacement": "/x"}, {"replacement": "/x"}]), "AmbiguousReplacement"),
    ] {
        scene.put(rewrite("p", at("HTTPRoute", "r"), entries.clone()));
        assert_eq!(paths(&scene), ["/a 500", "/b as it is"], "{entries}");
        assert_eq!(said(&scene, "p"), [format!("edge Accepted=False {reason}")], "{entries}");
        assert_eq!(scene.route("apps/r", 0, "Accepted"), "False UnsupportedValue");
    }
}

#[test]
fn a_traffic_policy_with_a_field_that_is_not_supported_fails_closed_and_heals() {
    let unsupported = || policy("TrafficPolicy", "p", with(at("HTTPRoute", "root"), json!({"newer": {}})));
    let mut scene = scene([
        route("root", json!({"rules": [to("/a", "leaf", json!({})), rule("/b", json!({}))]})),
        child("leaf", json!([rule("/a/x", json!({}))])),
        route("sibling", json!({"rules": [rule("/c", json!({}))]})),
    ]);
    let changes = scene.put(unsupported());
    assert_eq!(told(&changes), [("p".to_owned(), Some(Reason::Invalid))]);
    assert_eq!(paths(&scene), ["/a/x 500", "/a 500", "/b 500", "/c as it is"]);
    assert_eq!(
        conditions(&scene, Kind::TrafficPolicy, "p", true),
        [
            "edge Accepted=False Invalid: spec.newer: field newer is not supported; what the policy applies to is not served \
          until it is removed"
        ]
    );
    assert_eq!(scene.route("apps/root", 0, "Accepted"), "False UnsupportedValue");
    assert_eq!(scene.route("apps/leaf", 0, "Accepted"), "False UnsupportedValue");
    assert_eq!(told(&scene.put(service("another"))), []);
    let changes = scene.put(traffic("p", at("HTTPRoute", "root")));
    assert_eq!(told(&changes), [("p".to_owned(), None)]);
    assert_eq!(paths(&scene), ["/a/x /p", "/b /p", "/c as it is"]);
    scene.put(unsupported());
    assert_eq!(told(&scene.remove(unsupported())), [("p".to_owned(), None)]);
    assert_eq!(paths(&scene), ["/a/x as it is", "/b as it is", "/c as it is"]);
}

#[test]
fn an_expression_or_substitution_that_envoy_refuses_has_the_routes_replaced() {
    let mut scene = scene([route("r", json!({"rules": [rule("/a", json!({}))]}))]);
    for (pattern, substitution) in [("(?=a)", "/b"), ("a", r"\1"), ("a", "/\n")] {
        let rewrite = json!({"urlRewrite": {"pathRegex": {"pattern": pattern, "substitution": substitution}}});
        scene.put(policy("TrafficPolicy", "p", with(at("HTTPRoute", "r"), rewrite)));
        assert_eq!(paths(&scene), ["/a 500"], "{pattern}");
        assert_eq!(said(&scene, "p"), ["edge Accepted=False Invalid"]);
    }
}

#[test]
fn a_rule_answers_by_itself_where_a_filter_names_a_direct_response() {
    let answering =
        |more: Value| with(with(json!({"matches": [prefix("/a")]}), extension("DirectResponse", "d")), more);
    let response = |spec: Value| policy("DirectResponse", "d", spec);
    let mut scene = scene([route("r", json!({"rules": [answering(json!({}))]}))]);
    let answer = |scene: &Scene| {
        let config = scene.resource("infra/edge", ResourceKind::RouteConfiguration, "http/80").expect("routes");
        config["virtualHosts"][0]["routes"][0]["directResponse"].clone()
    };
    assert_eq!(answer(&scene)["status"], 500);
    assert!(scene.route_message("apps/r", 0, "Accepted").contains("DirectResponse apps/d does not exist"));
    scene.put(response(json!({"status": 503, "body": "later"})));
    assert_eq!(answer(&scene), json!({"status": 503, "body": {"inlineString": "later"}}));
    assert_eq!(scene.route("apps/r", 0, "Accepted"), "True Accepted");
    scene.put(response(json!({"status": 200, "bodyFormat": {"contentType": "text/html", "text": "%PROTOCOL%"}})));
    let text = json!({"contentType": "text/html", "textFormatSource": {"inlineString": "%PROTOCOL%"}});
    assert_eq!(answer(&scene), json!({"status": 200, "bodyFormat": text}));
    scene
        .put(response(json!({"status": 200, "bodyFormat": {"json": {"b": [1, null], "a": {"c": "%RESPONSE_CODE%"}}}})));
    let format = &answer(&scene)["bodyFormat"]["jsonFormat"];
    assert_eq!(format, &json!({"b": [1.0, null], "a": {"c": "%RESPONSE_CODE%"}}));
    scene.put(response(json!({"status": 200, "body": "é".repeat(2049)})));
    assert_eq!(answer(&scene)["status"], 500);
    assert!(scene.route_message("apps/r", 0, "Accepted").contains("the body has 4098 bytes"));
    scene.put(response(json!({"status": 204})));
    assert_eq!(answer(&scene), json!({"status": 204}));
    for beside in [
        json!({"backendRefs": [{"name": "s", "port": 80}]}),
        json!({"filters": [extension("DirectResponse", "d")["filters"][0], {"type": "RequestRedirect", "requestRedirect": {"hostname": "x"}}]}),
    ] {
        scene.put(route("r", json!({"rules": [answering(beside)]})));
        assert_eq!(scene.route("apps/r", 0, "Accepted"), "False IncompatibleFilters");
    }
}

#[test]
fn a_child_of_another_namespace_is_told_who_hands_down_what_is_broken_and_not_which_policy() {
    let mut foreign = child("foreign", json!([rule("/a", json!({}))]));
    foreign["metadata"]["namespace"] = json!("other");
    let mut both = to("/a", "child", json!({}));
    let reference = json!({"group": GROUP, "kind": "HTTPRoute", "name": "foreign", "namespace": "other"});
    both["backendRefs"].as_array_mut().expect("a list").push(reference);
    let broken = policy("TrafficPolicy", "secret", with(at("HTTPRoute", "root"), json!({"extAuth": {}})));
    let scene = scene([
        route("root", json!({"rules": [both]})),
        child("child", json!([rule("/a", json!({}))])),
        foreign,
        broken,
    ]);
    let told = |name: &str| scene.route_message(name, 0, "Accepted");
    assert!(told("apps/child").contains("HTTPRoute apps/root") && told("apps/child").contains("apps/secret"));
    let foreign = told("other/foreign");
    assert!(foreign.starts_with("False UnsupportedValue") && foreign.contains("HTTPRoute apps/root"), "{foreign}");
    assert!(!foreign.contains("secret") && !foreign.contains("extAuth"), "{foreign}");
}

/// A policy of another namespace that selects routes by labels.
fn elsewhere(name: &str, namespace: &str, labels: Value) -> Value {
    let mut policy = traffic(name, by_label(labels));
    policy["metadata"]["namespace"] = json!(namespace);
    policy
}

#[test]
fn policies_of_the_global_namespace_alone_select_routes_of_every_namespace() {
    let mut settings = ir::Settings::default();
    settings.policies.global_namespace = "policies".into();
    let base = || {
        [
            gateway("edge", json!([http("web", 80, "")])),
            service("s"),
            labelled(route("r", json!({"rules": [rule("/a", json!({}))]})), json!({"team": "a"})),
        ]
    };
    let all = [elsewhere("global", "policies", json!({"team": "a"})), elsewhere("other", "elsewhere", json!({}))];
    let mut scene = Scene::with(settings, base().into_iter().chain(all.clone()));
    assert_eq!(paths(&scene), ["/a /global"]);
    let mut status = scene.status(Kind::TrafficPolicy, "policies/global");
    assert_eq!(status["ancestors"][0]["conditions"][0]["reason"], "Valid");
    // Its own policy is nearer by age alone, and the loser's owner is told no name of another namespace.
    scene.put(aged(traffic("own", at("HTTPRoute", "r")), 1));
    scene.put(aged(elsewhere("global", "policies", json!({"team": "a"})), 0));
    assert_eq!(paths(&scene), ["/a /global"]);
    let told = conditions(&scene, Kind::TrafficPolicy, "own", true);
    assert!(told[1].contains("a TrafficPolicy of another namespace") && !told[1].contains("global"), "{told:?}");
    // Nor what is wrong with it.
    let mut broken = elsewhere("global", "policies", json!({"team": "a"}));
    broken["spec"]["urlRewrite"]["pathRegex"]["pattern"] = json!("(");
    scene.put(broken);
    assert_eq!(paths(&scene), ["/a 500"]);
    let message = scene.route_message("apps/r", 0, "Accepted");
    assert!(message.contains("a TrafficPolicy of another namespace is not valid"), "{message}");
    assert!(!message.contains("global") && !message.contains("pathRegex"), "{message}");
    status = scene.status(Kind::TrafficPolicy, "policies/global");
    assert_eq!(status["ancestors"][0]["conditions"][0]["reason"], "Invalid");
    // Without the setting nobody is.
    let scene = Scene::new(base().into_iter().chain(all));
    assert_eq!(paths(&scene), ["/a as it is"]);
}

#[test]
fn a_selector_may_match_five_thousand_routes_or_none_and_of_two_policies_of_one_age_the_first_by_name_counts() {
    const ROUTES: usize = 5_000;
    let routes = (0..ROUTES).map(|index| {
        let labels = json!({"all": "", "n": format!("{index}")});
        labelled(route(&format!("r{index}"), json!({"rules": [rule(&format!("/r{index}"), json!({}))]})), labels)
    });
    let mut settings = ir::Settings::default();
    settings.capacity.max_bytes = 1 << 40;
    let base = [gateway("edge", json!([http("web", 80, "")])), service("s")];
    let mut scene = Scene::with(settings, base.into_iter().chain(routes));
    let nothing = scene.put(traffic("nothing", by_label(json!({"n": "none"}))));
    assert!(nothing.computed < 20, "{} rows", nothing.computed);
    assert!(scene.problems().iter().any(|told| told.contains("it applies to nothing that is served")));
    let rewritten = |scene: &Scene, to: &str| paths(scene).iter().filter(|path| path.ends_with(to)).count();
    scene.put(aged(traffic("b", by_label(json!({"all": ""}))), 1));
    assert_eq!(rewritten(&scene, " /b"), ROUTES);
    scene.put(aged(traffic("a", by_label(json!({}))), 1));
    assert_eq!(rewritten(&scene, " /a"), ROUTES);
    let one = scene.put(traffic("nothing", by_label(json!({"n": "7"})))).computed;
    assert!(one < 60, "{one} rows for one route");
}
