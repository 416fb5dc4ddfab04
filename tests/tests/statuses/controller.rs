//! A controller that does nothing but write statuses, and the API server's objects as a test sees them.

use std::collections::HashSet;
use std::future::Future;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use api::{Kind, ObjectId};
use cluster::status::{Metrics, ResultLabel, Settings, Writer, client};
use cluster::watch::Stored;
use futures::TryStreamExt;
use kube::api::{
    ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, WatchEvent, WatchParams,
};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use portcullis_tests::api_server::ApiServer;
use portcullis_tests::wait::{TIMEOUT, eventually};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::task::JoinSet;

/// The controller under test.
pub(crate) const US: &str = "portcullis.dev/controller";
/// Another one.
pub(crate) const THEM: &str = "example.com/other";

/// A writer with a client of its own, and watches of some kinds if it has any. All ends when this is dropped.
pub(crate) struct Controller {
    pub(crate) writer: Writer,
    tasks: JoinSet<()>,
}

impl Controller {
    /// One that watches HTTPRoutes of a namespace, leads, and was told that these statuses are desired, and no others.
    pub(crate) async fn leading(server: &ApiServer, namespace: &str, desired: &[(&str, &str)]) -> Result<Self> {
        let mut controller = Self::start(server_client(server).await?);
        controller.watch(server.client().await?, namespace, Kind::HttpRoute);
        for (name, message) in desired {
            controller.desire(namespace, name, message);
        }
        controller.writer.complete();
        controller.writer.lead(true);
        Ok(controller)
    }

    /// Says what the status of a route shall say.
    pub(crate) fn desire(&self, namespace: &str, name: &str, message: &str) {
        self.writer.desired(&route(namespace, name), Some(&status(message).to_string()));
    }

    /// One that knows nothing.
    pub(crate) fn start(client: Client) -> Self {
        let mut tasks = JoinSet::new();
        let writer = Writer::new(Settings::new(US), Metrics::default());
        let run = writer.clone();
        tasks.spawn(async move { run.run(client).await });
        Self { writer, tasks }
    }

    /// Tells the writer what the API server has, from now on.
    pub(crate) fn watch(&mut self, client: Client, namespace: &str, kind: Kind) {
        let (api, writer) = (objects(client, namespace, kind), self.writer.clone());
        self.tasks.spawn(async move {
            let mut known = HashSet::new();
            loop {
                // An API server that is away is there again later.
                if watch(&api, kind, &writer, &mut known).await.is_err() {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        });
    }

    /// How many writes ended so.
    pub(crate) fn writes(&self, result: &'static str) -> u64 {
        self.writer.metrics().writes.get_or_create(&ResultLabel { result }).get()
    }

    /// Waits until the writer has nothing to do.
    pub(crate) async fn at_rest(&self) -> Result<()> {
        until(async || {
            let length = self.writer.metrics().queue.get();
            ensure!(length == 0, "{length} are to be written");
            Ok(())
        })
        .await
    }
}

async fn watch(api: &Api<DynamicObject>, kind: Kind, writer: &Writer, known: &mut HashSet<ObjectId>) -> Result<()> {
    let list = api.list(&ListParams::default()).await?;
    let mut version = list.metadata.resource_version.context("a list without a version")?;
    let mut gone = std::mem::take(known);
    for object in &list.items {
        gone.remove(&id_of(kind, object));
        tell(writer, kind, object, known)?;
    }
    for id in gone {
        writer.stored(&id, None);
    }
    drop(list.items);
    loop {
        let mut events = std::pin::pin!(api.watch(&WatchParams::default(), &version).await?);
        while let Some(event) = events.try_next().await? {
            match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    tell(writer, kind, &object, known)?;
                    version = object.metadata.resource_version.unwrap_or_default();
                }
                WatchEvent::Deleted(object) => {
                    let id = id_of(kind, &object);
                    writer.stored(&id, None);
                    known.remove(&id);
                    version = object.metadata.resource_version.unwrap_or_default();
                }
                WatchEvent::Bookmark(_) => {}
                WatchEvent::Error(status) => return Err((*status).into()),
            }
        }
    }
}

fn tell(writer: &Writer, kind: Kind, object: &DynamicObject, known: &mut HashSet<ObjectId>) -> Result<()> {
    let id = id_of(kind, object);
    writer.stored(&id, Some(&stored(object)?));
    known.insert(id);
    Ok(())
}

/// What a watch would say of an object.
pub(crate) fn stored(object: &DynamicObject) -> Result<Stored> {
    let status = object.data.get("status").map(|status| RawValue::from_string(status.to_string())).transpose()?;
    let uid = object.metadata.uid.as_deref().context("no uid")?.into();
    let resource_version = object.metadata.resource_version.as_deref().context("no version")?.into();
    Ok(Stored { uid, resource_version, status })
}

