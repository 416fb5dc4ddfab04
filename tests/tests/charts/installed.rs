//! What is rendered, in a real API server.

use anyhow::{Context, Result, ensure};
use k8s_openapi::ByteString;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use portcullis_tests::api_server::{ApiServer, Turn};
use portcullis_tests::manifests;
use serde_json::{Value, json};

use crate::helm::{chart, helm_on, objects};

/// The CRDs of the other group, by plural.
const KGATEWAY: [&str; 7] = [
    "backendconfigpolicies",
    "backends",
    "directresponses",
    "gatewayextensions",
    "gatewayparameters",
    "listenerpolicies",
    "trafficpolicies",
];

/// Our own.
const PORTCULLIS: [&str; 2] = ["delegationpolicies", "rewritepolicies"];

#[tokio::test]
async fn every_object_is_taken_with_every_field_of_it() -> Result<()> {
    let server = ApiServer::shared().await?;
    for name in ["portcullis-system", "team-a", "team-b"] {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        server.apply(&manifests::print(&[namespace])?).await?;
    }
    for values in ["default", "everything", "namespaces", "little", "strict"] {
        let mut objects = objects(values)?;
        // The Prometheus Operator's are not known here.
        objects.retain(|object| object["apiVersion"] != "monitoring.coreos.com/v1");
        server.apply(&manifests::print(&objects)?).await.with_context(|| values.to_owned())?;
    }
    Ok(())
}

#[tokio::test]
async fn pods_are_of_the_restricted_standard() -> Result<()> {
    let server = ApiServer::shared().await?;
    let name = server.namespace().await?;
    let labels = json!({"pod-security.kubernetes.io/enforce": "restricted"});
    let metadata = json!({"name": name, "labels": labels});
    server.apply(&manifests::print(&[json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})])?).await?;
    for values in ["default", "everything", "strict"] {
        let deployment = objects(values)?.into_iter().find(|object| object["kind"] == "Deployment");
        let mut pod = deployment.context("no Deployment")?["spec"]["template"].clone();
        pod["apiVersion"] = "v1".into();
        pod["kind"] = "Pod".into();
        pod["metadata"]["name"] = values.into();
        server.apply_in(&name, &manifests::print(&[pod])?).await?;
    }
    Ok(())
}

#[tokio::test]
async fn the_notes_tell_which_definitions_are_missing() -> Result<()> {
    let server = ApiServer::shared().await?;
    let namespace = server.namespace().await?;
    let chart = chart("portcullis");
    let class = format!("gatewayClass.name={namespace}");
    let arguments = ["install", "edge", chart.to_str().context("UTF-8")?, "-n", &namespace, "--set", &class];
    let notes = helm_on(server, &arguments)?;
    ensure!(notes.contains("CRDs of policies are missing (gateway.kgateway.dev)"), "{notes}");
    ensure!(!notes.contains("CRDs of Gateway API are missing"), "{notes}");
    ensure!(notes.contains(&format!("gatewayClassName: {namespace}")), "{notes}");
    ensure!(notes.contains("rollout status deployment/edge-portcullis"), "{notes}");
    Ok(())
}

