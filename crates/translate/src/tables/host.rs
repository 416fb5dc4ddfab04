//! Virtual hosts and what they are made from.

use engine::Group;
use envoy::bytes::Host;
use ir::{Chain, Hostname, ListenerId, RouteConfigId};

/// A rule where a listener serves it: tells what it takes, and has it put there. What it holds is for [`Rows`] alone, and
/// declared with it.
pub(crate) struct Placement;

/// A rule where a listener would serve it, which waits for Envoy's word; like [`Placement`], it is declared with what it holds.
pub(crate) struct Offer;

/// A rule of a tree that shall be kept, as the objects are, which Envoy is asked about before it is kept; like [`Offer`].
pub(crate) struct CandidateOffer;

tables! {
    /// Puts a rule's routes where a listener serves them, once it is known whether there is room.
    Rows: (Chain, u32, ListenerId) => ();
    /// Virtual hosts, encoded.
    VirtualHost: (RouteConfigId, Hostname) => ();
    /// Has the clusters served, and counted, of whom slots ask that hold for all of a listener.
    WideAsked: ListenerId => ();
}

groups! {
    /// The hostnames of a route configuration that listeners have which are not served.
    UnservedHosts: RouteConfigId, Hostname => ();
}

/// The virtual hosts of a route configuration, but for that of hostnames which nobody serves.
pub(crate) struct HostsOf;

impl Group for HostsOf {
    const NAME: &'static str = "HostsOf";
    type Key = RouteConfigId;
    type Sort = Hostname;
    type Entry = Host;
    type Summary = ();

    const HASH: Option<fn(&Host) -> [u8; 16]> = Some(|host| *host.hash());
}
