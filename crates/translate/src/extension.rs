//! GatewayExtensions: each read and judged once, with the Service behind it, however many policies ask it.
//!
//! What its endpoints are is no part of it: a provider without any is asked in vain, and is none the less sound.

use std::sync::Arc;

use api::{
    Kind, Object,
    gateway_extension::ExtensionReference,
    group::KGATEWAY_GROUP,
    shared::{BackendObjectReference, BackendRef},
};
use engine::{Lookup, Scope};
use ir::{
    NsName, Port, Problem, Reason, Severity,
    backend::{Asked, Destination, Protocol, ServicePort},
    settings::ExtensionGrants,
};
use units::{
    Extension,
    extension::{ExtensionReader, Follow},
};

use crate::{
    backend::{config, reference},
    grant::{Referrer, permits},
    internal,
    tables::{
        backend::{Reached, ServicePorts, Unusable},
        input::{Config, Extensions},
    },
    violation::sound,
};

tables! {
    /// Providers as policies ask them; absent where there is no such GatewayExtension.
    ExtensionRow: NsName => Judged;
}

/// A GatewayExtension, judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Judged {
    /// The provider, or why it cannot be asked.
    pub(crate) extension: Result<Arc<Extension>, Problem>,
    /// What its owner should know, though it is asked.
    pub(crate) warnings: Vec<Problem>,
}

impl Lookup for ExtensionRow {
    fn compute(scope: &Scope<'_>, id: &NsName) -> Option<Judged> {
        let written = scope.get::<Extensions>(id)?;
        let mut followed = Followed { scope, namespace: &id.namespace, warnings: Vec::new() };
        let extension = sound(&Object::GatewayExtension((*written).clone()))
            .and_then(|()| Extension::read(id, &written.spec, &mut followed))
            .map(Arc::new);
        Some(Judged { extension, warnings: followed.warnings })
    }

    /// Nobody knows whom it means: what asks it is closed.
    fn poisoned(_: &Scope<'_>, _: &NsName, _: &engine::Fault) -> Option<Judged> {
        Some(Judged { extension: Err(internal::problem(Severity::Refused, "")), warnings: Vec::new() })
    }
}

/// The references of a GatewayExtension.
struct Followed<'a, 'b> {
    scope: &'a Scope<'b>,
    namespace: &'a Arc<str>,
    warnings: Vec<Problem>,
}

impl Follow for Followed<'_, '_> {
    fn follow(&mut self, to: &BackendRef, field: &str, grpc: bool) -> Result<Asked, Problem> {
        let BackendObjectReference { group, kind, name, namespace, port } = &to.backend_ref;
        let field = format!("spec.{field}");
        let refuse = |reason, at: &str, message: String| {
            Problem::new(Severity::Refused, reason, format!("{field}{at}"), message)
        };
        // A Backend of kgateway's group would be another kind of `Asked`.
        if !group.is_empty() || &**kind != "Service" {
            let group = if group.is_empty() { "core" } else { group };
            let message = format!("{kind} of group {group} cannot be a provider; use a Service");
            return Err(refuse(Reason::InvalidKind, ".kind", message));
        }
        let own = self.namespace;
        let namespace = namespace.as_ref().filter(|namespace| !namespace.is_empty()).unwrap_or(own);
        let service = NsName::new(namespace.clone(), name.clone());
        // First, so that nobody learns of a Service that he may not use whether it exists.
        let kind = Kind::GatewayExtension.as_str();
        if !permits(self.scope, Referrer { group: KGATEWAY_GROUP, kind, namespace: own }, ("", "Service"), &service) {
            let message = format!(
                "Service {service} is in another namespace and no ReferenceGrant there allows GatewayExtensions of {own} to \
                 use it; create one there, or name a Service of {own}"
            );
            return Err(refuse(Reason::RefNotPermitted, ".namespace", message));
        }
        let Some(port) = port.and_then(|port| Port::try_from(port).ok()).filter(|port| *port > 0) else {
            let message = format!("missing, and a Service is reached at one; name a port of Service {service}");
            return Err(refuse(Reason::BackendNotFound, ".port", message));
        };
        let port = ServicePort::tcp(service, port);
        let Some(state) = self.scope.get::<ServicePorts>(&port) else {
            let message = format!("Service {} does not exist; create it, or correct the name", port.service);
            return Err(refuse(Reason::BackendNotFound, ".name", message));
        };
        let protocol = match &state.protocol {
            Ok(protocol) => *protocol,
            Err(unusable) => return Err(refuse(unusable.reason, "", unusable.message.clone())),
        };
        if let Some(warning) = &state.warning {
            self.warnings.push(Problem::new(Severity::Warning, Reason::UnsupportedProtocol, &*field, warning.clone()));
        }
        let asked = match (grpc, protocol) {
            (false, _) | (true, Protocol::H2c) => Asked::To(Destination::Service(port)),
            // Whoever is asked in gRPC speaks HTTP/2, said or not.
            (true, Protocol::Http1) => Asked::Grpc(port),
            (true, Protocol::Http1Tls) => {
                let message = format!(
                    "port {} of Service {} asks for TLS by its appProtocol, by which no gRPC is spoken here; name another",
                    port.port, port.service
                );
                return Err(refuse(Reason::UnsupportedProtocol, ".port", message));
            }
        };
        // Its cluster is left out then, and some providers that cannot be asked let everything through.
        reachable(self.scope, &asked).map_err(|Unusable { reason, message }| refuse(reason, "", message))?;
        Ok(asked)
    }
}

