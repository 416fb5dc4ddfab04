//! The gRPC service: one task per stream drives its [`Stream`].

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use accept::{FairSemaphore, Permit};
use bytes::{Buf, Bytes};
use futures::future::{BoxFuture, FutureExt as _};
use http::{Request, Response};
use tokio::sync::mpsc::OwnedPermit;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tonic::codec::{DecodeBuf, Decoder, Streaming};
use tonic::{Code, Status};

use crate::admission::{Admission, Authenticated, IdleConnection, StreamGuard};
use crate::body::{Part, StreamBody};
use crate::config::Config;
use crate::event::{Event, Reporter};
use crate::hub::{Hub, Publication};
use crate::identity::Refusal;
use crate::peer::{Origin, Peer};
use crate::request::{DeltaRequest, Node, ParseError, SotwRequest, printable};
use crate::stream::{Observation, Protocol, Settings, Stream, Violation};
use crate::trial::Trial;

const DELTA: &str = "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources";
const SOTW: &str = "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources";

/// Events that a stream keeps while the reader of events is behind.
const MAX_UNREPORTED: usize = 256;
/// How long a stream that ended tries to send its status ...
pub(crate) const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// ... and its last events, without which the reader takes it for connected, and for refused what is not.
const REPORT_TIMEOUT: Duration = Duration::from_mins(1);

/// What all streams of a server share.
pub(crate) struct Shared {
    pub(crate) hub: Hub,
    pub(crate) config: Config,
    pub(crate) reporter: Reporter,
    /// The permits of streams, by gateway; before the first request by the empty name.
    pub(crate) streams: FairSemaphore<String>,
    /// The permits of connections without a stream.
    pub(crate) idle_connections: FairSemaphore<Origin>,
    pub(crate) large_sends: Arc<Semaphore>,
    pub(crate) next_stream: AtomicU64,
    pub(crate) admission: Admission,
}

impl Shared {
    /// A permit for a stream of `gateway`.
    fn permit(&self, gateway: &str) -> Result<Permit<String>, Status> {
        self.streams.try_acquire(gateway.to_owned()).ok_or_else(|| self.admission.exceeds_share(gateway))
    }
}

/// The service as one connection sees it.
#[derive(Clone)]
pub(crate) struct Ads {
    pub(crate) shared: Arc<Shared>,
    pub(crate) peer: Peer,
    /// True once the connection's streams shall end.
    pub(crate) draining: watch::Receiver<bool>,
    /// Its permit while there is no stream on the connection.
    pub(crate) idle: Arc<IdleConnection>,
}

impl<B> tower::Service<Request<B>> for Ads
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<StreamBody>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let ads = self.clone();
        async move { Ok(ads.open(request).await.unwrap_or_else(Status::into_http)) }.boxed()
    }
}

impl Ads {
    async fn open<B>(self, request: Request<B>) -> Result<Response<StreamBody>, Status>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let protocol = match request.uri().path() {
            DELTA => Protocol::Delta,
            SOTW => Protocol::Sotw,
            _ => return Err(Status::unimplemented("only the aggregated discovery service is served")),
        };
        if request.method() != http::Method::POST {
            return Err(Status::unimplemented("gRPC is POST"));
        }
        // Without a token there is nothing to wait for.
        let token = self.shared.admission.token(&self.peer, request.headers())?;
        let mut draining = self.draining.clone();
        let waits_for_us = self.idle.asks();
        tokio::select! {
            ready = timeout(self.shared.config.ready_timeout, self.shared.hub.until_ready()) => {
                ready.map_err(|_| Status::unavailable("the configuration was not read completely yet"))?;
            }
            _ = draining.wait_for(|draining| *draining) => return Err(going_away()),
        }
        let authenticated = self.shared.admission.admit(&self.peer, token).await?;
        let permit = self.shared.permit(authenticated.as_ref().map_or("", Authenticated::gateway))?;
        let guard = self.idle.open_stream();
        drop(waits_for_us);
        let limit = self.shared.config.limits.request_bytes;
        let requests = Streaming::new_request(RawDecoder, request.into_body(), None, Some(limit));
        let (parts, body) = mpsc::channel(1);
        let task = StreamTask {
            id: self.shared.next_stream.fetch_add(1, Ordering::Relaxed),
            protocol,
            requests,
            parts,
            unreported: Vec::new(),
            authenticated,
            ads: self,
            permit: Some(permit),
            _guard: guard,
        };
        tokio::spawn(task.run());
        let mut response = Response::new(StreamBody::new(body));
        let grpc = http::HeaderValue::from_static("application/grpc");
        response.headers_mut().insert(http::header::CONTENT_TYPE, grpc);
        Ok(response)
    }
}

