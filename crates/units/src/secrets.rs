//! What stands in Secrets, as units ask for it.

use std::sync::Arc;

#[cfg(any(test, feature = "testing"))]
use api::{core::Secret, meta::StringMap};
use ir::{NsName, rule::Slot};

use super::{api_keys::ApiKeys, htpasswd, secret_store::SecretStore};

/// The Secrets that a policy may read.
pub trait SecretReader {
    /// The policy's namespace.
    fn namespace(&self) -> &Arc<str>;

    /// The Secret that a policy means by this name and namespace, of which none means its own; or why it may not read it. Says
    /// nothing of whether it exists.
    fn permitted(&self, namespace: Option<&Arc<str>>, name: &Arc<str>) -> Result<NsName, String>;

    /// Where Secrets are, those too that the policy may not read.
    fn store(&self) -> &dyn SecretStore;

    /// What is made of credentials that the policy may read. Many policies may ask for the same, so a reader does well to
    /// have it made once.
    fn made(&self, credentials: &Credentials) -> Result<Slot, String> {
        credentials.slot(self.store())
    }
}

/// Credentials in Secrets, and what a unit does with them. What is made of them depends on nothing else.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Credentials {
    /// The users of a `basicAuth`, in this key of a Secret.
    Users(NsName, Box<str>),
    /// The keys of an `apiKeyAuth`.
    ApiKeys(ApiKeys),
}

impl Credentials {
    /// What guards by them, or why nothing can.
    pub fn slot(&self, secrets: &dyn SecretStore) -> Result<Slot, String> {
        match self {
            Self::Users(secret, key) => htpasswd::stored(secrets, secret, key),
            Self::ApiKeys(keys) => keys.slot(secrets),
        }
    }
}

/// For tests: whatever Secret is asked for is this one.
#[cfg(any(test, feature = "testing"))]
#[derive(Clone, Debug, Default)]
pub struct Everywhere(pub Arc<Secret>);

#[cfg(any(test, feature = "testing"))]
impl SecretStore for Everywhere {
    fn get(&self, _: &NsName) -> Option<Arc<Secret>> {
        Some(self.0.clone())
    }

    fn labelled(&self, _: &Arc<str>, _: &StringMap) -> Vec<Arc<Secret>> {
        vec![self.0.clone()]
    }
}

#[cfg(any(test, feature = "testing"))]
impl SecretReader for Everywhere {
    fn namespace(&self) -> &Arc<str> {
        &self.0.namespace
    }

    fn permitted(&self, namespace: Option<&Arc<str>>, name: &Arc<str>) -> Result<NsName, String> {
        Ok(NsName::new(namespace.unwrap_or(&self.0.namespace).clone(), name.clone()))
    }

    fn store(&self) -> &dyn SecretStore {
        self
    }
}
