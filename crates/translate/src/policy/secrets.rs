//! The Secrets that policies name: those of their own namespace, and those of others under a ReferenceGrant.

use std::sync::Arc;

use api::{Kind, core::Secret, group::KGATEWAY_GROUP, meta::StringMap};
use engine::{Derived, Emitter, Lookup, Scope};
use ir::{NsName, rule::Slot};
use units::{Credentials, SecretReader, SecretStore};

use crate::{
    grant::{Referrer, permits},
    internal,
    tables::input::Secrets,
};

tables! {
    /// Files a Secret under its labels.
    SecretLabels: NsName => ();
}

groups! {
    /// The Secrets of a namespace with a label.
    SecretsLabelled: (Arc<str>, Box<str>, Box<str>), Arc<str> => ();
}

impl Derived for SecretLabels {
    fn compute(scope: &Emitter<'_>, id: &NsName) -> Option<()> {
        for (key, value) in &scope.get::<Secrets>(id)?.labels {
            let label = (id.namespace.clone(), key.clone(), value.clone());
            scope.emit::<SecretsLabelled>(label, id.name.clone(), ());
        }
        Some(())
    }
}

tables! {
    /// What guards by credentials in Secrets, or why nothing can: read once, and in memory once, for all policies that ask for
    /// the same. Whether one may is no part of it.
    CredentialSlots: Credentials => Result<Slot, String>;
}

impl Lookup for CredentialSlots {
    fn compute(scope: &Scope<'_>, credentials: &Credentials) -> Option<Self::Value> {
        Some(credentials.slot(&All(scope)))
    }

    /// Who asks for them is closed.
    fn poisoned(_: &Scope<'_>, _: &Credentials, _: &engine::Fault) -> Option<Self::Value> {
        Some(Err(format!("its credentials cannot be used: {}", internal::WORDS)))
    }
}

/// All Secrets.
struct All<'a, 'b>(&'a Scope<'b>);

impl SecretStore for All<'_, '_> {
    fn get(&self, id: &NsName) -> Option<Arc<Secret>> {
        self.0.get::<Secrets>(id)
    }

    fn labelled(&self, namespace: &Arc<str>, labels: &StringMap) -> Vec<Arc<Secret>> {
        let Some((key, value)) = labels.first() else { return Vec::new() };
        let label = (namespace.clone(), key.clone(), value.clone());
        let named = self.0.group::<SecretsLabelled>(&label);
        let secrets = named.iter().filter_map(|(name, ())| self.get(&NsName::new(namespace.clone(), name.clone())));
        secrets.filter(|secret| labels.iter().all(|(key, value)| secret.labels.get(key) == Some(value))).collect()
    }
}

/// The Secrets that a TrafficPolicy of a namespace may read.
pub(super) struct OfPolicy<'a, 'b> {
    all: All<'a, 'b>,
    namespace: &'a Arc<str>,
}

impl<'a, 'b> OfPolicy<'a, 'b> {
    pub(super) fn new(scope: &'a Scope<'b>, namespace: &'a Arc<str>) -> Self {
        Self { all: All(scope), namespace }
    }
}

impl SecretReader for OfPolicy<'_, '_> {
    fn namespace(&self) -> &Arc<str> {
        self.namespace
    }

    fn permitted(&self, namespace: Option<&Arc<str>>, name: &Arc<str>) -> Result<NsName, String> {
        let Self { all: All(scope), namespace: own } = self;
        let namespace = namespace.filter(|namespace| !namespace.is_empty()).unwrap_or(own);
        let id = NsName::new(namespace.clone(), name.clone());
        let kind = Kind::TrafficPolicy.as_str();
        if permits(scope, Referrer { group: KGATEWAY_GROUP, kind, namespace: own }, ("", "Secret"), &id) {
            return Ok(id);
        }
        Err(format!(
            "Secret {id} is in another namespace and no ReferenceGrant there allows TrafficPolicies of {own} to use it; \
             create one there, or name a Secret of this namespace"
        ))
    }

    fn store(&self) -> &dyn SecretStore {
        &self.all
    }

    fn made(&self, credentials: &Credentials) -> Result<Slot, String> {
        let found = self.all.0.get::<CredentialSlots>(credentials);
        found.map_or_else(|| Err(internal::WORDS.into()), |made| Result::clone(&made))
    }
}
