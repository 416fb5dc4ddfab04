//! The task that owns the translator: events in, snapshots out.
//!
//! Everything that is ready is taken as one batch, settled once, and published. Nothing else touches the translator;
//! who wants to know something asks through [`EngineHandle::ask`].

mod classes;
mod complaints;
mod faults;
mod invalid_policies;
mod ports;
mod problems;
mod proxy_log;
mod rejections;
mod replacements;
mod snapshots;
mod watched;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Instant,
};

use api::{Kind, ObjectId};
use cluster::watch::Observed;
use ir::{NsName, Settings};
use tokio::sync::{mpsc, oneshot, watch};
use translate::{Changes, Deploying, Translator};

pub use ports::{HostPorts, PortCheck, ThisHost};
pub use watched::{Accounts, Outlets};

use crate::{
    files::{FileProblem, Update},
    metrics::{GatewayLabel, Metrics, ReasonLabel, RefusalLabels, SourceLabel},
};
use complaints::Complaints;
use invalid_policies::InvalidPolicies;
use problems::Problems;
use proxy_log::ProxyLog;
use rejections::Rejections;
use replacements::Replacements;
use snapshots::Snapshots;
use watched::Watched;

/// How many events wait at most before their senders do.
const QUEUE: usize = 1024;

/// Beyond so many things of one kind that turned in a batch nobody reads the log one by one.
const LOGGED_AT_MOST: usize = 100;

/// So many names of a response are logged; it may have thousands.
const LOGGED_NAMES: usize = 10;

/// Something the task reacts to.
pub enum Event {
    /// Files changed.
    Files(Update),
    /// Objects of a cluster changed.
    Cluster(Vec<Observed>),
    /// The authorities changed that proxies shall trust, in PEM.
    Authorities(Arc<str>),
    /// What runs the proxies of a Gateway could not be applied, or all of it could.
    Applied(cluster::apply::Report),
    /// A proxy did or said something.
    Proxy(xds::Event),
    /// Time to look whether ports can be bound that could not.
    RecheckPorts,
    /// Somebody wants to know something.
    Ask(Question),
}

/// A question to whoever owns the translator.
pub type Question = Box<dyn FnOnce(&View<'_>) + Send>;

/// What can be asked about, settled.
pub struct View<'a> {
    /// The translator.
    pub translator: &'a Translator,
    /// What is wrong with files.
    pub file_problems: &'a [FileProblem],
    /// Kinds that cannot be watched at the moment, and why; none where no cluster is.
    pub stale: Option<&'a BTreeMap<Kind, String>>,
    /// GatewayClasses that hold although they are deleted, since Gateways name them; none where no cluster is.
    pub held: Option<&'a BTreeSet<Arc<str>>>,
    /// Objects that cannot be decoded, or read, as they are now, and why; none where no cluster is.
    pub undecodable: Option<&'a BTreeMap<ObjectId, String>>,
    /// Who writes statuses; none where no cluster is.
    pub statuses: Option<&'a cluster::status::Writer>,
}

/// The task is gone; the process is about to end.
#[derive(Debug, thiserror::Error)]
#[error("the engine has stopped")]
pub struct Stopped;

/// The way to the task. Clones lead to the same one.
#[derive(Clone)]
pub struct EngineHandle(mpsc::Sender<Event>);

impl EngineHandle {
    /// Hands over an event; waits while the task is far behind.
    pub async fn send(&self, event: Event) -> Result<(), Stopped> {
        self.0.send(event).await.map_err(|_| Stopped)
    }

    /// The same, from a thread that may block.
    pub fn send_blocking(&self, event: Event) -> Result<(), Stopped> {
        self.0.blocking_send(event).map_err(|_| Stopped)
    }

    /// Asks about what is there once all events that were sent before are settled.
    pub async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&View<'_>) -> T + Send + 'static,
    ) -> Result<T, Stopped> {
        let (sender, answer) = oneshot::channel();
        // Who asked may have left.
        self.send(Event::Ask(Box::new(move |view| drop(sender.send(question(view)))))).await?;
        answer.await.map_err(|_| Stopped)
    }
}

