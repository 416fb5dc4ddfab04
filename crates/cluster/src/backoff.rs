//! How long to wait before something is tried again.

use std::time::Duration;

/// The wait after so many failures in a row: `first`, doubled from one to the next, at most `longest`.
pub(crate) fn wait(failures: u32, first: Duration, longest: Duration) -> Duration {
    let doublings = failures.saturating_sub(1).min(31);
    first.saturating_mul(1 << doublings).min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_bound() {
        let seconds = |failures| wait(failures, Duration::from_secs(1), Duration::from_mins(5)).as_secs();
        assert_eq!((0..12).map(seconds).collect::<Vec<_>>(), [1, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        assert_eq!(seconds(u32::MAX), 300);
    }
}
