//! The status of HTTPRoutes.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::Arc,
};

use api::{
    shared::ParentReference,
    status::{Condition, RouteParentStatus, RouteStatus as Status},
};
use engine::{Derived, Emitter, Scope, View};
use ir::{
    Chain, NsName, Problem, Severity,
    route::{Head, ParentRef},
};

use super::{Conditions, Report, and_notes, json, listed, value};
use crate::{
    budget::left_out,
    capacity::Overruns,
    delegation::{UNASKED, beyond, beyond_fault, consents, may_consent, published_unasked},
    grant::GATEWAY_API,
    resolve::ResolvedRule,
    tables::{
        attachment::{Attached, Attachment, ParentState, Unacceptable},
        delegation::{Branch, Delegating, Overfull, Place, Places, Serving, Unlisted},
        gateway::Fault,
        input::Config,
        route::{RouteGeneration, RouteHead},
    },
    words::MAX_LISTED,
};

/// How many parents a status may name (Gateway API `RouteStatus.parents`).
const MAX_PARENTS: usize = 32;

tables! {
    /// What is to be said of HTTPRoutes with a parent of ours.
    RouteStatus: NsName => Verdict;
}

/// What a status says. The words are put together when somebody asks for them: there are many routes, and most are fine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    generation: i64,
    controller_name: Arc<str>,
    parents: Box<[Parent]>,
    /// What is wrong, though the route has no parent of ours.
    elsewhere: Option<Arc<Wrong>>,
}

/// A parent as the route names it, or could.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Parent {
    reference: ParentReference,
    /// Why the route is not attached to it.
    detached: Option<Box<Fault>>,
    /// Why no rule is served there, though it is attached.
    refused: Option<Box<Fault>>,
    wrong: Option<Arc<Wrong>>,
}

/// What is wrong with a route, all rules together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Wrong {
    /// Outside the rules.
    head: Box<[Problem]>,
    /// Dropped matches, replaced rules and replaced shares of rules.
    faults: Vec<Problem>,
    /// Matches below which no child has anything.
    empty: Vec<Problem>,
    /// Whether a rule, or a part of one, is replaced.
    replaced: bool,
    unresolved: Vec<Problem>,
    warnings: Vec<Problem>,
}

impl Derived for RouteStatus {
    fn compute(scope: &Emitter<'_>, key: &NsName) -> Option<Verdict> {
        let route = scope.get::<RouteHead>(key)?;
        let attached = scope.get::<Attachment>(key)?;
        let places = may_consent(&route.parents).then(|| scope.group::<Places>(key));
        let mut elsewhere = None;
        let mut own = None;
        if !attached.parents.is_empty() || places.as_ref().is_none_or(View::is_empty) {
            let wrong = Wrong::of(scope, &attached, [&Chain::root(key.clone())]).shared();
            own = Some((wrong, scope.get::<Unacceptable>(key).map(|fault| Box::new((*fault).clone()))));
        }
        let mut parents = Vec::new();
        for entry in entries(scope, key, &route, &attached, places.as_ref()).into_iter().take(MAX_PARENTS) {
            parents.push(match (entry, &own) {
                (Entry::Gateway(state), own) => {
                    let (wrong, refused) = own.clone().unwrap_or_default();
                    let reference = route.parents.get(state.index).map(reference_of).unwrap_or_default();
                    Parent { reference, detached: state.refused.clone(), refused, wrong }
                }
                (Entry::Selecting(reference, _, places), _) => child(scope, &attached, &reference, &places),
                (Entry::Never(reference, parent), _) => {
                    let message =
                        format!("no rule of HTTPRoute {parent} selects this route; its owner decides by backendRefs");
                    let detached = Some(Box::new(Fault::new("NoMatchingParent", message)));
                    Parent { reference: reference_of(&reference), detached, refused: None, wrong: None }
                }
            });
        }
        if let (Some((wrong, _)), true) = (own, attached.parents.is_empty()) {
            elsewhere = wrong.filter(|_| parents.is_empty());
        }
        if parents.is_empty() && elsewhere.is_none() {
            return None;
        }
        Some(Verdict {
            generation: *scope.get::<RouteGeneration>(key)?,
            controller_name: scope.get::<Config>(&())?.controller_name.clone(),
            parents: parents.into(),
            elsewhere,
        })
    }
}

