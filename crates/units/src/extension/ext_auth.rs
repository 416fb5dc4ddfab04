//! Who judges requests.

use api::gateway_extension::{self, AuthorizationRequest, AuthorizationResponse, HttpService, RequestBody};
use envoy::listener;
use envoy_types::pb::envoy::{
    config::core::v3::{ApiVersion, HeaderValue, HttpUri, RuntimeFeatureFlag, http_uri::HttpUpstreamType},
    extensions::filters::http::ext_authz::v3::{
        AuthorizationRequest as EnvoyRequest, AuthorizationResponse as EnvoyResponse, BufferSettings, ExtAuthz,
        HttpService as EnvoyHttpService, ext_authz::Services,
    },
    r#type::{
        matcher::v3::{
            ListStringMatcher, MetadataMatcher, StringMatcher, ValueMatcher,
            metadata_matcher::{PathSegment, path_segment::Segment},
            string_matcher::MatchPattern,
            value_matcher,
        },
        v3::{HttpStatus, StatusCode},
    },
};
use envoy_types::pb::google::protobuf::BoolValue;
use ir::{Problem, backend::Asked};
use std::time::Duration;
use validate::{Invalid, format, header, path};

use super::{Encoded, Follow, at, grpc_service, host, keeps_route, mutation_rules, problem, retry, timeout};
use crate::spec;

/// How long a judge that speaks HTTP may take, unless it is said, as kgateway has it. Of gRPC Envoy has its own: 200 ms.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Most headers in a list.
const MOST_HEADERS: usize = 64;

/// Judges requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtAuth {
    /// The filter, for all that ask it.
    pub(crate) filter: Encoded,
    /// Who it is.
    pub(crate) asked: Asked,
    /// Whether requests pass that nobody judges.
    pub(crate) fail_open: bool,
}

impl ExtAuth {
    /// What is written.
    pub(super) fn read(written: &gateway_extension::ExtAuth, follow: &mut dyn Follow) -> Result<Self, Problem> {
        keeps_route(written.clear_route_cache, "extAuth.clearRouteCache")?;
        let (services, asked) = match (&written.grpc_service, &written.http_service) {
            (Some(service), None) => {
                let (service, asked) = grpc_service(service, "extAuth.grpcService", follow)?;
                (Services::GrpcService(service), asked)
            }
            (None, Some(service)) => http_service(service, follow)?,
            _ => return Err(problem("extAuth", "it must have exactly one of grpcService and httpService")),
        };
        // In gRPC headers are told, over HTTP they are sent.
        let check = if written.http_service.is_some() { header::copied_name } else { header::name };
        let mut allowed = names(&written.headers_to_forward, "extAuth.headersToForward", check)?;
        // One that asks a Gateway which asks it comes to an end.
        if let (Services::HttpService(_), false) = (&services, allowed.iter().any(|name| name == header::PASSED)) {
            allowed.push(header::PASSED.into());
        }
        // A judge that is told of clients would take a certificate that nobody judged for an identity.
        let tells_of_clients = matches!(services, Services::GrpcService(_));
        let filter = ExtAuthz {
            filter_enabled_metadata: tells_of_clients.then(where_clients_are_judged),
            deny_at_disable: tells_of_clients.then(always),
            transport_api_version: ApiVersion::V3 as i32,
            failure_mode_allow: written.fail_open,
            with_request_body: written
                .with_request_body
                .as_ref()
                .map(|body| buffer(body).map_err(at("extAuth.withRequestBody.maxRequestBytes")))
                .transpose()?,
            status_on_error: Some(HttpStatus { code: status(written.status_on_error)? }),
            stat_prefix: stat_prefix(written.stat_prefix.as_deref(), "extAuth.statPrefix")?,
            allowed_headers: matchers(allowed),
            decoder_header_mutation_rules: Some(mutation_rules()),
            services: Some(services),
            ..ExtAuthz::default()
        };
        Ok(Self { filter: Encoded::new(&filter), asked, fail_open: written.fail_open })
    }
}

/// Does not match where clients are asked for certificates that nobody judges.
fn where_clients_are_judged() -> MetadataMatcher {
    let key = PathSegment { segment: Some(Segment::Key(listener::UNJUDGED_KEY.into())) };
    let value = ValueMatcher { match_pattern: Some(value_matcher::MatchPattern::BoolMatch(true)) };
    MetadataMatcher { filter: listener::UNJUDGED.into(), path: vec![key], value: Some(value), invert: true }
}

fn always() -> RuntimeFeatureFlag {
    RuntimeFeatureFlag {
        default_value: Some(BoolValue { value: true }),
        runtime_key: "portcullis.ext_auth.deny_unjudged".into(),
    }
}

