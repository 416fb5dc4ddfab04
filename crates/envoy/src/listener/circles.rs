//! Requests that come through one Gateway again and again: a backend that is a Gateway, or that asks one.
//!
//! Each passing is noted in the header `cdn-loop` (RFC 8586), which routes may not change, and one that came too often is
//! answered 508. Otherwise one request keeps proxies busy for as long as its header fields fit, and one that is mirrored
//! on its way doubles with each round.

use envoy_types::pb::envoy::{
    config::{
        accesslog::v3::{
            AccessLogFilter, AndFilter, ComparisonFilter, HeaderFilter, StatusCodeFilter,
            access_log_filter::FilterSpecifier, comparison_filter,
        },
        core::v3::{DataSource, RuntimeUInt32, data_source::Specifier},
        route::v3::{HeaderMatcher, header_matcher::HeaderMatchSpecifier},
    },
    extensions::filters::{
        http::cdn_loop::v3::CdnLoopConfig,
        network::http_connection_manager::v3::{LocalReplyConfig, ResponseMapper},
    },
    r#type::matcher::v3::{RegexMatcher, StringMatcher, string_matcher::MatchPattern},
};
use validate::header::PASSED;

use crate::uint32;

/// How often a request may come again to the Gateway that it came through. Twice leaves room for a backend that checks or
/// caches and asks the Gateway in its turn, and for one behind it.
const MAX_RETURNS: u32 = 2;

/// The filter that counts and refuses; it answers 502.
pub(super) fn filter(pseudonym: &str) -> CdnLoopConfig {
    CdnLoopConfig { cdn_id: pseudonym.into(), max_allowed_occurrences: MAX_RETURNS }
}

/// Makes the filter's 502 the 508 that says what it is, without its words. A 502 for another reason is left alone, unless
/// its request came as often.
pub(super) fn local_replies(pseudonym: &str) -> LocalReplyConfig {
    let is_502 = ComparisonFilter {
        op: comparison_filter::Op::Eq as i32,
        value: Some(RuntimeUInt32 { default_value: 502, runtime_key: "portcullis.loop_detected".into() }),
    };
    let too_often =
        RegexMatcher { regex: format!("(?:.*{pseudonym}){{{}}}.*", MAX_RETURNS + 1), ..RegexMatcher::default() };
    let passed = HeaderMatcher {
        name: PASSED.into(),
        header_match_specifier: Some(HeaderMatchSpecifier::StringMatch(StringMatcher {
            match_pattern: Some(MatchPattern::SafeRegex(too_often)),
            ..StringMatcher::default()
        })),
        ..HeaderMatcher::default()
    };
    let filters = [
        FilterSpecifier::StatusCodeFilter(StatusCodeFilter { comparison: Some(is_502) }),
        FilterSpecifier::HeaderFilter(HeaderFilter { header: Some(passed) }),
    ];
    let all = AndFilter { filters: filters.map(specified).into() };
    let body = DataSource { specifier: Some(Specifier::InlineString("loop detected".into())), ..DataSource::default() };
    let mapper = ResponseMapper {
        filter: Some(specified(FilterSpecifier::AndFilter(all))),
        status_code: Some(uint32(508)),
        body: Some(body),
        ..ResponseMapper::default()
    };
    LocalReplyConfig { mappers: vec![mapper], ..LocalReplyConfig::default() }
}

fn specified(filter: FilterSpecifier) -> AccessLogFilter {
    AccessLogFilter { filter_specifier: Some(filter) }
}
