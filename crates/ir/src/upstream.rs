//! How proxies connect to a backend, as its owner says. What is not said is left to the settings, or to Envoy.

use std::{sync::Arc, time::Duration};

use crate::id::NsName;

/// All that can be said of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ClusterConfig {
    /// How long a connection may take to be made; above zero.
    pub connect_timeout: Option<Duration>,
    /// Bytes buffered per connection; above zero.
    pub buffer_bytes: Option<u32>,
    /// When TCP asks whether the other end is still there.
    pub keepalive: Option<Keepalive>,
    /// Of HTTP of any version.
    pub http: Option<HttpOptions>,
    /// Of HTTP/1.1, where it is spoken.
    pub http1: Option<Http1Options>,
    /// Of HTTP/2, where it is spoken.
    pub http2: Option<Http2Options>,
    /// How requests are spread over endpoints.
    pub balance: Option<LoadBalancer>,
    /// Which endpoints are asked whether they are well.
    pub health_check: Option<HealthCheck>,
    /// Which endpoints get nothing for a while.
    pub outliers: Option<OutlierDetection>,
    /// How much there may be at a time.
    pub breakers: Option<Breakers>,
    /// TLS.
    pub tls: Option<Tls>,
    /// The version of the PROXY protocol that tells the address of the client.
    pub proxy_protocol: Option<ProxyProtocol>,
    /// How names are looked for.
    pub dns: Option<Dns>,
}

/// TCP keepalive; times in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Keepalive {
    /// After how many questions without an answer the other end is gone.
    pub probes: Option<u32>,
    /// After how much silence the first question is asked.
    pub time: Option<u32>,
    /// How far questions are apart.
    pub interval: Option<u32>,
}

/// Options of HTTP of any version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct HttpOptions {
    /// How long a connection may be without a request; zero is forever.
    pub idle_timeout: Option<Duration>,
    /// Headers of a response at most; above zero.
    pub max_headers: Option<u32>,
    /// How long a stream may last.
    pub max_stream_duration: Option<Duration>,
    /// Requests of a connection at most; zero is any.
    pub max_requests: Option<u32>,
}

/// Options of HTTP/1.1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Http1Options {
    /// Whether trailers are passed on.
    pub trailers: bool,
    /// Whether names of headers keep their case.
    pub preserve_case: bool,
    /// Whether a message that is wrong ends its stream alone.
    pub stream_error: Option<bool>,
}

/// Options of HTTP/2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Http2Options {
    /// When a connection is asked whether it still works.
    pub keepalive: Option<Ping>,
    /// Bytes of all streams that a backend may send ahead.
    pub connection_window: Option<u32>,
    /// Bytes of one stream that a backend may send ahead.
    pub stream_window: Option<u32>,
    /// Streams of a connection at a time.
    pub max_streams: Option<u32>,
    /// Whether a message that is wrong ends its stream alone.
    pub stream_error: Option<bool>,
}

/// Pings of HTTP/2; each at least 1 ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ping {
    /// How far pings are apart.
    pub interval: Option<Duration>,
    /// How long an answer may take.
    pub timeout: Duration,
    /// After how much silence a stream waits for a ping first.
    pub idle_interval: Option<Duration>,
}

/// How requests are spread over endpoints.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LoadBalancer {
    /// By what an endpoint is chosen.
    pub by: Balance,
    /// From which share of endpoints that are well all of them are used, in percent.
    pub panic_threshold: Option<u32>,
    /// How long changes of endpoints are collected.
    pub update_merge_window: Option<Duration>,
    /// Whether connections are closed when the endpoints change.
    pub close_on_change: bool,
}

/// By what an endpoint is chosen.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Balance {
    /// Fewest requests of some that are drawn.
    LeastRequest {
        /// How many are drawn, two at least.
        choices: u32,
        /// How new endpoints begin.
        slow_start: Option<SlowStart>,
    },
    /// One after the other.
    RoundRobin {
        /// How new endpoints begin.
        slow_start: Option<SlowStart>,
    },
    /// By lot.
    Random,
    /// By a hash of the request, on a ring.
    RingHash {
        /// The least size of the ring.
        least: Option<u64>,
        /// The greatest size.
        most: u64,
        /// What is hashed.
        hash: Hashing,
    },
    /// By a hash of the request, in a table.
    Maglev {
        /// What is hashed.
        hash: Hashing,
    },
}

/// What is hashed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Hashing {
    /// Of a request; in none of them is anything, an endpoint is drawn.
    pub of: Arc<[HashPolicy]>,
    /// Whether an endpoint is known by its hostname rather than its address.
    pub by_hostname: bool,
}

/// A part of a request that is hashed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HashPolicy {
    /// The part.
    pub of: Hashed,
    /// Whether the rest does not count where this part is there.
    pub terminal: bool,
}

/// A part of a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Hashed {
    /// The value of a header.
    Header(Arc<str>),
    /// The value of a cookie.
    Cookie {
        /// Its name.
        name: Arc<str>,
        /// For how long the proxy sets it where it is not there; zero is a session; none sets nothing.
        ttl: Option<Duration>,
        /// Where it is sent.
        path: Arc<str>,
        /// Its attributes, with their values.
        attributes: Box<[(&'static str, &'static str)]>,
    },
    /// The address of the client.
    SourceIp,
}

/// How a new endpoint begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlowStart {
    /// For how long.
    pub window: Option<Duration>,
    /// How fast its share grows: the bits of a number above zero.
    pub aggression: Option<u64>,
    /// The least share, in percent.
    pub least_percent: Option<u32>,
}

