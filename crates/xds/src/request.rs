//! The requests of the two protocols, read from the wire with bounds.
//!
//! Only the fields that matter here are read; a node's metadata, for example, is skipped without being kept.

use std::fmt;

use bytes::{Buf, Bytes};
use prost::DecodeError;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

use crate::limits::Limits;

/// Who asks (`envoy.config.core.v3.Node`), as it claims.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// `node.id`.
    pub id: String,
    /// `node.cluster`.
    pub cluster: String,
    /// `node.user_agent_build_version`, of a client that reports that it is an Envoy, and its version.
    pub envoy: Option<EnvoyVersion>,
}

/// What an Envoy was built from (`envoy.type.v3.SemanticVersion`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct EnvoyVersion {
    /// 1, so far.
    pub major: u32,
    /// A new one four times a year.
    pub minor: u32,
    /// What is mended since.
    pub patch: u32,
}

impl fmt::Display for EnvoyVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// `envoy.service.discovery.v3.DeltaDiscoveryRequest`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeltaRequest {
    /// Who asks; need not be repeated after the first message.
    pub node: Option<Node>,
    /// The resource type.
    pub type_url: String,
    /// Names that are subscribed to from now on; `*` for all.
    pub subscribe: Vec<String>,
    /// Names no longer of interest.
    pub unsubscribe: Vec<String>,
    /// What the client has from an earlier stream: name and version.
    pub initial_versions: Vec<(String, String)>,
    /// The nonce of the response that this acknowledges or rejects; empty if it does neither.
    pub nonce: String,
    /// Set if and only if that response was rejected: the client's error.
    pub error: Option<String>,
}

/// `envoy.service.discovery.v3.DiscoveryRequest`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SotwRequest {
    /// Who asks; need not be repeated after the first message.
    pub node: Option<Node>,
    /// The resource type.
    pub type_url: String,
    /// All names of interest.
    pub names: Vec<String>,
    /// The version last accepted, of an earlier stream too. Responses are matched by nonce.
    pub version: String,
    /// The nonce of the last response that the client saw; empty before the first.
    pub nonce: String,
    /// Set if and only if that response was rejected: the client's error.
    pub error: Option<String>,
}

/// Why a request cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ParseError {
    /// It is not the message it should be.
    #[error("malformed request: {0}")]
    Malformed(#[from] DecodeError),
    /// It is larger than [`Limits`] allows.
    #[error("the request holds more than {limit} {what}")]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// How much is allowed.
        limit: usize,
    },
}

/// The longest text that is kept of a client's error, in bytes.
const MAX_ERROR: usize = 512;
/// What Envoy begins a message with that it prints, on the same line or the next.
const QUOTED: &str = "goo.gle/debug";
/// The longest node field, type URL or nonce. Envoy's own are far shorter.
const MAX_FIELD: usize = 4096;

impl DeltaRequest {
    /// Reads a request, with the bounds of `limits` on the names in it.
    pub fn parse(mut message: Bytes, limits: &Limits) -> Result<Self, ParseError> {
        let mut request = Self::default();
        // A client that reconnects sends every name twice: that it wants it, and that it has it.
        let (mut budget, mut initial) = (Budget::new(limits), Budget::new(limits));
        while message.has_remaining() {
            let (tag, wire) = decode_key(&mut message)?;
            match (tag, wire) {
                (1, WireType::LengthDelimited) => request.node = Some(node(field(&mut message)?)?),
                (2, WireType::LengthDelimited) => request.type_url = short_text(&mut message)?,
                (3, WireType::LengthDelimited) => request.subscribe.push(budget.name(&mut message)?),
                (4, WireType::LengthDelimited) => request.unsubscribe.push(budget.name(&mut message)?),
                (5, WireType::LengthDelimited) => {
                    let entry = initial_version(field(&mut message)?, &mut initial)?;
                    request.initial_versions.push(entry);
                }
                (6, WireType::LengthDelimited) => request.nonce = short_text(&mut message)?,
                (7, WireType::LengthDelimited) => request.error = Some(error(field(&mut message)?)?),
                _ => skip_field(wire, tag, &mut message, DecodeContext::default())?,
            }
        }
        Ok(request)
    }
}

