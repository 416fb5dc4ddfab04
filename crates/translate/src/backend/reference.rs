//! References to backends: from whatever object they are, to a cluster.

use std::sync::Arc;

use api::{ObjectId, group::KGATEWAY_GROUP};
use engine::{Lookup, Scope};
use ir::{
    Port, Problem, Reason, Severity,
    backend::{Asked, Destination, Protocol, ServicePort},
    route::BackendRef,
};

use super::{
    config,
    hosts::{BackendHosts, may_be_local},
};
use crate::{
    grant::{Referrer, permits},
    internal,
    tables::backend::{Reach, Reached, ServicePorts, Sought, Unusable},
};

/// Where a reference leads.
pub(crate) struct Followed {
    /// What it means; [`ClusterId::To`](crate::tables::backend::ClusterId) is its cluster, which whoever sends requests there
    /// has served by demanding it of `Outputs`, as a rule does where it is placed.
    pub(crate) destination: Destination,
    /// What a sender has to know of it.
    pub(crate) reach: Arc<Reach>,
}

impl Followed {
    /// The same, for what proxies send there of their own.
    pub(crate) fn asked(&self) -> Asked {
        match self.destination.clone() {
            to if self.reach.is_unsaid => Asked::Grpc(to),
            Destination::Service(port) => Asked::Service(port),
            Destination::Backend(name) => Asked::Backend(name),
        }
    }
}

/// What a proxy sends to a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// Requests of clients.
    Requests,
    /// What no connection of a client is behind: copies of requests, and questions, in gRPC or not. Envoy does not look there
    /// whether a name turned out to be local.
    Own { in_grpc: bool },
}

/// Follows a reference to a backend (Gateway API `BackendObjectReference`) that stands at `field` of an object.
pub(crate) fn follow(
    scope: &Scope<'_>,
    from: Referrer<'_>,
    to: &BackendRef,
    field: &str,
    sent: Sent,
) -> Result<Followed, Problem> {
    let refuse =
        |reason, name: &str, message| Problem::new(Severity::Replaced, reason, format!("{field}{name}"), message);
    let kind = match (&*to.group, &*to.kind) {
        kind @ (("", "Service") | (KGATEWAY_GROUP, "Backend")) => kind,
        (group, kind) => {
            let group = if group.is_empty() { "core" } else { group };
            let message = format!("{kind} of group {group} cannot be a backend; use a Service or a Backend");
            return Err(refuse(Reason::InvalidKind, ".kind", message));
        }
    };
    let name = to.target(from.namespace);
    let is_elsewhere = name.namespace != *from.namespace;
    let object = format!("{} {name}", kind.1);
    if !permits(scope, from, kind, &name) {
        let own = from.namespace;
        let message = format!(
            "{object} is in another namespace and no ReferenceGrant there allows {} of {own} to use it; \
             create one there, or name a {} of {own}",
            plural(from.kind),
            kind.1
        );
        return Err(refuse(Reason::RefNotPermitted, ".namespace", message));
    }
    let port = match to.port.map(|port| (port, Port::try_from(port))) {
        None => None,
        Some((_, Ok(port))) if port > 0 => Some(port),
        Some((port, _)) => {
            let message = format!("{port} is not a port; use 1 to 65535");
            return Err(refuse(Reason::BackendNotFound, ".port", message));
        }
    };
    let destination = match (kind.1, port) {
        ("Service", Some(port)) => Destination::Service(ServicePort::tcp(name, port)),
        ("Service", None) => {
            let message = format!("missing, and a Service is reached at one; name a port of {object}");
            return Err(refuse(Reason::BackendNotFound, ".port", message));
        }
        _ => Destination::Backend(name),
    };
    let sought = Sought { to: destination.clone(), in_grpc: sent == Sent::Own { in_grpc: true } };
    let Some(reach) = scope.get::<Reached>(&sought) else {
        let message = format!("{object} does not exist; create it, or correct the name");
        return Err(refuse(Reason::BackendNotFound, ".name", message));
    };
    if let Err(Unusable { reason, message }) = &reach.protocol {
        // Who refers to a backend of others need not know what is called how there.
        let message = if is_elsewhere && reach.is_configured {
            format!("{object} cannot be used: a BackendConfigPolicy of another namespace is not valid there")
        } else {
            message.clone()
        };
        return Err(refuse(*reason, "", message));
    }
    if let (Destination::Backend(_), Some(port)) = (&destination, port)
        && !reach.ports.contains(&port)
    {
        let ports: Vec<_> = reach.ports.iter().map(ToString::to_string).collect();
        let message =
            format!("no host of {object} has port {port}: they have {}; correct or remove it", ports.join(", "));
        return Err(refuse(Reason::BackendNotFound, ".port", message));
    }
    if sent != Sent::Requests && reach.by_name && !may_be_local(scope) {
        let message = format!(
            "{object} has hosts by name, and what proxies send of their own is not kept from a name that turns out to be local; \
             name addresses in it, or ask whoever runs the controller for the setting backend.allowLocal"
        );
        return Err(refuse(Reason::UnsupportedValue, "", message));
    }
    Ok(Followed { destination, reach })
}

