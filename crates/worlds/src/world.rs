//! Worlds of manifests, most of them sound but for a few values: a class, Gateways, routes, and what they refer to.

use proptest::{
    collection::vec,
    option,
    prelude::{BoxedStrategy, Just, Strategy, any, prop, prop_oneof},
    sample::{Index, select},
};
use serde_json::{Value, json};

pub use super::place::Place;
use super::{
    backends, edit, extension, grpc, listener_policy, policy,
    route::route,
    rule, stream,
    values::{self, GATEWAYS},
};

/// Certificate chains and keys, of which only the first three pairs are such that Envoy serves them.
const PEMS: [(&str, &str); 12] = [
    (include_str!("../../validate/src/tls/testdata/rsa.crt"), include_str!("../../validate/src/tls/testdata/rsa.key")),
    (
        include_str!("../../validate/src/tls/testdata/p521.crt"),
        include_str!("../../validate/src/tls/testdata/p521.key"),
    ),
    (
        include_str!("../../validate/src/tls/testdata/rsa.crt"),
        include_str!("../../validate/src/tls/testdata/rsa-pkcs1.key"),
    ),
    (include_str!("../../validate/src/tls/testdata/rsa.crt"), include_str!("../../validate/src/tls/testdata/p521.key")),
    (
        include_str!("../../validate/src/tls/testdata/rsa-small.crt"),
        include_str!("../../validate/src/tls/testdata/rsa-small.key"),
    ),
    (
        include_str!("../../validate/src/tls/testdata/k256.crt"),
        include_str!("../../validate/src/tls/testdata/k256.key"),
    ),
    (include_str!("../../validate/src/tls/testdata/pss.crt"), include_str!("../../validate/src/tls/testdata/pss.key")),
    (
        include_str!("../../validate/src/tls/testdata/must-staple.crt"),
        include_str!("../../validate/src/tls/testdata/p256.key"),
    ),
    (
        include_str!("../../validate/src/tls/testdata/nameless.crt"),
        include_str!("../../validate/src/tls/testdata/p256.key"),
    ),
    (
        include_str!("../../validate/src/tls/testdata/p256-encipher.crt"),
        include_str!("../../validate/src/tls/testdata/p256.key"),
    ),
    (
        include_str!("../../validate/src/tls/testdata/expired.crt"),
        include_str!("../../validate/src/tls/testdata/p256.key"),
    ),
    ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "not a key"),
];

/// The manifests of a world, each object once.
pub fn world(place: &Place) -> BoxedStrategy<Vec<Value>> {
    let others = (
        gateway(GATEWAYS[0], place),
        option::weighted(0.4, gateway(GATEWAYS[1], place)),
        (
            vec(route("HTTPRoute", rule::rule(), place), 1..6),
            vec(route("GRPCRoute", grpc::rule(), place), 0..3),
            vec(stream::route(place), 0..4),
        ),
        vec(service(), 3),
        vec(slice(), 0..5),
        vec(secret(), 2..6),
        (vec(policy::policy(), 0..3), vec(policy::answer(), 0..3), vec(credentials(), 2), extension::extensions()),
        (
            vec(backends::backend(), 2),
            vec(backends::config_policy(), 0..3),
            (vec(backends::tls_policy(), 0..3), vec(backends::authorities(&PEMS), 2)),
            (vec(listener_policy::listener_policy(), 0..2), vec(listener_set(place), 0..4)),
        ),
        prop::bool::weighted(0.8),
    );
    let edits = vec((any::<Index>(), edit::edit()), 0..=place.edits);
    (others, edits)
        .prop_map(
            |(
                (
                    first,
                    second,
                    (routes, of_grpc, of_streams),
                    services,
                    slices,
                    secrets,
                    (policies, answers, credentials, extensions),
                    (hosts, configs, (of_tls, authorities), (listeners, sets)),
                    granted,
                ),
                edits,
            )| {
                let mut world = vec![class(), first];
                world.extend(second);
                world.extend(numbered("r", routes));
                world.extend(numbered("r", of_grpc));
                world.extend(numbered("r", of_streams));
                world.extend(numbered("s", services));
                world.extend(numbered("e", slices));
                world.extend(numbered("c", secrets));
                world.extend(numbered("k", credentials));
                world.extend(numbered("p", policies));
                world.extend(numbered("d", answers));
                world.extend(numbered("b", hosts));
                world.extend(numbered("u", configs));
                world.extend(numbered("x", of_tls));
                world.extend(numbered("t", authorities));
                world.extend(numbered("l", listeners));
                world.extend(numbered("z", sets));
                world.extend(extensions);
                world.extend(granted.then(grant));
                for (at, edit) in edits {
                    // Without its class a world is empty.
                    let objects = &mut world[1..];
                    edit.apply(&mut objects[at.index(objects.len())]);
                }
                world
            },
        )
        .boxed()
}

