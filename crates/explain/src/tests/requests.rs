//! What is told of single requests.

use ir::NsName;
use serde_json::{Value, json};
use translate::testing::scene::{Scene, child, forward, gateway, http, https, prefix, route, secret, service, to};

use super::{ask, get};
use crate::{Explanation, Outcome, Request, explain};

fn with(mut rule: Value, more: Value) -> Value {
    let Value::Object(more) = more else { panic!("a mapping") };
    rule.as_object_mut().expect("a rule").extend(more);
    rule
}

fn scene(objects: impl IntoIterator<Item = Value>) -> Scene {
    let base = [gateway("edge", json!([http("web", 80, "")])), service("s"), service("t")];
    Scene::new(base.into_iter().chain(objects))
}

/// The leaf, and what comes of it, in one line.
fn said(explanation: &Explanation) -> String {
    let leaf = explanation.leaf.as_ref();
    let leaf = leaf.map(|leaf| format!("{}.{}.{} ", leaf.name, leaf.rule, leaf.matching)).unwrap_or_default();
    leaf + &match &explanation.outcome {
        Outcome::Backends { backends, url, .. } => {
            let shares =
                backends.iter().map(|share| format!("{}:{}", share.service.as_deref().unwrap_or("500"), share.weight));
            format!("{} {url}", shares.collect::<Vec<_>>().join(","))
        }
        Outcome::Redirect { status, location } => format!("{status} {location}"),
        Outcome::Unreachable { .. } => "nobody".into(),
        other => other.status().expect("a status").to_string(),
    }
}

#[test]
fn the_way_from_the_root_to_the_leaf_is_told() {
    let scene = scene([
        route("root", json!({"rules": [to("/a", &["missing", "child"])]})),
        child("child", json!([with(to("/a/b", &["leaf"]), json!({"name": "named"}))])),
        child("leaf", json!([forward("/elsewhere"), forward("/a/b")])),
    ]);
    let told = get(&scene, "http://x.org/a/b/c?q");
    assert_eq!(said(&told), "leaf.1.0 apps/s:1 http://x.org/a/b/c?q");
    let link = |link: &crate::Link| format!("{} rule {}: {}", link.route.path(), link.rule, link.written);
    assert_eq!(
        told.chain.iter().map(link).collect::<Vec<_>>(),
        ["apps/root rule 0: PathPrefix /a", "apps/child rule 0: PathPrefix /a/b", "apps/leaf rule 1: PathPrefix /a/b"]
    );
    assert_eq!(told.chain[0].selects.as_deref(), Some("backendRefs[1], HTTPRoute apps/child"));
    assert_eq!(told.chain[1].rule_name.as_deref(), Some("named"));
    assert_eq!(told.chain[2].selects, None);
    let leaf = told.leaf.expect("a leaf");
    assert_eq!((&*leaf.namespace, &*leaf.name, leaf.rule, leaf.matching), ("apps", "leaf", 1, 0));
    assert_eq!(leaf.envoy_route, "apps/leaf/1/0");
    // What the missing child might have had.
    assert_eq!(said(&get(&scene, "http://x.org/a/c")), "root.0.0 500");
}

#[test]
fn a_leaf_is_the_match_that_the_name_of_its_envoy_route_has() {
    let mut both = to("/a", &["missing", "child"]);
    both["matches"] = json!([prefix("/a"), prefix("/b")]);
    let mut inheriting =
        child("child", json!([forward("/x"), with(forward("/y"), json!({"matches": [prefix("/y"), prefix("/z/")]}))]));
    inheriting["metadata"]["annotations"] = json!({"delegation.kgateway.dev/inherit-parent-matcher": "true"});
    let scene = scene([route("root", json!({"rules": [forward("/other"), both]})), inheriting]);
    for (path, rule, matching, name) in [
        ("/a/x", 0, 0, "apps/child/0/0"),
        ("/b/x", 0, 0, "apps/child/0/0/4"),
        ("/a/y", 1, 0, "apps/child/1/0"),
        ("/a/z/", 1, 1, "apps/child/1/1"),
        ("/a/z", 1, 1, "apps/child/1/1/1"),
        ("/b/z", 1, 1, "apps/child/1/1/5"),
        // For the child that is missing.
        ("/b/none", 1, 1, "apps/root/1/1"),
    ] {
        let leaf = get(&scene, &format!("http://x.org{path}")).leaf.expect("a leaf");
        assert_eq!((leaf.rule, leaf.matching, &*leaf.envoy_route), (rule, matching, name), "{path}");
    }
}

