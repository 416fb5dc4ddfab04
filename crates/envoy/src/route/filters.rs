//! What an Envoy route does besides choosing a cluster: headers, mirrors, retries, CORS, sessions.

use std::{borrow::Cow, sync::Arc, time::Duration};

use envoy_types::pb::{
    envoy::{
        config::{
            core::v3::{
                HeaderValue, HeaderValueOption, RuntimeFractionalPercent, TypedExtensionConfig,
                header_value_option::HeaderAppendAction,
            },
            route::v3::{
                InternalRedirectPolicy, RetryPolicy,
                retry_policy::{RetryBackOff, RetryHostPredicate, retry_host_predicate},
                route_action::RequestMirrorPolicy,
            },
        },
        extensions::{
            filters::http::{
                cors::v3::CorsPolicy,
                stateful_session::v3::{StatefulSession, StatefulSessionPerRoute, stateful_session_per_route},
            },
            http::stateful_session::{cookie::v3::CookieBasedSessionState, header::v3::HeaderBasedSessionState},
            retry::host::previous_hosts::v3::PreviousHostsPredicate,
        },
        r#type::{
            http::v3::Cookie,
            matcher::v3::{StringMatcher, string_matcher::MatchPattern},
            v3::{FractionalPercent, fractional_percent::DenominatorType},
        },
    },
    google::protobuf::Any,
};
use ir::{
    RouteKind,
    filter::{Cors, HeaderModifier, Mirror},
    rule::{InternalRedirect, MirrorHost, Rule, SessionCarrier, SessionPersistence, Slot, Source},
};
use prost::Message;

use super::{
    matching::{regex, string},
    path::quoted,
};
use crate::bytes::{any, short_name, version};
use crate::{boolean, duration, extension, slots, uint32};

pub(super) fn headers_to_add(modifier: &HeaderModifier) -> Vec<HeaderValueOption> {
    let option = |(name, value): &(Arc<str>, Arc<str>), action: HeaderAppendAction| {
        HeaderValueOption {
            header: Some(HeaderValue {
                key: name.to_string(),
                // A percent sign begins a variable, which the author of a route has no business with.
                value: value.replace('%', "%%"),
                ..HeaderValue::default()
            }),
            append_action: action as i32,
            keep_empty_value: value.is_empty(),
            ..HeaderValueOption::default()
        }
    };
    let set = modifier.set.iter().map(|header| option(header, HeaderAppendAction::OverwriteIfExistsOrAdd));
    let add = modifier.add.iter().map(|header| option(header, HeaderAppendAction::AppendIfExistsOrAdd));
    set.chain(add).collect()
}

pub(super) fn headers_to_remove(modifier: &HeaderModifier) -> Vec<String> {
    modifier.remove.iter().map(ToString::to_string).collect()
}

pub(super) fn mirror(mirror: &Mirror, host: &MirrorHost) -> RequestMirrorPolicy {
    RequestMirrorPolicy {
        cluster: mirror.cluster.to_string(),
        runtime_fraction: mirror.fraction.map(|(numerator, denominator)| RuntimeFractionalPercent {
            default_value: Some(fraction(numerator, denominator)),
            ..RuntimeFractionalPercent::default()
        }),
        // A copy is a copy, its host included, unless somebody says otherwise.
        disable_shadow_host_suffix_append: !host.shadow,
        host_rewrite_literal: host.literal.as_deref().unwrap_or_default().into(),
        ..RequestMirrorPolicy::default()
    }
}

pub(super) fn internal_redirect(redirect: &InternalRedirect) -> InternalRedirectPolicy {
    InternalRedirectPolicy {
        max_internal_redirects: Some(uint32(redirect.most)),
        redirect_response_codes: redirect.codes.clone(),
        allow_cross_scheme_redirect: redirect.cross_scheme,
        response_headers_to_copy: redirect.copied.iter().map(ToString::to_string).collect(),
        ..InternalRedirectPolicy::default()
    }
}

