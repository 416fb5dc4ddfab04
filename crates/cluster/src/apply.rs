//! Makes the objects of each Gateway be as they are to be, by server-side apply.
//!
//! ```text
//! engine ── desired ──▶ ┌────────────┐ ── list once, then apply and delete, one Gateway at a time ──▶ API server
//! watch ─── applied ──▶ │ reconciler │ ◀──────────────────── what became of them ─────────────────────┘
//! lease ─── lead ─────▶ └────────────┘ ── report ──▶ conditions
//! ```
//!
//! * `reconciler` says which Gateway is to be looked at and when: a state machine without IO, around a work queue of
//!   Gateways.
//! * [`Applier`] is the handle, and [`Applier::run`] the IO: it also watches the metadata of what is applied.
//!
//! What holds:
//!
//! * An object that is as it was applied is not applied again, until the watch says that somebody changed it.
//! * Only objects of ours are touched: those that a Gateway of that name controls and that carry our label, or have fields
//!   of ours. Any other that stands in the way is a conflict and reported.
//! * What somebody changes of what we apply, or deletes, is put right; statuses, and what others add, are their business.
//! * What a Gateway has no more is deleted, also what a process before this one has made; what another controller of this
//!   kind has made is its.
//! * No failure is given up on, and none of one object keeps another from being applied. A Service is applied without those of its
//!   optional ports that the API server refuses.

mod informer;
mod kind;
mod list;
mod metrics;
mod object;
mod ports;
mod reconciler;
mod worker;

use std::{
    collections::BTreeSet,
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{FutureExt as _, future::BoxFuture};
use ir::{NsName, Port, backend::Transport};
use kube::Client;
use serde_json::Value;
use tokio::sync::watch;

pub use self::{
    kind::{Kind, MANAGED_BY},
    metrics::{Labels, Metrics},
    object::CONTROLLER,
    reconciler::Failure,
};
use self::{
    object::{LiveObject, ObjectKey},
    reconciler::{Outcome, Reconciler, Work},
    worker::Worker,
};
use crate::workqueue::{Debounce, Dispatcher, Reconcile as _};

/// How objects are applied.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The name of this controller, as GatewayClasses have it. What was made under another is not looked for.
    pub controller: Arc<str>,
    /// The most Gateways that are worked on at once.
    pub in_flight: usize,
    /// How long an answer may take.
    pub timeout: Duration,
    /// The namespaces that are looked through for objects of ours; all, if there are none.
    pub namespaces: Vec<String>,
    /// What is counted of watching.
    pub watches: crate::watch::Metrics,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            controller: ir::Settings::default().controller_name,
            in_flight: 8,
            timeout: Duration::from_secs(10),
            namespaces: Vec::new(),
            watches: crate::watch::Metrics::default(),
        }
    }
}

/// What could not be done for a Gateway; empty once everything is. Reported when it changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The Gateway.
    pub owner: NsName,
    /// What failed, by object.
    pub failures: Vec<Failure>,
}

/// Takes what is desired and what is there, from any thread, and never waits for the API server. Clones are the same
/// applier.
#[derive(Clone, Debug)]
pub struct Applier(Arc<Shared>);

