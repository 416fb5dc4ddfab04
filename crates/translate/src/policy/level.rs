//! The policies of one level: a rule, a delegating rule, a listener or a Gateway.

use std::{cmp::Reverse, sync::Arc};

use api::{Kind, ObjectId};
use engine::Scope;
use ir::{
    Edition, NsName, Problem, RouteId,
    delegation::Priority,
    route::{ExtensionKind, ExtensionRef},
};
use units::{AnyUnit, ParsedUnit, SharedUnit};

use crate::{
    tables::{
        input::object_id,
        policy::{PoliciesOf, PolicyRow, Rank, Target, Why},
    },
    target::{rule_of_platform, source_of},
};

/// A unit with the policy that supplies it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Supplied {
    /// The policy.
    pub(crate) policy: ObjectId,
    /// What it says.
    pub(crate) parsed: ParsedUnit,
    /// The policies of the same level that add to it.
    pub(crate) with: Vec<ObjectId>,
    /// Where the policy stands among those of its level.
    pub(super) order: Order,
    key: UnitKey,
}

/// What decides which of two policies of a level is heard: the smallest counts first, then the first by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Order {
    closeness: Closeness,
    weight: Reverse<i32>,
    /// In seconds since 1970.
    created: i64,
}

/// How a policy is attached, the closest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Closeness {
    /// The rule names it.
    Named,
    /// To the rule.
    Rule,
    /// To all of the object.
    Whole,
}

/// Units with the same key are one. They count in the order of their keys.
pub(super) type UnitKey = (bool, usize);

impl Supplied {
    fn new(policy: &ObjectId, parsed: &ParsedUnit, order: Order) -> Self {
        // What a RewritePolicy says is apart from what a TrafficPolicy says of the same, and goes before it.
        let key = (policy.kind != Kind::RewritePolicy, AnyUnit::place(parsed.field).unwrap_or(usize::MAX));
        Self { policy: policy.clone(), parsed: parsed.clone(), with: Vec::new(), order, key }
    }

    /// Which unit it is.
    pub(super) fn key(&self) -> UnitKey {
        self.key
    }

    /// Why it is heard, and not another of its level that says the same.
    pub(super) fn goes_before(&self, other: &Self) -> Why {
        let (own, others) = (self.order, other.order);
        if own.closeness != others.closeness {
            Why::Closer
        } else if own.weight != others.weight {
            Why::Weight
        } else if own.created != others.created {
            Why::Age
        } else {
            Why::Name
        }
    }
}

/// Why a rule cannot be served with its policies, whatever others say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Broken {
    /// The filter that is broken; none for a policy that chose the rule itself.
    pub(super) field: Option<String>,
    pub(super) message: String,
}

/// The policies of one level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Level {
    /// The route, or the Gateway.
    pub(super) owner: ObjectId,
    /// The edition in which the route stands, if it does in one.
    pub(super) edition: Option<Edition>,
    /// How it is merged with what is below.
    pub(super) priority: Priority,
    /// The DelegationPolicy by which nothing below switches off what is inherited.
    pub(super) keeper: Option<NsName>,
    /// All that they say, in the order in which it counts.
    pub(super) units: Vec<Supplied>,
    /// What would switch off what is inherited, and may not.
    pub(super) kept: Vec<Kept>,
    pub(super) broken: Option<Broken>,
    /// All of them.
    pub(super) policies: Vec<ObjectId>,
}

/// A unit that would switch off what is inherited, and is not heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    /// Who says it.
    pub(crate) policy: ObjectId,
    /// What is said.
    pub(crate) unit: SharedUnit,
    /// The DelegationPolicy that forbids it.
    pub(crate) keeper: NsName,
}

impl Level {
    /// The policies of a rule: `extensions` are those that its filters name.
    pub(crate) fn of(scope: &Scope<'_>, route: &RouteId, rule: Option<&Arc<str>>, extensions: &[ExtensionRef]) -> Self {
        let object = object_id(route);
        let mut level = Self { edition: route.edition.clone(), ..Self::new(object.clone()) };
        let mut named = Vec::new();
        for extension in extensions {
            let kind = match extension.kind {
                ExtensionKind::TrafficPolicy => Kind::TrafficPolicy,
                ExtensionKind::RewritePolicy => Kind::RewritePolicy,
                ExtensionKind::DirectResponse => continue,
            };
            let id = ObjectId::new(kind, route.namespace().clone(), extension.name.clone());
            match scope.get::<PolicyRow>(&source_of(scope, level.edition.as_ref(), id.clone())) {
                Some(policy) => named.push(policy.rank.clone()),
                None => {
                    let message = format!("{id} does not exist; create it, or correct the name");
                    let field = Some(format!("{}.name", extension.field));
                    level.broken.get_or_insert(Broken { field, message });
                }
            }
        }
        named.sort_unstable();
        level.add(scope, Closeness::Named, named.iter().map(Rank::policy));
        let target = |section| Target { object: object.clone(), section, edition: route.edition.clone() };
        if let Some(rule) = rule {
            let of_rule = scope.get::<PoliciesOf>(&target(Some(rule.clone())));
            level.add(scope, Closeness::Rule, of_rule.iter().flat_map(|list| list.iter().cloned()));
        }
        if let Some(name) = rule_of_platform(scope, route, rule) {
            let message = format!(
                "a policy that holds everywhere means the rule {name:?}, which the tree that is kept does not have: nobody knows \
                 which of its rules that is"
            );
            level.broken.get_or_insert(Broken { field: None, message });
        }
        let of_route = scope.get::<PoliciesOf>(&target(None));
        level.add(scope, Closeness::Whole, of_route.iter().flat_map(|list| list.iter().cloned()));
        level.add_up();
        level
    }

