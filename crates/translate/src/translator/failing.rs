//! Faults that depend on what an object says, for tests of what becomes of it. Only where debug assertions are.

use std::collections::{BTreeMap, BTreeSet};

use api::{Object, ObjectId};
use engine::Engine;

use super::Translator;

/// Of an object, what panics as long as it is there as it is: a row, `TABLE:KEY`, or one of the words below.
pub(super) const ANNOTATION: &str = "test.portcullis.dev/fail-at";
/// The settling as a whole.
const SETTLING: &str = "settling";
/// The process ends, as it does when a stack is used up.
const ABORT: &str = "abort";
/// The settling never ends.
const HANG: &str = "hang";

/// What is to panic because of objects as they are.
#[derive(Debug, Default)]
pub(super) struct Failing {
    /// Told so, of an object that is exactly so.
    told: Vec<(Object, String)>,
    /// At the moment.
    now: BTreeMap<ObjectId, BTreeSet<String>>,
}

impl Failing {
    fn because_of(&self, object: &Object) -> BTreeSet<String> {
        let annotated = object.metadata().and_then(|metadata| metadata.annotations.get(ANNOTATION));
        let told = self.told.iter().filter(|(told, _)| told == object).map(|(_, what)| what.clone());
        annotated.iter().map(ToString::to_string).chain(told).collect()
    }

    /// What is no row.
    pub(super) fn fail(&self) {
        let all: BTreeSet<_> = self.now.values().flatten().map(String::as_str).collect();
        assert!(!all.contains(SETTLING), "{}", engine::TOLD_TO);
        if all.contains(ABORT) {
            std::process::abort();
        }
        while all.contains(HANG) {
            std::thread::park();
        }
    }
}

impl Translator {
    /// Has a row panic, `TABLE:KEY`, or the settling as a whole, `settling`, as long as this object is there, exactly so.
    pub fn fail_because(&mut self, object: Object, what: &str) {
        self.failing.told.push((object, what.to_owned()));
    }

    /// An object is there from now on, or gone.
    pub(super) fn fail_because_of(&mut self, id: &ObjectId, object: Option<&Object>) {
        let now = object.map(|object| self.failing.because_of(object)).unwrap_or_default();
        if now.is_empty() && self.failing.now.is_empty() {
            return;
        }
        let before = self.failing.now.remove(id).unwrap_or_default();
        for (table, key) in before.iter().filter_map(|row| row.split_once(':')) {
            self.engine.fail_no_more(table, key);
        }
        for (table, key) in now.iter().filter_map(|row| row.split_once(':')) {
            self.engine.fail_at(table, key);
        }
        self.failing.now.insert(id.clone(), now);
    }

    /// What failed whatever objects there are does so again.
    pub(super) fn fail_again(&mut self, before: &Engine) {
        let because: BTreeSet<_> = std::mem::take(&mut self.failing.now).into_values().flatten().collect();
        for row in before.failing() {
            let row = row.strip_suffix(')').and_then(|row| row.split_once('('));
            if let Some((table, key)) = row.filter(|(table, key)| !because.contains(&format!("{table}:{key}"))) {
                self.engine.fail_at(table, key);
            }
        }
    }
}
