//! Which Gateway's objects are to be looked at next: a state machine without IO and without a clock.
//!
//! For each Gateway it knows what is desired and what was made of it. At most one job of a Gateway is under way; a newer
//! word about it replaces the older one.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque, hash_map},
    sync::Arc,
    time::{Duration, Instant},
};

use ir::NsName;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use super::{
    kind::Kind,
    object::{Known, ObjectKey, Print, owner},
};
use crate::{backoff, driven::Machine};

/// After something that somebody else changed, before it is put right: who changes it again and again does not keep us
/// busy.
const SPACING: Duration = Duration::from_secs(1);
/// After a failure that may be over in a moment.
const SOON: (Duration, Duration) = (Duration::from_millis(200), Duration::from_mins(1));
/// After a refusal, from one to the next.
const REFUSED: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));
/// After a failure that concerns all: the API server is away or has too much to do.
const AWAY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// What a Gateway's objects shall be.
pub type Desired = Vec<Arc<Value>>;
/// What is known to be there of a Gateway's objects.
pub type Ledger = BTreeMap<ObjectKey, Known>;

/// What could not be done with an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Kind and name.
    pub object: String,
    /// Why, in the words of the API server where it has some.
    pub message: String,
}

/// A Gateway to be worked on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// The Gateway.
    pub owner: NsName,
    /// What is to be there; everything else of the ledger goes.
    pub objects: Desired,
    /// What is there.
    pub ledger: Ledger,
}

/// When a failure may be over. The first is the soonest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Retry {
    /// For all objects alike: the API server is away or overloaded.
    Everywhere,
    /// What is known of the object is out of date.
    Conflict,
    /// In a moment.
    Soon,
    /// When something else changed.
    Refused,
}

/// How a job ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What is there now.
    pub ledger: Ledger,
    /// What was not done.
    pub failures: Vec<Failure>,
    /// When to try it again.
    pub retry: Option<Retry>,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Look for what is there of ours, and ask again.
    List,
    /// Work on a Gateway, and ask again.
    Do(Job),
    /// Nothing until then, or until something is told.
    Wait(Option<Instant>),
}

#[derive(Clone, Debug, Default)]
enum Wish {
    /// Nobody spoke of it: objects were found.
    #[default]
    Untold,
    /// What is there stays, since nobody knows what shall be.
    Kept,
    Nothing,
    Is(Desired),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Idle,
    Queued,
    UnderWay,
    Waiting((Instant, u64)),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Listing {
    Needed,
    UnderWay,
    Done,
}

/// What the watch said of an object.
#[derive(Clone, Debug)]
enum News {
    Seen { uid: Arc<str>, print: Print },
    Gone,
}

#[derive(Clone, Debug, Default)]
struct Entry {
    wish: Wish,
    ledger: Ledger,
    phase: Phase,
    /// What is desired turned while a job was under way.
    turned: bool,
    /// What the watch said last while a job was under way: what it said before may be of that job's own making.
    news: BTreeMap<ObjectKey, News>,
    failures: u32,
    told: Vec<Failure>,
}

/// The state machine.
#[derive(Debug)]
pub struct Queue {
    limit: usize,
    entries: HashMap<NsName, Entry>,
    /// Gateways to be looked at. Those that are not in [`Phase::Queued`] any more are passed over.
    line: VecDeque<NsName>,
    timers: BTreeMap<(Instant, u64), NsName>,
    serial: u64,
    under_way: usize,
    leads: bool,
    complete: bool,
    listing: Listing,
    /// What others did since it was last asked, and objects whose last attempt failed.
    foreign_changes: u64,
    failing: usize,
    /// Failures in a row that concern all, and until when nothing is tried.
    failures: u32,
    paused: Option<Instant>,
}

impl Queue {
    /// A queue that knows nothing and does not lead. At most `limit` Gateways are worked on at once.
    pub fn new(limit: usize) -> Self {
        Self {
            limit: limit.max(1),
            entries: HashMap::new(),
            line: VecDeque::new(),
            timers: BTreeMap::new(),
            serial: 0,
            under_way: 0,
            leads: false,
            complete: false,
            listing: Listing::Needed,
            foreign_changes: 0,
            failing: 0,
            failures: 0,
            paused: None,
        }
    }

