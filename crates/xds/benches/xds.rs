//! What a change costs when 1,000 proxies must hear of it: CPU time of the server, and memory.
//!
//! The proxies are another process (this program again), so that only the server is measured. Prints figures; what
//! they should be is not decided here. `STREAMS=100` makes it smaller.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark prints, and ends when anything is wrong")]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use prost::encoding::{DecodeContext, decode_key, decode_varint, skip_field, string};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use xds::{Config, Event, Hub, Resource, ResourceType, Server, Snapshot};

const CLIENT: &str = "XDS_BENCH_SERVER";
const KIND: ResourceType = ResourceType::RouteConfiguration;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    match std::env::var(CLIENT) {
        Ok(address) => runtime.block_on(proxies(&address, streams())),
        Err(_) => runtime.block_on(measure(streams())),
    }
}

fn streams() -> usize {
    std::env::var("STREAMS").ok().and_then(|n| n.parse().ok()).unwrap_or(1000)
}

// The server's side.

async fn measure(streams: usize) {
    let hub = Hub::new();
    hub.ready();
    let (reporter, mut events) = xds::reporter(8 * streams);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(Server::new(hub.clone(), Config::default(), reporter).serve_tcp(listener, std::future::pending()));

    hub.publish("ns/gw", snapshot(1 << 10, 0));
    let (rss, cpu) = (memory("VmRSS"), cpu());
    let started = Instant::now();
    let mut child = spawn(&address.to_string());
    acknowledged(&mut events, streams).await;
    println!(
        "{streams} delta streams connect: server CPU {:.1} ms, wall {:.0} ms, {:.1} kB more resident a stream",
        milliseconds(cpu, self::cpu()),
        started.elapsed().as_secs_f64() * 1e3,
        (memory("VmRSS") - rss) / kilo(streams) * 1e3,
    );
    for (label, size, times) in [("1 kB", 1 << 10, 9_u8), ("1 MB", 1 << 20, 5)] {
        let mut costs = Vec::new();
        let mut growth = 0_f64;
        for change in 1..=times {
            reset_peak();
            let (rss, before) = (memory("VmRSS"), self::cpu());
            let started = Instant::now();
            hub.publish("ns/gw", snapshot(size, change));
            acknowledged(&mut events, streams).await;
            costs.push((milliseconds(before, self::cpu()), started.elapsed().as_secs_f64() * 1e3));
            growth = growth.max(memory("VmHWM") - rss);
        }
        costs.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (cpu, wall) = costs[costs.len() / 2];
        println!(
            "{label} to {streams} streams, until all have acknowledged: server CPU {cpu:.1} ms ({:.1} to {:.1}), \
             wall {wall:.0} ms, at most {growth:.1} MB more resident",
            costs[0].0,
            costs[costs.len() - 1].0
        );
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

fn snapshot(size: usize, change: u8) -> Snapshot {
    let mut version = [change; 16];
    version[..8].copy_from_slice(&(size as u64).to_be_bytes());
    Snapshot::new().with(Resource::new(KIND, "r", version, Bytes::from(vec![change; size])))
}

async fn acknowledged(events: &mut mpsc::Receiver<Event>, mut streams: usize) {
    while streams > 0 {
        if let Event::Acked { .. } = tokio::time::timeout(Duration::from_mins(2), events.recv()).await.unwrap().unwrap()
        {
            streams -= 1;
        }
    }
}

fn spawn(address: &str) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .env(CLIENT, address)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "up\n", "the clients did not start");
    child
}

/// CPU time of all threads of this process in nanoseconds.
fn cpu() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let time = |path: std::path::PathBuf| std::fs::read_to_string(path.join("schedstat")).ok();
    let first = |text: String| text.split(' ').next()?.parse::<u64>().ok();
    tasks.filter_map(|task| time(task.ok()?.path()).and_then(first)).sum()
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn milliseconds(before: u64, after: u64) -> f64 {
    (after - before) as f64 / 1e6
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn kilo(n: usize) -> f64 {
    n as f64
}

/// A line of `/proc/self/status` in MB.
fn memory(line: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let value = status.lines().find_map(|text| text.strip_prefix(line)).unwrap();
    value.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
}

fn reset_peak() {
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
}

// The proxies' side: each on a connection of its own, as Envoys are. They read nonces and acknowledge.

async fn proxies(address: &str, streams: usize) {
    let endpoint = tonic::transport::Endpoint::from_shared(format!("http://{address}")).unwrap();
    let endpoint = endpoint.initial_stream_window_size(4 << 20).initial_connection_window_size(4 << 20);
    for _ in 0..streams {
        let channel = endpoint.connect().await.unwrap();
        tokio::spawn(async move {
            let mut client = tonic::client::Grpc::new(channel).max_decoding_message_size(64 << 20);
            client.ready().await.unwrap();
            let (requests, receiver) = mpsc::channel(1);
            requests.send(request(None)).await.unwrap();
            let path = "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources";
            let path = http::uri::PathAndQuery::from_static(path);
            let call = tonic::Request::new(ReceiverStream::new(receiver));
            let mut responses = client.streaming(call, path, Raw).await.unwrap().into_inner();
            while let Some(Ok(response)) = responses.next().await {
                requests.send(request(Some(&nonce(response)))).await.unwrap();
            }
        });
    }
    println!("up");
    std::io::stdout().flush().unwrap();
    std::future::pending::<()>().await;
}

/// A `DeltaDiscoveryRequest`: the first, or an acknowledgement.
fn request(nonce: Option<&String>) -> Bytes {
    let mut message = BytesMut::new();
    string::encode(2, &KIND.type_url().to_owned(), &mut message);
    if let Some(nonce) = nonce {
        string::encode(6, nonce, &mut message);
    } else {
        let mut node = BytesMut::new();
        string::encode(1, &"envoy".to_owned(), &mut node);
        string::encode(2, &"ns/gw".to_owned(), &mut node);
        prost::encoding::bytes::encode(1, &node.freeze(), &mut message);
        string::encode(3, &"r".to_owned(), &mut message);
    }
    message.freeze()
}

/// The nonce of a `DeltaDiscoveryResponse`.
fn nonce(mut message: Bytes) -> String {
    loop {
        let (tag, wire) = decode_key(&mut message).unwrap();
        if tag == 5 {
            let len = usize::try_from(decode_varint(&mut message).unwrap()).unwrap();
            return String::from_utf8(message.split_to(len).to_vec()).unwrap();
        }
        skip_field(wire, tag, &mut message, DecodeContext::default()).unwrap();
    }
}

/// Bytes as they are.
#[derive(Clone, Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, target: &mut EncodeBuf<'_>) -> Result<(), Status> {
        target.put(item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, source: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        let len = source.remaining();
        Ok(Some(source.copy_to_bytes(len)))
    }
}