fn numbered(prefix: &str, objects: Vec<Value>) -> impl Iterator<Item = Value> {
    objects.into_iter().enumerate().map(move |(number, mut object)| {
        object["metadata"]["name"] = json!(format!("{prefix}{number}"));
        object
    })
}

/// The GatewayClass of every world.
pub fn class() -> Value {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": {"name": "ours"},
        "spec": {"controllerName": "portcullis.dev/gateway-controller"},
    })
}

fn grant() -> Value {
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1beta1", "kind": "ReferenceGrant",
        "metadata": {"name": "grant", "namespace": "apps"},
        "spec": {
            "from": [
                {"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "namespace": "infra"},
                {"group": "gateway.networking.k8s.io", "kind": "GRPCRoute", "namespace": "infra"},
                {"group": "gateway.networking.k8s.io", "kind": "TCPRoute", "namespace": "infra"},
                {"group": "gateway.networking.k8s.io", "kind": "TLSRoute", "namespace": "infra"},
                {"group": "gateway.kgateway.dev", "kind": "TrafficPolicy", "namespace": "infra"},
                {"group": "gateway.networking.k8s.io", "kind": "Gateway", "namespace": "infra"},
                {"group": "gateway.networking.k8s.io", "kind": "ListenerSet", "namespace": "infra"},
            ],
            "to": [
                {"group": "", "kind": "Service"}, {"group": "", "kind": "Secret"}, {"group": "", "kind": "ConfigMap"},
                {"group": "gateway.kgateway.dev", "kind": "Backend"},
            ],
        },
    })
}

fn gateway(name: &'static str, place: &Place) -> BoxedStrategy<Value> {
    let addresses = option::weighted(0.15, vec(select(place.addresses.clone()), 1..3));
    let admits = prop_oneof![
        6 => Just("All".to_owned()),
        2 => values::variant(&["Same", "None"]),
        1 => Just("Selector".to_owned()),
    ];
    (vec(listener(place), 1..6), addresses, values::priority(), option::weighted(0.4, tls(place)), admits)
        .prop_map(move |(listeners, addresses, annotations, tls, admits)| {
            let selector = json!({"matchLabels": {"team": "a"}});
            let admitted = json!({"namespaces": {"from": admits, "selector": selector}});
            let mut spec = json!({"gatewayClassName": "ours", "allowedListeners": admitted});
            if let Some(tls) = tls {
                spec["tls"] = tls;
            }
            let named = listeners.into_iter().enumerate().map(|(number, mut listener)| {
                if listener["name"].is_null() {
                    listener["name"] = json!(format!("l{number}"));
                }
                listener
            });
            spec["listeners"] = named.collect();
            if let Some(addresses) = addresses {
                let written = addresses.into_iter().map(|address| json!({"type": "IPAddress", "value": address}));
                spec["addresses"] = written.collect();
            }
            json!({
                "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
                "metadata": {"name": name, "namespace": "infra", "annotations": annotations}, "spec": spec,
            })
        })
        .boxed()
}

/// A ListenerSet of a Gateway, with listeners such as those of Gateways.
fn listener_set(place: &Place) -> BoxedStrategy<Value> {
    let gateway = prop_oneof![8 => Just(GATEWAYS[0]), 2 => Just(GATEWAYS[1]), 1 => Just("missing")];
    let namespace = prop_oneof![3 => Just("infra"), 2 => Just("apps")];
    (vec(listener(place), 1..4), gateway, namespace, 0..3_u8)
        .prop_map(|(listeners, gateway, namespace, second)| {
            let named = listeners.into_iter().enumerate().map(|(number, mut listener)| {
                listener["name"] = json!(format!("l{number}"));
                listener
            });
            json!({
                "apiVersion": "gateway.networking.k8s.io/v1", "kind": "ListenerSet",
                "metadata": {"namespace": namespace, "creationTimestamp": format!("2026-01-01T00:00:0{second}Z")},
                "spec": {"parentRef": {"name": gateway, "namespace": "infra"}, "listeners": named.collect::<Vec<_>>()},
            })
        })
        .boxed()
}

