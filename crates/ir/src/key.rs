//! Names that many tables have as their keys.

use std::{
    cmp::Ordering,
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
    ops::Deref,
    sync::Arc,
};

/// A name behind a pointer, with its hash: cheap to keep, to clone, to hash and, of two that are clones of one, to compare.
/// Equal, ordered and printed as the name is.
pub struct Key<T>(Arc<Hashed<T>>);

struct Hashed<T> {
    /// For tables of this process alone: another build may hash otherwise.
    hash: u64,
    name: T,
}

impl<T: Hash> Key<T> {
    /// A key of a name.
    pub fn hashed(name: T) -> Self {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        Self(Arc::new(Hashed { hash: hasher.finish(), name }))
    }
}

impl<T> Clone for Key<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Deref for Key<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.name
    }
}

impl<T: PartialEq> PartialEq for Key<T> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || (self.0.hash == other.0.hash && self.0.name == other.0.name)
    }
}

impl<T: Eq> Eq for Key<T> {}

impl<T> Hash for Key<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0.hash);
    }
}

impl<T: Ord> Ord for Key<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        if Arc::ptr_eq(&self.0, &other.0) { Ordering::Equal } else { self.0.name.cmp(&other.0.name) }
    }
}

impl<T: Ord> PartialOrd for Key<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A key where the order tells nothing: two are compared by their hashes, which takes a part of the time that their names
/// take.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Unordered<T>(Key<T>);

impl<T: Hash> Unordered<T> {
    /// A key of a name.
    pub fn hashed(name: T) -> Self {
        Self(Key::hashed(name))
    }
}

impl<T: Ord> Ord for Unordered<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_hash = self.0.0.hash.cmp(&other.0.0.hash);
        by_hash.then_with(|| self.0.cmp(&other.0))
    }
}

impl<T: Ord> PartialOrd for Unordered<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T: fmt::Debug> fmt::Debug for Unordered<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: fmt::Debug> fmt::Debug for Key<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.name.fmt(f)
    }
}
