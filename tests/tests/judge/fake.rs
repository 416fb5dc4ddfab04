//! Programs in the place of Envoy.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
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
def refuse(words):
    sys.stderr.write("error initializing configuration '%s': %s\n" % (path, words))
    sys.exit(1)
"#;

impl Fake {
    /// One that does this, in Python.
    pub(crate) fn new(then: &str) -> Result<Self> {
        // The program itself: what stands for it in PATH may start others, which is not allowed here.
        let asked = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output();
        let python = String::from_utf8(asked.context("no python3")?.stdout)?;
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("envoy");
        std::fs::write(&path, format!("#!{} -ISB\n{BEGINNING}{then}", python.trim()))?;
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755))?;
        Ok(Self { _folder: folder, path })
    }
}