/// The way to a new task, and its other end.
pub fn channel() -> (EngineHandle, mpsc::Receiver<Event>) {
    let (sender, receiver) = mpsc::channel(QUEUE);
    (EngineHandle(sender), receiver)
}

/// The task.
pub struct EngineTask {
    controller_name: Arc<str>,
    translator: Translator,
    hub: xds::Hub,
    snapshots: Snapshots,
    rejections: Rejections,
    proxy_log: ProxyLog,
    replacements: Replacements,
    invalid_policies: InvalidPolicies,
    complaints: Complaints,
    problems: Problems,
    ports: Option<PortCheck>,
    metrics: Metrics,
    served: watch::Sender<BTreeSet<NsName>>,
    file_problems: Arc<Vec<FileProblem>>,
    watched: Option<Watched>,
    deploying: Option<Deploying>,
}

impl EngineTask {
    /// A task that publishes at `hub`. Ports are checked before they are used only where the Envoys that bind them are
    /// on this host and started by this process: with `ports`.
    pub fn new(settings: Settings, hub: xds::Hub, ports: Option<PortCheck>, metrics: Metrics) -> Self {
        Self {
            controller_name: Arc::clone(&settings.controller_name),
            translator: Translator::new(settings),
            hub,
            snapshots: Snapshots::default(),
            rejections: Rejections::default(),
            proxy_log: ProxyLog::default(),
            replacements: Replacements::default(),
            invalid_policies: InvalidPolicies::default(),
            complaints: Complaints::default(),
            problems: Problems::default(),
            ports,
            metrics,
            served: watch::Sender::default(),
            file_problems: Arc::default(),
            watched: None,
            deploying: None,
        }
    }

    /// The same with a cluster as the source, which is told through `outlets` what became of its objects. With
    /// `deploying` the proxies of Gateways are run there too.
    pub fn watching(mut self, outlets: Outlets, deploying: Option<Deploying>) -> Self {
        self.translator.set_deploying(deploying.clone());
        Self { watched: Some(Watched::new(outlets)), deploying, ..self }
    }

    /// Has a row panic whenever it is computed, `TABLE:KEY`: for tests of what becomes of it.
    #[cfg(debug_assertions)]
    pub fn fail_at(&mut self, row: Option<&str>) {
        if let Some((table, key)) = row.and_then(|row| row.split_once(':')) {
            self.translator.fail_at(table, key);
        }
    }

    /// The Gateways that are served, as they change.
    pub fn served(&self) -> watch::Receiver<BTreeSet<NsName>> {
        self.served.subscribe()
    }

    /// Works until nobody is left who could send an event. For a thread of its own.
    pub fn run(mut self, mut events: mpsc::Receiver<Event>) {
        let mut batch = Vec::new();
        while events.blocking_recv_many(&mut batch, QUEUE) > 0 {
            self.work(std::mem::take(&mut batch));
        }
    }

