//! Child processes whose output is kept for the report of a failed test.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tokio::process::{Child, Command};

use crate::wait::{POLL_INTERVAL, TIMEOUT, eventually};

/// How long a program may take to end that was asked to.
const ENDING: Duration = Duration::from_mins(2);

/// The top of the checkout.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

/// What a process has in memory, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// Now.
    pub resident: u64,
    /// At most so far.
    pub most: u64,
}

/// What the process `id` has in memory.
pub fn memory(id: u32) -> Result<Memory> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status"))?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).context("no such field")?;
        anyhow::Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? << 10)
    };
    Ok(Memory { resident: field("VmRSS:")?, most: field("VmHWM:")? })
}

/// CPU time that the threads of the process `id` have used.
pub fn cpu(id: u32) -> Result<Duration> {
    let mut total = 0;
    for task in std::fs::read_dir(format!("/proc/{id}/task"))? {
        // A thread may end meanwhile.
        let Ok(stat) = std::fs::read_to_string(task?.path().join("schedstat")) else { continue };
        total += stat.split_whitespace().next().context("no time")?.parse::<u64>()?;
    }
    Ok(Duration::from_nanos(total))
}

/// The Envoy to test with: `PORTCULLIS_ENVOY`, or the one that `make envoy` installs.
pub fn envoy_binary() -> Result<PathBuf> {
    let path =
        std::env::var_os("PORTCULLIS_ENVOY").map_or_else(|| root().join(".tools/envoy/bin/envoy"), PathBuf::from);
    if !path.exists() {
        bail!("no Envoy at {}: run `make envoy` or set PORTCULLIS_ENVOY", path.display());
    }
    Ok(path)
}

/// The `portcullis` to test: `PORTCULLIS_BIN`, or the one built from this checkout now.
pub fn portcullis_binary() -> Result<PathBuf> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    if let Some(path) = std::env::var_os("PORTCULLIS_BIN") {
        return Ok(PathBuf::from(path));
    }
    BUILT.get_or_init(|| build_portcullis().map_err(|error| format!("{error:#}"))).clone().map_err(anyhow::Error::msg)
}

/// Cargo tells a test where a program is only if both are in one package, so it is asked to build it.
fn build_portcullis() -> Result<PathBuf> {
    let output = std::process::Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--package", "portcullis"])
        .args(["--message-format", "json-render-diagnostics"])
        .current_dir(root())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo")?;
    if !output.status.success() {
        bail!("cannot build portcullis");
    }
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter_map(|message| message.get("executable")?.as_str().map(PathBuf::from))
        .next_back()
        .context("cargo built no executable")
}

/// Ends a process without asking it.
pub async fn kill(id: u32) -> Result<()> {
    signal("KILL", id).await
}

/// Sends the signal `name`, without `SIG`, to a process.
async fn signal(name: &str, id: u32) -> Result<()> {
    // Signals other than this program's own need unsafe code or a crate; the command is everywhere.
    let sent = Command::new("kill").args(["-s", name, &id.to_string()]).status().await?;
    if !sent.success() {
        bail!("cannot send {name} to process {id}");
    }
    Ok(())
}

/// Stops the process `id` where it is, and returns once none of its threads runs any more.
///
/// A thread that runs while another one of its process takes the signal goes on for a while on a busy machine.
pub async fn freeze(id: u32) -> Result<()> {
    signal("STOP", id).await?;
    eventually(TIMEOUT, async || {
        for thread in std::fs::read_dir(format!("/proc/{id}/task"))? {
            let status = std::fs::read_to_string(thread?.path().join("status"))?;
            ensure!(status.lines().any(|line| line == "State:\tT (stopped)"), "process {id} is not stopped:\n{status}");
        }
        Ok(())
    })
    .await
}

/// Lets a process that [`freeze`] stopped go on.
pub async fn thaw(id: u32) -> Result<()> {
    signal("CONT", id).await
}

/// A running program; it is killed when this is dropped.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
    has_children: bool,
}

impl Process {
    /// Starts `program`, standard output and error going to `log`.
    pub fn start<S: AsRef<OsStr>>(
        name: &str,
        program: &Path,
        arguments: impl IntoIterator<Item = S>,
        log: PathBuf,
    ) -> Result<Self> {
        Self::start_with(name, program, arguments, [("", ""); 0], log)
    }

