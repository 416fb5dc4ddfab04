//! What cleans up behind a test process, however that ends.
//!
//! A server that all tests of a binary share is in a static, which is never dropped; and a test may be killed. So a
//! process of its own waits at the other end of a pipe: when the pipe closes, it ends the programs and removes the folder.

use std::fmt::Display;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

/// A file of this name in the folder says that the folder stays.
const KEEP: &str = "keep";

/// Ends the programs whose ids are in files `*.pid`, then removes the folder. A program that was ended needs a moment,
/// in which it may still write.
const SCRIPT: &str = r#"
read -r _
cd "$1" || exit 0
kill -9 $(cat ./*.pid) 2>/dev/null
[ -e keep ] || rm -rf "$1" || { sleep 1; rm -rf "$1"; }
"#;

/// Ends programs and removes a folder when this is dropped, or when this process is gone.
#[derive(Debug)]
pub(super) struct Guardian {
    child: Child,
    folder: PathBuf,
}

impl Guardian {
    /// Makes the folder and watches over it from now on.
    pub(super) fn new() -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("portcullis-api-server-").tempdir()?.keep();
        let child = Command::new("sh")
            .args(["-c", SCRIPT, "guardian"])
            .arg(&folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // What ends the tests from the keyboard shall not end this.
            .process_group(0)
            .spawn()
            .context("cannot run sh")?;
        let guardian = Self { child, folder };
        if std::env::var_os("PORTCULLIS_KEEP_LOGS").is_some() {
            guardian.keep();
        }
        Ok(guardian)
    }

    /// The folder.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Ends this process too, under a name of one's choice. A name used again stands for the new process.
    pub(super) fn watch(&self, name: &str, id: impl Display) -> io::Result<()> {
        std::fs::write(self.folder.join(name).with_extension("pid"), format!("{id}\n"))
    }

    /// The process of that name has ended: its id may be another's soon.
    pub(super) fn forget(&self, name: &str) {
        let _ = std::fs::remove_file(self.folder.join(name).with_extension("pid"));
    }

    fn keep(&self) {
        let _ = std::fs::write(self.folder.join(KEEP), "");
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.keep();
            eprintln!("logs of the API server: {}", self.folder.display());
        }
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
