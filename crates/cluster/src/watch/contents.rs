//! What is read of objects because others refer to them.
//!
//! Of a kind that is read by reference ([`Kind::is_read_by_reference`]) the watch brings names and versions alone. An object
//! of it is read by itself once another one refers to it, and again at each new version. Who refers to it is reported
//! after it, so that nobody sees a Gateway whose certificates were not looked for, and nobody else waits meanwhile. An
//! object that cannot be read for long is reported as such, and is not waited for.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem::take,
};

use api::{Kind, ObjectId, references::Reference};

use super::{
    Observed,
    decoder::{Name, Payload, WatchedObject},
    request::{Command, ListWatch, Target},
};

/// What the watch says of an object that is read by reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// Nothing yet.
    Unlisted,
    /// That it is not there, or not to be read.
    Absent,
    /// That it is there, in this version.
    Version(u64),
}

type Keys = BTreeSet<&'static str>;

/// What is referred to, what of it is being read, and what waits for it.
#[derive(Debug, Default)]
pub(super) struct Contents {
    wanted: BTreeMap<ObjectId, Wanted>,
    /// What each object refers to; while it is deferred, also what it referred to before.
    references: BTreeMap<ObjectId, BTreeSet<ObjectId>>,
    deferred: BTreeMap<ObjectId, Deferred>,
    /// Which object each request reads.
    requests: BTreeMap<u64, ObjectId>,
    last_request: u64,
    observed: Vec<Observed>,
    commands: Vec<Command>,
}

/// An object to which others refer.
#[derive(Debug, Default)]
struct Wanted {
    /// Who needs which keys.
    by: BTreeMap<ObjectId, Keys>,
    /// The request that reads it, if one does, and whether the object turned since.
    request: Option<u64>,
    turned: bool,
    /// Whether that takes longer than anybody waits.
    late: bool,
    /// The version that was read last, and the keys that were reported of it.
    read: Option<(u64, Keys)>,
    reported: bool,
}

/// What is reported of an object once all that it refers to was read.
#[derive(Debug)]
struct Deferred {
    news: Vec<Observed>,
    references: Vec<Reference>,
    awaited: BTreeSet<ObjectId>,
}

impl Wanted {
    fn keys(&self) -> Keys {
        self.by.values().flatten().copied().collect()
    }

    /// Whether what was read is what is there, with all keys.
    fn is_read(&self, version: u64) -> bool {
        self.read.as_ref().is_some_and(|(read, keys)| *read == version && self.keys().is_subset(keys))
    }
}

impl Contents {
    /// Takes what is to be reported since it was last asked, and what is to be done.
    pub(super) fn take(&mut self) -> (Vec<Observed>, Vec<Command>) {
        (take(&mut self.observed), take(&mut self.commands))
    }

    /// Whether something that is to be reported of an object of this kind waits.
    pub(super) fn defers(&self, kind: Kind) -> bool {
        self.deferred.keys().any(|id| id.kind == kind)
    }

    /// Whether an object refers to anything, as was reported last.
    pub(super) fn knows(&self, id: &ObjectId) -> bool {
        self.references.contains_key(id)
    }

    /// Reports what is new of an object, at once if all that it refers to was read or is not there.
    pub(super) fn report(&mut self, id: &ObjectId, news: Vec<Observed>, there: &dyn Fn(&ObjectId) -> Known) {
        let put = news.iter().find_map(|observed| match observed {
            Observed::Put { object, .. } => Some(object.references()),
            Observed::Remove(_) => Some(Vec::new()),
            _ => None,
        });
        let Some(references) = put else {
            // What was observed of it last holds, also if that is not reported yet.
            return self.deferred.get_mut(id).map_or(&mut self.observed, |deferred| &mut deferred.news).extend(news);
        };
        self.deferred.remove(id);
        let mut awaited = BTreeSet::new();
        for Reference { id: wanted, keys } in &references {
            self.references.entry(id.clone()).or_default().insert(wanted.clone());
            let by = &mut self.wanted.entry(wanted.clone()).or_default().by;
            by.entry(id.clone()).or_default().extend(*keys);
            let now = there(wanted);
            if now == Known::Unlisted || self.look(wanted, now) {
                awaited.insert(wanted.clone());
            }
        }
        if awaited.is_empty() {
            self.observed.extend(news);
            self.refers(id, &references);
        } else {
            self.deferred.insert(id.clone(), Deferred { news, references, awaited });
        }
    }

    /// The watch says that an object is there in this version.
    pub(super) fn turned(&mut self, id: &ObjectId, version: u64) {
        if let Some(wanted) = self.wanted.get_mut(id) {
            wanted.turned = wanted.request.is_some();
            self.look(id, Known::Version(version));
        }
    }

    /// The watch says that an object is not there, or it is not to be read any more.
    pub(super) fn gone(&mut self, id: &ObjectId) {
        let Some(wanted) = self.wanted.get_mut(id) else { return };
        if take(&mut wanted.reported) {
            self.observed.push(Observed::Remove(id.clone()));
        }
        (wanted.read, wanted.late) = (None, false);
        let request = wanted.request.take();
        self.cancel(request);
        self.release(id);
    }

