//! What is told of connections and datagrams.

use ir::NsName;
use serde_json::json;
use translate::testing::scene::{Scene, gateway, http, https, secret, service, stream, stream_route, tls, tls_route};

use crate::{Connection, StreamOutcome, explain_connection, tree::tree};

fn scene() -> Scene {
    let two = json!([{"name": "s", "port": 80, "weight": 3}, {"name": "missing", "port": 80}]);
    let one = json!([{"name": "s", "port": 80}]);
    let mut younger = stream_route("TCPRoute", "younger", one.clone());
    younger["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
    let mut idle = stream("idle", 5433, "TCP");
    idle["allowedRoutes"]["namespaces"]["from"] = json!("Same");
    let mut udp = service("u");
    udp["spec"]["ports"] = json!([{"port": 53, "protocol": "UDP"}]);
    Scene::new([
        gateway(
            "edge",
            json!([
                stream("db", 5432, "TCP"),
                stream("dns", 5432, "UDP"),
                idle,
                tls("through", 443, "*.example.com", None),
                https("web", 443, "web.example.com", "c"),
                http("plain", 80, ""),
            ]),
        ),
        secret("c"),
        service("s"),
        udp,
        stream_route("TCPRoute", "db", two),
        younger,
        stream_route("UDPRoute", "dns", json!([{"name": "u", "port": 53}])),
        tls_route("names", &["a.example.com", "*.b.example.com"], one),
    ])
}

pub(super) fn told(scene: &Scene, url: &str) -> String {
    let connection = Connection::parse(url).expect("a connection").expect("with a port");
    explain_connection(&scene.0, &NsName::new("infra", "edge"), &connection).to_string()
}

#[test]
fn a_connection_is_led_from_its_port_to_its_backends() {
    let scene = scene();
    let db = told(&scene, "tcp://localhost:5432");
    for words in [
        "listener   db (port 5432, *)",
        "route      TCPRoute apps/db",
        "goes to    Service apps/s port 80 (weight 3), nowhere (weight 1)",
        "! BackendNotFound: spec.rules[0].backendRefs[1].name: ",
        "superseded TCPRoute apps/younger",
    ] {
        assert!(db.contains(words), "{words}: {db}");
    }
    let dns = told(&scene, "udp://10.0.0.1:5432");
    assert!(dns.contains("UDPRoute apps/dns") && dns.contains("goes to    Service apps/u port 53"), "{dns}");
    assert!(told(&scene, "tcp://localhost:5433").contains("closed     no TCPRoute is attached to listener idle"));
    assert!(told(&scene, "udp://localhost:5433").contains("nobody     no listener takes UDP at port 5433"));
}

#[test]
fn a_server_name_is_led_to_the_narrowest_hostname() {
    let scene = scene();
    let exact = told(&scene, "tls://A.example.com:443");
    assert!(exact.contains("host       a.example.com") && exact.contains("TLSRoute apps/names"), "{exact}");
    assert!(told(&scene, "tls://x.y.b.example.com:443").contains("host       *.b.example.com"));
    assert!(
        told(&scene, "tls://c.example.com:443").contains("closed     no TLSRoute of listener through has a hostname")
    );
    assert!(told(&scene, "tls://web.example.com:443").contains("nobody     listener web takes requests there"));
    assert!(told(&scene, "tls://other.org:443").contains("nobody     no listener takes TLS at port 443"));
}

#[test]
fn what_is_no_connection_is_told() {
    assert!(Connection::parse("http://a.example:80").is_none());
    for url in ["tcp://a.example", "tcp://:80", "tcp://a:0", "tls://a:443/path", "udp://a b:53"] {
        assert!(Connection::parse(url).expect("of a connection").is_err(), "{url}");
    }
}

#[test]
fn the_tree_has_who_serves_and_who_does_not() {
    let tree = tree(&scene().0).to_string();
    for line in [
        "listener db (TCP 5432, *)",
        "TCPRoute apps/db for *\n",
        "rule 0 -> Service apps/s port 80 (weight 3), nowhere (weight 1)",
        "TCPRoute apps/younger for *: another is served in its place",
        "UDPRoute apps/dns for *\n",
        "TLSRoute apps/names for a.example.com, *.b.example.com\n",
    ] {
        assert!(tree.contains(line), "{line}: {tree}");
    }
}

#[test]
fn an_explanation_is_json_too() {
    let connection = Connection::parse("tcp://localhost:5432").expect("one").expect("sound");
    let told = explain_connection(&scene().0, &NsName::new("infra", "edge"), &connection);
    assert!(matches!(told.outcome, StreamOutcome::Backends { .. }));
    let json = serde_json::to_value(&told).expect("JSON");
    assert_eq!(json["route"], "TCPRoute apps/db");
    assert_eq!(json["outcome"]["backends"][0]["service"], "apps/s");
}
