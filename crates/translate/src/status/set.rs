//! The status of ListenerSets.

use std::sync::Arc;

use api::status::ListenerSetStatus as Status;
use engine::{Derived, Emitter, Scope};
use ir::{ListenerId, ListenerName, NsName, ParentId, Port, Problem, Reason, Severity, backend::Transport};

use super::{
    Conditions, StatusReport, and_notes,
    gateway::{
        GatewayStanding, Whole,
        listener::{self, Owner},
    },
    listed,
};
use crate::offer::is_strict;
use crate::tables::{
    gateway::GatewayRow,
    input::RefusedListener,
    listener::{ListenerRow, ListenerState},
    set::{AttachedSets, Head, SetHead, SetModel, SetRow, Standing},
};

tables! {
    /// Statuses of ListenerSets whose Gateway is ours.
    SetStatus: NsName => StatusReport<Status>;
}

impl Derived for SetStatus {
    fn compute(scope: &Emitter<'_>, key: &NsName) -> Option<Self::Value> {
        let head = scope.get::<SetHead>(key)?;
        let gateway = head.gateway.as_ref()?;
        match head.standing {
            Standing::Admitted | Standing::Doubtful => admitted(scope, key, &head, gateway),
            Standing::NotAllowed => Some(not_allowed(&head)),
            Standing::Missing => Some(missing(gateway)),
            Standing::Foreign => None,
            Standing::Unknown => {
                // What cannot be read makes this as unreadable.
                scope.get::<GatewayRow>(gateway);
                None
            }
        }
    }
}

/// A Gateway that is not there may be another controller's; the author should know.
fn missing(gateway: &NsName) -> StatusReport<Status> {
    let message = format!("Gateway {gateway} does not exist; create it, or correct the name");
    let problem = Problem::new(Severity::Ignored, Reason::Pending, "spec.parentRef.name", message);
    StatusReport { status: None, problems: vec![problem] }
}

fn not_allowed(head: &Head) -> StatusReport<Status> {
    let message = "the Gateway does not admit ListenerSets of this namespace; its owner decides by allowedListeners";
    let mut conditions = Conditions::new(head.generation);
    conditions.no("Accepted", Reason::NotAllowed, format!("spec.parentRef: {message}"));
    conditions.no("Programmed", Reason::NotAllowed, format!("spec.parentRef: {message}"));
    let problem = Problem::new(Severity::Refused, Reason::NotAllowed, "spec.parentRef", message);
    let status = Status { conditions: conditions.done(), listeners: Vec::new() };
    StatusReport { status: Some(status), problems: vec![problem] }
}

fn admitted(scope: &Emitter<'_>, key: &NsName, head: &Head, gateway: &NsName) -> Option<StatusReport<Status>> {
    let model = scope.get::<SetRow>(key)?;
    let whole = *scope.get::<GatewayStanding>(gateway)?;
    let states = states(scope, key, &model);
    let owner = Owner {
        scope,
        parent: ParentId::ListenerSet(key.clone()),
        gateway,
        generation: head.generation,
        listeners: &states,
        is_refused: !whole.is_accepted,
    };
    let mut problems = Vec::new();
    let listeners = states.iter().map(|state| listener::status(&owner, state, &mut problems)).collect();
    let ignored = model.ignored.iter();
    let ignored = ignored.map(|(field, why)| Problem::new(Severity::Ignored, Reason::UnsupportedValue, field, *why));
    let ignored: Vec<_> = ignored.collect();
    let entries = Entries::of(&owner);
    let mut conditions = Conditions::new(head.generation);
    if entries.accepted(whole, &ignored, &mut conditions) {
        scope.emit::<AttachedSets>(gateway.clone(), key.clone(), ());
    }
    if let Some((reason, message)) = of_gateway(whole) {
        problems.push(Problem::new(Severity::Refused, reason, "spec.parentRef", message));
    }
    match refused_port(scope, gateway, &model) {
        Some(port) if of_gateway(whole).is_none() => {
            let message = format!(
                "port {port} is not served, since an Envoy refuses what is said of it; ask the owner of the Gateway"
            );
            conditions.no("Programmed", Reason::Invalid, message.clone());
            problems.push(Problem::new(Severity::Refused, Reason::Invalid, "", message));
        }
        _ => entries.programmed(whole, &mut conditions),
    }
    problems.extend(ignored);
    Some(StatusReport { status: Some(Status { conditions: conditions.done(), listeners }), problems })
}

