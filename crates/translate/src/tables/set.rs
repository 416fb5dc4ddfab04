//! ListenerSets, and what listeners of several objects ask for of one Gateway.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ir::{
    Hostname, ListenerId, ListenerName, NsName, Port, backend::Transport, filter::Scheme, listener::PortClass,
    matching::Age,
};

use super::gateway::{Fault, ListenerModel, Validation, bind_ports};

/// Whose a parent of routes is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Present {
    /// Of one of our classes.
    Ours,
    /// Another controller's.
    Foreign,
    /// A ListenerSet that its Gateway, which is ours, does not admit.
    NotAllowed,
    /// Nobody knows.
    Unknown,
}

/// Who comes first among the objects with listeners of one Gateway: it itself (none), then ListenerSets, the older first.
pub(crate) type Rank = Option<Age>;

tables! {
    /// The Gateway that a ListenerSet names; absent for one that names something else.
    ParentOf: NsName => NsName;
    /// Whose a Gateway is; absent for one that does not exist.
    GatewayPresence: NsName => Present;
    /// Whether a Gateway admits ListenerSets of a namespace; absent where it does not.
    Admitting: (NsName, Arc<str>) => ();
    /// How ListenerSets stand with their Gateways, told apart from what becomes of their listeners.
    SetHead: NsName => Head;
    /// Who comes first at a port of a Gateway, and what is spoken there.
    PortHolder: (NsName, Port, Transport) => Holder;
    /// What is spoken at a port of a Gateway by the word of who comes first there; absent where that is no one thing.
    SpokenAt: (NsName, Port, Transport) => PortClass;
    /// Who comes first with a hostname at a port of a Gateway.
    HostHolder: (NsName, Port, Scheme, Hostname) => Rank;
    /// A port of a Gateway that ListenerSets of a namespace ask for.
    SetPort: (NsName, Port, Arc<str>) => ();
    /// The ports that Envoy binds for a Gateway's own ports.
    OwnPorts: NsName => BTreeMap<Port, Port>;
    /// The same for all ports of a Gateway for which there is room.
    BindPorts: NsName => Bound;
    /// The port that Envoy binds for one of a Gateway by the word of ListenerSets of a namespace; absent where they have no room for it.
    BindPort: (NsName, Port, Arc<str>) => Port;
    /// What listeners of a ListenerSet that is admitted ask for at ports that it has.
    SetAsks: NsName => ();
    /// What a Gateway asks of certificates of clients at a port, and what is wrong with it; absent where it asks for none.
    AskedOfClients: (NsName, Port) => (Validation, Option<Fault>);
    /// ListenerSets that are admitted.
    SetRow: NsName => SetModel;
    /// A port of a Gateway at which ListenerSets have listeners that can be served.
    SoundPort: (NsName, Port, Transport) => ();
    /// Why nobody reaches a port of a Gateway by its Service; absent where that is not known.
    UnservedPort: (NsName, Port, Transport) => Unserved;
    /// Has room be asked for what the listeners of a ListenerSet take by themselves.
    SetRoom: NsName => ();
    /// The same for all of a namespace at a Gateway.
    NamespaceRoom: (NsName, Arc<str>) => ();
    /// How many bytes the listeners of ListenerSets of a namespace may take at a Gateway; absent where there is room for all.
    RoomShare: NsName => u64;
    /// From which listener of ListenerSets of a namespace on there is no room at a Gateway; absent where there is for all.
    RoomBeyond: (NsName, Arc<str>) => Beyond;
    /// Whether listeners of ListenerSets of a namespace have to ask whether there is room for them.
    Crowded: (NsName, Arc<str>) => ();
    /// Why there is no room for a listener of a ListenerSet; absent where there is.
    WithoutRoom: ListenerId => Fault;
}