/// Exact where Envoy's denominators allow it, else to the nearest millionth; never zero unless it is.
fn fraction(numerator: u32, denominator: u32) -> FractionalPercent {
    let (numerator, denominator) = (u64::from(numerator.min(denominator)), u64::from(denominator.max(1)));
    let scales = [
        (100, DenominatorType::Hundred),
        (10_000, DenominatorType::TenThousand),
        (1_000_000, DenominatorType::Million),
    ];
    let exact = scales.into_iter().find(|(scale, _)| (numerator * scale) % denominator == 0);
    let (scale, kind) = exact.unwrap_or((1_000_000, DenominatorType::Million));
    let rounded = (numerator * scale + denominator / 2) / denominator;
    let rounded = if numerator > 0 { rounded.max(1) } else { 0 };
    FractionalPercent { numerator: u32::try_from(rounded).unwrap_or_default(), denominator: kind as i32 }
}

/// Retries and the time that one try may take, which Envoy keeps in one message.
pub(super) fn retry_policy(rule: &Rule) -> Option<RetryPolicy> {
    let per_try_timeout = rule.timeouts.backend_request.filter(|timeout| !timeout.is_zero()).map(duration);
    let Some(retry) = &rule.retry else {
        return per_try_timeout.map(|timeout| RetryPolicy { per_try_timeout: Some(timeout), ..RetryPolicy::default() });
    };
    let conditions: Vec<_> = retry.conditions.iter().map(AsRef::as_ref).collect();
    Some(RetryPolicy {
        retry_on: conditions.join(","),
        num_retries: Some(uint32(retry.attempts.unwrap_or(1))),
        per_try_timeout,
        retriable_status_codes: retry.codes.iter().map(|code| u32::from(*code)).collect(),
        retry_back_off: retry.backoff.filter(|backoff| !backoff.is_zero()).map(back_off),
        // Another endpoint, if there is one.
        retry_host_predicate: vec![RetryHostPredicate {
            name: "envoy.retry_host_predicates.previous_hosts".into(),
            config_type: Some(retry_host_predicate::ConfigType::TypedConfig(any(&PreviousHostsPredicate {}))),
        }],
        host_selection_retry_max_attempts: 3,
        ..RetryPolicy::default()
    })
}

/// Where an interval ends to grow: some hundred years. Envoy refuses one whose nanoseconds do not fit 64 bits.
const LONGEST: Duration = Duration::from_hours(876_000);

fn back_off(longest_first: Duration) -> RetryBackOff {
    let base = longest_first.max(Duration::from_millis(1));
    RetryBackOff {
        base_interval: Some(duration(base.min(LONGEST))),
        max_interval: Some(duration(base.saturating_mul(10).min(LONGEST))),
    }
}

/// Configuration of the filters that a rule switches on, by filter.
pub(super) fn per_filter_config<'a>(source: &Source, rule: &'a Rule) -> Vec<(&'static str, Cow<'a, [u8]>)> {
    let written = |slot: Slot| (slot.name, slot.config.to_vec().into());
    let cors = rule.filters.cors.iter().flat_map(|cors| [self::cors(cors), slots::off(slots::CORS_WIDE)]).map(written);
    let session = rule
        .session
        .as_ref()
        .map(|session| (extension::STATEFUL_SESSION, any(&stateful_session(source, session)).encode_to_vec().into()));
    // Whatever becomes of a call, its browser must be able to read it.
    let web = (source.route.kind == RouteKind::GrpcRoute).then(|| slots::on(slots::GRPC_WEB)).map(written);
    let slots = rule.slots.iter().map(|Slot { name, config, .. }| (*name, Cow::Borrowed(&**config)));
    cors.chain(session).chain(web).chain(slots).collect()
}

