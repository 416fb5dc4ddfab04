//! A strict reading of certificates and keys: what is not DER in the form of its RFC does not pass.
//!
//! The parsers at hand forgive more than `BoringSSL`, which Envoy loads certificates with. This one only judges the
//! form; the values are read elsewhere. Where `BoringSSL` forgives (an explicit version 1, unique identifiers), this
//! one does not, since nothing issues such certificates.

/// Tags of the universal class, constructed where DER has them so.
const BOOLEAN: u8 = 0x01;
const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
const OID: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;
const PRINTABLE_STRING: u8 = 0x13;
const TELETEX_STRING: u8 = 0x14;
const IA5_STRING: u8 = 0x16;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const BMP_STRING: u8 = 0x1e;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;

/// Tags of the context class, constructed.
const CONTEXT_0: u8 = 0xa0;
const CONTEXT_1: u8 = 0xa1;
const CONTEXT_3: u8 = 0xa3;

/// The object identifiers of RSA and elliptic curve keys.
const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
const EC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];

/// Bytes of the longest arc of an object identifier that is taken.
const MAX_ARC: usize = 8;

/// Deepest nesting of extension values; bounds the recursion.
const MAX_DEPTH: usize = 16;

/// Whether `der` is exactly one certificate.
pub(super) fn is_certificate(der: &[u8]) -> bool {
    certificate(der).is_some()
}

fn certificate(der: &[u8]) -> Option<()> {
    let mut outer = Reader(der);
    let mut fields = Reader(outer.only(SEQUENCE)?);
    let mut tbs = Reader(fields.next(SEQUENCE)?);
    let algorithm = fields.next(SEQUENCE)?;
    algorithm_identifier(algorithm)?;
    octets(fields.next(BIT_STRING)?)?;
    fields.end()?;

    let version = if tbs.is_next(CONTEXT_0) {
        match Reader(tbs.next(CONTEXT_0)?).only(INTEGER)? {
            [version @ 1..=2] => *version,
            _ => return None,
        }
    } else {
        0
    };
    integer(tbs.next(INTEGER)?)?;
    if tbs.next(SEQUENCE)? != algorithm {
        return None;
    }
    name(tbs.next(SEQUENCE)?)?;
    let mut validity = Reader(tbs.next(SEQUENCE)?);
    time(&mut validity)?;
    time(&mut validity)?;
    validity.end()?;
    name(tbs.next(SEQUENCE)?)?;
    let mut key = Reader(tbs.next(SEQUENCE)?);
    algorithm_identifier(key.next(SEQUENCE)?)?;
    octets(key.next(BIT_STRING)?)?;
    key.end()?;
    if version == 2 && tbs.is_next(CONTEXT_3) {
        extensions(Reader(tbs.next(CONTEXT_3)?).only(SEQUENCE)?)?;
    }
    tbs.end()
}

/// Whether `der` is exactly one RSA key of two primes (RFC 8017).
pub(super) fn is_pkcs1(der: &[u8]) -> bool {
    rsa_key(der).is_some()
}

/// Whether `der` is exactly one ECDSA key that names its curve (RFC 5915), without which `BoringSSL` does not read it.
pub(super) fn is_sec1(der: &[u8]) -> bool {
    ec_key(der, true).is_some()
}

/// Whether `der` is exactly one key in the first version of PKCS#8 (RFC 5208), the only one that `BoringSSL` reads.
pub(super) fn is_pkcs8(der: &[u8]) -> bool {
    let key = || {
        let mut fields = Reader(Reader(der).only(SEQUENCE)?);
        if fields.next(INTEGER)? != [0] {
            return None;
        }
        let algorithm = fields.next(SEQUENCE)?;
        algorithm_identifier(algorithm)?;
        let key = fields.next(OCTET_STRING)?;
        if fields.is_next(CONTEXT_0) {
            well_formed(fields.next(CONTEXT_0)?, MAX_DEPTH)?;
        }
        fields.end()?;
        match Reader(algorithm).next(OID)? {
            RSA => rsa_key(key),
            EC => ec_key(key, false),
            // Told apart, and refused, by what the certificate says.
            _ => Some(()),
        }
    };
    key().is_some()
}

