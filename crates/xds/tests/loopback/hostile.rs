//! Clients that are slow, silent, dead or curious, against a real server: each costs itself and nobody else.

use std::collections::BTreeSet;

use tokio::io::{AsyncReadExt as _, copy_bidirectional, split};

use super::*;

const LARGE: usize = 8 << 20;

fn snapshot(version: u8, size: usize) -> Snapshot {
    let body = Bytes::from(vec![version; size]);
    Snapshot::new().with(Resource::new(ResourceType::Cluster, "a", [version; 16], body))
}

fn secret(name: &str) -> Snapshot {
    Snapshot::new().with(Resource::new(ResourceType::Secret, name, [1; 16], Bytes::from_static(b"private")))
}

fn ask(kind: ResourceType, names: &[&str]) -> DeltaDiscoveryRequest {
    DeltaDiscoveryRequest {
        node: Some(node()),
        type_url: kind.type_url().into(),
        resource_names_subscribe: names.iter().map(|&name| name.into()).collect(),
        ..Default::default()
    }
}

impl Client {
    /// The first byte of the only resource of the next response: its version.
    async fn next_version(&mut self) -> u8 {
        self.next().await.resources[0].resource.as_ref().unwrap().value[0]
    }
}

#[tokio::test]
async fn a_secret_of_another_gateway_does_not_exist() {
    let mut server = ready(|_| {}).await;
    server.hub.publish("ns/gw", secret("ours"));
    server.hub.publish("ns/other", secret("theirs"));
    let mut client = Client::asking(server.address, ask(ResourceType::Secret, &["ours", "theirs"])).await;
    let response = client.next().await;
    assert_eq!(response.removed_resources, ["theirs"]);
    assert_eq!(names(&response), ["ours"]);
    assert!(matches!(soon(server.events.recv()).await, Some(Event::Connected { .. })));
    assert!(matches!(soon(server.events.recv()).await, Some(Event::UnknownName { gateway, kind, name, .. })
        if gateway == "ns/gw" && kind == ResourceType::Secret && name == "theirs"));
    // Also not by a wildcard.
    client.requests.send(ask(ResourceType::Secret, &["*"])).await.unwrap();
    let response = client.next().await;
    assert!(response.resources.iter().all(|resource| resource.name == "ours"));
}