#[test]
fn each_kind_of_condition_is_met_or_told_as_missing() {
    let conditions = json!({"matches": [{
        "path": {"type": "RegularExpression", "value": "/[a-c]+(/x)?"}, "method": "PUT",
        "headers": [{"name": "X-Kind", "value": "1"}, {"name": "x-any", "type": "RegularExpression", "value": "a|b.*"}],
        "queryParams": [{"name": "q", "value": "1"}, {"name": "r", "type": "RegularExpression", "value": "[0-9]+"}],
    }], "backendRefs": [{"name": "s", "port": 80}]});
    let scene = scene([route("root", json!({"rules": [conditions]}))]);
    let all = ["x-kind: 2", "X-KIND: 1", "x-any: bcd"];
    assert_eq!(
        said(&ask(&scene, "PUT", "http://a/abc/x?q=1&q=2&r=77", &all)),
        "root.0.0 apps/s:1 http://a/abc/x?q=1&q=2&r=77"
    );
    for (method, url, headers, why) in [
        ("GET", "http://a/abc?q=1&r=7", &all[..], "the method is not PUT"),
        ("PUT", "http://a/abc?q=1&r=7", &all[..2], "it needs header x-any ~ a|b.*"),
        ("PUT", "http://a/abc?q=1&r=7", &["x-kind: 11", "x-any: a"], "it needs header x-kind: 1"),
        ("PUT", "http://a/abc?q=2&q=1&r=7", &all, "it needs query q=1"),
        ("PUT", "http://a/abc?q=1&r=7a", &all, "it needs query r~[0-9]+"),
        ("PUT", "http://a/abc?q=%31&r", &all, "it needs query q=1, it needs query r~[0-9]+"),
        ("PUT", "http://a/abcd?q=1&r=7", &all, "the path does not match"),
    ] {
        let told = ask(&scene, method, url, headers);
        assert_eq!(said(&told), "404", "{url}");
        let missed: Vec<_> = told.tried.missed.iter().map(|missed| &*missed.why).collect();
        assert_eq!(missed, [why], "{url}");
    }
}

#[test]
fn headers_that_envoy_takes_from_nobody_who_connects_match_nothing() {
    let conditions = json!({"matches": [{"headers": [{"name": "x-envoy-upstream-rq-timeout-ms", "value": "1"}]}],
        "backendRefs": [{"name": "s", "port": 80}]});
    let scene = scene([route("root", json!({"rules": [conditions]}))]);
    assert_eq!(said(&ask(&scene, "GET", "http://a/", &["X-Envoy-Upstream-Rq-Timeout-Ms: 1"])), "404");
}

#[test]
fn those_tried_before_say_why_they_did_not_match_and_those_behind_why_they_came_later() {
    let rule = |matching: Value| json!({"matches": [matching], "backendRefs": [{"name": "s", "port": 80}]});
    let old = json!("2020-01-01T00:00:00Z");
    let mut older = route("z-older", json!({"rules": [forward("/a/b"), forward("/")]}));
    older["metadata"]["creationTimestamp"] = old.clone();
    let mut newer = route(
        "newer",
        json!({"rules": [
            rule(json!({"path": {"type": "Exact", "value": "/a/b"}, "method": "PUT"})),
            rule(json!({"path": {"type": "PathPrefix", "value": "/a/b"}, "headers": [{"name": "x", "value": "1"}]})),
            rule(json!({"path": {"type": "PathPrefix", "value": "/unrelated/and/long"}})),
            forward("/a/b"),
            forward("/a/b"),
            forward("/a"),
        ]}),
    );
    newer["metadata"]["creationTimestamp"] = json!("2021-01-01T00:00:00Z");
    let mut wide = route("wide", json!({"hostnames": ["*.org"], "rules": [forward("/a/b/c")]}));
    wide["metadata"]["creationTimestamp"] = old;
    let mut named = newer.clone();
    named["spec"]["hostnames"] = json!(["x.org"]);
    older["spec"]["hostnames"] = json!(["x.org"]);
    let scene = scene([older, named, wide]);
    let told = get(&scene, "http://x.org/a/b/c");
    assert_eq!(said(&told), "z-older.0.0 apps/s:1 http://x.org/a/b/c");
    let lines = |list: &[crate::Considered]| -> Vec<_> {
        list.iter().map(|other| format!("{}.{}: {}", other.leaf.name, other.leaf.rule, other.why)).collect()
    };
    assert_eq!(lines(&told.tried.missed), ["newer.1: it needs header x: 1"]);
    assert_eq!((told.tried.routes, told.tried.before), (9, 3));
    assert_eq!(
        lines(&told.tried.behind),
        [
            "newer.3: the one taken goes first: all else being equal, its root route is older",
            "newer.4: the one taken goes first: all else being equal, its root route is older",
            "newer.5: the one taken goes first: its path is longer",
            "z-older.1: the one taken goes first: its path is longer",
            "wide.0: the one taken goes first: x.org is more specific than *.org",
        ]
    );
    let told = ask(&scene, "PUT", "http://x.org/a/b", &["x: 1"]);
    assert_eq!(said(&told), "newer.0.0 apps/s:1 http://x.org/a/b");
    assert_eq!(
        lines(&told.tried.behind)[0],
        "newer.1: the one taken goes first: Exact goes before RegularExpression, and that before PathPrefix"
    );
    let told = ask(&scene, "GET", "http://x.org/a/b", &["x: 1"]);
    assert_eq!(lines(&told.tried.behind)[0], "z-older.0: the one taken goes first: it asks for more headers");
}

