//! Reads folders of manifests.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use super::{FileKey, read};

/// Folders deeper than this are not read: links may form a circle.
const MAX_DEPTH: usize = 32;
/// What all manifests together are not larger than, in bytes; a guard against a mistaken folder.
const MAX_ALL_BYTES: u64 = 256 << 20;

/// What became of a file since the last look.
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    /// It has this content now.
    Content(FileKey, Vec<u8>),
    /// It is there, or its folder is, and cannot be read.
    Unreadable(FileKey, String),
    /// It is gone, or it can be read again after it could not.
    Gone(FileKey),
}

/// By what a change of a file shows without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    length: u64,
    /// Tells apart a file that was put in the place of another.
    inode: u64,
}

/// Looks at files and folders, and remembers what was seen.
#[derive(Debug)]
pub struct Scanner {
    roots: Vec<PathBuf>,
    seen: BTreeMap<FileKey, Seen>,
    /// What was read, all of it together, in bytes.
    bytes: u64,
    /// What they may have together.
    max_bytes: u64,
}

/// What was seen of a file.
#[derive(Debug, Default)]
struct Seen {
    /// None if it cannot be read.
    stamp: Option<Stamp>,
    /// How much it had when it could be read last, which may be in force.
    bytes: u64,
}

impl Scanner {
    /// A scanner of these files and folders, which has seen nothing yet.
    pub fn new(roots: Vec<PathBuf>) -> Self {
        Self { roots, seen: BTreeMap::new(), bytes: 0, max_bytes: MAX_ALL_BYTES }
    }

    /// The files and folders.
    pub fn roots(&self) -> &[PathBuf] {
        &self.roots
    }

    /// What changed anywhere. Files that `busy` names are left for later.
    pub fn scan(&mut self, busy: impl Fn(&Path) -> bool) -> Vec<Found> {
        let mut walk = Walk::default();
        for (argument, root) in self.roots.iter().enumerate() {
            walk.root(argument, root);
        }
        let gone: Vec<_> = self
            .seen
            .keys()
            .filter(|key| !walk.files.contains(*key) && !walk.unreadable.contains_key(*key))
            // What is in a folder that cannot be read may well be there.
            .filter(|key| !walk.unreadable.keys().any(|folder| key.path().starts_with(folder.path())))
            .cloned()
            .collect();
        let mut found: Vec<_> = gone.into_iter().map(|key| self.gone(key)).collect();
        for (key, why) in walk.unreadable {
            found.extend(self.unreadable(key, why));
        }
        found.extend(walk.files.into_iter().filter(|key| !busy(key.path())).filter_map(|key| self.look(key, false)));
        found
    }

    /// What changed at these paths, whatever their stamps are. Only a scan knows whether a path that was never seen is
    /// to be read, and under which name.
    pub fn look_at(&mut self, paths: &BTreeSet<PathBuf>) -> Vec<Found> {
        let keys: Vec<_> = paths.iter().filter_map(|path| self.key(path)).collect();
        keys.into_iter().filter_map(|key| self.look(key, true)).collect()
    }

    /// Whether a file is known by this path.
    pub fn knows(&self, path: &Path) -> bool {
        self.key(path).is_some()
    }

    fn key(&self, path: &Path) -> Option<FileKey> {
        let arguments = (0..self.roots.len()).filter(|argument| path.starts_with(&self.roots[*argument]));
        arguments.map(|argument| FileKey::new(argument, path)).find(|key| self.seen.contains_key(key))
    }