    /// The same with variables of the environment.
    pub fn start_with<S: AsRef<OsStr>, V: AsRef<OsStr>>(
        name: &str,
        program: &Path,
        arguments: impl IntoIterator<Item = S>,
        variables: impl IntoIterator<Item = (&'static str, V)>,
        log: PathBuf,
    ) -> Result<Self> {
        let output = std::fs::File::create(&log).with_context(|| format!("create {}", log.display()))?;
        let child = Command::new(program)
            .args(arguments)
            .envs(variables)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        Ok(Self { name: name.to_owned(), child, log, has_children: false })
    }

    /// The same for a program that has to be asked to end, since it ends others then.
    pub fn with_children(mut self) -> Self {
        self.has_children = true;
        self
    }

    /// Fails with the end of the log if the program has ended.
    pub fn check_alive(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("{} ended: {status}\n{}", self.name, self.log_tail()),
        }
    }

    /// Waits until `attempt` succeeds, but not for a program that has ended.
    pub async fn wait_until<F>(&mut self, attempt: impl FnMut() -> F) -> Result<()>
    where
        F: Future<Output = Result<()>>,
    {
        self.wait_until_within(TIMEOUT, attempt).await
    }

    /// The same for a program that takes longer to start.
    pub async fn wait_until_within<F>(&mut self, timeout: Duration, mut attempt: impl FnMut() -> F) -> Result<()>
    where
        F: Future<Output = Result<()>>,
    {
        let start = Instant::now();
        loop {
            let attempted = attempt().await;
            // A port may have been taken by a stranger: only a living program counts.
            self.check_alive()?;
            match attempted {
                Ok(()) => return Ok(()),
                Err(error) if start.elapsed() >= timeout => {
                    return Err(error.context(self.log_tail()));
                }
                Err(_) => tokio::time::sleep(POLL_INTERVAL).await,
            }
        }
    }

    /// The process' id, unless it has ended and that was seen.
    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Ends the program without asking it, and waits until it has ended.
    pub async fn kill(&mut self) -> Result<()> {
        self.child.start_kill()?;
        self.wait().await.map(drop)
    }

    /// Asks the program to end, as an init system would, and waits until it has.
    pub async fn terminate(&mut self) -> Result<std::process::ExitStatus> {
        if let Some(id) = self.child.id() {
            signal("TERM", id).await?;
        }
        self.wait().await
    }

    /// Waits until the program ends by itself.
    pub async fn ended(&mut self) -> Result<std::process::ExitStatus> {
        let ended = tokio::time::timeout(TIMEOUT, self.wait()).await;
        ended.with_context(|| format!("{} goes on\n{}", self.name, self.log_tail()))?
    }

    /// Looks until the program has ended. [`Child::wait`] would be told, but only by the runtime that started the program, which
    /// may be that of another test.
    async fn wait(&mut self) -> Result<std::process::ExitStatus> {
        let start = Instant::now();
        loop {
            match self.child.try_wait()? {
                Some(status) => return Ok(status),
                None if start.elapsed() > ENDING => bail!("{} goes on\n{}", self.name, self.log_tail()),
                None => tokio::time::sleep(POLL_INTERVAL).await,
            }
        }
    }

    /// The ids of the processes that the program has started.
    pub fn children(&self) -> Result<Vec<u32>> {
        let id = self.child.id().context("the program has ended")?;
        let mut children = Vec::new();
        // Each thread has the children that it started.
        for thread in std::fs::read_dir(format!("/proc/{id}/task"))? {
            // A thread may end meanwhile.
            let Ok(list) = std::fs::read_to_string(thread?.path().join("children")) else { continue };
            children.extend(list.split_whitespace().filter_map(|id| id.parse::<u32>().ok()));
        }
        Ok(children)
    }

    /// Everything that the program has printed.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// The last lines that the program has printed.
    pub fn log_tail(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        let start = lines.len().saturating_sub(40);
        format!("--- log of {} ---\n{}", self.name, lines[start..].join("\n"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let Some(id) = self.child.id().filter(|_| self.has_children) else {
            return;
        };
        let sent = std::process::Command::new("kill").arg(id.to_string()).status();
        let deadline = Instant::now() + TIMEOUT;
        while sent.is_ok() && matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}
