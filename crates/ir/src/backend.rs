//! Clusters and their endpoints.

use std::{fmt, net::IpAddr, sync::Arc, time::Duration};

use crate::{
    id::{NsName, Port},
    upstream::{ClusterConfig, ProxyProtocol, Tls},
};

/// What the packets of a port are of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Transport {
    /// TCP.
    #[default]
    Tcp,
    /// UDP.
    Udp,
}

impl Transport {
    /// As Kubernetes calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
        }
    }
}

/// A port of a Service, the unit of a cluster. TCP and UDP may share a number: these are two ports.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServicePort {
    /// The Service.
    pub service: NsName,
    /// The Service's port (not its target port).
    pub port: Port,
    /// Its transport.
    pub transport: Transport,
}

impl ServicePort {
    /// A TCP port, which is what HTTP needs.
    pub fn tcp(service: NsName, port: Port) -> Self {
        Self { service, port, transport: Transport::Tcp }
    }

    /// The name of the Envoy cluster and of its endpoints: `service/NS/NAME/PORT`, with `/udp` behind for UDP.
    pub fn cluster_name(&self) -> String {
        self.cluster_name_with("")
    }

    /// The same with something behind it. Concatenated, since every reference to a backend makes a name and formatting one takes longer.
    fn cluster_name_with(&self, suffix: &str) -> String {
        let transport = match self.transport {
            Transport::Tcp => "",
            Transport::Udp => "/udp",
        };
        let NsName { namespace, name } = &self.service;
        ["service/", namespace, "/", name, "/", &self.port.to_string(), transport, suffix].concat()
    }
}

/// What requests are sent to, as a reference names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Destination {
    /// A port of a Service.
    Service(ServicePort),
    /// The same where a policy has proxies connect by TLS. Its cluster is not the one in plain text: while a proxy does not
    /// have it, or refused it, nothing is sent there.
    Secured(ServicePort),
    /// A Backend.
    Backend(NsName),
    /// The same where a policy has proxies connect by TLS.
    SecuredBackend(NsName),
}

impl Destination {
    /// The port of a Service that it is; none of a Backend.
    pub fn port(&self) -> Option<&ServicePort> {
        match self {
            Self::Service(port) | Self::Secured(port) => Some(port),
            Self::Backend(_) | Self::SecuredBackend(_) => None,
        }
    }

    /// Whether a policy has proxies connect by TLS.
    pub fn is_secured(&self) -> bool {
        matches!(self, Self::Secured(_) | Self::SecuredBackend(_))
    }

    /// The same object where a policy has proxies connect by TLS.
    #[must_use]
    pub fn secured(self) -> Self {
        match self {
            Self::Service(port) | Self::Secured(port) => Self::Secured(port),
            Self::Backend(name) | Self::SecuredBackend(name) => Self::SecuredBackend(name),
        }
    }

    /// The same object, whatever policies say of it.
    #[must_use]
    pub fn plain(self) -> Self {
        match self {
            Self::Service(port) | Self::Secured(port) => Self::Service(port),
            Self::Backend(name) | Self::SecuredBackend(name) => Self::Backend(name),
        }
    }

    /// The name of the object.
    pub fn name(&self) -> &NsName {
        match self {
            Self::Service(port) | Self::Secured(port) => &port.service,
            Self::Backend(name) | Self::SecuredBackend(name) => name,
        }
    }

    /// The name of the Envoy cluster, and of its endpoints: that of a Service's port or `backend/NS/NAME`, with `/tls` behind
    /// where it is secured.
    pub fn cluster_name(&self) -> String {
        match self {
            Self::Service(port) => port.cluster_name(),
            Self::Secured(port) => port.cluster_name_with("/tls"),
            Self::Backend(name) => format!("backend/{name}"),
            Self::SecuredBackend(name) => format!("backend/{name}/tls"),
        }
    }
}

