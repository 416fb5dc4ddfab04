//! The order of an update, and what it waits for.
//!
//! A rollout takes a stream from one snapshot to the next in four steps:
//!
//! 1. **Make.** Secrets, clusters that are new or changed, and their endpoints. Envoy acknowledges clusters when they
//!    are warm, so the acknowledgement is the sign that routes may use them.
//! 2. **Extend.** Configurations of extensions, which name clusters and which routes refer to by what they say, with what
//!    the routes of before refer to (see [`super::union`]).
//! 3. **Switch.** Listeners, then route configurations.
//! 4. **Break.** What is no longer used goes: after routes and listeners were acknowledged, and new listeners have
//!    their routes. What ends something that has its name comes in its place. Configurations of extensions are sent without it.
//!    This does not hold up the next rollout.
//!
//! Snapshots that arrive meanwhile are merged into the next rollout. Endpoints and secrets do not take part: whatever
//! changes in them is sent at once, only their removal waits for Break. Each wait has the same bound.
//!
//! Nothing here knows which route uses which cluster, so a removal is held back as long as anything that the client
//! may still be using could name it: the latest snapshot, the one being rolled out, the one that the client was last
//! switched to, and what a client had that keeps something older. It keeps a listener or a route configuration when
//! it rejects the next version, and a route configuration that is gone as long as it is subscribed to it: a listener
//! that was replaced may drain for minutes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use imbl::ordmap::DiffItem;

use super::state::Needs;
use super::{Observation, Stream, union};
use crate::event::Gate;
use crate::resource::{Resource, ResourceType};
use crate::snapshot::{Resources, Snapshot};

/// Where a rollout stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    /// The client is where it shall be, but for subscriptions.
    #[default]
    Idle,
    /// Clusters first.
    Make { since: Instant },
    /// Then configurations of extensions.
    Extend { since: Instant },
    /// Then listeners and routes.
    Switch { since: Instant },
}

/// Whether what is no longer used may go.
#[derive(Debug, Default)]
pub(super) enum Removal {
    /// Nothing was switched yet, so everything may be in use.
    #[default]
    Closed,
    /// Switched; the client still has to ask for the route configurations that are new, `arriving`. With
    /// `initial` it still has to ask for listeners and routes at all: a client that reconnects asks for one type after the
    /// other, and what it has from before may be in use until then.
    Waiting { until: Instant, initial: bool, arriving: BTreeSet<Arc<str>> },
    /// It may.
    Open,
}

/// Where a stream is between snapshots.
#[derive(Default)]
pub(super) struct Rollout {
    pub(super) phase: Phase,
    /// The latest snapshot.
    pub(super) latest: Option<Snapshot>,
    /// The snapshot being rolled out, or the last one that was.
    pub(super) target: Option<Snapshot>,
    /// The snapshot that listeners and routes were last switched to.
    pub(super) settled: Option<Snapshot>,
    /// Configurations of extensions that listeners and routes from before the last switch may refer to, until what is no
    /// longer used may go.
    lingering: Option<Resources>,
    /// Configurations of extensions as the client shall have them, and what they were made of.
    extensions: Option<(Vec<Resources>, Resources)>,
    /// Whether `latest` was not rolled out yet.
    pub(super) fresh: bool,
    pub(super) removal: Removal,
}

impl Rollout {
    /// The map that the client's resources of this type shall equal at this moment, removals aside.
    pub(super) fn source(&self, kind: ResourceType) -> Option<&Resources> {
        let snapshot = match (kind, self.phase) {
            (ResourceType::Endpoints | ResourceType::Secret, _) => &self.latest,
            (ResourceType::ExtensionConfig, _) => return self.extensions.as_ref().map(|(_, extensions)| extensions),
            (ResourceType::Listener | ResourceType::RouteConfiguration, Phase::Make { .. } | Phase::Extend { .. }) => {
                &self.settled
            }
            (ResourceType::Cluster, _) | (_, Phase::Idle | Phase::Switch { .. }) => &self.target,
        };
        snapshot.as_ref().map(|snapshot| snapshot.of(kind))
    }

