//! TCPRoutes, UDPRoutes and TLSRoutes.

#![allow(clippy::needless_pass_by_value, reason = "callers write values in place")]

mod bounds;
mod hostnames;

use std::collections::BTreeMap;

use api::Kind;
use envoy::ResourceKind;
use ir::GATEWAY_API;
use serde_json::{Value, json};

use super::scene::{
    Scene, certificates, gateway, http, https, route, secret, service, stream, stream_route, tls, tls_route,
};
use translate::Changes;

fn to(name: &str) -> Value {
    json!([{"name": name, "port": 80}])
}

/// A Service `apps/NAME` with port 80 in TCP and in UDP, each with endpoints of its own: `10.0.NUMBER.1` and so on.
fn backend(name: &str, number: u8, endpoints: u8) -> [Value; 2] {
    let ports = |of: fn(&str, u16, &str) -> Value| json!([of("tcp", 80, "TCP"), of("udp", 80, "UDP")]);
    let addresses: Vec<_> =
        (1..=endpoints).map(|host| json!({"addresses": [format!("10.0.{number}.{host}")]})).collect();
    [
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "apps"},
            "spec": {"ports": ports(|name, port, protocol| json!({"name": name, "port": port, "protocol": protocol}))}}),
        json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": format!("{name}-1"), "namespace": "apps", "labels": {"kubernetes.io/service-name": name}},
            "ports": ports(|name, _, protocol| json!({"name": name, "port": 8080, "protocol": protocol})),
            "endpoints": addresses}),
    ]
}

fn created(mut object: Value, at: u8) -> Value {
    object["metadata"]["creationTimestamp"] = json!(format!("2026-01-01T00:00:0{at}Z"));
    object
}

fn scene(listeners: Value, objects: impl IntoIterator<Item = Value>) -> Scene {
    let own = [gateway("edge", listeners), secret("c")];
    let backends = [backend("a", 1, 2), backend("b", 2, 1), backend("none", 3, 0)].into_iter().flatten();
    Scene::new(own.into_iter().chain(backends).chain(objects))
}

