//! Where encoded routes stand, and the virtual hosts that they make.
//!
//! A route's bytes stand once in a group: by listener and hostname, in the order in which Envoy tries them. A virtual
//! host joins the groups of its own hostname and of those that cover it, the more specific first, since Gateway API falls
//! back to a less specific hostname where no rule of the more specific one matches.

mod placed;

use std::{borrow::Cow, sync::Arc};

use api::ObjectId;
use engine::{Derived, Emitter, Group, Lookup, Scope, Table};
use envoy::{
    self,
    bytes::{self, Row},
    route::RouteAt,
};
use ir::{
    Chain, Hostname, ListenerId, ListenerName, NsName, Port, Problem, RouteConfigId, filter::Scheme, key::Unordered,
    matching::Precedence,
};
use units::AnyUnit;

use crate::{
    alike::{self, said_for},
    budget::{self, cost::Cost},
    capacity::{self, ShutHost},
    policy::wide::{BrokenListener, ListenerSlots, SlotHolders},
    resolve::{ANYWHERE, EnvoyRoute, EnvoyRoutes, Policies, Priced, Resolved},
    tables::{
        attachment::{Attached, ServedHostname},
        capacity::{AskedHost, Room},
        host::{CandidateOffer, HostsOf, Offer, Placement, Rows, UnservedHosts, VirtualHost},
        input::Strict,
        listener::{ListenerRow, PortHosts, PortListeners, ServedAt, route_config},
        output::{ReferredEntry, ServedCluster},
        policy::{
            Lost, Override, Overrides, PolicyAt, PolicyPlace, Standing, Standings, UsedEntry, Why, Winner,
            WithoutPrefix,
        },
        replacement::{Replaced, ReplacedRule, ReplacedScope, ReplacedWide},
        strict::{OfferedPart, PartId},
        tls::DialedBy,
    },
};

pub(crate) use placed::{Answer, Placed};

tables! {
    /// Rules as an Envoy has taken them, where a listener serves them.
    Cleared: (Chain, u32, ListenerId) => Placed;
    /// Has what was cleared be sent.
    ClearedHosts: (Chain, u32, ListenerId) => ();
}

impl engine::Input for Cleared {}

impl Table for Offer {
    const NAME: &'static str = "Offer";
    type Key = (Chain, u32, ListenerId);
    type Value = Placed;
}

impl Derived for Offer {
    fn compute(scope: &Emitter<'_>, key: &Self::Key) -> Option<Placed> {
        offered(scope, key)
    }
}

impl Table for CandidateOffer {
    const NAME: &'static str = "CandidateOffer";
    type Key = (Chain, u32, ListenerId);
    type Value = Placed;
}

impl Derived for CandidateOffer {
    fn compute(scope: &Emitter<'_>, key: &Self::Key) -> Option<Placed> {
        offered(scope, key)
    }
}

/// A rule with the parts that it needs, which are to be judged before.
fn offered(scope: &Emitter<'_>, key: &(Chain, u32, ListenerId)) -> Option<Placed> {
    let placed = Placed::of(scope, key)?;
    let at = scope.get::<ServedAt>(&key.2)?;
    for part in parts(&placed.resolved).chain(placed.resolved.lacks.iter().cloned()) {
        scope.demand::<OfferedPart>(part);
    }
    Some(placed.at(RouteAt { scheme: at.0, port: at.1 }))
}

/// What a rule needs besides its own Envoy routes.
pub(crate) fn parts(resolved: &Resolved) -> impl Iterator<Item = PartId> {
    resolved.clusters.iter().cloned().map(PartId::Cluster).chain(resolved.entries.iter().filter_map(PartId::of))
}

impl Derived for ClearedHosts {
    fn compute(scope: &Emitter<'_>, key: &Self::Key) -> Option<()> {
        serve(scope, key)
    }

    /// What it claims must not fall to others.
    fn poisoned(scope: &Emitter<'_>, key: &Self::Key, _: &engine::Fault) -> Option<()> {
        serve(scope, key)
    }
}

/// Has a rule that was cleared be sent, with its hostnames.
fn serve(scope: &Emitter<'_>, key: &(Chain, u32, ListenerId)) -> Option<()> {
    let cleared = scope.get::<Cleared>(key)?;
    let listener = &key.2;
    // One that is not there any more serves nobody.
    let config = route_config(scope, listener)?;
    for ServedHostname { hostname, .. } in cleared.attached.hostnames(listener) {
        scope.demand::<VirtualHost>((config.clone(), hostname.clone()));
        scope.demand::<AskedHost>((listener.clone(), hostname.clone()));
    }
    scope.demand::<Placement>(key.clone());
    Some(())
}

