//! ListenerPolicies of random worlds.

use proptest::{collection::vec, prelude::*, sample::select};
use serde_json::{Map, Value, json};

use super::values::GATEWAYS;

/// One with some of all fields.
pub(super) fn listener_policy() -> BoxedStrategy<Value> {
    let targets = vec(select(&GATEWAYS[..]), 1..3);
    let per_port = prop::option::weighted(0.3, (select(&[80, 443, 9][..]), listener()));
    (targets, prop::option::weighted(0.8, listener()), per_port, prop::option::weighted(0.2, -1..2_i32))
        .prop_map(|(targets, default, per_port, weight)| {
            let target = |name: &str| json!({"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": name});
            let mut spec = json!({"targetRefs": targets.into_iter().map(target).collect::<Vec<_>>()});
            if let Some(default) = default {
                spec["default"] = default;
            }
            if let Some((port, listener)) = per_port {
                spec["perPort"] = json!([{"port": port, "listener": listener}]);
            }
            let mut policy = json!({"apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "ListenerPolicy",
                "metadata": {"namespace": "infra"}, "spec": spec});
            if let Some(weight) = weight {
                policy["metadata"]["annotations"] = json!({"kgateway.dev/policy-weight": weight.to_string()});
            }
            policy
        })
        .boxed()
}

fn listener() -> BoxedStrategy<Value> {
    let Value::Object(mut sound) = ::units::downstream::samples() else { return Just(Value::Null).boxed() };
    let Some(Value::Object(http)) = sound.remove("httpSettings") else { return Just(Value::Null).boxed() };
    let connection: Vec<_> = sound.into_iter().collect();
    let http: Vec<_> = http.into_iter().collect();
    let other: Vec<_> = [
        ("xffNumTrustedHops", json!(2)),
        ("useRemoteAddress", json!(true)),
        ("serverHeaderTransformation", json!("AppendIfAbsent")),
        ("stripHostPortMode", json!("MatchingPort")),
        ("maxHeadersCount", json!(i32::MAX)),
        ("idleTimeout", json!("0s")),
    ]
    .into_iter()
    .map(|(field, value)| (field.to_owned(), value))
    .collect();
    let refused = select(vec![("acceptHttp10".to_owned(), json!(true)), ("unheardOf".to_owned(), json!({}))]);
    // Most of what is drawn is what Envoy can be asked about: what is refused closes a port, which is half of a world.
    let http = prop_oneof![45 => select(http), 8 => select(other), 1 => refused];
    (vec(select(connection), 0..3), vec(http, 0..5))
        .prop_map(|(connection, http)| {
            let mut listener: Map<_, _> = connection.into_iter().collect();
            if !http.is_empty() {
                listener.insert("httpSettings".into(), Value::Object(http.into_iter().collect()));
            }
            Value::Object(listener)
        })
        .boxed()
}
