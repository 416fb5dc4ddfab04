//! Rules with their references followed: the Envoy routes they become, and what is wrong.
//!
//! A rule is read, resolved and written in one go and only the outcome is kept: there are many of them.

use std::{borrow::Cow, sync::Arc};

use engine::{Engine, Lookup, Scope, Table};
use envoy::{bytes::Row, route::RouteAt};
use ir::{
    Chain, ListenerId, NsName, Problem,
    backend::Destination,
    delegation::PlacedMatch,
    matching::{Origin, Step},
    route::Unhandled,
    rule::ExtensionEntry,
};

use crate::{
    budget::cost::Cost,
    policy::wide::{ActionsAt, SlotWordAt, WidePriority, section},
    tables::{
        attachment::Attachment,
        backend::{ClusterId, SessionCluster, Shares},
        policy::Target,
        strict::PartId,
    },
};
use placed_rule::PlacedRule;
pub(crate) use policies::Policies;
use resolution::Resolution;
use unwritten::Unwritten;
pub(crate) use unwritten::{ANYWHERE, Priced};

mod backends;
mod covering;
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
    /// The entries of extensions to which its slots refer, each once, sorted.
    pub(crate) entries: Box<[ExtensionEntry]>,
    /// Whether its Envoy routes may say anything that [their route configuration may say for them](crate::alike).
    pub(crate) says_alike: bool,
    /// What it would need, and answers by itself for want of: some of that is refused by Envoy, and asked for until it is not.
    pub(crate) lacks: Box<[PartId]>,
    /// The backends over which sessions hold; they share a cluster.
    pub(crate) session: Option<Box<Shares>>,
    /// What its policies come to; most rules have none.
    pub(crate) policies: Option<Box<Policies>>,
    /// What is wrong with it; most rules have nothing.
    pub(crate) findings: Option<Arc<Findings>>,
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
    /// Backends of which the policy of TLS is not valid, among these.
    pub(crate) closed_backends: Vec<Destination>,
    /// What works, though its author should look at it.
    pub(crate) warnings: Vec<Problem>,
}

/// What is wrong with a rule, in all ways in which listeners serve it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// Whether there is no such rule, or none that anything is delegated to.
    pub(crate) is_nowhere: bool,
    /// Why it serves nothing that it says, wherever it is served; none where it does somewhere.
    pub(crate) fault: Option<Problem>,
    /// Each way's.
    pub(crate) all: Box<[Arc<Findings>]>,
    /// Whether it has matches with regular expressions.
    pub(crate) costs_time: bool,
}

