//! Policies: attached to routes, rules, Gateways and listeners, inherited down trees of routes, and judged.
//!
//! A policy files itself under what it targets, so that it wakes its targets alone. What a rule makes of the policies on
//! it and on its ancestors is in [`rule`]; what those on a Gateway or listener do is in [`wide`].

mod count;
pub(crate) mod level;
pub(crate) mod merge;
mod read;
pub(crate) mod rule;
pub(crate) mod secrets;
pub(crate) mod wide;

use std::sync::Arc;

use api::{
    Kind, Object, ObjectId,
    group::KGATEWAY_GROUP,
    meta::{ObjectMeta, StringMap},
    policy::{LocalPolicyTargetReference, LocalPolicyTargetSelector},
};
use engine::{Derived, Emitter, Group, Lookup, Scope};
use ir::{GATEWAY_API, NsName, Problem, RouteId, RouteKind, Severity, filter::PathModifier, matching::Age};
use units::{AnyUnit, Others, ParsedUnit, Unit, UrlRewrite};

use crate::{
    budget::cost::{matchable, replaceable},
    extension, internal,
    tables::{
        input::{Backends, Config, Gateways, ObjectKey, RewritePolicies, Services, TrafficPolicies, object_kind},
        policy::{
            ConfigPoliciesOf, ConfigSelecting, ConfigTargeting, PoliciesOf, Policy, PolicyRow, Rank, Sections,
            Selecting, Selector, Target, Targeting,
        },
        route::RouteHead,
    },
    violation::{sound, violations},
};
pub(crate) use read::weight_problem;

/// The key of a policy's row in the table of its kind.
pub(crate) fn key_of(id: &ObjectId) -> NsName {
    NsName::new(id.namespace.clone(), id.name.clone())
}

/// The kind that a target means, of those that a policy of `policy` kind can apply to.
pub(crate) fn target_kind(policy: Kind, group: &str, kind: &str) -> Option<Kind> {
    match RouteKind::named(group, kind) {
        _ if policy == Kind::BackendConfigPolicy => match (group, kind) {
            ("", "Service") => Some(Kind::Service),
            (KGATEWAY_GROUP, "Backend") => Some(Kind::Backend),
            _ => None,
        },
        Some(route) if policy == Kind::TrafficPolicy || route.delegates() => Some(object_kind(route)),
        None if policy == Kind::TrafficPolicy && (group, kind) == (GATEWAY_API, "Gateway") => Some(Kind::Gateway),
        _ => None,
    }
}

/// The section that is meant; an empty name means all of the object.
pub(crate) fn section(name: Option<&Arc<str>>) -> Option<Arc<str>> {
    name.filter(|name| !name.is_empty()).cloned()
}

/// A policy of any kind, apart from what it says.
struct Attachable<'a> {
    metadata: &'a ObjectMeta,
    refs: &'a [LocalPolicyTargetReference],
    selectors: &'a [LocalPolicyTargetSelector],
}

impl Derived for PolicyRow {
    fn compute(scope: &Emitter<'_>, id: &ObjectId) -> Option<Policy> {
        row(
            scope,
            id,
            |policy| traffic(scope, policy),
            |policy| {
                let said = sound(&Object::RewritePolicy(policy.clone())).and_then(|()| read::rewrite(&policy.spec));
                Ok(vec![ParsedUnit { field: UrlRewrite::FIELD, unit: said.map(AnyUnit::UrlRewrite) }])
            },
        )
    }

    /// It is refused, and stays with its targets, which are not served as if it were not there.
    fn poisoned(scope: &Emitter<'_>, id: &ObjectId, _: &engine::Fault) -> Option<Policy> {
        let refused = || Err(internal::problem(Severity::Refused, ""));
        row(scope, id, |_| refused(), |_| refused())
    }
}

