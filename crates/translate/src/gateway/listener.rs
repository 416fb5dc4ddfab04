//! Listeners: what they need of other objects, and where the rest of the translation finds them.

use std::sync::Arc;

use api::shared::SecretObjectReference;
use engine::{Derived, Emitter, Scope};
use ir::{
    Hostname, ListenerId, NsName, Reason, RouteConfigId, RouteKind, backend::Transport, filter::Scheme,
    listener::ListenerProtocol, stream::PlaceId,
};

use super::{policy, port::PortRival};
use crate::{
    grant::{Referrer, permits},
    internal,
    tables::{
        gateway::{Fault, GatewayModel, GatewayRow, ListenerModel},
        host::{VirtualHost, WideAsked},
        input::{Strict, UnusablePorts},
        listener::{
            Bucket, ListenerIndex, ListenerRow, ListenerState, ListenerSummary, PortHosts, PortListener, PortListeners,
        },
        output::{OutputId, Outputs, ToldOf},
        stream::Place,
        strict::{OfferedListener, OfferedWide},
    },
    tls::CertificateState,
};

impl Derived for ListenerRow {
    fn compute(scope: &Emitter<'_>, key: &ListenerId) -> Option<ListenerState> {
        let gateway = scope.get::<GatewayRow>(&key.gateway)?;
        let model = gateway.listener(&key.name)?.clone();
        let Certificates { secrets, unresolved, long_chain } = certificates(scope, key, &model);
        let port_unavailable = port_unavailable(scope, key, &model);
        let policy = policy::fault(scope, &key.gateway, model.port);
        let withheld =
            withheld(&model, gateway.refused.as_ref(), &secrets, port_unavailable.as_ref().or(policy.as_ref()));
        let state = ListenerState { model, secrets, unresolved, long_chain, withheld, port_unavailable };
        Some(spread(scope, key, &gateway, state))
    }

    /// It is not served, and keeps its hostname from broader listeners.
    fn poisoned(scope: &Emitter<'_>, key: &ListenerId, _: &engine::Fault) -> Option<ListenerState> {
        let gateway = scope.get::<GatewayRow>(&key.gateway)?;
        let model = gateway.listener(&key.name)?.clone();
        let withheld = Some(internal::fault());
        let state = ListenerState {
            model,
            secrets: Vec::new(),
            unresolved: None,
            long_chain: None,
            withheld,
            port_unavailable: None,
        };
        Some(spread(scope, key, &gateway, state))
    }
}

