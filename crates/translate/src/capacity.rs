//! What the proxies of a Gateway can hold.
//!
//! An Envoy that needs more memory than it may have ends, for everybody, so what is placed in it is bounded
//! ([`ir::settings::Capacity`]): an estimate of what routes, virtual hosts, clusters and endpoints take there
//! ([`weight`]). Sums of it are kept as rules come and go. While they are within the bound, that is all; beyond it, all
//! that is asked of the Gateway is looked at, and shared out between namespaces ([`mod@fit`]).

mod fit;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use engine::{Derived, Emitter, Engine, Lookup, Scope};
use ir::{
    Chain, Hostname, ListenerId, ListenerName, NsName, Problem, Reason, RouteId, Severity, filter::Scheme,
    listener::ListenerProtocol, rule::ExtensionEntry, stream::PlaceId,
};

use fit::{Claim, fit};

use crate::{
    backend::{config, most_endpoints},
    extension::ExtensionRow,
    policy::wide::ListenerSlots,
    resolve::{EnvoyRoute, Resolved, resolved_at},
    share::Payer,
    tables::{
        attachment::{Attached, Attachment},
        backend::ClusterId,
        capacity::{AskedCluster, AskedHost, AskedTokens, HostsAsked, PlaceClaims, Room},
        input::Config,
        listener::{ServedAt, route_config},
        route::RouteHead,
    },
    weight,
    words::{in_words, listed_with},
};

groups! {
    /// The rules that listeners of a Gateway serve, and what they take together at most, in bytes.
    Claims: NsName, (Chain, u32, ListenerId) => Weight, sum of |weight| weight.most;
    /// What virtual hosts and clusters of a Gateway take, in bytes.
    Fixed: NsName, Part => u64, sum of |bytes| *bytes;
}

/// What a rule takes where a listener serves it, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Weight {
    /// At one hostname.
    routes: u64,
    /// At all at most.
    most: u64,
}

/// What is placed once, whoever asks for it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Part {
    Host(ListenerName, Hostname),
    Cluster(ClusterId),
    /// What a route has placed at a place of streams: what is there for its sake alone.
    Place(PlaceId),
    /// Whose tokens are taken.
    Tokens(NsName),
}

groups! {
    /// The hostnames below a broader one that a listener serves.
    Below: (ListenerId, Hostname), Hostname => ();
}

tables! {
    /// How many virtual hosts have the routes of a broad hostname, rounded up to a power of two so that few wake for one
    /// more.
    Copies: (ListenerId, Hostname) => u64;
    /// What becomes of what there is no room for at a Gateway; absent where there is room for all.
    Overflow: NsName => Overflowing;
    /// What becomes of the rules of one of those who exceed their share.
    OverrunOf: (NsName, Payer) => Overrun;
    /// Who has a hostname answer 500 to everything.
    ShutHost: (ListenerId, Hostname) => BTreeSet<Payer>;
}

/// What there is no room for at a Gateway.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Overflowing {
    overrun: BTreeMap<Payer, Overrun>,
    shut: BTreeMap<(ListenerId, Hostname), BTreeSet<Payer>>,
}

/// What somebody asks for beyond his share. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Overrun {
    /// What all together may take at the Gateway, in bytes.
    bound: u64,
    /// What all that he asks for would take.
    asked: u64,
    /// What he gets of it.
    share: u64,
    /// What is not served as it is.
    unplaced: Arc<Unplaced>,
}

/// Rules, and places of streams, that are not served as they are.
#[derive(Debug, Default, PartialEq, Eq)]
struct Unplaced {
    rules: BTreeMap<(Chain, u32, ListenerId), Rooms>,
    places: BTreeMap<(RouteId, PlaceId), Room>,
}

/// What becomes of a rule where there is no room for it.
type Rooms = Vec<(Hostname, Room)>;

