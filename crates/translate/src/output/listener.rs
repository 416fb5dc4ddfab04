//! Listeners of proxies. What becomes of connections is decided server name by server name, each chain is encoded once, and a listener
//! is composed from the chains' bytes: one that comes or goes encodes no other anew.

use std::sync::Arc;

use engine::{Derived, Emitter, Lookup, Scope};
use envoy::{
    body::Body,
    bytes::Unreadable,
    listener::{Chain, Common},
    resource::Encoded,
};
use ir::{
    Hostname, ListenerId, ListenerName, NsName, Port, RouteConfigId, Settings,
    backend::Transport,
    listener::{FilterChain, LeadsTo, Listener, ListenerHead, ListenerProtocol, UdpListener},
    settings::Edge,
    stream::PlaceId,
};

use super::cleared;
use crate::{
    gateway::policy::DownstreamOf,
    offer::is_strict,
    tables::{
        gateway::{GatewayModel, GatewayRow},
        input::Config,
        listener::{
            BoundAt, Chained, ChainsAlike, Claim, ClosedChains, ClosedNames, FilterChains, HasChain, HasTlsListeners,
            HttpChain, PortListener, PortListeners, ServerClaims, ServerName, TlsListeners,
        },
        output::listener_name,
    },
};

impl Lookup for BoundAt {
    fn compute(scope: &Scope<'_>, port: &(NsName, Port)) -> Option<(Port, bool)> {
        let listeners = scope.group::<PortListeners>(port);
        // All that are served are of one class.
        let is_served = |at: &&PortListener| at.served && at.protocol.transport() == Transport::Tcp;
        let at = listeners.iter().map(|(_, at)| at).find(is_served)?;
        Some((at.bind_port, at.over_tls()))
    }
}

impl Derived for HttpChain {
    /// Nothing tells its connections apart before a request is read.
    fn compute(scope: &Emitter<'_>, (gateway, port): &(NsName, Port)) -> Option<()> {
        let config = RouteConfigId { gateway: gateway.clone(), port: *port, listener: None };
        let chain = FilterChain {
            name: config.resource_name().into(),
            leads_to: LeadsTo::RouteConfiguration,
            hostname: Hostname::Any,
            tls: None,
        };
        let name = (gateway.clone(), *port, Hostname::Any);
        let rank = (Claim::Chain, Hostname::Any, ListenerName::of_gateway("".into()));
        scope.emit::<ServerClaims>(name.clone(), rank, Some(chain));
        scope.demand::<ServerName>(name);
        Some(())
    }
}

impl Lookup for HasTlsListeners {
    fn compute(scope: &Scope<'_>, port: &(NsName, Port)) -> Option<()> {
        (!scope.group::<TlsListeners>(port).is_empty()).then_some(())
    }
}

impl Lookup for HasChain {
    fn compute(scope: &Scope<'_>, name: &(NsName, Port, Hostname)) -> Option<()> {
        scope.group::<ServerClaims>(name).first()?.1.as_ref().map(|_| ())
    }

    /// What it might take is closed.
    fn poisoned(_: &Scope<'_>, _: &(NsName, Port, Hostname), _: &engine::Fault) -> Option<()> {
        Some(())
    }
}

impl Lookup for ChainsAlike {
    fn compute(scope: &Scope<'_>, port: &(NsName, Port)) -> Option<Common> {
        let said = scope.get::<DownstreamOf>(port).map(|merged| merged.config.clone()).unwrap_or_default();
        Some(Common::new(&port.0, &said, &scope.get::<Config>(&())?.edge))
    }
}

impl Derived for ServerName {
    fn compute(scope: &Emitter<'_>, name: &(NsName, Port, Hostname)) -> Option<()> {
        let (gateway, port, hostname) = name;
        let at = (gateway.clone(), *port);
        let claims = scope.group::<ServerClaims>(name);
        let (rank, chain) = claims.first()?;
        if let Some(chain) = chain {
            // Of two chains of one hostname Envoy would take neither.
            let encoded = scope.get::<ChainsAlike>(&at)?.chain(chain);
            scope.emit::<FilterChains>(at, hostname.clone(), Chained { chain: chain.clone(), encoded });
            return Some(());
        }
        // A listener of TLS is there before its first route.
        let is_first = rank.0 == Claim::Closed && scope.get::<HasTlsListeners>(&at).is_some();
        let is_taken = || {
            let mut broader = hostname.covering().skip(1);
            broader.any(|broader| scope.get::<HasChain>(&(gateway.clone(), *port, broader)).is_some())
        };
        if is_first || is_taken() {
            scope.emit::<ClosedNames>(at, (rank.clone(), hostname.clone()), ());
        }
        Some(())
    }

    /// Its connections are closed.
    fn poisoned(scope: &Emitter<'_>, name: &(NsName, Port, Hostname), _: &engine::Fault) -> Option<()> {
        let (gateway, port, hostname) = name;
        let rank = (Claim::Closed, hostname.clone(), ListenerName::of_gateway("".into()));
        scope.emit::<ClosedNames>((gateway.clone(), *port), (rank, hostname.clone()), ());
        Some(())
    }
}

impl Lookup for ClosedChains {
    fn compute(scope: &Scope<'_>, port: &(NsName, Port)) -> Option<Vec<Chain>> {
        let closed = closed(scope, port);
        (!closed.is_empty()).then(|| envoy::listener::closed(&closed))
    }
}

fn closed(scope: &Scope<'_>, port: &(NsName, Port)) -> Vec<Hostname> {
    scope.group::<ClosedNames>(port).iter().map(|((_, hostname), ())| hostname.clone()).collect()
}

