//! gRPC as its clients and servers speak it: tonic on both sides, with messages that are texts.
//!
//! A [`Callee`] serves every method of every service. One whose name begins with `Watch` answers with as many messages as the
//! request says, one with `Tick` with one each tenth of a second until the client goes, one with `Chat` answers each message with one, and all
//! others answer once with an [`Answer`], as JSON. A unary
//! call with the message `fail` is answered [`Code::AlreadyExists`], one with `flaky` [`Code::Unavailable`] every other time, one
//! with `wait` never; a `Watch` ends with [`Code::Aborted`] and the trailer `x-trailer` if `fail` stands behind its number.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    future::pending,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, Result};
use futures::{Stream, StreamExt, stream};
use http::uri::PathAndQuery;
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use serde::{Deserialize, Serialize};
use tokio::{net::TcpListener, task::JoinHandle};
use tonic::{
    Code, Request, Response, Status, Streaming,
    body::Body,
    client,
    metadata::{MetadataMap, MetadataValue},
    server,
    transport::{Channel, Endpoint},
};
use tonic_prost::ProstCodec;

type Texts = ProstCodec<String, String>;

/// What a unary method answers.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Answer {
    /// The name of the server.
    pub backend: String,
    /// The path of the request: `/SERVICE/METHOD`.
    pub path: String,
    /// The metadata of the request, one value a name.
    pub metadata: BTreeMap<String, String>,
    /// The message.
    pub message: String,
}

/// A server; it stops when this is dropped.
#[derive(Debug)]
pub struct Callee {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Callee {
    /// Listens on a free port of this machine, in HTTP/2 alone as servers of gRPC do.
    pub async fn start(name: &str) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let called = Arc::new(Called { name: name.into(), flaky: AtomicUsize::new(0) });
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            loop {
                while connections.try_join_next().is_some() {}
                let Ok((stream, _)) = listener.accept().await else { continue };
                let called = Arc::clone(&called);
                connections.spawn(async move {
                    let service = service_fn(move |request| answer(Arc::clone(&called), request));
                    let server = auto::Builder::new(TokioExecutor::new()).http2_only();
                    // A connection that the client broke off is no failure of the server.
                    let _ = server.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Ok(Self { address, task })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Callee {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What a server knows.
struct Called {
    name: Arc<str>,
    /// How many flaky calls came.
    flaky: AtomicUsize,
}

async fn answer(called: Arc<Called>, request: http::Request<Incoming>) -> Result<http::Response<Body>, Infallible> {
    let mut grpc = server::Grpc::new(Texts::default());
    let path = request.uri().path().to_owned();
    let method = path.rsplit('/').next().unwrap_or_default();
    Ok(if method.starts_with("Watch") {
        let watch = tower::service_fn(move |request: Request<String>| {
            let name = Arc::clone(&called.name);
            async move { Ok::<_, Status>(Response::new(watched(&name, request.get_ref()))) }
        });
        grpc.server_streaming(watch, request).await
    } else if method.starts_with("Tick") {
        let tick = tower::service_fn(move |_: Request<String>| {
            let name = Arc::clone(&called.name);
            async move { Ok::<_, Status>(Response::new(ticking(name))) }
        });
        grpc.server_streaming(tick, request).await
    } else if method.starts_with("Chat") {
        let chat = tower::service_fn(move |request: Request<Streaming<String>>| {
            let name = Arc::clone(&called.name);
            let said = request.into_inner().map(move |said| said.map(|said| format!("{name}: {said}")));
            async move { Ok::<_, Status>(Response::new(said)) }
        });
        grpc.streaming(chat, request).await
    } else {
        let path = path.clone();
        let once = tower::service_fn(move |request: Request<String>| once(Arc::clone(&called), path.clone(), request));
        grpc.unary(once, request).await
    })
}

fn watched(name: &str, asked: &str) -> impl Stream<Item = Result<String, Status>> + Send + 'static + use<> {
    let (number, fails) = asked.split_once(' ').map_or((asked, false), |(number, then)| (number, then == "fail"));
    let number: usize = number.parse().unwrap_or_default();
    let name = name.to_owned();
    let all = (0..number).map(move |at| Ok(format!("{name}: {at}")));
    let mut trailers = MetadataMap::new();
    trailers.insert("x-trailer", MetadataValue::from_static("told"));
    let end = fails.then(|| Err(Status::with_metadata(Code::Aborted, "as asked", trailers)));
    stream::iter(all.chain(end))
}

fn ticking(name: Arc<str>) -> impl Stream<Item = Result<String, Status>> + Send + 'static {
    stream::unfold(0_u64, move |at| {
        let said = format!("{name}: {at}");
        async move {
            tokio::time::sleep(Duration::from_millis(100)).await;
            Some((Ok(said), at + 1))
        }
    })
}

async fn once(called: Arc<Called>, path: String, request: Request<String>) -> Result<Response<String>, Status> {
    match request.get_ref().as_str() {
        "fail" => return Err(Status::already_exists("as asked")),
        "flaky" if called.flaky.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) => {
            return Err(Status::unavailable("as asked"));
        }
        "wait" => pending().await,
        _ => {}
    }
    let metadata = request.metadata().clone().into_headers();
    let metadata =
        metadata.iter().map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()));
    let answer = Answer {
        backend: called.name.to_string(),
        path,
        metadata: metadata.collect(),
        message: request.get_ref().clone(),
    };
    let answer = serde_json::to_string(&answer).map_err(|error| Status::internal(error.to_string()))?;
    Ok(Response::new(answer))
}

/// A client.
#[derive(Clone, Debug)]
pub struct Caller {
    grpc: client::Grpc<Channel>,
}

impl Caller {
    /// One that connects to a port of this machine once it has something to say, and asks for `host`.
    pub fn new(port: u16, host: &str) -> Result<Self> {
        let endpoint = Endpoint::from_shared(format!("http://127.0.0.1:{port}"))?;
        let endpoint = endpoint.origin(format!("http://{host}").parse()?);
        Ok(Self { grpc: client::Grpc::new(endpoint.connect_lazy()) })
    }

