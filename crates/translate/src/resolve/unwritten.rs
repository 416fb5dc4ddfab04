//! A rule that is not written as bytes yet, and writing it.

use std::{borrow::Cow, sync::Arc};

use envoy::{
    bytes::{Row, Unreadable},
    route::{self, GuardedMatch, RouteAt},
};
use ir::{
    Chain, Problem, Reason, RouteKind, Severity,
    delegation::PlacedMatch,
    filter::Scheme,
    matching::{At, Part, Step},
    rule::{Rule, Source},
    settings::Replacement,
};

use super::{EnvoyRoute, EnvoyRoutes, Findings};
use crate::{
    budget::cost::{Cost, Meter, Taken, unpriced},
    tables::replacement::{self, RefusedRows},
    weight,
};

/// For what is the same at every listener.
pub(crate) const ANYWHERE: RouteAt = RouteAt { scheme: Scheme::Http, port: 0 };

/// Most bytes of its slots that a rule keeps in all of its Envoy routes together: what most rules have many times over, and
/// little beside a route. Each Envoy route has a copy, so credentials that a tenant stores once would fill the controller by his
/// matches, room for them in a proxy or not: such rules are written when somebody asks for them.
const KEPT: usize = 64 << 10;

/// A rule that nothing is missing from but what it costs, and the listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unwritten {
    pub(super) chain: Chain,
    pub(super) index: u32,
    pub(super) name: Option<Arc<str>>,
    pub(super) matches: Vec<PlacedMatch>,
    pub(super) rule: Rule,
    /// What a proxy builds of the rule's own expressions while requests meet them, in bytes.
    pub(super) states: u64,
    /// The Envoy routes of its route that an Envoy refuses; of most routes there are none.
    pub(super) refused: Option<Arc<RefusedRows>>,
}

impl Unwritten {
    /// Has the rule answer by itself, or match nothing where nothing shall be replaced.
    pub(super) fn replace(&mut self, problem: Problem, replacement: &Replacement, findings: &mut Findings) {
        if replacement.enabled {
            findings.replaced = Some(problem);
        } else {
            self.matches.clear();
            findings.dropped.insert(0, Problem { severity: Severity::Refused, ..problem });
        }
        self.rule = replacing(self.chain.route().kind, replacement);
    }

    /// The rule with what the expressions of its matches cost.
    pub(super) fn priced(self, meter: &mut Meter<'_, '_>) -> Priced {
        let taken = self.matches.iter().map(|placed| meter.matching(&placed.written)).collect();
        Priced { unwritten: self, taken, excluded: Box::default() }
    }

    /// The same where nobody knows: too much.
    pub(super) fn unpriced(self) -> Priced {
        let taken = self.matches.iter().map(|placed| unpriced(&placed.written)).collect();
        Priced { unwritten: self, taken, excluded: Box::default() }
    }

    /// Its Envoy routes and those that stand excluded. What cannot be read is told here, for all listeners.
    pub(super) fn routes(
        self,
        excluded: Vec<EnvoyRoute>,
        meter: &mut Meter<'_, '_>,
        findings: &mut Findings,
    ) -> EnvoyRoutes {
        let priced = Priced { excluded: excluded.into(), ..self.priced(meter) };
        if priced.is_large() {
            priced.examine(&mut findings.closed);
            return EnvoyRoutes::ByListener(Box::new(priced));
        }
        let routes = priced.write(ANYWHERE, &mut findings.closed);
        if route::depends_on_listener(&priced.unwritten.rule) {
            EnvoyRoutes::ByListener(Box::new(priced))
        } else {
            EnvoyRoutes::Everywhere(routes)
        }
    }
}

/// What a broken rule of a route of a kind answers. The status that is set is one for HTTP; for gRPC it would be UNKNOWN, or
/// anything, where clients have to be told that nobody serves them.
pub(super) fn replacing(kind: RouteKind, replacement: &Replacement) -> Rule {
    let status = match kind {
        RouteKind::HttpRoute => replacement.status,
        _ => kind.broken_status(),
    };
    Rule::direct_response(status, replacement.body.clone())
}

/// A rule that nothing is missing from but the listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Priced {
    unwritten: Unwritten,
    /// What the expressions of each match take; none where it has none.
    taken: Box<[Option<Taken>]>,
    /// The Envoy routes of matches that stand excluded, which are the same at every listener.
    excluded: Box<[EnvoyRoute]>,
}

/// Why an Envoy route cannot be sent.
#[derive(Debug, thiserror::Error)]
enum Unfit {
    #[error("{0}")]
    Unreadable(Unreadable),
    #[error("{0}; write the rule or the match otherwise")]
    Refused(Arc<str>),
    #[error("{0}")]
    NotJudged(Arc<str>),
}

impl Unfit {
    fn reason(&self) -> Reason {
        match self {
            Self::Unreadable(_) | Self::Refused(_) => Reason::UnsupportedValue,
            Self::NotJudged(_) => Reason::NotJudged,
        }
    }
}

/// A match that becomes one or more Envoy routes.
struct PricedMatch<'a> {
    placed: &'a PlacedMatch,
    /// What its expressions take; none where it has none.
    taken: Option<Taken>,
}

impl Priced {
    /// Whether its Envoy routes together have more in slots than is kept.
    pub(crate) fn is_large(&self) -> bool {
        let Unwritten { rule, matches, .. } = &self.unwritten;
        let of_route: usize = rule.slots.iter().map(|slot| slot.config.len()).sum();
        of_route.saturating_mul(matches.len()) > KEPT
    }

