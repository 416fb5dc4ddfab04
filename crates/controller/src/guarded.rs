//! The translator behind a door: an object that it panics on is set aside, and all others are served.
//!
//! A panic of a row costs that row, and is closed by the tables that read it. What no table closes, and a panic outside of rows,
//! would cost what hangs on it, or the process. Here such an object is found, and treated like one that cannot be decoded: its
//! last version stays in force, or, of a policy, what it targets is closed. Which objects are so follows from the objects and
//! from the records ([`records::Quarantine`]), so that every replica comes to the same.
//!
//! * A row that panicked and that nothing closes: of the objects that it has read, the youngest is set aside, then the next,
//!   until no such row is left. Then each that may be innocent is tried again, so that who was only young is let go.
//! * A panic outside of rows leaves no translator to go on with: one is built anew from what was there before, and what came
//!   since is added by halves, older objects first, until what panics stands alone. After `MOST` of them, what is left is set
//!   aside together, and tried again later.
//!
//! What stays in force is never less than its owner had: only a version that its owner wrote and that was sound, and the newest
//! of those. Where none is known, what a policy targets is closed. What stands in the place of an object is no version of it.
//!
//! Nothing is published while that lasts, and proxies are served on.

mod editions;
mod search;
mod standing;
#[cfg(test)]
mod tests;
pub mod watchdog;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, btree_map},
    ops::Deref,
    panic::{AssertUnwindSafe, catch_unwind},
    time::Instant,
};

use api::{Kind, Object, ObjectId};
use ir::Settings;
use jiff::Timestamp;
use records::{Entry, Quarantine, quarantine::digest};
use translate::{Change, Changes, Shared, Translator, Unended};

use editions::Editions;
use standing::Standing;
use watchdog::{Suspects, Watchdog};

/// How many objects are looked for before what is left is set aside together, and for how many a fault is left as it is.
const MOST: usize = 16;

/// The translator, and what is set aside.
pub struct Guarded {
    translator: Translator,
    /// When objects came: their resource versions, or their numbers.
    versions: HashMap<ObjectId, u64>,
    aside: BTreeMap<ObjectId, Aside>,
    /// What is known of objects that are set aside, or were a short time ago.
    entries: BTreeMap<ObjectId, Entry>,
    /// Those of `entries` that are stored.
    stored: BTreeSet<ObjectId>,
    /// What another release has set aside, until it is sound in this one.
    inherited: BTreeMap<ObjectId, Entry>,
    /// Whether all objects were read once: before, one that is not there may come yet.
    is_complete: bool,
    /// What is not settled yet.
    before: BTreeMap<ObjectId, Before>,
    /// Faults against which nothing helped.
    hopeless: BTreeSet<String>,
    /// When a translator was last built anew.
    searched: Option<Instant>,
    watchdog: Option<Watchdog>,
    /// What waits until everything else was settled, since the process died of something like it.
    suspects: Suspects,
    waiting: BTreeMap<ObjectId, (Option<Object>, u64)>,
    /// Whether an object of them is tried by itself.
    alone: bool,
    /// How many rows were computed since the settling began.
    computed: usize,
    turned: bool,
    editions: Editions,
}

/// An object that is set aside.
#[derive(Debug)]
struct Aside {
    /// As its owner wrote it.
    object: Object,
    stands: Standing,
}

/// An object before it changed.
#[derive(Debug)]
struct Before {
    /// What was in force.
    object: Option<Shared>,
    kept: Kept,
}

/// The version of an object that may stay in force: one that its owner wrote, and that is sound.
#[derive(Debug)]
enum Kept {
    /// What was in force.
    InForce,
    /// Of one that was set aside, what had stayed in force.
    OfAside(Option<Box<Object>>),
}

impl Before {
    /// The version that may stay in force. Copied only here: hardly any change is at fault.
    fn kept(&self) -> Option<Object> {
        match &self.kept {
            Kept::InForce => self.object.as_ref().map(Shared::object),
            Kept::OfAside(kept) => kept.as_deref().cloned(),
        }
    }
}

/// An object that was set aside to see whether that helps, and what it was before.
struct Tried {
    object: Object,
    entry: Option<Entry>,
    /// Whether it was set aside already.
    is_aside: bool,
    /// The version that stayed in force then.
    kept: Option<Object>,
}

/// A panic outside of rows.
#[derive(Debug)]
struct Panicked(String);

