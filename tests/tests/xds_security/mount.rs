//! A folder whose files change as those of a mounted volume do: all at once, by one symbolic link.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::Result;

/// A mounted volume.
pub(crate) struct Mount {
    folder: PathBuf,
    version: u32,
}

impl Mount {
    /// A volume at `folder` with these files, by name.
    pub(crate) fn new(folder: PathBuf, files: &[(&str, &str)]) -> Result<Self> {
        std::fs::create_dir_all(&folder)?;
        let mut mount = Self { folder, version: 0 };
        mount.replace(files)?;
        for (name, _) in files {
            symlink(Path::new("..data").join(name), mount.file(name))?;
        }
        Ok(mount)
    }

    /// Replaces all files at once, as kubelet does.
    pub(crate) fn replace(&mut self, files: &[(&str, &str)]) -> Result<()> {
        self.version += 1;
        let data = format!("..version-{}", self.version);
        std::fs::create_dir(self.folder.join(&data))?;
        for (name, content) in files {
            std::fs::write(self.folder.join(&data).join(name), content)?;
        }
        symlink(&data, self.folder.join("..data_tmp"))?;
        std::fs::rename(self.folder.join("..data_tmp"), self.folder.join("..data"))?;
        if self.version > 1 {
            std::fs::remove_dir_all(self.folder.join(format!("..version-{}", self.version - 1)))?;
        }
        Ok(())
    }

    /// The path of a file, which stays the same.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}
