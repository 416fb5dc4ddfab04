//! Makes the objects of each Gateway be as they are to be, by server-side apply.
//!
//! ```text
//! engine ── desired ──▶ ┌───────┐ ── list once, then apply and delete, one Gateway at a time ──▶ API server
//! watch ─── seen ─────▶ │ queue │ ◀──────────────────── what became of them ─────────────────────┘
//! lease ─── lead ─────▶ └───────┘ ── report ──▶ conditions
//! ```
//!
//! * [`Queue`] says which Gateway is to be looked at and when: a state machine without IO.
//! * [`Applier`] is the handle, and [`Applier::run`] the IO: it also watches the metadata of what is applied.
//!
//! What holds:
//!
//! * An object that is as it was applied is not applied again, until the watch says that somebody changed it.
//! * Only objects of ours are touched: those that a Gateway of that name controls and that carry our label, or have fields
//!   of ours. Any other that stands in the way is a conflict and told.
//! * What somebody changes of what we apply, or deletes, is put right; statuses, and what others add, are their business.
//! * What a Gateway has no more is deleted, also what a process before this one has made; what another controller of this
//!   kind has made is its.
//! * No failure is given up on, and none of one object keeps another from being applied.

mod follow;
mod kind;
mod list;
mod metrics;
mod object;
mod queue;
mod work;

use std::{collections::BTreeSet, fmt, sync::Arc, time::Duration};

use futures::{FutureExt as _, future::BoxFuture};
use ir::NsName;
use kube::Client;
use serde_json::Value;
use tokio::sync::watch;

pub use self::{
    kind::{Kind, MANAGED_BY},
    metrics::{Labels, Metrics},
    object::{CONTROLLER, Known, ObjectKey, Print},
    queue::{Desired, Failure, Job, Ledger, Outcome, Queue, Retry, Step},
};
use crate::driven::{Driven, Gather, Next};

/// How objects are applied.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The name of this controller, as GatewayClasses have it. What was made under another is not looked for.
    pub controller: Arc<str>,
    /// The most Gateways that are worked on at once.
    pub under_way: usize,
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
            under_way: 8,
            timeout: Duration::from_secs(10),
            namespaces: Vec::new(),
            watches: crate::watch::Metrics::default(),
        }
    }
}

