//! What is asked of the memory of a Gateway's proxies.

use ir::{Hostname, ListenerId, NsName, RouteConfigId, RouteId, stream::PlaceId};

use super::backend::ClusterId;

tables! {
    /// Hostnames that routes have a listener serve.
    AskedHost: (ListenerId, Hostname) => ();
    /// Clusters that rules, and what holds for all of a listener, have the proxies of a Gateway send to.
    AskedCluster: (NsName, ClusterId) => ();
    /// GatewayExtensions whose tokens rules have the proxies of a Gateway take.
    AskedTokens: (NsName, NsName) => ();
}

groups! {
    /// The hostnames of a route configuration that routes have its listeners serve, each once for each of these.
    HostsAsked: RouteConfigId, (ListenerId, Hostname) => u64, sum of |one| *one;
    /// The places of streams at a Gateway for which routes ask, each with the one that serves it.
    PlaceClaims: NsName, PlaceId => RouteId;
}

/// What becomes of a rule at a hostname, or of a place of streams, where there is no room for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// Its routes answer 500.
    Closed,
    /// All of the hostname answers 500; connections for one of streams are closed.
    Shut,
    /// It claims nothing: there is no room for direct responses either.
    LeftOut,
}
