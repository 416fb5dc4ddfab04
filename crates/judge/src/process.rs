//! One Envoy process that judges one bootstrap.

use std::{
    io,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use rustix::{
    fs::{CWD, FileType, Mode, mknodat},
    process::{Pid, Resource, Rlimit, prlimit},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    net::unix::pipe,
    process::{Child, Command},
    task::JoinHandle,
    time::{Instant, timeout},
};

use crate::{
    outcome::{Build, Job, Outcome},
    words,
};

/// How long a process may take until it asks for its bootstrap.
const START: Duration = Duration::from_secs(10);
/// Between two looks at whether it does.
const LOOK: Duration = Duration::from_millis(1);
/// How much is kept of what it writes to its standard output and to its standard error, in bytes each.
const MAX_ERRORS: u64 = 64 << 10;

/// How processes are started.
#[derive(Clone, Debug)]
pub struct Launch {
    /// A program that calls [`confine::exec`](crate::confine::exec) with what stands behind `arguments`: the parent, the program,
    /// and its arguments.
    pub program: PathBuf,
    /// Its first arguments.
    pub arguments: Vec<String>,
    /// The Envoy.
    pub envoy: PathBuf,
    /// Where FIFOs are made, for each process one; where none is said, in the folder for temporary files.
    pub folder: Option<PathBuf>,
    /// How long a process may take at most from its bootstrap on, whatever it does. It has much less CPU time, and for few fragments
    /// it has [less](Job::time).
    pub time: Duration,
}

impl Launch {
    /// How long a process may take where nobody says otherwise.
    pub const TIME: Duration = Duration::from_secs(30);
}

/// An Envoy that was started ahead and waits for its bootstrap. Dropping it kills it.
pub(crate) struct Waiting {
    child: Child,
    output: JoinHandle<String>,
    errors: JoinHandle<String>,
    bootstrap: pipe::Sender,
    time: Duration,
    /// What it calls its configuration.
    path: PathBuf,
}

/// A FIFO, removed when this is dropped: once both ends are open, nobody else shall find it.
struct Fifo(PathBuf);

impl Drop for Fifo {
    fn drop(&mut self) {
        // The folder goes too, in the end, and nobody guesses the name.
        let _: io::Result<()> = std::fs::remove_file(&self.0);
    }
}

impl Waiting {
    /// Starts one and waits until it asks for its bootstrap, which it does by opening `fifo`. Envoy takes the bootstrap for an
    /// encoded one by the end of this name, `.pb`.
    pub(crate) async fn start(launch: &Launch, fifo: PathBuf) -> Result<Self, String> {
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
            .map_err(|error| format!("cannot make a FIFO in {}: {error}", folder_of(&fifo).display()))?;
        let fifo = Fifo(fifo);
        let path = fifo.0.as_os_str();
        let mut command = command(launch);
        command.args(["--mode", "validate", "--log-level", "critical", "--disable-hot-restart", "--concurrency", "1"]);
        command.arg("--config-path").arg(path);
        let mut child = spawn(command.stdout(Stdio::piped()))?;
        let output = tokio::spawn(collect(child.stdout.take()));
        let errors = tokio::spawn(collect(child.stderr.take()));
        let deadline = Instant::now() + START;
        loop {
            // Without a reader this fails, and with one Envoy waits for what is written.
            match pipe::OpenOptions::new().open_sender(&fifo.0) {
                Ok(bootstrap) => {
                    let path = fifo.0.clone();
                    return Ok(Self { child, output, errors, bootstrap, time: launch.time, path });
                }
                Err(error) if error.raw_os_error() == Some(libc::ENXIO) => {}
                Err(error) => return Err(format!("cannot open the FIFO of an Envoy: {error}")),
            }
            if Instant::now() >= deadline {
                return Err(format!("Envoy does not ask for its bootstrap within {START:?}"));
            }
            if let Ok(ended) = timeout(LOOK, child.wait()).await {
                let status = ended.map_err(|error| format!("cannot wait for an Envoy: {error}"))?;
                return Err(words::one_line(&format!("it ends at once ({status}): {}", said(errors).await)));
            }
        }
    }

    /// Itself, if it still waits.
    pub(crate) fn alive(mut self) -> Option<Self> {
        matches!(self.child.try_wait(), Ok(None)).then_some(self)
    }

    /// Has it judge a bootstrap.
    pub(crate) async fn judge(self, job: &Job) -> Outcome {
        let Self { mut child, output, errors, mut bootstrap, time, path } = self;
        if let Err(error) = limit(&child, job.cpu_seconds()) {
            return Outcome::Unavailable(format!("cannot limit an Envoy: {error}"));
        }
        let judged = async {
            let feed = async move {
                // It may have seen enough before it has read all.
                let _: io::Result<()> = bootstrap.write_all(&job.bootstrap).await;
                // Dropped, this is the end of the bootstrap.
            };
            tokio::join!(feed, child.wait()).1
        };
        match timeout(time.min(job.time()), judged).await {
            Ok(Ok(status)) => Outcome::of(status, &path.to_string_lossy(), &said(output).await, &said(errors).await),
            Ok(Err(error)) => Outcome::Unavailable(format!("cannot wait for an Envoy: {error}")),
            Err(_) => {
                // Gone or not, nobody waits for it any more.
                let _: io::Result<()> = child.kill().await;
                Outcome::Stalled
            }
        }
    }
}

/// The build that the program names when it is asked, by a process as confined as all others.
pub(crate) async fn build(launch: &Launch) -> Result<Build, String> {
    let failed = |why: String| format!("{} does not tell its version: {why}", launch.envoy.display());
    let mut command = command(launch);
    let mut child = spawn(command.arg("--version").stdout(Stdio::piped())).map_err(&failed)?;
    let errors = tokio::spawn(collect(child.stderr.take()));
    let mut printed = String::new();
    let told = async {
        if let Some(stdout) = &mut child.stdout {
            stdout.take(MAX_ERRORS).read_to_string(&mut printed).await?;
        }
        child.wait().await
    };
    let status: ExitStatus = match timeout(START, told).await {
        Ok(status) => status.map_err(|error| failed(error.to_string()))?,
        Err(_) => return Err(failed(format!("it takes more than {START:?}"))),
    };
    match Build::printed(&printed) {
        Some(build) if status.success() => Ok(build),
        _ => Err(failed(words::one_line(&format!("{status}: {}", said(errors).await)))),
    }
}

/// This program, which gives up all that it does not need and becomes Envoy.
fn command(launch: &Launch) -> Command {
    let mut command = Command::new(&launch.program);
    command.args(&launch.arguments).arg(std::process::id().to_string()).arg(&launch.envoy).env_clear();
    command
}

fn spawn(command: &mut Command) -> Result<Child, String> {
    let command = command.stdin(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
    command.spawn().map_err(|error| format!("cannot start a process: {error}"))
}

/// Gives a process so much CPU time. It is told when that is over, and ended a second later.
fn limit(child: &Child, seconds: u64) -> io::Result<()> {
    // One that has ended has no limits.
    let Some(id) = child.id().and_then(|id| Pid::from_raw(id.cast_signed())) else { return Ok(()) };
    prlimit(Some(id), Resource::Cpu, Rlimit { current: Some(seconds), maximum: Some(seconds + 1) })?;
    Ok(())
}

/// The beginning of what a process writes to one of them. What is too much is read all the same, since it waits otherwise.
async fn collect(errors: Option<impl AsyncRead + Unpin>) -> String {
    let mut kept = Vec::new();
    if let Some(mut errors) = errors {
        // What was read before a failure counts.
        let _: io::Result<usize> = (&mut errors).take(MAX_ERRORS).read_to_end(&mut kept).await;
        let _: io::Result<u64> = tokio::io::copy(&mut errors, &mut tokio::io::sink()).await;
    }
    String::from_utf8_lossy(&kept).into_owned()
}

/// What a process that has ended wrote.
async fn said(errors: JoinHandle<String>) -> String {
    errors.await.unwrap_or_default()
}

fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}
