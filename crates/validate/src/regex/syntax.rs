//! The intersection of RE2's and Rust's syntax, decided on Rust's syntax tree.

use regex_syntax::ast::{
    AssertionKind, Ast, ClassBracketed, ClassSet, ClassSetItem, ClassUnicode, ClassUnicodeKind, Flag, Flags,
    FlagsItemKind, GroupKind, HexLiteralKind, Literal, LiteralKind, Repetition, RepetitionKind, RepetitionRange, Span,
};

use super::Invalid;

/// Most copies of one thing that nested counted repetitions may ask of RE2.
const MAX_REPEAT: u32 = 1000;

/// The general categories that RE2 knows by name.
const CATEGORIES: &[&str] = &[
    "C", "Cc", "Cf", "Co", "L", "Ll", "Lm", "Lo", "Lt", "Lu", "M", "Mc", "Me", "Mn", "N", "Nd", "Nl", "No", "P", "Pc",
    "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "S", "Sc", "Sk", "Sm", "So", "Z", "Zl", "Zp", "Zs",
];

/// The scripts of living use that RE2 knows, and `Any`. RE2 compares names exactly.
const SCRIPTS: &[&str] = &[
    "Any",
    "Arabic",
    "Armenian",
    "Bengali",
    "Bopomofo",
    "Cherokee",
    "Common",
    "Cyrillic",
    "Devanagari",
    "Ethiopic",
    "Georgian",
    "Greek",
    "Gujarati",
    "Gurmukhi",
    "Han",
    "Hangul",
    "Hebrew",
    "Hiragana",
    "Inherited",
    "Kannada",
    "Katakana",
    "Khmer",
    "Lao",
    "Latin",
    "Malayalam",
    "Mongolian",
    "Myanmar",
    "Oriya",
    "Sinhala",
    "Syriac",
    "Tamil",
    "Telugu",
    "Thaana",
    "Thai",
    "Tibetan",
    "Yi",
];

/// Whether some part of the pattern ignores case.
pub(super) fn ignores_case(ast: &Ast) -> bool {
    let sets = |flags: &Flags| flags.flag_state(Flag::CaseInsensitive) == Some(true);
    match ast {
        Ast::Flags(set) => sets(&set.flags),
        Ast::Group(group) => {
            matches!(&group.kind, GroupKind::NonCapturing(flags) if sets(flags)) || ignores_case(&group.ast)
        }
        Ast::Repetition(repetition) => ignores_case(&repetition.ast),
        Ast::Alternation(alternation) => alternation.asts.iter().any(ignores_case),
        Ast::Concat(concat) => concat.asts.iter().any(ignores_case),
        _ => false,
    }
}

/// Walks the tree and refuses whatever RE2 refuses or reads differently.
pub(super) fn check(pattern: &str, ast: &Ast) -> Result<(), Invalid> {
    let mut walk = Walk { pattern, beyond_ascii: None };
    walk.ast(ast, MAX_REPEAT)?;
    if let Some(at) = walk.beyond_ascii.filter(|_| ignores_case(ast)) {
        return Err(walk.refuse(
            &at,
            "ignores the case of a character outside ASCII, whose bytes Envoy would fold one by one",
            "write both cases as an alternation",
        ));
    }
    Ok(())
}

struct Walk<'p> {
    pattern: &'p str,
    beyond_ascii: Option<Span>,
}

