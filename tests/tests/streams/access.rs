//! Who may connect, and what is said of whom a connection comes from.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context, Result, ensure};
use portcullis_tests::certificates::{Certificate, KeyKind};
use portcullis_tests::wait::{TIMEOUT, eventually};
use portcullis_tests::{objects, ports};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};

use super::world::{Server, Talk, World, handshake_over, listener, route, service};

const FROM: &str = "PROXY TCP4 192.0.2.7 192.0.2.8 1234 443\r\n";

const POLICY: &str = "
apiVersion: gateway.kgateway.dev/v1alpha1
kind: ListenerPolicy
metadata: {namespace: infra, name: gateway}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: gateway}]
  default: {proxyProtocol: {}}
";

/// Has the backend told whom connections come from.
const TOLD: &str = "
---
apiVersion: gateway.kgateway.dev/v1alpha1
kind: BackendConfigPolicy
metadata: {namespace: infra, name: told}
spec:
  targetRefs: [{group: '', kind: Service, name: plain}]
  upstreamProxyProtocol: {version: V1}
";

/// A connection from this address that begins with the header of the PROXY protocol.
async fn from(address: Ipv4Addr, port: u16) -> Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((address, 0).into())?;
    let mut stream = socket.connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await?;
    stream.write_all(FROM.as_bytes()).await?;
    Ok(stream)
}

#[tokio::test(flavor = "multi_thread")]
async fn those_who_are_trusted_say_whom_they_connect_for_and_backends_are_told() -> Result<()> {
    const TRUSTED: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
    let own = Certificate::new(&["a.example".to_owned()], KeyKind::Ecdsa)?;
    let (plain, secure) = (Server::tcp("plain", None).await?, Server::tcp("secure", Some(own.server(None)?)).await?);
    let (port, tls) = (ports::free_port()?, ports::free_port()?);
    let listeners = [
        listener("db", port, "TCP"),
        format!("{{name: through, port: {tls}, protocol: TLS, hostname: through.example, tls: {{mode: Passthrough}}}}"),
        format!(
            "{{name: ends, port: {tls}, protocol: TLS, hostname: a.example, tls: {{certificateRefs: [{{name: own}}]}}}}"
        ),
    ];
    let files = [
        ("services.yaml", service("plain", "TCP", &plain) + &service("secure", "TCP", &secure) + TOLD),
        ("secrets.yaml", objects::secret("own", &own.certificate, &own.key)),
        ("db.yaml", route("TCPRoute", "db", "db", "", &[("plain", 1)])),
        ("through.yaml", route("TLSRoute", "through", "through", "hostnames: [through.example]", &[("secure", 1)])),
        ("ends.yaml", route("TLSRoute", "ends", "ends", "hostnames: [a.example]", &[("plain", 1)])),
        ("policy.yaml", POLICY.to_owned()),
    ];
    let trusted = ["--proxy-protocol-sources".to_owned(), "10.0.0.0/8, 127.0.0.2/32".to_owned()];
    let world = World::start_with(&listeners, &files, &trusted).await?;
    let told = |line: &str| line.starts_with("PROXY TCP4 192.0.2.7 ");
    let said = eventually(TIMEOUT, async || {
        let (mut talk, name) = Talk::of(from(TRUSTED, port).await?).await?;
        ensure!(name == "plain", "{name}");
        talk.line().await
    });
    let said = said.await.with_context(|| world.portcullis.log_tail())?;
    ensure!(told(&said), "the backend is told {said:?}");
    let (mut talk, name) = Talk::of(handshake_over(from(TRUSTED, tls).await?, "a.example", &[&own.der]).await?).await?;
    ensure!(name == "plain" && told(&talk.line().await?), "TLS ends behind the header");
    // What is passed through comes as it was sent.
    let stream = from(TRUSTED, tls).await?;
    let refused = handshake_over(stream, "through.example", &[&own.der]).await.expect_err("of another name");
    ensure!(refused.to_string().contains("certificate"), "the backend's certificate is shown: {refused:#}");
    for port in [port, tls] {
        let stream = from(Ipv4Addr::LOCALHOST, port).await?;
        ensure!(Talk::of(stream).await.is_err(), "somebody is let in who is not trusted");
    }
    ensure!(handshake_over(from(Ipv4Addr::LOCALHOST, tls).await?, "a.example", &[&own.der]).await.is_err());
    world.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn no_listener_has_more_connections_than_settings_say() -> Result<()> {
    let one = Server::tcp("one", None).await?;
    let (port, other) = (ports::free_port()?, ports::free_port()?);
    let listeners = [listener("db", port, "TCP"), listener("other", other, "TCP")];
    let files = [
        ("services.yaml", service("one", "TCP", &one)),
        ("db.yaml", route("TCPRoute", "db", "db", "", &[("one", 1)])),
        ("other.yaml", route("TCPRoute", "other", "other", "", &[("one", 1)])),
    ];
    let world =
        World::start_with(&listeners, &files, &["--max-listener-connections".to_owned(), "2".to_owned()]).await?;
    let mut first = world.answers(port, "one").await?;
    let second = world.answers(port, "one").await?;
    world.closes(port).await?;
    world.answers(other, "one").await?;
    first.says("still here").await?;
    drop(second);
    world.answers(port, "one").await?;
    world.end().await
}
