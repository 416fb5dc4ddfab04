//! Two documents become one.

use serde_json::{Map, Value};

/// Removes null, which is what is not said.
pub(super) fn without_null(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(without_null);
        }
        Value::Array(items) => items.iter_mut().for_each(without_null),
        _ => {}
    }
}

/// Merges what the Gateway says into what the class says.
pub(super) fn merge(class: &mut Value, gateway: Value) {
    merge_field("", class, gateway);
}

fn merge_field(field: &str, class: &mut Value, gateway: Value) {
    match (class, gateway) {
        (Value::Object(class), Value::Object(gateway)) => {
            make_room(field, class, &gateway);
            for (name, value) in gateway {
                match class.get_mut(&name) {
                    Some(of_class) => merge_field(&name, of_class, value),
                    None => drop(class.insert(name, value)),
                }
            }
        }
        (Value::Array(class), Value::Array(gateway)) if !is_whole(field) && !gateway.is_empty() => {
            let key = key(field);
            class.retain(|item| {
                gateway.iter().all(|other| match key {
                    Some(key) => item.get(key) != other.get(key),
                    None => item != other,
                })
            });
            class.extend(gateway);
        }
        (class, gateway) => *class = gateway,
    }
}

/// By what items of a list are told apart; the whole of an item where that is none.
fn key(field: &str) -> Option<&'static str> {
    match field {
        "env" | "extraVolumes" | "imagePullSecrets" | "claims" | "sysctls" => Some("name"),
        "extraVolumeMounts" => Some("mountPath"),
        "ports" => Some("port"),
        "topologySpreadConstraints" => Some("topologyKey"),
        _ => None,
    }
}

/// Lists in which the order or what is missing has a meaning.
fn is_whole(field: &str) -> bool {
    matches!(field, "args" | "command" | "extraArgs" | "httpHeaders" | "loadBalancerSourceRanges")
}

/// Removes from the class what cannot stand beside what the Gateway says.
fn make_room(field: &str, class: &mut Map<String, Value>, gateway: &Map<String, Value>) {
    let mut replaced = |names: &[&str]| {
        if names.iter().any(|name| gateway.contains_key(*name)) {
            for name in names {
                // What both say is merged.
                if !gateway.contains_key(*name) {
                    class.remove(*name);
                }
            }
        }
    };
    match field {
        "startupProbe" | "readinessProbe" | "livenessProbe" => replaced(&["exec", "httpGet", "tcpSocket", "grpc"]),
        "logFormat" => replaced(&["json", "text"]),
        "matcher" => replaced(&["inclusionList", "exclusionList"]),
        // A digest is that of one image, whatever it is called.
        "image" if ["registry", "repository", "tag"].iter().any(|name| gateway.contains_key(*name)) => {
            class.remove("digest");
        }
        "strategy" if gateway.get("type").is_some_and(|strategy| strategy == "Recreate") => {
            class.remove("rollingUpdate");
        }
        _ => {}
    }
}

/// Whether a document says something at a path, such as `kube.envoyContainer.env[0]`; of items of lists, whether it has
/// the list.
pub(super) fn sets(spec: &Value, path: &str) -> bool {
    let fields = path.split('.').map(|part| part.split('[').next().unwrap_or(part));
    fields
        .filter(|field| !field.is_empty())
        .try_fold(spec, |value, field| value.get(field).or_else(|| value.as_array().map(|_| value)))
        .is_some()
}