fn condition(scene: &Scene, kind: Kind, name: &str, parent: usize, condition: &str) -> String {
    let status = scene.status(kind, name);
    let conditions = status["parents"][parent]["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.iter().find(|found| found["type"] == condition);
    found.map_or(String::new(), |found| {
        format!("{} {}: {}", found["status"], found["reason"], found["message"]).replace('"', "")
    })
}

/// The localities of a place: each with its weight, its way and its addresses.
fn localities(scene: &Scene, place: &str) -> Vec<(u64, String, Vec<String>)> {
    let assignment = scene.resource("infra/edge", ResourceKind::Endpoints, place).expect("endpoints");
    let localities = assignment["endpoints"].as_array().cloned().unwrap_or_default();
    let read = |locality: &Value| {
        let endpoints = locality["lbEndpoints"].as_array().cloned().unwrap_or_default();
        let way = &endpoints[0]["metadata"]["filterMetadata"]["envoy.transport_socket_match"]["way"];
        let address = |endpoint: &Value| {
            endpoint["endpoint"]["address"]["socketAddress"]["address"].as_str().expect("an address").to_owned()
        };
        let weight = locality["loadBalancingWeight"].as_u64().unwrap_or_default();
        (weight, way.as_str().unwrap_or_default().to_owned(), endpoints.iter().map(address).collect())
    };
    localities.iter().map(read).collect()
}

const A: [&str; 2] = ["10.0.1.1", "10.0.1.2"];
const B: [&str; 1] = ["10.0.2.1"];
const NOWHERE: [&str; 1] = ["255.255.255.255"];

fn plain(weight: u64, addresses: &[&str]) -> (u64, String, Vec<String>) {
    (weight, "plain".to_owned(), addresses.iter().map(ToString::to_string).collect())
}

fn changed(changes: &Changes) -> Vec<String> {
    changes.resources.iter().map(|(key, _)| format!("{:?} {}", key.kind, key.name)).collect()
}

/// The filter chains of a listener: server names, and what each leads to.
fn chains(scene: &Scene, listener: &str) -> BTreeMap<String, String> {
    let listener = scene.resource("infra/edge", ResourceKind::Listener, listener).unwrap_or_default();
    let chains = listener["filterChains"].as_array().cloned().unwrap_or_default();
    let read = |chain: &Value| {
        let names = chain["filterChainMatch"]["serverNames"].as_array().cloned().unwrap_or_default();
        let names: Vec<_> = names.iter().filter_map(Value::as_str).collect();
        let config = &chain["filters"][0]["typedConfig"];
        let to = config["cluster"].as_str().or(config["rds"]["routeConfigName"].as_str()).unwrap_or("closed");
        let socket = if chain["transportSocket"].is_null() { "" } else { ", over TLS" };
        (names.join(" "), format!("{to}{socket}"))
    };
    chains.iter().map(read).collect()
}

#[test]
fn a_route_attaches_to_listeners_of_its_protocol_alone() {
    let listeners = json!([
        http("web", 80, ""),
        stream("db", 5432, "TCP"),
        stream("dns", 53, "UDP"),
        tls("through", 443, "", None),
        tls("ends", 8443, "", Some("c")),
    ]);
    let at = |mut route: Value, section: &str| {
        route["spec"]["parentRefs"][0]["sectionName"] = json!(section);
        route
    };
    let mut http_route = route("r", json!({}));
    http_route["spec"]["parentRefs"] = json!([{"name": "edge", "namespace": "infra", "sectionName": "db"}]);
    let scene = scene(
        listeners,
        [
            stream_route("TCPRoute", "db", to("a")),
            stream_route("UDPRoute", "dns", to("a")),
            tls_route("names", &["a.example.com"], to("a")),
            at(stream_route("TCPRoute", "wrong", to("a")), "web"),
            at(stream_route("TCPRoute", "missing", to("a")), "nothing"),
            http_route,
        ],
    );
    for (kind, name) in [(Kind::TcpRoute, "apps/db"), (Kind::UdpRoute, "apps/dns"), (Kind::TlsRoute, "apps/names")] {
        assert!(condition(&scene, kind, name, 0, "Accepted").starts_with("True Accepted"), "{name}");
        assert!(condition(&scene, kind, name, 0, "ResolvedRefs").starts_with("True ResolvedRefs"), "{name}");
        assert_eq!(condition(&scene, kind, name, 0, "portcullis.dev/Serving"), "", "{name}");
    }
    let wrong = condition(&scene, Kind::TcpRoute, "apps/wrong", 0, "Accepted");
    assert!(wrong.starts_with("False NotAllowedByListeners"), "{wrong}");
    let resolved = condition(&scene, Kind::TcpRoute, "apps/wrong", 0, "ResolvedRefs");
    assert!(resolved.starts_with("True ResolvedRefs"), "judged all the same: {resolved}");
    assert!(condition(&scene, Kind::TcpRoute, "apps/missing", 0, "Accepted").starts_with("False NoMatchingParent"));
    assert!(scene.route_message("apps/r", 0, "Accepted").starts_with("False NotAllowedByListeners"));
    for (listener, attached, kind) in
        [("db", 1, "TCPRoute"), ("dns", 1, "UDPRoute"), ("through", 1, "TLSRoute"), ("ends", 1, "TLSRoute")]
    {
        let status = scene.listener_status("infra/edge", listener);
        assert_eq!(status["attachedRoutes"], attached, "{listener}");
        assert_eq!(status["supportedKinds"], json!([{"group": GATEWAY_API, "kind": kind}]), "{listener}");
        assert_eq!(scene.listener("infra/edge", listener, "Programmed"), "True Programmed", "{listener}");
    }
}

#[test]
fn kinds_of_another_protocol_are_no_kinds_of_a_listener() {
    let mut through = tls("through", 443, "", None);
    through["allowedRoutes"]["kinds"] = json!([{"kind": "TLSRoute"}, {"kind": "TCPRoute"}]);
    let scene = scene(json!([through]), []);
    assert_eq!(scene.listener("infra/edge", "through", "ResolvedRefs"), "False InvalidRouteKinds");
    let status = scene.listener_status("infra/edge", "through");
    assert_eq!(status["supportedKinds"], json!([{"group": GATEWAY_API, "kind": "TLSRoute"}]));
}

#[test]
fn a_kind_without_its_definition_is_no_ones_until_it_comes() {
    let mut scene = scene(json!([stream("db", 5432, "TCP"), http("web", 80, "")]), []);
    scene.0.set_absent(Kind::TcpRoute, true);
    scene.0.settle();
    assert_eq!(scene.listener_status("infra/edge", "db")["supportedKinds"], json!([]));
    let features = scene.status(Kind::GatewayClass, "portcullis")["supportedFeatures"].to_string();
    assert!(!features.contains("TCPRoute") && features.contains("UDPRoute"), "{features}");
    scene.0.set_absent(Kind::TcpRoute, false);
    scene.0.settle();
    assert_eq!(scene.listener_status("infra/edge", "db")["supportedKinds"][0]["kind"], "TCPRoute");
}

#[test]
fn the_oldest_route_serves_and_the_others_are_told_without_a_name() {
    let mut scene = scene(
        json!([stream("db", 5432, "TCP")]),
        [
            created(stream_route("TCPRoute", "a-young", to("b")), 2),
            created(stream_route("TCPRoute", "old", to("a")), 1),
        ],
    );
    assert_eq!(localities(&scene, "tcp/db"), [plain(1, &A)]);
    assert_eq!(scene.attached("infra/edge", "db"), 2);
    let young = condition(&scene, Kind::TcpRoute, "apps/a-young", 0, "portcullis.dev/Serving");
    assert!(young.starts_with("False Superseded: another route") && young.contains("listener db"), "{young}");
    assert!(!young.contains("apps/old"), "{young}");
    assert!(condition(&scene, Kind::TcpRoute, "apps/a-young", 0, "Accepted").starts_with("True Accepted"));
    assert_eq!(condition(&scene, Kind::TcpRoute, "apps/old", 0, "portcullis.dev/Serving"), "");
    scene.remove(stream_route("TCPRoute", "old", to("a")));
    assert_eq!(localities(&scene, "tcp/db"), [plain(1, &B)]);
    assert_eq!(condition(&scene, Kind::TcpRoute, "apps/a-young", 0, "portcullis.dev/Serving"), "");
}

#[test]
fn whatever_routes_of_tcp_and_udp_say_changes_endpoints_alone() {
    let listeners = json!([stream("db", 5432, "TCP"), stream("dns", 53, "UDP")]);
    let mut scene = scene(listeners, [route("bystander", json!({}))]);
    for (kind, place) in [("TCPRoute", "tcp/db"), ("UDPRoute", "udp/dns")] {
        let only = [format!("Endpoints {place}")];
        let older = created(stream_route(kind, "older", to("b")), 1);
        let weighted = json!([{"name": "a", "port": 80, "weight": 3}, {"name": "b", "port": 80, "weight": 1}]);
        let steps = [
            ("comes", stream_route(kind, "r", to("a"))),
            ("is weighted", stream_route(kind, "r", weighted)),
            ("is broken", stream_route(kind, "r", to("missing"))),
            ("is superseded", older.clone()),
        ];
        // What has no timestamp is from 1970.
        for (step, mut object) in steps {
            if step != "is superseded" {
                object = created(object, 2);
            }
            assert_eq!(changed(&scene.put(object)), only, "{kind} {step}");
        }
        assert_eq!(changed(&scene.remove(older)), only, "{kind} goes");
        scene.remove(stream_route(kind, "r", to("a")));
        assert_eq!(localities(&scene, place), [], "{kind}: without a route nobody is there");
    }
}

#[test]
fn the_share_of_what_cannot_be_used_goes_nowhere_and_others_keep_theirs() {
    let backends = json!([
        {"name": "a", "port": 80, "weight": 1},
        {"name": "none", "port": 80, "weight": 2},
        {"name": "missing", "port": 80, "weight": 4},
        {"kind": "ConfigMap", "name": "a", "weight": 8},
        {"name": "a", "port": 81, "weight": 16},
        {"name": "far", "namespace": "infra", "port": 80, "weight": 32},
        {"name": "b", "port": 80, "weight": 0},
        {"name": "a", "port": 80, "weight": 64},
    ]);
    let scene = scene(json!([stream("db", 5432, "TCP")]), [stream_route("TCPRoute", "r", backends)]);
    assert_eq!(localities(&scene, "tcp/db"), [plain(65, &A), plain(62, &NOWHERE)]);
    assert!(condition(&scene, Kind::TcpRoute, "apps/r", 0, "Accepted").starts_with("True Accepted"));
    let unresolved = condition(&scene, Kind::TcpRoute, "apps/r", 0, "ResolvedRefs");
    for words in ["False BackendNotFound", "backendRefs[2].name", "ConfigMap", "has no port 81", "no ReferenceGrant"] {
        assert!(unresolved.contains(words), "{words}: {unresolved}");
    }
}

#[test]
fn a_route_without_a_backend_that_can_be_used_has_no_endpoints_at_all() {
    for backends in
        [json!([{"name": "missing", "port": 80}]), json!([{"name": "a", "port": 80, "weight": 0}]), to("none")]
    {
        let scene = scene(json!([stream("db", 5432, "TCP")]), [stream_route("TCPRoute", "r", backends.clone())]);
        assert_eq!(localities(&scene, "tcp/db"), [], "{backends}");
        assert!(
            scene.resource("infra/edge", ResourceKind::Cluster, "tcp/db").is_some(),
            "connections are made, and closed"
        );
    }
}

#[test]
fn a_backend_without_weight_keeps_the_sessions_of_datagrams_that_it_has() {
    let weights =
        |a: u8, b: u8| json!([{"name": "a", "port": 80, "weight": a}, {"name": "b", "port": 80, "weight": b}]);
    let mut scene = scene(json!([stream("dns", 53, "UDP")]), [stream_route("UDPRoute", "r", weights(0, 1))]);
    let of = |weight, addresses: &[&str]| {
        (weight, String::new(), addresses.iter().map(ToString::to_string).collect::<Vec<_>>())
    };
    assert_eq!(localities(&scene, "udp/dns"), [of(0, &A), of(1, &B)]);
    // Where nobody has a weight Envoy would look at none.
    scene.put(stream_route("UDPRoute", "r", weights(0, 0)));
    assert_eq!(localities(&scene, "udp/dns"), [of(0, &A), of(0, &B), of(1, &NOWHERE)]);
}

#[test]
fn backends_with_the_same_endpoints_have_the_shares_of_both() {
    let mut twin = backend("twin", 1, 2);
    twin[1]["metadata"]["name"] = json!("twin-1");
    let backends = json!([{"name": "a", "port": 80, "weight": 1}, {"name": "twin", "port": 80, "weight": 1},
        {"name": "b", "port": 80, "weight": 2}]);
    let objects = twin.into_iter().chain([stream_route("TCPRoute", "r", backends)]);
    let scene = scene(json!([stream("db", 5432, "TCP")]), objects);
    assert_eq!(localities(&scene, "tcp/db"), [plain(2, &A), plain(2, &B)]);
}

#[test]
fn one_port_in_tcp_and_in_udp_is_two_listeners_and_two_clusters() {
    let scene = scene(
        json!([stream("dns", 53, "TCP"), stream("dns-udp", 53, "UDP")]),
        [stream_route("TCPRoute", "r", to("a")), stream_route("UDPRoute", "r", to("a"))],
    );
    assert_eq!(scene.listener("infra/edge", "dns", "Programmed"), "True Programmed");
    assert_eq!(scene.listener("infra/edge", "dns-udp", "Programmed"), "True Programmed");
    let tcp = scene.resource("infra/edge", ResourceKind::Listener, "listener/53").expect("a listener");
    let udp = scene.resource("infra/edge", ResourceKind::Listener, "listener/53/udp").expect("a listener");
    assert_eq!(tcp["address"]["socketAddress"]["protocol"], Value::Null);
    assert_eq!(udp["address"]["socketAddress"]["protocol"], "UDP");
    assert_eq!(localities(&scene, "tcp/dns").len(), 1);
    assert_eq!(localities(&scene, "udp/dns-udp").len(), 1);
    assert!(scene.problems().is_empty(), "{:?}", scene.problems());
}

#[test]
fn a_port_of_the_wrong_transport_is_no_backend() {
    let mut udp_only = service("u");
    udp_only["spec"]["ports"] = json!([{"port": 80, "protocol": "UDP"}]);
    let scene = scene(
        json!([stream("db", 5432, "TCP"), stream("dns", 53, "UDP")]),
        [udp_only, stream_route("TCPRoute", "r", to("u")), stream_route("UDPRoute", "r", to("u"))],
    );
    let tcp = condition(&scene, Kind::TcpRoute, "apps/r", 0, "ResolvedRefs");
    assert!(tcp.starts_with("False UnsupportedProtocol") && tcp.contains("is UDP, and TCP is needed"), "{tcp}");
    assert!(condition(&scene, Kind::UdpRoute, "apps/r", 0, "ResolvedRefs").starts_with("True"));
}

#[test]
fn what_shares_a_port_conflicts_unless_something_tells_it_apart() {
    for (listeners, conflicted) in [
        (json!([stream("one", 80, "TCP"), http("two", 80, "")]), "True ProtocolConflict"),
        (json!([stream("one", 80, "TCP"), https("two", 80, "", "c")]), "True ProtocolConflict"),
        (json!([stream("one", 80, "TCP"), tls("two", 80, "", None)]), "True ProtocolConflict"),
        (json!([http("one", 80, ""), tls("two", 80, "a.example.com", None)]), "True ProtocolConflict"),
        (json!([stream("one", 80, "TCP"), stream("two", 80, "TCP")]), "True ProtocolConflict"),
        (json!([stream("one", 80, "UDP"), stream("two", 80, "UDP")]), "True ProtocolConflict"),
        (
            json!([https("one", 80, "a.example.com", "c"), tls("two", 80, "a.example.com", None)]),
            "True HostnameConflict",
        ),
        (json!([stream("one", 80, "TCP"), stream("two", 80, "UDP")]), "False NoConflicts"),
        (json!([http("one", 80, ""), stream("two", 80, "UDP")]), "False NoConflicts"),
        (json!([https("one", 80, "a.example.com", "c"), tls("two", 80, "", None)]), "False NoConflicts"),
        (json!([tls("one", 80, "a.example.com", Some("c")), tls("two", 80, "", None)]), "False NoConflicts"),
    ] {
        let scene = scene(listeners.clone(), []);
        let said = ["one", "two"].map(|name| scene.listener("infra/edge", name, "Conflicted"));
        assert_eq!(said, [conflicted; 2], "{listeners}");
        let programmed = if conflicted.starts_with("True") { "False Invalid" } else { "True Programmed" };
        let said = ["one", "two"].map(|name| scene.listener("infra/edge", name, "Programmed"));
        assert_eq!(said, [programmed; 2], "{listeners}");
    }
}

#[test]
fn a_listener_that_can_never_serve_takes_no_listener_of_another_protocol_down() {
    let with = |mut listener: Value, field: &str, value: Value| {
        listener[field] = value;
        listener
    };
    let options = json!({"mode": "Passthrough", "options": {"a/b": "c"}});
    for (sound, refused, expected) in [
        (http("sound", 80, ""), with(stream("refused", 80, "TCP"), "hostname", json!("a.example.com")), "http/80"),
        (http("sound", 80, ""), with(tls("refused", 80, "a.example.com", None), "tls", options.clone()), "http/80"),
        (
            https("sound", 80, "", "c"),
            with(tls("refused", 80, "", None), "tls", options.clone()),
            "https/80/sound, over TLS",
        ),
    ] {
        let scene = scene(json!([sound, refused]), []);
        assert_eq!(scene.listener("infra/edge", "sound", "Programmed"), "True Programmed", "{refused}");
        assert_eq!(scene.listener("infra/edge", "refused", "Programmed"), "False Invalid", "{refused}");
        let expected = BTreeMap::from([(String::new(), expected.to_owned())]);
        assert_eq!(chains(&scene, "listener/80"), expected, "{refused}");
    }
}

#[test]
fn what_no_listener_of_a_protocol_can_have_is_refused() {
    let with = |mut listener: Value, field: &str, value: Value| {
        listener[field] = value;
        listener
    };
    for (listener, field) in [
        (with(stream("l", 80, "TCP"), "hostname", json!("a.example.com")), "hostname"),
        (with(stream("l", 80, "UDP"), "tls", json!({"mode": "Terminate"})), "tls"),
        (with(stream("l", 443, "TLS"), "hostname", json!("a.example.com")), "tls"),
        (with(stream("l", 443, "TLS"), "tls", json!({"mode": "Half"})), "tls.mode"),
        (with(stream("l", 443, "TLS"), "tls", json!({"mode": "Passthrough", "options": {"a/b": "c"}})), "tls.options"),
        (with(stream("l", 443, "SCTP"), "tls", json!(null)), "protocol"),
    ] {
        let scene = scene(json!([listener]), []);
        let accepted = scene.listener_status("infra/edge", "l")["conditions"][0]["message"].to_string();
        assert!(accepted.contains(&format!("spec.listeners[0].{field}: ")), "{listener}: {accepted}");
        assert_eq!(scene.listener("infra/edge", "l", "Programmed"), "False Invalid", "{listener}");
    }
}

#[test]
fn a_grant_lets_a_route_of_another_namespace_use_a_service_and_its_end_closes_it() {
    let mut far = backend("far", 9, 1).to_vec();
    for object in &mut far {
        object["metadata"]["namespace"] = json!("infra");
    }
    let grant = |kind: &str| {
        json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "ReferenceGrant",
            "metadata": {"name": "g", "namespace": "infra"},
            "spec": {"from": [{"group": GATEWAY_API, "kind": kind, "namespace": "apps"}], "to": [{"group": "", "kind": "Service"}]}})
    };
    let backends = json!([{"name": "far", "namespace": "infra", "port": 80}]);
    let mut scene =
        scene(json!([stream("db", 5432, "TCP")]), far.into_iter().chain([stream_route("TCPRoute", "r", backends)]));
    let resolved = |scene: &Scene| condition(scene, Kind::TcpRoute, "apps/r", 0, "ResolvedRefs");
    assert!(resolved(&scene).starts_with("False RefNotPermitted"));
    scene.put(grant("HTTPRoute"));
    assert!(resolved(&scene).starts_with("False RefNotPermitted"), "a grant for another kind");
    scene.put(grant("TCPRoute"));
    assert!(resolved(&scene).starts_with("True"));
    assert_eq!(localities(&scene, "tcp/db"), [plain(1, &["10.0.9.1"])]);
    scene.remove(grant("TCPRoute"));
    assert_eq!(localities(&scene, "tcp/db"), []);
}

