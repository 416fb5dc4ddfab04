//! GatewayExtension: a provider that policies ask.

mod ext_proc;
mod jwt;
mod oauth2;
mod rules;
mod schema;

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    honoured::{Affects, Refused, RefusedField},
    meta::CustomResource,
    schema::{Schema, Spec, rules::Broken},
    shared::BackendRef,
};

pub use ext_proc::{
    BodyMode, ExtProc, FilterStage, HeaderMode, MetadataNamespaces, MetadataOptions, Predicate, ProcessingMode,
    RouteCacheAction, Stage,
};
pub use jwt::{
    AsyncFetch, ClaimToHeader, ConfigMapName, HeaderSource, JwksSource, Jwt, JwtProvider, JwtRetry, LocalJwks,
    RemoteJwks, TokenSource, ValidationMode,
};
pub use oauth2::{
    CookieNames, Cookies, Credentials, DenyRedirect, HeaderMatch, OAuth2, OAuth2Jwt, ParsedToken, SecretName,
};

/// A provider that policies ask: who judges, counts or processes requests, or whose tokens are taken.
pub type GatewayExtension = CustomResource<GatewayExtensionSpec>;

/// One of the five is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GatewayExtensionSpec {
    /// What an older release asked for. It says nothing that the other fields do not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub r#type: Option<Box<str>>,
    /// Judges requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ext_auth: Option<Box<ExtAuth>>,
    /// Processes requests and responses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ext_proc: Option<Box<ExtProc>>,
    /// Counts requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<Box<RateLimit>>,
    /// Makes tokens that are taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jwt: Option<Box<Jwt>>,
    /// Logs people in.
    #[serde(skip_serializing_if = "Option::is_none", rename = "oauth2")]
    pub oauth2: Option<Box<OAuth2>>,
    /// Where fields stand that are set and that this release has never heard of, such as `spec.jwt.providers[0].audience`,
    /// sorted. One of them may be one that protects something.
    #[serde(skip)]
    pub unknown: Box<[Box<str>]>,
}

/// A gRPC service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GrpcService {
    /// Where it is.
    pub backend_ref: BackendRef,
    /// The `:authority` of calls; `NAME.NAMESPACE` of the Service unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authority: Option<Box<str>>,
    /// How long a call may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_timeout: Option<Box<str>>,
    /// How calls are tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
}

/// How calls are tried again.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Retry {
    /// How often.
    pub attempts: i32,
    /// How long is waited between.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Backoff>,
}

impl Default for Retry {
    fn default() -> Self {
        Self { attempts: 1, backoff: None }
    }
}

/// How long is waited between attempts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Backoff {
    /// At first.
    pub base_interval: Box<str>,
    /// At most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_interval: Option<Box<str>>,
}

/// Judges requests: an `ext_authz` service of gRPC or HTTP.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExtAuth {
    /// A service of Envoy's authorization protocol; or `http_service`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grpc_service: Option<GrpcService>,
    /// A service that answers 200 where a request may pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_service: Option<HttpService>,
    /// Whether requests pass that nobody judges.
    pub fail_open: bool,
    /// Whether the route is chosen anew with the headers of the answer.
    pub clear_route_cache: bool,
    /// The headers of a request that the service sees.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub headers_to_forward: Vec<Box<str>>,
    /// How much of a request the service sees.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub with_request_body: Option<RequestBody>,
    /// What is answered where nobody judges.
    pub status_on_error: i32,
    /// Tells counters apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stat_prefix: Option<Box<str>>,
}

impl Default for ExtAuth {
    fn default() -> Self {
        Self {
            grpc_service: None,
            http_service: None,
            fail_open: false,
            clear_route_cache: false,
            headers_to_forward: Vec::new(),
            with_request_body: None,
            status_on_error: 403,
            stat_prefix: None,
        }
    }
}

