//! Reading rules (Gateway API `HTTPRouteRule`).

use api::http_route::{HttpRouteMatch, HttpRouteRetry, HttpRouteRule, HttpRouteTimeouts, PathMatchType};
use ir::{
    Problem, Reason, RouteId,
    route::{Handling, RuleSpec, Unhandled},
    rule::{Retry, Timeouts},
};
use validate::{self, Invalid};

use super::matches::read as read_match;
use crate::route::{
    at, backends, fault,
    filters::{self, Level},
    matches, session,
};

/// Reads a rule of `owner` that stands at `field`.
pub(crate) fn read(rule: &HttpRouteRule, owner: &RouteId, field: &str) -> RuleSpec {
    let prefixes_only = rule.matches.iter().all(|written| written.path.r#type == PathMatchType::PathPrefix);
    RuleSpec {
        ignored: backends::ignored(&rule.backend_refs, field).into(),
        ..claims(rule, handling(rule, prefixes_only, owner, field).map_err(Unhandled::Invalid), field)
    }
}

/// A rule with what it matches, and `handling`.
pub(super) fn claims(rule: &HttpRouteRule, handling: Result<Handling, Unhandled>, field: &str) -> RuleSpec {
    let everything = [HttpRouteMatch::default()];
    let written = if rule.matches.is_empty() { &everything[..] } else { &rule.matches };
    matches::claims(rule.name.as_ref(), written, |index, written| read_match(index, written, field), handling)
}

fn handling(rule: &HttpRouteRule, prefixes_only: bool, owner: &RouteId, field: &str) -> Result<Handling, Problem> {
    let mut handling = filters::read(&rule.filters, Level::Rule { prefixes_only, owner }, field)?;
    if handling.redirect.is_some() && !rule.backend_refs.is_empty() {
        let message = "RequestRedirect answers by itself, so no backend can be reached; remove one of the two";
        return Err(fault(Reason::IncompatibleFilters, format_args!("{field}.backendRefs"), message));
    }
    filters::answers_alone(&handling, &rule.backend_refs, field)?;
    backends::read(&rule.backend_refs, owner.kind, field, &mut handling)?;
    let timeouts = rule.timeouts.as_ref().map(|written| timeouts(written, field)).transpose()?;
    handling.fields.timeouts = timeouts.filter(|timeouts| *timeouts != Timeouts::default());
    handling.fields.retry = rule.retry.as_ref().map(|written| retry(written, field)).transpose()?.map(Box::new);
    let session = rule.session_persistence.as_ref().map(|written| session::read(written, field)).transpose()?;
    handling.fields.session = session.map(Box::new);
    Ok(handling)
}

fn timeouts(written: &HttpRouteTimeouts, field: &str) -> Result<Timeouts, Problem> {
    let parse = |duration: &Option<api::shared::Duration>, name: &str| {
        let parsed = duration.as_ref().map(|duration| validate::duration::parse(&duration.0)).transpose();
        parsed.map_err(at(format_args!("{field}.timeouts.{name}")))
    };
    let request = parse(&written.request, "request")?;
    let backend_request = parse(&written.backend_request, "backendRequest")?;
    if let (Some(request), Some(backend)) = (request, backend_request)
        && !request.is_zero()
        && backend > request
    {
        let message = "one try may not take longer than the whole request; shorten it, or lengthen request";
        return Err(fault(Reason::UnsupportedValue, format_args!("{field}.timeouts.backendRequest"), message));
    }
    Ok(Timeouts { request, backend_request, stream_idle: None })
}

fn retry(written: &HttpRouteRetry, field: &str) -> Result<Retry, Problem> {
    let mut codes = Vec::new();
    for (index, code) in written.codes.iter().enumerate() {
        let code = validate::number::retry_status(*code).map_err(at(format_args!("{field}.retry.codes[{index}]")))?;
        codes.extend(u16::try_from(code));
    }
    codes.sort_unstable();
    codes.dedup();
    let attempts = match written.attempts {
        None => None,
        Some(attempts) => Some(u32::try_from(attempts).map_err(|_| {
            let invalid = Invalid::new(&attempts.to_string(), "it is not a number of retries", "use 0 or more");
            at(format_args!("{field}.retry.attempts"))(invalid)
        })?),
    };
    let backoff = written.backoff.as_ref().map(|duration| validate::duration::positive(&duration.0)).transpose();
    let backoff = backoff.map_err(at(format_args!("{field}.retry.backoff")))?;
    Ok(Retry::gateway_api(codes, attempts, backoff))
}
