//! How long to wait before a program that died is started again.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(30);
/// A program that ran for so long has got over what made it die.
const STEADY: Duration = Duration::from_secs(30);

/// Doubles from one death to the next.
#[derive(Debug)]
pub(super) struct Backoff(Duration);

impl Default for Backoff {
    fn default() -> Self {
        Self(FIRST)
    }
}

impl Backoff {
    /// The wait after a life of this length.
    pub(super) fn after(&mut self, life: Duration) -> Duration {
        if life >= STEADY {
            self.0 = FIRST;
        }
        let wait = self.0;
        self.0 = (wait * 2).min(LONGEST);
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_bound_and_begin_anew_after_a_steady_life() {
        let mut backoff = Backoff::default();
        let waits: Vec<_> = (0..11).map(|_| backoff.after(Duration::ZERO).as_millis()).collect();
        assert_eq!(waits, [100, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000]);
        assert_eq!(backoff.after(STEADY), FIRST);
        assert_eq!(backoff.after(Duration::from_secs(1)), FIRST * 2);
    }
}