/// A parent as a status names it.
fn reference_of(parent: &ParentRef) -> ParentReference {
    let ParentRef { group, kind, namespace, name, section_name, port } = parent.clone();
    ParentReference { group, kind, namespace, name, section_name, port }
}

/// What one entry of a status is about.
enum Entry<'a> {
    /// A Gateway of ours that the route names.
    Gateway(&'a ParentState),
    /// An HTTPRoute that selects it, and where it stands below that.
    Selecting(ParentRef, NsName, Vec<(&'a Chain, &'a Place)>),
    /// An HTTPRoute that it names, and that never selects it.
    Never(ParentRef, NsName),
}

/// The entries of a route's status, more than there is room for: first those for its own `parentRefs`, then parents of its
/// own namespace that it does not name, then those of others, one of each namespace in turn. Nobody fills the status of
/// whom he publishes unasked.
fn entries<'a>(
    scope: &Scope<'_>,
    key: &NsName,
    route: &Head,
    attached: &'a Attached,
    places: Option<&'a View<Places>>,
) -> Vec<Entry<'a>> {
    let mut entries: Vec<_> = attached.parents.iter().map(Entry::Gateway).collect();
    let mut below: BTreeMap<&NsName, Vec<_>> = BTreeMap::new();
    for (chain, place) in places.into_iter().flat_map(View::iter) {
        if let Some((parent, _)) = chain.above() {
            below.entry(parent.route()).or_default().push((chain, &**place));
        }
    }
    let mut named = HashSet::new();
    for reference in &route.parents {
        let Some(parent) = route_named(reference, key) else { continue };
        if let Some(places) = below.remove(&parent) {
            named.insert(parent.clone());
            // One that names a rule that selects it, if there are several.
            let mut all = route.parents.iter().filter(|other| route_named(other, key).as_ref() == Some(&parent));
            let reference = all.find(|other| admits(scope, other, key, &places)).unwrap_or(reference);
            entries.push(Entry::Selecting(reference.clone(), parent, places));
        } else if !named.contains(&parent) && stands_in_a_tree(scope, &parent) {
            named.insert(parent.clone());
            entries.push(Entry::Never(reference.clone(), parent));
        }
    }
    let mut turns = BTreeMap::new();
    let mut unnamed: Vec<_> = below
        .into_iter()
        .map(|(parent, places)| {
            let turn = turns.entry(&parent.namespace).or_insert(0);
            *turn += usize::from(parent.namespace != key.namespace);
            (*turn, parent, places)
        })
        .collect();
    unnamed.sort_by_key(|(turn, ..)| *turn);
    entries.extend(unnamed.into_iter().map(|(_, parent, places)| {
        let reference = ParentRef {
            group: GATEWAY_API.into(),
            kind: "HTTPRoute".into(),
            namespace: Some(parent.namespace.clone()),
            name: parent.name.clone(),
            section_name: None,
            port: None,
        };
        Entry::Selecting(reference, parent.clone(), places)
    }));
    entries
}

/// Whether a reference of `own` admits a rule that selects it.
fn admits(scope: &Scope<'_>, reference: &ParentRef, own: &NsName, places: &[(&Chain, &Place)]) -> bool {
    let mut rules = places.iter().filter_map(|(chain, _)| chain.above());
    rules.any(|(parent, rule)| {
        let delegation = scope.get::<Delegating>(&(parent.clone(), rule));
        let name = delegation.as_ref().and_then(|delegation| delegation.rule_name.as_deref());
        consents(std::slice::from_ref(reference), &own.namespace, parent.route(), name)
    })
}

