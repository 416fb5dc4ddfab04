//! What a cluster holds at a moment, for commands that ask once.
//!
//! What cannot be read is never taken for what is not there: a kind whose list is refused, or does not come in time, is
//! reported with the reason, and it is up to the caller whether what is left is worth anything.

pub mod definitions;
mod probe;
pub mod report;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use api::{Kind, ObjectId};
use cluster::{
    status::foreign_ancestors,
    watch::{self, Limits, Observed, Options},
};
use ir::{Settings, settings::PortMapping};
use tokio::{
    sync::mpsc,
    time::{Instant, timeout_at},
};
use translate::{Change, Deploying, LoginSeed};

use crate::guarded::Guarded;

pub use probe::{Refusal, words};

/// How long a kind must be not found before it is absent, where definitions may not be read.
const DOUBT: Duration = Duration::from_secs(1);

/// Why nothing of a cluster can be read.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// There is no way to the API server.
    #[error("cannot make a client of the API server: {0}")]
    Client(#[from] Box<kube::Error>),
    /// Nobody answers.
    #[error("the API server {server} cannot be reached: {why}")]
    Unreachable {
        /// Its URL.
        server: String,
        /// Why not.
        why: String,
    },
    /// It does not authenticate the client.
    #[error("the API server {server} does not know who you are: {why}")]
    Unauthorized {
        /// Its URL.
        server: String,
        /// Its message.
        why: String,
    },
}

/// What a cluster holds, settled.
pub struct ClusterSnapshot {
    /// As the controller would have it.
    pub translator: Guarded,
    /// The kinds of which not everything could be read, and why.
    pub unread: BTreeMap<Kind, String>,
    /// Whatever was read; of Secrets, those to which others refer.
    pub objects: BTreeSet<ObjectId>,
    /// Objects that cannot be decoded although the schema let them through, and why.
    pub undecodable: BTreeMap<ObjectId, String>,
}

/// The settings of a controller whose Gateways have pods of their own: these may not bind low ports.
pub fn in_cluster(settings: Settings) -> Settings {
    Settings { shared_host: false, ports: PortMapping::Mapped, ..settings }
}

/// Reads a cluster once. A list that fails is asked for again, as late as the API server wants it, until `request_timeout` is
/// over; one that is forbidden is not.
pub async fn read(
    config: kube::Config,
    settings: Settings,
    request_timeout: Duration,
) -> Result<ClusterSnapshot, SnapshotError> {
    let deadline = Instant::now() + request_timeout;
    let server = config.cluster_url.to_string();
    let client = watch::client(config).map_err(Box::new)?;
    let controller_name = settings.controller_name.clone();
    let mut guarded = Guarded::new(in_cluster(settings));
    guarded.translator_mut().set_deploying(Some(Deploying::dry_run()));
    guarded.translator_mut().set_login_seed(Some(LoginSeed::unserved()));
    let mut reading = Reading::new(guarded, controller_name);
    for (kind, why) in probe::refused(&client, &server, deadline).await? {
        reading.refused(kind, why);
    }
    let kinds = reading.awaited.clone();
    // Whoever waits for an answer has not the time that a controller has, and has asked for each kind once already.
    let limits =
        Limits { doubt: DOUBT, backoff_max: request_timeout.min(Limits::default().backoff_max), ..Limits::default() };
    let (sink, mut observed) = mpsc::channel(64);
    let watching = watch::start(client, Options { kinds, limits, ..Options::default() }, sink);
    while !reading.awaited.is_empty() {
        match timeout_at(deadline, observed.recv()).await {
            Ok(Some(batch)) => batch.into_iter().for_each(|observed| reading.take(observed)),
            Ok(None) | Err(_) => break,
        }
    }
    drop(watching);
    Ok(reading.end(request_timeout))
}

/// A snapshot that is not complete yet.
struct Reading {
    snapshot: ClusterSnapshot,
    /// The controller that is asked about.
    controller_name: Arc<str>,
    awaited: BTreeSet<Kind>,
    /// Those of them whose list failed last time.
    failing: BTreeMap<Kind, String>,
}

impl Reading {
    fn new(translator: Guarded, controller_name: Arc<str>) -> Self {
        let snapshot = ClusterSnapshot {
            translator,
            unread: BTreeMap::new(),
            objects: BTreeSet::new(),
            undecodable: BTreeMap::new(),
        };
        Self { snapshot, controller_name, awaited: Kind::ALL.iter().copied().collect(), failing: BTreeMap::new() }
    }

    fn refused(&mut self, kind: Kind, why: String) {
        self.awaited.remove(&kind);
        self.snapshot.unread.insert(kind, why);
    }

