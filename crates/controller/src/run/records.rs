//! Keeps records: what is stored goes to the engine, and what the engine sets aside is stored, by the leader alone.

use std::time::Duration;

use futures::future::pending;
use jiff::Timestamp;
use records::{Quarantine, RecordKind, Store, StoreError, Unreadable, format, quarantine::NAME, store::MAX_BYTES};
use tokio::{
    sync::{mpsc, watch},
    time::{sleep, timeout},
};

use crate::engine_task::{Aside, StoredQuarantine};

const KIND: RecordKind = RecordKind::Quarantine;
/// How long the place of records may take to answer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long one waits after a failure: the first time, and at most.
const WAIT: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));

/// A record as it was read: none where there is none yet.
#[derive(Clone, Debug, Default, PartialEq)]
struct Read {
    version: Option<String>,
    quarantine: Quarantine,
}

/// Why it was not read.
#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error("{0}")]
    Store(#[from] StoreError),
    #[error("{NAME}: {0}")]
    Unreadable(#[from] Unreadable),
    #[error("no answer within {TIMEOUT:?}")]
    Timeout,
}

async fn read(store: &impl Store) -> Result<Read, ReadError> {
    let all = timeout(TIMEOUT, store.list(KIND)).await.map_err(|_| ReadError::Timeout)??;
    let Some(stored) = all.into_iter().find(|stored| stored.name == NAME) else { return Ok(Read::default()) };
    Ok(Read { quarantine: format::read(KIND, &stored.data)?, version: Some(stored.version) })
}

async fn write(store: &impl Store, wanted: &Quarantine, version: Option<&str>) -> Result<String, ReadError> {
    let data = format::write(KIND, wanted);
    let written = timeout(TIMEOUT, store.replace(KIND, NAME, data, version)).await;
    Ok(written.map_err(|_| ReadError::Timeout)??.version)
}

/// Works until nobody listens. `aside` is what the engine has set aside, by what it knows of the store: what it was `told`.
pub(super) async fn keep(
    store: impl Store,
    mut aside: watch::Receiver<Aside>,
    mut leads: watch::Receiver<bool>,
    told: mpsc::Sender<StoredQuarantine>,
) {
    let (mut known, mut failure) = (None, None::<String>);
    let (mut number, mut wait) = (0, None::<Duration>);
    loop {
        let mut failed = None;
        match read(&store).await {
            Ok(read) => {
                if known.as_ref() != Some(&read) || failure.is_some() {
                    number += 1;
                    let quarantine = Ok(read.quarantine.clone());
                    if told.send(StoredQuarantine { number, quarantine }).await.is_err() {
                        return;
                    }
                    (known, failure) = (Some(read), None);
                }
            }
            Err(error) => failed = Some(error),
        }
        // What the engine wants is of use once it knows what is stored.
        let wanted = aside.borrow_and_update().clone();
        if failed.is_none()
            && *leads.borrow_and_update()
            && wanted.number == number
            && let Some(Read { version, quarantine }) = &known
        {
            let wanted = quarantine.with(&wanted.entries, Timestamp::now()).within(MAX_BYTES);
            if wanted != *quarantine {
                match write(&store, &wanted, version.as_deref()).await {
                    Ok(_) => {
                        tracing::info!(objects = wanted.entries.len(), "what is set aside is stored");
                        wait = None;
                        continue;
                    }
                    Err(ReadError::Store(StoreError::Conflict)) => continue,
                    Err(error) => failed = Some(error),
                }
            }
        }
        wait = match failed.map(|error| error.to_string()) {
            None => None,
            Some(why) => {
                if failure.as_ref() != Some(&why) {
                    tracing::warn!(
                        why,
                        "what is set aside cannot be read or stored; it holds as long as this process lives"
                    );
                    number += 1;
                    if told.send(StoredQuarantine { number, quarantine: Err(why.clone()) }).await.is_err() {
                        return;
                    }
                    failure = Some(why);
                }
                Some(wait.map_or(WAIT.0, |wait| (2 * wait).min(WAIT.1)))
            }
        };
        let again = async {
            match wait {
                Some(wait) => sleep(wait).await,
                None => pending().await,
            }
        };
        tokio::select! {
            () = again => {}
            () = store.changed(KIND), if wait.is_none() => {}
            Ok(()) = aside.changed(), if wait.is_none() => {}
            Ok(()) = leads.changed(), if wait.is_none() => {}
            () = told.closed() => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, sync::Arc};

    use records::{Entry, folder::Folder};

    use super::*;

    fn entry(name: &str) -> Entry {
        let manifest = serde_json::json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
            "metadata": {"namespace": "apps", "name": name}, "spec": {},
        });
        Entry::new(&api::decode(manifest).expect("a route").object, "Row".to_owned(), None, None, Timestamp::now())
    }

    fn entries(names: &[&str]) -> Arc<BTreeMap<api::ObjectId, Entry>> {
        Arc::new(names.iter().map(|name| (entry(name).object().expect("an object"), entry(name))).collect())
    }

    fn names(quarantine: &Quarantine) -> Vec<String> {
        quarantine.entries.iter().map(|entry| entry.name.clone()).collect()
    }

    /// A keeper of a folder, and what stands for the engine.
    struct World {
        folder: Folder,
        aside: watch::Sender<Aside>,
        leads: watch::Sender<bool>,
        told: mpsc::Receiver<StoredQuarantine>,
        _folder: tempfile::TempDir,
    }

    impl World {
        fn new(leads: bool) -> Self {
            let folder = tempfile::tempdir().expect("a folder");
            Self::of(Folder::new(folder.path()), folder, leads)
        }

        fn of(store: Folder, folder: tempfile::TempDir, leads: bool) -> Self {
            let (aside, wanted) = watch::channel(Aside::default());
            let (leads, leading) = watch::channel(leads);
            let (sender, told) = mpsc::channel(1);
            tokio::spawn(keep(store.clone(), wanted, leading, sender));
            Self { folder: store, aside, leads, told, _folder: folder }
        }

        async fn told(&mut self) -> StoredQuarantine {
            timeout(Duration::from_secs(20), self.told.recv()).await.expect("in time").expect("it works")
        }

        fn wants(&self, number: u64, names: &[&str]) {
            self.aside.send_replace(Aside { number, entries: entries(names) });
        }
    }

    #[tokio::test]
    async fn what_is_set_aside_is_stored_by_who_leads_and_told() {
        let mut world = World::new(false);
        let first = world.told().await;
        assert_eq!(first.quarantine.as_ref().map(names), Ok(Vec::new()));
        world.wants(first.number, &["a"]);
        world.leads.send_replace(true);
        let second = world.told().await;
        assert_eq!(second.quarantine.as_ref().map(names), Ok(vec!["a".to_owned()]));
        world.wants(second.number, &["a", "b"]);
        assert_eq!(world.told().await.quarantine.as_ref().map(names), Ok(vec!["a".to_owned(), "b".to_owned()]));
    }

    #[tokio::test]
    async fn what_somebody_forgot_is_not_stored_again_before_the_engine_knows_that() {
        let mut world = World::new(true);
        let first = world.told().await;
        world.wants(first.number, &["a", "b"]);
        let stored = world.told().await;
        let version = world.folder.list(KIND).await.expect("records")[0].version.clone();
        let without = Quarantine { entries: vec![entry("b")] };
        let data = format::write(KIND, &without);
        world.folder.replace(KIND, NAME, data, Some(&version)).await.expect("written");
        // The engine goes on to set something aside, by what it knew.
        world.wants(stored.number, &["a", "b", "c"]);
        let told = world.told().await;
        assert_eq!(told.quarantine.as_ref().map(names), Ok(vec!["b".to_owned()]));
        world.wants(told.number, &["b", "c"]);
        assert_eq!(world.told().await.quarantine.as_ref().map(names), Ok(vec!["b".to_owned(), "c".to_owned()]));
    }

    #[tokio::test]
    async fn a_record_that_cannot_be_read_is_told_and_never_written_over() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Folder::new(folder.path());
        let newer = br#"{"format":2,"kind":"quarantine"}"#.to_vec();
        let stored = store.replace(KIND, NAME, newer.clone(), None).await.expect("written");
        let mut world = World::of(store, folder, true);
        let told = world.told().await;
        let why = told.quarantine.expect_err("it is of a later release");
        assert!(why.contains("its format is 2"), "{why}");
        world.wants(told.number, &["a"]);
        assert_eq!(world.folder.list(KIND).await.expect("records")[0].data, newer);
        // It is forgotten by hand.
        world.folder.delete(KIND, NAME, &stored.version).await.expect("deleted");
        let told = world.told().await;
        assert_eq!(told.quarantine.as_ref().map(names), Ok(Vec::new()));
        world.wants(told.number, &["a"]);
        assert_eq!(world.told().await.quarantine.as_ref().map(names), Ok(vec!["a".to_owned()]));
    }
}
