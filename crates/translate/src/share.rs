//! Sharing a bound fairly: whoever asks for no more than an equal share has it, whatever others ask for (max-min
//! fairness).

use std::{collections::BTreeMap, sync::Arc};

use ir::Chain;

/// Who asks for something: first the namespace of the root route, which decides where a tree stands, then the namespace
/// of the route itself. Who publishes the routes of others does so at the cost of his own share.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Payer {
    pub(crate) root: Arc<str>,
    pub(crate) own: Arc<str>,
}

impl Payer {
    /// Who asks for what a route has where it stands.
    pub(crate) fn of(chain: &Chain) -> Self {
        Self { root: chain.top().namespace().clone(), own: chain.route().namespace().clone() }
    }
}

/// What those get who ask for more than that; the others get what they ask for.
///
/// The bound is shared out among the namespaces of roots, and what each of them gets among the namespaces of routes below
/// these. Each payer is named once.
pub(crate) fn shares<'a>(bound: u64, asked: impl IntoIterator<Item = (&'a Payer, u64)>) -> BTreeMap<Payer, u64> {
    let mut by_root: BTreeMap<&Arc<str>, Vec<(&Payer, u64)>> = BTreeMap::new();
    for (payer, amount) in asked {
        by_root.entry(&payer.root).or_default().push((payer, amount));
    }
    let sum = |of: &[(&Payer, u64)]| of.iter().fold(0, |sum: u64, (_, amount)| sum.saturating_add(*amount));
    let of_root = level(bound, by_root.values().map(|of| sum(of)));
    let mut shares = BTreeMap::new();
    for of in by_root.values().filter(|of| sum(of) > of_root) {
        let each = level(of_root, of.iter().map(|(_, amount)| *amount));
        shares.extend(of.iter().filter(|(_, amount)| *amount > each).map(|(payer, _)| ((*payer).clone(), each)));
    }
    shares
}

/// What each may have at most so that all together have no more than `bound`; [`u64::MAX`] where all have what they ask
/// for.
///
/// It is never less than an equal share, and what those leave who ask for less is shared out among the others. Only a
/// remainder that cannot be divided among these is given to nobody. Who asks for more raises the level of no one.
pub fn level(bound: u64, asked: impl IntoIterator<Item = u64>) -> u64 {
    let mut asked: Vec<u64> = asked.into_iter().collect();
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::{collection::vec, prelude::*};

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

    proptest! {
        #[test]
        fn no_more_is_given_than_there_is_and_only_a_remainder_is_kept(
            asked in vec(0_u64..200, 1..20), bound in 0_u64..2_000,
        ) {
            let level = level(bound, asked.iter().copied());
            let given: u64 = asked.iter().map(|amount| level.min(*amount)).sum();
            let over = asked.iter().filter(|amount| **amount > level).count() as u64;
            prop_assert!(given <= bound);
            prop_assert!(over == 0 || bound - given < over);
            prop_assert_eq!(over == 0, asked.iter().sum::<u64>() <= bound);
        }

        #[test]
        fn an_equal_share_is_had_whatever_others_ask_for(
            asked in vec(any::<u64>(), 1..20), bound in any::<u64>(),
        ) {
            prop_assert!(level(bound, asked.iter().copied()) >= bound / asked.len() as u64);
        }

        #[test]
        fn who_asks_for_more_raises_the_level_of_no_one(
            asked in vec(0_u64..200, 1..20), more in vec(0_u64..200, 20), bound in 0_u64..2_000,
        ) {
            let grown = asked.iter().zip(more).map(|(amount, more)| amount + more);
            prop_assert!(level(bound, grown) <= level(bound, asked.iter().copied()));
        }

        #[test]
        fn payers_together_get_no_more_than_there_is_and_small_shares_are_whole(
            asked in proptest::collection::btree_map(("[a-d]", "[a-d]"), 0_u64..200, 0..10),
        ) {
            let asked: Vec<_> = asked.iter().map(|((root, own), amount)| (payer(root, own), *amount)).collect();
            let shares = shares(300, asked.iter().map(|(payer, amount)| (payer, *amount)));
            let given: u64 = asked.iter().map(|(payer, amount)| shares.get(payer).copied().unwrap_or(*amount)).sum();
            prop_assert!(given <= 300);
            let roots = asked.iter().map(|(payer, _)| &payer.root).collect::<BTreeSet<_>>().len() as u64;
            for (payer, amount) in &asked {
                prop_assert!(shares.get(payer).is_none_or(|share| share < amount));
                let of_root = asked.iter().filter(|(other, _)| other.root == payer.root);
                let of_root: u64 = of_root.map(|(_, amount)| amount).sum();
                prop_assert!(of_root > 300 / roots || !shares.contains_key(payer));
            }
        }
    }
}
