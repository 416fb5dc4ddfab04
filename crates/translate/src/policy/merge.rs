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
use units::SharedUnit;

use super::level::{Level, Supplied, UnitKey};
use crate::tables::policy::{Lost, Override, UnitOutcome, Verdict, Why, Winner, Word};

/// What all levels come to for one unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Merged {
    /// Which unit it is, among all.
    pub(super) key: UnitKey,
    /// What holds, or why nobody knows what.
    pub(crate) unit: Result<SharedUnit, Broken>,
    /// What becomes of it where it holds: the policies that supply it, the nearest first, are one, or those that are merged
    /// deeply.
    pub(crate) outcome: UnitOutcome,
}

impl Merged {
    /// The unit's field.
    pub(crate) fn field(&self) -> &'static str {
        self.outcome.field
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
    /// The place of its level; 0 is the rule's own.
    pub(crate) level: usize,
    /// What is wrong with it.
    pub(crate) problem: Problem,
}

/// What levels come to for each unit that any of them says, in the order of units. `levels` are the nearest first, each with
/// its place.
pub(super) fn all_merged<'a>(
    levels: impl Iterator<Item = (usize, &'a Level)> + Clone,
) -> impl Iterator<Item = Arc<Merged>> {
    let keys = keys(levels.clone().map(|(_, level)| level));
    merge_each(levels, keys.into_iter())
}

/// Whether of these levels the nearest always holds, each policy stands at one of them, and says its units alone there.
pub(super) fn are_plain<'a>(levels: impl Iterator<Item = &'a Level>) -> bool {
    let (mut policies, mut all) = (Vec::new(), true);
    for level in levels {
        all &= level.priority == Priority::default() && level.says_each_once();
        policies.extend(&level.policies);
    }
    let stand = policies.len();
    policies.sort_unstable();
    policies.dedup();
    all && policies.len() == stand
}

/// What a rule's own level, which says each unit once, comes to for each, in the order of units, above others that
/// [are plain](are_plain) and come to `handed_down`: what it says holds, over all that they say. This is what most rules have, and
/// takes no more time the more levels there are.
pub(super) fn over_all(own: &Level, handed_down: &[Arc<Merged>]) -> Vec<Arc<Merged>> {
    let mut said: Vec<_> = own.units.iter().collect();
    said.sort_unstable_by_key(|supplied| supplied.key());
    let above = |key| {
        let at = handed_down.binary_search_by_key(&key, |merged| merged.key).ok()?;
        Some(&handed_down[at].outcome.verdict)
    };
    // Whom a policy goes before is often the same for all that it says.
    let mut before: Option<Decided<'_>> = None;
    let merged = said.into_iter().map(|supplied| {
        let (policy, above) = (&supplied.policy, above(supplied.key()));
        let is_same =
            |known: &Decided<'_>| known.policy == policy && known.above.map(Arc::as_ptr) == above.map(Arc::as_ptr);
        let known = before.as_ref().filter(|known| is_same(known)).map(|known| known.verdict.clone());
        let verdict = known.unwrap_or_else(|| Arc::new(nearest(policy, above)));
        before = Some(Decided { policy, above, verdict: verdict.clone() });
        let unit = supplied.parsed.unit.clone().map_err(|problem| broken(supplied, 0, *problem));
        Arc::new(Merged { key: supplied.key(), unit, outcome: UnitOutcome { field: supplied.parsed.field, verdict } })
    });
    merged.collect()
}

/// Who is heard of a unit that a policy of the rule says, above others.
struct Decided<'a> {
    policy: &'a ObjectId,
    above: Option<&'a Arc<Verdict>>,
    verdict: Arc<Verdict>,
}

/// What holds where a policy goes before all those above, whose own levels are farther from the rule.
fn nearest(policy: &ObjectId, above: Option<&Arc<Verdict>>) -> Verdict {
    let others = above.into_iter().flat_map(|above| {
        let won = above.winners.iter().filter_map(|winner| match winner {
            Winner::Policy(other) => Some(other),
            Winner::Rule(_) | Winner::Keeper(_) => None,
        });
        above.overridden.iter().map(|lost| &lost.policy).chain(won)
    });
    let mut to = None;
    // One policy may stand at several levels.
    let overridden = others.filter(|other| *other != policy).map(|other| {
        let to = to.get_or_insert_with(|| self::to(policy, Why::Nearer)).clone();
        Lost { policy: other.clone(), to: Some(to) }
    });
    Verdict {
        overridden: overridden.collect(),
        winners: [Winner::Policy(policy.clone())].into(),
        words: Box::default(),
    }
}

