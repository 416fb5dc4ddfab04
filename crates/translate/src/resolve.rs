//! Rules with their references followed: the Envoy routes they become, and what is wrong.
//!
//! A rule is read, resolved and written in one go and only the outcome is kept: there are many of them.

use std::sync::Arc;

use engine::{Lookup, Scope};
use envoy::bytes::Row;
use ir::{
    Chain, ListenerId, Problem,
    delegation::PlacedMatch,
    matching::{Origin, Step},
    route::Unhandled,
};

use crate::{
    budget::cost::Cost,
    policy::{
        rule::Level,
        wide::{ActionsAt, WideActions},
    },
    tables::{
        backend::{ClusterId, SessionCluster, Shares},
        policy::Target,
    },
};
use placed_rule::PlacedRule;
pub(crate) use policies::{Policies, UnitOutcome};
use resolution::Resolution;
pub(crate) use unwritten::ANYWHERE;
use unwritten::{Priced, Unwritten};

mod as_much;
mod backends;
mod delegating;
mod placed_rule;
mod policies;
mod resolution;
mod session;
mod terms;
mod unwritten;

/// A rule as Envoy gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resolved {
    /// Its Envoy routes, one or more a match.
    pub(crate) routes: EnvoyRoutes,
    /// The clusters it sends to, each once, sorted.
    pub(crate) clusters: Box<[ClusterId]>,
    /// The backends over which sessions hold; they share a cluster.
    pub(crate) session: Option<Box<Shares>>,
    /// What its policies come to; most rules have none.
    pub(crate) policies: Option<Box<Policies>>,
    /// What is wrong with it; most rules have nothing.
    pub(crate) findings: Option<Box<Findings>>,
}

/// What is wrong with a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Findings {
    /// Matches that were dropped, and the fault that all of them were dropped for.
    pub(crate) dropped: Vec<Problem>,
    /// Whether no match is left.
    pub(crate) matches_nothing: bool,
    /// The fault that it was replaced for.
    pub(crate) replaced: Option<Problem>,
    /// Faults of single shares that answer 500 in their backend's place, though the backend resolves.
    pub(crate) shares: Vec<Problem>,
    /// Matches by their place in the rule that answer by themselves, since nothing can be delegated there, a policy cannot
    /// hold there, or Envoy cannot read what they become.
    pub(crate) closed: Vec<(u32, Problem)>,
    /// Matches that answer by themselves, since no child has anything there.
    pub(crate) empty: Vec<(u32, Problem)>,
    /// References that do not resolve.
    pub(crate) unresolved: Vec<Problem>,
    /// What works, though its author should look at it.
    pub(crate) warnings: Vec<Problem>,
}

/// The Envoy routes of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EnvoyRoutes {
    /// The same wherever the rule is served.
    Everywhere(Box<[EnvoyRoute]>),
    /// Others at each listener: what they are made from.
    ByListener(Box<Priced>),
}

/// One match of a rule, written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EnvoyRoute {
    /// Its place among all matches of its tree.
    pub(crate) steps: Arc<[Step]>,
    /// The order of what one match becomes ([`Part::order`](ir::matching::Part::order)).
    pub(crate) order: u32,
    /// The message.
    pub(crate) row: Row,
    /// What its regular expressions cost a request; most have none.
    pub(crate) cost: Option<Arc<Cost>>,
    /// What it takes of a proxy's memory, in bytes.
    pub(crate) memory: u64,
}

impl Resolved {
    /// Where the first Envoy route stands that it has for a match.
    fn place_of(&self, placed: &PlacedMatch) -> Option<Arc<[Step]>> {
        match &self.routes {
            EnvoyRoutes::Everywhere(routes) => {
                let place = routes.iter().find(|route| {
                    let origin = Origin::of(&route.steps, route.order).filter(|origin| origin.part.path == 0);
                    origin.is_some_and(|it| it.matching == placed.index && it.part.ordinal == placed.ordinal)
                });
                place.map(|route| route.steps.clone())
            }
            EnvoyRoutes::ByListener(_) => Some(placed.steps.clone()),
        }
    }

