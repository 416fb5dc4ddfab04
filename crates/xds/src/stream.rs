//! The protocol of one stream without IO: requests, snapshots and times go in, responses come out.
//!
//! Both variants of the protocol are here, state-of-the-world (`SotW`) and delta; they share what a client
//! has, the order of an update (see its `rollout`) and what becomes of rejected versions:
//!
//! * A response is rejected if and only if the request with its nonce carries an error.
//! * A rejected version is not sent again. The next different version is; and once that is accepted, or what was rejected is gone,
//!   so are those that were rejected in the same response, without it.
//! * Route configurations that were rejected together are sent once more, one by one: each is rejected for itself alone, and it
//!   becomes known which of them the client uses.
//! * One response of a type is on its way at a time. Its content is decided when it is sent, so a slow client skips
//!   versions.
//! * No wait is without a bound.
//! * A client that rejected a route configuration may be asked by [trials](Stream::on_trial) what it takes of it. That changes
//!   nothing of the above.
//! * An Envoy older than [`Settings::least_envoy`] is sent nothing that it would refuse: its requests for listeners and
//!   route configurations are left unanswered, so that a new one serves nothing and one from before an upgrade goes on with
//!   what it has. Its endpoints and secrets go on following; clusters come, and none is taken from it.

mod delta;
mod rollout;
mod sotw;
mod state;
mod subscription;
#[cfg(test)]
mod tests;
mod trial;
mod union;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use imbl::ordmap::DiffItem;

use crate::event::Gate;
use crate::frame::TooLarge;
use crate::limits::Limits;
use crate::request::{EnvoyVersion, Node};
use crate::resource::{Resource, ResourceType, Version};
use crate::snapshot::{Resources, Snapshot};
use crate::trial::Answer;
use rollout::{Phase, Removal, Rollout};
use state::{InFlight, Needs, Pending, TypeState};
use trial::Trials;

/// The variant of the protocol that a stream speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// `DeltaAggregatedResources`.
    Delta,
    /// `StreamAggregatedResources`.
    Sotw,
}

/// What a stream is allowed.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Bounds on what the client may make the stream hold.
    pub limits: Limits,
    /// The bound of every wait.
    pub gate_timeout: Duration,
    /// The oldest Envoy for which listeners and route configurations are made.
    pub least_envoy: Option<EnvoyVersion>,
}

/// Why a stream must end.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// A stream belongs to the node of its first message.
    #[error("the node changed within the stream")]
    NodeChanged,
    /// See [`Limits`].
    #[error("too many names are subscribed to: more than {limit} {what} of one type")]
    TooManyNames {
        /// What there is too much of.
        what: &'static str,
        /// How much is allowed.
        limit: usize,
    },
}

/// A response to send.
#[derive(Debug)]
pub struct Response {
    /// The type.
    pub kind: ResourceType,
    /// The nonce with which the client will answer.
    pub nonce: String,
    /// What the response adds or changes, and for state-of-the-world clusters and listeners also what stays.
    pub names: Vec<Arc<str>>,
    /// The names that it marks as absent. Always empty in state-of-the-world.
    pub removed: Vec<Arc<str>>,
    /// The gRPC message, length prefix included.
    pub frames: Vec<Bytes>,
}

impl Response {
    /// The size on the wire in bytes.
    pub fn bytes(&self) -> usize {
        self.frames.iter().map(Bytes::len).sum()
    }
}

/// What was learned from the client; see [`crate::Event`] for the meaning of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observation {
    /// [`crate::Event::Acked`], and when the response was sent.
    Acked(ResourceType, Vec<(Arc<str>, Version)>, Instant),
    /// [`crate::Event::Nacked`]
    Nacked(ResourceType, Vec<(Arc<str>, Version)>, String),
    /// [`crate::Event::Tried`]
    Tried(u64, Answer),
    /// [`crate::Event::Recovered`]
    Recovered(ResourceType, Vec<Arc<str>>),
    /// [`crate::Event::UnknownName`]: the first, and how many.
    UnknownName(ResourceType, Arc<str>, u64),
    /// [`crate::Event::GateExpired`]
    GateExpired(Gate),
    /// [`crate::Event::Outdated`]
    Outdated {
        /// The version that the client reports.
        version: EnvoyVersion,
        /// What it should be at least.
        least: EnvoyVersion,
    },
}

