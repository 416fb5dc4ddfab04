//! Access logs: that of the edge, and those of policies.

use envoy_types::pb::envoy::{
    config::{
        accesslog::v3::{
            AccessLog as EnvoyLog, AccessLogFilter, AndFilter, ComparisonFilter, DurationFilter, GrpcStatusFilter,
            HeaderFilter, NotHealthCheckFilter, OrFilter, ResponseFlagFilter, RuntimeFilter, StatusCodeFilter,
            TraceableFilter, access_log, access_log_filter::FilterSpecifier, comparison_filter::Op,
        },
        core::v3::{DataSource, RuntimeUInt32, SubstitutionFormatString, data_source, substitution_format_string},
        route::v3::{HeaderMatcher, header_matcher::HeaderMatchSpecifier},
    },
    extensions::access_loggers::stream::v3::{StderrAccessLog, StdoutAccessLog},
    r#type::{
        matcher::v3::{StringMatcher, string_matcher::MatchPattern},
        v3::{FractionalPercent, fractional_percent::DenominatorType},
    },
};
use ir::{
    NsName,
    downstream::{AccessLog, Compare, LogFilter, LogFormat, LogStream, LogTo},
};

use super::telemetry;
use crate::{
    bytes::{Fields, json_structure, tag},
    extension,
};

/// The key under which an operator of a proxy could change a bound of a filter; nobody does.
const RUNTIME_KEY: &str = "portcullis.access_log";

/// The fields of the access log of the edge, each a command of Envoy's.
const FIELDS: [(&str, &str); 24] = [
    ("authority", "%REQ(:AUTHORITY)%"),
    ("bytes_received", "%BYTES_RECEIVED%"),
    ("bytes_sent", "%BYTES_SENT%"),
    ("connection_termination_details", "%CONNECTION_TERMINATION_DETAILS%"),
    ("downstream_local_address", "%DOWNSTREAM_LOCAL_ADDRESS%"),
    ("downstream_remote_address", "%DOWNSTREAM_REMOTE_ADDRESS%"),
    ("duration_ms", "%DURATION%"),
    ("method", "%REQ(:METHOD)%"),
    ("path", "%REQ(X-ENVOY-ORIGINAL-PATH?:PATH)%"),
    ("protocol", "%PROTOCOL%"),
    ("request_id", "%REQ(X-REQUEST-ID)%"),
    ("requested_server_name", "%REQUESTED_SERVER_NAME%"),
    ("response_code", "%RESPONSE_CODE%"),
    ("response_code_details", "%RESPONSE_CODE_DETAILS%"),
    ("response_flags", "%RESPONSE_FLAGS%"),
    ("route_name", "%ROUTE_NAME%"),
    ("start_time", "%START_TIME%"),
    ("upstream_attempts", "%UPSTREAM_REQUEST_ATTEMPT_COUNT%"),
    ("upstream_cluster", "%UPSTREAM_CLUSTER_RAW%"),
    ("upstream_duration_ms", "%RESPONSE_DURATION%"),
    ("upstream_host", "%UPSTREAM_HOST%"),
    ("upstream_transport_failure_reason", "%UPSTREAM_TRANSPORT_FAILURE_REASON%"),
    ("user_agent", "%REQ(USER-AGENT)%"),
    ("x_forwarded_for", "%REQ(X-FORWARDED-FOR)%"),
];

/// Those that say something of a connection, or a session of datagrams, as a whole.
const CONNECTION: [&str; 12] = [
    "bytes_received",
    "bytes_sent",
    "connection_termination_details",
    "downstream_local_address",
    "downstream_remote_address",
    "duration_ms",
    "requested_server_name",
    "response_flags",
    "start_time",
    "upstream_cluster",
    "upstream_host",
    "upstream_transport_failure_reason",
];

/// One line of JSON a request, values quoted by Envoy's encoder, to standard output.
pub(super) fn of_edge() -> EnvoyLog {
    of_fields(|_| true)
}

/// The same, a line a connection or session.
pub(super) fn of_connections() -> EnvoyLog {
    of_fields(|field| CONNECTION.contains(&field))
}

fn of_fields(wanted: impl Fn(&str) -> bool) -> EnvoyLog {
    let fields = FIELDS.iter().filter(|(name, _)| wanted(name));
    let fields = fields.map(|(name, command)| ((*name).to_owned(), (*command).into())).collect();
    written_to(LogStream::Stdout, &json(&serde_json::Value::Object(fields)))
}