#[tokio::test]
async fn names_that_are_not_there_are_reported_as_a_count() {
    let mut server = ready(|_| {}).await;
    server.hub.publish("ns/gw", secret("ours"));
    let names: Vec<_> = (0..10_000).map(|number| format!("guess-{number:05}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let mut client = Client::asking(server.address, ask(ResourceType::Secret, &names)).await;
    assert_eq!(client.next().await.removed_resources.len(), names.len());
    assert!(matches!(soon(server.events.recv()).await, Some(Event::Connected { .. })));
    let event = soon(server.events.recv()).await;
    assert!(
        matches!(&event, Some(Event::UnknownName { name, count: 10_000, .. }) if name == "guess-00000"),
        "{event:?}"
    );
    assert!(matches!(soon(server.events.recv()).await, Some(Event::Acked { .. })));
}

#[tokio::test]
async fn what_is_too_large_for_a_message_is_reported_and_what_follows_is_sent() {
    let mut server = ready(|_| {}).await;
    // Five GiB, of which there is one MiB.
    let pieces: Arc<[Bytes]> = std::iter::repeat_n(Bytes::from(vec![0; 1 << 20]), 5 << 10).collect();
    let large = Resource::in_pieces(ResourceType::Cluster, "a", [1; 16], pieces);
    server.hub.publish("ns/gw", Snapshot::new().with(large));
    let mut client = Client::asking(server.address, ask(ResourceType::Cluster, &[])).await;
    assert!(matches!(soon(server.events.recv()).await, Some(Event::Connected { .. })));
    let event = soon(server.events.recv()).await;
    let Some(Event::Nacked { names, message, .. }) = event else { panic!("{event:?}") };
    assert_eq!(names, ["a"]);
    assert!(message.starts_with("not sent: the 1 resources of type Cluster"), "{message}");
    server.hub.publish("ns/gw", snapshot(2, 10));
    assert_eq!(client.next_version().await, 2);
    assert!(matches!(soon(server.events.recv()).await, Some(Event::Acked { .. })));
    assert!(matches!(soon(server.events.recv()).await, Some(Event::Recovered { .. })));
}

#[tokio::test]
async fn a_client_that_does_not_read_skips_versions_and_holds_up_nobody() {
    let server = ready(|config| {
        config.max_concurrent_large_sends = 1;
        config.gate_timeout = Duration::from_millis(50);
    })
    .await;
    server.hub.publish("ns/gw", snapshot(1, LARGE));
    // It has the only turn for large responses, and takes none of its bytes.
    let mut slow = Client::asking(server.address, ask(ResourceType::Cluster, &[])).await;
    let mut quick = Client::asking(server.address, ask(ResourceType::Cluster, &[])).await;
    for version in 1..=9 {
        server.hub.publish("ns/gw", snapshot(version, LARGE));
        assert_eq!(quick.next_version().await, version);
    }
    let mut versions = Vec::new();
    while versions.last() != Some(&9) {
        versions.push(slow.next_version().await);
    }
    // One was being sent and one was waiting for it.
    assert!(versions.len() <= 3, "{versions:?}");
}

#[tokio::test]
async fn nobody_waits_for_a_reader_of_events() {
    let server = serve(|_| {}, 1).await;
    server.hub.ready();
    let mut client = Client::asking(server.address, ask(ResourceType::Cluster, &[])).await;
    for version in 1..=200 {
        server.hub.publish("ns/gw", snapshot(version, 1));
        assert_eq!(client.next_version().await, version);
        client.requests.send(ask(ResourceType::Endpoints, &[&format!("unknown-{version}")])).await.unwrap();
        client.next().await;
    }
}

#[tokio::test]
async fn a_reader_of_events_that_is_far_behind_is_told_who_came_and_who_went() {
    let mut server = serve(|_| {}, 1).await;
    server.hub.ready();
    server.hub.publish("ns/gw", snapshot(1, 1));
    // The first takes the room that there is.
    let mut clients = Vec::new();
    for _ in 0..2 {
        let mut client = Client::asking(server.address, ask(ResourceType::Cluster, &[])).await;
        assert_eq!(client.next_version().await, 1);
        clients.push(client);
    }
    for number in 0..300 {
        let last = &mut clients[1];
        last.requests.send(ask(ResourceType::Endpoints, &[&format!("unknown-{number}")])).await.unwrap();
        last.next().await;
    }
    drop(clients);
    let (mut came, mut went) = (BTreeSet::new(), BTreeSet::new());
    while went.len() < 2 {
        match soon(server.events.recv()).await.expect("the server runs") {
            Event::Connected { stream, .. } => _ = came.insert(stream),
            Event::Disconnected { stream, .. } => _ = went.insert(stream),
            _ => {}
        }
    }
    assert_eq!(came, went);
}

#[tokio::test]
async fn a_stream_on_which_nothing_is_asked_ends() {
    let server = ready(|config| {
        config.keepalive_interval = Duration::from_millis(100);
        config.keepalive_timeout = Duration::from_millis(200);
    })
    .await;
    server.hub.publish("ns/gw", snapshot(1, 1));
    let mut silent = Client::open(server.address).await;
    assert_eq!(soon(silent.responses.message()).await.unwrap_err().code(), Code::DeadlineExceeded);
}

#[tokio::test]
async fn a_connection_that_is_dead_without_a_word_is_cut() {
    let mut server = ready(|config| {
        config.keepalive_interval = Duration::from_millis(200);
        config.keepalive_timeout = Duration::from_secs(1);
    })
    .await;
    server.hub.publish("ns/gw", snapshot(1, 1));
    // A way that stops to carry anything, without an end that anybody could see.
    let way = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, to) = (way.local_addr().unwrap(), server.address);
    let (cut, is_cut) = oneshot::channel::<()>();
    tokio::spawn(async move {
        let (mut near, _) = way.accept().await.unwrap();
        let mut far = TcpStream::connect(to).await.unwrap();
        tokio::select! {
            _ = copy_bidirectional(&mut near, &mut far) => {}
            _ = is_cut => {}
        }
        let held = (split(near), split(far));
        std::future::pending::<()>().await;
        drop(held);
    });
    let mut client = Client::asking(address, ask(ResourceType::Cluster, &[])).await;
    assert_eq!(client.next_version().await, 1);
    assert!(matches!(soon(server.events.recv()).await, Some(Event::Connected { .. })));
    assert!(matches!(soon(server.events.recv()).await, Some(Event::Acked { .. })));
    cut.send(()).unwrap();
    assert!(matches!(soon(server.events.recv()).await, Some(Event::Disconnected { .. })));
}

#[tokio::test]
async fn a_connection_that_was_asked_to_go_does_not_stay_without_a_stream() {
    let server = ready(|config| {
        config.max_connection_age = Some(Duration::from_secs(3));
        // Nobody but who has a stream may stay for so long.
        config.drain_timeout = Duration::from_hours(1);
        config.keepalive_interval = Duration::from_hours(1);
    })
    .await;
    server.hub.publish("ns/gw", snapshot(1, 1));
    // A way on which the client does not hear any more that it shall go, and says nothing.
    let way = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, to) = (way.local_addr().unwrap(), server.address);
    let (cut, is_cut) = oneshot::channel::<()>();
    let ended = tokio::spawn(async move {
        let (mut near, _) = way.accept().await.unwrap();
        let mut far = TcpStream::connect(to).await.unwrap();
        tokio::select! {
            _ = copy_bidirectional(&mut near, &mut far) => {}
            _ = is_cut => {}
        }
        while far.read(&mut [0; 1024]).await.is_ok_and(|read| read > 0) {}
        drop(near);
    });
    let mut client = Client::asking(address, ask(ResourceType::Cluster, &[])).await;
    assert_eq!(client.next_version().await, 1);
    cut.send(()).unwrap();
    soon(ended).await.unwrap();
}

