//! Whether Envoy would take a route for a request.

use envoy_types::pb::envoy::{
    config::route::v3::{
        HeaderMatcher, QueryParameterMatcher, RouteMatch, query_parameter_matcher::QueryParameterMatchSpecifier,
        route_match::PathSpecifier,
    },
    r#type::matcher::v3::string_matcher::MatchPattern,
};

use crate::{
    bytewise,
    request::Request,
    words::{header_in_words, header_pattern, ignores_case},
};

/// A request as routes are matched with it.
pub(crate) struct Sent<'a> {
    pub(crate) request: &'a Request,
    /// The host that is asked for.
    pub(crate) asked: String,
    /// The normalised path.
    pub(crate) path: &'a str,
    /// The query string, without its question mark.
    pub(crate) query: Option<&'a str>,
}

/// In what a request is not what a route matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mismatch {
    Path,
    Method(String),
    Header(String),
    Query(String),
    /// The host has no port, which is a matter between two Envoy routes of one match.
    HostPort,
}

impl Mismatch {
    pub(crate) fn in_words(&self) -> String {
        match self {
            Self::Path => "the path does not match".into(),
            Self::Method(method) => format!("the method is not {method}"),
            Self::Header(header) => format!("it needs {header}"),
            Self::Query(query) => format!("it needs {query}"),
            Self::HostPort => "it needs a host with a port".into(),
        }
    }
}

impl<'a> Sent<'a> {
    pub(crate) fn new(request: &'a Request, target: &'a str) -> Self {
        let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
        Self { request, asked: request.asked(), path, query }
    }

    /// In what it is not what `matching` asks for; nothing where it is.
    pub(crate) fn mismatches(&self, matching: &RouteMatch) -> Vec<Mismatch> {
        let path = match &matching.path_specifier {
            Some(PathSpecifier::Path(path)) => self.path == path,
            Some(PathSpecifier::Prefix(prefix)) => self.path.starts_with(&**prefix),
            Some(PathSpecifier::PathSeparatedPrefix(prefix)) => {
                self.path.strip_prefix(&**prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            }
            Some(PathSpecifier::SafeRegex(pattern)) => bytewise::matches(&pattern.regex, self.path),
            _ => false,
        };
        let mut mismatches = if path { Vec::new() } else { vec![Mismatch::Path] };
        let headers = matching.headers.iter().filter(|header| header.name != ":path");
        mismatches.extend(headers.filter_map(|header| self.header(header)));
        mismatches.extend(matching.query_parameters.iter().filter_map(|query| self.query(query)));
        mismatches
    }

    /// Envoy compares repeated headers one by one.
    fn header(&self, header: &HeaderMatcher) -> Option<Mismatch> {
        let pattern = header_pattern(header)?;
        let is = |value: &str| {
            if ignores_case(header) { matches(pattern, &value.to_ascii_lowercase()) } else { matches(pattern, value) }
        };
        match &*header.name {
            ":method" => (!is(&self.request.method)).then(|| Mismatch::Method(text(pattern).to_owned())),
            ":authority" => (is(&self.asked) == header.invert_match).then_some(Mismatch::HostPort),
            name => {
                let own = match name {
                    "host" => Some(&*self.asked),
                    // Written by Envoy, whatever the client says.
                    "x-forwarded-proto" => Some(self.request.scheme.as_str()),
                    _ => None,
                };
                let sent = self.request.headers.iter().filter(|(sent, _)| own.is_none() && sent == name);
                let found = own.into_iter().chain(sent.map(|(_, value)| &**value)).any(is);
                (!found).then(|| Mismatch::Header(header_in_words(header)))
            }
        }
    }

    /// Envoy compares the first parameter of a name, as it is written.
    fn query(&self, matcher: &QueryParameterMatcher) -> Option<Mismatch> {
        let pattern = match &matcher.query_parameter_match_specifier {
            Some(QueryParameterMatchSpecifier::StringMatch(string)) => string.match_pattern.as_ref()?,
            _ => return None,
        };
        let parameters = self.query.iter().flat_map(|query| query.split('&'));
        let mut parameters = parameters.map(|parameter| parameter.split_once('=').unwrap_or((parameter, "")));
        let found = parameters.find(|(name, _)| *name == matcher.name);
        let sign = if matches!(pattern, MatchPattern::SafeRegex(_)) { "~" } else { "=" };
        let found = found.is_some_and(|(_, value)| matches(pattern, value));
        (!found).then(|| Mismatch::Query(format!("query {}{sign}{}", matcher.name, text(pattern))))
    }
}

fn matches(pattern: &MatchPattern, value: &str) -> bool {
    match pattern {
        MatchPattern::Exact(text) => value == text,
        MatchPattern::SafeRegex(pattern) => bytewise::matches(&pattern.regex, value),
        MatchPattern::Contains(text) => value.contains(&**text),
        MatchPattern::Prefix(text) => value.starts_with(&**text),
        MatchPattern::Suffix(text) => value.ends_with(&**text),
        // Translation makes no others.
        MatchPattern::Custom(_) => false,
    }
}

fn text(pattern: &MatchPattern) -> &str {
    match pattern {
        MatchPattern::Exact(text) => text,
        MatchPattern::SafeRegex(pattern) => &pattern.regex,
        _ => "",
    }
}
