//! Statuses that were found to be as desired.

use std::collections::HashSet;

/// So many are remembered at most.
const REMEMBERED: usize = 4096;

/// Digests of what statuses shall say and of what they say, where nothing was to be written. Ten thousand routes of one
/// Gateway differ in nothing but the times of their transitions, which decide nothing, so that a process that takes over
/// compares one of them.
#[derive(Debug, Default)]
pub(super) struct Agreed(HashSet<u64>);

impl Agreed {
    /// What `merge` gives, unless it gave nothing for the same `question` before.
    pub(super) fn or_merge(&mut self, question: u64, merge: impl FnOnce() -> Option<String>) -> Option<String> {
        if self.0.contains(&question) {
            return None;
        }
        let merged = merge();
        if merged.is_none() {
            if self.0.len() >= REMEMBERED {
                self.0.clear();
            }
            self.0.insert(question);
        }
        merged
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_agreed_is_not_compared_again_and_what_did_not_is() {
        let mut agreed = Agreed::default();
        assert_eq!(agreed.or_merge(1, || None), None);
        assert_eq!(agreed.or_merge(1, || unreachable!("it agreed")), None);
        for _ in 0..2 {
            assert_eq!(agreed.or_merge(2, || Some("patch".into())), Some("patch".into()));
        }
        for question in 10..10 + 2 * REMEMBERED as u64 {
            agreed.or_merge(question, || None);
            assert!(agreed.0.len() <= REMEMBERED);
        }
    }
}
