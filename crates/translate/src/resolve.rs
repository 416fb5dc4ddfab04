//! Rules with their references followed: the Envoy routes they become, and what is wrong.
//!
//! A rule is read, resolved and written in one go and only the outcome is kept: there are many of them.

use std::{borrow::Cow, sync::Arc};

use engine::{Lookup, Scope};
use envoy::{
    bytes::Row,
    route::{self, RouteAt},
};
use ir::{
    Chain, Problem, Reason, Severity,
    delegation::{Level, Rendered, SortMethod},
    filter::{PathModifier, Scheme},
    matching::{Part, Path, RequestMatch, Step},
    route::{Handling, Unhandled},
    rule::{HTTP_ROUTE, Rule, Source},
    settings::Replacement,
};

use crate::{
    budget::cost::{Cost, Limits, Meter, Taken, affordable, unpriced},
    delegation::{Outcome, PlacedRoute, beyond_fault, combine, not_allowed},
    internal,
    policy::rule::effective,
    tables::{
        backend::{ClusterId, SessionCluster, Shares},
        delegation::{Beyond, ServedChain, Serving},
        gateway::Fault,
        input::Config,
        route::{RouteHead, RouteRule},
    },
    weight,
};
use backends::Resolver;
pub(crate) use policies::{Policies, UnitOutcome};

mod backends;
mod delegating;
mod policies;
mod session;
mod terms;

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
    /// Matches that answer by themselves, since nothing can be delegated there, a policy cannot hold there, or Envoy
    /// cannot read what they become.
    pub(crate) closed: Vec<Problem>,
    /// Matches that answer by themselves, since no child has anything there.
    pub(crate) empty: Vec<Problem>,
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
    /// The order of what one match becomes ([`Part::order`]).
    pub(crate) order: u32,
    /// The message.
    pub(crate) row: Row,
    /// What its regular expressions cost a request; most have none.
    pub(crate) cost: Option<Box<Cost>>,
    /// What it takes of a proxy's memory, in bytes.
    pub(crate) memory: u64,
}

/// A rule that nothing is missing from but what it costs, and the listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unwritten {
    chain: Chain,
    index: u32,
    name: Option<Arc<str>>,
    matches: Vec<Rendered>,
    rule: Rule,
    /// What a proxy builds of the rule's own expressions while requests meet them, in bytes.
    states: u64,
}

impl Unwritten {
    /// Has the rule answer by itself, or match nothing where nothing shall be replaced.
    fn replace(&mut self, problem: Problem, replacement: &Replacement, findings: &mut Findings) {
        if replacement.enabled {
            findings.replaced = Some(problem);
        } else {
            self.matches.clear();
            findings.dropped.insert(0, Problem { severity: Severity::Refused, ..problem });
        }
        self.rule = Rule::direct_response(replacement.status, replacement.body.clone());
    }

    /// The rule with what the expressions of its matches cost.
    fn priced(self, meter: &mut Meter<'_, '_>) -> Priced {
        let taken = self.matches.iter().map(|rendered| meter.matching(&rendered.written)).collect();
        Priced { unwritten: self, taken }
    }

    /// The same where nobody knows: too much.
    fn unpriced(self) -> Priced {
        let taken = self.matches.iter().map(|rendered| unpriced(&rendered.written)).collect();
        Priced { unwritten: self, taken }
    }

    /// Its Envoy routes and those that stand excluded. What cannot be read is told here, for all listeners.
    fn routes(self, excluded: Vec<EnvoyRoute>, meter: &mut Meter<'_, '_>, findings: &mut Findings) -> EnvoyRoutes {
        let priced = self.priced(meter);
        let routes = priced.write(ANYWHERE, &mut findings.closed);
        if route::depends_on_listener(&priced.unwritten.rule) {
            EnvoyRoutes::ByListener(Box::new(priced))
        } else {
            EnvoyRoutes::Everywhere(routes.into_iter().chain(excluded).collect())
        }
    }
}

/// A rule that nothing is missing from but the listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Priced {
    unwritten: Unwritten,
    /// What the expressions of each match take; none where it has none.
    taken: Box<[Option<Taken>]>,
}

