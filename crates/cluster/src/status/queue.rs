//! Which status is to be written next: a state machine without IO and without a clock.
//!
//! For each object it knows what is desired and what the API server has, and what is being done about the difference.
//! Nothing queues up: a newer word about an object replaces the older one. At most one request of an object is under way.

mod agreed;
mod entry;
mod pace;
mod patch;
#[cfg(test)]
mod property;
mod rival;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    hash::{BuildHasher, RandomState},
    sync::Arc,
    time::{Duration, Instant},
};

use api::{Kind, ObjectId};
use jiff::Timestamp;

use self::{
    agreed::Agreed,
    entry::{Entry, Known, Phase, Said, Waiting},
    pace::{AWAY, Pace},
    patch::{merged, patch},
    rival::{Contested, Turn},
};
use super::compact::Texts;
use crate::{backoff, driven::Machine};

/// How long the watch may take to bring what caused a conflict, before the object is read.
const NEWS_BOUND: Duration = Duration::from_secs(2);
/// How long older versions from the watch are taken for older than what our own write was answered.
const AHEAD_BOUND: Duration = Duration::from_secs(30);
/// Between two writes of one object.
const SPACING: Duration = Duration::from_millis(50);
/// After a refusal, from one to the next; something that turns is tried after the first.
const REFUSED: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(5));
/// After a failure that concerns one object.
const FAILED: (Duration, Duration) = (Duration::from_millis(100), Duration::from_mins(1));
/// No API server is believed to want a longer pause.
const LONGEST_PAUSE: Duration = Duration::from_mins(5);
/// So many objects are compared in one step, so that who else wants the queue gets it.
const COMPARED_AT_ONCE: usize = 16;

/// What the API server has of an object.
#[derive(Clone, Copy, Debug)]
pub struct Version<'a> {
    /// `metadata.uid`.
    pub uid: &'a str,
    /// `metadata.resourceVersion`.
    pub resource_version: &'a str,
    /// The status as JSON; none if there is none.
    pub status: Option<&'a str>,
}

/// A request to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// The object.
    pub id: ObjectId,
    /// Tells requests apart.
    pub serial: u64,
    /// What to do.
    pub request: Request,
}

/// What to do with an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Apply this merge patch to the status; it names the `resourceVersion` that it was made for.
    Write(String),
    /// Read the object.
    Read,
    /// The same, and note who else writes to its status.
    Who,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Make a request, and ask again.
    Do(Job),
    /// Ask again, after others had their turn.
    Again,
    /// Nothing until then, or until something is told.
    Wait(Option<Instant>),
}

/// How a request ended.
#[derive(Clone, Copy, Debug)]
pub enum Outcome<'a> {
    /// Well: this is what the API server has now.
    Done(Version<'a>),
    /// The object is not of the version that the patch was made for.
    Conflict,
    /// There is no such object.
    Gone,
    /// The API server does not want it, and will not want it again.
    Refused {
        /// The HTTP status code.
        code: u16,
        /// In the words of the API server.
        message: &'a str,
    },
    /// It may work later.
    Later {
        /// When the API server wants to be asked again at the earliest.
        after: Option<Duration>,
        /// Whether other objects would fare alike: the API server is away or overloaded.
        everywhere: bool,
    },
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// How long the written status had been desired; none if nothing was written, or if nothing but the object turned.
    pub took: Option<Duration>,
    /// Whether this refusal or failure is to be told: it is the first of its kind.
    pub tell: bool,
}

/// The state machine.
#[derive(Debug)]
pub struct Queue {
    controller_name: Arc<str>,
    pace: Pace,
    texts: Texts,
    hasher: RandomState,
    agreed: Agreed,
    entries: HashMap<ObjectId, Entry>,
    /// Objects to be looked at, each once. Those that are not in [`Phase::Queued`] any more are passed over.
    line: VecDeque<ObjectId>,
    queued: usize,
    timers: BTreeMap<(Instant, u64), ObjectId>,
    serial: u64,
    under_way: usize,
    leads: bool,
    complete: bool,
    /// Kinds whose statuses we may not write, as was told.
    forbidden: HashSet<(Kind, u16)>,
    contested: Contested,
}

impl Machine for Queue {
    fn len(&self) -> usize {
        Self::len(self)
    }

    fn under_way(&self) -> usize {
        Self::under_way(self)
    }
}

impl Queue {
    /// A queue that knows nothing and does not lead. At most `limit` requests are under way at once.
    pub fn new(controller_name: impl Into<Arc<str>>, limit: usize) -> Self {
        Self {
            controller_name: controller_name.into(),
            pace: Pace::new(limit),
            texts: Texts::default(),
            hasher: RandomState::new(),
            agreed: Agreed::default(),
            entries: HashMap::new(),
            line: VecDeque::new(),
            queued: 0,
            timers: BTreeMap::new(),
            serial: 0,
            under_way: 0,
            leads: false,
            complete: false,
            forbidden: HashSet::new(),
            contested: Contested::default(),
        }
    }