/// What could not be done for a Gateway; empty once everything is. Told when it changes.
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
    queue: Driven<Queue>,
    leads: watch::Sender<bool>,
    /// The kinds that any Gateway has asked for: others are not watched.
    kinds: watch::Sender<BTreeSet<Kind>>,
    settings: Settings,
    metrics: Metrics,
    report: Box<dyn Fn(Report) + Send + Sync>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("queue", &self.queue).field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Applier {
    /// An applier that knows nothing and does nothing: [`Applier::run`] must be running, and [`Applier::lead`] be told.
    /// `report` is called from there and should not take long.
    pub fn new(settings: Settings, metrics: Metrics, report: impl Fn(Report) + Send + Sync + 'static) -> Self {
        let queue = Driven::new(Queue::new(settings.under_way), Gather::default(), metrics.queue.clone());
        Self(Arc::new(Shared {
            queue,
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
        let kinds: BTreeSet<_> = objects.iter().flatten().filter_map(Kind::of).collect();
        self.0.kinds.send_if_modified(|known| {
            let before = known.len();
            known.extend(kinds);
            known.len() > before
        });
        let desired = objects.map(|objects| objects.into_iter().map(Arc::new).collect());
        self.tell(|queue, _| queue.desired(owner, desired));
    }

    /// Nobody knows what a Gateway's objects shall be, since something is wrong with it, or is not there: what it has stays.
    pub fn kept(&self, owner: &NsName) {
        self.tell(|queue, _| queue.kept(owner));
    }

    /// Every Gateway was told of by [`Applier::desired`] or [`Applier::kept`], so that what belongs to any other is left
    /// over and goes. To be called once, after the first complete translation.
    pub fn complete(&self) {
        self.tell(|queue, _| queue.complete());
    }

    /// Whether [`Applier::complete`] was called.
    pub fn is_complete(&self) -> bool {
        self.0.queue.with(|queue, _| queue.is_complete())
    }

    /// Whether what a Gateway has stays, as [`Applier::kept`] said last.
    pub fn keeps(&self, owner: &NsName) -> bool {
        self.0.queue.with(|queue, _| queue.keeps(owner))
    }

    /// Whether this process applies. On taking over it looks for what is there, and applies everything once.
    pub fn lead(&self, leads: bool) {
        self.0.leads.send_replace(leads);
        self.tell(|queue, _| queue.lead(leads));
    }

    /// Waits until nothing is under way: after [`Applier::lead`] with `false`, nothing of this process reaches the API
    /// server any more.
    pub async fn quiet(&self) {
        self.0.queue.quiet().await;
    }

    /// How many Gateways are to be looked at or are being worked on.
    pub fn pending(&self) -> usize {
        self.0.queue.with(|queue, _| queue.len())
    }

    /// Works, for ever; to be called once. Dropping the future ends it, whatever was under way.
    ///
    /// `writing` should not try again on its own (see [`crate::status::client`]), and `watching` neither do that nor have a
    /// read timeout (see [`crate::watch::client`]).
    pub async fn run(&self, writing: Client, watching: Client) {
        tokio::join!(self.work(writing), follow::run(self, watching));
    }

    async fn work(&self, client: Client) {
        let next = |queue: &mut Queue, now| match queue.next(now) {
            Step::List => {
                let (client, settings) = (client.clone(), self.0.settings.clone());
                Next::Start(async move { Ended::Listed(list::list(&client, &settings).await) }.boxed())
            }
            Step::Do(job) => {
                let place = work::At {
                    client: client.clone(),
                    settings: self.0.settings.clone(),
                    leads: self.0.leads.subscribe(),
                    metrics: self.0.metrics.clone(),
                };
                Next::Start(async move { Ended::Worked(place.work(&job).await, job.owner) }.boxed())
            }
            Step::Wait(until) => Next::Wait(until),
        };
        self.0.queue.run::<BoxFuture<'static, Ended>>(next, |ended| self.finished(ended)).await;
    }

    fn finished(&self, ended: Ended) {
        let report = match ended {
            Ended::Listed(found) => {
                if let Err(message) = &found {
                    tracing::warn!(message, "cannot list the objects of proxies; it is tried again");
                }
                self.with(|queue, now| queue.listed(found.ok(), now));
                None
            }
            Ended::Worked(outcome, owner) => {
                let failures = self.with(|queue, now| queue.finished(&owner, outcome, now));
                failures.map(|failures| Report { owner, failures })
            }
        };
        let Some(report) = report else { return };
        for Failure { object, message } in &report.failures {
            tracing::warn!(gateway = %report.owner, %object, message, "cannot apply; it is tried again");
        }
        (self.0.report)(report);
    }

    fn tell(&self, tell: impl FnOnce(&mut Queue, std::time::Instant)) {
        self.0.queue.tell(|queue, now| self.counted(queue, |queue| tell(queue, now)));
    }

    fn with<T>(&self, call: impl FnOnce(&mut Queue, std::time::Instant) -> T) -> T {
        self.0.queue.with(|queue, now| self.counted(queue, |queue| call(queue, now)))
    }

    fn counted<T>(&self, queue: &mut Queue, call: impl FnOnce(&mut Queue) -> T) -> T {
        let result = call(queue);
        let metrics = &self.0.metrics;
        metrics.foreign_changes.inc_by(queue.take_foreign_changes());
        metrics.failures.set(i64::try_from(queue.failing()).unwrap_or(i64::MAX));
        result
    }
}

/// What came to an end.
enum Ended {
    Listed(Result<Vec<(NsName, ObjectKey, Known)>, String>),
    Worked(Outcome, NsName),
}
