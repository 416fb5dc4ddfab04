//! A hash of the entries of a group as a set, which costs little when one of many changes.

use std::sync::{Arc, OnceLock};

/// A node with more entries has children.
const LEAF: usize = 32;

/// How many children: one for each value of half a byte.
const CHILDREN: usize = 16;

/// The half bytes of a hash.
const DIGITS: usize = 2 * size_of::<Hash>();

type Hash = [u8; 16];

/// The hash of a set of entries with these hashes, in any order: that of a group with the same entries
/// ([`View::set_hash`](crate::View::set_hash)).
pub fn set_hash<'a>(entries: impl ExactSizeIterator<Item = &'a [u8; 16]>) -> [u8; 16] {
    SetHash::default().of(entries.len(), entries)
}

/// What is known of a set's hash: all of it, or all but what changed since.
#[derive(Clone, Default)]
pub(crate) struct SetHash {
    now: OnceLock<Arc<Node>>,
    before: Option<Box<Before>>,
}

/// What was known last.
#[derive(Clone)]
struct Before {
    known: Arc<Node>,
    /// What came (or else went) since.
    turns: Vec<(Hash, bool)>,
}

impl SetHash {
    /// Notes that an entry with this hash comes, or else goes.
    pub(crate) fn turn(&mut self, hash: &Hash, comes: bool) {
        if let Some(known) = self.now.take() {
            self.before = Some(Box::new(Before { known, turns: Vec::new() }));
        }
        if let Some(before) = &mut self.before {
            before.turns.push((*hash, comes));
            // Where much has changed all is hashed anew.
            if before.turns.len() > before.known.len / LEAF + 1 {
                self.before = None;
            }
        }
    }

    /// The hash of these, which are all entries, `len` of them.
    pub(crate) fn of<'a>(&self, len: usize, entries: impl Iterator<Item = &'a Hash>) -> Hash {
        let anew = || {
            let mut entries: Vec<_> = entries.copied().collect();
            entries.sort_unstable();
            Node::of(&entries, 0)
        };
        // To keep what is known of few costs more than to hash them.
        if len <= LEAF {
            return anew().hash;
        }
        let known = self.now.get_or_init(|| match self.before.as_deref() {
            Some(Before { known, turns }) => {
                let turned = |node: Arc<Node>, (hash, comes): &(Hash, bool)| Arc::new(node.turned(hash, *comes, 0));
                turns.iter().fold(Arc::clone(known), turned)
            }
            None => Arc::new(anew()),
        });
        known.hash
    }
}

/// Entries whose hashes begin alike. Nothing of it depends on the order in which they came.
struct Node {
    len: usize,
    hash: Hash,
    below: Below,
}

enum Below {
    /// Their hashes, sorted.
    Entries(Vec<Hash>),
    /// Those that go on with each half byte.
    Children(Box<[Arc<Node>; CHILDREN]>),
}

impl Node {
    /// Of entries that are sorted and begin with `depth` half bytes alike.
    fn of(entries: &[Hash], depth: usize) -> Self {
        if !has_children(entries.len(), depth) {
            return Self {
                len: entries.len(),
                hash: hashed(entries.len(), entries),
                below: Below::Entries(entries.to_vec()),
            };
        }
        let mut rest = entries;
        Self::with(std::array::from_fn(|child| {
            let (of_child, others) = rest.split_at(rest.partition_point(|entry| digit(entry, depth) <= child));
            rest = others;
            Arc::new(Self::of(of_child, depth + 1))
        }))
    }

    fn with(children: [Arc<Self>; CHILDREN]) -> Self {
        let len = children.iter().map(|child| child.len).sum();
        let hashes: [Hash; CHILDREN] = std::array::from_fn(|child| children[child].hash);
        Self { len, hash: hashed(len, &hashes), below: Below::Children(Box::new(children)) }
    }

    /// The same with one entry more or less.
    fn turned(&self, entry: &Hash, comes: bool, depth: usize) -> Self {
        let len = if comes { self.len + 1 } else { self.len - 1 };
        match &self.below {
            Below::Children(children) if has_children(len, depth) => {
                let mut children = <[Arc<Self>; CHILDREN]>::clone(children);
                let child = &mut children[digit(entry, depth)];
                *child = Arc::new(child.turned(entry, comes, depth + 1));
                Self::with(children)
            }
            _ => {
                let mut entries = Vec::with_capacity(self.len + 1);
                self.gather(&mut entries);
                match entries.binary_search(entry) {
                    Ok(at) if !comes => drop(entries.remove(at)),
                    Ok(at) | Err(at) => entries.insert(at, *entry),
                }
                Self::of(&entries, depth)
            }
        }
    }

    fn gather(&self, entries: &mut Vec<Hash>) {
        match &self.below {
            Below::Entries(own) => entries.extend_from_slice(own),
            Below::Children(children) => children.iter().for_each(|child| child.gather(entries)),
        }
    }
}

fn has_children(len: usize, depth: usize) -> bool {
    len > LEAF && depth < DIGITS
}

/// A half byte of a hash.
fn digit(hash: &Hash, depth: usize) -> usize {
    let byte = usize::from(hash[depth / 2]);
    if depth.is_multiple_of(2) { byte >> 4 } else { byte & 0xF }
}

fn hashed(len: usize, hashes: &[Hash]) -> Hash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&(len as u64).to_le_bytes());
    hasher.update(hashes.as_flattened());
    let mut hash = Hash::default();
    hash.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    hash
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn entry(number: u32) -> Hash {
        hashed(0, &[[number.to_le_bytes(); 4].as_flattened().try_into().expect("16 bytes")])
    }

    /// The addresses of all nodes.
    fn nodes(node: &Arc<Node>, all: &mut HashSet<*const Node>) {
        all.insert(Arc::as_ptr(node));
        if let Below::Children(children) = &node.below {
            children.iter().for_each(|child| nodes(child, all));
        }
    }

    #[test]
    fn one_of_many_that_changes_has_as_few_nodes_made_anew_as_one_of_few() {
        for many in [500, 50_000] {
            let mut entries: Vec<_> = (0..many).map(entry).collect();
            let mut set = SetHash::default();
            let before = set.of(entries.len(), entries.iter());
            let known = Arc::clone(set.now.get().expect("it is kept"));
            let changed = entry(many);
            set.turn(&std::mem::replace(&mut entries[7], changed), false);
            set.turn(&changed, true);
            let after = set.of(entries.len(), std::iter::empty());
            assert_ne!(before, after);
            assert_eq!(after, SetHash::default().of(entries.len(), entries.iter()), "as from the entries");
            let (mut old, mut new) = (HashSet::new(), HashSet::new());
            nodes(&known, &mut old);
            nodes(set.now.get().expect("it is kept"), &mut new);
            let anew = new.difference(&old).count();
            assert!(anew <= 8, "{anew} nodes of {} for one of {many}", new.len());
        }
    }

    #[test]
    fn a_set_has_one_hash_whatever_it_held_before_and_however_often_it_holds_an_entry() {
        let mut set = SetHash::default();
        let mut entries: Vec<_> = (0..100).map(|number| entry(number % 3)).collect();
        for number in 0..100 {
            let now = set.of(entries.len(), entries.iter());
            assert_eq!(now, SetHash::default().of(entries.len(), entries.iter().rev()), "{}", entries.len());
            entries.push(entry(number));
            set.turn(&entry(number), true);
            if number.is_multiple_of(2) {
                let gone = entries.swap_remove(7 * number as usize % entries.len());
                set.turn(&gone, false);
            }
        }
    }
}
