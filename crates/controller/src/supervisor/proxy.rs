//! One Envoy process, from its first start to its end.

use std::{
    io,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use envoy::bootstrap::{AdminAddress, bootstrap, bootstrap_json};
use ir::{NsName, settings::LOGIN_LOG_LEVEL};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::UnixStream,
    process::{Child, Command},
    sync::watch,
    time::{Instant, sleep, timeout},
};

use super::{Supervisor, backoff::Backoff};
use crate::metrics::GatewayLabel;

/// Between two looks at whether requests are still under way.
const LOOK: Duration = Duration::from_millis(50);
/// How long Envoy's admin interface may take for an answer.
const ADMIN: Duration = Duration::from_secs(2);
/// How an answer of that interface ends (RFC 9112 section 7.1).
const LAST_CHUNK: &[u8] = b"\r\n0\r\n\r\n";

/// Runs an Envoy for `gateway`, again and again, until `stop` is true.
pub(super) async fn keep_running(supervisor: Supervisor, gateway: NsName, mut stop: watch::Receiver<bool>) {
    let mut backoff = Backoff::default();
    while !*stop.borrow() {
        let started = Instant::now();
        match Proxy::start(&supervisor, &gateway) {
            Ok(mut proxy) => {
                tracing::info!(%gateway, pid = proxy.child.id(), "an Envoy was started");
                supervisor.metrics.envoy_starts.get_or_create(&GatewayLabel::of(gateway.to_string())).inc();
                let died = tokio::select! {
                    status = proxy.child.wait() => Some(status),
                    _ = stop.wait_for(|stop| *stop) => None,
                };
                let Some(status) = died else {
                    proxy.stop(supervisor.grace_period).await;
                    tracing::info!(%gateway, "an Envoy was stopped");
                    return;
                };
                tracing::error!(%gateway, status = %outcome(&status), "an Envoy died");
            }
            Err(error) => tracing::error!(%gateway, %error, "cannot start an Envoy"),
        }
        let wait = backoff.after(started.elapsed());
        tokio::select! {
            () = sleep(wait) => {}
            _ = stop.wait_for(|stop| *stop) => return,
        }
    }
}

fn outcome(status: &io::Result<ExitStatus>) -> String {
    match status {
        Ok(status) => status.to_string(),
        Err(error) => error.to_string(),
    }
}

/// A process and what is left of it on disk. Dropping it kills the one and removes the other.
struct Proxy {
    child: Child,
    admin: PathBuf,
    _folder: tempfile::TempDir,
}

impl Proxy {
    fn start(supervisor: &Supervisor, gateway: &NsName) -> io::Result<Self> {
        // For us alone: the admin socket can do anything to the proxy.
        let folder = tempfile::Builder::new().prefix("portcullis-envoy-").tempdir()?;
        let admin = folder.path().join("admin.sock");
        let node = format!("portcullis/{gateway}");
        let address = AdminAddress::Unix(admin.clone());
        let bootstrap = bootstrap(gateway, &node, &supervisor.xds, &address, &supervisor.edge);
        let bootstrap = bootstrap_json(&bootstrap).map_err(io::Error::other)?;
        let path = folder.path().join("bootstrap.json");
        std::fs::write(&path, bootstrap.to_string())?;
        let mut child = command(supervisor, &path).spawn()?;
        if let Some(errors) = child.stderr.take() {
            tokio::spawn(log(gateway.clone(), errors));
        }
        Ok(Self { child, admin, _folder: folder })
    }

    /// Lets requests under way end, for the grace period, and then the process.
    async fn stop(&mut self, grace_period: Duration) {
        let drain = async {
            self.admin("POST", "/drain_listeners?graceful&skip_exit").await?;
            while self.requests_under_way().await? {
                sleep(LOOK).await;
            }
            io::Result::Ok(())
        };
        // An Envoy that does not answer is stopped all the same.
        let _: Result<_, _> = timeout(grace_period, drain).await;
        let _: io::Result<String> = self.admin("POST", "/quitquitquit").await;
        if timeout(grace_period, self.child.wait()).await.is_err() {
            let _: io::Result<()> = self.child.kill().await;
        }
    }

    async fn requests_under_way(&self) -> io::Result<bool> {
        let stats = self.admin("GET", "/stats?usedonly&filter=^http\\..*downstream_rq_active$").await?;
        Ok(under_way(&stats))
    }

    /// Asks the admin interface; gives the answer, headers included.
    async fn admin(&self, method: &str, path: &str) -> io::Result<String> {
        let ask = async {
            let mut socket = UnixStream::connect(&self.admin).await?;
            let request =
                format!("{method} {path} HTTP/1.1\r\nhost: envoy\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            socket.write_all(request.as_bytes()).await?;
            // Read to the end of the answer and not to that of the connection, which Envoy keeps for another second.
            let mut answer = Vec::new();
            while !answer.ends_with(LAST_CHUNK) && socket.read_buf(&mut answer).await? > 0 {}
            Ok(String::from_utf8_lossy(&answer).into_owned())
        };
        timeout(ADMIN, ask).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}

/// Whether the answer counts requests of clients, headers of the answer and requests to the interface itself aside.
fn under_way(stats: &str) -> bool {
    let clients = stats.lines().filter(|line| line.starts_with("http.") && !line.starts_with("http.admin."));
    clients.filter_map(|line| line.split_once(": ")).any(|(_, count)| count.trim() != "0")
}

fn command(supervisor: &Supervisor, bootstrap: &Path) -> Command {
    let mut command = Command::new(&supervisor.envoy);
    let (component, level) = LOGIN_LOG_LEVEL;
    command
        .arg("--config-path")
        .arg(bootstrap)
        // No memory is shared with other Envoys of this host, so they need no numbers of their own.
        .arg("--disable-hot-restart")
        .args(["--log-format", "%l %n: %v"])
        .args(["--component-log-level", &format!("{component}:{level}")])
        .args(["--drain-time-s", &supervisor.edge.drain_timeout.as_secs().max(1).to_string()])
        .args(["--drain-strategy", "immediate"])
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    // Whoever interrupts us from a terminal interrupts its whole group: the proxies are to be drained by us.
    #[cfg(unix)]
    command.process_group(0);
    command
}

/// Logs what an Envoy logs, each line with its level, those of `info` one below.
async fn log(gateway: NsName, errors: impl tokio::io::AsyncRead + Unpin) {
    let mut lines = BufReader::new(errors).split(b'\n');
    while let Ok(Some(line)) = lines.next_segment().await {
        let line = String::from_utf8_lossy(&line);
        let (level, message) = line.split_once(' ').unwrap_or(("info", &line));
        match level {
            "critical" | "error" => tracing::error!(target: "envoy", %gateway, "{message}"),
            "warning" => tracing::warn!(target: "envoy", %gateway, "{message}"),
            // At its start Envoy logs screens of it.
            "info" => tracing::debug!(target: "envoy", %gateway, "{message}"),
            "debug" | "trace" => tracing::trace!(target: "envoy", %gateway, "{message}"),
            _ => tracing::debug!(target: "envoy", %gateway, "{line}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::under_way;

    #[test]
    fn only_requests_of_clients_count() {
        let head = "HTTP/1.1 200 OK\r\ndate: today\r\n\r\n";
        let idle = "http.admin.downstream_rq_active: 1\r\nhttp.http/80.downstream_rq_active: 0\r\n";
        assert!(!under_way(&format!("{head}{idle}")));
        assert!(under_way(&format!("{head}{idle}http.http/81.downstream_rq_active: 2\r\n")));
    }
}
