//! From a plan to manifests.

mod autoscaling;
mod bootstrap;
mod deployment;
mod drain;
mod service;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use ir::settings::Trust;
use k8s_openapi::api::{
    apps::v1::Deployment,
    autoscaling::v2::HorizontalPodAutoscaler,
    core::v1::{ConfigMap, Service, ServiceAccount},
    policy::v1::PodDisruptionBudget,
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::{
    About, Fault, Manifest, Plan, Settings, check,
    names::{GATEWAY_CLASS_NAME, GATEWAY_NAME, MANAGED_BY, MANAGED_BY_LABEL, Names, names},
    overlay,
    parameters::Overlaid,
    reserved,
    restricted::{self, Ours},
};

/// Where the bootstrap, the configuration to drain by and the certificates are in a proxy.
pub const CONFIG_FOLDER: &str = "/etc/portcullis";
/// The bootstrap, below [`CONFIG_FOLDER`].
pub const BOOTSTRAP_FILE: &str = "bootstrap.json";
/// What the second Envoy runs by that ends a proxy, below [`CONFIG_FOLDER`].
pub const DRAIN_FILE: &str = "drain.json";
/// The certificates that the xDS server's is checked against, below [`CONFIG_FOLDER`]. The folder is to be watched:
/// Kubernetes replaces it as a whole.
pub const TRUST_BUNDLE_FILE: &str = "ca.crt";
/// The token that a proxy shows to the xDS server. It changes while the proxy runs, and its folder is to be watched.
pub const TOKEN_FILE: &str = "/var/run/secrets/portcullis/token";
/// Where the bootstrap has the listener for probes and metrics, unless [`Settings`] say otherwise.
pub const STATS_PORT: u16 = ir::settings::OBSERVED_PORT;
/// Where the bootstrap has the admin interface, on loopback, unless [`Settings`] say otherwise.
pub const ADMIN_PORT: u16 = ir::settings::ADMIN_PORT;

/// What an API server takes in a ConfigMap.
const LARGEST_CONFIG_MAP: usize = 1 << 20;

/// The manifests of a Gateway's proxies: what they need first, in an order that does not change. None where somebody else
/// runs them.
pub fn render(plan: &Plan, settings: &Settings) -> Result<Vec<Manifest>, Fault> {
    let parameters = &plan.parameters;
    if parameters.self_managed {
        return Ok(Vec::new());
    }
    let names = names(&plan.gateway, &plan.class);
    check_infrastructure(plan)?;
    let plan = &Rendering { plan, settings, names };
    let bootstrap = bootstrap::bootstrap(plan)?;
    let drain = drain::drain(plan);

    let mut manifests = vec![
        plan.checked::<ServiceAccount>(Overlaid::ServiceAccount, "v1", "ServiceAccount", service_account(plan))?,
        plan.manifest("v1", "ConfigMap", config_map(plan, &bootstrap, drain.as_deref())?),
        plan.checked::<Deployment>(
            Overlaid::Deployment,
            "apps/v1",
            "Deployment",
            deployment::deployment(plan, &bootstrap, drain.as_deref()),
        )?,
    ];
    decoded::<ConfigMap>(&manifests[1].object, About::Gateway, "")?;
    deployment::check(plan, &manifests[2].object)?;
    if !plan.plan.ports.is_empty() {
        let service = plan.checked::<Service>(Overlaid::Service, "v1", "Service", service::service(plan)?)?;
        service::check(plan, &service.object)?;
        manifests.push(service);
    }
    let asked = |of| parameters.overlays(of).next().is_some();
    if asked(Overlaid::HorizontalPodAutoscaler) {
        let of = Overlaid::HorizontalPodAutoscaler;
        let object = autoscaling::horizontal(plan);
        let mut manifest =
            plan.checked::<HorizontalPodAutoscaler>(of, "autoscaling/v2", "HorizontalPodAutoscaler", object)?;
        autoscaling::complete_horizontal(plan, &mut manifest.object)?;
        manifests.push(manifest);
    }
    if asked(Overlaid::PodDisruptionBudget) {
        let object = autoscaling::budget(plan);
        let of = Overlaid::PodDisruptionBudget;
        let mut manifest = plan.checked::<PodDisruptionBudget>(of, "policy/v1", "PodDisruptionBudget", object)?;
        autoscaling::complete_budget(plan, &mut manifest.object)?;
        manifests.push(manifest);
    }
    if asked(Overlaid::VerticalPodAutoscaler) {
        // Not a kind of Kubernetes' own: only the API server knows its shape.
        let of = Overlaid::VerticalPodAutoscaler;
        let object = autoscaling::vertical(plan);
        let manifest = plan.checked::<Value>(of, "autoscaling.k8s.io/v1", "VerticalPodAutoscaler", object)?;
        autoscaling::check_vertical(plan, &manifest.object)?;
        manifests.push(manifest);
    }
    Ok(manifests)
}

/// A plan, while it is rendered.
struct Rendering<'a> {
    plan: &'a Plan,
    settings: &'a Settings,
    names: Names,
}

