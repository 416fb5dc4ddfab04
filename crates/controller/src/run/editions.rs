//! Keeps what is kept of trees of routes: what is stored goes to the engine, on every replica, and what the engine wants kept is
//! stored, by the leader alone.
//!
//! Each root by itself: one whose edition cannot be written is tried again later, and keeps nobody else waiting. A head is
//! written in the place of the one that whoever wanted that knew, and of no other.

mod known;
mod needs;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use cluster::watch::Kept;
use futures::future::pending;
use jiff::Timestamp;
use records::{
    RecordKind, Store, StoreError, Within,
    edition::{self, EPOCH, Epoch, Head, Part, is_intact},
    format,
};
use tokio::{
    sync::{
        mpsc::{self, error::SendError},
        watch,
    },
    task::JoinHandle,
    time::{Instant, sleep, sleep_until},
};

use self::{
    known::{Known, KnownHead, State},
    needs::Needs,
};
use crate::engine_task::{EditionEvent, Outcome, StoredEdition, Wanted, Wants, WrittenEdition};

/// How long the place of records may take to answer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long one waits after a failure: the first time, and at most.
const WAIT: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));
/// So long the engine, which serves nothing meanwhile, waits at its start for a place that does not answer.
const PATIENCE: Duration = Duration::from_mins(1);

/// What a place asks of those who write there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manners {
    /// The time between two editions.
    pub(super) pace: Duration,
    /// How long parts stay of which no head has need, since others may still read them.
    pub(super) keep_parts: Duration,
    /// How often it is looked for them.
    pub(super) look_for_parts: Duration,
}

impl Manners {
    /// Of a folder that one process has.
    pub(super) const FOLDER: Self =
        Self { pace: Duration::ZERO, keep_parts: Duration::ZERO, look_for_parts: Duration::from_secs(1) };
    /// Of a cluster's API server.
    pub(super) const CLUSTER: Self = Self {
        pace: Duration::from_millis(200),
        keep_parts: Duration::from_mins(10),
        look_for_parts: Duration::from_mins(1),
    };
}

/// Through what is kept of trees is said between the engine and whoever stores it.
pub(super) struct KeepingTrees {
    /// What shall be stored.
    pub(super) wants: watch::Receiver<Wants>,
    /// What is stored.
    pub(super) told: mpsc::Sender<EditionEvent>,
}

impl KeepingTrees {
    /// Begins in a place. It must be called within a tokio runtime.
    pub(super) fn start(self, store: impl Store, manners: Manners, leading: &watch::Receiver<bool>) -> JoinHandle<()> {
        // Of files all is read.
        self.start_telling(store, manners, leading, watch::Sender::new(None))
    }

    /// The same where what editions need is to be read: `needed` is what that is, once it is known.
    pub(super) fn start_telling(
        self,
        store: impl Store,
        manners: Manners,
        leading: &watch::Receiver<bool>,
        needed: watch::Sender<Option<Arc<Kept>>>,
    ) -> JoinHandle<()> {
        tokio::spawn(keep(store, manners, self.wants, leading.clone(), self.told, Needs::new(needed)))
    }
}