    /// Whether any snapshot that matters has this resource.
    pub(super) fn knows(&self, kind: ResourceType, name: &str) -> bool {
        self.snapshots().any(|snapshot| snapshot.get(kind, name).is_some())
    }

    /// The resource in the snapshot that matters most.
    fn find(&self, kind: ResourceType, name: &str) -> Option<&Resource> {
        self.snapshots().find_map(|snapshot| snapshot.get(kind, name))
    }

    fn snapshots(&self) -> impl Iterator<Item = &Snapshot> {
        [&self.latest, &self.target, &self.settled].into_iter().flatten()
    }
}

impl Stream {
    /// The resource to answer with when a client asks for `name`.
    pub(super) fn lookup(&self, kind: ResourceType, name: &str) -> Option<&Resource> {
        let found = self.rollout.source(kind).and_then(|source| source.get(name));
        let found = match kind {
            // The client may have a cluster or listener of an older snapshot whose endpoints are gone from the latest.
            ResourceType::Endpoints | ResourceType::Secret => found.or_else(|| self.rollout.find(kind, name)),
            _ => found,
        };
        let held = || self.types[kind.index()].sent.get(name).filter(|held| held.has_body());
        found.or_else(|| if self.rollout.knows(kind, name) { None } else { held() })
    }

    /// Whether `name`, which is absent from its source, may be taken from the client.
    pub(super) fn removable(&self, kind: ResourceType, name: &str) -> bool {
        match kind {
            // A listener that goes stops using things; it is part of the switch.
            ResourceType::Listener => {
                self.rollout.latest.as_ref().is_none_or(|latest| latest.get(kind, name).is_none())
            }
            _ => {
                matches!(self.rollout.removal, Removal::Open)
                    && !self.rollout.knows(kind, name)
                    && !self.needed(kind, name)
            }
        }
    }

    /// Whether this, which ends what has its name, may take the place of that: the client was switched to what does without, or
    /// rejected that and shall not go on with what it has.
    pub(super) fn may_end(&self, resource: &Resource) -> bool {
        let settled = self.rollout.settled.as_ref();
        let settled = settled.and_then(|settled| settled.get(resource.kind(), resource.name()));
        matches!(self.rollout.removal, Removal::Open) && settled == Some(resource)
    }

    /// Whether something older that the client keeps may need this.
    fn needed(&self, kind: ResourceType, name: &str) -> bool {
        match kind {
            ResourceType::Cluster | ResourceType::Endpoints => {
                self.kept.values().any(|needs| needs.clusters.contains_key(name))
            }
            ResourceType::Secret => self.kept.values().any(|needs| needs.secrets.contains_key(name)),
            ResourceType::RouteConfiguration => self.kept.contains_key(&(kind, Arc::from(name))),
            ResourceType::ExtensionConfig => self.kept.values().any(|needs| needs.extensions.contains_key(name)),
            ResourceType::Listener => false,
        }
    }

    /// What the client has that others refer to.
    pub(super) fn needs(&self) -> Needs {
        let [clusters, secrets] =
            [ResourceType::Cluster, ResourceType::Secret].map(|kind| self.types[kind.index()].sent.clone());
        // Of those that a client said that it has nothing is known but the version, so they are taken as they shall be.
        let extensions = self.rollout.source(ResourceType::ExtensionConfig).cloned().unwrap_or_default();
        Needs { clusters, secrets, extensions }
    }

    /// Makes the configurations of extensions for this moment: all that routes refer to which the client may be using, and
    /// from [`Phase::Extend`] on what those of the target refer to. All listeners of a client share one of each name.
    pub(super) fn arrange_extensions(&mut self) {
        let rollout = &self.rollout;
        let of = |snapshot: &Snapshot| snapshot.of(ResourceType::ExtensionConfig).clone();
        let target = rollout.target.as_ref().filter(|_| !matches!(rollout.phase, Phase::Make { .. }));
        let snapshots = rollout.settled.iter().chain(target).map(of);
        let older = self.kept.values().map(|needs| &needs.extensions).chain(&rollout.lingering).cloned();
        let mut all: Vec<_> = older.chain(snapshots).collect();
        all.dedup();
        if rollout.extensions.as_ref().is_some_and(|(made_of, _)| *made_of == all) {
            return;
        }
        let union = all.iter().cloned().reduce(|old, new| union::of_all(&old, new));
        self.rollout.extensions = union.map(|union| (all, union));
    }

