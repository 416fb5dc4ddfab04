//! Regular expressions by derivatives (Brzozowski): small, slow and nothing like a compiled automaton, so that it does
//! not repeat anybody's mistakes. RE2 syntax as far as worlds need it; everything else is refused.

use std::collections::BTreeSet;
use std::rc::Rc;

use anyhow::{Context, Result, bail, ensure};

/// An expression that matches whole texts.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Pattern(Rc<Node>);

#[derive(Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Node {
    /// No text at all.
    Nothing,
    /// The empty text.
    Empty,
    One(Set),
    Then(Pattern, Pattern),
    Or(Pattern, Pattern),
    Star(Pattern),
}

/// Characters: those in the ranges, or all but those.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Set {
    negated: bool,
    ranges: Vec<(char, char)>,
}

impl Set {
    fn has(&self, character: char) -> bool {
        self.ranges.iter().any(|(first, last)| (*first..=*last).contains(&character)) != self.negated
    }

    fn is_only(&self, character: char) -> bool {
        !self.negated && self.ranges.iter().all(|range| *range == (character, character))
    }
}

impl Pattern {
    /// Reads RE2 syntax.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let mut parser = Parser { rest: text, any_case: false };
        let pattern = parser.alternatives().with_context(|| format!("the oracle cannot read {text:?}"))?;
        ensure!(parser.rest.is_empty(), "the oracle cannot read {:?} of {text:?}", parser.rest);
        Ok(pattern)
    }

    /// Exactly this text.
    pub(super) fn literal(text: &str) -> Self {
        text.chars().rev().fold(Self::empty(), |rest, character| Self::one(character).then(rest))
    }

    /// `(/.*)?`: the end, or a further segment.
    pub(super) fn or_below() -> Self {
        Self::empty().or(Self::one('/').then(Self::any().star()))
    }

    /// This, followed by that.
    pub(super) fn then(self, next: Self) -> Self {
        match (&*self.0, &*next.0) {
            (Node::Nothing, _) | (_, Node::Nothing) => Self::nothing(),
            (Node::Empty, _) => next,
            (_, Node::Empty) => self,
            _ => Self(Rc::new(Node::Then(self, next))),
        }
    }

    /// Whether the whole text matches.
    pub(super) fn matches(&self, text: &str) -> bool {
        text.chars().fold(self.clone(), |pattern, character| pattern.after(character)).takes_empty()
    }

    /// Whether every text that matches is `prefix`, which has no slash at its end, or begins with it and a slash.
    pub(super) fn stays_below(&self, prefix: &str) -> bool {
        let mut left = self.clone();
        for character in prefix.chars() {
            if left.takes_empty() || !left.begins_only_with(character) {
                return false;
            }
            left = left.after(character);
        }
        left.begins_only_with('/')
    }

    /// Some texts that match, of different kinds.
    pub(super) fn examples(&self) -> BTreeSet<String> {
        const ENOUGH: usize = 6;
        let examples: BTreeSet<String> = match &*self.0 {
            Node::Nothing => BTreeSet::new(),
            Node::Empty => [String::new()].into(),
            Node::One(set) => set.example().into_iter().map(String::from).collect(),
            Node::Or(first, second) => first.examples().into_iter().chain(second.examples()).collect(),
            Node::Star(inner) => inner.examples().into_iter().take(1).chain([String::new()]).collect(),
            Node::Then(first, second) => {
                let ends = second.examples();
                first.examples().iter().flat_map(|start| ends.iter().map(move |end| format!("{start}{end}"))).collect()
            }
        };
        examples.into_iter().take(ENOUGH).collect()
    }

    fn nothing() -> Self {
        Self(Rc::new(Node::Nothing))
    }

    fn empty() -> Self {
        Self(Rc::new(Node::Empty))
    }

    fn one(character: char) -> Self {
        Self::set(false, vec![(character, character)])
    }

    fn any() -> Self {
        Self::set(true, vec![('\n', '\n')])
    }

    fn set(negated: bool, ranges: Vec<(char, char)>) -> Self {
        Self(Rc::new(Node::One(Set { negated, ranges })))
    }

    fn or(self, other: Self) -> Self {
        match (&*self.0, &*other.0) {
            (Node::Nothing, _) => other,
            (_, Node::Nothing) => self,
            _ if self == other => self,
            _ => Self(Rc::new(Node::Or(self, other))),
        }
    }

    fn star(self) -> Self {
        match &*self.0 {
            Node::Nothing | Node::Empty => Self::empty(),
            _ => Self(Rc::new(Node::Star(self))),
        }
    }

    fn takes_empty(&self) -> bool {
        match &*self.0 {
            Node::Nothing | Node::One(_) => false,
            Node::Empty | Node::Star(_) => true,
            Node::Then(first, second) => first.takes_empty() && second.takes_empty(),
            Node::Or(first, second) => first.takes_empty() || second.takes_empty(),
        }
    }

    /// What may follow once `character` was read.
    fn after(&self, character: char) -> Self {
        match &*self.0 {
            Node::Nothing | Node::Empty => Self::nothing(),
            Node::One(set) => {
                if set.has(character) {
                    Self::empty()
                } else {
                    Self::nothing()
                }
            }
            Node::Or(first, second) => first.after(character).or(second.after(character)),
            Node::Star(inner) => inner.after(character).then(self.clone()),
            Node::Then(first, second) => {
                let inside = first.after(character).then(second.clone());
                if first.takes_empty() { inside.or(second.after(character)) } else { inside }
            }
        }
    }

    /// Whether no text that matches begins with another character. No part of an expression is [`Node::Nothing`] unless
    /// the whole is, so every set that comes first really begins a text.
    fn begins_only_with(&self, character: char) -> bool {
        match &*self.0 {
            Node::Nothing | Node::Empty => true,
            Node::One(set) => set.is_only(character),
            Node::Or(first, second) => first.begins_only_with(character) && second.begins_only_with(character),
            Node::Star(inner) => inner.begins_only_with(character),
            Node::Then(first, second) => {
                first.begins_only_with(character) && (!first.takes_empty() || second.begins_only_with(character))
            }
        }
    }
}

