//! Keeps records: what is stored goes to the engine, and what the engine sets aside is stored, by the leader alone.

use std::time::Duration;

use futures::future::pending;
use jiff::Timestamp;
use records::{Quarantine, RecordKind, Store, StoreError, Unreadable, format, quarantine::NAME, store::MAX_BYTES};
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep, timeout},
};

use crate::engine_task::{Aside, StoredQuarantine};

const KIND: RecordKind = RecordKind::Quarantine;
/// How long the place of records may take to answer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long one waits after a failure: the first time, and at most.
const WAIT: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));
/// So long the engine, which serves nothing meanwhile, waits at its start for a place that does not answer.
const PATIENCE: Duration = Duration::from_mins(1);

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

impl ReadError {
    /// Whether the same may be read later, with nobody's help.
    fn may_pass(&self) -> bool {
        !matches!(self, Self::Unreadable(_))
    }
}

/// What failed the last time, in words.
#[derive(Debug, PartialEq, Eq)]
enum Failure {
    Read(String),
    Write(String),
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
    let started = Instant::now();
    let (mut known, mut failure) = (None, None::<Failure>);
    let (mut number, mut wait) = (0, None::<Duration>);
    loop {
        let mut failed = None;
        match read(&store).await {
            Ok(read) => {
                if known.as_ref() != Some(&read) || matches!(failure, Some(Failure::Read(_))) {
                    number += 1;
                    let quarantine = Ok(read.quarantine.clone());
                    if told.send(StoredQuarantine { number, quarantine }).await.is_err() {
                        return;
                    }
                    (known, failure) = (Some(read), None);
                }
            }
            // What may be read the next time is waited for.
            Err(error) if known.is_none() && error.may_pass() && started.elapsed() < PATIENCE => {
                tracing::warn!(%error, "what is set aside cannot be read: nothing is served meanwhile");
                failed = Some(None);
            }
            Err(error) => failed = Some(Some(Failure::Read(error.to_string()))),
        }
        // What the engine wants is of use once it knows what is stored.
        let wanted = aside.borrow_and_update().clone();
        let leads_now = *leads.borrow_and_update();
        if failed.is_none()
            && wanted.number == number
            && let Some(Read { version, quarantine }) = &known
        {
            let wanted = quarantine.with(&wanted.entries, Timestamp::now()).within(MAX_BYTES);
            if leads_now && wanted != *quarantine {
                failed = match write(&store, &wanted, version.as_deref()).await {
                    Ok(_) => {
                        tracing::info!(objects = wanted.entries.len(), "what is set aside is stored");
                        (wait, failure) = (None, None);
                        continue;
                    }
                    // Others write too: all the same one waits before one reads again.
                    Err(ReadError::Store(StoreError::Conflict)) => Some(None),
                    Err(error) => Some(Some(Failure::Write(error.to_string()))),
                };
            } else if failure.take().is_some() {
                // What could not be written need not be any more.
                number += 1;
                let quarantine = Ok(quarantine.clone());
                if told.send(StoredQuarantine { number, quarantine }).await.is_err() {
                    return;
                }
            }
        }
        wait = match failed {
            None => None,
            Some(why) => {
                if let Some(why) = why.filter(|why| failure.as_ref() != Some(why)) {
                    let (Failure::Read(words) | Failure::Write(words)) = &why;
                    tracing::warn!(
                        why = words,
                        "what is set aside cannot be read or stored; it holds as long as this process lives"
                    );
                    // What cannot be written is known none the less.
                    number += u64::from(matches!(why, Failure::Read(_)));
                    if told.send(StoredQuarantine { number, quarantine: Err(words.clone()) }).await.is_err() {
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
    use std::{
        collections::BTreeMap,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
    };

    use records::{Entry, Stored, folder::Folder};

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

    /// A place that cannot be written, or not be read at first.
    struct Failing {
        folder: Folder,
        reads: AtomicUsize,
        writes: Arc<AtomicUsize>,
        unread: usize,
        conflict: bool,
    }

    impl Store for Failing {
        async fn list(&self, kind: RecordKind) -> Result<Vec<Stored>, StoreError> {
            if self.reads.fetch_add(1, Ordering::SeqCst) < self.unread {
                return Err(StoreError::Other("not now".to_owned()));
            }
            self.folder.list(kind).await
        }

        async fn replace(&self, _: RecordKind, _: &str, _: Vec<u8>, _: Option<&str>) -> Result<Stored, StoreError> {
            self.writes.fetch_add(1, Ordering::SeqCst);
            Err(if self.conflict { StoreError::Conflict } else { StoreError::Other("read-only".to_owned()) })
        }

        async fn delete(&self, _: RecordKind, _: &str, _: &str) -> Result<(), StoreError> {
            Ok(())
        }

        async fn changed(&self, _: RecordKind) {
            pending::<()>().await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_place_that_cannot_be_written_is_asked_ever_more_seldom() {
        for conflict in [false, true] {
            let folder = tempfile::tempdir().expect("a folder");
            let writes = Arc::new(AtomicUsize::new(0));
            let (reads, unread) = (AtomicUsize::new(0), 0);
            let store =
                Failing { folder: Folder::new(folder.path()), reads, writes: Arc::clone(&writes), unread, conflict };
            let (aside, wanted) = watch::channel(Aside::default());
            let (_leads, leading) = watch::channel(true);
            let (sender, mut told) = mpsc::channel(1);
            tokio::spawn(keep(store, wanted, leading, sender));
            let number = told.recv().await.expect("it works").number;
            aside.send_replace(Aside { number, entries: entries(&["a"]) });
            let told = timeout(Duration::from_mins(10), async {
                let told = told.recv().await;
                pending::<()>().await;
                told
            });
            assert!(told.await.is_err());
            let writes = writes.load(Ordering::SeqCst);
            assert!((6..20).contains(&writes), "{writes} in ten minutes");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_place_that_does_not_answer_at_first_is_waited_for() {
        for (unread, is_read) in [(3, true), (1000, false)] {
            let folder = tempfile::tempdir().expect("a folder");
            let (reads, writes) = (AtomicUsize::new(0), Arc::default());
            let store = Failing { folder: Folder::new(folder.path()), reads, writes, unread, conflict: false };
            let (_aside, wanted) = watch::channel(Aside::default());
            let (_leads, leading) = watch::channel(false);
            let (sender, mut told) = mpsc::channel(1);
            tokio::spawn(keep(store, wanted, leading, sender));
            let told = timeout(3 * PATIENCE, told.recv()).await.expect("in time").expect("it works");
            assert_eq!(told.quarantine.is_ok(), is_read);
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
