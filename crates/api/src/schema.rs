//! The rules that an API server applies to Gateway API objects before anybody sees them.

use std::fmt;

use crate::Object;

/// A rule of the schema that an object breaks.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Violation {
    /// The field, such as `spec.rules[2].filters[0].requestRedirect.port`.
    pub path: String,
    /// Its value, cut if long.
    pub value: String,
    /// What it must be.
    pub message: String,
}

impl Violation {
    pub(crate) fn new(path: impl Into<String>, value: impl fmt::Display, message: impl Into<String>) -> Self {
        let mut value = value.to_string();
        if let Some((end, _)) = value.char_indices().nth(100) {
            value.truncate(end);
            value.push_str("...");
        }
        Self { path: path.into(), value, message: message.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {:?}: {}", self.path, self.value, self.message)
    }
}

/// What an API server would refuse about the object, in the order of its fields; for a slim model, what was left out
/// of it.
pub fn violations(object: &Object) -> Vec<Violation> {
    match object {
        Object::Service(service) => service.invalid.to_vec(),
        Object::EndpointSlice(slice) => slice.invalid.to_vec(),
        Object::Secret(secret) => secret.invalid.to_vec(),
        _ => Vec::new(),
    }
}
