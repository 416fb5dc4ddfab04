//! BackendTLSPolicies: whose certificate proxies expect of a Service, and whose authorities they trust.
//!
//! Of the policies on a port one holds, and it alone: what is wrong with it closes the port, and no other policy, and no
//! connection in plain text, takes its place.

use std::{collections::BTreeMap, sync::Arc};

use api::{
    Kind, Object, ObjectId,
    core::{Service, ServiceType},
    references::authorities_kind,
};
use engine::{Derived, Emitter, Lookup, Scope};
use ir::{
    NsName, Problem, Reason, Severity,
    backend::{Destination, ServicePort, Transport},
    matching::Age,
    upstream::TlsTrust,
};
use units::upstream::secured;

use crate::{
    internal,
    tables::{
        gateway::GatewayRow,
        input::{BackendTlsPolicies, Backends, Config, ForeignAncestors, ObjectKey, Services},
        policy::MAX_ANCESTORS,
        tls::{
            Ancestors, BackendTls, BundleId, BundleState, Connect, DialedBy, Dialing, Room, Secured, TlsAncestors,
            TlsPolicy, TlsPolicyRow, TlsRoom, TlsTargeting,
        },
    },
    target::{backend_object, key_of, section, target_kind},
    violation::violations,
};

impl Derived for TlsPolicyRow {
    fn compute(scope: &Emitter<'_>, key: &NsName) -> Option<TlsPolicy> {
        let policy = scope.get::<BackendTlsPolicies>(key)?;
        file(scope, key, &policy);
        Some(read(scope, key, &policy))
    }

    /// It is refused, and stays with its targets, which nobody reaches as if it were not there.
    fn poisoned(scope: &Emitter<'_>, key: &NsName, _: &engine::Fault) -> Option<TlsPolicy> {
        file(scope, key, &*scope.get::<BackendTlsPolicies>(key)?);
        Some(TlsPolicy { tls: Err(internal::problem(Severity::Refused, "")), unresolved: Vec::new(), warning: None })
    }
}

/// The Services and Backends that a policy names, each with the name of the one port that is meant, if one is, and with its place in
/// the list.
pub(crate) fn targets<'a>(
    key: &'a NsName,
    policy: &'a api::BackendTlsPolicy,
) -> impl Iterator<Item = (usize, ObjectId, Option<Arc<str>>)> + 'a {
    let all = policy.spec.target_refs.iter().enumerate();
    all.filter_map(|(index, target)| {
        let kind = target_kind(Kind::BackendTlsPolicy, &target.group, &target.kind)?;
        let object = ObjectId::new(kind, key.namespace.clone(), target.name.clone());
        Some((index, object, section(target.section_name.as_ref())))
    })
}

/// The place of a policy among those on one target: the first one holds.
pub(crate) fn age(key: &NsName, policy: &api::BackendTlsPolicy) -> Age {
    let created = policy.metadata.creation_timestamp.map_or(0, jiff::Timestamp::as_second);
    Age { created, name: key.clone() }
}

fn file(scope: &Emitter<'_>, key: &NsName, policy: &api::BackendTlsPolicy) {
    let mut named: Vec<_> = targets(key, policy).map(|(_, object, section)| (object, section)).collect();
    named.sort_unstable();
    named.dedup();
    for target in named {
        scope.emit::<TlsTargeting>(target, age(key, policy), ());
    }
}

/// Where a policy names authorities.
const AUTHORITIES_FIELD: &str = "spec.validation.caCertificateRefs";

fn refused(reason: Reason, field: impl Into<String>, message: impl Into<String>) -> Problem {
    Problem::new(Severity::Refused, reason, field, message)
}

fn read(scope: &Scope<'_>, key: &NsName, policy: &api::BackendTlsPolicy) -> TlsPolicy {
    let mut unresolved = Vec::new();
    let tls = said(scope, key, policy, &mut unresolved);
    let bundle = tls.as_ref().ok().and_then(|connect| connect.bundle.as_ref());
    let warning = bundle.and_then(|bundle| scope.get::<BundleState>(bundle)?.warning.clone());
    let warning =
        warning.map(|warning| Problem::new(Severity::Warning, Reason::UnsupportedValue, AUTHORITIES_FIELD, &*warning));
    TlsPolicy { tls, unresolved, warning }
}

