//! BackendConfigPolicies: what they say of connections to Services and Backends, and where it holds.

use std::{collections::BTreeSet, sync::Arc};

use api::{Kind, Object, ObjectId};
use engine::{Derived, Emitter, Lookup, Scope};
use ir::{
    NsName, Problem, Reason, Severity,
    backend::{Destination, Protocol, ServicePort},
    upstream::{Balance, Breakers, ClusterConfig, Tls, TlsTrust},
};
use units::upstream::{self, UpstreamSaid};

use super::{
    hosts::{BackendHosts, may_be_local},
    place, tls,
};
use crate::{
    internal,
    tables::{
        backend::{ClusterId, ConfigPolicyRow, ServicePorts},
        input::{BackendConfigPolicies, Backends, Config, ObjectTable, Secrets, Services},
        listener::ListenerRow,
        policy::ConfigPoliciesOf,
        tls::{BundleId, BundleState, Connect, Secured},
    },
    target::{backend_object, file_of_backends, key_of},
    violation::violations,
};

/// What all policies on a Service or Backend come to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Merged {
    /// What holds.
    config: ClusterConfig,
    /// What is wrong with what would hold.
    faults: Vec<(ObjectId, Problem)>,
    /// Who says each field that is set.
    by: Vec<(&'static str, ObjectId)>,
}

impl Merged {
    /// The policies of which something holds, or is broken, each once.
    pub(crate) fn policies(&self) -> Vec<ObjectId> {
        let holding = self.by.iter().map(|(_, policy)| policy);
        let all: BTreeSet<_> = holding.chain(self.faults.iter().map(|(policy, _)| policy)).collect();
        all.into_iter().cloned().collect()
    }
}

/// How a policy stands at one of its targets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    /// Whether any of its fields holds there.
    pub(crate) holds: bool,
    /// Those who say something in place of it.
    pub(crate) winners: Vec<ObjectId>,
    /// What of it cannot hold there.
    pub(crate) fault: Option<Problem>,
}

tables! {
    /// What policies say of a Service or Backend; absent where none applies.
    ConfigOf: ObjectId => Merged;
    /// Has policies told how they stand at a Service or Backend.
    ConfigHolder: ObjectId => ();
}

groups! {
    /// How a policy stands at its targets.
    HeldAt: ObjectId, ObjectId => Held;
}

impl Derived for ConfigPolicyRow {
    fn compute(scope: &Emitter<'_>, id: &ObjectId) -> Option<Result<UpstreamSaid, Problem>> {
        let policy = scope.get::<BackendConfigPolicies>(&key_of(id))?;
        file_of_backends(scope, id, &policy);
        let mut refused: Vec<_> = violations(&Object::BackendConfigPolicy((*policy).clone())).collect();
        let is_of_all =
            |problem: &Problem| !policy.spec.invalid.is_empty() || upstream::field_at(&problem.field).is_none();
        if let Some(of_all) = refused.iter().position(is_of_all) {
            return Some(Err(refused.swap_remove(of_all)));
        }
        let find = |name: &Arc<str>| {
            let secret = NsName::new(id.namespace.clone(), name.clone());
            let found = scope.get::<Secrets>(&secret);
            found.ok_or_else(|| format!("Secret {secret} does not exist; create it, or correct the name"))
        };
        Some(upstream::read(&policy.spec, &find).map(|mut said| {
            said.warnings.extend(beyond_settings(scope, said.config.breakers.as_ref()));
            for problem in refused {
                let Some(field) = upstream::field_at(&problem.field) else { continue };
                said.faults.push((field, problem));
            }
            said
        }))
    }

    /// It is refused, and stays with its targets, which nobody reaches as if it were not there.
    fn poisoned(scope: &Emitter<'_>, id: &ObjectId, _: &engine::Fault) -> Option<Result<UpstreamSaid, Problem>> {
        file_of_backends(scope, id, &*scope.get::<BackendConfigPolicies>(&key_of(id))?);
        Some(Err(internal::problem(Severity::Refused, "")))
    }
}

