//! A cluster as the source: objects from its API server, and statuses and proxies back to it.

mod leadership;

use std::{path::PathBuf, sync::Arc, time::Duration};

use ::records::RecordKind;
use cluster::{
    apply::{self, Applier},
    identity::{
        Trust,
        ca::RotationPolicy,
        ca_controller::CaController,
        files,
        login_seed::{self, Seed},
        tokens,
    },
    records::{Secrets, Watching},
    status::{self, Writer},
    watch::{self as watches, Observed, Scope},
};
use futures::{
    Stream, StreamExt,
    stream::{self, BoxStream},
};
use kube::Client;
use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
    time::timeout,
};
use tokio_stream::wrappers::ReceiverStream;
use translate::{Deploying, LoginSeed};

use super::{
    RunError,
    editions::{self, KeepingTrees, Manners},
    records::Keeping,
    reports::Reports,
    thread::SingleThread,
};
use crate::{
    engine_task::{Accounts, ClusterSinks, Event},
    metrics::Metrics,
};
use leadership::Leadership;

/// The Lease by which one replica leads.
pub const LEASE: &str = "portcullis";
/// The Secret in which the certificate authority of the xDS server is kept.
const AUTHORITY: &str = "portcullis-xds-authority";
/// The Secret with what logins are proved by.
const LOGINS: &str = "portcullis-logins";
/// How often a user's own certificate is looked at.
const CERTIFICATE_LOOK: Duration = Duration::from_secs(10);
/// How many batches of what was observed wait at most.
const BATCHES: usize = 64;
/// How long what is under way may take when the process ends.
const GRACE_PERIOD: Duration = Duration::from_secs(5);

/// How a cluster is served.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    /// How its API server is reached.
    pub client: kube::Config,
    /// The namespace of this controller: of its Lease and of its Secret.
    pub namespace: String,
    /// What no other replica is called, such as the name of the pod.
    pub identity: Arc<str>,
    /// Which namespaces are read.
    pub scope: Scope,
    /// The DNS name by which proxies reach the xDS server.
    pub xds_host: Arc<str>,
    /// The port there.
    pub xds_port: u16,
    /// A folder with `tls.crt`, `tls.key` and `ca.crt`, in place of an authority of our own.
    pub certificate: Option<PathBuf>,
    /// How proxies are run; none if somebody else runs them.
    pub deploy: Option<deploy::Settings>,
}

/// What a cluster needs, before anything is read or written.
pub(super) struct ClusterSetup {
    options: ClusterOptions,
    clients: Clients,
    trust: Trust,
    sinks: ClusterSinks,
    observed: mpsc::Sender<Vec<Observed>>,
    seeds: mpsc::Sender<Option<Seed>>,
    metrics: Metrics,
    thread: SingleThread,
}

/// A connection belongs to those who use it: tokens are reviewed where Envoys are served, and all else has the thread of the
/// cluster.
struct Clients {
    reviewing: Client,
    reading: Client,
    writing: Client,
}

/// Reading and writing, under way.
pub(super) struct ClusterTasks {
    tasks: Vec<JoinHandle<()>>,
    leadership: Leadership,
    sinks: ClusterSinks,
    _watches: watches::Handle,
    _watching_records: Vec<Watching>,
    /// All that reads and writes objects takes turns here: what is read is small pieces, and to wake another thread for
    /// each costs more than the piece.
    thread: SingleThread,
}

impl Clients {
    fn new(config: &kube::Config, thread: &SingleThread) -> kube::Result<Self> {
        let reviewing = watches::client(config.clone())?;
        let _on = thread.runtime.enter();
        Ok(Self { reviewing, reading: watches::client(config.clone())?, writing: status::client(config.clone())? })
    }
}

impl ClusterSetup {
    /// Also gives what the engine learns from the cluster, once it is started.
    pub(super) fn new(
        options: ClusterOptions,
        controller_name: &Arc<str>,
        metrics: &Metrics,
    ) -> Result<(Self, BoxStream<'static, Event>), RunError> {
        let thread = SingleThread::start("cluster").map_err(RunError::Thread)?;
        let clients = Clients::new(&options.client, &thread).map_err(|error| RunError::Client(Box::new(error)))?;
        let field_manager = format!("portcullis.{}", options.namespace).into();
        let writing_as = status::Settings { field_manager, ..status::Settings::new(controller_name.clone()) };
        let reports = Reports::default();
        let applier = options.deploy.is_some().then(|| {
            let reports = reports.clone();
            let settings = apply_settings(&options, controller_name, metrics);
            Applier::new(settings, metrics.applies.clone(), move |report| reports.put(report))
        });
        let sinks = ClusterSinks {
            statuses: Writer::new(writing_as, metrics.statuses.clone()),
            applier,
            accounts: watch::Sender::new(Accounts::default()),
        };
        let (observed, observing) = mpsc::channel(BATCHES);
        let (seeds, seeded) = mpsc::channel(1);
        let trust = Trust::new();
        let events = stream::select_all([
            ReceiverStream::new(observing).map(Event::Cluster).boxed(),
            authorities(trust.bundle()).boxed(),
            ReceiverStream::new(seeded).map(login_seeds).boxed(),
            reports.stream().map(Event::Applied).boxed(),
        ]);
        let setup = Self { options, clients, trust, sinks, observed, seeds, metrics: metrics.clone(), thread };
        Ok((setup, events.boxed()))
    }

    /// Where the cluster gets what became of its objects.
    pub(super) fn sinks(&self) -> ClusterSinks {
        self.sinks.clone()
    }

    /// How proxies are run.
    pub(super) fn deploying(&self) -> Option<Deploying> {
        Some(Deploying {
            settings: self.options.deploy.clone()?,
            xds_host: self.options.xds_host.clone(),
            xds_port: self.options.xds_port,
            authorities: None,
            applied: true,
        })
    }

