//! The server over loopback, with the gRPC client that comes with the protos.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

#[path = "loopback/floods.rs"]
mod floods;
#[path = "loopback/hostile.rs"]
mod hostile;
#[path = "loopback/security.rs"]
mod security;
#[path = "loopback/trials.rs"]
mod trials;

use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::service::cluster::v3::cluster_discovery_service_client::ClusterDiscoveryServiceClient;
use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_client::AggregatedDiscoveryServiceClient;
use envoy_types::pb::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
};
use envoy_types::pb::google::rpc;
use prometheus_client::registry::Registry;
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status, Streaming};
use xds::{Config, Event, Hub, Metrics, Resource, ResourceType, ServeError, Server, Snapshot, TypeLabel};

const CLUSTER: &str = ResourceType::Cluster.type_url();

/// A server on a port of its own.
struct Running {
    hub: Hub,
    address: SocketAddr,
    events: mpsc::Receiver<Event>,
    stop: oneshot::Sender<()>,
    served: JoinHandle<Result<(), ServeError>>,
}

/// Serves, with room for so many events.
async fn serve(change: impl FnOnce(&mut Config), events: usize) -> Running {
    let (hub, mut config) = (Hub::new(), Config::default());
    change(&mut config);
    let (reporter, events) = xds::reporter(events);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let server = Server::new(hub.clone(), config, reporter);
    let served = tokio::spawn(server.serve_tcp(listener, async move { drop(stopped.await) }));
    Running { hub, address, events, stop, served }
}

/// Serves, and everything was read.
async fn ready(change: impl FnOnce(&mut Config)) -> Running {
    let running = serve(change, 100).await;
    running.hub.ready();
    running
}

/// Nothing here takes long; what does hangs.
async fn soon<T>(future: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(90), future).await.expect("it hangs")
}

impl Running {
    async fn client(&self) -> AggregatedDiscoveryServiceClient<Channel> {
        client(self.address).await
    }

    async fn delta(&self) -> Client {
        Client::asking(self.address, ask_delta()).await
    }

    async fn event(&mut self) -> Event {
        soon(self.events.recv()).await.unwrap()
    }
}

async fn client(address: SocketAddr) -> AggregatedDiscoveryServiceClient<Channel> {
    let channel = Channel::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap();
    AggregatedDiscoveryServiceClient::new(channel).max_decoding_message_size(64 << 20)
}

/// A delta stream.
#[derive(Debug)]
struct Client {
    requests: mpsc::Sender<DeltaDiscoveryRequest>,
    responses: Streaming<DeltaDiscoveryResponse>,
}

impl Client {
    async fn open(address: SocketAddr) -> Self {
        let (requests, receiver) = mpsc::channel(8);
        let opened = client(address).await.delta_aggregated_resources(ReceiverStream::new(receiver)).await;
        Self { requests, responses: opened.unwrap().into_inner() }
    }

    async fn asking(address: SocketAddr, request: DeltaDiscoveryRequest) -> Self {
        let client = Self::open(address).await;
        client.requests.send(request).await.unwrap();
        client
    }

    async fn message(&mut self) -> DeltaDiscoveryResponse {
        soon(self.responses.message()).await.unwrap().unwrap()
    }

    /// The next response, which is acknowledged.
    async fn next(&mut self) -> DeltaDiscoveryResponse {
        let response = self.message().await;
        self.answer(&response, None).await;
        response
    }

    async fn end(&mut self) -> Status {
        loop {
            match soon(self.responses.message()).await {
                Ok(Some(_)) => {}
                Ok(None) => return Status::ok(""),
                Err(status) => return status,
            }
        }
    }

    async fn answer(&self, response: &DeltaDiscoveryResponse, error: Option<&str>) {
        let request = DeltaDiscoveryRequest {
            type_url: response.type_url.clone(),
            response_nonce: response.nonce.clone(),
            error_detail: error.map(|message| rpc::Status { message: message.into(), ..Default::default() }),
            ..Default::default()
        };
        self.requests.send(request).await.unwrap();
    }
}

fn node() -> Node {
    Node { id: "envoy-1".into(), cluster: "ns/gw".into(), ..Default::default() }
}

fn ask_delta() -> DeltaDiscoveryRequest {
    DeltaDiscoveryRequest { node: Some(node()), type_url: CLUSTER.into(), ..Default::default() }
}

fn cluster(name: &str, version: u8, size: usize) -> Resource {
    Resource::new(ResourceType::Cluster, name, [version; 16], Bytes::from(vec![version; size]))
}

fn names(response: &DeltaDiscoveryResponse) -> Vec<&str> {
    response.resources.iter().map(|resource| resource.name.as_str()).collect()
}

