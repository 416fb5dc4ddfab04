//! Ages for objects that have none.
//!
//! Where Gateway API lets the older of two objects win, a manifest without `creationTimestamp` is as old as its place
//! is: argument, path, document. Places are ordered, ages are numbers, and a document put in front must not give a
//! new age to all behind it. So ages are labels with gaps: a new object gets one between its neighbours, and only when a
//! gap is used up are all labels dealt out anew. A label means nothing but which of two objects is older, so two
//! histories that end in the same files agree wherever it matters.

use std::{collections::BTreeMap, ops::Bound, sync::Arc};

use api::ObjectId;
use indexmap::IndexMap;

use super::FileKey;

/// Seconds since the epoch. Labels lie between the years 2200 and 9900, so that an object without a timestamp is
/// younger than every one that has one: a manifest that is added does not take over from one that was exported.
const FIRST: i64 = 7_258_118_400;
const LAST: i64 = 250_246_000_000;
const GAP: i64 = 1 << 18;

/// The ages of all objects that have none of their own.
#[derive(Debug, Default)]
pub struct Ages {
    files: BTreeMap<Arc<FileKey>, IndexMap<ObjectId, i64>>,
}

impl Ages {
    /// The age of an object of a file, in seconds since the epoch.
    pub fn get(&self, file: &FileKey, id: &ObjectId) -> Option<i64> {
        self.files.get(file)?.get(id).copied()
    }

    /// Sets the objects of a file, in their order, each once. Returns those whose age changed, of other files too.
    pub fn set(&mut self, file: &Arc<FileKey>, ids: Vec<ObjectId>) -> Vec<(Arc<FileKey>, ObjectId)> {
        let old = self.files.remove(file).unwrap_or_default();
        if ids.is_empty() {
            return Vec::new();
        }
        let below = self.files.range::<FileKey, _>(..&**file).next_back().and_then(|(_, list)| list.last());
        let above = self
            .files
            .range::<FileKey, _>((Bound::Excluded(&**file), Bound::Unbounded))
            .next()
            .and_then(|(_, list)| list.first());
        let (below, above) = (below.map(|(_, label)| *label), above.map(|(_, label)| *label));

        let before: Vec<Option<i64>> = ids.iter().map(|id| old.get(id).copied()).collect();
        let labels = fill(&keep_rising(&before), below, above);
        let Some(labels) = labels else {
            self.files.insert(Arc::clone(file), ids.into_iter().map(|id| (id, i64::MIN)).collect());
            return self.deal_anew();
        };
        let changed = ids
            .iter()
            .zip(before.iter().zip(&labels))
            .filter(|(_, (before, label))| **before != Some(**label))
            .map(|(id, _)| (Arc::clone(file), id.clone()))
            .collect();
        self.files.insert(Arc::clone(file), ids.into_iter().zip(labels).collect());
        changed
    }

    fn deal_anew(&mut self) -> Vec<(Arc<FileKey>, ObjectId)> {
        let count = i64::try_from(self.files.values().map(IndexMap::len).sum::<usize>()).unwrap_or(i64::MAX);
        let step = ((LAST - FIRST) / count.saturating_add(1)).clamp(1, GAP);
        let mut label = FIRST + (LAST - FIRST - step.saturating_mul(count)).max(0) / 2;
        let mut changed = Vec::new();
        for (file, list) in &mut self.files {
            for (id, old) in list {
                label += step;
                if std::mem::replace(old, label) != label {
                    changed.push((Arc::clone(file), id.clone()));
                }
            }
        }
        changed
    }
}

/// Keeps as many labels as rise from first to last (a longest increasing subsequence), and forgets the others.
fn keep_rising(labels: &[Option<i64>]) -> Vec<Option<i64>> {
    // tails[n]: where the subsequence of length n + 1 with the smallest end ends.
    let mut tails: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = vec![None; labels.len()];
    for (index, label) in labels.iter().enumerate().filter_map(|(index, label)| Some((index, (*label)?))) {
        let length = tails.partition_point(|&tail| labels[tail] < Some(label));
        before[index] = length.checked_sub(1).map(|shorter| tails[shorter]);
        if length == tails.len() {
            tails.push(index);
        } else {
            tails[length] = index;
        }
    }
    let mut kept = vec![None; labels.len()];
    let mut at = tails.last().copied();
    while let Some(index) = at {
        kept[index] = labels[index];
        at = before[index];
    }
    kept
}

/// Gives a label to each place that has none, between its neighbours; none where a gap is too small.
fn fill(labels: &[Option<i64>], below: Option<i64>, above: Option<i64>) -> Option<Vec<i64>> {
    let mut filled = Vec::with_capacity(labels.len());
    let mut rest = labels;
    let mut left = below;
    while !rest.is_empty() {
        let missing = rest.iter().take_while(|label| label.is_none()).count();
        let right = rest.get(missing).copied().flatten();
        filled.extend(between(left, right.or(above), missing)?);
        filled.extend(right);
        left = filled.last().copied();
        rest = rest.get(missing + 1..).unwrap_or_default();
    }
    Some(filled)
}

