//! Where tables and groups stand, by their markers.
//!
//! Each read of a row asks for this, so it is one look into a list, mostly: what a hash table does for keys that are not hashes
//! themselves takes twice as long.

use std::any::TypeId;
use std::hash::{Hash, Hasher};

use crate::node::Place;

/// The places of tables and groups, by their markers.
#[derive(Default)]
pub(crate) struct Places {
    /// A marker is at the place that its hash says, or behind what is there; at most half of them are taken. Their number is a
    /// power of two, or none.
    slots: Box<[Option<(TypeId, Place)>]>,
    len: usize,
}

impl Places {
    #[inline]
    pub(crate) fn get(&self, marker: TypeId) -> Option<Place> {
        let mut at = hash(marker);
        loop {
            match self.slots.get(self.index(at))? {
                Some((known, place)) if *known == marker => return Some(*place),
                Some(_) => at = at.wrapping_add(1),
                None => return None,
            }
        }
    }

    /// Notes a place. False if the marker has one.
    pub(crate) fn insert(&mut self, marker: TypeId, place: Place) -> bool {
        if self.get(marker).is_some() {
            return false;
        }
        if 2 * (self.len + 1) > self.slots.len() {
            let room = (4 * (self.len + 1)).next_power_of_two();
            let before = std::mem::replace(&mut self.slots, (0..room).map(|_| None).collect());
            before.into_iter().flatten().for_each(|(marker, place)| self.put(marker, place));
        }
        self.put(marker, place);
        self.len += 1;
        true
    }

    fn put(&mut self, marker: TypeId, place: Place) {
        let mut at = hash(marker);
        while self.slots[self.index(at)].is_some() {
            at = at.wrapping_add(1);
        }
        let index = self.index(at);
        self.slots[index] = Some((marker, place));
    }

    #[inline]
    fn index(&self, at: usize) -> usize {
        at & self.slots.len().wrapping_sub(1)
    }
}

/// The hash that the identifier of a type is.
#[inline]
fn hash(marker: TypeId) -> usize {
    let mut hasher = TypeHasher(0);
    marker.hash(&mut hasher);
    (hasher.0 & 0xffff_ffff) as u32 as usize
}

struct TypeHasher(u64);

impl Hasher for TypeHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, byte| hash.rotate_left(8) ^ u64::from(*byte));
    }

    #[inline]
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Marker<const N: usize>;

    #[test]
    fn a_marker_has_one_place() {
        let markers = [
            TypeId::of::<Marker<0>>(),
            TypeId::of::<Marker<1>>(),
            TypeId::of::<Marker<2>>(),
            TypeId::of::<Marker<3>>(),
            TypeId::of::<Marker<4>>(),
            TypeId::of::<Marker<5>>(),
            TypeId::of::<Marker<6>>(),
        ];
        let mut places = Places::default();
        for (marker, place) in markers.into_iter().zip(0..) {
            assert_eq!(places.get(marker), None);
            assert!(places.insert(marker, place));
            assert!(!places.insert(marker, 9));
        }
        assert!(markers.into_iter().zip(0..).all(|(marker, place)| places.get(marker) == Some(place)));
    }
}
