//! Requests that must not fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use portcullis_tests::client::{self, Request, Target};
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};

/// Between two requests.
const PACE: Duration = Duration::from_millis(10);

/// A request after the other, on a connection each, for as long as this is there.
pub(crate) struct Traffic {
    stop: Arc<AtomicBool>,
    task: JoinHandle<Result<usize>>,
}

impl Traffic {
    pub(crate) fn start(target: &Target, request: Request) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, target) = (Arc::clone(&stop), target.clone());
        let task = tokio::spawn(async move {
            let mut pace = interval(PACE);
            pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let mut sent = 0;
            while !stopped.load(Ordering::Relaxed) {
                pace.tick().await;
                let answer = client::send(&target, &request).await.with_context(|| format!("request {sent}"))?;
                ensure!(answer.status == 200, "request {sent}: {} {}", answer.status, answer.body);
                sent += 1;
            }
            Ok(sent)
        });
        Self { stop, task }
    }

    /// Fails with the first request that failed.
    pub(crate) async fn finish(self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        let sent = self.task.await??;
        ensure!(sent > 0, "nothing was asked for");
        Ok(())
    }
}
