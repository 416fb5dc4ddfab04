//! The words of an expression.

use super::{Fault, Literal};

/// A word.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    /// A value, other than a word for one.
    Literal(Literal),
    /// A name, or a word with a meaning.
    Name(String),
    /// A sign.
    Sign(&'static str),
}

/// Longer ones first.
const SIGNS: [&str; 24] = [
    "<=", ">=", "==", "!=", "&&", "||", "(", ")", "[", "]", "{", "}", ".", ",", "?", ":", "!", "-", "+", "*", "/", "%",
    "<", ">",
];

/// The words, in order.
pub(super) fn tokens(text: &str) -> Result<Vec<Token>, Fault> {
    let mut rest = text;
    let mut tokens = Vec::new();
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\n', '\r', '\u{c}']);
        if let Some(comment) = rest.strip_prefix("//") {
            rest = comment.find('\n').map_or("", |end| &comment[end..]);
            continue;
        }
        let Some(first) = rest.chars().next() else { return Ok(tokens) };
        let (token, length) = if let Some((prefix, quote)) = quoted(rest) {
            string(rest, prefix, quote)?
        } else if first.is_ascii_alphabetic() || first == '_' {
            let length = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
            (Token::Name(rest[..length].to_owned()), length)
        } else if first.is_ascii_digit() || first == '.' && rest[1..].starts_with(|c: char| c.is_ascii_digit()) {
            number(rest)?
        } else if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            (Token::Sign(sign), sign.len())
        } else {
            return Err(Fault::new(format!("{first:?} means nothing in CEL"), "remove it, or quote the text"));
        };
        tokens.push(token);
        rest = &rest[length..];
    }
}

/// A number, and its length.
fn number(text: &str) -> Result<(Token, usize), Fault> {
    let digits = |text: &str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let mut length = match hex {
        Some(hex) => 2 + (hex.len() - hex.trim_start_matches(|c: char| c.is_ascii_hexdigit()).len()),
        None => digits(text),
    };
    let mut is_double = false;
    if hex.is_none() {
        if let Some(fraction) = text[length..].strip_prefix('.').filter(|rest| digits(rest) > 0) {
            is_double = true;
            length += 1 + digits(fraction);
        }
        if let Some(exponent) = text[length..].strip_prefix(['e', 'E']) {
            let sign = usize::from(exponent.starts_with(['+', '-']));
            if digits(&exponent[sign..]) > 0 {
                is_double = true;
                length += 1 + sign + digits(&exponent[sign..]);
            }
        }
    }
    let written = &text[..length];
    let is_unsigned = !is_double && text[length..].starts_with(['u', 'U']);
    let (radix, digits) = if hex.is_some() { (16, &written[2..]) } else { (10, written) };
    let literal = if is_double {
        written.parse().ok().filter(|number: &f64| number.is_finite()).map(Literal::Double)
    } else if is_unsigned {
        u64::from_str_radix(digits, radix).ok().map(Literal::Uint)
    } else {
        i64::from_str_radix(digits, radix).ok().map(Literal::Int)
    };
    let length = length + usize::from(is_unsigned);
    if text[length..].starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_') {
        return Err(Fault::new(format!("a letter follows the number {written}"), "put a blank or a sign between them"));
    }
    let literal =
        literal.ok_or_else(|| Fault::new(format!("{written} is no number of 64 bits"), "use a smaller one"))?;
    Ok((Token::Literal(literal), length))
}

/// The letters before a text, and what stands at both of its ends; none where no text begins.
fn quoted(text: &str) -> Option<(&str, &'static str)> {
    let start = text.trim_start_matches(['r', 'R', 'b', 'B']);
    let prefix = &text[..text.len() - start.len()];
    let once = |letter: char| prefix.chars().filter(|c| c.eq_ignore_ascii_case(&letter)).count() <= 1;
    let quote = ["\"\"\"", "'''", "\"", "'"].into_iter().find(|quote| start.starts_with(*quote))?;
    (once('r') && once('b')).then_some((prefix, quote))
}

/// A text, and its length.
fn string(text: &str, prefix: &str, quote: &'static str) -> Result<(Token, usize), Fault> {
    let has = |letter: char| prefix.chars().any(|c| c.eq_ignore_ascii_case(&letter));
    let (is_raw, is_bytes) = (has('r'), has('b'));
    let unclosed = || Fault::new("a text does not end", "end it with the quote that it begins with");
    let mut rest = &text[prefix.len() + quote.len()..];
    let mut bytes = Vec::new();
    while !rest.starts_with(quote) {
        let next = rest.chars().next().ok_or_else(unclosed)?;
        if quote.len() == 1 && matches!(next, '\n' | '\r') {
            return Err(unclosed());
        }
        if next == '\\' && !is_raw {
            let (written, length) = escape(&rest[1..], is_bytes)?;
            match written {
                Escaped::Char(c) => bytes.extend(c.encode_utf8(&mut [0; 4]).as_bytes()),
                Escaped::Byte(byte) => bytes.push(byte),
            }
            rest = &rest[1 + length..];
        } else {
            bytes.extend(&rest.as_bytes()[..next.len_utf8()]);
            rest = &rest[next.len_utf8()..];
        }
    }
    let length = text.len() - rest.len() + quote.len();
    let literal = match String::from_utf8(bytes) {
        Ok(text) if !is_bytes => Literal::String(text),
        Ok(text) => Literal::Bytes(text.into_bytes()),
        Err(bytes) => Literal::Bytes(bytes.into_bytes()),
    };
    Ok((Token::Literal(literal), length))
}

enum Escaped {
    Char(char),
    Byte(u8),
}

/// What a backslash before `text` stands for, and how much of the text belongs to it.
fn escape(text: &str, is_bytes: bool) -> Result<(Escaped, usize), Fault> {
    let fault = || Fault::new("a backslash begins nothing that is known", r"write \\ for one, or an r before the text");
    let letter = text.chars().next().ok_or_else(fault)?;
    let simple = match letter {
        'a' => '\u{7}',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\u{b}',
        '\\' | '?' | '"' | '\'' | '`' => letter,
        'x' | 'X' | 'u' | 'U' | '0'..='3' => {
            let (from, length, radix) = match letter {
                'x' | 'X' => (1, 2, 16),
                'u' => (1, 4, 16),
                'U' => (1, 8, 16),
                _ => (0, 3, 8),
            };
            let digits = text.get(from..from + length).filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
            let number = digits.and_then(|digits| u32::from_str_radix(digits, radix).ok()).ok_or_else(fault)?;
            // Of bytes it is one, of a text a character.
            let escaped = match u8::try_from(number) {
                Ok(byte) if is_bytes => Escaped::Byte(byte),
                _ => Escaped::Char(char::from_u32(number).ok_or_else(fault)?),
            };
            return Ok((escaped, from + length));
        }
        _ => return Err(fault()),
    };
    Ok((Escaped::Char(simple), 1))
}
