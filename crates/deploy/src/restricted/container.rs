//! Containers of a pod, those of overlays too.

use serde_json::Value;

use super::{Refused, items, must, only, pod, refuse, said};
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
        if let Some(field) = ["hostPort", "hostIP"].into_iter().find(|field| said(&port[*field])) {
            return refuse(&path, field, "is a port of the node");
        }
    }
    let handlers = ["startupProbe", "readinessProbe", "livenessProbe", "lifecycle.postStart", "lifecycle.preStop"];
    for handler in handlers {
        let found = handler.split('.').fold(container, |value, field| &value[field]);
        for way in ["httpGet", "tcpSocket"] {
            if said(&found[way]["host"]) {
                return refuse(path, &format!("{handler}.{way}.host"), "has the node ask another host than the pod");
            }
        }
    }
    security(&join(path, "securityContext"), &container["securityContext"], of_pod)
}

fn security(path: &str, context: &Value, of_pod: &Value) -> Result<(), Refused> {
    only(path, context, &SECURITY)?;
    pod::common(path, context)?;
    if said(&context["privileged"]) {
        return refuse(path, "privileged", "is root on the node");
    }
    if said(&context["procMount"]) && context["procMount"] != "Default" {
        return refuse(path, "procMount", "shows more of the node");
    }
    if said(&context["capabilities"]["add"]) {
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
