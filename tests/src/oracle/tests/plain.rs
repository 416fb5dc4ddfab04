//! Gateways, listeners, hostnames and matches, without delegation.

use super::*;

#[test]
fn a_prefix_takes_whole_segments() {
    let scene = Scene::new(
        "
{route: infra/root, rules: [{path: /a}, {path: /b/}]}
",
    );
    scene.expect(&[
        ("/a", "infra/root 0.0"),
        ("/a/", "infra/root 0.0"),
        ("/a/x", "infra/root 0.0"),
        ("/a?x=1", "infra/root 0.0"),
        ("/ax", "nothing"),
        ("/", "nothing"),
        ("/b", "infra/root 1.0"),
        ("/b/", "infra/root 1.0"),
        ("/b/x", "infra/root 1.0"),
        ("/bx", "nothing"),
    ]);
}

#[test]
fn a_prefix_with_a_slash_leaves_its_bare_path_to_one_without() {
    let scene = Scene::new(
        "
{route: infra/root-a, created: '1', rules: [{path: /foo/}]}
---
{route: infra/root-b, created: '2', rules: [{path: /foo}]}
",
    );
    scene.expect(&[("/foo", "infra/root-b 0.0"), ("/foo/", "infra/root-a 0.0"), ("/foo/x", "infra/root-a 0.0")]);
}

#[test]
fn a_match_that_asks_for_more_goes_first() {
    let scene = Scene::new(
        "
route: infra/root
rules:
- path: /a
- matches: [{path: {type: PathPrefix, value: /a}, queryParams: [{name: q, value: '1'}]}]
- matches: [{path: {type: PathPrefix, value: /a}, headers: [{name: X-H, value: '1'}]}]
- matches: [{path: {type: PathPrefix, value: /a}, method: POST}]
- path: /a/b
- matches: [{path: {type: RegularExpression, value: '/a/b/[0-9]+'}}]
- matches: [{path: {type: Exact, value: /a/b/7}}]
- matches: [{path: {type: Exact, value: /a}, headers: [{name: x-r, type: RegularExpression, value: 'v[0-9]'}]}]
",
    );
    scene.expect(&[
        ("/a/c", "infra/root 0.0"),
        ("/a/c?q=1", "infra/root 1.0"),
        ("/a/c?q=2&q=1", "infra/root 0.0"),
        ("/a/b/c?q=1", "infra/root 4.0"),
        ("/a/b/8", "infra/root 5.0"),
        ("/a/b/7", "infra/root 6.0"),
    ]);
    let with_header = Request::get("example.com", "/a/c?q=1").header("x-h", "1");
    assert_eq!(scene.told(&with_header), "infra/root 2.0");
    assert_eq!(scene.told(&Request { method: "POST".to_owned(), ..with_header }), "infra/root 3.0");
    assert_eq!(scene.told(&Request::get("example.com", "/a").header("X-R", "v1")), "infra/root 7.0");
    assert_eq!(scene.told(&Request::get("example.com", "/a").header("X-R", "v12")), "infra/root 0.0");
}

#[test]
fn ties_go_to_the_older_route_then_to_the_name_then_to_the_first_rule() {
    let scene = Scene::new(
        "
{route: infra/root-c, created: '2024-01-01T00:00:00Z', rules: [{path: /a}]}
---
{route: infra/root-b, created: '2024-01-02T00:00:00Z', rules: [{path: /a}, {path: /b}]}
---
{route: infra/root-a, created: '2024-01-02T00:00:00Z', rules: [{path: /b}, {path: /b}]}
",
    );
    scene.expect(&[("/a", "infra/root-c 0.0"), ("/b", "infra/root-a 0.0")]);
}

#[test]
fn a_more_specific_hostname_goes_first_and_a_less_specific_one_serves_what_is_left() {
    let scene = Scene::new(
        "
{route: infra/root-any, created: '1', rules: [{path: /}, {path: /any/longer}]}
---
{route: infra/root-wild, created: '2', hostnames: ['*.com'], rules: [{path: /any}, {path: /wild}]}
---
{route: infra/root-own, created: '3', hostnames: [other.com, Example.com], rules: [{path: /own}, {path: /wild/own}]}
",
    );
    scene.expect(&[
        ("/own", "infra/root-own 0.0"),
        ("/wild/own", "infra/root-own 1.0"),
        ("/wild", "infra/root-wild 1.0"),
        ("/any/longer", "infra/root-wild 0.0"),
        ("/x", "infra/root-any 0.0"),
    ]);
    assert_eq!(scene.told(&Request::get("example.org", "/own")), "infra/root-any 0.0");
}

