//! An upper bound of RE2's program size.
//!
//! RE2 counts the instructions of its flattened program. There, an alternative costs nothing of its own except a link
//! for each of its two ways that leads into another list; whatever consumes a byte or asserts a position costs one.
//! So the sum below, with every alternative at two, is never too low. Sizes saturate; they are only compared.

use regex_syntax::ast::{
    Ast, ClassAsciiKind, ClassBracketed, ClassPerlKind, ClassSet, ClassSetItem, ClassUnicode, GroupKind,
    RepetitionKind, RepetitionRange,
};
use regex_syntax::hir::{Class, HirKind};

/// The loop in front of an unanchored program, its end, and the instruction that fails.
const OVERHEAD: u64 = 8;

/// Both ways of an alternative.
const ALTERNATIVE: u64 = 2;

/// A loop over something that may be empty takes two alternatives.
const LOOP: u64 = 2 * ALTERNATIVE;

/// What matching the UTF-8 form of everything outside ASCII would take, if Envoy matched characters and not bytes.
const BEYOND_ASCII: u64 = 9;

/// Upper bound of the program size of a pattern that passed the syntax check; `fold` if any part ignores case.
pub(super) fn bound(ast: &Ast, fold: bool) -> u64 {
    size(ast, fold).saturating_add(OVERHEAD)
}

fn size(ast: &Ast, fold: bool) -> u64 {
    match ast {
        Ast::Empty(_) | Ast::Flags(_) | Ast::Assertion(_) => 1,
        Ast::Literal(literal) => literal.c.len_utf8() as u64,
        Ast::Dot(_) => 2 + BEYOND_ASCII,
        Ast::ClassPerl(_) | Ast::ClassUnicode(_) | Ast::ClassBracketed(_) => class(ast, fold),
        Ast::Repetition(repetition) => {
            let once = size(&repetition.ast, fold);
            match &repetition.op.kind {
                RepetitionKind::ZeroOrOne => once.saturating_add(ALTERNATIVE),
                RepetitionKind::ZeroOrMore | RepetitionKind::OneOrMore => once.saturating_add(LOOP),
                RepetitionKind::Range(range) => {
                    let (copies, alternatives) = match *range {
                        RepetitionRange::Exactly(n) => (n, 0),
                        RepetitionRange::AtLeast(n) => (n, LOOP),
                        RepetitionRange::Bounded(least, most) => {
                            (most, u64::from(most.saturating_sub(least)) * ALTERNATIVE)
                        }
                    };
                    once.saturating_mul(u64::from(copies.max(1))).saturating_add(alternatives)
                }
            }
        }
        Ast::Group(group) => {
            let inner = size(&group.ast, fold);
            match group.kind {
                GroupKind::NonCapturing(_) => inner,
                GroupKind::CaptureIndex(_) | GroupKind::CaptureName { .. } => inner.saturating_add(2),
            }
        }
        Ast::Alternation(alternation) => {
            alternation.asts.iter().fold(0, |sum: u64, a| sum.saturating_add(size(a, fold)).saturating_add(ALTERNATIVE))
        }
        Ast::Concat(concat) => concat.asts.iter().fold(0, |sum: u64, a| sum.saturating_add(size(a, fold))),
    }
}

/// One instruction for each range of bytes, since RE2 compiles a class to its ranges.
fn class(ast: &Ast, fold: bool) -> u64 {
    let set = match ast {
        Ast::ClassPerl(perl) => Bytes::perl(&perl.kind).negated_if(perl.negated),
        Ast::ClassUnicode(unicode) => Bytes::unicode(unicode, fold),
        Ast::ClassBracketed(bracketed) => Bytes::bracketed(bracketed, fold),
        _ => Bytes::default(),
    };
    set.ranges().max(1) + if set.beyond_ascii() { BEYOND_ASCII } else { 0 }
}

/// A set of characters below 256, which is all that a class can match in Envoy.
struct Bytes([bool; 256]);

impl Default for Bytes {
    fn default() -> Self {
        Self([false; 256])
    }
}

impl Bytes {
    fn of(member: impl Fn(u8) -> bool) -> Self {
        let mut set = Self::default();
        for byte in 0..=u8::MAX {
            set.0[usize::from(byte)] = member(byte);
        }
        set
    }

    fn perl(kind: &ClassPerlKind) -> Self {
        Self::of(|b| match kind {
            ClassPerlKind::Digit => b.is_ascii_digit(),
            ClassPerlKind::Space => matches!(b, b'\t' | b'\n' | 0x0c | b'\r' | b' '),
            ClassPerlKind::Word => b.is_ascii_alphanumeric() || b == b'_',
        })
    }

