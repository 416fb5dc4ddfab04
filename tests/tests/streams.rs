//! TCPRoutes, UDPRoutes and TLSRoutes through a real Envoy: what is sent comes back, and what is connected stays connected.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use portcullis_tests::certificates::{Authority, Certificate, KeyKind};
use portcullis_tests::client::{self, Request, Target, Tls};
use portcullis_tests::echo::Echo;
use portcullis_tests::envoy::Envoy;
use portcullis_tests::portcullis::Portcullis;
use portcullis_tests::process::envoy_binary;
use portcullis_tests::wait::{TIMEOUT, eventually};
use portcullis_tests::{objects, ports};
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// A server that says its name in a line, and then what it is told. The same over UDP: its name before each datagram.
struct Server {
    address: SocketAddr,
    _tasks: JoinSet<()>,
}

impl Server {
    async fn tcp(name: &'static str, tls: Option<ServerConfig>) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let (address, mut tasks) = (listener.local_addr()?, JoinSet::new());
        let acceptor = tls.map(|config| TlsAcceptor::from(Arc::new(config)));
        tasks.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    // A client that goes is no matter.
                    let _ = match acceptor {
                        None => says(name, stream).await,
                        Some(acceptor) => match acceptor.accept(stream).await {
                            Ok(stream) => says(name, stream).await,
                            Err(error) => Err(error.into()),
                        },
                    };
                });
            }
        });
        Ok(Self { address, _tasks: tasks })
    }

    async fn udp(name: &'static str) -> Result<Self> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let (address, mut tasks) = (socket.local_addr()?, JoinSet::new());
        tasks.spawn(async move {
            let mut buffer = vec![0; 65_536];
            while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
                // Who asks, which is the session's own address.
                let head = format!("{name} {} ", from.port());
                let _ = socket.send_to(&[head.as_bytes(), &buffer[..length]].concat(), from).await;
            }
        });
        Ok(Self { address, _tasks: tasks })
    }
}

async fn says(name: &str, stream: impl AsyncRead + AsyncWrite + Unpin) -> Result<()> {
    let (mut read, mut write) = tokio::io::split(stream);
    write.write_all(format!("{name}\n").as_bytes()).await?;
    write.flush().await?;
    tokio::io::copy(&mut read, &mut write).await?;
    Ok(())
}

/// A connection to a server, by way of Envoy.
struct Talk<S>(BufReader<S>);

impl Talk<TcpStream> {
    /// Connects, and tells who answers.
    async fn open(port: u16) -> Result<(Self, String)> {
        Self::of(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?).await
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Talk<S> {
    async fn of(stream: S) -> Result<(Self, String)> {
        let mut talk = Self(BufReader::new(stream));
        let name = talk.line().await?;
        Ok((talk, name))
    }

    async fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        let read = timeout(TIMEOUT, self.0.read_line(&mut line)).await.context("no answer")??;
        ensure!(read > 0, "the connection is closed");
        Ok(line.trim_end().to_owned())
    }

    /// Says a line, which comes back.
    async fn says(&mut self, word: &str) -> Result<()> {
        self.0.get_mut().write_all(format!("{word}\n").as_bytes()).await?;
        self.0.get_mut().flush().await?;
        let back = self.line().await?;
        ensure!(back == word, "{back:?} came back for {word:?}");
        Ok(())
    }
}

/// TLS to a listener, which has to show a certificate that this one vouches for.
async fn tls_to(
    port: u16,
    server: &str,
    trusted: &Certificate,
) -> Result<(Talk<tokio_rustls::client::TlsStream<TcpStream>>, String)> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(trusted.der.clone()))?;
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    let connector = TlsConnector::from(Arc::new(config));
    let stream = connector.connect(ServerName::try_from(server.to_owned())?, stream).await?;
    Talk::of(stream).await
}