/// `count` rising labels between two; an open end has all the room there is.
fn between(left: Option<i64>, right: Option<i64>, count: usize) -> Option<Vec<i64>> {
    let count = i64::try_from(count).ok()?;
    let (start, step) = match (left, right) {
        _ if count == 0 => return Some(Vec::new()),
        (None, None) => (FIRST + (LAST - FIRST) / 2, GAP),
        (Some(left), None) => (left, GAP),
        (None, Some(right)) => (right.checked_sub(GAP.checked_mul(count + 1)?)?, GAP),
        (Some(left), Some(right)) => (left, (right - left) / (count + 1)),
    };
    let end = start.checked_add(step.checked_mul(count)?)?;
    (step > 0 && start >= FIRST && end <= LAST).then(|| (1..=count).map(|n| start + n * step).collect())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use api::Kind;
    use proptest::prelude::*;

    use super::*;

    fn file(name: &str) -> Arc<FileKey> {
        Arc::new(FileKey::new(0, Path::new(name)))
    }

    fn ids(names: &str) -> Vec<ObjectId> {
        names.chars().map(|name| ObjectId::new(Kind::HttpRoute, "ns", name.to_string())).collect()
    }

    fn order(ages: &Ages) -> String {
        let mut all: Vec<_> = ages.files.values().flatten().map(|(id, label)| (*label, id.name.to_string())).collect();
        all.sort();
        assert!(all.windows(2).all(|pair| pair[0].0 < pair[1].0), "labels are unique");
        all.into_iter().map(|(_, name)| name).collect()
    }

    #[test]
    fn objects_are_as_old_as_their_place() {
        let mut ages = Ages::default();
        ages.set(&file("m.yaml"), ids("mn"));
        ages.set(&file("z.yaml"), ids("z"));
        ages.set(&file("a.yaml"), ids("ab"));
        ages.set(&file("n.yaml"), ids("o"));
        assert_eq!(order(&ages), "abmnoz");
    }

    #[test]
    fn a_new_object_changes_no_other_age() {
        let mut ages = Ages::default();
        ages.set(&file("b.yaml"), ids("bcd"));
        ages.set(&file("c.yaml"), ids("xyz"));
        let changed = ages.set(&file("b.yaml"), ids("abmcd"));
        let names: String = changed.iter().map(|(_, id)| &*id.name).collect();
        assert_eq!(names, "am");
        assert_eq!(ages.set(&file("a.yaml"), ids("0")).len(), 1);
        assert_eq!(order(&ages), "0abmcdxyz");
    }

    #[test]
    fn a_document_that_moves_to_the_front_is_the_only_one_that_ages() {
        let mut ages = Ages::default();
        ages.set(&file("a.yaml"), ids("abcdefgh"));
        let changed = ages.set(&file("a.yaml"), ids("habcdefg"));
        assert_eq!(changed.len(), 1);
        assert_eq!(order(&ages), "habcdefg");
    }

    #[test]
    fn a_gap_that_is_used_up_is_made_anew() {
        let mut ages = Ages::default();
        ages.set(&file("a.yaml"), ids("az"));
        let mut names = String::from("z");
        for name in ('α'..).take(60) {
            names.insert(0, name);
            ages.set(&file("a.yaml"), ids(&format!("a{names}")));
            assert_eq!(order(&ages), format!("a{names}"));
        }
    }

    proptest! {
        #[test]
        fn ages_follow_places_whatever_happened_before(
            edits in prop::collection::vec((0..4usize, prop::sample::subsequence(vec!['a', 'b', 'c', 'd', 'e', 'f'], 0..6).prop_shuffle()), 1..40)
        ) {
            let mut ages = Ages::default();
            let mut now: BTreeMap<usize, String> = BTreeMap::new();
            for (index, names) in edits {
                // Names are made unique to the file.
                let names: String =
                    names.into_iter().filter_map(|c| char::from_u32(c as u32 + 100 * u32::try_from(index).ok()?)).collect();
                let before = ages.files.clone();
                let changed = ages.set(&file(&index.to_string()), ids(&names));
                for (key, list) in &ages.files {
                    for (id, label) in list {
                        let reported = changed.contains(&(Arc::clone(key), id.clone()));
                        let same = before.get(key).is_some_and(|list| list.get(id) == Some(label));
                        prop_assert_eq!(reported, !same, "a changed age is reported, and nothing else");
                    }
                }
                now.insert(index, names);
                prop_assert_eq!(order(&ages), now.values().map(String::as_str).collect::<String>());
            }
        }
    }
}
