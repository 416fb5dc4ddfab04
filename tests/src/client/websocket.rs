//! A WebSocket client.

use std::fmt::Debug;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use futures::{SinkExt, StreamExt};
use http::{HeaderName, HeaderValue};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::{WebSocketStream, client_async};

use super::{Request, Target};

trait Io: AsyncRead + AsyncWrite + Debug + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Debug + Send + Unpin> Io for T {}

/// An open WebSocket; it ends when this is dropped.
#[derive(Debug)]
pub struct WebSocket(WebSocketStream<Box<dyn Io>>);

impl WebSocket {
    /// Opens one as `request` says.
    pub async fn open(target: &Target, request: &Request) -> Result<Self> {
        let stream = TcpStream::connect(target.address).await?;
        let (scheme, stream): (_, Box<dyn Io>) = match &target.tls {
            None => ("ws", Box::new(stream)),
            Some(tls) => ("wss", Box::new(tls.connect(stream, target.protocol).await?)),
        };
        let mut opening = format!("{scheme}://{}{}", request.host, request.path).into_client_request()?;
        for (name, value) in &request.headers {
            let name = HeaderName::from_bytes(name.as_bytes())?;
            let value = HeaderValue::from_str(value)?;
            opening.headers_mut().append(name, value);
        }
        let (socket, _) = client_async(opening, stream).await.context("WebSocket handshake")?;
        Ok(Self(socket))
    }

    /// Sends a text, which comes back.
    pub async fn says(&mut self, word: &str) -> Result<()> {
        self.echoes(Message::text(word)).await
    }

    /// Waits until the other side ends it.
    pub async fn ended(&mut self) {
        while let Some(Ok(_)) = self.0.next().await {}
    }

    async fn echoes(&mut self, message: Message) -> Result<()> {
        self.0.send(message.clone()).await?;
        let answer = self.0.next().await.context("the WebSocket closed")??;
        ensure!(answer == message, "sent {message:?}, got {answer:?}");
        Ok(())
    }
}

/// Opens a WebSocket as `request` says, sends a text and a binary message and checks that both come back.
pub async fn websocket_echo(target: &Target, request: &Request) -> Result<()> {
    let mut socket = WebSocket::open(target, request).await?;
    socket.says("portcullis").await?;
    socket.echoes(Message::binary(Bytes::from_static(&[0, 1, 2, 255]))).await
}
