//! Accepts connections and serves them until it is told to stop.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::config::{Config, Peer, PeerAddress};
use crate::event::Reporter;
use crate::hub::Hub;
use crate::service::{Ads, Shared};

/// A pause after a failed accept, so that running out of file descriptors does not also burn the CPU.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// What a proxy sends as headers is a few hundred bytes.
const MAX_HEADER_BYTES: u32 = 16 << 10;

/// Why an address may not be listened on.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The address can be reached from elsewhere, and anybody who reaches it can read private keys.
    #[error("xDS carries private keys and has no authentication here, so it binds loopback or a Unix socket, not {0}")]
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

/// Whether the server may listen on `address`: streams are not authenticated, so only on loopback.
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
        let streams = Arc::new(Semaphore::new(config.max_streams.min(Semaphore::MAX_PERMITS)));
        let large_sends = Arc::new(Semaphore::new(config.max_concurrent_large_sends.clamp(1, Semaphore::MAX_PERMITS)));
        let next_stream = AtomicU64::new(1);
        Self { shared: Arc::new(Shared { hub, config, reporter, streams, large_sends, next_stream }) }
    }

    /// Serves TCP connections until `shutdown`, then asks clients to go and cuts those that are still there after
    /// [`Config::drain_timeout`]. The listener is closed first.
    pub async fn serve_tcp(
        self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<(), ServeError> {
        check_bind(listener.local_addr()?)?;
        self.serve(listener, shutdown).await;
        Ok(())
    }

    /// Serves connections to a Unix socket, as [`Server::serve_tcp`]. Who may connect is up to the socket's
    /// permissions.
    pub async fn serve_unix(self, listener: UnixListener, shutdown: impl Future<Output = ()> + Send) {
        self.serve(listener, shutdown).await;
    }

    async fn serve<L: Listener>(self, listener: L, shutdown: impl Future<Output = ()> + Send) {
        let (stop, stopped) = watch::channel(false);
        let mut connections = JoinSet::new();
        let mut shutdown = pin!(shutdown);
        loop {
            tokio::select! {
                () = &mut shutdown => break,
                accepted = listener.accept() => match accepted {
                    Ok((io, address)) => {
                        connections.spawn(connection(self.shared.clone(), io, Peer { address }, stopped.clone()));
                    }
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept an xDS connection");
                        sleep(ACCEPT_PAUSE).await;
                    }
                },
                Some(_) = connections.join_next() => {}
            }
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
        io.set_nodelay(true)?;
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

/// Serves one connection until the client leaves, it is too old, or the server stops.
async fn connection<I>(shared: Arc<Shared>, io: I, peer: Peer, mut stopped: watch::Receiver<bool>)
where
    I: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let config = shared.config.clone();
    let (drain, draining) = watch::channel(false);
    let used = Arc::new(AtomicBool::new(false));
    let ads = Ads { shared, peer, draining, used: used.clone() };
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(config.keepalive_interval)
        .keep_alive_timeout(config.keepalive_timeout)
        .max_concurrent_streams(config.max_streams_per_connection)
        .max_header_list_size(MAX_HEADER_BYTES);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(io), TowerToHyperService::new(ads)));
    let silence = config.keepalive_interval + config.keepalive_timeout;
    let (mut silent, mut heard) = (pin!(sleep(silence)), false);
    let mut old = pin!(sleep(config.max_connection_age.map_or(Duration::MAX, jitter)));
    loop {
        tokio::select! {
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "an xDS connection ended");
                }
                return;
            }
            // Keepalive begins with HTTP/2: before that only this ends a connection that says nothing.
            () = &mut silent, if !heard => {
                heard = used.load(Ordering::Relaxed);
                if !heard {
                    return;
                }
            }
            () = &mut old, if config.max_connection_age.is_some() => break,
            _ = stopped.wait_for(|stopped| *stopped) => break,
        }
    }
    connection.as_mut().graceful_shutdown();
    drain.send_replace(true);
    if timeout(config.drain_timeout, connection).await.is_err() {
        tracing::debug!("an xDS connection was cut, since it did not end by itself");
    }
}

/// The age, a tenth more or less by chance, so that proxies that came together do not leave together.
fn jitter(age: Duration) -> Duration {
    use std::hash::{BuildHasher, RandomState};
    // Each RandomState has other keys, which is all the randomness that is needed.
    let chance = RandomState::new().hash_one(0_u8) % 2001;
    #[expect(clippy::cast_precision_loss, reason = "the value is at most 2000")]
    let factor = 0.9 + chance as f64 / 10_000.0;
    age.mul_f64(factor)
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

    #[test]
    fn the_age_varies_by_a_tenth() {
        let age = Duration::from_secs(1000);
        for _ in 0..100 {
            let some = jitter(age);
            assert!(some >= Duration::from_secs(899) && some <= Duration::from_secs(1101), "{some:?}");
        }
    }
}
