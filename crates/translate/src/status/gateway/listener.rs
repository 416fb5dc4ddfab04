//! The status of one listener.

use std::sync::Arc;

use api::{shared::RouteGroupKind, status::ListenerStatus};
use ir::{Problem, Reason, Severity, listener::ListenerProtocol};

use super::{Conditions, Gateway, and_notes, id, listed, unresolved};
use crate::tables::{attachment::AttachedRoutes, gateway::Fault, listener::ListenerState};

/// The status of a listener of `gateway`. Its problems join `problems`.
pub(super) fn status(gateway: &Gateway<'_>, state: &ListenerState, problems: &mut Vec<Problem>) -> ListenerStatus {
    let own = &state.model;
    let conditions = Conditions::new(gateway.model.generation);
    let mut listener = Listener { gateway, state, conditions, problems };
    listener.accepted();
    listener.conflicted();
    listener.resolved_refs();
    listener.programmed();
    listener.overlapping();
    let attached = gateway.scope.group::<AttachedRoutes>(&id(gateway.key, own)).len();
    ListenerStatus {
        name: own.name.clone(),
        supported_kinds: own.kinds.iter().map(|kind| RouteGroupKind::gateway_api(kind.name())).collect(),
        attached_routes: i32::try_from(attached).unwrap_or(i32::MAX),
        conditions: listener.conditions.list,
    }
}

struct Listener<'a> {
    gateway: &'a Gateway<'a>,
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
        } else if let Some(fault) = self.gateway.broken(&self.state.model) {
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
            let message = "the configuration is with the proxies of the Gateway";
            return self.conditions.yes("Programmed", Reason::Programmed, message);
        };
        self.conditions.no("Programmed", fault.reason, fault.to_string());
        let own = &self.state.model;
        let is_sound = own.is_sound() && self.state.unresolved.is_none() && self.gateway.model.refused.is_none();
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
        if let Some(other) = self.gateway.listeners.iter().find(overlaps) {
            let message = format!(
                "{} overlaps with {} of listener {} on the same port: a client may reuse a connection for both, and is \
                 answered 421 where it does",
                own.hostname, other.model.hostname, other.model.name
            );
            self.conditions.yes("OverlappingTLSConfig", Reason::OverlappingHostnames, message);
        }
    }
}
