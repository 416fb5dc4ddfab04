//! A client of an agent.

use std::{
    collections::HashMap,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::{
    io::AsyncWriteExt,
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{mpsc, oneshot, watch},
    time::{Instant, sleep_until, timeout},
};

use crate::{
    frame::{self, Answer, MAX_ANSWER},
    outcome::{Build, Job, Outcome},
    runner::IN_FLIGHT,
    words,
};

/// How long a client waits before it connects again: at first, and at most.
const RECONNECT: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// How long an agent may take to say who it is.
const HELLO: Duration = Duration::from_secs(5);
/// How long it may take for an answer. An Envoy has less, and one may wait for another.
const ANSWER: Duration = Duration::from_secs(75);

/// Asks an agent, and connects again whenever the connection is gone. Dropping it ends both.
#[derive(Debug)]
pub struct Client {
    asked: mpsc::Sender<Asked>,
    build: watch::Receiver<Option<Build>>,
}

struct Asked {
    job: Job,
    answer: oneshot::Sender<Outcome>,
}

impl Client {
    /// A client of the agent that listens at `path`, there or not. Needs a runtime of tokio.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self::waiting(path.into(), ANSWER)
    }

    fn waiting(path: PathBuf, patience: Duration) -> Self {
        let (asked, requests) = mpsc::channel(IN_FLIGHT);
        let (tell, build) = watch::channel(None);
        tokio::spawn(Connection { path, patience, requests, build: tell }.keep());
        Self { asked, build }
    }

    /// The Envoy that it has; none while there is no connection.
    pub fn build(&self) -> Option<Build> {
        self.build.borrow().clone()
    }

    /// The same, to wait for.
    pub fn watch(&self) -> watch::Receiver<Option<Build>> {
        self.build.clone()
    }

    /// Has a bootstrap judged. Where there is no connection it is unavailable at once.
    pub async fn run(&self, job: Job) -> Outcome {
        let gone = || Outcome::Unavailable("the connection to the judge was given up".into());
        let (answer, answered) = oneshot::channel();
        if self.asked.send(Asked { job, answer }).await.is_err() {
            return gone();
        }
        answered.await.unwrap_or_else(|_| gone())
    }
}

/// What keeps a connection.
struct Connection {
    path: PathBuf,
    patience: Duration,
    requests: mpsc::Receiver<Asked>,
    build: watch::Sender<Option<Build>>,
}

/// Why a connection is given up.
enum End {
    /// Nobody asks any more.
    Done,
    /// It failed.
    Failed(io::Error),
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

impl Connection {
    async fn keep(mut self) {
        let mut wait = RECONNECT.0;
        loop {
            let why = match connect(&self.path).await {
                Ok((reader, writer, build)) => {
                    tracing::info!(build = build.as_str(), "connected to the judge");
                    self.build.send_replace(Some(build));
                    wait = RECONNECT.0;
                    let (end, pending) = self.serve(reader, writer).await;
                    let End::Failed(error) = end else { return };
                    // Who is told so sees that there is no judge any more.
                    self.build.send_replace(None);
                    tracing::warn!(%error, "the connection to the judge is gone");
                    for answer in pending {
                        tell(answer, Outcome::Unavailable(words::one_line(&format!("the judge went away: {error}"))));
                    }
                    error
                }
                Err(error) => error,
            };
            let why = words::one_line(&format!("the judge cannot be asked: {why}"));
            let until = Instant::now() + wait;
            wait = (2 * wait).min(RECONNECT.1);
            loop {
                tokio::select! {
                    () = sleep_until(until) => break,
                    asked = self.requests.recv() => match asked {
                        Some(asked) => tell(asked.answer, Outcome::Unavailable(why.clone())),
                        None => return,
                    },
                }
            }
        }
    }

