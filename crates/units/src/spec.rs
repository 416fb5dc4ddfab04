//! Reading what is written in a field.

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::Value;
use validate::duration;

use super::Refused;

/// Reads a mapping as `T`, and tells where it is another.
pub(crate) fn decode<T: DeserializeOwned>(written: &Value) -> Result<T, Refused> {
    if !written.is_object() {
        return Err(Refused::new("", format!("{written} is not a mapping; correct or remove it")));
    }
    serde_path_to_error::deserialize(written).map_err(|error| {
        let path = error.path().to_string();
        let field = if path == "." { "" } else { path.as_str() };
        Refused::new(field, format!("{}; correct or remove it", error.into_inner()))
    })
}

/// The duration at `field`, if one is written.
pub(crate) fn optional(text: Option<&str>, field: &str) -> Result<Option<Duration>, Refused> {
    text.map(duration::parse).transpose().map_err(Refused::at(field))
}

/// The same, above zero.
pub(crate) fn positive(text: Option<&str>, field: &str) -> Result<Option<Duration>, Refused> {
    text.map(duration::positive).transpose().map_err(Refused::at(field))
}
