//! An API server, or somebody before it, whose watches repeat themselves and come out of order.

use anyhow::{Context, Result, ensure};
use portcullis_tests::api_server::{ApiServer, Verdict};

use crate::objects::{route, service};
use crate::world::{World, backend};

/// How often an object turns.
const TURNS: usize = 12;

#[tokio::test(flavor = "multi_thread")]
async fn watches_that_repeat_what_was_and_come_out_of_order_end_in_what_is() -> Result<()> {
    let mut world = World::new(ApiServer::shared().await?).await?;
    let edge = world.edge().await?;
    let targets = [backend("one").await?, backend("two").await?];
    for target in &targets {
        world.apply(&service(target.name(), 80, "", target)).await?;
    }
    world.replica.way.judge(|_, path| if path.contains("watch=") { Verdict::Repeat } else { Verdict::Pass });
    world.replica.way.close();
    for turn in 0..TURNS {
        let target = &targets[turn % 2];
        world.apply(&route("turning", "edge", target.name(), 80)).await?;
        edge.proxy.reaches("/turning", target).await.with_context(|| format!("turn {turn}"))?;
        world.apply(&route("coming", "edge", target.name(), 80)).await?;
        edge.proxy.reaches("/coming", target).await.with_context(|| format!("turn {turn}"))?;
        world.delete("HTTPRoute", "coming").await?;
        edge.proxy.answers("/coming", 404).await.with_context(|| format!("turn {turn}"))?;
    }
    let repeated = world.replica.way.repeated();
    ensure!(repeated > TURNS, "{repeated} events were repeated");
    world.says("HTTPRoute", "turning", "Accepted", "True").await?;
    world.replica.way.pass();
    world.is_unharmed(edge).await
}