#[test]
fn what_is_inherited_is_told_with_whose_it_is() {
    let headers = |name: &str| {
        json!([{"type": "RequestHeaderModifier", "requestHeaderModifier": {"set": [{"name": name, "value": "100%"}]}},
            {"type": "URLRewrite", "urlRewrite": {"hostname": format!("{name}.org")}}])
    };
    let mut root = route(
        "root",
        json!({"rules": [with(to("/a", &["mid"]), json!({
            "timeouts": {"request": "3s"}, "retry": {"codes": [503], "attempts": 2}, "filters": headers("root"),
            "sessionPersistence": {"sessionName": "stay"}}))]}),
    );
    let leaf = with(forward("/a/b"), json!({"timeouts": {"request": "1s"}, "filters": headers("leaf")}));
    let objects = |root: Value| {
        [
            root,
            child(
                "mid",
                json!([to("/elsewhere", &[]), with(to("/a", &["leaf"]), json!({"timeouts": {"request": "2s"}}))]),
            ),
            child("leaf", json!([leaf.clone()])),
        ]
    };
    let effects = |scene: &Scene| -> Vec<_> {
        let told = get(scene, "http://x.org/a/b");
        let effects = told.effects.iter().map(|effect| {
            let short = |names: &[String]| {
                names.iter().map(|name| name.replace("HTTPRoute apps/", "")).collect::<Vec<_>>().join("+")
            };
            format!("{}: {} | {} | {}", effect.what, effect.value, short(&effect.from), short(&effect.overridden))
        });
        effects.collect()
    };
    assert_eq!(
        effects(&scene(objects(root.clone()))),
        [
            "requestHeaderModifier: set root: 100%, set leaf: 100% | leaf rule 0+root rule 0 | ",
            "retry: at most 2 more, when a connection fails and on 503 | root rule 0 | ",
            "sessionPersistence: by cookie stay | root rule 0 | ",
            "timeouts: request 1s | leaf rule 0 | mid rule 1+root rule 0",
            "urlRewrite: host leaf.org | leaf rule 0 | root rule 0",
        ]
    );
    root["metadata"]["annotations"] = json!({"kgateway.dev/inherited-policy-priority": "ShallowMergePreferParent"});
    assert_eq!(
        effects(&scene(objects(root)))[3..],
        [
            "timeouts: request 3s | root rule 0 | leaf rule 0+mid rule 1",
            "urlRewrite: host root.org | root rule 0 | leaf rule 0"
        ]
    );
}

