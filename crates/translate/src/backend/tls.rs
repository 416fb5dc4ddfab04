//! BackendTLSPolicies: whose certificate proxies expect of a Service, and whose authorities they trust.
//!
//! Of the policies on a port one holds, and it alone: what is wrong with it closes the port, and no other policy, and no
//! connection in plain text, takes its place.

use std::{collections::BTreeMap, sync::Arc};

use api::{
    Kind, Object, ObjectId,
    core::{Service, ServiceType},
    references::{AUTHORITIES, authorities_kind},
};
use engine::{Derived, Emitter, Lookup, Scope};
use ir::{
    NsName, Problem, Reason, Severity,
    backend::{Destination, ServicePort, Transport},
    matching::Age,
    upstream::TlsTrust,
};
use units::upstream::secured;
use validate::tls::Authorities;

use crate::{
    internal,
    tables::{
        gateway::GatewayRow,
        input::{BackendTlsPolicies, Config, ConfigMaps, ForeignAncestors, ObjectKey, Secrets, Services},
        policy::MAX_ANCESTORS,
        tls::{
            Ancestors, BackendTls, BundleId, BundleState, Connect, DialedBy, Dialing, Secured, TlsAncestors, TlsPolicy,
            TlsPolicyRow, TlsTargeting, Vouching,
        },
    },
    target::{key_of, section, target_kind},
    violation::violations,
};

tables! {
    /// The authorities in an object, or why there are none; absent where the object is.
    AuthoritiesOf: ObjectId => Result<Authorities, Arc<str>>;
}

impl Derived for TlsPolicyRow {
    fn compute(scope: &Emitter<'_>, key: &NsName) -> Option<TlsPolicy> {
        let policy = scope.get::<BackendTlsPolicies>(key)?;
        file(scope, key, &policy);
        Some(read(scope, key, &policy))
    }

    /// It is refused, and stays with its targets, which nobody reaches as if it were not there.
    fn poisoned(scope: &Emitter<'_>, key: &NsName, _: &engine::Fault) -> Option<TlsPolicy> {
        file(scope, key, &*scope.get::<BackendTlsPolicies>(key)?);
        Some(TlsPolicy { tls: Err(internal::problem(Severity::Refused, "")), unresolved: Vec::new() })
    }
}

/// The Services that a policy names, each with the name of its one port that is meant, if one is, and with its place in the list.
pub(crate) fn targets<'a>(
    key: &'a NsName,
    policy: &'a api::BackendTlsPolicy,
) -> impl Iterator<Item = (usize, NsName, Option<Arc<str>>)> + 'a {
    let all = policy.spec.target_refs.iter().enumerate();
    let served = all.filter(|(_, target)| target_kind(Kind::BackendTlsPolicy, &target.group, &target.kind).is_some());
    served.map(|(index, target)| {
        let service = NsName::new(key.namespace.clone(), target.name.clone());
        (index, service, section(target.section_name.as_ref()))
    })
}

/// The place of a policy among those on one target: the first one holds.
pub(crate) fn age(key: &NsName, policy: &api::BackendTlsPolicy) -> Age {
    let created = policy.metadata.creation_timestamp.map_or(0, jiff::Timestamp::as_second);
    Age { created, name: key.clone() }
}

fn file(scope: &Emitter<'_>, key: &NsName, policy: &api::BackendTlsPolicy) {
    let mut named: Vec<_> = targets(key, policy).map(|(_, service, section)| (service, section)).collect();
    named.sort_unstable();
    named.dedup();
    for target in named {
        scope.emit::<TlsTargeting>(target, age(key, policy), ());
    }
}

fn refused(reason: Reason, field: impl Into<String>, message: impl Into<String>) -> Problem {
    Problem::new(Severity::Refused, reason, field, message)
}

