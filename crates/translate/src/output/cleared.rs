//! Listeners where Envoy is asked first. What routes have in them, the chains of hostnames of TLSRoutes, is judged chain by chain in
//! the names of those routes, so that no route holds up what its Gateway says.

use std::collections::{BTreeSet, HashSet};

use api::Kind as ObjectKind;
use engine::{Derived, Emitter, Scope};
use ir::{
    Hostname, ListenerId, ListenerName, NsName, Port,
    downstream::ListenerConfig,
    listener::{FilterChain, LeadsTo, Listener, ListenerHead},
};

use super::listener::listener;
use crate::{
    stream::place_of,
    tables::{
        input::{ClearedListener, ClearedPart, Config, ObjectKey, RefusedPart, object_id},
        listener::{ListenerRow, PortListener, PortListeners},
        stream::{ChainsAt, Winner},
        strict::{OfferedListener, Owner, Part, PartId},
    },
};

impl Derived for OfferedListener {
    /// Without what routes have in it.
    fn compute(scope: &Emitter<'_>, (gateway, port): &(NsName, Port)) -> Option<Listener> {
        let now = listener(scope, gateway, *port)?;
        let is_own = |chain: &&FilterChain| chain.leads_to == LeadsTo::RouteConfiguration || !now.head.over_tls;
        let chains: Vec<_> = now.chains.iter().filter(is_own).cloned().collect();
        let hostnames = chains.iter().map(|chain| chain.hostname.clone()).collect();
        let closed = closed(&scope.group::<PortListeners>(&(gateway.clone(), *port)), &hostnames);
        Some(Listener { chains, closed, ..now })
    }
}

/// Hostnames that would otherwise fall to the chain of a broader one of these: of listeners that are not served, and of those of TLS,
/// whose routes are not looked at. Each once, and none that has a chain.
fn closed(listeners: &engine::View<PortListeners>, chains: &HashSet<Hostname>) -> Vec<Hostname> {
    let over_tls = || listeners.iter().filter(|(_, at)| at.over_tls());
    let is_taken = |hostname: &Hostname| hostname.covering().skip(1).any(|broader| chains.contains(&broader));
    // A listener of TLS is there before its first route.
    let has_streams = over_tls().any(|(_, at)| is_stream(at));
    let whole = over_tls().filter(|(_, at)| !at.served || is_stream(at)).map(|((hostname, _), _)| hostname.clone());
    let mut seen = HashSet::new();
    let whole = whole.filter(|hostname| has_streams || is_taken(hostname));
    whole.filter(|hostname| !chains.contains(hostname) && seen.insert(hostname.clone())).collect()
}

/// Whether the routes of a listener that is served are TLSRoutes.
fn is_stream(at: &PortListener) -> bool {
    at.served && at.over_tls() && at.protocol.streams().is_some()
}

/// A listener as it is sent where Envoy is asked first: as it was cleared, without what of it is gone, and a hostname whose
/// chain is refused is closed.
pub(super) fn served(scope: &Scope<'_>, gateway: &NsName, port: Port) -> Option<Listener> {
    let mut now = listener(scope, gateway, port)?;
    let mut cleared = Listener::clone(&*scope.get::<ClearedListener>(&(gateway.clone(), port))?);
    let mut refused = BTreeSet::new();
    for name in listeners_of_streams(scope, gateway, port) {
        let listener = ListenerId::new(gateway.clone(), name);
        let hostnames = scope.group::<ChainsAt>(&listener);
        for (hostname, ()) in hostnames.iter() {
            let part = PartId::Chain(listener.clone(), hostname.clone());
            match scope.get::<ClearedPart>(&part).as_deref() {
                Some(Part::Chain(chain, _)) => cleared.chains.push(chain.clone()),
                _ if scope.get::<RefusedPart>(&part).is_some() => drop(refused.insert(hostname.clone())),
                _ => {}
            }
        }
    }
    if !refused.is_empty() {
        now.chains.retain(|chain| !refused.contains(&chain.hostname));
        now.closed.extend(refused);
    }
    cleared.limited(&now)
}

/// The listeners of a port whose routes are TLSRoutes.
fn listeners_of_streams(scope: &Scope<'_>, gateway: &NsName, port: Port) -> Vec<ListenerName> {
    let listeners = scope.group::<PortListeners>(&(gateway.clone(), port));
    let of_streams = listeners.iter().filter(|(_, at)| is_stream(at));
    of_streams.map(|((_, name), _)| name.clone()).collect()
}

/// The chain of a hostname of TLSRoutes, with the listener that has it alone, as it is judged; and whose it is.
pub(super) fn chain(scope: &Scope<'_>, listener: &ListenerId, hostname: &Hostname) -> (Option<Part>, Owner) {
    let route = place_of(scope, listener, hostname).and_then(|place| scope.get::<Winner>(&place));
    let owner = match route {
        // Its certificates are the Gateway's.
        Some(route) => Owner { object: object_id(&route), is_shared: route.namespace() != listener.namespace() },
        None => listener.gateway.clone().id(ObjectKind::Gateway).into(),
    };
    (chain_at(scope, listener, hostname), owner)
}

fn chain_at(scope: &Scope<'_>, listener: &ListenerId, hostname: &Hostname) -> Option<Part> {
    let place = place_of(scope, listener, hostname)?;
    let row = scope.get::<ListenerRow>(listener)?;
    let model = &row.model;
    let chain = place.chain(row.tls());
    // What policies say of the port is judged with the listener, in the name of its Gateway.
    let head = ListenerHead {
        gateway: listener.gateway.clone(),
        name: "chain".into(),
        addresses: vec!["0.0.0.0".into()],
        bind_port: model.port,
        over_tls: true,
        config: ListenerConfig::default(),
    };
    let alone = Listener { head, chains: vec![chain.clone()], closed: Vec::new() };
    Some(Part::Chain(chain, envoy::listener::listener(&alone, &scope.get::<Config>(&())?.edge)))
}