fn said(
    scope: &Scope<'_>,
    key: &NsName,
    policy: &api::BackendTlsPolicy,
    unresolved: &mut Vec<Problem>,
) -> Result<Connect, Problem> {
    let object = Object::BackendTlsPolicy(policy.clone());
    if let Some(problem) = violations(&object).next() {
        return Err(problem);
    }
    if let Some(field) = object.refused_fields().into_iter().next() {
        return Err(refused(Reason::Invalid, field.path, field.reason));
    }
    let missing = || refused(Reason::Invalid, "spec.validation", "it is missing; say whose certificate is expected");
    let validation = policy.spec.validation.as_ref().ok_or_else(missing)?;
    let trust_store = scope.get::<Config>(&()).map(|config| config.system_trust_store.clone()).unwrap_or_default();
    let (trust, bundle) = match secured::well_known(validation, &trust_store)? {
        Some(trust) => (trust, None),
        None => {
            let bundle = bundle(scope, key, &validation.ca_certificate_refs, unresolved)?;
            (TlsTrust::Bundle(bundle.to_string().into()), Some(bundle))
        }
    };
    Ok(Connect { tls: Arc::new(secured::tls(validation, trust)?), bundle })
}

/// What references to authorities come to: those that can be used count, and one must.
fn bundle(
    scope: &Scope<'_>,
    key: &NsName,
    references: &[api::shared::LocalObjectReference],
    unresolved: &mut Vec<Problem>,
) -> Result<BundleId, Problem> {
    let objects: Vec<_> = references
        .iter()
        .map(|to| {
            let kind = authorities_kind(&to.group, &to.kind)?;
            Some(ObjectId::new(kind, key.namespace.clone(), to.name.clone()))
        })
        .collect();
    let bundle = BundleId::of(objects.iter().flatten().cloned());
    let state = bundle.as_ref().and_then(|bundle| scope.get::<BundleState>(bundle));
    let faults = state.as_ref().map_or(&[][..], |state| &state.faults);
    for (index, (to, object)) in references.iter().zip(&objects).enumerate() {
        let Some(object) = object else {
            let group = if to.group.is_empty() { "core" } else { &*to.group };
            let message = format!(
                "{} of group {group} has no certificates of authorities here; use a ConfigMap or a Secret",
                to.kind
            );
            unresolved.push(refused(Reason::InvalidKind, format!("{AUTHORITIES_FIELD}[{index}].kind"), message));
            continue;
        };
        if let Some((_, why)) = faults.iter().find(|(faulty, _)| faulty == object) {
            unresolved.push(refused(Reason::InvalidCACertificateRef, format!("{AUTHORITIES_FIELD}[{index}]"), &**why));
        }
    }
    bundle.filter(|_| state.is_some_and(|state| state.any)).ok_or_else(|| {
        let told: Vec<_> = unresolved.iter().map(|problem| problem.message.as_str()).collect();
        let message = format!("none leads to certificates of authorities: {}", told.join("; "));
        refused(Reason::NoValidCACertificate, AUTHORITIES_FIELD, message)
    })
}

impl Lookup for BackendTls {
    fn compute(scope: &Scope<'_>, to: &Destination) -> Option<Secured> {
        let object = backend_object(to);
        let first = |section: Option<Arc<str>>| {
            let targeting = scope.group::<TlsTargeting>(&(object.clone(), section));
            targeting.iter().next().map(|(age, ())| age.name.clone())
        };
        let named = match to.port() {
            Some(port) => {
                let service = scope.get::<Services>(&port.service)?;
                let name = port_names(&service).find(|(number, _)| *number == port.port).map(|(_, name)| name)?;
                if port.transport != Transport::Tcp {
                    return None;
                }
                Some(name).filter(|name| !name.is_empty()).and_then(|name| first(Some(name)))
            }
            None => {
                scope.get::<Backends>(to.name())?;
                None
            }
        };
        let policy = named.or_else(|| first(None))?;
        let tls = scope.get::<TlsPolicyRow>(&policy).and_then(|row| row.tls.as_ref().ok().cloned());
        Some(Secured { policy, tls })
    }

    /// Nobody connects, since nobody knows how.
    fn poisoned(_: &Scope<'_>, to: &Destination, _: &engine::Fault) -> Option<Secured> {
        Some(Secured { policy: NsName::new(to.name().namespace.clone(), ""), tls: None })
    }
}

/// The ports of TCP of a Service, each with its name, which is empty where it has none.
fn port_names(service: &Service) -> impl Iterator<Item = (ir::Port, Arc<str>)> {
    let of_tcp = service.ports.iter().filter(|port| port.protocol == api::core::Protocol::Tcp);
    of_tcp.map(|port| (port.port, port.name.clone()))
}

