//! Settlings that do not end, and those by which the process ends: an endless loop, a stack or a memory that is used up.
//! Nothing of that can be caught.
//!
//! * A thread ends the process if one settling takes longer than it may.
//! * The names of the objects that are being settled stand in a file meanwhile. A process that finds such a file at its start
//!   takes in those objects last, after all others: a few at a time if there were many, and else each by itself, with its
//!   name in the file. Who stands there alone when the process dies again is set aside by the next one; who was not tried yet
//!   stays suspect. So a process dies three times at most of one object, wherever it comes from and however many there are,
//!   and once or twice more of each further one; no other process has to be started for that, which would need the memory
//!   once more.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::{self, Seek, Write},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use api::{Kind, ObjectId};
use records::quarantine::digest;
use serde::{Deserialize, Serialize};
use translate::Shared;

/// More objects than these are not named.
pub(super) const NAMED: usize = 256;
/// How often the clock is looked at.
const LOOK: Duration = Duration::from_millis(250);
/// The file.
const FILE: &str = "settling.json";

/// What a process may have died of that was here before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Suspects {
    /// Each of these is tried by itself.
    pub(super) alone: BTreeSet<ObjectId>,
    /// Whether any other object may be it.
    pub(super) all: bool,
}

impl Suspects {
    pub(super) fn contains(&self, id: &ObjectId) -> bool {
        self.all || self.alone.contains(id)
    }
}

/// An object, as the file names it: kind, namespace and name.
type Named = (String, String, String);

fn named(id: &ObjectId) -> Named {
    (id.kind.to_string(), id.namespace.to_string(), id.name.to_string())
}

fn object((kind, namespace, name): &Named) -> Option<ObjectId> {
    let kind = Kind::ALL.iter().find(|known| known.as_str() == kind)?;
    Some(ObjectId::new(*kind, namespace.as_str(), name.as_str()))
}

/// What stands in the file.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Settling {
    /// The objects; none where there are too many, and where nothing is being settled.
    objects: Vec<Named>,
    /// Whether there are more than are named.
    more: bool,
    /// Who was not tried yet since a process died before: each of these by itself, and whether any other.
    waiting: Vec<Named>,
    others: bool,
    /// The hash of the object, if it is one that is tried by itself since a process died before.
    tried: Option<String>,
    /// Those of which processes died, as they were then.
    guilty: Vec<(Named, String)>,
}

impl Settling {
    /// What the process died of that wrote this: what it may have been, and who it was for sure.
    fn died_of(mut self) -> (Suspects, BTreeMap<ObjectId, String>) {
        if let (Some(digest), [one]) = (self.tried, &self.objects[..]) {
            self.guilty.push((one.clone(), digest));
            self.objects.clear();
        }
        let guilty = self.guilty.iter().filter_map(|(named, digest)| Some((object(named)?, digest.clone()))).collect();
        let alone = self.objects.iter().chain(&self.waiting).filter_map(object).collect();
        (Suspects { alone, all: self.more || self.others }, guilty)
    }
}

/// The file of what is being settled, which stays open: to open it would cost far more than to write it.
#[derive(Debug)]
struct Record {
    path: PathBuf,
    file: File,
    /// How long it is, in bytes.
    len: usize,
}

impl Record {
    /// Opens the one of `folder`, and reads it.
    fn open(folder: &Path) -> io::Result<(Self, Settling)> {
        fs::create_dir_all(folder)?;
        let path = folder.join(FILE);
        let file = File::options().read(true).write(true).create(true).truncate(false).open(&path)?;
        let text = fs::read(&path)?;
        // One that is empty is that of a process that has settled nothing yet.
        let settling = serde_json::from_slice(&text).unwrap_or_default();
        Ok((Self { path, file, len: text.len() }, settling))
    }

    /// Writes it at once, so that it is whole whenever the process dies. Not flushed to the disk: that the process dies takes
    /// nothing from the system's memory.
    fn write(&mut self, settling: &Settling) -> io::Result<()> {
        let mut text = serde_json::to_vec(settling)?;
        let len = text.len();
        // Blanks in the place of what stood there.
        text.resize(len.max(self.len), b' ');
        self.file.rewind()?;
        self.file.write_all(&text)?;
        self.len = text.len();
        if len < self.len {
            self.file.set_len(len as u64)?;
            self.len = len;
        }
        Ok(())
    }
}

