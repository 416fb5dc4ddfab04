//! ListenerPolicies: what they say of the ports of Gateways, and where it holds.

use std::{collections::BTreeSet, sync::Arc};

use api::{Kind, Object, ObjectId, group::KGATEWAY_GROUP, shared::BackendRef};
use engine::{Derived, Emitter, Lookup, Scope};
use ir::{NsName, Port, Problem, Reason, Severity, downstream::ListenerConfig};
use units::downstream::{self, DownstreamSaid, Lead, Leads};

use crate::{
    backend::reference::{Reference, Sent},
    grant::Referrer,
    internal,
    route::backend_ref,
    tables::{
        gateway::{Fault, GatewayModel, GatewayRow},
        input::{Config, ListenerPolicies},
        policy::ListenerPoliciesOf,
        set::SoundPorts,
    },
    target::{file_of_gateways, key_of},
    violation::violations,
};

/// What all policies on a Gateway come to at one of its ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Merged {
    /// What holds.
    pub(crate) config: ListenerConfig,
    /// What is wrong with what would hold.
    faults: Vec<(ObjectId, Problem)>,
    /// Who says each field that is set.
    pub(crate) by: Vec<(&'static str, ObjectId)>,
}

/// How a policy stands at a Gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HeldByGateway {
    /// Whether any of its fields holds at some port.
    pub(crate) holds: bool,
    /// Those who say something in place of it.
    pub(crate) winners: Vec<ObjectId>,
    /// The ports of which it says something and that no listener has.
    pub(crate) unused: Vec<Port>,
}

tables! {
    /// ListenerPolicies as those need to know them that they apply to.
    ListenerPolicyRow: ObjectId => Result<DownstreamSaid, Problem>;
    /// What policies say of a port of a Gateway; absent where none applies.
    DownstreamOf: (NsName, Port) => Merged;
    /// Whether somebody is told of spans at a port of a Gateway.
    Traced: NsName => ();
    /// Whether a port of a Gateway [takes addresses from requests](ir::downstream::Client::takes_addresses).
    TakesAddresses: NsName => ();
    /// Has policies told how they stand at a Gateway.
    ListenerPolicyHolder: NsName => ();
}

groups! {
    /// How a policy stands at its Gateways.
    HeldAtGateway: ObjectId, NsName => HeldByGateway;
}

impl Derived for ListenerPolicyRow {
    fn compute(scope: &Emitter<'_>, id: &ObjectId) -> Option<Result<DownstreamSaid, Problem>> {
        let policy = scope.get::<ListenerPolicies>(&key_of(id))?;
        file_of_gateways(scope, id, &policy);
        let config = scope.get::<Config>(&())?;
        let refused = violations(&Object::ListenerPolicy((*policy).clone())).next();
        let leads = References { scope, namespace: &id.namespace };
        Some(refused.map_or_else(|| downstream::read(&policy.spec, &config.edge, &leads), Err))
    }

    /// It is refused, and stays with its targets, which are not served as if it were not there.
    fn poisoned(scope: &Emitter<'_>, id: &ObjectId, _: &engine::Fault) -> Option<Result<DownstreamSaid, Problem>> {
        file_of_gateways(scope, id, &*scope.get::<ListenerPolicies>(&key_of(id))?);
        Some(Err(internal::problem(Severity::Refused, "")))
    }
}

/// The references of a ListenerPolicy.
struct References<'a, 'b> {
    scope: &'a Scope<'b>,
    namespace: &'a Arc<str>,
}

impl Leads for References<'_, '_> {
    fn lead(&self, to: &BackendRef) -> Result<Lead, (String, String)> {
        let Self { scope, namespace } = self;
        let from = Referrer { group: KGATEWAY_GROUP, kind: Kind::ListenerPolicy.as_str(), namespace };
        let said = |problem: Problem| (problem.field, problem.message);
        let reference = Reference::read(from, &backend_ref(&to.backend_ref), "").map_err(said)?;
        let sent = Sent::Own { in_grpc: true };
        let to = reference.meant(scope, sent).map_err(said)?;
        if let Err(problem) = reference.permitted(scope) {
            return Ok(Lead::Forbidden(problem.message));
        }
        Ok(match reference.follow(scope, sent) {
            Ok(followed) => Lead::There(followed.destination, followed.reach.warning.clone()),
            Err(problem) => Lead::Nowhere(to, problem.message),
        })
    }
}

