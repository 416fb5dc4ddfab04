//! Reading rules (Gateway API `HTTPRouteRule`).

use std::sync::Arc;

use api::{
    http_route::{HttpBackendRef, HttpRouteMatch, HttpRouteRetry, HttpRouteRule, HttpRouteTimeouts, PathMatchType},
    shared::{
        BackendRef as ApiBackendRef, CookieLifetimeType, SessionPersistence as ApiSession, SessionPersistenceType,
    },
};
use ir::{
    NsName, Problem, Reason, RouteId, Severity,
    route::{BackendSpec, Changes, DelegateSpec, Handling, MatchSpec, RuleSpec, Unhandled},
    rule::{Retry, SessionCarrier, SessionPersistence, Timeouts},
};
use validate::{self, Invalid};

use super::{
    filters::{self, Level},
    matches,
    reference::{backend_ref, delegates},
};

/// Reads a rule of `owner` that stands at `field`.
pub(crate) fn read(rule: &HttpRouteRule, owner: &RouteId, field: &str) -> RuleSpec {
    let prefixes_only = rule.matches.iter().all(|written| written.path.r#type == PathMatchType::PathPrefix);
    RuleSpec {
        ignored: ignored(rule, field).into(),
        ..claims(rule, handling(rule, prefixes_only, owner, field).map_err(Unhandled::Invalid), field)
    }
}

/// A rule with what it matches, and `handling`.
pub(super) fn claims(rule: &HttpRouteRule, handling: Result<Handling, Unhandled>, field: &str) -> RuleSpec {
    let everything = [HttpRouteMatch::default()];
    let written = if rule.matches.is_empty() { &everything[..] } else { &rule.matches };
    let (mut sound, mut dropped) = (Vec::with_capacity(written.len()), Vec::new());
    for (index, written) in written.iter().enumerate() {
        match matches::read(index, written, field) {
            Ok(written) => sound.push(MatchSpec { index: u32::try_from(index).unwrap_or(u32::MAX), written }),
            Err(problem) => dropped.push(problem),
        }
    }
    RuleSpec {
        name: rule.name.clone().filter(|name| !name.is_empty()),
        matches: sound.into(),
        dropped: dropped.into(),
        ignored: Box::default(),
        handling,
    }
}

fn ignored(rule: &HttpRouteRule, field: &str) -> Vec<Problem> {
    let weighted =
        rule.backend_refs.iter().enumerate().filter(|(_, written)| delegates(written) && written.weight != 1);
    let problem = |(index, written): (usize, &HttpBackendRef)| {
        let message = format!("{} has no effect: routes are chosen by their matches; remove it", written.weight);
        let field = format!("{field}.backendRefs[{index}].weight");
        Problem::new(Severity::Ignored, Reason::UnsupportedValue, field, message)
    };
    weighted.map(problem).collect()
}

fn handling(rule: &HttpRouteRule, prefixes_only: bool, owner: &RouteId, field: &str) -> Result<Handling, Problem> {
    let mut handling = filters::read(&rule.filters, Level::Rule { prefixes_only, owner }, field)?;
    if handling.redirect.is_some() && !rule.backend_refs.is_empty() {
        let message = "RequestRedirect answers by itself, so no backend can be reached; remove one of the two";
        return Err(fault(Reason::IncompatibleFilters, &format!("{field}.backendRefs"), message));
    }
    if handling.direct_response().is_some() && !rule.backend_refs.is_empty() {
        let message = "a DirectResponse answers by itself, so no backend can be reached; remove one of the two";
        return Err(fault(Reason::IncompatibleFilters, &format!("{field}.backendRefs"), message));
    }
    for (index, written) in rule.backend_refs.iter().enumerate() {
        let field = format!("{field}.backendRefs[{index}]");
        if delegates(written) {
            handling.delegates.push(read_delegate(written, field)?);
        } else {
            handling.backends.push(read_backend(written, field)?);
        }
    }
    if !handling.delegates.is_empty() && !handling.backends.is_empty() {
        let message = "a rule either delegates to routes or has backends; make two rules of it";
        return Err(fault(Reason::UnsupportedValue, &format!("{field}.backendRefs"), message));
    }
    let weights = handling.backends.iter().map(|backend| backend.weight);
    validate::number::total_weight(weights).map_err(at(format!("{field}.backendRefs")))?;
    let timeouts = rule.timeouts.as_ref().map(|written| timeouts(written, field)).transpose()?;
    handling.fields.timeouts = timeouts.filter(|timeouts| *timeouts != Timeouts::default());
    handling.fields.retry = rule.retry.as_ref().map(|written| retry(written, field)).transpose()?;
    handling.fields.session = rule.session_persistence.as_ref().map(|written| session(written, field)).transpose()?;
    Ok(handling)
}

fn fault(reason: Reason, field: &str, message: &str) -> Problem {
    Problem::new(Severity::Replaced, reason, field, message)
}

fn at(field: String) -> impl FnOnce(Invalid) -> Problem {
    move |invalid| Problem::new(Severity::Replaced, Reason::UnsupportedValue, field, invalid.to_string())
}

fn read_delegate(written: &HttpBackendRef, field: String) -> Result<DelegateSpec, Problem> {
    if !written.filters.is_empty() {
        let message = "a reference to routes cannot have filters of its own; move them to the rule";
        return Err(fault(Reason::UnsupportedValue, &format!("{field}.filters"), message));
    }
    Ok(DelegateSpec { field, reference: backend_ref(&written.backend_ref) })
}

fn read_backend(written: &HttpBackendRef, field: String) -> Result<BackendSpec, Problem> {
    let weight = validate::number::weight(written.weight.into()).map_err(at(format!("{field}.weight")))?;
    let changes = filters::read(&written.filters, Level::Backend, &field).map(|Handling { fields, .. }| Changes {
        request_headers: fields.request_headers,
        response_headers: fields.response_headers,
        hostname: fields.rewrite.and_then(|rewrite| rewrite.hostname),
    });
    Ok(BackendSpec { field, policy: None, backend: backend_ref(&written.backend_ref), weight, changes })
}

/// A backend that a policy gives to rules without any.
pub(crate) fn default_backend(written: ApiBackendRef, policy: &NsName, index: usize) -> Result<BackendSpec, Problem> {
    let read = read_backend(&written.into(), format!("spec.defaultBackendRefs[{index}] of DelegationPolicy {policy}"))?;
    Ok(BackendSpec { policy: Some(policy.clone()), ..read })
}

fn timeouts(written: &HttpRouteTimeouts, field: &str) -> Result<Timeouts, Problem> {
    let parse = |duration: &Option<api::shared::Duration>, name: &str| {
        let parsed = duration.as_ref().map(|duration| validate::duration::parse(&duration.0)).transpose();
        parsed.map_err(at(format!("{field}.timeouts.{name}")))
    };
    let request = parse(&written.request, "request")?;
    let backend_request = parse(&written.backend_request, "backendRequest")?;
    if let (Some(request), Some(backend)) = (request, backend_request)
        && !request.is_zero()
        && backend > request
    {
        let message = "one try may not take longer than the whole request; shorten it, or lengthen request";
        return Err(fault(Reason::UnsupportedValue, &format!("{field}.timeouts.backendRequest"), message));
    }
    Ok(Timeouts { request, backend_request, stream_idle: None })
}

fn retry(written: &HttpRouteRetry, field: &str) -> Result<Retry, Problem> {
    let mut codes = Vec::new();
    for (index, code) in written.codes.iter().enumerate() {
        let code = validate::number::retry_status(*code).map_err(at(format!("{field}.retry.codes[{index}]")))?;
        codes.extend(u16::try_from(code));
    }
    codes.sort_unstable();
    codes.dedup();
    let attempts = match written.attempts {
        None => None,
        Some(attempts) => Some(u32::try_from(attempts).map_err(|_| {
            let invalid = Invalid::new(&attempts.to_string(), "it is not a number of retries", "use 0 or more");
            at(format!("{field}.retry.attempts"))(invalid)
        })?),
    };
    let backoff = written.backoff.as_ref().map(|duration| validate::duration::positive(&duration.0)).transpose();
    let backoff = backoff.map_err(at(format!("{field}.retry.backoff")))?;
    Ok(Retry::gateway_api(codes, attempts, backoff))
}

/// The header of a session whose author names none: clients must know it to send it again.
const SESSION_HEADER: &str = "portcullis-session";

fn session(written: &ApiSession, field: &str) -> Result<SessionPersistence, Problem> {
    let field = format!("{field}.sessionPersistence");
    let name = written.session_name.as_deref().filter(|name| !name.is_empty());
    let lifetime = written.cookie_config.as_ref().map(|config| &config.lifetime_type);
    let absolute = written.absolute_timeout.as_ref().map(|duration| validate::duration::parse(&duration.0)).transpose();
    let absolute = absolute.map_err(at(format!("{field}.absoluteTimeout")))?;
    let carrier = match &written.r#type {
        SessionPersistenceType::Cookie => {
            name.map_or(Ok(()), validate::name::cookie).map_err(at(format!("{field}.sessionName")))?;
            let ttl = match (lifetime, absolute) {
                (None | Some(CookieLifetimeType::Session), None) => None,
                (None | Some(CookieLifetimeType::Session), Some(_)) => {
                    let message = "a session cookie ends with the browser, not after a time; set \
                                   cookieConfig.lifetimeType to Permanent, or remove absoluteTimeout";
                    return Err(fault(Reason::UnsupportedValue, &format!("{field}.absoluteTimeout"), message));
                }
                (Some(CookieLifetimeType::Permanent), Some(ttl)) if !ttl.is_zero() => Some(ttl),
                (Some(CookieLifetimeType::Permanent), _) => {
                    let message = "a permanent cookie needs absoluteTimeout above zero; set it";
                    return Err(fault(
                        Reason::UnsupportedValue,
                        &format!("{field}.cookieConfig.lifetimeType"),
                        message,
                    ));
                }
                (Some(CookieLifetimeType::Unknown(other)), _) => {
                    let invalid = Invalid::new(other, "it is not a lifetime of a cookie", "use Session or Permanent");
                    return Err(at(format!("{field}.cookieConfig.lifetimeType"))(invalid));
                }
            };
            SessionCarrier::Cookie { name: name.map(Arc::from), path: "/".into(), ttl }
        }
        SessionPersistenceType::Header => {
            if absolute.is_some() {
                let message = "Envoy cannot end a session that travels in a header; remove it, or use a cookie";
                return Err(fault(Reason::UnsupportedValue, &format!("{field}.absoluteTimeout"), message));
            }
            let name = validate::name::session_header(name.unwrap_or(SESSION_HEADER))
                .map_err(at(format!("{field}.sessionName")))?;
            SessionCarrier::Header { name: name.into() }
        }
        SessionPersistenceType::Unknown(other) => {
            let invalid = Invalid::new(other, "it is no way to carry a session", "use Cookie or Header");
            return Err(at(format!("{field}.type"))(invalid));
        }
    };
    Ok(SessionPersistence { carrier })
}
