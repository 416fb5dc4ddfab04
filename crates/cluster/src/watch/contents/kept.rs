//! What is read because something that is kept as it was refers to it, whatever objects say by now.

use std::{collections::BTreeMap, sync::Arc};

use api::{
    Kind, ObjectId,
    references::{Reference, Selection},
};

use super::{Contents, Known};

/// What some objects need that are kept as they were.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requirements {
    /// The objects to which they refer.
    pub references: Vec<Reference>,
    /// Which objects they select.
    pub selections: Vec<Selection>,
}

/// All that is needed by what is kept, by a hash of that.
pub type Kept = BTreeMap<[u8; 16], Arc<Requirements>>;

/// Who refers to it: no object.
fn referrer(hash: &[u8; 16]) -> ObjectId {
    ObjectId::new(Kind::Secret, "", format!("{:032x}", u128::from_be_bytes(*hash)))
}

impl Contents {
    /// This is needed by what is kept, and nothing else. Secrets are not synced before it was read.
    pub(in crate::watch) fn keep(&mut self, kept: &Arc<Kept>, there: &dyn Fn(&ObjectId) -> Known) {
        let before = std::mem::replace(&mut self.kept, Arc::clone(kept));
        for (hash, needed) in kept.iter().filter(|(hash, _)| !before.contains_key(*hash)) {
            self.need(&referrer(hash), Vec::new(), needed, |_| true, there);
        }
        for hash in before.keys().filter(|hash| !kept.contains_key(*hash)) {
            self.need(&referrer(hash), Vec::new(), &Requirements::default(), |_| true, there);
        }
    }
}
