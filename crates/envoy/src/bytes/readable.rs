//! Whether Envoy can read the resource in which encoded bytes are placed.
//!
//! A resource is read as a whole: one part that cannot be read takes away everything beside it. What a part says is
//! judged by `validate`; here its bytes are, whoever wrote them, so that no structure of a tenant that was let through
//! reaches further than itself. Texts are UTF-8 by their type.

use ir::rule::Slot;

use super::tag;

/// How deep Envoy lets messages nest below the outermost (protobuf's default).
const MAX_NESTING: usize = 100;

/// How many messages a route stands in: its virtual host, and itself below the route configuration.
const AROUND_ROUTE: usize = 2;

/// How many messages the configuration of a network filter stands in: its listener's chain, the filter, and the `Any` there, whose
/// value it is.
const AROUND_FILTER: usize = 4;

/// The longest route, in bytes. The largest that a sound rule was seen to need has a tenth of it.
const MAX_ROUTE: usize = 1 << 20;

/// The longest resource, in bytes (protobuf's bound on a message).
const MAX_RESOURCE: usize = i32::MAX as usize;

/// Why Envoy could not read what these bytes are a part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// Messages nest deeper than Envoy reads.
    #[error("it nests deeper than the {MAX_NESTING} messages that Envoy reads; flatten it")]
    Nested,
    /// It is too long.
    #[error("it has {length} bytes and may have {most} at most; shorten it")]
    Long {
        /// How long it is.
        length: usize,
        /// How long it may be.
        most: usize,
    },
}

/// Judges an encoded `envoy.config.route.v3.Route`.
pub(super) fn route(message: &[u8]) -> Result<(), Unreadable> {
    judge(message, MAX_NESTING - AROUND_ROUTE, MAX_ROUTE)
}

/// Judges the encoded configuration of a network filter.
pub(crate) fn filter(message: &[u8]) -> Result<(), Unreadable> {
    judge(message, MAX_NESTING - AROUND_FILTER, MAX_RESOURCE)
}

/// Judges an encoded resource that is made in one piece.
pub(super) fn resource(message: &[u8]) -> Result<(), Unreadable> {
    judge(message, MAX_NESTING, MAX_RESOURCE)
}

/// Judges the length of a resource whose parts were judged.
pub(super) fn composed(length: usize) -> Result<(), Unreadable> {
    if length > MAX_RESOURCE { Err(Unreadable::Long { length, most: MAX_RESOURCE }) } else { Ok(()) }
}

fn judge(message: &[u8], levels: usize, most: usize) -> Result<(), Unreadable> {
    if message.len() > most {
        return Err(Unreadable::Long { length: message.len(), most });
    }
    if nests_deeper(message, levels) { Err(Unreadable::Nested) } else { Ok(()) }
}

/// Whether more than so many messages may nest in this one. What is a text and what is a message is not known here, so
/// a text counts as the message that it might be: never too few are counted.
///
/// Each byte is looked at once at most, and those of a message that is too short to nest so deep not at all.
fn nests_deeper(message: &[u8], levels: usize) -> bool {
    let mut rest = message;
    // A level takes a key and a length.
    while rest.len() > 2 * levels + 1 {
        match field(&mut rest) {
            Some((_, Field::Delimited(body))) if levels == 0 || nests_deeper(body, levels - 1) => return true,
            Some(_) => {}
            None => return false,
        }
    }
    false
}

/// How many messages, texts and lists of numbers there are in an encoded message. A text counts as what stands in the
/// message that it might be, so it is not too few.
pub fn parts(message: &[u8]) -> u64 {
    within(message, MAX_NESTING)
}

/// The same of an encoded route with these slots, whose parts are known.
pub fn parts_of_route(route: &[u8], slots: &[Slot]) -> u64 {
    let known = |(name, config): (&[u8], &[u8])| {
        let slot = slots.iter().find(|slot| slot.name.as_bytes() == name && *slot.config == *config)?;
        Some(2 + parts(name) + slot.parts)
    };
    let (mut rest, mut all) = (route, 0);
    while let Some((number, field)) = field(&mut rest) {
        let Field::Delimited(body) = field else { continue };
        let of_slot = if number == SLOTS { entry(body).and_then(known) } else { None };
        all += 1 + of_slot.unwrap_or_else(|| parts(body));
    }
    all
}

/// The field of a route with what it says in slots.
pub(super) const SLOTS: u64 = tag::ROUTE_TYPED_PER_FILTER_CONFIG as u64;

/// An entry of a map: its key, and its value.
pub(super) fn entry(mut entry: &[u8]) -> Option<(&[u8], &[u8])> {
    let (mut name, mut config) = (None, &[][..]);
    while let Some((number, field)) = field(&mut entry) {
        match (number, field) {
            (1, Field::Delimited(content)) => name = Some(content),
            (2, Field::Delimited(content)) => config = content,
            (1 | 2, Field::Scalar) => return None,
            _ => {}
        }
    }
    Some((name?, config))
}

