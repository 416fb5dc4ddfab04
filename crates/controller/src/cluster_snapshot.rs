//! What a cluster holds at a moment, for who asks once.

use std::{collections::BTreeMap, time::Duration};

use api::Kind;
use cluster::watch::{self, Observed, Options};
use ir::{Settings, settings::PortMapping};
use tokio::{sync::mpsc, time::timeout};
use translate::{Change, Translator};

/// How long an API server may take to tell everything.
const PATIENCE: Duration = Duration::from_mins(1);

/// Why a cluster cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// There is no way to the API server.
    #[error("cannot make a client of the API server: {0}")]
    Client(#[from] Box<kube::Error>),
    /// Not everything was told in time.
    #[error("the API server did not tell everything within {} s", PATIENCE.as_secs())]
    Slow,
    /// Nothing at all can be read.
    #[error("nothing can be read: {0}")]
    Nothing(String),
}

/// What a cluster holds, settled, and which kinds could not be read, with the reason.
pub struct ClusterSnapshot {
    /// As the controller would have it.
    pub translator: Translator,
    /// What is missing from it.
    pub unread: BTreeMap<Kind, String>,
}

/// The settings of a controller whose Gateways have pods of their own: these may not bind low ports.
pub fn in_cluster(settings: Settings) -> Settings {
    Settings { shared_host: false, ports: PortMapping::Mapped, ..settings }
}

/// Reads a cluster once.
pub async fn read(config: kube::Config, settings: Settings) -> Result<ClusterSnapshot, SnapshotError> {
    let client = watch::client(config).map_err(Box::new)?;
    let mut translator = Translator::new(in_cluster(settings));
    let mut unread = BTreeMap::new();
    let mut awaited: std::collections::BTreeSet<_> = Kind::ALL.iter().copied().collect();
    let (sink, mut observed) = mpsc::channel(64);
    let watching = watch::start(client, Options::default(), sink);
    let everything = async {
        while !awaited.is_empty() {
            let Some(batch) = observed.recv().await else { return };
            for observed in batch {
                match observed {
                    Observed::Put { object, .. } => translator.apply(Change::Put(object)),
                    Observed::Remove(id) => translator.apply(Change::Remove(id)),
                    Observed::Synced(kind) | Observed::Absent(kind) => {
                        awaited.remove(&kind);
                        unread.remove(&kind);
                    }
                    Observed::Stale { kind, why } => {
                        awaited.remove(&kind);
                        unread.insert(kind, why);
                    }
                    Observed::Fresh(_) | Observed::Undecodable { .. } => {}
                }
            }
        }
    };
    timeout(PATIENCE, everything).await.map_err(|_| SnapshotError::Slow)?;
    drop(watching);
    if unread.len() == Kind::ALL.len() {
        return Err(SnapshotError::Nothing(unread.into_values().next().unwrap_or_default()));
    }
    translator.settle();
    Ok(ClusterSnapshot { translator, unread })
}
