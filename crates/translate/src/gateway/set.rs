//! ListenerSets: who admits them, and what becomes of their listeners (Gateway API `ListenerSet`).

use std::{collections::BTreeSet, sync::Arc};

use engine::{Derived, Emitter, Lookup, Scope};
use ir::{GATEWAY_API, ListenerId, ListenerName, NsName, Port, Reason, RouteKind};

use super::{
    Served, conflict,
    port::{MAX_PORTS, MAX_PORTS_OF_NAMESPACE},
    spec,
};
use crate::{
    internal,
    route::annotations,
    tables::{
        attachment::NamespaceLabels,
        gateway::{Admission, Fault, GatewayRow, ListenerModel, PortClaim, PortClaims, Validation},
        input::{AbsentKinds, Config, Gateways, ListenerSets, object_kind},
        listener::ListenerRow,
        set::{
            Admitting, AskedOfClients, BindPort, GatewayPresence, Head, ParentOf, Present, SetAsks, SetHead, SetModel,
            SetPort, SetPortAsks, SetRow, SetsOf, SoundAsks, SoundPort, SoundPorts, Standing,
        },
    },
};

impl Lookup for ParentOf {
    fn compute(scope: &Scope<'_>, key: &NsName) -> Option<NsName> {
        parent(scope, key)
    }

    /// What it asks for stays its own.
    fn poisoned(scope: &Scope<'_>, key: &NsName, _: &engine::Fault) -> Option<NsName> {
        parent(scope, key)
    }
}

fn parent(scope: &Scope<'_>, key: &NsName) -> Option<NsName> {
    let set = scope.get::<ListenerSets>(key)?;
    let parent = &set.spec.parent_ref;
    let namespace = parent.namespace.as_ref().filter(|namespace| !namespace.is_empty()).unwrap_or(&key.namespace);
    let is_gateway = (&*parent.group, &*parent.kind) == (GATEWAY_API, "Gateway");
    is_gateway.then(|| NsName::new(namespace.clone(), parent.name.clone()))
}

impl Lookup for GatewayPresence {
    fn compute(scope: &Scope<'_>, gateway: &NsName) -> Option<Present> {
        present(scope, gateway)
    }

    /// A route may have other parents, of which it is not to lose any.
    fn poisoned(scope: &Scope<'_>, gateway: &NsName, _: &engine::Fault) -> Option<Present> {
        scope.get::<Gateways>(gateway)?;
        scope.attempt(|| present(scope, gateway)).unwrap_or(Some(Present::Unknown))
    }
}

fn present(scope: &Scope<'_>, gateway: &NsName) -> Option<Present> {
    scope.get::<Gateways>(gateway)?;
    Some(if scope.get::<GatewayRow>(gateway).is_some() { Present::Ours } else { Present::Foreign })
}

impl Lookup for Admitting {
    fn compute(scope: &Scope<'_>, (gateway, namespace): &(NsName, Arc<str>)) -> Option<()> {
        let model = scope.get::<GatewayRow>(gateway)?;
        let admits = match &model.admits {
            Admission::All => true,
            Admission::Same => *namespace == gateway.namespace,
            Admission::Selector(selector) => {
                selector.matches(&*scope.get::<NamespaceLabels>(namespace)?).unwrap_or(false)
            }
            Admission::None => false,
        };
        admits.then_some(())
    }
}

impl Derived for SetHead {
    fn compute(scope: &Emitter<'_>, key: &NsName) -> Option<Head> {
        head(scope, key)
    }

    /// What it asks for stays its own.
    fn poisoned(scope: &Emitter<'_>, key: &NsName, _: &engine::Fault) -> Option<Head> {
        head(scope, key)
    }
}

