//! A cluster at both ends: objects from its API server, statuses and proxies back to it.

use std::{io, path::PathBuf, sync::Arc, time::Duration};

use cluster::{
    apply::{self, Applier},
    identity::{Trust, ca::RotationPolicy, ca_controller::CaController, files, tokens},
    lease::{self, LeaderElector, Leadership},
    status::{self, Writer},
    watch::{self as watches, Observed, Scope},
};
use kube::Client;
use tokio::{
    runtime::Handle,
    sync::{mpsc, oneshot, watch},
    task::JoinHandle,
    time::timeout,
};
use translate::Deploying;

use super::{RunError, reports::Reports};
use crate::{
    engine_task::{Accounts, EngineHandle, Event, Outlets},
    metrics::Metrics,
};

/// The Lease by which one replica leads.
pub const LEASE: &str = "portcullis";
/// The Secret in which the certificate authority of the xDS server is kept.
const AUTHORITY: &str = "portcullis-xds-authority";
/// How often a user's own certificate is looked at.
const CERTIFICATE_LOOK: Duration = Duration::from_secs(10);
/// How many batches of what was observed wait at most.
const BATCHES: usize = 64;
/// How long what is under way may take when the process ends.
const PATIENCE: Duration = Duration::from_secs(5);

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

/// The ends that lead to a cluster, before they do anything.
pub(super) struct Ends {
    options: ClusterOptions,
    reviewing: Client,
    client: Client,
    writing: Client,
    trust: Trust,
    outlets: Outlets,
    reports: Arc<Reports>,
    metrics: Metrics,
    thread: Thread,
}

/// The ends at work.
pub(super) struct Working {
    tasks: Vec<JoinHandle<()>>,
    election: JoinHandle<()>,
    resign: oneshot::Sender<()>,
    statuses: Writer,
    applier: Option<Applier>,
    _watches: watches::Handle,
    thread: Thread,
}

/// A thread on which all runs that reads and writes objects, one at a time: what is read is small pieces, and to wake
/// another thread for each costs more than the piece. Ends when this is dropped.
struct Thread {
    runtime: Handle,
    /// Changes when the thread ends.
    ended: watch::Receiver<()>,
    _end: oneshot::Sender<()>,
}

impl Thread {
    fn start() -> io::Result<Self> {
        let (started, starting) = std::sync::mpsc::channel();
        let (end, ending) = oneshot::channel::<()>();
        let (alive, ended) = watch::channel(());
        let run = move || {
            // Made and dropped here: a runtime may not be dropped where another one runs.
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            match runtime {
                Err(error) => drop(started.send(Err(error))),
                Ok(runtime) => {
                    drop(started.send(Ok(runtime.handle().clone())));
                    drop(runtime.block_on(ending));
                }
            }
            drop(alive);
        };
        std::thread::Builder::new().name("cluster".into()).spawn(run)?;
        let runtime = starting.recv().map_err(io::Error::other)??;
        Ok(Self { runtime, ended, _end: end })
    }

    /// Ends when the thread does, whoever ended it.
    fn ended(&self) -> impl Future<Output = ()> + use<> {
        let mut ended = self.ended.clone();
        async move { drop(ended.changed().await) }
    }
}

impl Ends {
    pub(super) fn new(
        options: ClusterOptions,
        controller_name: &Arc<str>,
        metrics: &Metrics,
    ) -> Result<Self, RunError> {
        let client_error = |error| RunError::Client(Box::new(error));
        // Tokens are asked about where Envoys are served, and a connection belongs to those who use it.
        let reviewing = watches::client(options.client.clone()).map_err(client_error)?;
        let thread = Thread::start().map_err(RunError::Thread)?;
        let (client, writing) = {
            let _on = thread.runtime.enter();
            let client = watches::client(options.client.clone()).map_err(client_error)?;
            (client, status::client(options.client.clone()).map_err(client_error)?)
        };
        let writing_as = status::Settings {
            field_manager: format!("portcullis.{}", options.namespace).into(),
            ..status::Settings::new(controller_name.clone())
        };
        let statuses = Writer::new(writing_as, metrics.statuses.clone());
        let reports = Arc::new(Reports::default());
        let namespaces = match &options.scope {
            Scope::Named(namespaces) => namespaces.iter().map(ToString::to_string).collect(),
            _ => Vec::new(),
        };
        let settings = apply::Settings {
            controller: Arc::clone(controller_name),
            namespaces,
            watches: metrics.watches.clone(),
            ..apply::Settings::default()
        };
        let proxies = options.deploy.is_some().then(|| {
            let reports = Arc::clone(&reports);
            Applier::new(settings, metrics.applies.clone(), move |report| reports.tell(report))
        });
        let outlets = Outlets { statuses, proxies, accounts: watch::Sender::new(Accounts::default()) };
        let (trust, metrics) = (Trust::new(), metrics.clone());
        Ok(Self { options, reviewing, client, writing, trust, outlets, reports, metrics, thread })
    }

    /// Where the engine tells the cluster what became of its objects.
    pub(super) fn outlets(&self) -> Outlets {
        self.outlets.clone()
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
        let accounts = self.outlets.accounts.subscribe();
        let gateway_of: tokens::GatewayOf = Arc::new(move |account| accounts.borrow().get(account).cloned());
        let review = Arc::new(self.reviewing.clone());
        Arc::new(tokens::TokenAuthenticator::new(review, gateway_of, tokens::Settings::default()))
    }

