//! A release of the chart, whose controller runs here: as its account, with its rights, its arguments and its settings.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use portcullis_tests::api_server::{ApiServer, Middleman};
use portcullis_tests::portcullis::Portcullis;

use super::world::{Replica, World};
use crate::helm::{chart, helm_on};

/// What the chart calls everything.
const NAME: &str = "portcullis";

/// What is different where pods do not run: addresses, and where files are.
const OURS: [&str; 5] = ["--config", "--xds-address", "--xds-service", "--metrics-address", "--admin-address"];

/// A release in a namespace of its own, with a class that is called as that.
pub(crate) struct Release<'a> {
    api: &'a ApiServer,
    pub(crate) home: String,
    folder: tempfile::TempDir,
    arguments: Vec<String>,
}

impl<'a> Release<'a> {
    /// Installs the chart; for these namespaces, if there are any.
    pub(crate) async fn install(api: &'a ApiServer, namespaces: &[&str]) -> Result<Self> {
        let home = api.namespace().await?;
        let mut values = vec![
            format!("controllerName=portcullis.dev/{home}"),
            format!("gatewayClass.name={home}"),
            "networkPolicy.enabled=false".to_owned(),
        ];
        if !namespaces.is_empty() {
            values.push(format!("watchNamespaces={{{}}}", namespaces.join(",")));
        }
        let chart = chart("portcullis");
        let mut install = vec!["install", NAME, chart.to_str().context("UTF-8")?, "--namespace", &home];
        install.extend(values.iter().flat_map(|value| ["--set", value]));
        helm_on(api, &install)?;

        let client = api.client().await?;
        let settings = Api::<ConfigMap>::namespaced(client.clone(), &home).get(NAME).await?;
        let settings = settings.data.unwrap_or_default().remove("settings.yaml").context("no settings")?;
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("settings.yaml");
        std::fs::write(&file, settings)?;
        let deployment = Api::<Deployment>::namespaced(client, &home).get(NAME).await?;
        let pod = deployment.spec.and_then(|spec| spec.template.spec).context("no pod")?;
        let written = pod.containers.into_iter().next().and_then(|container| container.args).context("no arguments")?;
        ensure!(written.first().is_some_and(|first| first == "run"), "{written:?}");
        let ours = |argument: &String| OURS.iter().any(|name| argument.starts_with(&format!("{name}=")));
        let mut arguments: Vec<_> = written.into_iter().skip(1).filter(|argument| !ours(argument)).collect();
        arguments.extend(["--xds-service=localhost:1".to_owned(), format!("--config={}", file.display())]);
        Ok(Self { api, home, folder, arguments })
    }

    /// Starts the controller, for what is in `namespace`.
    pub(crate) async fn start(&self, namespace: &str) -> Result<World<'a>> {
        ensure!(self.folder.path().exists(), "the settings are gone");
        let way = Middleman::start(self.api).await?;
        let kubeconfig = self.api.kubeconfig_by(&way, &self.home, NAME).await?;
        let arguments: Vec<_> = self.arguments.iter().map(String::as_str).collect();
        let mut portcullis = Portcullis::start_in_cluster(&kubeconfig, &self.home, &arguments)?;
        portcullis.wait_until_ready().await?;
        let replica = Replica { portcullis, way };
        Ok(World {
            api: self.api,
            name: namespace.to_owned(),
            class: self.home.clone(),
            replica,
            deploys: true,
            keeps: false,
        })
    }
}
