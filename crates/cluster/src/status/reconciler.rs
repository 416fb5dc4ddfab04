//! Which status is to be written next: a state machine without IO and without a clock.
//!
//! For each object it knows what is desired and what the API server has. A [`WorkQueue`] says whose turn it is. A newer
//! status of an object replaces the one before it, and at most one request of an object is in flight.

mod agreed;
mod entry;
mod patch;
#[cfg(test)]
mod property;
mod rival;
#[cfg(test)]
mod tests;

use std::{
    collections::{HashMap, HashSet},
    hash::{BuildHasher, RandomState},
    sync::Arc,
    time::{Duration, Instant},
};

use api::{Kind, ObjectId, StatusKind};
use jiff::Timestamp;

use self::{
    agreed::Agreed,
    entry::{DesiredStatus, Entry, Hold, InFlight, Known},
    patch::{merged, patch},
    rival::{Contested, Turn},
};
use super::compact::Interner;
use crate::{
    watch::Stored,
    workqueue::{Backoff, Concurrency, LONGEST_PAUSE, Next, Reconcile, UNAVAILABLE, WorkQueue},
};

/// How long the watch may take to bring what caused a conflict, before the object is read.
const NEWS_BOUND: Duration = Duration::from_secs(2);
/// How long older versions from the watch are taken for older than what our own write was answered.
const AHEAD_BOUND: Duration = Duration::from_secs(30);
/// Between two writes of one object.
const SPACING: Duration = Duration::from_millis(50);
/// From one refusal to the next attempt. An object that changes is tried after the first delay.
const REFUSED: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_mins(5));
/// After a failure that concerns one object.
const FAILED: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_mins(1));
/// So many objects are compared in one step, so that whoever else wants the state machine gets it.
const COMPARED_AT_ONCE: usize = 16;

/// A request to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Job {
    /// The object.
    pub(super) id: ObjectId,
    /// What to do.
    pub(super) request: Request,
}

/// What to do with an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// Apply this merge patch to the status; it names the `resourceVersion` that it was made for.
    Write(String),
    /// Read the object.
    Read,
    /// The same, and note who else writes to its status.
    Who,
}

/// How a request ended. Messages are those of whoever answered.
#[derive(Debug)]
pub(super) enum Outcome {
    /// Well: this is what the API server has now, and who else wrote to the status last, if that was asked.
    Done { stored: Stored, other_writer: Option<String> },
    /// The object is not of the version that the patch was made for.
    Conflict,
    /// There is no such object.
    Gone,
    /// The API server does not want it, with this HTTP status code, and will not want it again.
    Refused { code: u16, message: String },
    /// It may work later, and not before the time that the API server asks for. `everywhere` says that other objects would
    /// fare alike: the API server is away or overloaded.
    Later { after: Option<Duration>, everywhere: bool, message: String },
}

/// What came of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Report {
    /// How long the written status had been desired; none if nothing was written, or if nothing but the object changed.
    pub(super) took: Option<Duration>,
    /// Whether this refusal or failure is to be logged: it is the first of its kind.
    pub(super) log: bool,
}

/// The state machine.
#[derive(Debug)]
pub(super) struct Reconciler {
    controller_name: Arc<str>,
    interner: Interner,
    hasher: RandomState,
    agreed: Agreed,
    queue: WorkQueue<ObjectId>,
    entries: HashMap<ObjectId, Entry>,
    complete: bool,
    /// Kinds whose statuses we may not write, as was logged.
    forbidden: HashSet<(Kind, u16)>,
    contested: Contested,
}

impl Reconcile for Reconciler {
    fn pending(&self) -> usize {
        self.queue.len()
    }

    fn in_flight(&self) -> usize {
        self.queue.processing()
    }
}

impl Reconciler {
    /// A state machine that knows nothing and does not lead. At most `limit` requests are in flight at once.
    pub(super) fn new(controller_name: impl Into<Arc<str>>, limit: usize) -> Self {
        Self {
            controller_name: controller_name.into(),
            interner: Interner::default(),
            hasher: RandomState::new(),
            agreed: Agreed::default(),
            queue: WorkQueue::new(Concurrency { max: limit, min: 1 }),
            entries: HashMap::new(),
            complete: false,
            forbidden: HashSet::new(),
            contested: Contested::default(),
        }
    }

    /// What a status shall say from now on, as JSON; none if the object is not ours to judge any more.
    pub(super) fn desired(&mut self, id: &ObjectId, status: Option<&str>, now: Instant) {
        if !id.kind.has_status_of_ours() {
            return;
        }
        let names_controllers = matches!(id.kind.status(), StatusKind::Route | StatusKind::Policy);
        let text = status.map(|status| self.interner.intern(status));
        let entry = self.entries.entry(id.clone()).or_default();
        let desired = match (text, std::mem::take(&mut entry.desired)) {
            (Some(text), _) => DesiredStatus::Status(text),
            (None, DesiredStatus::Status(text) | DesiredStatus::Withdrawn(text)) if !names_controllers => {
                DesiredStatus::Withdrawn(text)
            }
            (None, _) => DesiredStatus::None,
        };
        let digest = desired.digest(&self.hasher);
        entry.desired = desired;
        if entry.desired_digest.replace(digest) == Some(digest) {
            return;
        }
        entry.since.get_or_insert(now);
        self.touch(id, false, now);
        self.forget_if_empty(id);
    }

