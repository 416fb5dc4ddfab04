//! What clients say first: in pieces, with names that are none, or with none.

use std::net::Ipv4Addr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll};

use anyhow::{Context, Result, ensure};
use portcullis_tests::certificates::{Certificate, KeyKind};
use portcullis_tests::wait::{TIMEOUT, eventually};
use portcullis_tests::{objects, ports};
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::world::{Server, Talk, World, route, service, tls_to, trusting};

/// A connection on which each byte is sent by itself.
struct Pieces(TcpStream);

impl AsyncRead for Pieces {
    fn poll_read(mut self: Pin<&mut Self>, task: &mut Task<'_>, into: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_read(task, into)
    }
}

impl AsyncWrite for Pieces {
    fn poll_write(mut self: Pin<&mut Self>, task: &mut Task<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(task, &bytes[..bytes.len().min(1)])
    }

    fn poll_flush(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(task)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(task)
    }
}

/// Who answers a client that sends its bytes one by one, in records of at most `record` bytes.
async fn in_pieces(port: u16, server: &str, trusted: &Certificate, record: Option<usize>) -> Result<String> {
    let mut config = trusting(&[&trusted.der])?;
    config.max_fragment_size = record;
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    stream.set_nodelay(true)?;
    let connector = TlsConnector::from(Arc::new(config));
    let stream = connector.connect(ServerName::try_from(server.to_owned())?, Pieces(stream)).await?;
    let (mut talk, by) = Talk::of(stream).await?;
    talk.says("hello").await?;
    Ok(by)
}

/// A `ClientHello` of TLS 1.2 with these bytes as the name of the server, or without any.
fn hello(server_name: Option<&[u8]>) -> Vec<u8> {
    let sized =
        |bytes: Vec<u8>| [u16::try_from(bytes.len()).unwrap_or(u16::MAX).to_be_bytes().to_vec(), bytes].concat();
    let name = server_name.map(|name| [vec![0, 0], sized(sized([vec![0], sized(name.to_vec())].concat()))].concat());
    // Groups and signatures, so that nothing else is amiss.
    let extensions = [name.unwrap_or_default(), vec![0, 10, 0, 4, 0, 2, 0, 23], vec![0, 13, 0, 4, 0, 2, 4, 3]].concat();
    let suites = sized(vec![0xc0, 0x2b, 0xc0, 0x2f]);
    let body = [vec![3, 3], vec![7; 32], vec![0], suites, vec![1, 0], sized(extensions)].concat();
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX).to_be_bytes()[1..].to_vec();
    let message = [vec![1], length, body].concat();
    [vec![0x16, 3, 1], sized(message)].concat()
}

/// The first byte of the answer to these; none if there is no answer.
async fn answer(port: u16, bytes: &[u8]) -> Result<Option<u8>> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    stream.write_all(bytes).await?;
    let mut first = [0];
    let read = timeout(TIMEOUT, stream.read(&mut first)).await.context("neither answered nor closed")?;
    Ok((read.is_ok_and(|read| read > 0)).then_some(first[0]))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hello_in_pieces_is_led_by_its_name_and_one_without_a_name_of_ours_reaches_nobody() -> Result<()> {
    const HANDSHAKE: u8 = 0x16;
    let own = |name: &str| Certificate::new(&[name.to_owned()], KeyKind::Ecdsa);
    let (through, ended) = (own("through.example")?, own("x.ends.example")?);
    let secure = Server::tcp("secure", Some(through.server(None)?)).await?;
    let plain = Server::tcp("plain", None).await?;
    let port = ports::free_port()?;
    let listeners = [
        format!("{{name: through, port: {port}, protocol: TLS, tls: {{mode: Passthrough}}}}"),
        format!(
            "{{name: ends, port: {port}, protocol: TLS, hostname: x.ends.example, tls: {{certificateRefs: [{{name: ended}}]}}}}"
        ),
    ];
    let files = [
        ("services.yaml", service("secure", "TCP", &secure) + &service("plain", "TCP", &plain)),
        ("secrets.yaml", objects::secret("ended", &ended.certificate, &ended.key)),
        ("through.yaml", route("TLSRoute", "through", "through", "hostnames: [through.example]", &[("secure", 1)])),
        ("ends.yaml", route("TLSRoute", "ends", "ends", "hostnames: [x.ends.example]", &[("plain", 1)])),
    ];
    let world = World::start(&listeners, &files).await?;
    let served = eventually(TIMEOUT, async || tls_to(port, "x.ends.example", &ended).await).await;
    let (mut neighbour, _) = served.with_context(|| world.portcullis.log_tail())?;
    for record in [None, Some(64)] {
        let by = in_pieces(port, "through.example", &through, record).await.context("passed through")?;
        ensure!(by == "secure", "{by} answers");
        let by = in_pieces(port, "x.ends.example", &ended, record).await.context("ended")?;
        ensure!(by == "plain", "{by} answers");
    }
    // What is sent here is a sound hello, but for the name.
    let sound = answer(port, &hello(Some(b"x.ends.example"))).await?;
    ensure!(sound == Some(HANDSHAKE), "{sound:?} is the answer to a sound one");
    let long = [b'a'; 255];
    let names: [Option<&[u8]>; 6] =
        [None, Some(b""), Some(&long), Some(b"\xff\xfe.example"), Some(b"x.ends.example\0"), Some(b"x.ends.example.")];
    for name in names {
        let answered = answer(port, &hello(name)).await?;
        ensure!(answered != Some(HANDSHAKE), "{name:?} is let in");
    }
    // One that stops amid its name holds up nobody.
    let mut halting = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    halting.write_all(&hello(Some(b"through.example"))[..60]).await?;
    neighbour.says("still here").await?;
    let (mut another, _) = tls_to(port, "through.example", &through).await?;
    another.says("hello").await?;
    world.end().await
}
