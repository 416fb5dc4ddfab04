//! How long to wait before something is tried again.

use std::time::Duration;

/// A delay that doubles from one failure to the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff {
    /// The delay after the first failure.
    pub(crate) base: Duration,
    /// The longest delay.
    pub(crate) max: Duration,
}

impl Backoff {
    pub(crate) const fn new(base: Duration, max: Duration) -> Self {
        Self { base, max }
    }

    /// The delay after so many failures in a row.
    pub(crate) fn delay(self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1).min(31);
        self.base.saturating_mul(1 << doublings).min(self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_a_bound() {
        let backoff = Backoff::new(Duration::from_secs(1), Duration::from_mins(5));
        let seconds = |failures| backoff.delay(failures).as_secs();
        assert_eq!((0..12).map(seconds).collect::<Vec<_>>(), [1, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        assert_eq!(seconds(u32::MAX), 300);
    }
}
