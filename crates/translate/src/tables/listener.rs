//! Listeners with what they need of other objects, and where the rest of the translation finds them.

use std::sync::Arc;

use engine::Scope;
use ir::{
    Hostname, ListenerId, ListenerName, NsName, ParentId, Port, RouteConfigId, RouteKind,
    filter::Scheme,
    listener::{ClientMode, ListenerProtocol, PortClass},
};

use super::{
    gateway::{Admission, Fault, ListenerModel},
    output::OutputId,
    tls::BundleId,
};

tables! {
    /// The listeners of Gateways of ours.
    ListenerRow: ListenerId => ListenerState;
    /// Scheme and Gateway port of a listener of requests.
    ServedAt: ListenerId => (Scheme, Port);
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
}

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
    /// Why it cannot have its port, which is a reason not to be served.
    pub(crate) port_unavailable: Option<Fault>,
}

impl ListenerState {
    /// What its chains refer to: the certificates that it shows, and the authorities of those of clients.
    pub(crate) fn secrets(&self, gateway: &NsName) -> impl Iterator<Item = OutputId> {
        let shown = self.secrets.iter().map(|secret| OutputId::Secret(gateway.clone(), secret.clone()));
        let asked = self.clients.as_ref().and_then(Clients::asked);
        shown.chain(asked.map(|bundle| OutputId::Authorities(gateway.clone(), bundle.clone())))
    }

    /// Why it is not accepted (Gateway API `ListenerConditionAccepted`).
    pub(crate) fn refused(&self) -> Option<&Fault> {
        let own = self.model.refused.as_ref().or(self.model.conflicted.as_ref());
        let clients = self.clients.as_ref().and_then(|clients| clients.authorities.as_ref().err());
        own.or(clients).or(self.port_unavailable.as_ref())
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
    Some(route_config_at(listener, *scope.get::<ServedAt>(listener)?))
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
    /// Secrets with certificates to present.
    pub(crate) secrets: Arc<[NsName]>,
    /// By whom certificates of clients are judged; none where nobody judges them.
    pub(crate) clients: Option<BundleId>,
    /// Whether they are asked for all the same.
    pub(crate) asks_unjudged: bool,
}

impl PortListener {
    /// Whether its connections begin with TLS, and are told by the server that they name.
    pub(crate) fn over_tls(&self) -> bool {
        self.protocol.class() == PortClass::Tls
    }
}