fn authorities() -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ca", "namespace": "apps"},
        "data": {"ca.crt": certificates()[0].0}})
}

fn tls_policy(service: &str) -> Value {
    json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "BackendTLSPolicy",
        "metadata": {"name": "p", "namespace": "apps", "generation": 1},
        "spec": {"targetRefs": [{"group": "", "kind": "Service", "name": service}], "validation": {"hostname": "b.example",
            "caCertificateRefs": [{"group": "", "kind": "ConfigMap", "name": "ca"}]}}})
}

#[test]
fn nothing_goes_in_plain_text_where_a_policy_says_tls() {
    let backends = json!([{"name": "a", "port": 80, "weight": 1}, {"name": "b", "port": 80, "weight": 2}]);
    let mut scene = scene(
        json!([stream("db", 5432, "TCP"), tls("through", 443, "", None)]),
        [stream_route("TCPRoute", "r", backends.clone()), tls_route("t", &["a.example.com"], backends)],
    );
    assert_eq!(localities(&scene, "tcp/db"), [plain(1, &A), plain(2, &B)]);
    // Without its authorities the policy is not valid, and its port is closed.
    scene.put(tls_policy("b"));
    assert_eq!(localities(&scene, "tcp/db"), [plain(1, &A), plain(2, &NOWHERE)]);
    let closed = condition(&scene, Kind::TcpRoute, "apps/r", 0, "ResolvedRefs");
    assert!(closed.starts_with("False InvalidBackendTLS"), "{closed}");
    assert_eq!(
        localities(&scene, "tls-passthrough/through/a.example.com"),
        [plain(1, &A), plain(2, &B)],
        "no policy holds there"
    );
    assert!(condition(&scene, Kind::TlsRoute, "apps/t", 0, "ResolvedRefs").starts_with("True"));
    scene.put(authorities());
    let secured = (2, "service/apps/b/80/tls".to_owned(), B.map(str::to_owned).to_vec());
    assert_eq!(localities(&scene, "tcp/db"), [plain(1, &A), secured.clone()]);
    assert!(condition(&scene, Kind::TcpRoute, "apps/r", 0, "ResolvedRefs").starts_with("True"));
    let cluster = scene.resource("infra/edge", ResourceKind::Cluster, "tcp/db").expect("a cluster");
    let ways = cluster["transportSocketMatches"].as_array().expect("ways");
    let names: Vec<_> = ways.iter().map(|way| way["match"]["way"].as_str().expect("a way")).collect();
    assert_eq!(names, ["plain", "service/apps/b/80/tls"]);
    assert_eq!(ways[1]["transportSocket"]["typedConfig"]["sni"], "b.example");
    let resources = scene.0.resources();
    let (_, list) = resources.iter().find(|(key, _)| key.to_string() == "infra/edge").expect("the Gateway");
    assert!(list.iter().any(|(key, _)| key.name.starts_with("authorities/apps")), "the authorities are sent");
    let policy = scene.status(Kind::BackendTlsPolicy, "apps/p");
    assert_eq!(policy["ancestors"][0]["ancestorRef"]["name"], "edge", "{policy}");
    // What is passed through is TLS already.
    assert_eq!(localities(&scene, "tls-passthrough/through/a.example.com"), [plain(1, &A), plain(2, &B)]);
}