/// How much of a request a judge sees.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RequestBody {
    /// Bytes at most.
    pub max_request_bytes: i64,
    /// Whether it sees the first bytes of one that is larger, which is refused otherwise.
    pub allow_partial_message: bool,
    /// Whether it gets bytes, and no text.
    pub pack_as_bytes: bool,
}

/// A judge that speaks HTTP.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HttpService {
    /// Where it is.
    pub backend_ref: BackendRef,
    /// What stands before the path of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_prefix: Option<Box<str>>,
    /// How long it may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_timeout: Option<Box<str>>,
    /// What it is told besides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authorization_request: Option<AuthorizationRequest>,
    /// Who sees what of its answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authorization_response: Option<AuthorizationResponse>,
    /// How it is asked again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
}

/// What a judge is told besides.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AuthorizationRequest {
    /// Headers, each with a value in Envoy's format.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers_to_add: BTreeMap<Box<str>, Box<str>>,
}

/// Who sees what of a judge's answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AuthorizationResponse {
    /// Headers that the backend sees where the request passes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub headers_to_backend: Vec<Box<str>>,
    /// Headers that the client sees where it does not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub headers_to_client: Vec<Box<str>>,
    /// Headers that the client sees where it does.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub headers_to_client_on_success: Vec<Box<str>>,
}

/// Counts requests: a service of Envoy's rate limit protocol.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RateLimit {
    /// The service.
    pub grpc_service: GrpcService,
    /// Whose limits these are.
    pub domain: Box<str>,
    /// Whether requests pass that nobody counts.
    pub fail_open: bool,
    /// How long it may take to count a request.
    pub timeout: Box<str>,
    /// Which headers tell clients of their limits.
    pub x_rate_limit_headers: XRateLimitHeaders,
}

impl Default for RateLimit {
    fn default() -> Self {
        Self {
            grpc_service: GrpcService::default(),
            domain: Box::default(),
            fail_open: true,
            timeout: "100ms".into(),
            x_rate_limit_headers: XRateLimitHeaders::Off,
        }
    }
}

open_enum! {
    /// Which headers tell clients of their limits.
    pub enum XRateLimitHeaders {
        /// None.
        Off = "Off",
        /// Those of the third draft of an RFC.
        DraftVersion03 = "DraftVersion03",
    }
    default Off;
}

/// Names a GatewayExtension.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ExtensionReference {
    /// Name.
    pub name: Arc<str>,
    /// Namespace; none for that of the policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Arc<str>>,
}

impl Spec for GatewayExtensionSpec {
    const SCHEMA: Schema = Schema::of(&schema::SPEC).refuses_unknown();

    fn check(&self, broken: &mut Broken) {
        rules::check(self, broken);
    }

    fn refused(&self) -> Vec<RefusedField> {
        let mut refused = Refused::default();
        for path in &self.unknown {
            refused.add(true, || path.to_string(), Affects::Object, UNKNOWN);
        }
        refused.0
    }

    fn set_unknown(&mut self, mut paths: Vec<Box<str>>) {
        paths.sort_unstable();
        self.unknown = paths.into();
    }

    /// That a field is there which nobody knows is kept, and refused.
    fn keeps(&self, path: &str) -> bool {
        self.unknown.binary_search_by(|unknown| (**unknown).cmp(path)).is_ok()
    }
}

const UNKNOWN: &str =
    "no such field is known here, and one that is left out could be one that protects: correct its name, or remove it";

impl GatewayExtensionSpec {
    /// The member that is set; the first of several.
    pub fn member(&self) -> Option<&'static str> {
        self.members().into_iter().find_map(|(name, set)| set.then_some(name))
    }

    fn members(&self) -> [(&'static str, bool); 5] {
        [
            ("extAuth", self.ext_auth.is_some()),
            ("extProc", self.ext_proc.is_some()),
            ("rateLimit", self.rate_limit.is_some()),
            ("jwt", self.jwt.is_some()),
            ("oauth2", self.oauth2.is_some()),
        ]
    }
}

#[cfg(test)]
mod tests;
