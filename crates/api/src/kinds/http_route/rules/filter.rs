//! Rules of the filters of an HTTPRoute.

use crate::{
    http_route::{
        HttpCorsFilter, HttpExternalAuthFilter, HttpMethodWithWildcard, HttpPathModifier, HttpPathModifierType,
        HttpRequestMirrorFilter, HttpRouteExternalAuthProtocol, HttpRouteFilter, HttpRouteFilterType as Type,
    },
    schema::rules::{Broken, reference::service_port},
};

/// The two filters that change a path.
pub(super) const PATH_MODIFIERS: [PathModifier; 2] = [PathModifier::Redirect, PathModifier::Rewrite];

/// A filter that changes a path.
#[derive(Clone, Copy)]
pub(super) enum PathModifier {
    /// `requestRedirect`.
    Redirect,
    /// `urlRewrite`.
    Rewrite,
}

impl PathModifier {
    /// The member of the filter.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Redirect => "requestRedirect",
            Self::Rewrite => "urlRewrite",
        }
    }

    fn path(self, filter: &HttpRouteFilter) -> Option<&HttpPathModifier> {
        match self {
            Self::Redirect => filter.request_redirect.as_deref()?.path.as_ref(),
            Self::Rewrite => filter.url_rewrite.as_deref()?.path.as_ref(),
        }
    }

    /// Whether the filter replaces the prefix that matched.
    pub(super) fn replaces_prefix(self, filter: &HttpRouteFilter) -> bool {
        self.path(filter).is_some_and(|path| {
            path.r#type == HttpPathModifierType::ReplacePrefixMatch && path.replace_prefix_match.is_some()
        })
    }
}

/// Filters that a list may hold only once.
const ONCE: [Type; 5] =
    [Type::Cors, Type::RequestHeaderModifier, Type::ResponseHeaderModifier, Type::RequestRedirect, Type::UrlRewrite];

pub(in crate::kinds) fn check(filters: &[HttpRouteFilter], path: &str, broken: &mut Broken) {
    let position = |r#type| filters.iter().position(|filter| filter.r#type == r#type);
    if let (Some(redirect), Some(rewrite)) = (position(Type::RequestRedirect), position(Type::UrlRewrite)) {
        let message = "RequestRedirect and URLRewrite must not stand together: remove one of both";
        let later = redirect.max(rewrite);
        broken.add(format!("{path}[{later}].type"), &filters[later].r#type, message);
    }
    for (index, filter) in filters.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let before = &filters[..index];
        if ONCE.contains(&filter.r#type) && before.iter().any(|earlier| earlier.r#type == filter.r#type) {
            broken.add(format!("{path}.type"), &filter.r#type, "must not occur twice: join both filters");
        }
        members(filter, &path, broken);
        for member in PATH_MODIFIERS {
            if let Some(modifier) = member.path(filter) {
                path_modifier(modifier, &format!("{path}.{}.path", member.name()), broken);
            }
        }
        if let Some(mirror) = &filter.request_mirror {
            check_mirror(mirror, &format!("{path}.requestMirror"), broken);
        }
        if let Some(cors) = &filter.cors {
            check_cors(cors, &format!("{path}.cors"), broken);
        }
        if let Some(auth) = &filter.external_auth {
            check_auth(auth, &format!("{path}.externalAuth"), broken);
        }
    }
}

/// Every member of a filter with the type that it belongs to, and whether it is set.
fn member_of(filter: &HttpRouteFilter) -> [(Type, &'static str, bool); 8] {
    [
        (Type::RequestHeaderModifier, "requestHeaderModifier", filter.request_header_modifier.is_some()),
        (Type::ResponseHeaderModifier, "responseHeaderModifier", filter.response_header_modifier.is_some()),
        (Type::RequestMirror, "requestMirror", filter.request_mirror.is_some()),
        (Type::RequestRedirect, "requestRedirect", filter.request_redirect.is_some()),
        (Type::UrlRewrite, "urlRewrite", filter.url_rewrite.is_some()),
        (Type::Cors, "cors", filter.cors.is_some()),
        (Type::ExternalAuth, "externalAuth", filter.external_auth.is_some()),
        (Type::ExtensionRef, "extensionRef", filter.extension_ref.is_some()),
    ]
}

fn members(filter: &HttpRouteFilter, path: &str, broken: &mut Broken) {
    for (r#type, name, set) in member_of(filter) {
        if set && filter.r#type != r#type {
            broken.add_without_value(format!("{path}.{name}"), format!("must not be set for type {}", filter.r#type));
        }
        if !set && filter.r#type == r#type {
            broken.add_without_value(format!("{path}.{name}"), format!("must be set for type {type}"));
        }
    }
}

fn path_modifier(modifier: &HttpPathModifier, path: &str, broken: &mut Broken) {
    let members = [
        (HttpPathModifierType::ReplaceFullPath, "replaceFullPath", modifier.replace_full_path.is_some()),
        (HttpPathModifierType::ReplacePrefixMatch, "replacePrefixMatch", modifier.replace_prefix_match.is_some()),
    ];
    for (r#type, name, set) in members {
        if set && modifier.r#type != r#type {
            broken.add_without_value(format!("{path}.{name}"), format!("must not be set for type {}", modifier.r#type));
        }
        if !set && modifier.r#type == r#type {
            broken.add_without_value(format!("{path}.{name}"), format!("must be set for type {type}"));
        }
    }
}

fn check_mirror(mirror: &HttpRequestMirrorFilter, path: &str, broken: &mut Broken) {
    service_port(&mirror.backend_ref, &format!("{path}.backendRef"), broken);
    let Some(fraction) = &mirror.fraction else { return };
    if let Some(percent) = mirror.percent {
        broken.add(format!("{path}.percent"), percent, "must not be set beside fraction: remove one of both");
    }
    if fraction.numerator > fraction.denominator {
        let message = format!("must not be greater than the denominator, which is {}", fraction.denominator);
        broken.add(format!("{path}.fraction.numerator"), fraction.numerator, message);
    }
}

fn check_cors(cors: &HttpCorsFilter, path: &str, broken: &mut Broken) {
    let lists = [
        ("allowOrigins", cors.allow_origins.len(), cors.allow_origins.iter().any(|origin| &**origin == "*")),
        ("allowMethods", cors.allow_methods.len(), cors.allow_methods.contains(&HttpMethodWithWildcard::Any)),
        ("allowHeaders", cors.allow_headers.len(), cors.allow_headers.iter().any(|header| &**header == "*")),
    ];
    for (name, count, wildcard) in lists {
        if wildcard && count > 1 {
            let message = "* must stand alone: remove it or everything else";
            broken.add_without_value(format!("{path}.{name}"), message);
        }
    }
}

fn check_auth(auth: &HttpExternalAuthFilter, path: &str, broken: &mut Broken) {
    service_port(&auth.backend_ref, &format!("{path}.backendRef"), broken);
    let members = [
        (HttpRouteExternalAuthProtocol::Grpc, "grpc", auth.grpc.is_some()),
        (HttpRouteExternalAuthProtocol::Http, "http", auth.http.is_some()),
    ];
    for (protocol, name, set) in members {
        if set && auth.protocol != protocol {
            broken
                .add_without_value(format!("{path}.{name}"), format!("must not be set for protocol {}", auth.protocol));
        }
        if !set && auth.protocol == protocol {
            broken.add_without_value(format!("{path}.{name}"), format!("must be set for protocol {protocol}"));
        }
    }
}