/// Why an edition is not stored.
#[derive(Debug, thiserror::Error)]
enum WriteError {
    #[error("something else is stored than whoever wanted it knew")]
    Stale,
    #[error("{0}")]
    Store(#[from] StoreError),
}

/// What was done for a record, or failed.
#[derive(Debug, Default)]
struct Attempt {
    /// The number of what was done last.
    done: u64,
    /// After a failure, when it is tried again, and how long it waits then.
    again: Option<(Instant, Duration)>,
}

/// Ends all that is kept: nobody sees to it that it stays what it was.
///
/// # Errors
/// Something of it cannot be removed, so that it would be taken for what is kept later.
pub(super) async fn end_all(store: &impl Store) -> Result<(), StoreError> {
    for kind in [RecordKind::Edition, RecordKind::EditionPart] {
        for stored in store.list(kind).await? {
            store.delete(kind, &stored.name, &stored.version).await?;
            if kind == RecordKind::Edition && stored.name != EPOCH {
                tracing::warn!(
                    record = stored.name,
                    "what was kept of a tree of routes has ended, since nothing is kept any more"
                );
            }
        }
    }
    Ok(())
}

/// The same where one may not remove it: another epoch begins, once this process leads, so that nothing of before holds.
pub(super) async fn end_epoch(store: impl Store, mut leads: watch::Receiver<bool>) {
    let store = Within { store, timeout: TIMEOUT };
    if leads.wait_for(|leads| *leads).await.is_err() {
        return;
    }
    let mut wait = WAIT.0;
    loop {
        let ended = async {
            let kept = store.stamps(RecordKind::Edition).await?.into_keys().filter(|name| name != EPOCH).count();
            let stored = store.get(RecordKind::Edition, EPOCH).await?;
            // Without an epoch no edition holds.
            if let Some(stored) = stored.filter(|_| kept > 0) {
                let data = format::write(RecordKind::Edition, &Epoch::begin(Timestamp::now()));
                store.replace(RecordKind::Edition, EPOCH, data, Some(&stored.version)).await?;
                tracing::warn!(
                    trees = kept,
                    "what was kept of trees of routes has ended, since nothing is kept any more (freeze.enabled); its Secrets \
                     are there still: kubectl delete secret -l 'portcullis.dev/record in (edition, edition-part)'"
                );
            }
            Ok::<_, StoreError>(())
        };
        match ended.await {
            Ok(()) => return,
            Err(error) => tracing::warn!(%error, "what was kept of trees cannot be ended; it is tried again"),
        }
        sleep(wait).await;
        wait = (2 * wait).min(WAIT.1);
    }
}

/// Works until nobody listens. `wants` is what shall be stored while one `leads`.
async fn keep(
    store: impl Store,
    manners: Manners,
    mut wants: watch::Receiver<Wants>,
    mut leads: watch::Receiver<bool>,
    told: mpsc::Sender<EditionEvent>,
    needs: Needs,
) {
    let mut keeper = Keeper::new(store, manners, told, needs);
    let started = Instant::now();
    let mut wait: Option<Duration> = None;
    loop {
        let wanted = wants.borrow_and_update().clone();
        let is_patient = !keeper.was_read && started.elapsed() < PATIENCE;
        let leads_now = *leads.borrow_and_update();
        let Ok(next) = keeper.turn(&wanted, leads_now, is_patient).await else { return };
        wait = keeper.failing.as_ref().map(|_| wait.map_or(WAIT.0, |wait| (2 * wait).min(WAIT.1)));
        let next = wait.map(|wait| Instant::now() + wait).or(next);
        let again = async {
            match next {
                Some(at) => sleep_until(at).await,
                None => pending().await,
            }
        };
        tokio::select! {
            () = again => {}
            () = keeper.store.changed(RecordKind::Edition), if wait.is_none() => keeper.is_stale = true,
            Ok(()) = wants.changed(), if wait.is_none() => {}
            Ok(()) = leads.changed(), if wait.is_none() => {}
            () = keeper.told.closed() => return,
        }
    }
}

/// Nobody listens any more.
struct Gone;

impl<T> From<SendError<T>> for Gone {
    fn from(_: SendError<T>) -> Self {
        Self
    }
}

/// Who keeps them.
struct Keeper<S> {
    store: Within<S>,
    manners: Manners,
    told: mpsc::Sender<EditionEvent>,
    needs: Needs,
    known: Known,
    /// By the name of the record.
    attempts: BTreeMap<String, Attempt>,
    leads: bool,
    /// Whether records were read, or nobody waits for that any more.
    was_read: bool,
    /// Whether what is known may be what is stored no longer.
    is_stale: bool,
    /// Why records cannot be read.
    failing: Option<String>,
    /// When an edition was written last.
    wrote: Option<Instant>,
    /// When it was last looked for parts, and since when there are some of which no head has need.
    looked: Option<Instant>,
    orphans: BTreeMap<String, Instant>,
}

impl<S: Store> Keeper<S> {
    fn new(store: S, manners: Manners, told: mpsc::Sender<EditionEvent>, needs: Needs) -> Self {
        Self {
            store: Within { store, timeout: TIMEOUT },
            manners,
            told,
            needs,
            known: Known::default(),
            attempts: BTreeMap::new(),
            leads: false,
            was_read: false,
            is_stale: true,
            failing: None,
            wrote: None,
            looked: None,
            orphans: BTreeMap::new(),
        }
    }