    /// Whether it has matches with regular expressions.
    pub(crate) fn costs_time(&self) -> bool {
        match &self.routes {
            EnvoyRoutes::Everywhere(routes) => routes.iter().any(|route| route.cost.is_some()),
            // Few redirect, and fewer ask.
            EnvoyRoutes::ByListener(_) => true,
        }
    }

    /// Why the rule serves nothing that it says, if so.
    pub(crate) fn fault(&self) -> Option<&Problem> {
        let findings = self.findings.as_ref()?;
        findings.replaced.as_ref().or(findings.dropped.first().filter(|_| findings.matches_nothing))
    }
}

tables! {
    /// Rules by route, where it stands, and place.
    ResolvedRule: (Chain, u32) => Resolved;
    /// Those that send to backends once more, as what policies of a Gateway or listener say of their action has them.
    ResolvedAt: (Chain, u32, Target) => Resolved;
}

impl Lookup for ResolvedRule {
    fn compute(scope: &Scope<'_>, key: &(Chain, u32)) -> Option<Resolved> {
        resolve(scope, key, None)
    }

    /// It answers 500 to what it matches. The children of one that delegates go on.
    fn poisoned(scope: &Scope<'_>, key: &(Chain, u32), _: &engine::Fault) -> Option<Resolved> {
        Some(PlacedRule::of(scope, key)?.closed(scope))
    }

    fn depth((chain, _): &(Chain, u32)) -> u32 {
        as_much::from_below(chain)
    }
}

impl Lookup for ResolvedAt {
    fn compute(scope: &Scope<'_>, (chain, rule, actions): &Self::Key) -> Option<Resolved> {
        resolve(scope, &(chain.clone(), *rule), scope.get::<WideActions>(actions))
    }

    fn poisoned(scope: &Scope<'_>, (chain, rule, _): &Self::Key, _: &engine::Fault) -> Option<Resolved> {
        Some(PlacedRule::of(scope, &(chain.clone(), *rule))?.closed(scope))
    }
}

/// A rule as a listener serves it.
pub(crate) fn resolved_at(
    scope: &Scope<'_>,
    (chain, rule, listener): &(Chain, u32, ListenerId),
) -> Option<Arc<Resolved>> {
    let key = (chain.clone(), *rule);
    let resolved = scope.get::<ResolvedRule>(&key)?;
    // What sends nothing to a backend has no action that policies of a Gateway say more of.
    if resolved.clusters.is_empty() {
        return Some(resolved);
    }
    match scope.get::<ActionsAt>(listener) {
        None => Some(resolved),
        Some(actions) => scope.get::<ResolvedAt>(&(key.0, *rule, Target::clone(&actions))),
    }
}

/// A rule; `wide` is what policies of where it is served say of its action.
fn resolve(scope: &Scope<'_>, key: &(Chain, u32), wide: Option<Arc<Level>>) -> Option<Resolved> {
    let placed = PlacedRule::of(scope, key)?;
    let handling = match &placed.spec.handling {
        Ok(handling) => Ok(handling),
        Err(Unhandled::Invalid(problem)) => Err(problem),
        Err(Unhandled::Unknown) => return Some(placed.closed(scope)),
    };
    Some(Resolution::new(scope, &placed, wide).resolve(handling))
}

impl Lookup for SessionCluster {
    fn compute(scope: &Scope<'_>, key: &(Chain, u32)) -> Option<Shares> {
        Some(Shares::clone(scope.get::<ResolvedRule>(key)?.session.as_ref()?))
    }
}

impl Findings {
    fn tell_anything(&self) -> bool {
        let nothing = Self { matches_nothing: self.matches_nothing, ..Self::default() };
        *self != nothing
    }
}
