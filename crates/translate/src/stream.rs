//! Connections and datagrams as a whole (TCPRoute, UDPRoute, TLSRoute).
//!
//! A *place* is a listener of TCP or UDP, or a hostname of one of TLS ([`PlaceId`]). The oldest route that asks for it serves it,
//! through one cluster that the listener always names: whatever routes say of a place is in its endpoints, so that no listener
//! changes for it and no connection ends.

use std::collections::BTreeSet;

use engine::{Derived, Emitter, Lookup, Scope};
use ir::{
    Chain, Hostname, ListenerId, NsName, Port, Problem, Reason, RouteId, RouteKind, Severity,
    backend::{PLAIN, Transport, Way},
    filter::Scheme,
    listener::FilterChain,
    route::Unhandled,
    stream::PlaceId,
    upstream::Tls,
};

use crate::{
    backend::{
        place,
        reference::destination_of,
        stream::{self, Followed},
        tls,
    },
    capacity::overrun,
    grant::Referrer,
    internal,
    offer::{is_strict, offer},
    refused::by_proxies,
    tables::{
        attachment::{Attached, Attachment},
        backend::{ClusterBytes, ClusterId},
        capacity::{AskedCluster, PlaceClaims, Room},
        gateway::ClientCertificate,
        input::{RefusedPart, object_id},
        listener::{Claim, ListenerRow, ListenerState, PortHosts, ServerClaims, ServerName},
        output::{OutputId, Outputs, ServedCluster},
        replacement::{Replaced, ReplacedRule},
        route::RouteRule,
        stream::{
            ChainsAt, Dialed, Owned, Place, PlaceShares, RoomOf, ServedPlace, Shares, ShutAt, StreamRule, StreamShare,
            Streams, StreamsAt, WaysAt, Winner, places,
        },
        strict::{Owner, PartId},
        tls::DialedBy,
    },
};

impl Lookup for StreamRule {
    fn compute(scope: &Scope<'_>, route: &RouteId) -> Option<Streams> {
        let spec = scope.get::<RouteRule>(&(route.clone(), 0))?;
        let handling = match &spec.handling {
            Ok(handling) => handling,
            Err(Unhandled::Invalid(problem)) => {
                return Some(Streams { fault: Some(problem.clone()), ..Streams::default() });
            }
            Err(Unhandled::Unknown) => return Some(unknown()),
        };
        let (mut shares, mut unresolved) = (Vec::new(), Vec::new());
        let (mut blocked, mut closed) = (Vec::new(), Vec::new());
        for backend in &handling.backends {
            let (weight, from) = (backend.weight, Referrer::route(route));
            match stream::follow(scope, from, &backend.backend, &backend.field, route.kind) {
                Ok(Followed { plain, dialed }) => {
                    let to = dialed.map_err(|problem| {
                        if problem.reason == Reason::InvalidBackendTLS {
                            closed.extend(destination_of(from, &backend.backend));
                        }
                        blocked.push(problem);
                    });
                    shares.push(StreamShare { weight, to: to.ok(), plain: Some(plain) });
                }
                Err(problem) => {
                    unresolved.push(problem);
                    shares.push(StreamShare { weight, to: None, plain: None });
                }
            }
        }
        Some(Streams {
            shares: shares.into(),
            fault: None,
            unresolved: unresolved.into(),
            blocked: blocked.into(),
            closed_backends: closed.into(),
        })
    }

    /// Nobody takes its connections.
    fn poisoned(_: &Scope<'_>, _: &RouteId, _: &engine::Fault) -> Option<Streams> {
        Some(unknown())
    }
}

fn unknown() -> Streams {
    let fault = internal::problem(Severity::Replaced, "spec.rules[0]");
    Streams { fault: Some(fault), ..Streams::default() }
}

/// Has a route stand at the places that it asks for at listeners that are served.
pub(crate) fn file(scope: &Emitter<'_>, route: &RouteId, attached: &Attached) {
    for listener in &attached.served {
        for place in places(route, attached, listener) {
            scope.emit::<StreamsAt>(place.clone(), attached.age(route), ());
            if place.is_hostname() {
                scope.demand::<Place>(place);
            }
        }
    }
}