impl Derived for AskedHost {
    fn compute(scope: &Emitter<'_>, (listener, hostname): &Self::Key) -> Option<()> {
        let part = Part::Host(listener.name.clone(), hostname.clone());
        let at = scope.get::<ServedAt>(listener);
        // Over TLS they stand once, on the route configuration.
        let is_plain = at.as_ref().is_some_and(|at| at.0 == Scheme::Http);
        let slots = is_plain.then(|| scope.get::<ListenerSlots>(listener)).flatten();
        let slots = slots.map_or(0, |slots| weight::slots(&slots));
        scope.emit::<Fixed>(listener.gateway.clone(), part, weight::HOST + slots);
        if let Some(config) = route_config(scope, listener) {
            scope.emit::<HostsAsked>(config, (listener.clone(), hostname.clone()), 1);
        }
        // Beyond its own a listener has no rows.
        let is_here = |broader: &Hostname| at.as_ref().is_some_and(|at| at.2.covers(broader));
        for covering in hostname.covering().skip(1).take_while(is_here) {
            scope.emit::<Below>((listener.clone(), covering), hostname.clone(), ());
        }
        Some(())
    }
}

impl Derived for AskedCluster {
    fn compute(scope: &Emitter<'_>, (gateway, cluster): &Self::Key) -> Option<()> {
        let mut weight = weight::cluster(most_endpoints(scope, cluster)).saturating_add(config::memory(scope, cluster));
        let mut part = Part::Cluster(cluster.clone());
        if let ClusterId::Place(place) = cluster {
            weight = weight.saturating_add(weight::CHAIN);
            if !place.is_hostname() {
                // It is there whether a route asks for it or not.
                let alone = weight::cluster(0) + weight::CHAIN;
                scope.emit::<Fixed>(gateway.clone(), part, alone);
                weight = weight.saturating_sub(alone);
            }
            part = Part::Place(place.clone());
        }
        scope.emit::<Fixed>(gateway.clone(), part, weight);
        Some(())
    }
}

impl Derived for AskedTokens {
    fn compute(scope: &Emitter<'_>, (gateway, id): &Self::Key) -> Option<()> {
        let judged = scope.get::<ExtensionRow>(id)?;
        let weight = weight::tokens(&judged.extension.as_ref().ok()?.provider);
        scope.emit::<Fixed>(gateway.clone(), Part::Tokens(id.clone()), weight);
        Some(())
    }
}

/// What a rule has placed once.
fn parts(resolved: &Resolved) -> Vec<Part> {
    let tokens = resolved.entries.iter().filter_map(|entry| match entry {
        ExtensionEntry::Tokens(id) | ExtensionEntry::LoginTokens(id) => Some(Part::Tokens(id.clone())),
        ExtensionEntry::LocalRate(_) | ExtensionEntry::Login(_) | ExtensionEntry::Program(_) => None,
    });
    resolved.clusters.iter().cloned().map(Part::Cluster).chain(tokens).collect()
}

impl Lookup for Copies {
    fn compute(scope: &Scope<'_>, key: &Self::Key) -> Option<u64> {
        Some((1 + scope.group::<Below>(key).len() as u64).next_power_of_two())
    }
}

/// Takes note of what a rule asks for where a listener serves it.
pub(crate) fn claim(
    scope: &Emitter<'_>,
    key: &(Chain, u32, ListenerId),
    attached: &Attached,
    resolved: &Resolved,
    routes: &[EnvoyRoute],
) {
    let listener = &key.2;
    let routes = routes.iter().map(|route| route.memory).sum();
    let copies = attached.hostnames(listener).iter().map(|served| match &served.hostname {
        Hostname::Exact(_) => 1,
        broad => scope.get::<Copies>(&(listener.clone(), broad.clone())).map_or(1, |copies| *copies),
    });
    let most = copies.sum::<u64>().saturating_mul(routes).min(weight::MOST);
    scope.emit::<Claims>(listener.gateway.clone(), key.clone(), Weight { routes, most });
    for part in parts(resolved) {
        match part {
            Part::Cluster(cluster) => scope.demand::<AskedCluster>((listener.gateway.clone(), cluster)),
            Part::Tokens(id) => scope.demand::<AskedTokens>((listener.gateway.clone(), id)),
            Part::Host(..) | Part::Place(_) => {}
        }
    }
}

