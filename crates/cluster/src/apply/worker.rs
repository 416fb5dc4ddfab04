//! What is done for one Gateway: requests, one after the other.

use std::{
    collections::{BTreeSet, HashSet},
    sync::Arc,
    time::Duration,
};

use ir::{Port, backend::Transport};
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams},
    core::{DynamicObject, params::Preconditions},
};
use serde_json::{Value, json};
use tokio::{sync::watch, time::timeout};

use super::{
    Settings,
    kind::Kind,
    metrics::{Labels, Metrics},
    object::{CONTROLLER, FIELD_MANAGER, Fingerprint, LiveObject, ObjectKey, is_of},
    ports,
    reconciler::{Failure, Job, Outcome, Retry},
};

/// Who holds the count of replicas between us and an autoscaler, as the API server notes it.
const REPLICAS_MANAGER: &str = "portcullis-replicas";

/// Who sets the ports of a Service for a moment, likewise.
const PORTS_MANAGER: &str = "portcullis-ports";

/// Why an object is not as it should be.
struct ApplyError {
    message: String,
    retry: Retry,
    /// For how long the API server asks to be left alone.
    retry_after: Duration,
}

impl ApplyError {
    fn new(retry: Retry, message: impl Into<String>) -> Self {
        Self { message: message.into(), retry, retry_after: Duration::ZERO }
    }

    fn refused(message: impl Into<String>) -> Self {
        Self::new(Retry::Refused, message)
    }

    /// Whether it may be what the object says. That no port of a node is left is a failure of the API server in its own words.
    fn is_of_the_object(&self) -> bool {
        matches!(self.retry, Retry::Refused | Retry::Soon)
    }
}

/// Works on Gateways.
pub(super) struct Worker {
    pub(super) client: Client,
    pub(super) settings: Settings,
    pub(super) leads: watch::Receiver<bool>,
    pub(super) metrics: Metrics,
}

impl Worker {
    /// Applies what is to be there and deletes what is not, unless we do not lead any more.
    pub(super) async fn run(&self, job: &Job) -> Outcome {
        let mut inventory = job.inventory.clone();
        let mut failures = Vec::new();
        let (mut retry, mut retry_after) = (None::<Retry>, Duration::ZERO);
        let mut wanted = HashSet::new();
        let mut failed = |object: String, port: Option<(Port, Transport)>, error: ApplyError| {
            retry = Some(retry.take().map_or(error.retry, |before| before.min(error.retry)));
            retry_after = retry_after.max(error.retry_after);
            failures.push(Failure { object, port, message: error.message });
        };
        for object in &job.objects {
            let (Some(kind), Some(name)) = (Kind::of(object), object["metadata"]["name"].as_str()) else {
                let what = format!("{} {}", object["kind"], object["metadata"]["name"]);
                failed(what, None, ApplyError::refused("is none of the kinds that are applied"));
                continue;
            };
            let key = ObjectKey { kind, name: name.into() };
            wanted.insert(key.clone());
            let known = inventory.get(&key);
            if known.is_some_and(|known| !known.changed && known.applied.as_ref() == Some(object)) {
                continue;
            }
            if !*self.leads.borrow() {
                break;
            }
            let api = Api::namespaced_with(self.client.clone(), &job.owner.namespace, &kind.resource());
            let client = ObjectClient { api, name, owner: &job.owner.name, settings: &self.settings };
            let answer = client.apply_or_without(object, known, &job.optional_ports).await;
            let is_whole = answer.as_ref().is_ok_and(|(_, without)| without.is_empty());
            self.count(kind, if is_whole { "applied" } else { "refused" }, &answer);
            match answer {
                Ok((live, without)) => {
                    for (port, error) in without {
                        failed(key.to_string(), Some(port), error);
                    }
                    inventory.insert(key, live);
                }
                Err(error) => {
                    if error.retry == Retry::Conflict {
                        // What is known of it is wrong.
                        inventory.remove(&key);
                    }
                    failed(key.to_string(), None, error);
                }
            }
        }
        let gone: Vec<_> = inventory.keys().filter(|key| !wanted.contains(*key)).cloned().collect();
        for key in gone {
            if !*self.leads.borrow() {
                break;
            }
            let Some(known) = inventory.get(&key) else { continue };
            let api = Api::namespaced_with(self.client.clone(), &job.owner.namespace, &key.kind.resource());
            let client = ObjectClient { api, name: &key.name, owner: &job.owner.name, settings: &self.settings };
            let answer = client.delete(&known.uid).await;
            self.count(key.kind, "deleted", &answer);
            match answer {
                Ok(()) => drop(inventory.remove(&key)),
                Err(error) => failed(key.to_string(), None, error),
            }
        }
        Outcome { inventory, failures, retry, retry_after }
    }

