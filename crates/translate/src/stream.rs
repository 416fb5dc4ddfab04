//! Connections and datagrams as a whole (TCPRoute, UDPRoute, TLSRoute).
//!
//! A *place* is a listener of TCP or UDP, or a hostname of one of TLS ([`PlaceId`]). The oldest route that asks for it serves it,
//! through one cluster that the listener always names: whatever routes say of a place is in its endpoints, so that no listener
//! changes for it and no connection ends.

use engine::{Derived, Emitter, Lookup, Scope};
use ir::{
    Hostname, ListenerId, NsName, Problem, Reason, RouteId, RouteKind, Severity,
    backend::{PLAIN, Transport, Way},
    filter::Scheme,
    listener::ListenerProtocol,
    matching::Age,
    route::Unhandled,
    stream::PlaceId,
    upstream::Tls,
};

use crate::{
    backend::{
        reference::destination_of,
        stream::{self, Followed},
        tls,
    },
    capacity::{self, overrun},
    grant::Referrer,
    internal,
    output::offer,
    tables::{
        attachment::{Attached, Attachment},
        backend::ClusterId,
        capacity::AskedCluster,
        gateway::ClientCertificate,
        input::{RefusedPart, Strict, object_id},
        listener::{ListenerRow, PortHosts},
        output::{OutputId, Outputs, ServedCluster},
        route::RouteRule,
        stream::{
            ChainsAt, Dialed, Place, PlaceShares, Placed, PlacesOf, Placing, ServedPlace, Shares, StreamClaim,
            StreamRule, StreamShare, Streams, StreamsAt, WaysAt, Winner, claim_of, is_won, places,
        },
        strict::{Owner, PartId},
        tls::DialedBy,
    },
};

/// How many hostnames of TLSRoutes a Gateway has at most: each has a filter chain and a cluster.
const MOST_PLACES: usize = 4096;

