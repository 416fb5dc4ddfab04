//! What an agent and its client say to each other: frames with their length before them.
//!
//! ```text
//! request: u32 length, u64 id, u32 fragments, bootstrap
//! answer:  u32 length, u64 id, u8 outcome, words
//! ```
//!
//! Numbers are big-endian. The first answer of a connection has the id 0 and tells the build of Envoy.

use std::io;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::{
    outcome::{Build, Job, Outcome},
    words,
};

/// The longest request, in bytes. A batch has a quarter of it.
pub(crate) const MAX_REQUEST: usize = 32 << 20;
/// The longest answer, in bytes: its id, its outcome, and 4 KiB of words.
pub(crate) const MAX_ANSWER: usize = 8 + 1 + (4 << 10);

/// A frame without its length; none at the end of the stream. Nothing is allocated for what does not come.
pub(crate) async fn read(stream: &mut (impl AsyncRead + Unpin), most: usize) -> io::Result<Option<Bytes>> {
    let length = match stream.read_u32().await {
        Ok(length) => length as usize,
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    };
    if length > most {
        return Err(invalid(format!("a frame of {length} bytes, of which there may be {most}")));
    }
    let mut frame = Vec::new();
    stream.take(length as u64).read_to_end(&mut frame).await?;
    if frame.len() < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some(frame.into()))
}

/// A request with its length.
pub(crate) fn request(id: u64, job: &Job) -> Bytes {
    let mut frame = BytesMut::with_capacity(16 + job.bootstrap.len());
    frame.put_u32(u32::try_from(12 + job.bootstrap.len()).unwrap_or(u32::MAX));
    frame.put_u64(id);
    frame.put_u32(job.fragments);
    frame.put_slice(&job.bootstrap);
    frame.freeze()
}

/// A request out of its frame.
pub(crate) fn read_request(mut frame: Bytes) -> io::Result<(u64, Job)> {
    let short = |_| invalid("a request without an id".to_owned());
    let id = frame.try_get_u64().map_err(short)?;
    let fragments = frame.try_get_u32().map_err(short)?;
    Ok((id, Job { bootstrap: frame, fragments }))
}

/// What an answer says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Of the agent itself.
    Hello(Build),
    /// Of a request.
    Of(u64, Outcome),
}

mod code {
    pub(super) const ACCEPTED: u8 = 0;
    pub(super) const REFUSED: u8 = 1;
    pub(super) const CRASHED: u8 = 2;
    pub(super) const TOO_EXPENSIVE: u8 = 3;
    pub(super) const OUT_OF_MEMORY: u8 = 4;
    pub(super) const STALLED: u8 = 5;
    pub(super) const UNAVAILABLE: u8 = 6;
    pub(super) const ENDED: u8 = 7;
    pub(super) const HELLO: u8 = 255;
}

/// An answer with its length.
pub(crate) fn answer(answer: &Answer) -> Bytes {
    let signal;
    let (id, code, words) = match answer {
        Answer::Hello(build) => (0, code::HELLO, build.as_str()),
        Answer::Of(id, outcome) => {
            let (code, words) = match outcome {
                Outcome::Accepted => (code::ACCEPTED, ""),
                Outcome::Refused(words) => (code::REFUSED, words.as_str()),
                Outcome::Crashed(by) => {
                    signal = by.to_string();
                    (code::CRASHED, signal.as_str())
                }
                Outcome::TooExpensive => (code::TOO_EXPENSIVE, ""),
                Outcome::OutOfMemory => (code::OUT_OF_MEMORY, ""),
                Outcome::Stalled => (code::STALLED, ""),
                Outcome::Ended(how) => (code::ENDED, how.as_str()),
                Outcome::Unavailable(why) => (code::UNAVAILABLE, why.as_str()),
            };
            (*id, code, words)
        }
    };
    let words = &words[..words.floor_char_boundary(MAX_ANSWER - 9)];
    let mut frame = BytesMut::with_capacity(13 + words.len());
    frame.put_u32(u32::try_from(9 + words.len()).unwrap_or(u32::MAX));
    frame.put_u64(id);
    frame.put_u8(code);
    frame.put_slice(words.as_bytes());
    frame.freeze()
}

