//! Backends of connections and datagrams into which nobody looks: what they speak makes no difference, but for TLS that would end
//! and not begin again.

use std::sync::Arc;

use api::core::Service;
use engine::{Lookup, Scope};
use ir::{
    NsName, Port, Problem, Reason, RouteKind,
    backend::{Destination, Protocol, ServicePort, Transport, Way},
    route::BackendRef,
    upstream::Tls,
};

use super::{
    app_protocol, config, found_port,
    hosts::BackendHosts,
    reference::{Reference, misconfigured},
    tls,
};
use crate::{
    grant::Referrer,
    internal,
    tables::{backend::Unusable, input::Services, stream::Dialed},
};

/// Why nobody connects to a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NotDialed {
    unusable: Unusable,
    /// Whether a policy of its owner may be why.
    is_configured: bool,
}

impl NotDialed {
    fn of(reason: Reason, message: String) -> Self {
        Self { unusable: Unusable { reason, message }, is_configured: false }
    }
}

/// A backend that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dialable {
    /// Itself, whatever policies say.
    plain: Destination,
    /// The ports of a Backend's hosts.
    ports: Box<[Port]>,
    /// As it is connected to, or why policies have nobody connect.
    dialed: Result<Arc<Dialed>, NotDialed>,
    /// Why what came in TLS that ended before is not sent there, though the rest is: it would go on in plain text to a port that says
    /// TLS.
    bare: Option<Unusable>,
}

tables! {
    /// A backend, or why it is none; absent where its object is.
    Dial: Destination => Result<Dialable, NotDialed>;
}

/// Where a reference leads.
pub(crate) struct Followed {
    /// The backend, whatever policies say of connections to it.
    pub(crate) plain: Destination,
    /// As it is connected to, or why policies have nobody connect.
    pub(crate) dialed: Result<Arc<Dialed>, Problem>,
}

/// Follows a reference of a route of streams to a backend.
pub(crate) fn follow(
    scope: &Scope<'_>,
    from: Referrer<'_>,
    to: &BackendRef,
    field: &str,
    kind: RouteKind,
) -> Result<Followed, Problem> {
    let transport = if kind == RouteKind::UdpRoute { Transport::Udp } else { Transport::Tcp };
    let reference = Reference::read(from, to, field)?;
    reference.permitted(scope)?;
    let destination = match reference.destination()? {
        Destination::Service(port) | Destination::Secured(port) => {
            Destination::Service(ServicePort { transport, ..port })
        }
        backend @ (Destination::Backend(_) | Destination::SecuredBackend(_)) if transport == Transport::Tcp => backend,
        Destination::Backend(_) | Destination::SecuredBackend(_) => {
            let message = "a Backend says nothing of UDP; use a Service".to_owned();
            return Err(reference.refuse(Reason::InvalidKind, ".kind", message));
        }
    };
    let refused = |NotDialed { unusable: Unusable { reason, message }, is_configured }: &NotDialed| {
        reference.unusable(*reason, message, *is_configured)
    };
    match scope.get::<Dial>(&destination).as_deref() {
        None => Err(reference.missing()),
        Some(Err(why)) => Err(refused(why)),
        Some(Ok(Dialable { plain, ports, dialed, bare })) => {
            reference.has_port(&destination, ports)?;
            let dialed = match bare.as_ref().filter(|_| kind == RouteKind::TlsRoute) {
                Some(Unusable { reason, message }) => Err(reference.unusable(*reason, message, false)),
                None => dialed.clone().map_err(|why| refused(&why)),
            };
            Ok(Followed { plain: plain.clone(), dialed })
        }
    }
}

impl Lookup for Dial {
    fn compute(scope: &Scope<'_>, to: &Destination) -> Option<Self::Value> {
        Some(match to {
            Destination::Service(port) | Destination::Secured(port) => {
                let service = scope.get::<Services>(&port.service)?;
                service_port(scope, &service, port)
            }
            Destination::Backend(name) | Destination::SecuredBackend(name) => backend(scope, name)?,
        })
    }

    fn poisoned(_: &Scope<'_>, to: &Destination, _: &engine::Fault) -> Option<Self::Value> {
        Some(Err(NotDialed::of(Reason::InternalFault, format!("{to} cannot be used: {}", internal::WORDS))))
    }
}