impl Rendering<'_> {
    /// What the selectors of Deployment and Service have, which can never change: the Gateway and its class, both of
    /// which are part of the objects' names.
    fn selector(&self) -> Value {
        json!({GATEWAY_NAME: *self.names.gateway, GATEWAY_CLASS_NAME: *self.names.class})
    }

    /// The labels of every object and every pod, with more.
    fn labels<'b>(&self, more: impl IntoIterator<Item = (&'b String, &'b String)>) -> Map<String, Value> {
        let mut labels = Map::new();
        let mut add = |key: &str, value: &str| drop(labels.insert(key.to_owned(), value.into()));
        add("app.kubernetes.io/name", "envoy");
        add("app.kubernetes.io/component", "proxy");
        add("app.kubernetes.io/instance", &self.names.object);
        for (key, value) in &self.plan.labels {
            add(key, value);
        }
        for (key, value) in more {
            add(key, value);
        }
        add(MANAGED_BY_LABEL, MANAGED_BY);
        add(GATEWAY_NAME, &self.names.gateway);
        add(GATEWAY_CLASS_NAME, &self.names.class);
        labels
    }

    /// The annotations of every object and every pod, with more.
    fn annotations<'b>(&self, more: impl IntoIterator<Item = (&'b String, &'b String)>) -> Map<String, Value> {
        let given = self.plan.annotations.iter().map(|(key, value)| (key.to_string(), Value::from(&**value)));
        let more = more.into_iter().map(|(key, value)| (key.clone(), Value::from(value.as_str())));
        given.chain(more).collect()
    }

    /// The metadata of an object.
    fn metadata<'b>(
        &self,
        labels: impl IntoIterator<Item = (&'b String, &'b String)>,
        annotations: impl IntoIterator<Item = (&'b String, &'b String)>,
    ) -> Value {
        let mut metadata = json!({
            "name": *self.names.object,
            "namespace": *self.names.namespace,
            "labels": self.labels(labels),
            "ownerReferences": [{
                "apiVersion": "gateway.networking.k8s.io/v1",
                "kind": "Gateway",
                "name": *self.plan.gateway.name,
                "uid": *self.plan.uid,
                "controller": true,
                "blockOwnerDeletion": false,
            }],
        });
        let annotations = self.annotations(annotations);
        if !annotations.is_empty() {
            metadata["annotations"] = annotations.into();
        }
        metadata
    }

    fn manifest(&self, api_version: &'static str, kind: &'static str, mut object: Value) -> Manifest {
        object["apiVersion"] = api_version.into();
        object["kind"] = kind.into();
        let (namespace, name) = (Arc::clone(&self.names.namespace), Arc::clone(&self.names.object));
        let optional_ports = if kind == "Service" { service::optional(self) } else { Vec::new() };
        Manifest { api_version, kind, namespace, name, object, optional_ports }
    }

    /// An object with its overlays applied, of the shape that the API server knows.
    fn checked<T: DeserializeOwned>(
        &self,
        of: Overlaid,
        api_version: &'static str,
        kind: &'static str,
        object: Value,
    ) -> Result<Manifest, Fault> {
        let mut manifest = self.manifest(api_version, kind, object);
        decoded::<T>(&manifest.object, About::Gateway, "")?;
        let judge = self.judge(kind, &manifest.object);
        judge(&manifest.object).map_err(|(path, message)| {
            let field = of.parameter(&path);
            Fault::new(self.plan.parameters.author(&field), format!("spec.{field}"), message)
        })?;
        for overlaid in self.plan.parameters.overlays(of) {
            overlay::apply(kind, &mut manifest.object, &overlaid.patch)
                .map_err(|(path, message)| Fault::new(overlaid.about, check::join(&of.field(), &path), message))?;
            decoded::<T>(&manifest.object, overlaid.about, &of.field())?;
            judge(&manifest.object)
                .map_err(|(path, message)| Fault::new(overlaid.about, check::join(&of.field(), &path), message))?;
            for (label, value) in self.labels([]) {
                let reserved = reserved::LABELS.contains(&label.as_str());
                if reserved && manifest.object["metadata"]["labels"].get(&label) != Some(&value) {
                    let field = check::join(&of.field(), "metadata.labels");
                    let message = format!("{label:?} is set by {MANAGED_BY}; remove it");
                    return Err(Fault::new(overlaid.about, field, message));
                }
            }
        }
        Ok(manifest)
    }

    /// Judges an object by how far parameters are trusted; before overlays it is `rendered`.
    fn judge(
        &self,
        kind: &'static str,
        rendered: &Value,
    ) -> impl Fn(&Value) -> Result<(), restricted::Refused> + use<> {
        let restricted = self.plan.parameters.trust == Trust::Restricted;
        let service_account = Arc::clone(self.names.service_account());
        let token = deployment::token(self.settings);
        let load_balancer_ip = rendered["spec"].get("loadBalancerIP").cloned();
        move |object| {
            let (token, load_balancer_ip) = (&token, load_balancer_ip.as_ref());
            let ours = Ours { service_account: &service_account, token, load_balancer_ip };
            if restricted { restricted::judge(kind, object, &ours) } else { Ok(()) }
        }
    }

    /// What is wrong with the result of overlays: of the last, which could have put it right.
    fn overlaid(&self, of: Overlaid, path: &str, message: impl Into<String>) -> Fault {
        let about = self.plan.parameters.overlays(of).last().map_or(About::ClassParameters, |overlay| overlay.about);
        Fault::new(about, check::join(&of.field(), path), message)
    }
}

