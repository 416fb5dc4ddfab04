//! What editions need of objects that are read because others refer to them, Secrets: also what nobody names any more who is served
//! as he is, and what is named by what somebody has served as it was.

use std::{collections::BTreeMap, sync::Arc};

use api::Object;
use cluster::watch::{Kept, Requirements};
use tokio::sync::watch;
use translate::{Edition, Part};

/// What a part of an edition needs, by the hash of the part.
type OfParts = BTreeMap<[u8; 16], Arc<Requirements>>;

/// What all editions need.
pub(super) struct Needs {
    /// By the name of the record: what is stored, and what was stored before, since that may be served for a moment.
    records: BTreeMap<String, [OfParts; 2]>,
    told: watch::Sender<Option<Arc<Kept>>>,
}

impl Needs {
    pub(super) fn new(told: watch::Sender<Option<Arc<Kept>>>) -> Self {
        Self { records: BTreeMap::new(), told }
    }

    /// This is stored as a record, or nothing any more. Looks at parts that are new alone.
    pub(super) fn put(&mut self, record: &str, edition: Option<&Edition>) {
        let [before, _] = self.records.remove(record).unwrap_or_default();
        let Some(edition) = edition else { return };
        let of = |part: &Arc<Part>| (part.hash(), before.get(&part.hash()).map_or_else(|| needed_by(part), Arc::clone));
        self.records.insert(record.to_owned(), [edition.parts().map(of).collect(), before]);
    }

    /// Has all that is known by now be read.
    pub(super) fn tell(&self) {
        let parts = self.records.values().flatten().flatten();
        let parts = parts.filter(|(_, needed)| ***needed != Requirements::default());
        let all: Kept = parts.map(|(hash, needed)| (*hash, Arc::clone(needed))).collect();
        self.told.send_if_modified(|told| {
            let is_other = told.as_ref().is_none_or(|told| !told.keys().eq(all.keys()));
            if is_other {
                *told = Some(Arc::new(all));
            }
            is_other
        });
    }
}

fn needed_by(part: &Arc<Part>) -> Arc<Requirements> {
    let objects = part.objects();
    let references = objects.iter().filter(|object| object.kind().is_policy()).flat_map(Object::references).collect();
    let selections = objects.iter().filter(|object| object.kind().is_policy()).flat_map(Object::selections).collect();
    Arc::new(Requirements { references, selections })
}
