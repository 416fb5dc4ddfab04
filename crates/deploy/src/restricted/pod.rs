//! Pods, and what they mount.

use serde_json::Value;

use super::{Ours, Refused, container, is_set, items, must, only, refuse};
use crate::check::join;

/// What of a pod gives it nothing that is others', or is judged below.
const POD: [&str; 33] = [
    "activeDeadlineSeconds",
    "affinity",
    "automountServiceAccountToken",
    "containers",
    "dnsConfig",
    "dnsPolicy",
    "enableServiceLinks",
    "hostAliases",
    "hostUsers",
    "hostname",
    "hostnameOverride",
    "imagePullSecrets",
    "initContainers",
    "nodeSelector",
    "overhead",
    "priorityClassName",
    "readinessGates",
    "resourceClaims",
    "resources",
    "restartPolicy",
    "runtimeClassName",
    "schedulerName",
    "schedulingGates",
    "securityContext",
    "serviceAccount",
    "serviceAccountName",
    "setHostnameAsFQDN",
    "shareProcessNamespace",
    "subdomain",
    "terminationGracePeriodSeconds",
    "tolerations",
    "topologySpreadConstraints",
    "volumes",
];

/// Of a pod's security context.
const SECURITY: [&str; 13] = [
    "appArmorProfile",
    "fsGroup",
    "fsGroupChangePolicy",
    "runAsGroup",
    "runAsNonRoot",
    "runAsUser",
    "seLinuxChangePolicy",
    "seLinuxOptions",
    "seccompProfile",
    "supplementalGroups",
    "supplementalGroupsPolicy",
    "sysctls",
    "windowsOptions",
];

/// What is the pod's own, or holds nothing secret.
const VOLUMES: [&str; 7] =
    ["configMap", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected"];
const PROJECTED: [&str; 3] = ["clusterTrustBundle", "configMap", "downwardAPI"];

/// Of a claim for a volume that is made for the pod, and holds nothing of anybody else's.
const CLAIM: [&str; 4] = ["accessModes", "resources", "storageClassName", "volumeMode"];

/// Kernel parameters of the pod's own namespaces (Pod Security Standards, baseline).
const SYSCTLS: [&str; 10] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_syncookies",
];

pub(super) fn judge(path: &str, spec: &Value, ours: &Ours<'_>) -> Result<(), Refused> {
    for field in ["hostNetwork", "hostPID", "hostIPC"] {
        if is_set(&spec[field]) {
            return refuse(path, field, "shares a namespace with the node");
        }
    }
    only(path, spec, &POD)?;
    if spec["serviceAccountName"] != ours.service_account {
        return refuse(path, "serviceAccountName", "is not the ServiceAccount of the Gateway");
    }
    if is_set(&spec["serviceAccount"]) && spec["serviceAccount"] != ours.service_account {
        return refuse(path, "serviceAccount", "is not the ServiceAccount of the Gateway");
    }
    if spec["automountServiceAccountToken"] != false {
        return must(path, "automountServiceAccountToken", "false");
    }
    if spec["priorityClassName"].as_str().is_some_and(|class| class.starts_with("system-")) {
        return refuse(
            path,
            "priorityClassName",
            "is a priority of Kubernetes itself, for which other pods are evicted",
        );
    }
    security(&join(path, "securityContext"), &spec["securityContext"])?;
    for (path, found) in items(path, "volumes", spec) {
        volume(&path, found, ours)?;
    }
    for (path, found) in items(path, "initContainers", spec).chain(items(path, "containers", spec)) {
        container::judge(&path, found, &spec["securityContext"])?;
    }
    Ok(())
}

fn security(path: &str, context: &Value) -> Result<(), Refused> {
    only(path, context, &SECURITY)?;
    container::common(path, context)?;
    for (path, sysctl) in items(path, "sysctls", context) {
        if !sysctl["name"].as_str().is_some_and(|name| SYSCTLS.contains(&name)) {
            return refuse(&path, "name", "is a parameter of more than the pod");
        }
    }
    Ok(())
}

fn volume(path: &str, volume: &Value, ours: &Ours<'_>) -> Result<(), Refused> {
    // An empty one is a source too.
    let sources =
        volume.as_object().into_iter().flatten().filter(|(field, value)| *field != "name" && !value.is_null());
    for (field, _) in sources {
        if !VOLUMES.contains(&field.as_str()) {
            return refuse(path, field, "is a volume that is not the pod's own, or holds Secrets");
        }
    }
    if volume["name"] == ours.token["name"] && volume["projected"]["sources"] == ours.token["projected"]["sources"] {
        return Ok(());
    }
    if is_set(&volume["ephemeral"]) {
        let claim = &volume["ephemeral"]["volumeClaimTemplate"]["spec"];
        only(&join(path, "ephemeral.volumeClaimTemplate.spec"), claim, &CLAIM)?;
        if claim["storageClassName"] == "" {
            let path = join(path, "ephemeral.volumeClaimTemplate.spec");
            return refuse(
                &path,
                "storageClassName",
                "takes a volume that is there already, perhaps a path of the node",
            );
        }
    }
    for (path, source) in items(&join(path, "projected"), "sources", &volume["projected"]) {
        let found = source.as_object().into_iter().flatten().find(|(field, _)| !PROJECTED.contains(&field.as_str()));
        if let Some((field, _)) = found {
            return refuse(&path, field, "is a Secret, or a token of a ServiceAccount");
        }
    }
    Ok(())
}
