//! What is said of what proxies have no room for.

use serde_json::{Value, json};
use translate::testing::scene::{
    Scene, gateway, http, https, route, secret, service, stream, stream_route, tls, tls_route,
};

use super::{get, streams::told};
use crate::{Outcome, tree::tree};

/// About 100 plain routes.
const SMALL: u64 = 700_000;

/// HTTPRoute `NAMESPACE/NAME`, made in this second, with so many rules of `/NAME/…`.
fn of(namespace: &str, name: &str, second: usize, hostnames: &[String], rules: usize) -> Value {
    let redirect = json!({"type": "RequestRedirect", "requestRedirect": {"port": 8443}});
    let rules = (0..rules).map(|at| {
        let path = json!({"type": "PathPrefix", "value": format!("/{name}/{at}")});
        json!({"matches": [{"path": path}], "filters": [redirect]})
    });
    let mut route = route(name, json!({"hostnames": hostnames, "rules": rules.collect::<Value>()}));
    route["metadata"]["namespace"] = json!(namespace);
    route["metadata"]["creationTimestamp"] = json!(format!("2024-01-01T00:00:{second:02}Z"));
    route
}

fn scene(bound: u64, routes: impl IntoIterator<Item = Value>) -> Scene {
    let mut settings = ir::Settings::default();
    settings.capacity.max_bytes = bound;
    Scene::with(settings, [gateway("edge", json!([http("http", 80, "")]))].into_iter().chain(routes))
}

fn shop() -> String {
    "shop.example.com".to_owned()
}

#[test]
fn a_closed_rule_says_why_where_somebody_asks_for_a_request_or_a_tree() {
    let evil = |at: usize| of("evil", &format!("e{at}"), 1 + at, &[shop()], 15);
    let scene = scene(SMALL, [of("shop", "shop", 0, &[shop()], 3)].into_iter().chain((0..20).map(evil)));
    let taken = |name: &str, at| get(&scene, &format!("http://{}/{name}/{at}", shop())).outcome;
    assert!((0..3).all(|at| matches!(taken("shop", at), Outcome::Redirect { .. })), "nobody else is closed");
    let all = (0..20).flat_map(|name| (0..15).map(move |at| (format!("e{name}"), at)));
    let closed = all.map(|(name, at)| taken(&name, at)).find_map(|outcome| match outcome {
        Outcome::DirectResponse { status: 500, because, .. } => Some(because),
        _ => None,
    });
    let because = closed.expect("a closed rule");
    assert!(because.iter().any(|finding| finding.message.contains("have no room")), "{because:?}");
    let tree = tree(&scene.0).to_string();
    assert!(tree.contains("have no room"), "{tree}");
}

/// Service `s` behind a BackendTLSPolicy.
fn secured() -> [Value; 3] {
    let pem = &translate::testing::scene::certificates()[0].0;
    [
        service("s"),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ca", "namespace": "apps"}, "data": {"ca.crt": pem}}),
        json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "BackendTLSPolicy",
            "metadata": {"name": "tls", "namespace": "apps"},
            "spec": {"targetRefs": [{"group": "", "kind": "Service", "name": "s"}], "validation": {"hostname": "s.example",
                "caCertificateRefs": [{"group": "", "kind": "ConfigMap", "name": "ca"}]}}}),
    ]
}

#[test]
fn a_backend_that_proxies_are_not_sent_answers_503_and_the_policy_is_named_that_has_no_room() {
    let gateways = (0..17_u16).map(|number| {
        let name = if number == 16 { "edge".to_owned() } else { format!("g{number:02}") };
        let port = if number == 16 { 80 } else { 8000 + number };
        let mut gateway = gateway(&name, json!([http("web", port, "")]));
        gateway["metadata"]["creationTimestamp"] = json!(format!("20{:02}-01-01T00:00:00Z", 10 + number));
        gateway
    });
    let all = (0..16).map(|number| format!("g{number:02}")).chain(["edge".to_owned()]);
    let parents: Vec<_> = all.map(|name| json!({"name": name, "namespace": "infra"})).collect();
    let scene = Scene::new(gateways.chain(secured()).chain([route("r", json!({"parentRefs": parents}))]));
    let text = get(&scene, "http://a.example.com/").to_string();
    assert!(text.contains("answer     503\n"), "{text}");
    assert!(text.contains("TooManyAncestors") && text.contains("(BackendTLSPolicy apps/tls)"), "{text}");
}

