//! GRPCRoute.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    compact::exact,
    honoured::{Honoured, RefusedField},
    http_route::{
        HttpBackendRef, HttpHeaderFilter, HttpHeaderMatch, HttpRequestMirrorFilter, HttpRouteFilter,
        HttpRouteFilterType,
    },
    meta::CustomResource,
    schema::{Schema, Spec, rules::Broken},
    shared::{FilteredBackendRef, GatewayDefaultScope, LocalObjectReference, ParentReference, SessionPersistence},
};

mod honoured;
mod rules;
mod schema;

/// Routes gRPC requests to backends.
pub type GrpcRoute = CustomResource<GrpcRouteSpec>;

/// What the owner of a GRPCRoute wants.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GrpcRouteSpec {
    /// What the route wants to be attached to.
    #[serde(deserialize_with = "exact", skip_serializing_if = "Vec::is_empty")]
    pub parent_refs: Vec<ParentReference>,
    /// Whether it also attaches to default Gateways.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub use_default_gateways: Option<GatewayDefaultScope>,
    /// Hosts it serves; empty for those of the listener.
    #[serde(deserialize_with = "exact", skip_serializing_if = "Vec::is_empty")]
    pub hostnames: Vec<Arc<str>>,
    /// Rules; without any it takes no request.
    #[serde(deserialize_with = "exact", skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<GrpcRouteRule>,
}

impl Spec for GrpcRouteSpec {
    const SCHEMA: Schema = Schema::of(&schema::SPEC);
    const HONOURED: Honoured = honoured::HONOURED;

    fn check(&self, broken: &mut Broken) {
        rules::check(self, broken);
    }

    fn refused(&self) -> Vec<RefusedField> {
        self.refused_fields()
    }
}

/// What to do with the requests that match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GrpcRouteRule {
    /// Name, unique in the route.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<Arc<str>>,
    /// Conditions, any of which suffices; without any, every gRPC request.
    #[serde(deserialize_with = "exact", skip_serializing_if = "Vec::is_empty")]
    pub matches: Vec<GrpcRouteMatch>,
    /// What is done to a request and its response, in this order.
    #[serde(deserialize_with = "exact", skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<GrpcRouteFilter>,
    /// Where requests go, by weight.
    #[serde(deserialize_with = "exact", skip_serializing_if = "Vec::is_empty")]
    pub backend_refs: Vec<GrpcBackendRef>,
    /// How sessions keep their backend.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_persistence: Option<Box<SessionPersistence>>,
}

/// Conditions on a request, all of which must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GrpcRouteMatch {
    /// On service and method; without it, every method of every service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<GrpcMethodMatch>,
    /// On headers. Of several for one name (whatever its case) only the first counts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<GrpcHeaderMatch>,
}

/// A condition on service and method, of which at least one is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GrpcMethodMatch {
    /// How both are compared.
    pub r#type: GrpcMethodMatchType,
    /// The service; none or an empty one for every service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<Box<str>>,
    /// The method; none or an empty one for every method.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<Box<str>>,
}

open_enum! {
    /// How service and method are compared.
    pub enum GrpcMethodMatchType {
        /// Equal.
        Exact = "Exact",
        /// Matched by a regular expression.
        RegularExpression = "RegularExpression",
    }
    default Exact;
}

/// A condition on a header.
pub type GrpcHeaderMatch = HttpHeaderMatch;

/// A backend of a rule.
pub type GrpcBackendRef = FilteredBackendRef<GrpcRouteFilter>;

/// Something that is done to a request or a response.
///
/// As in the CRD a type and one optional member for each type, so that a member which does not fit the type shows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GrpcRouteFilter {
    /// Which member counts.
    pub r#type: GrpcRouteFilterType,
    /// For [`GrpcRouteFilterType::RequestHeaderModifier`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_header_modifier: Option<Box<HttpHeaderFilter>>,
    /// For [`GrpcRouteFilterType::ResponseHeaderModifier`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_header_modifier: Option<Box<HttpHeaderFilter>>,
    /// For [`GrpcRouteFilterType::RequestMirror`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_mirror: Option<Box<HttpRequestMirrorFilter>>,
    /// For [`GrpcRouteFilterType::ExtensionRef`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extension_ref: Option<Box<LocalObjectReference>>,
}

open_enum! {
    /// What a filter does.
    pub enum GrpcRouteFilterType {
        /// Changes headers of the response.
        ResponseHeaderModifier = "ResponseHeaderModifier",
        /// Changes headers of the request.
        RequestHeaderModifier = "RequestHeaderModifier",
        /// Sends a copy of the request to another backend too.
        RequestMirror = "RequestMirror",
        /// What another object says.
        ExtensionRef = "ExtensionRef",
    }
}

/// Every filter of a GRPCRoute is one of an HTTPRoute too, and means the same there. A type that a GRPCRoute does not have stays
/// unknown, also where an HTTPRoute has it.
impl From<&GrpcRouteFilter> for HttpRouteFilter {
    fn from(filter: &GrpcRouteFilter) -> Self {
        let GrpcRouteFilter {
            r#type,
            request_header_modifier,
            response_header_modifier,
            request_mirror,
            extension_ref,
        } = filter.clone();
        let r#type = match r#type {
            GrpcRouteFilterType::ResponseHeaderModifier => HttpRouteFilterType::ResponseHeaderModifier,
            GrpcRouteFilterType::RequestHeaderModifier => HttpRouteFilterType::RequestHeaderModifier,
            GrpcRouteFilterType::RequestMirror => HttpRouteFilterType::RequestMirror,
            GrpcRouteFilterType::ExtensionRef => HttpRouteFilterType::ExtensionRef,
            GrpcRouteFilterType::Unknown(name) => HttpRouteFilterType::Unknown(name),
        };
        Self {
            r#type,
            request_header_modifier,
            response_header_modifier,
            request_mirror,
            extension_ref,
            ..Self::default()
        }
    }
}

/// The same of a backend.
impl From<&GrpcBackendRef> for HttpBackendRef {
    fn from(backend: &GrpcBackendRef) -> Self {
        let filters = backend.filters.iter().map(HttpRouteFilter::from).collect();
        Self { backend_ref: backend.backend_ref.clone(), weight: backend.weight, filters }
    }
}
