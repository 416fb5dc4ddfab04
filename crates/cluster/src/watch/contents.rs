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

use api::{
    Kind, ObjectId,
    meta::StringMap,
    references::{Keys, Reference, Selection},
};

use super::{
    Observed,
    decoder::{Name, Payload, WatchedObject},
    request::{Command, ListWatch, Only, Target},
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

/// What is read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    /// What an object holds.
    Object(ObjectId),
    /// Which objects have some labels; and who needs what these hold.
    Selection(Selection),
}

/// What is referred to, what of it is being read, and what waits for it.
#[derive(Debug, Default)]
pub(super) struct Contents {
    wanted: BTreeMap<ObjectId, Wanted>,
    selections: BTreeMap<Selection, Selected>,
    /// What each object refers to and selects; while it is deferred, also what it referred to before.
    references: BTreeMap<ObjectId, BTreeSet<Subject>>,
    deferred: BTreeMap<ObjectId, Deferred>,
    /// What each request reads.
    requests: BTreeMap<u64, Subject>,
    last_request: u64,
    observed: Vec<Observed>,
    commands: Vec<Command>,
}

/// Objects that are selected by their labels. Of others no label is kept: a list says who is selected, and then the watch.
#[derive(Debug, Default)]
struct Selected {
    /// Who selects them.
    by: BTreeSet<ObjectId>,
    members: BTreeSet<ObjectId>,
    /// The request that lists them, and whom the watch has brought since, each with whether it is selected.
    request: Option<u64>,
    turned: BTreeMap<ObjectId, bool>,
    /// Whether it was listed, or that takes longer than anybody waits.
    listed: bool,
}

/// An object to which others refer.
#[derive(Debug, Default)]
struct Wanted {
    /// Who needs which keys: an object, or all who select it.
    by: BTreeMap<Subject, Keys>,
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
    needs: BTreeSet<Subject>,
    awaited: BTreeSet<Subject>,
}

impl Wanted {
    fn keys(&self) -> Keys {
        let mut all = Keys::default();
        self.by.values().for_each(|keys| all.extend(keys));
        all
    }

