//! One named resource: its version, and its bytes in the forms in which they travel.

use std::fmt;
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint};

/// The resource types that are served.
///
/// The order of the variants is the order in which an update adds things: what is referenced comes before what refers
/// to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ResourceType {
    /// `envoy.extensions.transport_sockets.tls.v3.Secret` (SDS). Envoy closes no connection because a secret changes, so a
    /// changed cluster must not connect by what a secret said before: such a connection would stay. A client that reconnects asks for
    /// clusters before secrets, so in that moment it may.
    Secret,
    /// `envoy.config.cluster.v3.Cluster` (CDS).
    Cluster,
    /// `envoy.config.endpoint.v3.ClusterLoadAssignment` (EDS). By convention a cluster's endpoints have its name.
    Endpoints,
    /// `envoy.config.core.v3.TypedExtensionConfig` (ECDS): what filters of listeners say that routes refer to.
    ExtensionConfig,
    /// `envoy.config.listener.v3.Listener` (LDS).
    Listener,
    /// `envoy.config.route.v3.RouteConfiguration` (RDS).
    RouteConfiguration,
}

impl ResourceType {
    /// Every type, in make-before-break order.
    pub const ALL: [Self; 6] =
        [Self::Secret, Self::Cluster, Self::Endpoints, Self::ExtensionConfig, Self::Listener, Self::RouteConfiguration];

    /// The name of its message, without the package.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Secret => "Secret",
            Self::Cluster => "Cluster",
            Self::Endpoints => "ClusterLoadAssignment",
            Self::ExtensionConfig => "TypedExtensionConfig",
            Self::Listener => "Listener",
            Self::RouteConfiguration => "RouteConfiguration",
        }
    }

    /// The type URL, as it stands in requests, responses and `Any`.
    pub const fn type_url(self) -> &'static str {
        match self {
            Self::Secret => "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret",
            Self::Cluster => "type.googleapis.com/envoy.config.cluster.v3.Cluster",
            Self::Endpoints => "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
            Self::ExtensionConfig => "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig",
            Self::Listener => "type.googleapis.com/envoy.config.listener.v3.Listener",
            Self::RouteConfiguration => "type.googleapis.com/envoy.config.route.v3.RouteConfiguration",
        }
    }

    /// The type with this URL, if it is one that is served.
    pub fn from_type_url(url: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.type_url() == url)
    }

    /// Whether a state-of-the-world response of this type holds the complete set, so that what is absent is removed.
    pub(crate) const fn is_complete_set(self) -> bool {
        matches!(self, Self::Cluster | Self::Listener)
    }

    /// Whether only a recent Envoy reads a resource of this type as it is meant: one that lacks a filter refuses the
    /// listener, and ignores what a route sets for it.
    pub(crate) const fn is_made_for_version(self) -> bool {
        matches!(self, Self::ExtensionConfig | Self::Listener | Self::RouteConfiguration)
    }

    pub(crate) const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for ResourceType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A resource's version: a hash of its content, so that replicas agree and a restart changes nothing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version([u8; 16]);

impl Version {
    /// Reads the form that [`fmt::Display`] writes.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() != 32 || !text.is_ascii() {
            return None;
        }
        u128::from_str_radix(text, 16).ok().map(|bits| Self(bits.to_be_bytes()))
    }

    /// One of what has these versions, in this order: equal for equal ones, on every replica.
    pub(crate) fn of_all(versions: impl ExactSizeIterator<Item = Self>) -> Self {
        // The versions are hashes already; this only has to mix them so that the order counts.
        const ODD: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
        let count = versions.len() as u128;
        let mixed = versions.fold(count, |mixed, version| (mixed.rotate_left(29) ^ version.bits()).wrapping_mul(ODD));
        Self(mixed.to_be_bytes())
    }

    fn bits(self) -> u128 {
        u128::from_be_bytes(self.0)
    }
}

impl From<[u8; 16]> for Version {
    fn from(hash: [u8; 16]) -> Self {
        Self(hash)
    }
}

