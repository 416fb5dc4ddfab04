//! Settings of the controller: what the API is silent about. Each has the default that the edge of a network wants.

use std::{net::IpAddr, sync::Arc, time::Duration};

use crate::{backend::ClusterLimits, downstream::CertificateDetails};

/// All settings that translation reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// GatewayClasses with this `controllerName` are ours.
    pub controller_name: Arc<str>,
    /// Which port Envoy binds for a Gateway's port.
    pub ports: PortMapping,
    /// Whether all Gateways share one host, so that two on one port and address collide.
    pub shared_host: bool,
    /// What listeners and connections are limited to.
    pub edge: Edge,
    /// What clusters are limited to.
    pub cluster: ClusterLimits,
    /// How long a connection to a backend may take to be made.
    pub connect_timeout: Duration,
    /// Whether Backends may lead to local addresses (`validate::host::is_local`).
    pub local_backends: bool,
    /// The file of proxies with the authorities of their system; empty where there is none, so that nobody can ask for these.
    pub system_trust_store: Arc<str>,
    /// What stands in place of a broken rule.
    pub replacement: Replacement,
    /// How routes delegate to each other.
    pub delegation: Delegation,
    /// Whom policies reach.
    pub policies: Policies,
    /// How far GatewayParameters are trusted.
    pub gateway_parameters: Trust,
    /// What regular expressions may cost.
    pub regex: Regex,
    /// What may be placed in proxies.
    pub capacity: Capacity,
    /// Whether Envoy is asked before anything is sent.
    pub validation: Validation,
    /// Whether trees of routes may keep their last good version.
    pub freeze: Freeze,
}

/// Whether trees of routes, and policies of Gateways, may keep their last good version, and how much of that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freeze {
    /// Whether `FreezeConfig` is heard. If not, it is refused.
    pub enabled: bool,
    /// How many bytes the version of one tree may have, as it is stored.
    pub max_tree_bytes: u64,
    /// How many all together may have, shared out among the namespaces of their roots.
    pub max_bytes: u64,
    /// How many trees may have one, shared out in the same way.
    pub max_trees: u64,
}

/// Whether Envoy is asked before anything is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validation {
    /// Who judges.
    pub level: ValidationLevel,
    /// How long anything waits for Envoy's word.
    pub timeout: Duration,
    /// What becomes of it then.
    pub when_unavailable: WhenUnavailable,
}

/// Who judges what is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ValidationLevel {
    /// The checks in process alone.
    #[default]
    Standard,
    /// They, and an Envoy.
    Strict,
}

/// What becomes of what no Envoy judges in time, though nobody is to blame for that who wrote it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenUnavailable {
    /// It is sent: it passed the checks in process.
    #[default]
    Standard,
    /// It waits.
    Hold,
}

/// Which port Envoy binds for a Gateway's port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortMapping {
    /// The Gateway's own.
    Own,
    /// 10000 more where it is below 1024, so that no privilege is needed, and another where the proxy itself needs it
    /// ([`RESERVED_PORTS`]).
    Mapped,
}

/// The component of Envoy that logs people in, and how severe what it logs must be: at `error` it logs tokens that it cannot
/// decrypt, which whoever asks may have taken from others.
pub const LOGIN_LOG_LEVEL: (&str, &str) = ("oauth2", "critical");

/// How many bytes the seed has from which the keys of logins are made.
pub const LOGIN_SEED_BYTES: usize = 32;

/// The port of a deployed proxy's admin interface, on loopback.
pub const ADMIN_PORT: u16 = 19_000;

/// The port at which a deployed proxy tells whether it is ready, and its statistics.
pub const OBSERVED_PORT: u16 = 19_001;

/// For whom a proxy's token has to be: nobody else takes it, and none that is for others is taken by xDS.
pub const XDS_TOKEN_AUDIENCE: &str = "portcullis-xds";

/// The ports that a deployed proxy needs for itself.
pub const RESERVED_PORTS: [u16; 2] = [ADMIN_PORT, OBSERVED_PORT];

/// What a broken rule, filter or policy of a route is replaced by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replacement {
    /// Whether it is replaced at all. If not, its matches are dropped, and requests for them may reach a broader route.
    pub enabled: bool,
    /// 400 to 599.
    pub status: u16,
    /// At most 4,096 bytes; all that a client sees of the fault.
    pub body: Arc<str>,
}

/// What regular expressions may cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Regex {
    /// How much of a worker's time all that one request meets may take, as it is estimated from what was measured.
    pub max_time: Duration,
}

/// What may be placed in proxies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// What routes, virtual hosts, clusters and endpoints of a Gateway may take of a proxy's memory, in bytes, as it is
    /// estimated from what was measured.
    pub max_bytes: u64,
}

/// How routes delegate to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delegation {
    /// What means all namespaces in a reference by label.
    pub wildcard_namespace: Arc<str>,
    /// Whose children a route may be that names no parent.
    pub consent: Consent,
    /// How many routes may stand above another.
    pub max_depth: u32,
    /// How many matches all routes of one root's tree may have together, at most a million. As many again may answer 500.
    pub max_matches: u32,
}

