//! Waiting for a condition instead of for time.

use std::fmt::Display;
use std::future::Future;
use std::time::{Duration, Instant};

/// How long a condition may take that normally holds within milliseconds.
///
/// Generous, because it is only ever used up by a test that fails: a machine may be slow, and the controller itself waits for up to
/// a minute (what takes a tenant's time to judge, what an API server refused).
pub const TIMEOUT: Duration = Duration::from_secs(90);

/// Between two looks.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// At most between two looks of whoever has waited for long: what takes a second is not looked at fifty times.
const LONGEST_INTERVAL: Duration = Duration::from_millis(100);

/// Calls `attempt` until it returns `Ok`, and gives its last error once `timeout` is used up.
///
/// There is always at least one attempt.
pub async fn eventually<T, E, F>(timeout: Duration, mut attempt: impl FnMut() -> F) -> Result<T, E>
where
    E: Display,
    F: Future<Output = Result<T, E>>,
{
    let start = Instant::now();
    loop {
        match attempt().await {
            Ok(value) => return Ok(value),
            Err(error) if start.elapsed() >= timeout => return Err(error),
            Err(_) => tokio::time::sleep(interval(start.elapsed())).await,
        }
    }
}

/// How long whoever has waited for so long waits until the next look.
fn interval(waited: Duration) -> Duration {
    (waited / 10).clamp(POLL_INTERVAL, LONGEST_INTERVAL)
}