    /// Reads what changed and writes what is wanted. Gives when there is more to do, if there is.
    async fn turn(&mut self, wants: &Wants, leads: bool, is_patient: bool) -> Result<Option<Instant>, Gone> {
        if self.is_stale && !self.read(is_patient).await? {
            return Ok(None);
        }
        if leads != self.leads {
            self.leads = leads;
            self.told.send(EditionEvent::Leads(leads)).await?;
            // What was wanted before is wanted no more.
            return Ok(None);
        }
        if !leads {
            return Ok(None);
        }
        let mut next = self.write_all(wants).await?;
        let now = Instant::now();
        let due = self.looked.map_or(now, |looked| looked + self.manners.look_for_parts);
        if due <= now {
            self.looked = Some(now);
            if let Err(error) = self.look_for_parts().await {
                tracing::warn!(%error, "parts of what was kept of trees cannot be looked for");
            }
        } else {
            next = Some(next.map_or(due, |next| next.min(due)));
        }
        Ok(next)
    }

    /// Whether records could be read.
    async fn read(&mut self, is_patient: bool) -> Result<bool, Gone> {
        match self.known.refresh(&self.store).await {
            Ok(changed) => {
                self.is_stale = false;
                if !self.was_read || self.failing.take().is_some() || !changed.is_empty() {
                    self.was_read = true;
                    self.tell(changed).await?;
                }
                Ok(true)
            }
            Err(error) => {
                let why = error.to_string();
                if is_patient {
                    tracing::warn!(why, "what is kept of trees cannot be read: nothing is served meanwhile");
                } else if !self.was_read || self.failing.is_none() {
                    self.was_read = true;
                    self.needs.tell();
                    self.told.send(EditionEvent::Stored(Err(why.clone()))).await?;
                }
                self.failing = Some(why);
                Ok(false)
            }
        }
    }

    /// Tells what changed of what is stored. What it needs is read before it is served.
    async fn tell(&mut self, changed: Vec<StoredEdition>) -> Result<(), Gone> {
        let mut gone = Vec::new();
        for StoredEdition { record, edition } in &changed {
            match edition {
                Some(Ok(written)) => self.needs.put(record, Some(&written.edition)),
                _ => gone.push(record.clone()),
            }
        }
        self.needs.tell();
        self.told.send(EditionEvent::Stored(Ok(changed))).await?;
        for record in &gone {
            self.needs.put(record, None);
        }
        if !gone.is_empty() {
            self.needs.tell();
        }
        Ok(())
    }

    async fn write_all(&mut self, wants: &Wants) -> Result<Option<Instant>, Gone> {
        let mut next: Option<Instant> = None;
        self.attempts.retain(|record, _| wants.contains_key(record));
        for (record, wanted) in wants.iter() {
            let attempt = self.attempts.entry(record.clone()).or_default();
            if attempt.done == wanted.number {
                continue;
            }
            let free = self.wrote.map(|wrote| wrote + self.manners.pace);
            let due = [attempt.again.map(|(at, _)| at), free].into_iter().flatten().max();
            if let Some(due) = due.filter(|due| *due > Instant::now()) {
                next = Some(next.map_or(due, |next| next.min(due)));
                continue;
            }
            let written = self.write(record, wanted).await;
            self.wrote = Some(Instant::now());
            let attempt = self.attempts.entry(record.clone()).or_default();
            let outcome = match written {
                Ok(stored) => {
                    (attempt.done, attempt.again) = (wanted.number, None);
                    self.tell(stored.into_iter().collect()).await?;
                    Outcome::Stored
                }
                Err(WriteError::Stale | WriteError::Store(StoreError::Conflict)) => {
                    (attempt.done, attempt.again) = (wanted.number, None);
                    self.is_stale = true;
                    // Whoever wanted it is told first what is stored instead.
                    self.read(false).await?;
                    Outcome::Stale
                }
                Err(error) => {
                    let wait = attempt.again.map_or(WAIT.0, |(_, wait)| (2 * wait).min(WAIT.1));
                    let at = Instant::now() + wait;
                    attempt.again = Some((at, wait));
                    next = Some(next.map_or(at, |next| next.min(at)));
                    Outcome::Failed(error.to_string())
                }
            };
            self.told.send(EditionEvent::Written { record: record.clone(), number: wanted.number, outcome }).await?;
        }
        Ok(next)
    }