impl SotwRequest {
    /// Reads a request, with the bounds of `limits` on the names in it.
    pub fn parse(mut message: Bytes, limits: &Limits) -> Result<Self, ParseError> {
        let mut request = Self::default();
        let mut budget = Budget::new(limits);
        while message.has_remaining() {
            let (tag, wire) = decode_key(&mut message)?;
            match (tag, wire) {
                (1, WireType::LengthDelimited) => request.version = short_text(&mut message)?,
                (2, WireType::LengthDelimited) => request.node = Some(node(field(&mut message)?)?),
                (3, WireType::LengthDelimited) => request.names.push(budget.name(&mut message)?),
                (4, WireType::LengthDelimited) => request.type_url = short_text(&mut message)?,
                (5, WireType::LengthDelimited) => request.nonce = short_text(&mut message)?,
                (6, WireType::LengthDelimited) => request.error = Some(error(field(&mut message)?)?),
                _ => skip_field(wire, tag, &mut message, DecodeContext::default())?,
            }
        }
        Ok(request)
    }
}

/// What is left of the bounds on names while one request is read.
struct Budget {
    names: usize,
    bytes: usize,
    limits: Limits,
}

impl Budget {
    fn new(limits: &Limits) -> Self {
        Self { names: limits.names_per_type, bytes: limits.name_bytes_per_type, limits: *limits }
    }

    fn name(&mut self, message: &mut Bytes) -> Result<String, ParseError> {
        let name = field(message)?;
        self.names = self
            .names
            .checked_sub(1)
            .ok_or(ParseError::TooLarge { what: "names", limit: self.limits.names_per_type })?;
        self.bytes = self
            .bytes
            .checked_sub(name.len())
            .ok_or(ParseError::TooLarge { what: "bytes of names", limit: self.limits.name_bytes_per_type })?;
        text(&name)
    }
}

/// Takes the content of a length-delimited field.
fn field(message: &mut Bytes) -> Result<Bytes, ParseError> {
    let len = decode_varint(message)?;
    match usize::try_from(len) {
        Ok(len) if len <= message.remaining() => Ok(message.split_to(len)),
        _ => Err(malformed()),
    }
}

/// The error that prost gives for a message that ends too early; prost offers no way to make one.
fn malformed() -> ParseError {
    match decode_varint(&mut Bytes::new()) {
        Err(error) => ParseError::Malformed(error),
        Ok(_) => ParseError::TooLarge { what: "bytes", limit: 0 },
    }
}

fn text(bytes: &Bytes) -> Result<String, ParseError> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Err(malformed()),
    }
}

fn short_text(message: &mut Bytes) -> Result<String, ParseError> {
    let bytes = field(message)?;
    if bytes.len() > MAX_FIELD {
        return Err(ParseError::TooLarge { what: "bytes in one field", limit: MAX_FIELD });
    }
    text(&bytes)
}

fn node(mut message: Bytes) -> Result<Node, ParseError> {
    let mut node = Node::default();
    let (mut agent, mut version) = (String::new(), None);
    while message.has_remaining() {
        let (tag, wire) = decode_key(&mut message)?;
        match (tag, wire) {
            (1, WireType::LengthDelimited) => node.id = short_text(&mut message)?,
            (2, WireType::LengthDelimited) => node.cluster = short_text(&mut message)?,
            (6, WireType::LengthDelimited) => agent = short_text(&mut message)?,
            (8, WireType::LengthDelimited) => version = build_version(field(&mut message)?)?,
            _ => skip_field(wire, tag, &mut message, DecodeContext::default())?,
        }
    }
    node.envoy = version.filter(|_| agent == "envoy");
    Ok(node)
}