fn within(message: &[u8], levels: usize) -> u64 {
    let (mut rest, mut parts) = (message, 0);
    while !rest.is_empty() {
        match field(&mut rest) {
            Some((_, Field::Delimited(body))) if levels > 0 => parts += 1 + within(body, levels - 1),
            Some(_) => {}
            None => break,
        }
    }
    parts
}

/// Takes a number, which mostly is one byte long. Texts that are looked at as messages have many that are none, and
/// [`prost::encoding::decode_varint`] takes memory to say so.
#[inline]
fn varint(rest: &mut &[u8]) -> Option<u64> {
    match rest.split_first() {
        Some((byte, after)) if *byte < 0x80 => {
            *rest = after;
            Some(u64::from(*byte))
        }
        _ => long_varint(rest),
    }
}

fn long_varint(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for (at, byte) in rest.iter().take(10).enumerate() {
        number |= u64::from(byte & 0x7f) << (7 * at);
        if *byte < 0x80 {
            // The tenth has room for one bit.
            let fits = at < 9 || *byte < 2;
            *rest = &rest[at + 1..];
            return fits.then_some(number);
        }
    }
    None
}

/// A field of a message.
pub(super) enum Field<'a> {
    /// With content that may be a message.
    Delimited(&'a [u8]),
    /// A number.
    Scalar,
}

/// Takes the next field, with its number; none where this is no field.
pub(super) fn field<'a>(rest: &mut &'a [u8]) -> Option<(u64, Field<'a>)> {
    let key = varint(rest)?;
    let number = key >> 3;
    let length = match key & 7 {
        _ if number == 0 => return None,
        0 => return varint(rest).map(|_| (number, Field::Scalar)),
        1 => 8,
        2 => usize::try_from(varint(rest)?).ok()?,
        5 => 4,
        _ => return None,
    };
    let (content, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some((number, if key & 7 == 2 { Field::Delimited(content) } else { Field::Scalar }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::delimited;

    /// So many messages below the outermost, the innermost empty.
    fn nested(levels: usize) -> Vec<u8> {
        let mut message = Vec::new();
        for _ in 0..levels {
            let inner = std::mem::take(&mut message);
            delimited(&mut message, 1, &inner);
        }
        message
    }

    #[test]
    fn a_route_nests_as_deep_as_its_place_allows() {
        assert_eq!(route(&nested(98)), Ok(()));
        assert_eq!(route(&nested(99)), Err(Unreadable::Nested));
        assert_eq!(resource(&nested(100)), Ok(()));
        assert_eq!(resource(&nested(101)), Err(Unreadable::Nested));
    }

    #[test]
    fn depth_is_found_behind_whatever_stands_beside_it() {
        let mut message = vec![3 << 3, 0x80, 0x01, 4 << 3 | 1, 0, 0, 0, 0, 0, 0, 0, 0, 5 << 3 | 5, 0, 0, 0, 0];
        delimited(&mut message, 6, "a text that is no message".as_bytes());
        delimited(&mut message, 7, &nested(20));
        assert_eq!(route(&message), Ok(()));
        delimited(&mut message, 7, &nested(98));
        assert_eq!(route(&message), Err(Unreadable::Nested));
    }

    #[test]
    fn long_texts_and_garbage_are_no_depth() {
        for byte in 0..=u8::MAX {
            let _ = route(&[byte; 4096]);
        }
        for text in ["-----BEGIN CERTIFICATE-----\n".repeat(200), "/a".repeat(4000), "é".repeat(4000)] {
            let mut message = Vec::new();
            delimited(&mut message, 1, text.as_bytes());
            assert_eq!(route(&message), Ok(()), "{text}");
        }
    }

    #[test]
    fn numbers_are_read_as_messages_have_them() {
        let mut written = Vec::new();
        let numbers = (0..64).flat_map(|bit| [1 << bit, (1 << bit) - 1, u64::MAX - (1 << bit)]);
        for number in numbers {
            written.clear();
            prost::encoding::encode_varint(number, &mut written);
            let mut rest = &*written;
            assert_eq!((varint(&mut rest), rest.len()), (Some(number), 0));
        }
        for wrong in [&[][..], &[0x80], &[0x80; 10], &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]] {
            assert_eq!(varint(&mut &*wrong), None);
            assert!(prost::encoding::decode_varint(&mut &*wrong).is_err());
        }
    }

    #[test]
    fn what_is_too_long_is_refused_with_its_length() {
        let long = vec![0; MAX_ROUTE + 1];
        assert_eq!(route(&long), Err(Unreadable::Long { length: MAX_ROUTE + 1, most: MAX_ROUTE }));
        assert_eq!(composed(MAX_RESOURCE), Ok(()));
        assert!(composed(MAX_RESOURCE + 1).is_err());
    }
}
