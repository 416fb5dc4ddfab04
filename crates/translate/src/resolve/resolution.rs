//! A rule with its references followed.

use std::{borrow::Cow, sync::Arc};

use engine::Scope;
use ir::{
    Chain, ListenerId, Problem, Reason, Severity, delegation::PlacedMatch, filter::PathModifier, matching::Path,
    route::Handling,
};
use units::AnyUnit;

use super::{
    By, EnvoyRoutes, Findings, Policies, Resolved, backends::Resolver, delegating, placed_rule::PlacedRule, policies,
    session, terms, unwritten::Unwritten,
};
use crate::{
    budget::cost::{Limits, Meter, affordable},
    delegation::{combine, not_allowed},
    gateway::policy::TakesAddresses,
    policy::{
        rule::{Effective, effective},
        wide::{SlotWordAt, WideAuth, section},
    },
    tables::{
        attachment::Attachment,
        backend::ClusterId,
        input::{RefusedPart, Strict},
        policy::Target,
        strict::PartId,
        terms::Terms,
    },
    target::key_of,
};

/// A rule whose references are being followed.
pub(super) struct Resolution<'a, 'b> {
    scope: &'a Scope<'b>,
    placed: &'a PlacedRule<'a>,
    unwritten: Unwritten,
    meter: Meter<'a, 'b>,
    resolver: Resolver<'a, 'b>,
    /// What its policies and those above come to.
    effective: Effective,
    /// Whose policies these are.
    by: By<'a>,
    policies: Policies,
    /// Matches that a policy cannot hold for, each with why.
    prefixless: Vec<(PlacedMatch, Problem)>,
    findings: Findings,
    /// What it needs, where some of that is refused by Envoy.
    lacks: Box<[PartId]>,
}

/// Who answers the requests of a rule.
enum AnsweredBy<'a> {
    /// The rule itself.
    Rule,
    /// Its children.
    Children(&'a Handling),
}

impl<'a, 'b> Resolution<'a, 'b> {
    pub(super) fn new(scope: &'a Scope<'b>, placed: &'a PlacedRule<'a>, by: By<'a>) -> Self {
        let PlacedRule { key, spec, field, config, .. } = placed;
        let mut findings = placed.findings();
        let handling = spec.handling.as_ref().ok();
        if let Some(persistence) = handling.and_then(|handling| handling.fields.session.as_ref()) {
            findings.warnings.push(session::warning(persistence, field));
        }
        let extensions = handling.map_or(&[][..], |handling| &handling.extensions);
        let effective = |by| {
            let wide = match by {
                By::Nobody => return Effective::default(),
                By::Routes => None,
                By::All(target) => Some(target),
            };
            effective(scope, &key.0, spec.name.as_ref(), extensions, field, wide)
        };
        Self {
            scope,
            placed,
            unwritten: placed.unwritten(),
            meter: Meter::new(scope, Limits::of(config)),
            resolver: Resolver::new(scope, key),
            effective: effective(by),
            by,
            policies: Policies::default(),
            prefixless: Vec::new(),
            findings,
            lacks: Box::default(),
        }
    }

    /// The rule as it is served; `handling` is how its text has requests handled, or why it cannot.
    pub(super) fn resolve(mut self, handling: Result<&Handling, &Problem>) -> Resolved {
        let answered = handling.map_err(Problem::clone).and_then(|handling| self.answered_by(handling));
        let refused = answered.is_ok().then(|| self.refused()).flatten();
        let refused = refused.map(|(problem, parts)| {
            self.lacks = parts;
            problem
        });
        self.finish(refused.map_or(answered, Err))
    }

