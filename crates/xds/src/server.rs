//! Accepts connections and serves them until it is stopped.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use accept::{Acceptor, FairSemaphore, Permit};
use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};
use tokio_rustls::TlsAcceptor;

use crate::admission::{Admission, IdleConnection};
use crate::config::Config;
use crate::event::Reporter;
use crate::hub::Hub;
use crate::identity::Refusal;
use crate::jitter::jitter;
use crate::peer::{Origin, Peer, PeerAddress};
use crate::service::{Ads, CLOSE_TIMEOUT, Shared};
use crate::tls::Certificate;

/// What a proxy sends as headers is a few hundred bytes.
const MAX_HEADER_BYTES: u32 = 16 << 10;
/// What a client may have sent that was not read yet, on one stream and on all of a connection, authenticated or not.
const STREAM_WINDOW: u32 = 128 << 10;
const CONNECTION_WINDOW: u32 = 256 << 10;

/// Why an address may not be listened on.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The address can be reached from elsewhere, and anybody who reaches it can read private keys.
    #[error("xDS carries private keys, so without TLS and authentication it binds loopback or a Unix socket, not {0}")]
    NotLoopback(SocketAddr),
}

/// Why serving ended other than by request.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The listener is bound where it must not be.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The listener does not know its own address.
    #[error("cannot read the listener's address: {0}")]
    Listener(#[from] io::Error),
}

/// Whether the server may listen on `address` without TLS and authentication: only on loopback.
pub fn check_bind(address: SocketAddr) -> Result<(), BindError> {
    if address.ip().to_canonical().is_loopback() { Ok(()) } else { Err(BindError::NotLoopback(address)) }
}

/// The ADS server: both variants of the protocol, nothing else.
pub struct Server {
    shared: Arc<Shared>,
}

impl Server {
    /// A server of what is published at `hub`; what it learns goes to `reporter`.
    pub fn new(hub: Hub, config: Config, reporter: Reporter) -> Self {
        let streams = FairSemaphore::new(config.max_streams, Duration::ZERO);
        let idle_connections = FairSemaphore::new(config.max_idle_connections, config.idle_grace_period);
        let large_sends = Arc::new(Semaphore::new(config.max_concurrent_large_sends.clamp(1, Semaphore::MAX_PERMITS)));
        let next_stream = AtomicU64::new(1);
        let admission = Admission::new(config.clone(), reporter.clone());
        let shared = Shared { hub, config, reporter, streams, idle_connections, large_sends, next_stream, admission };
        Self { shared: Arc::new(shared) }
    }

