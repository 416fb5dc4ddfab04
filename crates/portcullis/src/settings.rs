//! Settings: what the API is silent about. Each is declared once, in `settings!` below, and is set by a flag, else by its
//! environment variable, else by a key of the file that `--config` names, else it has the default of [`ir::Settings`].

mod file;
mod parse;
#[cfg(test)]
mod tests;

use std::{path::PathBuf, time::Duration};

use clap::Args;
use ir::{
    Settings,
    settings::{Consent, ExtensionGrants, PortMapping, Trust, ValidationLevel, WhenUnavailable},
};
use serde_json::Value;

use parse::{
    Details, Ranges, body, consent, details, extension_grants, file_or_none, namespace_or_none, ports, ranges, switch,
    trust, validation_level, when_unavailable, whole,
};
pub(crate) use parse::{duration, not_empty, positive_duration};

/// What a setting is called, and what it is, as declared.
struct Setting {
    /// In a file: `GROUP.NAME`, or `NAME`.
    key: &'static str,
    /// The flag, with `_` for `-` and without what begins it.
    #[cfg_attr(not(test), allow(dead_code, reason = "the page of settings is compared with it"))]
    flag: &'static str,
    /// The environment variable.
    env: &'static str,
    /// The default, as it would be written.
    default: &'static str,
    /// What it means, as a sentence.
    meaning: &'static str,
}

impl Setting {
    /// The help of `-h`.
    fn help(&self) -> String {
        let Self { default, meaning, .. } = self;
        format!("{} [default: {default}]", meaning.trim().trim_end_matches('.'))
    }

    /// The help of `--help`.
    fn long_help(&self) -> String {
        let Self { key, env, .. } = self;
        format!("{} [env: {env}] [file: {key}]", self.help())
    }
}

/// Declares settings: `field: type => where it stands in ir::Settings, key, environment variable, value name, default,
/// parser`. The parser judges what is written, wherever it is written.
macro_rules! settings {
    ($(
        $(#[doc = $doc:literal])+
        $field:ident: $type:ty => $($target:ident).+, $key:literal, $env:literal, $value:literal, $default:literal, $parser:expr;
    )+) => {
        /// All settings, in the order in which they are documented.
        const SETTINGS: &[Setting] = &[$(Setting {
            key: $key,
            flag: stringify!($field),
            env: $env,
            default: $default,
            meaning: concat!($($doc),+),
        }),+];

        /// What is set, by flags and environment or by a file; the rest is none.
        #[derive(Debug, Default, Args)]
        #[command(next_help_heading = "Settings")]
        pub(crate) struct SettingsArgs {
            /// A file of settings, in YAML or JSON. Flags win over environment variables, those over the file, and the
            /// file over defaults. It is read once, at the start.
            #[arg(long, env = "PORTCULLIS_CONFIG", value_name = "FILE", hide_env_values = true)]
            config: Option<PathBuf>,
            $(
                #[arg(
                    long,
                    env = $env,
                    hide_env = true,
                    value_name = $value,
                    help = setting($key).help(),
                    long_help = setting($key).long_help(),
                    value_parser = typed::<$type>($parser),
                )]
                $field: Option<$type>,
            )+
        }

        impl SettingsArgs {
            /// Sets what has this key in a file; the error is what the value must be.
            fn set(&mut self, key: &str, value: &Value) -> Result<(), String> {
                match key {
                    $($key => self.$field = Some(file::scalar::<$type>(value, $parser)?),)+
                    _ => return Err("is no setting".to_owned()),
                }
                Ok(())
            }

            /// Whether nothing is set, by a file either.
            pub(crate) fn is_empty(&self) -> bool {
                self.config.is_none() $(&& self.$field.is_none())+
            }

            /// What is set here, and what `weaker` sets where nothing is set here.
            fn or(self, weaker: Self) -> Self {
                Self { config: self.config, $($field: self.$field.or(weaker.$field)),+ }
            }

            /// Puts what is set in the place of what is there.
            fn onto(self, settings: &mut Settings) {
                $(if let Some(value) = self.$field {
                    settings.$($target).+ = value.into();
                })+
            }
        }
    };
}