/// A listener where everybody finds it who needs to know it.
fn spread(scope: &Emitter<'_>, key: &ListenerId, gateway: &GatewayModel, state: ListenerState) -> ListenerState {
    let ListenerState { model, secrets, withheld, .. } = &state;
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
        serve(scope, key, &summary, secrets);
    }
    if gateway.refused.is_none() {
        claim(scope, key, model, &summary, secrets);
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
fn serve(scope: &Emitter<'_>, key: &ListenerId, summary: &Arc<ListenerSummary>, secrets: &[NsName]) {
    let gateway = &key.gateway;
    let Some(protocol) = summary.protocol else { return };
    // One of TLS has a chain that shows them for each hostname of its routes, and none before the first.
    for secret in secrets.iter().filter(|_| protocol.streams().is_none()) {
        scope.demand::<Outputs>(OutputId::Secret(gateway.clone(), secret.clone()));
    }
    scope.demand::<Outputs>(OutputId::Listener(gateway.clone(), summary.port, protocol.transport()));
    if protocol.transport() == Transport::Tcp && scope.get::<Strict>(&()).is_some() {
        scope.demand::<OfferedListener>((gateway.clone(), summary.port));
    }
    if let Some(kind @ (RouteKind::TcpRoute | RouteKind::UdpRoute)) = protocol.streams() {
        // It leads there whether a route does or not.
        scope.demand::<Place>(PlaceId { listener: key.clone(), kind, hostname: Hostname::Any });
    }
    let Some(config) = summary.route_config() else { return };
    scope.demand::<VirtualHost>((config.clone(), summary.hostname.clone()));
    scope.demand::<WideAsked>(key.clone());
    if scope.get::<Strict>(&()).is_some() {
        scope.demand::<OfferedWide>(key.clone());
    }
    scope.demand::<Outputs>(OutputId::RouteConfiguration(config));
    for name in envoy::extensions::NAMES {
        scope.demand::<Outputs>(OutputId::Extension(gateway.clone(), name));
    }
    scope.demand::<ToldOf>((gateway.clone(), summary.port));
}

/// Keeps its hostname from broader listeners, whether it is served or not.
fn claim(
    scope: &Emitter<'_>,
    key: &ListenerId,
    model: &ListenerModel,
    summary: &Arc<ListenerSummary>,
    secrets: &[NsName],
) {
    let (gateway, hostname) = (&key.gateway, &summary.hostname);
    let Some(protocol) = model.protocol.filter(|protocol| model.claims.is_some() || protocol.told_by().is_none())
    else {
        return;
    };
    let at = PortListener { served: summary.served, protocol, secrets: secrets.into() };
    scope.emit::<PortListeners>((gateway.clone(), summary.port), (hostname.clone(), key.name.clone()), at);
    let Some(over) = model.claims else { return };
    let place = (gateway.clone(), summary.port, over, hostname.clone());
    scope.emit::<PortHosts>(place, (!summary.served, key.name.clone()), ());
    if over == Scheme::Http && !summary.served {
        let config = RouteConfigId { gateway: gateway.clone(), port: summary.port, listener: None };
        scope.demand::<VirtualHost>((config, hostname.clone()));
    }
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
    for (index, reference) in model.certificates.iter().enumerate() {
        match certificate(scope, key, reference) {
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

/// The Secret with a usable certificate, and what should be looked at in it.
fn certificate(
    scope: &Scope<'_>,
    key: &ListenerId,
    reference: &SecretObjectReference,
) -> Result<(NsName, Option<Arc<str>>), Fault> {
    let invalid = |message: String| Fault::new(Reason::InvalidCertificateRef, message);
    if !reference.group.is_empty() || &*reference.kind != "Secret" {
        let group = if reference.group.is_empty() { "core" } else { &reference.group };
        return Err(invalid(format!("{} of group {group} cannot hold a certificate; name a Secret", reference.kind)));
    }
    let kind = key.parent().kind();
    let namespace = reference.namespace.as_ref().filter(|namespace| !namespace.is_empty());
    let secret = NsName::new(namespace.unwrap_or(key.namespace()).clone(), reference.name.clone());
    if !permits(scope, Referrer::gateway_api(kind, key.namespace()), ("", "Secret"), &secret) {
        let message = format!(
            "Secret {secret} is in another namespace and no ReferenceGrant there allows {kind}s of {} to use it; \
             create one there, or name a Secret of this namespace",
            key.namespace()
        );
        return Err(Fault::new(Reason::RefNotPermitted, message));
    }
    match scope.get::<CertificateState>(&secret).as_deref() {
        Some(Ok(long)) => Ok((secret, long.clone())),
        Some(Err(why)) => Err(invalid(why.to_string())),
        None => Err(invalid(format!("Secret {secret} does not exist; create it with tls.crt and tls.key"))),
    }
}

/// Why a listener is not served, the nearest cause first.
fn withheld(model: &ListenerModel, gateway: Option<&Fault>, secrets: &[NsName], port: Option<&Fault>) -> Option<Fault> {
    let own = model.refused.as_ref().or(model.conflicted.as_ref()).or(model.withheld.as_ref()).or(gateway);
    if own.is_none() && model.protocol.is_some_and(ListenerProtocol::ends_tls) && secrets.is_empty() {
        return Some(Fault::new(Reason::Invalid, "no certificate can be presented: see ResolvedRefs"));
    }
    own.or(port).map(|fault| Fault { reason: Reason::Invalid, ..fault.clone() })
}

/// Why a listener that is sound by itself cannot have its port.
fn port_unavailable(scope: &Scope<'_>, key: &ListenerId, model: &ListenerModel) -> Option<Fault> {
    if !model.is_sound() {
        return None;
    }
    let field = format!("spec.listeners[{}].port", model.index);
    if let Some(rival) = scope.get::<PortRival>(&(key.gateway.clone(), model.bind_port, model.transport())) {
        let message = format!(
            "port {} of this host belongs to the older Gateway {rival}; use another port or address",
            model.bind_port
        );
        return Some(Fault::at(Reason::PortUnavailable, field, message));
    }
    let why = scope.get::<UnusablePorts>(&(model.bind_port, model.transport()))?;
    Some(Fault::at(Reason::PortUnavailable, field, format!("port {} cannot be bound: {why}", model.bind_port)))
}
