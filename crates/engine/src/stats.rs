//! What the tables hold and cost.

use std::fmt;

/// What stands at a place of the settling order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// An [`Input`](crate::Input) table.
    Input,
    /// A [`Lookup`](crate::Lookup) table.
    Lookup,
    /// A [`Derived`](crate::Derived) table.
    Derived,
    /// [`Group`](crate::Group)s.
    Group,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Input => "input",
            Self::Lookup => "lookup",
            Self::Derived => "derived",
            Self::Group => "group",
        })
    }
}

/// Figures of a table, or of the groups of one type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct TableStats {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// Rows (or groups) held, those included that do not exist but are demanded, or read by several rows.
    pub rows: usize,
    /// Rows computed in the last batch.
    pub computed: usize,
    /// Rows computed since the beginning.
    pub computed_total: u64,
    /// How often the most often computed row was computed in the last batch. More than 1 is an error of the engine.
    pub max_per_cell: u32,
    /// Rows (or groups) changed in the last batch.
    pub changed: usize,
    /// Entries that are hidden because another emitter holds their sort key. More than 0 breaks the contract of
    /// [`Group`](crate::Group).
    pub contested: usize,
}

/// What was done in one batch.
#[derive(Clone, Copy, Default)]
pub(crate) struct Counts {
    batch: u32,
    pub(crate) computed: usize,
    pub(crate) max_per_cell: u8,
    pub(crate) changed: usize,
}

impl Counts {
    /// Those of a batch, for what is counted now; the first time in a batch they are nothing.
    pub(crate) fn counting(&mut self, batch: u32) -> &mut Self {
        *self = self.in_batch(batch);
        self
    }

    /// Those of a batch, which are nothing if they were last counted in another one.
    pub(crate) fn in_batch(self, batch: u32) -> Self {
        if self.batch == batch { self } else { Self { batch, ..Self::default() } }
    }
}
