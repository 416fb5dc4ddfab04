//! What a route's matches become where it stands.

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

use engine::Scope;
use ir::{
    Chain, Problem, Reason, RouteId,
    delegation::{Children, PlacedMatch, SortMethod},
    matching::{Age, At, Match, Path, Step, Within},
    route::{Annotations, Head, MatchSpec},
    settings::Consent,
};

use super::{
    contain::Inner,
    index::{Child, ChildHead},
    inherit::{join, joinable},
    policy::terms,
    select::consents,
};
use crate::tables::{
    attachment::NamespaceLabels,
    delegation::{Delegating, Delegation},
    gateway::Fault,
    input::Config,
    terms::Terms,
};

/// What the matches of a rule become.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Those that lie below the parent's.
    pub(crate) matches: Vec<PlacedMatch>,
    /// The parent's matches with something below, and the places among [`Self::matches`] of those that ask for no more.
    pub(crate) below: BTreeMap<u32, Vec<u32>>,
    /// Those that do not, and why.
    pub(crate) left_out: Vec<(u32, String)>,
}

impl Outcome {
    /// Notes that the match which comes next lies below match number `ordinal` of the parent.
    fn lies_below(&mut self, ordinal: u32, parent: &Match, next: &Match) {
        let place = u32::try_from(self.matches.len()).unwrap_or(u32::MAX);
        let covers = parent.specificity() == next.specificity();
        self.below.entry(ordinal).or_default().extend(covers.then_some(place));
    }
}

/// A route where it stands.
#[derive(Debug)]
pub(crate) struct PlacedRoute {
    /// The parent's rule; none for a root.
    pub(crate) above: Option<Arc<Delegation>>,
    /// Why none of its rules does what it says.
    pub(crate) fault: Option<Fault>,
    /// What its annotations say.
    pub(crate) annotations: Annotations,
    age: Age,
    position: u32,
}

impl PlacedRoute {
    /// None where the parent's rule delegates nothing.
    pub(crate) fn of(scope: &Scope<'_>, chain: &Chain, route: &Head) -> Option<Self> {
        let above = match chain.above() {
            None => None,
            Some((parent, rule)) => Some(scope.get::<Delegating>(&(parent.clone(), rule))?),
        };
        let name = chain.route();
        Some(Self {
            fault: above.as_ref().and_then(|above| {
                let withdrawn = || withdrawn(scope, chain, above);
                not_allowed(scope, above, name).or_else(withdrawn).or_else(|| fault(scope, chain, route))
            }),
            annotations: route.annotations,
            age: Age { created: route.created, name: name.name.clone() },
            // Those that are not named come behind those that are.
            position: above.as_ref().map_or(0, |above| above.position(name).unwrap_or(u32::MAX)),
            above,
        })
    }

    /// What is asked of a rule and its children.
    ///
    /// # Errors
    /// Those of [`terms`].
    pub(crate) fn terms(
        &self,
        scope: &Scope<'_>,
        name: &RouteId,
        route: &Head,
        rule: Option<&Arc<str>>,
    ) -> Result<Terms, Problem> {
        terms(scope, name, route, rule, self.above.as_ref().map(|above| &above.terms))
    }

    /// What the matches of rule number `rule` become.
    pub(crate) fn place(&self, rule: u32, read: &[MatchSpec]) -> Outcome {
        self.place_at_most(rule, read, usize::MAX)
    }