    /// Finds out who answers the requests and, if it is the rule, how; or why a direct response stands in its place.
    fn answered_by<'h>(&mut self, handling: &'h Handling) -> Result<AnsweredBy<'h>, Problem> {
        let PlacedRule { key, field, .. } = self.placed;
        let terms = self.placed.terms(self.scope)?;
        self.placed.served(self.scope)?;
        if let Some(broken) = &self.effective.broken {
            return Err(broken.clone());
        }
        if !handling.delegates.is_empty() {
            if self.is_restricted(&terms, handling) {
                return Ok(AnsweredBy::Rule);
            }
            self.resolver.handed_down(&handling.fields.mirrors);
            return Ok(AnsweredBy::Children(handling));
        }
        if let Some(broken) = &self.effective.broken_unit {
            self.policies.close(&self.effective);
            return Err(broken.clone());
        }
        let handling = terms::apply(Cow::Borrowed(handling), &terms, key.0.route().namespace(), field, || {
            let at_listeners = authenticated(self.scope, &key.0, &self.effective, self.by);
            if at_listeners == Authenticated::AtSome {
                self.policies.ask_listeners();
            }
            at_listeners == Authenticated::Everywhere
        })?;
        if self.is_restricted(&terms, &handling) {
            return Ok(AnsweredBy::Rule);
        }
        let mut handling = combine(handling, &self.placed.levels(), field)?;
        replaceable(&handling, &self.unwritten.matches, field)?;
        self.prefixless = self.policies.apply(&self.effective, &mut handling, &mut self.unwritten.matches, field)?;
        if handling.by_policy.internal_redirect.is_some() && (self.forges() || self.takes_addresses()) {
            handling.to_mut().by_policy.internal_redirect = None;
        }
        let states = affordable(&handling, &mut self.meter, field)?.memory;
        let mut rule = self.resolver.rule(&handling)?;
        session::place(&mut rule, &self.unwritten.matches);
        (self.unwritten.rule, self.unwritten.states) = (rule, states);
        Ok(AnsweredBy::Rule)
    }

    /// Whether somebody may set headers that no client could, which the route that a redirect leads to would believe.
    fn forges(&self) -> bool {
        self.effective.units.iter().any(|merged| merged.unit.as_ref().is_ok_and(|unit| unit.forges()))
    }

    /// Whether the rule is served at a Gateway that takes addresses from requests. The route that a redirect leads to would judge the
    /// request by the address of the proxy in front.
    fn takes_addresses(&self) -> bool {
        let attached = self.scope.get::<Attachment>(self.placed.key.0.top());
        let mut gateways =
            attached.iter().flat_map(|attached| &*attached.listeners).map(|(listener, _)| &listener.gateway);
        gateways.any(|gateway| self.scope.get::<TakesAddresses>(gateway).is_some())
    }

    /// Why the rule cannot be served, if Envoy refuses what it needs besides its own routes, and all that it needs.
    ///
    /// A cluster that is made from the rule itself goes with it, and is left out alone.
    fn refused(&self) -> Option<(Problem, Box<[PartId]>)> {
        self.scope.get::<Strict>(&())?;
        let clusters = self.resolver.clusters.iter().filter(|cluster| !matches!(cluster, ClusterId::Rule(..)));
        let entries = self.unwritten.rule.slots.iter().filter_map(|slot| slot.entry.as_deref());
        let parts: Box<[_]> = clusters.cloned().map(PartId::Cluster).chain(entries.filter_map(PartId::of)).collect();
        let refused = parts.iter().find_map(|part| self.scope.get::<RefusedPart>(part))?;
        let words = refused.told(self.placed.key.0.route().namespace());
        Some((
            Problem::new(Severity::Replaced, refused.reason(Reason::UnsupportedValue), &self.placed.field, words),
            parts,
        ))
    }

    /// Whether the rule names backends that those above it do not allow, which is told.
    fn is_restricted(&mut self, terms: &Terms, handling: &Handling) -> bool {
        let not_allowed = not_allowed(&self.placed.route, terms, self.placed.key.0.route(), handling);
        let is_restricted = !not_allowed.is_empty();
        self.resolver.unresolved.extend(not_allowed);
        is_restricted
    }

    /// Writes the rule.
    fn finish(self, answered: Result<AnsweredBy<'_>, Problem>) -> Resolved {
        let Self { scope, placed, mut unwritten, mut meter, mut resolver, effective, mut policies, .. } = self;
        let (prefixless, mut findings, replacement) = (self.prefixless, self.findings, &placed.config.replacement);
        let lacks = self.lacks;
        let answered = answered.unwrap_or_else(|problem| {
            resolver.clear();
            policies.replaced();
            unwritten.replace(problem, replacement, &mut findings);
            AnsweredBy::Rule
        });
        findings.matches_nothing = unwritten.matches.is_empty();
        let excluded = policies::excluded(prefixless, &unwritten, &mut meter, replacement, &mut findings);
        let Resolver { mut clusters, session, shares, unresolved, closed, warnings, .. } = resolver;
        clusters.sort();
        clusters.dedup();
        findings.shares = shares;
        findings.unresolved = unresolved;
        findings.closed_backends = closed;
        findings.warnings.extend(warnings);
        let mut entries: Vec<_> =
            unwritten.rule.slots.iter().filter_map(|slot| slot.entry.as_deref().cloned()).collect();
        entries.sort_unstable();
        entries.dedup();
        let says_alike = envoy::alike::may_say(&unwritten.rule.slots);
        let routes = match answered {
            AnsweredBy::Rule => unwritten.routes(excluded, &mut meter, &mut findings),
            AnsweredBy::Children(handling) => {
                EnvoyRoutes::Everywhere(delegating::answers(scope, &unwritten, handling, &mut meter, &mut findings))
            }
        };
        findings.dropped.extend(meter.gave_up(&placed.field));
        Resolved {
            routes,
            clusters: clusters.into(),
            entries: entries.into(),
            says_alike,
            lacks,
            session: session.map(Box::new),
            policies: policies.found(effective),
            findings: findings.tell_anything().then(|| Arc::new(findings)),
        }
    }
}

