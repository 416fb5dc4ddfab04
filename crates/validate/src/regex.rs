//! Regular expressions that RE2 and Rust read alike, and a bound on what they compile to.
//!
//! Envoy compiles with RE2, whose syntax differs from Rust's in both directions. What passes [`check`] is in the
//! intersection: RE2 compiles it, and it means there what it means here. The one difference that stays is the unit:
//! Envoy matches **bytes**. A `.` or a class takes one byte of a character outside ASCII, and a Unicode class such as
//! `\p{L}` only its members below 256. What would change its meaning through that (a class, a repetition or a
//! case-insensitive match of a character outside ASCII, `\x80` and above) is refused.
//!
//! Envoy also refuses programs larger than a runtime setting; [`MAX_PROGRAM_SIZE`] is what the bootstrap sets, for what
//! we write ourselves. Of what others write [`MAX_INSTRUCTIONS`] are taken. [`Regex::program_size`] is never below RE2's
//! own count. How long an expression may take is in [`time`].

use regex_syntax::ast::{self, Ast, ErrorKind};

use super::{Invalid, path};

mod bytes;
mod prefix;
mod size;
mod syntax;
pub mod time;

pub use bytes::without_unicode;
pub use prefix::literal_prefix;

/// Value of Envoy's runtime setting `re2.max_program_size.error_level` in every bootstrap of ours, in instructions.
pub const MAX_PROGRAM_SIZE: u32 = 32_768;

/// Most instructions of an expression that somebody writes, as [`program_size`] counts them. Each takes 16 bytes in every
/// virtual host that has the expression, and time to compile whenever the routes of a proxy change.
pub const MAX_INSTRUCTIONS: u32 = 1_024;

/// Longest pattern that is looked at, in bytes. Gateway API allows 4,096 characters, and delegation joins patterns.
pub const MAX_LENGTH: usize = 16_384;

/// Deepest nesting of groups and classes; bounds the recursion here, RE2 itself has none.
const MAX_DEPTH: u32 = 100;

/// A pattern that Envoy compiles.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Regex {
    pattern: String,
    program_size: u32,
}

impl Regex {
    /// The pattern, as it was given.
    pub fn as_str(&self) -> &str {
        &self.pattern
    }

    /// The pattern, as it was given.
    pub fn into_string(self) -> String {
        self.pattern
    }

    /// Upper bound of RE2's program size, in instructions; at most [`MAX_INSTRUCTIONS`].
    pub fn program_size(&self) -> u32 {
        self.program_size
    }
}

/// Accepts `pattern` if RE2 and Rust agree on it and Envoy takes its size.
pub fn check(pattern: &str) -> Result<Regex, Invalid> {
    let size = program_size(pattern)?;
    match u32::try_from(size) {
        Ok(size) if size <= MAX_INSTRUCTIONS => Ok(Regex { pattern: pattern.to_owned(), program_size: size }),
        _ => Err(Invalid::new(
            pattern,
            format!("the regular expression compiles to about {size} instructions, more than {MAX_INSTRUCTIONS}"),
            "lower its repetition counts or split it",
        )),
    }
}

/// Upper bound of the program size to which RE2 compiles `pattern`, in instructions, whether or not Envoy takes it.
///
/// Errors are those of the syntax alone.
pub fn program_size(pattern: &str) -> Result<u64, Invalid> {
    let ast = parse(pattern)?;
    syntax::check(pattern, &ast)?;
    Ok(size::bound(&ast, syntax::ignores_case(&ast)))
}

/// Whether any part of `pattern` ignores case. Of what is no regular expression this is not known, so it is said to.
pub fn ignores_case(pattern: &str) -> bool {
    parse(pattern).map_or(true, |ast| syntax::ignores_case(&ast))
}

