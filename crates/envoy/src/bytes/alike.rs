//! Rows whose route configuration says for them what they say alike ([`crate::alike`]).

use std::{borrow::Cow, fmt};

use bytes::Bytes;
use ir::rule::Slot;

use super::{
    Hash, Row, field_len, key_and_len,
    readable::{self, Field, SLOTS, entry, field},
    short_name, tag, version,
};

/// What a slot is told, by its content.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Said {
    hash: Hash,
    config: Bytes,
}

impl Said {
    /// This, encoded.
    pub(crate) fn new(config: Bytes) -> Self {
        Self { hash: version([&*config]), config }
    }
}

/// Without the content, which may have a credential.
impl fmt::Debug for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&short_name(&self.hash))
    }
}

/// What a row says in slots: their names, and what each is told.
pub(crate) fn slots(row: &Row) -> impl Iterator<Item = (&[u8], &[u8])> {
    fields(&row.bytes).filter_map(|(number, content, _)| (number == SLOTS).then(|| entry(content?))?)
}

/// What is said once in a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Once {
    pub(crate) said: Said,
    /// What switches it on for a row.
    pub(crate) on: Slot,
    /// What switches it off for all that say nothing of it.
    pub(crate) off: Slot,
}

/// What a route configuration says for its rows; by default nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Alike {
    once: Box<[Once]>,
    hash: Hash,
}

impl Alike {
    /// This, at most once a slot.
    pub(crate) fn of(mut once: Box<[Once]>) -> Self {
        once.sort_unstable_by_key(|once| once.on.name);
        let hashes: Vec<_> = once.iter().map(|once| (version([once.on.name.as_bytes()]), once.said.hash)).collect();
        let hash = if once.is_empty() {
            Hash::default()
        } else {
            version(hashes.iter().flat_map(|(name, said)| [&name[..], &said[..]]))
        };
        Self { once, hash }
    }

    /// Its content hash; zeros for nothing.
    pub fn hash(&self) -> Hash {
        self.hash
    }

    /// The hash as a part of what is composed with it, which is none for nothing.
    pub(super) fn part(&self) -> &[u8] {
        if self.once.is_empty() { &[] } else { &self.hash }
    }

    /// What the route configuration says.
    pub fn slots(&self) -> impl Iterator<Item = Slot> {
        self.once.iter().map(|once| Slot {
            config: (*once.said.config).into(),
            parts: readable::parts(&once.said.config),
            ..once.off.clone()
        })
    }

    /// What each of its virtual hosts says, so that rows without words for a slot do without it.
    pub fn off(&self) -> impl Iterator<Item = Slot> {
        self.once.iter().map(|once| once.off.clone())
    }

    /// A row as it stands in the route configuration.
    pub(crate) fn row<'a>(&self, row: &'a Row) -> Cow<'a, [u8]> {
        let on = |(name, config): (&[u8], &[u8])| {
            let mut all = self.once.iter();
            all.find(|once| once.on.name.as_bytes() == name && once.said.config == *config).map(|once| &once.on)
        };
        if self.once.is_empty() || !slots(row).any(|entry| on(entry).is_some()) {
            return Cow::Borrowed(&row.bytes);
        }
        let mut written = Vec::with_capacity(row.bytes.len());
        for (number, content, whole) in fields(&row.bytes) {
            match content.filter(|_| number == SLOTS).and_then(entry).and_then(on) {
                Some(slot) => switched_on(&mut written, slot),
                None => written.extend_from_slice(whole),
            }
        }
        written.into()
    }
}

/// Appends the entry of a slot.
fn switched_on(row: &mut Vec<u8>, slot: &Slot) {
    let body = field_len(1, slot.name.len()) + field_len(2, slot.config.len());
    key_and_len(row, tag::ROUTE_TYPED_PER_FILTER_CONFIG, body);
    super::delimited(row, 1, slot.name.as_bytes());
    super::delimited(row, 2, &slot.config);
}

/// The fields of a message: their numbers, what they have if it is text or a message, and all their bytes.
pub(crate) fn fields(message: &[u8]) -> impl Iterator<Item = (u64, Option<&[u8]>, &[u8])> {
    let mut rest = message;
    std::iter::from_fn(move || {
        let before = rest;
        let (number, field) = field(&mut rest)?;
        let content = match field {
            Field::Delimited(content) => Some(content),
            Field::Scalar => None,
        };
        Some((number, content, &before[..before.len() - rest.len()]))
    })
}