impl Priced {
    /// The rule, answering 500 by itself, which is the same at every listener.
    pub(crate) fn closed(mut self) -> Self {
        self.unwritten.rule = Rule::direct_response(500, "");
        self.unwritten.states = 0;
        self
    }

    /// The rule's Envoy routes at a listener. What Envoy could not read answers 500 in its place, and is told.
    pub(crate) fn write(&self, at: RouteAt, told: &mut Vec<Problem>) -> Box<[EnvoyRoute]> {
        let unwritten = &self.unwritten;
        let split = route::splits_by_host_port(&unwritten.rule, at);
        let requests = unwritten.matches.iter().zip(&self.taken).flat_map(|(rendered, taken)| {
            let parts = rendered.written.requests().zip(0..);
            parts.map(move |(request, part)| (rendered, *taken, part, request))
        });
        let mut routes = Vec::new();
        for (rendered, taken, part, request) in requests {
            if split {
                let request = RequestMatch { host_with_port: true, ..request.clone() };
                routes.extend(unwritten.envoy_route(rendered, taken, part, &request, at, told));
            }
            routes.extend(unwritten.envoy_route(rendered, taken, part, &request, at, told));
        }
        routes.into()
    }
}

impl Unwritten {
    fn envoy_route(
        &self,
        rendered: &Rendered,
        taken: Option<Taken>,
        part: u32,
        request: &RequestMatch,
        at: RouteAt,
        told: &mut Vec<Problem>,
    ) -> Option<EnvoyRoute> {
        let part = Part { ordinal: rendered.ordinal, path: part, host_with_port: request.host_with_port };
        let source = Source {
            kind: HTTP_ROUTE,
            route: self.chain.route().clone(),
            rule: self.index,
            rule_name: self.name.clone(),
            matching: rendered.index,
            part: part.number(),
        };
        let row = match route::route(&source, request, &self.rule, at) {
            Ok(row) => row,
            Err(unreadable) => {
                let alone = route::route(&source, request, &Rule::direct_response(500, ""), at);
                let severity = if alone.is_ok() { Severity::Replaced } else { Severity::Refused };
                let field = format!("spec.rules[{}].matches[{}]", self.index, rendered.index);
                let message = format!("Envoy cannot read the route that it becomes with its rule: {unreadable}");
                told.push(Problem::new(severity, Reason::UnsupportedValue, field, message));
                told.dedup();
                alone.ok()?
            }
        };
        let mut steps = rendered.steps.clone();
        // The parts of one match do not ask for equally much.
        if let (Some(Step::At(first)), true) = (steps.last(), part.path > 0)
            && first.specificity.is_some()
        {
            let mut parted = steps.to_vec();
            if let Some(Step::At(at)) = parted.last_mut() {
                at.specificity = Some(request.specificity());
            }
            steps = parted.into();
        }
        let prefix = || route::guard(request).unwrap_or_default().into();
        let cost = taken.map(|taken| Box::new(Cost { prefix: prefix(), nanos: taken.nanos }));
        let memory = weight::route(&row) + weight::of_rule(&self.rule) + self.states + weight::of_match(request, taken);
        Some(EnvoyRoute { steps, order: part.order(), row, cost, memory })
    }
}

impl Resolved {
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
}

