//! Reports about what was applied, on their way to the engine.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use cluster::apply::Report;
use futures::{Stream, stream};
use ir::NsName;
use tokio::sync::Notify;

/// The latest report about each Gateway that the engine has not taken yet: an engine that is far behind makes nobody wait,
/// and there are never more reports than Gateways.
#[derive(Debug, Default)]
pub(super) struct Reports {
    latest: Mutex<BTreeMap<NsName, Report>>,
    changed: Notify,
}

impl Reports {
    /// Replaces a report about the same Gateway that was not taken.
    pub(super) fn put(&self, report: Report) {
        self.lock().insert(report.owner.clone(), report);
        self.changed.notify_one();
    }

    /// The reports as they come. For one reader.
    pub(super) fn stream(self: Arc<Self>) -> impl Stream<Item = Report> {
        stream::unfold(self, |reports| async { Some((reports.next().await, reports)) })
    }

    async fn next(&self) -> Report {
        loop {
            let first = self.lock().pop_first();
            if let Some((_, report)) = first {
                return report;
            }
            self.changed.notified().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<NsName, Report>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::{pin::pin, time::Duration};

    use cluster::apply::Failure;
    use futures::StreamExt;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn however_many_reports_there_are_only_the_latest_about_each_gateway_waits() {
        let reports = Arc::new(Reports::default());
        let mut taken = pin!(Arc::clone(&reports).stream());
        timeout(Duration::ZERO, taken.next()).await.unwrap_err();
        for message in 0..10_000 {
            let owner = NsName::new("web", format!("edge-{}", message % 3));
            let failure = Failure { object: "Service edge".to_owned(), message: message.to_string() };
            reports.put(Report { owner, failures: vec![failure] });
        }
        for message in ["9999", "9997", "9998"] {
            assert_eq!(taken.next().await.unwrap().failures[0].message, message);
        }
        timeout(Duration::ZERO, taken.next()).await.unwrap_err();
    }
}
