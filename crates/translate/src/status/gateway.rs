//! The status of Gateways and their listeners.

mod infrastructure;
mod listener;

use std::{collections::BTreeSet, sync::Arc};

use api::status::{Condition, GatewayStatus as Status};
use engine::{Derived, Emitter, Scope};
use ir::{ListenerId, NsName, Problem, Reason, Severity, backend::Transport, listener::ClientMode};

use self::infrastructure::Infrastructure;
use super::{Conditions, StatusReport, and_notes, listed};
use crate::{
    policy::wide::{BrokenGateway, BrokenListener},
    tables::{
        gateway::{ClientCertificate, Fault, GatewayModel, GatewayRow, ListenerModel},
        input::{Classes, Gateways, JudgeUnavailable, Nacks, RefusedListener, Strict},
        listener::{ListenerRow, ListenerState},
        output::Withheld,
        tls::NoRoom,
    },
};

tables! {
    /// Statuses of Gateways of ours.
    GatewayStatus: NsName => StatusReport<Status>;
}

impl Derived for GatewayStatus {
    fn compute(scope: &Emitter<'_>, key: &NsName) -> Option<Self::Value> {
        let Some(model) = scope.get::<GatewayRow>(key) else { return unknown_class(scope, key) };
        let gateway = Gateway::read(scope, key, &model);
        let mut problems = Vec::new();
        let listeners =
            gateway.listeners.iter().map(|state| listener::status(&gateway, state, &mut problems)).collect();
        problems.extend(gateway.problems());
        let conditions = gateway.conditions();
        let addresses = gateway.infrastructure.addresses;
        let status = Status { addresses, conditions, listeners, attached_listener_sets: None };
        Some(StatusReport { status: Some(status), problems })
    }
}

/// A Gateway of an unknown class may be another controller's; its author should know.
fn unknown_class(scope: &Scope<'_>, key: &NsName) -> Option<StatusReport<Status>> {
    let gateway = scope.get::<Gateways>(key)?;
    let class = &gateway.spec.gateway_class_name;
    if scope.get::<Classes>(class).is_some() {
        return None;
    }
    let message = format!("GatewayClass {class} does not exist; create it, or name another");
    let problem = Problem::new(Severity::Ignored, Reason::Pending, "spec.gatewayClassName", message);
    Some(StatusReport { status: None, problems: vec![problem] })
}

/// A Gateway, with everything that its status depends on.
struct Gateway<'a> {
    scope: &'a Scope<'a>,
    key: &'a NsName,
    model: &'a GatewayModel,
    listeners: Vec<Arc<ListenerState>>,
    infrastructure: Infrastructure,
    /// Why a direct response replaces all of its routes.
    replaced: Option<Arc<Fault>>,
    /// Why its proxies lack a part of the configuration.
    unsent: Option<String>,
    /// Why its proxies may not send to backends.
    no_room: Option<Problem>,
    /// Why its proxies have nothing to show to backends, where they shall.
    nothing_to_show: Option<Fault>,
    /// Why no Envoy can be asked before anything is sent, where one shall be.
    unjudged: Option<Arc<str>>,
}

impl<'a> Gateway<'a> {
    fn read(scope: &'a Scope<'a>, key: &'a NsName, model: &'a GatewayModel) -> Self {
        let listeners = model.listeners.iter().filter_map(|listener| scope.get::<ListenerRow>(&id(key, listener)));
        Self {
            scope,
            key,
            model,
            listeners: listeners.collect(),
            infrastructure: Infrastructure::read(scope, key, model),
            replaced: scope.get::<BrokenGateway>(key),
            unsent: scope
                .get::<Nacks>(key)
                .map(|words| String::clone(&words))
                .or_else(|| withheld(scope, key))
                .or_else(|| refused(scope, key, model)),
            unjudged: unjudged(scope),
            no_room: no_room(scope, key),
            nothing_to_show: scope
                .get::<ClientCertificate>(key)
                .and_then(|shown| shown.as_ref().as_ref().err().cloned()),
        }
    }

    /// Why a direct response replaces all routes of a listener.
    fn broken(&self, listener: &ListenerModel) -> Option<Arc<Fault>> {
        self.scope.get::<BrokenListener>(&id(self.key, listener))
    }