#[tokio::test]
async fn what_the_controller_keeps_outlives_an_upgrade_and_goes_with_the_release() -> Result<()> {
    let server = ApiServer::shared().await?;
    let namespace = server.namespace().await?;
    let chart = chart("portcullis");
    let helm = |arguments: &[&str]| helm_on(server, &[arguments, &["-n", &namespace]].concat());
    let values = ["portcullis", chart.to_str().context("UTF-8")?, "--set", "gatewayClass.create=false"];
    helm(&[&["install"], &values[..]].concat())?;

    // As the controller does: each of them is there, without anything in it.
    let client = server.client_of(&namespace, "portcullis").await?;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), &namespace);
    let leases: Api<Lease> = Api::namespaced(client, &namespace);
    let mut secret = secrets.get("portcullis-xds-authority").await?;
    ensure!(secret.data.is_none(), "{secret:?}");
    secret.data = Some([("ca.crt".to_owned(), ByteString(b"kept".to_vec()))].into());
    let secret = secrets.replace("portcullis-xds-authority", &PostParams::default(), &secret).await?;
    let held = Patch::Merge(json!({"spec": {"holderIdentity": "somebody"}}));
    let lease = leases.patch("portcullis", &PatchParams::default(), &held).await?;

    helm(&[&["upgrade"], &values[..], &["--set", "replicas=3"]].concat())?;
    ensure!(secrets.get("portcullis-xds-authority").await?.data == secret.data, "the authority is gone");
    ensure!(leases.get("portcullis").await?.spec == lease.spec, "the leader is gone");

    helm(&["uninstall", "portcullis"])?;
    let all = server.client().await?;
    let secrets: Api<Secret> = Api::namespaced(all.clone(), &namespace);
    let leases: Api<Lease> = Api::namespaced(all, &namespace);
    ensure!(secrets.list(&ListParams::default()).await?.items.is_empty(), "a Secret is left");
    ensure!(leases.list(&ListParams::default()).await?.items.is_empty(), "a Lease is left");
    Ok(())
}

/// A cluster without CRDs, and the release of CRDs in it. There is one at a time.
struct Definitions {
    server: Turn,
    /// The namespace of releases.
    namespace: String,
    crds: Api<CustomResourceDefinition>,
}

impl Definitions {
    async fn start() -> Result<Self> {
        let server = ApiServer::without_crds().await?;
        let namespace = server.namespace().await?;
        let crds = Api::all(server.client().await?);
        Ok(Self { server, namespace, crds })
    }

    fn helm(&self, command: &str, sets: &[&str]) -> Result<String> {
        let chart = chart("portcullis-crds");
        let mut arguments = vec![command, "definitions", chart.to_str().context("UTF-8")?, "-n", &self.namespace];
        for set in sets {
            arguments.extend(["--set", set]);
        }
        helm_on(&self.server, &arguments)
    }

    fn uninstall(&self) -> Result<String> {
        helm_on(&self.server, &["uninstall", "definitions", "-n", &self.namespace])
    }

    async fn there(&self, plural: &str) -> Result<Option<CustomResourceDefinition>> {
        let group = if PORTCULLIS.contains(&plural) { "gateway.portcullis.dev" } else { "gateway.kgateway.dev" };
        Ok(self.crds.get_opt(&format!("{plural}.{group}")).await?)
    }

    /// The release that has the CRD; none if no release has.
    async fn owner(&self, plural: &str) -> Result<Option<String>> {
        let crd = self.there(plural).await?.with_context(|| format!("no {plural}"))?;
        Ok(crd.metadata.annotations.and_then(|all| all.get("meta.helm.sh/release-name").cloned()))
    }

    /// Makes one as somebody else would who does not use helm.
    async fn made_by_somebody(&self, plural: &str) -> Result<CustomResourceDefinition> {
        let file = chart("portcullis-crds").join(format!("files/gateway.kgateway.dev_{plural}.yaml"));
        let mut crd = manifests::parse(&std::fs::read_to_string(file)?)?;
        crd[0]["metadata"]["labels"] = json!({"example.com/by": "somebody"});
        self.server.apply(&manifests::print(&crd)?).await?;
        self.there(plural).await?.context("not there")
    }
}

#[tokio::test]
async fn a_definition_of_another_group_that_is_there_is_left_alone() -> Result<()> {
    let cluster = Definitions::start().await?;
    let before = cluster.made_by_somebody("directresponses").await?;

    let notes = cluster.helm("install", &[])?;
    ensure!(notes.contains("directresponses.gateway.kgateway.dev was there already"), "{notes}");
    ensure!(notes.contains("trafficpolicies.gateway.kgateway.dev is installed"), "{notes}");
    cluster.helm("upgrade", &[])?;
    cluster.uninstall()?;

    let after = cluster.there("directresponses").await?.context("deleted")?;
    ensure!(after.metadata.labels == before.metadata.labels, "{:?}", after.metadata.labels);
    ensure!(after.metadata.annotations == before.metadata.annotations, "{:?}", after.metadata.annotations);
    ensure!(after.spec == before.spec, "changed");
    Ok(())
}