impl Table for Placement {
    const NAME: &'static str = "Placement";
    type Key = (Chain, u32, ListenerId);
    type Value = Placed;
}

impl Derived for Placement {
    fn compute(scope: &Emitter<'_>, key: &Self::Key) -> Option<Placed> {
        let placed = sent(scope, key)?;
        tell(scope, key, &placed, &weighed_at(scope, &placed, &key.2)?);
        if let Some(policies) = &placed.resolved.policies {
            hold(scope, &placed.resolved, policies, key);
        }
        Some(placed)
    }

    /// What it is served as then takes as much.
    fn poisoned(scope: &Emitter<'_>, key: &Self::Key, _: &engine::Fault) -> Option<Placed> {
        let placed = sent(scope, key)?;
        tell(scope, key, &placed, &closed_at(&placed.resolved));
        Some(placed)
    }
}

/// A rule as it is sent: as it was cleared, where Envoy is asked first.
fn sent(scope: &Scope<'_>, key: &(Chain, u32, ListenerId)) -> Option<Placed> {
    if scope.get::<Strict>(&()).is_some() {
        return Some(Placed::clone(&*scope.get::<Cleared>(key)?));
    }
    Placed::of(scope, key)
}

/// Tells what a rule takes where a listener serves it, and has it put there.
fn tell(
    scope: &Emitter<'_>,
    key: &(Chain, u32, ListenerId),
    Placed { attached, resolved, .. }: &Placed,
    routes: &[EnvoyRoute],
) {
    capacity::claim(scope, key, attached, resolved, routes);
    budget::charge(scope, key, attached, &costs(routes));
    scope.demand::<Rows>(key.clone());
}

impl Derived for Rows {
    fn compute(scope: &Emitter<'_>, key: &Self::Key) -> Option<()> {
        let (_, _, listener) = key;
        let placed = scope.get::<Placement>(key)?;
        let Placed { attached, resolved, .. } = &*placed;
        let weighed = weighed_at(scope, &placed, listener)?;
        let costs = costs(&weighed);
        let overrun = capacity::overrun(scope, &key.2.gateway, &key.0);
        let room = |hostname: &Hostname| room_at(&placed, hostname, || overrun.as_ref()?.room(key, hostname));
        let is_served = attached.hostnames(listener).iter().any(|served| room(&served.hostname).is_none());
        let weighs_less = matches!(&resolved.routes, EnvoyRoutes::ByListener(unwritten) if unwritten.is_large());
        let routes = if is_served && weighs_less { routes_at(scope, &placed, listener)? } else { weighed };
        let too_slow = |hostname: &Hostname| budget::is_too_slow(scope, key, hostname, &costs);
        spread(scope, key, &placed, &routes, room, too_slow);
        Some(())
    }

    /// What the rule claims must not fall to others, also where nobody knows whether there is room or time. What is
    /// written stands; what is not answers 500.
    fn poisoned(scope: &Emitter<'_>, key: &Self::Key, _: &engine::Fault) -> Option<()> {
        let placed = scope.get::<Placement>(key)?;
        let routes = closed_at(&placed.resolved);
        let costs = costs(&routes);
        let overrun = scope.attempt(|| capacity::overrun(scope, &key.2.gateway, &key.0)).unwrap_or(None);
        let room = |hostname: &Hostname| room_at(&placed, hostname, || overrun.as_ref()?.room(key, hostname));
        let too_slow =
            |hostname: &Hostname| scope.attempt(|| budget::is_too_slow(scope, key, hostname, &costs)).unwrap_or(None);
        spread(scope, key, &placed, &routes, room, too_slow);
        Some(())
    }
}

/// What of a rule stands at a hostname: where it is shut no more than where there is no room.
fn room_at(placed: &Placed, hostname: &Hostname, room: impl FnOnce() -> Option<Room>) -> Option<Room> {
    let room = room();
    if placed.is_shut_at(hostname) { room.or(Some(Room::Closed)) } else { room }
}

/// What the expressions of these cost.
fn costs(routes: &[EnvoyRoute]) -> Arc<[Arc<Cost>]> {
    routes.iter().filter_map(|route| route.cost.clone()).collect()
}