/// `Service apps/shop port 80`, or `Backend apps/shop`.
impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Service(ServicePort { service, port, .. }) | Self::Secured(ServicePort { service, port, .. }) => {
                write!(f, "Service {service} port {port}")
            }
            Self::Backend(name) | Self::SecuredBackend(name) => write!(f, "Backend {name}"),
        }
    }
}

/// Whom proxies send something of their own: questions of a filter, or copies of requests.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Asked {
    /// One that says itself what is spoken there. The cluster of a Backend is not that of requests, of which alone Envoy knows
    /// where they go in the end: it never has a host by name.
    Own(Destination),
    /// One that does not say that it speaks HTTP/2, and is asked in gRPC.
    Grpc(Destination),
}

impl Asked {
    /// The object that it means.
    pub fn name(&self) -> &NsName {
        let (Self::Own(to) | Self::Grpc(to)) = self;
        to.name()
    }

    /// The name of the Envoy cluster and of its endpoints: that of whom it means, with `/own` or `/grpc` behind where it has
    /// one of its own.
    pub fn cluster_name(&self) -> String {
        match self {
            Self::Own(to) if to.port().is_some() => to.cluster_name(),
            Self::Own(to) => format!("{}/own", to.cluster_name()),
            Self::Grpc(to) => format!("{}/grpc", to.cluster_name()),
        }
    }
}

/// What a backend speaks (Service `appProtocol`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Protocol {
    /// HTTP/1.1, websocket upgrades included.
    #[default]
    Http1,
    /// HTTP/2 without TLS, by prior knowledge (`kubernetes.io/h2c`).
    H2c,
    /// HTTP/1.1 over TLS (`kubernetes.io/wss`). Where no policy says whose certificate to expect, the name asked for is sent as
    /// SNI, and nothing is verified.
    Http1Tls,
}

/// An Envoy cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cluster {
    /// Its name; its endpoints have the same.
    pub name: Arc<str>,
    /// The hosts that proxies look for by their names; none where endpoints come over EDS.
    pub hosts: Box<[Host]>,
    /// What its owner says of connections to it.
    pub config: Arc<ClusterConfig>,
    /// Whether requests for hosts that turn out to be local addresses are refused (`validate::host::is_local`).
    pub guarded: bool,
    /// What its endpoints speak.
    pub protocol: Protocol,
    /// Whether requests are spread over localities by their weights: one locality a backend of a weighted rule.
    pub weighted_localities: bool,
    /// How long a connection may take to be made.
    pub connect_timeout: Duration,
    /// The file of a proxy with the authorities of its system.
    pub trust_store: Arc<str>,
    /// Circuit breaker: connections, pending requests and requests at most, each.
    pub limits: ClusterLimits,
}

impl Cluster {
    /// Whether proxies show the certificate of their Gateway there, if it has one: TLS is spoken, and nobody says what is shown.
    pub fn shows_certificate_of_gateway(&self) -> bool {
        match &self.config.tls {
            Some(tls) => tls.shows_certificate_of_gateway(),
            None => self.protocol == Protocol::Http1Tls,
        }
    }
}

/// The Envoy cluster of a place of streams ([`crate::stream::PlaceId`]): all that its route sends to, a weighted locality each.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StreamCluster {
    /// Its name; its endpoints have the same.
    pub name: Arc<str>,
    /// What it takes.
    pub transport: Transport,
    /// How its endpoints are connected to, by the names under which localities ask for it ([`Locality::way`]), each once. One
    /// that asks for none of these, nor for [`PLAIN`], is connected to in no way. None for UDP.
    pub ways: Vec<Way>,
    /// How long a connection may take to be made.
    pub connect_timeout: Duration,
    /// The file of a proxy with the authorities of its system.
    pub trust_store: Arc<str>,
    /// How much it may hold at a time.
    pub limits: ClusterLimits,
}

/// In which way endpoints are connected to as they are.
pub const PLAIN: &str = "plain";

