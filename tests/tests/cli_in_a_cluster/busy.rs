//! A way to an API server that has no time for one kind. A real server says so only in moments that no test can choose.

use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use anyhow::Result;
use http::header::{HOST, RETRY_AFTER};
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use kube::Client;
use kube::client::Body;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Passes requests on as an administrator's, without TLS, but for those whose path ends so.
pub(crate) struct Busy {
    state: Arc<State>,
    kubeconfig: PathBuf,
    accepting: JoinHandle<()>,
    _folder: tempfile::TempDir,
}

struct State {
    client: Client,
    path: &'static str,
    relents: AtomicBool,
    refused: AtomicUsize,
}

impl Busy {
    pub(crate) async fn start(client: Client, path: &'static str) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let folder = tempfile::tempdir()?;
        let kubeconfig = folder.path().join("config");
        let server = format!("http://{}", listener.local_addr()?);
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{ "name": "busy", "cluster": { "server": server } }],
            "users": [{ "name": "busy", "user": {} }],
            "contexts": [{ "name": "busy", "context": { "cluster": "busy", "user": "busy" } }],
            "current-context": "busy",
        });
        std::fs::write(&kubeconfig, config.to_string())?;
        let state = State { client, path, relents: AtomicBool::new(false), refused: AtomicUsize::new(0) };
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
                    drop(connection.serve_connection(TokioIo::new(stream), service).await);
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

    /// There is time for everything from now on.
    pub(crate) fn relent(&self) {
        self.state.relents.store(true, Ordering::SeqCst);
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl State {
    async fn answer(&self, mut request: Request<Incoming>) -> Response<Body> {
        if request.uri().path().ends_with(self.path) && !self.relents.load(Ordering::SeqCst) {
            self.refused.fetch_add(1, Ordering::SeqCst);
            let mut response = Response::new(Body::from(b"later".to_vec()));
            *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
            response.headers_mut().insert(RETRY_AFTER, http::HeaderValue::from_static("1"));
            return response;
        }
        request.headers_mut().remove(HOST);
        let (head, _) = request.into_parts();
        match self.client.send(Request::from_parts(head, Body::empty())).await {
            Ok(response) => response,
            Err(error) => {
                let mut response = Response::new(Body::from(error.to_string().into_bytes()));
                *response.status_mut() = StatusCode::BAD_GATEWAY;
                response
            }
        }
    }
}
