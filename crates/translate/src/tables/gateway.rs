//! Gateways and their listeners, as far as the Gateway's own spec decides.

use std::{fmt, net::IpAddr, sync::Arc};

use api::{
    meta::LabelSelector,
    shared::{ObjectReference, SecretObjectReference},
};
use ir::{
    Hostname, ListenerName, NsName, Port, Reason, RouteKind,
    backend::Transport,
    filter::Scheme,
    listener::{ClientMode, ListenerProtocol},
    matching::Age,
};

tables! {
    /// Gateways whose proxies have a name, told apart from what their specs say: one that cannot be read keeps its name.
    Named: NsName => ();
    /// The Gateway to which the name belongs that a Gateway's proxies would have; absent where it is its own.
    NameRival: NsName => NsName;
    /// Gateways of ours; absent for one that is another controller's.
    GatewayRow: NsName => GatewayModel;
    /// The Secret with the certificate that the proxies of a Gateway show to backends, or why there is none that can be shown; absent
    /// where none is asked for. A rotation changes nothing here.
    ClientCertificate: NsName => Result<NsName, Fault>;
}

groups! {
    /// The Gateways that want a port, the oldest first, with the addresses they want it on (empty: all). Those that have ListenerSets
    /// want it come after those that want it themselves.
    PortClaims: (Port, Transport), PortClaim => Vec<IpAddr>;
    /// The Gateways whose proxies would be called so, the oldest first.
    NameClaims: NsName, Age => ();
}

/// Who wants a port of a host, in the order in which they get it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct PortClaim {
    /// Whether it is asked for by a ListenerSet.
    pub(crate) by_set: bool,
    /// The Gateway.
    pub(crate) gateway: Age,
    /// The ListenerSet, if one asks for it.
    pub(crate) set: Option<NsName>,
}

/// A Gateway of one of our classes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GatewayModel {
    /// Decides between Gateways that want the same port.
    pub(crate) age: Age,
    /// Of the spec that this was made from.
    pub(crate) generation: i64,
    /// The addresses its listeners bind; empty means all of the host.
    pub(crate) addresses: Vec<IpAddr>,
    /// As written.
    pub(crate) listeners: Vec<Arc<ListenerModel>>,
    /// The namespaces whose ListenerSets are admitted.
    pub(crate) admits: Admission,
    /// The certificate to show to backends.
    pub(crate) client_certificate: Option<SecretObjectReference>,
    /// Why the Gateway as a whole is not accepted.
    pub(crate) refused: Option<Fault>,
    /// What has no effect, as field and message.
    pub(crate) ignored: Vec<(String, &'static str)>,
}

impl GatewayModel {
    /// One of its own listeners.
    pub(crate) fn listener(&self, name: &ListenerName) -> Option<&Arc<ListenerModel>> {
        self.listeners.iter().find(|listener| name.set.is_none() && listener.name == name.section)
    }

    /// The ports that its listeners want bound, each once.
    pub(crate) fn bind_ports(&self) -> Vec<(Port, Transport)> {
        bind_ports(&self.listeners)
    }
}

/// The ports that listeners want bound, each once.
pub(super) fn bind_ports(listeners: &[Arc<ListenerModel>]) -> Vec<(Port, Transport)> {
    let usable = listeners.iter().filter(|listener| listener.is_sound());
    let mut ports: Vec<_> = usable.map(|listener| (listener.bind_port, listener.transport())).collect();
    ports.sort_unstable();
    ports.dedup();
    ports
}

/// A listener, as far as the spec of its Gateway or ListenerSet decides, and those of its neighbours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListenerModel {
    /// Its section name.
    pub(crate) name: Arc<str>,
    /// Its place in the spec.
    pub(crate) index: usize,
    /// The port that clients see.
    pub(crate) port: Port,
    /// The port that Envoy binds.
    pub(crate) bind_port: Port,
    /// What it speaks; none for what is not served.
    pub(crate) protocol: Option<ListenerProtocol>,
    /// The hostnames it serves.
    pub(crate) hostname: Hostname,
    /// What tells its requests from those of others on its port: the host asked for (`http`) or the server name of the
    /// connection (`https`). A hostname stays with its listener even where it is not served. None for a listener
    /// without a sound hostname, which keeps nothing from anybody, and for one that is alone on its port.
    pub(crate) claims: Option<Scheme>,
    /// The namespaces whose routes may attach.
    pub(crate) admits: Admission,
    /// The kinds of routes that may attach; a part of what is supported.
    pub(crate) kinds: Vec<RouteKind>,
    /// Certificates to present.
    pub(crate) certificates: Vec<SecretObjectReference>,
    /// Why it is not accepted.
    pub(crate) refused: Option<Fault>,
    /// Why it conflicts with others of its Gateway.
    pub(crate) conflicted: Option<Fault>,
    /// Whether it conflicts with one of an earlier object, which has what it asks for: it keeps nothing from anybody.
    pub(crate) lost: bool,
    /// Kinds of routes that are asked for and not supported.
    pub(crate) bad_kinds: Option<Fault>,
    /// What is asked of certificates of clients; none where none is asked for.
    pub(crate) validation: Option<Validation>,
}

/// What is asked of certificates of clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Validation {
    /// Where it is said.
    pub(crate) field: String,
    /// The authorities that vouch for them.
    pub(crate) references: Vec<ObjectReference>,
    /// Who is let in.
    pub(crate) mode: ClientMode,
}

impl ListenerModel {
    /// The scheme of its requests; none where nobody looks for any.
    pub(crate) fn scheme(&self) -> Option<Scheme> {
        self.protocol?.scheme()
    }

    /// What its packets are of.
    pub(crate) fn transport(&self) -> Transport {
        self.protocol.map_or(Transport::Tcp, ListenerProtocol::transport)
    }

    /// Whether its own spec allows it to be served.
    pub(crate) fn is_sound(&self) -> bool {
        self.refused.is_none() && self.conflicted.is_none()
    }
}

/// Which namespaces' routes may attach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// All.
    All,
    /// The one of the object that has the listener.
    Same,
    /// Those with these labels.
    Selector(LabelSelector),
    /// None at all.
    None,
}

/// Why something is not as its author wants it: a reason of Gateway API, the field, and words. Prints as both of these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The reason, as in a condition.
    pub reason: Reason,
    /// The field; empty where it is not one field that is wrong.
    pub field: String,
    /// What is wrong, and the remedy.
    pub message: String,
}

impl Fault {
    /// A fault that is not that of one field.
    pub(crate) fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self::at(reason, "", message)
    }

    /// A fault of a field.
    pub(crate) fn at(reason: Reason, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { reason, field: field.into(), message: message.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.field.is_empty() { f.write_str(&self.message) } else { write!(f, "{}: {}", self.field, self.message) }
    }
}
