//! Which endpoints get requests, and how many at a time.

use std::time::Duration;

use ir::upstream::{Breakers, HealthCheck, HealthCheckBy, OutlierDetection};
use serde::Deserialize;

use super::connection::count;
use crate::{Refused, spec};

/// How often each proxy may ask each endpoint.
const LEAST_INTERVAL: Duration = Duration::from_millis(100);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct BreakersSpec {
    max_connections: Option<i64>,
    max_pending_requests: Option<i64>,
    max_requests: Option<i64>,
    max_retries: Option<i64>,
    #[serde(default)]
    track_remaining: bool,
}

pub(super) fn breakers(written: &BreakersSpec) -> Result<Breakers, Refused> {
    let read = Breakers {
        connections: count(written.max_connections, 1, "maxConnections")?,
        pending_requests: count(written.max_pending_requests, 1, "maxPendingRequests")?,
        requests: count(written.max_requests, 1, "maxRequests")?,
        retries: count(written.max_retries, 0, "maxRetries")?,
        track_remaining: written.track_remaining,
    };
    let none = Breakers { track_remaining: read.track_remaining, ..Breakers::default() };
    if read == none {
        let message = "at least one of maxConnections, maxPendingRequests, maxRequests and maxRetries must be set";
        return Err(Refused::new("", message));
    }
    Ok(read)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct CheckSpec {
    timeout: String,
    interval: String,
    unhealthy_threshold: i64,
    healthy_threshold: i64,
    http: Option<HttpSpec>,
    grpc: Option<GrpcSpec>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct HttpSpec {
    path: String,
    host: Option<String>,
    method: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct GrpcSpec {
    service_name: Option<String>,
    authority: Option<String>,
}

const METHODS: [&str; 8] = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH"];

pub(super) fn check(written: &CheckSpec) -> Result<HealthCheck, Refused> {
    let by = match (&written.http, &written.grpc) {
        (Some(http), None) => {
            if !http.path.starts_with('/') {
                return Err(Refused::new(
                    "http.path",
                    format!("{:?} begins with no slash; write a path such as /healthz", http.path),
                ));
            }
            validate::header::value(&http.path).map_err(Refused::at("http.path"))?;
            let method = http.method.as_deref().unwrap_or("GET");
            let method = METHODS.into_iter().find(|known| *known == method);
            let refuse = || {
                Refused::new(
                    "http.method",
                    format!("it is no method that can be sent; use one of {}", METHODS.join(", ")),
                )
            };
            HealthCheckBy::Http {
                host: host(http.host.as_deref(), "http.host")?,
                path: http.path.as_str().into(),
                method: method.ok_or_else(refuse)?,
            }
        }
        (None, Some(grpc)) => {
            let service = grpc.service_name.as_deref().unwrap_or_default();
            if service.chars().any(char::is_control) || service.len() > 1024 {
                return Err(Refused::new("grpc.serviceName", "it is no name of a service; correct it"));
            }
            HealthCheckBy::Grpc {
                service: service.into(),
                authority: host(grpc.authority.as_deref(), "grpc.authority")?,
            }
        }
        _ => return Err(Refused::new("", "exactly one of http and grpc must be set; name one")),
    };
    let interval = spec::positive(Some(&written.interval), "interval")?.unwrap_or_default();
    if interval < LEAST_INTERVAL {
        return Err(Refused::new(
            "interval",
            "each proxy would ask each endpoint more than ten times a second; use 100ms or more",
        ));
    }
    Ok(HealthCheck {
        timeout: spec::positive(Some(&written.timeout), "timeout")?.unwrap_or_default(),
        interval,
        unhealthy: count(Some(written.unhealthy_threshold), 0, "unhealthyThreshold")?.unwrap_or_default(),
        healthy: count(Some(written.healthy_threshold), 0, "healthyThreshold")?.unwrap_or_default(),
        by,
    })
}

fn host(written: Option<&str>, field: &str) -> Result<std::sync::Arc<str>, Refused> {
    match written.filter(|host| !host.is_empty()) {
        None => Ok("".into()),
        Some(host) => validate::hostname::authority(host).map(|()| host.into()).map_err(Refused::at(field)),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct OutliersSpec {
    base_ejection_time: Option<String>,
    #[serde(rename = "consecutive5xx")]
    consecutive_5xx: Option<i64>,
    consecutive_local_origin_failure: Option<i64>,
    #[serde(rename = "enforcingConsecutive5xx")]
    enforcing_consecutive_5xx: Option<i64>,
    enforcing_consecutive_local_origin_failure: Option<i64>,
    interval: Option<String>,
    max_ejection_percent: Option<i64>,
    #[serde(default)]
    split_external_local_origin_errors: bool,
}

pub(super) fn outliers(written: &OutliersSpec) -> Result<OutlierDetection, Refused> {
    let interval = spec::positive(written.interval.as_deref(), "interval")?;
    if interval.is_some_and(|interval| interval < LEAST_INTERVAL) {
        return Err(Refused::new("interval", "each proxy would look more than ten times a second; use 100ms or more"));
    }
    Ok(OutlierDetection {
        consecutive_5xx: count(written.consecutive_5xx.or(Some(5)), 0, "consecutive5xx")?,
        interval: interval.or(Some(Duration::from_secs(10))),
        base_ejection_time: spec::positive(written.base_ejection_time.as_deref(), "baseEjectionTime")?
            .or(Some(Duration::from_secs(30))),
        max_ejection_percent: spec::percent(written.max_ejection_percent.or(Some(10)), "maxEjectionPercent")?,
        enforcing_consecutive_5xx: spec::percent(written.enforcing_consecutive_5xx, "enforcingConsecutive5xx")?,
        split_local: written.split_external_local_origin_errors,
        consecutive_local: count(written.consecutive_local_origin_failure, 0, "consecutiveLocalOriginFailure")?,
        enforcing_consecutive_local: spec::percent(
            written.enforcing_consecutive_local_origin_failure,
            "enforcingConsecutiveLocalOriginFailure",
        )?,
    })
}