/// A listener of TCP as it is sent, or why it is not.
pub(super) fn encoded(scope: &Scope<'_>, gateway: &NsName, port: Port) -> Option<Result<Encoded, Unreadable>> {
    let edge = &scope.get::<Config>(&())?.edge;
    if is_strict(scope) {
        let listener = cleared::served(scope, gateway, port)?;
        let chains = as_cleared(scope, &listener, port, edge);
        let closed = envoy::listener::closed(&listener.closed);
        let of_chains = engine::set_hash(chains.iter().map(Chain::hash));
        return Some(Ok(composed(&listener.head, edge, of_chains, [envoy::listener::chains(chains.iter())], &closed)));
    }
    let (at, head) = ((gateway.clone(), port), head(scope, gateway, port)?);
    if let Err(why) = scope.get::<ChainsAlike>(&at)?.readable() {
        return Some(Err(why));
    }
    let chains = scope.group::<FilterChains>(&at);
    let pages = chains.pages().map(|page| {
        let joined = page.cached(|page| envoy::listener::chains(page.iter().map(|(_, chained)| &chained.encoded)));
        (*joined).clone()
    });
    let closed = scope.get::<ClosedChains>(&at).filter(|_| head.over_tls);
    let closed = closed.as_deref().map_or(&[][..], |closed| closed);
    Some(Ok(composed(&head, edge, chains.set_hash(), pages, closed)))
}

/// The chains of a listener that was cleared. Those that are as their objects make them are encoded already.
fn as_cleared(scope: &Scope<'_>, listener: &Listener, port: Port, edge: &Edge) -> Vec<Chain> {
    let at = (listener.head.gateway.clone(), port);
    let common = Common::new(&at.0, &listener.head.config, edge);
    let is_as_now = scope.get::<ChainsAlike>(&at).is_some_and(|now| *now == common);
    let now = is_as_now.then(|| scope.group::<FilterChains>(&at));
    let encoded = |chain: &FilterChain| {
        let chained = now.as_ref().and_then(|now| now.get(&chain.hostname)).filter(|now| now.chain == *chain);
        chained.map_or_else(|| common.chain(chain), |chained| chained.encoded.clone())
    };
    listener.chains.iter().map(encoded).collect()
}

/// A listener of chains in pieces, and of chains that close what they are sent. The hostname of a chain, which is in its hash, says
/// where it stands, so that one hash of them as a set tells them from others.
fn composed(
    head: &ListenerHead,
    edge: &Edge,
    of_chains: [u8; 16],
    chains: impl IntoIterator<Item = Body>,
    closed: &[Chain],
) -> Encoded {
    let content: Vec<_> = [of_chains].into_iter().chain(closed.iter().map(|chain| *chain.hash())).collect();
    let pieces = chains.into_iter().chain([envoy::listener::chains(closed.iter())]);
    envoy::listener::composed(head, edge, pieces, &content)
}

/// A listener of TCP as its objects make it.
pub(super) fn listener(scope: &Scope<'_>, gateway: &NsName, port: Port) -> Option<Listener> {
    let (at, head) = ((gateway.clone(), port), head(scope, gateway, port)?);
    let chains = scope.group::<FilterChains>(&at);
    let closed = if head.over_tls { closed(scope, &at) } else { Vec::new() };
    Some(Listener { head, chains: chains.iter().map(|(_, chained)| chained.chain.clone()).collect(), closed })
}

fn head(scope: &Scope<'_>, gateway: &NsName, port: Port) -> Option<ListenerHead> {
    let at = (gateway.clone(), port);
    let (bind_port, over_tls) = *scope.get::<BoundAt>(&at)?;
    Some(ListenerHead {
        gateway: gateway.clone(),
        name: listener_name(port, Transport::Tcp).into(),
        addresses: addresses(&*scope.get::<GatewayRow>(gateway)?, &*scope.get::<Config>(&())?),
        bind_port,
        over_tls,
        config: scope.get::<DownstreamOf>(&at).map(|merged| merged.config.clone()).unwrap_or_default(),
    })
}

/// A listener of UDP.
pub(super) fn udp(scope: &Scope<'_>, gateway: &NsName, port: Port) -> Option<Encoded> {
    let model = scope.get::<GatewayRow>(gateway)?;
    let listeners = scope.group::<PortListeners>(&(gateway.clone(), port));
    let mut of_udp = listeners.iter().filter(|(_, at)| at.served && at.protocol == ListenerProtocol::Udp);
    let ((_, name), at) = of_udp.next()?;
    let listener = ListenerId::new(gateway.clone(), name.clone());
    let place = PlaceId { listener, protocol: ListenerProtocol::Udp, hostname: Hostname::Any };
    let config = scope.get::<Config>(&())?;
    let listener = UdpListener {
        name: listener_name(port, Transport::Udp).into(),
        addresses: addresses(&model, &config),
        bind_port: at.bind_port,
        cluster: place.name().into(),
    };
    Some(envoy::listener::udp(&listener, &config.edge))
}

/// The addresses that listeners of a Gateway bind.
fn addresses(model: &GatewayModel, config: &Settings) -> Vec<Arc<str>> {
    match &model.addresses[..] {
        // Elsewhere an address is that of what stands before the proxies, not their own.
        addresses if addresses.is_empty() || !config.shared_host => vec![Arc::from("0.0.0.0")],
        addresses => addresses.iter().map(|address| address.to_string().into()).collect(),
    }
}
