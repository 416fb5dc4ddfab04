//! What the policies on a rule and on its ancestors come to.
//!
//! A level is a rule with its own policies: those named by its filters, those on the rule, those on its route. Below it
//! stand its descendants; what they say counts, unless the level's route prefers its own. A policy that is broken at any
//! level has the rule replaced, whatever else overrides it.

use std::{mem, sync::Arc};

use api::{Kind, ObjectId};
use engine::{Lookup, Scope};
use ir::{
    Chain, NsName, Problem, Severity,
    filter::PathModifier,
    route::{ExtensionKind, ExtensionRef},
};

use crate::tables::{
    policy::{PoliciesOf, PolicyRow, Target},
    route::{RouteHead, RouteRule},
};

/// Paths of requests as a policy wants them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Says {
    /// The policy.
    pub(crate) policy: ObjectId,
    /// What becomes of the path.
    pub(crate) path: PathModifier,
}

/// One field for each kind of policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Fields {
    /// Of a RewritePolicy, which is the stronger.
    rewrite: Option<Says>,
    /// `urlRewrite` of a TrafficPolicy.
    traffic: Option<Says>,
}

impl Fields {
    /// Each field, or else that of `other`.
    fn or(self, other: Self) -> Self {
        Self { rewrite: self.rewrite.or(other.rewrite), traffic: self.traffic.or(other.traffic) }
    }
}

/// Why a rule cannot be served with its policies.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Broken {
    /// The filter that is broken; none for a policy that chose the rule itself.
    field: Option<String>,
    message: String,
}

/// The policies of one level.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Level {
    fields: Fields,
    broken: Option<Broken>,
    /// All of them, and whether they say anything.
    policies: Vec<(ObjectId, bool)>,
}

/// What the levels above a rule come to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Above {
    /// What counts before the rule's own: the topmost level that prefers itself.
    before: Fields,
    /// What counts after it: the nearest.
    after: Fields,
    /// The route that hands down what is broken, and why it is.
    broken: Option<(NsName, Arc<str>)>,
    policies: Vec<(ObjectId, bool)>,
}

/// What all levels come to for a rule.
#[derive(Debug, Default)]
pub(crate) struct Effective {
    /// Why the rule is replaced.
    pub(crate) broken: Option<Problem>,
    /// What holds, unless a filter says otherwise.
    pub(crate) says: Option<Says>,
    /// All policies that apply, each once, and whether they say anything.
    pub(crate) policies: Vec<(ObjectId, bool)>,
}

tables! {
    /// The policies of a delegating rule, by route and place; absent where there are none.
    RulePolicies: (NsName, u32) => (Level, bool);
    /// What delegating rules hand down, by place in a tree; absent where that is nothing.
    HandedDown: (Chain, u32) => Above;
}