impl Lookup for Winner {
    fn compute(scope: &Scope<'_>, place: &PlaceId) -> Option<RouteId> {
        let routes = scope.group::<StreamsAt>(place);
        let (age, ()) = routes.first()?;
        Some(RouteId::new(place.kind()?, age.name.clone()))
    }

    /// Nobody takes anything.
    fn poisoned(_: &Scope<'_>, _: &PlaceId, _: &engine::Fault) -> Option<RouteId> {
        None
    }
}

impl Lookup for Owned {
    fn compute(scope: &Scope<'_>, place: &PlaceId) -> Option<()> {
        if !place.is_hostname() {
            return Some(());
        }
        let port = scope.get::<ListenerRow>(&place.listener)?.model.port;
        let owner = place.hostname.covering().find_map(|hostname| {
            let at = scope.group::<PortHosts>(&(place.listener.gateway.clone(), port, Scheme::Https, hostname));
            at.first().map(|((_, name), ())| name.clone())
        });
        (owner.as_ref() == Some(&place.listener.name)).then_some(())
    }

    /// It has no chain that another listener may have too.
    fn poisoned(_: &Scope<'_>, _: &PlaceId, _: &engine::Fault) -> Option<()> {
        None
    }
}

impl Derived for Place {
    fn compute(scope: &Emitter<'_>, place: &PlaceId) -> Option<()> {
        scope.get::<Owned>(place)?;
        let gateway = &place.listener.gateway;
        scope.demand::<AskedCluster>((gateway.clone(), ClusterId::Place(place.clone())));
        if let Some(route) = scope.get::<Winner>(place) {
            let route = RouteId::clone(&route);
            scope.demand::<Replaced>(ReplacedRule {
                gateway: gateway.clone(),
                route: Chain::root(route.clone()),
                rule: 0,
            });
            scope.emit::<PlaceClaims>(gateway.clone(), place.clone(), route);
        }
        scope.demand::<ServedPlace>(place.clone());
        Some(())
    }

    /// What it takes is not shared out.
    fn poisoned(scope: &Emitter<'_>, place: &PlaceId, _: &engine::Fault) -> Option<()> {
        scope.demand::<ServedPlace>(place.clone());
        Some(())
    }
}

impl Lookup for RoomOf {
    fn compute(scope: &Scope<'_>, place: &PlaceId) -> Option<Room> {
        let route = scope.get::<Winner>(place)?;
        overrun(scope, &place.listener.gateway, &Chain::root(RouteId::clone(&route)))?.room_of_place(&route, place)
    }

    /// What nobody can tell takes nothing.
    fn poisoned(_: &Scope<'_>, _: &PlaceId, _: &engine::Fault) -> Option<Room> {
        Some(Room::Shut)
    }
}

/// A hostname of TLSRoutes at a listener.
pub(crate) fn place_of(scope: &Scope<'_>, listener: &ListenerId, hostname: &Hostname) -> Option<PlaceId> {
    let protocol = scope.get::<ListenerRow>(listener)?.model.protocol?;
    let place = PlaceId { listener: listener.clone(), protocol, hostname: hostname.clone() };
    place.is_hostname().then_some(place)
}

impl Derived for ServedPlace {
    fn compute(scope: &Emitter<'_>, place: &PlaceId) -> Option<()> {
        let room = scope.get::<RoomOf>(place);
        if place.is_hostname() {
            scope.get::<Owned>(place)?;
            match room.as_deref() {
                None => chain(scope, place),
                Some(Room::LeftOut) => return None,
                Some(Room::Closed | Room::Shut) => {
                    shut(scope, place);
                    return None;
                }
            }
        }
        scope.demand::<ServedCluster>((place.listener.gateway.clone(), ClusterId::Place(place.clone())));
        if place.is_passed_through() || room.is_some() {
            return Some(());
        }
        let rule = scope.get::<Winner>(place).and_then(|route| scope.get::<StreamRule>(&route));
        let gateway = &place.listener.gateway;
        for to in rule.iter().flat_map(|rule| rule.closed_backends.iter()) {
            scope.demand::<DialedBy>((to.clone(), gateway.clone()));
        }
        for dialed in rule.iter().flat_map(|rule| rule.reached()) {
            let Dialed { to, bundle, .. } = &**dialed;
            if to.is_secured() {
                scope.demand::<DialedBy>((to.clone().plain(), gateway.clone()));
            }
            if let Some(secret) = shown(scope, gateway, dialed) {
                scope.demand::<Outputs>(OutputId::Secret(gateway.clone(), secret));
            }
            if let Some(bundle) = bundle {
                scope.demand::<Outputs>(OutputId::Authorities(gateway.clone(), bundle.clone()));
            }
        }
        Some(())
    }