#[test]
fn a_listener_that_passes_tls_through_from_now_on_has_other_clusters_than_before() {
    let objects = || [tls_route("t", &["a.example.com"], to("b")), tls_policy("b"), authorities()];
    let mut scene = scene(json!([tls("tls", 443, "", Some("c"))]), objects());
    let ended = chains(&scene, "listener/443")["a.example.com"].clone();
    assert_eq!(ended, "tls/tls/a.example.com, over TLS");
    let changes = scene.put(gateway("edge", json!([tls("tls", 443, "", None)])));
    // Proxies that still end TLS send to the cluster of before, which has no endpoint that is connected to in plain text.
    let of_before = changes
        .resources
        .iter()
        .find(|(key, _)| key.kind == ResourceKind::Endpoints && &*key.name == "tls/tls/a.example.com");
    assert!(matches!(of_before, Some((_, None))), "{:?}", changed(&changes));
    assert_eq!(chains(&scene, "listener/443")["a.example.com"], "tls-passthrough/tls/a.example.com");
    assert_eq!(localities(&scene, "tls-passthrough/tls/a.example.com"), [plain(1, &B)]);
}

#[test]
fn a_gateway_shows_its_certificate_to_backends_of_streams_or_nobody_connects() {
    let shows = |name: &str| {
        let mut gateway = gateway("edge", json!([stream("db", 5432, "TCP")]));
        gateway["spec"]["tls"] = json!({"backend": {"clientCertificateRef": {"name": name}}});
        gateway
    };
    let objects = [stream_route("TCPRoute", "r", to("b")), tls_policy("b"), authorities()];
    let mut scene = scene(json!([stream("db", 5432, "TCP")]), objects);
    let ways = |scene: &Scene| {
        let cluster = scene.resource("infra/edge", ResourceKind::Cluster, "tcp/db").expect("a cluster");
        let ways = cluster["transportSocketMatches"].as_array().expect("ways").clone();
        let shown = |way: &Value| {
            let common = &way["transportSocket"]["typedConfig"]["commonTlsContext"];
            common["tlsCertificateSdsSecretConfigs"][0]["name"].as_str().map(str::to_owned)
        };
        ways.iter().map(|way| (way["name"].as_str().expect("a name").to_owned(), shown(way))).collect::<Vec<_>>()
    };
    let secured = |shown: Option<&str>| ("service/apps/b/80/tls".to_owned(), shown.map(str::to_owned));
    assert_eq!(ways(&scene)[1..], [secured(None)]);
    scene.put(shows("none"));
    assert_eq!(ways(&scene)[1..], [], "nobody connects to what goes in a way that the cluster does not know");
    assert!(localities(&scene, "tcp/db").iter().all(|(_, way, _)| way == "service/apps/b/80/tls"));
    scene.put(secret("shown"));
    scene.put(shows("shown"));
    assert_eq!(ways(&scene)[1..], [secured(Some("secret/infra/shown"))]);
    assert!(scene.resource("infra/edge", ResourceKind::Secret, "secret/infra/shown").is_some());
}

