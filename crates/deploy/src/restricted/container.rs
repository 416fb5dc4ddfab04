//! Containers of a pod, those of overlays too.

use serde_json::Value;

use super::{Refused, is_set, items, must, only, refuse};
use crate::check::join;

/// What of a container gives it nothing that is others', or is judged below.
const CONTAINER: [&str; 24] = [
    "args",
    "command",
    "env",
    "envFrom",
    "image",
    "imagePullPolicy",
    "lifecycle",
    "livenessProbe",
    "name",
    "ports",
    "readinessProbe",
    "resizePolicy",
    "resources",
    "restartPolicy",
    "restartPolicyRules",
    "securityContext",
    "startupProbe",
    "stdin",
    "stdinOnce",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "tty",
    "volumeMounts",
    "workingDir",
];

/// Of a container's security context.
const SECURITY: [&str; 12] = [
    "allowPrivilegeEscalation",
    "appArmorProfile",
    "capabilities",
    "privileged",
    "procMount",
    "readOnlyRootFilesystem",
    "runAsGroup",
    "runAsNonRoot",
    "runAsUser",
    "seLinuxOptions",
    "seccompProfile",
    "windowsOptions",
];

pub(super) fn judge(path: &str, container: &Value, of_pod: &Value) -> Result<(), Refused> {
    only(path, container, &CONTAINER)?;
    for (path, variable) in items(path, "env", container) {
        only(
            &join(&path, "valueFrom"),
            &variable["valueFrom"],
            &["configMapKeyRef", "fieldRef", "fileKeyRef", "resourceFieldRef"],
        )?;
    }
    for (path, source) in items(path, "envFrom", container) {
        only(&path, source, &["configMapRef", "prefix"])?;
    }
    for (path, port) in items(path, "ports", container) {
        if let Some(field) = ["hostPort", "hostIP"].into_iter().find(|field| is_set(&port[*field])) {
            return refuse(&path, field, "is a port of the node");
        }
    }
    let handlers = ["startupProbe", "readinessProbe", "livenessProbe", "lifecycle.postStart", "lifecycle.preStop"];
    for handler in handlers {
        let found = handler.split('.').fold(container, |value, field| &value[field]);
        for way in ["httpGet", "tcpSocket"] {
            if is_set(&found[way]["host"]) {
                return refuse(path, &format!("{handler}.{way}.host"), "has the node ask another host than the pod");
            }
        }
    }
    security(&join(path, "securityContext"), &container["securityContext"], of_pod)
}

fn security(path: &str, context: &Value, of_pod: &Value) -> Result<(), Refused> {
    only(path, context, &SECURITY)?;
    common(path, context)?;
    if is_set(&context["privileged"]) {
        return refuse(path, "privileged", "is root on the node");
    }
    if is_set(&context["procMount"]) && context["procMount"] != "Default" {
        return refuse(path, "procMount", "shows more of the node");
    }
    if is_set(&context["capabilities"]["add"]) {
        return refuse(path, "capabilities.add", "are capabilities");
    }
    if context["allowPrivilegeEscalation"] != false {
        return must(path, "allowPrivilegeEscalation", "false");
    }
    let all =
        |value: &Value| value.as_array().is_some_and(|dropped| dropped.iter().any(|capability| capability == "ALL"));
    if !all(&context["capabilities"]["drop"]) {
        return must(path, "capabilities.drop", "[ALL]");
    }
    let of_either = |field: &str| if context[field].is_null() { &of_pod[field] } else { &context[field] };
    if of_either("runAsNonRoot") != true {
        return must(path, "runAsNonRoot", "true");
    }
    if !matches!(of_either("seccompProfile")["type"].as_str(), Some("RuntimeDefault" | "Localhost")) {
        return must(path, "seccompProfile.type", "RuntimeDefault or Localhost");
    }
    Ok(())
}

/// What the contexts of a pod and of a container have in common, as far as they say it.
pub(super) fn common(path: &str, context: &Value) -> Result<(), Refused> {
    if context["runAsNonRoot"] == false {
        return refuse(path, "runAsNonRoot", "lets it run as root");
    }
    if context["runAsUser"] == 0 {
        return refuse(path, "runAsUser", "is root");
    }
    if is_set(&context["windowsOptions"]["hostProcess"]) {
        return refuse(path, "windowsOptions.hostProcess", "is a process of the node");
    }
    for profile in ["seccompProfile", "appArmorProfile"] {
        if context[profile]["type"] == "Unconfined" {
            return refuse(path, &format!("{profile}.type"), "lifts a confinement");
        }
    }
    let linux = &context["seLinuxOptions"];
    let kinds = ["container_t", "container_init_t", "container_kvm_t", "container_engine_t"];
    if linux["type"].as_str().is_some_and(|kind| !kind.is_empty() && !kinds.contains(&kind)) {
        return refuse(path, "seLinuxOptions.type", "is not that of a container");
    }
    match ["user", "role"].into_iter().find(|field| is_set(&linux[*field])) {
        Some(field) => refuse(path, &format!("seLinuxOptions.{field}"), "is not that of a container"),
        None => Ok(()),
    }
}
