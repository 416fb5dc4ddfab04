//! What clients see of timeouts, compression and redirects that are followed, by the documentation of these units.

use std::time::Duration;

use super::*;
use crate::echo::{RESPOND, Respond};
use crate::oracle::Journey;
use crate::oracle::worlds::Asked;

/// Rules whose policies are named after them, and one without.
fn scene(specs: &[(&str, &str)]) -> Scene {
    let mut rules = vec!["{path: /plain}".to_owned()];
    let mut documents = Vec::new();
    for (name, spec) in specs {
        rules.push(format!("{{name: {name}, path: /{name}}}"));
        let target = format!("group: gateway.networking.k8s.io, kind: HTTPRoute, name: root, sectionName: {name}");
        let metadata = format!("kind: TrafficPolicy, metadata: {{namespace: infra, name: {name}}}");
        documents.push(format!("{{{metadata}, spec: {{targetRefs: [{{{target}}}], {spec}}}}}"));
    }
    documents.push(format!("{{route: infra/root, rules: [{}]}}", rules.join(", ")));
    Scene::new(&documents.join("\n---\n"))
}

/// What becomes of a request whose backend is asked for this answer.
fn follow(scene: &Scene, request: Request, respond: &Respond) -> Journey {
    let request = request.header(RESPOND, &serde_json::to_string(respond).expect("JSON"));
    let asked = Asked { gateway: "infra/example-gateway", port: 80, request, is_repeated: false };
    let Outcome::Route(taken) = scene.ask(&asked.request) else { panic!("no match takes {asked}") };
    scene.0.follow(&asked, &taken)
}

fn get(path: &str) -> Request {
    Request::get("example.com", path)
}

fn header(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

#[test]
fn an_answer_is_late_for_the_shorter_of_both_timeouts() {
    let scene = scene(&[
        ("request", "timeouts: {request: 2s, streamIdle: 41s}"),
        ("idle", "timeouts: {request: 31s, streamIdle: 2s}"),
        ("long", "timeouts: {request: 31s}"),
    ]);
    let late = Respond { delay: Some(Duration::from_secs(4)), ..Respond::default() };
    for (path, expected) in [("/request", 504), ("/idle", 504), ("/long", 200), ("/plain", 200)] {
        assert_eq!(follow(&scene, get(path), &late).sight.status, Some(expected), "{path}");
        assert_eq!(follow(&scene, get(path), &Respond::default()).sight.status, Some(200), "{path}");
    }
}

#[test]
fn what_is_compressed_depends_on_client_policy_and_body() {
    let scene = scene(&[
        ("usual", "compression: {responseCompression: {}}"),
        ("both", "compression: {responseCompression: {libraries: [Gzip, Brotli]}}"),
        ("without", "compression: {responseCompression: {disable: {}}}"),
    ]);
    let of = |length: usize, kind: &str| Respond {
        body: Some("a".repeat(length)),
        headers: vec![header("content-type", kind)],
        ..Respond::default()
    };
    let (text, short, image) = (of(30, "text/html"), of(29, "text/html"), of(99, "image/png"));
    for (path, accepted, respond, expected) in [
        ("/usual", "gzip", &text, Some("gzip")),
        ("/usual", "br", &text, None),
        ("/usual", "gzip;q=0", &text, None),
        ("/usual", "gzip", &short, None),
        ("/usual", "gzip", &image, None),
        ("/usual", "identity", &text, None),
        ("/both", "br, gzip", &text, Some("br")),
        ("/both", "gzip, br", &text, Some("gzip")),
        ("/both", "gzip;q=0.5, br", &text, Some("br")),
        ("/without", "gzip", &text, None),
        ("/plain", "gzip", &text, None),
    ] {
        let seen = follow(&scene, get(path).header("accept-encoding", accepted), respond);
        assert_eq!(seen.sight.received["content-encoding"].as_deref(), expected, "{path} {accepted}");
    }
    assert_eq!(follow(&scene, get("/usual"), &text).sight.received["content-encoding"], None);
}

#[test]
fn a_redirect_is_followed_as_often_as_the_route_that_it_comes_from_says() {
    let scene = scene(&[
        ("once", "internalRedirect: {}"),
        ("twice", "internalRedirect: {maxRedirects: 9, redirectResponseCodes: [302, 307]}"),
    ]);
    let to = |status: u16, failures: Option<u32>, location: &str| Respond {
        status: Some(status),
        failures,
        headers: vec![header("location", location)],
        ..Respond::default()
    };
    let http = |path: &str| format!("http://example.com{path}");
    for (path, respond, (status, seen)) in [
        ("/once", to(302, Some(1), &http("/plain?q=1")), (200, Some("/plain?q=1"))),
        ("/once", to(302, Some(2), &http("/once/x")), (302, Some("/once/x"))),
        ("/once", to(307, Some(1), &http("/plain")), (307, Some("/once"))),
        ("/once", to(302, Some(1), "https://example.com/plain"), (302, Some("/once"))),
        ("/once", to(302, Some(1), "/plain"), (302, Some("/once"))),
        ("/once", to(302, Some(1), &http("/nowhere")), (302, Some("/once"))),
        ("/twice", to(307, Some(2), &http("/twice/x")), (200, Some("/twice/x"))),
        ("/twice", to(302, None, &http("/twice/x")), (302, Some("/twice/x"))),
        ("/twice", to(302, None, &http("/once")), (302, Some("/once"))),
        ("/plain", to(302, Some(1), &http("/once")), (302, Some("/plain"))),
    ] {
        let sight = follow(&scene, get(path), &respond).sight;
        assert_eq!((sight.status, sight.sent["path"].as_deref()), (Some(status), seen), "{path} {respond:?}");
    }
}

#[test]
fn a_redirect_meets_what_the_route_says_that_it_leads_to_with_what_was_made_of_the_request() {
    let scene = scene(&[
        (
            "from",
            "internalRedirect: {redirectResponseCodes: [302, 303]}, headerModifiers: {request: {set: [{name: x-a, value: from}], add: [{name: x-b, value: from}]}}",
        ),
        ("copies", "internalRedirect: {responseHeadersToCopy: [x-a, x-b]}"),
        ("adds", "headerModifiers: {request: {add: [{name: x-a, value: to}]}}"),
        ("closed", "acl: {defaultAction: deny}"),
        ("posts", "rbac: {policy: {matchExpressions: ['request.method == ''POST''']}}"),
    ]);
    let to = |status: u16, path: &str| Respond {
        status: Some(status),
        failures: Some(1),
        headers: vec![header("location", &format!("http://example.com{path}")), header("x-a", "backend")],
        ..Respond::default()
    };
    let request = |path: &str| get(path).header("x-a", "client").header("x-b", "client");
    let sent = |from: &str, path: &str| {
        let sight = follow(&scene, request(from), &to(302, path)).sight;
        ["x-a", "x-b"].map(|name| sight.sent[name].clone().unwrap_or_default())
    };
    assert_eq!(sent("/from", "/plain"), ["from", "client,from"]);
    assert_eq!(sent("/from", "/adds"), ["from,to", "client,from"]);
    assert_eq!(sent("/copies", "/adds"), ["backend,to", ""]);
    assert_eq!(follow(&scene, request("/from"), &to(302, "/closed")).sight.status, Some(403));
    let post = |status: u16| {
        let request = Request { method: "POST".to_owned(), body: "a".to_owned(), ..request("/from") };
        follow(&scene, request, &to(status, "/posts")).sight.status
    };
    assert_eq!((post(302), post(303)), (Some(200), Some(403)));
}
