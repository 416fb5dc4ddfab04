//! TLS and authentication, against a real server: who is let in, what others learn, and how long it lasts.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use hyper_util::rt::TokioIo;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpSocket;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::Request;
use xds::{Authenticate, BindError, Certificate, Identity, Peer, Refusal, Token};

use super::*;

/// Answers what a token is worth.
#[derive(Default)]
struct Judge {
    answer: Mutex<Option<Result<(), Refusal>>>,
    asked: AtomicUsize,
}

impl Judge {
    /// Gives this answer from now on.
    fn answers(&self, answer: Result<(), Refusal>) {
        *self.answer.lock().unwrap() = Some(answer);
    }
}

impl Authenticate for Judge {
    fn authenticate<'a>(&'a self, _: &'a Peer, token: &'a Token) -> BoxFuture<'a, Result<Identity, Refusal>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let answer = *self.answer.lock().unwrap();
        async move {
            match (answer, token.reveal()) {
                (Some(Err(refusal)), _) => Err(refusal),
                (_, "hangs") => std::future::pending().await,
                (_, "stranger") => Err(Refusal::NoGateway),
                (_, gateway) if gateway.starts_with("ns/") => Ok(Identity {
                    name: "proxy".into(),
                    gateway: gateway.into(),
                    recheck_after: Duration::from_millis(1),
                }),
                _ => Err(Refusal::Denied),
            }
        }
        .boxed()
    }
}

struct Made {
    chain: String,
    key: String,
    der: CertificateDer<'static>,
}

fn made() -> Made {
    let made = rcgen::generate_simple_self_signed(["xds".to_owned()]).unwrap();
    Made { chain: made.cert.pem(), key: made.signing_key.serialize_pem(), der: made.cert.der().clone() }
}

struct Running {
    hub: Hub,
    judge: Arc<Judge>,
    certificate: Certificate,
    trusted: CertificateDer<'static>,
    address: SocketAddr,
    events: mpsc::Receiver<Event>,
    _stop: oneshot::Sender<()>,
}

async fn run(change: impl FnOnce(&mut Config)) -> Running {
    let running = run_unready(change).await;
    running.hub.ready();
    running
}

/// Serves, and not everything was read yet.
async fn run_unready(change: impl FnOnce(&mut Config)) -> Running {
    let judge = Arc::new(Judge::default());
    let mut config = Config::default();
    config.authenticate = Some(judge.clone());
    config.recheck_interval = Duration::from_millis(1);
    change(&mut config);
    let hub = Hub::new();
    for gateway in ["ns/gw", "ns/other"] {
        hub.publish(gateway, snapshot(gateway, 1));
    }
    let (reporter, events) = xds::reporter(1000);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let server = Server::new(hub.clone(), config, reporter);
    let (certificate, made) = (Certificate::new(), made());
    certificate.set(made.chain.as_bytes(), made.key.as_bytes()).unwrap();
    let served = certificate.clone();
    tokio::spawn(async move { server.serve_tls(listener, &served, async move { drop(stopped.await) }).await });
    Running { hub, judge, certificate, trusted: made.der, address, events, _stop: stop }
}

fn snapshot(name: &str, version: u8) -> Snapshot {
    Snapshot::new().with(Resource::new(ResourceType::Cluster, name, [version; 16], Bytes::from_static(b"x")))
}

async fn handshake(address: SocketAddr, trusted: CertificateDer<'static>) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let io = TcpStream::connect(address).await?;
    TlsConnector::from(Arc::new(config)).connect(ServerName::try_from("xds").unwrap(), io).await
}

impl Running {
    async fn channel(&self) -> Channel {
        let (address, trusted) = (self.address, self.trusted.clone());
        let connect = move |_| {
            let trusted = trusted.clone();
            async move { handshake(address, trusted).await.map(TokioIo::new) }
        };
        let endpoint = Endpoint::from_static("http://xds");
        soon(endpoint.connect_with_connector(tower::service_fn(connect))).await.unwrap()
    }

    async fn open(&self, token: Option<&str>, claim: &str) -> Result<Client, Status> {
        open_on(self.channel().await, token, claim).await
    }

    /// The status with which a stream ends on which nothing came before.
    async fn refused(&self, token: Option<&str>, claim: &str) -> Status {
        match self.open(token, claim).await {
            Err(status) => status,
            Ok(mut client) => soon(client.responses.message()).await.expect_err("a response"),
        }
    }

    /// How often somebody was refused for this reason, once it was at all.
    async fn refusal(&mut self, expected: Refusal) -> u64 {
        loop {
            match soon(self.events.recv()).await.unwrap() {
                Event::Refused { reason, count } if reason == expected => return count,
                _ => {}
            }
        }
    }
}

