//! What was observed of which object.
//!
//! Events of the watches go in, what was observed comes out. Of an object its name, a number for its version and whether
//! it was reported are remembered: enough to say after a relist what is new and what has gone, and, where namespaces are
//! selected, which objects a namespace has that begins or ceases to be read. What objects refer to is reported before them, as
//! `contents` says.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    sync::Arc,
};

use api::{Kind, Object, ObjectId, meta::LabelSelector};

use super::{
    Observed, Scope,
    contents::{Before, Contents, Kept, Known},
    decoder::{Name, Payload, WatchedObject},
    event::Event,
    request::{Command, ListWatch, Only, Target},
};

/// What was reported, and what is still to be reported.
#[derive(Debug)]
pub(super) struct State {
    kinds: BTreeMap<Kind, KindState>,
    /// The selector of namespaces, if there is one.
    selector: Option<LabelSelector>,
    /// Those that it selects.
    selected: BTreeSet<Arc<str>>,
    /// What is to be reported.
    observed: Vec<Observed>,
    contents: Contents,
    /// What is being fetched; the request of each.
    fetches: BTreeMap<u64, Fetch>,
    last_fetch: u64,
    commands: Vec<Command>,
}

/// Objects that are read because their namespace begins to be.
#[derive(Debug)]
struct Fetch {
    kind: Kind,
    namespace: Arc<str>,
    /// Objects that the watch has brought meanwhile: it knows better.
    touched: BTreeSet<Arc<str>>,
}

#[derive(Debug, Default)]
struct KindState {
    /// By the namespace that a watch is restricted to.
    sources: BTreeMap<Option<Arc<str>>, Source>,
    entries: BTreeMap<Name, Entry>,
    absent: bool,
    stale: Option<String>,
    /// Whether `Synced` is due once everything is fetched.
    syncs: bool,
    /// Whether `Synced` or `Absent` was reported at any time.
    settled: bool,
}

/// One watch.
#[derive(Debug, Default)]
struct Source {
    /// The number of the list, and whether it is not complete.
    list: u64,
    listing: bool,
    read: Read,
    failing: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Read {
    #[default]
    NotYet,
    Synced,
    Absent,
}

#[derive(Debug)]
struct Entry {
    /// The last list that it was in, or after which the watch brought it.
    list: u64,
    version: u64,
    reported: Reported,
    /// Whether it was fetched and the watch has not brought it yet: a list that does not have it may be older.
    fetched: bool,
}

/// What was last reported of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reported {
    /// Nothing: its namespace is not read.
    Hidden,
    /// What it is.
    Object,
    /// What it targets, for it never was decodable.
    Targets,
    /// That it is not decodable, and never was.
    Undecodable,
    /// What it was, and that what it is now is not decodable.
    Kept,
}

impl KindState {
    /// Whether everything was read once, or it is known not to be served.
    fn is_read(&self) -> bool {
        self.sources.values().all(|source| source.read != Read::NotYet)
    }
}