impl Set {
    fn example(&self) -> Option<char> {
        let first = self.ranges.first().map(|(first, _)| *first);
        if self.negated { ['k', '7', 'A'].into_iter().find(|character| self.has(*character)) } else { first }
    }
}

struct Parser<'a> {
    rest: &'a str,
    any_case: bool,
}

impl Parser<'_> {
    fn take(&mut self, text: &str) -> bool {
        let rest = self.rest.strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn next(&mut self) -> Result<char> {
        let next = self.rest.chars().next().context("it ends too early")?;
        self.rest = &self.rest[next.len_utf8()..];
        Ok(next)
    }

    fn alternatives(&mut self) -> Result<Pattern> {
        if self.take("(?i)") {
            self.any_case = true;
        }
        let mut pattern = self.sequence()?;
        while self.take("|") {
            pattern = pattern.or(self.sequence()?);
        }
        Ok(pattern)
    }

    fn sequence(&mut self) -> Result<Pattern> {
        let mut pattern = Pattern::empty();
        while !self.rest.is_empty() && !self.rest.starts_with(['|', ')']) {
            let atom = self.atom()?;
            pattern = pattern.then(self.repeated(atom)?);
        }
        Ok(pattern)
    }

    fn repeated(&mut self, atom: Pattern) -> Result<Pattern> {
        let repeated = if self.take("*") {
            atom.star()
        } else if self.take("+") {
            atom.clone().then(atom.star())
        } else if self.take("?") {
            Pattern::empty().or(atom)
        } else if self.take("{") {
            let (count, rest) = self.rest.split_once('}').context("no end of a count")?;
            self.rest = rest;
            let (least, most) = count.split_once(',').unwrap_or((count, count));
            let (least, most): (usize, usize) = (least.parse()?, most.parse()?);
            let optional = Pattern::empty().or(atom.clone());
            let parts = std::iter::repeat_n(atom, least).chain(std::iter::repeat_n(optional, most - least));
            parts.fold(Pattern::empty(), Pattern::then)
        } else {
            return Ok(atom);
        };
        ensure!(!self.rest.starts_with(['*', '+', '?', '{']), "two counts at one place");
        Ok(repeated)
    }

    fn atom(&mut self) -> Result<Pattern> {
        Ok(match self.next()? {
            '(' => {
                ensure!(self.take("?:") || !self.rest.starts_with('?'), "a group with flags");
                let any_case = self.any_case;
                let inner = self.alternatives()?;
                self.any_case = any_case;
                ensure!(self.take(")"), "no end of a group");
                inner
            }
            '[' => self.class()?,
            '.' => Pattern::any(),
            '\\' => {
                let escaped = self.next()?;
                ensure!(!escaped.is_alphanumeric(), "\\{escaped}");
                Pattern::one(escaped)
            }
            special @ ('^' | '$' | '*' | '+' | '?' | '{' | '}' | ']') => bail!("{special} out of place"),
            character => self.range(false, vec![(character, character)]),
        })
    }

    fn class(&mut self) -> Result<Pattern> {
        let negated = self.take("^");
        let mut ranges = Vec::new();
        while !self.take("]") {
            let first = self.next()?;
            ensure!(first != '\\' && first != '[', "an escape in a class");
            let last = if self.rest.starts_with('-') && !self.rest.starts_with("-]") {
                self.next()?;
                self.next()?
            } else {
                first
            };
            ensure!(first <= last && last != '\\', "a range backwards");
            ranges.push((first, last));
        }
        ensure!(!ranges.is_empty(), "an empty class");
        Ok(self.range(negated, ranges))
    }

    fn range(&self, negated: bool, mut ranges: Vec<(char, char)>) -> Pattern {
        if self.any_case {
            let other = |character: char| {
                if character.is_ascii_lowercase() {
                    character.to_ascii_uppercase()
                } else {
                    character.to_ascii_lowercase()
                }
            };
            let both_letters = |range: &&(char, char)| range.0.is_ascii_alphabetic() && range.1.is_ascii_alphabetic();
            let others: Vec<_> =
                ranges.iter().filter(both_letters).map(|(first, last)| (other(*first), other(*last))).collect();
            ranges.extend(others);
        }
        Pattern::set(negated, ranges)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Pattern {
        Pattern::parse(text).expect("a pattern")
    }

    #[test]
    fn whole_texts_match() {
        for (text, matching, others) in [
            ("/a", vec!["/a"], vec!["", "/", "/ab", "x/a"]),
            ("/a.*", vec!["/a", "/ab", "/a/b"], vec!["/b", "/A"]),
            ("/a(/.*)?", vec!["/a", "/a/", "/a/b/c"], vec!["/ab"]),
            ("/(?:x|y)+", vec!["/x", "/xyx"], vec!["/", "/xz"]),
            ("/[a-c0-9]{2}", vec!["/a0", "/9c"], vec!["/a", "/a00", "/dd"]),
            ("/v[^/]{1,2}", vec!["/v1", "/v12"], vec!["/v", "/v/", "/v123"]),
            (r"/a\.b", vec!["/a.b"], vec!["/axb"]),
            ("(?i)/A[x-z]", vec!["/ax", "/AZ"], vec!["/aa"]),
            ("/a|/b", vec!["/a", "/b"], vec!["/a|/b"]),
        ] {
            for matched in matching {
                assert!(pattern(text).matches(matched), "{text} matches {matched:?}");
            }
            for other in others {
                assert!(!pattern(text).matches(other), "{text} does not match {other:?}");
            }
        }
    }

    #[test]
    fn what_stays_below_a_prefix_never_leaves_it() {
        for inside in
            ["/a", "/a/", "/a(/.*)?", "/a/[0-9]+", "/a|/a/b", "(/a)/x?", "/a(?:/x|/y){1,2}", "/a/../b", "/[a]"]
        {
            assert!(pattern(inside).stays_below("/a"), "{inside}");
        }
        for outside in ["/a.*", "/a.*|/admin", "/a/x|/b", "/?a", "/[ab]", "(?i)/a", "/a/?x", "/", "", "/a[/]?x"] {
            assert!(!pattern(outside).stays_below("/a"), "{outside}");
        }
    }

    #[test]
    fn examples_match() {
        for text in ["/a", "/a(/.*)?", "/(?:x|y)+", "/[a-c0-9]{2}", "/v[^/k]", r"/a\.b", "/a|/b"] {
            let examples = pattern(text).examples();
            assert!(!examples.is_empty(), "{text}");
            assert!(examples.iter().all(|example| pattern(text).matches(example)), "{text}: {examples:?}");
        }
    }

    #[test]
    fn what_it_does_not_know_is_refused() {
        for text in [r"\d", "^/a", "/a$", "(?s)/a", "(?i:a)", "[", "(", "a**", "[]"] {
            assert!(Pattern::parse(text).is_err(), "{text}");
        }
    }
}