/// What rules for other origins say in their slot, with the expressions in it.
pub fn cors(cors: &Cors) -> Slot {
    let patterns = cors.allow_origins.iter().filter_map(|origin| match validate::cors::origin(origin) {
        Ok(validate::cors::Origin::Pattern(pattern)) => Some(pattern.into_string().into()),
        _ => None,
    });
    Slot { patterns: patterns.collect(), ..slots::slot(slots::CORS, &cors_policy(cors)) }
}

fn cors_policy(cors: &Cors) -> CorsPolicy {
    let expose_headers = cors.expose_headers.iter().filter(|name| !(cors.allow_credentials && &***name == "*"));
    CorsPolicy {
        allow_origin_string_match: cors.allow_origins.iter().map(|origin| origin_match(origin)).collect(),
        allow_methods: joined(&cors.allow_methods),
        allow_headers: joined(&cors.allow_headers),
        expose_headers: joined(expose_headers),
        // Gateway API's default.
        max_age: cors.max_age.map_or(5, |age| age.as_secs()).to_string(),
        allow_credentials: cors.allow_credentials.then(|| boolean(true)),
        // A backend that answers preflight requests itself would be asked past these rules.
        forward_not_matching_preflights: Some(boolean(false)),
        ..CorsPolicy::default()
    }
}

fn joined<'a>(names: impl IntoIterator<Item = &'a Arc<str>>) -> String {
    names.into_iter().map(|name| &**name).collect::<Vec<_>>().join(", ")
}

/// A wildcard takes any number of labels, never a port; a port that the scheme implies counts as left out, which is
/// how browsers write it.
fn origin_match(origin: &str) -> StringMatcher {
    if origin == "*" {
        return string(MatchPattern::SafeRegex(regex(".*".into())));
    }
    let origin = origin.to_ascii_lowercase();
    let origin = match origin.split_once("://") {
        Some(("http", rest)) => rest.strip_suffix(":80").map(|host| format!("http://{host}")),
        Some(("https", rest)) => rest.strip_suffix(":443").map(|host| format!("https://{host}")),
        _ => None,
    }
    .unwrap_or(origin);
    if origin.contains('*') {
        let pattern = origin.split('*').map(quoted).collect::<Vec<_>>().join("[^/:]+");
        string(MatchPattern::SafeRegex(regex(pattern)))
    } else {
        string(MatchPattern::Exact(origin))
    }
}

/// The cookie of a rule that names none: one of its own, since two that share a name and a host overwrite each other.
fn cookie_name(source: &Source) -> String {
    let Source { route, rule, rule_name, .. } = source;
    // A name stays where rules are added before it, a place does not. Neither part before it has a slash.
    let rule = rule_name.as_ref().map_or_else(|| rule.to_string(), |name| format!("/{name}"));
    let hash = version([format!("{}/{}/{rule}", route.kind, route.name).as_bytes()]);
    format!("portcullis-session-{}", short_name(&hash))
}

fn stateful_session(source: &Source, session: &SessionPersistence) -> StatefulSessionPerRoute {
    let (name, state) = match &session.carrier {
        SessionCarrier::Cookie { name, path, ttl } => {
            let name = name.as_ref().map_or_else(|| cookie_name(source), ToString::to_string);
            let cookie = Cookie { name, path: path.to_string(), ttl: ttl.map(duration), ..Cookie::default() };
            let state = CookieBasedSessionState { cookie: Some(cookie) };
            ("envoy.http.stateful_session.cookie", any(&state))
        }
        SessionCarrier::Header { name } => {
            let state = HeaderBasedSessionState { name: name.to_string() };
            ("envoy.http.stateful_session.header", any(&state))
        }
    };
    StatefulSessionPerRoute {
        r#override: Some(stateful_session_per_route::Override::StatefulSession(session_state(name, state))),
    }
}

/// Not strict: a session whose backend is gone begins anew elsewhere.
fn session_state(name: &str, state: Any) -> StatefulSession {
    StatefulSession {
        session_state: Some(TypedExtensionConfig { name: name.into(), typed_config: Some(state) }),
        ..StatefulSession::default()
    }
}