    fn ascii(kind: &ClassAsciiKind) -> Self {
        Self::of(|b| match kind {
            ClassAsciiKind::Alnum => b.is_ascii_alphanumeric(),
            ClassAsciiKind::Alpha => b.is_ascii_alphabetic(),
            ClassAsciiKind::Ascii => b.is_ascii(),
            ClassAsciiKind::Blank => matches!(b, b'\t' | b' '),
            ClassAsciiKind::Cntrl => b.is_ascii_control(),
            ClassAsciiKind::Digit => b.is_ascii_digit(),
            ClassAsciiKind::Graph => b.is_ascii_graphic(),
            ClassAsciiKind::Lower => b.is_ascii_lowercase(),
            ClassAsciiKind::Print => b == b' ' || b.is_ascii_graphic(),
            ClassAsciiKind::Punct => b.is_ascii_punctuation(),
            ClassAsciiKind::Space => matches!(b, b'\t' | b'\n' | 0x0b | 0x0c | b'\r' | b' '),
            ClassAsciiKind::Upper => b.is_ascii_uppercase(),
            ClassAsciiKind::Word => b.is_ascii_alphanumeric() || b == b'_',
            ClassAsciiKind::Xdigit => b.is_ascii_hexdigit(),
        })
    }

    fn unicode(class: &ClassUnicode, fold: bool) -> Self {
        let name = match &class.kind {
            regex_syntax::ast::ClassUnicodeKind::OneLetter(letter) => letter.to_string(),
            regex_syntax::ast::ClassUnicodeKind::Named(name) => name.clone(),
            regex_syntax::ast::ClassUnicodeKind::NamedValue { value, .. } => value.clone(),
        };
        let mut set = Self::default();
        if let Ok(hir) = regex_syntax::parse(&format!(r"\p{{{name}}}")) {
            match hir.kind() {
                HirKind::Class(Class::Unicode(members)) => {
                    for range in members.ranges() {
                        set.add(u32::from(range.start()), u32::from(range.end()));
                    }
                }
                // `\p{Any}` may be simplified to something that is not a class.
                _ => set.add(0, 255),
            }
        } else {
            set.add(0, 255);
        }
        set.folded_if(fold).negated_if(class.is_negated())
    }

    fn bracketed(class: &ClassBracketed, fold: bool) -> Self {
        let mut set = Self::default();
        if let ClassSet::Item(item) = &class.kind {
            set.add_item(item, fold);
        }
        set.folded_if(fold).negated_if(class.negated)
    }

    fn add_item(&mut self, item: &ClassSetItem, fold: bool) {
        match item {
            ClassSetItem::Empty(_) | ClassSetItem::Bracketed(_) => {}
            ClassSetItem::Literal(literal) => self.add(u32::from(literal.c), u32::from(literal.c)),
            ClassSetItem::Range(range) => self.add(u32::from(range.start.c), u32::from(range.end.c)),
            ClassSetItem::Ascii(class) => {
                self.join(&Self::ascii(&class.kind).folded_if(fold).negated_if(class.negated));
            }
            ClassSetItem::Perl(class) => self.join(&Self::perl(&class.kind).negated_if(class.negated)),
            ClassSetItem::Unicode(class) => self.join(&Self::unicode(class, fold)),
            ClassSetItem::Union(union) => union.items.iter().for_each(|item| self.add_item(item, fold)),
        }
    }

    fn add(&mut self, first: u32, last: u32) {
        for (_, member) in self.0.iter_mut().enumerate().filter(|(at, _)| {
            let at = u32::try_from(*at).unwrap_or(u32::MAX);
            first <= at && at <= last
        }) {
            *member = true;
        }
    }

    fn join(&mut self, other: &Self) {
        for (member, also) in self.0.iter_mut().zip(other.0) {
            *member |= also;
        }
    }

    fn folded_if(self, fold: bool) -> Self {
        if !fold {
            return self;
        }
        Self::of(|b| {
            let other = match b {
                b'A'..=b'Z' | 0xc0..=0xd6 | 0xd8..=0xde => b + 0x20,
                b'a'..=b'z' | 0xe0..=0xf6 | 0xf8..=0xfe => b - 0x20,
                b => b,
            };
            self.0[usize::from(b)] || self.0[usize::from(other)]
        })
    }

    fn negated_if(mut self, negated: bool) -> Self {
        if negated {
            for member in &mut self.0 {
                *member = !*member;
            }
        }
        self
    }

    fn ranges(&self) -> u64 {
        let mut before = false;
        self.0.iter().fold(0, |count, &member| {
            let starts = member && !before;
            before = member;
            count + u64::from(starts)
        })
    }

    fn beyond_ascii(&self) -> bool {
        self.0[128..].iter().any(|&member| member)
    }
}
