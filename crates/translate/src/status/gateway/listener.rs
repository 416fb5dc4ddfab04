//! The status of one listener.

use std::sync::{Arc, LazyLock};

use api::{shared::RouteGroupKind, status::ListenerStatus};
use engine::Scope;
use ir::{
    ListenerId, ListenerName, NsName, ParentId, Problem, Reason, RouteKind, Severity, listener::ListenerProtocol,
};

use super::{Conditions, and_notes, listed, unresolved};
use crate::{
    policy::wide::BrokenListener,
    tables::{
        attachment::AttachedRoutes,
        gateway::{Fault, ListenerModel},
        listener::ListenerState,
        set::{Unserved, UnservedPort},
    },
};

/// A Gateway or a ListenerSet, as far as statuses of its listeners depend on it.
pub(in crate::status) struct Owner<'a> {
    pub(in crate::status) scope: &'a Scope<'a>,
    pub(in crate::status) parent: ParentId,
    /// The Gateway whose proxies serve its listeners.
    pub(in crate::status) gateway: &'a NsName,
    pub(in crate::status) generation: i64,
    /// All of them.
    pub(in crate::status) listeners: &'a [Arc<ListenerState>],
    /// Whether the Gateway as a whole is not accepted.
    pub(in crate::status) is_refused: bool,
}

impl Owner<'_> {
    fn id(&self, listener: &ListenerModel) -> ListenerId {
        let set = match &self.parent {
            ParentId::Gateway(_) => None,
            ParentId::ListenerSet(set) => Some(Arc::new(set.clone())),
        };
        ListenerId::new(self.gateway.clone(), ListenerName { set, section: listener.name.clone() })
    }

    /// Why nobody reaches a listener by the Gateway's Service.
    pub(in crate::status) fn unserved(&self, listener: &ListenerModel) -> Option<Fault> {
        let port = listener.port;
        let unserved = self.scope.get::<UnservedPort>(&(self.gateway.clone(), port, listener.transport()))?;
        let message = match (*unserved, &self.parent) {
            (Unserved::ByLoadBalancer, _) => format!(
                "the load balancer of the Gateway says that it does not serve port {port} of {}; use another port",
                listener.transport().name()
            ),
            // One of its own keeps the whole Service from being applied, which the Gateway says.
            (Unserved::ByKubernetes, ParentId::Gateway(_)) => return None,
            (Unserved::ByKubernetes, ParentId::ListenerSet(_)) => format!(
                "port {port} is none of the Gateway's Service, since Kubernetes refuses it there; use another port, or ask the owner \
                 of the Gateway, who is told why"
            ),
        };
        Some(Fault::at(Reason::PortUnavailable, format!("spec.listeners[{}].port", listener.index), message))
    }

    /// Why a direct response replaces all routes of a listener.
    pub(in crate::status) fn broken(&self, listener: &ListenerModel) -> Option<Arc<Fault>> {
        self.scope.get::<BrokenListener>(&self.id(listener))
    }
}

/// The status of a listener. Its problems join `problems`.
pub(in crate::status) fn status(
    owner: &Owner<'_>,
    state: &ListenerState,
    problems: &mut Vec<Problem>,
) -> ListenerStatus {
    let own = &state.model;
    let conditions = Conditions::new(owner.generation);
    let mut listener = Listener { owner, state, conditions, problems };
    listener.accepted();
    listener.conflicted();
    listener.resolved_refs();
    listener.programmed();
    listener.overlapping();
    let attached = owner.scope.group::<AttachedRoutes>(&owner.id(own)).len();
    ListenerStatus {
        name: own.name.clone(),
        supported_kinds: own.kinds.iter().copied().filter_map(supported).collect(),
        attached_routes: i32::try_from(attached).unwrap_or(i32::MAX),
        conditions: listener.conditions.done(),
    }
}

/// A kind of routes, with texts that all listeners share.
fn supported(kind: RouteKind) -> Option<RouteGroupKind> {
    static ALL: LazyLock<Vec<RouteGroupKind>> =
        LazyLock::new(|| RouteKind::ALL.iter().map(|kind| RouteGroupKind::gateway_api(kind.name())).collect());
    let place = RouteKind::ALL.iter().position(|other| *other == kind)?;
    ALL.get(place).cloned()
}

