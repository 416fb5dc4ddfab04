//! Reading rules (Gateway API `HTTPRouteRule`).

use std::sync::Arc;

use api::{
    http_route::{HttpBackendRef, HttpRouteMatch, HttpRouteRetry, HttpRouteRule, HttpRouteTimeouts, PathMatchType},
    shared::{
        BackendObjectReference, BackendRef, CookieLifetimeType, SessionPersistence as ApiSession,
        SessionPersistenceType,
    },
};
use ir::{
    NsName, Problem, Severity,
    filter::{HeaderModifier, Rewrite},
    matching::Match,
    rule::{Retry, SessionCarrier, SessionPersistence, Timeouts},
};
use validate::{self, Invalid};

use super::{
    filters::{self, Level, ReadFilters},
    matches,
};
use crate::delegation::is_delegate;

/// A rule as its own text decides it; backends are still references.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReadRule {
    /// Its name, if it has one.
    pub(crate) name: Option<Arc<str>>,
    /// What it matches: the matches that can be expressed.
    pub(crate) matches: Vec<ReadMatch>,
    /// Matches that were dropped.
    pub(crate) dropped: Vec<Problem>,
    /// What has no effect.
    pub(crate) ignored: Vec<Problem>,
    /// What it does, or why it is replaced.
    pub(crate) does: Result<Does, Problem>,
}

/// What a sound rule does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Does {
    pub(crate) filters: ReadFilters,
    /// Where its requests go, unless it delegates.
    pub(crate) backends: Vec<ReadBackend>,
    /// Whom it delegates to, unless it has backends.
    pub(crate) delegates: Vec<ReadDelegate>,
    pub(crate) timeouts: Timeouts,
    pub(crate) retry: Option<Retry>,
    pub(crate) session: Option<SessionPersistence>,
}

/// A share of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReadBackend {
    /// Where it stands.
    pub(crate) field: String,
    /// The DelegationPolicy whose default it is; none for one of the rule's own.
    pub(crate) policy: Option<NsName>,
    pub(crate) backend: BackendObjectReference,
    pub(crate) weight: u32,
    /// What is changed for this share alone, or why the share is broken.
    pub(crate) changes: Result<Changes, Problem>,
}

/// A reference to routes that a rule delegates to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReadDelegate {
    /// Where it stands.
    pub(crate) field: String,
    pub(crate) reference: BackendObjectReference,
}

/// What is changed for one share alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    pub(crate) request_headers: HeaderModifier,
    pub(crate) response_headers: HeaderModifier,
    pub(crate) hostname: Option<Arc<str>>,
}