/// A Service whose port 80 is that of a server, in TCP or in UDP.
fn service(name: &str, transport: &str, server: &Server) -> String {
    let (ip, port) = (server.address.ip(), server.address.port());
    format!(
        "
---
apiVersion: v1
kind: Service
metadata: {{namespace: infra, name: {name}}}
spec: {{ports: [{{port: 80, protocol: {transport}}}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{namespace: infra, name: {name}-a, labels: {{kubernetes.io/service-name: {name}}}}}
addressType: IPv4
ports: [{{name: '', port: {port}, protocol: {transport}}}]
endpoints: [{{addresses: [{ip}]}}]
"
    )
}

/// A route of `infra/gateway` at a listener, with backends by weight.
fn route(kind: &str, name: &str, section: &str, more: &str, backends: &[(&str, u32)]) -> String {
    let backends: Vec<_> =
        backends.iter().map(|(name, weight)| format!("{{name: {name}, port: 80, weight: {weight}}}")).collect();
    format!(
        "
---
apiVersion: gateway.networking.k8s.io/v1
kind: {kind}
metadata: {{namespace: infra, name: {name}}}
spec:
  parentRefs: [{{name: gateway, sectionName: {section}}}]
  {more}
  rules: [{{backendRefs: [{}]}}]
",
        backends.join(", ")
    )
}

struct World {
    portcullis: Portcullis,
    envoy: Envoy,
}

impl World {
    async fn start(listeners: &[String], files: &[(&str, String)]) -> Result<Self> {
        Self::start_with(listeners, files, &[]).await
    }

    /// The same with further arguments.
    async fn start_with(listeners: &[String], files: &[(&str, String)], arguments: &[String]) -> Result<Self> {
        let gateway = [("a-gateway.yaml".to_owned(), objects::gateway(listeners))];
        let files = files.iter().map(|(name, content)| ((*name).to_owned(), content.clone()));
        let files: Vec<_> = gateway.into_iter().chain(files).collect();
        let portcullis = Portcullis::start_with(&files, arguments).await?;
        let envoy = Envoy::start(&portcullis.bootstrap("infra/gateway").await?).await?;
        Ok(Self { portcullis, envoy })
    }

    /// Waits until who answers a new connection is this server.
    async fn answers(&self, port: u16, name: &str) -> Result<Talk<TcpStream>> {
        let answered = eventually(TIMEOUT, async || {
            let (talk, by) = Talk::open(port).await?;
            ensure!(by == name, "{by} answers in place of {name}");
            Ok(talk)
        });
        answered.await.with_context(|| self.portcullis.log_tail())
    }

    /// Waits until connections are closed.
    async fn closes(&self, port: u16) -> Result<()> {
        let closed = eventually(TIMEOUT, async || match Talk::open(port).await {
            Ok((_, by)) => bail!("{by} answers"),
            Err(_) => Ok(()),
        });
        closed.await.with_context(|| self.portcullis.log_tail())
    }

    /// Who answers so many connections.
    async fn tally(&self, port: u16, connections: usize) -> BTreeMap<String, usize> {
        let mut tally = BTreeMap::new();
        for _ in 0..connections {
            let by = Talk::open(port).await.map_or_else(|_| "nobody".to_owned(), |(_, by)| by);
            *tally.entry(by).or_default() += 1;
        }
        tally
    }

    async fn end(mut self) -> Result<()> {
        self.portcullis.was_never_refused().await?;
        self.portcullis.check()?;
        self.envoy.check().await
    }
}

fn listener(name: &str, port: u16, protocol: &str) -> String {
    format!("{{name: {name}, port: {port}, protocol: {protocol}}}")
}

fn about(share: usize, of: usize, percent: usize) -> bool {
    let expected = of * percent / 100;
    // Six times the deviation of so many draws at most.
    let room = 6 * (of * percent * (100 - percent)).isqrt() / 100 + 1;
    share.abs_diff(expected) <= room
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_go_by_weight_and_the_share_of_what_is_broken_is_reset() -> Result<()> {
    const CONNECTIONS: usize = 400;
    let (one, two) = (Server::tcp("one", None).await?, Server::tcp("two", None).await?);
    let port = ports::free_port()?;
    let services = service("one", "TCP", &one) + &service("two", "TCP", &two);
    let files = [
        ("services.yaml", services),
        ("route.yaml", route("TCPRoute", "r", "db", "", &[("one", 50), ("two", 20), ("missing", 30)])),
    ];
    let world = World::start(&[listener("db", port, "TCP")], &files).await?;
    world.answers(port, "one").await?.says("hello").await?;
    let tally = world.tally(port, CONNECTIONS).await;
    for (name, percent) in [("one", 50), ("two", 20), ("nobody", 30)] {
        let share = tally.get(name).copied().unwrap_or_default();
        ensure!(about(share, CONNECTIONS, percent), "{name} has {share} of {tally:?}");
    }
    // Without a backend that can be used, and without a route, connections are made and closed.
    world.portcullis.write("route.yaml", &route("TCPRoute", "r", "db", "", &[("missing", 1)]))?;
    world.closes(port).await?;
    world.portcullis.write("route.yaml", &route("TCPRoute", "r", "db", "", &[("two", 1)]))?;
    world.answers(port, "two").await?;
    world.portcullis.remove("route.yaml")?;
    world.closes(port).await?;
    world.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_are_served_where_an_envoy_is_asked_first() -> Result<()> {
    let (one, two) = (Server::tcp("one", None).await?, Server::tcp("two", None).await?);
    let datagrams = Server::udp("three").await?;
    let port = ports::free_port()?;
    let files = [
        (
            "services.yaml",
            service("one", "TCP", &one) + &service("two", "TCP", &two) + &service("three", "UDP", &datagrams),
        ),
        ("route.yaml", route("TCPRoute", "r", "db", "", &[("one", 1)])),
        ("udp.yaml", route("UDPRoute", "r", "dns", "", &[("three", 1)])),
    ];
    let listeners = [listener("db", port, "TCP"), listener("dns", port, "UDP")];
    let envoy = envoy_binary()?.to_string_lossy().into_owned();
    let world = World::start_with(&listeners, &files, &["--strict-with".to_owned(), envoy]).await?;
    let mut open = world.answers(port, "one").await?;
    let client = Asks::new(port).await?;
    let told = eventually(TIMEOUT, async || client.ask(b"hello").await).await;
    ensure!(told.with_context(|| world.portcullis.log_tail())?.0 == "three");
    world.portcullis.write("route.yaml", &route("TCPRoute", "r", "db", "", &[("two", 1)]))?;
    world.answers(port, "two").await?;
    open.says("still here").await?;
    world.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_survive_changes_of_routes_weights_and_other_listeners() -> Result<()> {
    let (one, two) = (Server::tcp("one", None).await?, Server::tcp("two", None).await?);
    let (port, tls_port, other) = (ports::free_port()?, ports::free_port()?, ports::free_port()?);
    let listeners = |more: &[String]| {
        let mut listeners = vec![
            listener("db", port, "TCP"),
            format!("{{name: through, port: {tls_port}, protocol: TLS, tls: {{mode: Passthrough}}}}"),
        ];
        listeners.extend_from_slice(more);
        objects::gateway(&listeners)
    };
    let certificate = Certificate::new(&["a.example".to_owned()], KeyKind::Ecdsa)?;
    let secure = Server::tcp("secure", Some(certificate.server(None)?)).await?;
    let services = service("one", "TCP", &one) + &service("two", "TCP", &two) + &service("secure", "TCP", &secure);
    let names = |names: &str| route("TLSRoute", "t", "through", &format!("hostnames: [{names}]"), &[("secure", 1)]);
    let files = [
        ("services.yaml", services),
        ("route.yaml", route("TCPRoute", "r", "db", "", &[("one", 1)])),
        ("names.yaml", names("a.example")),
    ];
    let portcullis = {
        let mut all = vec![("a-gateway.yaml".to_owned(), listeners(&[]))];
        all.extend(files.iter().map(|(name, content)| ((*name).to_owned(), content.clone())));
        Portcullis::start(&all).await?
    };
    let envoy = Envoy::start(&portcullis.bootstrap("infra/gateway").await?).await?;
    let world = World { portcullis, envoy };
    let mut plain = world.answers(port, "one").await?;
    let tls = eventually(TIMEOUT, async || tls_to(tls_port, "a.example", &certificate).await).await;
    let (mut tls, by) = tls.with_context(|| world.portcullis.log_tail())?;
    ensure!(by == "secure", "{by}");

    // Each step is seen by new connections before the old ones are asked.
    world.portcullis.write("route.yaml", &route("TCPRoute", "r", "db", "", &[("one", 0), ("two", 1)]))?;
    world.answers(port, "two").await?;
    plain.says("weight").await?;
    world.portcullis.write("route.yaml", &route("TCPRoute", "another", "db", "", &[("two", 1)]))?;
    world.portcullis.write("names.yaml", &names("a.example, b.example, '*.c.example'"))?;
    let has_chains = eventually(TIMEOUT, async || {
        let chains = world.envoy.config_dump().await?.to_string();
        ensure!(chains.contains("tls/through/*.c.example"), "a hostname has no chain");
        anyhow::Ok(())
    });
    has_chains.await.with_context(|| world.portcullis.log_tail())?;
    plain.says("route").await?;
    tls.says("names").await?;
    world.portcullis.write("a-gateway.yaml", &listeners(&[listener("other", other, "TCP")]))?;
    world.portcullis.write("z.yaml", &route("TCPRoute", "z", "other", "", &[("one", 1)]))?;
    world.answers(other, "one").await?;
    plain.says("listener").await?;
    tls.says("listener").await?;
    // The route goes: new connections end, and this one stays.
    world.portcullis.remove("route.yaml")?;
    world.closes(port).await?;
    plain.says("still here").await?;
    world.end().await
}

/// A client of datagrams.
struct Asks(UdpSocket);

impl Asks {
    async fn new(port: u16) -> Result<Self> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        socket.connect((Ipv4Addr::LOCALHOST, port)).await?;
        Ok(Self(socket))
    }

    /// Who answers, and on which session.
    async fn ask(&self, word: &[u8]) -> Result<(String, String)> {
        self.0.send(word).await?;
        let mut buffer = vec![0; 65_536];
        let wait = std::time::Duration::from_secs(1);
        let length = timeout(wait, self.0.recv(&mut buffer)).await.context("no answer")??;
        let answer = &buffer[..length];
        ensure!(answer.ends_with(word), "{length} bytes came back");
        let head = String::from_utf8_lossy(&answer[..length - word.len()]).into_owned();
        let (name, session) = head.trim_end().split_once(' ').context("no name")?;
        Ok((name.to_owned(), session.to_owned()))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn datagrams_keep_their_sessions_and_new_ones_go_by_weight() -> Result<()> {
    let (one, two) = (Server::udp("one").await?, Server::udp("two").await?);
    let port = ports::free_port()?;
    let of = |one: u32, two: u32| route("UDPRoute", "r", "dns", "", &[("one", one), ("two", two)]);
    let files =
        [("services.yaml", service("one", "UDP", &one) + &service("two", "UDP", &two)), ("route.yaml", of(1, 0))];
    // The same number in TCP is another port.
    let listeners = [listener("dns", port, "UDP"), listener("dns-tcp", port, "TCP")];
    let world = World::start(&listeners, &files).await?;
    let client = Asks::new(port).await?;
    let first = eventually(TIMEOUT, async || client.ask(b"hello").await).await;
    let first = first.with_context(|| world.portcullis.log_tail())?;
    ensure!(first.0 == "one", "{first:?}");
    ensure!(client.ask(&[b'x'; 8000]).await? == first, "a large datagram passes both ways");
    // A backend without weight keeps the sessions that it has.
    world.portcullis.write("route.yaml", &of(0, 1))?;
    let moved = eventually(TIMEOUT, async || {
        let (name, _) = Asks::new(port).await?.ask(b"new").await?;
        ensure!(name == "two", "{name} answers");
        anyhow::Ok(())
    });
    moved.await.with_context(|| world.portcullis.log_tail())?;
    ensure!(client.ask(b"again").await? == first, "a session stays");
    // The share of what is broken is dropped.
    let broken = route("UDPRoute", "r", "dns", "", &[("two", 1), ("missing", 1)]);
    world.portcullis.write("route.yaml", &broken)?;
    let dropped = eventually(TIMEOUT, async || {
        let Err(_) = Asks::new(port).await?.ask(b"new").await else { bail!("it is answered") };
        Ok(())
    });
    dropped.await.with_context(|| world.portcullis.log_tail())?;
    let answered = eventually(TIMEOUT, async || Asks::new(port).await?.ask(b"new").await).await?;
    ensure!(answered.0 == "two", "{answered:?}");
    world.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_is_passed_through_or_ended_by_server_name_beside_https() -> Result<()> {
    let own = |name: &str| Certificate::new(&[name.to_owned()], KeyKind::Ecdsa);
    let (through, ended, web) = (own("through.example")?, own("x.ends.example")?, own("web.example")?);
    let secure = Server::tcp("secure", Some(through.server(None)?)).await?;
    let plain = Server::tcp("plain", None).await?;
    let echo = Echo::start("web", (Ipv4Addr::LOCALHOST, 0).into()).await?;
    let port = ports::free_port()?;
    let secrets =
        objects::secret("ended", &ended.certificate, &ended.key) + &objects::secret("web", &web.certificate, &web.key);
    let listeners = [
        format!("{{name: through, port: {port}, protocol: TLS, tls: {{mode: Passthrough}}}}"),
        format!(
            "{{name: ends, port: {port}, protocol: TLS, hostname: '*.ends.example', tls: {{certificateRefs: [{{name: ended}}]}}}}"
        ),
        format!(
            "{{name: web, port: {port}, protocol: HTTPS, hostname: web.example, tls: {{certificateRefs: [{{name: web}}]}}}}"
        ),
    ];
    let http = objects::Route {
        hosts: "web.example",
        rules: "  - backendRefs: [{name: web, port: 80}]",
        ..Default::default()
    };
    let files = [
        (
            "services.yaml",
            service("secure", "TCP", &secure) + &service("plain", "TCP", &plain) + &objects::service("web", &echo),
        ),
        ("secrets.yaml", secrets),
        ("http.yaml", http.to_string()),
        ("through.yaml", route("TLSRoute", "through", "through", "hostnames: [through.example]", &[("secure", 1)])),
        ("ends.yaml", route("TLSRoute", "ends", "ends", "hostnames: ['*.ends.example']", &[("plain", 1)])),
    ];
    let world = World::start(&listeners, &files).await?;
    let passed = eventually(TIMEOUT, async || tls_to(port, "through.example", &through).await).await;
    let (mut talk, by) = passed.with_context(|| world.portcullis.log_tail())?;
    ensure!(by == "secure", "the backend's own certificate is shown: {by}");
    talk.says("hello").await?;
    let (mut talk, by) = tls_to(port, "x.ends.example", &ended).await?;
    ensure!(by == "plain", "TLS ends at the Gateway: {by}");
    talk.says("hello").await?;
    let tls = Tls::to("web.example");
    let target = Target { tls: Some(tls), ..Target::local(port) };
    let answer = client::send(&target, &Request::get("web.example", "/")).await?;
    ensure!(answer.status == 200, "{} {}", answer.status, answer.body);
    for name in ["other.example", "deeper.through.example"] {
        ensure!(tls_to(port, name, &through).await.is_err(), "{name} is nobody's");
    }
    world.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backend_that_a_policy_secures_is_never_sent_plain_text() -> Result<()> {
    let authority = Authority::new("authority")?;
    let shown = authority.issue(&["backend.example".to_owned()])?;
    let secure = Server::tcp("secure", Some(shown.server(None)?)).await?;
    let port = ports::free_port()?;
    let policy = |hostname: &str| {
        format!(
            "
---
apiVersion: gateway.networking.k8s.io/v1
kind: BackendTLSPolicy
metadata: {{namespace: infra, name: tls}}
spec:
  targetRefs: [{{group: '', kind: Service, name: secure}}]
  validation: {{hostname: {hostname}, caCertificateRefs: [{{group: '', kind: ConfigMap, name: ca}}]}}
"
        )
    };
    let pem = authority.pem.trim().replace('\n', "\n    ");
    let ca = format!(
        "\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{namespace: infra, name: ca}}\ndata:\n  ca.crt: |\n    {pem}\n"
    );
    let files = [
        ("services.yaml", service("secure", "TCP", &secure)),
        ("route.yaml", route("TCPRoute", "r", "db", "", &[("secure", 1)])),
        ("ca.yaml", ca.clone()),
        ("policy.yaml", policy("backend.example")),
    ];
    let world = World::start(&[listener("db", port, "TCP")], &files).await?;
    world.answers(port, "secure").await?.says("hello").await?;
    world.portcullis.write("policy.yaml", &policy("another.example"))?;
    world.closes(port).await?;
    world.portcullis.write("policy.yaml", &policy("backend.example"))?;
    world.answers(port, "secure").await?;
    world.portcullis.remove("ca.yaml")?;
    world.closes(port).await?;
    world.portcullis.write("ca.yaml", &ca)?;
    world.answers(port, "secure").await?.says("healed").await?;
    world.end().await
}
