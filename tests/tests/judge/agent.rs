//! `portcullis judge`, run as the container beside a controller runs it.

use std::path::{Path, PathBuf};

use anyhow::Result;
use portcullis_tests::process::{Process, portcullis_binary};

/// An agent that runs, and where it is asked.
pub(crate) struct Agent {
    pub(crate) process: Process,
    folder: tempfile::TempDir,
    arguments: Vec<String>,
}

impl Agent {
    pub(crate) fn start(envoy: &Path) -> Result<Self> {
        Self::start_in(envoy, tempfile::tempdir()?)
    }

    pub(crate) fn start_in(envoy: &Path, folder: tempfile::TempDir) -> Result<Self> {
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        let listen = format!("unix:{}", text(folder.path().join("socket")));
        let arguments = vec!["judge".into(), "--envoy".into(), text(envoy.into()), "--listen".into(), listen];
        Ok(Self { process: Self::run(&arguments, folder.path())?, folder, arguments })
    }

    fn run(arguments: &[String], folder: &Path) -> Result<Process> {
        Process::start("judge", &portcullis_binary()?, arguments, folder.join("log"))
    }

    pub(crate) async fn kill(&mut self) -> Result<()> {
        self.process.kill().await
    }

    pub(crate) fn restart(&mut self) -> Result<()> {
        self.process = Self::run(&self.arguments, self.folder.path())?;
        Ok(())
    }

    /// Where it is asked.
    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }
}
