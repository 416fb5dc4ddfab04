//! The status of Gateways and their listeners.

use api::{
    gateway::AddressType,
    status::{GatewayStatus as Status, GatewayStatusAddress, ListenerStatus},
};
use engine::{Derived, Emitter, Scope};
use ir::{ListenerId, NsName, Problem, Severity, filter::Scheme};

use super::{Conditions, StatusReport, and_notes, listed};
use crate::{
    policy::wide::{BrokenGateway, BrokenListener},
    proxies,
    tables::{
        attachment::AttachedRoutes,
        gateway::{Fault, GatewayModel, GatewayRow, ListenerModel},
        input::{Classes, DeployConfig, Deployments, Gateways, Nacks, Services, Unapplied},
        listener::{ListenerRow, ListenerState},
        output::Withheld,
        proxies::{Proxies, ProxiesOf},
    },
};

tables! {
    /// Statuses of Gateways of ours.
    GatewayStatus: NsName => StatusReport<Status>;
}

impl Derived for GatewayStatus {
    fn compute(scope: &Emitter<'_>, key: &NsName) -> Option<Self::Value> {
        let Some(model) = scope.get::<GatewayRow>(key) else { return unknown_class(scope, key) };
        let rows: Vec<_> = model
            .listeners
            .iter()
            .filter_map(|listener| {
                scope.get::<ListenerRow>(&ListenerId { gateway: key.clone(), name: listener.name.clone() })
            })
            .collect();
        let mut problems = Vec::new();
        let listeners = rows.iter().map(|state| listener(scope, key, &model, state, &rows, &mut problems)).collect();
        problems.extend(ignored(&model));
        let unsent = scope.get::<Nacks>(key).map(|words| String::clone(&words)).or_else(|| withheld(scope, key));
        if let Some(fault) = scope.get::<BrokenGateway>(key) {
            problems.push(Problem::new(Severity::Replaced, fault.reason, "", &fault.message));
        }
        let running = Running::of(scope, key, &model);
        let conditions = summary(scope, key, &model, &rows, &running, unsent.as_deref(), &mut problems);
        let addresses = running.addresses;
        let status = Status { addresses, conditions, listeners, attached_listener_sets: None };
        Some(StatusReport { status: Some(status), problems })
    }
}

/// What is known of the proxies themselves.
struct Running {
    addresses: Vec<GatewayStatusAddress>,
    /// Why they are not run as asked for.
    fault: Option<Fault>,
    /// What is missing before anybody can reach them.
    missing: Option<Fault>,
}

impl Running {
    fn of(scope: &Scope<'_>, key: &NsName, model: &GatewayModel) -> Self {
        if let Some(fault) = scope.get::<Gateways>(key).and_then(|gateway| proxies::name_taken(scope, key, &gateway)) {
            // What is there by that name is another's.
            return Self { addresses: Vec::new(), fault: Some(fault.clone()), missing: Some(fault) };
        }
        let deployed = scope.get::<ProxiesOf>(key);
        let fault = deployed.as_ref().and_then(|deployed| deployed.fault.clone());
        let (unusable, fault) = match fault {
            Some(fault) if fault.reason == proxies::ADDRESS_NOT_USABLE => (Some(fault), None),
            fault => (None, fault),
        };
        let managed = deployed.as_ref().is_some_and(|deployed| deployed.proxies != Proxies::Unmanaged);
        let name = scope.get::<Gateways>(key).map(|gateway| proxies::name(key, &gateway.spec.gateway_class_name));
        let applied = scope.get::<DeployConfig>(&()).is_some_and(|deploying| deploying.applied);
        let Some(name) = name.filter(|_| managed && applied) else {
            let addresses = model.addresses.iter().map(|address| status_address(&address.to_string())).collect();
            return Self { addresses, fault, missing: None };
        };
        let service = scope.get::<Services>(&name);
        let addresses = service.map(|service| proxies::addresses(&service)).unwrap_or_default();
        let available = scope.get::<Deployments>(&name).is_some_and(|deployment| deployment.available > 0);
        let lacking = model.addresses.iter().find(|wanted| !addresses.contains(&wanted.to_string().into()));
        let missing = if unusable.is_some() {
            unusable
        } else if let Some(words) = scope.get::<Unapplied>(key) {
            Some(Fault::new("NoResources", format!("its proxies cannot be run as they should: {words}")))
        } else if let Some(wanted) = lacking {
            let message = format!("the address {wanted} cannot be had; its Service has {}", listed_or_none(&addresses));
            Some(Fault::at(proxies::ADDRESS_NOT_USABLE, "spec.addresses", message))
        } else if addresses.is_empty() {
            Some(Fault::new("AddressNotAssigned", format!("Service {name} has no address yet")))
        } else if !available {
            Some(Fault::new("NoResources", format!("no pod of Deployment {name} is ready")))
        } else {
            None
        };
        Self { addresses: addresses.iter().map(|address| status_address(address)).collect(), fault, missing }
    }
}

