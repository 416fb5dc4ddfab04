//! Access logs.

use std::sync::Arc;

use ir::{
    downstream::{AccessLog, Compare, FLAGS, LogFilter, LogFormat, LogStream, LogTo},
    telemetry::{Pairs, RemoteLog, RemoteSays, TelemetryValue},
};
use serde::Deserialize;
use serde_json::{Map, Value};
use validate::{format, header};

use super::{
    Reading,
    sink::{self, below},
};
use crate::{Refused, spec};

/// The most of them, as the definition of the kind has it.
const MOST: usize = 16;
/// The most filters in one: each is asked for each request.
const MOST_FILTERS: usize = 32;
/// The longest format, in bytes.
const LONGEST: usize = 4096;

/// The statuses of gRPC by number.
const STATUSES: [&str; 17] = [
    "OK",
    "CANCELED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct LogSpec {
    file_sink: Option<FileSpec>,
    filter: Option<FilterSpec>,
    grpc_service: Option<Value>,
    open_telemetry: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct FileSpec {
    path: String,
    string_format: Option<String>,
    json_format: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[allow(clippy::struct_field_names, reason = "they are so named in the definition of the kind")]
struct FilterSpec {
    and_filter: Option<Vec<FilterSpec>>,
    or_filter: Option<Vec<FilterSpec>>,
    cel_filter: Option<Value>,
    duration_filter: Option<CompareSpec>,
    grpc_status_filter: Option<GrpcSpec>,
    header_filter: Option<HeaderFilterSpec>,
    not_health_check_filter: Option<bool>,
    response_flag_filter: Option<FlagsSpec>,
    runtime_filter: Option<RuntimeSpec>,
    status_code_filter: Option<CompareSpec>,
    traceable_filter: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CompareSpec {
    op: String,
    value: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GrpcSpec {
    #[serde(default)]
    statuses: Vec<String>,
    #[serde(default)]
    exclude: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HeaderFilterSpec {
    header: HeaderSpec,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HeaderSpec {
    name: String,
    value: String,
    r#type: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FlagsSpec {
    flags: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RuntimeSpec {
    runtime_key: String,
    percent_sampled: Option<ShareSpec>,
    #[serde(default)]
    use_independent_randomness: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ShareSpec {
    numerator: u32,
    denominator: Option<String>,
}

/// What is said of a log beside its server.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct GrpcLogSpec {
    log_name: String,
    #[serde(default)]
    additional_request_headers_to_log: Vec<String>,
    #[serde(default)]
    additional_response_headers_to_log: Vec<String>,
    #[serde(default)]
    additional_response_trailers_to_log: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct OpenTelemetrySpec {
    grpc_service: Value,
    body: Option<String>,
    #[serde(default)]
    disable_builtin_labels: bool,
    attributes: Option<ListSpec>,
    resource_attributes: Option<ListSpec>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct OpenTelemetryLogSpec {
    log_name: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListSpec {
    #[serde(default)]
    values: Vec<KeyValueSpec>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyValueSpec {
    key: String,
    value: ValueSpec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[allow(clippy::struct_field_names, reason = "they are so named in the definition of the kind")]
struct ValueSpec {
    string_value: Option<String>,
    array_value: Option<Vec<ValueSpec>>,
    kv_list_value: Option<Box<ListSpec>>,
}

pub(super) fn read(value: &Value, reading: &mut Reading<'_>) -> Result<Arc<[AccessLog]>, Refused> {
    let written: Vec<Value> = spec::decode(value)?;
    spec::at_most(&written, "", MOST)?;
    let mut logs = Vec::new();
    for (index, value) in written.iter().enumerate() {
        let at = format!("[{index}]");
        let known = reading.warnings.len();
        let read = spec::decode(value).and_then(|written| log(&written, reading));
        for warning in &mut reading.warnings[known..] {
            *warning = below(&at, warning.clone());
        }
        logs.extend(read.map_err(|refused| below(&at, refused))?);
    }
    Ok(logs.into())
}

/// None if the server to which it would go may not be named.
fn log(written: &LogSpec, reading: &mut Reading<'_>) -> Result<Option<AccessLog>, Refused> {
    let mut count = 0;
    let filter = written.filter.as_ref().map(|written| filter(written, true, &mut count));
    let filter = filter.transpose().map_err(|refused| below("filter", refused))?;
    let to = match (&written.file_sink, &written.grpc_service, &written.open_telemetry) {
        (Some(sink), None, None) => Some(file(sink)?),
        (None, Some(written), None) => entries(written, reading)?.map(|log| LogTo::Server(log.into())),
        (None, None, Some(written)) => records(written, reading)?.map(|log| LogTo::Server(log.into())),
        _ => {
            let message = "must have exactly one of fileSink, grpcService and openTelemetry; correct it";
            return Err(Refused::new("", message));
        }
    };
    Ok(to.map(|to| AccessLog { to, filter }))
}

/// A log of Envoy's own entries.
fn entries(written: &Value, reading: &mut Reading<'_>) -> Result<Option<RemoteLog>, Refused> {
    let at = "grpcService";
    let own = [
        "logName",
        "additionalRequestHeadersToLog",
        "additionalResponseHeadersToLog",
        "additionalResponseTrailersToLog",
    ];
    let (own, service) = sink::parted(written, &own).map_err(|refused| below(at, refused))?;
    let own: GrpcLogSpec = spec::decode(&own).map_err(|refused| below(at, refused))?;
    let names = |list: &[String], name: &str| sink::headers(list, &format!("{at}.{name}"));
    let says = RemoteSays::Entries {
        request_headers: names(&own.additional_request_headers_to_log, "additionalRequestHeadersToLog")?,
        response_headers: names(&own.additional_response_headers_to_log, "additionalResponseHeadersToLog")?,
        response_trailers: names(&own.additional_response_trailers_to_log, "additionalResponseTrailersToLog")?,
    };
    let name = sink::name(&own.log_name, &format!("{at}.logName"))?;
    // One call is told all entries, so that it has no end.
    Ok(sink::read(&service, at, false, reading)?.map(|sink| RemoteLog { sink, name, says }))
}

/// A log of records of OpenTelemetry.
fn records(written: &Value, reading: &mut Reading<'_>) -> Result<Option<RemoteLog>, Refused> {
    let at = "openTelemetry";
    let written: OpenTelemetrySpec = spec::decode(written).map_err(|refused| below(at, refused))?;
    let field = format!("{at}.grpcService");
    let (own, service) = sink::parted(&written.grpc_service, &["logName"]).map_err(|refused| below(&field, refused))?;
    let own: OpenTelemetryLogSpec = spec::decode(&own).map_err(|refused| below(&field, refused))?;
    let name = sink::name(&own.log_name, &format!("{field}.logName"))?;
    let mut said = Said::default();
    let body = written.body.as_deref().filter(|body| !body.is_empty());
    let body = body.map(|body| said.text(body, &format!("{at}.body"), true)).transpose()?;
    let attributes = written.attributes.unwrap_or(ListSpec { values: Vec::new() });
    let attributes = said.list(&attributes, &format!("{at}.attributes"), true, MOST_LEVELS)?;
    let resource = written.resource_attributes.unwrap_or(ListSpec { values: Vec::new() });
    let resource = said.list(&resource, &format!("{at}.resourceAttributes"), false, MOST_LEVELS)?;
    let says = RemoteSays::Records { body, attributes, resource, builtin: !written.disable_builtin_labels };
    Ok(sink::read(&service, &field, true, reading)?.map(|sink| RemoteLog { sink, name, says }))
}

/// The most levels of a value.
const MOST_LEVELS: usize = 8;

/// What a log of records says so far: bytes, and operators.
#[derive(Default)]
struct Said {
    bytes: usize,
    operators: usize,
}

impl Said {
    fn text(&mut self, text: &str, field: &str, filled: bool) -> Result<Arc<str>, Refused> {
        self.bytes += text.len();
        if self.bytes > LONGEST {
            let message = format!("body and attributes have more than {LONGEST} bytes; shorten them");
            return Err(Refused::new(field, message));
        }
        if !filled {
            return Ok(text.into());
        }
        Ok(format::log_text(text, &mut self.operators).map_err(Refused::at(field))?.into())
    }

    fn list(
        &mut self,
        list: &ListSpec,
        field: &str,
        filled: bool,
        levels: usize,
    ) -> Result<Pairs<TelemetryValue>, Refused> {
        let mut all: Vec<(Arc<str>, TelemetryValue)> = Vec::new();
        for (index, KeyValueSpec { key, value }) in list.values.iter().enumerate() {
            let at = format!("{field}.values[{index}]");
            if key.is_empty() {
                return Err(Refused::new(&format!("{at}.key"), "it is empty; name the attribute"));
            }
            if all.iter().any(|(known, _)| **known == **key) {
                return Err(Refused::new(&format!("{at}.key"), "it is named before; remove one of both"));
            }
            let key = self.text(key, &format!("{at}.key"), false)?;
            all.push((key, self.value(value, &format!("{at}.value"), filled, levels)?));
        }
        Ok(all.into())
    }

    fn value(&mut self, value: &ValueSpec, at: &str, filled: bool, levels: usize) -> Result<TelemetryValue, Refused> {
        let Some(levels) = levels.checked_sub(1) else {
            return Err(Refused::new(at, format!("it nests more than {MOST_LEVELS} levels deep; flatten it")));
        };
        Ok(match (&value.string_value, &value.array_value, &value.kv_list_value) {
            (Some(text), None, None) => TelemetryValue::Text(self.text(text, &format!("{at}.stringValue"), filled)?),
            (None, Some(list), None) => {
                let each = |(index, value): (usize, &ValueSpec)| {
                    self.value(value, &format!("{at}.arrayValue[{index}]"), filled, levels)
                };
                TelemetryValue::List(list.iter().enumerate().map(each).collect::<Result<_, _>>()?)
            }
            (None, None, Some(list)) => {
                TelemetryValue::Map(self.list(list, &format!("{at}.kvListValue"), filled, levels)?)
            }
            _ => {
                let message = "must have exactly one of stringValue, arrayValue and kvListValue; correct it";
                return Err(Refused::new(at, message));
            }
        })
    }
}

/// A log that the proxy writes itself.
fn file(sink: &FileSpec) -> Result<LogTo, Refused> {
    let to = match &*sink.path {
        "/dev/stdout" => LogStream::Stdout,
        "/dev/stderr" => LogStream::Stderr,
        _ => {
            let message = "a file of the proxy is not its tenants'; use /dev/stdout or /dev/stderr";
            return Err(Refused::new("fileSink.path", message));
        }
    };
    let long = |text: &str, field: &str| {
        let message = format!("it has {} bytes, and {LONGEST} are the most; shorten it", text.len());
        if text.len() > LONGEST { Err(Refused::new(field, message)) } else { Ok(()) }
    };
    let format = match (&sink.string_format, &sink.json_format) {
        (Some(text), None) => {
            let field = "fileSink.stringFormat";
            long(text, field)?;
            let told = format::log_text(text, &mut 0).map_err(Refused::at(field))?;
            if text.is_empty() {
                return Err(Refused::new(field, "it is empty, so nothing would be logged; say something"));
            }
            LogFormat::Text(told.into())
        }
        (None, Some(json)) => {
            let field = "fileSink.jsonFormat";
            if json.as_object().is_none_or(Map::is_empty) {
                return Err(Refused::new(field, "must be a mapping with a field; correct it"));
            }
            let text = json.to_string();
            long(&text, field)?;
            let told = format::log_json(json, &mut 0).map_err(Refused::at(field))?;
            LogFormat::Json(told.to_string().into())
        }
        _ => return Err(Refused::new("fileSink", "has not one of stringFormat and jsonFormat; set exactly one")),
    };
    Ok(LogTo::Stream(to, format))
}

/// A filter. What is made of others stands at the top alone.
fn filter(written: &FilterSpec, top: bool, count: &mut usize) -> Result<LogFilter, Refused> {
    *count += 1;
    if *count > MOST_FILTERS {
        return Err(Refused::new("", format!("{MOST_FILTERS} filters are the most; leave some out")));
    }
    let mut all: Vec<Result<LogFilter, Refused>> = Vec::new();
    let mut of = |list: &Option<Vec<FilterSpec>>, field: &str| -> Option<Result<Arc<[LogFilter]>, Refused>> {
        let list = list.as_ref()?;
        if !top || list.len() < 2 {
            return Some(Err(Refused::new(field, "is made of two filters or more, and of no such list; correct it")));
        }
        let each = |(index, written): (usize, &FilterSpec)| {
            filter(written, false, count).map_err(|refused| below(&format!("{field}[{index}]"), refused))
        };
        Some(list.iter().enumerate().map(each).collect())
    };
    all.extend(of(&written.and_filter, "andFilter").map(|list| list.map(LogFilter::All)));
    all.extend(of(&written.or_filter, "orFilter").map(|list| list.map(LogFilter::Any)));
    all.extend(
        written
            .cel_filter
            .as_ref()
            .map(|_| Err(Refused::new("celFilter", "expressions choose no logs yet; use another filter"))),
    );
    all.extend(
        written
            .duration_filter
            .as_ref()
            .map(|written| compare(written, "durationFilter").map(|(op, value)| LogFilter::Duration(op, value))),
    );
    all.extend(
        written
            .status_code_filter
            .as_ref()
            .map(|written| compare(written, "statusCodeFilter").map(|(op, value)| LogFilter::Status(op, value))),
    );
    all.extend(written.grpc_status_filter.as_ref().map(grpc));
    all.extend(written.header_filter.as_ref().map(|written| header(&written.header)));
    let switch = |on: bool, field: &str, filter: LogFilter| {
        if on { Ok(filter) } else { Err(Refused::new(field, "false chooses nothing; remove it")) }
    };
    all.extend(written.not_health_check_filter.map(|on| switch(on, "notHealthCheckFilter", LogFilter::NotHealthCheck)));
    all.extend(written.traceable_filter.map(|on| switch(on, "traceableFilter", LogFilter::Traceable)));
    all.extend(written.response_flag_filter.as_ref().map(|written| flags(&written.flags)));
    all.extend(written.runtime_filter.as_ref().map(share));
    if all.len() != 1 {
        return Err(Refused::new("", "must have exactly one filter; correct it"));
    }
    all.remove(0)
}

fn compare(written: &CompareSpec, field: &str) -> Result<(Compare, u32), Refused> {
    let op = match &*written.op {
        "EQ" => Compare::Equal,
        "GE" => Compare::AtLeast,
        "LE" => Compare::AtMost,
        other => {
            return Err(Refused::new(&format!("{field}.op"), format!("{other:?} is not known; use EQ, GE or LE")));
        }
    };
    Ok((op, written.value))
}

fn grpc(written: &GrpcSpec) -> Result<LogFilter, Refused> {
    let number = |(index, name): (usize, &String)| {
        let at = STATUSES.iter().position(|known| known == name).and_then(|at| i32::try_from(at).ok());
        let field = format!("grpcStatusFilter.statuses[{index}]");
        at.ok_or_else(|| Refused::new(&field, format!("{name:?} is no status of gRPC; correct it")))
    };
    let statuses = written.statuses.iter().enumerate().map(number).collect::<Result<_, _>>()?;
    Ok(LogFilter::GrpcStatus { statuses, exclude: written.exclude })
}

fn header(written: &HeaderSpec) -> Result<LogFilter, Refused> {
    let at = |field: &str| format!("headerFilter.header.{field}");
    if written.r#type.as_deref().is_some_and(|kind| kind != "Exact") {
        return Err(Refused::new(&at("type"), "logs are chosen by exact values alone; use Exact"));
    }
    let name = header::match_name(&written.name).map_err(Refused::at(&at("name")))?;
    header::match_value(&written.value).map_err(Refused::at(&at("value")))?;
    Ok(LogFilter::Header(name.into(), written.value.as_str().into()))
}

fn flags(written: &[String]) -> Result<LogFilter, Refused> {
    let field = "responseFlagFilter.flags";
    if written.is_empty() {
        return Err(Refused::new(field, "it is empty; name a flag"));
    }
    spec::at_most(written, field, FLAGS.len())?;
    let known = |(index, flag): (usize, &String)| -> Result<Arc<str>, Refused> {
        let message = format!("{flag:?} is no flag of Envoy; use one such as UF");
        let is_known = FLAGS.contains(&flag.as_str());
        if is_known { Ok(flag.as_str().into()) } else { Err(Refused::new(&format!("{field}[{index}]"), message)) }
    };
    Ok(LogFilter::Flags(written.iter().enumerate().map(known).collect::<Result<_, _>>()?))
}

fn share(written: &RuntimeSpec) -> Result<LogFilter, Refused> {
    let key = &written.runtime_key;
    if key.is_empty() || key.len() > 256 || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        let message = "must be 1 to 256 visible characters; correct it";
        return Err(Refused::new("runtimeFilter.runtimeKey", message));
    }
    let percent = written.percent_sampled.as_ref();
    let denominator = match percent.and_then(|percent| percent.denominator.as_deref()).unwrap_or("HUNDRED") {
        "HUNDRED" => 100,
        "TEN_THOUSAND" => 10_000,
        "MILLION" => 1_000_000,
        other => {
            let message = format!("{other:?} is not known; use HUNDRED, TEN_THOUSAND or MILLION");
            return Err(Refused::new("runtimeFilter.percentSampled.denominator", message));
        }
    };
    let numerator = percent.map_or(0, |percent| percent.numerator);
    if numerator > denominator {
        let message = format!("{numerator} of {denominator} is more than all; correct it");
        return Err(Refused::new("runtimeFilter.percentSampled.numerator", message));
    }
    Ok(LogFilter::Share {
        key: key.as_str().into(),
        numerator,
        denominator,
        independent: written.use_independent_randomness,
    })
}

/// As [`super::samples`], of logs.
#[cfg(any(test, feature = "testing"))]
pub(super) fn samples() -> Value {
    serde_json::json!([
        {"fileSink": {"path": "/dev/stdout", "stringFormat": "%REQ(:METHOD)% %RESPONSE_CODE% %DURATION%\n"},
            "filter": {"andFilter": [{"statusCodeFilter": {"op": "GE", "value": 500}}, {"notHealthCheckFilter": true}]}},
        {"fileSink": {"path": "/dev/stderr", "jsonFormat": {"to": {"host": "%UPSTREAM_HOST%"}}}},
        {"grpcService": {"backendRef": {"name": "s0", "port": 80}, "logName": "entries", "timeout": "1s",
            "authority": "logs.example.com", "skipEnvoyHeaders": true, "maxReceiveMessageLength": 1024,
            "initialMetadata": [{"key": "x-token", "value": "secret"}],
            "retryPolicy": {"numRetries": 3, "retryBackOff": {"baseInterval": "1s", "maxInterval": "2s"}},
            "additionalRequestHeadersToLog": [":path", "x-a"], "additionalResponseHeadersToLog": ["x-b"],
            "additionalResponseTrailersToLog": ["x-c"]}},
        {"openTelemetry": {"grpcService": {"backendRef": {"name": "s1", "port": 80}, "logName": "records"},
            "body": "%REQ(:METHOD)%", "disableBuiltinLabels": true,
            "attributes": {"values": [{"key": "a", "value": {"arrayValue": [{"stringValue": "%DURATION%"}]}},
                {"key": "b", "value": {"kvListValue": {"values": [{"key": "c", "value": {"stringValue": "d"}}]}}}]},
            "resourceAttributes": {"values": [{"key": "service.name", "value": {"stringValue": "shop"}}]}}},
    ])
}
