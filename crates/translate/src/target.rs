//! What policies target: they are filed under it, so that they wake their targets alone, and found there.

use std::{cmp::Reverse, fmt, sync::Arc};

use api::{
    Kind, ObjectId,
    group::KGATEWAY_GROUP,
    meta::{Entry, ObjectMeta, value_of},
    policy::{LocalPolicyTargetReference, LocalPolicyTargetSelector},
};
use engine::{Emitter, Group, Lookup, Scope};
use ir::{
    Edition, GATEWAY_API, NsName, Problem, Reason, RouteId, RouteKind, Severity, backend::Destination, matching::Age,
};

use crate::{
    kept::gateway_in,
    tables::{
        edition::Source,
        input::{Backends, Config, Gateways, ListenerSets, ObjectKey, Services, object_id, object_kind},
        policy::{
            ConfigPoliciesOf, ConfigSelecting, ConfigTargeting, ListenerPoliciesOf, ListenerSelecting,
            ListenerTargeting, NamingListeners, PoliciesOf, Rank, Selecting, Selector, Target, Targeting,
        },
        route::RouteHead,
    },
};

/// The key of a policy's row in the table of its kind.
pub(crate) fn key_of(id: &ObjectId) -> NsName {
    NsName::new(id.namespace.clone(), id.name.clone())
}

/// The object that a backend is.
pub(crate) fn backend_object(to: &Destination) -> ObjectId {
    let kind = if to.port().is_some() { Kind::Service } else { Kind::Backend };
    to.name().clone().id(kind)
}

/// The kind that a target means, of those that a policy of `policy` kind can apply to.
pub(crate) fn target_kind(policy: Kind, group: &str, kind: &str) -> Option<Kind> {
    match RouteKind::named(group, kind) {
        _ if matches!(policy, Kind::BackendConfigPolicy | Kind::BackendTlsPolicy) => match (group, kind) {
            ("", "Service") => Some(Kind::Service),
            (KGATEWAY_GROUP, "Backend") => Some(Kind::Backend),
            _ => None,
        },
        _ if policy == Kind::ListenerPolicy => ((group, kind) == (GATEWAY_API, "Gateway")).then_some(Kind::Gateway),
        // Into streams nobody looks, so that no policy of requests can hold there.
        Some(route) if route.is_stream() => None,
        Some(route) if policy == Kind::TrafficPolicy || route.delegates() => Some(object_kind(route)),
        None if policy == Kind::TrafficPolicy => {
            Kind::find(group, kind).filter(|kind| matches!(kind, Kind::Gateway | Kind::ListenerSet))
        }
        _ => None,
    }
}

/// The section that is meant; an empty name means all of the object.
pub(crate) fn section(name: Option<&Arc<str>>) -> Option<Arc<str>> {
    name.filter(|name| !name.is_empty()).cloned()
}

/// A policy of any kind, apart from what it says.
pub(crate) struct Attachable<'a> {
    /// The edition in which it stands, if it does in one.
    pub(crate) edition: Option<&'a Edition>,
    pub(crate) metadata: &'a ObjectMeta,
    pub(crate) refs: &'a [LocalPolicyTargetReference],
    pub(crate) selectors: &'a [LocalPolicyTargetSelector],
}

/// The annotation with a policy's weight among those of one target.
const WEIGHT: &str = "kgateway.dev/policy-weight";

/// The greater first; what is no weight counts as none.
fn weight(metadata: &ObjectMeta) -> Reverse<i32> {
    Reverse(written_weight(metadata).and_then(|weight| weight.trim().parse().ok()).unwrap_or_default())
}

fn written_weight(metadata: &ObjectMeta) -> Option<&str> {
    metadata.annotations.get(WEIGHT).map(AsRef::as_ref)
}

/// A weight that is none.
pub(crate) fn weight_problem(metadata: &ObjectMeta) -> Option<Problem> {
    let written = written_weight(metadata).filter(|written| written.trim().parse::<i32>().is_err())?;
    let message = format!("{written:?} means nothing here: it counts as 0; use a whole number of 32 bits");
    Some(Problem::new(Severity::Ignored, Reason::UnsupportedValue, format!("metadata.annotations[{WEIGHT}]"), message))
}

/// Files a policy under what it targets.
pub(crate) fn file(scope: &Emitter<'_>, id: &ObjectId, policy: &Attachable<'_>) -> Rank {
    let of_listeners = policy.refs.iter().zip(0..).filter(|(target, _)| {
        policy.edition.is_none() && target_kind(id.kind, &target.group, &target.kind) == Some(Kind::Gateway)
    });
    for (target, index) in of_listeners {
        let gateway = NsName::new(id.namespace.clone(), target.name.clone());
        if let Some(listener) = section(target.section_name.as_ref()) {
            scope.emit::<NamingListeners>(gateway, (id.clone(), index), listener);
        }
    }
    file_in::<Targeting, Selecting>(scope, id, policy, section)
}

