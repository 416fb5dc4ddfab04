//! Records as files, `DIR/KIND/NAME.json`, for a controller without a cluster.
//!
//! A file is replaced as a whole: a temporary file, fsync, rename, fsync of the folder. So a process that dies at any moment
//! leaves the old record or the new one. Its version is a hash of it; who writes holds a lock, so that what the command line
//! and a controller do at once is done one after the other.

mod dying;

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{
    RecordKind, StoreError, Stored,
    store::{MAX_BYTES, Store},
};

/// How often the folder is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// A folder of records. It is made with the first of them.
#[derive(Clone, Debug)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// The folder at `path`.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn file(&self, kind: RecordKind, name: &str) -> PathBuf {
        self.path.join(kind.as_str()).join(format!("{name}.json"))
    }

    fn read(path: &Path, name: &str) -> io::Result<Option<Stored>> {
        match fs::read(path) {
            Ok(data) => Ok(Some(Stored { name: name.to_owned(), version: version(&data), data })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The files of a kind, by the names of the records.
    fn files(&self, kind: RecordKind) -> io::Result<BTreeMap<String, PathBuf>> {
        let files = match fs::read_dir(self.path.join(kind.as_str())) {
            Ok(files) => files,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
            Err(error) => return Err(error),
        };
        let mut all = BTreeMap::new();
        for file in files {
            let path = file?.path();
            let name = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".json")).map(str::to_owned);
            all.extend(name.map(|name| (name, path)));
        }
        Ok(all)
    }

    fn list_now(&self, kind: RecordKind) -> io::Result<Vec<Stored>> {
        dying::step(&self.path);
        let files = self.files(kind)?;
        // One that goes meanwhile is gone.
        files.iter().filter_map(|(name, path)| Self::read(path, name).transpose()).collect()
    }

    /// Whoever replaces a file makes a new one, so that it has another number.
    fn stamps_now(&self, kind: RecordKind) -> io::Result<BTreeMap<String, String>> {
        dying::step(&self.path);
        let mut stamps = BTreeMap::new();
        for (name, path) in self.files(kind)? {
            match fs::metadata(&path) {
                Ok(now) => {
                    let stamp = format!("{} {} {} {}", now.ino(), now.len(), now.mtime(), now.mtime_nsec());
                    stamps.insert(name, stamp);
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(stamps)
    }

    /// Has `write` change a file that is of this version, while nobody else does.
    fn exclusively<T>(
        &self,
        kind: RecordKind,
        name: &str,
        version: Option<&str>,
        write: impl FnOnce(&Path) -> io::Result<T>,
    ) -> Result<T, StoreError> {
        let path = self.file(kind, name);
        let told = |error: io::Error| StoreError::Other(format!("{}: {error}", path.display()));
        fs::create_dir_all(self.path.join(kind.as_str())).map_err(told)?;
        let lock = File::create(self.path.join(".lock")).map_err(told)?;
        lock.lock().map_err(told)?;
        let now = Self::read(&path, name).map_err(told)?;
        if now.map(|now| now.version).as_deref() != version {
            return Err(StoreError::Conflict);
        }
        dying::step(&self.path);
        let written = write(&path).map_err(told)?;
        dying::step(&self.path);
        Ok(written)
    }
}

fn version(data: &[u8]) -> String {
    blake3::hash(data).to_hex()[..32].to_owned()
}

/// Puts `data` in the place of a file, all of it or nothing.
///
/// # Errors
/// Those of the file system; the file is then as it was.
pub fn replace_file(path: &Path, data: &[u8]) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let temporary = path.with_extension("tmp");
    // What stays in force of an object may have credentials.
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    file.write_all(data)?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    File::open(folder)?.sync_all()
}

/// Removes a file, so that it is gone also for who starts again after a failure of the machine.
fn remove_file(path: &Path) -> io::Result<()> {
    fs::remove_file(path)?;
    File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
}

impl Store for Folder {
    async fn list(&self, kind: RecordKind) -> Result<Vec<Stored>, StoreError> {
        self.list_now(kind).map_err(|error| StoreError::Other(format!("{}: {error}", self.path.display())))
    }

    async fn get(&self, kind: RecordKind, name: &str) -> Result<Option<Stored>, StoreError> {
        dying::step(&self.path);
        let path = self.file(kind, name);
        Self::read(&path, name).map_err(|error| StoreError::Other(format!("{}: {error}", path.display())))
    }

    async fn stamps(&self, kind: RecordKind) -> Result<BTreeMap<String, String>, StoreError> {
        self.stamps_now(kind).map_err(|error| StoreError::Other(format!("{}: {error}", self.path.display())))
    }

    async fn replace(
        &self,
        kind: RecordKind,
        name: &str,
        data: Vec<u8>,
        version: Option<&str>,
    ) -> Result<Stored, StoreError> {
        if data.len() > MAX_BYTES {
            return Err(StoreError::TooLarge(data.len()));
        }
        self.exclusively(kind, name, version, |path| {
            dying::half_written(&self.path, path, &data)?;
            replace_file(path, &data)
        })?;
        Ok(Stored { name: name.to_owned(), version: self::version(&data), data })
    }

    async fn delete(&self, kind: RecordKind, name: &str, version: &str) -> Result<(), StoreError> {
        match self.exclusively(kind, name, Some(version), remove_file) {
            Err(StoreError::Conflict) if !self.file(kind, name).exists() => Ok(()),
            removed => removed,
        }
    }

    async fn changed(&self, _kind: RecordKind) {
        tokio::time::sleep(LOOK).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: RecordKind = RecordKind::Quarantine;

    #[tokio::test]
    async fn a_record_is_written_once_for_each_version_that_was_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let records = Folder::new(folder.path().join("state"));
        assert_eq!(records.list(KIND).await.expect("a list"), []);
        let first = records.replace(KIND, "a", b"1".to_vec(), None).await.expect("written");
        assert!(matches!(records.replace(KIND, "a", b"2".to_vec(), None).await, Err(StoreError::Conflict)));
        let second = records.replace(KIND, "a", b"2".to_vec(), Some(&first.version)).await.expect("written");
        assert!(matches!(records.delete(KIND, "a", &first.version).await, Err(StoreError::Conflict)));
        assert_eq!(records.list(KIND).await.expect("a list"), std::slice::from_ref(&second));
        records.delete(KIND, "a", &second.version).await.expect("deleted");
        records.delete(KIND, "a", &second.version).await.expect("it is gone already");
        assert_eq!(records.list(KIND).await.expect("a list"), []);
    }

    #[tokio::test]
    async fn what_a_process_leaves_behind_that_died_while_it_wrote_is_no_record() {
        let folder = tempfile::tempdir().expect("a folder");
        let records = Folder::new(folder.path());
        let first = records.replace(KIND, "a", b"1".to_vec(), None).await.expect("written");
        fs::write(records.file(KIND, "a").with_extension("tmp"), b"half").expect("written");
        assert_eq!(records.list(KIND).await.expect("a list"), std::slice::from_ref(&first));
        records.replace(KIND, "a", b"2".to_vec(), Some(&first.version)).await.expect("written all the same");
    }

    #[tokio::test]
    async fn what_is_too_large_for_an_api_server_is_too_large_here() {
        let folder = tempfile::tempdir().expect("a folder");
        let written = Folder::new(folder.path()).replace(KIND, "a", vec![0; MAX_BYTES + 1], None).await;
        assert!(matches!(written, Err(StoreError::TooLarge(_))));
    }
}
