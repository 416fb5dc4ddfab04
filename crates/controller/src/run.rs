//! `portcullis run`: everything put together.

mod cluster;
mod editions;
mod judging;
mod listen;
mod records;
mod reports;
mod servers;
mod thread;

use std::{future::pending, io, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use ::cluster::identity::login_seed;
use ::records::folder::Folder;
use futures::{
    StreamExt,
    stream::{BoxStream, SelectAll},
};
use ir::{Settings, settings::Freeze};
use tokio::{
    sync::{mpsc, watch},
    time::{MissedTickBehavior, interval},
};
use tokio_stream::wrappers::ReceiverStream;
use translate::{LoginSeed, strict::Bounds};

use self::{
    cluster::ClusterSetup,
    editions::{KeepingTrees, Manners},
    judging::Judging,
    records::Keeping,
    servers::{ConnectionLimits, Listeners, finish},
};
pub use self::{
    cluster::{ClusterOptions, LEASE},
    judging::JudgeAt,
    listen::Bind,
};

use crate::{
    admin::Admin,
    engine_task::{self, EngineHandle, EngineTask, Event, PortCheck, ThisHost},
    files::{Files, SourceError},
    guarded::watchdog::Watchdog,
    metrics::Metrics,
    supervisor::{Supervisor, SupervisorError},
};

/// How often ports are tried that could not be bound.
const RECHECK_PORTS: Duration = Duration::from_secs(2);
/// How often objects are looked at that are set aside and wait.
const RETRY_QUARANTINED: Duration = Duration::from_secs(15);
/// How often it is looked at what waits for Envoy's word.
const RECHECK_WAITING: Duration = Duration::from_millis(250);
/// What the process exits with that does not come to an end (`EX_SOFTWARE`).
const STUCK: i32 = 70;
/// How long a supervised Envoy may take for what is under way when it is stopped.
const GRACE_PERIOD: Duration = Duration::from_secs(5);
/// How many events of proxies wait at most.
const PROXY_EVENTS: usize = 4096;

/// The options of `portcullis run`.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where objects come from.
    pub source: Source,
    /// Where xDS is served.
    pub xds: Bind,
    /// Where the admin server is.
    pub admin: SocketAddr,
    /// Where health and figures are for others than this host, if anywhere.
    pub metrics: Option<SocketAddr>,
    /// What translation reads.
    pub settings: Settings,
    /// A folder that outlives the process: for what is being settled, should the process die of it, and for records, where
    /// there is no cluster that keeps them.
    pub state: Option<PathBuf>,
    /// Who judges what proxies refuse, if anybody.
    pub judge: Option<JudgeAt>,
    /// Whether all that would be sent is judged before it is, where anybody judges.
    pub is_strict: bool,
    /// How long one settling may take before the process ends; for ever if zero.
    pub settling_timeout: Duration,
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
    /// Envoys that judge cannot be run.
    #[error("{0} (--strict-with)")]
    Judge(#[from] judge::StartError),
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
    /// The folder of what outlives the process cannot be used.
    #[error("cannot use {path} (--state): {why}")]
    State {
        /// The folder.
        path: PathBuf,
        /// Why not.
        why: io::Error,
    },
    /// What was kept of trees cannot be removed, though nothing is kept any more.
    #[error(
        "cannot remove what was kept of trees from {path} (--state): {why}; it would be taken for what is kept once \
         freeze.enabled is true again"
    )]
    Editions {
        /// The folder.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// The machine has no randomness to give.
    #[error("this machine has no randomness to give, from which keys are made")]
    Random,
    /// A part that must not end has ended.
    #[error("{part} has stopped")]
    Stopped {
        /// Which.
        part: &'static str,
    },
}