#[test]
fn an_endpoint_that_is_secured_for_one_and_not_for_another_is_not_taken_twice() {
    let mut twin = backend("twin", 2, 1);
    twin[1]["metadata"]["name"] = json!("twin-1");
    let backends = json!([{"name": "b", "port": 80, "weight": 1}, {"name": "twin", "port": 80, "weight": 1}]);
    let objects = twin.into_iter().chain([stream_route("TCPRoute", "r", backends), tls_policy("twin"), authorities()]);
    let scene = scene(json!([stream("db", 5432, "TCP")]), objects);
    assert_eq!(localities(&scene, "tcp/db"), [plain(1, &B), plain(1, &NOWHERE)]);
}

#[test]
fn what_came_in_tls_does_not_go_on_in_plain_text_to_a_port_that_says_tls() {
    let listeners = json!([
        stream("db", 5432, "TCP"),
        tls("ends", 443, "a.example.com", Some("c")),
        tls("through", 443, "b.example.com", None),
    ]);
    for protocol in ["https", "tls", "kubernetes.io/wss"] {
        let mut port = backend("b", 2, 1);
        port[0]["spec"]["ports"][0]["appProtocol"] = json!(protocol);
        let names = ["a.example.com", "b.example.com"];
        let objects = [stream_route("TCPRoute", "r", to("b")), tls_route("t", &names, to("b"))];
        let mut scene = scene(listeners.clone(), port.into_iter().chain(objects));
        assert_eq!(localities(&scene, "tls/ends/a.example.com"), [], "{protocol}");
        let told = condition(&scene, Kind::TlsRoute, "apps/t", 0, "ResolvedRefs");
        assert!(told.starts_with("False UnsupportedProtocol") && told.contains("BackendTLSPolicy"), "{told}");
        // What is not known, and what is passed through, may be TLS as it is.
        assert_eq!(localities(&scene, "tcp/db"), [plain(1, &B)], "{protocol}");
        assert_eq!(localities(&scene, "tls-passthrough/through/b.example.com"), [plain(1, &B)], "{protocol}");
        scene.put(tls_policy("b"));
        scene.put(authorities());
        let secured = (1, "service/apps/b/80/tls".to_owned(), B.map(str::to_owned).to_vec());
        assert_eq!(localities(&scene, "tls/ends/a.example.com"), [secured], "{protocol}");
        assert!(condition(&scene, Kind::TlsRoute, "apps/t", 0, "ResolvedRefs").starts_with("True"), "{protocol}");
    }
}

