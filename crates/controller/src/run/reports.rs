//! Reports about what was applied, on their way to the engine.

use std::collections::BTreeMap;

use cluster::apply::Report;
use futures::{Stream, stream};
use ir::NsName;
use tokio::sync::watch;

/// The latest report about each Gateway that the engine has not taken yet: an engine that is far behind blocks no sender,
/// and there are never more reports than Gateways.
#[derive(Clone, Debug, Default)]
pub(super) struct Reports(watch::Sender<BTreeMap<NsName, Report>>);

impl Reports {
    /// Replaces a report about the same Gateway that was not taken.
    pub(super) fn put(&self, report: Report) {
        self.0.send_modify(|latest| _ = latest.insert(report.owner.clone(), report));
    }

    /// The reports as they come. For one reader.
    pub(super) fn stream(self) -> impl Stream<Item = Report> {
        let changes = self.0.subscribe();
        stream::unfold((self.0, changes), |(latest, mut changes)| async {
            let mut first = None;
            drop(changes.wait_for(|latest| !latest.is_empty()).await.ok()?);
            latest.send_if_modified(|latest| {
                first = latest.pop_first();
                false
            });
            first.map(|(_, report)| (report, (latest, changes)))
        })
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
        let reports = Reports::default();
        let mut taken = pin!(reports.clone().stream());
        timeout(Duration::ZERO, taken.next()).await.unwrap_err();
        for message in 0..10_000 {
            let owner = NsName::new("web", format!("edge-{}", message % 3));
            let failure = Failure { object: "Service edge".to_owned(), port: None, message: message.to_string() };
            reports.put(Report { owner, failures: vec![failure] });
        }
        for message in ["9999", "9997", "9998"] {
            assert_eq!(taken.next().await.unwrap().failures[0].message, message);
        }
        timeout(Duration::ZERO, taken.next()).await.unwrap_err();
    }
}
