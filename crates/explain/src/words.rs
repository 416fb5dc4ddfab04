//! What stands in Envoy routes and in rules, in the words of Gateway API.

use envoy::route::GuardedMatch;
use envoy_types::pb::envoy::{
    config::route::v3::{
        HeaderMatcher, RouteMatch, header_matcher::HeaderMatchSpecifier,
        query_parameter_matcher::QueryParameterMatchSpecifier, route_match::PathSpecifier,
    },
    r#type::matcher::v3::string_matcher::MatchPattern,
};
use ir::{
    RouteId,
    delegation::{Children, LABEL},
    matching::{GRPC_CONTENT, Match},
    problem::legible,
};

/// Writes a route as a path.
pub(crate) fn path<S: serde::Serializer>(route: &RouteId, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&route.path())
}

/// Whom a reference means.
pub(crate) fn children(children: &Children) -> String {
    match children {
        Children::Named(name) => name.to_string(),
        Children::InNamespace(namespace) => format!("all HTTPRoutes of namespace {namespace}"),
        Children::Labelled(label, Some(namespace)) => {
            format!("HTTPRoutes of namespace {namespace} with label {LABEL}={label}")
        }
        Children::Labelled(label, None) => format!("HTTPRoutes of any namespace with label {LABEL}={label}"),
    }
}

/// A match as its author would say it.
pub(crate) fn written_in_words(written: &Match) -> String {
    written.requests().next().map(|request| match_in_words(&GuardedMatch::new(request).message())).unwrap_or_default()
}

/// What an Envoy route matches, in the words of Gateway API.
pub(crate) fn match_in_words(matching: &RouteMatch) -> String {
    let is_grpc = matching.headers.iter().any(is_content_of_grpc);
    let path = match &matching.path_specifier {
        Some(PathSpecifier::Prefix(path)) if is_grpc && path == "/" => "any gRPC method".into(),
        Some(PathSpecifier::Prefix(service)) if is_grpc => format!("gRPC methods of {service}"),
        Some(PathSpecifier::Path(method)) if is_grpc => format!("gRPC method {method}"),
        Some(PathSpecifier::SafeRegex(regex)) if is_grpc => format!("gRPC methods ~ {}", regex.regex),
        Some(PathSpecifier::Path(path)) => format!("Exact {path}"),
        Some(PathSpecifier::PathSeparatedPrefix(path) | PathSpecifier::Prefix(path)) => format!("PathPrefix {path}"),
        Some(PathSpecifier::SafeRegex(regex)) => format!("RegularExpression {}", regex.regex),
        _ => "any path".into(),
    };
    let method = matching.headers.iter().find(|header| header.name == ":method");
    let method = method.and_then(header_pattern).map(|pattern| format!("{} ", value_in_words(pattern).1));
    let mut parts = vec![method.unwrap_or_default() + &path];
    for header in matching.headers.iter().filter(|header| !is_implied(header) && header.name != ":method") {
        parts.push(header_in_words(header));
    }
    for query in &matching.query_parameters {
        if let Some(QueryParameterMatchSpecifier::StringMatch(string)) = &query.query_parameter_match_specifier {
            let pattern = string.match_pattern.as_ref().map(value_in_words);
            let (sign, value) = pattern.unwrap_or(("=", ""));
            parts.push(format!("query {}{sign}{value}", query.name));
        }
    }
    legible(parts.join(", "))
}

/// Whether a condition says nothing that others do not say.
fn is_implied(header: &HeaderMatcher) -> bool {
    header.name == ":path" || header.invert_match || is_content_of_grpc(header)
}

/// Whether a condition asks for gRPC, as every match of a GRPCRoute does.
fn is_content_of_grpc(header: &HeaderMatcher) -> bool {
    matches!(header_pattern(header), Some(MatchPattern::Prefix(content)) if header.name == "content-type" && content == GRPC_CONTENT)
}

/// What a condition on a header asks for.
pub(crate) fn header_in_words(header: &HeaderMatcher) -> String {
    match (&*header.name, header_pattern(header).map(value_in_words)) {
        (":authority", _) => "a host with a port".into(),
        _ if is_content_of_grpc(header) => format!("gRPC, a content-type of {GRPC_CONTENT}"),
        (name, Some(("=", value))) => format!("header {name}: {value}"),
        (name, Some((sign, value))) => format!("header {name} {sign} {value}"),
        (name, None) => format!("header {name}"),
    }
}

/// What a header is compared with.
pub(crate) fn header_pattern(header: &HeaderMatcher) -> Option<&MatchPattern> {
    match &header.header_match_specifier {
        Some(HeaderMatchSpecifier::StringMatch(string)) => string.match_pattern.as_ref(),
        _ => None,
    }
}

/// Whether what a header is compared with, which is in lower case then, holds in any case of letters.
pub(crate) fn ignores_case(header: &HeaderMatcher) -> bool {
    matches!(&header.header_match_specifier, Some(HeaderMatchSpecifier::StringMatch(string)) if string.ignore_case)
}

fn value_in_words(pattern: &MatchPattern) -> (&'static str, &str) {
    match pattern {
        MatchPattern::Exact(text) => ("=", text),
        MatchPattern::SafeRegex(regex) => ("~", &regex.regex),
        _ => ("=", ""),
    }
}