impl Derived for Overfull {
    fn compute(scope: &Emitter<'_>, key: &NsName) -> Option<()> {
        let places = scope.group::<Places>(key);
        let route = scope.get::<RouteHead>(key)?;
        if places.len() + route.parents.len() <= MAX_PARENTS {
            return None;
        }
        let attached = scope.get::<Attachment>(key)?;
        for entry in entries(scope, key, &route, &attached, Some(&places)).into_iter().skip(MAX_PARENTS) {
            if let Entry::Selecting(_, parent, _) = entry {
                scope.emit::<Unlisted>(parent, key.clone(), ());
            }
        }
        Some(())
    }
}

/// What is to be said of the children of a route whose statuses do not tell of it.
fn unlisted(scope: &Scope<'_>, parent: &NsName) -> Option<Problem> {
    if !scope.get::<RouteHead>(parent)?.delegates() {
        return None;
    }
    let children = scope.group::<Unlisted>(parent);
    if children.is_empty() {
        return None;
    }
    // Of another namespace there are only such that do not name the parent: those come first in their statuses.
    let first = NsName::new(parent.namespace.clone(), "");
    let own = children.range_from(&first).map(|(child, ())| child);
    let own = own.take_while(|child| child.namespace == parent.namespace);
    let mut names: Vec<_> = own.take(MAX_LISTED).map(|child| format!("HTTPRoute {child}")).collect();
    let others = children.len() - names.len();
    if others > 0 {
        names.push(format!("{others} more"));
    }
    let message = format!(
        "children with more than {MAX_PARENTS} parents do not tell of this one in their statuses: {}; have them name it \
         in parentRefs",
        names.join(", ")
    );
    Some(Problem::new(Severity::Warning, "TooManyParents", "", message))
}

/// The HTTPRoute that a reference of `own` names as a parent.
fn route_named(reference: &ParentRef, own: &NsName) -> Option<NsName> {
    let is_route = (&*reference.group, &*reference.kind) == (GATEWAY_API, "HTTPRoute");
    is_route.then(|| reference.target(&own.namespace))
}

/// Whether a route stands below a Gateway of ours, somewhere.
fn stands_in_a_tree(scope: &Scope<'_>, route: &NsName) -> bool {
    scope.get::<Branch>(&Chain::root(route.clone())).is_some() || !scope.group::<Places>(route).is_empty()
}

/// What is to be said of a route at a parent that selects it, wherever that stands.
fn child(scope: &Scope<'_>, attached: &Attached, reference: &ParentRef, places: &[(&Chain, &Place)]) -> Parent {
    let reference = reference_of(reference);
    let works = |chain: &Chain| scope.get::<Branch>(chain).is_some_and(|serving| *serving == Serving::AsWritten);
    let sound: Vec<_> = places.iter().filter(|(chain, place)| place.fault.is_none() && works(chain)).collect();
    let sound = || sound.iter().copied();
    let served: HashSet<_> = sound().flat_map(|(_, place)| place.served.iter().copied()).collect();
    // At one of its places there may be room for it, and at another not.
    let no_room = || {
        let bound = scope.get::<Config>(&())?.delegation.max_matches;
        places.iter().find_map(|(chain, _)| Some(beyond_fault(bound, beyond(scope, chain)?)))
    };
    if served.is_empty() {
        let fault = places.iter().find_map(|(_, place)| place.fault.clone());
        let fault = fault.or_else(no_room);
        let fault = fault.unwrap_or_else(|| nothing_fits(scope, attached, places));
        return Parent { reference, detached: Some(Box::new(fault)), refused: None, wrong: None };
    }
    let mut wrong = Wrong::of(scope, attached, sound().map(|(chain, _)| *chain));
    let unasked = || {
        let route = scope.get::<RouteHead>(sound().next()?.0.route())?;
        sound().find_map(|(chain, _)| published_unasked(chain, &route))
    };
    wrong.warnings.extend(unasked());
    let elsewhere = no_room();
    wrong.replaced |= elsewhere.is_some();
    wrong.faults.extend(elsewhere.map(|Fault { reason, message, .. }| {
        let message = format!("in another place below the same parent {message}");
        Problem::new(Severity::Replaced, reason, "", message)
    }));
    let mut told = HashSet::new();
    for (rule, matching, why) in sound().flat_map(|(_, place)| &*place.left_out) {
        // What one rule of the parent leaves out another may serve.
        if !served.contains(&(*rule, *matching)) && told.insert((*rule, *matching)) {
            let field = format!("spec.rules[{rule}].matches[{matching}]");
            wrong.faults.push(Problem::new(Severity::Refused, "NoMatchingParent", field, why.clone()));
        }
    }
    let refused = nothing_works(scope, sound());
    Parent { reference, detached: None, refused: refused.map(Box::new), wrong: wrong.shared() }
}