/// Who asks for room, in the order in which those of an age have it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Asker<'a> {
    /// A rule where a listener serves it.
    Rule(&'a Chain, u32, &'a ListenerId),
    /// A place of streams.
    Place(&'a PlaceId),
}

/// What is asked for, the oldest route first.
struct Asking<'a> {
    order: (i64, &'a RouteId, Asker<'a>),
    payer: Payer,
    hostnames: Vec<Hostname>,
    routes: u64,
    parts: Vec<Part>,
}

impl<'a> Asking<'a> {
    fn of_rule(scope: &Scope<'_>, key: &'a (Chain, u32, ListenerId), weight: &Weight) -> Option<Self> {
        let (chain, rule, listener) = key;
        let created = scope.get::<RouteHead>(chain.route())?.created;
        let attached = scope.get::<Attachment>(chain.top())?;
        let hostnames = attached.hostnames(listener).iter().map(|served| served.hostname.clone());
        Some(Self {
            order: (created, chain.route(), Asker::Rule(chain, *rule, listener)),
            payer: Payer::of(chain),
            hostnames: hostnames.collect(),
            routes: weight.routes,
            parts: parts(&*resolved_at(scope, key)?),
        })
    }

    fn of_place(scope: &Scope<'_>, place: &'a PlaceId, route: &'a RouteId) -> Option<Self> {
        Some(Self {
            order: (scope.get::<RouteHead>(route)?.created, route, Asker::Place(place)),
            payer: Payer::of(&Chain::root(route.clone())),
            hostnames: vec![place.hostname.clone()],
            routes: 0,
            parts: vec![Part::Place(place.clone())],
        })
    }

    fn listener(&self) -> &'a ListenerId {
        match &self.order.2 {
            Asker::Rule(_, _, listener) => listener,
            Asker::Place(place) => &place.listener,
        }
    }
}

impl Lookup for Overflow {
    fn compute(scope: &Scope<'_>, gateway: &NsName) -> Option<Overflowing> {
        let bound = scope.get::<Config>(&())?.capacity.max_bytes;
        let (claims, fixed) = (scope.group::<Claims>(gateway), scope.group::<Fixed>(gateway));
        if claims.summary() + fixed.summary() <= bound {
            return None;
        }
        let places = scope.group::<PlaceClaims>(gateway);
        let rules = claims.iter().filter_map(|(key, weight)| Asking::of_rule(scope, key, weight));
        let places = places.iter().filter_map(|(place, route)| Asking::of_place(scope, place, route));
        let mut asking: Vec<_> = rules.chain(places).collect();
        asking.sort_by(|a, b| a.order.cmp(&b.order));
        let claims = asking.iter().map(|asking| Claim {
            payer: asking.payer.clone(),
            listener: asking.listener(),
            hostnames: asking.hostnames.iter().collect(),
            routes: asking.routes,
            parts: asking.parts.clone(),
        });
        let claims: Vec<_> = claims.collect();
        let claimed: BTreeSet<_> = claims.iter().flat_map(|claim| &claim.parts).collect();
        // Of what whole listeners ask for, who has the Gateway answers: the rest is shared out.
        let is_wide = |part: &Part| !matches!(part, Part::Host(..)) && !claimed.contains(part);
        let wide = fixed.iter().filter_map(|(part, bytes)| is_wide(part).then_some(*bytes));
        let shared = bound.saturating_sub(wide.fold(0, u64::saturating_add));
        let fitted = fit(shared, &claims, |part| fixed.get(part).copied().unwrap_or_default())?;
        let mut rooms: BTreeMap<&Payer, Unplaced> = BTreeMap::new();
        for (index, room) in fitted.rooms {
            let unplaced = rooms.entry(&asking[index].payer).or_default();
            match &asking[index].order {
                (_, _, Asker::Rule(chain, rule, listener)) => {
                    unplaced.rules.insert(((*chain).clone(), *rule, (*listener).clone()), room);
                }
                (_, route, Asker::Place(place)) => {
                    let rooms = room.into_iter().map(|(_, room)| (((*route).clone(), (*place).clone()), room));
                    unplaced.places.extend(rooms);
                }
            }
        }
        let overrun = fitted.exceed.into_iter().map(|(payer, (asked, share))| {
            let unplaced = Arc::new(rooms.remove(&payer).unwrap_or_default());
            (payer, Overrun { bound, asked, share, unplaced })
        });
        Some(Overflowing { overrun: overrun.collect(), shut: fitted.shut })
    }
}