#[test]
fn a_backend_to_which_a_gateway_has_nothing_to_show_answers_503_and_the_gateway_is_named() {
    let shows = |name: &str| {
        let mut gateway = gateway("edge", json!([http("web", 80, "")]));
        gateway["spec"]["tls"] = json!({"backend": {"clientCertificateRef": {"name": name}}});
        gateway
    };
    let rules = json!([{"backendRefs": [{"name": "s", "port": 80}, {"name": "t", "port": 80, "weight": 3}]}]);
    let objects = [shows("none"), service("t"), route("r", json!({"rules": rules})), secret("one")];
    let mut scene = Scene::new(objects.into_iter().chain(secured()));
    let text = get(&scene, "http://a.example.com/").to_string();
    assert!(text.contains("answer     503 (weight 1), Service apps/t port 80 (weight 3)\n"), "{text}");
    assert!(text.contains("InvalidClientCertificateRef") && text.contains("(Gateway infra/edge)"), "{text}");
    scene.put(shows("one"));
    let text = get(&scene, "http://a.example.com/").to_string();
    assert!(text.contains("answer     Service apps/s port 80 (weight 1) by BackendTLSPolicy apps/tls"), "{text}");
}

#[test]
fn a_connection_to_which_a_gateway_has_nothing_to_show_goes_nowhere_and_the_gateway_is_named() {
    let shows = |name: &str| {
        let mut gateway = gateway("edge", json!([stream("db", 5432, "TCP")]));
        gateway["spec"]["tls"] = json!({"backend": {"clientCertificateRef": {"name": name}}});
        gateway
    };
    let to = json!([{"name": "s", "port": 80}, {"name": "t", "port": 80, "weight": 3}]);
    let objects = [shows("none"), service("t"), stream_route("TCPRoute", "r", to), secret("one")];
    let mut scene = Scene::new(objects.into_iter().chain(secured()));
    let text = told(&scene, "tcp://localhost:5432");
    assert!(text.contains("goes to    nowhere (weight 1), Service apps/t port 80 (weight 3)\n"), "{text}");
    assert!(text.contains("InvalidClientCertificateRef") && text.contains("(Gateway infra/edge)"), "{text}");
    scene.put(shows("one"));
    let text = told(&scene, "tcp://localhost:5432");
    assert!(
        text.contains("goes to    Service apps/s port 80 (weight 1), Service apps/t port 80 (weight 3)\n"),
        "{text}"
    );
    assert!(!text.contains('!'), "{text}");
}

#[test]
fn what_is_asked_of_clients_is_told_of_a_request_and_in_the_tree() {
    let pem = &translate::testing::scene::certificates()[0].0;
    let mut asking = gateway("edge", json!([https("tls", 443, "", "one"), tls("ended", 8443, "", Some("one"))]));
    asking["spec"]["tls"] = json!({"frontend": {"default": {"validation": {"mode": "AllowInsecureFallback",
        "caCertificateRefs": [{"group": "", "kind": "ConfigMap", "name": "ca"}]}}}});
    let authority = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ca", "namespace": "infra"},
        "data": {"ca.crt": pem}});
    let scene = Scene::new([
        asking,
        secret("one"),
        authority,
        service("s"),
        route("r", json!({})),
        tls_route("t", &["t.example.com"], json!([{"name": "s", "port": 80}])),
    ]);
    let word = "clients with any certificate and without: AllowInsecureFallback";
    let text = get(&scene, "https://a.example.com/").to_string();
    assert!(text.contains(word), "{text}");
    let text = told(&scene, "tls://t.example.com:8443");
    assert!(text.contains(word), "{text}");
    let tree = tree(&scene.0).to_string();
    assert!(tree.contains(word), "{tree}");
}

#[test]
fn a_hostname_that_answers_500_to_everything_says_whose_routes_are_too_many() {
    let names = |attack| (0..15).map(|name| format!("{name}.{attack}.evil.example.com")).collect::<Vec<_>>();
    let scene = scene(
        2 * SMALL,
        [
            of("platform", "all", 0, &[], 8),
            of("shop", "shop", 1, &[shop()], 3),
            of("evil", "e0", 2, &names(0), 1),
            of("evil", "e1", 3, &names(1), 1),
        ],
    );
    let Outcome::DirectResponse { status: 500, because, .. } =
        get(&scene, "http://14.1.evil.example.com/all/1").outcome
    else {
        panic!("{}", get(&scene, "http://14.1.evil.example.com/all/1"))
    };
    assert!(because[0].to_string().contains("namespace evil"), "{because:?}");
    assert!(matches!(get(&scene, &format!("http://{}/all/1", shop())).outcome, Outcome::Redirect { .. }));
}
