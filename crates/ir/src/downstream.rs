//! What is said of the connections and requests that the listeners of a port take. What is not said holds as the settings
//! have it, and nothing here goes beyond a bound of theirs.

use std::{net::IpAddr, sync::Arc, time::Duration};

use crate::{
    telemetry::{RemoteLog, Sink, Tracing},
    upstream::Keepalive,
};

/// What an HTTP/2 client may send on one stream before Envoy has passed it on, in bytes, at most.
pub const STREAM_WINDOW: u32 = 64 * 1024;
/// The same for all streams of a connection.
pub const CONNECTION_WINDOW: u32 = 1024 * 1024;

/// What is said of a port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ListenerConfig {
    /// Bytes buffered per connection.
    pub buffer_bytes: Option<u32>,
    /// TCP keepalive towards clients.
    pub keepalive: Option<Keepalive>,
    /// How long the TLS handshake may take.
    pub handshake_timeout: Option<Duration>,
    /// What a load balancer in front says of connections.
    pub proxy_protocol: Option<ProxyProtocolFrom>,
    /// What is said of HTTP.
    pub http: HttpConfig,
}

/// Who sends the header of the PROXY protocol (version 1 or 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProxyProtocolFrom {
    /// Everybody; a connection without it is closed.
    All,
    /// Some; a connection without it is one of whoever opened it.
    Some,
}

/// What is said of HTTP.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct HttpConfig {
    /// Where requests say whom they come from.
    pub client: Option<Client>,
    /// How long a connection may be without a request.
    pub idle_timeout: Option<Duration>,
    /// How long a stream may be silent; zero is forever.
    pub stream_idle_timeout: Option<Duration>,
    /// Request headers at most.
    pub max_headers: Option<u32>,
    /// Bytes of request headers at most, in KiB.
    pub max_headers_kib: Option<u32>,
    /// Requests of one connection at most; zero is any number.
    pub max_requests: Option<u32>,
    /// What is said of HTTP/2.
    pub http2: Option<Http2>,
    /// Whether names of headers go to HTTP/1 backends and clients in the letters in which they came.
    pub preserve_case: Option<bool>,
    /// What backends are told of certificates of clients.
    pub told_of_clients: Option<ToldOfClients>,
    /// Whether a `100 Continue` is the backend's word.
    pub proxy_100: Option<bool>,
    /// What becomes of the header `server` of responses.
    pub server: Option<ServerHeader>,
    /// What that header says where Envoy writes it.
    pub server_name: Option<Arc<str>>,
    /// Whether the port of a request's host is left out for backends.
    pub strip_port: Option<StripPort>,
    /// The protocols to which a connection may be upgraded, in lower case: these alone.
    pub upgrades: Option<Arc<[Arc<str>]>>,
    /// Logs of requests, beside that of the settings.
    pub access_logs: Option<Arc<[AccessLog]>>,
    /// Which requests are traced.
    pub tracing: Option<Traces>,
}

impl HttpConfig {
    /// Which requests are traced, if somebody is told.
    pub fn traces(&self) -> Option<&Tracing> {
        match self.tracing.as_ref()? {
            Traces::ToNobody => None,
            Traces::To(tracing) => Some(tracing),
        }
    }

    /// The servers that are told of requests.
    pub fn sinks(&self) -> impl Iterator<Item = &Sink> {
        let logs = self.access_logs.iter().flat_map(|logs| logs.iter());
        let logs = logs.filter_map(|log| match &log.to {
            LogTo::Server(remote) => Some(&remote.sink),
            LogTo::Stream(..) => None,
        });
        logs.chain(self.traces().map(|tracing| &tracing.sink))
    }
}

/// What is said of traces.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Traces {
    /// Whom it names may not be named: nobody is told, and nobody of a weaker policy in its place.
    ToNobody,
    /// Who is told, and of what.
    To(Arc<Tracing>),
}

/// Where requests say whom they come from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Client {
    /// Whether it is who opened the connection, if not a trusted proxy.
    pub by_connection: Option<bool>,
    /// Proxies in front whose `x-forwarded-for` is trusted.
    pub trusted_hops: Option<u32>,
    /// The addresses of such proxies: first address and length of prefix.
    pub trusted_ranges: Vec<(IpAddr, u8)>,
    /// Whether `x-forwarded-for` goes to backends as it came.
    pub skip_append: Option<bool>,
}

impl Client {
    /// Whether requests say whom they come from, where `hops` proxies are trusted unless it is said. Of one that it sends on
    /// to another route Envoy looks at the connection alone.
    pub fn takes_addresses(&self, hops: u32) -> bool {
        self.by_connection == Some(false) || !self.trusted_ranges.is_empty() || self.trusted_hops.unwrap_or(hops) > 0
    }
}

/// What is said of HTTP/2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Http2 {
    /// Streams of a connection at a time.
    pub max_streams: Option<u32>,
    /// Bytes of one stream that are not passed on yet.
    pub stream_window: Option<u32>,
    /// Bytes of all streams of a connection that are not passed on yet.
    pub connection_window: Option<u32>,
}

/// What backends are told of certificates of clients, by the header `x-forwarded-client-cert`. Of a client that showed none they
/// are told nothing, whatever it says itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ToldOfClients {
    /// Nothing.
    Nothing,
    /// What the client says.
    Said,
    /// What the client says, and behind it what its certificate says.
    SaidAndShown(CertificateDetails),
    /// What its certificate says.
    Shown(CertificateDetails),
}

