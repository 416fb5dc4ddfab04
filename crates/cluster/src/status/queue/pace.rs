//! How many requests the API server is asked to bear.

use std::time::{Duration, Instant};

use crate::backoff;

/// Between two looks at an API server that is away or has too much to do.
pub(super) const AWAY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// So many requests for each that is under way must go well before one more may be.
const GROWTH: usize = 8;

/// After a failure that concerns all objects nothing is asked for a while, and then one request at a time until one is
/// answered. From there on half as many may be under way as before, and slowly more again.
#[derive(Debug)]
pub(super) struct Pace {
    limit: usize,
    window: usize,
    /// Requests that went well since the window grew last.
    well: usize,
    /// Failures in a row.
    failures: u32,
    paused: Option<Instant>,
}

impl Pace {
    /// At most `limit` requests at once.
    pub(super) fn new(limit: usize) -> Self {
        let limit = limit.max(1);
        Self { limit, window: limit, well: 0, failures: 0, paused: None }
    }

    /// Until when nothing is to be asked.
    pub(super) fn paused(&self, now: Instant) -> Option<Instant> {
        self.paused.filter(|until| now < *until)
    }

    /// How many requests may be under way.
    pub(super) fn room(&self) -> usize {
        if self.failures > 0 { 1 } else { self.window }
    }

    /// The API server answered, whatever it said.
    pub(super) fn answered(&mut self) {
        self.failures = 0;
        self.paused = None;
        self.well += 1;
        if self.well >= GROWTH * self.window && self.window < self.limit {
            (self.well, self.window) = (0, self.window + 1);
        }
    }

    /// It did not, or wants to be left alone for so long. Gives whether it is the first failure of a row.
    pub(super) fn failed(&mut self, after: Duration, now: Instant) -> bool {
        // Those that were under way together fail together, which says no more than one failure.
        let another = self.paused(now).is_none();
        if another {
            self.failures += 1;
            (self.well, self.window) = (0, (self.window / 2).max(1));
        }
        let until = now + backoff::wait(self.failures, AWAY.0, AWAY.1).max(after);
        self.paused = Some(self.paused.map_or(until, |paused| paused.max(until)));
        another && self.failures == 1
    }

    /// Forgets what was; the window stays.
    pub(super) fn reset(&mut self) {
        self.failures = 0;
        self.paused = None;
    }
}