    /// Fields without effect, and what its proxies may not do.
    fn ignored(&self) -> Vec<Problem> {
        let ignored = self.model.ignored.iter();
        ignored
            .map(|(field, why)| Problem::new(Severity::Ignored, Reason::UnsupportedValue, field.as_str(), *why))
            .chain(self.no_room.clone())
            .collect()
    }

    /// Listeners that let in whoever has no valid certificate, though certificates are asked for.
    fn insecure(&self) -> Option<Problem> {
        let insecure = self.model.listeners.iter().filter_map(|listener| {
            let asked = listener.validation.as_ref().filter(|asked| asked.mode == ClientMode::Anybody)?;
            Some((&listener.name, &asked.field))
        });
        let (names, fields): (Vec<_>, Vec<_>) = insecure.unzip();
        let message = format!(
            "clients are asked for no certificate, and all are let in: listeners {}; set AllowValidOnly to have one asked for",
            crate::words::listed_with(", ", &names)
        );
        let field = format!("{}.mode", fields.first()?);
        Some(Problem::new(Severity::Warning, Reason::ConfigurationChanged, field, message))
    }

    /// Problems, without those of its listeners.
    fn problems(&self) -> Vec<Problem> {
        let mut problems = self.ignored();
        if let Some(fault) = &self.replaced {
            problems.push(Problem::new(Severity::Replaced, fault.reason, "", &fault.message));
        }
        let infrastructure = self.infrastructure.fault.as_ref().filter(|_| self.replaced.is_none());
        if let Some(Fault { reason, field, message }) = self.model.refused.as_ref().or(infrastructure) {
            problems.push(Problem::new(Severity::Refused, *reason, field, message));
        }
        if let Some(Fault { reason, field, message }) = &self.nothing_to_show {
            let message = format!("{message}; backends to which it would be shown are sent nothing");
            problems.push(Problem::new(Severity::Refused, *reason, field, message));
        }
        problems.extend(self.insecure());
        if let Some(why) = &self.unjudged {
            problems.push(Problem::new(Severity::Warning, Reason::JudgeUnavailable, "", &**why));
        }
        if let (None, Some(words)) = (&self.model.refused, &self.unsent) {
            problems.push(Problem::new(Severity::Refused, Reason::Invalid, "", words));
        }
        problems
    }

    fn conditions(&self) -> Vec<Condition> {
        let mut conditions = Conditions::new(self.model.generation);
        self.accepted(&mut conditions);
        self.programmed(&mut conditions);
        self.resolved_refs(&mut conditions);
        if let Some(insecure) = self.insecure() {
            conditions.yes("InsecureFrontendValidationMode", insecure.reason, insecure.to_string());
        }
        if let Some(why) = &self.unjudged {
            conditions.no("portcullis.dev/Validation", Reason::JudgeUnavailable, &**why);
        }
        conditions.list
    }

    fn accepted(&self, conditions: &mut Conditions) {
        let refused = self.model.refused.as_ref().or(self.replaced.as_deref());
        if let Some(fault) = refused.or(self.infrastructure.fault.as_ref()) {
            return conditions.no("Accepted", fault.reason, fault.to_string());
        }
        let invalid = |state: &Arc<ListenerState>| {
            let own = state.refused().map(ToString::to_string);
            let fault = own.or_else(|| Some(self.broken(&state.model)?.to_string()))?;
            Some(format!("listener {}: {fault}", state.model.name))
        };
        let invalid: Vec<_> = self.listeners.iter().filter_map(invalid).collect();
        if invalid.is_empty() {
            conditions.yes("Accepted", Reason::Accepted, and_notes("the Gateway is served", &self.ignored()));
        } else if invalid.len() < self.listeners.len() {
            conditions.yes("Accepted", Reason::ListenersNotValid, and_notes(&listed(&invalid), &self.ignored()));
        } else {
            conditions.no("Accepted", Reason::ListenersNotValid, listed(&invalid));
        }
    }