fn read(scope: &Scope<'_>, key: &NsName, policy: &api::BackendTlsPolicy) -> TlsPolicy {
    let mut unresolved = Vec::new();
    let tls = said(scope, key, policy, &mut unresolved);
    TlsPolicy { tls, unresolved }
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
    const FIELD: &str = "spec.validation.caCertificateRefs";
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
            unresolved.push(refused(Reason::InvalidKind, format!("{FIELD}[{index}].kind"), message));
            continue;
        };
        if let Some((_, why)) = faults.iter().find(|(faulty, _)| faulty == object) {
            unresolved.push(refused(Reason::InvalidCACertificateRef, format!("{FIELD}[{index}]"), &**why));
        }
    }
    bundle.filter(|_| state.is_some_and(|state| state.any)).ok_or_else(|| {
        let told: Vec<_> = unresolved.iter().map(|problem| problem.message.as_str()).collect();
        let message = format!("none leads to certificates of authorities: {}", told.join("; "));
        refused(Reason::NoValidCACertificate, FIELD, message)
    })
}

impl Lookup for AuthoritiesOf {
    fn compute(scope: &Scope<'_>, object: &ObjectId) -> Option<Self::Value> {
        let key = key_of(object);
        let text: Option<Arc<[u8]>> = match object.kind {
            Kind::Secret => scope.get::<Secrets>(&key)?.data.get(AUTHORITIES).cloned(),
            _ => scope.get::<ConfigMaps>(&key)?.data.get(AUTHORITIES).map(|text| text.as_bytes().into()),
        };
        let read = match text {
            None => Err(format!("{object} has no {AUTHORITIES}; store certificates of authorities there, in PEM")),
            Some(text) => validate::tls::authorities(&text).map_err(|invalid| format!("{object}: {invalid}")),
        };
        Some(read.map_err(Into::into))
    }

    fn poisoned(_: &Scope<'_>, object: &ObjectId, _: &engine::Fault) -> Option<Self::Value> {
        Some(Err(format!("{object} cannot be used: {}", internal::WORDS).into()))
    }
}

/// The authorities of a bundle together, and why objects give nothing to it. It is kept nowhere, since many policies may name
/// much and be used by nobody.
fn joined(scope: &Scope<'_>, key: &BundleId) -> (Authorities, Vec<(ObjectId, Arc<str>)>) {
    let mut all = Authorities::default();
    let mut faults: Vec<(ObjectId, Arc<str>)> = Vec::new();
    for object in key.objects() {
        let added = match scope.get::<AuthoritiesOf>(object).as_deref() {
            None => Err(format!("{object} does not exist; create it, or correct the name").into()),
            Some(Err(why)) => Err(why.clone()),
            Some(Ok(own)) => all.extend(own).map_err(|invalid| Arc::from(format!("{object}: {invalid}"))),
        };
        if let Err(why) = added {
            faults.push((object.clone(), why));
        }
    }
    (all, faults)
}

impl Lookup for BundleState {
    fn compute(scope: &Scope<'_>, key: &BundleId) -> Option<Vouching> {
        let (all, faults) = joined(scope, key);
        let bytes = all.pem().len() as u64;
        Some(Vouching { faults, any: bytes > 0, bytes: bytes.next_power_of_two() })
    }

    fn poisoned(_: &Scope<'_>, key: &BundleId, _: &engine::Fault) -> Option<Vouching> {
        let fault = |object: &ObjectId| (object.clone(), format!("it cannot be used: {}", internal::WORDS).into());
        Some(Vouching { faults: key.objects().iter().map(fault).collect(), any: false, bytes: 1 })
    }
}

impl Lookup for BackendTls {
    fn compute(scope: &Scope<'_>, port: &ServicePort) -> Option<Secured> {
        let service = scope.get::<Services>(&port.service)?;
        let name = port_names(&service).find(|(number, _)| *number == port.port).map(|(_, name)| name)?;
        if port.transport != Transport::Tcp {
            return None;
        }
        let first = |section: Option<Arc<str>>| {
            let targeting = scope.group::<TlsTargeting>(&(port.service.clone(), section));
            targeting.iter().next().map(|(age, ())| age.name.clone())
        };
        let named = Some(name).filter(|name| !name.is_empty()).and_then(|name| first(Some(name)));
        let policy = named.or_else(|| first(None))?;
        let tls = scope.get::<TlsPolicyRow>(&policy).and_then(|row| row.tls.as_ref().ok().cloned());
        Some(Secured { policy, tls })
    }

    /// Nobody connects, since nobody knows how.
    fn poisoned(_: &Scope<'_>, port: &ServicePort, _: &engine::Fault) -> Option<Secured> {
        Some(Secured { policy: NsName::new(port.service.namespace.clone(), ""), tls: None })
    }
}

