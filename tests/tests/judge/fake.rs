//! Programs in the place of Envoy.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

/// A program that is called as Envoy is, and does this with the bootstrap `data` that it was given.
pub(crate) struct Fake {
    _folder: TempDir,
    pub(crate) path: PathBuf,
}

/// What all of them begin with. There are no modules of others, which take long to find.
const BEGINNING: &str = r#"
import os, signal, sys
if '--version' in sys.argv:
    print('envoy  version: 0a1b/1.40.0/Clean/RELEASE/BoringSSL')
    sys.exit(0)
path = sys.argv[sys.argv.index('--config-path') + 1]
data = open(path, 'rb').read()
def accept():
    print("configuration '%s' OK" % path)
def refuse(words):
    sys.stderr.write("error initializing configuration '%s': %s\n" % (path, words))
    sys.exit(1)
"#;

impl Fake {
    /// One that does this, in Python.
    pub(crate) fn new(then: &str) -> Result<Self> {
        // The one of the system: what is elsewhere cannot be read here, and what stands for it in PATH may start others.
        let python = "/usr/bin/python3";
        ensure!(Path::new(python).exists(), "there is no {python}: install the package python3");
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("envoy");
        // By another process: what this one has open for writing, its children have too, until they are the programs that they
        // become, and no program is started that anybody has open for writing.
        let mut writer = Command::new("sh");
        writer.args(["-c", "cat >$0 && chmod 755 $0"]).arg(&path).stdin(Stdio::piped());
        let mut writer = writer.spawn()?;
        let text = format!("#!{python} -ISB\n{BEGINNING}{then}\naccept()\n");
        writer.stdin.take().context("no pipe")?.write_all(text.as_bytes())?;
        ensure!(writer.wait()?.success(), "{} cannot be written", path.display());
        Ok(Self { _folder: folder, path })
    }
}
