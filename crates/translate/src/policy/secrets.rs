//! The Secrets that policies name: those of their own namespace, and those of others under a ReferenceGrant.

use std::sync::Arc;

use api::{Kind, core::Secret, group::KGATEWAY_GROUP, meta::StringMap};
use engine::{Derived, Emitter, Scope};
use ir::NsName;
use units::SecretReader;

use crate::{
    grant::{Referrer, permits},
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

/// The Secrets that a TrafficPolicy of a namespace may read.
pub(super) struct OfPolicy<'a, 'b> {
    pub(super) scope: &'a Scope<'b>,
    pub(super) namespace: &'a Arc<str>,
}

impl SecretReader for OfPolicy<'_, '_> {
    fn find(&self, namespace: Option<&Arc<str>>, name: &Arc<str>) -> Result<Arc<Secret>, String> {
        let Self { scope, namespace: own } = self;
        let namespace = namespace.filter(|namespace| !namespace.is_empty()).unwrap_or(own);
        let id = NsName::new(namespace.clone(), name.clone());
        let kind = Kind::TrafficPolicy.as_str();
        // First, so that nobody learns of a Secret that he may not read whether it exists.
        if !permits(scope, Referrer { group: KGATEWAY_GROUP, kind, namespace: own }, ("", "Secret"), &id) {
            return Err(format!(
                "Secret {id} is in another namespace and no ReferenceGrant there allows TrafficPolicies of {own} to use it; \
                 create one there, or name a Secret of this namespace"
            ));
        }
        scope.get::<Secrets>(&id).ok_or_else(|| format!("Secret {id} does not exist; create it, or correct the name"))
    }

    fn select(&self, labels: &StringMap) -> Vec<Arc<Secret>> {
        let Some((key, value)) = labels.first_key_value() else { return Vec::new() };
        let label = (self.namespace.clone(), key.clone(), value.clone());
        let named = self.scope.group::<SecretsLabelled>(&label);
        let secrets = named
            .iter()
            .filter_map(|(name, ())| self.scope.get::<Secrets>(&NsName::new(label.0.clone(), name.clone())));
        secrets.filter(|secret| labels.iter().all(|(key, value)| secret.labels.get(key) == Some(value))).collect()
    }
}
