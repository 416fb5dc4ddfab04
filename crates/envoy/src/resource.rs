//! What goes to Envoy: named, encoded, versioned.

use std::sync::Arc;

use ir::NsName;

use crate::body::Body;

/// The kinds of Envoy resources that are served, in the order in which a change is made before another is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ResourceKind {
    /// `envoy.config.cluster.v3.Cluster`
    Cluster,
    /// `envoy.config.endpoint.v3.ClusterLoadAssignment`
    Endpoints,
    /// `envoy.extensions.transport_sockets.tls.v3.Secret`
    Secret,
    /// `envoy.config.core.v3.TypedExtensionConfig`
    ExtensionConfig,
    /// `envoy.config.listener.v3.Listener`
    Listener,
    /// `envoy.config.route.v3.RouteConfiguration`
    RouteConfiguration,
}

impl ResourceKind {
    /// All kinds, in order.
    pub const ALL: [Self; 6] =
        [Self::Cluster, Self::Endpoints, Self::Secret, Self::ExtensionConfig, Self::Listener, Self::RouteConfiguration];

    /// The full name of the protobuf message.
    pub fn message_name(self) -> &'static str {
        match self {
            Self::Cluster => "envoy.config.cluster.v3.Cluster",
            Self::Endpoints => "envoy.config.endpoint.v3.ClusterLoadAssignment",
            Self::Secret => "envoy.extensions.transport_sockets.tls.v3.Secret",
            Self::ExtensionConfig => "envoy.config.core.v3.TypedExtensionConfig",
            Self::Listener => "envoy.config.listener.v3.Listener",
            Self::RouteConfiguration => "envoy.config.route.v3.RouteConfiguration",
        }
    }
}

/// One resource of one Gateway's proxies.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ResourceKey {
    /// Whose proxies get it.
    pub gateway: NsName,
    /// Its kind.
    pub kind: ResourceKind,
    /// Its name, unique within Gateway and kind.
    pub name: Arc<str>,
}

/// An Envoy message as bytes. Equal messages have equal bytes and equal versions, on every replica and in every run.
///
/// Two are equal if their versions are.
#[derive(Clone, Debug)]
pub struct Encoded {
    /// A 128-bit content hash.
    pub version: [u8; 16],
    /// The message, without a type URL.
    pub body: Body,
    /// Whether it ends what had its name, which new configuration does without: proxies that have that go on with it until they
    /// have switched.
    pub ends: bool,
}

impl PartialEq for Encoded {
    fn eq(&self, other: &Self) -> bool {
        self.version == other.version
    }
}

impl Eq for Encoded {}
