//! What is wrong with an object, as a value.

use std::fmt::{self, Write as _};

use crate::Reason;

/// What a problem does to the traffic of the object that has it, worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// The object, or the part named by the field, is not served at all.
    Refused,
    /// The part named by the field answers a direct response in place of what it asked for.
    Replaced,
    /// The part named by the field has no effect; everything else is served as written.
    Ignored,
    /// Everything is served as written, yet the author probably meant something else.
    Warning,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Refused => "refused",
            Self::Replaced => "replaced",
            Self::Ignored => "ignored",
            Self::Warning => "warning",
        })
    }
}

/// Longest field or message, in bytes.
const MAX_TEXT: usize = 4000;

/// One thing that is wrong. The object it belongs to is told by whoever holds the problem.
///
/// The text is stable: the same fault gives the same words, without times and without an order that varies. Whatever
/// stands in the object, it is one line of bounded length with nothing in it that a terminal or a log would obey.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Problem {
    /// What becomes of the traffic.
    pub severity: Severity,
    /// The reason that a condition would have.
    pub reason: Reason,
    /// The path of the field, such as `spec.rules[0].backendRefs[1].name`.
    pub field: String,
    /// What is wrong, with the value, and what to do about it.
    pub message: String,
}

impl Problem {
    /// A problem at `field`; `message` says what is wrong and the remedy.
    pub fn new(severity: Severity, reason: Reason, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { severity, reason, field: legible(field.into()), message: legible(message.into()) }
    }
}

/// The text on one line, without its middle where it is too long: the remedy stands at its end.
pub fn legible(text: String) -> String {
    let text = if text.contains(disguises) { escaped(&text) } else { text };
    if text.len() <= MAX_TEXT {
        return text;
    }
    let half = (MAX_TEXT - '…'.len_utf8()) / 2;
    let (head, tail) = (text.floor_char_boundary(half), text.ceil_char_boundary(text.len() - half));
    format!("{}…{}", &text[..head], &text[tail..])
}

/// Whether a character would do something to the text around it instead of being seen: control characters, and those
/// that are invisible or turn the direction of writing.
fn disguises(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if disguises(c) {
            let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    out
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.field.is_empty() { f.write_str(&self.message) } else { write!(f, "{}: {}", self.field, self.message) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> String {
        Problem::new(Severity::Refused, Reason::Invalid, "", text).message
    }

    #[test]
    fn what_a_terminal_or_a_log_would_obey_is_escaped() {
        assert_eq!(message("a\nb\u{1b}[31m\u{202e}c é"), "a\\u{a}b\\u{1b}[31m\\u{202e}c é");
        let problem = Problem::new(Severity::Ignored, Reason::UnknownField, "spec.a\r\nb", "remove it");
        assert_eq!(problem.to_string(), "spec.a\\u{d}\\u{a}b: remove it");
    }

    #[test]
    fn a_long_text_keeps_its_beginning_and_its_remedy() {
        for filler in ["é", "€€", "\u{1f980}\n"] {
            let text = message(&format!("name {} is wrong: shorten it", filler.repeat(100_000)));
            assert!(text.len() <= MAX_TEXT && text.len() > MAX_TEXT - 32, "{}", text.len());
            assert!(text.starts_with("name ") && text.ends_with(" is wrong: shorten it"), "{text}");
        }
        let fits = "x".repeat(MAX_TEXT);
        assert_eq!(message(&fits), fits);
    }
}