    /// [`Self::place`], given up when there are more than `most`: each match can be joined with many of its parent's.
    pub(super) fn place_at_most(&self, rule: u32, read: &[MatchSpec], most: usize) -> Outcome {
        let mut outcome = Outcome::default();
        let Some(above) = &self.above else {
            outcome.matches.extend(read.iter().map(|read| PlacedMatch {
                index: read.index,
                ordinal: 0,
                written: read.written.clone(),
                below: None,
                steps: self.steps(None, &read.written, rule, read.index),
            }));
            return outcome;
        };
        for read in read {
            let place = |parent: &PlacedMatch, ordinal, written: Match| PlacedMatch {
                index: read.index,
                below: below(parent, &written),
                ordinal,
                steps: self.steps(Some((above.terms.sort, parent)), &written, rule, read.index),
                written,
            };
            let before = outcome.matches.len();
            let mut why = None;
            if self.annotations.inherits_matcher {
                let joinable = joinable(&read.written).map_err(|unjoinable| why = Some(unjoinable.to_string()));
                let with = if joinable.is_ok() { &*above.matches } else { &[] };
                for (parent, ordinal) in with.iter().zip(0..) {
                    if outcome.matches.len() > most {
                        return outcome;
                    }
                    match join(&parent.written, &read.written) {
                        Ok(joined) => {
                            outcome.lies_below(ordinal, &parent.written, &joined);
                            outcome.matches.push(place(parent, ordinal, joined));
                        }
                        Err(unjoinable) => why = why.or(Some(unjoinable.to_string())),
                    }
                }
            } else {
                // Of several parents' matches around it, it belongs to the narrowest.
                let mut around: Option<&PlacedMatch> = None;
                let inner = Inner::of(&read.written);
                // Of all others it is known that the path leads out of them.
                let near = match &read.written.path {
                    Path::Exact(path) | Path::Prefix(path) => Some(above.around(path)),
                    Path::Regex(_) => None,
                };
                let near = near.unwrap_or_else(|| (0..).take(above.matches.len()).collect());
                for ordinal in near {
                    let Some(parent) = above.matches.get(ordinal as usize) else { continue };
                    if inner.lies_below(&parent.written).is_ok() {
                        outcome.lies_below(ordinal, &parent.written, &read.written);
                        let narrower = |other: &PlacedMatch| parent.written.specificity() < other.written.specificity();
                        if around.is_none_or(narrower) {
                            around = Some(parent);
                        }
                    }
                }
                if let (None, Some(first)) = (around, above.matches.first()) {
                    let outside = inner.lies_below(&first.written).err();
                    why = outside.map(|outside| format!("{outside}, which is {}", describe(&first.written)));
                }
                outcome.matches.extend(around.map(|parent| place(parent, 0, read.written.clone())));
            }
            if outcome.matches.len() == before {
                let why = why.unwrap_or_else(|| "the parent's rule matches nothing".into());
                outcome.left_out.push((read.index, why));
            }
        }
        outcome
    }

    /// The matches of the parent below which it can have nothing, since they are no prefixes and it does not inherit.
    pub(crate) fn barred(&self) -> Vec<u32> {
        let Some(above) = self.above.as_ref().filter(|_| !self.annotations.inherits_matcher) else { return Vec::new() };
        let all = above.matches.iter().zip(0..);
        all.filter(|(parent, _)| !matches!(parent.written.path, Path::Prefix(_))).map(|(_, at)| at).collect()
    }

    /// The place of a match of this route; `parent` has the way in which its parent sorts it, and the parent's match.
    fn steps(
        &self,
        parent: Option<(SortMethod, &PlacedMatch)>,
        written: &Match,
        rule: u32,
        matching: u32,
    ) -> Arc<[Step]> {
        let mut at = At {
            specificity: Some(written.specificity()),
            gives_way: false,
            weight: Reverse(self.annotations.weight),
            position: 0,
            age: self.age.clone(),
            rule,
            matching,
            within: parent.map(|(_, parent)| within(parent)).unwrap_or_default(),
        };
        let Some((sort, parent)) = parent else { return [Step::At(at)].into() };
        let steps = &*parent.steps;
        let kept = match sort {
            SortMethod::TableWeight => {
                at.specificity = None;
                at.position = self.position;
                steps
            }
            // It takes part in the contest in which the parent's match stands, or in one of its own in a table's place.
            SortMethod::RouteSpecificity => match steps.split_last() {
                Some((Step::At(At { specificity: Some(_), .. }), kept)) => kept,
                _ => steps,
            },
        };
        kept.iter().cloned().chain([Step::At(at)]).collect()
    }
}

/// A match, and those that it stands below.
fn within(written: &PlacedMatch) -> Within {
    let above = match written.steps.last() {
        Some(Step::At(at) | Step::Left(at)) => &*at.within.0,
        Some(Step::Last) | None => &[],
    };
    Within(std::iter::once(written.written.specificity()).chain(above.iter().copied()).collect())
}

