//! `portcullis run`: everything put together.

mod cluster;
mod listen;
mod reports;

use std::{io, net::SocketAddr, path::PathBuf, time::Duration};

use ir::Settings;
use tokio::{
    net::TcpListener,
    sync::{mpsc, watch},
    task::JoinHandle,
    time::{MissedTickBehavior, interval, timeout},
};

pub use self::{
    cluster::{ClusterOptions, LEASE},
    listen::Bind,
};
use self::{
    cluster::{Ends, Working},
    listen::XdsListener,
};

use crate::{
    admin::{Admin, Pages},
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
    /// Where objects come from.
    pub source: Source,
    /// Where xDS is served.
    pub xds: Bind,
    /// Where the admin server is.
    pub admin: SocketAddr,
    /// Where others may ask how the process is, and for figures, if anywhere.
    pub metrics: Option<SocketAddr>,
    /// What translation reads.
    pub settings: Settings,
    /// A row that panics whenever it is computed, `TABLE:KEY`: for tests of what becomes of it.
    #[cfg(debug_assertions)]
    pub fail_at: Option<String>,
}

/// Where objects come from.
#[derive(Clone, Debug)]
pub enum Source {
    /// Folders of manifests.
    Files {
        /// The folders.
        folders: Vec<PathBuf>,
        /// The Envoy to run for every Gateway, if any.
        envoy: Option<PathBuf>,
    },
    /// A cluster.
    Cluster(Box<ClusterOptions>),
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
    /// There is no way to the API server.
    #[error("cannot make a client of the API server: {0}")]
    Client(Box<kube::Error>),
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
    let room = Room::of(accept::open_files());
    let metrics = Metrics::default();
    let hub = xds::Hub::new();
    let (folders, envoy, ends) = match options.source {
        Source::Files { folders, envoy } => (Some(Files::open(folders)?), envoy, None),
        Source::Cluster(cluster) => {
            (None, None, Some(Ends::new(*cluster, &options.settings.controller_name, &metrics)?))
        }
    };
    let xds_listener = XdsListener::bind(&options.xds, ends.is_some()).await?;
    let supervisor = match envoy {
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
    let admin_listener = bind(options.admin, "--admin-address").await?;
    let metrics_listener = match options.metrics {
        Some(address) => Some(bind(address, "--metrics-address").await?),
        None => None,
    };
    // Port 0 lets the system choose.
    let admin_address = admin_listener.local_addr().unwrap_or(options.admin);
    tracing::info!(xds = %xds_listener, admin = %admin_address, "listening");

    let ports = supervisor.is_some().then(|| PortCheck::new(ThisHost));
    let (engine, events) = engine_task::channel();
    let mut task = EngineTask::new(options.settings, hub.clone(), ports, metrics.clone());
    #[cfg(debug_assertions)]
    task.fail_at(options.fail_at.as_deref());
    if let Some(ends) = &ends {
        task = task.watching(ends.outlets(), ends.deploying());
    }
    let (served, mut engine_ended) = (task.served(), work(task, events)?);

    let (stop_proxies, proxies_stop) = watch::channel(false);
    let (stop_servers, servers_stop) = watch::channel(false);
    let (reporter, reports) = xds::reporter(REPORTS);
    let forwarding = tokio::spawn(forward(reports, engine.clone()));
    let config = xds_config(&room, &metrics, ends.as_ref());
    let certificate = ends.as_ref().map(Ends::certificate);
    let ads = xds::Server::new(hub.clone(), config, reporter);
    let mut xds_server = tokio::spawn(xds_listener.serve(ads, certificate, wait(servers_stop.clone())));
    let admin = Admin::new(engine.clone(), hub, metrics);
    let observed = metrics_listener.map(|listener| {
        tokio::spawn(admin.clone().serve(listener, Pages::Observed, room.observed, wait(servers_stop.clone())))
    });
    let mut admin_server = tokio::spawn(admin.serve(admin_listener, Pages::All, room.admin, wait(servers_stop)));
    let following = match folders {
        None => None,
        Some(files) => {
            let engine = engine.clone();
            Some(files.follow(move |update| engine.send_blocking(Event::Files(update)).is_ok())?)
        }
    };
    let rechecking = supervisor.is_some().then(|| tokio::spawn(recheck_ports(engine.clone())));
    let proxies = supervisor.map(|supervisor| tokio::spawn(supervisor.run(served, proxies_stop)));
    let working = ends.map(|ends| ends.start(&engine));

    let cluster_ended = Working::ended(working.as_ref());
    let outcome = tokio::select! {
        () = shutdown => Ok(()),
        _ = engine_ended.changed() => Err(RunError::Stopped { part: "the engine" }),
        () = cluster_ended => Err(RunError::Stopped { part: "what reads and writes objects" }),
        _ = &mut xds_server => Err(RunError::Stopped { part: "the xDS server" }),
        _ = &mut admin_server => Err(RunError::Stopped { part: "the admin server" }),
    };
    tracing::info!("stopping");
    drop(following);
    if let Some(working) = working {
        working.stop().await;
    }
    // Proxies first: until they are gone they may ask.
    stop_proxies.send_replace(true);
    finish(proxies).await;
    stop_servers.send_replace(true);
    if outcome.is_ok() {
        finish([xds_server]).await;
        finish([admin_server]).await;
        finish(observed).await;
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

/// Has the engine work on a thread of its own. What is given changes when it ends.
fn work(task: EngineTask, events: mpsc::Receiver<Event>) -> Result<watch::Receiver<()>, RunError> {
    let (alive, ended) = watch::channel(());
    let run = move || {
        task.run(events);
        drop(alive);
    };
    std::thread::Builder::new().name("engine".into()).spawn(run).map_err(RunError::Thread)?;
    Ok(ended)
}

fn xds_config(room: &Room, metrics: &Metrics, ends: Option<&Ends>) -> xds::Config {
    let mut config = xds::Config::default();
    config.max_streams = room.streams;
    config.max_idle_connections = room.newcomers;
    config.metrics = metrics.xds.clone();
    config.authenticate = ends.map(Ends::authenticate);
    let (major, minor) = envoy::listener::LEAST_ENVOY;
    config.least_envoy = Some(xds::EnvoyVersion { major, minor, patch: 0 });
    config
}

/// How many connections each server may have, so that a quarter of all open files is left for what is read and asked.
#[derive(Debug, PartialEq, Eq)]
struct Room {
    /// xDS streams, of which each may have a connection of its own.
    streams: usize,
    /// xDS connections without a stream.
    newcomers: usize,
    /// At `--metrics-address`.
    observed: usize,
    /// At `--admin-address`.
    admin: usize,
}

impl Room {
    /// Where a process may have so many files open.
    fn of(files: u64) -> Self {
        let part = |of: u64, most: usize| usize::try_from(files / of).map_or(most, |part| part.min(most)).max(1);
        let defaults = xds::Config::default();
        Self {
            streams: part(2, defaults.max_streams),
            newcomers: part(8, defaults.max_idle_connections),
            observed: part(16, 128),
            admin: part(16, 64),
        }
    }
}

async fn bind(address: SocketAddr, flag: &'static str) -> Result<TcpListener, RunError> {
    TcpListener::bind(address).await.map_err(|error| RunError::listen(&address, flag, &error))
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

impl RunError {
    fn listen(address: &impl ToString, flag: &'static str, why: &(impl std::fmt::Display + ?Sized)) -> Self {
        Self::Listen { address: address.to_string(), flag, why: why.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_leave_a_quarter_of_all_files_to_what_is_read() {
        assert_eq!(Room::of(1024), Room { streams: 512, newcomers: 128, observed: 64, admin: 64 });
        assert_eq!(Room::of(u64::MAX), Room { streams: 10_000, newcomers: 512, observed: 128, admin: 64 });
        for files in [64, 256, 1024, 4096, 20_000, 1 << 20] {
            let Room { streams, newcomers, observed, admin } = Room::of(files);
            assert!((streams + newcomers + observed + admin) as u64 <= files / 4 * 3, "{files}");
        }
    }
}