    /// What a Gateway's objects shall be; none if there shall be none.
    pub fn desired(&mut self, owner: &NsName, desired: Option<Desired>) {
        let entry = self.entries.entry(owner.clone()).or_default();
        let same = match (&entry.wish, &desired) {
            (Wish::Is(before), Some(after)) => before == after,
            (Wish::Nothing, None) => true,
            _ => false,
        };
        if same {
            return;
        }
        entry.wish = desired.map_or(Wish::Nothing, Wish::Is);
        entry.failures = 0;
        if entry.phase == Phase::UnderWay {
            entry.turned = true;
            return;
        }
        self.touch(owner);
        self.forget_if_empty(owner);
    }

    /// Nobody knows what a Gateway's objects shall be. Those that it has stay, and go on to be as was desired last.
    pub fn kept(&mut self, owner: &NsName) {
        let entry = self.entries.entry(owner.clone()).or_default();
        if matches!(entry.wish, Wish::Untold) {
            entry.wish = Wish::Kept;
        }
    }

    /// An object with our label, as the watch has it.
    pub fn seen(&mut self, kind: Kind, metadata: &ObjectMeta, now: Instant) {
        let (Some(namespace), Some(name), Some(uid)) = (&metadata.namespace, &metadata.name, &metadata.uid) else {
            return;
        };
        let key = ObjectKey { kind, name: name.as_str().into() };
        let news = News::Seen { uid: uid.as_str().into(), print: Print::of(metadata) };
        // Also who took the owner out of it is heard.
        let owner = owner(metadata).map(|name| NsName::new(namespace.as_str(), name));
        let owner = owner.filter(|owner| self.entries.contains_key(owner)).or_else(|| self.has(namespace, &key));
        if let Some(owner) = owner {
            self.hear(&owner, key, news, now);
        }
    }

    /// An object with our label is gone.
    pub fn gone(&mut self, kind: Kind, namespace: &str, name: &str, now: Instant) {
        let key = ObjectKey { kind, name: name.into() };
        if let Some(owner) = self.has(namespace, &key) {
            self.hear(&owner, key, News::Gone, now);
        }
    }

    /// Of a kind there are these objects with our label, by namespace and name, and no others in this namespace, or in all.
    pub fn there(&mut self, kind: Kind, namespace: Option<&str>, there: &HashSet<(Arc<str>, Arc<str>)>, now: Instant) {
        let mut gone = Vec::new();
        for (owner, entry) in &self.entries {
            if namespace.is_none_or(|namespace| *owner.namespace == *namespace) {
                let keys = entry.ledger.keys().filter(|key| key.kind == kind);
                let missing = keys.filter(|key| !there.contains(&(owner.namespace.clone(), Arc::clone(&key.name))));
                gone.extend(missing.map(|key| (owner.clone(), key.clone())));
            }
        }
        for (owner, key) in gone {
            self.hear(&owner, key, News::Gone, now);
        }
    }

    /// The Gateway whose object this is, or is to be. Seldom asked: for what was deleted or changed by force.
    fn has(&self, namespace: &str, key: &ObjectKey) -> Option<NsName> {
        let wants = |entry: &Entry| match &entry.wish {
            Wish::Is(objects) => objects
                .iter()
                .any(|object| object["metadata"]["name"] == *key.name && Kind::of(object) == Some(key.kind)),
            _ => false,
        };
        let mut entries = self.entries.iter().filter(|(owner, _)| &*owner.namespace == namespace);
        entries.find(|(_, entry)| entry.ledger.contains_key(key) || wants(entry)).map(|(owner, _)| owner.clone())
    }

    fn hear(&mut self, owner: &NsName, key: ObjectKey, news: News, now: Instant) {
        let Some(entry) = self.entries.get_mut(owner) else { return };
        if entry.phase == Phase::UnderWay {
            entry.news.insert(key, news);
            return;
        }
        self.foreign_changes += u64::from(entry.contradicts(&key, &news));
        if !entry.hear(&key, &news) || !self.leads || entry.stays(self.complete) {
            return;
        }
        if entry.phase == Phase::Idle {
            self.wait(owner, now + SPACING);
        }
    }

    /// Every Gateway was told of.
    pub fn complete(&mut self) {
        self.complete = true;
        let untold = self.entries.iter().filter(|(_, entry)| matches!(entry.wish, Wish::Untold));
        for owner in untold.map(|(owner, _)| owner.clone()).collect::<Vec<_>>() {
            self.touch(&owner);
        }
    }

    /// Whether what a Gateway has stays, whatever it is.
    pub fn keeps(&self, owner: &NsName) -> bool {
        self.entries.get(owner).is_some_and(|entry| matches!(entry.wish, Wish::Kept))
    }

