//! Routes of streams, and listeners for them.

use proptest::{
    collection::vec,
    option,
    prelude::{BoxedStrategy, Just, Strategy, prop_oneof},
    sample::select,
};
use serde_json::{Value, json};

use super::{place::Place, route::route as route_of, values};

/// A listener of TLS, TCP or UDP; those of TLS are at the port that others have with TLS.
pub(super) fn listener(place: &Place) -> BoxedStrategy<Value> {
    let secure = place.ports.last().copied().unwrap_or(443);
    let any_port = || select(place.ports.clone());
    let secrets = vec(select(&["c0", "c1", "c2", "missing"][..]), 0..3);
    let through = Just(json!({"port": secure, "protocol": "TLS", "tls": {"mode": "Passthrough"}}));
    let ends = secrets.prop_map(move |secrets| {
        let secrets: Vec<_> = secrets.into_iter().map(|name| json!({"name": name})).collect();
        json!({"port": secure, "protocol": "TLS", "tls": {"mode": "Terminate", "certificateRefs": secrets}})
    });
    let tcp = any_port().prop_map(|port| json!({"port": port, "protocol": "TCP"}));
    let udp = any_port().prop_map(|port| json!({"port": port, "protocol": "UDP"}));
    prop_oneof![3 => through, 3 => ends, 1 => tcp, 3 => udp].boxed()
}

/// A route of any kind of streams.
pub(super) fn route(place: &Place) -> BoxedStrategy<Value> {
    let of = |kind| {
        route_of(kind, rule(), place).prop_map(move |mut route| {
            // The CRDs have one rule.
            if let Some(rules) = route["spec"]["rules"].as_array_mut() {
                rules.truncate(1);
            }
            if kind != "TLSRoute"
                && let Some(spec) = route["spec"].as_object_mut()
            {
                spec.remove("hostnames");
            }
            route
        })
    };
    prop_oneof![2 => of("TLSRoute"), 1 => of("TCPRoute"), 1 => of("UDPRoute")].boxed()
}

fn rule() -> BoxedStrategy<Value> {
    let service = (select(&["s0", "s1", "s2", "missing"][..]), values::number_of(&[80, 81]))
        .prop_map(|(name, port)| json!({"name": name, "port": port, "namespace": "apps"}));
    let backend = select(&["b0", "b1"][..]).prop_map(
        |name| json!({"group": "gateway.kgateway.dev", "kind": "Backend", "name": name, "namespace": "apps"}),
    );
    let weight = option::weighted(0.5, values::number_of(&[0, 1, 1_000_000]));
    let backend = (prop_oneof![5 => service, 1 => backend], weight).prop_map(|(mut backend, weight)| {
        if let Some(weight) = weight {
            backend["weight"] = json!(weight);
        }
        backend
    });
    vec(backend, 1..4).prop_map(|backends| json!({"backendRefs": backends})).boxed()
}