/// Puts the routes of a rule at the hostnames at which a listener serves it: as they are where there is room, without
/// those with expressions where these take too much time.
fn spread(
    scope: &Emitter<'_>,
    (chain, rule, listener): &(Chain, u32, ListenerId),
    placed: &Placed,
    routes: &[EnvoyRoute],
    room: impl Fn(&Hostname) -> Option<Room>,
    is_too_slow: impl Fn(&Hostname) -> Option<bool>,
) {
    let Placed { attached, resolved, .. } = placed;
    let is_costly = routes.iter().any(|route| route.cost.is_some());
    let is_open = routes.is_empty() || routes.iter().any(|route| placed.answer(&route.row).is_none());
    let (mut is_served, mut is_closed, mut rows) = (false, false, Vec::new());
    for served in attached.hostnames(listener) {
        let room = room(&served.hostname);
        is_served |= room.is_none() && is_open;
        is_closed |= room.is_some_and(|room| room != Room::LeftOut);
        if room.is_some_and(|room| room != Room::Closed) {
            continue;
        }
        let too_slow = is_costly && is_too_slow(&served.hostname).unwrap_or(false);
        if too_slow {
            budget::leave_out(scope, chain, *rule);
        }
        for route in routes.iter().filter(|route| !too_slow || route.cost.is_none()) {
            let place = place(attached, served, chain, route);
            if let Some(row) = placed.row(chain.route().kind, route, room.is_none()) {
                rows.push(row.clone());
                scope.emit::<RoutesAt>((listener.clone(), served.hostname.clone()), place, row);
            }
        }
    }
    if resolved.says_alike {
        alike::count(scope, (chain, *rule, listener), &rows);
    } else {
        debug_assert!(rows.iter().all(|row| envoy::alike::said(row).is_empty()));
    }
    if is_served {
        send(scope, resolved, listener);
    }
    if is_closed || resolved.findings.as_ref().is_some_and(|findings| findings.replaced.is_some()) {
        let (gateway, route) = (listener.gateway.clone(), chain.clone());
        scope.demand::<Replaced>(ReplacedRule { gateway, route, rule: *rule });
    }
}

/// Has the clusters served that a rule sends to, and what its slots refer to.
fn send(scope: &Emitter<'_>, resolved: &Resolved, listener: &ListenerId) {
    for cluster in &resolved.clusters {
        scope.demand::<ServedCluster>((listener.gateway.clone(), cluster.clone()));
    }
    for to in resolved.findings.iter().flat_map(|findings| &findings.closed_backends) {
        scope.demand::<DialedBy>((to.clone(), listener.gateway.clone()));
    }
    for entry in &resolved.entries {
        scope.demand::<ReferredEntry>((listener.gateway.clone(), entry.clone()));
    }
}

/// The Envoy routes of a rule where a listener serves it.
fn routes_at<'a>(scope: &Scope<'_>, placed: &'a Placed, listener: &ListenerId) -> Option<Cow<'a, [EnvoyRoute]>> {
    written_at(scope, placed, listener, Priced::write)
}

/// The same as they weigh: of some nothing else is told.
fn weighed_at<'a>(scope: &Scope<'_>, placed: &'a Placed, listener: &ListenerId) -> Option<Cow<'a, [EnvoyRoute]>> {
    written_at(scope, placed, listener, |unwritten, at, problems| unwritten.weighed().write(at, problems))
}

fn written_at<'a>(
    scope: &Scope<'_>,
    placed: &'a Placed,
    listener: &ListenerId,
    write: impl Fn(&Priced, RouteAt, &mut Vec<(u32, Problem)>) -> Box<[EnvoyRoute]>,
) -> Option<Cow<'a, [EnvoyRoute]>> {
    Some(match &placed.resolved.routes {
        EnvoyRoutes::Everywhere(routes) => Cow::Borrowed(routes),
        EnvoyRoutes::ByListener(unwritten) => {
            let now = || scope.get::<ServedAt>(listener).map(|at| RouteAt { scheme: at.0, port: at.1 });
            Cow::Owned(write(unwritten, placed.at.or_else(now)?, &mut Vec::new()).into_vec())
        }
    })
}

/// The same where they cannot be written for the listener: what is the same everywhere stands, and all else answers 500.
fn closed_at(resolved: &Resolved) -> Cow<'_, [EnvoyRoute]> {
    match &resolved.routes {
        EnvoyRoutes::Everywhere(routes) => Cow::Borrowed(routes),
        EnvoyRoutes::ByListener(unwritten) => {
            Cow::Owned(unwritten.clone().closed().write(ANYWHERE, &mut Vec::new()).into_vec())
        }
    }
}

