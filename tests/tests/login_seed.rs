//! What logins are proved by, in a real API server.

use anyhow::{Context, Result, ensure};
use cluster::identity::login_seed::{Seed, keep};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use portcullis_tests::api_server::ApiServer;
use portcullis_tests::wait::TIMEOUT;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;

const NAME: &str = "logins";

/// A replica that keeps the seed.
async fn replica(server: &ApiServer, namespace: &str, tasks: &mut JoinSet<()>) -> Result<mpsc::Receiver<Option<Seed>>> {
    let (told, heard) = mpsc::channel(1);
    let client = server.client().await?;
    tasks.spawn(keep(client, namespace.to_owned(), NAME, told));
    Ok(heard)
}

async fn next(heard: &mut mpsc::Receiver<Option<Seed>>) -> Result<Option<Seed>> {
    timeout(TIMEOUT, heard.recv()).await?.context("it ended")
}

#[tokio::test]
async fn replicas_that_find_no_seed_come_to_one_and_those_that_come_later_have_it_too() -> Result<()> {
    let server = ApiServer::shared().await?;
    let namespace = server.namespace().await?;
    let mut tasks = JoinSet::new();
    let mut seeds = Vec::new();
    let (mut one, mut other) =
        (replica(server, &namespace, &mut tasks).await?, replica(server, &namespace, &mut tasks).await?);
    for heard in [&mut one, &mut other] {
        // Who wrote second is told that first, and looks again.
        let first = next(heard).await?;
        seeds.push(if first.is_some() { first } else { next(heard).await? });
    }
    seeds.push(next(&mut replica(server, &namespace, &mut tasks).await?).await?);
    ensure!(seeds[0].is_some() && seeds.iter().all(|seed| *seed == seeds[0]), "they differ");
    let secrets: Api<Secret> = Api::namespaced(server.client().await?, &namespace);
    let stored = secrets.get(NAME).await?.data.and_then(|mut data| data.remove("seed")).context("nothing is stored")?;
    ensure!(seeds[0].is_some_and(|seed| seed[..] == stored.0[..]), "another one is stored");
    Ok(())
}

#[tokio::test]
async fn what_is_no_seed_is_never_taken_for_one_nor_written_over() -> Result<()> {
    let server = ApiServer::shared().await?;
    let namespace = server.namespace().await?;
    let short = format!("{{apiVersion: v1, kind: Secret, metadata: {{name: {NAME}}}, stringData: {{seed: short}}}}");
    server.apply_in(&namespace, &short).await?;
    let mut tasks = JoinSet::new();
    ensure!(next(&mut replica(server, &namespace, &mut tasks).await?).await?.is_none(), "it was taken");
    let secrets: Api<Secret> = Api::namespaced(server.client().await?, &namespace);
    let stored = secrets.get(NAME).await?.data.and_then(|mut data| data.remove("seed")).context("nothing is stored")?;
    ensure!(stored.0 == b"short", "it was written over");
    Ok(())
}
