//! The objects of all files, taken together: the pure core of the file source.
//!
//! The rules, each held by a test:
//!
//! - A file that does not parse keeps its last good objects, all of them.
//! - A manifest that an API server would refuse keeps its own last good object; the others of its file change. A policy
//!   that never was good is served as far as it can be read, so that what it targets is refused and not open. Where it
//!   is not clear which object it is, nothing of the file is removed.
//! - An object that occurs twice is that of the first file, by argument, path and document; the other is reported.
//! - An object without a timestamp is as old as its place (see [`super::age`]), and a namespace in which something
//!   lives has a Namespace object.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
    path::PathBuf,
    sync::Arc,
};

use api::{Kind, Object, ObjectId, core::Namespace};
use indexmap::IndexMap;
use ir::{Problem, Reason, Severity};
use jiff::Timestamp;
use translate::Change;

use super::{
    FileKey,
    age::Ages,
    parse::{self, Manifest, Origin, Outcome, Piece},
    yaml::{Position, SyntaxError},
};

/// What is wrong with a file or with a manifest in it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileProblem {
    /// The file.
    pub file: PathBuf,
    /// Where in it.
    pub position: Position,
    /// The object, if it is known.
    pub object: Option<ObjectId>,
    /// What is wrong.
    pub problem: Problem,
    /// Whether an older version of the object, or of the whole file, stays in force.
    pub kept: bool,
}

impl fmt::Display for FileProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: ", self.file.display(), self.position)?;
        if let Some(object) = &self.object {
            write!(f, "{object}: ")?;
        }
        write!(f, "{}: {}", self.problem.severity, self.problem)?;
        if self.kept { f.write_str(" (its last good version stays in force)") } else { Ok(()) }
    }
}

/// All files and the objects in them.
#[derive(Debug, Default)]
pub struct Manifests {
    files: BTreeMap<Arc<FileKey>, File>,
    ages: Ages,
    /// The files that have a usable object of this name, the first of which has it.
    candidates: HashMap<ObjectId, BTreeSet<Arc<FileKey>>>,
    /// How many files have nothing but a refused object of this name.
    refused: HashMap<ObjectId, usize>,
    /// Names that several files have.
    contested: BTreeSet<ObjectId>,
    served: HashMap<ObjectId, Served>,
    /// How many served objects a namespace has.
    inhabitants: HashMap<Arc<str>, usize>,
    dirty: BTreeSet<ObjectId>,
}

#[derive(Debug)]
struct Served {
    object: Arc<Object>,
    created: Option<i64>,
}

#[derive(Debug, Default)]
struct File {
    pieces: Vec<(u32, Arc<Piece>)>,
    entries: IndexMap<ObjectId, Entry>,
    problems: Vec<(Position, Option<ObjectId>, Problem)>,
    broken: Option<SyntaxError>,
}

/// An object of a file; none if it was never good.
#[derive(Clone, Debug)]
struct Entry {
    object: Option<Arc<Object>>,
    refused: bool,
    position: Position,
    piece: usize,
    document: usize,
    item: Option<usize>,
}

impl Entry {
    /// Whether it is a policy that never was good, which closes what it targets.
    fn closes(&self) -> bool {
        self.refused && self.object.as_deref().is_some_and(|object| !sound(object))
    }
}

impl Manifests {
    /// A file is there with this content. Loading the same content again changes nothing.
    pub fn load(&mut self, key: FileKey, content: &[u8]) {
        let key = Arc::new(key);
        let old = self.files.get(&key);
        let parsed = std::str::from_utf8(content).map_err(|error| not_utf8(content, error.valid_up_to()));
        let parsed = parsed.and_then(|text| {
            let known: HashMap<_, _> =
                old.iter().flat_map(|file| &file.pieces).map(|(_, piece)| (piece.hash, piece)).collect();
            parse::pieces(text, key.is_json(), |hash| known.get(hash).map(|piece| Arc::clone(piece)))
        });
        match parsed {
            Ok(pieces) => {
                let file = File::new(pieces, old);
                self.replace(&key, Some(file));
            }
            Err(error) => self.files.entry(key).or_default().broken = Some(error),
        }
    }

    /// A file is there and cannot be read: it keeps its last good objects.
    pub fn unreadable(&mut self, key: FileKey, why: &str) {
        let error = SyntaxError { position: Position::START, message: format!("cannot be read: {why}") };
        self.files.entry(Arc::new(key)).or_default().broken = Some(error);
    }

