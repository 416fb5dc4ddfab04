//! Writes statuses to their objects.
//!
//! ```text
//! engine ── desired ──▶ ┌───────┐ ── merge patch, with the version that it was made for ──▶ API server
//! watch ─── stored ───▶ │ queue │ ◀──────────── what the API server has now ────────────────┘
//! lease ─── lead ─────▶ └───────┘
//! ```
//!
//! * [`merge()`] says what must be written so that an object's status says what is desired: a pure function.
//! * [`Queue`] says when: a state machine without IO.
//! * [`Writer`] is the handle, and [`Writer::run`] the IO.
//!
//! What holds:
//!
//! * A status that says what is desired is not written. Our own write that comes back through the watch causes nothing.
//! * Only entries of ours are touched. Each write names the `resourceVersion` that it was made for, so that no other
//!   controller's word is lost.
//! * Newer words about an object replace older ones; one request of an object is under way at once.
//! * No failure is given up on. What the API server refuses is told once, and tried ever more rarely until something
//!   turns; while the API server is away, one request asks whether it is back.

pub(crate) mod backoff;
mod compact;
mod condition;
mod merge;
mod metrics;
mod queue;
mod send;
mod weave;

use std::{
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use api::ObjectId;
use futures::{StreamExt as _, stream::FuturesUnordered};
use jiff::Timestamp;
use kube::{Client, Config};
use serde_json::{Value, value::RawValue};
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

use self::send::{Answer, send};
pub use self::{
    merge::{Desired, has_status, merge},
    metrics::{Metrics, ResultLabel},
    queue::{Job, Outcome, Queue, Report, Request, Step, Version},
};
use crate::watch::Stored;

/// How the writer works.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Entries of this controller are ours.
    pub controller_name: Arc<str>,
    /// The most requests under way at once.
    pub under_way: usize,
    /// How long an answer may take.
    pub timeout: Duration,
}

impl Settings {
    /// 16 requests at once, which have ten seconds each.
    pub fn new(controller_name: impl Into<Arc<str>>) -> Self {
        Self { controller_name: controller_name.into(), under_way: 16, timeout: Duration::from_secs(10) }
    }
}

/// A client for [`Writer::run`] and for a lease. It does not try again on its own, which would hide from the writer that
/// the API server is overloaded, and it shares no connection with watches.
pub fn client(mut config: Config) -> kube::Result<Client> {
    config.default_retry = false;
    Client::try_from(config)
}

/// Takes what is desired and what is stored, from any thread, and never waits for the API server. Clones are the same
/// writer.
#[derive(Clone, Debug)]
pub struct Writer(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    queue: Mutex<Queue>,
    /// Something was told.
    told: Notify,
    /// A request ended.
    ended: Notify,
    settings: Settings,
    metrics: Metrics,
}

impl Writer {
    /// A writer that knows nothing and writes nothing: [`Writer::run`] must be running, and [`Writer::lead`] be told.
    pub fn new(settings: Settings, metrics: Metrics) -> Self {
        let queue = Mutex::new(Queue::new(Arc::clone(&settings.controller_name), settings.under_way));
        Self(Arc::new(Shared { queue, told: Notify::new(), ended: Notify::new(), settings, metrics }))
    }

    /// What the status of an object shall say from now on, without `lastTransitionTime`; none if it is not ours to judge
    /// any more, and entries of ours are to go. Costs some microseconds: the text is kept, and compared elsewhere.
    pub fn desired(&self, id: &ObjectId, status: Option<&Value>) {
        self.tell(|queue, now| queue.desired(id, status, now));
    }

    /// What the API server has, as the watch says; none if the object is gone.
    pub fn stored(&self, id: &ObjectId, stored: Option<&Stored>) {
        let version = stored.map(|stored| Version {
            uid: &stored.uid,
            resource_version: &stored.resource_version,
            status: stored.status.as_deref().map(RawValue::get),
        });
        self.tell(|queue, now| queue.stored(id, version, now));
    }

    /// Whether this process writes. On taking over, everything is compared once.
    pub fn lead(&self, leads: bool) {
        self.tell(|queue, now| queue.lead(leads, now));
    }

    /// Every object that has a status was told of by [`Writer::desired`], so that entries of ours on any other are stale
    /// and go. To be called once, after the first complete translation.
    pub fn complete(&self) {
        self.tell(Queue::complete);
    }

    /// Waits until no request is under way: after [`Writer::lead`] with `false`, nothing of this process reaches the API
    /// server any more.
    pub async fn quiet(&self) {
        loop {
            let mut ended = pin!(self.0.ended.notified());
            ended.as_mut().enable();
            if self.lock().under_way() == 0 {
                return;
            }
            ended.await;
        }
    }

    /// What is counted.
    pub fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    /// Writes, for ever; to be called once. Dropping the future ends it; what was under way may have been written or not.
    ///
    /// `client` should come from [`client`].
    pub async fn run(&self, client: Client) {
        let mut requests = FuturesUnordered::new();
        loop {
            let step = self.with(|queue, now| queue.next(now, Timestamp::now()));
            let until = match step {
                Step::Do(job) => {
                    let (client, bound) = (client.clone(), self.0.settings.timeout);
                    requests.push(async move {
                        let answer = send(client, &job, bound).await;
                        (job, answer)
                    });
                    continue;
                }
                Step::Again => {
                    tokio::task::yield_now().await;
                    continue;
                }
                Step::Wait(until) => until,
            };
            let time = async {
                match until {
                    Some(until) => sleep_until(until.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                Some((job, answer)) = requests.next() => self.finished(&job, &answer),
                () = self.0.told.notified() => {}
                () = time => {}
            }
        }
    }

    fn finished(&self, job: &Job, answer: &Answer) {
        let report = self.with(|queue, now| queue.finished(&job.id, job.serial, answer.outcome(), now));
        self.0.ended.notify_waiters();
        let metrics = &self.0.metrics;
        match job.request {
            Request::Read => drop(metrics.reads.inc()),
            Request::Write(_) => drop(metrics.writes.get_or_create(&ResultLabel { result: answer.label() }).inc()),
        }
        if let Some(took) = report.took {
            metrics.seconds.observe(took.as_secs_f64());
        }
        if report.tell {
            let (object, why) = (&job.id, answer.message());
            tracing::warn!(%object, why, "cannot write a status; it is tried again");
        }
    }

    fn tell(&self, tell: impl FnOnce(&mut Queue, std::time::Instant)) {
        self.with(tell);
        self.0.told.notify_one();
    }

    /// Everything goes through here, so that the gauge is never wrong for longer than the queue is locked.
    fn with<T>(&self, call: impl FnOnce(&mut Queue, std::time::Instant) -> T) -> T {
        let mut queue = self.lock();
        let result = call(&mut queue, Instant::now().into_std());
        self.0.metrics.queue.set(i64::try_from(queue.len()).unwrap_or(i64::MAX));
        result
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        // The queue does not panic half way; if it did, the next comparison puts right what it left.
        self.0.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
