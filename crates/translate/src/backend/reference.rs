//! References to backends: from whatever object they are, to a cluster.

use std::sync::Arc;

use api::{ObjectId, group::KGATEWAY_GROUP};
use engine::{Lookup, Scope};
use ir::{
    NsName, Port, Problem, Reason, Severity,
    backend::{Asked, Destination, Protocol, ServicePort},
    route::BackendRef,
};

use super::{
    config,
    hosts::{BackendHosts, may_be_local},
    tls,
};
use crate::{
    grant::{Referrer, permits},
    internal,
    tables::backend::{ClusterId, Reach, Reached, ServicePorts, Sought, Unusable},
};

/// Where a reference leads.
pub(crate) struct Followed {
    /// What it means. Whoever sends there has its cluster served by demanding it of `Outputs`, as a rule does where it is
    /// placed.
    pub(crate) destination: Destination,
    /// What a sender has to know of it.
    pub(crate) reach: Arc<Reach>,
}

impl Followed {
    /// The cluster of requests that are sent there.
    pub(crate) fn cluster(&self) -> ClusterId {
        match (self.reach.is_unsaid, self.destination.clone()) {
            (false, to) => ClusterId::To(to),
            (true, to) if to.port().is_none() => ClusterId::Http2(to),
            (true, to) => ClusterId::Grpc(to),
        }
    }

    /// The same, for what proxies send there of their own.
    pub(crate) fn asked(&self) -> Asked {
        match self.destination.clone() {
            to if self.reach.is_unsaid => Asked::Grpc(to),
            to => Asked::Own(to),
        }
    }
}

/// What a proxy sends to a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// Requests of clients, in gRPC or not.
    Requests { in_grpc: bool },
    /// What no connection of a client is behind: copies of requests, and questions, in gRPC or not. Envoy does not look there
    /// whether a name turned out to be local.
    Own { in_grpc: bool },
}

impl Sent {
    fn in_grpc(self) -> bool {
        let (Self::Requests { in_grpc } | Self::Own { in_grpc }) = self;
        in_grpc
    }
}

/// Follows a reference to a backend (Gateway API `BackendObjectReference`) that stands at `field` of an object.
pub(crate) fn follow(
    scope: &Scope<'_>,
    from: Referrer<'_>,
    to: &BackendRef,
    field: &str,
    sent: Sent,
) -> Result<Followed, Problem> {
    let reference = Reference::read(from, to, field)?;
    reference.permitted(scope)?;
    reference.follow(scope, sent)
}

/// What a reference means, whether it is there or not.
pub(crate) fn destination_of(from: Referrer<'_>, to: &BackendRef) -> Option<Destination> {
    Reference::read(from, to, "").ok()?.destination().ok()
}

/// A reference of which the kind is one of a backend.
pub(crate) struct Reference<'a> {
    from: Referrer<'a>,
    field: &'a str,
    kind: (&'static str, &'static str),
    name: NsName,
    port: Option<i32>,
}

impl<'a> Reference<'a> {
    /// Reads one.
    pub(crate) fn read(from: Referrer<'a>, to: &BackendRef, field: &'a str) -> Result<Self, Problem> {
        let kind = match (&*to.group, &*to.kind) {
            ("", "Service") => ("", "Service"),
            (KGATEWAY_GROUP, "Backend") => (KGATEWAY_GROUP, "Backend"),
            (group, kind) => {
                let group = if group.is_empty() { "core" } else { group };
                let message = format!("{kind} of group {group} cannot be a backend; use a Service or a Backend");
                return Err(refuse(field, Reason::InvalidKind, ".kind", message));
            }
        };
        Ok(Self { from, field, kind, name: to.target(from.namespace), port: to.port })
    }

    /// A problem of the reference, or of a field of it.
    pub(super) fn refuse(&self, reason: Reason, name: &str, message: String) -> Problem {
        refuse(self.field, reason, name, message)
    }

    fn object(&self) -> String {
        format!("{} {}", self.kind.1, self.name)
    }

