//! Requests that must not fail.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use portcullis_tests::client::{Protocol, Request, Target};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, timeout};

/// Between two requests.
const PACE: Duration = Duration::from_millis(10);

/// How long an answer may take.
const ANSWER: Duration = Duration::from_mins(1);

/// A request after the other, on a connection each, for as long as this is there.
pub(crate) struct Traffic {
    stop: Arc<AtomicBool>,
    task: JoinHandle<Result<usize>>,
}

impl Traffic {
    pub(crate) fn start(target: &Target, request: &Request) -> Self {
        let plain = target.tls.is_none() && target.protocol == Protocol::Http1;
        assert!(plain && request.headers.is_empty() && request.body.is_empty(), "{target:?} {request:?}");
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, address) = (Arc::clone(&stop), target.address);
        let Request { method, path, host, .. } = request;
        let request = format!("{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        let task = tokio::spawn(async move {
            let mut pace = interval(PACE);
            pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let mut sent = 0;
            while !stopped.load(Ordering::Relaxed) {
                pace.tick().await;
                let answer = timeout(ANSWER, ask(address, &request)).await.context("no answer");
                let answer = answer.flatten().with_context(|| format!("request {sent}"))?;
                ensure!(is_whole_and_ok(&answer), "request {sent}: {answer}");
                sent += 1;
            }
            Ok(sent)
        });
        Self { stop, task }
    }

    /// Fails with the first request that failed.
    pub(crate) async fn finish(self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        let sent = self.task.await??;
        ensure!(sent > 0, "nothing was asked for");
        Ok(())
    }
}

/// What comes on a connection of its own. There are a hundred requests a second, each of which takes a client that understands
/// all of the answer several times as much of a core.
async fn ask(address: SocketAddr, request: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::with_capacity(2048);
    stream.read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Whether an answer is 200, with all of its body.
fn is_whole_and_ok(answer: &str) -> bool {
    let Some((head, body)) = answer.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    head.starts_with("HTTP/1.1 200 ") && length == Some(body.len())
}