    /// Everything of a kind was listed: what is referred to and was not found is not there.
    pub(super) fn listed(&mut self, kind: Kind, there: &dyn Fn(&ObjectId) -> Known) {
        let absent = |id: &&ObjectId| id.kind == kind && there(id) == Known::Absent;
        for id in self.wanted.keys().filter(absent).cloned().collect::<Vec<_>>() {
            self.release(&id);
        }
    }

    /// Objects of a namespace are read from now on.
    pub(super) fn selected(&mut self, namespace: &str, there: &dyn Fn(&ObjectId) -> Known) {
        for id in self.of_namespace(namespace) {
            self.look(&id, there(&id));
        }
    }

    /// Objects of a namespace are not read any more.
    pub(super) fn deselected(&mut self, namespace: &str) {
        for id in self.of_namespace(namespace) {
            self.gone(&id);
        }
    }

    /// An object could not be read for so long that nobody waits for it any more, or begins to.
    pub(super) fn late(&mut self, request: u64, why: String) {
        let Some(id) = self.requests.get(&request).cloned() else { return };
        let Some(wanted) = self.wanted.get_mut(&id) else { return };
        (wanted.late, wanted.reported) = (true, true);
        self.observed.push(Observed::Unreadable { id: id.clone(), why });
        self.release(&id);
    }

    /// What was read.
    pub(super) fn arrived(&mut self, request: u64, objects: Vec<WatchedObject>, there: &dyn Fn(&ObjectId) -> Known) {
        // One that was cancelled may answer all the same.
        let Some(id) = self.requests.remove(&request) else { return };
        let Some(wanted) = self.wanted.get_mut(&id) else { return };
        (wanted.request, wanted.late) = (None, false);
        let turned = take(&mut wanted.turned);
        let named = |name: &Name| name.namespace == id.namespace && name.name == id.name;
        // If it is gone, the watch says so.
        if let Some(WatchedObject { version, payload, .. }) = objects.into_iter().find(|watched| named(&watched.name)) {
            let keys = wanted.keys();
            match payload {
                Payload::Object { mut object, stored } => {
                    object.keep_keys(|key| keys.contains(key));
                    self.observed.push(Observed::Put { object, stored });
                }
                Payload::Undecodable { why, .. } => {
                    self.observed.push(Observed::Undecodable { id: id.clone(), why, refused: false });
                }
                Payload::Exists { .. } | Payload::Metadata(_) => {}
            }
            wanted.reported = true;
            wanted.read = Some((version, keys));
        }
        // A version that the watch brings later is looked at then.
        if turned {
            self.look(&id, there(&id));
        }
        // A newer version comes by itself, so that nobody waits for one who writes all the time.
        self.release(&id);
    }

    /// Reads an object if what is there was not read; gives whether it is to be waited for.
    fn look(&mut self, id: &ObjectId, there: Known) -> bool {
        let (Some(wanted), Known::Version(version)) = (self.wanted.get_mut(id), there) else { return false };
        if wanted.request.is_none() && !wanted.is_read(version) {
            self.last_request += 1;
            wanted.request = Some(self.last_request);
            self.requests.insert(self.last_request, id.clone());
            let list_watch = ListWatch {
                target: Target::Content(id.kind),
                namespace: Some(id.namespace.clone()),
                name: Some(id.name.clone()),
            };
            self.commands.push(Command::Read(self.last_request, list_watch));
        }
        wanted.request.is_some() && !wanted.late
    }

    /// Nobody waits for an object any more.
    fn release(&mut self, id: &ObjectId) {
        let ready =
            self.deferred.extract_if(.., |_, deferred| deferred.awaited.remove(id) && deferred.awaited.is_empty());
        for (referrer, Deferred { news, references, .. }) in ready.collect::<Vec<_>>() {
            self.observed.extend(news);
            self.refers(&referrer, &references);
        }
    }

    /// An object refers to these and to nothing else. What nobody refers to any more is forgotten.
    fn refers(&mut self, id: &ObjectId, references: &[Reference]) {
        let Some(before) = self.references.remove(id) else { return };
        let now: BTreeSet<_> = references.iter().map(|reference| reference.id.clone()).collect();
        for left in before.difference(&now) {
            let Some(wanted) = self.wanted.get_mut(left) else { continue };
            wanted.by.remove(id);
            if wanted.by.is_empty() {
                self.gone(left);
                self.wanted.remove(left);
            }
        }
        if !now.is_empty() {
            self.references.insert(id.clone(), now);
        }
    }

    fn cancel(&mut self, request: Option<u64>) {
        if let Some(request) = request {
            self.requests.remove(&request);
            self.commands.push(Command::Forget(request));
        }
    }

    fn of_namespace(&self, namespace: &str) -> Vec<ObjectId> {
        self.wanted.keys().filter(|id| &*id.namespace == namespace).cloned().collect()
    }
}

#[cfg(test)]
mod tests;