    /// Whether anything is there only until what is no longer used may go.
    pub(super) fn holds(&self) -> bool {
        let has_extensions = self.types[ResourceType::ExtensionConfig.index()].asked;
        (has_extensions && self.rollout.lingering.is_some()) || self.types.iter().any(|state| state.holding)
    }

    /// Takes the next step if it may be taken. Returns whether it did.
    pub(super) fn advance(&mut self, now: Instant) -> bool {
        self.open_removal(now)
            || match self.rollout.phase {
                Phase::Idle => self.begin(now),
                Phase::Make { since } => self.extend(now, since),
                Phase::Extend { since } => self.switch(now, since),
                Phase::Switch { since } => self.settle(now, since),
            }
    }

    pub(super) fn begin(&mut self, now: Instant) -> bool {
        // Before the first request nothing is known of what the client has, so no order could be kept.
        if self.rollout.phase != Phase::Idle || !self.rollout.fresh || !self.types.iter().any(|state| state.asked) {
            return false;
        }
        self.rollout.fresh = false;
        self.rollout.target.clone_from(&self.rollout.latest);
        self.rollout.phase = Phase::Make { since: now };
        true
    }

    fn extend(&mut self, now: Instant, since: Instant) -> bool {
        let clusters = &self.types[ResourceType::Cluster.index()];
        let made = !clusters.gate_awaits(since, |flight| !flight.versions.is_empty())
            && [ResourceType::Cluster, ResourceType::Endpoints, ResourceType::Secret]
                .into_iter()
                .all(|kind| !self.has_upserts(kind));
        if !made {
            if now < since + self.settings.gate_timeout {
                return false;
            }
            self.observations.push(Observation::GateExpired(Gate::Make));
        }
        self.rollout.phase = Phase::Extend { since: now };
        true
    }

    fn switch(&mut self, now: Instant, since: Instant) -> bool {
        let kind = ResourceType::ExtensionConfig;
        let extensions = &self.types[kind.index()];
        if extensions.gate_awaits(since, |flight| !flight.versions.is_empty()) || self.has_upserts(kind) {
            if now < since + self.settings.gate_timeout {
                return false;
            }
            self.observations.push(Observation::GateExpired(Gate::Extend));
        }
        self.rollout.phase = Phase::Switch { since: now };
        true
    }

    fn settle(&mut self, now: Instant, since: Instant) -> bool {
        if !self.routes_acknowledged(since) {
            if now < since + self.settings.gate_timeout {
                return false;
            }
            self.observations.push(Observation::GateExpired(Gate::Switch));
        }
        // An outdated client keeps the listeners and routes that it has, and it is not known what those use.
        if !self.outdated {
            let arriving = self.new_route_names();
            let (until, initial) = match self.rollout.removal {
                Removal::Waiting { until, initial, .. } => (until, initial),
                Removal::Closed => (now + self.settings.gate_timeout, true),
                Removal::Open => {
                    // What it was opened for may go, also where the next rollout began at once.
                    self.rollout.lingering = None;
                    (now + self.settings.gate_timeout, false)
                }
            };
            self.rollout.removal = Removal::Waiting { until, initial, arriving };
            self.linger();
        }
        self.rollout.settled.clone_from(&self.rollout.target);
        self.rollout.phase = Phase::Idle;
        true
    }

    /// Has the configurations of extensions of before stay until what is no longer used may go, if the target's differ.
    fn linger(&mut self) {
        let of = |snapshot: &Option<Snapshot>| snapshot.as_ref().map(|it| it.of(ResourceType::ExtensionConfig).clone());
        let (settled, target) = (of(&self.rollout.settled), of(&self.rollout.target).unwrap_or_default());
        let before =
            self.rollout.lingering.take().into_iter().chain(settled).reduce(|old, new| union::of_all(&old, new));
        self.rollout.lingering = before.filter(|before| *before != target);
    }

