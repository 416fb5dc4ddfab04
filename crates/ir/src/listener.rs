//! Envoy listeners and their filter chains.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use crate::{
    backend::Transport,
    downstream::ListenerConfig,
    filter::Scheme,
    hostname::Hostname,
    id::{NsName, Port, RouteKind},
};

/// What a listener of a Gateway speaks (Gateway API `ProtocolType`, and for TLS the mode).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ListenerProtocol {
    /// Plain HTTP.
    Http,
    /// HTTP over TLS that ends here.
    Https,
    /// TLS that ends at the backend.
    TlsPassthrough,
    /// TLS that ends here, around whatever bytes.
    TlsTerminate,
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// What may share a port: listeners of one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PortClass {
    /// Plain HTTP.
    Http,
    /// Connections that begin with TLS, and name a server.
    Tls,
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

impl ListenerProtocol {
    /// As Gateway API writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Http => "HTTP",
            Self::Https => "HTTPS",
            Self::TlsPassthrough | Self::TlsTerminate => "TLS",
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
        }
    }

    /// The scheme of its requests; none where nobody looks for any.
    pub fn scheme(self) -> Option<Scheme> {
        match self {
            Self::Http => Some(Scheme::Http),
            Self::Https => Some(Scheme::Https),
            _ => None,
        }
    }

    /// What may share a port with it.
    pub fn class(self) -> PortClass {
        match self {
            Self::Http => PortClass::Http,
            Self::Https | Self::TlsPassthrough | Self::TlsTerminate => PortClass::Tls,
            Self::Tcp => PortClass::Tcp,
            Self::Udp => PortClass::Udp,
        }
    }

    /// What its packets are of.
    pub fn transport(self) -> Transport {
        if self == Self::Udp { Transport::Udp } else { Transport::Tcp }
    }

    /// Whether it presents certificates.
    pub fn ends_tls(self) -> bool {
        matches!(self, Self::Https | Self::TlsTerminate)
    }

    /// The routes of streams that it takes; none where it takes those of requests.
    pub fn streams(self) -> Option<RouteKind> {
        match self {
            Self::Http | Self::Https => None,
            Self::TlsPassthrough | Self::TlsTerminate => Some(RouteKind::TlsRoute),
            Self::Tcp => Some(RouteKind::TcpRoute),
            Self::Udp => Some(RouteKind::UdpRoute),
        }
    }

    /// By what its traffic is told from that of other listeners of the port: the host that is asked for (`http`), or the server
    /// name of the connection (`https`). None where nothing tells it apart.
    pub fn told_by(self) -> Option<Scheme> {
        match self.class() {
            PortClass::Http => Some(Scheme::Http),
            PortClass::Tls => Some(Scheme::Https),
            PortClass::Tcp | PortClass::Udp => None,
        }
    }
}

/// One Envoy listener of TCP: a port of a Gateway. It says nothing of what routes say, so that a route never drains it; a
/// hostname of TLSRoutes has a chain of its own there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Listener {
    /// What it says besides its chains.
    pub head: ListenerHead,
    /// Sorted by the hostnames of their listeners; at least one.
    pub chains: Vec<FilterChain>,
    /// Server names (SNI) whose connections are closed at once, each once and none of them a chain's: they belong to
    /// listeners that are not served, or to TLS listeners without a route for them, and no broader chain may take them.
    pub closed: Vec<Hostname>,
}

/// What an Envoy listener of TCP says besides its chains. Whatever of it changes drains them all.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ListenerHead {
    /// Whose it is.
    pub gateway: NsName,
    /// `listener/PORT`, with the Gateway's port.
    pub name: Arc<str>,
    /// The addresses to bind; the first is the main one, the others are additional.
    pub addresses: Vec<Arc<str>>,
    /// The port that Envoy binds.
    pub bind_port: Port,
    /// Whether its connections begin with TLS, whose server name is looked for.
    pub over_tls: bool,
    /// What policies say of it.
    pub config: ListenerConfig,
}