async fn open_on(channel: Channel, token: Option<&str>, claim: &str) -> Result<Client, Status> {
    let (requests, receiver) = mpsc::channel(8);
    let ask = DeltaDiscoveryRequest {
        node: Some(Node { id: "envoy-1".into(), cluster: claim.into(), ..Default::default() }),
        type_url: ResourceType::Cluster.type_url().into(),
        ..Default::default()
    };
    requests.send(ask).await.unwrap();
    let mut request = Request::new(ReceiverStream::new(receiver));
    if let Some(token) = token {
        request.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    }
    let opened = soon(AggregatedDiscoveryServiceClient::new(channel).delta_aggregated_resources(request)).await;
    Ok(Client { requests, responses: opened?.into_inner() })
}

#[tokio::test]
async fn a_proxy_that_shows_who_it_is_gets_what_is_its_gateways() {
    let server = run(|_| {}).await;
    for gateway in ["ns/gw", "ns/other"] {
        let mut client = server.open(Some(gateway), gateway).await.unwrap();
        assert_eq!(names(&client.next().await), [gateway]);
    }
}

#[tokio::test]
async fn who_is_refused_is_not_told_why_but_it_is_counted() {
    let mut server = run(|_| {}).await;
    let mut words = Vec::new();
    for (token, reason) in [
        (None, Refusal::Token),
        (Some("garbage"), Refusal::Denied),
        (Some("stranger"), Refusal::NoGateway),
        (Some("ns/other"), Refusal::WrongGateway),
    ] {
        let status = server.refused(token, "ns/gw").await;
        words.push((status.code(), status.message().to_owned()));
        assert_eq!(server.refusal(reason).await, 1, "{token:?}");
    }
    words.dedup();
    assert_eq!(words, [(Code::Unauthenticated, "not authenticated".to_owned())]);
}