    /// What a status shall say from now on, as JSON; none if the object is not ours to judge any more.
    pub fn desired(&mut self, id: &ObjectId, status: Option<&str>, now: Instant) {
        if !id.kind.has_status_of_ours() {
            return;
        }
        let names_controllers = !matches!(id.kind, Kind::Gateway | Kind::GatewayClass);
        let text = status.map(|status| self.texts.keep(status));
        let entry = self.entries.entry(id.clone()).or_default();
        let said = match (text, std::mem::take(&mut entry.said)) {
            (Some(text), _) => Said::Is(text),
            (None, Said::Is(text) | Said::Was(text)) if !names_controllers => Said::Was(text),
            (None, _) => Said::Nothing,
        };
        let turned = entry.last != Some(said.digest(&self.hasher));
        entry.said = said;
        if !turned {
            return;
        }
        entry.last = Some(entry.said.digest(&self.hasher));
        entry.since.get_or_insert(now);
        self.touch(id, false, now);
        self.forget_if_empty(id);
    }

    /// What the API server has, as the watch says; none if the object is gone.
    pub fn stored(&mut self, id: &ObjectId, version: Option<Version<'_>>, now: Instant) {
        if !id.kind.has_status_of_ours() {
            return;
        }
        let Some(version) = version else {
            if self.entries.contains_key(id) {
                self.learn(id, None);
                self.touch(id, true, now);
                self.forget_if_empty(id);
            }
            return;
        };
        let entry = self.entries.entry(id.clone()).or_default();
        if let Some(known) = &mut entry.known {
            if *known.resource_version == *version.resource_version {
                known.ahead_until = None;
                return;
            }
            let ahead = known.ahead_until.is_some_and(|until| now < until);
            if ahead && older(version.resource_version, &known.resource_version) {
                return;
            }
        }
        let known = Known::new(version, None, &mut self.texts, &self.hasher);
        self.learn(id, Some(known));
        self.touch(id, true, now);
    }

    /// What the API server has of an object. One that was made anew waits for nothing that the one before it waited for.
    fn learn(&mut self, id: &ObjectId, known: Option<Known>) {
        let Some(entry) = self.entries.get_mut(id) else { return };
        if !entry.learn(known) {
            return;
        }
        self.contested.remove(id);
        if let Phase::Waiting { key, .. } = entry.phase {
            self.timers.remove(&key);
            entry.phase = Phase::Idle;
        }
    }

    /// Whether this process writes. Who begins to lead compares everything once.
    pub fn lead(&mut self, leads: bool, now: Instant) {
        if leads == self.leads {
            return;
        }
        self.leads = leads;
        self.line.clear();
        self.queued = 0;
        self.timers.clear();
        self.pace.reset();
        self.contested.clear();
        for (id, entry) in &mut self.entries {
            entry.failures = 0;
            entry.earliest = None;
            entry.rival = None;
            if let Phase::UnderWay { turned, .. } = &mut entry.phase {
                *turned = leads;
                continue;
            }
            entry.phase = Phase::Idle;
            if leads {
                entry.since = Some(now);
                entry.phase = Phase::Queued { read: false };
                self.line.push_back(id.clone());
                self.queued += 1;
            }
        }
    }

    /// Everything that has a status was told of: whatever was not, and has entries of ours, is to lose them.
    pub fn complete(&mut self, now: Instant) {
        if std::mem::replace(&mut self.complete, true) {
            return;
        }
        let untold: Vec<_> =
            self.entries.iter().filter(|(_, entry)| entry.said == Said::Untold).map(|(id, _)| id.clone()).collect();
        for id in untold {
            self.touch(&id, false, now);
        }
    }

    /// What to do now. `wall` is the time that is written.
    pub fn next(&mut self, now: Instant, wall: Timestamp) -> Step {
        if !self.leads {
            return Step::Wait(None);
        }
        if let Some(until) = self.pace.paused(now) {
            return Step::Wait(Some(until));
        }
        while let Some((key, id)) = self.timers.pop_first() {
            if key.0 > now {
                self.timers.insert(key, id);
                break;
            }
            let Some(entry) = self.entries.get_mut(&id) else { continue };
            let read = matches!(&entry.phase, Phase::Waiting { why: Waiting::News, .. });
            entry.phase = Phase::Queued { read };
            self.queued += 1;
            self.line.push_back(id);
        }
        if self.under_way >= self.pace.room() {
            return Step::Wait(None);
        }
        for _ in 0..COMPARED_AT_ONCE {
            let Some(id) = self.line.pop_front() else {
                return Step::Wait(self.timers.first_key_value().map(|((at, _), _)| *at));
            };
            if let Some(job) = self.begin(id, now, wall) {
                return Step::Do(job);
            }
        }
        Step::Again
    }

