//! Trees of routes that keep their last good version, as DelegationPolicies ask by `failureMode: FreezeConfig`.
//!
//! What is kept of a tree is an [`Edition`]: its routes and the policies on them as they were when all of them did what they
//! say. The root is served from it, always, and never from the objects as they are: these are judged beside it ([`Judged`]),
//! and become the next edition when they are good. Whoever keeps editions is told of a tree that changed
//! ([`Translator::take_roots`]), and says what is kept ([`Translator::set_edition`]), so that the same objects and the same editions
//! give the same bytes.
//!
//! Kept is what the owners of the tree say. All else is as it is now: Gateways, Namespaces, grants, backends, Secrets,
//! policies on Gateways, which are kept by themselves if at all ([`wide`]), and those of the namespace whose policies hold everywhere. And what goes, goes at once: a route of an edition is
//! served no further than the route as it is now still stands and consents, and as its parents still allow.

pub(crate) mod wide;

use std::sync::Arc;

use api::{Kind, ObjectId};
use engine::{Derived, Emitter, Scope};
use ir::{Chain, Problem, Reason, RootId, RouteId, Severity, route::ExtensionKind};

use crate::{
    Translator,
    delegation::{directives_for, excess_fault, excess_of, freezing},
    internal,
    resolve::{Findings, ResolvedRule, RuleFindings},
    route::direct_response,
    tables::{
        delegation::Places,
        edition::{
            Faults, FreezeTold, Judged, JudgedRoute, Tree, TreeObject, TreeObjects, TreeOf, TreePart, TreeParts,
            WideTree,
            objects::{Edition, Member, Part, part_of},
        },
        input::{
            CandidateWords, Config, DelegationPolicies, DirectResponses, EditionObjects, EditionRoutes, Editions,
            FrozenTold, Kept, ObjectKey, RewritePolicies, Routes, Shared, TrafficPolicies, object_id, root_object,
        },
        route::{RouteHead, RouteRule},
        strict::CandidateWord,
    },
    target::{is_global, key_of},
};

/// How many faults of a tree are told; the rest is counted.
const TOLD: usize = 8;

/// A tree that shall be kept, as its objects are now.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// What would be kept of it. Less than all of its objects where it is not good.
    pub edition: Edition,
    /// How many faults it has; none in one that is good.
    pub faults: usize,
    /// The first of them.
    pub first: Vec<Arc<str>>,
    /// Whether no Envoy has said yet whether it takes all of it, where one is asked before anything is sent.
    pub waits: bool,
}

impl Candidate {
    /// Whether all of it does what it says, as far as is known.
    pub fn is_sound(&self) -> bool {
        self.faults == 0 && !self.edition.is_empty()
    }

    /// Whether it may be kept: it is sound, and nobody is asked about it any more.
    pub fn is_good(&self) -> bool {
        self.is_sound() && !self.waits
    }
}

/// Whether a tree shall be kept.
#[derive(Clone, Debug)]
pub enum Wish {
    /// Nothing asks for it, or its root is gone: what is kept of it ends.
    Over,
    /// Nobody knows, since its root is set aside.
    Unknown,
    /// It shall. This is what it is now.
    Kept(Candidate),
}

impl Derived for Judged {
    fn compute(scope: &Emitter<'_>, key: &(Chain, u32)) -> Option<()> {
        let (chain, rule) = key;
        let (root, route) = (chain.top(), chain.route());
        let fault = fault_of(scope, key).or_else(|| answers_for_children(scope, key));
        if let Some(words) = fault {
            scope.emit::<Faults>(root.clone(), (chain.clone(), Some(*rule)), words);
        }
        let keep = |object: ObjectId| {
            // What holds everywhere is not the tree's own.
            if !is_global(scope, &object) {
                scope.demand::<TreeObject>((root.clone(), object));
            }
        };
        let resolved = scope.get::<ResolvedRule>(key);
        let policies = resolved.as_ref().and_then(|resolved| resolved.policies.as_ref());
        policies.iter().flat_map(|policies| policies.all.iter()).cloned().for_each(keep);
        let written = scope.get::<RouteRule>(&(route.clone(), *rule))?;
        if let Some(said) = written.name.clone().and_then(|name| directives_for(scope, route, Some(name))) {
            keep(said.0.clone().id(Kind::DelegationPolicy));
        }
        let extensions = written.handling.iter().flat_map(|handling| &handling.extensions);
        for extension in extensions.filter(|extension| extension.kind == ExtensionKind::DirectResponse) {
            keep(direct_response::named_by(route, extension));
        }
        Some(())
    }

    fn poisoned(scope: &Emitter<'_>, (chain, rule): &(Chain, u32), _: &engine::Fault) -> Option<()> {
        scope.emit::<Faults>(chain.top().clone(), (chain.clone(), Some(*rule)), internal::WORDS.into());
        Some(())
    }
}

