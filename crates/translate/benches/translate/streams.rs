//! Worlds of connections, of datagrams and of many listeners: routes of TCP, UDP and TLS at Gateways, and ListenerSets.

use api::Object;
use serde_json::{Value, json};
use translate::testing::scene::certificates;

use crate::{
    tree::{Scene, Step},
    world::{World, class, decode, gateway_with, service, slice},
};

/// Routes of streams, a third of each kind; those of TCP and UDP at Gateways of 32 ports.
const ROUTES: &[usize] = &[400, 4_000];
const SETS: &[usize] = &[500, 5_000];

/// How many listeners of TCP or UDP a Gateway has.
const PORTS: usize = 32;

pub(crate) const STEPS: [Step; 10] = [
    Step {
        name: "a TCPRoute's weight changed",
        of: "routes of streams",
        sizes: ROUTES,
        scene: |routes| Scene {
            objects: streams(routes),
            change: Box::new(|turn| {
                let mut route = stream("TCPRoute", turn % 7, turn % 7 / 2);
                route["spec"]["rules"][0]["backendRefs"][0]["weight"] = json!(turn + 2);
                decode(route)
            }),
        },
    },
    Step {
        name: "the winner of a listener of TCP changed",
        of: "routes of streams",
        sizes: ROUTES,
        scene: |routes| Scene {
            objects: streams(routes),
            // One that is older than the one that serves, and then younger.
            change: Box::new(|turn| {
                let mut rival = stream("TCPRoute", 1, 7);
                let year = if turn % 2 == 0 { 2025 } else { 2027 };
                rival["metadata"]["name"] = json!("rival");
                rival["metadata"]["creationTimestamp"] = json!(format!("{year}-01-01T00:00:00Z"));
                decode(rival)
            }),
        },
    },
    Step {
        name: "a UDPRoute's backend changed",
        of: "routes of streams",
        sizes: ROUTES,
        scene: |routes| Scene {
            objects: streams(routes),
            change: Box::new(|turn| decode(stream("UDPRoute", turn % 7, turn % 100))),
        },
    },
    Step {
        name: "a TLSRoute's backend changed",
        of: "routes of streams",
        sizes: ROUTES,
        scene: |routes| Scene {
            objects: streams(routes),
            change: Box::new(|turn| decode(stream("TLSRoute", turn % 7, turn % 100))),
        },
    },
    Step {
        name: "a hostname more on a port",
        of: "hostnames there",
        sizes: ROUTES,
        scene: |hostnames| Scene {
            objects: names(hostnames),
            change: Box::new(move |turn| decode(stream("TLSRoute", hostnames + turn, 1))),
        },
    },
    Step {
        name: "the routes that a set's listener admits changed",
        of: "sets of HTTP",
        sizes: SETS,
        scene: |sets| Scene {
            objects: hosts(sets, "HTTP"),
            change: Box::new(|turn| set(turn % 7, "HTTP", &format!("h{}", turn % 7), turn % 2 == 0)),
        },
    },
    Step {
        name: "the hostname of a set's listener changed",
        of: "sets of HTTP",
        sizes: SETS,
        scene: |sets| Scene {
            objects: hosts(sets, "HTTP"),
            change: Box::new(|turn| set(turn % 7, "HTTP", &format!("turn{turn}"), true)),
        },
    },
    Step {
        name: "a set that loses to an older one changed",
        of: "sets that ask for one port and hostname",
        sizes: SETS,
        scene: |sets| Scene {
            objects: asking(sets, "HTTP", |_| "h".to_owned()),
            change: Box::new(|turn| set(1 + turn % 7, "HTTP", "h", turn % 2 == 0)),
        },
    },
    Step {
        name: "the hostname of a set's HTTPS listener changed",
        of: "sets of HTTPS",
        sizes: SETS,
        scene: |sets| Scene {
            objects: hosts(sets, "HTTPS"),
            change: Box::new(|turn| set(turn % 7, "HTTPS", &format!("turn{turn}"), true)),
        },
    },
    Step {
        name: "authorities rotated",
        of: "backends judged by them",
        sizes: &[100, 1_000],
        scene: |backends| Scene { objects: judged(backends), change: Box::new(authorities) },
    },
];

/// As many routes of streams, with a Service each two of them.
fn streams(routes: usize) -> Vec<Object> {
    let each = routes / 3;
    let mut objects = vec![class()];
    for (protocol, kind) in [("TCP", "TCPRoute"), ("UDP", "UDPRoute")] {
        let listener = |index: usize| json!({"name": format!("l{index}"), "port": 2_000 + index, "protocol": protocol, "allowedRoutes": all()});
        let gateways = (0..each.div_ceil(PORTS)).map(|gateway| {
            let name = format!("{}-{gateway}", protocol.to_lowercase());
            gateway_with(&name, &json!((0..PORTS).map(listener).collect::<Vec<_>>()))
        });
        objects.extend(gateways);
        objects.extend((0..each).map(|index| decode(stream(kind, index, index / 2))));
    }
    objects.extend(names(each));
    objects
}

