//! The ports that Envoy binds, and those of a host that Gateways share.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    net::IpAddr,
    sync::Arc,
};

use engine::{Derived, Emitter, Lookup, Scope};
use ir::{
    NsName, Port,
    backend::Transport,
    matching::Age,
    settings::{PortMapping, RESERVED_PORTS},
};

use crate::proxies;
use crate::tables::{
    gateway::{GatewayRow, PortClaims},
    input::{Config, Gateways, Services, UnservedPorts},
    set::{BindPort, BindPorts, Bound, OwnPorts, SetPort, SetPortAsks, SetPorts, Unserved, UnservedPort},
};

/// How many ports ListenerSets may add to a Gateway: each is a listener of Envoy's with all of its filters, and a port of the Service.
pub(crate) const MAX_PORTS: usize = 256;
/// How many of them those of one namespace may, so that others have some.
pub(crate) const MAX_PORTS_OF_NAMESPACE: usize = 32;

/// Adds the ports that Envoy binds for `ports` to those of earlier objects, which stay as they are: a port below 1024 becomes one above
/// 10000, and one that is taken moves to the next that is free.
pub(super) fn bind(bound: &mut BTreeMap<Port, Port>, ports: &BTreeSet<Port>, mapping: PortMapping) {
    let new: Vec<_> = ports.iter().copied().filter(|port| !bound.contains_key(port)).collect();
    if mapping == PortMapping::Own {
        bound.extend(new.into_iter().map(|port| (port, port)));
        return;
    }
    let is_mapped = |port: &Port| *port < 1024 || RESERVED_PORTS.contains(port);
    let mut taken: BTreeSet<Port> = bound.values().copied().chain(RESERVED_PORTS).collect();
    // Those that need no other port keep theirs, where no earlier object has it.
    let (mapped, own): (Vec<_>, Vec<_>) = new.into_iter().partition(is_mapped);
    let wanted = own.into_iter().map(|port| (port, port)).chain(mapped.into_iter().map(|port| (port, 10_000 + port)));
    for (port, wanted) in wanted {
        let mut candidate = wanted;
        while !taken.insert(candidate) {
            // Behind the last one stands the first of those that are never mapped.
            candidate = candidate.checked_add(1).unwrap_or(1024);
        }
        bound.insert(port, candidate);
    }
}

impl Derived for SetPort {
    fn compute(scope: &Emitter<'_>, key: &(NsName, Port, Arc<str>)) -> Option<()> {
        let asks = scope.group::<SetPortAsks>(key);
        let (first, ()) = asks.iter().next()?;
        let (gateway, port, _) = key;
        scope.emit::<SetPorts>(gateway.clone(), (first.clone(), *port), ());
        Some(())
    }
}

impl Lookup for OwnPorts {
    fn compute(scope: &Scope<'_>, gateway: &NsName) -> Option<BTreeMap<Port, Port>> {
        let model = scope.get::<GatewayRow>(gateway)?;
        let ports = model.listeners.iter().filter(|listener| listener.port != 0);
        Some(ports.map(|listener| (listener.port, listener.bind_port)).collect())
    }
}

impl Lookup for BindPorts {
    /// In the order of who comes first with a port: one that comes later moves none that was there before. A namespace that has all
    /// that it may goes without the others, which are free for the next one that asks.
    fn compute(scope: &Scope<'_>, gateway: &NsName) -> Option<Bound> {
        let mapping = scope.get::<Config>(&())?.ports;
        let mut bound = Bound { ports: BTreeMap::clone(&*scope.get::<OwnPorts>(gateway)?), ..Bound::default() };
        let asked = scope.group::<SetPorts>(gateway);
        let mut asked = asked.iter().map(|(asked, ())| asked).peekable();
        let (mut all, mut of_namespaces) = (0, HashMap::<&Arc<str>, usize>::new());
        while let Some((set, first)) = asked.next() {
            let mut ports = BTreeSet::from([*first]);
            while let Some((_, port)) = asked.next_if(|(next, _)| next == set) {
                ports.insert(*port);
            }
            ports.retain(|port| !bound.ports.contains_key(port));
            let namespace = &set.name.namespace;
            let of_namespace = of_namespaces.entry(namespace).or_default();
            let room = (MAX_PORTS - all).min(MAX_PORTS_OF_NAMESPACE - *of_namespace);
            let mut ports = ports.into_iter();
            let placed: BTreeSet<_> = ports.by_ref().take(room).collect();
            bound.without.extend(ports.map(|port| (namespace.clone(), port)));
            all += placed.len();
            *of_namespace += placed.len();
            bind(&mut bound.ports, &placed, mapping);
        }
        Some(bound)
    }
}

impl Lookup for BindPort {
    fn compute(scope: &Scope<'_>, (gateway, port, namespace): &(NsName, Port, Arc<str>)) -> Option<Port> {
        let bound = scope.get::<BindPorts>(gateway)?;
        bound.ports.get(port).copied().filter(|_| !bound.without.contains(&(namespace.clone(), *port)))
    }
}

impl Lookup for UnservedPort {
    fn compute(scope: &Scope<'_>, (gateway, port, transport): &Self::Key) -> Option<Unserved> {
        let left_out = scope.get::<UnservedPorts>(gateway);
        if left_out.is_some_and(|ports| ports.contains_key(&(*port, *transport))) {
            return Some(Unserved::ByKubernetes);
        }
        let name = proxies::name(gateway, &scope.get::<Gateways>(gateway)?.spec.gateway_class_name);
        let service = scope.get::<Services>(&name)?;
        let mut unserved = service.unserved_ports.iter().map(|(port, protocol)| (*port, protocol.as_str()));
        unserved.any(|unserved| unserved == (*port, transport.name())).then_some(Unserved::ByLoadBalancer)
    }
}

tables! {
    /// The older Gateway that keeps a Gateway from a port; absent where the port is free for it.
    PortRival: (NsName, Port, Transport) => NsName;
}

impl Lookup for PortRival {
    fn compute(scope: &Scope<'_>, (gateway, port, transport): &Self::Key) -> Option<NsName> {
        let model = scope.get::<GatewayRow>(gateway)?;
        let claims = scope.group::<PortClaims>(&(*port, *transport));
        // A Gateway that does not get the port itself is in nobody's way.
        let mut winners: Vec<(&Age, &[IpAddr])> = Vec::new();
        for (claim, addresses) in claims.iter().take_while(|(claim, _)| claim.gateway != model.age) {
            if !winners.iter().any(|(_, won)| overlap(won, addresses)) {
                winners.push((&claim.gateway, addresses));
            }
        }
        winners.into_iter().find(|(_, won)| overlap(won, &model.addresses)).map(|(age, _)| age.name.clone())
    }
}

fn overlap(a: &[IpAddr], b: &[IpAddr]) -> bool {
    let any = |addresses: &[IpAddr]| addresses.is_empty() || addresses.iter().any(IpAddr::is_unspecified);
    any(a) || any(b) || a.iter().any(|address| b.contains(address))
}
