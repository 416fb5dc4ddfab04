//! Listeners, and the ListenerSets of worlds.

use proptest::{
    collection::vec,
    option,
    prelude::{Strategy, any},
    sample::select,
};
use serde_json::{Value, json};

use super::{HOSTNAMES, namespaces, timestamp};

/// A listener, sound or broken.
pub(super) fn listener() -> impl Strategy<Value = Value> {
    let listener = (
        0..4_u8,
        select(&[80, 81, 443][..]),
        select(&["HTTP", "HTTP", "HTTPS", "HTTPS", "HTTPS", "TLS", "TLS", "TCP", "UDP"][..]),
        select(&HOSTNAMES[..]),
        select(&["Same", "All", "Selector"][..]),
        select(&["cert", "missing", "broken"][..]),
        namespaces(),
    );
    listener.prop_map(|(name, port, protocol, hostname, from, secret, secret_namespace)| {
        let mut listener = json!({"name": format!("l{name}"), "port": port, "protocol": protocol,
            "allowedRoutes": {"namespaces": {"from": from}}});
        if !hostname.is_empty() && !matches!(protocol, "TCP" | "UDP") {
            listener["hostname"] = json!(hostname);
        }
        if from == "Selector" {
            listener["allowedRoutes"]["namespaces"]["selector"] = json!({"matchLabels": {"team": "a"}});
        }
        if protocol == "TLS" && port == 81 {
            listener["port"] = json!(443);
            listener["tls"] = json!({"mode": "Passthrough"});
        } else if protocol == "HTTPS" || protocol == "TLS" {
            listener["tls"] = json!({"certificateRefs": [{"name": secret, "namespace": secret_namespace}]});
        }
        listener
    })
}

/// A ListenerSet of a Gateway that may be there, and may admit it.
pub(super) fn listener_set() -> impl Strategy<Value = Value> {
    (0..3_u8, namespaces(), 0..3_u8, vec(listener(), 1..4), 0..3_i64, any::<bool>()).prop_map(
        |(name, namespace, gateway, mut listeners, created, labelled)| {
            let mut seen = std::collections::HashSet::new();
            listeners.retain(|listener| seen.insert(listener["name"].to_string()));
            let labels = if labelled { json!({"x": "y"}) } else { json!({}) };
            json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "ListenerSet",
                "metadata": {"name": format!("z{name}"), "namespace": namespace, "labels": labels,
                    "creationTimestamp": timestamp(created)},
                "spec": {"parentRef": {"name": format!("g{gateway}"), "namespace": "infra"}, "listeners": listeners}})
        },
    )
}

/// A ListenerSet as the parent of a route.
pub(super) fn at_set() -> impl Strategy<Value = Value> {
    (0..3_u8, namespaces(), option::of(0..4_u8), option::of(select(&[80, 443][..]))).prop_map(
        |(name, namespace, section, port)| {
            let mut parent = json!({"group": "gateway.networking.k8s.io", "kind": "ListenerSet",
                "name": format!("z{name}"), "namespace": namespace});
            if let Some(section) = section {
                parent["sectionName"] = json!(format!("l{section}"));
            }
            if let Some(port) = port {
                parent["port"] = json!(port);
            }
            parent
        },
    )
}
