//! The Deployment of Envoy.

use std::{collections::BTreeMap, time::Duration};

use ir::settings::LOGIN_LOG_LEVEL;
use serde_json::{Map, Value, json};

use super::{BOOTSTRAP_FILE, CONFIG_FOLDER, DRAIN_FILE, Rendering, TOKEN_FILE, drain};
use crate::{
    Fault, Image, Settings,
    check::quantity_value,
    names::{GATEWAY_CLASS_NAME, GATEWAY_NAME},
    parameters::{Container, Overlaid, Pod, Probed},
    reserved::POD_NAME,
};

/// The name of Envoy's container, which overlays speak of.
const CONTAINER: &str = "envoy";
/// The volumes.
const CONFIG: &str = "config";
const TOKEN: &str = "xds-token";
/// The annotation of the pod template that changes with the configuration that Envoy reads only when it starts.
const CHECKSUM: &str = "gateway.portcullis.dev/bootstrap-checksum";
/// What the kubelet takes to start the second Envoy, and that to read its configuration.
const STARTING: Duration = Duration::from_secs(2);

pub(super) fn deployment(plan: &Rendering<'_>, bootstrap: &str, drain: Option<&str>) -> Value {
    let parameters = &plan.plan.parameters.kube;
    let pod = &parameters.pod_template;
    let scaled = plan.plan.parameters.overlays(Overlaid::HorizontalPodAutoscaler).next().is_some();

    let mut annotations = plan.annotations([]);
    if parameters.stats.enabled.unwrap_or(true) {
        annotations.insert("prometheus.io/scrape".to_owned(), "true".into());
        annotations.insert("prometheus.io/path".to_owned(), "/stats/prometheus".into());
        annotations.insert("prometheus.io/port".to_owned(), plan.settings.stats_port.to_string().into());
    }
    annotations.extend(pod.extra_annotations.iter().map(|(key, value)| (key.clone(), Value::from(value.as_str()))));
    annotations.insert(CHECKSUM.to_owned(), checksum(bootstrap, drain).into());

    let mut spec = json!({
        "selector": {"matchLabels": plan.selector()},
        "strategy": strategy(plan),
        "template": {
            "metadata": {"labels": plan.labels(&pod.extra_labels), "annotations": annotations},
            "spec": pod_spec(plan),
        },
    });
    // Not said, it is one at first, and then whatever `kubectl scale` or an autoscaler makes of it.
    if let Some(replicas) = parameters.deployment.replicas
        && !scaled
    {
        spec["replicas"] = replicas.into();
    }
    json!({"metadata": plan.metadata([], []), "spec": spec})
}

/// Of what Envoy reads when it starts. Not of the certificates, which it reads anew when they change.
fn checksum(bootstrap: &str, drain: Option<&str>) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(bootstrap.as_bytes());
    hasher.update(&[0]);
    hasher.update(drain.unwrap_or_default().as_bytes());
    hasher.finalize().to_hex()[..16].to_owned()
}

fn strategy(plan: &Rendering<'_>) -> Value {
    let strategy = &plan.plan.parameters.kube.deployment.strategy;
    if strategy.r#type.as_deref() == Some("Recreate") {
        return json!({"type": "Recreate"});
    }
    let update = &strategy.rolling_update;
    json!({
        "type": "RollingUpdate",
        "rollingUpdate": {
            "maxSurge": update.max_surge.clone().unwrap_or(1.into()),
            "maxUnavailable": update.max_unavailable.clone().unwrap_or(0.into()),
        },
    })
}

