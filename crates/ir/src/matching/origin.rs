//! Which match of a route an Envoy route is made from.

use super::{Precedence, Step};

/// The match of a rule that an Envoy route is made from. Where the Envoy route stands among others tells it
/// ([`Precedence::origin`]), so it is written nowhere else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    /// The index of the rule in the route.
    pub rule: u32,
    /// The index of the match in the rule.
    pub matching: u32,
    /// Which of the Envoy routes of the match it is.
    pub part: Part,
}

/// Tells apart the Envoy routes that one match becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Part {
    /// Which of the matches of the parent it is joined with; zero where there is one at most.
    pub ordinal: u32,
    /// Which of the paths that the match means it has: less than two.
    pub path: u32,
    /// Whether it is for requests alone whose host names a port.
    pub host_with_port: bool,
}

/// How many paths a match means at most.
const PATHS: u32 = 2;

/// How many Envoy routes a match becomes at most below one match of its parent.
const PARTS: u32 = 2 * PATHS;

impl Part {
    /// Its number in names: zero for the first.
    pub fn number(self) -> u32 {
        self.path + PATHS * u32::from(self.host_with_port) + PARTS * self.ordinal
    }

    /// The place in which it is tried. What asks for a port goes before the other, which takes every host.
    pub fn order(self) -> u32 {
        2 * self.path + u32::from(!self.host_with_port) + PARTS * self.ordinal
    }

    fn at(order: u32) -> Self {
        Self { ordinal: order / PARTS, path: order % PARTS / 2, host_with_port: order.is_multiple_of(2) }
    }

    /// Whether it stands for the match: it takes every host, and the path as it is written.
    pub fn is_first(self) -> bool {
        self.path == 0 && !self.host_with_port
    }
}

impl Origin {
    /// Of the Envoy route that is tried at `steps`, among those of one match in the place `order` ([`Part::order`]); none
    /// where no match stands.
    pub fn of(steps: &[Step], order: u32) -> Option<Self> {
        // A route's own match is the last on the way to it.
        let at = steps.iter().rev().find_map(|step| match step {
            Step::At(at) | Step::Left(at) => Some(at),
            Step::Last => None,
        })?;
        Some(Self { rule: at.rule, matching: at.matching, part: Part::at(order) })
    }
}

impl Precedence {
    /// The match that the Envoy route is made from which stands here.
    pub fn origin(&self) -> Option<Origin> {
        Origin::of(&self.steps, self.part)
    }
}

#[cfg(test)]
mod tests {
    use std::{cmp::Reverse, collections::BTreeSet};

    use super::*;
    use crate::{
        chain::Chain,
        hostname::Hostname,
        id::{NsName, RouteId, RouteKind},
        matching::{Age, At, Within},
    };

    fn parts() -> Vec<Part> {
        let all = (0..3).flat_map(|ordinal| (0..PATHS).map(move |path| (ordinal, path)));
        let parts =
            all.flat_map(|(ordinal, path)| [true, false].map(|host_with_port| Part { ordinal, path, host_with_port }));
        parts.collect()
    }

    #[test]
    fn parts_have_numbers_and_places_of_their_own() {
        let numbers: BTreeSet<_> = parts().into_iter().map(Part::number).collect();
        assert_eq!(numbers.into_iter().collect::<Vec<_>>(), (0..12).collect::<Vec<_>>());
        assert!(parts().into_iter().map(Part::order).is_sorted(), "who asks for a port goes first");
        for part in parts() {
            assert_eq!(Part::at(part.order()), part);
            assert_eq!(part.is_first(), part.number().is_multiple_of(PARTS));
        }
    }

    #[test]
    fn a_place_tells_the_match_of_the_route_that_stands_there() {
        let age = Age { created: 0, name: NsName::new("ns", "r") };
        let at = |rule, matching| {
            let (weight, age, within) = (Reverse(0), age.clone(), Within::default());
            Step::At(At { specificity: None, gives_way: false, weight, position: 0, age, rule, matching, within })
        };
        for (steps, expected) in [
            (vec![at(1, 2)], Some((1, 2))),
            (vec![at(1, 2), at(3, 4)], Some((3, 4))),
            (vec![at(1, 2), at(3, 4), Step::Last], Some((3, 4))),
            (vec![], None),
        ] {
            let part = Part { ordinal: 5, path: 1, host_with_port: true };
            let via = Chain::root(RouteId::new(RouteKind::HttpRoute, age.name.clone()));
            let place = Precedence::new(Hostname::Any.precedence(), age.clone(), steps.into(), via, part.order());
            assert_eq!(place.origin(), expected.map(|(rule, matching)| Origin { rule, matching, part }));
        }
    }
}