/// The path prefix at or below which all lies that a match takes which is an expression, and stands below one of its parent.
fn below(parent: &PlacedMatch, written: &Match) -> Option<Arc<str>> {
    match (&written.path, &parent.written.path) {
        (Path::Regex(_), Path::Prefix(prefix)) => Some(prefix.clone()),
        (Path::Regex(_), Path::Exact(_) | Path::Regex(_)) => parent.below.clone(),
        (Path::Exact(_) | Path::Prefix(_), _) => None,
    }
}

/// A match in few words.
pub(crate) fn describe(written: &Match) -> String {
    let (kind, path) = match &written.path {
        Path::Exact(path) => ("Exact", path),
        Path::Prefix(path) => ("PathPrefix", path),
        Path::Regex(path) => ("RegularExpression", path),
    };
    let method = written.method.as_ref().map(|method| format!("{method} ")).unwrap_or_default();
    let names = |conditions: &[ir::matching::Condition]| {
        conditions.iter().map(|condition| condition.name.to_string()).collect::<Vec<_>>().join(", ")
    };
    let mut text = format!("{method}{kind} {path}");
    for (what, conditions) in [("header", &written.headers), ("query parameter", &written.queries)] {
        if !conditions.is_empty() {
            text = format!("{text} with {what} {}", names(conditions));
        }
    }
    text
}

fn not_allowed(scope: &Scope<'_>, above: &Delegation, child: &RouteId) -> Option<Fault> {
    let namespace = child.namespace();
    let labels = || scope.get::<NamespaceLabels>(namespace).map(|labels| (*labels).clone());
    let refused = above.terms.restrictions.iter().any(|restriction| !restriction.allows_namespace(namespace, labels));
    refused.then(|| {
        let message = format!("the owner of the parent allows no children in namespace {namespace}; ask for it there");
        // What a kept tree loses answers by itself, so that no sibling takes its requests.
        let reason = if child.edition.is_some() { Reason::RefNotPermitted } else { Reason::NotAllowedByParent };
        Fault::new(reason, message)
    })
}

/// What takes a child of an edition away, by the word of its owner now.
fn withdrawn(scope: &Scope<'_>, chain: &Chain, above: &Delegation) -> Option<Fault> {
    let child = chain.route();
    child.edition.as_ref()?;
    let parent = chain.above()?.0.route().live();
    let deleted = || Some(Fault::new(Reason::BackendNotFound, "it is deleted, and the tree that is kept has it still"));
    let Some(now) = scope.get::<ChildHead>(&child.live()) else { return deleted() };
    let kept = scope.get::<ChildHead>(child)?;
    if !now.uid.is_empty() && !kept.uid.is_empty() && now.uid != kept.uid {
        return deleted();
    }
    if !is_meant(above, child, &now) {
        let message =
            "it has no longer the label by which its parent selected it, and the tree that is kept has it still";
        return Some(Fault::new(Reason::RefNotPermitted, message));
    }
    let asks = now.parents.is_empty() && child.namespace() != parent.namespace();
    let anybody = scope.get::<Config>(&())?.delegation.consent == Consent::Any;
    if (asks && !anybody) || !consents(&now.parents, child.namespace(), &parent, above.rule_name.as_deref()) {
        let message = "it does not admit its parent any more, and the tree that is kept has it still";
        return Some(Fault::new(Reason::RefNotPermitted, message));
    }
    None
}

/// Whether a reference of a rule means a child of an edition, by the labels that it has now.
fn is_meant(above: &Delegation, child: &RouteId, now: &Child) -> bool {
    above.children.iter().any(|(_, children)| match children {
        Children::Named(named) => named == child,
        Children::InNamespace(namespace) => namespace == child.namespace(),
        Children::Labelled(label, namespace) => {
            now.label.as_deref() == Some(&**label)
                && namespace.as_ref().is_none_or(|namespace| namespace == child.namespace())
        }
    })
}

/// Why a child does nothing of what it says.
fn fault(scope: &Scope<'_>, chain: &Chain, route: &Head) -> Option<Fault> {
    if route.names_hostnames {
        let message = "a route that others delegate to is served for the hostnames of their root; remove them here";
        return Some(Fault::at(Reason::UnsupportedValue, "spec.hostnames", message));
    }
    let bound = scope.get::<Config>(&())?.delegation.max_depth;
    (chain.depth() > bound).then(|| {
        let message =
            format!("it stands below {} routes, and {bound} are allowed; delegate in fewer steps", chain.depth());
        Fault::new(Reason::UnsupportedValue, message)
    })
}
