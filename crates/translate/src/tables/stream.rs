//! Connections and datagrams as a whole: who serves them, and where they go.

use std::sync::Arc;

use ir::{
    Hostname, ListenerId, Problem, RouteId, RouteKind,
    backend::{Destination, Way},
    listener::ListenerProtocol,
    matching::Age,
    stream::PlaceId,
};

use super::{attachment::Attached, capacity::Room, input::object_id, strict::Owner, tls::BundleId};

groups! {
    /// The routes that would serve a place, the oldest first: that one does.
    StreamsAt: PlaceId, Age => ();
    /// The hostnames of a TLS listener that have filter chains.
    ChainsAt: ListenerId, Hostname => ();
    /// The hostnames of a TLS listener whose connections are closed, so that no broader one takes them.
    ShutAt: ListenerId, Hostname => ();
}

tables! {
    /// The backends of a route, followed.
    StreamRule: RouteId => Streams;
    /// Has a place be served, if it is its listener's.
    Place: PlaceId => ();
    /// Has the proxies of its Gateway get what a place needs.
    ServedPlace: PlaceId => ();
    /// Whether a place is its listener's; absent where another listener of the port has the hostname, or a broader one that is
    /// still narrower than its own.
    Owned: PlaceId => ();
    /// What becomes of a place for which there is no room; absent where there is. Who reads it is not woken by what has no room
    /// elsewhere.
    RoomOf: PlaceId => Room;
    /// The route that serves a place.
    Winner: PlaceId => RouteId;
    /// Where connections or datagrams of a place go; absent where nobody takes any.
    PlaceShares: PlaceId => Shares;
    /// How the endpoints of a place are connected to, where policies say anything of it.
    WaysAt: PlaceId => Box<[Way]>;
}

/// The backends of a route, followed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Streams {
    /// In the order of the spec.
    pub(crate) shares: Box<[StreamShare]>,
    /// Why the rule as a whole cannot be served.
    pub(crate) fault: Option<Problem>,
    /// References that do not resolve.
    pub(crate) unresolved: Box<[Problem]>,
    /// Those that resolve, and by whose policies nobody connects, unless what is sent is passed through.
    pub(crate) blocked: Box<[Problem]>,
    /// Backends of which the policy of TLS is not valid.
    pub(crate) closed_backends: Box<[Destination]>,
}

impl Streams {
    /// Whose it is what comes of this route: policies of other namespaces may say how its backends are connected to.
    pub(crate) fn owner(&self, route: &RouteId) -> Owner {
        let is_shared = self.reached().any(|to| to.way.is_some() && to.to.name().namespace != *route.namespace());
        Owner { object: object_id(route), is_shared }
    }

    /// The backends that are there, each once.
    pub(crate) fn reached(&self) -> impl Iterator<Item = &Arc<Dialed>> {
        self.shares.iter().filter_map(|share| share.to.as_ref())
    }
}

/// A share of the connections or sessions of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StreamShare {
    /// Its part of the sum of all weights.
    pub(crate) weight: u32,
    /// Where it goes; none for a backend that cannot be used.
    pub(crate) to: Option<Arc<Dialed>>,
    /// Where it goes if it is passed through, whatever policies say; none for what is no backend.
    pub(crate) plain: Option<Destination>,
}

/// A backend as it is connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dialed {
    /// The backend.
    pub(crate) to: Destination,
    /// In what policies have connections be wrapped, if they do.
    pub(crate) way: Option<Way>,
    /// The authorities by which it is judged, where they come apart.
    pub(crate) bundle: Option<BundleId>,
}

impl Dialed {
    /// One of which no policy says anything.
    pub(crate) fn plain(to: Destination) -> Self {
        Self { to, way: None, bundle: None }
    }
}

/// Where connections or datagrams of a place go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shares {
    /// Each backend once, with its weight and the name of its way.
    pub(crate) backends: Vec<(Destination, u32, Arc<str>)>,
    /// The weight of what cannot be used.
    pub(crate) rejected: u32,
}

/// The places that a route asks for at a listener.
pub(crate) fn places<'a>(
    route: &'a RouteId,
    attached: &'a Attached,
    listener: &'a ListenerId,
) -> impl Iterator<Item = PlaceId> + 'a {
    let protocol = match route.kind {
        RouteKind::TcpRoute => ListenerProtocol::Tcp,
        RouteKind::UdpRoute => ListenerProtocol::Udp,
        _ if attached.passing.binary_search(listener).is_ok() => ListenerProtocol::TlsPassthrough,
        _ => ListenerProtocol::TlsTerminate,
    };
    let hostnames = attached.hostnames(listener).iter();
    hostnames.map(move |served| PlaceId { listener: listener.clone(), protocol, hostname: served.hostname.clone() })
}
