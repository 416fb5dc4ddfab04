//! Follows folders of manifests, on a thread of its own: it reads files and parses them, which both take their time.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};

use notify::{
    Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher,
    event::{AccessKind, AccessMode, CreateKind, ModifyKind, RemoveKind},
};
use translate::Change;

use super::{
    Manifests,
    coalesce::{Batch, Coalescer, Signal},
    read,
    scan::{Found, Scanner, concerns, is_manifest},
    state::FileProblem,
    yaml,
};

/// How often everything is looked at, in case an event was lost or never sent (network file systems, links to
/// elsewhere).
const RESCAN: Duration = Duration::from_secs(5);

/// What changed in the files at one look.
#[derive(Debug, Default)]
pub struct Update {
    /// Objects that changed.
    pub changes: Vec<Change>,
    /// All that is wrong with files and manifests now.
    pub problems: Arc<Vec<FileProblem>>,
    /// How many files do not parse or cannot be read.
    pub broken_files: usize,
    /// How many files there are.
    pub files: usize,
}

/// Why files cannot be followed.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// A file or folder that was named is not there, or cannot be read.
    #[error("cannot read {path}: {why}")]
    Unreadable {
        /// The path.
        path: PathBuf,
        /// The system's error.
        why: std::io::Error,
    },
    /// The thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
}

/// Files and folders, and the objects in them.
pub struct Files {
    scanner: Scanner,
    manifests: Manifests,
    problems: Arc<Vec<FileProblem>>,
}

impl Files {
    /// The files and folders at `paths`, each of which must be there.
    pub fn open(paths: Vec<PathBuf>) -> Result<Self, SourceError> {
        for path in &paths {
            let read = std::fs::metadata(path).and_then(|metadata| {
                if metadata.is_dir() { std::fs::read_dir(path).map(drop) } else { read::open(path).map(drop) }
            });
            read.map_err(|why| SourceError::Unreadable { path: path.clone(), why })?;
        }
        Ok(Self { scanner: Scanner::new(paths), manifests: Manifests::default(), problems: Arc::default() })
    }

    /// Everything there is; later, everything that changed.
    pub fn load(&mut self) -> Update {
        let found = self.scanner.scan(|_| false);
        self.digest(found)
    }

    /// What was named: files and folders.
    pub fn roots(&self) -> &[PathBuf] {
        self.scanner.roots()
    }

    /// The objects.
    pub fn manifests(&self) -> &Manifests {
        &self.manifests
    }

    fn digest(&mut self, found: Vec<Found>) -> Update {
        let touched = !found.is_empty();
        for found in found {
            match found {
                Found::Content(key, content) => self.manifests.load(key, &content),
                Found::Unreadable(key, why) => self.manifests.unreadable(key, &why),
                Found::Gone(key) => self.manifests.remove(&key),
            }
        }
        let changes = self.manifests.take_changes();
        if touched {
            self.log(self.manifests.problems());
        }
        Update {
            changes,
            problems: Arc::clone(&self.problems),
            broken_files: self.manifests.broken_files(),
            files: self.manifests.files().count(),
        }
    }

    /// Logs problems that are new, and those that are gone.
    fn log(&mut self, problems: Vec<FileProblem>) {
        let before: HashSet<_> = self.problems.iter().collect();
        for problem in problems.iter().filter(|problem| !before.contains(problem)) {
            if problem.problem.severity == ir::Severity::Warning {
                tracing::info!("{problem}");
            } else {
                tracing::warn!("{problem}");
            }
        }
        self.problems = Arc::new(problems);
    }

    /// Loads everything and follows it from there, until `update` returns false, or the handle is dropped.
    pub fn follow(mut self, mut update: impl FnMut(Update) -> bool + Send + 'static) -> Result<Following, SourceError> {
        let (sender, receiver) = mpsc::channel();
        let following = Following { stop: sender.clone() };
        thread::Builder::new()
            .name("files".into())
            .stack_size(yaml::STACK)
            .spawn(move || {
                // Watched before they are read, so that nothing falls between.
                let mut watch = Watch::new(sender, self.scanner.roots());
                if !update(self.load()) {
                    return;
                }
                self.work(&receiver, &mut watch, update);
            })
            .map_err(SourceError::Thread)?;
        Ok(following)
    }

    fn work(&mut self, receiver: &mpsc::Receiver<Message>, watch: &mut Watch, mut update: impl FnMut(Update) -> bool) {
        let mut coalescer = Coalescer::default();
        let mut rescan = Instant::now() + RESCAN;
        loop {
            let wake = coalescer.due().map_or(rescan, |due| due.min(rescan));
            match receiver.recv_timeout(wake.saturating_duration_since(Instant::now())) {
                Ok(Message::Signal(signal)) => {
                    coalescer.note(signal, Instant::now());
                    // Signals that never pause must not keep what is due waiting.
                    if Instant::now() < wake {
                        continue;
                    }
                }
                Ok(Message::Stop) | Err(mpsc::RecvTimeoutError::Disconnected) => return,
                Err(mpsc::RecvTimeoutError::Timeout) => {}
            }
            let now = Instant::now();
            let mut batch = coalescer.take(now).unwrap_or_default();
            if rescan <= now {
                rescan = now + RESCAN;
                batch.anything = true;
                watch.renew(self.scanner.roots());
            }
            let found = self.look(&batch, &coalescer);
            if !found.is_empty() && !update(self.digest(found)) {
                return;
            }
        }
    }

