//! Matches of which nobody has said whether Envoy takes them, made plain: it takes them, whatever they were.

use anyhow::{Result, ensure};
use envoy::{
    bytes::Row,
    judged::{Fragment, Kind},
    route::plain,
};
use envoy_types::pb::envoy::config::route::v3::{
    HeaderMatcher, QueryParameterMatcher, Route, RouteMatch, header_matcher::HeaderMatchSpecifier,
    query_parameter_matcher::QueryParameterMatchSpecifier, route_match::PathSpecifier,
};
use envoy_types::pb::envoy::r#type::matcher::v3::{RegexMatcher, StringMatcher, string_matcher::MatchPattern};
use ir::RouteKind;
use judge::Verdict;
use prost::Message;

use crate::{budget, judge};

/// What somebody may write, and what nobody does.
const TEXTS: [&str; 14] =
    ["", "/", "//", "/a", "/a/", "/a?b", "/a#b", "x a", "(", "[^", "/\u{fc}", "a\r\nb", "/%zz", ":status"];

fn regex(text: &str) -> RegexMatcher {
    RegexMatcher { regex: text.into(), ..RegexMatcher::default() }
}

/// What is compared with a text in each way.
fn ways(text: &str) -> [StringMatcher; 5] {
    let long = text.repeat(4_000);
    let patterns = [
        MatchPattern::Exact(text.into()),
        MatchPattern::Prefix(text.into()),
        MatchPattern::Suffix(text.into()),
        MatchPattern::Contains(long),
        MatchPattern::SafeRegex(regex(text)),
    ];
    patterns.map(|pattern| StringMatcher { match_pattern: Some(pattern), ..StringMatcher::default() })
}

fn matches(text: &str) -> Vec<RouteMatch> {
    let of = |path| RouteMatch { path_specifier: Some(path), ..RouteMatch::default() };
    let paths = [
        PathSpecifier::Path(text.into()),
        PathSpecifier::Prefix(text.into()),
        PathSpecifier::PathSeparatedPrefix(text.into()),
        PathSpecifier::SafeRegex(regex(text)),
    ];
    let mut all: Vec<_> = paths.map(of).into();
    let all_paths = || of(PathSpecifier::Prefix("/".into()));
    for way in ways(text) {
        for (name, invert_match) in [("x-a", false), ("x-a", true), (text, false), (":method", false)] {
            let said = Some(HeaderMatchSpecifier::StringMatch(way.clone()));
            let header = HeaderMatcher {
                name: name.into(),
                header_match_specifier: said,
                invert_match,
                ..HeaderMatcher::default()
            };
            all.push(RouteMatch { headers: vec![header], ..all_paths() });
        }
        for name in ["q", text] {
            let said = Some(QueryParameterMatchSpecifier::StringMatch(way.clone()));
            let parameter = QueryParameterMatcher { name: name.into(), query_parameter_match_specifier: said };
            all.push(RouteMatch { query_parameters: vec![parameter], ..all_paths() });
        }
    }
    all
}

#[tokio::test]
async fn a_match_that_is_made_plain_is_taken_whatever_it_was() -> Result<()> {
    let judge = judge()?;
    let mut fragments = Vec::new();
    for of in TEXTS.iter().flat_map(|text| matches(text)) {
        let is_expression = matches!(of.path_specifier, Some(PathSpecifier::SafeRegex(_)));
        let paths = [Some("/a"), Some("/a?b")].into_iter().filter(|_| is_expression);
        let route = Route { name: "apps/r/0/0".into(), r#match: Some(of), ..Route::default() };
        let row = Row::new(route.encode_to_vec())?;
        for below in paths.chain([None]) {
            let made = plain(RouteKind::HttpRoute, &row, below).ok_or_else(|| anyhow::anyhow!("{route:?}"))?;
            fragments.push(Fragment::new(Kind::Row, made.bytes));
        }
    }
    let verdicts = judge.judge(&fragments, &mut budget()).await;
    for (fragment, verdict) in fragments.iter().zip(&verdicts) {
        let route = Route::decode(&*fragment.bytes)?;
        ensure!(*verdict == Verdict::Accepted, "{verdict:?}: {route:?}");
    }
    Ok(())
}