/// What a policy says. What an API server would have refused of a unit breaks that unit; of a policy that does not decode
/// nobody knows what it says.
fn traffic(scope: &Emitter<'_>, policy: &api::TrafficPolicy) -> Result<Vec<ParsedUnit>, Problem> {
    let mut refused: Vec<_> = violations(&Object::TrafficPolicy(policy.clone())).collect();
    let is_of_all =
        |problem: &Problem| !policy.spec.invalid.is_empty() || ParsedUnit::unit_at(&problem.field).is_none();
    if let Some(of_all) = refused.iter().position(is_of_all) {
        return Err(refused.swap_remove(of_all));
    }
    let secrets = secrets::OfPolicy::new(scope, &policy.metadata.namespace);
    let extensions = extension::OfPolicy { scope, namespace: &policy.metadata.namespace };
    let others = Others { secrets: &secrets, extensions: &extensions };
    let mut units = units::read(&policy.spec, &others)?;
    for said in &mut units {
        if let Some(Err(problem)) = said.unit.as_ref().ok().map(|unit| affordable(scope, unit)) {
            said.unit = Err(problem);
        }
    }
    for problem in refused.into_iter().rev() {
        let Some(field) = ParsedUnit::unit_at(&problem.field) else { continue };
        units.retain(|said| said.field != field);
        units.push(ParsedUnit { field, unit: Err(problem) });
    }
    Ok(units)
}

/// Refuses a unit with expressions that take too long.
fn affordable(scope: &Emitter<'_>, unit: &AnyUnit) -> Result<(), Problem> {
    if let AnyUnit::UrlRewrite(UrlRewrite { path: PathModifier::Regex { pattern, .. } }) = unit {
        replaceable(scope, pattern, "spec.urlRewrite.pathRegex.pattern")?;
    }
    let patterns: Vec<_> = unit.slots().into_iter().flat_map(|slot| slot.patterns.to_vec()).collect();
    if patterns.is_empty() { Ok(()) } else { matchable(scope, &patterns, &format!("spec.{}", unit.field())) }
}

/// A policy under what it targets, with what the reader of its kind takes from it.
fn row(
    scope: &Emitter<'_>,
    id: &ObjectId,
    traffic: impl FnOnce(&api::TrafficPolicy) -> Result<Vec<ParsedUnit>, Problem>,
    rewrite: impl FnOnce(&api::RewritePolicy) -> Result<Vec<ParsedUnit>, Problem>,
) -> Option<Policy> {
    let key = key_of(id);
    if id.kind == Kind::TrafficPolicy {
        let policy = scope.get::<TrafficPolicies>(&key)?;
        let api::TrafficPolicy { metadata, spec } = &*policy;
        let written = Attachable { metadata, refs: &spec.target_refs, selectors: &spec.target_selectors };
        Some(Policy {
            rank: file::<Targeting, Selecting>(scope, id, &written, section),
            units: traffic(&policy).map(Into::into),
        })
    } else {
        let policy = scope.get::<RewritePolicies>(&key)?;
        let api::RewritePolicy { metadata, spec } = &*policy;
        let written = Attachable { metadata, refs: &spec.target_refs, selectors: &spec.target_selectors };
        Some(Policy {
            rank: file::<Targeting, Selecting>(scope, id, &written, section),
            units: rewrite(&policy).map(Into::into),
        })
    }
}

/// Files a policy of backends under what it targets.
pub(crate) fn of_backends(scope: &Emitter<'_>, id: &ObjectId, policy: &api::BackendConfigPolicy) {
    let api::BackendConfigPolicy { metadata, spec } = policy;
    let policy = Attachable { metadata, refs: &spec.target_refs, selectors: &spec.target_selectors };
    // They hold for all of an object or not at all, and one that names a section closes it.
    file::<ConfigTargeting, ConfigSelecting>(scope, id, &policy, |_| None);
}

/// Files a policy under what it targets.
fn file<T, S>(scope: &Emitter<'_>, id: &ObjectId, policy: &Attachable<'_>, section: SectionOf) -> Rank
where
    T: Group<Key = Target, Sort = Rank, Entry = ()>,
    S: Group<Key = SelectingKey, Sort = (Rank, u32), Entry = Arc<Selector>>,
{
    let created = policy.metadata.creation_timestamp.map_or(0, jiff::Timestamp::as_second);
    let age = Age { created, name: key_of(id) };
    let rank = Rank { kind: id.kind, weight: read::weight(policy.metadata), age };
    for target in policy.refs {
        let Some(kind) = target_kind(id.kind, &target.group, &target.kind) else { continue };
        let object = ObjectId::new(kind, id.namespace.clone(), target.name.clone());
        let target = Target { object, section: section(target.section_name.as_ref()) };
        scope.emit::<T>(target, rank.clone(), ());
    }
    for (selector, index) in policy.selectors.iter().zip(0..) {
        let Some(kind) = target_kind(id.kind, &selector.group, &selector.kind) else { continue };
        let first = selector.match_labels.first_key_value().map(|(key, value)| (key.clone(), value.clone()));
        let section = section(selector.section_name.as_ref());
        let namespace = if is_global(scope, id) { Arc::default() } else { id.namespace.clone() };
        let entry = Selector { labels: selector.match_labels.clone(), section };
        scope.emit::<S>((kind, namespace, first), (rank.clone(), index), Arc::new(entry));
    }
    rank
}

