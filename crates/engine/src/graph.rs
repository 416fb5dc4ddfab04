//! Who reads whom, who demands whom, and what is waiting to be settled.
//!
//! Every row of every table and every group has a node here. Edges are pairs of indices that know each other's
//! position, so that adding and removing one is O(1) however many readers a node has.

use std::ops::Range;

use smallvec::SmallVec;

use crate::chunks::Chunks;
use crate::edge::{Edge, Edges, MISSED, Read, nodes};
use crate::misses::{MOST, Miss, Misses};
use crate::node::{NodeId, Place, Row};
use crate::queue::Queue;

/// The value must be computed before it is used.
const STALE: u8 = 1;
/// Stands in the queue of its place.
const QUEUED: u8 = 2;
/// Is to be examined at the end of the batch: perhaps nobody needs it any more.
const SUSPECT: u8 = 4;
/// Demanded from outside.
const ROOT: u8 = 8;
/// Its computation panicked, or met a panic on its way: the details stand in [`crate::fault::Faults`].
const TROUBLED: u8 = 16;
/// An input row that was written since the last settling.
const WRITTEN: u8 = 32;

type Demands = SmallVec<[NodeId; 4]>;

/// What a derived row produces besides its value. Few rows do, so it is kept apart. As many stand in each list itself as take
/// no more room than a pointer to them and their number.
#[derive(Default)]
struct Outputs {
    demands: Demands,
    /// Places of the groups that hold entries of this row.
    groups: SmallVec<[Place; 8]>,
}

struct Node {
    reads: Edges,
    readers: Edges,
    outputs: Option<Box<Outputs>>,
    /// Last pass that touched this node, to find duplicates without a set.
    stamp: u32,
    row: Row,
    depth: u32,
    /// How many rows, input rows and roots demand this one.
    demand: u32,
    /// Batch of the last computation, and how often it was computed in that batch.
    batch: u32,
    times: u8,
    place: Place,
    flags: u8,
}

/// What is known of a node without its table.
#[derive(Clone, Copy)]
pub(crate) struct Cell {
    pub(crate) place: Place,
    pub(crate) row: Row,
    pub(crate) depth: u32,
}

/// The graph over all tables and groups.
pub(crate) struct Graph {
    nodes: Chunks<Node>,
    free: Vec<NodeId>,
    misses: Misses,
    /// By place: what waits.
    queues: Vec<Queue>,
    /// A bit for each place: whether it has anything to do. A batch looks at no place that has nothing.
    busy: Vec<u64>,
    suspects: Vec<NodeId>,
    stamp: u32,
    batch: u32,
}

fn index(i: usize) -> u32 {
    u32::try_from(i).expect("fewer than 2^32 nodes and edges")
}

impl Graph {
    pub(crate) fn new(places: usize) -> Self {
        Self {
            nodes: Chunks::default(),
            free: Vec::new(),
            misses: Misses::new(places),
            queues: (0..places).map(|_| Queue::default()).collect(),
            busy: vec![0; places.div_ceil(64)],
            suspects: Vec::new(),
            stamp: 0,
            batch: 0,
        }
    }