/// The number in an `envoy.config.core.v3.BuildVersion`, if there is one.
fn build_version(mut message: Bytes) -> Result<Option<EnvoyVersion>, ParseError> {
    let mut version = None;
    while message.has_remaining() {
        let (tag, wire) = decode_key(&mut message)?;
        match (tag, wire) {
            (1, WireType::LengthDelimited) => version = Some(semantic_version(field(&mut message)?)?),
            _ => skip_field(wire, tag, &mut message, DecodeContext::default())?,
        }
    }
    Ok(version)
}

fn semantic_version(mut message: Bytes) -> Result<EnvoyVersion, ParseError> {
    let mut version = EnvoyVersion::default();
    while message.has_remaining() {
        let (tag, wire) = decode_key(&mut message)?;
        let number = match (tag, wire) {
            (1, WireType::Varint) => &mut version.major,
            (2, WireType::Varint) => &mut version.minor,
            (3, WireType::Varint) => &mut version.patch,
            _ => {
                skip_field(wire, tag, &mut message, DecodeContext::default())?;
                continue;
            }
        };
        *number = u32::try_from(decode_varint(&mut message)?).unwrap_or(u32::MAX);
    }
    Ok(version)
}

/// An entry of `initial_resource_versions`.
fn initial_version(mut message: Bytes, budget: &mut Budget) -> Result<(String, String), ParseError> {
    let (mut name, mut version) = (None, String::new());
    while message.has_remaining() {
        let (tag, wire) = decode_key(&mut message)?;
        match (tag, wire) {
            (1, WireType::LengthDelimited) => name = Some(budget.name(&mut message)?),
            (2, WireType::LengthDelimited) => version = short_text(&mut message)?,
            _ => skip_field(wire, tag, &mut message, DecodeContext::default())?,
        }
    }
    Ok((name.unwrap_or_default(), version))
}

/// The message of a `google.rpc.Status`, fit to be shown: its first line, cut, without control characters. In the lines
/// behind it Envoy quotes the resource that it refused, with what others wrote into it.
fn error(mut message: Bytes) -> Result<String, ParseError> {
    let mut words = String::new();
    while message.has_remaining() {
        let (tag, wire) = decode_key(&mut message)?;
        match (tag, wire) {
            (2, WireType::LengthDelimited) => {
                let bytes = field(&mut message)?;
                // Envoy may quote bytes of the configuration here, and the cut may fall inside a character.
                let text = String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_ERROR)]);
                let own = text.split(QUOTED).next().unwrap_or_default();
                words = printable(own.lines().find(|line| !line.is_empty()).unwrap_or_default(), MAX_ERROR);
            }
            _ => skip_field(wire, tag, &mut message, DecodeContext::default())?,
        }
    }
    Ok(words)
}

/// A client's text, as it may stand in logs and statuses: without control characters, and `max` bytes at most.
pub(crate) fn printable(text: &str, max: usize) -> String {
    let clean = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut printable = String::with_capacity(text.len().min(max));
    for c in clean {
        if printable.len() + c.len_utf8() > max {
            break;
        }
        printable.push(c);
    }
    printable
}

#[cfg(test)]
mod tests {
    use core::node::UserAgentVersionType;
    use envoy_types::pb::envoy::config::core::v3 as core;
    use envoy_types::pb::envoy::service::discovery::v3 as discovery;
    use envoy_types::pb::envoy::r#type::v3::SemanticVersion;
    use envoy_types::pb::google::rpc;
    use prost::Message;

    use super::*;

    const VERSION: EnvoyVersion = EnvoyVersion { major: 1, minor: 40, patch: 2 };

    fn built_from(major_number: u32, minor_number: u32, patch: u32) -> core::BuildVersion {
        core::BuildVersion { version: Some(SemanticVersion { major_number, minor_number, patch }), metadata: None }
    }