    fn programmed(&self, conditions: &mut Conditions) {
        if let Some(fault) = &self.model.refused {
            conditions.no("Programmed", Reason::Invalid, fault.to_string());
        } else if let Some(words) = &self.unsent {
            conditions.no("Programmed", Reason::Invalid, words);
        } else if self.listeners.iter().all(|state| state.withheld.is_some()) {
            conditions.no("Programmed", Reason::Invalid, "no listener can be served: see the listeners' conditions");
        } else if let Some(missing) = &self.infrastructure.missing {
            conditions.no("Programmed", missing.reason, missing.to_string());
        } else {
            let left_out = self.listeners.iter().filter_map(|state| {
                Some(format!("listener {} is not served: {}", state.model.name, state.withheld.as_ref()?.message))
            });
            let message = and_notes("the configuration is with its proxies", &left_out.collect::<Vec<_>>());
            conditions.yes("Programmed", Reason::Programmed, message);
        }
    }

    fn resolved_refs(&self, conditions: &mut Conditions) {
        let unresolved = |state: &Arc<ListenerState>| {
            let told = listed(&unresolved(state));
            (!told.is_empty()).then(|| format!("listener {}: {told}", state.model.name))
        };
        let unresolved: Vec<_> = self.listeners.iter().filter_map(unresolved).collect();
        if let Some(fault) = &self.nothing_to_show {
            let own = format!("{fault}; backends to which it would be shown are sent nothing");
            let all: Vec<_> = std::iter::once(own).chain(unresolved).collect();
            conditions.no("ResolvedRefs", fault.reason, listed(&all));
        } else if unresolved.is_empty() {
            conditions.yes("ResolvedRefs", Reason::ResolvedRefs, "all references resolve");
        } else {
            conditions.no("ResolvedRefs", Reason::ListenersNotResolved, listed(&unresolved));
        }
    }
}

/// Why no Envoy can be asked before anything is sent, where one shall be.
fn unjudged(scope: &Scope<'_>) -> Option<Arc<str>> {
    scope.get::<Strict>(&())?;
    scope.get::<JudgeUnavailable>(&()).map(|why| (*why).clone())
}

/// Why a listener is not sent, if an Envoy refuses it.
fn refused(scope: &Scope<'_>, key: &NsName, model: &GatewayModel) -> Option<String> {
    scope.get::<Strict>(&())?;
    let mut of_tcp = model.listeners.iter().filter(|listener| listener.transport() == Transport::Tcp);
    of_tcp.find_map(|listener| {
        let words = scope.get::<RefusedListener>(&(key.clone(), listener.port))?;
        Some(format!("port {} is not served: {words}", listener.port))
    })
}

/// Resources that are kept from its proxies, in words; none if all are sent.
fn withheld(scope: &Scope<'_>, key: &NsName) -> Option<String> {
    let withheld = scope.group::<Withheld>(key);
    let told = withheld.iter().map(|(output, why)| {
        let resource = output.resource();
        format!("{} {}: {why}", resource.kind.message_name(), resource.name)
    });
    let told: Vec<_> = told.collect();
    (!told.is_empty()).then(|| format!("Envoy could not read what is therefore not sent: {}", listed(&told)))
}

/// Policies of backends whose statuses have no room for the Gateway. Those of other namespaces are counted.
fn no_room(scope: &Scope<'_>, key: &NsName) -> Option<Problem> {
    let policies = scope.group::<NoRoom>(key);
    let policies: BTreeSet<_> = policies.iter().map(|(_, policy)| policy).collect();
    let (own, others): (Vec<_>, Vec<_>) = policies.into_iter().partition(|policy| policy.namespace == key.namespace);
    let mut told: Vec<_> = own.iter().map(|policy| format!("BackendTLSPolicy {policy}")).collect();
    if !others.is_empty() {
        told.push(format!("{} BackendTLSPolicies of other namespaces", others.len()));
    }
    let message = format!(
        "its proxies may not send to what these target, whose statuses have no room for one more Gateway: {}; have fewer \
         Gateways lead there",
        listed(&told)
    );
    (!told.is_empty()).then(|| Problem::new(Severity::Ignored, Reason::TooManyAncestors, "", message))
}

fn id(gateway: &NsName, listener: &ListenerModel) -> ListenerId {
    ListenerId::of_gateway(gateway.clone(), listener.name.clone())
}

/// Why references of a listener do not resolve.
fn unresolved(state: &ListenerState) -> Vec<&Fault> {
    let clients = state.clients.as_ref().and_then(|clients| clients.unresolved.as_ref());
    state.unresolved.iter().chain(clients).chain(&state.model.bad_kinds).collect()
}