    fn open_removal(&mut self, now: Instant) -> bool {
        let Removal::Waiting { until, initial, arriving } = &self.rollout.removal else { return false };
        let [listeners, routes] =
            [ResourceType::Listener, ResourceType::RouteConfiguration].map(|kind| &self.types[kind.index()]);
        let quiet = (!initial || (listeners.asked && routes.asked))
            && arriving.iter().all(|name| routes.subscription.covers(name))
            && self.routes_acknowledged(*until);
        if !quiet {
            if now < *until {
                return false;
            }
            if self.holds() {
                self.observations.push(Observation::GateExpired(Gate::Break));
            }
        }
        self.keep_old_routes();
        // The next rollout, if one is under way, has the client use what was there before as well, and takes its turn.
        if self.rollout.phase == Phase::Idle {
            self.rollout.lingering = None;
        }
        self.rollout.removal = Removal::Open;
        true
    }

    /// Whether the client has answered all listeners and routes, but for those overdue that were sent before `since`.
    fn routes_acknowledged(&self, since: Instant) -> bool {
        let [listeners, routes] =
            [ResourceType::Listener, ResourceType::RouteConfiguration].map(|kind| &self.types[kind.index()]);
        // A route configuration is removed when everything is settled, so that waits for this and not the reverse.
        !listeners.gate_awaits(since, |_| true)
            && !routes.gate_awaits(since, |flight| !flight.versions.is_empty())
            && !self.has_changes(ResourceType::Listener)
            && !self.has_upserts(ResourceType::RouteConfiguration)
    }

    /// The route configurations that the target has and the settled snapshot has not, but for those that nothing new asks for.
    fn new_route_names(&self) -> BTreeSet<Arc<str>> {
        let kind = ResourceType::RouteConfiguration;
        // Without listeners nothing makes the client ask for routes.
        let Some(target) = self.rollout.target.as_ref().filter(|_| self.types[ResourceType::Listener.index()].asked)
        else {
            return BTreeSet::new();
        };
        let none = Resources::new();
        let settled = self.rollout.settled.as_ref().map_or(&none, |settled| settled.of(kind));
        let added = settled.diff(target.of(kind)).filter_map(|change| match change {
            DiffItem::Add(name, resource) => (!resource.ends()).then(|| name.clone()),
            DiffItem::Update { .. } | DiffItem::Remove(..) => None,
        });
        added.collect()
    }

    /// Takes note of the route configurations that are gone and that the client has and is still subscribed to.
    fn keep_old_routes(&mut self) {
        let kind = ResourceType::RouteConfiguration;
        let state = &self.types[kind.index()];
        let Some(settled) = &self.rollout.settled else { return };
        // Some may have come back as they were, so that nothing had to be sent.
        self.kept.retain(|(other, name), _| {
            *other != kind
                || state.rejected.contains_key(name)
                || settled.get(kind, name).is_none_or(|settled| state.sent.get(name) != Some(settled))
        });
        // The next rollout may have brought it back already.
        let target = |name: &str| self.rollout.target.as_ref().and_then(|target| target.get(kind, name));
        let gone = state.sent.diff(settled.of(kind)).filter_map(|change| match change {
            DiffItem::Remove(name, sent) if state.subscription.names.contains(name) && target(name) != Some(sent) => {
                Some((kind, name.clone()))
            }
            _ => None,
        });
        let gone: Vec<_> = gone.collect();
        if !gone.is_empty() {
            let needs = self.needs();
            for route in gone {
                self.kept.entry(route).or_insert_with(|| needs.clone());
            }
        }
    }

    fn has_upserts(&self, kind: ResourceType) -> bool {
        self.types[kind.index()].answer_due
            || self.pending(kind).is_some_and(|(_, pending)| !pending.upserts.is_empty())
    }

    fn has_changes(&self, kind: ResourceType) -> bool {
        self.types[kind.index()].answer_due
            || self.pending(kind).is_some_and(|(_, p)| !p.upserts.is_empty() || !p.removed.is_empty())
    }
}
