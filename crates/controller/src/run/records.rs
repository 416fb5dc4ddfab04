//! Keeps records: what is stored goes to the engine, and what the engine wants is stored.

use std::time::Duration;

use futures::future::pending;
use jiff::Timestamp;
use records::{
    Quarantine, RecordKind, Store, StoreError, Unreadable, Verdicts, format, quarantine, store::MAX_BYTES, verdicts,
};
use serde::{Serialize, de::DeserializeOwned};
use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

use crate::engine_task::{Aside, Overruling, Refusals, StoredRecord, Storing};

/// How long the place of records may take to answer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long one waits after a failure: the first time, and at most.
const WAIT: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));
/// So long the engine, which serves nothing meanwhile, waits at its start for a place that does not answer.
const PATIENCE: Duration = Duration::from_mins(1);

/// A record of which there is one.
pub(super) trait Record: Clone + Default + PartialEq + Serialize + DeserializeOwned + Send + 'static {
    /// The kind.
    const KIND: RecordKind;
    /// The name.
    const NAME: &'static str;
    /// What it says: a clause.
    const WHAT: &'static str;

    /// What the engine has to say of it.
    type Wanted: Clone + Default + Send + Sync + 'static;

    /// What shall be stored where this is; `leads` is whether this replica leads.
    fn with(&self, wanted: &Self::Wanted, leads: bool) -> Self;
}

/// Written by the leader alone.
impl Record for Quarantine {
    const KIND: RecordKind = RecordKind::Quarantine;
    const NAME: &'static str = quarantine::NAME;
    const WHAT: &'static str = "what is set aside";

    type Wanted = Aside;

    fn with(&self, wanted: &Aside, leads: bool) -> Self {
        if leads { self.with(wanted, Timestamp::now()).within(MAX_BYTES) } else { self.clone() }
    }
}

/// Added to by each replica, as proxies refuse something of it. The leader forgets.
impl Record for Verdicts {
    const KIND: RecordKind = RecordKind::Verdicts;
    const NAME: &'static str = verdicts::NAME;
    const WHAT: &'static str = "what proxies refused";

    type Wanted = Refusals;

    fn with(&self, Refusals { found, used, proxies, judge }: &Refusals, leads: bool) -> Self {
        let now = Timestamp::now();
        let mut all = self.with(found, used.as_deref().filter(|_| leads), now);
        all.see(proxies, now);
        if let Some(Overruling { version, accepts }) = judge.as_ref().filter(|_| leads) {
            all.overrule(version, accepts, now);
        }
        all
    }
}

/// What is kept, and what becomes of it.
pub(super) struct Keeping {
    pub(super) aside: watch::Receiver<Storing<Aside>>,
    pub(super) quarantine: mpsc::Sender<StoredRecord<Quarantine>>,
    pub(super) refusals: watch::Receiver<Storing<Refusals>>,
    pub(super) verdicts: mpsc::Sender<StoredRecord<Verdicts>>,
}

impl Keeping {
    /// Begins, each in a place of its own. It must be called within a tokio runtime.
    pub(super) fn start<S: Store>(
        self,
        quarantine: S,
        verdicts: S,
        leading: &watch::Receiver<bool>,
    ) -> [JoinHandle<()>; 2] {
        [
            tokio::spawn(keep(quarantine, self.aside, leading.clone(), self.quarantine)),
            tokio::spawn(keep(verdicts, self.refusals, leading.clone(), self.verdicts)),
        ]
    }
}

/// A record as it was read: none where there is none yet.
#[derive(Clone, Debug, Default, PartialEq)]
struct Read<R> {
    version: Option<String>,
    record: R,
}

