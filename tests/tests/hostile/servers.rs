//! What anybody who reaches the servers of the controller can do to those who need them.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::service::discovery::v3::DeltaDiscoveryRequest;
use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_client::AggregatedDiscoveryServiceClient;
use portcullis_tests::client::{self, Request, Target};
use portcullis_tests::wait::{TIMEOUT, eventually};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;

use crate::manifests::route;
use crate::stage::Stage;

const SECRETS: &str = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret";

/// Connections on which nothing is said.
async fn idle(to: SocketAddr, count: usize) -> Vec<TcpStream> {
    let mut held = Vec::new();
    for _ in 0..count {
        // One that is not let in is one less to hold.
        if let Ok(Ok(io)) = timeout(Duration::from_secs(5), TcpStream::connect(to)).await {
            held.push(io);
        }
    }
    held
}

/// Whether a server of HTTP/2 answers there.
async fn speaks_http2(address: SocketAddr) -> Result<()> {
    let spoken = async {
        let mut io = TcpStream::connect(address).await?;
        // The preface, and empty settings.
        io.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await?;
        let mut head = [0; 9];
        io.read_exact(&mut head).await?;
        ensure!(head[3] == 4, "no settings: {head:?}");
        Ok(())
    };
    timeout(Duration::from_secs(5), spoken).await.context("nobody answers")?
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_end_neither_liveness_nor_xds_nor_the_reading_of_files() -> Result<()> {
    accept::open_files();
    let mut stage = Stage::start().await?;
    let id = stage.portcullis.id().context("it runs")?.to_string();
    let limited = Command::new("prlimit").args(["--nofile=1024:1024", "--pid", &id]).status().await?;
    ensure!(limited.success(), "{limited}");
    let (admin, xds) = (stage.portcullis.admin_address(), stage.portcullis.xds_address());
    let held = (idle(admin, 1100).await, idle(xds, 1100).await);
    eventually(TIMEOUT, async || {
        let health = stage.portcullis.admin("/healthz").await?;
        ensure!(health.status == 200, "{}", health.status);
        Ok(())
    })
    .await?;
    eventually(TIMEOUT, async || speaks_http2(xds).await).await?;
    stage.write(&route("beside", "beside.example", "/")).await?;
    stage.answers("beside.example", "/", 200).await?;
    let log = stage.portcullis.log();
    ensure!(!log.contains("cannot accept") && !log.contains("os error 24"), "{}", stage.portcullis.log_tail());
    drop(held);
    stage.is_unharmed().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pipe_in_the_place_of_a_manifest_is_told_and_the_rest_is_read() -> Result<()> {
    let mut stage = Stage::start().await?;
    stage.portcullis.write("swapped.yaml", &route("swapped", "swapped.example", "/"))?;
    stage.answers("swapped.example", "/", 200).await?;
    let folder = stage.portcullis.files().to_owned();
    let made = Command::new("mkfifo").arg(folder.join("pipe")).status().await?;
    ensure!(made.success(), "{made}");
    std::fs::rename(folder.join("pipe"), folder.join("swapped.yaml"))?;
    std::os::unix::fs::symlink("/dev/zero", folder.join("zero.yaml"))?;
    stage.write(&route("after", "after.example", "/")).await?;
    stage.answers("after.example", "/", 200).await?;
    stage.logs("swapped.yaml:1:1: refused: cannot be read: it is neither a file nor a folder").await?;
    stage.logs("zero.yaml:1:1: refused: cannot be read: it is neither a file nor a folder").await?;
    // What it said last holds.
    stage.answers("swapped.example", "/", 200).await?;
    std::fs::remove_file(folder.join("zero.yaml"))?;
    stage.is_unharmed().await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_admin_server_answers_only_to_who_asks_for_this_host() -> Result<()> {
    let stage = Stage::start().await?;
    let admin = Target::local(stage.portcullis.admin_address().port());
    for page in ["/", "/healthz", "/metrics", "/debug/snapshot", "/debug/status", "/nothing"] {
        let answer = client::send(&admin, &Request::get("rebound.example:18001", page)).await?;
        ensure!(answer.status == 421, "{page}: {}", answer.status);
        ensure!(answer.body.contains("as localhost"), "{page}: {}", answer.body);
    }
    for host in ["localhost", "127.0.0.1:1", "[::1]"] {
        let answer = client::send(&admin, &Request::get(host, "/debug/snapshot")).await?;
        ensure!(answer.status == 200, "{host}: {}", answer.status);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_that_asks_for_thousands_of_names_writes_few_lines() -> Result<()> {
    const NAMES: u32 = 3000;
    let mut stage = Stage::start().await?;
    let endpoint = Channel::from_shared(format!("http://{}", stage.portcullis.xds_address()))?;
    let mut ads = AggregatedDiscoveryServiceClient::new(endpoint.connect().await?);
    let (requests, receiver) = mpsc::channel(8);
    let ask = |name: String| DeltaDiscoveryRequest {
        node: Some(Node { id: "curious".into(), cluster: "infra/gateway".into(), ..Node::default() }),
        type_url: SECRETS.into(),
        resource_names_subscribe: vec![name],
        ..DeltaDiscoveryRequest::default()
    };
    requests.send(ask("guess-0".into())).await?;
    let mut responses = ads.delta_aggregated_resources(ReceiverStream::new(receiver)).await?.into_inner();
    for number in 1..=NAMES {
        let response = timeout(TIMEOUT, responses.message()).await??.context("it ended")?;
        let mut next = ask(format!("guess-{number}"));
        next.response_nonce = response.nonce;
        requests.send(next).await?;
    }
    eventually(TIMEOUT, async || {
        let counted = stage.portcullis.metric("portcullis_xds_unknown_names_total{gateway=\"infra/gateway\"}").await?;
        ensure!(counted >= Some(f64::from(NAMES)), "{counted:?}");
        Ok(())
    })
    .await?;
    let log = stage.portcullis.log();
    let lines = log.lines().filter(|line| line.contains("guess-")).count();
    ensure!((1..=60).contains(&lines) && log.contains("more are left out"), "{lines} lines");
    stage.is_unharmed().await
}