    async fn ready(&mut self) -> Result<(), Status> {
        self.grpc.ready().await.map_err(|error| Status::unknown(format!("no connection: {error}")))
    }

    /// Calls the method at a path with one message, and takes one answer.
    pub async fn unary(&mut self, path: &str, request: Request<String>) -> Result<Response<String>, Status> {
        self.ready().await?;
        self.grpc.unary(request, at(path)?, Texts::default()).await
    }

    /// The same, with the answer read.
    pub async fn call(&mut self, path: &str, headers: &[(&'static str, &str)]) -> Result<Answer, Status> {
        let mut request = Request::new("hello".to_owned());
        for (name, value) in headers {
            let value = value.parse().map_err(|_| Status::invalid_argument("no value of a header"))?;
            request.metadata_mut().insert(*name, value);
        }
        let answer = self.unary(path, request).await?.into_inner();
        serde_json::from_str(&answer).map_err(|error| Status::internal(format!("{error}: {answer}")))
    }

    /// Calls with one message, and takes many.
    pub async fn watch(&mut self, path: &str, asked: &str) -> Result<Streaming<String>, Status> {
        self.ready().await?;
        let answers = self.grpc.server_streaming(Request::new(asked.to_owned()), at(path)?, Texts::default()).await?;
        Ok(answers.into_inner())
    }

    /// Calls with many messages, and takes many.
    pub async fn chat(
        &mut self,
        path: &str,
        said: impl Stream<Item = String> + Send + 'static,
    ) -> Result<Streaming<String>, Status> {
        self.ready().await?;
        Ok(self.grpc.streaming(Request::new(said), at(path)?, Texts::default()).await?.into_inner())
    }
}

fn at(path: &str) -> Result<PathAndQuery, Status> {
    path.parse().context("no path").map_err(|error| Status::invalid_argument(format!("{error:#}")))
}