    /// Whether it is known that every Gateway was told of.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Whether this process applies. On taking over, all is looked at again, since nobody knows what was done meanwhile.
    pub fn lead(&mut self, leads: bool) {
        if leads == self.leads {
            return;
        }
        self.leads = leads;
        self.listing = Listing::Needed;
        self.line.clear();
        self.timers.clear();
        self.failures = 0;
        self.paused = None;
        for entry in self.entries.values_mut().filter(|entry| entry.phase != Phase::UnderWay) {
            entry.phase = Phase::Idle;
        }
    }

    /// What was found of ours; none if it could not be looked for.
    pub fn listed(&mut self, found: Option<Vec<(NsName, ObjectKey, Known)>>, now: Instant) {
        self.under_way = self.under_way.saturating_sub(1);
        if self.listing != Listing::UnderWay {
            return; // of an earlier term
        }
        let Some(found) = found else {
            self.listing = Listing::Needed;
            self.pause(now);
            return;
        };
        self.listing = Listing::Done;
        self.failures = 0;
        for (_, entry) in self.entries.extract_if(|_, entry| matches!(entry.wish, Wish::Untold)) {
            self.failing = self.failing.saturating_sub(entry.told.len());
        }
        for entry in self.entries.values_mut() {
            entry.ledger.clear();
            entry.failures = 0;
        }
        for (owner, key, known) in found {
            self.entries.entry(owner).or_default().ledger.insert(key, known);
        }
        for owner in self.entries.keys().cloned().collect::<Vec<_>>() {
            self.touch(&owner);
        }
    }

    /// What to do at this moment.
    pub fn next(&mut self, now: Instant) -> Step {
        if !self.leads {
            return Step::Wait(None);
        }
        if let Some(until) = self.paused.filter(|until| now < *until) {
            return Step::Wait(Some(until));
        }
        match self.listing {
            // What an earlier term began is seen through before what is there is looked at.
            Listing::Needed if self.under_way == 0 => {
                self.listing = Listing::UnderWay;
                self.under_way += 1;
                return Step::List;
            }
            Listing::Needed | Listing::UnderWay => return Step::Wait(None),
            Listing::Done => {}
        }
        while let Some(timer) = self.timers.first_entry().filter(|timer| timer.key().0 <= now) {
            let owner = timer.remove();
            if let Some(entry) = self.entries.get_mut(&owner) {
                entry.phase = Phase::Queued;
                self.line.push_back(owner);
            }
        }
        while self.under_way < self.limit {
            let Some(owner) = self.line.pop_front() else { break };
            let Some(entry) = self.entries.get_mut(&owner) else { continue };
            if entry.phase != Phase::Queued {
                continue;
            }
            entry.phase = Phase::UnderWay;
            self.under_way += 1;
            let objects = if let Wish::Is(objects) = &entry.wish { objects.clone() } else { Vec::new() };
            return Step::Do(Job { owner, objects, ledger: entry.ledger.clone() });
        }
        Step::Wait(self.timers.keys().next().map(|(until, _)| *until))
    }

    /// A job ended. What failed, if that is not what was told last.
    pub fn finished(&mut self, owner: &NsName, outcome: Outcome, now: Instant) -> Option<Vec<Failure>> {
        self.under_way = self.under_way.saturating_sub(1);
        let Outcome { ledger, failures, retry } = outcome;
        let entry = self.entries.get_mut(owner)?;
        entry.phase = Phase::Idle;
        entry.ledger = ledger;
        let mut heard = false;
        for (key, news) in std::mem::take(&mut entry.news) {
            self.foreign_changes += u64::from(entry.contradicts(&key, &news));
            heard |= entry.hear(&key, &news);
        }
        let turned = std::mem::take(&mut entry.turned);
        if self.listing != Listing::Done {
            return None; // of an earlier term: all is looked at again
        }
        entry.failures = if retry.is_some() { entry.failures.saturating_add(1) } else { 0 };
        let count = entry.failures;
        if retry == Some(Retry::Conflict) {
            // What is known of these objects is wrong.
            entry.ledger.retain(|key, _| !failures.iter().any(|failure| failure.object == key.to_string()));
        }
        let told = (entry.told != failures).then(|| failures.clone());
        self.failing = (self.failing + failures.len()).saturating_sub(entry.told.len());
        entry.told = failures;
        if retry == Some(Retry::Everywhere) {
            self.pause(now);
        } else {
            self.failures = 0;
        }
        match retry {
            _ if turned => self.touch(owner),
            // As soon as anything is tried again.
            Some(Retry::Everywhere) => self.touch(owner),
            Some(Retry::Conflict | Retry::Soon) => self.wait(owner, now + backoff::wait(count, SOON.0, SOON.1)),
            Some(Retry::Refused) => self.wait(owner, now + backoff::wait(count, REFUSED.0, REFUSED.1)),
            None if heard => self.wait(owner, now + SPACING),
            None => {}
        }
        self.forget_if_empty(owner);
        told
    }

