//! What leaves.

use envoy::{
    bytes::Unreadable,
    resource::{Encoded, ResourceKey, ResourceKind},
    secret::LoginSecret,
};
use ir::{NsName, Port, RouteConfigId, backend::Transport, listener::TlsSecret, rule::ExtensionEntry};

use super::{backend::ClusterId, tls::BundleId};

tables! {
    /// All resources of all Gateways.
    Outputs: OutputId => Encoded;
    /// Has the proxies of a Gateway get a cluster, its endpoints, and the certificate that is shown to these.
    ServedCluster: (NsName, ClusterId) => ();
    /// Has the proxies of a Gateway get the clusters of the servers that are told of requests at a port.
    ToldOf: (NsName, Port) => ();
    /// Has the proxies of a Gateway get an entry of an extension's configuration, to which a row or a wider scope refers, or
    /// the secrets of one.
    ReferredEntry: (NsName, ExtensionEntry) => ();
}

groups! {
    /// The resources of a Gateway that are not sent, since Envoy could not read them.
    Withheld: NsName, OutputId => Unreadable;
    /// The entries of extensions to which rows of a Gateway refer.
    ReferredEntries: NsName, ExtensionEntry => ();
}

/// A resource by what it is made from.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum OutputId {
    Cluster(NsName, ClusterId),
    Endpoints(NsName, ClusterId),
    Secret(NsName, NsName),
    /// The authorities by which backends or clients are judged.
    Authorities(NsName, BundleId),
    /// What proxies show to backends that do not say what they want to see.
    ClientCertificate(NsName),
    /// A secret by which people log in, of a GatewayExtension.
    Login(NsName, NsName, LoginSecret),
    /// One of [`envoy::extensions::NAMES`].
    Extension(NsName, &'static str),
    Listener(NsName, Port, Transport),
    RouteConfiguration(RouteConfigId),
    /// The same for connections whose clients were let in by a certificate alone; that one then is for those from before.
    VerifiedRoutes(RouteConfigId),
}

impl OutputId {
    /// Whose proxies get it.
    pub(crate) fn gateway(&self) -> &NsName {
        match self {
            Self::Cluster(gateway, _)
            | Self::Endpoints(gateway, _)
            | Self::Secret(gateway, _)
            | Self::Authorities(gateway, _)
            | Self::ClientCertificate(gateway)
            | Self::Login(gateway, ..)
            | Self::Extension(gateway, _)
            | Self::Listener(gateway, ..) => gateway,
            Self::RouteConfiguration(id) | Self::VerifiedRoutes(id) => &id.gateway,
        }
    }

    /// The resource as proxies know it.
    pub(crate) fn resource(&self) -> ResourceKey {
        let (gateway, kind, name) = match self {
            Self::Cluster(gateway, cluster) => (gateway, ResourceKind::Cluster, cluster.name()),
            Self::Endpoints(gateway, cluster) => (gateway, ResourceKind::Endpoints, cluster.name()),
            Self::Secret(gateway, secret) => (gateway, ResourceKind::Secret, TlsSecret::resource_name(secret)),
            Self::Authorities(gateway, bundle) => (gateway, ResourceKind::Secret, bundle.to_string()),
            Self::ClientCertificate(gateway) => (gateway, ResourceKind::Secret, TlsSecret::OF_GATEWAY.to_owned()),
            Self::Login(gateway, extension, part) => (gateway, ResourceKind::Secret, part.resource_name(extension)),
            Self::Extension(gateway, name) => (gateway, ResourceKind::ExtensionConfig, (*name).to_owned()),
            Self::Listener(gateway, port, transport) => {
                (gateway, ResourceKind::Listener, listener_name(*port, *transport))
            }
            Self::RouteConfiguration(id) => (&id.gateway, ResourceKind::RouteConfiguration, id.resource_name()),
            Self::VerifiedRoutes(id) => (&id.gateway, ResourceKind::RouteConfiguration, id.verified_name()),
        };
        ResourceKey { gateway: gateway.clone(), kind, name: name.into() }
    }
}

/// The Envoy listener of a port: `listener/PORT`, with `/udp` behind for UDP.
pub(crate) fn listener_name(port: Port, transport: Transport) -> String {
    match transport {
        Transport::Tcp => format!("listener/{port}"),
        Transport::Udp => format!("listener/{port}/udp"),
    }
}