impl From<Version> for [u8; 16] {
    fn from(version: Version) -> Self {
        version.0
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.bits())
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// An encoded message in pieces, which may be put together only when somebody reads it.
pub trait Pieces: Send + Sync {
    /// How long the message is.
    fn total_len(&self) -> usize;
    /// The message, one piece after the other: the same each time.
    fn pieces(&self) -> &[Bytes];
}

impl Pieces for Arc<[Bytes]> {
    fn total_len(&self) -> usize {
        self.iter().map(Bytes::len).sum()
    }

    fn pieces(&self) -> &[Bytes] {
        self
    }
}

/// One encoded Envoy message with its name and version. Cloning shares everything.
///
/// Two resources are equal when type, name and version are equal: the version stands for the content.
#[derive(Clone)]
pub struct Resource(Arc<Inner>);

struct Inner {
    kind: ResourceType,
    name: Arc<str>,
    version: Version,
    /// What precedes `body` in a delta response: field 2, `Resource{name, version, resource: Any{type_url, value}}`.
    /// Empty for a resource that is only known by name, see [`Resource::unknown`].
    delta_head: Bytes,
    body: Box<dyn Pieces>,
    len: usize,
    ends: bool,
}

impl Resource {
    /// A resource of type `kind`. `version` must be a hash of `body`; `body` is the encoded Envoy message, whose own
    /// name field must be `name`.
    pub fn new(kind: ResourceType, name: &str, version: [u8; 16], body: Bytes) -> Self {
        let body: Arc<[Bytes]> = Arc::new([body]);
        Self::in_pieces(kind, name, version, body)
    }

    /// The same of a message that is these pieces one after the other. They are sent as they are, never joined.
    pub fn in_pieces(kind: ResourceType, name: &str, version: [u8; 16], body: impl Pieces + 'static) -> Self {
        Self::of(kind, name, version, body, false)
    }

    /// The same of a route configuration that ends what a client does by this name, which new listeners do without: it takes the
    /// place of another version together with removals, so that a client which has not switched yet goes on with that.
    pub fn ending(kind: ResourceType, name: &str, version: [u8; 16], body: impl Pieces + 'static) -> Self {
        Self::of(kind, name, version, body, true)
    }

    fn of(kind: ResourceType, name: &str, version: [u8; 16], body: impl Pieces + 'static, ends: bool) -> Self {
        let version = Version(version);
        let len = body.total_len();
        let delta_head = delta_head(kind, name, version, len);
        Self(Arc::new(Inner { kind, name: Arc::from(name), version, delta_head, body: Box::new(body), len, ends }))
    }

    /// A resource that a client reports to have, and of which nothing else is known.
    pub(crate) fn unknown(kind: ResourceType, name: Arc<str>, version: Version) -> Self {
        let body: Arc<[Bytes]> = Arc::default();
        let delta_head = Bytes::new();
        Self(Arc::new(Inner { kind, name, version, delta_head, body: Box::new(body), len: 0, ends: false }))
    }

    /// Whether this can be sent: false for what [`Resource::unknown`] made.
    pub(crate) fn has_body(&self) -> bool {
        !self.0.delta_head.is_empty()
    }

    /// Whether it ends what a client does by its name: see [`Resource::ending`].
    pub(crate) fn ends(&self) -> bool {
        self.0.ends
    }

    /// The type.
    pub fn kind(&self) -> ResourceType {
        self.0.kind
    }

    /// The name, unique within its type and snapshot.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    pub(crate) fn shared_name(&self) -> Arc<str> {
        self.0.name.clone()
    }

    /// The version as it travels: 32 hexadecimal digits.
    pub fn version(&self) -> String {
        self.0.version.to_string()
    }

    /// The version as a value.
    pub fn content_version(&self) -> Version {
        self.0.version
    }

    /// The encoded Envoy message, which is these pieces one after the other.
    pub fn body(&self) -> &[Bytes] {
        self.0.body.pieces()
    }

    /// How long the encoded Envoy message is.
    pub(crate) fn body_len(&self) -> usize {
        self.0.len
    }

    /// What precedes the body as an element of `DeltaDiscoveryResponse.resources`.
    pub(crate) fn delta_head(&self) -> &Bytes {
        &self.0.delta_head
    }