impl Listener {
    /// The same with no more than `now` has too, in the order of that: a chain that is another one there is gone, and one of which
    /// certificates are gone keeps the others. Connections for what is gone are closed if `now` still has somebody for them, who
    /// waits. None where nothing is left, and nobody waits.
    #[must_use]
    pub fn limited(&self, now: &Self) -> Option<Self> {
        let own: HashMap<_, _> = self.chains.iter().map(|chain| (&chain.name, chain)).collect();
        let chains = now.chains.iter().filter_map(|chain| own.get(&chain.name)?.limited(chain));
        let chains: Vec<_> = chains.collect();
        let served: HashSet<_> = chains.iter().map(|chain| &chain.hostname).collect();
        let claimed: HashSet<_> = now.chains.iter().map(|chain| &chain.hostname).collect();
        let lost = self.chains.iter().map(|chain| &chain.hostname).filter(|hostname| claimed.contains(hostname));
        let would_be_taken =
            |hostname: &&Hostname| chains.is_empty() || hostname.covering().any(|broader| served.contains(&broader));
        let closed: BTreeSet<_> = now.closed.iter().chain(lost.filter(would_be_taken)).collect();
        // Where there is no TLS nothing tells connections apart, and all of them have one chain.
        let closed = closed.into_iter().filter(|hostname| self.head.over_tls && !served.contains(hostname));
        let closed: Vec<_> = closed.cloned().collect();
        let is_empty = chains.is_empty() && closed.is_empty();
        (!is_empty).then(|| Self { chains, closed, ..self.clone() })
    }
}

/// One Envoy listener of UDP: a port of a Gateway, all of whose datagrams go to one cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UdpListener {
    /// `listener/PORT/udp`, with the Gateway's port.
    pub name: Arc<str>,
    /// The addresses to bind; the first is the main one, the others are additional.
    pub addresses: Vec<Arc<str>>,
    /// The port that Envoy binds.
    pub bind_port: Port,
    /// The cluster.
    pub cluster: Arc<str>,
}

/// What a connection is handled by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FilterChain {
    /// The name of what it leads to, which is also the chain's name.
    pub name: Arc<str>,
    /// What it leads to.
    pub leads_to: LeadsTo,
    /// Server names (SNI) it is chosen by; [`Hostname::Any`] takes what no other chain takes.
    pub hostname: Hostname,
    /// TLS terminated here; none for plain HTTP, for TCP, and for TLS that is passed through.
    pub tls: Option<TlsTermination>,
}

impl FilterChain {
    /// The same with no more than `now` has too; none where that is another one.
    fn limited(&self, now: &Self) -> Option<Self> {
        let tls = match (&self.tls, &now.tls) {
            (Some(own), Some(now)) => Some(own.limited(now)?),
            (None, None) => None,
            _ => return None,
        };
        let limited = Self { tls, ..self.clone() };
        (Self { tls: None, ..limited.clone() } == Self { tls: None, ..now.clone() }).then_some(limited)
    }
}

/// What a filter chain leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LeadsTo {
    /// A route configuration, for each request.
    RouteConfiguration,
    /// A cluster, for the connection as a whole.
    Cluster,
}

/// TLS that ends at the listener.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TlsTermination {
    /// Names of SDS secrets, at least one, at most one RSA and one of each ECDSA curve serve the same name well.
    pub secrets: Vec<Arc<str>>,
    /// The name of the SDS secret with the authorities that vouch for clients, who are let in by a certificate of theirs alone.
    pub clients: Option<Arc<str>>,
    /// Whether clients are asked for a certificate that nobody judges, and are let in with any and without. Nobody may take it for
    /// an identity.
    pub asks_unjudged: bool,
}

/// Which clients are let in where a Gateway says something of their certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClientMode {
    /// Those with a certificate that an authority vouches for.
    ValidOnly,
    /// All of them, whatever certificate they show.
    Anybody,
}

impl TlsTermination {
    /// The same with those certificates alone that `now` has too; none where there are none, or it is otherwise another one.
    fn limited(&self, now: &Self) -> Option<Self> {
        let secrets: Vec<_> = self.secrets.iter().filter(|secret| now.secrets.contains(secret)).cloned().collect();
        let is_other = Self { secrets: Vec::new(), ..self.clone() } != Self { secrets: Vec::new(), ..now.clone() };
        (!is_other && !secrets.is_empty()).then(|| Self { secrets, ..self.clone() })
    }
}

