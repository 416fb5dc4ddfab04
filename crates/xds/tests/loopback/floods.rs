//! Frames of HTTP/2 without end, against a real server: a connection on which nobody was let in ends in its time, whatever
//! comes on it, and those who were let in are served meanwhile.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// A ping.
const PING: &[u8] = b"\0\0\x08\x06\0\0\0\0\0portcull";
/// Settings with a window.
const SETTINGS: &[u8] = b"\0\0\x06\x04\0\0\0\0\0\0\x04\0\x01\0\0";
/// A priority of a stream that is not there.
const PRIORITY: &[u8] = b"\0\0\x05\x02\0\0\0\0\x03\0\0\0\0\x10";
/// A frame of a kind that nobody knows.
const UNKNOWN: &[u8] = b"\0\0\x00\xfe\0\0\0\0\0";

/// Writes a frame again and again until the server ends the connection; answers are read or not.
async fn flood(address: SocketAddr, frame: &'static [u8], reads: bool) {
    let (mut answers, mut frames) = TcpStream::connect(address).await.unwrap().into_split();
    let reading = tokio::spawn(async move {
        let mut buffer = vec![0; 64 << 10];
        while reads && answers.read(&mut buffer).await.is_ok_and(|read| read > 0) {}
        // Nobody reads, but the connection is not closed from here.
        std::future::pending::<()>().await;
    });
    frames.write_all(PREFACE).await.unwrap();
    let many = frame.repeat(500);
    while frames.write_all(&many).await.is_ok() {}
    reading.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_sends_frames_without_end_ends_like_a_silent_one() {
    let server = ready(|config| config.idle_timeout = Duration::from_millis(500)).await;
    for frame in [PING, SETTINGS, PRIORITY, UNKNOWN] {
        for reads in [true, false] {
            let ended = timeout(Duration::from_secs(90), flood(server.address, frame, reads)).await;
            assert!(ended.is_ok(), "frames of kind {} never end, read: {reads}", frame[3]);
        }
    }
}