/// The transport of the connections or datagrams of a kind of routes.
fn transport(kind: RouteKind) -> Transport {
    if kind == RouteKind::UdpRoute { Transport::Udp } else { Transport::Tcp }
}

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
            match stream::follow(scope, from, &backend.backend, &backend.field, transport(route.kind)) {
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

/// Has a route stand at the places that it asks for at a listener that is served.
pub(crate) fn file(scope: &Emitter<'_>, route: &RouteId, created: i64, listener: &ListenerId, places: &[PlaceId]) {
    for place in places {
        scope.emit::<StreamsAt>(place.clone(), Age { created, name: route.name.clone() }, ());
        if place.kind == RouteKind::TlsRoute {
            scope.demand::<Place>(place.clone());
        }
    }
    scope.demand::<StreamClaim>((route.clone(), listener.clone()));
}

impl Lookup for Winner {
    fn compute(scope: &Scope<'_>, place: &PlaceId) -> Option<RouteId> {
        let routes = scope.group::<StreamsAt>(place);
        let (age, ()) = routes.first()?;
        Some(RouteId::new(place.kind, age.name.clone()))
    }

    /// Nobody takes anything.
    fn poisoned(_: &Scope<'_>, _: &PlaceId, _: &engine::Fault) -> Option<RouteId> {
        None
    }
}

impl Derived for Place {
    fn compute(scope: &Emitter<'_>, place: &PlaceId) -> Option<()> {
        if place.kind == RouteKind::TlsRoute {
            let routes = scope.group::<StreamsAt>(place);
            let (age, ()) = routes.first()?;
            scope.emit::<PlacesOf>(place.listener.gateway.clone(), (age.clone(), place.clone()), ());
        }
        scope.demand::<ServedPlace>(place.clone());
        Some(())
    }

    fn poisoned(scope: &Emitter<'_>, place: &PlaceId, _: &engine::Fault) -> Option<()> {
        scope.demand::<ServedPlace>(place.clone());
        Some(())
    }
}

tables! {
    /// The first hostname of a Gateway for which there is no room; absent where there is for all.
    FirstBeyond: NsName => (Age, PlaceId);
}

impl Lookup for FirstBeyond {
    fn compute(scope: &Scope<'_>, gateway: &NsName) -> Option<(Age, PlaceId)> {
        let places = scope.group::<PlacesOf>(gateway);
        if places.len() <= MOST_PLACES {
            return None;
        }
        places.iter().nth(MOST_PLACES).map(|(place, ())| place.clone())
    }

    /// Proxies have what they had room for.
    fn poisoned(_: &Scope<'_>, _: &NsName, _: &engine::Fault) -> Option<(Age, PlaceId)> {
        None
    }
}

impl Lookup for Placing {
    fn compute(scope: &Scope<'_>, place: &PlaceId) -> Option<Placed> {
        if place.kind != RouteKind::TlsRoute {
            return Some(Placed::Here);
        }
        let gateway = &place.listener.gateway;
        let port = scope.get::<ListenerRow>(&place.listener)?.model.port;
        let owner = place.hostname.covering().find_map(|hostname| {
            let at = scope.group::<PortHosts>(&(gateway.clone(), port, Scheme::Https, hostname));
            at.first().map(|((_, name), ())| name.clone())
        });
        if owner.as_ref() != Some(&place.listener.name) {
            return Some(Placed::Elsewhere);
        }
        let beyond = scope.get::<FirstBeyond>(gateway);
        let routes = scope.group::<StreamsAt>(place);
        let is_beyond =
            beyond.zip(routes.first()).is_some_and(|(beyond, (age, ()))| (age, place) >= (&beyond.0, &beyond.1));
        Some(if is_beyond { Placed::TooMany } else { Placed::Here })
    }

    /// What belongs to nobody is closed.
    fn poisoned(_: &Scope<'_>, _: &PlaceId, _: &engine::Fault) -> Option<Placed> {
        Some(Placed::Elsewhere)
    }
}

/// A hostname of TLSRoutes at a listener.
pub(crate) fn place_of(scope: &Scope<'_>, listener: &ListenerId, hostname: &Hostname) -> Option<PlaceId> {
    scope.get::<ListenerRow>(listener)?;
    Some(PlaceId { listener: listener.clone(), kind: RouteKind::TlsRoute, hostname: hostname.clone() })
}

/// Whether the connections of a place are led on as they come.
fn is_passed_through(scope: &Scope<'_>, place: &PlaceId) -> bool {
    place.kind == RouteKind::TlsRoute
        && scope
            .get::<ListenerRow>(&place.listener)
            .is_none_or(|row| row.model.protocol != Some(ListenerProtocol::TlsTerminate))
}

impl Derived for ServedPlace {
    fn compute(scope: &Emitter<'_>, place: &PlaceId) -> Option<()> {
        if *scope.get::<Placing>(place)? != Placed::Here {
            return None;
        }
        serve(scope, place);
        let rule = scope.get::<Winner>(place).and_then(|route| scope.get::<StreamRule>(&route));
        if is_passed_through(scope, place) {
            return Some(());
        }
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

    /// Its connections are closed by what leads nowhere.
    fn poisoned(scope: &Emitter<'_>, place: &PlaceId, _: &engine::Fault) -> Option<()> {
        serve(scope, place);
        Some(())
    }
}

fn serve(scope: &Emitter<'_>, place: &PlaceId) {
    let gateway = &place.listener.gateway;
    if place.kind == RouteKind::TlsRoute {
        scope.emit::<ChainsAt>(place.listener.clone(), place.hostname.clone(), ());
        for secret in scope.get::<ListenerRow>(&place.listener).iter().flat_map(|row| row.secrets(gateway)) {
            scope.demand::<Outputs>(secret);
        }
        offer(scope, PartId::Chain(place.listener.clone(), place.hostname.clone()));
    }
    let cluster = (gateway.clone(), ClusterId::Place(place.clone()));
    scope.demand::<AskedCluster>(cluster.clone());
    scope.demand::<ServedCluster>(cluster);
}

impl Derived for StreamClaim {
    fn compute(scope: &Emitter<'_>, (route, listener): &Self::Key) -> Option<()> {
        let attached = scope.get::<Attachment>(route)?;
        let won = places(route, &attached, listener).filter(|place| is_won(scope, route, place)).count();
        if won > 0 {
            capacity::claim_streams(scope, &claim_of(route, listener), won as u64);
        }
        Some(())
    }

    /// What it takes is not shared out.
    fn poisoned(_: &Emitter<'_>, _: &Self::Key, _: &engine::Fault) -> Option<()> {
        None
    }
}

impl Lookup for PlaceShares {
    fn compute(scope: &Scope<'_>, place: &PlaceId) -> Option<Shares> {
        let route = scope.get::<Winner>(place)?;
        let claim = claim_of(&route, &place.listener);
        if overrun(scope, &claim).is_some_and(|overrun| overrun.room(&claim, &place.hostname).is_some()) {
            return None;
        }
        let rule = scope.get::<StreamRule>(&route)?;
        let passed_through = is_passed_through(scope, place);
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
        if place.transport() == Transport::Udp || is_passed_through(scope, place) {
            return None;
        }
        let rule = scope.get::<StreamRule>(&*scope.get::<Winner>(place)?)?;
        let gateway = &place.listener.gateway;
        let mut ways: Vec<_> = rule.reached().filter_map(|to| way(scope, gateway, to)).collect();
        ways.sort_by(|a, b| a.name.cmp(&b.name));
        ways.dedup_by(|a, b| a.name == b.name);
        (!ways.is_empty()).then(|| ways.into())
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
    if is_passed_through(scope, place) {
        return None;
    }
    let rule = scope.get::<StreamRule>(&*scope.get::<Winner>(place)?)?;
    rule.reached().find_map(|to| tls::without_room(scope, &place.listener.gateway, &to.to))
}

/// What is to be told to a route whose references lead where they shall.
pub(crate) fn fault(scope: &Scope<'_>, route: &RouteId) -> Option<Problem> {
    scope.get::<StreamRule>(route)?.fault.clone()
}

/// A place at which a route is not served, and why.
pub(crate) struct Unserved {
    /// The place.
    pub(crate) place: PlaceId,
    /// Why.
    pub(crate) why: Why,
}

/// Why a route is not served at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// Another one is older, or first by its name.
    Superseded,
    /// The place is another listener's.
    Elsewhere,
    /// There are too many.
    TooMany,
}

impl Unserved {
    /// That a hostname belongs to another listener, which is the business of its owner.
    pub(crate) fn elsewhere(&self) -> Problem {
        let PlaceId { listener, hostname, .. } = &self.place;
        let message = format!(
            "{hostname} is not served at listener {}: another listener of its port has that hostname, or a narrower one that \
             covers it; attach the route to that one, or remove the hostname",
            listener.name
        );
        Problem::new(Severity::Ignored, Reason::NoMatchingListenerHostname, "spec.hostnames", message)
    }

    /// That there is no room for more hostnames.
    pub(crate) fn too_many(&self) -> Problem {
        let PlaceId { listener, hostname, .. } = &self.place;
        let message = format!(
            "{hostname} is not served at listener {}: TLSRoutes have more than {MOST_PLACES} hostnames at Gateway {}, and older \
             ones go first; use a wildcard, or fewer hostnames",
            listener.name, listener.gateway
        );
        Problem::new(Severity::Refused, Reason::UnsupportedValue, "spec.hostnames", message)
    }
}

/// The places of listeners that are served at which a route is not.
pub(crate) fn unserved(scope: &Scope<'_>, route: &RouteId, attached: &Attached) -> Vec<Unserved> {
    let all = attached.served.iter().flat_map(|listener| places(route, attached, listener));
    let unserved = all.filter_map(|place| {
        let why = match *scope.get::<Placing>(&place)? {
            Placed::Elsewhere if stands_elsewhere(route, attached, &place) => return None,
            Placed::Elsewhere => Why::Elsewhere,
            Placed::TooMany => Why::TooMany,
            Placed::Here if scope.get::<Winner>(&place).is_some_and(|winner| *winner != *route) => Why::Superseded,
            Placed::Here => return None,
        };
        Some(Unserved { place, why })
    });
    unserved.collect()
}

/// Whether a route stands at another listener of the Gateway with the same hostname.
fn stands_elsewhere(route: &RouteId, attached: &Attached, place: &PlaceId) -> bool {
    let others = attached.listeners.iter().map(|(listener, _)| listener);
    let mut others =
        others.filter(|listener| **listener != place.listener && listener.gateway == place.listener.gateway);
    others.any(|listener| places(route, attached, listener).any(|other| other.hostname == place.hostname))
}

/// Whether all that a route takes is led on as it comes.
pub(crate) fn passes_all_through(scope: &Scope<'_>, route: &RouteId, attached: &Attached) -> bool {
    let mut all = attached.listeners.iter().flat_map(|(listener, _)| places(route, attached, listener));
    route.kind == RouteKind::TlsRoute && all.all(|place| is_passed_through(scope, &place))
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
    let chain = (place.kind == RouteKind::TlsRoute).then(chain);
    std::iter::once(PartId::Cluster(ClusterId::Place(place.clone()))).chain(chain)
}

/// Why Envoy is not sent what a route has it take, where it is asked before.
pub(crate) fn refused(scope: &Scope<'_>, route: &RouteId, attached: &Attached) -> Option<Problem> {
    scope.get::<Strict>(&())?;
    let mut all = attached.served.iter().flat_map(|listener| places(route, attached, listener));
    all.find_map(|place| {
        let mut parts = parts(&place).filter(|_| is_won(scope, route, &place));
        let refused = parts.find_map(|part| scope.get::<RefusedPart>(&part))?;
        let message = format!("nothing is sent to its backends at {place}: {}", refused.told(route.namespace()));
        Some(Problem::new(Severity::Replaced, Reason::Invalid, "spec.rules[0]", message))
    })
}
