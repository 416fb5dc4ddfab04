//! Answers that are sent while they are written.

use std::{
    io::{self, Write},
    time::{Duration, Instant},
};

use axum::body::{Body, Bytes};
use tokio::{runtime::Handle, sync::mpsc, time::timeout};
use tokio_stream::wrappers::ReceiverStream;

use crate::document::DocumentError;

/// The size of a chunk in bytes, of which three exist at a time.
const CHUNK: usize = 64 << 10;
/// How long a client may take for a chunk. One that takes longer does not get the rest.
const CHUNK_TIMEOUT: Duration = Duration::from_secs(10);
/// How many bytes a client takes a second, on average. One that is behind that by [`CHUNK_TIMEOUT`] does not get the
/// rest: others wait for their turn.
const RATE: u32 = 1 << 20;

/// A body of what `write` writes, on a thread that may block.
pub fn body(write: impl FnOnce(&mut ChunkWriter) -> Result<(), DocumentError> + Send + 'static) -> Body {
    let (sender, receiver) = mpsc::channel(1);
    let (buffer, runtime) = (Vec::with_capacity(CHUNK), Handle::current());
    let mut writer = ChunkWriter { buffer, sender, runtime, timeout: SendTimeout::default() };
    tokio::task::spawn_blocking(move || {
        let written = write(&mut writer).and_then(|()| Ok(writer.send()?));
        if let Err(error) = written {
            if error.is_broken_pipe() {
                tracing::debug!(%error, "an answer was not written to its end");
            } else {
                tracing::warn!(%error, "an answer was not written to its end");
            }
            // Without this, what is there would be taken for the whole.
            let ChunkWriter { sender, runtime, .. } = writer;
            runtime.spawn(async move { sender.send(Err(io::Error::other("it was not written to its end"))).await });
        }
    });
    Body::from_stream(ReceiverStream::new(receiver))
}

/// Sends what is written to it, in chunks.
pub struct ChunkWriter {
    buffer: Vec<u8>,
    sender: mpsc::Sender<io::Result<Bytes>>,
    runtime: Handle,
    timeout: SendTimeout,
}

impl ChunkWriter {
    fn send(&mut self) -> io::Result<()> {
        let chunk: Bytes = std::mem::replace(&mut self.buffer, Vec::with_capacity(CHUNK)).into();
        let (length, began) = (chunk.len(), Instant::now());
        match self.runtime.block_on(timeout(self.timeout.left(), self.sender.send(Ok(chunk)))) {
            Ok(Ok(())) => {
                self.timeout.took(length, began.elapsed());
                Ok(())
            }
            Ok(Err(_)) => Err(io::Error::new(io::ErrorKind::BrokenPipe, "the client is gone")),
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read")),
        }
    }
}

/// How long a client was waited for, against how long that may take. Writing does not count.
#[derive(Debug, Default)]
struct SendTimeout {
    waited: Duration,
    bytes: u64,
}

impl SendTimeout {
    /// How long the next chunk may take.
    fn left(&self) -> Duration {
        let due = Duration::from_micros(self.bytes * 1_000_000 / u64::from(RATE));
        (CHUNK_TIMEOUT + due).saturating_sub(self.waited).min(CHUNK_TIMEOUT)
    }

    /// So many bytes took so long.
    fn took(&mut self, bytes: usize, time: Duration) {
        self.bytes += bytes as u64;
        self.waited += time;
    }
}

impl Write for ChunkWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= CHUNK {
            self.send()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many bytes a client gets that takes so long for a chunk, of a gigabyte, and how long it has the turn.
    fn served(each: Duration) -> (u64, Duration) {
        let mut timeout = SendTimeout::default();
        while timeout.bytes < 1 << 30 && each <= timeout.left() {
            timeout.took(CHUNK, each);
        }
        (timeout.bytes, timeout.waited)
    }

    #[test]
    fn a_client_that_takes_each_chunk_at_the_last_moment_does_not_have_the_turn_for_long() {
        let (bytes, time) = served(Duration::from_millis(9_900));
        assert!(bytes == CHUNK as u64 && time < CHUNK_TIMEOUT, "{bytes} {time:?}");
        let (bytes, time) = served(Duration::from_secs(1));
        assert!(bytes < 1 << 20 && time <= CHUNK_TIMEOUT + Duration::from_secs(1), "{bytes} {time:?}");
        // As fast as it must be.
        let (bytes, time) = served(Duration::from_micros(62_500));
        assert_eq!((bytes, time), (1 << 30, Duration::from_secs(1024)));
        assert_eq!(served(CHUNK_TIMEOUT + Duration::from_nanos(1)), (0, Duration::ZERO));
    }

    #[test]
    fn who_was_fast_may_still_not_stop_for_longer_than_anybody() {
        let mut timeout = SendTimeout::default();
        timeout.took(1 << 30, Duration::from_secs(1));
        assert_eq!(timeout.left(), CHUNK_TIMEOUT);
    }
}
