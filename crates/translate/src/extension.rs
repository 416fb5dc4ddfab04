//! GatewayExtensions: each read and judged once, with the backend behind it, however many policies ask it.
//!
//! What its endpoints are is no part of it: a provider without any is asked in vain, and is none the less sound.

use std::sync::Arc;

use api::{
    Kind, Object, gateway_extension::ExtensionReference, group::KGATEWAY_GROUP, references::CLIENT_SECRET,
    shared::BackendRef, traffic_policy::TrafficPolicySpec,
};
use engine::{Lookup, Scope};
use ir::{NsName, Problem, Reason, Severity, backend::Asked, settings::ExtensionGrants};
use units::{
    Extension,
    extension::{ExtensionReader, Follow, client_secret},
};

use crate::{
    backend::reference::{self, Sent},
    grant::{Referrer, permits},
    internal,
    route::backend_ref,
    tables::input::{Config, ConfigMaps, Extensions, Secrets},
    violation::{honoured, sound},
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
        let object = Object::GatewayExtension((*written).clone());
        let extension = honoured(&object)
            .and_then(|()| sound(&object))
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
        Ok(followed.asked())
    }

    fn config_map(&self, name: &Arc<str>, key: &str) -> Result<Arc<str>, String> {
        let id = NsName::new(self.namespace.clone(), name.clone());
        let Some(map) = self.scope.get::<ConfigMaps>(&id) else {
            return Err(format!("ConfigMap {id} does not exist; create it, or correct the name"));
        };
        let value = map.data.get(key).filter(|value| !value.is_empty());
        value.cloned().ok_or_else(|| format!("ConfigMap {id} has no data {key:?}: store it there"))
    }

    /// What it holds is no part of the extension, so that another value changes no route.
    fn client_secret(&mut self, name: &str, field: &str) -> Result<NsName, Problem> {
        let refused = |message| Problem::new(Severity::Refused, Reason::Invalid, format!("spec.{field}.name"), message);
        if name.is_empty() {
            return Err(refused(format!("it is empty; name a Secret with {CLIENT_SECRET:?}")));
        }
        let id = NsName::new(self.namespace.clone(), name);
        let Some(secret) = self.scope.get::<Secrets>(&id) else {
            return Err(refused(format!(
                "Secret {id} does not exist; create it with {CLIENT_SECRET:?}, or correct the name"
            )));
        };
        client_secret(&secret).map_err(|why| refused(format!("Secret {id}: {why}")))?;
        Ok(id)
    }
}

/// The extensions that a TrafficPolicy of a namespace may ask.
pub(crate) struct OfPolicy<'a, 'b> {
    pub(crate) scope: &'a Scope<'b>,
    pub(crate) namespace: &'a Arc<str>,
}

impl OfPolicy<'_, '_> {
    /// The extension that is meant.
    fn target(&self, reference: &ExtensionReference) -> NsName {
        let namespace = reference.namespace.as_ref().filter(|namespace| !namespace.is_empty());
        NsName::new(namespace.unwrap_or(self.namespace).clone(), reference.name.clone())
    }

    /// What is wrong with naming one of another namespace, if nothing there allows it.
    fn not_granted(&self, id: &NsName) -> Option<String> {
        let Self { scope, namespace: own } = self;
        let from = Referrer { group: KGATEWAY_GROUP, kind: Kind::TrafficPolicy.as_str(), namespace: own };
        let kind = Kind::GatewayExtension.as_str();
        (!permits(scope, from, (KGATEWAY_GROUP, kind), id)).then(|| {
            format!(
                "GatewayExtension {id} is in another namespace and no ReferenceGrant there allows TrafficPolicies of {own} to \
                 use it"
            )
        })
    }

    fn is_strict(&self) -> bool {
        let config = self.scope.get::<Config>(&());
        config.is_none_or(|config| config.policies.extension_grants != ExtensionGrants::Permissive)
    }

    /// What a policy should know that asks extensions of others, where it needs no grant for that.
    pub(crate) fn warnings(&self, policy: &TrafficPolicySpec) -> Vec<Problem> {
        if self.is_strict() {
            return Vec::new();
        }
        // Nobody logs people in by an extension of others without one.
        let named = units::extensions(policy).into_iter().filter(|(field, _)| field != "spec.oauth2.extensionRef");
        let warnings = named.filter_map(|(field, reference)| {
            let message = format!(
                "{}; it is asked all the same, since the setting policies.extensionGrants is Permissive: create one there \
                 before it is Strict",
                self.not_granted(&self.target(&reference))?
            );
            Some(Problem::new(Severity::Warning, Reason::RefNotPermitted, format!("{field}.namespace"), message))
        });
        warnings.collect()
    }
}

fn needs_grant(why: &str) -> String {
    format!("{why}; create one there, or name one of this namespace")
}

impl ExtensionReader for OfPolicy<'_, '_> {
    fn extension(&self, reference: &ExtensionReference) -> Result<Arc<Extension>, String> {
        let Self { scope, namespace: own } = self;
        let id = self.target(reference);
        let is_foreign = id.namespace != **own;
        if self.is_strict()
            && let Some(why) = self.not_granted(&id)
        {
            return Err(needs_grant(&why));
        }
        let Some(judged) = scope.get::<ExtensionRow>(&id) else {
            return Err(format!("GatewayExtension {id} does not exist; create it, or correct the name"));
        };
        match &judged.extension {
            // Its secret is shown in the name of who asks, and who asks sees the tokens that come back.
            Ok(extension) if is_foreign && extension.provider.client_secret().is_some() => {
                self.not_granted(&id).map_or_else(|| Ok(extension.clone()), |why| Err(needs_grant(&why)))
            }
            Ok(extension) => Ok(extension.clone()),
            // What it refers to is its owner's.
            Err(_) if is_foreign => Err(format!("GatewayExtension {id} is not valid; ask its owner, or name another")),
            Err(fault) => Err(format!("GatewayExtension {id} is not valid: {fault}")),
        }
    }
}
