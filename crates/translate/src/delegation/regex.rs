//! Whether a regular expression leads out of a path prefix.

use std::cell::Cell;

use regex_syntax::{
    ParserBuilder,
    hir::{Hir, HirKind},
};
use validate::regex::{ignores_case, literal_prefix};

/// How much is looked at to hold one pattern against all prefixes of a parent: parts of the pattern, each times the bytes of
/// the prefix. That is a millisecond or two; what people write takes a thousandth of it. Parts that repeat parts that repeat
/// others come to any number.
const MOST_EFFORT: usize = 1_000_000;

/// A pattern, read once for all prefixes that it is held against.
pub(super) struct Pattern {
    /// None for what is no pattern.
    hir: Option<Hir>,
    ignores_case: bool,
    /// What all that it matches begins with.
    beginning: String,
    /// What is left of [`MOST_EFFORT`].
    left: Cell<usize>,
}

impl Pattern {
    pub(super) fn read(pattern: &str) -> Self {
        let hir = ParserBuilder::new().utf8(false).build().parse(pattern).ok();
        Self {
            hir,
            ignores_case: ignores_case(pattern),
            beginning: literal_prefix(pattern),
            left: Cell::new(MOST_EFFORT),
        }
    }

    /// Whether it took more effort than is spent, so that it counts as what is not below.
    pub(super) fn is_too_much(&self) -> bool {
        self.left.get() == 0
    }

    /// Whether every path that it matches is `prefix`, which has no slash at its end, or begins with it and `/`.
    /// What ignores case is never below anything: how much it matches is easily misread.
    ///
    /// The pattern is walked with the set of places in the prefix at which a path may stand, so that no number of
    /// alternatives costs more than their text. Anchors and word boundaries count for nothing, as if they always held.
    pub(super) fn stays_below(&self, prefix: &str) -> bool {
        !self.ignores_case && self.all_is_below(prefix)
    }

    /// Whether everything that it matches begins with a slash, but for nothing at all.
    pub(super) fn begins_with_slash(&self) -> bool {
        self.all_is_below("")
    }

    fn all_is_below(&self, prefix: &str) -> bool {
        let Some(hir) = &self.hir else { return false };
        let mut both = self.beginning.bytes().zip(prefix.bytes());
        if both.any(|(own, other)| own != other) {
            return false;
        }
        let walk = Walk { prefix: prefix.as_bytes(), left: &self.left };
        walk.step(hir, Places::at(0, prefix.len())).is_some_and(|ends| walk.is_below(&ends))
    }
}

/// Where in the prefix a path may stand: after so many of its bytes, or (the last place) below it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Places(Vec<bool>);

impl Places {
    fn none(prefix: usize) -> Self {
        Self(vec![false; prefix + 2])
    }

    fn at(place: usize, prefix: usize) -> Self {
        let mut places = Self::none(prefix);
        places.0[place] = true;
        places
    }

    fn join(&mut self, others: &Self) {
        self.0.iter_mut().zip(&others.0).for_each(|(place, other)| *place |= other);
    }

    fn iter(&self) -> impl Iterator<Item = usize> {
        self.0.iter().enumerate().filter_map(|(place, there)| there.then_some(place))
    }
}

struct Walk<'a> {
    prefix: &'a [u8],
    left: &'a Cell<usize>,
}

