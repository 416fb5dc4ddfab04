//! `portcullis run`: everything put together.

use std::{
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use ir::Settings;
use tokio::{
    net::{TcpListener, UnixListener},
    sync::watch,
    task::JoinHandle,
    time::{MissedTickBehavior, interval, timeout},
};
use translate::envoy::bootstrap::XdsAddress;

use crate::{
    admin::{self, Admin},
    engine_task::{self, EngineHandle, EngineTask, Event, PortCheck, ThisHost},
    files::{Files, SourceError},
    metrics::Metrics,
    supervisor::{Supervisor, SupervisorError},
};

/// How often ports are tried that could not be bound.
const RECHECK_PORTS: Duration = Duration::from_secs(2);
/// How long a supervised Envoy may take for what is under way when it is stopped.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long any part may take to stop; each has a shorter bound of its own.
const LONGEST_STOP: Duration = Duration::from_secs(20);
/// How many reports of proxies wait at most.
const REPORTS: usize = 4096;

/// What `portcullis run` is told.
#[derive(Clone, Debug)]
pub struct Options {
    /// Folders of manifests.
    pub files: Vec<PathBuf>,
    /// Where xDS is served.
    pub xds: Bind,
    /// Where the admin server is.
    pub admin: SocketAddr,
    /// The Envoy to run for every Gateway, if any.
    pub envoy: Option<PathBuf>,
    /// What translation reads.
    pub settings: Settings,
}

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bind {
    /// On an address and a port.
    Tcp(SocketAddr),
    /// On a Unix socket.
    Unix(PathBuf),
}

/// Why `portcullis run` ended.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Files cannot be read.
    #[error(transparent)]
    Files(#[from] SourceError),
    /// Envoys cannot be run.
    #[error(transparent)]
    Supervisor(#[from] SupervisorError),
    /// An address cannot be listened on.
    #[error("cannot listen on {address} ({flag}): {why}")]
    Listen {
        /// The address.
        address: String,
        /// What it was given by.
        flag: &'static str,
        /// Why not.
        why: String,
    },
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    /// A part that must not end has ended.
    #[error("{part} has stopped")]
    Stopped {
        /// Which.
        part: &'static str,
    },
}

/// Runs until `shutdown`, then lets proxies and clients go in order.
pub async fn run(options: Options, shutdown: impl Future<Output = ()>) -> Result<(), RunError> {
    let files = Files::open(options.files)?;
    let metrics = Metrics::default();
    let hub = xds::Hub::new();
    let xds_listener = XdsListener::bind(&options.xds).await?;
    let supervisor = match options.envoy {
        None => None,
        Some(envoy) => {
            let supervisor = Supervisor {
                envoy,
                xds: xds_listener.address(),
                edge: options.settings.edge.clone(),
                patience: PATIENCE,
                metrics: metrics.clone(),
            };
            tracing::info!(version = supervisor.probe().await?, "Envoy");
            Some(supervisor)
        }
    };
    let listen = |why: &io::Error| RunError::listen(&options.admin, "--admin-address", why);
    let admin_listener = admin::bind(options.admin).await.map_err(|error| listen(&error))?;
    // Port 0 lets the system choose.
    let admin_address = admin_listener.local_addr().unwrap_or(options.admin);
    tracing::info!(xds = %xds_listener, admin = %admin_address, "listening");

    let ports = supervisor.is_some().then(|| PortCheck::new(ThisHost));
    let (engine, events) = engine_task::channel();
    let task = EngineTask::new(options.settings, hub.clone(), ports, metrics.clone());
    let served = task.served();
    let (ended, engine_ended) = watch::channel(());
    std::thread::Builder::new()
        .name("engine".into())
        .spawn(move || {
            task.run(events);
            drop(ended);
        })
        .map_err(RunError::Thread)?;

    let (stop_proxies, proxies_stop) = watch::channel(false);
    let (stop_servers, servers_stop) = watch::channel(false);
    let (reporter, reports) = xds::reporter(REPORTS);
    let forwarding = tokio::spawn(forward(reports, engine.clone()));
    let ads = xds::Server::new(hub.clone(), xds::Config::default(), reporter);
    let mut xds_server = tokio::spawn(xds_listener.serve(ads, wait(servers_stop.clone())));
    let admin = Admin::new(engine.clone(), hub, metrics);
    let mut admin_server = tokio::spawn(admin.serve(admin_listener, wait(servers_stop)));
    let following = {
        let engine = engine.clone();
        files.follow(move |update| engine.send_blocking(Event::Files(update)).is_ok())?
    };
    let rechecking = supervisor.is_some().then(|| tokio::spawn(recheck_ports(engine.clone())));
    let proxies = supervisor.map(|supervisor| tokio::spawn(supervisor.run(served, proxies_stop)));

    let mut engine_ended = engine_ended;
    let outcome = tokio::select! {
        () = shutdown => Ok(()),
        _ = engine_ended.changed() => Err(RunError::Stopped { part: "the engine" }),
        _ = &mut xds_server => Err(RunError::Stopped { part: "the xDS server" }),
        _ = &mut admin_server => Err(RunError::Stopped { part: "the admin server" }),
    };
    tracing::info!("stopping");
    drop(following);
    // Proxies first: until they are gone they may ask.
    stop_proxies.send_replace(true);
    finish(proxies).await;
    stop_servers.send_replace(true);
    if outcome.is_ok() {
        finish([xds_server]).await;
        finish([admin_server]).await;
    }
    forwarding.abort();
    if let Some(rechecking) = rechecking {
        rechecking.abort();
    }
    if let Bind::Unix(path) = &options.xds {
        // Somebody may have removed it already.
        let _: io::Result<()> = std::fs::remove_file(path);
    }
    outcome
}

async fn finish<T>(tasks: impl IntoIterator<Item = JoinHandle<T>>) {
    for task in tasks {
        match timeout(LONGEST_STOP, task).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::error!(%error, "a task failed"),
            Err(_) => tracing::warn!("a part does not stop, and is left behind"),
        }
    }
}

async fn wait(mut stop: watch::Receiver<bool>) {
    // A sender that is gone says the same.
    let _: Result<_, _> = stop.wait_for(|stop| *stop).await;
}

async fn forward(mut reports: tokio::sync::mpsc::Receiver<xds::Event>, engine: EngineHandle) {
    while let Some(event) = reports.recv().await {
        if engine.send(Event::Proxy(event)).await.is_err() {
            return;
        }
    }
}

async fn recheck_ports(engine: EngineHandle) {
    let mut ticks = interval(RECHECK_PORTS);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if engine.send(Event::RecheckPorts).await.is_err() {
            return;
        }
    }
}

