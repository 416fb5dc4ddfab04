//! What is kept of trees of routes: editions.
//!
//! An edition has a head, which says of which root it is and what it consists of, and its objects as manifests: in the head where
//! they are few, else in parts, which are compressed. A part is named by what is in it, and never changes: who writes an edition writes
//! the parts that are new, and then the head, by which the edition is what is kept, all of it at once. Whoever reads a head finds the parts of it.
//!
//! Heads hold as long as the [`Epoch`] in which they were written. Whoever serves without keeping anything begins another one,
//! without having to know or to remove what was kept.

use std::{collections::BTreeMap, sync::Arc};

use api::{Kind, Object, ObjectId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    RecordKind,
    format::{self, COMPRESSED, FORMAT, OF_ANY_ROOT, Unreadable},
    quarantine::{RELEASE, kept_manifest},
};

/// Up to so many bytes of objects stand in the head.
const IN_HEAD: usize = 64 * 1024;
/// The name of the record of the epoch. It is of the kind of heads, so that whoever watches these learns of it.
pub const EPOCH: &str = "portcullis-editions";

/// A kind of objects of which something is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum RootKind {
    /// The root of a tree of routes. Heads name no kind where it is this one, as it was before there were others.
    #[default]
    #[serde(rename = "HTTPRoute")]
    HttpRoute,
    /// A Gateway, with the policies on it.
    Gateway,
}

impl RootKind {
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands out references")]
    fn is_route(&self) -> bool {
        *self == Self::HttpRoute
    }

    /// The kind of these objects.
    pub fn kind(self) -> Kind {
        match self {
            Self::HttpRoute => Kind::HttpRoute,
            Self::Gateway => Kind::Gateway,
        }
    }

    fn of(kind: Kind) -> Self {
        if kind == Kind::Gateway { Self::Gateway } else { Self::HttpRoute }
    }
}

/// What is kept of a root.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Head {
    /// The kind of the root.
    #[serde(default, skip_serializing_if = "RootKind::is_route")]
    pub root_kind: RootKind,
    /// The namespace of the root.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Tells the root from a later one of its name; empty where none is known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The name of the edition: the hash of all manifests, or where they stand in parts, of the hashes of those in each.
    pub hash: String,
    /// The name of the edition in whose place it was written; none where there was none that could be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The epoch in which it was written.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub epoch: String,
    /// The release that wrote it.
    pub release: String,
    /// When it was written.
    pub since: Option<Timestamp>,
    /// The objects, if they stand here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<Value>,
    /// The parts that have them, if they do not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<String>,
}

impl Head {
    /// The head as it is stored.
    pub fn data(&self) -> Vec<u8> {
        // What a release before can read is written so that it does.
        let format = match (self.root_kind, self.parts.is_empty()) {
            (RootKind::Gateway, _) => OF_ANY_ROOT,
            (RootKind::HttpRoute, true) => FORMAT,
            (RootKind::HttpRoute, false) => COMPRESSED,
        };
        format::write_as(RecordKind::Edition, format, self)
    }

    /// The root.
    pub fn root(&self) -> ObjectId {
        ObjectId::new(self.root_kind.kind(), self.namespace.as_str(), self.name.as_str())
    }
}

/// A time in which what was kept was seen to, from the first edition on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Epoch {
    /// Tells it from others.
    pub epoch: String,
}

impl Epoch {
    /// One that begins now.
    pub fn begin(now: Timestamp) -> Self {
        Self { epoch: now.as_nanosecond().to_string() }
    }
}

/// Objects of an edition.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Manifests {
    objects: Vec<Value>,
}

/// An edition as it is written.
#[derive(Clone, Debug, PartialEq)]
pub struct Written {
    /// The head.
    pub head: Head,
    /// The parts.
    pub parts: Vec<Part>,
    /// How many bytes all of it has.
    pub bytes: u64,
}

/// A part of an edition as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The name of its record.
    pub name: String,
    /// What is in that.
    pub data: Arc<[u8]>,
    /// Tells the objects in it from all others; none where that is not known.
    pub of: Option<[u8; 16]>,
    /// How many bytes their manifests have.
    size: usize,
    /// The hash of these.
    hash: String,
}