fn pod_spec(plan: &Rendering<'_>) -> Value {
    let parameters = &plan.plan.parameters.kube;
    let pod = &parameters.pod_template;
    let settings = plan.settings;
    let mut volumes = vec![json!({"name": CONFIG, "configMap": {"name": *plan.names.object}}), token(settings)];
    volumes.extend(pod.extra_volumes.iter().map(|volume| (**volume).clone()));
    let mut spec = json!({
        "serviceAccountName": **plan.names.service_account(),
        "automountServiceAccountToken": false,
        // Hundreds of variables in a namespace of many Services, for nobody.
        "enableServiceLinks": false,
        "terminationGracePeriodSeconds": grace(plan),
        "containers": [container(plan)],
        "volumes": volumes,
        "topologySpreadConstraints": spread(plan, pod),
    });
    let mut set = |name: &str, value: Value| spec[name] = value;
    let mut security = Map::new();
    if !parameters.omit_default_security_context {
        security.insert("runAsNonRoot".to_owned(), true.into());
        security.insert("runAsUser".to_owned(), settings.user.into());
        security.insert("runAsGroup".to_owned(), settings.user.into());
        security.insert("seccompProfile".to_owned(), json!({"type": "RuntimeDefault"}));
    }
    extend(&mut security, pod.security_context.as_deref());
    if !security.is_empty() {
        set("securityContext", security.into());
    }
    if let Some(affinity) = &pod.affinity {
        set("affinity", (**affinity).clone());
    }
    if !pod.node_selector.is_empty() {
        set("nodeSelector", json!(pod.node_selector));
    }
    if !pod.tolerations.is_empty() {
        set("tolerations", list(&pod.tolerations));
    }
    if !pod.image_pull_secrets.is_empty() {
        set("imagePullSecrets", list(&pod.image_pull_secrets));
    }
    if let Some(name) = &pod.priority_class_name {
        set("priorityClassName", name.as_str().into());
    }
    spec
}

/// The volume with the token that a proxy shows.
pub(super) fn token(settings: &Settings) -> Value {
    json!({"name": TOKEN, "projected": {"sources": [{"serviceAccountToken": {
        "audience": settings.token_audience,
        "expirationSeconds": settings.token_lifetime.as_secs(),
        "path": TOKEN_FILE.rsplit('/').next().unwrap_or_default(),
    }}]}})
}

/// Proxies are spread over the nodes where that can be had.
fn spread(plan: &Rendering<'_>, pod: &Pod) -> Value {
    match &pod.topology_spread_constraints {
        Some(constraints) => list(constraints),
        None => json!([{
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": plan.selector()},
        }]),
    }
}

/// The time to drain, to start doing so, and to end.
fn grace(plan: &Rendering<'_>) -> u64 {
    let asked = plan.plan.parameters.kube.pod_template.termination_grace_period_seconds;
    let drain = drain::time(plan).map_or(Duration::ZERO, |time| time + STARTING);
    asked.map_or((drain + plan.settings.end).as_secs(), u64::from)
}

fn container(plan: &Rendering<'_>) -> Value {
    let parameters = &plan.plan.parameters.kube;
    let (container, pod) = (&parameters.envoy_container, &parameters.pod_template);
    let settings = plan.settings;
    let token_folder = TOKEN_FILE.rsplit_once('/').map_or("", |(folder, _)| folder);
    let image = image(container, &settings.image);
    let mut env = vec![json!({"name": POD_NAME, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}})];
    env.extend(container.env.iter().map(|env| (**env).clone()));
    let mut mounts = vec![
        // As folders: what is mounted by `subPath` never changes.
        json!({"name": CONFIG, "mountPath": CONFIG_FOLDER, "readOnly": true}),
        json!({"name": TOKEN, "mountPath": token_folder, "readOnly": true}),
    ];
    mounts.extend(container.extra_volume_mounts.iter().map(|mount| (**mount).clone()));
    let mut spec = json!({
        "name": CONTAINER,
        "image": reference(&image),
        "args": arguments(plan),
        "env": env,
        // Those of the listeners are left out: the field informs and opens nothing, and a listener more or less would
        // replace every pod.
        "ports": [{"name": "metrics", "containerPort": settings.stats_port, "protocol": "TCP"}],
        "resources": resources(plan),
        "volumeMounts": mounts,
        // It starts with the first configuration, for which it may have to wait: that it is not there yet is no reason
        // to start again, so this fails only after an hour.
        "startupProbe": probe(plan, pod.startup_probe.as_ref(), 1, 3600),
        "readinessProbe": probe(plan, pod.readiness_probe.as_ref(), 5, 3),
    });
    let mut set = |name: &str, value: Value| spec[name] = value;
    if !image.pull_policy.is_empty() {
        set("imagePullPolicy", image.pull_policy.as_str().into());
    }
    if let Some(probe) = &pod.liveness_probe {
        set("livenessProbe", (**probe).clone());
    }
    if drain::time(plan).is_some() {
        // Errors alone: what a hook prints is an event if it fails, and nothing if it does not.
        let command = json!([
            settings.program,
            "--config-path",
            format!("{CONFIG_FOLDER}/{DRAIN_FILE}"),
            "--disable-hot-restart",
            "--concurrency",
            "1",
            "--log-level",
            "error",
        ]);
        set("lifecycle", json!({"preStop": {"exec": {"command": command}}}));
    }
    let mut security = Map::new();
    if !parameters.omit_default_security_context {
        security.insert("allowPrivilegeEscalation".to_owned(), false.into());
        security.insert("readOnlyRootFilesystem".to_owned(), true.into());
        security.insert("capabilities".to_owned(), json!({"drop": ["ALL"]}));
    }
    extend(&mut security, container.security_context.as_deref());
    if !security.is_empty() {
        set("securityContext", security.into());
    }
    spec
}

