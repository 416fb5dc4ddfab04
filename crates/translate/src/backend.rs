//! Services and Backends as clusters, and what stands behind them as endpoints.
//!
//! A change of endpoints ends here: no route reads them, so that it costs one assignment and nothing else.

mod assignment;
pub(crate) mod config;
pub(crate) mod hosts;
pub(crate) mod place;
pub(crate) mod reference;
pub(crate) mod stream;
pub(crate) mod tls;

use std::sync::Arc;

use api::core::{EndpointSlice, ServiceType};
use engine::{Derived, Emitter, Group, Lookup, Scope};
use envoy::resource::Encoded;
use ir::{
    NsName, Port, Reason,
    backend::{Cluster, Destination, Protocol, ServicePort, StreamCluster, Transport},
    stream::PlaceId,
};

use self::hosts::BackendHosts;
use crate::{
    internal,
    offer::is_strict,
    refused::by_proxies,
    tables::{
        backend::{ClusterBytes, ClusterId, PortState, ServicePorts, ShownThere, Unusable, shares_of},
        gateway::{ClientCertificate, Fault},
        input::{ClearedPart, Config, Services, Slices},
        stream::WaysAt,
        strict::{Part, PartId},
        tls::Secured,
    },
};

tables! {
    /// Files a slice under its Service.
    SliceRow: NsName => ();
    /// A cluster's message for proxies that show the certificate of their Gateway there.
    ShowingBytes: ClusterId => Encoded;
}

impl Derived for SliceRow {
    fn compute(scope: &Emitter<'_>, key: &NsName) -> Option<()> {
        let slice = scope.get::<Slices>(key)?;
        let service = NsName::new(key.namespace.clone(), slice.service_name.as_deref()?);
        let addresses: usize = slice.endpoints.iter().map(|endpoint| endpoint.addresses.len()).sum();
        scope.emit::<SlicesOf>(service, key.name.clone(), addresses.next_power_of_two() as u64);
        Some(())
    }
}

/// The names of a Service's slices, and how many addresses they have, rounded up to a power of two, so that a pod that
/// comes or goes changes little.
pub(crate) struct SlicesOf;

impl Group for SlicesOf {
    const NAME: &'static str = "SlicesOf";
    type Key = NsName;
    type Sort = Arc<str>;
    type Entry = u64;
    /// Of all.
    type Summary = u64;

    fn summary(addresses: &u64) -> u64 {
        *addresses
    }
}

/// How many endpoints a cluster has at most.
pub(crate) fn most_endpoints(scope: &Scope<'_>, cluster: &ClusterId) -> u64 {
    let of = |to: &Destination| match to {
        Destination::Service(port) | Destination::Secured(port) => *scope.group::<SlicesOf>(&port.service).summary(),
        Destination::Backend(name) | Destination::SecuredBackend(name) => {
            match scope.get::<BackendHosts>(name).as_deref() {
                Some(Ok(hosts)) => hosts.most_endpoints(),
                _ => 0,
            }
        }
    };
    match (cluster.to(), cluster) {
        (Some(to), _) => of(&to),
        (None, ClusterId::Rule(chain, rule, to)) => {
            shares_of(scope, (chain, *rule, to)).shares.iter().map(|(to, _)| of(to)).sum()
        }
        (None, ClusterId::Place(place)) => place::most_endpoints(scope, place, of),
        (None, _) => 0,
    }
}

impl Lookup for ServicePorts {
    fn compute(scope: &Scope<'_>, key: &ServicePort) -> Option<PortState> {
        let service = scope.get::<Services>(&key.service)?;
        Some(port_state(&service, key, tls::secured(scope, &Destination::Service(key.clone())).as_deref()))
    }

    fn poisoned(scope: &Scope<'_>, key: &ServicePort, _: &engine::Fault) -> Option<PortState> {
        scope.get::<Services>(&key.service)?;
        let message = format!("Service {} cannot be used: {}", key.service, internal::WORDS);
        let protocol = Err(Unusable { reason: Reason::InternalFault, message });
        Some(PortState { name: "".into(), protocol, warning: None, is_secured: false })
    }
}