/// The Envoy routes of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EnvoyRoutes {
    /// The same wherever the rule is served.
    Everywhere(Box<[EnvoyRoute]>),
    /// Others at each listener, or too large to be kept: what they are made from.
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
    /// Of an expression, the path prefix at or below which all lies that it matches, where an ancestor has one.
    pub(crate) below: Option<Arc<str>>,
    /// What would be in its place if no Envoy refused that.
    pub(crate) refused: Option<Box<Row>>,
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

    /// Whether it has any Envoy routes.
    pub(crate) fn has_routes(&self) -> bool {
        match &self.routes {
            EnvoyRoutes::Everywhere(routes) => !routes.is_empty(),
            EnvoyRoutes::ByListener(_) => true,
        }
    }

    /// Whether its Envoy routes are kept as they are written.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn is_written(&self) -> bool {
        matches!(self.routes, EnvoyRoutes::Everywhere(_))
    }

    /// Its Envoy routes at a listener; of a rule that is written for each they are written for the caller alone.
    pub(crate) fn routes_at(&self, at: RouteAt) -> Cow<'_, [EnvoyRoute]> {
        match &self.routes {
            EnvoyRoutes::Everywhere(routes) => Cow::Borrowed(routes),
            EnvoyRoutes::ByListener(unwritten) => Cow::Owned(unwritten.write(at, &mut Vec::new()).into_vec()),
        }
    }

    /// What of it cannot be sent at a listener as it is written there, and is no finding of the rule.
    pub(crate) fn problems_at(&self, at: RouteAt) -> Vec<(u32, Problem)> {
        let mut problems = Vec::new();
        if let EnvoyRoutes::ByListener(unwritten) = &self.routes {
            unwritten.write(at, &mut problems);
        }
        problems
    }

    /// Where policies of a listener or its Gateway say what it does there, if any do.
    fn told_at(&self, reader: &impl Reader, listener: &ListenerId) -> Option<Target> {
        let policies = self.policies.as_deref();
        if policies.is_some_and(|policies| policies.asks_listeners) {
            return Some(section(listener));
        }
        let is_closed = policies.is_some_and(|policies| policies.is_closed);
        // What sends nothing to a backend has no action that policies of a Gateway say more of.
        let acts = !self.clusters.is_empty() || is_closed;
        let actions = acts.then(|| reader.row::<ActionsAt>(listener)).flatten();
        let slots = policies.map_or(&[][..], |policies| &policies.slots);
        let any = !slots.is_empty() && reader.row::<WidePriority>(&listener.gateway).is_some();
        let slots = slots.iter().filter(|_| any);
        let words = slots.filter_map(|field| reader.row::<SlotWordAt>(&(listener.clone(), *field)));
        // Of both the listener, which has what its Gateway says behind.
        let target = actions.into_iter().chain(words).max_by_key(|target| target.section.is_some())?;
        Some(Target::clone(&target))
    }

    /// Whether it may do less than another one: all of it answers by itself, or a part of it does that did not. Which rule of its
    /// route it is makes no difference.
    pub(crate) fn is_worse_than(&self, other: &Self) -> bool {
        let Some(findings) = &self.findings else { return false };
        let none = Findings::default();
        let before = other.findings.as_deref().unwrap_or(&none);
        let is_new = |problem: &Problem, before: &[Problem]| !before.iter().any(|known| is_same(known, problem));
        let is_any_new = |now: &[Problem], before: &[Problem]| now.iter().any(|problem| is_new(problem, before));
        let closed_before: Vec<_> = before.closed.iter().map(|(_, problem)| problem.clone()).collect();
        self.fault().is_some()
            || is_any_new(&findings.shares, &before.shares)
            || is_any_new(&findings.unresolved, &before.unresolved)
            || findings.closed.iter().any(|(_, problem)| is_new(problem, &closed_before))
    }

    /// Where it sends requests.
    pub(crate) fn destinations(&self) -> impl Iterator<Item = Destination> {
        let of_session = self.session.iter().flat_map(|session| session.shares.iter().map(|(to, _)| to.clone()));
        self.clusters.iter().filter_map(ClusterId::to).chain(of_session)
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
    /// Those once more of which policies of a Gateway or listener say what they do: of what is part of a route's action, and
    /// of slots by the word of the Gateway.
    ResolvedAt: (Chain, u32, Target) => Resolved;
    /// What statuses have to know of a rule; absent where nothing is wrong with it, wherever it is served. What else becomes
    /// of it wakes none of them.
    RuleFindings: (Chain, u32) => Found;
}

impl Lookup for ResolvedRule {
    fn compute(scope: &Scope<'_>, key: &(Chain, u32)) -> Option<Resolved> {
        resolve(scope, key, By::Routes)
    }

    /// It answers by itself to what it matches. The children of one that delegates go on.
    fn poisoned(scope: &Scope<'_>, key: &(Chain, u32), _: &engine::Fault) -> Option<Resolved> {
        Some(PlacedRule::of(scope, key)?.closed(scope))
    }

    fn depth((chain, _): &(Chain, u32)) -> u32 {
        covering::from_below(chain)
    }
}

impl Lookup for ResolvedAt {
    fn compute(scope: &Scope<'_>, (chain, rule, at): &Self::Key) -> Option<Resolved> {
        resolve(scope, &(chain.clone(), *rule), By::All(at))
    }

    fn poisoned(scope: &Scope<'_>, (chain, rule, _): &Self::Key, _: &engine::Fault) -> Option<Resolved> {
        Some(PlacedRule::of(scope, &(chain.clone(), *rule))?.closed(scope))
    }
}

/// Who reads rows: a row, or who looks from outside.
pub(crate) trait Reader {
    /// A row of a table.
    fn row<T: Table>(&self, key: &T::Key) -> Option<Arc<T::Value>>;
}

impl Reader for Scope<'_> {
    fn row<T: Table>(&self, key: &T::Key) -> Option<Arc<T::Value>> {
        self.get::<T>(key)
    }
}

impl Reader for Engine {
    fn row<T: Table>(&self, key: &T::Key) -> Option<Arc<T::Value>> {
        self.get::<T>(key)
    }
}

/// A rule as a listener serves it.
pub(crate) fn resolved_at(scope: &Scope<'_>, key: &(Chain, u32, ListenerId)) -> Option<Arc<Resolved>> {
    served_at(scope, key)
}

/// The same for whoever reads it.
pub(crate) fn served_at(
    reader: &impl Reader,
    (chain, rule, listener): &(Chain, u32, ListenerId),
) -> Option<Arc<Resolved>> {
    let resolved = reader.row::<ResolvedRule>(&(chain.clone(), *rule))?;
    match resolved_for(reader, (chain, *rule), &resolved, listener) {
        None => Some(resolved),
        Some(target) => reader.row::<ResolvedAt>(&(chain.clone(), *rule, target)),
    }
}

