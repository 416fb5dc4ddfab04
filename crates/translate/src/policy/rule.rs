//! What policies come to for a rule: those on it and those on the rules above it.

use std::sync::Arc;

use api::ObjectId;
use engine::{Lookup, Scope};
use ir::{Chain, NsName, Problem, Reason, RouteId, Severity, route::ExtensionRef};
use units::AnyUnit;

use super::{
    level::{Broken, Kept, Level, without},
    merge::{Broken as BrokenUnit, Merged, all_merged},
    wide::{SlotWord, SlotWords, WideActions, WidePriority},
};
use crate::{
    delegation::keeper,
    tables::{
        policy::{Lost, Target, Word},
        route::{RouteHead, RouteRule},
    },
};

/// What all levels come to for a rule.
#[derive(Debug, Default)]
pub(crate) struct Effective {
    /// Why the rule is replaced, whoever answers its requests.
    pub(crate) broken: Option<Problem>,
    /// Why the rule is replaced if it answers its requests itself: a unit holds that is broken. Each level below may say
    /// otherwise.
    pub(crate) broken_unit: Option<Problem>,
    /// The units that hold, unless the rule itself says otherwise.
    pub(crate) units: Vec<Merged>,
    /// Units that would switch off what is inherited, and are not heard.
    pub(crate) kept: Vec<Kept>,
    /// Units that hold for the listener or its Gateway, which prefers what it says itself.
    pub(crate) given_way: Vec<GivenWay>,
    /// The fields that the rule has in slots, by its own policies or those of rules above.
    pub(crate) slots: Vec<&'static str>,
    /// All policies that apply, each once, but for those of where the rule is served.
    pub(crate) policies: Vec<ObjectId>,
}

/// A unit that gives way to what a listener or its Gateway says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GivenWay {
    /// The field.
    pub(crate) field: &'static str,
    /// Who says it of the rule.
    pub(crate) policies: Vec<ObjectId>,
    /// The levels that decided, the Gateway last.
    pub(crate) words: Vec<Word>,
}

/// Where a rule is served, as far as policies there change the rule itself.
struct Wide<'a, 'b> {
    scope: &'a Scope<'b>,
    target: &'a Target,
}