/// What is wrong with a target, by its place in `targetRefs`, whose object has no such section.
pub(crate) fn no_section(object: &ObjectId, section: &str, index: impl fmt::Display) -> Problem {
    let part = if matches!(object.kind, Kind::Gateway | Kind::ListenerSet) { "listener" } else { "rule" };
    let message = format!("{object} has no {part} named {section}; name one so, or correct the name");
    Problem::new(Severity::Ignored, Reason::TargetNotFound, format!("spec.targetRefs[{index}].sectionName"), message)
}

/// Files a policy of backends under what it targets.
pub(crate) fn file_of_backends(scope: &Emitter<'_>, id: &ObjectId, policy: &api::BackendConfigPolicy) {
    let api::BackendConfigPolicy { metadata, spec } = policy;
    let policy = Attachable { edition: None, metadata, refs: &spec.target_refs, selectors: &spec.target_selectors };
    // They hold for all of an object or not at all, and one that names a section closes it.
    file_in::<ConfigTargeting, ConfigSelecting>(scope, id, &policy, |_| None);
}

/// Files a policy of listeners under what it targets.
pub(crate) fn file_of_gateways(scope: &Emitter<'_>, id: &ObjectId, policy: &api::ListenerPolicy) {
    let api::ListenerPolicy { metadata, spec } = policy;
    let policy = Attachable { edition: None, metadata, refs: &spec.target_refs, selectors: &spec.target_selectors };
    // They hold for all of an object or not at all, and one that names a section closes it.
    file_in::<ListenerTargeting, ListenerSelecting>(scope, id, &policy, |_| None);
}