/// What is wrong with a rule of a tree: anything by which it does other than what it says.
fn fault_of(scope: &Scope<'_>, key: &(Chain, u32)) -> Option<Arc<str>> {
    let found = scope.get::<RuleFindings>(key)?;
    let route = key.0.route();
    let first = found.all.iter().find_map(|findings| first_of(findings));
    match first.or(found.fault.as_ref()) {
        Some(problem) => Some(told(route, problem)),
        None => found.is_nowhere.then(|| format!("{route} spec.rules[{}]: {}", key.1, internal::WORDS).into()),
    }
}

/// Whether a rule that delegates answers anything itself, which it does not where its children serve.
fn answers_for_children(scope: &Scope<'_>, key: &(Chain, u32)) -> Option<Arc<str>> {
    let (chain, rule) = key;
    let head = scope.get::<RouteHead>(chain.route())?;
    head.rules.get(*rule as usize).filter(|rule| rule.delegates)?;
    let answers = scope.get::<ResolvedRule>(key).is_some_and(|resolved| resolved.has_routes());
    answers.then(|| {
        let route = chain.route();
        format!("{route} spec.rules[{rule}]: no child serves what it delegates, so it answers by itself").into()
    })
}

fn first_of(findings: &Findings) -> Option<&Problem> {
    let Findings { dropped, replaced, shares, closed, empty, unresolved, .. } = findings;
    let of_matches = closed.iter().chain(empty).map(|(_, problem)| problem);
    replaced.iter().chain(dropped).chain(shares).chain(unresolved).chain(of_matches).next()
}

fn told(route: &RouteId, problem: &Problem) -> Arc<str> {
    format!("{route} {problem}").into()
}

impl Derived for JudgedRoute {
    fn compute(scope: &Emitter<'_>, chain: &Chain) -> Option<()> {
        let (root, route) = (chain.top(), chain.route());
        if let Some(words) = fault_of_route(scope, chain) {
            scope.emit::<Faults>(root.clone(), (chain.clone(), None), words);
        }
        scope.demand::<TreeObject>((root.clone(), object_id(route)));
        if let Some(said) = directives_for(scope, route, None) {
            scope.demand::<TreeObject>((root.clone(), said.0.clone().id(Kind::DelegationPolicy)));
        }
        Some(())
    }

    fn poisoned(scope: &Emitter<'_>, chain: &Chain, _: &engine::Fault) -> Option<()> {
        scope.emit::<Faults>(chain.top().clone(), (chain.clone(), None), internal::WORDS.into());
        Some(())
    }
}

/// What is wrong with a route of a tree, apart from its rules.
fn fault_of_route(scope: &Scope<'_>, chain: &Chain) -> Option<Arc<str>> {
    let route = chain.route();
    let head = scope.get::<RouteHead>(route)?;
    if let Some(problem) = head.problems.iter().find(|problem| problem.severity == Severity::Refused) {
        return Some(told(route, problem));
    }
    let (parent, _) = chain.above()?;
    let places = scope.group::<Places>(route);
    let place = places.get(chain)?;
    let bound = scope.get::<Config>(&())?.delegation.max_matches;
    let fault = place.fault.clone().or_else(|| Some(excess_fault(bound, excess_of(scope, chain)?)));
    if let Some(fault) = fault {
        return Some(format!("{route} {fault}").into());
    }
    // What one rule of the parent leaves out another may serve.
    let beside = || {
        let is_beside = |(other, _): &(&Chain, _)| other.above().is_some_and(|(above, _)| above == parent);
        places.iter().filter(is_beside).flat_map(|(_, place)| place.served.iter())
    };
    let lost = |(rule, matching, _): &&(u32, u32, String)| !beside().any(|served| served == &(*rule, *matching));
    let (rule, matching, why) = place.left_out.iter().find(lost)?;
    let field = format!("spec.rules[{rule}].matches[{matching}]");
    Some(told(route, &Problem::new(Severity::Refused, Reason::NoMatchingParent, field, why.clone())))
}

impl Derived for TreeObject {
    fn compute(scope: &Emitter<'_>, (root, id): &(RouteId, ObjectId)) -> Option<()> {
        let key = key_of(id);
        let object = Shared(match id.kind {
            Kind::TrafficPolicy => Kept::TrafficPolicy(scope.get::<TrafficPolicies>(&key)?),
            Kind::RewritePolicy => Kept::RewritePolicy(scope.get::<RewritePolicies>(&key)?),
            Kind::DelegationPolicy => Kept::DelegationPolicy(scope.get::<DelegationPolicies>(&key)?),
            Kind::DirectResponse => Kept::DirectResponse(scope.get::<DirectResponses>(&key)?),
            _ => Kept::Route(scope.get::<Routes>(&RouteId::of(id)?)?),
        });
        let part = (root.clone(), part_of(id));
        scope.emit::<TreeObjects>(part.clone(), id.clone(), Member::new(id, object));
        scope.demand::<TreePart>(part);
        Some(())
    }
}

