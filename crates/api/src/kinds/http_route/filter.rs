//! Filters of an HTTPRoute.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::shared::{BackendObjectReference, Fraction, LocalObjectReference, PortNumber};

/// Something that is done to a request or a response.
///
/// As in the CRD a type and one optional member for each type, so that a member which does not fit the type shows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HttpRouteFilter {
    /// Which member counts.
    pub r#type: HttpRouteFilterType,
    /// For [`HttpRouteFilterType::RequestHeaderModifier`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_header_modifier: Option<Box<HttpHeaderFilter>>,
    /// For [`HttpRouteFilterType::ResponseHeaderModifier`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_header_modifier: Option<Box<HttpHeaderFilter>>,
    /// For [`HttpRouteFilterType::RequestMirror`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_mirror: Option<Box<HttpRequestMirrorFilter>>,
    /// For [`HttpRouteFilterType::RequestRedirect`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_redirect: Option<Box<HttpRequestRedirectFilter>>,
    /// For [`HttpRouteFilterType::UrlRewrite`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url_rewrite: Option<Box<HttpUrlRewriteFilter>>,
    /// For [`HttpRouteFilterType::Cors`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cors: Option<Box<HttpCorsFilter>>,
    /// For [`HttpRouteFilterType::ExternalAuth`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_auth: Option<Box<HttpExternalAuthFilter>>,
    /// For [`HttpRouteFilterType::ExtensionRef`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extension_ref: Option<Box<LocalObjectReference>>,
}

open_enum! {
    /// What a filter does.
    pub enum HttpRouteFilterType {
        /// Changes headers of the request.
        RequestHeaderModifier = "RequestHeaderModifier",
        /// Changes headers of the response.
        ResponseHeaderModifier = "ResponseHeaderModifier",
        /// Sends a copy of the request to another backend too.
        RequestMirror = "RequestMirror",
        /// Answers with a redirect.
        RequestRedirect = "RequestRedirect",
        /// Changes host or path of the request.
        UrlRewrite = "URLRewrite",
        /// What another object says.
        ExtensionRef = "ExtensionRef",
        /// Answers cross-origin questions.
        Cors = "CORS",
        /// Asks a server whether the request may pass.
        ExternalAuth = "ExternalAuth",
    }
}

/// Changes of headers: `remove` and `set` replace what is there, `add` comes beside it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HttpHeaderFilter {
    /// Headers to overwrite.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<HttpHeader>,
    /// Headers to append.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub add: Vec<HttpHeader>,
    /// Headers to remove, in any case.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remove: Vec<Box<str>>,
}

/// A header and its value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HttpHeader {
    /// Name, in any case.
    pub name: Box<str>,
    /// Value.
    pub value: Box<str>,
}

/// Sends copies of requests to another backend, whose answers are dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HttpRequestMirrorFilter {
    /// Where copies go.
    pub backend_ref: BackendObjectReference,
    /// Share of requests that are copied, 0 to 100; not with `fraction`. With neither all are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percent: Option<i32>,
    /// Share of requests that are copied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fraction: Option<Fraction>,
}

/// Answers with a redirect; what is not set is taken from the request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HttpRequestRedirectFilter {
    /// Scheme.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheme: Option<Scheme>,
    /// Host, without wildcard.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<Arc<str>>,
    /// Path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<HttpPathModifier>,
    /// Port; without it that of the scheme if one is set, else that of the listener.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<PortNumber>,
    /// Status code: 301, 302, 303, 307 or 308; by default 302.
    pub status_code: i64,
}

impl Default for HttpRequestRedirectFilter {
    fn default() -> Self {
        Self { scheme: None, hostname: None, path: None, port: None, status_code: 302 }
    }
}

open_enum! {
    /// Scheme of a redirect.
    pub enum Scheme {
        /// Clear text.
        Http = "http",
        /// TLS.
        Https = "https",
    }
}

