//! What policies come to for a rule: those on it and those on the rules above it.

use std::sync::Arc;

use api::{Kind, ObjectId};
use engine::{Lookup, Scope};
use ir::{
    Chain, NsName, Problem, Reason, RouteId, Severity,
    delegation::Priority,
    route::{ExtensionKind, ExtensionRef},
};
use units::{AnyUnit, Said};

use super::{
    merge::{Broken as BrokenUnit, Merged, Word, merge},
    wide::{SlotWord, SlotWords, WideActions, WidePriority},
};
use crate::{
    delegation::keeper,
    tables::{
        input::object_id,
        policy::{PoliciesOf, PolicyRow, Rank, Target},
        route::{RouteHead, RouteRule},
    },
};

/// A unit with the policy that supplies it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Supplied {
    /// The policy.
    pub(crate) policy: ObjectId,
    /// What it says.
    pub(crate) said: Said,
    /// The policies of the same level that add to it.
    pub(crate) with: Vec<ObjectId>,
}

/// Units with the same key are one. They count in the order of their keys.
pub(super) type UnitKey = (bool, usize);

impl Supplied {
    /// What a RewritePolicy says is apart from what a TrafficPolicy says of the same, and goes before it.
    pub(super) fn key(&self) -> UnitKey {
        let order = AnyUnit::FIELDS.iter().position(|field| *field == self.said.field);
        (self.policy.kind != Kind::RewritePolicy, order.unwrap_or(usize::MAX))
    }
}

/// Why a rule cannot be served with its policies, whatever others say.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Broken {
    /// The filter that is broken; none for a policy that chose the rule itself.
    field: Option<String>,
    message: String,
}

/// The policies of one level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Level {
    /// The route, or the Gateway.
    owner: ObjectId,
    /// How it is merged with what is below.
    priority: Priority,
    /// The DelegationPolicy by which nothing below switches off what is inherited.
    keeper: Option<NsName>,
    /// All that they say, in the order in which it counts.
    units: Vec<Supplied>,
    /// What would switch off what is inherited, and may not.
    kept: Vec<Kept>,
    broken: Option<Broken>,
    /// All of them.
    policies: Vec<ObjectId>,
}

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

/// A unit that would switch off what is inherited, and is not heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    /// Who says it.
    pub(crate) policy: ObjectId,
    /// What is said.
    pub(crate) unit: AnyUnit,
    /// The DelegationPolicy that forbids it.
    pub(crate) keeper: NsName,
}

tables! {
    /// The policies of a delegating rule, by route and place; absent where there are none.
    RulePolicies: (RouteId, u32) => Level;
    /// What delegating rules hand down, by place in a tree, from the nearest on; absent where that is nothing.
    HandedDown: (Chain, u32) => Arc<[Arc<Level>]>;
}

impl Level {
    /// The policies of a rule: `extensions` are those that its filters name.
    pub(crate) fn of(scope: &Scope<'_>, route: &RouteId, rule: Option<&Arc<str>>, extensions: &[ExtensionRef]) -> Self {
        let object = object_id(route);
        let mut level = Self::new(object.clone());
        let mut named = Vec::new();
        for extension in extensions {
            let kind = match extension.kind {
                ExtensionKind::TrafficPolicy => Kind::TrafficPolicy,
                ExtensionKind::RewritePolicy => Kind::RewritePolicy,
                ExtensionKind::DirectResponse => continue,
            };
            let id = ObjectId::new(kind, route.namespace().clone(), extension.name.clone());
            match scope.get::<PolicyRow>(&id) {
                Some(policy) => named.push(policy.rank.clone()),
                None => {
                    let message = format!("{id} does not exist; create it, or correct the name");
                    let field = Some(format!("{}.name", extension.field));
                    level.broken.get_or_insert(Broken { field, message });
                }
            }
        }
        named.sort_unstable();
        level.add(scope, named.iter().map(Rank::policy));
        let target = |section| Target { object: object.clone(), section };
        if let Some(rule) = rule {
            let of_rule = scope.get::<PoliciesOf>(&target(Some(rule.clone())));
            level.add(scope, of_rule.iter().flat_map(|list| list.iter().cloned()));
        }
        let of_route = scope.get::<PoliciesOf>(&target(None));
        level.add(scope, of_route.iter().flat_map(|list| list.iter().cloned()));
        level.add_up();
        level
    }

    /// Has the first of the units that add up say what all of them say.
    fn add_up(&mut self) {
        for supplied in std::mem::take(&mut self.units) {
            let key = supplied.key();
            let before = self.units.iter_mut().find(|before| before.key() == key);
            let Some(first) = before else {
                self.units.push(supplied);
                continue;
            };
            let joined = match (&first.said.unit, &supplied.said.unit) {
                (Ok(unit), Ok(other)) if unit.adds_up() => unit.over(other),
                (Ok(unit), Err(_)) if unit.adds_up() => {
                    // What is merged with something broken is as broken.
                    *first = supplied;
                    continue;
                }
                _ => None,
            };
            match joined {
                Some(unit) => {
                    first.said.unit = Ok(unit);
                    first.with.push(supplied.policy);
                }
                None => self.units.push(supplied),
            }
        }
    }

