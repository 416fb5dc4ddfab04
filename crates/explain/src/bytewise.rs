//! Regular expressions as Envoy reads them: byte by byte.
//!
//! To RE2, as Envoy sets it up, each byte is a character below 256. A text outside ASCII is as long as its UTF-8, `.` and
//! classes take one byte of it, `\w` and its like none, and a Unicode class those of its members that are below 256.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use regex::bytes::{Regex, RegexBuilder};
use validate::regex::without_unicode;

/// How many patterns are kept compiled, and how large one may become, in bytes: all of them together stay small, and a
/// pattern that passed validation stays far below.
const KEPT: usize = 64;
const LARGEST: usize = 10 << 20;

/// Whether all of `text` matches.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    compiled(&format!(r"\A(?:{pattern})\z")).is_some_and(|regex| regex.is_match(text.as_bytes()))
}

/// What passed validation means the same here and in RE2. Only its size could be too much.
///
/// Compiling takes its time, and whoever asks once asks again: what was compiled last is kept.
pub(crate) fn compiled(pattern: &str) -> Option<Regex> {
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
