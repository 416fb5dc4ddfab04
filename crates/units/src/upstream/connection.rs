//! Connections and what is spoken on them.

use std::time::Duration;

use ir::upstream::{Dns, Http1Options, Http2Options, HttpOptions, Keepalive, Ping, ProxyProtocol};
use serde::Deserialize;
use serde_json::Value;

use crate::{Refused, spec};

/// The most that a backend may send ahead, or that is buffered for it, of each connection or stream: a proxy keeps it in
/// memory for all tenants.
const MOST_BYTES: i64 = 16 << 20;

/// How often a connection may be asked whether it is still there.
const LEAST_PING: Duration = Duration::from_secs(1);

/// What Linux takes.
const MOST_KEEPALIVE_SECONDS: u64 = 32_767;
const MOST_PROBES: i64 = 127;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeepaliveSpec {
    #[serde(rename = "keepAliveProbes")]
    probes: Option<i64>,
    #[serde(rename = "keepAliveTime")]
    time: Option<String>,
    #[serde(rename = "keepAliveInterval")]
    interval: Option<String>,
}

pub(crate) fn keepalive(written: &KeepaliveSpec) -> Result<Keepalive, Refused> {
    let seconds = |text: Option<&str>, field: &str| -> Result<Option<u32>, Refused> {
        let Some(duration) = spec::optional(text, field)? else { return Ok(None) };
        let whole = duration.as_secs();
        if !(1..=MOST_KEEPALIVE_SECONDS).contains(&whole) || duration.subsec_nanos() > 0 {
            let message = format!("it must be whole seconds, 1s to {MOST_KEEPALIVE_SECONDS}s; correct it");
            return Err(Refused::new(field, message));
        }
        Ok(u32::try_from(whole).ok())
    };
    Ok(Keepalive {
        probes: written.probes.map(|probes| number(probes, 1, MOST_PROBES, "keepAliveProbes")).transpose()?,
        time: seconds(written.time.as_deref(), "keepAliveTime")?,
        interval: seconds(written.interval.as_deref(), "keepAliveInterval")?,
    })
}

/// A number between bounds that fit 32 bits.
pub(super) fn number(value: i64, least: i64, most: i64, field: &str) -> Result<u32, Refused> {
    u32::try_from(value)
        .ok()
        .filter(|_| (least..=most).contains(&value))
        .ok_or_else(|| Refused::new(field, format!("{value} is out of range; use a number from {least} to {most}")))
}

/// A number above zero.
pub(super) fn count(value: Option<i64>, least: i64, field: &str) -> Result<Option<u32>, Refused> {
    value.map(|value| number(value, least, i32::MAX.into(), field)).transpose()
}

/// A count of bytes that a proxy may keep.
pub(super) fn bounded_bytes(bytes: i64, least: i64, field: &str) -> Result<u32, Refused> {
    number(bytes, least, MOST_BYTES, field)
}