/// Runs until `shutdown`, then lets proxies and clients go in order.
pub async fn run(options: Options, shutdown: impl Future<Output = ()>) -> Result<(), RunError> {
    let limits = ConnectionLimits::of(accept::open_files());
    let metrics = Metrics::default();
    let hub = xds::Hub::new();
    let mut events = SelectAll::<BoxStream<'static, Event>>::new();
    let (folders, envoy, cluster) = match options.source {
        Source::Files { folders, envoy } => (Some(Files::open(folders)?), envoy, None),
        Source::Cluster(cluster) => {
            let (cluster, of_cluster) = ClusterSetup::new(*cluster, &options.settings.controller_name, &metrics)?;
            events.push(of_cluster);
            (None, None, Some(cluster))
        }
    };
    let listeners = Listeners::bind(&options.xds, cluster.is_some(), options.admin, options.metrics).await?;
    let supervisor = match envoy {
        None => None,
        Some(envoy) => Some(supervise(envoy, &listeners, &options.settings, &metrics).await?),
    };
    listeners.log();

    let (engine, requests) = engine_task::channel();
    events.push(requests.boxed());
    let (reporter, of_proxies) = xds::reporter(PROXY_EVENTS);
    events.push(ReceiverStream::new(of_proxies).map(Event::Proxy).boxed());
    let ports = supervisor.is_some().then(|| PortCheck::new(ThisHost));
    let validation = options.settings.validation;
    let judging = options.judge.map(|at| Judging::start(at, &options.settings.edge)).transpose()?;
    let desk = judging.as_ref().filter(|_| options.is_strict).map(|judging| judging.desk(&metrics));
    let freeze = options.settings.freeze;
    let mut task = EngineTask::new(options.settings, hub.clone(), ports, metrics.clone());
    #[cfg(debug_assertions)]
    task.fail_at(options.fail_at.as_deref());
    if let Some(cluster) = &cluster {
        task = task.watching(cluster.sinks(), cluster.deploying());
    }
    // Of files there is one process, and who logged in before it began logs in again.
    let seed = || login_seed::random().and_then(|seed| LoginSeed::new(&seed)).ok_or(RunError::Random);
    task = task.with_login_seed(if cluster.is_some() { None } else { Some(seed()?) });
    if let Some(desk) = &desk {
        let bounds = Bounds { timeout: validation.timeout, then: validation.when_unavailable };
        task = task.strict(desk.clone(), bounds);
    }
    task = task.watched(watchdog(options.settling_timeout, options.state.clone())?);
    let cases = judging.as_ref().map(|judging| task.isolate(judging.judge()));
    let keeping_records = keeping_records(&task, &mut events);
    let served = task.served();
    let folder = options.state.filter(|_| cluster.is_none()).map(Folder::new);
    if cluster.is_some() || folder.is_some() {
        task = task.with_records();
    }
    let (task, mut trees) = keeping_trees(task, freeze, folder.as_ref(), cluster.is_some(), &mut events).await?;
    let mut engine_ended = thread::spawn("engine", move || task.run(events)).map_err(RunError::Thread)?;

    let certificate = cluster.as_ref().map(ClusterSetup::certificate);
    let authenticate = cluster.as_ref().map(ClusterSetup::authenticate);
    let ads = xds::Server::new(hub.clone(), xds_config(&limits, &metrics, authenticate), reporter);
    let admin = Admin::new(engine.clone(), hub, metrics);
    let mut servers = listeners.serve(ads, certificate, admin, &limits);
    if supervisor.is_some() {
        tokio::spawn(tick(engine.clone(), RECHECK_PORTS, || Event::RecheckPorts));
    }
    tokio::spawn(tick(engine.clone(), RETRY_QUARANTINED, || Event::RetryQuarantined));
    if desk.is_some() {
        tokio::spawn(tick(engine.clone(), RECHECK_WAITING, || Event::RecheckWaiting));
    }
    if let Some((judging, cases)) = judging.as_ref().zip(cases) {
        judging::spawn(judging, desk, cases, engine.clone()).map_err(RunError::Thread)?;
    }
    // Of files there is one process.
    let (_leads, leading) = watch::channel(true);
    if let Some((folder, trees)) = folder.as_ref().zip(trees.take_if(|_| cluster.is_none())) {
        trees.start(folder.clone(), Manners::FOLDER, &leading);
    }
    let of_cluster = keep_in(folder, keeping_records, &leading);
    let following = match folders {
        None => None,
        Some(files) => Some(files.follow(move |update| engine.send_blocking(Event::Files(update)).is_ok())?),
    };
    let (stop_proxies, proxies_stop) = watch::channel(false);
    let proxies = supervisor.map(|supervisor| tokio::spawn(supervisor.run(served, proxies_stop)));
    let mut cluster = cluster.zip(of_cluster).map(|(cluster, records)| cluster.start(records, trees));

    let cluster_ended = async {
        match &mut cluster {
            Some(cluster) => cluster.ended().await,
            None => pending().await,
        }
    };
    let outcome = tokio::select! {
        () = shutdown => Ok(()),
        _ = engine_ended.changed() => Err(RunError::Stopped { part: "the engine" }),
        () = cluster_ended => Err(RunError::Stopped { part: "what reads and writes objects" }),
        error = servers.failed() => Err(error),
    };
    tracing::info!("stopping");
    drop(following);
    if let Some(cluster) = cluster {
        cluster.stop().await;
    }
    // Proxies first: until they are gone they may ask.
    stop_proxies.send_replace(true);
    finish(proxies).await;
    servers.stop(outcome.is_ok()).await;
    outcome
}