fn arguments(plan: &Rendering<'_>) -> Vec<String> {
    let container = &plan.plan.parameters.kube.envoy_container;
    let settings = plan.settings;
    let bootstrap = &container.bootstrap;
    let (component, level) = LOGIN_LOG_LEVEL;
    let mut components: BTreeMap<&str, &str> = [(component, level)].into();
    components.extend(bootstrap.component_log_levels.iter().map(|(component, level)| (&**component, &**level)));
    let components: Vec<_> = components.iter().map(|(component, level)| format!("{component}:{level}")).collect();
    // Envoy does not start if it is told something twice.
    let named = |flag: &str| {
        let short = if flag == "--log-level" { "-l" } else { flag };
        let given = container.extra_args.iter().filter_map(|argument| argument.split('=').next());
        given.into_iter().any(|given| given == flag || given == short)
    };
    let own = [
        ("--config-path", format!("{CONFIG_FOLDER}/{BOOTSTRAP_FILE}")),
        ("--service-node", format!("$({POD_NAME})")),
        ("--service-cluster", plan.plan.gateway.to_string()),
        ("--log-level", bootstrap.log_level.clone().unwrap_or_else(|| settings.log_level.clone())),
        ("--component-log-level", components.join(",")),
        // A connection of a listener that was replaced ends with its next response, instead of at a moment by chance.
        ("--drain-strategy", "immediate".to_owned()),
        ("--drain-time-s", settings.listener_drain.as_secs().to_string()),
    ];
    let own = own.into_iter().filter(|(flag, value)| !value.is_empty() && !named(flag));
    let own = own.flat_map(|(flag, value)| [flag.to_owned(), value]);
    // Nothing takes over from a proxy in its own pod, and what is shared for that would need a place to write.
    own.chain(["--disable-hot-restart".to_owned()]).chain(container.extra_args.iter().cloned()).collect()
}

fn probe<T>(plan: &Rendering<'_>, asked: Option<&Probed<T>>, period: u32, failures: u32) -> Value {
    if let Some(probe) = asked {
        return (**probe).clone();
    }
    json!({
        "httpGet": {"path": "/ready", "port": plan.settings.stats_port, "scheme": "HTTP"},
        "periodSeconds": period,
        "timeoutSeconds": 3,
        "failureThreshold": failures,
        "successThreshold": 1,
    })
}

/// The parts of the image. Who names another image is not asked for the digest of ours.
fn image(container: &Container, default: &Image) -> Image {
    let asked = &container.image;
    let renamed = [&asked.registry, &asked.repository, &asked.tag].iter().any(|part| part.is_some());
    let or = |asked: &Option<String>, default: &str| asked.clone().unwrap_or_else(|| default.to_owned());
    Image {
        registry: or(&asked.registry, &default.registry),
        repository: or(&asked.repository, &default.repository),
        tag: or(&asked.tag, if asked.digest.is_some() { "" } else { &default.tag }),
        digest: or(&asked.digest, if renamed { "" } else { &default.digest }),
        pull_policy: or(&asked.pull_policy, &default.pull_policy),
    }
}

fn reference(image: &Image) -> String {
    let Image { registry, repository, tag, digest, pull_policy: _ } = image;
    let mut reference = String::new();
    for (before, part, behind) in [("", registry, "/"), ("", repository, ""), (":", tag, ""), ("@", digest, "")] {
        if !part.is_empty() {
            reference.extend([before, part.trim_end_matches('/'), behind]);
        }
    }
    reference
}