/// What a target means: ports of a Service, or a Backend. None where it is not there.
pub(crate) fn backends(scope: &Scope<'_>, object: &ObjectId, section: Option<&Arc<str>>) -> Vec<Destination> {
    let name = key_of(object);
    if object.kind == Kind::Backend {
        let is_there = section.is_none() && scope.get::<Backends>(&name).is_some();
        return is_there.then_some(Destination::Backend(name)).into_iter().collect();
    }
    let Some(found) = scope.get::<Services>(&name) else { return Vec::new() };
    if found.r#type == ServiceType::ExternalName {
        return Vec::new();
    }
    let meant = port_names(&found).filter(|(_, name)| section.is_none_or(|section| section == name));
    meant.map(|(number, _)| Destination::Service(ServicePort::tcp(name.clone(), number))).collect()
}

/// What holds for a backend by a BackendTLSPolicy; none where no policy targets it.
pub(crate) fn secured(scope: &Scope<'_>, to: &Destination) -> Option<Arc<Secured>> {
    scope.get::<BackendTls>(&to.clone().plain())
}

/// The authorities by which a backend is judged, where they come apart.
pub(crate) fn bundle_of(scope: &Scope<'_>, to: &Destination) -> Option<BundleId> {
    secured(scope, to)?.tls.as_ref()?.bundle.clone()
}

impl Derived for DialedBy {
    fn compute(scope: &Emitter<'_>, (to, gateway): &(Destination, NsName)) -> Option<()> {
        scope.emit::<Dialing>(to.clone(), gateway.clone(), ());
        Some(())
    }
}

impl Lookup for TlsAncestors {
    fn compute(scope: &Scope<'_>, key: &NsName) -> Option<Ancestors> {
        let policy = scope.get::<BackendTlsPolicies>(key)?;
        let (own, mut holding, mut losing) = (age(key, &policy), BTreeMap::new(), BTreeMap::new());
        for (_, object, section) in targets(key, &policy) {
            let first = scope.group::<TlsTargeting>(&(object.clone(), section.clone()));
            let is_first = first.iter().next().is_some_and(|(first, ())| *first == own);
            for to in backends(scope, &object, section.as_ref()) {
                let holds = scope.get::<BackendTls>(&to).is_some_and(|secured| secured.policy == *key);
                // What a policy of the port's own name says in its place is nothing that its status tells.
                let gateways = match (holds, is_first) {
                    (true, _) => &mut holding,
                    (false, false) => &mut losing,
                    (false, true) => continue,
                };
                for (gateway, ()) in scope.group::<Dialing>(&to).iter() {
                    let Some(model) = scope.get::<GatewayRow>(gateway) else { continue };
                    gateways.insert(model.age.clone(), gateway.clone());
                }
            }
        }
        losing.retain(|age, _| !holding.contains_key(age));
        let foreign = scope.get::<ForeignAncestors>(&key.clone().id(Kind::BackendTlsPolicy)).map_or(0, |count| *count);
        let most = MAX_ANCESTORS.saturating_sub(foreign);
        let room = if holding.len() > most {
            Room::UpTo(holding.keys().take(most).next_back().cloned())
        } else {
            Room::ForAll
        };
        let mut told: Vec<_> = holding.into_values().collect();
        let untold = told.split_off(told.len().min(most));
        // That it conflicts is told where there is room left.
        told.extend(losing.into_values().take(most - told.len()));
        Some(Ancestors { told: told.into(), untold: untold.into(), room })
    }
}

impl Lookup for TlsRoom {
    fn compute(scope: &Scope<'_>, key: &NsName) -> Option<Room> {
        Some(scope.get::<TlsAncestors>(key)?.room.clone())
    }
}

/// The policy whose status has no room for a Gateway, so that its proxies may not send to a backend (Gateway API
/// `PolicyStatus.ancestors`).
pub(crate) fn without_room(scope: &Scope<'_>, gateway: &NsName, to: &Destination) -> Option<NsName> {
    let policy = secured(scope, to)?.policy.clone();
    match &*scope.get::<TlsRoom>(&policy)? {
        Room::ForAll => None,
        Room::UpTo(last) => {
            let age = &scope.get::<GatewayRow>(gateway)?.age;
            last.as_ref().is_none_or(|last| last < age).then_some(policy)
        }
    }
}