/// One stream of one client.
pub struct Stream {
    protocol: Protocol,
    settings: Settings,
    node: Node,
    /// Whether the client is older than what listeners and routes are made for.
    outdated: bool,
    types: [TypeState; ResourceType::ALL.len()],
    rollout: Rollout,
    /// Route configurations and listeners that the client uses although they are not what it shall have: it rejected
    /// the next version, or is still subscribed to what is gone. With each: what it may need. Listeners of a
    /// state-of-the-world stream are rejected together, under the empty name.
    kept: BTreeMap<(ResourceType, Arc<str>), Needs>,
    /// The route configurations that the client accepted last, of those that it is interested in: what it goes on with should it
    /// reject the next. Most are what it shall have, and are shared with that.
    acknowledged: BTreeMap<Arc<str>, Resource>,
    trials: Trials,
    last_nonce: u64,
    observations: Vec<Observation>,
}

impl Stream {
    /// A stream of `node`, which was authorised.
    pub fn new(protocol: Protocol, node: Node, settings: Settings) -> Self {
        let outdated = node.envoy.zip(settings.least_envoy).filter(|(version, least)| version < least);
        Self {
            protocol,
            settings,
            node,
            outdated: outdated.is_some(),
            types: Default::default(),
            rollout: Rollout::default(),
            kept: BTreeMap::new(),
            acknowledged: BTreeMap::new(),
            trials: Trials::default(),
            last_nonce: 0,
            observations: outdated
                .map(|(version, least)| Observation::Outdated { version, least })
                .into_iter()
                .collect(),
        }
    }

    /// The client.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// What the client has accepted last of a name; none where that is not known. Only of route configurations.
    pub fn acknowledged(&self, kind: ResourceType, name: &str) -> Option<&Resource> {
        self.acknowledged.get(name).filter(|_| kind == ResourceType::RouteConfiguration)
    }

    /// The type of a request, unless it is left unanswered: it is not served, or not to such a client.
    fn served(&self, type_url: &str) -> Option<ResourceType> {
        ResourceType::from_type_url(type_url).filter(|kind| !(self.outdated && kind.is_made_for_version()))
    }

    /// The client shall have `snapshot`, instead of any before it.
    pub fn on_snapshot(&mut self, snapshot: Snapshot) {
        self.rollout.latest = Some(snapshot);
        self.rollout.fresh = true;
    }

    /// The next response, if one is due. Call it after everything that happened and when [`Stream::deadline`] has
    /// passed, until there is none, and only when the response can be sent: it is taken for sent.
    pub fn next_response(&mut self, now: Instant) -> Option<Response> {
        for state in &mut self.types {
            state.expire(now, self.settings.gate_timeout);
        }
        self.review_trial();
        loop {
            // Before anything is sent, so that clusters precede what depends on them.
            self.begin(now);
            self.arrange_extensions();
            for kind in ResourceType::ALL {
                // A cluster does not overtake the secrets that it may refer to.
                if kind == ResourceType::Cluster && self.types[ResourceType::Secret.index()].blocked {
                    continue;
                }
                let response = match self.protocol {
                    Protocol::Delta => self.compose_delta(kind, now),
                    Protocol::Sotw => self.compose_sotw(kind, now),
                };
                if response.is_some() {
                    return response;
                }
            }
            if self.next_alone() {
                continue;
            }
            let trial = self.compose_trial(now);
            if trial.is_some() || !self.advance(now) {
                return trial;
            }
        }
    }

