//! What names a node of the graph.

/// A place in the settling order: the index of a table or group in the order of registration.
pub(crate) type Place = u16;

/// Index of a row within its table or group.
pub(crate) type Row = u32;

/// One row of one table, or one group. Reused after the node was removed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct NodeId(pub(crate) u32);
