//! Rules across fields of a GatewayExtension, and what its durations must be.

use std::time::Duration;

use super::{
    Backoff, ExtAuth, ExtProc, GatewayExtensionSpec, GrpcService, HttpService, Jwt, JwtProvider, OAuth2, RateLimit,
    RemoteJwks, Retry,
};
use crate::{
    schema::rules::{Broken, reference::service_port},
    shared::{BackendObjectReference, parse_duration},
};

/// The shortest that most durations may be.
const SHORTEST: Duration = Duration::from_millis(1);

pub(super) fn check(spec: &GatewayExtensionSpec, broken: &mut Broken) {
    let set: Vec<_> = spec.members().into_iter().filter_map(|(name, set)| set.then_some(name)).collect();
    if set.len() != 1 {
        let has = if set.is_empty() { "none".to_owned() } else { set.join(" and ") };
        let message = format!("must have exactly one of extAuth, extProc, rateLimit, jwt and oauth2, and has {has}");
        broken.add_without_value("spec", message);
    }
    if let Some(ext_auth) = &spec.ext_auth {
        of_ext_auth(ext_auth, broken);
    }
    if let Some(ext_proc) = &spec.ext_proc {
        of_ext_proc(ext_proc, broken);
    }
    if let Some(rate_limit) = &spec.rate_limit {
        of_rate_limit(rate_limit, broken);
    }
    if let Some(jwt) = &spec.jwt {
        of_jwt(jwt, broken);
    }
    if let Some(oauth2) = &spec.oauth2 {
        of_oauth2(oauth2, broken);
    }
}

fn of_ext_auth(ext_auth: &ExtAuth, broken: &mut Broken) {
    let ExtAuth { grpc_service, http_service, .. } = ext_auth;
    if grpc_service.is_some() == http_service.is_some() {
        broken.add_without_value("spec.extAuth", "must have exactly one of grpcService and httpService");
    }
    if let Some(service) = grpc_service {
        of_grpc_service(service, "spec.extAuth.grpcService", broken);
    }
    if let Some(HttpService { backend_ref, request_timeout, retry, .. }) = http_service {
        let path = "spec.extAuth.httpService";
        service_port(&backend_ref.backend_ref, &format!("{path}.backendRef"), broken);
        duration(request_timeout.as_deref(), &format!("{path}.requestTimeout"), SHORTEST, broken);
        of_retry(retry.as_ref(), &format!("{path}.retry"), broken);
    }
}

fn of_ext_proc(ext_proc: &ExtProc, broken: &mut Broken) {
    of_grpc_service(&ext_proc.grpc_service, "spec.extProc.grpcService", broken);
    duration(ext_proc.message_timeout.as_deref(), "spec.extProc.messageTimeout", SHORTEST, broken);
    duration(ext_proc.max_message_timeout.as_deref(), "spec.extProc.maxMessageTimeout", SHORTEST, broken);
}

fn of_rate_limit(rate_limit: &RateLimit, broken: &mut Broken) {
    of_grpc_service(&rate_limit.grpc_service, "spec.rateLimit.grpcService", broken);
    duration(Some(&rate_limit.timeout), "spec.rateLimit.timeout", Duration::ZERO, broken);
}

fn of_jwt(jwt: &Jwt, broken: &mut Broken) {
    for (index, JwtProvider { jwks, token_source, .. }) in jwt.providers.iter().enumerate() {
        let path = format!("spec.jwt.providers[{index}]");
        if jwks.local.is_some() == jwks.remote.is_some() {
            broken.add_without_value(format!("{path}.jwks"), "must have exactly one of local and remote");
        }
        if let Some(local) = &jwks.local
            && local.inline.is_some() == local.config_map_ref.is_some()
        {
            let message = "must have exactly one of inline and configMapRef";
            broken.add_without_value(format!("{path}.jwks.local"), message);
        }
        if let Some(source) = token_source
            && source.header.is_some() == source.query_parameter.is_some()
        {
            let message = "must have exactly one of header and queryParameter";
            broken.add_without_value(format!("{path}.tokenSource"), message);
        }
        if let Some(RemoteJwks { backend_ref, cache_duration, async_fetch, retry_policy, .. }) = &jwks.remote {
            let path = format!("{path}.jwks.remote");
            service_port(backend_ref, &format!("{path}.backendRef"), broken);
            duration(cache_duration.as_deref(), &format!("{path}.cacheDuration"), SHORTEST, broken);
            let again = async_fetch.as_ref().and_then(|fetch| fetch.failed_refetch_duration.as_deref());
            duration(again, &format!("{path}.asyncFetch.failedRefetchDuration"), SHORTEST, broken);
            let back_off = retry_policy.as_ref().and_then(|policy| policy.back_off.as_ref());
            of_backoff(back_off, &format!("{path}.retryPolicy.backOff"), broken);
        }
    }
}

