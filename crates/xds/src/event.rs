//! What is learned from proxies.

use std::sync::Arc;

use tokio::sync::mpsc;

use crate::identity::Refusal;
use crate::request::EnvoyVersion;
use crate::resource::{Resource, ResourceType, Version};
use crate::trial::Answer;

/// Something that happened to a stream of a proxy. `stream` is unique in this process; `gateway` is what the stream was authorised for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A stream was authorised.
    Connected {
        /// `NAMESPACE/NAME`.
        gateway: String,
        /// `node.id`, as the proxy claims it, cut to 256 bytes.
        node_id: String,
        /// What the proxy was built from, if it says that it is an Envoy.
        envoy: Option<EnvoyVersion>,
        /// The stream.
        stream: u64,
    },
    /// A response was accepted.
    Acked {
        /// `NAMESPACE/NAME`.
        gateway: String,
        /// The stream.
        stream: u64,
        /// The type of the response.
        kind: ResourceType,
        /// The names that the response added or changed, with their versions. Of a state-of-the-world response of
        /// clusters or listeners: those that were new in it.
        versions: Vec<(Arc<str>, Version)>,
    },
    /// A response was rejected. Its versions are not sent again on this stream unless they are asked for by name,
    /// or another of its names recovered.
    Nacked {
        /// `NAMESPACE/NAME`.
        gateway: String,
        /// The stream.
        stream: u64,
        /// The type of the response.
        kind: ResourceType,
        /// The names that the response added or changed: which of them was the reason stands in `message` alone.
        names: Vec<String>,
        /// Their versions, in the order of `names`.
        versions: Vec<Version>,
        /// What the proxy has of them and goes on with, in the order of `names`: none where that is not known, or nothing. Only of
        /// route configurations.
        acknowledged: Vec<Option<Resource>>,
        /// What the proxy was built from, if it says that it is an Envoy.
        envoy: Option<EnvoyVersion>,
        /// The first line of the proxy's error (`error_detail.message`), at most 512 bytes and without control characters.
        message: String,
    },
    /// What came of a [`crate::Trial`]: of each that the stream got, unless another one took its place.
    Tried {
        /// `NAMESPACE/NAME`.
        gateway: String,
        /// The stream.
        stream: u64,
        /// The number of the trial.
        number: u64,
        /// What came of it.
        answer: Answer,
    },
    /// Names that had been rejected on this stream are accepted in another version, or no longer of interest.
    Recovered {
        /// `NAMESPACE/NAME`.
        gateway: String,
        /// The stream.
        stream: u64,
        /// The type.
        kind: ResourceType,
        /// The names.
        names: Vec<String>,
    },
    /// A proxy asks for names that its gateway does not have. Sent once a name and stream, those of one request together.
    UnknownName {
        /// `NAMESPACE/NAME`.
        gateway: String,
        /// The stream.
        stream: u64,
        /// The type.
        kind: ResourceType,
        /// The first of them, cut to 256 bytes.
        name: String,
        /// How many there are.
        count: u64,
    },
    /// A wait was ended by its bound and not by the proxy: what follows was sent although the proxy had not
    /// acknowledged what comes before.
    GateExpired {
        /// `NAMESPACE/NAME`.
        gateway: String,
        /// The stream.
        stream: u64,
        /// What was waited for.
        gate: Gate,
    },
    /// A proxy reports a version older than what the resources are made for: until its stream ends it is sent neither
    /// listeners nor route configurations, and keeps those that it has.
    Outdated {
        /// `NAMESPACE/NAME`.
        gateway: String,
        /// The stream.
        stream: u64,
        /// The version that it reports.
        version: EnvoyVersion,
        /// What it should be at least.
        least: EnvoyVersion,
    },
    /// Streams or connections were refused, or streams ended since they are no longer authenticated. A count, so that a
    /// client that is refused often costs no more than one that is refused once.
    Refused {
        /// Why.
        reason: Refusal,
        /// How many there were since the last such event.
        count: u64,
    },
    /// A stream ended. What it had rejected is rejected no longer.
    Disconnected {
        /// `NAMESPACE/NAME`.
        gateway: String,
        /// The stream.
        stream: u64,
    },
}

/// What an update waits for, see [`crate::stream`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// Clusters to be acknowledged, before what refers to them follows.
    Make,
    /// Configurations of extensions to be acknowledged, before routes and listeners follow.
    Extend,
    /// Routes and listeners to be acknowledged.
    Switch,
    /// The last listener to let go of a route configuration, before what it used is removed.
    Break,
}

/// The end at which streams put events.
///
/// It never waits. When the other end does not keep up, acknowledgements are dropped first.
#[derive(Clone, Debug)]
pub struct Reporter(mpsc::Sender<Event>);

/// A bounded way for events: the end for [`crate::Server::new`] and the end to read.
pub fn reporter(capacity: usize) -> (Reporter, mpsc::Receiver<Event>) {
    let (sender, receiver) = mpsc::channel(capacity.max(1));
    (Reporter(sender), receiver)
}

impl Reporter {
    /// The sender, for a stream that keeps what must not be lost until there is room.
    pub(crate) fn sender(&self) -> &mpsc::Sender<Event> {
        &self.0
    }
}