    fn look(&mut self, key: FileKey, anyway: bool) -> Option<Found> {
        match fs::metadata(key.path()) {
            Ok(metadata) if metadata.is_dir() => return None,
            Ok(metadata) if !anyway && self.seen.get(&key).is_some_and(|seen| seen.stamp == Some(stamp(&metadata))) => {
                return None;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return self.seen.contains_key(&key).then(|| self.gone(key));
            }
            _ => {}
        }
        let before = self.seen.get(&key).map_or(0, |seen| seen.bytes);
        let content = read::open(key.path()).and_then(|(file, metadata)| {
            let room = self.max_bytes.saturating_sub(self.bytes - before);
            Ok((read::content(file, metadata.len(), room)?, stamp(&metadata)))
        });
        match content {
            Ok((content, stamp)) => {
                let bytes = content.len() as u64;
                self.bytes = self.bytes - before + bytes;
                self.seen.insert(key.clone(), Seen { stamp: Some(stamp), bytes });
                Some(Found::Content(key, content))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.seen.contains_key(&key).then(|| self.gone(key))
            }
            Err(error) => self.unreadable(key, error.to_string()),
        }
    }

    fn unreadable(&mut self, key: FileKey, why: String) -> Option<Found> {
        let new = !self.seen.contains_key(&key);
        let known = self.seen.entry(key.clone()).or_default().stamp.take().is_none() && !new;
        (!known).then_some(Found::Unreadable(key, why))
    }

    fn gone(&mut self, key: FileKey) -> Found {
        self.bytes -= self.seen.remove(&key).map_or(0, |seen| seen.bytes);
        Found::Gone(key)
    }
}

/// One walk through all folders.
#[derive(Default)]
struct Walk {
    files: BTreeSet<FileKey>,
    unreadable: BTreeMap<FileKey, String>,
    /// Files and folders by what they are, so that two ways to one of them lead there once.
    visited: HashSet<PathBuf>,
}

impl Walk {
    fn root(&mut self, argument: usize, root: &Path) {
        match fs::metadata(root) {
            // A file that is named is read whatever its name is.
            Ok(metadata) if !metadata.is_dir() => self.file(argument, root),
            Ok(_) => self.folder(argument, root, 0),
            Err(error) => drop(self.unreadable.insert(FileKey::new(argument, root), error.to_string())),
        }
    }

    fn folder(&mut self, argument: usize, folder: &Path, depth: usize) {
        if depth > MAX_DEPTH || !self.first_visit(folder) {
            return;
        }
        let entries = fs::read_dir(folder).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let mut entries = match entries {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound && depth > 0 => return,
            Err(error) => {
                self.unreadable.insert(FileKey::new(argument, folder), error.to_string());
                return;
            }
        };
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let path = entry.path();
            if is_hidden(&entry.file_name()) {
                continue;
            }
            // Through links: a mounted ConfigMap is made of them.
            let is_folder = fs::metadata(&path).is_ok_and(|metadata| metadata.is_dir());
            if is_folder {
                self.folder(argument, &path, depth + 1);
            } else if is_manifest(&path) {
                self.file(argument, &path);
            }
        }
    }

    fn file(&mut self, argument: usize, path: &Path) {
        if self.first_visit(path) {
            self.files.insert(FileKey::new(argument, path));
        }
    }

    fn first_visit(&mut self, path: &Path) -> bool {
        // A broken link has no other name.
        self.visited.insert(fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()))
    }
}

/// Whether a file of this name is read: YAML or JSON by its extension, and neither hidden nor an editor's own.
pub fn is_manifest(path: &Path) -> bool {
    let Some(name) = path.file_name() else { return false };
    let extension = path.extension().and_then(OsStr::to_str).map(str::to_ascii_lowercase);
    matches!(extension.as_deref(), Some("yaml" | "yml" | "json")) && !is_hidden(name)
}

/// Hidden files, and what editors put beside a file while they work on it.
fn is_hidden(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    name.starts_with(['.', '#', '~']) || name.ends_with('~')
}

/// Whether something that happened at `path` may concern a manifest below one of `roots`.
pub fn concerns(path: &Path, roots: &[PathBuf]) -> bool {
    let mut below = roots.iter().filter_map(|root| path.strip_prefix(root).ok()).peekable();
    // Links lead out of all folders.
    below.peek().is_none() || below.any(is_of_concern)
}

