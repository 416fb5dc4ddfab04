//! What processes requests and responses.

use serde::{Deserialize, Serialize};

use super::GrpcService;

/// Processes requests and responses: a service of Envoy's processing protocol.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExtProc {
    /// The service.
    pub grpc_service: GrpcService,
    /// Whether requests pass that nobody processes.
    pub fail_open: bool,
    /// What it is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processing_mode: Option<ProcessingMode>,
    /// How long it may take for each message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_timeout: Option<Box<str>>,
    /// The longest that it may ask for itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_message_timeout: Option<Box<str>>,
    /// Tells counters apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stat_prefix: Option<Box<str>>,
    /// Whether the route is chosen anew with the headers that it changed.
    pub route_cache_action: RouteCacheAction,
    /// Which metadata it sees and says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata_options: Option<MetadataOptions>,
    /// Attributes of requests that it sees.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub request_attributes: Vec<Box<str>>,
    /// Whether it may say itself what it is sent.
    pub allow_processing_mode_override: bool,
    /// What it may say then; anything unless set.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allowed_processing_mode_overrides: Vec<ProcessingMode>,
    /// Where it stands among other filters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter_stage: Option<FilterStage>,
}

impl Default for ExtProc {
    fn default() -> Self {
        Self {
            grpc_service: GrpcService::default(),
            fail_open: true,
            processing_mode: None,
            message_timeout: None,
            max_message_timeout: None,
            stat_prefix: None,
            route_cache_action: RouteCacheAction::FromResponse,
            metadata_options: None,
            request_attributes: Vec::new(),
            allow_processing_mode_override: false,
            allowed_processing_mode_overrides: Vec::new(),
            filter_stage: None,
        }
    }
}

/// What a processor is sent.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ProcessingMode {
    /// The headers of requests.
    pub request_header_mode: HeaderMode,
    /// The headers of responses.
    pub response_header_mode: HeaderMode,
    /// The bodies of requests.
    pub request_body_mode: BodyMode,
    /// The bodies of responses.
    pub response_body_mode: BodyMode,
    /// The trailers of requests.
    pub request_trailer_mode: HeaderMode,
    /// The trailers of responses.
    pub response_trailer_mode: HeaderMode,
}

impl Default for ProcessingMode {
    fn default() -> Self {
        Self {
            request_header_mode: HeaderMode::Send,
            response_header_mode: HeaderMode::Send,
            request_body_mode: BodyMode::None,
            response_body_mode: BodyMode::None,
            request_trailer_mode: HeaderMode::Skip,
            response_trailer_mode: HeaderMode::Skip,
        }
    }
}

open_enum! {
    /// Whether headers or trailers are sent.
    pub enum HeaderMode {
        /// As Envoy has it: headers are, trailers are not.
        Default = "DEFAULT",
        /// They are.
        Send = "SEND",
        /// They are not.
        Skip = "SKIP",
    }
    default Default;
}

open_enum! {
    /// How a body is sent.
    pub enum BodyMode {
        /// Not at all.
        None = "NONE",
        /// Piece by piece.
        Streamed = "STREAMED",
        /// As a whole.
        Buffered = "BUFFERED",
        /// As much as fits.
        BufferedPartial = "BUFFERED_PARTIAL",
        /// Piece by piece, and what comes back is on its own.
        FullDuplexStreamed = "FULL_DUPLEX_STREAMED",
    }
    default None;
}

open_enum! {
    /// Whether a route is chosen anew.
    pub enum RouteCacheAction {
        /// If the processor says so.
        FromResponse = "FromResponse",
        /// Whenever headers were changed.
        Clear = "Clear",
        /// Never.
        Retain = "Retain",
    }
    default FromResponse;
}

/// Which metadata a processor sees.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MetadataOptions {
    /// What goes with requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forwarding: Option<MetadataNamespaces>,
}

/// Namespaces of metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MetadataNamespaces {
    /// Of metadata with types.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub typed: Option<Vec<Box<str>>>,
    /// Of metadata without.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub untyped: Option<Vec<Box<str>>>,
}

/// Where a processor stands among other filters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FilterStage {
    /// A stage of filters.
    pub stage: Stage,
    /// Whether it stands before, among or behind these.
    pub predicate: Predicate,
    /// Among processors of one place the greater comes first.
    pub weight: i32,
}

open_enum! {
    /// A stage of filters.
    pub enum Stage {
        /// Faults.
        Fault = "Fault",
        /// Who asks.
        AuthN = "AuthN",
        /// Who may.
        AuthZ = "AuthZ",
        /// How often.
        RateLimit = "RateLimit",
        /// The last.
        Route = "Route",
    }
}

open_enum! {
    /// How a filter stands to those of a stage.
    pub enum Predicate {
        /// In front of all of them.
        Before = "Before",
        /// Behind them, and still one of them.
        During = "During",
        /// Behind all of them.
        After = "After",
    }
    default During;
}