#[tokio::test]
async fn a_stream_without_a_token_is_refused_without_asking_anybody() {
    let server = run(|_| {}).await;
    server.refused(None, "ns/gw").await;
    server.refused(Some(&"x".repeat(xds::MAX_TOKEN_BYTES + 1)), "ns/gw").await;
    assert_eq!(server.judge.asked.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_stream_without_a_token_does_not_wait_until_everything_was_read() {
    let server = run_unready(|config| config.ready_timeout = Duration::from_hours(1)).await;
    assert_eq!(server.refused(None, "ns/gw").await.code(), Code::Unauthenticated);
}

#[tokio::test]
async fn nothing_that_is_said_is_read_before_it_is_known_who_says_it() {
    let server = run(|_| {}).await;
    let (_requests, receiver) = mpsc::channel::<DeltaDiscoveryRequest>(1);
    let mut client = AggregatedDiscoveryServiceClient::new(server.channel().await);
    // It says nothing at all, so who would wait for a message would wait for long.
    let status = soon(client.delta_aggregated_resources(ReceiverStream::new(receiver))).await.unwrap_err();
    assert_eq!(status.code(), Code::Unauthenticated);
}

#[tokio::test]
async fn a_certificate_is_changed_without_a_dropped_stream() {
    let mut server = run(|_| {}).await;
    let mut client = server.open(Some("ns/gw"), "ns/gw").await.unwrap();
    client.next().await;
    let next = made();
    server.certificate.set(next.chain.as_bytes(), next.key.as_bytes()).unwrap();
    handshake(server.address, server.trusted.clone()).await.expect_err("the old one is not served any more");
    server.trusted = next.der;
    let mut other = server.open(Some("ns/gw"), "ns/gw").await.unwrap();
    other.next().await;
    server.hub.publish("ns/gw", snapshot("ns/gw", 2));
    assert_eq!(names(&client.next().await), ["ns/gw"]);
}

#[tokio::test]
async fn without_a_certificate_nobody_is_served_until_there_is_one() {
    let mut server = run(|_| {}).await;
    server.certificate = Certificate::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (reporter, _events) = xds::reporter(1);
    server.address = listener.local_addr().unwrap();
    let mut config = Config::default();
    config.authenticate = Some(server.judge.clone());
    let (own, served) = (Server::new(server.hub.clone(), config, reporter), server.certificate.clone());
    tokio::spawn(async move { own.serve_tls(listener, &served, std::future::pending()).await });
    handshake(server.address, server.trusted.clone()).await.expect_err("there is nothing to serve");
    let made = made();
    server.certificate.set(made.chain.as_bytes(), made.key.as_bytes()).unwrap();
    handshake(server.address, made.der).await.expect("there is one now");
}

#[tokio::test]
async fn a_stream_ends_when_its_identity_does() {
    let mut server = run(|_| {}).await;
    let mut client = server.open(Some("ns/gw"), "ns/gw").await.unwrap();
    client.next().await;
    server.judge.answers(Err(Refusal::Denied));
    assert_eq!(client.end().await.code(), Code::Unauthenticated);
    assert_eq!(server.refusal(Refusal::Denied).await, 1);
}

#[tokio::test]
async fn a_stream_goes_on_while_identities_cannot_be_checked() {
    let server = run(|_| {}).await;
    let mut client = server.open(Some("ns/gw"), "ns/gw").await.unwrap();
    client.next().await;
    server.judge.answers(Err(Refusal::Unavailable));
    let asked = server.judge.asked.load(Ordering::Relaxed);
    // It was asked again, and again after that.
    let checked = async {
        while server.judge.asked.load(Ordering::Relaxed) < asked + 2 {
            tokio::task::yield_now().await;
        }
    };
    soon(checked).await;
    server.hub.publish("ns/gw", snapshot("ns/gw", 2));
    assert_eq!(names(&client.next().await), ["ns/gw"]);
    // A new one has to wait.
    assert_eq!(server.refused(Some("ns/gw"), "ns/gw").await.code(), Code::Unavailable);
    server.judge.answers(Err(Refusal::Denied));
    assert_eq!(client.end().await.code(), Code::Unauthenticated);
}

#[tokio::test]
async fn tokens_are_judged_in_line_and_nobody_waits_for_ever() {
    let server = run(|config| {
        config.max_concurrent_authentications = 1;
        config.authentication_timeout = Duration::from_millis(500);
    })
    .await;
    let channel = server.channel().await;
    let (first, second) = tokio::join!(
        open_on(channel.clone(), Some("hangs"), "ns/gw"),
        open_on(server.channel().await, Some("hangs"), "ns/gw")
    );
    assert_eq!(first.unwrap_err().code(), Code::Unavailable);
    assert_eq!(second.unwrap_err().code(), Code::Unavailable);
    let mut client = open_on(channel, Some("ns/gw"), "ns/gw").await.unwrap();
    assert_eq!(names(&client.next().await), ["ns/gw"]);
}

#[tokio::test]
async fn who_says_nothing_makes_room_for_who_does() {
    let mut server = run(|config| {
        config.max_idle_connections = 1;
        config.idle_timeout = Duration::from_secs(3);
    })
    .await;
    let mut silent = TcpStream::connect(server.address).await.unwrap();
    // Behind it: waits for the only permit, and gets it.
    let mut client = server.open(Some("ns/gw"), "ns/gw").await.unwrap();
    assert_eq!(names(&client.next().await), ["ns/gw"]);
    assert_eq!(soon(silent.read(&mut [0; 1])).await.unwrap_or(0), 0);
    assert_eq!(server.refusal(Refusal::Handshake).await, 1);
    // One that was let in takes no permit, so that there is one for the next, however long the first stays.
    let mut other = server.open(Some("ns/other"), "ns/other").await.unwrap();
    assert_eq!(names(&other.next().await), ["ns/other"]);
}

/// Connections on which nothing is said, from one address of this host.
async fn silent(server: SocketAddr, from: [u8; 4], count: usize) -> Vec<TcpStream> {
    let mut connections = Vec::new();
    for _ in 0..count {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((from, 0).into()).unwrap();
        connections.push(soon(socket.connect(server)).await.unwrap());
    }
    connections
}

#[tokio::test]
async fn idle_connections_of_one_address_keep_out_nobody_of_another() {
    let server = run(|config| {
        config.max_idle_connections = 64;
        // Nobody gives way for being silent.
        config.idle_timeout = Duration::from_hours(1);
        config.idle_grace_period = Duration::from_hours(1);
    })
    .await;
    let _held = silent(server.address, [127, 0, 0, 2], 100).await;
    let mut client = server.open(Some("ns/gw"), "ns/gw").await.unwrap();
    assert_eq!(names(&client.next().await), ["ns/gw"]);
}

#[tokio::test]
async fn idle_connections_give_way_to_who_speaks_from_their_own_address() {
    let server = run(|config| {
        config.max_idle_connections = 64;
        config.idle_timeout = Duration::from_hours(1);
        config.idle_grace_period = Duration::from_millis(1);
    })
    .await;
    let _held = silent(server.address, [127, 0, 0, 1], 100).await;
    let mut client = server.open(Some("ns/gw"), "ns/gw").await.unwrap();
    assert_eq!(names(&client.next().await), ["ns/gw"]);
}

#[tokio::test]
async fn the_streams_of_one_gateway_leave_every_other_its_share() {
    let mut server = run(|config| config.max_streams = 4).await;
    let mut hogs = Vec::new();
    for _ in 0..4 {
        let mut hog = server.open(Some("ns/gw"), "ns/gw").await.unwrap();
        hog.next().await;
        hogs.push(hog);
    }
    let more = server.refused(Some("ns/gw"), "ns/gw").await;
    assert_eq!((more.code(), server.refusal(Refusal::Share).await), (Code::Unavailable, 1));
    for youngest in [3, 2] {
        let mut other = server.open(Some("ns/other"), "ns/other").await.unwrap();
        assert_eq!(names(&other.next().await), ["ns/other"]);
        assert_eq!(hogs[youngest].end().await.code(), Code::Unavailable);
        assert_eq!(server.refusal(Refusal::Share).await, 1);
        std::mem::forget(other);
    }
    // Both have their half.
    assert_eq!(server.refused(Some("ns/other"), "ns/other").await.code(), Code::Unavailable);
    server.hub.publish("ns/gw", snapshot("ns/gw", 2));
    for hog in &mut hogs[..2] {
        assert_eq!(names(&hog.next().await), ["ns/gw"]);
    }
}

#[tokio::test]
async fn a_connection_that_nobody_uses_any_more_counts_as_idle() {
    let server = run(|config| config.max_idle_connections = 1).await;
    let channel = server.channel().await;
    let mut client = open_on(channel.clone(), Some("ns/gw"), "ns/gw").await.unwrap();
    client.next().await;
    drop(client);
    // Two of them are more than there may be, so one ends, and whoever comes is let in all the same.
    for _ in 0..4 {
        let mut next = server.open(Some("ns/gw"), "ns/gw").await.unwrap();
        next.next().await;
    }
    drop(channel);
}

#[tokio::test]
async fn a_connection_on_which_nobody_is_let_in_ends() {
    let server = run(|config| config.idle_timeout = Duration::from_secs(3)).await;
    let mut idle = handshake(server.address, server.trusted.clone()).await.unwrap();
    let mut said = Vec::new();
    // Its settings, and then the end.
    drop(soon(idle.read_to_end(&mut said)).await);
    let mut client = server.open(Some("ns/gw"), "ns/gw").await.unwrap();
    client.next().await;
}

#[tokio::test]
async fn who_speaks_in_clear_is_not_answered() {
    let mut server = run(|_| {}).await;
    let endpoint = Endpoint::from_shared(format!("http://{}", server.address)).unwrap();
    if let Ok(channel) = soon(endpoint.connect()).await {
        open_on(channel, Some("ns/gw"), "ns/gw").await.expect_err("there is nothing but TLS");
    }
    assert_eq!(server.refusal(Refusal::Handshake).await, 1);
}

#[tokio::test]
async fn other_addresses_than_loopback_need_authentication() {
    let serve = async |config: Config| {
        let (reporter, _events) = xds::reporter(1);
        let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
        let server = Server::new(Hub::new(), config, reporter);
        server.serve_tls(listener, &Certificate::new(), std::future::ready(())).await
    };
    let refused = serve(Config::default()).await;
    assert!(matches!(refused, Err(ServeError::Bind(BindError::NotLoopback(_)))), "{refused:?}");
    let mut config = Config::default();
    config.authenticate = Some(Arc::new(Judge::default()));
    serve(config).await.expect("who comes has to show who it is");
}

#[tokio::test]
async fn a_flood_of_refusals_is_counted_although_few_are_reported() {
    let mut server = run(|_| {}).await;
    let (reporter, mut events) = xds::reporter(1);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    server.address = listener.local_addr().unwrap();
    let mut config = Config::default();
    config.authenticate = Some(server.judge.clone());
    let (own, served) = (Server::new(server.hub.clone(), config, reporter), server.certificate.clone());
    tokio::spawn(async move { own.serve_tls(listener, &served, std::future::pending()).await });
    let channel = server.channel().await;
    for _ in 0..20 {
        open_on(channel.clone(), Some("garbage"), "ns/gw").await.unwrap_err();
    }
    assert!(matches!(soon(events.recv()).await, Some(Event::Refused { count: 1, .. })));
    open_on(channel, Some("garbage"), "ns/gw").await.unwrap_err();
    assert!(matches!(soon(events.recv()).await, Some(Event::Refused { count: 20, .. })));
}