fn listed_or_none(addresses: &[Box<str>]) -> String {
    if addresses.is_empty() { "none".to_owned() } else { addresses.join(", ") }
}

fn status_address(address: &str) -> GatewayStatusAddress {
    let is_ip = address.parse::<std::net::IpAddr>().is_ok();
    let r#type = if is_ip { AddressType::IpAddress } else { AddressType::Hostname };
    GatewayStatusAddress { r#type, value: address.into() }
}

/// What is to be said of what is kept from its proxies, if anything is.
fn withheld(scope: &Scope<'_>, key: &NsName) -> Option<String> {
    let withheld = scope.group::<Withheld>(key);
    let told = withheld.iter().map(|(output, why)| {
        let resource = output.resource();
        format!("{} {}: {why}", resource.kind.message_name(), resource.name)
    });
    let told: Vec<_> = told.collect();
    (!told.is_empty()).then(|| format!("Envoy could not read what is therefore not sent: {}", listed(&told)))
}

fn ignored(model: &GatewayModel) -> impl Iterator<Item = Problem> {
    let ignored = model.ignored.iter();
    ignored.map(|(field, message)| Problem::new(Severity::Ignored, "UnsupportedValue", field.as_str(), *message))
}

/// A Gateway whose class nobody here has seen may be another controller's; its author should know.
fn unknown_class(scope: &Scope<'_>, key: &NsName) -> Option<StatusReport<Status>> {
    let gateway = scope.get::<Gateways>(key)?;
    let class = &gateway.spec.gateway_class_name;
    if scope.get::<Classes>(class).is_some() {
        return None;
    }
    let message = format!("GatewayClass {class} does not exist; create it, or name another");
    let problem = Problem::new(Severity::Ignored, "Pending", "spec.gatewayClassName", message);
    Some(StatusReport { status: None, problems: vec![problem] })
}

fn summary(
    scope: &Scope<'_>,
    key: &NsName,
    model: &GatewayModel,
    states: &[std::sync::Arc<ListenerState>],
    running: &Running,
    unsent: Option<&str>,
    problems: &mut Vec<Problem>,
) -> Vec<api::status::Condition> {
    let mut conditions = Conditions::new(model.generation);
    let invalid: Vec<_> = states
        .iter()
        .filter_map(|state| {
            let unsupported = state.refused().or(state.model.withheld.as_ref());
            let broken = || scope.get::<BrokenListener>(&id(key, &state.model));
            let unsupported = unsupported.cloned().or_else(|| broken().map(|fault| Fault::clone(&fault)))?;
            Some(format!("listener {}: {unsupported}", state.model.name))
        })
        .collect();
    let notes: Vec<_> = ignored(model).collect();
    let served = states.iter().filter(|state| state.withheld.is_none()).count();
    let replaced = scope.get::<BrokenGateway>(key);
    match &model.refused {
        None if replaced.is_some() => {
            if let Some(fault) = replaced {
                conditions.no("Accepted", fault.reason, fault.to_string());
            }
        }
        Some(fault) => {
            conditions.no("Accepted", fault.reason, fault.to_string());
            problems.push(Problem::new(Severity::Refused, fault.reason, &fault.field, &fault.message));
        }
        None if running.fault.is_some() => {
            if let Some(fault) = &running.fault {
                conditions.no("Accepted", fault.reason, fault.to_string());
                problems.push(Problem::new(Severity::Refused, fault.reason, &fault.field, &fault.message));
            }
        }
        None if invalid.is_empty() => {
            conditions.yes("Accepted", "Accepted", and_notes("the Gateway is served", &notes));
        }
        None if invalid.len() < states.len() => {
            conditions.yes("Accepted", "ListenersNotValid", and_notes(&listed(&invalid), &notes));
        }
        None => conditions.no("Accepted", "ListenersNotValid", listed(&invalid)),
    }
    match (&model.refused, unsent) {
        (Some(fault), _) => conditions.no("Programmed", "Invalid", fault.to_string()),
        (None, Some(message)) => {
            conditions.no("Programmed", "Invalid", message);
            problems.push(Problem::new(Severity::Refused, "Invalid", "", message));
        }
        (None, None) if served > 0 && running.missing.is_some() => {
            if let Some(missing) = &running.missing {
                conditions.no("Programmed", missing.reason, missing.to_string());
            }
        }
        (None, None) if served > 0 => {
            let left_out = states.iter().filter_map(|state| {
                Some(format!("listener {} is not served: {}", state.model.name, state.withheld.as_ref()?.message))
            });
            let message = and_notes("the configuration is with its proxies", &left_out.collect::<Vec<_>>());
            conditions.yes("Programmed", "Programmed", message);
        }
        (None, None) => {
            conditions.no("Programmed", "Invalid", "no listener can be served: see the listeners' conditions");
        }
    }
    let unresolved: Vec<_> = states
        .iter()
        .filter_map(|state| Some(format!("listener {}: {}", state.model.name, unresolved(state)?)))
        .collect();
    if unresolved.is_empty() {
        conditions.yes("ResolvedRefs", "ResolvedRefs", "all references resolve");
    } else {
        conditions.no("ResolvedRefs", "ListenersNotResolved", listed(&unresolved));
    }
    conditions.list
}

fn id(gateway: &NsName, listener: &ListenerModel) -> ListenerId {
    ListenerId { gateway: gateway.clone(), name: listener.name.clone() }
}

fn unresolved(state: &ListenerState) -> Option<&Fault> {
    state.unresolved.as_ref().or(state.model.bad_kinds.as_ref())
}

fn listener(
    scope: &Scope<'_>,
    gateway: &NsName,
    model: &GatewayModel,
    state: &ListenerState,
    all: &[std::sync::Arc<ListenerState>],
    problems: &mut Vec<Problem>,
) -> ListenerStatus {
    let own = &state.model;
    let mut told = |severity, fault: &Fault| {
        let message = format!("listener {}: {}", own.name, fault.message);
        let problem = Problem::new(severity, fault.reason, &fault.field, message);
        if !problems.iter().any(|known| (&known.field, &known.message) == (&problem.field, &problem.message)) {
            problems.push(problem);
        }
    };
    let mut conditions = Conditions::new(model.generation);
    match state.refused() {
        Some(fault) => {
            conditions.no("Accepted", fault.reason, fault.to_string());
            told(Severity::Refused, fault);
        }
        None => match scope.get::<BrokenListener>(&id(gateway, own)) {
            Some(fault) => {
                conditions.no("Accepted", fault.reason, fault.to_string());
                told(Severity::Replaced, &fault);
            }
            None => conditions.yes("Accepted", "Accepted", "the listener is valid"),
        },
    }
    match &own.conflicted {
        Some(fault) => {
            conditions.yes("Conflicted", fault.reason, fault.to_string());
            told(Severity::Refused, fault);
        }
        None => conditions.no("Conflicted", "NoConflicts", "no other listener is in the way"),
    }
    match unresolved(state) {
        Some(fault) => {
            conditions.no("ResolvedRefs", fault.reason, fault.to_string());
            told(Severity::Refused, fault);
        }
        None => {
            let notes: Vec<_> = state.long_chain.iter().collect();
            conditions.yes("ResolvedRefs", "ResolvedRefs", and_notes("all references resolve", &notes));
        }
    }
    if let Some(long) = &state.long_chain {
        told(Severity::Warning, long);
    }
    match &state.withheld {
        Some(fault) => {
            conditions.no("Programmed", fault.reason, fault.to_string());
            if own.is_sound() && state.unresolved.is_none() && model.refused.is_none() || own.withheld.is_some() {
                told(Severity::Refused, fault);
            }
        }
        None => conditions.yes("Programmed", "Programmed", "the configuration is with the proxies of the Gateway"),
    }
    if let Some(other) = overlapping(state, all) {
        let message = format!(
            "{} overlaps with {} of listener {} on the same port: a client may reuse a connection for both, and is \
             answered 421 where it does",
            own.hostname, other.model.hostname, other.model.name
        );
        conditions.yes("OverlappingTLSConfig", "OverlappingHostnames", message);
    }
    ListenerStatus {
        name: own.name.clone(),
        supported_kinds: own.kinds.clone(),
        attached_routes: i32::try_from(scope.group::<AttachedRoutes>(&id(gateway, own)).len()).unwrap_or(i32::MAX),
        conditions: conditions.list,
    }
}

/// Another HTTPS listener of the port whose hostname has names in common (Gateway API `OverlappingTLSConfig`).
fn overlapping<'a>(
    state: &ListenerState,
    all: &'a [std::sync::Arc<ListenerState>],
) -> Option<&'a std::sync::Arc<ListenerState>> {
    let own = &state.model;
    let is_tls = |listener: &ListenerState| listener.model.scheme == Some(Scheme::Https);
    all.iter().find(|other| {
        is_tls(state)
            && is_tls(other)
            && other.model.index != own.index
            && other.model.port == own.port
            && own.hostname.intersection(&other.model.hostname).is_some()
    })
}