/// Whom policies reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policies {
    /// The namespace whose policies select objects of every namespace; empty for none.
    pub global_namespace: Arc<str>,
    /// Whether a policy needs a grant to ask an extension of another namespace.
    pub extension_grants: ExtensionGrants,
    /// How many Envoy routes of a route configuration ask the same provider in the same words before it is said once for all
    /// of them; zero for never.
    pub say_once_from: u64,
    /// How many bytes a body may have that templates read or replace.
    pub max_body_bytes: u32,
}

/// Whether a policy needs a grant to ask a GatewayExtension of another namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExtensionGrants {
    /// It does not.
    #[default]
    Permissive,
    /// It does.
    Strict,
}

/// Whose children a route may be that names no parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consent {
    /// Anybody's.
    Any,
    /// Those of its own namespace.
    CrossNamespaceExplicit,
}

/// How far GatewayParameters are trusted: what whoever may write them gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// What a pod of the restricted Pod Security Standard can do, without Secrets and without other `ServiceAccount`s.
    #[default]
    Restricted,
    /// All that the controller may do: as a rule every Secret of a namespace, and its nodes.
    Unrestricted,
    /// Those of a GatewayClass are trusted without restriction; those of a Gateway say nothing of pods and images.
    ClassOnly,
}

/// Defaults of listeners.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Proxies in front of this one whose `x-forwarded-for` is trusted.
    pub trusted_hops: u32,
    /// Bytes of request headers at most, in KiB.
    pub max_request_headers_kib: u32,
    /// Count of request headers at most.
    pub max_request_headers: u32,
    /// Bytes buffered per connection.
    pub buffer_bytes: u32,
    /// Streams per HTTP/2 connection at a time.
    pub max_concurrent_streams: u32,
    /// How long a stream may be silent.
    pub stream_idle_timeout: Duration,
    /// How long the headers of a request may take.
    pub request_headers_timeout: Duration,
    /// How long a connection may be without a request.
    pub idle_timeout: Duration,
    /// How long a connection of TCP or TLS that is led on as a whole may be silent; zero is forever.
    pub tcp_idle_timeout: Duration,
    /// How long such a connection may last; zero is without end.
    pub tcp_max_duration: Duration,
    /// How long a session of datagrams may be silent.
    pub udp_session_timeout: Duration,
    /// How long a connection is drained before it is closed.
    pub drain_timeout: Duration,
    /// Connections of one Envoy at a time.
    pub max_connections: u32,
    /// Connections of one filter chain of an Envoy at a time; zero is any number.
    pub max_listener_connections: u32,
    /// Who may say by the PROXY protocol whom connections come from: first address and length of prefix; anybody if it is empty.
    pub proxy_protocol_sources: Arc<[(IpAddr, u8)]>,
    /// What backends are told of certificates of clients; nothing if it is empty.
    pub client_certificate_details: CertificateDetails,
    /// Bytes of heap at which an Envoy sheds load; zero switches it off.
    pub max_heap_bytes: u64,
    /// Whether each request is logged as one line of JSON to standard output.
    pub access_log: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            controller_name: "portcullis.dev/gateway-controller".into(),
            ports: PortMapping::Own,
            shared_host: true,
            edge: Edge::default(),
            cluster: ClusterLimits {
                connections: 10_000,
                pending_requests: 10_000,
                requests: 10_000,
                retries: 100,
                buffer_bytes: 32 * 1024,
            },
            connect_timeout: Duration::from_secs(5),
            local_backends: false,
            system_trust_store: "/etc/ssl/certs/ca-certificates.crt".into(),
            replacement: Replacement {
                enabled: true,
                status: 500,
                body: "invalid route configuration: replaced by a direct response".into(),
            },
            delegation: Delegation {
                wildcard_namespace: "all".into(),
                consent: Consent::Any,
                max_depth: 32,
                max_matches: 10_000,
            },
            policies: Policies {
                global_namespace: "".into(),
                extension_grants: ExtensionGrants::default(),
                say_once_from: 1_024,
                max_body_bytes: 128 * 1024,
            },
            gateway_parameters: Trust::default(),
            regex: Regex { max_time: Duration::from_millis(50) },
            capacity: Capacity { max_bytes: 768 << 20 },
            validation: Validation {
                level: ValidationLevel::default(),
                timeout: Duration::from_secs(10),
                when_unavailable: WhenUnavailable::default(),
            },
            freeze: Freeze { enabled: false, max_tree_bytes: 16 << 20, max_bytes: 64 << 20, max_trees: 1_000 },
        }
    }
}

impl Default for Edge {
    fn default() -> Self {
        Self {
            trusted_hops: 0,
            max_request_headers_kib: 60,
            max_request_headers: 100,
            buffer_bytes: 32 * 1024,
            max_concurrent_streams: 100,
            stream_idle_timeout: Duration::from_mins(5),
            request_headers_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_hours(1),
            tcp_idle_timeout: Duration::from_hours(1),
            tcp_max_duration: Duration::ZERO,
            udp_session_timeout: Duration::from_mins(1),
            drain_timeout: Duration::from_secs(5),
            max_connections: 50_000,
            max_listener_connections: 0,
            proxy_protocol_sources: Arc::default(),
            client_certificate_details: Arc::default(),
            max_heap_bytes: 0,
            access_log: true,
        }
    }
}