fn nothing_fits(scope: &Scope<'_>, attached: &Attached, places: &[(&Chain, &Place)]) -> Fault {
    let mut left_out: Vec<_> = Vec::new();
    for (rule, matching, why) in places.iter().flat_map(|(_, place)| &*place.left_out) {
        let text = format!("spec.rules[{rule}].matches[{matching}]: {why}");
        if !left_out.contains(&text) {
            left_out.push(text);
        }
    }
    for problem in Wrong::of(scope, attached, places.iter().map(|(chain, _)| *chain)).faults {
        left_out.push(problem.to_string());
    }
    Fault::new("NoMatchingParent", format!("no match lies below one of the parent's: {}", listed(&left_out)))
}

/// Why no rule that is served does what it says, if so.
fn nothing_works<'a>(scope: &Scope<'_>, places: impl Iterator<Item = &'a (&'a Chain, &'a Place)>) -> Option<Fault> {
    let mut first = None;
    for (chain, place) in places {
        let rules: BTreeSet<_> = place.served.iter().map(|(rule, _)| *rule).collect();
        for rule in rules {
            let Some(rule) = scope.get::<ResolvedRule>(&((*chain).clone(), rule)) else { continue };
            let problem = rule.fault()?;
            first.get_or_insert_with(|| Fault::new(problem.reason, problem.to_string()));
        }
    }
    first
}

impl Wrong {
    /// What is wrong with a route where it stands at `chains`; each thing once.
    fn of<'a>(scope: &Scope<'_>, attached: &Attached, chains: impl IntoIterator<Item = &'a Chain>) -> Self {
        let mut wrong = Self { head: attached.problems.clone(), ..Self::default() };
        // In many places there may be thousands of them.
        let mut seen = HashSet::new();
        let mut add = |list: &mut Vec<Problem>, problem: &Problem| {
            if seen.insert(problem.clone()) {
                list.push(problem.clone());
            }
        };
        let mut unlisted_of = None;
        for chain in chains {
            // One route, in all of its places.
            unlisted_of.get_or_insert(chain);
            let overruns = Overruns::read(scope, chain);
            for rule in 0..attached.rules {
                for problem in overruns.problems(rule) {
                    wrong.replaced |= problem.severity == Severity::Replaced;
                    add(&mut wrong.faults, &problem);
                }
                let Some(resolved) = scope.get::<ResolvedRule>(&(chain.clone(), rule)) else { continue };
                let left_out = if resolved.costs_time() { left_out(scope, chain, rule) } else { None };
                if let Some(problem) = left_out {
                    add(&mut wrong.faults, &problem);
                }
                let Some(findings) = &resolved.findings else { continue };
                let replaced = [findings.replaced.as_slice(), &findings.shares, &findings.closed];
                wrong.replaced |= !replaced.concat().is_empty() || !findings.empty.is_empty();
                let faults = findings.dropped.iter().chain(replaced.into_iter().flatten());
                faults.for_each(|problem| add(&mut wrong.faults, problem));
                findings.empty.iter().for_each(|problem| add(&mut wrong.empty, problem));
                findings.unresolved.iter().for_each(|problem| add(&mut wrong.unresolved, problem));
                findings.warnings.iter().for_each(|problem| add(&mut wrong.warnings, problem));
            }
        }
        wrong.warnings.extend(unlisted_of.and_then(|chain| unlisted(scope, chain.route())));
        wrong
    }

    fn shared(self) -> Option<Arc<Self>> {
        (self != Self::default()).then(|| Arc::new(self))
    }
}