/// A judge that speaks HTTP.
fn http_service(written: &HttpService, follow: &mut dyn Follow) -> Result<(Services, Asked), Problem> {
    let field = "extAuth.httpService";
    let asked = follow.follow(&written.backend_ref, &format!("{field}.backendRef"), false)?;
    let path_prefix = written.path_prefix.as_deref().unwrap_or_default();
    if !path_prefix.is_empty() {
        path::rewrite(path_prefix).map_err(at(&format!("{field}.pathPrefix")))?;
    }
    let cluster = asked.cluster_name();
    let timeout = timeout(written.request_timeout.as_deref(), &format!("{field}.requestTimeout"))?.unwrap_or(TIMEOUT);
    let uri = HttpUri {
        uri: format!("http://{}", host(&asked)),
        timeout: Some(spec::proto_duration(timeout)),
        http_upstream_type: Some(HttpUpstreamType::Cluster(cluster)),
    };
    let service = EnvoyHttpService {
        server_uri: Some(uri),
        path_prefix: path_prefix.into(),
        authorization_request: written.authorization_request.as_ref().map(request).transpose()?,
        authorization_response: written.authorization_response.as_ref().map(response).transpose()?,
        retry_policy: retry(written.retry.as_ref(), "5xx", field)?,
        ..EnvoyHttpService::default()
    };
    Ok((Services::HttpService(service), asked))
}

fn request(written: &AuthorizationRequest) -> Result<EnvoyRequest, Problem> {
    let field = "extAuth.httpService.authorizationRequest.headersToAdd";
    at_most(written.headers_to_add.len(), field)?;
    let headers = written.headers_to_add.iter().map(|(name, value)| {
        let field = format!("{field}[{name}]");
        let key = header::settable_name(name).map_err(at(&field))?;
        header::value(value).map_err(at(&field))?;
        format::text(value).map_err(at(&field))?;
        Ok(HeaderValue { key, value: value.to_string(), ..HeaderValue::default() })
    });
    Ok(EnvoyRequest { headers_to_add: headers.collect::<Result<_, _>>()?, ..EnvoyRequest::default() })
}

fn response(written: &AuthorizationResponse) -> Result<EnvoyResponse, Problem> {
    let field = "extAuth.httpService.authorizationResponse";
    let to_client =
        |list: &[Box<str>], name: &str| names(list, &format!("{field}.{name}"), header::settable_name).map(matchers);
    let to_backend = names(&written.headers_to_backend, &format!("{field}.headersToBackend"), header::client_name)?;
    Ok(EnvoyResponse {
        allowed_upstream_headers: matchers(to_backend),
        allowed_client_headers: to_client(&written.headers_to_client, "headersToClient")?,
        allowed_client_headers_on_success: to_client(
            &written.headers_to_client_on_success,
            "headersToClientOnSuccess",
        )?,
        ..EnvoyResponse::default()
    })
}

fn at_most(count: usize, field: &str) -> Result<(), Problem> {
    if count <= MOST_HEADERS {
        return Ok(());
    }
    Err(problem(field, format!("it has {count} entries, and {MOST_HEADERS} are the most; leave some out")))
}

/// Names of headers, in lower case.
fn names(list: &[Box<str>], field: &str, name: fn(&str) -> Result<String, Invalid>) -> Result<Vec<String>, Problem> {
    at_most(list.len(), field)?;
    let read = list.iter().enumerate().map(|(index, written)| name(written).map_err(at(&format!("{field}[{index}]"))));
    read.collect()
}

/// What matches these names; none where there are none.
fn matchers(names: Vec<String>) -> Option<ListStringMatcher> {
    let patterns: Vec<_> = names
        .into_iter()
        .map(|name| StringMatcher { match_pattern: Some(MatchPattern::Exact(name)), ignore_case: true })
        .collect();
    (!patterns.is_empty()).then_some(ListStringMatcher { patterns })
}

/// Envoy refuses what it has no name for, and cannot answer what is below 200.
fn status(written: i32) -> Result<i32, Problem> {
    let known = StatusCode::try_from(written).is_ok() && written >= 200;
    known.then_some(written).ok_or_else(|| {
        let message =
            format!("\"{written}\" is not a status that Envoy has a name for; use one such as 401, 403, 500 or 503");
        problem("extAuth.statusOnError", message)
    })
}

/// Most bytes of a body that a judge sees: a proxy keeps them for each request.
const MOST_BODY: i64 = 16 << 20;

/// How much of a request a judge sees.
pub(crate) fn buffer(written: &RequestBody) -> Result<BufferSettings, Invalid> {
    let RequestBody { max_request_bytes, allow_partial_message, pack_as_bytes } = *written;
    let bytes = u32::try_from(max_request_bytes).ok().filter(|bytes| *bytes > 0 && max_request_bytes <= MOST_BODY);
    let max_request_bytes = bytes.ok_or_else(|| {
        let why = "it is not a number of bytes that a proxy keeps for each request";
        Invalid::new(&max_request_bytes.to_string(), why, format!("use 1 to {MOST_BODY}"))
    })?;
    Ok(BufferSettings { max_request_bytes, allow_partial_message, pack_as_bytes })
}

/// Longest prefix of a counter's name.
const LONGEST_PREFIX: usize = 128;

/// What tells counters apart.
pub(super) fn stat_prefix(written: Option<&str>, field: &str) -> Result<String, Problem> {
    let Some(written) = written else { return Ok(String::new()) };
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if written.is_empty() || written.len() > LONGEST_PREFIX || !written.chars().all(is_name) {
        let message = format!(
            "{:?} is not one to {LONGEST_PREFIX} letters, digits, dashes, underscores and dots; write such",
            validate::shown(written)
        );
        return Err(problem(field, message));
    }
    Ok(written.into())
}