/// Why it was not read.
#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error("{0}")]
    Store(#[from] StoreError),
    #[error("{0}: {1}")]
    Unreadable(&'static str, Unreadable),
    #[error("no answer within {TIMEOUT:?}")]
    Timeout,
}

impl ReadError {
    /// Whether the same may be read later, with nobody's help.
    fn may_pass(&self) -> bool {
        !matches!(self, Self::Unreadable(..))
    }
}

/// What failed the last time, in words.
#[derive(Debug, PartialEq, Eq)]
enum Failure {
    Read(String),
    Write(String),
}

async fn read<R: Record>(store: &impl Store) -> Result<Read<R>, ReadError> {
    let all = timeout(TIMEOUT, store.list(R::KIND)).await.map_err(|_| ReadError::Timeout)??;
    let Some(stored) = all.into_iter().find(|stored| stored.name == R::NAME) else { return Ok(Read::default()) };
    let record = format::read(R::KIND, &stored.data).map_err(|error| ReadError::Unreadable(R::NAME, error))?;
    Ok(Read { record, version: Some(stored.version) })
}

async fn write<R: Record>(store: &impl Store, wanted: &R, version: Option<&str>) -> Result<String, ReadError> {
    let data = format::write(R::KIND, wanted);
    let written = timeout(TIMEOUT, store.replace(R::KIND, R::NAME, data, version)).await;
    Ok(written.map_err(|_| ReadError::Timeout)??.version)
}

/// Works until nobody listens. `storing` is what the engine wants, by what it knows of the store: what it was `told`.
pub(super) async fn keep<R: Record>(
    store: impl Store,
    mut storing: watch::Receiver<Storing<R::Wanted>>,
    mut leads: watch::Receiver<bool>,
    told: mpsc::Sender<StoredRecord<R>>,
) {
    let (started, what) = (Instant::now(), R::WHAT);
    let (mut known, mut failure) = (None, None::<Failure>);
    let (mut number, mut wait) = (0, None::<Duration>);
    loop {
        let mut failed = None;
        match read::<R>(&store).await {
            Ok(read) => {
                if known.as_ref() != Some(&read) || matches!(failure, Some(Failure::Read(_))) {
                    number += 1;
                    let record = Ok(read.record.clone());
                    if told.send(StoredRecord { number, record }).await.is_err() {
                        return;
                    }
                    (known, failure) = (Some(read), None);
                }
            }
            // What may be read the next time is waited for.
            Err(error) if known.is_none() && error.may_pass() && started.elapsed() < PATIENCE => {
                tracing::warn!(%error, "{what} cannot be read: nothing is served meanwhile");
                failed = Some(None);
            }
            Err(error) => failed = Some(Some(Failure::Read(error.to_string()))),
        }
        // What the engine wants is of use once it knows what is stored.
        let wanted = storing.borrow_and_update().clone();
        let leads_now = *leads.borrow_and_update();
        if failed.is_none()
            && wanted.number == number
            && let Some(Read { version, record }) = &known
        {
            let wanted = Record::with(record, &wanted.wanted, leads_now);
            if wanted != *record {
                failed = match write(&store, &wanted, version.as_deref()).await {
                    Ok(_) => {
                        tracing::info!("{what} is stored");
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
                let record = Ok(record.clone());
                if told.send(StoredRecord { number, record }).await.is_err() {
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
                        "{what} cannot be read or stored; it holds as long as this process lives"
                    );
                    // What cannot be written is known none the less.
                    number += u64::from(matches!(why, Failure::Read(_)));
                    if told.send(StoredRecord::<R> { number, record: Err(words.clone()) }).await.is_err() {
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
            () = store.changed(R::KIND), if wait.is_none() => {}
            Ok(()) = storing.changed(), if wait.is_none() => {}
            Ok(()) = leads.changed(), if wait.is_none() => {}
            () = told.closed() => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::{BTreeMap, BTreeSet},
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
    };

    use records::{Entry, Stored, folder::Folder};

    use super::*;

    const KIND: RecordKind = RecordKind::Quarantine;
    const NAME: &str = quarantine::NAME;

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
        aside: watch::Sender<Storing<Aside>>,
        leads: watch::Sender<bool>,
        told: mpsc::Receiver<StoredRecord<Quarantine>>,
        _folder: tempfile::TempDir,
    }

    impl World {
        fn new(leads: bool) -> Self {
            let folder = tempfile::tempdir().expect("a folder");
            Self::of(Folder::new(folder.path()), folder, leads)
        }

        fn of(store: Folder, folder: tempfile::TempDir, leads: bool) -> Self {
            let (aside, wanted) = watch::channel(Storing::default());
            let (leads, leading) = watch::channel(leads);
            let (sender, told) = mpsc::channel(1);
            tokio::spawn(keep::<Quarantine>(store.clone(), wanted, leading, sender));
            Self { folder: store, aside, leads, told, _folder: folder }
        }

        async fn told(&mut self) -> StoredRecord<Quarantine> {
            timeout(Duration::from_secs(20), self.told.recv()).await.expect("in time").expect("it works")
        }

        fn wants(&self, number: u64, names: &[&str]) {
            self.aside.send_replace(Storing { number, wanted: entries(names) });
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
            let (aside, wanted) = watch::channel(Storing::default());
            let (_leads, leading) = watch::channel(true);
            let (sender, mut told) = mpsc::channel(1);
            tokio::spawn(keep::<Quarantine>(store, wanted, leading, sender));
            let number = told.recv().await.expect("it works").number;
            aside.send_replace(Storing { number, wanted: entries(&["a"]) });
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
            let (_aside, wanted) = watch::channel(Storing::default());
            let (_leads, leading) = watch::channel(false);
            let (sender, mut told) = mpsc::channel(1);
            tokio::spawn(keep::<Quarantine>(store, wanted, leading, sender));
            let told = timeout(3 * PATIENCE, told.recv()).await.expect("in time").expect("it works");
            assert_eq!(told.record.is_ok(), is_read);
        }
    }

    #[tokio::test]
    async fn what_is_set_aside_is_stored_by_who_leads_and_told() {
        let mut world = World::new(false);
        let first = world.told().await;
        assert_eq!(first.record.as_ref().map(names), Ok(Vec::new()));
        world.wants(first.number, &["a"]);
        world.leads.send_replace(true);
        let second = world.told().await;
        assert_eq!(second.record.as_ref().map(names), Ok(vec!["a".to_owned()]));
        world.wants(second.number, &["a", "b"]);
        assert_eq!(world.told().await.record.as_ref().map(names), Ok(vec!["a".to_owned(), "b".to_owned()]));
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
        assert_eq!(told.record.as_ref().map(names), Ok(vec!["b".to_owned()]));
        world.wants(told.number, &["b", "c"]);
        assert_eq!(world.told().await.record.as_ref().map(names), Ok(vec!["b".to_owned(), "c".to_owned()]));
    }

    #[test]
    fn who_leads_forgets_what_another_version_takes_and_each_replica_says_whose_proxies_are_there() {
        let verdict = records::Verdict {
            part: verdicts::ROUTE.into(),
            kind: "HTTPRoute".into(),
            namespace: "apps".into(),
            name: "r".into(),
            gateway: "infra/edge".into(),
            version: "1.40.0".into(),
            how: "words".into(),
            words: "Envoy 1.40.0 refuses it: no".into(),
            since: Timestamp::UNIX_EPOCH,
            unused_since: None,
        };
        let long_ago = BTreeMap::from([("1.40.0".to_owned(), Timestamp::UNIX_EPOCH)]);
        let stored = Verdicts { entries: BTreeMap::from([("1".to_owned(), verdict)]), seen: long_ago };
        let accepts = ["1".to_owned()].into();
        let judge = |version: &str| Some(Overruling { version: version.into(), accepts: BTreeSet::clone(&accepts) });
        let gone = Refusals { judge: judge("1.41.0"), ..Refusals::default() };
        assert_eq!(Record::with(&stored, &gone, false), stored, "it follows");
        assert!(Record::with(&stored, &gone, true).entries.is_empty());
        let there = Refusals { proxies: ["1.40.0".to_owned()].into(), ..gone };
        for leads in [false, true] {
            let seen = Record::with(&stored, &there, leads);
            assert_eq!(seen.entries, stored.entries);
            assert!(seen.seen["1.40.0"] > Timestamp::UNIX_EPOCH);
        }
        let same = Refusals { judge: judge("1.40.0"), ..Refusals::default() };
        assert_eq!(Record::with(&stored, &same, true).entries, stored.entries);
    }

    #[tokio::test]
    async fn a_record_that_cannot_be_read_is_told_and_never_written_over() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Folder::new(folder.path());
        let newer = br#"{"format":2,"kind":"quarantine"}"#.to_vec();
        let stored = store.replace(KIND, NAME, newer.clone(), None).await.expect("written");
        let mut world = World::of(store, folder, true);
        let told = world.told().await;
        let why = told.record.expect_err("it is of a later release");
        assert!(why.contains("its format is 2"), "{why}");
        world.wants(told.number, &["a"]);
        assert_eq!(world.folder.list(KIND).await.expect("records")[0].data, newer);
        // It is forgotten by hand.
        world.folder.delete(KIND, NAME, &stored.version).await.expect("deleted");
        let told = world.told().await;
        assert_eq!(told.record.as_ref().map(names), Ok(Vec::new()));
        world.wants(told.number, &["a"]);
        assert_eq!(world.told().await.record.as_ref().map(names), Ok(vec!["a".to_owned()]));
    }
}