/// Finds out settlings that do not end, and by which the process ends.
#[derive(Debug)]
pub struct Watchdog {
    record: Option<Record>,
    /// When the settling is to have ended that is under way, in milliseconds since `start`, and one more; 0 if there is none.
    due: Arc<AtomicU64>,
    start: Instant,
    limit: Duration,
    suspects: Suspects,
    /// Of them, those that are not taken in yet.
    waiting: Suspects,
    guilty: BTreeMap<ObjectId, String>,
    is_written: bool,
}

impl Watchdog {
    /// One settling may take `limit`, or for ever if that is none. What is being settled is named in `folder`, if there is one.
    /// Calls `expired`, on a thread of its own, when a settling has taken longer.
    ///
    /// # Errors
    /// The thread cannot be started, or the folder not be written.
    pub fn start(
        limit: Duration,
        folder: Option<PathBuf>,
        expired: impl FnOnce(Duration) + Send + 'static,
    ) -> io::Result<Self> {
        let (due, start) = (Arc::new(AtomicU64::new(0)), Instant::now());
        let (record, settling) = match folder.map(|folder| Record::open(&folder)).transpose()? {
            Some((record, settling)) => (Some(record), settling),
            None => (None, Settling::default()),
        };
        let (suspects, guilty) = settling.died_of();
        if !limit.is_zero() {
            let looked = Arc::clone(&due);
            thread::Builder::new().name("watchdog".into()).spawn(move || {
                loop {
                    thread::sleep(LOOK);
                    let due = looked.load(Ordering::Acquire);
                    if Arc::strong_count(&looked) == 1 {
                        return;
                    }
                    if due != 0 && start.elapsed() >= Duration::from_millis(due) {
                        return expired(limit);
                    }
                }
            })?;
        }
        let waiting = suspects.clone();
        Ok(Self { record, due, start, limit, suspects, waiting, guilty, is_written: false })
    }

    /// What the last process may have died of, once.
    pub(super) fn suspects(&mut self) -> Suspects {
        std::mem::take(&mut self.suspects)
    }

    /// Who is to blame for sure for deaths, as it was then, by its hash.
    pub(super) fn guilty(&self) -> &BTreeMap<ObjectId, String> {
        &self.guilty
    }

    /// Nobody blames it any more.
    pub(super) fn acquit(&mut self, id: &ObjectId) {
        self.guilty.remove(id);
    }

    /// These are not taken in yet.
    pub(super) fn suspect(&mut self, waiting: &Suspects) {
        self.waiting.clone_from(waiting);
        if *waiting == Suspects::default() {
            self.write(Settling::default());
        }
    }

    /// These objects are being settled from now on; `alone` if it is one that is tried by itself, after a death.
    pub(super) fn begin<'a>(
        &mut self,
        objects: impl ExactSizeIterator<Item = (&'a ObjectId, Option<Shared>)>,
        alone: bool,
    ) {
        let due = (self.start.elapsed() + self.limit).as_millis();
        self.due.store(u64::try_from(due).unwrap_or(u64::MAX).max(1), Ordering::Release);
        if self.record.is_none() || objects.len() == 0 {
            return;
        }
        let mut settling = Settling { more: objects.len() > NAMED, ..Settling::default() };
        if !settling.more {
            for (id, shared) in objects {
                settling.objects.push(named(id));
                settling.tried = shared.filter(|_| alone).map(|shared| digest(&shared.object()));
            }
        }
        self.is_written = true;
        self.write(settling);
    }

    /// That is done.
    pub(super) fn end(&mut self) {
        self.due.store(0, Ordering::Release);
        if std::mem::take(&mut self.is_written) {
            // It says that nothing is being settled; to remove it would cost more.
            self.write(Settling::default());
        }
    }

