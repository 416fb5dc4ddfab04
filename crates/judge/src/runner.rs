//! Envoys that judge, in processes of this machine.

use std::{
    hash::{BuildHasher, RandomState},
    io,
    path::Path,
    sync::mpsc as std_mpsc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use tokio::{
    sync::{mpsc, oneshot},
    task::JoinSet,
};

use crate::{
    outcome::{Build, Job, Outcome},
    process::{self, Launch, Waiting},
};

/// How many processes judge at a time. One more waits.
pub(crate) const IN_FLIGHT: usize = 2;

/// What comes within this time after another one is of many, as where it is searched for who is to blame.
const OF_MANY: Duration = Duration::from_millis(100);

/// Why Envoys cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A folder or a thread is not to be had.
    #[error("cannot run an Envoy that judges: {0}")]
    Io(#[from] io::Error),
    /// The Envoy is none.
    #[error("{0}")]
    Envoy(String),
}

/// Runs Envoys. Dropping it ends them.
///
/// They are started by one thread that lives as long as this does: the kernel ends a process together with the thread that
/// started it, so that none is left over whatever becomes of this program.
#[derive(Debug)]
pub struct Runner {
    asked: Option<mpsc::Sender<Asked>>,
    thread: Option<JoinHandle<()>>,
    build: Build,
}

type Asked = (Job, oneshot::Sender<Outcome>);

impl Runner {
    /// Asks the Envoy for its version, and starts the first one ahead. Blocks for some milliseconds.
    pub fn start(launch: Launch) -> Result<Self, StartError> {
        let folder = match &launch.folder {
            Some(folder) => folder_in(folder)?,
            None => folder_in(&std::env::temp_dir())?,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (asked, jobs) = mpsc::channel(IN_FLIGHT);
        let (tell, told) = std_mpsc::sync_channel(1);
        let run = move || {
            runtime.block_on(async {
                let build = process::build(&launch).await;
                let works = build.is_ok();
                // Who started this waits for it.
                let _: Result<(), _> = tell.send(build);
                if works {
                    serve(&launch, folder.path(), jobs).await;
                }
            });
        };
        let thread = thread::Builder::new().name("judge".into()).spawn(run)?;
        let build = told.recv().map_err(io::Error::other)?.map_err(StartError::Envoy)?;
        Ok(Self { asked: Some(asked), thread: Some(thread), build })
    }

    /// The Envoy.
    pub fn build(&self) -> &Build {
        &self.build
    }

    /// Has a bootstrap judged. It waits while as many are being judged as may be at a time.
    pub async fn run(&self, job: Job) -> Outcome {
        let gone = || Outcome::Unavailable("the thread that runs Envoys has ended".into());
        let Some(asked) = &self.asked else { return gone() };
        let (answer, answered) = oneshot::channel();
        if asked.send((job, answer)).await.is_err() {
            return gone();
        }
        answered.await.unwrap_or_else(|_| gone())
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        drop(self.asked.take());
        if let Some(thread) = self.thread.take() {
            // It panicked, and then there is nothing to wait for.
            let _: thread::Result<()> = thread.join();
        }
    }
}

/// A name of 128 bits by the keys that the system gives to hash maps. What an Envoy reads could otherwise write for the one that
/// is started ahead, or say of itself that it is accepted.
fn unguessable() -> String {
    let half = || RandomState::new().hash_one(());
    format!("{:016x}{:016x}", half(), half())
}

fn folder_in(folder: &Path) -> io::Result<tempfile::TempDir> {
    tempfile::Builder::new().prefix(".judge-").tempdir_in(folder)
}

/// Takes jobs until nobody has any more.
async fn serve(launch: &Launch, folder: &Path, mut jobs: mpsc::Receiver<Asked>) {
    let next = |launch: &Launch| {
        let fifo = folder.join(unguessable() + ".pb");
        let launch = launch.clone();
        async move { Waiting::start(&launch, fifo).await }
    };
    let mut ahead = Some(tokio::spawn(next(launch)));
    let mut last: Option<Instant> = None;
    let mut running = JoinSet::new();
    loop {
        let (job, mut answer) = tokio::select! {
            asked = jobs.recv(), if running.len() < IN_FLIGHT => match asked {
                Some(asked) => asked,
                None => break,
            },
            Some(_) = running.join_next() => {
                ahead.get_or_insert_with(|| tokio::spawn(next(launch)));
                continue;
            }
        };
        let started = ahead.take().unwrap_or_else(|| tokio::spawn(next(launch)));
        // A start takes several times as much as a judgement. Of many the next one is started beside it, and of one behind it, so
        // that its answer waits for no start.
        if last.replace(Instant::now()).is_some_and(|last| last.elapsed() < OF_MANY) {
            ahead = Some(tokio::spawn(next(launch)));
        }
        // One that waited may have been ended by somebody meanwhile.
        let again = next(launch);
        running.spawn(async move {
            let waiting = match started.await {
                Ok(Ok(waiting)) => waiting.alive(),
                Ok(Err(_)) | Err(_) => None,
            };
            let waiting = match waiting {
                Some(waiting) => Ok(waiting),
                None => again.await,
            };
            let outcome = match waiting {
                // An Envoy is ended whose word nobody waits for.
                Ok(waiting) => tokio::select! {
                    outcome = waiting.judge(&job) => outcome,
                    () = answer.closed() => return,
                },
                Err(why) => Outcome::Unavailable(why),
            };
            // Nobody may want to know any more.
            let _: Result<(), _> = answer.send(outcome);
        });
    }
    if let Some(ahead) = ahead {
        ahead.abort();
    }
}
