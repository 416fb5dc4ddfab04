//! Choices, drawn one after the other.

/// A list of numbers as a source of choices: proptest makes and shrinks the numbers, and what is made of them follows.
/// Where they end each choice is the first.
pub(super) struct Draw {
    choices: std::vec::IntoIter<u16>,
}

impl Draw {
    pub(super) fn new(choices: Vec<u16>) -> Self {
        Self { choices: choices.into_iter() }
    }

    /// A number below `limit`.
    pub(super) fn below(&mut self, limit: usize) -> usize {
        usize::from(self.choices.next().unwrap_or(0)) % limit.max(1)
    }

    /// True in so many of a hundred cases; false where the choices have ended.
    pub(super) fn percent(&mut self, percent: usize) -> bool {
        100 - percent.min(100) <= self.below(100)
    }

    /// One of these; there has to be one.
    pub(super) fn of<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())].clone()
    }
}
