//! Regular expressions as Envoy reads them: byte by byte.
//!
//! To RE2, as Envoy sets it up, each byte is a character below 256. A text outside ASCII is as long as its UTF-8, `.` and
//! classes take one byte of it, `\w` and its like none, and a Unicode class those of its members that are below 256.

use std::{
    collections::VecDeque,
    fmt::Write as _,
    sync::{Mutex, PoisonError},
};

use regex::bytes::{Regex, RegexBuilder};
use regex_syntax::{
    ast::{self, Ast, ClassSetItem, Span, Visitor},
    hir::{Class, HirKind},
};

/// How many patterns are kept compiled, and how large one may become, in bytes: all of them together stay small, and a
/// pattern that passed validation stays far below.
const KEPT: usize = 64;
const LARGEST: usize = 10 << 20;

/// Whether all of `text` matches.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    compiled(&format!(r"\A(?:{pattern})\z")).is_some_and(|regex| regex.is_match(text.as_bytes()))
}

/// What passed validation means the same here and in RE2. Only its size could be too much.
///
/// Compiling takes its time, and whoever asks once asks again: what was compiled last is kept.
pub(super) fn compiled(pattern: &str) -> Option<Regex> {
    static COMPILED: Mutex<VecDeque<(String, Option<Regex>)>> = Mutex::new(VecDeque::new());
    let kept = || COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, regex)) = kept().iter().find(|(known, _)| known == pattern) {
        return regex.clone();
    }
    let mut builder = RegexBuilder::new(&without_unicode(pattern));
    let regex = builder.unicode(false).size_limit(LARGEST).dfa_size_limit(1 << 18).build().ok();
    let mut kept = kept();
    kept.truncate(KEPT - 1);
    kept.push_front((pattern.to_owned(), regex.clone()));
    regex
}

/// The pattern with each Unicode class written as the bytes that it takes.
fn without_unicode(pattern: &str) -> String {
    let parsed = ast::parse::Parser::new().parse(pattern);
    let classes = parsed.ok().and_then(|parsed| ast::visit(&parsed, Classes(Vec::new())).ok()).unwrap_or_default();
    let (mut written, mut from) = (String::with_capacity(pattern.len()), 0);
    for Span { start, end } in classes {
        written.push_str(&pattern[from..start.offset]);
        written.push_str(&bytes_of(&pattern[start.offset..end.offset]));
        from = end.offset;
    }
    written.push_str(&pattern[from..]);
    written
}

/// A Unicode class as a class of bytes, which may stand inside of another.
fn bytes_of(class: &str) -> String {
    let class = regex_syntax::parse(class).ok().and_then(|class| match class.into_kind() {
        HirKind::Class(Class::Unicode(class)) => Some(class),
        _ => None,
    });
    let ranges = class.iter().flat_map(|class| class.iter());
    let bytes = ranges.filter_map(|range| Some((u8::try_from(range.start()).ok()?, u32::from(range.end()).min(0xff))));
    let bytes = bytes.fold(String::new(), |mut bytes, (start, end)| {
        let _ = write!(bytes, r"\x{start:02x}-\x{end:02x}");
        bytes
    });
    // A class must have a member: of none, all bytes are left out.
    if bytes.is_empty() { r"[^\x00-\xff]".to_owned() } else { format!("[{bytes}]") }
}

/// Where Unicode classes stand, in order.
struct Classes(Vec<Span>);

impl Visitor for Classes {
    type Output = Vec<Span>;
    type Err = std::convert::Infallible;

    fn finish(self) -> Result<Self::Output, Self::Err> {
        Ok(self.0)
    }

    fn visit_pre(&mut self, ast: &Ast) -> Result<(), Self::Err> {
        if let Ast::ClassUnicode(class) = ast {
            self.0.push(class.span);
        }
        Ok(())
    }

    fn visit_class_set_item_pre(&mut self, item: &ClassSetItem) -> Result<(), Self::Err> {
        if let ClassSetItem::Unicode(class) = item {
            self.0.push(class.span);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn a_text_outside_ascii_is_as_long_as_its_bytes() {
        for (pattern, text) in [
            ("é", "é"),
            ("..", "é"),
            ("[^a]{2}", "é"),
            (r"\W+", "é"),
            ("(?:é)+", "éé"),
            (".{4}", "😀"),
            ("a.*z", "a é z"),
            (r"\p{L}.", "é"),
            (r"[\p{Lu}x]\W", "é"),
            (r"[^\p{L}]", "1"),
            (r"\P{Greek}\P{Greek}", "é"),
            ("[a-z]+", "abc"),
        ] {
            assert!(matches(pattern, text), "{pattern} and {text}");
        }
        for (pattern, text) in [
            (".", "é"),
            (r"\w+", "é"),
            ("[^a]", "é"),
            (r"\p{L}", "é"),
            (r"\p{Greek}+", "Ω"),
            (r"\p{Ll}+", "é"),
            ("a.z", "aéz"),
        ] {
            assert!(!matches(pattern, text), "{pattern} and {text}");
        }
    }
}
