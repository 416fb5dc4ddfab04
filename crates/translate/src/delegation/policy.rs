//! DelegationPolicies: what the owner of a parent asks of its children.

use std::{cmp::Reverse, sync::Arc};

use api::{
    DelegationPolicy, Kind, Object,
    delegation_policy::{AllowedBackend, AllowedChildren, DelegationPolicySpec, FailureMode, SortMethod as ApiSort},
    policy::LocalPolicyTargetReference,
    shared::BackendRef,
};
use engine::{Derived, Emitter, Lookup, Scope};
use ir::{
    NsName, Problem, Reason, RouteId, RouteKind, Severity,
    delegation::SortMethod,
    matching::Age,
    route::{Head, REQUIRE_AUTH},
};

use crate::{
    internal,
    tables::{
        edition::{Asked, AskedFor, FreezingOf, ServedFrom, Source},
        gateway::Fault,
        input::{Config, DelegationPolicies, EditionObjects, Editions, Kept, ObjectKey, object_id},
        policy::{PoliciesOf, Rank, Target, Targeting},
        route::RouteHead,
        terms::{Backends, Defaults, Demand, Namespaces, Restriction, Terms},
    },
    violation::sound,
};

tables! {
    /// Files a policy under its targets.
    DelegationPolicyRow: Source<NsName> => ();
    /// What a policy says, as far as it can be honoured.
    PolicyDirectives: Source<NsName> => Directives;
    /// What is said of a route (no name) or of its rule of that name, by the oldest policy that targets it.
    DirectivesFor: (RouteId, Option<Arc<str>>) => (NsName, Arc<Directives>);
}

groups! {
    /// The policies that target a route or a rule of it, the oldest first.
    DelegationPoliciesOf: (RouteId, Option<Arc<str>>), Age => ();
}

impl Derived for DelegationPolicyRow {
    fn compute(scope: &Emitter<'_>, key: &Source<NsName>) -> Option<()> {
        file(scope, key)
    }

    /// It stays with its targets.
    fn poisoned(scope: &Emitter<'_>, key: &Source<NsName>, _: &engine::Fault) -> Option<()> {
        file(scope, key)
    }
}

/// A policy as it is, or as it is in an edition.
fn written(scope: &Scope<'_>, Source { edition, key }: &Source<NsName>) -> Option<Arc<DelegationPolicy>> {
    let Some(edition) = edition else { return scope.get::<DelegationPolicies>(key) };
    match &scope.get::<EditionObjects>(&(edition.clone(), key.clone().id(Kind::DelegationPolicy)))?.0 {
        Kept::DelegationPolicy(policy) => Some(Arc::clone(policy)),
        _ => None,
    }
}

fn file(scope: &Emitter<'_>, source: &Source<NsName>) -> Option<()> {
    let policy = written(scope, source)?;
    let Source { edition, key } = source;
    let created = policy.metadata.creation_timestamp.map_or(0, jiff::Timestamp::as_second);
    for target in &policy.spec.target_refs {
        if let Some(route) = targeted(key, target) {
            let route = route.of_edition(edition.as_ref());
            let section = target.section_name.clone().filter(|section| !section.is_empty());
            let age = Age { created, name: key.clone() };
            let rank = Rank { kind: Kind::DelegationPolicy, weight: Reverse(0), age: age.clone() };
            scope.emit::<Targeting>(target_of(&route, section.clone()), rank, ());
            scope.emit::<DelegationPoliciesOf>((route, section), age, ());
        }
    }
    Some(())
}

/// What a policy says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Directives {
    /// Why it cannot be honoured, so that what it targets is not served.
    pub(crate) refused: Option<Fault>,
    /// Why its failure mode cannot be honoured; the rest is.
    pub(crate) failure_mode: Option<Fault>,
    /// Whether the tree keeps its last good version.
    pub(crate) freezes: bool,
    sort: Option<SortMethod>,
    restriction: Option<Arc<Restriction>>,
    defaults: Arc<[BackendRef]>,
    requires_auth: bool,
}

