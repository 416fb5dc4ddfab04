//! What is wrong with parameters of the right shape.

use std::{collections::BTreeSet, net::IpAddr};

use serde_json::Value;

use super::schema::{
    Bootstrap, Container, Deployment, Image, Kube, Pod, Resources, Service, Stats, StringMatch, Texts,
};
use crate::{
    check,
    names::MANAGED_BY,
    reserved::{self, POD_NAME},
};

/// The path to what is wrong, and why.
type Wrong = (String, String);

fn wrong<T>(path: impl Into<String>, message: impl Into<String>) -> Result<T, Wrong> {
    Err((path.into(), message.into()))
}

pub(super) fn check(kube: &Kube) -> Result<(), Wrong> {
    if kube.istio.is_some() {
        return wrong("kube.istio", "is not supported: proxies have no sidecars; remove it");
    }
    if kube.sds_container.is_some() {
        return wrong(
            "kube.sdsContainer",
            "is not supported: certificates reach the proxies by the control plane; remove it",
        );
    }
    deployment(&kube.deployment)?;
    container(&kube.envoy_container)?;
    pod(&kube.pod_template)?;
    service(&kube.service)?;
    labels("kube.serviceAccount.extraLabels", &kube.service_account.extra_labels)?;
    annotations("kube.serviceAccount.extraAnnotations", &kube.service_account.extra_annotations)?;
    stats(&kube.stats)
}

pub(super) fn labels(path: &str, labels: &Texts) -> Result<(), Wrong> {
    for (key, value) in labels {
        if reserved::LABELS.contains(&key.as_str()) {
            return wrong(path, format!("{key:?} is set by {MANAGED_BY}; remove it"));
        }
        check::label(key, value).or_else(|message| wrong(path, message))?;
    }
    Ok(())
}

pub(super) fn annotations(path: &str, annotations: &Texts) -> Result<(), Wrong> {
    annotations.keys().try_for_each(|key| check::annotation(key).or_else(|message| wrong(path, message)))
}

fn deployment(deployment: &Deployment) -> Result<(), Wrong> {
    if deployment.replicas.is_some_and(|replicas| i32::try_from(replicas).is_err()) {
        return wrong("kube.deployment.replicas", "is too large");
    }
    let path = "kube.deployment.strategy";
    let update = &deployment.strategy.rolling_update;
    match deployment.strategy.r#type.as_deref() {
        None | Some("RollingUpdate") => {}
        Some("Recreate") if update.max_surge.is_some() || update.max_unavailable.is_some() => {
            return wrong(format!("{path}.rollingUpdate"), "cannot stand beside the type Recreate; remove it");
        }
        Some("Recreate") => return Ok(()),
        Some(other) => {
            return wrong(format!("{path}.type"), format!("{other:?} is no strategy; use RollingUpdate or Recreate"));
        }
    }
    let mut zero = true;
    // What is left out: no pod less, and one more.
    for (name, share, default) in [("maxSurge", &update.max_surge, 1), ("maxUnavailable", &update.max_unavailable, 0)] {
        let count = match share {
            None => Some(default),
            Some(Value::Number(number)) => number.as_u64().filter(|count| i32::try_from(*count).is_ok()),
            Some(Value::String(text)) => {
                text.strip_suffix('%').and_then(|text| text.parse::<u16>().ok()).map(u64::from)
            }
            Some(_) => None,
        };
        let Some(count) = count else {
            return wrong(
                format!("{path}.rollingUpdate.{name}"),
                "must be a number of pods that is not negative, or a percentage such as 25%",
            );
        };
        zero &= count == 0;
        if name == "maxUnavailable" && matches!(share, Some(Value::String(_))) && count > 100 {
            return wrong(format!("{path}.rollingUpdate.{name}"), "cannot be more than 100%");
        }
    }
    if zero {
        return wrong(
            format!("{path}.rollingUpdate"),
            "maxSurge and maxUnavailable cannot both be 0; raise one of them",
        );
    }
    Ok(())
}