    fn count<T>(&self, kind: Kind, done: &'static str, answer: &Result<T, ApplyError>) {
        let result = match answer {
            Ok(_) => done,
            Err(error) => match error.retry {
                Retry::Conflict => "conflict",
                Retry::Refused => "refused",
                Retry::Everywhere | Retry::Soon => "retry",
            },
        };
        self.metrics.applies.get_or_create(&Labels { kind: kind.name(), result }).inc();
    }
}

/// An object at the API server.
struct ObjectClient<'a> {
    api: Api<DynamicObject>,
    name: &'a str,
    owner: &'a str,
    settings: &'a Settings,
}

impl ObjectClient<'_> {
    /// Applies an object. A Service that is refused is applied without those optional ports that are at fault.
    async fn apply_or_without(
        &self,
        object: &Arc<Value>,
        known: Option<&LiveObject>,
        optional: &BTreeSet<(Port, Transport)>,
    ) -> Result<(LiveObject, Vec<((Port, Transport), ApplyError)>), ApplyError> {
        let refused = match self.apply(object, known).await {
            Ok(live) => return Ok((live, Vec::new())),
            Err(error) => error,
        };
        let is_service = object["kind"] == "Service";
        let (optional, own): (Vec<_>, Vec<_>) =
            ports::of(object).filter(|_| is_service).partition(|port| optional.contains(port));
        if optional.is_empty() || !refused.is_of_the_object() {
            return Err(refused);
        }
        let uid = known.map(|known| &*known.uid);
        if !own.is_empty()
            && self.refuses(&ports::without(object, &optional.iter().copied().collect()), uid).await?.is_some()
        {
            // These are not to blame.
            return Err(refused);
        }
        let mut search = ports::Search::among(optional);
        while let Some(left_out) = search.next() {
            let tried = ports::without(object, left_out);
            search.answer(self.refuses(&tried, uid).await?);
        }
        let at_fault = search.at_fault();
        let left_out: BTreeSet<_> = at_fault.iter().map(|(port, _)| *port).collect();
        let part = Arc::new(ports::without(object, &left_out));
        if ports::of(&part).next().is_none() {
            return Err(refused);
        }
        let there = known.filter(|known| !known.changed && known.applied.as_ref() == Some(&part));
        let live = match there {
            Some(there) => there.clone(),
            None => self.apply(&part, known).await?,
        };
        Ok((live, at_fault))
    }

    async fn apply(&self, object: &Arc<Value>, known: Option<&LiveObject>) -> Result<LiveObject, ApplyError> {
        if let Some(applied) = known.and_then(|known| known.applied.as_deref()) {
            self.hand_over_replicas(applied, object).await?;
        }
        if let Some(known) = known {
            match self.settle(object, Some(&known.uid)).await {
                // It is not the one that we know: another has its name, or none.
                Err(ApplyError { retry: Retry::Conflict, .. }) => {}
                answer => return answer,
            }
        }
        let uid = self.look().await?;
        self.settle(object, uid.as_deref()).await
    }

    /// Why an object would be refused, if it would.
    async fn refuses(&self, object: &Value, uid: Option<&str>) -> Result<Option<ApplyError>, ApplyError> {
        match self.patch(object, uid, true).await {
            Ok(_) => Ok(None),
            Err(error) if error.is_of_the_object() => Ok(Some(error)),
            Err(error) => Err(error),
        }
    }

    /// Applies an object, and a Service's ports to the exclusion of any other: a port that somebody added would stay, since
    /// it is not ours, and one that somebody renumbered would stand in the way of the one that we apply, since it has its
    /// name.
    async fn settle(&self, object: &Arc<Value>, uid: Option<&str>) -> Result<LiveObject, ApplyError> {
        let answer = self.send(object, uid).await;
        let (true, Some(uid)) = (object["kind"] == "Service", uid) else { return answer };
        match &answer {
            Ok(_) | Err(ApplyError { retry: Retry::Refused, .. }) => {}
            Err(_) => return answer,
        }
        let Some(there) = self.answer(self.api.get_opt(self.name)).await? else { return answer };
        if !has_other_ports(&there.data["spec"]["ports"], &object["spec"]["ports"]) {
            return answer;
        }
        let ports = json!({"metadata": {"uid": uid}, "spec": {"ports": object["spec"]["ports"]}});
        let parameters = PatchParams { field_manager: Some(PORTS_MANAGER.to_owned()), ..PatchParams::default() };
        self.answer(self.api.patch(self.name, &parameters, &Patch::Merge(&ports))).await?;
        self.send(object, Some(uid)).await?;
        self.disown_ports().await?;
        self.send(object, Some(uid)).await
    }

    /// Whoever set the ports by a plain patch holds them from then on, and they would stay when we apply others.
    async fn disown_ports(&self) -> Result<(), ApplyError> {
        let Some(there) = self.answer(self.api.get_metadata_opt(self.name)).await? else { return Ok(()) };
        let mut managers = there.metadata.managed_fields.unwrap_or_default();
        managers.retain(|entry| entry.manager.as_deref() != Some(PORTS_MANAGER));
        let version = there.metadata.resource_version;
        let patch = json!({"metadata": {"resourceVersion": version, "managedFields": managers}});
        self.answer(self.api.patch_metadata(self.name, &PatchParams::default(), &Patch::Merge(&patch))).await.map(drop)
    }

    /// Applies an object, if what is there is the one with that uid, or if there is none and none is named.
    async fn send(&self, object: &Arc<Value>, uid: Option<&str>) -> Result<LiveObject, ApplyError> {
        let answer = self.patch(object, uid, false).await?;
        let metadata = &answer.metadata;
        let uid = metadata.uid.as_deref().ok_or_else(|| ApplyError::refused("was answered without a uid"))?;
        let (applied, fingerprint) = (Some(Arc::clone(object)), Fingerprint::of(metadata));
        Ok(LiveObject { uid: uid.into(), applied, changed: false, fingerprint })
    }

    async fn patch(&self, object: &Value, uid: Option<&str>, dry_run: bool) -> Result<DynamicObject, ApplyError> {
        let mut body = object.clone();
        body["metadata"]["annotations"][CONTROLLER] = (*self.settings.controller).into();
        if let Some(uid) = uid {
            body["metadata"]["uid"] = uid.into();
        }
        let parameters = PatchParams { dry_run, ..PatchParams::apply(FIELD_MANAGER).force() };
        self.answer(self.api.patch(self.name, &parameters, &Patch::Apply(&body))).await
    }

    /// The uid of an object of ours; none if there is no object.
    ///
    /// Between this and the first apply somebody may make one of the same name, which is then taken over: server-side
    /// apply has no way to ask that there be none.
    async fn look(&self) -> Result<Option<String>, ApplyError> {
        let Some(found) = self.answer(self.api.get_metadata_opt(self.name)).await? else { return Ok(None) };
        let metadata = found.metadata;
        if !is_of(&metadata, self.owner) {
            let message = "is there already and belongs to somebody else: remove or rename it";
            return Err(ApplyError::refused(message));
        }
        if metadata.deletion_timestamp.is_some() {
            return Err(ApplyError::new(Retry::Soon, "is being deleted"));
        }
        Ok(metadata.uid)
    }

    /// Leaves the count of replicas to somebody else, when it is ours to say no more: a field that nobody claims gets its
    /// default, which is one, and most proxies would go at once.
    async fn hand_over_replicas(&self, applied: &Value, object: &Value) -> Result<(), ApplyError> {
        let has_replicas = |object: &Value| object["kind"] == "Deployment" && object["spec"].get("replicas").is_some();
        if !has_replicas(applied) || has_replicas(object) {
            return Ok(());
        }
        let Some(now) = self.answer(self.api.get_opt(self.name)).await? else { return Ok(()) };
        let replicas = &now.data["spec"]["replicas"];
        let patch = json!({
            "apiVersion": object["apiVersion"],
            "kind": object["kind"],
            "metadata": {"name": self.name, "uid": now.metadata.uid},
            "spec": {"replicas": replicas},
        });
        let parameters = PatchParams::apply(REPLICAS_MANAGER).force();
        self.answer(self.api.patch(self.name, &parameters, &Patch::Apply(&patch))).await.map(drop)
    }

    async fn delete(&self, uid: &str) -> Result<(), ApplyError> {
        let only_this = Preconditions { uid: Some(uid.to_owned()), resource_version: None };
        let parameters = DeleteParams { preconditions: Some(only_this), ..DeleteParams::background() };
        let deleted = async {
            match self.api.delete(self.name, &parameters).await {
                Ok(_) => Ok(()),
                // It is gone, or another has its name: nothing of ours is left.
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
                Err(error) => Err(error),
            }
        };
        self.answer(deleted).await
    }

    async fn answer<T>(&self, request: impl Future<Output = kube::Result<T>>) -> Result<T, ApplyError> {
        match timeout(self.settings.timeout, request).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(apply_error(error)),
            Err(_) => {
                let message = format!("no answer within {} s", self.settings.timeout.as_secs_f32());
                Err(ApplyError::new(Retry::Everywhere, message))
            }
        }
    }
}