    /// Takes in a batch, settles, publishes, and answers questions, in this order.
    pub fn work(&mut self, batch: Vec<Event>) {
        let idle = |event: &Event| matches!(event, Event::RecheckPorts);
        if batch.iter().all(idle) && self.ports.as_ref().is_none_or(PortCheck::is_content) {
            return;
        }
        let start = Instant::now();
        let mut questions = Vec::new();
        let mut loaded = false;
        let mut all = 0;
        for event in batch {
            let count = match &event {
                Event::Files(update) => update.changes.len(),
                Event::Cluster(observed) => observed.len(),
                _ => 1,
            };
            let source = match event {
                Event::Files(update) => {
                    self.take_files(update);
                    loaded = true;
                    "files"
                }
                Event::Cluster(observed) => {
                    if let Some(watched) = &mut self.watched {
                        watched.take(observed, &mut self.translator, &self.metrics);
                        loaded = watched.is_complete();
                    }
                    "cluster"
                }
                Event::Authorities(authorities) => {
                    if let Some(deploying) = &mut self.deploying {
                        deploying.authorities = Some(authorities);
                        self.translator.set_deploying(Some(deploying.clone()));
                    }
                    "identity"
                }
                Event::Applied(report) => {
                    let failures: Vec<_> = report
                        .failures
                        .iter()
                        .map(|failure| format!("{}: {}", failure.object, failure.message))
                        .collect();
                    let words = (!failures.is_empty()).then(|| failures.join("; "));
                    self.translator.set_unapplied(&report.owner, words);
                    "deployer"
                }
                Event::Proxy(event) => {
                    self.take_proxy(&event);
                    "xds"
                }
                Event::RecheckPorts => {
                    if let Some(ports) = &mut self.ports {
                        ports.recheck(&mut self.translator);
                    }
                    continue;
                }
                Event::Ask(question) => {
                    questions.push(question);
                    continue;
                }
            };
            self.metrics.events.get_or_create(&SourceLabel::of(source)).inc_by(count as u64);
            all += count;
        }
        // Until everything was read nobody is served, and what is made of a part of it is made anew by the next part.
        let reads = self.watched.as_ref().is_some_and(|watched| !watched.is_complete());
        if !reads || !questions.is_empty() {
            self.settle();
        }
        // Who only asks makes no batch.
        if all > 0 {
            self.metrics.batches.inc();
            self.metrics.batch_events.observe(f64::from(u32::try_from(all).unwrap_or(u32::MAX)));
            self.metrics.settle_seconds.observe(start.elapsed().as_secs_f64());
        }
        if loaded && !self.hub.is_ready() {
            let gateways = self.served.borrow().len();
            tracing::info!(gateways, "everything is read and published");
            if gateways == 0 {
                tracing::warn!(controller = %self.controller_name, "no Gateway is served: none has a class of this controller");
            }
            if let Some(watched) = &self.watched {
                watched.complete();
            }
            self.hub.ready();
        }
        for question in questions {
            let watched = self.watched.as_ref();
            question(&View {
                translator: &self.translator,
                file_problems: &self.file_problems,
                stale: watched.map(Watched::stale),
                held: watched.map(Watched::held),
                undecodable: watched.map(Watched::undecodable),
                statuses: watched.map(Watched::statuses),
            });
        }
    }

    fn take_files(&mut self, update: Update) {
        for change in update.changes {
            self.translator.apply(change);
        }
        self.problems.note_files(&update.problems);
        self.file_problems = update.problems;
        self.metrics.files.set(i64::try_from(update.files).unwrap_or(i64::MAX));
        self.metrics.files_broken.set(i64::try_from(update.broken_files).unwrap_or(i64::MAX));
    }