impl Lookup for PolicyDirectives {
    fn compute(scope: &Scope<'_>, key: &Source<NsName>) -> Option<Directives> {
        let policy = written(scope, key)?;
        let can_freeze = scope.get::<Config>(&())?.freeze.enabled;
        let sound = sound(&Object::DelegationPolicy(DelegationPolicy::clone(&policy)));
        let sound = sound.map_err(|problem| Fault::at(problem.reason, problem.field, problem.message));
        let said = sound.and_then(|()| read(&key.key, &policy.spec, can_freeze));
        Some(said.unwrap_or_else(|fault| Directives { refused: Some(fault), ..Directives::default() }))
    }

    fn poisoned(scope: &Scope<'_>, key: &Source<NsName>, _: &engine::Fault) -> Option<Directives> {
        written(scope, key)?;
        Some(Directives { refused: Some(internal::fault()), ..Directives::default() })
    }
}

impl Lookup for DirectivesFor {
    fn compute(scope: &Scope<'_>, key: &(RouteId, Option<Arc<str>>)) -> Option<Self::Value> {
        let policies = scope.group::<DelegationPoliciesOf>(key);
        let (Age { name, .. }, ()) = policies.first()?;
        Some((name.clone(), scope.get::<PolicyDirectives>(&Source::beside(&key.0, name.clone()))?))
    }
}

/// The route that a policy targets; none for an object of a kind that does not delegate.
pub(crate) fn targeted(policy: &NsName, target: &LocalPolicyTargetReference) -> Option<RouteId> {
    let kind = RouteKind::named(&target.group, &target.kind).filter(|kind| kind.delegates())?;
    Some(RouteId::new(kind, NsName::new(policy.namespace.clone(), target.name.clone())))
}

fn target_of(route: &RouteId, section: Option<Arc<str>>) -> Target {
    Target { object: object_id(route), section, edition: route.edition.clone() }
}

/// What is said of a route or of its rule of a name. Most have no such policy, which the list of all policies, read
/// anyway, tells: so they need no rows here.
pub(crate) fn directives_for(
    scope: &Scope<'_>,
    route: &RouteId,
    section: Option<Arc<str>>,
) -> Option<Arc<(NsName, Arc<Directives>)>> {
    let policies = scope.get::<PoliciesOf>(&target_of(route, section.clone()))?;
    let any = policies.iter().any(|policy| policy.kind == Kind::DelegationPolicy);
    any.then(|| scope.get::<DirectivesFor>(&(route.clone(), section)))?
}

fn read(policy: &NsName, spec: &DelegationPolicySpec, can_freeze: bool) -> Result<Directives, Fault> {
    let invalid = |field: &str, message: String| Fault::at(Reason::Invalid, field, message);
    for (index, target) in spec.target_refs.iter().enumerate() {
        if targeted(policy, target).is_none() {
            let message = format!("{} of group {:?} does not delegate; use HTTPRoute", target.kind, target.group);
            return Err(invalid(&format!("spec.targetRefs[{index}]"), message));
        }
    }
    let sort = match &spec.sort_method {
        None => None,
        Some(ApiSort::RouteSpecificity) => Some(SortMethod::RouteSpecificity),
        Some(ApiSort::TableWeight) => Some(SortMethod::TableWeight),
        Some(ApiSort::Unknown(other)) => {
            let message = format!("{other:?} is no way to sort; use RouteSpecificity or TableWeight");
            return Err(invalid("spec.sortMethod", message));
        }
    };
    let freezes = can_freeze && spec.failure_mode == Some(FailureMode::FreezeConfig);
    let failure_mode = match &spec.failure_mode {
        None | Some(FailureMode::RouteReplacement) => None,
        Some(FailureMode::FreezeConfig) if freezes => {
            let is_section = |target: &&LocalPolicyTargetReference| {
                target.section_name.as_ref().is_some_and(|section| !section.is_empty())
            };
            spec.target_refs.iter().find(is_section).map(|_| {
                let message = "FreezeConfig is of a whole tree, and sectionName names one rule; remove either";
                Fault::at(Reason::Invalid, "spec.failureMode", message)
            })
        }
        Some(FailureMode::FreezeConfig) => {
            let message = "FreezeConfig is not supported yet: what is broken is replaced; use RouteReplacement";
            Some(Fault::at(Reason::UnsupportedValue, "spec.failureMode", message))
        }
        Some(FailureMode::Unknown(other)) => {
            let message = format!("{other:?} is no failure mode; use RouteReplacement");
            return Err(invalid("spec.failureMode", message));
        }
    };
    let restriction = spec.allowed_children.as_ref().map(|children| restriction(policy, children)).transpose()?;
    Ok(Directives {
        refused: None,
        failure_mode,
        freezes,
        sort,
        restriction: restriction.map(Arc::new),
        defaults: spec.default_backend_refs.clone().into(),
        requires_auth: spec.require_auth,
    })
}

