//! Where a walk stands, without an allocation until somebody asks.

use std::fmt;

/// A place in a manifest.
#[derive(Clone, Copy)]
pub(crate) enum Path<'a> {
    /// Where the walk began.
    Root(&'a str),
    /// A field of a mapping.
    Field(&'a Path<'a>, &'a str),
    /// A key of a mapping with keys of the user's choice.
    Key(&'a Path<'a>, &'a str),
    /// An item of a list.
    Item(&'a Path<'a>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root(name) => f.write_str(name),
            Self::Field(parent, name) => write!(f, "{parent}.{name}"),
            Self::Key(parent, key) => write!(f, "{parent}[{key}]"),
            Self::Item(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}
