//! A hash of the entries of a group as a set, which costs little when one of many changes.

use std::sync::{Arc, OnceLock};

/// Into so many parts entries are divided, by their hashes: one that changes has its part hashed anew, and the other parts'
/// hashes stand.
const PARTS: usize = 64;

/// So many entries are hashed at once: that costs no more than the hashes of all parts.
const FEW: usize = 2 * PARTS;

type Hash = [u8; 16];

/// The part to which an entry belongs.
fn part(hash: &Hash) -> usize {
    usize::from(hash[0]) % PARTS
}

/// What is known of a set's hash: all of it, or all but what changed since.
#[derive(Clone, Default)]
pub(crate) struct SetHash {
    now: OnceLock<Arc<Parts>>,
    /// What was known last, and (a bit each) the parts that changed since.
    before: Option<(Arc<Parts>, u64)>,
}

struct Parts {
    hashes: [Hash; PARTS],
    all: Hash,
}

impl SetHash {
    /// Notes that an entry with this hash comes or goes.
    pub(crate) fn turn(&mut self, hash: &Hash) {
        if let Some(known) = self.now.take() {
            self.before = Some((known, 0));
        }
        if let Some((_, changed)) = &mut self.before {
            *changed |= 1 << part(hash);
        }
    }

    /// The hash of these, which are all entries, `len` of them, in an order that depends on nothing but the entries.
    pub(crate) fn of<'a>(&self, len: usize, entries: impl Iterator<Item = &'a Hash>) -> Hash {
        if len <= FEW {
            return hashed(len, &entries.copied().collect::<Vec<_>>());
        }
        let parts = self.now.get_or_init(|| {
            let (mut hashes, changed) = self
                .before
                .as_ref()
                .map_or(([Hash::default(); PARTS], u64::MAX), |(before, changed)| (before.hashes, *changed));
            let mut lists: [Vec<Hash>; PARTS] = std::array::from_fn(|_| Vec::new());
            for entry in entries {
                let part = part(entry);
                if changed >> part & 1 == 1 {
                    lists[part].push(*entry);
                }
            }
            for (part, list) in lists.iter().enumerate().filter(|(part, _)| changed >> part & 1 == 1) {
                hashes[part] = hashed(list.len(), list);
            }
            Arc::new(Parts { all: hashed(len, &hashes), hashes })
        });
        parts.all
    }
}

fn hashed(len: usize, hashes: &[Hash]) -> Hash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&(len as u64).to_le_bytes());
    hasher.update(hashes.as_flattened());
    let mut hash = Hash::default();
    hash.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    hash
}
