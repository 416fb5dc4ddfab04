//! Keys of tokens on a server: when they are read, and what becomes of tokens where there are none.

use std::sync::{Arc, Mutex};

use anyhow::{Context, Result, ensure};
use portcullis_tests::client::{Connection, Request, send};
use portcullis_tests::objects::service_at;
use portcullis_tests::wait::{TIMEOUT, eventually};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::HOST;
use super::guards::{World, policy};

// What made the tokens is gone, and they do not end before the year 2100.
pub(super) const KEY: &str = r#"{"keys": [{"kty": "EC", "crv": "P-256", "x": "JfNWD_567PimJzzyQikB52C_TrdQpbni9fNty-cxucQ", "y": "ty3ykFzSv449nRKqLv8zqLgFkTyto0Sbrl2Tbiy9O1c", "kid": "one", "alg": "ES256", "use": "sig"}]}"#;
pub(super) const TOKEN: &str = "eyJhbGciOiJFUzI1NiIsImtpZCI6Im9uZSIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJodHRwczovL29uZS5leGFtcGxlIiwic3ViIjoiYWxpY2UiLCJleHAiOjQxMDI0NDQ4MDAsImF1ZCI6InNob3AiLCJyb2xlIjoiYWRtaW4ifQ.mnADPohMpTnned3JCEo9WsVOG0XTUwETPEcfFU0qM4SN2ZgpLYRDGS7iS_wYpT-Tay7W3tHqLkog4PsuYgafhw";
pub(super) const NEXT_KEY: &str = r#"{"keys": [{"kty": "EC", "crv": "P-256", "x": "3w65bvnYiDAB0vFTWhwd7QD8RHAAKxuIhSHXflgEBBs", "y": "W-IW8OIoLR15P5iy72FqVxT5h2JlnJhZXJ99QE87hqM", "kid": "two", "alg": "ES256", "use": "sig"}]}"#;
pub(super) const NEXT_TOKEN: &str = "eyJhbGciOiJFUzI1NiIsImtpZCI6InR3byIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJodHRwczovL3R3by5leGFtcGxlIiwic3ViIjoiYWxpY2UiLCJleHAiOjQxMDI0NDQ4MDAsInJvbGUiOiJndWVzdCJ9.g7aH0I3M9taQS_N-a0kGQlrBf73vkaL9qrswhNZRHlZSPXksL01BrgGnpztqCHw1RYpV5j7MSBLMCo8sITXb2A";

/// A server that answers every request with the same.
pub(super) struct Server {
    port: u16,
    answer: Arc<Mutex<String>>,
    task: JoinHandle<()>,
}

impl Server {
    pub(super) async fn start(answer: &str) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        let answer = Arc::new(Mutex::new(answer.to_owned()));
        let says = answer.clone();
        let task = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let says = says.clone();
                tokio::spawn(async move {
                    let mut read = [0; 8192];
                    if matches!(stream.read(&mut read).await, Ok(1..)) {
                        let body = says.lock().map(|body| body.clone()).unwrap_or_default();
                        let head =
                            format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
                        // A proxy that has read enough hangs up.
                        let _ = stream.write_all((head + &body).as_bytes()).await;
                    }
                });
            }
        });
        Ok(Self { port, answer, task })
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn say(&self, answer: &str) -> Result<()> {
        let mut says = self.answer.lock().ok().context("nobody panicked")?;
        answer.clone_into(&mut says);
        Ok(())
    }

    /// An extension that takes tokens of this server's keys, which are asked for each second.
    fn extension(&self) -> String {
        format!(
            "{}
---
apiVersion: gateway.kgateway.dev/v1alpha1
kind: GatewayExtension
metadata: {{namespace: infra, name: server}}
spec:
  jwt:
    providers:
    - name: p
      jwks: {{remote: {{url: 'http://keys.example/keys', cacheDuration: 1s, backendRef: {{name: keys, port: 80}}}}}}
",
            service_at("keys", ([127, 0, 0, 1], self.port).into())
        )
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn with(token: &str) -> Request {
    Request::get(HOST, "/").header("authorization", &format!("Bearer {token}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_refused_until_keys_were_read_and_follow_them() -> Result<()> {
    let mut world = World::start("", &[]).await?;
    let open = tokio::sync::Mutex::new(Connection::open(&world.target).await?);
    let server = Server::start("no keys").await?;
    world.portcullis.write("keys.yaml", &server.extension())?;
    world.portcullis.write("policy.yaml", &policy("jwtAuth: {extensionRef: {name: server}}"))?;
    let becomes = async |token: &str, status: u16| {
        eventually(TIMEOUT, async || {
            let before = open.lock().await.send(&with(token)).await?;
            let now = send(&world.target, &with(token)).await?;
            ensure!((before.status, now.status) == (status, status), "{before:?}, {now:?}");
            Ok(())
        })
        .await
    };
    becomes(TOKEN, 401).await.context("no keys")?;
    server.say(&format!("{}{KEY}", " ".repeat(1 << 20)))?;
    ensure!(send(&world.target, &with(TOKEN)).await?.status == 401, "too much is read");
    server.say(KEY)?;
    becomes(TOKEN, 200).await.context("the keys came")?;
    becomes(NEXT_TOKEN, 401).await.context("of another key")?;
    server.say(NEXT_KEY)?;
    becomes(NEXT_TOKEN, 200).await.context("other keys came")?;
    becomes(TOKEN, 401).await.context("the old ones are none")?;
    drop(server);
    becomes(NEXT_TOKEN, 401).await.context("keys are too old, and nobody is there")?;
    world.portcullis.check().context("a fault")?;
    world.envoy.check().await
}