/// Accepts what takes the place of a match of `pattern` in a path: `\1` to `\9` stand for groups that it has, `\0` for all
/// of the match, and two backslashes for one.
///
/// White space, control characters and what is outside ASCII are refused: they would end the request line, or have no
/// place in it. What stands between groups is judged as a part of a path ([`path::part`]); a backslash counts as the slash
/// that many take it for.
pub fn substitution(pattern: &Regex, text: &str) -> Result<(), Invalid> {
    let groups = groups(&parse(pattern.as_str())?);
    let mut literal = String::new();
    let part = |literal: &mut String| {
        let judged = path::part(literal).map_err(|refused| Invalid::new(text, refused.why, refused.remedy));
        literal.clear();
        judged
    };
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        if !c.is_ascii_graphic() {
            return Err(Invalid::new(
                text,
                "it has a character that cannot stand in a path",
                "write its percent escape",
            ));
        }
        if c != '\\' {
            literal.push(c);
            continue;
        }
        match rest.next() {
            Some('\\') => literal.push('/'),
            Some(digit) if digit.is_ascii_digit() => {
                part(&mut literal)?;
                if digit.to_digit(10).is_some_and(|group| group > groups) {
                    let why = format!("\\{digit} is a group that the expression does not have: it has {groups}");
                    return Err(Invalid::new(text, why, "refer to a group that is there"));
                }
            }
            _ => {
                let why = "a backslash stands before neither a digit nor a backslash";
                return Err(Invalid::new(text, why, r"write \\ for a backslash, or \1 for the first group"));
            }
        }
    }
    part(&mut literal)
}

/// How many groups of an expression can be referred to.
fn groups(ast: &Ast) -> u32 {
    match ast {
        Ast::Group(group) => u32::from(group.is_capturing()) + groups(&group.ast),
        Ast::Repetition(repetition) => groups(&repetition.ast),
        Ast::Alternation(alternation) => alternation.asts.iter().map(groups).sum(),
        Ast::Concat(concat) => concat.asts.iter().map(groups).sum(),
        _ => 0,
    }
}

/// A regular expression that matches exactly `literal`, in RE2 and in Rust.
///
/// It may be joined with others and, in a group, repeated; it is not meant for use inside of a class.
pub fn quote(literal: &str) -> String {
    let mut out = String::with_capacity(literal.len() + 8);
    for c in literal.chars() {
        if r"\.+*?()|[]{}^$".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// `literal` as the replacement of an RE2 substitution, in which `\0` to `\9` mean groups.
pub fn quote_substitution(literal: &str) -> String {
    literal.replace('\\', r"\\")
}

fn parse(pattern: &str) -> Result<Ast, Invalid> {
    if pattern.is_empty() {
        return Err(Invalid::new(pattern, "the regular expression is empty", "write one, or remove the match"));
    }
    if pattern.len() > MAX_LENGTH {
        return Err(Invalid::new(
            pattern,
            format!("the regular expression is longer than {MAX_LENGTH} bytes"),
            "shorten it",
        ));
    }
    ast::parse::ParserBuilder::new().nest_limit(MAX_DEPTH).build().parse(pattern).map_err(|error| {
        let why = format!("{} at byte {}", error.kind(), error.span().start.offset);
        Invalid::new(pattern, why, remedy(error.kind()))
    })
}

/// What to write instead of what Rust's parser did not take.
fn remedy(kind: &ErrorKind) -> &'static str {
    match kind {
        ErrorKind::UnsupportedLookAround => "RE2 has no look-around: match what shall be there, or use a second match",
        ErrorKind::UnsupportedBackreference => "RE2 has no backreferences: write the text again",
        ErrorKind::ClassRangeLiteral | ErrorKind::ClassRangeInvalid => {
            r"write the lower end of a range first, and escape a '-' that stands for itself as \-"
        }
        ErrorKind::RepetitionCountUnclosed
        | ErrorKind::RepetitionCountDecimalEmpty
        | ErrorKind::DecimalEmpty
        | ErrorKind::DecimalInvalid => r"write a count as {n}, {n,} or {n,m}, and a '{' that stands for itself as \{",
        ErrorKind::RepetitionMissing => "put something in front of it, or escape it with a backslash",
        ErrorKind::GroupUnclosed | ErrorKind::GroupUnopened => {
            "close every group, and escape a parenthesis that stands for itself"
        }
        ErrorKind::ClassUnclosed => r"close the class, and escape a '[' that stands for itself as \[",
        ErrorKind::NestLimitExceeded(_) => "nest it less deeply",
        _ => "write it in the syntax that RE2 and Rust share",
    }
}

#[cfg(test)]
mod tests;
