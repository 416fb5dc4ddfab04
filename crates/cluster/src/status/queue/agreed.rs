//! What was found to agree once.

use std::collections::HashSet;

/// So many are remembered at most.
const REMEMBERED: usize = 4096;

/// Digests of what statuses shall say and of what they say, where nothing was to be written. Ten thousand routes of one
/// Gateway differ in nothing but the times of their transitions, which decide nothing, so that a process that takes over
/// compares one of them.
#[derive(Debug, Default)]
pub(super) struct Agreed(HashSet<u64>);

impl Agreed {
    /// What `merge` says, unless it said before that there is nothing to be written for the same `pair`.
    pub(super) fn or_merge(&mut self, pair: u64, merge: impl FnOnce() -> Option<String>) -> Option<String> {
        if self.0.contains(&pair) {
            return None;
        }
        let merged = merge();
        if merged.is_none() {
            if self.0.len() >= REMEMBERED {
                self.0.clear();
            }
            self.0.insert(pair);
        }
        merged
    }
}
