//! Listeners with what they need of other objects, and where the rest of the translation finds them.

use std::sync::Arc;

use engine::{Group, Scope};
use envoy::listener::{Chain, Common};
use ir::{
    Hostname, ListenerId, ListenerName, NsName, ParentId, Port, RouteConfigId, RouteKind,
    filter::Scheme,
    listener::{ClientMode, FilterChain, ListenerProtocol, PortClass, TlsSecret, TlsTermination},
};

use super::{
    gateway::{Admission, Fault, ListenerModel},
    output::OutputId,
    tls::BundleId,
};

tables! {
    /// The listeners of Gateways of ours.
    ListenerRow: ListenerId => ListenerState;
    /// Scheme, Gateway port and hostname of a listener of requests.
    ServedAt: ListenerId => (Scheme, Port, Hostname);
    /// A port of TCP at which a listener is served: the one that Envoy binds, and whether connections begin with TLS there.
    BoundAt: (NsName, Port) => (Port, bool);
    /// Has a port have the chain that all of its listeners of plain HTTP share.
    HttpChain: (NsName, Port) => ();
    /// What becomes of connections that name a server, and of all connections where none is named ([`Hostname::Any`]).
    ServerName: (NsName, Port, Hostname) => ();
    /// Whether a hostname has a filter chain.
    HasChain: (NsName, Port, Hostname) => ();
    /// Whether a port has listeners of protocol TLS that are served.
    HasTlsListeners: (NsName, Port) => ();
    /// The hostnames of all listeners of a port over TLS, each once; absent where they are too many to be listed at each.
    TlsHosts: (NsName, Port) => Vec<Hostname>;
    /// What all filter chains of a port say alike.
    ChainsAlike: (NsName, Port) => Common;
    /// The filter chains that close connections.
    ClosedChains: (NsName, Port) => Vec<Chain>;
}

groups! {
    /// The listeners of a parent by hostname, so that a new one wakes only routes whose hostnames it could serve.
    ListenerIndex: (ParentId, Bucket), Arc<str> => Arc<ListenerSummary>;
    /// The listeners of a port with a hostname, the one that is served (one at most) first: whether it is not, and its
    /// name.
    PortHosts: (NsName, Port, Scheme, Hostname), (bool, ListenerName) => ();
    /// The listeners of a port, of TCP and of UDP, served or not, the most specific hostname first. Those of which nobody knows
    /// what they are to be are left out.
    PortListeners: (NsName, Port), (Hostname, ListenerName) => PortListener;
    /// What listeners and places of streams want done with connections that name a server: the filter chain that takes them; none where
    /// they are to be closed, so that no broader one does. The first is heard.
    ServerClaims: (NsName, Port, Hostname), ClaimRank => Option<FilterChain>;
    /// The listeners of a port over TLS, served or not, whose hostnames one covers, but for those that have it themselves.
    TlsHostsBelow: (NsName, Port, Hostname), (Hostname, ListenerName) => ();
    /// The listeners of protocol TLS of a port that are served.
    TlsListeners: (NsName, Port), ListenerName => ();
    /// The server names of a port whose connections are closed.
    ClosedNames: (NsName, Port), (ClaimRank, Hostname) => ();
}

/// The filter chains of a port by their hostnames, the most specific first. A chain says its hostname, so that nothing else decides
/// where it stands.
pub(crate) struct FilterChains;

impl Group for FilterChains {
    const NAME: &'static str = "FilterChains";
    type Key = (NsName, Port);
    type Sort = Hostname;
    type Entry = Chained;
    type Summary = ();

    const HASH: Option<fn(&Chained) -> [u8; 16]> = Some(|chained| *chained.encoded.hash());
}

/// A filter chain that is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chained {
    pub(crate) chain: FilterChain,
    pub(crate) encoded: Chain,
}

/// Who is heard first of those who want something done with connections: by what they want, and by the hostname and the name of their
/// listener.
pub(crate) type ClaimRank = (Claim, Hostname, ListenerName);

/// What is wanted of connections that name a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Claim {
    /// That a filter chain takes them.
    Chain,
    /// That they are closed, as those of a listener that is not served, or of one of TLS that has no route for them.
    Closed,
    /// The same, since there is no room for a hostname of a route.
    Shut,
}

/// How many listeners a port may have for each to list the hostnames of all others. Beyond that each answers 421 for all hosts but its
/// own, whether another listener has them or not: every list would change with every listener, and all of them together would grow with the
/// square of these.
pub(crate) const MOST_LISTED: usize = 128;

/// A listener with everything that decides whether it is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListenerState {
    /// What its Gateway says of it.
    pub(crate) model: Arc<ListenerModel>,
    /// Secrets with certificates to present.
    pub(crate) secrets: Vec<NsName>,
    /// Why a reference of it does not resolve.
    pub(crate) unresolved: Option<Fault>,
    /// What should be looked at in a certificate of it, which is served.
    pub(crate) long_chain: Option<Fault>,
    /// By whom certificates of clients are judged; none where none is asked for.
    pub(crate) clients: Option<Clients>,
    /// Why it is not served.
    pub(crate) withheld: Option<Fault>,
    /// Why it cannot have its port, or there is no room for it, which is a reason not to be served.
    pub(crate) unavailable: Option<Fault>,
}