/// What returns, or the words of the panic by which it ended. What it changed is unsound after that.
fn caught<T>(work: impl FnOnce() -> T) -> Result<T, Panicked> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|payload| {
        let words = payload.downcast_ref::<&str>().map(ToString::to_string);
        Panicked(words.or_else(|| payload.downcast_ref().cloned()).unwrap_or_else(|| "no message".to_owned()))
    })
}

impl Deref for Guarded {
    type Target = Translator;

    fn deref(&self) -> &Translator {
        &self.translator
    }
}

impl Guarded {
    /// A translator that has seen no object yet.
    pub fn new(settings: Settings) -> Self {
        Self {
            translator: Translator::new(settings),
            versions: HashMap::new(),
            aside: BTreeMap::new(),
            entries: BTreeMap::new(),
            stored: BTreeSet::new(),
            inherited: BTreeMap::new(),
            is_complete: true,
            before: BTreeMap::new(),
            hopeless: BTreeSet::new(),
            searched: None,
            watchdog: None,
            suspects: Suspects::default(),
            waiting: BTreeMap::new(),
            alone: false,
            computed: 0,
            turned: false,
            editions: Editions::default(),
        }
    }

    /// The same, where a settling that does not end, or that ends the process, is found out by `watchdog`.
    pub fn watched(mut self, mut watchdog: Watchdog) -> Self {
        self.suspects = watchdog.suspects();
        self.watchdog = Some(watchdog);
        self
    }

    /// For what is not of objects: settings, and reports from outside.
    pub fn translator_mut(&mut self) -> &mut Translator {
        &mut self.translator
    }

    /// Records a change; `version` is greater for an object that is younger. It takes effect with [`Guarded::settle`].
    pub fn apply(&mut self, change: Change, version: u64) {
        let (id, object) = match change {
            Change::Put(object) => (object.id(), Some(object)),
            Change::Remove(id) => (id, None),
        };
        // Without its class everything would be somebody else's, and prove nothing.
        if self.suspects.contains(&id) && id.kind != Kind::GatewayClass {
            self.waiting.insert(id, (object, version));
        } else {
            self.admit(&id, object, version);
        }
    }

    fn admit(&mut self, id: &ObjectId, object: Option<Object>, version: u64) {
        if !self.before.contains_key(id) {
            self.before.insert(id.clone(), self.now(id));
        }
        let Some(object) = object else {
            self.versions.remove(id);
            self.let_go(id);
            if let Some(entry) = self.entries.get_mut(id) {
                entry.end();
            }
            return self.put(id, None);
        };
        self.versions.insert(id.clone(), version);
        let held = self.entries.get(id).filter(|entry| entry.holds(&object, Timestamp::now()));
        match held {
            // It comes back, and what was in force meanwhile stays so.
            Some(entry) if entry.over => {
                let (kept, fault) = (self.kept(id), entry.fault.clone());
                self.set_aside(object, kept, fault);
            }
            // All replicas follow what is stored.
            Some(entry) => {
                let kept = entry.kept().or_else(|| self.kept(id).filter(|_| !self.stored.contains(id)));
                self.stand(object, kept);
            }
            None => {
                self.let_go(id);
                if self.is_guilty(&object) {
                    let kept = self.kept(id).or_else(|| self.recorded(&object));
                    return self.set_aside(object, kept, "the process died of it".to_owned());
                }
                self.put(id, Some(object));
            }
        }
    }

    /// An object as it is at the moment.
    fn now(&self, id: &ObjectId) -> Before {
        let kept =
            self.aside.get(id).map_or(Kept::InForce, |aside| Kept::OfAside(aside.stands.kept().cloned().map(Box::new)));
        Before { object: self.translator.object(id), kept }
    }

    /// Whether a process died of the object as it is.
    fn is_guilty(&mut self, object: &Object) -> bool {
        let Some(watchdog) = &mut self.watchdog else { return false };
        let id = object.id();
        let guilty = watchdog.guilty().get(&id).map(|guilty| *guilty == digest(object));
        if guilty == Some(false) {
            watchdog.acquit(&id);
        }
        guilty == Some(true)
    }

    /// The version that stays in force by what is recorded: of an object that is set aside, or that another release failed on.
    fn recorded(&self, object: &Object) -> Option<Object> {
        let id = object.id();
        let own = self.entries.get(&id).and_then(Entry::kept);
        own.or_else(|| self.inherited.get(&id).and_then(|entry| entry.inherited(object)))
    }

