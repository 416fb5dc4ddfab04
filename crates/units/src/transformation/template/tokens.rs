//! Words, signs, numbers and texts, of which expressions are made.

use super::{Expression, Refusal, refusal};

/// The largest whole number that a proxy can reckon with, and its opposite.
const MOST_WHOLE: i64 = 1 << 53;
/// The most operators, filters and values of one expression.
const MOST_PARTS: usize = 256;
/// The same of all of a template. A program has fewer instructions, but parentheses count here too.
const MOST_PARTS_TOGETHER: usize = 4096;

/// A place in a template.
pub(super) struct Cursor<'a> {
    pub(super) template: &'a str,
    pub(super) at: usize,
    /// In how many loops it stands.
    pub(super) loops: usize,
    /// Where the braces begin in which it stands.
    open: usize,
    /// How many parts stand there so far.
    parts: usize,
    /// How many stand in all of the template so far.
    together: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(template: &'a str) -> Self {
        Self { template, at: 0, loops: 0, open: 0, parts: 0, together: 0 }
    }

    /// Goes on from `at`, behind braces that begin at `open`.
    pub(super) fn begin(&mut self, open: usize, at: usize) {
        (self.open, self.at, self.parts) = (open, at, 0);
    }

    /// Must stand at the braces that end it, and tells whether blanks behind them go.
    pub(super) fn end(&mut self, braces: &str) -> Result<bool, Refusal> {
        let at = self.blanks();
        let rest = &self.template[at..];
        let trims = rest.starts_with('-') && rest[1..].starts_with(braces);
        if !trims && !rest.starts_with(braces) {
            return self.unexpected(at);
        }
        self.at = at + braces.len() + usize::from(trims);
        Ok(trims)
    }

    /// Letters, digits and `_`.
    pub(super) fn word(&mut self) -> &'a str {
        let rest = &self.template[self.at..];
        let length = rest.find(|c: char| c != '_' && !c.is_alphanumeric()).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    /// Whether a word stands here, which is passed then.
    pub(super) fn takes_word(&mut self, word: &str) -> bool {
        let at = self.blanks();
        if self.word() == word {
            return true;
        }
        self.at = at;
        false
    }

    pub(super) fn number(&mut self, at: usize) -> Result<Expression, Refusal> {
        let rest = &self.template[at..];
        let digits = |from: usize| rest[from..].bytes().take_while(u8::is_ascii_digit).count();
        let mut length = digits(0);
        let mut is_whole = true;
        if rest[length..].starts_with('.') && digits(length + 1) > 0 {
            length += 1 + digits(length + 1);
            is_whole = false;
        }
        if rest[length..].starts_with(['e', 'E']) {
            let sign = usize::from(rest[length + 1..].starts_with(['+', '-']));
            if digits(length + 1 + sign) > 0 {
                length += 1 + sign + digits(length + 1 + sign);
                is_whole = false;
            }
        }
        self.at = at + length;
        let written = &rest[..length];
        let is_more = rest[length..].starts_with(|c: char| c == '_' || c == '.' || c.is_alphanumeric());
        let number = written.parse::<i64>().ok().filter(|number| *number <= MOST_WHOLE && is_whole);
        match number {
            Some(number) if !is_more => Ok(Expression::Whole(number)),
            _ if !is_whole && !is_more && length <= 32 => Ok(Expression::Fraction(written.to_owned())),
            _ => refusal(
                at,
                "it is no number that is served",
                "write a whole number of at most 2^53, or one such as 1.5",
            ),
        }
    }

    /// A text in quotes.
    pub(super) fn text(&mut self, quote: char, at: usize) -> Result<String, Refusal> {
        let mut text = String::new();
        let mut chars = self.template[at + 1..].char_indices();
        while let Some((index, c)) = chars.next() {
            if c == quote {
                self.at = at + 2 + index;
                return Ok(text);
            }
            if c != '\\' {
                text.push(c);
                continue;
            }
            let c = match chars.next().map(|(_, c)| c) {
                Some(c @ ('"' | '\'' | '\\' | '/')) => Some(c),
                Some('b') => Some('\u{8}'),
                Some('f') => Some('\u{c}'),
                Some('n') => Some('\n'),
                Some('r') => Some('\r'),
                Some('t') => Some('\t'),
                Some('u') => {
                    let digits: String = chars.by_ref().take(4).map(|(_, c)| c).collect();
                    let is_hex = digits.len() == 4 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
                    u32::from_str_radix(&digits, 16).ok().filter(|_| is_hex).and_then(char::from_u32)
                }
                _ => None,
            };
            let Some(c) = c else {
                let why = "\\ stands before what it gives no meaning";
                return refusal(at + 1 + index, why, "write \\\\ for \\ itself");
            };
            text.push(c);
        }
        refusal(at, format!("{quote} begins a text that does not end"), format!("end it with {quote}"))
    }

    /// Where the next token begins.
    pub(super) fn blanks(&mut self) -> usize {
        let rest = &self.template[self.at..];
        self.at += rest.len() - rest.trim_start().len();
        self.at
    }

    /// Whether a sign stands here, which is passed then. What ends an expression is none.
    pub(super) fn takes(&mut self, sign: char) -> bool {
        let at = self.blanks();
        let rest = &self.template[at..];
        if !rest.starts_with(sign) || sign == '-' && (rest.starts_with("-}}") || rest.starts_with("-%}")) {
            return false;
        }
        self.at += sign.len_utf8();
        true
    }

    pub(super) fn must_take(&mut self, sign: char) -> Result<(), Refusal> {
        if self.takes(sign) {
            return Ok(());
        }
        let at = self.blanks();
        self.unexpected(at)
    }

    pub(super) fn count(&mut self, at: usize) -> Result<(), Refusal> {
        self.parts += 1;
        self.together += 1;
        if self.together > MOST_PARTS_TOGETHER {
            let why = format!("the template has more than {MOST_PARTS_TOGETHER} parts");
            return refusal(at.min(self.open), why, "leave some out");
        }
        if self.parts <= MOST_PARTS {
            return Ok(());
        }
        let why = format!("the expression has more than {MOST_PARTS} parts");
        refusal(at.min(self.open), why, "make several of it, with {% set %} or one behind the other")
    }

    /// Refuses what is not closed.
    pub(super) fn is_open(&self, at: usize) -> Result<(), Refusal> {
        if at < self.template.len() {
            return Ok(());
        }
        if self.template[self.open..].starts_with("{%") {
            return refusal(self.open, "{% begins a statement that does not end", "end it with %}");
        }
        refusal(self.open, "{{ begins an expression that does not end", "end it with }}, or write {{ \"{{\" }} for {{")
    }

    pub(super) fn unexpected<T>(&self, at: usize) -> Result<T, Refusal> {
        self.is_open(at)?;
        refusal(at, "something else is expected", "write a value, and operators and filters behind it")
    }
}