/// Parts of a certificate, besides its hash: sorted, each once.
pub type CertificateDetails = Arc<[CertificateDetail]>;

/// A part of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CertificateDetail {
    /// Its subject.
    Subject,
    /// Its names that are URIs.
    Uri,
    /// Its names in DNS.
    Dns,
    /// All of it, in PEM.
    Cert,
    /// It, and those that vouch for it, in PEM.
    Chain,
}

impl CertificateDetail {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Subject, Self::Uri, Self::Dns, Self::Cert, Self::Chain];

    /// How it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Subject => "subject",
            Self::Uri => "uri",
            Self::Dns => "dns",
            Self::Cert => "cert",
            Self::Chain => "chain",
        }
    }
}

/// What becomes of the header `server` of responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ServerHeader {
    /// Envoy writes it.
    Overwrite,
    /// Envoy writes it where a backend did not.
    AppendIfAbsent,
    /// It is the backend's.
    PassThrough,
}

/// Whether the port of a request's host is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StripPort {
    /// If it is the listener's.
    Matching,
    /// Always.
    Any,
}

impl ListenerConfig {
    /// Adds what a weaker policy says of what is not said.
    #[must_use]
    pub fn or(self, weaker: &Self) -> Self {
        let weaker = weaker.clone();
        let (http, other) = (self.http, weaker.http);
        Self {
            buffer_bytes: self.buffer_bytes.or(weaker.buffer_bytes),
            keepalive: self.keepalive.or(weaker.keepalive),
            handshake_timeout: self.handshake_timeout.or(weaker.handshake_timeout),
            proxy_protocol: self.proxy_protocol.or(weaker.proxy_protocol),
            http: HttpConfig {
                client: http.client.or(other.client),
                idle_timeout: http.idle_timeout.or(other.idle_timeout),
                stream_idle_timeout: http.stream_idle_timeout.or(other.stream_idle_timeout),
                max_headers: http.max_headers.or(other.max_headers),
                max_headers_kib: http.max_headers_kib.or(other.max_headers_kib),
                max_requests: http.max_requests.or(other.max_requests),
                http2: http.http2.or(other.http2),
                preserve_case: http.preserve_case.or(other.preserve_case),
                told_of_clients: http.told_of_clients.or(other.told_of_clients),
                proxy_100: http.proxy_100.or(other.proxy_100),
                server: http.server.or(other.server),
                server_name: http.server_name.or(other.server_name),
                strip_port: http.strip_port.or(other.strip_port),
                upgrades: http.upgrades.or(other.upgrades),
                access_logs: http.access_logs.or(other.access_logs),
                tracing: http.tracing.or(other.tracing),
            },
        }
    }
}

/// A log of requests.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AccessLog {
    /// Where it goes, and what it says.
    pub to: LogTo,
    /// Which requests are logged; all of them if none.
    pub filter: Option<LogFilter>,
}

/// Where a log goes, and what it says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LogTo {
    /// To what the proxy writes itself, a line for a request.
    Stream(LogStream, LogFormat),
    /// To a server.
    Server(Arc<RemoteLog>),
}

/// What a proxy writes logs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LogStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// What a line says, with Envoy's operators.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LogFormat {
    /// This, to the letter: a line ends where it says so.
    Text(Arc<str>),
    /// A JSON object, as text, on a line.
    Json(Arc<str>),
}

/// Which requests are logged.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LogFilter {
    /// By the status.
    Status(Compare, u32),
    /// By how long they took, in milliseconds.
    Duration(Compare, u32),
    /// By the status of gRPC, by number; those that have none of them if `exclude`.
    GrpcStatus {
        /// Which.
        statuses: Arc<[i32]>,
        /// Whether these are left out.
        exclude: bool,
    },
    /// Those with a header of exactly this value.
    Header(Arc<str>, Arc<str>),
    /// Those with one of these flags of Envoy.
    Flags(Arc<[Arc<str>]>),
    /// Those that are no health checks.
    NotHealthCheck,
    /// Those that are traced.
    Traceable,
    /// A share of them: so many of so many.
    Share {
        /// The key by which an operator of the proxy can say otherwise.
        key: Arc<str>,
        /// How many.
        numerator: u32,
        /// Of 100, 10,000 or 1,000,000.
        denominator: u32,
        /// Whether each is drawn by itself, not by its id.
        independent: bool,
    },
    /// Those that pass all.
    All(Arc<[LogFilter]>),
    /// Those that pass any.
    Any(Arc<[LogFilter]>),
}

/// How a number is compared with another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compare {
    /// It is equal.
    Equal,
    /// It is as great or greater.
    AtLeast,
    /// It is as small or smaller.
    AtMost,
}

/// Envoy's response flags.
pub const FLAGS: [&str; 29] = [
    "LH", "UH", "UT", "LR", "UR", "UF", "UC", "UO", "NR", "DI", "FI", "RL", "UAEX", "RLSE", "DC", "URX", "SI", "IH",
    "DPE", "UMSDR", "RFCF", "NFCF", "DT", "UPE", "NC", "OM", "DF", "DO", "DR",
];