    /// What the API server has, as the watch says; none if the object is gone.
    pub(super) fn stored(&mut self, id: &ObjectId, stored: Option<&Stored>, now: Instant) {
        if !id.kind.has_status_of_ours() {
            return;
        }
        let Some(stored) = stored else {
            if self.entries.contains_key(id) {
                self.learn(id, None);
                self.touch(id, true, now);
                self.forget_if_empty(id);
            }
            return;
        };
        let entry = self.entries.entry(id.clone()).or_default();
        if let Some(known) = &mut entry.known {
            if known.resource_version == stored.resource_version {
                known.ahead_until = None;
                return;
            }
            let ahead = known.ahead_until.is_some_and(|until| now < until);
            if ahead && older(&stored.resource_version, &known.resource_version) {
                return;
            }
        }
        let known = Known::new(stored, None, &mut self.interner, &self.hasher);
        self.learn(id, Some(known));
        self.touch(id, true, now);
    }

    /// What the API server has of an object. One that was made anew waits for nothing that the one before it waited for.
    fn learn(&mut self, id: &ObjectId, known: Option<Known>) {
        if self.entries.get_mut(id).is_some_and(|entry| entry.learn(known)) {
            self.contested.remove(id);
            self.queue.forget(id);
        }
    }

    /// Whether this process writes. Who begins to lead compares everything once.
    pub(super) fn lead(&mut self, leads: bool, now: Instant) {
        if leads == self.queue.is_open() {
            return;
        }
        self.contested.clear();
        self.queue.reset(leads);
        for (id, entry) in &mut self.entries {
            (entry.earliest, entry.rival, entry.hold) = (None, None, None);
            if leads && entry.in_flight.is_none() {
                entry.since = Some(now);
            }
            self.queue.add(id, now);
        }
    }

    /// All desired statuses are known: any other object that has entries of ours is to lose them.
    pub(super) fn complete(&mut self, now: Instant) {
        if std::mem::replace(&mut self.complete, true) {
            return;
        }
        let unknown = self.entries.iter().filter(|(_, entry)| entry.desired == DesiredStatus::Unknown);
        for id in unknown.map(|(id, _)| id.clone()).collect::<Vec<_>>() {
            self.touch(&id, false, now);
        }
    }

    /// What to do now. `wall` is the time that is written.
    pub(super) fn next(&mut self, now: Instant, wall: Timestamp) -> Next<Job> {
        for _ in 0..COMPARED_AT_ONCE {
            let id = match self.queue.get(now) {
                Ok(id) => id,
                Err(until) => return Next::Wait(until),
            };
            if let Some(request) = self.request(&id, now, wall) {
                return Next::Start(Job { id, request });
            }
        }
        Next::Again
    }

    /// The request for an object whose turn it is; none if there is nothing to do, or not yet.
    fn request(&mut self, id: &ObjectId, now: Instant, wall: Timestamp) -> Option<Request> {
        let entry = self.entries.entry(id.clone()).or_default();
        let request = if matches!(entry.hold.take(), Some(Hold::Conflict)) {
            Request::Read
        } else {
            let question = self.hasher.hash_one(entry.question(id.kind, self.complete));
            let merged =
                self.agreed.or_merge(question, || merged(id, entry, &self.controller_name, self.complete, wall));
            let Some(body) = merged.and_then(|status| patch(entry, status, &self.hasher)) else {
                // Nobody waits for anything any more, unless the object is yet to come.
                if entry.known.is_some() {
                    entry.since = None;
                }
                self.queue.done(id);
                self.queue.forget(id);
                return None;
            };
            match self.contested.turn(id, now, || entry.overwritten(now, &self.hasher)) {
                Some(Turn::Wait(until)) => {
                    entry.hold = Some(Hold::Overwritten);
                    self.queue.done(id);
                    self.queue.add(id, until);
                    return None;
                }
                Some(Turn::Ask) => Request::Who,
                Some(Turn::Write) | None => Request::Write(body),
            }
        };
        entry.in_flight = Some(Box::new(InFlight {
            since: entry.since.take(),
            desired_digest: entry.desired_digest,
            resource_version: entry.known.as_ref().map(|known| Arc::clone(&known.resource_version)),
            read: !matches!(request, Request::Write(_)),
        }));
        Some(request)
    }