#[tokio::test]
async fn definitions_are_upgraded_with_their_release_and_outlive_it() -> Result<()> {
    let cluster = Definitions::start().await?;
    cluster.helm("install", &[])?;
    for plural in KGATEWAY.iter().chain(&PORTCULLIS) {
        let all = &cluster.crds;
        let name = cluster.there(plural).await?.and_then(|crd| crd.metadata.name).context("not there")?;
        let accepted = |crd: Option<&CustomResourceDefinition>| {
            let conditions = crd.and_then(|crd| crd.status.as_ref()?.conditions.as_ref());
            conditions.is_some_and(|all| all.iter().any(|c| c.type_ == "Established" && c.status == "True"))
        };
        cluster.server.wait_for(all, &name, portcullis_tests::wait::TIMEOUT, accepted).await?;
    }

    // An upgrade sees that they are its own, and renders them again.
    cluster.helm("upgrade", &[])?;
    let manifest = helm_on(&cluster.server, &["get", "manifest", "definitions", "-n", &cluster.namespace])?;
    let rendered = manifests::parse(&manifest)?.into_iter().filter(Value::is_object).count();
    ensure!(rendered == KGATEWAY.len() + PORTCULLIS.len(), "{rendered} are rendered");

    // Those of the other group can be handed over, and taken back.
    cluster.helm("upgrade", &["kgateway.install=false"])?;
    ensure!(cluster.owner("trafficpolicies").await?.as_deref() == Some("definitions"));
    cluster.helm("upgrade", &["kgateway.install=true"])?;

    cluster.uninstall()?;
    for plural in KGATEWAY.iter().chain(&PORTCULLIS) {
        ensure!(cluster.there(plural).await?.is_some(), "{plural} has gone with its release, and all objects with it");
    }
    cluster.helm("install", &[])?;

    // No field is one that an API server prunes.
    let files = std::fs::read_dir(chart("portcullis-crds").join("files"))?;
    for file in files {
        let file = file?.path();
        cluster.server.apply(&std::fs::read_to_string(&file)?).await.with_context(|| file.display().to_string())?;
    }
    Ok(())
}

#[tokio::test]
async fn definitions_go_with_their_release_where_that_is_asked_for() -> Result<()> {
    let cluster = Definitions::start().await?;
    cluster.helm("install", &["keep=false"])?;
    cluster.uninstall()?;
    for plural in KGATEWAY.iter().chain(&PORTCULLIS) {
        let crd = cluster.there(plural).await?;
        ensure!(crd.is_none_or(|crd| crd.metadata.deletion_timestamp.is_some()), "{plural} is there");
    }
    Ok(())
}

#[tokio::test]
async fn the_controller_s_chart_is_refused_where_gateway_api_is_missing_and_a_class_is_to_be_made() -> Result<()> {
    let cluster = Definitions::start().await?;
    let chart = chart("portcullis");
    let install = ["install", "portcullis", chart.to_str().context("UTF-8")?, "-n", &cluster.namespace];
    let error = helm_on(&cluster.server, &install).err().context("installed")?.to_string();
    ensure!(error.contains("GatewayClass") && error.contains("ensure CRDs are installed first"), "{error}");

    // Without a class the controller waits for them.
    let notes = helm_on(&cluster.server, &[&install[..], &["--set", "gatewayClass.create=false"]].concat())?;
    ensure!(notes.contains("CRDs of Gateway API are missing"), "{notes}");
    Ok(())
}