fn container(container: &Container) -> Result<(), Wrong> {
    let path = "kube.envoyContainer";
    bootstrap(&container.bootstrap)?;
    unique(&format!("{path}.env"), container.env.iter().map(|env| env["name"].as_str()))?;
    for (index, env) in container.env.iter().enumerate() {
        let name = env["name"].as_str().unwrap_or_default();
        let path = format!("{path}.env[{index}]");
        if name.is_empty() || name.contains('=') || !name.chars().all(|c| c.is_ascii_graphic()) {
            return wrong(format!("{path}.name"), "is no name of a variable; use letters, digits and '_'");
        }
        if name == POD_NAME {
            return wrong(format!("{path}.name"), format!("{POD_NAME} is set by {MANAGED_BY}; remove it"));
        }
        if env.get("value").is_some_and(|value| value != "") && env.get("valueFrom").is_some() {
            return wrong(path, "has both value and valueFrom; remove one of them");
        }
    }
    for (index, argument) in container.extra_args.iter().enumerate() {
        let flag = argument.split('=').next().unwrap_or_default();
        if reserved::ARGUMENTS.contains(&flag) {
            return wrong(format!("{path}.extraArgs[{index}]"), format!("{flag} is set by {MANAGED_BY}; remove it"));
        }
    }
    unique(
        &format!("{path}.extraVolumeMounts"),
        container.extra_volume_mounts.iter().map(|m| m["mountPath"].as_str()),
    )?;
    for (index, mount) in container.extra_volume_mounts.iter().enumerate() {
        for name in ["mountPath", "name"] {
            if mount[name].as_str().is_none_or(str::is_empty) {
                return wrong(format!("{path}.extraVolumeMounts[{index}].{name}"), "must be set");
            }
        }
    }
    image(&container.image)?;
    resources(&container.resources)
}

/// Levels that Envoy knows.
const LOG_LEVELS: [&str; 8] = ["trace", "debug", "info", "warning", "warn", "error", "critical", "off"];

fn bootstrap(bootstrap: &Bootstrap) -> Result<(), Wrong> {
    let path = "kube.envoyContainer.bootstrap";
    let level = |path: String, level: &str| {
        if LOG_LEVELS.contains(&level) {
            return Ok(());
        }
        wrong(path, format!("{level:?} is no log level; use one of {}", LOG_LEVELS.join(", ")))
    };
    if let Some(found) = &bootstrap.log_level {
        level(format!("{path}.logLevel"), found)?;
    }
    for (component, found) in &bootstrap.component_log_levels {
        let path = format!("{path}.componentLogLevels");
        if component.is_empty() || !component.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return wrong(path, format!("{component:?} is no component of Envoy, such as upstream or http2"));
        }
        level(path, found)?;
    }
    if bootstrap.enable_readiness_probe_proxy_protocol {
        return wrong(
            format!("{path}.enableReadinessProbeProxyProtocol"),
            "is not supported: the port for probes speaks plain HTTP; remove it",
        );
    }
    match &bootstrap.log_format {
        Some(format) if format.json.is_some() == format.text.is_some() => {
            wrong(format!("{path}.logFormat"), "needs exactly one of json and text")
        }
        _ => Ok(()),
    }
}

fn image(image: &Image) -> Result<(), Wrong> {
    let path = |name: &str| format!("kube.envoyContainer.image.{name}");
    let parts = [("registry", &image.registry), ("repository", &image.repository), ("tag", &image.tag)];
    for (name, part) in parts {
        let part = part.as_deref().unwrap_or_default();
        let good = |c: char| c.is_ascii_alphanumeric() || "._-/:".contains(c);
        if !part.chars().all(good) || name == "tag" && part.contains(['/', ':']) {
            return wrong(path(name), format!("{part:?} cannot be part of an image's name"));
        }
    }
    if let Some(digest) = image.digest.as_deref().filter(|digest| !digest.is_empty()) {
        let hexadecimal = |hex: &str| hex.len() >= 32 && hex.chars().all(|c| c.is_ascii_hexdigit());
        if !digest.split_once(':').is_some_and(|(_, hex)| hexadecimal(hex)) {
            return wrong(
                path("digest"),
                format!("{digest:?} is no digest, such as sha256: and 64 hexadecimal digits"),
            );
        }
    }
    match image.pull_policy.as_deref() {
        None | Some("" | "Always" | "IfNotPresent" | "Never") => Ok(()),
        Some(other) => {
            wrong(path("pullPolicy"), format!("{other:?} is no pull policy; use Always, IfNotPresent or Never"))
        }
    }
}