    /// Looks at an object whose turn it is.
    fn begin(&mut self, id: ObjectId, now: Instant, wall: Timestamp) -> Option<Job> {
        let entry = self.entries.get_mut(&id)?;
        let Phase::Queued { read } = entry.phase else { return None };
        self.queued -= 1;
        entry.phase = Phase::Idle;
        let request = if read {
            Request::Read
        } else {
            let question = self.hasher.hash_one(entry.question(id.kind, self.complete));
            let merged =
                self.agreed.or_merge(question, || merged(&id, entry, &self.controller_name, self.complete, wall));
            let Some(body) = merged.and_then(|status| patch(entry, status, &self.hasher)) else {
                // Nobody waits for anything any more, unless the object is yet to come.
                if entry.known.is_some() {
                    entry.since = None;
                }
                entry.failures = 0;
                return None;
            };
            match self.contested.turn(&id, now, || entry.overwritten(now, &self.hasher)) {
                Some(Turn::Wait(until)) => {
                    self.wait(&id, until, Waiting::Rival);
                    return None;
                }
                Some(Turn::Ask) => Request::Who,
                Some(Turn::Write) | None => Request::Write(body),
            }
        };
        let read = request == Request::Who || read;
        self.serial += 1;
        self.under_way += 1;
        let resource_version = entry.known.as_ref().map(|known| Arc::clone(&known.resource_version));
        let (since, said) = (entry.since.take(), entry.last);
        entry.phase = Phase::UnderWay { serial: self.serial, turned: false, since, said, resource_version, read };
        Some(Job { id, serial: self.serial, request })
    }

    /// How a request ended.
    pub fn finished(&mut self, id: &ObjectId, serial: u64, outcome: Outcome<'_>, now: Instant) -> Report {
        self.under_way -= 1;
        let mut report = Report::default();
        let Some(entry) = self.entries.get_mut(id) else { return report };
        let before = std::mem::take(&mut entry.phase);
        let Phase::UnderWay { serial: expected, turned, since, said, resource_version, read } = before else {
            entry.phase = before;
            return report;
        };
        debug_assert_eq!(serial, expected, "an object has one request under way");
        let news = entry.known.as_ref().map(|known| &known.resource_version) != resource_version.as_ref();
        if !matches!(outcome, Outcome::Later { everywhere: true, .. }) {
            self.pace.answered();
        }
        let mut again = turned;
        let mut waiting = None;
        match outcome {
            Outcome::Done(version) => {
                entry.failures = 0;
                entry.told = None;
                if !read {
                    entry.written();
                }
                self.forbidden.retain(|(kind, _)| *kind != id.kind || read);
                // While it was under way the watch may have brought what came after, or that the object is gone.
                let newer = entry.known.as_ref().is_none_or(|known| {
                    known.uid != entry::digest(&self.hasher, version.uid)
                        || older(version.resource_version, &known.resource_version)
                });
                if read {
                    again = true;
                    entry.since = entry.since.or(since);
                }
                if !(news && newer) {
                    let ahead_until = Some(now + AHEAD_BOUND);
                    let known = Known::new(version, ahead_until, &mut self.texts, &self.hasher);
                    if entry.learn(Some(known)) {
                        self.contested.remove(id);
                    }
                    if !read {
                        entry.wrote = entry.known.as_ref().map(|known| (said, known.digest(&self.hasher)));
                    }
                }
                if !read {
                    report.took = since.map(|since| now.saturating_duration_since(since));
                    entry.earliest = Some(now + SPACING);
                }
            }
            Outcome::Conflict => {
                entry.written();
                entry.since = since.or(entry.since);
                again = news;
                if !news {
                    waiting = Some((now + NEWS_BOUND, Waiting::News));
                }
            }
            Outcome::Gone => {
                entry.failures = 0;
                entry.since = since.or(entry.since);
                again = news;
                if !news && entry.learn(None) {
                    self.contested.remove(id);
                }
            }
            Outcome::Refused { code, message } => {
                entry.since = since.or(entry.since);
                entry.failures += 1;
                let digest = entry::digest(&self.hasher, &(code, message));
                // What we may not do at all is told once a kind.
                report.tell = match code {
                    403..=405 => self.forbidden.insert((id.kind, code)),
                    _ => entry.told.replace(digest) != Some(digest),
                };
                again = false;
                let earliest = now + REFUSED.0;
                let until = now + backoff::wait(entry.failures, REFUSED.0, REFUSED.1);
                waiting = Some((if turned { earliest } else { until }, Waiting::Refused { earliest }));
            }
            Outcome::Later { after, everywhere } => {
                entry.since = since.or(entry.since);
                entry.failures += 1;
                again = false;
                let after = after.unwrap_or_default().min(LONGEST_PAUSE);
                let (first, longest) = if everywhere { AWAY } else { FAILED };
                let until = now + backoff::wait(entry.failures, first, longest).max(after);
                waiting = Some((until, Waiting::Failed));
                report.tell = if everywhere { self.pace.failed(after, now) } else { entry.failures == 1 };
            }
        }
        if self.leads {
            if let Some((until, why)) = waiting.filter(|_| !again) {
                self.wait(id, until, why);
            } else if again {
                self.enqueue(id, now);
            }
        }
        self.forget_if_empty(id);
        report
    }