    /// Its connections are closed, those of a hostname as if there were no room for it: nobody knows whether another listener has a
    /// chain for that.
    fn poisoned(scope: &Emitter<'_>, place: &PlaceId, _: &engine::Fault) -> Option<()> {
        if place.is_hostname() {
            shut(scope, place);
        } else {
            scope.demand::<ServedCluster>((place.listener.gateway.clone(), ClusterId::Place(place.clone())));
        }
        Some(())
    }
}

/// Has a hostname have a chain at its listener.
fn chain(scope: &Emitter<'_>, place: &PlaceId) {
    let PlaceId { listener, hostname, .. } = place;
    scope.emit::<ChainsAt>(listener.clone(), hostname.clone(), ());
    if let Some(row) = scope.get::<ListenerRow>(listener) {
        row.secrets(&listener.gateway).for_each(|secret| scope.demand::<Outputs>(secret));
        claim(scope, place, &row, Some(place.chain(row.tls())));
    }
    offer(scope, PartId::Chain(listener.clone(), hostname.clone()));
}

/// Has connections for a hostname be closed.
fn shut(scope: &Emitter<'_>, place: &PlaceId) {
    let PlaceId { listener, hostname, .. } = place;
    scope.emit::<ShutAt>(listener.clone(), hostname.clone(), ());
    // Of a listener that nobody knows nothing is served.
    if let Ok(Some(row)) = scope.attempt(|| scope.get::<ListenerRow>(listener)) {
        claim(scope, place, &row, None);
    }
}

/// Says what becomes of connections for a hostname.
fn claim(scope: &Emitter<'_>, place: &PlaceId, row: &ListenerState, chain: Option<FilterChain>) {
    let name = (place.listener.gateway.clone(), row.model.port, place.hostname.clone());
    let claim = if chain.is_some() { Claim::Chain } else { Claim::Shut };
    let rank = (claim, row.model.hostname.clone(), place.listener.name.clone());
    scope.emit::<ServerClaims>(name.clone(), rank, chain);
    scope.demand::<ServerName>(name);
}

impl Lookup for PlaceShares {
    fn compute(scope: &Scope<'_>, place: &PlaceId) -> Option<Shares> {
        let route = scope.get::<Winner>(place)?;
        if scope.get::<RoomOf>(place).is_some() {
            return None;
        }
        let rule = scope.get::<StreamRule>(&route)?;
        let passed_through = place.is_passed_through();
        let mut shares = Shares::default();
        for StreamShare { weight, to, plain } in &rule.shares {
            let dialed = to.as_ref().filter(|_| !passed_through);
            let dialed = dialed.filter(|to| tls::without_room(scope, &place.listener.gateway, &to.to).is_none());
            let dialed = dialed.map(|to| (&to.to, to.way.as_ref().map_or(PLAIN, |way| &*way.name)));
            let passed = plain.as_ref().filter(|_| passed_through).map(|plain| (plain, PLAIN));
            let Some((to, way)) = dialed.or(passed) else {
                shares.rejected = shares.rejected.saturating_add(*weight);
                continue;
            };
            let way = if place.transport() == Transport::Udp { "" } else { way };
            match shares.backends.iter_mut().find(|(known, ..)| known == to) {
                Some((_, known, _)) => *known = known.saturating_add(*weight),
                None => shares.backends.push((to.clone(), *weight, way.into())),
            }
        }
        Some(shares)
    }