    /// The next policies; those before count first.
    fn add(&mut self, scope: &Scope<'_>, policies: impl Iterator<Item = ObjectId>) {
        for id in policies.filter(|id| id.kind != Kind::DelegationPolicy) {
            if self.policies.contains(&id) {
                continue;
            }
            let Some(policy) = scope.get::<PolicyRow>(&id) else { continue };
            match &policy.units {
                Ok(units) => {
                    let supplied = |said: &Said| Supplied { policy: id.clone(), said: said.clone(), with: Vec::new() };
                    self.units.extend(units.iter().map(supplied));
                }
                Err(fault) => {
                    self.broken.get_or_insert(Broken { field: None, message: without(&id, fault, &self.owner) });
                }
            }
            self.policies.push(id);
        }
    }

    /// The policies of a Gateway, or of one of its listeners alone. A scope that has a unit which is broken answers 500 to
    /// everything.
    pub(super) fn wide(scope: &Scope<'_>, target: &Target) -> Self {
        let mut level = Self::new(target.object.clone());
        let policies = scope.get::<PoliciesOf>(target);
        level.add(scope, policies.iter().flat_map(|list| list.iter().cloned()));
        level.add_up();
        let broken =
            level.units.iter().find_map(|supplied| Some((&supplied.policy, supplied.said.unit.as_ref().err()?)));
        if let Some((policy, fault)) = broken {
            let message = without(policy, fault, &target.object);
            level.broken.get_or_insert(Broken { field: None, message });
        }
        level
    }

    /// The same without units that are none of these, and without what nothing is left of.
    pub(super) fn only(&self, wanted: impl Fn(&AnyUnit) -> bool) -> Self {
        let is_wanted = |supplied: &&Supplied| supplied.said.unit.as_ref().is_ok_and(&wanted);
        let units: Vec<_> = self.units.iter().filter(is_wanted).cloned().collect();
        let of =
            |supplied: &Supplied| std::iter::once(&supplied.policy).chain(&supplied.with).cloned().collect::<Vec<_>>();
        let mut policies: Vec<_> = units.iter().flat_map(of).collect();
        policies.dedup();
        Self { units, policies, ..Self::new(self.owner.clone()) }.merged_by(self.priority)
    }

    /// The same where it is merged so with what is below.
    pub(super) fn merged_by(self, priority: Priority) -> Self {
        Self { priority, ..self }
    }

    /// All that is said, in the order in which it counts.
    pub(super) fn units(&self) -> impl Iterator<Item = &Supplied> {
        self.units.iter()
    }

    /// How it is merged with what is below.
    pub(super) fn priority(&self) -> Priority {
        self.priority
    }

    /// The route, or the Gateway.
    pub(super) fn owner(&self) -> &ObjectId {
        &self.owner
    }

    /// Whether a policy of it is broken.
    pub(super) fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    /// Whether nothing is said.
    pub(super) fn is_empty(&self) -> bool {
        self.policies.is_empty() && self.broken.is_none() && self.keeper.is_none()
    }

    fn new(owner: ObjectId) -> Self {
        Self {
            owner,
            priority: Priority::default(),
            keeper: None,
            units: Vec::new(),
            kept: Vec::new(),
            broken: None,
            policies: Vec::new(),
        }
    }

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
        let says_actions = || own().flat_map(Self::units).any(|supplied| !AnyUnit::is_slot_at(supplied.said.field));
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

    /// What is told of something broken that a level above hands down. The policies of another namespace are not named: its
    /// owner is told of them on the route.
    fn inherits(&self, level: &Self, message: &str) -> String {
        let is_own = level.owner.namespace == self.owner.namespace;
        let what = if is_own { message } else { "a policy is not valid or not there" };
        format!("{} hands down what is broken: {what}", level.owner)
    }

    /// The same where it may not switch off what it inherits from levels above, by the word of one of them.
    fn kept_by(mut self, keeper: &NsName) -> Self {
        let kept = self.units.extract_if(.., |supplied| supplied.said.unit.as_ref().is_ok_and(AnyUnit::disables));
        let kept = kept.filter_map(|Supplied { policy, said, .. }| {
            Some(Kept { policy, unit: said.unit.ok()?, keeper: keeper.clone() })
        });
        self.kept = kept.collect();
        self
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

/// What levels come to for each unit that any of them says, in the order of units.
fn all_merged<'a>(levels: impl Iterator<Item = &'a Level> + Clone) -> impl Iterator<Item = Merged> {
    let mut keys: Vec<_> = levels.clone().flat_map(|level| &level.units).map(Supplied::key).collect();
    keys.sort_unstable();
    keys.dedup();
    keys.into_iter().filter_map(move |key| merge(levels.clone(), key))
}

/// The fields that levels have in slots, each once.
fn slot_fields<'a>(levels: impl Iterator<Item = &'a Level>) -> Vec<&'static str> {
    let mut fields: Vec<_> = levels.flat_map(|level| &level.units).map(|supplied| supplied.said.field).collect();
    fields.retain(|field| AnyUnit::is_slot_at(field));
    fields.sort_unstable();
    fields.dedup();
    fields
}

/// What units that say something come to at a Gateway, or at a listener below it; none of those is broken.
pub(super) fn heard<'a>(levels: impl Iterator<Item = &'a Level> + Clone) -> impl Iterator<Item = Merged> {
    all_merged(levels).filter(|merged| merged.unit.is_ok())
}

/// What the owner of `target` is told of a policy on it that is broken.
fn without(policy: &ObjectId, fault: &Problem, target: &ObjectId) -> String {
    if policy.namespace != target.namespace {
        return format!("a {} of another namespace is not valid, and nothing is served without it", policy.kind);
    }
    format!("{policy} is not valid, and nothing is served without it: {fault}")
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