    /// What the xDS server shows.
    pub(super) fn certificate(&self) -> xds::Certificate {
        self.trust.certificate.clone()
    }

    /// Who the xDS server lets in.
    pub(super) fn authenticate(&self) -> Arc<dyn xds::Authenticate> {
        let accounts = self.sinks.accounts.subscribe();
        let gateway_of: tokens::GatewayOf = Arc::new(move |account| accounts.borrow().get(account).cloned());
        let review = Arc::new(self.clients.reviewing.clone());
        Arc::new(tokens::TokenAuthenticator::new(review, gateway_of, tokens::Settings::default()))
    }

    /// Begins to read and to write.
    pub(super) fn start(self, records: Keeping, trees: Option<KeepingTrees>) -> ClusterTasks {
        let Self { options, clients: Clients { reading, writing, .. }, trust, sinks, observed, seeds, metrics, thread } =
            self;
        let runtime = thread.runtime.clone();
        let _on = runtime.enter();
        let (leadership, leading) = Leadership::start(&options, writing.clone(), sinks.clone(), metrics.clone());
        let mut watching_records = Vec::new();
        let mut place = |kind| {
            let secrets = Secrets::new(reading.clone(), &options.namespace);
            watching_records.push(secrets.watch(kind, reading.clone(), &options.namespace, metrics.watches.clone()));
            secrets
        };
        let mut tasks: Vec<_> =
            records.start(place(RecordKind::Quarantine), place(RecordKind::Verdicts), &leading).into();
        let mut watching =
            watches::Options { scope: options.scope.clone(), metrics: metrics.watches.clone(), ..Default::default() };
        tasks.push(match trees {
            Some(trees) => {
                let needed = watch::Sender::new(None);
                watching.kept = needed.subscribe();
                trees.start_telling(place(RecordKind::Edition), Manners::CLUSTER, &leading, needed)
            }
            None => {
                let secrets = Secrets::new(reading.clone(), &options.namespace);
                tokio::spawn(editions::end_epoch(secrets, leading.clone()))
            }
        });
        tasks.push(keep_certificate(&options, reading.clone(), trust, leading));
        tasks.push(tokio::spawn(login_seed::keep(reading.clone(), options.namespace.clone(), LOGINS, seeds)));
        if let Some(applier) = sinks.applier.clone() {
            let (writing, watching) = (writing.clone(), reading.clone());
            tasks.push(tokio::spawn(async move { applier.run(writing, watching).await }));
        }
        let statuses = sinks.statuses.clone();
        tasks.push(tokio::spawn(async move { statuses.run(writing).await }));
        let watches = watches::start(reading, watching, observed);
        ClusterTasks { tasks, leadership, sinks, _watches: watches, _watching_records: watching_records, thread }
    }
}

impl ClusterTasks {
    /// Ends when the thread does, which must not be.
    pub(super) async fn ended(&mut self) {
        drop(self.thread.ended.changed().await);
    }

    /// Writes nothing any more, and lets another replica lead.
    pub(super) async fn stop(self) {
        self.sinks.statuses.lead(false);
        let quiet = async {
            if let Some(applier) = &self.sinks.applier {
                applier.lead(false);
                applier.drained().await;
            }
            self.sinks.statuses.drained().await;
        };
        if timeout(GRACE_PERIOD, quiet).await.is_err() {
            tracing::warn!("the API server does not answer, so what was written last may be written twice");
        }
        if timeout(GRACE_PERIOD, self.leadership.resign()).await.is_err() {
            tracing::warn!("the lease is not given back, since the API server does not answer");
        }
        for task in self.tasks {
            task.abort();
        }
    }
}

fn apply_settings(options: &ClusterOptions, controller_name: &Arc<str>, metrics: &Metrics) -> apply::Settings {
    let namespaces = match &options.scope {
        Scope::Named(namespaces) => namespaces.iter().map(ToString::to_string).collect(),
        _ => Vec::new(),
    };
    let controller = Arc::clone(controller_name);
    apply::Settings { controller, namespaces, watches: metrics.watches.clone(), ..apply::Settings::default() }
}

/// The authorities that proxies shall trust, now and whenever they change.
fn authorities(mut bundle: watch::Receiver<Option<Arc<str>>>) -> impl Stream<Item = Event> {
    bundle.mark_changed();
    let bundles = stream::unfold(bundle, |mut bundle| async {
        bundle.changed().await.ok()?;
        let now = bundle.borrow_and_update().clone();
        Some((now, bundle))
    });
    bundles.filter_map(async |authorities| authorities.map(Event::Authorities))
}

fn login_seeds(seed: Option<Seed>) -> Event {
    Event::LoginSeed(seed.and_then(|seed| LoginSeed::new(&seed)))
}

/// Keeps what the xDS server shows up to date: from a folder, or by an authority of our own.
fn keep_certificate(
    options: &ClusterOptions,
    client: Client,
    trust: Trust,
    leading: watch::Receiver<bool>,
) -> JoinHandle<()> {
    match &options.certificate {
        Some(folder) => {
            let [certificate, key, ca] = ["tls.crt", "tls.key", "ca.crt"].map(|name| folder.join(name));
            let files = files::CertificateFiles { certificate, key, ca };
            tokio::spawn(files.reload(trust, CERTIFICATE_LOOK))
        }
        None => {
            let names = vec![options.xds_host.to_string()];
            let ca_controller =
                CaController::new(client, &options.namespace, AUTHORITY, names, RotationPolicy::default());
            tokio::spawn(ca_controller.run(trust, leading))
        }
    }
}