/// A Gateway that passes TLS through, by as many hostnames.
fn names(hostnames: usize) -> Vec<Object> {
    let listener =
        json!({"name": "tls", "port": 443, "protocol": "TLS", "tls": {"mode": "Passthrough"}, "allowedRoutes": all()});
    let mut objects = vec![class(), gateway_with("tls", &json!([listener]))];
    objects.extend((0..hostnames).map(|index| decode(stream("TLSRoute", index, index / 2))));
    objects.extend((0..hostnames.div_ceil(2).max(100)).flat_map(both));
    objects
}

/// A Service with its port in TCP and in UDP, and its endpoint.
fn both(index: usize) -> [Object; 2] {
    let ports = |own: u16| {
        let port = |name: &str, protocol: &str| json!({"name": name, "port": own, "protocol": protocol});
        json!([port("tcp", "TCP"), port("udp", "UDP")])
    };
    let name = format!("service-{index}");
    let address = format!("10.{}.{}.1", index / 250, index % 250);
    [
        decode(json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "apps"},
            "spec": {"ports": ports(80)},
        })),
        decode(json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": format!("{name}-a"), "namespace": "apps",
                "labels": {"kubernetes.io/service-name": name}},
            "endpoints": [{"addresses": [address], "conditions": {"ready": true}}], "ports": ports(8080),
        })),
    ]
}

fn all() -> Value {
    json!({"namespaces": {"from": "All"}})
}

/// A route to the Service of this number and to the first one.
fn stream(kind: &str, index: usize, to: usize) -> Value {
    let (gateway, section) = match kind {
        "TLSRoute" => ("tls".to_owned(), "tls".to_owned()),
        _ => (format!("{}-{}", kind[..3].to_lowercase(), index / PORTS), format!("l{}", index % PORTS)),
    };
    let mut spec = json!({
        "parentRefs": [{"name": gateway, "namespace": "infra", "sectionName": section}],
        "rules": [{"backendRefs": [
            {"name": format!("service-{to}"), "port": 80},
            {"name": "service-0", "port": 80},
        ]}],
    });
    if kind == "TLSRoute" {
        spec["hostnames"] = json!([format!("h{index}.example.com")]);
    }
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": kind,
        "metadata": {"name": format!("{}-{index}", kind.to_lowercase()), "namespace": "apps",
            "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": spec,
    })
}

/// As many ListenerSets on one port, each with a hostname and a route.
pub(crate) fn hosts(sets: usize, protocol: &str) -> Vec<Object> {
    asking(sets, protocol, |index| format!("h{index}"))
}

/// As many, each with this hostname.
fn asking(sets: usize, protocol: &str, host: impl Fn(usize) -> String) -> Vec<Object> {
    let mut edge = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
        "metadata": {"name": "edge", "namespace": "infra", "generation": 1},
        "spec": {"gatewayClassName": "portcullis", "allowedListeners": all()},
    });
    edge["spec"]["listeners"] = json!([{"name": "own", "port": 8080, "protocol": "HTTP"}]);
    let mut objects = vec![class(), decode(edge), service(0), slice(0, 1), certificate()];
    for index in 0..sets {
        objects.push(set(index, protocol, &host(index), true));
        objects.push(decode(json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
            "metadata": {"name": format!("r{index}"), "namespace": "apps", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {
                "parentRefs": [{"kind": "ListenerSet", "group": "gateway.networking.k8s.io", "name": format!("set-{index}")}],
                "rules": [{"backendRefs": [{"name": "service-0", "port": 80}]}],
            },
        })));
    }
    objects
}

fn set(index: usize, protocol: &str, host: &str, admits_all: bool) -> Object {
    let mut listener = json!({
        "name": "a", "port": 443, "protocol": protocol, "hostname": format!("{host}.example.com"),
        "allowedRoutes": {"namespaces": {"from": if admits_all { "All" } else { "Same" }}},
    });
    if protocol == "HTTPS" {
        listener["tls"] = json!({"certificateRefs": [{"name": "certificate"}]});
    }
    decode(json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "ListenerSet",
        "metadata": {"name": format!("set-{index}"), "namespace": "apps", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"parentRef": {"name": "edge", "namespace": "infra"}, "listeners": [listener]},
    }))
}

fn certificate() -> Object {
    let (chain, key) = &certificates()[0];
    decode(json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
        "metadata": {"name": "certificate", "namespace": "apps"}, "stringData": {"tls.crt": chain, "tls.key": key},
    }))
}

/// As many Services that are reached by TLS, all judged by the authorities of one ConfigMap, each by a route of its own.
fn judged(backends: usize) -> Vec<Object> {
    let mut objects = World::at_one_gateway(backends * 2).objects();
    objects.push(authorities(0));
    objects.extend((0..backends).map(|index| {
        decode(json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "BackendTLSPolicy",
            "metadata": {"name": format!("tls-{index}"), "namespace": "apps"},
            "spec": {
                "targetRefs": [{"group": "", "kind": "Service", "name": format!("service-{index}")}],
                "validation": {"hostname": "backend.example",
                    "caCertificateRefs": [{"group": "", "kind": "ConfigMap", "name": "ca"}]},
            },
        }))
    }));
    objects
}

fn authorities(turn: usize) -> Object {
    let (chain, _) = &certificates()[turn % 2];
    decode(json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ca", "namespace": "apps"}, "data": {"ca.crt": chain},
    }))
}