fn plural(kind: &str) -> String {
    kind.strip_suffix('y').map_or_else(|| format!("{kind}s"), |stem| format!("{stem}ies"))
}

/// Why nobody reaches a backend to which a policy of connections applies that is not valid there.
pub(crate) fn misconfigured(to: &Destination, policy: &ObjectId) -> Unusable {
    let own = match to {
        Destination::Service(port) => &port.service.namespace,
        Destination::Backend(name) => &name.namespace,
    };
    let policy =
        if policy.namespace == *own { policy.to_string() } else { format!("a {} of another namespace", policy.kind) };
    let message = format!("{to} cannot be used: {policy}, which applies to it, is not valid there");
    Unusable { reason: Reason::UnsupportedValue, message }
}

impl Lookup for Reached {
    fn compute(scope: &Scope<'_>, Sought { to: key, in_grpc }: &Sought) -> Option<Reach> {
        let unusable = |reason, message| Reach { protocol: Err(Unusable { reason, message }), ..Reach::default() };
        let mut reach = match key {
            Destination::Service(port) => {
                let state = scope.get::<ServicePorts>(port)?;
                Reach { protocol: state.protocol.clone(), warning: state.warning.clone(), ..Reach::default() }
            }
            Destination::Backend(name) => match &*scope.get::<BackendHosts>(name)? {
                Ok(hosts) => Reach {
                    protocol: Ok(hosts.protocol),
                    ports: hosts.ports(),
                    by_name: hosts.has_names(),
                    ..Reach::default()
                },
                Err(problem) if problem.reason == Reason::InternalFault => {
                    unusable(problem.reason, format!("{key} cannot be used: {}", internal::WORDS))
                }
                Err(problem) => unusable(Reason::UnsupportedValue, format!("{key} cannot be used: {problem}")),
            },
        };
        if *in_grpc && reach.protocol == Ok(Protocol::Http1) {
            reach.protocol = Ok(Protocol::H2c);
            reach.is_unsaid = true;
        }
        let said = reach.protocol.clone().ok().and_then(|protocol| config::config(scope, key, protocol, reach.by_name));
        match said {
            None => {}
            Some(Ok(config)) => {
                reach.is_configured = true;
                reach.hash = config.hash().cloned().unwrap_or_default();
            }
            // What is wrong is for the owner of the policy.
            Some(Err((policy, _))) => {
                return Some(Reach {
                    protocol: Err(misconfigured(key, &policy)),
                    is_configured: true,
                    ..Reach::default()
                });
            }
        }
        Some(reach)
    }

    fn poisoned(_: &Scope<'_>, key: &Sought, _: &engine::Fault) -> Option<Reach> {
        let message = format!("{} cannot be used: {}", key.to, internal::WORDS);
        Some(Reach { protocol: Err(Unusable { reason: Reason::InternalFault, message }), ..Reach::default() })
    }
}