    fn take_proxy(&mut self, event: &xds::Event) {
        let now = Instant::now();
        let mut logs = |gateway: &str| self.proxy_log.admits(gateway, now);
        match event {
            xds::Event::Connected { gateway, node_id, stream } => {
                if logs(gateway) {
                    tracing::info!(%gateway, %node_id, stream, "an Envoy is connected");
                }
                self.metrics.streams.inc();
            }
            xds::Event::Disconnected { gateway, stream } => {
                if logs(gateway) {
                    tracing::info!(%gateway, stream, "an Envoy is gone");
                }
                self.metrics.streams.dec();
            }
            xds::Event::Nacked { gateway, kind, names, message, .. } => {
                if logs(gateway) {
                    let (count, names) = (names.len(), &names[..names.len().min(LOGGED_NAMES)]);
                    tracing::warn!(%gateway, %kind, count, ?names, %message, "an Envoy refused an update");
                }
                let labels = RefusalLabels { gateway: gateway.clone(), r#type: kind.to_string() };
                self.metrics.nacks.get_or_create(&labels).inc();
            }
            xds::Event::Recovered { gateway, kind, names, .. } if logs(gateway) => {
                let (count, names) = (names.len(), &names[..names.len().min(LOGGED_NAMES)]);
                tracing::info!(%gateway, %kind, count, ?names, "what an Envoy had refused is in order");
            }
            xds::Event::Outdated { gateway, version, least, .. } => {
                if logs(gateway) {
                    tracing::warn!(%gateway, %version, %least, "an Envoy is too old, and is sent no listeners and no routes");
                }
                self.metrics.outdated_streams.get_or_create(&GatewayLabel::of(gateway.clone())).inc();
            }
            xds::Event::Refused { reason, count } => {
                self.metrics.refused_streams.get_or_create(&ReasonLabel::of(reason.as_str())).inc_by(*count);
            }
            xds::Event::UnknownName { gateway, kind, name, count, .. } => {
                if logs(gateway) {
                    tracing::info!(%gateway, %kind, name, count, "an Envoy asks for what is not there");
                }
                self.metrics.unknown_names.get_or_create(&GatewayLabel::of(gateway.clone())).inc_by(*count);
            }
            xds::Event::GateExpired { gateway, gate, .. } => {
                if logs(gateway) {
                    tracing::warn!(%gateway, ?gate, "an Envoy did not acknowledge in time, so it was not waited for");
                }
                self.metrics.gates_expired.inc();
            }
            _ => {}
        }
        if let Some((gateway, words)) = self.rejections.note(event) {
            self.translator.set_nack(&gateway, words);
        }
    }

    fn settle(&mut self) {
        let mut turned = BTreeSet::new();
        loop {
            let mut changes = self.translator.settle();
            if let Some(watched) = &mut self.watched {
                watched.run_proxies(&mut changes, &self.translator);
            }
            let gateways = changes.statuses.iter().any(|id| id.kind == Kind::Gateway) || !changes.gateways.is_empty();
            self.problems.note(changes.statuses.iter().chain(&changes.problems), &self.translator);
            turned.extend(std::mem::take(&mut changes.statuses));
            self.absorb(changes);
            // A port that cannot be bound is taken back before anybody was told of it.
            let ports = self.ports.as_mut().filter(|_| gateways);
            if !ports.is_some_and(|ports| ports.check(&mut self.translator)) {
                break;
            }
        }
        self.snapshots.publish(&self.hub);
        if let Some(watched) = &mut self.watched {
            watched.tell(&turned, &self.translator);
        }
        self.complaints.note(turned, &self.translator);
        let unasked = self.translator.published_unasked();
        self.metrics.published_unasked.set(i64::try_from(unasked).unwrap_or(i64::MAX));
        let undecodable = self.watched.as_ref().map_or(0, |watched| watched.undecodable().len());
        self.problems.show(undecodable, &self.metrics);
        self.metrics.gateways.set(i64::try_from(self.served.borrow().len()).unwrap_or(i64::MAX));
    }

    fn absorb(&mut self, changes: Changes) {
        self.metrics.rows.inc_by(changes.computed as u64);
        if !changes.faults.is_empty() {
            faults::note(&changes.faults, &self.metrics);
            self.metrics.poisoned_rows.set(i64::try_from(self.translator.faults()).unwrap_or(i64::MAX));
        }
        self.replacements.note(changes.replacements, &self.metrics);
        self.replacements.note_wide(changes.wide_replacements, &self.metrics);
        self.invalid_policies.note(changes.invalid_policies, &self.metrics);
        for (key, encoded) in changes.resources {
            let kind = xds::TypeLabel::from(snapshots::resource_type(key.kind));
            self.metrics.resources.get_or_create(&kind).inc();
            let bytes = encoded.as_ref().map_or(0, |encoded| encoded.body.len());
            self.metrics.bytes.get_or_create(&kind).inc_by(bytes as u64);
            self.snapshots.set(key, encoded);
        }
        if changes.gateways.is_empty() {
            return;
        }
        for (gateway, served) in &changes.gateways {
            self.snapshots.serve(gateway, *served);
        }
        self.served.send_modify(|all| {
            for (gateway, served) in changes.gateways {
                if served {
                    all.insert(gateway)
                } else {
                    all.remove(&gateway)
                };
            }
        });
    }
}

#[cfg(test)]
mod tests;
