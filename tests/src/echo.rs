//! A backend that answers with what it received.
//!
//! One port takes HTTP/1.1, HTTP/2 with prior knowledge and WebSocket, and is a [provider](crate::provider) in gRPC. What the answer looks like is up to the
//! request: by query for a person with curl (`?status=503`, `?delay=200ms`, `?header=a:b`), or by the header
//! [`RESPOND`], which leaves the path alone.

mod respond;
mod websocket;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use http::{Request, Response, header};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tonic::body::Body;

pub use respond::{ATTEMPTS_OF, Respond};

use crate::provider::Provider;

/// The request header that carries a [`Respond`] as JSON.
pub const RESPOND: &str = "x-test-respond";

/// The response header that carries an [`Echoed`] as JSON where the body says something else.
pub const ECHOED: &str = "x-test-echoed";

/// How many requests a backend remembers.
const REMEMBERED: usize = 20_000;

/// A request as the backend saw it.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Echoed {
    /// The name of the backend.
    pub backend: String,
    /// The address on which it listens: which endpoint of the backend this is.
    pub endpoint: String,
    /// The method.
    pub method: String,
    /// Path and query, as they came.
    pub path: String,
    /// The `Host` header or `:authority`.
    pub host: String,
    /// Names in lower case with their values, in the order in which they came; repeated names stand together.
    #[serde(with = "lines")]
    pub headers: Vec<(String, String)>,
    /// `HTTP/1.1` or `HTTP/2.0`.
    pub protocol: String,
    /// The body as text.
    pub body: String,
}

impl Echoed {
    /// Reads the body of an answer. Other JSON, which may be long, is not read for nothing.
    pub(crate) fn read(body: &[u8]) -> Option<Self> {
        body.starts_with(b"{\n  \"backend\": ").then(|| serde_json::from_slice(body).ok()).flatten()
    }

    /// All values of a header, joined by commas, or `None` if it is absent.
    pub fn header(&self, name: &str) -> Option<String> {
        join(&self.headers, name)
    }
}

/// All values of header `name`, whose case does not matter, joined by commas.
pub fn join(headers: &[(String, String)], name: &str) -> Option<String> {
    let values: Vec<&str> =
        headers.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str()).collect();
    (!values.is_empty()).then(|| values.join(","))
}

/// A listening backend; it stops when this is dropped.
#[derive(Debug)]
pub struct Echo {
    address: SocketAddr,
    state: Arc<State>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct State {
    name: String,
    address: SocketAddr,
    seen: Mutex<VecDeque<Echoed>>,
    total: AtomicUsize,
    attempts: respond::Attempts,
}

impl Echo {
    /// Listens on `address`; port 0 takes a free one.
    pub async fn start(name: &str, address: SocketAddr) -> Result<Self> {
        Self::listen(name, address, None).await
    }

    /// The same over TLS alone.
    pub async fn start_tls(name: &str, address: SocketAddr, tls: rustls::ServerConfig) -> Result<Self> {
        Self::listen(name, address, Some(TlsAcceptor::from(Arc::new(tls)))).await
    }

    async fn listen(name: &str, address: SocketAddr, tls: Option<TlsAcceptor>) -> Result<Self> {
        let listener =
            TcpListener::bind(address).await.with_context(|| format!("echo {name} cannot listen on {address}"))?;
        let address = listener.local_addr()?;
        let state = Arc::new(State {
            name: name.to_owned(),
            address,
            seen: Mutex::default(),
            total: AtomicUsize::new(0),
            attempts: respond::Attempts::default(),
        });
        let task = tokio::spawn(accept(listener, tls, Arc::clone(&state)));
        Ok(Self { address, state, task })
    }

    /// The address on which the backend listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The name that its answers carry.
    pub fn name(&self) -> &str {
        &self.state.name
    }

    /// How many requests were seen, remembered or not.
    pub fn total(&self) -> usize {
        self.state.total.load(Ordering::Relaxed)
    }

    /// How many of the requests remembered satisfy `predicate`.
    pub fn count(&self, mut predicate: impl FnMut(&Echoed) -> bool) -> usize {
        let seen = self.state.seen.lock();
        let seen = seen.unwrap_or_else(PoisonError::into_inner);
        seen.iter().filter(|request| predicate(request)).count()
    }

    /// The latest request seen that satisfies `predicate`.
    pub fn latest(&self, mut predicate: impl FnMut(&Echoed) -> bool) -> Option<Echoed> {
        let seen = self.state.seen.lock();
        let seen = seen.unwrap_or_else(PoisonError::into_inner);
        seen.iter().rev().find(|request| predicate(request)).cloned()
    }

