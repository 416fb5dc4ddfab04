//! The status of Gateways and their listeners.

mod infrastructure;
pub(super) mod listener;

use std::{collections::BTreeSet, sync::Arc};

use api::{
    Kind,
    status::{Condition, GatewayStatus as Status},
};
use engine::{Derived, Emitter, Lookup, Scope};
use ir::{ListenerId, NsName, ParentId, Problem, Reason, Severity, backend::Transport, listener::ClientMode};

use self::infrastructure::Infrastructure;
use super::{Conditions, StatusReport, and_notes, frozen, listed};
use crate::{
    kept,
    policy::wide::{BrokenGateway, BrokenListener},
    tables::{
        gateway::{Admission, ClientCertificate, Fault, GatewayModel, GatewayRow, ListenerModel},
        input::{
            Classes, Config, Gateways, JudgeUnavailable, Nacks, ObjectKey, RefusedListener, Strict, UnservedPorts,
            VersionsNotJudged,
        },
        listener::{ListenerRow, ListenerState},
        output::Withheld,
        set::{AskedOfClients, AttachedSets, SoundPorts},
        tls::NoRoom,
    },
};

tables! {
    /// Statuses of Gateways of ours.
    GatewayStatus: NsName => StatusReport<Status>;
    /// How a Gateway of ours stands as a whole, apart from its own listeners: as much as ListenerSets need to know.
    GatewayStanding: NsName => Whole;
}

/// How a Gateway stands as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Whole {
    /// Whether it is accepted.
    pub(crate) is_accepted: bool,
    /// Whether its proxies have what they should.
    pub(crate) is_programmed: bool,
}

impl Lookup for GatewayStanding {
    fn compute(scope: &Scope<'_>, key: &NsName) -> Option<Whole> {
        let model = scope.get::<GatewayRow>(key)?;
        let infrastructure = Infrastructure::read(scope, key, &model);
        let is_replaced = scope.get::<BrokenGateway>(key).is_some();
        let is_accepted = model.refused.is_none() && !is_replaced && infrastructure.fault.is_none();
        let is_sent = unsent(scope, key, &model).is_none();
        Some(Whole { is_accepted, is_programmed: is_accepted && is_sent && infrastructure.missing.is_none() })
    }
}

impl Derived for GatewayStatus {
    fn compute(scope: &Emitter<'_>, key: &NsName) -> Option<Self::Value> {
        let Some(model) = scope.get::<GatewayRow>(key) else { return unknown_class(scope, key) };
        let gateway = Gateway::read(scope, key, &model);
        let mut problems = Vec::new();
        let owner = listener::Owner {
            scope,
            parent: ParentId::Gateway(key.clone()),
            gateway: key,
            generation: model.generation,
            listeners: &gateway.listeners,
            is_refused: model.refused.is_some(),
        };
        let listeners = gateway.listeners.iter().map(|state| listener::status(&owner, state, &mut problems)).collect();
        problems.extend(gateway.problems());
        let conditions = gateway.conditions();
        let addresses = gateway.infrastructure.addresses;
        let sets = scope.group::<AttachedSets>(key).len();
        let attached_listener_sets = (model.admits != Admission::None).then(|| i32::try_from(sets).unwrap_or(i32::MAX));
        let status = Status { addresses, conditions, listeners, attached_listener_sets };
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
    /// Why no Envoy can be asked before anything is sent, where one shall be, or why its word is not that of the proxies.
    unjudged: Option<(Reason, Arc<str>)>,
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
            unsent: unsent(scope, key, model),
            unjudged: unjudged(scope, key),
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
            .chain(self.without_ports())
            .collect()
    }

    /// Ports of ListenerSets that its Service goes without, which is told in the statuses of these.
    fn without_ports(&self) -> Option<Problem> {
        let ports = self.scope.get::<UnservedPorts>(self.key)?;
        let told = ports.iter().map(|((port, transport), why)| format!("{port} of {}: {why}", transport.name()));
        let message = format!(
            "its Service goes without ports of ListenerSets, since Kubernetes refuses it with them: {}; have Kubernetes take them, or \
             ListenerSets ask for others",
            listed(&told.collect::<Vec<_>>())
        );
        Some(Problem::new(Severity::Warning, Reason::PortUnavailable, "", message))
    }

