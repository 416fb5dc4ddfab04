//! Sharing a bound fairly between namespaces.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

/// Who asks for something: first the namespace of the root route, which decides where a tree stands, then the namespace
/// of the route itself. Who publishes the routes of others does so at the cost of his own share.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Payer {
    pub(crate) root: Arc<str>,
    pub(crate) own: Arc<str>,
}

/// What those get who ask for more than that; the others get what they ask for.
pub(super) fn shares<'a>(bound: u64, asked: impl Iterator<Item = (&'a Payer, u64)>) -> BTreeMap<Payer, u64> {
    let mut by_root: BTreeMap<&Arc<str>, Vec<(&Payer, u64)>> = BTreeMap::new();
    for (payer, amount) in asked {
        by_root.entry(&payer.root).or_default().push((payer, amount));
    }
    let sum = |of: &[(&Payer, u64)]| of.iter().fold(0, |sum: u64, (_, amount)| sum.saturating_add(*amount));
    let of_root = level(bound, by_root.values().map(|of| sum(of)).collect());
    let mut shares = BTreeMap::new();
    for of in by_root.values().filter(|of| sum(of) > of_root) {
        let each = level(of_root, of.iter().map(|(_, amount)| *amount).collect());
        shares.extend(of.iter().filter(|(_, amount)| *amount > each).map(|(payer, _)| ((*payer).clone(), each)));
    }
    shares
}

/// What each may have at most so that all together have no more than `bound`. Who asks for less leaves the rest to others,
/// so nobody goes without who asks for no more than an equal share.
fn level(bound: u64, mut asked: Vec<u64>) -> u64 {
    asked.sort_unstable();
    let mut left = bound;
    for (amount, others) in asked.iter().zip((1..=asked.len() as u64).rev()) {
        let equal = left / others;
        if *amount > equal {
            return equal;
        }
        left -= amount;
    }
    u64::MAX
}

/// Longest prefix that tells requests apart, in bytes.
const LONGEST: usize = 64;

/// What single requests meet of costs that each fall on the paths with a prefix: a request meets those of all prefixes of
/// its path, and no others.
#[derive(Default)]
pub(super) struct Met {
    /// By prefix: what falls on it itself, and the most that falls on one path further on.
    by_prefix: HashMap<Box<[u8]>, (u64, u64)>,
}

impl Met {
    pub(super) fn add(&mut self, prefix: &str, cost: u64) {
        let prefix = shortened(prefix);
        let (own, further) = self.by_prefix.entry(prefix.into()).or_default();
        *own = own.saturating_add(cost);
        let mut most = own.saturating_add(*further);
        for end in (0..prefix.len()).rev() {
            let (own, further) = self.by_prefix.entry(prefix[..end].into()).or_default();
            *further = (*further).max(most);
            most = own.saturating_add(*further);
        }
    }

    /// The most that one request meets.
    pub(super) fn most(&self) -> u64 {
        self.by_prefix.get(&[][..]).map_or(0, |(own, further)| own.saturating_add(*further))
    }

    /// The most that one request meets whose path begins with `prefix`.
    pub(super) fn below(&self, prefix: &str) -> u64 {
        let prefix = shortened(prefix);
        let of = |end: usize| self.by_prefix.get(&prefix[..end]).copied().unwrap_or_default();
        let own = (0..=prefix.len()).fold(0, |sum: u64, end| sum.saturating_add(of(end).0));
        own.saturating_add(of(prefix.len()).1)
    }
}

