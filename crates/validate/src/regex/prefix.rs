//! What all begins with that an expression matches.

use regex_syntax::hir::{Hir, HirKind, Repetition};

use super::time;

/// Longest text that is found, in bytes: an expression that is taken has no more instructions, and each byte takes one.
const LONGEST: usize = 1_024;

/// The text that everything which `pattern` matches begins with, 1,024 bytes of it at most; empty where there is none, or it is
/// no expression.
pub fn literal_prefix(pattern: &str) -> String {
    let Some(hir) = time::read(pattern) else { return String::new() };
    let Beginning { text, .. } = Beginning::of(&hir);
    // Alternatives may part in the middle of a character.
    text.utf8_chunks().next().map(|chunk| chunk.valid().to_owned()).unwrap_or_default()
}

/// What is known of the beginning of all that an expression matches.
struct Beginning {
    text: Vec<u8>,
    /// Whether it matches that and nothing else.
    is_all: bool,
}

impl Beginning {
    /// Assertions count as if they always held.
    fn of(hir: &Hir) -> Self {
        match hir.kind() {
            HirKind::Empty | HirKind::Look(_) => Self::exactly(b""),
            HirKind::Literal(literal) => Self::exactly(&literal.0),
            HirKind::Class(_) => Self::unknown(),
            HirKind::Capture(capture) => Self::of(&capture.sub),
            HirKind::Concat(parts) => {
                let mut begins = Self::exactly(b"");
                for part in parts {
                    if !begins.is_all {
                        break;
                    }
                    begins = begins.then(Self::of(part));
                }
                begins
            }
            HirKind::Alternation(parts) => {
                let begins = parts.iter().map(Self::of).reduce(|one, other| one.or(&other));
                begins.unwrap_or_else(Self::unknown)
            }
            HirKind::Repetition(repetition) => Self::repeated(repetition),
        }
    }

    fn exactly(text: &[u8]) -> Self {
        Self { text: text.to_vec(), is_all: true }.bounded()
    }

    fn unknown() -> Self {
        Self { text: Vec::new(), is_all: false }
    }

    fn repeated(repetition: &Repetition) -> Self {
        let once = Self::of(&repetition.sub);
        if repetition.min == 0 {
            return Self::exactly(b"").or(&once);
        }
        // More than what is kept is not written.
        let enough = LONGEST / once.text.len().max(1) + 1;
        let times = if once.is_all { enough.min(repetition.min as usize) } else { 1 };
        let is_fixed = repetition.max == Some(repetition.min) || once.text.is_empty();
        Self { text: once.text.repeat(times), is_all: once.is_all && is_fixed }.bounded()
    }

    /// This, which is all, and behind it the other.
    fn then(mut self, next: Self) -> Self {
        self.text.extend(next.text);
        self.is_all = next.is_all;
        self.bounded()
    }

    /// Either.
    fn or(mut self, other: &Self) -> Self {
        self.is_all &= other.is_all && self.text == other.text;
        let common = self.text.iter().zip(&other.text).take_while(|(own, others)| own == others).count();
        self.text.truncate(common);
        self
    }

    /// Of what is longer than what is kept no more is known.
    fn bounded(mut self) -> Self {
        self.is_all &= self.text.len() <= LONGEST;
        self.text.truncate(LONGEST);
        self
    }
}