fn resources(resources: &Resources) -> Result<(), Wrong> {
    let path = "kube.envoyContainer.resources";
    for (list, quantities) in [("limits", &resources.limits), ("requests", &resources.requests)] {
        for (name, quantity) in quantities {
            if !check::qualified_name(name) {
                return wrong(format!("{path}.{list}"), format!("{name:?} is no resource, such as cpu or memory"));
            }
            if check::quantity_value(quantity).is_none() {
                return wrong(
                    format!("{path}.{list}.{name}"),
                    format!("{quantity} is no quantity that is not negative, such as 100m or 1Gi"),
                );
            }
        }
    }
    for (name, request) in &resources.requests {
        let limit = resources.limits.get(name).and_then(check::quantity_value);
        if limit.is_some_and(|limit| check::quantity_value(request) > Some(limit)) {
            return wrong(format!("{path}.requests.{name}"), "is more than the limit; lower it or raise the limit");
        }
    }
    Ok(())
}

fn pod(pod: &Pod) -> Result<(), Wrong> {
    let path = "kube.podTemplate";
    labels(&format!("{path}.extraLabels"), &pod.extra_labels)?;
    annotations(&format!("{path}.extraAnnotations"), &pod.extra_annotations)?;
    for (key, value) in &pod.node_selector {
        check::label(key, value).or_else(|message| wrong(format!("{path}.nodeSelector"), message))?;
    }
    if let Some(name) = &pod.priority_class_name
        && !check::dns_subdomain(name)
    {
        return wrong(format!("{path}.priorityClassName"), format!("{name:?} is no name of a PriorityClass"));
    }
    unique(&format!("{path}.extraVolumes"), pod.extra_volumes.iter().map(|volume| volume["name"].as_str()))?;
    for (index, volume) in pod.extra_volumes.iter().enumerate() {
        if !volume["name"].as_str().is_some_and(check::dns_label) {
            return wrong(format!("{path}.extraVolumes[{index}].name"), "is no name of a volume; use a-z, 0-9 and '-'");
        }
        if volume.as_object().is_some_and(|volume| volume.len() > 2) {
            return wrong(format!("{path}.extraVolumes[{index}]"), "has more than one source; keep one of them");
        }
    }
    let probes = [
        ("startupProbe", &pod.startup_probe),
        ("readinessProbe", &pod.readiness_probe),
        ("livenessProbe", &pod.liveness_probe),
    ];
    for (name, probe) in probes {
        let Some(probe) = probe else { continue };
        let handlers = ["exec", "httpGet", "tcpSocket", "grpc"];
        if handlers.iter().filter(|handler| probe.get(**handler).is_some()).count() != 1 {
            return wrong(format!("{path}.{name}"), "needs exactly one of exec, httpGet, tcpSocket and grpc");
        }
        let negative = |value: &Value| value.as_i64().is_some_and(|number| number < 0);
        let negative = probe.as_object().and_then(|probe| probe.iter().find(|(_, value)| negative(value)));
        if let Some((field, _)) = negative {
            return wrong(format!("{path}.{name}.{field}"), "cannot be negative");
        }
    }
    Ok(())
}

