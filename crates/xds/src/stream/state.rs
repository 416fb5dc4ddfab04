//! What is known of a client for one type.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::subscription::Subscription;
use super::trial::Tried;
use crate::resource::{Resource, Version};
use crate::snapshot::Resources;

/// How many unanswered responses of one type are remembered. There is more than one only when a client does not
/// answer within the bound, so this is reached after many of those.
const MAX_IN_FLIGHT: usize = 16;

/// The state of one type on one stream.
#[derive(Default)]
#[allow(clippy::struct_excessive_bools, reason = "facts that hold independently of each other")]
pub(super) struct TypeState {
    /// Whether the client sent any request of this type.
    pub(super) asked: bool,
    pub(super) subscription: Subscription,
    /// What the client has, if it accepted all that it was sent. Says nothing about names that it is not subscribed
    /// to: for those it holds whatever the snapshot held, so that the map is shared with the snapshot.
    pub(super) sent: Resources,
    /// Names that must be answered although nothing about them changed.
    pub(super) forced: BTreeSet<Arc<str>>,
    /// A response must follow even if it is empty.
    pub(super) answer_due: bool,
    /// In state-of-the-world: the nonce of the last response; requests with another one are stale.
    pub(super) last_nonce: Option<u64>,
    /// In state-of-the-world: whether any name was ever listed, after which listing none no longer means all.
    pub(super) named: bool,
    /// In state-of-the-world: names that were missing in a stale request.
    pub(super) dropped: BTreeSet<Arc<str>>,
    /// Responses that were neither accepted nor rejected yet, oldest first.
    pub(super) in_flight: VecDeque<InFlight>,
    /// The versions that the client rejected last, with the nonce of the response: what has one in common was rejected together.
    pub(super) rejected: BTreeMap<Arc<str>, (Version, u64)>,
    /// Those of `rejected` that were rejected together with others, and that shall be sent once more by themselves. Only of route
    /// configurations: of others an Envoy takes what is sound of a response, or they are few.
    pub(super) alone: BTreeSet<Arc<str>>,
    /// Subscribed names that nothing is known of, and that were reported.
    pub(super) unknown: BTreeSet<Arc<str>>,
    /// Something is due and waits for a response in flight.
    pub(super) blocked: bool,
    /// Something is to be removed or ended, and may not yet be.
    pub(super) holding: bool,
}

/// A response on its way.
pub(super) struct InFlight {
    pub(super) nonce: u64,
    pub(super) sent_at: Instant,
    /// No longer waited for.
    pub(super) overdue: bool,
    pub(super) versions: Vec<(Arc<str>, Version)>,
    pub(super) removed: Vec<Arc<str>>,
    /// For what refers to others: what the client had of those when this was sent.
    pub(super) needs: Option<Needs>,
    /// The route configurations in it.
    pub(super) routes: Vec<Resource>,
    /// What it is if it is none of an update; then it has nothing of the above.
    pub(super) trial: Option<Tried>,
}

impl InFlight {
    /// One that adds and takes nothing.
    pub(super) fn new(nonce: u64, sent_at: Instant) -> Self {
        Self {
            nonce,
            sent_at,
            overdue: false,
            versions: Vec::new(),
            removed: Vec::new(),
            needs: None,
            routes: Vec::new(),
            trial: None,
        }
    }
}

/// What a listener or a route configuration may use: all that the client had at some moment.
#[derive(Clone)]
pub(super) struct Needs {
    pub(super) clusters: Resources,
    pub(super) secrets: Resources,
    pub(super) extensions: Resources,
}

/// What a response has to contain.
#[derive(Default)]
pub(super) struct Pending {
    /// To add or change.
    pub(super) upserts: BTreeMap<Arc<str>, Resource>,
    /// To remove, or to be answered as absent.
    pub(super) removed: BTreeSet<Arc<str>>,
    /// To be removed or ended, but not yet.
    pub(super) held: Vec<Resource>,
    /// Those of `forced` that this answers.
    pub(super) answered: Vec<Arc<str>>,
    /// Those of `removed` that nothing is known of.
    pub(super) unknown: Vec<Arc<str>>,
    /// Whether `sent` differs from the source in more than `held`.
    pub(super) dirty: bool,
}

impl TypeState {
    /// Whether a response in flight keeps the next one back.
    pub(super) fn awaits_answer(&self) -> bool {
        self.in_flight.iter().any(|flight| !flight.overdue)
    }

    /// Whether the client rejected what it was sent last of a name, and nothing else of it is on its way.
    pub(super) fn has_rejected_last(&self, name: &str) -> bool {
        let sent = self.sent.get(name).map(Resource::content_version);
        self.rejected
            .get(name)
            .is_some_and(|(version, nonce)| sent == Some(*version) && !self.is_on_its_way(name, *nonce))
    }

    /// Whether a version of this name was sent after the response with this nonce, and not answered yet. A client may never
    /// answer what was sent before.
    pub(super) fn is_on_its_way(&self, name: &str, after: u64) -> bool {
        let later = self.in_flight.iter().filter(|flight| flight.nonce > after);
        later.flat_map(|flight| &flight.versions).any(|(of, _)| **of == *name)
    }

    /// Whether it is open what the client says of a name by itself that it rejected together with others.
    pub(super) fn is_alone_due(&self, name: &str) -> bool {
        let is_due = |nonce| self.forced.contains(name) || self.is_on_its_way(name, nonce);
        self.alone.contains(name) || self.rejected.get(name).is_some_and(|(_, nonce)| is_due(*nonce))
    }

    /// Whether a response is on its way that a gate which closed at `since` waits for: one that is not overdue, or
    /// that was sent for this gate.
    pub(super) fn gate_awaits(&self, since: Instant, which: impl Fn(&InFlight) -> bool) -> bool {
        self.in_flight.iter().any(|flight| (!flight.overdue || flight.sent_at >= since) && which(flight))
    }

    /// Marks the responses that were waited for long enough.
    pub(super) fn expire(&mut self, now: Instant, bound: Duration) {
        for flight in &mut self.in_flight {
            flight.overdue |= now >= flight.sent_at + bound;
        }
    }

    pub(super) fn push(&mut self, flight: InFlight) {
        if self.in_flight.len() == MAX_IN_FLIGHT {
            self.in_flight.pop_front();
        }
        self.in_flight.push_back(flight);
    }

    /// Takes note that the client was sent what is `pending` of `source`.
    pub(super) fn commit(&mut self, source: &Resources, pending: &Pending) {
        let mut sent = source.clone();
        for held in &pending.held {
            sent.insert(held.shared_name(), held.clone());
        }
        for (name, resource) in &pending.upserts {
            if !source.contains_key(name) {
                sent.insert(name.clone(), resource.clone());
            }
        }
        self.sent = sent;
        for name in &pending.answered {
            self.forced.remove(name);
        }
        for name in pending.upserts.keys() {
            self.unknown.remove(name);
        }
        for name in &pending.unknown {
            self.unknown.insert(name.clone());
        }
    }
}
