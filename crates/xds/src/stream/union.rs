//! What two versions of an extension's configuration say together.
//!
//! Routes refer to what such a configuration holds, by name. A version that lacks what the routes of before refer to must
//! not come before the routes that do without it, nor may one that lacks what new routes refer to come after them: so
//! between the two an Envoy has both. Nothing here knows the message: all that is repeated in these has keys (maps, and
//! messages that begin with their key), which is the rule for whoever makes them, and of one key the new version's holds. So
//! what the routes of before must not be judged by has another key. A version that holds nothing may be of another type.

use std::collections::{BTreeMap, BTreeSet};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use imbl::ordmap::DiffItem;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

use crate::resource::{Resource, Version, put_length};
use crate::snapshot::Resources;

/// The resources of both, each as `new` has it, with what `old` has of it besides.
pub(super) fn of_all(old: &Resources, mut new: Resources) -> Resources {
    let both = old.diff(&new).filter_map(|change| match change {
        DiffItem::Update { old: (_, old), new: (name, new) } => Some((name.clone(), of(old, new)?)),
        // What a client said that it has is not known.
        DiffItem::Remove(name, old) => old.has_body().then(|| (name.clone(), old.clone())),
        DiffItem::Add(..) => None,
    });
    let both: BTreeMap<_, _> = both.collect();
    for (name, resource) in both {
        new.insert(name, resource);
    }
    new
}

/// None where `new` says it all. Of two types one is there for what refers to nothing, and says no more than to refuse the rest.
fn of(old: &Resource, new: &Resource) -> Option<Resource> {
    let (old_body, new_body) = (old.body().concat(), new.body().concat());
    let (before, now) = (Extension::read(&old_body)?, Extension::read(&new_body)?);
    if before.type_url != now.type_url {
        return (old_body.len() > new_body.len()).then(|| old.clone());
    }
    let [was_present, present]: [BTreeSet<&[u8]>; 2] =
        [&before, &now].map(|extension| extension.fields.iter().map(|field| field.bytes).collect());
    if present.is_subset(&was_present) {
        // It is only less: the old one, as it is, spares Envoy an update.
        return Some(old.clone());
    }
    let keys: BTreeSet<_> = now.fields.iter().map(|field| (field.tag, field.key)).collect();
    let missing = before.fields.iter().filter(|field| !present.contains(field.bytes));
    let missing: Vec<_> = missing.filter(|field| !keys.contains(&(field.tag, field.key))).collect();
    if missing.is_empty() {
        return None;
    }
    let version = Version::of_all([old.content_version(), new.content_version()].into_iter());
    let fields = missing.into_iter().chain(&now.fields).map(|field| field.bytes);
    let body = now.with(&fields.collect::<Vec<_>>());
    Some(Resource::new(new.kind(), new.name(), version.into(), body))
}

/// A `TypedExtensionConfig`, read as far as needed.
struct Extension<'a> {
    name: &'a [u8],
    type_url: &'a [u8],
    fields: Vec<Field<'a>>,
}

/// A field of a message with its key and length.
struct Field<'a> {
    tag: u32,
    wire_type: WireType,
    /// All of it.
    bytes: &'a [u8],
    /// Without what says how long it is.
    value: &'a [u8],
    /// By what it is told from others of the tag: what it begins with, if that is a field of its own; nothing of a field
    /// that stands alone.
    key: &'a [u8],
}

impl<'a> Extension<'a> {
    fn read(message: &'a [u8]) -> Option<Self> {
        let [name, config] = texts(message)?;
        let [type_url, value] = texts(config)?;
        Some(Self { name, type_url, fields: fields(value)? })
    }

    /// The same with other fields.
    fn with(&self, fields: &[&[u8]]) -> Bytes {
        let value = fields.concat();
        let mut config = BytesMut::with_capacity(value.len() + self.type_url.len() + 16);
        for (tag, part) in [(1, self.type_url), (2, &value)] {
            put_length(tag, part.len(), &mut config);
            config.put_slice(part);
        }
        let mut out = BytesMut::with_capacity(config.len() + self.name.len() + 16);
        for (tag, part) in [(1, self.name), (2, &config)] {
            put_length(tag, part.len(), &mut out);
            out.put_slice(part);
        }
        out.freeze()
    }
}

/// The first two fields of a message that has no others; a field may be missing.
fn texts(message: &[u8]) -> Option<[&[u8]; 2]> {
    let mut texts: [&[u8]; 2] = [&[], &[]];
    for field in fields(message)? {
        *texts.get_mut(field.tag.checked_sub(1)? as usize)? =
            (field.wire_type == WireType::LengthDelimited).then_some(field.value)?;
    }
    Some(texts)
}

fn fields(mut rest: &[u8]) -> Option<Vec<Field<'_>>> {
    let mut fields = Vec::new();
    while rest.has_remaining() {
        let field = next(&mut rest)?;
        fields.push(field);
    }
    Some(fields)
}

fn next<'a>(rest: &mut &'a [u8]) -> Option<Field<'a>> {
    let whole = *rest;
    let (tag, wire_type) = decode_key(rest).ok()?;
    let mut value = *rest;
    skip_field(wire_type, tag, rest, DecodeContext::default()).ok()?;
    let bytes = &whole[..whole.len() - rest.len()];
    if wire_type == WireType::LengthDelimited {
        let len = usize::try_from(decode_varint(&mut value).ok()?).ok()?;
        value = value.get(..len)?;
    }
    let is_keyed = wire_type == WireType::LengthDelimited && value.first() == Some(&0x0A);
    Some(Field { tag, wire_type, bytes, value, key: if is_keyed { first(value) } else { &[] } })
}

/// The first field of a message; nothing if it is none.
fn first(message: &[u8]) -> &[u8] {
    let mut rest = message;
    let skipped = decode_key(&mut rest)
        .and_then(|(tag, wire_type)| skip_field(wire_type, tag, &mut rest, DecodeContext::default()));
    if skipped.is_ok() { &message[..message.len() - rest.len()] } else { &[] }
}