#[test]
fn a_prefix_is_replaced_by_one_formula_and_the_query_stays() {
    let rewriting = |path: &str, replacement: &str| {
        with(
            forward(path),
            json!({"filters": [{"type": "URLRewrite", "urlRewrite":
            {"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": replacement}}}]}),
        )
    };
    for (prefix, replacement, path, rewritten) in [
        ("/foo", "/bar", "/foo/type?a=/foo", "/bar/type?a=/foo"),
        ("/foo", "/bar/", "/foo", "/bar"),
        ("/foo/", "/bar", "/foo", "/bar"),
        ("/foo/", "/bar", "/foo/x", "/bar/x"),
        ("/foo", "/", "/foo/x", "/x"),
        ("/foo", "/", "/foo?q", "/?q"),
        ("/", "/app", "/", "/app/"),
        ("/", "/app", "/x", "/app/x"),
        ("/", "/", "/x", "/x"),
    ] {
        let scene = scene([route("root", json!({"rules": [rewriting(prefix, replacement)]}))]);
        let told = get(&scene, &format!("http://a{path}"));
        assert_eq!(said(&told), format!("root.0.0 apps/s:1 http://a{rewritten}"), "{prefix} {replacement}");
    }
    let full = with(
        forward("/foo"),
        json!({"filters": [{"type": "URLRewrite", "urlRewrite":
        {"hostname": "b.org", "path": {"type": "ReplaceFullPath", "replaceFullPath": "/a/b"}}}]}),
    );
    let scene = scene([route("root", json!({"rules": [full]}))]);
    assert_eq!(said(&get(&scene, "http://a/foo/x?q")), "root.0.0 apps/s:1 http://b.org/a/b?q");
}

#[test]
fn a_redirect_is_told_with_its_location() {
    let redirect = |value: Value| {
        scene([route(
            "root",
            json!({"rules": [{"matches": [prefix("/a")],
            "filters": [{"type": "RequestRedirect", "requestRedirect": value}]}]}),
        )])
    };
    let to_https = redirect(json!({"scheme": "https", "statusCode": 308}));
    assert_eq!(said(&get(&to_https, "http://x.org/a/b?q")), "root.0.0 308 https://x.org/a/b?q");
    // As documented, the port of the scheme stays where the client wrote one.
    assert_eq!(said(&ask(&to_https, "GET", "http://x.org/a", &["host: x.org:80"])), "root.0.0 308 https://x.org:443/a");
    let prefix = redirect(
        json!({"hostname": "y.org", "port": 81, "path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"}}),
    );
    assert_eq!(said(&get(&prefix, "http://x.org/a/b?q")), "root.0.0 302 http://y.org:81/b?q");
    assert!(get(&prefix, "http://x.org/a").tried.behind.is_empty(), "a match is not behind itself");
}

#[test]
fn weights_broken_shares_and_sessions_are_told() {
    let two = json!([{"name": "s", "port": 80, "weight": 3}, {"name": "t", "port": 80, "weight": 1},
        {"name": "none", "port": 80, "weight": 2}]);
    let scene = scene([route(
        "root",
        json!({"rules": [
            {"matches": [prefix("/a")], "backendRefs": two.clone()},
            {"matches": [prefix("/b")], "backendRefs": two, "sessionPersistence": {}},
        ]}),
    )]);
    for path in ["/a", "/b"] {
        let told = get(&scene, &format!("http://x{path}"));
        assert!(said(&told).contains(" apps/s:3,apps/t:1,500:2 "), "{}", said(&told));
        let Outcome::Backends { because, .. } = &told.outcome else { panic!("{told:?}") };
        assert_eq!(because[0].object, "HTTPRoute apps/root");
        assert!(because[0].message.contains("Service apps/none does not exist"), "{because:?}");
    }
}

#[test]
fn what_is_replaced_says_why_and_who_must_act() {
    let broken =
        json!({"filters": [{"type": "ExtensionRef", "extensionRef": {"group": "x.dev", "kind": "Y", "name": "z"}}]});
    let mut hostnames = child("hostnames", json!([forward("/h/x")]));
    hostnames["spec"]["hostnames"] = json!(["x.example.com"]);
    let scene = scene([
        route(
            "root",
            json!({"rules": [to("/a", &["child"]), to("/m", &["missing"]), to("/n", &["child"]), to("/h", &["hostnames"])]}),
        ),
        child("child", json!([with(forward("/a/bad"), broken), forward("/a")])),
        hostnames,
    ]);
    for (path, outcome, object, reason) in [
        ("/a/bad/x", "child.0.0 500", "HTTPRoute apps/child", "UnsupportedValue"),
        ("/m", "root.1.0 500", "HTTPRoute apps/root", "BackendNotFound"),
        ("/n", "root.2.0 404", "HTTPRoute apps/root", "NoMatchingChild"),
        ("/h/x", "hostnames.0.0 500", "HTTPRoute apps/hostnames", "UnsupportedValue"),
    ] {
        let told = get(&scene, &format!("http://x.org{path}"));
        assert_eq!(said(&told), outcome);
        let Outcome::DirectResponse { because, .. } = &told.outcome else { panic!("{told:?}") };
        assert_eq!((&*because[0].object, because[0].reason), (object, reason), "{path}");
        assert!(told.to_string().contains(&format!("! {reason}: ")), "{told}");
    }
    let told = get(&scene, "http://x.org/b");
    assert_eq!(said(&told), "404");
    assert_eq!(told.tried.missed.len(), 5, "those that come nearest");
}

