//! What single requests meet of what many expressions cost.

use std::collections::HashMap;

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
