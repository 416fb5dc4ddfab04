//! A controller whose way to its API server can be disturbed, and a Gateway of it that has traffic all the time.

use std::net::SocketAddr;

use anyhow::{Context, Result, bail, ensure};
use cluster::identity::tokens::AUDIENCE;
use ir::NsName;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, PostParams};
use portcullis_tests::api_server::{ApiServer, Middleman};
use portcullis_tests::client::{self, Request, Target};
use portcullis_tests::echo::Echo;
use portcullis_tests::envoy::Envoy;
use portcullis_tests::portcullis::Portcullis;
use portcullis_tests::ports::{free_port, own_address};
use portcullis_tests::wait::{TIMEOUT, eventually};
use serde_json::Value;

use super::objects::{class, gateway, http, route, service};
use super::traffic::Traffic;
use crate::mount::Mount;
use crate::proxy::launch;

/// The account of controllers, who may do everything.
const CONTROLLER: &str = "controller";

/// A replica of the controller, and how it reaches its API server.
pub(crate) struct Replica {
    pub(crate) portcullis: Portcullis,
    pub(crate) way: Middleman,
}

impl Replica {
    /// Waits until the controller says that it is ready, and this.
    pub(crate) async fn is_ready_and_says(&self, words: &str) -> Result<()> {
        eventually(TIMEOUT, async || {
            let ready = self.portcullis.admin("/readyz").await?;
            let said = if words.is_empty() { ready.body == "ready\n" } else { ready.body.contains(words) };
            ensure!(ready.status == 200 && said, "{} {}", ready.status, ready.body);
            anyhow::Ok(())
        })
        .await
    }

    /// Waits until a metric has this value.
    pub(crate) async fn counts(&self, series: &str, wanted: impl Fn(f64) -> bool) -> Result<()> {
        eventually(TIMEOUT, async || {
            let value = self.portcullis.metric(series).await?;
            ensure!(value.is_some_and(&wanted), "{series} is {value:?}");
            anyhow::Ok(())
        })
        .await
        .with_context(|| self.portcullis.log_tail())
    }
}

/// A class, a namespace with Gateways of it, and a controller for them.
pub(crate) struct World<'a> {
    pub(crate) api: &'a ApiServer,
    /// The namespace of what is applied.
    pub(crate) name: String,
    /// The class, which is called as the namespace of the controller: mostly the same.
    pub(crate) class: String,
    pub(crate) replica: Replica,
    /// Whether the controller makes the objects that run proxies.
    pub(crate) deploys: bool,
    /// Whether replicas that are started have trees keep their last good version.
    pub(crate) keeps: bool,
}

