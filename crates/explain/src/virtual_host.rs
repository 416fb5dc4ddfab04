//! The virtual host that a request is for.

use std::{collections::BTreeSet, sync::Arc};

use ir::{Hostname, ListenerId, ListenerName, NsName, RouteConfigId, filter::Scheme, listener::ListenerProtocol};
use translate::inspect::Inspector;

use crate::{explanation::Outcome, finding::Finding, request::Request};

/// Why a hostname answers 500 to everything: routes of these namespaces.
pub(crate) fn shut(gateway: &NsName, hostname: &Hostname, namespaces: &BTreeSet<Arc<str>>) -> Finding {
    let namespaces: Vec<_> = namespaces.iter().map(|namespace| &**namespace).collect();
    let message = format!(
        "its proxies have no room for {hostname}: those of its routes that are of namespace {} exceed their share of \
         what may be placed, and say more",
        namespaces.join(", ")
    );
    let object = format!("Gateway {gateway}");
    Finding { object, reason: "UnsupportedValue", field: String::new(), message }
}

/// The route configuration of the connection that a client makes.
pub(crate) fn connect(tables: Inspector<'_>, gateway: &NsName, request: &Request) -> Result<RouteConfigId, Outcome> {
    let unreachable = |why: String, because| Outcome::Unreachable { why, because };
    let object = format!("Gateway {gateway}");
    let Some(model) = tables.gateway(gateway) else {
        return Err(unreachable(
            format!("{object} does not exist, or is of a class of another controller"),
            Vec::new(),
        ));
    };
    let of_port = |port| model.listeners.iter().filter(move |listener| listener.port == port);
    let port = request.port;
    let bound = || model.listeners.iter().find(|listener| listener.bind_port == port).map(|listener| listener.port);
    let port = if of_port(port).next().is_some() { port } else { bound().unwrap_or(port) };
    let over: Vec<_> = of_port(port)
        .filter(|listener| listener.protocol.and_then(ListenerProtocol::scheme) == Some(request.scheme))
        .collect();
    if over.is_empty() {
        let ports: Vec<_> = model.listeners.iter().map(|listener| listener.port.to_string()).collect();
        let scheme = request.scheme.as_str().to_ascii_uppercase();
        let why = format!("no listener takes {scheme} at port {port}; there are listeners at {}", ports.join(", "));
        return Err(unreachable(why, Vec::new()));
    }
    let withheld = |name: Option<&ListenerName>| -> Vec<Finding> {
        let listeners = over.iter().filter(|listener| name.is_none_or(|name| listener.id.name == *name));
        listeners
            .filter_map(|listener| Some(Finding::fault(&listener.id.parent().to_string(), listener.withheld.as_ref()?)))
            .collect()
    };
    if over.iter().all(|listener| listener.withheld.is_some()) {
        return Err(unreachable(format!("no listener at port {port} is served"), withheld(None)));
    }
    let config = |listener| RouteConfigId { gateway: gateway.clone(), port, listener };
    if request.scheme == Scheme::Http {
        return Ok(config(None));
    }
    // Chosen by the name that the client expects in the certificate.
    let server = Hostname::Exact(request.server.as_str().into());
    match tables.tls_listener(gateway, port, &server) {
        None => {
            Err(unreachable(format!("no listener at port {port} has a hostname for {}", request.server), Vec::new()))
        }
        Some((name, false)) => {
            Err(unreachable(format!("listener {name} is not served, so connections are closed"), withheld(Some(&name))))
        }
        Some((name, true)) => Ok(config(Some(name))),
    }
}

/// The virtual host for a host, and the listener whose routes it has.
pub(crate) fn virtual_host(
    tables: Inspector<'_>,
    config: &RouteConfigId,
    host: &str,
) -> Result<(ListenerId, Hostname), Outcome> {
    for hostname in Hostname::Exact(host.into()).covering() {
        if !tables.has_virtual_host(config, &hostname) {
            if tables.is_of_another_listener(config, &hostname) {
                return Err(Outcome::Misdirected);
            }
            continue;
        }
        return match tables.owner(config, &hostname) {
            Some(listener) => Ok((listener, hostname)),
            None => {
                let why = format!("{hostname} belongs to a listener that is not served, and to no broader one");
                Err(Outcome::NotFound { why })
            }
        };
    }
    let why = format!("no listener at port {} has a hostname for {host}", config.port);
    Err(Outcome::NotFound { why })
}
