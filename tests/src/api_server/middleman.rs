//! Somebody between a controller and its API server: sees what is asked, and can have it go wrong.

use std::convert::Infallible;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use futures::{StreamExt, stream};
use http::{Method, Request, Response, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{self as upstream, SendRequest};
use hyper::server::conn::http1 as downstream;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex as Turns, watch};
use tokio::task::{JoinHandle, JoinSet};

use super::ApiServer;
use crate::client::{Protocol, Tls};

/// What becomes of a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// The API server answers it.
    Pass,
    /// The API server answers it, and after each line of its answer come the line before and that line again: a watch that
    /// repeats itself and is out of order, but ends in what is.
    Repeat,
    /// It never gets there: it is answered with this status, as an API server in trouble would.
    Refuse {
        /// The status.
        code: u16,
        /// `Retry-After`, in seconds.
        retry_after: Option<u32>,
    },
}

/// A request that was answered.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// The method.
    pub method: Method,
    /// Path and query.
    pub path: String,
    /// The status of the answer.
    pub status: u16,
}

type Judge = Box<dyn Fn(&Method, &str) -> Verdict + Send>;

/// Listens on loopback, without TLS, for clients that show a token. It ends when this is dropped.
pub struct Middleman {
    address: SocketAddr,
    state: Arc<State>,
    accepting: JoinHandle<()>,
}

struct State {
    target: SocketAddr,
    judge: Mutex<Judge>,
    exchanges: Mutex<Vec<Exchange>>,
    /// How many lines were repeated.
    repeated: Arc<AtomicUsize>,
    /// The number of the next connection.
    next: AtomicU64,
    /// Connections with a lower number are dead: open, and silent.
    silent: watch::Sender<u64>,
    /// Connections with a lower number are closed.
    closed: watch::Sender<u64>,
}

impl Middleman {
    /// One before `server` that lets everything pass.
    pub async fn start(server: &ApiServer) -> Result<Self> {
        let target = server.url().trim_start_matches("https://").parse()?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let state = Arc::new(State {
            target,
            judge: Mutex::new(Box::new(|_, _| Verdict::Pass)),
            exchanges: Mutex::default(),
            repeated: Arc::default(),
            next: AtomicU64::new(0),
            silent: watch::Sender::new(0),
            closed: watch::Sender::new(0),
        });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&state)));
        Ok(Self { address, state, accepting })
    }

    /// Where it listens.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on each request, given its method and its path with query, is judged so. Answers that are under way, such
    /// as watches, go on.
    pub fn judge(&self, judge: impl Fn(&Method, &str) -> Verdict + Send + 'static) {
        *lock(&self.state.judge) = Box::new(judge);
    }

    /// Refuses every request from now on, and closes all connections, so that no watch goes on.
    pub fn refuse(&self, code: u16, retry_after: Option<u32>) {
        self.judge(move |_, _| Verdict::Refuse { code, retry_after });
        self.close();
    }

    /// Closes all connections, so that no watch goes on. New ones are well.
    pub fn close(&self) {
        self.state.closed.send_replace(self.state.next.load(Ordering::SeqCst));
    }

    /// Lets everything pass again.
    pub fn pass(&self) {
        self.judge(|_, _| Verdict::Pass);
    }

    /// Connections that there are stay open, and nothing comes through any more. New ones are well.
    pub fn silence(&self) {
        self.state.silent.send_replace(self.state.next.load(Ordering::SeqCst));
    }

    /// How many lines of answers were repeated so far.
    pub fn repeated(&self) -> usize {
        self.state.repeated.load(Ordering::Relaxed)
    }

    /// What was answered so far, in the order of the answers.
    pub fn exchanges(&self) -> Vec<Exchange> {
        lock(&self.state.exchanges).clone()
    }
}

