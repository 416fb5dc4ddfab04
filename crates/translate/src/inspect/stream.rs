//! Connections and datagrams: who serves them, and where they go.

use api::{Kind, ObjectId};
use ir::{
    Chain, Hostname, ListenerId, ListenerName, NsName, Port, Problem, RouteId, RouteKind,
    backend::{Destination, Transport},
    stream::PlaceId,
    upstream::Tls,
};

use super::{AttachedRoute, Fault, Inspector, rule::without_room};
use crate::tables::{
    backend::ClusterId,
    gateway::ClientCertificate,
    input::ObjectKey,
    listener::{ListenerRow, PortListeners},
    stream::{self, ChainsAt, PlaceShares, ShutAt, StreamRule, StreamsAt, Winner},
    tls::NoRoom,
};

/// What becomes of the connections or datagrams of a place.
#[derive(Clone, Debug)]
pub struct StreamPlace {
    /// The place.
    pub place: PlaceId,
    /// The route that serves it; none where none does.
    pub route: Option<RouteId>,
    /// The routes in whose place it does, the oldest first.
    pub superseded: Vec<RouteId>,
    /// Where they go, by weight; none for a share that goes nowhere.
    pub shares: Vec<(Option<Destination>, u32)>,
    /// Why shares go nowhere.
    pub problems: Vec<Problem>,
    /// Whose owner must act, and why, where the Gateway's proxies connect to nobody though the route is sound.
    pub unsent: Vec<(ObjectId, Fault)>,
}

impl Inspector<'_> {
    /// What becomes of the connections or datagrams of a place.
    pub fn place(self, place: &PlaceId) -> StreamPlace {
        let route = self.engine.get::<Winner>(place).filter(|_| self.is_placed(place));
        let route = route.map(|route| RouteId::clone(&route));
        let rule = route.as_ref().and_then(|route| self.engine.get::<StreamRule>(route));
        let all = self.engine.group::<StreamsAt>(place);
        let others = all.iter().skip(1).filter_map(|(age, ())| Some(RouteId::new(place.kind()?, age.name.clone())));
        let shares = self.engine.get::<PlaceShares>(place).filter(|_| route.is_some());
        let gateway = &place.listener.gateway;
        let certificate = self.engine.get::<ClientCertificate>(gateway);
        let nothing_to_show = certificate.as_ref().and_then(|shown| shown.as_ref().as_ref().err());
        let is_shown = |to: &Destination| {
            let mut reached = rule.iter().flat_map(|rule| rule.reached()).filter(|dialed| dialed.to == *to);
            reached.any(|dialed| {
                let tls = dialed.way.as_ref().and_then(|way| way.tls.as_ref());
                tls.is_some_and(Tls::shows_certificate_of_gateway)
            })
        };
        let is_unsent = |to: &Destination| nothing_to_show.is_some() && is_shown(to);
        let backends = || shares.iter().flat_map(|shares| &shares.backends);
        let unshown = nothing_to_show.filter(|_| backends().any(|(to, ..)| is_shown(to)));
        let unshown = unshown.map(|fault| (gateway.clone().id(Kind::Gateway), fault.clone()));
        let no_room = self.engine.group::<NoRoom>(gateway);
        let no_room = no_room.get(&ClusterId::Place(place.clone())).map(|policy| without_room(gateway, policy));
        let sent = backends().map(|(to, weight, _)| ((!is_unsent(to)).then(|| to.clone()), *weight));
        let nowhere = shares.as_ref().map_or(0, |shares| shares.rejected);
        let problems =
            rule.iter().flat_map(|rule| rule.fault.iter().chain(&rule.unresolved).chain(&rule.blocked).cloned());
        let chain = route.clone().map(Chain::root);
        let beyond_share = chain.iter().flat_map(|chain| self.no_room(chain)(0));
        StreamPlace {
            place: place.clone(),
            superseded: others.collect(),
            shares: sent.chain((nowhere > 0).then_some((None, nowhere))).collect(),
            problems: problems.chain(beyond_share).collect(),
            unsent: no_room.into_iter().chain(unshown).collect(),
            route,
        }
    }

    fn is_placed(self, place: &PlaceId) -> bool {
        !place.is_hostname() || self.engine.group::<ChainsAt>(&place.listener).get(&place.hostname).is_some()
    }

    /// The places that a route asks for at a listener that is served, and whether it serves each.
    pub fn places(self, route: &AttachedRoute, listener: &ListenerId) -> Vec<(PlaceId, bool)> {
        if !route.route.kind.is_stream() || !route.row.served.contains(listener) {
            return Vec::new();
        }
        let places = stream::places(&route.route, &route.row, listener);
        let is_won = |place: &PlaceId| {
            self.is_placed(place) && self.engine.get::<Winner>(place).is_some_and(|winner| *winner == route.route)
        };
        places.map(|place| (place.clone(), is_won(&place))).collect()
    }

    /// The listener of a port without TLS that takes connections or datagrams as a whole, and whether it is served.
    pub fn stream_listener(self, gateway: &NsName, port: Port, transport: Transport) -> Option<(ListenerName, bool)> {
        let listeners = self.engine.group::<PortListeners>(&(gateway.clone(), port));
        let kind = if transport == Transport::Udp { RouteKind::UdpRoute } else { RouteKind::TcpRoute };
        let mut found = listeners.iter().filter(|(_, at)| at.protocol.streams() == Some(kind));
        found.next().map(|((_, name), at)| (name.clone(), at.served))
    }

    /// The hostname of a TLS listener under which connections to a server stand, and whether it is served; none where no route
    /// asks for them. Of one that is not, connections are closed.
    pub fn chain_for(self, listener: &ListenerId, server: &Hostname) -> Option<(Hostname, bool)> {
        let (chains, shut) = (self.engine.group::<ChainsAt>(listener), self.engine.group::<ShutAt>(listener));
        server.covering().find_map(|hostname| {
            let is_served = chains.get(&hostname).is_some();
            (is_served || shut.get(&hostname).is_some()).then_some((hostname, is_served))
        })
    }

    /// Why the backends of a route cannot be used.
    pub fn stream_problems(self, route: &RouteId) -> Vec<Problem> {
        let rule = self.engine.get::<StreamRule>(route);
        rule.iter().flat_map(|rule| rule.fault.iter().chain(&rule.unresolved).chain(&rule.blocked).cloned()).collect()
    }

    /// Where a route of streams sends what it takes, as it is written.
    pub fn stream_shares(self, route: &RouteId) -> Vec<(Option<Destination>, u32)> {
        let rule = self.engine.get::<StreamRule>(route);
        let shares = rule.iter().flat_map(|rule| &rule.shares);
        shares.map(|share| (share.to.as_ref().map(|to| to.to.clone()), share.weight)).collect()
    }

    /// Whether a listener is served.
    pub fn is_served(self, listener: &ListenerId) -> bool {
        self.engine.get::<ListenerRow>(listener).is_some_and(|row| row.withheld.is_none())
    }
}
