//! Watches of every kind that is read.
//!
//! One watch a kind, or one a namespace and kind where only some namespaces may be read. Objects are converted to the
//! slim model when they arrive and are kept by nobody here: what is remembered of each is its name and a number for its
//! version, so that a relist can say what has gone and what is new.
//!
//! * `decoder` decodes what an API server writes.
//! * `plan` is how one watch goes on: what to ask next, when to wait, what an answer means. Without IO.
//! * `reflector` is the IO of one watch.
//! * `state` is what was observed of which object, and what a new event changes. Without IO.
//! * `event` is what a reflector sends.
//! * `contents` is what is read of objects because others refer to them. Without IO.
//! * `crds` is what is known of CustomResourceDefinitions.
//! * `coordinator` owns the state, starts reflectors and hands on what is observed.
//! * `labelled` is the watch of objects of which the metadata is enough, beside the others.
//!
//! What was observed last stays until an API server says otherwise: a server that is away takes nothing from anybody.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use api::{Kind, Object, ObjectId, meta::LabelSelector};
use serde_json::value::RawValue;
use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
};

mod contents;
mod coordinator;
mod crds;
mod decoder;
mod event;
mod labelled;
mod metrics;
mod plan;
mod reflector;
mod request;
mod state;

pub use self::contents::{Kept, Requirements};
pub use self::metrics::{ErrorLabels, KindLabel, Metrics};
pub use self::reflector::{causes, retry_after};
pub(crate) use self::{
    labelled::{MetadataEvent, watch_metadata},
    request::Labelled,
};

/// What became known about the objects of a cluster.
///
/// Of a kind that is [`Kind::is_read_by_reference`] nothing is reported but what others refer to, with the keys that they
/// need, and before they are reported themselves ([`api::references`]), unless it is `Unreadable`. A TrafficPolicy that is
/// new comes before its Secrets, and so does one before those of other namespaces, once everything of its kind was read:
/// it closes what it guards until they come.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "most are of the large variant")]
pub enum Observed {
    /// An object is there, or is now so.
    ///
    /// A policy that has never been decodable comes as what could be read of it, its targets, so that what it was to
    /// limit can be closed; [`api::violations`] says what is wrong with it.
    Put {
        /// The object.
        object: Object,
        /// For kinds whose status is written: what is stored beside the spec.
        stored: Option<Stored>,
        /// Greater than that of an object that was written before, of any kind.
        version: u64,
    },
    /// An object is gone, or is not to be read any more. Also reported of one that was only ever `Undecodable` or
    /// `Unreadable`.
    Remove(ObjectId),
    /// Everything of a kind was read once. Reported again after each relist, when all differences were.
    Synced(Kind),
    /// The kind is not served: its CRD is not there yet, or has gone, in which case its objects were removed before.
    Absent(Kind),
    /// The kind cannot be watched any more, and what was reported stays. Reported again if the reason changes.
    Stale {
        /// The kind.
        kind: Kind,
        /// Why, for people.
        why: String,
    },
    /// The kind is watched again.
    Fresh(Kind),
    /// An object that cannot be decoded although the schema let it through. What was read of it last stays.
    Undecodable {
        /// The object.
        id: ObjectId,
        /// Why, for its owner, without the object's name.
        why: String,
        /// Whether it was never decodable, and has just been `Put` as a policy with its targets, which is refused for
        /// the same reason.
        refused: bool,
    },
    /// An object to which others refer that cannot be read, for longer than [`Limits::answer`]. What was read of it last
    /// stays; if that is nothing, those who refer to it are reported without it. It is tried again, and `Put` or removed in
    /// the end.
    Unreadable {
        /// The object.
        id: ObjectId,
        /// Why, for people.
        why: String,
    },
}

/// What the API server holds beside the spec, for whoever writes the status.
#[derive(Clone, Debug)]
pub struct Stored {
    /// Tells an object from a later one of its name.
    pub uid: Arc<str>,
    /// The version, for optimistic locks.
    pub resource_version: Arc<str>,
    /// The status as it is stored.
    pub status: Option<Box<RawValue>>,
}

/// Which namespaces are read. Objects of the cluster, Namespaces apart, are always read.
#[derive(Clone, Debug, Default)]
pub enum Scope {
    /// All.
    #[default]
    All,
    /// Those whose Namespace has matching labels; objects come and go with the labels. Takes the right to list all
    /// namespaces.
    Selector(LabelSelector),
    /// These, with a watch for each and every kind: for a few of them, where nothing else may be read.
    Named(BTreeSet<Arc<str>>),
}

/// What is watched, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which namespaces.
    pub scope: Scope,
    /// Which kinds.
    pub kinds: BTreeSet<Kind>,
    /// Bounds in time.
    pub limits: Limits,
    /// What is counted.
    pub metrics: Metrics,
    /// What is needed by what is kept as it was, and is read whatever objects say by now. Nothing is read before that is known.
    pub kept: watch::Receiver<Option<Arc<Kept>>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            scope: Scope::default(),
            kinds: Kind::ALL.iter().copied().collect(),
            limits: Limits::default(),
            metrics: Metrics::default(),
            kept: watch::channel(Some(Arc::default())).1,
        }
    }
}

/// Bounds in time. The defaults suit every cluster; tests wait less long.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// In this time an API server begins to answer, and goes on with a list. For as long an object waits for one that it
    /// refers to and that cannot be read.
    pub answer: Duration,
    /// A watch on which nothing arrives for so long is made anew, for its connection may be dead. API servers send a
    /// bookmark about every minute. If nothing arrives on the new one either, everything is read again.
    pub idle: Duration,
    /// A watch that is quiet for so long after it began is a good one.
    pub settle: Duration,
    /// The first wait after a failure; each further one is twice as long.
    pub backoff_min: Duration,
    /// The longest wait after a failure, also if the server asks for more.
    pub backoff_max: Duration,
    /// How long a kind must be not found before it is absent where CRDs may not be read. Where they may, a kind is absent if
    /// its CRD is, and at no other time: its objects stay however long it is not found.
    pub doubt: Duration,
    /// How often a kind that is absent is looked for where CRDs cannot be watched.
    pub absent_poll: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            answer: Duration::from_secs(15),
            idle: Duration::from_secs(75),
            settle: Duration::from_secs(2),
            backoff_min: Duration::from_millis(250),
            backoff_max: Duration::from_secs(10),
            doubt: Duration::from_secs(5),
            absent_poll: Duration::from_secs(10),
        }
    }
}

/// Watches until it is dropped.
#[derive(Debug)]
pub struct Handle(JoinHandle<()>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Starts to watch, and sends what is observed to `sink`, in batches. A full `sink` makes the API server wait.
///
/// `client` should have neither a read timeout nor retries of its own: [`client`] makes such a one. It must be called
/// within a tokio runtime.
pub fn start(client: kube::Client, options: Options, sink: mpsc::Sender<Vec<Observed>>) -> Handle {
    Handle(tokio::spawn(coordinator::run(client, options, sink)))
}

/// A client for [`start`]: retries are up to the watches, which report when they must.
///
/// # Errors
/// What [`kube::Client::try_from`] has to say about the configuration.
pub fn client(mut config: kube::Config) -> kube::Result<kube::Client> {
    config.default_retry = false;
    config.read_timeout = None;
    config.connect_timeout = Some(Duration::from_secs(10));
    kube::Client::try_from(config)
}