/// What is asked for that the settings do not give.
fn beyond_settings(scope: &Scope<'_>, breakers: Option<&Breakers>) -> Vec<Problem> {
    let Some((own, config)) = breakers.zip(scope.get::<Config>(&())) else { return Vec::new() };
    let limits = &config.cluster;
    let all = [
        ("maxConnections", own.connections, limits.connections),
        ("maxPendingRequests", own.pending_requests, limits.pending_requests),
        ("maxRequests", own.requests, limits.requests),
        ("maxRetries", own.retries, limits.retries),
    ];
    let beyond = all.into_iter().filter(|(_, own, most)| own.is_some_and(|own| own > *most));
    let told = beyond.map(|(field, _, most)| {
        let message =
            format!("setting backend.{field} gives {most} at most, which holds; ask who runs Portcullis for more");
        Problem::new(Severity::Warning, Reason::UnsupportedValue, format!("spec.circuitBreakers.{field}"), message)
    });
    told.collect()
}

impl Lookup for ConfigOf {
    fn compute(scope: &Scope<'_>, object: &ObjectId) -> Option<Merged> {
        let policies = scope.get::<ConfigPoliciesOf>(object)?;
        let mut merged = Merged::default();
        for policy in &*policies {
            match &*scope.get::<ConfigPolicyRow>(policy)? {
                Err(fault) => merged.faults.push((policy.clone(), fault.clone())),
                Ok(said) => {
                    let own = said.fields.iter().filter(|field| merged.by.iter().all(|(known, _)| known != *field));
                    let own: Vec<_> = own.copied().collect();
                    let faults = said.faults.iter().filter(|(field, _)| own.contains(field));
                    merged.faults.extend(faults.map(|(_, fault)| (policy.clone(), fault.clone())));
                    merged.by.extend(own.into_iter().map(|field| (field, policy.clone())));
                    merged.config = upstream::or(merged.config, &said.config);
                }
            }
        }
        Some(merged)
    }

    /// Nobody reaches the backend, since nobody knows what protects the connection.
    fn poisoned(_: &Scope<'_>, object: &ObjectId, _: &engine::Fault) -> Option<Merged> {
        let fault = (object.clone(), internal::problem(Severity::Refused, ""));
        Some(Merged { faults: vec![fault], ..Merged::default() })
    }
}

/// What is said of a backend that speaks `protocol`; none where nothing is.
///
/// # Errors
/// If something is said that cannot hold, so that nobody knows how to connect: the policy, and why.
pub(crate) fn config(
    scope: &Scope<'_>,
    to: &Destination,
    protocol: Protocol,
    by_name: bool,
) -> Option<Result<ClusterConfig, (ObjectId, Problem)>> {
    let (merged, secured) = (scope.get::<ConfigOf>(&backend_object(to)), tls::secured(scope, to));
    if merged.is_none() && secured.is_none() {
        return None;
    }
    let merged = merged.unwrap_or_default();
    Some(fit(scope, &merged, secured.as_deref(), protocol, by_name))
}

fn fit(
    scope: &Scope<'_>,
    merged: &Merged,
    secured: Option<&Secured>,
    protocol: Protocol,
    by_name: bool,
) -> Result<ClusterConfig, (ObjectId, Problem)> {
    let mut said = merged.config.clone();
    let holds = |problem: &Problem| secured.is_none() || upstream::field_at(&problem.field) != Some(TLS);
    if let Some(fault) = merged.faults.iter().find(|(_, problem)| holds(problem)) {
        return Err(fault.clone());
    }
    if let Some(secured) = secured {
        // Where it is not valid nobody asks.
        let Some(Connect { tls, .. }) = &secured.tls else { return Err((secured.id(), closed())) };
        let alpn = if protocol == Protocol::H2c { "h2" } else { "http/1.1" };
        said.tls = Some(Tls { alpn: [alpn.into()].into(), ..Tls::clone(tls) });
    }
    let has_trust_store = scope.get::<Config>(&()).is_some_and(|config| !config.system_trust_store.is_empty());
    let to = upstream::Destination { protocol, by_name, may_be_local: may_be_local(scope), has_trust_store };
    upstream::fit(said, to).map_err(|problem| {
        let field = upstream::field_at(&problem.field);
        let by = merged.by.iter().find(|(known, _)| Some(*known) == field).or(merged.by.first());
        let policy = by.map_or_else(|| ObjectId::new(Kind::BackendConfigPolicy, "", ""), |(_, policy)| policy.clone());
        (policy, problem)
    })
}