impl Wide<'_, '_> {
    /// What becomes of these fields.
    fn words(&self, fields: &[&'static str]) -> Vec<(&'static str, Arc<SlotWord>)> {
        let word = |field| self.scope.get::<SlotWords>(&(self.target.clone(), field));
        fields.iter().filter_map(|field| Some((*field, word(field)?))).collect()
    }

    /// What is said of a route's action. How that is merged is of interest to those that say something themselves.
    fn actions(&self, is_said: bool) -> Vec<Arc<Level>> {
        let actions = self.scope.get::<WideActions>(self.target);
        let actions = actions.iter().flat_map(|levels| levels.iter().cloned());
        let priority = || self.scope.get::<WidePriority>(&super::key_of(&self.target.object));
        match if is_said { priority() } else { None } {
            None => actions.collect(),
            Some(priority) => actions.map(|level| Arc::new(Level::clone(&level).merged_by(*priority))).collect(),
        }
    }
}

tables! {
    /// The policies of a delegating rule, by route and place; absent where there are none.
    RulePolicies: (RouteId, u32) => Level;
    /// What delegating rules hand down, by place in a tree, from the nearest on; absent where that is nothing.
    HandedDown: (Chain, u32) => Arc<[Arc<Level>]>;
}

impl Level {
    /// This level below others, from the nearest on; `field` is that of its rule, `wide` what it has to know of where it is
    /// served.
    fn below(self, above: &[Arc<Self>], wide: Option<&Wide<'_, '_>>, field: &str) -> Effective {
        let broken =
            self.broken.as_ref().map(|Broken { field: at, message }| (at.as_deref().unwrap_or(field), message.clone()));
        let handed_down = || {
            let (level, broken) = above.iter().find_map(|level| Some((level, level.broken.as_ref()?)))?;
            Some((field, self.inherits(level, &broken.message)))
        };
        let broken = broken.or_else(handed_down);
        let broken =
            broken.map(|(at, message)| Problem::new(Severity::Replaced, Reason::UnsupportedValue, at, message));
        let own = || std::iter::once(&self).chain(above.iter().map(AsRef::as_ref));
        // The slots that rules above and the rule itself have decide what else is read of where it is served.
        let slots = slot_fields(own());
        let words: Vec<_> = wide.map(|wide| wide.words(&slots)).unwrap_or_default();
        let merged = words
            .iter()
            .filter_map(|(_, word)| if let SlotWord::Merged(levels) = &**word { Some(levels) } else { None });
        let says_actions =
            || own().flat_map(|level| &level.units).any(|supplied| !AnyUnit::is_slot_at(supplied.parsed.field));
        let actions = wide.map(|wide| wide.actions(says_actions())).unwrap_or_default();
        let merged = merged.flat_map(|levels| levels.iter().cloned());
        let wider: Vec<_> = actions.into_iter().chain(merged).collect();
        let levels = || own().chain(wider.iter().map(AsRef::as_ref));
        let mut policies: Vec<ObjectId> = Vec::new();
        for policy in own().flat_map(|level| &level.policies) {
            if !policies.contains(policy) {
                policies.push(policy.clone());
            }
        }
        let mut units: Vec<_> = all_merged(levels()).collect();
        // Whatever it is, nothing of it is written.
        let given_way = words.iter().filter_map(|(field, word)| {
            let SlotWord::Preferred(word) = &**word else { return None };
            let Merged { from, overridden, mut words, .. } =
                units.extract_if(.., |merged| merged.field() == *field).next()?;
            words.push(word.clone());
            let overridden = overridden.into_iter().map(|Lost { policy, .. }| policy);
            Some(GivenWay { field, policies: from.into_iter().chain(overridden).collect(), words })
        });
        let given_way = given_way.collect();
        let broken_unit = units.iter().find_map(|merged| merged.unit.as_ref().err());
        let broken_unit = broken_unit.map(|BrokenUnit { policy, level, problem, .. }| {
            let above = level.checked_sub(1).and_then(|place| above.get(place));
            let message = without(policy, problem, above.map_or(&self.owner, |level| &level.owner));
            let message = above.map_or_else(|| message.clone(), |level| self.inherits(level, &message));
            Problem::new(Severity::Replaced, Reason::UnsupportedValue, field, message)
        });
        let kept = levels().flat_map(|level| &level.kept).cloned().collect();
        Effective { broken, broken_unit, units, kept, given_way, slots, policies }
    }
}

impl Lookup for RulePolicies {
    fn compute(scope: &Scope<'_>, (name, index): &(RouteId, u32)) -> Option<Level> {
        let rule = scope.get::<RouteRule>(&(name.clone(), *index))?;
        let extensions = rule.handling.as_ref().map_or(&[][..], |handling| &handling.extensions);
        let level = Level::of(scope, name, rule.name.as_ref(), extensions);
        let level = Level { keeper: keeper(scope, name, rule.name.as_ref()), ..level };
        if level.is_empty() {
            return None;
        }
        Some(Level { priority: scope.get::<RouteHead>(name)?.annotations.priority, ..level })
    }
}

impl Lookup for HandedDown {
    fn compute(scope: &Scope<'_>, (chain, rule): &(Chain, u32)) -> Option<Arc<[Arc<Level>]>> {
        let own = scope.get::<RulePolicies>(&(chain.route().clone(), *rule));
        let further = above(scope, chain);
        // A rule without policies, as most are, hands down the very list that it was handed.
        let Some(own) = own else { return further };
        let further = further.as_deref().unwrap_or_default();
        let own = match keeper_of(further) {
            Some(keeper) => Arc::new(Level::clone(&own).kept_by(keeper)),
            None => own,
        };
        Some(std::iter::once(own).chain(further.iter().cloned()).collect())
    }

    fn depth((chain, _): &(Chain, u32)) -> u32 {
        chain.depth()
    }
}

/// The fields that levels have in slots, each once.
fn slot_fields<'a>(levels: impl Iterator<Item = &'a Level>) -> Vec<&'static str> {
    let mut fields: Vec<_> = levels.flat_map(|level| &level.units).map(|supplied| supplied.parsed.field).collect();
    fields.retain(|field| AnyUnit::is_slot_at(field));
    fields.sort_unstable();
    fields.dedup();
    fields
}

/// What a rule's own policies and those above it come to; `wide` is where it is served, if that matters.
pub(crate) fn effective(
    scope: &Scope<'_>,
    chain: &Chain,
    rule: Option<&Arc<str>>,
    extensions: &[ExtensionRef],
    field: &str,
    wide: Option<&Target>,
) -> Effective {
    let own = Level::of(scope, chain.route(), rule, extensions);
    let above = above(scope, chain);
    let above = above.as_deref().unwrap_or_default();
    let own = match keeper_of(above) {
        Some(keeper) => own.kept_by(keeper),
        None => own,
    };
    if wide.is_none() && above.is_empty() && own.is_empty() {
        return Effective::default();
    }
    own.below(above, wide.map(|target| Wide { scope, target }).as_ref(), field)
}

/// The DelegationPolicy by which nothing below these levels switches off what it inherits, if there is one.
fn keeper_of(above: &[Arc<Level>]) -> Option<&NsName> {
    above.iter().find_map(|level| level.keeper.as_ref())
}

/// What the levels above a route hand down to it where it stands.
fn above(scope: &Scope<'_>, chain: &Chain) -> Option<Arc<[Arc<Level>]>> {
    let (above, rule) = chain.above()?;
    scope.get::<HandedDown>(&(above.clone(), rule)).map(|levels| (*levels).clone())
}