    /// Asks and tells the answers, until the connection fails; and who has no answer then.
    async fn serve(
        &mut self,
        mut reader: OwnedReadHalf,
        mut writer: OwnedWriteHalf,
    ) -> (End, Vec<oneshot::Sender<Outcome>>) {
        let (heard, mut answers) = mpsc::channel(IN_FLIGHT);
        // By a task of its own, since half an answer that was read is lost if its future is dropped. Who sends more than was
        // asked for waits, and then is let go.
        let hear = tokio::spawn(async move {
            loop {
                let frame = frame::read(&mut reader, MAX_ANSWER).await;
                let answer = frame.and_then(|frame| frame::read_answer(frame.ok_or(io::ErrorKind::UnexpectedEof)?));
                let is_last = answer.is_err();
                if heard.send(answer).await.is_err() || is_last {
                    return;
                }
            }
        });
        let end = self.exchange(&mut writer, &mut answers).await;
        hear.abort();
        end
    }

    async fn exchange(
        &mut self,
        writer: &mut OwnedWriteHalf,
        answers: &mut mpsc::Receiver<io::Result<Answer>>,
    ) -> (End, Vec<oneshot::Sender<Outcome>>) {
        let mut pending: HashMap<u64, (oneshot::Sender<Outcome>, Instant)> = HashMap::new();
        let mut ids = 1_u64..;
        let end = loop {
            let first = pending.values().map(|(_, until)| *until).min();
            let late = async {
                match first {
                    Some(until) => sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                asked = self.requests.recv(), if pending.len() < IN_FLIGHT => {
                    let Some(Asked { job, answer }) = asked else { break End::Done };
                    let id = ids.next().unwrap_or_default();
                    let until = Instant::now() + self.patience;
                    pending.insert(id, (answer, until));
                    match timeout(self.patience, writer.write_all(&frame::request(id, &job))).await {
                        Ok(Ok(())) => {}
                        Ok(Err(error)) => break error.into(),
                        Err(_) => break silent(),
                    }
                }
                answer = answers.recv() => match answer {
                    Some(Ok(Answer::Of(id, outcome))) => match pending.remove(&id) {
                        Some((answer, _)) => tell(answer, outcome),
                        None => break failed("it answers what was not asked"),
                    },
                    Some(Ok(Answer::Hello(_))) => break failed("it says twice who it is"),
                    Some(Err(error)) => break error.into(),
                    None => break End::Failed(io::ErrorKind::UnexpectedEof.into()),
                },
                () = late => break silent(),
            }
        };
        (end, pending.into_values().map(|(answer, _)| answer).collect())
    }
}

/// A connection to an agent that said who it is.
async fn connect(path: &Path) -> io::Result<(OwnedReadHalf, OwnedWriteHalf, Build)> {
    let connect = async {
        let (mut reader, writer) = UnixStream::connect(path).await?.into_split();
        let frame = frame::read(&mut reader, MAX_ANSWER).await?.ok_or(io::ErrorKind::UnexpectedEof)?;
        match frame::read_answer(frame)? {
            Answer::Hello(build) => Ok((reader, writer, build)),
            Answer::Of(..) => Err(io::Error::new(io::ErrorKind::InvalidData, "it does not say who it is")),
        }
    };
    timeout(HELLO, connect).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

fn tell(answer: oneshot::Sender<Outcome>, outcome: Outcome) {
    // Who asked may be gone.
    let _: Result<(), _> = answer.send(outcome);
}

fn failed(why: &'static str) -> End {
    End::Failed(io::Error::new(io::ErrorKind::InvalidData, why))
}

fn silent() -> End {
    End::Failed(io::Error::new(io::ErrorKind::TimedOut, "it does not answer"))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use tokio::{io::AsyncReadExt, net::UnixListener};

    use super::*;

    const BUILD: &str = "0a/1.40.0/Clean/RELEASE/BoringSSL";

    fn job() -> Job {
        Job { bootstrap: Bytes::from_static(b"bootstrap"), fragments: 1 }
    }

    fn hello() -> Bytes {
        frame::answer(&Answer::Hello(Build::named(BUILD).expect("a build")))
    }

    const LITTLE: Duration = Duration::from_millis(300);
    const LONG: Duration = Duration::from_mins(1);

    /// A judge that says who it is, and then does this once with each client; and a client that waits this long.
    fn hostile<F: Future<Output = io::Result<()>> + Send>(
        patience: Duration,
        then: impl Fn(UnixStream) -> F + Send + Sync + 'static,
    ) -> (tempfile::TempDir, Client) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("judge");
        let listener = UnixListener::bind(&path).expect("it is free");
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                // What becomes of it is the client's.
                let _: io::Result<()> = stream.write_all(&hello()).await;
                let _: io::Result<()> = then(stream).await;
            }
        });
        (folder, Client::waiting(path, patience))
    }

    async fn connected(client: &Client) {
        let mut build = client.watch();
        let connected = build.wait_for(Option::is_some).await.expect("it connects");
        assert_eq!(connected.as_ref().map(Build::number), Some("1.40.0"));
    }

    fn why(outcome: Outcome) -> String {
        let Outcome::Unavailable(why) = outcome else { panic!("{outcome:?}") };
        why
    }

    async fn request(stream: &mut UnixStream) -> io::Result<u64> {
        let frame = frame::read(stream, frame::MAX_REQUEST).await?.ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok(frame::read_request(frame)?.0)
    }

    #[tokio::test]
    async fn without_a_judge_the_answer_is_there_at_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let client = Client::new(folder.path().join("nobody"));
        assert!(why(client.run(job()).await).contains("cannot be asked"));
        assert_eq!(client.build(), None);
    }

    #[tokio::test]
    async fn a_judge_that_hangs_is_given_up_and_another_is_asked() {
        let (_folder, client) = hostile(LITTLE, async |mut stream: UnixStream| {
            request(&mut stream).await?;
            std::future::pending().await
        });
        connected(&client).await;
        assert!(why(client.run(job()).await).contains("does not answer"));
    }

    #[tokio::test]
    async fn a_judge_that_reads_nothing_is_given_up() {
        let (_folder, client) = hostile(LITTLE, async |_stream: UnixStream| std::future::pending().await);
        connected(&client).await;
        let large = Job { bootstrap: vec![0; 8 << 20].into(), fragments: 1 };
        assert!(why(client.run(large).await).contains("does not answer"));
    }

    #[tokio::test]
    async fn a_judge_that_floods_or_lies_about_what_was_asked_is_let_go() {
        for lie in [
            frame::answer(&Answer::Of(99, Outcome::Accepted)),
            hello(),
            Bytes::from_static(&[0xff; 64]),
            Bytes::from_static(&[0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 1, 77]),
        ] {
            let (_folder, client) = hostile(LONG, move |mut stream: UnixStream| {
                let lie = lie.clone();
                async move {
                    request(&mut stream).await?;
                    loop {
                        stream.write_all(&lie).await?;
                    }
                }
            });
            connected(&client).await;
            assert!(why(client.run(job()).await).contains("went away"));
        }
    }

    #[tokio::test]
    async fn who_answers_again_is_asked_again() {
        let (_folder, client) = hostile(LONG, async |mut stream: UnixStream| {
            let id = request(&mut stream).await?;
            stream.write_all(&frame::answer(&Answer::Of(id, Outcome::TooExpensive))).await
        });
        for _ in 0..3 {
            connected(&client).await;
            assert_eq!(client.run(job()).await, Outcome::TooExpensive);
            let mut build = client.watch();
            build.wait_for(Option::is_none).await.expect("it hangs up after each answer");
        }
    }

    #[tokio::test]
    async fn a_judge_that_is_none_is_never_asked() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("judge");
        let listener = UnixListener::bind(&path).expect("it is free");
        let client = Client::new(path);
        let (mut stream, _) = listener.accept().await.expect("it connects");
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.expect("it is written");
        let mut rest = Vec::new();
        // It hangs up, with or without having read all.
        let _: io::Result<usize> = stream.read_to_end(&mut rest).await;
        assert!(rest.is_empty(), "nothing of a tenant was sent");
        assert!(why(client.run(job()).await).contains("cannot be asked"));
    }
}