#[tokio::test]
async fn a_delta_client_gets_what_is_published_and_what_changes() {
    let mut server = ready(|_| {}).await;
    server.hub.publish("ns/gw", Snapshot::new().with(cluster("a", 1, 10)).with(cluster("b", 1, 2_000_000)));
    let mut client = server.delta().await;
    let first = client.message().await;
    assert_eq!(names(&first), ["a", "b"]);
    let body = &first.resources[1].resource.as_ref().unwrap().value;
    assert!(body.len() == 2_000_000 && body.iter().all(|&byte| byte == 1));
    client.answer(&first, None).await;
    assert!(matches!(server.event().await, Event::Connected { gateway, node_id, .. }
        if gateway == "ns/gw" && node_id == "envoy-1"));
    assert!(matches!(server.event().await, Event::Acked { kind: ResourceType::Cluster, versions, .. }
        if versions.len() == 2));

    server.hub.publish("ns/gw", Snapshot::new().with(cluster("a", 2, 10)).with(cluster("b", 1, 2_000_000)));
    let second = client.message().await;
    assert_eq!(names(&second), ["a"]);
    client.answer(&second, Some("it is too short")).await;
    assert!(matches!(server.event().await, Event::Nacked { names, message, .. }
        if names == ["a"] && message == "it is too short"));

    server.hub.publish("ns/gw", Snapshot::new().with(cluster("a", 3, 10)).with(cluster("b", 1, 2_000_000)));
    let third = client.message().await;
    assert_eq!(names(&third), ["a"]);
    client.answer(&third, None).await;
    assert!(matches!(server.event().await, Event::Acked { .. }));
    assert!(matches!(server.event().await, Event::Recovered { names, .. } if names == ["a"]));
    drop(client);
    assert!(matches!(server.event().await, Event::Disconnected { .. }));
}