/// Where it is found out what a rule does at a listener, if policies of that or of its Gateway say so: for all of the Gateway, unless
/// that depends on the listener.
fn resolved_for(
    reader: &impl Reader,
    (chain, rule): (&Chain, u32),
    resolved: &Resolved,
    listener: &ListenerId,
) -> Option<Target> {
    let target = resolved.told_at(reader, listener)?;
    if target.section.is_some() {
        return Some(target);
    }
    let there = reader.row::<ResolvedAt>(&(chain.clone(), rule, target.clone()));
    let asks = there.is_some_and(|there| there.policies.as_ref().is_some_and(|policies| policies.asks_listeners));
    Some(if asks { section(listener) } else { target })
}

/// A rule as listeners serve it, each way once; as it is where none does. Most are the same everywhere. `gateway` leaves those
/// of others out.
pub(crate) fn ways(scope: &Scope<'_>, chain: &Chain, rule: u32, gateway: Option<&NsName>) -> Vec<Arc<Resolved>> {
    let Some(resolved) = scope.get::<ResolvedRule>(&(chain.clone(), rule)) else { return Vec::new() };
    let attached = scope.get::<Attachment>(chain.top());
    let listeners = attached.iter().flat_map(|attached| &attached.served);
    let listeners = listeners.filter(|listener| gateway.is_none_or(|gateway| listener.gateway == *gateway));
    let mut told: Vec<_> = listeners.map(|listener| resolved_for(scope, (chain, rule), &resolved, listener)).collect();
    told.sort_unstable();
    told.dedup();
    let way = |at: Option<Target>| match at {
        None => Some(resolved.clone()),
        Some(target) => scope.get::<ResolvedAt>(&(chain.clone(), rule, target)),
    };
    if told.is_empty() { vec![resolved] } else { told.into_iter().filter_map(way).collect() }
}

impl Lookup for RuleFindings {
    fn compute(scope: &Scope<'_>, (chain, rule): &(Chain, u32)) -> Option<Found> {
        let ways = ways(scope, chain, *rule, None);
        let found = Found {
            is_nowhere: ways.is_empty(),
            fault: ways.iter().map(|way| way.fault()).reduce(Option::and).flatten().cloned(),
            all: ways.iter().filter_map(|way| way.findings.clone()).collect(),
            costs_time: ways.iter().any(|way| way.costs_time()),
        };
        (found.is_nowhere || found.costs_time || !found.all.is_empty()).then_some(found)
    }
}

/// Whose policies count.
#[derive(Clone, Copy)]
enum By<'a> {
    /// Nobody's: for what they say nothing of.
    Nobody,
    /// Those of routes.
    Routes,
    /// Those of a Gateway, or of a listener and its Gateway, too.
    All(&'a Target),
}

/// A rule by the policies that count.
fn resolve(scope: &Scope<'_>, key: &(Chain, u32), by: By<'_>) -> Option<Resolved> {
    let placed = PlacedRule::of(scope, key)?;
    let handling = match &placed.spec.handling {
        Ok(handling) => Ok(handling),
        Err(Unhandled::Invalid(problem)) => Err(problem),
        Err(Unhandled::Unknown) => return Some(placed.closed(scope)),
    };
    Some(Resolution::new(scope, &placed, by).resolve(handling))
}

impl Lookup for SessionCluster {
    fn compute(scope: &Scope<'_>, key: &(Chain, u32)) -> Option<Shares> {
        let resolved = scope.get::<ResolvedRule>(key)?;
        if let Some(shares) = &resolved.session {
            return Some(Shares::clone(shares));
        }
        // Where a broken unit closes it, it may be served at a Gateway that prefers its own.
        let is_closed = resolved.policies.as_ref().is_some_and(|policies| policies.is_closed);
        let sound = is_closed.then(|| resolve(scope, key, By::Nobody)).flatten()?;
        sound.session.map(|shares| *shares)
    }
}

/// Whether two problems of a rule are one, wherever in its route the rule stands.
fn is_same(one: &Problem, other: &Problem) -> bool {
    let in_rule = |problem: &Problem| problem.field.split_once(']').map(|(_, field)| field.to_owned());
    (one.reason, &one.message, in_rule(one)) == (other.reason, &other.message, in_rule(other))
}

impl Findings {
    fn tell_anything(&self) -> bool {
        let nothing = Self { matches_nothing: self.matches_nothing, ..Self::default() };
        *self != nothing
    }
}