    /// When [`Stream::next_response`] may have a response without anything else happening.
    pub fn deadline(&self) -> Option<Instant> {
        let phase = match self.rollout.phase {
            Phase::Idle => None,
            Phase::Make { since } | Phase::Extend { since } | Phase::Switch { since } => {
                Some(since + self.settings.gate_timeout)
            }
        };
        let removal = match &self.rollout.removal {
            Removal::Waiting { until, .. } if self.holds() => Some(*until),
            _ => None,
        };
        let answers = self.types.iter().flat_map(|state| {
            let awaited = |flight: &&InFlight| !flight.overdue && (state.blocked || flight.trial.is_some());
            state.in_flight.iter().filter(awaited).map(|flight| flight.sent_at + self.settings.gate_timeout)
        });
        answers.chain(phase).chain(removal).min()
    }

    /// What was learned since the last call.
    pub fn take_observations(&mut self) -> Vec<Observation> {
        std::mem::take(&mut self.observations)
    }

    fn check_node(&self, node: Option<&Node>) -> Result<(), Violation> {
        match node {
            Some(node) if *node != self.node => Err(Violation::NodeChanged),
            _ => Ok(()),
        }
    }

    fn check_limits(&self, kind: ResourceType) -> Result<(), Violation> {
        let state = &self.types[kind.index()];
        let limits = &self.settings.limits;
        if state.subscription.names.len() > limits.names_per_type || state.forced.len() > limits.names_per_type {
            return Err(Violation::TooManyNames { what: "names", limit: limits.names_per_type });
        }
        let forced: usize = state.forced.iter().map(|name| name.len()).sum();
        if state.subscription.bytes().max(forced) > limits.name_bytes_per_type {
            return Err(Violation::TooManyNames { what: "bytes of names", limit: limits.name_bytes_per_type });
        }
        Ok(())
    }

    /// What a response of this type has to contain, and the map that it takes the client to. `None`: nothing may be sent
    /// yet.
    fn pending(&self, kind: ResourceType) -> Option<(&Resources, Pending)> {
        let source = self.rollout.source(kind)?;
        let state = &self.types[kind.index()];
        let mut pending = Pending::default();
        if !state.asked && state.forced.is_empty() {
            return Some((source, pending));
        }
        for change in state.sent.diff(source) {
            match change {
                DiffItem::Update { old: (name, old), new: (_, new) }
                    if new.ends() && state.subscription.covers(name) && !self.may_end(new) =>
                {
                    pending.held.push(old.clone());
                }
                DiffItem::Add(name, resource) | DiffItem::Update { new: (name, resource), .. } => {
                    pending.dirty = true;
                    if state.subscription.covers(name) {
                        pending.upserts.insert(name.clone(), resource.clone());
                    }
                }
                DiffItem::Remove(name, resource) => {
                    let covered = state.subscription.covers(name);
                    if covered && !self.removable(kind, name) {
                        pending.held.push(resource.clone());
                        continue;
                    }
                    pending.dirty = true;
                    if covered {
                        pending.removed.insert(name.clone());
                    }
                }
            }
        }
        for name in &state.forced {
            self.answer(kind, name, &mut pending);
        }
        Some((source, pending))
    }

    /// Adds the answer to a client that asks for `name`.
    fn answer(&self, kind: ResourceType, name: &Arc<str>, pending: &mut Pending) {
        if !pending.upserts.contains_key(name) && !pending.removed.contains(name) {
            match self.lookup(kind, name) {
                Some(resource) => drop(pending.upserts.insert(name.clone(), resource.clone())),
                // It is on its way, behind a gate.
                None if self.rollout.knows(kind, name) => return,
                None if self.types[kind.index()].subscription.covers(name) => {
                    pending.held.retain(|held| held.name() != &**name);
                    pending.removed.insert(name.clone());
                    // A name that is unsubscribed while all are meant is answered too, but not asked for.
                    if self.types[kind.index()].subscription.names.contains(name) {
                        pending.unknown.push(name.clone());
                    }
                }
                None => {}
            }
        }
        pending.answered.push(name.clone());
    }

