//! A namespace with a Gateway, a route that works and one that is broken.

use std::ffi::OsStr;
use std::path::PathBuf;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use portcullis_tests::api_server::ApiServer;
use portcullis_tests::portcullis::Portcullis;
use portcullis_tests::process::portcullis_binary;
use serde_json::json;

const CLASS: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: portcullis}
spec: {controllerName: portcullis.dev/gateway-controller}
";

const OBJECTS: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: edge}
spec:
  gatewayClassName: portcullis
  listeners: [{name: http, port: 80, protocol: HTTP}]
---
apiVersion: v1
kind: Service
metadata: {name: app}
spec: {ports: [{port: 80}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: whole}
spec:
  parentRefs: [{name: edge}]
  rules:
  - matches: [{path: {type: PathPrefix, value: /whole}}]
    backendRefs: [{name: app, port: 80}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: broken}
spec:
  parentRefs: [{name: edge}]
  rules:
  - matches: [{path: {type: PathPrefix, value: /broken}}]
    backendRefs: [{name: gone, port: 80}]
";

/// The pod that a controller of these tests takes itself for.
pub(crate) const LEADER: &str = "leader";

/// What became of a command.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Runs a command to its end, with no cluster at hand but the one that is named.
pub(crate) async fn text<S: AsRef<OsStr>>(arguments: &[S]) -> Result<Told> {
    let mut command = tokio::process::Command::new(portcullis_binary()?);
    let nowhere = tempfile::tempdir()?;
    command.args(arguments).env_remove("KUBECONFIG").env_remove("KUBERNETES_SERVICE_HOST").env("HOME", nowhere.path());
    let output = command.output().await?;
    Ok(Told {
        code: output.status.code().context("it was killed")?,
        out: String::from_utf8(output.stdout)?,
        err: String::from_utf8(output.stderr)?,
    })
}

pub(crate) struct World {
    pub(crate) api: &'static ApiServer,
    pub(crate) namespace: String,
}

impl World {
    pub(crate) async fn new() -> Result<Self> {
        let api = ApiServer::shared().await?;
        let namespace = api.namespace().await?;
        api.apply(CLASS).await?;
        api.apply_in(&namespace, OBJECTS).await?;
        Ok(Self { api, namespace })
    }

    /// Asks with an administrator's kubeconfig.
    pub(crate) async fn ask(&self, arguments: &[&str]) -> Result<Told> {
        let kubeconfig = self.api.kubeconfig();
        text(&[arguments, &["--kubeconfig", &kubeconfig.to_string_lossy()]].concat()).await
    }

    /// Asks what the API server holds.
    pub(crate) async fn held(&self, arguments: &[&str]) -> Result<Told> {
        self.ask(&[arguments, &["--from", "api-server"]].concat()).await
    }

    /// A controller of this namespace, which has read everything, and can watch all of it.
    pub(crate) async fn controller(&self) -> Result<Portcullis> {
        let arguments = ["--deploy-proxies", "false", "--watch-namespaces", &self.namespace, "--identity", LEADER];
        let mut controller = Portcullis::start_in_cluster(&self.api.kubeconfig(), &self.namespace, &arguments)?;
        controller.wait_until_ready().await?;
        controller.wait_until_fresh().await?;
        Ok(controller)
    }

    /// A pod, which nobody runs, as the controller's are but for its labels unless it is `labelled`.
    pub(crate) async fn pod(&self, name: &str, labelled: bool) -> Result<()> {
        let label = if labelled { "{app.kubernetes.io/name: portcullis}" } else { "{}" };
        let pod = format!(
            "apiVersion: v1\n\
             kind: Pod\n\
             metadata: {{name: {name}, labels: {label}}}\n\
             spec:\n\
             \x20 nodeName: nowhere\n\
             \x20 containers: [{{name: portcullis, image: portcullis, args: [run, --admin-address=127.0.0.1:9979]}}]\n"
        );
        self.api.apply_in(&self.namespace, &pod).await?;
        Ok(())
    }

    /// Has a pod say that it is ready.
    pub(crate) async fn ready(&self, pod: &str) -> Result<()> {
        let pods: Api<Pod> = Api::namespaced(self.api.client().await?, &self.namespace);
        let ready = json!({ "status": { "conditions": [{ "type": "Ready", "status": "True" }] } });
        pods.patch_status(pod, &PatchParams::default(), &Patch::Strategic(ready)).await?;
        Ok(())
    }

    /// The kubeconfig of somebody who has no rights.
    pub(crate) async fn stranger(&self) -> Result<PathBuf> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.api.client().await?, &self.namespace);
        let mut account = ServiceAccount::default();
        account.metadata.name = Some("stranger".to_owned());
        accounts.create(&PostParams::default(), &account).await?;
        self.api.kubeconfig_of(&self.namespace, "stranger").await
    }
}
