//! Backends of connections and datagrams into which nobody looks: what they speak makes no difference.

use std::sync::Arc;

use api::core::Service;
use engine::{Lookup, Scope};
use ir::{
    NsName, Problem, Reason,
    backend::{Destination, Protocol, ServicePort, Transport, Way},
    route::BackendRef,
    upstream::Tls,
};

use super::{
    config, found_port,
    hosts::BackendHosts,
    reference::{Reference, misconfigured},
    tls,
};
use crate::{
    grant::Referrer,
    internal,
    tables::{
        backend::Unusable,
        input::Services,
        stream::Dialed,
        tls::{BackendTls, Connect},
    },
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

tables! {
    /// A backend as it is connected to, or why nobody does; absent where its object is.
    Dial: Destination => Result<Arc<Dialed>, NotDialed>;
}

/// Follows a reference of a route of streams to a backend.
pub(crate) fn follow(
    scope: &Scope<'_>,
    from: Referrer<'_>,
    to: &BackendRef,
    field: &str,
    transport: Transport,
) -> Result<Arc<Dialed>, Problem> {
    let reference = Reference::read(from, to, field)?;
    reference.permitted(scope)?;
    let destination = match reference.destination()? {
        Destination::Service(port) | Destination::Secured(port) => {
            Destination::Service(ServicePort { transport, ..port })
        }
        backend @ Destination::Backend(_) if transport == Transport::Tcp => backend,
        Destination::Backend(_) => {
            let message = "a Backend says nothing of UDP; use a Service".to_owned();
            return Err(reference.refuse(Reason::InvalidKind, ".kind", message));
        }
    };
    match scope.get::<Dial>(&destination).as_deref() {
        None => Err(reference.missing()),
        Some(Err(NotDialed { unusable: Unusable { reason, message }, is_configured })) => {
            Err(reference.unusable(*reason, message, *is_configured))
        }
        Some(Ok(dialed)) => {
            reference.has_port(&destination, &dialed.ports)?;
            Ok(dialed.clone())
        }
    }
}

impl Lookup for Dial {
    fn compute(scope: &Scope<'_>, to: &Destination) -> Option<Self::Value> {
        let dialed = match to {
            Destination::Service(port) | Destination::Secured(port) => {
                let service = scope.get::<Services>(&port.service)?;
                service_port(scope, &service, port)
            }
            Destination::Backend(name) => backend(scope, name)?,
        };
        Some(dialed.map(Arc::new))
    }

    fn poisoned(_: &Scope<'_>, to: &Destination, _: &engine::Fault) -> Option<Self::Value> {
        Some(Err(NotDialed::of(Reason::InternalFault, format!("{to} cannot be used: {}", internal::WORDS))))
    }
}

fn service_port(scope: &Scope<'_>, service: &Service, port: &ServicePort) -> Result<Dialed, NotDialed> {
    let secured = scope.get::<BackendTls>(port);
    found_port(service, port, secured.as_deref())
        .map_err(|unusable| NotDialed { unusable, is_configured: secured.is_some() })?;
    let plain = Destination::Service(port.clone());
    if port.transport == Transport::Udp {
        return Ok(Dialed::plain(plain));
    }
    let (way, certificate) = wrapped(scope, &plain)?;
    let connect = secured.as_ref().and_then(|secured| secured.tls.as_ref());
    Ok(Dialed {
        bundle: connect.and_then(|Connect { bundle, .. }| bundle.clone()),
        way,
        certificate,
        ..Dialed::plain(if secured.is_some() { Destination::Secured(port.clone()) } else { plain })
    })
}

fn backend(scope: &Scope<'_>, name: &NsName) -> Option<Result<Dialed, NotDialed>> {
    let to = Destination::Backend(name.clone());
    let refuse = |reason, why: &str| {
        Some(Err(NotDialed::of(reason, format!("{} cannot be used: {why}", Destination::Backend(name.clone())))))
    };
    let hosts = scope.get::<BackendHosts>(name)?;
    match &*hosts {
        Ok(hosts) if hosts.has_names() => refuse(
            Reason::UnsupportedValue,
            "it has hosts by name, and connections are spread over addresses alone; name addresses in it",
        ),
        Ok(hosts) => Some(wrapped(scope, &to).map(|(way, certificate)| Dialed {
            way,
            certificate,
            ports: hosts.ports(),
            ..Dialed::plain(to)
        })),
        Err(problem) if problem.reason == Reason::InternalFault => refuse(problem.reason, internal::WORDS),
        Err(problem) => refuse(Reason::UnsupportedValue, &problem.to_string()),
    }
}

/// In what policies have connections to a backend be wrapped, and the Secret with the certificate that is shown. What they say of
/// requests says nothing here.
fn wrapped(scope: &Scope<'_>, to: &Destination) -> Result<(Option<Way>, Option<NsName>), NotDialed> {
    let said = config::config(scope, to, Protocol::Http1, false).transpose();
    let said = said.map_err(|(policy, _)| NotDialed { unusable: misconfigured(to, &policy), is_configured: true })?;
    let Some(config) = said else { return Ok((None, None)) };
    let is_secured = tls::secured(scope, to).is_some();
    // Nobody knows what is spoken, so that nothing is offered by a policy that does not say what.
    let tls = config.tls.map(|tls| if is_secured { Tls { alpn: Box::default(), ..tls } } else { tls });
    let certificate = tls.as_ref().and_then(|tls| tls.certificate.clone());
    if tls.is_none() && config.proxy_protocol.is_none() {
        return Ok((None, None));
    }
    let name = if is_secured { format!("{}/tls", to.cluster_name()) } else { to.cluster_name() };
    Ok((Some(Way { name: name.into(), tls, proxy_protocol: config.proxy_protocol }), certificate))
}
