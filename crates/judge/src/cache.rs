//! What was judged before.

use std::sync::Arc;

use quick_cache::unsync::Cache;

use envoy::{bytes, judged::Fragment};

use crate::{outcome::Build, verdict::Refusal};

/// How many fragments are remembered that were accepted, by 16 bytes each.
const ACCEPTED: usize = 1_000_000;
/// How many that were not, with the words.
const REFUSED: usize = 10_000;

/// What a verdict is about: the content, what it is put into, and by whom it is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key([u8; 16]);

impl Key {
    /// Of a fragment that is put into a bootstrap of this hash.
    pub(crate) fn of(fragment: &Fragment, wrapper: &[u8; 16], build: &Build) -> Self {
        let kind = [fragment.kind as u8];
        // The build is the only one whose length is not always the same.
        Self(bytes::version([&kind[..], &fragment.hash, wrapper, build.as_str().as_bytes()]))
    }
}

/// Verdicts, the least used of which are forgotten.
#[derive(Debug)]
pub(crate) struct Verdicts {
    accepted: Cache<Key, ()>,
    refused: Cache<Key, Arc<Refusal>>,
}

impl Default for Verdicts {
    fn default() -> Self {
        Self { accepted: Cache::new(ACCEPTED), refused: Cache::new(REFUSED) }
    }
}

impl Verdicts {
    /// What is known.
    pub(crate) fn get(&self, key: Key) -> Option<Result<(), Arc<Refusal>>> {
        match self.accepted.get(&key) {
            Some(()) => Some(Ok(())),
            None => self.refused.get(&key).map(|refusal| Err(refusal.clone())),
        }
    }

    /// Remembers a verdict.
    pub(crate) fn put(&mut self, key: Key, verdict: Result<(), Arc<Refusal>>) {
        match verdict {
            Ok(()) => self.accepted.insert(key, ()),
            Err(refusal) => self.refused.insert(key, refusal),
        }
    }
}