/// What levels come to for these units.
pub(super) fn merge_each<'a>(
    levels: impl Iterator<Item = (usize, &'a Level)> + Clone,
    keys: impl Iterator<Item = UnitKey>,
) -> impl Iterator<Item = Arc<Merged>> {
    let mut before: Option<Said<'a>> = None;
    keys.filter_map(move |key| {
        let said = said_of(levels.clone(), key, before.as_ref())?;
        let Folded { field, unit, verdict, .. } = &said.folded;
        let outcome = UnitOutcome { field, verdict: verdict.clone() };
        let merged = Arc::new(Merged { key, unit: unit.clone(), outcome });
        before = Some(said);
        Some(merged)
    })
}

/// A unit: who says it, and what that comes to.
struct Said<'a> {
    /// Where each level says it, if its first policy says it alone and none of the levels is merged deeply.
    says: Option<Vec<Says<'a>>>,
    folded: Folded,
}

/// What the one policy of a level says of a unit.
struct Says<'a> {
    place: usize,
    supplied: &'a Supplied,
}

/// Those that are heard of one unit often are of the next, as where one policy of each level says several: they are asked once.
fn said_of<'a>(
    levels: impl Iterator<Item = (usize, &'a Level)> + Clone,
    key: UnitKey,
    before: Option<&Said<'a>>,
) -> Option<Said<'a>> {
    let says = says(levels.clone(), key);
    let is_same = |(a, b): (&Says<'_>, &Says<'_>)| a.place == b.place && a.supplied.policy == b.supplied.policy;
    if let Some((Said { says: Some(known), folded }, saying)) = before.zip(says.as_deref())
        && known.len() == saying.len()
        && known.iter().zip(saying).all(is_same)
        && let Some(Says { place, supplied }) = saying.iter().find(|says| says.place == folded.place)
    {
        let unit = supplied.parsed.unit.clone().map_err(|problem| broken(supplied, *place, *problem));
        let folded = Folded { field: supplied.parsed.field, place: *place, unit, verdict: folded.verdict.clone() };
        return Some(Said { says, folded });
    }
    let mut folded = merge(levels, key)?;
    if let Some(Said { folded: before, .. }) = before
        && before.verdict == folded.verdict
    {
        folded.verdict = before.verdict.clone();
    }
    Some(Said { says, folded })
}

/// Where levels say a unit; none where any says more than one thing of it, or may be merged.
fn says<'a>(levels: impl Iterator<Item = (usize, &'a Level)>, key: UnitKey) -> Option<Vec<Says<'a>>> {
    let mut says = Vec::with_capacity(levels.size_hint().0);
    for (place, level) in levels {
        let mut saying = level.units.iter().filter(|supplied| supplied.key() == key);
        let Some(supplied) = saying.next() else { continue };
        if level.priority.deep || !supplied.with.is_empty() || saying.next().is_some() {
            return None;
        }
        says.push(Says { place, supplied });
    }
    Some(says)
}

fn broken(supplied: &Supplied, place: usize, problem: Problem) -> Broken {
    Broken { policy: supplied.policy.clone(), level: place, problem }
}

/// The units that levels say, each once, in their order.
pub(super) fn keys<'a>(levels: impl Iterator<Item = &'a Level>) -> Vec<UnitKey> {
    let mut keys: Vec<_> = levels.flat_map(|level| &level.units).map(Supplied::key).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// What units that say something come to at a Gateway, or at a listener below it. Where one of them is broken, or more than can
/// be served, the listener answers 500.
pub(super) fn heard<'a>(levels: impl Iterator<Item = &'a Level> + Clone) -> impl Iterator<Item = Arc<Merged>> {
    all_merged(levels.enumerate()).filter(|merged| merged.unit.is_ok())
}

/// What levels come to for a unit.
struct Folded {
    field: &'static str,
    /// The place of the level that holds, or is preferred.
    place: usize,
    unit: Result<SharedUnit, Broken>,
    /// Often the same as of the unit before.
    verdict: Arc<Verdict>,
}

/// What levels come to so far.
struct Fold<'a> {
    /// As in [`Folded`].
    place: usize,
    unit: Result<SharedUnit, Broken>,
    from: Vec<&'a ObjectId>,
    overridden: Vec<(&'a ObjectId, Option<Arc<Override>>)>,
    words: Vec<Word>,
}