    /// Serves until the process ends.
    pub async fn serve_forever(mut self) {
        // A task that cannot end except by being dropped.
        let _ = (&mut self.task).await;
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, tls: Option<TlsAcceptor>, state: Arc<State>) {
    // Connections end with the backend: a backend that is gone does not answer.
    let mut connections = tokio::task::JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        // An error of accept concerns the one connection.
        let Ok((stream, _)) = listener.accept().await else {
            continue;
        };
        let _ = stream.set_nodelay(true);
        let (state, tls) = (Arc::clone(&state), tls.clone());
        connections.spawn(async move {
            match tls {
                None => serve(stream, state).await,
                // Who does not speak TLS gets nothing.
                Some(tls) => {
                    if let Ok(stream) = tls.accept(stream).await {
                        serve(stream, state).await;
                    }
                }
            }
        });
    }
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, state: Arc<State>) {
    let service = service_fn(move |request| {
        let state = Arc::clone(&state);
        async move {
            if Provider::is_meant(&request) {
                let Ok(answer) = Provider::new(&state.name).answer(request).await;
                return anyhow::Ok(answer);
            }
            answer(&state, request).await
        }
    });
    // A connection that the client broke off is no failure of the backend.
    let _ =
        auto::Builder::new(TokioExecutor::new()).serve_connection_with_upgrades(TokioIo::new(stream), service).await;
}

async fn answer(state: &State, mut request: Request<Incoming>) -> Result<Response<Body>> {
    let wanted = Respond::of(&request);
    let upgrade = websocket::upgrade(&mut request);
    let (parts, body) = request.into_parts();
    // An upgraded request has no body that ends.
    let body = match upgrade {
        Some(_) => Bytes::new(),
        None => body.collect().await?.to_bytes(),
    };
    let echoed = state.remember(&parts, &body);
    if let Some(switching) = upgrade {
        return Ok(switching.map(Body::new));
    }

    let fails = state.attempts.fails(&wanted, &echoed);
    if let Some(delay) = wanted.delay.filter(|_| fails) {
        tokio::time::sleep(delay).await;
    }
    let status = wanted.status.filter(|_| fails);
    let mut response = Response::builder().status(status.unwrap_or(200));
    if join(&wanted.headers, header::CONTENT_TYPE.as_str()).is_none() {
        response = response.header(header::CONTENT_TYPE, "application/json");
    }
    for (name, value) in &wanted.headers {
        response = response.header(name, value);
    }
    let body = match wanted.body {
        Some(body) => {
            response = response.header(ECHOED, serde_json::to_string(&echoed)?);
            Full::from(body)
        }
        None => {
            let mut body = serde_json::to_vec_pretty(&echoed)?;
            body.push(b'\n');
            Full::from(body)
        }
    };
    if wanted.trailers.is_empty() {
        return Ok(response.body(Body::new(body))?);
    }
    let mut trailers = http::HeaderMap::new();
    for (name, value) in &wanted.trailers {
        trailers.append(http::HeaderName::try_from(name)?, value.parse()?);
    }
    Ok(response.body(Body::new(body.with_trailers(std::future::ready(Some(Ok(trailers))))))?)
}

impl State {
    fn remember(&self, parts: &http::request::Parts, body: &Bytes) -> Echoed {
        let host = parts.headers.get(header::HOST);
        let host = host.and_then(|host| host.to_str().ok());
        let authority = parts.uri.authority().map(http::uri::Authority::as_str);
        let echoed = Echoed {
            backend: self.name.clone(),
            endpoint: self.address.to_string(),
            method: parts.method.to_string(),
            path: parts.uri.path_and_query().map_or_else(|| parts.uri.to_string(), ToString::to_string),
            host: authority.or(host).unwrap_or_default().to_owned(),
            headers: headers(&parts.headers),
            protocol: format!("{:?}", parts.version),
            body: String::from_utf8_lossy(body).into_owned(),
        };
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() == REMEMBERED {
            seen.pop_front();
        }
        seen.push_back(echoed.clone());
        self.total.fetch_add(1, Ordering::Relaxed);
        echoed
    }
}

/// Headers as a list of `name: value`, for people who read answers.
mod lines {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(headers: &[(String, String)], serializer: S) -> Result<S::Ok, S::Error> {
        let lines: Vec<String> = headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        lines.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(String, String)>, D::Error> {
        let lines = Vec::<String>::deserialize(deserializer)?;
        let split = |line: &String| line.split_once(": ").map(|(name, value)| (name.to_owned(), value.to_owned()));
        Ok(lines.iter().filter_map(split).collect())
    }
}

/// Headers as text, in the order of the map.
pub fn headers(map: &http::HeaderMap) -> Vec<(String, String)> {
    map.iter()
        .map(|(name, value)| {
            let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
            (name.as_str().to_owned(), value)
        })
        .collect()
}
