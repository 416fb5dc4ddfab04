//! Who processes requests and responses.

use api::gateway_extension::{self, BodyMode, FilterStage, HeaderMode, Predicate, RouteCacheAction, Stage};
use envoy::slots;
use envoy_types::pb::envoy::extensions::filters::http::ext_proc::v3::{
    ExternalProcessor, MetadataOptions, ProcessingMode,
    external_processor::RouteCacheAction as EnvoyCacheAction,
    metadata_options::MetadataNamespaces,
    processing_mode::{BodySendMode, HeaderSendMode},
};
use ir::{Problem, backend::Asked};

use super::{Encoded, Follow, ext_auth::stat_prefix, grpc_service, keeps_route, mutation_rules, problem, timeout};
use crate::spec;

/// Most attributes, or namespaces, in a list.
const MOST: usize = 64;

/// Processes requests and responses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtProc {
    /// The filter, for all that ask it.
    pub(crate) filter: Encoded,
    /// Who it is.
    pub(crate) asked: Asked,
    /// The slots in which it can stand: one, or at the usual place several.
    pub(crate) places: &'static [&'static str],
    /// Among those of one place the greater comes first.
    pub(crate) weight: i32,
}

impl ExtProc {
    /// What is written.
    pub(super) fn read(written: &gateway_extension::ExtProc, follow: &mut dyn Follow) -> Result<Self, Problem> {
        keeps_route(written.route_cache_action == RouteCacheAction::Clear, "extProc.routeCacheAction")?;
        let (service, asked) = grpc_service(&written.grpc_service, "extProc.grpcService", follow)?;
        let sent = |written: &gateway_extension::ProcessingMode, field: &str| {
            mode(written).map_err(|message| problem(field, message))
        };
        if written.allow_processing_mode_override && written.allowed_processing_mode_overrides.is_empty() {
            let message = "the processor could ask for any mode, also for one that could fill a proxy; name those that it may ask \
                           for in allowedProcessingModeOverrides";
            return Err(problem("extProc.allowProcessingModeOverride", message));
        }
        let allowed = written.allowed_processing_mode_overrides.iter().enumerate();
        let allowed =
            allowed.map(|(index, mode)| sent(mode, &format!("extProc.allowedProcessingModeOverrides[{index}]")));
        let at = |text: &Option<Box<str>>, name: &str| {
            Ok(timeout(text.as_deref(), &format!("extProc.{name}"))?.map(spec::proto_duration))
        };
        let forwarded = written.metadata_options.as_ref().and_then(|options| options.forwarding.as_ref());
        let namespaces = forwarded.map(|of| {
            let list = |list: &Option<Vec<Box<str>>>, name: &str| {
                let list = list.as_deref().unwrap_or_default();
                texts(list, &format!("extProc.metadataOptions.forwarding.{name}"), |text| {
                    !text.is_empty() && text.len() <= 256 && text.chars().all(|c| c.is_ascii_graphic())
                })
            };
            Ok(MetadataNamespaces { untyped: list(&of.untyped, "untyped")?, typed: list(&of.typed, "typed")? })
        });
        let filter = ExternalProcessor {
            grpc_service: Some(service),
            failure_mode_allow: written.fail_open,
            processing_mode: written
                .processing_mode
                .as_ref()
                .map(|mode| sent(mode, "extProc.processingMode"))
                .transpose()?,
            request_attributes: texts(&written.request_attributes, "extProc.requestAttributes", is_attribute)?,
            message_timeout: at(&written.message_timeout, "messageTimeout")?,
            max_message_timeout: at(&written.max_message_timeout, "maxMessageTimeout")?,
            stat_prefix: stat_prefix(written.stat_prefix.as_deref(), "extProc.statPrefix")?,
            mutation_rules: Some(mutation_rules()),
            allow_mode_override: written.allow_processing_mode_override,
            allowed_override_modes: allowed.collect::<Result<_, _>>()?,
            // Also where its answer asks for another: see `keeps_route`.
            route_cache_action: EnvoyCacheAction::Retain as i32,
            metadata_options: namespaces.transpose()?.map(|forwarding_namespaces| MetadataOptions {
                forwarding_namespaces: Some(forwarding_namespaces),
                ..MetadataOptions::default()
            }),
            ..ExternalProcessor::default()
        };
        let stage = written.filter_stage.as_ref();
        let places = places(stage).map_err(|message| problem("extProc.filterStage", message))?;
        let weight = stage.map_or(0, |stage| stage.weight);
        Ok(Self { filter: Encoded::new(&filter), asked, places, weight })
    }
}

