//! Sorting that takes little code for each type.
//!
//! [`slice::sort_by`] is compiled anew for each type, and there are hundreds of tables and groups: it made a tenth of the code
//! of a program. Here the code of a type compares and swaps. What long lists need beyond that is shared by all types.

use std::cmp::Ordering;

/// Up to this length, sorting needs no memory.
const SHORT: usize = 16;

/// Sorts stably.
pub(crate) fn sort_by<T>(items: &mut [T], compare: impl Fn(&T, &T) -> Ordering) {
    // As items mostly are.
    if items.is_sorted_by(|a, b| compare(a, b).is_le()) {
        return;
    }
    if items.len() > SHORT {
        for (a, b) in swaps(items.len(), &|a, b| compare(&items[a], &items[b])) {
            items.swap(a, b);
        }
        return;
    }
    for end in 1..items.len() {
        let mut at = end;
        while at > 0 && compare(&items[at], &items[at - 1]).is_lt() {
            items.swap(at, at - 1);
            at -= 1;
        }
    }
}

/// Sorts numbers stably by what they stand for.
pub(crate) fn sort_numbers(numbers: &mut [u64], compare: &dyn Fn(u64, u64) -> Ordering) {
    if numbers.len() > 1 {
        numbers.sort_by(|a, b| compare(*a, *b));
    }
}

/// The swaps that bring so many items into order, which `compare` compares by their positions before the first swap.
fn swaps(len: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Vec<(usize, usize)> {
    let mut order: Vec<usize> = (0..len).collect();
    order.sort_by(|a, b| compare(*a, *b));
    // Where each item is after the swaps so far, and which item is at each position.
    let (mut position, mut item) = ((0..len).collect::<Vec<_>>(), (0..len).collect::<Vec<_>>());
    let mut swaps = Vec::new();
    for (to, wanted) in order.into_iter().enumerate() {
        let from = position[wanted];
        if from != to {
            swaps.push((to, from));
            item.swap(to, from);
            position[item[from]] = from;
        }
    }
    swaps
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn items_stand_as_a_stable_sort_has_them(keys in proptest::collection::vec(0_u8..20, 0..80)) {
            let mut items: Vec<_> = keys.into_iter().enumerate().collect();
            let mut expected = items.clone();
            expected.sort_by_key(|(_, key)| *key);
            sort_by(&mut items, |a, b| a.1.cmp(&b.1));
            prop_assert_eq!(items, expected);
        }
    }
}
