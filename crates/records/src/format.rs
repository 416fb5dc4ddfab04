//! How a record is written and read: JSON, which may be compressed (gzip).

use std::{
    borrow::Cow,
    fmt,
    io::{Read as _, Write as _},
};

use flate2::{Compression, read::GzDecoder, write::GzEncoder};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

/// The number of the format that is written.
pub const FORMAT: u32 = 1;
/// That of editions whose parts are compressed.
pub const COMPRESSED: u32 = 2;
/// That of heads of what is kept of other roots than HTTPRoutes.
pub const OF_ANY_ROOT: u32 = 3;
/// What compressed data begins with, and no JSON does.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// How many bytes a compressed record may have that is read.
const MOST: u64 = 64 * 1024 * 1024;

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

    /// The highest format that can be read.
    const fn highest(self) -> u32 {
        match self {
            Self::Quarantine | Self::Verdicts => FORMAT,
            Self::Edition => OF_ANY_ROOT,
            Self::EditionPart => COMPRESSED,
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
        "its format is {found}, and this release reads formats up to {highest}: run the release that wrote it, or forget the record"
    )]
    Newer {
        /// What it says.
        found: u64,
        /// The highest that is read.
        highest: u32,
    },
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
    write_as(kind, FORMAT, record)
}

/// The same in another format.
pub(crate) fn write_as<T: Serialize>(kind: RecordKind, format: u32, record: &T) -> Vec<u8> {
    // Text as keys always serializes.
    serde_json::to_vec(&Written { format, kind: kind.as_str(), record }).unwrap_or_default()
}

/// The same bytes in fewer.
pub(crate) fn compress(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::default());
    // Memory takes all of it.
    let written = encoder.write_all(bytes).and_then(|()| encoder.finish());
    written.unwrap_or_else(|_| bytes.to_vec())
}

/// What was compressed, of so many bytes at most; what was not, as it is.
fn decompress(bytes: &[u8], most: u64) -> Result<Cow<'_, [u8]>, Unreadable> {
    if !bytes.starts_with(&GZIP) {
        return Ok(Cow::Borrowed(bytes));
    }
    let mut read = Vec::new();
    let taken = GzDecoder::new(bytes).take(most + 1).read_to_end(&mut read);
    taken.map_err(|error| Unreadable::Damaged(error.to_string()))?;
    if read.len() as u64 > most {
        return Err(Unreadable::Damaged(format!("it has more than {most} bytes")));
    }
    Ok(Cow::Owned(read))
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
    let value: Value = serde_json::from_slice(&decompress(bytes, MOST)?).map_err(damaged)?;
    // The head first: what else a later format has is not known.
    let head = Head::deserialize(&value).map_err(damaged)?;
    if head.format > u64::from(kind.highest()) {
        return Err(Unreadable::Newer { found: head.format, highest: kind.highest() });
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
        assert_eq!(read(newer), Err(Unreadable::Newer { found: 2, highest: 1 }));
    }

    #[test]
    fn what_is_compressed_is_read_as_what_is_not_and_never_without_bound() {
        let record = Quarantine::default();
        let written = write(RecordKind::Quarantine, &record);
        assert_eq!(read(&compress(&written)), Ok(record));
        let whole = compress(&written);
        for damaged in [&whole[..whole.len() - 1], &whole[..2], &[&whole[..10], &[0xff; 40]].concat()] {
            assert!(matches!(read(damaged), Err(Unreadable::Damaged(_))), "{:?}", read(damaged));
        }
        let large = compress(&[b' '; 1001]);
        assert!(large.len() < 100 && decompress(&large, 1001).is_ok());
        assert_eq!(decompress(&large, 1000), Err(Unreadable::Damaged("it has more than 1000 bytes".to_owned())));
    }
}
