//! A rule as its own text and the matches of its parents decide it.

use std::sync::Arc;

use engine::Scope;
use ir::{
    Chain, Problem, Settings, Severity,
    delegation::{Level, PlacedMatch, SortMethod},
    route::{Head, RuleSpec},
    rule::Rule,
};

use super::{ANYWHERE, EnvoyRoutes, Findings, Resolved, unwritten::Unwritten};
use crate::{
    budget::cost::{Limits, Meter},
    delegation::{PlacedRoute, excess_fault},
    internal,
    tables::{
        delegation::{Excess, ServedChain, Serving},
        gateway::Fault,
        input::{self, Config},
        replacement::RefusedRows,
        route::{RouteHead, RouteRule},
        terms::Terms,
    },
};

/// A rule where its route stands, before any reference is followed.
pub(super) struct PlacedRule<'a> {
    /// Where its route stands, and its place in the route.
    pub(super) key: &'a (Chain, u32),
    /// What the route says outside its rules.
    pub(super) head: Arc<Head>,
    /// What the rule says.
    pub(super) spec: Arc<RuleSpec>,
    /// What the route is at its place.
    pub(super) route: PlacedRoute,
    /// `spec.rules[N]`.
    pub(super) field: String,
    pub(super) config: Arc<Settings>,
    /// The Envoy routes of its route that an Envoy refuses.
    refused: Option<Arc<RefusedRows>>,
}

impl<'a> PlacedRule<'a> {
    /// None where there is no such rule, or nothing is delegated to its route.
    pub(super) fn of(scope: &Scope<'_>, key: &'a (Chain, u32)) -> Option<Self> {
        let (chain, index) = key;
        let head = scope.get::<RouteHead>(chain.route())?;
        let spec = scope.get::<RouteRule>(&(chain.route().clone(), *index))?;
        let route = PlacedRoute::of(scope, chain, &head)?;
        let config = scope.get::<Config>(&())?;
        // What a proxy refused is the same words, whichever version of the tree has them.
        let by_proxies = scope.get::<input::RefusedByProxies>(&chain.route().live());
        let refused = match (scope.get::<input::RefusedRows>(chain.route()), by_proxies) {
            (Some(refused), Some(by_proxies)) => Some(Arc::new(refused.joined(&by_proxies))),
            (refused, by_proxies) => refused.or(by_proxies),
        };
        Some(Self { key, head, spec, route, field: format!("spec.rules[{index}]"), config, refused })
    }

    /// The rule with its matches, answering as a broken one until more is known of it.
    pub(super) fn unwritten(&self) -> Unwritten {
        let (chain, index) = self.key;
        Unwritten {
            chain: chain.clone(),
            index: *index,
            name: self.spec.name.clone(),
            matches: self.route.place(*index, &self.spec.matches).matches,
            rule: Rule::broken(chain.route().kind),
            states: 0,
            refused: self.refused.clone(),
        }
    }

    /// What is wrong with it by its own text, replaced or not.
    pub(super) fn findings(&self) -> Findings {
        let RuleSpec { dropped, ignored, .. } = &*self.spec;
        Findings { dropped: dropped.to_vec(), warnings: ignored.to_vec(), ..Findings::default() }
    }

    /// What is asked of it and its children.
    pub(super) fn terms(&self, scope: &Scope<'_>) -> Result<Terms, Problem> {
        self.route.terms(scope, self.key.0.route(), &self.head, self.spec.name.as_ref())
    }

    /// Refuses a rule whose route serves nothing at its place.
    pub(super) fn served(&self, scope: &Scope<'_>) -> Result<(), Problem> {
        let no_room = || no_room(scope, &self.key.0, &self.config);
        match self.route.fault.clone().or_else(no_room) {
            Some(Fault { reason, field, message }) => Err(Problem::new(Severity::Replaced, reason, field, message)),
            None => Ok(()),
        }
    }

    /// What the rules above hand down, from the root on.
    pub(super) fn levels(&self) -> Vec<&Level> {
        self.route.above.iter().flat_map(|above| above.levels.iter().map(AsRef::as_ref)).collect()
    }

    /// The rule as it answers by itself to what it matches, where nobody knows what it does.
    pub(super) fn closed(&self, scope: &Scope<'_>) -> Resolved {
        let mut unwritten = self.unwritten();
        if self.head.rules.get(self.key.1 as usize).is_some_and(|rule| rule.delegates) {
            let terms = scope.attempt(|| self.terms(scope));
            let sort = terms.ok().and_then(Result::ok).map_or_else(SortMethod::default, |terms| terms.sort);
            let behind = |placed: &PlacedMatch| placed.behind_all(sort);
            unwritten.matches = unwritten.matches.iter().map(behind).collect();
        }
        let mut findings = Findings {
            matches_nothing: unwritten.matches.is_empty(),
            replaced: Some(internal::problem(Severity::Replaced, &self.field)),
            warnings: Vec::new(),
            ..self.findings()
        };
        let limits = Limits::of(&self.config);
        let priced = scope.attempt(|| unwritten.clone().priced(&mut Meter::new(scope, limits)));
        // An expression may be what fails: without a price it is left out, and all else of the rule stands.
        let routes = priced.unwrap_or_else(|_| unwritten.unpriced()).write(ANYWHERE, &mut findings.closed);
        Resolved {
            routes: EnvoyRoutes::Everywhere(routes),
            clusters: Box::default(),
            entries: Box::default(),
            says_alike: false,
            lacks: Box::default(),
            session: None,
            policies: None,
            findings: Some(Arc::new(findings)),
        }
    }
}

/// Why a route answers by itself at its place for want of room in its tree, if so.
fn no_room(scope: &Scope<'_>, chain: &Chain, config: &Settings) -> Option<Fault> {
    chain.above()?;
    let closed = *scope.get::<ServedChain>(chain)? == Serving::Closed;
    closed.then(|| excess_fault(config.delegation.max_matches, Excess::Closed))
}