    /// Begins to read and to write.
    pub(super) fn start(self, engine: &EngineHandle) -> Working {
        let Self { options, client, writing, trust, outlets, reports, metrics, thread, .. } = self;
        let runtime = thread.runtime.clone();
        let _on = runtime.enter();
        let (elector, leadership) =
            LeaderElector::new(lease::Settings::new(&options.namespace, LEASE, Arc::clone(&options.identity)));
        let (leads, leading) = watch::channel(false);
        let (resign, resigned) = oneshot::channel::<()>();
        let election = tokio::spawn(elector.run(writing.clone(), async move {
            // A sender that is gone says the same.
            let _: Result<(), _> = resigned.await;
        }));
        let statuses = outlets.statuses.clone();
        let mut tasks = vec![
            tokio::spawn(follow_claim(leadership, leads, outlets.clone(), metrics.clone())),
            tokio::spawn(forward_authorities(trust.bundle(), engine.clone())),
            tokio::spawn(forward_reports(reports, engine.clone())),
        ];
        let applier = outlets.proxies;
        if let Some(applier) = applier.clone() {
            let (writing, watching) = (writing.clone(), client.clone());
            tasks.push(tokio::spawn(async move { applier.run(writing, watching).await }));
        }
        tasks.push({
            let (statuses, client) = (statuses.clone(), writing);
            tokio::spawn(async move { statuses.run(client).await })
        });
        tasks.push(match options.certificate {
            Some(folder) => {
                let [certificate, key, ca] = ["tls.crt", "tls.key", "ca.crt"].map(|name| folder.join(name));
                let files = files::CertificateFiles { certificate, key, ca };
                tokio::spawn(files.reload(trust, CERTIFICATE_LOOK))
            }
            None => {
                let names = vec![options.xds_host.to_string()];
                let ca_controller =
                    CaController::new(client.clone(), &options.namespace, AUTHORITY, names, RotationPolicy::default());
                tokio::spawn(ca_controller.run(trust, leading))
            }
        });
        let (sink, observed) = mpsc::channel(BATCHES);
        let watching =
            watches::Options { scope: options.scope, metrics: metrics.watches.clone(), ..Default::default() };
        let watches = watches::start(client, watching, sink);
        tasks.push(tokio::spawn(forward(observed, engine.clone())));
        Working { tasks, election, resign, statuses, applier, _watches: watches, thread }
    }
}

impl Working {
    /// Ends when nothing is read or written any more, which nobody asked for. Never where there is no cluster.
    pub(super) fn ended(working: Option<&Self>) -> impl Future<Output = ()> + use<> {
        let ended = working.map(|working| working.thread.ended());
        async move {
            match ended {
                Some(ended) => ended.await,
                None => std::future::pending().await,
            }
        }
    }

    /// Writes nothing any more, and lets another replica lead.
    pub(super) async fn stop(self) {
        self.statuses.lead(false);
        let quiet = async {
            if let Some(applier) = &self.applier {
                applier.lead(false);
                applier.drained().await;
            }
            self.statuses.drained().await;
        };
        if timeout(PATIENCE, quiet).await.is_err() {
            tracing::warn!("the API server does not answer, so what was written last may be written twice");
        }
        // Gone already if nobody listens.
        let _: Result<(), ()> = self.resign.send(());
        if timeout(PATIENCE, self.election).await.is_err() {
            tracing::warn!("the lease is not given back, since the API server does not answer");
        }
        for task in self.tasks {
            task.abort();
        }
    }
}

/// Tells everybody who writes whether this replica leads.
async fn follow_claim(
    mut leadership: watch::Receiver<Leadership>,
    leads: watch::Sender<bool>,
    outlets: Outlets,
    metrics: Metrics,
) {
    loop {
        let now = leadership.borrow_and_update().clone();
        if leads.send_if_modified(|leads| std::mem::replace(leads, now.leads()) != now.leads()) {
            tracing::info!(
                leads = now.leads(),
                holder = now.holder.as_deref().unwrap_or_default(),
                "the leader turned"
            );
        }
        outlets.statuses.lead(now.leads());
        if let Some(applier) = &outlets.proxies {
            applier.lead(now.leads());
        }
        metrics.leader.set(i64::from(now.leads()));
        if leadership.changed().await.is_err() {
            return;
        }
    }
}

async fn forward_authorities(mut bundle: watch::Receiver<Option<Arc<str>>>, engine: EngineHandle) {
    loop {
        let now = bundle.borrow_and_update().clone();
        if let Some(authorities) = now
            && engine.send(Event::Authorities(authorities)).await.is_err()
        {
            return;
        }
        if bundle.changed().await.is_err() {
            return;
        }
    }
}

async fn forward_reports(reports: Arc<Reports>, engine: EngineHandle) {
    loop {
        for report in reports.take().await.into_values() {
            if engine.send(Event::Applied(report)).await.is_err() {
                return;
            }
        }
    }
}

async fn forward(mut observed: mpsc::Receiver<Vec<Observed>>, engine: EngineHandle) {
    while let Some(batch) = observed.recv().await {
        if engine.send(Event::Cluster(batch)).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    #[tokio::test]
    async fn the_thread_outlives_a_fault_of_a_task_and_who_waits_for_its_end_learns_of_it() {
        let thread = Thread::start().unwrap();
        let mut ended = pin!(thread.ended());
        thread.runtime.spawn(async { panic!("a fault") }).await.unwrap_err();
        thread.runtime.spawn(async {}).await.unwrap();
        timeout(Duration::ZERO, &mut ended).await.unwrap_err();
        drop(thread);
        timeout(Duration::from_secs(20), ended).await.unwrap();
    }
}
