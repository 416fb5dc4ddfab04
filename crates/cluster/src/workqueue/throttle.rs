//! How much an API server is asked to bear.

use std::time::{Duration, Instant};

use super::Backoff;

/// Between two attempts at an API server that is away or overloaded.
pub(crate) const UNAVAILABLE: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));
/// Longest time for which an API server that asks for it is left alone.
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_mins(5);
/// For each key that may be processed, so many answers come before one more may be.
const GROWTH: usize = 8;

/// How many keys are processed at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Concurrency {
    /// While all goes well.
    pub(crate) max: usize,
    /// While the API server is away, and at the least after it was.
    pub(crate) min: usize,
}

/// After a failure that concerns all keys nothing is asked for a while, and then by the fewest at once until the API server
/// answers. From there on half as many keys as before are processed at once, and slowly more again.
#[derive(Debug)]
pub(crate) struct Throttle {
    limits: Concurrency,
    window: usize,
    /// Answers since the window grew last.
    answers: usize,
    /// In a row.
    failures: u32,
    paused: Option<Instant>,
}

impl Throttle {
    /// At least one key is processed, whatever the limits.
    pub(super) fn new(limits: Concurrency) -> Self {
        let max = limits.max.max(1);
        let min = limits.min.clamp(1, max);
        Self { limits: Concurrency { max, min }, window: max, answers: 0, failures: 0, paused: None }
    }

    /// Until when nothing is to be asked, because the API server is away or overloaded.
    pub(crate) fn paused(&self, now: Instant) -> Option<Instant> {
        self.paused.filter(|until| now < *until)
    }

    /// How many keys may be processed at once.
    pub(super) fn concurrency(&self) -> usize {
        if self.failures > 0 { self.limits.min } else { self.window }
    }

    /// The API server answered, whatever the answer was.
    pub(crate) fn available(&mut self) {
        self.reset();
        self.answers += 1;
        if self.answers >= GROWTH * self.window && self.window < self.limits.max {
            (self.answers, self.window) = (0, self.window + 1);
        }
    }

    /// The API server is away or overloaded, and wants to be left alone for `retry_after`. Gives whether that is the first
    /// failure in a row.
    pub(crate) fn unavailable(&mut self, retry_after: Duration, now: Instant) -> bool {
        // Requests that were in flight together fail together, which says no more than one failure.
        let another = self.paused(now).is_none();
        if another {
            self.failures = self.failures.saturating_add(1);
            (self.answers, self.window) = (0, (self.window / 2).max(self.limits.min));
        }
        let until = now + UNAVAILABLE.delay(self.failures).max(retry_after);
        self.paused = Some(self.paused.map_or(until, |paused| paused.max(until)));
        another && self.failures == 1
    }

    /// Forgets failures; the window stays.
    pub(super) fn reset(&mut self) {
        self.failures = 0;
        self.paused = None;
    }
}