fn rsa_key(der: &[u8]) -> Option<()> {
    let mut fields = Reader(Reader(der).only(SEQUENCE)?);
    if fields.next(INTEGER)? != [0] {
        return None;
    }
    for _ in 0..8 {
        unsigned(fields.next(INTEGER)?)?;
    }
    fields.end()
}

fn ec_key(der: &[u8], with_curve: bool) -> Option<()> {
    let mut fields = Reader(Reader(der).only(SEQUENCE)?);
    if fields.next(INTEGER)? != [1] {
        return None;
    }
    fields.next(OCTET_STRING)?;
    if with_curve || fields.is_next(CONTEXT_0) {
        oid(Reader(fields.next(CONTEXT_0)?).only(OID)?)?;
    }
    if fields.is_next(CONTEXT_1) {
        // Only the uncompressed form of the point; libraries differ in the others.
        let [0, 4, ..] = Reader(fields.next(CONTEXT_1)?).only(BIT_STRING)? else {
            return None;
        };
    }
    fields.end()
}

fn algorithm_identifier(content: &[u8]) -> Option<()> {
    let mut fields = Reader(content);
    oid(fields.next(OID)?)?;
    if !fields.0.is_empty() {
        well_formed(fields.0, MAX_DEPTH)?;
        fields.any()?;
    }
    fields.end()
}

fn name(content: &[u8]) -> Option<()> {
    let mut sets = Reader(content);
    while !sets.0.is_empty() {
        let mut attributes = Reader(sets.next(SET)?);
        loop {
            let mut attribute = Reader(attributes.next(SEQUENCE)?);
            oid(attribute.next(OID)?)?;
            let (tag, text) = attribute.any()?;
            attribute.end()?;
            let fits = match tag {
                UTF8_STRING => std::str::from_utf8(text).is_ok(),
                PRINTABLE_STRING | IA5_STRING => text.is_ascii(),
                TELETEX_STRING => true,
                BMP_STRING => {
                    let units = text.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
                    text.len() % 2 == 0
                        && units.into_iter().all(|unit| !(0xd800..0xe000).contains(&unit) && unit != 0xffff)
                }
                _ => false,
            };
            if !fits {
                return None;
            }
            if attributes.0.is_empty() {
                break;
            }
        }
    }
    Some(())
}

fn time(fields: &mut Reader<'_>) -> Option<()> {
    let (tag, text) = fields.any()?;
    let behind_year = match tag {
        UTC_TIME if text.len() == 13 => 2,
        GENERALIZED_TIME if text.len() == 15 => 4,
        _ => return None,
    };
    let (digits, zone) = text.split_at(text.len() - 1);
    if zone != b"Z" || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let (year, rest) = digits.split_at(behind_year);
    let year = number(year);
    let mut parts = rest.chunks(2).map(number);
    let (month, day) = (parts.next()?, parts.next()?);
    // A two-digit year is 1950 to 2049, in which 00 is a leap year, so the rule for four digits serves both.
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        _ => return None,
    };
    let (hour, minute, second) = (parts.next()?, parts.next()?, parts.next()?);
    ((1..=days).contains(&day) && hour < 24 && minute < 60 && second < 60).then_some(())
}

fn number(digits: &[u8]) -> u32 {
    digits.iter().fold(0, |value, digit| value * 10 + u32::from(digit.wrapping_sub(b'0')))
}

fn extensions(content: &[u8]) -> Option<()> {
    let mut seen = Vec::new();
    let mut list = Reader(content);
    loop {
        let mut fields = Reader(list.next(SEQUENCE)?);
        let id = fields.next(OID)?;
        oid(id)?;
        if fields.is_next(BOOLEAN) && fields.next(BOOLEAN)? != [0xff] {
            return None;
        }
        let value = fields.next(OCTET_STRING)?;
        fields.end()?;
        extension_value(id, value)?;
        if seen.contains(&id) {
            return None;
        }
        seen.push(id);
        if list.0.is_empty() {
            return Some(());
        }
    }
}