#[test]
fn a_rule_that_is_replaced_for_one_of_its_matches_says_so_at_each() {
    let exact = |path: &str| json!({"path": {"type": "Exact", "value": path}});
    let scene = scene([
        route("root", json!({"rules": [with(forward("/a"), json!({"matches": [exact("/a"), exact("/b")]}))]})),
        json!({"apiVersion": "gateway.portcullis.dev/v1alpha1", "kind": "RewritePolicy",
            "metadata": {"namespace": "apps", "name": "p"},
            "spec": {"targetRefs": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": "root"}],
                "replacePrefix": [{"replacement": "/x"}]}}),
    ]);
    for path in ["/a", "/b"] {
        let told = get(&scene, &format!("http://x.org{path}"));
        let Outcome::DirectResponse { because, .. } = &told.outcome else { panic!("{told:?}") };
        assert_eq!(because.iter().map(|why| why.reason).collect::<Vec<_>>(), ["MustHavePrefix"], "{path}");
    }
}

#[test]
fn a_trailing_slash_in_a_match_means_the_path_without_it_too() {
    let scene = scene([
        route("root", json!({"rules": [forward("/foo/"), forward("/foo/")]})),
        route(
            "a",
            json!({"rules": [forward("/bar/"), with(forward("/bar"), json!({"backendRefs": [{"name": "t", "port": 80}]}))]}),
        ),
    ]);
    assert_eq!(said(&get(&scene, "http://x/foo")), "root.0.0 apps/s:1 http://x/foo");
    assert_eq!(said(&get(&scene, "http://x/foo/x")), "root.0.0 apps/s:1 http://x/foo/x");
    assert_eq!(said(&get(&scene, "http://x/foobar")), "404");
    let told = get(&scene, "http://x/bar");
    assert_eq!(said(&told), "a.1.0 apps/t:1 http://x/bar");
    assert_eq!(
        told.tried.behind[0].why,
        "the one taken goes first: its path is written without a slash at its end, and the other's with one"
    );
}

#[test]
fn paths_are_routed_as_they_are_normalised() {
    let scene = scene([route("root", json!({"rules": [forward("/a")]}))]);
    let told = get(&scene, "http://x//b/../a/%2e/c?d=//");
    assert_eq!(said(&told), "root.0.0 apps/s:1 http://x/a/c?d=//");
    assert_eq!(told.normalised.as_deref(), Some("/a/c?d=//"));
    assert_eq!(said(&get(&scene, "http://x/a%2Fc")), "307 /a/c");
    assert_eq!(said(&get(&scene, "http://x/a/%00")), "400");
    assert_eq!(said(&ask(&scene, "GET", "http://x/a", &["x_y: 1"])), "400");
    assert_eq!(get(&scene, "http://x/a").normalised, None);
}

