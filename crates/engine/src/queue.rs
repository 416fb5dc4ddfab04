//! What waits at one place, by depth.

use std::collections::VecDeque;

use crate::node::Row;

/// How many rows the memory that is kept for the next lane holds at most: after a start nothing of its lanes is held.
const SPARE: usize = 256;

/// Rows that wait, those of the least depth first, and of one depth in the order in which they came.
///
/// Nearly all places have rows of one depth, so that coming and going takes the same time however many rows wait.
#[derive(Default)]
pub(crate) struct Queue {
    /// By depth, the least last, none empty.
    lanes: Vec<(u32, VecDeque<Row>)>,
    /// The memory of a lane that is empty.
    spare: VecDeque<Row>,
}

impl Queue {
    pub(crate) fn push(&mut self, depth: u32, row: Row) {
        let at = self.lanes.partition_point(|(other, _)| *other > depth);
        match self.lanes.get_mut(at) {
            Some((same, lane)) if *same == depth => lane.push_back(row),
            _ => {
                let mut lane = std::mem::take(&mut self.spare);
                lane.push_back(row);
                self.lanes.insert(at, (depth, lane));
            }
        }
    }

    /// The least depth of what waits.
    pub(crate) fn depth(&self) -> Option<u32> {
        self.lanes.last().map(|(depth, _)| *depth)
    }

    /// The next row, if that is the least depth.
    pub(crate) fn pop(&mut self, depth: u32) -> Option<Row> {
        let (_, lane) = self.lanes.last_mut().filter(|(least, _)| *least == depth)?;
        let row = lane.pop_front();
        if lane.is_empty() {
            let lane = self.lanes.pop().map(|(_, lane)| lane);
            self.spare = lane.filter(|lane| lane.capacity() <= SPARE).unwrap_or_default();
        }
        row
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_the_least_depth_go_first_and_those_of_one_depth_as_they_came() {
        let mut queue = Queue::default();
        for (depth, row) in [(1, 5), (0, 7), (2, 1), (0, 3), (1, 4)] {
            queue.push(depth, row);
        }
        assert_eq!(queue.depth(), Some(0));
        assert_eq!(queue.pop(1), None, "something of a lesser depth waits");
        let taken = std::iter::from_fn(|| queue.depth().and_then(|depth| Some((depth, queue.pop(depth)?))));
        assert_eq!(taken.collect::<Vec<_>>(), [(0, 7), (0, 3), (1, 5), (1, 4), (2, 1)]);
        assert_eq!(queue.depth(), None);
        queue.push(3, 9);
        assert_eq!((queue.depth(), queue.pop(3), queue.pop(3)), (Some(3), Some(9), None));
    }
}
