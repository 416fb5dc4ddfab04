//! What stands in Secrets, as units ask for it.

use std::sync::Arc;

use api::{core::Secret, meta::StringMap, traffic_policy::secrets::SecretKeyReference};

use super::Refused;

/// Finds the Secrets that a policy names.
pub trait SecretReader {
    /// The Secret of this name and namespace; none means that of the policy. Or why there is none to be read, which says
    /// nothing of a Secret that the policy may not read.
    fn find(&self, namespace: Option<&Arc<str>>, name: &Arc<str>) -> Result<Arc<Secret>, String>;

    /// The Secrets of the policy's namespace that have all of these labels, by name.
    fn select(&self, labels: &StringMap) -> Vec<Arc<Secret>>;
}

/// For tests: whatever Secret is asked for is this one.
#[cfg(any(test, feature = "testing"))]
#[derive(Clone, Debug, Default)]
pub struct Everywhere(pub Arc<Secret>);

#[cfg(any(test, feature = "testing"))]
impl SecretReader for Everywhere {
    fn find(&self, _: Option<&Arc<str>>, _: &Arc<str>) -> Result<Arc<Secret>, String> {
        Ok(self.0.clone())
    }

    fn select(&self, _: &StringMap) -> Vec<Arc<Secret>> {
        vec![self.0.clone()]
    }
}

/// Most bytes of credentials in a unit. Each Envoy route that the unit holds for has a copy of its own.
pub(crate) const MOST_BYTES: usize = 512 << 10;

/// A Secret with a value of it, which is text; `default` is the key that is meant where none is written.
pub(crate) fn value<'a>(
    secrets: &dyn SecretReader,
    reference: &'a SecretKeyReference,
    default: &'a str,
    field: &str,
) -> Result<Text<'a>, Refused> {
    let refused = |message| Refused::new(field, message);
    let secret = secrets.find(reference.namespace.as_ref(), &reference.name).map_err(refused)?;
    let key = reference.key.as_deref().unwrap_or(default);
    if secret.data.get(key).is_none_or(|value| value.is_empty()) {
        let message = format!("Secret {}/{} has no data {key:?}: store it there", secret.namespace, secret.name);
        return Err(refused(message));
    }
    let text = Text { secret, key };
    if std::str::from_utf8(text.bytes()).is_err() {
        return Err(refused(text.wrong("it is not UTF-8; store text")));
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
