//! Units that are known by what is written.
//!
//! Most policies are made from few templates. What they say alike is read once, is in memory once, and is encoded once.

use std::{
    hash::{BuildHasher, RandomState},
    sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak},
};

use hashbrown::HashTable;

use super::{
    AnyUnit, Refused,
    shared::{Shared, SharedUnit},
};

static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);

/// The units that policies have at the moment, and a few that they had.
#[derive(Default)]
struct Known {
    /// By the hash of field and text.
    units: HashTable<(u64, Weak<Shared>)>,
    hasher: RandomState,
}

impl Known {
    fn find(&self, hash: u64, field: &str, text: &str) -> Option<SharedUnit> {
        let is_it = |(of, unit): &(u64, Weak<Shared>)| {
            *of == hash && SharedUnit::upgrade(unit).is_some_and(|unit| unit.is_written(field, text))
        };
        SharedUnit::upgrade(&self.units.find(hash, is_it)?.1)
    }

    fn add(&mut self, hash: u64, unit: &SharedUnit) {
        let hash_of = |(hash, _): &(u64, Weak<Shared>)| *hash;
        // What was completed by Secrets or providers is another unit, and what was read is gone at once.
        if let Some((_, gone)) = self.units.find_mut(hash, |(of, unit)| *of == hash && unit.strong_count() == 0) {
            *gone = unit.downgrade();
            return;
        }
        if self.units.len() == self.units.capacity() {
            // What no policy has any more goes. There is room for as many again, so that this takes no time of most.
            self.units.retain(|(_, unit)| unit.strong_count() > 0);
            self.units.reserve(self.units.len() + 1, hash_of);
        }
        self.units.insert_unique(hash, (hash, unit.downgrade()), hash_of);
    }
}

fn known() -> MutexGuard<'static, Known> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The unit that this field is, where this is written there; `read` reads it.
///
/// # Errors
/// Those of `read`, which are not kept.
pub(crate) fn unit(
    field: &'static str,
    text: &Arc<str>,
    read: impl FnOnce() -> Result<AnyUnit, Refused>,
) -> Result<SharedUnit, Refused> {
    let hash = known().hasher.hash_one((field, text));
    if let Some(unit) = known().find(hash, field, text) {
        return Ok(unit);
    }
    // Nobody waits for what is read.
    let unit = SharedUnit::written(read()?, text.clone());
    known().add(hash, &unit);
    Ok(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffer(bytes: usize) -> Result<SharedUnit, Refused> {
        let text = Arc::from(format!(r#"{{"maxRequestSize": {bytes}}}"#));
        unit("buffer", &text, || {
            let place = AnyUnit::place("buffer").expect("a field");
            AnyUnit::READ[place](&api::open_fields::parse(&text))
        })
    }

    #[test]
    fn what_is_written_alike_is_one_unit_while_somebody_has_it() {
        let one = buffer(77_001).expect("a unit");
        let before = one.downgrade();
        assert!(buffer(77_001).expect("a unit").downgrade().ptr_eq(&before));
        assert!(!buffer(77_002).expect("a unit").downgrade().ptr_eq(&before));
        drop(one);
        assert!(before.upgrade().is_none());
        assert!(buffer(77_001).is_ok());
    }

    #[test]
    fn what_is_refused_is_refused_each_time() {
        assert!(buffer(0).is_err() && buffer(0).is_err());
    }

    #[test]
    fn what_nobody_has_any_more_makes_room() {
        let mut known = Known::default();
        let unit = || buffer(77_003).expect("a unit");
        for hash in 0..10_000 {
            known.add(hash, &unit());
        }
        assert!(known.units.capacity() < 100, "{}", known.units.capacity());
        let mut known = Known::default();
        let kept: Vec<_> = (0..1_000).map(|at| buffer(78_000 + at).expect("a unit")).collect();
        kept.iter().zip(0..).for_each(|(unit, hash)| known.add(hash, unit));
        for _ in 0..1_000 {
            known.add(7, &unit());
        }
        assert_eq!(known.units.iter_hash(7).filter(|(hash, _)| *hash == 7).count(), 2);
    }
}
