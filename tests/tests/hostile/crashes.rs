//! A controller that is killed while there is traffic and everything changes.

use anyhow::{Context, Result, ensure};
use portcullis_tests::api_server::ApiServer;

use crate::objects::route;
use crate::world::World;

/// How often it is killed.
const CRASHES: usize = 3;

/// How many routes are made before each.
const ROUTES: usize = 20;

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_is_killed_under_load_costs_no_request_and_loses_no_change() -> Result<()> {
    let mut world = World::new(ApiServer::shared().await?).await?;
    let edge = world.edge().await?;
    for crash in 0..CRASHES {
        for number in 0..ROUTES {
            world.apply(&route(&format!("r{crash}-{number}"), "edge", "healthy", 80)).await?;
            if number == ROUTES / 2 {
                // In the middle of writing statuses and of sending routes.
                world.replica.portcullis.crash().await?;
            }
        }
        world.replica.portcullis.wait_until_ready().await?;
        for number in [0, ROUTES / 2, ROUTES - 1] {
            edge.proxy.answers(&format!("/r{crash}-{number}"), 200).await.with_context(|| format!("crash {crash}"))?;
        }
    }
    for name in ["r0-0".to_owned(), format!("r{}-{}", CRASHES - 1, ROUTES - 1)] {
        world.says("HTTPRoute", &name, "Accepted", "True").await?;
    }
    let served = world.replica.portcullis.snapshot().await?;
    let statuses = served["statuses"].as_array().into_iter().flatten();
    let routes = statuses.filter(|status| status["kind"] == "HTTPRoute").count();
    ensure!(routes == CRASHES * ROUTES + 1, "{routes} routes are known");
    world.is_unharmed(edge).await
}
