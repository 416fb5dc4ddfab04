//! Reading what is written in a field.

use std::time::Duration;

use api::Mismatch;
use serde::de::DeserializeOwned;
use serde_json::Value;
use validate::duration;

use super::Refused;

/// Reads a mapping as `T`, and tells where it is another.
pub(crate) fn decode<T: DeserializeOwned>(written: &Value) -> Result<T, Refused> {
    api::decode_value(written).map_err(|(field, mismatch)| {
        let message = match mismatch {
            // What stands there is not told: it may be secret.
            Mismatch::WrongType { expected, .. } => format!("must be {expected}"),
            Mismatch::Other(_) => "has a value that is not valid here".to_owned(),
            known => known.to_string(),
        };
        Refused { field, message: format!("{message}; correct or remove it") }
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
