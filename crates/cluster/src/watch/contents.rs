//! What is read of objects because others refer to them.
//!
//! Of a kind that is read by reference ([`Kind::is_read_by_reference`]) the watch brings names and versions alone. An object
//! of it is read by itself once another one refers to it, and again at each new version. Who refers to it is reported
//! after it, so that nobody sees a Gateway whose certificates were not looked for, and nobody else waits meanwhile. An
//! object that cannot be read for long is reported as such, and is not waited for. A policy that is new is reported at
//! once: while it waited, what it guards would be open.

mod kept;
mod needed;

use std::{
    collections::{BTreeMap, BTreeSet},
    mem::take,
    sync::Arc,
};

use api::{
    Kind, ObjectId,
    meta::StringMap,
    references::{Keys, Reference, Selection},
};

pub use self::kept::{Kept, Requirements};
use self::needed::Needed;
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

/// What was reported of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Before {
    /// Perhaps nothing, since its kind is read for the first time. Nothing is made of any object until that is done.
    Unsynced,
    /// Nothing: it is new.
    Nothing,
    /// What it was, which is in force.
    Reported,
}

/// What is read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    /// What an object holds.
    Object(ObjectId),
    /// Which objects have some labels; and who needs what these hold.
    Selection(Arc<Selection>),
}

/// What an object refers to and selects, with the keys that it needs.
type Needs = BTreeMap<Subject, Keys>;

/// What is referred to, what of it is being read, and what waits for it.
#[derive(Debug, Default)]
pub(super) struct Contents {
    wanted: BTreeMap<ObjectId, Wanted>,
    selections: BTreeMap<Arc<Selection>, Selected>,
    /// What each object needs, as it was reported last.
    references: BTreeMap<ObjectId, Needs>,
    deferred: BTreeMap<ObjectId, Deferred>,
    /// What is needed by what is kept as it was.
    kept: Arc<Kept>,
    /// Who of these waits for what.
    waiting: BTreeMap<Subject, BTreeSet<ObjectId>>,
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
    needed: Needed,
    /// The request that reads it, if one does, and whether the object turned since.
    request: Option<u64>,
    turned: bool,
    /// Whether that takes longer than anybody waits.
    late: bool,
    /// The version that was read last, and the keys that were reported of it.
    read: Option<(u64, Keys)>,
    reported: bool,
}

impl Wanted {
    /// Whether what was read is what is there, with all keys.
    fn is_read(&mut self, version: u64) -> bool {
        let Self { needed, read, .. } = self;
        read.as_ref().is_some_and(|(read, keys)| *read == version && needed.keys().are_among(keys))
    }
}

/// What is reported of an object once all that it refers to was read.
#[derive(Debug)]
struct Deferred {
    news: Vec<Observed>,
    needs: Needs,
    awaited: BTreeSet<Subject>,
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

    /// Whether an object refers to anything, as was reported last or is to be reported.
    pub(super) fn knows(&self, id: &ObjectId) -> bool {
        self.references.contains_key(id) || self.deferred.contains_key(id)
    }

    /// Reports what is new of an object, at once if all that it waits for was read or is not there.
    pub(super) fn report(
        &mut self,
        id: &ObjectId,
        news: Vec<Observed>,
        before: Before,
        there: &dyn Fn(&ObjectId) -> Known,
    ) {
        let needed = news.iter().find_map(|observed| match observed {
            Observed::Put { object, .. } => {
                Some(Requirements { references: object.references(), selections: object.selections() })
            }
            Observed::Remove(_) => Some(Requirements::default()),
            _ => None,
        });
        let Some(needed) = needed else {
            // What was observed of it last holds, also if that is not reported yet.
            return self.deferred.get_mut(id).map_or(&mut self.observed, |deferred| &mut deferred.news).extend(news);
        };
        self.need(id, news, &needed, |namespace| waits_for(id, before, namespace), there);
    }

