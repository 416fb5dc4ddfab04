//! The `portcullis` command, run as a user runs it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::client::{self, Request, Target};
use crate::ports;
use crate::process::{Process, portcullis_binary};
use crate::wait::{TIMEOUT, eventually};

/// How long a start may take. A debug build computes for seconds what the largest trees of the tests come to, while others
/// run.
const STARTING: Duration = Duration::from_mins(5);

/// A running `portcullis run`; it is killed when this is dropped.
#[derive(Debug)]
pub struct Portcullis {
    process: Process,
    arguments: Vec<String>,
    xds: SocketAddr,
    admin: Target,
    files: PathBuf,
    // Holds manifests and log for as long as the process runs.
    folder: tempfile::TempDir,
}

impl Portcullis {
    /// Starts on `files`, pairs of file name and content, and waits until it serves them.
    pub async fn start(files: &[(String, String)]) -> Result<Self> {
        Self::start_with(files, &[]).await
    }

    /// The same with further arguments.
    pub async fn start_with(files: &[(String, String)], arguments: &[String]) -> Result<Self> {
        let mut this = Self::launch_with(files, arguments)?;
        this.wait_until_ready().await?;
        Ok(this)
    }

    /// The same, and does not wait.
    pub fn launch_with(files: &[(String, String)], arguments: &[String]) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("portcullis-").tempdir()?;
        let manifests = folder.path().join("files");
        std::fs::create_dir(&manifests)?;
        for (name, content) in files {
            write_atomically(&manifests, name, content)?;
        }
        Self::launch(folder, Self::following(&[manifests], arguments))
    }

    /// Starts on folders that are there, and waits until it serves them.
    pub async fn start_on(folders: &[PathBuf], arguments: &[String]) -> Result<Self> {
        Self::follow(tempfile::Builder::new().prefix("portcullis-").tempdir()?, folders, arguments).await
    }

    async fn follow(folder: tempfile::TempDir, folders: &[PathBuf], arguments: &[String]) -> Result<Self> {
        let mut this = Self::launch(folder, Self::following(folders, arguments))?;
        this.wait_until_ready().await?;
        Ok(this)
    }

    fn following(folders: &[PathBuf], arguments: &[String]) -> Vec<String> {
        let folders = folders.iter().map(|folder| folder.to_string_lossy().into_owned());
        ["--files".to_owned()].into_iter().chain(folders).chain(arguments.iter().cloned()).collect()
    }

    /// Starts for the cluster of `kubeconfig`, as a replica of a controller of `namespace`, and does not wait. Envoys
    /// reach it as `localhost`. It runs no proxies, unless `arguments` say so.
    pub fn start_in_cluster(kubeconfig: &Path, namespace: &str, arguments: &[&str]) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("portcullis-").tempdir()?;
        let own = ["--kubeconfig", &kubeconfig.to_string_lossy(), "--namespace", namespace];
        Self::launch(folder, own.iter().chain(arguments).map(|&argument| argument.to_owned()).collect())
    }

    fn launch(folder: tempfile::TempDir, arguments: Vec<String>) -> Result<Self> {
        let xds: SocketAddr = ([127, 0, 0, 1], ports::free_port()?).into();
        let admin = Target::local(ports::free_port()?);
        let mut all = vec!["run".to_owned(), "--xds-address".to_owned(), xds.to_string()];
        all.extend(["--admin-address".to_owned(), admin.address.to_string()]);
        all.extend(arguments);
        let (process, files) = (launch(&all, folder.path())?, folder.path().join("files"));
        Ok(Self { process, arguments: all, xds, admin, files, folder })
    }

    /// Ends the program and starts it again, with the same arguments and the files as they are.
    pub async fn restart(&mut self) -> Result<()> {
        self.relaunch().await?;
        self.wait_until_ready().await
    }

    /// The same without waiting, and when the new one was started.
    pub async fn relaunch(&mut self) -> Result<Instant> {
        self.process.terminate().await?;
        let start = Instant::now();
        self.process = launch(&self.arguments, self.folder.path())?;
        Ok(start)
    }

    /// Ends the program without asking it, starts it again and does not wait.
    pub async fn crash(&mut self) -> Result<()> {
        self.process.kill().await?;
        self.process = launch(&self.arguments, self.folder.path())?;
        Ok(())
    }

    /// Waits until everything was read once.
    pub async fn wait_until_ready(&mut self) -> Result<()> {
        let (process, admin) = (&mut self.process, &self.admin);
        let ready = process.wait_until_within(STARTING, async || {
            let ready = client::send(admin, &Request::get("localhost", "/readyz")).await?;
            ensure!(ready.status == 200, "not ready: {}", ready.body.trim());
            Ok(())
        });
        ready.await
    }

    /// Waits until everything was read once and every kind can be watched: one whose definition is new cannot for a
    /// moment.
    pub async fn wait_until_fresh(&self) -> Result<()> {
        eventually(TIMEOUT, async || {
            let ready = self.admin("/readyz").await?;
            ensure!(ready.body == "ready\n", "{}", ready.body);
            Ok(())
        })
        .await
    }

    /// Where Envoys connect to.
    pub fn xds_address(&self) -> SocketAddr {
        self.xds
    }

    /// Where the admin server listens.
    pub fn admin_address(&self) -> SocketAddr {
        self.admin.address
    }

    /// The bootstrap of an Envoy for `gateway` (`NAMESPACE/NAME`).
    pub async fn bootstrap(&self, gateway: &str) -> Result<Value> {
        let xds = self.xds.to_string();
        let arguments = ["bootstrap", "--gateway", gateway, "--xds-address", &xds];
        let output = run(&arguments).await?;
        serde_saphyr::from_str(&output).context("bootstrap is no YAML")
    }

    /// GET on the admin server.
    pub async fn admin(&self, path: &str) -> Result<client::Response> {
        client::send(&self.admin, &Request::get("localhost", path)).await
    }

    /// What Envoys get right now, and the statuses: the document of `translate`.
    pub async fn snapshot(&self) -> Result<Value> {
        let snapshot = self.admin("/debug/snapshot").await?;
        ensure!(snapshot.status == 200, "no snapshot: {}", snapshot.body);
        Ok(serde_json::from_str(&snapshot.body)?)
    }

    /// Replaces a file of the watched folder, as an editor or `kubectl cp` does: at once.
    pub fn write(&self, name: &str, content: &str) -> Result<()> {
        write_atomically(&self.files, name, content)
    }

    /// Removes a file of the watched folder.
    pub fn remove(&self, name: &str) -> Result<()> {
        Ok(std::fs::remove_file(self.files.join(name))?)
    }

    /// The watched folder.
    pub fn files(&self) -> &Path {
        &self.files
    }

    /// Fails if the program has ended or has panicked somewhere.
    pub fn check(&mut self) -> Result<()> {
        self.process.check_alive()?;
        ensure!(!self.process.log().contains("panicked at"), "portcullis panicked\n{}", self.process.log_tail());
        Ok(())
    }

    /// Fails if an Envoy has ever refused an update. An Envoy's own counters of a resource go with the resource.
    pub async fn was_never_refused(&self) -> Result<()> {
        let metrics = self.admin("/metrics").await?.body;
        let refused: Vec<_> = metrics.lines().filter(|line| line.starts_with("portcullis_xds_nacks")).collect();
        ensure!(refused.is_empty(), "{refused:?}\n{}", self.log_tail());
        Ok(())
    }

    /// Everything that the program, and the Envoys that it runs, have printed.
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// The last lines that the program has printed.
    pub fn log_tail(&self) -> String {
        self.process.log_tail()
    }

    /// The process' id, unless it has ended.
    pub fn id(&self) -> Option<u32> {
        self.process.id()
    }

    /// The ids of the processes that the program has started: its Envoys.
    pub fn children(&self) -> Result<Vec<u32>> {
        self.process.children()
    }

    /// The value of a metric, written as it is shown: name and labels. `None` if nothing was counted there yet.
    pub async fn metric(&self, series: &str) -> Result<Option<f64>> {
        let metrics = self.admin("/metrics").await?;
        ensure!(metrics.status == 200, "no metrics: {}", metrics.body);
        let line = metrics.body.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        Ok(line.map(str::parse).transpose()?)
    }

    /// Waits until the program ends by itself.
    pub async fn ended(&mut self) -> Result<std::process::ExitStatus> {
        self.process.ended().await
    }

    /// Asks the program to end and waits until it has.
    pub async fn terminate(&mut self) -> Result<std::process::ExitStatus> {
        self.process.terminate().await
    }
}