fn of_oauth2(oauth2: &OAuth2, broken: &mut Broken) {
    let OAuth2 { backend_ref, issuer_uri, authorization_endpoint, token_endpoint, cookies, jwt, .. } = oauth2;
    service_port(&backend_ref.backend_ref, "spec.oauth2.backendRef", broken);
    if issuer_uri.is_none() && (authorization_endpoint.is_none() || token_endpoint.is_none()) {
        let message = "must have issuerURI, or both authorizationEndpoint and tokenEndpoint";
        broken.add_without_value("spec.oauth2", message);
    }
    let Some(jwt) = jwt else { return };
    if let Some(backend) = &jwt.jwks_backend_ref {
        let backend: &BackendObjectReference = backend;
        service_port(backend, "spec.oauth2.jwt.jwksBackendRef", broken);
    }
    let parses = jwt.access_token.is_some() || jwt.id_token.is_some();
    if parses && issuer_uri.is_none() && jwt.jwks_uri.is_none() {
        broken.add_without_value("spec.oauth2.jwt", "must have jwksURI, unless issuerURI is set beside it");
    }
    let Some(cookies) = cookies else { return };
    if jwt.access_token.is_some() && cookies.disable_access_token_set_cookie == Some(true) {
        let message = "must not be set where jwt.accessToken is read: the token is in that cookie";
        broken.add_without_value("spec.oauth2.cookies.disableAccessTokenSetCookie", message);
    }
    if jwt.id_token.is_some() && cookies.disable_id_token_set_cookie == Some(true) {
        let message = "must not be set where jwt.idToken is read: the token is in that cookie";
        broken.add_without_value("spec.oauth2.cookies.disableIDTokenSetCookie", message);
    }
}

fn of_grpc_service(service: &GrpcService, path: &str, broken: &mut Broken) {
    service_port(&service.backend_ref.backend_ref, &format!("{path}.backendRef"), broken);
    duration(service.request_timeout.as_deref(), &format!("{path}.requestTimeout"), SHORTEST, broken);
    of_retry(service.retry.as_ref(), &format!("{path}.retry"), broken);
}

fn of_retry(retry: Option<&Retry>, path: &str, broken: &mut Broken) {
    of_backoff(retry.and_then(|retry| retry.backoff.as_ref()), &format!("{path}.backoff"), broken);
}

fn of_backoff(backoff: Option<&Backoff>, path: &str, broken: &mut Broken) {
    let Some(Backoff { base_interval, max_interval }) = backoff else { return };
    let base = duration(Some(base_interval), &format!("{path}.baseInterval"), SHORTEST, broken);
    let max = duration(max_interval.as_deref(), &format!("{path}.maxInterval"), Duration::ZERO, broken);
    if let (Some(base), Some(max)) = (base, max)
        && max < base
    {
        broken.add_without_value(format!("{path}.maxInterval"), "must not be shorter than baseInterval");
    }
}

/// The duration at `path`, if it is one.
fn duration(text: Option<&str>, path: &str, shortest: Duration, broken: &mut Broken) -> Option<Duration> {
    let text = text?;
    match parse_duration(text) {
        Ok(duration) if duration >= shortest => return Some(duration),
        Ok(_) => broken.add(path, text, "must be at least 1ms"),
        Err(why) => broken.add(path, text, why),
    }
    None
}
