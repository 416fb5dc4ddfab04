//! What several levels say of one unit, merged.
//!
//! The fold goes from the rule upwards, the nearest first. Where a level and what is below it both say the unit, the word of
//! the level's owner decides who is preferred, and whether the preferred side holds as a whole or both are merged deeply. So
//! of those that prefer themselves the topmost wins.
//!
//! A unit that is broken takes part like any other: what holds in its place makes it harmless, and what would be merged with
//! it is as broken.

use std::sync::Arc;

use api::ObjectId;
use ir::{Problem, delegation::Priority};
use units::AnyUnit;

use super::level::{Level, Supplied, UnitKey};
use crate::tables::policy::{Lost, Override, Why, Winner, Word};

/// What all levels come to for one unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Merged {
    /// What holds, or why nobody knows what.
    pub(crate) unit: Result<AnyUnit, Broken>,
    /// The policies that supply it, the nearest first: one, or those that are merged deeply.
    pub(crate) from: Vec<ObjectId>,
    /// Those that say it too and are not heard.
    pub(crate) overridden: Vec<Lost>,
    /// The levels above that decided otherwise than is the default.
    pub(crate) words: Vec<Word>,
}

impl Merged {
    /// The unit's field.
    pub(crate) fn field(&self) -> &'static str {
        self.unit.as_ref().map_or_else(|broken| broken.field, AnyUnit::field)
    }

    /// Whether it is this field, in slots of the filter chain.
    pub(crate) fn is_slot(&self, field: &str) -> bool {
        self.unit.as_ref().is_ok_and(|unit| unit.is_in_slots() && unit.field() == field)
    }
}

/// A unit that cannot be served, and holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Broken {
    /// The policy.
    pub(crate) policy: ObjectId,
    /// The unit's field.
    pub(crate) field: &'static str,
    /// The place of its level; 0 is the rule's own.
    pub(crate) level: usize,
    /// What is wrong with it.
    pub(crate) problem: Problem,
}

/// What levels come to for each unit that any of them says, in the order of units.
pub(super) fn all_merged<'a>(levels: impl Iterator<Item = &'a Level> + Clone) -> impl Iterator<Item = Merged> {
    let mut keys: Vec<_> = levels.clone().flat_map(|level| &level.units).map(Supplied::key).collect();
    keys.sort_unstable();
    keys.dedup();
    keys.into_iter().filter_map(move |key| merge(levels.clone(), key))
}

/// What units that say something come to at a Gateway, or at a listener below it. Where one of them is broken, or more than can
/// be served, the listener answers 500.
pub(super) fn heard<'a>(levels: impl Iterator<Item = &'a Level> + Clone) -> impl Iterator<Item = Merged> {
    all_merged(levels).filter(|merged| merged.unit.is_ok())
}

/// What `levels`, the nearest first, come to for a unit; none where none of them says it.
fn merge<'a>(levels: impl Iterator<Item = &'a Level>, key: UnitKey) -> Option<Merged> {
    let mut merged: Option<Merged> = None;
    for (place, level) in levels.enumerate() {
        let Some(above) = of_level(level, place, key) else { continue };
        merged = Some(match merged {
            None => above,
            Some(below) => join(&below, &above, level, place),
        });
    }
    let mut merged = merged?;
    // One policy may stand at several levels.
    let Merged { from, overridden, .. } = &mut merged;
    distinct(from);
    overridden.retain(|lost| !from.contains(&lost.policy));
    let mut seen = Vec::new();
    overridden.retain(|lost| {
        let is_new = !seen.contains(&lost.policy);
        seen.push(lost.policy.clone());
        is_new
    });
    Some(merged)
}

