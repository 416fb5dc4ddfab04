//! HTTPRoute.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};

use crate::{
    compact::exact,
    honoured::{Honoured, RefusedField},
    meta::CustomResource,
    schema::{Schema, Spec, rules::Broken},
    shared::{Duration, FilteredBackendRef, GatewayDefaultScope, ParentReference, SessionPersistence},
};

mod filter;
mod honoured;
pub(super) mod rules;
mod schema;

pub use filter::*;

/// Routes HTTP requests to backends.
pub type HttpRoute = CustomResource<HttpRouteSpec>;

/// What the owner of an HTTPRoute wants.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpRouteSpec {
    /// What the route wants to be attached to.
    #[serde(default, deserialize_with = "exact", skip_serializing_if = "Vec::is_empty")]
    pub parent_refs: Vec<ParentReference>,
    /// Whether it also attaches to default Gateways.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub use_default_gateways: Option<GatewayDefaultScope>,
    /// Hosts it serves; empty for those of the listener.
    #[serde(default, deserialize_with = "exact", skip_serializing_if = "Vec::is_empty")]
    pub hostnames: Vec<Arc<str>>,
    /// Rules; without any, one that matches everything and has no backend.
    #[serde(default = "one_rule", deserialize_with = "exact")]
    pub rules: Vec<HttpRouteRule>,
}

impl Default for HttpRouteSpec {
    fn default() -> Self {
        Self { parent_refs: Vec::new(), use_default_gateways: None, hostnames: Vec::new(), rules: one_rule() }
    }
}

impl Spec for HttpRouteSpec {
    const SCHEMA: Schema = Schema::of(&schema::SPEC);
    const HONOURED: Honoured = honoured::HONOURED;

    fn check(&self, broken: &mut Broken) {
        rules::check(self, broken);
    }

    fn refused(&self) -> Vec<RefusedField> {
        self.refused_fields()
    }
}

fn one_rule() -> Vec<HttpRouteRule> {
    vec![HttpRouteRule::default()]
}

/// What to do with the requests that match.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpRouteRule {
    /// Name, unique in the route.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Arc<str>>,
    /// Conditions, any of which suffices. Never empty after decoding: an empty list means the prefix `/` (Gateway API),
    /// and is decoded to just that.
    #[serde(default = "all", deserialize_with = "matches_or_all")]
    pub matches: Vec<HttpRouteMatch>,
    /// What is done to a request and its response, in this order.
    #[serde(default, deserialize_with = "exact", skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<HttpRouteFilter>,
    /// Where requests go, by weight.
    #[serde(default, deserialize_with = "exact", skip_serializing_if = "Vec::is_empty")]
    pub backend_refs: Vec<HttpBackendRef>,
    /// Time limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeouts: Option<HttpRouteTimeouts>,
    /// When to try again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<HttpRouteRetry>,
    /// How sessions keep their backend.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_persistence: Option<Box<SessionPersistence>>,
}

impl Default for HttpRouteRule {
    fn default() -> Self {
        Self {
            name: None,
            matches: all(),
            filters: Vec::new(),
            backend_refs: Vec::new(),
            timeouts: None,
            retry: None,
            session_persistence: None,
        }
    }
}

fn matches_or_all<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<HttpRouteMatch>, D::Error> {
    let matches = exact(deserializer)?;
    Ok(if matches.is_empty() { all() } else { matches })
}

fn all() -> Vec<HttpRouteMatch> {
    vec![HttpRouteMatch::default()]
}

/// Conditions on a request, all of which must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HttpRouteMatch {
    /// On the path.
    pub path: HttpPathMatch,
    /// On headers. Of several for one name (whatever its case) only the first counts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<HttpHeaderMatch>,
    /// On query parameters. Of several for one name only the first counts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub query_params: Vec<HttpQueryParamMatch>,
    /// On the method.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<HttpMethod>,
}

/// A condition on the path.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpPathMatch {
    /// How to compare.
    #[serde(default)]
    pub r#type: PathMatchType,
    /// With what.
    #[serde(default = "root")]
    pub value: Box<str>,
}

impl Default for HttpPathMatch {
    fn default() -> Self {
        Self { r#type: PathMatchType::default(), value: root() }
    }
}

fn root() -> Box<str> {
    "/".into()
}

open_enum! {
    /// How a path is compared.
    pub enum PathMatchType {
        /// Equal.
        Exact = "Exact",
        /// Begins with, by whole segments.
        PathPrefix = "PathPrefix",
        /// Matched by a regular expression.
        RegularExpression = "RegularExpression",
    }
    default PathPrefix;
}

/// A condition on a header.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HttpHeaderMatch {
    /// How to compare.
    pub r#type: HeaderMatchType,
    /// The header, in any case.
    pub name: Box<str>,
    /// With what.
    pub value: Box<str>,
}

open_enum! {
    /// How a header is compared.
    pub enum HeaderMatchType {
        /// Equal.
        Exact = "Exact",
        /// Matched by a regular expression.
        RegularExpression = "RegularExpression",
    }
    default Exact;
}

/// A condition on a query parameter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HttpQueryParamMatch {
    /// How to compare.
    pub r#type: QueryParamMatchType,
    /// The parameter, in this case.
    pub name: Box<str>,
    /// With what.
    pub value: Box<str>,
}

open_enum! {
    /// How a query parameter is compared.
    pub enum QueryParamMatchType {
        /// Equal.
        Exact = "Exact",
        /// Matched by a regular expression.
        RegularExpression = "RegularExpression",
    }
    default Exact;
}

open_enum! {
    /// A method that routes match.
    pub enum HttpMethod {
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
    }
}

/// A backend of a rule.
pub type HttpBackendRef = FilteredBackendRef<HttpRouteFilter>;

/// Time limits of a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HttpRouteTimeouts {
    /// For the whole exchange; `0s` for no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<Duration>,
    /// For one attempt at a backend.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend_request: Option<Duration>,
}

/// When a request is tried again (GEP-1731).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HttpRouteRetry {
    /// After these status codes, 400 to 599.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub codes: Vec<i64>,
    /// At most this often.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<i64>,
    /// Not before this long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Duration>,
}
