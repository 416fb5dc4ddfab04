//! What policies come to for a rule: those on it and those on the rules above it.

use std::sync::Arc;

use api::ObjectId;
use engine::{Lookup, Scope};
use ir::{Chain, NsName, Problem, Reason, RouteId, Severity, route::ExtensionRef};
use units::AnyUnit;

use super::{
    level::{Broken, Kept, Level, without},
    merge::{Broken as BrokenUnit, Merged, all_merged, are_plain, keys, merge_each, over_all},
    wide::{SlotWord, SlotWords, WideActions, WidePriority},
};
use crate::{
    delegation::keeper,
    tables::{
        policy::{Target, Word},
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
    pub(crate) units: Vec<Arc<Merged>>,
    /// Units that would switch off what is inherited, and are not heard.
    pub(crate) kept: Vec<Kept>,
    /// Units that hold for the listener or its Gateway, which prefers what it says itself.
    pub(crate) given_way: Vec<GivenWay>,
    /// The fields that the rule has in slots, by its own policies or those of rules above.
    pub(crate) slots: Arc<[&'static str]>,
    /// All policies that apply, each once, but for those of where the rule is served.
    pub(crate) policies: Arc<[ObjectId]>,
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
    /// What delegating rules hand down, by place in a tree; absent where that is nothing.
    HandedDown: (Chain, u32) => Arc<Inherited>;
}

/// What delegating rules hand down to the rules below, which have most of it in common: it is found out once for all of them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Inherited {
    /// What each of them says, from the nearest on.
    levels: Box<[Arc<Level>]>,
    /// What that comes to for each unit, in the order of units, where the rule below and what is wider say nothing of it.
    units: Box<[Arc<Merged>]>,
    /// The fields that they have in slots.
    slots: Arc<[&'static str]>,
    /// All their policies, each once.
    policies: Arc<[ObjectId]>,
    /// As [`are_plain`].
    are_plain: bool,
}

/// Nothing.
impl Default for Inherited {
    fn default() -> Self {
        Self {
            levels: Box::default(),
            units: Box::default(),
            slots: Arc::default(),
            policies: Arc::default(),
            are_plain: true,
        }
    }
}

impl Inherited {
    fn of(levels: Box<[Arc<Level>]>) -> Self {
        let all = || levels.iter().map(AsRef::as_ref);
        // The rule below has the first place.
        let units = all_merged((1..).zip(all())).collect();
        let slots = levels.iter().fold(Arc::default(), |slots, level| level.slots_with(&slots));
        let policies = policies(all());
        let are_plain = are_plain(all());
        Self { levels, units, slots, policies, are_plain }
    }

    /// The DelegationPolicy by which nothing below switches off what it inherits, if there is one.
    fn keeper(&self) -> Option<&NsName> {
        self.levels.iter().find_map(|level| level.keeper.as_ref())
    }
}

/// All policies of levels, each once.
fn policies<'a>(levels: impl Iterator<Item = &'a Level>) -> Arc<[ObjectId]> {
    let mut policies: Vec<ObjectId> = Vec::new();
    for policy in levels.flat_map(|level| &level.policies) {
        if !policies.contains(policy) {
            policies.push(policy.clone());
        }
    }
    policies.into()
}

impl Level {
    /// The fields that it has in slots, beside these, which stand in order.
    fn slots_with(&self, others: &Arc<[&'static str]>) -> Arc<[&'static str]> {
        let own = self.units.iter().map(|supplied| supplied.parsed.field);
        let mut own: Vec<_> = own.filter(|field| AnyUnit::is_slot_at(field) && !others.contains(field)).collect();
        if own.is_empty() {
            return others.clone();
        }
        own.extend(&**others);
        own.sort_unstable();
        own.dedup();
        own.into()
    }

    /// This level below others; `field` is that of its rule, `wide` what it has to know of where it is served.
    fn below(self, inherited: &Inherited, wide: Option<&Wide<'_, '_>>, field: &str) -> Effective {
        let above = &inherited.levels;
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
        let slots = self.slots_with(&inherited.slots);
        let words: Vec<_> = wide.map(|wide| wide.words(&slots)).unwrap_or_default();
        let merged = words
            .iter()
            .filter_map(|(_, word)| if let SlotWord::Merged(levels) = &**word { Some(levels) } else { None });
        let says_actions =
            || own().flat_map(|level| &level.units).any(|supplied| !AnyUnit::is_slot_at(supplied.parsed.field));
        let actions = wide.map(|wide| wide.actions(says_actions())).unwrap_or_default();
        let merged = merged.flat_map(|levels| levels.iter().cloned());
        let wider: Vec<_> = actions.into_iter().chain(merged).collect();
        let wider = || wider.iter().map(AsRef::as_ref);
        let levels = || own().chain(wider());
        let policies = if self.policies.is_empty() { inherited.policies.clone() } else { policies(own()) };
        let besides = keys(std::iter::once(&self).chain(wider()));
        let handed_down = inherited.units.iter().filter(|merged| besides.binary_search(&merged.key).is_err()).cloned();
        let mut units: Vec<_> = if inherited.are_plain && wider().next().is_none() && self.says_each_once() {
            over_all(&self, &inherited.units)
        } else {
            merge_each(levels().enumerate(), besides.iter().copied()).collect()
        };
        units.extend(handed_down);
        units.sort_unstable_by_key(|merged| merged.key);
        // Whatever it is, nothing of it is written.
        let given_way = words.iter().filter_map(|(field, word)| {
            let SlotWord::Preferred(word) = &**word else { return None };
            let merged = units.extract_if(.., |merged| merged.field() == *field).next()?;
            let words = merged.outcome.words.iter().chain([word]).cloned().collect();
            Some(GivenWay { field, policies: merged.outcome.all().cloned().collect(), words })
        });
        let given_way = given_way.collect();
        let broken_unit = units.iter().find_map(|merged| merged.unit.as_ref().err());
        let broken_unit = broken_unit.map(|BrokenUnit { policy, level, problem }| {
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
    fn compute(scope: &Scope<'_>, (chain, rule): &(Chain, u32)) -> Option<Arc<Inherited>> {
        let own = scope.get::<RulePolicies>(&(chain.route().clone(), *rule));
        let further = above(scope, chain);
        // A rule without policies, as most are, hands down the very thing that it was handed.
        let Some(own) = own else { return further };
        let further = further.unwrap_or_default();
        let own = match further.keeper() {
            Some(keeper) => Arc::new(Level::clone(&own).kept_by(keeper)),
            None => own,
        };
        let levels = std::iter::once(own).chain(further.levels.iter().cloned());
        Some(Arc::new(Inherited::of(levels.collect())))
    }

    fn depth((chain, _): &(Chain, u32)) -> u32 {
        chain.depth()
    }
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
    if wide.is_none() && above.is_none() && own.is_empty() {
        return Effective::default();
    }
    let above = above.unwrap_or_default();
    let own = match above.keeper() {
        Some(keeper) => own.kept_by(keeper),
        None => own,
    };
    own.below(&above, wide.map(|target| Wide { scope, target }).as_ref(), field)
}

/// What the levels above a route hand down to it where it stands.
fn above(scope: &Scope<'_>, chain: &Chain) -> Option<Arc<Inherited>> {
    let (above, rule) = chain.above()?;
    scope.get::<HandedDown>(&(above.clone(), rule)).map(|inherited| Arc::clone(&*inherited))
}