#[test]
fn listeners_are_chosen_by_port_scheme_and_host() {
    let listeners = json!([
        http("plain", 80, "*.example.com"),
        http("own", 80, "own.example.com"),
        https("secure", 443, "*.example.com", "cert"),
        https("broken", 443, "broken.example.com", "missing"),
        https("other", 443, "other.example.com", "cert"),
    ]);
    let mut only = route("only", json!({}));
    only["spec"]["parentRefs"][0]["sectionName"] = json!("own");
    let scene = Scene::new([gateway("edge", listeners), service("s"), secret("cert"), route("all", json!({})), only]);
    let listener =
        |told: &Explanation| told.listener.as_ref().map(|listener| listener.name.clone()).unwrap_or_default();
    let told = get(&scene, "http://a.example.com/");
    assert_eq!((&*listener(&told), told.virtual_host.as_deref()), ("plain", Some("*.example.com")));
    let told = get(&scene, "http://OWN.example.com./");
    assert_eq!((&*listener(&told), told.virtual_host.as_deref()), ("own", Some("own.example.com")));
    assert_eq!(listener(&get(&scene, "https://a.example.com/")), "secure");
    assert_eq!(said(&get(&scene, "http://example.org/")), "404");
    assert_eq!(said(&get(&scene, "https://example.org/")), "nobody");
    assert_eq!(said(&ask(&scene, "GET", "https://a.example.com/", &["host: other.example.com"])), "421");
    assert_eq!(said(&get(&scene, "http://a.example.com:81/")), "nobody");
    assert_eq!(said(&get(&scene, "http://a.example.com:443/")), "nobody");
    let told = get(&scene, "https://broken.example.com/");
    let Outcome::Unreachable { because, .. } = &told.outcome else { panic!("{told:?}") };
    assert_eq!(because[0].object, "Gateway infra/edge");
    let request = Request::new("GET", "http://a/", []).expect("a request");
    let told = explain(&scene.0, &NsName::new("infra", "nowhere"), &request);
    assert_eq!(said(&told), "nobody");
}

#[test]
fn as_json_an_explanation_names_its_leaf_and_outcome() {
    let scene = scene([route("root", json!({"rules": [forward("/a")]}))]);
    let json = serde_json::to_value(get(&scene, "http://x/a")).expect("JSON");
    assert_eq!(
        json["leaf"],
        json!({"namespace": "apps", "name": "root", "rule": 0, "match": 0, "written": "PathPrefix /a",
            "envoyRoute": "apps/root/0/0"})
    );
    assert_eq!(
        json["outcome"],
        json!({"kind": "backends", "url": "http://x/a", "backends": [{"service": "apps/s", "port": 80, "weight": 1}]})
    );
}

#[test]
fn a_rewrite_that_a_policy_makes_is_told_with_the_policy() {
    let policy = |name: &str, weight: &str, replacement: &str| {
        json!({"apiVersion": "gateway.portcullis.dev/v1alpha1", "kind": "RewritePolicy",
            "metadata": {"name": name, "namespace": "apps", "annotations": {"kgateway.dev/policy-weight": weight}},
            "spec": {"targetRefs": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": "root"}],
                "replacePrefix": [{"replacement": replacement}]}})
    };
    let root = route("root", json!({"rules": [forward("/a")]}));
    let scene = scene([root, policy("first", "2", "/b"), policy("second", "1", "/c")]);
    let told = get(&scene, "http://x.org/a/x");
    assert_eq!(said(&told), "root.0.0 apps/s:1 http://x.org/b/x");
    let rewrite = told.effects.iter().find(|effect| effect.what == "urlRewrite").expect("a rewrite");
    assert_eq!(rewrite.from, ["RewritePolicy apps/first"]);
    assert_eq!(rewrite.overridden, ["RewritePolicy apps/second"]);
}

#[test]
fn who_says_how_to_connect_to_a_backend_is_told() {
    let policy = |name: &str, spec: serde_json::Value| {
        json!({"apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "BackendConfigPolicy",
            "metadata": {"namespace": "apps", "name": name},
            "spec": with(json!({"targetRefs": [{"group": "", "kind": "Service", "name": "t"}]}), spec)})
    };
    let both = json!([{"name": "s", "port": 80}, {"name": "t", "port": 80, "weight": 3}]);
    let scene = scene([
        route("shop", json!({"rules": [{"backendRefs": both}]})),
        policy("a", json!({"connectTimeout": "1s"})),
        policy("b", json!({"connectTimeout": "2s", "circuitBreakers": {"maxRequests": 1}})),
        policy("c", json!({"connectTimeout": "3s"})),
    ]);
    let told = get(&scene, "http://x.org/");
    let Outcome::Backends { backends, .. } = &told.outcome else { panic!("{told:?}") };
    let policies: Vec<_> = backends.iter().map(|share| share.policies.join(" ")).collect();
    assert_eq!(policies, ["", "BackendConfigPolicy apps/a BackendConfigPolicy apps/b"]);
    let answer =
        "(weight 1), Service apps/t port 80 (weight 3) by BackendConfigPolicy apps/a and BackendConfigPolicy apps/b";
    assert!(told.to_string().contains(answer), "{told}");
}