impl Verdict {
    /// As it is written to the object; none for one without a parent of ours.
    fn status(&self) -> Option<Status> {
        if !self.has_status() {
            return None;
        }
        let parents = self.parents.iter().map(|parent| RouteParentStatus {
            parent_ref: parent.reference.clone(),
            controller_name: self.controller_name.clone(),
            conditions: parent.conditions(self.generation),
        });
        Some(Status { parents: parents.collect() })
    }

    /// Whether the route is published by one of another namespace though it names no parent.
    pub(crate) fn is_published_unasked(&self) -> bool {
        let wrong = self.parents.iter().filter_map(|parent| parent.wrong.as_ref());
        wrong.flat_map(|wrong| &wrong.warnings).any(|warning| warning.reason == UNASKED)
    }
}

impl Report for Verdict {
    fn has_status(&self) -> bool {
        !self.parents.is_empty()
    }

    fn json(&self) -> Option<String> {
        self.status().as_ref().map(json)
    }

    fn value(&self) -> serde_json::Value {
        value(self.status())
    }

    /// Everything that is wrong; what is wrong at several parents once.
    fn problems(&self) -> Vec<Problem> {
        let mut problems: Vec<Problem> = Vec::new();
        let mut seen = HashSet::new();
        let wrong = self.parents.iter().filter_map(|parent| parent.wrong.as_ref()).chain(&self.elsewhere);
        for wrong in wrong {
            let Wrong { head, faults, empty, unresolved, warnings, .. } = &**wrong;
            for problem in head.iter().chain(faults).chain(empty).chain(unresolved).chain(warnings) {
                if seen.insert(problem) {
                    problems.push(problem.clone());
                }
            }
        }
        let detached = self.parents.iter().filter_map(|parent| parent.detached.as_ref());
        problems
            .extend(detached.map(|fault| Problem::new(Severity::Refused, fault.reason, &fault.field, &fault.message)));
        problems
    }
}

impl Parent {
    fn conditions(&self, generation: i64) -> Vec<Condition> {
        let nothing = Wrong::default();
        let wrong = self.wrong.as_deref().unwrap_or(&nothing);
        let mut conditions = Conditions::new(generation);
        let refused = self.detached.as_ref().or(self.refused.as_ref());
        match refused {
            Some(fault) => conditions.no("Accepted", fault.reason, fault.to_string()),
            None => {
                let small = |problem: &&Problem| problem.severity >= Severity::Ignored;
                let notes: Vec<_> = wrong.head.iter().filter(small).chain(&wrong.warnings).collect();
                conditions.yes("Accepted", "Accepted", and_notes("the route is attached", &notes));
            }
        }
        match wrong.unresolved.first() {
            Some(first) => conditions.no("ResolvedRefs", first.reason, listed(&wrong.unresolved)),
            None => conditions.yes("ResolvedRefs", "ResolvedRefs", "all references resolve"),
        }
        let lost = wrong.head.iter().filter(|problem| problem.severity == Severity::Refused);
        let lost: Vec<_> = lost.chain(&wrong.faults).collect();
        if refused.is_none() && !lost.is_empty() {
            conditions.yes("PartiallyInvalid", "UnsupportedValue", format!("Dropped Rule: {}", listed(&lost)));
        }
        let unprogrammed: Vec<_> = wrong.faults.iter().chain(&wrong.empty).collect();
        if !unprogrammed.is_empty() && self.detached.is_none() {
            let reason = if wrong.replaced { "RouteRuleReplaced" } else { "RouteRuleDropped" };
            conditions.no("kgateway.dev/Programmed", reason, listed(&unprogrammed));
        }
        conditions.list
    }
}