    /// An object is in force as it is written.
    fn put(&mut self, id: &ObjectId, object: Option<Object>) {
        let change = object.clone().map_or_else(|| Change::Remove(id.clone()), Change::Put);
        let applied = caught(|| self.translator.apply(change));
        if let (Err(Panicked(words)), Some(object)) = (applied, object) {
            tracing::error!(%id, words, "a panic while the object was read");
            let kept = self.kept(id).or_else(|| self.recorded(&object));
            self.set_aside(object, kept, "reading it".to_owned());
        }
    }

    /// An object is not set aside any more.
    fn let_go(&mut self, id: &ObjectId) {
        if self.aside.remove(id).is_some() {
            tracing::info!(%id, "is not set aside any more");
            self.translator.set_quarantined(id, None);
            self.turned = true;
        }
    }

    /// Sets an object aside that is at fault, and notes that.
    fn set_aside(&mut self, object: Object, kept: Option<Object>, fault: String) {
        let id = object.id();
        let entry = Entry::new(&object, fault, kept.as_ref(), self.entries.get(&id), Timestamp::now());
        self.entries.insert(id.clone(), entry);
        self.stored.remove(&id);
        self.stand(object, kept);
    }

    /// Has what stands in the place of an object be in force. Where nothing may it stays as it is written.
    fn stand(&mut self, object: Object, kept: Option<Object>) {
        let (id, stands) = (object.id(), Standing::of(&object, kept));
        if !stands.is_possible(id.kind) {
            tracing::error!(%id, "cannot be set aside: it stays as it is written");
            self.entries.remove(&id);
            self.let_go(&id);
            if caught(|| self.translator.apply(Change::Put(object))).is_err() {
                tracing::error!(%id, "cannot be written: it stays as it was");
            }
            return;
        }
        let change = stands.object().map_or_else(|| Change::Remove(id.clone()), Change::Put);
        if caught(|| self.translator.apply(change)).is_err() {
            tracing::error!(%id, "what stands in its place cannot be written either: it stays as it was");
        }
        self.translator.set_quarantined(&id, Some(object.clone()));
        self.aside.insert(id, Aside { object, stands });
        self.turned = true;
    }

    /// Brings everything derived up to date, and tells what changed since the last time: see [`Translator::settle`]. Nothing is
    /// told of what was tried meanwhile.
    pub fn settle(&mut self) -> Changes {
        self.computed = 0;
        self.settle_what_came();
        if self.is_complete {
            self.admit_suspects();
        }
        let changes = caught(|| self.translator.take_changes()).unwrap_or_else(|panicked| {
            self.search(&panicked);
            self.translator.take_changes()
        });
        Changes { computed: self.computed, ..changes }
    }

    fn settle_what_came(&mut self) {
        let aside: BTreeSet<_> = self.aside.keys().cloned().collect();
        self.settle_or_search();
        self.blame();
        for (id, Aside { stands, .. }) in self.aside.iter().filter(|(id, _)| !aside.contains(*id)) {
            let fault = self.entries.get(id).map(|entry| entry.fault.clone()).unwrap_or_default();
            tracing::error!(%id, fault, "is set aside, since this program fails on it: {stands}; please report it");
        }
        self.before.clear();
        if !self.entries.is_empty() {
            let now = Timestamp::now();
            for (id, entry) in &mut self.entries {
                if self.aside.contains_key(id) {
                    entry.over = false;
                } else if self.versions.contains_key(id) {
                    entry.end();
                }
            }
            // One that is not there may come yet.
            if self.is_complete && self.waiting.is_empty() {
                self.entries.retain(|id, entry| self.aside.contains_key(id) || entry.is_recent(now));
            }
        }
        self.inherited.retain(|id, _| self.aside.contains_key(id) || !self.versions.contains_key(id));
    }

    /// Whether all objects were read once.
    pub fn set_complete(&mut self, is_complete: bool) {
        self.is_complete = is_complete;
    }