    /// Has what is kept of a root be this, or nothing. Gives what changed of what is stored.
    async fn write(&mut self, record: &str, wanted: &Wanted) -> Result<Option<StoredEdition>, WriteError> {
        let known = self.known.heads.get(record);
        if wanted.parent.as_deref() != known.and_then(KnownHead::hash) {
            return Err(WriteError::Stale);
        }
        let version = known.map(|known| known.version.clone());
        let gone = StoredEdition { record: record.to_owned(), edition: None };
        let Some(wanted_edition) = &wanted.edition else {
            let Some(version) = version else { return Ok(None) };
            self.store.delete(RecordKind::Edition, record, &version).await?;
            self.known.heads.remove(record);
            self.known.forget_parts();
            self.looked = None;
            return Ok(Some(gone));
        };
        let WrittenEdition { edition, written } = wanted_edition;
        let (parent, epoch) = (wanted.parent.clone(), self.epoch().await?);
        let head = Head { parent, epoch, ..written.head.clone() };
        for Part { name, data, .. } in &written.parts {
            if !self.known.parts.contains_key(name) {
                self.write_part(name, data).await?;
            }
        }
        let stored = self.store.replace(RecordKind::Edition, record, head.data(), version.as_deref()).await?;
        let state = State::Readable(head.into());
        let known = KnownHead { stamp: String::new(), version: stored.version, state };
        self.known.heads.insert(record.to_owned(), known);
        self.known.learn(written, edition);
        self.known.forget_parts();
        self.looked = self.looked.filter(|_| !self.manners.keep_parts.is_zero());
        Ok(Some(StoredEdition { edition: Some(Ok(wanted_edition.clone())), ..gone }))
    }

    /// The epoch in which heads are written.
    async fn epoch(&mut self) -> Result<String, StoreError> {
        if let Some((_, epoch)) = self.known.epoch.as_ref().filter(|(_, epoch)| !epoch.epoch.is_empty()) {
            return Ok(epoch.epoch.clone());
        }
        let epoch = Epoch::begin(Timestamp::now());
        let stored = self.store.get(RecordKind::Edition, EPOCH).await?.map(|stored| stored.version);
        let data = format::write(RecordKind::Edition, &epoch);
        self.store.replace(RecordKind::Edition, EPOCH, data, stored.as_deref()).await?;
        self.known.epoch = Some((String::new(), epoch.clone()));
        Ok(epoch.epoch)
    }

    /// A part never changes: one that is there is right, or damaged.
    async fn write_part(&self, part: &str, data: &[u8]) -> Result<(), StoreError> {
        match self.store.replace(RecordKind::EditionPart, part, data.to_vec(), None).await {
            Err(StoreError::Conflict) => {}
            written => return written.map(drop),
        }
        let stored = self.store.get(RecordKind::EditionPart, part).await?;
        if let Some(stored) = stored.as_ref().filter(|stored| !is_intact(part, &stored.data)) {
            self.store.delete(RecordKind::EditionPart, part, &stored.version).await?;
        }
        match stored {
            Some(stored) if is_intact(part, &stored.data) => Ok(()),
            _ => self.store.replace(RecordKind::EditionPart, part, data.to_vec(), None).await.map(drop),
        }
    }

    /// Writes parts again that somebody removed, and removes what no head has need of: parts, and heads of another epoch.
    async fn look_for_parts(&mut self) -> Result<(), StoreError> {
        let void = self.known.heads.iter().filter(|(_, known)| matches!(known.state, State::Void));
        let void: Vec<_> = void.map(|(record, known)| (record.clone(), known.version.clone())).collect();
        for (record, version) in void {
            tracing::warn!(record, "what was kept of a tree has ended, since nothing was kept for a while");
            self.store.delete(RecordKind::Edition, &record, &version).await?;
            self.known.heads.remove(&record);
        }
        let stamps = self.store.stamps(RecordKind::EditionPart).await?;
        for (name, part) in self.known.parts.iter().filter(|(name, _)| !stamps.contains_key(*name)) {
            self.write_part(name, part.data()).await?;
        }
        let now = Instant::now();
        let is_unreadable =
            |head: &str| self.known.heads.get(head).is_some_and(|known| matches!(known.state, State::Unreadable(_)));
        let is_orphan = |part: &&String| {
            !self.known.parts.contains_key(*part) && !edition::head_of_part(part).is_some_and(is_unreadable)
        };
        let orphans: BTreeSet<_> = stamps.keys().filter(is_orphan).cloned().collect();
        self.orphans.retain(|part, _| orphans.contains(part));
        for part in orphans {
            let since = *self.orphans.entry(part.clone()).or_insert(now);
            if since + self.manners.keep_parts > now {
                continue;
            }
            if let Some(stored) = self.store.get(RecordKind::EditionPart, &part).await? {
                self.store.delete(RecordKind::EditionPart, &part, &stored.version).await?;
            }
            self.orphans.remove(&part);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