/// The field of a BackendConfigPolicy in whose place a BackendTLSPolicy holds.
const TLS: &str = "tls";

fn closed() -> Problem {
    Problem::new(Severity::Refused, Reason::InvalidBackendTLS, "spec.validation", "it is not valid")
}

/// What policies say of what a cluster stands for. Sessions hold across nothing of which any says something.
fn said_of(scope: &Scope<'_>, cluster: &ClusterId) -> Option<Arc<Merged>> {
    scope.get::<ConfigOf>(&backend_object(&cluster.to()?))
}

/// The Secret with the certificate that proxies show to a cluster's endpoints.
pub(crate) fn certificate(scope: &Scope<'_>, cluster: &ClusterId) -> Option<NsName> {
    if cluster.to().is_some_and(|to| tls::secured(scope, &to).is_some()) {
        return None;
    }
    said_of(scope, cluster)?.config.tls.as_ref()?.certificate.clone()
}

/// What a cluster takes of a proxy's memory by what is said of it, in bytes.
pub(crate) fn memory(scope: &Scope<'_>, cluster: &ClusterId) -> u64 {
    /// A place of a ring, which has as many as are asked for, and a table: the old one and the new one.
    const PLACE: u64 = 64;
    const TABLE: u64 = 2 << 20;
    if let ClusterId::Place(place) = cluster {
        // Each way has authorities of its own.
        let ways = place::ways(scope, place);
        let all = ways.iter().map(|to| {
            let tls = to.way.as_ref().and_then(|way| way.tls.as_ref());
            authorities(scope, to.bundle.as_ref(), tls.map(|tls| &tls.trust))
        });
        // So has the chain of a hostname, by which certificates of clients are judged.
        let row = scope.get::<ListenerRow>(&place.listener).filter(|_| place.is_hostname());
        let clients = row.as_ref().and_then(|row| row.clients.as_ref()?.asked());
        let of_clients = authorities(scope, clients, None);
        return all.fold(of_clients, u64::saturating_add);
    }
    let merged = said_of(scope, cluster);
    let secured = cluster.to().and_then(|to| tls::secured(scope, &to));
    let connect = secured.as_ref().and_then(|secured| secured.tls.as_ref());
    let own = merged.as_ref().and_then(|merged| merged.config.tls.as_ref());
    let trust = connect.map(|connect| &connect.tls.trust).or_else(|| Some(&own?.trust));
    let bundle = connect.and_then(|connect| connect.bundle.as_ref());
    let balance = merged.as_ref().and_then(|merged| merged.config.balance.as_ref());
    authorities(scope, bundle, trust)
        + match balance.map(|balance| &balance.by) {
            Some(Balance::RingHash { least, .. }) => PLACE * least.unwrap_or(1024),
            Some(Balance::Maglev { .. }) => TABLE,
            _ => 0,
        }
}

