//! Which Gateway's objects are to be looked at next: a state machine without IO and without a clock.
//!
//! For each Gateway it knows what is desired and what is there. A [`WorkQueue`] says whose turn it is. Newer objects of a
//! Gateway replace those before them, and at most one job of a Gateway is in flight.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use ir::{NsName, Port, backend::Transport};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use super::{
    kind::Kind,
    object::{Fingerprint, LiveObject, ObjectKey, owner},
};
use crate::workqueue::{Backoff, Concurrency, LONGEST_PAUSE, Next, Reconcile, WorkQueue};

/// From what somebody else changed until it is put right: whoever changes it again and again does not keep us busy.
const SPACING: Duration = Duration::from_secs(1);
/// After a failure that may be over in a moment.
const SOON: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_mins(1));
/// From one refusal to the next attempt.
const REFUSED: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_mins(1));

/// What a Gateway's objects shall be.
pub(super) type Objects = Vec<Arc<Value>>;
/// What is known to be there of a Gateway's objects.
pub(super) type Inventory = BTreeMap<ObjectKey, LiveObject>;

/// The ports of a Service that are left out, should the API server refuse it with them.
pub(super) type OptionalPorts = Arc<BTreeSet<(Port, Transport)>>;

/// What could not be done with an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Kind and name.
    pub object: String,
    /// The port without which a Service was applied; none if all of an object is not as it should be.
    pub port: Option<(Port, Transport)>,
    /// Why, in the words of the API server where it has any.
    pub message: String,
}

/// A Gateway to be worked on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Job {
    /// The Gateway.
    pub(super) owner: NsName,
    /// What is to be there. Everything else of the inventory goes.
    pub(super) objects: Objects,
    /// What of it is left out rather than all of an object.
    pub(super) optional_ports: OptionalPorts,
    /// What is there.
    pub(super) inventory: Inventory,
}

/// When a failure may be over. The first is the soonest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Retry {
    /// For all objects alike: the API server is away or overloaded.
    Everywhere,
    /// What was known of the object is out of date.
    Conflict,
    /// In a moment.
    Soon,
    /// When something else changed.
    Refused,
}

/// How a job ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    /// What is there now.
    pub(super) inventory: Inventory,
    /// What was not done.
    pub(super) failures: Vec<Failure>,
    /// When to try it again.
    pub(super) retry: Option<Retry>,
    /// For how long the API server asks to be left alone.
    pub(super) retry_after: Duration,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// List what is there of ours.
    List,
    /// Work on a Gateway.
    Gateway(Job),
}

/// What is desired of a Gateway's objects.
#[derive(Clone, Debug, Default)]
enum DesiredState {
    /// That is not known yet: objects were found.
    #[default]
    Unknown,
    /// What is there stays, since nobody knows what shall be.
    Retained,
    /// There are none.
    None,
    /// There are these.
    Objects(Objects),
}

/// Whether what is there was listed in this term of leadership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Listing {
    Needed,
    InFlight {
        /// Whether an earlier term asked.
        stale: bool,
    },
    Done,
}

/// What the watch says of an object.
#[derive(Clone, Debug)]
enum Observed {
    Present { uid: Arc<str>, fingerprint: Fingerprint },
    Gone,
}

#[derive(Clone, Debug, Default)]
struct Entry {
    desired: DesiredState,
    optional_ports: OptionalPorts,
    inventory: Inventory,
    /// What the watch said last while a job was in flight: what it said before may be of that job's own making.
    observed: BTreeMap<ObjectKey, Observed>,
    /// What was reported last.
    failures: Vec<Failure>,
}

/// The state machine.
#[derive(Debug)]
pub(super) struct Reconciler {
    /// Open while this process leads and knows what is there.
    queue: WorkQueue<NsName>,
    entries: HashMap<NsName, Entry>,
    leads: bool,
    complete: bool,
    listing: Listing,
    /// What others did since it was last asked.
    foreign_changes: u64,
    /// Objects whose last attempt failed.
    failing: usize,
}

impl Reconcile for Reconciler {
    fn pending(&self) -> usize {
        let listing = match self.listing {
            Listing::Needed => self.leads,
            Listing::InFlight { .. } => true,
            Listing::Done => false,
        };
        self.queue.len() + usize::from(listing)
    }