/// Changes host or path of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HttpUrlRewriteFilter {
    /// Host, without wildcard.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<Arc<str>>,
    /// Path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<HttpPathModifier>,
}

/// A change of a path, with one optional member for each type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HttpPathModifier {
    /// Which member counts.
    pub r#type: HttpPathModifierType,
    /// For [`HttpPathModifierType::ReplaceFullPath`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replace_full_path: Option<Box<str>>,
    /// For [`HttpPathModifierType::ReplacePrefixMatch`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replace_prefix_match: Option<Box<str>>,
}

open_enum! {
    /// How a path is changed.
    pub enum HttpPathModifierType {
        /// As a whole.
        ReplaceFullPath = "ReplaceFullPath",
        /// The prefix that matched.
        ReplacePrefixMatch = "ReplacePrefixMatch",
    }
}

/// Answers cross-origin questions (GEP-1767).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HttpCorsFilter {
    /// Origins that may ask: scheme, host with or without `*`, port; or `*` alone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow_origins: Vec<Box<str>>,
    /// Whether requests may carry credentials; none is no.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_credentials: Option<bool>,
    /// Methods that may be used, or `*` alone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow_methods: Vec<HttpMethodWithWildcard>,
    /// Headers that may be sent, or `*` alone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow_headers: Vec<Box<str>>,
    /// Headers that may be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub expose_headers: Vec<Box<str>>,
    /// How long the answer may be kept, in seconds; at least 1, by default 5.
    pub max_age: i32,
}

impl Default for HttpCorsFilter {
    fn default() -> Self {
        Self {
            allow_origins: Vec::new(),
            allow_credentials: None,
            allow_methods: Vec::new(),
            allow_headers: Vec::new(),
            expose_headers: Vec::new(),
            max_age: 5,
        }
    }
}

open_enum! {
    /// A method that a CORS filter allows.
    pub enum HttpMethodWithWildcard {
        /// GET.
        Get = "GET",
        /// HEAD.
        Head = "HEAD",
        /// POST.
        Post = "POST",
        /// PUT.
        Put = "PUT",
        /// DELETE.
        Delete = "DELETE",
        /// CONNECT.
        Connect = "CONNECT",
        /// OPTIONS.
        Options = "OPTIONS",
        /// TRACE.
        Trace = "TRACE",
        /// PATCH.
        Patch = "PATCH",
        /// Every method.
        Any = "*",
    }
}

/// Asks a server whether a request may pass (GEP-1494).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HttpExternalAuthFilter {
    /// How to ask.
    pub protocol: HttpRouteExternalAuthProtocol,
    /// Whom to ask.
    pub backend_ref: BackendObjectReference,
    /// For [`HttpRouteExternalAuthProtocol::Grpc`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grpc: Option<GrpcAuthConfig>,
    /// For [`HttpRouteExternalAuthProtocol::Http`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpAuthConfig>,
    /// Whether the server sees the body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forward_body: Option<ForwardBodyConfig>,
}

open_enum! {
    /// How an authorisation server is asked.
    pub enum HttpRouteExternalAuthProtocol {
        /// By HTTP.
        Http = "HTTP",
        /// By Envoy's gRPC protocol.
        Grpc = "GRPC",
    }
}

/// Settings of authorisation by gRPC.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GrpcAuthConfig {
    /// Headers that the server sees; all if empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allowed_headers: Vec<Box<str>>,
}

/// Settings of authorisation by HTTP.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HttpAuthConfig {
    /// Prefix of the path that is asked for.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub path: Box<str>,
    /// Headers that the server sees beside the usual ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allowed_headers: Vec<Box<str>>,
    /// Headers of the server's answer that the backend sees.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allowed_response_headers: Vec<Box<str>>,
}

/// How much of the body an authorisation server sees.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ForwardBodyConfig {
    /// In bytes, 65,535 at most; a longer body is refused. 0 for nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_size: Option<i64>,
}