/// Where policies have every request authenticated that comes to a rule.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Authenticated {
    /// At every listener that serves it.
    Everywhere,
    /// At some and not at others.
    AtSome,
    /// At none.
    Nowhere,
}

/// Where policies have every request authenticated that comes to a rule of a chain, among the listeners of its root for which
/// it is resolved: a policy of the rule, of a rule above, of the listener or of its Gateway does, in whose place nothing
/// else holds there.
fn authenticated(scope: &Scope<'_>, chain: &Chain, effective: &Effective, by: By<'_>) -> Authenticated {
    // What it serves then is not asked.
    if matches!(by, By::Nobody) {
        return Authenticated::Everywhere;
    }
    let own = |field: &str| {
        let mut sound = effective.units.iter().filter_map(|merged| merged.unit.as_ref().ok());
        sound.find(|unit| unit.field() == field)
    };
    let at = |listener: &ListenerId| {
        let wide = scope.get::<WideAuth>(listener);
        let is_wide = |field: &str| wide.as_ref().is_some_and(|fields| fields.contains(&field));
        let has_word = |field: &'static str| scope.get::<SlotWordAt>(&(listener.clone(), field)).is_some();
        AnyUnit::AUTHENTICATING.iter().any(|field| match own(field) {
            Some(unit) if unit.authenticates() => true,
            // Where the Gateway has a word in it, the rule is resolved again, by what both come to.
            Some(_) => matches!(by, By::Routes) && is_wide(field) && has_word(field),
            None => is_wide(field),
        })
    };
    let is_of = |listener: &ListenerId| match by {
        By::All(Target { object, section: None, .. }) => listener.gateway == key_of(object),
        By::All(target) => section(listener) == *target,
        By::Nobody | By::Routes => true,
    };
    let attached = scope.get::<Attachment>(chain.top());
    let listeners = attached.iter().flat_map(|attached| attached.listeners.iter()).map(|(listener, _)| listener);
    let (mut some, mut all) = (false, true);
    for is_guarded in listeners.filter(|listener| is_of(listener)).map(at) {
        some |= is_guarded;
        all &= is_guarded;
    }
    match (some, all) {
        (true, true) => Authenticated::Everywhere,
        (true, false) => Authenticated::AtSome,
        // It is served nowhere.
        (false, true)
            if AnyUnit::AUTHENTICATING.iter().any(|field| own(field).is_some_and(|unit| unit.authenticates())) =>
        {
            Authenticated::Everywhere
        }
        (false, _) => Authenticated::Nowhere,
    }
}

/// Refuses to replace a prefix where, its parents counted in, a match has none.
fn replaceable(handling: &Handling, matches: &[PlacedMatch], field: &str) -> Result<(), Problem> {
    let of_redirect = handling.redirect.as_ref().and_then(|redirect| redirect.path.as_ref());
    let of_rewrite = handling.fields.rewrite.as_ref().and_then(|rewrite| rewrite.path.as_ref());
    let modifiers = [of_rewrite, of_redirect];
    let replaces = modifiers.into_iter().flatten().any(|modifier| matches!(modifier, PathModifier::Prefix(_)));
    let all = || matches.iter().all(|placed| matches!(placed.written.path, Path::Prefix(_)));
    if replaces && !all() {
        let message = "there is no prefix to replace, since with those of the parents not every match of the rule is a \
                       PathPrefix; make them so, or use ReplaceFullPath";
        return Err(Problem::new(Severity::Replaced, Reason::IncompatibleFilters, format!("{field}.filters"), message));
    }
    Ok(())
}
