//! Somebody who listens to the watches of a cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use api::{Kind, Object, ObjectId};
use cluster::watch::{self, Handle, Limits, Observed, Options, Stored};
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};
use portcullis_tests::api_server::ApiServer;
use portcullis_tests::wait::TIMEOUT;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

/// What was observed, taken together.
pub(crate) struct Seen {
    pub(crate) objects: BTreeMap<ObjectId, Object>,
    pub(crate) stored: BTreeMap<ObjectId, Stored>,
    pub(crate) synced: BTreeSet<Kind>,
    pub(crate) absent: BTreeSet<Kind>,
    pub(crate) stale: BTreeMap<Kind, String>,
    pub(crate) undecodable: BTreeMap<ObjectId, String>,
    /// Everything in the order in which it came, a word or two each.
    pub(crate) log: Vec<String>,
    inbox: mpsc::Receiver<Vec<Observed>>,
    _watch: Handle,
}

/// Waits that suit a test.
pub(crate) const LIMITS: Limits = Limits {
    answer: Duration::from_secs(5),
    idle: Duration::from_secs(3),
    settle: Duration::from_millis(300),
    backoff_min: Duration::from_millis(50),
    backoff_max: Duration::from_millis(500),
    doubt: Duration::from_secs(2),
    absent_poll: Duration::from_millis(500),
};

/// Options with such waits.
pub(crate) fn options(kinds: &[Kind]) -> Options {
    Options { kinds: kinds.iter().copied().collect(), limits: LIMITS, ..Options::default() }
}

impl Seen {
    /// Begins to watch.
    pub(crate) async fn start(server: &ApiServer, options: Options) -> Result<Self> {
        Self::start_by(server, options, None).await
    }

    /// The same by way of another address.
    pub(crate) async fn start_by(server: &ApiServer, options: Options, address: Option<SocketAddr>) -> Result<Self> {
        let kubeconfig = Kubeconfig::read_from(server.kubeconfig())?;
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        if let Some(address) = address {
            config.cluster_url = format!("https://{address}").parse()?;
        }
        Ok(Self::listen(watch::client(config)?, options))
    }

    /// The same with a client.
    pub(crate) fn listen(client: kube::Client, options: Options) -> Self {
        let (sink, inbox) = mpsc::channel(16);
        Self {
            objects: BTreeMap::new(),
            stored: BTreeMap::new(),
            synced: BTreeSet::new(),
            absent: BTreeSet::new(),
            stale: BTreeMap::new(),
            undecodable: BTreeMap::new(),
            log: Vec::new(),
            inbox,
            _watch: watch::start(client, options, sink),
        }
    }

    /// Listens until `condition` holds.
    pub(crate) async fn until(&mut self, what: &str, condition: impl Fn(&Self) -> bool) -> Result<()> {
        let until = Instant::now() + TIMEOUT;
        while !condition(self) {
            let batch = timeout_at(until, self.inbox.recv()).await;
            let batch = batch.map_err(|_| anyhow!("waited for {what}: {:#?}", self.log))?;
            for observed in batch.with_context(|| format!("the watches ended before {what}"))? {
                self.see(observed);
            }
        }
        Ok(())
    }

    /// Listens until these kinds are synced.
    pub(crate) async fn until_synced(&mut self, kinds: &[Kind]) -> Result<()> {
        self.until("everything", |seen| kinds.iter().all(|kind| seen.synced.contains(kind))).await
    }

    /// Listens until the object is known.
    pub(crate) async fn until_put(&mut self, id: &ObjectId) -> Result<()> {
        self.until(&id.to_string(), |seen| seen.objects.contains_key(id)).await
    }

    /// Listens until the object is not known.
    pub(crate) async fn until_gone(&mut self, id: &ObjectId) -> Result<()> {
        self.until(&format!("no {id}"), |seen| !seen.objects.contains_key(id)).await
    }

    /// Listens until every watch works.
    pub(crate) async fn until_fresh(&mut self) -> Result<()> {
        self.until("watches that work", |seen| seen.stale.is_empty()).await
    }

    /// What came since this was last called.
    pub(crate) fn news(&mut self) -> Vec<String> {
        std::mem::take(&mut self.log)
    }

    fn see(&mut self, observed: Observed) {
        match observed {
            Observed::Put { object, stored, .. } => {
                let id = object.id();
                self.log.push(format!("put {id}"));
                self.undecodable.remove(&id);
                self.stored.extend(stored.map(|stored| (id.clone(), stored)));
                self.objects.insert(id, object);
            }
            Observed::Remove(id) => {
                self.log.push(format!("remove {id}"));
                self.undecodable.remove(&id);
                self.stored.remove(&id);
                self.objects.remove(&id);
            }
            Observed::Synced(kind) => {
                self.log.push(format!("synced {kind}"));
                self.absent.remove(&kind);
                self.synced.insert(kind);
            }
            Observed::Absent(kind) => {
                self.log.push(format!("absent {kind}"));
                self.synced.remove(&kind);
                self.absent.insert(kind);
            }
            Observed::Stale { kind, why } => {
                self.log.push(format!("stale {kind}: {why}"));
                self.stale.insert(kind, why);
            }
            Observed::Fresh(kind) => {
                self.log.push(format!("fresh {kind}"));
                self.stale.remove(&kind);
            }
            Observed::Undecodable { id, why, .. } => {
                self.log.push(format!("undecodable {id}"));
                self.undecodable.insert(id, why);
            }
            Observed::Unreadable { id, .. } => self.log.push(format!("unreadable {id}")),
        }
    }
}