/// What a Gateway asks of clients, and shows to backends.
fn tls(place: &Place) -> BoxedStrategy<Value> {
    let authorities = select(&["t0", "t1", "missing"][..])
        .prop_map(|name| json!({"group": "", "kind": "ConfigMap", "name": name, "namespace": "apps"}));
    let mode = prop_oneof![
        12 => select(&["AllowValidOnly", "AllowInsecureFallback"][..]).prop_map(str::to_owned),
        1 => values::hostile(),
    ];
    let validation = (vec(authorities, 1..3), mode)
        .prop_map(|(authorities, mode)| json!({"validation": {"caCertificateRefs": authorities, "mode": mode}}));
    let validation = prop_oneof![2 => validation, 1 => Just(json!({}))].boxed();
    let per_port = (select(place.ports.clone()), validation.clone());
    let shown = select(&["c0", "c1", "c2", "missing"][..]);
    (validation, option::weighted(0.3, per_port), option::weighted(0.6, shown))
        .prop_map(|(default, per_port, shown)| {
            let per_port: Vec<_> = per_port.into_iter().map(|(port, tls)| json!({"port": port, "tls": tls})).collect();
            let mut tls = json!({"frontend": {"default": default, "perPort": per_port}});
            if let Some(shown) = shown {
                tls["backend"] = json!({"clientCertificateRef": {"name": shown}});
            }
            tls
        })
        .boxed()
}

fn listener(place: &Place) -> BoxedStrategy<Value> {
    let (secure, plain) = place.ports.split_last().map_or((443, vec![80]), |(last, rest)| (*last, rest.to_vec()));
    let any_port = select(place.ports.clone());
    let port = |usual: BoxedStrategy<u16>| {
        let unusual = values::number_of(&[0, 65_536, -1]);
        prop_oneof![20 => usual.prop_map(i64::from), 2 => any_port.clone().prop_map(i64::from), 1 => unusual]
    };
    let http = port(select(plain).boxed()).prop_map(|port| json!({"port": port, "protocol": "HTTP"}));
    let secret = select(&["c0", "c1", "c2", "c3", "c4", "missing"][..]);
    let secrets = prop_oneof![19 => vec(secret, 1..4), 1 => Just(vec![])];
    let https = (port(Just(secure).boxed()), secrets).prop_map(|(port, secrets)| {
        let secrets: Vec<_> = secrets.into_iter().map(|name| json!({"name": name})).collect();
        json!({"port": port, "protocol": "HTTPS", "tls": {"certificateRefs": secrets}})
    });
    let other = prop_oneof![
        2 => stream::listener(place),
        1 => (port(Just(secure).boxed()), values::variant(&["TCP", "UDP", "TLS"]))
            .prop_map(|(port, protocol)| json!({"port": port, "protocol": protocol})),
    ];
    let from = prop_oneof![20 => Just("All".to_owned()), 1 => values::variant(&["Same", "None", "Selector"])];
    let name = option::weighted(0.08, values::label());
    (prop_oneof![10 => http, 12 => https, 2 => other], option::weighted(0.8, values::hostname()), from, name)
        .prop_map(|(mut listener, hostname, from, name)| {
            if let Some(hostname) = hostname {
                listener["hostname"] = json!(hostname);
            }
            if let Some(name) = name {
                listener["name"] = json!(name);
            }
            listener["allowedRoutes"] = json!({"namespaces": {"from": from}});
            listener
        })
        .boxed()
}

pub(super) fn service() -> BoxedStrategy<Value> {
    let protocols = ["kubernetes.io/h2c", "kubernetes.io/ws", "kubernetes.io/wss", "https", "http"];
    let protocol = option::weighted(
        0.4,
        prop_oneof![8 => select(protocols.to_vec()).prop_map(str::to_owned), 1 => values::hostile()],
    );
    let kinds = prop_oneof![
        9 => values::variant(&["ClusterIP", "NodePort", "LoadBalancer"]),
        1 => Just("ExternalName".to_owned()),
    ];
    (protocol, kinds, values::hostile(), any::<bool>())
        .prop_map(|(protocol, kind, external, second)| {
            let mut ports = vec![json!({"name": "http", "port": 80, "targetPort": 8080})];
            if let Some(protocol) = protocol {
                ports[0]["appProtocol"] = json!(protocol);
            }
            if second {
                ports.push(json!({"name": "other", "port": 81, "protocol": "TCP"}));
                ports.push(json!({"name": "http-udp", "port": 80, "protocol": "UDP"}));
            }
            json!({
                "apiVersion": "v1", "kind": "Service", "metadata": {"namespace": "apps"},
                "spec": {"type": kind, "externalName": external, "ports": ports},
            })
        })
        .boxed()
}