/// What connections are wrapped in, as policies say.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Way {
    /// Its name.
    pub name: Arc<str>,
    /// TLS.
    pub tls: Option<Tls>,
    /// The PROXY protocol.
    pub proxy_protocol: Option<ProxyProtocol>,
}

/// A host by its name, or by an address beside others that have names.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Host {
    /// The name, in lower case.
    pub name: Arc<str>,
    /// The port.
    pub port: Port,
}

/// Bounds on what one cluster may hold at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClusterLimits {
    /// Open connections.
    pub connections: u32,
    /// Requests waiting for a connection.
    pub pending_requests: u32,
    /// Requests under way.
    pub requests: u32,
    /// Retries under way.
    pub retries: u32,
    /// Bytes buffered per connection.
    pub buffer_bytes: u32,
}

impl ClusterLimits {
    /// Calls by which a server is told something, under way and waiting, at most: a proxy holds for each what it tells.
    pub const TOLD: u32 = 64;

    /// The same for a cluster of servers that are told: what they do not take is dropped, and no request waits for it.
    #[must_use]
    pub fn of_told(self) -> Self {
        let least = |limit: u32| limit.min(Self::TOLD);
        Self {
            pending_requests: least(self.pending_requests),
            requests: least(self.requests),
            retries: least(self.retries),
            ..self
        }
    }
}

/// The endpoints of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Assignment {
    /// The cluster.
    pub cluster: Arc<str>,
    /// Sorted; none means that requests answer 503.
    pub localities: Vec<Locality>,
}

/// Endpoints that stand together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Locality {
    /// The zone, empty where unknown.
    pub zone: Arc<str>,
    /// Tells apart localities of one zone: the backend of a weighted rule; empty otherwise.
    pub sub_zone: Arc<str>,
    /// Its share, only where localities are weighted; zero takes no new request.
    pub weight: Option<u32>,
    /// In which way its endpoints are connected to ([`StreamCluster::ways`]); empty where the cluster has one way alone.
    pub way: Arc<str>,
    /// Sorted, without duplicates.
    pub endpoints: Vec<Endpoint>,
}

/// One address that answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Endpoint {
    /// Its address.
    pub address: IpAddr,
    /// Its port.
    pub port: Port,
    /// False while it ends: it serves what it has and, where nothing else is left, new requests too.
    pub ready: bool,
    /// Whether its address is what it is called, by whoever rewrites the host of requests to that of the endpoint.
    pub is_host: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_in_tcp_and_in_udp_is_two_clusters() {
        let tcp = ServicePort::tcp(NsName::new("infra", "dns"), 53);
        let udp = ServicePort { transport: Transport::Udp, ..tcp.clone() };
        assert_ne!(tcp, udp);
        assert_eq!([tcp.cluster_name(), udp.cluster_name()], ["service/infra/dns/53", "service/infra/dns/53/udp"]);
    }

    #[test]
    fn what_is_secured_is_no_cluster_in_plain_text() {
        let port = ServicePort::tcp(NsName::new("infra", "web"), 80);
        let secured = Destination::Service(port).secured();
        assert_eq!(secured.cluster_name(), "service/infra/web/80/tls");
        assert_eq!(Asked::Own(secured.clone()).cluster_name(), secured.cluster_name());
        assert_eq!(Asked::Grpc(secured.clone()).cluster_name(), "service/infra/web/80/tls/grpc");
        assert_eq!(secured.to_string(), "Service infra/web port 80");
        let backend = Destination::Backend(NsName::new("infra", "ext"));
        assert_eq!(Asked::Own(backend.clone()).cluster_name(), "backend/infra/ext/own");
        let secured = backend.secured();
        assert_eq!(secured.cluster_name(), "backend/infra/ext/tls");
        assert_eq!(Asked::Own(secured.clone()).cluster_name(), "backend/infra/ext/tls/own");
        assert_eq!(secured.to_string(), "Backend infra/ext");
    }
}