    /// Whether it may be named.
    pub(crate) fn permitted(&self, scope: &Scope<'_>) -> Result<(), Problem> {
        let Self { from, kind, name, .. } = self;
        if permits(scope, *from, *kind, name) {
            return Ok(());
        }
        let own = from.namespace;
        let message = format!(
            "{} is in another namespace and no ReferenceGrant there allows {} of {own} to use it; \
             create one there, or name a {} of {own}",
            self.object(),
            plural(from.kind),
            kind.1
        );
        Err(self.refuse(Reason::RefNotPermitted, ".namespace", message))
    }

    fn port(&self) -> Result<Option<Port>, Problem> {
        match self.port.map(|port| (port, Port::try_from(port))) {
            None => Ok(None),
            Some((_, Ok(port))) if port > 0 => Ok(Some(port)),
            Some((port, _)) => {
                let message = format!("{port} is not a port; use 1 to 65535");
                Err(self.refuse(Reason::BackendNotFound, ".port", message))
            }
        }
    }

    /// What it means, whether that is there or not.
    pub(super) fn destination(&self) -> Result<Destination, Problem> {
        match (self.kind.1, self.port()?) {
            ("Service", Some(port)) => Ok(Destination::Service(ServicePort::tcp(self.name.clone(), port))),
            ("Service", None) => {
                let message = format!("missing, and a Service is reached at one; name a port of {}", self.object());
                Err(self.refuse(Reason::BackendNotFound, ".port", message))
            }
            _ => Ok(Destination::Backend(self.name.clone())),
        }
    }

    /// Where it leads, once it may be named.
    pub(crate) fn follow(&self, scope: &Scope<'_>, sent: Sent) -> Result<Followed, Problem> {
        let destination = self.destination()?;
        let reach = self.reach(scope, &destination, sent)?;
        Ok(Followed { destination: as_reached(destination, &reach), reach })
    }

    /// What it means, whether that can be used or not, as it would be reached.
    pub(crate) fn meant(&self, scope: &Scope<'_>, sent: Sent) -> Result<Destination, Problem> {
        let destination = self.destination()?;
        let sought = Sought { to: destination.clone(), in_grpc: sent.in_grpc() };
        Ok(match scope.get::<Reached>(&sought) {
            Some(reach) => as_reached(destination, &reach),
            None => destination,
        })
    }

    /// What a sender has to know of what it means.
    fn reach(&self, scope: &Scope<'_>, destination: &Destination, sent: Sent) -> Result<Arc<Reach>, Problem> {
        let sought = Sought { to: destination.clone(), in_grpc: sent.in_grpc() };
        let Some(reach) = scope.get::<Reached>(&sought) else { return Err(self.missing()) };
        if let Err(Unusable { reason, message }) = &reach.protocol {
            return Err(self.unusable(*reason, message, reach.is_configured));
        }
        self.has_port(destination, &reach.ports)?;
        if matches!(sent, Sent::Own { .. }) && reach.by_name && !may_be_local(scope) {
            let message = format!(
                "{} has hosts by name, and what proxies send of their own is not kept from a name that turns out to be \
                 local; name addresses in it, or ask whoever runs the controller for the setting backend.allowLocal",
                self.object()
            );
            return Err(self.refuse(Reason::UnsupportedValue, "", message));
        }
        Ok(reach)
    }

    /// That nothing of this name is there.
    pub(super) fn missing(&self) -> Problem {
        let message = format!("{} does not exist; create it, or correct the name", self.object());
        self.refuse(Reason::BackendNotFound, ".name", message)
    }

    /// That what it means cannot be used; whether a policy of its owner may be why.
    pub(super) fn unusable(&self, reason: Reason, message: &str, is_configured: bool) -> Problem {
        // Who refers to a backend of others need not know what is called how there.
        let message = if self.name.namespace != *self.from.namespace && is_configured {
            format!(
                "{} cannot be used: a policy of another namespace, which applies to it, is not valid",
                self.object()
            )
        } else {
            message.to_owned()
        };
        self.refuse(reason, "", message)
    }

    /// The port that is named with a Backend must be that of a host of it.
    pub(super) fn has_port(&self, destination: &Destination, ports: &[Port]) -> Result<(), Problem> {
        if let (Destination::Backend(_), Some(port)) = (destination, self.port()?)
            && !ports.contains(&port)
        {
            let object = self.object();
            let ports: Vec<_> = ports.iter().map(ToString::to_string).collect();
            let message =
                format!("no host of {object} has port {port}: they have {}; correct or remove it", ports.join(", "));
            return Err(self.refuse(Reason::BackendNotFound, ".port", message));
        }
        Ok(())
    }
}

