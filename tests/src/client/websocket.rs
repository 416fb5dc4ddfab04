//! A WebSocket client.

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use futures::{SinkExt, StreamExt};
use http::{HeaderName, HeaderValue};
use tokio::net::TcpStream;
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use super::{Request, Target};

/// Opens a WebSocket as `request` says, sends a text and a binary message and checks that both come back.
pub async fn websocket_echo(target: &Target, request: &Request) -> Result<()> {
    let stream = TcpStream::connect(target.address).await?;
    let url = format!("ws://{}{}", request.host, request.path);
    let mut opening = url.into_client_request()?;
    for (name, value) in &request.headers {
        let name = HeaderName::from_bytes(name.as_bytes())?;
        let value = HeaderValue::from_str(value)?;
        opening.headers_mut().append(name, value);
    }
    let (mut socket, _) = client_async(opening, stream).await.context("WebSocket handshake")?;
    let messages = [Message::text("portcullis"), Message::binary(Bytes::from_static(&[0, 1, 2, 255]))];
    for message in messages {
        socket.send(message.clone()).await?;
        let answer = socket.next().await.context("the WebSocket closed")??;
        ensure!(answer == message, "sent {message:?}, got {answer:?}");
    }
    Ok(())
}
