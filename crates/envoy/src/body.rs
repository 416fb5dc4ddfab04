//! Bytes in pieces, so that what is made of large parts shares them with it.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use bytes::{Bytes, BytesMut};

/// A part below this size is copied: to keep and to send it on its own would cost more than the copy.
pub(crate) const SHARED: usize = 4096;

/// An encoded message in pieces. Large parts that it was made of are shared with it and were not copied.
///
/// What is composed of many parts is put together by whoever asks for the pieces first, once for all who have the same body:
/// to compose it costs a change no copy.
#[derive(Clone)]
pub struct Body {
    len: usize,
    form: Form,
}

#[derive(Clone)]
enum Form {
    Pieces(Arc<[Bytes]>),
    Composed(Arc<Composed>),
}

struct Composed {
    /// What of it no part was made from.
    head: Bytes,
    compose: Box<dyn Fn() -> Joiner + Send + Sync>,
    pieces: OnceLock<Arc<[Bytes]>>,
}

impl Body {
    /// A message of this length that begins with `head` and is put together by `compose`.
    pub(crate) fn composed(len: usize, head: Bytes, compose: impl Fn() -> Joiner + Send + Sync + 'static) -> Self {
        let composed = Composed { head, compose: Box::new(compose), pieces: OnceLock::new() };
        Self { len, form: Form::Composed(Arc::new(composed)) }
    }

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
        match &self.form {
            Form::Pieces(pieces) => pieces,
            Form::Composed(composed) => composed.pieces.get_or_init(|| {
                let pieces = (composed.compose)().finish();
                debug_assert_eq!(self.len, pieces.iter().map(Bytes::len).sum::<usize>());
                pieces
            }),
        }
    }

    /// What of a composed message no part was made from; none of a message that was made in one piece.
    pub(crate) fn head(&self) -> Option<&Bytes> {
        match &self.form {
            Form::Pieces(_) => None,
            Form::Composed(composed) => Some(&composed.head),
        }
    }

    /// The message in one piece: a copy, unless it is one already.
    pub fn to_bytes(&self) -> Bytes {
        match &**self.pieces() {
            [whole] => whole.clone(),
            pieces => pieces.concat().into(),
        }
    }
}

impl Default for Body {
    fn default() -> Self {
        Self { len: 0, form: Form::Pieces(Arc::default()) }
    }
}

impl From<Bytes> for Body {
    fn from(whole: Bytes) -> Self {
        Self { len: whole.len(), form: Form::Pieces(Arc::new([whole])) }
    }
}

impl From<Joiner> for Body {
    fn from(joiner: Joiner) -> Self {
        let pieces = joiner.finish();
        Self { len: pieces.iter().map(Bytes::len).sum(), form: Form::Pieces(pieces) }
    }
}

/// Without the content, which may have a credential.
impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.len)
    }
}

fn is_copied(part: &Bytes) -> bool {
    part.len() < SHARED
}

/// The pieces of a [`Body`] under construction.
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

    fn finish(mut self) -> Arc<[Bytes]> {
        self.flush();
        debug_assert_eq!(self.buffer.capacity(), 0, "room for other than what was copied");
        self.done.into()
    }
}
