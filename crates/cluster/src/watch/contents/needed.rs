//! Who needs which keys of an object that is read because others refer to it.

use std::collections::BTreeMap;

use api::references::Keys;

use super::Subject;

/// Who needs which keys of an object.
#[derive(Debug, Default)]
pub(super) struct Needed {
    /// An object, or all who select it.
    by: BTreeMap<Subject, Keys>,
    /// The keys of all of them; none since somebody needs fewer, until somebody asks.
    all: Option<Keys>,
}

impl Needed {
    /// Somebody needs these keys too.
    pub(super) fn add(&mut self, by: Subject, keys: &Keys) {
        self.by.entry(by).or_default().extend(keys);
        if let Some(all) = &mut self.all {
            all.extend(keys);
        }
    }

    /// Somebody needs these keys and no others.
    pub(super) fn set(&mut self, by: Subject, keys: Keys) {
        if self.by.get(&by) != Some(&keys) {
            self.by.insert(by, keys);
            self.all = None;
        }
    }

    /// Somebody needs none; gives whether nobody does.
    pub(super) fn remove(&mut self, by: &Subject) -> bool {
        if self.by.remove(by).is_some() {
            self.all = None;
        }
        self.by.is_empty()
    }

    /// The keys that anybody needs. A thousand may need them, so they are put together once.
    pub(super) fn keys(&mut self) -> &Keys {
        let Self { by, all } = self;
        all.get_or_insert_with(|| {
            let mut all = Keys::default();
            for keys in by.values() {
                all.extend(keys);
            }
            all
        })
    }
}
