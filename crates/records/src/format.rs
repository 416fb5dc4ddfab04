//! How a record is written and read.

use std::fmt;

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

/// The number of the format that is written, and the highest that can be read.
pub const FORMAT: u32 = 1;

/// A kind of record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RecordKind {
    /// Objects that are set aside.
    Quarantine,
    /// What proxies refused.
    Verdicts,
    /// What is kept of a tree of routes.
    Edition,
    /// Objects of that, where they are many.
    EditionPart,
}

impl RecordKind {
    /// Every kind.
    pub const ALL: &'static [Self] = &[Self::Quarantine, Self::Verdicts, Self::Edition, Self::EditionPart];

    /// The kind as the label of a Secret and the name of a file have it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Quarantine => "quarantine",
            Self::Verdicts => "verdicts",
            Self::Edition => "edition",
            Self::EditionPart => "edition-part",
        }
    }
}

impl fmt::Display for RecordKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a record cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// It is damaged.
    #[error("it is no record: {0}")]
    Damaged(String),
    /// It is of another kind.
    #[error("it is a record of {found:?} and not of {expected}")]
    OfAnotherKind {
        /// What it says.
        found: String,
        /// What it must be.
        expected: RecordKind,
    },
    /// A later release wrote it.
    #[error(
        "its format is {0}, and this release reads formats up to {FORMAT}: run the release that wrote it, or forget the record"
    )]
    Newer(u64),
}

#[derive(Serialize)]
struct Written<'a, T> {
    format: u32,
    kind: &'static str,
    #[serde(flatten)]
    record: &'a T,
}

/// A record as bytes.
pub fn write<T: Serialize>(kind: RecordKind, record: &T) -> Vec<u8> {
    // Text as keys always serializes.
    serde_json::to_vec(&Written { format: FORMAT, kind: kind.as_str(), record }).unwrap_or_default()
}

/// The record that these bytes are.
///
/// # Errors
/// See [`Unreadable`].
pub fn read<T: DeserializeOwned>(kind: RecordKind, bytes: &[u8]) -> Result<T, Unreadable> {
    #[derive(Deserialize)]
    struct Head {
        format: u64,
        kind: String,
    }
    let damaged = |error: serde_json::Error| Unreadable::Damaged(error.to_string());
    let value: Value = serde_json::from_slice(bytes).map_err(damaged)?;
    // The head first: what else a later format has is not known.
    let head = Head::deserialize(&value).map_err(damaged)?;
    if head.format > u64::from(FORMAT) {
        return Err(Unreadable::Newer(head.format));
    }
    if head.kind != kind.as_str() {
        return Err(Unreadable::OfAnotherKind { found: head.kind, expected: kind });
    }
    T::deserialize(value).map_err(damaged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Quarantine;

    fn read(bytes: &[u8]) -> Result<Quarantine, Unreadable> {
        super::read(RecordKind::Quarantine, bytes)
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let record = Quarantine::default();
        assert_eq!(read(&write(RecordKind::Quarantine, &record)), Ok(record));
    }

    #[test]
    fn what_cannot_be_read_is_never_an_empty_record() {
        for bytes in
            [&b""[..], b"{}", b"[]", b"null", b"\xff", b"{\"format\":1}", b"{\"format\":1,\"kind\":\"quarantine\"}"]
        {
            assert!(matches!(read(bytes), Err(Unreadable::Damaged(_))), "{:?}", read(bytes));
        }
        let of_another = read(b"{\"format\":1,\"kind\":\"edition\",\"entries\":[]}");
        assert!(matches!(of_another, Err(Unreadable::OfAnotherKind { .. })), "{of_another:?}");
    }

    #[test]
    fn a_later_format_is_told_whatever_else_it_has() {
        let newer = br#"{"format":2,"kind":"quarantine","entries":"else"}"#;
        assert_eq!(read(newer), Err(Unreadable::Newer(2)));
    }
}
