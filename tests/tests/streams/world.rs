//! Servers, clients and a Gateway between them.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, bail, ensure};
use portcullis_tests::certificates::{Authority, Certificate};
use portcullis_tests::envoy::Envoy;
use portcullis_tests::objects;
use portcullis_tests::portcullis::Portcullis;
use portcullis_tests::wait::{TIMEOUT, eventually};
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// A server that says its name in a line, and then what it is told. The same over UDP: its name before each datagram.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    _tasks: JoinSet<()>,
}

impl Server {
    pub(super) async fn tcp(name: &'static str, tls: Option<ServerConfig>) -> Result<Self> {
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

    pub(super) async fn udp(name: &'static str) -> Result<Self> {
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

pub(super) async fn says(name: &str, stream: impl AsyncRead + AsyncWrite + Unpin) -> Result<()> {
    let (mut read, mut write) = tokio::io::split(stream);
    write.write_all(format!("{name}\n").as_bytes()).await?;
    write.flush().await?;
    tokio::io::copy(&mut read, &mut write).await?;
    Ok(())
}

/// A connection to a server, by way of Envoy.
pub(super) struct Talk<S>(BufReader<S>);

impl Talk<TcpStream> {
    /// Connects, and tells who answers.
    pub(super) async fn open(port: u16) -> Result<(Self, String)> {
        Self::of(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?).await
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Talk<S> {
    pub(super) async fn of(stream: S) -> Result<(Self, String)> {
        let mut talk = Self(BufReader::new(stream));
        let name = talk.line().await?;
        Ok((talk, name))
    }

    pub(super) async fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        let read = timeout(TIMEOUT, self.0.read_line(&mut line)).await.context("no answer")??;
        ensure!(read > 0, "the connection is closed");
        Ok(line.trim_end().to_owned())
    }

    /// Says a line, which comes back.
    pub(super) async fn says(&mut self, word: &str) -> Result<()> {
        self.0.get_mut().write_all(format!("{word}\n").as_bytes()).await?;
        self.0.get_mut().flush().await?;
        let back = self.line().await?;
        ensure!(back == word, "{back:?} came back for {word:?}");
        Ok(())
    }
}

/// TLS to a listener, which has to show a certificate that this one vouches for.
pub(super) async fn tls_to(
    port: u16,
    server: &str,
    trusted: &Certificate,
) -> Result<(Talk<tokio_rustls::client::TlsStream<TcpStream>>, String)> {
    Talk::of(handshake(port, server, &[&trusted.der]).await?).await
}

pub(super) async fn handshake(
    port: u16,
    server: &str,
    trusted: &[&[u8]],
) -> Result<tokio_rustls::client::TlsStream<TcpStream>> {
    handshake_over(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?, server, trusted).await
}

/// The same over a connection that is there.
pub(super) async fn handshake_over<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    server: &str,
    trusted: &[&[u8]],
) -> Result<tokio_rustls::client::TlsStream<S>> {
    let connector = TlsConnector::from(Arc::new(trusting(trusted)?));
    Ok(connector.connect(ServerName::try_from(server.to_owned())?, stream).await?)
}

/// A client for servers that these certificates vouch for.
pub(super) fn trusting(trusted: &[&[u8]]) -> Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for certificate in trusted {
        roots.add(CertificateDer::from(certificate.to_vec()))?;
    }
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    Ok(config.with_no_client_auth())
}

/// A BackendTLSPolicy on a Service.
pub(super) fn tls_policy(service: &str, hostname: &str) -> String {
    format!(
        "
---
apiVersion: gateway.networking.k8s.io/v1
kind: BackendTLSPolicy
metadata: {{namespace: infra, name: tls}}
spec:
  targetRefs: [{{group: '', kind: Service, name: {service}}}]
  validation: {{hostname: {hostname}, caCertificateRefs: [{{group: '', kind: ConfigMap, name: ca}}]}}
"
    )
}

/// A ConfigMap with its certificate.
pub(super) fn authorities(authority: &Authority) -> String {
    let pem = authority.pem.trim().replace('\n', "\n    ");
    format!(
        "\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{namespace: infra, name: ca}}\ndata:\n  ca.crt: |\n    {pem}\n"
    )
}

/// A Service whose port 80 is that of a server, in TCP or in UDP.
pub(super) fn service(name: &str, transport: &str, server: &Server) -> String {
    service_at(name, transport, server.address)
}

pub(super) fn service_at(name: &str, transport: &str, at: SocketAddr) -> String {
    let (ip, port) = (at.ip(), at.port());
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
pub(super) fn route(kind: &str, name: &str, section: &str, more: &str, backends: &[(&str, u32)]) -> String {
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

pub(super) struct World {
    pub(super) portcullis: Portcullis,
    pub(super) envoy: Envoy,
}

impl World {
    pub(super) async fn start(listeners: &[String], files: &[(&str, String)]) -> Result<Self> {
        Self::start_with(listeners, files, &[]).await
    }

    /// The same with further arguments.
    pub(super) async fn start_with(
        listeners: &[String],
        files: &[(&str, String)],
        arguments: &[String],
    ) -> Result<Self> {
        let gateway = [("a-gateway.yaml".to_owned(), objects::gateway(listeners))];
        let files = files.iter().map(|(name, content)| ((*name).to_owned(), content.clone()));
        let files: Vec<_> = gateway.into_iter().chain(files).collect();
        let portcullis = Portcullis::start_with(&files, arguments).await?;
        let envoy = Envoy::start(&portcullis.bootstrap("infra/gateway").await?).await?;
        Ok(Self { portcullis, envoy })
    }

    /// Waits until who answers a new connection is this server.
    pub(super) async fn answers(&self, port: u16, name: &str) -> Result<Talk<TcpStream>> {
        let answered = eventually(TIMEOUT, async || {
            let (talk, by) = Talk::open(port).await?;
            ensure!(by == name, "{by} answers in place of {name}");
            Ok(talk)
        });
        answered.await.with_context(|| self.portcullis.log_tail())
    }

    /// Waits until connections are closed.
    pub(super) async fn closes(&self, port: u16) -> Result<()> {
        let closed = eventually(TIMEOUT, async || match Talk::open(port).await {
            Ok((_, by)) => bail!("{by} answers"),
            Err(_) => Ok(()),
        });
        closed.await.with_context(|| self.portcullis.log_tail())
    }

    /// Who answers so many connections.
    pub(super) async fn tally(&self, port: u16, connections: usize) -> BTreeMap<String, usize> {
        let mut tally = BTreeMap::new();
        for _ in 0..connections {
            let by = Talk::open(port).await.map_or_else(|_| "nobody".to_owned(), |(_, by)| by);
            *tally.entry(by).or_default() += 1;
        }
        tally
    }

    pub(super) async fn end(mut self) -> Result<()> {
        self.portcullis.was_never_refused().await?;
        self.portcullis.check()?;
        self.envoy.check().await
    }
}

pub(super) fn listener(name: &str, port: u16, protocol: &str) -> String {
    format!("{{name: {name}, port: {port}, protocol: {protocol}}}")
}

/// A client of datagrams.
pub(super) struct Asks(UdpSocket);

impl Asks {
    pub(super) async fn new(port: u16) -> Result<Self> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        socket.connect((Ipv4Addr::LOCALHOST, port)).await?;
        Ok(Self(socket))
    }

    /// Who answers, and on which session.
    pub(super) async fn ask(&self, word: &[u8]) -> Result<(String, String)> {
        self.0.send(word).await?;
        let mut buffer = vec![0; 65_536];
        let wait = std::time::Duration::from_secs(5);
        let answer = async {
            loop {
                let length = self.0.recv(&mut buffer).await?;
                // What answers an earlier word may come late.
                if buffer[..length].ends_with(word) {
                    return anyhow::Ok(&buffer[..length]);
                }
            }
        };
        let answer = timeout(wait, answer).await.context("no answer")??;
        let head = String::from_utf8_lossy(&answer[..answer.len() - word.len()]).into_owned();
        let (name, session) = head.trim_end().split_once(' ').context("no name")?;
        Ok((name.to_owned(), session.to_owned()))
    }
}

/// Whether what comes first over each connection is TLS: a server that says nothing, and counts.
pub(super) struct Listens {
    pub(super) address: SocketAddr,
    counts: Arc<[AtomicUsize; 2]>,
    _tasks: JoinSet<()>,
}

impl Listens {
    pub(super) async fn start() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let (address, mut tasks, counts) = (listener.local_addr()?, JoinSet::new(), Arc::default());
        let counted: Arc<[AtomicUsize; 2]> = Arc::clone(&counts);
        tasks.spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let counted = counted.clone();
                tokio::spawn(async move {
                    const HANDSHAKE: u8 = 22;
                    if let Ok(first) = stream.read_u8().await {
                        counted[usize::from(first == HANDSHAKE)].fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        Ok(Self { address, counts, _tasks: tasks })
    }

    /// Connections that began in plain text, and in TLS.
    pub(super) fn counts(&self) -> [usize; 2] {
        [0, 1].map(|at| self.counts[at].load(Ordering::Relaxed))
    }
}