#[test]
fn a_config_policy_wraps_connections_too() {
    let policy = json!({"apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "BackendConfigPolicy",
        "metadata": {"name": "p", "namespace": "apps", "generation": 1},
        "spec": {"targetRefs": [{"group": "", "kind": "Service", "name": "a"}], "upstreamProxyProtocol": {"version": "V2"}}});
    let scene = scene(json!([stream("db", 5432, "TCP")]), [stream_route("TCPRoute", "r", to("a")), policy]);
    let expected = (1, "service/apps/a/80".to_owned(), A.map(str::to_owned).to_vec());
    assert_eq!(localities(&scene, "tcp/db"), [expected], "{:?}", scene.problems());
}

#[test]
fn certificates_of_a_listener_that_passes_tls_through_are_told_to_have_no_effect() {
    let mut through = tls("through", 443, "", None);
    through["tls"]["certificateRefs"] = json!([{"name": "missing"}]);
    let scene = scene(json!([through]), []);
    assert_eq!(scene.listener("infra/edge", "through", "Programmed"), "True Programmed");
    assert!(scene.gateway_message("infra/edge", "Accepted").contains("no certificate is presented"));
}

#[test]
fn a_policy_of_requests_cannot_be_on_a_route_of_streams() {
    let policy = json!({"apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "TrafficPolicy",
        "metadata": {"name": "p", "namespace": "apps", "generation": 1},
        "spec": {"targetRefs": [{"group": GATEWAY_API, "kind": "TCPRoute", "name": "r"}], "timeouts": {"request": "5s"}}});
    let scene = scene(json!([stream("db", 5432, "TCP")]), [stream_route("TCPRoute", "r", to("a")), policy]);
    let problems = scene.problems();
    assert!(problems.iter().any(|problem| problem.starts_with("p ") && problem.contains("TCPRoute")), "{problems:?}");
}

#[test]
fn a_gateway_that_takes_streams_alone_has_a_service_with_their_transport() {
    let mut scene = scene(json!([stream("dns", 53, "TCP"), stream("dns-udp", 53, "UDP")]), []);
    let mut deploying = translate::Deploying::dry_run();
    deploying.applied = true;
    deploying.authorities = Some("-----BEGIN CERTIFICATE-----\n".into());
    scene.0.set_deploying(Some(deploying));
    let changes = scene.0.settle();
    let (_, proxies) = changes.proxies.first().expect("proxies");
    let Some(translate::Proxies::Objects(objects)) = proxies else { panic!("{proxies:?}") };
    let service = objects.iter().find(|object| object.kind == "Service").expect("a Service");
    let ports = &service.object["spec"]["ports"];
    assert_eq!([&ports[0]["protocol"], &ports[1]["protocol"]], ["TCP", "UDP"], "{ports}");
}
