//! What could not be applied, on its way to the engine.

use std::{
    collections::BTreeMap,
    mem::take,
    sync::{Mutex, MutexGuard, PoisonError},
};

use cluster::apply::Report;
use ir::NsName;
use tokio::sync::Notify;

/// The latest report about each Gateway that the engine has not taken yet: an engine that is far behind makes nobody wait,
/// and there are never more reports than Gateways.
#[derive(Debug, Default)]
pub(super) struct Reports {
    latest: Mutex<BTreeMap<NsName, Report>>,
    told: Notify,
}

impl Reports {
    /// Takes the place of what was told of the same Gateway and not taken.
    pub(super) fn tell(&self, report: Report) {
        self.lock().insert(report.owner.clone(), report);
        self.told.notify_one();
    }

    /// Waits until there is anything. For one task.
    pub(super) async fn take(&self) -> BTreeMap<NsName, Report> {
        loop {
            let latest = take(&mut *self.lock());
            if !latest.is_empty() {
                return latest;
            }
            self.told.notified().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<NsName, Report>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::{pin::pin, sync::Arc, time::Duration};

    use cluster::apply::Failure;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn however_much_is_told_the_latest_word_about_each_gateway_is_all_that_waits() {
        let reports = Arc::new(Reports::default());
        timeout(Duration::ZERO, pin!(reports.take())).await.unwrap_err();
        for message in 0..10_000 {
            let owner = NsName::new("web", format!("edge-{}", message % 3));
            let failure = Failure { object: "Service edge".to_owned(), message: message.to_string() };
            reports.tell(Report { owner, failures: vec![failure] });
        }
        let taken = reports.take().await;
        let messages: Vec<_> = taken.values().map(|report| report.failures[0].message.as_str()).collect();
        assert_eq!(messages, ["9999", "9997", "9998"]);
        timeout(Duration::ZERO, pin!(reports.take())).await.unwrap_err();
    }
}
