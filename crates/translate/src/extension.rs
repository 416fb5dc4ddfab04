//! GatewayExtensions: each read and judged once, with the backend behind it, however many policies ask it.
//!
//! What its endpoints are is no part of it: a provider without any is asked in vain, and is none the less sound.

use std::sync::Arc;

use api::{Kind, Object, gateway_extension::ExtensionReference, group::KGATEWAY_GROUP, shared::BackendRef};
use engine::{Lookup, Scope};
use ir::{
    NsName, Problem, Reason, Severity,
    backend::{Asked, Protocol},
    settings::ExtensionGrants,
};
use units::{
    Extension,
    extension::{ExtensionReader, Follow},
};

use crate::{
    backend::reference::{self, Sent},
    grant::{Referrer, permits},
    internal,
    route::backend_ref,
    tables::input::{Config, Extensions},
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
        let mut references = References { scope, namespace: &id.namespace, warnings: Vec::new() };
        let extension = sound(&Object::GatewayExtension((*written).clone()))
            .and_then(|()| Extension::read(id, &written.spec, &mut references))
            .map(Arc::new);
        Some(Judged { extension, warnings: references.warnings })
    }

    /// Nobody knows whom it means: what asks it is closed.
    fn poisoned(_: &Scope<'_>, _: &NsName, _: &engine::Fault) -> Option<Judged> {
        Some(Judged { extension: Err(internal::problem(Severity::Refused, "")), warnings: Vec::new() })
    }
}

/// The references of a GatewayExtension.
struct References<'a, 'b> {
    scope: &'a Scope<'b>,
    namespace: &'a Arc<str>,
    warnings: Vec<Problem>,
}

impl Follow for References<'_, '_> {
    fn follow(&mut self, to: &BackendRef, field: &str, grpc: bool) -> Result<Asked, Problem> {
        let field = format!("spec.{field}");
        let kind = Kind::GatewayExtension.as_str();
        let from = Referrer { group: KGATEWAY_GROUP, kind, namespace: self.namespace };
        let followed =
            reference::follow(self.scope, from, &backend_ref(&to.backend_ref), &field, Sent::Own { in_grpc: grpc });
        let followed = followed.map_err(|problem| Problem { severity: Severity::Refused, ..problem })?;
        if let Some(warning) = &followed.reach.warning {
            self.warnings.push(Problem::new(Severity::Warning, Reason::UnsupportedProtocol, &*field, warning.clone()));
        }
        if grpc && followed.reach.protocol == Ok(Protocol::Http1Tls) {
            let message = format!(
                "{} asks for TLS by its appProtocol, by which no gRPC is spoken here; name another",
                followed.destination
            );
            return Err(Problem::new(Severity::Refused, Reason::UnsupportedProtocol, format!("{field}.port"), message));
        }
        Ok(followed.asked())
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