/// A quantity of bytes, as Kubernetes writes them.
pub(crate) fn quantity(value: &Value, field: &str) -> Result<i64, Refused> {
    match value {
        Value::Number(number) => number.as_i64().ok_or_else(|| Refused::new(field, "must be whole; correct it")),
        Value::String(text) => {
            let bytes = validate::quantity::bytes(text).map_err(Refused::at(field))?;
            Ok(i64::try_from(bytes).unwrap_or(i64::MAX))
        }
        _ => Err(Refused::new(field, "must be a quantity such as 64Ki; correct it")),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct HttpSpec {
    idle_timeout: Option<String>,
    max_headers_count: Option<i64>,
    max_stream_duration: Option<String>,
    max_requests_per_connection: Option<i64>,
}

pub(super) fn http(written: &HttpSpec) -> Result<HttpOptions, Refused> {
    Ok(HttpOptions {
        idle_timeout: spec::optional(written.idle_timeout.as_deref(), "idleTimeout")?,
        max_headers: count(written.max_headers_count, 1, "maxHeadersCount")?,
        max_stream_duration: spec::optional(written.max_stream_duration.as_deref(), "maxStreamDuration")?,
        max_requests: count(written.max_requests_per_connection, 0, "maxRequestsPerConnection")?,
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Http1Spec {
    #[serde(default)]
    enable_trailers: bool,
    #[serde(default)]
    preserve_http1_header_case: bool,
    override_stream_error_on_invalid_http_message: Option<bool>,
}

pub(super) fn http1(written: &Http1Spec) -> Http1Options {
    Http1Options {
        trailers: written.enable_trailers,
        preserve_case: written.preserve_http1_header_case,
        stream_error: written.override_stream_error_on_invalid_http_message,
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Http2Spec {
    connection_keepalive: Option<PingSpec>,
    initial_connection_window_size: Option<Value>,
    initial_stream_window_size: Option<Value>,
    max_concurrent_streams: Option<i64>,
    override_stream_error_on_invalid_http_message: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PingSpec {
    connection_idle_interval: Option<String>,
    interval: Option<String>,
    timeout: String,
}

pub(super) fn http2(written: &Http2Spec) -> Result<Http2Options, Refused> {
    let window = |value: Option<&Value>, field: &str| {
        value.map(|value| bounded_bytes(quantity(value, field)?, 65_535, field)).transpose()
    };
    let ping = |written: &PingSpec| -> Result<Ping, Refused> {
        let at = |text: Option<&str>, field: &str| spec::positive(text, &format!("connectionKeepalive.{field}"));
        let rare = |text: Option<&str>, field: &str| {
            let interval = at(text, field)?;
            if interval.is_some_and(|interval| interval < LEAST_PING) {
                let message = "each proxy would ask on each connection more than once a second; use 1s or more";
                return Err(Refused::new(&format!("connectionKeepalive.{field}"), message));
            }
            Ok(interval)
        };
        Ok(Ping {
            interval: rare(written.interval.as_deref(), "interval")?,
            timeout: at(Some(&written.timeout), "timeout")?.unwrap_or_default(),
            idle_interval: rare(written.connection_idle_interval.as_deref(), "connectionIdleInterval")?,
        })
    };
    Ok(Http2Options {
        keepalive: written.connection_keepalive.as_ref().map(ping).transpose()?,
        connection_window: window(written.initial_connection_window_size.as_ref(), "initialConnectionWindowSize")?,
        stream_window: window(written.initial_stream_window_size.as_ref(), "initialStreamWindowSize")?,
        max_streams: count(written.max_concurrent_streams, 1, "maxConcurrentStreams")?,
        stream_error: written.override_stream_error_on_invalid_http_message,
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ProxySpec {
    version: Option<String>,
}

pub(super) fn proxy_protocol(written: &ProxySpec) -> Result<ProxyProtocol, Refused> {
    match written.version.as_deref().unwrap_or("V1") {
        "V1" => Ok(ProxyProtocol::V1),
        "V2" => Ok(ProxyProtocol::V2),
        other => Err(Refused::new("version", format!("{other:?} is no version; use V1 or V2"))),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct DnsSpec {
    refresh_rate: Option<String>,
    jitter: Option<String>,
    #[serde(rename = "respectTTL")]
    respect_ttl: Option<bool>,
}

pub(super) fn dns(written: &DnsSpec) -> Result<Dns, Refused> {
    let refresh = spec::optional(written.refresh_rate.as_deref(), "refreshRate")?;
    if refresh.is_some_and(|refresh| refresh < Duration::from_secs(1)) {
        return Err(Refused::new("refreshRate", "each proxy would ask more than once a second; use 1s or more"));
    }
    let jitter = spec::optional(written.jitter.as_deref(), "jitter")?;
    if let (Some(jitter), Some(refresh)) = (jitter, refresh)
        && jitter > refresh
    {
        return Err(Refused::new("jitter", "it is longer than refreshRate; use as much at most"));
    }
    Ok(Dns { refresh, jitter, by_ttl: written.respect_ttl })
}
