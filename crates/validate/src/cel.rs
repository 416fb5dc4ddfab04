//! The Common Expression Language, as far as Envoy evaluates it of a request.
//!
//! Envoy takes expressions parsed, and refuses all of its configuration where one calls what it does not know; one that
//! cannot be evaluated of a request counts as one that does not hold. So what is accepted here is known to Envoy, has the
//! types that it asks for, and says whether something holds.
//!
//! No library is used for the syntax: those that there are take megabytes of stack for expressions of a few levels, and what
//! is written by tenants must not end the process.

mod check;
mod parse;
mod token;

use super::Invalid;

pub use check::{Costs, Use, check};

/// Longest expression, in bytes. Texts in it are searched for in headers.
pub const MAX_LENGTH: usize = 8192;

/// Most parts that an expression consists of: each takes a proxy time for each request.
pub const MAX_PARTS: usize = 512;

/// How deep parts may stand within one another. Protobuf reads a hundred messages within one another, and a part is two.
pub const MAX_DEPTH: usize = 32;

/// A part of an expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Expression {
    /// A value.
    Literal(Literal),
    /// A name that stands alone.
    Name(String),
    /// A field.
    Field(Box<Expression>, String),
    /// Whether there is a field.
    Has(Box<Expression>, String),
    /// What is found by a key.
    Index(Box<Expression>, Box<Expression>),
    /// A list.
    List(Vec<Expression>),
    /// Whether all hold; two and more.
    All(Vec<Expression>),
    /// Whether any holds; two and more.
    Any(Vec<Expression>),
    /// An operator, by the name that its function has.
    Operator(&'static str, Vec<Expression>),
    /// A function, of what stands before it if anything does.
    Call(Option<Box<Expression>>, String, Vec<Expression>),
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Int(i64),
    /// A number with `u` behind it.
    Uint(u64),
    /// A number with a fraction or an exponent.
    Double(f64),
    /// A text.
    String(String),
    /// A text with `b` before it.
    Bytes(Vec<u8>),
}

impl Expression {
    /// What it directly consists of.
    fn parts(&self) -> Vec<&Self> {
        match self {
            Self::Literal(_) | Self::Name(_) => Vec::new(),
            Self::Field(of, _) | Self::Has(of, _) => vec![of],
            Self::Index(of, key) => vec![of, key],
            Self::List(parts) | Self::All(parts) | Self::Any(parts) | Self::Operator(_, parts) => {
                parts.iter().collect()
            }
            Self::Call(of, _, arguments) => of.iter().map(AsRef::as_ref).chain(arguments).collect(),
        }
    }

    /// Of how many parts it consists, as Envoy has them.
    pub fn count(&self) -> usize {
        let own = match self {
            Self::All(parts) | Self::Any(parts) => parts.len().saturating_sub(1),
            _ => 1,
        };
        own + self.parts().into_iter().map(Self::count).sum::<usize>()
    }
}

/// Reads an expression.
pub fn parse(text: &str) -> Result<Expression, Invalid> {
    if text.len() > MAX_LENGTH {
        let why = format!("it has {} bytes, and {MAX_LENGTH} are the most", text.len());
        return Err(Invalid::new(text, why, "shorten it, or make several of it"));
    }
    parse::parse(text).map_err(|Fault { why, remedy }| Invalid::new(text, why, remedy))
}

/// What is wrong with an expression, and what to do about it.
#[derive(Debug, PartialEq, Eq)]
struct Fault {
    why: String,
    remedy: String,
}

impl Fault {
    fn new(why: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { why: why.into(), remedy: remedy.into() }
    }
}

#[cfg(test)]
mod tests;