/// The ports of TCP of a Service, each with its name, which is empty where it has none.
fn port_names(service: &Service) -> impl Iterator<Item = (ir::Port, Arc<str>)> {
    let of_tcp = service.ports.iter().filter(|port| port.protocol == api::core::Protocol::Tcp);
    of_tcp.map(|port| (port.port, port.name.clone()))
}

/// The ports of a Service that a target means; none where there are none, or the Service is not there.
pub(crate) fn ports(scope: &Scope<'_>, service: &NsName, section: Option<&Arc<str>>) -> Vec<ServicePort> {
    let Some(found) = scope.get::<Services>(service) else { return Vec::new() };
    if found.r#type == ServiceType::ExternalName {
        return Vec::new();
    }
    let meant = port_names(&found).filter(|(_, name)| section.is_none_or(|section| section == name));
    meant.map(|(number, _)| ServicePort::tcp(service.clone(), number)).collect()
}

/// What holds for a backend by a BackendTLSPolicy; none where no policy targets it.
pub(crate) fn secured(scope: &Scope<'_>, to: &Destination) -> Option<Arc<Secured>> {
    scope.get::<BackendTls>(to.port()?)
}

/// The authorities by which a backend is judged, where they come apart.
pub(crate) fn bundle_of(scope: &Scope<'_>, to: &Destination) -> Option<BundleId> {
    secured(scope, to)?.tls.as_ref()?.bundle.clone()
}

/// The secret of a bundle.
pub(crate) fn secret(scope: &Scope<'_>, bundle: &BundleId) -> Option<envoy::resource::Encoded> {
    let (all, _) = joined(scope, bundle);
    let pem = all.pem();
    (!pem.is_empty()).then(|| envoy::secret::authorities(&bundle.to_string(), &pem))
}

impl Derived for DialedBy {
    fn compute(scope: &Emitter<'_>, (port, gateway): &(ServicePort, NsName)) -> Option<()> {
        scope.emit::<Dialing>(port.clone(), gateway.clone(), ());
        Some(())
    }
}

impl Lookup for TlsAncestors {
    fn compute(scope: &Scope<'_>, key: &NsName) -> Option<Ancestors> {
        let policy = scope.get::<BackendTlsPolicies>(key)?;
        let (own, mut holding, mut losing) = (age(key, &policy), BTreeMap::new(), BTreeMap::new());
        for (_, service, section) in targets(key, &policy) {
            let first = scope.group::<TlsTargeting>(&(service.clone(), section.clone()));
            let is_first = first.iter().next().is_some_and(|(first, ())| *first == own);
            for port in ports(scope, &service, section.as_ref()) {
                let holds = scope.get::<BackendTls>(&port).is_some_and(|secured| secured.policy == *key);
                // What a policy of the port's own name says in its place is nothing that its status tells.
                let gateways = match (holds, is_first) {
                    (true, _) => &mut holding,
                    (false, false) => &mut losing,
                    (false, true) => continue,
                };
                for (gateway, ()) in scope.group::<Dialing>(&port).iter() {
                    let Some(model) = scope.get::<GatewayRow>(gateway) else { continue };
                    gateways.insert(model.age.clone(), gateway.clone());
                }
            }
        }
        losing.retain(|age, _| !holding.contains_key(age));
        let foreign = scope.get::<ForeignAncestors>(&key.clone().id(Kind::BackendTlsPolicy)).map_or(0, |count| *count);
        let room = MAX_ANCESTORS.saturating_sub(foreign);
        let mut told: Vec<_> = holding.into_values().collect();
        let untold = told.split_off(told.len().min(room));
        // That it conflicts is told where there is room left.
        told.extend(losing.into_values().take(room - told.len()));
        Some(Ancestors { told: told.into(), untold: untold.into() })
    }
}

/// The policy whose status has no room for a Gateway, so that its proxies may not send to a backend (Gateway API
/// `PolicyStatus.ancestors`).
pub(crate) fn without_room(scope: &Scope<'_>, gateway: &NsName, to: &Destination) -> Option<NsName> {
    let policy = secured(scope, to)?.policy.clone();
    let ancestors = scope.get::<TlsAncestors>(&policy)?;
    ancestors.untold.contains(gateway).then_some(policy)
}