/// Objects that are stored together.
pub struct Group<F> {
    /// Tells them from all others.
    pub of: [u8; 16],
    /// Gives them, which is asked for if they were not written before.
    pub objects: F,
}

/// An object that cannot be kept, since it would not be read as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} cannot be stored so that it is read back as it is")]
pub struct Unkeepable(pub ObjectId);

/// Why an edition cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditionError {
    /// A record of it cannot be.
    #[error("{0}")]
    Record(#[from] Unreadable),
    /// A part is not there.
    #[error("its part {0} is not there, or it is damaged")]
    Missing(String),
    /// Another root's stands in its place.
    #[error("it is of {0}, whose record has another name")]
    OfAnother(ObjectId),
    /// It has not the root.
    #[error("its root is not among its objects")]
    Rootless,
    /// It is not what was written.
    #[error("its objects are not those that were written: their hash is {0}")]
    Changed(String),
    /// An object cannot be read.
    #[error("an object of it cannot be read: {0}")]
    Object(String),
}

impl EditionError {
    /// Whether a later release wrote it, which knows what it is.
    pub fn is_newer(&self) -> bool {
        matches!(self, Self::Record(Unreadable::Newer { .. }))
    }
}

/// The name of the record that has the head of a root's edition.
pub fn head_name(root: &ObjectId) -> String {
    let ObjectId { kind, namespace, name } = root;
    let named = match RootKind::of(*kind) {
        RootKind::HttpRoute => format!("{namespace}/{name}"),
        RootKind::Gateway => format!("{kind}/{namespace}/{name}"),
    };
    format!("edition-{}", &blake3::hash(named.as_bytes()).to_hex()[..20])
}

/// The name of a part of the edition whose head has the name `head`.
fn part_name(head: &str, data: &[u8]) -> String {
    format!("{head}-{}", &blake3::hash(data).to_hex()[..32])
}

/// The name of the head of the edition to which a part of this name belongs.
pub fn head_of_part(part: &str) -> Option<&str> {
    Some(part.rsplit_once('-')?.0)
}

/// Whether a part has what its name says.
pub fn is_intact(part: &str, data: &[u8]) -> bool {
    head_of_part(part).is_some_and(|head| part_name(head, data) == part)
}

/// The hash of manifests, in order.
fn hash_of<'a>(manifests: impl Iterator<Item = &'a Value>) -> String {
    let mut hasher = blake3::Hasher::new();
    for manifest in manifests {
        let text = manifest.to_string();
        hasher.update(&(text.len() as u64).to_le_bytes());
        hasher.update(text.as_bytes());
    }
    hasher.finalize().to_hex()[..32].to_owned()
}

fn manifest_of(object: &Object) -> Result<Value, Unkeepable> {
    kept_manifest(object).ok_or_else(|| Unkeepable(object.id()))
}

fn size_of(manifests: &[Value]) -> usize {
    manifests.iter().map(|manifest| manifest.to_string().len()).sum()
}

/// The hash of parts, by the hashes of theirs, in order.
fn hash_of_parts(parts: &[Part]) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(part.hash.as_bytes());
    }
    hasher.finalize().to_hex()[..32].to_owned()
}

