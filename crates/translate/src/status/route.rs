//! The status of routes.

mod child;
mod entries;
mod problems;

use std::{collections::HashSet, sync::Arc};

use api::{
    shared::ParentReference,
    status::{Condition, RouteParentStatus, RouteStatus as Status},
};
use engine::{Derived, Emitter, View};
use ir::{Chain, Port, Problem, Reason, RouteId, Severity, route::ParentRef, stream::PlaceId};

use self::{
    child::child,
    entries::{Entry, entries},
    problems::RouteProblems,
};
use super::{Conditions, Report, and_notes, frozen, json, listed};
use crate::{
    delegation::may_consent,
    offer::is_strict,
    route,
    stream::Unserved,
    tables::{
        attachment::{Attachment, Unacceptable},
        delegation::Places,
        edition::FreezeTold,
        gateway::Fault,
        input::{Config, Waiting, object_id},
        route::RouteHead,
    },
    words::listed_with,
};

/// How many parents a status may name (Gateway API `RouteStatus.parents`).
const MAX_PARENTS: usize = 32;

tables! {
    /// Reports on HTTPRoutes with a parent of ours, and on those with problems and no parent.
    RouteStatus: RouteId => RouteReport;
}

/// The report on a route. Messages are made when they are read: there are many routes, and most are fine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RouteReport {
    generation: i64,
    controller_name: Arc<str>,
    parents: Box<[Parent]>,
    /// Problems of a route without a parent of ours.
    elsewhere: Option<Arc<RouteProblems>>,
    /// That it waits for Envoy's word, if so.
    waits: Option<Arc<str>>,
    /// How its tree is kept, if it is.
    frozen: Option<Arc<FreezeTold>>,
}

/// A parent as the route names it, or could.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Parent {
    reference: ParentReference,
    /// Why the route is not attached to it.
    detached: Option<Box<Fault>>,
    /// Why no rule is served there, though it is attached.
    refused: Option<Box<Fault>>,
    /// Where other routes are served in its place, if it is one of streams.
    superseded: Option<Box<str>>,
    problems: Option<Arc<RouteProblems>>,
}

/// What is told of places that a parent selects where other routes of streams are served in the place of one. It names no other
/// route, which may be of another namespace.
fn superseded_at(superseded: &[(PlaceId, Port)], parent: &ParentRef, own: &Arc<str>) -> Option<Box<str>> {
    let is_there = |(place, port): &&(PlaceId, Port)| {
        parent.parent(own).is_some_and(|parent| parent == place.listener.parent())
            && parent.section().is_none_or(|section| *section == place.listener.name.section)
            && parent.port.is_none_or(|wanted| Port::try_from(wanted).is_ok_and(|wanted| wanted == *port))
    };
    let where_to = |(place, _): &(PlaceId, Port)| {
        let listener = &place.listener.name;
        if place.is_hostname() {
            format!("{} of listener {listener}", place.hostname)
        } else {
            format!("listener {listener}")
        }
    };
    let places: Vec<_> = superseded.iter().filter(is_there).map(where_to).collect();
    (!places.is_empty()).then(|| {
        let places = listed_with(", ", &places);
        format!(
            "another route, which is older or first by its name, is served in its place at {places}; remove either, or give \
             each a listener of its own"
        )
        .into()
    })
}

impl Derived for RouteStatus {
    fn compute(scope: &Emitter<'_>, key: &RouteId) -> Option<RouteReport> {
        let route = scope.get::<RouteHead>(key)?;
        let attached = scope.get::<Attachment>(key)?;
        let places = may_consent(&route.parents).then(|| scope.group::<Places>(key));
        // No parent reports on a route that stands nowhere.
        let stands_alone = !attached.parents.is_empty() || places.as_ref().is_none_or(View::is_empty);
        let unserved = if key.kind.is_stream() { Unserved::of(scope, key, &attached) } else { Unserved::default() };
        let own = || {
            if key.kind.is_stream() {
                return RouteProblems::of_streams(scope, key, &attached, &unserved).shared();
            }
            RouteProblems::of(scope, &attached, [&Chain::root(key.clone())]).shared()
        };
        let own = if stands_alone { own() } else { None };
        let parent = |entry: Entry<'_>| match entry {
            Entry::Gateway(state) => Parent {
                reference: route.parents.get(state.index).map(reference_of).unwrap_or_default(),
                detached: state.refused.clone(),
                refused: scope.get::<Unacceptable>(key).map(|fault| Box::new(Fault::clone(&fault))),
                superseded: route
                    .parents
                    .get(state.index)
                    .and_then(|parent| superseded_at(&unserved.superseded, parent, key.namespace())),
                problems: own.clone(),
            },
            Entry::Selecting(reference, _, places) => child(scope, &attached, &reference, &places),
            Entry::Never(reference, parent) => {
                let message = format!("no rule of {parent} selects this route; its owner decides by backendRefs");
                let detached = Some(Box::new(Fault::new(Reason::NoMatchingParent, message)));
                Parent {
                    reference: reference_of(&reference),
                    detached,
                    refused: None,
                    superseded: None,
                    problems: None,
                }
            }
        };
        let entries = entries(scope, key, &route, &attached, places.as_ref());
        let parents: Box<[_]> = entries.into_iter().take(MAX_PARENTS).map(parent).collect();
        let elsewhere = own.filter(|_| parents.is_empty());
        if parents.is_empty() && elsewhere.is_none() {
            return None;
        }
        let generation = route::generation(scope, key)?;
        let controller_name = scope.get::<Config>(&())?.controller_name.clone();
        let frozen = frozen(scope, || object_id(key));
        let waits = is_strict(scope).then(|| scope.get::<Waiting>(key)).flatten().map(|words| (*words).clone());
        Some(RouteReport { generation, controller_name, parents, elsewhere, waits, frozen })
    }
}