impl<'a> World<'a> {
    pub(crate) async fn new(api: &'a ApiServer) -> Result<World<'a>> {
        Self::watching(api, &[]).await
    }

    /// One where trees keep their last good version.
    pub(crate) async fn keeping(api: &'a ApiServer) -> Result<World<'a>> {
        Self::start(api, &[], &[], true).await
    }

    /// One that watches further namespaces.
    pub(crate) async fn watching(api: &'a ApiServer, namespaces: &[&str]) -> Result<World<'a>> {
        Self::with(api, namespaces, &[]).await
    }

    /// The same, whose controller has further arguments.
    pub(crate) async fn with(api: &'a ApiServer, namespaces: &[&str], more: &[&str]) -> Result<World<'a>> {
        Self::start(api, namespaces, more, false).await
    }

    async fn start(api: &'a ApiServer, namespaces: &[&str], more: &[&str], keeps: bool) -> Result<World<'a>> {
        let name = api.namespace().await?;
        let binding = format!(
            "apiVersion: rbac.authorization.k8s.io/v1\n\
             kind: ClusterRoleBinding\n\
             metadata: {{name: {name}}}\n\
             roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}}\n\
             subjects: [{{kind: ServiceAccount, namespace: {name}, name: {CONTROLLER}}}]\n"
        );
        api.apply(&binding).await?;
        let account = format!("apiVersion: v1\nkind: ServiceAccount\nmetadata: {{name: {CONTROLLER}}}\n");
        api.apply_in(&name, &account).await?;
        api.apply(&class(&name, &format!("portcullis.dev/{name}"))).await?;
        let namespaces: Vec<_> = namespaces.iter().map(ToString::to_string).collect();
        let mut replica = launch_controller(api, &name, &namespaces, "first", more, keeps).await?;
        replica.portcullis.wait_until_ready().await?;
        Ok(Self { api, class: name.clone(), name, replica, deploys: false, keeps })
    }

    pub(crate) async fn apply(&self, yaml: &str) -> Result<()> {
        self.api.apply_in(&self.name, yaml).await?;
        Ok(())
    }

    pub(crate) async fn delete(&self, kind: &str, name: &str) -> Result<()> {
        self.objects(kind).await?.delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// The objects of a kind, in the namespace if they have one.
    pub(crate) async fn objects(&self, kind: &str) -> Result<Api<DynamicObject>> {
        self.objects_in(&self.name, kind).await
    }

    /// The same in another namespace.
    pub(crate) async fn objects_in(&self, namespace: &str, kind: &str) -> Result<Api<DynamicObject>> {
        let (group, version) = match kind {
            "GatewayClass" | "Gateway" | "HTTPRoute" | "GRPCRoute" => ("gateway.networking.k8s.io", "v1"),
            "RewritePolicy" => ("gateway.portcullis.dev", "v1alpha1"),
            "EndpointSlice" => ("discovery.k8s.io", "v1"),
            "Lease" => ("coordination.k8s.io", "v1"),
            "Deployment" => ("apps", "v1"),
            "Service" | "ServiceAccount" | "Secret" | "ConfigMap" => ("", "v1"),
            _ => bail!("no kind {kind}"),
        };
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        let client = self.api.client().await?;
        Ok(match kind {
            "GatewayClass" => Api::all_with(client, &resource),
            _ => Api::namespaced_with(client, namespace, &resource),
        })
    }

    /// Waits until a condition of an object is as wanted (`True`, or `False Reason`), where all conditions of that type
    /// count: of the object, its listeners, parents and ancestors. It must be about the object as it is.
    pub(crate) async fn says(&self, kind: &str, name: &str, r#type: &str, wanted: &str) -> Result<()> {
        let objects = self.objects(kind).await?;
        eventually(TIMEOUT, async || {
            let object = objects.get(name).await?;
            let status = &object.data["status"];
            let said = conditions(status, r#type, object.metadata.generation.unwrap_or_default());
            let found = said.iter().any(|said| said == wanted || said.split(' ').next() == Some(wanted));
            ensure!(found, "{kind} {name} says {said:?}: {status:#}\n{}", self.replica.portcullis.log_tail());
            anyhow::Ok(())
        })
        .await
    }

    /// Another replica of the controller.
    pub(crate) async fn another(&self, identity: &str) -> Result<Replica> {
        let mut replica = self.another_with(identity, &[]).await?;
        replica.portcullis.wait_until_ready().await?;
        Ok(replica)
    }

    /// The same with further arguments, which may not be ready yet.
    pub(crate) async fn another_with(&self, identity: &str, more: &[&str]) -> Result<Replica> {
        launch_controller(self.api, &self.class, &[], identity, more, self.keeps).await
    }

    /// Gateway `edge` with one route, `healthy`, that is asked for all the time from now on.
    pub(crate) async fn edge(&self) -> Result<Edge> {
        self.edge_asking(self.replica.portcullis.xds_address()).await
    }

    /// The same with a proxy that reaches the controller by another address.
    pub(crate) async fn edge_asking(&self, xds: SocketAddr) -> Result<Edge> {
        let port = free_port()?;
        self.apply(&gateway("edge", &self.class, &[http(port)])).await?;
        let backend = backend("healthy").await?;
        self.apply(&service("healthy", 80, "", &backend)).await?;
        self.apply(&route("healthy", "edge", "healthy", 80)).await?;
        let proxy = self.proxy_asking("edge", &Target::local(port), xds).await?;
        proxy.answers("/healthy", 200).await?;
        let traffic = Traffic::start(&proxy.target, &Request::get("localhost", "/healthy"));
        Ok(Edge { proxy, traffic, port, _backend: backend })
    }

    /// A token for the proxies of a Gateway.
    pub(crate) async fn token(&self, gateway: &str) -> Result<String> {
        let account = self.account(gateway);
        let mut object = ServiceAccount::default();
        object.metadata.name = Some(account.clone());
        let accounts: Api<ServiceAccount> = Api::namespaced(self.api.client().await?, &self.name);
        if self.deploys {
            self.api.wait_for(&accounts, &account, TIMEOUT, |account| account.is_some()).await?;
        } else {
            match accounts.create(&PostParams::default(), &object).await {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.api.token(&self.name, &account, &[AUDIENCE]).await
    }

    /// The account of the proxies of a Gateway.
    pub(crate) fn account(&self, gateway: &str) -> String {
        format!("{gateway}-{}", self.class)
    }

    /// A proxy of a Gateway whose traffic goes to `target`.
    pub(crate) async fn proxy(&self, gateway: &str, target: &Target) -> Result<Proxy> {
        self.proxy_asking(gateway, target, self.replica.portcullis.xds_address()).await
    }

    /// The same where the controller is reached by another address.
    pub(crate) async fn proxy_asking(&self, gateway: &str, target: &Target, xds: SocketAddr) -> Result<Proxy> {
        let folder = tempfile::tempdir()?;
        let token = Mount::new(folder.path().join("token"), &[("token", &self.token(gateway).await?)])?;
        let gateway = NsName::new(self.name.as_str(), gateway);
        let (envoy, mounted) = launch(self.api, &self.class, &gateway, token.file("token"), xds).await?;
        Ok(Proxy { envoy, token, target: target.clone(), _folders: [folder, mounted] })
    }

    /// No request to what is healthy failed, nobody ended, no update was refused.
    pub(crate) async fn is_unharmed(&mut self, edge: Edge) -> Result<()> {
        let Edge { mut proxy, traffic, .. } = edge;
        traffic.finish().await.with_context(|| self.replica.portcullis.log_tail())?;
        self.replica.portcullis.check()?;
        proxy.envoy.check().await
    }
}

async fn launch_controller(
    api: &ApiServer,
    name: &str,
    namespaces: &[String],
    identity: &str,
    more: &[&str],
    keeps: bool,
) -> Result<Replica> {
    let way = Middleman::start(api).await?;
    let kubeconfig = api.kubeconfig_by(&way, name, CONTROLLER).await?;
    let controller = format!("portcullis.dev/{name}");
    let watched = [&[name.to_owned()], namespaces].concat().join(",");
    let arguments = [
        ["--xds-service", "localhost:1"],
        ["--deploy-proxies", "false"],
        ["--controller-name", &controller],
        ["--watch-namespaces", &watched],
        ["--identity", identity],
        ["--freeze-enabled", if keeps { "true" } else { "false" }],
    ];
    let arguments = [arguments.as_flattened(), more].concat();
    let portcullis = Portcullis::start_in_cluster(&kubeconfig, name, &arguments)?;
    Ok(Replica { portcullis, way })
}

/// A backend that can be a pod's.
pub(crate) async fn backend(name: &str) -> Result<Echo> {
    Echo::start(name, (own_address()?, 0).into()).await
}

/// What is said of a type of condition: status and reason.
fn conditions(status: &Value, r#type: &str, generation: i64) -> Vec<String> {
    let parts = ["listeners", "parents", "ancestors"].map(|list| status[list].as_array());
    let parts = parts.into_iter().flatten().flatten().chain([status]);
    let all = parts.filter_map(|part| part["conditions"].as_array()).flatten();
    let about = all.filter(|condition| condition["type"] == r#type && condition["observedGeneration"] == generation);
    let text = |condition: &Value, field: &str| condition[field].as_str().unwrap_or_default().to_owned();
    about.map(|condition| format!("{} {}", text(condition, "status"), text(condition, "reason"))).collect()
}

/// A Gateway with a proxy that has traffic.
pub(crate) struct Edge {
    pub(crate) proxy: Proxy,
    pub(crate) traffic: Traffic,
    /// Of its listener `http`.
    pub(crate) port: u16,
    _backend: Echo,
}

/// A real Envoy with what is mounted into it.
pub(crate) struct Proxy {
    pub(crate) envoy: Envoy,
    pub(crate) token: Mount,
    pub(crate) target: Target,
    _folders: [tempfile::TempDir; 2],
}

impl Proxy {
    /// Waits until a request is answered with this status.
    pub(crate) async fn answers(&self, path: &str, status: u16) -> Result<()> {
        self.answer(path, &format!("{status}")).await
    }

    /// Waits until a request is answered by this backend.
    pub(crate) async fn reaches(&self, path: &str, backend: &Echo) -> Result<()> {
        self.answer(path, &format!("200 {}", backend.name())).await
    }

    async fn answer(&self, path: &str, wanted: &str) -> Result<()> {
        eventually(TIMEOUT, async || {
            let answer = client::send(&self.target, &Request::get("localhost", path)).await?;
            let backend = answer.echoed.map(|echoed| echoed.backend).unwrap_or_default();
            let got = format!("{} {backend}", answer.status);
            ensure!(
                got.trim_end() == wanted || answer.status.to_string() == wanted,
                "{path} answers {got}, not {wanted}"
            );
            anyhow::Ok(())
        })
        .await
        .with_context(|| self.envoy.log_tail())
    }
}