impl Lookup for ResolvedRule {
    fn compute(scope: &Scope<'_>, key: &(Chain, u32)) -> Option<Resolved> {
        let (chain, index) = key;
        let route = scope.get::<RouteHead>(chain.route())?;
        let rule = scope.get::<RouteRule>(&(chain.route().clone(), *index))?;
        let field = format!("spec.rules[{index}]");
        let placed = PlacedRoute::of(scope, chain, &route)?;
        let Outcome { matches, .. } = placed.render(*index, &rule.matches);
        let config = scope.get::<Config>(&())?;
        let mut findings =
            Findings { dropped: rule.dropped.to_vec(), warnings: rule.ignored.to_vec(), ..Findings::default() };
        let mut unwritten = Unwritten {
            chain: chain.clone(),
            index: *index,
            name: rule.name.clone(),
            matches,
            rule: Rule::direct_response(500, ""),
            states: 0,
        };
        let mut meter = Meter::new(scope, Limits::of(&config));
        if let Some(session) = rule.handling.as_ref().ok().and_then(|handling| handling.fields.session.as_ref()) {
            findings.warnings.push(session::warning(session, &field));
        }
        let extensions = rule.handling.as_ref().map_or(&[][..], |handling| &handling.extensions);
        let effective = effective(scope, chain, unwritten.name.as_ref(), extensions, &field);
        let mut policies = Policies::default();
        let mut prefixless = Vec::new();
        let mut states = 0;
        let mut resolver = Resolver::new(scope, key);
        let terms = placed.terms(scope, chain.route(), &route, unwritten.name.as_ref());
        let handling = match &rule.handling {
            Ok(handling) => Ok(Cow::Borrowed(handling)),
            Err(Unhandled::Invalid(problem)) => Err(problem.clone()),
            Err(Unhandled::Unknown) => return closed(scope, key),
        };
        let ruled = handling.and_then(|handling| {
            let terms = terms?;
            let closed = placed.fault.is_none().then(|| no_room(scope, chain)).flatten();
            if let Some(fault) = placed.fault.as_ref().or(closed.as_ref()) {
                return Err(Problem::new(Severity::Replaced, fault.reason, &fault.field, &fault.message));
            }
            if let Some(broken) = &effective.broken {
                return Err(broken.clone());
            }
            if !handling.delegates.is_empty() {
                let not_allowed = not_allowed(&placed, &terms, chain.route(), &handling);
                if !not_allowed.is_empty() {
                    resolver.unresolved.extend(not_allowed);
                    return Ok(Ok(Rule::direct_response(500, "")));
                }
                resolver.handed_down(&handling.fields.mirrors);
                return Ok(Err(handling));
            }
            let handling = terms::apply(handling, &terms, &chain.route().namespace, &field)?;
            let not_allowed = not_allowed(&placed, &terms, chain.route(), &handling);
            if !not_allowed.is_empty() {
                resolver.unresolved.extend(not_allowed);
                return Ok(Ok(Rule::direct_response(500, "")));
            }
            let levels = placed.above.iter().flat_map(|above| above.levels.iter().map(AsRef::<Level>::as_ref));
            let mut handling = combine(handling, &levels.collect::<Vec<_>>(), &field)?;
            replaceable(&handling, &unwritten.matches, &field)?;
            prefixless = policies.apply(&effective, &mut handling, &mut unwritten.matches, &field)?;
            states = affordable(&handling, &mut meter, &field)?.memory;
            resolver.rule(&handling).map(Ok)
        });
        let delegates = match ruled {
            Ok(Ok(rule)) => {
                (unwritten.rule, unwritten.states) = (rule, states);
                session::place(&mut unwritten.rule, &unwritten.matches);
                None
            }
            Ok(Err(handling)) => Some(handling),
            Err(problem) => {
                resolver.clear();
                unwritten.replace(problem, &config.replacement, &mut findings);
                None
            }
        };
        findings.matches_nothing = unwritten.matches.is_empty();
        let excluded = policies::excluded(prefixless, &unwritten, &mut meter, &config.replacement, &mut findings);
        let Resolver { mut clusters, session, shares, unresolved, warnings, .. } = resolver;
        clusters.sort();
        clusters.dedup();
        findings.shares = shares;
        findings.unresolved = unresolved;
        findings.warnings.extend(warnings);
        let routes = match delegates {
            Some(handling) => {
                EnvoyRoutes::Everywhere(delegating::answers(scope, &unwritten, &handling, &mut meter, &mut findings))
            }
            None => unwritten.routes(excluded, &mut meter, &mut findings),
        };
        findings.dropped.extend(meter.gave_up(&field));
        Some(Resolved {
            routes,
            clusters: clusters.into(),
            session: session.map(Box::new),
            policies: policies.found(effective),
            findings: findings.tell_anything().then(|| Box::new(findings)),
        })
    }

