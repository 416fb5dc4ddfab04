//! The objects of a tree, in parts: what two trees have in common they share, so that a change costs as much as the parts in which
//! it is.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{Hash, Hasher},
    sync::Arc,
};

use api::{Object, ObjectId};
use ir::RootId;

use crate::tables::input::{Shared, root_object};

/// Over so many parts objects are spread, by their names.
const PARTS: u8 = 64;

/// The part to which an object belongs.
pub(crate) fn part_of(id: &ObjectId) -> u8 {
    blake3::hash(id.to_string().as_bytes()).as_bytes()[0] % PARTS
}

/// An object of a tree, and a hash of its name and of what it says, its age included.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    hash: [u8; 16],
    object: Shared,
}

impl Member {
    pub(crate) fn new(id: &ObjectId, object: Shared) -> Self {
        struct Content(blake3::Hasher);

        impl Hasher for Content {
            fn write(&mut self, bytes: &[u8]) {
                self.0.update(bytes);
            }

            fn finish(&self) -> u64 {
                0
            }
        }

        let mut content = Content(blake3::Hasher::new());
        id.hash(&mut content);
        object.hash(&mut content);
        Self { hash: short(&content.0), object }
    }
}

impl PartialEq for Member {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash
    }
}

fn short(hasher: &blake3::Hasher) -> [u8; 16] {
    let mut hash = [0; 16];
    hash.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    hash
}

/// Objects of a tree that belong together by their names. Equal is what has the same hash.
#[derive(Clone, Debug)]
pub struct Part {
    objects: BTreeMap<ObjectId, Member>,
    hash: [u8; 16],
}

impl Part {
    pub(crate) fn new(objects: impl IntoIterator<Item = (ObjectId, Member)>) -> Self {
        let objects: BTreeMap<_, _> = objects.into_iter().collect();
        let mut hasher = blake3::Hasher::new();
        for member in objects.values() {
            hasher.update(&member.hash);
        }
        Self { objects, hash: short(&hasher) }
    }

    /// A hash of its objects.
    pub fn hash(&self) -> [u8; 16] {
        self.hash
    }

    /// Its objects, copied, by their names.
    pub fn objects(&self) -> Vec<Object> {
        self.objects.values().map(|member| member.object.object()).collect()
    }
}

impl PartialEq for Part {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash
    }
}

/// What is kept of a tree of routes, or would be: the root, the routes below it, and the policies on them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Edition {
    parts: BTreeMap<u8, Arc<Part>>,
}

/// Objects of kinds that no tree has are left out.
impl FromIterator<Object> for Edition {
    fn from_iter<I: IntoIterator<Item = Object>>(objects: I) -> Self {
        Self::of_members(objects.into_iter().filter_map(|object| {
            let id = object.id();
            let member = Member::new(&id, Shared::new(object)?);
            Some((id, member))
        }))
    }
}

impl Edition {
    pub(crate) fn of_members(members: impl IntoIterator<Item = (ObjectId, Member)>) -> Self {
        let mut parts: BTreeMap<u8, Vec<_>> = BTreeMap::new();
        for (id, member) in members {
            parts.entry(part_of(&id)).or_default().push((id, member));
        }
        Self::of_parts(parts.into_iter().map(|(place, members)| (place, Arc::new(Part::new(members)))))
    }

    pub(crate) fn of_parts(parts: impl IntoIterator<Item = (u8, Arc<Part>)>) -> Self {
        Self { parts: parts.into_iter().collect() }
    }

    /// All objects of some editions.
    pub fn join<'a>(all: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut parts: BTreeMap<u8, Arc<Part>> = BTreeMap::new();
        for (place, part) in all.into_iter().flat_map(|edition| &edition.parts) {
            let both = parts.get(place).map_or_else(
                || Arc::clone(part),
                |before| {
                    let objects = before.objects.iter().chain(&part.objects);
                    Arc::new(Part::new(objects.map(|(id, member)| (id.clone(), member.clone()))))
                },
            );
            parts.insert(*place, both);
        }
        Self { parts }
    }

    /// Its parts that have objects, in order.
    pub fn parts(&self) -> impl Iterator<Item = &Arc<Part>> {
        self.parts.values()
    }

    /// The same with one part alone, by the hash of that.
    #[must_use]
    pub fn of_part(&self, hash: [u8; 16]) -> Self {
        let parts = self.parts.iter().filter(|(_, part)| part.hash == hash);
        Self { parts: parts.map(|(place, part)| (*place, Arc::clone(part))).collect() }
    }

    /// Whether it has no objects.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// An object of it.
    pub fn get(&self, id: &ObjectId) -> Option<&Shared> {
        Some(&self.parts.get(&part_of(id))?.objects.get(id)?.object)
    }

    /// The names of its objects, part by part.
    pub fn ids(&self) -> impl Iterator<Item = &ObjectId> {
        self.parts.values().flat_map(|part| part.objects.keys())
    }

    /// The objects that are others than in `before`, or not there any more. Looks at parts that differ alone.
    pub fn changes_since<'a>(
        &'a self,
        before: &'a Self,
    ) -> impl Iterator<Item = (&'a ObjectId, Option<&'a Shared>)> + 'a {
        let places: BTreeSet<_> = self.parts.keys().chain(before.parts.keys()).collect();
        let both = places.into_iter().map(|place| (self.parts.get(place), before.parts.get(place)));
        both.filter(|(now, before)| now != before).flat_map(|(now, before)| {
            let now = now.map(|part| &part.objects);
            let before = before.map(|part| &part.objects);
            let gone = before.into_iter().flat_map(BTreeMap::keys);
            let gone = gone.filter(move |id| now.is_none_or(|now| !now.contains_key(*id))).map(|id| (id, None));
            let changed = now.into_iter().flatten();
            let changed =
                changed.filter(move |(id, member)| before.and_then(|before| before.get(*id)) != Some(*member));
            gone.chain(changed.map(|(id, member)| (id, Some(&member.object))))
        })
    }

    /// The root with all of its rules answering 500 to what they match, in the place of an edition on which this program fails:
    /// what of it fails is left out, and no request of the tree goes elsewhere. Of a Gateway nothing is left, by which all that it
    /// serves answers 500.
    #[must_use]
    pub fn closed(&self, root: &RootId) -> Self {
        let route = match self.get(&root_object(root)).map(Shared::object) {
            Some(Object::HttpRoute(mut route)) => {
                for rule in &mut route.spec.rules {
                    rule.filters = Vec::new();
                    rule.backend_refs = Vec::new();
                }
                Some(Object::HttpRoute(route))
            }
            _ => None,
        };
        route.into_iter().collect()
    }

    /// The same where its matches fail too: all of its hostnames answer 500.
    #[must_use]
    pub fn closed_everywhere(&self, root: &RootId) -> Self {
        let route = match self.closed(root).get(&root_object(root)).map(Shared::object) {
            Some(Object::HttpRoute(mut route)) => {
                route.spec.rules.truncate(1);
                for rule in &mut route.spec.rules {
                    rule.matches = Vec::new();
                    rule.name = None;
                }
                Some(Object::HttpRoute(route))
            }
            _ => None,
        };
        route.into_iter().collect()
    }
}
