//! Deterministic encoding: equal messages have equal bytes, on every replica and in every run.
//!
//! `envoy-types` keeps protobuf maps in `HashMap`, whose order is random, so a message is never encoded with more than
//! one entry in a map field. Everything that has maps is encoded with those fields empty ([`Fields::of`]) and its
//! entries are appended in the order of their keys ([`Fields::map`]); protobuf reads a message as the concatenation of
//! its fields, whatever their order.
//!
//! The same property composes a virtual host from its encoded routes, and a route configuration from its encoded
//! virtual hosts, without looking into either. Their versions are hashes over the parts' hashes, and large parts are
//! shared, not copied ([`Body`]), so that assembling costs 16 hashed bytes a part and a copy of what is small.

use std::{fmt::Write as _, sync::Arc};

use bytes::{BufMut, Bytes};
use envoy_types::pb::{
    envoy::config::route::v3::{RouteConfiguration, VirtualHost},
    google::protobuf::Any,
};
use ir::rule::Slot;
use prost::{Message, Name, encoding::encode_varint};

use crate::{
    body::{Body, Joiner, SHARED},
    resource::Encoded,
};

pub mod alike;
pub mod readable;
#[cfg(test)]
mod tests;

pub use alike::Alike;
pub use readable::Unreadable;

/// A 128-bit content hash.
pub type Hash = [u8; 16];

/// BLAKE3 over the chunks' concatenation, cut to 128 bits. Chunks of one length each, or a single one, leave no doubt
/// where one ends.
pub fn version<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Hash {
    let mut hasher = blake3::Hasher::new();
    for chunk in chunks {
        hasher.update(chunk);
    }
    let mut hash = Hash::default();
    hasher.finalize_xof().fill(&mut hash);
    hash
}

/// The first half of a hash, as text for names: 16 digits.
pub fn short_name(hash: &Hash) -> String {
    hash[..8].iter().fold(String::with_capacity(16), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// An encoded route, which Envoy can read where it stands in a virtual host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The message, without tag and length.
    pub bytes: Bytes,
    /// Its content hash.
    pub hash: Hash,
}

impl Row {
    /// A row whose hash is over its bytes; none of what would take the virtual hosts around it away from everybody.
    pub fn new(bytes: impl Into<Bytes>) -> Result<Self, Unreadable> {
        let bytes = bytes.into();
        readable::route(&bytes)?;
        let hash = version([&*bytes]);
        Ok(Self { bytes, hash })
    }
}

impl Encoded {
    /// A resource whose version is over its bytes.
    pub fn new(body: impl Into<Bytes>) -> Self {
        let body = body.into();
        Self { version: version([&*body]), body: body.into(), ends: false }
    }

    /// Why Envoy could not read it, if so. It would refuse all that is sent along.
    pub fn readable(&self) -> Result<(), Unreadable> {
        match self.body.head() {
            // Made of parts, each of which was judged.
            Some(head) if self.body.len() >= SHARED => {
                readable::resource(head)?;
                readable::composed(self.body.len())
            }
            _ => readable::resource(&self.body.to_bytes()),
        }
    }
}

/// A virtual host in pieces, so that its bytes are copied at most once: into the route configuration, if they are few.
///
/// Two are equal if their hashes are.
#[derive(Clone, Debug)]
pub struct Host {
    pieces: Arc<[Bytes]>,
    len: usize,
    hash: Hash,
}

impl Host {
    /// How long the encoded virtual host is.
    #[allow(clippy::len_without_is_empty, reason = "a virtual host has a name, so it is never empty")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Its content hash.
    pub fn hash(&self) -> &Hash {
        &self.hash
    }

    /// The encoded `envoy.config.route.v3.VirtualHost` in one piece.
    pub fn to_bytes(&self) -> Bytes {
        self.pieces.concat().into()
    }
}

impl PartialEq for Host {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash
    }
}

impl Eq for Host {}