/// A certificate with its key, as SDS carries it.
#[derive(Clone, PartialEq, Eq)]
pub struct TlsSecret {
    /// `secret/NS/NAME`.
    pub name: Arc<str>,
    /// PEM, the leaf first.
    pub chain: Arc<[u8]>,
    /// PEM.
    pub key: Arc<[u8]>,
}

impl TlsSecret {
    /// The name of the SDS resource with what a Gateway shows to backends. It is the same for all Gateways, which share clusters.
    pub const OF_GATEWAY: &'static str = "client-certificate";

    /// The name of the SDS resource of a Secret.
    pub fn resource_name(secret: &NsName) -> String {
        format!("secret/{secret}")
    }
}

impl std::fmt::Debug for TlsSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TlsSecret").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hostname(text: &str) -> Hostname {
        Hostname::parse(text)
    }

    /// A listener with these chains, each with the Secrets of its certificates.
    fn listener(chains: &[(&str, &[&str])], closed: &[&str]) -> Listener {
        let chain = |(name, secrets): &(&str, &[&str])| FilterChain {
            name: Arc::from(*name),
            leads_to: LeadsTo::RouteConfiguration,
            hostname: hostname(name),
            tls: Some(TlsTermination {
                secrets: secrets.iter().map(|secret| Arc::from(*secret)).collect(),
                clients: None,
                asks_unjudged: false,
            }),
        };
        Listener {
            head: ListenerHead {
                gateway: NsName::new("infra", "edge"),
                name: "listener/443".into(),
                addresses: vec!["0.0.0.0".into()],
                bind_port: 443,
                over_tls: true,
                config: ListenerConfig::default(),
            },
            chains: chains.iter().map(chain).collect(),
            closed: closed.iter().map(|name| hostname(name)).collect(),
        }
    }

    const ALL: (&str, &[&str]) = ("*.example.com", &["a"]);
    const A: (&str, &[&str]) = ("a.example.com", &["a"]);
    const B: (&str, &[&str]) = ("b.example.com", &["b"]);

    #[test]
    fn what_is_gone_goes_and_what_is_new_or_other_does_not_come() {
        let before = listener(&[ALL, A, B], &[]);
        let limited = |chains, closed| before.limited(&listener(chains, closed));
        assert_eq!(limited(&[ALL, A, B, ("c.example.com", &["c"])], &[]), Some(before.clone()));
        // Its listener is gone, so that the broader one serves its hostname.
        assert_eq!(limited(&[ALL, B], &[]), Some(listener(&[ALL, B], &[])));
        // Another certificate waits, and the one before is not given out any more.
        let closed = listener(&[ALL, B], &["a.example.com"]);
        assert_eq!(limited(&[ALL, ("a.example.com", &["z"]), B], &[]), Some(closed.clone()));
        assert_eq!(limited(&[ALL, B], &["a.example.com"]), Some(closed));
    }

    #[test]
    fn a_certificate_that_comes_takes_nothing_away_and_one_that_goes_leaves_the_others() {
        let before = listener(&[("*.example.com", &["a", "b"])], &[]);
        assert_eq!(before.limited(&listener(&[("*.example.com", &["a", "b", "c"])], &[])), Some(before.clone()));
        let less = listener(&[("*.example.com", &["b"])], &[]);
        assert_eq!(before.limited(&listener(&[("*.example.com", &["b", "c"])], &[])), Some(less));
    }

    /// A listener that went would have its socket go with it, and all connections of the port.
    #[test]
    fn a_listener_stays_and_closes_what_waits_where_no_chain_is_left() {
        let before = listener(&[A], &[]);
        let closed = listener(&[], &["a.example.com"]);
        assert_eq!(before.limited(&listener(&[("a.example.com", &["z"])], &[])), Some(closed.clone()));
        assert_eq!(closed.limited(&listener(&[], &["a.example.com"])), Some(closed.clone()), "before its first route");
        assert_eq!(before.limited(&listener(&[B], &[])), None, "it is gone");
    }
}
