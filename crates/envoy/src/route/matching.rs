//! What an Envoy route matches.

use std::sync::Arc;

use envoy_types::pb::envoy::{
    config::route::v3::{
        HeaderMatcher, QueryParameterMatcher, RouteMatch, header_matcher::HeaderMatchSpecifier,
        query_parameter_matcher::QueryParameterMatchSpecifier, route_match::PathSpecifier,
    },
    r#type::matcher::v3::{RegexMatcher, StringMatcher, string_matcher::MatchPattern},
};
use ir::matching::{Condition, GRPC_CONTENT, PathMatch, RequestMatch, ValueMatch};
use validate::regex::literal_prefix;

/// A match, and what is known of all paths that it takes, which is found out once.
pub struct GuardedMatch {
    request: RequestMatch,
    guard: Option<Arc<str>>,
}

impl GuardedMatch {
    /// Looks through the expression of the path, if it is one.
    pub fn new(request: RequestMatch) -> Self {
        let guard = guard(&request);
        Self { request, guard }
    }

    /// The same for requests alone whose host names a port.
    #[must_use]
    pub fn with_host_port(&self) -> Self {
        Self { request: RequestMatch { host_with_port: true, ..self.request.clone() }, guard: self.guard.clone() }
    }

    /// The match.
    pub fn request(&self) -> &RequestMatch {
        &self.request
    }

    /// What the path of each request begins with that it takes; none where nothing is known, or where the match costs no more
    /// than this would.
    pub fn guard(&self) -> Option<&Arc<str>> {
        self.guard.as_ref()
    }

    /// What of a request an Envoy route compares.
    pub fn message(&self) -> RouteMatch {
        let Self { request, guard } = self;
        let path = match &request.path {
            PathMatch::Exact(path) => PathSpecifier::Path(path.to_string()),
            PathMatch::Segments(path) => PathSpecifier::PathSeparatedPrefix(path.to_string()),
            PathMatch::Prefix(path) => PathSpecifier::Prefix(path.to_string()),
            PathMatch::Regex(pattern) => PathSpecifier::SafeRegex(regex(pattern.to_string())),
        };
        let method = request.method.iter().map(|method| header(":method", MatchPattern::Exact(method.to_string())));
        let headers = request.headers.iter().map(|condition| header(&condition.name, pattern(&condition.value)));
        let content = request.grpc.map(|_| content_of_grpc());
        // Envoy holds headers against a request before the path, and each in turn.
        let guard = guard.iter().map(|prefix| header(":path", MatchPattern::Prefix(prefix.to_string())));
        let with_port = [
            header(":authority", MatchPattern::Contains(":".into())),
            // An address of IPv6 alone.
            HeaderMatcher { invert_match: true, ..header(":authority", MatchPattern::Suffix("]".into())) },
        ];
        let host = with_port.into_iter().filter(|_| request.host_with_port);
        RouteMatch {
            path_specifier: Some(path),
            headers: method.chain(content).chain(guard).chain(host).chain(headers).collect(),
            query_parameters: request.queries.iter().map(query_parameter).collect(),
            ..RouteMatch::default()
        }
    }
}

fn guard(request: &RequestMatch) -> Option<Arc<str>> {
    let is_regex = |condition: &Condition| matches!(condition.value, ValueMatch::Regex(_));
    let prefix = match &request.path {
        PathMatch::Regex(pattern) => literal_prefix(pattern).into(),
        _ if !request.headers.iter().chain(&request.queries).any(is_regex) => return None,
        PathMatch::Exact(path) | PathMatch::Segments(path) | PathMatch::Prefix(path) => path.clone(),
    };
    // All paths begin with a slash.
    (prefix.len() > 1).then_some(prefix)
}

/// Media types ignore case (RFC 9110, section 8.3.1), and so do servers of gRPC: one that is written otherwise must not go to
/// other routes, past the policies of this one.
fn content_of_grpc() -> HeaderMatcher {
    let content = StringMatcher { ignore_case: true, ..string(MatchPattern::Prefix(GRPC_CONTENT.into())) };
    HeaderMatcher {
        name: "content-type".into(),
        header_match_specifier: Some(HeaderMatchSpecifier::StringMatch(content)),
        ..HeaderMatcher::default()
    }
}

fn query_parameter(condition: &Condition) -> QueryParameterMatcher {
    let value = QueryParameterMatchSpecifier::StringMatch(string(pattern(&condition.value)));
    QueryParameterMatcher { name: condition.name.to_string(), query_parameter_match_specifier: Some(value) }
}

fn header(name: &str, pattern: MatchPattern) -> HeaderMatcher {
    HeaderMatcher {
        name: name.into(),
        header_match_specifier: Some(HeaderMatchSpecifier::StringMatch(string(pattern))),
        ..HeaderMatcher::default()
    }
}

fn pattern(value: &ValueMatch) -> MatchPattern {
    match value {
        ValueMatch::Exact(text) => MatchPattern::Exact(text.to_string()),
        ValueMatch::Regex(pattern) => MatchPattern::SafeRegex(regex(pattern.to_string())),
    }
}

pub(super) fn string(pattern: MatchPattern) -> StringMatcher {
    StringMatcher { match_pattern: Some(pattern), ..StringMatcher::default() }
}

/// An RE2 pattern, matched whole where it matches and anywhere where it substitutes.
pub(super) fn regex(regex: String) -> RegexMatcher {
    RegexMatcher { regex, ..RegexMatcher::default() }
}