    /// A file is gone, and its objects with it.
    pub fn remove(&mut self, key: &FileKey) {
        if let Some((key, _)) = self.files.get_key_value(key) {
            let key = Arc::clone(key);
            self.replace(&key, None);
        }
    }

    /// The files there are.
    pub fn files(&self) -> impl Iterator<Item = &FileKey> {
        self.files.keys().map(|key| &**key)
    }

    /// How many files do not parse or cannot be read.
    pub fn broken_files(&self) -> usize {
        self.files.values().filter(|file| file.broken.is_some()).count()
    }

    /// Where a served object comes from; none for a Namespace that is in no file.
    pub fn origin(&self, id: &ObjectId) -> Option<Origin> {
        let (key, entry) = self.winner(id)?;
        let Entry { position, piece, document, item, .. } = *entry;
        Some(Origin { file: Arc::clone(key), position, piece, document, item })
    }

    /// The first file that has the object, and where in it; one that has it sound before one that only closes it.
    fn winner(&self, id: &ObjectId) -> Option<(&Arc<FileKey>, &Entry)> {
        let keys = self.candidates.get(id)?.iter();
        let mut entries = keys.filter_map(|key| Some((key, self.files.get(key)?.entries.get(id)?)));
        let first = entries.next()?;
        if first.1.closes() { entries.find(|(_, entry)| !entry.closes()).or(Some(first)) } else { Some(first) }
    }

    /// What is wrong, sorted by place.
    pub fn problems(&self) -> Vec<FileProblem> {
        let mut problems = Vec::new();
        for (key, file) in &self.files {
            let of_file = |position, object: Option<ObjectId>, problem, kept| FileProblem {
                file: key.path().to_owned(),
                position,
                object,
                problem,
                kept,
            };
            if let Some(SyntaxError { position, message }) = &file.broken {
                let problem = Problem::new(Severity::Refused, Reason::InvalidFile, "", message);
                let kept = file.entries.values().any(|entry| entry.object.is_some());
                problems.push(of_file(*position, None, problem, kept));
            }
            problems.extend(file.problems.iter().map(|(position, object, problem)| {
                let refused = problem.severity == Severity::Refused;
                let served = object.as_ref().and_then(|id| self.served.get(id));
                let kept = refused && served.is_some_and(|served| sound(&served.object));
                of_file(*position, object.clone(), problem.clone(), kept)
            }));
        }
        for id in &self.contested {
            let Some((first, _)) = self.winner(id) else { continue };
            for key in self.candidates.get(id).into_iter().flatten().filter(|key| *key != first) {
                let Some(entry) = self.files.get(key).and_then(|file| file.entries.get(id)) else { continue };
                problems.push(FileProblem {
                    file: key.path().to_owned(),
                    position: entry.position,
                    object: Some(id.clone()),
                    problem: twice(id, &first.path().display().to_string()),
                    kept: false,
                });
            }
        }
        problems.sort();
        problems
    }

    /// What changed since the last call. Applied in this order, nothing is missing in between.
    pub fn take_changes(&mut self) -> Vec<Change> {
        let mut changes = Vec::new();
        // Kinds sort, and Namespace sorts last, so that those in no file follow from what is there by then.
        while let Some(id) = self.dirty.pop_first() {
            changes.extend(self.settle(id));
        }
        changes
    }

    fn settle(&mut self, id: ObjectId) -> Option<Change> {
        let winner = self.winner(&id);
        if winner.is_some_and(|(_, entry)| entry.closes())
            && self.served.get(&id).is_some_and(|served| sound(&served.object))
        {
            return None;
        }
        let object = winner.and_then(|(_, entry)| entry.object.clone());
        let created = winner.and_then(|(key, _)| self.ages.get(key, &id));
        let implied = || {
            let inhabited = id.kind == Kind::Namespace && self.inhabitants.contains_key(&id.name);
            inhabited.then(|| Arc::new(Object::from(Namespace::named(Arc::clone(&id.name)))))
        };
        let Some(object) = object.or_else(implied) else {
            // Refused now, and served by a file that has gone since: it stays, like any other refused object.
            if self.refused.contains_key(&id) {
                return None;
            }
            self.served.remove(&id)?;
            self.inhabit(&id, false);
            return Some(Change::Remove(id));
        };
        let new = Served { object, created };
        let put = aged(&new);
        match self.served.insert(id.clone(), new) {
            Some(old) if old.created == created && *old.object == *self.served[&id].object => None,
            Some(_) => Some(Change::Put(put)),
            None => {
                self.inhabit(&id, true);
                Some(Change::Put(put))
            }
        }
    }