struct Shared {
    reconciler: Dispatcher<Reconciler>,
    leads: watch::Sender<bool>,
    /// The kinds that any Gateway has asked for: others are not watched.
    kinds: watch::Sender<BTreeSet<Kind>>,
    settings: Settings,
    metrics: Metrics,
    report: Box<dyn Fn(Report) + Send + Sync>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("reconciler", &self.reconciler)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl Applier {
    /// An applier that knows nothing and does nothing: it takes [`Applier::run`] and [`Applier::lead`].
    /// `report` is called from there and should not take long.
    pub fn new(settings: Settings, metrics: Metrics, report: impl Fn(Report) + Send + Sync + 'static) -> Self {
        let reconciler = Reconciler::new(settings.in_flight);
        let reconciler = Dispatcher::new(reconciler, Debounce::default(), metrics.queue.clone());
        Self(Arc::new(Shared {
            reconciler,
            leads: watch::Sender::new(false),
            kinds: watch::Sender::default(),
            settings,
            metrics,
            report: Box::new(report),
        }))
    }

    /// What a Gateway's objects shall be from now on, in the order in which they are applied, each in the Gateway's
    /// namespace; none if it is gone or not ours any more, and they shall be deleted.
    pub fn desired(&self, owner: &NsName, objects: Option<Vec<Value>>) {
        self.desired_or_without(owner, objects, BTreeSet::new());
    }

    /// The same, where a Service may go without some of its ports, should the API server refuse it with them.
    pub fn desired_or_without(
        &self,
        owner: &NsName,
        objects: Option<Vec<Value>>,
        optional_ports: BTreeSet<(Port, Transport)>,
    ) {
        let kinds: BTreeSet<_> = objects.iter().flatten().filter_map(Kind::of).collect();
        self.0.kinds.send_if_modified(|known| {
            let before = known.len();
            known.extend(kinds);
            known.len() > before
        });
        let desired = objects.map(|objects| objects.into_iter().map(Arc::new).collect());
        self.update(|reconciler, now| {
            reconciler.optional_ports(owner, Arc::new(optional_ports));
            reconciler.desired(owner, desired, now);
        });
    }

    /// Nobody knows what a Gateway's objects shall be, since something is wrong with it, or is not there: what it has stays.
    pub fn retain(&self, owner: &NsName) {
        self.update(|reconciler, _| reconciler.retain(owner));
    }

    /// [`Applier::desired`] or [`Applier::retain`] was called for every Gateway, so that what belongs to any other is left
    /// over and goes. To be called once, after the first complete translation.
    pub fn complete(&self) {
        self.update(Reconciler::complete);
    }

    /// Whether [`Applier::complete`] was called.
    pub fn is_complete(&self) -> bool {
        self.0.reconciler.with(|reconciler, _| reconciler.is_complete())
    }

    /// Whether what a Gateway has stays, as [`Applier::retain`] has it.
    pub fn retains(&self, owner: &NsName) -> bool {
        self.0.reconciler.with(|reconciler, _| reconciler.retains(owner))
    }

    /// Whether this process applies. On taking over it looks for what is there, and applies everything once.
    pub fn lead(&self, leads: bool) {
        self.0.leads.send_replace(leads);
        self.update(|reconciler, _| reconciler.lead(leads));
    }

    /// Waits until nothing is in flight: after [`Applier::lead`] with `false`, nothing of this process reaches the API
    /// server any more.
    pub async fn drained(&self) {
        self.0.reconciler.drained().await;
    }

    /// How many Gateways are to be looked at or are being worked on.
    pub fn pending(&self) -> usize {
        self.0.reconciler.with(|reconciler, _| reconciler.pending())
    }

    /// Works, for ever; to be called once. Dropping the future ends it, whatever was in flight.
    ///
    /// `writing` should not try again on its own (see [`crate::status::client`]), and `watching` neither do that nor have a
    /// read timeout (see [`crate::watch::client`]).
    pub async fn run(&self, writing: Client, watching: Client) {
        tokio::join!(self.work(writing), informer::run(self, watching));
    }

    async fn work(&self, client: Client) {
        let next = |reconciler: &mut Reconciler, now| reconciler.next(now).map(|work| self.begin(work, client.clone()));
        self.0.reconciler.run(next, |ended| self.finished(ended)).await;
    }

    fn begin(&self, work: Work, client: Client) -> BoxFuture<'static, Ended> {
        let settings = self.0.settings.clone();
        match work {
            Work::List => async move { Ended::Listed(list::list(&client, &settings).await) }.boxed(),
            Work::Gateway(job) => {
                let (leads, metrics) = (self.0.leads.subscribe(), self.0.metrics.clone());
                let worker = Worker { client, settings, leads, metrics };
                async move { Ended::Worked(worker.run(&job).await, job.owner) }.boxed()
            }
        }
    }

    fn finished(&self, ended: Ended) {
        let report = match ended {
            Ended::Listed(found) => {
                if let Err(message) = &found {
                    tracing::warn!(message, "cannot list the objects of proxies; it is tried again");
                }
                self.update(|reconciler, now| reconciler.listed(found.ok(), now));
                None
            }
            Ended::Worked(outcome, owner) => {
                let failures = self.update(|reconciler, now| reconciler.finished(&owner, outcome, now));
                failures.map(|failures| Report { owner, failures })
            }
        };
        let Some(report) = report else { return };
        for Failure { object, port, message } in &report.failures {
            match port {
                None => tracing::warn!(gateway = %report.owner, %object, message, "cannot apply; it is tried again"),
                Some((port, transport)) => {
                    let port = format!("{port}/{}", transport.name());
                    tracing::warn!(
                        gateway = %report.owner, %object, port, message,
                        "applied without a port of a ListenerSet; it is tried again"
                    );
                }
            }
        }
        (self.0.report)(report);
    }

    fn update<T>(&self, update: impl FnOnce(&mut Reconciler, Instant) -> T) -> T {
        self.0.reconciler.update(|reconciler, now| {
            let result = update(reconciler, now);
            let metrics = &self.0.metrics;
            metrics.foreign_changes.inc_by(reconciler.take_foreign_changes());
            metrics.failures.set(i64::try_from(reconciler.failing()).unwrap_or(i64::MAX));
            result
        })
    }
}

/// What came to an end.
enum Ended {
    Listed(Result<Vec<(NsName, ObjectKey, LiveObject)>, String>),
    Worked(Outcome, NsName),
}