    fn look(&mut self, batch: &Batch, coalescer: &Coalescer) -> Vec<Found> {
        let mut found = self.scanner.look_at(&batch.paths);
        if batch.anything || batch.paths.iter().any(|path| !self.scanner.knows(path)) {
            found.extend(self.scanner.scan(|path| coalescer.is_open(path)));
        }
        found
    }
}

/// Keeps files being followed; dropping it ends that.
#[derive(Debug)]
pub struct Following {
    stop: mpsc::Sender<Message>,
}

impl Drop for Following {
    fn drop(&mut self) {
        // A thread that is gone needs no message.
        drop(self.stop.send(Message::Stop));
    }
}

#[derive(Debug)]
enum Message {
    Signal(Signal),
    Stop,
}

/// The watch that the system keeps on folders.
struct Watch {
    watcher: Option<RecommendedWatcher>,
    /// What was watched: a folder that was replaced needs another watch.
    roots: Vec<Option<u64>>,
}

impl Watch {
    fn new(sender: mpsc::Sender<Message>, roots: &[PathBuf]) -> Self {
        let shown = roots.to_vec();
        // Events have absolute paths, whatever was given.
        let absolute: Vec<_> = roots.iter().map(|root| std::path::absolute(root).unwrap_or_default()).collect();
        let handler = move |event: notify::Result<Event>| {
            let event = event.map(|mut event| {
                event.paths.iter_mut().for_each(|path| *path = as_shown(path, &shown, &absolute));
                event
            });
            for signal in signals(event, &shown) {
                // A receiver that is gone has stopped.
                drop(sender.send(Message::Signal(signal)));
            }
        };
        let watcher = notify::recommended_watcher(handler)
            .inspect_err(|error| tracing::warn!(%error, "cannot watch files: looking at them every {RESCAN:?} instead"))
            .ok();
        let mut watch = Self { watcher, roots: vec![None; roots.len()] };
        watch.renew(roots);
        watch
    }

    /// Watches what is not watched yet.
    fn renew(&mut self, roots: &[PathBuf]) {
        let Some(watcher) = &mut self.watcher else { return };
        for (root, watched) in roots.iter().zip(&mut self.roots) {
            let inode = inode(root);
            if inode == *watched {
                continue;
            }
            *watched = inode;
            // A file that is replaced is another one; its folder stays.
            let parent =
                root.parent().map(|parent| if parent.as_os_str().is_empty() { Path::new(".") } else { parent });
            let watching = match parent.filter(|_| !root.is_dir()) {
                Some(parent) => watcher.watch(parent, RecursiveMode::NonRecursive),
                None => watcher.watch(root, RecursiveMode::Recursive),
            };
            if let Err(error) = watching {
                tracing::warn!(%error, root = %root.display(), "cannot watch: looking every {RESCAN:?} instead");
            }
        }
    }
}

fn inode(path: &Path) -> Option<u64> {
    let metadata = std::fs::metadata(path).ok()?;
    #[cfg(unix)]
    return Some(std::os::unix::fs::MetadataExt::ino(&metadata));
    #[cfg(not(unix))]
    Some(metadata.len())
}

/// An absolute path as it was given on the command line.
fn as_shown(path: &Path, shown: &[PathBuf], absolute: &[PathBuf]) -> PathBuf {
    let below = |(shown, absolute): (&PathBuf, &PathBuf)| {
        let below = path.strip_prefix(absolute).ok()?;
        Some(if below.as_os_str().is_empty() { shown.clone() } else { shown.join(below) })
    };
    shown.iter().zip(absolute).find_map(below).unwrap_or_else(|| path.to_owned())
}

/// What an event of the system means for manifests.
fn signals(event: notify::Result<Event>, roots: &[PathBuf]) -> Vec<Signal> {
    let Ok(event) = event else { return vec![Signal::Anything] };
    if event.need_rescan() {
        return vec![Signal::Anything];
    }
    let plain_file = matches!(
        event.kind,
        EventKind::Access(_)
            | EventKind::Create(CreateKind::File)
            | EventKind::Modify(ModifyKind::Data(_))
            | EventKind::Remove(RemoveKind::File)
    );
    let of = |make: fn(PathBuf) -> Signal| {
        let paths = event.paths.into_iter().filter(|path| concerns(path, roots));
        let signal = move |path: PathBuf| {
            if is_manifest(&path) || roots.contains(&path) {
                Some(make(path))
            } else {
                // It may be a folder, or a link that others lead through.
                (!plain_file).then_some(Signal::Anything)
            }
        };
        paths.filter_map(signal).collect()
    };
    match event.kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => of(Signal::Closed),
        // Reading is no news; it is what we do ourselves.
        EventKind::Access(_) => Vec::new(),
        // Only where there is an event for the close can it be waited for.
        EventKind::Modify(ModifyKind::Data(_)) if cfg!(target_os = "linux") => of(Signal::Written),
        _ => of(Signal::Changed),
    }
}

#[cfg(test)]
mod tests;