/// Where an Envoy route of `chain`, whose root is `attached`, stands among all that are served for a hostname.
pub(crate) fn place(attached: &Attached, served: &ServedHostname, chain: &Chain, route: &EnvoyRoute) -> Precedence {
    let age = attached.age(chain.top());
    Precedence::new(served.precedence, age, route.steps.clone(), chain.clone(), route.order)
}

/// Counts where the policies of a rule hold.
fn hold(
    scope: &Emitter<'_>,
    resolved: &Resolved,
    policies: &Policies,
    (chain, rule, listener): &(Chain, u32, ListenerId),
) {
    let place = Unordered::hashed(PolicyPlace::Rule(chain.clone(), *rule, listener.clone()));
    let closed = resolved.fault().map(|_| Standing::Closed);
    for (policy, standing) in policies.standings() {
        scope.demand::<PolicyAt>((policy.clone(), listener.gateway.clone()));
        if let Some(standing) = standing.or(closed) {
            scope.emit::<Standings>(policy.clone(), place.clone(), standing);
        }
    }
    let wide =
        |field| AnyUnit::is_slot_at(field).then(|| scope.get::<SlotHolders>(&(listener.clone(), field))).flatten();
    // Those that hold for all of the listener, and not here.
    let mut yielding: Vec<ObjectId> = Vec::new();
    // What wins one field often wins the others too.
    let mut told: Vec<(ObjectId, Arc<Override>)> = Vec::new();
    let mut override_by = |policy: &ObjectId, to: Arc<Override>| {
        if told.iter().any(|(known, by)| known == policy && *by == to) {
            return;
        }
        if !policies.all.contains(policy) && !yielding.contains(policy) {
            yielding.push(policy.clone());
        }
        told.push((policy.clone(), to.clone()));
        scope.emit::<Overrides>(policy.clone(), (to, place.clone()), ());
    };
    let mut before = None;
    for unit in &policies.units {
        let is_as_before = before.replace(&unit.verdict).is_some_and(|before| Arc::ptr_eq(before, &unit.verdict));
        for Lost { policy, to } in &unit.overridden {
            if let Some(to) = to {
                if !is_as_before {
                    override_by(policy, to.clone());
                }
                continue;
            }
            let why = unit.words.last().cloned().map(Why::Annotation);
            for holder in wide(unit.field).iter().flat_map(|holders| holders.iter()) {
                let to = Override { by: Winner::Policy(holder.clone()), why: why.clone() };
                scope.emit::<Overrides>(policy.clone(), (Arc::new(to), place.clone()), ());
            }
        }
        // A wider scope does not know the rules that have the same slots. What is closed has none.
        let nearest = unit.winners.iter().find(|winner| !matches!(winner, Winner::Keeper(_)));
        let Some(nearest) = nearest.filter(|_| closed.is_none()) else { continue };
        for holder in wide(unit.field).iter().flat_map(|holders| holders.iter()) {
            if !unit.winners.iter().any(|winner| winner.is(holder)) {
                let why = matches!(nearest, Winner::Policy(_)).then_some(Why::Nearer);
                override_by(holder, Arc::new(Override { by: nearest.clone(), why }));
            }
        }
    }
    for policy in yielding {
        scope.emit::<Standings>(policy, place.clone(), Standing::Yields);
    }
    if let Some(policy) = policies.rewrite() {
        for entry in &policies.entries {
            scope.demand::<UsedEntry>((policy.clone(), *entry));
        }
        if policies.prefixless {
            scope.demand::<WithoutPrefix>((policy.clone(), chain.route().clone(), *rule));
        }
    }
}

impl Lookup for ServedAt {
    fn compute(scope: &Scope<'_>, key: &ListenerId) -> Option<(Scheme, Port, Hostname)> {
        let model = &scope.get::<ListenerRow>(key)?.model;
        Some((model.scheme()?, model.port, model.hostname.clone()))
    }
}

/// The routes that a listener serves for a hostname, in the order in which they are tried.
pub(crate) struct RoutesAt;

impl Group for RoutesAt {
    const NAME: &'static str = "RoutesAt";
    type Key = (ListenerId, Hostname);
    type Sort = Precedence;
    type Entry = Row;
    type Summary = ();

    const HASH: Option<fn(&Row) -> [u8; 16]> = Some(|row| row.hash);
}

/// Who alone serves a hostname of a route configuration: the listener with the most specific hostname.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Owned {
    /// This one.
    By(ListenerName),
    /// Nobody, since that listener is not served, and what is meant for it goes to no broader one.
    Nobody,
}

tables! {
    /// Owners; absent for a hostname that is another route configuration's.
    Owner: (RouteConfigId, Hostname) => Owned;
}