/// An edition of these objects as it is stored; `uid` is that of the root. Of `before`, which was written last of the root, the parts
/// are taken in which nothing changed.
///
/// # Errors
/// An object cannot be stored.
pub fn write<F: Fn() -> Vec<Object>>(
    root: &ObjectId,
    uid: &str,
    groups: &[Group<F>],
    now: Timestamp,
    before: Option<&Written>,
) -> Result<Written, Unkeepable> {
    let record = head_name(root);
    let parts_before = before.map_or(&[][..], |before| &before.parts);
    let mut parts = Vec::with_capacity(groups.len());
    for Group { of, objects } in groups {
        let same = parts_before.iter().find(|part| part.of == Some(*of));
        parts.push(match same {
            Some(part) => part.clone(),
            None => Part::write(&record, *of, objects().iter().map(manifest_of).collect::<Result<_, _>>()?),
        });
    }
    let mut head = Head {
        root_kind: RootKind::of(root.kind),
        namespace: root.namespace.to_string(),
        name: root.name.to_string(),
        uid: uid.to_owned(),
        release: RELEASE.to_owned(),
        since: Some(now),
        ..Head::default()
    };
    if parts.iter().map(|part| part.size).sum::<usize>() <= IN_HEAD {
        let mut objects: Vec<_> = groups.iter().flat_map(|group| (group.objects)()).collect();
        objects.sort_by_cached_key(Object::id);
        head.objects = objects.iter().map(manifest_of).collect::<Result<_, _>>()?;
        head.hash = hash_of(head.objects.iter());
        let bytes = head.data().len() as u64;
        return Ok(Written { head, parts: Vec::new(), bytes });
    }
    head.hash = hash_of_parts(&parts);
    head.parts = parts.iter().map(|part| part.name.clone()).collect();
    Ok(Written::of(head, parts))
}

impl Written {
    /// An edition whose objects stand in parts, if there are any.
    pub fn of(head: Head, parts: Vec<Part>) -> Self {
        let bytes = parts.iter().map(|part| part.data.len()).sum::<usize>() + head.data().len();
        Self { head, parts, bytes: bytes as u64 }
    }
}

impl Part {
    fn write(record: &str, of: [u8; 16], objects: Vec<Value>) -> Self {
        let (size, hash) = (size_of(&objects), hash_of(objects.iter()));
        let data = format::write_as(RecordKind::EditionPart, COMPRESSED, &Manifests { objects });
        let data: Arc<[u8]> = format::compress(&data).into();
        Self { name: part_name(record, &data), data, of: Some(of), size, hash }
    }

    /// A part as it is stored, and its objects.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(name: &str, data: Arc<[u8]>) -> Result<(Self, Vec<Object>), EditionError> {
        let Manifests { objects } = format::read(RecordKind::EditionPart, &data)?;
        let (size, hash) = (size_of(&objects), hash_of(objects.iter()));
        let part = Self { name: name.to_owned(), data, of: None, size, hash };
        Ok((part, objects.into_iter().map(decoded).collect::<Result<_, _>>()?))
    }
}

fn decoded(manifest: Value) -> Result<Object, EditionError> {
    Ok(api::decode(manifest).map_err(|error| EditionError::Object(error.to_string()))?.object)
}

impl Head {
    /// The objects that stand here.
    ///
    /// # Errors
    /// One of them cannot be read.
    pub fn read(&self) -> Result<Vec<Object>, EditionError> {
        self.objects.iter().cloned().map(decoded).collect()
    }

    /// Whether what has this head and these parts, in order, is what was written as the `record`.
    ///
    /// # Errors
    /// It is another root's, or was changed.
    pub fn verify(&self, record: &str, parts: &[Part]) -> Result<(), EditionError> {
        if head_name(&self.root()) != record {
            return Err(EditionError::OfAnother(self.root()));
        }
        let hash = if parts.is_empty() { hash_of(self.objects.iter()) } else { hash_of_parts(parts) };
        if hash != self.hash && hash_of_all(parts)? != self.hash {
            return Err(EditionError::Changed(hash));
        }
        Ok(())
    }
}

/// The hash of parts that are not compressed: as if they were one.
fn hash_of_all(parts: &[Part]) -> Result<String, EditionError> {
    let mut all = BTreeMap::new();
    for part in parts {
        let Manifests { objects } = format::read(RecordKind::EditionPart, &part.data)?;
        for manifest in objects {
            all.insert(decoded(manifest.clone())?.id(), manifest);
        }
    }
    Ok(hash_of(all.values()))
}