/// Each quantity that is asked for replaces the default one. A default that would contradict it gives way.
fn resources(plan: &Rendering<'_>) -> Value {
    let asked = &plan.plan.parameters.kube.envoy_container.resources;
    let of = |pairs: &[(String, String)]| -> BTreeMap<String, Value> {
        pairs.iter().map(|(name, quantity)| (name.clone(), quantity.as_str().into())).collect()
    };
    let (mut requests, mut limits) = (of(&plan.settings.requests), of(&plan.settings.limits));
    let contradicts = |request: Option<&Value>, limit: Option<&Value>| {
        let (request, limit) = (request.and_then(quantity_value), limit.and_then(quantity_value));
        request.zip(limit).is_some_and(|(request, limit)| request > limit)
    };
    for (name, limit) in &asked.limits {
        if contradicts(requests.get(name), Some(limit)) {
            requests.insert(name.clone(), limit.clone());
        }
    }
    for (name, request) in &asked.requests {
        if contradicts(Some(request), limits.get(name)) {
            limits.remove(name);
        }
    }
    requests.extend(asked.requests.clone());
    limits.extend(asked.limits.clone());
    let mut resources = json!({"requests": requests, "limits": limits});
    if !asked.claims.is_empty() {
        resources["claims"] = list(&asked.claims);
    }
    resources
}

fn list<T>(items: &[Probed<T>]) -> Value {
    items.iter().map(|item| (**item).clone()).collect()
}

fn extend(map: &mut Map<String, Value>, more: Option<&Value>) {
    if let Some(Value::Object(more)) = more {
        map.extend(more.clone());
    }
}

/// What parameters and overlays together make of the Deployment and the API server would refuse, or what would make it
/// lose its pods.
pub(super) fn check(plan: &Rendering<'_>, object: &Value) -> Result<(), Fault> {
    let overlaid = |path: &str, message: &str| Err(plan.overlaid(Overlaid::Deployment, path, message));
    let spec = &object["spec"];
    if spec["selector"] != json!({"matchLabels": plan.selector()}) {
        return overlaid("spec.selector", "cannot be changed once it is there; remove it");
    }
    let labels = &spec["template"]["metadata"]["labels"];
    if [GATEWAY_NAME, GATEWAY_CLASS_NAME].iter().any(|label| labels.get(*label) != plan.selector().get(*label)) {
        return overlaid("spec.template.metadata.labels", "must keep the labels of the selector");
    }
    let pod = &spec["template"]["spec"];
    let items = |value: &'_ Value| value.as_array().cloned().unwrap_or_default();
    let mut volumes: Vec<_> = items(&pod["volumes"]).iter().map(|volume| volume["name"].clone()).collect();
    volumes.sort_by_key(Value::to_string);
    if let Some((twice, _)) = volumes.iter().zip(volumes.iter().skip(1)).find(|(one, next)| one == next) {
        let message = format!("{twice} is a volume of the proxy already; choose another name");
        return Err(parameter(plan, "podTemplate.extraVolumes", message));
    }
    let containers = [items(&pod["initContainers"]), items(&pod["containers"])].concat();
    if !containers.iter().any(|container| container["name"] == CONTAINER) {
        return overlaid("spec.template.spec.containers", "must have the container envoy");
    }
    for container in &containers {
        let mut paths = Vec::new();
        for mount in items(&container["volumeMounts"]) {
            let field = "envoyContainer.extraVolumeMounts";
            if !volumes.contains(&mount["name"]) {
                return Err(parameter(plan, field, format!("there is no volume {}", mount["name"])));
            }
            if paths.contains(&mount["mountPath"]) {
                let message = format!("{} is taken; choose another path", mount["mountPath"]);
                return Err(parameter(plan, field, message));
            }
            paths.push(mount["mountPath"].clone());
        }
    }
    let grace = pod["terminationGracePeriodSeconds"].as_u64().unwrap_or(30);
    if let Some(drain) = drain::time(plan)
        && grace < (drain + STARTING).as_secs()
    {
        let message = format!(
            "{grace} s are too few for draining, which takes {} s and {} s to start; raise it, lower \
             gracefulShutdown.sleepTimeSeconds, or disable gracefulShutdown",
            drain.as_secs(),
            STARTING.as_secs(),
        );
        return Err(parameter(plan, "podTemplate.terminationGracePeriodSeconds", message));
    }
    Ok(())
}

/// What is wrong with a parameter in connection with others, of the Gateway if it has any: they win.
fn parameter(plan: &Rendering<'_>, field: &str, message: String) -> Fault {
    Fault::new(plan.plan.parameters.winner(), format!("spec.kube.{field}"), message)
}