fn file_in<T, S>(scope: &Emitter<'_>, id: &ObjectId, policy: &Attachable<'_>, section: SectionOf) -> Rank
where
    T: Group<Key = Target, Sort = Rank, Entry = ()>,
    S: Group<Key = SelectingKey, Sort = (Rank, u32), Entry = Arc<Selector>>,
{
    let created = policy.metadata.creation_timestamp.map_or(0, jiff::Timestamp::as_second);
    let age = Age { created, name: key_of(id) };
    let rank = Rank { kind: id.kind, weight: weight(policy.metadata), age };
    for target in policy.refs {
        let Some(kind) = target_kind(id.kind, &target.group, &target.kind) else { continue };
        let object = ObjectId::new(kind, id.namespace.clone(), target.name.clone());
        let section = section(target.section_name.as_ref());
        scope.emit::<T>(Target { object, section, edition: policy.edition.cloned() }, rank.clone(), ());
    }
    for (selector, index) in policy.selectors.iter().zip(0..) {
        let Some(kind) = target_kind(id.kind, &selector.group, &selector.kind) else { continue };
        let first = selector.match_labels.first().cloned();
        let section = section(selector.section_name.as_ref());
        let namespace = if is_global(scope, id) { Arc::default() } else { id.namespace.clone() };
        let entry = Selector { labels: selector.match_labels.clone(), section };
        let of = Source { edition: policy.edition.cloned(), key: (kind, namespace, first) };
        scope.emit::<S>(of, (rank.clone(), index), Arc::new(entry));
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

pub(crate) fn is_global(scope: &Scope<'_>, policy: &ObjectId) -> bool {
    matches!(policy.kind, Kind::TrafficPolicy | Kind::BackendConfigPolicy | Kind::ListenerPolicy)
        && global_namespace(scope).is_some_and(|namespace| namespace == policy.namespace)
}

impl Lookup for PoliciesOf {
    fn compute(scope: &Scope<'_>, target: &Target) -> Option<Box<[ObjectId]>> {
        let object = &target.object;
        match object.kind {
            Kind::Gateway => {
                let gateway = match &target.edition {
                    Some(edition) => gateway_in(scope, edition, &key_of(object))?,
                    None => scope.get::<Gateways>(&key_of(object))?,
                };
                attached::<Targeting, Selecting>(scope, target, &gateway.metadata.labels)
            }
            Kind::ListenerSet => attached::<Targeting, Selecting>(
                scope,
                target,
                &scope.get::<ListenerSets>(&key_of(object))?.metadata.labels,
            ),
            _ => {
                let route = RouteId::of(object)?.of_edition(target.edition.as_ref());
                attached::<Targeting, Selecting>(scope, target, &scope.get::<RouteHead>(&route)?.labels)
            }
        }
    }
}

impl Lookup for ConfigPoliciesOf {
    fn compute(scope: &Scope<'_>, object: &ObjectId) -> Option<Box<[ObjectId]>> {
        let target = Target { object: object.clone(), section: None, edition: None };
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

impl Lookup for ListenerPoliciesOf {
    fn compute(scope: &Scope<'_>, gateway: &NsName) -> Option<Box<[ObjectId]>> {
        let target = Target { object: gateway.clone().id(Kind::Gateway), section: None, edition: None };
        let labels = &scope.get::<Gateways>(gateway)?.metadata.labels;
        attached::<ListenerTargeting, ListenerSelecting>(scope, &target, labels)
    }
}

/// Where a policy is read that holds for a route of an edition: those of the namespace whose policies hold everywhere are
/// their owner's word on all routes, and never kept as they were.
pub(crate) fn source_of(scope: &Scope<'_>, edition: Option<&Edition>, id: ObjectId) -> Source<ObjectId> {
    let edition = edition.filter(|_| !is_global(scope, &id)).cloned();
    Source { edition, key: id }
}

/// The policies that name a target or select it by its labels, in the order in which they count. With those of an edition
/// count those as they are that are never kept: first those that hold for the route as it is now, then those that hold for it as
/// it was, since what its owner takes away from it waits.
fn attached<T, S>(scope: &Scope<'_>, target: &Target, labels: &[Entry]) -> Option<Box<[ObjectId]>>
where
    T: Group<Key = Target, Sort = Rank, Entry = ()>,
    S: Group<Key = SelectingKey, Sort = (Rank, u32), Entry = Arc<Selector>>,
{
    let mut ranks = found::<T, S>(scope, target, labels);
    let mut as_it_was = Vec::new();
    if target.edition.is_some() {
        ranks.retain(|rank| !is_global(scope, &rank.policy()));
        ranks.extend(of_platform::<T, S>(scope, target));
        as_it_was = found::<T, S>(scope, &Target { edition: None, ..target.clone() }, labels);
        as_it_was.retain(|rank| is_global(scope, &rank.policy()) && !ranks.contains(rank));
    }
    for ranks in [&mut ranks, &mut as_it_was] {
        ranks.sort_unstable();
        ranks.dedup();
    }
    ranks.extend(as_it_was);
    let policies: Box<[_]> = ranks.iter().map(Rank::policy).collect();
    (!policies.is_empty()).then_some(policies)
}

/// The ranks of those of the namespace whose policies hold everywhere that hold for an object, or a section of it, as it is now;
/// none where it is no more.
fn of_platform<T, S>(scope: &Scope<'_>, target: &Target) -> Vec<Rank>
where
    T: Group<Key = Target, Sort = Rank, Entry = ()>,
    S: Group<Key = SelectingKey, Sort = (Rank, u32), Entry = Arc<Selector>>,
{
    let now = Target { edition: None, ..target.clone() };
    let ranks = match target.object.kind {
        Kind::Gateway => scope
            .get::<Gateways>(&key_of(&target.object))
            .map(|gateway| found::<T, S>(scope, &now, &gateway.metadata.labels)),
        _ => RouteId::of(&target.object)
            .and_then(|route| scope.get::<RouteHead>(&route))
            .map(|head| found::<T, S>(scope, &now, &head.labels)),
    };
    let mut ranks = ranks.unwrap_or_default();
    ranks.retain(|rank| is_global(scope, &rank.policy()));
    ranks
}

/// A name of a rule of a route as it is now by which a policy of the namespace whose policies hold everywhere means it, and that
/// the route in an edition does not have: nobody knows which of the rules there that was, unless it still has a name of its own.
pub(crate) fn rule_of_platform(scope: &Scope<'_>, route: &RouteId, rule: Option<&Arc<str>>) -> Option<Arc<str>> {
    route.edition.as_ref()?;
    global_namespace(scope)?;
    let (kept, now) = (scope.get::<RouteHead>(route)?, scope.get::<RouteHead>(&route.live())?);
    if rule.is_some_and(|rule| now.rule_names().any(|name| name == rule)) {
        return None;
    }
    let new = now.rule_names().filter(|name| !kept.rule_names().any(|kept| kept == *name));
    let target = |name: &Arc<str>| Target { object: object_id(route), section: Some(name.clone()), edition: None };
    let mut meant = new.filter(|name| !of_platform::<Targeting, Selecting>(scope, &target(name)).is_empty());
    meant.next().cloned()
}

/// The ranks of those that are of the edition that is meant, or as they are.
fn found<T, S>(scope: &Scope<'_>, target: &Target, labels: &[Entry]) -> Vec<Rank>
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
        let of = Source { edition: target.edition.clone(), key: (object.kind, from, pair) };
        let selecting = scope.group::<S>(&of);
        let selected = selecting.iter().filter(|(_, selector)| {
            selector.section == target.section
                && selector.labels.iter().all(|(key, value)| value_of(labels, key) == Some(value))
        });
        ranks.extend(selected.map(|((rank, _), _)| rank.clone()));
    }
    ranks
}
