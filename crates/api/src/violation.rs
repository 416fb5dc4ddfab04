//! What is wrong with a field of an object.

use std::fmt;

/// A rule of the schema that an object breaks.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Violation {
    /// The field, such as `spec.rules[2].filters[0].requestRedirect.port`.
    pub path: String,
    /// Its value, cut if long; none where it is not one value that is wrong.
    pub value: Option<String>,
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
        Self { value: Some(value), ..Self::without_value(path, message) }
    }

    /// What is wrong with a field, whatever its value.
    pub fn without_value(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), value: None, message: message.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            None => write!(f, "{}: {}", self.path, self.message),
            Some(value) => write!(f, "{} is {value:?}: {}", self.path, self.message),
        }
    }
}