    /// Counts the objects of a namespace.
    fn inhabit(&mut self, id: &ObjectId, comes: bool) {
        if id.namespace.is_empty() {
            return;
        }
        let count = self.inhabitants.entry(Arc::clone(&id.namespace)).or_default();
        let before = *count;
        *count = if comes { before + 1 } else { before.saturating_sub(1) };
        if *count == 0 {
            self.inhabitants.remove(&id.namespace);
        }
        if before == 0 || !comes {
            self.dirty.insert(ObjectId::new(Kind::Namespace, "", Arc::clone(&id.namespace)));
        }
    }

    /// Puts a file in the place of what was known of it, and notes what that touches.
    fn replace(&mut self, key: &Arc<FileKey>, new: Option<File>) {
        let old = self.files.remove(key).unwrap_or_default();
        let empty = File::default();
        let entries = &new.as_ref().unwrap_or(&empty).entries;
        let names: IndexMap<&ObjectId, ()> = old.entries.keys().chain(entries.keys()).map(|id| (id, ())).collect();
        for id in names.keys().copied() {
            let (before, after) = (old.entries.get(id), entries.get(id));
            let object = |entry: Option<&Entry>| entry.and_then(|entry| entry.object.clone());
            let (object_before, object_after) = (object(before), object(after));
            let hopeless = |entry: Option<&Entry>| entry.is_some_and(|entry| entry.object.is_none());
            if hopeless(before) != hopeless(after) {
                count(&mut self.refused, id, hopeless(after));
                self.dirty.insert(id.clone());
            }
            if object_before.is_some() != object_after.is_some() {
                let keys = self.candidates.entry(id.clone()).or_default();
                if object_after.is_some() {
                    keys.insert(Arc::clone(key));
                } else {
                    keys.remove(key);
                }
                match keys.len() {
                    0 => drop(self.candidates.remove(id)),
                    1 => drop(self.contested.remove(id)),
                    _ => drop(self.contested.insert(id.clone())),
                }
                self.dirty.insert(id.clone());
            } else if !same(object_before.as_ref(), object_after.as_ref()) {
                self.dirty.insert(id.clone());
            }
        }
        let aging = entries.iter().filter(|(_, entry)| entry.object.as_deref().is_some_and(ages)).map(|(id, _)| id);
        let aged = self.ages.set(key, aging.cloned().collect());
        self.dirty.extend(aged.into_iter().map(|(_, id)| id));
        if let Some(new) = new {
            self.files.insert(Arc::clone(key), new);
        }
    }
}

impl File {
    fn new(pieces: Vec<(u32, Arc<Piece>)>, old: Option<&Self>) -> Self {
        let mut file = Self::default();
        let nothing = IndexMap::new();
        let before = old.map_or(&nothing, |file| &file.entries);
        let last_good = |id: &ObjectId| before.get(id)?.object.clone().filter(|object| sound(object));
        // Manifests that may stand for objects of before, since it is not clear what they are.
        let mut unclear: Vec<Entry> = Vec::new();
        let mut unclear_names: Vec<(String, String, Entry)> = Vec::new();
        for (piece_index, (lines_before, piece)) in pieces.iter().enumerate() {
            for Manifest { document, item, position, outcome, problems } in &piece.manifests {
                let position = position.below(*lines_before);
                let entry = |object, refused| Entry {
                    object,
                    refused,
                    position,
                    piece: piece_index,
                    document: *document,
                    item: *item,
                };
                let id = match outcome {
                    Outcome::Object(id, object) => {
                        file.occurs(id, entry(Some(Arc::clone(object)), false));
                        Some(id)
                    }
                    Outcome::Refused(id, broken) => {
                        file.occurs(id, entry(last_good(id).or_else(|| broken.clone()), true));
                        Some(id)
                    }
                    Outcome::Unclear(None) => {
                        unclear.push(entry(None, true));
                        None
                    }
                    Outcome::Unclear(Some((namespace, name))) | Outcome::Foreign { namespace, name } => {
                        unclear_names.push((namespace.clone(), name.clone(), entry(None, true)));
                        None
                    }
                };
                file.problems.extend(
                    problems.iter().map(|(place, problem)| (place.below(*lines_before), id.cloned(), problem.clone())),
                );
            }
        }
        file.pieces = pieces;
        let names: Vec<_> = unclear_names.iter().map(|(namespace, name, _)| (&**namespace, &**name)).collect();
        let names_before = old.map(File::unclear_names).unwrap_or_default();
        for (id, before) in before {
            let Some(object) = before.object.clone().filter(|_| !file.entries.contains_key(id)) else { continue };
            // A Deployment that has the name of a Service that went was there before; a misspelt Service was not.
            let turned = |name: &(&str, &str)| {
                let count = |names: &[(&str, &str)]| names.iter().filter(|other| *other == name).count();
                before.refused || count(&names) > count(&names_before)
            };
            let by_name = unclear_names.iter().find(|(namespace, name, _)| {
                **name == *id.name
                    && (id.namespace.is_empty() || **namespace == *id.namespace)
                    && turned(&(namespace.as_str(), name.as_str()))
            });
            let stands_for = unclear.first().or_else(|| by_name.map(|(.., entry)| entry)).cloned();
            if let Some(entry) = stands_for {
                file.entries.insert(id.clone(), Entry { object: Some(object), ..entry });
            }
        }
        file.entries.sort_by(|_, a, _, b| (a.piece, a.document, a.item).cmp(&(b.piece, b.document, b.item)));
        file
    }

