//! Accepts connections, whatever happens.

use std::future::Future;
use std::io::{self, ErrorKind};
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// A pause after a failed accept: without a free descriptor the next one fails at once too, and that would take a core.
const PAUSE: Duration = Duration::from_millis(100);
/// A failure that lasts is logged this often.
const LOG_INTERVAL: Duration = Duration::from_mins(1);

/// Accepts connections of one listener.
#[derive(Debug)]
pub struct Acceptor {
    /// Its name in logs.
    server: &'static str,
    logged: Option<Instant>,
}

impl Acceptor {
    /// One that calls the server so in logs.
    pub fn new(server: &'static str) -> Self {
        Self { server, logged: None }
    }

    /// The next connection. A failure is logged, at most once a minute, and tried again. Nothing is lost if the future is
    /// dropped, provided that this holds for those of `accept`.
    pub async fn accept<T, F>(&mut self, accept: impl Fn() -> F) -> T
    where
        F: Future<Output = io::Result<T>>,
    {
        loop {
            match accept().await {
                Ok(accepted) => return accepted,
                // The client left before it was let in; the next one is waiting.
                Err(error) if is_of_client(&error) => {}
                Err(error) => {
                    let now = Instant::now();
                    if self.logged.is_none_or(|logged| now >= logged + LOG_INTERVAL) {
                        self.logged = Some(now);
                        tracing::warn!(%error, server = self.server, "cannot accept a connection, and tries again");
                    }
                    sleep(PAUSE).await;
                }
            }
        }
    }
}

fn is_of_client(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::ConnectionRefused)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_failure_pauses_and_a_client_that_left_does_not() {
        let tries = Cell::new(0);
        let accept = async || {
            tries.set(tries.get() + 1);
            match tries.get() {
                1..=50 => Err(ErrorKind::ConnectionAborted.into()),
                51..=53 => Err(io::Error::other("too many open files")),
                tries => Ok(tries),
            }
        };
        let start = Instant::now();
        assert_eq!(Acceptor::new("test").accept(accept).await, 54);
        assert_eq!(start.elapsed(), 3 * PAUSE);
    }
}
