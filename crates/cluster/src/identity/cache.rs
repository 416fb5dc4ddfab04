//! A bounded memory of what was found out about tokens.

use std::collections::{BTreeMap, HashMap};

/// What a token is known by. The token itself is kept nowhere.
pub(super) type Digest = [u8; blake3::OUT_LEN];

/// Values by digest. When there are too many, the one that was put there first goes.
pub(super) struct Cache<V> {
    capacity: usize,
    next: u64,
    values: HashMap<Digest, (u64, V)>,
    order: BTreeMap<u64, Digest>,
}

impl<V> Cache<V> {
    pub(super) fn new(capacity: usize) -> Self {
        Self { capacity: capacity.max(1), next: 0, values: HashMap::new(), order: BTreeMap::new() }
    }

    pub(super) fn get(&self, digest: &Digest) -> Option<&V> {
        self.values.get(digest).map(|(_, value)| value)
    }

    pub(super) fn put(&mut self, digest: Digest, value: V) {
        self.remove(&digest);
        self.next += 1;
        self.values.insert(digest, (self.next, value));
        self.order.insert(self.next, digest);
        if self.values.len() > self.capacity
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.values.remove(&oldest);
        }
    }

    pub(super) fn remove(&mut self, digest: &Digest) {
        if let Some((place, _)) = self.values.remove(digest) {
            self.order.remove(&place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_goes_when_there_are_too_many() {
        let mut cache = Cache::new(2);
        for (digest, value) in [([1; 32], 1), ([2; 32], 2), ([1; 32], 3), ([3; 32], 4)] {
            cache.put(digest, value);
        }
        assert_eq!(cache.get(&[1; 32]), Some(&3));
        assert_eq!(cache.get(&[2; 32]), None);
        assert_eq!(cache.get(&[3; 32]), Some(&4));
        cache.remove(&[1; 32]);
        cache.put([4; 32], 5);
        assert_eq!((cache.get(&[3; 32]), cache.get(&[4; 32])), (Some(&4), Some(&5)));
        assert_eq!((cache.values.len(), cache.order.len()), (2, 2));
    }
}