impl Derived for TreePart {
    fn compute(scope: &Emitter<'_>, key: &(RouteId, u8)) -> Option<()> {
        let members = scope.group::<TreeObjects>(key);
        let part = Part::new(members.iter().map(|(id, member)| (id.clone(), member.clone())));
        scope.emit::<TreeParts>(key.0.clone(), key.1, Arc::new(part));
        Some(())
    }

    /// A tree without a part of its objects is not good.
    fn poisoned(scope: &Emitter<'_>, (root, _): &(RouteId, u8), _: &engine::Fault) -> Option<()> {
        scope.emit::<Faults>(root.clone(), (Chain::root(root.clone()), None), internal::WORDS.into());
        Some(())
    }
}

impl Derived for TreeOf {
    fn compute(scope: &Emitter<'_>, root: &RouteId) -> Option<Tree> {
        freezing(scope, root)?;
        let faults = scope.group::<Faults>(root);
        let is_own = |chain: &Chain| chain.route().namespace() == root.namespace();
        let first = faults.iter().filter(|((chain, _), _)| is_own(chain)).map(|(_, words)| words.clone());
        let first: Box<[_]> = first.take(TOLD).collect();
        let parts = scope.group::<TreeParts>(root);
        let edition = Edition::of_parts(parts.iter().map(|(place, part)| (*place, Arc::clone(part))));
        let (mut count, mut first) = (faults.len(), first);
        let word = scope.get::<CandidateWords>(&root.root());
        // What is refused of a rule is a fault of it, unless only a listener makes it such.
        if let Some(CandidateWord::Refused(words)) = word.as_deref().filter(|_| count == 0) {
            (count, first) = (1, [words.clone()].into());
        }
        let waits = matches!(word.as_deref(), Some(CandidateWord::Awaited));
        Some(Tree { edition, faults: count, first, waits, beside: None })
    }
}

impl Translator {
    /// The roots of what shall be kept, or no longer, and that changed since this was last asked.
    pub fn take_roots(&mut self) -> Vec<RootId> {
        let engine = self.engine_mut();
        let mut roots: Vec<_> = engine.take_changes::<TreeOf>().iter().map(RouteId::root).collect();
        roots.extend(engine.take_changes::<WideTree>().into_iter().map(RootId::Gateway));
        roots
    }

    /// Whether what belongs to a root shall be kept, and what it is now.
    pub fn wish(&self, root: &RootId) -> Wish {
        let engine = self.engine();
        let (tree, is_unknown) = match (root, root.route()) {
            (_, Some(route)) => (engine.get::<TreeOf>(&route), engine.fault::<TreeOf>(&route).is_some()),
            (root, None) => {
                let gateway = root.name();
                let is_faulty = engine.fault::<WideTree>(gateway).is_some();
                (engine.get::<WideTree>(gateway), is_faulty || wide::is_unknown(engine, gateway))
            }
        };
        let object = root_object(root);
        if let Some(tree) = tree {
            let mut edition = tree.edition.clone();
            if edition.get(&object).is_none() {
                edition = Edition::default();
            }
            return Wish::Kept(Candidate {
                edition,
                faults: tree.faults,
                first: tree.first.to_vec(),
                waits: tree.waits,
            });
        }
        if is_unknown || self.set_aside(&object).is_some() { Wish::Unknown } else { Wish::Over }
    }

    /// What the owner of a root is told of how its tree is kept, or that of another object of a tree of its change; none where nobody
    /// asks for that, or nothing waits.
    pub fn set_frozen(&mut self, object: &ObjectId, told: Option<FreezeTold>) {
        self.engine_mut().set::<FrozenTold>(object.clone(), told);
    }

    /// Has what is kept of trees be heard, whatever the settings say.
    pub fn keep_trees(&mut self) {
        let engine = self.engine_mut();
        if let Some(settings) = engine.get::<Config>(&()) {
            let mut settings = (*settings).clone();
            settings.freeze.enabled = true;
            engine.set::<Config>((), Some(settings));
        }
    }

    /// What is kept of a root, from which it is served from the next settling on, as long as a policy asks for that;
    /// none where nothing is.
    pub fn set_edition(&mut self, root: &RootId, edition: Option<&Edition>) {
        let name: ir::Edition = Arc::new(root.clone());
        let engine = self.engine_mut();
        let before = engine.get::<Editions>(root);
        let none = Edition::default();
        let (before, now) = (before.as_deref().unwrap_or(&none), edition.unwrap_or(&none));
        // Whoever is told what is kept of a tree is told all of it, and what is the same wakes nobody.
        for (id, object) in now.changes_since(before) {
            match RouteId::of(id) {
                Some(route) => {
                    let route = route.of_edition(Some(&name));
                    let kept = object.and_then(|object| match &object.0 {
                        Kept::Route(kept) => Some(Arc::clone(kept)),
                        _ => None,
                    });
                    engine.share::<EditionRoutes>(route, kept);
                }
                None => {
                    engine.set::<EditionObjects>((name.clone(), id.clone()), object.cloned());
                }
            }
        }
        engine.set::<Editions>(root.clone(), edition.cloned());
    }
}
