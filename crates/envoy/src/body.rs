//! Bytes in pieces, so that what is made of large parts shares them with it.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};

/// A part below this size is copied: to keep and to send it on its own would cost more than the copy.
const SHARED: usize = 4096;

/// An encoded message in pieces. Large parts that it was made of are shared with it and were not copied.
#[derive(Clone, Debug, Default)]
pub struct Body {
    pieces: Arc<[Bytes]>,
    len: usize,
}

impl Body {
    /// How long the message is.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the message has no field set.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The pieces, which are the message one after the other.
    pub fn pieces(&self) -> &Arc<[Bytes]> {
        &self.pieces
    }

    /// The message in one piece: a copy, unless it is one already.
    pub fn to_bytes(&self) -> Bytes {
        match &*self.pieces {
            [whole] => whole.clone(),
            pieces => pieces.concat().into(),
        }
    }
}

impl From<Bytes> for Body {
    fn from(whole: Bytes) -> Self {
        Self { len: whole.len(), pieces: Arc::new([whole]) }
    }
}

fn is_copied(part: &Bytes) -> bool {
    part.len() < SHARED
}

/// A [`Body`] under construction.
pub(crate) struct Joiner {
    done: Vec<Bytes>,
    buffer: BytesMut,
}

impl Joiner {
    /// With room for these parts, and for so many bytes besides: a buffer that grew would copy what it has again and
    /// again.
    pub(crate) fn with_room<'a>(parts: impl Iterator<Item = &'a Bytes>, besides: usize) -> Self {
        let copied: usize = parts.filter(|part| is_copied(part)).map(Bytes::len).sum();
        Self { done: Vec::new(), buffer: BytesMut::with_capacity(copied + besides) }
    }

    /// The place for what is written now.
    pub(crate) fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// Appends a part, shared if it is large.
    pub(crate) fn push(&mut self, part: &Bytes) {
        if is_copied(part) {
            self.buffer.extend_from_slice(part);
        } else {
            self.flush();
            self.done.push(part.clone());
        }
    }

    fn flush(&mut self) {
        if !self.buffer.is_empty() {
            self.done.push(self.buffer.split().freeze());
        }
    }

    pub(crate) fn finish(mut self) -> Body {
        self.flush();
        debug_assert_eq!(self.buffer.capacity(), 0, "room for other than what was copied");
        Body { len: self.done.iter().map(Bytes::len).sum(), pieces: self.done.into() }
    }
}