/// The section that a target means by what it names.
type SectionOf = fn(Option<&Arc<str>>) -> Option<Arc<str>>;

/// A kind, a namespace, and a label.
type SelectingKey = <Selecting as Group>::Key;

/// The namespace whose policies select objects of every namespace, if there is one.
fn global_namespace(scope: &Scope<'_>) -> Option<Arc<str>> {
    let config = scope.get::<Config>(&())?;
    Some(config.policies.global_namespace.clone()).filter(|namespace| !namespace.is_empty())
}

fn is_global(scope: &Scope<'_>, policy: &ObjectId) -> bool {
    matches!(policy.kind, Kind::TrafficPolicy | Kind::BackendConfigPolicy)
        && global_namespace(scope).is_some_and(|namespace| namespace == policy.namespace)
}

impl Lookup for PoliciesOf {
    fn compute(scope: &Scope<'_>, target: &Target) -> Option<Box<[ObjectId]>> {
        let object = &target.object;
        match object.kind {
            Kind::Gateway => attached::<Targeting, Selecting>(
                scope,
                target,
                &scope.get::<Gateways>(&key_of(object))?.metadata.labels,
            ),
            _ => {
                attached::<Targeting, Selecting>(scope, target, &scope.get::<RouteHead>(&RouteId::of(object)?)?.labels)
            }
        }
    }
}

impl Lookup for ConfigPoliciesOf {
    fn compute(scope: &Scope<'_>, object: &ObjectId) -> Option<Box<[ObjectId]>> {
        let target = Target { object: object.clone(), section: None };
        let key = key_of(object);
        match object.kind {
            Kind::Service => {
                attached::<ConfigTargeting, ConfigSelecting>(scope, &target, &scope.get::<Services>(&key)?.labels)
            }
            _ => {
                let labels = &scope.get::<Backends>(&key)?.metadata.labels;
                attached::<ConfigTargeting, ConfigSelecting>(scope, &target, labels)
            }
        }
    }
}

/// The policies that name a target or select it by its labels, in the order in which they count.
fn attached<T, S>(scope: &Scope<'_>, target: &Target, labels: &StringMap) -> Option<Box<[ObjectId]>>
where
    T: Group<Key = Target, Sort = Rank, Entry = ()>,
    S: Group<Key = SelectingKey, Sort = (Rank, u32), Entry = Arc<Selector>>,
{
    let object = &target.object;
    let mut ranks: Vec<Rank> = scope.group::<T>(target).iter().map(|(rank, ())| rank.clone()).collect();
    let everywhere = global_namespace(scope).map(|_| Arc::default());
    let pairs = labels.iter().map(|(key, value)| Some((key.clone(), value.clone())));
    let namespaces = [Some(object.namespace.clone()), everywhere].into_iter().flatten();
    let all = pairs.chain([None]).flat_map(|pair| namespaces.clone().map(move |from| (from, pair.clone())));
    for (from, pair) in all {
        let selecting = scope.group::<S>(&(object.kind, from, pair));
        let selected = selecting.iter().filter(|(_, selector)| {
            selector.section == target.section
                && selector.labels.iter().all(|(key, value)| labels.get(key) == Some(value))
        });
        ranks.extend(selected.map(|((rank, _), _)| rank.clone()));
    }
    ranks.sort_unstable();
    ranks.dedup();
    let policies: Box<[_]> = ranks.iter().map(Rank::policy).collect();
    (!policies.is_empty()).then_some(policies)
}

impl Lookup for Sections {
    fn compute(scope: &Scope<'_>, object: &ObjectId) -> Option<Box<[Arc<str>]>> {
        let key = key_of(object);
        Some(match object.kind {
            Kind::Gateway => {
                scope.get::<Gateways>(&key)?.spec.listeners.iter().map(|listener| listener.name.clone()).collect()
            }
            _ => scope.get::<RouteHead>(&RouteId::of(object)?)?.rule_names().cloned().collect(),
        })
    }
}