impl Lookup for OverrunOf {
    fn compute(scope: &Scope<'_>, (gateway, payer): &Self::Key) -> Option<Overrun> {
        scope.get::<Overflow>(gateway)?.overrun.get(payer).cloned()
    }
}

impl Lookup for ShutHost {
    fn compute(scope: &Scope<'_>, key: &Self::Key) -> Option<BTreeSet<Payer>> {
        scope.get::<Overflow>(&key.0.gateway)?.shut.get(key).cloned()
    }
}

/// What somebody asks for beyond his share of a Gateway, if he does.
pub(crate) fn overrun(scope: &Scope<'_>, gateway: &NsName, chain: &Chain) -> Option<Arc<Overrun>> {
    scope.get::<OverrunOf>(&(gateway.clone(), Payer::of(chain)))
}

impl Overrun {
    /// What becomes of a rule at a hostname; none where it is served.
    pub(crate) fn room(&self, key: &(Chain, u32, ListenerId), hostname: &Hostname) -> Option<Room> {
        let rooms = self.unplaced.rules.get(key)?;
        rooms.iter().find_map(|(at, room)| (at == hostname).then_some(*room))
    }

    /// What becomes of a place that a route would serve; none where it does.
    pub(crate) fn room_of_place(&self, route: &RouteId, place: &PlaceId) -> Option<Room> {
        self.unplaced.places.get(&(route.clone(), place.clone())).copied()
    }

    /// What is to be said of a rule at a Gateway, if there is no room for all of it.
    fn problem(&self, chain: &Chain, rule: u32, gateway: &NsName) -> Option<Problem> {
        if chain.route().kind.is_stream() {
            return self.problem_of_places(chain, gateway);
        }
        let first = (chain.clone(), rule, ListenerId::of_gateway(gateway.clone(), "".into()));
        let here =
            |(of, at, listener): &(Chain, u32, ListenerId)| of == chain && *at == rule && listener.gateway == *gateway;
        let rooms = self.unplaced.rules.range(first..).take_while(|(key, _)| here(key)).flat_map(|(_, rooms)| rooms);
        let rooms: Vec<_> = rooms.collect();
        let at = |room: Room| {
            let at: BTreeSet<_> = rooms.iter().filter(|(_, of)| *of == room).map(|(hostname, _)| hostname).collect();
            (!at.is_empty()).then(|| listed_with(", ", &at.into_iter().collect::<Vec<_>>()))
        };
        let left_out = at(Room::LeftOut);
        let severity = if left_out.is_some() { Severity::Refused } else { Severity::Replaced };
        let becomes = [
            at(Room::Closed).map(|at| format!("the rule answers {} at {at}", chain.route().kind.broken_status())),
            at(Room::Shut).map(|at| format!("everything answers 500 at {at}")),
            left_out.map(|at| format!("the rule is left out at {at}")),
        ];
        let becomes: Vec<_> = becomes.into_iter().flatten().collect();
        self.told(chain, rule, gateway, severity, &becomes)
    }