/// Hands on the bytes of each message; they are read with bounds where those are known.
struct RawDecoder;

impl Decoder for RawDecoder {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, source: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        let len = source.remaining();
        Ok(Some(source.copy_to_bytes(len)))
    }
}

/// A request of either variant.
enum Parsed {
    Delta(DeltaRequest),
    Sotw(SotwRequest),
}

impl Parsed {
    fn node(&self) -> Option<&Node> {
        match self {
            Self::Delta(request) => request.node.as_ref(),
            Self::Sotw(request) => request.node.as_ref(),
        }
    }
}

struct StreamTask {
    ads: Ads,
    id: u64,
    protocol: Protocol,
    requests: Streaming<Bytes>,
    parts: mpsc::Sender<Part>,
    /// Events that found no room, oldest first.
    unreported: Vec<Event>,
    /// Who the stream is, where tokens are asked for.
    authenticated: Option<Authenticated>,
    /// Among those of its gateway. None only while it is changed for another.
    permit: Option<Permit<String>>,
    _guard: StreamGuard,
}

impl StreamTask {
    async fn run(mut self) {
        let parts = self.parts.clone();
        let mut left = None;
        let status = match self.begin().await {
            Ok(Some((gateway, request))) => {
                let mut view = self.ads.shared.hub.subscribe(&gateway);
                let mut trials = self.ads.shared.hub.trials_of(self.id);
                let status = self.serve(&gateway, request, &mut view, &mut trials).await;
                self.ads.shared.hub.unsubscribe(&gateway, view);
                self.ads.shared.hub.end_trials(self.id);
                left = Some(gateway);
                status
            }
            Ok(None) => Status::ok(""),
            Err(status) => status,
        };
        if status.code() != Code::Ok {
            tracing::debug!(stream = self.id, code = ?status.code(), reason = status.message(), "xDS stream ends");
        }
        // A client that takes nothing any more does not need to know either.
        let _ = timeout(CLOSE_TIMEOUT, parts.send(Part::End(status))).await;
        if let Some(gateway) = left {
            self.leave(gateway).await;
        }
    }

    /// The first request has the node, which decides what the stream may read.
    async fn begin(&mut self) -> Result<Option<(String, Parsed)>, Status> {
        let mut draining = self.ads.draining.clone();
        let config = &self.ads.shared.config;
        let timeout = config.keepalive_interval + config.keepalive_timeout;
        let revoked = self.revoked();
        let request = tokio::select! {
            request = self.requests.message() => request?,
            () = revoked => return Err(self.ads.shared.admission.exceeds_share("")),
            // A proxy asks at once: a stream that is only held open takes the permit of another.
            () = sleep(timeout) => return Err(Status::deadline_exceeded("nothing was asked for")),
            _ = draining.wait_for(|draining| *draining) => return Err(going_away()),
            () = self.parts.closed() => return Ok(None),
        };
        let Some(request) = request else { return Ok(None) };
        let request = self.parse(request)?;
        let Some(node) = request.node() else {
            return Err(Status::invalid_argument("the first request must carry the node"));
        };
        let gateway = match &self.authenticated {
            None => {
                let gateway = (config.authorize)(&self.ads.peer, node)?;
                self.permit = None;
                self.permit = Some(self.ads.shared.permit(&gateway)?);
                gateway
            }
            Some(authenticated) if authenticated.gateway() == node.cluster => node.cluster.clone(),
            Some(_) => return Err(self.ads.shared.admission.refuse(Refusal::WrongGateway)),
        };
        let (node_id, envoy) = (printable(&node.id, 256), node.envoy);
        tracing::debug!(stream = self.id, gateway, node_id, protocol = ?self.protocol, "xDS stream begins");
        self.report(Event::Connected { gateway: gateway.clone(), node_id, envoy, stream: self.id });
        Ok(Some((gateway, request)))
    }