fn port_state(service: &api::core::Service, key: &ServicePort, secured: Option<&Secured>) -> PortState {
    let is_secured = secured.is_some();
    match found_port(service, key, secured) {
        Ok(port) => {
            let (protocol, warning) = app_protocol(port.app_protocol.as_deref(), key, is_secured);
            PortState { name: port.name.clone(), protocol, warning, is_secured }
        }
        Err(unusable) => {
            // By its name slices know it, also while nobody may connect.
            let closed = service.port(key.port, &protocol_of(key.transport));
            let name = closed.filter(|_| unusable.reason == Reason::InvalidBackendTLS).map(|port| port.name.clone());
            let name = name.unwrap_or_default();
            PortState { name, protocol: Err(unusable), warning: None, is_secured }
        }
    }
}

/// A port of a Service, whatever is spoken there, or why nobody may connect to it.
fn found_port<'a>(
    service: &'a api::core::Service,
    key: &ServicePort,
    secured: Option<&Secured>,
) -> Result<&'a api::core::ServicePort, Unusable> {
    let unusable = |reason, message| Err(Unusable { reason, message });
    if service.r#type == ServiceType::ExternalName {
        let message = format!(
            "Service {} is of type ExternalName, which could name any address; use a Service with endpoints",
            key.service
        );
        return unusable(Reason::InvalidKind, message);
    }
    let wanted = protocol_of(key.transport);
    let Some(port) = service.port(key.port, &wanted) else {
        if let Some(other) = service.ports.iter().find(|port| port.port == key.port) {
            let ServicePort { service, port, .. } = key;
            let message =
                format!("port {port} of Service {service} is {}, and {wanted} is needed; name another", other.protocol);
            return unusable(Reason::UnsupportedProtocol, message);
        }
        let mut ports: Vec<_> = service.ports.iter().map(|port| port.port.to_string()).collect();
        ports.dedup();
        let has = list_or_none(&ports);
        let message = format!("Service {} has no port {}: it has {has}; correct either", key.service, key.port);
        return unusable(Reason::BackendNotFound, message);
    };
    if let Some(secured @ Secured { tls: None, .. }) = secured {
        let message = format!(
            "port {} of Service {} cannot be used: {}, which applies to it, is not valid",
            key.port,
            key.service,
            secured.id()
        );
        return unusable(Reason::InvalidBackendTLS, message);
    }
    Ok(port)
}

/// A transport, as Kubernetes calls it.
fn protocol_of(transport: Transport) -> api::core::Protocol {
    match transport {
        Transport::Tcp => api::core::Protocol::Tcp,
        Transport::Udp => api::core::Protocol::Udp,
    }
}

fn list_or_none(items: &[String]) -> String {
    if items.is_empty() { "none".into() } else { items.join(", ") }
}

/// Kubernetes' standard application protocols (KEP-3726) and the names that service meshes made common.
/// Where a policy secures the port, all of them are spoken over TLS.
fn app_protocol(
    name: Option<&str>,
    key: &ServicePort,
    is_secured: bool,
) -> (Result<Protocol, Unusable>, Option<String>) {
    let of_port = format!("appProtocol of port {} of Service {}", key.port, key.service);
    match name.unwrap_or_default() {
        "" | "http" | "ws" | "kubernetes.io/ws" => (Ok(Protocol::Http1), None),
        "h2c" | "http2" | "grpc" | "kubernetes.io/h2c" => (Ok(Protocol::H2c), None),
        "wss" | "kubernetes.io/wss" if is_secured => (Ok(Protocol::Http1Tls), None),
        "wss" | "kubernetes.io/wss" => {
            let warning =
                format!("{of_port} asks for TLS, and nothing says whose certificate to expect: it is not verified");
            (Ok(Protocol::Http1Tls), Some(warning))
        }
        other if ["https", "tls", "kubernetes.io/https"].iter().any(|tls| other.eq_ignore_ascii_case(tls)) => {
            if is_secured {
                return (Ok(Protocol::Http1), None);
            }
            let message = format!(
                "{of_port} is {other:?}, and nothing says whose certificate to expect; create a BackendTLSPolicy for it, or \
                 name a port that speaks plain HTTP"
            );
            (Err(Unusable { reason: Reason::UnsupportedProtocol, message }), None)
        }
        other => {
            let warning =
                format!("{of_port} is {other:?}, which is not known, so it counts as none; correct or remove it");
            (Ok(Protocol::Http1), Some(warning))
        }
    }
}