    /// Serves TCP connections in clear until `shutdown`, then asks clients to go and cuts those that are still there
    /// after [`Config::drain_timeout`]. The listener is closed first.
    pub async fn serve_tcp(
        self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<(), ServeError> {
        check_bind(listener.local_addr()?)?;
        self.serve(listener, None, shutdown).await;
        Ok(())
    }

    /// Serves TLS connections, as [`Server::serve_tcp`], with `certificate`, which may change meanwhile. Elsewhere than
    /// on loopback only with [`Config::authenticate`].
    pub async fn serve_tls(
        self,
        listener: TcpListener,
        certificate: &Certificate,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<(), ServeError> {
        if self.shared.config.authenticate.is_none() {
            check_bind(listener.local_addr()?)?;
        }
        let acceptor = TlsAcceptor::from(certificate.server_config());
        self.serve(listener, Some(acceptor), shutdown).await;
        Ok(())
    }

    /// Serves connections to a Unix socket, as [`Server::serve_tcp`]. Who may connect is up to the socket's
    /// permissions.
    pub async fn serve_unix(self, listener: UnixListener, shutdown: impl Future<Output = ()> + Send) {
        self.serve(listener, None, shutdown).await;
    }

    async fn serve<L: Listener>(
        self,
        listener: L,
        tls: Option<TlsAcceptor>,
        shutdown: impl Future<Output = ()> + Send,
    ) {
        let (stop, stopped) = watch::channel(false);
        let mut connections = JoinSet::new();
        let mut shutdown = pin!(shutdown);
        let mut acceptor = Acceptor::new("xDS");
        loop {
            let (io, address) = tokio::select! {
                () = &mut shutdown => break,
                accepted = acceptor.accept(|| listener.accept()) => accepted,
                Some(_) = connections.join_next() => continue,
            };
            let peer = Peer::new(address);
            let permit = tokio::select! {
                () = &mut shutdown => break,
                permit = self.shared.idle_connections.acquire(peer.origin()) => permit,
            };
            let Some(permit) = permit else {
                tracing::debug!(peer = ?peer.address, "a connection is closed: its address has too many without a stream");
                continue;
            };
            let accepted = Accepted { shared: self.shared.clone(), peer, stopped: stopped.clone() };
            connections.spawn(accepted.serve(io, permit, tls.clone()));
        }
        drop(listener);
        stop.send_replace(true);
        while connections.join_next().await.is_some() {}
    }
}

/// What the server needs of a listener.
trait Listener: Send + Sync {
    type Io: AsyncRead + AsyncWrite + Send + Unpin + 'static;

    fn accept(&self) -> impl Future<Output = io::Result<(Self::Io, PeerAddress)>> + Send;
}

impl Listener for TcpListener {
    type Io = tokio::net::TcpStream;

    async fn accept(&self) -> io::Result<(Self::Io, PeerAddress)> {
        let (io, address) = Self::accept(self).await?;
        // A response is a few small writes; none of them may wait for an acknowledgement of another.
        drop(io.set_nodelay(true));
        Ok((io, PeerAddress::Tcp(address)))
    }
}

impl Listener for UnixListener {
    type Io = tokio::net::UnixStream;

    async fn accept(&self) -> io::Result<(Self::Io, PeerAddress)> {
        let (io, _) = Self::accept(self).await?;
        Ok((io, PeerAddress::Unix))
    }
}

/// A connection that was accepted.
struct Accepted {
    shared: Arc<Shared>,
    peer: Peer,
    /// True once the server stops.
    stopped: watch::Receiver<bool>,
}

impl Accepted {
    async fn serve<I>(mut self, io: I, permit: Permit<Origin>, tls: Option<TlsAcceptor>)
    where
        I: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let until = Instant::now() + self.shared.config.idle_timeout;
        let Some(acceptor) = tls else { return self.connection(io, permit, until).await };
        let shaken = tokio::select! {
            shaken = timeout_at(until, acceptor.accept(io)) => shaken.unwrap_or_else(|late| Err(late.into())),
            () = permit.revoked() => Err(io::Error::other("it makes others wait")),
            _ = self.stopped.wait_for(|stopped| *stopped) => return,
        };
        let reason = match shaken {
            Ok(io) => return self.connection(io, permit, until).await,
            Err(reason) => reason,
        };
        tracing::debug!(peer = ?self.peer.address, %reason, "a TLS handshake failed");
        drop(self.shared.admission.refuse(Refusal::Handshake));
    }

    /// Serves the connection until the client leaves, it is too old, or the server stops.
    async fn connection<I>(mut self, io: I, permit: Permit<Origin>, until: Instant)
    where
        I: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (config, idle_connections, origin) =
            (self.shared.config.clone(), self.shared.idle_connections.clone(), self.peer.origin());
        let mut revoked = pin!(permit.revoked());
        let idle = Arc::new(IdleConnection::new(permit));
        let mut streams = idle.streams();
        let (drain, draining) = watch::channel(false);
        let ads = Ads { shared: self.shared, peer: self.peer, draining, idle: idle.clone() };
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .keep_alive_interval(config.keepalive_interval)
            .keep_alive_timeout(config.keepalive_timeout)
            .max_concurrent_streams(config.max_streams_per_connection)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_header_list_size(MAX_HEADER_BYTES);
        let mut connection = pin!(builder.serve_connection(TokioIo::new(io), TowerToHyperService::new(ads)));
        let mut too_late = pin!(sleep_until(until));
        let mut old = pin!(sleep(config.max_connection_age.map_or(Duration::MAX, jitter)));
        loop {
            tokio::select! {
                ended = connection.as_mut() => {
                    if let Err(error) = ended {
                        tracing::debug!(%error, "an xDS connection ended");
                    }
                    return;
                }
                // Keepalive begins with HTTP/2, and also keeps connections on which nothing is asked for.
                () = &mut too_late, if idle.has_permit() => return,
                () = &mut revoked, if idle.has_permit() => {
                    tracing::debug!(?origin, "an xDS connection without a stream gives way to another");
                    return;
                }
                _ = streams.changed() => {
                    let deserted = *streams.borrow_and_update() == 0;
                    if deserted && !idle.has_permit() {
                        // Whoever was let in once does not keep others out by connections for nothing.
                        let Some(permit) = idle_connections.try_acquire(origin) else { return };
                        revoked.set(permit.revoked());
                        too_late.as_mut().reset(Instant::now() + config.idle_timeout);
                        idle.return_to(permit);
                    }
                }
                () = &mut old, if config.max_connection_age.is_some() => break,
                _ = self.stopped.wait_for(|stopped| *stopped) => break,
            }
        }
        connection.as_mut().graceful_shutdown();
        drain.send_replace(true);
        // Its streams had permits. Once they ended, the connection has none, and those it could have are for others.
        let deserted = async {
            drop(streams.wait_for(|streams| *streams == 0).await);
            sleep(CLOSE_TIMEOUT).await;
        };
        tokio::select! {
            _ = connection => {}
            () = deserted => tracing::debug!("an xDS connection was cut, since it stayed without a stream"),
            () = sleep(config.drain_timeout) => {
                tracing::debug!("an xDS connection was cut, since it did not end by itself");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_may_be_bound() {
        for address in ["127.0.0.1:1", "127.9.0.1:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert!(check_bind(address.parse().expect("an address")).is_ok(), "{address}");
        }
        for address in ["0.0.0.0:1", "10.0.0.1:1", "[::]:1", "[fe80::1]:1", "[::ffff:10.0.0.1]:1"] {
            assert!(check_bind(address.parse().expect("an address")).is_err(), "{address}");
        }
    }
}
