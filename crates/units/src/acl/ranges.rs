//! Which range an address counts to: the narrowest that it lies in.

use std::collections::BTreeMap;

use validate::cidr::Cidr;

/// Ranges with what becomes of the addresses in them, as a list to look through: an address counts to the first entry that
/// has it.
///
/// Ranges that lie in no other one come last, those that lie in one of these before them, and so on. Of ranges that lie
/// equally deep none has an address of another, so that those with the same outcome are one entry. What says no more than
/// the range around it is left out. `otherwise` is what becomes of addresses in none.
pub(super) fn in_order<T: Clone + PartialEq>(ranges: &BTreeMap<Cidr, T>, otherwise: &T) -> Vec<(T, Vec<Cidr>)> {
    // The ranges around the one that is looked at, from the outside. Sorted, each comes behind those around it.
    let mut around: Vec<(Cidr, &T)> = Vec::new();
    let mut by_depth: Vec<Vec<(T, Vec<Cidr>)>> = Vec::new();
    for (range, outcome) in ranges {
        while around.pop_if(|(outer, _)| !outer.covers(*range)).is_some() {}
        // Envoy holds no IPv4 address against a range of IPv6, so that one says nothing for them.
        let is_apart = *range == Cidr::V4 && !around.is_empty();
        if !is_apart && around.last().map_or(otherwise, |(_, outcome)| outcome) == outcome {
            continue;
        }
        let depth = around.len();
        if by_depth.len() == depth {
            by_depth.push(Vec::new());
        }
        match by_depth[depth].iter_mut().find(|(other, _)| other == outcome) {
            Some((_, alike)) => alike.push(*range),
            None => by_depth[depth].push((outcome.clone(), vec![*range])),
        }
        around.push((*range, outcome));
    }
    by_depth.into_iter().rev().flatten().collect()
}

#[cfg(test)]
mod tests {
    use proptest::{collection::btree_map, prelude::*, sample::select};
    use validate::cidr;

    use super::*;

    fn range(text: &str) -> Cidr {
        cidr::parse(text).expect("a range")
    }

    fn list(ranges: &[(&str, char)], otherwise: char) -> Vec<(char, Vec<String>)> {
        let ranges = ranges.iter().map(|(text, outcome)| (range(text), *outcome)).collect();
        let text = |(outcome, ranges): (char, Vec<Cidr>)| (outcome, ranges.iter().map(Cidr::to_string).collect());
        in_order(&ranges, &otherwise).into_iter().map(text).collect()
    }

    #[test]
    fn narrower_ranges_come_first_and_those_that_say_the_same_are_one() {
        let holes = [("10.0.0.0/8", 'd'), ("10.1.0.0/16", 'a'), ("10.1.2.3", 'e'), ("192.168.0.0/16", 'd')];
        let expected = [
            ('e', vec!["10.1.2.3/32".to_owned()]),
            ('a', vec!["10.1.0.0/16".to_owned()]),
            ('d', vec!["10.0.0.0/8".to_owned(), "192.168.0.0/16".to_owned()]),
        ];
        assert_eq!(list(&holes, 'a'), expected);
    }

    #[test]
    fn what_says_no_more_than_what_is_around_it_is_left_out() {
        let ranges = [("10.0.0.0/8", 'a'), ("10.1.0.0/16", 'd'), ("10.1.1.0/24", 'd'), ("10.1.1.1", 'a')];
        let expected = [('a', vec!["10.1.1.1/32".to_owned()]), ('d', vec!["10.1.0.0/16".to_owned()])];
        assert_eq!(list(&ranges, 'a'), expected);
        assert!(list(&[], 'a').is_empty());
    }

    #[test]
    fn ranges_of_ipv6_say_nothing_of_ipv4() {
        let both = [("::/0", 'd'), ("0.0.0.0/0", 'd')];
        let expected = [('d', vec!["0.0.0.0/0".to_owned()]), ('d', vec!["::/0".to_owned()])];
        assert_eq!(list(&both, 'a'), expected);
    }

    proptest! {
        #[test]
        fn the_first_entry_that_has_an_address_says_what_the_narrowest_range_says(
            ranges in btree_map(
                (0..8_u8, 0..=8_u8, any::<bool>()).prop_map(|(bits, length, v4)| {
                    let kept = u16::from(bits) << 5 & (0xff00_u16 >> length & 0xff);
                    range(&if v4 { format!("{kept}.0.0.0/{length}") } else { format!("{:x}::/{length}", kept << 8) })
                }),
                select(&['a', 'b', 'c'][..]),
                0..12,
            ),
            address in any::<u8>(),
            v4 in any::<bool>(),
        ) {
            let address = range(&if v4 { format!("{address}.0.0.0") } else { format!("{:x}::", u16::from(address) << 8) });
            let mut ranges = ranges;
            ranges.entry(Cidr::V4).or_insert('a');
            // Envoy holds an IPv4 address against IPv4 ranges alone.
            let holds = |range: &Cidr| range.covers(address) && (!v4 || range.is_v4());
            let narrowest = ranges.iter().rfind(|(range, _)| holds(range)).map_or('a', |(_, outcome)| *outcome);
            let ordered = in_order(&ranges, &'a');
            let first = ordered.iter().find(|(_, ranges)| ranges.iter().any(holds));
            prop_assert_eq!(first.map_or('a', |(outcome, _)| *outcome), narrowest);
        }
    }
}
