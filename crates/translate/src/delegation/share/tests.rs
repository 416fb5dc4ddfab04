use ir::RouteId;
use proptest::{collection::vec, prelude::*};

use super::*;

/// A claim, as it is written: the namespace, the place of the claim that it stands below (taken modulo those before it; the
/// first three stand at the top), and how much.
type Written = (u8, u16, u64);

fn claims(written: &[Written]) -> Vec<(Chain, Claim)> {
    let root = Chain::root(RouteId::http("platform", "root"));
    let mut claims: Vec<(Chain, Claim)> = Vec::new();
    for (place, (namespace, above, count)) in written.iter().enumerate() {
        let above = match place {
            0..3 => &root,
            _ => claims.get(usize::from(*above) % (2 * place)).map_or(&root, |(chain, _)| chain),
        };
        let chain = above.below(0, RouteId::http(format!("team-{namespace}"), format!("route-{place}")));
        claims.push((chain, Claim { count: *count, created: 0 }));
    }
    claims
}

fn shared(bound: u64, claims: &[(Chain, Claim)]) -> BTreeMap<&Chain, Without> {
    let list: Vec<_> = claims.iter().map(|(chain, claim)| (chain, *claim)).collect();
    list.iter().map(|(chain, _)| *chain).zip(without(bound, &list, |_| false)).collect()
}

/// Of each namespace right below the root, what is claimed there and below.
fn by_first_hop(claims: &[(Chain, Claim)]) -> BTreeMap<&str, u64> {
    let mut sums = BTreeMap::new();
    for (chain, claim) in claims {
        *sums.entry(first_hop(chain)).or_default() += claim.count;
    }
    sums
}

fn first_hop(chain: &Chain) -> &str {
    chain.upwards().find(|chain| chain.depth() == 1).expect("it stands below the root").route().namespace()
}

proptest! {
    #[test]
    fn what_is_served_never_exceeds_the_bound(
        written in vec((0..4_u8, any::<u16>(), 0..40_u64), 1..60), bound in 0..600_u64,
    ) {
        let claims = claims(&written);
        let outcome = shared(bound, &claims);
        let served = claims.iter().filter(|(chain, _)| outcome[chain] == Without::Nothing);
        prop_assert!(served.map(|(_, claim)| claim.count).sum::<u64>() <= bound);
        if claims.iter().map(|(_, claim)| claim.count).sum::<u64>() <= bound {
            prop_assert!(outcome.values().all(|without| *without == Without::Nothing));
        }
    }

    #[test]
    fn a_namespace_that_asks_for_no_more_than_an_equal_share_has_it_whatever_others_ask_for(
        written in vec((0..4_u8, any::<u16>(), 0..40_u64), 1..60), bound in 0..600_u64, factor in 1..1000_u64,
    ) {
        let mut claims = claims(&written);
        let sums = by_first_hop(&claims);
        let (count, within) = (sums.len() as u64, |sum: u64| sum <= bound / sums.len() as u64);
        let modest: Vec<String> = sums.iter().filter(|(_, sum)| within(**sum)).map(|(name, _)| (*name).into()).collect();
        prop_assert!(count > 0);
        let is_modest = |chain: &Chain| modest.iter().any(|name| name == first_hop(chain));
        // Everybody else asks for more.
        for (chain, claim) in &mut claims {
            if !is_modest(chain) {
                claim.count *= factor;
            }
        }
        for (chain, without) in shared(bound, &claims) {
            prop_assert!(!is_modest(chain) || without == Without::Nothing, "{chain} goes without");
        }
    }

    #[test]
    fn the_order_of_claims_decides_nothing(
        written in vec((0..4_u8, any::<u16>(), 0..40_u64), 1..60), bound in 0..600_u64, seed in any::<u64>(),
    ) {
        let claims = claims(&written);
        let mut shuffled = claims.clone();
        // Those above still come first.
        shuffled.sort_by_key(|(chain, _)| (chain.depth(), *blake3::hash(format!("{seed}{chain}").as_bytes()).as_bytes()));
        prop_assert_eq!(shared(bound, &claims), shared(bound, &shuffled));
    }

    #[test]
    fn of_children_in_one_namespace_those_with_an_equal_share_or_less_have_it(
        counts in vec(0..100_u64, 1..30), bound in 0..1000_u64,
    ) {
        let written: Vec<Written> = counts.iter().map(|count| (0, u16::MAX, *count)).collect();
        let root = Chain::root(RouteId::http("platform", "root"));
        let claims: Vec<_> = claims(&written)
            .into_iter()
            .map(|(chain, claim)| (root.below(0, chain.route().clone()), claim))
            .collect();
        let outcome = shared(bound, &claims);
        for (chain, claim) in &claims {
            if claim.count <= bound / claims.len() as u64 {
                prop_assert_eq!(outcome[chain], Without::Nothing);
            }
        }
    }
}

#[test]
fn of_equals_the_oldest_are_served() {
    let root = Chain::root(RouteId::http("platform", "root"));
    let claim =
        |at: i64| (root.below(0, RouteId::http("cart", format!("c{}", 9 - at))), Claim { count: 3, created: at });
    let claims: Vec<_> = (0..5).map(claim).collect();
    let outcome = shared(10, &claims);
    let served: Vec<_> = claims.iter().map(|(chain, _)| outcome[chain] == Without::Nothing).collect();
    assert_eq!(served, [true, true, true, false, false]);
}

#[test]
fn what_stands_deeper_has_its_share_beside_what_stands_at_the_top() {
    let root = Chain::root(RouteId::http("platform", "root"));
    let orders = root.below(0, RouteId::http("orders", "orders"));
    let returns = orders.below(0, RouteId::http("returns", "returns"));
    let at = |chain: &Chain, count| (chain.clone(), Claim { count, created: 0 });
    let cart = |at: usize| root.below(0, RouteId::http("cart", format!("c{at}")));
    let mut claims = vec![at(&orders, 1)];
    claims.extend((0..78).map(|index| at(&cart(index), 128)));
    claims.push(at(&returns, 20));
    let outcome = shared(10_000, &claims);
    assert_eq!((outcome[&orders], outcome[&returns]), (Without::Nothing, Without::Nothing));
    assert_eq!(outcome.values().filter(|without| **without == Without::Exceeds).count(), 1);
}

#[test]
fn a_route_that_delegates_keeps_its_own_where_those_below_it_ask_for_too_much() {
    let root = Chain::root(RouteId::http("platform", "root"));
    let orders = root.below(0, RouteId::http("orders", "orders"));
    let returns = orders.below(0, RouteId::http("returns", "returns"));
    let own = orders.below(1, RouteId::http("orders", "own"));
    let at = |chain: &Chain, count| (chain.clone(), Claim { count, created: 0 });
    let claims = [at(&orders, 2), at(&own, 4), at(&returns, 1_000)];
    let outcome = shared(100, &claims);
    assert_eq!((outcome[&orders], outcome[&own]), (Without::Nothing, Without::Nothing));
    assert_eq!(outcome[&returns], Without::Exceeds);
}
