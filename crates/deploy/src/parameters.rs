//! What `GatewayParameters` (`gateway.kgateway.dev/v1alpha1`) ask for: read, merged and checked.

mod merge;
mod schema;
mod semantics;
#[cfg(test)]
mod tests;

use ir::settings::Trust;
use serde_json::{Map, Value};

pub(crate) use self::schema::{Container, Kube, LogFormat, Matcher, Pod, Probed, StringMatch};
use self::schema::{Metadata, Spec};
use crate::{About, Fault, check};

/// What the `GatewayParameters` of a GatewayClass and of a Gateway come to.
///
/// The default is what is without either.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parameters {
    pub(crate) self_managed: bool,
    /// How far they are trusted.
    pub(crate) trust: Trust,
    /// Whether the class has parameters.
    of_class: bool,
    /// What the Gateway's own parameters say, if it has any.
    of_gateway: Option<Value>,
    pub(crate) kube: Kube,
    /// In the order in which they are applied: those of the class first.
    pub(crate) overlays: Vec<Overlay>,
}

/// A patch on an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Overlay {
    pub(crate) of: Overlaid,
    pub(crate) about: About,
    pub(crate) patch: Value,
}

/// What an overlay is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overlaid {
    Deployment,
    Service,
    ServiceAccount,
    HorizontalPodAutoscaler,
    PodDisruptionBudget,
    VerticalPodAutoscaler,
}

impl Overlaid {
    const ALL: [Self; 6] = [
        Self::Deployment,
        Self::Service,
        Self::ServiceAccount,
        Self::HorizontalPodAutoscaler,
        Self::PodDisruptionBudget,
        Self::VerticalPodAutoscaler,
    ];

    /// The property of `spec.kube`.
    pub(crate) fn property(self) -> &'static str {
        match self {
            Self::Deployment => "deploymentOverlay",
            Self::Service => "serviceOverlay",
            Self::ServiceAccount => "serviceAccountOverlay",
            Self::HorizontalPodAutoscaler => "horizontalPodAutoscaler",
            Self::PodDisruptionBudget => "podDisruptionBudget",
            Self::VerticalPodAutoscaler => "verticalPodAutoscaler",
        }
    }

    /// Where it stands.
    pub(crate) fn field(self) -> String {
        format!("spec.kube.{}", self.property())
    }

    /// The parameter below `spec` that makes a field of the object be what it is before there are overlays.
    pub(crate) fn parameter(self, field: &str) -> String {
        let parameters: &[(&str, &str)] = match self {
            Self::Deployment => &[
                ("spec.template.metadata.annotations", "kube.podTemplate.extraAnnotations"),
                ("spec.template.spec.volumes", "kube.podTemplate.extraVolumes"),
                ("spec.template.spec.containers[name=\"envoy\"].volumeMounts", "kube.envoyContainer.extraVolumeMounts"),
                ("spec.template.spec.containers[name=\"envoy\"].startupProbe", "kube.podTemplate.startupProbe"),
                ("spec.template.spec.containers[name=\"envoy\"].readinessProbe", "kube.podTemplate.readinessProbe"),
                ("spec.template.spec.containers[name=\"envoy\"].livenessProbe", "kube.podTemplate.livenessProbe"),
                ("spec.template.spec.containers[name=\"envoy\"]", "kube.envoyContainer"),
                ("spec.template.spec", "kube.podTemplate"),
                ("spec", "kube.deployment"),
            ],
            Self::Service => &[("spec", "kube.service")],
            Self::ServiceAccount => &[("metadata", "kube.serviceAccount")],
            _ => &[],
        };
        let found = parameters.iter().find_map(|(of, parameter)| Some((field.strip_prefix(of)?, parameter)));
        found.map_or_else(|| field.to_owned(), |(rest, parameter)| format!("{parameter}{rest}"))
    }
}

impl Parameters {
    /// Reads the `spec` of the `GatewayParameters` that the GatewayClass names, and of those that the Gateway's
    /// `infrastructure.parametersRef` names.
    ///
    /// They are merged deeply, and the Gateway's wins. Of lists, those of the class come first and an item of the Gateway
    /// with the same name (path, port) replaces one; an empty list empties it; commands, arguments and source ranges are
    /// replaced as a whole. Of fields that exclude each other, those that the Gateway names remain. Overlays are not
    /// merged with each other but applied one after the other. `selfManaged` of the Gateway makes nothing of what the
    /// class says, and `kube` of the Gateway ends `selfManaged` of the class.
    ///
    /// What cannot be honoured is a fault: the field, what is wrong and what to do. What `trust` does not allow is one too,
    /// here or when it is rendered.
    pub fn read(of_class: Option<&Value>, of_gateway: Option<&Value>, trust: Trust) -> Result<Self, Fault> {
        if trust == Trust::ClassOnly
            && let Some(spec) = of_gateway
        {
            only_of_class(spec)?;
        }
        let class = of_class.map(|spec| Document::read(spec, About::ClassParameters)).transpose()?;
        let gateway = of_gateway.map(|spec| Document::read(spec, About::GatewayParameters)).transpose()?;
        let gateway_spec = gateway.as_ref().map(|document| document.spec.clone());
        let document = match (class, gateway) {
            (Some(class), Some(gateway)) => match (class.is_self_managed(), gateway.is_self_managed()) {
                (false, false) => class.merged(gateway),
                _ => gateway,
            },
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => return Ok(Self { trust, ..Self::default() }),
        };
        let about = |path: &str| author(of_class.is_some(), gateway_spec.as_ref(), path);
        let fault = |(path, message): (String, String)| Fault::new(about(&path), check::join("spec", &path), message);
        let spec: Spec = check::decode(&document.spec).map_err(fault)?;
        let kube = spec.kube.unwrap_or_default();
        semantics::check(&kube).map_err(fault)?;
        Ok(Self {
            self_managed: spec.self_managed.is_some(),
            trust,
            kube,
            overlays: document.overlays,
            of_class: of_class.is_some(),
            of_gateway: gateway_spec,
        })
    }