fn service(service: &Service) -> Result<(), Wrong> {
    let path = |name: &str| format!("kube.service.{name}");
    labels(&path("extraLabels"), &service.extra_labels)?;
    annotations(&path("extraAnnotations"), &service.extra_annotations)?;
    let kind = service.r#type.as_deref().unwrap_or("LoadBalancer");
    if !matches!(kind, "ClusterIP" | "NodePort" | "LoadBalancer") {
        return wrong(path("type"), format!("{kind:?} is not supported; use LoadBalancer, NodePort or ClusterIP"));
    }
    let only =
        |name: &str, types: &str| wrong(path(name), format!("needs a Service of type {types}, and this is {kind}"));
    if kind != "LoadBalancer" && service.load_balancer_class.is_some() {
        return only("loadBalancerClass", "LoadBalancer");
    }
    if kind != "LoadBalancer" && !service.load_balancer_source_ranges.is_empty() {
        return only("loadBalancerSourceRanges", "LoadBalancer");
    }
    if let Some(class) = &service.load_balancer_class
        && !check::qualified_name(class)
    {
        return wrong(path("loadBalancerClass"), format!("{class:?} is no class, such as example.com/name"));
    }
    for (index, range) in service.load_balancer_source_ranges.iter().enumerate() {
        if !is_range(range.trim()) {
            let message = format!("{range:?} is no range of addresses, such as 192.0.2.0/24");
            return wrong(format!("{}[{index}]", path("loadBalancerSourceRanges")), message);
        }
    }
    if let Some(policy) = service.external_traffic_policy.as_deref() {
        if !matches!(policy, "Cluster" | "Local") {
            return wrong(path("externalTrafficPolicy"), format!("{policy:?} is no policy; use Cluster or Local"));
        }
        if kind == "ClusterIP" {
            return only("externalTrafficPolicy", "LoadBalancer or NodePort");
        }
    }
    match service.cluster_ip.as_deref() {
        None | Some("") => {}
        Some("None") if kind == "ClusterIP" => {}
        Some("None") => return only("clusterIP", "ClusterIP to be None"),
        Some(address) if address.parse::<IpAddr>().is_err() => {
            return wrong(path("clusterIP"), format!("{address:?} is no IP address"));
        }
        Some(_) => {}
    }
    let mut seen = BTreeSet::new();
    let mut taken = BTreeSet::new();
    for (index, port) in service.ports.iter().enumerate() {
        let path = format!("{}[{index}]", path("ports"));
        if port.port == 0 || port.node_port == Some(0) {
            return wrong(path, "needs ports from 1 to 65535");
        }
        if !seen.insert(port.port) {
            return wrong(format!("{path}.port"), format!("{} stands here twice; remove one of them", port.port));
        }
        if let Some(node_port) = port.node_port {
            if kind == "ClusterIP" {
                return only(&format!("ports[{index}].nodePort"), "LoadBalancer or NodePort");
            }
            if !taken.insert(node_port) {
                return wrong(format!("{path}.nodePort"), format!("{node_port} stands here twice; remove one of them"));
            }
        }
    }
    Ok(())
}

fn is_range(range: &str) -> bool {
    let Some((address, length)) = range.split_once('/') else { return false };
    let most = match address.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    length.parse::<u8>().is_ok_and(|length| length <= most)
}

fn stats(stats: &Stats) -> Result<(), Wrong> {
    let path = |name: &str| format!("kube.stats.{name}");
    if stats.enable_stats_route {
        return wrong(
            path("enableStatsRoute"),
            "is not supported: proxies serve /stats/prometheus and nothing else; remove it",
        );
    }
    let rewrites = [
        ("routePrefixRewrite", &stats.route_prefix_rewrite),
        ("statsRoutePrefixRewrite", &stats.stats_route_prefix_rewrite),
    ];
    for (name, rewrite) in rewrites {
        if rewrite.is_some() {
            return wrong(path(name), "is not supported: metrics are served at /stats/prometheus; remove it");
        }
    }
    let Some(matcher) = &stats.matcher else { return Ok(()) };
    let lists = [("inclusionList", &matcher.inclusion_list), ("exclusionList", &matcher.exclusion_list)];
    if lists.iter().filter(|(_, list)| list.is_some()).count() != 1 {
        return wrong(path("matcher"), "needs exactly one of inclusionList and exclusionList");
    }
    for (name, list) in lists {
        let list = list.as_deref().unwrap_or_default();
        for (index, item) in list.iter().enumerate() {
            let path = format!("{}.{name}[{index}]", path("matcher"));
            let StringMatch { contains, exact, prefix, safe_regex, suffix, ignore_case: _ } = item;
            if safe_regex.is_some() {
                let message = "is not supported; use exact, prefix, suffix or contains";
                return wrong(format!("{path}.safeRegex"), message);
            }
            let ways = [contains, exact, prefix, suffix];
            if ways.iter().filter(|way| way.is_some()).count() != 1 {
                return wrong(path, "needs exactly one of exact, prefix, suffix and contains");
            }
            // Envoy refuses an empty text but for exact.
            if ways.iter().any(|way| way.as_deref() == Some("")) {
                return wrong(path, "cannot be empty");
            }
        }
    }
    Ok(())
}

fn unique<'a>(path: &str, names: impl Iterator<Item = Option<&'a str>>) -> Result<(), Wrong> {
    let mut seen = BTreeSet::new();
    for (index, name) in names.enumerate() {
        let name = name.unwrap_or_default();
        if !seen.insert(name) {
            return wrong(format!("{path}[{index}]"), format!("{name:?} stands here twice; remove one of them"));
        }
    }
    Ok(())
}
