//! The WebSocket side of the backend: every message comes back.

use bytes::Bytes;
use futures::{SinkExt, StreamExt};
use http::{HeaderMap, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;

/// If `request` opens a WebSocket, starts to echo on it and gives the response that switches protocols.
pub(super) fn upgrade(request: &mut Request<Incoming>) -> Option<Response<Full<Bytes>>> {
    if !is_websocket(request.headers()) {
        return None;
    }
    let key = request.headers().get(header::SEC_WEBSOCKET_KEY)?;
    let accept = derive_accept_key(key.as_bytes());
    let upgraded = hyper::upgrade::on(request);
    tokio::spawn(async move {
        let Ok(io) = upgraded.await else { return };
        let mut socket = WebSocketStream::from_raw_socket(TokioIo::new(io), Role::Server, None).await;
        while let Some(Ok(message)) = socket.next().await {
            let echo = message.is_text() || message.is_binary();
            if echo && socket.send(message).await.is_err() {
                return;
            }
        }
    });
    Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header(header::CONNECTION, "upgrade")
        .header(header::UPGRADE, "websocket")
        .header(header::SEC_WEBSOCKET_ACCEPT, accept)
        .body(Full::default())
        .ok()
}

fn is_websocket(headers: &HeaderMap) -> bool {
    let upgrade = headers.get(header::UPGRADE);
    upgrade.is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"))
}