impl Level {
    /// The policies of a rule: `extensions` are those that its filters name.
    pub(crate) fn of(scope: &Scope<'_>, route: &NsName, rule: Option<&Arc<str>>, extensions: &[ExtensionRef]) -> Self {
        let mut level = Self::default();
        let mut named = Vec::new();
        for extension in extensions {
            let kind = match extension.kind {
                ExtensionKind::TrafficPolicy => Kind::TrafficPolicy,
                ExtensionKind::RewritePolicy => Kind::RewritePolicy,
                ExtensionKind::DirectResponse => continue,
            };
            let id = ObjectId::new(kind, route.namespace.clone(), extension.name.clone());
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
        level.add(scope, named.iter().map(crate::tables::policy::Rank::policy));
        let object = ObjectId::new(Kind::HttpRoute, route.namespace.clone(), route.name.clone());
        let target = |section| Target { object: object.clone(), section };
        if let Some(rule) = rule {
            let of_rule = scope.get::<PoliciesOf>(&target(Some(rule.clone())));
            level.add(scope, of_rule.iter().flat_map(|list| list.iter().cloned()));
        }
        let of_route = scope.get::<PoliciesOf>(&target(None));
        level.add(scope, of_route.iter().flat_map(|list| list.iter().cloned()));
        level
    }

    /// The next policies; those before count first.
    fn add(&mut self, scope: &Scope<'_>, policies: impl Iterator<Item = ObjectId>) {
        for id in policies.filter(|id| id.kind != Kind::DelegationPolicy) {
            if self.policies.iter().any(|(known, _)| *known == id) {
                continue;
            }
            let Some(policy) = scope.get::<PolicyRow>(&id) else { continue };
            let mut says_anything = false;
            match &policy.path {
                Ok(None) => {}
                Ok(Some(path)) => {
                    says_anything = true;
                    let slot = match id.kind {
                        Kind::RewritePolicy => &mut self.fields.rewrite,
                        _ => &mut self.fields.traffic,
                    };
                    slot.get_or_insert_with(|| Says { policy: id.clone(), path: path.clone() });
                }
                Err(fault) => {
                    let message = format!("{id} is not valid, and nothing is served without it: {fault}");
                    self.broken.get_or_insert(Broken { field: None, message });
                }
            }
            self.policies.push((id, says_anything));
        }
    }

    fn is_empty(&self) -> bool {
        self.policies.is_empty() && self.broken.is_none()
    }

    /// This level below others; `field` is that of its rule, which is one of `namespace`.
    pub(crate) fn below(self, above: Option<&Above>, namespace: &str, field: &str) -> Effective {
        if above.is_none() && self.is_empty() {
            return Effective::default();
        }
        let nothing = Above::default();
        let above = above.unwrap_or(&nothing);
        let Fields { rewrite, traffic } = above.before.clone().or(self.fields).or(above.after.clone());
        let own = self.broken.map(|Broken { field: at, message }| (at.unwrap_or_else(|| field.into()), message));
        let handed_down = |(route, message): &(NsName, Arc<str>)| {
            // The policies of another namespace are not named: its owner is told of them on the route.
            let what = if *route.namespace == *namespace { message } else { "a policy is not valid or not there" };
            (field.into(), format!("HTTPRoute {route} hands down what is broken: {what}"))
        };
        let broken = own.or_else(|| above.broken.as_ref().map(handed_down));
        let mut policies = self.policies;
        join(&mut policies, &above.policies);
        Effective {
            broken: broken.map(|(field, message)| Problem::new(Severity::Replaced, "UnsupportedValue", field, message)),
            says: rewrite.or(traffic),
            policies,
        }
    }
}

fn join(policies: &mut Vec<(ObjectId, bool)>, more: &[(ObjectId, bool)]) {
    for policy in more {
        if !policies.contains(policy) {
            policies.push(policy.clone());
        }
    }
}

impl Lookup for RulePolicies {
    fn compute(scope: &Scope<'_>, (name, index): &(NsName, u32)) -> Option<(Level, bool)> {
        let rule = scope.get::<RouteRule>(&(name.clone(), *index))?;
        let extensions = rule.handling.as_ref().map_or(&[][..], |handling| &handling.extensions);
        let level = Level::of(scope, name, rule.name.as_ref(), extensions);
        let prefers_itself = scope.get::<RouteHead>(name)?.annotations.prefers_parent;
        (!level.is_empty()).then_some((level, prefers_itself))
    }
}

impl Lookup for HandedDown {
    fn compute(scope: &Scope<'_>, (chain, rule): &(Chain, u32)) -> Option<Above> {
        let above = chain.above().and_then(|(above, rule)| scope.get::<Self>(&(above.clone(), rule)));
        let mut above = above.map(|above| Above::clone(&above)).unwrap_or_default();
        if let Some(own) = scope.get::<RulePolicies>(&(chain.route().clone(), *rule)) {
            let (level, prefers_itself) = &*own;
            if *prefers_itself {
                above.before = above.before.or(level.fields.clone());
            }
            above.after = level.fields.clone().or(above.after);
            if let Some(Broken { message, .. }) = &level.broken {
                above.broken = Some((chain.route().clone(), message.as_str().into()));
            }
            let further = mem::replace(&mut above.policies, level.policies.clone());
            join(&mut above.policies, &further);
        }
        (above != Above::default()).then_some(above)
    }

    fn depth((chain, _): &(Chain, u32)) -> u32 {
        chain.depth()
    }
}

/// What the levels above a route come to where it stands.
pub(crate) fn above(scope: &Scope<'_>, chain: &Chain) -> Option<Arc<Above>> {
    let (above, rule) = chain.above()?;
    scope.get::<HandedDown>(&(above.clone(), rule))
}