    /// Takes note of a response that goes out, and of what follows from it.
    fn sent(&mut self, kind: ResourceType, now: Instant, pending: Pending) -> u64 {
        self.last_nonce += 1;
        let versions: Vec<_> =
            pending.upserts.iter().map(|(name, resource)| (name.clone(), resource.content_version())).collect();
        if kind == ResourceType::Cluster {
            self.push_endpoints(&versions);
        }
        let needs = matches!(kind, ResourceType::Listener | ResourceType::RouteConfiguration).then(|| self.needs());
        let is_routes = kind == ResourceType::RouteConfiguration;
        let routes = pending.upserts.values().filter(|_| is_routes).cloned().collect();
        let state = &mut self.types[kind.index()];
        state.answer_due = false;
        state.push(InFlight {
            // An Envoy without any subscription of a type drops a response of it and does not answer.
            overdue: !state.asked,
            versions,
            removed: pending.removed.into_iter().collect(),
            needs,
            routes,
            ..InFlight::new(self.last_nonce, now)
        });
        self.last_nonce
    }

    /// A cluster that was sent warms until its endpoints arrive, also if they did before. The client may be slow to
    /// ask, or think that it need not.
    fn push_endpoints(&mut self, clusters: &[(Arc<str>, Version)]) {
        let kind = ResourceType::Endpoints;
        for (name, _) in clusters {
            let Some(version) = self.lookup(kind, name).map(Resource::content_version) else { continue };
            let state = &mut self.types[kind.index()];
            let welcome = self.protocol == Protocol::Delta || state.subscription.covers(name);
            if welcome && state.rejected.get(name).map(|(rejected, _)| *rejected) != Some(version) {
                state.forced.insert(name.clone());
            }
        }
    }

    fn report_unknown(&mut self, kind: ResourceType, names: &[Arc<str>]) {
        let known = &self.types[kind.index()].unknown;
        let mut unreported = names.iter().filter(|name| !known.contains(*name));
        if let Some(first) = unreported.next() {
            let count = 1 + unreported.count() as u64;
            self.observations.push(Observation::UnknownName(kind, first.clone(), count));
        }
    }

    /// The client accepted a response, or rejected it with this error.
    fn answered(&mut self, kind: ResourceType, mut flight: InFlight, error: Option<String>) {
        match (flight.trial.take(), error) {
            (Some(tried), error) => self.tried(tried, error),
            (None, None) => self.accepted(kind, flight),
            (None, Some(message)) => self.rejected(kind, flight, message),
        }
    }

    /// The client accepted a response of an update.
    fn accepted(&mut self, kind: ResourceType, flight: InFlight) {
        let complete_set = self.protocol == Protocol::Sotw && kind.is_complete_set();
        let state = &mut self.types[kind.index()];
        let mut recovered = Vec::new();
        if complete_set {
            recovered.extend(std::mem::take(&mut state.rejected).into_keys());
            self.kept.remove(&(kind, Arc::from("")));
        } else {
            let names = flight.versions.iter().map(|(name, _)| name).chain(&flight.removed);
            let mut responses = BTreeSet::new();
            for name in names {
                if let Some((_, response)) = state.rejected.remove(name) {
                    recovered.push(name.clone());
                    responses.insert(response);
                }
                state.alone.remove(name);
                self.kept.remove(&(kind, name.clone()));
            }
            // Others may have been rejected for nothing but the company. This may be an old response: of what was sent after that
            // the answer is still to come.
            let others = state.rejected.iter().filter(|(_, (_, response))| responses.contains(response));
            let others = others.filter(|(name, (_, response))| {
                let is_due = state.alone.contains(*name) || state.is_on_its_way(name, *response);
                !is_due && state.sent.contains_key(*name)
            });
            let others: Vec<_> = others.map(|(name, _)| name.clone()).collect();
            state.forced.extend(others);
        }
        if kind == ResourceType::RouteConfiguration {
            for name in &flight.removed {
                self.acknowledged.remove(name);
                self.trials.settle(name);
            }
            for routes in flight.routes {
                self.trials.settle(routes.name());
                if self.types[kind.index()].subscription.covers(routes.name()) {
                    self.acknowledged.insert(routes.shared_name(), routes);
                }
            }
        }
        self.observations.push(Observation::Acked(kind, flight.versions, flight.sent_at));
        if !recovered.is_empty() {
            self.observations.push(Observation::Recovered(kind, recovered));
        }
    }