/// The document that `portcullis translate` prints for `paths`.
pub async fn translate(paths: &[&Path]) -> Result<Value> {
    Ok(serde_json::from_str(&translate_as("json", paths).await?)?)
}

/// What `portcullis translate -o FORMAT` prints for `paths`.
pub async fn translate_as(format: &str, paths: &[&Path]) -> Result<String> {
    translate_with(format, paths, &[]).await
}

/// The same with further arguments.
pub async fn translate_with(format: &str, paths: &[&Path], more: &[String]) -> Result<String> {
    let mut arguments = vec!["translate".to_owned()];
    arguments.extend_from_slice(more);
    for path in paths {
        arguments.extend(["-f".to_owned(), path.to_string_lossy().into_owned()]);
    }
    arguments.extend(["-o".to_owned(), format.to_owned()]);
    run(&arguments).await
}

/// Runs `portcullis` to its end and gives its standard output.
pub async fn run<S: AsRef<std::ffi::OsStr>>(arguments: &[S]) -> Result<String> {
    let output = tokio::process::Command::new(portcullis_binary()?).args(arguments).output().await?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        bail!("portcullis ended with {}:\n{errors}", output.status);
    }
    Ok(String::from_utf8(output.stdout)?)
}

fn launch(arguments: &[String], folder: &Path) -> Result<Process> {
    let log = folder.join("portcullis.log");
    let process = Process::start("portcullis", &portcullis_binary()?, arguments, log)?;
    let supervises = arguments.iter().any(|argument| argument == "--envoy");
    Ok(if supervises { process.with_children() } else { process })
}

fn write_atomically(folder: &Path, name: &str, content: &str) -> Result<()> {
    // Hidden, so that nobody takes the half-written file for a manifest.
    let temporary = folder.join(format!(".{name}.tmp"));
    std::fs::write(&temporary, content)?;
    Ok(std::fs::rename(&temporary, folder.join(name))?)
}
