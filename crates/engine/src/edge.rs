//! What a row has read, and how the graph keeps that: by both of its ends.

use smallvec::SmallVec;

use crate::misses::Miss;
use crate::node::{NodeId, Place};

/// One end of a read. In `reads` it names the node read and the position of the other end in that node's `readers`;
/// in `readers` the reverse. A read of what is not there has no other end: its place stands for a node, and the hash for a
/// position.
#[derive(Clone, Copy)]
pub(crate) struct Edge {
    pub(crate) node: NodeId,
    pub(crate) pos: u32,
}

/// Set in the place of an [`Edge`] that has no other end. No node has such a number.
pub(crate) const MISSED: u32 = 1 << 31;

impl Edge {
    pub(crate) fn missed(Miss { place, hash }: Miss) -> Self {
        Self { node: NodeId(MISSED | u32::from(place)), pos: hash }
    }

    pub(crate) fn read(self) -> Read {
        match Place::try_from(self.node.0 & !MISSED) {
            Ok(place) if self.node.0 & MISSED != 0 => Read::Miss(Miss { place, hash: self.pos }),
            _ => Read::Node(self.node),
        }
    }
}

pub(crate) type Edges = SmallVec<[Edge; 2]>;

/// What a row has read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Read {
    /// A row or a group.
    Node(NodeId),
    /// One that is not there.
    Miss(Miss),
}

/// Nodes as a computation lists them.
pub(crate) type NodeList = SmallVec<[NodeId; 12]>;

/// What a computation has read, in its order.
pub(crate) type ReadList = SmallVec<[Read; 12]>;

impl Read {
    pub(crate) fn node(self) -> Option<NodeId> {
        if let Self::Node(node) = self { Some(node) } else { None }
    }

    pub(crate) fn miss(&self) -> Option<Miss> {
        if let Self::Miss(miss) = self { Some(*miss) } else { None }
    }
}

/// Those that are there.
pub(crate) fn nodes(reads: &[Read]) -> impl Iterator<Item = NodeId> {
    reads.iter().filter_map(|read| read.node())
}