fn service_port(scope: &Scope<'_>, service: &Service, port: &ServicePort) -> Result<Dialable, NotDialed> {
    let plain = Destination::Service(port.clone());
    found_port(service, port, None).map_err(|unusable| NotDialed { unusable, is_configured: false })?;
    let dialed_port = || {
        if port.transport == Transport::Udp {
            return Ok(Dialed::plain(plain.clone()));
        }
        let secured = tls::secured(scope, &plain);
        found_port(service, port, secured.as_deref())
            .map_err(|unusable| NotDialed { unusable, is_configured: true })?;
        dialed(scope, &plain)
    };
    let dialed = dialed_port().map(Arc::new);
    let is_plain = |to: &Arc<Dialed>| to.way.as_ref().is_none_or(|way| way.tls.is_none());
    let bare = if dialed.as_ref().is_ok_and(is_plain) { says_tls(service, port) } else { None };
    Ok(Dialable { dialed, plain, ports: Box::default(), bare })
}

/// That a port says that it is to be connected to in TLS, if it does.
fn says_tls(service: &Service, port: &ServicePort) -> Option<Unusable> {
    let found = found_port(service, port, None).ok()?;
    match app_protocol(found.app_protocol.as_deref(), port, false) {
        (Ok(Protocol::Http1Tls), _) => {
            let message = format!(
                "appProtocol of port {} of Service {} asks for TLS, and nothing says whose certificate to expect; create a \
                 BackendTLSPolicy for it, or have TLS passed through",
                port.port, port.service
            );
            Some(Unusable { reason: Reason::UnsupportedProtocol, message })
        }
        (protocol, _) => protocol.err(),
    }
}

fn backend(scope: &Scope<'_>, name: &NsName) -> Option<Result<Dialable, NotDialed>> {
    let plain = Destination::Backend(name.clone());
    let refuse = |reason, why: &str| Some(Err(NotDialed::of(reason, format!("{plain} cannot be used: {why}"))));
    let hosts = scope.get::<BackendHosts>(name)?;
    match &*hosts {
        Ok(hosts) if hosts.has_names() => refuse(
            Reason::UnsupportedValue,
            "it has hosts by name, and connections are spread over addresses alone; name addresses in it",
        ),
        Ok(hosts) => {
            let dialed = match tls::secured(scope, &plain).filter(|secured| secured.tls.is_none()) {
                Some(secured) => {
                    let message =
                        format!("{plain} cannot be used: {}, which applies to it, is not valid", secured.id());
                    let unusable = Unusable { reason: Reason::InvalidBackendTLS, message };
                    Err(NotDialed { unusable, is_configured: true })
                }
                None => dialed(scope, &plain).map(Arc::new),
            };
            Some(Ok(Dialable { dialed, ports: hosts.ports(), plain, bare: None }))
        }
        Err(problem) if problem.reason == Reason::InternalFault => refuse(problem.reason, internal::WORDS),
        Err(problem) => refuse(Reason::UnsupportedValue, &problem.to_string()),
    }
}

/// A backend as policies have proxies connect to it. What they say of requests says nothing here.
fn dialed(scope: &Scope<'_>, to: &Destination) -> Result<Dialed, NotDialed> {
    let said = config::config(scope, to, Protocol::Http1, false).transpose();
    let said = said.map_err(|(policy, _)| NotDialed { unusable: misconfigured(to, &policy), is_configured: true })?;
    let Some(config) = said else { return Ok(Dialed::plain(to.clone())) };
    let is_secured = tls::secured(scope, to).is_some();
    // Nobody knows what is spoken, so that nothing is offered by a policy that does not say what.
    let tls = config.tls.map(|tls| if is_secured { Tls { alpn: Box::default(), ..tls } } else { tls });
    if tls.is_none() && config.proxy_protocol.is_none() {
        return Ok(Dialed::plain(to.clone()));
    }
    let destination = if tls.is_some() { to.clone().secured() } else { to.clone() };
    let way = Way { name: destination.cluster_name().into(), tls, proxy_protocol: config.proxy_protocol };
    Ok(Dialed { way: Some(way), bundle: tls::bundle_of(scope, to), ..Dialed::plain(destination) })
}