fn states(scope: &Scope<'_>, key: &NsName, model: &SetModel) -> Vec<Arc<ListenerState>> {
    let set = Arc::new(key.clone());
    let states = model.listeners.iter().filter_map(|listener| {
        let name = ListenerName { set: Some(set.clone()), section: listener.name.clone() };
        scope.get::<ListenerRow>(&ListenerId::new(model.gateway.clone(), name))
    });
    states.collect()
}

/// A port that is not sent, if an Envoy refuses it.
fn refused_port(scope: &Scope<'_>, gateway: &NsName, model: &SetModel) -> Option<Port> {
    if !is_strict(scope) {
        return None;
    }
    let mut of_tcp =
        model.listeners.iter().filter(|listener| listener.is_sound() && listener.transport() == Transport::Tcp);
    let refused = |port| scope.get::<RefusedListener>(&(gateway.clone(), port)).is_some();
    of_tcp.find_map(|listener| refused(listener.port).then_some(listener.port))
}

/// Why nothing is served whatever the ListenerSet says, in words that tell nothing of its Gateway's affairs.
fn of_gateway(whole: Whole) -> Option<(Reason, &'static str)> {
    match whole {
        Whole { is_accepted: false, .. } => {
            Some((Reason::ParentNotAccepted, "the Gateway is not accepted; ask its owner"))
        }
        Whole { is_programmed: false, .. } => Some((
            Reason::ParentNotProgrammed,
            "the proxies of the Gateway do not have what they should; ask its owner",
        )),
        _ => None,
    }
}

/// The listeners of a ListenerSet, as its own conditions tell of them.
struct Entries {
    /// What is wrong with those that are not served.
    invalid: Vec<String>,
    /// Why nobody reaches those that are served.
    unserved: Vec<String>,
    /// How many there are.
    all: usize,
}

impl Entries {
    fn of(owner: &Owner<'_>) -> Self {
        let invalid = |state: &Arc<ListenerState>| {
            let own = state.refused().or(state.withheld.as_ref()).map(ToString::to_string);
            let fault = own.or_else(|| Some(owner.broken(&state.model)?.to_string()))?;
            Some(format!("listener {}: {fault}", state.model.name))
        };
        let unserved = |state: &Arc<ListenerState>| {
            let fault = owner.unserved(&state.model).filter(|_| invalid(state).is_none())?;
            Some(format!("listener {}: {fault}", state.model.name))
        };
        Self {
            invalid: owner.listeners.iter().filter_map(invalid).collect(),
            unserved: owner.listeners.iter().filter_map(unserved).collect(),
            all: owner.listeners.len(),
        }
    }

    fn any_valid(&self) -> bool {
        self.invalid.len() < self.all
    }

    /// What is wrong with those that nobody reaches, whatever the reason.
    fn unreached(&self) -> Vec<String> {
        [&self.invalid[..], &self.unserved].concat()
    }

    /// Says whether it is accepted.
    fn accepted(&self, whole: Whole, ignored: &[Problem], conditions: &mut Conditions) -> bool {
        if let Some((reason, message)) = of_gateway(whole).filter(|_| !whole.is_accepted) {
            conditions.no("Accepted", reason, message);
        } else if !self.any_valid() {
            conditions.no("Accepted", Reason::ListenersNotValid, listed(&self.invalid));
        } else if self.invalid.is_empty() {
            conditions.yes("Accepted", Reason::Accepted, and_notes("the listeners are served", ignored));
            return true;
        } else {
            conditions.yes("Accepted", Reason::ListenersNotValid, and_notes(listed(&self.invalid), ignored));
            return true;
        }
        false
    }

    fn programmed(&self, whole: Whole, conditions: &mut Conditions) {
        if let Some((_, message)) = of_gateway(whole) {
            conditions.no("Programmed", Reason::ParentNotProgrammed, message);
        } else if self.unreached().len() < self.all {
            let message = and_notes("the configuration is with the proxies of the Gateway", &self.unreached());
            conditions.yes("Programmed", Reason::Programmed, message);
        } else {
            conditions.no("Programmed", Reason::ListenersNotValid, listed(&self.unreached()));
        }
    }
}