    fn in_flight(&self) -> usize {
        self.queue.processing() + usize::from(matches!(self.listing, Listing::InFlight { .. }))
    }
}

impl Reconciler {
    /// A state machine that knows nothing and does not lead. At most `limit` Gateways are worked on at once.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            // Many requests are made for one Gateway, so that one which fails says little about the others.
            queue: WorkQueue::new(Concurrency { max: limit, min: limit }),
            entries: HashMap::new(),
            leads: false,
            complete: false,
            listing: Listing::Needed,
            foreign_changes: 0,
            failing: 0,
        }
    }

    /// What a Gateway's objects shall be; none if there shall be none.
    pub(super) fn desired(&mut self, owner: &NsName, desired: Option<Objects>, now: Instant) {
        let entry = self.entries.entry(owner.clone()).or_default();
        let same = match (&entry.desired, &desired) {
            (DesiredState::Objects(before), Some(after)) => before == after,
            (DesiredState::None, None) => true,
            _ => false,
        };
        if same {
            return;
        }
        entry.desired = desired.map_or(DesiredState::None, DesiredState::Objects);
        self.queue.forget(owner);
        self.add(owner, now);
        self.forget_if_empty(owner);
    }

    /// The ports of a Gateway's Service that are left out, should the API server refuse it with them.
    pub(super) fn optional_ports(&mut self, owner: &NsName, ports: OptionalPorts) {
        self.entries.entry(owner.clone()).or_default().optional_ports = ports;
    }

    /// Nobody knows what a Gateway's objects shall be. Those that it has stay, and go on to be as was desired last.
    pub(super) fn retain(&mut self, owner: &NsName) {
        let entry = self.entries.entry(owner.clone()).or_default();
        if matches!(entry.desired, DesiredState::Unknown) {
            entry.desired = DesiredState::Retained;
        }
    }

    /// An object with our label, as the watch has it.
    pub(super) fn applied(&mut self, kind: Kind, metadata: &ObjectMeta, now: Instant) {
        let (Some(namespace), Some(name), Some(uid)) = (&metadata.namespace, &metadata.name, &metadata.uid) else {
            return;
        };
        let key = ObjectKey { kind, name: name.as_str().into() };
        let observed = Observed::Present { uid: uid.as_str().into(), fingerprint: Fingerprint::of(metadata) };
        // Also an object that lost its owner is noticed.
        let owner = owner(metadata).map(|name| NsName::new(namespace.as_str(), name));
        let owner = owner.filter(|owner| self.entries.contains_key(owner)).or_else(|| self.owner_of(namespace, &key));
        if let Some(owner) = owner {
            self.observe(&owner, key, observed, now);
        }
    }

    /// An object with our label is gone.
    pub(super) fn deleted(&mut self, kind: Kind, namespace: &str, name: &str, now: Instant) {
        let key = ObjectKey { kind, name: name.into() };
        if let Some(owner) = self.owner_of(namespace, &key) {
            self.observe(&owner, key, Observed::Gone, now);
        }
    }

    /// Of a kind there are these objects with our label, by namespace and name, and no others in this namespace, or in all.
    pub(super) fn relisted(
        &mut self,
        kind: Kind,
        namespace: Option<&str>,
        there: &HashSet<(Arc<str>, Arc<str>)>,
        now: Instant,
    ) {
        let mut gone = Vec::new();
        for (owner, entry) in &self.entries {
            if namespace.is_none_or(|namespace| *owner.namespace == *namespace) {
                let keys = entry.inventory.keys().filter(|key| key.kind == kind);
                let missing = keys.filter(|key| !there.contains(&(owner.namespace.clone(), Arc::clone(&key.name))));
                gone.extend(missing.map(|key| (owner.clone(), key.clone())));
            }
        }
        for (owner, key) in gone {
            self.observe(&owner, key, Observed::Gone, now);
        }
    }

    /// The Gateway whose object this is, or is to be. Seldom asked: for what was deleted or changed by force.
    fn owner_of(&self, namespace: &str, key: &ObjectKey) -> Option<NsName> {
        let wants = |entry: &Entry| match &entry.desired {
            DesiredState::Objects(objects) => objects
                .iter()
                .any(|object| object["metadata"]["name"] == *key.name && Kind::of(object) == Some(key.kind)),
            _ => false,
        };
        let mut entries = self.entries.iter().filter(|(owner, _)| &*owner.namespace == namespace);
        entries.find(|(_, entry)| entry.inventory.contains_key(key) || wants(entry)).map(|(owner, _)| owner.clone())
    }

    fn observe(&mut self, owner: &NsName, key: ObjectKey, observed: Observed, now: Instant) {
        let Some(entry) = self.entries.get_mut(owner) else { return };
        if self.queue.is_processing(owner) {
            entry.observed.insert(key, observed);
            return;
        }
        let (foreign, repair) = entry.observe(&key, &observed);
        self.foreign_changes += u64::from(foreign);
        if repair && !entry.stays(self.complete) && self.queue.is_idle(owner) {
            self.queue.add(owner, now + SPACING);
        }
    }

    /// It is known of every Gateway what its objects shall be, or that this is not known.
    pub(super) fn complete(&mut self, now: Instant) {
        self.complete = true;
        let unknown = self.entries.iter().filter(|(_, entry)| matches!(entry.desired, DesiredState::Unknown));
        for owner in unknown.map(|(owner, _)| owner.clone()).collect::<Vec<_>>() {
            self.add(&owner, now);
        }
    }

    /// Whether what a Gateway has stays, whatever it is.
    pub(super) fn retains(&self, owner: &NsName) -> bool {
        self.entries.get(owner).is_some_and(|entry| matches!(entry.desired, DesiredState::Retained))
    }

    /// Whether [`Reconciler::complete`] was called.
    pub(super) fn is_complete(&self) -> bool {
        self.complete
    }

    /// Whether this process applies. On taking over, all is looked at again, since nobody knows what was done meanwhile.
    pub(super) fn lead(&mut self, leads: bool) {
        if leads == self.leads {
            return;
        }
        self.leads = leads;
        self.listing = match self.listing {
            Listing::InFlight { .. } => Listing::InFlight { stale: true },
            Listing::Needed | Listing::Done => Listing::Needed,
        };
        self.queue.reset(false);
    }

    /// What was found of ours; none if it could not be listed.
    pub(super) fn listed(&mut self, found: Option<Vec<(NsName, ObjectKey, LiveObject)>>, now: Instant) {
        let stale = self.listing != Listing::InFlight { stale: false };
        self.listing = Listing::Needed;
        if stale {
            return;
        }
        let Some(found) = found else {
            self.queue.throttle.unavailable(Duration::ZERO, now);
            return;
        };
        self.listing = Listing::Done;
        for (_, entry) in self.entries.extract_if(|_, entry| matches!(entry.desired, DesiredState::Unknown)) {
            self.failing = self.failing.saturating_sub(entry.failures.len());
        }
        for entry in self.entries.values_mut() {
            entry.inventory.clear();
        }
        for (owner, key, live) in found {
            self.entries.entry(owner).or_default().inventory.insert(key, live);
        }
        self.queue.reset(true);
        for owner in self.entries.keys().cloned().collect::<Vec<_>>() {
            self.add(&owner, now);
        }
    }

    /// What to do at this moment.
    pub(super) fn next(&mut self, now: Instant) -> Next<Work> {
        if self.leads && self.listing != Listing::Done {
            if let Some(until) = self.queue.throttle.paused(now) {
                return Next::Wait(Some(until));
            }
            // What an earlier term began is seen through before what is there is listed.
            if self.in_flight() > 0 {
                return Next::Wait(None);
            }
            self.listing = Listing::InFlight { stale: false };
            return Next::Start(Work::List);
        }
        let owner = match self.queue.get(now) {
            Ok(owner) => owner,
            Err(until) => return Next::Wait(until),
        };
        let Entry { desired, inventory, optional_ports, .. } = self.entries.entry(owner.clone()).or_default();
        let objects = if let DesiredState::Objects(objects) = desired { objects.clone() } else { Vec::new() };
        let optional_ports = Arc::clone(optional_ports);
        Next::Start(Work::Gateway(Job { owner, objects, optional_ports, inventory: inventory.clone() }))
    }

    /// A job ended. Gives what failed, if that is not what was reported last.
    pub(super) fn finished(&mut self, owner: &NsName, outcome: Outcome, now: Instant) -> Option<Vec<Failure>> {
        let changed = self.queue.done(owner);
        let Outcome { inventory, failures, retry, retry_after } = outcome;
        let retry_after = retry_after.min(LONGEST_PAUSE);
        let entry = self.entries.get_mut(owner)?;
        entry.inventory = inventory;
        let mut drifted = false;
        for (key, observed) in std::mem::take(&mut entry.observed) {
            let (foreign, repair) = entry.observe(&key, &observed);
            self.foreign_changes += u64::from(foreign);
            drifted |= repair;
        }
        if self.listing != Listing::Done {
            return None; // of an earlier term: all is looked at again
        }
        let report = (entry.failures != failures).then(|| failures.clone());
        self.failing = (self.failing + failures.len()).saturating_sub(entry.failures.len());
        entry.failures = failures;
        if retry == Some(Retry::Everywhere) {
            self.queue.throttle.unavailable(retry_after, now);
        } else {
            self.queue.throttle.available();
        }
        let count = if retry.is_some() { self.queue.failed(owner) } else { 0 };
        match retry {
            // As soon as anything is tried again.
            Some(Retry::Everywhere) => self.add(owner, now),
            _ if changed => self.add(owner, now),
            Some(Retry::Conflict | Retry::Soon) => self.queue.add(owner, now + SOON.delay(count).max(retry_after)),
            Some(Retry::Refused) => self.queue.add(owner, now + REFUSED.delay(count)),
            None if drifted => self.queue.add(owner, now + SPACING),
            None => {}
        }
        if retry.is_none() {
            self.queue.forget(owner);
        }
        self.forget_if_empty(owner);
        report
    }

    /// How many objects are not as they should be, since the last attempt failed; none where this process does not apply.
    pub(super) fn failing(&self) -> usize {
        if self.leads { self.failing } else { 0 }
    }

    /// How often somebody else changed or deleted an object since this was last asked.
    pub(super) fn take_foreign_changes(&mut self) -> u64 {
        std::mem::take(&mut self.foreign_changes)
    }

    /// Has a Gateway looked at, unless nobody knows what its objects shall be.
    fn add(&mut self, owner: &NsName, at: Instant) {
        if self.entries.get(owner).is_some_and(|entry| !entry.stays(self.complete)) {
            self.queue.add(owner, at);
        }
    }

    /// Nothing is kept of a Gateway that has nothing and shall have nothing.
    fn forget_if_empty(&mut self, owner: &NsName) {
        let Some(Entry { desired, inventory, failures, .. }) = self.entries.get(owner) else { return };
        let wanted = matches!(desired, DesiredState::Objects(_) | DesiredState::Retained);
        if !wanted && inventory.is_empty() && self.queue.is_idle(owner) {
            self.failing = self.failing.saturating_sub(failures.len());
            self.entries.remove(owner);
            self.queue.remove(owner);
        }
    }
}

impl Entry {
    /// Whether nobody knows what there shall be, so that what is there stays.
    fn stays(&self, complete: bool) -> bool {
        match self.desired {
            DesiredState::Retained => true,
            DesiredState::Unknown => !complete,
            DesiredState::None | DesiredState::Objects(_) => false,
        }
    }

    /// Takes in what the watch says. Gives whether somebody else did that, and whether something must be done about it.
    fn observe(&mut self, key: &ObjectKey, observed: &Observed) -> (bool, bool) {
        let Observed::Present { uid, fingerprint } = observed else {
            let live = self.inventory.remove(key);
            return (live.is_some_and(|live| !live.changed), matches!(self.desired, DesiredState::Objects(_)));
        };
        // One that nobody here has made is noticed when its Gateway needs it.
        let Some(live) = self.inventory.get_mut(key) else { return (false, false) };
        if live.uid == *uid && live.fingerprint == *fingerprint {
            return (false, false);
        }
        let foreign = !std::mem::replace(&mut live.changed, true);
        if live.uid != *uid {
            self.inventory.remove(key);
        }
        (foreign, true)
    }
}
