//! Listeners: what they need of other objects, and where the rest of the translation finds them.

use std::sync::Arc;

use engine::{Derived, Emitter, Scope};
use ir::{
    Hostname, ListenerId, NsName, Reason, RouteConfigId, RouteKind,
    backend::Transport,
    filter::Scheme,
    listener::{FilterChain, LeadsTo, ListenerProtocol, PortClass},
    stream::PlaceId,
};

use super::{Served, certificate::certificate, clients::clients, policy, port::PortRival, set::without_clients};
use crate::{
    grant::Referrer,
    internal,
    tables::{
        gateway::{Fault, GatewayRow, ListenerModel},
        host::{VirtualHost, WideAsked},
        input::{Strict, UnusablePorts},
        listener::{
            Bucket, Claim, Clients, HttpChain, ListenerIndex, ListenerRow, ListenerState, ListenerSummary, PortHosts,
            PortListener, PortListeners, ServerClaims, ServerName, TlsHostsBelow, TlsListeners,
        },
        output::{OutputId, Outputs, ToldOf},
        set::{Crowded, SetRow, WithoutRoom},
        stream::Place,
        strict::{OfferedListener, OfferedWide},
    },
};

impl Derived for ListenerRow {
    fn compute(scope: &Emitter<'_>, key: &ListenerId) -> Option<ListenerState> {
        let Written { model, refused } = written(scope, key)?;
        let Certificates { secrets, unresolved, long_chain } = certificates(scope, key, &model);
        let clients = model.validation.as_ref().map(|validation| clients(scope, &key.gateway, validation));
        let clients = clients.map(|clients| if key.name.set.is_some() { guarded(clients) } else { clients });
        let unavailable = unavailable(scope, key, &model);
        let policy = policy::fault(scope, &key.gateway, model.port, key.namespace());
        let unverified = clients.as_ref().and_then(|clients| clients.authorities.as_ref().err());
        let other = unverified.or(unavailable.as_ref()).or(policy.as_ref());
        let withheld = withheld(&model, refused.as_ref(), &secrets, other);
        let state = ListenerState { model, secrets, unresolved, long_chain, clients, withheld, unavailable };
        Some(spread(scope, key, refused.is_none(), state))
    }

    /// It is not served, and keeps its hostname from broader listeners.
    fn poisoned(scope: &Emitter<'_>, key: &ListenerId, _: &engine::Fault) -> Option<ListenerState> {
        let Written { model, refused } = written(scope, key)?;
        let withheld = Some(internal::fault());
        let state = ListenerState {
            model,
            secrets: Vec::new(),
            unresolved: None,
            long_chain: None,
            clients: None,
            withheld,
            unavailable: None,
        };
        Some(spread(scope, key, refused.is_none(), state))
    }
}

/// A listener as its object has it.
struct Written {
    model: Arc<ListenerModel>,
    /// Why its Gateway as a whole is not accepted.
    refused: Option<Fault>,
}

fn written(scope: &Scope<'_>, key: &ListenerId) -> Option<Written> {
    let Some(set) = &key.name.set else {
        let gateway = scope.get::<GatewayRow>(&key.gateway)?;
        return Some(Written { model: gateway.listener(&key.name)?.clone(), refused: gateway.refused.clone() });
    };
    let set = scope.get::<SetRow>(set).filter(|set| set.gateway == key.gateway)?;
    let is_served = *scope.get::<Served>(&key.gateway)?;
    let refused = (!is_served).then(|| Fault::new(Reason::Invalid, "its Gateway is not accepted"));
    Some(Written { model: set.listener(&key.name)?.clone(), refused })
}

/// By whom clients are judged at a listener of a ListenerSet, whose owner is told nothing of how its Gateway names them.
fn guarded(clients: Clients) -> Clients {
    Clients {
        authorities: clients.authorities.map_err(|_| without_clients()),
        unresolved: None,
        warning: None,
        ..clients
    }
}

/// A listener where everybody finds it who needs to know it; `is_accepted` tells of its Gateway as a whole.
fn spread(scope: &Emitter<'_>, key: &ListenerId, is_accepted: bool, state: ListenerState) -> ListenerState {
    let ListenerState { model, withheld, .. } = &state;
    let summary = Arc::new(ListenerSummary {
        id: key.clone(),
        port: model.port,
        protocol: model.protocol,
        hostname: model.hostname.clone(),
        kinds: model.kinds.clone(),
        admits: model.admits.clone(),
        served: withheld.is_none(),
    });
    file(scope, key, &summary);
    if withheld.is_none() {
        serve(scope, key, &summary, &state);
    }
    if is_accepted && !model.lost {
        claim(scope, key, &state, &summary);
    }
    state
}