fn restriction(policy: &NsName, children: &AllowedChildren) -> Result<Restriction, Fault> {
    let field = "spec.allowedChildren";
    let namespaces = match &children.namespaces {
        None => None,
        Some(allowed) => Some(match (&allowed.names, &allowed.selector) {
            (Some(names), None) => Namespaces::Named(names.clone()),
            (None, Some(selector)) => {
                selector.matches(&api::meta::StringMap::default()).map_err(|error| {
                    Fault::at(Reason::Invalid, format!("{field}.namespaces.selector.{error}"), "correct the selector")
                })?;
                Namespaces::Labelled(selector.clone())
            }
            _ => {
                let message = "either names or selector says which namespaces are allowed; set one of both";
                return Err(Fault::at(Reason::Invalid, format!("{field}.namespaces"), message));
            }
        }),
    };
    let backends = children.backends.as_ref().map(|list| {
        let all = list.iter().enumerate();
        all.map(|(index, allowed)| backends(allowed, &format!("{field}.backends[{index}]"))).collect()
    });
    let may_disable = children.allow_disabling_inherited_policies;
    Ok(Restriction { policy: policy.clone(), namespaces, backends: backends.transpose()?, may_disable })
}

fn backends(allowed: &AllowedBackend, field: &str) -> Result<Backends, Fault> {
    let name = allowed.name.as_ref().map(|pattern| {
        let refuse = |message: String| Fault::at(Reason::Invalid, format!("{field}.name"), message);
        validate::regex::check(pattern).map_err(|invalid| refuse(invalid.to_string()))?;
        regex::Regex::new(&format!("^(?:{pattern})$")).map_err(|error| refuse(error.to_string()))
    });
    let group = allowed.group.clone().unwrap_or_default();
    Ok(Backends {
        group_kind: allowed.kind.clone().map(|kind| (group, kind)),
        namespace: allowed.namespace.clone(),
        name: name.transpose()?,
    })
}

/// The DelegationPolicy that keeps the children of a rule from switching off what they inherit, if one does.
pub(crate) fn keeper(scope: &Scope<'_>, route: &RouteId, rule: Option<&Arc<str>>) -> Option<NsName> {
    let sections = [None].into_iter().chain(rule.map(|rule| Some(rule.clone())));
    let said = sections.filter_map(|section| directives_for(scope, route, section));
    let mut said = said.chain(as_they_are(scope, route, rule));
    said.find(|said| said.1.restriction.as_ref().is_some_and(|restriction| !restriction.may_disable))
        .map(|said| said.0.clone())
}