#[tokio::test]
async fn errors_of_any_size_and_kind_are_reported_on_one_line() {
    let mut server = ready(|_| {}).await;
    server.hub.publish("ns/gw", snapshot(1, 1));
    let mut client = Client::asking(server.address, ask(ResourceType::Cluster, &[])).await;
    let response = soon(client.responses.message()).await.unwrap().unwrap();
    let nack = DeltaDiscoveryRequest {
        type_url: response.type_url,
        response_nonce: response.nonce,
        error_detail: Some(envoy_types::pb::google::rpc::Status {
            message: "\u{1b}[2Jbad\n\0".repeat(200_000),
            ..Default::default()
        }),
        ..Default::default()
    };
    client.requests.send(nack).await.unwrap();
    assert!(matches!(soon(server.events.recv()).await, Some(Event::Connected { .. })));
    let Some(Event::Nacked { message, .. }) = soon(server.events.recv()).await else { panic!("it was refused") };
    assert_eq!(message, " [2Jbad", "the first line, and nothing in it that moves a cursor");
}

#[tokio::test]
async fn the_end_of_a_stream_is_reported_however_late_it_is_read() {
    let mut server = serve(|_| {}, 1).await;
    server.hub.ready();
    server.hub.publish("ns/gw", snapshot(1, 1));
    let mut client = Client::asking(server.address, ask(ResourceType::Cluster, &[])).await;
    client.next().await;
    tokio::time::pause();
    drop(client);
    // Time goes on as fast as nothing else happens, in steps, so that the connection is looked at in between.
    for _ in 0..100 {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    tokio::time::resume();
    let mut last = soon(server.events.recv()).await;
    while !matches!(last, Some(Event::Disconnected { .. })) {
        last = soon(server.events.recv()).await;
    }
}
