//! What proxies tell servers of the requests that they take: logs and traces.

use std::{fmt, sync::Arc, time::Duration};

use crate::backend::{Asked, Destination};

/// Values by name, in the order in which they are written.
pub type Pairs<T> = Arc<[(Arc<str>, T)]>;

/// A server that is told, in gRPC.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Sink {
    /// Whom it means. Its cluster has the same name whatever is known of it, so that nothing but what is written names
    /// another.
    pub to: Destination,
    /// Whether each call is told something and ends, so that as many are under way as nobody takes. Else a proxy has one
    /// for each of its workers, and drops what that does not take.
    pub unary: bool,
    /// Whether it can be told; else it has no cluster, and what it would be told is lost.
    pub is_there: bool,
    /// The host that it is called by.
    pub authority: Arc<str>,
    /// Headers that it gets with each call. Their values may be secret.
    pub metadata: Pairs<Arc<str>>,
    /// How long a call may take.
    pub timeout: Option<Duration>,
    /// How a call is tried again.
    pub retries: Option<Retries>,
    /// Bytes of an answer at most.
    pub max_answer_bytes: Option<u32>,
    /// Whether it gets no header of Envoy's own.
    pub skip_envoy_headers: bool,
}

/// The name of the cluster of a server that is told in calls of their own, which has bounds of its own.
pub fn told_cluster_name(to: &Destination) -> String {
    format!("{}/told", to.cluster_name())
}

impl Sink {
    /// The name of its cluster: behind that of whom it means stands `/told`, or `/grpc` as in [`Asked::Grpc`].
    pub fn cluster_name(&self) -> String {
        if self.unary { told_cluster_name(&self.to) } else { Asked::Grpc(self.to.clone()).cluster_name() }
    }
}

impl fmt::Debug for Sink {
    /// Without what may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sink").field("to", &self.to).field("is_there", &self.is_there).finish_non_exhaustive()
    }
}

/// How a call is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Retries {
    /// How often at most.
    pub attempts: u32,
    /// How long before the first, and at most before another.
    pub backoff: Option<(Duration, Option<Duration>)>,
}

/// A log that goes to a server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RemoteLog {
    /// The server.
    pub sink: Sink,
    /// What the log is called there.
    pub name: Arc<str>,
    /// What it says.
    pub says: RemoteSays,
}

/// What a log says that goes to a server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RemoteSays {
    /// Envoy's own entries, with headers beside those that are always told: names in lower case.
    Entries {
        /// Of requests.
        request_headers: Arc<[Arc<str>]>,
        /// Of responses.
        response_headers: Arc<[Arc<str>]>,
        /// Of the trailers of responses.
        response_trailers: Arc<[Arc<str>]>,
    },
    /// Records of OpenTelemetry.
    Records {
        /// The body, with Envoy's operators.
        body: Option<Arc<str>>,
        /// Attributes of each record, with Envoy's operators.
        attributes: Pairs<TelemetryValue>,
        /// Attributes of the proxy, to the letter.
        resource: Pairs<TelemetryValue>,
        /// Whether those of Envoy's own stand there too: the name of the log, and where the proxy runs.
        builtin: bool,
    },
}

/// A value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TelemetryValue {
    /// A text.
    Text(Arc<str>),
    /// A list.
    List(Arc<[TelemetryValue]>),
    /// A mapping.
    Map(Pairs<TelemetryValue>),
}

/// Which requests are traced, and who is told.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tracing {
    /// The server, which speaks OTLP.
    pub sink: Sink,
    /// What the proxy is called there; the Gateway's name, if none.
    pub service: Option<Arc<str>>,
    /// Of a hundred requests whose clients ask for it (`x-client-trace-id`), so many are traced.
    pub client_sampling: Option<u32>,
    /// So many of a hundred others.
    pub random_sampling: Option<u32>,
    /// So many of a hundred in all.
    pub overall_sampling: Option<u32>,
    /// Whether spans tell more of what happens on the way.
    pub verbose: Option<bool>,
    /// Characters of a path at most.
    pub max_path: Option<u32>,
    /// Attributes of spans, each an encoded `envoy.type.tracing.v3.CustomTag`.
    pub tags: Arc<[Arc<[u8]>]>,
    /// Whether each request to a backend has a span of its own.
    pub upstream_span: Option<bool>,
    /// Whether a request that is chosen is traced though its client says that it is not (`traceparent`).
    pub always_on: bool,
}
