//! Gateways, their listeners, and which of these answers for a host.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use api::ObjectId;
use ir::{
    Hostname, ListenerId, ListenerName, NsName, ParentId, Port, RouteConfigId,
    filter::Scheme,
    listener::{ClientMode, ListenerProtocol},
};

use super::{Fault, Inspector};
use crate::{
    capacity::ShutHost,
    gateway::policy::DownstreamOf,
    host::{Owned, Owner},
    internal,
    tables::{
        gateway::{GatewayModel, GatewayRow, ListenerModel},
        host::{HostsOf, UnservedHosts},
        listener::{ListenerRow, MOST_LISTED, PortHosts, PortListeners},
        set::{SetHead, SetRow, SetsOf},
    },
};

/// A Gateway of ours.
#[derive(Clone, Debug)]
pub struct Gateway {
    /// Its name.
    pub name: NsName,
    /// Why all of it is not served.
    pub refused: Option<Fault>,
    /// In the order of its spec; behind them those of its ListenerSets, the oldest first.
    pub listeners: Vec<Listener>,
}

/// A listener of a Gateway of ours.
#[derive(Clone, Debug)]
pub struct Listener {
    /// Its Gateway and name.
    pub id: ListenerId,
    /// The Gateway's port.
    pub port: Port,
    /// The port that Envoy binds.
    pub bind_port: Port,
    /// What it speaks; none for a protocol that is not served.
    pub protocol: Option<ListenerProtocol>,
    /// The hostnames that it serves.
    pub hostname: Hostname,
    /// Why it is not served.
    pub withheld: Option<Fault>,
    /// Where something is said of certificates of clients: the objects with the authorities that vouch for them, and who is let in.
    pub clients: Option<(Vec<ObjectId>, ClientMode)>,
    /// The policies that say how it takes connections and requests, and in which fields each holds.
    pub policies: Vec<(ObjectId, Vec<&'static str>)>,
}

impl Inspector<'_> {
    /// All Gateways of ours, sorted by name. Looks at all of them.
    pub fn gateways(self) -> Vec<Gateway> {
        let rows = self.engine.rows::<GatewayRow>().into_iter();
        rows.map(|(name, model)| self.read_gateway(name, &model)).collect()
    }

    /// A Gateway; none for one that does not exist or is another controller's.
    pub fn gateway(self, name: &NsName) -> Option<Gateway> {
        let model = self.engine.get::<GatewayRow>(name)?;
        Some(self.read_gateway(name.clone(), &model))
    }

    /// The Gateway whose proxies serve a parent of routes, or would; none for one that does not exist.
    pub fn gateway_of(self, parent: &ParentId) -> Option<NsName> {
        match parent {
            ParentId::Gateway(gateway) => Some(gateway.clone()),
            ParentId::ListenerSet(set) => self.engine.get::<SetHead>(set)?.gateway.clone(),
        }
    }

    fn read_gateway(self, name: NsName, model: &GatewayModel) -> Gateway {
        let listeners = model.listeners.iter().map(|listener| {
            let id = ListenerId::of_gateway(name.clone(), listener.name.clone());
            self.read_listener(id, listener)
        });
        let sets = self.engine.group::<SetsOf>(&name);
        let of_sets = sets.iter().flat_map(|(age, ())| {
            let model = self.engine.get::<SetRow>(&age.name);
            let listeners = model.map(|model| model.listeners.clone()).unwrap_or_default();
            let set = Arc::new(age.name.clone());
            let id = |section| ListenerId::new(name.clone(), ListenerName { set: Some(set.clone()), section });
            listeners.iter().map(|listener| self.read_listener(id(listener.name.clone()), listener)).collect::<Vec<_>>()
        });
        let listeners = listeners.chain(of_sets);
        Gateway { listeners: listeners.collect(), refused: model.refused.clone(), name }
    }

    fn read_listener(self, id: ListenerId, model: &ListenerModel) -> Listener {
        let row = self.engine.get::<ListenerRow>(&id);
        let withheld = row.as_ref().map_or_else(|| Some(internal::fault()), |row| row.withheld.clone());
        let clients = row.as_ref().and_then(|row| {
            let clients = row.clients.as_ref()?;
            Some((clients.authorities.as_ref().ok()?.objects().to_vec(), clients.mode))
        });
        let ListenerModel { port, bind_port, protocol, hostname, .. } = model;
        let mut policies: BTreeMap<ObjectId, Vec<&'static str>> = BTreeMap::new();
        let merged = self.engine.get::<DownstreamOf>(&(id.gateway.clone(), *port));
        for (field, policy) in merged.iter().flat_map(|merged| &merged.by) {
            policies.entry(policy.clone()).or_default().push(field);
        }
        let policies = policies.into_iter().collect();
        let hostname = hostname.clone();
        let (port, bind_port, protocol) = (*port, *bind_port, *protocol);
        Listener { id, port, bind_port, protocol, hostname, withheld, clients, policies }
    }

    /// A listener of a Gateway of ours.
    pub fn listener(self, id: &ListenerId) -> Option<Listener> {
        let model = match &id.name.set {
            None => self.engine.get::<GatewayRow>(&id.gateway)?.listener(&id.name)?.clone(),
            Some(set) => self.engine.get::<SetRow>(set)?.listener(&id.name)?.clone(),
        };
        Some(self.read_listener(id.clone(), &model))
    }

    /// The listener with the most specific hostname for a server name, over TLS, and whether it is served.
    pub fn tls_listener(self, gateway: &NsName, port: Port, server: &Hostname) -> Option<(ListenerName, bool)> {
        server.covering().find_map(|hostname| {
            let at = self.engine.group::<PortHosts>(&(gateway.clone(), port, Scheme::Https, hostname));
            at.first().map(|((unserved, name), ())| (name.clone(), !unserved))
        })
    }

    /// Whether a route configuration has a virtual host for this very hostname.
    pub fn has_virtual_host(self, config: &RouteConfigId, hostname: &Hostname) -> bool {
        self.engine.group::<HostsOf>(config).get(hostname).is_some()
            || self.engine.group::<UnservedHosts>(config).get(hostname).is_some()
    }

    /// The listener whose routes a virtual host has; none where it is kept for one that is not served.
    pub fn owner(self, config: &RouteConfigId, hostname: &Hostname) -> Option<ListenerId> {
        match &*self.engine.get::<Owner>(&(config.clone(), hostname.clone()))? {
            Owned::By(name) => Some(ListenerId::new(config.gateway.clone(), name.clone())),
            Owned::Nobody => None,
        }
    }

    /// Whether a hostname is another listener's than that of this route configuration, over TLS, or is answered as if it were.
    pub fn is_of_another_listener(self, config: &RouteConfigId, hostname: &Hostname) -> bool {
        let Some(own) = &config.listener else { return false };
        let listeners = self.engine.group::<PortListeners>(&(config.gateway.clone(), config.port));
        if listeners.len() > MOST_LISTED && *hostname == Hostname::Any {
            return true;
        }
        let mut over_tls = listeners.iter().filter(|(_, at)| at.over_tls());
        over_tls.any(|((other, name), _)| other == hostname && name != own)
    }

    /// The namespaces whose routes ask for so much that a hostname of a listener answers 500 to everything; none where it
    /// does not.
    pub fn shut_by(self, listener: &ListenerId, hostname: &Hostname) -> Option<BTreeSet<Arc<str>>> {
        let payers = self.engine.get::<ShutHost>(&(listener.clone(), hostname.clone()))?;
        Some(payers.iter().map(|payer| payer.own.clone()).collect())
    }
}
