//! Replicas elect a leader by a Lease on a real API server.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use cluster::lease::{LeaderElector, Leadership, Settings};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use portcullis_tests::api_server::ApiServer;
use portcullis_tests::wait::TIMEOUT;
use serde_json::json;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

const LEASE: &str = "portcullis";

/// A candidate that runs.
struct Replica {
    leadership: watch::Receiver<Leadership>,
    shutdown: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Replica {
    async fn start(server: &ApiServer, namespace: &str, identity: &str, duration: Duration) -> Result<Self> {
        let settings = Settings {
            duration,
            renew: duration / 5,
            retry: Duration::from_millis(200),
            ..Settings::new(namespace, LEASE, identity)
        };
        let kubeconfig = Kubeconfig::read_from(server.kubeconfig())?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        let client = cluster::status::client(config)?;
        let (elector, leadership) = LeaderElector::new(settings);
        let (shutdown, ended) = oneshot::channel();
        let task = tokio::spawn(elector.run(client, async { drop(ended.await) }));
        Ok(Self { leadership, shutdown: Some(shutdown), task })
    }

    fn leads(&self) -> bool {
        self.leadership.borrow().leads()
    }

    /// Waits until it leads, or no longer does.
    async fn until(&mut self, leads: bool) -> Result<()> {
        let turned = timeout(TIMEOUT, self.leadership.wait_for(|leadership| leadership.leads() == leads)).await;
        turned.with_context(|| format!("it never turned to {leads}"))??;
        Ok(())
    }

    /// Asks it to end, and waits until it has.
    async fn end(mut self) -> Result<()> {
        drop(self.shutdown.take());
        Ok(timeout(TIMEOUT, &mut self.task).await??)
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn leases(client: Client, namespace: &str) -> Api<Lease> {
    Api::namespaced(client, namespace)
}

async fn holder(leases: &Api<Lease>) -> Result<Option<String>> {
    Ok(leases.get(LEASE).await?.spec.and_then(|spec| spec.holder_identity))
}

#[tokio::test]
async fn a_leader_that_ends_hands_over_before_its_lease_is_over() -> Result<()> {
    let server = ApiServer::shared().await?;
    let namespace = server.namespace().await?;
    let leases = leases(server.client().await?, &namespace);
    // Nobody waits for so long: the follower does not lead because the lease ran out.
    let long = TIMEOUT * 10;
    let mut first = Replica::start(server, &namespace, "first", long).await?;
    first.until(true).await?;
    let mut second = Replica::start(server, &namespace, "second", long).await?;
    timeout(TIMEOUT, second.leadership.wait_for(|leadership| leadership.holder.as_deref() == Some("first"))).await??;
    ensure!(!second.leads());
    ensure!(holder(&leases).await?.as_deref() == Some("first"));

    first.end().await?;
    second.until(true).await?;
    let spec = leases.get(LEASE).await?.spec.context("a spec")?;
    ensure!(spec.holder_identity.as_deref() == Some("second") && spec.lease_transitions == Some(1), "{spec:?}");
    second.end().await?;
    ensure!(holder(&leases).await?.is_none(), "it was given back");
    Ok(())
}

#[tokio::test]
async fn a_leader_that_dies_is_followed_when_its_lease_is_over() -> Result<()> {
    let server = ApiServer::shared().await?;
    let namespace = server.namespace().await?;
    let mut first = Replica::start(server, &namespace, "first", Duration::from_secs(3)).await?;
    first.until(true).await?;
    let mut second = Replica::start(server, &namespace, "second", Duration::from_secs(3)).await?;
    first.task.abort();
    second.until(true).await?;
    second.end().await
}

#[tokio::test]
async fn of_several_that_start_at_once_one_leads() -> Result<()> {
    let server = ApiServer::shared().await?;
    let namespace = server.namespace().await?;
    let mut replicas = Vec::new();
    for n in 0..5 {
        replicas.push(Replica::start(server, &namespace, &n.to_string(), Duration::from_secs(30)).await?);
    }
    let mut holders = Vec::new();
    for replica in &mut replicas {
        let leadership =
            timeout(TIMEOUT, replica.leadership.wait_for(|leadership| leadership.holder.is_some())).await??;
        holders.push(leadership.holder.clone());
    }
    holders.dedup();
    ensure!(holders.len() == 1, "{holders:?}");
    ensure!(replicas.iter().filter(|replica| replica.leads()).count() == 1);
    Ok(())
}

#[tokio::test]
async fn a_lease_that_is_relabelled_or_deleted_stays_with_its_holder() -> Result<()> {
    let server = ApiServer::shared().await?;
    let namespace = server.namespace().await?;
    let leases = leases(server.client().await?, &namespace);
    let mut first = Replica::start(server, &namespace, "first", Duration::from_secs(30)).await?;
    first.until(true).await?;
    let second = Replica::start(server, &namespace, "second", Duration::from_secs(30)).await?;
    first.leadership.mark_unchanged();
    let renewed = async |after: Option<String>| {
        let lease = server.wait_for(&leases, LEASE, TIMEOUT, |lease| {
            let renewed = lease.and_then(|lease| lease.spec.as_ref()?.renew_time.as_ref()).map(|t| t.0.to_string());
            renewed.is_some() && renewed != after
        });
        let lease = lease.await?.context("a Lease")?;
        let time = lease.spec.as_ref().and_then(|spec| spec.renew_time.as_ref()).map(|t| t.0.to_string());
        Ok::<_, anyhow::Error>((lease, time))
    };
    let (_, before) = renewed(None).await?;
    let label = json!({"metadata": {"labels": {"somebody": "was-here"}}});
    leases.patch(LEASE, &PatchParams::default(), &Patch::Merge(label)).await?;
    let (_, after) = renewed(before).await?;
    let (lease, _) = renewed(after).await?;
    ensure!(lease.metadata.labels.is_some_and(|labels| labels.contains_key("somebody")), "labels stay");

    leases.delete(LEASE, &DeleteParams::default()).await?;
    let (lease, _) = renewed(None).await?;
    ensure!(lease.spec.and_then(|spec| spec.holder_identity).as_deref() == Some("first"));
    ensure!(!first.leadership.has_changed()? && first.leads() && !second.leads(), "leadership never turned");
    Ok(())
}

#[tokio::test]
async fn a_leader_whose_api_server_goes_away_stops_to_lead_and_goes_on_to_run() -> Result<()> {
    let mut server = ApiServer::in_turn().await?;
    let namespace = server.namespace().await?;
    let mut first = Replica::start(&server, &namespace, "first", Duration::from_secs(3)).await?;
    first.until(true).await?;
    server.freeze().await?;
    first.until(false).await?;
    server.thaw().await?;
    first.until(true).await?;

    server.kill().await?;
    first.until(false).await?;
    ensure!(!first.task.is_finished(), "it runs");
    server.restart().await?;
    first.until(true).await?;

    server.kill().await?;
    // Nobody takes it back, and it ends all the same.
    first.end().await
}