    /// It answers 500 to what it matches. The children of one that delegates go on.
    fn poisoned(scope: &Scope<'_>, key: &(Chain, u32), _: &engine::Fault) -> Option<Resolved> {
        closed(scope, key)
    }
}

/// A rule of which nobody knows what it does, as it answers 500 to what it matches.
fn closed(scope: &Scope<'_>, (chain, index): &(Chain, u32)) -> Option<Resolved> {
    let route = scope.get::<RouteHead>(chain.route())?;
    let rule = scope.get::<RouteRule>(&(chain.route().clone(), *index))?;
    let field = format!("spec.rules[{index}]");
    let placed = PlacedRoute::of(scope, chain, &route)?;
    let mut matches = placed.render(*index, &rule.matches).matches;
    if route.rules.get(*index as usize)?.delegates {
        let terms = scope.attempt(|| placed.terms(scope, chain.route(), &route, rule.name.as_ref()));
        let sort = terms.ok().and_then(Result::ok).map_or_else(SortMethod::default, |terms| terms.sort);
        matches = matches.iter().map(|rendered| rendered.behind(sort, true)).collect();
    }
    let unwritten = Unwritten {
        chain: chain.clone(),
        index: *index,
        name: rule.name.clone(),
        matches,
        rule: Rule::direct_response(500, ""),
        states: 0,
    };
    let limits = Limits::of(&*scope.get::<Config>(&())?);
    let replaced = Some(internal::problem(Severity::Replaced, &field));
    let dropped = rule.dropped.to_vec();
    let mut findings =
        Findings { dropped, matches_nothing: unwritten.matches.is_empty(), replaced, ..Findings::default() };
    let priced = scope.attempt(|| unwritten.clone().priced(&mut Meter::new(scope, limits)));
    // An expression may be what fails: without a price it is left out, and all else of the rule stands.
    let routes = priced.unwrap_or_else(|_| unwritten.unpriced()).write(ANYWHERE, &mut findings.closed);
    Some(Resolved {
        routes: EnvoyRoutes::Everywhere(routes),
        clusters: Box::default(),
        session: None,
        policies: None,
        findings: Some(Box::new(findings)),
    })
}

/// Why a route answers by itself at its place for want of room in its tree, if so.
fn no_room(scope: &Scope<'_>, chain: &Chain) -> Option<Fault> {
    chain.above()?;
    let closed = *scope.get::<ServedChain>(chain)? == Serving::Closed;
    let bound = scope.get::<Config>(&())?.delegation.max_matches;
    closed.then(|| beyond_fault(bound, Beyond::Closed))
}

/// For what is the same at every listener.
pub(crate) const ANYWHERE: RouteAt = RouteAt { scheme: Scheme::Http, port: 0 };

impl Findings {
    fn tell_anything(&self) -> bool {
        let nothing = Self { matches_nothing: self.matches_nothing, ..Self::default() };
        *self != nothing
    }
}

/// Refuses to replace a prefix where, its parents counted in, a match has none.
fn replaceable(handling: &Handling, matches: &[Rendered], field: &str) -> Result<(), Problem> {
    let of_redirect = handling.redirect.as_ref().and_then(|redirect| redirect.path.as_ref());
    let of_rewrite = handling.fields.rewrite.as_ref().and_then(|rewrite| rewrite.path.as_ref());
    let modifiers = [of_rewrite, of_redirect];
    let replaces = modifiers.into_iter().flatten().any(|modifier| matches!(modifier, PathModifier::Prefix(_)));
    let all = || matches.iter().all(|rendered| matches!(rendered.written.path, Path::Prefix(_)));
    if replaces && !all() {
        let message = "there is no prefix to replace, since with those of the parents not every match of the rule is a \
                       PathPrefix; make them so, or use ReplaceFullPath";
        return Err(Problem::new(Severity::Replaced, Reason::IncompatibleFilters, format!("{field}.filters"), message));
    }
    Ok(())
}

impl Lookup for SessionCluster {
    fn compute(scope: &Scope<'_>, key: &(Chain, u32)) -> Option<Shares> {
        Some(Shares::clone(scope.get::<ResolvedRule>(key)?.session.as_ref()?))
    }
}
