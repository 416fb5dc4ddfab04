//! The generated worlds, as the oracle sees them.

use std::collections::BTreeSet;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use super::*;
use crate::oracle::Taken;
use crate::oracle::matching::Path;
use crate::oracle::worlds::{Asked, Kind, fixtures, worlds};

/// What is taken in some worlds, with its oracle.
fn each_taken(mut see: impl FnMut(&Oracle, &Asked, &Taken)) {
    let (strategy, mut runner) = (worlds(Kind::Trees), TestRunner::deterministic());
    for _ in 0..150 {
        let world = strategy.new_tree(&mut runner).expect("a world").current();
        let all: Vec<Value> = fixtures().into_iter().chain(world.manifests).collect();
        let oracle = Oracle::read(&all, &Settings::default()).expect("a world that the oracle knows");
        for asked in &world.requests {
            if let Outcome::Route(taken) = oracle.ask(asked.gateway, asked.port, &asked.request) {
                see(&oracle, asked, &taken);
            }
        }
    }
}

#[test]
fn every_outcome_happens_at_several_depths() {
    let mut reasons = BTreeSet::new();
    let mut answers = BTreeSet::new();
    each_taken(|_, _, taken| {
        // Whatever stands between the match and a list of objects.
        let reason = taken.why.split(": ").nth(1).unwrap_or_default().split(" by ").next().unwrap_or_default();
        reasons.insert((reason.to_owned(), taken.chain.len()));
        answers.insert((
            format!("{:?}", taken.answer).split(' ').next().unwrap_or_default().to_owned(),
            taken.chain.len(),
        ));
    });
    for reason in [
        "its rule",
        "its filter redirects",
        "no backend of the rule can be used",
        "the rule mixes children and backends, or filters its children",
        "nobody is selected",
        "children cannot lie below a match that is not a prefix",
        "no child serves, and one has a fault",
        "no match of a child lies inside",
    ] {
        let depths: Vec<_> = reasons.iter().filter(|(known, _)| known == reason).map(|(_, depth)| *depth).collect();
        assert!(depths.len() >= 3, "{reason:?} at depths {depths:?} only, of {reasons:?}");
    }
    for reason in ["no child is left", "the child sets hostnames"] {
        assert!(reasons.iter().any(|(known, _)| known == reason), "{reason:?} is missing in {reasons:?}");
    }
    for depth in 1..=5 {
        assert!(answers.contains(&("Backends".to_owned(), depth)), "no backend at depth {depth}: {answers:?}");
    }
}

#[test]
fn nothing_is_taken_that_a_match_of_the_chain_does_not_cover() {
    let mut checked = 0;
    each_taken(|oracle, asked, taken| {
        let route = |step: &Step| {
            let mut routes = oracle.world.routes.iter();
            routes.find(|route| route.name == step.route).expect("a route")
        };
        let written = |step: &Step| &route(step).rules[step.rule].matches[step.matching];
        for (index, step) in taken.chain.iter().enumerate() {
            // What inherits is written below its parent's path, a parent may overrule its conditions, and a path that is
            // joined to a regular expression leads on where that ends.
            let inherits = taken.chain[1..].iter().take(index).any(|step| route(step).inherits);
            if !inherits && !matches!(written(step).path, Path::Regex(_)) {
                checked += usize::from(index > 0);
                assert!(written(step).takes(&asked.request), "{asked}: {}", Outcome::Route(taken.clone()));
            }
        }
    });
    assert!(checked > 200, "only {checked} steps below a root were checked");
}