/// What a policy of this Gateway asks for.
pub(super) fn of_policy(log: &AccessLog, gateway: &NsName) -> EnvoyLog {
    let said = match &log.to {
        LogTo::Stream(stream, said) => written_to(*stream, &format(said)),
        LogTo::Server(remote) => {
            let (name, config) = telemetry::log(remote, gateway);
            let config_type = Some(access_log::ConfigType::TypedConfig(config));
            EnvoyLog { name: name.into(), config_type, ..EnvoyLog::default() }
        }
    };
    EnvoyLog { filter: log.filter.as_ref().map(filter), ..said }
}

fn format(said: &LogFormat) -> Vec<u8> {
    match said {
        LogFormat::Text(text) => {
            let source = DataSource {
                specifier: Some(data_source::Specifier::InlineString(text.to_string())),
                ..DataSource::default()
            };
            Fields::of(&SubstitutionFormatString {
                format: Some(substitution_format_string::Format::TextFormatSource(source)),
                ..SubstitutionFormatString::default()
            })
            .into_bytes()
        }
        LogFormat::Json(text) => json(&serde_json::from_str(text).unwrap_or_default()),
    }
}

/// An encoded format of a JSON object.
fn json(fields: &serde_json::Value) -> Vec<u8> {
    let format = SubstitutionFormatString { omit_empty_values: true, ..SubstitutionFormatString::default() };
    Fields::of(&format).message(tag::LOG_FORMAT_JSON_FORMAT, &json_structure(fields)).into_bytes()
}

fn written_to(stream: LogStream, format: &[u8]) -> EnvoyLog {
    let fields = Fields::default().message(tag::STREAM_ACCESS_LOG_LOG_FORMAT, format);
    let (name, log) = match stream {
        LogStream::Stdout => (extension::STDOUT_ACCESS_LOG, fields.into_any::<StdoutAccessLog>()),
        LogStream::Stderr => (extension::STDERR_ACCESS_LOG, fields.into_any::<StderrAccessLog>()),
    };
    EnvoyLog { name: name.into(), config_type: Some(access_log::ConfigType::TypedConfig(log)), ..EnvoyLog::default() }
}

fn filter(said: &LogFilter) -> AccessLogFilter {
    let all = |list: &[LogFilter]| list.iter().map(filter).collect();
    let specifier = match said {
        LogFilter::Status(op, value) => {
            FilterSpecifier::StatusCodeFilter(StatusCodeFilter { comparison: Some(comparison(*op, *value)) })
        }
        LogFilter::Duration(op, value) => {
            FilterSpecifier::DurationFilter(DurationFilter { comparison: Some(comparison(*op, *value)) })
        }
        LogFilter::GrpcStatus { statuses, exclude } => {
            FilterSpecifier::GrpcStatusFilter(GrpcStatusFilter { statuses: statuses.to_vec(), exclude: *exclude })
        }
        LogFilter::Header(name, value) => FilterSpecifier::HeaderFilter(HeaderFilter {
            header: Some(HeaderMatcher {
                name: name.to_string(),
                header_match_specifier: Some(HeaderMatchSpecifier::StringMatch(StringMatcher {
                    match_pattern: Some(MatchPattern::Exact(value.to_string())),
                    ..StringMatcher::default()
                })),
                ..HeaderMatcher::default()
            }),
        }),
        LogFilter::Flags(flags) => FilterSpecifier::ResponseFlagFilter(ResponseFlagFilter {
            flags: flags.iter().map(ToString::to_string).collect(),
        }),
        LogFilter::NotHealthCheck => FilterSpecifier::NotHealthCheckFilter(NotHealthCheckFilter {}),
        LogFilter::Traceable => FilterSpecifier::TraceableFilter(TraceableFilter {}),
        LogFilter::Share { key, numerator, denominator, independent } => {
            let denominator = match denominator {
                10_000 => DenominatorType::TenThousand,
                1_000_000 => DenominatorType::Million,
                _ => DenominatorType::Hundred,
            };
            FilterSpecifier::RuntimeFilter(RuntimeFilter {
                runtime_key: key.to_string(),
                percent_sampled: Some(FractionalPercent { numerator: *numerator, denominator: denominator as i32 }),
                use_independent_randomness: *independent,
            })
        }
        LogFilter::All(list) => FilterSpecifier::AndFilter(AndFilter { filters: all(list) }),
        LogFilter::Any(list) => FilterSpecifier::OrFilter(OrFilter { filters: all(list) }),
    };
    AccessLogFilter { filter_specifier: Some(specifier) }
}

fn comparison(op: Compare, value: u32) -> ComparisonFilter {
    let op = match op {
        Compare::Equal => Op::Eq,
        Compare::AtLeast => Op::Ge,
        Compare::AtMost => Op::Le,
    };
    let value = RuntimeUInt32 { default_value: value, runtime_key: RUNTIME_KEY.into() };
    ComparisonFilter { op: op as i32, value: Some(value) }
}
