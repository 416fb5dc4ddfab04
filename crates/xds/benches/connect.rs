//! How long a new Envoy waits for its configuration: 100 routes over 50 clusters, asked for in the order in which an Envoy
//! asks, from the connection to the last response.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark prints, and ends when anything is wrong")]

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_client::AggregatedDiscoveryServiceClient;
use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DeltaDiscoveryResponse};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use xds::{Config, Hub, Resource, ResourceType, Server, Snapshot};

const TIMES: usize = 300;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let hub = Hub::new();
    hub.ready();
    hub.publish("ns/gw", snapshot());
    let (reporter, mut events) = xds::reporter(1000);
    tokio::spawn(async move { while events.recv().await.is_some() {} });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(Server::new(hub, Config::default(), reporter).serve_tcp(listener, std::future::pending()));
    let mut taken = Vec::new();
    for _ in 0..TIMES {
        taken.push(configure(address).await);
    }
    taken.sort_unstable();
    let [p50, p99] = [TIMES / 2, TIMES * 99 / 100].map(|rank| taken[rank].as_secs_f64() * 1e3);
    println!("a new proxy with 100 routes has its configuration after {p50:.2} ms (p99 {p99:.2} ms)");
}

/// As large as what 100 routes become.
fn snapshot() -> Snapshot {
    let resource = |kind, name: String, bytes| Resource::new(kind, &name, [1; 16], Bytes::from(vec![1; bytes]));
    let backends = (0..50).flat_map(|n| {
        [(ResourceType::Cluster, 500), (ResourceType::Endpoints, 300)]
            .map(|(kind, bytes)| resource(kind, format!("service/ns/s{n}/80"), bytes))
    });
    let others = [
        (ResourceType::Listener, "listener/443", 2_000),
        (ResourceType::RouteConfiguration, "routes", 50_000),
        (ResourceType::Secret, "secret/ns/cert", 4_000),
    ]
    .map(|(kind, name, bytes)| resource(kind, name.into(), bytes));
    backends.chain(others).fold(Snapshot::new(), Snapshot::with)
}

async fn configure(address: SocketAddr) -> Duration {
    let start = Instant::now();
    let mut client = AggregatedDiscoveryServiceClient::connect(format!("http://{address}")).await.unwrap();
    let (requests, receiver) = mpsc::channel(8);
    let node = Node { id: "new".into(), cluster: "ns/gw".into(), ..Node::default() };
    let first = DeltaDiscoveryRequest { node: Some(node), ..ask(ResourceType::Cluster, &[]) };
    requests.send(first).await.unwrap();
    let mut responses = client.delta_aggregated_resources(ReceiverStream::new(receiver)).await.unwrap().into_inner();
    let mut awaited = 5;
    while awaited > 0 {
        let response = responses.message().await.unwrap().unwrap();
        awaited -= 1;
        requests.send(acknowledge(&response)).await.unwrap();
        let kind = |kind: ResourceType| response.type_url == kind.type_url();
        if kind(ResourceType::Cluster) {
            let names: Vec<_> = response.resources.iter().map(|resource| &*resource.name).collect();
            requests.send(ask(ResourceType::Endpoints, &names)).await.unwrap();
        } else if kind(ResourceType::Endpoints) {
            requests.send(ask(ResourceType::Listener, &[])).await.unwrap();
        } else if kind(ResourceType::Listener) {
            requests.send(ask(ResourceType::Secret, &["secret/ns/cert"])).await.unwrap();
            requests.send(ask(ResourceType::RouteConfiguration, &["routes"])).await.unwrap();
        }
    }
    start.elapsed()
}

fn ask(kind: ResourceType, names: &[&str]) -> DeltaDiscoveryRequest {
    DeltaDiscoveryRequest {
        type_url: kind.type_url().into(),
        resource_names_subscribe: names.iter().map(|name| (*name).to_owned()).collect(),
        ..DeltaDiscoveryRequest::default()
    }
}

fn acknowledge(response: &DeltaDiscoveryResponse) -> DeltaDiscoveryRequest {
    DeltaDiscoveryRequest {
        type_url: response.type_url.clone(),
        response_nonce: response.nonce.clone(),
        ..DeltaDiscoveryRequest::default()
    }
}