fn id_of(kind: Kind, object: &DynamicObject) -> ObjectId {
    let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
    ObjectId::new(kind, namespace, object.metadata.name.as_deref().unwrap_or_default())
}

/// A client for a writer who may do everything.
pub(crate) async fn server_client(server: &ApiServer) -> Result<Client> {
    status_client(&server.kubeconfig()).await
}

/// A client for a writer.
pub(crate) async fn status_client(kubeconfig: &Path) -> Result<Client> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    Ok(client(Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?)?)
}

/// Objects of a kind, in a namespace if the kind has any.
pub(crate) fn objects(client: Client, namespace: &str, kind: Kind) -> Api<DynamicObject> {
    let gvk = GroupVersionKind::gvk(kind.group(), kind.versions()[0], kind.as_str());
    let resource = ApiResource::from_gvk_with_plural(&gvk, kind.plural());
    if kind.namespaced() {
        Api::namespaced_with(client, namespace, &resource)
    } else {
        Api::all_with(client, &resource)
    }
}

/// Names a route.
pub(crate) fn route(namespace: &str, name: &str) -> ObjectId {
    ObjectId::new(Kind::HttpRoute, namespace, name)
}

/// HTTPRoutes of a namespace, as an administrator sees them.
pub(crate) async fn routes(server: &ApiServer, namespace: &str) -> Result<Api<DynamicObject>> {
    Ok(objects(server.client().await?, namespace, Kind::HttpRoute))
}

/// A route that is made now.
pub(crate) async fn make_route(routes: &Api<DynamicObject>, name: &str) -> Result<DynamicObject> {
    let object = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": {"name": name},
        "spec": {"parentRefs": [{"name": "gateway"}], "hostnames": [format!("{name}.example.com")]},
    });
    Ok(routes.create(&kube::api::PostParams::default(), &serde_json::from_value(object)?).await?)
}

/// An entry of a route's status, as translation makes it.
pub(crate) fn entry(controller: &str, message: &str) -> Value {
    let condition = |kind: &str| json!({"type": kind, "status": "True", "reason": kind, "message": message, "observedGeneration": 1});
    let reference = json!({"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "gateway"});
    let conditions = [condition("Accepted"), condition("ResolvedRefs")];
    json!({"parentRef": reference, "controllerName": controller, "conditions": conditions})
}

/// The status of a route as translation makes it.
pub(crate) fn status(message: &str) -> Value {
    json!({"parents": [entry(US, message)]})
}

/// Another controller writes its entry, whatever it takes.
pub(crate) async fn write_foreign(routes: &Api<DynamicObject>, name: &str, message: &str) -> Result<Value> {
    let mut theirs = entry(THEM, message);
    for condition in theirs["conditions"].as_array_mut().into_iter().flatten() {
        condition["lastTransitionTime"] = "2020-02-02T02:02:02Z".into();
    }
    loop {
        let object = routes.get(name).await?;
        let mut parents = entries(&object);
        parents.retain(|entry| entry["controllerName"] != THEM);
        parents.insert(0, theirs.clone());
        let version = object.metadata.resource_version;
        let patch = json!({"metadata": {"resourceVersion": version}, "status": {"parents": parents}});
        match routes.patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await {
            Ok(_) => return Ok(theirs),
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The entries of a route's status.
pub(crate) fn entries(object: &DynamicObject) -> Vec<Value> {
    object.data["status"]["parents"].as_array().cloned().unwrap_or_default()
}

/// What each entry says, with who says it.
pub(crate) fn said(object: &DynamicObject) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let entry = |entry: &Value| (text(&entry["controllerName"]), text(&entry["conditions"][0]["message"]));
    entries(object).iter().map(entry).collect()
}

/// Waits until the status of a route says this, entry by entry. Gives the route.
pub(crate) async fn says(routes: &Api<DynamicObject>, name: &str, expected: &[(&str, &str)]) -> Result<DynamicObject> {
    until(async || {
        let object = routes.get(name).await?;
        let said = said(&object);
        let same = said.iter().map(|(who, what)| (who.as_str(), what.as_str())).eq(expected.iter().copied());
        ensure!(same, "{name} says {said:?}");
        Ok(object)
    })
    .await
}

/// Waits for a condition.
pub(crate) async fn until<T, F: Future<Output = Result<T>>>(attempt: impl FnMut() -> F) -> Result<T> {
    let text = |error: anyhow::Error| format!("{error:#}");
    let mut attempt = attempt;
    let result = eventually(TIMEOUT, move || {
        let attempt = attempt();
        async move { attempt.await.map_err(text) }
    });
    result.await.map_err(anyhow::Error::msg)
}
