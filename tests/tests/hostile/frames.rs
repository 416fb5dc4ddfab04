//! HTTP/2 frames, written by hand.

use std::time::Duration;

use anyhow::Result;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// How many frames a flood has at most.
const FRAMES: u32 = 20_000;

/// How long one may take to be sent.
const TIMEOUT: Duration = Duration::from_secs(4);

/// How many frames are written at once.
const AT_ONCE: usize = 500;

/// A way to ask for more than one gives.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Flood {
    /// Requests that are taken back at once.
    RapidReset,
    /// Headers that never end.
    Continuation,
    /// The same with frames in which there is nothing.
    EmptyContinuation,
    /// Settings that are to be acknowledged, by who does not read.
    Settings,
    /// Pings that are to be answered, by who does not read.
    Ping,
    /// Priorities of streams that are not there.
    Priority,
    /// Windows, one byte at a time.
    WindowUpdate,
}

impl Flood {
    pub(crate) const ALL: [Self; 7] = [
        Self::RapidReset,
        Self::Continuation,
        Self::EmptyContinuation,
        Self::Settings,
        Self::Ping,
        Self::Priority,
        Self::WindowUpdate,
    ];

    /// What comes first.
    fn opening(self, host: &str) -> Vec<u8> {
        let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        bytes.extend(frame(SETTINGS, 0, 0, &[]));
        if matches!(self, Self::Continuation | Self::EmptyContinuation) {
            bytes.extend(frame(HEADERS, END_STREAM, 1, &request(host)));
        }
        bytes
    }

    /// The frames of number `number`.
    fn frames(self, number: u32, host: &str) -> Vec<u8> {
        let stream = 2 * number + 1;
        match self {
            Self::RapidReset => {
                let mut bytes = frame(HEADERS, END_STREAM | END_HEADERS, stream, &request(host));
                // CANCEL.
                bytes.extend(frame(RESET, 0, stream, &8_u32.to_be_bytes()));
                bytes
            }
            Self::Continuation => {
                let value = "v".repeat(100);
                frame(CONTINUATION, 0, 1, &literal(&format!("x-{number}"), &value))
            }
            Self::EmptyContinuation => frame(CONTINUATION, 0, 1, &[]),
            Self::Settings => frame(SETTINGS, 0, 0, &[0, 4, 0, 1, 0, 0]),
            Self::Ping => frame(PING, 0, 0, &u64::from(number).to_be_bytes()),
            Self::Priority => frame(PRIORITY, 0, stream, &[0, 0, 0, 0, 16]),
            Self::WindowUpdate => frame(WINDOW_UPDATE, 0, 0, &1_u32.to_be_bytes()),
        }
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap_or_default().to_be_bytes();
    let mut bytes = length[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// Text of less than 127 bytes, as it is.
fn text(text: &str) -> Vec<u8> {
    let length = u8::try_from(text.len()).unwrap_or_default();
    std::iter::once(length).chain(text.bytes()).collect()
}

/// A header that no table remembers.
fn literal(name: &str, value: &str) -> Vec<u8> {
    [vec![0], text(name), text(value)].concat()
}

/// A GET of `/`, of which method, path and scheme stand in the static table, and the name of the authority too.
fn request(host: &str) -> Vec<u8> {
    [vec![0x82, 0x84, 0x86, 0x01], text(host)].concat()
}

/// What became of a flood.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum End {
    /// The server ended the connection.
    Cut,
    /// The server reads no more, or took everything.
    Endured,
}

/// Floods `port` of this machine on one connection, until the server ends it, or all was sent, or the time is over.
pub(crate) async fn flood(flood: Flood, port: u16, host: &str) -> Result<End> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    let sent = async {
        stream.write_all(&flood.opening(host)).await?;
        let mut number = 0;
        while number < FRAMES {
            let mut bytes = Vec::new();
            for _ in 0..AT_ONCE {
                bytes.extend(flood.frames(number, host));
                number += 1;
            }
            stream.write_all(&bytes).await?;
        }
        std::io::Result::Ok(())
    };
    let cut = match timeout(TIMEOUT, sent).await {
        Ok(sent) => sent.is_err(),
        // It reads no more.
        Err(_) => false,
    };
    if cut {
        return Ok(End::Cut);
    }
    // Whatever it said, at the end of it the connection is open or not.
    let mut rest = Vec::new();
    match timeout(TIMEOUT, stream.read_to_end(&mut rest)).await {
        Ok(_) => Ok(End::Cut),
        Err(_) => Ok(End::Endured),
    }
}
