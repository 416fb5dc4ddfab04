//! Records as Secrets in the controller's namespace, which have the label `portcullis.dev/record: KIND`.
//!
//! It takes the rights to list, watch and create Secrets there, and to get and update those that are records; to delete them, what
//! only people do, and whoever keeps editions, which come and go by names that nobody knows before.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use k8s_openapi::{ByteString, api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, ListParams, PostParams, Preconditions},
};
use records::{RecordKind, Store, StoreError, Stored, store::MAX_BYTES};
use tokio::{sync::Notify, task::JoinHandle, time::timeout};

use crate::watch::{self, Labelled, Limits};

/// The label that has the kind.
pub const LABEL: &str = "portcullis.dev/record";
/// The key of the Secret.
const KEY: &str = "record";
/// Should a watch fail, records are read so often.
const LOOK: Duration = Duration::from_mins(1);

/// The Secrets of each kind of record.
static OF_KIND: [(RecordKind, Labelled); RecordKind::ALL.len()] = {
    let mut all = [(RecordKind::Quarantine, labelled(RecordKind::Quarantine)); RecordKind::ALL.len()];
    let mut at = 0;
    while at < all.len() {
        all[at] = (RecordKind::ALL[at], labelled(RecordKind::ALL[at]));
        at += 1;
    }
    all
};

const fn labelled(kind: RecordKind) -> Labelled {
    let label = (LABEL, kind.as_str());
    Labelled { group: "", version: ["v1"], kind: "Secret", plural: "secrets", custom: false, label }
}

/// Secrets as a place for records.
#[derive(Clone, Debug)]
pub struct Secrets {
    api: Api<Secret>,
    changed: Arc<Notify>,
}

/// Watches until it is dropped.
#[derive(Debug)]
pub struct Watching(JoinHandle<()>);

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Secrets {
    /// Those of a namespace.
    pub fn new(client: Client, namespace: &str) -> Self {
        Self { api: Api::namespaced(client, namespace), changed: Arc::default() }
    }

    /// Has [`Store::changed`] end as soon as somebody writes a record of a kind: of one alone, since one at a time learns of it. It
    /// must be called within a tokio runtime.
    pub fn watch(&self, kind: RecordKind, client: Client, namespace: &str, metrics: watch::Metrics) -> Watching {
        let (changed, namespace) = (Arc::clone(&self.changed), Some(namespace.into()));
        let watching = async move {
            let on_event = move |_| changed.notify_one();
            let of_kind = OF_KIND.iter().find(|(of, _)| *of == kind);
            let Some((_, labelled)) = of_kind else { return };
            watch::watch_metadata(client, labelled, namespace, Limits::default(), &metrics, on_event).await;
        };
        Watching(tokio::spawn(watching))
    }
}

/// A Secret as a record; none of one that nobody has written yet.
fn stored(secret: &Secret) -> Option<Stored> {
    let data = secret.data.as_ref()?.get(KEY)?.0.clone();
    let version = secret.metadata.resource_version.clone().unwrap_or_default();
    Some(Stored { name: secret.metadata.name.clone()?, data, version })
}

fn told(error: kube::Error) -> StoreError {
    match error {
        kube::Error::Api(status) if status.code == 409 => StoreError::Conflict,
        error => StoreError::Other(format!("the API server: {error}")),
    }
}

impl Store for Secrets {
    async fn list(&self, kind: RecordKind) -> Result<Vec<Stored>, StoreError> {
        let labelled = ListParams::default().labels(&format!("{LABEL}={kind}"));
        let secrets = self.api.list(&labelled).await.map_err(told)?;
        Ok(secrets.items.iter().filter_map(stored).collect())
    }

    async fn get(&self, kind: RecordKind, name: &str) -> Result<Option<Stored>, StoreError> {
        let secret = self.api.get_opt(name).await.map_err(told)?;
        let is_labelled = |secret: &Secret| secret.labels().get(LABEL).is_some_and(|label| label == kind.as_str());
        Ok(secret.filter(is_labelled).as_ref().and_then(stored))
    }

    async fn stamps(&self, kind: RecordKind) -> Result<BTreeMap<String, String>, StoreError> {
        let labelled = ListParams::default().labels(&format!("{LABEL}={kind}"));
        let all = self.api.list_metadata(&labelled).await.map_err(told)?;
        let stamp = |metadata: ObjectMeta| Some((metadata.name?, metadata.resource_version.unwrap_or_default()));
        Ok(all.items.into_iter().filter_map(|secret| stamp(secret.metadata)).collect())
    }

    async fn replace(
        &self,
        kind: RecordKind,
        name: &str,
        data: Vec<u8>,
        version: Option<&str>,
    ) -> Result<Stored, StoreError> {
        if data.len() > MAX_BYTES {
            return Err(StoreError::TooLarge(data.len()));
        }
        // What else is said of the Secret stays.
        let now = self.api.get_opt(name).await.map_err(told)?;
        if now.as_ref().and_then(stored).map(|stored| stored.version).as_deref() != version {
            return Err(StoreError::Conflict);
        }
        let is_new = now.is_none();
        let mut secret = now.unwrap_or_default();
        secret.metadata.name = Some(name.to_owned());
        secret.metadata.labels.get_or_insert_with(BTreeMap::new).insert(LABEL.to_owned(), kind.to_string());
        secret.data.get_or_insert_default().insert(KEY.to_owned(), ByteString(data));
        // The version that was read goes along, so that nobody else's is lost.
        let written = if is_new {
            self.api.create(&PostParams::default(), &secret).await
        } else {
            self.api.replace(name, &PostParams::default(), &secret).await
        };
        stored(&written.map_err(told)?)
            .ok_or_else(|| StoreError::Other("the API server dropped what was written".to_owned()))
    }

    async fn delete(&self, _kind: RecordKind, name: &str, version: &str) -> Result<(), StoreError> {
        let preconditions = Preconditions { resource_version: Some(version.to_owned()), uid: None };
        let only = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        match self.api.delete(name, &only).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(error) => Err(told(error)),
        }
    }

    async fn changed(&self, _kind: RecordKind) {
        // Without a watch nobody notifies.
        let _: Result<(), _> = timeout(LOOK, self.changed.notified()).await;
    }
}