    /// Makes the next of what was rejected together due, alone. Asked for when nothing else is due.
    fn next_alone(&mut self) -> bool {
        let state = &mut self.types[ResourceType::RouteConfiguration.index()];
        if state.alone.is_empty() || self.rollout.phase != Phase::Idle {
            return false;
        }
        state.blocked = state.awaits_answer();
        if state.blocked {
            return false;
        }
        while let Some(name) = state.alone.pop_first() {
            // What is newer came, or comes by itself.
            if state.has_rejected_last(&name) {
                state.forced.insert(name);
                return true;
            }
        }
        false
    }

    /// The client rejected one and keeps what it had.
    fn rejected(&mut self, kind: ResourceType, flight: InFlight, message: String) {
        let complete_set = self.protocol == Protocol::Sotw && kind.is_complete_set();
        let state = &mut self.types[kind.index()];
        // The client may have lost interest in some meanwhile.
        let of_interest = || flight.versions.iter().filter(|(name, _)| state.subscription.covers(name));
        state.rejected.extend(of_interest().map(|(name, version)| (name.clone(), (*version, flight.nonce))));
        match &flight.versions[..] {
            [(name, _)] => _ = state.alone.remove(name),
            _ if kind == ResourceType::RouteConfiguration => {
                state.alone.extend(of_interest().map(|(name, _)| name.clone()));
            }
            _ => {}
        }
        if self.protocol == Protocol::Delta && !flight.versions.is_empty() {
            // A client may refuse such a response as a whole and then still has what was to go. That is sent once
            // more, without what it refused.
            for name in flight.removed {
                if !state.sent.contains_key(&name) {
                    state.sent.insert(name.clone(), Resource::unknown(kind, name, Version::from([0; 16])));
                }
            }
        }
        if let Some(needs) = flight.needs {
            if complete_set {
                self.kept.entry((kind, Arc::from(""))).or_insert(needs);
            } else {
                for (name, _) in of_interest() {
                    self.kept.entry((kind, name.clone())).or_insert_with(|| needs.clone());
                }
            }
        }
        self.observations.push(Observation::Nacked(kind, flight.versions, message));
    }

    /// A response that was taken for sent cannot be: its content is left out, as if the client had rejected it.
    fn cannot_send(&mut self, kind: ResourceType, nonce: u64, why: &TooLarge) {
        let in_flight = &mut self.types[kind.index()].in_flight;
        let Some(at) = in_flight.iter().rposition(|flight| flight.nonce == nonce) else { return };
        if let Some(flight) = in_flight.remove(at) {
            self.rejected(kind, flight, why.to_string());
        }
    }

    /// The client does not mean all names of this type any more.
    fn forget_unlisted(&mut self, kind: ResourceType) {
        let state = &self.types[kind.index()];
        let kept = self.kept.keys().filter(|(of, name)| *of == kind && !name.is_empty()).map(|(_, name)| name);
        let known = state.forced.iter().chain(&state.unknown).chain(state.rejected.keys()).chain(kept);
        let unlisted: BTreeSet<_> = known.filter(|name| !state.subscription.covers(name)).cloned().collect();
        for name in unlisted {
            self.forget(kind, &name);
        }
    }

    /// The client is not interested in `name` any more.
    fn forget(&mut self, kind: ResourceType, name: &Arc<str>) {
        let state = &mut self.types[kind.index()];
        state.forced.remove(name);
        state.alone.remove(name);
        state.unknown.remove(name);
        if kind == ResourceType::RouteConfiguration {
            self.acknowledged.remove(name);
            self.trials.settle(name);
        }
        self.kept.remove(&(kind, name.clone()));
        if state.rejected.remove(name).is_some() {
            self.observations.push(Observation::Recovered(kind, vec![name.clone()]));
        }
    }
}