    #[test]
    fn the_version_is_known_of_an_envoy_that_says_it() {
        let envoy = |node: &core::Node| node_of(node).envoy;
        assert_eq!(envoy(&envoy_node()), Some(VERSION));
        let named = |name: &str| core::Node { user_agent_name: name.into(), ..envoy_node() };
        assert_eq!(["", "Envoy", "gRPC C-core"].map(|name| envoy(&named(name))), [None; 3]);
        let saying = |version| core::Node { user_agent_version_type: version, ..envoy_node() };
        let nothing = core::BuildVersion::default();
        assert_eq!(envoy(&saying(None)), None);
        assert_eq!(envoy(&saying(Some(UserAgentVersionType::UserAgentBuildVersion(nothing)))), None);
        assert_eq!(envoy(&saying(Some(UserAgentVersionType::UserAgentVersion("1.2".into())))), None);
        assert!(VERSION < EnvoyVersion { minor: 41, patch: 0, ..VERSION });
        assert_eq!(VERSION.to_string(), "1.40.2");
    }

    fn node_of(message: &core::Node) -> Node {
        node(message.encode_to_vec().into()).expect("a valid node")
    }

    fn envoy_node() -> core::Node {
        core::Node {
            id: "envoy-1".into(),
            cluster: "infra/edge".into(),
            user_agent_name: "envoy".into(),
            user_agent_version_type: Some(UserAgentVersionType::UserAgentBuildVersion(built_from(1, 40, 2))),
            locality: Some(core::Locality { zone: "a".into(), ..Default::default() }),
            ..Default::default()
        }
    }

    #[test]
    fn a_delta_request_is_read_as_its_proto_says() {
        let message = discovery::DeltaDiscoveryRequest {
            node: Some(envoy_node()),
            type_url: "t".into(),
            resource_names_subscribe: vec!["a".into(), "*".into()],
            resource_names_unsubscribe: vec!["b".into()],
            initial_resource_versions: [("c".to_owned(), "1".to_owned())].into(),
            response_nonce: "7".into(),
            error_detail: Some(rpc::Status { code: 13, message: "no".into(), ..Default::default() }),
            resource_locators_subscribe: vec![discovery::ResourceLocator::default()],
            ..Default::default()
        };
        let request = DeltaRequest::parse(message.encode_to_vec().into(), &Limits::default()).expect("a valid request");
        let expected = DeltaRequest {
            node: Some(Node { id: "envoy-1".into(), cluster: "infra/edge".into(), envoy: Some(VERSION) }),
            type_url: "t".into(),
            subscribe: vec!["a".into(), "*".into()],
            unsubscribe: vec!["b".into()],
            initial_versions: vec![("c".into(), "1".into())],
            nonce: "7".into(),
            error: Some("no".into()),
        };
        assert_eq!(request, expected);
    }

    #[test]
    fn a_state_of_the_world_request_is_read_as_its_proto_says() {
        let message = discovery::DiscoveryRequest {
            version_info: "v".into(),
            node: Some(envoy_node()),
            resource_names: vec!["a".into(), "b".into()],
            type_url: "t".into(),
            response_nonce: "7".into(),
            error_detail: Some(rpc::Status::default()),
            ..Default::default()
        };
        let request = SotwRequest::parse(message.encode_to_vec().into(), &Limits::default()).expect("a valid request");
        let expected = SotwRequest {
            node: Some(Node { id: "envoy-1".into(), cluster: "infra/edge".into(), envoy: Some(VERSION) }),
            type_url: "t".into(),
            names: vec!["a".into(), "b".into()],
            version: "v".into(),
            nonce: "7".into(),
            error: Some(String::new()),
        };
        assert_eq!(request, expected);
    }

