//! Chance, so that proxies that came together do not act together.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// The time, a tenth more or less by chance.
pub(crate) fn jitter(time: Duration) -> Duration {
    // Each RandomState has other keys, which is all the randomness that is needed.
    let chance = RandomState::new().hash_one(0_u8) % 2001;
    #[expect(clippy::cast_precision_loss, reason = "the value is at most 2000")]
    let factor = 0.9 + chance as f64 / 10_000.0;
    time.mul_f64(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_varies_by_a_tenth() {
        let time = Duration::from_secs(1000);
        for _ in 0..100 {
            let some = jitter(time);
            assert!(some >= Duration::from_secs(899) && some <= Duration::from_secs(1101), "{some:?}");
        }
    }
}
