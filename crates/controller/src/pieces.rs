//! Answers that are sent while they are written.

use std::{
    io::{self, Write},
    time::Duration,
};

use axum::body::{Body, Bytes};
use tokio::{runtime::Handle, sync::mpsc, time::timeout};
use tokio_stream::wrappers::ReceiverStream;

use crate::document::DocumentError;

/// The size of a piece in bytes, of which three exist at a time.
const PIECE: usize = 64 << 10;
/// How long a client may take for a piece. One that takes longer does not get the rest.
const PATIENCE: Duration = Duration::from_secs(10);

/// A body of what `write` writes, on a thread that may block.
pub fn body(write: impl FnOnce(&mut Pieces) -> Result<(), DocumentError> + Send + 'static) -> Body {
    let (sender, receiver) = mpsc::channel(1);
    let mut pieces = Pieces { buffer: Vec::with_capacity(PIECE), sender, runtime: Handle::current() };
    tokio::task::spawn_blocking(move || {
        let written = write(&mut pieces).and_then(|()| Ok(pieces.send()?));
        if let Err(error) = written {
            if error.is_broken_pipe() {
                tracing::debug!(%error, "an answer was not written to its end");
            } else {
                tracing::warn!(%error, "an answer was not written to its end");
            }
            // What is there is not the whole, which an end without this would say.
            let Pieces { sender, runtime, .. } = pieces;
            runtime.spawn(async move { sender.send(Err(io::Error::other("it was not written to its end"))).await });
        }
    });
    Body::from_stream(ReceiverStream::new(receiver))
}

/// Where it is written to.
pub struct Pieces {
    buffer: Vec<u8>,
    sender: mpsc::Sender<io::Result<Bytes>>,
    runtime: Handle,
}

impl Pieces {
    fn send(&mut self) -> io::Result<()> {
        let piece = std::mem::replace(&mut self.buffer, Vec::with_capacity(PIECE)).into();
        match self.runtime.block_on(timeout(PATIENCE, self.sender.send(Ok(piece)))) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(io::Error::new(io::ErrorKind::BrokenPipe, "the client is gone")),
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read")),
        }
    }
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= PIECE {
            self.send()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
