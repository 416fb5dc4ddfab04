//! The servers: xDS for Envoys, health and figures for the network, all pages for this host.

use std::{fmt::Display, io, net::SocketAddr, path::PathBuf, time::Duration};

use envoy::bootstrap::XdsAddress;
use tokio::{net::TcpListener, sync::watch, task::JoinHandle, time::timeout};

use super::{Bind, RunError, listen::XdsListener};
use crate::admin::{Admin, Pages};

/// How long any part may take to stop; each has a shorter bound of its own.
const LONGEST_STOP: Duration = Duration::from_secs(20);

/// How many connections each server may have, so that a quarter of all open files is left for what is read and asked.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ConnectionLimits {
    /// xDS streams, of which each may have a connection of its own.
    pub(super) streams: usize,
    /// xDS connections without a stream.
    pub(super) idle: usize,
    /// At `--metrics-address`.
    health: usize,
    /// At `--admin-address`.
    admin: usize,
}

impl ConnectionLimits {
    /// Where a process may have so many files open.
    pub(super) fn of(files: u64) -> Self {
        let part = |of: u64, most: usize| usize::try_from(files / of).map_or(most, |part| part.min(most)).max(1);
        let defaults = xds::Config::default();
        Self {
            streams: part(2, defaults.max_streams),
            idle: part(8, defaults.max_idle_connections),
            health: part(16, 128),
            admin: part(16, 64),
        }
    }
}

/// All that is listened on.
pub(super) struct Listeners {
    xds: XdsListener,
    admin: TcpListener,
    health: Option<TcpListener>,
}

/// The servers at work.
pub(super) struct Servers {
    xds: JoinHandle<()>,
    admin: JoinHandle<()>,
    health: Option<JoinHandle<()>>,
    stop: watch::Sender<bool>,
    /// The socket to remove.
    socket: Option<PathBuf>,
}

impl Listeners {
    /// Binds them. With `secured`, clients of the xDS server are authenticated.
    pub(super) async fn bind(
        xds: &Bind,
        secured: bool,
        admin: SocketAddr,
        health: Option<SocketAddr>,
    ) -> Result<Self, RunError> {
        let xds = XdsListener::bind(xds, secured).await?;
        let admin = bind(admin, "--admin-address").await?;
        let health = match health {
            Some(address) => Some(bind(address, "--metrics-address").await?),
            None => None,
        };
        Ok(Self { xds, admin, health })
    }

    /// Where Envoys on this host find the xDS server.
    pub(super) fn xds_address(&self) -> XdsAddress {
        self.xds.address()
    }

    /// Logs the addresses: port 0 lets the system choose.
    pub(super) fn log(&self) {
        let admin = self.admin.local_addr().map(|address| address.to_string()).unwrap_or_default();
        tracing::info!(xds = %self.xds, %admin, "listening");
    }

    /// Starts the servers; that of xDS over TLS if there is a certificate.
    pub(super) fn serve(
        self,
        ads: xds::Server,
        certificate: Option<xds::Certificate>,
        admin: Admin,
        limits: &ConnectionLimits,
    ) -> Servers {
        let (stop, stopped) = watch::channel(false);
        let socket = self.xds.socket();
        let xds = tokio::spawn(self.xds.serve(ads, certificate, wait(stopped.clone())));
        let health = self.health.map(|listener| {
            tokio::spawn(admin.clone().serve(listener, Pages::Health, limits.health, wait(stopped.clone())))
        });
        let admin = tokio::spawn(admin.serve(self.admin, Pages::All, limits.admin, wait(stopped)));
        Servers { xds, admin, health, stop, socket }
    }
}

impl Servers {
    /// Ends when a server does that must not.
    pub(super) async fn failed(&mut self) -> RunError {
        tokio::select! {
            _ = &mut self.xds => RunError::Stopped { part: "the xDS server" },
            _ = &mut self.admin => RunError::Stopped { part: "the admin server" },
        }
    }

    /// Stops them; with `wait`, connections may end in order.
    pub(super) async fn stop(self, wait: bool) {
        self.stop.send_replace(true);
        if wait {
            finish([self.xds, self.admin].into_iter().chain(self.health)).await;
        }
        if let Some(path) = self.socket {
            // Somebody may have removed it already.
            let _: io::Result<()> = std::fs::remove_file(path);
        }
    }
}

async fn bind(address: SocketAddr, flag: &'static str) -> Result<TcpListener, RunError> {
    TcpListener::bind(address).await.map_err(|error| RunError::listen(&address, flag, &error))
}

async fn wait(mut stop: watch::Receiver<bool>) {
    // A sender that is gone means the same.
    let _: Result<_, _> = stop.wait_for(|stop| *stop).await;
}

/// Waits until tasks end, with a bound.
pub(super) async fn finish<T>(tasks: impl IntoIterator<Item = JoinHandle<T>>) {
    for task in tasks {
        match timeout(LONGEST_STOP, task).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::error!(%error, "a task failed"),
            Err(_) => tracing::warn!("a part does not stop, and is left behind"),
        }
    }
}

impl RunError {
    pub(super) fn listen(address: &impl ToString, flag: &'static str, why: &(impl Display + ?Sized)) -> Self {
        Self::Listen { address: address.to_string(), flag, why: why.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_leave_a_quarter_of_all_files_to_what_is_read() {
        assert_eq!(ConnectionLimits::of(1024), ConnectionLimits { streams: 512, idle: 128, health: 64, admin: 64 });
        assert_eq!(
            ConnectionLimits::of(u64::MAX),
            ConnectionLimits { streams: 10_000, idle: 512, health: 128, admin: 64 }
        );
        for files in [64, 256, 1024, 4096, 20_000, 1 << 20] {
            let ConnectionLimits { streams, idle, health, admin } = ConnectionLimits::of(files);
            assert!((streams + idle + health + admin) as u64 <= files / 4 * 3, "{files}");
        }
    }
}