    fn take(&mut self, observed: Observed) {
        match observed {
            Observed::Put { object, stored, version } => {
                let id = object.id();
                if let Some(stored) = stored.filter(|_| id.kind == Kind::BackendTlsPolicy) {
                    let foreign = foreign_ancestors(&stored, &self.controller_name);
                    self.snapshot.translator.translator_mut().set_foreign_ancestors(&id, foreign);
                }
                self.snapshot.undecodable.remove(&id);
                self.snapshot.objects.insert(id);
                self.snapshot.translator.apply(Change::Put(object), version);
            }
            Observed::Remove(id) => {
                self.snapshot.objects.remove(&id);
                self.snapshot.undecodable.remove(&id);
                self.snapshot.translator.apply(Change::Remove(id), 0);
            }
            Observed::Synced(kind) => self.known(kind, false),
            Observed::Absent(kind) => self.known(kind, true),
            Observed::Stale { kind, why } => _ = self.failing.insert(kind, why),
            Observed::Fresh(kind) => _ = self.failing.remove(&kind),
            // It was just put.
            Observed::Undecodable { refused: true, .. } => {}
            Observed::Undecodable { id, why, refused: false } => {
                self.snapshot.objects.insert(id.clone());
                self.snapshot.undecodable.insert(id, format!("it cannot be decoded: {why}"));
            }
            Observed::Unreadable { id, why } => {
                self.snapshot.objects.insert(id.clone());
                self.snapshot.undecodable.insert(id, format!("it cannot be read: {why}"));
            }
        }
    }

    fn known(&mut self, kind: Kind, is_absent: bool) {
        self.awaited.remove(&kind);
        self.failing.remove(&kind);
        self.snapshot.translator.translator_mut().set_absent(kind, is_absent);
    }

    fn end(self, request_timeout: Duration) -> ClusterSnapshot {
        let Self { mut snapshot, awaited, mut failing, .. } = self;
        for kind in awaited {
            let why = failing.remove(&kind);
            let why = why.unwrap_or_else(|| format!("the list was not complete within {request_timeout:?}"));
            snapshot.unread.insert(kind, why);
        }
        snapshot.translator.settle();
        snapshot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

    fn reading() -> Reading {
        let settings = Settings::default();
        let controller_name = settings.controller_name.clone();
        Reading::new(Guarded::new(settings), controller_name)
    }

    fn stale(kind: Kind, why: &str) -> Observed {
        Observed::Stale { kind, why: why.into() }
    }

    fn all_but(kind: Kind) -> impl Iterator<Item = Observed> {
        Kind::ALL.iter().copied().filter(move |other| *other != kind).map(Observed::Synced)
    }

    #[test]
    fn a_list_that_failed_at_first_and_came_then_is_no_fault() {
        let mut reading = reading();
        reading.take(stale(Kind::Secret, "the API server answered 429"));
        all_but(Kind::Secret).for_each(|observed| reading.take(observed));
        assert_eq!(reading.awaited, [Kind::Secret].into(), "it is waited for");
        reading.take(Observed::Synced(Kind::Secret));
        assert!(reading.awaited.is_empty());
        assert_eq!(reading.end(REQUEST_TIMEOUT).unread, [].into());
    }

    #[test]
    fn what_did_not_come_in_time_is_reported_with_the_reason() {
        let mut reading = reading();
        all_but(Kind::Secret).for_each(|observed| reading.take(observed));
        let slow = reading.end(REQUEST_TIMEOUT).unread;
        assert_eq!(slow, [(Kind::Secret, "the list was not complete within 30s".to_owned())].into());

        let mut reading = super::tests::reading();
        reading.take(stale(Kind::Secret, "the API server answered 500"));
        reading.take(stale(Kind::Secret, "the API server answered 429"));
        all_but(Kind::Secret).for_each(|observed| reading.take(observed));
        let busy = reading.end(REQUEST_TIMEOUT).unread;
        assert_eq!(busy, [(Kind::Secret, "the API server answered 429".to_owned())].into());
    }

    #[test]
    fn a_kind_that_is_not_served_is_none_that_could_not_be_read() {
        let mut reading = reading();
        reading.refused(Kind::Secret, "forbidden".into());
        all_but(Kind::Secret).for_each(|observed| match observed {
            Observed::Synced(kind) => reading.take(Observed::Absent(kind)),
            other => reading.take(other),
        });
        assert!(reading.awaited.is_empty());
        assert_eq!(reading.end(REQUEST_TIMEOUT).unread, [(Kind::Secret, "forbidden".to_owned())].into());
    }
}