    /// Listeners that let in whoever has no valid certificate, though certificates are asked for.
    fn insecure(&self) -> Option<Problem> {
        let insecure = self.model.listeners.iter().filter_map(|listener| {
            let asked = listener.validation.as_ref().filter(|asked| asked.mode == ClientMode::Anybody)?;
            Some((listener.name.to_string(), asked.field.clone()))
        });
        let of_sets = self.scope.group::<SoundPorts>(self.key);
        let of_sets = of_sets.iter().filter(|(_, (_, ends_tls))| *ends_tls).filter_map(|((port, _), _)| {
            let asked = self.scope.get::<AskedOfClients>(&(self.key.clone(), *port))?;
            (asked.0.mode == ClientMode::Anybody)
                .then(|| (format!("those of ListenerSets on port {port}"), asked.0.field.clone()))
        });
        let (names, fields): (Vec<_>, Vec<_>) = insecure.chain(of_sets).unzip();
        let message = format!(
            "clients are let in with any certificate and without: listeners {}; set AllowValidOnly to have certificates judged",
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
        if let Some((reason, why)) = &self.unjudged {
            problems.push(Problem::new(Severity::Warning, *reason, "", &**why));
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
        if let Some((reason, why)) = &self.unjudged {
            conditions.no("portcullis.dev/Validation", *reason, why.to_string());
        }
        if let Some(told) = frozen(self.scope, || self.key.clone().id(Kind::Gateway)) {
            conditions.frozen(&told);
        } else if let Some((field, why)) = self.unheard() {
            conditions.no("portcullis.dev/Frozen", Reason::UnsupportedValue, format!("{field}: {why}"));
        }
        conditions.done()
    }

    /// What is wrong with what it asks for where its policies break.
    fn unheard(&self) -> Option<(String, &'static str)> {
        let gateway = self.scope.get::<Gateways>(self.key)?;
        kept::problem(&gateway.metadata, self.scope.get::<Config>(&())?.freeze)
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
            conditions.yes("Accepted", Reason::ListenersNotValid, and_notes(listed(&invalid), &self.ignored()));
        } else {
            conditions.no("Accepted", Reason::ListenersNotValid, listed(&invalid));
        }
    }

    fn programmed(&self, conditions: &mut Conditions) {
        if let Some(fault) = &self.model.refused {
            conditions.no("Programmed", Reason::Invalid, fault.to_string());
        } else if let Some(words) = &self.unsent {
            conditions.no("Programmed", Reason::Invalid, words.to_owned());
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

/// Why its proxies lack a part of the configuration.
fn unsent(scope: &Scope<'_>, key: &NsName, model: &GatewayModel) -> Option<String> {
    let nack = scope.get::<Nacks>(key).map(|words| String::clone(&words));
    nack.or_else(|| withheld(scope, key)).or_else(|| refused(scope, key, model))
}

/// Why no Envoy can be asked before anything is sent, where one shall be, or why its word is not that of the proxies.
fn unjudged(scope: &Scope<'_>, key: &NsName) -> Option<(Reason, Arc<str>)> {
    scope.get::<Strict>(&())?;
    let unavailable = scope.get::<JudgeUnavailable>(&()).map(|why| (Reason::JudgeUnavailable, (*why).clone()));
    unavailable.or_else(|| {
        let of_others = scope.get::<VersionsNotJudged>(key)?;
        Some((Reason::VersionNotJudged, (*of_others).clone()))
    })
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
pub(super) fn unresolved(state: &ListenerState) -> Vec<&Fault> {
    let clients = state.clients.as_ref().and_then(|clients| clients.unresolved.as_ref());
    state.unresolved.iter().chain(clients).chain(&state.model.bad_kinds).collect()
}
