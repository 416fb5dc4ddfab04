//! Where connections and datagrams are taken that nobody looks into.

use std::fmt;

use crate::{
    backend::Transport,
    hostname::Hostname,
    id::{ListenerId, RouteKind},
};

/// A listener of TCP or UDP, or a hostname of one of TLS: one route serves it at a time, through one cluster that stays the
/// same whatever routes say.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PlaceId {
    /// The listener.
    pub listener: ListenerId,
    /// The kind of its routes, which is one of streams.
    pub kind: RouteKind,
    /// The server name that clients ask for; [`Hostname::Any`] where they ask for none.
    pub hostname: Hostname,
}

impl PlaceId {
    /// What its packets are of.
    pub fn transport(&self) -> Transport {
        match self.kind {
            RouteKind::UdpRoute => Transport::Udp,
            _ => Transport::Tcp,
        }
    }

    /// The name of its cluster, of the endpoints of that, and of its filter chain: `tcp/LISTENER`, `udp/LISTENER` or
    /// `tls/LISTENER/HOSTNAME` ([`ListenerName`](crate::id::ListenerName)).
    pub fn name(&self) -> String {
        let listener = &self.listener.name;
        match self.kind {
            RouteKind::TcpRoute => format!("tcp/{listener}"),
            RouteKind::UdpRoute => format!("udp/{listener}"),
            _ => format!("tls/{listener}/{}", self.hostname.domain()),
        }
    }
}

/// `listener infra/edge/db`, or `example.com at listener infra/edge/tls`.
impl fmt::Display for PlaceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.kind == RouteKind::TlsRoute {
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
        let place = |kind, hostname| {
            let listener = ListenerId::of_gateway(NsName::new("infra", "edge"), "db".into());
            PlaceId { listener, kind, hostname: Hostname::parse(hostname) }.name()
        };
        assert_eq!(place(RouteKind::TcpRoute, ""), "tcp/db");
        assert_eq!(place(RouteKind::UdpRoute, ""), "udp/db");
        assert_eq!(place(RouteKind::TlsRoute, "*.example.com"), "tls/db/*.example.com");
        assert_eq!(place(RouteKind::TlsRoute, ""), "tls/db/*");
    }
}