    /// Whether what was read is what is there, with all keys.
    fn is_read(&self, version: u64) -> bool {
        self.read.as_ref().is_some_and(|(read, keys)| *read == version && self.keys().are_among(keys))
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
            Observed::Put { object, .. } => Some((object.references(), object.selections())),
            Observed::Remove(_) => Some((Vec::new(), Vec::new())),
            _ => None,
        });
        let Some((references, selections)) = put else {
            // What was observed of it last holds, also if that is not reported yet.
            return self.deferred.get_mut(id).map_or(&mut self.observed, |deferred| &mut deferred.news).extend(news);
        };
        self.deferred.remove(id);
        let mut awaited = BTreeSet::new();
        let objects = references.iter().map(|reference| Subject::Object(reference.id.clone()));
        let needs: BTreeSet<_> = objects.chain(selections.iter().cloned().map(Subject::Selection)).collect();
        if !needs.is_empty() {
            self.references.entry(id.clone()).or_default().extend(needs.iter().cloned());
        }
        for Reference { id: wanted, keys } in &references {
            if self.want(wanted, Subject::Object(id.clone()), keys, there) {
                awaited.insert(Subject::Object(wanted.clone()));
            }
        }
        for selection in selections {
            awaited.extend(self.select(selection, id, there));
        }
        if awaited.is_empty() {
            self.observed.extend(news);
            self.refers(id, &needs);
        } else {
            self.deferred.insert(id.clone(), Deferred { news, needs, awaited });
        }
    }

    /// Somebody needs keys of an object; gives whether it is to be waited for.
    fn want(&mut self, id: &ObjectId, by: Subject, keys: &Keys, there: &dyn Fn(&ObjectId) -> Known) -> bool {
        self.wanted.entry(id.clone()).or_default().by.entry(by).or_default().extend(keys);
        let now = there(id);
        now == Known::Unlisted || self.look(id, now)
    }

    /// Somebody needs an object no more. One that nobody needs is forgotten.
    fn unwant(&mut self, id: &ObjectId, by: &Subject) {
        let Some(wanted) = self.wanted.get_mut(id) else { return };
        wanted.by.remove(by);
        if wanted.by.is_empty() {
            self.gone(id);
            self.wanted.remove(id);
        }
    }

    /// An object selects others; gives what it is to wait for.
    fn select(&mut self, selection: Selection, by: &ObjectId, there: &dyn Fn(&ObjectId) -> Known) -> BTreeSet<Subject> {
        let selected = self.selections.entry(selection.clone()).or_default();
        selected.by.insert(by.clone());
        if selected.listed {
            let members = selected.members.clone();
            return self.pending(members, there);
        }
        if selected.request.is_none() {
            self.last_request += 1;
            selected.request = Some(self.last_request);
            self.requests.insert(self.last_request, Subject::Selection(selection.clone()));
            let list_watch = ListWatch {
                target: Target::Selected(selection.kind),
                namespace: Some(selection.namespace.clone()),
                only: Only::Labelled(selection.labels.clone()),
            };
            self.commands.push(Command::Read(self.last_request, list_watch));
        }
        [Subject::Selection(selection)].into()
    }

    /// Those of these objects that are to be waited for.
    fn pending(&mut self, ids: BTreeSet<ObjectId>, there: &dyn Fn(&ObjectId) -> Known) -> BTreeSet<Subject> {
        let pending = ids.into_iter().filter(|id| {
            let now = there(id);
            now == Known::Unlisted || self.look(id, now)
        });
        pending.map(Subject::Object).collect()
    }

    /// The watch says which labels an object has; none of one that is not there.
    pub(super) fn labelled(&mut self, id: &ObjectId, labels: Option<&StringMap>, there: &dyn Fn(&ObjectId) -> Known) {
        let first = Selection { kind: id.kind, namespace: id.namespace.clone(), labels: StringMap::new() };
        let of_namespace = self.selections.range_mut(first..);
        let of_namespace =
            of_namespace.take_while(|(selection, _)| selection.kind == id.kind && selection.namespace == id.namespace);
        let mut changed = Vec::new();
        for (selection, selected) in of_namespace {
            let is_member = labels.is_some_and(|labels| selection.selects(&id.namespace, labels));
            if selected.request.is_some() {
                selected.turned.insert(id.clone(), is_member);
            }
            if selected.listed && is_member != selected.members.contains(id) {
                changed.push((selection.clone(), is_member));
            }
        }
        for (selection, is_member) in changed {
            self.member(&selection, id, is_member, there);
        }
    }

    /// An object is selected now, or not any more.
    fn member(&mut self, selection: &Selection, id: &ObjectId, is_one: bool, there: &dyn Fn(&ObjectId) -> Known) {
        let Some(selected) = self.selections.get_mut(selection) else { return };
        let by = Subject::Selection(selection.clone());
        if is_one {
            selected.members.insert(id.clone());
            self.want(id, by, &Keys::All, there);
        } else {
            selected.members.remove(id);
            self.unwant(id, &by);
        }
    }

    /// Who is selected.
    fn arrived_selection(
        &mut self,
        selection: &Selection,
        objects: Vec<WatchedObject>,
        there: &dyn Fn(&ObjectId) -> Known,
    ) {
        let Some(selected) = self.selections.get_mut(selection) else { return };
        (selected.request, selected.listed) = (None, true);
        let names = objects.into_iter().map(|watched| watched.name);
        let names = names.filter(|name| name.namespace == selection.namespace);
        let mut now: BTreeSet<_> = names.map(|name| ObjectId::new(selection.kind, name.namespace, name.name)).collect();
        // The watch brought these while the list was made, or after it.
        for (id, is_member) in take(&mut selected.turned) {
            if is_member {
                now.insert(id);
            } else {
                now.remove(&id);
            }
        }
        let before = selected.members.clone();
        for id in before.symmetric_difference(&now) {
            self.member(selection, id, now.contains(id), there);
        }
        let pending = self.pending(now, there);
        self.release_for(&Subject::Selection(selection.clone()), &pending);
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

    /// What was asked for could not be read for so long that nobody waits for it any more, or begins to.
    pub(super) fn late(&mut self, request: u64, why: String) {
        let id = match self.requests.get(&request).cloned() {
            Some(Subject::Object(id)) => id,
            Some(Subject::Selection(selection)) => {
                if let Some(selected) = self.selections.get_mut(&selection) {
                    selected.listed = true;
                }
                return self.release_for(&Subject::Selection(selection), &BTreeSet::new());
            }
            None => return,
        };
        let Some(wanted) = self.wanted.get_mut(&id) else { return };
        (wanted.late, wanted.reported) = (true, true);
        self.observed.push(Observed::Unreadable { id: id.clone(), why });
        self.release(&id);
    }

    /// What was read.
    pub(super) fn arrived(&mut self, request: u64, objects: Vec<WatchedObject>, there: &dyn Fn(&ObjectId) -> Known) {
        let id = match self.requests.remove(&request) {
            Some(Subject::Object(id)) => id,
            Some(Subject::Selection(selection)) => return self.arrived_selection(&selection, objects, there),
            // One that was cancelled may answer all the same.
            None => return,
        };
        let Some(wanted) = self.wanted.get_mut(&id) else { return };
        (wanted.request, wanted.late) = (None, false);
        let turned = take(&mut wanted.turned);
        let named = |name: &Name| name.namespace == id.namespace && name.name == id.name;
        // If it is gone, the watch says so.
        if let Some(WatchedObject { version, payload, .. }) = objects.into_iter().find(|watched| named(&watched.name)) {
            let keys = wanted.keys();
            match payload {
                Payload::Object { mut object, stored } => {
                    object.keep_keys(|key| keys.has(key));
                    self.observed.push(Observed::Put { object, stored });
                }
                Payload::Undecodable { why, .. } => {
                    self.observed.push(Observed::Undecodable { id: id.clone(), why, refused: false });
                }
                Payload::Exists { .. } | Payload::Labels(_) | Payload::Metadata(_) => {}
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
            self.requests.insert(self.last_request, Subject::Object(id.clone()));
            let list_watch = ListWatch {
                target: Target::Content(id.kind),
                namespace: Some(id.namespace.clone()),
                only: Only::Named(id.name.clone()),
            };
            self.commands.push(Command::Read(self.last_request, list_watch));
        }
        wanted.request.is_some() && !wanted.late
    }

    /// Nobody waits for an object any more.
    fn release(&mut self, id: &ObjectId) {
        self.release_for(&Subject::Object(id.clone()), &BTreeSet::new());
    }

    /// Nobody waits for this any more, but whoever did for these in its place.
    fn release_for(&mut self, subject: &Subject, others: &BTreeSet<Subject>) {
        let ready = self.deferred.extract_if(.., |_, deferred| {
            let waited = deferred.awaited.remove(subject);
            if waited {
                deferred.awaited.extend(others.iter().cloned());
            }
            waited && deferred.awaited.is_empty()
        });
        for (referrer, Deferred { news, needs, .. }) in ready.collect::<Vec<_>>() {
            self.observed.extend(news);
            self.refers(&referrer, &needs);
        }
    }

    /// An object needs this and nothing else. What nobody needs any more is forgotten.
    fn refers(&mut self, id: &ObjectId, needs: &BTreeSet<Subject>) {
        let Some(before) = self.references.remove(id) else { return };
        for left in before.difference(needs) {
            match left {
                Subject::Object(left) => self.unwant(left, &Subject::Object(id.clone())),
                Subject::Selection(left) => self.unselect(left, id),
            }
        }
        if !needs.is_empty() {
            self.references.insert(id.clone(), needs.clone());
        }
    }

    /// An object selects others no more.
    fn unselect(&mut self, selection: &Selection, by: &ObjectId) {
        let Some(selected) = self.selections.get_mut(selection) else { return };
        selected.by.remove(by);
        if selected.by.is_empty()
            && let Some(selected) = self.selections.remove(selection)
        {
            self.cancel(selected.request);
            for member in selected.members {
                self.unwant(&member, &Subject::Selection(selection.clone()));
            }
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
