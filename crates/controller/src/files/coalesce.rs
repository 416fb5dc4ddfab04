//! When what happened to files is looked at: not at every event, and not while a file is still written.
//!
//! Without clocks and IO: times go in, and what is due comes out.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    time::{Duration, Instant},
};

/// A burst is over after so much silence ...
pub const QUIET: Duration = Duration::from_millis(20);
/// ... and is looked at after so much time in any case.
pub const BOUND: Duration = Duration::from_millis(200);
/// A file that is open for writing is half-written; this long it may be.
pub const WRITING: Duration = Duration::from_secs(2);

/// What is learned of files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Signal {
    /// A file came, changed or went.
    Changed(PathBuf),
    /// Content was written to a file, which is open.
    Written(PathBuf),
    /// Who wrote a file has closed it.
    Closed(PathBuf),
    /// Something happened that may concern any file.
    Anything,
}

/// What is to be looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// These files.
    pub paths: BTreeSet<PathBuf>,
    /// Every file whose size, time or place is not what it was.
    pub anything: bool,
}

/// Collects signals until they are to be looked at.
#[derive(Debug, Default)]
pub struct Coalescer {
    batch: Batch,
    /// When the first and the last signal of the batch came.
    span: Option<(Instant, Instant)>,
    /// Files that are open for writing, with the time of the first write.
    open: BTreeMap<PathBuf, Instant>,
}

impl Coalescer {
    /// Takes note of a signal.
    pub fn note(&mut self, signal: Signal, now: Instant) {
        match signal {
            Signal::Changed(path) => drop(self.batch.paths.insert(path)),
            Signal::Written(path) => {
                self.open.entry(path).or_insert(now);
                // What follows upon a write is the close, or another write.
                return self.touch_if_any(now);
            }
            Signal::Closed(path) => {
                self.open.remove(&path);
                self.batch.paths.insert(path);
            }
            Signal::Anything => self.batch.anything = true,
        }
        self.span = Some((self.span.map_or(now, |(first, _)| first), now));
    }

    fn touch_if_any(&mut self, now: Instant) {
        if let Some((_, last)) = &mut self.span {
            *last = now;
        }
    }

    /// When there is something to look at, if anything happened at all.
    pub fn due(&self) -> Option<Instant> {
        let batch = self.span.map(|(first, last)| (last + QUIET).min(first + BOUND));
        let open = self.open.values().min().map(|since| *since + WRITING);
        batch.into_iter().chain(open).min()
    }

    /// What is to be looked at by `now`, once.
    pub fn take(&mut self, now: Instant) -> Option<Batch> {
        if self.due()? > now {
            return None;
        }
        let expired = |since: &Instant| *since + WRITING <= now;
        self.batch.paths.extend(self.open.iter().filter(|(_, since)| expired(since)).map(|(path, _)| path.clone()));
        self.open.retain(|_, since| !expired(since));
        let mut batch = std::mem::take(&mut self.batch);
        // They are looked at when they are closed.
        batch.paths.retain(|path| !self.open.contains_key(path));
        self.span = None;
        (batch.anything || !batch.paths.is_empty()).then_some(batch)
    }

    /// Whether a file is open for writing, as far as is known.
    pub fn is_open(&self, path: &std::path::Path) -> bool {
        self.open.contains_key(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(start: Instant, millis: u64) -> Instant {
        start + Duration::from_millis(millis)
    }

    fn paths(batch: Option<Batch>) -> Vec<String> {
        batch.into_iter().flat_map(|batch| batch.paths).map(|path| path.display().to_string()).collect()
    }

    #[test]
    fn a_single_change_is_due_after_a_moment_of_silence() {
        let (mut coalescer, start) = (Coalescer::default(), Instant::now());
        assert_eq!(coalescer.due(), None);
        coalescer.note(Signal::Changed("a".into()), start);
        assert_eq!(coalescer.due(), Some(start + QUIET));
        assert_eq!(coalescer.take(at(start, 19)), None);
        assert_eq!(paths(coalescer.take(at(start, 20))), ["a"]);
        assert_eq!(coalescer.due(), None);
    }

    #[test]
    fn a_burst_is_one_batch() {
        let (mut coalescer, start) = (Coalescer::default(), Instant::now());
        for n in 0..5 {
            coalescer.note(Signal::Changed(format!("{n}").into()), at(start, n * 15));
            assert_eq!(coalescer.take(at(start, n * 15 + 14)), None);
        }
        assert_eq!(paths(coalescer.take(at(start, 80))), ["0", "1", "2", "3", "4"]);
    }

    #[test]
    fn a_burst_without_end_is_looked_at_after_the_bound() {
        let (mut coalescer, start) = (Coalescer::default(), Instant::now());
        let mut looked = Vec::new();
        for n in 0..100 {
            let now = at(start, n * 10);
            coalescer.note(Signal::Changed("a".into()), now);
            if coalescer.take(now).is_some() {
                looked.push(n * 10);
            }
        }
        assert_eq!(looked, [200, 410, 620, 830]);
    }

    #[test]
    fn a_file_is_not_looked_at_while_it_is_written() {
        let (mut coalescer, start) = (Coalescer::default(), Instant::now());
        coalescer.note(Signal::Changed("a".into()), start);
        coalescer.note(Signal::Written("a".into()), start);
        coalescer.note(Signal::Changed("b".into()), start);
        assert_eq!(paths(coalescer.take(at(start, 20))), ["b"], "the others need not wait");
        coalescer.note(Signal::Written("a".into()), at(start, 500));
        assert_eq!(coalescer.take(at(start, 900)), None);
        coalescer.note(Signal::Closed("a".into()), at(start, 1000));
        assert_eq!(paths(coalescer.take(at(start, 1020))), ["a"]);
        assert_eq!(coalescer.due(), None);
    }

    #[test]
    fn a_file_that_is_never_closed_is_looked_at_in_the_end() {
        let (mut coalescer, start) = (Coalescer::default(), Instant::now());
        coalescer.note(Signal::Written("a".into()), start);
        assert_eq!(coalescer.due(), Some(start + WRITING));
        assert_eq!(paths(coalescer.take(start + WRITING)), ["a"]);
    }
}