impl fmt::Debug for Middleman {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Middleman").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Drop for Middleman {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Waits until the connection of this number is below the bound.
async fn below(number: u64, mut bound: watch::Receiver<u64>) {
    // A sender that is gone moves it no more.
    if bound.wait_for(|bound| number < *bound).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Nothing, once the connection of this number is dead.
async fn dead<T>(number: u64, silent: watch::Receiver<u64>) -> T {
    below(number, silent).await;
    std::future::pending().await
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn accept(listener: TcpListener, state: Arc<State>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let number = state.next.fetch_add(1, Ordering::SeqCst);
        let state = Arc::clone(&state);
        connections.spawn(async move {
            tokio::select! {
                biased;
                () = below(number, state.closed.subscribe()) => {}
                // Whoever asked sees that the connection ends.
                _ = serve(&state, stream, number) => {}
            }
        });
        while connections.try_join_next().is_some() {}
    }
}

/// One connection, with one behind it.
async fn serve(state: &Arc<State>, stream: TcpStream, number: u64) -> Result<()> {
    let server = TcpStream::connect(state.target).await?;
    server.set_nodelay(true)?;
    stream.set_nodelay(true)?;
    let tls = Tls::to("localhost");
    let server = tls.connect(server, Protocol::Http1).await?;
    let (sender, connection) = upstream::handshake(TokioIo::new(server)).await?;
    let sender = Arc::new(Turns::new(sender));
    let service = service_fn(|request| {
        let (state, sender) = (Arc::clone(state), Arc::clone(&sender));
        async move {
            tokio::select! {
                biased;
                answer = dead(number, state.silent.subscribe()) => answer,
                answer = answer(&state, &sender, request, number) => answer,
            }
        }
    });
    let mut served = pin!(downstream::Builder::new().serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        ended = served.as_mut() => return Ok(ended?),
        // Nothing more can be asked here, but what came may not be handed on yet.
        _ = connection => {}
    }
    served.as_mut().graceful_shutdown();
    Ok(served.await?)
}

type Body = UnsyncBoxBody<Bytes, hyper::Error>;

async fn answer(
    state: &State,
    sender: &Turns<SendRequest<Incoming>>,
    request: Request<Incoming>,
    number: u64,
) -> hyper::Result<Response<Body>> {
    let method = request.method().clone();
    let path = request.uri().path_and_query().map_or_else(String::new, ToString::to_string);
    let verdict = lock(&state.judge)(&method, &path);
    let response = match verdict {
        Verdict::Pass | Verdict::Repeat => {
            let response = sender.lock().await.send_request(request).await?;
            let response = response.map(|body| listened(body, state.silent.subscribe(), number));
            if verdict == Verdict::Repeat { response.map(|body| repeating(body, &state.repeated)) } else { response }
        }
        Verdict::Refuse { code, retry_after } => {
            request.into_body().collect().await?;
            refusal(code, retry_after)
        }
    };
    lock(&state.exchanges).push(Exchange { method, path, status: response.status().as_u16() });
    Ok(response)
}

/// What comes of a body until its connection is dead.
fn listened(body: Incoming, silent: watch::Receiver<u64>, number: u64) -> Body {
    let frames = stream::unfold((body, silent), move |(mut body, silent)| async move {
        let frame = tokio::select! {
            biased;
            frame = dead(number, silent.clone()) => frame,
            frame = body.frame() => frame,
        };
        Some((frame?, (body, silent)))
    });
    StreamBody::new(frames.boxed()).boxed_unsync()
}

/// A body each of whose lines comes twice, and between both the line before it.
fn repeating(body: Body, repeated: &Arc<AtomicUsize>) -> Body {
    let start = (body, Vec::new(), Vec::new(), Arc::clone(repeated));
    let frames = stream::unfold(start, |(mut body, mut rest, mut before, repeated)| async move {
        let repeat = |data: Bytes| {
            rest.extend_from_slice(&data);
            let mut lines = Vec::new();
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = rest.drain(..=end).collect();
                lines.extend_from_slice(&line);
                if !before.is_empty() {
                    lines.extend_from_slice(&before);
                    lines.extend_from_slice(&line);
                    repeated.fetch_add(1, Ordering::Relaxed);
                }
                before = line;
            }
            Bytes::from(lines)
        };
        let frame = body.frame().await?;
        let frame = frame.map(|frame| frame.map_data(repeat));
        Some((frame, (body, rest, before, repeated)))
    });
    StreamBody::new(frames.boxed()).boxed_unsync()
}

fn refusal(code: u16, retry_after: Option<u32>) -> Response<Body> {
    let message = format!("refused with {code} for a test");
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code});
    let body = Full::new(Bytes::from(status.to_string()));
    let mut response = Response::new(body.map_err(|never: Infallible| match never {}).boxed_unsync());
    *response.status_mut() = http::StatusCode::from_u16(code).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    if let Some(seconds) = retry_after {
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    response
}