    #[inline]
    fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    #[inline]
    fn node_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id.0 as usize]
    }

    /// A new node, stale and not queued.
    pub(crate) fn add(&mut self, place: Place, row: Row, depth: u32) -> NodeId {
        let node = Node {
            reads: Edges::new(),
            readers: Edges::new(),
            outputs: None,
            stamp: 0,
            row,
            depth,
            demand: 0,
            batch: 0,
            times: 0,
            place,
            flags: STALE,
        };
        if let Some(id) = self.free.pop() {
            self.nodes[id.0 as usize] = node;
            id
        } else {
            let id = index(self.nodes.push(node));
            assert!(id < MISSED, "fewer than 2^31 nodes");
            NodeId(id)
        }
    }

    /// Forgets a node that has no readers and that nobody demands.
    pub(crate) fn remove(&mut self, id: NodeId) {
        self.set_reads(id, &[]);
        let node = self.node_mut(id);
        debug_assert!(node.readers.is_empty() && node.demand == 0 && node.flags & QUEUED == 0);
        debug_assert!(node.outputs.is_none(), "outputs are withdrawn in settling order");
        node.flags = 0;
        node.readers = Edges::new();
        node.reads = Edges::new();
        self.free.push(id);
    }

    pub(crate) fn cell(&self, id: NodeId) -> Cell {
        let node = self.node(id);
        Cell { place: node.place, row: node.row, depth: node.depth }
    }

    #[inline]
    pub(crate) fn is_stale(&self, id: NodeId) -> bool {
        self.node(id).flags & STALE != 0
    }

    /// Whether the node stands in [`crate::fault::Faults`].
    #[inline]
    pub(crate) fn is_troubled(&self, id: NodeId) -> bool {
        self.node(id).flags & TROUBLED != 0
    }

    pub(crate) fn set_troubled(&mut self, id: NodeId, troubled: bool) {
        let node = self.node_mut(id);
        node.flags = if troubled { node.flags | TROUBLED } else { node.flags & !TROUBLED };
    }

    /// Notes whether an input row was written since the last settling. Tells what was noted before.
    pub(crate) fn set_written(&mut self, id: NodeId, written: bool) -> bool {
        let node = self.node_mut(id);
        let before = node.flags & WRITTEN != 0;
        node.flags = if written { node.flags | WRITTEN } else { node.flags & !WRITTEN };
        before
    }

    pub(crate) fn is_root(&self, id: NodeId) -> bool {
        self.node(id).flags & ROOT != 0
    }

    #[inline]
    pub(crate) fn has_readers(&self, id: NodeId) -> bool {
        !self.node(id).readers.is_empty()
    }

    #[inline]
    pub(crate) fn demand_count(&self, id: NodeId) -> u32 {
        self.node(id).demand
    }

    // Batches

    /// Opens a batch: what is counted by batch is counted from nothing.
    pub(crate) fn next_batch(&mut self) {
        self.batch = self.batch.wrapping_add(1);
    }

    /// Number of the batch that is being settled, or that was settled last.
    #[inline]
    pub(crate) fn batch(&self) -> u32 {
        self.batch
    }

    /// A computation of the node begins. Tells how often the node has been computed in this batch, and the stamp for
    /// the reads that follow.
    #[inline]
    pub(crate) fn begin(&mut self, id: NodeId) -> (u8, u32) {
        let batch = self.batch;
        let node = self.node_mut(id);
        if node.batch != batch {
            node.batch = batch;
            node.times = 0;
        }
        node.times = node.times.saturating_add(1);
        let times = node.times;
        (times, self.next_stamp())
    }

    #[inline]
    pub(crate) fn next_stamp(&mut self) -> u32 {
        if self.stamp == u32::MAX {
            self.forget_stamps();
        }
        self.stamp += 1;
        self.stamp
    }

    /// All stamps were given: none of a node may be taken for one that is given next.
    #[cold]
    fn forget_stamps(&mut self) {
        for id in 0..self.nodes.len() {
            self.nodes[id].stamp = 0;
        }
        self.stamp = 0;
    }

    /// Whether this is the first touch of the node under that stamp. May say yes again after a nested computation
    /// touched the same node: a hint that keeps lists short, not a proof.
    #[inline]
    pub(crate) fn first_touch(&mut self, id: NodeId, stamp: u32) -> bool {
        // Given before stamps began again.
        if stamp > self.stamp {
            return true;
        }
        let node = self.node_mut(id);
        let first = node.stamp != stamp;
        node.stamp = stamp;
        first
    }

    // Queues

    /// Puts the node in the queue of its place.
    pub(crate) fn enqueue(&mut self, id: NodeId) {
        let node = self.node_mut(id);
        if node.flags & QUEUED == 0 {
            node.flags |= QUEUED;
            let (place, depth, row) = (node.place, node.depth, node.row);
            self.queues[place as usize].push(depth, row);
            self.set_busy(place);
        }
    }

    /// The place has something to do in the next batch, or in this one if its turn is still to come.
    pub(crate) fn set_busy(&mut self, place: Place) {
        self.busy[place as usize / 64] |= 1 << (place % 64);
    }

    /// The first place from `from` on that has something to do.
    pub(crate) fn next_busy(&self, from: Place) -> Option<Place> {
        let (word, bit) = (from as usize / 64, from % 64);
        let rest = self.busy.get(word)? >> bit << bit;
        let words = std::iter::once(rest).chain(self.busy[word + 1..].iter().copied());
        let (skipped, found) = words.enumerate().find(|(_, bits)| *bits != 0)?;
        Place::try_from(64 * (word + skipped) + found.trailing_zeros() as usize).ok()
    }

    /// All that these places had to do is done.
    pub(crate) fn set_idle(&mut self, places: &Range<Place>) {
        for place in places.clone() {
            self.busy[place as usize / 64] &= !(1 << (place % 64));
        }
    }

    /// The least depth at which a place has rows that wait.
    pub(crate) fn waiting(&self, place: Place) -> Option<u32> {
        self.queues[place as usize].depth()
    }

    /// The next row of a place that waits at a depth.
    pub(crate) fn next(&mut self, place: Place, depth: u32) -> Option<Row> {
        self.queues[place as usize].pop(depth)
    }

    /// The node left the queue.
    #[inline]
    pub(crate) fn dequeued(&mut self, id: NodeId) {
        self.node_mut(id).flags &= !QUEUED;
    }

    /// The node's content changed: every reader must be computed again.
    pub(crate) fn wake_readers(&mut self, id: NodeId) {
        let readers = std::mem::take(&mut self.node_mut(id).readers);
        for edge in &readers {
            self.wake(edge.node);
        }
        self.node_mut(id).readers = readers;
    }

    /// Where there was nothing, there is something now: who missed it must be computed again. `hash` is that of its key.
    pub(crate) fn wake_missing(&mut self, place: Place, hash: impl FnOnce() -> u32) {
        if self.misses.is_empty_at(place) {
            return;
        }
        let readers: SmallVec<[NodeId; MOST]> = self.misses.readers(Miss { place, hash: hash() }).collect();
        for reader in readers {
            self.wake(reader);
        }
    }

    fn wake(&mut self, id: NodeId) {
        let reader = self.node_mut(id);
        if reader.flags & STALE == 0 {
            reader.flags |= STALE;
            self.enqueue(id);
        }
    }

    #[inline]
    pub(crate) fn set_stale(&mut self, id: NodeId, stale: bool) {
        let node = self.node_mut(id);
        node.flags = if stale { node.flags | STALE } else { node.flags & !STALE };
    }

    // Recycling

    /// To be examined at the end of the batch.
    pub(crate) fn suspect(&mut self, id: NodeId) {
        let node = self.node_mut(id);
        if node.flags & SUSPECT == 0 {
            node.flags |= SUSPECT;
            self.suspects.push(id);
        }
    }

    pub(crate) fn next_suspect(&mut self) -> Option<NodeId> {
        let id = self.suspects.pop()?;
        self.node_mut(id).flags &= !SUSPECT;
        Some(id)
    }

    // Reads

    /// Takes note that a row reads what is not there, where few others do. Tells whether that is so; it is to be listed among
    /// what the row reads then.
    pub(crate) fn claim_miss(&mut self, miss: Miss, reader: NodeId) -> bool {
        self.misses.claim(miss, reader)
    }

    /// Takes back what was claimed, of reads that do not become those of the row.
    pub(crate) fn drop_misses(&mut self, id: NodeId, reads: &[Read]) {
        for read in reads {
            if let Read::Miss(miss) = read
                && self.node(id).reads.iter().all(|edge| edge.read() != *read)
            {
                self.misses.release(*miss, id);
            }
        }
    }

    /// Replaces what the node reads. `new` may hold duplicates.
    pub(crate) fn set_reads(&mut self, id: NodeId, new: &[Read]) {
        let old = &self.node(id).reads;
        if old.len() == new.len() && old.iter().zip(new).all(|(edge, new)| edge.read() == *new) {
            return;
        }
        self.set_misses(id, new);
        if self.node(id).reads.iter().any(|edge| edge.read().node().is_some()) {
            self.drop_reads(id, new);
        }
        let kept = self.next_stamp();
        for i in 0..self.node(id).reads.len() {
            if let Read::Node(target) = self.node(id).reads[i].read() {
                self.node_mut(target).stamp = kept;
            }
        }
        let mut reads = std::mem::take(&mut self.node_mut(id).reads);
        // Most rows read the same for ever.
        reads.reserve_exact(new.len().saturating_sub(reads.len()));
        for target in nodes(new) {
            let node = self.node_mut(target);
            if node.stamp != kept {
                node.stamp = kept;
                let (pos, back) = (index(reads.len()), index(node.readers.len()));
                node.readers.push(Edge { node: id, pos });
                reads.push(Edge { node: target, pos: back });
            }
        }
        if reads.spilled() && reads.len() * 4 <= reads.capacity() {
            reads.shrink_to_fit();
        }
        self.node_mut(id).reads = reads;
    }

    /// Drops the reads that are not among these.
    fn drop_reads(&mut self, id: NodeId, new: &[Read]) {
        let wanted = self.next_stamp();
        for target in nodes(new) {
            self.node_mut(target).stamp = wanted;
        }
        // From the end, because removing moves the last edge into the gap.
        for i in (0..self.node(id).reads.len()).rev() {
            if let Read::Node(target) = self.node(id).reads[i].read()
                && self.node(target).stamp != wanted
            {
                self.remove_read(id, i);
            }
        }
    }

    /// Replaces what the node reads that is not there, all of which is claimed.
    fn set_misses(&mut self, id: NodeId, new: &[Read]) {
        // As of most rows that are computed first.
        if self.node(id).reads.is_empty() && new.iter().all(|read| read.miss().is_none()) {
            return;
        }
        let mut before: SmallVec<[Miss; 4]> = SmallVec::new();
        for i in (0..self.node(id).reads.len()).rev() {
            if let Read::Miss(miss) = self.node(id).reads[i].read() {
                before.push(miss);
                self.take_read(id, i);
            }
        }
        let mut now: SmallVec<[Miss; 4]> = new.iter().filter_map(Read::miss).collect();
        now.sort_unstable();
        now.dedup();
        for miss in before {
            if now.binary_search(&miss).is_err() {
                self.misses.release(miss, id);
            }
        }
        self.node_mut(id).reads.extend(now.into_iter().map(Edge::missed));
    }

    /// Takes one end away; the last one takes its position.
    fn take_read(&mut self, reader: NodeId, i: usize) -> Edge {
        let edge = self.node_mut(reader).reads.swap_remove(i);
        if let Some(&moved) = self.node(reader).reads.get(i)
            && let Read::Node(target) = moved.read()
        {
            self.node_mut(target).readers[moved.pos as usize].pos = index(i);
        }
        edge
    }

    fn remove_read(&mut self, reader: NodeId, i: usize) {
        let edge = self.take_read(reader, i);
        let readers = &mut self.node_mut(edge.node).readers;
        readers.swap_remove(edge.pos as usize);
        if readers.spilled() && readers.len() * 8 <= readers.capacity() {
            readers.shrink_to_fit();
        }
        let empty = readers.is_empty();
        if let Some(&moved) = readers.get(edge.pos as usize) {
            self.node_mut(moved.node).reads[moved.pos as usize].pos = edge.pos;
        }
        if empty {
            self.suspect(edge.node);
        }
    }

    // Demands

    /// One more demand of the node.
    pub(crate) fn add_demand(&mut self, id: NodeId) {
        let node = self.node_mut(id);
        node.demand += 1;
        if node.demand == 1 {
            self.enqueue(id);
        }
    }

    /// One demand less.
    pub(crate) fn drop_demand(&mut self, id: NodeId) {
        let node = self.node_mut(id);
        node.demand -= 1;
        if node.demand == 0 {
            self.enqueue(id);
        }
    }

    /// Demands the node from outside, or not. Tells whether that is new.
    pub(crate) fn set_root(&mut self, id: NodeId, root: bool) -> bool {
        if self.is_root(id) == root {
            return false;
        }
        self.node_mut(id).flags ^= ROOT;
        if root {
            self.add_demand(id);
        } else {
            self.drop_demand(id);
        }
        true
    }

    /// Replaces what the node demands and the groups it has entries in.
    pub(crate) fn set_outputs(&mut self, id: NodeId, demands: &[NodeId], groups: &[Place]) {
        if demands.is_empty() && groups.is_empty() && self.node(id).outputs.is_none() {
            return;
        }
        let mut old = self.node_mut(id).outputs.take().unwrap_or_default();
        if old.demands.as_slice() != demands {
            let mut unique = Demands::new();
            let stamp = self.next_stamp();
            for target in demands {
                if self.first_touch(*target, stamp) {
                    unique.push(*target);
                }
            }
            // First add, then drop, so that what stays demanded is not queued.
            for target in &unique {
                self.add_demand(*target);
            }
            for target in &old.demands {
                self.drop_demand(*target);
            }
            old.demands = unique;
        }
        old.groups = SmallVec::from_slice(groups);
        if !old.demands.is_empty() || !old.groups.is_empty() {
            self.node_mut(id).outputs = Some(old);
        }
    }

    // Reports

    /// The next stamp is the first one again.
    #[cfg(test)]
    pub(crate) fn use_up_stamps(&mut self) {
        self.stamp = u32::MAX;
    }

    /// Nodes that memory is held for.
    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        self.nodes.len()
    }

    /// The rows and groups that it reads. What is not there is not among them, unless more rows read it than may miss it.
    pub(crate) fn reads(&self, id: NodeId) -> impl Iterator<Item = NodeId> {
        self.node(id).reads.iter().filter_map(|edge| edge.read().node())
    }

    pub(crate) fn readers(&self, id: NodeId) -> impl Iterator<Item = NodeId> {
        self.node(id).readers.iter().map(|edge| edge.node)
    }

    pub(crate) fn demands(&self, id: NodeId) -> &[NodeId] {
        self.node(id).outputs.as_ref().map_or(&[], |outputs| &outputs.demands)
    }

    pub(crate) fn groups(&self, id: NodeId) -> &[Place] {
        self.node(id).outputs.as_ref().map_or(&[], |outputs| &outputs.groups)
    }

    /// Looks through all nodes: for reports only.
    pub(crate) fn demanders(&self, id: NodeId) -> Vec<NodeId> {
        (0..index(self.nodes.len())).map(NodeId).filter(|other| self.demands(*other).contains(&id)).collect()
    }
}