impl Changes {
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A match that can be expressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReadMatch {
    /// Its place in the rule.
    pub(crate) index: u32,
    /// The match itself.
    pub(crate) written: Match,
}

/// Reads a rule that stands at `field`.
pub(crate) fn read(rule: &HttpRouteRule, field: &str) -> ReadRule {
    let (matches, dropped) = read_matches(rule, field);
    let prefixes_only = rule.matches.iter().all(|written| written.path.r#type == PathMatchType::PathPrefix);
    ReadRule {
        name: rule.name.clone().filter(|name| !name.is_empty()),
        matches,
        dropped,
        ignored: ignored(rule, field),
        does: does(rule, prefixes_only, field),
    }
}

/// The matches of a rule, and those that were dropped.
pub(crate) fn read_matches(rule: &HttpRouteRule, field: &str) -> (Vec<ReadMatch>, Vec<Problem>) {
    let everything = [HttpRouteMatch::default()];
    let written = if rule.matches.is_empty() { &everything[..] } else { &rule.matches };
    let mut read_matches = Vec::new();
    let mut dropped = Vec::new();
    for (index, written) in written.iter().enumerate() {
        match matches::read(index, written, field) {
            Ok(written) => read_matches.push(ReadMatch { index: u32::try_from(index).unwrap_or(u32::MAX), written }),
            Err(problem) => dropped.push(problem),
        }
    }
    // These rows stay as long as the route: no spare room.
    read_matches.shrink_to_fit();
    (read_matches, dropped)
}

/// Whether a reference means routes.
pub(crate) fn delegates(written: &HttpBackendRef) -> bool {
    is_delegate(&written.backend_ref)
}

fn ignored(rule: &HttpRouteRule, field: &str) -> Vec<Problem> {
    let weighted =
        rule.backend_refs.iter().enumerate().filter(|(_, written)| delegates(written) && written.weight != 1);
    let problem = |(index, written): (usize, &HttpBackendRef)| {
        let message = format!("{} has no effect: routes are chosen by their matches; remove it", written.weight);
        let field = format!("{field}.backendRefs[{index}].weight");
        Problem::new(Severity::Ignored, "UnsupportedValue", field, message)
    };
    weighted.map(problem).collect()
}

fn does(rule: &HttpRouteRule, prefixes_only: bool, field: &str) -> Result<Does, Problem> {
    let filters = filters::read(&rule.filters, Level::Rule { prefixes_only }, field)?;
    if filters.redirect.is_some() && !rule.backend_refs.is_empty() {
        let message = "RequestRedirect answers by itself, so no backend can be reached; remove one of the two";
        return Err(fault("IncompatibleFilters", &format!("{field}.backendRefs"), message));
    }
    if filters.direct_response().is_some() && !rule.backend_refs.is_empty() {
        let message = "a DirectResponse answers by itself, so no backend can be reached; remove one of the two";
        return Err(fault("IncompatibleFilters", &format!("{field}.backendRefs"), message));
    }
    let mut backends = Vec::with_capacity(rule.backend_refs.len());
    let mut delegates = Vec::new();
    for (index, backend) in rule.backend_refs.iter().enumerate() {
        let field = format!("{field}.backendRefs[{index}]");
        if is_delegate(&backend.backend_ref) {
            delegates.push(read_delegate(backend, field)?);
        } else {
            backends.push(read_backend(backend, field)?);
        }
    }
    if !delegates.is_empty() && !backends.is_empty() {
        let message = "a rule either delegates to routes or has backends; make two rules of it";
        return Err(fault("UnsupportedValue", &format!("{field}.backendRefs"), message));
    }
    let weights = backends.iter().map(|backend| backend.weight);
    validate::number::total_weight(weights).map_err(at(format!("{field}.backendRefs")))?;
    let timeouts = rule.timeouts.as_ref().map_or(Ok(Timeouts::default()), |written| timeouts(written, field))?;
    Ok(Does {
        filters,
        backends,
        delegates,
        timeouts,
        retry: rule.retry.as_ref().map(|written| retry(written, field)).transpose()?,
        session: rule.session_persistence.as_ref().map(|written| session(written, field)).transpose()?,
    })
}

fn fault(reason: &'static str, field: &str, message: &str) -> Problem {
    Problem::new(Severity::Replaced, reason, field, message)
}

fn at(field: String) -> impl FnOnce(Invalid) -> Problem {
    move |invalid| Problem::new(Severity::Replaced, "UnsupportedValue", field, invalid.to_string())
}

fn read_delegate(written: &HttpBackendRef, field: String) -> Result<ReadDelegate, Problem> {
    if !written.filters.is_empty() {
        let message = "a reference to routes cannot have filters of its own; move them to the rule";
        return Err(fault("UnsupportedValue", &format!("{field}.filters"), message));
    }
    Ok(ReadDelegate { field, reference: written.backend_ref.clone() })
}

fn read_backend(written: &HttpBackendRef, field: String) -> Result<ReadBackend, Problem> {
    let weight = validate::number::weight(written.weight.into()).map_err(at(format!("{field}.weight")))?;
    let changes = filters::read(&written.filters, Level::Backend, &field).map(|read| {
        let Rewrite { hostname, .. } = read.filters.rewrite;
        Changes {
            request_headers: read.filters.request_headers,
            response_headers: read.filters.response_headers,
            hostname,
        }
    });
    Ok(ReadBackend { field, policy: None, backend: written.backend_ref.clone(), weight, changes })
}

/// A backend that a policy gives to rules without any.
pub(crate) fn default_backend(written: BackendRef, policy: &NsName, index: usize) -> Result<ReadBackend, Problem> {
    let read = read_backend(&written.into(), format!("spec.defaultBackendRefs[{index}] of DelegationPolicy {policy}"))?;
    Ok(ReadBackend { policy: Some(policy.clone()), ..read })
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
        return Err(fault("UnsupportedValue", &format!("{field}.timeouts.backendRequest"), message));
    }
    Ok(Timeouts { request, backend_request })
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
    Ok(Retry { codes, attempts, backoff: backoff.map_err(at(format!("{field}.retry.backoff")))? })
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
                    return Err(fault("UnsupportedValue", &format!("{field}.absoluteTimeout"), message));
                }
                (Some(CookieLifetimeType::Permanent), Some(ttl)) if !ttl.is_zero() => Some(ttl),
                (Some(CookieLifetimeType::Permanent), _) => {
                    let message = "a permanent cookie needs absoluteTimeout above zero; set it";
                    return Err(fault("UnsupportedValue", &format!("{field}.cookieConfig.lifetimeType"), message));
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
                return Err(fault("UnsupportedValue", &format!("{field}.absoluteTimeout"), message));
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
