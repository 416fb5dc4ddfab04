//! Routes of worlds, of whatever kind.

use proptest::{
    collection::vec,
    option,
    prelude::{BoxedStrategy, Just, Strategy, prop_oneof},
    sample::select,
};
use serde_json::{Value, json};

use super::{
    place::Place,
    values::{self, GATEWAYS},
};

/// A route of a kind with some of these rules, for Gateways and ListenerSets of a world.
pub(super) fn route(kind: &'static str, rule: BoxedStrategy<Value>, place: &Place) -> BoxedStrategy<Value> {
    let ports = place.ports.clone();
    let parent = (
        prop_oneof![3 => Just(GATEWAYS[0]), 1 => Just(GATEWAYS[1])],
        option::weighted(0.1, 0..4_u8),
        option::weighted(0.1, select(ports)),
        option::weighted(0.3, (select(&["infra", "apps"][..]), 0..3_u8)),
    )
        .prop_map(|(gateway, section, port, set)| {
            let mut parent = match set {
                Some((namespace, number)) => json!({"group": "gateway.networking.k8s.io", "kind": "ListenerSet",
                    "namespace": namespace, "name": format!("z{number}")}),
                None => json!({"name": gateway, "namespace": "infra"}),
            };
            if let Some(section) = section {
                parent["sectionName"] = json!(format!("l{section}"));
            }
            if let Some(port) = port {
                parent["port"] = json!(port);
            }
            parent
        });
    let hostnames = prop_oneof![Just(Vec::new()), vec(values::hostname(), 1..4)];
    (select(&values::NAMESPACES[..]), vec(parent, 1..3), hostnames, vec(rule, 1..4), values::priority())
        .prop_map(move |(namespace, parents, hostnames, rules, annotations)| {
            json!({
                "apiVersion": "gateway.networking.k8s.io/v1", "kind": kind,
                "metadata": {"namespace": namespace, "annotations": annotations},
                "spec": {"parentRefs": parents, "hostnames": hostnames, "rules": rules},
            })
        })
        .boxed()
}
