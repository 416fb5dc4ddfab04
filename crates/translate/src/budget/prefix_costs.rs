//! What single requests meet of what many expressions cost.

/// Longest prefix that tells requests apart, in bytes.
const LONGEST: usize = 64;

/// What single requests meet of costs that each fall on the paths with a prefix: a request meets those of all prefixes of
/// its path, and no others.
///
/// It is made for prefixes that are known before any cost is. To add a cost, or to ask for what is met below a prefix, takes
/// a search and a step for each known prefix of that prefix.
pub(super) struct PrefixCosts<'a> {
    /// By prefix, sorted.
    nodes: Vec<Node<'a>>,
    most: u64,
}

/// A prefix among the others.
struct Node<'a> {
    prefix: &'a [u8],
    /// The longest that it begins with.
    above: Option<usize>,
    /// What falls on it itself.
    own: u64,
    /// The most that falls on one path further on.
    further: u64,
}

impl Node<'_> {
    fn below(&self) -> u64 {
        self.own.saturating_add(self.further)
    }
}

impl<'a> PrefixCosts<'a> {
    /// Nothing yet, of costs with these prefixes.
    pub(super) fn among(prefixes: impl Iterator<Item = &'a str>) -> Self {
        let mut prefixes: Vec<_> = prefixes.map(shortened).collect();
        prefixes.sort_unstable();
        prefixes.dedup();
        let mut nodes: Vec<Node<'a>> = Vec::with_capacity(prefixes.len());
        let mut above = None;
        for prefix in prefixes {
            // What begins with another stands right behind it, or behind others that do.
            while let Some(at) = above.filter(|at: &usize| !prefix.starts_with(nodes[*at].prefix)) {
                above = nodes[at].above;
            }
            nodes.push(Node { prefix, above, own: 0, further: 0 });
            above = Some(nodes.len() - 1);
        }
        Self { nodes, most: 0 }
    }

    /// Adds a cost that falls on one of the prefixes.
    pub(super) fn add(&mut self, prefix: &str, cost: u64) {
        let Some(mut at) = self.find(prefix) else { return };
        self.nodes[at].own = self.nodes[at].own.saturating_add(cost);
        while let Some(above) = self.nodes[at].above {
            self.nodes[above].further = self.nodes[above].further.max(self.nodes[at].below());
            at = above;
        }
        self.most = self.most.max(self.nodes[at].below());
    }

    /// The most that one request meets.
    pub(super) fn most(&self) -> u64 {
        self.most
    }

    /// The most that one request meets whose path begins with one of the prefixes.
    pub(super) fn below(&self, prefix: &str) -> u64 {
        let first = self.find(prefix).map(|at| &self.nodes[at]);
        let above = std::iter::successors(first, |node| node.above.map(|at| &self.nodes[at]));
        above.fold(first.map_or(0, |node| node.further), |sum, node| sum.saturating_add(node.own))
    }

    fn find(&self, prefix: &str) -> Option<usize> {
        self.nodes.binary_search_by_key(&shortened(prefix), |node| node.prefix).ok()
    }
}

fn shortened(prefix: &str) -> &[u8] {
    &prefix.as_bytes()[..prefix.len().min(LONGEST)]
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    #[test]
    fn a_request_meets_the_prefixes_of_its_path() {
        let costs = [("", 1), ("/a", 10), ("/a/b", 100), ("/a/c", 200), ("/b", 5)];
        let asked = ["/a/bc", "/c", "/"];
        let mut met = PrefixCosts::among(costs.iter().map(|(prefix, _)| *prefix).chain(asked));
        assert_eq!((met.most(), met.below("/a")), (0, 0));
        for (prefix, cost) in costs {
            met.add(prefix, cost);
        }
        assert_eq!(met.most(), 211);
        assert_eq!((met.below("/a/b"), met.below("/a/bc"), met.below("/b"), met.below("/c")), (111, 111, 6, 1));
        assert_eq!((met.below("/a"), met.below("/")), (211, 211));
    }

    proptest! {
        #[test]
        fn what_a_request_meets_is_the_sum_over_the_prefixes_of_its_path(
            costs in vec(("[ab]{0,4}", 0_u64..10), 0..20), asked in vec("[ab]{0,6}", 20),
        ) {
            let prefixes = || costs.iter().map(|(prefix, _)| prefix);
            let mut met = PrefixCosts::among(prefixes().chain(&asked).map(String::as_str));
            for (prefix, cost) in &costs {
                met.add(prefix, *cost);
            }
            let meets = |path: &String| -> u64 {
                costs.iter().filter(|(prefix, _)| path.starts_with(prefix)).map(|(_, cost)| cost).sum()
            };
            prop_assert_eq!(met.most(), prefixes().map(meets).max().unwrap_or(0));
            for prefix in &asked {
                let below = prefixes().filter(|path| path.starts_with(prefix)).chain([prefix]);
                prop_assert_eq!(met.below(prefix), below.map(meets).max().unwrap_or(0));
            }
        }
    }
}
