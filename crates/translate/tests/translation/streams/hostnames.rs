//! Which hostname of which listener takes a connection over TLS.

use std::collections::BTreeMap;

use api::Kind;
use envoy::ResourceKind;
use serde_json::json;

use super::{
    super::scene::{Scene, https, tls, tls_route},
    A, B, chains, changed, condition, created, localities, plain, scene, to,
};

#[test]
fn a_hostname_has_a_chain_while_a_route_asks_for_it_and_is_closed_otherwise() {
    let listeners = json!([
        https("web", 443, "web.example.com", "c"),
        tls("ends", 443, "*.ends.example.com", Some("c")),
        tls("through", 443, "*.example.com", None),
    ]);
    let mut scene = scene(listeners, []);
    let of = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs.iter().map(|(names, to)| ((*names).to_owned(), (*to).to_owned())).collect()
    };
    let web = ("web.example.com", "https/443/web, over TLS");
    assert_eq!(chains(&scene, "listener/443"), of(&[web, ("*.ends.example.com *.example.com", "closed")]));
    scene.put(tls_route("r", &["a.example.com", "b.ends.example.com", "web.example.com", "else.example.net"], to("a")));
    let (a, b) = (
        ("a.example.com", "tls-passthrough/through/a.example.com"),
        ("b.ends.example.com", "tls/ends/b.ends.example.com, over TLS"),
    );
    assert_eq!(chains(&scene, "listener/443"), of(&[web, a, b, ("*.ends.example.com *.example.com", "closed")]));
    assert!(
        condition(&scene, Kind::TlsRoute, "apps/r", 0, "Accepted")
            .contains("web.example.com is not served at listener")
    );
    // A second route for a hostname, and the end of the first, change no listener.
    let second = tls_route("second", &["a.example.com", "*.example.com"], to("b"));
    let changes = changed(&scene.put(second.clone()));
    assert!(
        changes.contains(&"Listener listener/443".to_owned()),
        "*.example.com has a chain from now on: {changes:?}"
    );
    // At each listener it is what both have in common.
    let below = ("*.ends.example.com", "tls/ends/*.ends.example.com, over TLS");
    let expected = of(&[web, a, b, below, ("*.example.com", "tls-passthrough/through/*.example.com")]);
    assert_eq!(chains(&scene, "listener/443"), expected);
    assert_eq!(localities(&scene, "tls-passthrough/through/a.example.com"), [plain(1, &A)]);
    let superseded = condition(&scene, Kind::TlsRoute, "apps/second", 0, "portcullis.dev/Serving");
    assert!(superseded.contains("a.example.com of listener through"), "{superseded}");
    assert!(!superseded.contains("*.example.com of"), "{superseded}");
    let moved = changed(&scene.put(created(tls_route("r", &["b.ends.example.com"], to("a")), 1)));
    assert_eq!(moved, ["Endpoints tls-passthrough/through/a.example.com"]);
    assert_eq!(localities(&scene, "tls-passthrough/through/a.example.com"), [plain(1, &B)]);
}

#[test]
fn the_key_of_a_listener_is_sent_once_a_chain_shows_its_certificate() {
    let mut scene = scene(json!([tls("ends", 443, "*.example.com", Some("c"))]), []);
    let sent = |scene: &Scene| scene.resource("infra/edge", ResourceKind::Secret, "secret/infra/c").is_some();
    assert!(!sent(&scene), "no connection is ended yet");
    scene.put(tls_route("r", &["a.example.com"], to("a")));
    assert!(sent(&scene));
    scene.put(tls_route("r", &["a.example.net"], to("a")));
    assert!(!sent(&scene), "no hostname is the listener's");
}

#[test]
fn a_listener_that_is_not_served_keeps_its_names_from_broader_ones() {
    let listeners = json!([tls("ends", 443, "a.example.com", Some("missing")), tls("through", 443, "", None)]);
    let scene = scene(listeners, [tls_route("r", &["a.example.com", "b.example.com"], to("a"))]);
    assert_eq!(scene.listener("infra/edge", "ends", "ResolvedRefs"), "False InvalidCertificateRef");
    let chains = chains(&scene, "listener/443");
    assert_eq!(chains["b.example.com"], "tls-passthrough/through/b.example.com");
    assert_eq!(chains["a.example.com"], "closed");
    assert_eq!(chains[""], "closed");
}

#[test]
fn names_in_common_are_served_and_others_are_told() {
    let listeners = json!([tls("through", 443, "*.example.com", None)]);
    let scene = scene(
        listeners,
        [tls_route("r", &["*.a.example.com", "*.com"], to("a")), tls_route("none", &["example.net"], to("a"))],
    );
    let names: Vec<_> = chains(&scene, "listener/443").into_keys().collect();
    assert_eq!(names, ["*.a.example.com", "*.example.com"]);
    let none = condition(&scene, Kind::TlsRoute, "apps/none", 0, "Accepted");
    assert!(none.starts_with("False NoMatchingListenerHostname"), "{none}");
}

#[test]
fn a_hostname_of_another_listener_is_told_unless_the_route_is_served_there_on_that_port() {
    let all = [("https", 443), ("https-alt", 8443)].map(|(name, port)| https(name, port, "a.example.com", "c"));
    let listeners = json!([all[0], all[1], tls("tls", 443, "", None), tls("tls-alt", 8443, "", None)]);
    let told = |scene: &Scene| condition(scene, Kind::TlsRoute, "apps/r", 0, "Accepted");
    let nowhere = scene(listeners, [tls_route("r", &["a.example.com"], to("a"))]);
    let words = told(&nowhere);
    for listener in ["listener tls:", "listener tls-alt:"] {
        assert!(words.contains(&format!("a.example.com is not served at {listener}")), "{listener} {words}");
    }
    // It is served on one of two ports.
    let listeners = json!([all[0], tls("tls", 443, "", None), tls("tls-alt", 8443, "", None)]);
    let half = scene(listeners, [tls_route("r", &["a.example.com"], to("a"))]);
    assert_eq!(chains(&half, "listener/8443")["a.example.com"], "tls-passthrough/tls-alt/a.example.com");
    assert!(told(&half).contains("a.example.com is not served at listener tls:"), "{}", told(&half));
    // At the narrower listener of the port it is.
    let listeners = json!([tls("narrow", 443, "a.example.com", None), tls("tls", 443, "", None)]);
    let served = scene(listeners, [tls_route("r", &["a.example.com"], to("a"))]);
    assert!(!told(&served).contains("is not served"), "{}", told(&served));
}

/// Thousands of chains are not encoded anew for one.
#[test]
fn a_hostname_more_costs_the_same_among_few_and_many() {
    let route = |index: usize| tls_route(&format!("r{index}"), &[&format!("h{index}.example.com")], to("a"));
    let [few, many] = [10, 200].map(|many| {
        let mut scene = scene(json!([tls("through", 443, "", None)]), (0..many).map(route));
        let computed = scene.put(route(many)).computed;
        assert_eq!(chains(&scene, "listener/443").len(), many + 2, "with what is closed");
        computed
    });
    assert_eq!(few, many);
}