impl Host {
    /// One that no tenant had a word in, in a route configuration that says this for its rows.
    pub(crate) fn new(host: &VirtualHost, alike: &Alike) -> Self {
        let off: Vec<_> = alike.off().collect();
        let bytes = with_slots(host, tag::VIRTUAL_HOST_TYPED_PER_FILTER_CONFIG, &off);
        Self { len: bytes.len(), hash: version([&*bytes]), pieces: Arc::new([bytes.into()]) }
    }
}

/// Routes as they stand in a virtual host, which is made from any number of such pieces, in a route configuration that says
/// this for them.
pub fn routes<'a>(rows: impl Iterator<Item = &'a Row>, alike: &Alike) -> Bytes {
    let rows: Vec<_> = rows.map(|row| alike.row(row)).collect();
    let length = rows.iter().map(|row| field_len(tag::VIRTUAL_HOST_ROUTES, row.len())).sum();
    let mut buffer = Vec::with_capacity(length);
    for row in rows {
        delimited(&mut buffer, tag::VIRTUAL_HOST_ROUTES, &row);
    }
    debug_assert_eq!(buffer.len(), length);
    buffer.into()
}

/// The virtual host of pieces made by [`routes`], each with the hashes of its routes, in the order in which they are
/// tried. How routes are split into pieces changes neither bytes nor hash. `slots` hold for all of it that says nothing of
/// the same; the pieces were made with `alike`.
pub fn virtual_host<'a>(
    name: &str,
    domains: &[String],
    slots: &[Slot],
    alike: &Alike,
    routes: impl IntoIterator<Item = (Bytes, &'a [Hash])>,
) -> Host {
    let head = VirtualHost { name: name.into(), domains: domains.to_vec(), ..VirtualHost::default() };
    let off: Vec<_> = slots.iter().cloned().chain(alike.off()).collect();
    let head = with_slots(&head, tag::VIRTUAL_HOST_TYPED_PER_FILTER_CONFIG, &off);
    // Gathered first: hashing is several times as fast on one long piece as on many short ones.
    let mut hashes = version([&*head]).to_vec();
    // The routes' hashes are those of what they say by themselves.
    hashes.extend_from_slice(alike.part());
    let mut pieces = vec![head.into()];
    for (piece, of_routes) in routes {
        hashes.extend_from_slice(of_routes.as_flattened());
        pieces.push(piece);
    }
    Host { len: pieces.iter().map(Bytes::len).sum(), hash: version([&*hashes]), pieces: pieces.into() }
}

/// Virtual hosts as they stand in a route configuration, which is made from any number of such pieces.
pub fn hosts<'a>(hosts: impl Iterator<Item = &'a Host>) -> Body {
    joined(tag::ROUTE_CONFIGURATION_VIRTUAL_HOSTS, hosts.map(|host| (host.pieces.clone(), host.len)).collect())
}

/// Messages in pieces, of this length each, as fields of this number.
pub(crate) fn joined(tag: u32, messages: Vec<(Arc<[Bytes]>, usize)>) -> Body {
    let len = messages.iter().map(|(_, len)| field_len(tag, *len)).sum();
    Body::composed(len, Bytes::new(), move || {
        let besides = messages.iter().map(|(_, len)| field_len(tag, *len) - len).sum();
        let mut joiner = Joiner::with_room(messages.iter().flat_map(|(pieces, _)| &**pieces), besides);
        for (pieces, len) in &messages {
            key_and_len(joiner.buffer(), tag, *len);
            pieces.iter().for_each(|piece| joiner.push(piece));
        }
        joiner
    })
}