/// Where routes look for listeners.
fn file(scope: &Emitter<'_>, key: &ListenerId, summary: &Arc<ListenerSummary>) {
    let emit = |bucket| scope.emit::<ListenerIndex>((key.parent(), bucket), key.name.section.clone(), summary.clone());
    emit(Bucket::At(summary.hostname.clone()));
    for suffix in summary.hostname.covering().skip(1) {
        if let Hostname::Wildcard(suffix) = suffix {
            emit(Bucket::Below(suffix));
        }
    }
    emit(Bucket::All);
}

/// What a listener that is served needs.
fn serve(scope: &Emitter<'_>, key: &ListenerId, summary: &Arc<ListenerSummary>, state: &ListenerState) {
    let gateway = &key.gateway;
    let Some(protocol) = summary.protocol else { return };
    // One of TLS has a chain that needs them for each hostname of its routes, and none before the first.
    if protocol.streams().is_none() {
        state.secrets(gateway).for_each(|secret| scope.demand::<Outputs>(secret));
    }
    scope.demand::<Outputs>(OutputId::Listener(gateway.clone(), summary.port, protocol.transport()));
    if protocol.transport() == Transport::Tcp && scope.get::<Strict>(&()).is_some() {
        scope.demand::<OfferedListener>((gateway.clone(), summary.port));
    }
    if matches!(protocol, ListenerProtocol::Tcp | ListenerProtocol::Udp) {
        // It leads there whether a route does or not.
        scope.demand::<Place>(PlaceId { listener: key.clone(), protocol, hostname: Hostname::Any });
    }
    let Some(config) = summary.route_config() else { return };
    scope.demand::<VirtualHost>((config.clone(), summary.hostname.clone()));
    scope.demand::<WideAsked>(key.clone());
    if scope.get::<Strict>(&()).is_some() {
        scope.demand::<OfferedWide>(key.clone());
    }
    if state.is_verified() {
        scope.demand::<Outputs>(OutputId::VerifiedRoutes(config.clone()));
    }
    scope.demand::<Outputs>(OutputId::RouteConfiguration(config));
    for name in envoy::extensions::NAMES {
        scope.demand::<Outputs>(OutputId::Extension(gateway.clone(), name));
    }
    scope.demand::<ToldOf>((gateway.clone(), summary.port));
}

/// Keeps its hostname from broader listeners, whether it is served or not.
fn claim(scope: &Emitter<'_>, key: &ListenerId, state: &ListenerState, summary: &Arc<ListenerSummary>) {
    let (gateway, hostname, model) = (&key.gateway, &summary.hostname, &state.model);
    let Some(protocol) = model.protocol.filter(|protocol| model.claims.is_some() || protocol.told_by().is_none())
    else {
        return;
    };
    let at = PortListener { served: summary.served, protocol, bind_port: model.bind_port };
    scope.emit::<PortListeners>((gateway.clone(), summary.port), (hostname.clone(), key.name.clone()), at);
    connect(scope, key, state, summary, protocol);
    let Some(over) = model.claims else { return };
    let place = (gateway.clone(), summary.port, over, hostname.clone());
    scope.emit::<PortHosts>(place, (!summary.served, key.name.clone()), ());
    if over == Scheme::Http && !summary.served {
        let config = RouteConfigId { gateway: gateway.clone(), port: summary.port, listener: None };
        scope.demand::<VirtualHost>((config, hostname.clone()));
    }
}

/// Says what becomes of its connections.
fn connect(
    scope: &Emitter<'_>,
    key: &ListenerId,
    state: &ListenerState,
    summary: &ListenerSummary,
    protocol: ListenerProtocol,
) {
    let port = (key.gateway.clone(), summary.port);
    if protocol.class() == PortClass::Tls {
        for broader in summary.hostname.covering().skip(1) {
            let of = (key.gateway.clone(), summary.port, broader);
            scope.emit::<TlsHostsBelow>(of, (summary.hostname.clone(), key.name.clone()), ());
        }
    }
    if summary.served && protocol.streams() == Some(RouteKind::TlsRoute) {
        scope.emit::<TlsListeners>(port, key.name.clone(), ());
    }
    let chain = match protocol {
        ListenerProtocol::Udp => return,
        ListenerProtocol::Http | ListenerProtocol::Tcp if !summary.served => return,
        ListenerProtocol::Http => return scope.demand::<HttpChain>((key.gateway.clone(), summary.port)),
        ListenerProtocol::Tcp => Some(PlaceId { listener: key.clone(), protocol, hostname: Hostname::Any }.chain(None)),
        ListenerProtocol::Https if summary.served => summary.route_config().map(|config| FilterChain {
            name: state.name_of(&config).into(),
            leads_to: LeadsTo::RouteConfiguration,
            hostname: summary.hostname.clone(),
            tls: state.tls(),
        }),
        // One of TLS has chains for the hostnames of its routes.
        ListenerProtocol::Https | ListenerProtocol::TlsPassthrough | ListenerProtocol::TlsTerminate => None,
    };
    let hostname = chain.as_ref().map_or(&summary.hostname, |chain| &chain.hostname);
    let name = (key.gateway.clone(), summary.port, hostname.clone());
    let claim = if chain.is_some() { Claim::Chain } else { Claim::Closed };
    scope.emit::<ServerClaims>(name.clone(), (claim, summary.hostname.clone(), key.name.clone()), chain);
    scope.demand::<ServerName>(name);
}

