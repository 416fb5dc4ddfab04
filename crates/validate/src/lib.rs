//! What Envoy is known to refuse, found before anything is sent.
//!
//! Every function here takes plain strings or numbers and gives back either a checked value or an [`Invalid`] that
//! says what is wrong and what to write instead. None of them knows Kubernetes or protobuf, and none of them panics,
//! whatever it is given. What passes is accepted by Envoy 1.40; some of what Envoy would accept is refused too, where
//! it could not mean what its writer wants (a header name with a space) or where Gateway API forbids it.

use std::fmt::Write as _;

pub mod address;
pub mod cel;
pub mod cidr;
pub mod cors;
pub mod duration;
pub mod format;
pub mod grpc;
pub mod header;
pub mod host;
pub mod hostname;
pub mod jwks;
pub mod name;
pub mod number;
pub mod path;
pub mod quantity;
pub mod regex;
pub mod tls;

#[cfg(test)]
mod tests;

/// Longest part of a refused value that is repeated in a message, in characters.
const SHOWN: usize = 128;

/// Whether a text passes unread, for tests of what becomes of what Envoy refuses and no check here does. Only where debug assertions
/// are.
pub fn is_unchecked(text: &str) -> bool {
    cfg!(debug_assertions) && text.starts_with("test.portcullis.dev/unchecked")
}

/// A value that was refused, in the words in which it is reported.
///
/// The text is stable: the same value gives the same text, with nothing in it that depends on time or order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
#[error("\"{value}\" is refused: {why}; {remedy}")]
pub struct Invalid {
    /// The value, cut after 128 characters, its control characters escaped. Never a private key.
    pub value: String,
    /// What is wrong with it.
    pub why: String,
    /// What to write instead.
    pub remedy: String,
}

impl Invalid {
    /// A refusal of `value`, which is cut and escaped here.
    pub fn new(value: &str, why: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { value: shown(value), why: why.into(), remedy: remedy.into() }
    }
}

/// `value` as it may appear in a message: one line, bounded, nothing that a terminal or a log would obey.
pub fn shown(value: &str) -> String {
    let mut out = String::with_capacity(value.len().min(SHOWN + 3));
    for (count, c) in value.chars().enumerate() {
        if count == SHOWN {
            out.push('…');
            break;
        }
        // Bidirectional and invisible characters would let a value disguise the message around it.
        if c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
        {
            let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    out
}

/// Refuses what is longer than `max` characters.
fn at_most(value: &str, max: usize) -> Result<(), Invalid> {
    // Bytes bound characters from above, so only the doubtful are counted.
    if value.len() > max && value.chars().count() > max {
        return Err(Invalid::new(value, format!("it is longer than {max} characters"), "shorten it"));
    }
    Ok(())
}

/// Whether `byte` may stand in an RFC 9110 token, the alphabet of header, method and cookie names.
fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Refuses the empty string and every character that no RFC 9110 token has.
fn token(value: &str, what: &str) -> Result<(), Invalid> {
    if value.is_empty() {
        return Err(Invalid::new(value, format!("{what} is empty"), "name it, or remove the entry"));
    }
    if let Some(bad) = value.chars().find(|&c| !u8::try_from(c).is_ok_and(is_token_byte)) {
        return Err(Invalid::new(
            value,
            format!("{what} must not contain {}", quoted(bad)),
            "use letters, digits and !#$%&'*+-.^_`|~ only",
        ));
    }
    Ok(())
}

/// One character as it may appear in a message.
fn quoted(c: char) -> String {
    match c {
        ' ' => "a space".to_owned(),
        c => format!("'{}'", shown(c.encode_utf8(&mut [0; 4]))),
    }
}

/// The percent escapes of the UTF-8 bytes of `c`.
fn escaped(c: char) -> String {
    c.encode_utf8(&mut [0; 4]).bytes().fold(String::new(), |mut out, byte| {
        let _ = write!(out, "%{byte:02X}");
        out
    })
}
