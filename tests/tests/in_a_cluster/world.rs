//! A controller with an API server behind it, and proxies before it.

use anyhow::{Context as _, Result, ensure};
use cluster::identity::tokens::AUDIENCE;
use ir::NsName;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, PostParams};
use portcullis_tests::api_server::ApiServer;
use portcullis_tests::client::{self, Request, Target};
use portcullis_tests::envoy::Envoy;
use portcullis_tests::portcullis::Portcullis;
use portcullis_tests::ports::free_port;
use portcullis_tests::wait::{TIMEOUT, eventually};
use serde_json::Value;

use crate::mount::Mount;
use crate::proxy::launch;

pub(crate) struct World<'a> {
    pub(crate) api: &'a ApiServer,
    pub(crate) namespace: String,
    pub(crate) portcullis: Portcullis,
    port: u16,
    deploys: bool,
}

impl<'a> World<'a> {
    /// A controller of a class and a namespace of its own, that leaves it to others to run proxies.
    pub(crate) async fn new(api: &'a ApiServer) -> Result<World<'a>> {
        Self::with(api, false).await
    }

    /// One that makes the objects that run proxies. Nothing runs them, for there are no controllers of Kubernetes here.
    pub(crate) async fn deploying(api: &'a ApiServer) -> Result<World<'a>> {
        Self::with(api, true).await
    }

    async fn with(api: &'a ApiServer, deploys: bool) -> Result<World<'a>> {
        let namespace = api.namespace().await?;
        let class = format!(
            "apiVersion: gateway.networking.k8s.io/v1\n\
             kind: GatewayClass\n\
             metadata: {{name: {namespace}}}\n\
             spec: {{controllerName: portcullis.dev/{namespace}}}\n"
        );
        api.apply(&class).await?;
        let controller = format!("portcullis.dev/{namespace}");
        let arguments = [
            "--xds-service",
            "localhost:1",
            "--deploy-proxies",
            if deploys { "true" } else { "false" },
            "--controller-name",
            &controller,
            "--watch-namespaces",
            &namespace,
        ];
        let mut portcullis = Portcullis::start_in_cluster(&api.kubeconfig(), &namespace, &arguments)?;
        portcullis.wait_until_ready().await?;
        Ok(Self { api, namespace, portcullis, port: free_port()?, deploys })
    }

    pub(crate) async fn apply(&self, yaml: &str) -> Result<()> {
        self.api.apply_in(&self.namespace, yaml).await?;
        Ok(())
    }

    /// A Gateway with one listener, and the `ServiceAccount` of its proxies if nobody else makes it.
    pub(crate) async fn apply_gateway(&self, name: &str) -> Result<()> {
        if !self.deploys {
            let mut account = ServiceAccount::default();
            account.metadata.name = Some(format!("{name}-{}", self.namespace));
            let accounts: Api<ServiceAccount> = Api::namespaced(self.api.client().await?, &self.namespace);
            accounts.create(&PostParams::default(), &account).await?;
        }
        let (class, port) = (&self.namespace, self.port);
        self.apply(&format!(
            "apiVersion: gateway.networking.k8s.io/v1\n\
             kind: Gateway\n\
             metadata: {{name: {name}}}\n\
             spec:\n\
             \x20 gatewayClassName: {class}\n\
             \x20 listeners: [{{name: http, port: {port}, protocol: HTTP}}]\n"
        ))
        .await
    }

    #[expect(clippy::unused_self, reason = "it reads well beside apply")]
    pub(crate) fn answering_route(&self, name: &str, gateway: &str, path: &str, status: u16) -> String {
        answering_route(name, gateway, path, status)
    }

    fn objects(&self, client: kube::Client, kind: &str) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("gateway.networking.k8s.io", "v1", kind);
        Api::namespaced_with(client, &self.namespace, &ApiResource::from_gvk(&kind))
    }

    pub(crate) async fn delete(&self, kind: &str, name: &str) -> Result<()> {
        self.objects(self.api.client().await?, kind).delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// The second since 1970 in which an object was made.
    #[allow(dead_code, reason = "not every suite asks for it")]
    pub(crate) async fn created(&self, kind: &str, name: &str) -> Result<i64> {
        let object = self.objects(self.api.client().await?, kind).get(name).await?;
        let created = object.metadata.creation_timestamp.context("it is not there yet")?;
        Ok(created.0.as_second())
    }

    /// Waits until the status of an object is as wanted.
    pub(crate) async fn says(&self, kind: &str, name: &str, wanted: impl Fn(&Value) -> bool) -> Result<()> {
        let objects = self.objects(self.api.client().await?, kind);
        eventually(TIMEOUT, async || {
            let object = objects.get(name).await?;
            let status = &object.data["status"];
            ensure!(wanted(status), "{kind} {name} says {status:#}\n{}", self.portcullis.log_tail());
            anyhow::Ok(())
        })
        .await
    }

    /// An Envoy that is a proxy of the Gateway.
    pub(crate) async fn proxy(&self, gateway: &str) -> Result<Proxy> {
        let token = self.api.token(&self.namespace, &format!("{gateway}-{}", self.namespace), &[AUDIENCE]).await?;
        let folder = tempfile::tempdir()?;
        let token = Mount::new(folder.path().join("token"), &[("token", &token)])?.file("token");
        let gateway = NsName::new(self.namespace.as_str(), gateway);
        let (envoy, mounted) =
            launch(self.api, &self.namespace, &gateway, token, self.portcullis.xds_address()).await?;
        Ok(Proxy { envoy, target: Target::local(self.port), _folders: [folder, mounted] })
    }
}

/// A route that answers by itself: with a redirect, told apart by its status.
pub(crate) fn answering_route(name: &str, gateway: &str, path: &str, status: u16) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\n\
         kind: HTTPRoute\n\
         metadata: {{name: {name}}}\n\
         spec:\n\
         \x20 parentRefs: [{{name: {gateway}}}]\n\
         \x20 rules:\n\
         \x20 - matches: [{{path: {{type: PathPrefix, value: {path}}}}}]\n\
         \x20   filters:\n\
         \x20   - type: RequestRedirect\n\
         \x20     requestRedirect: {{hostname: elsewhere.example, statusCode: {status}}}\n"
    )
}

/// The status of the condition of this type.
pub(crate) fn condition<'a>(conditions: &'a Value, r#type: &str) -> Option<&'a str> {
    let condition = conditions.as_array()?.iter().find(|condition| condition["type"] == r#type)?;
    condition["status"].as_str()
}

/// A real Envoy with what is mounted into it.
pub(crate) struct Proxy {
    envoy: Envoy,
    target: Target,
    _folders: [tempfile::TempDir; 2],
}

impl Proxy {
    /// Waits until a request is answered with this status.
    pub(crate) async fn answers(&self, path: &str, status: u16) -> Result<()> {
        eventually(TIMEOUT, async || {
            let answer = client::send(&self.target, &Request::get("localhost", path)).await?;
            ensure!(answer.status == status, "{path} answers {}\n{}", answer.status, self.envoy.log_tail());
            anyhow::Ok(())
        })
        .await
    }
}