fn is_of_concern(below: &Path) -> bool {
    // Through names with two dots, as in a mounted ConfigMap, links lead that have other names.
    let is_link_target = |name: &OsStr| name.to_string_lossy().starts_with("..");
    below.iter().all(|name| !is_hidden(name)) || below.iter().any(is_link_target)
}

fn stamp(metadata: &fs::Metadata) -> Stamp {
    #[cfg(unix)]
    let inode = std::os::unix::fs::MetadataExt::ino(metadata);
    #[cfg(not(unix))]
    let inode = 0;
    Stamp { modified: metadata.modified().ok(), length: metadata.len(), inode }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Folder {
        folder: tempfile::TempDir,
        scanner: Scanner,
    }

    impl Folder {
        fn new() -> Self {
            let folder = tempfile::tempdir().expect("a folder");
            let scanner = Scanner::new(vec![folder.path().to_owned()]);
            Self { folder, scanner }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }

        fn write(&self, name: &str, text: &str) {
            let path = self.path(name);
            fs::create_dir_all(path.parent().expect("it is in the folder")).expect("a folder");
            fs::write(path, text).expect("a file");
        }

        fn shown(&self, found: &[Found]) -> Vec<String> {
            let name = |key: &FileKey| {
                key.path().strip_prefix(self.folder.path()).expect("it is in the folder").display().to_string()
            };
            found
                .iter()
                .map(|found| match found {
                    Found::Content(key, content) => format!("{}={}", name(key), String::from_utf8_lossy(content)),
                    Found::Unreadable(key, _) => format!("?{}", name(key)),
                    Found::Gone(key) => format!("-{}", name(key)),
                })
                .collect()
        }

        fn scan(&mut self) -> Vec<String> {
            let found = self.scanner.scan(|_| false);
            self.shown(&found)
        }
    }

    #[test]
    fn manifests_are_found_in_the_order_of_their_paths_sub_folders_included() {
        let mut folder = Folder::new();
        for name in
            ["b.yaml", "a/z.yml", "a/b/c.json", "a.YAML", ".hidden.yaml", "x.yaml~", "#x.yaml", ".git/x.yaml", "x.txt"]
        {
            folder.write(name, "1");
        }
        assert_eq!(folder.scan(), ["a/b/c.json=1", "a/z.yml=1", "a.YAML=1", "b.yaml=1"]);
        assert_eq!(folder.scan(), [""; 0]);
    }

    #[test]
    fn what_changed_shows_without_reading_the_rest() {
        let mut folder = Folder::new();
        folder.write("a.yaml", "1");
        folder.write("b.yaml", "1");
        folder.scan();
        folder.write("b.yaml", "22");
        folder.write("c.yaml", "3");
        fs::remove_file(folder.path("a.yaml")).expect("it is there");
        assert_eq!(folder.scan(), ["-a.yaml", "b.yaml=22", "c.yaml=3"]);
        // Put in its place with the same length at perhaps the same time.
        folder.write("new.tmp", "4");
        fs::rename(folder.path("new.tmp"), folder.path("c.yaml")).expect("the same folder");
        assert_eq!(folder.scan(), ["c.yaml=4"]);
    }

    #[test]
    fn a_file_that_is_named_is_read_even_if_nothing_shows() {
        let mut folder = Folder::new();
        folder.write("a.yaml", "1");
        folder.scan();
        folder.write(".git/a.yaml", "2");
        let paths = ["a.yaml", "b.yaml", ".git/a.yaml"].map(|name| folder.path(name)).into();
        assert!(folder.scanner.knows(&folder.path("a.yaml")) && !folder.scanner.knows(&folder.path(".git/a.yaml")));
        let found = folder.scanner.look_at(&paths);
        assert_eq!(folder.shown(&found), ["a.yaml=1"]);
        fs::remove_file(folder.path("a.yaml")).expect("it is there");
        let found = folder.scanner.look_at(&paths);
        assert_eq!(folder.shown(&found), ["-a.yaml"]);
    }

    #[test]
    fn a_folder_that_went_keeps_its_files_until_it_is_back() {
        let mut folder = Folder::new();
        folder.write("root/a.yaml", "1");
        folder.scanner = Scanner::new(vec![folder.path("root")]);
        assert_eq!(folder.scan(), ["root/a.yaml=1"]);
        fs::rename(folder.path("root"), folder.path("elsewhere")).expect("the same folder");
        assert_eq!(folder.scan(), ["?root"]);
        assert_eq!(folder.scan(), [""; 0], "reported once");
        folder.write("root/b.yaml", "2");
        assert_eq!(folder.scan(), ["-root", "-root/a.yaml", "root/b.yaml=2"]);
    }

    #[test]
    fn a_sub_folder_that_went_takes_its_files_along() {
        let mut folder = Folder::new();
        folder.write("sub/a.yaml", "1");
        folder.scan();
        fs::remove_dir_all(folder.path("sub")).expect("it is there");
        assert_eq!(folder.scan(), ["-sub/a.yaml"]);
    }

    #[test]
    fn busy_files_are_left_for_later() {
        let mut folder = Folder::new();
        folder.write("a.yaml", "1");
        assert!(folder.scanner.scan(|path| path.ends_with("a.yaml")).is_empty());
        assert_eq!(folder.scan(), ["a.yaml=1"]);
    }

    #[cfg(unix)]
    #[test]
    fn links_are_followed_and_lead_everywhere_once() {
        let mut folder = Folder::new();
        // As a ConfigMap is mounted: files link into a folder that is replaced as a whole.
        folder.write("..one/a.yaml", "1");
        folder.write("..two/a.yaml", "2");
        let link = |to: &str, name: &str| std::os::unix::fs::symlink(to, folder.path(name)).expect("a link");
        link("..one", "..data");
        link("..data/a.yaml", "a.yaml");
        link(".", "circle");
        assert_eq!(folder.scan(), ["a.yaml=1"]);
        std::os::unix::fs::symlink("..two", folder.path("..new")).expect("a link");
        fs::rename(folder.path("..new"), folder.path("..data")).expect("the same folder");
        assert_eq!(folder.scan(), ["a.yaml=2"]);
    }

    #[test]
    fn what_happens_to_hidden_files_concerns_nobody_unless_links_may_lead_there() {
        let concerns = |path: &str| concerns(Path::new(path), &["/home/.config/files".into(), "/named".into()]);
        for path in [
            "/home/.config/files",
            "/home/.config/files/a.yaml",
            "/home/.config/files/sub",
            "/home/.config/files/..data",
        ] {
            assert!(concerns(path), "{path}");
        }
        assert!(concerns("/home/.config/files/..2026/a.yaml"));
        for path in
            ["/home/.config/files/.a.yaml.swp", "/home/.config/files/.git/a.yaml", "/home/.config/files/a.yaml~"]
        {
            assert!(!concerns(path), "{path}");
        }
    }

    fn pipe(path: &Path) {
        let made = std::process::Command::new("mkfifo").arg(path).status().expect("it is everywhere");
        assert!(made.success(), "{}", path.display());
    }

    #[test]
    fn what_is_no_file_is_reported_once_and_waited_for_by_nobody() {
        let mut folder = Folder::new();
        folder.write("a.yaml", "1");
        assert_eq!(folder.scan(), ["a.yaml=1"]);
        fs::remove_file(folder.path("a.yaml")).expect("it is there");
        pipe(&folder.path("a.yaml"));
        pipe(&folder.path("b.yaml"));
        std::os::unix::fs::symlink("/dev/zero", folder.path("c.yaml")).expect("a link");
        let _socket = std::os::unix::net::UnixListener::bind(folder.path("d.yaml")).expect("a socket");
        assert_eq!(folder.scan(), ["?a.yaml", "?b.yaml", "?c.yaml", "?d.yaml"]);
        assert_eq!(folder.scan(), [""; 0]);
        let named = ["a.yaml", "b.yaml"].map(|name| folder.path(name)).into();
        assert!(folder.scanner.look_at(&named).is_empty());
        fs::remove_file(folder.path("a.yaml")).expect("it is there");
        folder.write("a.yaml", "2");
        assert_eq!(folder.scan(), ["a.yaml=2"]);
    }

    #[test]
    fn a_pipe_that_takes_the_place_of_a_file_between_two_looks_is_not_waited_for() {
        let folder = Folder::new();
        folder.write("a.yaml", "1");
        let path = folder.path("a.yaml");
        assert!(fs::metadata(&path).expect("it is there").is_file());
        fs::remove_file(&path).expect("it is there");
        pipe(&path);
        let error = read::open(&path).expect_err("it is no file");
        assert!(error.to_string().contains("put a file there"), "{error}");
    }

    #[test]
    fn one_file_and_all_files_together_have_a_bound() {
        let mut folder = Folder::new();
        let sized = |name: &str, size: u64| {
            let file = fs::File::create(folder.folder.path().join(name)).expect("a file");
            // Nothing of it takes any room on the disk.
            file.set_len(size).expect("it is empty");
        };
        folder.scanner.max_bytes = 8 << 20;
        sized("a.yaml", read::MAX_BYTES + 1);
        for number in 0..9 {
            sized(&format!("b{number}.yaml"), 1 << 20);
        }
        let names = |found: Vec<Found>| {
            let unreadable = found.into_iter().filter_map(|found| match found {
                Found::Unreadable(key, why) => Some((key.path().file_name()?.to_str()?.to_owned(), why)),
                _ => None,
            });
            unreadable.collect::<Vec<_>>()
        };
        let refused = names(folder.scanner.scan(|_| false));
        assert_eq!(refused.iter().map(|(name, _)| &**name).collect::<Vec<_>>(), ["a.yaml", "b8.yaml"]);
        assert!(refused.iter().all(|(_, why)| why.contains("all files together")), "{refused:?}");
        folder.scanner.max_bytes = MAX_ALL_BYTES;
        let (file, metadata) = read::open(&folder.path("a.yaml")).expect("a file");
        let error = read::content(file, metadata.len(), MAX_ALL_BYTES).expect_err("it is too large");
        assert!(error.to_string().contains("more than 32 MiB"), "{error}");
        folder.scanner.max_bytes = 8 << 20;
        // Room is made by what goes.
        fs::remove_file(folder.path("b0.yaml")).expect("it is there");
        let found = folder.scanner.scan(|_| false);
        assert!(found.iter().any(|found| matches!(found, Found::Content(key, _) if key.path().ends_with("b8.yaml"))));
    }

    #[test]
    fn a_file_that_grows_while_it_is_read_is_read_to_the_bound_at_most() {
        let folder = Folder::new();
        folder.write("a.yaml", "1");
        let (file, before) = read::open(&folder.path("a.yaml")).expect("a file");
        fs::File::options().write(true).open(folder.path("a.yaml")).and_then(|f| f.set_len(1 << 34)).expect("it grows");
        let error = read::content(file, before.len(), MAX_ALL_BYTES).expect_err("it is large by now");
        assert!(error.to_string().contains("more than 32 MiB"), "{error}");
    }

    #[test]
    fn a_file_that_two_arguments_lead_to_is_read_once() {
        let mut folder = Folder::new();
        folder.write("sub/a.yaml", "1");
        folder.scanner = Scanner::new(vec![folder.path(""), folder.path("sub"), folder.path("sub/a.yaml")]);
        assert_eq!(folder.scan(), ["sub/a.yaml=1"]);
    }
}
