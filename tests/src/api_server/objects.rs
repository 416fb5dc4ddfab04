//! Objects in, and waiting for what becomes of them.

use std::ffi::OsStr;
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::{Scope, pinned_kind};
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::ApiServer;
use crate::manifests;
use crate::process::root;
use crate::wait::{TIMEOUT, eventually};

/// The release of Gateway API whose CRDs are used.
const GATEWAY_API: &str = "sigs.k8s.io/gateway-api@v1.6.1";

/// Who applies: the field manager of what tests write.
const MANAGER: &str = "tests";

/// One of the two sets of CRDs of Gateway API. A server takes the experimental ones only where there were none before.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Channel {
    /// What is stable; fields that are not are pruned.
    Standard,
    /// Everything.
    Experimental,
}

impl ApiServer {
    /// Applies the documents of `yaml`, of any kind, on the server's side, as `kubectl apply --server-side` does. What is
    /// namespaced and names no namespace goes to `default`. A field that the schema does not know is refused, where a
    /// plain create would have it pruned.
    pub async fn apply(&self, yaml: &str) -> Result<Vec<DynamicObject>> {
        self.apply_in("default", yaml).await
    }

    /// The same with the namespace of what names none.
    pub async fn apply_in(&self, namespace: &str, yaml: &str) -> Result<Vec<DynamicObject>> {
        let client = self.client().await?;
        let mut applied = Vec::new();
        for document in manifests::parse(yaml)? {
            let object: DynamicObject = serde_json::from_value(document)?;
            let name = object.metadata.name.clone().context("an object without a name")?;
            let api = api_of(&client, &object, namespace).await?;
            let object = api.patch(&name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(&object)).await;
            applied.push(object.with_context(|| format!("cannot apply {name}"))?);
        }
        Ok(applied)
    }

    /// Applies the CRDs of Gateway API and our own, and waits until they are served.
    pub async fn apply_crds(&self, channel: Channel) -> Result<()> {
        let gateway_api = gateway_api_folder()?.join("config/crd").join(match channel {
            Channel::Standard => "standard",
            Channel::Experimental => "experimental",
        });
        let mut names = Vec::new();
        for folder in [gateway_api, root().join("crds")] {
            for file in yaml_files(&folder)? {
                let applied = self.apply(&std::fs::read_to_string(&file)?).await;
                let applied = applied.with_context(|| file.display().to_string())?;
                let crds = applied.into_iter().filter(|object| {
                    object.types.as_ref().is_some_and(|types| types.kind == "CustomResourceDefinition")
                });
                names.extend(crds.filter_map(|crd| crd.metadata.name));
            }
        }
        ensure!(!names.is_empty(), "no CRDs");
        let crds: Api<CustomResourceDefinition> = Api::all(self.client().await?);
        for name in names {
            self.wait_for(&crds, &name, TIMEOUT, |crd| crd.is_some_and(established)).await?;
        }
        Ok(())
    }

    /// Waits until `condition` holds for the object of that name, which is `None` while it does not exist, and gives the
    /// object then. After `bound` it fails with what the object is like.
    pub async fn wait_for<K>(
        &self,
        api: &Api<K>,
        name: &str,
        bound: Duration,
        condition: impl Fn(Option<&K>) -> bool,
    ) -> Result<Option<K>>
    where
        K: Clone + Debug + DeserializeOwned,
    {
        let attempt = async || {
            let object = api.get_opt(name).await?;
            if condition(object.as_ref()) { Ok(object) } else { Err(anyhow!("{name} is {object:#?}")) }
        };
        eventually(bound, attempt).await.with_context(|| format!("waited {bound:?} for {name}"))
    }
}

fn established(crd: &CustomResourceDefinition) -> bool {
    let conditions = crd.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Established" && condition.status == "True")
}

/// Where an object of that kind is read and written.
async fn api_of(client: &Client, object: &DynamicObject, namespace: &str) -> Result<Api<DynamicObject>> {
    let types = object.types.as_ref().context("an object without a kind")?;
    let kind = GroupVersionKind::try_from(types)?;
    // A CRD that was applied a moment ago is not known at once.
    let found = eventually(TIMEOUT, async || pinned_kind(client, &kind).await).await;
    let (resource, capabilities) = found.with_context(|| format!("no kind {} {}", types.api_version, types.kind))?;
    Ok(match capabilities.scope {
        Scope::Cluster => Api::all_with(client.clone(), &resource),
        Scope::Namespaced => {
            let namespace = object.metadata.namespace.as_deref().unwrap_or(namespace);
            Api::namespaced_with(client.clone(), namespace, &resource)
        }
    })
}

/// A CRD whose schema lets everything through.
pub fn loose_crd(group: &str, version: &str, plural: &str, kind: &str) -> String {
    let singular = kind.to_lowercase();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.{group}") },
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": { "plural": plural, "singular": singular, "kind": kind, "listKind": format!("{kind}List") },
            "versions": [{
                "name": version, "served": true, "storage": true, "subresources": { "status": {} },
                "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
            }],
        },
    })
    .to_string()
}

/// CRDs of all kinds of kgateway that are read, such.
pub fn kgateway_crds() -> String {
    let kinds = [
        ("trafficpolicies", "TrafficPolicy"),
        ("directresponses", "DirectResponse"),
        ("backends", "Backend"),
        ("backendconfigpolicies", "BackendConfigPolicy"),
        ("listenerpolicies", "ListenerPolicy"),
        ("gatewayextensions", "GatewayExtension"),
        ("gatewayparameters", "GatewayParameters"),
    ];
    kinds.map(|(plural, kind)| loose_crd("gateway.kgateway.dev", "v1alpha1", plural, kind)).join("\n---\n")
}

/// The manifests of a folder, in order. kustomize's file is none.
fn yaml_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut files = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    let yaml = |file: &PathBuf| file.extension() == Some(OsStr::new("yaml"));
    files.retain(|file| yaml(file) && file.file_stem() != Some(OsStr::new("kustomization")));
    files.sort();
    Ok(files)
}

/// The folder of Gateway API's release: `GATEWAY_API_DIR` if set, else what `go mod download` says.
pub fn gateway_api_folder() -> Result<PathBuf> {
    static FOLDER: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    if let Some(folder) = std::env::var_os("GATEWAY_API_DIR") {
        return Ok(folder.into());
    }
    let found = FOLDER.get_or_init(|| download(GATEWAY_API).map_err(|error| format!("{error:#}")));
    found.clone().map_err(anyhow::Error::msg)
}

fn download(module: &str) -> Result<PathBuf> {
    let output = Command::new("go")
        .args(["mod", "download", "-json", module])
        .current_dir(std::env::temp_dir())
        .output()
        .context("go must be installed, or GATEWAY_API_DIR must name a checkout of Gateway API")?;
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let folder = answer.get("Dir").and_then(Value::as_str);
    let errors = String::from_utf8_lossy(&output.stderr);
    Ok(folder.with_context(|| format!("{module} cannot be downloaded: {answer} {errors}"))?.into())
}
