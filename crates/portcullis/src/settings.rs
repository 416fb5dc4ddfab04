//! Settings by flags and environment: what the API is silent about. Their defaults are those of [`ir::Settings`].

use std::time::Duration;

use clap::{Args, ValueEnum};
use ir::{
    Settings,
    backend::ClusterLimits,
    settings::{self, Delegation, Edge, PortMapping, Replacement},
};

/// Declares flags, each with its environment variable.
macro_rules! settings {
    ($($(#[doc = $doc:literal])+ $field:ident: $type:ty, $env:literal, $value:literal $(, $parser:expr)?;)+) => {
        #[derive(Debug, Default, Args)]
        #[command(next_help_heading = "Settings")]
        pub(crate) struct SettingsArgs {
            $(
                $(#[doc = $doc])+
                #[arg(long, env = $env, value_name = $value, hide_env = true $(, value_parser = $parser)?)]
                pub(crate) $field: Option<$type>,
            )+
        }
    };
}

settings! {
    /// GatewayClasses with this controllerName are ours [default: portcullis.dev/gateway-controller].
    controller_name: String, "PORTCULLIS_CONTROLLER_NAME", "NAME", not_empty;
    /// Which port Envoy binds for a listener's port: its own, or 10000 more where it is below 1024 [default: own].
    ports: Ports, "PORTCULLIS_PORTS", "PORTS", clap::builder::EnumValueParser::<Ports>::new();
    /// Proxies in front of this one whose x-forwarded-for is trusted [default: 0].
    trusted_hops: u32, "PORTCULLIS_TRUSTED_HOPS", "COUNT";
    /// Size of request headers at most, in KiB [default: 60].
    max_request_headers_kib: u32, "PORTCULLIS_MAX_REQUEST_HEADERS_KIB", "KIB", clap::value_parser!(u32).range(1..=8192);
    /// Count of request headers at most [default: 100].
    max_request_headers: u32, "PORTCULLIS_MAX_REQUEST_HEADERS", "COUNT", clap::value_parser!(u32).range(1..);
    /// Bytes buffered per connection of a client [default: 32768].
    buffer_bytes: u32, "PORTCULLIS_BUFFER_BYTES", "BYTES", clap::value_parser!(u32).range(1..);
    /// Streams per HTTP/2 connection at a time [default: 100].
    max_concurrent_streams: u32, "PORTCULLIS_MAX_CONCURRENT_STREAMS", "COUNT", clap::value_parser!(u32).range(1..=2_147_483_647);
    /// How long a stream may be silent [default: 5m].
    stream_idle_timeout: Duration, "PORTCULLIS_STREAM_IDLE_TIMEOUT", "DURATION", duration;
    /// How long the headers of a request may take [default: 10s].
    request_headers_timeout: Duration, "PORTCULLIS_REQUEST_HEADERS_TIMEOUT", "DURATION", duration;
    /// How long a connection may be without a request [default: 1h].
    idle_timeout: Duration, "PORTCULLIS_IDLE_TIMEOUT", "DURATION", duration;
    /// How long a connection is drained before it is closed [default: 5s].
    drain_timeout: Duration, "PORTCULLIS_DRAIN_TIMEOUT", "DURATION", duration;
    /// Connections of one Envoy at a time [default: 50000].
    max_connections: u32, "PORTCULLIS_MAX_CONNECTIONS", "COUNT", clap::value_parser!(u32).range(1..);
    /// Bytes of heap at which an Envoy sheds load; 0 switches it off [default: 0].
    max_heap_bytes: u64, "PORTCULLIS_MAX_HEAP_BYTES", "BYTES";
    /// Whether each request is logged, as one line of JSON to Envoy's standard output [default: true].
    access_log: bool, "PORTCULLIS_ACCESS_LOG", "BOOL";
    /// How long a connection to a backend may take to be made [default: 5s].
    connect_timeout: Duration, "PORTCULLIS_CONNECT_TIMEOUT", "DURATION", positive_duration;
    /// Open connections to one backend at most [default: 10000].
    backend_max_connections: u32, "PORTCULLIS_BACKEND_MAX_CONNECTIONS", "COUNT";
    /// Requests that wait for a connection to one backend at most [default: 10000].
    backend_max_pending_requests: u32, "PORTCULLIS_BACKEND_MAX_PENDING_REQUESTS", "COUNT";
    /// Requests to one backend at a time at most [default: 10000].
    backend_max_requests: u32, "PORTCULLIS_BACKEND_MAX_REQUESTS", "COUNT";
    /// Retries to one backend at a time at most [default: 100].
    backend_max_retries: u32, "PORTCULLIS_BACKEND_MAX_RETRIES", "COUNT";
    /// Bytes buffered per connection to a backend [default: 32768].
    backend_buffer_bytes: u32, "PORTCULLIS_BACKEND_BUFFER_BYTES", "BYTES", clap::value_parser!(u32).range(1..);
    /// Whether a broken rule is replaced by a direct response. If not, its matches are dropped, and a broader route may
    /// take its requests [default: true].
    replacement_enabled: bool, "PORTCULLIS_REPLACEMENT_ENABLED", "BOOL";
    /// What a broken rule answers: 400 to 599 [default: 500].
    replacement_status: u16, "PORTCULLIS_REPLACEMENT_STATUS", "STATUS", clap::value_parser!(u16).range(400..=599);
    /// The body of that answer, at most 4096 bytes; all that a client sees of the fault.
    replacement_body: String, "PORTCULLIS_REPLACEMENT_BODY", "TEXT", body;
    /// What means all namespaces in a reference to routes by label [default: all].
    delegation_wildcard_namespace: String, "DELEGATION_WILDCARD_NAMESPACE", "NAME", not_empty;
    /// Whose children a route may be that names no parent: anybody's, or only those of its own namespace [default: any].
    delegation_consent: Consent, "PORTCULLIS_DELEGATION_CONSENT", "CONSENT", clap::builder::EnumValueParser::<Consent>::new();
    /// How many routes may stand above another [default: 32].
    delegation_max_depth: u32, "PORTCULLIS_DELEGATION_MAX_DEPTH", "COUNT", clap::value_parser!(u32).range(1..=64);
    /// How many matches the routes of one tree may have together [default: 10000].
    delegation_max_matches: u32, "PORTCULLIS_DELEGATION_MAX_MATCHES", "COUNT", clap::value_parser!(u32).range(1..);
}

/// Which port Envoy binds.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Ports {
    /// The listener's own.
    Own,
    /// 10000 more where it is below 1024.
    Mapped,
}

/// Whose children a route may be that names no parent.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Consent {
    /// Anybody's.
    Any,
    /// Those of its own namespace; a parent in another one must be named.
    CrossNamespaceExplicit,
}

impl SettingsArgs {
    /// The settings that these flags make.
    pub(crate) fn settings(self) -> Settings {
        let Settings { controller_name, ports, shared_host, edge, cluster, connect_timeout, replacement, delegation } =
            Settings::default();
        Settings {
            controller_name: self.controller_name.map_or(controller_name, Into::into),
            ports: match self.ports {
                None => ports,
                Some(Ports::Own) => PortMapping::Own,
                Some(Ports::Mapped) => PortMapping::Mapped,
            },
            // Files are served by Envoys of one host, whoever starts them.
            shared_host,
            edge: Edge {
                trusted_hops: self.trusted_hops.unwrap_or(edge.trusted_hops),
                max_request_headers_kib: self.max_request_headers_kib.unwrap_or(edge.max_request_headers_kib),
                max_request_headers: self.max_request_headers.unwrap_or(edge.max_request_headers),
                buffer_bytes: self.buffer_bytes.unwrap_or(edge.buffer_bytes),
                max_concurrent_streams: self.max_concurrent_streams.unwrap_or(edge.max_concurrent_streams),
                stream_idle_timeout: self.stream_idle_timeout.unwrap_or(edge.stream_idle_timeout),
                request_headers_timeout: self.request_headers_timeout.unwrap_or(edge.request_headers_timeout),
                idle_timeout: self.idle_timeout.unwrap_or(edge.idle_timeout),
                drain_timeout: self.drain_timeout.unwrap_or(edge.drain_timeout),
                max_connections: self.max_connections.unwrap_or(edge.max_connections),
                max_heap_bytes: self.max_heap_bytes.unwrap_or(edge.max_heap_bytes),
                access_log: self.access_log.unwrap_or(edge.access_log),
            },
            cluster: ClusterLimits {
                connections: self.backend_max_connections.unwrap_or(cluster.connections),
                pending_requests: self.backend_max_pending_requests.unwrap_or(cluster.pending_requests),
                requests: self.backend_max_requests.unwrap_or(cluster.requests),
                retries: self.backend_max_retries.unwrap_or(cluster.retries),
                buffer_bytes: self.backend_buffer_bytes.unwrap_or(cluster.buffer_bytes),
            },
            connect_timeout: self.connect_timeout.unwrap_or(connect_timeout),
            replacement: Replacement {
                enabled: self.replacement_enabled.unwrap_or(replacement.enabled),
                status: self.replacement_status.unwrap_or(replacement.status),
                body: self.replacement_body.map_or(replacement.body, Into::into),
            },
            delegation: Delegation {
                wildcard_namespace: self
                    .delegation_wildcard_namespace
                    .map_or(delegation.wildcard_namespace, Into::into),
                consent: match self.delegation_consent {
                    None => delegation.consent,
                    Some(Consent::Any) => settings::Consent::Any,
                    Some(Consent::CrossNamespaceExplicit) => settings::Consent::CrossNamespaceExplicit,
                },
                max_depth: self.delegation_max_depth.unwrap_or(delegation.max_depth),
                max_matches: self.delegation_max_matches.unwrap_or(delegation.max_matches),
            },
        }
    }
}

pub(crate) fn not_empty(text: &str) -> Result<String, String> {
    if text.is_empty() { Err("must not be empty".into()) } else { Ok(text.to_owned()) }
}

fn body(text: &str) -> Result<String, String> {
    if text.len() > 4096 { Err("must have 4096 bytes at most".into()) } else { Ok(text.to_owned()) }
}

fn duration(text: &str) -> Result<Duration, String> {
    translate::validate::duration::parse(text).map_err(|error| error.to_string())
}

fn positive_duration(text: &str) -> Result<Duration, String> {
    let duration = duration(text)?;
    if duration.is_zero() { Err("must be more than zero".into()) } else { Ok(duration) }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Alone {
        #[command(flatten)]
        settings: SettingsArgs,
    }

    fn settings(flags: &[&str]) -> Result<Settings, clap::Error> {
        let all = std::iter::once("test").chain(flags.iter().copied());
        Alone::try_parse_from(all).map(|alone| alone.settings.settings())
    }

    #[test]
    fn without_flags_the_defaults_hold() {
        assert_eq!(settings(&[]).expect("valid"), Settings::default());
    }

    #[test]
    fn flags_change_their_own_setting() {
        let changed =
            settings(&["--ports", "mapped", "--idle-timeout", "1m30s", "--access-log", "false"]).expect("valid");
        let mut expected = Settings { ports: PortMapping::Mapped, ..Settings::default() };
        expected.edge.idle_timeout = Duration::from_secs(90);
        expected.edge.access_log = false;
        assert_eq!(changed, expected);
    }

    #[test]
    fn what_envoy_would_refuse_is_refused_here() {
        for flags in [
            ["--connect-timeout", "0s"],
            ["--idle-timeout", "1.5s"],
            ["--replacement-status", "200"],
            ["--max-request-headers-kib", "0"],
            ["--max-request-headers-kib", "9000"],
            ["--ports", "other"],
        ] {
            assert!(settings(&flags).is_err(), "{flags:?}");
        }
        assert!(settings(&["--replacement-body", &"x".repeat(4097)]).is_err());
    }
}