/// Whether a Service has a port that is not among those that are to be.
fn has_other_ports(there: &Value, wanted: &Value) -> bool {
    let ports = |list: &Value| -> Vec<_> {
        let ports = list.as_array().into_iter().flatten();
        // TCP if it is not said.
        ports.map(|port| (port["port"].clone(), port["protocol"].as_str().unwrap_or("TCP").to_owned())).collect()
    };
    let wanted = ports(wanted);
    ports(there).iter().any(|port| !wanted.contains(port))
}

fn apply_error(error: kube::Error) -> ApplyError {
    let kube::Error::Api(status) = error else {
        return ApplyError::new(Retry::Everywhere, error.to_string());
    };
    let retry = match status.code {
        // A conflict that force does not decide: another object has the name by now, or it changed meanwhile.
        409 => Retry::Conflict,
        401 | 429 | 503 | 504 => Retry::Everywhere,
        408 | 500.. => Retry::Soon,
        _ => Retry::Refused,
    };
    let message = if status.message.is_empty() { format!("HTTP status {}", status.code) } else { status.message };
    let seconds = status.details.map_or(0, |details| details.retry_after_seconds);
    ApplyError { message, retry, retry_after: Duration::from_secs(seconds.into()) }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn answers_mean_what_the_api_server_means() {
        let retry = |code| apply_error(kube::Error::Api(Box::new(Status { code, ..Status::default() }))).retry;
        assert_eq!([403, 404, 422].map(retry), [Retry::Refused; 3]);
        assert_eq!([401, 429, 503].map(retry), [Retry::Everywhere; 3]);
        assert_eq!([409, 500].map(retry), [Retry::Conflict, Retry::Soon]);
        let overloaded: Status =
            serde_json::from_value(json!({"code": 429, "details": {"retryAfterSeconds": 7}})).expect("a status");
        assert_eq!(apply_error(kube::Error::Api(Box::new(overloaded))).retry_after, Duration::from_secs(7));
    }
}