/// Which endpoints are asked whether they are well.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HealthCheck {
    /// How long an answer may take; above zero.
    pub timeout: Duration,
    /// How far questions are apart; above zero.
    pub interval: Duration,
    /// After how many bad answers an endpoint gets nothing.
    pub unhealthy: u32,
    /// After how many good answers it gets requests again.
    pub healthy: u32,
    /// What is asked.
    pub by: HealthCheckBy,
}

/// What endpoints are asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HealthCheckBy {
    /// A request, which is to be answered 200.
    Http {
        /// Its host; that of the endpoint or cluster if empty.
        host: Arc<str>,
        /// Its path.
        path: Arc<str>,
        /// Its method, as HTTP has it.
        method: &'static str,
    },
    /// The health service of gRPC.
    Grpc {
        /// The service that is asked about.
        service: Arc<str>,
        /// The authority.
        authority: Arc<str>,
    },
}

/// Which endpoints get nothing for a while.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct OutlierDetection {
    /// After how many errors in a row.
    pub consecutive_5xx: Option<u32>,
    /// How often is looked; above zero.
    pub interval: Option<Duration>,
    /// For how long, times how often it was so; above zero.
    pub base_ejection_time: Option<Duration>,
    /// How many endpoints at most, in percent.
    pub max_ejection_percent: Option<u32>,
    /// In how many of 100 cases.
    pub enforcing_consecutive_5xx: Option<u32>,
    /// Whether connections that fail are counted by themselves.
    pub split_local: bool,
    /// After how many of them in a row.
    pub consecutive_local: Option<u32>,
    /// In how many of 100 cases.
    pub enforcing_consecutive_local: Option<u32>,
}

/// How much there may be at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Breakers {
    /// Connections.
    pub connections: Option<u32>,
    /// Requests that wait for one.
    pub pending_requests: Option<u32>,
    /// Requests.
    pub requests: Option<u32>,
    /// Retries.
    pub retries: Option<u32>,
    /// Whether Envoy counts what is left of it.
    pub track_remaining: bool,
}

/// TLS towards a backend.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tls {
    /// The name that is asked for.
    pub sni: Option<Arc<str>>,
    /// Whether the name of each endpoint is asked for and expected.
    pub by_endpoint: bool,
    /// What is trusted.
    pub trust: TlsTrust,
    /// The names of which the certificate must have one; empty for any that is trusted.
    pub names: Box<[PeerName]>,
    /// The Secret with the certificate that is shown; if none, it is that of the Gateway, if it has one.
    pub certificate: Option<NsName>,
    /// Whether no certificate is shown at all.
    pub anonymous: bool,
    /// Protocols that are offered, as ALPN names them.
    pub alpn: Box<[Arc<str>]>,
    /// Whether the backend may renegotiate.
    pub renegotiation: bool,
    /// The oldest version.
    pub least_version: Option<TlsVersion>,
    /// The newest version.
    pub most_version: Option<TlsVersion>,
    /// Ciphers up to TLS 1.2, as Envoy names them.
    pub ciphers: Box<[Arc<str>]>,
    /// Curves.
    pub curves: Box<[Arc<str>]>,
    /// Algorithms of signatures.
    pub signatures: Box<[Arc<str>]>,
}

impl Tls {
    /// Whether the certificate of the Gateway is shown, if it has one: nobody says what is.
    pub fn shows_certificate_of_gateway(&self) -> bool {
        self.certificate.is_none() && !self.anonymous
    }

    /// TLS with whom these authorities vouch for, and as Envoy does it otherwise.
    pub fn of(trust: TlsTrust) -> Self {
        Self {
            sni: None,
            by_endpoint: false,
            trust,
            names: Box::default(),
            certificate: None,
            anonymous: false,
            alpn: Box::default(),
            renegotiation: false,
            least_version: None,
            most_version: None,
            ciphers: Box::default(),
            curves: Box::default(),
            signatures: Box::default(),
        }
    }
}

/// Whose certificates are trusted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TlsTrust {
    /// Those of these authorities, in PEM.
    Authorities(Arc<str>),
    /// Those of the authorities in the secret of this name, which proxies are sent apart.
    Bundle(Arc<str>),
    /// Those of the authorities of the proxy's system.
    System,
    /// Anybody's.
    Anybody,
}

/// A name that a certificate may have.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PeerName {
    /// This name in DNS.
    Dns(Arc<str>),
    /// Any one label before this name in DNS.
    Below(Arc<str>),
    /// This URI.
    Uri(Arc<str>),
    /// This address, as text.
    Address(Arc<str>),
}

impl PeerName {
    /// What a text means that does not say what it is.
    pub fn of(text: &str) -> Self {
        if text.contains("://") {
            Self::Uri(text.into())
        } else if text.parse::<std::net::IpAddr>().is_ok() {
            Self::Address(text.into())
        } else {
            Self::Dns(text.into())
        }
    }
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TlsVersion {
    /// 1.0.
    V1_0,
    /// 1.1.
    V1_1,
    /// 1.2.
    V1_2,
    /// 1.3.
    V1_3,
}

/// A version of the PROXY protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProxyProtocol {
    /// In text.
    V1,
    /// In binary.
    V2,
}

/// How names are looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Dns {
    /// How often; at least a second.
    pub refresh: Option<Duration>,
    /// How much later at most.
    pub jitter: Option<Duration>,
    /// Whether as often as records say; if none, where `refresh` is not said.
    pub by_ttl: Option<bool>,
}

impl ClusterConfig {
    /// What of a request is hashed.
    pub fn hash(&self) -> Option<&Arc<[HashPolicy]>> {
        match &self.balance.as_ref()?.by {
            Balance::RingHash { hash, .. } | Balance::Maglev { hash } => Some(&hash.of),
            _ => None,
        }
    }
}