    /// Has the first of the units that add up say what all of them say.
    fn add_up(&mut self) {
        let units = std::mem::take(&mut self.units);
        self.units.reserve_exact(units.len());
        for supplied in units {
            let key = supplied.key();
            let before = self.units.iter_mut().find(|before| before.key() == key);
            let Some(first) = before else {
                self.units.push(supplied);
                continue;
            };
            let joined = match (&first.parsed.unit, &supplied.parsed.unit) {
                (Ok(unit), Ok(other)) if unit.adds_up() => unit.over(other),
                (Ok(unit), Err(_)) if unit.adds_up() => {
                    // What is merged with something broken is as broken, and holds where that holds.
                    let sound = std::mem::replace(first, supplied);
                    first.with = std::iter::once(sound.policy).chain(sound.with).collect();
                    continue;
                }
                _ => None,
            };
            match joined {
                Some(unit) => {
                    first.parsed.unit = unit.excess().map_or_else(|| Ok(unit.into()), |excess| Err(excess.into()));
                    first.with.push(supplied.policy);
                }
                None => self.units.push(supplied),
            }
        }
    }

    /// The next policies; those before count first.
    fn add(&mut self, scope: &Scope<'_>, closeness: Closeness, policies: impl Iterator<Item = ObjectId>) {
        for id in policies.filter(|id| id.kind != Kind::DelegationPolicy) {
            if self.policies.contains(&id) {
                continue;
            }
            let source = source_of(scope, self.edition.as_ref(), id.clone());
            let Some(policy) = scope.get::<PolicyRow>(&source) else { continue };
            match &policy.units {
                Ok(units) => {
                    let Rank { weight, age, .. } = &policy.rank;
                    let order = Order { closeness, weight: *weight, created: age.created };
                    self.units.extend(units.iter().map(|parsed| Supplied::new(&id, parsed, order)));
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
        let mut level = Self { edition: target.edition.clone(), ..Self::new(target.object.clone()) };
        let policies = scope.get::<PoliciesOf>(target);
        level.add(scope, Closeness::Whole, policies.iter().flat_map(|list| list.iter().cloned()));
        let broken =
            level.units.iter().find_map(|supplied| Some((&supplied.policy, supplied.parsed.unit.as_ref().err()?)));
        if let Some((policy, fault)) = broken {
            let message = without(policy, fault, &target.object);
            level.broken.get_or_insert(Broken { field: None, message });
        }
        // What sound ones come to is judged with the levels above.
        level.add_up();
        // Nothing that others see tells what is kept from what is.
        Self { edition: None, ..level }
    }

    /// The same without units that are none of these, and without what nothing is left of.
    pub(super) fn only(&self, wanted: impl Fn(&AnyUnit) -> bool) -> Self {
        let is_wanted = |supplied: &&Supplied| supplied.parsed.unit.as_ref().is_ok_and(|unit| wanted(unit));
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

    /// Whether each unit is said by one policy alone.
    pub(super) fn says_each_once(&self) -> bool {
        let is_first = |at: usize| self.units[..at].iter().all(|before| before.key != self.units[at].key);
        self.units.iter().enumerate().all(|(at, supplied)| supplied.with.is_empty() && is_first(at))
    }

    /// Whether a policy of it is broken.
    pub(super) fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    /// Whether nothing is said.
    pub(super) fn is_empty(&self) -> bool {
        self.policies.is_empty() && self.broken.is_none() && self.keeper.is_none()
    }

    /// Where policies stand that say this, those before counting first.
    #[cfg(test)]
    pub(super) fn saying(owner: ObjectId, policies: impl Iterator<Item = (ObjectId, Vec<ParsedUnit>)>) -> Self {
        let mut level = Self::new(owner);
        for (id, units) in policies {
            if !level.policies.contains(&id) {
                let order = Order { closeness: Closeness::Whole, weight: Reverse(0), created: 0 };
                level.units.extend(units.iter().map(|parsed| Supplied::new(&id, parsed, order)));
                level.policies.push(id);
            }
        }
        level.add_up();
        level
    }

    fn new(owner: ObjectId) -> Self {
        Self {
            owner,
            edition: None,
            priority: Priority::default(),
            keeper: None,
            units: Vec::new(),
            kept: Vec::new(),
            broken: None,
            policies: Vec::new(),
        }
    }

    /// What is told of something broken that a level above hands down. The policies of another namespace are not named: its
    /// owner is told of them on the route.
    pub(super) fn inherits(&self, level: &Self, message: &str) -> String {
        let is_own = level.owner.namespace == self.owner.namespace;
        let what = if is_own { message } else { "a policy is not valid or not there" };
        format!("{} hands down what is broken: {what}", level.owner)
    }

    /// The same where it may not switch off what it inherits from levels above, by the word of one of them.
    pub(super) fn kept_by(mut self, keeper: &NsName) -> Self {
        let kept =
            self.units.extract_if(.., |supplied| supplied.parsed.unit.as_ref().is_ok_and(|unit| unit.disables()));
        let kept = kept.filter_map(|Supplied { policy, parsed, .. }| {
            Some(Kept { policy, unit: parsed.unit.ok()?, keeper: keeper.clone() })
        });
        self.kept = kept.collect();
        self
    }
}

/// What the owner of `target` is told of a policy on it that is broken.
pub(super) fn without(policy: &ObjectId, fault: &Problem, target: &ObjectId) -> String {
    if policy.namespace != target.namespace {
        return format!("a {} of another namespace is not valid, and nothing is served without it", policy.kind);
    }
    format!("{policy} is not valid, and nothing is served without it: {fault}")
}