/// Who runs proxies here, by a program that is one.
async fn supervise(
    envoy: PathBuf,
    listeners: &Listeners,
    settings: &Settings,
    metrics: &Metrics,
) -> Result<Supervisor, RunError> {
    let (xds, edge) = (listeners.xds_address(), settings.edge.clone());
    let supervisor = Supervisor { envoy, xds, edge, grace_period: GRACE_PERIOD, metrics: metrics.clone() };
    tracing::info!(version = supervisor.probe().await?, "Envoy");
    Ok(supervisor)
}

/// What the engine has to be stored of records, and the way by which it learns of them.
fn keeping_records(task: &EngineTask, events: &mut SelectAll<BoxStream<'static, Event>>) -> Keeping {
    let (quarantine, of_quarantine) = mpsc::channel(1);
    let (verdicts, of_verdicts) = mpsc::channel(1);
    events.push(ReceiverStream::new(of_quarantine).map(Event::Quarantine).boxed());
    events.push(ReceiverStream::new(of_verdicts).map(Event::Verdicts).boxed());
    Keeping { aside: task.aside(), quarantine, refusals: task.refusals(), verdicts }
}

/// Has records be kept in a folder; where there is none, somebody else does.
fn keep_in(folder: Option<Folder>, records: Keeping, leading: &watch::Receiver<bool>) -> Option<Keeping> {
    let Some(folder) = folder else { return Some(records) };
    records.start(folder.clone(), folder, leading);
    None
}

/// Has trees be kept, if that is to be and something outlives the process.
async fn keeping_trees(
    task: EngineTask,
    freeze: Freeze,
    folder: Option<&Folder>,
    is_cluster: bool,
    events: &mut SelectAll<BoxStream<'static, Event>>,
) -> Result<(EngineTask, Option<KeepingTrees>), RunError> {
    if freeze.enabled && (is_cluster || folder.is_some()) {
        let (task, wants) = task.keeping(freeze);
        let (told, of_editions) = mpsc::channel(16);
        events.push(ReceiverStream::new(of_editions).map(Event::Edition).boxed());
        return Ok((task, Some(KeepingTrees { wants, told })));
    }
    if let Some(folder) = folder {
        // Nobody sees to it that what is kept stays what it was, so it is not to be served when somebody does again.
        let ended = editions::end_all(folder).await;
        ended.map_err(|error| RunError::Editions { path: folder.path().to_owned(), why: error.to_string() })?;
    }
    Ok((task, None))
}

fn xds_config(
    limits: &ConnectionLimits,
    metrics: &Metrics,
    authenticate: Option<Arc<dyn xds::Authenticate>>,
) -> xds::Config {
    let mut config = xds::Config::default();
    config.max_streams = limits.streams;
    config.max_idle_connections = limits.idle;
    config.metrics = metrics.xds.clone();
    config.authenticate = authenticate;
    let (major, minor) = envoy::listener::LEAST_ENVOY;
    config.least_envoy = Some(xds::EnvoyVersion { major, minor, patch: 0 });
    config
}

/// Sends an event again and again.
async fn tick(engine: EngineHandle, every: Duration, event: fn() -> Event) {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if engine.send(event()).await.is_err() {
            return;
        }
    }
}

/// Finds out settlings that do not end, and those of which the last process died.
fn watchdog(limit: Duration, folder: Option<PathBuf>) -> Result<Watchdog, RunError> {
    let end = |limit| {
        tracing::error!(
            ?limit,
            "a settling takes longer than it may (--settling-timeout): the process ends, and takes in what it was settling \
             with care when it starts again; please report it"
        );
        std::process::exit(STUCK);
    };
    let path = folder.clone().unwrap_or_default();
    Watchdog::start(limit, folder, end).map_err(|why| RunError::State { path, why })
}
