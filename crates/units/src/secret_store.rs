//! Secrets, and the values in them.

use std::sync::Arc;

use api::{core::Secret, meta::StringMap};
use ir::NsName;

/// Secrets, whoever asks.
pub trait SecretStore {
    /// The Secret of this name; none where there is none.
    fn get(&self, id: &NsName) -> Option<Arc<Secret>>;

    /// The Secrets of a namespace that have all of these labels, by name.
    fn labelled(&self, namespace: &Arc<str>, labels: &StringMap) -> Vec<Arc<Secret>>;
}

/// A Secret that a policy may read.
pub(crate) fn find(secrets: &dyn SecretStore, id: &NsName) -> Result<Arc<Secret>, String> {
    secrets.get(id).ok_or_else(|| format!("Secret {id} does not exist; create it, or correct the name"))
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