fn shortened(prefix: &str) -> &[u8] {
    &prefix.as_bytes()[..prefix.len().min(LONGEST)]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn payer(root: &str, own: &str) -> Payer {
        Payer { root: root.into(), own: own.into() }
    }

    fn shared(bound: u64, asked: &[((&str, &str), u64)]) -> Vec<((String, String), u64)> {
        let asked: Vec<_> = asked.iter().map(|((root, own), amount)| (payer(root, own), *amount)).collect();
        let shares = shares(bound, asked.iter().map(|(payer, amount)| (payer, *amount)));
        shares.into_iter().map(|(payer, share)| ((payer.root.to_string(), payer.own.to_string()), share)).collect()
    }

    fn of(root: &str, own: &str, share: u64) -> ((String, String), u64) {
        ((root.into(), own.into()), share)
    }

    #[test]
    fn who_asks_for_too_much_gets_what_the_others_leave() {
        assert_eq!(shared(100, &[(("a", "a"), 60), (("b", "b"), 40)]), []);
        assert_eq!(shared(100, &[(("a", "a"), 1000), (("b", "b"), 40)]), [of("a", "a", 60)]);
        assert_eq!(shared(100, &[(("a", "a"), 1000), (("b", "b"), 900)]), [of("a", "a", 50), of("b", "b", 50)]);
    }

    #[test]
    fn who_publishes_the_routes_of_others_pays_for_it() {
        // Routes of `v` below a root of `a` cost `a`, and not `v`, whose own stay.
        let asked = [(("a", "v"), 1000), (("a", "a"), 20), (("v", "v"), 50)];
        assert_eq!(shared(100, &asked), [of("a", "v", 30)]);
        // Of a common root's children the one that asks for too much goes without.
        assert_eq!(shared(100, &[(("p", "a"), 1000), (("p", "b"), 30), (("p", "c"), 30)]), [of("p", "a", 40)]);
    }

    #[test]
    fn a_request_meets_the_prefixes_of_its_path() {
        let mut met = Met::default();
        assert_eq!((met.most(), met.below("/a")), (0, 0));
        for (prefix, cost) in [("", 1), ("/a", 10), ("/a/b", 100), ("/a/c", 200), ("/b", 5)] {
            met.add(prefix, cost);
        }
        assert_eq!(met.most(), 211);
        assert_eq!((met.below("/a/b"), met.below("/a/bc"), met.below("/b"), met.below("/c")), (111, 111, 6, 1));
        assert_eq!((met.below("/a"), met.below("/")), (211, 211));
    }

    proptest! {
        #[test]
        fn no_more_is_given_than_there_is_and_small_shares_are_whole(
            asked in proptest::collection::btree_map(("[a-d]", "[a-d]"), 0_u64..200, 0..10),
        ) {
            let asked: Vec<_> = asked.iter().map(|((root, own), amount)| (payer(root, own), *amount)).collect();
            let shares = shares(300, asked.iter().map(|(payer, amount)| (payer, *amount)));
            let given: u64 = asked.iter().map(|(payer, amount)| shares.get(payer).copied().unwrap_or(*amount)).sum();
            prop_assert!(given <= 300 || shares.is_empty() && asked.iter().map(|(_, amount)| amount).sum::<u64>() <= 300);
            let roots = asked.iter().map(|(payer, _)| &payer.root).collect::<std::collections::BTreeSet<_>>().len() as u64;
            for (payer, _) in &asked {
                let of_root: u64 = asked.iter().filter(|(other, _)| other.root == payer.root).map(|(_, amount)| amount).sum();
                prop_assert!(of_root > 300 / roots || !shares.contains_key(payer));
            }
        }

        #[test]
        fn what_a_request_meets_is_the_sum_over_the_prefixes_of_its_path(
            costs in proptest::collection::vec(("[ab]{0,4}", 0_u64..10), 0..20), paths in proptest::collection::vec("[ab]{0,6}", 20),
        ) {
            let mut met = Met::default();
            for (prefix, cost) in &costs {
                met.add(prefix, *cost);
            }
            for path in &paths {
                let sum: u64 = costs.iter().filter(|(prefix, _)| path.starts_with(prefix)).map(|(_, cost)| cost).sum();
                prop_assert!(sum <= met.most() && sum <= met.below(path));
            }
        }
    }
}
