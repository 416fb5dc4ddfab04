//! What the CustomResourceDefinitions of a cluster lack.
//!
//! An API server drops what the schema of a definition does not know before any controller sees it, so that no status of
//! the object can report it. Definitions of Gateway API and of kgateway may be anybody's, and old, or of the standard channel.

mod fields;

use std::{fmt, time::Duration};

use api::{
    Kind,
    group::{KGATEWAY_GROUP, PORTCULLIS_GROUP},
};
use kube::{Client, core::Request};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::timeout;

use super::probe::Refusal;

/// Who must act on what is of the cluster.
pub(super) const ADMINISTRATOR: &str = "an administrator of the cluster";

/// A definition that is not there, or lacks fields that are read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct IncompleteDefinition {
    /// The definition.
    pub name: String,
    /// The kind that it defines.
    pub kind: String,
    /// The release in its annotations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release: Option<String>,
    /// The channel of Gateway API in its annotations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// Why objects of the kind are not read at all; none if they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unserved: Option<String>,
    /// The fields that are dropped, with all below them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<String>,
    /// Who must act.
    pub actor: String,
    /// What to do.
    pub remedy: String,
}

impl IncompleteDefinition {
    /// Whether nothing can be served without it. Policies may be missing, and fields that no object sets.
    pub fn is_vital(&self) -> bool {
        self.unserved.is_some() && self.name.ends_with(api::group::GROUP)
    }
}

impl fmt::Display for IncompleteDefinition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let versions =
            self.release.iter().cloned().chain(self.channel.iter().map(|channel| format!("{channel} channel")));
        let versions = versions.collect::<Vec<_>>().join(", ");
        let versions = if versions.is_empty() { versions } else { format!(" ({versions})") };
        let duty = if self.is_vital() { "must" } else { "may" };
        writeln!(f, "CustomResourceDefinition {}{versions}: {} {duty} act", self.name, self.actor)?;
        if let Some(why) = &self.unserved {
            writeln!(f, "  no {} is read: {why}: {}", self.kind, self.remedy)?;
        }
        if !self.fields.is_empty() {
            let fields = self.fields.join(", ");
            writeln!(f, "  dropped from every {} before anybody sees it: {fields}: {}", self.kind, self.remedy)?;
        }
        Ok(())
    }
}

/// Reads the definitions of the kinds that are read and gives those that lack something, or why they cannot be read.
pub async fn lacking(client: &Client, request_timeout: Duration) -> Result<Vec<IncompleteDefinition>, String> {
    let mut found = Vec::new();
    for kind in Kind::ALL.iter().filter(|kind| !kind.is_built_in()) {
        let url = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{}", name(*kind));
        let request = http_get(&url).ok_or("cannot write a request")?;
        let definition = match timeout(request_timeout, client.request::<Value>(request)).await {
            Ok(Ok(definition)) => Some(definition),
            Ok(Err(error)) => match Refusal::of(&error) {
                Refusal::NotFound(_) => None,
                _ => return Err(super::words(&error)),
            },
            Err(_) => return Err("the API server does not answer in time".to_owned()),
        };
        found.extend(compare(*kind, definition.as_ref()));
    }
    Ok(found)
}

fn http_get(url: &str) -> Option<axum::http::Request<Vec<u8>>> {
    // `get` of a resource of this URL would add a name below it.
    Request::new(url).list(&kube::api::ListParams::default()).ok()
}

fn name(kind: Kind) -> String {
    format!("{}.{}", kind.plural(), kind.group())
}

/// What the definition of a kind lacks; none where it is not there.
pub fn compare(kind: Kind, definition: Option<&Value>) -> Option<IncompleteDefinition> {
    let annotation = |name: &str| Some(definition?["metadata"]["annotations"][name].as_str()?.to_owned());
    let channel = annotation("gateway.networking.k8s.io/channel");
    let mut lacking = IncompleteDefinition {
        name: name(kind),
        kind: kind.as_str().to_owned(),
        release: annotation("gateway.networking.k8s.io/bundle-version"),
        actor: ADMINISTRATOR.to_owned(),
        remedy: remedy(kind, definition.is_some(), channel.as_deref()).to_owned(),
        channel,
        ..IncompleteDefinition::default()
    };
    let Some(definition) = definition else {
        lacking.unserved = Some("it is not installed".to_owned());
        return Some(lacking);
    };
    let versions = definition["spec"]["versions"].as_array().map_or(&[][..], Vec::as_slice);
    let served = |name: &&str| versions.iter().find(|version| version["name"] == **name && version["served"] == true);
    // The first that is served is the one that is watched.
    let Some(version) = kind.versions().iter().find_map(served) else {
        lacking.unserved = Some(format!("no version is served that is understood ({})", kind.versions().join(", ")));
        return Some(lacking);
    };
    if definition["spec"]["preserveUnknownFields"] == true {
        return None;
    }
    let schema = &version["schema"]["openAPIV3Schema"];
    let mut missing: Vec<_> = fields::read(kind).iter().filter_map(|path| dropped(schema, path)).collect();
    missing.sort();
    missing.dedup();
    lacking.fields = missing;
    (!lacking.fields.is_empty()).then_some(lacking)
}

/// The part of a path, such as `spec.rules[].name`, that a schema does not know; none if it knows all of it.
fn dropped(schema: &Value, path: &str) -> Option<String> {
    let mut schema = schema;
    let mut known = 0;
    for segment in path.split('.') {
        known += segment.len() + usize::from(known > 0);
        if schema["x-kubernetes-preserve-unknown-fields"] == true || schema.get("additionalProperties").is_some() {
            return None;
        }
        let name = segment.trim_end_matches("[]");
        let Some(property) = schema["properties"].get(name) else {
            return Some(path[..known].trim_end_matches("[]").to_owned());
        };
        schema = if name == segment { property } else { &property["items"] };
    }
    None
}

fn remedy(kind: Kind, installed: bool, channel: Option<&str>) -> &'static str {
    match (kind.group(), channel) {
        (KGATEWAY_GROUP, _) if installed => "if somebody uses them, upgrade whatever installed the definition",
        (KGATEWAY_GROUP, _) => {
            "if somebody wants it, helm upgrade --install portcullis-crds charts/portcullis-crds brings it"
        }
        (PORTCULLIS_GROUP, _) => {
            "helm upgrade --install portcullis-crds charts/portcullis-crds, or portcullis crds | kubectl apply --server-side -f -"
        }
        (_, Some("standard")) => {
            "if somebody uses them, install the experimental channel of Gateway API v1.6.1, for which the \
             ValidatingAdmissionPolicy safe-upgrades.gateway.networking.k8s.io must go first: kubectl apply --server-side -f \
             https://github.com/kubernetes-sigs/gateway-api/releases/download/v1.6.1/experimental-install.yaml"
        }
        _ => {
            "install Gateway API v1.6.1: kubectl apply --server-side -f \
             https://github.com/kubernetes-sigs/gateway-api/releases/download/v1.6.1/experimental-install.yaml"
        }
    }
}

#[cfg(test)]
mod tests;