#[tokio::test]
async fn what_is_sent_and_how_long_its_acknowledgement_takes_is_counted_by_type() {
    let metrics = Metrics::default();
    let mut server = ready(|config| config.metrics = metrics.clone()).await;
    server.hub.publish("ns/gw", Snapshot::new().with(cluster("a", 1, 10)).with(cluster("b", 1, 5_000)));
    let mut client = server.delta().await;
    let first = client.message().await;
    let shown = || {
        let mut registry = Registry::default();
        metrics.register(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        text
    };
    let has = |line: &str| shown().lines().any(|shown| shown == line);
    assert!(has("xds_responses_total{type=\"Cluster\"} 1"), "{}", shown());
    assert!(has("xds_sent_resources_total{type=\"Cluster\"} 2"), "{}", shown());
    let label = TypeLabel { r#type: "Cluster" };
    let bytes = metrics.bytes.get_or_create(&label).get();
    assert!((5_010..6_000).contains(&bytes), "{bytes}");
    assert!(!shown().contains("xds_ack_seconds_count"), "{}", shown());

    client.answer(&first, None).await;
    assert!(matches!(server.event().await, Event::Connected { .. }));
    assert!(matches!(server.event().await, Event::Acked { .. }));
    assert!(has("xds_ack_seconds_count{type=\"Cluster\"} 1"), "{}", shown());

    server.hub.publish("ns/gw", Snapshot::new().with(cluster("a", 2, 10)).with(cluster("b", 1, 5_000)));
    let second = client.message().await;
    client.answer(&second, Some("no")).await;
    assert!(matches!(server.event().await, Event::Nacked { .. }));
    assert!(has("xds_sent_resources_total{type=\"Cluster\"} 3"), "{}", shown());
    assert!(has("xds_ack_seconds_count{type=\"Cluster\"} 1"), "what is refused is not acknowledged: {}", shown());
}

#[tokio::test]
async fn a_state_of_the_world_client_gets_what_is_published_and_what_changes() {
    let server = ready(|_| {}).await;
    server.hub.publish("ns/gw", Snapshot::new().with(cluster("a", 1, 10)));
    let (requests, receiver) = mpsc::channel(8);
    let request = DiscoveryRequest { node: Some(node()), type_url: CLUSTER.into(), ..Default::default() };
    requests.send(request.clone()).await.unwrap();
    let mut client = server.client().await;
    let responses = client.stream_aggregated_resources(ReceiverStream::new(receiver)).await.unwrap();
    let mut responses = responses.into_inner();
    let mut next = async || -> DiscoveryResponse { soon(responses.message()).await.unwrap().unwrap() };
    let first = next().await;
    assert_eq!((first.resources.len(), first.type_url.as_str()), (1, CLUSTER));
    let ack = |response: &DiscoveryResponse| DiscoveryRequest {
        response_nonce: response.nonce.clone(),
        version_info: response.version_info.clone(),
        ..request.clone()
    };
    requests.send(ack(&first)).await.unwrap();
    server.hub.publish("ns/gw", Snapshot::new().with(cluster("a", 1, 10)).with(cluster("b", 1, 10)));
    let second = next().await;
    assert_eq!(second.resources.len(), 2);
    assert_ne!(first.version_info, second.version_info);
}

#[tokio::test]
async fn a_stream_waits_until_everything_was_read() {
    let server = serve(|_| {}, 100).await;
    server.hub.publish("ns/gw", Snapshot::new().with(cluster("a", 1, 10)));
    let mut early = pin!(server.delta());
    assert!(timeout(Duration::from_millis(100), &mut early).await.is_err(), "it is answered");
    server.hub.ready();
    assert_eq!(names(&soon(early).await.message().await), ["a"]);
}

#[tokio::test]
async fn a_stream_that_waits_for_everything_to_be_read_does_not_hold_up_the_end() {
    let server = serve(
        |config| {
            (config.ready_timeout, config.drain_timeout) = (Duration::from_mins(1), Duration::from_mins(1));
        },
        100,
    )
    .await;
    let mut client = server.client().await;
    let mut refused = pin!(client.delta_aggregated_resources(tokio_stream::once(ask_delta())));
    assert!(timeout(Duration::from_millis(100), &mut refused).await.is_err(), "it is answered");
    server.stop.send(()).unwrap();
    assert_eq!(soon(refused).await.unwrap_err().code(), Code::Unavailable);
    soon(server.served).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_stream_that_waits_too_long_for_everything_to_be_read_is_refused() {
    let server = serve(|config| config.ready_timeout = Duration::from_millis(10), 100).await;
    let mut client = server.client().await;
    let refused = client.delta_aggregated_resources(tokio_stream::once(ask_delta())).await;
    assert_eq!(refused.unwrap_err().code(), Code::Unavailable);
    server.hub.ready();
    server.hub.publish("ns/gw", Snapshot::new().with(cluster("a", 1, 10)));
    assert_eq!(names(&server.delta().await.message().await), ["a"]);
}

#[tokio::test]
async fn a_stream_for_a_gateway_that_is_not_there_yet_waits_for_it() {
    let mut server = ready(|_| {}).await;
    let mut client = server.delta().await;
    assert!(matches!(server.event().await, Event::Connected { .. }));
    server.hub.publish("ns/gw", Snapshot::new().with(cluster("a", 1, 10)));
    assert_eq!(names(&client.message().await), ["a"]);
}

#[tokio::test]
async fn a_gateway_that_is_withdrawn_ends_its_streams_and_no_others() {
    let server = ready(|_| {}).await;
    server.hub.publish("ns/gw", Snapshot::new().with(cluster("a", 1, 10)));
    server.hub.publish("ns/other", Snapshot::new());
    let mut client = server.delta().await;
    let response = client.message().await;
    client.answer(&response, None).await;
    server.hub.withdraw("ns/other");
    server.hub.publish("ns/gw", Snapshot::new().with(cluster("a", 1, 10)).with(cluster("b", 1, 10)));
    let response = client.message().await;
    client.answer(&response, None).await;
    server.hub.withdraw("ns/gw");
    assert_eq!(client.end().await.code(), Code::Unavailable);
}

#[tokio::test]
async fn a_node_that_names_no_gateway_is_refused() {
    let server = ready(|_| {}).await;
    let mut client = server.client().await;
    for (node, code) in
        [(None, Code::InvalidArgument), (Some(Node { cluster: "gw".into(), ..node() }), Code::PermissionDenied)]
    {
        let request = DeltaDiscoveryRequest { node, ..ask_delta() };
        let response = client.delta_aggregated_resources(tokio_stream::once(request)).await.unwrap();
        assert_eq!(soon(response.into_inner().message()).await.unwrap_err().code(), code);
    }
}

#[tokio::test]
async fn who_may_read_what_is_a_setting() {
    let server = ready(|config| {
        config.authorize = Arc::new(|_, node| {
            if node.id == "envoy-1" { Ok("ns/theirs".into()) } else { Err(Status::unauthenticated("who is that")) }
        });
    })
    .await;
    server.hub.publish("ns/gw", Snapshot::new().with(cluster("claimed", 1, 10)));
    server.hub.publish("ns/theirs", Snapshot::new().with(cluster("theirs", 1, 10)));
    assert_eq!(names(&server.delta().await.message().await), ["theirs"]);
}

#[tokio::test]
async fn a_stream_belongs_to_the_node_of_its_first_message() {
    let server = ready(|_| {}).await;
    server.hub.publish("ns/gw", Snapshot::new());
    let mut client = server.delta().await;
    client.message().await;
    let other = Node { cluster: "ns/other".into(), ..node() };
    client.requests.send(DeltaDiscoveryRequest { node: Some(other), ..ask_delta() }).await.unwrap();
    assert_eq!(client.end().await.code(), Code::PermissionDenied);
}

#[tokio::test]
async fn a_request_beyond_the_bounds_ends_its_stream() {
    let server = ready(|config| {
        config.limits.names_per_type = 10;
        config.limits.request_bytes = 10_000;
    })
    .await;
    let many = vec!["a-name".to_owned(); 11];
    let mut client = server.delta().await;
    client.requests.send(DeltaDiscoveryRequest { resource_names_subscribe: many, ..ask_delta() }).await.unwrap();
    assert_eq!(client.end().await.code(), Code::ResourceExhausted);
    let mut client = server.delta().await;
    let large = vec!["x".repeat(10_001)];
    client.requests.send(DeltaDiscoveryRequest { resource_names_subscribe: large, ..ask_delta() }).await.unwrap();
    assert!(matches!(client.end().await.code(), Code::OutOfRange | Code::ResourceExhausted));
}

#[tokio::test]
async fn more_streams_than_allowed_are_refused() {
    let server = ready(|config| config.max_streams = 1).await;
    server.hub.publish("ns/gw", Snapshot::new());
    let mut first = server.delta().await;
    first.message().await;
    let mut client = server.client().await;
    let refused = client.delta_aggregated_resources(tokio_stream::pending()).await;
    assert_eq!(refused.unwrap_err().code(), Code::Unavailable);
}

#[tokio::test]
async fn only_the_aggregated_service_is_served() {
    let server = ready(|_| {}).await;
    let channel = Channel::from_shared(format!("http://{}", server.address)).unwrap().connect().await.unwrap();
    let mut client = ClusterDiscoveryServiceClient::new(channel);
    let request = DiscoveryRequest { node: Some(node()), type_url: CLUSTER.into(), ..Default::default() };
    assert_eq!(client.fetch_clusters(request.clone()).await.unwrap_err().code(), Code::Unimplemented);
    let refused = client.stream_clusters(tokio_stream::once(request)).await;
    assert_eq!(refused.unwrap_err().code(), Code::Unimplemented);
}

#[tokio::test]
async fn shutting_down_ends_streams_and_then_the_server() {
    let mut server = ready(|_| {}).await;
    server.hub.publish("ns/gw", Snapshot::new());
    let mut client = server.delta().await;
    client.message().await;
    drop(std::mem::replace(&mut server.stop, oneshot::channel().0));
    assert_eq!(client.end().await.code(), Code::Unavailable);
    soon(server.served).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_client_that_does_not_go_is_cut() {
    let mut server = serve(|config| config.drain_timeout = Duration::from_millis(50), 100).await;
    // A connection on which nothing is ever said does not even read that it shall go.
    let silent = TcpStream::connect(server.address).await.unwrap();
    server.hub.ready();
    server.hub.publish("ns/gw", Snapshot::new());
    let mut client = server.delta().await;
    client.message().await;
    drop(std::mem::replace(&mut server.stop, oneshot::channel().0));
    soon(server.served).await.unwrap().unwrap();
    drop(silent);
}

#[tokio::test]
async fn an_old_connection_is_asked_to_go() {
    let server = ready(|config| config.max_connection_age = Some(Duration::from_secs(3))).await;
    server.hub.publish("ns/gw", Snapshot::new());
    assert_eq!(server.delta().await.end().await.code(), Code::Unavailable);
    // It may come back.
    server.delta().await;
}

#[tokio::test]
async fn an_address_that_others_can_reach_is_refused() {
    let (reporter, _events) = xds::reporter(1);
    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let server = Server::new(Hub::new(), Config::default(), reporter);
    assert!(matches!(server.serve_tcp(listener, std::future::pending()).await, Err(ServeError::Bind(_))));
}

#[tokio::test]
async fn a_unix_socket_is_served() {
    let path = std::env::temp_dir().join(format!("xds-{}.sock", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let hub = Hub::new();
    hub.ready();
    hub.publish("ns/gw", Snapshot::new().with(cluster("a", 1, 10)));
    let (reporter, _events) = xds::reporter(100);
    let listener = UnixListener::bind(&path).unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let server = Server::new(hub, Config::default(), reporter);
    let served = tokio::spawn(server.serve_unix(listener, async move { drop(stopped.await) }));
    let channel = Endpoint::from_shared(format!("unix:{}", path.display())).unwrap().connect().await.unwrap();
    let mut client = AggregatedDiscoveryServiceClient::new(channel);
    let response = client
        .delta_aggregated_resources(tokio_stream::once(ask_delta()).chain(tokio_stream::pending()))
        .await
        .unwrap();
    assert_eq!(names(&soon(response.into_inner().message()).await.unwrap().unwrap()), ["a"]);
    drop((stop, client));
    soon(served).await.unwrap();
    std::fs::remove_file(&path).unwrap();
}
