//! Which replica writes.

use std::sync::Arc;

use cluster::lease::{self, LeaderElector, Settings};
use kube::Client;
use tokio::{
    sync::{oneshot, watch},
    task::JoinHandle,
};

use super::{ClusterOptions, LEASE};
use crate::{engine_task::ClusterSinks, metrics::Metrics};

/// The election, in which this replica takes part.
pub(super) struct Leadership {
    election: JoinHandle<()>,
    resign: oneshot::Sender<()>,
    following: JoinHandle<()>,
}

impl Leadership {
    /// Takes part from now on, and has `sinks` write while this replica leads. Also gives whether it does.
    pub(super) fn start(
        options: &ClusterOptions,
        client: Client,
        sinks: ClusterSinks,
        metrics: Metrics,
    ) -> (Self, watch::Receiver<bool>) {
        let settings = Settings::new(&options.namespace, LEASE, Arc::clone(&options.identity));
        let (elector, leadership) = LeaderElector::new(settings);
        let (leads, leading) = watch::channel(false);
        let (resign, resigned) = oneshot::channel::<()>();
        let election = tokio::spawn(elector.run(client, async move {
            // A sender that is gone means the same.
            let _: Result<(), _> = resigned.await;
        }));
        let following = tokio::spawn(follow(leadership, leads, sinks, metrics));
        (Self { election, resign, following }, leading)
    }

    /// Gives the lease back.
    pub(super) async fn resign(self) {
        // Nobody listens if the election is over already.
        let _: Result<(), ()> = self.resign.send(());
        if let Err(error) = self.election.await {
            tracing::error!(%error, "a task failed");
        }
        self.following.abort();
    }
}

/// Has statuses and proxies' objects written while this replica leads.
async fn follow(
    mut leadership: watch::Receiver<lease::Leadership>,
    leads: watch::Sender<bool>,
    sinks: ClusterSinks,
    metrics: Metrics,
) {
    loop {
        let now = leadership.borrow_and_update().clone();
        if leads.send_if_modified(|leads| std::mem::replace(leads, now.leads()) != now.leads()) {
            let holder = now.holder.as_deref().unwrap_or_default();
            tracing::info!(leads = now.leads(), holder, "the leader changed");
        }
        sinks.statuses.lead(now.leads());
        if let Some(applier) = &sinks.applier {
            applier.lead(now.leads());
        }
        metrics.leader.set(i64::from(now.leads()));
        if leadership.changed().await.is_err() {
            return;
        }
    }
}