struct Listener<'a> {
    owner: &'a Owner<'a>,
    state: &'a ListenerState,
    conditions: Conditions,
    problems: &'a mut Vec<Problem>,
}

impl Listener<'_> {
    /// Adds a problem, unless another condition added it.
    fn add(&mut self, severity: Severity, fault: &Fault) {
        let message = format!("listener {}: {}", self.state.model.name, fault.message);
        let problem = Problem::new(severity, fault.reason, &fault.field, message);
        if !self.problems.iter().any(|known| (&known.field, &known.message) == (&problem.field, &problem.message)) {
            self.problems.push(problem);
        }
    }

    /// Sets a condition to false, with a problem.
    fn fails(&mut self, condition: &'static str, severity: Severity, fault: &Fault) {
        self.conditions.no(condition, fault.reason, fault.to_string());
        self.add(severity, fault);
    }

    fn accepted(&mut self) {
        if let Some(fault) = self.state.refused() {
            self.fails("Accepted", Severity::Refused, fault);
        } else if let Some(fault) = self.owner.broken(&self.state.model) {
            self.fails("Accepted", Severity::Replaced, &fault);
        } else {
            self.conditions.yes("Accepted", Reason::Accepted, "the listener is valid");
        }
    }

    fn conflicted(&mut self) {
        if let Some(fault) = &self.state.model.conflicted {
            self.conditions.yes("Conflicted", fault.reason, fault.to_string());
            self.add(Severity::Refused, fault);
        } else {
            self.conditions.no("Conflicted", Reason::NoConflicts, "no other listener is in the way");
        }
    }

    fn resolved_refs(&mut self) {
        let authorities = self.state.clients.as_ref().and_then(|clients| clients.warning.as_ref());
        let notes: Vec<_> = self.state.long_chain.iter().chain(authorities).collect();
        let faults = unresolved(self.state);
        if let Some(first) = faults.first() {
            self.conditions.no("ResolvedRefs", first.reason, listed(&faults));
        } else {
            let message = and_notes("all references resolve", &notes);
            self.conditions.yes("ResolvedRefs", Reason::ResolvedRefs, message);
        }
        for fault in faults {
            self.add(Severity::Refused, fault);
        }
        for note in notes {
            self.add(Severity::Warning, note);
        }
    }

    fn programmed(&mut self) {
        let Some(fault) = &self.state.withheld else {
            if let Some(fault) = self.owner.unserved(&self.state.model) {
                return self.fails("Programmed", Severity::Refused, &fault);
            }
            let message = "the configuration is with the proxies of the Gateway";
            return self.conditions.yes("Programmed", Reason::Programmed, message);
        };
        let own = &self.state.model;
        // Of listeners of ListenerSets the conformance tests ask for the word of the conflict.
        let lost = own.conflicted.as_ref().filter(|_| matches!(self.owner.parent, ParentId::ListenerSet(_)));
        self.conditions.no("Programmed", lost.unwrap_or(fault).reason, fault.to_string());
        let is_sound = own.is_sound() && self.state.unresolved.is_none() && !self.owner.is_refused;
        if is_sound {
            self.add(Severity::Refused, fault);
        }
    }

    /// Warns of another HTTPS listener of the port whose hostname has names in common (Gateway API
    /// `OverlappingTLSConfig`).
    fn overlapping(&mut self) {
        let own = &self.state.model;
        let overlaps = |other: &&Arc<ListenerState>| {
            let other = &other.model;
            [own, other].iter().all(|listener| listener.protocol == Some(ListenerProtocol::Https))
                && other.index != own.index
                && other.port == own.port
                && own.hostname.intersection(&other.hostname).is_some()
        };
        if let Some(other) = self.owner.listeners.iter().find(overlaps) {
            let message = format!(
                "{} overlaps with {} of listener {} on the same port: a client may reuse a connection for both, and is \
                 answered 421 where it does",
                own.hostname, other.model.hostname, other.model.name
            );
            self.conditions.yes("OverlappingTLSConfig", Reason::OverlappingHostnames, message);
        }
    }
}