    /// Somebody needs this and nothing else. What is new of it is reported once all is read, or known not to be there, of
    /// namespaces for which it `waits`.
    fn need(
        &mut self,
        id: &ObjectId,
        news: Vec<Observed>,
        Requirements { references, selections }: &Requirements,
        waits: impl Fn(&str) -> bool,
        there: &dyn Fn(&ObjectId) -> Known,
    ) {
        let mut needs = Needs::new();
        for Reference { id: other, keys } in references {
            needs.entry(Subject::Object(other.clone())).or_default().extend(keys);
        }
        for selection in selections {
            needs.insert(Subject::Selection(self.shared(selection.clone())), Keys::All);
        }
        let superseded = self.deferred.remove(id).map(|deferred| {
            for subject in &deferred.awaited {
                self.waits_no_more(subject, id);
            }
            deferred.needs
        });
        let mut awaited = BTreeSet::new();
        for (subject, keys) in &needs {
            let (pending, namespace) = match subject {
                Subject::Object(other) => {
                    let waits = self.want(other, Subject::Object(id.clone()), keys, there);
                    (waits.then(|| subject.clone()).into_iter().collect(), &other.namespace)
                }
                Subject::Selection(selection) => (self.select(selection, id, there), &selection.namespace),
            };
            if waits(namespace) {
                awaited.extend(pending);
            }
        }
        if awaited.is_empty() {
            self.observed.extend(news);
            self.refers(id, needs);
        } else {
            for subject in &awaited {
                self.waits(subject, id);
            }
            self.deferred.insert(id.clone(), Deferred { news, needs, awaited });
        }
        self.let_go(id, superseded.unwrap_or_default());
    }

    /// A selection as it is held already, if anybody has the same.
    fn shared(&self, selection: Selection) -> Arc<Selection> {
        let held = self.selections.get_key_value(&selection).map(|(held, _)| Arc::clone(held));
        held.unwrap_or_else(|| Arc::new(selection))
    }

    /// Somebody needs keys of an object; gives whether it is to be waited for.
    fn want(&mut self, id: &ObjectId, by: Subject, keys: &Keys, there: &dyn Fn(&ObjectId) -> Known) -> bool {
        self.wanted.entry(id.clone()).or_default().needed.add(by, keys);
        let now = there(id);
        now == Known::Unlisted || self.look(id, now)
    }

    /// Somebody needs an object no more. One that nobody needs is forgotten.
    fn unwant(&mut self, id: &ObjectId, by: &Subject) {
        let Some(wanted) = self.wanted.get_mut(id) else { return };
        if wanted.needed.remove(by) {
            self.gone(id);
            self.wanted.remove(id);
        }
    }

    /// An object selects others; gives what it is to wait for.
    fn select(
        &mut self,
        selection: &Arc<Selection>,
        by: &ObjectId,
        there: &dyn Fn(&ObjectId) -> Known,
    ) -> BTreeSet<Subject> {
        let selected = self.selections.entry(Arc::clone(selection)).or_default();
        selected.by.insert(by.clone());
        if selected.listed {
            let members = selected.members.clone();
            return self.pending(members, there);
        }
        if selected.request.is_none() {
            self.last_request += 1;
            selected.request = Some(self.last_request);
            self.requests.insert(self.last_request, Subject::Selection(Arc::clone(selection)));
            let list_watch = ListWatch {
                target: Target::Selected(selection.kind),
                namespace: Some(Arc::clone(&selection.namespace)),
                only: Only::Labelled(selection.labels.clone()),
            };
            self.commands.push(Command::Read(self.last_request, list_watch));
        }
        [Subject::Selection(Arc::clone(selection))].into()
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
        let first = Selection { kind: id.kind, namespace: id.namespace.clone(), labels: StringMap::default() };
        let of_namespace = self.selections.range_mut::<Selection, _>(first..);
        let of_namespace =
            of_namespace.take_while(|(selection, _)| selection.kind == id.kind && selection.namespace == id.namespace);
        let mut changed = Vec::new();
        for (selection, selected) in of_namespace {
            let is_member = labels.is_some_and(|labels| selection.selects(&id.namespace, labels));
            if selected.request.is_some() {
                selected.turned.insert(id.clone(), is_member);
            }
            if selected.listed && is_member != selected.members.contains(id) {
                changed.push((Arc::clone(selection), is_member));
            }
        }
        for (selection, is_member) in changed {
            self.member(&selection, id, is_member, there);
        }
    }

