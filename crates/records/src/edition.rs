//! What is kept of trees of routes: editions.
//!
//! An edition has a head, which says of which root it is and what it consists of, and its objects as manifests: in the head where
//! they are few, else in parts. A part is named by what is in it, and never changes: who writes an edition writes the parts that are
//! new, and then the head, by which the edition is what is kept, all of it at once. Whoever reads a head finds the parts of it.
//!
//! Heads hold as long as the [`Epoch`] in which they were written. Whoever serves without keeping anything begins another one,
//! without having to know or to remove what was kept.

use std::collections::BTreeMap;

use api::{Kind, Object, ObjectId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    RecordKind,
    format::{self, Unreadable},
    quarantine::{RELEASE, kept_manifest},
};

/// Up to so many bytes of objects stand in the head.
const IN_HEAD: usize = 64 * 1024;
/// The name of the record of the epoch. It is of the kind of heads, so that whoever watches these learns of it.
pub const EPOCH: &str = "portcullis-editions";
/// Over so many parts objects are spread by their names, so that one that changes writes its part alone.
const PARTS: u64 = 64;

/// What is kept of a tree.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Head {
    /// The namespace of the root, which is an HTTPRoute.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Tells the root from a later one of its name; empty where none is known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The hash of all manifests: the name of the edition.
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
struct Part {
    objects: Vec<Value>,
}

/// An edition as it is written.
#[derive(Clone, Debug)]
pub struct Written {
    /// The head.
    pub head: Head,
    /// The parts, each with its name.
    pub parts: Vec<(String, Vec<u8>)>,
    /// How many bytes all of it has.
    pub bytes: u64,
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
    #[error("its part {0} is not there")]
    Missing(String),
    /// Another root's stands in its place.
    #[error("it is of {0}/{1}, whose record has another name")]
    OfAnother(String, String),
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

/// The name of the record that has the head of a root's edition.
pub fn head_name(namespace: &str, name: &str) -> String {
    format!("edition-{}", &blake3::hash(format!("{namespace}/{name}").as_bytes()).to_hex()[..20])
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

/// An edition of these objects as it is stored; `uid` is that of the root.
///
/// # Errors
/// An object cannot be stored.
pub fn write(
    (namespace, name): (&str, &str),
    uid: &str,
    objects: &BTreeMap<ObjectId, Object>,
    now: Timestamp,
) -> Result<Written, Unkeepable> {
    let manifests = objects.iter().map(|(id, object)| kept_manifest(object).ok_or_else(|| Unkeepable(id.clone())));
    let manifests: Vec<Value> = manifests.collect::<Result<_, _>>()?;
    let mut head = Head {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        hash: hash_of(manifests.iter()),
        release: RELEASE.to_owned(),
        since: Some(now),
        ..Head::default()
    };
    let size: usize = manifests.iter().map(|manifest| manifest.to_string().len()).sum();
    let mut parts = Vec::new();
    if size <= IN_HEAD {
        head.objects = manifests;
    } else {
        let mut spread: BTreeMap<u64, Part> = BTreeMap::new();
        for (id, manifest) in objects.keys().zip(manifests) {
            let hash = blake3::hash(id.to_string().as_bytes());
            let place = u64::from(hash.as_bytes()[0]) % PARTS;
            spread.entry(place).or_default().objects.push(manifest);
        }
        for part in spread.into_values() {
            let data = format::write(RecordKind::EditionPart, &part);
            parts.push((part_name(&head_name(namespace, name), &data), data));
        }
        head.parts = parts.iter().map(|(name, _)| name.clone()).collect();
    }
    let of_head = format::write(RecordKind::Edition, &head).len();
    let bytes = parts.iter().map(|(_, data)| data.len()).sum::<usize>() + of_head;
    Ok(Written { head, parts, bytes: bytes as u64 })
}

/// The objects of an edition whose head has the name `record`; `parts` are records by name.
///
/// # Errors
/// See [`EditionError`].
pub fn read(
    record: &str,
    head: &Head,
    parts: &BTreeMap<String, Vec<u8>>,
) -> Result<BTreeMap<ObjectId, Object>, EditionError> {
    if head_name(&head.namespace, &head.name) != record {
        return Err(EditionError::OfAnother(head.namespace.clone(), head.name.clone()));
    }
    let mut manifests = head.objects.clone();
    for name in &head.parts {
        let data = parts.get(name).ok_or_else(|| EditionError::Missing(name.clone()))?;
        manifests.extend(format::read::<Part>(RecordKind::EditionPart, data)?.objects);
    }
    let mut objects = BTreeMap::new();
    let mut by_id = BTreeMap::new();
    for manifest in manifests {
        let decoded = api::decode(manifest.clone()).map_err(|error| EditionError::Object(error.to_string()))?;
        let id = decoded.object.id();
        objects.insert(id.clone(), decoded.object);
        by_id.insert(id, manifest);
    }
    let hash = hash_of(by_id.values());
    if hash != head.hash {
        return Err(EditionError::Changed(hash));
    }
    if !objects.contains_key(&ObjectId::new(Kind::HttpRoute, head.namespace.as_str(), head.name.as_str())) {
        return Err(EditionError::Rootless);
    }
    Ok(objects)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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

    fn written(objects: &BTreeMap<ObjectId, Object>) -> Written {
        write(("apps", "r0"), "u", objects, Timestamp::UNIX_EPOCH).expect("each can be stored")
    }

    fn parts(written: &Written) -> BTreeMap<String, Vec<u8>> {
        written.parts.iter().cloned().collect()
    }

    fn read(head: &Head, parts: &BTreeMap<String, Vec<u8>>) -> Result<BTreeMap<ObjectId, Object>, EditionError> {
        super::read(&head_name("apps", "r0"), head, parts)
    }

    #[test]
    fn an_edition_is_read_as_it_was_written_small_or_large() {
        for (count, in_parts) in [(3, false), (2_000, true)] {
            let objects = objects(count);
            let written = written(&objects);
            assert_eq!(!written.parts.is_empty(), in_parts, "{count}");
            let head = format::write(RecordKind::Edition, &written.head);
            let head: Head = format::read(RecordKind::Edition, &head).expect("a head");
            assert_eq!(read(&head, &parts(&written)), Ok(objects));
        }
    }

    #[test]
    fn an_object_that_changes_writes_its_part_alone() {
        let mut objects = objects(2_000);
        let before = parts(&written(&objects));
        let id = objects.keys().last().expect("one").clone();
        objects.remove(&id);
        let after = parts(&written(&objects));
        assert_eq!(after.keys().filter(|name| !before.contains_key(*name)).count(), 1);
        let head = head_name("apps", "r0");
        assert!(after.iter().all(|(name, data)| head_of_part(name) == Some(&*head) && is_intact(name, data)));
        assert!(after.iter().all(|(name, _)| !is_intact(name, b"{}")));
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
        let of_another = super::read(&head_name("apps", "other"), &head, &BTreeMap::new());
        assert!(matches!(of_another, Err(EditionError::OfAnother(..))), "{of_another:?}");
        let mut rootless = objects(3);
        rootless.pop_first();
        assert_eq!(read(&written(&rootless).head, &BTreeMap::new()), Err(EditionError::Rootless));
    }
}