    /// Nobody takes anything.
    fn poisoned(_: &Scope<'_>, _: &PlaceId, _: &engine::Fault) -> Option<Shares> {
        None
    }
}

impl Lookup for WaysAt {
    fn compute(scope: &Scope<'_>, place: &PlaceId) -> Option<Box<[Way]>> {
        if scope.get::<RoomOf>(place).is_some() {
            return None;
        }
        let gateway = &place.listener.gateway;
        let ways: Box<[_]> = place::ways(scope, place).iter().filter_map(|to| way(scope, gateway, to)).collect();
        (!ways.is_empty()).then_some(ways)
    }

    /// Nobody connects to what goes in none of them.
    fn poisoned(_: &Scope<'_>, _: &PlaceId, _: &engine::Fault) -> Option<Box<[Way]>> {
        None
    }
}

/// How the proxies of a Gateway connect to a backend. None where they have nothing to show, so that nobody connects to what goes in that
/// way.
fn way(scope: &Scope<'_>, gateway: &NsName, dialed: &Dialed) -> Option<Way> {
    let way = dialed.way.clone()?;
    let Some(tls) = way.tls.filter(Tls::shows_certificate_of_gateway) else { return dialed.way.clone() };
    let certificate = scope.get::<ClientCertificate>(gateway);
    let certificate = certificate.as_deref().map(Result::as_ref).transpose().ok()?.cloned();
    Some(Way { tls: Some(Tls { certificate, ..tls }), ..way })
}

/// The Secret with the certificate that the proxies of a Gateway show to a backend.
fn shown(scope: &Scope<'_>, gateway: &NsName, dialed: &Dialed) -> Option<NsName> {
    way(scope, gateway, dialed)?.tls?.certificate
}

/// The policy of TLS of a backend of a place whose status has no room for the Gateway, if there is one.
pub(crate) fn without_room(scope: &Scope<'_>, place: &PlaceId) -> Option<NsName> {
    if place.is_passed_through() {
        return None;
    }
    let rule = scope.get::<StreamRule>(&*scope.get::<Winner>(place)?)?;
    rule.reached().find_map(|to| tls::without_room(scope, &place.listener.gateway, &to.to))
}

/// What is to be told to a route whose references lead where they shall.
pub(crate) fn fault(scope: &Scope<'_>, route: &RouteId) -> Option<Problem> {
    scope.get::<StreamRule>(route)?.fault.clone()
}

/// The places of listeners that are served at which a route is not, though there would be room.
#[derive(Debug, Default)]
pub(crate) struct Unserved {
    /// Where another route is older, or first by its name, with the ports.
    pub(crate) superseded: Vec<(PlaceId, Port)>,
    /// Those of other listeners, unless the route is at these too.
    elsewhere: Vec<PlaceId>,
}

impl Unserved {
    /// Of a route of streams.
    pub(crate) fn of(scope: &Scope<'_>, route: &RouteId, attached: &Attached) -> Self {
        let mut unserved = Self::default();
        let (mut elsewhere, mut owned) = (Vec::new(), BTreeSet::new());
        for (listener, _) in &attached.listeners {
            let Some(row) = scope.get::<ListenerRow>(listener) else { continue };
            let (port, is_served) = (row.model.port, attached.served.contains(listener));
            for place in places(route, attached, listener) {
                if scope.get::<Owned>(&place).is_none() {
                    elsewhere.extend(is_served.then_some((place, port)));
                    continue;
                }
                owned.insert((listener.gateway.clone(), port, place.hostname.clone()));
                if is_served && scope.get::<Winner>(&place).is_some_and(|winner| *winner != *route) {
                    unserved.superseded.push((place, port));
                }
            }
        }
        let is_alone = |(place, port): &(PlaceId, Port)| {
            !owned.contains(&(place.listener.gateway.clone(), *port, place.hostname.clone()))
        };
        unserved.elsewhere = elsewhere.into_iter().filter(is_alone).map(|(place, _)| place).collect();
        unserved
    }