/// What authorities take where a cluster has them, in bytes.
fn authorities(scope: &Scope<'_>, bundle: Option<&BundleId>, trust: Option<&TlsTrust>) -> u64 {
    /// By the bytes of their PEM: that itself, and twice as much once it is parsed.
    const AUTHORITIES: u64 = 3;
    /// Those of a system: 150 in 220 kB took 280 to 320 kB a cluster (Envoy 1.40), each of which reads the file for itself.
    const SYSTEM: u64 = 384 << 10;
    match (bundle, trust) {
        (Some(bundle), _) => AUTHORITIES * scope.get::<BundleState>(bundle).map_or(0, |state| state.bytes),
        (None, Some(TlsTrust::Authorities(pem))) => AUTHORITIES * pem.len() as u64,
        (None, Some(TlsTrust::System)) => SYSTEM,
        (None, _) => 0,
    }
}

impl Derived for ConfigHolder {
    fn compute(scope: &Emitter<'_>, object: &ObjectId) -> Option<()> {
        let merged = scope.get::<ConfigOf>(object)?;
        let policies = scope.get::<ConfigPoliciesOf>(object)?;
        let unfit = unfit(scope, object, &merged);
        let secured = secured(scope, object);
        for policy in &*policies {
            let fields = match scope.get::<ConfigPolicyRow>(policy).as_deref() {
                Some(Ok(said)) => said.fields.clone(),
                _ => Vec::new(),
            };
            let elsewhere = |field: &'static str| field == TLS && secured.everywhere;
            let winner = |field: &&'static str| {
                let by = merged.by.iter().find(|(known, _)| known == field).map(|(_, by)| by);
                by.filter(|_| !elsewhere(field))
            };
            let mut winners: Vec<_> = fields.iter().filter_map(winner).filter(|by| *by != policy).cloned().collect();
            if fields.contains(&TLS) {
                winners.extend(secured.by.iter().cloned());
            }
            winners.sort_unstable();
            winners.dedup();
            let held = Held {
                holds: fields.iter().filter_map(winner).any(|by| by == policy),
                winners,
                fault: unfit.clone().filter(|(by, _)| by == policy).map(|(_, problem)| problem),
            };
            scope.emit::<HeldAt>(policy.clone(), object.clone(), held);
        }
        Some(())
    }
}

/// What cannot hold for some port of a Service, or for a Backend, though it is sound by itself.
fn unfit(scope: &Scope<'_>, object: &ObjectId, merged: &Merged) -> Option<(ObjectId, Problem)> {
    if !merged.faults.is_empty() {
        return None;
    }
    let key = key_of(object);
    if object.kind == Kind::Backend {
        let hosts = scope.get::<BackendHosts>(&key)?;
        let hosts = hosts.as_ref().as_ref().ok()?;
        let secured = tls::secured(scope, &Destination::Backend(key));
        return fit(scope, merged, secured.as_deref(), hosts.protocol, hosts.has_names()).err();
    }
    let service = scope.get::<Services>(&key)?;
    service.ports.iter().find_map(|port| {
        let port = ServicePort::tcp(key.clone(), port.port);
        let protocol = scope.get::<ServicePorts>(&port)?.protocol.clone().ok()?;
        fit(scope, merged, tls::secured(scope, &Destination::Service(port)).as_deref(), protocol, false).err()
    })
}

/// What BackendTLSPolicies say in the place of policies on an object.
#[derive(Default)]
struct InPlace {
    /// Those that hold for it, or for any of its ports.
    by: BTreeSet<ObjectId>,
    /// Whether one holds for each.
    everywhere: bool,
}

fn secured(scope: &Scope<'_>, object: &ObjectId) -> InPlace {
    let all: Vec<_> = tls::backends(scope, object, None).iter().map(|backend| tls::secured(scope, backend)).collect();
    InPlace {
        everywhere: !all.is_empty() && all.iter().all(Option::is_some),
        by: all.into_iter().flatten().map(|secured| secured.id()).collect(),
    }
}

/// The objects that policies can be on, for each of which there is a [`ConfigHolder`].
pub(crate) fn service(name: &NsName) -> Option<ObjectId> {
    Services::id(name)
}

/// The same of Backends.
pub(crate) fn backend(name: &NsName) -> Option<ObjectId> {
    Backends::id(name)
}