    /// Those that the process may have died of, a few at a time, so that it is known of which if it dies again.
    fn admit_suspects(&mut self) {
        let suspects = std::mem::take(&mut self.suspects);
        let mut waiting: Vec<_> = std::mem::take(&mut self.waiting).into_iter().collect();
        waiting.sort_by(|(a, (_, first)), (b, (_, second))| (first, a).cmp(&(second, b)));
        if !waiting.is_empty() {
            let objects = waiting.len();
            tracing::warn!(objects, "the process died while it took in one of these: they come last, a few at a time");
        }
        let (alone, many): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|(id, _)| suspects.alone.contains(id));
        self.is_complete = false;
        let mut left = Suspects { alone: alone.iter().map(|(id, _)| id.clone()).collect(), all: false };
        for (is_alone, waiting) in [(false, many), (true, alone)] {
            self.alone = is_alone;
            let mut waiting = waiting.into_iter().peekable();
            while waiting.peek().is_some() {
                for (id, (object, version)) in waiting.by_ref().take(if is_alone { 1 } else { watchdog::NAMED }) {
                    left.alone.remove(&id);
                    self.admit(&id, object, version);
                }
                left.all = !is_alone && waiting.peek().is_some();
                self.suspect(&left);
                self.settle_what_came();
            }
        }
        self.alone = false;
        self.is_complete = true;
        if suspects != Suspects::default() {
            self.suspect(&Suspects::default());
        }
    }

    /// These are tried next, should the process die.
    fn suspect(&mut self, left: &Suspects) {
        if let Some(watchdog) = &mut self.watchdog {
            watchdog.suspect(left);
        }
    }

    fn settle_watched(&mut self) -> Result<(), Panicked> {
        if let Some(watchdog) = &mut self.watchdog {
            watchdog.begin(self.before.keys().map(|id| (id, self.translator.object(id))), self.alone);
        }
        let mut settled = caught(|| self.translator.compute());
        while settled.is_err() && self.close_fresh_editions() {
            settled = caught(|| self.translator.compute());
        }
        self.editions.settled();
        if let Some(watchdog) = &mut self.watchdog {
            watchdog.end();
        }
        settled.map(|computed| self.computed += computed)
    }

    fn settle_or_search(&mut self) {
        if let Err(panicked) = self.settle_watched() {
            self.search(&panicked);
        }
    }

    /// The faults that no table ends, and against which something may help.
    fn curable(&self) -> Vec<Unended> {
        let mut unended = self.translator.unended();
        unended.retain(|unended| !self.hopeless.contains(&unended.fault.to_string()));
        unended
    }

    /// Sets aside who is to blame for faults that no table ends.
    fn blame(&mut self) {
        if !self.hopeless.is_empty() {
            let unended: BTreeSet<_> =
                self.translator.unended().iter().map(|unended| unended.fault.to_string()).collect();
            self.hopeless.retain(|fault| unended.contains(fault));
        }
        let mut tried: BTreeMap<ObjectId, Tried> = BTreeMap::new();
        let mut order: Vec<ObjectId> = Vec::new();
        let mut last: Vec<ObjectId> = Vec::new();
        loop {
            let unended = self.curable();
            if unended.is_empty() {
                break;
            }
            // An object is not to blame for what an edition of it says.
            if self.close_editions(unended.iter().flat_map(|unended| &unended.editions)) {
                self.settle_or_search();
                continue;
            }
            let mut culprits = BTreeMap::new();
            for Unended { fault, objects, .. } in &unended {
                if let Some(id) = self.youngest(objects) {
                    let table = fault.row().split('(').next().unwrap_or_default();
                    culprits.entry(id).or_insert_with(|| format!("{table} at {}", fault.place()));
                }
            }
            if culprits.is_empty() || tried.len() + culprits.len() > MOST {
                return self.give_up(tried);
            }
            last = culprits.keys().cloned().collect();
            for (id, fault) in culprits {
                let Some((object, kept)) = self.written(&id) else { continue };
                if let btree_map::Entry::Vacant(vacant) = tried.entry(id.clone()) {
                    let aside = self.aside.get(&id);
                    vacant.insert(Tried {
                        object: object.clone(),
                        entry: self.entries.get(&id).cloned(),
                        is_aside: aside.is_some(),
                        kept: aside.and_then(|aside| aside.stands.kept().cloned()),
                    });
                    order.push(id);
                }
                self.set_aside(object, kept, fault);
            }
            self.settle_or_search();
        }
        // Who was only young is none to blame. Who came last and alone ended it.
        for id in order {
            let (Some(tried), Some(aside)) = (tried.remove(&id), self.aside.get(&id)) else { continue };
            if *last == [id.clone()] {
                continue;
            }
            let (object, kept) = (tried.object.clone(), aside.stands.kept().cloned());
            let entry = self.entries.get(&id).cloned();
            self.restore(&id, tried);
            self.settle_or_search();
            if !self.curable().is_empty() {
                self.entries.extend(entry.map(|entry| (id, entry)));
                self.stand(object, kept);
                self.settle_or_search();
            }
        }
    }

    /// An object is again what it was before it was tried.
    fn restore(&mut self, id: &ObjectId, Tried { object, entry, is_aside, kept }: Tried) {
        match entry {
            Some(entry) => self.entries.insert(id.clone(), entry),
            None => self.entries.remove(id),
        };
        if is_aside {
            return self.stand(object, kept);
        }
        self.let_go(id);
        self.put(id, Some(object));
    }

    /// The youngest of objects that can be set aside, or set aside further.
    fn youngest(&self, objects: &[ObjectId]) -> Option<ObjectId> {
        let able = objects.iter().filter(|id| {
            let further = self.aside.get(*id).is_none_or(|aside| aside.stands.kept().is_some());
            further && self.written(id).is_some_and(|(object, kept)| Standing::of(&object, kept).is_possible(id.kind))
        });
        able.max_by_key(|id| (self.versions.get(*id), *id)).cloned()
    }

    /// What may stay in force of an object that is not settled yet; none of one that did not change.
    fn kept(&self, id: &ObjectId) -> Option<Object> {
        self.before.get(id)?.kept()
    }

    /// An object as its owner wrote it, and what shall stay in force of it: nothing of one that is set aside further.
    fn written(&self, id: &ObjectId) -> Option<(Object, Option<Object>)> {
        if let Some(aside) = self.aside.get(id) {
            return Some((aside.object.clone(), None));
        }
        let object = self.translator.object(id)?.object();
        let kept = self.kept(id).or_else(|| self.recorded(&object));
        Some((object, kept))
    }

    /// Nothing helped: what hangs on the fault stays as it was.
    fn give_up(&mut self, tried: BTreeMap<ObjectId, Tried>) {
        for (id, tried) in tried {
            self.restore(&id, tried);
        }
        self.settle_or_search();
        let unended = self.translator.unended();
        for fault in unended.iter().map(|unended| &unended.fault) {
            tracing::error!(%fault, "what hangs on this row stays as it was: no object is to blame that could be set aside");
        }
        self.hopeless = unended.iter().map(|unended| unended.fault.to_string()).collect();
    }

    /// Takes over what is stored: what others have set aside is set aside here, and what was forgotten is tried again.
    pub fn set_stored(&mut self, stored: &Quarantine) {
        let others = stored.of_other_releases().into_iter();
        self.inherited.extend(others.filter(|(id, _)| !self.versions.contains_key(id)));
        let stored = stored.by_object();
        let forgotten: Vec<_> = self.stored.iter().filter(|id| !stored.contains_key(id)).cloned().collect();
        for id in forgotten {
            self.entries.remove(&id);
            if let Some(watchdog) = &mut self.watchdog {
                watchdog.acquit(&id);
            }
            self.again(&id);
        }
        self.stored = stored.keys().cloned().collect();
        for (id, entry) in stored {
            if self.entries.get(&id) != Some(&entry) {
                self.entries.insert(id.clone(), entry);
                self.again(&id);
            }
        }
    }

    /// Tries again what has waited long enough.
    pub fn try_again(&mut self) {
        let ids: Vec<_> = self.aside.keys().cloned().collect();
        for id in ids {
            let (Some(aside), Some(entry)) = (self.aside.get(&id), self.entries.get(&id)) else { continue };
            if !entry.holds(&aside.object, Timestamp::now()) {
                self.again(&id);
            }
        }
    }

    /// Judges an object anew that is there.
    fn again(&mut self, id: &ObjectId) {
        let Some((object, _)) = self.written(id) else { return };
        let version = self.versions.get(id).copied().unwrap_or_default();
        self.admit(id, Some(object), version);
    }

    /// What shall be stored: what is known of objects that are set aside, or were a short time ago.
    pub fn entries(&self) -> &BTreeMap<ObjectId, Entry> {
        &self.entries
    }

    /// Whether what is set aside may have changed since this was last asked.
    pub fn take_turned(&mut self) -> bool {
        std::mem::take(&mut self.turned)
    }

    /// Whether some object waits for its time.
    pub fn is_waiting(&self) -> bool {
        let now = Timestamp::now();
        self.aside
            .keys()
            .any(|id| self.entries.get(id).is_some_and(|entry| entry.until.is_some() || entry.is_waiting(now)))
    }
}