    fn write(&mut self, settling: Settling) {
        let Some(record) = &mut self.record else { return };
        let guilty = self.guilty.iter().map(|(id, digest)| (named(id), digest.clone())).collect();
        let waiting = self.waiting.alone.iter().map(named).collect();
        let settling = Settling { guilty, waiting, others: self.waiting.all, ..settling };
        if let Err(error) = record.write(&settling) {
            tracing::warn!(%error, file = %record.path.display(), "what is being settled cannot be named");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn route(name: &str) -> ObjectId {
        ObjectId::new(Kind::HttpRoute, "apps", name)
    }

    fn these(names: &[&str]) -> Suspects {
        Suspects { alone: names.iter().map(|name| route(name)).collect(), all: false }
    }

    fn start(folder: &std::path::Path) -> Watchdog {
        Watchdog::start(Duration::ZERO, Some(folder.to_owned()), |_| {}).expect("a folder")
    }

    #[test]
    fn what_was_being_settled_is_suspect_and_what_was_settled_is_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut first = start(folder.path());
        assert_eq!(first.suspects(), Suspects::default());
        let (a, b) = (route("a"), route("b"));
        first.begin([(&a, None), (&b, None)].into_iter(), false);
        assert_eq!(start(folder.path()).suspects(), these(&["a", "b"]));
        first.end();
        assert_eq!(start(folder.path()).suspects(), Suspects::default());
        let many: Vec<_> = (0..=NAMED).map(|n| route(&n.to_string())).collect();
        first.begin(many.iter().map(|id| (id, None)), false);
        assert_eq!(start(folder.path()).suspects(), Suspects { all: true, ..Suspects::default() });
    }

    #[test]
    fn others_stay_suspect_until_each_was_tried() {
        let folder = tempfile::tempdir().expect("a folder");
        let (a, b, c, d) = (route("a"), route("b"), route("c"), route("d"));
        start(folder.path()).begin([(&a, None), (&b, None), (&c, None)].into_iter(), false);
        // The next one begins with what is no suspect, and dies of that.
        let mut second = start(folder.path());
        second.begin([(&d, None)].into_iter(), false);
        assert_eq!(start(folder.path()).suspects(), these(&["a", "b", "c", "d"]));
        // It tries one by itself, and dies of that.
        second.suspect(&these(&["b", "c"]));
        second.write(Settling { objects: vec![named(&a)], tried: Some("hash".to_owned()), ..Settling::default() });
        let mut third = start(folder.path());
        assert_eq!((third.suspects(), third.guilty().len()), (these(&["b", "c"]), 1));
        third.suspect(&Suspects::default());
        assert_eq!(start(folder.path()).suspects(), Suspects::default());
        // Of very many, those that were taken in together are suspect, and those that were not reached.
        third.suspect(&Suspects { all: true, ..these(&["c"]) });
        third.begin([(&a, None)].into_iter(), false);
        assert_eq!(start(folder.path()).suspects(), Suspects { all: true, ..these(&["a", "c"]) });
    }

    #[test]
    fn the_file_is_read_whole_after_one_that_was_longer() {
        let folder = tempfile::tempdir().expect("a folder");
        let (a, b) = (route("a"), route(&"b".repeat(200)));
        let mut first = start(folder.path());
        first.begin([(&a, None), (&b, None)].into_iter(), false);
        first.end();
        first.begin([(&a, None)].into_iter(), false);
        assert_eq!(start(folder.path()).suspects(), these(&["a"]));
        let text = fs::read_to_string(folder.path().join(FILE)).expect("a file");
        assert_eq!(text.trim_end(), text);
    }

    #[test]
    fn a_file_that_was_cut_short_suspects_nobody() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join(FILE), "{\"objects\":[[\"HTTPRoute\",").expect("written");
        assert_eq!(start(folder.path()).suspects(), Suspects::default());
    }

    #[test]
    fn who_was_tried_alone_is_guilty_as_it_was_until_somebody_acquits_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let tried =
            Settling { objects: vec![named(&route("a"))], tried: Some("hash".to_owned()), ..Settling::default() };
        start(folder.path()).write(tried);
        let mut second = start(folder.path());
        assert_eq!(
            (second.suspects(), second.guilty()),
            (Suspects::default(), &[(route("a"), "hash".to_owned())].into())
        );
        // It stays so over further settlings and processes.
        let b = route("b");
        second.begin([(&b, None)].into_iter(), false);
        second.end();
        let mut third = start(folder.path());
        assert_eq!(third.guilty().len(), 1);
        third.acquit(&route("a"));
        third.begin([(&b, None)].into_iter(), false);
        assert!(start(folder.path()).guilty().is_empty());
    }

    #[test]
    fn a_settling_that_does_not_end_is_noticed_and_one_that_ends_is_not() {
        let (noticed, notices) = mpsc::channel();
        let limit = Duration::from_millis(10);
        let expired = move |limit| _ = noticed.send(limit);
        let mut watchdog = Watchdog::start(limit, None, expired).expect("a thread");
        watchdog.begin(std::iter::empty(), false);
        watchdog.end();
        assert!(notices.recv_timeout(2 * LOOK).is_err());
        watchdog.begin(std::iter::empty(), false);
        assert_eq!(notices.recv_timeout(Duration::from_secs(20)), Ok(limit));
    }
}
