//! Listeners that cannot be told apart (Gateway API `GatewaySpec.listeners`, "Handling indistinct Listeners").

use ir::Reason;

use crate::tables::gateway::{Fault, ListenerModel};

/// Marks every listener that shares a port with one of another protocol, or port and hostname with another: none of
/// them wins, so that the order in which they are written decides nothing. Listeners of protocols that are not served
/// count for nothing, and one that its own spec keeps from being served counts for none of another protocol.
pub(super) fn mark(listeners: &mut [ListenerModel]) {
    let marks: Vec<_> = listeners.iter().map(|listener| conflict(listener, listeners)).collect();
    for (listener, mark) in listeners.iter_mut().zip(marks) {
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