    fn problem_of_places(&self, chain: &Chain, gateway: &NsName) -> Option<Problem> {
        let listener = ListenerId::of_gateway(NsName::new("", ""), "".into());
        let first = PlaceId { listener, protocol: ListenerProtocol::Http, hostname: Hostname::Any };
        let of_route = self.unplaced.places.range((chain.route().clone(), first)..);
        let of_route = of_route.take_while(|((route, _), _)| route == chain.route());
        let (mut closed, mut left_out) = (Vec::new(), Vec::new());
        for ((_, place), room) in of_route {
            if *room == Room::LeftOut { &mut left_out } else { &mut closed }.push(place);
        }
        let severity = if left_out.is_empty() { Severity::Replaced } else { Severity::Refused };
        let closed = (!closed.is_empty()).then(|| format!("connections are closed for {}", listed_with(", ", &closed)));
        let left_out = (!left_out.is_empty())
            .then(|| format!("broader hostnames take the connections, if any, for {}", listed_with(", ", &left_out)));
        let becomes: Vec<_> = closed.into_iter().chain(left_out).collect();
        self.told(chain, 0, gateway, severity, &becomes)
    }

    fn told(
        &self,
        chain: &Chain,
        rule: u32,
        gateway: &NsName,
        severity: Severity,
        becomes: &[String],
    ) -> Option<Problem> {
        if becomes.is_empty() {
            return None;
        }
        let message = format!(
            "the proxies of Gateway {gateway} have no room for it, and {}: the rules of namespace {} would take {} of their \
             memory, and its share of {} is {}; use fewer matches, hostnames and backends, and give rules hostnames",
            becomes.join("; "),
            chain.route().namespace(),
            in_words(self.asked),
            in_words(self.bound),
            in_words(self.share),
        );
        Some(Problem::new(severity, Reason::UnsupportedValue, format!("spec.rules[{rule}]"), message))
    }
}

/// What is to be said of a rule for which the proxies of a Gateway have no room.
pub(crate) fn no_room(scope: &Scope<'_>, chain: &Chain, rule: u32, gateway: &NsName) -> Option<Problem> {
    scope.get::<OverrunOf>(&(gateway.clone(), Payer::of(chain)))?.problem(chain, rule, gateway)
}

/// The Gateways that have no room for all rules of a route where it stands.
pub(crate) struct Overruns<'a> {
    chain: &'a Chain,
    at: Vec<(NsName, Arc<Overrun>)>,
}

impl<'a> Overruns<'a> {
    pub(crate) fn read(scope: &Scope<'_>, chain: &'a Chain) -> Self {
        Self::of(chain, scope.get::<Attachment>(chain.top()).as_deref(), |key| scope.get::<OverrunOf>(key))
    }

    /// As they stand in the tables.
    pub(crate) fn seen(engine: &Engine, chain: &'a Chain) -> Self {
        Self::of(chain, engine.get::<Attachment>(chain.top()).as_deref(), |key| engine.get::<OverrunOf>(key))
    }

    fn of(
        chain: &'a Chain,
        attached: Option<&Attached>,
        get: impl Fn(&(NsName, Payer)) -> Option<Arc<Overrun>>,
    ) -> Self {
        let listeners = attached.into_iter().flat_map(|attached| &attached.served);
        let mut gateways: Vec<_> = listeners.map(|listener| &listener.gateway).collect();
        gateways.dedup();
        let at = gateways.into_iter().filter_map(|gateway| {
            let overrun = get(&(gateway.clone(), Payer::of(chain)))?;
            Some((gateway.clone(), overrun))
        });
        Self { chain, at: at.collect() }
    }

    /// What is to be said of one of the rules.
    pub(crate) fn problems(&self, rule: u32) -> impl Iterator<Item = Problem> {
        self.at.iter().filter_map(move |(gateway, overrun)| overrun.problem(self.chain, rule, gateway))
    }
}