/// What `levels`, the nearest first, come to for a unit; none where none of them says it.
fn merge<'a>(levels: impl Iterator<Item = (usize, &'a Level)>, key: UnitKey) -> Option<Folded> {
    let mut merged: Option<(&'static str, Fold<'_>)> = None;
    for (place, level) in levels {
        let Some((field, above)) = of_level(level, place, key) else { continue };
        let folded = match merged {
            None => above,
            Some((_, below)) => join(below, above, level, place),
        };
        merged = Some((field, folded));
    }
    let (field, Fold { place, unit, from, overridden, words }) = merged?;
    // One policy may stand at several levels.
    let mut winners: Vec<&ObjectId> = Vec::with_capacity(from.len());
    winners
        .extend(from.iter().enumerate().filter(|(at, policy)| !from[..*at].contains(policy)).map(|(_, policy)| policy));
    let mut lost: Vec<Lost> = Vec::with_capacity(overridden.len());
    for (policy, to) in overridden {
        if !winners.contains(&policy) && lost.iter().all(|known| known.policy != *policy) {
            lost.push(Lost { policy: policy.clone(), to });
        }
    }
    let winners = winners.into_iter().cloned().map(Winner::Policy).collect();
    let verdict = Arc::new(Verdict { winners, overridden: lost.into(), words: words.into() });
    Some(Folded { field, place, unit, verdict })
}

/// Within a level the first holds as a whole, with those that add to it.
fn of_level(level: &Level, place: usize, key: UnitKey) -> Option<(&'static str, Fold<'_>)> {
    let mut saying = level.units.iter().filter(|supplied| supplied.key() == key);
    let first = saying.next()?;
    let lost = |other: &Supplied| Some(to(&first.policy, first.goes_before(other)));
    let folded = Fold {
        place,
        unit: first.parsed.unit.clone().map_err(|problem| broken(first, place, *problem)),
        from: std::iter::once(&first.policy).chain(&first.with).collect(),
        overridden: saying.map(|other| (&other.policy, lost(other))).collect(),
        words: Vec::new(),
    };
    Some((first.parsed.field, folded))
}

fn join<'a>(below: Fold<'a>, above: Fold<'a>, level: &Level, place: usize) -> Fold<'a> {
    let Priority { deep, prefers_parent } = level.priority;
    let (preferred, other) = if prefers_parent { (&above, &below) } else { (&below, &above) };
    let joined = if deep { over(&preferred.unit, &other.unit) } else { None };
    let mut words = below.words.clone();
    // Where the lower side holds as a whole, that is so by default.
    let decides = joined.is_some() || prefers_parent;
    let why = if decides {
        let word = Word { owner: level.owner.clone(), priority: level.priority };
        if !words.contains(&word) {
            words.push(word.clone());
        }
        Why::Annotation(word)
    } else {
        Why::Nearer
    };
    let Some(unit) = joined else {
        // Whoever lost to one that loses here loses to the same.
        let winner = preferred.from.first().map(|winner| (Winner::Policy((*winner).clone()), why));
        // Of several levels that lose to one policy each has the same copy of it.
        let is_same = |known: &&Arc<Override>| {
            winner.as_ref().is_some_and(|(by, why)| known.by == *by && known.why.as_ref() == Some(why))
        };
        let known = below.overridden.iter().filter_map(|(_, to)| to.as_ref()).find(is_same).cloned();
        let winner = known.or_else(|| winner.map(|(by, why)| Arc::new(Override { by, why: Some(why) })));
        let lost = |policy: &'a ObjectId| (policy, winner.clone());
        let again = |one: &(&'a ObjectId, Option<Arc<Override>>), is_preferred: bool| {
            if is_preferred { one.clone() } else { lost(one.0) }
        };
        let of_below = below.overridden.iter().map(|one| again(one, !prefers_parent));
        let of_above = above.overridden.iter().map(|one| again(one, prefers_parent));
        let overridden = other.from.iter().map(|policy| lost(policy)).chain(of_below).chain(of_above).collect();
        let Fold { place, unit, from, .. } = if prefers_parent { above } else { below };
        return Fold { place, unit, from, overridden, words };
    };
    let held = preferred.place;
    let unit = unit.and_then(|unit| served(unit, preferred, place));
    let Fold { mut from, mut overridden, .. } = below;
    from.extend(above.from);
    overridden.extend(above.overridden);
    Fold { place: held, unit, from, overridden, words }
}

/// What holds in the place of policies, where that is this one.
fn to(winner: &ObjectId, why: Why) -> Arc<Override> {
    Arc::new(Override { by: Winner::Policy(winner.clone()), why: Some(why) })
}

/// What has come together, or why that is more than can be served.
fn served(unit: SharedUnit, preferred: &Fold<'_>, level: usize) -> Result<SharedUnit, Broken> {
    let Some((problem, policy)) = unit.excess().zip(preferred.from.first()) else { return Ok(unit) };
    Err(Broken { policy: (*policy).clone(), level, problem })
}

/// What becomes of both; none where the preferred one holds as a whole.
fn over(
    preferred: &Result<SharedUnit, Broken>,
    other: &Result<SharedUnit, Broken>,
) -> Option<Result<SharedUnit, Broken>> {
    match (preferred, other) {
        (Ok(preferred), Ok(other)) => preferred.over(other).map(SharedUnit::from).map(Ok),
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

#[cfg(test)]
mod tests;