/// An answer out of its frame. Its words are made fit to be told once more: who sends them may have been taken over.
pub(crate) fn read_answer(mut frame: Bytes) -> io::Result<Answer> {
    let short = |_| invalid("an answer without an outcome".to_owned());
    let id = frame.try_get_u64().map_err(short)?;
    let code = frame.try_get_u8().map_err(short)?;
    let text = String::from_utf8_lossy(&frame);
    let words = || words::one_line(&text);
    let outcome = match code {
        code::HELLO => {
            let build = Build::named(&text).ok_or_else(|| invalid("an agent that names no build".to_owned()))?;
            return Ok(Answer::Hello(build));
        }
        code::ACCEPTED => Outcome::Accepted,
        code::REFUSED => Outcome::Refused(words()),
        code::CRASHED => Outcome::Crashed(text.parse().map_err(|_| invalid("a crash without its signal".to_owned()))?),
        code::TOO_EXPENSIVE => Outcome::TooExpensive,
        code::OUT_OF_MEMORY => Outcome::OutOfMemory,
        code::STALLED => Outcome::Stalled,
        code::ENDED => Outcome::Ended(words()),
        code::UNAVAILABLE => Outcome::Unavailable(words()),
        other => return Err(invalid(format!("an outcome of number {other}"))),
    };
    Ok(Answer::Of(id, outcome))
}

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn framed(bytes: &[u8], most: usize) -> io::Result<Option<Bytes>> {
        read(&mut &bytes[..], most).await
    }

    #[tokio::test]
    async fn what_is_written_is_read() {
        let job = Job { bootstrap: Bytes::from_static(b"bootstrap"), fragments: 7 };
        let frame = framed(&request(3, &job), MAX_REQUEST).await.expect("sound").expect("there");
        let (id, read) = read_request(frame).expect("sound");
        assert_eq!((id, read.fragments, read.bootstrap), (3, 7, job.bootstrap));
        let build = Build::named("0a/1.40.0/Clean").expect("a build");
        let outcomes = [
            Outcome::Accepted,
            Outcome::Refused("no".into()),
            Outcome::Crashed(11),
            Outcome::TooExpensive,
            Outcome::OutOfMemory,
            Outcome::Stalled,
            Outcome::Ended("exit status: 7".into()),
            Outcome::Unavailable("gone".into()),
        ];
        for said in outcomes.map(|outcome| Answer::Of(u64::MAX, outcome)).into_iter().chain([Answer::Hello(build)]) {
            let frame = framed(&answer(&said), MAX_ANSWER).await.expect("sound").expect("there");
            assert_eq!(read_answer(frame).expect("sound"), said);
        }
    }

    #[tokio::test]
    async fn hostile_frames_are_refused_and_words_are_bounded() {
        assert!(framed(&[], MAX_ANSWER).await.expect("it ended").is_none());
        framed(&u32::MAX.to_be_bytes(), MAX_ANSWER).await.expect_err("it is too long");
        framed(&[0, 0, 0, 9, 1], MAX_ANSWER).await.expect_err("it ends early");
        for frame in [&[][..], &[0; 8], &[0, 0, 0, 0, 0, 0, 0, 1, 77], &[0, 0, 0, 0, 0, 0, 0, 1, 2, b'x']] {
            read_answer(Bytes::copy_from_slice(frame)).expect_err("it says nothing");
        }
        read_request(Bytes::from_static(&[0; 11])).expect_err("it has no id");
        let long = Answer::Of(1, Outcome::Refused("\u{1b}é\n".repeat(9_000)));
        let frame = framed(&answer(&long), MAX_ANSWER).await.expect("it is cut").expect("there");
        let Answer::Of(1, Outcome::Refused(words)) = read_answer(frame).expect("sound") else { panic!("another") };
        assert!(words.len() <= words::MAX_WORDS && !words.contains(['\u{1b}', '\n']), "{words}");
    }
}