/// Judges the values of the extensions that `BoringSSL` reads when it loads a certificate; others it leaves alone.
fn extension_value(id: &[u8], value: &[u8]) -> Option<()> {
    // All of them are below 2.5.29.
    let [0x55, 0x1d, which] = id else {
        return Some(());
    };
    let mut whole = Reader(value);
    match which {
        // Subject key identifier.
        14 => whole.only(OCTET_STRING).map(|_| ()),
        // Key usage.
        15 => bits(whole.only(BIT_STRING)?),
        // Basic constraints.
        19 => {
            let mut fields = Reader(whole.only(SEQUENCE)?);
            if fields.is_next(BOOLEAN) && fields.next(BOOLEAN)? != [0xff] {
                return None;
            }
            if fields.is_next(INTEGER) {
                unsigned(fields.next(INTEGER)?)?;
            }
            fields.end()
        }
        // Extended key usage: object identifiers, at least one.
        37 => {
            let mut list = Reader(whole.only(SEQUENCE)?);
            loop {
                oid(list.next(OID)?)?;
                if list.0.is_empty() {
                    return Some(());
                }
            }
        }
        // Authority key identifier.
        35 => {
            let mut fields = Reader(whole.only(SEQUENCE)?);
            if fields.is_next(0x80) {
                fields.next(0x80)?;
            }
            let named = fields.is_next(0xa1);
            if named {
                well_formed(fields.next(0xa1)?, MAX_DEPTH)?;
            }
            if fields.is_next(0x82) {
                integer(fields.next(0x82)?)?;
            }
            fields.end()
        }
        // Alternative names, name constraints, distribution points.
        17 | 18 | 30 | 31 => {
            let content = whole.only(SEQUENCE)?;
            if content.is_empty() { None } else { well_formed(content, MAX_DEPTH) }
        }
        _ => Some(()),
    }
}

/// Judges a run of elements by their headers alone, down into the constructed ones.
fn well_formed(content: &[u8], depth: usize) -> Option<()> {
    let mut elements = Reader(content);
    while !elements.0.is_empty() {
        let (tag, inner) = elements.any()?;
        match tag {
            BOOLEAN if inner != [0] && inner != [0xff] => return None,
            INTEGER => integer(inner)?,
            OID => oid(inner)?,
            BIT_STRING => bits(inner)?,
            _ if tag & 0x20 != 0 => well_formed(inner, depth.checked_sub(1)?)?,
            _ => {}
        }
    }
    Some(())
}

/// An integer in its shortest form.
fn integer(content: &[u8]) -> Option<()> {
    match content {
        [] | [0, 0..=0x7f, ..] | [0xff, 0x80..=0xff, ..] => None,
        _ => Some(()),
    }
}

/// An integer in its shortest form, not below zero.
fn unsigned(content: &[u8]) -> Option<()> {
    integer(content)?;
    (content.first()? & 0x80 == 0).then_some(())
}

/// An object identifier whose arcs are whole and in their shortest form.
fn oid(content: &[u8]) -> Option<()> {
    if content.last()? & 0x80 != 0 {
        return None;
    }
    for arc in content.split_inclusive(|byte| byte & 0x80 == 0) {
        if arc.len() > MAX_ARC || arc.first() == Some(&0x80) {
            return None;
        }
    }
    Some(())
}

/// A bit string whose unused bits are zero.
fn bits(content: &[u8]) -> Option<()> {
    let (&unused, bytes) = content.split_first()?;
    match bytes.last() {
        None if unused == 0 => Some(()),
        Some(last) if unused < 8 && last.trailing_zeros() >= u32::from(unused) => Some(()),
        _ => None,
    }
}

