//! An HTTP client that sends what it is told and judges nothing.
//!
//! It connects to an address whatever the host says, leaves the path as it is written (`//`, `%2f`), follows no
//! redirect and takes any certificate, which it reports.

mod grpc;
mod tls;
mod websocket;

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use http::{HeaderName, HeaderValue, Method, Uri, Version, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde::Deserialize;
use tokio::net::TcpStream;

use crate::echo::{self, Echoed};

pub use grpc::Grpc;
pub use tls::Tls;
pub use websocket::{WebSocket, websocket_echo};

/// How long an answer may take: less than whoever waits for a condition waits, who then asks again.
const ANSWER: Duration = Duration::from_mins(1);

/// The protocol that a client speaks. Under TLS it is asked for by ALPN.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Hash, PartialEq)]
pub enum Protocol {
    /// HTTP/1.1.
    #[default]
    #[serde(rename = "http/1.1")]
    Http1,
    /// HTTP/2, with prior knowledge where there is no TLS.
    #[serde(rename = "h2")]
    H2,
}

/// Where and how to connect.
#[derive(Clone, Debug)]
pub struct Target {
    /// The address.
    pub address: SocketAddr,
    /// The protocol.
    pub protocol: Protocol,
    /// TLS, if it is spoken.
    pub tls: Option<Tls>,
}

impl Target {
    /// HTTP/1.1 without TLS on a port of this machine.
    pub fn local(port: u16) -> Self {
        Self { address: ([127, 0, 0, 1], port).into(), protocol: Protocol::Http1, tls: None }
    }
}

/// A request to send.
#[derive(Clone, Debug)]
pub struct Request {
    /// The method.
    pub method: String,
    /// Path and query, sent as written.
    pub path: String,
    /// The `Host` header or `:authority`.
    pub host: String,
    /// Further headers, in this order.
    pub headers: Vec<(String, String)>,
    /// The body; none if empty.
    pub body: String,
}

impl Request {
    /// A GET without headers.
    pub fn get(host: &str, path: &str) -> Self {
        Self {
            method: "GET".to_owned(),
            path: path.to_owned(),
            host: host.to_owned(),
            headers: Vec::new(),
            body: String::new(),
        }
    }

    /// The same with one more header.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// What came back.
#[derive(Clone, Debug)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// `HTTP/1.1` or `HTTP/2.0`.
    pub protocol: String,
    /// Names in lower case with their values.
    pub headers: Vec<(String, String)>,
    /// The body as text.
    pub body: String,
    /// What followed the body, as headers.
    pub trailers: Vec<(String, String)>,
    /// What the backend says it saw, if an echo backend answered.
    pub echoed: Option<Echoed>,
}

impl Response {
    /// All values of a header, joined by commas, or `None` if it is absent.
    pub fn header(&self, name: &str) -> Option<String> {
        echo::join(&self.headers, name)
    }
}

/// Sends one request on a connection of its own.
pub async fn send(target: &Target, request: &Request) -> Result<Response> {
    let answer = async { Connection::open(target).await?.send(request).await };
    // A server that dies at the wrong moment leaves a request that nobody ends.
    tokio::time::timeout(ANSWER, answer).await.with_context(|| format!("no answer of {}", target.address))?
}

/// An open connection; it ends when this is dropped.
#[derive(Debug)]
pub struct Connection {
    sender: Sender,
    scheme: &'static str,
    /// The certificate that the server showed, in DER.
    pub certificate: Option<Vec<u8>>,
    _tasks: tokio::task::JoinSet<()>,
}

#[derive(Debug)]
enum Sender {
    Http1(http1::SendRequest<Full<Bytes>>),
    H2(http2::SendRequest<Full<Bytes>>),
}

impl Connection {
    /// Connects, TLS and HTTP handshakes included.
    pub async fn open(target: &Target) -> Result<Self> {
        let stream =
            TcpStream::connect(target.address).await.with_context(|| format!("connect to {}", target.address))?;
        stream.set_nodelay(true)?;
        let mut tasks = tokio::task::JoinSet::new();
        let (sender, scheme, certificate) = match &target.tls {
            None => (handshake(stream, target.protocol, &mut tasks).await?, "http", None),
            Some(tls) => {
                let stream = tls.connect(stream, target.protocol).await?;
                let certificate = tls::peer_certificate(&stream);
                let sender = handshake(stream, target.protocol, &mut tasks).await?;
                (sender, "https", certificate)
            }
        };
        Ok(Self { sender, scheme, certificate, _tasks: tasks })
    }

    /// Sends a request and reads the whole answer.
    pub async fn send(&mut self, request: &Request) -> Result<Response> {
        let response = match &mut self.sender {
            Sender::Http1(sender) => {
                sender.ready().await?;
                sender.send_request(http1_request(request)?).await?
            }
            Sender::H2(sender) => {
                sender.ready().await?;
                sender.send_request(h2_request(request, self.scheme)?).await?
            }
        };
        let (parts, body) = response.into_parts();
        let body = body.collect().await.context("response body")?;
        let trailers = body.trailers().map(echo::headers).unwrap_or_default();
        let body = body.to_bytes();
        let headers = echo::headers(&parts.headers);
        let echoed = echo::join(&headers, echo::ECHOED).and_then(|text| serde_json::from_str(&text).ok());
        Ok(Response {
            status: parts.status.as_u16(),
            protocol: format!("{:?}", parts.version),
            headers,
            trailers,
            echoed: echoed.or_else(|| Echoed::read(&body)),
            body: String::from_utf8_lossy(&body).into_owned(),
        })
    }

    /// Whether another request can be sent.
    pub fn is_open(&self) -> bool {
        match &self.sender {
            Sender::Http1(sender) => !sender.is_closed(),
            Sender::H2(sender) => !sender.is_closed(),
        }
    }
}

async fn handshake<S>(stream: S, protocol: Protocol, tasks: &mut tokio::task::JoinSet<()>) -> Result<Sender>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static,
{
    let io = TokioIo::new(stream);
    // The end of a connection shows in the request that it hits.
    match protocol {
        Protocol::Http1 => {
            let (sender, connection) = http1::handshake(io).await?;
            tasks.spawn(async move { drop(connection.await) });
            Ok(Sender::Http1(sender))
        }
        Protocol::H2 => {
            let (sender, connection) = http2::handshake(TokioExecutor::new(), io).await?;
            tasks.spawn(async move { drop(connection.await) });
            Ok(Sender::H2(sender))
        }
    }
}

fn http1_request(request: &Request) -> Result<http::Request<Full<Bytes>>> {
    build(request, Version::HTTP_11, &request.path, true)
}

fn h2_request(request: &Request, scheme: &str) -> Result<http::Request<Full<Bytes>>> {
    ensure!(request.path.starts_with('/'), "HTTP/2 needs a path");
    let uri = format!("{scheme}://{}{}", request.host, request.path);
    build(request, Version::HTTP_2, &uri, false)
}

fn build(request: &Request, version: Version, uri: &str, host_header: bool) -> Result<http::Request<Full<Bytes>>> {
    let parsed: Uri = uri.parse().with_context(|| format!("cannot send path {uri:?}"))?;
    let raw = parsed.path_and_query().map_or("", |path| path.as_str());
    if !request.path.ends_with(raw) {
        bail!("{:?} would be sent as {raw:?}", request.path);
    }
    let mut built = http::Request::new(Full::from(request.body.clone()));
    *built.version_mut() = version;
    *built.method_mut() = Method::from_bytes(request.method.as_bytes())?;
    *built.uri_mut() = parsed;
    if host_header {
        let host = HeaderValue::from_str(&request.host)?;
        built.headers_mut().insert(header::HOST, host);
    }
    for (name, value) in &request.headers {
        let name = HeaderName::from_bytes(name.as_bytes())?;
        built.headers_mut().append(name, HeaderValue::from_str(value)?);
    }
    Ok(built)
}