    /// Gateways that are to be looked at, wait or are being worked on.
    pub fn len(&self) -> usize {
        let listing = self.leads && self.listing == Listing::Needed;
        self.line.len() + self.timers.len() + self.under_way + usize::from(listing)
    }

    /// How many objects are not as they should be, since the last attempt failed; none where this process does not apply.
    pub fn failing(&self) -> usize {
        if self.leads { self.failing } else { 0 }
    }

    /// How often somebody else changed or deleted an object since this was last asked.
    pub fn take_foreign_changes(&mut self) -> u64 {
        std::mem::take(&mut self.foreign_changes)
    }

    /// Whether there is nothing to be done.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What was begun and has not ended.
    pub fn under_way(&self) -> usize {
        self.under_way
    }

    /// Puts a Gateway into the line, at once.
    fn touch(&mut self, owner: &NsName) {
        if !self.leads || self.listing != Listing::Done {
            return; // all is looked at once that is done
        }
        let Some(entry) = self.entries.get_mut(owner) else { return };
        if entry.stays(self.complete) {
            return;
        }
        match entry.phase {
            Phase::Queued | Phase::UnderWay => return,
            Phase::Waiting(key) => drop(self.timers.remove(&key)),
            Phase::Idle => {}
        }
        entry.phase = Phase::Queued;
        self.line.push_back(owner.clone());
    }

    fn wait(&mut self, owner: &NsName, until: Instant) {
        let Some(entry) = self.entries.get_mut(owner) else { return };
        self.serial += 1;
        let key = (until, self.serial);
        entry.phase = Phase::Waiting(key);
        self.timers.insert(key, owner.clone());
    }

    fn pause(&mut self, now: Instant) {
        self.failures = self.failures.saturating_add(1);
        self.paused = Some(now + backoff::wait(self.failures, AWAY.0, AWAY.1));
    }

    /// Nothing is kept of a Gateway that has nothing and shall have nothing.
    fn forget_if_empty(&mut self, owner: &NsName) {
        if let hash_map::Entry::Occupied(entry) = self.entries.entry(owner.clone()) {
            let Entry { wish, ledger, phase, .. } = entry.get();
            if *phase == Phase::Idle && ledger.is_empty() && !matches!(wish, Wish::Is(_) | Wish::Kept) {
                self.failing = self.failing.saturating_sub(entry.remove().told.len());
            }
        }
    }
}

impl Machine for Queue {
    fn len(&self) -> usize {
        Self::len(self)
    }

    fn under_way(&self) -> usize {
        Self::under_way(self)
    }
}

impl Entry {
    /// Whether what the watch said is not what was left.
    fn contradicts(&self, key: &ObjectKey, news: &News) -> bool {
        let known = self.ledger.get(key).filter(|known| !known.changed);
        known.is_some_and(|known| match news {
            News::Gone => true,
            News::Seen { uid, print } => known.uid != *uid || known.print != *print,
        })
    }

    /// Whether nobody knows what there shall be, so that what is there stays.
    fn stays(&self, complete: bool) -> bool {
        match self.wish {
            Wish::Kept => true,
            Wish::Untold => !complete,
            Wish::Nothing | Wish::Is(_) => false,
        }
    }

    /// Takes in what the watch said, and whether something must be done about it.
    fn hear(&mut self, key: &ObjectKey, news: &News) -> bool {
        match news {
            News::Gone => {
                self.ledger.remove(key);
                matches!(self.wish, Wish::Is(_))
            }
            News::Seen { uid, print } => match self.ledger.get_mut(key) {
                Some(known) if known.uid != *uid => {
                    self.ledger.remove(key);
                    true
                }
                Some(known) if known.print != *print => {
                    known.changed = true;
                    true
                }
                // It is as we left it; or it is one that nobody here has made, which its Gateway learns when it needs it.
                _ => false,
            },
        }
    }
}