impl State {
    /// Before anything was read.
    pub(super) fn new<'a>(scope: &Scope, list_watches: impl IntoIterator<Item = &'a ListWatch>) -> Self {
        let mut kinds = BTreeMap::<Kind, KindState>::new();
        for ListWatch { target, namespace, .. } in list_watches {
            if let Target::Kind(kind) = target {
                kinds.entry(*kind).or_default().sources.insert(namespace.clone(), Source::default());
            }
        }
        let selector = if let Scope::Selector(selector) = scope { Some(selector.clone()) } else { None };
        Self {
            kinds,
            selector,
            selected: BTreeSet::new(),
            observed: Vec::new(),
            contents: Contents::default(),
            fetches: BTreeMap::new(),
            last_fetch: 0,
            commands: Vec::new(),
        }
    }

    /// Takes what is to be reported since it was last asked.
    pub(super) fn take_observed(&mut self) -> Vec<Observed> {
        std::mem::take(&mut self.observed)
    }

    /// Takes what is to be done since it was last asked.
    pub(super) fn take_commands(&mut self) -> Vec<Command> {
        std::mem::take(&mut self.commands)
    }

    /// Whether everything of a kind was read once, or it is known not to be served.
    pub(super) fn has_read(&self, kind: Kind) -> bool {
        self.kinds.get(&kind).is_some_and(|of_kind| !of_kind.sources.is_empty() && of_kind.is_read())
    }

    /// Events of the watch of a kind, or of one namespace of it.
    pub(super) fn handle(&mut self, kind: Kind, namespace: Option<&Arc<str>>, events: Vec<Event>) {
        let key = namespace.cloned();
        for event in events {
            let Some(of_kind) = self.kinds.get_mut(&kind) else { return };
            let source = of_kind.sources.entry(key.clone()).or_default();
            match event {
                Event::ListStarted => {
                    source.list += 1;
                    source.listing = true;
                }
                Event::Applied(watched) => {
                    let list = source.list;
                    self.touch(kind, &watched.name);
                    self.put(kind, list, false, watched);
                }
                Event::Deleted(name) => {
                    self.touch(kind, &name);
                    self.gone(kind, &name);
                }
                Event::ListComplete => {
                    source.listing = false;
                    source.read = Read::Synced;
                    let list = source.list;
                    self.drop_where(kind, namespace, |entry| entry.list != list && !entry.fetched);
                    self.fetch_again(kind, list);
                    if self.has_read(kind) {
                        self.contents(|contents, there| contents.listed(kind, there));
                    }
                    self.sync(kind);
                }
                Event::Failing { why, .. } => {
                    source.failing = Some(why);
                    self.health(kind);
                }
                Event::Recovered => {
                    source.failing = None;
                    self.health(kind);
                }
                Event::NotServed => {
                    source.listing = false;
                    source.read = Read::Absent;
                    self.drop_where(kind, namespace, |_| true);
                    self.cancel(|fetch| fetch.kind == kind);
                    self.sync(kind);
                }
            }
        }
    }

    /// What was fetched.
    pub(super) fn fetched(&mut self, request: u64, objects: Vec<WatchedObject>) {
        // One that was cancelled may answer all the same.
        let Some(Fetch { kind, .. }) = self.fetches.get(&request) else { return };
        let source = self.kinds.get(kind).and_then(|of_kind| of_kind.sources.get(&None));
        let Some(Source { list, listing: false, .. }) = source else {
            // The list may be newer: this is fetched again at its end.
            return;
        };
        let list = *list;
        let Some(Fetch { kind, namespace, touched }) = self.fetches.remove(&request) else { return };
        let mut there = BTreeSet::new();
        for watched in objects.into_iter().filter(|watched| watched.name.namespace == namespace) {
            there.insert(Arc::clone(&watched.name.name));
            if !touched.contains(&watched.name.name) {
                self.put(kind, list, true, watched);
            }
        }
        let entries = self.kinds.get(&kind).map(|of_kind| of_namespace(&of_kind.entries, &namespace));
        let gone = entries
            .into_iter()
            .flatten()
            .filter(|(name, entry)| entry.fetched && !there.contains(&name.name) && !touched.contains(&name.name));
        for name in gone.map(|(name, _)| name.clone()).collect::<Vec<_>>() {
            self.gone(kind, &name);
        }
        if self.kinds.get(&kind).is_some_and(|of_kind| of_kind.syncs) {
            self.sync(kind);
        }
    }

    /// What an object holds to which others refer.
    pub(super) fn arrived(&mut self, request: u64, objects: Vec<WatchedObject>) {
        self.contents(|contents, there| contents.arrived(request, objects, there));
    }

    /// An object to which others refer could not be read yet.
    pub(super) fn late(&mut self, request: u64, why: String) {
        self.contents(|contents, _| contents.late(request, why));
    }

    /// What is needed by what is kept as it was.
    pub(super) fn keep(&mut self, kept: &Arc<Kept>) {
        self.contents(|contents, there| contents.keep(kept, there));
    }

    /// Asks about what objects refer to, and hands on the answer.
    fn contents(&mut self, ask: impl FnOnce(&mut Contents, &dyn Fn(&ObjectId) -> Known)) {
        let Self { contents, kinds, selector, selected, .. } = self;
        let there = |id: &ObjectId| {
            let Some(of_kind) = kinds.get(&id.kind) else { return Known::Absent };
            let name = Name { namespace: Arc::clone(&id.namespace), name: Arc::clone(&id.name) };
            match of_kind.entries.get(&name) {
                Some(_) if selector.is_some() && !selected.contains(&id.namespace) => Known::Absent,
                Some(entry) => Known::Version(entry.version),
                None if of_kind.is_read() => Known::Absent,
                None => Known::Unlisted,
            }
        };
        ask(contents, &there);
        let (observed, commands) = contents.take();
        self.observed.extend(observed);
        self.commands.extend(commands);
        let due = self.kinds.iter().filter(|(_, of_kind)| of_kind.syncs);
        for kind in due.map(|(kind, _)| *kind).collect::<Vec<_>>() {
            self.sync(kind);
        }
    }

    /// Reports what is new of an object, perhaps after what it refers to.
    fn report(&mut self, id: &ObjectId, news: Vec<Observed>, before: Before) {
        let refers = |observed: &Observed| match observed {
            Observed::Put { object, .. } => !(object.references().is_empty() && object.selections().is_empty()),
            _ => false,
        };
        if self.contents.knows(id) || news.iter().any(refers) {
            self.contents(|contents, there| contents.report(id, news, before, there));
        } else {
            self.observed.extend(news);
        }
    }

    /// An object is there of a kind that is read by reference.
    fn put_reference(&mut self, kind: Kind, list: u64, WatchedObject { name, version, payload }: WatchedObject) {
        let shown = self.shows(kind, &name);
        let Some(of_kind) = self.kinds.get_mut(&kind) else { return };
        let id = id(kind, &name);
        let entry = Entry { list, version, reported: Reported::Hidden, fetched: false };
        let before = of_kind.entries.insert(name, entry);
        if shown && before.is_none_or(|before| before.version != version) {
            self.contents(|contents, _| contents.turned(&id, version));
        }
        if let (true, Payload::Labels(labels)) = (shown, &payload) {
            self.contents(|contents, there| contents.labelled(&id, Some(labels), there));
        }
    }

    fn put(&mut self, kind: Kind, list: u64, fetched: bool, watched: WatchedObject) {
        if kind.is_read_by_reference() {
            return self.put_reference(kind, list, watched);
        }
        let WatchedObject { name, version, payload } = watched;
        if kind == Kind::Namespace {
            self.select(&name.name, &payload);
        }
        let shown = self.shows(kind, &name);
        let Some(of_kind) = self.kinds.get_mut(&kind) else { return };
        let old = of_kind.entries.get(&name).map(|entry| (entry.version, entry.reported));
        // What the watch has brought stays so.
        let fetched = fetched && of_kind.entries.get(&name).is_none_or(|entry| entry.fetched);
        if let Some((same, reported)) = old
            && same == version
            && (reported == Reported::Hidden) != shown
        {
            of_kind.entries.entry(name).and_modify(|entry| {
                entry.list = list;
                entry.fetched &= fetched;
            });
            return;
        }
        let old = old.map_or(Reported::Hidden, |(_, reported)| reported);
        let before = match old {
            _ if !of_kind.settled => Before::Unsynced,
            Reported::Hidden | Reported::Undecodable => Before::Nothing,
            Reported::Object | Reported::Targets | Reported::Kept => Before::Reported,
        };
        let id = id(kind, &name);
        let mut news = Vec::new();
        let reported = match payload {
            _ if !shown => Reported::Hidden,
            Payload::Exists { .. } | Payload::Labels(_) | Payload::Metadata(_) => return,
            Payload::Object { object, stored } => {
                news.push(Observed::Put { object, stored, version });
                Reported::Object
            }
            Payload::Undecodable { why, targets } => {
                let (reported, refused) = match (old, targets) {
                    (Reported::Object | Reported::Kept, _) => (Reported::Kept, false),
                    (_, Some((object, stored))) => {
                        news.push(Observed::Put { object: *object, stored, version });
                        (Reported::Targets, true)
                    }
                    (Reported::Targets, None) => (Reported::Targets, false),
                    (_, None) => (Reported::Undecodable, false),
                };
                news.push(Observed::Undecodable { id: id.clone(), why, refused });
                reported
            }
        };
        of_kind.entries.insert(name, Entry { list, version, reported, fetched });
        if !news.is_empty() {
            self.report(&id, news, before);
        }
    }

    fn gone(&mut self, kind: Kind, name: &Name) {
        if kind == Kind::Namespace {
            self.deselect(&name.name);
        }
        let entry = self.kinds.get_mut(&kind).and_then(|of_kind| of_kind.entries.remove(name));
        let id = id(kind, name);
        if kind.is_read_by_reference() {
            self.contents(|contents, there| {
                contents.gone(&id);
                contents.labelled(&id, None, there);
            });
        } else if entry.is_some_and(|entry| entry.reported != Reported::Hidden) {
            self.report(&id, vec![Observed::Remove(id.clone())], Before::Reported);
        }
    }

    /// Removes objects that a watch had brought.
    fn drop_where(&mut self, kind: Kind, namespace: Option<&Arc<str>>, gone: impl Fn(&Entry) -> bool) {
        let Some(of_kind) = self.kinds.get(&kind) else { return };
        let of_source = |name: &Name| match namespace {
            Some(namespace) if kind == Kind::Namespace => name.name == *namespace,
            Some(namespace) => name.namespace == *namespace,
            None => true,
        };
        let entries = of_kind.entries.iter().filter(|(name, entry)| of_source(name) && gone(entry));
        let names: Vec<_> = entries.map(|(name, _)| name.clone()).collect();
        for name in names {
            self.touch(kind, &name);
            self.gone(kind, &name);
        }
    }

    /// Reports that a kind was read, or is not served, once that holds for all its watches.
    fn sync(&mut self, kind: Kind) {
        let fetching = self.fetches.values().any(|fetch| fetch.kind == kind) || self.contents.defers(kind);
        let Some(of_kind) = self.kinds.get_mut(&kind) else { return };
        let reads = |read| of_kind.sources.values().filter(|source| source.read == read).count();
        if reads(Read::NotYet) > 0 {
            return;
        }
        if reads(Read::Synced) == 0 {
            (of_kind.syncs, of_kind.settled) = (false, true);
            if !std::mem::replace(&mut of_kind.absent, true) {
                self.observed.push(Observed::Absent(kind));
            }
            return;
        }
        of_kind.syncs = fetching;
        if !fetching {
            (of_kind.absent, of_kind.settled) = (false, true);
            self.observed.push(Observed::Synced(kind));
        }
    }

    fn health(&mut self, kind: Kind) {
        let Some(of_kind) = self.kinds.get_mut(&kind) else { return };
        let why = of_kind.sources.values().find_map(|source| source.failing.clone());
        if why == of_kind.stale {
            return;
        }
        of_kind.stale.clone_from(&why);
        self.observed.push(why.map_or(Observed::Fresh(kind), |why| Observed::Stale { kind, why }));
    }

    /// Whether what is observed of an object is to be reported.
    fn shows(&self, kind: Kind, name: &Name) -> bool {
        let namespace = if kind == Kind::Namespace { &name.name } else { &name.namespace };
        self.selector.is_none() || namespace.is_empty() || self.selected.contains(namespace)
    }

    /// Looks at the labels of a Namespace before it is reported itself.
    fn select(&mut self, name: &Arc<str>, payload: &Payload) {
        let (Some(selector), Payload::Object { object: Object::Namespace(namespace), .. }) = (&self.selector, payload)
        else {
            return;
        };
        // A selector that cannot be evaluated selects nothing, whatever the labels.
        if !selector.matches(&namespace.labels).unwrap_or(false) {
            self.deselect(name);
        } else if self.selected.insert(Arc::clone(name)) {
            let hides = |of_kind: &KindState| of_namespace(&of_kind.entries, name).next().is_some();
            let fetched = |kind: &Kind| kind.namespaced() && !kind.is_read_by_reference();
            let kinds = self.kinds.iter().filter(|(kind, of_kind)| fetched(kind) && hides(of_kind));
            for kind in kinds.map(|(kind, _)| *kind).collect::<Vec<_>>() {
                self.fetch(kind, Arc::clone(name));
            }
            self.contents(|contents, there| contents.selected(name, there));
        }
    }

    /// A namespace is not read any more. Its Namespace goes last.
    fn deselect(&mut self, namespace: &Arc<str>) {
        if !self.selected.remove(namespace) {
            return;
        }
        let ended = self.cancel(|fetch| fetch.namespace == *namespace);
        let mut hidden = Vec::new();
        for (kind, of_kind) in self.kinds.iter_mut().filter(|(kind, _)| kind.namespaced()) {
            let from = of_kind.entries.range_mut((first_of(namespace), Bound::Unbounded));
            for (name, entry) in from.take_while(|(name, _)| name.namespace == *namespace) {
                if std::mem::replace(&mut entry.reported, Reported::Hidden) != Reported::Hidden {
                    hidden.push(id(*kind, name));
                }
            }
        }
        for id in hidden {
            self.report(&id, vec![Observed::Remove(id.clone())], Before::Reported);
        }
        self.contents(|contents, _| contents.deselected(namespace));
        let itself = Name { namespace: Arc::default(), name: Arc::clone(namespace) };
        let entry = self.kinds.get_mut(&Kind::Namespace).and_then(|of_kind| of_kind.entries.get_mut(&itself));
        if entry.is_some_and(|entry| std::mem::replace(&mut entry.reported, Reported::Hidden) != Reported::Hidden) {
            self.observed.push(Observed::Remove(id(Kind::Namespace, &itself)));
        }
        for Fetch { kind, .. } in ended {
            if self.kinds.get(&kind).is_some_and(|of_kind| of_kind.syncs) {
                self.sync(kind);
            }
        }
    }

    fn fetch(&mut self, kind: Kind, namespace: Arc<str>) {
        self.last_fetch += 1;
        let list_watch =
            ListWatch { target: Target::Kind(kind), namespace: Some(Arc::clone(&namespace)), only: Only::All };
        self.commands.push(Command::Fetch(self.last_fetch, list_watch));
        self.fetches.insert(self.last_fetch, Fetch { kind, namespace, touched: BTreeSet::new() });
    }

    /// A relist is complete. What is being fetched may be older than that, and what was fetched and is not in the list newer,
    /// or gone.
    fn fetch_again(&mut self, kind: Kind, list: u64) {
        let mut namespaces: BTreeSet<_> =
            self.cancel(|fetch| fetch.kind == kind).into_iter().map(|fetch| fetch.namespace).collect();
        let entries = self.kinds.get(&kind).into_iter().flat_map(|of_kind| &of_kind.entries);
        let unsure = entries.filter(|(_, entry)| entry.fetched && entry.list != list);
        namespaces.extend(unsure.map(|(name, _)| Arc::clone(&name.namespace)));
        for namespace in namespaces {
            self.fetch(kind, namespace);
        }
    }

    fn cancel(&mut self, which: impl Fn(&Fetch) -> bool) -> Vec<Fetch> {
        let cancelled: Vec<_> = self.fetches.extract_if(.., |_, fetch| which(fetch)).collect();
        self.commands.extend(cancelled.iter().map(|(request, _)| Command::Cancel(*request)));
        cancelled.into_iter().map(|(_, fetch)| fetch).collect()
    }

    fn touch(&mut self, kind: Kind, name: &Name) {
        for fetch in self.fetches.values_mut().filter(|fetch| fetch.kind == kind && fetch.namespace == name.namespace) {
            fetch.touched.insert(Arc::clone(&name.name));
        }
    }
}

fn id(kind: Kind, name: &Name) -> ObjectId {
    ObjectId { kind, namespace: Arc::clone(&name.namespace), name: Arc::clone(&name.name) }
}

fn first_of(namespace: &Arc<str>) -> Bound<Name> {
    Bound::Included(Name { namespace: Arc::clone(namespace), name: Arc::default() })
}

fn of_namespace<'a>(
    entries: &'a BTreeMap<Name, Entry>,
    namespace: &'a Arc<str>,
) -> impl Iterator<Item = (&'a Name, &'a Entry)> {
    let from = entries.range((first_of(namespace), Bound::Unbounded));
    from.take_while(|(name, _)| name.namespace == *namespace)
}

#[cfg(test)]
mod tests;
