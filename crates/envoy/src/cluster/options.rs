//! Options of HTTP towards a backend.

use envoy_types::pb::envoy::{
    config::core::v3::{
        Http1ProtocolOptions, Http2ProtocolOptions, HttpProtocolOptions as Common, KeepaliveSettings, TcpKeepalive,
        TypedExtensionConfig,
        http1_protocol_options::{HeaderKeyFormat, header_key_format::HeaderFormat},
    },
    extensions::http::header_formatters::preserve_case::v3::PreserveCaseFormatterConfig,
};
use ir::upstream::{Http1Options, Http2Options, HttpOptions, Keepalive, Ping};

use crate::{boolean, bytes::any, duration, extension, uint32};

pub(super) fn common(said: &HttpOptions) -> Common {
    Common {
        idle_timeout: said.idle_timeout.map(duration),
        max_headers_count: said.max_headers.map(uint32),
        max_stream_duration: said.max_stream_duration.map(duration),
        max_requests_per_connection: said.max_requests.map(uint32),
        ..Common::default()
    }
}

pub(super) fn http1(said: Option<&Http1Options>) -> Http1ProtocolOptions {
    let Some(said) = said else { return Http1ProtocolOptions::default() };
    Http1ProtocolOptions {
        enable_trailers: said.trailers,
        header_key_format: said.preserve_case.then(preserved_case),
        override_stream_error_on_invalid_http_message: said.stream_error.map(boolean),
        ..Http1ProtocolOptions::default()
    }
}

/// Names of headers in the letters in which they came.
pub(crate) fn preserved_case() -> HeaderKeyFormat {
    HeaderKeyFormat {
        header_format: Some(HeaderFormat::StatefulFormatter(TypedExtensionConfig {
            name: extension::PRESERVE_CASE.into(),
            typed_config: Some(any(&PreserveCaseFormatterConfig::default())),
        })),
    }
}

pub(super) fn http2(said: Option<&Http2Options>) -> Http2ProtocolOptions {
    let Some(said) = said else { return Http2ProtocolOptions::default() };
    let ping = |Ping { interval, timeout, idle_interval }: Ping| KeepaliveSettings {
        interval: interval.map(duration),
        timeout: Some(duration(timeout)),
        connection_idle_interval: idle_interval.map(duration),
        ..KeepaliveSettings::default()
    };
    Http2ProtocolOptions {
        connection_keepalive: said.keepalive.map(ping),
        initial_connection_window_size: said.connection_window.map(uint32),
        initial_stream_window_size: said.stream_window.map(uint32),
        max_concurrent_streams: said.max_streams.map(uint32),
        override_stream_error_on_invalid_http_message: said.stream_error.map(boolean),
        ..Http2ProtocolOptions::default()
    }
}

pub(crate) fn keepalive(said: &Keepalive) -> TcpKeepalive {
    TcpKeepalive {
        keepalive_probes: said.probes.map(uint32),
        keepalive_time: said.time.map(uint32),
        keepalive_interval: said.interval.map(uint32),
    }
}