/// Whether what is said of connections to a provider lets it be asked.
fn reachable(scope: &Scope<'_>, asked: &Asked) -> Result<(), Unusable> {
    match asked {
        Asked::To(to) => scope.get::<Reached>(to).map_or(Ok(()), |reach| reach.protocol.clone().map(|_| ())),
        Asked::Grpc(port) => {
            let to = Destination::Service(port.clone());
            match config::config(scope, &to, Protocol::H2c, false) {
                Some(Err((policy, _))) => Err(reference::misconfigured(&to, &policy)),
                _ => Ok(()),
            }
        }
    }
}

/// The extensions that a TrafficPolicy of a namespace may ask.
pub(crate) struct OfPolicy<'a, 'b> {
    pub(crate) scope: &'a Scope<'b>,
    pub(crate) namespace: &'a Arc<str>,
}

impl ExtensionReader for OfPolicy<'_, '_> {
    fn extension(&self, reference: &ExtensionReference) -> Result<Arc<Extension>, String> {
        let Self { scope, namespace: own } = self;
        let namespace = reference.namespace.as_ref().filter(|namespace| !namespace.is_empty()).unwrap_or(own);
        let id = NsName::new(namespace.clone(), reference.name.clone());
        let is_foreign = *namespace != **own;
        let grants = scope.get::<Config>(&()).map(|config| config.policies.extension_grants);
        if is_foreign && grants != Some(ExtensionGrants::Permissive) {
            let from = Referrer { group: KGATEWAY_GROUP, kind: Kind::TrafficPolicy.as_str(), namespace: own };
            let kind = Kind::GatewayExtension.as_str();
            if !permits(scope, from, (KGATEWAY_GROUP, kind), &id) {
                return Err(format!(
                    "GatewayExtension {id} is in another namespace and no ReferenceGrant there allows TrafficPolicies of {own} \
                     to use it; create one there, or name one of this namespace"
                ));
            }
        }
        let Some(judged) = scope.get::<ExtensionRow>(&id) else {
            return Err(format!("GatewayExtension {id} does not exist; create it, or correct the name"));
        };
        match &judged.extension {
            Ok(extension) => Ok(extension.clone()),
            // What it refers to is its owner's.
            Err(_) if is_foreign => Err(format!("GatewayExtension {id} is not valid; ask its owner, or name another")),
            Err(fault) => Err(format!("GatewayExtension {id} is not valid: {fault}")),
        }
    }
}
