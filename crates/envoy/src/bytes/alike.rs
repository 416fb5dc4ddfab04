//! What many rows of a route configuration say alike in a slot, said once for all of them.
//!
//! To Envoy a filter that a row says completely costs as much as the rest of the row several times over. Of a slot in
//! [`slots::ALIKE`] the route configuration then says what most rows say there, each virtual host switches the slot off,
//! and a row that says exactly this says instead that the slot is on, so that Envoy takes what the next wider scope says: the
//! virtual host has no words for it, and the route configuration has these. A row with other words has them as before, and
//! one without any is as little held up as before, since nothing more is built for its requests.
//!
//! A row that switches on what its route configuration lacks would pass without the filter. So both are made from one
//! [`Alike`], and stand in one resource.

use std::{borrow::Cow, fmt};

use bytes::Bytes;
use ir::rule::Slot;

use super::{
    Hash, Row, field_len, key_and_len,
    readable::{Field, field},
    short_name, tag, version,
};
use crate::slots;

/// What a slot is told, by its content.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Said {
    hash: Hash,
    config: Bytes,
}

impl Said {
    fn new(config: Bytes) -> Self {
        Self { hash: version([&*config]), config }
    }
}

/// Without the content, which may have a credential.
impl fmt::Debug for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&short_name(&self.hash))
    }
}

/// What a row says in slots that its route configuration may say for it.
pub fn said(row: &Row) -> Vec<(&'static str, Said)> {
    let entries = fields(&row.bytes).filter_map(|(number, content, _)| (number == SLOTS).then(|| entry(content?))?);
    let entries = entries.filter(|(name, config)| !slots::is_switch(name, config));
    entries.map(|(name, config)| (name, Said::new(row.bytes.slice_ref(config)))).collect()
}

/// What a route configuration says for its rows; by default nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Alike {
    said: Box<[(&'static str, Said)]>,
    hash: Hash,
}

impl Alike {
    /// This, at most once a slot.
    pub fn new(said: impl Into<Box<[(&'static str, Said)]>>) -> Self {
        let mut said = said.into();
        said.sort_unstable_by_key(|(name, _)| *name);
        let names: Vec<_> = said.iter().map(|(name, said)| (version([name.as_bytes()]), said.hash)).collect();
        let hash = if said.is_empty() {
            Hash::default()
        } else {
            version(names.iter().flat_map(|(name, said)| [&name[..], &said[..]]))
        };
        Self { said, hash }
    }

    /// Its content hash; zeros for nothing.
    pub fn hash(&self) -> Hash {
        self.hash
    }

    /// The hash as a part of what is composed with it, which is none for nothing.
    pub(super) fn part(&self) -> &[u8] {
        if self.said.is_empty() { &[] } else { &self.hash }
    }

    /// What the route configuration says.
    pub fn slots(&self) -> impl Iterator<Item = Slot> {
        self.said.iter().map(|(name, said)| Slot { config: (*said.config).into(), ..slots::off(name) })
    }

    /// What each of its virtual hosts says, so that rows without words for a slot do without it.
    pub fn off(&self) -> impl Iterator<Item = Slot> {
        self.said.iter().map(|(name, _)| slots::off(name))
    }

    /// A row as it stands in the route configuration.
    pub(super) fn row<'a>(&self, row: &'a Row) -> Cow<'a, [u8]> {
        let is_said = |(name, config): &(&str, &[u8])| {
            self.said.iter().any(|(slot, said)| slot == name && said.config == *config)
        };
        let entries = fields(&row.bytes).filter(|(number, ..)| *number == SLOTS);
        if self.said.is_empty() || !entries.filter_map(|(_, content, _)| entry(content?)).any(|entry| is_said(&entry)) {
            return Cow::Borrowed(&row.bytes);
        }
        let mut written = Vec::with_capacity(row.bytes.len());
        for (number, content, whole) in fields(&row.bytes) {
            let said = content.filter(|_| number == SLOTS).and_then(entry).filter(is_said);
            match said {
                Some((name, _)) => switched_on(&mut written, name),
                None => written.extend_from_slice(whole),
            }
        }
        written.into()
    }
}

/// The field of a route with what it says in slots.
const SLOTS: u64 = tag::ROUTE_TYPED_PER_FILTER_CONFIG as u64;

/// Appends the entry that switches a slot on.
fn switched_on(row: &mut Vec<u8>, name: &'static str) {
    let on = slots::on(name).config;
    key_and_len(row, tag::ROUTE_TYPED_PER_FILTER_CONFIG, field_len(1, name.len()) + field_len(2, on.len()));
    super::delimited(row, 1, name.as_bytes());
    super::delimited(row, 2, &on);
}

/// The fields of a message: their numbers, what they have if it is text or a message, and all their bytes.
fn fields(message: &[u8]) -> impl Iterator<Item = (u64, Option<&[u8]>, &[u8])> {
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

/// An entry of a map, of a slot that may be said once.
fn entry(entry: &[u8]) -> Option<(&'static str, &[u8])> {
    let (mut name, mut config) = (None, &[][..]);
    for (number, content, _) in fields(entry) {
        match number {
            1 => name = slots::alike(content?),
            2 => config = content?,
            _ => {}
        }
    }
    Some((name?, config))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::Fields;
    use envoy_types::pb::{envoy::config::route::v3::Route, google::protobuf::Any};

    fn row(slots: &[Slot]) -> Row {
        let route = Route { name: "apps/shop/0/0".into(), ..Route::default() };
        let slots = slots.iter().map(|slot| (slot.name, &slot.config));
        Row::new(Fields::of(&route).map(tag::ROUTE_TYPED_PER_FILTER_CONFIG, slots).into_bytes()).expect("readable")
    }

    fn told(name: &'static str, what: &str) -> Slot {
        slots::slot(name, &Any { type_url: what.into(), ..Any::default() })
    }

    #[test]
    fn a_row_says_what_it_says_in_slots_that_ask_somebody() {
        let [off, csrf] = [slots::off(slots::EXT_AUTH[1]), told(slots::CSRF, "a")];
        let judged = told(slots::EXT_AUTH[0], "judge");
        let said = said(&row(&[judged.clone(), off, csrf]));
        assert_eq!(said, [(slots::EXT_AUTH[0], Said::new(Bytes::copy_from_slice(&judged.config)))]);
    }

    #[test]
    fn a_row_with_the_same_words_switches_the_slot_on_and_others_keep_theirs() {
        let [ours, theirs] = ["ours", "theirs"].map(|who| told(slots::EXT_AUTH[0], who));
        let besides = [told(slots::CSRF, "ours"), slots::off(slots::EXT_AUTH[1])];
        let with = |slot: &Slot| row(&[slot.clone(), besides[0].clone(), besides[1].clone()]);
        let alike = Alike::new(said(&row(std::slice::from_ref(&ours))));
        assert_eq!(alike.slots().map(|slot| slot.config).collect::<Vec<_>>(), std::slice::from_ref(&ours.config));
        assert_eq!(*alike.row(&with(&ours)), *with(&slots::on(slots::EXT_AUTH[0])).bytes);
        for row in [with(&theirs), with(&slots::off(slots::EXT_AUTH[0])), row(&besides), row(&[])] {
            assert_eq!(*alike.row(&row), *row.bytes);
            assert_eq!(*Alike::default().row(&row), *row.bytes);
        }
    }

    #[test]
    fn nothing_of_what_is_said_is_printed() {
        let said = said(&row(&[told(slots::EXT_AUTH[0], "a secret")]));
        assert!(!format!("{:?}", Alike::new(said)).contains("secret"));
    }
}
