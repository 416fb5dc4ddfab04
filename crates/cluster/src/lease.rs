//! Which replica leads: whoever holds a Lease (`coordination.k8s.io/v1`).
//!
//! * [`Election`] is the protocol, a state machine without IO that never looks at anybody's wall clock: a lease has run out
//!   when it has not changed for its duration, or for four of ours, as measured here.
//! * [`LeaderElector::run`] is the IO around it. It hands out a [`Leadership`], and never ends the process.
//!
//! Who holds the lease counts its leadership from the moment when it *sent* the renewal, and for less than the lease lasts, so
//! the leadership ends before anybody else's can begin: also while the API server is away, and while an answer does not come.

mod election;
#[cfg(test)]
mod tests;

use std::{
    future::Future,
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use tokio::{sync::watch, time::sleep_until};

pub use self::election::{Election, Record, Step, Taking};

/// Who writes, as the API server notes it.
const FIELD_MANAGER: &str = "portcullis";

/// How a lease is held.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// Who we are: the name of the pod, which no other replica has.
    pub identity: Arc<str>,
    /// For how long nobody else takes a lease after its last renewal. Whole seconds.
    pub duration: Duration,
    /// Between two renewals; less than half of two thirds of `duration`, so that one may fail.
    pub renew: Duration,
    /// Between two attempts, of who does not lead and after a failure.
    pub retry: Duration,
}

impl Settings {
    /// A lease of 15 seconds that is renewed every 5, with 2 between attempts.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>, identity: impl Into<Arc<str>>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
            identity: identity.into(),
            duration: Duration::from_secs(15),
            renew: Duration::from_secs(5),
            retry: Duration::from_secs(2),
        }
    }
}

/// Who leads, as far as is known here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leadership {
    /// Who holds the lease, as it was read last; none if nobody does, or if it was never read.
    pub holder: Option<Arc<str>>,
    /// Until when we lead, unless the lease is renewed before; none if we do not.
    pub until: Option<Instant>,
}

impl Leadership {
    /// Whether we lead.
    pub fn leads(&self) -> bool {
        self.until.is_some()
    }
}

/// Takes part in an election.
#[derive(Debug)]
pub struct LeaderElector {
    election: Election,
    settings: Settings,
    leadership: watch::Sender<Leadership>,
}

/// Why a request came to nothing.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("somebody else wrote it")]
    Conflict,
    #[error("{0}")]
    Other(#[from] kube::Error),
    #[error("no answer in time")]
    Timeout,
    #[error("there is none")]
    Gone,
}

impl LeaderElector {
    /// An elector that does nothing yet, and its leadership. The receiver is woken when the leader changes.
    pub fn new(settings: Settings) -> (Self, watch::Receiver<Leadership>) {
        let (leadership, receiver) = watch::channel(Leadership::default());
        let election = Election::new(&settings, now());
        (Self { election, settings, leadership }, receiver)
    }

