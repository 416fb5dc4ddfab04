//! HTTP.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use ir::downstream::{
    CONNECTION_WINDOW, CertificateDetail, Client, Http2, HttpConfig, STREAM_WINDOW, ServerHeader, StripPort,
    ToldOfClients, Traces,
};
use serde::Deserialize;
use serde_json::Value;
use validate::{cidr, header};

use super::{Read, Reading, access_log, boolean, number, text, tracing, unserved};
use crate::{Refused, spec, upstream::connection};

/// The field that they are in.
pub(super) const FIELD: &str = "httpSettings";

/// The least window of HTTP/2 (RFC 9113 section 6.9.2).
const LEAST_WINDOW: u32 = 65_535;

/// The most ranges of addresses, and the most protocols: each is looked at for each request.
const MOST_ENTRIES: usize = 64;

/// What stands for all that says whom requests come from: it holds as a whole.
pub(super) const CLIENT: &str = "httpSettings.useRemoteAddress";

/// The field for which one stands where policies are merged.
pub(super) fn leaf(field: &'static str) -> &'static str {
    match field {
        "httpSettings.xffNumTrustedHops" | "httpSettings.xffTrustedCIDRs" | "httpSettings.skipXFFAppend" => CLIENT,
        field => field,
    }
}

pub(super) const FIELDS: [(&str, Read); 28] = [
    (
        "httpSettings.acceptHttp10",
        |value, _| {
            if boolean(value)? { unserved("HTTP/1.0 is not served; remove it") } else { Ok(()) }
        },
    ),
    ("httpSettings.accessLog", |value, reading| {
        reading.config.http.access_logs = Some(access_log::read(value, reading)?);
        Ok(())
    }),
    ("httpSettings.defaultHostForHttp10", |_, _| unserved("HTTP/1.0 is not served; remove it")),
    ("httpSettings.earlyRequestHeaderModifier", |_, _| {
        unserved("headers are not changed before routing; use headerModifiers of a TrafficPolicy, or remove it")
    }),
    ("httpSettings.forwardClientCertDetails", |value, reading| {
        reading.config.http.told_of_clients = Some(told_of_clients(&spec::decode(value)?)?);
        Ok(())
    }),
    ("httpSettings.generateRequestId", |value, _| {
        if boolean(value)? { Ok(()) } else { unserved("each request gets an id, which access logs tell; remove it") }
    }),
    ("httpSettings.healthCheck", |_, _| {
        unserved("a listener answers no health checks; use a route with a DirectResponse, or remove it")
    }),
    ("httpSettings.http2ProtocolOptions", http2),
    ("httpSettings.idleTimeout", |value, reading| {
        let written = spec::optional(Some(text(value)?), "")?.unwrap_or_default();
        // Zero would be forever.
        let asked = if written.is_zero() { Duration::MAX } else { written };
        let most = reading.edge.idle_timeout;
        if asked > most {
            let message = format!(
                "edge.idleTimeout is {most:?}, and what is longer counts as that; ask for less, or \
                                   whoever runs the controller"
            );
            reading.warnings.push(Refused::new("", message));
        }
        reading.config.http.idle_timeout = Some(asked.min(most));
        Ok(())
    }),
    ("httpSettings.localReplies", |_, _| unserved("answers of the proxy are not rewritten yet; remove it")),
    ("httpSettings.maxHeadersCount", |value, reading| {
        let most = reading.edge.max_request_headers;
        reading.config.http.max_headers = Some(reading.at_most(number(value, 1)?, most, "edge.maxRequestHeaders"));
        Ok(())
    }),
    ("httpSettings.maxRequestHeadersKb", |value, reading| {
        let most = reading.edge.max_request_headers_kib;
        let kib = reading.at_most(number(value, 1)?, most, "edge.maxRequestHeadersKib");
        reading.config.http.max_headers_kib = Some(kib);
        Ok(())
    }),
    ("httpSettings.maxRequestsPerConnection", |value, reading| {
        reading.config.http.max_requests = Some(number(value, 0)?);
        Ok(())
    }),
    ("httpSettings.preserveExternalRequestId", |value, _| {
        if boolean(value)? { unserved("ids of requests are the proxy's; remove it") } else { Ok(()) }
    }),
    ("httpSettings.preserveHttp1HeaderCase", |value, reading| {
        reading.config.http.preserve_case = Some(boolean(value)?);
        Ok(())
    }),
    ("httpSettings.proxy100Continue", |value, reading| {
        reading.config.http.proxy_100 = Some(boolean(value)?);
        Ok(())
    }),
    ("httpSettings.serverHeaderTransformation", |value, reading| {
        reading.config.http.server = Some(match text(value)? {
            "Overwrite" => ServerHeader::Overwrite,
            "AppendIfAbsent" => ServerHeader::AppendIfAbsent,
            "PassThrough" => ServerHeader::PassThrough,
            other => {
                let message = format!("{other:?} is not known; use Overwrite, AppendIfAbsent or PassThrough");
                return Err(Refused::new("", message));
            }
        });
        Ok(())
    }),
    ("httpSettings.serverName", |value, reading| {
        let name = text(value)?;
        header::match_value(name).map_err(Refused::at(""))?;
        if name.is_empty() {
            return Err(Refused::new("", "it is empty; name the server, or remove it"));
        }
        reading.config.http.server_name = Some(name.into());
        Ok(())
    }),
    ("httpSettings.skipXFFAppend", |value, reading| {
        client(reading).skip_append = Some(boolean(value)?);
        Ok(())
    }),
    ("httpSettings.streamIdleTimeout", |value, reading| {
        reading.config.http.stream_idle_timeout = spec::optional(Some(text(value)?), "")?;
        Ok(())
    }),
    ("httpSettings.stripHostPortMode", |value, reading| {
        reading.config.http.strip_port = Some(match text(value)? {
            "MatchingPort" => StripPort::Matching,
            "AnyPort" => StripPort::Any,
            other => return Err(Refused::new("", format!("{other:?} is not known; use MatchingPort or AnyPort"))),
        });
        Ok(())
    }),
    ("httpSettings.stripTrailingHostDot", |value, reading| {
        if !boolean(value)? {
            let message =
                "a dot at the end of a host is always left out, since hosts are told apart without; remove it";
            reading.warnings.push(Refused::new("", message));
        }
        Ok(())
    }),
    ("httpSettings.tracing", |value, reading| {
        let tracing = tracing::read(value, reading)?;
        reading.config.http.tracing = Some(tracing.map_or(Traces::ToNobody, |tracing| Traces::To(tracing.into())));
        Ok(())
    }),
    ("httpSettings.upgradeConfig", |value, reading| {
        reading.config.http.upgrades = Some(upgrades(&spec::decode(value)?)?);
        Ok(())
    }),
    ("httpSettings.useRemoteAddress", |value, reading| {
        client(reading).by_connection = Some(boolean(value)?);
        Ok(())
    }),
    ("httpSettings.uuidRequestIdConfig", |_, _| unserved("ids of requests are the proxy's; remove it")),
    ("httpSettings.xffNumTrustedHops", |value, reading| {
        client(reading).trusted_hops = Some(number(value, 0)?);
        Ok(())
    }),
    ("httpSettings.xffTrustedCIDRs", |value, reading| {
        let written: Vec<String> = spec::decode(value)?;
        if written.is_empty() {
            return Err(Refused::new("", "it is empty; name a range, or remove it"));
        }
        let range = |text: &String| cidr::parse(text).map(validate::cidr::Cidr::parts);
        client(reading).trusted_ranges = spec::distinct(Some(&written), "", MOST_ENTRIES, range)?;
        Ok(())
    }),
];

fn client<'a>(reading: &'a mut Reading<'_>) -> &'a mut Client {
    reading.config.http.client.get_or_insert_default()
}

/// What says whom requests come from, and does not go together.
pub(super) fn client_fault(http: &HttpConfig) -> Option<Refused> {
    let client = http.client.as_ref().filter(|client| !client.trusted_ranges.is_empty())?;
    if client.by_connection != Some(false) {
        return Some(Refused::new("useRemoteAddress", "must be false beside xffTrustedCIDRs; set it so"));
    }
    client.trusted_hops?;
    Some(Refused::new("xffNumTrustedHops", "must not stand beside xffTrustedCIDRs; remove one of both"))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Http2Spec {
    allow_connect: Option<bool>,
    initial_connection_window_size: Option<Value>,
    initial_stream_window_size: Option<Value>,
    max_concurrent_streams: Option<Value>,
}

fn http2(value: &Value, reading: &mut Reading<'_>) -> Result<(), Refused> {
    let written: Http2Spec = spec::decode(value)?;
    if written.allow_connect == Some(true) {
        return Err(Refused::new("allowConnect", "no route takes CONNECT, so it would have no effect; remove it"));
    }
    let mut window = |value: Option<&Value>, field: &str, most: u32| -> Result<Option<u32>, Refused> {
        let Some(value) = value else { return Ok(None) };
        let bytes = connection::quantity(value, field)?;
        let bytes = u32::try_from(bytes.clamp(0, i64::from(u32::MAX))).unwrap_or_default();
        if bytes < LEAST_WINDOW {
            return Err(Refused::new(field, format!("{LEAST_WINDOW} bytes are the least; use as many or more")));
        }
        if bytes > most {
            let message = format!("{most} bytes are the most, so what is more counts as that; ask for less");
            reading.warnings.push(Refused::new(field, message));
        }
        Ok(Some(bytes.min(most)))
    };
    let stream = window(written.initial_stream_window_size.as_ref(), "initialStreamWindowSize", STREAM_WINDOW)?;
    let connection =
        window(written.initial_connection_window_size.as_ref(), "initialConnectionWindowSize", CONNECTION_WINDOW)?;
    let streams = written.max_concurrent_streams.as_ref().map(|streams| number(streams, 1)).transpose();
    let streams = streams.map_err(|refused| Refused::new("maxConcurrentStreams", refused.message))?;
    let most = reading.edge.max_concurrent_streams;
    let streams = streams.map(|streams| reading.at_most(streams, most, "edge.maxConcurrentStreams"));
    reading.config.http.http2 =
        Some(Http2 { max_streams: streams, stream_window: stream, connection_window: connection });
    Ok(())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToldSpec {
    mode: Option<String>,
    details: Option<BTreeMap<String, Option<bool>>>,
}

fn told_of_clients(written: &ToldSpec) -> Result<ToldOfClients, Refused> {
    let details = || {
        let mut details = Vec::new();
        for (name, is_told) in written.details.iter().flatten() {
            let detail = CertificateDetail::ALL.into_iter().find(|detail| detail.name() == name);
            let detail = detail.ok_or_else(|| {
                let message = "it is no part of a certificate; use subject, uri, dns, cert or chain, or remove it";
                Refused::new(&format!("details.{name}"), message)
            })?;
            details.extend((*is_told == Some(true)).then_some(detail));
        }
        details.sort_unstable();
        Ok(details.into())
    };
    let mode = written.mode.as_deref();
    let told = match mode {
        Some("AppendForward") => return details().map(ToldOfClients::SaidAndShown),
        Some("SanitizeSet") => return details().map(ToldOfClients::Shown),
        // Who names parts wants them to be told.
        None if written.details.is_some() => return details().map(ToldOfClients::Shown),
        Some("Sanitize") | None => ToldOfClients::Nothing,
        Some("ForwardOnly") => ToldOfClients::Said,
        Some("AlwaysForwardOnly") => {
            let message = "anybody could say that he is somebody else, without any certificate, so the port is not served as if it \
                           were not asked for; use SanitizeSet, or ForwardOnly for clients that show a certificate";
            return Err(Refused::new("mode", message));
        }
        Some(other) => {
            let message = format!("{other:?} is not known; use Sanitize, SanitizeSet, AppendForward or ForwardOnly");
            return Err(Refused::new("mode", message));
        }
    };
    if written.details.is_some() {
        let message = "nothing is said of a certificate there; use SanitizeSet or AppendForward as mode, or remove it";
        return Err(Refused::new("details", message));
    }
    Ok(told)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct UpgradeSpec {
    enabled_upgrades: Vec<String>,
}

fn upgrades(written: &UpgradeSpec) -> Result<Arc<[Arc<str>]>, Refused> {
    let field = "enabledUpgrades";
    spec::at_most(&written.enabled_upgrades, field, MOST_ENTRIES)?;
    let mut all: Vec<Arc<str>> = Vec::new();
    for (index, protocol) in written.enabled_upgrades.iter().enumerate() {
        let at = format!("{field}[{index}]");
        let lower = protocol.to_ascii_lowercase();
        // It may name its version, as in RFC 9110 section 7.8.
        if !lower.split('/').all(header::is_token) || lower.split('/').count() > 2 {
            return Err(Refused::new(&at, format!("{protocol:?} is no protocol; use one such as websocket")));
        }
        if lower.starts_with("connect") {
            return Err(Refused::new(&at, "no route takes CONNECT, so it would have no effect; remove it"));
        }
        if all.iter().any(|known| **known == *lower) {
            return Err(Refused::new(&at, "it is named before; remove one of both"));
        }
        all.push(lower.into());
    }
    Ok(all.into())
}
