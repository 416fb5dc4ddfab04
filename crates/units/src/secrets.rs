//! What stands in Secrets, as units ask for it.

use std::sync::Arc;

use api::{core::Secret, meta::StringMap};
use ir::{NsName, rule::Slot};

use super::{api_key_auth::ApiKeys, basic_auth};

/// Secrets, whoever asks.
pub trait SecretStore {
    /// The Secret of this name; none where there is none.
    fn get(&self, id: &NsName) -> Option<Arc<Secret>>;

    /// The Secrets of a namespace that have all of these labels, by name.
    fn labelled(&self, namespace: &Arc<str>, labels: &StringMap) -> Vec<Arc<Secret>>;
}

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
            Self::Users(secret, key) => basic_auth::stored(secrets, secret, key),
            Self::ApiKeys(keys) => keys.slot(secrets),
        }
    }
}

/// A Secret that a policy may read.
pub(crate) fn find(secrets: &dyn SecretStore, id: &NsName) -> Result<Arc<Secret>, String> {
    secrets.get(id).ok_or_else(|| format!("Secret {id} does not exist; create it, or correct the name"))
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

/// Most bytes of credentials in a unit. Each Envoy route that the unit holds for has a copy of its own.
pub(crate) const MOST_BYTES: usize = 512 << 10;

/// A value of a Secret, which is text.
pub(crate) fn value<'a>(secrets: &dyn SecretStore, id: &NsName, key: &'a str) -> Result<Text<'a>, String> {
    let secret = find(secrets, id)?;
    if secret.data.get(key).is_none_or(|value| value.is_empty()) {
        return Err(format!("Secret {id} has no data {key:?}: store it there"));
    }
    let text = Text { secret, key };
    if std::str::from_utf8(text.bytes()).is_err() {
        return Err(text.wrong("it is not UTF-8; store text"));
    }
    Ok(text)
}

/// A value of a Secret that is text.
pub(crate) struct Text<'a> {
    secret: Arc<Secret>,
    key: &'a str,
}

impl Text<'_> {
    fn bytes(&self) -> &[u8] {
        self.secret.data.get(self.key).map_or(&[], |value| &**value)
    }

    /// The text.
    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(self.bytes()).unwrap_or_default()
    }

    /// What is wrong with it, in words that do not repeat it.
    pub(crate) fn wrong(&self, what: &str) -> String {
        format!("Secret {}/{}, {:?}: {what}", self.secret.namespace, self.secret.name, self.key)
    }
}