    /// How a request ended.
    pub(super) fn finished(&mut self, id: &ObjectId, outcome: &Outcome, now: Instant) -> Report {
        let changed = self.queue.done(id);
        let mut report = Report::default();
        let Some(entry) = self.entries.get_mut(id) else { return report };
        let Some(in_flight) = entry.in_flight.take() else { return report };
        let InFlight { since, desired_digest, resource_version, read } = *in_flight;
        let news = entry.known.as_ref().map(|known| &known.resource_version) != resource_version.as_ref();
        if !matches!(outcome, Outcome::Later { everywhere: true, .. }) {
            self.queue.throttle.available();
        }
        if read || !matches!(outcome, Outcome::Done { .. }) {
            entry.since = since.or(entry.since);
        }
        // Whether the object is looked at again, and if not, until when and why it waits.
        let (again, held) = match outcome {
            Outcome::Done { stored, .. } => {
                self.queue.forget(id);
                entry.refusal = None;
                self.forbidden.retain(|(kind, _)| *kind != id.kind || read);
                // While it was in flight the watch may have brought what came after, or that the object is gone.
                let newer = entry.known.as_ref().is_none_or(|known| {
                    known.uid != entry::digest(&self.hasher, &*stored.uid)
                        || older(&stored.resource_version, &known.resource_version)
                });
                let known = Known::new(stored, Some(now + AHEAD_BOUND), &mut self.interner, &self.hasher);
                let digest = known.digest(&self.hasher);
                if !(news && newer) && entry.learn(Some(known)) {
                    self.contested.remove(id);
                }
                if !read {
                    entry.written();
                    if !(news && newer) {
                        entry.wrote = Some((desired_digest, digest));
                    }
                    report.took = since.map(|since| now.saturating_duration_since(since));
                    entry.earliest = Some(now + SPACING);
                }
                (changed || read, None)
            }
            Outcome::Conflict => {
                entry.written();
                (news, Some((now + NEWS_BOUND, Hold::Conflict)))
            }
            Outcome::Gone => {
                self.queue.forget(id);
                if !news && entry.learn(None) {
                    self.contested.remove(id);
                }
                (news, None)
            }
            Outcome::Refused { code, message } => {
                let digest = entry::digest(&self.hasher, &(code, message));
                // What we may not do at all is logged once a kind.
                report.log = match *code {
                    code @ 403..=405 => self.forbidden.insert((id.kind, code)),
                    _ => entry.refusal.replace(digest) != Some(digest),
                };
                let earliest = now + REFUSED.base;
                let until = now + REFUSED.delay(self.queue.failed(id));
                (false, Some((if changed { earliest } else { until }, Hold::Refused { earliest })))
            }
            Outcome::Later { after, everywhere, .. } => {
                let failures = self.queue.failed(id);
                let after = after.unwrap_or_default().min(LONGEST_PAUSE);
                let backoff = if *everywhere { UNAVAILABLE } else { FAILED };
                report.log = if *everywhere { self.queue.throttle.unavailable(after, now) } else { failures == 1 };
                (false, Some((now + backoff.delay(failures).max(after), Hold::Failed)))
            }
        };
        if again {
            self.queue.add(id, entry.not_before(now));
        } else if let Some((until, hold)) = held {
            entry.hold = Some(hold);
            self.queue.add(id, until);
        }
        self.forget_if_empty(id);
        report
    }

    /// Somebody else writes to the status of this object; gives whether that is not known of any other.
    pub(super) fn named(&mut self, id: &ObjectId, by: &str) -> bool {
        self.contested.named(id, by)
    }

    /// The objects whose status somebody overwrites again and again, and who it is, as far as it was found out.
    pub(super) fn contested(&mut self, now: Instant) -> impl Iterator<Item = (&ObjectId, Option<&str>)> {
        self.contested.objects(now)
    }

    /// How often a status of ours was found to be overwritten, since this was last asked.
    pub(super) fn take_overwritten(&mut self) -> u64 {
        self.contested.take_found()
    }

    /// Something about an object changed: with `news` what is stored, and otherwise what is desired.
    fn touch(&mut self, id: &ObjectId, news: bool, now: Instant) {
        let Some(entry) = self.entries.get_mut(id) else { return };
        let at = match entry.hold {
            None => entry.not_before(now),
            Some(Hold::Refused { earliest }) => earliest,
            // The watch explains a conflict. A status that is desired anew was overwritten by nobody yet.
            Some(Hold::Conflict) if news => entry.not_before(now),
            Some(Hold::Overwritten) if !news => entry.not_before(now),
            Some(Hold::Conflict | Hold::Overwritten | Hold::Failed) => return,
        };
        entry.hold = entry.hold.filter(|hold| matches!(hold, Hold::Refused { .. }));
        self.queue.add(id, at);
    }

    /// Nothing is kept of an object that does not exist and of which no status is desired.
    fn forget_if_empty(&mut self, id: &ObjectId) {
        let Some(entry) = self.entries.get(id) else { return };
        let desired = matches!(entry.desired, DesiredStatus::Status(_));
        if entry.known.is_none() && !desired && entry.in_flight.is_none() {
            self.queue.remove(id);
            self.entries.remove(id);
        }
    }
}

/// Whether `a` is a version from before `b`. Versions are numbers that grow; what is no number is not compared.
fn older(a: &str, b: &str) -> bool {
    match (a.parse::<u64>(), b.parse::<u64>()) {
        (Ok(a), Ok(b)) => a < b,
        _ => false,
    }
}