fn as_reached(destination: Destination, reach: &Reach) -> Destination {
    if reach.is_secured { destination.secured() } else { destination }
}

fn refuse(field: &str, reason: Reason, name: &str, message: String) -> Problem {
    Problem::new(Severity::Replaced, reason, format!("{field}{name}"), message)
}

fn plural(kind: &str) -> String {
    kind.strip_suffix('y').map_or_else(|| format!("{kind}s"), |stem| format!("{stem}ies"))
}

/// Why nobody reaches a backend to which a policy of connections applies that is not valid there.
pub(crate) fn misconfigured(to: &Destination, policy: &ObjectId) -> Unusable {
    let own = &to.name().namespace;
    let policy =
        if policy.namespace == *own { policy.to_string() } else { format!("a {} of another namespace", policy.kind) };
    let message = format!("{to} cannot be used: {policy}, which applies to it, is not valid there");
    Unusable { reason: Reason::UnsupportedValue, message }
}

impl Lookup for Reached {
    fn compute(scope: &Scope<'_>, Sought { to: key, in_grpc }: &Sought) -> Option<Reach> {
        let unusable = |reason, message| Reach { protocol: Err(Unusable { reason, message }), ..Reach::default() };
        let mut reach = match key {
            Destination::Service(port) | Destination::Secured(port) => {
                let state = scope.get::<ServicePorts>(port)?;
                Reach {
                    protocol: state.protocol.clone(),
                    warning: state.warning.clone(),
                    is_secured: state.is_secured,
                    is_configured: state.is_secured,
                    ..Reach::default()
                }
            }
            Destination::Backend(name) | Destination::SecuredBackend(name) => {
                match &*scope.get::<BackendHosts>(name)? {
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
                }
            }
        };
        if key.port().is_none()
            && let Some(secured) = tls::secured(scope, key)
        {
            (reach.is_secured, reach.is_configured) = (true, true);
            if secured.tls.is_none() && reach.protocol.is_ok() {
                let message = format!("{key} cannot be used: {}, which applies to it, is not valid", secured.id());
                reach.protocol = Err(Unusable { reason: Reason::InvalidBackendTLS, message });
            }
        }
        match reach.protocol {
            Ok(Protocol::Http1) if *in_grpc => {
                reach.protocol = Ok(Protocol::H2c);
                reach.is_unsaid = true;
            }
            Ok(Protocol::Http1Tls) if *in_grpc => {
                let message =
                    format!("{key} speaks HTTP/1.1 over TLS, and gRPC needs HTTP/2; name a port that speaks it");
                return Some(unusable(Reason::UnsupportedProtocol, message));
            }
            _ => {}
        }
        let said = reach.protocol.clone().ok().and_then(|protocol| config::config(scope, key, protocol, reach.by_name));
        match said {
            None => {}
            Some(Ok(config)) => {
                reach.is_configured = true;
                reach.is_secured |= config.tls.is_some();
                reach.hash = config.hash().cloned().unwrap_or_default();
            }
            // What is wrong is for the owner of the policy.
            Some(Err((policy, _))) => {
                return Some(Reach {
                    protocol: Err(misconfigured(key, &policy)),
                    is_secured: reach.is_secured,
                    is_configured: true,
                    ..Reach::default()
                });
            }
        }
        if let Some((words, cluster)) = super::refused(scope, &as_reached(key.clone(), &reach), *in_grpc) {
            reach.refused = Some(Box::new(cluster));
            reach.protocol =
                Err(Unusable { reason: Reason::UnsupportedValue, message: format!("{key} cannot be used: {words}") });
            // They may quote what policies say.
            reach.is_configured = true;
        }
        Some(reach)
    }

    fn poisoned(_: &Scope<'_>, key: &Sought, _: &engine::Fault) -> Option<Reach> {
        let message = format!("{} cannot be used: {}", key.to, internal::WORDS);
        Some(Reach { protocol: Err(Unusable { reason: Reason::InternalFault, message }), ..Reach::default() })
    }
}
