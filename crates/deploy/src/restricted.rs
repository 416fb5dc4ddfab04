//! What objects may have that whoever may write `GatewayParameters` decides about ([`Trust::Restricted`]).
//!
//! Objects are judged as they come out of all parameters and overlays, so that no door is forgotten, and by lists of what
//! is known to be harmless, so that a field that a newer Kubernetes brings is none. A pod has to be one of the restricted
//! Pod Security Standard, and more: it gets no Secret but those that pull its image, no account but that of its Gateway, and
//! no capability at all.
//!
//! [`Trust::Restricted`]: ir::settings::Trust::Restricted

mod container;
mod pod;
#[cfg(test)]
mod tests;

use serde_json::Value;

use crate::check::join;

/// The path to what is not allowed, and why and what to do.
pub(crate) type Refused = (String, String);

/// What is rendered here, and so may be there.
pub(crate) struct Ours<'a> {
    /// The account of the Gateway's proxies.
    pub(crate) service_account: &'a str,
    /// The volume with the token for the xDS server.
    pub(crate) token: &'a Value,
    /// What the Service asks for, if the Gateway asks for an address.
    pub(crate) load_balancer_ip: Option<&'a Value>,
}

/// What of a Service reaches nobody else's traffic.
const SERVICE: [&str; 18] = [
    "allocateLoadBalancerNodePorts",
    "clusterIP",
    "clusterIPs",
    "externalTrafficPolicy",
    "healthCheckNodePort",
    "internalTrafficPolicy",
    "ipFamilies",
    "ipFamilyPolicy",
    "loadBalancerClass",
    "loadBalancerIP",
    "loadBalancerSourceRanges",
    "ports",
    "publishNotReadyAddresses",
    "selector",
    "sessionAffinity",
    "sessionAffinityConfig",
    "trafficDistribution",
    "type",
];

/// Judges an object of the right shape.
pub(crate) fn judge(kind: &str, object: &Value, ours: &Ours<'_>) -> Result<(), Refused> {
    match kind {
        "Deployment" => {
            let template = &object["spec"]["template"];
            annotations("spec.template.metadata.annotations", &template["metadata"]["annotations"])?;
            pod::judge("spec.template.spec", &template["spec"], ours)
        }
        "Service" => service("spec", &object["spec"], ours),
        // Of the others, overlays reach nothing but labels, annotations, and how pods of this Gateway are scaled.
        _ => Ok(()),
    }
}

/// By annotations, an older Kubernetes is told to let a container out of `AppArmor`.
pub(crate) fn annotation(key: &str, value: &str) -> Result<(), String> {
    if key.starts_with("container.apparmor.security.beta.kubernetes.io/")
        && value != "runtime/default"
        && !value.starts_with("localhost/")
    {
        return Err(format!("{key:?} takes a container out of AppArmor, {REMEDY}"));
    }
    Ok(())
}

fn annotations(path: &str, annotations: &Value) -> Result<(), Refused> {
    for (key, value) in annotations.as_object().into_iter().flatten() {
        annotation(key, value.as_str().unwrap_or_default()).map_err(|message| (path.to_owned(), message))?;
    }
    Ok(())
}

fn service(path: &str, spec: &Value, ours: &Ours<'_>) -> Result<(), Refused> {
    if is_set(&spec["externalIPs"]) {
        return refuse(path, "externalIPs", "would take the requests for addresses that are others'");
    }
    only(path, spec, &SERVICE)?;
    if !matches!(spec["type"].as_str(), None | Some("ClusterIP" | "NodePort" | "LoadBalancer")) {
        return refuse(path, "type", "is none of LoadBalancer, NodePort and ClusterIP");
    }
    if is_set(&spec["loadBalancerIP"]) && Some(&spec["loadBalancerIP"]) != ours.load_balancer_ip {
        return refuse(path, "loadBalancerIP", "is not the address that the Gateway asks for in spec.addresses");
    }
    Ok(())
}

/// What whoever is refused can do.
const REMEDY: &str = "which the controller's setting gatewayParameters.trust does not allow; remove it";

fn refuse<T>(path: &str, field: &str, why: &str) -> Result<T, Refused> {
    Err((join(path, field), format!("{why}, {REMEDY}")))
}

/// A field that has to say something.
fn must<T>(path: &str, field: &str, value: &str) -> Result<T, Refused> {
    Err((
        join(path, field),
        format!("must be {value}: the controller's setting gatewayParameters.trust wants it; set it"),
    ))
}

/// Refuses a field that nobody knows to be harmless.
fn only(path: &str, value: &Value, known: &[&str]) -> Result<(), Refused> {
    let mut fields = value.as_object().into_iter().flatten().filter(|(_, value)| is_set(value));
    match fields.find(|(field, _)| !known.contains(&field.as_str())) {
        Some((field, _)) => refuse(path, field, "is not known to be harmless"),
        None => Ok(()),
    }
}

/// Whether a field says something: to Kubernetes null, false, zero and what is empty are what is not there.
fn is_set(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
    }
}

/// The items of a list, each with its path: by its name, as the API server writes it, or else by its place.
fn items<'a>(path: &str, field: &str, object: &'a Value) -> impl Iterator<Item = (String, &'a Value)> {
    let path = join(path, field);
    object[field].as_array().into_iter().flatten().enumerate().map(move |(index, item)| match &item["name"] {
        Value::String(name) => (format!("{path}[name={name:?}]"), item),
        _ => (format!("{path}[{index}]"), item),
    })
}
