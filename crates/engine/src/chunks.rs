//! A list that grows without moving what it holds.

use std::ops::{Index, IndexMut};

/// The first chunk holds so many items, and each one after it twice as many as the one before.
const FIRST: usize = 32;

/// A list that grows at its end. What it holds is never copied to a larger place, so that a start, where everything
/// grows, writes each item once.
pub(crate) struct Chunks<T> {
    chunks: Vec<Vec<T>>,
    len: usize,
}

impl<T> Default for Chunks<T> {
    fn default() -> Self {
        Self { chunks: Vec::new(), len: 0 }
    }
}

/// The chunk of an item, and its place there.
#[inline]
fn place(index: usize) -> (usize, usize) {
    let chunk = (index / FIRST + 1).ilog2();
    (chunk as usize, index - FIRST * ((1 << chunk) - 1))
}

impl<T> Chunks<T> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Adds an item, and tells its index.
    pub(crate) fn push(&mut self, item: T) -> usize {
        let (chunk, _) = place(self.len);
        if chunk == self.chunks.len() {
            self.chunks.push(Vec::with_capacity(FIRST << chunk));
        }
        self.chunks[chunk].push(item);
        self.len += 1;
        self.len - 1
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        (0..self.len).map(|index| &self[index])
    }
}

impl<T> Index<usize> for Chunks<T> {
    type Output = T;

    fn index(&self, index: usize) -> &T {
        let (chunk, at) = place(index);
        &self.chunks[chunk][at]
    }
}

impl<T> IndexMut<usize> for Chunks<T> {
    fn index_mut(&mut self, index: usize) -> &mut T {
        let (chunk, at) = place(index);
        &mut self.chunks[chunk][at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_stays_at_its_index_and_at_its_address() {
        let mut chunks = Chunks::default();
        let first = chunks.push(0);
        let address = &raw const chunks[first];
        for number in 1..10_000 {
            assert_eq!(chunks.push(number), number);
        }
        assert_eq!(&raw const chunks[first], address);
        chunks[777] = 0;
        assert!((0..chunks.len()).all(|index| chunks[index] == if index == 777 { 0 } else { index }));
        assert!(chunks.iter().eq((0..10_000).map(|index| &chunks[index])));
    }
}