/// The objects of an edition whose head has the name `record`; `parts` are records by name.
///
/// # Errors
/// See [`EditionError`].
pub fn read(
    record: &str,
    head: &Head,
    parts: &BTreeMap<String, Arc<[u8]>>,
) -> Result<BTreeMap<ObjectId, Object>, EditionError> {
    let mut objects = head.read()?;
    let mut all = Vec::new();
    for name in &head.parts {
        let data = parts.get(name).ok_or_else(|| EditionError::Missing(name.clone()))?;
        let (part, of_part) = Part::read(name, Arc::clone(data))?;
        all.push(part);
        objects.extend(of_part);
    }
    head.verify(record, &all)?;
    let objects: BTreeMap<_, _> = objects.into_iter().map(|object| (object.id(), object)).collect();
    if objects.contains_key(&head.root()) { Ok(objects) } else { Err(EditionError::Rootless) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn root(name: &str) -> ObjectId {
        ObjectId::new(Kind::HttpRoute, "apps", name)
    }

    fn objects(count: usize) -> BTreeMap<ObjectId, Object> {
        let route = |number: usize| {
            let manifest = json!({
                "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
                "metadata": {"namespace": "apps", "name": format!("r{number}"), "creationTimestamp": "2026-01-01T00:00:00Z"},
                "spec": {"rules": [{"matches": [{"path": {"type": "PathPrefix", "value": format!("/{number}")}}],
                    "backendRefs": [{"name": "s", "port": 80}]}]},
            });
            api::decode(manifest).expect("a route").object
        };
        (0..count).map(route).map(|object| (object.id(), object)).collect()
    }

    /// In groups by their names.
    fn after(objects: &BTreeMap<ObjectId, Object>, before: Option<&Written>) -> Written {
        let mut groups: BTreeMap<u8, Vec<Object>> = BTreeMap::new();
        for (id, object) in objects {
            let place = blake3::hash(id.name.as_bytes()).as_bytes()[0] % 64;
            groups.entry(place).or_default().push(object.clone());
        }
        let of = |objects: &Vec<Object>| {
            let names: Vec<_> = objects.iter().map(|object| object.id().to_string()).collect();
            blake3::hash(names.join(" ").as_bytes()).as_bytes()[..16].try_into().expect("16 bytes")
        };
        let groups: Vec<_> =
            groups.values().map(|objects| Group { of: of(objects), objects: || objects.clone() }).collect();
        write(&root("r0"), "u", &groups, Timestamp::UNIX_EPOCH, before).expect("each can be stored")
    }

    fn written(objects: &BTreeMap<ObjectId, Object>) -> Written {
        after(objects, None)
    }

    fn parts(written: &Written) -> BTreeMap<String, Arc<[u8]>> {
        written.parts.iter().map(|part| (part.name.clone(), Arc::clone(&part.data))).collect()
    }

    fn read(head: &Head, parts: &BTreeMap<String, Arc<[u8]>>) -> Result<BTreeMap<ObjectId, Object>, EditionError> {
        super::read(&head_name(&root("r0")), head, parts)
    }

    #[test]
    fn an_edition_is_read_as_it_was_written_small_or_large() {
        for (count, in_parts) in [(3, false), (2_000, true)] {
            let objects = objects(count);
            let written = written(&objects);
            assert_eq!(!written.parts.is_empty(), in_parts, "{count}");
            let head: Head = format::read(RecordKind::Edition, &written.head.data()).expect("a head");
            assert_eq!(read(&head, &parts(&written)), Ok(objects));
        }
    }

    #[test]
    fn what_is_kept_of_a_gateway_is_apart_from_a_tree_of_its_name_and_no_release_before_takes_it_for_one() {
        let gateway = json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
            "metadata": {"namespace": "apps", "name": "r0", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"gatewayClassName": "ours", "listeners": [{"name": "web", "port": 80, "protocol": "HTTP"}]},
        });
        let gateway = api::decode(gateway).expect("a Gateway").object;
        let id = gateway.id();
        let group = Group { of: [0; 16], objects: || vec![gateway.clone()] };
        let written = write(&id, "u", &[group], Timestamp::UNIX_EPOCH, None).expect("it can be stored");
        assert!(written.head.data().starts_with(b"{\"format\":3,"), "which a release before does not read");
        let head: Head = format::read(RecordKind::Edition, &written.head.data()).expect("a head");
        assert_eq!(head.root(), id);
        let read_again = super::read(&head_name(&id), &head, &BTreeMap::new());
        assert_eq!(read_again, Ok(BTreeMap::from([(id, gateway)])));
        assert_eq!(read(&head, &BTreeMap::new()), Err(EditionError::OfAnother(head.root())));
        let of_tree = after(&objects(1), None).head.data();
        assert!(of_tree.starts_with(b"{\"format\":1,") && !String::from_utf8_lossy(&of_tree).contains("rootKind"));
    }

    #[test]
    fn an_object_that_changes_writes_its_part_alone() {
        let mut objects = objects(2_000);
        let before = parts(&written(&objects));
        let id = objects.keys().last().expect("one").clone();
        objects.remove(&id);
        let after = parts(&written(&objects));
        assert_eq!(after.keys().filter(|name| !before.contains_key(*name)).count(), 1);
        let head = head_name(&root("r0"));
        assert!(after.iter().all(|(name, data)| head_of_part(name) == Some(&*head) && is_intact(name, data)));
        assert!(after.iter().all(|(name, _)| !is_intact(name, b"{}")));
    }

    #[test]
    fn a_part_in_which_nothing_changed_is_the_one_before() {
        let mut objects = objects(2_000);
        let before = objects.clone();
        let first = written(&before);
        let is_same = |a: &Part, b: &Part| Arc::ptr_eq(&a.data, &b.data);
        let (id, _) = objects.pop_last().expect("one");
        let one_less = after(&objects, Some(&first));
        let same = one_less.parts.iter().filter(|part| first.parts.iter().any(|other| is_same(part, other))).count();
        assert_eq!(same, first.parts.len() - 1);
        assert_eq!(one_less, written(&objects), "it is what would be written without the one before");
        let back = after(&before, Some(&one_less));
        assert_eq!(back, first, "{id}");
    }

    #[test]
    fn parts_are_compressed_and_those_that_are_not_are_still_read() {
        let objects = objects(2_000);
        let written = written(&objects);
        let manifests: Vec<_> = objects.values().map(|object| manifest_of(object).expect("one")).collect();
        let plain: usize = manifests.iter().map(|manifest| manifest.to_string().len()).sum();
        assert!(written.bytes * 6 < plain as u64, "{} of {plain}", written.bytes);
        assert!(written.head.data().starts_with(b"{\"format\":2,"));
        // As the format before had it.
        let record = head_name(&root("r0"));
        let data = format::write(RecordKind::EditionPart, &Manifests { objects: manifests.clone() });
        let old = Head { hash: hash_of(manifests.iter()), parts: vec![part_name(&record, &data)], ..written.head };
        let old_parts = BTreeMap::from([(old.parts[0].clone(), data.into())]);
        assert_eq!(read(&old, &old_parts), Ok(objects));
    }

    #[test]
    fn what_is_missing_or_changed_is_never_read_as_less() {
        let all = objects(2_000);
        let whole = written(&all);
        let mut less = parts(&whole);
        let (name, _) = less.pop_first().expect("parts");
        assert_eq!(read(&whole.head, &less), Err(EditionError::Missing(name)));
        let mut small = written(&objects(3)).head;
        small.objects.pop();
        assert!(matches!(read(&small, &BTreeMap::new()), Err(EditionError::Changed(_))));
        let mut odd = written(&objects(1)).head;
        odd.objects = vec![json!({"kind": "Tomorrow"})];
        assert!(matches!(read(&odd, &BTreeMap::new()), Err(EditionError::Object(_))));
    }

    #[test]
    fn the_edition_of_another_root_and_one_without_its_root_are_none() {
        let head = written(&objects(3)).head;
        let of_another = super::read(&head_name(&root("other")), &head, &BTreeMap::new());
        assert!(matches!(of_another, Err(EditionError::OfAnother(..))), "{of_another:?}");
        let mut rootless = objects(3);
        rootless.pop_first();
        assert_eq!(read(&written(&rootless).head, &BTreeMap::new()), Err(EditionError::Rootless));
    }
}
