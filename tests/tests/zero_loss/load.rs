//! Requests that run while something changes, and what all changes are made with.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use anyhow::{Context, Result, ensure};
use portcullis_tests::certificates::Certificate;
use portcullis_tests::client::{Connection, Request, Target};
use portcullis_tests::envoy::Envoy;
use portcullis_tests::objects;
use portcullis_tests::portcullis::Portcullis;
use portcullis_tests::wait::{TIMEOUT, eventually};
use tokio::sync::RwLock;
use tokio::task::JoinSet;

const CONNECTIONS: usize = 4;

/// What every request carries that was routed by the move of this number.
pub(super) const MOVE: &str = "x-move";

pub(super) fn route(number: usize, backend: &str) -> String {
    let header = format!("requestHeaderModifier: {{set: [{{name: {MOVE}, value: '{number}'}}]}}");
    let filter = format!("{{type: RequestHeaderModifier, {header}}}");
    let rules = format!("  - {{filters: [{filter}], backendRefs: [{{name: {backend}, port: 80}}]}}");
    objects::Route { name: "moving", rules: &rules, ..Default::default() }.to_string()
}

pub(super) fn secret(certificate: &Certificate) -> String {
    objects::secret("certificate", &certificate.certificate, &certificate.key)
}

pub(super) fn file(name: &str, content: String) -> (String, String) {
    (name.to_owned(), content)
}

/// Requests in a tight loop on connections that stay open as long as the server lets them.
pub(super) struct Load {
    stop: Arc<AtomicBool>,
    tally: Arc<Tally>,
    /// Read by every request for as long as it is under way.
    under_way: Arc<RwLock<()>>,
    tasks: JoinSet<Result<()>>,
}

impl Load {
    pub(super) fn start(target: &Target) -> Self {
        let mut load =
            Self { stop: Arc::default(), tally: Arc::default(), under_way: Arc::default(), tasks: JoinSet::new() };
        for _ in 0..CONNECTIONS {
            let (target, stop, tally) = (target.clone(), Arc::clone(&load.stop), Arc::clone(&load.tally));
            let under_way = Arc::clone(&load.under_way);
            load.tasks.spawn(async move {
                let request = Request::get("example.com", "/load");
                let mut open = None;
                while !stop.load(Ordering::Relaxed) {
                    let connection = if let Some(connection) = &mut open {
                        connection
                    } else {
                        tally.connections.fetch_add(1, Ordering::Relaxed);
                        open.insert(Connection::open(&target).await?)
                    };
                    let _under_way = under_way.read().await;
                    let number = tally.sent.fetch_add(1, Ordering::Relaxed);
                    let response = connection.send(&request).await.with_context(|| format!("request {number}"))?;
                    ensure!(response.status == 200, "request {number}: {} {}", response.status, response.body);
                    if response.header("connection").as_deref() == Some("close") {
                        open = None;
                    }
                }
                Ok(())
            });
        }
        load
    }

    pub(super) fn sent(&self) -> usize {
        self.tally.sent.load(Ordering::Relaxed)
    }

    /// Waits until no request is under way, and holds the next ones back for as long as what is returned lives.
    pub(super) async fn hold(&self) -> impl Drop {
        self.under_way.write().await
    }

    /// Fails with the first request that failed; gives how many were sent.
    pub(super) async fn finish(mut self) -> Result<usize> {
        self.stop.store(true, Ordering::Relaxed);
        while let Some(ended) = self.tasks.join_next().await {
            ended??;
        }
        let opened = self.tally.connections.load(Ordering::Relaxed);
        ensure!(opened == CONNECTIONS, "{opened} connections were needed: listeners drained");
        Ok(self.sent())
    }
}

#[derive(Default)]
struct Tally {
    sent: AtomicUsize,
    connections: AtomicUsize,
}

/// Waits until a first request is answered.
pub(super) async fn until_served(port: u16, portcullis: &Portcullis) -> Result<()> {
    let served = eventually(TIMEOUT, async || {
        let response = portcullis_tests::client::send(&Target::local(port), &Request::get("example.com", "/")).await?;
        ensure!(response.status == 200, "{}", response.status);
        Ok(())
    });
    served.await.with_context(|| portcullis.log_tail())
}

/// How often Envoy took over a cluster or a listener.
pub(super) async fn updates(envoy: &Envoy) -> Result<Vec<(String, u64)>> {
    let names = [
        "cluster_manager.cluster_added",
        "cluster_manager.cluster_modified",
        "cluster_manager.cluster_removed",
        "listener_manager.listener_added",
        "listener_manager.listener_modified",
        "listener_manager.listener_removed",
        "listener_manager.listener_in_place_updated",
    ];
    let stats = envoy.stats().await?;
    names
        .iter()
        .map(|name| Ok(((*name).to_owned(), *stats.get(*name).with_context(|| format!("no stat {name}"))?)))
        .collect()
}