    /// Somebody else writes to the status of this object; gives whether that is not known of any other.
    pub fn named(&mut self, id: &ObjectId, by: &str) -> bool {
        self.contested.named(id, by)
    }

    /// The objects about which somebody overwrites our words again and again, and who it is, as far as it was found out.
    pub fn contested(&mut self, now: Instant) -> impl Iterator<Item = (&ObjectId, Option<&str>)> {
        self.contested.objects(now)
    }

    /// How often words of ours were found to be overwritten, since this was last asked.
    pub fn take_overwritten(&mut self) -> u64 {
        self.contested.take_found()
    }

    /// Objects that are to be looked at, that wait, or that have a request under way.
    pub fn len(&self) -> usize {
        self.queued + self.timers.len() + self.under_way
    }

    /// Whether there is nothing to be done.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Requests that are under way.
    pub fn under_way(&self) -> usize {
        self.under_way
    }

    /// Something about an object turned.
    fn touch(&mut self, id: &ObjectId, news: bool, now: Instant) {
        if !self.leads {
            // Who does not lead still learns what ended under way.
            return;
        }
        let Some(entry) = self.entries.get_mut(id) else { return };
        match &mut entry.phase {
            Phase::Idle => self.enqueue(id, now),
            Phase::Queued { .. } => {}
            Phase::UnderWay { turned, .. } => *turned = true,
            Phase::Waiting { key, why } => {
                let key = *key;
                match *why {
                    Waiting::News if news => {
                        self.timers.remove(&key);
                        self.enqueue(id, now);
                    }
                    Waiting::Refused { earliest } if earliest < key.0 => {
                        self.timers.remove(&key);
                        self.wait(id, earliest, Waiting::Refused { earliest });
                    }
                    // Other words are nobody's quarrel yet.
                    Waiting::Rival if !news => {
                        self.timers.remove(&key);
                        self.enqueue(id, now);
                    }
                    _ => {}
                }
            }
        }
    }

    /// Puts an object into the line, or has it wait until it may.
    fn enqueue(&mut self, id: &ObjectId, now: Instant) {
        let Some(entry) = self.entries.get_mut(id) else { return };
        if let Some(earliest) = entry.earliest.take().filter(|earliest| now < *earliest) {
            return self.wait(id, earliest, Waiting::Spacing);
        }
        entry.phase = Phase::Queued { read: false };
        self.queued += 1;
        self.line.push_back(id.clone());
    }

    fn wait(&mut self, id: &ObjectId, until: Instant, why: Waiting) {
        let Some(entry) = self.entries.get_mut(id) else { return };
        self.serial += 1;
        let key = (until, self.serial);
        entry.phase = Phase::Waiting { key, why };
        self.timers.insert(key, id.clone());
    }

    /// Nothing is kept of an object that does not exist and of which nothing is to be said.
    fn forget_if_empty(&mut self, id: &ObjectId) {
        let Some(entry) = self.entries.get(id) else { return };
        let wanted = matches!(entry.said, Said::Is(_));
        if entry.known.is_some() || wanted || matches!(entry.phase, Phase::UnderWay { .. }) {
            return;
        }
        match entry.phase {
            Phase::Waiting { key, .. } => {
                self.timers.remove(&key);
            }
            Phase::Queued { .. } => self.queued -= 1,
            _ => {}
        }
        self.entries.remove(id);
    }
}

/// Whether `a` is a version from before `b`. Versions are numbers that grow; what is no number is not compared.
fn older(a: &str, b: &str) -> bool {
    match (a.parse::<u64>(), b.parse::<u64>()) {
        (Ok(a), Ok(b)) => a < b,
        _ => false,
    }
}
