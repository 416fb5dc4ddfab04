//! Connections and datagrams as a whole: who serves them, and where they go.

use std::sync::Arc;

use engine::Scope;
use ir::{
    Chain, Hostname, ListenerId, NsName, Problem, RouteId,
    backend::{Destination, Way},
    matching::Age,
    stream::PlaceId,
};

use super::{attachment::Attached, input::object_id, strict::Owner, tls::BundleId};

groups! {
    /// The routes that would serve a place, the oldest first: that one does.
    StreamsAt: PlaceId, Age => ();
    /// The hostnames of TLSRoutes at a Gateway, each with the oldest route that asks for it, the oldest first.
    PlacesOf: NsName, (Age, PlaceId) => ();
    /// The hostnames of a TLS listener that have filter chains.
    ChainsAt: ListenerId, Hostname => ();
}

tables! {
    /// The backends of a route, followed.
    StreamRule: RouteId => Streams;
    /// Has a place be served, if that can be.
    Place: PlaceId => ();
    /// Has the proxies of its Gateway get what a place needs.
    ServedPlace: PlaceId => ();
    /// Whether a place can be served.
    Placing: PlaceId => Placed;
    /// The route that serves a place.
    Winner: PlaceId => RouteId;
    /// Has the proxies of a Gateway have room for what a route has them take at a listener.
    StreamClaim: (RouteId, ListenerId) => ();
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

/// Whether a place can be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placed {
    /// It is.
    Here,
    /// Another listener of the port has the hostname, or a broader one that is still narrower than its own.
    Elsewhere,
    /// There are too many at the Gateway.
    TooMany,
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
    let hostnames = attached.hostnames(listener).iter();
    hostnames.map(|served| PlaceId { listener: listener.clone(), kind: route.kind, hostname: served.hostname.clone() })
}

/// Whether a route serves a place.
pub(crate) fn is_won(scope: &Scope<'_>, route: &RouteId, place: &PlaceId) -> bool {
    scope.get::<Winner>(place).is_some_and(|winner| *winner == *route)
        && scope.get::<Placing>(place).is_some_and(|placed| *placed == Placed::Here)
}

/// What a route asks for at a listener, as capacities are shared out.
pub(crate) fn claim_of(route: &RouteId, listener: &ListenerId) -> (Chain, u32, ListenerId) {
    (Chain::root(route.clone()), 0, listener.clone())
}