    /// The names of manifests that are of none of our kinds.
    fn unclear_names(&self) -> Vec<(&str, &str)> {
        let manifests = self.pieces.iter().flat_map(|(_, piece)| &piece.manifests);
        manifests
            .filter_map(|manifest| match &manifest.outcome {
                Outcome::Unclear(Some((namespace, name))) | Outcome::Foreign { namespace, name } => {
                    Some((namespace.as_str(), name.as_str()))
                }
                _ => None,
            })
            .collect()
    }

    /// Notes an object. Of two with one name the first counts, unless it never was any good.
    fn occurs(&mut self, id: &ObjectId, entry: Entry) {
        match self.entries.get_mut(id) {
            None => drop(self.entries.insert(id.clone(), entry)),
            Some(first) => {
                if first.object.is_none() && entry.object.is_some() && !entry.refused {
                    *first = entry;
                } else {
                    let at = format!("line {}", first.position.line);
                    self.problems.push((entry.position, Some(id.clone()), twice(id, &at)));
                }
            }
        }
    }
}

/// The object with the age of its place.
fn aged(served: &Served) -> Object {
    let mut object = Object::clone(&served.object);
    if let (Some(created), Some(metadata)) = (served.created, object.metadata_mut()) {
        metadata.creation_timestamp = Timestamp::from_second(created).ok();
    }
    object
}

/// Whether the age of the object matters, and it has none of its own.
fn ages(object: &Object) -> bool {
    object.kind() != Kind::ReferenceGrant
        && object.metadata().is_some_and(|metadata| metadata.creation_timestamp.is_none())
}

/// Whether an API server would take the object.
fn sound(object: &Object) -> bool {
    api::violations(object).is_empty()
}

fn same(a: Option<&Arc<Object>>, b: Option<&Arc<Object>>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => Arc::ptr_eq(a, b),
        (None, None) => true,
        _ => false,
    }
}

fn count(counts: &mut HashMap<ObjectId, usize>, id: &ObjectId, more: bool) {
    let count = counts.entry(id.clone()).or_default();
    *count = if more { *count + 1 } else { count.saturating_sub(1) };
    if *count == 0 {
        counts.remove(id);
    }
}

fn twice(id: &ObjectId, first: &str) -> Problem {
    let message =
        format!("{id} is there twice, and the one in {first} is the one that counts: remove or rename this one");
    Problem::new(Severity::Ignored, Reason::Duplicate, "metadata.name", message)
}

fn not_utf8(content: &[u8], valid: usize) -> SyntaxError {
    let before = String::from_utf8_lossy(&content[..valid]);
    let place = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let line = place(before.matches('\n').count() + 1);
    let column = place(before.rsplit('\n').next().unwrap_or_default().chars().count() + 1);
    SyntaxError { position: Position { line, column }, message: "is not UTF-8: save the file in that encoding".into() }
}

#[cfg(test)]
mod tests;