settings! {
    /// GatewayClasses with this `controllerName` are ours.
    controller_name: String => controller_name, "controllerName", "PORTCULLIS_CONTROLLER_NAME", "NAME",
        "portcullis.dev/gateway-controller", not_empty;
    /// Which port Envoy binds for a listener's port: its `own`, or `mapped`, which is 10000 more where it is below 1024.
    ports: PortMapping => ports, "ports", "PORTCULLIS_PORTS", "PORTS", "own", ports;
    /// Proxies in front of this one whose `x-forwarded-for` is trusted; the client's address is otherwise the connection's.
    trusted_hops: u32 => edge.trusted_hops, "edge.trustedHops", "PORTCULLIS_TRUSTED_HOPS", "COUNT", "0",
        whole(0..=ANY_U32);
    /// Size of request headers at most, in KiB.
    max_request_headers_kib: u32 => edge.max_request_headers_kib, "edge.maxRequestHeadersKib",
        "PORTCULLIS_MAX_REQUEST_HEADERS_KIB", "KIB", "60", whole(1..=8192);
    /// Count of request headers at most.
    max_request_headers: u32 => edge.max_request_headers, "edge.maxRequestHeaders", "PORTCULLIS_MAX_REQUEST_HEADERS",
        "COUNT", "100", whole(1..=ANY_U32);
    /// Bytes buffered per connection of a client.
    buffer_bytes: u32 => edge.buffer_bytes, "edge.bufferBytes", "PORTCULLIS_BUFFER_BYTES", "BYTES", "32768",
        whole(1..=ANY_U32);
    /// Streams per HTTP/2 connection at a time.
    max_concurrent_streams: u32 => edge.max_concurrent_streams, "edge.maxConcurrentStreams",
        "PORTCULLIS_MAX_CONCURRENT_STREAMS", "COUNT", "100", whole(1..=2_147_483_647);
    /// How long a stream may be silent.
    stream_idle_timeout: Duration => edge.stream_idle_timeout, "edge.streamIdleTimeout",
        "PORTCULLIS_STREAM_IDLE_TIMEOUT", "DURATION", "5m", duration;
    /// How long the headers of a request may take.
    request_headers_timeout: Duration => edge.request_headers_timeout, "edge.requestHeadersTimeout",
        "PORTCULLIS_REQUEST_HEADERS_TIMEOUT", "DURATION", "10s", duration;
    /// How long a connection may be without a request.
    idle_timeout: Duration => edge.idle_timeout, "edge.idleTimeout", "PORTCULLIS_IDLE_TIMEOUT", "DURATION", "1h",
        duration;
    /// How long a connection of TCP or TLS that is led on as a whole may be silent; 0s is forever.
    tcp_idle_timeout: Duration => edge.tcp_idle_timeout, "edge.tcpIdleTimeout", "PORTCULLIS_TCP_IDLE_TIMEOUT",
        "DURATION", "1h", duration;
    /// How long such a connection may last; 0s is without end.
    tcp_max_duration: Duration => edge.tcp_max_duration, "edge.tcpMaxDuration", "PORTCULLIS_TCP_MAX_DURATION",
        "DURATION", "0s", duration;
    /// How long a session of datagrams may be silent.
    udp_session_timeout: Duration => edge.udp_session_timeout, "edge.udpSessionTimeout",
        "PORTCULLIS_UDP_SESSION_TIMEOUT", "DURATION", "1m", positive_duration;
    /// How long a connection is drained before it is closed.
    drain_timeout: Duration => edge.drain_timeout, "edge.drainTimeout", "PORTCULLIS_DRAIN_TIMEOUT", "DURATION", "5s",
        duration;
    /// Connections of one Envoy at a time.
    max_connections: u32 => edge.max_connections, "edge.maxConnections", "PORTCULLIS_MAX_CONNECTIONS", "COUNT", "50000",
        whole(1..=ANY_U32);
    /// Connections of one Envoy at a time to a port of HTTP or TCP, a listener of HTTPS, or a hostname of TLSRoutes; 0 is any number.
    max_listener_connections: u32 => edge.max_listener_connections, "edge.maxListenerConnections",
        "PORTCULLIS_MAX_LISTENER_CONNECTIONS", "COUNT", "0", whole(0..=ANY_U32);
    /// The ranges of addresses, by commas, from which connections may come to ports with the PROXY protocol, by which whoever
    /// connects says whom he connects for; empty for all.
    proxy_protocol_sources: Ranges => edge.proxy_protocol_sources, "edge.proxyProtocolSources",
        "PORTCULLIS_PROXY_PROTOCOL_SOURCES", "CIDRS", "", ranges;
    /// What of a client's certificate backends are told by `x-forwarded-client-cert`, by commas: `subject`, `uri`, `dns`, `cert`,
    /// `chain`; empty for nothing.
    client_certificate_details: Details => edge.client_certificate_details, "edge.clientCertificateDetails",
        "PORTCULLIS_CLIENT_CERTIFICATE_DETAILS", "PARTS", "", details;
    /// Bytes of heap at which an Envoy sheds load; 0 switches it off.
    max_heap_bytes: u64 => edge.max_heap_bytes, "edge.maxHeapBytes", "PORTCULLIS_MAX_HEAP_BYTES", "BYTES", "0",
        whole(0..=u64::MAX);
    /// Whether each request is logged, as one line of JSON to Envoy's standard output, with the route's name and
    /// `response_code_details`.
    access_log: bool => edge.access_log, "edge.accessLog", "PORTCULLIS_ACCESS_LOG", "BOOL", "true", switch;
    /// How long a connection to a backend may take to be made.
    connect_timeout: Duration => connect_timeout, "backend.connectTimeout", "PORTCULLIS_CONNECT_TIMEOUT", "DURATION",
        "5s", positive_duration;
    /// Open connections to one backend at most.
    backend_max_connections: u32 => cluster.connections, "backend.maxConnections", "PORTCULLIS_BACKEND_MAX_CONNECTIONS",
        "COUNT", "10000", whole(0..=ANY_U32);
    /// Requests that wait for a connection to one backend at most.
    backend_max_pending_requests: u32 => cluster.pending_requests, "backend.maxPendingRequests",
        "PORTCULLIS_BACKEND_MAX_PENDING_REQUESTS", "COUNT", "10000", whole(0..=ANY_U32);
    /// Requests to one backend at a time at most.
    backend_max_requests: u32 => cluster.requests, "backend.maxRequests", "PORTCULLIS_BACKEND_MAX_REQUESTS", "COUNT",
        "10000", whole(0..=ANY_U32);
    /// Retries to one backend at a time at most.
    backend_max_retries: u32 => cluster.retries, "backend.maxRetries", "PORTCULLIS_BACKEND_MAX_RETRIES", "COUNT", "100",
        whole(0..=ANY_U32);
    /// Bytes buffered per connection to a backend.
    backend_buffer_bytes: u32 => cluster.buffer_bytes, "backend.bufferBytes", "PORTCULLIS_BACKEND_BUFFER_BYTES", "BYTES",
        "32768", whole(1..=ANY_U32);
    /// Whether Backends may lead to addresses that mean something else to each proxy: itself (loopback, with its admin
    /// interface), its link, and the metadata of its cloud.
    backend_allow_local: bool => local_backends, "backend.allowLocal", "PORTCULLIS_BACKEND_ALLOW_LOCAL", "BOOL", "false",
        switch;
    /// The file of proxies with the authorities of their system, which is what `System` means in a policy of TLS; empty for none,
    /// so that such a policy is refused.
    backend_system_trust_store: String => system_trust_store, "backend.systemTrustStore",
        "PORTCULLIS_BACKEND_SYSTEM_TRUST_STORE", "PATH", "/etc/ssl/certs/ca-certificates.crt", file_or_none;
    /// Whether a broken rule is replaced by a direct response; if not, its matches are dropped, and a broader route may
    /// take its requests.
    replacement_enabled: bool => replacement.enabled, "invalidRouteReplacement.enabled",
        "PORTCULLIS_REPLACEMENT_ENABLED", "BOOL", "true", switch;
    /// What a broken rule answers: 400 to 599.
    replacement_status: u16 => replacement.status, "invalidRouteReplacement.statusCode",
        "PORTCULLIS_REPLACEMENT_STATUS", "STATUS", "500", whole(400..=599);
    /// The body of that answer, at most 4096 bytes; all that a client sees of the fault.
    replacement_body: String => replacement.body, "invalidRouteReplacement.body", "PORTCULLIS_REPLACEMENT_BODY", "TEXT",
        "invalid route configuration: replaced by a direct response", body;
    /// What means all namespaces in a reference to routes by label.
    delegation_wildcard_namespace: String => delegation.wildcard_namespace, "delegation.wildcardNamespace",
        "DELEGATION_WILDCARD_NAMESPACE", "NAME", "all", not_empty;
    /// Whose children a route may be that names no parent: anybody's (`Any`), or only those of its own namespace
    /// (`CrossNamespaceExplicit`).
    delegation_consent: Consent => delegation.consent, "delegation.consent", "PORTCULLIS_DELEGATION_CONSENT", "CONSENT",
        "Any", consent;
    /// How many routes may stand above another: 1 to 64.
    delegation_max_depth: u32 => delegation.max_depth, "delegation.maxDepth", "PORTCULLIS_DELEGATION_MAX_DEPTH", "COUNT",
        "32", whole(1..=64);
    /// How many matches the routes of one tree may have together: 1 to 1000000.
    delegation_max_matches: u32 => delegation.max_matches, "delegation.maxMatches", "PORTCULLIS_DELEGATION_MAX_MATCHES",
        "COUNT", "10000", whole(1..=1_000_000);
    /// The namespace whose TrafficPolicies, BackendConfigPolicies and ListenerPolicies select objects of every namespace by
    /// `targetSelectors`; empty for none.
    policies_global_namespace: String => policies.global_namespace, "policies.globalNamespace",
        "KGW_GLOBAL_POLICY_NAMESPACE", "NAME", "", namespace_or_none;
    /// Whether a policy needs a ReferenceGrant to ask a GatewayExtension of another namespace: it does not (`Permissive`), or it
    /// does (`Strict`).
    policies_extension_grants: ExtensionGrants => policies.extension_grants, "policies.extensionGrants",
        "PORTCULLIS_POLICIES_EXTENSION_GRANTS", "GRANTS", "Permissive", extension_grants;
    /// How many Envoy routes of a port or HTTPS listener ask the same provider in the same words before proxies are told that once
    /// for all of them, rounded up to a power of two; 0 for never.
    policies_say_once_from: u64 => policies.say_once_from, "policies.sayOnceFrom", "PORTCULLIS_POLICIES_SAY_ONCE_FROM",
        "COUNT", "1024", whole(0..=u64::MAX);
    /// Bytes of a body that templates of a `transformation` read or replace, 16777216 at most. A larger one is answered 413, and a
    /// larger one of a response becomes a 500.
    policies_max_body_bytes: u32 => policies.max_body_bytes, "policies.maxBodyBytes", "PORTCULLIS_POLICIES_MAX_BODY_BYTES",
        "BYTES", "131072", whole(1..=16_777_216);
    /// How far GatewayParameters are trusted: `Restricted` to pods without privileges, Secrets and other accounts,
    /// `Unrestricted`, or `ClassOnly`, where those of a Gateway say nothing of pods and images.
    gateway_parameters_trust: Trust => gateway_parameters, "gatewayParameters.trust",
        "PORTCULLIS_GATEWAY_PARAMETERS_TRUST", "TRUST", "Restricted", trust;
    /// How long all regular expressions that one request meets may take, as it is estimated from what was measured.
    regex_max_time: Duration => regex.max_time, "regex.maxTime", "PORTCULLIS_REGEX_MAX_TIME", "DURATION", "50ms",
        positive_duration;
    /// Bytes of a proxy's memory that routes, virtual hosts, clusters and endpoints of its Gateway may take, as it is
    /// estimated from what was measured.
    capacity_max_bytes: u64 => capacity.max_bytes, "capacity.maxBytes", "PORTCULLIS_CAPACITY_MAX_BYTES", "BYTES",
        "805306368", whole(1..=u64::MAX);
    /// Who judges what is sent before it is: the checks in process alone (`Standard`), or an Envoy too (`Strict`).
    validation_level: ValidationLevel => validation.level, "validation.level", "PORTCULLIS_VALIDATION_LEVEL", "LEVEL",
        "Standard", validation_level;
    /// How long anything waits for Envoy's word.
    validation_timeout: Duration => validation.timeout, "validation.timeout", "PORTCULLIS_VALIDATION_TIMEOUT", "DURATION",
        "10s", positive_duration;
    /// What becomes then of what no Envoy judges, though nobody is to blame who wrote it: it is sent (`Standard`), or waits (`Hold`).
    validation_when_unavailable: WhenUnavailable => validation.when_unavailable, "validation.whenUnavailable",
        "PORTCULLIS_VALIDATION_WHEN_UNAVAILABLE", "WHAT", "Standard", when_unavailable;
    /// Whether `FreezeConfig` is heard, as `failureMode` of DelegationPolicies and in the annotation `portcullis.dev/failure-mode` of
    /// Gateways: a tree of routes, or what policies say of a Gateway, keeps its last good version. If not, it is refused.
    freeze_enabled: bool => freeze.enabled, "freeze.enabled", "PORTCULLIS_FREEZE_ENABLED", "BOOL", "false", switch;
    /// Bytes that the version of one tree may have as it is stored.
    freeze_max_tree_bytes: u64 => freeze.max_tree_bytes, "freeze.maxTreeBytes", "PORTCULLIS_FREEZE_MAX_TREE_BYTES", "BYTES",
        "16777216", whole(1..=u64::MAX);
    /// Bytes that those of all trees may have together, shared out among the namespaces of their roots.
    freeze_max_bytes: u64 => freeze.max_bytes, "freeze.maxBytes", "PORTCULLIS_FREEZE_MAX_BYTES", "BYTES", "67108864",
        whole(1..=u64::MAX);
    /// How many trees may have one, shared out in the same way.
    freeze_max_trees: u64 => freeze.max_trees, "freeze.maxTrees", "PORTCULLIS_FREEZE_MAX_TREES", "COUNT", "1000",
        whole(1..=1_000_000);
}