    #[test]
    fn more_names_than_allowed_are_refused_while_they_are_read() {
        let limits = Limits { names_per_type: 2, name_bytes_per_type: 10, ..Limits::default() };
        let request = |names: &[&str]| {
            let message = discovery::DeltaDiscoveryRequest {
                resource_names_subscribe: names.iter().map(|&name| name.to_owned()).collect(),
                ..Default::default()
            };
            DeltaRequest::parse(message.encode_to_vec().into(), &limits)
        };
        assert!(request(&["a", "b"]).is_ok());
        assert!(matches!(request(&["a", "b", "c"]), Err(ParseError::TooLarge { what: "names", limit: 2 })));
        assert!(matches!(request(&["abcdefghijk"]), Err(ParseError::TooLarge { limit: 10, .. })));
    }

    #[test]
    fn bytes_that_are_no_request_are_refused() {
        for bytes in [&b"\xff"[..], b"\x1a\x7f", b"\x1a\x01\xff", b"\x0a\x02\x0a\x09"] {
            let bytes = Bytes::copy_from_slice(bytes);
            assert!(matches!(DeltaRequest::parse(bytes.clone(), &Limits::default()), Err(ParseError::Malformed(_))));
        }
    }

    #[test]
    fn a_long_error_is_cut() {
        let message = discovery::DiscoveryRequest {
            error_detail: Some(rpc::Status { message: "é".repeat(10_000), ..Default::default() }),
            ..Default::default()
        };
        let request = SotwRequest::parse(message.encode_to_vec().into(), &Limits::default()).expect("a valid request");
        let error = request.error.expect("an error");
        assert!(error.starts_with("éé") && error.len() <= MAX_ERROR + 4);
    }

    #[test]
    fn of_what_envoy_says_the_first_line_is_kept() {
        for end in ["\n", "\r\n", "goo.gle/debugonly  ", "goo.gle/debugstr \n"] {
            let text = format!("Unable to unpack as T: {end}  name: \"http/80\"{end}  virtual_hosts {{{end}");
            let message = discovery::DeltaDiscoveryRequest {
                error_detail: Some(rpc::Status { message: text, ..Default::default() }),
                ..Default::default()
            };
            let request = DeltaRequest::parse(message.encode_to_vec().into(), &Limits::default()).expect("valid");
            assert_eq!(request.error.as_deref(), Some("Unable to unpack as T: "));
        }
    }

    #[test]
    fn an_error_holds_no_more_than_it_may_and_nothing_that_moves_a_cursor() {
        for text in ["\u{1b}[31mred\r\nand more\u{202e}", &"\u{1b}".repeat(10_000)] {
            let message = discovery::DeltaDiscoveryRequest {
                error_detail: Some(rpc::Status { message: text.to_owned(), ..Default::default() }),
                ..Default::default()
            };
            let request = DeltaRequest::parse(message.encode_to_vec().into(), &Limits::default()).expect("valid");
            let error = request.error.expect("an error");
            assert!(error.len() <= MAX_ERROR && !error.contains(char::is_control), "{error:?}");
        }
        // `Status.message` (2) with bytes that are no text: each of them takes three to show.
        let mut status = vec![0x12, 0xff, 0x3f];
        status.extend([0xff; 0x1fff]);
        let words = error(status.into()).expect("a status");
        assert!(words.len() <= MAX_ERROR, "{}", words.len());
    }

    #[test]
    fn a_client_that_has_all_it_may_ask_for_can_come_back() {
        let limits = Limits { names_per_type: 2, name_bytes_per_type: 2, ..Limits::default() };
        let request = |names: &[&str]| {
            let message = discovery::DeltaDiscoveryRequest {
                resource_names_subscribe: names.iter().map(|&name| name.into()).collect(),
                initial_resource_versions: names.iter().map(|&name| (name.into(), "1".into())).collect(),
                ..Default::default()
            };
            DeltaRequest::parse(message.encode_to_vec().into(), &limits)
        };
        assert!(request(&["a", "b"]).is_ok());
        let message = discovery::DeltaDiscoveryRequest {
            initial_resource_versions: ["a", "b", "c"].map(|name| (name.to_owned(), "1".to_owned())).into(),
            ..Default::default()
        };
        assert!(DeltaRequest::parse(message.encode_to_vec().into(), &limits).is_err());
    }
}