/// A resource of encoded fields, with fields in pieces between them. How those are split into pieces changes no byte; `content`
/// tells them from others: their hashes, or one of all of them, which may be one of a set where they say themselves how they are
/// sorted.
pub(crate) fn composed(
    before: impl Into<Bytes>,
    fields: impl IntoIterator<Item = Body>,
    after: impl Into<Bytes>,
    content: &[Hash],
) -> Encoded {
    let (before, after) = (before.into(), after.into());
    let hashes = [&version([&*before, &after])[..], content.as_flattened()].concat();
    let fields: Vec<_> = fields.into_iter().collect();
    let len = before.len() + fields.iter().map(Body::len).sum::<usize>() + after.len();
    let head = [&*before, &after].concat();
    let body = Body::composed(len, head.into(), move || {
        let parts = || fields.iter().flat_map(|body| &**body.pieces());
        let mut joiner = Joiner::with_room(parts(), before.len() + after.len());
        joiner.buffer().extend_from_slice(&before);
        parts().for_each(|part| joiner.push(part));
        joiner.buffer().extend_from_slice(&after);
        joiner
    });
    Encoded { version: version([&*hashes]), body, ends: false }
}

/// The route configuration of pieces made by [`hosts`]. How virtual hosts are split into pieces changes no byte; `content`
/// tells these virtual hosts from others: their hashes, or one of all of them. Each has its name in it, by which they are
/// sorted, so that it may be one of a set.
///
/// The port in a request's host counts for nothing when a virtual host is chosen (Gateway API, `Hostname`), yet it is
/// passed on. `slots` hold for all of it that says nothing of the same.
pub fn route_configuration(
    name: &str,
    slots: &[Slot],
    hosts: impl IntoIterator<Item = Body>,
    content: &[Hash],
) -> Encoded {
    let head =
        RouteConfiguration { name: name.into(), ignore_port_in_host_matching: true, ..RouteConfiguration::default() };
    composed(with_slots(&head, tag::ROUTE_CONFIGURATION_TYPED_PER_FILTER_CONFIG, slots), hosts, Bytes::new(), content)
}

/// An encoded message with slots of the filter chain in its field `tag`.
fn with_slots(message: &impl Message, tag: u32, slots: &[Slot]) -> Vec<u8> {
    Fields::of(message).map(tag, slots.iter().map(|slot| (slot.name, &slot.config))).into_bytes()
}

/// The length of a length-delimited field, its key and length included.
fn field_len(tag: u32, body: usize) -> usize {
    prost::length_delimiter_len(key_of(tag)) + prost::length_delimiter_len(body) + body
}

/// Numbers of the fields that are appended by hand.
pub(crate) mod tag {
    pub(crate) const VIRTUAL_HOST_ROUTES: u32 = 3;
    pub(crate) const VIRTUAL_HOST_TYPED_PER_FILTER_CONFIG: u32 = 15;
    pub(crate) const ROUTE_CONFIGURATION_VIRTUAL_HOSTS: u32 = 2;
    pub(crate) const ROUTE_CONFIGURATION_TYPED_PER_FILTER_CONFIG: u32 = 16;
    pub(crate) const ROUTE_DIRECT_RESPONSE: u32 = 7;
    pub(crate) const DIRECT_RESPONSE_BODY_FORMAT: u32 = 3;
    pub(crate) const FORMAT_JSON_FORMAT: u32 = 2;
    pub(crate) const ROUTE_TYPED_PER_FILTER_CONFIG: u32 = 13;
    pub(crate) const ROUTE_TRACING: u32 = 15;
    pub(crate) const CLUSTER_TYPED_EXTENSION_PROTOCOL_OPTIONS: u32 = 36;
    pub(crate) const STREAM_ACCESS_LOG_LOG_FORMAT: u32 = 1;
    pub(crate) const LOG_FORMAT_JSON_FORMAT: u32 = 2;
    pub(crate) const LISTENER_FILTER_CHAINS: u32 = 3;
    pub(crate) const FILTER_CHAIN_FILTERS: u32 = 3;
    pub(crate) const FILTER_NAME: u32 = 1;
    pub(crate) const FILTER_TYPED_CONFIG: u32 = 4;
    pub(crate) const ANY_TYPE_URL: u32 = 1;
    pub(crate) const ANY_VALUE: u32 = 2;
}

/// Key of a length-delimited field.
fn key_of(tag: u32) -> usize {
    (tag as usize) << 3 | 2
}