/// The highest value of a setting of 32 bits that has no bound of its own.
const ANY_U32: u64 = u32::MAX as u64;

impl SettingsArgs {
    /// The settings that flags, environment and file make.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or something in it is no valid setting; the error has all of them.
    pub(crate) fn settings(self) -> anyhow::Result<Settings> {
        let from_file = self.config.as_deref().map_or_else(|| Ok(Self::default()), file::read)?;
        // Files are served by Envoys of one host, whoever starts them: `shared_host` stays.
        let mut settings = Settings::default();
        self.or(from_file).onto(&mut settings);
        Ok(settings)
    }
}

/// Refuses what cannot be told of a cluster by its objects alone.
///
/// # Errors
///
/// It is asked for.
pub(crate) fn by_objects_alone(settings: &Settings) -> anyhow::Result<()> {
    anyhow::ensure!(
        !settings.freeze.enabled,
        "freeze.enabled is true, so what is served of a tree may be the version of it that is kept, which only a controller knows: \
         ask one (--from controller), or leave freeze.enabled out to see the trees as they are"
    );
    Ok(())
}

/// What is declared under `key`.
fn setting(key: &str) -> &'static Setting {
    SETTINGS.iter().find(|setting| setting.key == key).expect("only keys that are declared are asked for")
}

/// The parser, with its type told.
fn typed<T>(
    parser: impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    parser
}