impl Lookup for Owner {
    fn compute(scope: &Scope<'_>, (config, hostname): &Self::Key) -> Option<Owned> {
        let (unserved, owner) = hostname.covering().find_map(|hostname| {
            let at = scope.group::<PortHosts>(&place_of(config, &hostname));
            at.first().map(|(owner, ())| owner.clone())
        })?;
        let is_here = config.listener.as_ref().is_none_or(|listener| *listener == owner);
        is_here.then_some(if unserved { Owned::Nobody } else { Owned::By(owner) })
    }
}

/// Where listeners keep a hostname of a route configuration from others.
fn place_of(config: &RouteConfigId, hostname: &Hostname) -> (NsName, Port, Scheme, Hostname) {
    let over = if config.listener.is_some() { Scheme::Https } else { Scheme::Http };
    (config.gateway.clone(), config.port, over, hostname.clone())
}

/// Whether a hostname is that of a listener, which no broader one answers for, routes or not.
fn is_of_listener(scope: &Scope<'_>, config: &RouteConfigId, hostname: &Hostname) -> bool {
    !scope.group::<PortHosts>(&place_of(config, hostname)).is_empty()
}

impl Derived for VirtualHost {
    fn compute(scope: &Emitter<'_>, key: &Self::Key) -> Option<()> {
        let (config, hostname) = key;
        let owner = scope.get::<Owner>(key)?;
        let Owned::By(name) = &*owner else {
            // One that is no listener's goes to the broader one of that listener, which says the same.
            if is_of_listener(scope, config, hostname) {
                scope.emit::<UnservedHosts>(config.clone(), hostname.clone(), ());
            }
            return Some(());
        };
        let listener = ListenerId::new(config.gateway.clone(), name.clone());
        let alike = said_for(scope, config);
        let replaced = || envoy::replaced::virtual_host(&hostname.domain(), &alike);
        // Over TLS its route configuration is replaced as a whole.
        if config.listener.is_none() && scope.get::<BrokenListener>(&listener).is_some() {
            scope.emit::<HostsOf>(config.clone(), hostname.clone(), replaced());
            let host = Some((hostname.clone(), listener.name.clone()));
            scope.demand::<ReplacedWide>(ReplacedScope { config: config.clone(), host });
            return Some(());
        }
        let own = (listener.clone(), hostname.clone());
        if scope.group::<RoutesAt>(&own).is_empty() {
            // Who has routes of his own there has room for it.
            if scope.get::<ShutHost>(&own).is_some() {
                scope.emit::<HostsOf>(config.clone(), hostname.clone(), replaced());
                return Some(());
            }
            // It would say what a broader one says, to which its requests go without it, and take as much memory again.
            if !is_of_listener(scope, config, hostname) {
                return Some(());
            }
        }
        let groups = hostname.covering().map(|hostname| scope.group::<RoutesAt>(&(listener.clone(), hostname)));
        let groups: Vec<_> = groups.collect();
        let pages = groups.iter().flat_map(engine::View::pages);
        let pieces = pages.map(|page| {
            let rows = |page: &engine::Page<RoutesAt>| bytes::routes(page.iter().map(|(_, row)| row), &alike);
            let routes = page.cached_with(alike.hash(), rows);
            ((*routes).clone(), page.hashes())
        });
        let domain = hostname.domain();
        // Over TLS it is on its route configuration.
        let slots = config.listener.is_none().then(|| scope.get::<ListenerSlots>(&listener)).flatten();
        let slots = slots.as_deref().map_or(&[][..], |slots| slots);
        let host = bytes::virtual_host(&domain, std::slice::from_ref(&domain), slots, &alike, pieces);
        scope.emit::<HostsOf>(config.clone(), hostname.clone(), host);
        Some(())
    }

    /// It answers 500: without it a broader one would take its requests.
    fn poisoned(scope: &Emitter<'_>, (config, hostname): &Self::Key, _: &engine::Fault) -> Option<()> {
        if let Some(own) = &config.listener {
            // The hostname of another listener stands in this route configuration already.
            let listeners = scope.group::<PortListeners>(&(config.gateway.clone(), config.port));
            let over_tls = listeners.iter().filter(|(_, at)| at.over_tls());
            if over_tls.into_iter().any(|((other, name), _)| other == hostname && name != own) {
                return None;
            }
        }
        let host = envoy::replaced::virtual_host(&hostname.domain(), &said_for(scope, config));
        scope.emit::<HostsOf>(config.clone(), hostname.clone(), host);
        Some(())
    }
}
