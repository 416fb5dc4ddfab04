//! Whatever a hostile tenant writes, his victims are served as without him. `crates/translate` has the same in process,
//! with many more steps; here a real Envoy takes what comes of it.

use anyhow::{Context, Result, ensure};
use proptest::strategy::ValueTree;
use serde_json::Value;
use worlds::Draws;
use worlds::tenant::{NAMESPACES, tenant};

use crate::estate::Estate;

/// How often he writes all anew, besides what no run has had before.
const STEPS: usize = 40;

#[tokio::test(flavor = "multi_thread")]
async fn a_hostile_tenant_never_has_an_update_refused_or_a_victim_answered_otherwise() -> Result<()> {
    let mut estate = Estate::start().await?;
    let before = estate.owned_hosts().await?;
    ensure!(before.len() == 2, "not over HTTP and HTTPS: {before:?}");
    let (mut written, mut told) = (0, 0);
    let drawn = Draws::new().take(&tenant(&estate.place), STEPS);
    for (step, objects) in drawn.iter().map(ValueTree::current).enumerate() {
        written += objects.len();
        let words = || {
            let objects: Vec<_> = objects.iter().map(ToString::to_string).collect();
            format!("step {step}:\n{}", objects.join("\n"))
        };
        estate.written("tenant.json", &objects).await.with_context(words)?;
        estate.answers().await.with_context(words)?;
        let after = estate.owned_hosts().await?;
        ensure!(after == before, "{}\nturn what Envoy has of a victim:\n{before:?}\n{after:?}", words());
        estate.is_unharmed().await.with_context(words)?;
        told += refusals(&estate.portcullis.snapshot().await?);
    }
    println!("{} steps, {written} objects, {told} conditions that tell him what is wrong", drawn.len());
    ensure!(told > STEPS, "he is told {told} times what is wrong");
    estate.written("tenant.json", &[]).await?;
    ensure!(estate.owned_hosts().await? == before, "he left something behind");
    estate.is_unharmed().await
}

/// Conditions of his objects that are not as everybody wants them.
fn refusals(snapshot: &Value) -> usize {
    let statuses = snapshot["statuses"].as_array().into_iter().flatten();
    let his = statuses.filter(|status| NAMESPACES.iter().any(|of| status["metadata"]["namespace"] == *of));
    let parents = his.filter_map(|status| status["status"]["parents"].as_array()).flatten();
    let conditions = parents.filter_map(|parent| parent["conditions"].as_array()).flatten();
    conditions.filter(|condition| condition["status"] == "False").count()
}