/// A cluster as it is written; none where there is none.
fn model(scope: &Scope<'_>, key: &ClusterId) -> Option<Cluster> {
    let mut hosts = Box::default();
    let to = key.to();
    let spoken = match (&to, key) {
        (Some(Destination::Service(port) | Destination::Secured(port)), _) => {
            scope.get::<ServicePorts>(port)?.protocol.clone().ok()?
        }
        (Some(Destination::Backend(name) | Destination::SecuredBackend(name)), _) => {
            let backend = scope.get::<BackendHosts>(name)?;
            let backend = backend.as_ref().as_ref().ok()?;
            hosts = backend.by_name();
            backend.protocol
        }
        (None, ClusterId::Rule(chain, rule, to)) => shares_of(scope, (chain, *rule, to)).protocol,
        (None, _) => return None,
    };
    let in_grpc = matches!(key, ClusterId::Http2(_) | ClusterId::Grpc(_) | ClusterId::Told(_));
    let protocol = if in_grpc { Protocol::H2c } else { spoken };
    let settings = scope.get::<Config>(&())?;
    // What looks whether an endpoint is local lets pass what no client sends.
    if !matches!(key, ClusterId::To(_) | ClusterId::Http2(_)) && !hosts.is_empty() && !settings.local_backends {
        return None;
    }
    // Sessions hold across none that is configured.
    let said = to.as_ref().and_then(|to| config::config(scope, to, protocol, !hosts.is_empty()));
    // Left out where nobody knows how to connect: whoever sends requests there answers 500.
    let config = said.transpose().ok()?.unwrap_or_default();
    // Of both names one alone has a cluster.
    if to.is_some_and(|to| to.is_secured() != config.tls.is_some()) {
        return None;
    }
    Some(Cluster {
        name: key.name().into(),
        hosts,
        config: config.into(),
        guarded: !settings.local_backends,
        protocol,
        weighted_localities: matches!(key, ClusterId::Rule(..)),
        connect_timeout: settings.connect_timeout,
        trust_store: settings.system_trust_store.clone(),
        limits: if matches!(key, ClusterId::Told(_)) { settings.cluster.of_told() } else { settings.cluster },
    })
}

impl Lookup for ClusterBytes {
    fn compute(scope: &Scope<'_>, key: &ClusterId) -> Option<Encoded> {
        if let ClusterId::Place(place) = key {
            return place_cluster(scope, place);
        }
        Some(envoy::cluster::cluster(&model(scope, key)?))
    }

    /// It is left out: whoever sends requests there answers 500.
    fn poisoned(_: &Scope<'_>, _: &ClusterId, _: &engine::Fault) -> Option<Encoded> {
        None
    }
}

/// The cluster of a place of streams. What routes say of it is in its endpoints, but for how these are connected to.
fn place_cluster(scope: &Scope<'_>, place: &PlaceId) -> Option<Encoded> {
    let config = scope.get::<Config>(&())?;
    Some(envoy::cluster::stream(&StreamCluster {
        name: place.name().into(),
        transport: place.transport(),
        ways: scope.get::<WaysAt>(place).map(|ways| ways.to_vec()).unwrap_or_default(),
        connect_timeout: config.connect_timeout,
        trust_store: config.system_trust_store.clone(),
        limits: config.cluster,
    }))
}