fn decoded<T: DeserializeOwned>(object: &Value, about: About, field: &str) -> Result<(), Fault> {
    check::decode::<T>(object)
        .map(drop)
        .map_err(|(path, message)| Fault::new(about, check::join(field, &path), message))
}

fn check_infrastructure(plan: &Plan) -> Result<(), Fault> {
    for (key, value) in &plan.labels {
        let reserved = reserved::LABELS.contains(&&**key);
        let wrong =
            if reserved { Err(format!("{key:?} is set by {MANAGED_BY}; remove it")) } else { check::label(key, value) };
        wrong.map_err(|message| Fault::new(About::Gateway, "spec.infrastructure.labels", message))?;
    }
    for (key, value) in &plan.annotations {
        let fault = |message| Fault::new(About::Gateway, "spec.infrastructure.annotations", message);
        check::annotation(key).map_err(fault)?;
        if plan.parameters.trust != Trust::Unrestricted {
            restricted::annotation(key, value).map_err(fault)?;
        }
    }
    Ok(())
}

fn service_account(plan: &Rendering<'_>) -> Value {
    let extra = &plan.plan.parameters.kube.service_account;
    json!({
        "metadata": plan.metadata(&extra.extra_labels, &extra.extra_annotations),
        "automountServiceAccountToken": false,
    })
}

fn config_map(plan: &Rendering<'_>, bootstrap: &str, drain: Option<&str>) -> Result<Value, Fault> {
    let mut data = Map::new();
    data.insert(BOOTSTRAP_FILE.to_owned(), bootstrap.into());
    if let Some(drain) = drain {
        data.insert(DRAIN_FILE.to_owned(), drain.into());
    }
    for (name, content) in &plan.plan.files {
        data.insert(name.to_string(), (**content).into());
    }
    if let Some(bundle) = &plan.plan.trust_bundle {
        data.insert(TRUST_BUNDLE_FILE.to_owned(), (**bundle).into());
    }
    let size: usize = data.values().filter_map(Value::as_str).map(str::len).sum();
    if size > LARGEST_CONFIG_MAP {
        let message = format!("bootstrap and certificates have {size} bytes, more than a ConfigMap holds");
        return Err(Fault::new(About::Gateway, "", message));
    }
    Ok(json!({"metadata": plan.metadata([], []), "data": data}))
}
