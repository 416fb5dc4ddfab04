//! A way to the real API server on which one thing happens that it does by itself only in moments that no test can choose, or
//! with nodes, of which there are none here.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use futures::{SinkExt, StreamExt};
use http::header::{
    CONNECTION, HOST, RETRY_AFTER, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, UPGRADE,
};
use http::{HeaderValue, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::upgrade::Upgraded;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use kube::Client;
use kube::client::Body;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Message, Role};

/// What happens on the way.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Detour {
    /// Whatever has a path that ends so is told to come later.
    Busy(&'static str),
    /// A port that is forwarded to any pod leads here, as a kubelet would have it.
    Forwarded(SocketAddr),
}

/// Passes requests on as an administrator's, without TLS.
pub(crate) struct Way {
    state: Arc<State>,
    kubeconfig: PathBuf,
    accepting: JoinHandle<()>,
    _folder: tempfile::TempDir,
}

struct State {
    client: Client,
    detour: Detour,
    relents: AtomicBool,
    refused: AtomicUsize,
    forwarded: Mutex<Vec<String>>,
}

impl Way {
    pub(crate) async fn start(client: Client, detour: Detour) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let folder = tempfile::tempdir()?;
        let kubeconfig = folder.path().join("config");
        let server = format!("http://{}", listener.local_addr()?);
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{ "name": "test", "cluster": { "server": server } }],
            "users": [{ "name": "test", "user": {} }],
            "contexts": [{ "name": "test", "context": { "cluster": "test", "user": "test" } }],
            "current-context": "test",
        });
        std::fs::write(&kubeconfig, config.to_string())?;
        let state = State {
            client,
            detour,
            relents: AtomicBool::new(false),
            refused: AtomicUsize::new(0),
            forwarded: Mutex::default(),
        };
        let state = Arc::new(state);
        let shared = Arc::clone(&state);
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let state = Arc::clone(&shared);
                tokio::spawn(async move {
                    let service = service_fn(move |request| {
                        let state = Arc::clone(&state);
                        async move { Ok::<_, Infallible>(state.answer(request).await) }
                    });
                    let connection = auto::Builder::new(TokioExecutor::new());
                    // Who asked has gone.
                    drop(connection.serve_connection_with_upgrades(TokioIo::new(stream), service).await);
                });
            }
        });
        Ok(Self { state, kubeconfig, accepting, _folder: folder })
    }

    /// The kubeconfig of whoever asks this way.
    pub(crate) fn kubeconfig(&self) -> String {
        self.kubeconfig.to_string_lossy().into_owned()
    }

    /// How many requests were told to come later.
    pub(crate) fn refused(&self) -> usize {
        self.state.refused.load(Ordering::SeqCst)
    }

    /// What was asked for when ports were forwarded: path and query of each request.
    pub(crate) fn forwarded(&self) -> Vec<String> {
        self.state.forwarded.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// There is time for everything from now on.
    pub(crate) fn relent(&self) {
        self.state.relents.store(true, Ordering::SeqCst);
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl State {
    async fn answer(&self, mut request: Request<Incoming>) -> Response<Body> {
        match self.detour {
            Detour::Busy(path) if request.uri().path().ends_with(path) && !self.relents.load(Ordering::SeqCst) => {
                self.refused.fetch_add(1, Ordering::SeqCst);
                let mut response = Response::new(Body::from(b"later".to_vec()));
                *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
                response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
                return response;
            }
            Detour::Forwarded(target) if request.uri().path().ends_with("/portforward") => {
                self.forwarded.lock().unwrap_or_else(PoisonError::into_inner).push(request.uri().to_string());
                return switch(request, target).unwrap_or_else(|error| failed(&error));
            }
            _ => {}
        }
        request.headers_mut().remove(HOST);
        let (head, _) = request.into_parts();
        let response = self.client.send(Request::from_parts(head, Body::empty())).await;
        response.unwrap_or_else(|error| failed(&error.into()))
    }
}

fn failed(error: &anyhow::Error) -> Response<Body> {
    let mut response = Response::new(Body::from(format!("{error:#}").into_bytes()));
    *response.status_mut() = StatusCode::BAD_GATEWAY;
    response
}

/// The protocol in which the bytes of a port travel.
const PROTOCOL: &str = "v4.channel.k8s.io";

/// Switches to a `WebSocket`.
fn switch(mut request: Request<Incoming>, target: SocketAddr) -> Result<Response<Body>> {
    let port = request.uri().query().and_then(|query| query.split("ports=").nth(1)).context("no port")?;
    let port: u16 = port.split('&').next().unwrap_or_default().parse()?;
    let key = request.headers().get(SEC_WEBSOCKET_KEY).context("no key")?;
    let response = Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header(UPGRADE, "websocket")
        .header(CONNECTION, "Upgrade")
        .header(SEC_WEBSOCKET_ACCEPT, derive_accept_key(key.as_bytes()))
        .header(SEC_WEBSOCKET_PROTOCOL, PROTOCOL)
        .body(Body::empty())?;
    let upgraded = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        // Who asked sees the end of it.
        drop(forward(upgraded.await?, port, target).await);
        anyhow::Ok(())
    });
    Ok(response)
}

/// Carries bytes to and fro: channel 0 has the port's, channel 1 what is wrong with it, and each begins with the port.
async fn forward(client: Upgraded, port: u16, target: SocketAddr) -> Result<()> {
    let (mut sink, mut stream) =
        WebSocketStream::from_raw_socket(TokioIo::new(client), Role::Server, None).await.split();
    let framed = |channel: u8, bytes: &[u8]| Message::binary([&[channel], bytes].concat());
    for channel in [0, 1] {
        sink.send(framed(channel, &port.to_le_bytes())).await?;
    }
    match TcpStream::connect(target).await {
        Ok(mut connection) => {
            let (mut from, mut to) = connection.split();
            let mut bytes = vec![0; 16 << 10];
            loop {
                tokio::select! {
                    read = from.read(&mut bytes) => match read? {
                        0 => break,
                        count => sink.send(framed(0, &bytes[..count])).await?,
                    },
                    message = stream.next() => match message.transpose()? {
                        Some(Message::Binary(message)) if message.first() == Some(&0) => to.write_all(&message[1..]).await?,
                        Some(_) => {}
                        None => return Ok(()),
                    },
                }
            }
        }
        Err(error) => sink.send(framed(1, error.to_string().as_bytes())).await?,
    }
    sink.close().await?;
    // A socket that ends with something unread in it is reset, and takes with it what the client has not read yet.
    while let Some(Ok(_)) = stream.next().await {}
    Ok(())
}
