//! A match as plain text, which can stand before any Envoy has read it.

use envoy_types::pb::envoy::{
    config::route::v3::{
        HeaderMatcher, QueryParameterMatcher, Route, RouteMatch, header_matcher::HeaderMatchSpecifier,
        query_parameter_matcher::QueryParameterMatchSpecifier, route_match::PathSpecifier,
    },
    r#type::matcher::v3::{StringMatcher, string_matcher::MatchPattern},
};
use ir::RouteKind;
use prost::Message;
use validate::regex::literal_prefix;

use super::direct_response;
use crate::bytes::Row;

/// How many bytes a plain text has at most.
const LONGEST: usize = 1024;

/// A route that answers by itself to what another of a kind of routes matches, and to more: what it compares is printable text,
/// held against text, of which no build of Envoy makes anything else. For an expression of a path stands what all begins with
/// that it matches, or the path `below` which all of that lies, where that says more; and for one of a header or a parameter
/// that there is one. None for what is no route.
///
/// It is for a match of which nobody has said whether Envoy takes it: left out, its requests would reach another route.
pub fn plain(kind: RouteKind, row: &Row, below: Option<&str>) -> Option<Row> {
    let Route { name, r#match, .. } = Route::decode(&*row.bytes).ok()?;
    let route = Route {
        name: printable(&name).to_owned(),
        r#match: r#match.map(|all| plain_match(all, below)),
        action: Some(direct_response(kind.broken_status(), "")),
        ..Route::default()
    };
    Row::new(route.encode_to_vec()).ok()
}

fn plain_match(
    RouteMatch { path_specifier, headers, query_parameters, .. }: RouteMatch,
    below: Option<&str>,
) -> RouteMatch {
    let path = match path_specifier {
        Some(PathSpecifier::Path(path)) if is_plain(&path) => PathSpecifier::Path(path),
        Some(PathSpecifier::PathSeparatedPrefix(path)) if is_separated(&path) => {
            PathSpecifier::PathSeparatedPrefix(path)
        }
        Some(PathSpecifier::Path(path) | PathSpecifier::PathSeparatedPrefix(path) | PathSpecifier::Prefix(path)) => {
            prefix(&path)
        }
        Some(PathSpecifier::SafeRegex(pattern)) => narrower(&literal_prefix(&pattern.regex), below),
        _ => prefix("/"),
    };
    RouteMatch {
        path_specifier: Some(path),
        headers: headers.into_iter().filter_map(header).collect(),
        query_parameters: query_parameters.into_iter().filter_map(parameter).collect(),
        ..RouteMatch::default()
    }
}

fn prefix(text: &str) -> PathSpecifier {
    let text = printable(text);
    PathSpecifier::Prefix(if text.starts_with('/') { text } else { "/" }.to_owned())
}

/// All that begins with a text or, where that says more, a path and all below it. What is matched is both.
fn narrower(begins: &str, below: Option<&str>) -> PathSpecifier {
    let (begins, below) = (printable(begins), below.unwrap_or_default().trim_end_matches('/'));
    let lies_below = begins.strip_prefix(below).is_some_and(|rest| rest.starts_with('/'));
    if below.is_empty() || lies_below {
        prefix(begins)
    } else if is_separated(below) {
        PathSpecifier::PathSeparatedPrefix(below.to_owned())
    } else {
        prefix(below)
    }
}

fn header(matcher: HeaderMatcher) -> Option<HeaderMatcher> {
    let is_kept =
        matches!(&matcher.header_match_specifier, Some(HeaderMatchSpecifier::StringMatch(text)) if is_text(text));
    match (is_name(&matcher.name), is_kept, matcher.invert_match) {
        (true, true, _) => Some(matcher),
        (true, false, false) => {
            Some(HeaderMatcher { header_match_specifier: Some(HeaderMatchSpecifier::PresentMatch(true)), ..matcher })
        }
        _ => None,
    }
}

fn parameter(matcher: QueryParameterMatcher) -> Option<QueryParameterMatcher> {
    let is_kept = |it: &QueryParameterMatchSpecifier| match it {
        QueryParameterMatchSpecifier::StringMatch(text) => is_text(text),
        QueryParameterMatchSpecifier::PresentMatch(_) => true,
    };
    let specifier = matcher.query_parameter_match_specifier.filter(is_kept);
    let specifier = specifier.unwrap_or(QueryParameterMatchSpecifier::PresentMatch(true));
    let is_named = !matcher.name.is_empty() && is_plain(&matcher.name);
    is_named.then_some(QueryParameterMatcher { name: matcher.name, query_parameter_match_specifier: Some(specifier) })
}

/// Whether text is compared with text.
fn is_text(StringMatcher { match_pattern, .. }: &StringMatcher) -> bool {
    match match_pattern {
        Some(MatchPattern::Exact(text)) => is_plain(text),
        Some(MatchPattern::Prefix(text) | MatchPattern::Suffix(text) | MatchPattern::Contains(text)) => {
            !text.is_empty() && is_plain(text)
        }
        _ => false,
    }
}

/// What Envoy takes as a path that stands with what follows behind a slash.
fn is_separated(path: &str) -> bool {
    path.len() > 1 && path.starts_with('/') && !path.ends_with('/') && !path.contains(['?', '#']) && is_plain(path)
}

fn is_plain(text: &str) -> bool {
    printable(text).len() == text.len()
}

/// The name of a header, or of what of a request stands for one.
fn is_name(name: &str) -> bool {
    let token = name.strip_prefix(':').unwrap_or(name);
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !token.is_empty() && token.len() <= LONGEST && token.bytes().all(is_token)
}

/// What a text begins with that is printable, and not longer than it may be.
fn printable(text: &str) -> &str {
    let end = text.bytes().position(|byte| !matches!(byte, b'!'..=b'~')).unwrap_or(text.len());
    &text[..end.min(LONGEST)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(path: PathSpecifier, headers: Vec<HeaderMatcher>, parameters: Vec<QueryParameterMatcher>) -> RouteMatch {
        made(path, headers, parameters, None)
    }

    fn made(
        path: PathSpecifier,
        headers: Vec<HeaderMatcher>,
        parameters: Vec<QueryParameterMatcher>,
        below: Option<&str>,
    ) -> RouteMatch {
        let path_specifier = Some(path);
        let r#match = RouteMatch { path_specifier, headers, query_parameters: parameters, ..RouteMatch::default() };
        let route = Route { name: "apps/r/0/0".into(), r#match: Some(r#match), ..Route::default() };
        let route = Route { action: Some(direct_response(200, "kills")), ..route };
        let row = Row::new(route.encode_to_vec()).expect("a row");
        let plain = plain(RouteKind::HttpRoute, &row, below).expect("a route");
        let plain = Route::decode(&*plain.bytes).expect("a route");
        assert_eq!((&*plain.name, &plain.action), ("apps/r/0/0", &Some(direct_response(500, ""))));
        plain.r#match.expect("a match")
    }

    fn regex(pattern: &str) -> PathSpecifier {
        PathSpecifier::SafeRegex(super::super::matching::regex(pattern.into()))
    }

    fn path(path: PathSpecifier) -> PathSpecifier {
        of(path, Vec::new(), Vec::new()).path_specifier.expect("a path")
    }

    fn path_below(path: PathSpecifier, below: &str) -> PathSpecifier {
        made(path, Vec::new(), Vec::new(), Some(below)).path_specifier.expect("a path")
    }

    fn named(name: &str, pattern: MatchPattern) -> HeaderMatcher {
        let text = StringMatcher { match_pattern: Some(pattern), ..StringMatcher::default() };
        let header_match_specifier = Some(HeaderMatchSpecifier::StringMatch(text));
        HeaderMatcher { name: name.into(), header_match_specifier, ..HeaderMatcher::default() }
    }

    #[test]
    fn text_stays_and_an_expression_becomes_what_all_begins_with_that_it_matches() {
        let exact = PathSpecifier::Path("/a%20b".into());
        let separated = PathSpecifier::PathSeparatedPrefix("/a/b".into());
        assert_eq!([path(exact.clone()), path(separated.clone())], [exact, separated]);
        for (pattern, prefix) in [
            ("/a/[0-9]+", "/a/"),
            ("/a/b|/a/c", "/a/"),
            (".*kills", "/"),
            ("(?i)/a", "/"),
            ("/a\u{fc}b", "/a"),
            ("(", "/"),
        ] {
            assert_eq!(path(regex(pattern)), PathSpecifier::Prefix(prefix.into()), "{pattern}");
        }
        for odd in ["/a/", "/a?b", "/"] {
            let prefix = PathSpecifier::Prefix(odd.into());
            assert_eq!(path(PathSpecifier::PathSeparatedPrefix(odd.into())), prefix, "{odd}");
        }
        let long = format!("/{}", "a".repeat(2 * LONGEST));
        assert_eq!(path(PathSpecifier::Path(long.clone())), PathSpecifier::Prefix(long[..LONGEST].into()));
    }

    #[test]
    fn an_expression_closes_nothing_but_the_path_below_which_it_lies() {
        let separated = |path: &str| PathSpecifier::PathSeparatedPrefix(path.into());
        let prefix = |path: &str| PathSpecifier::Prefix(path.into());
        for (pattern, below, closed) in [
            ("(/team)?/team", "/team", separated("/team")),
            ("/team(/.*)?", "/team", separated("/team")),
            ("/team(/.*)?", "/team/", separated("/team")),
            ("/team|/team/a", "/team", separated("/team")),
            ("(", "/team", separated("/team")),
            ("/team/a|/team/b", "/team", prefix("/team/")),
            ("/team/a/[0-9]+", "/team", prefix("/team/a/")),
            ("/team/\u{fc}", "/team", prefix("/team/")),
            ("/a|/b", "/", prefix("/")),
            ("/a/[0-9]+", "/", prefix("/a/")),
            // What cannot be compared by segments.
            ("(", "/team?", prefix("/team?")),
        ] {
            assert_eq!(path_below(regex(pattern), below), closed, "{pattern} below {below}");
        }
        let longest = format!("/{}", "a".repeat(LONGEST - 1));
        assert_eq!(path_below(regex(&format!("{longest}/.*")), &longest), separated(&longest));
        // Text is what it is.
        let text = separated("/team/a");
        assert_eq!(path_below(text.clone(), "/team"), text);
    }

    #[test]
    fn what_is_no_text_is_asked_for_whatever_it_says() {
        let expression = || MatchPattern::SafeRegex(super::super::matching::regex("kills".into()));
        let kept = named("x-a", MatchPattern::Exact("b".into()));
        let parameter =
            |name: &str, it| QueryParameterMatcher { name: name.into(), query_parameter_match_specifier: Some(it) };
        let text = |pattern| StringMatcher { match_pattern: Some(pattern), ..StringMatcher::default() };
        let made = of(
            PathSpecifier::Prefix("/".into()),
            vec![kept.clone(), named("x-b", expression()), named("x b", expression())],
            vec![parameter("q", QueryParameterMatchSpecifier::StringMatch(text(expression())))],
        );
        let present = HeaderMatchSpecifier::PresentMatch(true);
        let any =
            HeaderMatcher { name: "x-b".into(), header_match_specifier: Some(present), ..HeaderMatcher::default() };
        assert_eq!(made.headers, [kept, any]);
        assert_eq!(made.query_parameters, [parameter("q", QueryParameterMatchSpecifier::PresentMatch(true))]);
    }
}
