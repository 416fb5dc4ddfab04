//! Somebody who may write the Lease by which replicas elect their leader, and is none of them.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use cluster::lease::{LeaderElector, Settings};
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Config};
use portcullis_tests::api_server::ApiServer;
use portcullis_tests::wait::TIMEOUT;
use serde_json::json;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::objects::route;
use crate::world::World;

/// The metric that says whether the replica leads.
const LEADS: &str = "portcullis_leader";

/// How often the Lease is stolen.
const THEFTS: usize = 30;

#[tokio::test(flavor = "multi_thread")]
async fn a_thief_of_the_lease_stops_statuses_for_as_long_as_he_steals_and_nothing_else() -> Result<()> {
    let mut world = World::new(ApiServer::shared().await?).await?;
    world.replica.counts(LEADS, |leads| leads > 0.0).await?;
    let edge = world.edge().await?;
    let leases = world.objects("Lease").await?;
    for theft in 0..THEFTS {
        let times = ["2106-01-01T00:00:00.000000Z", "1970-01-01T00:00:01.000000Z", "2026-01-01T00:00:00.000000Z"];
        let time = times[theft % times.len()];
        let stolen = json!({"metadata": {"labels": {"theft": theft.to_string()}}, "spec": {
            "holderIdentity": format!("thief-{theft}"), "leaseDurationSeconds": i32::MAX, "leaseTransitions": i32::MAX,
            "acquireTime": time, "renewTime": time,
        }});
        leases.patch("portcullis", &PatchParams::default(), &Patch::Merge(stolen)).await?;
        if theft % 10 == 9 {
            let name = format!("during-{theft}");
            world.apply(&route(&name, "edge", "healthy", 80)).await?;
            edge.proxy.answers(&format!("/{name}"), 200).await?;
        }
    }
    world.replica.counts(LEADS, |leads| leads < 1.0).await.context("it does not believe that it lost the Lease")?;
    let stream = world.replica.portcullis.metric("portcullis_xds_streams").await?;
    ensure!(stream == Some(1.0), "the proxy lost its stream: {stream:?}");
    // Negative and empty durations are nothing that an API server takes; what it takes at the end is over at once.
    for refused in [json!(-1), json!(0), json!(i64::MAX)] {
        let patch = Patch::Merge(json!({"spec": {"leaseDurationSeconds": refused}}));
        let answer = leases.patch("portcullis", &PatchParams::default(), &patch).await;
        ensure!(answer.is_err(), "an API server takes a duration of {refused}");
    }
    let over = Patch::Merge(json!({"spec": {"holderIdentity": "thief", "leaseDurationSeconds": 1}}));
    leases.patch("portcullis", &PatchParams::default(), &over).await?;
    world.replica.counts(LEADS, |leads| leads > 0.0).await.context("it waits for a thief that went")?;
    world.says("HTTPRoute", "during-29", "Accepted", "True").await?;

    leases.delete("portcullis", &DeleteParams::default()).await?;
    world.apply(&route("after", "edge", "healthy", 80)).await?;
    world.says("HTTPRoute", "after", "Accepted", "True").await?;
    world.is_unharmed(edge).await
}

#[tokio::test]
async fn a_lease_stolen_for_68_years_is_taken_back_after_four_durations() -> Result<()> {
    let server = ApiServer::shared().await?;
    let namespace = server.namespace().await?;
    let stolen = "{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: portcullis},\n\
         spec: {holderIdentity: thief, leaseDurationSeconds: 2147483647, renewTime: '2106-01-01T00:00:00.000000Z'}}";
    server.apply_in(&namespace, stolen).await?;
    let settings = Settings {
        duration: Duration::from_secs(5),
        // For so long an API server may take to answer, also when it is given back.
        renew: Duration::from_millis(1500),
        retry: Duration::from_millis(100),
        ..Settings::new(namespace.as_str(), "portcullis", "ours")
    };
    let kubeconfig = Kubeconfig::read_from(server.kubeconfig())?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let (elector, mut leadership) = LeaderElector::new(settings);
    let (shutdown, ended) = oneshot::channel::<()>();
    let task = tokio::spawn(elector.run(cluster::status::client(config)?, async { drop(ended.await) }));
    timeout(TIMEOUT, leadership.wait_for(cluster::lease::Leadership::leads))
        .await
        .context("it waits for 68 years")??;
    drop(shutdown);
    timeout(TIMEOUT, task).await??;
    let leases: Api<k8s_openapi::api::coordination::v1::Lease> = Api::namespaced(server.client().await?, &namespace);
    let spec = leases.get("portcullis").await?.spec.unwrap_or_default();
    ensure!(spec.holder_identity.is_none(), "it was given back: {spec:?}");
    Ok(())
}