    /// An object is selected now, or not any more.
    fn member(&mut self, selection: &Arc<Selection>, id: &ObjectId, is_one: bool, there: &dyn Fn(&ObjectId) -> Known) {
        let Some(selected) = self.selections.get_mut(selection) else { return };
        let by = Subject::Selection(Arc::clone(selection));
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
        selection: &Arc<Selection>,
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
        self.release_for(&Subject::Selection(Arc::clone(selection)), &pending);
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
            let keys = wanted.needed.keys().clone();
            match payload {
                Payload::Object { mut object, stored } => {
                    object.keep_keys(|key| keys.has(key));
                    self.observed.push(Observed::Put { object, stored, version });
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
        for referrer in self.waiting.remove(subject).unwrap_or_default() {
            for other in others {
                self.waits(other, &referrer);
            }
            let Some(deferred) = self.deferred.get_mut(&referrer) else { continue };
            deferred.awaited.remove(subject);
            deferred.awaited.extend(others.iter().cloned());
            if deferred.awaited.is_empty()
                && let Some(Deferred { news, needs, .. }) = self.deferred.remove(&referrer)
            {
                self.observed.extend(news);
                self.refers(&referrer, needs);
            }
        }
    }

    /// What is to be reported of an object waits for this.
    fn waits(&mut self, subject: &Subject, referrer: &ObjectId) {
        self.waiting.entry(subject.clone()).or_default().insert(referrer.clone());
    }

    /// It does not any more, since something else is to be reported.
    fn waits_no_more(&mut self, subject: &Subject, referrer: &ObjectId) {
        if let Some(waiting) = self.waiting.get_mut(subject) {
            waiting.remove(referrer);
            if waiting.is_empty() {
                self.waiting.remove(subject);
            }
        }
    }

    /// An object that was just reported needs this and nothing else.
    fn refers(&mut self, id: &ObjectId, needs: Needs) {
        let before = self.references.remove(id);
        if !needs.is_empty() {
            self.references.insert(id.clone(), needs);
        }
        self.let_go(id, before.unwrap_or_default());
    }

    /// Lets go of what an object needed and does not need any more, neither as it was reported last nor as it is to be:
    /// keys as well. What nobody needs then is forgotten.
    fn let_go(&mut self, id: &ObjectId, needed: Needs) {
        for subject in needed.into_keys() {
            let reported = self.references.get(id).and_then(|needs| needs.get(&subject));
            let deferred = self.deferred.get(id).and_then(|deferred| deferred.needs.get(&subject));
            let keys = [reported, deferred].into_iter().flatten().cloned().reduce(|mut all, keys| {
                all.extend(&keys);
                all
            });
            match (subject, keys) {
                (Subject::Object(other), None) => self.unwant(&other, &Subject::Object(id.clone())),
                (Subject::Object(other), Some(keys)) => {
                    if let Some(wanted) = self.wanted.get_mut(&other) {
                        wanted.needed.set(Subject::Object(id.clone()), keys);
                    }
                }
                (Subject::Selection(selection), None) => self.unselect(&selection, id),
                (Subject::Selection(_), Some(_)) => {}
            }
        }
    }

    /// An object selects others no more.
    fn unselect(&mut self, selection: &Arc<Selection>, by: &ObjectId) {
        let Some(selected) = self.selections.get_mut(selection) else { return };
        selected.by.remove(by);
        if selected.by.is_empty()
            && let Some(selected) = self.selections.remove(selection)
        {
            self.cancel(selected.request);
            for member in selected.members {
                self.unwant(&member, &Subject::Selection(Arc::clone(selection)));
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

/// Whether an object is reported only after what it needs of a namespace.
///
/// A policy of any kind closes what it targets while it lacks a Secret, and while it is not reported that is open: one that
/// is new does not wait. Nor does any for a Secret of another namespace, since how long it takes would tell whether that exists.
fn waits_for(id: &ObjectId, before: Before, namespace: &str) -> bool {
    let policy_waits = match before {
        Before::Unsynced => true,
        Before::Nothing => false,
        Before::Reported => *namespace == *id.namespace,
    };
    policy_waits || !id.kind.is_policy()
}

#[cfg(test)]
mod tests;