impl Walk<'_> {
    /// Where a path stands after what `hir` matches; none if it may have left the prefix, or if nothing is left to look further.
    fn step(&self, hir: &Hir, from: Places) -> Option<Places> {
        if !self.may_look_at(1) {
            return None;
        }
        // Below the prefix everything stays.
        if !from.iter().any(|place| place <= self.prefix.len()) {
            return Some(from);
        }
        match hir.kind() {
            HirKind::Empty | HirKind::Look(_) => Some(from),
            HirKind::Literal(literal) if !self.may_look_at(literal.0.len()) => None,
            HirKind::Literal(literal) => literal.0.iter().try_fold(from, |places, byte| self.byte(*byte, &places)),
            HirKind::Class(class) => match class.literal().as_deref() {
                Some([byte]) => self.byte(*byte, &from),
                // Of several characters at most one goes on in the prefix.
                _ => None,
            },
            HirKind::Capture(capture) => self.step(&capture.sub, from),
            HirKind::Concat(parts) => parts.iter().try_fold(from, |places, part| self.step(part, places)),
            HirKind::Alternation(parts) => {
                let mut ends = Places::none(self.prefix.len());
                for part in parts {
                    ends.join(&self.step(part, from.clone())?);
                }
                Some(ends)
            }
            HirKind::Repetition(repetition) => {
                let mut places = from;
                // A repetition of the prefix's own bytes ends with the prefix: more of them change nothing.
                let rounds = |count: u32| usize::try_from(count).unwrap_or(usize::MAX).min(self.prefix.len() + 2);
                for _ in 0..rounds(repetition.min) {
                    places = self.step(&repetition.sub, places)?;
                }
                let mut ends = places.clone();
                let more = repetition.max.map_or(u32::MAX, |max| max.saturating_sub(repetition.min));
                for _ in 0..rounds(more) {
                    places = self.step(&repetition.sub, places)?;
                    let before = ends.clone();
                    ends.join(&places);
                    if ends == before {
                        break;
                    }
                }
                Some(ends)
            }
        }
    }

    /// Whether there is effort left for so many places.
    fn may_look_at(&self, count: usize) -> bool {
        self.left.set(self.left.get().saturating_sub(count.saturating_mul(self.prefix.len() + 2)));
        self.left.get() > 0
    }

    fn byte(&self, byte: u8, from: &Places) -> Option<Places> {
        let mut ends = Places::none(self.prefix.len());
        for place in from.iter() {
            let next = match self.prefix.get(place) {
                Some(expected) => *expected == byte,
                // Behind the prefix only a slash leads below it, and there everything stays.
                None => place > self.prefix.len() || byte == b'/',
            };
            if !next {
                return None;
            }
            ends.0[(place + 1).min(self.prefix.len() + 1)] = true;
        }
        Some(ends)
    }

    /// Whether a path that ends at these places has all of the prefix.
    fn is_below(&self, ends: &Places) -> bool {
        ends.iter().all(|place| place >= self.prefix.len())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stays_below(prefix: &str, pattern: &str) -> bool {
        Pattern::read(pattern).stays_below(prefix)
    }

    #[test]
    fn a_pattern_stays_below_only_if_all_that_it_matches_does() {
        for pattern in [
            "/a",
            "/a(/.*)?",
            "/a/.*",
            "/a(/[a-z]+)*",
            "^/a/b$",
            "/a\\b",
            "/a|/a/b",
            "/(a/b|a/c)",
            "(?:/a)/.+",
            "/a/../b",
            "/a/(?s:.)*",
            "[/]a/é+",
        ] {
            assert!(stays_below("/a", pattern), "{pattern}");
        }
        for pattern in [
            "/a.*",
            "/a.*|/admin",
            "/a(/.*)?|/b",
            "/ab",
            "/",
            ".*",
            "",
            "/a?",
            "/[ab]/c",
            "/a[/b]c",
            "(/a)*",
            "(/a|/b)/c",
            "(?i)/a/b",
            "(?i)/A",
            "/a/(?i:b)",
            "(",
            "/A/b",
        ] {
            assert!(!stays_below("/a", pattern), "{pattern}");
        }
        assert!(stays_below("/aaa", "(?:/a{3})/x") && stays_below("/aaa", "/a{3}(/x){2,}"));
        assert!(!stays_below("/aaa", "/a{2}") && !stays_below("/aaa", "/a{2,4}") && !stays_below("/aaa", "/a+"));
        // Below the root is everything that begins with a slash.
        assert!(stays_below("", "/.*") && stays_below("", "(/x)?") && !stays_below("", ".*") && !stays_below("", "x"));
    }

    #[test]
    fn what_repeats_itself_without_end_is_given_up() {
        let nested = format!("/a/{}x{}", "(".repeat(40), "+)".repeat(40));
        let pattern = Pattern::read(&nested);
        assert!(pattern.stays_below("/a") && !pattern.is_too_much(), "below it everything stays");
        assert!(!pattern.stays_below("/a/xx"), "what it begins with");
        let pattern = Pattern::read(&nested.replace("/a/", "(/a|/b)/"));
        assert!(!pattern.stays_below("/a"));
        let nested = format!("{}(|/a){}/b", "(".repeat(40), "{1,2})".repeat(40));
        let pattern = Pattern::read(&nested);
        assert!(!pattern.stays_below("/a") && pattern.is_too_much());
        let pattern = Pattern::read("/a/(([a-z]+)-?)+/{1,9}(b|c|/[0-9]+)*");
        assert!((0..1_000).all(|_| pattern.stays_below("/a")) && !pattern.is_too_much());
        let mut others = (0..1_000_000).map(|_| pattern.stays_below("/b"));
        assert!(!others.any(|below| below) && !pattern.is_too_much(), "what begins otherwise is no effort");
    }

    fn pattern() -> impl Strategy<Value = String> {
        let leaf =
            proptest::sample::select(vec!["/", "a", "b", "/a", ".", "[ab/]", "", "[^/]"]).prop_map(str::to_owned);
        leaf.prop_recursive(4, 24, 3, |inner| {
            prop_oneof![
                4 => proptest::collection::vec(inner.clone(), 1..4).prop_map(|parts| parts.concat()),
                2 => proptest::collection::vec(inner.clone(), 1..3).prop_map(|parts| format!("(?:{})", parts.join("|"))),
                1 => (inner, proptest::sample::select(vec!["*", "+", "?", "{2}", "{1,2}"]))
                    .prop_map(|(part, how)| format!("(?:{part}){how}")),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

        #[test]
        fn nothing_that_stays_below_matches_a_path_outside(
            pattern in pattern(),
            paths in proptest::collection::vec("[/ab]{0,6}", 40),
        ) {
            let regex = regex_lite::Regex::new(&format!("^(?:{pattern})$")).expect("a pattern");
            if stays_below("/a", &pattern) {
                for path in paths.iter().filter(|path| regex.is_match(path)) {
                    prop_assert!(path == "/a" || path.starts_with("/a/"), "{pattern} matches {path}");
                }
            }
        }
    }
}
