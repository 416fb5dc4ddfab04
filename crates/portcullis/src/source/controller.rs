//! A conversation with the admin server of a controller.

use std::{
    io::{self, ErrorKind, Write},
    time::Duration,
};

use ::controller::cluster_snapshot::words;
use anyhow::{Context, anyhow, bail};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::{Request, StatusCode, body::Incoming, client::conn::http1, header::HOST};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::timeout,
};

use super::{note, pod};

/// The admin server of a controller, at the other end of a connection.
pub(crate) struct Controller {
    requests: http1::SendRequest<Empty<Bytes>>,
    /// For people.
    place: String,
    request_timeout: Duration,
}

impl Controller {
    /// Connects through the API server to the controller's pod.
    pub(super) async fn in_cluster(
        client: &Client,
        namespace: &str,
        request_timeout: Duration,
    ) -> anyhow::Result<Self> {
        let found = pod::find(client, namespace, request_timeout).await?;
        let place = format!("pod {namespace}/{}", found.name);
        let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
        let forwarded = timeout(request_timeout, pods.portforward(&found.name, &[found.port])).await;
        let forwarded = forwarded.context("the API server does not answer in time")?;
        let mut forwarded = forwarded.map_err(|error| {
            anyhow!(
                "no port can be forwarded to {place}: {}: that takes a node that runs it, and the right to get and create \
                 pods/portforward in namespace {namespace}",
                words(&error)
            )
        })?;
        let stream = forwarded.take_stream(found.port).context("no stream")?;
        let why = forwarded.take_error(found.port);
        let connected = Self::connect(stream, place.clone(), request_timeout).await;
        match (connected, why) {
            (Ok(controller), _) => Ok(controller),
            (Err(error), Some(why)) => {
                // The kubelet's reason, if there is one, is better than that the connection ended.
                let why = timeout(Duration::from_secs(1), why).await.ok().flatten();
                let why = why.filter(|why| !why.is_empty());
                Err(why.map_or(error, |why| anyhow!("port {} of {place}: {}", found.port, why.trim())))
            }
            (Err(error), None) => Err(error),
        }
    }

    /// Connects to an address.
    pub(super) async fn at(address: &str, request_timeout: Duration, namespace: &str) -> anyhow::Result<Self> {
        let connected = timeout(request_timeout, TcpStream::connect(address)).await;
        let remedy = || {
            format!(
                "no controller is at --address {address}: forward a port to it, such as by kubectl -n {namespace} \
                 port-forward deployment/portcullis 9979"
            )
        };
        let stream = connected.context("nobody answers in time").with_context(remedy)?.with_context(remedy)?;
        Self::connect(stream, address.to_owned(), request_timeout).await
    }

    async fn connect(
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        place: String,
        request_timeout: Duration,
    ) -> anyhow::Result<Self> {
        let silent = || format!("{place} does not answer");
        let handshake = timeout(request_timeout, http1::handshake(TokioIo::new(stream))).await;
        let (requests, connection) = handshake.with_context(silent)?.with_context(silent)?;
        // Whoever waits for an answer learns how it ends.
        tokio::spawn(async move { drop(connection.await) });
        let mut this = Self { requests, place, request_timeout };
        let (status, body) = this.send("/readyz").await?;
        match status {
            StatusCode::OK => {}
            StatusCode::SERVICE_UNAVAILABLE => bail!("{} is {}: ask again in a moment", this.place, body.trim()),
            _ => bail!("{} is no admin server of Portcullis: it answers {status} to /readyz", this.place),
        }
        // The first line says that it is ready, and each other one what is not as it should be.
        for line in body.lines().skip(1) {
            note(format_args!("the controller is ready, but not all is as it should be: {line}"));
        }
        Ok(this)
    }

    /// The text of a page.
    pub(crate) async fn ask(&mut self, page: &str, question: &[(&str, &str)]) -> anyhow::Result<String> {
        let mut answer = Vec::new();
        self.copy(page, question, &mut answer).await?;
        String::from_utf8(answer).context("the answer is no text")
    }

    /// The same, handed on while it comes.
    pub(crate) async fn copy(
        &mut self,
        page: &str,
        question: &[(&str, &str)],
        out: &mut impl Write,
    ) -> anyhow::Result<()> {
        let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(question).finish();
        let (status, body) = self.request(&format!("{page}?{query}")).await?;
        if status == StatusCode::OK {
            return self.read(body, out).await;
        }
        let why = self.text(body).await?;
        match (status, why.trim()) {
            (StatusCode::NOT_FOUND, "") => bail!(
                "{} has no {page}: it is the port for metrics and not that of --admin-address, or a controller of another \
                 version; ask with --from api-server",
                self.place
            ),
            (_, why) => bail!("{why}"),
        }
    }

    async fn send(&mut self, path: &str) -> anyhow::Result<(StatusCode, String)> {
        let (status, body) = self.request(path).await?;
        Ok((status, self.text(body).await?))
    }

    async fn request(&mut self, path: &str) -> anyhow::Result<(StatusCode, Incoming)> {
        let request = Request::get(path).header(HOST, "localhost").body(Empty::new()).context("no such page")?;
        let answer = timeout(self.request_timeout, self.requests.send_request(request)).await;
        let response = answer.context("nothing comes in time").with_context(|| self.silent())?;
        let (head, body) = response.with_context(|| self.silent())?.into_parts();
        Ok((head.status, body))
    }

    async fn text(&self, body: Incoming) -> anyhow::Result<String> {
        let mut text = Vec::new();
        self.read(body, &mut text).await?;
        String::from_utf8(text).context("the answer is no text")
    }

    async fn read(&self, mut body: Incoming, out: &mut impl Write) -> anyhow::Result<()> {
        loop {
            let frame = timeout(self.request_timeout, body.frame()).await;
            let Some(frame) = frame.context("nothing comes in time").with_context(|| self.silent())? else { break };
            let frame = frame.with_context(|| self.silent())?;
            let written = frame.data_ref().map_or(Ok(()), |data| out.write_all(data));
            if !goes_on(written)? {
                return Ok(());
            }
        }
        goes_on(out.flush()).map(drop)
    }

    fn silent(&self) -> String {
        format!("{} does not answer as a controller does", self.place)
    }
}

/// Whether the reader of what is written is still there.
fn goes_on(written: io::Result<()>) -> anyhow::Result<bool> {
    match written {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        written => written.map(|()| true).context("cannot write what was answered"),
    }
}