/// The usable certificates, the first that is not, and the first that should be looked at.
#[derive(Default)]
struct Certificates {
    secrets: Vec<NsName>,
    unresolved: Option<Fault>,
    long_chain: Option<Fault>,
}

fn certificates(scope: &Scope<'_>, key: &ListenerId, model: &ListenerModel) -> Certificates {
    let mut found = Certificates::default();
    if !model.protocol.is_some_and(ListenerProtocol::ends_tls) {
        return found;
    }
    let field = format!("spec.listeners[{}].tls.certificateRefs", model.index);
    if model.certificates.is_empty() {
        let message = "empty; name a Secret of type kubernetes.io/tls";
        found.unresolved = Some(Fault::at(Reason::InvalidCertificateRef, field, message));
        return found;
    }
    let from = Referrer::gateway_api(key.parent().kind(), key.namespace());
    for (index, reference) in model.certificates.iter().enumerate() {
        match certificate(scope, from, reference, Reason::InvalidCertificateRef) {
            Ok((secret, _)) if found.secrets.contains(&secret) => {}
            Ok((secret, long)) => {
                found.secrets.push(secret);
                let long = long.map(|long| Fault::at(Reason::UnsupportedValue, format!("{field}[{index}]"), &*long));
                found.long_chain = found.long_chain.or(long);
            }
            Err(fault) => {
                found.unresolved.get_or_insert(Fault { field: format!("{field}[{index}]"), ..fault });
            }
        }
    }
    found
}

/// Why a listener is not served, the nearest cause first.
fn withheld(
    model: &ListenerModel,
    gateway: Option<&Fault>,
    secrets: &[NsName],
    other: Option<&Fault>,
) -> Option<Fault> {
    let own = model.refused.as_ref().or(model.conflicted.as_ref()).or(gateway);
    if own.is_none() && model.protocol.is_some_and(ListenerProtocol::ends_tls) && secrets.is_empty() {
        return Some(Fault::new(Reason::Invalid, "no certificate can be presented: see ResolvedRefs"));
    }
    own.or(other).map(|fault| Fault { reason: Reason::Invalid, ..fault.clone() })
}

/// Why a listener that is sound by itself cannot have its port, or there is no room for it.
fn unavailable(scope: &Scope<'_>, key: &ListenerId, model: &ListenerModel) -> Option<Fault> {
    model.is_sound().then_some(())?;
    port_unavailable(scope, key, model).or_else(|| no_room(scope, key))
}

fn no_room(scope: &Scope<'_>, key: &ListenerId) -> Option<Fault> {
    let set = key.name.set.as_ref()?;
    scope.get::<Crowded>(&(key.gateway.clone(), set.namespace.clone()))?;
    scope.get::<WithoutRoom>(key).map(|fault| (*fault).clone())
}

fn port_unavailable(scope: &Scope<'_>, key: &ListenerId, model: &ListenerModel) -> Option<Fault> {
    let field = format!("spec.listeners[{}].port", model.index);
    if let Some(rival) = scope.get::<PortRival>(&(key.gateway.clone(), model.bind_port, model.transport())) {
        let rival =
            if key.name.set.is_none() { format!("the older Gateway {rival}") } else { "another Gateway".to_owned() };
        let message = format!("port {} of this host belongs to {rival}; use another port or address", model.bind_port);
        return Some(Fault::at(Reason::PortUnavailable, field, message));
    }
    let why = scope.get::<UnusablePorts>(&(model.bind_port, model.transport()))?;
    Some(Fault::at(Reason::PortUnavailable, field, format!("port {} cannot be bound: {why}", model.bind_port)))
}