/// Within a level the first holds as a whole, with those that add to it.
fn of_level(level: &Level, place: usize, key: UnitKey) -> Option<Merged> {
    let mut saying = level.units.iter().filter(|supplied| supplied.key() == key);
    let first = saying.next()?;
    let broken = |problem| Broken { policy: first.policy.clone(), field: first.parsed.field, level: place, problem };
    let lost = |other: &Supplied| {
        let to = to(&first.policy, first.goes_before(other));
        Lost { policy: other.policy.clone(), to: Some(to) }
    };
    Some(Merged {
        unit: first.parsed.unit.clone().map_err(broken),
        from: std::iter::once(&first.policy).chain(&first.with).cloned().collect(),
        overridden: saying.map(lost).collect(),
        words: Vec::new(),
    })
}

fn join(below: &Merged, above: &Merged, level: &Level, place: usize) -> Merged {
    let Priority { deep, prefers_parent } = level.priority;
    let (preferred, other) = if prefers_parent { (above, below) } else { (below, above) };
    let joined = if deep { over(&preferred.unit, &other.unit) } else { None };
    let mut words = below.words.clone();
    let word = Word { owner: level.owner.clone(), priority: level.priority };
    // Where the lower side holds as a whole, that is so by default.
    let decides = joined.is_some() || prefers_parent;
    let why = if decides { Why::Annotation(word.clone()) } else { Why::Nearer };
    if decides && !words.contains(&word) {
        words.push(word);
    }
    let Some(unit) = joined else {
        // Whoever lost to one that loses here loses to the same.
        let winner = preferred.from.first().map(|winner| to(winner, why));
        // Of several levels that lose to one policy each has the same copy of it.
        let mut known = below.overridden.iter().filter_map(|lost| lost.to.as_ref());
        let winner = known.find(|known| Some(*known) == winner.as_ref()).cloned().or(winner);
        let to = |policy: &ObjectId| Lost { policy: policy.clone(), to: winner.clone() };
        let again = |one: &Lost, is_preferred: bool| if is_preferred { one.clone() } else { to(&one.policy) };
        let of_below = below.overridden.iter().map(|one| again(one, !prefers_parent));
        let of_above = above.overridden.iter().map(|one| again(one, prefers_parent));
        let overridden = other.from.iter().map(to).chain(of_below).chain(of_above).collect();
        return Merged { unit: preferred.unit.clone(), from: preferred.from.clone(), overridden, words };
    };
    Merged {
        unit: unit.and_then(|unit| served(unit, preferred, place)),
        from: below.from.iter().chain(&above.from).cloned().collect(),
        overridden: below.overridden.iter().chain(&above.overridden).cloned().collect(),
        words,
    }
}

/// What holds in the place of policies, where that is this one.
fn to(winner: &ObjectId, why: Why) -> Arc<Override> {
    Arc::new(Override { by: Winner::Policy(winner.clone()), why: Some(why) })
}

/// What has come together, or why that is more than can be served.
fn served(unit: AnyUnit, preferred: &Merged, level: usize) -> Result<AnyUnit, Broken> {
    let Some((problem, policy)) = unit.excess().zip(preferred.from.first()) else { return Ok(unit) };
    Err(Broken { policy: policy.clone(), field: unit.field(), level, problem })
}

/// What becomes of both; none where the preferred one holds as a whole.
fn over(preferred: &Result<AnyUnit, Broken>, other: &Result<AnyUnit, Broken>) -> Option<Result<AnyUnit, Broken>> {
    match (preferred, other) {
        (Ok(preferred), Ok(other)) => preferred.over(other).map(Ok),
        // What stands alone, even over itself, has nothing of the broken one.
        (Ok(preferred), Err(broken)) => preferred.over(preferred).map(|_| Err(broken.clone())),
        (Err(_), _) => None,
    }
}

/// Leaves each of them once.
pub(super) fn distinct(policies: &mut Vec<ObjectId>) {
    let mut at = 0;
    while at < policies.len() {
        if policies[..at].contains(&policies[at]) {
            policies.remove(at);
        } else {
            at += 1;
        }
    }
}