impl Walk<'_> {
    /// `budget` is how often a repetition inside may still copy its operand.
    fn ast(&mut self, ast: &Ast, budget: u32) -> Result<(), Invalid> {
        match ast {
            Ast::Empty(_) | Ast::Dot(_) | Ast::ClassPerl(_) => Ok(()),
            Ast::Flags(set) => self.flags(&set.flags),
            Ast::Literal(literal) => {
                self.literal(literal)?;
                if !literal.c.is_ascii() {
                    self.beyond_ascii.get_or_insert(literal.span);
                }
                Ok(())
            }
            Ast::Assertion(assertion) => match assertion.kind {
                AssertionKind::StartLine
                | AssertionKind::EndLine
                | AssertionKind::StartText
                | AssertionKind::EndText
                | AssertionKind::WordBoundary
                | AssertionKind::NotWordBoundary => Ok(()),
                _ => Err(self.refuse(&assertion.span, "is a word boundary that RE2 does not have", r"use \b or \B")),
            },
            Ast::ClassUnicode(class) => self.class_unicode(class),
            Ast::ClassBracketed(class) => self.class_bracketed(class),
            Ast::Repetition(repetition) => self.repetition(repetition, budget),
            Ast::Group(group) => {
                match &group.kind {
                    GroupKind::CaptureIndex(_) => {}
                    GroupKind::CaptureName { name, .. } => {
                        if !name.name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
                            return Err(self.refuse(
                                &name.span,
                                "is a group name that RE2 does not take",
                                "use ASCII letters, digits and underscores",
                            ));
                        }
                    }
                    GroupKind::NonCapturing(flags) => self.flags(flags)?,
                }
                self.ast(&group.ast, budget)
            }
            Ast::Alternation(alternation) => alternation.asts.iter().try_for_each(|a| self.ast(a, budget)),
            Ast::Concat(concat) => concat.asts.iter().try_for_each(|a| self.ast(a, budget)),
        }
    }

    fn flags(&self, flags: &Flags) -> Result<(), Invalid> {
        for item in &flags.items {
            let FlagsItemKind::Flag(flag) = &item.kind else {
                continue;
            };
            match flag {
                Flag::CaseInsensitive | Flag::MultiLine | Flag::DotMatchesNewLine | Flag::SwapGreed => {}
                Flag::Unicode | Flag::CRLF | Flag::IgnoreWhitespace => {
                    return Err(self.refuse(
                        &item.span,
                        "is a flag that RE2 does not have",
                        "use the flags i, m, s and U only",
                    ));
                }
            }
        }
        Ok(())
    }

    fn literal(&self, literal: &Literal) -> Result<(), Invalid> {
        let text = self.text(&literal.span);
        match literal.kind {
            LiteralKind::Verbatim => Ok(()),
            LiteralKind::Meta | LiteralKind::Superfluous => {
                let graphic = literal.c == ' ' || literal.c.is_ascii_punctuation();
                if graphic && text.len() == 2 {
                    Ok(())
                } else {
                    Err(self.refuse(
                        &literal.span,
                        "is an escape that RE2 does not have",
                        "write the character without a backslash",
                    ))
                }
            }
            LiteralKind::Special(_) if text.len() == 2 && text.starts_with('\\') => Ok(()),
            LiteralKind::HexFixed(HexLiteralKind::X) | LiteralKind::HexBrace(HexLiteralKind::X) => {
                // Rust skips blanks between the braces, RE2 does not.
                if !text.bytes().all(|b| b.is_ascii_hexdigit() || b"\\x{}".contains(&b)) {
                    Err(self.refuse(&literal.span, "has blanks in an escape", "remove them"))
                } else if literal.c.is_ascii() {
                    Ok(())
                } else {
                    Err(self.refuse(
                        &literal.span,
                        "stands for a character outside ASCII, where Envoy sees bytes",
                        "write the character itself, or its percent-encoded form in a path",
                    ))
                }
            }
            _ => Err(self.refuse(
                &literal.span,
                "is an escape that RE2 does not have",
                r"write the character itself, or \x41 or \x{41}",
            )),
        }
    }

    fn class_unicode(&self, class: &ClassUnicode) -> Result<(), Invalid> {
        let known = match &class.kind {
            ClassUnicodeKind::OneLetter(letter) => CATEGORIES.contains(&&*letter.encode_utf8(&mut [0; 4])),
            ClassUnicodeKind::Named(name) => CATEGORIES.contains(&name.as_str()) || SCRIPTS.contains(&name.as_str()),
            ClassUnicodeKind::NamedValue { .. } => false,
        };
        if known {
            Ok(())
        } else {
            Err(self.refuse(
                &class.span,
                "is a Unicode class that RE2 does not have by this name",
                r"use a general category such as \p{L} or a script such as \p{Latin}",
            ))
        }
    }

    fn class_bracketed(&self, class: &ClassBracketed) -> Result<(), Invalid> {
        match &class.kind {
            ClassSet::Item(item) => self.class_item(item),
            ClassSet::BinaryOp(op) => Err(self.refuse(
                &op.span,
                "is a set operation, which RE2 would read as plain characters",
                "list the characters of the class, and escape & - ~ that stand for themselves",
            )),
        }
    }

    fn class_item(&self, item: &ClassSetItem) -> Result<(), Invalid> {
        match item {
            ClassSetItem::Empty(_) | ClassSetItem::Ascii(_) | ClassSetItem::Perl(_) => Ok(()),
            ClassSetItem::Literal(literal) => self.class_literal(literal),
            ClassSetItem::Range(range) => {
                self.class_literal(&range.start)?;
                self.class_literal(&range.end)
            }
            ClassSetItem::Unicode(class) => self.class_unicode(class),
            ClassSetItem::Bracketed(nested) => Err(self.refuse(
                &nested.span,
                "is a class inside of a class, which RE2 would read as plain characters",
                r"write one class, and escape [ as \[",
            )),
            ClassSetItem::Union(union) => union.items.iter().try_for_each(|item| self.class_item(item)),
        }
    }

    fn class_literal(&self, literal: &Literal) -> Result<(), Invalid> {
        self.literal(literal)?;
        if literal.c.is_ascii() {
            return Ok(());
        }
        Err(self.refuse(
            &literal.span,
            "is a character outside ASCII in a class, which Envoy would read as its bytes",
            "write an alternation such as (?:é|è)",
        ))
    }

    fn repetition(&mut self, repetition: &Repetition, budget: u32) -> Result<(), Invalid> {
        match &*repetition.ast {
            Ast::Repetition(_) => {
                return Err(self.refuse(
                    &repetition.op.span,
                    "repeats a repetition, which RE2 refuses",
                    "put the inner one into a group, as in (?:a*)*",
                ));
            }
            Ast::Literal(literal) if !literal.c.is_ascii() => {
                return Err(self.refuse(
                    &repetition.op.span,
                    "repeats a character outside ASCII, of which Envoy would repeat the last byte",
                    "put the character into a group, as in (?:é)+",
                ));
            }
            _ => {}
        }
        let RepetitionKind::Range(range) = &repetition.op.kind else {
            return self.ast(&repetition.ast, budget);
        };
        if !is_plain_count(self.text(&repetition.op.span)) {
            return Err(self.refuse(
                &repetition.op.span,
                "is a count that RE2 reads as plain characters",
                "write {n}, {n,} or {n,m} without blanks and leading zeros",
            ));
        }
        let most = match *range {
            RepetitionRange::Exactly(n) | RepetitionRange::AtLeast(n) => n,
            RepetitionRange::Bounded(_, most) => most,
        };
        let left = budget / most.max(1);
        if left == 0 {
            return Err(self.refuse(
                &repetition.op.span,
                &format!("asks for more than {MAX_REPEAT} copies, nested repetitions multiplied"),
                "lower the counts",
            ));
        }
        self.ast(&repetition.ast, left)
    }

    fn text(&self, span: &Span) -> &str {
        self.pattern.get(span.start.offset..span.end.offset).unwrap_or_default()
    }

    fn refuse(&self, span: &Span, why: &str, remedy: &str) -> Invalid {
        let part = super::super::shown(self.text(span));
        Invalid::new(self.pattern, format!("{part} at byte {} {why}", span.start.offset), remedy)
    }
}

/// Whether `text` is `{n}`, `{n,}` or `{n,m}`, perhaps followed by `?`, in digits that RE2 takes for a count.
fn is_plain_count(text: &str) -> bool {
    let text = text.strip_suffix('?').unwrap_or(text);
    let Some(inner) = text.strip_prefix('{').and_then(|t| t.strip_suffix('}')) else {
        return false;
    };
    let number =
        |t: &str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit()) && (t.len() == 1 || !t.starts_with('0'));
    match inner.split_once(',') {
        None => number(inner),
        Some((least, "")) => number(least),
        Some((least, most)) => number(least) && number(most),
    }
}
