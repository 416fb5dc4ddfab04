//! What is done about somebody who overwrites our statuses.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use api::ObjectId;

use crate::workqueue::Backoff;

/// So often in a row a status is written again at once: somebody may have edited by hand.
const AT_ONCE: u32 = 2;
/// After that, from one time to the next.
const WAITS: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_mins(5));
/// Of so many objects at most it is asked who it is.
const NAMED: usize = 16;
/// A status that stayed for so long is not contested any more.
pub(super) const FORGOTTEN: Duration = Duration::from_mins(10);

/// How often our status of an object was overwritten. Two controllers that take the same objects for theirs
/// would otherwise write for ever, as fast as the API server takes it.
#[derive(Debug, Default)]
pub(super) struct Rival {
    /// How often in a row.
    times: u32,
    last: Option<Instant>,
    /// When our status is written again, once it was found to be overwritten.
    until: Option<Instant>,
    /// Whether it was asked who does it.
    asked: bool,
}

/// What to do about a status of ours that somebody overwrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Write it again.
    Write,
    /// Find out who it is, and ask again.
    Ask,
    /// Wait until then.
    Wait(Instant),
}

impl Rival {
    /// Our status is found to be overwritten. Gives also whether that was not known.
    pub(super) fn overwrites(&mut self, now: Instant) -> (Turn, bool) {
        let news = self.until.is_none();
        let until = match self.until {
            Some(until) => until,
            None => {
                if self.last.is_some_and(|last| now.saturating_duration_since(last) >= FORGOTTEN) {
                    *self = Self::default();
                }
                self.times = self.times.saturating_add(1);
                self.last = Some(now);
                let again = self.times.saturating_sub(AT_ONCE);
                let until = if again == 0 { now } else { now + WAITS.delay(again) };
                *self.until.insert(until)
            }
        };
        let turn = match until <= now {
            true => Turn::Write,
            false if std::mem::replace(&mut self.asked, true) => Turn::Wait(until),
            false => Turn::Ask,
        };
        (turn, news)
    }

    /// Our status was written, or came too late.
    pub(super) fn written(&mut self) {
        self.until = None;
    }
}

/// The objects whose status somebody overwrites again and again.
#[derive(Debug, Default)]
pub(super) struct Contested {
    /// When last, and who it is.
    objects: BTreeMap<ObjectId, (Instant, Option<Arc<str>>)>,
    /// How often it was found, of all objects, since it was last asked.
    found: u64,
}

impl Contested {
    /// What to do about an object, given by what [`Rival::overwrites`] says; none if nobody overwrote anything.
    pub(super) fn turn(
        &mut self,
        id: &ObjectId,
        now: Instant,
        mut overwritten: impl FnMut() -> Option<(Turn, bool)>,
    ) -> Option<Turn> {
        let (mut turn, news) = overwritten()?;
        if turn == Turn::Ask && self.objects.len() >= NAMED {
            (turn, _) = overwritten()?;
        }
        self.found += u64::from(news);
        if news && turn != Turn::Write {
            self.objects.entry(id.clone()).or_insert((now, None)).0 = now;
        }
        Some(turn)
    }

    /// Who it is; gives whether that is not known of any other object.
    pub(super) fn named(&mut self, id: &ObjectId, by: &str) -> bool {
        let news = self.objects.values().all(|(_, known)| known.as_deref() != Some(by));
        if let Some((_, known)) = self.objects.get_mut(id) {
            *known = Some(by.into());
        }
        news
    }

    /// Those that are not forgotten, and who it is.
    pub(super) fn objects(&mut self, now: Instant) -> impl Iterator<Item = (&ObjectId, Option<&str>)> {
        self.objects.retain(|_, (last, _)| now.saturating_duration_since(*last) < FORGOTTEN);
        self.objects.iter().map(|(id, (_, by))| (id, by.as_deref()))
    }

    /// An object has gone.
    pub(super) fn remove(&mut self, id: &ObjectId) {
        self.objects.remove(id);
    }

    /// Nothing is known any more.
    pub(super) fn clear(&mut self) {
        self.objects.clear();
    }

    /// How often a status of ours was found to be overwritten, since this was last asked.
    pub(super) fn take_found(&mut self) -> u64 {
        std::mem::take(&mut self.found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When our status is written, in seconds, if it is overwritten as soon as it is.
    fn written(seconds: u64) -> Vec<u64> {
        let began = Instant::now();
        let (mut rival, mut now, mut written, mut asked) = (Rival::default(), began, Vec::new(), 0);
        while now < began + Duration::from_secs(seconds) {
            match rival.overwrites(now).0 {
                Turn::Write => {
                    written.push((now - began).as_secs());
                    rival.written();
                }
                Turn::Ask => asked += 1,
                Turn::Wait(until) => now = until,
            }
        }
        assert_eq!(asked, 1, "who it is is asked once");
        written
    }

    #[test]
    fn who_overwrites_at_once_is_answered_ever_more_rarely() {
        assert_eq!(written(600), [0, 0, 1, 3, 7, 15, 31, 63, 127, 255, 511]);
        assert_eq!(written(24 * 3600).len(), 11 + (24 * 3600 - 811_usize).div_ceil(300));
    }

    #[test]
    fn a_status_that_stayed_for_a_while_is_written_again_at_once() {
        let now = Instant::now();
        let mut rival = Rival::default();
        for _ in 0..AT_ONCE {
            assert_eq!(rival.overwrites(now), (Turn::Write, true));
            rival.written();
        }
        assert_eq!(rival.overwrites(now), (Turn::Ask, true));
        assert_eq!(rival.overwrites(now), (Turn::Wait(now + WAITS.base), false));
        rival.written();
        assert_eq!(rival.overwrites(now + FORGOTTEN), (Turn::Write, true));
    }
}