/// A message as a field of this number, of which these bytes are the beginning and `rest` more follow.
pub(crate) fn begun(tag: u32, beginning: &[u8], rest: usize) -> Vec<u8> {
    let len = beginning.len() + rest;
    let mut buffer = Vec::with_capacity(field_len(tag, len) - rest);
    key_and_len(&mut buffer, tag, len);
    buffer.extend_from_slice(beginning);
    buffer
}

fn delimited(buffer: &mut Vec<u8>, tag: u32, body: &[u8]) {
    key_and_len(buffer, tag, body.len());
    buffer.extend_from_slice(body);
}

/// Key and length of a length-delimited field.
fn key_and_len(buffer: &mut impl BufMut, tag: u32, body: usize) {
    encode_varint(key_of(tag) as u64, buffer);
    encode_varint(body as u64, buffer);
}

/// A message under construction, as the fields that were encoded so far.
#[derive(Clone, Debug, Default)]
pub struct Fields(Vec<u8>);

impl Fields {
    /// The fields of a message whose map fields, at every depth, have one entry at most.
    pub fn of(message: &impl Message) -> Self {
        Self(message.encode_to_vec())
    }

    /// Appends a message field.
    pub fn message(mut self, tag: u32, body: &[u8]) -> Self {
        delimited(&mut self.0, tag, body);
        self
    }

    /// Appends a map field from strings to messages, its entries sorted by key.
    pub fn map<'a, V: AsRef<[u8]>>(mut self, tag: u32, entries: impl IntoIterator<Item = (&'a str, V)>) -> Self {
        let mut entries: Vec<_> = entries.into_iter().collect();
        entries.sort_unstable_by_key(|(key, _)| *key);
        let body = |key: &str, value: &[u8]| field_len(1, key.len()) + field_len(2, value.len());
        let all = entries.iter().map(|(key, value)| field_len(tag, body(key, value.as_ref())));
        self.0.reserve_exact(all.sum());
        for (key, value) in &entries {
            let value = value.as_ref();
            key_and_len(&mut self.0, tag, body(key, value));
            delimited(&mut self.0, 1, key.as_bytes());
            delimited(&mut self.0, 2, value);
        }
        self
    }

    /// The encoded message, without spare room: it stays as long as its resource.
    pub fn into_bytes(mut self) -> Vec<u8> {
        self.0.shrink_to_fit();
        self.0
    }

    /// The message packed as an `Any` of type `M`.
    pub fn into_any<M: Name>(self) -> Any {
        Any { type_url: M::type_url(), value: self.0 }
    }
}

/// Packs a message whose map fields have one entry at most.
pub fn any<M: Message + Name>(message: &M) -> Any {
    Fields::of(message).into_any::<M>()
}

/// An encoded `google.protobuf.Struct` of a JSON object, its fields sorted by name at every depth; of anything else an
/// empty one.
pub fn json_structure(json: &serde_json::Value) -> Vec<u8> {
    let fields = json.as_object().into_iter().flatten();
    Fields::default().map(1, fields.map(|(name, value)| (name.as_str(), json_value(value)))).into_bytes()
}

/// An encoded `google.protobuf.Value`.
fn json_value(json: &serde_json::Value) -> Vec<u8> {
    let mut buffer = Vec::new();
    match json {
        serde_json::Value::Null => buffer.extend([1 << 3, 0]),
        serde_json::Value::Number(number) => {
            buffer.push(2 << 3 | 1);
            buffer.extend_from_slice(&number.as_f64().unwrap_or_default().to_le_bytes());
        }
        serde_json::Value::String(text) => delimited(&mut buffer, 3, text.as_bytes()),
        serde_json::Value::Bool(yes) => buffer.extend([4 << 3, u8::from(*yes)]),
        serde_json::Value::Object(_) => delimited(&mut buffer, 5, &json_structure(json)),
        serde_json::Value::Array(list) => {
            let mut values = Vec::new();
            for value in list {
                delimited(&mut values, 1, &json_value(value));
            }
            delimited(&mut buffer, 6, &values);
        }
    }
    buffer
}
