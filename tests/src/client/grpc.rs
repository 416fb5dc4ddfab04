//! A gRPC stream of whatever messages, over TLS.

use anyhow::{Context, Result, ensure};
use futures::StreamExt;
use http::{Request, header};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Buf, Bytes, Frame, Incoming};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::{Protocol, Target};

/// Requests that wait.
const WAITING: usize = 64;

/// A stream in both directions; it ends when this is dropped.
#[derive(Debug)]
pub struct Grpc {
    requests: mpsc::Sender<Bytes>,
    answers: Incoming,
    rest: Vec<u8>,
    _tasks: JoinSet<()>,
}

impl Grpc {
    /// Opens a stream of the method at `path`, showing a bearer token. The server answers once it lets us in.
    pub async fn open(target: &Target, path: &str, token: &str) -> Result<Self> {
        let tls = target.tls.as_ref().context("gRPC is spoken over TLS here")?;
        let stream = tls.connect(TcpStream::connect(target.address).await?, Protocol::H2).await?;
        let (mut sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
        let mut tasks = JoinSet::new();
        // Its end shows in the stream.
        tasks.spawn(async move { drop(connection.await) });
        let (requests, mut waiting) = mpsc::channel::<Bytes>(WAITING);
        let frames = futures::stream::poll_fn(move |context| waiting.poll_recv(context));
        let frames = frames.map(|message| anyhow::Ok(Frame::data(framed(&message))));
        let request = Request::post(format!("https://{}{path}", target.address))
            .header(header::CONTENT_TYPE, "application/grpc")
            .header(header::TE, "trailers")
            .header(header::AUTHORIZATION, format!("Bearer {token}"))
            .body(StreamBody::new(frames))?;
        let response = sender.send_request(request).await?;
        let status = response.headers().get("grpc-status");
        ensure!(response.status() == 200 && status.is_none(), "refused: {:?}", response.headers());
        Ok(Self { requests, answers: response.into_body(), rest: Vec::new(), _tasks: tasks })
    }

    /// Sends a message.
    pub async fn send(&self, message: Vec<u8>) -> Result<()> {
        self.requests.send(message.into()).await.context("the stream has ended")
    }

    /// The next message; `None` once the server has ended the stream.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>> {
        loop {
            if let Some((head, rest)) = self.rest.split_at_checked(5) {
                let length = usize::try_from((&head[1..]).get_u32())?;
                if rest.len() >= length {
                    let message = rest[..length].to_vec();
                    self.rest.drain(..5 + length);
                    return Ok(Some(message));
                }
            }
            match self.answers.frame().await {
                None => return Ok(None),
                Some(frame) => {
                    // What is no data are the trailers.
                    if let Ok(data) = frame?.into_data() {
                        self.rest.extend_from_slice(&data);
                    }
                }
            }
        }
    }
}

/// A message as it travels: not compressed, and with its length before it.
fn framed(message: &[u8]) -> Bytes {
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    [&[0][..], &length.to_be_bytes(), message].concat().into()
}
