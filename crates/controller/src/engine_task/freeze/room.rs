//! Whose editions there is room for.

use std::{collections::BTreeMap, sync::Arc};

use ir::{RootId, settings::Freeze};
use translate::level;

/// Whose editions of those that are `kept` end so that there is room for so many bytes of a root; none where it has no room. Who
/// asks for no more than an equal share has it, whatever others have.
pub(super) fn room(bounds: &Freeze, mut kept: BTreeMap<RootId, u64>, root: &RootId, bytes: u64) -> Option<Vec<RootId>> {
    if bytes > bounds.max_tree_bytes {
        return None;
    }
    kept.insert(root.clone(), bytes);
    let mut evicted = Vec::new();
    for (bound, counts) in [(bounds.max_bytes, false), (bounds.max_trees, true)] {
        let weight = |bytes: u64| if counts { 1 } else { bytes };
        let mut asked: BTreeMap<Arc<str>, u64> = BTreeMap::new();
        for (root, bytes) in &kept {
            *asked.entry(root.namespace().clone()).or_default() += weight(*bytes);
        }
        let share = level(bound, asked.values().copied());
        if asked.get(root.namespace()).is_some_and(|own| *own > share) {
            return None;
        }
        for (namespace, mut own) in asked.into_iter().filter(|(_, own)| *own > share) {
            let mut of: Vec<_> = kept
                .iter()
                .filter(|(root, _)| *root.namespace() == namespace)
                .map(|(root, bytes)| (*bytes, root.clone()))
                .collect();
            of.sort();
            while own > share
                && let Some((bytes, root)) = of.pop()
            {
                own -= weight(bytes);
                kept.remove(&root);
                evicted.push(root);
            }
        }
    }
    Some(evicted)
}

#[cfg(test)]
mod tests {
    use ir::NsName;

    use super::*;

    /// What there is, and the bounds of all bytes and all trees.
    type World<'a> = (&'a [(&'a str, &'a str, u64)], u64, u64);

    fn root(namespace: &str, name: &str) -> RootId {
        RootId::Route(NsName::new(namespace, name))
    }

    fn room((kept, max_bytes, max_trees): World<'_>, at: (&str, &str), bytes: u64) -> Option<Vec<String>> {
        let bounds = Freeze { enabled: true, max_tree_bytes: 60, max_bytes, max_trees };
        let kept = kept.iter().map(|(namespace, name, bytes)| (root(namespace, name), *bytes)).collect();
        let evicted = super::room(&bounds, kept, &root(at.0, at.1), bytes)?;
        Some(evicted.iter().map(|root| root.name().to_string()).collect())
    }

    #[test]
    fn who_asks_for_no_more_than_a_share_has_it_whatever_others_have() {
        // One tenant has all that there is.
        let full: World<'_> = (&[("a", "x", 50), ("a", "y", 40), ("a", "z", 10)], 100, 1_000);
        assert_eq!(room(full, ("a", "more"), 1), None, "it has its share");
        assert_eq!(room(full, ("b", "root"), 20), Some(vec!["a/x".to_owned()]));
        assert_eq!(room(full, ("b", "root"), 51), None, "more than half");
        assert_eq!(room(full, ("a", "z"), 10), Some(Vec::new()), "what is there is replaced");
    }

    #[test]
    fn a_tree_and_the_number_of_trees_are_bounded() {
        let many: World<'_> = (&[("a", "x", 1), ("a", "y", 1)], 100, 2);
        assert_eq!(room(many, ("a", "z"), 1), None);
        assert_eq!(room(many, ("b", "root"), 1), Some(vec!["a/y".to_owned()]));
        assert_eq!(room(many, ("a", "x"), 61), None, "too large for a tree");
    }
}
