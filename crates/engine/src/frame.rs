//! What one computation does besides its value.

use smallvec::SmallVec;

use crate::core::Core;
use crate::edge::{NodeList, ReadList};
use crate::node::{NodeId, Place};

/// What a computation has read, demanded and emitted so far.
#[derive(Default)]
pub(crate) struct Frame {
    pub(crate) reads: ReadList,
    pub(crate) demands: NodeList,
    /// The places of the groups that it emitted into; what it emitted is staged there.
    pub(crate) groups: SmallVec<[Place; 4]>,
}

impl Frame {
    /// Drops what was demanded and emitted. What was read stays: it is why the computation went as it did.
    pub(crate) fn withdraw(&mut self, core: &Core) {
        for node in self.demands.drain(..) {
            // Made for the demand, perhaps.
            core.graph.borrow_mut().suspect(node);
        }
        for place in self.groups.drain(..) {
            core.store(place).unstage(core);
        }
    }

    /// Takes this over in the place of what the row's last computation did.
    pub(crate) fn commit(&mut self, core: &Core, node: NodeId) {
        let Self { reads, demands, groups } = self;
        let before: SmallVec<[Place; 4]> = core.graph.borrow().groups(node).iter().copied().collect();
        for place in &before {
            if !groups.contains(place) {
                groups.push(*place);
            }
        }
        groups.retain(|place| core.store(*place).commit(core, node));
        let mut graph = core.graph.borrow_mut();
        graph.set_outputs(node, demands, groups);
        graph.set_reads(node, reads);
        graph.set_stale(node, false);
    }
}