pub(super) fn slice() -> BoxedStrategy<Value> {
    let v4 =
        &["10.0.0.1", "10.0.0.2", "127.0.0.1", "0.0.0.0", "255.255.255.255", "224.0.0.1", "010.0.0.1", "10.0.0"][..];
    let v6 = &["fd00::1", "::1", "::", "::ffff:10.0.0.1", "fe80::1%eth0", "ff02::1", "[::1]"][..];
    let endpoints = |addresses: &'static [&'static str]| {
        let zone = option::of(prop_oneof![2 => Just("z1".to_owned()), 1 => values::hostile()]);
        let endpoint = (vec(select(addresses), 1..3), option::of(any::<bool>()), any::<bool>(), zone).prop_map(
            |(addresses, ready, terminating, zone)| {
                let conditions = json!({"ready": ready, "serving": true, "terminating": terminating});
                json!({"addresses": addresses, "conditions": conditions, "zone": zone})
            },
        );
        vec(endpoint, 0..4)
    };
    let families = prop_oneof![
        3 => endpoints(v4).prop_map(|endpoints| json!({"addressType": "IPv4", "endpoints": endpoints})),
        1 => endpoints(v6).prop_map(|endpoints| json!({"addressType": "IPv6", "endpoints": endpoints})),
        1 => values::hostile().prop_map(|kind| json!({"addressType": kind, "endpoints": [{"addresses": ["a"]}]})),
    ];
    (families, select(&["s0", "s1", "s2"][..]), values::number_of(&[1, 8080, 65_535]))
        .prop_map(|(mut slice, service, port)| {
            slice["apiVersion"] = json!("discovery.k8s.io/v1");
            slice["kind"] = json!("EndpointSlice");
            slice["metadata"] = json!({"namespace": "apps", "labels": {"kubernetes.io/service-name": service}});
            slice["ports"] = json!([{"name": "http", "port": port}, {"name": "other", "port": 9},
                {"name": "http-udp", "port": port, "protocol": "UDP"}]);
            slice
        })
        .boxed()
}

pub(super) fn secret() -> BoxedStrategy<Value> {
    let pair = prop_oneof![2 => 0..3_usize, 1 => 0..PEMS.len()];
    let noise = option::weighted(0.2, values::hostile());
    (pair, noise, any::<bool>())
        .prop_map(|(pair, noise, before)| {
            let (chain, key) = PEMS[pair];
            // Text between PEM blocks is allowed, and must not reach Envoy.
            let chain = match (noise, before) {
                (None, _) => chain.to_owned(),
                (Some(noise), true) => format!("{noise}\n{chain}"),
                (Some(noise), false) => format!("{chain}\n{noise}"),
            };
            json!({
                "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "metadata": {"namespace": "infra"},
                "stringData": {"tls.crt": chain, "tls.key": key},
            })
        })
        .boxed()
}

/// A Secret with users, keys of clients and values of headers, now and then with something that Envoy refuses.
fn credentials() -> BoxedStrategy<Value> {
    let line = prop_oneof![
        8 => select(&values::USERS[..]).prop_map(str::to_owned),
        1 => select(&["alice:{SHA}0JQeaNqPOBUf+Gph/Fn3xc+fyqI=", "alice:x", ":{SHA}a", "alice"][..]).prop_map(str::to_owned),
        1 => values::hostile(),
    ];
    let users = || option::weighted(0.8, vec(line.clone(), 0..3).prop_map(|lines| lines.join("\n")));
    let value = || {
        let text = prop_oneof![
            8 => select(&["one", "two", "100%", "a b"][..]).prop_map(str::to_owned),
            1 => values::hostile(),
        ];
        option::weighted(0.7, text)
    };
    (select(&["apps", "infra"][..]), users(), users(), value(), value(), value(), any::<bool>())
        .prop_map(|(namespace, file, users, client, header, login, labelled)| {
            let data =
                [(".htpasswd", file), ("users", users), ("client", client), ("x-a", header), ("client-secret", login)];
            let data: serde_json::Map<_, _> =
                data.into_iter().filter_map(|(key, text)| Some((key.to_owned(), json!(text?)))).collect();
            let labels = if labelled { json!({"keys": "one"}) } else { json!({}) };
            json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": namespace, "labels": labels},
                "stringData": data,
            })
        })
        .boxed()
}
