//! What the task reacts to, and how it is asked.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use api::ObjectId;
use cluster::watch::Observed;
use records::{Entry, Quarantine, Verdict, Verdicts};
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;
use translate::{LoginSeed, Translator};

use super::{
    ClusterSource, EditionEvent,
    isolation::{Isolated, Reviewed},
};
use crate::files::{FileProblem, Update};

/// How many events of a handle wait at most before their senders do.
const QUEUE: usize = 1024;

/// Something the task reacts to.
pub enum Event {
    /// Files changed.
    Files(Update),
    /// Objects of a cluster changed.
    Cluster(Vec<Observed>),
    /// The authorities changed that proxies shall trust, in PEM.
    Authorities(Arc<str>),
    /// What logins are proved by, or that it cannot be read.
    LoginSeed(Option<LoginSeed>),
    /// Which objects are set aside, as it is stored, or why that cannot be read.
    Quarantine(StoredRecord<Quarantine>),
    /// What proxies refused, likewise.
    Verdicts(StoredRecord<Verdicts>),
    /// It was looked who is to blame for what a proxy refused.
    Isolated(Isolated),
    /// An Envoy was asked anew about what another version refused.
    Reviewed(Reviewed),
    /// What is kept of trees, as it is stored.
    Edition(EditionEvent),
    /// Time to look whether objects that are set aside have waited long enough.
    RetryQuarantined,
    /// What runs the proxies of a Gateway could not be applied, or all of it could.
    Applied(cluster::apply::Report),
    /// A proxy connected, acknowledged or refused something, or left.
    Proxy(xds::Event),
    /// Time to look whether ports can be bound that could not.
    RecheckPorts,
    /// More is known of what was to be judged.
    Judged,
    /// Time to look at what waits for Envoy's word.
    RecheckWaiting,
    /// A question.
    Ask(Question),
}

impl Event {
    /// The source as metrics call it, and how many events it counts for; none for what is no event of a source.
    pub(super) fn source(&self) -> Option<(&'static str, usize)> {
        match self {
            Self::Files(update) => Some(("files", update.changes.len())),
            Self::Cluster(observed) => Some(("cluster", observed.len())),
            Self::Authorities(_) | Self::LoginSeed(_) => Some(("identity", 1)),
            Self::Quarantine(_) | Self::Verdicts(_) | Self::Edition(_) => Some(("records", 1)),
            Self::Applied(_) => Some(("deployer", 1)),
            Self::Proxy(_) => Some(("xds", 1)),
            Self::Isolated(_)
            | Self::Reviewed(_)
            | Self::RecheckPorts
            | Self::RetryQuarantined
            | Self::Judged
            | Self::RecheckWaiting
            | Self::Ask(_) => None,
        }
    }
}

/// A record as it is stored.
#[derive(Clone, Debug)]
pub struct StoredRecord<R> {
    /// Counts what is told.
    pub number: u64,
    /// What is stored, or why that cannot be read.
    pub record: Result<R, String>,
}

/// What the engine has to be stored of a record.
#[derive(Clone, Debug, Default)]
pub struct Storing<T> {
    /// The number of what it knew then: none where that could not be read.
    pub number: u64,
    /// What shall be in it.
    pub wanted: T,
}

/// Which objects the engine has set aside: the entries of this release.
pub type Aside = Arc<BTreeMap<ObjectId, Entry>>;

/// What proxies refused.
#[derive(Clone, Debug, Default)]
pub struct Refusals {
    /// What was found since, by its hash.
    pub found: Arc<BTreeMap<String, Verdict>>,
    /// Of what is stored, what something meets; none where nobody has looked yet.
    pub used: Option<Arc<BTreeSet<String>>>,
    /// The versions of the proxies that are connected.
    pub proxies: BTreeSet<String>,
    /// What the Envoy says that judges here.
    pub judge: Option<Overruling>,
}

/// An Envoy that judges, and what it takes of that which another version refused.
#[derive(Clone, Debug, Default)]
pub struct Overruling {
    /// Its version.
    pub version: String,
    /// What it takes, by its hash.
    pub accepts: BTreeSet<String>,
}

/// A question to the owner of the translator.
pub type Question = Box<dyn FnOnce(&View<'_>) + Send>;

/// What can be asked about, settled.
pub struct View<'a> {
    /// The translator.
    pub translator: &'a Translator,
    /// What is wrong with files.
    pub file_problems: &'a [FileProblem],
    /// Why records cannot be read, a line each; empty if they can.
    pub unreadable_records: String,
    /// What is to be known of what waits for Envoy's word, a line each; empty where nobody is asked.
    pub waiting: String,
    /// The cluster, where that is the source.
    pub cluster: Option<&'a ClusterSource>,
}

/// The task is gone; the process is about to end.
#[derive(Debug, thiserror::Error)]
#[error("the engine has stopped")]
pub struct Stopped;

/// Sends events to the task. Clones lead to the same one.
#[derive(Clone)]
pub struct EngineHandle(mpsc::Sender<Event>);

impl EngineHandle {
    /// Hands over an event; waits while the task is far behind.
    pub async fn send(&self, event: Event) -> Result<(), Stopped> {
        self.0.send(event).await.map_err(|_| Stopped)
    }

    /// The same, from a thread that may block.
    pub fn send_blocking(&self, event: Event) -> Result<(), Stopped> {
        self.0.blocking_send(event).map_err(|_| Stopped)
    }

    /// Asks about what is there once all events that were sent before are settled.
    pub async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&View<'_>) -> T + Send + 'static,
    ) -> Result<T, Stopped> {
        let (sender, answer) = oneshot::channel();
        // The receiver may be gone.
        self.send(Event::Ask(Box::new(move |view| drop(sender.send(question(view)))))).await?;
        answer.await.map_err(|_| Stopped)
    }
}

/// A handle, and the events that are sent by it and its clones, which end with the last of them.
pub fn channel() -> (EngineHandle, ReceiverStream<Event>) {
    let (sender, receiver) = mpsc::channel(QUEUE);
    (EngineHandle(sender), ReceiverStream::new(receiver))
}