    /// Waits until the permit is revoked, in favour of another gateway.
    fn revoked(&self) -> BoxFuture<'static, ()> {
        self.permit.as_ref().map_or_else(|| std::future::pending().boxed(), |permit| permit.revoked().boxed())
    }

    fn parse(&self, message: Bytes) -> Result<Parsed, Status> {
        let limits = &self.ads.shared.config.limits;
        let parsed = match self.protocol {
            Protocol::Delta => DeltaRequest::parse(message, limits).map(Parsed::Delta),
            Protocol::Sotw => SotwRequest::parse(message, limits).map(Parsed::Sotw),
        };
        parsed.map_err(|error| match error {
            ParseError::Malformed(_) => Status::invalid_argument(error.to_string()),
            ParseError::TooLarge { .. } => Status::resource_exhausted(error.to_string()),
        })
    }

    async fn serve(
        &mut self,
        gateway: &str,
        first: Parsed,
        view: &mut watch::Receiver<Publication>,
        trials: &mut watch::Receiver<Option<Trial>>,
    ) -> Status {
        let config = &self.ads.shared.config;
        let Config { limits, gate_timeout, least_envoy, .. } = *config;
        let settings = Settings { limits, gate_timeout, least_envoy };
        let mut stream = Stream::new(self.protocol, first.node().cloned().unwrap_or_default(), settings);
        let mut draining = self.ads.draining.clone();
        let mut seen = Publication::Awaited;
        let authenticated = self.authenticated.take();
        let (shared, peer) = (self.ads.shared.clone(), self.ads.peer.clone());
        let mut lost = pin!(async move {
            match authenticated {
                Some(authenticated) => authenticated.revoked(&shared.admission, &peer).await,
                None => std::future::pending().await,
            }
        });
        let mut revoked = self.revoked();
        take_snapshot(&mut stream, view, &mut seen);
        if let Err(violation) = on_request(&mut stream, first) {
            return refused(&violation);
        }
        let mut room: Option<OwnedPermit<Part>> = None;
        loop {
            if seen == Publication::Withdrawn {
                return Status::unavailable("the Gateway was withdrawn");
            }
            if let Some(free) = room.take() {
                if let Some(response) = stream.next_response(Instant::now().into_std()) {
                    self.ads.shared.config.metrics.sent(&response);
                    let permit = self.large_send(response.bytes()).await;
                    drop(free.send(Part::Message(response.frames, permit)));
                } else {
                    room = Some(free);
                }
            }
            for observation in stream.take_observations() {
                self.observed(gateway, &stream, observation);
            }
            // Without room nothing can be sent, so no deadline matters.
            let deadline = if room.is_some() { stream.deadline() } else { None };
            tokio::select! {
                free = self.parts.clone().reserve_owned(), if room.is_none() => match free {
                    Ok(free) => room = Some(free),
                    Err(_) => return Status::ok(""),
                },
                request = self.requests.message() => match request {
                    Ok(Some(request)) => {
                        let request = match self.parse(request) {
                            Ok(request) => request,
                            Err(status) => return status,
                        };
                        if let Err(violation) = on_request(&mut stream, request) {
                            return refused(&violation);
                        }
                    }
                    Ok(None) => return Status::ok(""),
                    Err(status) => return status,
                },
                changed = view.changed() => {
                    take_snapshot(&mut stream, view, &mut seen);
                    if changed.is_err() {
                        seen = Publication::Withdrawn;
                    }
                }
                Ok(()) = trials.changed() => {
                    // Trials end when something newer was published, which goes first then.
                    if view.has_changed().unwrap_or(true) {
                        take_snapshot(&mut stream, view, &mut seen);
                    }
                    stream.on_trial(trials.borrow_and_update().clone());
                }
                () = sleep_until(deadline.map_or_else(Instant::now, Instant::from_std)), if deadline.is_some() => {}
                event = self.ads.shared.reporter.sender().clone().reserve_owned(), if !self.unreported.is_empty() => {
                    match event {
                        Ok(free) => drop(free.send(self.unreported.remove(0))),
                        Err(_) => self.unreported.clear(),
                    }
                }
                status = lost.as_mut() => return status,
                () = &mut revoked => return self.ads.shared.admission.exceeds_share(gateway),
                _ = draining.wait_for(|draining| *draining) => return going_away(),
                () = self.parts.closed() => return Status::ok(""),
            }
        }
    }

    /// Waits for its turn to send something large; not for ever, since a client that does not read keeps its turn.
    async fn large_send(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let shared = &self.ads.shared;
        if bytes < shared.config.large_response_bytes {
            return None;
        }
        let turn = timeout(shared.config.gate_timeout, shared.large_sends.clone().acquire_owned()).await;
        turn.ok().and_then(Result::ok)
    }

    fn observed(&mut self, gateway: &str, client: &Stream, observation: Observation) {
        let (gateway, stream) = (gateway.to_owned(), self.id);
        let event = match observation {
            Observation::Acked(kind, versions, sent_at) => {
                let took = Instant::now().into_std().saturating_duration_since(sent_at);
                self.ads.shared.config.metrics.ack_seconds.get_or_create(&kind.into()).observe(took.as_secs_f64());
                Event::Acked { gateway, stream, kind, versions }
            }
            Observation::Nacked(kind, rejected, message) => {
                let acknowledged = rejected.iter().map(|(name, _)| client.acknowledged(kind, name).cloned()).collect();
                let (names, versions) = rejected.into_iter().map(|(name, version)| (name.to_string(), version)).unzip();
                let envoy = client.node().envoy;
                Event::Nacked { gateway, stream, kind, names, versions, acknowledged, envoy, message }
            }
            Observation::Tried(number, answer) => Event::Tried { gateway, stream, number, answer },
            Observation::Recovered(kind, names) => {
                Event::Recovered { gateway, stream, kind, names: names.iter().map(ToString::to_string).collect() }
            }
            Observation::UnknownName(kind, name, count) => {
                Event::UnknownName { gateway, stream, kind, name: printable(&name, 256), count }
            }
            Observation::GateExpired(gate) => Event::GateExpired { gateway, stream, gate },
            Observation::Outdated { version, least } => Event::Outdated { gateway, stream, version, least },
        };
        self.report(event);
    }

    fn report(&mut self, event: Event) {
        let sender = self.ads.shared.reporter.sender();
        if self.unreported.is_empty() {
            let Err(mpsc::error::TrySendError::Full(event)) = sender.try_send(event) else { return };
            self.keep(event);
        } else {
            self.keep(event);
        }
    }

    fn keep(&mut self, event: Event) {
        // Nobody has to act on an acknowledgement.
        if matches!(event, Event::Acked { .. }) {
            return;
        }
        if self.unreported.len() == MAX_UNREPORTED {
            tracing::warn!(stream = self.id, "the reader of xDS events is too slow, some are lost");
            // Who the proxy is is told once.
            let first = usize::from(matches!(self.unreported[0], Event::Connected { .. }));
            self.unreported.remove(first);
        }
        self.unreported.push(event);
    }

    /// Reports that the stream ended.
    async fn leave(&mut self, gateway: String) {
        let gone = Event::Disconnected { gateway, stream: self.id };
        let sender = self.ads.shared.reporter.sender().clone();
        let events = std::mem::take(&mut self.unreported);
        let report = async {
            for event in events.into_iter().chain([gone.clone()]) {
                // A reader that is gone needs no report.
                let _ = sender.send(event).await;
            }
        };
        if timeout(REPORT_TIMEOUT, report).await.is_err() {
            tracing::warn!(stream = self.id, "the reader of xDS events is too slow, some are lost");
            // Whoever counts streams would count this one for ever.
            tokio::spawn(async move { sender.send(gone).await });
        }
    }
}

fn on_request(stream: &mut Stream, request: Parsed) -> Result<(), Violation> {
    match request {
        Parsed::Delta(request) => stream.on_delta(request),
        Parsed::Sotw(request) => stream.on_sotw(request),
    }
}

fn take_snapshot(stream: &mut Stream, view: &mut watch::Receiver<Publication>, seen: &mut Publication) {
    seen.clone_from(&view.borrow_and_update());
    if let Publication::Current(snapshot) = seen {
        stream.on_snapshot(snapshot.clone());
    }
}

fn refused(violation: &Violation) -> Status {
    match violation {
        Violation::NodeChanged => Status::permission_denied(violation.to_string()),
        Violation::TooManyNames { .. } => Status::resource_exhausted(violation.to_string()),
    }
}

fn going_away() -> Status {
    Status::unavailable("the server asks its clients to reconnect")
}