    /// Takes the lease and holds it until `shutdown` ends; then gives it back, so that another takes it at its next
    /// attempt. Nothing else ends this. The leadership ends before the lease is given back.
    ///
    /// `client` should come from [`crate::status::client`].
    pub async fn run(mut self, client: Client, shutdown: impl Future<Output = ()>) {
        let leases: Api<Lease> = Api::namespaced(client, &self.settings.namespace);
        let mut shutdown = pin!(shutdown);
        loop {
            let step = self.election.step(now());
            self.publish();
            if let Step::Wait(until) = step {
                tokio::select! {
                    () = sleep_until(until.into()) => continue,
                    () = &mut shutdown => break,
                }
            }
            let sent = now();
            let mut request = pin!(ask(&self.settings, &leases, &step));
            let answer = loop {
                let until = self.leadership.borrow().until;
                let expiry = async {
                    match until {
                        Some(until) => sleep_until(until.into()).await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    answer = &mut request => break Some(answer),
                    () = &mut shutdown => break None,
                    // Leadership does not wait for an answer.
                    () = expiry => self.publish(),
                }
            };
            let now = now();
            match answer {
                None => break,
                Some(Ok(record)) => match (&step, record) {
                    (Step::Read, record) => self.election.read(record, now),
                    (_, Some(record)) => self.election.took(record, sent, now),
                    (_, None) => self.election.failed(now),
                },
                Some(Err(Failure::Conflict)) => self.election.conflict(now),
                Some(Err(error)) => {
                    let leads = self.election.leadership(now).leads();
                    tracing::debug!(lease = self.settings.name, leads, %error, "cannot read or write the lease");
                    self.election.failed(now);
                }
            }
        }
        let led = self.leadership.borrow().leads();
        self.leadership.send_replace(Leadership::default());
        if led && let Err(error) = release(&self.settings, &leases).await {
            tracing::info!(lease = self.settings.name, %error, "cannot give back the lease; it runs out");
        }
    }

    /// Publishes the outcome of the election.
    fn publish(&self) {
        let leadership = self.election.leadership(now());
        self.leadership.send_if_modified(|known| {
            let (led, leads) = (known.leads(), leadership.leads());
            if led != leads {
                tracing::info!(lease = self.settings.name, leads, "leadership turned");
            }
            let turned = led != leads || known.holder != leadership.holder;
            *known = leadership;
            turned
        });
    }
}

/// Makes a request and waits for the answer, at most for as long as until the next renewal. What is written is answered
/// with what the Lease says then.
async fn ask(settings: &Settings, leases: &Api<Lease>, step: &Step) -> Result<Option<Record>, Failure> {
    let request = async {
        let result = match step {
            Step::Read | Step::Wait(_) => return Ok(leases.get_opt(&settings.name).await?.map(record)),
            Step::Take(taking) => take(settings, leases, taking).await,
        };
        result.map(record).map(Some).map_err(failure)
    };
    bounded(settings.renew, request).await
}

async fn take(settings: &Settings, leases: &Api<Lease>, taking: &Taking) -> kube::Result<Lease> {
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
    let mut spec = json!({
        "holderIdentity": settings.identity,
        "leaseDurationSeconds": settings.duration.as_secs().max(1),
        "renewTime": now,
        "leaseTransitions": taking.transitions,
    });
    if taking.acquired {
        spec["acquireTime"] = now.into();
    }
    if let Some(version) = &taking.resource_version {
        return write(settings, leases, version, &spec).await;
    }
    let lease = json!({"metadata": {"name": settings.name}, "spec": spec});
    let lease: Lease = serde_json::from_value(lease).map_err(kube::Error::SerdeError)?;
    let params = PostParams { field_manager: Some(FIELD_MANAGER.into()), ..PostParams::default() };
    leases.create(&params, &lease).await
}

/// Changes the spec of a Lease of this version; labels and whatever else somebody put there stays.
async fn write(settings: &Settings, leases: &Api<Lease>, version: &str, spec: &Value) -> kube::Result<Lease> {
    let patch = json!({"metadata": {"resourceVersion": version}, "spec": spec});
    let params = PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..PatchParams::default() };
    leases.patch(&settings.name, &params, &Patch::Merge(patch)).await
}

/// Gives the lease back if we hold it. A renewal may be on its way still: who meets it looks again.
async fn release(settings: &Settings, leases: &Api<Lease>) -> Result<(), Failure> {
    let attempt = async || {
        let held = record(leases.get_opt(&settings.name).await?.ok_or(Failure::Gone)?);
        if held.holder.as_ref() == Some(&settings.identity) {
            let spec = json!({"holderIdentity": null, "leaseDurationSeconds": 1});
            write(settings, leases, &held.resource_version, &spec).await.map_err(failure)?;
        }
        Ok(())
    };
    let request = async {
        loop {
            match attempt().await {
                Err(Failure::Conflict) => {}
                ended => return ended,
            }
        }
    };
    bounded(settings.renew, request).await
}

async fn bounded<T>(bound: Duration, request: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::time::timeout(bound, request).await.unwrap_or(Err(Failure::Timeout))
}

fn failure(error: kube::Error) -> Failure {
    match error {
        kube::Error::Api(status) if status.code == 409 => Failure::Conflict,
        kube::Error::Api(status) if status.code == 404 => Failure::Gone,
        error => Failure::Other(error),
    }
}

fn record(lease: Lease) -> Record {
    let spec = lease.spec.unwrap_or_default();
    let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok()).filter(|s| *s > 0);
    Record {
        holder: spec.holder_identity.filter(|holder| !holder.is_empty()).map(Arc::from),
        duration: seconds.map(Duration::from_secs),
        transitions: spec.lease_transitions.unwrap_or_default(),
        times: [spec.acquire_time, spec.renew_time].map(|time| time.map(|time| time.0.to_string())),
        resource_version: lease.metadata.resource_version.unwrap_or_default(),
    }
}

/// The clock of the runtime, which tests may stop.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