fn head(scope: &Emitter<'_>, key: &NsName) -> Option<Head> {
    let set = scope.get::<ListenerSets>(key)?;
    let gateway = scope.get::<ParentOf>(key).map(|gateway| NsName::clone(&gateway));
    let standing = match &gateway {
        None => Standing::Foreign,
        Some(gateway) => standing(scope, key, gateway),
    };
    let head = Head { age: spec::age_of(key, &set.metadata), generation: set.metadata.generation, gateway, standing };
    if let Some(gateway) = head.admitted() {
        scope.emit::<SetsOf>(gateway.clone(), head.age.clone(), ());
        let listeners = spec::listeners(&set.spec.listeners, is_there(scope), &mut Vec::new());
        let ports: BTreeSet<_> = listeners.iter().map(|listener| listener.port).filter(|port| *port != 0).collect();
        for port in ports {
            let at = (gateway.clone(), port, key.namespace.clone());
            scope.emit::<SetPortAsks>(at.clone(), head.age.clone(), ());
            scope.demand::<SetPort>(at);
        }
    }
    Some(head)
}

impl Derived for SetAsks {
    /// Without a port that it does not get: who goes without it keeps nothing there from others.
    fn compute(scope: &Emitter<'_>, key: &NsName) -> Option<()> {
        let has =
            |gateway: &NsName, port| scope.get::<BindPort>(&(gateway.clone(), port, key.namespace.clone())).is_some();
        asks(scope, key, has)
    }

    /// What it asks for stays its own.
    fn poisoned(scope: &Emitter<'_>, key: &NsName, _: &engine::Fault) -> Option<()> {
        asks(scope, key, |_, _| true)
    }
}

fn asks(scope: &Emitter<'_>, key: &NsName, has: impl Fn(&NsName, Port) -> bool) -> Option<()> {
    let head = scope.get::<SetHead>(key)?;
    let gateway = head.admitted()?;
    let set = scope.get::<ListenerSets>(key)?;
    let listeners = spec::listeners(&set.spec.listeners, is_there(scope), &mut Vec::new());
    let there = listeners.iter().filter(|listener| has(gateway, listener.port));
    conflict::ask(scope, gateway, &Some(head.age.clone()), there);
    Some(())
}

fn standing(scope: &Scope<'_>, key: &NsName, gateway: &NsName) -> Standing {
    match scope.get::<GatewayPresence>(gateway).as_deref() {
        None => Standing::Missing,
        Some(Present::Foreign) => Standing::Foreign,
        Some(Present::Unknown) => Standing::Unknown,
        Some(Present::Ours | Present::NotAllowed) => {
            let admitting = (gateway.clone(), key.namespace.clone());
            match scope.attempt(|| scope.get::<Admitting>(&admitting).is_some()) {
                Ok(true) => Standing::Admitted,
                Ok(false) => Standing::NotAllowed,
                Err(_) => Standing::Doubtful,
            }
        }
    }
}

fn is_there<'a>(scope: &'a Scope<'_>) -> impl Fn(&RouteKind) -> bool + 'a {
    |kind| scope.get::<AbsentKinds>(&object_kind(*kind)).is_none()
}

impl Lookup for AskedOfClients {
    fn compute(scope: &Scope<'_>, (gateway, port): &(NsName, Port)) -> Option<(Validation, Option<Fault>)> {
        spec::asked(&*scope.get::<Gateways>(gateway)?, *port)
    }
}

impl Derived for SetRow {
    fn compute(scope: &Emitter<'_>, key: &NsName) -> Option<SetModel> {
        row(scope, key, None)
    }

    /// Its listeners are not served, and keep their hostnames from broader ones.
    fn poisoned(scope: &Emitter<'_>, key: &NsName, _: &engine::Fault) -> Option<SetModel> {
        row(scope, key, Some(&internal::fault()))
    }
}