    /// That hostnames belong to other listeners, which is the business of the owner of the route.
    pub(crate) fn elsewhere(&self) -> impl Iterator<Item = Problem> {
        self.elsewhere.iter().map(|PlaceId { listener, hostname, .. }| {
            let message = format!(
                "{hostname} is not served at listener {}: another listener of its port has that hostname, or a narrower one that \
                 covers it; attach the route to that one, or remove the hostname",
                listener.name
            );
            Problem::new(Severity::Ignored, Reason::NoMatchingListenerHostname, "spec.hostnames", message)
        })
    }
}

/// Whether all that a route takes is led on as it comes.
pub(crate) fn passes_all_through(route: &RouteId, attached: &Attached) -> bool {
    let mut all = attached.listeners.iter().flat_map(|(listener, _)| places(route, attached, listener));
    route.kind == RouteKind::TlsRoute && all.all(|place| place.is_passed_through())
}

/// Why all connections of a route are closed at a Gateway, if they are.
pub(crate) fn closed(scope: &Scope<'_>, gateway: &NsName, route: &RouteId) -> Option<Problem> {
    let rule = scope.get::<StreamRule>(route)?;
    if let Some(fault) = &rule.fault {
        return Some(fault.clone());
    }
    let mut shares = rule.shares.iter().filter(|share| share.weight > 0);
    if shares.clone().all(|share| share.plain.is_none()) {
        return rule.unresolved.first().cloned();
    }
    let attached = scope.get::<Attachment>(route)?;
    let here = attached.served.iter().filter(|listener| listener.gateway == *gateway);
    let mut places = here.flat_map(|listener| places(route, &attached, listener));
    let is_judged = places.any(|place| !place.is_passed_through());
    (is_judged && shares.all(|share| share.to.is_none())).then(|| rule.blocked.first().cloned()).flatten()
}

/// Whose the cluster of a place is: of the route that serves it, if one does.
pub(crate) fn owner(scope: &Scope<'_>, place: &PlaceId) -> Option<Owner> {
    let route = scope.get::<Winner>(place)?;
    let rule = scope.get::<StreamRule>(&route);
    Some(rule.map_or_else(|| object_id(&route).into(), |rule| rule.owner(&route)))
}

/// The parts that the connections of a place need: its cluster, and its chain where others stand beside it.
fn parts(place: &PlaceId) -> impl Iterator<Item = PartId> {
    let chain = || PartId::Chain(place.listener.clone(), place.hostname.clone());
    let chain = place.is_hostname().then(chain);
    std::iter::once(PartId::Cluster(ClusterId::Place(place.clone()))).chain(chain)
}

/// Why Envoy is not sent what a route has it take, where it is asked before, or has refused it.
pub(crate) fn refused(scope: &Scope<'_>, route: &RouteId, attached: &Attached) -> Option<Problem> {
    let is_strict = is_strict(scope);
    let mut all = attached.served.iter().flat_map(|listener| places(route, attached, listener));
    all.find_map(|place| {
        let is_won = || {
            scope.get::<Winner>(&place).is_some_and(|winner| *winner == *route) && scope.get::<Owned>(&place).is_some()
        };
        let judged = || {
            let refused = parts(&place).find_map(|part| scope.get::<RefusedPart>(&part))?;
            Some((refused.reason(Reason::Invalid), refused.told(route.namespace())))
        };
        let told = || {
            let cluster = ClusterId::Place(place.clone());
            let written = || scope.get::<ClusterBytes>(&cluster).map(|encoded| (*encoded).clone());
            let words = by_proxies(scope, &cluster, written)?;
            let is_shared = owner(scope, &place).is_some_and(|owner| owner.is_shared);
            let words = if is_shared {
                "a proxy refused what policies of another namespace say".into()
            } else {
                words.to_string()
            };
            Some((Reason::Invalid, words))
        };
        let (reason, refused) = is_won().then(|| is_strict.then(judged).flatten().or_else(told)).flatten()?;
        let message = format!("nothing is sent to its backends at {place}: {refused}");
        Some(Problem::new(Severity::Replaced, reason, "spec.rules[0]", message))
    })
}