    /// Writes what precedes the body as an element of `DiscoveryResponse.resources`: field 2, `Any{type_url, value}`.
    pub(crate) fn put_sotw_head(&self, out: &mut BytesMut) {
        let url = self.0.kind.type_url();
        put_length(2, any_len(url, self.0.len), out);
        put_any_head(url, self.0.len, out);
    }

    pub(crate) fn sotw_head_len(&self) -> usize {
        let any = any_len(self.0.kind.type_url(), self.0.len);
        1 + encoded_len_varint(any as u64) + any - self.0.len
    }
}

impl PartialEq for Resource {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
            || (self.0.version == other.0.version && self.0.kind == other.0.kind && self.0.name == other.0.name)
    }
}

impl Eq for Resource {}

impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The body may be a private key.
        write!(f, "{} {}@{} ({} bytes)", self.0.kind, self.0.name, self.0.version, self.0.len)
    }
}

/// Writes the key and length of a length-delimited field.
pub(crate) fn put_length(tag: u32, len: usize, out: &mut BytesMut) {
    encode_key(tag, WireType::LengthDelimited, out);
    encode_varint(len as u64, out);
}

/// The encoded size of a length-delimited field with a tag below 16.
pub(crate) fn field_len(len: usize) -> usize {
    1 + encoded_len_varint(len as u64) + len
}

fn any_len(url: &str, body: usize) -> usize {
    field_len(url.len()) + field_len(body)
}

fn put_any_head(url: &str, body: usize, out: &mut BytesMut) {
    put_length(1, url.len(), out);
    out.put_slice(url.as_bytes());
    put_length(2, body, out);
}

fn delta_head(kind: ResourceType, name: &str, version: Version, body: usize) -> Bytes {
    let version = version.to_string();
    let url = kind.type_url();
    let any = any_len(url, body);
    let resource = field_len(version.len()) + field_len(name.len()) + field_len(any);
    let mut out = BytesMut::with_capacity(field_len(resource) - body);
    put_length(2, resource, &mut out);
    put_length(1, version.len(), &mut out);
    out.put_slice(version.as_bytes());
    put_length(3, name.len(), &mut out);
    out.put_slice(name.as_bytes());
    // Last, so that the body follows the head without a gap.
    put_length(2, any, &mut out);
    put_any_head(url, body, &mut out);
    out.freeze()
}

#[cfg(test)]
mod tests {
    use envoy_types::pb::envoy::config::{
        cluster::v3::Cluster, core::v3::TypedExtensionConfig, endpoint::v3::ClusterLoadAssignment,
        listener::v3::Listener, route::v3::RouteConfiguration,
    };
    use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::Secret;
    use prost::Name;

    use super::*;

    #[test]
    fn type_urls_are_those_of_the_protos() {
        assert_eq!(ResourceType::Cluster.type_url(), Cluster::type_url());
        assert_eq!(ResourceType::Endpoints.type_url(), ClusterLoadAssignment::type_url());
        assert_eq!(ResourceType::Secret.type_url(), Secret::type_url());
        assert_eq!(ResourceType::ExtensionConfig.type_url(), TypedExtensionConfig::type_url());
        assert_eq!(ResourceType::Listener.type_url(), Listener::type_url());
        assert_eq!(ResourceType::RouteConfiguration.type_url(), RouteConfiguration::type_url());
        for kind in ResourceType::ALL {
            assert_eq!(ResourceType::from_type_url(kind.type_url()), Some(kind));
        }
        assert_eq!(ResourceType::from_type_url("type.googleapis.com/envoy.config.route.v3.VirtualHost"), None);
    }

    #[test]
    fn a_version_reads_back_what_it_writes_and_nothing_else() {
        let version = Version::from([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255]);
        assert_eq!(version.to_string(), "000102030405060708090a0b0c0d0eff");
        assert_eq!(Version::parse(&version.to_string()), Some(version));
        for text in ["", "1", "zz0102030405060708090a0b0c0d0eff", "+00102030405060708090a0b0c0d0ef"] {
            assert_eq!(Version::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_resource_does_not_print_its_body() {
        let secret = Resource::new(ResourceType::Secret, "ns/cert", [7; 16], Bytes::from_static(b"PRIVATE"));
        assert!(!format!("{secret:?}").contains("PRIVATE"));
    }
}