    /// Whether somebody else runs the proxies, and nothing is rendered.
    pub fn self_managed(&self) -> bool {
        self.self_managed
    }

    /// Whether proxies serve `/stats/prometheus`; the bootstrap should leave it out where they do not.
    pub fn stats(&self) -> bool {
        self.kube.stats.enabled.unwrap_or(true)
    }

    /// Whose word is the last.
    pub(crate) fn winner(&self) -> About {
        if self.of_gateway.is_some() { About::GatewayParameters } else { About::ClassParameters }
    }

    /// Whose word a field of the spec is, such as `kube.podTemplate`.
    pub(crate) fn author(&self, path: &str) -> About {
        // What a security context lacks is left out by whoever says what it stands in, or does without the default one.
        let of_context = path.contains("securityContext");
        let parent = path.rsplit_once('.').map(|(parent, _)| parent);
        let parent = parent.filter(|parent| of_context && !parent.ends_with("securityContext"));
        let default = of_context.then_some("kube.omitDefaultSecurityContext");
        let mut paths = [Some(path), parent, default].into_iter().flatten();
        let gateway =
            paths.any(|path| author(self.of_class, self.of_gateway.as_ref(), path) == About::GatewayParameters);
        if gateway { About::GatewayParameters } else { About::ClassParameters }
    }

    pub(crate) fn overlays(&self, of: Overlaid) -> impl Iterator<Item = &Overlay> {
        self.overlays.iter().filter(move |overlay| overlay.of == of)
    }
}

fn author(of_class: bool, of_gateway: Option<&Value>, path: &str) -> About {
    match of_gateway {
        Some(spec) if !of_class || merge::sets(spec, path) => About::GatewayParameters,
        _ => About::ClassParameters,
    }
}

/// What a Gateway's parameters may say where pods are the class's business ([`Trust::ClassOnly`]).
const OF_ANY_GATEWAY: [&str; 7] = [
    "deployment",
    "horizontalPodAutoscaler",
    "podDisruptionBudget",
    "service",
    "serviceAccount",
    "stats",
    "verticalPodAutoscaler",
];

/// Refuses what only the parameters of a class may say.
fn only_of_class(spec: &Value) -> Result<(), Fault> {
    let mut fields = spec["kube"].as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
    match fields.find(|(field, _)| !OF_ANY_GATEWAY.contains(&field.as_str())) {
        None => Ok(()),
        Some((field, _)) => {
            let message = "is for the GatewayParameters of the GatewayClass alone, by the controller's setting \
                           gatewayParameters.trust; remove it";
            Err(Fault::new(About::GatewayParameters, format!("spec.kube.{field}"), message))
        }
    }
}

/// The `spec` of one of them, of the right shape, without its overlays and without null.
struct Document {
    spec: Value,
    overlays: Vec<Overlay>,
}

impl Document {
    fn read(spec: &Value, about: About) -> Result<Self, Fault> {
        let fault = |path: &str, message: &str| Fault::new(about, check::join("spec", path), message);
        let mut spec = spec.clone();
        let mut overlays = Vec::new();
        if let Some(kube) = spec.get_mut("kube").and_then(Value::as_object_mut) {
            for of in Overlaid::ALL {
                if let Some(patch) = kube.remove(of.property()).filter(|patch| !patch.is_null()) {
                    check_overlay(of, &patch)
                        .map_err(|(path, message)| Fault::new(about, check::join(&of.field(), &path), message))?;
                    overlays.push(Overlay { of, about, patch });
                }
            }
        }
        merge::without_null(&mut spec);
        let shape: Spec = check::decode(&spec).map_err(|(path, message)| fault(&path, &message))?;
        match (shape.kube.is_some(), shape.self_managed.is_some()) {
            (true, true) => Err(fault("selfManaged", "cannot stand beside kube; remove one of them")),
            (false, false) => Err(fault("", "needs kube or selfManaged; set one of them")),
            _ => Ok(Self { spec, overlays }),
        }
    }

    fn is_self_managed(&self) -> bool {
        self.spec.get("selfManaged").is_some()
    }

    fn merged(mut self, gateway: Self) -> Self {
        merge::merge(&mut self.spec, gateway.spec);
        self.overlays.extend(gateway.overlays);
        self
    }
}

/// Overlays have `metadata`, of labels and annotations, and `spec`.
fn check_overlay(of: Overlaid, patch: &Value) -> Result<(), (String, String)> {
    let wrong = |path: &str, message: &str| Err((path.to_owned(), message.to_owned()));
    let Some(patch) = patch.as_object() else { return wrong("", "must be an object") };
    for (name, value) in patch.iter().filter(|(_, value)| !value.is_null()) {
        match name.as_str() {
            "metadata" => {
                let metadata: Metadata =
                    check::decode(value).map_err(|(path, message)| (check::join("metadata", &path), message))?;
                semantics::labels("metadata.labels", &without_none(metadata.labels))?;
                semantics::annotations("metadata.annotations", &without_none(metadata.annotations))?;
            }
            "spec" if !value.is_object() => return wrong("spec", "must be an object"),
            "spec" if of == Overlaid::ServiceAccount && value != &Value::Object(Map::new()) => {
                return wrong("spec", "is nothing that a ServiceAccount has; remove it");
            }
            "spec" => {}
            _ => return wrong(name, "is not known to this version; remove it"),
        }
    }
    Ok(())
}

/// In an overlay, null removes what is there.
fn without_none(map: schema::Removals) -> schema::Texts {
    map.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
}