/// A bound listener of the xDS server.
enum XdsListener {
    Tcp(TcpListener, SocketAddr),
    Unix(UnixListener, PathBuf),
}

impl XdsListener {
    async fn bind(bind: &Bind) -> Result<Self, RunError> {
        let failed = |why: &dyn std::fmt::Display| RunError::listen(bind, "--xds-address", why);
        match bind {
            Bind::Tcp(address) => {
                xds::check_bind(*address).map_err(|error| failed(&error))?;
                let listener = TcpListener::bind(address).await.map_err(|error| failed(&error))?;
                let address = listener.local_addr().map_err(|error| failed(&error))?;
                Ok(Self::Tcp(listener, address))
            }
            Bind::Unix(path) => {
                let listener = bind_unix(path).map_err(|error| failed(&error))?;
                Ok(Self::Unix(listener, path.clone()))
            }
        }
    }

    /// Where Envoys on this host find it.
    fn address(&self) -> XdsAddress {
        match self {
            Self::Tcp(_, address) => XdsAddress::Tcp { host: address.ip().to_string(), port: address.port() },
            Self::Unix(_, path) => XdsAddress::Unix(path.clone()),
        }
    }

    async fn serve(self, server: xds::Server, shutdown: impl Future<Output = ()> + Send) {
        match self {
            Self::Tcp(listener, _) => {
                if let Err(error) = server.serve_tcp(listener, shutdown).await {
                    tracing::error!(%error, "the xDS server failed");
                }
            }
            Self::Unix(listener, _) => server.serve_unix(listener, shutdown).await,
        }
    }
}

/// Binds a socket that only this user can open, in the place of one that nobody serves any more.
fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    // What is longer than a socket's path may be could be made below, but nobody could connect to it.
    std::os::unix::net::SocketAddr::from_pathname(path)?;
    if std::os::unix::net::UnixStream::connect(path).is_ok() {
        return Err(io::ErrorKind::AddrInUse.into());
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Bound where nobody else can go, so that there is no moment at which others could open it.
    let private = tempfile::Builder::new().prefix(".xds-").tempdir_in(folder)?;
    let bound = private.path().join("s");
    let listener = UnixListener::bind(&bound)?;
    std::fs::set_permissions(&bound, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    std::fs::rename(&bound, path)?;
    Ok(listener)
}

impl std::fmt::Display for XdsListener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(_, address) => address.fmt(f),
            Self::Unix(_, path) => Bind::Unix(path.clone()).fmt(f),
        }
    }
}

impl RunError {
    fn listen(address: &impl ToString, flag: &'static str, why: &(impl std::fmt::Display + ?Sized)) -> Self {
        Self::Listen { address: address.to_string(), flag, why: why.to_string() }
    }
}

impl std::fmt::Display for Bind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl std::str::FromStr for Bind {
    type Err = String;

    /// `ADDRESS:PORT`, or `unix:PATH`.
    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("unix:") {
            Some("") => Err("a path is missing after unix:".into()),
            Some(path) => Ok(Self::Unix(path.into())),
            None => text.parse().map(Self::Tcp).map_err(|_| "must be ADDRESS:PORT or unix:PATH".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_one_of_tcp_or_the_path_of_a_socket() {
        assert_eq!("127.0.0.1:80".parse(), Ok(Bind::Tcp(([127, 0, 0, 1], 80).into())));
        assert_eq!("unix:/run/x".parse(), Ok(Bind::Unix("/run/x".into())));
        for text in ["", "unix:", "localhost", "127.0.0.1", "/run/x"] {
            assert!(text.parse::<Bind>().is_err(), "{text}");
        }
        assert_eq!("unix:/run/x".parse::<Bind>().map(|bind| bind.to_string()), Ok("unix:/run/x".into()));
    }

    #[tokio::test]
    async fn a_socket_is_for_its_owner_alone_and_takes_the_place_of_one_that_nobody_serves() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("xds.sock");
        let listener = bind_unix(&path).expect("it is free");
        let mode = std::fs::metadata(&path).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let error = bind_unix(&path).expect_err("it is served");
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        drop(listener);
        drop(bind_unix(&path).expect("nobody serves it"));
        assert_eq!(std::fs::read_dir(folder.path()).expect("it is there").count(), 1, "nothing else is left");
        bind_unix(&folder.path().join("x".repeat(108))).expect_err("nobody could connect to it");
    }

    #[tokio::test]
    async fn xds_is_not_served_where_others_can_reach_it() {
        let bind = Bind::Tcp(([0, 0, 0, 0], 0).into());
        let error = XdsListener::bind(&bind).await.err().expect("it is refused");
        assert!(error.to_string().contains("--xds-address") && error.to_string().contains("loopback"), "{error}");
    }
}