#[test]
fn a_request_belongs_to_the_most_specific_listener_alone() {
    let scene = Scene::new(
        "
kind: Gateway
metadata: {name: g, namespace: infra}
spec:
  listeners:
  - {name: any, port: 80, protocol: HTTP}
  - {name: wild, port: 80, protocol: HTTP, hostname: '*.example.com', allowedRoutes: {namespaces: {from: All}}}
  - {name: own, port: 80, protocol: HTTP, hostname: a.example.com}
  - {name: other, port: 81, protocol: HTTP, hostname: a.example.com}
---
{route: infra/root-any, parentRefs: [{name: g}], rules: [{path: /}]}
---
{route: infra/root-own, parentRefs: [{name: g, sectionName: own}], rules: [{path: /own}]}
---
{route: infra/root-port, parentRefs: [{name: g, port: 81}], rules: [{path: /port}]}
---
{route: a/root-wild, parentRefs: [{name: g, namespace: infra, sectionName: wild}], rules: [{path: /wild}]}
---
{route: a/root-foreign, parentRefs: [{name: g, namespace: infra, sectionName: own}], rules: [{path: /foreign}]}
",
    );
    let told = |port, host: &str, path: &str| {
        let outcome = scene.0.ask("infra/g", port, &Request::get(host, path));
        outcome.route_identity().map_or("nothing".to_owned(), |step| step.route.name.clone())
    };
    assert_eq!(told(80, "a.example.com", "/own"), "root-own");
    assert_eq!(told(81, "a.example.com", "/own"), "root-any");
    assert_eq!(told(81, "a.example.com", "/port"), "root-port");
    assert_eq!(told(81, "b.example.com", "/port"), "nothing");
    assert_eq!(told(80, "b.example.com", "/own"), "root-any");
    assert_eq!(told(80, "b.example.com", "/wild"), "root-wild");
    assert_eq!(told(80, "a.example.com", "/wild"), "root-any");
    assert_eq!(told(80, "a.example.com", "/foreign"), "root-any");
}

#[test]
fn a_route_without_hostnames_has_the_listeners() {
    let scene = Scene::new(
        "
kind: Gateway
metadata: {name: g, namespace: infra}
spec: {listeners: [{name: l, port: 80, protocol: HTTP, hostname: '*.example.com'}]}
---
{route: infra/root-broad, created: '1', parentRefs: [{name: g}], hostnames: ['*.com'], rules: [{path: /}, {path: /a/b}]}
---
{route: infra/root-none, created: '2', parentRefs: [{name: g}], rules: [{path: /a}]}
",
    );
    let told = |path: &str| scene.0.ask("infra/g", 80, &Request::get("a.example.com", path)).to_string();
    assert!(told("/a/b").starts_with("infra/root-none/"), "{}", told("/a/b"));
    assert!(told("/x").starts_with("infra/root-broad/"), "{}", told("/x"));
}

#[test]
fn a_rule_without_a_backend_that_can_be_used_answers_500() {
    let scene = Scene::new(
        "
route: infra/root
rules:
- {path: /missing, backendRefs: [{name: missing, port: 80}]}
- {path: /none, backendRefs: []}
- {path: /foreign, backendRefs: [{name: svc, namespace: a, port: 80}]}
- {path: /granted, backendRefs: [{name: svc, namespace: b, port: 80}]}
- {path: /half, backendRefs: [{name: svc, port: 80}, {name: missing, port: 80}]}
- {path: /moved, backendRefs: [], filters: [{type: RequestRedirect, requestRedirect: {statusCode: 302}}]}
---
kind: ReferenceGrant
metadata: {name: grant, namespace: b}
spec:
  from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: infra}]
  to: [{group: '', kind: Service}]
",
    );
    scene.expect(&[
        ("/missing", "infra/root 0.0: 500"),
        ("/none", "infra/root 1.0: 500"),
        ("/foreign", "infra/root 2.0: 500"),
        ("/granted", "infra/root 3.0"),
        ("/half", "infra/root 4.0"),
        ("/moved", "infra/root 5.0: redirect"),
    ]);
    let half = scene.ask(&Request::get("example.com", "/half")).answer();
    assert_eq!(half, Answer::Backends { names: ["infra/svc".to_owned()].into(), broken_share: true });
}

#[test]
fn what_would_need_more_knowledge_is_refused() {
    for manifest in [
        "{kind: TrafficPolicy, metadata: {name: p}, spec: {jwtAuth: {}}}",
        "{kind: Gateway, metadata: {name: g}, spec: {listeners: [{name: l, port: 1, protocol: HTTPS}]}}",
        "{route: infra/root, rules: [{path: /a, filters: [{type: CORS}]}]}",
        r"{route: infra/root, rules: [{matches: [{path: {type: RegularExpression, value: '\d'}}]}]}",
        "{kind: DelegationPolicy, metadata: {name: p}, spec: {requireAuth: true}}",
    ] {
        let documents = manifests::parse(manifest).expect("valid YAML").into_iter().map(complete);
        let documents: Vec<_> = documents.collect();
        assert!(Oracle::read(&documents, &Settings::default()).is_err(), "{manifest}");
    }
}
