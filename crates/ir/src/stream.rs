//! Where connections and datagrams are taken that nobody looks into.

use std::fmt;

use crate::{
    backend::Transport,
    hostname::Hostname,
    id::{ListenerId, RouteKind},
    listener::{FilterChain, LeadsTo, ListenerProtocol, TlsTermination},
};

/// A listener of TCP or UDP, or a hostname of one of TLS: one route serves it at a time, through one cluster that stays the
/// same whatever routes say.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PlaceId {
    /// The listener.
    pub listener: ListenerId,
    /// What the listener speaks, whose routes are of streams. Where TLS is passed through is another place than where it ends: what
    /// is meant for backends as it comes never reaches them from a listener that still ends TLS.
    pub protocol: ListenerProtocol,
    /// The server name that clients ask for; [`Hostname::Any`] where they ask for none.
    pub hostname: Hostname,
}

impl PlaceId {
    /// The kind of its routes; none where they are not of streams, and it is no place.
    pub fn kind(&self) -> Option<RouteKind> {
        self.protocol.streams()
    }

    /// Whether it is a hostname, one of many at its listener.
    pub fn is_hostname(&self) -> bool {
        self.kind() == Some(RouteKind::TlsRoute)
    }

    /// Whether its connections are led on as they come, in TLS that ends at the backend.
    pub fn is_passed_through(&self) -> bool {
        self.protocol == ListenerProtocol::TlsPassthrough
    }

    /// What its packets are of.
    pub fn transport(&self) -> Transport {
        self.protocol.transport()
    }

    /// The name of its cluster, of the endpoints of that, and of its filter chain: `tcp/LISTENER`, `udp/LISTENER`,
    /// `tls/LISTENER/HOSTNAME`, or `tls-passthrough/LISTENER/HOSTNAME` ([`ListenerName`](crate::id::ListenerName)).
    pub fn name(&self) -> String {
        let listener = &self.listener.name;
        match self.protocol {
            ListenerProtocol::Udp => format!("udp/{listener}"),
            ListenerProtocol::TlsTerminate => format!("tls/{listener}/{}", self.hostname.domain()),
            ListenerProtocol::TlsPassthrough => format!("tls-passthrough/{listener}/{}", self.hostname.domain()),
            _ => format!("tcp/{listener}"),
        }
    }
}

impl PlaceId {
    /// Its filter chain, with the TLS that ends there.
    pub fn chain(&self, tls: Option<TlsTermination>) -> FilterChain {
        FilterChain { name: self.name().into(), leads_to: LeadsTo::Cluster, hostname: self.hostname.clone(), tls }
    }
}

/// `listener infra/edge/db`, or `example.com at listener infra/edge/tls`.
impl fmt::Display for PlaceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_hostname() {
            write!(f, "{} at ", self.hostname)?;
        }
        write!(f, "listener {}", self.listener)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::NsName;

    #[test]
    fn clusters_of_places_are_told_apart_by_protocol_listener_and_hostname() {
        let place = |protocol, hostname| {
            let listener = ListenerId::of_gateway(NsName::new("infra", "edge"), "db".into());
            PlaceId { listener, protocol, hostname: Hostname::parse(hostname) }.name()
        };
        assert_eq!(place(ListenerProtocol::Tcp, ""), "tcp/db");
        assert_eq!(place(ListenerProtocol::Udp, ""), "udp/db");
        assert_eq!(place(ListenerProtocol::TlsTerminate, "*.example.com"), "tls/db/*.example.com");
        assert_eq!(place(ListenerProtocol::TlsTerminate, ""), "tls/db/*");
        assert_eq!(place(ListenerProtocol::TlsPassthrough, "*.example.com"), "tls-passthrough/db/*.example.com");
    }
}