/// A parent as a status names it.
fn reference_of(parent: &ParentRef) -> ParentReference {
    let ParentRef { group, kind, namespace, name, section_name, port } = parent.clone();
    ParentReference { group, kind, namespace, name, section_name, port }
}

impl RouteReport {
    /// As it is written to the object; none for one without a parent of ours.
    fn status(&self) -> Option<Status> {
        let parents = self.parents.iter().map(|parent| RouteParentStatus {
            parent_ref: parent.reference.clone(),
            controller_name: self.controller_name.clone(),
            conditions: parent.conditions(self.generation, self.waits.as_deref(), self.frozen.as_deref()),
        });
        self.has_status().then(|| Status { parents: parents.collect() })
    }

    /// Whether the route is published by one of another namespace though it names no parent.
    pub(crate) fn is_published_unasked(&self) -> bool {
        self.parents.iter().filter_map(|parent| parent.problems.as_ref()).any(|problems| problems.published_unasked)
    }
}

impl Report for RouteReport {
    fn has_status(&self) -> bool {
        !self.parents.is_empty()
    }

    fn json(&self) -> Option<String> {
        self.status().as_ref().map(json)
    }

    /// A problem at several parents is listed once.
    fn problems(&self) -> Vec<Problem> {
        let mut seen = HashSet::new();
        let at_parents = self.parents.iter().filter_map(|parent| parent.problems.as_ref());
        let all = at_parents.chain(&self.elsewhere).flat_map(|problems| problems.iter());
        let mut problems: Vec<_> = all.filter(|problem| seen.insert(*problem)).cloned().collect();
        let detached = self.parents.iter().filter_map(|parent| parent.detached.as_ref());
        let superseded = self.parents.iter().filter(|parent| parent.refused().is_none());
        let superseded = superseded.filter_map(|parent| parent.superseded.as_ref());
        problems.extend(superseded.map(|words| Problem::new(Severity::Ignored, Reason::Superseded, "", &**words)));
        problems.extend(
            self.waits.iter().map(|waits| Problem::new(Severity::Warning, Reason::ValidationPending, "", &**waits)),
        );
        problems
            .extend(detached.map(|fault| Problem::new(Severity::Refused, fault.reason, &fault.field, &fault.message)));
        problems
    }
}

impl Parent {
    fn conditions(&self, generation: i64, waits: Option<&str>, frozen: Option<&FreezeTold>) -> Vec<Condition> {
        let none = RouteProblems::default();
        let problems = self.problems.as_deref().unwrap_or(&none);
        let mut conditions = Conditions::new(generation);
        self.accepted(problems, &mut conditions);
        match problems.unresolved.first() {
            Some(first) => conditions.no("ResolvedRefs", first.reason, listed(&problems.unresolved)),
            None => conditions.yes("ResolvedRefs", Reason::ResolvedRefs, "all references resolve"),
        }
        self.partially_invalid(problems, &mut conditions);
        self.programmed(problems, waits, &mut conditions);
        if let (Some(superseded), None) = (&self.superseded, self.refused()) {
            conditions.no("portcullis.dev/Serving", Reason::Superseded, superseded.to_string());
        }
        if let Some(told) = frozen {
            conditions.frozen(told);
        }
        conditions.done()
    }

    /// Why no rule is served there.
    fn refused(&self) -> Option<&Fault> {
        self.detached.as_deref().or(self.refused.as_deref())
    }

    fn accepted(&self, problems: &RouteProblems, conditions: &mut Conditions) {
        match self.refused() {
            Some(fault) => conditions.no("Accepted", fault.reason, fault.to_string()),
            None => {
                let small = |problem: &&Problem| problem.severity >= Severity::Ignored;
                let notes: Vec<_> = problems.head.iter().filter(small).chain(&problems.warnings).collect();
                conditions.yes("Accepted", Reason::Accepted, and_notes("the route is attached", &notes));
            }
        }
    }

    fn partially_invalid(&self, problems: &RouteProblems, conditions: &mut Conditions) {
        let lost = problems.head.iter().filter(|problem| problem.severity == Severity::Refused);
        let lost: Vec<_> = lost.chain(&problems.faults).collect();
        if self.refused().is_none() && !lost.is_empty() {
            conditions.yes("PartiallyInvalid", Reason::UnsupportedValue, format!("Dropped Rule: {}", listed(&lost)));
        }
    }

    fn programmed(&self, problems: &RouteProblems, waits: Option<&str>, conditions: &mut Conditions) {
        if let (Some(waits), None) = (waits, &self.detached) {
            return conditions.no("kgateway.dev/Programmed", Reason::ValidationPending, waits.to_owned());
        }
        let unprogrammed: Vec<_> = problems.faults.iter().chain(&problems.empty).collect();
        if !unprogrammed.is_empty() && self.detached.is_none() {
            let reason = if problems.replaced { Reason::RouteRuleReplaced } else { Reason::RouteRuleDropped };
            conditions.no("kgateway.dev/Programmed", reason, listed(&unprogrammed));
        }
    }
}