/// A ListenerSet that is admitted; refused with all of its listeners if something is `broken`.
fn row(scope: &Emitter<'_>, key: &NsName, broken: Option<&Fault>) -> Option<SetModel> {
    let head = scope.get::<SetHead>(key)?;
    let gateway = head.admitted()?;
    let doubt = (head.standing == Standing::Doubtful).then(internal::fault);
    let broken = broken.or(doubt.as_ref());
    let set = scope.get::<ListenerSets>(key)?;
    let mut ignored = Vec::new();
    if set.metadata.annotations.contains_key(annotations::PRIORITY) {
        let field = format!("metadata.annotations[{}]", annotations::PRIORITY);
        ignored.push((field, "the annotation of its Gateway says how policies are merged here; remove it"));
    }
    let mut listeners = spec::listeners(&set.spec.listeners, is_there(scope), &mut ignored);
    for listener in &mut listeners {
        if let Some(broken) = broken {
            listener.refused = Some(broken.clone());
            continue;
        }
        let at = (gateway.clone(), listener.port);
        match scope.get::<BindPort>(&(gateway.clone(), listener.port, key.namespace.clone())) {
            Some(port) => listener.bind_port = *port,
            None if listener.refused.is_none() => listener.refused = Some(too_many(listener)),
            None => {}
        }
        let asked = scope.get::<AskedOfClients>(&at).map(|asked| {
            let (validation, fault) = (*asked).clone();
            // It is the Gateway's, whose fields are nothing to its guests.
            (validation, fault.map(|_| without_clients()))
        });
        spec::judge_clients(listener, asked);
    }
    if broken.is_none() {
        conflict::mark_set(scope, gateway, &head.age, &mut listeners);
    }
    let listeners: Vec<_> = listeners.into_iter().map(Arc::new).collect();
    let model = SetModel { gateway: gateway.clone(), listeners, ignored };
    for listener in &model.listeners {
        let name = ListenerName { set: Some(Arc::new(key.clone())), section: listener.name.clone() };
        let id = ListenerId::new(gateway.clone(), name);
        scope.demand::<ListenerRow>(id);
    }
    if scope.get::<Served>(gateway).is_some_and(|served| *served) {
        want_ports(scope, key, &head, &model);
    }
    Some(model)
}

/// Has the ports of listeners that can be served be bound, and be ports of the Service.
fn want_ports(scope: &Emitter<'_>, key: &NsName, head: &Head, model: &SetModel) {
    let gateway = &model.gateway;
    for listener in model.listeners.iter().filter(|listener| listener.is_sound()) {
        let Some(protocol) = listener.protocol else { continue };
        let at = (gateway.clone(), listener.port, protocol.transport());
        let sort = (head.age.clone(), listener.index);
        scope.emit::<SoundAsks>(at.clone(), sort, (listener.bind_port, protocol.ends_tls()));
        scope.demand::<SoundPort>(at);
    }
    if !scope.get::<Config>(&()).is_some_and(|config| config.shared_host) {
        return;
    }
    let Some(owner) = scope.get::<GatewayRow>(gateway) else { return };
    for port in model.bind_ports() {
        let claim = PortClaim { by_set: true, gateway: owner.age.clone(), set: Some(key.clone()) };
        scope.emit::<PortClaims>(port, claim, owner.addresses.clone());
    }
}

impl Derived for SoundPort {
    fn compute(scope: &Emitter<'_>, key: &Self::Key) -> Option<()> {
        let (gateway, port, transport) = key;
        let asks = scope.group::<SoundAsks>(key);
        let (_, (bind_port, _)) = asks.first()?;
        scope.emit::<SoundPorts>(gateway.clone(), (*port, *transport), (*bind_port, *asks.summary() > 0));
        Some(())
    }
}

/// A port for which there is no room.
fn too_many(listener: &ListenerModel) -> Fault {
    let message = format!(
        "ListenerSets that come first have the {MAX_PORTS} ports that there are for all, or those of this namespace their \
         {MAX_PORTS_OF_NAMESPACE}; use a port that the namespace has, or one of the Gateway"
    );
    Fault::at(Reason::TooManyListeners, format!("spec.listeners[{}].port", listener.index), message)
}

/// What a ListenerSet is told where nobody can be let in by what its Gateway asks of clients.
pub(super) fn without_clients() -> Fault {
    let message = "what its Gateway asks of certificates of clients on this port cannot be judged, so that nobody is let in; ask \
                   the owner of the Gateway";
    Fault::new(Reason::NoValidCACertificate, message)
}