/// A bit string of whole bytes.
fn octets(content: &[u8]) -> Option<()> {
    (content.first()? == &0).then_some(())
}

/// A run of DER elements.
struct Reader<'d>(&'d [u8]);

impl<'d> Reader<'d> {
    /// The content of the next element, which has `tag`.
    fn next(&mut self, tag: u8) -> Option<&'d [u8]> {
        let (found, content) = self.any()?;
        (found == tag).then_some(content)
    }

    /// The content of the only element, which has `tag`.
    fn only(&mut self, tag: u8) -> Option<&'d [u8]> {
        let content = self.next(tag)?;
        self.end()?;
        Some(content)
    }

    fn is_next(&self, tag: u8) -> bool {
        self.0.first() == Some(&tag)
    }

    fn end(&self) -> Option<()> {
        self.0.is_empty().then_some(())
    }

    /// Tag and content of the next element: a short tag, a definite length in its shortest form.
    fn any(&mut self) -> Option<(u8, &'d [u8])> {
        let (&tag, rest) = self.0.split_first()?;
        if tag & 0x1f == 0x1f || tag == 0 {
            return None;
        }
        let (&first, mut rest) = rest.split_first()?;
        let mut length = usize::from(first);
        if first & 0x80 != 0 {
            let (bytes, behind) =
                rest.split_at_checked(usize::from(first & 0x7f)).filter(|(bytes, _)| bytes.len() <= 3)?;
            length = bytes.iter().fold(0, |length, &byte| length << 8 | usize::from(byte));
            if *bytes.first()? == 0 || length < 0x80 {
                return None;
            }
            rest = behind;
        }
        let (content, behind) = rest.split_at_checked(length)?;
        self.0 = behind;
        Some((tag, content))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_definite_and_shortest() {
        let reads = |der: &[u8]| Reader(der).any().is_some();
        assert!(reads(&[0x04, 0x00]));
        assert!(reads(&[0x04, 0x01, 0xff]));
        assert!(!reads(&[0x04, 0x81, 0x01, 0xff]));
        assert!(!reads(&[0x30, 0x80, 0x00, 0x00]));
        assert!(!reads(&[0x04, 0x02, 0xff]));
        assert!(!reads(&[0x1f, 0x20, 0x00]));
        assert!(!reads(&[]));
    }

    #[test]
    fn numbers_and_identifiers_are_shortest() {
        assert!(integer(&[0x00, 0x80]).is_some() && integer(&[0x00]).is_some());
        assert!(integer(&[]).is_none() && integer(&[0x00, 0x7f]).is_none() && integer(&[0xff, 0x80]).is_none());
        assert!(oid(&[0x55, 0x1d, 0x11]).is_some());
        assert!(oid(&[]).is_none() && oid(&[0x55, 0x80]).is_none() && oid(&[0x55, 0x80, 0x01]).is_none());
        assert!(bits(&[0, 0xff]).is_some() && bits(&[7, 0x80]).is_some() && bits(&[0]).is_some());
        assert!(bits(&[]).is_none() && bits(&[7, 0x81]).is_none() && bits(&[8, 0]).is_none() && bits(&[1]).is_none());
    }

    #[test]
    fn times_exist_in_the_calendar() {
        let exists = |tag: u8, text: &str| {
            let mut der = vec![tag, u8::try_from(text.len()).expect("short")];
            der.extend_from_slice(text.as_bytes());
            time(&mut Reader(&der)).is_some()
        };
        assert!(exists(UTC_TIME, "240229235959Z") && exists(GENERALIZED_TIME, "20510101000000Z"));
        for bad in [
            "230229000000Z",
            "241301000000Z",
            "240100000000Z",
            "240101240000Z",
            "240101000060Z",
            "2401010000Z",
            "240101000000+",
        ] {
            assert!(!exists(UTC_TIME, bad), "{bad}");
        }
        assert!(!exists(GENERALIZED_TIME, "20510101000000.5Z"));
    }
}