/// The terms of a rule of `route` below those of its parent's rule.
///
/// # Errors
/// Where a policy that targets the rule is refused: it never means that everything is allowed.
pub(crate) fn terms(
    scope: &Scope<'_>,
    route: &RouteId,
    head: &Head,
    rule: Option<&Arc<str>>,
    above: Option<&Terms>,
) -> Result<Terms, Problem> {
    let mut terms = above.cloned().unwrap_or_default();
    // Its own parent's choice.
    terms.sort = SortMethod::default();
    if requires_auth(head) {
        terms.requires_auth.get_or_insert_with(|| labelled(route));
    }
    let of_route = directives_for(scope, route, None);
    let of_rule = rule.and_then(|rule| directives_for(scope, route, Some(rule.clone())));
    let now = || scope.get::<RouteHead>(&route.live());
    if let Some(now) = route.edition.as_ref().and_then(|_| now())
        && requires_auth(&now)
    {
        terms.requires_auth.get_or_insert_with(|| labelled(route));
    }
    // What is said of the rule comes last, since it is the more precise.
    for said in of_route.iter().chain(&of_rule) {
        let (policy, said) = &**said;
        if let Some(fault) = &said.refused {
            let message = format!("DelegationPolicy {policy} is refused: {fault}");
            return Err(Problem::new(Severity::Replaced, Reason::Invalid, "", message));
        }
        terms.sort = said.sort.unwrap_or(terms.sort);
        if !said.defaults.is_empty() {
            let (policy, backends) = (policy.clone(), said.defaults.clone());
            terms.defaults = Some(Defaults { policy, backends, below: terms.restrictions.len() });
        }
        if let Some(restriction) = &said.restriction {
            terms.restrictions = terms.restrictions.iter().chain([restriction]).cloned().collect();
        }
        if said.requires_auth {
            let what = || format!("DelegationPolicy {policy}").into();
            terms.requires_auth.get_or_insert_with(|| Demand { namespace: policy.namespace.clone(), what: what() });
        }
    }
    for said in as_they_are(scope, route, rule) {
        let (policy, said) = &*said;
        if let Some(restriction) =
            said.restriction.as_ref().filter(|restriction| !terms.restrictions.contains(restriction))
        {
            terms.restrictions = terms.restrictions.iter().chain([restriction]).cloned().collect();
        }
        if said.requires_auth {
            let what = || format!("DelegationPolicy {policy}").into();
            terms.requires_auth.get_or_insert_with(|| Demand { namespace: policy.namespace.clone(), what: what() });
        }
    }
    Ok(terms)
}

fn requires_auth(head: &Head) -> bool {
    head.annotations.requires_auth
}

fn labelled(route: &RouteId) -> Demand {
    Demand { namespace: route.namespace().clone(), what: format!("the label {REQUIRE_AUTH} of {route}").into() }
}

/// What policies as they are now say of a rule of an edition: what they demand holds at once, whatever else of them waits.
/// Of those that are refused nobody knows what they demand, and what the edition demands goes on. One that means a rule which
/// the edition does not have means all of the route: nobody knows which of these that rule was.
fn as_they_are(scope: &Scope<'_>, route: &RouteId, rule: Option<&Arc<str>>) -> Vec<Arc<(NsName, Arc<Directives>)>> {
    if route.edition.is_none() {
        return Vec::new();
    }
    let live = route.live();
    let (kept, now) = (scope.get::<RouteHead>(route), scope.get::<RouteHead>(&live));
    let is_kept = |name: &&Arc<str>| kept.iter().flat_map(|head| head.rule_names()).any(|kept| kept == *name);
    let new = now.iter().flat_map(|head| head.rule_names()).filter(|name| !is_kept(name));
    let sections = [None].into_iter().chain(rule.cloned().map(Some)).chain(new.cloned().map(Some));
    let said = sections.filter_map(|section| directives_for(scope, &live, section));
    said.filter(|said| said.1.refused.is_none()).collect()
}

impl Lookup for AskedFor {
    fn compute(scope: &Scope<'_>, root: &RouteId) -> Option<Asked> {
        let said = directives_for(scope, root, None)?;
        match &said.1.refused {
            Some(_) => Some(Asked::Unknown),
            None => said.1.freezes.then_some(Asked::Freeze),
        }
    }

    fn poisoned(_: &Scope<'_>, _: &RouteId, _: &engine::Fault) -> Option<Asked> {
        Some(Asked::Unknown)
    }
}

impl Lookup for FreezingOf {
    fn compute(scope: &Scope<'_>, root: &RouteId) -> Option<ServedFrom> {
        let asked = scope.get::<AskedFor>(root)?;
        match (*asked, scope.get::<Editions>(&root.root())) {
            (_, Some(_)) => Some(ServedFrom::Edition),
            (Asked::Freeze, None) => Some(ServedFrom::Objects),
            (Asked::Unknown, None) => None,
        }
    }
}

/// How the tree of a root is served that shall be kept; none where nobody asks for that.
pub(crate) fn freezing(scope: &Scope<'_>, root: &RouteId) -> Option<ServedFrom> {
    let may = root.edition.is_none() && root.kind.delegates() && scope.get::<Config>(&())?.freeze.enabled;
    may.then(|| scope.get::<FreezingOf>(root)).flatten().map(|from| *from)
}