/// The slots of a place.
fn places(stage: Option<&FilterStage>) -> Result<&'static [&'static str], String> {
    let Some(FilterStage { stage, predicate, .. }) = stage else { return Ok(&slots::EXT_PROC_RBAC) };
    let place = match (stage, predicate) {
        (Stage::Fault, Predicate::Before) => &slots::EXT_PROC_START,
        (Stage::Fault, Predicate::During) => &slots::EXT_PROC_FAULT,
        (Stage::Fault, Predicate::After) | (Stage::AuthN, Predicate::Before) => &slots::EXT_PROC_ACL,
        (Stage::AuthN, Predicate::During) => &slots::EXT_PROC_EXT_AUTH,
        (Stage::AuthN, Predicate::After) | (Stage::AuthZ, Predicate::Before) => &slots::EXT_PROC_JWT_AUTH,
        (Stage::AuthZ, Predicate::During | Predicate::After) | (Stage::RateLimit, Predicate::Before) => {
            return Ok(&slots::EXT_PROC_RBAC);
        }
        (Stage::RateLimit, Predicate::During | Predicate::After) => &slots::EXT_PROC_RATE_LIMIT,
        (Stage::Route, Predicate::Before) => &slots::EXT_PROC_TRANSFORMATION,
        (Stage::Route, Predicate::During) => &slots::EXT_PROC_CSRF,
        (Stage::Route, Predicate::After) => {
            return Err("After Route there is no filter of a route; use Before or During, or another stage".into());
        }
        _ => return Err(format!("{predicate} {stage} is no place that is known; use one that the schema names")),
    };
    Ok(std::slice::from_ref(place))
}

/// What a processor is sent.
pub(crate) fn mode(written: &gateway_extension::ProcessingMode) -> Result<ProcessingMode, String> {
    let header = |mode: &HeaderMode, name: &str| match mode {
        HeaderMode::Default => Ok(HeaderSendMode::Default as i32),
        HeaderMode::Send => Ok(HeaderSendMode::Send as i32),
        HeaderMode::Skip => Ok(HeaderSendMode::Skip as i32),
        HeaderMode::Unknown(_) => Err(format!("{name} must be DEFAULT, SEND or SKIP; correct it")),
    };
    let body = |mode: &BodyMode, name: &str| match mode {
        BodyMode::None => Ok(BodySendMode::None as i32),
        BodyMode::Streamed => Ok(BodySendMode::Streamed as i32),
        BodyMode::Buffered => Ok(BodySendMode::Buffered as i32),
        BodyMode::BufferedPartial => Ok(BodySendMode::BufferedPartial as i32),
        // As measured in Envoy 1.40: 1.5 GB in four seconds, of one request.
        BodyMode::FullDuplexStreamed => Err(format!(
            "{name} FULL_DUPLEX_STREAMED is not served: Envoy takes whatever a processor sends, also while nobody reads it, so \
             that one request could fill a proxy; use STREAMED"
        )),
        BodyMode::Unknown(_) => Err(format!("{name} must be NONE, STREAMED, BUFFERED or BUFFERED_PARTIAL; correct it")),
    };
    Ok(ProcessingMode {
        request_header_mode: header(&written.request_header_mode, "requestHeaderMode")?,
        response_header_mode: header(&written.response_header_mode, "responseHeaderMode")?,
        request_body_mode: body(&written.request_body_mode, "requestBodyMode")?,
        response_body_mode: body(&written.response_body_mode, "responseBodyMode")?,
        request_trailer_mode: header(&written.request_trailer_mode, "requestTrailerMode")?,
        response_trailer_mode: header(&written.response_trailer_mode, "responseTrailerMode")?,
    })
}

/// Attributes of Envoy begin with one of these.
const ROOTS: [&str; 8] =
    ["request", "response", "source", "destination", "connection", "upstream", "metadata", "filter_state"];

/// Whether a text is an attribute by its names alone: Envoy reads an expression, and refuses all where that is none.
fn is_attribute(text: &str) -> bool {
    let is_name = |name: &str| {
        !name.is_empty()
            && name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    text.len() <= 256
        && text.split('.').all(is_name)
        && text.split('.').next().is_some_and(|root| ROOTS.contains(&root))
}

/// A list of texts.
fn texts(list: &[Box<str>], field: &str, is_fit: fn(&str) -> bool) -> Result<Vec<String>, Problem> {
    if list.len() > MOST {
        let message = format!("it has {} entries, and {MOST} are the most; leave some out", list.len());
        return Err(problem(field, message));
    }
    if let Some((index, text)) = list.iter().enumerate().find(|(_, text)| !is_fit(text)) {
        let message = format!(
            "{:?} is no name that is known here, such as request.path; correct or remove it",
            validate::shown(text)
        );
        return Err(problem(&format!("{field}[{index}]"), message));
    }
    Ok(list.iter().map(ToString::to_string).collect())
}
