//! Listeners that cannot be told apart (Gateway API `GatewaySpec.listeners`, "Handling indistinct Listeners").
//!
//! Within one object nobody wins. Among several the Gateway comes first, then ListenerSets by their age (`ListenerSetSpec.listeners`):
//! what an earlier one asks for a later one does not get, and a listener that loses to an earlier object is in nobody's way.

use engine::{Emitter, Lookup, Scope};
use ir::{NsName, Reason, listener::PortClass, matching::Age};

use crate::tables::{
    gateway::{Fault, ListenerModel},
    set::{Holder, HostAsks, HostHolder, PortAsks, PortHolder, Rank, SpokenAt},
};

/// Says what listeners of an object ask for of a Gateway.
pub(super) fn ask<'a>(
    scope: &Emitter<'_>,
    gateway: &NsName,
    rank: &Rank,
    listeners: impl IntoIterator<Item = &'a ListenerModel>,
) {
    for listener in listeners {
        let Some(protocol) = listener.protocol.filter(|_| listener.port != 0) else { continue };
        let place = (rank.clone(), listener.index);
        let at = (gateway.clone(), listener.port, protocol.transport());
        scope.emit::<PortAsks>(at, place.clone(), (protocol.class(), listener.refused.is_some()));
        if let Some(over) = listener.claims {
            let at = (gateway.clone(), listener.port, over, listener.hostname.clone());
            scope.emit::<HostAsks>(at, place, ());
        }
    }
}

impl Lookup for PortHolder {
    fn compute(scope: &Scope<'_>, key: &Self::Key) -> Option<Holder> {
        let asks = scope.group::<PortAsks>(key);
        let ((rank, _), _) = asks.iter().next()?;
        let of_first = || asks.iter().take_while(|((other, _), _)| other == rank).map(|(_, ask)| ask);
        // Listeners that are refused keep the port from later objects, and decide nothing beside one that is not.
        let has_sound = of_first().any(|(_, is_refused)| !is_refused);
        let mut deciding = of_first().filter(|(_, is_refused)| !has_sound || !is_refused).map(|(class, _)| *class);
        let class = deciding.next();
        Some(Holder { rank: rank.clone(), class: class.filter(|class| deciding.all(|other| other == *class)) })
    }
}

impl Lookup for SpokenAt {
    fn compute(scope: &Scope<'_>, key: &Self::Key) -> Option<PortClass> {
        scope.get::<PortHolder>(key)?.class
    }
}

impl Lookup for HostHolder {
    fn compute(scope: &Scope<'_>, key: &Self::Key) -> Option<Rank> {
        scope.group::<HostAsks>(key).iter().next().map(|((rank, _), ())| rank.clone())
    }
}

/// Marks the listeners of a ListenerSet that lose to an earlier object, and of the others those that conflict with each other.
pub(super) fn mark_set(scope: &Scope<'_>, gateway: &NsName, set: &Age, listeners: &mut [ListenerModel]) {
    for listener in listeners.iter_mut() {
        listener.conflicted = lost(scope, gateway, set, listener);
        listener.lost = listener.conflicted.is_some();
    }
    mark(listeners);
}

/// What an earlier object has that a listener of a ListenerSet asks for. It is named if it is of the same namespace.
fn lost(scope: &Scope<'_>, gateway: &NsName, set: &Age, listener: &ListenerModel) -> Option<Fault> {
    let own = listener.protocol.filter(|_| listener.port != 0)?;
    let (port, rank) = (listener.port, Some(set.clone()));
    let fault = |reason, field, message| {
        Some(Fault::at(reason, format!("spec.listeners[{}].{field}", listener.index), message))
    };
    let who = |holder: &Rank| match holder {
        None => "its Gateway".to_owned(),
        Some(age) if age.name.namespace == set.name.namespace => format!("the earlier ListenerSet {}", age.name),
        Some(_) => "an earlier ListenerSet of another namespace".to_owned(),
    };
    let at = (gateway.clone(), port, own.transport());
    // Who comes first there concerns only who cannot have the port beside him.
    let has_port = own.told_by().is_some() && scope.get::<SpokenAt>(&at).is_some_and(|spoken| *spoken == own.class());
    let holder = if has_port { None } else { scope.get::<PortHolder>(&at) };
    if let Some(Holder { rank: holder, class }) = holder.as_deref().filter(|holder| holder.rank < rank) {
        if *class != Some(own.class()) {
            let message = format!("port {port} is used with another protocol by {}; use another port", who(holder));
            return fault(Reason::ProtocolConflict, "protocol", message);
        }
        if own.told_by().is_none() {
            let message = format!(
                "port {port} is that of {} too, and nothing tells what is meant for which; use another port",
                who(holder)
            );
            return fault(Reason::ProtocolConflict, "port", message);
        }
    }
    let at = (gateway.clone(), port, listener.claims?, listener.hostname.clone());
    let holder = scope.get::<HostHolder>(&at).filter(|holder| **holder < rank)?;
    let message = format!(
        "{} on port {port} is also a hostname of {}; use another hostname or port",
        listener.hostname,
        who(&holder)
    );
    fault(Reason::HostnameConflict, "hostname", message)
}

/// Marks every listener that shares a port with one of another protocol, or port and hostname with another: none of
/// them wins, so that the order in which they are written decides nothing. Listeners of protocols that are not served
/// count for nothing, and one that its own spec keeps from being served counts for none of another protocol.
pub(super) fn mark(listeners: &mut [ListenerModel]) {
    let marks: Vec<_> = listeners.iter().map(|listener| conflict(listener, listeners)).collect();
    for (listener, mark) in listeners.iter_mut().zip(marks).filter(|(listener, _)| !listener.lost) {
        listener.conflicted = mark;
    }
}

fn conflict(listener: &ListenerModel, all: &[ListenerModel]) -> Option<Fault> {
    let own = listener.protocol.filter(|_| listener.port != 0)?;
    let field = |name| format!("spec.listeners[{}].{name}", listener.index);
    // Ports of TCP and of UDP are two.
    let rivals = || {
        all.iter().filter_map(|rival| Some((rival, rival.protocol?))).filter(|(rival, protocol)| {
            rival.index != listener.index
                && !rival.lost
                && rival.port == listener.port
                && protocol.transport() == own.transport()
                && (rival.refused.is_none() || protocol.name() == own.name())
        })
    };
    if let Some((rival, _)) = rivals().find(|(_, protocol)| protocol.class() != own.class()) {
        let message = format!(
            "port {} is used with another protocol by listener {}; give each protocol a port of its own",
            listener.port, rival.name
        );
        return Some(Fault::at(Reason::ProtocolConflict, field("protocol"), message));
    }
    if own.told_by().is_none() {
        let (rival, _) = rivals().next()?;
        let message = format!(
            "port {} is that of listener {} too, and nothing tells what is meant for which; give each a port of its own",
            listener.port, rival.name
        );
        return Some(Fault::at(Reason::ProtocolConflict, field("port"), message));
    }
    listener.claims?;
    let (rival, _) = rivals().find(|(rival, _)| rival.claims.is_some() && rival.hostname == listener.hostname)?;
    let message = format!(
        "{} on port {} is also the hostname of listener {}; give each a hostname or port of its own",
        listener.hostname, listener.port, rival.name
    );
    Some(Fault::at(Reason::HostnameConflict, field("hostname"), message))
}