    /// Tells what Envoy cannot read of a rule that is large, without all of it being there at once: what it can read of the
    /// longest Envoy routes with their slots, it can read of all.
    fn examine(&self, problems: &mut Vec<(u32, Problem)>) {
        let (weighed, mut of_matches) = (self.weighed(), Vec::new());
        let mut length = |index| {
            let routes = weighed.write_match(index, ANYWHERE, &mut of_matches);
            routes.iter().map(|route| route.row.bytes.len()).max()
        };
        let lengths: Vec<_> = (0..self.unwritten.matches.len()).map(&mut length).collect();
        let longest = (0..lengths.len()).max_by_key(|at| lengths[*at]);
        let mut of_longest = Vec::new();
        if let Some(longest) = longest {
            self.write_match(longest, ANYWHERE, &mut of_longest);
        }
        if of_longest.is_empty() {
            problems.append(&mut of_matches);
            return;
        }
        // Nobody keeps what is written here, nor all of it at a time.
        for index in 0..lengths.len() {
            self.write_match(index, ANYWHERE, problems);
        }
    }

    /// The rule as it weighs: one that is large has Envoy routes without slots, that take what they take with them, so that
    /// somebody who stores much and has many matches has nobody wait for what there is no room for.
    pub(crate) fn weighed(&self) -> Cow<'_, Self> {
        if !self.is_large() {
            return Cow::Borrowed(self);
        }
        let mut weighed = self.clone();
        let slots = std::mem::take(&mut weighed.unwritten.rule.slots);
        weighed.unwritten.states = weighed.unwritten.states.saturating_add(weight::slots(&slots));
        Cow::Owned(weighed)
    }

    /// The rule, answering by itself as a broken one, which is the same at every listener.
    pub(crate) fn closed(mut self) -> Self {
        self.unwritten.rule = Rule::broken(self.unwritten.chain.route().kind);
        self.unwritten.states = 0;
        self
    }

    /// The rule's Envoy routes at a listener. What Envoy could not read answers 500 in its place, and is told of the match.
    pub(crate) fn write(&self, at: RouteAt, problems: &mut Vec<(u32, Problem)>) -> Box<[EnvoyRoute]> {
        let routes = (0..self.unwritten.matches.len()).flat_map(|index| self.write_match(index, at, problems));
        routes.chain(self.excluded.iter().cloned()).collect()
    }

    fn write_match(&self, index: usize, at: RouteAt, problems: &mut Vec<(u32, Problem)>) -> Vec<EnvoyRoute> {
        let split = route::splits_by_host_port(&self.unwritten.rule, at);
        let priced = PricedMatch { placed: &self.unwritten.matches[index], taken: self.taken[index] };
        let mut routes = Vec::new();
        for (request, part) in priced.placed.written.requests().zip(0..) {
            let matching = GuardedMatch::new(request);
            if split {
                routes.extend(self.envoy_route(&priced, part, &matching.with_host_port(), at, problems));
            }
            routes.extend(self.envoy_route(&priced, part, &matching, at, problems));
        }
        routes
    }

    fn envoy_route(
        &self,
        PricedMatch { placed, taken }: &PricedMatch<'_>,
        part: u32,
        matching: &GuardedMatch,
        at: RouteAt,
        problems: &mut Vec<(u32, Problem)>,
    ) -> Option<EnvoyRoute> {
        let Unwritten { chain, index, name, rule, states, refused: all_refused, .. } = &self.unwritten;
        let request = matching.request();
        let part = Part { ordinal: placed.ordinal, path: part, host_with_port: request.host_with_port };
        let source = Source {
            route: chain.route().clone(),
            rule: *index,
            rule_name: name.clone(),
            matching: placed.index,
            part: part.number(),
        };
        let refusal = |row: &Row| all_refused.as_ref().and_then(|refused| refused.get(row));
        let write = |rule| route::route(&source, matching, rule, at).map_err(Unfit::Unreadable);
        let mut refused = None;
        let written = write(rule).and_then(|row| match refusal(&row) {
            Some(refusal) if refusal.is_judged => {
                refused = Some(Box::new(row));
                Err(Unfit::Refused(refusal.words.clone()))
            }
            Some(refusal) => Err(Unfit::NotJudged(refusal.words.clone())),
            None => Ok(row),
        });
        let row = match written {
            Ok(row) => row,
            Err(unfit) => {
                let alone = write(&Rule::broken(source.route.kind)).ok();
                // Without it its requests would reach another route, so that a crash alone, which may be another's, is not enough.
                let alone = alone.filter(|row| refusal(row).is_none_or(|refusal| !refusal.is_said));
                let severity = if alone.is_some() { Severity::Replaced } else { Severity::Refused };
                let field = format!("spec.rules[{index}].matches[{}]", placed.index);
                let message = replacement::told(&unfit);
                problems.push((placed.index, Problem::new(severity, unfit.reason(), field, message)));
                problems.dedup();
                alone?
            }
        };
        let mut steps = placed.steps.clone();
        // The parts of one match do not ask for equally much.
        if part.path > 0 {
            let mut parted = steps.to_vec();
            let contest = parted.iter_mut().rev().find(|step| !matches!(step, Step::Left(_)));
            if let Some(Step::At(At { specificity: Some(specificity), .. })) = contest {
                *specificity = request.specificity();
                steps = parted.into();
            }
        }
        let prefix = || matching.guard().cloned().unwrap_or_default();
        let cost = taken.map(|taken| Arc::new(Cost { prefix: prefix(), nanos: taken.nanos }));
        let memory =
            weight::route(&row, &rule.slots) + weight::of_rule(rule) + states + weight::of_match(request, *taken);
        Some(EnvoyRoute { steps, order: part.order(), row, below: placed.below.clone(), refused, cost, memory })
    }
}