groups! {
    /// What is to be spoken at a port of a Gateway, and whether the own spec of who says so keeps it from being served.
    PortAsks: (NsName, Port, Transport), (Rank, usize) => (PortClass, bool);
    /// The listeners of a port of a Gateway with a hostname.
    HostAsks: (NsName, Port, Scheme, Hostname), (Rank, usize) => ();
    /// The ListenerSets of a namespace that ask for a port of a Gateway, of whatever transport.
    SetPortAsks: (NsName, Port, Arc<str>), Age => ();
    /// The ports of a Gateway that ListenerSets ask for, with the first one of each namespace.
    SetPorts: NsName, (Age, Port) => ();
    /// The ListenerSets that a Gateway admits.
    SetsOf: NsName, Age => ();
    /// The listeners of ListenerSets at a port of a Gateway that can be served, and whether TLS ends there.
    SoundAsks: (NsName, Port, Transport), (Age, usize) => (Port, bool), sum of |(_, ends_tls)| u64::from(*ends_tls);
    /// The ports of a Gateway at which ListenerSets have listeners that can be served, with the port that Envoy binds, and whether
    /// TLS ends at any of them.
    SoundPorts: NsName, (Port, Transport) => (Port, bool);
    /// What listeners of ListenerSets of a namespace take of a Gateway's proxies by themselves, in bytes, the oldest first.
    ListenerRooms: (NsName, Arc<str>), (Age, usize) => u64, sum of |bytes| *bytes;
    /// The same of each namespace.
    RoomAsks: NsName, Arc<str> => u64, sum of |bytes| *bytes;
    /// The ListenerSets of a Gateway that are accepted.
    AttachedSets: NsName, NsName => ();
}

/// The ports of a Gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bound {
    /// The ports that Envoy binds for them.
    pub(crate) ports: BTreeMap<Port, Port>,
    /// The namespaces whose ListenerSets go without a port, though others may have it.
    pub(crate) without: BTreeSet<(Arc<str>, Port)>,
}

/// What has no room of what listeners of ListenerSets of a namespace take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Beyond {
    /// The first listener for which there is none.
    pub(crate) first: (Age, usize),
    /// What all of them would take, in words, which few changes are for.
    pub(crate) asked: String,
    /// What they may.
    pub(crate) share: String,
}

/// Why nobody reaches a port by the Service of a Gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unserved {
    /// Kubernetes refuses it there, so that the Service goes without it where a ListenerSet alone asks for it.
    ByKubernetes,
    /// The load balancer says so.
    ByLoadBalancer,
}

/// How a ListenerSet stands with its Gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// The Gateway; none where something else is named.
    pub(crate) gateway: Option<NsName>,
    /// Decides between ListenerSets that want the same.
    pub(crate) age: Age,
    /// Of the spec that this was made from.
    pub(crate) generation: i64,
    pub(crate) standing: Standing,
}

impl Head {
    /// Whether its Gateway is ours, whether it admits it or not.
    pub(crate) fn is_ours(&self) -> bool {
        matches!(self.standing, Standing::Admitted | Standing::Doubtful | Standing::NotAllowed)
    }

    /// The Gateway whose proxies serve it.
    pub(crate) fn admitted(&self) -> Option<&NsName> {
        self.gateway.as_ref().filter(|_| matches!(self.standing, Standing::Admitted | Standing::Doubtful))
    }
}

/// Whether a ListenerSet is admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It is.
    Admitted,
    /// Nobody knows whether it is: it is not served, and keeps what it asks for.
    Doubtful,
    /// Its Gateway does not admit it.
    NotAllowed,
    /// Its Gateway does not exist.
    Missing,
    /// Its parent is another controller's.
    Foreign,
    /// Nobody knows what its Gateway says.
    Unknown,
}

/// Who comes first at a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) rank: Rank,
    /// What is spoken there; none where its listeners do not agree.
    pub(crate) class: Option<PortClass>,
}

/// A ListenerSet that is admitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SetModel {
    /// The Gateway whose proxies serve it.
    pub(crate) gateway: NsName,
    /// As written.
    pub(crate) listeners: Vec<Arc<ListenerModel>>,
    /// What has no effect, as field and message.
    pub(crate) ignored: Vec<(String, &'static str)>,
}

impl SetModel {
    /// One of its listeners.
    pub(crate) fn listener(&self, name: &ListenerName) -> Option<&Arc<ListenerModel>> {
        self.listeners.iter().find(|listener| listener.name == name.section)
    }

    /// The ports that its listeners want bound, each once.
    pub(crate) fn bind_ports(&self) -> Vec<(Port, Transport)> {
        bind_ports(&self.listeners)
    }
}