impl Lookup for ShownThere {
    fn compute(scope: &Scope<'_>, key: &ClusterId) -> Option<()> {
        model(scope, key)?.shows_certificate_of_gateway().then_some(())
    }
}

impl Lookup for ShowingBytes {
    fn compute(scope: &Scope<'_>, key: &ClusterId) -> Option<Encoded> {
        let encoded = if is_strict(scope) { cleared_cluster(scope, key)? } else { written(scope, key)? };
        // What is added is no object's word, so that nobody is asked about it.
        Some(envoy::cluster::showing(&encoded))
    }

    /// As [`ClusterBytes`].
    fn poisoned(_: &Scope<'_>, _: &ClusterId, _: &engine::Fault) -> Option<Encoded> {
        None
    }
}

/// Why proxies refuse a cluster of a backend, if they do, and the cluster.
fn refused(scope: &Scope<'_>, to: &Destination, in_grpc: bool) -> Option<(Arc<str>, Encoded)> {
    let of = |cluster: fn(Destination) -> ClusterId| cluster(to.clone());
    let plain = [of(ClusterId::To), of(ClusterId::Own)].into_iter();
    let grpc = [of(ClusterId::Http2), of(ClusterId::Grpc), of(ClusterId::Told)].into_iter().filter(|_| in_grpc);
    let written = |id: &ClusterId| model(scope, id).map(|model| envoy::cluster::cluster(&model));
    plain.chain(grpc).find_map(|id| Some((by_proxies(scope, &id, || written(&id))?, written(&id)?)))
}

/// A cluster as the proxies of a Gateway get it.
pub(crate) fn sent(scope: &Scope<'_>, gateway: &NsName, cluster: &ClusterId) -> Option<Encoded> {
    let own = || if is_strict(scope) { cleared_cluster(scope, cluster) } else { written(scope, cluster) };
    if by_proxies(scope, cluster, own).is_some() {
        return None;
    }
    let shown = scope.get::<ClientCertificate>(gateway).is_some() && scope.get::<ShownThere>(cluster).is_some();
    if shown { scope.get::<ShowingBytes>(cluster).map(|encoded| (*encoded).clone()) } else { own() }
}

fn written(scope: &Scope<'_>, cluster: &ClusterId) -> Option<Encoded> {
    scope.get::<ClusterBytes>(cluster).map(|encoded| (*encoded).clone())
}

/// Why the proxies of a Gateway may not send to a cluster: they have no certificate to show there.
pub(crate) fn without_certificate(scope: &Scope<'_>, gateway: &NsName, cluster: &ClusterId) -> Option<Fault> {
    let certificate = scope.get::<ClientCertificate>(gateway)?;
    let fault = certificate.as_ref().as_ref().err()?;
    scope.get::<ShownThere>(cluster).map(|_| fault.clone())
}

fn cleared_cluster(scope: &Scope<'_>, cluster: &ClusterId) -> Option<Encoded> {
    match &*scope.get::<ClearedPart>(&PartId::Cluster(cluster.clone()))? {
        Part::Cluster(encoded) => Some(encoded.clone()),
        Part::Tokens(_) | Part::Rate | Part::Chain(..) => None,
    }
}

/// The slices of a Service that have one of its ports, each with the number there. It is found by name and protocol, as
/// kube-proxy does.
fn endpoints_of(scope: &Scope<'_>, port: &ServicePort) -> Vec<(Port, Arc<EndpointSlice>)> {
    let Some(state) = scope.get::<ServicePorts>(port) else { return Vec::new() };
    let protocol = protocol_of(port.transport);
    let slices = scope.group::<SlicesOf>(&port.service);
    let slices = slices
        .iter()
        .filter_map(|(name, _)| scope.get::<Slices>(&NsName::new(port.service.namespace.clone(), name.clone())));
    slices
        .filter_map(|slice| {
            let mut ports = slice.ports.iter();
            let number = ports.find(|other| other.name == state.name && other.protocol == protocol)?.port?;
            Some((number, slice))
        })
        .collect()
}