impl ListenerState {
    /// What its chains refer to: the certificates that it shows, and the authorities of those of clients.
    pub(crate) fn secrets(&self, gateway: &NsName) -> impl Iterator<Item = OutputId> {
        let shown = self.secrets.iter().map(|secret| OutputId::Secret(gateway.clone(), secret.clone()));
        let asked = self.clients.as_ref().and_then(Clients::asked);
        shown.chain(asked.map(|bundle| OutputId::Authorities(gateway.clone(), bundle.clone())))
    }

    /// The TLS that ends at it.
    pub(crate) fn tls(&self) -> Option<TlsTermination> {
        self.model.protocol.is_some_and(ListenerProtocol::ends_tls).then(|| TlsTermination {
            secrets: self.secrets.iter().map(|secret| TlsSecret::resource_name(secret).into()).collect(),
            clients: self.clients.as_ref().and_then(Clients::asked).map(|bundle| bundle.to_string().into()),
            asks_unjudged: self.clients.as_ref().is_some_and(Clients::asks_unjudged),
        })
    }

    /// Whether clients are let in by a certificate alone that an authority vouches for.
    pub(crate) fn is_verified(&self) -> bool {
        self.clients.as_ref().and_then(Clients::asked).is_some()
    }

    /// The name of a route configuration of its own for its connections. Those from before a certificate was demanded go on for a
    /// while, and must not follow what is said for these.
    pub(crate) fn name_of(&self, config: &RouteConfigId) -> String {
        if self.is_verified() { config.verified_name() } else { config.resource_name() }
    }

    /// Why it is not accepted (Gateway API `ListenerConditionAccepted`).
    pub(crate) fn refused(&self) -> Option<&Fault> {
        let own = self.model.refused.as_ref().or(self.model.conflicted.as_ref());
        let clients = self.clients.as_ref().and_then(|clients| clients.authorities.as_ref().err());
        own.or(clients).or(self.unavailable.as_ref())
    }
}

/// By whom a listener has certificates of clients judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Clients {
    /// The authorities, or why nobody is let in.
    pub(crate) authorities: Result<BundleId, Fault>,
    /// Why references lead to none.
    pub(crate) unresolved: Option<Fault>,
    /// What should be looked at in them.
    pub(crate) warning: Option<Fault>,
    /// Who is let in.
    pub(crate) mode: ClientMode,
}

impl Clients {
    /// By whom a certificate that the listener's filter chain asks for is judged; none where nobody judges.
    pub(crate) fn asked(&self) -> Option<&BundleId> {
        self.authorities.as_ref().ok().filter(|_| self.mode == ClientMode::ValidOnly)
    }

    /// Whether the listener's filter chain asks for a certificate that nobody judges.
    pub(crate) fn asks_unjudged(&self) -> bool {
        self.authorities.is_ok() && self.mode == ClientMode::Anybody
    }
}

/// What a route needs to know of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListenerSummary {
    pub(crate) id: ListenerId,
    pub(crate) port: Port,
    pub(crate) protocol: Option<ListenerProtocol>,
    pub(crate) hostname: Hostname,
    pub(crate) kinds: Vec<RouteKind>,
    pub(crate) admits: Admission,
    /// Whether routes that attach are served.
    pub(crate) served: bool,
}

impl ListenerSummary {
    /// The route configuration that its routes are in; none for a protocol without.
    pub(crate) fn route_config(&self) -> Option<RouteConfigId> {
        let listener = match self.protocol?.scheme()? {
            Scheme::Http => None,
            Scheme::Https => Some(self.id.name.clone()),
        };
        Some(RouteConfigId { gateway: self.id.gateway.clone(), port: self.port, listener })
    }
}

/// The route configuration of what a listener serves; none of one that is not served.
pub(crate) fn route_config(scope: &Scope<'_>, listener: &ListenerId) -> Option<RouteConfigId> {
    let at = scope.get::<ServedAt>(listener)?;
    Some(route_config_at(listener, (at.0, at.1)))
}

/// The same where its scheme and port are known.
pub(crate) fn route_config_at(listener: &ListenerId, (scheme, port): (Scheme, Port)) -> RouteConfigId {
    let own = (scheme == Scheme::Https).then(|| listener.name.clone());
    RouteConfigId { gateway: listener.gateway.clone(), port, listener: own }
}

/// Where in a parent's listeners to look for those that a hostname has names in common with.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Bucket {
    /// Listeners with this very hostname.
    At(Hostname),
    /// Listeners whose hostname lies below this suffix.
    Below(Arc<str>),
    /// All of them.
    All,
}

/// A listener as its neighbours see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PortListener {
    /// Whether routes that attach are served.
    pub(crate) served: bool,
    /// What it speaks.
    pub(crate) protocol: ListenerProtocol,
    /// The port that Envoy binds.
    pub(crate) bind_port: Port,
}

impl PortListener {
    /// Whether its connections begin with TLS, and are told by the server that they name.
    pub(crate) fn over_tls(&self) -> bool {
        self.protocol.class() == PortClass::Tls
    }
}