impl Lookup for DownstreamOf {
    fn compute(scope: &Scope<'_>, (gateway, port): &(NsName, Port)) -> Option<Merged> {
        let policies = scope.get::<ListenerPoliciesOf>(gateway)?;
        let mut merged = Merged::default();
        for policy in &*policies {
            match &*scope.get::<ListenerPolicyRow>(policy)? {
                Err(fault) => merged.faults.push((policy.clone(), fault.clone())),
                Ok(said) => {
                    let Some(said) = said.at(*port) else { continue };
                    let own = |field: &&'static str| merged.by.iter().all(|(known, _)| known != field);
                    let own: Vec<_> = said.fields.iter().copied().filter(own).collect();
                    let holds = |field: Option<&'static str>| field.is_none_or(|field| own.contains(&field));
                    let faults = said.faults.iter().filter(|(field, _)| holds(*field));
                    merged.faults.extend(faults.map(|(_, fault)| (policy.clone(), fault.clone())));
                    merged.by.extend(own.into_iter().map(|field| (field, policy.clone())));
                    merged.config = merged.config.or(&said.config);
                }
            }
        }
        Some(merged)
    }

    /// The port is not served, since nobody knows what is asked of it.
    fn poisoned(_: &Scope<'_>, (gateway, _): &(NsName, Port), _: &engine::Fault) -> Option<Merged> {
        let policy = ObjectId::new(Kind::ListenerPolicy, gateway.namespace.clone(), "");
        Some(Merged { faults: vec![(policy, internal::problem(Severity::Refused, ""))], ..Merged::default() })
    }
}

impl Lookup for Traced {
    fn compute(scope: &Scope<'_>, gateway: &NsName) -> Option<()> {
        let model = scope.get::<GatewayRow>(gateway)?;
        let traces =
            |port: Port| Some(scope.get::<DownstreamOf>(&(gateway.clone(), port))?.config.http.traces().is_some());
        ports(scope, gateway, &model).into_iter().any(|port| traces(port).unwrap_or_default()).then_some(())
    }
}

impl Lookup for TakesAddresses {
    fn compute(scope: &Scope<'_>, gateway: &NsName) -> Option<()> {
        let model = scope.get::<GatewayRow>(gateway)?;
        let hops = scope.get::<Config>(&())?.edge.trusted_hops;
        let takes_them = |port: Port| {
            let merged = scope.get::<DownstreamOf>(&(gateway.clone(), port));
            let said = merged.as_ref().and_then(|merged| merged.config.http.client.as_ref());
            said.map_or(hops > 0, |client| client.takes_addresses(hops))
        };
        ports(scope, gateway, &model).into_iter().any(takes_them).then_some(())
    }

    /// Nobody knows.
    fn poisoned(_: &Scope<'_>, _: &NsName, _: &engine::Fault) -> Option<()> {
        Some(())
    }
}

/// Why a port cannot be as policies ask for, as the owner of a listener in namespace `own` may know it.
pub(super) fn fault(scope: &Scope<'_>, gateway: &NsName, port: Port, own: &Arc<str>) -> Option<Fault> {
    let merged = scope.get::<DownstreamOf>(&(gateway.clone(), port))?;
    let (policy, problem) = merged.faults.first()?;
    let message = match () {
        () if policy.name.is_empty() => return Some(internal::fault()),
        () if policy.namespace == *own => format!("{policy} is not valid: {problem}"),
        () => format!("a {} of another namespace, which applies to it, is not valid; ask its owner", policy.kind),
    };
    Some(Fault::new(Reason::Invalid, message))
}

/// The ports of a Gateway, and those of its ListenerSets, each once.
fn ports(scope: &Scope<'_>, gateway: &NsName, model: &GatewayModel) -> BTreeSet<Port> {
    let of_sets = scope.group::<SoundPorts>(gateway);
    let of_sets = of_sets.iter().map(|((port, _), _)| *port);
    model.listeners.iter().map(|listener| listener.port).chain(of_sets).collect()
}

impl Derived for ListenerPolicyHolder {
    fn compute(scope: &Emitter<'_>, gateway: &NsName) -> Option<()> {
        let model = scope.get::<GatewayRow>(gateway)?;
        let policies = scope.get::<ListenerPoliciesOf>(gateway)?;
        let ports = ports(scope, gateway, &model);
        for policy in &*policies {
            let mut held = HeldByGateway::default();
            if let Some(Ok(said)) = scope.get::<ListenerPolicyRow>(policy).as_deref() {
                for port in &ports {
                    let Some(merged) = scope.get::<DownstreamOf>(&(gateway.clone(), *port)) else { continue };
                    let fields = said.at(*port).map(|said| &said.fields[..]).unwrap_or_default();
                    let holding = merged.by.iter().filter(|(field, _)| fields.contains(field)).map(|(_, by)| by);
                    let (own, others): (Vec<_>, Vec<_>) = holding.partition(|by| *by == policy);
                    held.holds |= !own.is_empty();
                    held.winners.extend(others.into_iter().cloned());
                }
                held.unused = said.ports.keys().copied().filter(|port| !ports.contains(port)).collect();
            }
            held.winners.sort_unstable();
            held.winners.dedup();
            scope.emit::<HeldAtGateway>(policy.clone(), gateway.clone(), held);
        }
        Some(())
    }
}
